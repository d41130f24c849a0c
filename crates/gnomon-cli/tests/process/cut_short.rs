//! What a command that was cut short leaves, and what the next command makes of it.

use std::{
    fs,
    io::Write,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::harness::{Ran, gnomon, run, text};

const LOAD: &str = "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS v FROM generate_series(1, 20000) g";

fn sql(database: &Path, command: &str) -> Ran {
    run(&["sql", text(database), "--format", "csv", "-c", command])
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).map(Iterator::flatten);
    let mut names: Vec<String> =
        entries.into_iter().flatten().map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Kills a restore that waits for the rest of its backup.
fn killed_restore(backup: &[u8], directory: &Path) {
    let mut restore = gnomon(&["restore", "-", text(directory)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    restore.stdin.as_mut().unwrap().write_all(&backup[..backup.len() / 2]).unwrap();
    let began = Instant::now();
    while files(directory).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was begun");
        thread::sleep(Duration::from_millis(5));
    }
    restore.kill().unwrap();
    restore.wait().unwrap();
}

#[test]
fn a_killed_restore_is_refused_by_every_command_until_it_is_run_again() {
    let home = tempfile::tempdir().unwrap();
    let [source, target, fresh] = ["source", "target", "fresh"].map(|name| home.path().join(name));
    assert_eq!(sql(&source, LOAD).code, Some(0));
    let backup = gnomon(&["backup", text(&source), "--to", "-"]).stdin(Stdio::null()).output().unwrap();
    assert!(backup.status.success());
    killed_restore(&backup.stdout, &target);
    assert_eq!(files(&target), ["pages.restoring"]);
    let to = home.path().join("backups");
    for arguments in [
        &["sql", text(&target), "-c", "SELECT 1"][..],
        &["sql", text(&target), "--recovery", "page-log", "-c", "SELECT 1"],
        &["sql", text(&target), "--disk", text(&fresh), "-c", "SELECT 1"],
        &["sql", text(&fresh), "--disk", text(&target), "-c", "SELECT 1"],
        &["serve", text(&target), "--port", "0"],
        &["verify", text(&target)],
        &["inspect", text(&target)],
        &["scrub", text(&target)],
        &["disk", "list", text(&target)],
        &["disk", "add", text(&target), text(&home.path().join("other"))],
        &["backup", text(&target), "--to", text(&to)],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        assert!(
            ran.stderr.contains("an interrupted restore stands here: run `gnomon restore` again"),
            "{arguments:?}: {ran:?}"
        );
        assert_eq!(files(&target), ["pages.restoring"], "{arguments:?}");
    }
    // As a further disk it is in use.
    let added = run(&["disk", "add", text(&source), text(&target)]);
    assert_eq!(added.code, Some(1), "{added:?}");
    fs::write(home.path().join("backup"), &backup.stdout).unwrap();
    let again = run(&["restore", text(&home.path().join("backup")), text(&target)]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(sql(&target, "SELECT count(*) FROM t").stdout.contains("20000"));
}

/// An operation, the files that it leaves, the next command, its exit code and its answer.
type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], i32, &'a str);

/// An operation that was cut short, by the files that it leaves; the next command; and its exit code and answer.
#[test]
fn the_next_command_after_an_operation_that_was_cut_short() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source");
    assert_eq!(sql(&source, "CREATE TABLE t AS SELECT 1 AS a").code, Some(0));
    let backup = home.path().join("backup");
    let taken = gnomon(&["backup", text(&source), "--to", "-"]).stdin(Stdio::null()).output().unwrap();
    fs::write(&backup, taken.stdout).unwrap();
    let select = ["sql", "DIR", "-c", "SELECT 1"];
    let restore = ["restore", text(&backup), "DIR"];
    let none = home.path().join("none");
    let part = "0001-full.gnomon-backup.part";
    let table: [Row<'_>; 16] = [
        ("restore", &["pages.restoring"], &select, 1, "an interrupted restore"),
        ("restore", &["pages.restoring"], &["verify", "DIR"], 1, "an interrupted restore"),
        ("restore", &["pages.restoring"], &restore, 0, "verified"),
        ("create", &["pages.new"], &select, 0, "(1 row)"),
        ("create", &["pages.new"], &["verify", "DIR"], 1, "there is no database"),
        ("create", &["pages.new"], &restore, 0, "verified"),
        ("create by a page log", &["logged-pages.new"], &restore, 1, "are there already"),
        (
            "create by a page log",
            &["logged-pages.new"],
            &["sql", "DIR", "--recovery", "page-log", "-c", "SELECT 1"],
            0,
            "(1 row)",
        ),
        ("create by a page log", &["logged-pages.new"], &["verify", "DIR"], 1, "there is no database"),
        ("write a list", &["disks.new"], &select, 0, "(1 row)"),
        ("write a list", &["disks.new"], &["verify", "DIR"], 1, "there is no database"),
        ("backup", &[part], &["backup", "--list", "DIR", "--check"], 0, "file"),
        ("backup", &[part], &["backup", text(&source), "--to", "DIR"], 0, "0001-full"),
        ("backup", &[part], &["restore", "DIR", text(&none)], 1, "there are no backups"),
        ("backup", &[part], &select, 1, "it has other files"),
        ("backup", &[part], &restore, 1, "are there already"),
    ];
    for (number, (operation, left, next, code, answer)) in table.into_iter().enumerate() {
        let directory = home.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        for name in left {
            fs::write(directory.join(name), vec![0xa5; 5000]).unwrap();
        }
        let arguments: Vec<&str> =
            next.iter().map(|word| if *word == "DIR" { text(&directory) } else { *word }).collect();
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(code), "{operation}, {left:?}, then {next:?}: {ran:?}");
        assert!(format!("{ran:?}").contains(answer), "{operation}, {left:?}, then {next:?}: {ran:?}");
    }
}

//! Backups of databases that nobody has open, and of one that is served while its clients go on; and restoring them.
//! Skips pgbench where it is not installed.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::harness::{Ran, Served, gnomon, run, run_with, text};

fn good(ran: Ran) -> String {
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// A run that failed, with one line that says why.
fn bad(ran: Ran, part: &str) {
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(part) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

fn sql(db: &Path, command: &str) -> String {
    good(run(&["sql", text(db), "--format", "json", "--command", command]))
}

fn restored(sources: &[&str], db: &Path) -> Ran {
    run(&[&["restore"], sources, &[text(db)]].concat())
}

#[test]
fn a_directory_of_backups_is_filled_and_restored() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let (db, set) = (path("db"), path("set"));
    sql(&db, "CREATE TABLE t (k int PRIMARY KEY, v text)");
    sql(&db, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i");
    bad(run(&["backup", text(&db), "--to", text(&set), "--incremental"]), "take a full one first");
    let full = good(run(&["backup", text(&db), "--to", text(&set)]));
    assert!(full.starts_with("full backup ") && full.contains("0001-full.gnomon-backup"), "{full}");
    sql(&db, "UPDATE t SET v = 'changed' WHERE k = 7");
    good(run(&["backup", text(&db), "--to", text(&set), "--incremental"]));
    sql(&db, "DELETE FROM t WHERE k > 1000; CREATE TABLE u AS SELECT 1 AS one");
    let last = good(run(&["backup", text(&db), "--to", text(&set), "--incremental", "--json"]));
    assert!(last.contains("\"kind\":\"incremental\""), "{last}");

    let list = good(run(&["backup", "--list", text(&set), "--check"]));
    assert_eq!(list.matches(" sound ").count(), 3, "{list}");
    let size = |name: &str| std::fs::metadata(set.join(name)).unwrap().len();
    assert!(size("0002-incremental.gnomon-backup") * 5 < size("0001-full.gnomon-backup"));

    good(restored(&[text(&set)], &path("newest")));
    assert_eq!(sql(&path("newest"), "SELECT count(*)::int AS n FROM t, u"), "{\"n\":1000}\n");
    assert!(good(run(&["verify", text(&path("newest"))])).contains("sound"));
    let names: Vec<String> = good(run(&["backup", "--list", text(&set), "--json"]))
        .lines()
        .map(|line| line.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
        .collect();
    good(run(&["restore", text(&set), text(&path("second")), "--until", &names[1], "--json"]));
    assert_eq!(
        sql(&path("second"), "SELECT count(*)::int AS n, min(v) AS v FROM t"),
        "{\"n\":2000,\"v\":\"changed\"}\n"
    );
    let files: Vec<String> = ["0001-full", "0002-incremental", "0003-incremental"]
        .iter()
        .map(|name| set.join(format!("{name}.gnomon-backup")).display().to_string())
        .collect();
    good(restored(&[&files[0]], &path("first")));
    assert_eq!(
        sql(&path("first"), "SELECT count(*)::int AS n FROM t WHERE v <> 'changed'"),
        "{\"n\":2000}\n"
    );
    good(restored(&[&files[0], &files[1], &files[2]], &path("files")));

    // A database that was restored is another one.
    bad(run(&["backup", text(&path("first")), "--to", text(&set), "--incremental"]), "take a full backup");
    bad(restored(&[&files[1]], &path("no")), "down to a full one");
    bad(restored(&[&files[0], &files[2]], &path("no")), "name all of a chain");
    bad(restored(&[text(&set)], &db), "are there already");
    bad(restored(&[text(&path("nowhere"))], &path("no")), "cannot read the backup");
    bad(run(&["restore", text(&set), text(&path("no")), "--until", "0000000000000000-1"]), "--list");
    bad(run(&["restore", text(&set), text(&path("no")), "--until", "monday"]), "does not name a backup");
    bad(run(&["backup", text(&path("nowhere")), "--to", text(&set)]), "there is no database");
    bad(run(&["backup", "--list", text(&path("nowhere"))]), "there are no backups");
    assert!(!path("no").exists());
    assert_eq!(std::fs::read_dir(&set).unwrap().count(), 3, "what failed has left nothing");

    // What cannot be read as a backup is never passed over in silence, and stands in the way of nothing else.
    let fourth = set.join("0004-incremental.gnomon-backup");
    for what in ["empty", "link", "dangling link", "pipe", "directory", "copy"] {
        match what {
            "empty" => std::fs::write(&fourth, "").unwrap(),
            "link" => std::os::unix::fs::symlink(&files[2], &fourth).unwrap(),
            "dangling link" => std::os::unix::fs::symlink("/nowhere/at/all", &fourth).unwrap(),
            "pipe" => assert!(Command::new("mkfifo").arg(&fourth).status().unwrap().success()),
            "directory" => std::fs::create_dir(&fourth).unwrap(),
            _ => drop(std::fs::copy(&files[0], &fourth).unwrap()),
        }
        let name = "0004-incremental.gnomon-backup";
        bad(restored(&[text(&set)], &path("no")), name);
        bad(run(&["backup", text(&db), "--to", text(&set), "--incremental"]), name);
        let checked = run(&["backup", "--list", text(&set), "--check"]);
        assert!(checked.code == Some(1) && checked.stderr.contains(name), "{what}: {checked:?}");
        assert!(checked.stdout.contains(" UNREADABLE "), "{what}: {checked:?}");
        let until = path("until");
        good(run(&["restore", "--until", &names[1], text(&set), text(&until)]));
        std::fs::remove_dir_all(&until).unwrap();
        good(run(&["backup", text(&db), "--to", text(&set)]));
        std::fs::remove_file(set.join("0005-full.gnomon-backup")).unwrap();
        match what {
            "directory" => std::fs::remove_dir(&fourth).unwrap(),
            _ => std::fs::remove_file(&fourth).unwrap(),
        }
    }

    // Damage is found before it matters.
    let mut bytes = std::fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&files[1], bytes).unwrap();
    let checked = run(&["backup", "--list", text(&set), "--check"]);
    assert!(checked.code == Some(1) && checked.stdout.matches("DAMAGED").count() == 1, "{}", checked.stdout);
    bad(restored(&[text(&set)], &path("no")), "0002-incremental.gnomon-backup is damaged at byte");
    assert!(!path("no").exists());
    std::fs::remove_file(&files[1]).unwrap();
    let missing = format!("0003-incremental.gnomon-backup goes on from backup {}, which is not in", names[1]);
    let checked = run(&["backup", "--list", text(&set), "--check"]);
    assert!(checked.code == Some(1) && checked.stderr.contains(&missing), "{checked:?}");
    assert!(checked.stdout.contains(" INCOMPLETE ") && checked.stdout.contains(" sound "), "{checked:?}");
    let listed = run(&["backup", "--list", text(&set)]);
    assert!(listed.code == Some(0) && listed.stderr.contains(&missing), "{listed:?}");
    bad(restored(&[text(&set)], &path("no")), "which is not in");
}

#[test]
fn streams_go_through_pipes() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let db = path("db");
    sql(&db, "CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i");
    let stream = gnomon(&["backup", text(&db), "--to", "-"]).stdin(Stdio::null()).output().unwrap();
    assert!(stream.status.success());
    let file = path("backup");
    std::fs::write(&file, &stream.stdout).unwrap();
    let done = gnomon(&["restore", "-", text(&path("copy"))])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    good(done.into());
    assert_eq!(sql(&path("copy"), "SELECT sum(i)::int AS n FROM t"), "{\"n\":5050}\n");
    let name = String::from_utf8(stream.stderr).unwrap();
    let name = name.split("full backup ").nth(1).unwrap().split(' ').next().unwrap();
    sql(&db, "INSERT INTO t VALUES (1)");
    let changes = gnomon(&["backup", text(&db), "--to", "-", "--since", name]).output().unwrap();
    std::fs::write(path("changes"), &changes.stdout).unwrap();
    good(restored(&[text(&file), text(&path("changes"))], &path("both")));
    assert_eq!(sql(&path("both"), "SELECT sum(i)::int AS n FROM t"), "{\"n\":5051}\n");
    bad(run_with(&["restore", "-", text(&path("no"))], "no backup"), "standard input");
}

#[test]
fn a_served_database_is_backed_up_while_its_clients_go_on() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let (db, set) = (path("db"), path("set"));
    let server = Served::start(&db);
    bad(run(&["backup", text(&db), "--to", text(&set)]), "postgres://");
    for source in [
        "host=db password=pa55word sslmode=require",
        "Postgres://ann:pa55word@db",
        "postgres://u:pa55word/x@h",
    ] {
        let ran = run(&["backup", source, "--to", text(&set)]);
        assert!(!ran.stderr.contains("pa55word"), "{}", ran.stderr);
        bad(ran, "write postgres://USER@HOST");
    }
    let url = format!("postgres://gnomon@127.0.0.1:{}/gnomon", server.port);
    let mut client = server.connect().unwrap();
    client
        .batch_execute(
            "CREATE TABLE accounts (id int PRIMARY KEY, balance int, pad text);
             INSERT INTO accounts SELECT i, 100, repeat('x', 300) FROM generate_series(1, 5000) i",
        )
        .unwrap();
    let writers: Vec<_> = (0..3)
        .map(|writer: i32| {
            let mut client = server.connect().unwrap();
            gnomon_engine::sync::thread::spawn(move || {
                let mut moved = 0;
                // Until the server stops.
                let mut transfer = |round: i32| -> Result<(), postgres::Error> {
                    let (from, to) = ((round * 37 + writer) % 5000 + 1, (round * 101 + 7) % 5000 + 1);
                    let mut txn = client.transaction()?;
                    txn.execute("UPDATE accounts SET balance = balance - 1 WHERE id = $1", &[&from.min(to)])?;
                    txn.execute("UPDATE accounts SET balance = balance + 1 WHERE id = $1", &[&from.max(to)])?;
                    txn.commit()
                };
                while transfer(moved).is_ok() || moved == 0 {
                    moved += 1;
                }
                moved
            })
        })
        .collect();
    for round in 0..4 {
        let how: &[&str] = if round == 0 { &[] } else { &["--incremental"] };
        good(run(&[&["backup", &url, "--to", text(&set)], how].concat()));
    }
    let refused = client.batch_execute("BEGIN; BACKUP TO STDOUT").unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("transaction block"));
    drop(client);
    assert_eq!(server.interrupt(), Some(0));
    let moved: i32 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    assert!(moved > 10, "{moved}");
    let list = good(run(&["backup", "--list", text(&set), "--json"]));
    assert_eq!(list.lines().count(), 4);
    for (number, line) in list.lines().enumerate() {
        let name = line.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
        let copy = path(&format!("copy {number}"));
        good(run(&["restore", text(&set), text(&copy), "--until", name]));
        assert_eq!(
            sql(&copy, "SELECT count(*)::int AS n, sum(balance)::int AS total FROM accounts"),
            "{\"n\":5000,\"total\":500000}\n"
        );
    }
}

#[test]
fn sums_of_pgbench_agree_in_what_is_restored() {
    if Command::new("pgbench").arg("--version").output().is_err() {
        println!("skipped: pgbench is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let server = Served::start(&path("db"));
    let pgbench = |arguments: &[&str]| {
        let mut command = Command::new("pgbench");
        command.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "gnomon"]);
        command.args(arguments).arg("gnomon").stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    assert!(pgbench(&["-i", "-q", "-s", "1"]).wait().unwrap().success());
    let mut load = pgbench(&["-n", "-c", "4", "-j", "2", "-T", "4"]);
    let mut client = server.connect().unwrap();
    while client.query_one("SELECT count(*) FROM pgbench_history", &[]).unwrap().get::<_, i64>(0) == 0 {}
    drop(client);
    let url = format!("postgres://gnomon@127.0.0.1:{}/gnomon", server.port);
    good(run(&["backup", &url, "--to", text(&path("set"))]));
    for _ in 0..3 {
        good(run(&["backup", &url, "--to", text(&path("set")), "--incremental"]));
    }
    assert!(load.wait().unwrap().success());
    // psql has the same stream.
    let stream = Command::new("psql")
        .args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "gnomon", "-d", "gnomon"])
        .args(["-c", "BACKUP TO STDOUT"])
        .output()
        .unwrap();
    assert!(stream.status.success());
    std::fs::write(path("stream"), stream.stdout).unwrap();
    assert_eq!(server.interrupt(), Some(0));
    good(restored(&[text(&path("set"))], &path("copy")));
    good(restored(&[text(&path("stream"))], &path("whole")));
    for copy in ["copy", "whole"] {
        let agree = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
            AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
            AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history) AS agree";
        assert_eq!(sql(&path(copy), agree), "{\"agree\":true}\n");
    }
}

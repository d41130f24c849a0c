//! Files of a database that do not go together, that are none, or that decay while the database is served.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::{FileExt, symlink},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::harness::*;

fn sql(database: &Path, arguments: &[&str]) -> Ran {
    run(&[&["sql", text(database)], arguments].concat())
}

/// An older data file beside a newer log: its rows are not served as if they were all.
#[test]
fn an_older_data_file_beside_a_newer_log_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let made = sql(
        &database,
        &[
            "--recovery",
            "value-log",
            "-c",
            "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 2050)",
        ],
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    let older = fs::read(database.join("pages")).unwrap();
    assert_eq!(sql(&database, &["-c", "INSERT INTO t SELECT generate_series(1, 2030)"]).code, Some(0));
    let newer = fs::read(database.join("pages")).unwrap();
    fs::write(database.join("pages"), older).unwrap();
    let ran = run(&["verify", text(&database)]);
    assert!(ran.code == Some(1) && ran.stdout.contains("file pages"), "{ran:?}");
    for _ in 0..2 {
        for command in ["sql", "serve", "scrub", "inspect"] {
            let ran = match command {
                "sql" => sql(&database, &["-c", "SELECT count(*) FROM t"]),
                "serve" => run(&["serve", text(&database), "--port", "0"]),
                command => run(&[command, text(&database)]),
            };
            assert_eq!(ran.code, Some(1), "{command}: {ran:?}");
            if command != "inspect" {
                assert!(
                    ran.stderr.contains("file pages does not go with the other files"),
                    "{command}: {ran:?}"
                );
            }
        }
    }
    // Nothing was changed by all that.
    fs::write(database.join("pages"), newer).unwrap();
    let ran = sql(&database, &["--format", "csv", "-c", "SELECT count(*) FROM t"]);
    assert!(ran.code == Some(0) && ran.stdout.contains("4080"), "{ran:?}");
    assert_eq!(run(&["verify", text(&database)]).code, Some(0));
}

/// Whatever has the name of a file of a database and is no regular file is refused by that name, at once, and stays.
#[test]
fn what_is_no_regular_file_is_refused_by_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    let made =
        sql(&whole, &["--recovery", "shadow", "-c", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let pages = whole.join("pages");
    let before = fs::read(&pages).unwrap();
    let backups = directory.path().join("backups");
    assert_eq!(run(&["backup", text(&whole), "--to", text(&backups)]).code, Some(0));
    for (number, kind) in ["a symbolic link", "a symbolic link", "a pipe", "a directory"].iter().enumerate() {
        for name in ["pages", "commits", "logged-pages", "disks"] {
            let database = directory.path().join(format!("{number}-{name}"));
            fs::create_dir(&database).unwrap();
            let path = database.join(name);
            match number {
                0 => symlink(&pages, &path).unwrap(),
                1 => symlink("/nowhere/at/all", &path).unwrap(),
                2 => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                _ => fs::create_dir(&path).unwrap(),
            }
            for arguments in [
                &["sql", text(&database), "--recovery", "shadow", "-c", "SELECT 1"][..],
                &["sql", text(&database), "-c", "SELECT 1"],
                &["serve", text(&database), "--port", "0"],
                &["verify", text(&database)],
                &["inspect", text(&database)],
                &["scrub", text(&database)],
                &["disk", "list", text(&database)],
                &["backup", text(&database), "--to", text(&directory.path().join("none"))],
                &["restore", text(&backups), text(&database)],
            ] {
                let ran = run(arguments);
                assert!(ran.code == Some(1), "{arguments:?}: {ran:?}");
                assert!(ran.stderr.contains(&format!("'{name}' is {kind}")), "{arguments:?}: {ran:?}");
            }
            assert_eq!(fs::read_dir(&database).unwrap().count(), 1, "nothing is made beside it");
        }
    }
    assert!(fs::read(&pages).unwrap() == before);
    // The directory itself may be reached by a link.
    let linked = directory.path().join("linked");
    symlink(&whole, &linked).unwrap();
    assert_eq!(sql(&linked, &["-c", "SELECT a FROM t"]).code, Some(0));
}

/// The text of a server's metrics.
fn metrics(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn metric(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// A served database finds damage by itself, repairs it from the mirror, and counts both.
#[test]
fn a_served_database_repairs_what_decays() {
    let directory = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
    let made = sql(
        &one,
        &[
            "--disk",
            text(&two),
            "--mirrored",
            "-c",
            "CREATE TABLE t (a int, b text); INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 3000) g",
        ],
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    let file = fs::OpenOptions::new().read(true).write(true).open(two.join("pages")).unwrap();
    for page in 4..file.metadata().unwrap().len() / 4096 {
        let at = page * 4096 + 700;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }
    let told = directory.path().join("told");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = gnomon(&["serve", text(&one), "--port", "0", "--scrub-mib-per-s", "1000"])
        .args(["--metrics", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&told).unwrap())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let found = loop {
        let found = metrics(port).unwrap_or_default();
        if metric(&found, "gnomon_scrub_passes_total").is_some_and(|passes| passes > 0) {
            break found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{found}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(metric(&found, "gnomon_scrub_copies_repaired_total").unwrap() > 50, "{found}");
    assert_eq!(metric(&found, "gnomon_scrub_copies_lost_total"), Some(0), "{found}");
    assert_eq!((metric(&found, "gnomon_disks"), metric(&found, "gnomon_disks_lost")), (Some(2), Some(0)));
    assert!(metric(&found, "gnomon_scrub_bytes_checked_total").unwrap() > 1 << 20, "{found}");
    assert_eq!(metric(&found, "gnomon_scrub_bytes_per_second"), Some(1000 << 20), "{found}");
    assert!(Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    let told = fs::read_to_string(told).unwrap();
    assert!(told.contains("repaired from its copy"), "{told}");
    let ran = run(&["scrub", text(&one)]);
    assert!(ran.code == Some(0) && ran.stdout.contains(" 0 repaired"), "{ran:?}");
    // A log of pages has no such reading, and says so where it was asked for.
    let logged = directory.path().join("logged");
    assert_eq!(sql(&logged, &["--recovery", "page-log", "-c", "SELECT 1"]).code, Some(0));
    let ran = run(&["serve", text(&logged), "--port", "0", "--scrub-mib-per-s", "1"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("--scrub-mib-per-s"), "{ran:?}");
}

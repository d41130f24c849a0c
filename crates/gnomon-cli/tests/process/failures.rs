//! What cannot work says so in one line, with an exit code that scripts can test.

use std::{
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    pty::OpenptFlags,
    termios::{LocalModes, tcgetattr},
};

use crate::harness::{Ran, Served, gnomon, run, run_with, text};

fn made(directory: &Path) {
    let ran = run(&["sql", text(directory), "-c", "CREATE TABLE t (a integer PRIMARY KEY, b text)"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows: Vec<String> = (0..500).map(|row| format!("({row}, 'value {row}')")).collect();
    let ran = run_with(&["sql", text(directory)], &format!("INSERT INTO t VALUES {};", rows.join(", ")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_database_has_one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let server = Served::start(&database);
    for arguments in [
        &["serve", text(&database), "--listen", "127.0.0.1:0"][..],
        &["sql", text(&database), "-c", "SELECT 1"],
        &["verify", text(&database)],
        &["inspect", text(&database)],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        assert!(ran.stderr.contains("is in use by another process"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    assert_eq!(server.interrupt(), Some(0), "Ctrl-C closes in order");
    assert_eq!(run(&["verify", text(&database)]).code, Some(0));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for arguments in [
        &["nonsense"][..],
        &["sql"],
        &["bench", "tpcb", "--clients", "0"],
        &["bench", "tpcb", "--seconds", "0"],
        &["lab", "run", "shadow/nonsense"],
        &["serve", "--listen", "nowhere"],
        &["serve", "--listen", "5445", "--port", "5446"],
        &["serve", "--user", "alice"],
    ] {
        assert_eq!(run(arguments).code, Some(2), "{arguments:?}");
    }
    for command in ["bench tpcb", "bench objects", "serve", "sql db"] {
        let ran = run(&[&command.split(' ').collect::<Vec<_>>()[..], &["--recovery", "log"]].concat());
        assert_eq!(ran.code, Some(2), "{command}");
        assert!(
            ran.stderr.contains("there is no recovery method 'log': there are shadow,"),
            "{}",
            ran.stderr
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let ran = run(&["serve", text(&database), "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("give --user and --password-file"), "{}", ran.stderr);
    assert!(!database.exists(), "nothing is made before everything is checked");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for there in [false, true] {
        let ran = run(&["serve", text(&database), "--port", &port]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("in use") && ran.stderr.contains("give another port"), "{}", ran.stderr);
        assert_eq!(database.exists(), there, "no database is made for a server that cannot be");
        if !there {
            made(&database);
        }
    }
}

#[test]
fn a_directory_that_is_no_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("letter.txt"), "Dear Ada").unwrap();
    for command in ["verify", "inspect"] {
        let ran = run(&[command, text(directory.path())]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("there is no database in"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("make one by"), "that is refused: {}", ran.stderr);
        let ran = run(&[command, text(&directory.path().join("letter.txt"))]);
        assert!(ran.code == Some(1) && !ran.stderr.contains("make one by"), "{}", ran.stderr);
    }
    let absent = directory.path().join("absent");
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (command, path) in
        [("verify", &absent), ("inspect", &absent), ("verify", &empty), ("inspect", &empty)]
    {
        let ran = run(&[command, text(path)]);
        assert_eq!(ran.code, Some(1));
        let path = path.display();
        for part in [format!("there is no database in {path} ("), format!("make one by `gnomon sql {path}`")]
        {
            assert!(ran.stderr.contains(&part), "{}", ran.stderr);
        }
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    assert!(!absent.exists() && std::fs::read_dir(&empty).unwrap().next().is_none());
    let file = directory.path().join("letter.txt");
    let ran = run(&["sql", text(&file), "-c", "SELECT 1"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is not a Gnomon database"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "Dear Ada");
}

#[test]
fn a_flipped_byte_is_found_and_its_page_named() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    made(&database);
    assert_eq!(run(&["verify", text(&database)]).code, Some(0));
    // It was closed, so nothing is to be replayed, and all of it is there.
    let pages = database.join("pages");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(pages).unwrap();
    let len = file.metadata().unwrap().len();
    for sample in 0..12 {
        let offset = sample * (len - 1) / 11;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        let ran = run(&["verify", text(&database)]);
        assert_eq!(ran.code, Some(1), "byte {offset} of {len}: {ran:?}");
        assert!(ran.stdout.contains(&format!("page {}:", offset / 4096)), "byte {offset}: {ran:?}");
        file.write_all_at(&byte, offset).unwrap();
    }
    assert_eq!(run(&["verify", text(&database)]).code, Some(0));
}

#[test]
fn a_part_of_a_page_at_the_end_is_cut_off_by_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    made(&database);
    let file = std::fs::OpenOptions::new().write(true).open(database.join("pages")).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len + 1024).unwrap();
    let ran = run(&["verify", text(&database)]);
    assert!(ran.code == Some(1) && ran.stdout.contains("1024 bytes behind its last page"), "{ran:?}");
    assert_eq!(run(&["sql", text(&database), "-c", "SELECT 1"]).code, Some(0));
    assert_eq!(run(&["verify", text(&database)]).code, Some(0));
}

#[test]
fn small_pages_are_for_databases_that_are_made_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let (small, usual) = (directory.path().join("small"), directory.path().join("usual"));
    let create = "CREATE TABLE t (a integer PRIMARY KEY, b text) WITH (page_size = 512)";
    let ran = run(&["sql", text(&usual), "-c", create]);
    assert!(ran.code != Some(0) && ran.stderr.contains("page_bytes_min"), "{ran:?}");
    let ran = run(&["sql", text(&small), "--page-bytes-min", "500", "-c", create]);
    assert!(ran.code != Some(0) && ran.stderr.contains("give 512, 1024, 2048 or 4096"), "{ran:?}");
    let insert = "INSERT INTO t SELECT g, repeat('x', g) FROM generate_series(1, 300) g";
    for options in [&["--page-bytes-min", "512", "-c", create][..], &["-c", insert]] {
        let ran = run(&[&["sql", text(&small)], options].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let ran = run(&["inspect", text(&small)]);
    assert!(ran.code == Some(0) && ran.stdout.contains("\npages of 512 bytes: "), "{ran:?}");
    assert!(ran.stdout.contains("| 512 bytes |"), "{ran:?}");
}

#[test]
fn inspecting_changes_nothing_and_shows_what_is_left_of_a_damaged_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    made(&database);
    let file = database.join("pages");
    let whole = std::fs::read(&file).unwrap();
    let ran = run(&["inspect", text(&database)]);
    assert!(ran.code == Some(0) && ran.stdout.contains("table public.t"), "{ran:?}");
    assert!(ran.stdout.contains("\nsegments of 512 KiB: "), "{ran:?}");
    assert!(std::fs::read(&file).unwrap() == whole);
    // The copies of the root are mended by whoever writes; a page in the middle by nobody.
    for offset in [100, whole.len() / 2 + 100] {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        std::fs::write(&file, &damaged).unwrap();
        let ran = run(&["inspect", text(&database), "--json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stdout.contains(r#""sound":false"#), "{ran:?}");
        assert!(ran.stderr.contains("is damaged: `gnomon verify"), "{ran:?}");
        assert!(std::fs::read(&file).unwrap() == damaged);
    }
}

#[test]
fn how_a_database_recovers_is_shown_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let sql = |recovery| {
        run(&["sql", text(&database), "--recovery", recovery, "-c", "CREATE TABLE IF NOT EXISTS t (a int)"])
    };
    let made = sql("two-level");
    assert!(made.code == Some(0) && made.stderr.is_empty(), "{made:?}");
    assert_eq!(sql("two-level").code, Some(0));
    for (option, refusal) in [
        (
            &["--recovery", "single-level"][..],
            "recovers by two-level, as it was made: open it without asking for single-level",
        ),
        (&["--page-bytes-min", "512"], "have 4096 bytes, as it was made: open it without asking for 512"),
        (&["--mirrored", "--disk", text(&directory.path().join("b"))], "holds a database already"),
    ] {
        for command in
            [&["sql", text(&database), "-c", "SELECT 1"][..], &["serve", text(&database), "--port", "0"]]
        {
            let other = run(&[command, option].concat());
            assert!(other.code == Some(1) && other.stderr.contains(refusal), "{other:?}");
            assert!(other.stdout.is_empty(), "{other:?}");
        }
    }
    let ran = run(&["inspect", text(&database)]);
    assert!(
        ran.stdout.contains(", recovers by two-level\n") && ran.stdout.contains("\nlog of pages"),
        "{ran:?}"
    );
    let ran = run(&["backup", text(&database), "--to", text(&directory.path().join("backups"))]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("copy its directory while nothing has it open"),
        "{ran:?}"
    );
}

#[test]
fn a_closed_pipe_ends_a_program_silently() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    made(&database);
    let query = "SELECT a, repeat('x', 1000) FROM t";
    for arguments in [
        &["sql", text(&database), "-c", query][..],
        &["sql", text(&database), "--format", "json", "-c", query],
        &["inspect", text(&database)],
        &["verify", text(&database), "--json"],
        &["bench", "tpcb", "--seconds", "0.1", "--warm-up", "0", "--accounts-per-branch", "10"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = gnomon(arguments).stdin(Stdio::null()).stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.signal(), Some(13), "{arguments:?} ends by SIGPIPE, a shell's 141");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (database, backups) = (path("db"), path("backups"));
    made(Path::new(&database));
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for command in [
        "verify @db",
        "verify @db --json",
        "inspect @db",
        "inspect @db --json",
        "scrub @db",
        "disk list @db",
        "backup @db --to @backups --json",
        "backup --list @backups",
        "restore @backups @restored",
        "bench tpcb --seconds 0.1 --warm-up 0 --accounts-per-branch 10",
        "lab list",
        "sql @db -c VALUES(1)",
    ] {
        let command = command.replace("@db", &database).replace("@backups", &backups);
        let command = command.replace("@restored", &path("restored"));
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = gnomon(&arguments).stdin(Stdio::null()).stdout(full()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("cannot write to standard output"), "{command}: {said}");
    }
    for command in ["verify @nowhere", "sql @db -c selekt", "compare --file @nowhere", "lab report @nowhere"]
    {
        let command = command.replace("@db", &database).replace("@nowhere", &path("nowhere"));
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = gnomon(&arguments).stdin(Stdio::null()).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
    }
}

#[test]
fn the_end_of_the_terminal_stops_a_server_unless_it_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let started = |by: &[&str], database: &str| {
        let mut command = Command::new(by[0]);
        command.args(&by[1..]).args([env!("CARGO_BIN_EXE_gnomon"), "serve"]);
        command.args([text(&directory.path().join(database)), "--listen", "127.0.0.1:0"]);
        Served::start_by(command, Stdio::null())
    };
    let server = started(&["env", "--default-signal=HUP"], "one");
    server.hang_up();
    assert_eq!(server.wait(), Some(0));
    let server = started(&["nohup"], "two");
    server.hang_up();
    server.connect().unwrap().simple_query("SELECT 1").unwrap();
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_program_that_is_another_one_is_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::hard_link(env!("CARGO_BIN_EXE_gnomon"), path("gnomon"))
        .or_else(|_| std::fs::copy(env!("CARGO_BIN_EXE_gnomon"), path("gnomon")).map(drop))
        .unwrap();
    let bench = |arguments: &[&str]| -> Ran {
        let mut command = Command::new(path("gnomon"));
        command.args(arguments).env("PATH", "").stdin(Stdio::null()).output().unwrap().into()
    };
    let absent = bench(&["bench", "tpcb"]);
    assert_eq!(absent.code, Some(1));
    assert!(
        absent.stderr.contains("cargo build --release -p gnomon-cli -p gnomon-bench"),
        "{}",
        absent.stderr
    );
    std::os::unix::fs::symlink("gnomon", path("gnomon-bench")).unwrap();
    let own = bench(&["compare", "--help"]);
    assert_eq!(own.code, Some(1));
    assert!(own.stderr.contains("it is this program, not gnomon-bench"), "{}", own.stderr);
}

/// A file system in memory; none where this user must not mount one.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(options: &str) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(directory.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: this user cannot mount a file system");
        }
        mounted.then_some(Mounted(directory))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_read_only_file_system_is_told() {
    let Some(mounted) = Mounted::new("size=64m") else { return };
    let database = mounted.0.path().join("db");
    made(&database);
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(mounted.0.path()).status().unwrap();
    assert!(remounted.success());
    let ran = run(&["sql", text(&database), "-c", "SELECT 1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("read-only file system"), "{}", ran.stderr);
    for command in ["verify", "inspect"] {
        let ran = run(&[command, text(&database)]);
        assert_eq!(ran.code, Some(0), "{command} needs no writing: {}", ran.stderr);
    }
}

#[test]
fn a_full_disk_fails_a_transaction_and_nothing_else() {
    let Some(mounted) = Mounted::new("size=16m") else { return };
    let database = mounted.0.path().join("db");
    made(&database);
    let server = Served::start(&database);
    let mut client = server.connect().unwrap();
    client.batch_execute("CREATE TABLE big (a integer PRIMARY KEY, b text)").unwrap();
    let mut acknowledged = Vec::new();
    let failure = (0..).find_map(|number| {
        let value = "x".repeat(500_000);
        match client.execute("INSERT INTO big VALUES ($1, $2)", &[&number, &value]) {
            Ok(_) => {
                acknowledged.push(number);
                assert!(number < 100, "16 MiB never run full");
                None
            }
            Err(error) => Some(error),
        }
    });
    let failure = failure.unwrap();
    assert_eq!(failure.code().map(|code| code.code()), Some("53100"), "{failure}");
    let numbers = |client: &mut postgres::Client| -> Vec<i32> {
        client.query("SELECT a FROM big ORDER BY a", &[]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(numbers(&mut client), acknowledged);
    client.execute("DELETE FROM big WHERE a = 0", &[]).unwrap();
    drop(client);
    assert_eq!(server.interrupt(), Some(0));
    let server = Served::start(&database);
    assert_eq!(numbers(&mut server.connect().unwrap()), acknowledged[1..]);
}

/// By a log of pages a full disk is an error of the statement, and no reason not to open or close the database.
#[test]
fn a_log_of_pages_on_a_full_disk_opens_and_closes() {
    let Some(mounted) = Mounted::new("size=12m") else { return };
    for recovery in ["single-level", "two-level", "two-level-deferred"] {
        let database = mounted.0.path().join("db");
        let create = "CREATE TABLE t (a int PRIMARY KEY, b text)";
        assert_eq!(run(&["sql", text(&database), "--recovery", recovery, "-c", create]).code, Some(0));
        let fill = "INSERT INTO t SELECT g, repeat('x', 900) FROM generate_series(1, 8000) g";
        let full = run(&["sql", text(&database), "-c", fill]);
        assert!(full.code == Some(1) && full.stderr.contains("no space left"), "{recovery}: {full:?}");
        let ran = run(&["sql", text(&database), "--format", "csv", "-c", "SELECT count(*) FROM t"]);
        assert!(ran.code == Some(0) && ran.stdout.contains("count\n0\n"), "{recovery}: {ran:?}");
        std::fs::remove_dir_all(&database).unwrap();
    }
}

#[test]
fn a_full_disk_ends_a_restore_and_leaves_nothing() {
    let Some(mounted) = Mounted::new("size=1m") else { return };
    let home = tempfile::tempdir().unwrap();
    let [source, backup] = ["source", "backup"].map(|name| home.path().join(name));
    let load = "CREATE TABLE t AS SELECT g, repeat('x', 900) FROM generate_series(1, 5000) g";
    assert_eq!(run(&["sql", text(&source), "-c", load]).code, Some(0));
    let taken = gnomon(&["backup", text(&source), "--to", "-"]).stdin(Stdio::null()).output().unwrap();
    std::fs::write(&backup, taken.stdout).unwrap();
    let target = mounted.0.path().join("db");
    let ran = run(&["restore", text(&backup), text(&target)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let message = format!("cannot restore to {}: its disk is full: free space there", target.display());
    assert!(ran.stderr.contains(&message), "{ran:?}");
    assert!(!target.exists());
    // A backup names the file that it could not write.
    let to = mounted.0.path().join("set");
    let ran = run(&["backup", text(&source), "--to", text(&to)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(&format!("cannot write {}/0001-full", to.display())), "{ran:?}");
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
}

/// Whichever call of the system fails, the path is named.
#[test]
fn a_call_of_the_system_that_fails_is_told_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    made(&database);
    for (call, operation) in [
        ("pread64", "read"),
        ("fdatasync", "sync"),
        ("pwrite64", "write"),
        ("fallocate", "reserve space for"),
    ] {
        let new = directory.path().join(call);
        let (directory, file) = match call {
            "pread64" => (&database, "pages"),
            _ => (&new, "pages.new"),
        };
        let file = directory.join(file);
        let Ok(ran) = Command::new("strace")
            .args(["--follow-forks", "--quiet=all", "--trace", call])
            .args([&format!("--inject={call}:error=EIO"), "--trace-path", text(&file)])
            .args(["--output", "/dev/null", env!("CARGO_BIN_EXE_gnomon")])
            .args(["sql", text(directory), "-c", "SELECT 1"])
            .output()
        else {
            println!("skipped: strace is not installed");
            return;
        };
        let stderr = String::from_utf8_lossy(&ran.stderr);
        if stderr.contains("ptrace") {
            println!("skipped: this user cannot trace processes");
            return;
        }
        assert_eq!(ran.status.code(), Some(1), "{call}: {stderr}");
        assert!(stderr.contains(&format!("cannot {operation} {}: ", file.display())), "{call}: {stderr}");
    }
}

#[test]
fn a_terminal_shows_what_is_typed_again_after_ctrl_c() {
    let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    let typed = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let shows = || tcgetattr(&typed).unwrap().local_modes.contains(LocalModes::ECHO);
    assert!(shows());
    let mut program = gnomon(&["hash-password", "alice"])
        .stdin(typed.try_clone().unwrap())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    while shows() {
        assert!(began.elapsed().as_secs() < 30, "the password would be shown");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(program.wait().unwrap().code(), Some(130));
    assert!(shows());
}

/// As a full disk is: an error of the statement that needs more, after which others go on.
#[test]
fn a_limit_of_the_length_of_files_is_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("limited.gnomon");
    let kept = "CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)";
    let large = "CREATE TABLE large AS SELECT g, repeat('x', 900) FROM generate_series(1, 20000) g";
    let script = r#"ulimit -f 8192; "$0" sql "$1" -c "$2" -c "$3"; "$0" sql "$1" -c 'SELECT id FROM kept'"#;
    let ran = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_gnomon"), text(&database), kept, large])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(stderr.contains("53100") || stderr.contains("disk"), "{stderr}");
    assert!(ran.status.success() && stdout.contains("(1 row)"), "{stdout} {stderr}");
}

/// From some moment on every write to a file and every sync fails: the server says why and ends with an error, and what it
/// acknowledged is there when it is started again.
#[test]
fn a_server_whose_disk_fails_says_so_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    for recovery in ["value-log", "shadow", "two-level-deferred"] {
        let data = directory.path().join(recovery);
        let (said, traced) = (directory.path().join("said"), directory.path().join("traced"));
        let serve = gnomon(&["serve", text(&data), "--listen", "127.0.0.1:0", "--recovery", recovery]);
        let server = Served::start_by(serve, std::fs::File::create(&said).unwrap().into());
        let mut client = server.connect().unwrap();
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").unwrap();
        let injection = "--inject=fsync,fdatasync,pwrite64,pwritev,pwritev2:error=EIO";
        let strace =
            ["--follow-forks", injection, "--output", text(&traced), "--attach", &server.id().to_string()];
        let Ok(mut strace) = Command::new("strace").args(strace).stderr(Stdio::null()).spawn() else {
            println!("skipped: strace is not installed");
            return;
        };
        let mut acknowledged = 0;
        let error = loop {
            if strace.try_wait().unwrap().is_some_and(|status| !status.success()) {
                println!("skipped: this user cannot trace processes");
                return;
            }
            match client.execute("INSERT INTO t VALUES ($1)", &[&acknowledged]) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        let state = error.code().map(|state| state.code());
        assert!(matches!(state, Some("57P02" | "58030") | None), "{recovery}: {error:?}");
        assert_eq!(server.wait(), Some(1), "{recovery}");
        strace.wait().unwrap();
        let said = std::fs::read_to_string(&said).unwrap();
        let stopped = "the database stopped after a failure (I/O error: ";
        assert!(
            said.lines().last().unwrap().starts_with(&format!("gnomon: {stopped}")),
            "{recovery}: {said}"
        );
        let named = |operation: &str| said.contains(&format!("cannot {operation} {}/", data.display()));
        assert!(named("write") || named("sync"), "{recovery}: {said}");
        let server = Served::start(&data);
        let mut client = server.connect().unwrap();
        let rows: i64 = client.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
        // The one that was not acknowledged may be there or not.
        assert!(
            (acknowledged..=acknowledged + 1).contains(&(rows as i32)),
            "{recovery}: {rows} of {acknowledged}"
        );
        assert_eq!(server.interrupt(), Some(0));
    }
}

//! As many connections as were promised, whatever limits the process starts with.

use std::{
    net::TcpStream,
    process::{Command, Stdio},
};

use postgres::error::SqlState;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::harness::{Ran, Served, text};

/// The command that runs `gnomon` with arguments under limits of the shell, such as `-Sn 64`.
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_gnomon")]);
    command.args(arguments);
    command
}

#[test]
fn the_limit_on_open_files_is_raised_for_all_connections() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let arguments = ["serve", text(&database), "--listen", "127.0.0.1:0", "--connections-max", "100"];
    let server = Served::start_by(limited("-Sn 64", &arguments), Stdio::null());
    let mut clients: Vec<_> = (0..100).map(|_| server.connect().unwrap()).collect();
    // Connections that say nothing do not shut others out, in any number.
    let silent: Vec<TcpStream> =
        (0..500).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    for client in &mut clients {
        client.simple_query("SELECT 1").unwrap();
    }
    let refused = server.connect().err().unwrap();
    assert_eq!(refused.code(), Some(&SqlState::TOO_MANY_CONNECTIONS), "{refused:?}");
    drop(clients.pop());
    let again = (0..1000).find_map(|_| server.connect().ok());
    assert!(again.is_some(), "the place of a client that has gone is free");
    drop(silent);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn more_connections_than_the_system_allows_are_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let arguments = ["serve", text(&database), "--listen", "127.0.0.1:0", "--connections-max", "600"];
    let ran = Ran::from(limited("-n 1000", &arguments).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--connections-max 600 needs"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the system allows 1000: raise the hard limit"), "{}", ran.stderr);
    assert!(!database.exists(), "nothing is made before everything is checked");
}

#[test]
fn clients_without_a_file_descriptor_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let arguments = ["serve", text(&database), "--listen", "127.0.0.1:0"];
    let server = Served::start_by(limited("-n 1000", &arguments), Stdio::null());
    let mut client = server.connect().unwrap();
    let process = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    let set = |most: u64| {
        let limit = Rlimit { current: Some(most), maximum: Some(1000) };
        prlimit(Some(process), Resource::Nofile, limit).unwrap()
    };
    // As many as are open now: what a few connections more leave is none.
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count() as u64;
    let before = set(open);
    let mut more = Vec::new();
    let refused = (0..100).find_map(|_| server.connect().map(|client| more.push(client)).err()).unwrap();
    assert_eq!(refused.code(), Some(&SqlState::TOO_MANY_CONNECTIONS), "{refused:?}");
    assert!(format!("{refused:?}").contains("no file descriptor"), "{refused:?}");
    client.simple_query("SELECT 1").unwrap();
    set(before.current.unwrap());
    server.connect().unwrap();
    assert_eq!(server.interrupt(), Some(0));
}

//! PostgreSQL's own shell against the server: what its commands print is what they print of the same schema in
//! PostgreSQL 15, from which `psql.out` is. Skipped where psql is not installed.

use std::process::Command;

use crate::harness::Served;

fn psql(server: &Served, arguments: &[&str]) -> Option<String> {
    let port = server.port.to_string();
    let output = Command::new("psql")
        .args(["-X", "-q", "-h", "127.0.0.1", "-p", &port, "-U", "gnomon", "-d", "gnomon", "-P", "pager=off"])
        .args(arguments)
        .env("PGCLIENTENCODING", "UTF8")
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let missing = |line: &str| line.contains("Did not find any relation");
    assert!(stderr.lines().all(missing), "psql {arguments:?}: {stderr}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn psql_describes_objects_as_in_postgresql() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Served::start(directory.path());
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../gnomon-sql/tests/fixtures/schema.sql");
    if psql(&server, &["-v", "ON_ERROR_STOP=1", "-f", schema]).is_none() {
        println!("skipped: psql is not installed");
        return;
    }
    let commands = std::fs::read_to_string(format!("{here}/psql.sql")).expect("the commands");
    assert!(commands.lines().count() > 15);
    let printed = psql(&server, &["-f", &format!("{here}/psql.sql")]).expect("psql is installed");
    let expected = std::fs::read_to_string(format!("{here}/psql.out")).expect("what PostgreSQL prints");
    for (number, (line, wanted)) in printed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, wanted, "line {}", number + 1);
    }
    assert_eq!(printed.lines().count(), expected.lines().count());
}

//! PostgreSQL's own benchmark against the server: nothing fails, and its sums agree. Skipped where pgbench is not
//! installed. `GNOMON_PGBENCH_SCALE` (1) and `GNOMON_PGBENCH_SECONDS` (2) make it longer.

use std::process::Command;

use crate::harness::{Served, from_environment};

fn pgbench(server: &Served, arguments: &[&str]) -> String {
    let output = Command::new("pgbench")
        .args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "gnomon"])
        .args(arguments)
        .arg("gnomon")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pgbench {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pgbench_runs_unchanged_and_its_sums_agree() {
    if Command::new("pgbench").arg("--version").output().is_err() {
        println!("skipped: pgbench is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(&directory.path().join("db"));
    let scale = from_environment("GNOMON_PGBENCH_SCALE", 1).to_string();
    let seconds = from_environment("GNOMON_PGBENCH_SECONDS", 2).to_string();
    pgbench(&server, &["-i", "-q", "-s", &scale]);
    let mut client = server.connect().unwrap();
    let mut expected = 0;
    for (mode, script) in [
        ("simple", "tpcb-like"),
        ("extended", "tpcb-like"),
        ("prepared", "tpcb-like"),
        ("prepared", "simple-update"),
        ("prepared", "select-only"),
    ] {
        // Without -n it would truncate the history.
        let output =
            pgbench(&server, &["-n", "-c", "8", "-j", "2", "-T", &seconds, "-M", mode, "-b", script]);
        let number = |label: &str| -> i64 {
            let line = output
                .lines()
                .find_map(|line| line.strip_prefix(label))
                .unwrap_or_else(|| panic!("{output}"));
            line.trim().split([' ', '/']).next().unwrap().parse().unwrap()
        };
        assert_eq!(number("number of failed transactions:"), 0, "{output}");
        let processed = number("number of transactions actually processed:");
        assert!(processed > 0, "{output}");
        println!(
            "{mode} {script}: {}",
            output.lines().find(|line| line.starts_with("tps")).unwrap_or_default()
        );
        if script != "select-only" {
            expected += processed;
        }
        let mut one = |sql: &str| -> i64 { client.query_one(sql, &[]).unwrap().get(0) };
        let history = one("SELECT count(*) FROM pgbench_history");
        assert_eq!(history, expected, "{mode} {script}");
        let accounts = one("SELECT sum(abalance)::bigint FROM pgbench_accounts");
        assert_eq!(accounts, one("SELECT sum(delta)::bigint FROM pgbench_history"), "{mode} {script}");
        if script == "tpcb-like" {
            assert_eq!(accounts, one("SELECT sum(tbalance)::bigint FROM pgbench_tellers"), "{mode}");
            assert_eq!(accounts, one("SELECT sum(bbalance)::bigint FROM pgbench_branches"), "{mode}");
        }
    }
    drop(client);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn pgbench_runs_on_partitions_one_transaction_after_another() {
    if Command::new("pgbench").arg("--version").output().is_err() {
        println!("skipped: pgbench is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let arguments = ["--execution", "serial", "--executors", "2", "--recovery", "command-log"];
    let server = Served::start_with(&database, &arguments);
    pgbench(&server, &["-i", "-q", "--partitions=3", "--partition-method=hash"]);
    let seconds = from_environment("GNOMON_PGBENCH_SECONDS", 2).to_string();
    pgbench(&server, &["-n", "-c", "8", "-j", "2", "-T", &seconds, "-M", "prepared"]);
    // It is a database like any other, whichever way it is opened.
    assert_eq!(server.interrupt(), Some(0));
    let server = Served::start(&database);
    let mut client = server.connect().unwrap();
    let mut one = |sql: &str| -> i64 { client.query_one(sql, &[]).unwrap().get(0) };
    let accounts = one("SELECT sum(abalance)::bigint FROM pgbench_accounts");
    assert_eq!(accounts, one("SELECT sum(delta)::bigint FROM pgbench_history"));
    assert_eq!(accounts, one("SELECT sum(bbalance)::bigint FROM pgbench_branches"));
    assert_eq!(one("SELECT count(*) FROM pgbench_accounts"), 100_000);
    for partition in 1..=3 {
        assert!(one(&format!("SELECT count(*) FROM pgbench_accounts_{partition}")) > 30_000);
    }
    drop(client);
    assert_eq!(server.interrupt(), Some(0));
}

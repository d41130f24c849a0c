//! `gnomon sql`: scripts and commands.

use crate::harness::{run, run_with, text};

#[test]
fn the_bank_of_the_examples_runs_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("bank.gnomon");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bank.sql");
    let golden_path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/bank.out");
    let first = run(&["sql", text(&database), "--file", script]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    if std::env::var_os("GNOMON_UPDATE_GOLDEN").is_some() {
        std::fs::write(golden_path, &first.stdout).unwrap();
    }
    let golden = std::fs::read_to_string(golden_path).unwrap();
    assert_eq!(first.stdout, golden, "GNOMON_UPDATE_GOLDEN=1 takes the new output");
    let second = run(&["sql", text(&database), "--file", script]);
    assert_eq!((second.code, second.stdout), (Some(0), golden), "{}", second.stderr);
    let verified = run(&["verify", text(&database), "--json"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    let report: serde_json::Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["sound"], true);
    let inspected = run(&["inspect", text(&database), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&inspected.stdout).unwrap();
    let names: Vec<&str> =
        report["trees"].as_array().unwrap().iter().filter_map(|tree| tree["name"].as_str()).collect();
    for name in ["table public.accounts", "index public.accounts_customer", "table public.transfers"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let described = run(&["sql", text(&database), "-c", "\\d accounts"]);
    assert!(described.stdout.contains("\"within_limit\" CHECK"), "{described:?}");
}

#[test]
fn a_script_stops_at_its_first_error_and_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let script = directory.path().join("script.sql");
    std::fs::write(
        &script,
        "CREATE TABLE t (a integer);\nCOPY t FROM STDIN;\n1\n2\n\\.\n\nSELECT a,\n  1 / (a - a) FROM t;\nINSERT INTO t VALUES (3);\n",
    )
    .unwrap();
    let ran = run(&["sql", text(&database), "--file", text(&script)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("script.sql:7: ERROR:  division by zero"), "{}", ran.stderr);
    let counted = run(&["sql", text(&database), "-c", "SELECT count(*) FROM t", "--format", "csv"]);
    assert_eq!(counted.stdout, "count\n2\n", "{}", counted.stderr);
}

#[test]
fn commands_are_one_transaction_each_and_formats_are_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let database = text(&database);
    let made = run(&[
        "sql",
        database,
        "-c",
        "CREATE TABLE t (a integer, b text); INSERT INTO t VALUES (1, 'x,y'), (2, NULL)",
    ]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let failed = run(&["sql", database, "-c", "INSERT INTO t VALUES (3); SELECT 1/0", "-c", "SELECT 1"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("ERROR:  division by zero"), "{}", failed.stderr);
    let select = "SELECT * FROM t ORDER BY a";
    assert_eq!(
        run(&["sql", database, "-c", select]).stdout,
        " a |   b\n---+------\n 1 | x,y\n 2 | NULL\n(2 rows)\n\n"
    );
    assert_eq!(run(&["sql", database, "-c", select, "--format", "csv"]).stdout, "a,b\n1,\"x,y\"\n2,\n");
    assert_eq!(
        run(&["sql", database, "-c", select, "--format", "json"]).stdout,
        "{\"a\":1,\"b\":\"x,y\"}\n{\"a\":2,\"b\":null}\n"
    );
    assert_eq!(run(&["sql", database, "-c", "COPY t TO STDOUT"]).stdout, "1\tx,y\n2\t\\N\n");
}

#[test]
fn standard_input_is_a_script_and_an_open_transaction_is_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let ran = run_with(
        &["sql", text(&database), "--quiet"],
        "CREATE TABLE t (a integer);\nBEGIN;\nINSERT INTO t VALUES (1);\n",
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains("has been rolled back"), "{}", ran.stderr);
    let counted = run(&["sql", text(&database), "-c", "SELECT count(*) FROM t", "--format", "csv"]);
    assert_eq!(counted.stdout, "count\n0\n");
}

//! `gnomon sql`: scripts and commands.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use crate::harness::{Served, run, run_with, text};

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
    let count = |field: &str| report[field].as_u64().unwrap();
    assert_eq!(count("segments"), count("file_pages") / 128, "{report}");
    assert!(count("segments_empty") < count("segments"), "{report}");
    assert!(count("segments_empty") * 128 <= count("free_pages"), "{report}");
    let names: Vec<&str> =
        report["trees"].as_array().unwrap().iter().filter_map(|tree| tree["name"].as_str()).collect();
    for name in [
        "the catalog",
        "positions of sequences",
        "table public.accounts",
        "index public.accounts_customer",
        "table public.transfers",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let described = run(&["sql", text(&database), "-c", "\\d accounts"]);
    assert!(described.stdout.contains("\"within_limit\" CHECK"), "{described:?}");
    assert!(!described.stdout.contains(" rows)"), "{described:?}");
}

#[test]
fn a_script_can_change_the_meaning_of_backslashes() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let script = directory.path().join("script.sql");
    std::fs::write(
        &script,
        "SET escape_string_warning = off; SET standard_conforming_strings = off; SELECT 'a\\'; b';\nSELECT 'c\\';\n';\n\
         SET standard_conforming_strings = on; SELECT 'd\\'; SELECT 'e';\n",
    )
    .unwrap();
    let ran = run(&["sql", text(&database), "--format", "csv", "--file", text(&script)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for value in ["a'; b", "\"c';\n\"", "d\\", "e"] {
        assert!(ran.stdout.contains(value), "{value}: {}", ran.stdout);
    }
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
        " a |  b\n---+------\n 1 | x,y\n 2 | NULL\n(2 rows)\n\n"
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

#[test]
fn json_keeps_the_order_of_the_select_list() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let select = r#"SELECT 1 AS z, 'x' AS "a""b", NULL AS m, true AS z"#;
    let ran = run(&["sql", text(&database), "-c", select, "--format", "json"]);
    assert_eq!(ran.stdout, "{\"z\":1,\"a\\\"b\":\"x\",\"m\":null,\"z_2\":true}\n", "{}", ran.stderr);
}

#[test]
fn backslash_commands_look_as_in_psql() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let file = directory.path().join("it's rows.csv");
    let quoted = text(&file).replace('\'', "''");
    let script = format!(
        "CREATE SCHEMA s; CREATE TABLE s.t (a integer PRIMARY KEY, b text);
\\dn
\\l
\\dt
\\copy s.t from stdin
1\tx
2\ty
\\.
SELECT * FROM s.t ORDER BY a \\gx
SELECT count(*) FROM s.t;
\\gx
\\copy (SELECT b, a FROM s.t ORDER BY a) to '{quoted}' with (format csv, header)
DELETE FROM s.t;
\\copy s.t (b, a) from '{quoted}' csv header
TABLE s.t ORDER BY a;
"
    );
    let ran = run_with(&["sql", text(&database)], &script);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = "\
CREATE SCHEMA
CREATE TABLE
      List of schemas
  Name  |       Owner
--------+-------------------
 public | pg_database_owner
 s      | gnomon
(2 rows)

                         List of databases
  Name  | Owner  | Encoding | Collate |  Ctype  | Access privileges
--------+--------+----------+---------+---------+-------------------
 gnomon | gnomon | UTF8     | C.UTF-8 | C.UTF-8 |
(1 row)

       List of relations
 Schema | Name | Type  | Owner
--------+------+-------+--------
 s      | t    | table | gnomon
(1 row)

COPY 2
-[ RECORD 1 ]
a | 1
b | x
-[ RECORD 2 ]
a | 2
b | y
(2 rows)

 count
-------
     2
(1 row)

-[ RECORD 1 ]
count | 2
(1 row)

COPY 2
DELETE 2
COPY 2
 a | b
---+---
 1 | x
 2 | y
(2 rows)

";
    assert_eq!(ran.stdout, expected);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "b,a\nx,1\ny,2\n");
    let ran = run(&["sql", text(&database), "-c", "\\copy s.t from '/nonexistent/file'"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("\\copy cannot open /nonexistent/file: "), "{ran:?}");
    let ran = run(&["sql", text(&database), "-c", "\\frobnicate"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("there is no command \\frobnicate: \\?"), "{ran:?}");
}

#[test]
fn errors_show_the_line_and_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let ran = run(&["sql", text(&database), "-c", "SELECT 1,\n  nosuch"]);
    let expected = "ERROR:  column \"nosuch\" does not exist\nLINE 2:   nosuch\n          ^\n";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn a_hashed_password_lets_its_user_in() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let users = directory.path().join("users");
    let ran = run_with(&["hash-password", "ann"], "secret\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("ann:SCRAM-SHA-256$4096:"), "{}", ran.stdout);
    std::fs::write(&users, ran.stdout).unwrap();
    std::fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let server = Served::start_with(&database, &["--users-file", text(&users)]);
    let connect = |password: &str| {
        let config = format!("host=127.0.0.1 port={} user=ann password={password}", server.port);
        postgres::Client::connect(&config, postgres::NoTls).map(drop)
    };
    connect("secret").unwrap();
    assert_eq!(connect("wrong").unwrap_err().code().map(|code| code.code()), Some("28P01"));
    for (name, input) in [("", "secret\n"), ("#ann", "secret\n")] {
        assert_eq!(run_with(&["hash-password", name], input).code, Some(2), "{name}");
    }
    assert_eq!(run_with(&["hash-password", "ann"], "\n").code, Some(1));
}

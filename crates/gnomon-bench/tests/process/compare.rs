//! `gnomon-bench compare`: pgbench's own script and the example's, its report, and files that cannot be run.

use std::{path::Path, process::Command};

use crate::harness::{Ran, run, text};

const SHORT: [&str; 6] = ["--clients", "4", "--warm-up", "0.1", "--seed", "7"];

fn compare(file: &Path, more: &[&str]) -> Ran {
    run(&[&["compare", "--file", text(file)], &SHORT[..], more].concat())
}

/// Returns the JSON report of a comparison, which runs longer and longer until every variant has committed something: a
/// slow disk can hold up a short run for all of its time.
fn report(file: &Path, more: &[&str]) -> serde_json::Value {
    let mut reports = ["0.4", "4", "30"].iter().map(|seconds| {
        let ran = compare(file, &[&["--json", "--quick", "--seconds", seconds], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()
    });
    let has_committed = |variant: &serde_json::Value| variant["medians"]["committed"].as_u64() > Some(0);
    reports
        .find(|report| report["data"]["variants"].as_array().unwrap().iter().all(has_committed))
        .expect("committed transactions in half a minute")
}

/// What a comparison of a script is called.
fn experiment(script: &Path) -> String {
    format!("compare/{}", text(script).trim_start_matches('/'))
}

#[test]
fn scripts_of_pgbench_run_unchanged_and_their_sums_agree_after_recovery() {
    let directory = tempfile::tempdir().unwrap();
    let show = |name: &str| Command::new("pgbench").arg(format!("--show-script={name}")).output();
    let methods = ["--recovery", "value-log,two-level-deferred", "--dir", text(directory.path())];
    for (name, variants, checked) in [
        ("tpcb-like", 4, "sum(abalance) = "),
        ("simple-update", 4, "sum(abalance) = "),
        ("select-only", 2, "what the script keeps true is not known"),
    ] {
        let Ok(shown) = show(name) else {
            println!("skipped: pgbench is not installed");
            return;
        };
        let script = directory.path().join(name);
        std::fs::write(&script, shown.stderr).unwrap();
        let report = report(&script, &methods);
        assert_eq!((&report["experiment"], &report["seed"]), (&experiment(&script).into(), &7.into()));
        let all = report["data"]["variants"].as_array().unwrap();
        assert_eq!(all.len(), variants, "{report}");
        let notes = report["differences"].as_array().unwrap();
        assert!(notes.iter().any(|note| note.as_str().unwrap().contains(checked)), "{notes:?}");
        std::fs::remove_file(script).unwrap();
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "its databases are removed");
}

#[test]
fn the_sale_of_the_examples_is_reported_as_text_and_in_files() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let (sale, init) = (examples.join("sale.sql"), examples.join("sale-init.sql"));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let short = ["--seconds", "0.4", "--recovery", "none,shadow", "--rounds", "2"];
    let ran = compare(&sale, &[&short[..], &["--init", text(&init), "--out", text(&out)]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for said in [
        ": transactions of one's own\n",
        "| none (not durable) |",
        "rounds=2 ",
        "seed 7\n",
        "\nSemantic locks ",
        " with shadow: ",
        "\n- *: the best of its column",
        "processors that they share with the database",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    assert_eq!(std::fs::read_to_string(out.join("report.txt")).unwrap(), ran.stdout);
    assert!(std::fs::read_to_string(out.join("compare.svg")).unwrap().contains("semantic locks off"));
    let result = std::fs::read_to_string(out.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["settings"]["clients"], "4");
}

#[test]
fn files_that_cannot_be_run_are_refused_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let script = directory.path().join("script.sql");
    let init = directory.path().join("init.sql");
    std::fs::write(&init, "CREATE TABLE t (a integer);\n\nINSERT INTO u VALUES (1);\n").unwrap();
    let quick = ["--quick", "--recovery", "shadow", "--dir", text(directory.path()), "--out", text(&out)];
    for (sql, more, said) in [
        ("SELECT 1;\n\\begin\n", &[][..], "script.sql:2: there is no command \\begin: there are \\set, "),
        (
            "SELECT 1;\nSELECT :x;\n",
            &[],
            "script.sql:2: variable x is not set: set it by \\set before, or by --define x=",
        ),
        ("\\set x 1 +\n", &[], "script.sql:1: \\set: an expression is expected"),
        (
            "BEGIN;\nSELECT a\n  FROM t;\nEND;\n",
            &[],
            "script.sql:3: relation \"t\" does not exist, SQLSTATE 42P01, in: SELECT a FROM t",
        ),
        ("SELECT :x::integer;\n", &["-D", "x=many"], "SQLSTATE 22P02, in: SELECT :x::integer"),
        ("SELECT 1;", &["--init", text(&init)], "init.sql:3: relation \"u\" does not exist, SQLSTATE 42P01"),
        ("SELECT 1;", &["--init", "/nowhere/init.sql"], "cannot read /nowhere/init.sql: "),
    ] {
        std::fs::write(&script, sql).unwrap();
        let ran = compare(&script, &[&quick[..], more].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{sql}: {}", ran.stderr);
        let last = ran.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("gnomon-bench: compare: ") && last.contains(said), "{sql}: {}", ran.stderr);
        assert!(!out.exists(), "{sql}");
    }
    let ran = compare(&directory.path().join("none.sql"), &quick);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot read ") && ran.stderr.contains("none.sql: "), "{}", ran.stderr);
    // The parent is a file.
    let unwritable = script.join("out");
    let ran = compare(&script, &["--quick", "--out", text(&unwritable)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with(&format!("gnomon-bench: {}: ", unwritable.display())), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "the two files");
    for wrong in
        [["--recovery", "shadow,paper"], ["--semantic-locks", "maybe"], ["--define", "x"], ["--scale", "0"]]
    {
        assert_eq!(compare(&script, &wrong).code, Some(2), "{wrong:?}");
    }
}

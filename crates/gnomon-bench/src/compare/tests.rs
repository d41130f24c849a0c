use super::*;
use crate::recovery::{TWO_LEVEL, VALUE_LOG};

/// A short comparison of two clients.
fn comparison(script: &str, init: &str) -> Comparison {
    Comparison {
        script: Script::parse("s.sql", script, &[]).unwrap(),
        init: Some(("init.sql".into(), init.into())),
        scale: 1,
        clients: 2,
        warm_up_seconds: 0.02,
        measured_seconds: 0.2,
        rounds: 1,
        methods: Some(vec![Method::Of(VALUE_LOG)]),
        semantic_locks: Some(vec![true]),
        isolation: Isolation::ReadCommitted,
        pool_mib: 4,
        seed: 7,
        quick: true,
        dir: None,
    }
}

fn run(comparison: &Comparison) -> Result<Report> {
    comparison.run(Progress::silent(), &Arc::default())
}

fn refused(script: &str, init: &str) -> String {
    run(&comparison(script, init)).err().map(|error| error.to_string()).unwrap_or_default()
}

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, n bigint NOT NULL);
    INSERT INTO t SELECT id, 0 FROM generate_series(1, 10) AS id;";
const ADD: &str = "UPDATE t SET n = n + 1 WHERE id = 1;";

#[test]
fn every_method_runs_recovers_and_is_reported() {
    let methods = all_methods();
    let comparison = Comparison {
        methods: Some(methods.clone()),
        semantic_locks: Some(vec![true, false]),
        rounds: 2,
        measured_seconds: 0.1,
        ..comparison(ADD, TABLE)
    };
    let report = run(&comparison).unwrap();
    let variants = report.data["variants"].as_array().unwrap();
    assert_eq!(variants.len(), methods.len() * 2);
    for variant in variants {
        let (method, medians) = (variant["recovery"].as_str().unwrap(), &variant["medians"]);
        assert_eq!(variant["rounds"].as_array().unwrap().len(), 2);
        assert_eq!(variant["durable"], method != "none");
        assert!(
            medians["tps"].as_f64() > Some(0.0) && medians["recovery_ms"].as_f64() > Some(0.0),
            "{variant}"
        );
        let logs = !["none", "shadow"].contains(&method);
        let logged = medians["log_bytes_per_transaction"].as_f64();
        assert_eq!((logged > Some(10.0), medians["log_mib"].is_number()), (logs, logs), "{variant}");
        let paged = medians["page_bytes_per_transaction"].as_f64();
        assert!(paged > Some(100.0) || method != "shadow", "{variant}");
    }
    let text = report.to_string();
    assert!(text.contains("| none (not durable) |") && text.contains("\nFastest is "), "{text}");
    assert!(text.contains("settings: clients=2 file=s.sql init=init.sql isolation=read-committed"), "{text}");
}

#[test]
fn what_makes_no_difference_is_left_out_and_told() {
    let names = |comparison: Comparison| {
        let (variants, notes) = comparison.variants();
        let names: Vec<_> =
            variants.iter().map(|one| format!("{} {}", one.method.name(), one.locks())).collect();
        (names.join(", "), notes.len())
    };
    let all = |script: &str| Comparison { methods: None, semantic_locks: None, ..comparison(script, "") };
    let (update, notes) = names(all(ADD));
    assert_eq!(
        update,
        "none on, none off, shadow on, shadow off, value-log on, value-log off, single-level on, single-level off, \
         two-level on, two-level off, two-level-deferred on, two-level-deferred off"
    );
    assert_eq!(notes, 1);
    let (select, notes) = names(all("SELECT 1;"));
    assert_eq!(
        select,
        "none on, shadow on, value-log on, single-level on, two-level on, two-level-deferred on"
    );
    assert_eq!(notes, 2);
    let (calls, notes) = names(Comparison { isolation: Isolation::Serializable, ..all("CALL p(1);") });
    assert!(calls.contains("command-log on, command-log off, adaptive on") && notes == 0, "{calls}");
    let named = Comparison { methods: Some(vec![Method::Of(COMMAND_LOG); 2]), ..all("SELECT 1;") };
    assert_eq!(names(named), ("command-log on".into(), 1));
}

#[test]
fn a_script_that_changes_nothing_is_told_so() {
    let told = |script: &str| {
        let notes = run(&comparison(script, TABLE)).unwrap().differences;
        notes.iter().any(|note| note.starts_with("no transaction changed anything"))
    };
    assert_eq!((told(ADD), told("UPDATE t SET n = n + 1 WHERE id = 99;")), (false, true));
}

#[test]
fn scripts_compute_decide_keep_rows_and_call() {
    let script = "\\set id random(1, 10)
        SELECT id AS there, n FROM t WHERE id = :id \\gset got_
        SELECT 1 AS unset WHERE false \\aset
        \\if :got_there <> :id OR :got_n < 0
        SELECT 'not as it was', 1 / 0;
        \\elif :id % 2 = 0
        \\set change 2
        \\else
        \\set change CASE WHEN :got_n IS NULL THEN 1 ELSE NULL END
        \\endif
        \\sleep 100 us
        SET LOCAL lock_timeout = :wait;
        CALL change(:id, :change);";
    let init = format!(
        "{TABLE} CREATE PROCEDURE change(one integer, by bigint) LANGUAGE SQL AS
            $$ UPDATE t SET n = n + coalesce(by, 1) WHERE id = one $$;"
    );
    let comparison = Comparison {
        script: Script::parse("s.sql", script, &[("wait".into(), "10000".into())]).unwrap(),
        methods: Some(vec![Method::Of(COMMAND_LOG)]),
        isolation: Isolation::Serializable,
        ..comparison(ADD, &init)
    };
    let report = run(&comparison).unwrap();
    assert!(report.to_string().contains("define=wait=10000"), "{report}");
}

#[test]
fn transactions_that_conflict_are_run_again_with_the_same_variables() {
    let script = "\\set runs :runs + 1
        BEGIN ISOLATION LEVEL REPEATABLE READ;
        SELECT n FROM t WHERE id = 1 \\gset
        UPDATE t SET n = :n::bigint + 1 WHERE id = 1;
        INSERT INTO seen VALUES (:client_id, :runs);
        END;";
    let script = Script::parse("s.sql", script, &[("runs".into(), "0".into())]).unwrap();
    let database = SqlDatabase::open(Database::in_memory(Options::default()).unwrap()).unwrap();
    let session = || database.session(SessionOptions::default()).unwrap();
    let tables = format!("{TABLE} CREATE TABLE seen (client integer, runs integer);");
    plain::run(&mut session(), "init.sql", &tables).unwrap();
    let load = Load {
        clients: 4,
        warm_up: Duration::ZERO,
        measured: Duration::from_millis(200),
        seed: 7,
        cancel: Arc::default(),
    };
    let client = |number| ScriptClient::new(&script, session(), script.variables(number, 7, 1));
    let measured = drive_kinds(1, &load, client).unwrap().remove(0);
    assert!(measured.aborted > 0 && measured.committed > 0, "{measured:?}");
    let mut rows = session::Rows::default();
    // What a client counts has no gaps, so a try that failed has counted nothing.
    let counts = "SELECT (SELECT sum(n) FROM t), (SELECT count(*) FROM seen), (SELECT sum(most) FROM
        (SELECT max(runs) AS most FROM seen GROUP BY client) AS of_clients)";
    session().execute(counts, &mut rows).unwrap();
    let committed = Some(measured.committed_in_all.to_string());
    assert_eq!(rows.texts, [[committed.clone(), committed.clone(), committed]]);
}

#[test]
fn errors_name_the_line_the_statement_and_the_sqlstate() {
    let said = refused("\\set x 0\nSELECT n,\n  1 / :x\n  FROM t;", TABLE);
    assert_eq!(said, "s.sql:2: division by zero, SQLSTATE 22012, in: SELECT n, 1 / :x FROM t");
    let said = refused("SELECT :x;".replace(":x", "1,\n  nothing").as_str(), TABLE);
    assert!(
        said.starts_with("s.sql:2: column \"nothing\" does not exist, SQLSTATE 42703, in: SELECT 1, nothing")
    );
    assert!(refused(ADD, "").starts_with("s.sql:1: relation \"t\" does not exist, SQLSTATE 42P01"));
    assert!(refused(ADD, "CREATE TABLE t (;").starts_with("init.sql:1: syntax error"));
    assert!(refused("BEGIN;", TABLE).contains("s.sql: the script ends within a transaction"));
    assert!(
        refused("SELECT n FROM t \\gset", TABLE)
            .starts_with("s.sql:1: \\gset takes one row, and the query returned 10")
    );
    let said = refused("\\set x 1\nSELECT :x + :x;", "");
    assert!(said.contains("SQLSTATE 42725, in: SELECT :x + :x (variables have no types"), "{said}");
    let said = refused("SELECT n FROM t WHERE id = 1 \\gset\n\\set y :m + 1", TABLE);
    assert!(said.starts_with("s.sql:2: variable m is not set"), "{said}");
    assert!(refused("\\sleep 10 s\nSELECT 1", "").contains("too short with value-log"));
}

#[test]
fn commits_that_are_gone_after_recovery_are_found() {
    let comparison = comparison(ADD, TABLE);
    let mut runs =
        Runs { comparison: &comparison, made: Vec::new(), sums: None, checked: None, changed: None };
    let database = SqlDatabase::open(Database::in_memory(Options::default()).unwrap()).unwrap();
    let variant = |method| Variant { method, semantic_locks: true };
    let later = Csn(database.engine().durable_csn().0 + 1);
    let error = runs.check(variant(Method::Of(TWO_LEVEL)), &database, later, 1).unwrap_err();
    assert!(error.to_string().starts_with("two-level has lost commits in a crash"), "{error}");
    runs.check(variant(Method::None), &database, later, 1).unwrap();
}

#[test]
fn a_canceled_comparison_fails_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = Arc::new(AtomicBool::new(false));
    cancel.store(true, Ordering::Release);
    let comparison = Comparison { dir: Some(directory.path().into()), ..comparison(ADD, TABLE) };
    let error = comparison.run(Progress::silent(), &cancel).err().unwrap();
    assert_eq!(error.to_string(), "canceled");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_takes_long_ends_when_it_is_canceled() {
    let forever = "SELECT pg_sleep(1000);";
    for (script, init) in [("\\sleep 1000 s\nSELECT 1;", TABLE), (forever, TABLE), (ADD, forever)] {
        let (comparison, cancel) = (comparison(script, init), Arc::new(AtomicBool::new(false)));
        let clock = SystemClock::new();
        let error = thread::scope(|scope| {
            let running = scope.spawn(|| comparison.run(Progress::silent(), &cancel).err().unwrap());
            thread::sleep(Duration::from_millis(300));
            cancel.store(true, Ordering::Release);
            running.join().unwrap()
        });
        assert_eq!(error.to_string(), "canceled", "{script} {init}");
        assert!(clock.now() < Duration::from_secs(60), "{script} {init}");
    }
}

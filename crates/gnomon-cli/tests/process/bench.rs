//! `gnomon bench`, which is the program gnomon-bench: its reports and exit codes, in this process and on a server.

use crate::harness::{Ran, Served, gnomon, run, text};

const SHORT: [&str; 4] = ["--warm-up", "0.1", "--clients", "4"];

/// The measured seconds of a run, one after another until it measured enough: a slow disk can hold up a short run for
/// all of its time.
const SECONDS: [&str; 3] = ["0.6", "5", "60"];

/// Each workload, small.
const WORKLOADS: [&[&str]; 4] = [
    &["tpcb", "--accounts-per-branch", "100"],
    &["hotspot", "--accounts", "100", "--balance", "300"],
    &["stock", "--items", "3", "--think-ms", "1"],
    &["counter", "--keys", "50"],
];

fn bench(workload: &[&str], more: &[&str]) -> Ran {
    run(&[&["bench"], workload, &SHORT, &["--seconds", SECONDS[0]], more].concat())
}

/// The JSON report of a run that went well.
fn report(workload: &[&str], more: &[&str]) -> serde_json::Value {
    report_of(&[&["bench"], workload, &SHORT, more].concat(), |_| true)
}

/// Returns the JSON report of a run with all arguments but `--seconds`, which grow until it measured enough.
fn report_of(arguments: &[&str], is_enough: fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let mut reports = SECONDS.iter().map(|seconds| {
        let ran = run(&[arguments, &["--seconds", seconds, "--json", "--seed", "7"]].concat());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()
    });
    let report = reports
        .find(|report| report["committed"].as_u64().unwrap() > 0 && is_enough(report))
        .expect("enough transactions in a minute");
    assert_eq!((&report["workload"], &report["seed"]), (&arguments[1].into(), &7.into()));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&report["invariant"]["holds"], &report["settings"]["clients"]), (&true.into(), &4.into()));
    assert!(report["tps"].as_f64().unwrap() > 0.0 && report["latency_us"]["p50"].is_u64(), "{report}");
    assert!(report["refused"].is_u64() && report["aborted"].is_u64(), "{report}");
    assert!(report.as_object().unwrap().contains_key("lock_wait_share"), "{report}");
    report
}

#[test]
fn workloads_report_what_they_did_in_this_process() {
    for workload in WORKLOADS {
        for locks in ["on", "off"] {
            let report = report(workload, &["--semantic-locks", locks]);
            assert_eq!(
                (&report["store"], &report["settings"]["recovery"]),
                (&"gnomon".into(), &"value-log".into())
            );
            assert_eq!(report["settings"]["semantic_locks"], locks == "on");
            let detail = report["invariant"]["detail"].as_str().unwrap();
            assert!(detail.ends_with("also after reopening"), "{detail}");
        }
    }
    let ran = bench(WORKLOADS[1], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("hotspot on gnomon\nsettings: accounts 100, "), "{}", ran.stdout);
    assert!(ran.stdout.contains("| refused |") && ran.stdout.contains("invariant holds: "), "{}", ran.stdout);
}

#[test]
fn procedures_report_each_kind_of_transactions_under_both_executions() {
    let tpcc = ["tpcc", "--warehouses", "2", "--customers-per-district", "20", "--items", "200"];
    let voter = ["voter", "--contestants", "3"];
    let executions = [
        &["--partitions", "2", "--outstanding", "20", "--recovery", "adaptive"][..],
        &["--partitions", "3", "--executors", "2", "--recovery", "shadow"],
        &["--execution", "locked", "--recovery", "value-log"],
        &[
            "--execution",
            "locked",
            "--partitions",
            "2",
            "--outstanding",
            "5",
            "--recovery",
            "two-level-deferred",
        ],
        &["--rate", "500"],
    ];
    for (workload, kinds) in [(&tpcc[..], 5), (&voter, 1)] {
        for more in executions {
            let report = report(workload, more);
            let logs_commits =
                !["shadow", "two-level-deferred"].map(Into::into).contains(&report["settings"]["recovery"]);
            let all = report["kinds"].as_array().unwrap();
            assert_eq!(all.len(), kinds, "{report}");
            assert_eq!(all[0]["log_bytes"].is_number(), logs_commits, "{report}");
            let sum: u64 = all.iter().map(|kind| kind["committed"].as_u64().unwrap()).sum();
            assert_eq!(report["committed"], sum);
            let detail = report["invariant"]["detail"].as_str().unwrap();
            assert!(detail.ends_with("also after reopening"), "{detail}");
        }
    }
    let ran = bench(&tpcc, &["--mix", "100/0/0/0/0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("| new order "), "{}", ran.stdout);
    for wrong in [["--mix", "1/2/3"], ["--execution", "parallel"], ["--outstanding", "0"], ["--rate", "0"]] {
        let ran = bench(&tpcc, &wrong);
        assert_eq!(ran.code, Some(2), "{wrong:?}: {}", ran.stderr);
    }
}

#[test]
fn complex_objects_report_what_was_done_to_them_under_every_recovery_method() {
    let small = "objects --objects 30 --subobjects 60 --references 20 --operations 3 --own 3 --foreign 2 --service-ms 0.1";
    let small: Vec<&str> = small.split(' ').collect();
    for recovery in ["single-level", "two-level", "two-level-deferred", "shadow", "value-log"] {
        let report = report(&small, &["--recovery", recovery]);
        assert_eq!((&report["store"], &report["settings"]["recovery"]), (&"gnomon".into(), &recovery.into()));
        assert_eq!((&report["settings"]["foreign"], &report["settings"]["updates"]), (&2.into(), &20.into()));
        let detail = report["invariant"]["detail"].as_str().unwrap();
        assert!(detail.ends_with("also after reopening"), "{detail}");
    }
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("objects");
    let keep = ["--dir", text(&kept)];
    let ran = bench(&small, &keep);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("objects on gnomon\nsettings: clients 4, "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("| lock wait |") && ran.stdout.contains("invariant holds: "),
        "{}",
        ran.stdout
    );
    let again = bench(&small, &keep);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.ends_with("holds a database already: give another directory\n"), "{}", again.stderr);
    let impossible = bench(&["objects", "--objects", "3"], &[]);
    assert_eq!(impossible.code, Some(1));
    assert!(impossible.stderr.contains("12 operations on different objects of 3"), "{}", impossible.stderr);
}

#[test]
fn workloads_report_what_they_did_on_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(&directory.path().join("db"));
    let url = format!("postgres://gnomon:secret@127.0.0.1:{}/gnomon", server.port);
    for locks in ["on", "off"] {
        for workload in WORKLOADS {
            let report = report(workload, &["--url", &url, "--semantic-locks", locks]);
            assert_eq!(report["store"], concat!("Gnomon server ", env!("CARGO_PKG_VERSION")));
            assert_eq!(report["settings"]["semantic_locks"], locks == "on");
            assert_eq!(
                report["settings"]["url"],
                format!("postgres://gnomon@127.0.0.1:{}/gnomon", server.port)
            );
        }
    }
    let mut client = server.connect().unwrap();
    let counters: i64 = client.query_one("SELECT count(*) FROM gnomon_bench_counter", &[]).unwrap().get(0);
    assert!((1..=50).contains(&counters), "the tables stay: {counters}");
    let accounts = "SELECT count(*), count(*) FILTER (WHERE balance < 0) FROM gnomon_bench_account";
    let row = client.query_one(accounts, &[]).unwrap();
    let (accounts, overdrawn): (i64, i64) = (row.get(0), row.get(1));
    assert!(accounts > 0 && overdrawn == 0, "{overdrawn} of {accounts} are overdrawn");
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn tpcc_reports_each_kind_of_transactions_on_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(&directory.path().join("db"));
    let url = format!("postgres://gnomon@127.0.0.1:{}/gnomon", server.port);
    let small = ["tpcc", "--warehouses", "2", "--customers-per-district", "10", "--items", "100"];
    // As many of each kind and no warm-up, so that a short run has all of them.
    let on_server = [&small[..], &["--mix", "20/20/20/20/20", "--url", &url]].concat();
    for isolation in ["serializable", "repeatable-read", "read-committed"] {
        let course = ["--isolation", isolation, "--clients", "4", "--warm-up", "0"];
        let report = report_of(&[&["bench"], &on_server[..], &course].concat(), |report| {
            report["kinds"].as_array().unwrap().iter().all(|kind| kind["committed"].as_u64().unwrap() > 0)
        });
        assert_eq!(report["store"], concat!("Gnomon server ", env!("CARGO_PKG_VERSION")));
        let settings = &report["settings"];
        assert_eq!((&settings["url"], &settings["isolation"]), (&url[..].into(), &isolation.into()));
        let kinds = report["kinds"].as_array().unwrap();
        let names: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["new order", "payment", "order status", "delivery", "stock level"]);
        let committed: Vec<_> = kinds.iter().map(|kind| kind["committed"].as_u64().unwrap()).collect();
        assert_eq!(report["committed"], committed.iter().sum::<u64>());
        let detail = report["invariant"]["detail"].as_str().unwrap();
        assert!(detail.starts_with("the 12 consistency conditions hold of 2 warehouses with "), "{detail}");
    }
    let mut client = server.connect().unwrap();
    let customers = "SELECT count(*) FROM gnomon_bench_customer WHERE c_w_id = 2";
    assert_eq!(client.query_one(customers, &[]).unwrap().get::<_, i64>(0), 100, "the tables stay");
    for option in [
        ["--recovery", "shadow"],
        ["--execution", "locked"],
        ["--executors", "2"],
        ["--outstanding", "2"],
        ["--rate", "10"],
        ["--pool-mib", "8"],
        ["--dir", "x"],
        ["--partitions", "2"],
    ] {
        let ran = bench(&on_server, &option);
        assert_eq!(ran.code, Some(2), "{option:?}");
        assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    }
    for alone in [&["--isolation", "serializable"][..], &["--url", &url, "--isolation", "snapshot"]] {
        assert_eq!(bench(&small, alone).code, Some(2), "{alone:?}");
    }
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_sale_ends_when_everything_is_sold() {
    let ran = run(&[
        "bench",
        "stock",
        "--items",
        "2",
        "--stock",
        "20",
        "--warm-up",
        "0",
        "--seconds",
        "60",
        "--json",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(report["seconds"].as_f64().unwrap() < 60.0, "{report}");
    assert!(report["refused"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_server_that_fails_is_an_error_and_its_own_options_exclude_those_of_a_database() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://gnomon@{}/gnomon", free.local_addr().unwrap());
    drop(free);
    let ran = bench(WORKLOADS[3], &["--url", &url]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains(&format!("counter: cannot connect to {url}: ")), "{}", ran.stderr);
    for option in [["--dir", "x"], ["--recovery", "shadow"], ["--pool-mib", "8"]] {
        let ran = bench(WORKLOADS[3], &[&["--url", &url], &option[..]].concat());
        assert_eq!(ran.code, Some(2), "{option:?}");
        assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    }
    for url in ["127.0.0.1:5433", "host=db password=pa55word", "mysql://ann:pa55word@db"] {
        for workload in ["counter", "tpcc"] {
            let ran = bench(&[workload], &["--url", url]);
            assert_eq!(ran.code, Some(1), "{url}");
            assert!(
                ran.stderr.contains("write postgres://") && !ran.stderr.contains("pa55word"),
                "{}",
                ran.stderr
            );
        }
    }
    for arguments in [["--zipf", "9"], ["--keys", "0"]] {
        assert_eq!(bench(&["counter"], &arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(&directory.path().join("db"));
    let url = format!("postgres://gnomon@127.0.0.1:{}/gnomon", server.port);
    let child = gnomon(&["bench", "counter", "--url", &url, "--clients", "4", "--seconds", "60"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut client = server.connect().unwrap();
    // The table is made at the beginning of the run.
    while client
        .query_one("SELECT count(*) FROM gnomon_bench_counter", &[])
        .map_or(0, |row| row.get::<_, i64>(0))
        == 0
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.kill();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("gnomon-bench: counter: "), "{}", ran.stderr);
}

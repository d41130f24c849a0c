//! `kbound/append`: what certified transactions of three real members cost beside the append of their changes in etcd.

use std::{path::Path, time::Duration};

use gnomon_bench::{
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::figure,
    },
    store::Result,
    workspace::Workspace,
};
use gnomon_cluster::{
    node::{Common, Node, Options, create},
    order::{Batch, EtcdLog, EtcdOptions, LocalEtcd, OrderedLog},
    protocol::{Commit, Entry, Level, Member, ReadSet, Settings, TxnName, Version},
};
use gnomon_engine::{
    Database, Error, Isolation, TreeId, TxnOptions,
    env::{Clock, Rng, SystemClock},
    sync::{Arc, thread},
};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::bench::{failed, start_etcd};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 2] = [
    "(this project) a lone client's commit takes at most 3 times the median append of etcd",
    "(this project) with the most clients, a second has more commits than appends that come one after another",
];
const CLIENTS: Setting = Setting {
    name: "clients",
    help: "at a time, spread over the members",
    full: "1,3,9,30,90",
    quick: "1,9",
};
const MEMBERS: Setting = Setting::same("members", "of the cluster", "3");
const ETCD: Setting = Setting::same("etcd-nodes", "of etcd, on this machine too", "1");
const SECONDS: Setting = Setting { name: "seconds", help: "of each measurement", full: "10", quick: "1" };
const BYTES: Setting = Setting::same("bytes", "of the row that a transaction writes", "100");
const ROWS: Setting =
    Setting { name: "rows", help: "of which it chooses one", full: "100000", quick: "10000" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kbound/append",
    source: "What certification costs on real members (this project)",
    measures: "snapshot transactions that write one row, on members and an etcd of this machine: throughput and latency by \
               clients, beside bare appends",
    stated: &STATED,
    settings: &[&[CLIENTS, MEMBERS, ETCD, SECONDS, BYTES, ROWS]],
    terms: &[
        "append: what one client of another etcd takes to append the changes of one transaction, one after another, before the \
         members begin and after they have ended, the means of both",
        "added: by how much a commit takes longer than that",
        "commits are durable in etcd and in the database of the client's member when they are told",
    ],
    run,
};

/// What takes longer counts as this.
const LONGEST_US: u64 = 60_000_000;

/// How long calls took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    count: u64,
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
}

impl Times {
    fn of(histogram: &Histogram<u64>, seconds: f64) -> Times {
        Times {
            count: histogram.len(),
            per_second: histogram.len() as f64 / seconds,
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    clients: usize,
    commits: Times,
    refused: u64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST_US, 3).expect("three digits are possible")
}

struct Bench<'l> {
    workspace: &'l Workspace,
    clock: SystemClock,
    seconds: Duration,
    bytes: usize,
    rows: u64,
    etcd: LocalEtcd,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let clients: Vec<usize> = settings.list(CLIENTS.name, 1, 10_000)?;
    let members = settings.number(MEMBERS.name, 1, 100)?;
    let etcd_nodes = settings.number(ETCD.name, 1, 9)?;
    let directory = workspace.new_path();
    let etcd = start_etcd(&directory, etcd_nodes)?;
    let bare = [workspace.new_path(), workspace.new_path()];
    let paths: Vec<_> = (0..members).map(|_| workspace.new_path()).collect();
    workspace.progress.set(0, clients.len() as u64 + 2);
    let bench = Bench {
        workspace,
        clock: SystemClock::new(),
        seconds: Duration::from_secs_f64(settings.number(SECONDS.name, 0.1, 3600.0)?),
        bytes: settings.number(BYTES.name, 1, 1_000_000)?,
        rows: settings.number(ROWS.name, 1, 10_000_000)?,
        etcd,
    };
    let before = bench.appends(&bare[0])?;
    let databases = paths.iter().map(|path| bench.database(path)).collect::<Result<Vec<_>>>()?;
    let nodes = databases
        .iter()
        .enumerate()
        .map(|(number, (database, marks, _))| {
            let log = Arc::new(open(&bench.etcd)?);
            let options = Options::new(format!("member {number}"), *marks);
            Node::start(Arc::new(database.clone()), log, options).map_err(failed)
        })
        .collect::<Result<Vec<Node>>>()?;
    let mut points = Vec::new();
    for count in &clients {
        bench.workspace.check_canceled()?;
        points.push(bench.commits(&databases, *count)?);
    }
    for node in &nodes {
        node.catch_up().map_err(failed)?;
    }
    bench.check_same(&databases)?;
    drop(nodes);
    let after = bench.appends(&bare[1])?;
    let append = Times {
        count: before.count + after.count,
        per_second: (before.per_second + after.per_second) / 2.0,
        p50_us: (before.p50_us + after.p50_us) / 2,
        p99_us: (before.p99_us + after.p99_us) / 2,
    };
    Ok(Outcome {
        claims: claims(&points, &append),
        differences: vec![format!(
            "{members} members in one process, and {etcd_nodes} etcd nodes beside it, share this machine"
        )],
        tables: vec![table(&points, &append)],
        figures: vec![plot(&points, &append)],
        data: serde_json::json!({ "points": points, "append": append, "before": before, "after": after }),
    })
}

fn open(etcd: &LocalEtcd) -> Result<EtcdLog> {
    EtcdLog::open(&EtcdOptions::new(etcd.endpoints(0))).map_err(failed)
}

impl Bench<'_> {
    /// Appends one after another, of what a transaction's changes are, in an etcd with its data in a directory.
    fn appends(&self, directory: &Path) -> Result<Times> {
        let etcd = start_etcd(directory, self.etcd.count())?;
        let log = open(&etcd)?;
        let member = log.join("bare", "").map_err(failed)?;
        let (mut times, begun) = (histogram(), self.clock.now());
        let mut sequence = 0;
        while self.clock.now() - begun < self.seconds {
            self.workspace.check_canceled()?;
            sequence += 1;
            let commit = Commit {
                txn: TxnName { member: Member(0), number: sequence },
                level: Level::Snapshot,
                start: Version(0),
                touched: Vec::new(),
                reads: ReadSet::default(),
                changes: vec![0; self.bytes + 60],
            };
            let start = self.clock.now();
            log.append(member, &Batch { sequence, entries: vec![Entry::Commit(commit)] }).map_err(failed)?;
            times.saturating_record((self.clock.now() - start).as_micros() as u64);
        }
        log.gone(member).map_err(failed)?;
        Ok(Times::of(&times, (self.clock.now() - begun).as_secs_f64()))
    }

    /// A database with the same data as the others.
    fn database(&self, path: &Path) -> Result<(Database, TreeId, TreeId)> {
        let database = Database::open(path, gnomon_engine::Options::default())?;
        let common = Common { data: 1, settings: Settings::default() };
        let marks = create(&database, &common)?;
        let mut txn = database.begin(TxnOptions::default())?;
        let tree = txn.create_tree()?;
        for row in 0..self.rows {
            txn.put(tree, &row.to_be_bytes(), &vec![0; self.bytes])?;
        }
        txn.commit()?;
        Ok((database, marks, tree))
    }

    fn commits(&self, databases: &[(Database, TreeId, TreeId)], clients: usize) -> Result<Point> {
        let begun = self.clock.now();
        let client = |number: usize| -> Result<(Histogram<u64>, u64)> {
            let (database, _, tree) = &databases[number % databases.len()];
            let mut rng = Rng::from_seed(self.workspace.seed.wrapping_add(number as u64));
            let (mut times, mut refused) = (histogram(), 0);
            while self.clock.now() - begun < self.seconds {
                let start = self.clock.now();
                let options = TxnOptions { isolation: Isolation::Snapshot, ..TxnOptions::default() };
                let mut txn = database.begin(options)?;
                let row = rng.below(self.rows);
                let value = rng.next_u64().to_le_bytes().repeat(self.bytes.div_ceil(8));
                let value = &value[..self.bytes];
                let committed = txn.put(*tree, &row.to_be_bytes(), value).and_then(|()| txn.commit());
                match committed {
                    Ok(_) => times.saturating_record((self.clock.now() - start).as_micros() as u64),
                    Err(Error::Serialization(_)) => refused += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok((times, refused))
        };
        let results: Vec<Result<(Histogram<u64>, u64)>> = thread::scope(|scope| {
            let client = &client;
            let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("clients do not panic")).collect()
        });
        let seconds = (self.clock.now() - begun).as_secs_f64();
        let (mut all, mut refused) = (histogram(), 0);
        for result in results {
            let (times, count) = result?;
            all += times;
            refused += count;
        }
        Ok(Point { clients, commits: Times::of(&all, seconds), refused })
    }

    /// Fails if members differ.
    fn check_same(&self, databases: &[(Database, TreeId, TreeId)]) -> Result<()> {
        let contents = |(database, _, tree): &(Database, TreeId, TreeId)| -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
            let mut txn = database.begin(TxnOptions::default())?;
            let mut scan =
                txn.scan(*tree, gnomon_engine::KeyRange::all(), gnomon_engine::Direction::Forward)?;
            let mut all = Vec::new();
            while let Some(row) = scan.next(&mut txn)? {
                all.push(row);
            }
            Ok(all)
        };
        let first = contents(&databases[0])?;
        for other in &databases[1..] {
            if contents(other)? != first {
                return Err(failed("members have different data"));
            }
        }
        Ok(())
    }
}

fn claims(points: &[Point], append: &Times) -> Vec<Claim> {
    let lone = points.iter().find(|point| point.clients == 1);
    let ratio = lone.map(|point| point.commits.p50_us as f64 / append.p50_us as f64);
    let most = points.iter().max_by_key(|point| point.clients);
    vec![
        Claim {
            figure: "latency",
            stated: STATED[0],
            measured: ratio.map_or_else(String::new, |ratio| format!("{} times", figure(ratio))),
            verdict: verdict(true, ratio.map(|ratio| ratio <= 3.0)),
        },
        Claim {
            figure: "throughput",
            stated: STATED[1],
            measured: most.map_or_else(String::new, |point| {
                format!(
                    "{} commits and {} appends a second",
                    figure(point.commits.per_second),
                    figure(append.per_second)
                )
            }),
            verdict: verdict(true, most.map(|point| point.commits.per_second > append.per_second)),
        },
    ]
}

fn table(points: &[Point], append: &Times) -> ResultTable {
    let added = |us: u64, bare: u64| (us as i64 - bare as i64).to_string();
    let row = |Point { clients, commits, refused }: &Point| {
        vec![
            clients.to_string(),
            figure(commits.per_second),
            commits.p50_us.to_string(),
            commits.p99_us.to_string(),
            added(commits.p50_us, append.p50_us),
            added(commits.p99_us, append.p99_us),
            refused.to_string(),
        ]
    };
    let bare = vec![
        "append".to_owned(),
        figure(append.per_second),
        append.p50_us.to_string(),
        append.p99_us.to_string(),
        String::new(),
        String::new(),
        String::new(),
    ];
    ResultTable {
        title: "Commits and appends".to_owned(),
        headings: vec!["clients", "a second", "p50 us", "p99 us", "added p50 us", "added p99 us", "refused"],
        rows: points.iter().map(row).chain([bare]).collect(),
    }
}

/// What a curve shows of a point.
type Drawn<'a> = &'a dyn Fn(&Point) -> f64;

fn plot(points: &[Point], append: &Times) -> Figure {
    let panel = |label, curves: &[(&str, Drawn<'_>)]| Panel {
        x: Axis { label: "clients", scale: Scale::Logarithmic(10) },
        y: Axis { label, scale: Scale::Linear },
        curves: curves
            .iter()
            .map(|(name, of)| Curve {
                label: (*name).to_owned(),
                points: points.iter().map(|point| (point.clients as f64, of(point))).collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    Figure {
        name: "kbound-append".to_owned(),
        title: "Commits on three members".to_owned(),
        panels: vec![
            panel("commits a second", &[("commits", &|point| point.commits.per_second)]),
            panel(
                "milliseconds",
                &[
                    ("commits, p50", &|point| point.commits.p50_us as f64 / 1000.0),
                    ("commits, p99", &|point| point.commits.p99_us as f64 / 1000.0),
                    ("append, p50", &|_| append.p50_us as f64 / 1000.0),
                    ("append, p99", &|_| append.p99_us as f64 / 1000.0),
                ],
            ),
        ],
    }
}

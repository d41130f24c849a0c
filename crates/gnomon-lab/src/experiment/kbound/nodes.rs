//! `kbound/nodes`: the paper's job on real members and etcd, at all levels beside each other.

use std::{collections::BTreeMap, time::Duration};

use gnomon::{
    Database, Error, Isolation, RowLock, Transaction, TreeId, TxnOptions,
    env::{Clock, Rng, SystemClock},
    op::number,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        thread,
    },
};
use gnomon_cluster::{
    node::{Common, Node, Options, create},
    order::{EtcdLog, EtcdOptions, LocalEtcd},
    protocol::{Level, Reason, Table},
    simulation::{Job, Jobs, Step},
};

use super::bench::{COMMON, Found, How, Load, PAPER, Point, REPLICAS, TERMS, TPS, failed, start_etcd, table};
use crate::{
    experiment::{Claim, Experiment, Lab, Outcome, Setting, Values, percent, verdict},
    store::Result,
};

const STATED: [&str; 3] = [
    "(this project) strict snapshots that count rows abort at most 5 % more of all transactions than GSI",
    "(this project) SER aborts more often than GSI, and GSI more often than GRC",
    "(this project) jobs that increment are never aborted under GSI",
];
const SCALE: Setting = Setting {
    name: "scale",
    help: "how much faster than in the paper transactions come, wait and execute",
    full: "10",
    quick: "20",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kbound/nodes",
    source: PAPER,
    measures: "times and aborts of six levels in equal parts, on real members and an etcd of this machine",
    stated: &STATED,
    settings: &[&[SCALE, TPS, REPLICAS], COMMON],
    terms: TERMS,
    run,
};

const LEVELS: [Level; 6] = [
    Level::Serializable,
    Level::KBound(0),
    Level::KBound(1),
    Level::KBound(2),
    Level::Snapshot,
    Level::ReadCommitted,
];
const HOWS: [How; 3] = [How::Voting, How::Used, How::Increments];
/// Transactions at a time, at most.
const WORKERS: usize = 64;

fn run(settings: &Values, lab: &mut Lab) -> Result<Outcome> {
    let scale: f64 = settings.number(SCALE.name, 1.0, 1000.0)?;
    let base = Load { levels: LEVELS.to_vec(), ..Load::new(settings)? };
    let mut points = Vec::new();
    let total = (HOWS.len() * base.transactions) as u64;
    for (number, how) in HOWS.into_iter().enumerate() {
        let load = Load { how, ..base.clone() };
        let directory = lab.new_path();
        let etcd = start_etcd(&directory, 1)?;
        let cluster = Cluster::start(lab, &etcd, &load)?;
        points.push(cluster.measure(lab, &load, scale, ((number * base.transactions) as u64, total))?);
    }
    Ok(Outcome {
        claims: claims(&points),
        differences: vec![
            format!("members, etcd and clients share this machine, and all times are {scale} times shorter"),
            "to execute takes the time that is set; to apply, what it takes".to_owned(),
        ],
        tables: vec![table("All levels on real members", "tps", &points)],
        figures: Vec::new(),
        data: serde_json::json!({ "points": points, "scale": scale }),
    })
}

/// Members with the same data.
struct Cluster {
    databases: Vec<Database>,
    nodes: Vec<Node>,
    tables: BTreeMap<Table, TreeId>,
}

/// How a transaction ended, and how long it took.
struct Ended {
    level: Level,
    took: Duration,
    has_committed: bool,
}

impl Cluster {
    fn start(lab: &mut Lab, etcd: &LocalEtcd, load: &Load) -> Result<Cluster> {
        let common = Common { data: 1, settings: load.how.settings() };
        let mut cluster = Cluster { databases: Vec::new(), nodes: Vec::new(), tables: BTreeMap::new() };
        for member in 0..load.replicas {
            let database = Database::open(lab.new_path(), gnomon::Options::default())?;
            let marks = create(&database, &common)?;
            let mut txn = database.begin(TxnOptions::default())?;
            for table in 0..4 {
                let tree = txn.create_tree()?;
                cluster.tables.insert(table, tree);
                for row in 0..load.rows.div_ceil(4) + 1 {
                    txn.put(tree, &row.to_be_bytes(), &0_i64.to_le_bytes())?;
                }
            }
            txn.commit()?;
            let log = EtcdLog::open(&EtcdOptions::new(etcd.endpoints(0))).map_err(failed)?;
            let log = Arc::new(log);
            let options = Options::new(format!("member {member}"), marks);
            let node = Node::start(Arc::new(database.clone()), log, options).map_err(failed)?;
            cluster.databases.push(database);
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    /// Has transactions come at random moments, each at a member.
    fn measure(&self, lab: &mut Lab, load: &Load, scale: f64, (before, total): (u64, u64)) -> Result<Point> {
        let mut rng = Rng::from_seed(lab.seed);
        let mut jobs = load.jobs();
        let mut at = Duration::ZERO;
        let arrivals: Vec<(Duration, Job)> = (0..load.transactions)
            .map(|_| {
                at += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / load.tps / scale);
                (at, jobs.next(&mut rng))
            })
            .collect();
        let (clock, next) = (SystemClock::new(), AtomicUsize::new(0));
        let ended: Mutex<Vec<(usize, Ended)>> = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((at, job)) = arrivals.get(number) else { return Ok(()) };
                thread::sleep(at.saturating_sub(clock.now()));
                let begun = clock.now();
                let has_committed = match self.run(number, job, load, scale) {
                    Ok(()) => true,
                    Err(Error::Serialization | Error::Deadlock) => false,
                    Err(error) => return Err(error.into()),
                };
                let took = clock.now() - begun;
                ended.lock().push((number, Ended { level: job.level, took, has_committed }));
            }
        };
        thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                lab.progress.set(before + ended.lock().len() as u64, total);
                thread::sleep(Duration::from_millis(50));
            }
            workers.into_iter().try_for_each(|worker| worker.join().expect("workers do not panic"))
        })?;
        lab.check_canceled()?;
        for node in &self.nodes {
            node.catch_up().map_err(failed)?;
        }
        let counted = ended.into_inner();
        let counted: Vec<&Ended> = counted
            .iter()
            .filter(|(number, _)| *number >= load.transactions / 20)
            .map(|(_, ended)| ended)
            .collect();
        Ok(Point {
            how: load.how,
            at: load.tps,
            found: LEVELS.map(|level| self.found(level, &counted)).to_vec(),
        })
    }

    fn found(&self, level: Level, ended: &[&Ended]) -> Found {
        let of_level = || ended.iter().filter(|ended| ended.level == level);
        let transactions = of_level().count() as f64;
        let mean_ms = |has_committed: bool| {
            let took: Vec<f64> = of_level()
                .filter(|ended| ended.has_committed == has_committed)
                .map(|ended| ended.took.as_secs_f64() * 1000.0)
                .collect();
            took.iter().sum::<f64>() / took.len() as f64
        };
        // Of all, the first ones too.
        let (mut all, mut stale) = (0, 0);
        for node in &self.nodes {
            for ((of, reason), count) in node.status().ended {
                if of == level {
                    all += count;
                    stale += if reason == Some(Reason::Stale) { count } else { 0 };
                }
            }
        }
        Found {
            level,
            transactions,
            complete_ms: mean_ms(true),
            abort_ms: mean_ms(false),
            aborts: of_level().filter(|ended| !ended.has_committed).count() as f64 / transactions,
            stale: stale as f64 / all as f64,
        }
    }

    /// Runs a job at a member.
    fn run(&self, number: usize, job: &Job, load: &Load, scale: f64) -> gnomon::Result<()> {
        let (isolation, missed_max) = match job.level {
            Level::ReadCommitted => (Isolation::ReadCommitted, None),
            Level::Snapshot => (Isolation::Snapshot, None),
            Level::KBound(k) => (Isolation::Snapshot, Some(k)),
            Level::Serializable => (Isolation::Serializable, None),
        };
        let options = TxnOptions { isolation, missed_max, ..TxnOptions::default() };
        let mut txn = self.databases[number % self.databases.len()].begin(options)?;
        let pause = |us: u64| thread::sleep(Duration::from_secs_f64(us as f64 / 1e6 / scale));
        for step in &job.steps {
            if let Step::Wait(us) = step {
                pause(*us);
                continue;
            }
            pause(load.times.step_us);
            txn.start_statement()?;
            self.execute(&mut txn, job.level, step)?;
            txn.end_statement()?;
        }
        txn.commit().map(drop)
    }

    fn execute(&self, txn: &mut Transaction, level: Level, step: &Step) -> gnomon::Result<()> {
        let tree = |table: &Table| self.tables[&(table % 1000)];
        match step {
            Step::Read(table, key) => drop(txn.get(tree(table), key)?),
            Step::Append(table, key, _) => {
                let value = match level {
                    Level::ReadCommitted => txn.get_locked(tree(table), key, RowLock::Update)?,
                    _ => txn.get(tree(table), key)?,
                };
                let bytes = value.and_then(|value| value.try_into().ok()).unwrap_or_default();
                txn.put(tree(table), key, &(i64::from_le_bytes(bytes) + 1).to_le_bytes())?;
            }
            Step::Add { table, key, delta, .. } => {
                txn.apply(tree(table), key, &number::add(i128::from(*delta)))?;
            }
            Step::Scan(..) | Step::Wait(_) => {}
        }
        Ok(())
    }
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let of = |how, level| {
        points
            .iter()
            .find(|point| point.how == how)
            .and_then(|point| point.of(level))
            .map(|found| found.aborts)
    };
    let strict = |how| of(how, Level::KBound(0)).zip(of(how, Level::Snapshot));
    let (tables, rows) = (strict(How::Voting), strict(How::Used));
    let shown = |(strict, gsi): (f64, f64)| format!("{} and {}", percent(strict, 1), percent(gsi, 1));
    let ordered =
        [Level::Serializable, Level::Snapshot, Level::ReadCommitted].map(|level| of(How::Used, level));
    let increments = of(How::Increments, Level::Snapshot);
    vec![
        Claim {
            figure: "SSI",
            stated: STATED[0],
            measured: rows.zip(tables).map_or_else(String::new, |(rows, tables)| {
                format!("{}; by tables {}", shown(rows), shown(tables))
            }),
            verdict: verdict(true, rows.map(|(strict, gsi)| strict - gsi <= 0.05)),
        },
        Claim {
            figure: "order",
            stated: STATED[1],
            measured: ordered
                .iter()
                .flatten()
                .map(|aborts| percent(*aborts, 1))
                .collect::<Vec<_>>()
                .join(", "),
            verdict: verdict(
                true,
                match ordered {
                    [Some(ser), Some(gsi), Some(grc)] => Some(ser > gsi && gsi > grc),
                    _ => None,
                },
            ),
        },
        Claim {
            figure: "increments",
            stated: STATED[2],
            measured: increments.map_or_else(String::new, |aborts| percent(aborts, 2)),
            verdict: verdict(true, increments.map(|aborts| aborts == 0.0)),
        },
    ]
}

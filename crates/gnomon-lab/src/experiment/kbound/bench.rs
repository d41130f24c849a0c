//! What the experiments share: the job, the protocols that are compared, what is counted, tables.

use std::{io::ErrorKind, path::Path};

use gnomon_bench::{
    result::{
        ResultTable,
        plot::Curve,
        text::{figure, percent},
    },
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_cluster::{
    order::LocalEtcd,
    protocol::{Level, ReadSet, Settings, Table},
    simulation::{self, Job, Jobs, Options, Step, Times, Which},
};
use gnomon_engine::{Conflict, env::Rng, sync::atomic::AtomicBool};
use serde::{Serialize, Serializer};

use super::members;
use crate::{
    experiment::{Setting, Values},
    simulation::replicate::{Effort, replicate},
};

pub const PAPER: &str = "A Performance Analysis of K-Bound, a Consistency Protocol Supporting Multiple Isolation Levels \
                         (Salinas and Muñoz-Escoí 2008)";

/// What tables' headings mean.
pub const TERMS: &[&str] = &[
    "GRC: read committed; GSI: snapshot isolation; SSI, k-bound: snapshots that have missed nothing, or at most k commits; \
     SER: serializable",
    "paper: the protocol of the paper's Figure 1, where what has missed too much is aborted and not run again; voting: the \
     one that is used, set to weak voting and bounds that count tables; used: with certified reads and bounds that count \
     rows; increments: the same, where jobs add to rows unseen; calls: the same, where serializable jobs are calls of \
     procedures, which each member runs in their place in as much time as it takes to apply a commit",
    "complete, abort: mean milliseconds from the beginning until the client is told; aborts: of all transactions; stale: \
     those that had missed too much",
];

pub const ON: Setting = Setting::same(
    "on",
    "simulated, or members: real ones, with an etcd of this machine; the paper's own protocol has none, and voting stands \
     for it",
    "simulated",
);
pub const SCALE: Setting = Setting {
    name: "scale",
    help: "on members: how much faster than in the paper transactions come, wait and execute",
    full: "10",
    quick: "20",
};
pub const REPLICAS: Setting = Setting::same("replicas", "members of the cluster", "3");
pub const TPS: Setting = Setting::same("tps", "transactions a second, over all members", "16");

/// The job, the machine, and how long to run.
pub const COMMON: &[Setting] = &[
    Setting {
        name: "transactions",
        help: "of each run; a twentieth of them does not count",
        full: "10000",
        quick: "1000",
    },
    Setting { name: "runs", help: "runs of each point, with other random numbers", full: "4", quick: "2" },
    Setting::same("reads", "rows that a job reads, in two tables of four", "14"),
    Setting::same("writes", "rows that a job writes, in two tables of four", "6"),
    Setting::same(
        "wait",
        "milliseconds of waiting between reads and writes, and again of waiting among the writes",
        "100",
    ),
    Setting::same("rows", "rows of all four tables", "10000"),
    Setting::same("hot-rows", "of them, in %, rows in the hot spot", "10"),
    Setting::same("hot", "of the accesses, in %, those to the hot spot", "55"),
    Setting::same("step", "milliseconds of executing one read or write", "14"),
    Setting::same(
        "apply",
        "milliseconds of applying a commit, on average; from two thirds to four thirds of it",
        "30",
    ),
    Setting::same("network", "milliseconds from a member to the log and back", "17"),
];

/// By which protocol a cluster runs, and how its jobs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    Paper,
    Voting,
    Used,
    Increments,
    Calls,
}

impl How {
    pub fn name(self) -> &'static str {
        match self {
            How::Paper => "paper",
            How::Voting => "voting",
            How::Used => "used",
            How::Increments => "increments",
            How::Calls => "calls",
        }
    }

    fn which(self) -> Which {
        match self {
            How::Paper => Which::Paper { restarts: false },
            _ => Which::Used(self.settings()),
        }
    }

    /// Of the protocol that is used.
    pub fn settings(self) -> Settings {
        match self {
            How::Voting => Settings { voting: true, bounds_by_rows: false, ..Settings::default() },
            _ => Settings::default(),
        }
    }
}

/// A cluster and its load.
#[derive(Clone, Debug)]
pub struct Load {
    pub how: How,
    /// Each is as likely.
    pub levels: Vec<Level>,
    pub tps: f64,
    pub replicas: usize,
    pub reads: u64,
    pub writes: u64,
    pub wait_us: u64,
    pub rows: u64,
    pub hot_rows: u64,
    pub hot_percent: u64,
    pub times: Times,
    pub transactions: usize,
}

impl Load {
    /// As the settings say, with one snapshot transaction after another.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn new(settings: &Values) -> Result<Load> {
        let us = |name| settings.number(name, 0.0, 1e6).map(|ms: f64| (ms * 1000.0) as u64);
        let rows: u64 = settings.number("rows", 8, 10_000_000)?;
        let apply = us("apply")?;
        let replicas =
            if settings.has(REPLICAS.name) { settings.number(REPLICAS.name, 1, 1000)? } else { 3 };
        Ok(Load {
            how: How::Used,
            levels: vec![Level::Snapshot],
            tps: if settings.has(TPS.name) { settings.number(TPS.name, 0.01, 1e6)? } else { 16.0 },
            replicas,
            reads: settings.number("reads", 0, 1000)?,
            writes: settings.number("writes", 1, 1000)?,
            wait_us: us("wait")?,
            rows,
            hot_rows: (rows * settings.number("hot-rows", 0, 100)? / 100).clamp(4, rows),
            hot_percent: settings.number("hot", 0, 100)?,
            times: Times {
                to_log_us: vec![us("network")?],
                jitter_us: us("network")? / 4,
                step_us: us("step")?,
                apply_us: apply * 2 / 3..=apply * 4 / 3,
                apply_own_us: apply * 2 / 3..=apply * 4 / 3,
            },
            transactions: settings.number("transactions", 100, 10_000_000)?,
        })
    }

    /// Its jobs, one after another.
    pub fn jobs(&self) -> Generated<'_> {
        Generated { load: self, next_item: 0 }
    }

    fn run(&self, seed: u64) -> std::result::Result<Vec<Found>, simulation::Violation> {
        let options = Options {
            times: self.times.clone(),
            transactions: self.transactions,
            interarrival_us: (1e6 / self.tps) as u64,
            ..Options::new(seed, self.replicas, self.how.which())
        };
        let history = simulation::run(&options, &mut self.jobs())?;
        let counted = &history.records()[self.transactions / 20..];
        Ok(self.levels.iter().map(|level| Found::of(*level, counted)).collect())
    }
}

/// A row: its table and its key.
type Row = (Table, Box<[u8]>);

/// The jobs of a load.
pub struct Generated<'l> {
    load: &'l Load,
    next_item: u64,
}

impl Generated<'_> {
    /// Two tables of four, and rows of them.
    fn rows(&self, count: u64, rng: &mut Rng) -> ([Table; 2], Vec<Row>) {
        let first = rng.below(4);
        let tables = [first, (first + 1 + rng.below(3)) % 4];
        let row = |rng: &mut Rng| {
            let rows = if rng.below(100) < self.load.hot_percent {
                rng.below(self.load.hot_rows / 4)
            } else {
                self.load.hot_rows / 4 + rng.below((self.load.rows - self.load.hot_rows) / 4 + 1)
            };
            (tables[rng.below(2) as usize], Box::from(rows.to_be_bytes()))
        };
        (tables, (0..count).map(|_| row(rng)).collect())
    }
}

impl Jobs for Generated<'_> {
    fn next(&mut self, rng: &mut Rng) -> Job {
        let Load { levels, how, reads, writes, wait_us, .. } = self.load;
        let level = levels[rng.below(levels.len() as u64) as usize];
        let (tables, rows) = self.rows(*reads, rng);
        let declared = match reads {
            0 => ReadSet::default(),
            _ => ReadSet::of_tables(tables),
        };
        let mut steps: Vec<Step> = rows.into_iter().map(|(table, key)| Step::Read(table, key)).collect();
        steps.push(Step::Wait(*wait_us));
        for (table, key) in self.rows(*writes, rng).1 {
            self.next_item += 1;
            steps.push(match how {
                // Numbers are elsewhere than lists.
                How::Increments => Step::Add { table: table + 1000, key, delta: 1, at_least: None },
                _ => Step::Append(table, key, self.next_item),
            });
            steps.push(Step::Wait(wait_us / writes));
        }
        let is_call = *how == How::Calls && level == Level::Serializable;
        Job { level, is_call, declared, steps }
    }
}

/// What was found of a level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Found {
    #[serde(serialize_with = "name")]
    pub level: Level,
    pub transactions: f64,
    pub complete_ms: f64,
    pub abort_ms: f64,
    /// Of the transactions.
    pub aborts: f64,
    /// Of the transactions, those that had missed too much.
    pub stale: f64,
}

fn name<S: Serializer>(level: &Level, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(level)
}

impl Found {
    fn of(level: Level, records: &[simulation::Record]) -> Found {
        use simulation::End;
        let of_level = || records.iter().filter(|record| record.level == level);
        let mean = |committed: bool| {
            let ended = of_level().filter(|record| match record.end {
                Some((End::Committed(_), _)) => committed,
                Some((End::Refused(_), _)) => !committed,
                _ => false,
            });
            let durations: Vec<f64> =
                ended.filter_map(simulation::Record::duration_us).map(|us| us as f64 / 1000.0).collect();
            durations.iter().sum::<f64>() / durations.len() as f64
        };
        let transactions = of_level().count() as f64;
        let refused = |stale: bool| {
            let refused = of_level().filter(|record| match record.end {
                Some((End::Refused(reason), _)) => !stale || reason == Conflict::Stale.into(),
                _ => false,
            });
            refused.count() as f64 / transactions
        };
        Found {
            level,
            transactions,
            complete_ms: mean(true),
            abort_ms: mean(false),
            aborts: refused(false),
            stale: refused(true),
        }
    }

    /// The means of runs, by level.
    pub fn means(runs: &[Vec<Found>]) -> Vec<Found> {
        let of = |number: usize| Found::mean(&runs.iter().map(|run| run[number]).collect::<Vec<_>>());
        (0..runs[0].len()).map(of).collect()
    }

    fn mean(runs: &[Found]) -> Found {
        let mean = |of: fn(&Found) -> f64| {
            let known: Vec<f64> = runs.iter().map(of).filter(|figure| figure.is_finite()).collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
        Found {
            level: runs[0].level,
            transactions: runs.iter().map(|found| found.transactions).sum(),
            complete_ms: mean(|found| found.complete_ms),
            abort_ms: mean(|found| found.abort_ms),
            aborts: mean(|found| found.aborts),
            stale: mean(|found| found.stale),
        }
    }
}

/// A load, and what was found of each of its levels.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub how: How,
    /// What is varied.
    pub at: f64,
    pub found: Vec<Found>,
}

impl Point {
    pub fn of(&self, level: Level) -> Option<&Found> {
        self.found.iter().find(|found| found.level == level)
    }
}

/// On what loads run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum On {
    /// Simulated clusters.
    Simulated,
    /// Real members, so many times faster than it is set.
    Members(f64),
}

impl On {
    /// As the settings say, [`ON`] and [`SCALE`] among them.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn new(settings: &Values) -> Result<On> {
        match settings.words(ON.name, &[("simulated", false), ("members", true)])?[0] {
            true => settings.number(SCALE.name, 1.0, 1000.0).map(On::Members),
            false => Ok(On::Simulated),
        }
    }

    /// The paper's protocol, or what stands for it.
    pub fn paper(self) -> How {
        match self {
            On::Simulated => How::Paper,
            On::Members(_) => How::Voting,
        }
    }

    /// The paper's protocol, or what stands for it, and those of others that are different.
    pub fn hows(self, others: &[How]) -> Vec<How> {
        let paper = self.paper();
        [paper].into_iter().chain(others.iter().copied().filter(|how| *how != paper)).collect()
    }

    /// Runs loads, each with what is varied.
    ///
    /// # Errors
    /// A promise that was not kept, what stops a member, and that it was canceled.
    pub fn measure(
        self,
        settings: &Values,
        workspace: &mut Workspace,
        loads: &[(f64, Load)],
    ) -> Result<Vec<Point>> {
        let runs = settings.number("runs", 1, 1000)?;
        match self {
            On::Simulated => simulate(workspace, loads, runs),
            On::Members(scale) => members::measure(workspace, loads, runs, scale),
        }
    }

    /// What differs from the paper.
    pub fn differences(self) -> Vec<String> {
        match self {
            On::Simulated => vec![
                "simulated clusters, in virtual time; the paper's ran on PostgreSQL and Spread".to_owned(),
                "the paper does not give the number of members, the sizes of a job and of the hot spot, or the times of its \
                 databases: they are settings here"
                    .to_owned(),
            ],
            On::Members(scale) => vec![
                format!(
                    "members, etcd and clients share this machine; all times are {scale} times shorter, and what is told is \
                     {scale} times what was measured"
                ),
                "to execute takes the time that is set; to order and to apply, what it takes: apply and network have no effect"
                    .to_owned(),
                "the paper's own protocol does not run there".to_owned(),
            ],
        }
    }
}

fn simulate(workspace: &mut Workspace, loads: &[(f64, Load)], runs: usize) -> Result<Vec<Point>> {
    let effort = Effort { precision: 1.0, replications_min: runs, replications_max: runs };
    let (seed, cancel) = (workspace.seed, workspace.cancel.clone());
    let cancel: &AtomicBool = &cancel;
    let progress = &mut workspace.progress;
    let show = &mut |done, total| progress.set(done, total);
    let found = replicate(loads, effort, seed, cancel, show, |(_, load), seed| load.run(seed), |_| 0.0)?;
    let point = |((at, load), runs): (&(f64, Load), Vec<_>)| {
        let runs: Vec<Vec<Found>> = runs
            .into_iter()
            .collect::<std::result::Result<_, _>>()
            .map_err(|violation| StoreError::unexpected(format!("a promise was not kept: {violation}")))?;
        Ok(Point { how: load.how, at: *at, found: Found::means(&runs) })
    };
    loads.iter().zip(found).map(point).collect()
}

/// What was found of a level by one protocol, as a curve over what is varied.
pub fn curve(label: String, points: &[Point], how: How, level: Level, of: fn(&Found) -> f64) -> Curve {
    let of_how = points.iter().filter(|point| point.how == how);
    Curve { label, points: of_how.filter_map(|point| Some((point.at, of(point.of(level)?)))).collect() }
}

/// What was found, as a table.
pub fn table(title: &str, at: &'static str, points: &[Point]) -> ResultTable {
    let row = |point: &Point, found: &Found| {
        vec![
            figure(point.at),
            point.how.name().to_owned(),
            found.level.to_string(),
            figure(found.transactions),
            figure(found.complete_ms),
            figure(found.abort_ms),
            percent(found.aborts, 2),
            percent(found.stale, 2),
        ]
    };
    ResultTable {
        title: title.to_owned(),
        headings: vec![at, "protocol", "level", "transactions", "complete ms", "abort ms", "aborts", "stale"],
        rows: points.iter().flat_map(|point| point.found.iter().map(|found| row(point, found))).collect(),
    }
}

/// What another part says went wrong.
pub fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::unexpected(error.to_string())
}

/// Starts nodes of etcd with their data in a directory.
///
/// # Errors
/// That it is not installed, and others of starting it.
pub fn start_etcd(directory: &Path, nodes: usize) -> Result<LocalEtcd> {
    LocalEtcd::start(directory, nodes, &[]).map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("etcd is not installed: apt-get install etcd-server"),
        _ => failed(format!("etcd cannot be started: {error}")),
    })
}

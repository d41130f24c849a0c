//! What the experiments have in common: settings, how a point is measured, and what is told of it.

use std::path::{Path, PathBuf};

use gnomon_bench::{
    procedure::{
        self, Called, Calls, Settings,
        tpcc::{CUSTOMERS_PER_DISTRICT, ITEMS, Tpcc},
        voter::Voter,
    },
    recovery::{COMMAND_LOG, Method, Recovery, VALUE_LOG},
    report::{KindReport, Latency},
    result::{ResultTable, text::figure},
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_engine::{
    Database, Execution, Options, Stats,
    disk::{Disk, MemDisk},
    env::{Clock, SystemClock, processors},
};
use gnomon_program::Progress;
use serde::Serialize;

use crate::experiment::{Setting, Values};

const SITES: Setting = Setting {
    name: "sites",
    help: "partitions, with an executor and a warehouse each; 0 is one for each processor",
    full: "0",
    quick: "2",
};
const SECONDS: Setting = Setting { name: "seconds", help: "measured of each load", full: "5", quick: "0.1" };
const WARM_UP: Setting = Setting { name: "warm-up", help: "seconds before that", full: "1", quick: "0.01" };
const CUSTOMERS: Setting = Setting {
    name: "customers",
    help: "of each of TPC-C's districts, and orders at the beginning",
    full: "3000",
    quick: "10",
};
const ITEM_COUNT: Setting = Setting { name: "items", help: "of TPC-C", full: "100000", quick: "100" };
const POOL: Setting = Setting {
    name: "pool-mib",
    help: "the buffer pool, in MiB; a checkpoint is taken when a quarter of it has changed",
    full: "2048",
    quick: "64",
};
const CLIENTS: Setting = Setting { name: "clients", help: "threads that call", full: "2", quick: "2" };
const OUTSTANDING: Setting = Setting {
    name: "outstanding",
    help: "calls that each client has under way at saturation",
    full: "2000",
    quick: "200",
};
pub(super) const INTERVAL: Setting = Setting {
    name: "group-commit-ms",
    help: "how long commits wait for others before they are forced together",
    full: "5",
    quick: "5",
};
pub(super) const ROUNDS: Setting = Setting {
    name: "rounds",
    help: "in which the methods take turns, of which the median counts",
    full: "5",
    quick: "1",
};

/// Of an experiment with many points, of which no small difference is stated.
pub(super) const FEW_ROUNDS: Setting = Setting { full: "3", ..ROUNDS };

/// What [`Bench::new`] reads.
pub(super) const BENCH_SETTINGS: &[Setting] = &[SITES, SECONDS, WARM_UP, CUSTOMERS, ITEM_COUNT, POOL];
/// What [`Bench::serial`] reads beside these.
pub(super) const SERIAL_SETTINGS: &[Setting] = &[CLIENTS, OUTSTANDING];

/// Where the experiments are from.
pub(super) const PAPER: &str = "Recovery algorithms for in-memory OLTP databases (Malviya 2012), chapter 5";

pub(super) const COMMAND: Method = Method::Of(COMMAND_LOG);
pub(super) const VALUE: Method = Method::Of(VALUE_LOG);
/// What the paper compares.
pub(super) const MODES: [Method; 3] = [Method::None, COMMAND, VALUE];
/// Those of them that survive a crash.
pub(super) const LOGS: [Method; 2] = [COMMAND, VALUE];

/// What the tables' headings are short for.
pub(super) const TERMS: &[&str] = &[
    "none: commits are acknowledged at once, and not forced; command-log, value-log: they are acknowledged when \
     the call, or what it has written, is in the log and that is forced",
    "tps: transactions a second, of all kinds; mean, p50, p99: from when a call was due to its answer",
    "busy: calls that were given up, since the queue of their executor was full or they met too many deadlocks; \
     deadlocks after which the engine runs a call again are not counted",
];

/// What was measured of one load under one method.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub workload: &'static str,
    pub settings: Settings,
    pub tps: f64,
    pub committed: u64,
    /// Calls that were given up.
    pub busy: u64,
    pub mean_ms: f64,
    pub latency_us: Latency,
    pub kinds: Vec<KindReport>,
    /// Of a point whose log was replayed.
    pub replay: Option<Replay>,
}

impl Point {
    /// What [`Point::cells`] stand below.
    pub const HEADINGS: [&'static str; 6] = ["method", "tps", "mean ms", "p50 ms", "p99 ms", "busy"];

    pub fn cells(&self) -> [String; Point::HEADINGS.len()] {
        [
            self.settings.recovery.name().to_owned(),
            figure(self.tps),
            figure(self.mean_ms),
            figure(self.latency_us.p50 as f64 / 1e3),
            figure(self.latency_us.p99 as f64 / 1e3),
            self.busy.to_string(),
        ]
    }
}

/// How the log of a run was replayed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Replay {
    /// Commits in the log: calls that have only read are none.
    pub commits: u64,
    pub log_bytes: u64,
    /// How long they took when they ran.
    pub run_seconds: f64,
    /// How long opening takes that replays them, by a thread for each processor: the median.
    pub seconds: f64,
    /// The same by one thread, where that was measured, too.
    pub one_thread_seconds: Option<f64>,
}

impl Replay {
    /// Commits a second.
    pub fn tps(&self) -> f64 {
        self.commits as f64 / self.seconds
    }

    /// Commits a second when they ran.
    pub fn run_tps(&self) -> f64 {
        self.commits as f64 / self.run_seconds
    }
}

/// The same load under several methods, which take turns in every round.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rounds(pub Vec<Vec<Point>>);

impl Rounds {
    fn of(&self, method: Method) -> impl Iterator<Item = &Point> {
        self.0.iter().flatten().filter(move |point| point.settings.recovery == method)
    }

    /// The point of a method with the median throughput.
    pub fn point(&self, method: Method) -> Option<&Point> {
        let mut points: Vec<&Point> = self.of(method).collect();
        points.sort_by(|a, b| a.tps.total_cmp(&b.tps));
        points.get(points.len().saturating_sub(1) / 2).copied()
    }

    /// The throughput of a method: the median.
    pub fn tps(&self, method: Method) -> f64 {
        self.point(method).map_or(f64::NAN, |point| point.tps)
    }

    /// The mean latency of a method: the median.
    pub fn mean_ms(&self, method: Method) -> f64 {
        median(self.of(method).map(|point| point.mean_ms).collect())
    }

    /// How many times the throughput of another method the one of a method is: the median over the rounds.
    pub fn speed(&self, method: Method, to: Method) -> f64 {
        self.ratio(method, to, |point| point.tps)
    }

    /// The same of mean latencies.
    pub fn slowness(&self, method: Method, to: Method) -> f64 {
        self.ratio(method, to, |point| point.mean_ms)
    }

    fn ratio(&self, method: Method, to: Method, of: fn(&Point) -> f64) -> f64 {
        median(self.of(method).zip(self.of(to)).map(|(a, b)| of(a) / of(b)).collect())
    }

    /// How the log of a method was replayed.
    pub fn replay(&self, method: Method) -> Option<&Replay> {
        self.of(method).find_map(|point| point.replay.as_ref())
    }
}

/// The one in the middle; of an even number, the lower one of both.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Whether a share is within 5 points of the stated one.
pub(super) fn is_close(measured: f64, stated: f64) -> bool {
    (measured - stated).abs() <= 0.05
}

/// How a load is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub rounds: u64,
    /// How often the log of the first round is replayed.
    pub replays: usize,
    /// Whether that is done by one thread, too.
    pub one_thread: bool,
    /// Whether the database is in memory, so that nothing waits for a disk.
    pub in_memory: bool,
}

impl How {
    /// On the disk, without a replay.
    pub fn rounds(rounds: u64) -> How {
        How { rounds, replays: 0, one_thread: false, in_memory: false }
    }
}

/// Where the database of a point is.
enum Place {
    Directory(PathBuf),
    Memory(MemDisk),
}

impl Place {
    fn open(&self, options: Options) -> Result<Database> {
        Ok(match self {
            Place::Directory(path) => Database::open(path, options)?,
            Place::Memory(disk) => Database::open_on(disk, options)?,
        })
    }
}

/// Measures points. Each has a copy of a database that was loaded once.
pub(super) struct Bench<'a> {
    pub workspace: &'a mut Workspace,
    pub voter: Voter,
    pub tpcc: Tpcc,
    /// Settings that all points have unless they have others.
    pub base: Settings,
    /// Points that there will be.
    pub total: u64,
    done: u64,
    loaded: Vec<(&'static str, Recovery, PathBuf)>,
}

impl<'a> Bench<'a> {
    /// Of clients that wait for each call, under locks.
    pub fn new(settings: &Values, workspace: &'a mut Workspace) -> Result<Bench<'a>> {
        let sites = match settings.number(SITES.name, 0, 64)? {
            0 => processors().min(64) as u16,
            sites => sites,
        };
        let tpcc = Tpcc {
            customers_per_district: settings.number(CUSTOMERS.name, 10, 30_000)?,
            items: settings.number(ITEM_COUNT.name, 100, 10_000_000)?,
            ..Tpcc::new(sites, sites)
        };
        let base = Settings {
            clients: 1,
            outstanding: 1,
            rate: None,
            warm_up_seconds: settings.number(WARM_UP.name, 0.0, 86_400.0)?,
            measured_seconds: settings.number(SECONDS.name, 0.01, 86_400.0)?,
            recovery: Method::None,
            group_commit_ms: 0.0,
            // Checkpoints cost all methods alike, but those with larger records have more of them: they are left out.
            log_mib: u32::MAX,
            execution: Execution::Locked,
            pool_mib: settings.number(POOL.name, 1, 1 << 20)?,
            dir: None,
        };
        let voter = Voter::new(sites);
        Ok(Bench { workspace, voter, tpcc, base, total: 0, done: 0, loaded: Vec::new() })
    }

    /// Of serial execution at saturation.
    pub fn serial(settings: &Values, workspace: &'a mut Workspace) -> Result<Bench<'a>> {
        let mut bench = Bench::new(settings, workspace)?;
        bench.base.execution = Execution::serial(bench.voter.partitions.into());
        bench.base.clients = settings.number(CLIENTS.name, 1, 1024)?;
        bench.base.outstanding = settings.number(OUTSTANDING.name, 1, 1_000_000)?;
        Ok(bench)
    }

    /// A share of a throughput as the rate at which calls come. In a run that was too short nothing was committed.
    pub fn rate(throughput: f64, share: f64) -> f64 {
        (throughput * share).max(1.0)
    }

    /// Measures a load under several methods.
    pub fn compare<W: Calls>(
        &mut self,
        workload: &W,
        settings: &Settings,
        methods: &[Method],
        how: How,
    ) -> Result<Rounds> {
        let mut rounds = Vec::new();
        for round in 0..how.rounds {
            let mut points = Vec::new();
            // Each round begins with another one, so that none is always the one after a pause, or after the slowest.
            let first = round as usize % methods.len();
            for &recovery in methods[first..].iter().chain(&methods[..first]) {
                let settings = Settings { recovery, ..settings.clone() };
                let replays = if round == 0 && recovery != Method::None { how.replays } else { 0 };
                points.push(self.measure(workload, &settings, round, How { replays, ..how })?);
                self.done += 1;
                self.workspace.progress.set(self.done, self.total);
            }
            rounds.push(points);
        }
        Ok(Rounds(rounds))
    }

    fn measure<W: Calls>(
        &mut self,
        workload: &W,
        settings: &Settings,
        round: u64,
        how: How,
    ) -> Result<Point> {
        let original = self.loaded(workload, settings.recovery)?;
        let place = match how.in_memory {
            true => Place::Memory(memory_copy(&original)?),
            false => Place::Directory(self.workspace.copy(&original)?),
        };
        let options = settings.options(workload.procedures());
        let db = place.open(options.clone())?;
        let (before, clock) = (db.stats(), SystemClock::new());
        let seed = self.workspace.seed.wrapping_add(round);
        let called = procedure::measure(workload, &db, settings, seed, &self.workspace.cancel)?;
        let Called { all: measured, kinds, committed } = called;
        let run_seconds = clock.now().as_secs_f64();
        let replay = match &place {
            Place::Directory(path) if how.replays > 0 => {
                let (commits, log_bytes) = in_log(&before, &db.stats())?;
                let one_thread = Options { replay_threads: 1, ..options.clone() };
                let mut replay = |options| self.replay(workload, path, options, &db, &committed, how.replays);
                let one_thread_seconds = how.one_thread.then(|| replay(&one_thread)).transpose()?;
                let seconds = replay(&options)?;
                Some(Replay { commits, log_bytes, run_seconds, seconds, one_thread_seconds })
            }
            _ => None,
        };
        db.close()?;
        drop(db);
        let db = place.open(options)?;
        check(workload, &db, &committed)?;
        db.close()?;
        if let Place::Directory(path) = &place {
            self.workspace.remove(path)?;
        }
        let point = Point {
            workload: W::NAME,
            settings: settings.clone(),
            tps: measured.committed as f64 / measured.seconds,
            committed: measured.committed,
            busy: measured.busy,
            mean_ms: measured.latency_us.mean() / 1e3,
            latency_us: Latency::of(&measured.latency_us),
            kinds,
            replay,
        };
        self.workspace.progress.note(&format!(
            "{}, {}: {} transactions/s, {} ms each",
            W::NAME,
            settings.recovery.name(),
            figure(point.tps),
            figure(point.mean_ms)
        ));
        Ok(point)
    }

    /// The median time of opening a copy of a database that nobody uses at the moment and that was not closed: that is
    /// what a crash leaves.
    fn replay<W: Calls>(
        &mut self,
        workload: &W,
        path: &Path,
        options: &Options,
        db: &Database,
        committed: &[u64],
        runs: usize,
    ) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..runs {
            self.workspace.check_canceled()?;
            let copy = self.workspace.copy(path)?;
            let clock = SystemClock::new();
            let recovered = Database::open(&copy, options.clone())?;
            times.push(clock.now().as_secs_f64());
            if recovered.durable_csn() != db.durable_csn() {
                return Err(StoreError::unexpected("the replay has lost commits"));
            }
            check(workload, &recovered, committed)?;
            recovered.close()?;
            self.workspace.remove(&copy)?;
        }
        Ok(median(times))
    }

    /// The database that copies are made of.
    fn loaded<W: Calls>(&mut self, workload: &W, method: Method) -> Result<PathBuf> {
        self.workspace.check_canceled()?;
        let recovery = method.recovery();
        let known = self.loaded.iter().find(|known| (known.0, known.1) == (W::NAME, recovery));
        if let Some((_, _, path)) = known {
            return Ok(path.clone());
        }
        let (path, seed) = (self.workspace.new_path(), self.workspace.seed);
        let settings = Settings { recovery: Method::Of(recovery), ..self.base.clone() };
        let db = Database::open(&path, settings.options(workload.procedures()))?;
        workload.load(&db, seed, &mut Progress::silent(), &self.workspace.cancel)?;
        db.close()?;
        self.loaded.push((W::NAME, recovery, path.clone()));
        Ok(path)
    }

    /// Whether TPC-C has the sizes for which everything is stated.
    pub fn is_as_stated(&self) -> bool {
        (self.tpcc.customers_per_district, self.tpcc.items) == (CUSTOMERS_PER_DISTRICT, ITEMS)
    }

    /// What differs from the paper in all experiments.
    pub fn differences(&self) -> Vec<String> {
        let Settings { clients, measured_seconds, .. } = self.base;
        let sites = self.voter.partitions;
        let processors = processors();
        vec![
            format!(
                "{sites} partitions on {processors} processors, which the clients use as well; there 5 (Voter) and 8 \
                 (TPC-C) on 8, and the client on another machine behind a network"
            ),
            format!("calls come from {clients} threads in the process; {measured_seconds} s a load"),
            "tables are B-trees on pages in a buffer pool; there, in memory. Checkpoints are commit batches of a \
             shadow-paged store; none is taken for the log's length here, one when a quarter of the pool has changed"
                .into(),
            "a commit has one log record with all that it writes (additions as such, no images from before); there, a \
             record for each tuple"
                .into(),
            "a vote writes three rows: the vote, how many the phone has, how many the contestant has in the state; \
             there, the vote"
                .into(),
            "throughput of TPC-C is of all its transactions; there, of new orders by the minute".into(),
            "a call in several partitions has them to itself meanwhile; such calls have a queue and a thread of their own"
                .into(),
        ]
    }
}

fn check<W: Calls>(workload: &W, db: &Database, committed: &[u64]) -> Result<()> {
    let invariant = workload.check(db, Some(committed))?;
    match invariant.holds {
        true => Ok(()),
        false => Err(StoreError::unexpected(format!("{}: {}", W::NAME, invariant.detail))),
    }
}

/// How many commits are in the log after a run, and how long it is.
fn in_log(before: &Stats, after: &Stats) -> Result<(u64, u64)> {
    if before.batches != after.batches {
        return Err(StoreError::unexpected(format!(
            "a checkpoint was taken, and the log is not whole: give {} more, or {} less",
            POOL.name, SECONDS.name
        )));
    }
    Ok((after.durable_csn.0 - before.durable_csn.0, after.log_bytes))
}

/// Copies a closed database into memory.
fn memory_copy(database: &Path) -> Result<MemDisk> {
    let copied = (|| {
        let disk = MemDisk::new();
        for entry in std::fs::read_dir(database)? {
            let entry = entry?;
            let file = disk.open(&entry.file_name().to_string_lossy(), true)?;
            file.write_at(0, &std::fs::read(entry.path())?)?;
        }
        std::io::Result::Ok(disk)
    })();
    copied.map_err(|error| StoreError::Failed(error.into()))
}

/// A table of points, each with cells of its own before.
pub(super) fn table<'p>(
    title: &str,
    own: &[&'static str],
    points: impl IntoIterator<Item = (Vec<String>, &'p Point)>,
) -> ResultTable {
    ResultTable {
        title: title.into(),
        headings: own.iter().copied().chain(Point::HEADINGS).collect(),
        rows: points.into_iter().map(|(own, point)| own.into_iter().chain(point.cells()).collect()).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use gnomon_engine::sync::Arc;

    use super::*;
    use crate::experiment::{Experiment, Request, run};
    use gnomon_bench::result::Report;

    /// A quick run, but so long that every load has committed something when other tests run beside it.
    pub fn quick(experiment: &'static Experiment) -> Report {
        let set = vec![(SECONDS.name.into(), "0.2".into())];
        let request = Request { quick: true, seed: 5, set, ..Request::default() };
        run(experiment, &request, Progress::silent(), &Arc::default()).unwrap()
    }

    /// One round of some method, throughput and mean latency each.
    pub fn round(points: &[(Method, f64, f64)]) -> Rounds {
        let point = |&(recovery, tps, mean_ms): &(Method, f64, f64)| Point {
            workload: "voter",
            settings: Settings {
                clients: 1,
                outstanding: 1,
                rate: None,
                warm_up_seconds: 0.0,
                measured_seconds: 1.0,
                recovery,
                log_mib: 64,
                group_commit_ms: 5.0,
                execution: Execution::serial(1),
                pool_mib: 1,
                dir: None,
            },
            tps,
            committed: 1,
            busy: 0,
            mean_ms,
            latency_us: Latency { p50: 1, p90: 1, p99: 1, p999: 1, max: 1 },
            kinds: Vec::new(),
            replay: None,
        };
        Rounds(vec![points.iter().map(point).collect()])
    }

    #[test]
    fn the_median_over_rounds_counts() {
        let of = |command, value| round(&[(COMMAND, command, 5.0), (VALUE, value, 6.0)]).0;
        let rounds = Rounds([of(100.0, 50.0), of(10.0, 9.0), of(300.0, 210.0)].concat());
        assert_eq!(rounds.tps(COMMAND), 100.0);
        assert_eq!(rounds.speed(VALUE, COMMAND), 0.7, "0.5, 0.9 and 0.7");
        assert_eq!(rounds.slowness(VALUE, COMMAND), 1.2);
        assert_eq!((rounds.mean_ms(VALUE), rounds.replay(VALUE).is_none()), (6.0, true));
        assert!(rounds.tps(Method::None).is_nan() && rounds.speed(Method::None, VALUE).is_nan());
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.0);
        assert_eq!([1000.0, 0.0, f64::NAN].map(|tps| Bench::rate(tps, 0.3)), [300.0, 1.0, 1.0]);
        assert!(is_close(0.86, 0.9) && !is_close(0.84, 0.9) && !is_close(f64::NAN, 0.9));
    }

    #[test]
    fn a_checkpoint_in_a_run_is_an_error() {
        let db = Database::in_memory(Options { recovery: Some(VALUE_LOG), ..Options::default() }).unwrap();
        let before = db.stats();
        let mut txn = db.begin(gnomon_engine::TxnOptions::default()).unwrap();
        txn.create_tree().unwrap();
        txn.commit().unwrap();
        let after = db.stats();
        assert_eq!(in_log(&before, &after).unwrap().0, 1);
        let error = in_log(&before, &Stats { batches: after.batches + 1, ..after }).unwrap_err();
        assert!(error.to_string().contains("pool-mib"), "{error}");
    }
}

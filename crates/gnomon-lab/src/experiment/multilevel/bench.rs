//! What the experiments have in common: settings, how a point is measured, and what is told of it.

use std::time::Duration;

use gnomon_bench::{
    drive::Load,
    objects::{Enough, Loaded, Measured, Objects, Order, Retry, Skew, Victim, measure, object_options},
    recovery::{Recovery, SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED},
    result::text::figure,
    store::Result,
    workspace::Workspace,
};
use gnomon_objects::ObjectOptions;
use serde::Serialize;

use crate::experiment::{Setting, Values};

/// The recovery methods of the paper.
pub const STRATEGIES: [Recovery; 3] = [SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED];

/// Returns a recovery method's name in the paper, or its own if the paper does not have it.
pub fn paper_name(recovery: Recovery) -> &'static str {
    match recovery {
        SINGLE_LEVEL => "S1",
        TWO_LEVEL => "S2",
        TWO_LEVEL_DEFERRED => "S2/PS",
        Recovery::Shadow | Recovery::CommitLog(_) => recovery.name(),
    }
}

const SECONDS: Setting = Setting {
    name: "seconds",
    help: "measured at each point; 6 are 300 transactions if 12 processors are always busy",
    full: "6",
    quick: "0.2",
};
const TRANSACTIONS: Setting = Setting {
    name: "transactions",
    help: "at least so many are measured at each point, unless that takes ten times as long",
    full: "150",
    quick: "1",
};
const WARM_UP: Setting = Setting {
    name: "warm-up",
    help: "seconds before that, and longer until half as many transactions",
    full: "0.5",
    quick: "0.05",
};
const OBJECTS: Setting = Setting { name: "objects", help: "of the database", full: "1000", quick: "40" };
const SUBOBJECTS: Setting =
    Setting { name: "subobjects", help: "own ones of each object", full: "1000", quick: "150" };
const REFERENCES: Setting =
    Setting { name: "references", help: "of each object, to foreign subobjects", full: "100", quick: "20" };
const OPERATIONS: Setting = Setting {
    name: "operations",
    help: "of a transaction, each on another object (c)",
    full: "12",
    quick: "3",
};
pub(super) const OWN: Setting =
    Setting { name: "own", help: "subobjects that an operation accesses (o)", full: "10", quick: "4" };
pub(super) const UPDATES: Setting =
    Setting { name: "updates", help: "among accesses, in % (u)", full: "20", quick: "20" };
const ORDER: Setting = Setting {
    name: "order",
    help: "of a transaction's objects: ascending, random",
    full: "ascending",
    quick: "ascending",
};
const VICTIM: Setting = Setting {
    name: "victim",
    help: "of a deadlock between transactions: requester, youngest, least-lost (the one with the fewest locks)",
    full: "requester",
    quick: "requester",
};
const RETRY: Setting = Setting {
    name: "retry",
    help: "after a deadlock: same, delayed (the same, by up to the time that it has taken), new",
    full: "delayed",
    quick: "delayed",
};
const SKEW: Setting = Setting {
    name: "skew",
    help: "of the 80-20 and the 50-50 rule: normal, two-part",
    full: "normal",
    quick: "normal",
};
const SERVICE: Setting = Setting { name: "service-ms", help: "of an access, slept", full: "2", quick: "0.2" };
const PROCESSORS: Setting =
    Setting { name: "processors", help: "that serve accesses", full: "12", quick: "12" };
const POOL: Setting =
    Setting { name: "pool-kib", help: "the buffer pool, in KiB", full: "2048", quick: "512" };

/// What the tables' headings are short for.
pub(super) const TERMS: &[&str] = &[
    "S1, S2, S2/PS: the recovery methods single-level, two-level and two-level-deferred",
    "DMP: degree of multiprogramming, transactions at once; tps: transactions a second",
    "L0, L1: forces of the log of pages and of the log of operations, by the second or by the transaction",
    "unit: what one entry of the log of pages makes durable together; sphere: the pages of such a unit, the average and \
     the largest (a persistence sphere with S2/PS)",
    "logged, written: pages written to the log of pages, and to their places",
    "restarts: transactions that were victims of a deadlock and begun again",
];

/// What [`objects`] reads.
pub(super) const OBJECT_SETTINGS: &[Setting] = &[OBJECTS, SUBOBJECTS, REFERENCES, OPERATIONS, UPDATES, POOL];
/// What [`Bench::new`] reads beside these.
pub(super) const BENCH_SETTINGS: &[Setting] =
    &[SECONDS, TRANSACTIONS, WARM_UP, ORDER, VICTIM, RETRY, SKEW, SERVICE, PROCESSORS];

pub(super) const ORDERS: [(&str, Order); 2] = [("ascending", Order::Ascending), ("random", Order::Random)];
pub(super) const VICTIMS: [(&str, Victim); 3] =
    [("requester", Victim::Requester), ("youngest", Victim::Youngest), ("least-lost", Victim::LeastLost)];
pub(super) const RETRIES: [(&str, Retry); 3] =
    [("same", Retry::Same), ("delayed", Retry::Delayed), ("new", Retry::New)];
pub(super) const SKEWS: [(&str, Skew); 2] = [("normal", Skew::Normal), ("two-part", Skew::TwoPart)];

/// The DMP for which most is stated.
pub(super) const STATED_DMP: usize = 12;

/// What was measured at one point.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub settings: Objects,
    pub measured: Measured,
}

/// The database, and transactions in which an operation accesses so many own and foreign subobjects. Nothing but the
/// engine's own work takes time.
pub(super) fn objects(settings: &Values, own: u32, foreign: u32) -> Result<Objects> {
    Ok(Objects {
        objects: settings.number(OBJECTS.name, 1, 1_000_000)?,
        subobjects: settings.number(SUBOBJECTS.name, 1, 5_000)?,
        references: settings.number(REFERENCES.name, 0, 100)?,
        operations: settings.number(OPERATIONS.name, 1, 1_000)?,
        own,
        foreign,
        updates: settings.number(UPDATES.name, 0, 100)?,
        order: Order::default(),
        victim: Victim::default(),
        retry: Retry::default(),
        skew: Skew::default(),
        service_ms: 0.0,
        processors: 1,
        pool_kib: settings.number(POOL.name, 256, u32::MAX)?,
        parallel: 1,
        log_files: 1,
        shared_log: false,
    })
}

/// How long a point is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub least: Duration,
    /// Transactions that are enough.
    pub transactions: u64,
}

/// What a database is made by: its method, the skew of references, and its logs.
type Made = (Recovery, Skew, u32, bool);

/// Measures points. Each has a copy of a database that was made once.
pub(super) struct Bench<'a> {
    pub workspace: &'a mut Workspace,
    /// The settings of the experiment; points may have others.
    pub base: Objects,
    pub length: Length,
    warm_up: Duration,
    loaded: Vec<(Made, Loaded)>,
    done: u64,
    total: u64,
}

impl<'a> Bench<'a> {
    /// Reads the settings that all have. An operation accesses so many own and foreign subobjects.
    pub fn new(
        settings: &Values,
        workspace: &'a mut Workspace,
        own: u32,
        foreign: u32,
        total: usize,
    ) -> Result<Bench<'a>> {
        let base = Objects {
            order: settings.words(ORDER.name, &ORDERS)?[0],
            victim: settings.words(VICTIM.name, &VICTIMS)?[0],
            retry: settings.words(RETRY.name, &RETRIES)?[0],
            skew: settings.words(SKEW.name, &SKEWS)?[0],
            service_ms: settings.number(SERVICE.name, 0.0, 86_400.0)?,
            processors: settings.number(PROCESSORS.name, 1, 4_096)?,
            ..objects(settings, own, foreign)?
        };
        Ok(Bench {
            workspace,
            base,
            length: Length {
                least: Duration::from_secs_f64(settings.number(SECONDS.name, 0.01, 86_400.0)?),
                transactions: settings.number(TRANSACTIONS.name, 0, 1_000_000)?,
            },
            warm_up: Duration::from_secs_f64(settings.number(WARM_UP.name, 0.0, 86_400.0)?),
            loaded: Vec::new(),
            done: 0,
            total: total as u64,
        })
    }

    /// Measures so many clients, and checks what is stored when the database is opened again.
    pub fn measure(
        &mut self,
        method: Recovery,
        clients: usize,
        settings: &Objects,
        length: Length,
    ) -> Result<Point> {
        let options = object_options(settings);
        let original = self.loaded(method, settings, &options)?;
        let loaded = original.copied_to(self.workspace.copy(&original.path)?);
        let load = Load {
            clients,
            warm_up: self.warm_up.min(length.least),
            measured: length.least,
            seed: self.workspace.seed,
            cancel: self.workspace.cancel.clone(),
        };
        let place = loaded.open(settings, options.clone())?;
        let enough = Enough { transactions: length.transactions, times_max: 10 };
        let (measured, tally) = measure(&place, settings, &load, enough)?;
        place.close()?;
        let place = loaded.open(settings, options)?;
        tally.check(&place, settings)?;
        place.close()?;
        self.workspace.remove(&loaded.path)?;
        self.workspace.progress.note(&format!(
            "{}, DMP {clients}{}: {} transactions/s, {} ms each",
            paper_name(method),
            unlike(settings, &self.base),
            figure(measured.tps),
            figure(measured.response.mean_ms)
        ));
        self.done += 1;
        self.workspace.progress.set(self.done, self.total);
        Ok(Point { settings: settings.clone(), measured })
    }

    /// The database that copies are made of.
    fn loaded(&mut self, method: Recovery, settings: &Objects, options: &ObjectOptions) -> Result<Loaded> {
        self.workspace.check_canceled()?;
        let made = (method, settings.skew, settings.log_files, settings.shared_log);
        if let Some((_, loaded)) = self.loaded.iter().find(|known| known.0 == made) {
            return Ok(loaded.clone());
        }
        let (path, seed) = (self.workspace.new_path(), self.workspace.seed);
        let loaded = Loaded::make(method, settings, options.clone(), path, seed, &self.workspace.cancel)?;
        self.loaded.push((made, loaded.clone()));
        Ok(loaded)
    }

    /// Whether the database is the paper's, and the transactions are, in which so many own and foreign subobjects are
    /// accessed by an operation.
    pub fn is_as_stated(&self, own: u32, foreign: u32) -> bool {
        let base = &self.base;
        (base.objects, base.subobjects, base.references) == (1000, 1000, 100)
            && (base.operations, base.own, base.foreign, base.updates) == (12, own, foreign, 20)
            && (base.processors, base.pool_kib) == (12, 2048)
            && base.service_ms > 0.0
    }

    /// What differs from the paper in all experiments.
    pub fn differences(&self) -> Vec<String> {
        let Objects { service_ms, processors, .. } = self.base;
        let accesses_ms = service_ms * f64::from(self.base.accesses());
        let most = self.length.least.as_secs_f64() * 1e3 * f64::from(processors) / accesses_ms;
        let busy = match most.is_finite() {
            true => format!(", {} transactions if the processors are always busy", figure(most)),
            false => String::new(),
        };
        vec![
            format!(
                "an access is served for {} ms, slept while its operation has its pages, by at most {} at a time: that \
                 stands for the paper's 12 processors. The engine's own work is on this machine's processors",
                service_ms, processors
            ),
            format!(
                "{} s a point{busy}, and longer until {} are measured",
                self.length.least.as_secs_f64(),
                self.length.transactions
            ),
            "where a point was measured until there were enough transactions, it ends with one: that makes it up to one \
             transaction too fast"
                .into(),
            "a transaction that has not ended when the time is over has no response time: where transactions take a good \
             part of the time, the mean is too short, and what is right is DMP / tps"
                .into(),
            "the paper does not state the order of a transaction's objects, which transaction of a deadlock is its \
             victim, what follows that, and its linear transformation of a normal distribution: they are settings. With \
             two levels, of a deadlock over pages it is the operation with the fewest locks (until it was that 16 \
             times), since with other rules operations that run again at once can be in each other's way for long. The \
             normal distribution reaches beyond the range; what lies outside is chosen again, so the 50-50 rule gives \
             the middle half 61 %"
                .into(),
            "a lock is counted as requested at each access to a page, also when the transaction has it already".into(),
            "commits are grouped, and what overlaps a committing transaction's sphere by reading is written with it"
                .into(),
            "files may be in the system's cache; all of them, of the logs too, are on one disk".into(),
        ]
    }
}

/// What a point's settings have unlike the experiment's, as far as points differ.
fn unlike(settings: &Objects, base: &Objects) -> String {
    let of = |settings: &Objects| {
        [
            format!("{} own", settings.own),
            format!("{} foreign", settings.foreign),
            format!("{} operations", settings.operations),
            format!("{} % updates", settings.updates),
            format!("order {}", settings.order.name()),
            format!("victim {}", settings.victim.name()),
            format!("retry {}", settings.retry.name()),
            format!("skew {}", settings.skew.name()),
            format!("{} ms served", settings.service_ms),
            format!("{} at once", settings.parallel),
            format!("{} log files", settings.log_files),
            format!("{} log", if settings.shared_log { "one" } else { "two" }),
        ]
    };
    let pairs = of(settings).into_iter().zip(of(base));
    pairs.filter(|(one, usual)| one != usual).map(|(one, _)| format!(", {one}")).collect()
}

/// The point of a method and a DMP.
pub(super) fn at(points: &[Point], method: Recovery, clients: usize) -> Option<&Measured> {
    let measured = points.iter().map(|point| &point.measured);
    measured.filter(|point| point.method == method).find(|point| point.clients == clients)
}

/// Of a [`Trio`].
pub(super) const DMP: Setting =
    Setting { name: "dmp", help: "degree of multiprogramming", full: "12", quick: "4" };

/// The strategies under the same settings.
#[derive(Debug, Serialize)]
pub(super) struct Trio {
    pub single_level: Point,
    pub two_level: Point,
    pub deferred: Point,
}

impl Trio {
    /// Measures each.
    pub fn measure(bench: &mut Bench<'_>, clients: usize, settings: &Objects) -> Result<Trio> {
        let mut one = |method| bench.measure(method, clients, settings, bench.length);
        Ok(Trio {
            single_level: one(SINGLE_LEVEL)?,
            two_level: one(TWO_LEVEL)?,
            deferred: one(TWO_LEVEL_DEFERRED)?,
        })
    }

    /// How many times the throughput of S1 the one of S2/PS is.
    pub fn gap(&self) -> f64 {
        self.deferred.measured.tps / self.single_level.measured.tps
    }

    /// Whether both strategies with two levels are ahead of the one with one.
    pub fn is_ahead(&self) -> bool {
        self.two_level.measured.tps.min(self.deferred.measured.tps) > self.single_level.measured.tps
    }

    /// What [`Trio::cells`] stand below.
    pub const HEADINGS: [&'static str; 10] = [
        "S1 tps",
        "S2 tps",
        "S2/PS tps",
        "S2/PS : S1",
        "S1 ms",
        "S2/PS ms",
        "S1 : S2/PS",
        "S1 waits ms",
        "S2/PS waits ms",
        "S1 restarts/txn",
    ];

    /// Throughput, response times, lock waits and restarts.
    pub fn cells(&self) -> [String; Trio::HEADINGS.len()] {
        let (single, deferred) = (&self.single_level.measured, &self.deferred.measured);
        [
            single.tps,
            self.two_level.measured.tps,
            deferred.tps,
            self.gap(),
            single.response.mean_ms,
            deferred.response.mean_ms,
            single.response.mean_ms / deferred.response.mean_ms,
            single.wait_ms(),
            deferred.wait_ms(),
            single.restarts(),
        ]
        .map(figure)
    }
}

/// A figure at the DMP for which it is stated, if that was measured, and its unit.
pub(super) fn stated_figure(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(|| "other settings".into(), |number| figure(number) + unit)
}

//! What the study's experiments share: the parameters of a simulated system as settings, replications of many systems,
//! and the performance gap between two.

use std::{fmt::Display, str::FromStr};

use gnomon_bench::{
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::figure,
    },
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_engine::sync::atomic::AtomicBool;
use serde::Serialize;

use crate::{
    experiment::{Setting, Values},
    semantics::{
        model::{Found, Length, run},
        parameters::{
            DataLocks, Level, LogDisk, LogWrite, Manager, Moved, Parameters, Past, Readings, Search,
        },
    },
    simulation::{
        estimate::Estimate,
        replicate::{Effort, replicate},
    },
};

/// The paper.
pub const PAPER: &str = "Alternative Strategies for a Semantics-Based Operating System Transaction Manager (Kumar and \
                         Stonebraker 1987)";

/// What the tables' headings are short for.
pub const TERMS: &[&str] = &[
    "tps: transactions a second, with half of its 95 % confidence interval in %; runs: replications",
    "gap: by how much the DBMS manager's throughput is above the OS manager's, in % of the latter",
    "aborts, locks, log, I/Os, lock wait: of each transaction that committed (log in bytes, waits in seconds)",
    "cpu, disks: how busy they were, in %; action ms: how long an action may take, the best found",
    "OS levels: 0 knows nothing of what it locks and logs; 1 what pages of indexes are, and locks them while they are \
     used; 2 how to compress the log by 40 % beside; 3 instead of that, that changes of indexes need no log",
    "a gap is as stated within 5 percentage points, to which the stated ones were read, and a throughput within a tenth",
];

const fn effort(name: &'static str, help: &'static str, full: &'static str, quick: &'static str) -> Setting {
    Setting { name, help, full, quick }
}

/// What some experiment varies: each lists those that it does not.
pub const MPL: Setting = Setting::same("mpl", "transactions under way", "15");
pub const NUMDISKS: Setting = Setting::same("numdisks", "disks", "2");
pub const CPU_LOCK: Setting = Setting::same("cpu_lock", "instructions of a pair of lock and unlock", "2000");
pub const COMP_RATIO: Setting =
    Setting::same("comp_ratio", "by how much the OS manager's log is compressed, in %", "0");
pub const SUB_PAGE_SIZE: Setting =
    Setting::same("sub_page_size", "bytes that the OS manager locks and logs", "100");
pub const DBMS_LOCKS: Setting = Setting::same(
    "dbms-locks",
    "past the study: what the DBMS manager locks of data: pages, records",
    "pages",
);
pub const SKEW: Setting =
    Setting::same("skew", "past the study: Zipf's exponent of how records are chosen; 0: all alike", "0");
pub const SPLIT: Setting = Setting::same(
    "split",
    "past the study: how often a change of an index goes on to the page above, in %",
    "0",
);
pub const CPU_COMPRESS: Setting =
    Setting::same("cpu-compress", "past the study: instructions of compressing a byte of the log", "0");

/// The study's machine, and how long people think.
pub const MACHINE: &[Setting] = &[
    Setting::same("buf_size", "pages in the buffer", "500"),
    Setting::same("cpu_mips", "millions of instructions a second, of each processor", "2"),
    Setting::same("processors", "processors", "1"),
    Setting::same("disk_io", "milliseconds of an I/O", "30"),
    Setting::same("think", "mean seconds of thought within a long transaction, from 2/3 of it to 4/3", "15"),
];

/// What no experiment varies of Tables 1 and 2, the readings, and how often to simulate.
pub const COMMON: &[Setting] = &[
    Setting::same("cpu_ins_del", "instructions of an insert or delete", "18000"),
    Setting::same("cpu_read", "instructions of a read", "7000"),
    Setting::same("cpu_write", "instructions of a rewrite", "12000"),
    Setting::same("cpu_io", "instructions of an I/O", "3000"),
    Setting::same("cpu_present", "instructions of presenting what an action found", "10000"),
    Setting::same("modify1", "mean part of updates among actions, in %, up to 50", "25"),
    Setting::same("modify2", "mean part of inserts and deletes among updates, in %, up to 50", "50"),
    Setting::same("numindex", "indexes", "5"),
    Setting::same("os-log", "reading: when the OS manager's log is written: action, commit", "action"),
    Setting::same("dbms-log", "reading: when the DBMS manager's log is written: action, commit", "commit"),
    Setting::same("os-header", "reading: bytes before the images of a granule in the OS manager's log", "50"),
    Setting::same("log-disk", "reading: where logs are: shared (with the data), own", "shared"),
    Setting::same("search", "reading: what a search in an index page touches: binary, direct", "binary"),
    Setting::same(
        "leaf-search",
        "reading: whether a leaf that changes is searched first, with locks: no, yes",
        "no",
    ),
    Setting::same(
        "moved",
        "reading: what an entry that comes or goes moves of its leaf: half, behind (it)",
        "half",
    ),
    Setting::same("rewrite-index", "reading: whether a rewrite changes an entry of an index: no, yes", "yes"),
    Setting::same(
        "directory",
        "reading: whether to find a record on its page reads (and locks) a directory: no, yes",
        "yes",
    ),
    Setting::same("cpu-index-page", "reading: instructions of processing a page of an index", "0"),
    effort(
        "action-lens",
        "seconds an action may take; of several the best is found, or where it says so the middle one is used",
        "2,3,4,6",
        "4",
    ),
    effort("replications", "of each point at least", "4", "2"),
];

/// How long to simulate, and how well to know a point.
pub const LENGTH: &[Setting] = &[
    effort("seconds", "simulated in each replication", "4000", "500"),
    effort("warm-up", "simulated seconds before that", "500", "100"),
    effort("precision", "half of the 95 % confidence interval of a throughput, in %", "2", "20"),
    effort("replications-max", "of each point at most", "40", "2"),
];

/// How long to simulate machines of which some are much faster than others.
pub const TRANSACTIONS: &[Setting] = &[
    effort(
        "transactions",
        "that commit and count in each replication at least, after as many that do not; or ten times as many end",
        "1000",
        "100",
    ),
    effort("transactions-each", "the same, of each client on average", "3", "0"),
];

/// A number that is set, or the study's own if the experiment varies it.
fn varied<T: FromStr + PartialOrd + Display>(
    settings: &Values,
    name: &str,
    own: T,
    min: T,
    max: T,
) -> Result<T> {
    if settings.has(name) { settings.number(name, min, max) } else { Ok(own) }
}

/// The parameters that are set, for the DBMS manager, with the middle one of the times for an action. Those that the
/// experiment varies are the study's.
///
/// # Errors
/// Those that make no sense, and that a transaction would take no time.
pub fn parameters(settings: &Values) -> Result<Parameters> {
    let base = Parameters::default();
    let number = |name, max| settings.number(name, 0.0, max);
    let log = [("action", LogWrite::AtAction), ("commit", LogWrite::AtCommit)];
    let no_yes = [("no", false), ("yes", true)];
    let one = |name: &'static str| -> Result<LogWrite> { Ok(settings.words(name, &log)?[0]) };
    let dbms_locks = [("pages", DataLocks::Pages), ("records", DataLocks::Records)];
    let parameters = Parameters {
        manager: Manager::Dbms,
        buf_size: varied(settings, "buf_size", base.buf_size, 1, 1_000_000)?,
        cpu_ins_del: number("cpu_ins_del", 1e12)?,
        cpu_read: number("cpu_read", 1e12)?,
        cpu_write: number("cpu_write", 1e12)?,
        cpu_lock: varied(settings, CPU_LOCK.name, base.cpu_lock, 0.0, 1e12)?,
        cpu_io: number("cpu_io", 1e12)?,
        cpu_present: number("cpu_present", 1e12)?,
        cpu_mips: varied(settings, "cpu_mips", base.cpu_mips, 0.001, 1e6)?,
        processors: varied(settings, "processors", base.processors, 1, 1024)?,
        disk_io: varied(settings, "disk_io", base.disk_io, 0.0, 1e6)?,
        numdisks: varied(settings, NUMDISKS.name, base.numdisks, 1, 1024)?,
        modify1: number("modify1", 50.0)? / 100.0,
        modify2: number("modify2", 50.0)? / 100.0,
        max_action_len: middle(&lens(settings)?),
        mpl: varied(settings, MPL.name, base.mpl, 1, 10_000)?,
        numindex: settings.number("numindex", 1, 64)?,
        sub_page_size: varied(settings, SUB_PAGE_SIZE.name, base.sub_page_size, 1, 2048)?,
        comp_ratio: varied(settings, COMP_RATIO.name, 100.0 * base.comp_ratio, 0.0, 100.0)? / 100.0,
        readings: Readings {
            os_log: one("os-log")?,
            dbms_log: one("dbms-log")?,
            os_header_bytes: settings.number("os-header", 0, 2048)?,
            log_disk: settings.words("log-disk", &[("shared", LogDisk::Shared), ("own", LogDisk::Own)])?[0],
            search: settings.words("search", &[("binary", Search::Binary), ("direct", Search::Direct)])?[0],
            searches_changed_leaf: settings.words("leaf-search", &no_yes)?[0],
            moved: settings.words("moved", &[("half", Moved::Half), ("behind", Moved::Behind)])?[0],
            rewrite_changes_index: settings.words("rewrite-index", &no_yes)?[0],
            reads_directory: settings.words("directory", &no_yes)?[0],
            cpu_index_page: number("cpu-index-page", 1e12)?,
        },
        past: Past {
            dbms_locks: match settings.has(DBMS_LOCKS.name) {
                true => settings.words(DBMS_LOCKS.name, &dbms_locks)?[0],
                false => base.past.dbms_locks,
            },
            skew: varied(settings, SKEW.name, base.past.skew, 0.0, 5.0)?,
            split: varied(settings, SPLIT.name, 100.0 * base.past.split, 0.0, 100.0)? / 100.0,
            cpu_compress: varied(settings, CPU_COMPRESS.name, base.past.cpu_compress, 0.0, 1e6)?,
            think: varied(settings, "think", base.past.think, 0.0, 1e6)?,
        },
        ..base
    };
    let least =
        parameters.cpu_present + parameters.cpu_read.min(parameters.cpu_write).min(parameters.cpu_ins_del);
    if least == 0.0 && parameters.disk_io == 0.0 {
        return Err(StoreError::unexpected(
            "a transaction would take no time, so there would be no end of them: set disk_io or cpu_present",
        ));
    }
    Ok(parameters)
}

/// A system, as it was found to be.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// With the best time for an action.
    pub parameters: Parameters,
    /// Transactions a second.
    pub throughput: Estimate,
    /// By replication: those of two points with the same number had the same transactions.
    pub throughputs: Vec<f64>,
    /// The means of everything that was counted.
    pub found: Found,
}

impl Point {
    /// By how much this one's throughput is above another's, in % of that: of the means, as the study has it. How well
    /// that is known is told by the replications, which had the same transactions if they have the same number; if one
    /// has needed more of them than the other, by how well each throughput is known.
    pub fn gap(&self, other: &Point) -> Estimate {
        let gap = |this: f64, other: f64| (this / other - 1.0) * 100.0;
        let mean = gap(self.throughput.mean, other.throughput.mean);
        if self.throughputs.len() != other.throughputs.len() {
            let known = f64::hypot(self.throughput.relative(), other.throughput.relative());
            let replications = self.throughputs.len().min(other.throughputs.len());
            return Estimate { mean, half_width: known * (mean + 100.0), replications };
        }
        let pairs = self.throughputs.iter().zip(&other.throughputs);
        let gaps: Vec<f64> = pairs.map(|(this, other)| gap(*this, *other)).collect();
        Estimate { mean, ..Estimate::of(&gaps) }
    }
}

/// How long and how often systems are simulated.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Of each system's own time for an action: the best is found.
    parts: Vec<f64>,
    span: Span,
    /// How often each time for an action is tried.
    trials: usize,
    effort: Effort,
}

/// How long systems are simulated.
#[derive(Clone, Copy, Debug)]
enum Span {
    /// In seconds; the warm-up is longer if transactions may take long.
    Seconds { warm_up: f64, counted: f64 },
    /// So many transactions in all at least, and of each client on average.
    Transactions { all: u64, each: u64 },
}

/// So many of the longest transactions end before anything is measured.
const WARM_UP_TRANSACTIONS: f64 = 5.0;
/// Of a transaction, on average.
const ACTIONS: f64 = 22.5;

impl Span {
    fn length(self, system: &Parameters) -> Length {
        match self {
            Span::Seconds { warm_up, counted } => {
                let longest = ACTIONS * system.max_action_len + system.past.think;
                Length::Seconds { warm_up: warm_up.max(WARM_UP_TRANSACTIONS * longest), counted }
            }
            Span::Transactions { all, each } => Length::Transactions(all.max(each * system.mpl as u64)),
        }
    }
}

impl Runs {
    /// As the settings say, [`LENGTH`] among them.
    pub fn new(settings: &Values) -> Result<Runs> {
        let replications_min = settings.number("replications", 1, 1000)?;
        let lens = lens(settings)?;
        Ok(Runs {
            parts: lens.iter().map(|len| len / middle(&lens)).collect(),
            span: seconds(settings, 1.0)?,
            // By a single one, bad luck with deadlocks could make a good time look bad.
            trials: 2,
            effort: Effort {
                precision: settings.number("precision", 0.01, 100.0)? / 100.0,
                replications_min,
                replications_max: settings.number("replications-max", 1, 10_000)?.max(replications_min),
            },
        })
    }

    /// The same, roughly, of many systems: half as long, with the middle one of the times for an action, and no more
    /// replications than the least.
    pub fn rough(settings: &Values) -> Result<Runs> {
        let runs = Runs::new(settings)?;
        let effort = Effort { replications_max: runs.effort.replications_min, ..runs.effort };
        Ok(Runs { parts: vec![1.0], span: seconds(settings, 0.5)?, effort, ..runs })
    }

    /// As the settings say, [`TRANSACTIONS`] among them, of machines of any speed, with these parts of each one's time for
    /// an action; the least number of replications.
    pub fn of_transactions(settings: &Values, parts: Vec<f64>) -> Result<Runs> {
        let replications = settings.number("replications", 1, 1000)?;
        Ok(Runs {
            parts,
            span: Span::Transactions {
                all: settings.number("transactions", 1, 1_000_000_000)?,
                each: settings.number("transactions-each", 0, 1_000_000)?,
            },
            trials: 1,
            effort: Effort { precision: 1.0, replications_min: replications, replications_max: replications },
        })
    }

    /// Simulates systems; each with the time for an action, of those tried, that lets most through.
    pub fn measure(&self, workspace: &mut Workspace, systems: &[Parameters]) -> Result<Vec<Point>> {
        let Runs { parts, span, trials, effort } = self;
        let (seed, cancel) = (workspace.seed, workspace.cancel.clone());
        let with = |system: &Parameters, part: f64| Parameters {
            max_action_len: part * system.max_action_len,
            ..system.clone()
        };
        let tried: Vec<Parameters> =
            systems.iter().flat_map(|system| parts.iter().map(|part| with(system, *part))).collect();
        // To begin with.
        let to_come = (systems.len() * effort.replications_min) as u64;
        let (best, trials_count) = match parts.len() {
            1 => (tried, 0),
            _ => {
                let trials = Effort { precision: 1.0, replications_min: *trials, replications_max: *trials };
                // Of another seed: what was chosen for its luck is not what is reported.
                let other = seed.wrapping_add(1);
                let show = &mut |done, total| workspace.progress.set(done, total + to_come);
                let found = simulate(&tried, trials, other, *span, show, &cancel)?;
                let throughput = |at: usize| found[at].iter().map(|found| found.throughput).sum::<f64>();
                let best = (0..systems.len())
                    .map(|system| system * parts.len()..(system + 1) * parts.len())
                    .filter_map(|of_system| {
                        of_system.max_by(|a, b| throughput(*a).total_cmp(&throughput(*b)))
                    })
                    .map(|at| tried[at].clone());
                (best.collect(), (tried.len() * trials.replications_min) as u64)
            }
        };
        let show = &mut |done, total| workspace.progress.set(trials_count + done, trials_count + total);
        let found = simulate(&best, *effort, seed, *span, show, &cancel)?;
        Ok(best.into_iter().zip(found).map(|(parameters, found)| Point::new(parameters, &found)).collect())
    }
}

/// The times for an action that are set, in seconds.
fn lens(settings: &Values) -> Result<Vec<f64>> {
    settings.list("action-lens", 1e-6, 1e6)
}

/// A part of the seconds that are set.
fn seconds(settings: &Values, part: f64) -> Result<Span> {
    Ok(Span::Seconds {
        warm_up: part * settings.number("warm-up", 0.0, 1e9)?,
        counted: part * settings.number("seconds", 1e-3, 1e9)?,
    })
}

fn middle(lens: &[f64]) -> f64 {
    lens[lens.len() / 2]
}

fn simulate(
    systems: &[Parameters],
    effort: Effort,
    seed: u64,
    span: Span,
    progress: &mut dyn FnMut(u64, u64),
    cancel: &AtomicBool,
) -> Result<Vec<Vec<Found>>> {
    replicate(
        systems,
        effort,
        seed,
        cancel,
        progress,
        |system, seed| run(system, seed, span.length(system), cancel),
        |found| found.throughput,
    )
}

impl Point {
    fn new(parameters: Parameters, found: &[Found]) -> Point {
        let throughputs: Vec<f64> = found.iter().map(|found| found.throughput).collect();
        let mean = |of: fn(&Found) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        let means = Found {
            throughput: mean(|found| found.throughput),
            aborts: mean(|found| found.aborts),
            locks: mean(|found| found.locks),
            lock_wait: mean(|found| found.lock_wait),
            log_bytes: mean(|found| found.log_bytes),
            ios: mean(|found| found.ios),
            cpu_busy: mean(|found| found.cpu_busy),
            disks_busy: mean(|found| found.disks_busy),
        };
        Point { parameters, throughput: Estimate::of(&throughputs), throughputs, found: means }
    }

    /// The name of its manager.
    pub fn manager(&self) -> &'static str {
        match self.parameters.manager {
            Manager::Dbms if self.parameters.past.dbms_locks == DataLocks::Records => "DBMS, records",
            Manager::Dbms => "DBMS",
            Manager::Os(Level::Physical) => "OS level 0",
            Manager::Os(Level::ShortIndexLocks) => "OS level 1",
            Manager::Os(Level::Compressed) => "OS level 2",
            Manager::Os(Level::NoIndexLog) if self.parameters.readings.os_log == LogWrite::AtCommit => {
                "OS level 3, log at commit"
            }
            Manager::Os(Level::NoIndexLog) => "OS level 3",
        }
    }
}

/// Both managers under the same conditions: the operating system's knows nothing of what it manages.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// What is varied.
    pub at: f64,
    /// The DBMS manager.
    pub dbms: Point,
    /// The OS manager.
    pub os: Point,
}

impl Pair {
    /// The performance gap, in %.
    pub fn gap(&self) -> f64 {
        self.dbms.gap(&self.os).mean
    }
}

/// Simulates both managers; `at` makes the parameters of each of the values.
pub fn pairs(
    settings: &Values,
    workspace: &mut Workspace,
    values: &[f64],
    at: impl Fn(f64) -> Parameters,
) -> Result<Vec<Pair>> {
    let of = |manager| move |parameters: Parameters| Parameters { manager, ..parameters };
    let systems: Vec<Parameters> = values
        .iter()
        .flat_map(|value| {
            [Manager::Dbms, Manager::Os(Level::Physical)].map(|manager| of(manager)(at(*value)))
        })
        .collect();
    let mut points = Runs::new(settings)?.measure(workspace, &systems)?.into_iter();
    let mut next = || points.next().expect("there are two of each");
    Ok(values.iter().map(|value| Pair { at: *value, dbms: next(), os: next() }).collect())
}

/// The pair at a value, if it was simulated.
pub fn pair_at(pairs: &[Pair], value: f64) -> Option<&Pair> {
    pairs.iter().find(|pair| pair.at == value)
}

/// Both managers, one below the other.
fn table_of_pairs(title: &str, first: &'static [&'static str], pairs: &[Pair]) -> ResultTable {
    table(
        title,
        first,
        pairs.iter().flat_map(|pair| {
            let row = || vec![figure(pair.at)];
            [(row(), &pair.dbms, None), (row(), &pair.os, Some(&pair.dbms))]
        }),
    )
}

/// Throughput and the gap by what is varied. `stated`: gaps.
fn plot_of_pairs(
    name: &str,
    title: &str,
    label: &'static str,
    pairs: &[Pair],
    stated: Vec<Stated>,
) -> Figure {
    let curve = |of: fn(&Pair) -> &Point| Curve {
        label: pairs.first().map_or_else(String::new, |pair| of(pair).manager().to_owned()),
        points: pairs.iter().map(|pair| (pair.at, of(pair).throughput.mean)).collect(),
    };
    let axis = |label| Axis { label, scale: Scale::Linear };
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        panels: vec![
            Panel {
                x: axis(label),
                y: axis("transactions/s"),
                curves: vec![curve(|pair| &pair.dbms), curve(|pair| &pair.os)],
                stated: Vec::new(),
            },
            Panel {
                x: axis(label),
                y: axis("gap, %"),
                curves: vec![Curve {
                    label: GAP.to_owned(),
                    points: pairs.iter().map(|pair| (pair.at, pair.gap())).collect(),
                }],
                stated,
            },
        ],
    }
}

/// The gap's curve.
const GAP: &str = "gap";

/// Gaps that are stated, by what is varied.
pub fn stated_gaps(points: &[(f64, f64)]) -> Stated {
    Stated { label: GAP.to_owned(), points: points.to_vec(), throughout: false }
}

/// What both managers were found to do: a table, a figure of the name, and what is claimed of them. `stated`: gaps.
pub fn outcome_of_pairs(
    (name, title): (&str, &str),
    heading: &'static [&'static str],
    label: &'static str,
    pairs: &[Pair],
    stated: Vec<Stated>,
    claims: Vec<Claim>,
) -> Outcome {
    Outcome {
        claims,
        differences: differences(),
        tables: vec![table_of_pairs(title, heading, pairs)],
        figures: vec![plot_of_pairs(name, title, label, pairs, stated)],
        data: serde_json::json!({ "pairs": pairs }),
    }
}

/// A table of points: what tells each apart, and what it is compared with.
pub fn table<'p>(
    title: &str,
    first: &'static [&'static str],
    points: impl IntoIterator<Item = (Vec<String>, &'p Point, Option<&'p Point>)>,
) -> ResultTable {
    let rest = [
        "manager",
        "tps",
        "±%",
        "runs",
        "gap",
        "aborts",
        "locks",
        "lock wait",
        "log",
        "I/Os",
        "cpu",
        "disks",
        "action ms",
    ];
    let headings = first.iter().copied().chain(rest).collect();
    let rows = points.into_iter().map(|(mut row, point, dbms)| {
        let found = &point.found;
        row.extend([
            point.manager().to_owned(),
            fixed(point.throughput.mean, 3),
            fixed(100.0 * point.throughput.relative(), 1),
            point.throughput.replications.to_string(),
            dbms.map_or_else(String::new, |dbms| fixed(dbms.gap(point).mean, 1)),
            fixed(found.aborts, 2),
            figure(found.locks),
            fixed(found.lock_wait, 2),
            figure(found.log_bytes),
            figure(found.ios),
            figure(100.0 * found.cpu_busy),
            figure(100.0 * found.disks_busy),
            figure(1000.0 * point.parameters.max_action_len),
        ]);
        row
    });
    ResultTable { title: title.to_owned(), headings, rows: rows.collect() }
}

/// A number with so many digits behind the point; of what nothing is known, as if no transaction ended, a dash.
pub fn fixed(number: f64, digits: usize) -> String {
    if number.is_finite() { format!("{number:.digits$}") } else { "-".to_owned() }
}

/// Whether a gap is as stated: within five percentage points, to which stated ones were read.
pub fn is_gap_met(gap: f64, stated: f64) -> bool {
    (gap - stated).abs() <= 5.0
}

/// Whether a throughput is as stated: within a tenth.
pub fn is_throughput_met(tps: f64, stated: f64) -> bool {
    (tps / stated - 1.0).abs() <= 0.1
}

/// A gap beside the stated one.
pub fn gap_claim(name: &'static str, stated: &'static str, stated_gap: f64, gap: Option<f64>) -> Claim {
    let gap = gap.filter(|gap| gap.is_finite());
    let verdict = match gap {
        None => Verdict::NotComparable,
        Some(gap) => Verdict::of(is_gap_met(gap, stated_gap)),
    };
    Claim {
        figure: name,
        stated,
        measured: gap.map_or_else(String::new, |gap| format!("{gap:.1} %")),
        verdict,
    }
}

/// What differs from the study's set-up, in all experiments.
pub fn differences() -> Vec<String> {
    [
        "the text leaves open what the settings called readings say; the defaults come closest to its figures",
        "an abort takes no time of its own; a transaction that is given up is begun again at once",
        "pages are written at checkpoints, and when their frame is needed, by whoever needs it",
        "a transaction is given up only while it waits for a lock",
        "a page whose read has begun counts as in the buffer",
    ]
    .map(str::to_owned)
    .to_vec()
}

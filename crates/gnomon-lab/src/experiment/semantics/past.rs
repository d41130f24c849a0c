//! Past the study: what it names as left out or left for later, with the same model.
//!
//! - `semantics/skew`: some records are used more than others, and the DBMS manager locks records;
//! - `semantics/upper-levels`: nodes of indexes split, so that pages above the leaves change;
//! - `semantics/compression-cost`: to compress the log takes instructions;
//! - `semantics/today`: the study's system becomes one of today, step by step.

use gnomon_bench::{
    result::{
        Claim, Outcome,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::figure,
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::study::{
    self, COMMON, COMP_RATIO, CPU_COMPRESS, CPU_LOCK, LENGTH, MACHINE, MPL, NUMDISKS, PAPER, Point, Runs,
    SPLIT, SUB_PAGE_SIZE, TERMS, TRANSACTIONS, differences, parameters, table,
};
use crate::{
    experiment::{Experiment, Setting, Values, verdict},
    semantics::parameters::{DataLocks, Level, LogWrite, Manager, Parameters, Past, Readings},
    simulation::estimate::Estimate,
};

/// A manager, and what of the rest is its own.
#[derive(Clone, Copy)]
struct Kind {
    manager: Manager,
    dbms_locks: DataLocks,
    /// When its log is written, unless as the settings say.
    os_log: Option<LogWrite>,
}

const DBMS: Kind = Kind { manager: Manager::Dbms, dbms_locks: DataLocks::Pages, os_log: None };
const DBMS_RECORDS: Kind = Kind { dbms_locks: DataLocks::Records, ..DBMS };
const OS: Kind = Kind { manager: Manager::Os(Level::Physical), ..DBMS };
const OS_SHORT: Kind = Kind { manager: Manager::Os(Level::ShortIndexLocks), ..DBMS };
const OS_NO_LOG: Kind = Kind { manager: Manager::Os(Level::NoIndexLog), ..DBMS };
const OS_LATE_LOG: Kind = Kind { os_log: Some(LogWrite::AtCommit), ..OS_NO_LOG };

/// Managers under the same conditions; the first one is that with which the others are compared.
#[derive(Clone, Debug, Serialize)]
struct Compared {
    /// What tells the conditions.
    condition: String,
    /// What is varied.
    at: f64,
    points: Vec<Point>,
}

impl Compared {
    fn measure(
        runs: &Runs,
        workspace: &mut Workspace,
        managers: &[Kind],
        conditions: Vec<(String, f64, Parameters)>,
    ) -> Result<Vec<Compared>> {
        let systems: Vec<Parameters> = conditions
            .iter()
            .flat_map(|(_, _, base)| {
                managers.iter().map(|kind| Parameters {
                    manager: kind.manager,
                    past: Past { dbms_locks: kind.dbms_locks, ..base.past },
                    readings: Readings {
                        os_log: kind.os_log.unwrap_or(base.readings.os_log),
                        ..base.readings
                    },
                    ..base.clone()
                })
            })
            .collect();
        let mut points = runs.measure(workspace, &systems)?.into_iter();
        let compared = |(condition, at, _)| Compared {
            condition,
            at,
            points: points.by_ref().take(managers.len()).collect(),
        };
        Ok(conditions.into_iter().map(compared).collect())
    }

    /// By how much the first manager is ahead of another, in %.
    fn gap_to(&self, manager: usize) -> Estimate {
        self.points[0].gap(&self.points[manager])
    }

    fn gap(&self, manager: usize) -> f64 {
        self.gap_to(manager).mean
    }
}

/// What all of these tell: a table, and throughput and gaps by what is varied.
fn outcome(
    (name, title): (&str, &str),
    heading: &'static [&'static str],
    (label, throughput): (&'static str, Scale),
    all: &[Compared],
    claims: Vec<Claim>,
) -> Outcome {
    let rows = all.iter().flat_map(|compared| {
        let dbms = &compared.points[0];
        compared.points.iter().enumerate().map(move |(number, point)| {
            (vec![compared.condition.clone()], point, (number > 0).then_some(dbms))
        })
    });
    let axis = |label, scale| Axis { label, scale };
    let managers = || all.first().map_or(&[][..], |compared| &compared.points).iter().map(Point::manager);
    // The first manager has a gap of nothing to itself: so each has one colour in both panels.
    let panel = |y, of: &dyn Fn(&Compared, usize) -> f64| Panel {
        x: axis(label, Scale::Linear),
        y,
        curves: managers()
            .enumerate()
            .map(|(number, manager)| Curve {
                label: manager.to_owned(),
                points: all.iter().map(|compared| (compared.at, of(compared, number))).collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    Outcome {
        claims,
        differences: differences(),
        tables: vec![table(title, heading, rows)],
        figures: vec![Figure {
            name: name.to_owned(),
            title: title.to_owned(),
            panels: vec![
                panel(axis("transactions/s", throughput), &|compared, number| {
                    compared.points[number].throughput.mean
                }),
                panel(axis("gap, %", Scale::Linear), &Compared::gap),
            ],
        }],
        data: serde_json::json!({ "compared": all }),
    }
}

/// A claim that the gap to a manager is wider at the end of what is varied than at the beginning: their confidence
/// intervals do not meet.
fn widens(stated: &'static str, all: &[Compared], manager: usize) -> Claim {
    let gaps = match all {
        [first, .., last] => Some([first, last].map(|compared| compared.gap_to(manager))),
        _ => None,
    };
    let gaps = gaps.filter(|gaps| gaps.iter().all(|gap| gap.mean.is_finite()));
    Claim {
        figure: "gap",
        stated,
        measured: gaps.map_or_else(String::new, |gaps| {
            gaps.map(|gap| format!("{} ± {} %", figure(gap.mean), figure(gap.half_width))).join(", then ")
        }),
        verdict: verdict(true, gaps.map(|[from, to]| from.mean + from.half_width < to.mean - to.half_width)),
    }
}

const SKEW_STATED: [&str; 2] = [
    "the gap widens if accesses are not uniform (here: from the first skew to the last)",
    "record-level locks improve the DBMS manager somewhat (here: at the last skew)",
];
const SKEWS: Setting = Setting {
    name: "skews",
    help: "exponents of Zipf's law by which records are chosen, ascending",
    full: "0,0.3,0.5,0.6,0.65,0.7",
    quick: "0,0.6",
};

/// Skewed access, and locks on records.
pub const SKEW: Experiment = Experiment {
    name: "semantics/skew",
    source: PAPER,
    measures: "throughput of the DBMS manager with locks on pages and on records, and of the OS manager, by skew, MPL 20, \
               simulated",
    stated: &SKEW_STATED,
    settings: &[
        &[SKEWS, MPL.at("20"), NUMDISKS, CPU_LOCK, COMP_RATIO, SUB_PAGE_SIZE, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run: run_skew,
};

fn run_skew(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let skews: Vec<f64> = settings.list(SKEWS.name, 0.0, 5.0)?;
    let conditions = skews.iter().map(|skew| {
        (figure(*skew), *skew, Parameters { past: Past { skew: *skew, ..base.past }, ..base.clone() })
    });
    let all = Compared::measure(
        &Runs::new(settings)?,
        workspace,
        &[DBMS, DBMS_RECORDS, OS, OS_SHORT, OS_NO_LOG],
        conditions.collect(),
    )?;
    let gained = all.last().map(|last| last.points[1].gap(&last.points[0]));
    let gained = gained.filter(|gained| gained.mean.is_finite());
    let claims = vec![
        widens(SKEW_STATED[0], &all, 2),
        Claim {
            figure: "locks on records",
            stated: SKEW_STATED[1],
            measured: gained.map_or_else(String::new, |gained| {
                format!("{} ± {} %", figure(gained.mean), figure(gained.half_width))
            }),
            verdict: verdict(true, gained.map(|gained| gained.mean > gained.half_width)),
        },
    ];
    Ok(outcome(
        ("semantics-skew", "By skew, MPL 20, 2 disks"),
        &["skew"],
        ("Zipf's exponent", Scale::Linear),
        &all,
        claims,
    ))
}

const UPPER_LEVELS_STATED: [&str; 1] =
    ["contention in the root and the second level of indexes slows the OS manager further"];
const SPLITS: Setting = Setting {
    name: "splits",
    help: "how often a change of an index goes on to the page above, in %, ascending",
    full: "0,0.5,1,2,4",
    quick: "0,2",
};

/// Splits of nodes.
pub const UPPER_LEVELS: Experiment = Experiment {
    name: "semantics/upper-levels",
    source: PAPER,
    measures: "throughput of both managers by how often nodes of indexes split, MPL 20, simulated",
    stated: &UPPER_LEVELS_STATED,
    settings: &[
        &[SPLITS, MPL.at("20"), NUMDISKS, CPU_LOCK, COMP_RATIO, SUB_PAGE_SIZE, study::SKEW, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run: run_upper_levels,
};

fn run_upper_levels(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let splits: Vec<f64> = settings.list(SPLITS.name, 0.0, 100.0)?;
    let conditions = splits.iter().map(|split| {
        (
            figure(*split),
            *split,
            Parameters { past: Past { split: split / 100.0, ..base.past }, ..base.clone() },
        )
    });
    let all = Compared::measure(
        &Runs::new(settings)?,
        workspace,
        &[DBMS, OS, OS_SHORT, OS_NO_LOG],
        conditions.collect(),
    )?;
    Ok(outcome(
        ("semantics-upper-levels", "By splits of nodes, MPL 20, 2 disks"),
        &["split %"],
        ("changes that go on to the page above, %", Scale::Linear),
        &all,
        vec![widens(UPPER_LEVELS_STATED[0], &all, 1)],
    ))
}

const COMPRESSION_COST_STATED: [&str; 1] =
    ["what compression takes of the processor makes the figures without that optimistic"];
const COSTS: Setting = Setting {
    name: "costs",
    help: "instructions of compressing a byte, ascending",
    full: "0,2,5,10,20",
    quick: "0,20",
};

/// What compression takes.
pub const COMPRESSION_COST: Experiment = Experiment {
    name: "semantics/compression-cost",
    source: PAPER,
    measures: "throughput with a log compressed by 80 % by what that takes of the processor, MPL 20, simulated",
    stated: &COMPRESSION_COST_STATED,
    settings: &[
        &[COSTS, MPL.at("20"), NUMDISKS, CPU_LOCK, COMP_RATIO.at("80"), SUB_PAGE_SIZE, study::SKEW, SPLIT],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run: run_compression_cost,
};

fn run_compression_cost(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let costs: Vec<f64> = settings.list(COSTS.name, 0.0, 1e6)?;
    let conditions = costs.iter().map(|cost| {
        (figure(*cost), *cost, Parameters { past: Past { cpu_compress: *cost, ..base.past }, ..base.clone() })
    });
    let all =
        Compared::measure(&Runs::new(settings)?, workspace, &[DBMS, OS, OS_SHORT], conditions.collect())?;
    Ok(outcome(
        ("semantics-compression-cost", "By the cost of compression by 80 %, MPL 20, 2 disks"),
        &["a byte"],
        ("instructions of compressing a byte", Scale::Linear),
        &all,
        vec![widens(COMPRESSION_COST_STATED[0], &all, 1)],
    ))
}

const TODAY_STATED: [&str; 3] = [
    "(this project) in 1987, locks on records gain the DBMS manager nothing (here: less than 5 %)",
    "(this project) with all in memory, 64 processors and 1000 clients they gain nothing either, but over 30 % if some \
     records are hot",
    "(this project) there, the gap to level 0 is over 10 times that of 1987, and level 3 is within 15 % if it writes its \
     log at the commit",
];

/// As of the others, but for how long they are simulated.
const TODAY_TERMS: &[&str] = &[
    TERMS[0],
    "gap: by how much the throughput of the DBMS manager with locks on records is above the other's, in % of the latter",
    TERMS[2],
    TERMS[3],
    TERMS[4],
    "each system runs until so many transactions have committed, of each client too, or ten times as many have ended; the \
     times that are tried for an action, once each, are parts of the middle one that is set, shortened as the machine gets \
     faster",
    "no checkpoint comes in the time that faster machines are simulated, so with all in memory no data is written",
];

const PARTS: Setting = Setting {
    name: "parts",
    help: "parts of the time for an action that are tried: who waits for long in a deadlock keeps many others waiting",
    full: "1,0.25,0.0625,0.015625",
    quick: "0.125",
};

/// The study's system becomes one of today.
pub const TODAY: Experiment = Experiment {
    name: "semantics/today",
    source: PAPER,
    measures: "throughput of the managers on the study's machine and, step by step, on one of today, simulated",
    stated: &TODAY_STATED,
    settings: &[&[PARTS, CPU_LOCK, COMP_RATIO, SUB_PAGE_SIZE, SPLIT, CPU_COMPRESS], COMMON, TRANSACTIONS],
    terms: TODAY_TERMS,
    run: run_today,
};

/// A step from the study's machine to one of today.
struct Step {
    name: &'static str,
    /// Of the times for an action.
    part: f64,
    change: fn(&mut Parameters),
}

/// Where in [`STEPS`] the machine is one of today.
const IN_MEMORY: usize = 5;
/// And where, beside that, some records are hot.
const HOT: usize = 6;
/// Each keeps what those before it have changed.
const STEPS: [Step; 7] = [
    Step { name: "1987, MPL 20", part: 1.0, change: |system| system.mpl = 20 },
    Step { name: "no think time", part: 1.0, change: |system| system.past.think = 0.0 },
    Step {
        name: "flash: 0.1 ms, 32 at once",
        part: 0.3,
        change: |system| (system.disk_io, system.numdisks) = (0.1, 32),
    },
    Step { name: "10,000 MIPS", part: 5e-4, change: |system| system.cpu_mips = 10_000.0 },
    Step {
        name: "64 processors, MPL 1000",
        part: 1e-2,
        change: |system| (system.processors, system.mpl) = (64, 1000),
    },
    Step { name: "all in memory", part: 2.5e-4, change: |system| system.buf_size = 150_000 },
    Step { name: "skew 0.6", part: 2.5e-4, change: |system| system.past.skew = 0.6 },
];

fn run_today(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut system = parameters(settings)?;
    let parts: Vec<f64> = settings.list(PARTS.name, 1e-6, 1e3)?;
    let len = system.max_action_len;
    let conditions = STEPS.into_iter().zip(0..).map(|(Step { name, part, change }, at)| {
        change(&mut system);
        (name.to_owned(), f64::from(at), Parameters { max_action_len: len * part, ..system.clone() })
    });
    // The DBMS managers of today lock records.
    let managers = [DBMS_RECORDS, DBMS, OS, OS_SHORT, OS_NO_LOG, OS_LATE_LOG];
    let runs = Runs::of_transactions(settings, parts)?;
    let all = Compared::measure(&runs, workspace, &managers, conditions.collect())?;
    let claims = today_claims(&all[0], &all[IN_MEMORY], &all[HOT]);
    Ok(outcome(
        ("semantics-today", "From 1987 to today"),
        &["machine"],
        ("step", Scale::Logarithmic(10)),
        &all,
        claims,
    ))
}

fn today_claims(then: &Compared, today: &Compared, hot: &Compared) -> Vec<Claim> {
    let [pages, level_0, late_log] = [1, 2, 5];
    let all_known =
        [then, today, hot].iter().all(|of| (1..of.points.len()).all(|other| of.gap(other).is_finite()));
    let claim = |stated: usize, name, measured, holds| Claim {
        figure: name,
        stated: TODAY_STATED[stated],
        measured,
        verdict: verdict(true, Some(holds).filter(|_| all_known)),
    };
    vec![
        claim(0, "locks on records", format!("{} %", figure(then.gap(pages))), then.gap(pages) < 5.0),
        claim(
            1,
            "the same today",
            format!("{} %, {} % with hot records", figure(today.gap(pages)), figure(hot.gap(pages))),
            today.gap(pages) < 5.0 && hot.gap(pages) > 30.0,
        ),
        claim(
            2,
            "levels 0 and 3",
            format!(
                "{} %, today {} %; {} %",
                figure(then.gap(level_0)),
                figure(today.gap(level_0)),
                figure(today.gap(late_log))
            ),
            today.gap(level_0) > 10.0 * then.gap(level_0) && today.gap(late_log) < 15.0,
        ),
    ]
}

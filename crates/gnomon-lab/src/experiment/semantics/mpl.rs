//! `semantics/mpl`: throughput of both managers by the multiprogramming level (the study's Figure 1).

use gnomon_bench::{
    result::{Claim, Outcome, plot::Stated},
    store::Result,
    workspace::Workspace,
};

use super::study::{
    COMMON, COMP_RATIO, CPU_COMPRESS, CPU_LOCK, DBMS_LOCKS, LENGTH, MACHINE, NUMDISKS, PAPER, Pair, SKEW,
    SPLIT, SUB_PAGE_SIZE, TERMS, gap_claim, outcome_of_pairs, pair_at, pairs, parameters, stated_gaps,
};
use crate::{
    experiment::{Experiment, Setting, Values, verdict},
    semantics::parameters::Parameters,
};

const STATED: [&str; 4] = [
    "the DBMS manager is ahead by more than 20 %, throughout",
    "by 27 % at multiprogramming levels from 15 to 20",
    "throughput rises sharply from level 5 to 8, and hardly past 15",
    "the OS manager's log is about 30 times as large",
];
const LEVELS: Setting = Setting {
    name: "mpls",
    help: "multiprogramming levels, ascending",
    full: "5,6,8,10,12,15,18,20",
    quick: "5,15",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/mpl",
    source: PAPER,
    measures: "throughput of the DBMS and the OS manager by multiprogramming level, simulated (Figure 1)",
    stated: &STATED,
    settings: &[
        &[LEVELS, NUMDISKS, CPU_LOCK, COMP_RATIO, SUB_PAGE_SIZE, DBMS_LOCKS, SKEW, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let levels: Vec<f64> = settings.list(LEVELS.name, 1.0, 10_000.0)?;
    let all =
        pairs(settings, workspace, &levels, |level| Parameters { mpl: level as usize, ..base.clone() })?;
    Ok(outcome_of_pairs(
        ("semantics-mpl", "Throughput by multiprogramming level"),
        &["MPL"],
        "multiprogramming level",
        &all,
        vec![
            stated_gaps(&[(15.0, 27.0), (20.0, 27.0)]),
            Stated {
                label: "gap: at least".to_owned(),
                points: vec![(5.0, 20.0), (20.0, 20.0)],
                throughout: true,
            },
        ],
        claims(&all),
    ))
}

fn claims(all: &[Pair]) -> Vec<Claim> {
    let least = all.iter().map(Pair::gap).reduce(f64::min).filter(|gap| gap.is_finite());
    let high: Vec<f64> = all.iter().filter(|pair| (15.0..=20.0).contains(&pair.at)).map(Pair::gap).collect();
    let mean = (!high.is_empty()).then(|| high.iter().sum::<f64>() / high.len() as f64);
    let growth = |from: f64, to: f64| {
        let at = |level| pair_at(all, level).map(|pair| pair.os.throughput.mean);
        Some(at(to)? / at(from)?).filter(|growth| growth.is_finite())
    };
    let (early, late) = (growth(5.0, 8.0), growth(15.0, 20.0));
    let logs = pair_at(all, 15.0).map(|pair| pair.os.found.log_bytes / pair.dbms.found.log_bytes);
    let logs = logs.filter(|logs| logs.is_finite());
    vec![
        Claim {
            figure: "gap, least",
            stated: STATED[0],
            measured: least.map_or_else(String::new, |gap| format!("{gap:.1} %")),
            // Within five percentage points, as all gaps.
            verdict: verdict(true, least.map(|gap| gap > 15.0)),
        },
        gap_claim("gap", STATED[1], 27.0, mean),
        Claim {
            figure: "throughput",
            stated: STATED[2],
            measured: early.zip(late).map_or_else(String::new, |(early, late)| {
                format!("{early:.2} times from 5 to 8, {late:.2} times from 15 to 20")
            }),
            verdict: verdict(true, early.zip(late).map(|(early, late)| early > 1.1 && late < 1.05)),
        },
        Claim {
            figure: "log",
            stated: STATED[3],
            measured: logs.map_or_else(String::new, |logs| format!("{logs:.1} times")),
            verdict: verdict(true, logs.map(|logs| (24.0..=37.5).contains(&logs))),
        },
    ]
}

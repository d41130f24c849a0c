//! `semantics/lock-cost`: throughput by what a lock costs, where processors are short (the study's Figure 3).

use gnomon_bench::{
    result::{Claim, Outcome},
    store::Result,
    workspace::Workspace,
};

use super::study::{
    COMMON, COMP_RATIO, CPU_COMPRESS, DBMS_LOCKS, LENGTH, MACHINE, MPL, NUMDISKS, PAPER, Pair, SKEW, SPLIT,
    SUB_PAGE_SIZE, TERMS, gap_claim, outcome_of_pairs, pair_at, pairs, parameters, stated_gaps,
};
use crate::{
    experiment::{Experiment, Setting, Values, verdict},
    semantics::parameters::Parameters,
};

const STATED: [&str; 3] = [
    "with 2000 instructions the DBMS manager is ahead by 54 %",
    "with 200 by 30 %",
    "the OS manager acquires about five times as many locks",
];
const COSTS: Setting = Setting {
    name: "costs",
    help: "instructions of a pair of lock and unlock, ascending",
    full: "200,500,1000,1500,2000",
    quick: "200,2000",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/lock-cost",
    source: PAPER,
    measures: "throughput of both managers by the cost of a lock, MPL 20 on 8 disks, simulated (Figure 3)",
    stated: &STATED,
    settings: &[
        &[COSTS, MPL.at("20"), NUMDISKS.at("8"), COMP_RATIO, SUB_PAGE_SIZE],
        &[DBMS_LOCKS, SKEW, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let costs: Vec<f64> = settings.list(COSTS.name, 0.0, 1e12)?;
    let all = pairs(settings, workspace, &costs, |cost| Parameters { cpu_lock: cost, ..base.clone() })?;
    Ok(outcome_of_pairs(
        ("semantics-lock-cost", "Throughput by the cost of a lock, MPL 20, 8 disks"),
        &["instructions"],
        "instructions of a lock",
        &all,
        vec![stated_gaps(&[(200.0, 30.0), (2000.0, 54.0)])],
        claims(&all),
    ))
}

fn claims(all: &[Pair]) -> Vec<Claim> {
    let gap = |cost| pair_at(all, cost).map(Pair::gap);
    let locks = all.last().map(|pair| pair.os.found.locks / pair.dbms.found.locks);
    let locks = locks.filter(|locks| locks.is_finite());
    vec![
        gap_claim("gap at 2000", STATED[0], 54.0, gap(2000.0)),
        gap_claim("gap at 200", STATED[1], 30.0, gap(200.0)),
        Claim {
            figure: "locks",
            stated: STATED[2],
            measured: locks.map_or_else(String::new, |locks| format!("{locks:.1} times")),
            verdict: verdict(true, locks.map(|locks| (4.0..=6.25).contains(&locks))),
        },
    ]
}

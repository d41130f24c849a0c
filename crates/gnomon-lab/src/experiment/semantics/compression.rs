//! `semantics/compression`: throughput by how much the OS manager's log is compressed (the study's Figure 2).

use gnomon_bench::{
    result::{Claim, Outcome},
    store::Result,
    workspace::Workspace,
};

use super::study::{
    COMMON, CPU_COMPRESS, CPU_LOCK, DBMS_LOCKS, LENGTH, MACHINE, MPL, NUMDISKS, PAPER, Pair, SKEW, SPLIT,
    SUB_PAGE_SIZE, TERMS, gap_claim, outcome_of_pairs, pair_at, pairs, parameters, stated_gaps,
};
use crate::{
    experiment::{Experiment, Setting, Values},
    semantics::parameters::Parameters,
};

const STATED: [&str; 2] =
    ["without compression the DBMS manager is ahead by 27 %", "with a log compressed by 80 %, by 10 %"];
const RATIOS: Setting = Setting {
    name: "ratios",
    help: "by how much the OS manager's log is compressed, in %, ascending",
    full: "0,20,40,60,80",
    quick: "0,80",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/compression",
    source: PAPER,
    measures: "throughput of both managers by the compression of the OS manager's log, MPL 20, simulated (Figure 2)",
    stated: &STATED,
    settings: &[
        &[RATIOS, MPL.at("20"), NUMDISKS, CPU_LOCK, SUB_PAGE_SIZE, DBMS_LOCKS, SKEW, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let ratios: Vec<f64> = settings.list(RATIOS.name, 0.0, 100.0)?;
    let all = pairs(settings, workspace, &ratios, |ratio| Parameters {
        comp_ratio: ratio / 100.0,
        ..base.clone()
    })?;
    Ok(outcome_of_pairs(
        ("semantics-compression", "Throughput by compression of the OS manager's log, MPL 20"),
        &["%"],
        "compression, %",
        &all,
        vec![stated_gaps(&[(0.0, 27.0), (80.0, 10.0)])],
        claims(&all),
    ))
}

fn claims(all: &[Pair]) -> Vec<Claim> {
    let gap = |ratio| pair_at(all, ratio).map(Pair::gap);
    vec![
        gap_claim("gap at 0 %", STATED[0], 27.0, gap(0.0)),
        gap_claim("gap at 80 %", STATED[1], 10.0, gap(80.0)),
    ]
}

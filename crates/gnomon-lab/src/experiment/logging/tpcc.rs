//! `logging/tpcc`: TPC-C under no logging, command logging and value logging, at saturation and over the rate of calls
//! (the paper's Figures 5-3 and 5-5).

use gnomon_bench::{
    result::{Claim, Outcome, text::figure},
    store::Result,
    workspace::Workspace,
};

use super::{
    bench::{Bench, COMMAND, PAPER, TERMS, VALUE, is_close},
    sweep::{SWEEP_SETTINGS, Sweep},
};
use crate::experiment::{Experiment, Values, is_near, verdict};

const STATED: [&str; 4] = [
    "command logging saturates where no logging does",
    "value logging saturates at 66 % of it",
    "command logging has 1.5 times the throughput of value logging",
    "latency of value logging at least 45 % above that of command logging, at every rate",
];

/// What command logging and value logging saturate at.
const STATED_TPS: (f64, f64) = (30_000.0, 21_000.0);

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/tpcc",
    source: PAPER,
    measures: "TPC-C without logging, with commands and with values logged, by load (Figures 5-3, 5-5)",
    stated: &STATED,
    settings: SWEEP_SETTINGS,
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let tpcc = bench.tpcc;
    let sweep = Sweep::measure(settings, &mut bench, &tpcc)?;
    Ok(Outcome {
        claims: claims(&sweep, bench.is_as_stated()),
        differences: bench.differences(),
        tables: vec![sweep.table()],
        figures: sweep
            .figures(sweep.saturation(&[(COMMAND, STATED_TPS.0), (VALUE, STATED_TPS.1)]), Vec::new()),
        data: serde_json::to_value(&sweep).expect("figures are plain fields"),
    })
}

fn claims(sweep: &Sweep, comparable: bool) -> Vec<Claim> {
    let [(command, of_command), (value, of_value)] = [COMMAND, VALUE].map(|method| sweep.share(method));
    let gap = sweep.saturated.speed(COMMAND, VALUE);
    let slowness = sweep.offered.iter().map(|one| one.rounds.slowness(VALUE, COMMAND));
    let least = slowness.reduce(f64::min);
    vec![
        Claim {
            figure: "command logging",
            stated: STATED[0],
            measured: of_command,
            verdict: verdict(comparable, Some(command >= 0.95)),
        },
        Claim {
            figure: "value logging",
            stated: STATED[1],
            measured: of_value,
            verdict: verdict(comparable, Some(is_close(value, 0.66))),
        },
        Claim {
            figure: "gap",
            stated: STATED[2],
            measured: format!("{} times", figure(gap)),
            verdict: verdict(comparable, Some(is_near(gap, 1.5))),
        },
        Claim {
            figure: "latency of value logging",
            stated: STATED[3],
            measured: format!("{} times, at least", figure(least.unwrap_or(f64::NAN))),
            verdict: verdict(comparable, least.map(|least| least >= 1.45)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::{
        super::sweep::tests::{quick_sweep, sweep},
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_orders_under_every_method_and_compares_nothing() {
        let report = quick_sweep(&EXPERIMENT);
        assert!(report.claims.iter().all(|claim| claim.verdict == NotComparable));
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let verdicts =
            |sweep: &Sweep| claims(sweep, true).iter().map(|claim| claim.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&sweep([30.0, 30.0, 20.0], &[(20, [5.0, 6.0, 9.0])])), [Holds; 4]);
        assert_eq!(verdicts(&sweep([30.0, 25.0, 30.0], &[(20, [5.0, 6.0, 7.0])])), [DoesNotHold; 4]);
    }
}

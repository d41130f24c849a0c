//! `logging/voter`: Voter under no logging, command logging and value logging, at saturation and over the rate of calls
//! (the paper's Figures 5-2 and 5-4).

use gnomon_bench::{
    result::{Claim, Outcome, plot::Stated, text::figure},
    store::Result,
    workspace::Workspace,
};

use super::{
    bench::{Bench, COMMAND, PAPER, TERMS, VALUE, is_close},
    sweep::{SWEEP_SETTINGS, Sweep},
};
use crate::experiment::{Experiment, Values, verdict};

const STATED: [&str; 4] = [
    "command logging saturates where no logging does (at 95,000 transactions a second there)",
    "value logging saturates 15 % below (at 80,000)",
    "latency of 5 to 7 ms below about half of that, with group commit every 5 ms",
    "latency of value logging 15 % above that of command logging",
];
/// 50,000 of 95,000.
const UNHURRIED_PERCENT: u32 = 53;
const STATED_INTERVAL_MS: f64 = 5.0;
/// What command logging and value logging saturate at.
const STATED_TPS: (f64, f64) = (95_000.0, 80_000.0);
/// Up to so many calls a second.
const UNHURRIED_TPS: f64 = 50_000.0;
const STATED_LATENCY_MS: (f64, f64) = (5.0, 7.0);
/// 5 to 7 ms, and a quarter.
const STATED_MS: std::ops::RangeInclusive<f64> = 4.0..=8.75;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/voter",
    source: PAPER,
    measures: "Voter without logging, with commands and with values logged, by load (Figures 5-2, 5-4)",
    stated: &STATED,
    settings: SWEEP_SETTINGS,
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let voter = bench.voter;
    let sweep = Sweep::measure(settings, &mut bench, &voter)?;
    Ok(Outcome {
        claims: claims(&sweep, bench.base.group_commit_ms),
        differences: bench.differences(),
        tables: vec![sweep.table()],
        figures: sweep.figures(
            sweep.saturation(&[(COMMAND, STATED_TPS.0), (VALUE, STATED_TPS.1)]),
            [STATED_LATENCY_MS.0, STATED_LATENCY_MS.1].map(latency).into(),
        ),
        data: serde_json::to_value(&sweep).expect("figures are plain fields"),
    })
}

fn latency(ms: f64) -> Stated {
    Stated {
        label: format!("{ms} ms, up to {UNHURRIED_TPS} calls a second"),
        points: vec![(0.0, ms), (UNHURRIED_TPS, ms)],
        throughout: true,
    }
}

fn claims(sweep: &Sweep, interval_ms: f64) -> Vec<Claim> {
    let [(command, of_command), (value, of_value)] = [COMMAND, VALUE].map(|method| sweep.share(method));
    let latencies = || sweep.below(UNHURRIED_PERCENT).map(|rounds| rounds.mean_ms(COMMAND));
    let latency = latencies().reduce(f64::min).zip(latencies().reduce(f64::max));
    let slowness = sweep.below(UNHURRIED_PERCENT).map(|rounds| rounds.slowness(VALUE, COMMAND));
    let slowest = slowness.reduce(f64::max);
    vec![
        Claim {
            figure: "command logging",
            stated: STATED[0],
            measured: of_command,
            verdict: verdict(true, Some(command >= 0.95)),
        },
        Claim {
            figure: "value logging",
            stated: STATED[1],
            measured: of_value,
            verdict: verdict(true, Some(is_close(value, 0.85))),
        },
        Claim {
            figure: "latency",
            stated: STATED[2],
            measured: latency.map_or_else(String::new, |(least, most)| {
                format!("{} to {} ms with command logging", figure(least), figure(most))
            }),
            verdict: verdict(
                interval_ms == STATED_INTERVAL_MS,
                latency.map(|(least, most)| STATED_MS.contains(&least) && STATED_MS.contains(&most)),
            ),
        },
        Claim {
            figure: "latency of value logging",
            stated: STATED[3],
            measured: format!("{} times, at most", figure(slowest.unwrap_or(f64::NAN))),
            verdict: verdict(true, slowest.map(|slowest| is_close(slowest, 1.15))),
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
    fn a_quick_run_votes_under_every_method() {
        let report = quick_sweep(&EXPERIMENT);
        assert_eq!(report.claims.len(), STATED.len());
        let stated = report.figures.iter().map(|figure| figure.panels[0].stated.len());
        assert_eq!(
            stated.collect::<Vec<_>>(),
            [2, 2],
            "what both logs saturate at, and between which latencies"
        );
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let verdicts = |sweep: &Sweep, interval| {
            claims(sweep, interval).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        let stated = sweep([95.0, 94.0, 80.0], &[(20, [5.0, 6.0, 6.9]), (80, [20.0, 20.0, 90.0])]);
        assert_eq!(verdicts(&stated, 5.0), [Holds; 4]);
        assert_eq!(verdicts(&stated, 1.0), [Holds, Holds, NotComparable, Holds]);
        let other = sweep([95.0, 80.0, 94.0], &[(20, [5.0, 9.0, 9.0])]);
        assert_eq!(verdicts(&other, 5.0), [DoesNotHold; 4]);
        let saturated_only = sweep([95.0, 94.0, 80.0], &[]);
        assert_eq!(verdicts(&saturated_only, 5.0), [Holds, Holds, NotComparable, NotComparable]);
    }
}

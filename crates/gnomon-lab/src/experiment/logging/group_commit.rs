//! `logging/group-commit`: latency below saturation, and throughput at it, by how long commits wait for others (the
//! paper's Figures 5-12 and 5-13).

use gnomon_bench::{
    procedure::{Calls, Settings, tpcc::Tpcc, voter::Voter},
    recovery::Method,
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{
    BENCH_SETTINGS, Bench, COMMAND, FEW_ROUNDS, How, LOGS, PAPER, Rounds, SERIAL_SETTINGS, TERMS, is_close,
    table,
};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 3] = [
    "mean latency grows linearly with the interval, from 1 to 15 ms, for both logs and workloads",
    "Voter: at 15 ms throughput is down by 10 %",
    "TPC-C: throughput does not depend on the interval",
];
const INTERVALS: Setting = Setting {
    name: "intervals-ms",
    help: "how long commits wait for others before they are forced together, ascending",
    full: "0,1,3,5,10,15",
    quick: "0,5",
};
const SHARE: Setting = Setting {
    name: "rate",
    help: "at which calls come for latencies, in % of the least throughput at saturation",
    full: "30",
    quick: "30",
};
/// Between the intervals for which most is stated.
const STATED_MS: (f64, f64) = (1.0, 15.0);
/// Of a straight line through what grows linearly: of the variance, the part that it explains.
const LINEAR: f64 = 0.95;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/group-commit",
    source: PAPER,
    measures: "latency and throughput by the interval of group commit, Voter and TPC-C (Figures 5-12, 5-13)",
    stated: &STATED,
    settings: &[&[INTERVALS, SHARE, FEW_ROUNDS], SERIAL_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// Both logs at an interval.
#[derive(Clone, Debug, Serialize)]
struct Interval {
    ms: f64,
    saturated: Rounds,
    /// At a rate below saturation.
    unhurried: Rounds,
}

/// A workload by interval.
#[derive(Clone, Debug, Serialize)]
struct Series {
    workload: &'static str,
    intervals: Vec<Interval>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let intervals: Vec<f64> = settings.list(INTERVALS.name, 0.0, 1_000.0)?;
    let share = settings.number(SHARE.name, 1.0, 100.0)? / 100.0;
    let how = How::rounds(settings.number(FEW_ROUNDS.name, 1, 100)?);
    bench.total = 2 * 2 * how.rounds * (LOGS.len() * intervals.len()) as u64;
    let (voter, tpcc) = (bench.voter, bench.tpcc);
    let all = [
        Series::measure(&mut bench, &voter, &intervals, share, how)?,
        Series::measure(&mut bench, &tpcc, &intervals, share, how)?,
    ];
    Ok(Outcome {
        claims: claims(&all, bench.is_as_stated()),
        differences: bench.differences(),
        tables: all.iter().map(Series::table).collect(),
        figures: vec![plot(&all)],
        data: serde_json::json!({ "series": all }),
    })
}

impl Series {
    fn measure<W: Calls>(
        bench: &mut Bench<'_>,
        workload: &W,
        intervals: &[f64],
        share: f64,
        how: How,
    ) -> Result<Series> {
        let base = bench.base.clone();
        let at = |ms: f64, rate| Settings { group_commit_ms: ms, rate, ..base.clone() };
        let mut saturated = Vec::new();
        for &ms in intervals {
            saturated.push((ms, bench.compare(workload, &at(ms, None), &LOGS, how)?));
        }
        let each = saturated.iter().flat_map(|(_, rounds)| LOGS.map(|method| rounds.tps(method)));
        let rate = each.reduce(f64::min).map(|least| Bench::rate(least, share));
        let mut all = Vec::new();
        for (ms, saturated) in saturated {
            let unhurried = bench.compare(workload, &at(ms, rate), &LOGS, how)?;
            all.push(Interval { ms, saturated, unhurried });
        }
        Ok(Series { workload: W::NAME, intervals: all })
    }

    /// The least part of the variance of mean latencies that a straight line explains; none of fewer than three
    /// intervals.
    fn linearity(&self) -> Option<f64> {
        let stated = || self.intervals.iter().filter(|one| (STATED_MS.0..=STATED_MS.1).contains(&one.ms));
        let line =
            |method| -> Vec<_> { stated().map(|one| (one.ms, one.unhurried.mean_ms(method))).collect() };
        (stated().count() >= 3)
            .then(|| LOGS.map(|method| determination(&line(method))))?
            .into_iter()
            .reduce(f64::min)
    }

    /// What throughput with command logging is at the longest stated interval, as a share of that at the shortest.
    fn kept(&self) -> Option<f64> {
        let at = |ms| self.intervals.iter().find(|one| one.ms == ms).map(|one| one.saturated.tps(COMMAND));
        Some(at(STATED_MS.1)? / at(STATED_MS.0)?)
    }

    fn table(&self) -> ResultTable {
        let rows = self.intervals.iter().flat_map(|one| {
            [("saturated", &one.saturated), ("at a rate", &one.unhurried)].into_iter().flat_map(
                move |(load, rounds)| {
                    let points = LOGS.iter().filter_map(|method| rounds.point(*method));
                    points.map(move |point| (vec![figure(one.ms), load.to_owned()], point))
                },
            )
        });
        table(&format!("{} by the interval of group commit", self.workload), &["interval ms", "load"], rows)
    }
}

/// The coefficient of determination of the straight line that is nearest to some points.
fn determination(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    sum(&|x, y| x * y).powi(2) / (sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

fn claims(all: &[Series], comparable: bool) -> Vec<Claim> {
    let of = |workload| all.iter().find(|series| series.workload == workload);
    let linearity = all.iter().map(Series::linearity).collect::<Option<Vec<_>>>();
    let linearity = linearity.and_then(|each| each.into_iter().reduce(f64::min));
    let [voter, tpcc] = [Voter::NAME, Tpcc::NAME].map(|workload| of(workload).and_then(Series::kept));
    let kept = |share: Option<f64>| {
        share.map_or_else(String::new, |share| format!("{} at 15 ms of that at 1 ms", percent(share, 1)))
    };
    vec![
        Claim {
            figure: "latency",
            stated: STATED[0],
            measured: linearity.map_or_else(String::new, |least| {
                format!("a straight line explains {} of the variance or more", percent(least, 1))
            }),
            verdict: verdict(comparable, linearity.map(|least| least >= LINEAR)),
        },
        Claim {
            figure: "throughput, Voter",
            stated: STATED[1],
            measured: kept(voter),
            verdict: verdict(true, voter.map(|share| is_close(share, 0.9))),
        },
        Claim {
            figure: "throughput, TPC-C",
            stated: STATED[2],
            measured: kept(tpcc),
            verdict: verdict(comparable, tpcc.map(|share| is_close(share, 1.0))),
        },
    ]
}

fn plot(all: &[Series]) -> Figure {
    let panel = |label, of: &dyn Fn(&Interval, Method) -> f64| Panel {
        x: Axis { label: "interval of group commit, ms", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: all
            .iter()
            .flat_map(|series| LOGS.map(|method| (series, method)))
            .map(|(series, method)| Curve {
                label: format!("{}, {}", series.workload, method.name()),
                points: series.intervals.iter().map(|one| (one.ms, of(one, method))).collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    Figure {
        name: "group-commit".into(),
        title: "Latency below saturation, and throughput at it, by the interval of group commit".into(),
        panels: vec![
            panel("mean latency, ms", &|one, method| one.unhurried.mean_ms(method)),
            panel("transactions a second", &|one, method| one.saturated.tps(method)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::bench::{
            VALUE,
            tests::{quick, round},
        },
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_waits_for_others_in_every_interval() {
        let report = quick(&EXPERIMENT);
        let series = report.data["series"].as_array().unwrap();
        assert_eq!(series.len(), 2);
        for one in series {
            let longest = &one["intervals"][1];
            assert_eq!(longest["ms"], 5.0);
            // A commit waits for half of the interval on average.
            assert!(longest["unhurried"][0][0]["mean_ms"].as_f64() > Some(2.0), "{longest}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let series = |workload, ms: [f64; 3], tps: [f64; 3]| Series {
            workload,
            intervals: [1.0, 5.0, 15.0]
                .into_iter()
                .zip(ms.into_iter().zip(tps))
                .map(|(interval, (ms, tps))| {
                    let both = round(&[(COMMAND, tps, ms), (VALUE, tps, ms)]);
                    Interval { ms: interval, saturated: both.clone(), unhurried: both }
                })
                .collect(),
        };
        let verdicts = |all: &[Series], comparable| {
            claims(all, comparable).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        let linear = [2.0, 4.0, 9.0];
        let stated = [series("voter", linear, [100.0, 95.0, 90.0]), series("tpcc", linear, [10.0, 9.0, 9.8])];
        assert_eq!(verdicts(&stated, true), [Holds; 3]);
        assert_eq!(verdicts(&stated, false), [NotComparable, Holds, NotComparable]);
        let other = [series("voter", linear, [100.0; 3]), series("tpcc", [9.0, 1.0, 9.0], [10.0, 9.0, 8.0])];
        assert_eq!(verdicts(&other, true), [DoesNotHold; 3]);
        assert_eq!(verdicts(&[], true), [NotComparable; 3]);
    }
}

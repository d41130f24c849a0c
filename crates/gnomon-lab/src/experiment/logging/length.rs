//! `logging/length`: computation added to each transaction: throughput under each method, and how fast the logs are
//! replayed (the paper's Figures 5-14 to 5-17).

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
    BENCH_SETTINGS, Bench, COMMAND, FEW_ROUNDS, How, INTERVAL, LOGS, MODES, PAPER, Rounds, SERIAL_SETTINGS,
    TERMS, VALUE,
};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 5] = [
    "Voter: with 1 ms value logging is within 5 % of command logging",
    "Voter: with 10 ms within 1 %",
    "TPC-C: with 1 ms value logging is within 12 % of command logging",
    "TPC-C: with 10 ms within 2 %",
    "with 10 ms the replay of commands is slower by orders of magnitude (here: by one at least), on both",
];
const LENGTHS: Setting = Setting {
    name: "lengths-us",
    help: "microseconds of computation added to each transaction, ascending",
    full: "0,100,1000,10000",
    quick: "0,100",
};
/// A batch of calls that an executor runs before it acknowledges them has so many at most.
const BATCH: usize = 64;
/// A commit is durable after so long, and the interval of group commit.
const FORCE_MS: f64 = 5.0;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/length",
    source: PAPER,
    measures: "computation added to each transaction: throughput, and replay of both logs (Figures 5-14 to 5-17)",
    stated: &STATED,
    settings: &[&[LENGTHS, INTERVAL, FEW_ROUNDS], SERIAL_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// All methods with a length of transactions.
#[derive(Clone, Debug, Serialize)]
struct Length {
    us: u32,
    rounds: Rounds,
}

/// A workload by length.
#[derive(Clone, Debug, Serialize)]
struct Series {
    workload: &'static str,
    lengths: Vec<Length>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let lengths: Vec<u32> = settings.list(LENGTHS.name, 0, 1_000_000)?;
    let how = How { replays: 1, ..How::rounds(settings.number(FEW_ROUNDS.name, 1, 100)?) };
    bench.base.group_commit_ms = settings.number(INTERVAL.name, 0.0, 1_000.0)?;
    bench.total = 2 * how.rounds * (MODES.len() * lengths.len()) as u64;
    let (voter, tpcc) = (bench.voter, bench.tpcc);
    let of_voter = |compute_us| Voter { compute_us, ..voter };
    let of_tpcc = |compute_us| Tpcc { compute_us, ..tpcc };
    let all = [
        Series::measure(&mut bench, of_voter, &lengths, how)?,
        Series::measure(&mut bench, of_tpcc, &lengths, how)?,
    ];
    let mut differences = bench.differences();
    differences.push(
        "as many calls are under way as keep the executors busy while commits are forced, so that a run of long ones \
         ends soon"
            .into(),
    );
    differences.push("calls are replayed in their partitions, by a thread for each processor".into());
    Ok(Outcome {
        claims: claims(&all, bench.is_as_stated()),
        differences,
        tables: all.iter().map(Series::table).collect(),
        figures: figures(&all),
        data: serde_json::json!({ "series": all }),
    })
}

impl Series {
    fn measure<W: Calls>(
        bench: &mut Bench<'_>,
        with_length: impl Fn(u32) -> W,
        lengths: &[u32],
        how: How,
    ) -> Result<Series> {
        let mut all = Vec::new();
        for &us in lengths {
            let settings = Settings { outstanding: outstanding(&bench.base, us), ..bench.base.clone() };
            all.push(Length { us, rounds: bench.compare(&with_length(us), &settings, &MODES, how)? });
        }
        Ok(Series { workload: W::NAME, lengths: all })
    }

    fn at(&self, us: u32) -> Option<&Rounds> {
        self.lengths.iter().find(|length| length.us == us).map(|length| &length.rounds)
    }

    /// How many times faster the log is replayed without added computation than with so much.
    fn slowdown(&self, method: Method, us: u32) -> Option<f64> {
        let tps = |us| Some(self.at(us)?.replay(method)?.tps());
        Some(tps(0)? / tps(us)?)
    }

    fn table(&self) -> ResultTable {
        let row = |length: &Length| {
            let rounds = &length.rounds;
            let replay = |method| rounds.replay(method).map_or(f64::NAN, |replay| replay.tps());
            let numbers = [
                rounds.tps(Method::None),
                rounds.tps(COMMAND),
                rounds.tps(VALUE),
                rounds.speed(VALUE, COMMAND),
                replay(COMMAND),
                replay(VALUE),
                replay(VALUE) / replay(COMMAND),
            ];
            std::iter::once(length.us.to_string()).chain(numbers.map(figure)).collect()
        };
        ResultTable {
            title: format!("{} by added computation; replay in commits a second", self.workload),
            headings: vec![
                "us",
                "none tps",
                "command tps",
                "value tps",
                "value : command",
                "command replay",
                "value replay",
                "value : command",
            ],
            rows: self.lengths.iter().map(row).collect(),
        }
    }
}

/// How many calls each client has under way. An executor acknowledges a batch when that is durable: if calls are longer
/// than that takes, it needs a few only, and has small batches; if not, it needs others while one is forced.
fn outstanding(base: &Settings, us: u32) -> usize {
    let (length_ms, durable_ms) = (f64::from(us) / 1e3, base.group_commit_ms + FORCE_MS);
    let each = match length_ms {
        0.0 => return base.outstanding,
        length if length >= durable_ms => 4,
        length => 2 * BATCH + (durable_ms / length) as usize,
    };
    (each * base.execution.executors() as usize).div_ceil(base.clients).min(base.outstanding)
}

fn claims(all: &[Series], comparable: bool) -> Vec<Claim> {
    let of = |workload| all.iter().find(|series| series.workload == workload);
    let share = |workload, us| {
        of(workload)?.at(us).map(|rounds| rounds.speed(VALUE, COMMAND)).filter(|share| share.is_finite())
    };
    let near = |figure, stated, workload, us, least: f64| {
        let share: Option<f64> = share(workload, us);
        Claim {
            figure,
            stated,
            measured: share
                .map_or_else(String::new, |share| format!("{} of command logging", percent(share, 1))),
            verdict: verdict(comparable || workload == Voter::NAME, share.map(|share| share >= least)),
        }
    };
    let slowdowns: Vec<f64> = all.iter().filter_map(|series| series.slowdown(COMMAND, 10_000)).collect();
    let least = slowdowns.iter().copied().reduce(f64::min);
    vec![
        near("Voter, 1 ms", STATED[0], Voter::NAME, 1_000, 0.95),
        near("Voter, 10 ms", STATED[1], Voter::NAME, 10_000, 0.99),
        near("TPC-C, 1 ms", STATED[2], Tpcc::NAME, 1_000, 0.88),
        near("TPC-C, 10 ms", STATED[3], Tpcc::NAME, 10_000, 0.98),
        Claim {
            figure: "replay of commands",
            stated: STATED[4],
            measured: slowdowns.iter().map(|times| figure(*times)).collect::<Vec<_>>().join(" and ")
                + if slowdowns.is_empty() { "" } else { " times slower" },
            verdict: verdict(comparable, least.map(|least| least >= 10.0)),
        },
    ]
}

fn figures(all: &[Series]) -> Vec<Figure> {
    let x = Axis { label: "computation added to each transaction, ms", scale: Scale::Linear };
    let run = all.iter().map(|series| {
        // As in the paper without the transactions as they are, which would be far above all others.
        let longer = || series.lengths.iter().filter(|length| length.us > 0);
        Panel {
            x,
            y: Axis { label: "transactions a second", scale: Scale::Linear },
            curves: MODES
                .iter()
                .map(|method| Curve {
                    label: format!("{}, {}", series.workload, method.name()),
                    points: longer()
                        .map(|length| (f64::from(length.us) / 1e3, length.rounds.tps(*method)))
                        .collect(),
                })
                .collect(),
            stated: Vec::new(),
        }
    });
    let replay = all.iter().map(|series| Panel {
        x,
        y: Axis { label: "commits replayed a second", scale: Scale::Logarithmic(10) },
        curves: LOGS
            .iter()
            .map(|method| Curve {
                label: format!("{}, {}", series.workload, method.name()),
                points: series
                    .lengths
                    .iter()
                    .filter_map(|length| {
                        Some((f64::from(length.us) / 1e3, length.rounds.replay(*method)?.tps()))
                    })
                    .collect(),
            })
            .collect(),
        stated: Vec::new(),
    });
    vec![
        Figure {
            name: "throughput".into(),
            title: "Throughput by the length of transactions".into(),
            panels: run.collect(),
        },
        Figure {
            name: "replay".into(),
            title: "Replay by the length of transactions".into(),
            panels: replay.collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use gnomon_engine::{Execution, env::processors};

    use super::{
        super::bench::{
            Replay,
            tests::{quick, round},
        },
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_computes_in_calls_and_in_their_replay_only() {
        let report = quick(&EXPERIMENT);
        let series = report.data["series"].as_array().unwrap();
        assert_eq!(series.len(), 2);
        for one in series {
            let replay = |method: usize| &one["lengths"][1]["rounds"][0][method]["replay"];
            let [command, value] = [1, 2].map(|method| {
                let replay = replay(method);
                replay["seconds"].as_f64().unwrap() / replay["commits"].as_f64().unwrap()
            });
            let threads = processors() as f64;
            assert!(command * threads >= 100e-6, "each call is run once more: {one}");
            assert!(replay(0).is_null() && value < command, "{one}");
        }
    }

    #[test]
    fn so_many_calls_are_under_way_as_keep_executors_busy() {
        let base = Settings {
            clients: 2,
            execution: Execution::serial(2),
            outstanding: 2000,
            ..round(&[(COMMAND, 1.0, 1.0)]).0[0][0].settings.clone()
        };
        assert_eq!([0, 100, 1_000, 10_000].map(|us| outstanding(&base, us)), [2000, 228, 138, 4]);
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let series = |workload, value: [f64; 3], replay: [f64; 3]| Series {
            workload,
            lengths: [0, 1_000, 10_000]
                .into_iter()
                .zip(value.into_iter().zip(replay))
                .map(|(us, (value, replay))| {
                    let mut rounds = round(&[(COMMAND, 100.0, 1.0), (VALUE, value, 1.0)]);
                    rounds.0[0][0].replay = Some(Replay {
                        commits: 100,
                        log_bytes: 1,
                        run_seconds: 1.0,
                        seconds: 100.0 / replay,
                        one_thread_seconds: None,
                    });
                    Length { us, rounds }
                })
                .collect(),
        };
        let verdicts = |all: &[Series], comparable| {
            claims(all, comparable).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        let replay = [1000.0, 100.0, 10.0];
        let stated =
            [series("voter", [85.0, 96.0, 99.5], replay), series("tpcc", [66.0, 90.0, 99.0], replay)];
        assert_eq!(verdicts(&stated, true), [Holds; 5]);
        assert_eq!(verdicts(&stated, false), [Holds, Holds, NotComparable, NotComparable, NotComparable]);
        let other = [series("voter", [85.0; 3], [9.0; 3]), series("tpcc", [66.0; 3], replay)];
        assert_eq!(verdicts(&other, true), [DoesNotHold; 5]);
        assert_eq!(verdicts(&[], true), [NotComparable; 5]);
    }
}

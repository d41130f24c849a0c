//! `logging/recovery`: how fast both logs are replayed, beside how fast they were written (the paper's Figures 5-10 and
//! 5-11).
//!
//! The log grows without a checkpoint. The database is copied when all calls are answered but nothing was closed: that
//! is what a crash leaves. What is measured is opening such a copy, which replays the log.

use std::cmp::Ordering;

use gnomon_bench::{
    procedure::{Calls, tpcc::Tpcc, voter::Voter},
    result::{Claim, Outcome, ResultTable, Verdict, text::figure},
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{
    BENCH_SETTINGS, Bench, COMMAND, How, INTERVAL, LOGS, PAPER, Replay, Rounds, SERIAL_SETTINGS, VALUE,
};
use crate::experiment::{Experiment, Setting, Values, verdict_about};

const STATED: [&str; 5] = [
    "Voter: commands are replayed as fast as they can run",
    "Voter: values are replayed about 5 times as fast",
    "TPC-C: commands are replayed as fast as they can run",
    "TPC-C: values are replayed about 1.5 times as fast",
    "reading the log adds 30 % (Voter) and 8 % (TPC-C) to the replay of values, less than 1 % to that of commands",
];
const RUNS: Setting =
    Setting { name: "runs", help: "of each replay, of which the median counts", full: "3", quick: "1" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/recovery",
    source: PAPER,
    measures: "replay of commands and of values beside their run, Voter and TPC-C (Figures 5-10, 5-11)",
    stated: &STATED,
    settings: &[&[RUNS, INTERVAL], SERIAL_SETTINGS, BENCH_SETTINGS],
    terms: &["commits: transactions that write; run: when they were called, at saturation"],
    run,
};

/// Both logs of a workload.
#[derive(Clone, Debug, Serialize)]
struct Series {
    workload: &'static str,
    rounds: Rounds,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let replays = settings.number(RUNS.name, 1, 100)?;
    bench.base.group_commit_ms = settings.number(INTERVAL.name, 0.0, 1_000.0)?;
    bench.total = 2 * LOGS.len() as u64;
    let (voter, tpcc) = (bench.voter, bench.tpcc);
    let all = [Series::measure(&mut bench, &voter, replays)?, Series::measure(&mut bench, &tpcc, replays)?];
    let mut differences = bench.differences();
    differences.extend([
        "threads share the keys of values, and the partitions of commands; there is one for each processor".into(),
        "values are gathered over many commits before pages are changed, so a row that is written often is changed once"
            .into(),
        "the log was written a moment before, so it is read from the system's cache; that is no step of its own".into(),
        "there is no snapshot to be read into memory: pages of the last checkpoint are read as they are needed".into(),
    ]);
    Ok(Outcome {
        claims: claims(&all, bench.is_as_stated()),
        differences,
        tables: vec![table(&all)],
        figures: Vec::new(),
        data: serde_json::json!({ "series": all }),
    })
}

impl Series {
    fn measure<W: Calls>(bench: &mut Bench<'_>, workload: &W, replays: usize) -> Result<Series> {
        let (base, how) = (bench.base.clone(), How { replays, one_thread: true, ..How::rounds(1) });
        Ok(Series { workload: W::NAME, rounds: bench.compare(workload, &base, &LOGS, how)? })
    }
}

fn claims(all: &[Series], comparable: bool) -> Vec<Claim> {
    let replay =
        |workload, method| all.iter().find(|series| series.workload == workload)?.rounds.replay(method);
    let claim = |figure, stated, workload, ratio: Option<f64>, expected, of| Claim {
        figure,
        stated,
        measured: ratio.map_or_else(String::new, |ratio| {
            format!("{} times {of}", gnomon_bench::result::text::figure(ratio))
        }),
        verdict: verdict_about(comparable || workload == Voter::NAME, ratio, expected, Ordering::Greater),
    };
    let to_run = |workload| replay(workload, COMMAND).map(|replay| replay.tps() / replay.run_tps());
    let to_command = |workload| Some(replay(workload, VALUE)?.tps() / replay(workload, COMMAND)?.tps());
    let (run, command) = ("as fast as they ran", "as fast as commands");
    vec![
        claim("Voter, commands", STATED[0], Voter::NAME, to_run(Voter::NAME), 1.0, run),
        claim("Voter, values", STATED[1], Voter::NAME, to_command(Voter::NAME), 5.0, command),
        claim("TPC-C, commands", STATED[2], Tpcc::NAME, to_run(Tpcc::NAME), 1.0, run),
        claim("TPC-C, values", STATED[3], Tpcc::NAME, to_command(Tpcc::NAME), 1.5, command),
        Claim {
            figure: "reading the log",
            stated: STATED[4],
            measured: "no step of its own".into(),
            verdict: Verdict::NotComparable,
        },
    ]
}

fn table(all: &[Series]) -> ResultTable {
    let row = |workload: &str, name: &str, replay: &Replay| {
        let mib = replay.log_bytes as f64 / f64::from(1 << 20);
        let numbers = [
            replay.run_tps(),
            mib,
            replay.one_thread_seconds.unwrap_or(f64::NAN),
            replay.seconds,
            replay.tps(),
            mib / replay.seconds,
            replay.tps() / replay.run_tps(),
        ];
        [workload.to_owned(), name.to_owned(), replay.commits.to_string()]
            .into_iter()
            .chain(numbers.map(figure))
            .collect()
    };
    ResultTable {
        title: "Replay".into(),
        headings: vec![
            "workload",
            "method",
            "commits",
            "run commits/s",
            "log MiB",
            "replay s, one thread",
            "replay s",
            "commits/s",
            "MiB/s",
            "replay : run",
        ],
        rows: all
            .iter()
            .flat_map(|series| LOGS.map(|method| (series, method)))
            .filter_map(|(series, method)| {
                Some(row(series.workload, method.name(), series.rounds.replay(method)?))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::bench::tests::{quick, round},
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable, Surpassed};

    #[test]
    fn a_quick_run_replays_all_that_was_committed() {
        let report = quick(&EXPERIMENT);
        let series = report.data["series"].as_array().unwrap();
        assert_eq!(series.len(), 2);
        for point in series.iter().flat_map(|one| one["rounds"][0].as_array().unwrap()) {
            let replay = &point["replay"];
            assert!(replay["seconds"].as_f64() > Some(0.0) && replay["log_bytes"].as_u64() > Some(0));
            // Most transactions write.
            let committed = point["committed"].as_f64().unwrap();
            assert!(replay["commits"].as_f64() > Some(committed * 0.8), "{point}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let series = |workload, command, value| {
            let mut rounds = round(&[(COMMAND, 1.0, 1.0), (VALUE, 1.0, 1.0)]);
            for (point, tps) in rounds.0[0].iter_mut().zip([command, value]) {
                point.replay = Some(Replay {
                    commits: 100,
                    log_bytes: 1,
                    run_seconds: 1.0,
                    seconds: 100.0 / tps,
                    one_thread_seconds: None,
                });
            }
            Series { workload, rounds }
        };
        let verdicts = |all: &[Series], comparable| {
            claims(all, comparable).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        let stated = [series("voter", 100.0, 500.0), series("tpcc", 90.0, 140.0)];
        assert_eq!(verdicts(&stated, true), [Holds, Holds, Holds, Holds, NotComparable]);
        assert_eq!(verdicts(&stated, false)[1..], [Holds, NotComparable, NotComparable, NotComparable]);
        let other = [series("voter", 50.0, 150.0), series("tpcc", 50.0, 50.0)];
        assert_eq!(verdicts(&other, true)[..4], [DoesNotHold; 4]);
        let better = [series("voter", 150.0, 1200.0), series("tpcc", 150.0, 400.0)];
        assert_eq!(verdicts(&better, true)[..4], [Surpassed; 4]);
        assert_eq!(verdicts(&[], true), [NotComparable; 5]);
    }
}

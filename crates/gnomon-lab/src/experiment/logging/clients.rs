//! `logging/clients`: every recovery method under two-phase locking, by the number of clients: what the paper leaves as
//! future work (its chapter 6), command logging on a disk-based system, beside all others.

use gnomon_bench::{
    procedure::{Calls, Settings},
    recovery::{ADAPTIVE_LOG, Method, Recovery, TWO_LEVEL_DEFERRED},
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, COMMAND, FEW_ROUNDS, How, Rounds, TERMS, VALUE, table};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 3] = [
    "(this project) command logging is no slower than value logging (within 5 %), with any number of clients",
    "(this project) logging whichever is cheaper is no slower than the faster of both (within 5 %)",
    "(this project) more is committed with most clients than with one, by each log of commits",
];
const LEVELS: Setting =
    Setting { name: "clients", help: "that call, each waiting for its answer", full: "1,2,4,8", quick: "2" };
const ADAPTIVE: Method = Method::Of(ADAPTIVE_LOG);
const METHODS: [Method; 5] =
    [Method::Of(Recovery::Shadow), VALUE, COMMAND, ADAPTIVE, Method::Of(TWO_LEVEL_DEFERRED)];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/clients",
    source: "Recovery algorithms for in-memory OLTP databases (Malviya 2012), chapter 6",
    measures: "every recovery method with locked execution by clients, Voter and TPC-C (future work there)",
    stated: &STATED,
    settings: &[&[LEVELS, FEW_ROUNDS], BENCH_SETTINGS],
    terms: &[
        "shadow: no log; value-log, command-log, adaptive: a log of what commits write, of calls, of whichever is \
         cheaper; two-level-deferred: a log of pages (S2/PS)",
        TERMS[1],
        TERMS[2],
    ],
    run,
};

/// All methods with a number of clients.
#[derive(Clone, Debug, Serialize)]
struct Level {
    clients: usize,
    rounds: Rounds,
}

/// A workload by clients.
#[derive(Clone, Debug, Serialize)]
struct Series {
    workload: &'static str,
    levels: Vec<Level>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::new(settings, workspace)?;
    let levels: Vec<usize> = settings.list(LEVELS.name, 1, 1_024)?;
    let how = How::rounds(settings.number(FEW_ROUNDS.name, 1, 100)?);
    bench.total = 2 * how.rounds * (METHODS.len() * levels.len()) as u64;
    let (voter, tpcc) = (bench.voter, bench.tpcc);
    let all = [
        Series::measure(&mut bench, &voter, &levels, how)?,
        Series::measure(&mut bench, &tpcc, &levels, how)?,
    ];
    Ok(Outcome {
        claims: claims(&all),
        differences: vec![
            "the paper has no such figures: it names what a disk-based system would need".into(),
            "clients are threads of the process, and wait for each answer before they call again".into(),
            "the methods are not alike in when pages are written back: shadow writes those of a commit with its batch, \
             all others when much of the pool has changed, and never for the length of their log, which has no bound here"
                .into(),
        ],
        tables: all.iter().map(Series::table).collect(),
        figures: vec![plot(&all)],
        data: serde_json::json!({ "series": all }),
    })
}

impl Series {
    fn measure<W: Calls>(bench: &mut Bench<'_>, workload: &W, levels: &[usize], how: How) -> Result<Series> {
        let mut all = Vec::new();
        for &clients in levels {
            let settings = Settings { clients, ..bench.base.clone() };
            all.push(Level { clients, rounds: bench.compare(workload, &settings, &METHODS, how)? });
        }
        Ok(Series { workload: W::NAME, levels: all })
    }

    fn table(&self) -> ResultTable {
        let rows = self.levels.iter().flat_map(|level| {
            let points = METHODS.iter().filter_map(|method| level.rounds.point(*method));
            points.map(|point| (vec![level.clients.to_string()], point))
        });
        table(&format!("{} by clients", self.workload), &["clients"], rows)
    }
}

fn claims(all: &[Series]) -> Vec<Claim> {
    let levels = || all.iter().flat_map(|series| &series.levels);
    let command = levels().map(|level| level.rounds.speed(COMMAND, VALUE)).reduce(f64::min);
    let faster =
        |rounds: &Rounds| [COMMAND, VALUE].map(|to| rounds.speed(ADAPTIVE, to)).into_iter().reduce(f64::min);
    let adaptive = levels().filter_map(|level| faster(&level.rounds)).reduce(f64::min);
    let growth = all.iter().flat_map(|series| match &series.levels[..] {
        [first, .., last] => [COMMAND, VALUE, ADAPTIVE]
            .map(|method| last.rounds.tps(method) / first.rounds.tps(method))
            .to_vec(),
        _ => Vec::new(),
    });
    let growth = growth.reduce(f64::min);
    let least = |share: Option<f64>, of: &str| {
        share.map_or_else(String::new, |share| format!("{} of {of}, at least", percent(share, 1)))
    };
    vec![
        Claim {
            figure: "command logging",
            stated: STATED[0],
            measured: least(command, "value logging"),
            verdict: verdict(true, command.map(|share| share >= 0.95)),
        },
        Claim {
            figure: "adaptive logging",
            stated: STATED[1],
            measured: least(adaptive, "the faster log"),
            verdict: verdict(true, adaptive.map(|share| share >= 0.95)),
        },
        Claim {
            figure: "growth with clients",
            stated: STATED[2],
            measured: growth.map_or_else(String::new, |times| format!("{} times, at least", figure(times))),
            verdict: verdict(true, growth.map(|times| times > 1.0)),
        },
    ]
}

fn plot(all: &[Series]) -> Figure {
    let panel = |series: &Series| Panel {
        x: Axis { label: "clients", scale: Scale::Logarithmic(2) },
        y: Axis { label: "transactions a second", scale: Scale::Linear },
        curves: METHODS
            .iter()
            .map(|method| Curve {
                label: format!("{}, {}", series.workload, method.name()),
                points: series
                    .levels
                    .iter()
                    .map(|level| (level.clients as f64, level.rounds.tps(*method)))
                    .collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    Figure {
        name: "clients".into(),
        title: "Throughput under locks by clients".into(),
        panels: all.iter().map(panel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::bench::tests::{quick, round},
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_has_every_method_on_both_workloads() {
        let report = quick(&EXPERIMENT);
        let series = report.data["series"].as_array().unwrap();
        let levels: Vec<_> = series.iter().flat_map(|one| one["levels"].as_array().unwrap()).collect();
        assert_eq!(levels.iter().map(|one| one["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 2]);
        for level in levels {
            let points = level["rounds"][0].as_array().unwrap();
            assert_eq!(points.len(), METHODS.len());
            assert!(points.iter().all(|point| point["tps"].as_f64() > Some(0.0)), "{level}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let level = |clients, [command, value, adaptive]: [f64; 3]| Level {
            clients,
            rounds: round(&[(COMMAND, command, 1.0), (VALUE, value, 1.0), (ADAPTIVE, adaptive, 1.0)]),
        };
        let verdicts = |levels: Vec<Level>| {
            let all = [Series { workload: "tpcc", levels }];
            claims(&all).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        assert_eq!(
            verdicts(vec![level(1, [100.0, 80.0, 98.0]), level(8, [300.0, 200.0, 299.0])]),
            [Holds; 3]
        );
        assert_eq!(
            verdicts(vec![level(1, [100.0, 80.0, 98.0]), level(8, [90.0, 200.0, 100.0])]),
            [DoesNotHold; 3]
        );
        assert_eq!(verdicts(vec![]), [NotComparable; 3]);
    }
}

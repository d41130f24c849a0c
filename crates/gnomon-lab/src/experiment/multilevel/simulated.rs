//! `multilevel/simulated`: what a simulation says of the strategies beside what the engine does, where both can run.
//!
//! What an access takes, and a force of a log, is what they take in the engine's runs of one client, S2's and S2/PS's.
//! From that the simulation says what more clients, and S1, come to.

use std::time::Duration;

use gnomon_bench::{
    objects::Objects,
    recovery::{Recovery, TWO_LEVEL, TWO_LEVEL_DEFERRED},
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use gnomon_engine::Strategy;
use serde::Serialize;

use super::{
    bench::{BENCH_SETTINGS, Bench, OBJECT_SETTINGS, OWN, Point, STATED_DMP, STRATEGIES, TERMS, paper_name},
    sweep::DMP,
};
use crate::{
    experiment::{Experiment, Setting, Values, verdict},
    objects::{Simulated, simulate},
};

const STATED: [&str; 2] = [
    "(this project) simulated and real throughput differ by less than a tenth, up to as many transactions as processors",
    "(this project) how far S2/PS is ahead of S1 at DMP 12 differs by less than a tenth",
];
const FOREIGN: Setting = Setting {
    name: "foreign",
    help: "foreign subobjects that an operation accesses (f)",
    full: "0",
    quick: "0",
};
const SIMULATED_SECONDS: Setting = Setting {
    name: "simulated-seconds",
    help: "simulated at each point, after a tenth of that",
    full: "200",
    quick: "10",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/simulated",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 3",
    measures: "transactions on complex objects by DMP, for S1, S2 and S2/PS: on the engine, and simulated",
    stated: &STATED,
    settings: &[&[DMP, OWN, FOREIGN, SIMULATED_SECONDS], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// A point both ways.
#[derive(Serialize)]
struct Both {
    real: Point,
    simulated: Simulated,
}

impl Both {
    fn method(&self) -> Recovery {
        self.real.measured.method
    }

    fn ratio(&self) -> f64 {
        self.simulated.tps / self.real.measured.tps
    }
}

/// What an access and a force of a log take.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    access_ms: f64,
    force_ms: f64,
}

impl Times {
    /// From the response times of a lone client's transactions with S2 and with S2/PS, in ms: the first one forces
    /// twice at each EOS and once at EOT, the second one twice at EOT.
    fn of(settings: &Objects, two_level_ms: f64, deferred_ms: f64) -> Times {
        let more_forces = 2.0 * f64::from(settings.operations) - 1.0;
        let force_ms = ((two_level_ms - deferred_ms) / more_forces).max(0.0);
        let access_ms = (deferred_ms - 2.0 * force_ms) / f64::from(settings.accesses().max(1));
        Times { access_ms: access_ms.max(0.0), force_ms }
    }
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let own = settings.number(OWN.name, 0, 1_000)?;
    let foreign = settings.number(FOREIGN.name, 0, 100)?;
    let levels: Vec<usize> = settings.list(DMP.name, 1, 1024)?;
    let seconds = Duration::from_secs_f64(settings.number(SIMULATED_SECONDS.name, 0.1, 1e6)?);
    let mut bench = Bench::new(settings, workspace, own, foreign, (1 + levels.len()) * STRATEGIES.len())?;
    let (base, length, seed) = (bench.base.clone(), bench.length, bench.workspace.seed);
    let mut alone =
        |method| bench.measure(method, 1, &base, length).map(|point| point.measured.response.mean_ms);
    let times = Times::of(&base, alone(TWO_LEVEL)?, alone(TWO_LEVEL_DEFERRED)?);
    let served = Objects { service_ms: times.access_ms, ..base.clone() };
    let mut all = Vec::new();
    for level in levels {
        for method in STRATEGIES {
            let Recovery::PageLog(strategy) = method else { continue };
            let simulated = simulate(strategy, &served, level, times.force_ms, seed, (seconds / 10, seconds));
            all.push(Both { real: bench.measure(method, level, &base, length)?, simulated });
        }
    }
    let mut differences = bench.differences();
    differences.push(
        format!(
            "simulated, an access takes {} ms and a force {} ms, as for a lone client on the engine, however much is \
             forced; there are no latches and no buffer pool, and an operation in a deadlock runs again after a delay",
            figure(times.access_ms),
            figure(times.force_ms)
        ),
    );
    Ok(Outcome {
        claims: claims(&all, base.processors as usize),
        differences,
        tables: vec![table(&all)],
        figures: vec![plot(&all)],
        data: serde_json::json!({ "points": all, "times": times }),
    })
}

fn claims(all: &[Both], processors: usize) -> Vec<Claim> {
    let up_to = all.iter().filter(|both| both.real.measured.clients <= processors);
    let most = up_to.map(|both| (both.ratio() - 1.0).abs()).reduce(f64::max);
    let at = |strategy| {
        all.iter().find(|both| {
            both.method() == Recovery::PageLog(strategy) && both.real.measured.clients == STATED_DMP
        })
    };
    let gaps = at(Strategy::SingleLevel).zip(at(Strategy::TwoLevelDeferred)).map(|(one, deferred)| {
        (deferred.real.measured.tps / one.real.measured.tps, deferred.simulated.tps / one.simulated.tps)
    });
    let near = |ratio: f64| (ratio - 1.0).abs() < 0.1;
    vec![
        Claim {
            figure: "throughput",
            stated: STATED[0],
            measured: most.map_or_else(String::new, |most| format!("by up to {}", percent(most, 1))),
            verdict: verdict(true, most.map(|most| most < 0.1)),
        },
        Claim {
            figure: "S2/PS : S1",
            stated: STATED[1],
            measured: gaps.map_or_else(
                || "other settings".to_owned(),
                |(real, simulated)| format!("{} real, {} simulated", figure(real), figure(simulated)),
            ),
            verdict: verdict(true, gaps.map(|(real, simulated)| near(simulated / real))),
        },
    ]
}

fn table(all: &[Both]) -> ResultTable {
    let row = |Both { real, simulated }: &Both| {
        let real = &real.measured;
        let pairs = [
            (real.tps, simulated.tps),
            (real.response.mean_ms, simulated.response_ms),
            (real.wait_ms(), simulated.wait_ms),
            (real.restarts(), simulated.restarts),
        ];
        let cells = pairs.into_iter().flat_map(|(real, simulated)| [figure(real), figure(simulated)]);
        [paper_name(real.method).to_owned(), real.clients.to_string()]
            .into_iter()
            .chain(cells)
            .chain([figure(simulated.tps / real.tps)])
            .collect()
    };
    ResultTable {
        title: "The engine and the simulation".to_owned(),
        headings: vec![
            "strategy",
            "DMP",
            "tps",
            "simulated",
            "ms",
            "simulated",
            "waits ms",
            "simulated",
            "restarts/txn",
            "simulated",
            "tps: simulated : real",
        ],
        rows: all.iter().map(row).collect(),
    }
}

fn plot(all: &[Both]) -> Figure {
    let axis = |label| Axis { label, scale: Scale::Linear };
    let curve = |method: Recovery, what: &str, tps: fn(&Both) -> f64| Curve {
        label: format!("{}{what}", paper_name(method)),
        points: all
            .iter()
            .filter(|both| both.method() == method)
            .map(|both| (both.real.measured.clients as f64, tps(both)))
            .collect(),
    };
    let curves = STRATEGIES.into_iter().flat_map(|method| {
        [
            curve(method, "", |both| both.real.measured.tps),
            curve(method, ", simulated", |both| both.simulated.tps),
        ]
    });
    Figure {
        name: "multilevel-simulated".to_owned(),
        title: "The strategies on the engine and simulated".to_owned(),
        panels: vec![Panel {
            x: axis("DMP"),
            y: axis("transactions/s"),
            curves: curves.collect(),
            stated: Vec::new(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_puts_both_beside_each_other() {
        let request = Request { quick: true, seed: 1, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Default::default()).unwrap();
        let points = report.data["points"].as_array().unwrap();
        assert_eq!(points.len(), 2 * STRATEGIES.len());
        for point in points {
            assert!(point["simulated"]["tps"].as_f64().unwrap() > 0.0, "{point}");
        }
    }
}

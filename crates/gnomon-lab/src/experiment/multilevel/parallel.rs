//! `multilevel/parallel`: a transaction's operations at once, as subtransactions beside each other. The paper has that
//! built and shows no figures of it (section 5).

use gnomon_bench::{
    objects::{Measured, Objects},
    recovery::TWO_LEVEL_DEFERRED,
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::figure,
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, OBJECT_SETTINGS, OWN, Point, TERMS, stated_figure};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 1] =
    ["(this project) 4 operations at once make a lone client's transactions at least twice as fast"];
const DMP: Setting =
    Setting { name: "dmp", help: "degrees of multiprogramming", full: "1,3,12", quick: "1,2" };
const PARALLEL: Setting =
    Setting { name: "parallel", help: "operations of a transaction at once", full: "1,2,4,12", quick: "1,3" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/parallel",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 5",
    measures: "transactions whose operations run at once, by DMP, for S2/PS: throughput, response times, repeated operations",
    stated: &STATED,
    settings: &[&[DMP, PARALLEL, OWN], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// Everything that was measured.
#[derive(Serialize)]
struct Data {
    points: Vec<Point>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let own = settings.number(OWN.name, 0, 1_000)?;
    let levels: Vec<usize> = settings.list(DMP.name, 1, 1024)?;
    let parallel: Vec<u32> = settings.list(PARALLEL.name, 1, 1000)?;
    let mut bench = Bench::new(settings, workspace, own, 0, levels.len() * parallel.len())?;
    let mut points = Vec::new();
    for level in levels {
        for parallel in &parallel {
            let one = Objects { parallel: *parallel, ..bench.base.clone() };
            points.push(bench.measure(TWO_LEVEL_DEFERRED, level, &one, bench.length)?);
        }
    }
    let response = |parallel| {
        let alone = |point: &&Point| point.measured.clients == 1 && point.settings.parallel == parallel;
        points.iter().find(alone).map(|point| point.measured.response.mean_ms)
    };
    let faster = response(1).zip(response(4)).map(|(one, four)| one / four);
    Ok(Outcome {
        claims: vec![Claim {
            figure: "response time",
            stated: STATED[0],
            measured: stated_figure(faster, " times as fast"),
            verdict: verdict(bench.is_as_stated(10, 0), faster.map(|times| times >= 2.0)),
        }],
        differences: bench.differences(),
        tables: vec![table(&points)],
        figures: vec![plot(&points)],
        data: serde_json::to_value(&Data { points }).expect("figures are plain fields"),
    })
}

fn table(points: &[Point]) -> ResultTable {
    let row = |Point { settings, measured }: &Point| {
        [measured.clients.to_string(), settings.parallel.to_string(), measured.committed.to_string()]
            .into_iter()
            .chain(
                [
                    measured.tps,
                    measured.response.mean_ms,
                    measured.response.p99_ms,
                    measured.pages.map_or(f64::NAN, |pages| pages.wait_ms),
                    measured.objects.wait_ms,
                    measured.restarts(),
                ]
                .map(figure),
            )
            .chain([measured.repeated_operations.to_string()])
            .collect()
    };
    ResultTable {
        title: "A transaction's operations at once (ms; their waits for locks add up, and those for each other's waits are \
                not counted)"
            .into(),
        headings: vec![
            "DMP",
            "parallel",
            "committed",
            "tps",
            "mean",
            "p99",
            "page waits",
            "object waits",
            "restarts/txn",
            "repeated operations",
        ],
        rows: points.iter().map(row).collect(),
    }
}

fn plot(points: &[Point]) -> Figure {
    let mut levels: Vec<usize> = points.iter().map(|point| point.measured.clients).collect();
    levels.dedup();
    let panel = |y: &'static str, of: fn(&Measured) -> f64| Panel {
        x: Axis { label: "operations of a transaction at once", scale: Scale::Linear },
        y: Axis { label: y, scale: Scale::Linear },
        curves: levels
            .iter()
            .map(|level| Curve {
                label: format!("DMP {level}"),
                points: points
                    .iter()
                    .filter(|point| point.measured.clients == *level)
                    .map(|point| (f64::from(point.settings.parallel), of(&point.measured)))
                    .collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    Figure {
        name: "parallel".into(),
        title: "A transaction's operations at once, S2/PS".into(),
        panels: vec![
            panel("transactions/s", |point| point.tps),
            panel("response time, ms", |point| point.response.mean_ms),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_measures_operations_at_once() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let points = report.data["points"].as_array().unwrap();
        assert_eq!(points.len(), 4);
        let response = |at: usize| points[at]["measured"]["response"]["p50_ms"].as_f64().unwrap();
        // Three operations of four accesses, each slept for 0.2 ms.
        assert!(response(0) >= 2.4 && response(1) >= 0.8, "{report}");
    }
}

//! `multilevel/sharing`: more and more foreign accesses among the same number of accesses (the paper's Figure 10).

use gnomon_bench::{
    objects::Objects,
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::figures,
    },
    store::{Result, StoreError},
    workspace::Workspace,
};

use super::bench::{BENCH_SETTINGS, Bench, DMP, OBJECT_SETTINGS, STRATEGIES, TERMS, Trio};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 1] = ["the more foreign accesses, the larger the gap between S2/PS and S1"];
const ACCESSES: Setting =
    Setting { name: "accesses", help: "of an operation, own and foreign (o + f)", full: "10", quick: "4" };
const FOREIGN: Setting =
    Setting { name: "foreign", help: "of these, foreign ones (f)", full: "0,2,4,6,8,10", quick: "0,4" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/sharing",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 3.3, Figure 10",
    measures: "transactions on own and foreign subobjects by the share of these, for S1, S2 and S2/PS",
    stated: &STATED,
    settings: &[&[FOREIGN, ACCESSES, DMP], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let dmp = settings.number(DMP.name, 1, 1024)?;
    let accesses: u32 = settings.number(ACCESSES.name, 1, 100)?;
    let foreign: Vec<u32> = settings.list(FOREIGN.name, 0, 100)?;
    if foreign.iter().any(|foreign| *foreign > accesses) {
        return Err(StoreError::unexpected(format!("{} is more than {}", FOREIGN.name, ACCESSES.name)));
    }
    let mut bench = Bench::new(settings, workspace, accesses, 0, foreign.len() * STRATEGIES.len())?;
    let mut points = Vec::new();
    for foreign in foreign {
        let settings = Objects { own: accesses - foreign, foreign, ..bench.base.clone() };
        points.push((foreign, Trio::measure(&mut bench, dmp, &settings)?));
    }
    let gaps: Vec<f64> = points.iter().map(|(_, trio)| trio.gap()).collect();
    Ok(Outcome {
        claims: vec![Claim {
            figure: "S2/PS over S1",
            stated: STATED[0],
            measured: figures(gaps.iter().copied()) + " times",
            verdict: verdict(bench.is_as_stated(10, 0) && gaps.len() > 1, Some(gaps.is_sorted())),
        }],
        differences: bench.differences(),
        tables: vec![table(&points)],
        figures: vec![plot(&points)],
        data: serde_json::json!({ "points": points }),
    })
}

fn table(points: &[(u32, Trio)]) -> ResultTable {
    let row = |(foreign, trio): &(u32, Trio)| [foreign.to_string()].into_iter().chain(trio.cells()).collect();
    ResultTable {
        title: "Foreign accesses (f) of an operation".into(),
        headings: ["f"].into_iter().chain(Trio::HEADINGS).collect(),
        rows: points.iter().map(row).collect(),
    }
}

fn plot(points: &[(u32, Trio)]) -> Figure {
    let x = Axis { label: "foreign accesses of an operation (f)", scale: Scale::Linear };
    let curve = |label: &str, figure: fn(&Trio) -> f64| Curve {
        label: label.into(),
        points: points.iter().map(|(foreign, trio)| (f64::from(*foreign), figure(trio))).collect(),
    };
    // Without foreign accesses, and with these alone: Figures 7 and 9.
    let stated = Stated { label: "S2/PS".into(), points: vec![(0.0, 2.5), (10.0, 16.0)], throughout: false };
    let panel = |y: &'static str, curves, stated| Panel {
        x,
        y: Axis { label: y, scale: Scale::Linear },
        curves,
        stated,
    };
    Figure {
        name: "sharing".into(),
        title: "Own and foreign accesses (the paper's Figure 10)".into(),
        panels: vec![
            panel(
                "transactions/s",
                vec![
                    curve("S1", |trio| trio.single_level.measured.tps),
                    curve("S2", |trio| trio.two_level.measured.tps),
                    curve("S2/PS", |trio| trio.deferred.measured.tps),
                ],
                Vec::new(),
            ),
            panel(
                "times the throughput of S1",
                vec![
                    curve("S1", |_| 1.0),
                    curve("S2", |trio| trio.two_level.measured.tps / trio.single_level.measured.tps),
                    curve("S2/PS", Trio::gap),
                ],
                vec![stated],
            ),
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
    fn a_quick_run_keeps_the_number_of_accesses() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let points = report.data["points"].as_array().unwrap();
        let accesses: Vec<_> = points
            .iter()
            .map(|point| &point[1]["single_level"]["settings"])
            .map(|settings| ["own", "foreign"].map(|name| settings[name].as_u64().unwrap()))
            .collect();
        assert_eq!(accesses, [[4, 0], [0, 4]]);
        let set = vec![("foreign".into(), "5".into())];
        let request = Request { set, ..request };
        let error = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).err().unwrap();
        assert_eq!(error.to_string(), "foreign is more than accesses");
    }
}

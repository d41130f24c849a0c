//! `multilevel/sensitivity`: updates, own subobjects and operations, varied one at a time (the paper's Figure 8).

use gnomon_bench::{
    objects::{Measured, Objects},
    result::{
        Claim, Outcome, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::figures,
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, DMP, OBJECT_SETTINGS, OWN, STRATEGIES, TERMS, Trio};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 1] = ["u, o and c varied: S2 and S2/PS stay ahead of S1"];
const VARY_UPDATES: Setting =
    Setting { name: "vary-updates", help: "values of updates", full: "5,20,50", quick: "5,50" };
const VARY_OWN: Setting = Setting { name: "vary-own", help: "values of own", full: "5,10,20", quick: "2,4" };
const VARY_OPERATIONS: Setting =
    Setting { name: "vary-operations", help: "values of operations", full: "6,12,24", quick: "2,3" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/sensitivity",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 3.2, Figure 8",
    measures: "transactions on disjoint objects by updates, accesses and operations, for S1, S2 and S2/PS",
    stated: &STATED,
    settings: &[&[VARY_UPDATES, VARY_OWN, VARY_OPERATIONS, DMP, OWN], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// A parameter with its values.
#[derive(Serialize)]
struct Varied {
    parameter: &'static str,
    values: Vec<(u32, Trio)>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let dmp = settings.number(DMP.name, 1, 1024)?;
    let own = settings.number(OWN.name, 0, 1_000)?;
    type Change = fn(&mut Objects, u32);
    let parameters: [(&str, Vec<u32>, Change); 3] = [
        ("update probability u, %", settings.list(VARY_UPDATES.name, 0, 100)?, |to, value| {
            to.updates = value
        }),
        ("own subobjects o", settings.list(VARY_OWN.name, 0, 1_000)?, |to, value| to.own = value),
        ("operations c", settings.list(VARY_OPERATIONS.name, 1, 1_000)?, |to, value| to.operations = value),
    ];
    let values: usize = parameters.iter().map(|(_, values, _)| values.len()).sum();
    let mut bench = Bench::new(settings, workspace, own, 0, values * STRATEGIES.len())?;
    let mut all = Vec::new();
    for (parameter, values, change) in parameters {
        let mut varied = Varied { parameter, values: Vec::new() };
        for value in values {
            let mut settings = bench.base.clone();
            change(&mut settings, value);
            varied.values.push((value, Trio::measure(&mut bench, dmp, &settings)?));
        }
        all.push(varied);
    }
    let gaps = trios(&all).map(Trio::gap);
    let ahead = trios(&all).all(Trio::is_ahead);
    Ok(Outcome {
        claims: vec![Claim {
            figure: "S2/PS over S1",
            stated: STATED[0],
            measured: figures(gaps) + " times",
            verdict: verdict(bench.is_as_stated(10, 0), Some(ahead)),
        }],
        differences: bench.differences(),
        tables: all.iter().map(table).collect(),
        figures: vec![plot(&all)],
        data: serde_json::json!({ "varied": all }),
    })
}

fn trios(all: &[Varied]) -> impl Iterator<Item = &Trio> {
    all.iter().flat_map(|varied| varied.values.iter().map(|(_, trio)| trio))
}

fn table(varied: &Varied) -> ResultTable {
    let row = |(value, trio): &(u32, Trio)| [value.to_string()].into_iter().chain(trio.cells()).collect();
    ResultTable {
        title: varied.parameter.into(),
        headings: ["value"].into_iter().chain(Trio::HEADINGS).collect(),
        rows: varied.values.iter().map(row).collect(),
    }
}

fn plot(all: &[Varied]) -> Figure {
    let panel = |varied: &Varied| {
        let curve = |label: &str, of: fn(&Trio) -> &Measured| Curve {
            label: label.into(),
            points: varied.values.iter().map(|(value, trio)| (f64::from(*value), of(trio).tps)).collect(),
        };
        Panel {
            x: Axis { label: varied.parameter, scale: Scale::Linear },
            y: Axis { label: "transactions/s", scale: Scale::Linear },
            curves: vec![
                curve("S1", |trio| &trio.single_level.measured),
                curve("S2", |trio| &trio.two_level.measured),
                curve("S2/PS", |trio| &trio.deferred.measured),
            ],
            stated: Vec::new(),
        }
    };
    Figure {
        name: "sensitivity".into(),
        title: "Sensitivity of the parameters (the paper's Figure 8)".into(),
        panels: all.iter().map(panel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_varies_one_parameter_at_a_time() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let mut seen = Vec::new();
        for varied in report.data["varied"].as_array().unwrap() {
            for point in varied["values"].as_array().unwrap() {
                let one = &point[1]["deferred"];
                assert!(one["measured"]["tps"].as_f64() > Some(0.0), "{one}");
                seen.push(
                    ["updates", "own", "operations"].map(|name| one["settings"][name].as_u64().unwrap()),
                );
            }
        }
        assert_eq!(seen, [[5, 4, 3], [50, 4, 3], [20, 2, 3], [20, 4, 3], [20, 4, 2], [20, 4, 3]]);
    }
}

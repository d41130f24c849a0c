//! `semantics/granularity`: the OS manager's throughput by the size of what it locks and logs (the study's Table 3).

use gnomon_bench::{
    result::{
        Claim, Outcome, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::figure,
    },
    store::Result,
    workspace::Workspace,
};

use super::study::{
    COMMON, COMP_RATIO, CPU_COMPRESS, CPU_LOCK, LENGTH, MACHINE, MPL, NUMDISKS, PAPER, Point, Runs, SKEW,
    SPLIT, TERMS, differences, is_throughput_met, parameters, table,
};
use crate::{
    experiment::{Experiment, Setting, Values},
    semantics::parameters::{Level, Manager, Parameters},
};

/// By bytes of a granule.
pub(super) const TABLE_3: [(u32, f64); 4] = [(100, 0.50), (200, 0.49), (1024, 0.45), (2048, 0.34)];
const STATED: [&str; 4] = [
    "0.50 transactions a second with granules of 100 bytes",
    "0.49 with 200 bytes",
    "0.45 with 1024 bytes",
    "0.34 with 2048 bytes",
];
const FIGURES: [&str; 4] = ["100 bytes", "200 bytes", "1024 bytes", "2048 bytes"];
const SIZES: Setting = Setting {
    name: "sizes",
    help: "bytes that the OS manager locks and logs, ascending",
    full: "100,200,1024,2048",
    quick: "100,2048",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/granularity",
    source: PAPER,
    measures: "throughput of the OS manager by the size of its granules, simulated (Table 3)",
    stated: &STATED,
    settings: &[
        &[SIZES, MPL, NUMDISKS, CPU_LOCK, COMP_RATIO, SKEW, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = Parameters { manager: Manager::Os(Level::Physical), ..parameters(settings)? };
    let sizes: Vec<u32> = settings.list(SIZES.name, 1, 2048)?;
    let systems: Vec<Parameters> =
        sizes.iter().map(|size| Parameters { sub_page_size: *size, ..base.clone() }).collect();
    let points = Runs::new(settings)?.measure(workspace, &systems)?;
    let rows = points.iter().map(|point| (vec![point.parameters.sub_page_size.to_string()], point, None));
    Ok(Outcome {
        claims: claims(&points),
        differences: differences(),
        tables: vec![table("By the size of a granule", &["bytes"], rows)],
        figures: vec![plot(&points)],
        data: serde_json::json!({ "points": points }),
    })
}

fn claims(points: &[Point]) -> Vec<Claim> {
    TABLE_3
        .iter()
        .zip(STATED)
        .zip(FIGURES)
        .map(|(((bytes, stated_tps), stated), name)| {
            let point = points.iter().find(|point| point.parameters.sub_page_size == *bytes);
            let tps = point.map(|point| point.throughput.mean).filter(|tps| tps.is_finite());
            Claim {
                figure: name,
                stated,
                measured: tps.map_or_else(String::new, figure),
                verdict: tps
                    .map_or(Verdict::NotComparable, |tps| Verdict::of(is_throughput_met(tps, *stated_tps))),
            }
        })
        .collect()
}

fn plot(points: &[Point]) -> Figure {
    const LABEL: &str = "OS level 0";
    let axis = |label| Axis { label, scale: Scale::Linear };
    let ours = points.iter().map(|point| (f64::from(point.parameters.sub_page_size), point.throughput.mean));
    let stated = TABLE_3.iter().map(|(bytes, tps)| (f64::from(*bytes), *tps));
    Figure {
        name: "semantics-granularity".to_owned(),
        title: "Throughput of the OS manager by its granules".to_owned(),
        panels: vec![Panel {
            x: axis("bytes of a granule"),
            y: axis("transactions/s"),
            curves: vec![Curve { label: LABEL.to_owned(), points: ours.collect() }],
            stated: vec![Stated { label: LABEL.to_owned(), points: stated.collect(), throughout: false }],
        }],
    }
}

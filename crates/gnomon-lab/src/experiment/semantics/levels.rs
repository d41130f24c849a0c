//! `semantics/levels`: the performance gap by how much the OS manager knows (the study's Figures 4 and 5, Table 4).

use gnomon_bench::{
    result::{
        Outcome,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::figure,
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::study::{
    COMMON, COMP_RATIO, CPU_COMPRESS, DBMS_LOCKS, LENGTH, MACHINE, MPL, PAPER, Point, Runs, SKEW, SPLIT,
    SUB_PAGE_SIZE, TERMS, differences, gap_claim, parameters, table,
};
use crate::{
    experiment::{Experiment, Setting, Values},
    semantics::parameters::{Level, Manager, Parameters},
};

/// Instructions of a lock, disks, level and gap.
const GAPS: [(f64, usize, usize, f64); 6] = [
    (2000.0, 2, 0, 27.0),
    (2000.0, 2, 3, 7.0),
    (2000.0, 8, 0, 55.0),
    (2000.0, 8, 3, 35.0),
    (200.0, 2, 3, 7.0),
    (200.0, 8, 3, 7.0),
];
const STATED: [&str; 6] = [
    "2000 instructions a lock, 2 disks: the DBMS manager is ahead of level 0 by 27 %",
    "of level 3 by 7 %",
    "8 disks: of level 0 by 55 %",
    "of level 3 by 35 %",
    "200 instructions a lock, 2 disks: of level 3 by 7 %",
    "8 disks: of level 3 by 7 %",
];
const FIGURES: [&str; 6] = [
    "2000, 2 disks, level 0",
    "2000, 2 disks, level 3",
    "2000, 8 disks, level 0",
    "2000, 8 disks, level 3",
    "200, 2 disks, level 3",
    "200, 8 disks, level 3",
];
const COSTS: Setting = Setting {
    name: "costs",
    help: "instructions of a pair of lock and unlock",
    full: "2000,200",
    quick: "2000",
};
const DISKS: Setting = Setting { name: "disks", help: "disks", full: "2,8", quick: "2" };

const LEVELS_TERMS: &[&str] = &[
    "lock: instructions of a pair of lock and unlock; on: disks",
    TERMS[0],
    TERMS[1],
    TERMS[2],
    TERMS[3],
    TERMS[4],
    TERMS[5],
];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/levels",
    source: PAPER,
    measures: "performance gap by the OS manager's semantic level, disks and cost of a lock, MPL 20, simulated (Figures \
               4 and 5)",
    stated: &STATED,
    settings: &[
        &[COSTS, DISKS, MPL.at("20"), COMP_RATIO, SUB_PAGE_SIZE, DBMS_LOCKS, SKEW, SPLIT, CPU_COMPRESS],
        MACHINE,
        COMMON,
        LENGTH,
    ],
    terms: LEVELS_TERMS,
    run,
};

/// Everybody on so many disks, with such locks.
#[derive(Clone, Debug, Serialize)]
struct Series {
    cost: f64,
    disks: usize,
    dbms: Point,
    /// From level 0 on.
    levels: Vec<Point>,
}

impl Series {
    fn gap(&self, level: usize) -> Option<f64> {
        Some(self.dbms.gap(self.levels.get(level)?).mean)
    }
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let costs: Vec<f64> = settings.list(COSTS.name, 0.0, 1e12)?;
    let disks: Vec<usize> = settings.list(DISKS.name, 1, 1024)?;
    let conditions: Vec<(f64, usize)> =
        costs.iter().flat_map(|cost| disks.iter().map(|disks| (*cost, *disks))).collect();
    let managers = || [Manager::Dbms].into_iter().chain(Level::ALL.map(Manager::Os));
    let systems: Vec<Parameters> = conditions
        .iter()
        .flat_map(|&(cpu_lock, numdisks)| {
            let base = &base;
            managers().map(move |manager| Parameters { manager, cpu_lock, numdisks, ..base.clone() })
        })
        .collect();
    let mut points = Runs::new(settings)?.measure(workspace, &systems)?.into_iter();
    let all: Vec<Series> = conditions
        .into_iter()
        .filter_map(|(cost, disks)| {
            let dbms = points.next()?;
            Some(Series { cost, disks, dbms, levels: points.by_ref().take(Level::ALL.len()).collect() })
        })
        .collect();
    let rows = all.iter().flat_map(|series| {
        let row = || vec![figure(series.cost), series.disks.to_string()];
        let levels = series.levels.iter().map(move |point| (row(), point, Some(&series.dbms)));
        [(row(), &series.dbms, None)].into_iter().chain(levels)
    });
    let claims = GAPS.iter().zip(STATED).zip(FIGURES).map(|((&(cost, disks, level, gap), stated), name)| {
        let series = all.iter().find(|series| (series.cost, series.disks) == (cost, disks));
        gap_claim(name, stated, gap, series.and_then(|series| series.gap(level)))
    });
    Ok(Outcome {
        claims: claims.collect(),
        differences: differences(),
        tables: vec![table("By semantic level, MPL 20", &["lock", "on"], rows)],
        figures: vec![plot(&all)],
        data: serde_json::json!({ "series": all }),
    })
}

fn plot(all: &[Series]) -> Figure {
    let axis = |label| Axis { label, scale: Scale::Linear };
    let label = |series: &Series| format!("{} instructions, {} disks", figure(series.cost), series.disks);
    let curve = |series: &Series| Curve {
        label: label(series),
        points: (0..series.levels.len())
            .filter_map(|level| Some((level as f64, series.gap(level)?)))
            .collect(),
    };
    let stated = |series: &Series| {
        let of_series =
            GAPS.iter().filter(|(cost, disks, ..)| (*cost, *disks) == (series.cost, series.disks));
        let points = of_series.map(|(_, _, level, gap)| (*level as f64, *gap)).collect();
        Stated { label: label(series), points, throughout: false }
    };
    Figure {
        name: "semantics-levels".to_owned(),
        title: "Performance gap by the OS manager's semantic level".to_owned(),
        panels: vec![Panel {
            x: axis("semantic level"),
            y: axis("gap, %"),
            curves: all.iter().map(curve).collect(),
            stated: all.iter().map(stated).collect(),
        }],
    }
}

//! `kbound/k`: how much a snapshot may have missed (Figure 2).

use gnomon_bench::{
    result::{
        Claim, Outcome,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use gnomon_cluster::protocol::Level;

use super::bench::{COMMON, Found, How, Load, ON, On, PAPER, Point, REPLICAS, SCALE, TERMS, TPS, table};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 6] = [
    "transactions that commit take as long for every k as under GSI (662 to 672 ms)",
    "at k = 0 it takes a fifth of GSI's time until a transaction is aborted",
    "30.5 % abort at k = 0, 11 % under GSI",
    "from k = 3 on, the abort rate is within 2 % of GSI's",
    "(this project) bounds that count rows abort at most a third as often at k = 0 as those that count tables",
    "(this project) where jobs increment, no snapshot transaction is aborted",
];
const BOUNDS: Setting = Setting {
    name: "bounds",
    help: "how many commits may be missed (k)",
    full: "0,1,2,3,4,5,6,7",
    quick: "0,3",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kbound/k",
    source: PAPER,
    measures: "times and aborts of k-bound transactions by k, and of snapshot transactions",
    stated: &STATED,
    settings: &[&[BOUNDS, ON, SCALE, TPS, REPLICAS], COMMON],
    terms: TERMS,
    run,
};

/// Beside the paper's.
const OTHERS: [How; 3] = [How::Voting, How::Used, How::Increments];
/// Where a curve of all k has GSI.
const GSI_AT: f64 = -1.0;

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let bounds: Vec<u32> = settings.list(BOUNDS.name, 0, 1_000_000)?;
    let on = On::new(settings)?;
    let hows = on.hows(&OTHERS);
    let base = Load::new(settings)?;
    let mut loads = Vec::new();
    for how in hows.iter().copied() {
        let gsi = (GSI_AT, Level::Snapshot);
        for (at, level) in bounds.iter().map(|k| (f64::from(*k), Level::KBound(*k))).chain([gsi]) {
            loads.push((at, Load { how, levels: vec![level], ..base.clone() }));
        }
    }
    let points = on.measure(settings, workspace, &loads)?;
    let claims = claims(on.paper(), &points, &bounds);
    let panel = |label, of: fn(&Found) -> f64, stated: Vec<Stated>| Panel {
        x: Axis { label: "k", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: hows
            .iter()
            .map(|how| Curve {
                label: how.name().to_owned(),
                points: points
                    .iter()
                    .filter(|point| point.how == *how && point.at >= 0.0)
                    .map(|point| (point.at, of(&point.found[0])))
                    .collect(),
            })
            .collect(),
        stated,
    };
    let stated = |points: &[(f64, f64)]| {
        vec![Stated { label: on.paper().name().to_owned(), points: points.to_vec(), throughout: false }]
    };
    Ok(Outcome {
        claims,
        differences: on.differences(),
        tables: vec![table("By k; -1: GSI", "k", &points)],
        figures: vec![Figure {
            name: "kbound-k".to_owned(),
            title: "By k, 16 transactions a second".to_owned(),
            panels: vec![
                panel("completion, ms", |found| found.complete_ms, stated(&[(0.0, 662.0), (7.0, 672.0)])),
                panel("abort, ms", |found| found.abort_ms, Vec::new()),
                panel("aborts, %", |found| 100.0 * found.aborts, stated(&[(0.0, 30.5)])),
            ],
        }],
        data: serde_json::json!({ "points": points }),
    })
}

fn claims(paper: How, points: &[Point], bounds: &[u32]) -> Vec<Claim> {
    let of =
        |how, at| points.iter().find(|point| point.how == how && point.at == at).map(|point| point.found[0]);
    let known = |at| of(paper, at).zip(of(paper, GSI_AT));
    let times: Vec<f64> = points.iter().filter(|p| p.how == paper).map(|p| p.found[0].complete_ms).collect();
    let spread = times.iter().copied().reduce(f64::max).zip(times.iter().copied().reduce(f64::min));
    let rest = bounds.iter().filter(|k| **k >= 3).filter_map(|k| known(f64::from(*k)));
    let rest = rest.map(|(bounded, gsi)| (bounded.aborts - gsi.aborts).abs()).reduce(f64::max);
    let rows = of(How::Voting, 0.0).zip(of(How::Used, 0.0));
    let increments: Vec<Found> =
        points.iter().filter(|point| point.how == How::Increments).map(|point| point.found[0]).collect();
    let gsi = of(How::Increments, GSI_AT);
    vec![
        Claim {
            figure: "completion",
            stated: STATED[0],
            measured: spread.map_or_else(String::new, |(most, least)| {
                format!("{} to {} ms", figure(least), figure(most))
            }),
            verdict: verdict(true, spread.map(|(most, least)| most <= 1.05 * least)),
        },
        Claim {
            figure: "abort time",
            stated: STATED[1],
            measured: known(0.0)
                .map_or_else(String::new, |(strict, gsi)| percent(strict.abort_ms / gsi.abort_ms, 0)),
            verdict: verdict(true, known(0.0).map(|(strict, gsi)| strict.abort_ms < 0.5 * gsi.abort_ms)),
        },
        Claim {
            figure: "abort rate",
            stated: STATED[2],
            measured: known(0.0).map_or_else(String::new, |(strict, gsi)| {
                format!("{}, {}", percent(strict.aborts, 1), percent(gsi.aborts, 1))
            }),
            verdict: verdict(
                true,
                known(0.0).map(|(strict, gsi)| {
                    (strict.aborts - 0.305).abs() <= 0.05 && (gsi.aborts - 0.11).abs() <= 0.05
                }),
            ),
        },
        Claim {
            figure: "from k = 3",
            stated: STATED[3],
            measured: rest
                .map_or_else(|| "other k".to_owned(), |most| format!("by up to {}", percent(most, 1))),
            verdict: verdict(true, rest.map(|most| most <= 0.02)),
        },
        Claim {
            figure: "rows",
            stated: STATED[4],
            measured: rows.map_or_else(String::new, |(tables, rows)| {
                format!(
                    "{} instead of {}, for what was missed {} instead of {}",
                    percent(rows.aborts, 1),
                    percent(tables.aborts, 1),
                    percent(rows.stale, 2),
                    percent(tables.stale, 1)
                )
            }),
            verdict: verdict(true, rows.map(|(tables, rows)| 3.0 * rows.stale <= tables.stale)),
        },
        Claim {
            figure: "increments",
            stated: STATED[5],
            measured: gsi.map_or_else(String::new, |gsi| percent(gsi.aborts, 2)),
            verdict: verdict(true, gsi.filter(|_| !increments.is_empty()).map(|gsi| gsi.aborts == 0.0)),
        },
    ]
}

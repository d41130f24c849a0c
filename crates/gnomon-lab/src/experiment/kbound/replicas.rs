//! `kbound/replicas`: more members, in one room and on three continents.

use gnomon_bench::{
    result::{
        Claim, Outcome,
        plot::{Axis, Figure, Panel, Scale},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use gnomon_cluster::protocol::Level;
use serde::Serialize;

use super::bench::{COMMON, Found, How, Load, On, PAPER, Point, TERMS, TPS, curve, table};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 2] = [
    "(this project) at the same load, the number of members changes completion times by less than 5 %, in one room and on \
     three continents",
    "(this project) on three continents strict snapshots that count rows abort less than half as often as those that count \
     tables",
];
const COUNTS: Setting =
    Setting { name: "counts", help: "members of the cluster", full: "3,9,30,100", quick: "3,9" };
const CONTINENTS: Setting = Setting {
    name: "continents",
    help: "milliseconds from a member to the log and back, of the first, second and third continent",
    full: "80,160,230",
    quick: "80,160,230",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kbound/replicas",
    source: PAPER,
    measures: "times and aborts of all levels by the number of members, in one room and on three continents, simulated, of \
               a fifth of the transactions",
    stated: &STATED,
    settings: &[&[COUNTS, CONTINENTS, TPS], COMMON],
    terms: TERMS,
    run,
};

const LEVELS: [Level; 4] = [Level::Serializable, Level::KBound(0), Level::Snapshot, Level::ReadCommitted];
const HOWS: [How; 2] = [How::Voting, How::Used];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Place {
    Room,
    Continents,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let counts: Vec<usize> = settings.list(COUNTS.name, 1, 1000)?;
    let continents: Vec<f64> = settings.list(CONTINENTS.name, 0.0, 1e6)?;
    let base = Load::new(settings)?;
    // Each member has work with each of them.
    let base = Load { levels: LEVELS.to_vec(), transactions: base.transactions / 5, ..base };
    let mut far = base.clone();
    far.times.to_log_us = continents.iter().map(|ms| (ms * 1000.0) as u64).collect();
    let mut loads = Vec::new();
    let places = [(Place::Room, &base), (Place::Continents, &far)];
    for (_, load) in places {
        for how in HOWS {
            for replicas in &counts {
                loads.push((*replicas as f64, Load { how, replicas: *replicas, ..load.clone() }));
            }
        }
    }
    let points = On::Simulated.measure(settings, workspace, &loads)?;
    let (room, continents) = points.split_at(HOWS.len() * counts.len());
    let panel = |points: &[Point], how: How, label, of: fn(&Found) -> f64| Panel {
        x: Axis { label: "members", scale: Scale::Logarithmic(10) },
        y: Axis { label, scale: Scale::Linear },
        curves: LEVELS.iter().map(|level| curve(level.to_string(), points, how, *level, of)).collect(),
        stated: Vec::new(),
    };
    let complete: fn(&Found) -> f64 = |found| found.complete_ms;
    let aborts: fn(&Found) -> f64 = |found| 100.0 * found.aborts;
    Ok(Outcome {
        claims: claims(room, continents),
        differences: On::Simulated.differences(),
        tables: vec![
            table("In one room", "members", room),
            table("On three continents", "members", continents),
        ],
        figures: vec![Figure {
            name: "kbound-replicas".to_owned(),
            title: "By the number of members".to_owned(),
            panels: vec![
                panel(room, How::Used, "completion, ms (one room)", complete),
                panel(room, How::Used, "aborts, % (one room)", aborts),
                panel(continents, How::Used, "completion, ms (three continents)", complete),
                panel(continents, How::Used, "aborts, % (three continents)", aborts),
                panel(continents, How::Voting, "completion, ms (voting, three continents)", complete),
                panel(continents, How::Voting, "aborts, % (voting, three continents)", aborts),
            ],
        }],
        data: serde_json::json!({ "room": room, "continents": continents }),
    })
}

fn claims(room: &[Point], continents: &[Point]) -> Vec<Claim> {
    let change = |points: &[Point]| {
        let times: Vec<f64> = points
            .iter()
            .filter(|point| point.how == How::Used)
            .filter_map(|point| Some(point.of(Level::Snapshot)?.complete_ms))
            .collect();
        let (least, most) =
            (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
        Some(most / least - 1.0)
    };
    let changes = change(room).zip(change(continents));
    let strict = |how| {
        let all: Vec<f64> = continents
            .iter()
            .filter(|point| point.how == how)
            .filter_map(|point| Some(point.of(Level::KBound(0))?.aborts))
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let both = strict(How::Voting).zip(strict(How::Used));
    vec![
        Claim {
            figure: "completion",
            stated: STATED[0],
            measured: changes.map_or_else(String::new, |(room, continents)| {
                format!("GSI by {} and {}", percent(room, 1), percent(continents, 1))
            }),
            verdict: verdict(true, changes.map(|(room, continents)| room < 0.05 && continents < 0.05)),
        },
        Claim {
            figure: "SSI",
            stated: STATED[1],
            measured: both.map_or_else(String::new, |(tables, rows)| {
                format!("{} % instead of {} %", figure(100.0 * rows), figure(100.0 * tables))
            }),
            verdict: verdict(true, both.map(|(tables, rows)| 2.0 * rows < tables)),
        },
    ]
}

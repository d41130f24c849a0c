//! `kbound/nodes`: the paper's job on real members and etcd, at all levels beside each other.

use gnomon_cluster::protocol::Level;

use super::bench::{COMMON, How, Load, On, PAPER, Point, REPLICAS, SCALE, TERMS, TPS, table};
use crate::{
    experiment::{Claim, Experiment, Lab, Outcome, Values, percent, verdict},
    store::Result,
};

const STATED: [&str; 3] = [
    "(this project) strict snapshots that count rows abort at most 5 % more of all transactions than GSI",
    "(this project) SER aborts more often than GSI, and GSI more often than GRC",
    "(this project) jobs that increment are never aborted under GSI",
];
/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kbound/nodes",
    source: PAPER,
    measures: "times and aborts of six levels in equal parts, on real members and an etcd of this machine",
    stated: &STATED,
    settings: &[&[SCALE, TPS, REPLICAS], COMMON],
    terms: TERMS,
    run,
};

const LEVELS: [Level; 6] = [
    Level::Serializable,
    Level::KBound(0),
    Level::KBound(1),
    Level::KBound(2),
    Level::Snapshot,
    Level::ReadCommitted,
];
const HOWS: [How; 3] = [How::Voting, How::Used, How::Increments];

fn run(settings: &Values, lab: &mut Lab) -> Result<Outcome> {
    let on = On::members(settings)?;
    let base = Load { levels: LEVELS.to_vec(), ..Load::new(settings)? };
    let loads = HOWS.map(|how| (base.tps, Load { how, ..base.clone() }));
    let points = on.measure(settings, lab, &loads)?;
    Ok(Outcome {
        claims: claims(&points),
        differences: on.differences(),
        tables: vec![table("All levels on real members", "tps", &points)],
        figures: Vec::new(),
        data: serde_json::json!({ "points": points }),
    })
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let of = |how, level| {
        points
            .iter()
            .find(|point| point.how == how)
            .and_then(|point| point.of(level))
            .map(|found| found.aborts)
    };
    let strict = |how| of(how, Level::KBound(0)).zip(of(how, Level::Snapshot));
    let (tables, rows) = (strict(How::Voting), strict(How::Used));
    let shown = |(strict, gsi): (f64, f64)| format!("{} and {}", percent(strict, 1), percent(gsi, 1));
    let ordered =
        [Level::Serializable, Level::Snapshot, Level::ReadCommitted].map(|level| of(How::Used, level));
    let increments = of(How::Increments, Level::Snapshot);
    vec![
        Claim {
            figure: "SSI",
            stated: STATED[0],
            measured: rows.zip(tables).map_or_else(String::new, |(rows, tables)| {
                format!("{}; by tables {}", shown(rows), shown(tables))
            }),
            verdict: verdict(true, rows.map(|(strict, gsi)| strict - gsi <= 0.05)),
        },
        Claim {
            figure: "order",
            stated: STATED[1],
            measured: ordered
                .iter()
                .flatten()
                .map(|aborts| percent(*aborts, 1))
                .collect::<Vec<_>>()
                .join(", "),
            verdict: verdict(
                true,
                match ordered {
                    [Some(ser), Some(gsi), Some(grc)] => Some(ser > gsi && gsi > grc),
                    _ => None,
                },
            ),
        },
        Claim {
            figure: "increments",
            stated: STATED[2],
            measured: increments.map_or_else(String::new, |aborts| percent(aborts, 2)),
            verdict: verdict(true, increments.map(|aborts| aborts == 0.0)),
        },
    ]
}

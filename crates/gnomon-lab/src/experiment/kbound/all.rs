//! `kbound/all` and `kbound/all-without-ser`: all levels beside each other (Figures 5, 6).

use gnomon_bench::{
    result::{
        Claim, Outcome,
        plot::{Axis, Figure, Panel, Scale, Stated},
        text::{figure, percent},
    },
    store::Result,
    workspace::Workspace,
};
use gnomon_cluster::protocol::Level;

use super::bench::{COMMON, Found, How, Load, ON, On, PAPER, Point, REPLICAS, SCALE, TERMS, curve, table};
use crate::experiment::{Experiment, Setting, Values, verdict};

const LEVELS: [Level; 6] = [
    Level::Serializable,
    Level::KBound(0),
    Level::KBound(1),
    Level::KBound(2),
    Level::Snapshot,
    Level::ReadCommitted,
];
/// Abort rates in % at 8 and at 22 transactions a second.
const ABORTS: [(f64, f64); 6] =
    [(22.0, 46.0), (16.0, 45.5), (7.5, 32.5), (7.0, 26.0), (6.5, 14.0), (0.8, 2.0)];

const STATED: [&str; 4] = [
    "the stricter, the more aborts: SSI above 1-bound above 2-bound above GSI above GRC",
    "abort rates from 8 to 22 transactions a second: SER 22 to 46 %, SSI 16 to 45.5 %, k = 1 7.5 to 32.5 %, k = 2 7 to \
     26 %, GSI 6.5 to 14 %, GRC 0.8 to 2 %",
    "levels differ little in their completion times (656 to 740 ms outside GRC)",
    "(this project) to have the other levels beside it costs GSI less than 2 % of its completion time",
];
const STATED_WITHOUT: [&str; 2] =
    ["the same order of abort rates", "646 to 686 ms to commit outside GRC, less than with SER beside"];
const RATES: Setting = Setting {
    name: "rates",
    help: "transactions a second, over all members",
    full: "8,10,12,14,16,18,20,22",
    quick: "8,22",
};

/// With serializable ones.
pub const ALL: Experiment = Experiment {
    name: "kbound/all",
    source: PAPER,
    measures: "times and aborts of six levels in equal parts by load",
    stated: &STATED,
    settings: &[&[RATES, ON, SCALE, REPLICAS], COMMON],
    terms: TERMS,
    run: |settings, workspace| run(settings, workspace, true),
};

/// Without.
pub const ALL_WITHOUT_SER: Experiment = Experiment {
    name: "kbound/all-without-ser",
    source: PAPER,
    measures: "the same without serializable transactions",
    stated: &STATED_WITHOUT,
    settings: &[&[RATES, ON, SCALE, REPLICAS], COMMON],
    terms: TERMS,
    run: |settings, workspace| run(settings, workspace, false),
};

fn run(settings: &Values, workspace: &mut Workspace, with_ser: bool) -> Result<Outcome> {
    let rates: Vec<f64> = settings.list(RATES.name, 0.01, 1e6)?;
    let base = Load::new(settings)?;
    let levels = if with_ser { &LEVELS[..] } else { &LEVELS[1..] };
    let on = On::new(settings)?;
    let paper = on.paper();
    let hows = on.hows(&[How::Used]);
    let mut loads = Vec::new();
    for how in hows.iter().copied() {
        for tps in &rates {
            loads.push((*tps, Load { how, tps: *tps, levels: levels.to_vec(), ..base.clone() }));
        }
    }
    // GSI alone, to see what the others cost it.
    for tps in rates.iter().filter(|_| with_ser) {
        loads.push((*tps, Load { tps: *tps, ..base.clone() }));
    }
    let mut points = on.measure(settings, workspace, &loads)?;
    let alone = points.split_off(hows.len() * rates.len());
    let claims = match with_ser {
        true => claims(paper, &points, &alone),
        false => claims_without(paper, &points),
    };
    let of_paper = match paper {
        How::Paper => ["completion, ms (paper's)", "aborts, % (paper's)"],
        _ => ["completion, ms (voting)", "aborts, % (voting)"],
    };
    let panel = |how: How, label, of: fn(&Found) -> f64, stated: Vec<Stated>| Panel {
        x: Axis { label: "transactions a second", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: levels.iter().map(|level| curve(level.to_string(), &points, how, *level, of)).collect(),
        stated,
    };
    let stated = LEVELS.iter().zip(ABORTS).filter(|_| with_ser).map(|(level, (least, most))| Stated {
        label: level.to_string(),
        points: vec![(8.0, least), (22.0, most)],
        throughout: false,
    });
    let name = if with_ser { "kbound-all" } else { "kbound-all-without-ser" };
    let mut tables = vec![table("All levels beside each other", "tps", &points)];
    if with_ser {
        tables.push(table("GSI alone", "tps", &alone));
    }
    Ok(Outcome {
        claims,
        differences: on.differences(),
        tables,
        figures: vec![Figure {
            name: name.to_owned(),
            title: "All levels beside each other".to_owned(),
            panels: vec![
                panel(paper, of_paper[0], |found| found.complete_ms, Vec::new()),
                panel(paper, of_paper[1], |found| 100.0 * found.aborts, stated.collect()),
                panel(How::Used, "completion, ms (used)", |found| found.complete_ms, Vec::new()),
                panel(How::Used, "aborts, % (used)", |found| 100.0 * found.aborts, Vec::new()),
            ],
        }],
        data: serde_json::json!({ "points": points, "alone": alone }),
    })
}

/// Whether at every load the stricter of the levels behind SER abort more.
fn is_ordered(paper: How, points: &[Point]) -> Option<bool> {
    let mut all = points.iter().filter(|point| point.how == paper).peekable();
    // Of few transactions chance decides.
    all.peek().filter(|point| point.found.iter().all(|found| found.transactions >= TRANSACTIONS_MIN))?;
    let ordered = |point: &Point| {
        let found: Vec<&Found> = LEVELS[1..].iter().filter_map(|level| point.of(*level)).collect();
        // Of levels that hardly differ, chance decides.
        found.iter().enumerate().all(|(place, stricter)| {
            found[place..].iter().all(|other| stricter.aborts + chance(stricter, other) >= other.aborts)
        })
    };
    Some(all.all(ordered))
}

/// So many of each level tell an order.
const TRANSACTIONS_MIN: f64 = 500.0;

/// By how much abort rates that are the same may differ: two standard errors, and at least a hundredth.
fn chance(one: &Found, other: &Found) -> f64 {
    let variance = |found: &Found| found.aborts * (1.0 - found.aborts) / found.transactions;
    (2.0 * (variance(one) + variance(other)).sqrt()).max(0.01)
}

/// The least and the longest time to commit, outside GRC, of the paper's protocol.
fn times(paper: How, points: &[Point]) -> Option<(f64, f64)> {
    let of_paper = points.iter().filter(|point| point.how == paper);
    let all: Vec<f64> = of_paper
        .flat_map(|point| &point.found)
        .filter(|found| found.level != Level::ReadCommitted)
        .map(|found| found.complete_ms)
        .collect();
    Some((all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?))
}

fn order(stated: &'static str, paper: How, points: &[Point]) -> Claim {
    let last = points.iter().rfind(|point| point.how == paper);
    let shown = last.map_or_else(String::new, |point| {
        let aborts = point.found.iter().map(|found| format!("{} {}", found.level, percent(found.aborts, 1)));
        format!("at {} a second: {}", figure(point.at), aborts.collect::<Vec<_>>().join(", "))
    });
    Claim { figure: "order", stated, measured: shown, verdict: verdict(true, is_ordered(paper, points)) }
}

fn claims(paper: How, points: &[Point], alone: &[Point]) -> Vec<Claim> {
    let ends = [8.0, 22.0].map(|tps| points.iter().find(|point| point.how == paper && point.at == tps));
    let rates = match ends {
        [Some(least), Some(most)] => Some(LEVELS.map(|level| {
            let of = |point: &Point| point.of(level).map_or(f64::NAN, |found| 100.0 * found.aborts);
            (of(least), of(most))
        })),
        _ => None,
    };
    let near = |rates: [(f64, f64); 6]| {
        rates
            .iter()
            .zip(ABORTS)
            .all(|(found, stated)| (found.0 - stated.0).abs() <= 10.0 && (found.1 - stated.1).abs() <= 10.0)
    };
    let used = points.iter().filter(|point| point.how == How::Used).zip(alone);
    let costs = used.filter_map(|(mixed, alone)| {
        Some((mixed.of(Level::Snapshot)?.complete_ms / alone.found[0].complete_ms - 1.0).abs())
    });
    let cost = costs.reduce(f64::max);
    vec![
        order(STATED[0], paper, points),
        Claim {
            figure: "abort rates",
            stated: STATED[1],
            measured: rates.map_or_else(
                || "other loads".to_owned(),
                |rates| {
                    let shown = LEVELS.iter().zip(rates).map(|(level, (least, most))| {
                        format!("{level} {} to {} %", figure(least), figure(most))
                    });
                    shown.collect::<Vec<_>>().join(", ")
                },
            ),
            verdict: verdict(true, rates.map(near)),
        },
        Claim {
            figure: "completion",
            stated: STATED[2],
            measured: times(paper, points).map_or_else(String::new, |(least, most)| {
                format!("{} to {} ms", figure(least), figure(most))
            }),
            verdict: verdict(true, times(paper, points).map(|(least, most)| most < 1.15 * least)),
        },
        Claim {
            figure: "GSI",
            stated: STATED[3],
            measured: cost.map_or_else(String::new, |cost| format!("within {}", percent(cost, 1))),
            verdict: verdict(true, cost.map(|cost| cost < 0.02)),
        },
    ]
}

fn claims_without(paper: How, points: &[Point]) -> Vec<Claim> {
    vec![
        order(STATED_WITHOUT[0], paper, points),
        Claim {
            figure: "completion",
            stated: STATED_WITHOUT[1],
            measured: times(paper, points).map_or_else(String::new, |(least, most)| {
                format!("{} to {} ms", figure(least), figure(most))
            }),
            verdict: verdict(true, times(paper, points).map(|(least, most)| most < 1.1 * least)),
        },
    ]
}

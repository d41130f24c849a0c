//! `kbound/ser-gsi` and `kbound/ser-gsi-writes`: serializable and snapshot transactions beside each other (Figures 3, 4).

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

use super::bench::{
    COMMON, Found, How, Load, ON, On, PAPER, Point, REPLICAS, SCALE, TERMS, TPS, curve, table,
};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 4] = [
    "all GSI: 681 ms to commit; all SER: 1171 ms",
    "weak voting makes GSI transactions slower the more SER ones there are beside them",
    "(this project) where reads are certified, SER transactions leave GSI's completion time as it is, in every mix",
    "(this project) SER transactions that are calls of procedures never abort, and leave GSI's completion time as it is",
];
const STATED_WRITES: [&str; 2] = [
    "jobs that only write: 542 ms all GSI, 568 ms all SER",
    "the gap between SER and GSI in a mix is very small",
];
/// Shares are of tenths.
const SHARES: Setting = Setting {
    name: "shares",
    help: "of ten transactions, serializable ones",
    full: "0,1,3,5,7,9,10",
    quick: "0,5,10",
};

/// Jobs that read and write.
pub const SER_GSI: Experiment = Experiment {
    name: "kbound/ser-gsi",
    source: PAPER,
    measures: "times and aborts of serializable and snapshot transactions by their shares",
    stated: &STATED,
    settings: &[&[SHARES, ON, SCALE, TPS, REPLICAS], COMMON],
    terms: TERMS,
    run: |settings, workspace| run(settings, workspace, false),
};

/// Jobs that only write.
pub const SER_GSI_WRITES: Experiment = Experiment {
    name: "kbound/ser-gsi-writes",
    source: PAPER,
    measures: "the same, of jobs that only write",
    stated: &STATED_WRITES,
    settings: &[&[SHARES, ON, SCALE, TPS, REPLICAS], COMMON],
    terms: TERMS,
    run: |settings, workspace| run(settings, workspace, true),
};

const LEVELS: [Level; 2] = [Level::Snapshot, Level::Serializable];

fn run(settings: &Values, workspace: &mut Workspace, only_writes: bool) -> Result<Outcome> {
    let shares: Vec<usize> = settings.list(SHARES.name, 0, 10)?;
    let base = Load::new(settings)?;
    let base = Load { reads: if only_writes { 0 } else { base.reads }, ..base };
    let on = On::new(settings)?;
    let hows = on.hows(&[How::Voting, How::Used, How::Calls]);
    let mut loads = Vec::new();
    for how in hows.iter().copied() {
        for share in &shares {
            let levels = [vec![Level::Snapshot; 10 - share], vec![Level::Serializable; *share]].concat();
            loads.push((*share as f64 * 10.0, Load { how, levels, ..base.clone() }));
        }
    }
    let mut points = on.measure(settings, workspace, &loads)?;
    for point in &mut points {
        // Each level once.
        point.found.dedup_by_key(|found| found.level);
    }
    let claims =
        if only_writes { claims_of_writes(on.paper(), &points) } else { claims(on.paper(), &points) };
    let panel = |label, of: fn(&Found) -> f64, stated: Vec<Stated>| Panel {
        x: Axis { label: "serializable, %", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: hows
            .iter()
            .flat_map(|how| LEVELS.map(|level| (*how, level)))
            .map(|(how, level)| curve(format!("{level}, {}", how.name()), &points, how, level, of))
            .collect(),
        stated,
    };
    let ends = if only_writes { [542.0, 568.0] } else { [681.0, 1171.0] };
    let stated = |level: Level, at, ms| Stated {
        label: format!("{level}, {}", on.paper().name()),
        points: vec![(at, ms)],
        throughout: false,
    };
    let stated = vec![stated(Level::Snapshot, 0.0, ends[0]), stated(Level::Serializable, 100.0, ends[1])];
    let name = if only_writes { "kbound-ser-gsi-writes" } else { "kbound-ser-gsi" };
    Ok(Outcome {
        claims,
        differences: on.differences(),
        tables: vec![table("By the share of serializable transactions", "SER, %", &points)],
        figures: vec![Figure {
            name: name.to_owned(),
            title: "Serializable and snapshot transactions".to_owned(),
            panels: vec![
                panel("completion, ms", |found| found.complete_ms, stated),
                panel("abort, ms", |found| found.abort_ms, Vec::new()),
                panel("aborts, %", |found| 100.0 * found.aborts, Vec::new()),
            ],
        }],
        data: serde_json::json!({ "points": points }),
    })
}

/// What was found of a level with the least and with the largest share of serializable ones.
fn ends(points: &[Point], how: How, level: Level) -> Option<[f64; 2]> {
    let mut all = points.iter().filter(|point| point.how == how).filter_map(|point| point.of(level));
    let first = all.next()?;
    Some([first.complete_ms, all.next_back()?.complete_ms])
}

fn claims(paper: How, points: &[Point]) -> Vec<Claim> {
    let gsi = |how| ends(points, how, Level::Snapshot);
    let all_ser = ends(points, paper, Level::Serializable).map(|[_, most]| most);
    let extremes = gsi(paper).map(|[none, _]| none).zip(all_ser);
    // By how much GSI's completion time differs from that without others, at most.
    let change_of_gsi = |how| -> Option<f64> {
        let of_how = points.iter().filter(|point| point.how == how);
        let all: Vec<f64> =
            of_how.filter_map(|point| point.of(Level::Snapshot)).map(|found| found.complete_ms).collect();
        all.first().map(|none| all.iter().map(|ms| (ms / none - 1.0).abs()).fold(0.0, f64::max))
    };
    let certified = change_of_gsi(How::Used);
    let calls = points.iter().filter(|point| point.how == How::Calls);
    let aborts =
        calls.filter_map(|point| point.of(Level::Serializable)).map(|found| found.aborts).reduce(f64::max);
    let calls = aborts.zip(change_of_gsi(How::Calls));
    let change = |[none, most]: [f64; 2]| format!("{} to {} ms", figure(none), figure(most));
    vec![
        Claim {
            figure: "extremes",
            stated: STATED[0],
            measured: extremes
                .map_or_else(String::new, |(gsi, ser)| format!("{} and {} ms", figure(gsi), figure(ser))),
            verdict: verdict(
                true,
                extremes
                    .map(|(gsi, ser)| (gsi / 681.0 - 1.0).abs() < 0.1 && (ser / 1171.0 - 1.0).abs() < 0.25),
            ),
        },
        Claim {
            figure: "GSI by voting",
            stated: STATED[1],
            measured: gsi(paper).map_or_else(String::new, change),
            verdict: verdict(true, gsi(paper).map(|[none, most]| most > none)),
        },
        Claim {
            figure: "GSI by certified reads",
            stated: STATED[2],
            measured: certified.map_or_else(String::new, |most| format!("within {}", percent(most, 1))),
            verdict: verdict(true, certified.map(|most| most < 0.02)),
        },
        Claim {
            figure: "calls",
            stated: STATED[3],
            measured: calls.map_or_else(String::new, |(aborts, most)| {
                format!("{} abort, GSI within {}", percent(aborts, 1), percent(most, 1))
            }),
            verdict: verdict(true, calls.map(|(aborts, most)| aborts == 0.0 && most < 0.02)),
        },
    ]
}

fn claims_of_writes(paper: How, points: &[Point]) -> Vec<Claim> {
    let extremes = ends(points, paper, Level::Snapshot)
        .map(|[none, _]| none)
        .zip(ends(points, paper, Level::Serializable).map(|[_, most]| most));
    let mixes = points.iter().filter(|point| point.how == paper);
    let gaps = mixes.filter_map(|point| {
        let [gsi, ser] = LEVELS.map(|level| point.of(level).filter(|found| found.transactions > 0.0));
        Some((ser?.complete_ms - gsi?.complete_ms).abs())
    });
    let gap = gaps.filter(|gap| gap.is_finite()).reduce(f64::max);
    vec![
        Claim {
            figure: "extremes",
            stated: STATED_WRITES[0],
            measured: extremes
                .map_or_else(String::new, |(gsi, ser)| format!("{} and {} ms", figure(gsi), figure(ser))),
            verdict: verdict(
                true,
                extremes
                    .map(|(gsi, ser)| (gsi / 542.0 - 1.0).abs() < 0.25 && (gsi..1.2 * gsi).contains(&ser)),
            ),
        },
        Claim {
            figure: "gap",
            stated: STATED_WRITES[1],
            measured: gap.map_or_else(String::new, |gap| format!("up to {} ms", figure(gap))),
            verdict: verdict(true, gap.map(|gap| gap < 40.0)),
        },
    ]
}

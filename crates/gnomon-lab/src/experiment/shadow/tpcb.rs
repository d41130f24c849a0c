//! `shadow/tpcb`: TPC-B over the multiprogramming level (the paper's Figures 4 and 5, and what it says of aborts, of
//! the translation cache and of the page table).
//!
//! Each point has a fresh database: a copy of one that was loaded once. The best of the runs of a level counts, as in
//! the paper. Counters (translations, writes) are of the whole run after loading, warm-up included; throughput,
//! completion times and aborts without it.

use std::{path::Path, time::Duration};

use gnomon_bench::{
    drive::Load,
    report::{Latency, classes},
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::percent,
    },
    store::{GnomonStore, Result, StoreError},
    workload::{
        Workload,
        tpcb::{self, Tpcb as Bank},
    },
    workspace::Workspace,
};
use gnomon_engine::{Activity, Options, Recovery};
use serde::Serialize;

use crate::experiment::{Experiment, Setting, Values};

const STATED: [&str; 4] = [
    "in the same range as good commercial databases for the same machine (1995)",
    "under 0.1 % of started transactions aborted, in all tests",
    "a 4096-entry 2-way cache serves over 90 % of translations",
    "page table of 0.01 % to 1 % of the database",
];
const ABORTED_MAX: f64 = 0.001;
const HIT_RATE_MIN: f64 = 0.9;
const TABLE_SHARE: std::ops::RangeInclusive<f64> = 0.0001..=0.01;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shadow/tpcb",
    source: "Shadow Paging Is Feasible (Ylönen 1995), sections 2.3, 2.4 and 5, Figures 4 and 5",
    measures: "TPC-B by multiprogramming level: throughput, completion times, aborts, translations, page table, writes",
    stated: &STATED,
    settings: &[&[
        Setting {
            name: "levels",
            help: "multiprogramming levels (clients that run transactions at once)",
            full: "1,2,4,8,16,32,64",
            quick: "1,4",
        },
        Setting { name: "runs", help: "runs of each level, of which the best counts", full: "3", quick: "1" },
        Setting { name: "seconds", help: "measured in each run", full: "10", quick: "0.2" },
        Setting { name: "warm-up", help: "seconds before that", full: "1", quick: "0.05" },
        Setting {
            name: "branches",
            help: "of the bank; with 1 every transaction changes the same row",
            full: "64",
            quick: "4",
        },
        Setting { name: "accounts", help: "of each branch", full: "10000", quick: "100" },
        Setting {
            name: "pool-mib",
            help: "the buffer pool, in MiB (30 in the paper)",
            full: "30",
            quick: "4",
        },
    ]],
    terms: &[],
    run,
};

/// What was measured at one level: the best of its runs.
#[derive(Clone, Debug, Serialize)]
struct Point {
    level: usize,
    /// Throughput of each run.
    runs_tps: Vec<f64>,
    tps: f64,
    committed: u64,
    aborted: u64,
    /// Of the transactions started.
    aborted_share: f64,
    latency_us: Latency,
    /// How many transactions completed in less than so many microseconds, and not in less than the class before.
    distribution: Vec<Class>,
    translations: u64,
    /// Of these, those that the cache served.
    translation_hit_rate: f64,
    /// Of all accesses to data pages, those without a look into the page table.
    untranslated_share: f64,
    table_pages: u64,
    used_pages: u64,
    file_pages: u64,
    /// The page table's share of the pages in use.
    table_share: f64,
    bytes_changed: u64,
    bytes_written: u64,
    write_amplification: f64,
    transactions_per_batch: f64,
    syncs: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Class {
    below_us: u64,
    committed: u64,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let levels = settings.list("levels", 1, 1024)?;
    let runs: u32 = settings.number("runs", 1, 100)?;
    let measured = Duration::from_secs_f64(settings.number("seconds", 0.01, 86_400.0)?);
    let warm_up = Duration::from_secs_f64(settings.number("warm-up", 0.0, 86_400.0)?);
    let bank =
        Bank::new(settings.number("branches", 1, 100_000)?, settings.number("accounts", 1, 100_000_000)?);
    let pool_bytes = settings.number::<usize>("pool-mib", 1, 1 << 20)? << 20;

    let loaded = workspace.new_path();
    let store = GnomonStore::create(
        &loaded,
        tpcb::TABLES,
        Options { pool_bytes, recovery: Some(Recovery::Shadow), ..Options::default() },
    )?;
    bank.load(&store, &mut workspace.progress, &workspace.cancel)?;
    store.close()?;

    let total = levels.len() as u64 * u64::from(runs);
    let mut points: Vec<Point> = Vec::new();
    for &level in &levels {
        let mut best: Option<Point> = None;
        let mut runs_tps = Vec::new();
        for number in 0..runs {
            let load = Load {
                clients: level,
                warm_up,
                measured,
                seed: workspace.seed.wrapping_add(number.into()),
                cancel: workspace.cancel.clone(),
            };
            let path = workspace.copy(&loaded)?;
            let point = measure(&path, &bank, &load, pool_bytes)?;
            workspace.remove(&path)?;
            runs_tps.push(point.tps);
            workspace.progress.note(&format!(
                "level {level}, run {} of {runs}: {:.0} transactions/s, 90 % within {} us",
                number + 1,
                point.tps,
                point.latency_us.p90
            ));
            if best.as_ref().is_none_or(|best| point.tps > best.tps) {
                best = Some(point);
            }
            workspace.progress.set(points.len() as u64 * u64::from(runs) + u64::from(number) + 1, total);
        }
        points.extend(best.map(|best| Point { runs_tps, ..best }));
    }
    Ok(outcome(&points, &bank, measured))
}

fn measure(path: &Path, bank: &Bank, load: &Load, pool_bytes: usize) -> Result<Point> {
    let store = GnomonStore::open(path, pool_bytes)?;
    let before = store.database().stats();
    let measured = bank.run(&store, load, 1)?;
    let stats = store.database().stats();
    let done: Activity = stats.activity.since(&before.activity);
    let invariant = bank.check(&store, measured.committed_in_all)?;
    store.close()?;
    if !invariant.holds {
        return Err(StoreError::unexpected(format!("the invariant is broken: {}", invariant.detail)));
    }
    let misses = done.translation_misses as f64;
    let lookups = (done.page_accesses + done.data_pages).max(1) as f64;
    let started = (measured.committed + measured.aborted).max(1);
    Ok(Point {
        level: load.clients,
        runs_tps: Vec::new(),
        tps: measured.committed as f64 / measured.seconds,
        committed: measured.committed,
        aborted: measured.aborted,
        aborted_share: measured.aborted as f64 / started as f64,
        latency_us: Latency::of(&measured.latency_us),
        distribution: classes(&measured.latency_us)
            .into_iter()
            .map(|(below_us, committed)| Class { below_us, committed })
            .collect(),
        translations: done.translation_hits + done.translation_misses,
        translation_hit_rate: done.translation_hit_rate().unwrap_or(1.0),
        untranslated_share: 1.0 - misses / lookups,
        table_pages: stats.table_pages,
        used_pages: stats.used_pages,
        file_pages: stats.file_pages,
        table_share: stats.table_pages as f64 / stats.used_pages.max(1) as f64,
        bytes_changed: done.bytes_changed,
        bytes_written: done.bytes_written,
        write_amplification: done.write_amplification().unwrap_or(0.0),
        transactions_per_batch: measured.committed_in_all as f64 / done.batches.max(1) as f64,
        syncs: done.syncs,
    })
}

fn outcome(points: &[Point], bank: &Bank, measured: Duration) -> Outcome {
    Outcome {
        claims: claims(points),
        differences: vec![
            format!(
                "{} branches of {} accounts at any throughput; the benchmark's rules ask for a branch of 100,000 \
                 accounts for each transaction a second",
                bank.branches, bank.accounts_per_branch
            ),
            "clients of one process without a network or SQL; one file, one copy of each page, no mirror".into(),
            format!("{} s a run; 5 minutes in the paper", measured.as_secs_f64()),
            "the buffer pool is addressed by logical pages: a page in memory needs no translation. Translated are \
             pages that are read from the disk, and each page of a batch once for its old place"
                .into(),
            "a database is fresh by being copied from one that was loaded once; files may be in the system's cache"
                .into(),
        ],
        data: serde_json::json!({ "points": points }),
        tables: tables(points),
        figures: figures(points),
    }
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let most = |figure: fn(&Point) -> f64| points.iter().map(figure).fold(f64::NEG_INFINITY, f64::max);
    let least = |figure: fn(&Point) -> f64| points.iter().map(figure).fold(f64::INFINITY, f64::min);
    let fastest = points.iter().max_by(|a, b| a.tps.total_cmp(&b.tps));
    let aborted = most(|point| point.aborted_share);
    let (hits_min, hits_max) =
        (least(|point| point.translation_hit_rate), most(|point| point.translation_hit_rate));
    let (table_min, table_max) = (least(|point| point.table_share), most(|point| point.table_share));
    vec![
        Claim {
            figure: "throughput",
            stated: STATED[0],
            measured: fastest.map_or_else(String::new, |point| {
                format!(
                    "{:.0} transactions/s at level {}; its peers of today: the package crates/gnomon-lab/peers",
                    point.tps, point.level
                )
            }),
            verdict: Verdict::NotComparable,
        },
        Claim {
            figure: "aborted transactions",
            stated: STATED[1],
            measured: format!("{} at most", percent(aborted, 3)),
            verdict: Verdict::of(aborted < ABORTED_MAX),
        },
        Claim {
            figure: "translation cache",
            stated: STATED[2],
            measured: format!(
                "{} to {} of those that are needed; {} or more of page accesses go without the page table",
                percent(hits_min, 1),
                percent(hits_max, 1),
                percent(least(|point| point.untranslated_share), 2)
            ),
            verdict: Verdict::of(hits_min > HIT_RATE_MIN),
        },
        Claim {
            figure: "page table's size",
            stated: STATED[3],
            measured: format!("{} to {} of the pages in use", percent(table_min, 2), percent(table_max, 2)),
            verdict: Verdict::of(TABLE_SHARE.contains(&table_min) && TABLE_SHARE.contains(&table_max)),
        },
    ]
}

fn tables(points: &[Point]) -> Vec<ResultTable> {
    let speed = points.iter().map(|point| {
        let Latency { p50, p90, p99, max, .. } = point.latency_us;
        let times = [p50, p90, p99, max].map(|us| format!("{:.2}", us as f64 / 1e3));
        [point.level.to_string(), format!("{:.0}", point.tps)]
            .into_iter()
            .chain(times)
            .chain([point.committed.to_string(), percent(point.aborted_share, 3)])
            .collect()
    });
    let pages = points.iter().map(|point| {
        vec![
            point.level.to_string(),
            percent(point.translation_hit_rate, 1),
            point.translations.to_string(),
            format!("{} of {}", point.table_pages, point.used_pages),
            percent(point.table_share, 2),
            format!("{:.1}", point.write_amplification),
            format!("{:.1}", point.transactions_per_batch),
            point.file_pages.to_string(),
        ]
    });
    vec![
        ResultTable {
            title: "Speed (Figure 4), times in ms".into(),
            headings: vec!["level", "tps", "p50", "p90", "p99", "max", "committed", "aborted"],
            rows: speed.collect(),
        },
        ResultTable {
            title: "Pages".into(),
            headings: vec![
                "level",
                "cache hits",
                "translations",
                "page table",
                "its share",
                "write amplification",
                "transactions/batch",
                "file pages",
            ],
            rows: pages.collect(),
        },
    ]
}

fn figures(points: &[Point]) -> Vec<Figure> {
    let level = Axis { label: "multiprogramming level", scale: Scale::Logarithmic(2) };
    let over_level = |label, y, figure: fn(&Point) -> f64| Panel {
        x: level,
        y: Axis { label: y, scale: Scale::Linear },
        curves: vec![Curve {
            label,
            points: points.iter().map(|point| (point.level as f64, figure(point))).collect(),
        }],
        stated: Vec::new(),
    };
    let spread = points.iter().map(|point| Curve {
        label: format!("level {}", point.level),
        points: point
            .distribution
            .iter()
            .map(|class| {
                (class.below_us as f64 / 1e3, class.committed as f64 / point.committed.max(1) as f64 * 100.0)
            })
            .collect(),
    });
    vec![
        Figure {
            name: "level".into(),
            title: "TPC-B by multiprogramming level (the paper's Figure 4)".into(),
            panels: vec![
                over_level("throughput".into(), "transactions/s", |point| point.tps),
                over_level("90 % complete within".into(), "ms", |point| point.latency_us.p90 as f64 / 1e3),
            ],
        },
        Figure {
            name: "distribution".into(),
            title: "Completion times (the paper's Figure 5)".into(),
            panels: vec![Panel {
                x: Axis {
                    label: "completed in less than, ms (each class twice the one before)",
                    scale: Scale::Logarithmic(10),
                },
                y: Axis { label: "% of the committed", scale: Scale::Linear },
                curves: spread.collect(),
                stated: Vec::new(),
            }],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_reports_what_it_measured() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        for field in [
            "experiment",
            "source",
            "version",
            "debug_build",
            "quick",
            "seed",
            "settings",
            "claims",
            "differences",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!((&json["seed"], &json["settings"]["levels"]), (&5.into(), &"1,4".into()));
        let points = json["data"]["points"].as_array().unwrap();
        assert_eq!(points.iter().map(|point| point["level"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4]);
        for point in points {
            let number = |field: &str| point[field].as_f64().unwrap();
            let classes = point["distribution"].as_array().unwrap();
            let in_classes: u64 = classes.iter().map(|class| class["committed"].as_u64().unwrap()).sum();
            assert_eq!(Some(in_classes), point["committed"].as_u64());
            assert!(number("tps") > 0.0 && number("write_amplification") > 1.0, "{point}");
            assert!(number("bytes_written") % 4096.0 == 0.0 && number("translations") > 0.0, "{point}");
            assert!((0.0..=1.0).contains(&number("translation_hit_rate")), "{point}");
            assert!(number("untranslated_share") >= number("translation_hit_rate"), "{point}");
            assert_eq!(point["runs_tps"].as_array().unwrap().len(), 1);
            // A transaction changes three rows of 108 bytes and appends one of 66.
            let transactions = number("bytes_changed") / (3.0 * 108.0 + 66.0);
            assert!(transactions.fract() == 0.0 && transactions >= number("committed"), "{point}");
        }
        let verdicts: Vec<_> = json["claims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|claim| claim["verdict"].as_str().unwrap())
            .collect();
        assert_eq!((verdicts.len(), verdicts[0]), (4, "not comparable"));
        let text = report.to_string();
        assert!(STATED.iter().all(|stated| text.contains(stated.split(' ').next().unwrap())), "{text}");

        let dir = tempfile::tempdir().unwrap();
        let files = report.write_to(&dir.path().join("out")).unwrap();
        assert_eq!(files, ["result.json", "report.txt", "level.svg", "distribution.svg"]);
        for file in &files[2..] {
            let svg = std::fs::read_to_string(dir.path().join("out").join(file)).unwrap();
            assert!(svg.contains("<polyline ") && svg.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let point = |hit_rate, aborted_share, table_share| Point {
            level: 1,
            runs_tps: vec![],
            tps: 10.0,
            committed: 1,
            aborted: 0,
            aborted_share,
            latency_us: Latency { p50: 1, p90: 1, p99: 1, p999: 1, max: 1 },
            distribution: vec![],
            translations: 1,
            translation_hit_rate: hit_rate,
            untranslated_share: 1.0,
            table_pages: 1,
            used_pages: 1,
            file_pages: 1,
            table_share,
            bytes_changed: 1,
            bytes_written: 1,
            write_amplification: 1.0,
            transactions_per_batch: 1.0,
            syncs: 1,
        };
        let verdicts = |points: &[Point]| claims(points)[1..].iter().map(|c| c.verdict).collect::<Vec<_>>();
        use Verdict::{DoesNotHold, Holds};
        let good = point(0.95, 0.0, 0.004);
        assert_eq!(verdicts(std::slice::from_ref(&good)), [Holds, Holds, Holds]);
        assert_eq!(verdicts(&[good.clone(), point(0.5, 0.0, 0.004)]), [Holds, DoesNotHold, Holds]);
        assert_eq!(verdicts(&[good, point(0.95, 0.01, 0.02)]), [DoesNotHold, Holds, DoesNotHold]);
    }
}

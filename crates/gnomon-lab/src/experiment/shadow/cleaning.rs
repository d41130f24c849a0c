//! `shadow/cleaning`: what the cleaner costs and what it is good for, over time (the paper's Figure 6, and what the
//! space of an update-only load comes to).
//!
//! Two parts, with and without the cleaner, each run on a fresh database and sampled at intervals:
//!
//! - TPC-B: throughput, at the engine's own fill;
//! - an update-only load: space. Rows are loaded in the order of their keys, then replaced by rows of the same size;
//!   keys are uniform, or skewed (nine of ten updates go to one of ten keys).
//!
//! What "80 % fill" means for the updates: the engine lets the file grow when more than 80 % of it would be in use
//! (`Options::fill_max`). On a disk without a limit nothing but the engine bounds the file, so that these runs decide
//! what is stated of its length. On a disk of which the live pages fill 80 % the file cannot be longer: these runs show
//! that the engine goes on there, and how fast, and tell nothing of the bound.

use std::time::Duration;

use gnomon_bench::{
    drive::{Client, Load, drive},
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::percent,
    },
    store::{Committed, GnomonStore, Result, Row, Store, StoreError},
    workload::{
        Workload,
        tpcb::{self, Tpcb as Bank},
    },
    workspace::Workspace,
};
use gnomon_engine::{
    Options, Recovery,
    disk::{Disk, FileDisk},
    env::Rng,
    sync::Arc,
};
use serde::Serialize;

use super::{
    limited::LimitedDisk,
    sampling::{Counted, Sample, sampled},
};
use crate::experiment::{Experiment, Setting, Values};

const STATED: [&str; 2] = [
    "performance degrades slightly when the cleanup thread starts",
    "(this project) with the cleaner the file is at most 1.5 times the live pages, plus 64 MiB",
];
/// A throughput that is less than another by more than this share is not "slightly" less.
const SLIGHTLY: f64 = 0.2;
const FILE_RATIO_MAX: f64 = 1.5;
/// 64 MiB, for what is under way, too: reserved, written and not yet durable, or given up and not yet free.
const FILE_CONSTANT_PAGES: f64 = 16384.0;
const PAGE_BYTES: u64 = 4096;
const TPCB: &str = "TPC-B";
const SPEED: &str = "throughput of TPC-B over time";

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shadow/cleaning",
    source: "Shadow Paging Is Feasible (Ylönen 1995), sections 2.1 and 5, Figure 6",
    measures: "throughput and space over time, with and without the cleaner: TPC-B, and updates on a disk with and without a limit",
    stated: &STATED,
    settings: &[&[
        Setting { name: "seconds", help: "of each run", full: "60", quick: "0.2" },
        Setting { name: "interval", help: "seconds between samples", full: "1", quick: "0.05" },
        Setting { name: "clients", help: "that run transactions at once", full: "8", quick: "2" },
        Setting { name: "branches", help: "of TPC-B's bank", full: "64", quick: "2" },
        Setting { name: "accounts", help: "of each branch", full: "10000", quick: "100" },
        Setting {
            name: "live-mib",
            help: "pages that the updated rows fill, in MiB",
            full: "128",
            quick: "16",
        },
        Setting {
            name: "fill",
            help: "of the file, in %, beyond which the engine lets it grow under the updates",
            full: "80",
            quick: "80",
        },
        Setting {
            name: "disk",
            help: "live pages' share of the disk for the updates, in %; 0 is a disk without a limit",
            full: "0,80",
            quick: "0,80",
        },
        Setting {
            name: "cleaner",
            help: "whether it works: on, off (both are needed to compare)",
            full: "on,off",
            quick: "on,off",
        },
        Setting {
            name: "keys",
            help: "that the updates choose: uniform, skewed (nine of ten to one of ten keys)",
            full: "uniform,skewed",
            quick: "uniform,skewed",
        },
        Setting { name: "value-bytes", help: "of each updated row", full: "100", quick: "1000" },
        Setting { name: "updates", help: "of each transaction", full: "4", quick: "2" },
        Setting { name: "pool-mib", help: "the buffer pool, in MiB", full: "30", quick: "4" },
    ]],
    terms: &[],
    run,
};

/// A run: what it did over time.
#[derive(Clone, Debug, Serialize)]
struct Series {
    /// TPC-B, or which updates.
    load: &'static str,
    /// Whether the cleaner worked.
    cleaner: bool,
    /// The share of the file in use beyond which it grew.
    fill_max: f64,
    /// The disk's size in pages, if it has a limit.
    disk_pages: Option<u64>,
    /// The live pages' share of it, in %.
    disk_percent: Option<u64>,
    samples: Vec<Sample>,
}

impl Series {
    fn label(&self) -> String {
        let disk = self.disk_percent.map_or_else(String::new, |percent| format!(", disk {percent} %"));
        let cleaner = if self.cleaner { "" } else { ", no cleaner" };
        format!("{}{disk}{cleaner}", self.load)
    }

    /// Whether the cleaner alone decides how long the file is.
    fn is_bounded_by_cleaner(&self) -> bool {
        self.cleaner && self.disk_pages.is_none()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Uniform,
    Skewed,
}

impl Keys {
    fn load(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform updates",
            Keys::Skewed => "skewed updates",
        }
    }

    fn choose(self, keys: u64, rng: &mut Rng) -> u64 {
        let hot = (keys / 10).max(1);
        match self {
            Keys::Skewed if hot < keys && rng.chance(1, 10) => hot + rng.below(keys - hot),
            Keys::Skewed => rng.below(hot),
            Keys::Uniform => rng.below(keys),
        }
    }
}

/// How the runs are set.
struct Runs {
    load: Load,
    interval: Duration,
    pool_bytes: usize,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let seconds = settings.number("seconds", 0.01, 86_400.0)?;
    let runs = Runs {
        load: Load {
            clients: settings.number("clients", 1, 1024)?,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs_f64(seconds),
            seed: workspace.seed,
            cancel: workspace.cancel.clone(),
        },
        interval: Duration::from_secs_f64(settings.number("interval", 0.01, 3_600.0)?),
        pool_bytes: settings.number::<usize>("pool-mib", 1, 1 << 20)? << 20,
    };
    let bank =
        Bank::new(settings.number("branches", 1, 100_000)?, settings.number("accounts", 1, 100_000_000)?);
    let live_pages = (settings.number::<u64>("live-mib", 1, 1 << 20)? << 20) / PAGE_BYTES;
    let value_bytes = settings.number("value-bytes", 1, 1 << 20)?;
    let updates = settings.number("updates", 1, 1000)?;
    let fill_max = settings.number::<f64>("fill", 30.0, 95.0)? / 100.0;
    let disks = settings.list::<u64>("disk", 0, 95)?;
    let cleaners = settings.words("cleaner", &[("on", true), ("off", false)])?;
    let keys = settings.words("keys", &[("uniform", Keys::Uniform), ("skewed", Keys::Skewed)])?;

    let total = (cleaners.len() * (1 + disks.len() * keys.len())) as u64;
    let mut series = Vec::new();
    for &cleaner in &cleaners {
        series.push(run_tpcb(&runs, &bank, cleaner, workspace)?);
        workspace.progress.set(series.len() as u64, total);
    }
    for &disk in &disks {
        let disk_percent = (disk > 0).then_some(disk);
        for &keys in &keys {
            // One after the other, so that they meet the same mood of the machine.
            for &cleaner in &cleaners {
                let update =
                    Update { live_pages, disk_percent, fill_max, cleaner, value_bytes, updates, keys };
                series.push(run_updates(&runs, &update, workspace)?);
                workspace.progress.set(series.len() as u64, total);
            }
        }
    }
    Ok(outcome(&series, seconds))
}

impl Runs {
    fn options(&self) -> Options {
        Options { pool_bytes: self.pool_bytes, recovery: Some(Recovery::Shadow), ..Options::default() }
    }
}

fn run_tpcb(runs: &Runs, bank: &Bank, cleaner: bool, workspace: &mut Workspace) -> Result<Series> {
    let path = workspace.new_path();
    let options = Options { cleaner, ..runs.options() };
    let fill_max = options.fill_max;
    let store = GnomonStore::create_on(Arc::new(FileDisk::open(&path, true)?), tpcb::TABLES, options)?;
    bank.load(&store, &mut workspace.progress, &workspace.cancel)?;
    let counted = Counted::new(&store);
    let (measured, samples) = sampled(&counted, runs.interval, || bank.run(&counted, &runs.load, 1))?;
    let invariant = bank.check(&store, measured.committed_in_all)?;
    store.close()?;
    workspace.remove(&path)?;
    if !invariant.holds {
        return Err(StoreError::unexpected(format!("the invariant is broken: {}", invariant.detail)));
    }
    Ok(Series { load: TPCB, cleaner, fill_max, disk_pages: None, disk_percent: None, samples })
}

/// An update-only load.
#[derive(Clone, Copy)]
struct Update {
    live_pages: u64,
    disk_percent: Option<u64>,
    fill_max: f64,
    cleaner: bool,
    value_bytes: usize,
    updates: usize,
    keys: Keys,
}

fn run_updates(runs: &Runs, update: &Update, workspace: &mut Workspace) -> Result<Series> {
    let &Update { live_pages, disk_percent, fill_max, cleaner, keys, .. } = update;
    let path = workspace.new_path();
    let mut disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&path, true)?);
    let disk_pages = disk_percent.map(|percent| live_pages * 100 / percent);
    if let Some(pages) = disk_pages {
        disk = Arc::new(LimitedDisk { disk, bytes_max: pages * PAGE_BYTES });
    }
    let options = Options { fill_max, cleaner, ..runs.options() };
    let store = GnomonStore::create_on(disk, 1, options)?;
    let rows = fill(&store, update, workspace)?;
    let counted = Counted::new(&store);
    let (_, samples) = sampled(&counted, runs.interval, || {
        drive(&counted, &runs.load, 1, |_| Updater {
            store: &counted,
            update: *update,
            rows,
            chosen: Vec::new(),
            value: 0,
        })
    })?;
    let mut found = 0;
    store.visit(0, &mut |_, value| {
        found += u64::from(value.len() == update.value_bytes);
        Ok(())
    })?;
    store.close()?;
    workspace.remove(&path)?;
    if found != rows {
        return Err(StoreError::unexpected(format!("{found} rows are whole, not {rows}")));
    }
    Ok(Series { load: keys.load(), cleaner, fill_max, disk_pages, disk_percent, samples })
}

/// Loads rows until so many pages are in use. Returns how many rows.
fn fill(store: &GnomonStore, update: &Update, workspace: &mut Workspace) -> Result<u64> {
    const CHUNK_BYTES: usize = 256 << 10;
    let chunk = (CHUNK_BYTES / update.value_bytes).max(1) as u64;
    let mut rows = 0;
    loop {
        workspace.check_canceled()?;
        let used = store.database().stats().used_pages;
        workspace.progress.set(used.min(update.live_pages), update.live_pages);
        if used >= update.live_pages {
            return Ok(rows);
        }
        let batch: Vec<Row> = (rows..rows + chunk)
            .map(|row| (row.to_be_bytes().to_vec(), vec![b'0'; update.value_bytes]))
            .collect();
        store.load(0, &batch)?;
        rows += chunk;
    }
}

struct Updater<'a> {
    store: &'a dyn Store,
    update: Update,
    rows: u64,
    chosen: Vec<u64>,
    value: u8,
}

impl Client for Updater<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.chosen = (0..self.update.updates).map(|_| self.update.keys.choose(self.rows, rng)).collect();
        // In one order for all: no deadlocks.
        self.chosen.sort_unstable();
        self.chosen.dedup();
        self.value = rng.below(256) as u8;
    }

    fn attempt(&mut self) -> Result<Committed> {
        let value = vec![self.value; self.update.value_bytes];
        self.store.run(&mut |operations| {
            self.chosen.iter().try_for_each(|key| operations.put(0, &key.to_be_bytes(), &value))
        })
    }
}

/// A part of a run.
#[derive(Clone, Copy)]
enum Part {
    First,
    Last,
    Whole,
}

/// The mean of a figure over the first or the last third of the samples or all, the first sample aside. Not a number if
/// there is only that one.
fn mean(samples: &[Sample], part: Part, figure: impl Fn(&Sample) -> f64) -> f64 {
    let samples = samples.get(1..).unwrap_or_default();
    let third = samples.len().div_ceil(3);
    let samples = match part {
        Part::First => &samples[..third],
        Part::Last => &samples[samples.len() - third..],
        Part::Whole => samples,
    };
    samples.iter().map(figure).sum::<f64>() / samples.len() as f64
}

fn outcome(series: &[Series], seconds: f64) -> Outcome {
    Outcome {
        claims: vec![claim_of_speed(series), claim_of_space(series)],
        differences: vec![
            "what the cleaner moves is copied and synced beside the commits, and a batch only points to the copies; in \
             the paper the copies are part of the batch. When no segment is empty, pages go to segments that are nearly \
             so, then into holes; in the paper into empty segments only"
                .into(),
            "the run without the cleaner has it switched off throughout, so that runs of the same age can be compared. It \
             does not have empty segments, as the paper's database has before its cleaner starts: the file is as full, \
             and its pages go into holes, in short writes"
                .into(),
            "the cleaner may have begun while the bank was loaded, before the first sample".into(),
            "one run each: what else the machine does meanwhile is in the figures".into(),
            format!("{seconds} s a run, in which a steady state may or may not be reached: see the plots"),
            "the update-only loads are this project's own; the paper shows TPC-B only".into(),
            "one file, one copy of each page, no mirror".into(),
        ],
        data: serde_json::json!({ "series": series }),
        tables: vec![table(series)],
        figures: figures(series),
    }
}

fn claim_of_speed(series: &[Series]) -> Claim {
    let run = |cleaner| series.iter().find(|series| series.load == TPCB && series.cleaner == cleaner);
    let tps = |series: Option<&Series>, part| series.map_or(f64::NAN, |s| mean(&s.samples, part, |s| s.tps));
    let (with, without) = (run(true), run(false));
    let late_to_early = |series| tps(series, Part::Last) / tps(series, Part::First);
    let with_to_without = |part| tps(with, part) / tps(without, part);
    let (aged, compared) = (late_to_early(with), with_to_without(Part::Last));
    let started = with.and_then(|series| series.samples.iter().find(|sample| sample.moved_pages > 0));
    let when = started.map_or_else(
        || "the cleaner had nothing to do".into(),
        |sample| format!("the cleaner worked from second {:.0} on", sample.seconds),
    );
    let comparable = started.is_some() && aged.is_finite() && compared.is_finite();
    if with.is_none() || without.is_none() {
        let measured = format!("{when}; there is nothing to compare, since one run was asked for only");
        return Claim { figure: SPEED, stated: STATED[0], measured, verdict: Verdict::NotComparable };
    }
    Claim {
        figure: SPEED,
        stated: STATED[0],
        measured: format!(
            "{when}; with / without it {compared:.2} in the last third ({:.0} / {:.0} transactions/s), {:.2} over all; \
             last / first third {aged:.2} with it, {:.2} without. Slightly: with / without, and last / first with it, at \
             least {:.1}",
            tps(with, Part::Last),
            tps(without, Part::Last),
            with_to_without(Part::Whole),
            late_to_early(without),
            1.0 - SLIGHTLY
        ),
        verdict: if comparable {
            Verdict::of(aged.min(compared).min(with_to_without(Part::Whole)) >= 1.0 - SLIGHTLY)
        } else {
            Verdict::NotComparable
        },
    }
}

fn claim_of_space(series: &[Series]) -> Claim {
    let worst = series
        .iter()
        .filter(|series| series.is_bounded_by_cleaner())
        .flat_map(|series| series.samples.iter().map(move |sample| (series, sample)))
        .max_by(|a, b| excess(a.1).total_cmp(&excess(b.1)));
    Claim {
        figure: "length of the file over time",
        stated: STATED[1],
        measured: worst.map_or_else(
            || "no run with the cleaner on a disk without a limit".into(),
            |(series, sample)| {
                format!(
                    "nearest to that: {} pages for {} live ones, {:.2} times, in second {:.0} of {}",
                    sample.file_pages,
                    sample.used_pages,
                    sample.file_ratio(),
                    sample.seconds,
                    series.label()
                )
            },
        ),
        verdict: worst.map_or(Verdict::NotComparable, |(_, sample)| Verdict::of(excess(sample) <= 0.0)),
    }
}

/// Pages of the file beyond what is stated.
fn excess(sample: &Sample) -> f64 {
    sample.file_pages as f64 - FILE_RATIO_MAX * sample.used_pages as f64 - FILE_CONSTANT_PAGES
}

fn table(series: &[Series]) -> ResultTable {
    let row = |series: &Series| {
        let samples = &series.samples;
        let amplification = |part| mean(samples, part, |s| s.write_amplification.unwrap_or(0.0));
        let end = samples.last().copied().unwrap_or_default();
        let file_ratio_max = samples.iter().map(Sample::file_ratio).fold(0.0, f64::max);
        vec![
            series.label(),
            format!("{:.0}", mean(samples, Part::First, |s| s.tps)),
            format!("{:.0}", mean(samples, Part::Last, |s| s.tps)),
            format!("{:.1}", amplification(Part::First)),
            format!("{:.1}", amplification(Part::Last)),
            percent(mean(samples, Part::Last, |s| s.cleaner_share), 1),
            format!("{} of {}", end.segments_empty, end.segments),
            end.file_pages.to_string(),
            end.used_pages.to_string(),
            format!("{file_ratio_max:.2}"),
        ]
    };
    ResultTable {
        title: "First and last third of each run (the cleaner's share of the pages written: last); the end; file / \
                live pages at most"
            .into(),
        headings: vec![
            "load",
            "tps first",
            "last",
            "bytes written/changed first",
            "last",
            "cleaner's share",
            "segments empty",
            "file pages",
            "live pages",
            "ratio",
        ],
        rows: series.iter().map(row).collect(),
    }
}

fn figures(series: &[Series]) -> Vec<Figure> {
    let figure = |name: &str, title: &str, shown: fn(&Series) -> bool| {
        let shown: Vec<&Series> = series.iter().filter(|series| shown(series)).collect();
        Figure { name: name.into(), title: title.into(), panels: panels(&shown) }
    };
    vec![
        figure("throughput", "TPC-B over time (the paper's Figure 6)", |series| series.load == TPCB),
        figure("space", "Updates over time", |series| series.load != TPCB && series.disk_pages.is_none()),
        figure("limit", "Updates over time on a disk with a limit", |series| series.disk_pages.is_some()),
    ]
}

fn panels(series: &[&Series]) -> Vec<Panel> {
    let panel = |label, figure: fn(&Sample) -> f64| Panel {
        x: Axis { label: "seconds", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: series
            .iter()
            .map(|series| Curve {
                label: series.label(),
                points: series.samples.iter().map(|sample| (sample.seconds, figure(sample))).collect(),
            })
            .collect(),
        stated: Vec::new(),
    };
    vec![
        panel("transactions/s", |sample| sample.tps),
        panel("bytes written a byte changed", |sample| sample.write_amplification.unwrap_or(f64::NAN)),
        panel("cleaner's share of writes, %", |sample| sample.cleaner_share * 100.0),
        panel("empty segments", |sample| sample.segments_empty as f64),
        panel("file, MiB", |sample| (sample.file_pages * PAGE_BYTES) as f64 / f64::from(1 << 20)),
        panel("file / live pages", Sample::file_ratio),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_reports_space_and_throughput_over_time() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let series = json["data"]["series"].as_array().unwrap();
        let runs: Vec<_> = series
            .iter()
            .map(|series| {
                let load = series["load"].as_str().unwrap();
                (load, series["disk_percent"].as_u64(), series["cleaner"].as_bool().unwrap())
            })
            .collect();
        let loads = [
            (TPCB, None),
            ("uniform updates", None),
            ("skewed updates", None),
            ("uniform updates", Some(80)),
            ("skewed updates", Some(80)),
        ];
        let expected: Vec<_> =
            loads.iter().flat_map(|&(load, disk)| [(load, disk, true), (load, disk, false)]).collect();
        assert_eq!(runs, expected);
        for series in series {
            let samples = series["samples"].as_array().unwrap();
            assert!(!samples.is_empty(), "{series}");
            let mut before = 0.0;
            for sample in samples {
                let number = |field: &str| sample[field].as_f64().unwrap();
                assert!(number("seconds") > before && number("tps") >= 0.0, "{sample}");
                assert!(number("used_pages") <= number("file_pages"), "{sample}");
                assert!(number("segments_empty") <= number("segments"), "{sample}");
                assert!(number("moved_pages") <= number("pages_written"), "{sample}");
                assert!((0.0..=1.0).contains(&number("cleaner_share")), "{sample}");
                if series["cleaner"] == false {
                    assert_eq!((number("moved_pages"), number("cleaner_share")), (0.0, 0.0), "{sample}");
                }
                if let Some(disk_pages) = series["disk_pages"].as_f64() {
                    assert!(number("file_pages") <= disk_pages, "{sample}");
                    assert!(number("used_pages") >= disk_pages * 0.79, "{sample}");
                }
                before = number("seconds");
            }
        }
        let claims = json["claims"].as_array().unwrap();
        assert_eq!(claims.len(), 2);
        assert_eq!(claims[1]["verdict"], "holds", "{}", claims[1]);
        assert!(report.to_string().contains("1.5 times the live pages"));
        let dir = tempfile::tempdir().unwrap();
        let files = report.write_to(dir.path()).unwrap();
        assert_eq!(files, ["result.json", "report.txt", "throughput.svg", "space.svg", "limit.svg"]);
    }

    #[test]
    fn skewed_keys_are_skewed_and_all_keys_are_chosen() {
        let mut rng = Rng::from_seed(1);
        for (keys, hot_share) in [(Keys::Uniform, 0.05..0.15), (Keys::Skewed, 0.87..0.93)] {
            let chosen: Vec<u64> = (0..10_000).map(|_| keys.choose(100, &mut rng)).collect();
            let hot = chosen.iter().filter(|key| **key < 10).count() as f64 / chosen.len() as f64;
            assert!(hot_share.contains(&hot), "{keys:?}: {hot}");
            assert!((0..100).all(|key| chosen.contains(&key)) && chosen.iter().all(|key| *key < 100));
            assert_eq!(keys.choose(1, &mut rng), 0);
        }
    }

    fn series(load: &'static str, cleaner: bool, disk_pages: Option<u64>, samples: Vec<Sample>) -> Series {
        Series { load, cleaner, fill_max: 0.8, disk_pages, disk_percent: disk_pages.map(|_| 80), samples }
    }

    #[test]
    fn the_file_of_a_load_with_the_cleaner_and_without_a_limit_decides() {
        let sample = |file_pages| Sample { file_pages, used_pages: 10_000, ..Sample::default() };
        let run = |cleaner, disk_pages, file_pages| {
            series("updates", cleaner, disk_pages, vec![sample(10_000), sample(file_pages)])
        };
        let others = [run(false, None, 99_999), run(true, Some(99_999), 99_999)];
        let verdict =
            |file_pages| claim_of_space(&[&others[..], &[run(true, None, file_pages)]].concat()).verdict;
        assert_eq!((verdict(31_384), verdict(31_385)), (Verdict::Holds, Verdict::DoesNotHold));
        assert_eq!(claim_of_space(&others).verdict, Verdict::NotComparable);
    }

    #[test]
    fn throughput_is_compared_with_that_of_the_beginning_and_that_without_the_cleaner() {
        // The first sample of each does not count.
        let tpcb = |cleaner, moved_pages, tps: [f64; 3]| {
            let sample = |tps| Sample { tps, moved_pages, ..Sample::default() };
            series(TPCB, cleaner, None, [1.0].into_iter().chain(tps).map(sample).collect())
        };
        let verdict = |with, without, moved_pages| {
            claim_of_speed(&[tpcb(true, moved_pages, with), tpcb(false, 0, without)]).verdict
        };
        use Verdict::{DoesNotHold, Holds, NotComparable};
        let steady = [100.0, 100.0, 100.0];
        assert_eq!(verdict([100.0, 90.0, 81.0], steady, 1), Holds);
        assert_eq!(verdict([100.0, 90.0, 79.0], [90.0, 90.0, 90.0], 1), DoesNotHold, "less than at first");
        assert_eq!(verdict([79.0, 90.0, 79.0], steady, 1), DoesNotHold, "less than without");
        assert_eq!(verdict([100.0, 20.0, 100.0], steady, 1), DoesNotHold, "less in between");
        assert_eq!(verdict(steady, steady, 0), NotComparable, "nothing was moved");
        assert_eq!(claim_of_speed(&[tpcb(true, 1, steady)]).verdict, NotComparable);
        let claim =
            claim_of_speed(&[tpcb(true, 1, [100.0, 90.0, 80.0]), tpcb(false, 0, [100.0, 90.0, 160.0])]);
        assert!(claim.measured.contains("with / without it 0.50 in the last third (80 / 160"), "{claim:?}");
        assert!(claim.measured.contains("last / first third 0.80 with it, 1.60 without"), "{claim:?}");
    }
}

//! `shadow/cleaning`: what space does over time (the paper's Figure 6, and what the space of an update-only load comes
//! to).
//!
//! Two parts, each sampled at intervals:
//!
//! - TPC-B on a fresh database: throughput over time;
//! - an update-only load on a disk without a limit, and on one of which the live pages fill a given share: the file, the
//!   live pages, throughput and what is written for each byte changed. Rows are loaded in the order of their keys, then
//!   replaced by rows of the same size; keys are uniform, or skewed (nine of ten updates go to one of ten keys).

use std::time::Duration;

use gnomon::{
    Activity, Database,
    disk::{Disk, FileDisk},
    env::{Clock, Rng, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};
use serde::Serialize;

use super::limited::LimitedDisk;
use crate::{
    drive::{Client, Load, drive},
    experiment::{
        Claim, Experiment, Lab, Outcome, ResultTable, Setting, Values, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
    },
    store::{GnomonStore, Operations, Result, Row, Store, StoreError, Table, Visitor},
    tpcb::{self, Scale as Bank},
};

const STATED: [&str; 2] = [
    "performance degrades slightly when the cleanup thread starts",
    "(this project) the file is at most 1.5 times the live pages, plus 16 MiB",
];
/// A throughput that is less than that of the beginning by more than this share is not "slightly" less.
const SLIGHTLY: f64 = 0.2;
const FILE_RATIO_MAX: f64 = 1.5;
const FILE_CONSTANT_PAGES: f64 = 4096.0;
const PAGE_BYTES: u64 = 4096;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shadow/cleaning",
    source: "Shadow Paging Is Feasible (Ylönen 1995), sections 2.1 and 5, Figure 6",
    measures: "throughput and space over time: TPC-B, and updates on a disk with and without a limit",
    stated: &STATED,
    settings: &[
        Setting { name: "seconds", help: "of each run", full: "60", quick: "0.2" },
        Setting { name: "interval", help: "seconds between samples", full: "1", quick: "0.05" },
        Setting { name: "clients", help: "that run transactions at once", full: "8", quick: "2" },
        Setting { name: "branches", help: "of TPC-B's bank", full: "64", quick: "2" },
        Setting { name: "accounts", help: "of each branch", full: "10000", quick: "100" },
        Setting {
            name: "live-mib",
            help: "pages that the updated rows fill, in MiB",
            full: "128",
            quick: "32",
        },
        Setting {
            name: "fill",
            help: "live pages' share of the disk for the updates, in %; 0 is a disk without a limit",
            full: "0,80",
            quick: "0,80",
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
    ],
    run,
};

/// A run: what it did over time.
#[derive(Clone, Debug, Serialize)]
struct Series {
    load: String,
    /// The disk's size in pages, if it has a limit.
    disk_pages: Option<u64>,
    samples: Vec<Sample>,
}

/// What a run did in an interval, and how things stood at its end.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    /// When the interval ended, from the run's beginning.
    seconds: f64,
    tps: f64,
    file_pages: u64,
    used_pages: u64,
    pages_written: u64,
    /// Bytes written for each byte changed.
    write_amplification: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Uniform,
    Skewed,
}

impl Keys {
    fn name(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform",
            Keys::Skewed => "skewed",
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

fn run(settings: &Values, lab: &mut Lab) -> Result<Outcome> {
    let seconds = settings.number("seconds", 0.01, 86_400.0)?;
    let runs = Runs {
        load: Load {
            clients: settings.number("clients", 1, 1024)?,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs_f64(seconds),
            seed: lab.seed,
            cancel: lab.cancel.clone(),
        },
        interval: Duration::from_secs_f64(settings.number("interval", 0.01, 3_600.0)?),
        pool_bytes: settings.number::<usize>("pool-mib", 1, 1 << 20)? << 20,
    };
    let bank = Bank {
        branches: settings.number("branches", 1, 100_000)?,
        accounts_per_branch: settings.number("accounts", 1, 100_000_000)?,
    };
    let live_pages = (settings.number::<u64>("live-mib", 1, 1 << 20)? << 20) / PAGE_BYTES;
    let value_bytes = settings.number("value-bytes", 1, 1 << 20)?;
    let updates = settings.number("updates", 1, 1000)?;
    let fills = settings.list::<u64>("fill", 0, 95)?;
    let keys = settings.words("keys", &[Keys::Uniform, Keys::Skewed].map(|keys| (keys.name(), keys)))?;

    let total = 1 + (fills.len() * keys.len()) as u64;
    let mut series = vec![run_tpcb(&runs, &bank, lab)?];
    for &fill in &fills {
        for &keys in &keys {
            lab.progress.set(series.len() as u64, total);
            let disk_pages = (fill > 0).then(|| live_pages * 100 / fill);
            let update = Update { live_pages, disk_pages, value_bytes, updates, keys };
            let load = match fill {
                0 => format!("{} updates", keys.name()),
                _ => format!("{} updates, {fill} % fill", keys.name()),
            };
            let samples = run_updates(&runs, &update, lab)?;
            series.push(Series { load, disk_pages, samples });
        }
    }
    lab.progress.set(total, total);
    Ok(outcome(&series, seconds))
}

fn run_tpcb(runs: &Runs, bank: &Bank, lab: &mut Lab) -> Result<Series> {
    let path = lab.new_path();
    let store = GnomonStore::create(&path, tpcb::TABLES, runs.pool_bytes)?;
    tpcb::load(&store, bank, &mut lab.progress, &lab.cancel)?;
    let counted = Counted { store: &store, committed: AtomicU64::new(0) };
    let (measured, samples) = sampled(store.database(), &counted.committed, runs.interval, || {
        tpcb::run(&counted, bank, &runs.load, 0)
    })?;
    let invariant = tpcb::check(&store, bank, measured.committed_in_all)?;
    store.close()?;
    lab.remove(&path)?;
    if !invariant.holds {
        return Err(StoreError::unexpected(format!("the invariant is broken: {}", invariant.detail)));
    }
    Ok(Series { load: "TPC-B".into(), disk_pages: None, samples })
}

/// An update-only load.
#[derive(Clone, Copy)]
struct Update {
    live_pages: u64,
    disk_pages: Option<u64>,
    value_bytes: usize,
    updates: usize,
    keys: Keys,
}

fn run_updates(runs: &Runs, update: &Update, lab: &mut Lab) -> Result<Vec<Sample>> {
    let path = lab.new_path();
    let mut disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&path, true)?);
    if let Some(pages) = update.disk_pages {
        disk = Arc::new(LimitedDisk { disk, bytes_max: pages * PAGE_BYTES });
    }
    let store = GnomonStore::create_on(disk, 1, runs.pool_bytes)?;
    let rows = fill(&store, update, lab)?;
    let counted = Counted { store: &store, committed: AtomicU64::new(0) };
    let (_, samples) = sampled(store.database(), &counted.committed, runs.interval, || {
        drive(&runs.load, |_| Updater {
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
    lab.remove(&path)?;
    if found != rows {
        return Err(StoreError::unexpected(format!("{found} rows are whole, not {rows}")));
    }
    Ok(samples)
}

/// Loads rows until so many pages are in use. Returns how many rows.
fn fill(store: &GnomonStore, update: &Update, lab: &mut Lab) -> Result<u64> {
    const CHUNK_BYTES: usize = 256 << 10;
    let chunk = (CHUNK_BYTES / update.value_bytes).max(1) as u64;
    let mut rows = 0;
    loop {
        lab.check_canceled()?;
        let used = store.database().stats().used_pages;
        lab.progress.set(used.min(update.live_pages), update.live_pages);
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

    fn attempt(&mut self) -> Result<()> {
        let value = vec![self.value; self.update.value_bytes];
        self.store.run(&mut |operations| {
            self.chosen.iter().try_for_each(|key| operations.put(0, &key.to_be_bytes(), &value))
        })
    }
}

/// A store whose commits are counted while it runs.
struct Counted<'a> {
    store: &'a GnomonStore,
    committed: AtomicU64,
}

impl Store for Counted<'_> {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        self.store.load(table, rows)
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<()> {
        self.store.run(body)?;
        self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        self.store.visit(table, visit)
    }
}

/// Does the work, and looks at the database at intervals meanwhile.
fn sampled<T>(
    database: &Database,
    committed: &AtomicU64,
    interval: Duration,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Sample>)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(database, committed, interval, &done));
        let result = work();
        done.store(true, Ordering::Release);
        let samples = sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((result?, samples))
    })
}

fn sample(database: &Database, committed: &AtomicU64, interval: Duration, done: &AtomicBool) -> Vec<Sample> {
    const STEP: Duration = Duration::from_millis(20);
    let clock = SystemClock::new();
    let (mut samples, mut last) = (Vec::new(), Duration::ZERO);
    let mut before: (u64, Activity) = (committed.load(Ordering::Relaxed), database.stats().activity);
    while !done.load(Ordering::Acquire) {
        let due = last + interval;
        let now = clock.now();
        if now < due {
            thread::sleep((due - now).min(STEP));
            continue;
        }
        let stats = database.stats();
        let after = (committed.load(Ordering::Relaxed), stats.activity);
        let written = after.1.since(&before.1);
        samples.push(Sample {
            seconds: now.as_secs_f64(),
            tps: (after.0 - before.0) as f64 / (now - last).as_secs_f64(),
            file_pages: stats.file_pages,
            used_pages: stats.used_pages,
            pages_written: written.pages_written(),
            write_amplification: written.write_amplification(),
        });
        (before, last) = (after, now);
    }
    samples
}

/// The mean of a figure over the first or the last third of the samples, the first sample aside.
fn mean(samples: &[Sample], last: bool, figure: impl Fn(&Sample) -> f64) -> f64 {
    let samples = samples.get(1..).unwrap_or_default();
    let third = samples.len().div_ceil(3);
    let samples = if last { &samples[samples.len() - third..] } else { &samples[..third] };
    samples.iter().map(figure).sum::<f64>() / samples.len().max(1) as f64
}

fn outcome(series: &[Series], seconds: f64) -> Outcome {
    Outcome {
        claims: claims(series),
        differences: vec![
            "there is no cleaner yet: freed pages are used again in runs of 16 or more, shorter ones when there is \
             nothing else"
                .into(),
            format!("{seconds} s a run, in which a steady state may or may not be reached: see the plots"),
            "the update-only loads are this project's own; the paper shows TPC-B only".into(),
            "one file, one copy of each page, no mirror".into(),
        ],
        data: serde_json::json!({ "series": series }),
        tables: vec![table(series)],
        figures: figures(series),
    }
}

fn claims(series: &[Series]) -> Vec<Claim> {
    let tpcb = series.first().map(|series| series.samples.as_slice()).unwrap_or_default();
    let (first, last) = (mean(tpcb, false, |s| s.tps), mean(tpcb, true, |s| s.tps));
    // On a disk with a limit the limit decides.
    let worst = series
        .iter()
        .filter(|series| series.disk_pages.is_none() && series.load != "TPC-B")
        .flat_map(|series| &series.samples)
        .max_by(|a, b| excess(a).total_cmp(&excess(b)));
    vec![
        Claim {
            figure: "throughput of TPC-B over time",
            stated: STATED[0],
            measured: format!(
                "{first:.0} transactions/s in the first third, {last:.0} in the last ({:+.1} %), without a cleaner; \
                 more than {:.0} % less would not be slight",
                (last / first.max(1e-9) - 1.0) * 100.0,
                SLIGHTLY * 100.0
            ),
            verdict: Verdict::NotComparable,
        },
        Claim {
            figure: "file of an update-only load",
            stated: STATED[1],
            measured: worst.map_or_else(
                || "no run on a disk without a limit".into(),
                |sample| {
                    format!(
                        "{} pages for {} live ones at most: {:.2} times",
                        sample.file_pages,
                        sample.used_pages,
                        sample.file_pages as f64 / sample.used_pages.max(1) as f64
                    )
                },
            ),
            verdict: worst.map_or(Verdict::NotComparable, |sample| Verdict::of(excess(sample) <= 0.0)),
        },
    ]
}

/// Pages of the file beyond what is stated.
fn excess(sample: &Sample) -> f64 {
    sample.file_pages as f64 - FILE_RATIO_MAX * sample.used_pages as f64 - FILE_CONSTANT_PAGES
}

fn table(series: &[Series]) -> ResultTable {
    let row = |series: &Series| {
        let samples = &series.samples;
        let amplification = |last| mean(samples, last, |s| s.write_amplification.unwrap_or(0.0));
        let end = samples.last();
        vec![
            series.load.clone(),
            format!("{:.0}", mean(samples, false, |s| s.tps)),
            format!("{:.0}", mean(samples, true, |s| s.tps)),
            format!("{:.1}", amplification(false)),
            format!("{:.1}", amplification(true)),
            end.map_or_else(String::new, |s| s.file_pages.to_string()),
            end.map_or_else(String::new, |s| s.used_pages.to_string()),
            series.disk_pages.map_or_else(|| "no limit".into(), |pages| pages.to_string()),
        ]
    };
    ResultTable {
        title: "First and last third of each run; pages at its end".into(),
        headings: vec![
            "load",
            "tps first",
            "last",
            "write amplification first",
            "last",
            "file pages",
            "live pages",
            "disk pages",
        ],
        rows: series.iter().map(row).collect(),
    }
}

fn figures(series: &[Series]) -> Vec<Figure> {
    let panel = |label, series: &[Series], figure: fn(&Sample) -> f64| Panel {
        x: Axis { label: "seconds", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: series
            .iter()
            .map(|series| Curve {
                label: series.load.clone(),
                points: series.samples.iter().map(|sample| (sample.seconds, figure(sample))).collect(),
            })
            .collect(),
    };
    let (tpcb, updates) = series.split_at(series.len().min(1));
    let mib = |pages: u64| (pages * PAGE_BYTES) as f64 / f64::from(1 << 20);
    let mut space = panel("file, MiB", updates, |_| 0.0);
    for (curve, series) in space.curves.iter_mut().zip(updates) {
        curve.points = series.samples.iter().map(|sample| (sample.seconds, mib(sample.file_pages))).collect();
    }
    let amplification = |sample: &Sample| sample.write_amplification.unwrap_or(f64::NAN);
    vec![
        Figure {
            name: "throughput".into(),
            title: "TPC-B over time (the paper's Figure 6)".into(),
            panels: vec![
                panel("transactions/s", tpcb, |sample| sample.tps),
                panel("bytes written a byte changed", tpcb, amplification),
            ],
        },
        Figure {
            name: "space".into(),
            title: "Updates over time".into(),
            panels: vec![
                space,
                panel("file / live pages", updates, |sample| {
                    sample.file_pages as f64 / sample.used_pages.max(1) as f64
                }),
                panel("transactions/s", updates, |sample| sample.tps),
                panel("bytes written a byte changed", updates, amplification),
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{Request, run},
        progress::Progress,
    };

    #[test]
    fn a_quick_run_reports_space_and_throughput_over_time() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let series = json["data"]["series"].as_array().unwrap();
        let loads: Vec<_> = series.iter().map(|series| series["load"].as_str().unwrap()).collect();
        let updates =
            ["uniform updates", "skewed updates", "uniform updates, 80 % fill", "skewed updates, 80 % fill"];
        assert_eq!((loads[0], &loads[1..]), ("TPC-B", &updates[..]));
        for series in series {
            let samples = series["samples"].as_array().unwrap();
            assert!(!samples.is_empty(), "{series}");
            let mut before = 0.0;
            for sample in samples {
                let number = |field: &str| sample[field].as_f64().unwrap();
                assert!(number("seconds") > before && number("tps") >= 0.0, "{sample}");
                assert!(number("used_pages") <= number("file_pages"), "{sample}");
                if let Some(disk_pages) = series["disk_pages"].as_f64() {
                    assert!(number("file_pages") <= disk_pages, "{sample}");
                    assert!(number("used_pages") >= disk_pages * 0.79, "{sample}");
                }
                before = number("seconds");
            }
        }
        assert_eq!(json["claims"].as_array().unwrap().len(), 2);
        assert!(report.to_string().contains("1.5 times the live pages"));
        let dir = tempfile::tempdir().unwrap();
        let files = report.write_to(dir.path()).unwrap();
        assert_eq!(files, ["result.json", "report.txt", "throughput.svg", "space.svg"]);
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

    #[test]
    fn the_file_of_a_load_without_a_limit_decides() {
        let sample = |file_pages| Sample {
            seconds: 1.0,
            tps: 1.0,
            file_pages,
            used_pages: 10_000,
            pages_written: 1,
            write_amplification: None,
        };
        let series = |load: &str, disk_pages, file_pages| Series {
            load: load.into(),
            disk_pages,
            samples: vec![sample(10_000), sample(file_pages)],
        };
        let verdict = |file_pages| {
            let others = [series("TPC-B", None, 99_999), series("updates", Some(99_999), 99_999)];
            claims(&[&others[..], &[series("updates", None, file_pages)]].concat())[1].verdict
        };
        assert_eq!((verdict(19_096), verdict(19_097)), (Verdict::Holds, Verdict::DoesNotHold));
    }
}

//! `shadow/snapshot`: what long readers cost beside writers (the paper's section 1: "decision support applications with
//! large read-only transactions mixed with small updates"; the mechanism is this engine's: old versions in memory for
//! transactions, pinned states for backups).
//!
//! One run of TPC-B in five parts of the same length: nobody reads; a transaction reads all of the bank at one
//! snapshot, again and again; nobody; a backup is written, slowly enough to last all of the part; nobody. A second run
//! has so little memory for old versions that the reader is ended.

use std::{io::Write, time::Duration};

use gnomon_bench::{
    drive::Load,
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::percent,
    },
    store::{GnomonStore, Result, StoreError, number_of, tree},
    workload::{
        Workload,
        tpcb::{self, Tpcb as Bank},
    },
    workspace::Workspace,
};
use gnomon_engine::{
    Database, Direction, Error, Isolation, KeyRange, Options, Recovery, TxnOptions,
    disk::FileDisk,
    env::{Clock, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use serde::Serialize;

use super::sampling::{Counted, Sample, sampled};
use crate::experiment::{Experiment, Setting, Values};

const STATED: [&str; 4] = [
    "snapshots serve large read-only transactions beside small updates, without locking",
    "(this project) a snapshot stays as it is, however long it is read",
    "(this project) what is kept for a reader is bounded by what is live, and goes with him",
    "(this project) a limit of the memory for old versions ends readers that are too old",
];
/// Writers that keep less of their throughput than this beside a reader are held up by more than the processor time
/// that he takes from them, with two processors.
const THROUGHPUT_MIN: f64 = 0.5;
const PAGE_BYTES: u64 = 4096;
/// What the file may have beyond half as much again as the live pages (64 MiB).
const FILE_CONSTANT_PAGES: f64 = 16384.0;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shadow/snapshot",
    source: "Shadow Paging Is Feasible (Ylönen 1995), sections 1 and 2.3",
    measures: "TPC-B beside a long reader and a slow backup: throughput, old versions, pages held, the file's length, over time",
    stated: &STATED,
    settings: &[&[
        Setting { name: "seconds", help: "of each of five parts", full: "20", quick: "0.4" },
        Setting { name: "interval", help: "seconds between samples", full: "1", quick: "0.05" },
        Setting { name: "clients", help: "that run transactions at once", full: "8", quick: "2" },
        Setting { name: "branches", help: "of the bank", full: "64", quick: "2" },
        Setting { name: "accounts", help: "of each branch", full: "10000", quick: "100" },
        Setting {
            name: "limit-kib",
            help: "memory for old versions in the second run, in KiB",
            full: "1024",
            quick: "4",
        },
        Setting { name: "pool-mib", help: "the buffer pool, in MiB", full: "30", quick: "4" },
    ]],
    terms: &[],
    run,
};

/// Who reads in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reader {
    Nobody,
    Transaction,
    Backup,
}

const PARTS: [Reader; 5] =
    [Reader::Nobody, Reader::Transaction, Reader::Nobody, Reader::Backup, Reader::Nobody];

/// What a reader saw.
#[derive(Clone, Debug, Default, Serialize)]
struct Seen {
    /// How often the transaction read everything.
    reads: u64,
    /// Whether it saw the same each time, with sums that agree.
    same: bool,
    /// Whether it was ended for being too old.
    too_old: bool,
    backup_pages: u64,
}

/// What a run did.
#[derive(Clone, Debug, Serialize)]
struct Run {
    part_seconds: f64,
    samples: Vec<Sample>,
    seen: Seen,
}

impl Run {
    /// The samples of a part, without the first, which may belong to the part before.
    fn part(&self, number: usize) -> &[Sample] {
        let of = |sample: &Sample| (sample.seconds / self.part_seconds) as usize;
        let first = self.samples.partition_point(|sample| of(sample) < number);
        let end = self.samples.partition_point(|sample| of(sample) <= number);
        self.samples[first..end].get(1..).unwrap_or_default()
    }

    fn tps(&self, number: usize) -> f64 {
        let part = self.part(number);
        part.iter().map(|sample| sample.tps).sum::<f64>() / part.len() as f64
    }

    fn most(&self, number: usize, figure: fn(&Sample) -> u64) -> u64 {
        self.part(number).iter().map(figure).max().unwrap_or_default()
    }

    fn last(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let part = Duration::from_secs_f64(settings.number("seconds", 0.01, 86_400.0)?);
    let interval = Duration::from_secs_f64(settings.number("interval", 0.01, 3_600.0)?);
    let load = Load {
        clients: settings.number("clients", 1, 1024)?,
        warm_up: Duration::ZERO,
        measured: part * PARTS.len() as u32,
        seed: workspace.seed,
        cancel: workspace.cancel.clone(),
    };
    let bank =
        Bank::new(settings.number("branches", 1, 100_000)?, settings.number("accounts", 1, 100_000_000)?);
    let pool_bytes = settings.number::<usize>("pool-mib", 1, 1 << 20)? << 20;
    let limit = settings.number::<usize>("limit-kib", 1, 1 << 30)? << 10;
    let options = Options { pool_bytes, recovery: Some(Recovery::Shadow), ..Options::default() };
    let whole = measure(&load, part, interval, &bank, options.clone(), workspace)?;
    workspace.progress.set(1, 2);
    let limited = Options { version_bytes_max: limit, ..options };
    let limited = measure(&load, part, interval, &bank, limited, workspace)?;
    workspace.progress.set(2, 2);
    Ok(outcome(&whole, &limited, limit))
}

fn measure(
    load: &Load,
    part: Duration,
    interval: Duration,
    bank: &Bank,
    options: Options,
    workspace: &mut Workspace,
) -> Result<Run> {
    let path = workspace.new_path();
    let store = GnomonStore::create_on(Arc::new(FileDisk::open(&path, true)?), tpcb::TABLES, options)?;
    bank.load(&store, &mut workspace.progress, &workspace.cancel)?;
    let counted = Counted::new(&store);
    let ended = AtomicBool::new(false);
    let (result, seen) = thread::scope(|scope| {
        let reader = scope.spawn(|| read(store.database(), part, interval, &ended));
        let result = sampled(&counted, interval, || bank.run(&counted, load, 1));
        ended.store(true, Ordering::Release);
        (result, reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let ((measured, samples), seen) = (result?, seen?);
    let invariant = bank.check(&store, measured.committed_in_all)?;
    store.close()?;
    workspace.remove(&path)?;
    if !invariant.holds {
        return Err(StoreError::unexpected(format!("the invariant is broken: {}", invariant.detail)));
    }
    Ok(Run { part_seconds: part.as_secs_f64(), samples, seen })
}

/// Reads as the parts say, until they are over or the run has ended.
fn read(database: &Database, part: Duration, interval: Duration, ended: &AtomicBool) -> Result<Seen> {
    let clock = SystemClock::new();
    let until = |end: Duration| {
        while clock.now() < end && !ended.load(Ordering::Acquire) {
            thread::sleep((end - clock.now()).min(Duration::from_millis(20)));
        }
    };
    let mut seen = Seen { same: true, ..Seen::default() };
    for (number, reader) in PARTS.into_iter().enumerate() {
        let end = part * (number as u32 + 1);
        match reader {
            Reader::Nobody => until(end),
            Reader::Transaction => {
                let options =
                    TxnOptions { isolation: Isolation::Snapshot, read_only: true, ..TxnOptions::default() };
                let mut txn = database.begin(options)?;
                let mut first = None;
                while clock.now() < end && !ended.load(Ordering::Acquire) {
                    match sums(&mut txn) {
                        Ok(sums) => {
                            seen.reads += 1;
                            seen.same &= sums.iter().all(|(_, sum)| *sum == sums[0].1);
                            seen.same &= *first.get_or_insert(sums) == sums;
                        }
                        Err(Error::SnapshotTooOld) => {
                            seen.too_old = true;
                            break;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    until((clock.now() + interval).min(end));
                }
                drop(txn);
                until(end);
            }
            Reader::Backup => {
                let used = database.stats().used_pages.max(1);
                let mut sink = Paced { clock: &clock, end, left: used * PAGE_BYTES, ended };
                let backup = database.backup(None, &mut sink, &mut |_, _| ())?;
                seen.backup_pages = backup.pages;
                until(end);
            }
        }
    }
    Ok(seen)
}

/// Rows and sum of each table, at the transaction's snapshot.
fn sums(txn: &mut gnomon_engine::Transaction) -> Result<[(u64, i128); tpcb::TABLES], Error> {
    let mut sums = [(0, 0); tpcb::TABLES];
    for (table, (rows, sum)) in sums.iter_mut().enumerate() {
        let mut cursor = txn.scan(tree(table), KeyRange::all(), Direction::Forward)?;
        while let Some((_, value)) = cursor.next(txn)? {
            *rows += 1;
            // A row without a balance leaves the sums unequal.
            *sum += i128::from(number_of(&value).unwrap_or(i64::MAX));
        }
    }
    Ok(sums)
}

/// Takes bytes so slowly that they last until a given time.
struct Paced<'a> {
    clock: &'a SystemClock,
    end: Duration,
    /// Bytes to come, about.
    left: u64,
    ended: &'a AtomicBool,
}

impl Write for Paced<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let share = bytes.len() as f64 / self.left.max(bytes.len() as u64) as f64;
        let rest = self.end.saturating_sub(self.clock.now());
        if !self.ended.load(Ordering::Acquire) {
            thread::sleep(rest.mul_f64(share));
        }
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn outcome(whole: &Run, limited: &Run, limit: usize) -> Outcome {
    Outcome {
        claims: claims(whole, limited, limit),
        differences: vec![
            "the paper shows no figures of snapshots".into(),
            "a transaction reads the newest pages and old versions of what has changed since, which are in memory; the \
             paper's reads old pages, as a backup does here"
                .into(),
            "one file, one copy of each page, no mirror".into(),
        ],
        data: serde_json::json!({ "parts": PARTS, "whole": whole, "limited": limited, "limit_bytes": limit }),
        tables: vec![table(whole)],
        figures: vec![figure(whole)],
    }
}

fn claims(whole: &Run, limited: &Run, limit: usize) -> Vec<Claim> {
    let beside = |part: usize| whole.tps(part) / whole.tps(0);
    let (reader, backup) = (beside(1), beside(3));
    let last = whole.last();
    let versions = whole.most(1, |sample| sample.version_bytes as u64);
    let held = whole.most(3, |sample| sample.held_pages);
    let allowed = 1.5 * last.used_pages as f64 + FILE_CONSTANT_PAGES;
    // What statements under way need is there always.
    let usual = whole.most(0, |sample| sample.version_bytes as u64);
    let falls_back =
        last.version_bytes as u64 <= 2 * usual && last.held_pages == 0 && last.file_pages as f64 <= allowed;
    vec![
        Claim {
            figure: "writers beside readers",
            stated: STATED[0],
            measured: format!(
                "{:.0} transactions/s alone; {reader:.2} of that beside the transaction, {backup:.2} beside the backup (at \
                 least {THROUGHPUT_MIN})",
                whole.tps(0)
            ),
            verdict: if reader.is_finite() && backup.is_finite() {
                Verdict::of(reader.min(backup) >= THROUGHPUT_MIN)
            } else {
                Verdict::NotComparable
            },
        },
        Claim {
            figure: "what the transaction saw",
            stated: STATED[1],
            measured: format!(
                "it read everything {} times: {}",
                whole.seen.reads,
                if whole.seen.same { "the same, and all sums agree" } else { "not always the same" }
            ),
            verdict: if whole.seen.reads > 1 {
                Verdict::of(whole.seen.same && limited.seen.same)
            } else {
                Verdict::NotComparable
            },
        },
        Claim {
            figure: "what is kept",
            stated: STATED[2],
            measured: format!(
                "{versions} bytes of old versions for the transaction and {held} pages for the backup at most; at the end \
                 {} and {}, and a file of {} pages for {} live ones",
                last.version_bytes, last.held_pages, last.file_pages, last.used_pages
            ),
            verdict: Verdict::of(falls_back && held <= whole.most(3, |sample| sample.used_pages)),
        },
        Claim {
            figure: "readers that are too old",
            stated: STATED[3],
            measured: format!(
                "with {limit} bytes the reader was {}; at most {} bytes were kept",
                if limited.seen.too_old { "ended" } else { "not ended" },
                limited.most(1, |sample| sample.version_bytes as u64)
            ),
            verdict: if versions > limit as u64 {
                Verdict::of(limited.seen.too_old)
            } else {
                Verdict::NotComparable
            },
        },
    ]
}

fn table(run: &Run) -> ResultTable {
    let row = |(number, reader): (usize, Reader)| {
        let name = match reader {
            Reader::Nobody => "nobody",
            Reader::Transaction => "a transaction",
            Reader::Backup => "a backup",
        };
        vec![
            name.to_owned(),
            format!("{:.0}", run.tps(number)),
            percent(run.tps(number) / run.tps(0), 0),
            run.most(number, |sample| sample.version_bytes as u64).to_string(),
            run.most(number, |sample| sample.held_pages).to_string(),
            run.most(number, |sample| sample.file_pages).to_string(),
            run.most(number, |sample| sample.used_pages).to_string(),
        ]
    };
    ResultTable {
        title: "Each part: mean throughput, and the most of the rest".into(),
        headings: vec![
            "who reads",
            "tps",
            "of the first",
            "version bytes",
            "pages held",
            "file pages",
            "live pages",
        ],
        rows: PARTS.into_iter().enumerate().map(row).collect(),
    }
}

fn figure(run: &Run) -> Figure {
    const MIB: f64 = (1 << 20) as f64;
    let panel = |label, figure: fn(&Sample) -> f64| Panel {
        x: Axis { label: "seconds", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Linear },
        curves: vec![Curve {
            label: "TPC-B".into(),
            points: run.samples.iter().map(|sample| (sample.seconds, figure(sample))).collect(),
        }],
        stated: Vec::new(),
    };
    Figure {
        name: "snapshot".into(),
        title: "Five equal parts: nobody reads, a transaction, nobody, a backup, nobody".into(),
        panels: vec![
            panel("transactions/s", |sample| sample.tps),
            panel("old versions, MiB", |sample| sample.version_bytes as f64 / MIB),
            panel("pages held, MiB", |sample| (sample.held_pages * PAGE_BYTES) as f64 / MIB),
            panel("file, MiB", |sample| (sample.file_pages * PAGE_BYTES) as f64 / MIB),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_reports_what_readers_cost() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let claims = json["claims"].as_array().unwrap();
        assert_eq!(claims.len(), STATED.len());
        assert_eq!(claims[1]["verdict"], "holds", "{}", claims[1]);
        let whole = &json["data"]["whole"];
        assert!(whole["seen"]["reads"].as_u64().unwrap() > 1 && whole["seen"]["too_old"] == false, "{whole}");
        assert!(whole["seen"]["backup_pages"].as_u64().unwrap() > 0);
        assert!(whole["samples"].as_array().unwrap().len() > 10);
    }

    #[test]
    fn parts_are_told_by_time() {
        let sample = |seconds: f64, tps| Sample { seconds, tps, ..Sample::default() };
        let samples = (1..=20).map(|tenth| sample(f64::from(tenth) * 0.25, f64::from(tenth))).collect();
        let run = Run { part_seconds: 1.0, samples, seen: Seen::default() };
        assert_eq!(run.part(0).len(), 2);
        assert_eq!(run.part(1).iter().map(|sample| sample.tps).collect::<Vec<_>>(), [5.0, 6.0, 7.0]);
        assert_eq!(run.most(1, |sample| sample.tps as u64), 7);
        assert!((run.tps(1) - 6.0).abs() < 1e-9);
    }
}

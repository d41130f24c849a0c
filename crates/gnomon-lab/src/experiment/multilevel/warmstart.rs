//! `multilevel/warmstart`: how long opening a database takes after a crash, by the length of the log, over how many
//! files that is spread, and with a bound.
//!
//! Transactions on disjoint objects, without served time, write the log. The database is copied when they have ended
//! but nothing was closed: that is what a crash leaves. What is measured is opening such a copy, which replays the log.

use std::time::Duration;

use gnomon_bench::{
    drive::Load,
    objects::{Enough, Loaded, Objects, Place, Tally, measure, object_options},
    recovery::TWO_LEVEL_DEFERRED,
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::figure,
    },
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_engine::env::{Clock, SystemClock};
use gnomon_objects::{LogShape, ObjectOptions};
use serde::Serialize;

use super::bench::{OBJECT_SETTINGS, OWN, UPDATES, objects};
use crate::experiment::{Experiment, Setting, Values};

const STATED: [&str; 3] = [
    "(this project) a warmstart takes no longer than in proportion to the log (here: half as much again is allowed)",
    "(this project) the bound of the log bounds the warmstart, however much was written",
    "partitioned logs allow a parallel warmstart (named and not built there)",
];
const LENGTHS: Setting = Setting {
    name: "log-mib",
    help: "lengths of the log, in ascending order, in MiB",
    full: "16,32,64,128",
    quick: "1,2",
};
const FILES: Setting =
    Setting { name: "files", help: "of the log of pages, up to 16", full: "1,2,4", quick: "1,2" };
const BOUND: Setting =
    Setting { name: "bound-mib", help: "of the log in one more run, in MiB", full: "32", quick: "1" };
const RUNS: Setting =
    Setting { name: "runs", help: "of each warmstart, of which the median counts", full: "3", quick: "1" };
const CLIENTS: Setting = Setting { name: "clients", help: "that write the log", full: "4", quick: "2" };
const SEGMENT: Setting =
    Setting { name: "segment-pages", help: "of a segment of the log, 4 KiB each", full: "256", quick: "16" };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/warmstart",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), sections 2 and 4",
    measures: "how long a warmstart takes by the length of the log, for one and several files of it, and with a bound",
    stated: &STATED,
    settings: &[&[LENGTHS, FILES, BOUND, RUNS, CLIENTS, SEGMENT, OWN], OBJECT_SETTINGS],
    terms: &[],
    run,
};

/// Transactions run for so long before the log is looked at again.
const SLICE: Duration = Duration::from_millis(50);
const MIB: f64 = 1024.0 * 1024.0;

/// The warmstarts of one database as it grows.
#[derive(Serialize)]
struct Series {
    files: usize,
    /// The bound of the log, if it has one.
    bound_mib: Option<u64>,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Serialize)]
struct Point {
    /// What was written to the log since the database was made.
    written_mib: f64,
    /// How long the log was when the database stopped.
    log_mib: f64,
    warmstart_ms: f64,
}

/// How each series is measured.
struct Plan {
    settings: Objects,
    lengths: Vec<u64>,
    segment_bytes: u64,
    runs: usize,
    clients: usize,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let plan = Plan {
        // Without updates there would be no log.
        settings: Objects {
            updates: settings.number(UPDATES.name, 1, 100)?,
            ..objects(settings, settings.number(OWN.name, 1, 1_000)?, 0)?
        },
        lengths: settings.list(LENGTHS.name, 1, 1 << 20)?,
        segment_bytes: settings.number::<u64>(SEGMENT.name, 1, 1 << 20)? * 4096,
        runs: settings.number(RUNS.name, 1, 100)?,
        clients: settings.number(CLIENTS.name, 1, 1024)?,
    };
    let files: Vec<usize> = settings.list(FILES.name, 1, 16)?;
    let bound: u64 = settings.number(BOUND.name, 1, 1 << 20)?;
    let total = (files.len() + 1) as u64;
    let mut all = Vec::new();
    for (files, bound) in files.iter().map(|files| (*files, None)).chain([(1, Some(bound))]) {
        all.push(plan.measure(files, bound, workspace)?);
        workspace.progress.set(all.len() as u64, total);
    }
    Ok(Outcome {
        claims: claims(&all),
        differences: vec![
            "the log was written a moment before, so it is read from the system's cache: what is measured is the work \
             of a warmstart, not its disk"
                .into(),
            "no transaction is under way at the crash, so nothing is undone".into(),
        ],
        tables: vec![table(&all)],
        figures: vec![plot(&all)],
        data: serde_json::json!({ "series": all }),
    })
}

impl Plan {
    fn measure(&self, files: usize, bound_mib: Option<u64>, workspace: &mut Workspace) -> Result<Series> {
        workspace.check_canceled()?;
        let options = ObjectOptions {
            logs: LogShape {
                redo_files: files,
                segment_bytes: self.segment_bytes,
                ..object_options(&self.settings).logs
            },
            log_bytes_max: bound_mib.map_or(u64::MAX, |mib| mib << 20),
            ..object_options(&self.settings)
        };
        let (path, seed) = (workspace.new_path(), workspace.seed);
        let method = TWO_LEVEL_DEFERRED;
        let loaded = Loaded::make(method, &self.settings, options.clone(), path, seed, &workspace.cancel)?;
        let place = loaded.open(&self.settings, options.clone())?;
        let (mut tally, mut points, mut slices) = (Tally::default(), Vec::new(), 0);
        for length in &self.lengths {
            // With a bound the log does not become so long, so what counts is what was written.
            while written(&place)? < length << 20 {
                slices += 1;
                let load = Load {
                    clients: self.clients,
                    warm_up: Duration::ZERO,
                    measured: SLICE,
                    seed: seed.wrapping_add(slices),
                    cancel: workspace.cancel.clone(),
                };
                tally.merge(measure(&place, &self.settings, &load, Enough::TIME)?.1);
            }
            let log_bytes = place.objects().map_or(0, |database| database.log_bytes());
            let mut times = Vec::new();
            for _ in 0..self.runs {
                times.push(self.warmstart(&loaded, &options, &tally, workspace)?);
            }
            times.sort_unstable();
            let point = Point {
                written_mib: written(&place)? as f64 / MIB,
                log_mib: log_bytes as f64 / MIB,
                warmstart_ms: times[(times.len() - 1) / 2].as_secs_f64() * 1e3,
            };
            workspace.progress.note(&format!(
                "log files: {files}, {} MiB written, {} MiB long: {} ms",
                figure(point.written_mib),
                figure(point.log_mib),
                figure(point.warmstart_ms)
            ));
            points.push(point);
        }
        place.close()?;
        workspace.remove(&loaded.path)?;
        Ok(Series { files, bound_mib, points })
    }

    /// Opens a copy of a database that nobody uses at the moment, and checks what it has.
    fn warmstart(
        &self,
        loaded: &Loaded,
        options: &ObjectOptions,
        tally: &Tally,
        workspace: &mut Workspace,
    ) -> Result<Duration> {
        let copy = loaded.copied_to(workspace.copy(&loaded.path)?);
        let clock = SystemClock::new();
        let place = copy.open(&self.settings, options.clone())?;
        let taken = clock.now();
        tally.check(&place, &self.settings)?;
        place.close()?;
        workspace.remove(&copy.path)?;
        Ok(taken)
    }
}

/// What was written to the log of pages since the database was opened, in bytes.
fn written(place: &Place) -> Result<u64> {
    let database = place.objects().ok_or_else(|| StoreError::unexpected("there is no log"))?;
    Ok(database.activity().store.redo_bytes)
}

fn claims(all: &[Series]) -> Vec<Claim> {
    let unbounded = || all.iter().filter(|series| series.bound_mib.is_none());
    let ends = unbounded().next().and_then(|series| match series.points[..] {
        [first, .., last] => Some((last.log_mib / first.log_mib, last.warmstart_ms / first.warmstart_ms)),
        _ => None,
    });
    let longest = |series: &Series| series.points.last().map(|point| (series.files, point.warmstart_ms));
    let one = unbounded().find(|series| series.files == 1).and_then(longest);
    let parallel = unbounded()
        .filter(|series| series.files > 1)
        .filter_map(longest)
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .zip(one);
    let bounded = all.iter().find_map(|series| {
        let most = series.points.iter().fold(0.0, |most: f64, point| most.max(point.log_mib));
        let slowest = series.points.iter().fold(0.0, |most: f64, point| most.max(point.warmstart_ms));
        series.bound_mib.map(|bound| (bound as f64, most, slowest))
    });
    let verdict = |holds: Option<bool>| holds.map_or(Verdict::NotComparable, Verdict::of);
    vec![
        Claim {
            figure: "growth",
            stated: STATED[0],
            measured: ends.map_or_else(String::new, |(length, time)| {
                format!("{} times the log, {} times the time", figure(length), figure(time))
            }),
            verdict: verdict(ends.map(|(length, time)| time <= 1.5 * length)),
        },
        Claim {
            figure: "bound",
            stated: STATED[1],
            measured: bounded.map_or_else(String::new, |(bound, most, slowest)| {
                format!("{} MiB of {} at most, {} ms at most", figure(most), figure(bound), figure(slowest))
            }),
            verdict: verdict(bounded.map(|(bound, most, _)| most <= 1.25 * bound)),
        },
        Claim {
            figure: "parallel warmstart",
            stated: STATED[2],
            measured: parallel.map_or_else(String::new, |((files, several), (_, one))| {
                format!("{} ms with {files} files, {} ms with one", figure(several), figure(one))
            }),
            verdict: verdict(parallel.map(|((_, several), (_, one))| several < one)),
        },
    ]
}

fn table(all: &[Series]) -> ResultTable {
    let rows = all.iter().flat_map(|series| {
        series.points.iter().map(|point| {
            vec![
                series.files.to_string(),
                series.bound_mib.map_or_else(|| "none".into(), |bound| bound.to_string()),
                figure(point.written_mib),
                figure(point.log_mib),
                figure(point.warmstart_ms),
                figure(point.warmstart_ms / point.log_mib),
            ]
        })
    });
    ResultTable {
        title: "Warmstarts".into(),
        headings: vec!["log files", "bound, MiB", "written, MiB", "log, MiB", "ms", "ms/MiB"],
        rows: rows.collect(),
    }
}

fn plot(all: &[Series]) -> Figure {
    let curve = |series: &Series| Curve {
        label: match series.bound_mib {
            Some(bound) => format!("log files: {}, {bound} MiB at most", series.files),
            None => format!("log files: {}", series.files),
        },
        points: series.points.iter().map(|point| (point.written_mib, point.warmstart_ms)).collect(),
    };
    Figure {
        name: "warmstart".into(),
        title: "Warmstarts by what was written to the log".into(),
        panels: vec![Panel {
            x: Axis { label: "written to the log, MiB", scale: Scale::Linear },
            y: Axis { label: "warmstart, ms", scale: Scale::Linear },
            curves: all.iter().map(curve).collect(),
            stated: Vec::new(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_warmstarts_every_shape_of_log() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let series = report.data["series"].as_array().unwrap();
        let shapes: Vec<_> =
            series.iter().map(|one| (one["files"].as_u64().unwrap(), one["bound_mib"].as_u64())).collect();
        assert_eq!(shapes, [(1, None), (2, None), (1, Some(1))]);
        for point in series[..2].iter().flat_map(|one| one["points"].as_array().unwrap()) {
            assert!(
                point["log_mib"].as_f64() > Some(0.9) && point["warmstart_ms"].as_f64() > Some(0.0),
                "{point}"
            );
        }
        assert_eq!(report.claims.len(), STATED.len());
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let series = |files, bound_mib, times: [f64; 2], lengths: [f64; 2]| Series {
            files,
            bound_mib,
            points: times
                .into_iter()
                .zip(lengths)
                .map(|(warmstart_ms, log_mib)| Point { written_mib: log_mib, log_mib, warmstart_ms })
                .collect(),
        };
        let verdicts = |one, several, bounded| {
            let all = [
                series(1, None, one, [10.0, 20.0]),
                series(2, None, several, [10.0, 20.0]),
                series(1, Some(10), [5.0, 5.0], bounded),
            ];
            claims(&all).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        use Verdict::{DoesNotHold, Holds};
        assert_eq!(verdicts([10.0, 20.0], [8.0, 15.0], [9.0, 12.0]), [Holds, Holds, Holds]);
        assert_eq!(verdicts([10.0, 31.0], [8.0, 32.0], [9.0, 13.0]), [DoesNotHold, DoesNotHold, DoesNotHold]);
    }
}

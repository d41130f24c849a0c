//! `operations/hot-rows`: the workloads with hot rows, with locks by meaning beside row locks.
//!
//! First every workload of `gnomon bench` with a hot row as it is; then those whose transactions work for a while after
//! the hot update, over the number of clients: with row locks the next client waits for that work too, so that more
//! clients get nothing more done. Both kinds of locks take turns within a round, so that a change of the machine's mood
//! meets both; of each point the run with the median throughput counts. Each run is on a database of its own and checks
//! its workload's invariant.

use std::cell::Cell;

use gnomon_bench::{
    recovery::Recovery,
    report::Report,
    result::{
        Claim, Outcome, ResultTable, Verdict,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::percent,
    },
    store::{Result, StoreError, server::Server},
    workload::{
        self, Place, Settings, Workload, counter::Counter, hotspot::Hotspot, stock::Stock, tpcb::Tpcb,
        zipf::Skew,
    },
    workspace::Workspace,
};
use gnomon_program::Progress;
use serde::Serialize;

use crate::experiment::{Experiment, Setting, Values};

const STATED: [&str; 3] = [
    "(this project) TPC-B with one branch, 5 ms of work, 64 clients: 20 times the throughput of row locks",
    "(this project) TPC-B with one branch, 5 ms of work: throughput grows with clients",
    "(this project) stock of 10 items, 5 ms of work, 64 clients: 5 times the throughput of row locks",
];
const TPCB_RATIO: f64 = 20.0;
const STOCK_RATIO: f64 = 5.0;
/// The clients and the work for which these are stated.
const STATED_CLIENTS: usize = 64;
const STATED_THINK_MS: f64 = 5.0;
/// Accounts of `hotspot`, and counters of `counter`.
const KEYS: u64 = 1000;
const SKEW: Skew = Skew { zipf: 2.0 };
/// Workloads without work.
const BUSY: usize = 4;
/// Items of `stock`, and pieces of each: more than are sold.
const ITEMS: u64 = 10;
const PIECES: u64 = 1_000_000_000;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "operations/hot-rows",
    source: "increments, conditional decrements and upserts of hot rows; bounds by escrow (O'Neil 1986)",
    measures: "TPC-B, transfers, stock and counters: throughput, latency and waits, locks by meaning beside row locks",
    stated: &STATED,
    settings: &[&[
        Setting { name: "clients", help: "of the workloads without work", full: "32", quick: "4" },
        Setting {
            name: "levels",
            help: "numbers of clients of the workloads with work",
            full: "1,4,16,64",
            quick: "1,4",
        },
        Setting { name: "think-ms", help: "work after the hot update, slept", full: "5", quick: "5" },
        Setting { name: "runs", help: "of each point, of which the median counts", full: "3", quick: "1" },
        Setting { name: "seconds", help: "measured in each run", full: "5", quick: "0.2" },
        Setting { name: "warm-up", help: "seconds before that", full: "1", quick: "0.05" },
        Setting { name: "accounts", help: "of the bank's one branch", full: "100000", quick: "100" },
        Setting {
            name: "balance",
            help: "of each account of the transfers at the beginning",
            full: "100000",
            quick: "100000",
        },
        Setting { name: "pool-mib", help: "the buffer pool, in MiB", full: "64", quick: "4" },
        Setting {
            name: "url",
            help: "of a Gnomon server to run on, postgres://USER@HOST:PORT/DATABASE; none is this process",
            full: "none",
            quick: "none",
        },
    ]],
    terms: &[],
    run,
};

/// A workload with so many clients, with both kinds of locks.
#[derive(Serialize)]
struct Point {
    workload: &'static str,
    clients: usize,
    think_ms: f64,
    /// Locks by meaning.
    semantic: Report,
    /// Row locks.
    exclusive: Report,
}

impl Point {
    fn ratio(&self) -> f64 {
        self.semantic.tps / self.exclusive.tps
    }
}

/// How each point is measured.
struct Runs {
    runs: usize,
    settings: Settings,
    /// Runs that are done, and all that there will be.
    done: Cell<u64>,
    total: u64,
}

impl Runs {
    /// Runs a workload with both kinds of locks in turn.
    fn measure<W: Workload>(
        &self,
        workload: &W,
        clients: usize,
        think_ms: f64,
        workspace: &mut Workspace,
    ) -> Result<Point> {
        let mut reports = [Vec::new(), Vec::new()];
        for _ in 0..self.runs {
            for (reports, semantic_locks) in reports.iter_mut().zip([true, false]) {
                reports.push(self.once(workload, clients, semantic_locks, workspace)?);
            }
        }
        let [semantic, exclusive] = reports.map(median);
        Ok(Point { workload: W::NAME, clients, think_ms, semantic, exclusive })
    }

    fn once<W: Workload>(
        &self,
        workload: &W,
        clients: usize,
        semantic_locks: bool,
        workspace: &mut Workspace,
    ) -> Result<Report> {
        workspace.check_canceled()?;
        let mut settings = Settings { clients, semantic_locks, ..self.settings.clone() };
        let directory = workspace.new_path();
        if let Place::Process { dir, .. } = &mut settings.place {
            *dir = Some(directory.clone());
        }
        let cancel = workspace.cancel.clone();
        let report = workload::bench(workload, &settings, workspace.seed, &mut Progress::silent(), &cancel)?;
        self.done.set(self.done.get() + 1);
        workspace.progress.set(self.done.get(), self.total);
        if !report.invariant.holds {
            return Err(StoreError::unexpected(format!("{}: {}", W::NAME, report.invariant.detail)));
        }
        if matches!(settings.place, Place::Process { .. }) {
            workspace.remove(&directory)?;
        }
        Ok(report)
    }
}

/// The report with the median throughput; of an even number, the lower one of the middle.
fn median(mut reports: Vec<Report>) -> Report {
    reports.sort_by(|a, b| a.tps.total_cmp(&b.tps));
    let middle = (reports.len() - 1) / 2;
    reports.swap_remove(middle)
}

/// Returns the server of the setting `url`, which results keep.
fn server(url: &str) -> Result<Server> {
    let server = Server::from_url_without_password(url);
    server.map_err(|error| StoreError::unexpected(format!("url: {error}")))
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let clients = settings.number("clients", 1, 4096)?;
    let levels = settings.list("levels", 1, 4096)?;
    let think_ms = settings.number("think-ms", 0.0, 86_400.0)?;
    let measured: f64 = settings.number("seconds", 0.01, 86_400.0)?;
    let warm_up: f64 = settings.number("warm-up", 0.0, 86_400.0)?;
    let place = match settings.text("url")? {
        "none" => Place::Process {
            recovery: Recovery::Shadow,
            outstanding: 1,
            group_commit_ms: 0.0,
            pool_mib: settings.number("pool-mib", 1, 1 << 20)?,
            dir: None,
        },
        url => Place::Server(Box::new(server(url)?)),
    };
    let (points, each) = (BUSY + 2 * levels.len(), settings.number("runs", 1, 100)?);
    let runs = Runs {
        runs: each,
        done: Cell::new(0),
        total: (points * each * 2) as u64,
        settings: Settings {
            clients,
            warm_up_seconds: warm_up,
            measured_seconds: measured,
            semantic_locks: true,
            place,
        },
    };
    let tpcb = Tpcb::new(1, settings.number("accounts", 1, 100_000_000)?);
    let hotspot = Hotspot {
        accounts: KEYS,
        balance: settings.number("balance", 0, 1_000_000_000_000)?,
        skew: SKEW,
        think_ms: 0.0,
    };
    let stock = Stock { items: ITEMS, stock: PIECES, think_ms: 0.0 };
    let counter = Counter { keys: KEYS, skew: SKEW };
    let busy: [Point; BUSY] = [
        runs.measure(&tpcb, clients, 0.0, workspace)?,
        runs.measure(&hotspot, clients, 0.0, workspace)?,
        runs.measure(&stock, clients, 0.0, workspace)?,
        runs.measure(&counter, clients, 0.0, workspace)?,
    ];
    let (mut tpcbs, mut stocks) = (Vec::new(), Vec::new());
    for &clients in &levels {
        tpcbs.push(runs.measure(&Tpcb { think_ms, ..tpcb }, clients, think_ms, workspace)?);
        stocks.push(runs.measure(&Stock { think_ms, ..stock.clone() }, clients, think_ms, workspace)?);
    }
    Ok(Outcome {
        claims: claims(&tpcbs, &stocks),
        differences: Vec::new(),
        tables: vec![
            table("Without work".into(), &busy),
            table(format!("TPC-B with one branch, {think_ms} ms of work"), &tpcbs),
            table(format!("Stock of {ITEMS} items, {think_ms} ms of work"), &stocks),
        ],
        figures: vec![figure(&tpcbs, &stocks, think_ms)],
        data: serde_json::json!({ "busy": busy, "tpcb": tpcbs, "stock": stocks }),
    })
}

/// What is stated is of so many clients and so much work: other runs are not comparable.
fn claims(tpcbs: &[Point], stocks: &[Point]) -> Vec<Claim> {
    let is_as_stated = |point: &Point| point.clients == STATED_CLIENTS && point.think_ms == STATED_THINK_MS;
    let ratio = |figure, stated, points: &[Point], min: f64| {
        let point = points.iter().find(|point| is_as_stated(point));
        Claim {
            figure,
            stated,
            measured: point.map_or_else(
                || "other settings".into(),
                |point| {
                    let (semantic, exclusive) = (point.semantic.tps, point.exclusive.tps);
                    format!("{:.1} times ({semantic:.0} and {exclusive:.0} tps)", point.ratio())
                },
            ),
            verdict: point.map_or(Verdict::NotComparable, |point| Verdict::of(point.ratio() >= min)),
        }
    };
    let growth: Vec<f64> = tpcbs.iter().map(|point| point.semantic.tps).collect();
    vec![
        ratio("TPC-B, ratio", STATED[0], tpcbs, TPCB_RATIO),
        Claim {
            figure: "TPC-B, growth",
            stated: STATED[1],
            measured: growth.iter().map(|tps| format!("{tps:.0}")).collect::<Vec<_>>().join(", ") + " tps",
            verdict: match tpcbs {
                [_, .., last] if is_as_stated(last) => Verdict::of(growth.is_sorted()),
                _ => Verdict::NotComparable,
            },
        },
        ratio("stock, ratio", STATED[2], stocks, STOCK_RATIO),
    ]
}

fn table(title: String, points: &[Point]) -> ResultTable {
    let rows = points.iter().flat_map(|point| {
        let row = |locks: &str, report: &Report, ratio: String| {
            vec![
                point.workload.to_owned(),
                point.clients.to_string(),
                locks.to_owned(),
                format!("{:.0}", report.tps),
                report.latency_us.p50.to_string(),
                report.latency_us.p99.to_string(),
                report.lock_wait_share.map_or_else(|| "unknown".into(), |share| percent(share, 1)),
                report.aborted.to_string(),
                report.refused.to_string(),
                ratio,
            ]
        };
        let ratio = format!("{:.2}", point.ratio());
        [row("by meaning", &point.semantic, ratio), row("rows", &point.exclusive, String::new())]
    });
    ResultTable {
        title,
        headings: vec![
            "workload",
            "clients",
            "locks",
            "tps",
            "p50 us",
            "p99 us",
            "lock wait",
            "aborted",
            "refused",
            "ratio",
        ],
        rows: rows.collect(),
    }
}

fn figure(tpcbs: &[Point], stocks: &[Point], think_ms: f64) -> Figure {
    let panel = |name: &str, points: &[Point]| {
        let curve = |locks: &str, tps: fn(&Point) -> f64| Curve {
            label: format!("{name}, {locks}"),
            points: points.iter().map(|point| (point.clients as f64, tps(point))).collect(),
        };
        Panel {
            x: Axis { label: "clients", scale: Scale::Logarithmic(2) },
            y: Axis { label: "transactions/s", scale: Scale::Logarithmic(10) },
            curves: vec![
                curve("locks by meaning", |point| point.semantic.tps),
                curve("row locks", |point| point.exclusive.tps),
            ],
            stated: Vec::new(),
        }
    };
    Figure {
        name: "clients".into(),
        title: format!("Hot rows: {think_ms} ms of work after the hot update"),
        panels: vec![panel("TPC-B, one branch", tpcbs), panel("stock", stocks)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;

    #[test]
    fn a_quick_run_measures_every_workload_both_ways() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let workloads: Vec<_> =
            report.data["busy"].as_array().unwrap().iter().map(|point| &point["workload"]).collect();
        assert_eq!(workloads, ["tpcb", "hotspot", "stock", "counter"]);
        for point in ["busy", "tpcb", "stock"].iter().flat_map(|part| report.data[*part].as_array().unwrap())
        {
            assert!(point["semantic"]["tps"].as_f64() > Some(0.0), "{point}");
            assert_eq!(point["semantic"]["settings"]["semantic_locks"], true);
            assert_eq!(point["exclusive"]["settings"]["semantic_locks"], false);
        }
        assert_eq!(report.claims.len(), STATED.len());
        assert_eq!(report.claims[0].verdict, Verdict::NotComparable, "a quick run has fewer clients");
        assert!(report.to_string().contains("lock wait"), "{report}");
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_the_form_of_one() {
        let set = vec![("url".into(), "127.0.0.1".into())];
        let request = Request { quick: true, set, ..Request::default() };
        let error = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).err().unwrap();
        assert!(error.to_string().starts_with("url: write postgres://"), "{error}");
    }
}

//! Compares Gnomon with other embedded stores under the same workload, in one run.
//!
//! Each store loads the same bank, then the stores take turns for each number of clients, so that a change of the
//! machine's mood meets all of them. All commits are durable, and every store that can group commits does.

mod fjall_store;
mod group;
mod redb_store;
mod sqlite_store;

use std::{path::Path, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use gnomon_bench::{
    drive::Load,
    recovery::Recovery,
    report::{Report, SPEED_HEADINGS},
    store::{GnomonStore, Result, Store, StoreError},
    workload::{Workload as _, tpcb},
};
use gnomon_engine::{
    Options,
    sync::{Arc, atomic::AtomicBool},
};
use gnomon_program::Progress;
use serde_json::json;

#[derive(Parser)]
#[command(about = "Gnomon and other embedded stores under the same workload, in one run")]
struct Arguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// TPC-B, durable, in a closed loop.
    Tpcb(Tpcb),
}

#[derive(clap::Args)]
struct Tpcb {
    /// Branches of the bank; with one, every transaction changes the same row.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    branches: u64,
    /// Accounts of each branch.
    #[arg(long, default_value_t = tpcb::ACCOUNTS_PER_BRANCH, value_parser = clap::value_parser!(u64).range(1..))]
    accounts_per_branch: u64,
    /// How Gnomon survives a crash: shadow, or by a log of pages: single-level, two-level, two-level-deferred (also
    /// page-log).
    #[arg(long, value_name = "METHOD", default_value = "shadow", value_parser = Recovery::from_name)]
    recovery: Recovery,
    /// Numbers of clients, each a run of its own.
    #[arg(long, default_value = "1,8,32", value_delimiter = ',')]
    clients: Vec<usize>,
    /// How long to measure each run, in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// How long to run before measuring, in seconds.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// How often the stores take turns for each number of clients; the best run of each counts.
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// Where random numbers begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The cache of each store that has one, in MiB.
    #[arg(long, default_value_t = 64)]
    pool_mib: usize,
    /// The stores, Gnomon first: ratios are to each of the others.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "gnomon,fjall")]
    stores: Vec<Kind>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// This project.
    Gnomon,
    /// This project, with exclusive locks on the rows that are added to.
    GnomonExclusive,
    /// fjall with its single-writer transactions.
    Fjall,
    /// fjall with its optimistic transactions.
    FjallOptimistic,
    /// redb.
    Redb,
    /// SQLite, write-ahead log, synchronous = FULL.
    Sqlite,
}

impl Kind {
    fn create(self, directory: &Path, pool_bytes: usize, recovery: Recovery) -> Result<Box<dyn Store>> {
        Ok(match self {
            Kind::Gnomon | Kind::GnomonExclusive => Box::new(
                GnomonStore::create(
                    directory,
                    tpcb::TABLES,
                    Options { pool_bytes, recovery: Some(recovery), ..Options::default() },
                )?
                .with_semantic_locks(self == Kind::Gnomon),
            ),
            Kind::Fjall => Box::new(fjall_store::SingleWriter::create(directory, tpcb::TABLES, pool_bytes)?),
            Kind::FjallOptimistic => {
                Box::new(fjall_store::Optimistic::create(directory, tpcb::TABLES, pool_bytes)?)
            }
            Kind::Redb => Box::new(redb_store::Redb::create(directory, tpcb::TABLES, pool_bytes)?),
            Kind::Sqlite => Box::new(sqlite_store::Sqlite::create(directory, tpcb::TABLES, pool_bytes)?),
        })
    }
}

/// A loaded store and what was done to it.
struct Bank {
    /// Two of them may be Gnomon, with locks of different kinds.
    kind: Kind,
    store: Box<dyn Store>,
    /// Gnomon's; the others have their own, which is not set here.
    recovery: Option<Recovery>,
    runs: u64,
    committed: u64,
    _directory: tempfile::TempDir,
}

fn main() -> ExitCode {
    let Workload::Tpcb(arguments) = Arguments::parse().workload;
    match compare(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: an invariant is broken");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Tpcb) -> Result<bool> {
    let scale = tpcb::Tpcb::new(arguments.branches, arguments.accounts_per_branch);
    let mut banks = Vec::new();
    for kind in &arguments.stores {
        let directory = tempfile::tempdir().map_err(failed)?;
        let store = kind.create(directory.path(), arguments.pool_mib << 20, arguments.recovery)?;
        let mut progress = Progress::on_stderr(&format!("loading {}", store.name()));
        scale.load(&*store, &mut progress, &AtomicBool::new(false))?;
        let recovery = (*kind == Kind::Gnomon).then_some(arguments.recovery);
        banks.push(Bank { kind: *kind, store, recovery, runs: 0, committed: 0, _directory: directory });
    }
    let mut sound = true;
    let mut groups = Vec::new();
    for &clients in &arguments.clients {
        let mut best: Vec<Option<Report>> = banks.iter().map(|_| None).collect();
        for round in 0..arguments.rounds.max(1) {
            for (bank, best) in banks.iter_mut().zip(&mut best) {
                let report = run(bank, &scale, arguments, clients, round)?;
                sound &= report.invariant.holds;
                if !arguments.json {
                    eprintln!("{clients} clients, {}: {:.0} tps", report.store, report.tps);
                }
                if best.as_ref().is_none_or(|best| best.tps < report.tps) {
                    *best = Some(report);
                }
            }
        }
        groups.push((clients, best.into_iter().flatten().collect::<Vec<Report>>()));
    }
    if arguments.json {
        print_json(arguments, &groups)
    } else {
        print_table(&groups)
    }
    Ok(sound)
}

fn run(bank: &mut Bank, scale: &tpcb::Tpcb, arguments: &Tpcb, clients: usize, round: u64) -> Result<Report> {
    let load = Load {
        clients,
        warm_up: Duration::from_secs_f64(arguments.warm_up),
        measured: Duration::from_secs_f64(arguments.seconds),
        seed: arguments.seed.wrapping_add(round),
        cancel: Arc::default(),
    };
    let measured = scale.run_again(&*bank.store, &load, 1, bank.runs)?;
    bank.runs += 1;
    bank.committed += measured.committed_in_all;
    let invariant = scale.check(&*bank.store, bank.committed)?;
    let settings = json!({
        "branches": scale.branches,
        "accounts_per_branch": scale.accounts_per_branch,
        "recovery": bank.recovery.map(Recovery::name),
        "clients": clients,
        "warm_up_seconds": arguments.warm_up,
        "measured_seconds": arguments.seconds,
        "pool_mib": arguments.pool_mib,
        "durable": true,
    });
    let name = match bank.kind {
        Kind::GnomonExclusive => "gnomon-exclusive",
        _ => bank.store.name(),
    };
    Ok(Report::new("tpcb", name, &settings, load.seed, &measured, invariant))
}

/// Committed transactions a second of the first store, divided by those of another.
fn ratio(reports: &[Report], other: &Report) -> f64 {
    reports.first().map_or(f64::NAN, |first| first.tps / other.tps)
}

fn print_table(groups: &[(usize, Vec<Report>)]) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let headings = ["clients", "store"].into_iter().chain(SPEED_HEADINGS);
    table.set_header(headings.chain(["aborted", "invariant", "first / this"]));
    for (clients, reports) in groups {
        for report in reports {
            let others = [
                report.aborted.to_string(),
                if report.invariant.holds { "holds".into() } else { "BROKEN".into() },
                format!("{:.2}", ratio(reports, report)),
            ];
            let cells = [clients.to_string(), report.store.clone()].into_iter();
            let cells = cells.chain(report.speed_cells()).chain(others);
            table.add_row(cells.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right)));
        }
    }
    println!("{table}");
}

fn print_json(arguments: &Tpcb, groups: &[(usize, Vec<Report>)]) {
    let runs: Vec<_> = groups
        .iter()
        .map(|(clients, reports)| {
            let ratios: serde_json::Map<String, serde_json::Value> = reports
                .iter()
                .skip(1)
                .map(|report| (report.store.clone(), ratio(reports, report).into()))
                .collect();
            json!({"clients": clients, "reports": reports, "ratios": ratios})
        })
        .collect();
    println!("{}", json!({"workload": "tpcb", "rounds": arguments.rounds, "runs": runs}));
}

/// A failure of a store, as the workload takes it.
fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Failed(Box::new(error))
}

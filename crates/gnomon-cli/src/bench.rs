//! `gnomon bench`: workloads in this process.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use gnomon::{
    env::Rng,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_lab::{progress::Progress, store::Recovery, tpcb};

use crate::{Failure, signals};

#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// TPC-B: durable transactions of a bank in a closed loop, without SQL.
    ///
    /// Each transaction changes an account, reads it back, changes a teller and its branch and appends to the
    /// history; with one branch all of them change the same row. At the end the sums are compared, and once more
    /// after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench tpcb                           one branch, one client, 10 s
  gnomon bench tpcb --clients 32 --seconds 5  32 clients
  gnomon bench tpcb --branches 8 --json       one JSON object
  gnomon bench tpcb --dir tpcb.gnomon         keeps the database, on that disk")]
    Tpcb(Tpcb),
}

#[derive(Args)]
struct Tpcb {
    /// Branches of the bank.
    ///
    /// Each has ten tellers and its accounts. With one branch every transaction changes the same row; with more of them
    /// than clients they seldom meet.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    branches: u32,
    /// How the database survives a crash: shadow (shadow paging, without a log).
    ///
    /// It is the only method as yet.
    #[arg(long, value_name = "METHOD", default_value_t)]
    recovery: Recovery,
    /// Clients, a thread each.
    ///
    /// Each runs one transaction after another and waits for each until it is durable; commits of several clients share
    /// a batch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: u16,
    /// How long to measure, in seconds.
    ///
    /// Fractions are allowed, 0 is not. Ctrl-C ends it early, without a report.
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_measured)]
    seconds: f64,
    /// How long to run before measuring, in seconds.
    ///
    /// What happens in that time is not counted: the file grows and the pool fills.
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    warm_up: f64,
    /// Where random numbers begin.
    ///
    /// Without it, a seed that no other run has. The report names it; with the same seed the choices are the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to make the database.
    ///
    /// Without it, in a temporary directory that is removed afterwards. What is measured is the disk on which the
    /// directory is: a temporary directory in memory has none.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Whether additions lock what they mean: on or off.
    ///
    /// Off, each of them locks its row exclusively until the transaction ends, for comparison.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = parse_switch)]
    semantic_locks: bool,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after the branch was changed. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_seconds)]
    think_ms: f64,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
    /// Accounts of each branch.
    ///
    /// The benchmark's own number is the default; fewer load faster.
    #[arg(
        long,
        value_name = "N",
        default_value_t = tpcb::ACCOUNTS_PER_BRANCH,
        value_parser = clap::value_parser!(u64).range(1..=100_000_000)
    )]
    accounts_per_branch: u64,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".into()),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let allowed = 0.0..=86_400.0;
    if allowed.contains(&seconds) { Ok(seconds) } else { Err("not between 0 and 86400".into()) }
}

pub fn parse_measured(text: &str) -> Result<f64, String> {
    match parse_seconds(text)? {
        0.0 => Err("nothing would be measured in no time".into()),
        seconds => Ok(seconds),
    }
}

pub fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    let Workload::Tpcb(arguments) = &bench.workload;
    let settings = tpcb::Settings {
        branches: arguments.branches.into(),
        accounts_per_branch: arguments.accounts_per_branch,
        recovery: arguments.recovery,
        clients: arguments.clients.into(),
        warm_up_seconds: arguments.warm_up,
        measured_seconds: arguments.seconds,
        semantic_locks: arguments.semantic_locks,
        think_ms: arguments.think_ms,
        pool_mib: arguments.pool_mib as usize,
        dir: arguments.dir.clone(),
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let canceled = cancel.clone();
    signals::on_stop(move || canceled.store(true, Ordering::Release))
        .map_err(|error| Failure::new("cannot listen to signals", error))?;
    // A seed that people can read and type.
    let seed = arguments.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000));
    let mut progress = Progress::on_stderr("loading");
    let report = tpcb::bench(&settings, seed, &mut progress, &cancel)
        .map_err(|error| Failure::new("bench tpcb", error))?;
    drop(progress);
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        println!("{report}");
    }
    if report.invariant.holds {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::new("the invariant is broken", report.invariant.detail))
    }
}

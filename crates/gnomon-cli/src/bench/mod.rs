//! `gnomon bench`: workloads, in this process or on a server.

mod common;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gnomon::{
    env::Rng,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_lab::{
    counter, hotspot,
    progress::Progress,
    stock, tpcb,
    workload::{self, Workload},
};

use crate::{Failure, signals};
use common::{Common, parse_exponent, parse_seconds};

pub use common::parse_measured;

#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    workload: Command,
}

#[derive(Subcommand)]
enum Command {
    /// TPC-B: durable transactions of a bank in a closed loop.
    ///
    /// Each transaction changes an account, reads it back, changes a teller and its branch and appends to the
    /// history; with one branch all of them change the same row. At the end the sums are compared, and once more
    /// after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench tpcb                           one branch, one client, 10 s
  gnomon bench tpcb --clients 32 --seconds 5  32 clients
  gnomon bench tpcb --branches 8 --json       one JSON object
  gnomon bench tpcb --dir tpcb.gnomon         keeps the database, on that disk
  gnomon bench tpcb --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Tpcb(Tpcb),
    /// Transfers between accounts, few of which take part in most of them.
    ///
    /// Each transaction takes an amount from an account, which must not be overdrawn, gives it to another, and inserts
    /// two rows into a ledger. Accounts are chosen by Zipf's law and changed in the order of their numbers. A transfer
    /// that would overdraw an account is rolled back and counted as refused. At the end balances and ledger are compared,
    /// and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench hotspot --clients 32                       32 clients, 10 s
  gnomon bench hotspot --clients 32 --semantic-locks off  with row locks
  gnomon bench hotspot --clients 32 --think-ms 5          longer transactions
  gnomon bench hotspot --balance 1000000                  nothing is refused
  gnomon bench hotspot --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Hotspot(Hotspot),
    /// Sales of few items that everybody wants, until they are sold out.
    ///
    /// Each transaction takes one piece of an item, if there is one, works a while, and inserts an order; where there is
    /// none it is rolled back and counted as refused. When everything is sold out the run ends. At the end pieces and
    /// orders are compared, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench stock --clients 32                       32 clients, 10 s
  gnomon bench stock --clients 32 --semantic-locks off  with row locks
  gnomon bench stock --clients 32 --stock 500           ends when all are sold
  gnomon bench stock --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Stock(Stock),
    /// Adding one to counters that may not be there yet.
    ///
    /// Each transaction adds one to a counter chosen by Zipf's law, or inserts it; at the beginning there are none. At the
    /// end their sum is compared, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench counter --clients 32                       32 clients, 10 s
  gnomon bench counter --clients 32 --semantic-locks off  with row locks
  gnomon bench counter --keys 1                           a single counter
  gnomon bench counter --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Counter(Counter),
}

#[derive(Args)]
struct Tpcb {
    /// Branches of the bank.
    ///
    /// Each has ten tellers and its accounts. With one branch every transaction changes the same row; with more of them
    /// than clients they seldom meet.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    branches: u32,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after the branch was changed. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_seconds)]
    think_ms: f64,
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
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Hotspot {
    /// Accounts.
    ///
    /// How many there are matters little beside the exponent: most transfers have to do with the first few.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    accounts: u64,
    /// What each account has at the beginning.
    ///
    /// A transfer moves 1 to 100; one that would overdraw its account is refused.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000_000))]
    balance: i64,
    /// The exponent of Zipf's law: how uneven the choice of accounts is, from 0 to 5.
    ///
    /// The account of rank r is chosen as often as 1 / r^S. With 2, 61 of 100 choices are the first one; with 0 all are
    /// equally likely. Which account has which rank is always the same.
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_exponent)]
    zipf: f64,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after both balances were changed. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_seconds)]
    think_ms: f64,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Stock {
    /// Items.
    ///
    /// Each is wanted as often as any other.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    items: u64,
    /// Pieces of each item at the beginning.
    ///
    /// When all pieces of all items are sold, the run ends, and the measured time with it.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    stock: u64,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after the piece was taken. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "5", value_parser = parse_seconds)]
    think_ms: f64,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Counter {
    /// Counters.
    ///
    /// So many there can be; each is inserted when it is first added to.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    /// The exponent of Zipf's law: how uneven the choice of counters is, from 0 to 5.
    ///
    /// The counter of rank r is chosen as often as 1 / r^S. With 2, 61 of 100 choices are the first one; with 0 all are
    /// equally likely.
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_exponent)]
    zipf: f64,
    #[command(flatten)]
    common: Common,
}

pub fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    match &bench.workload {
        Command::Tpcb(Tpcb { branches, think_ms, accounts_per_branch, common }) => run_workload(
            &tpcb::Tpcb {
                branches: (*branches).into(),
                accounts_per_branch: *accounts_per_branch,
                think_ms: *think_ms,
            },
            common,
        ),
        Command::Hotspot(Hotspot { accounts, balance, zipf, think_ms, common }) => run_workload(
            &hotspot::Hotspot { accounts: *accounts, balance: *balance, zipf: *zipf, think_ms: *think_ms },
            common,
        ),
        Command::Stock(Stock { items, stock, think_ms, common }) => {
            run_workload(&stock::Stock { items: *items, stock: *stock, think_ms: *think_ms }, common)
        }
        Command::Counter(Counter { keys, zipf, common }) => {
            run_workload(&counter::Counter { keys: *keys, zipf: *zipf }, common)
        }
    }
}

fn run_workload<W: Workload>(workload: &W, common: &Common) -> Result<ExitCode, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let canceled = cancel.clone();
    signals::on_stop(move || canceled.store(true, Ordering::Release))
        .map_err(|error| Failure::new("cannot listen to signals", error))?;
    // A seed that people can read and type.
    let seed = common.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000));
    let mut progress = Progress::on_stderr("loading");
    let report = workload::bench(workload, &common.settings(), seed, &mut progress, &cancel)
        .map_err(|error| Failure::new(format!("bench {}", W::NAME), error))?;
    drop(progress);
    if common.json {
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

//! The commands that run a workload, in this process or, those over tables and TPC-C, on a server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gnomon_bench::{
    objects::{self, Objects},
    procedure::voter::Voter,
    recovery::Recovery,
    workload::{
        self, Workload, counter::Counter, hotspot::Hotspot, inserts::Inserts, stock::Stock, tpcb::Tpcb,
    },
};
use gnomon_program::{Failure, Progress};

use crate::{
    calls::{RunCalls, RunTpcc},
    common::{Common, Course},
};

#[derive(Subcommand)]
pub enum Command {
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
  gnomon bench tpcb --recovery value-log      with a log of what commits write
  gnomon bench tpcb --recovery page-log       with a log of pages
  gnomon bench tpcb --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Tpcb(Run<Tpcb>),
    /// Transfers between accounts, few of which take part in most of them.
    ///
    /// Each transaction takes an amount from an account, which must not be overdrawn, gives it to another, and inserts
    /// two rows into a ledger. Accounts are chosen by Zipf's law and changed in the order of their numbers. A transfer
    /// that would overdraw an account is rolled back and counted as refused. At the end balances and ledger are
    /// compared, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench hotspot --clients 32                       32 clients, 10 s
  gnomon bench hotspot --clients 32 --semantic-locks off  with row locks
  gnomon bench hotspot --clients 32 --think-ms 5          longer transactions
  gnomon bench hotspot --balance 1000                     many are refused
  gnomon bench hotspot --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Hotspot(Run<Hotspot>),
    /// Sales of few items that everybody wants, until they are sold out.
    ///
    /// Each transaction takes one piece of an item, if there is one, works a while, and inserts an order; where there
    /// is none it is rolled back and counted as refused. When everything is sold out the run ends. At the end pieces
    /// and orders are compared, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench stock --clients 32                       32 clients, 10 s
  gnomon bench stock --clients 32 --semantic-locks off  with row locks
  gnomon bench stock --stock 500 --warm-up 0            ends when all are sold
  gnomon bench stock --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Stock(Run<Stock>),
    /// Adding one to counters that may not be there yet.
    ///
    /// Each transaction adds one to a counter chosen by Zipf's law, or inserts it; at the beginning there are none. At
    /// the end their sum is compared, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench counter --clients 32                       32 clients, 10 s
  gnomon bench counter --clients 32 --semantic-locks off  with row locks
  gnomon bench counter --keys 1                           a single counter
  gnomon bench counter --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Counter(Run<Counter>),
    /// Inserts of rows with random or ascending keys, and the bytes that are written for them.
    ///
    /// Each transaction inserts a row of 108 bytes, or several, into a table that is empty at the beginning; when all
    /// rows are there the run ends. The report tells the bytes written by kind, for each byte inserted, and the space
    /// taken. A tree larger than the buffer pool shows what random changes cost. At the end rows and keys are compared,
    /// and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench inserts --pool-mib 10 --seconds 600  a tree of 70 MiB
  gnomon bench inserts --order ascending --rows-per-transaction 1000  a load
  gnomon bench inserts --recovery shadow --json  without a log, as JSON")]
    Inserts(Run<Inserts>),
    /// Transactions on complex objects, which refer to each other's parts.
    ///
    /// Each transaction is a few operations, each on another object; an operation accesses some of the object's parts
    /// (its subobjects), changes some of them, and is served for a while at each, which stands for the work of an
    /// application. At the end every subobject is compared with what was added to it, and once more after closing and
    /// opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench objects --clients 12                          two levels, 10 s
  gnomon bench objects --clients 12 --recovery single-level  only page locks
  gnomon bench objects --clients 12 --own 0 --foreign 10     shared parts
  gnomon bench objects --clients 12 --service-ms 0           the engine alone
  gnomon bench objects --recovery shadow --dir objects       keeps the database")]
    Objects(RunObjects),
    /// Votes for contestants by telephone: the Voter benchmark, by a registered procedure.
    ///
    /// Each call looks up the contestant and the area code, and counts the votes of the phone and those of the
    /// contestant in a state; a phone that has voted too often is told so. At the end votes and counts are compared, and
    /// once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench voter --partitions 2 --outstanding 500     in partitions
  gnomon bench voter --execution locked --clients 8       under locks
  gnomon bench voter --recovery value-log --clients 32    logs writes
  gnomon bench voter --rate 20000 --clients 2             offered load")]
    Voter(RunCalls<Voter>),
    /// TPC-C: orders, payments and deliveries of a wholesaler, by registered procedures or, on a server, by SQL.
    ///
    /// All five transactions, without think times; new orders that are to be rolled back count as refused. At the end
    /// the consistency conditions of clause 3.3.2 are checked, and once more after closing and opening the database.
    #[command(after_help = "\
Examples:
  gnomon bench tpcc --warehouses 2 --partitions 2         in partitions
  gnomon bench tpcc --execution locked --clients 8        under locks
  gnomon bench tpcc --items 10000 --outstanding 100       a smaller stock
  gnomon bench tpcc --mix 100/0/0/0/0 --json              new orders
  gnomon bench tpcc --url postgres://127.0.0.1:5433/gnomon  on a server")]
    Tpcc(RunTpcc),
}

/// A workload's own arguments, and those that all have.
#[derive(Args)]
pub struct Run<W: Args> {
    #[command(flatten)]
    workload: W,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct RunObjects {
    #[command(flatten)]
    workload: Objects,
    /// How the database survives a crash: shadow, value-log, single-level, two-level, two-level-deferred or page-log.
    ///
    /// With shadow paging and a value log there is a row for each subobject, and locks on rows. The others have a log of
    /// operations and a log of pages. Pages are locked until the transaction ends with a single level, with two levels until an
    /// operation ends. They are logged then; deferred, when a transaction ends. page-log is another name of that.
    #[arg(long, value_name = "METHOD", default_value = "two-level-deferred", value_parser = Recovery::from_name)]
    recovery: Recovery,
    #[command(flatten)]
    course: Course,
}

pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Tpcb(run) => run.run(),
        Command::Hotspot(run) => run.run(),
        Command::Stock(run) => run.run(),
        Command::Counter(run) => run.run(),
        Command::Inserts(run) => run.run(),
        Command::Objects(run) => run.run(),
        Command::Voter(run) => run.run(),
        Command::Tpcc(run) => run.run(),
    }
}

impl<W: Args + Workload> Run<W> {
    fn run(&self) -> Result<ExitCode, Failure> {
        let Run { workload, common } = self;
        let settings = common.settings()?;
        common.course.run(W::NAME, |seed, cancel| {
            let mut progress = Progress::on_stderr("loading");
            workload::bench(workload, &settings, seed, &mut progress, cancel)
        })
    }
}

impl RunObjects {
    fn run(&self) -> Result<ExitCode, Failure> {
        let RunObjects { workload, recovery, course } = self;
        course.run("objects", |seed, cancel| {
            objects::bench(workload, *recovery, &course.load(seed, cancel), course.dir.as_deref())
        })
    }
}

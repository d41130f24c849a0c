//! The options that the workloads have in common: where, how long, with how many clients.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use gnomon_bench::{
    command::{cancel_on_stop, print},
    drive::Load,
    recovery::Recovery,
    report::Findings,
    store::{self, server::Server},
    workload::{Place, Settings},
};
use gnomon_engine::{
    env::Rng,
    sync::{Arc, atomic::AtomicBool},
};
use gnomon_program::{
    Failure,
    argument::{parse_interval, parse_measured, parse_switch, parse_time},
};

/// Options of every workload.
#[derive(Args)]
pub struct Course {
    /// Clients, a thread each.
    ///
    /// Each runs one transaction after another and waits for each until it is durable, unless another option has it go
    /// on; commits of several clients share a batch.
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
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_time)]
    warm_up: f64,
    /// Where random numbers begin.
    ///
    /// Without it, a seed that no other run has. The report names it; with the same seed the choices are the same.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where to make the database.
    ///
    /// Without it, in a temporary directory that is removed afterwards. What is measured is the disk on which the
    /// directory is: a temporary directory in memory has none.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    pub json: bool,
}

/// Options of the workloads over tables, which run on servers too.
#[derive(Args)]
pub struct Common {
    /// How the database survives a crash: shadow, value-log, single-level, two-level, two-level-deferred or page-log.
    ///
    /// With shadow paging there is no log; value-log logs what each commit writes. The others have a log of pages, and
    /// differ in how long pages are locked and when they are logged; page-log is another name of two-level-deferred.
    #[arg(long, value_name = "METHOD", default_value = "value-log", value_parser = Recovery::from_name)]
    recovery: Recovery,
    #[command(flatten)]
    pub course: Course,
    /// Run on a server instead: postgres://USER@HOST:PORT/DATABASE.
    ///
    /// Each operation becomes the SQL statement that an application would write, for Gnomon and PostgreSQL alike; each
    /// client has a connection. Tables named gnomon_bench_* are dropped and made anew, and stay there afterwards. A
    /// password that is not in the URL comes from PGPASSWORD; ?sslmode=, sslrootcert, sslcert and sslkey are as libpq
    /// has them.
    #[arg(long, value_name = "URL", conflicts_with_all = ["recovery", "dir", "outstanding", "group_commit_ms", "pool_mib"])]
    url: Option<String>,
    /// Transactions of each client that are committed and not durable yet.
    ///
    /// With one, a client waits for each; with more, it goes on with the next, and is told when each is durable.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    outstanding: u32,
    /// How long commits wait for others before they are made durable together, in milliseconds.
    ///
    /// With 0 they do not wait: those that come while others are made durable are together all the same. Clients that
    /// go on meanwhile (--outstanding) have more of their processors' time for it.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = parse_interval)]
    group_commit_ms: f64,
    /// Take semantic locks for additions: on or off.
    ///
    /// Off, each of them locks its row exclusively until the transaction ends, for comparison. A server of Gnomon's is
    /// told by SET gnomon.semantic_locks, any other is not.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = parse_switch, action = clap::ArgAction::Set)]
    semantic_locks: bool,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
}

/// Reads the URL of a server: not as clap would, which prints what it refuses, and with it the password.
pub fn server(url: &str) -> Result<Server, Failure> {
    url.parse().map_err(|error| Failure(format!("--url: {error}")))
}

impl Course {
    /// Runs a workload until it has found something or is interrupted, and prints what it has found.
    pub fn run<F: Findings>(
        &self,
        name: &str,
        bench: impl FnOnce(u64, &Arc<AtomicBool>) -> store::Result<F>,
    ) -> Result<ExitCode, Failure> {
        let cancel = cancel_on_stop()?;
        // A seed that people can read and type.
        let seed = self.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000));
        let report = bench(seed, &cancel).map_err(|error| Failure::new(name, error))?;
        match self.json {
            true => print(report.to_json())?,
            false => print(&report)?,
        }
        let invariant = report.invariant();
        if invariant.holds {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new("the invariant is broken", &invariant.detail))
        }
    }

    pub fn load(&self, seed: u64, cancel: &Arc<AtomicBool>) -> Load {
        Load {
            clients: self.clients.into(),
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(self.seconds),
            seed,
            cancel: cancel.clone(),
        }
    }
}

impl Common {
    pub fn settings(&self) -> Result<Settings, Failure> {
        let place = match &self.url {
            Some(url) => Place::Server(Box::new(server(url)?)),
            None => Place::Process {
                recovery: self.recovery,
                outstanding: self.outstanding as usize,
                group_commit_ms: self.group_commit_ms,
                pool_mib: self.pool_mib as usize,
                dir: self.course.dir.clone(),
            },
        };
        Ok(Settings {
            clients: self.course.clients.into(),
            warm_up_seconds: self.course.warm_up,
            measured_seconds: self.course.seconds,
            semantic_locks: self.semantic_locks,
            place,
        })
    }
}

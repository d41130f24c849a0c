//! The options that workloads of registered procedures have in common.

use std::process::ExitCode;

use clap::{Args, value_parser};
use gnomon_bench::{
    drive::Load,
    isolation::Isolation,
    procedure::{
        self, Calls, Settings,
        tpcc::{Tpcc, sql},
    },
    recovery::Method,
};
use gnomon_engine::{Execution, env::processors};
use gnomon_program::{
    Failure, Progress,
    argument::{parse_interval, parse_rate},
};

use crate::common::{self, Course};

/// A workload's own arguments, and those that all have.
#[derive(Args)]
pub struct RunCalls<W: Args> {
    #[command(flatten)]
    workload: W,
    /// How the database survives a crash: none, shadow, value-log, command-log, adaptive, single-level, two-level,
    /// two-level-deferred or page-log.
    ///
    /// With none, calls are answered before they are durable, to compare with. With shadow paging there is no log;
    /// value-log logs what each commit writes, command-log the call and its parameters, adaptive whichever is cheaper.
    /// The others have a log of pages.
    #[arg(long, value_name = "METHOD", default_value = "command-log", value_parser = Method::from_name)]
    recovery: Method,
    /// How long commits wait for others before they are made durable together, in milliseconds.
    ///
    /// With 0 they do not wait: those that come while others are made durable are together all the same.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = parse_interval)]
    group_commit_ms: f64,
    /// How long the log may get, in MiB, before a checkpoint gives its beginning up.
    ///
    /// Checkpoints go on beside calls, and take from their time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    log_mib: u32,
    /// How procedures run: serial or locked.
    ///
    /// Serial, by executors, threads that share the partitions and each run the calls in theirs one after another,
    /// without locks. Locked, each by its client, beside each other, with locks on keys; calls in a deadlock are run
    /// again by the engine, which is not counted.
    #[arg(long, value_name = "KIND", default_value = "serial", value_parser = Execution::from_name)]
    execution: Execution,
    /// Threads that run procedures, with serial execution; partition n is of executor n modulo N.
    ///
    /// Without it, one for each partition, but not more than there are processors. Calls in partitions of several
    /// executors have one more thread.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=64))]
    executors: Option<u32>,
    /// How many calls each client has at a time.
    ///
    /// With 1, a client waits for each call until it is durable. With more, it goes on with others meanwhile; when it
    /// has so many, it waits until an eighth of them is answered. Calls that find the queue of their executor full are
    /// given up, and count as busy.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000_000))]
    outstanding: u32,
    /// Calls a second of all clients, whether those before are answered or not.
    ///
    /// Latencies run from when a call is due. Without it, clients call as soon as they may.
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = value_parser!(u32).range(1..))]
    pool_mib: u32,
    /// Check what an earlier run has left in --dir, and call nothing.
    ///
    /// The run may have been killed: the database is recovered first. Recovery method, partitions and sizes are those of
    /// the run.
    #[arg(long, requires = "dir")]
    check: bool,
    #[command(flatten)]
    course: Course,
}

impl<W: Args + Calls> RunCalls<W> {
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let course = &self.course;
        if self.check {
            return course.run(W::NAME, |seed, cancel| {
                let mut progress = Progress::on_stderr("replaying the log");
                procedure::check_left::<W>(&self.settings(&course.load(seed, cancel))?, &mut progress)
            });
        }
        course.run(W::NAME, |seed, cancel| {
            let settings = self.settings(&course.load(seed, cancel))?;
            let mut progress = Progress::on_stderr("loading");
            procedure::bench(&self.workload, &settings, seed, &mut progress, cancel)
        })
    }

    fn settings(&self, load: &Load) -> gnomon_engine::Result<Settings> {
        let of_partitions = || self.workload.partitions().min(processors() as u32);
        let executors = self.executors.or_else(|| (self.execution.executors() > 0).then(of_partitions));
        Ok(Settings {
            clients: load.clients,
            outstanding: self.outstanding as usize,
            rate: self.rate,
            warm_up_seconds: load.warm_up.as_secs_f64(),
            measured_seconds: load.measured.as_secs_f64(),
            recovery: self.recovery,
            group_commit_ms: self.group_commit_ms,
            log_mib: self.log_mib,
            execution: executors.map_or(Ok(self.execution), |count| self.execution.with_executors(count))?,
            pool_mib: self.pool_mib as usize,
            dir: self.course.dir.clone(),
        })
    }
}

/// TPC-C, which runs on servers too.
#[derive(Args)]
pub struct RunTpcc {
    #[command(flatten)]
    here: RunCalls<Tpcc>,
    /// Run on a server instead: postgres://USER@HOST:PORT/DATABASE.
    ///
    /// The transactions become the SQL statements that an application would write, for Gnomon and PostgreSQL alike; each
    /// client has a connection, and one transaction at a time. Tables named gnomon_bench_* are dropped and made anew, and
    /// stay there afterwards. A password that is not in the URL comes from PGPASSWORD; ?sslmode=, sslrootcert, sslcert
    /// and sslkey are as libpq has them.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = [
            "recovery", "execution", "executors", "outstanding", "rate", "pool_mib", "dir", "partitions",
            "group_commit_ms", "log_mib", "compute_us", "check"
        ]
    )]
    url: Option<String>,
    /// How transactions on a server are isolated: serializable, repeatable-read or read-committed.
    ///
    /// The consistency conditions hold at each of them. What the server asks to be run again counts as aborted, deadlocks
    /// too.
    #[arg(long, value_name = "LEVEL", default_value = "serializable", requires = "url")]
    isolation: Isolation,
}

impl RunTpcc {
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let Some(url) = &self.url else { return self.here.run() };
        let server = common::server(url)?;
        let RunCalls { workload, course, .. } = &self.here;
        course.run(Tpcc::NAME, |seed, cancel| {
            let load = course.load(seed, cancel);
            let settings = sql::Settings {
                clients: load.clients,
                warm_up_seconds: load.warm_up.as_secs_f64(),
                measured_seconds: load.measured.as_secs_f64(),
                isolation: self.isolation,
                server: server.clone(),
            };
            let mut progress = Progress::on_stderr("loading");
            sql::bench(workload, &settings, seed, &mut progress, cancel)
        })
    }
}

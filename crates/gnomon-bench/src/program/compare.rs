//! `gnomon compare`: transactions of one's own under every recovery method.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use gnomon_bench::{
    command::{ReportOptions, cancel_on_stop, parse_setting},
    compare::{Comparison, Script},
    isolation::Isolation,
    recovery::Method,
};
use gnomon_program::{
    Failure, Progress,
    argument::{parse_measured, parse_switch, parse_time},
};

/// Runs a script of your own transactions under every recovery method, with and without semantic locks.
///
/// The script is one of pgbench: statements of SQL with variables, and backslash commands. Each variant is measured on a
/// database of its own in this process, which then crashes and is opened again. Databases are made in a directory of the
/// run's own, which is removed at the end. Ctrl-C ends it early, without a report.
#[derive(Args)]
#[command(after_help = "\
Examples:
  pgbench --show-script=tpcb-like 2> tpcb.sql
  gnomon compare --file tpcb.sql
  gnomon compare --file sale.sql --init sale-init.sql --out sale
  gnomon compare --file tpcb.sql --recovery shadow,value-log --rounds 3")]
pub struct Compare {
    /// The transactions: a script in the form of pgbench.
    ///
    /// Statements end with semicolons; `:name` stands for a variable. There are `\set`, `\if`, `\elif`, `\else`, `\endif`,
    /// `\sleep`, `\gset` and `\aset`. Variables are parameters of prepared statements, as drivers have them; in quotes
    /// they are text. One run of the script is a transaction.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// SQL that makes the tables, run once in each new database.
    ///
    /// Without it, if the script uses pgbench's tables, these are made and filled as `pgbench -i` does.
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
    /// Branches of pgbench's tables, and what the variable `scale` is.
    ///
    /// Each has 100,000 accounts, of about 15 MiB.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    scale: u32,
    /// Set a variable; can be given several times.
    ///
    /// Variables that every script has are scale, client_id, random_seed and default_seed.
    #[arg(short = 'D', long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    define: Vec<(String, String)>,
    /// Recovery methods, separated by commas: none, shadow, value-log, command-log, adaptive, single-level, two-level or
    /// two-level-deferred.
    ///
    /// Without it, all; command-log and adaptive only if the script has a CALL that they log in another way. With none,
    /// commits are not durable, for comparison.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Method::from_name)]
    recovery: Option<Vec<Method>>,
    /// Let updates that commute share locks: on, off or on,off.
    ///
    /// Without it, both, unless the script changes no rows. Off, each update locks its row exclusively until its
    /// transaction ends.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_switch)]
    semantic_locks: Option<Vec<bool>>,
    /// How transactions are isolated: serializable, repeatable-read or read-committed.
    ///
    /// BEGIN ISOLATION LEVEL in the script takes precedence.
    #[arg(long, value_name = "LEVEL", default_value = "read-committed")]
    isolation: Isolation,
    /// Clients, a thread each.
    ///
    /// Each has a session in this process, and runs one transaction after another; each waits until it is durable.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: u16,
    /// How long to measure each variant, in seconds; 5 unless given.
    ///
    /// Fractions are allowed, 0 is not.
    #[arg(long, value_name = "S", value_parser = parse_measured)]
    seconds: Option<f64>,
    /// How long to run each variant before measuring, in seconds; 1 unless given.
    ///
    /// What happens in that time is not counted: the file grows and the pool fills.
    #[arg(long, value_name = "S", value_parser = parse_time)]
    warm_up: Option<f64>,
    /// How often to measure each variant.
    ///
    /// In each round they come in a random order; the medians count.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
    /// Short, to see that it works: 1 second a variant.
    ///
    /// The figures tell nothing.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
}

pub fn run(arguments: &Compare) -> Result<ExitCode, Failure> {
    let failed = |error: String| Failure::new("compare", error);
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path)
            .map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?;
        Ok((path.display().to_string(), text))
    };
    let (name, text) = read(&arguments.file)?;
    let script = Script::parse(&name, &text, &arguments.define).map_err(failed)?;
    let otherwise = |quick: f64, full: f64| if arguments.quick { quick } else { full };
    let comparison = Comparison {
        script,
        init: arguments.init.as_deref().map(read).transpose()?,
        scale: arguments.scale,
        clients: arguments.clients.into(),
        warm_up_seconds: arguments.warm_up.unwrap_or(otherwise(0.1, 1.0)),
        measured_seconds: arguments.seconds.unwrap_or(otherwise(1.0, 5.0)),
        rounds: arguments.rounds,
        methods: arguments.recovery.clone(),
        semantic_locks: arguments.semantic_locks.clone(),
        isolation: arguments.isolation,
        pool_mib: arguments.pool_mib as usize,
        seed: arguments.report.seed(),
        quick: arguments.quick,
        dir: arguments.report.dir.clone(),
    };
    let out = arguments.report.out()?;
    let cancel = cancel_on_stop()?;
    let report =
        comparison.run(Progress::on_stderr("compare"), &cancel).map_err(|error| failed(error.to_string()))?;
    if let Some(out) = out {
        out.write(&report, None)?;
    }
    arguments.report.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

//! `gnomon lab`: experiments of the papers, a page about their results, and a comparison of recovery methods by
//! transactions of one's own.

mod compare;
mod report;
mod run;

use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use gnomon_engine::{
    env::Rng,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_lab::experiment::Report;

use crate::{Failure, signals};

#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List experiments: what each measures, what its paper states, what can be set.
    #[command(after_help = "\
Examples:
  gnomon lab list             all of them
  gnomon lab list 'kbound/*'  those of a paper")]
    List(run::List),
    /// Run experiments, and print what was measured beside what their papers state.
    ///
    /// Databases are made in a directory of the run's own, which is removed at the end. Ctrl-C ends a run early,
    /// without a report.
    #[command(after_help = "\
Examples:
  gnomon lab run shadow/tpcb --quick           a second, to see that it works
  gnomon lab run shadow/tpcb --out tpcb        also JSON and plots, into tpcb
  gnomon lab run shadow/tpcb --set branches=1  a hot row
  gnomon lab run 'semantics/*' --out study     all of a paper, a directory each
  gnomon lab run shadow/tpcb --json | jq .claims")]
    Run(run::Run),
    /// Run a script of your own transactions under every recovery method, with and without semantic locks.
    ///
    /// The script is one of pgbench: statements of SQL with variables, and backslash commands. Each variant is measured
    /// on a database of its own in this process, which then crashes and is opened again. Databases are made in a
    /// directory of the run's own, which is removed at the end. Ctrl-C ends it early, without a report.
    #[command(after_help = "\
Examples:
  pgbench --show-script=tpcb-like 2> tpcb.sql
  gnomon lab compare --file tpcb.sql
  gnomon lab compare --file sale.sql --init sale-init.sql --out sale
  gnomon lab compare --file tpcb.sql --recovery shadow,value-log --rounds 3")]
    Compare(compare::Compare),
    /// Write one HTML page about the runs whose results are in a directory.
    ///
    /// It shows what was stated beside what was measured, in figures and tables, and names the experiments that were not
    /// run. The page needs no other file. Of several runs of an experiment, it has the last one. Results are looked for
    /// in the directory and in those within it, three deep; links are not followed.
    #[command(after_help = "\
Examples:
  gnomon lab run 'semantics/*' --out study
  gnomon lab report study                    writes study/report.html
  gnomon lab report study --out page.html")]
    Report(report::Report),
}

pub fn run(lab: &Lab) -> Result<ExitCode, Failure> {
    match &lab.command {
        Command::List(arguments) => print(arguments.text())?,
        Command::Run(arguments) => run::run(arguments)?,
        Command::Compare(arguments) => compare::run(arguments)?,
        Command::Report(arguments) => report::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Options of all commands that measure.
#[derive(Args)]
struct Common {
    /// Where random numbers begin.
    ///
    /// Without it, a seed that no other run has. The report names it; with the same seed the choices are the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to make the databases.
    ///
    /// Without it, in the system's temporary directory. What is measured is the disk on which the directory is: a
    /// temporary directory in memory has none.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
    /// Write the report into this directory too, as text, as JSON and with plots.
    ///
    /// It is made if absent. Files of an earlier run there are replaced. Of several experiments, each has a directory
    /// PAPER/NAME in it. `gnomon lab report DIR` makes a page of it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Common {
    /// The seed that was given, or a new one that people can read and type.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000))
    }

    fn out(&self) -> Result<Option<Out<'_>>, Failure> {
        self.out.as_deref().map(Out::make).transpose()
    }

    fn print(&self, report: &Report) -> Result<(), Failure> {
        match self.json {
            true => print(report.to_json()),
            false => print(report),
        }
    }
}

/// Prints a line, or more.
fn print(what: impl fmt::Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{what}")
        .map_err(|error| Failure::new("cannot write to standard output", error))
}

/// Returns a flag that the first Ctrl-C sets.
fn cancel_on_stop() -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let canceled = cancel.clone();
    signals::on_stop(move || {
        canceled.store(true, Ordering::Release);
        eprintln!("stopping; a second Ctrl-C ends it at once, and leaves databases that it has made");
    })
    .map_err(|error| Failure::new("cannot listen to signals", error))?;
    Ok(cancel)
}

/// The directory of a report, made before a long run whose report would have no place. If nothing came of the run and
/// it was not there before, it goes again.
struct Out<'a> {
    directory: &'a Path,
    is_new: bool,
}

impl<'a> Out<'a> {
    fn make(directory: &'a Path) -> Result<Out<'a>, Failure> {
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|error| Failure::new(directory.display(), error))?;
        Ok(Out { directory, is_new })
    }

    /// Writes a report there, or in a directory in it.
    fn write(&self, report: &Report, within: Option<&str>) -> Result<(), Failure> {
        let directory =
            within.map_or_else(|| self.directory.to_path_buf(), |within| self.directory.join(within));
        let files = report.write_to(&directory).map_err(|error| Failure::new(directory.display(), error))?;
        eprintln!("{}: {}", directory.display(), files.join(", "));
        Ok(())
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if self.is_new {
            // Fails if there is a report in it.
            _ = std::fs::remove_dir(self.directory);
        }
    }
}

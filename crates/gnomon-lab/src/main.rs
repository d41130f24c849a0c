//! The program `gnomon-lab`: experiments of the papers, run again on Gnomon, and a page about their results.
//!
//! - [`experiment`]: the experiments, with the statements of their papers;
//! - [`simulation`]: processes in virtual time; [`semantics`]: a simulated system whose transaction manager knows more or
//!   less of the operations on its data; [`objects`]: the benchmark on complex objects, simulated;
//! - [`page`]: results as an HTML page;
//! - [`command`]: the program's commands.
//!
//! Workloads, comparisons and the form of results are those of `gnomon-bench`. Exit codes are those of
//! [`gnomon_program`].

mod command;
mod experiment;
mod objects;
mod page;
mod semantics;
mod simulation;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use command::{report, run};

const EXAMPLES: &str = "\
Examples:
  gnomon-lab list                              all experiments
  gnomon-lab run shadow/tpcb --quick           one of them
  gnomon-lab run 'semantics/*' --out study     all of a paper, a directory each
  gnomon-lab report study                      writes study/report.html";

/// Experiments of the papers that Gnomon comes from: what they state beside what is measured.
#[derive(Parser)]
#[command(name = "gnomon-lab", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List experiments: what each measures, what its paper states, what can be set.
    #[command(after_help = "\
Examples:
  gnomon-lab list             all of them
  gnomon-lab list 'kbound/*'  those of a paper")]
    List(run::List),
    /// Run experiments, and print what was measured beside what their papers state.
    ///
    /// Databases are made in a directory of the run's own, which is removed at the end. Ctrl-C ends a run early,
    /// without a report.
    #[command(after_help = "\
Examples:
  gnomon-lab run shadow/tpcb --quick           a second, to see that it works
  gnomon-lab run shadow/tpcb --out tpcb        also JSON and plots, into tpcb
  gnomon-lab run shadow/tpcb --set branches=1  a hot row
  gnomon-lab run 'semantics/*' --out study     all of a paper, a directory each
  gnomon-lab run shadow/tpcb --json | jq .claims")]
    Run(run::Run),
    /// Write one HTML page about the runs whose results are in a directory.
    ///
    /// It shows what was stated beside what was measured, in figures and tables, and names the experiments that were not
    /// run. The page needs no other file. Of several runs of an experiment, it has the last one. Results are looked for
    /// in the directory and in those within it, three deep; links are not followed.
    #[command(after_help = "\
Examples:
  gnomon-lab run 'semantics/*' --out study
  gnomon-lab report study                    writes study/report.html
  gnomon-lab report study --out page.html")]
    Report(report::Report),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    gnomon_program::run("gnomon-lab", || {
        match &command {
            Command::List(arguments) => run::list(arguments),
            Command::Run(arguments) => run::run(arguments),
            Command::Report(arguments) => report::run(arguments),
        }?;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent_and_every_command_has_examples() {
        gnomon_program::help::assert_complete(Arguments::command());
    }
}

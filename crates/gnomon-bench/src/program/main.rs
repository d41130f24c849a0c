//! The program `gnomon-bench`: workloads, and the comparison of recovery methods, as `gnomon bench` and `gnomon compare`
//! run them.
//!
//! - [`bench`]: the workloads' commands; [`common`], [`calls`]: their options;
//! - [`compare`]: transactions of one's own under every recovery method.
//!
//! Exit codes, and what goes to standard output and to standard error: [`gnomon_program`].

mod bench;
mod calls;
mod common;
mod compare;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  gnomon bench tpcb --clients 32    durable transactions a second
  gnomon compare --file tpcb.sql    your own, by every recovery method";

/// Workloads in this process or on a server, and transactions of your own under every recovery method.
#[derive(Parser)]
#[command(name = "gnomon-bench", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Bench(bench::Command),
    /// Run transactions of your own under every recovery method.
    Compare(compare::Compare),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    gnomon_program::run("gnomon-bench", || match &command {
        Command::Bench(command) => bench::run(command),
        Command::Compare(arguments) => compare::run(arguments),
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

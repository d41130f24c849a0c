//! Commands that are programs of their own, so that a server links no workload and no experiment.
//!
//! `gnomon bench tpcb` becomes `gnomon-bench tpcb`, a program in the directory of this one, or in one of PATH.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt as _,
    process,
};

use clap::{Args, Subcommand};
use gnomon_program::Failure;

#[derive(Subcommand)]
pub enum Command {
    /// Measure a workload, in this process or on a server.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  gnomon bench --help             the workloads
  gnomon bench tpcb --clients 32  one of them"
    )]
    Bench(Rest),
    /// Run transactions of your own under every recovery method.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  gnomon compare --help           the options
  gnomon compare --file tpcb.sql  a script of pgbench's"
    )]
    Compare(Rest),
    /// Run the experiments of the papers that Gnomon comes from.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  gnomon lab list                     the experiments
  gnomon lab run shadow/tpcb --quick  one of them"
    )]
    Lab(Rest),
}

#[derive(Args)]
pub struct Rest {
    /// The program's own arguments.
    ///
    /// With --help it lists them.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the command's program; returns why that failed.
pub fn run(command: &Command) -> Failure {
    let (program, first, Rest { arguments }) = match command {
        Command::Bench(rest) => ("gnomon-bench", None, rest),
        Command::Compare(rest) => ("gnomon-bench", Some(OsStr::new("compare")), rest),
        Command::Lab(rest) => ("gnomon-lab", None, rest),
    };
    let own = std::env::current_exe().ok();
    let beside = own.as_ref().map(|own| own.with_file_name(program)).filter(|path| path.is_file());
    let path = beside.unwrap_or_else(|| program.into());
    if own.is_some() && path.canonicalize().ok() == own {
        return Failure::new(path.display(), format!("it is this program, not {program}"));
    }
    let error = process::Command::new(&path).args(first).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => Failure(format!(
            "the program {program} is neither beside this one nor in PATH: cargo build --release -p gnomon-cli -p {program}"
        )),
        _ => Failure::new(path.display(), error),
    }
}

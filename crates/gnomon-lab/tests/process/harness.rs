//! Runs the program.

use std::process::{Command, Stdio};

pub use gnomon_testing::process::{Ran, text};

/// The program with its arguments, and nothing on its standard input.
pub fn gnomon_lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-lab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Ran {
    gnomon_lab(arguments).output().unwrap().into()
}

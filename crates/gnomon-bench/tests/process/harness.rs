//! Runs the program.

use std::process::{Command, Stdio};

pub use gnomon_testing::process::{Ran, text};

/// Runs the program to its end, with nothing on its standard input.
pub fn run(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-bench"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap().into()
}

//! Runs the program.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program with its arguments, and nothing on its standard input.
pub fn gnomon_lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-lab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Ran {
    gnomon_lab(arguments).output().unwrap().into()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

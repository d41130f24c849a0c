//! Programs run to their end, for tests of what they print and of their exit codes.

use std::{path::Path, process::Output};

/// The exit code and the output of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// The text on standard output.
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("programs print UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("programs print UTF-8"),
        }
    }
}

/// Returns a path as an argument.
///
/// # Panics
/// If it is not UTF-8.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

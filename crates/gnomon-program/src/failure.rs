//! Failures of the program, as one line for its user; and opening databases with such lines.

use std::{fmt, path::Path, process::ExitCode};

use gnomon_engine::{Error, Reaction};

use crate::{signals, tell};

/// Runs a program that prints results: a closed pipe ends it, and a failure is one line with the program's name and exit
/// code 1.
pub fn run(program: &str, command: impl FnOnce() -> Result<ExitCode, Failure>) -> ExitCode {
    let listening = signals::end_on_closed_pipe().and_then(|()| signals::survive_long_files());
    let done = match listening {
        Ok(()) => command(),
        Err(error) => Err(Failure::new("cannot listen to signals", error)),
    };
    done.unwrap_or_else(|Failure(message)| {
        tell!("{program}: {message}");
        ExitCode::FAILURE
    })
}

/// One line that says what failed and what to do.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// A failure to do `what`, and why.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure(format!("{what}: {why}"))
    }

    /// The failure for an error of the database in a directory, with what to do where the error itself does not tell.
    pub fn of_engine(directory: &Path, error: &Error) -> Failure {
        let directory = directory.display();
        let message = match error {
            Error::NotADatabase { .. } | Error::BadOption(_) => error.to_string(),
            Error::InUse { .. } => {
                format!("{directory} is in use by another process: stop it, then try again")
            }
            Error::DiskFull => format!("the disk of {directory} is full: free space there, then try again"),
            _ => format!("{directory}: {error}"),
        };
        Failure(match error.reaction() {
            Reaction::Restore => {
                format!("{message}: `gnomon verify {directory}` lists the damage; restore a copy")
            }
            _ => message,
        })
    }

    /// As [`Failure::of_engine`], where a database that is not there is not made.
    pub fn of_reading(directory: &Path, error: &Error) -> Failure {
        match error {
            Error::NotADatabase { detail, .. } => {
                // One can be made where nothing is yet.
                let is_free = !directory.exists()
                    || std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
                let directory = directory.display();
                let make = format!(", or make one by `gnomon sql {directory}`");
                Failure(format!(
                    "there is no database in {directory} ({detail}): name another directory{}",
                    if is_free { &make } else { "" }
                ))
            }
            _ => Failure::of_engine(directory, error),
        }
    }
}

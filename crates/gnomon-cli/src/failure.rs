//! What goes wrong, as one line for whoever ran the program; and opening databases with such lines.

use std::{fmt, path::Path};

use gnomon::{Database, Error, Options, Reaction};

/// One line that says what failed and what to do.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// A failure to do `what`, and why.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure(format!("{what}: {why}"))
    }

    /// What the engine says of the database in a directory, with what to do where the error itself does not tell.
    pub fn of_engine(directory: &Path, error: &Error) -> Failure {
        let directory = directory.display();
        let message = match error {
            Error::NotADatabase { .. } | Error::InUse { .. } | Error::BadOption(_) => error.to_string(),
            _ => format!("{directory}: {error}"),
        };
        Failure(match error.reaction() {
            Reaction::Restore => {
                format!("{message}: `gnomon verify {directory}` lists the damage; restore a copy")
            }
            _ => message,
        })
    }
}

/// Opens the database in a directory.
pub fn open(directory: &Path, create: bool, pool_mib: usize) -> Result<Database, Failure> {
    let pool_bytes = pool_mib.checked_mul(1 << 20).ok_or_else(|| {
        Failure(format!("a buffer pool of {pool_mib} MiB is more than this machine can address"))
    })?;
    Database::open(directory, Options { create, pool_bytes, ..Options::default() })
        .map_err(|error| Failure::of_engine(directory, &error))
}

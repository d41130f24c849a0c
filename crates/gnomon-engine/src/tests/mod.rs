//! Tests of the whole engine.

#[cfg(not(shuttle))]
mod crash_sweep;
#[cfg(shuttle)]
mod schedules;
#[cfg(not(shuttle))]
mod stress;
#[cfg(not(shuttle))]
mod swapped_files;
#[cfg(not(shuttle))]
mod transactions;

use crate::{Options, Recovery};

/// Returns the recovery method that the environment variable `GNOMON_RECOVERY` names, for databases of tests that choose
/// none.
pub(crate) fn recovery() -> Option<Recovery> {
    let name = std::env::var("GNOMON_RECOVERY").ok()?;
    Some(Recovery::from_name(&name).expect("the variable names a method"))
}

impl Options {
    /// Returns options for tests of what only databases have that recover by shadow paging.
    pub fn shadow() -> Options {
        Options { recovery: Some(Recovery::Shadow), ..Options::default() }
    }
}

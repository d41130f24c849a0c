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

impl Options {
    /// Returns options for tests of what only databases have that recover by shadow paging.
    pub fn shadow() -> Options {
        Options { recovery: Some(Recovery::Shadow), ..Options::default() }
    }
}

//! Counts of statements that sessions of a member of a cluster run again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of statements that were run again.
#[derive(Debug, Default)]
pub struct RetryCounts {
    run_again: AtomicU64,
    given_up: AtomicU64,
}

impl RetryCounts {
    /// Returns how often a statement was run again.
    pub fn run_again(&self) -> u64 {
        self.run_again.load(Ordering::Relaxed)
    }

    /// Returns how many statements failed all the same: run as often as they may be, or known to the client in part.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Counts a statement that is run again.
    pub(crate) fn count_again(&self) {
        self.run_again.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a statement that fails all the same.
    pub(crate) fn count_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }
}

//! Spreads threads over several places, so that they seldom contend for one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The calling thread's place of so many: threads take them in turn. All that are scheduled have the same one.
pub fn slot_of_thread(slots: usize) -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number % slots)
}

//! The thread that reads all copies of all pages again and again, at a set rate, so that damage is found while there is
//! another copy: what is damaged gets a new copy, what has none is reported once.
//!
//! A pass begins a minute after the one before began, or when that has ended. Between two steps nothing is held.

use super::join;
use crate::{
    Result,
    env::Clock,
    recovery::Copies,
    store::{Finding, ScrubReport},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
        thread,
    },
    txn,
};
use std::{collections::BTreeSet, time::Duration};

/// Bytes that are read in a step, about.
const STEP_BYTES: u64 = 256 << 10;
/// Time between the beginnings of two passes, at least.
const PASS_INTERVAL: Duration = Duration::from_secs(60);
/// Number of damaged pages that are remembered as reported.
const KNOWN_MAX: usize = 10_000;

/// The progress of the background scrub since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Bytes that it may read in a second; none if it does not scrub.
    pub bytes_per_second: u64,
    /// Copies of pages that were read and checked.
    pub copies_checked: u64,
    /// Their bytes.
    pub bytes_checked: u64,
    /// Copies that were damaged, and were made anew.
    pub repaired: u64,
    /// Damaged copies of pages of which nothing whole is left: each counts once.
    pub lost: u64,
    /// Number of passes that have read everything.
    pub passes: u64,
    /// The logical page that the present pass is at.
    pub position: u64,
    /// The logical pages in all.
    pub end: u64,
}

#[derive(Default)]
pub(super) struct Scrubber {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    counters: Counters,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct Counters {
    bytes_per_second: AtomicU64,
    copies_checked: AtomicU64,
    bytes_checked: AtomicU64,
    repaired: AtomicU64,
    lost: AtomicU64,
    passes: AtomicU64,
    position: AtomicU64,
    end: AtomicU64,
}

#[derive(Default)]
struct State {
    stopped: bool,
    thread: Option<thread::JoinHandle<()>>,
}

impl Scrubber {
    /// Begins to scrub, or goes on at another rate. Nothing is scrubbed at a rate of 0.
    pub fn set_rate(&self, inner: &Arc<txn::Shared>, clock: &Arc<dyn Clock>, bytes_per_second: u64) {
        self.shared.counters.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
        let mut state = self.shared.state.lock();
        if state.thread.is_none() && !state.stopped && bytes_per_second > 0 {
            let (shared, inner, clock) = (self.shared.clone(), inner.clone(), clock.clone());
            state.thread = Some(thread::spawn(move || run(&shared, &inner, &*clock)));
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    pub fn progress(&self) -> ScrubProgress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        ScrubProgress {
            bytes_per_second: read(&counters.bytes_per_second),
            copies_checked: read(&counters.copies_checked),
            bytes_checked: read(&counters.bytes_checked),
            repaired: read(&counters.repaired),
            lost: read(&counters.lost),
            passes: read(&counters.passes),
            position: read(&counters.position),
            end: read(&counters.end),
        }
    }

    /// Ends the thread, after the step that it is at.
    pub fn stop(&self) {
        let thread = {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            state.thread.take()
        };
        self.shared.changed.notify_one();
        join(thread);
    }
}

fn run(shared: &Shared, inner: &txn::Shared, clock: &dyn Clock) {
    let Some(copies) = inner.method.copies() else { return };
    let mut known = BTreeSet::new();
    loop {
        let began = clock.now();
        // The next user of the disk reports a failure that stops the database; damage is counted.
        let passed = pass(shared, inner, copies, &mut known);
        let rest = PASS_INTERVAL.saturating_sub(clock.now().saturating_sub(began));
        if passed.is_err() || !shared.wait(rest) {
            return;
        }
    }
}

/// Reads everything once; an error, or stopped in between, ends the pass before that.
fn pass(
    shared: &Shared,
    inner: &txn::Shared,
    copies: &Copies,
    known: &mut BTreeSet<(String, u64)>,
) -> Result<()> {
    let counters = &shared.counters;
    let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
    let mut next = Some(0);
    while let Some(from) = next {
        let mut report = ScrubReport::default();
        counters.position.store(from, Ordering::Relaxed);
        counters.end.store(inner.store.stats().logical_pages, Ordering::Relaxed);
        next = copies.scrub_some(from, STEP_BYTES, &mut report)?;
        add(&counters.copies_checked, report.copies_checked);
        add(&counters.bytes_checked, report.bytes_checked);
        add(&counters.repaired, report.repaired.len() as u64);
        for Finding { file, page, detail, .. } in &report.repaired {
            copies.report(format!("{file}, page {page}: {detail}; repaired from its copy"));
        }
        for Finding { file, page, detail, .. } in report.lost {
            let is_new = known.len() < KNOWN_MAX && known.insert((file.clone(), page));
            if is_new {
                add(&counters.lost, 1);
                copies
                    .report(format!("{file}, page {page}: {detail}; it has no other copy: restore a backup"));
            }
        }
        let rate = counters.bytes_per_second.load(Ordering::Relaxed).max(1);
        if !shared.wait(Duration::from_secs_f64(report.bytes_checked as f64 / rate as f64)) {
            return Ok(());
        }
    }
    add(&counters.passes, 1);
    Ok(())
}

impl Shared {
    /// Waits for so long, and while the rate is 0, for another one. Returns false if the thread is to end.
    fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && !time.is_zero() {
            self.changed.wait_for(&mut state, time);
        }
        while !state.stopped && self.counters.bytes_per_second.load(Ordering::Relaxed) == 0 {
            self.changed.wait(&mut state);
        }
        !state.stopped
    }
}

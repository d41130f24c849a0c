//! Statistics of the database's use since it was opened: transactions, and accesses to tables and indexes.
//!
//! Each session counts for itself; to read them, the counts of all sessions are added to those of the sessions that
//! have ended.

use gnomon_engine::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use std::collections::HashMap;

use crate::{
    catalog::{model::Oid, system::Analyzed},
    query::{AccessCounts, ByRelation},
};

/// Number of sessions and transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transactions {
    /// Sessions that were begun.
    pub sessions: u64,
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
}

/// The counts of one session.
#[derive(Debug, Default)]
struct SessionCounts {
    accesses: Arc<AccessCounts>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
}

/// Sums of the sessions that have ended, and the sessions that are there.
#[derive(Debug, Default)]
struct Sums {
    accesses: ByRelation,
    transactions: Transactions,
    sessions: Vec<Arc<SessionCounts>>,
    /// The tables that were analyzed.
    analyzed: HashMap<Oid, Analyzed>,
    /// When they were reset, in microseconds since 2000-01-01 00:00 UTC.
    reset: Option<i64>,
}

/// The statistics of a database.
#[derive(Debug, Default)]
pub(crate) struct Statistics(Mutex<Sums>);

impl Statistics {
    /// Begins to count for a session.
    pub(crate) fn session(self: &Arc<Self>) -> Counting {
        let counts = Arc::<SessionCounts>::default();
        let mut sums = self.0.lock();
        sums.transactions.sessions += 1;
        sums.sessions.push(counts.clone());
        Counting { statistics: self.clone(), counts }
    }

    /// Returns the accesses of all sessions by transactions that have ended.
    pub(crate) fn accesses(&self) -> ByRelation {
        let sums = self.0.lock();
        let mut all = sums.accesses.clone();
        sums.sessions.iter().for_each(|session| all.add(&session.accesses.ended()));
        all
    }

    /// Returns the transactions of all sessions.
    pub(crate) fn transactions(&self) -> Transactions {
        let sums = self.0.lock();
        let mut all = sums.transactions;
        for session in &sums.sessions {
            all.committed += session.committed.load(Ordering::Relaxed);
            all.rolled_back += session.rolled_back.load(Ordering::Relaxed);
        }
        all
    }

    /// Notes that tables were analyzed at a time.
    pub(crate) fn note_analyzed(&self, tables: Vec<Oid>, now: i64) {
        let counts = self.accesses();
        let mut sums = self.0.lock();
        for table in tables {
            let changed = counts.of_table(table).changed;
            let analyzed = sums.analyzed.entry(table).or_default();
            *analyzed = Analyzed { last: now, count: analyzed.count + 1, changed };
        }
    }

    /// Returns how often and when a table was analyzed, if it was.
    pub(crate) fn analyzed(&self, table: Oid) -> Option<Analyzed> {
        self.0.lock().analyzed.get(&table).copied()
    }

    /// Returns when the counts were reset, in microseconds since 2000-01-01 00:00 UTC; none since the start.
    pub(crate) fn reset_time(&self) -> Option<i64> {
        self.0.lock().reset
    }

    /// Begins again at zero.
    pub(crate) fn reset(&self, now: i64) {
        let mut sums = self.0.lock();
        for session in &sums.sessions {
            session.accesses.take_ended();
            session.committed.store(0, Ordering::Relaxed);
            session.rolled_back.store(0, Ordering::Relaxed);
        }
        let sessions = std::mem::take(&mut sums.sessions);
        *sums = Sums { sessions, reset: Some(now), ..Sums::default() };
    }
}

/// A session's part in the statistics, which keep its counts when it goes.
#[derive(Debug)]
pub(crate) struct Counting {
    statistics: Arc<Statistics>,
    counts: Arc<SessionCounts>,
}

impl Counting {
    /// The counts of the session's accesses.
    pub(crate) fn accesses(&self) -> Arc<AccessCounts> {
        self.counts.accesses.clone()
    }

    /// Counts the end of a transaction.
    pub(crate) fn ended(&self, committed: bool) {
        let count = if committed { &self.counts.committed } else { &self.counts.rolled_back };
        count.fetch_add(1, Ordering::Relaxed);
        self.counts.accesses.end_transaction(committed);
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.counts.accesses.end_transaction(false);
        let mut sums = self.statistics.0.lock();
        sums.sessions.retain(|session| !Arc::ptr_eq(session, &self.counts));
        sums.accesses.add(&self.counts.accesses.take_ended());
        sums.transactions.committed += self.counts.committed.load(Ordering::Relaxed);
        sums.transactions.rolled_back += self.counts.rolled_back.load(Ordering::Relaxed);
    }
}

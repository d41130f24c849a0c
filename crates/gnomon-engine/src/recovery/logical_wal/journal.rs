//! The logical WAL as the journal of a store with shadow paging.

use super::{CommitLog, Pending, Unread, cost::is_call_cheaper};
use crate::{
    Csn, Result,
    disk::Disk,
    mvcc::Keyspace,
    recovery::{
        Command, Records, Recovering, Recovery, Setup,
        open::Replaying,
        shadow::{Journal, Logged},
    },
    store::{
        GroupCommit,
        shadow::{PageTxn, ShadowStore},
    },
    sync::{Arc, Mutex, OnceLock},
    wal::LogCounts,
    write_set::WriteSet,
};
use std::time::Duration;

/// The logical WAL of a database.
pub(in crate::recovery) struct Wal {
    records: Records,
    /// Until it was replayed. None if there is none to be read, and none is to be made.
    unread: Mutex<Option<Unread>>,
    /// When it was replayed.
    log: OnceLock<Arc<CommitLog>>,
    how: How,
}

/// How the log is kept and replayed.
#[derive(Clone, Copy)]
pub(in crate::recovery) struct How {
    pub replay: Replaying,
    pub log_bytes_max: u64,
    pub group_commit_interval: Duration,
}

impl Wal {
    /// Finds the log that goes with a store, or makes that of a new one.
    pub fn find(
        disk: &Arc<dyn Disk>,
        store: &Arc<ShadowStore>,
        setup: &Setup<'_>,
        records: Records,
    ) -> Result<Wal> {
        let segment_bytes = setup.logs.segment_bytes;
        let unread = match store.is_new() {
            true => Some(Unread::create(disk, store, segment_bytes, 1)?),
            false => Unread::find(disk, store, segment_bytes, setup.is_read_only())?,
        };
        let how = How {
            replay: setup.replay,
            log_bytes_max: setup.log_bytes_max,
            group_commit_interval: setup.group_commit_interval,
        };
        Ok(Wal { records, unread: Mutex::new(unread), log: OnceLock::new(), how })
    }

    #[cfg(all(test, not(shuttle)))]
    pub fn commit_log(&self) -> Option<&Arc<CommitLog>> {
        self.log.get()
    }
}

impl Journal for Wal {
    type Record = Option<Pending>;

    fn recovery(&self) -> Recovery {
        Recovery::CommitLog(self.records)
    }

    fn measures_calls(&self) -> bool {
        self.records == Records::Cheaper
    }

    fn is_logging(&self) -> bool {
        self.log.get().is_some()
    }

    fn recover(
        &self,
        store: &Arc<ShadowStore>,
        keyspace: &Keyspace,
        recovering: Recovering<'_>,
    ) -> Result<()> {
        let Some(unread) = self.unread.lock().take() else { return Ok(()) };
        let log = CommitLog::open(store, keyspace, unread, &self.how, recovering)?;
        let _ = self.log.set(log);
        Ok(())
    }

    fn prefers_call(&self, command: &Command, writes: &WriteSet) -> bool {
        let is_preferred = match self.records {
            Records::Values => false,
            Records::Calls => true,
            Records::Cheaper => is_call_cheaper(command, writes, self.how.replay.weight),
        };
        // Trees have numbers that another run would not give them.
        is_preferred && writes.trees().all(|(_, writes)| writes.created == writes.dropped)
    }

    fn record(&self, change: &Logged<'_>) -> Result<Option<Pending>> {
        self.log.get().map(|log| log.prepare(change)).transpose()
    }

    fn record_bytes(record: &Option<Pending>) -> usize {
        record.as_ref().map_or(0, Pending::bytes)
    }

    fn order(record: Option<Pending>, pages: &mut PageTxn<'_>) -> Csn {
        match record {
            Some(record) => record.append(pages),
            None => pages.take_csn(),
        }
    }

    fn last_durable(&self, store: &ShadowStore) -> Csn {
        self.log.get().map_or_else(|| store.durable_csn(), |log| log.durable_csn())
    }

    fn wait_durable(&self, store: &ShadowStore, csn: Csn) -> Result<()> {
        match self.log.get() {
            Some(log) => log.wait_durable(csn),
            None => store.wait_durable(csn),
        }
    }

    fn when_durable(&self, store: &Arc<ShadowStore>, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>) {
        match self.log.get() {
            Some(log) => log.when_durable(csn, call),
            None => store.when_durable(csn, call),
        }
    }

    fn wants_checkpoint(&self) -> bool {
        self.log.get().is_some_and(|log| log.wants_checkpoint())
    }

    fn checkpoint(&self) -> Result<()> {
        self.log.get().map_or(Ok(()), |log| log.checkpoint())
    }

    fn log(&self) -> (u64, Option<LogCounts>) {
        self.log.get().map_or((0, None), |log| (log.live_bytes(), Some(log.counts())))
    }

    fn close(&self, store: &ShadowStore) -> Result<()> {
        match self.log.get() {
            Some(log) => log.close(),
            None => store.close(),
        }
    }
}

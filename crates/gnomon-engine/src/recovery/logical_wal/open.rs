//! The log of a database, from its opening on: found or made, then replayed.

use super::{CommitLog, Unread, cost::is_call_cheaper};
use crate::{
    Result,
    disk::Disk,
    mvcc::Keyspace,
    recovery::{Command, Records, Recovering, Replaying, Setup},
    store::shadow::ShadowStore,
    sync::{Arc, Mutex, OnceLock},
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

    /// Replays what a crash has left.
    pub fn replay(
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

    /// Returns the log, when it was replayed.
    pub fn log(&self) -> Option<&Arc<CommitLog>> {
        self.log.get()
    }

    /// Returns the kind of its records.
    pub fn records(&self) -> Records {
        self.records
    }

    /// True if it wants to know how long calls of procedures take.
    pub fn measures_calls(&self) -> bool {
        self.records == Records::Cheaper
    }

    /// True if a transaction that a call stands for is logged as that call.
    pub fn prefers_call(&self, command: &Command, writes: &WriteSet) -> bool {
        let is_preferred = match self.records {
            Records::Values => false,
            Records::Calls => true,
            Records::Cheaper => is_call_cheaper(command, writes, self.how.replay.weight),
        };
        // Trees have numbers that another run would not give them.
        is_preferred && writes.trees().all(|(_, writes)| writes.created == writes.dropped)
    }
}

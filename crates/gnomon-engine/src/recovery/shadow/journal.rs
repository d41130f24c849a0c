//! The journal of commits: what is kept of each beside its pages.

use super::super::{Command, Recovering, Recovery};
use crate::{
    Csn, Result,
    mvcc::Keyspace,
    store::{
        GroupCommit,
        shadow::{PageTxn, ShadowStore},
    },
    sync::Arc,
    wal::LogCounts,
    write_set::WriteSet,
};

/// The changes of a commit, as they are logged.
pub(in crate::recovery) enum Logged<'a> {
    /// More than a record has: the commit is not acknowledged before a root has it.
    InRoot,
    /// Writes.
    Writes(&'a WriteSet),
    /// Stores the entry of a prepared transaction, which consists of these parts.
    Entry { gid: &'a str, parts: &'a [Vec<u8>] },
    /// Removes an entry of so many parts, and writes.
    End { gid: &'a str, parts: u32, writes: &'a WriteSet },
    /// All that a procedure does, as a call of it.
    Call(&'a Command),
}

/// A journal of the commits of a store with shadow paging.
pub(in crate::recovery) trait Journal: Send + Sync {
    /// A record that is to be appended, and the room for it.
    type Record;

    fn recovery(&self) -> Recovery;

    /// True if it wants to know how long calls of procedures take.
    fn measures_calls(&self) -> bool;

    /// True if a commit is durable by its record.
    fn is_logging(&self) -> bool;

    /// Replays what a crash has left.
    fn recover(
        &self,
        store: &Arc<ShadowStore>,
        keyspace: &Keyspace,
        recovering: Recovering<'_>,
    ) -> Result<()>;

    /// True if a transaction that a call stands for is logged as that call.
    fn prefers_call(&self, command: &Command, writes: &WriteSet) -> bool;

    /// Makes the record of a commit, and room for it.
    fn record(&self, change: &Logged<'_>) -> Result<Self::Record>;

    /// Returns the bytes of a record.
    fn record_bytes(record: &Self::Record) -> usize;

    /// Takes the CSN of a page transaction, and its place in the journal in one step.
    fn order(record: Self::Record, pages: &mut PageTxn<'_>) -> Csn;

    fn last_durable(&self, store: &ShadowStore) -> Csn;

    fn wait_durable(&self, store: &ShadowStore, csn: Csn) -> Result<()>;

    fn when_durable(&self, store: &Arc<ShadowStore>, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>);

    fn wants_checkpoint(&self) -> bool;

    /// Writes a root that has every commit so far, and gives up their records.
    fn checkpoint(&self) -> Result<()>;

    /// As [`Method::log`](super::Method::log).
    fn log(&self) -> (u64, Option<LogCounts>);

    /// Makes everything durable; nothing may be committed any more.
    fn close(&self, store: &ShadowStore) -> Result<()>;
}

/// No journal: a commit is durable by its batch.
pub(in crate::recovery) struct NoJournal;

impl Journal for NoJournal {
    type Record = ();

    fn recovery(&self) -> Recovery {
        Recovery::Shadow
    }

    fn measures_calls(&self) -> bool {
        false
    }

    fn is_logging(&self) -> bool {
        false
    }

    fn recover(
        &self,
        _store: &Arc<ShadowStore>,
        _keyspace: &Keyspace,
        _recovering: Recovering<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn prefers_call(&self, _command: &Command, _writes: &WriteSet) -> bool {
        false
    }

    fn record(&self, _change: &Logged<'_>) -> Result<()> {
        Ok(())
    }

    fn record_bytes(_record: &()) -> usize {
        0
    }

    fn order(_record: (), pages: &mut PageTxn<'_>) -> Csn {
        pages.take_csn()
    }

    fn last_durable(&self, store: &ShadowStore) -> Csn {
        store.durable_csn()
    }

    fn wait_durable(&self, store: &ShadowStore, csn: Csn) -> Result<()> {
        store.wait_durable(csn)
    }

    fn when_durable(&self, store: &Arc<ShadowStore>, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>) {
        store.when_durable(csn, call);
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    fn log(&self) -> (u64, Option<LogCounts>) {
        (0, None)
    }

    fn close(&self, store: &ShadowStore) -> Result<()> {
        store.close()
    }
}

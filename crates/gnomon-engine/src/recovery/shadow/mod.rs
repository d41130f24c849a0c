//! Shadow paging: deferred updates on pages that go to free space, and become the database's by a new superblock
//! (Shadows, 1995). Nothing is undone.
//!
//! A commit reserves space for its pages and reads the leaves that it changes, enters the store's gate, takes its CSN,
//! and applies its write set under latches ([`apply`]). It is durable when a commit batch has it; or, where a
//! [`Journal`] keeps a record of each commit, when that does, and commit batches are checkpoints.

mod apply;
mod copies;
mod estimate;
mod journal;
mod open;
mod prepared;
mod reclaim;
mod verify;

use std::io::Write;

pub(super) use apply::{create, in_parts};
pub(crate) use copies::Copies;
pub(super) use estimate::{LeavesChanged, leaves_of, pages_changed, pages_of_entry};
pub(super) use journal::{Journal, Logged, NoJournal};
pub(super) use open::{open_store, recovery_of};
pub(crate) use prepared::KeptSpace;
pub(crate) use verify::{VerifiedPages, verify_pages};

use super::{
    Access, Commit, Commits, Due, EndOfEntry, Grown, Method, NewEntry, Properties, Recovering, Recovery,
};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    access::{Directory, StoredProcedure},
    env::{Clock, SystemClock},
    failpoint::Failpoint,
    lock::LockManager,
    mvcc::Keyspace,
    page::PageCounts,
    store::{
        GroupCommit,
        shadow::{Backup, BackupId, PinnedRoot, PrivatePages, ShadowStore},
    },
    sync::{
        Arc, Line,
        atomic::{AtomicU64, Ordering},
    },
    wal::LogCounts,
};

/// Shadow paging, with a journal of commits or without.
pub(super) struct ShadowPaging<J> {
    store: Arc<ShadowStore>,
    journal: J,
    copies: Copies,
    commits: Commits,
    next_txn: Line<AtomicU64>,
}

impl<J: Journal> ShadowPaging<J> {
    /// Makes the method of an open store.
    ///
    /// # Errors
    /// [`Error::BadOption`] if commits are not to be forced, and the journal would.
    pub fn new(store: Arc<ShadowStore>, journal: J, commits: Commits) -> Result<ShadowPaging<J>> {
        if commits == Commits::Unforced {
            if journal.recovery() != Recovery::Shadow {
                return Err(super::unforced_by_log());
            }
            store.let_pages_wait();
        }
        let copies = Copies::new(store.clone(), journal.recovery() == Recovery::Shadow);
        Ok(ShadowPaging { store, journal, copies, commits, next_txn: Line(AtomicU64::new(1)) })
    }

    #[cfg(all(test, not(shuttle)))]
    pub fn journal(&self) -> &J {
        &self.journal
    }
}

impl<J: Journal + 'static> Method for ShadowPaging<J> {
    fn recovery(&self) -> Recovery {
        self.journal.recovery()
    }

    fn properties(&self) -> Properties {
        Properties {
            has_private_pages: true,
            is_replicable: true,
            measures_calls: self.journal.measures_calls(),
            ..Properties::default()
        }
    }

    fn create_directory(&self, _locks: &Arc<LockManager>) -> Result<Directory> {
        let pages = self.store.begin(1)?;
        let directory = Directory::create(&pages)?;
        if let Some(code) = self.recovery().code() {
            directory.set_recovery(&pages, code)?;
        }
        drop(pages);
        self.store.flush()?;
        Ok(directory)
    }

    fn recover(&self, keyspace: &Keyspace, recovering: Recovering<'_>) -> Result<()> {
        let access = recovering.access;
        self.journal.recover(&self.store, keyspace, recovering)?;
        if access == Access::Read {
            self.store.end_writing();
        }
        Ok(())
    }

    fn store_procedures(&self, keyspace: &Keyspace, procedures: &[StoredProcedure]) -> Result<()> {
        if !self.journal.is_logging() || procedures.is_empty() {
            return Ok(());
        }
        let pages = self.store.begin(PROCEDURE_PAGES * procedures.len() as u64)?;
        let stored =
            procedures.iter().try_for_each(|procedure| keyspace.directory.set_procedure(&pages, procedure));
        // A page transaction has no way back.
        stored.map_err(|error| self.store.poison(&error))?;
        drop(pages);
        self.journal.checkpoint()
    }

    fn close(&self) -> Result<()> {
        self.journal.close(&self.store)
    }

    fn new_txn_id(&self) -> TxnId {
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    fn private_pages(&self, cached: usize) -> Option<PrivatePages> {
        Some(PrivatePages::new(&self.store, cached))
    }

    fn pin(&self) -> Result<Arc<PinnedRoot>> {
        self.store.flush()?;
        Ok(Arc::new(self.store.pin()))
    }

    fn commit(&self, keyspace: &Keyspace, commit: Commit<'_>) -> Result<(Csn, Grown)> {
        let Commit { mut writes, pages: private, command, by_value, .. } = commit;
        let record = self.journal.record(&match (&private, command) {
            (Some(_), _) => Logged::InRoot,
            (None, Some(command)) if !by_value && self.journal.prefers_call(command, &writes) => {
                Logged::Call(command)
            }
            (None, _) => Logged::Writes(&writes),
        })?;
        let pages =
            apply::begin(keyspace, &self.store, &mut writes, private.as_ref(), self.journal.is_logging())?;
        // Inside the gate: closing the database waits for it, and then makes everything durable.
        keyspace.check_open()?;
        if let Some(command) = command {
            command.counts.note_commit(J::record_bytes(&record));
        }
        let take_csn = |pages: &mut crate::store::shadow::PageTxn<'_>| J::order(record, pages);
        apply::apply_in_order(keyspace, pages, take_csn, writes, |pages, csn| {
            if let Some(private) = private {
                apply::publish(keyspace, pages, csn, private);
            }
            if keyspace.store.failpoints().is_on(Failpoint::WatermarkOutOfOrder) {
                keyspace.timeline.jump(csn);
            }
            Ok(())
        })
    }

    fn prepare(&self, keyspace: &Keyspace, entry: NewEntry<'_>) -> Result<(Csn, Option<KeptSpace>)> {
        self.prepare_entry(keyspace, entry)
    }

    fn keep_space(&self, pages: PageCounts, entry_bytes: u64) -> Result<Option<KeptSpace>> {
        KeptSpace::again(&self.store, pages, entry_bytes).map(Some)
    }

    fn end_prepared(&self, keyspace: &Keyspace, end: EndOfEntry<'_>) -> Result<(Csn, Grown)> {
        self.end_entry(keyspace, end)
    }

    fn last_durable(&self) -> Csn {
        self.journal.last_durable(&self.store)
    }

    fn wait_durable(&self, csn: Csn) -> Result<()> {
        self.journal.wait_durable(&self.store, csn)
    }

    fn when_durable(&self, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>) {
        self.journal.when_durable(&self.store, csn, call);
    }

    fn due(&self) -> Due {
        let is_forced = self.commits != Commits::Unforced;
        Due {
            confirm: is_forced && !self.store.batcher.is_confirmed(),
            repair: self.store.repairer.wants_repair(),
            checkpoint: self.journal.wants_checkpoint()
                || !is_forced && self.store.batcher.has_many_dirty_pages(),
            clean: false,
            move_pages: self.store.cleaner.wants_cleaning(),
        }
    }

    fn take_due_checkpoint(&self) -> Result<()> {
        match self.journal.is_logging() {
            true => self.journal.checkpoint(),
            false => self.store.flush(),
        }
    }

    fn clean_some(&self) -> bool {
        // An error other than of the disk, which stops the database, is damage: others will find it.
        self.store.cleaner.clean_some().unwrap_or(false)
    }

    fn confirm(&self) {
        // A failure poisons the store.
        let _ = self.store.batcher.confirm();
    }

    fn reclaim_some(&self, keyspace: &Keyspace, is_in_use: &dyn Fn(TreeId) -> bool) -> Result<bool> {
        reclaim::reclaim_some(keyspace, &self.store, is_in_use)
    }

    fn checkpoint(&self) -> Result<()> {
        self.journal.checkpoint()
    }

    fn log(&self) -> (u64, Option<LogCounts>) {
        self.journal.log()
    }

    fn backup(
        &self,
        since: Option<BackupId>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        self.store.check()?;
        if !self.store.is_read_only() {
            // Commits that no thread has waited for belong to the backup.
            self.store.flush()?;
        } else if !self.store.was_closed() {
            return Err(Error::BadOption(
                "the database was not closed, and is open for reading only: open it for writing once, which recovers it, then back it up".into(),
            ));
        }
        self.store.pin().backup(since, SystemClock::new().unix_time(), out, progress)
    }

    fn copies(&self) -> Option<&Copies> {
        Some(&self.copies)
    }
}

/// Number of pages that change at most when the directory gets another procedure.
const PROCEDURE_PAGES: u64 = 8;

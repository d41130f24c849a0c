//! Deferred updates: the changes of a transaction reach the pages when it commits (Shadows, 1995). Nothing is undone.
//!
//! A commit reserves space for its pages and reads the leaves that it changes, enters the store's gate, takes its CSN,
//! and applies its write set under latches ([`GatedCommit`]). Pages go to free space, and become the database's by a
//! commit batch, which ends with a new superblock. A logical WAL beside the pages changes the rest:
//!
//! | | shadow paging | with a logical WAL |
//! |---|---|---|
//! | a commit is durable by | its commit batch | its record, which has its place in the log in one step with the CSN |
//! | a commit batch is | the next step of commits that wait | a checkpoint: the log before it is given up |
//! | opening | the last superblock has everything | commits behind the last superblock are replayed |
//! | commits that write a batch on a full disk, and try again | those that give space back | all |
//! | disks | several | one |
//! | commits that are not forced | if they are asked for | none |
//!
//! A database that is open for reading only has no log if there is nothing to replay.

use std::io::Write;

use super::{
    Access, Commit, Commits, Due, EndOfEntry, Grown, Method, NewEntry, Properties, Recovering, Recovery,
    logical_wal::{CommitLog, Logged, Pending, Wal},
    shadow::{Copies, GatedCommit, KeptSpace, begin_commit, begin_entry, reclaim_some},
    unforced_by_log,
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
        shadow::{Backup, BackupId, PageTxn, PinnedRoot, PrivatePages, ShadowStore},
    },
    sync::{
        Arc, Line,
        atomic::{AtomicU64, Ordering},
    },
    wal::LogCounts,
    write_set::WriteSet,
};

/// Number of pages that change at most when the directory gets another procedure.
const PROCEDURE_PAGES: u64 = 8;

/// Deferred updates of a store with shadow paging, with a log of commits or without.
pub(super) struct DeferredUpdates {
    store: Arc<ShadowStore>,
    wal: Option<Wal>,
    copies: Copies,
    commits: Commits,
    next_txn: Line<AtomicU64>,
}

impl DeferredUpdates {
    /// Makes the method of an open store.
    ///
    /// # Errors
    /// [`Error::BadOption`] if commits are not to be forced, and the log would.
    pub fn new(store: Arc<ShadowStore>, wal: Option<Wal>, commits: Commits) -> Result<DeferredUpdates> {
        if commits == Commits::Unforced {
            if wal.is_some() {
                return Err(unforced_by_log());
            }
            store.let_pages_wait();
        }
        let copies = Copies::new(store.clone(), wal.is_none());
        Ok(DeferredUpdates { store, wal, copies, commits, next_txn: Line(AtomicU64::new(1)) })
    }

    /// Returns the log, if there is one and it was replayed.
    pub fn commit_log(&self) -> Option<&Arc<CommitLog>> {
        self.wal.as_ref()?.log()
    }

    /// Makes the record of a commit, and room for it, if there is a log.
    fn record(&self, change: &Logged<'_>) -> Result<Option<Pending>> {
        self.commit_log().map(|log| log.prepare(change)).transpose()
    }
}

/// Takes the CSN of a commit, and in one step the place of its record in the log, if there is one.
fn take_csn(record: Option<Pending>, pages: &mut PageTxn<'_>) -> Csn {
    match record {
        Some(record) => record.append(pages),
        None => pages.take_csn(),
    }
}

impl Method for DeferredUpdates {
    fn recovery(&self) -> Recovery {
        self.wal.as_ref().map_or(Recovery::Shadow, |wal| Recovery::CommitLog(wal.records()))
    }

    fn properties(&self) -> Properties {
        Properties {
            has_private_pages: true,
            is_replicable: true,
            measures_calls: self.wal.as_ref().is_some_and(Wal::measures_calls),
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
        if let Some(wal) = &self.wal {
            wal.replay(&self.store, keyspace, recovering)?;
        }
        if access == Access::Read {
            self.store.end_writing();
        }
        Ok(())
    }

    fn store_procedures(&self, keyspace: &Keyspace, procedures: &[StoredProcedure]) -> Result<()> {
        let Some(log) = self.commit_log() else { return Ok(()) };
        if procedures.is_empty() {
            return Ok(());
        }
        let pages = self.store.begin(PROCEDURE_PAGES * procedures.len() as u64)?;
        let stored =
            procedures.iter().try_for_each(|procedure| keyspace.directory.set_procedure(&pages, procedure));
        // A page transaction has no way back.
        stored.map_err(|error| self.store.poison(&error))?;
        drop(pages);
        log.checkpoint()
    }

    fn close(&self) -> Result<()> {
        match self.commit_log() {
            Some(log) => log.close(),
            None => self.store.close(),
        }
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
        let prefers_call = |command| self.wal.as_ref().is_some_and(|wal| wal.prefers_call(command, &writes));
        let record = self.record(&match (&private, command) {
            (Some(_), _) => Logged::InRoot,
            (None, Some(command)) if !by_value && prefers_call(command) => Logged::Call(command),
            (None, _) => Logged::Writes(&writes),
        })?;
        let mut gated = begin_commit(keyspace, &self.store, &mut writes, private.as_ref(), record.is_some())?;
        if let Some(command) = command {
            command.counts.note_commit(record.as_ref().map_or(0, Pending::bytes));
        }
        let csn = take_csn(record, &mut gated.pages);
        if let Some(private) = private {
            gated.publish(csn, private);
        }
        gated.apply(csn, writes)
    }

    fn prepare(&self, keyspace: &Keyspace, entry: NewEntry<'_>) -> Result<(Csn, Option<KeptSpace>)> {
        let NewEntry { gid, writes, bytes, encode, .. } = entry;
        let (kept, pages_of_end) = KeptSpace::reserve(keyspace, &self.store, writes, bytes)?;
        let parts = encode(pages_of_end)?;
        let record = self.record(&Logged::Entry { gid, parts: &parts })?;
        let mut gated = GatedCommit::enter(keyspace, begin_entry(&self.store, bytes)?)?;
        let csn = take_csn(record, &mut gated.pages);
        let stored = (0..).zip(&parts).try_for_each(|(part, bytes)| {
            keyspace.directory.set_prepared(&gated.pages, gid, part, Some(bytes)).map(drop)
        });
        stored.map_err(|error| self.store.poison(&error))?;
        gated.apply(csn, WriteSet::default())?;
        Ok((csn, Some(kept)))
    }

    fn keep_space(&self, pages: PageCounts, entry_bytes: u64) -> Result<Option<KeptSpace>> {
        KeptSpace::again(&self.store, pages, entry_bytes).map(Some)
    }

    fn end_prepared(&self, keyspace: &Keyspace, end: EndOfEntry<'_>) -> Result<(Csn, Grown)> {
        let EndOfEntry { gid, parts, writes, kept } = end;
        let kept = kept.as_mut().expect("space is kept in such a store");
        if keyspace.store.failpoints().is_on(Failpoint::EntryRemovedFirst) {
            let pages = self.store.begin(kept.pages_removed)?;
            keyspace.directory.remove_prepared(&pages, gid, parts)?;
            drop(pages);
            self.store.flush()?;
        }
        let nothing = WriteSet::default();
        let applied = writes.as_deref().unwrap_or(&nothing);
        kept.cover(keyspace, applied)?;
        let record = self.record(&Logged::End { gid, parts, writes: applied })?;
        let mut gated = GatedCommit::enter(keyspace, kept.begin()?)?;
        let csn = take_csn(record, &mut gated.pages);
        let removed = keyspace.directory.remove_prepared(&gated.pages, gid, parts);
        removed.map_err(|error| self.store.poison(&error))?;
        gated.apply(csn, writes.map(std::mem::take).unwrap_or_default())
    }

    fn last_durable(&self) -> Csn {
        self.commit_log().map_or_else(|| self.store.durable_csn(), |log| log.durable_csn())
    }

    fn wait_durable(&self, csn: Csn) -> Result<()> {
        match self.commit_log() {
            Some(log) => log.wait_durable(csn),
            None => self.store.wait_durable(csn),
        }
    }

    fn when_durable(&self, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>) {
        match self.commit_log() {
            Some(log) => log.when_durable(csn, call),
            None => self.store.when_durable(csn, call),
        }
    }

    fn due(&self) -> Due {
        let is_forced = self.commits != Commits::Unforced;
        Due {
            confirm: is_forced && !self.store.batcher.is_confirmed(),
            repair: self.store.repairer.wants_repair(),
            checkpoint: self.commit_log().is_some_and(|log| log.wants_checkpoint())
                || !is_forced && self.store.batcher.has_many_dirty_pages(),
            clean: false,
            move_pages: self.store.cleaner.wants_cleaning(),
        }
    }

    fn take_due_checkpoint(&self) -> Result<()> {
        match self.commit_log() {
            Some(log) => log.take_due_checkpoint(),
            None => self.store.flush(),
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
        reclaim_some(keyspace, &self.store, is_in_use)
    }

    fn checkpoint(&self) -> Result<()> {
        self.commit_log().map_or(Ok(()), |log| log.checkpoint())
    }

    fn log(&self) -> (u64, Option<LogCounts>) {
        self.commit_log().map_or((0, None), |log| (log.live_bytes(), Some(log.counts())))
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

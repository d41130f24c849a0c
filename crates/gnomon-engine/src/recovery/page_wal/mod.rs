//! Page WAL: immediate updates of pages in their places behind a log of them, and transactions that are undone by
//! operations (Hasse and Weikum: A Performance Evaluation of Multi-Level Transaction Management, 1991, section 2).
//!
//! With two levels, keys are changed in their trees when an operation ends, by a subtransaction of the store. An
//! operation is a statement, or a part of it if that is long (`CHANGED_TOGETHER`); a transaction without statements
//! is one operation. The delay cannot be seen within it, since a transaction sees its write set. Until the
//! transaction ends, the lock on the key keeps others from changing it, and its version
//! ([`mvcc`](crate::mvcc)) shows readers what is committed. A compensation takes a subtransaction back by
//! doing the reverse, whatever others have made of the same pages since: when the transaction is undone, when it goes
//! back to a savepoint, and for all that were running when the database stopped.
//!
//! What waits for the commit:
//!
//! - Operations on keys that are shared with others ([`op`](crate::op)). Their order is that of commits, so a
//!   commit that applies some holds the mutexes of their keys from then until it has its CSN: no other comes between,
//!   and the value of the key before takes them back.
//! - Trees that are made or dropped. One that is made stands in the directory as dropped until it is whole, so a crash
//!   leaves nothing to be undone but its pages, which are given back as those of any dropped tree.
//! - With one level, everything. The transaction is one subtransaction, which runs when it commits: its page locks are
//!   held from then to its end, and what fails is taken back by images. The locks on keys before that are those that
//!   SQL's isolation needs anyway.
//!
//! A transaction that is undone takes a CSN, too: its changes were in the trees for a moment. That of the last
//! compensation is when they are gone for all readers.

mod changes;
mod commit;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod undo;

use std::collections::BTreeMap;

use super::{
    Commit, Due, EndOfEntry, Grown, KeptSpace, Method, NewEntry, Properties, Recovering, Recovery, Setup,
    TxnState,
};
use crate::{
    Csn, Error, PageId, Result, TreeId, TxnId,
    access::Directory,
    disk::{Disk, Overlay},
    lock::{LockManager, LockOwner},
    mvcc::{Keyspace, PAGES, TreeRef},
    page::PageSize,
    store::{
        GroupCommit, Store,
        page_wal::{Contents, Limits, LoggedStore, Loser, Opening, Strategy},
    },
    sync::{Arc, Mutex},
    wal::LogCounts,
    write_set::WriteSet,
};
use changes::{Changed, Immediate};
use commit::{EntryPart, Keys};

/// Pages of dropped trees given back in one subtransaction.
const RECLAIM_PAGES: usize = 64;

/// The page WAL of a database.
pub(super) struct PageWal {
    store: Arc<LoggedStore>,
    /// The transactions that an earlier run left to be undone.
    losers: Mutex<Vec<Loser>>,
    /// Trees that commits under way make or drop, and dropped trees with the CSN of that: when it is durable, their
    /// pages may be given back.
    unfinished: Mutex<BTreeMap<TreeId, Option<Csn>>>,
}

/// Opens the store that is on a disk, or makes one with the identity `create`.
pub(super) fn open(
    disk: &Arc<dyn Disk>,
    setup: &Setup<'_>,
    create: Option<u64>,
    unit: PageSize,
    strategy: Strategy,
    prepare: impl FnOnce(&mut Store),
) -> Result<(Store, Box<dyn Method>)> {
    let how = Opening {
        create,
        read_only: setup.is_read_only(),
        unit,
        contents: Contents::Trees,
        strategy,
        logs: setup.logs,
        pool_bytes: setup.pool_bytes,
        limits: Limits {
            dirty_bytes_max: setup.pool_bytes / 2,
            log_bytes_max: setup.log_bytes_max,
            sphere_pages_max: setup.sphere_pages_max,
        },
        page_locks: PAGES,
        clock: setup.clock.clone(),
    };
    let (store, losers) = match setup.is_read_only() {
        // What a crash recovery changes is changed in memory.
        true => LoggedStore::open_on(&(Arc::new(Overlay::over(disk.clone())) as Arc<dyn Disk>), how)?,
        false => LoggedStore::open_on(disk, how)?,
    };
    let mut store = Store::Logged(Arc::new(store));
    prepare(&mut store);
    let logged = store.logged().expect("it is one").clone();
    let wal = PageWal { store: logged, losers: Mutex::new(losers), unfinished: Mutex::default() };
    Ok((store, Box::new(wal)))
}

impl PageWal {
    /// True if transactions change keys at once, with two levels.
    fn changes_at_once(&self) -> bool {
        self.store.strategy() != Strategy::SingleLevel
    }

    /// Commits `writes` and the changes of an entry as a transaction of its own.
    fn commit_entry(
        &self,
        keyspace: &Keyspace,
        writes: &WriteSet,
        entry: Vec<EntryPart<'_>>,
    ) -> Result<(Csn, Grown)> {
        if self.store.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let (txn, mut immediate) = (self.new_txn_id(), Immediate::default());
        commit::commit(self, keyspace, txn, &mut immediate, writes, Keys::ToChange, entry)
    }
}

#[cfg(all(test, not(shuttle)))]
impl TxnState {
    /// True if the transaction has changed keys in trees.
    pub fn has_changed_trees(&self) -> bool {
        self.get::<Immediate>().is_some_and(|immediate| !immediate.changed.keys.is_empty())
    }
}

impl Method for PageWal {
    fn recovery(&self) -> Recovery {
        Recovery::PageLog(self.store.strategy())
    }

    fn properties(&self) -> Properties {
        Properties { in_place: true, is_immediate: self.changes_at_once(), ..Properties::default() }
    }

    fn create_directory(&self, locks: &Arc<LockManager>) -> Result<Directory> {
        let mut page_locks = locks.owner(self.new_txn_id());
        let directory = create_directory(&self.store, &mut page_locks)?;
        self.store.flush()?;
        Ok(directory)
    }

    fn recover(&self, keyspace: &Keyspace, _recovering: Recovering<'_>) -> Result<()> {
        let losers = std::mem::take(&mut *self.losers.lock());
        changes::undo_losers(keyspace, &self.store, &losers)
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }

    fn new_txn_id(&self) -> TxnId {
        // Undo records in the log name transactions.
        self.store.new_id()
    }

    fn note_change(
        &self,
        state: &mut TxnState,
        (tree, tree_state): (TreeId, &TreeRef),
        key: &[u8],
        value: Option<&[u8]>,
    ) -> bool {
        let immediate = state.get_or_default::<Immediate>();
        let is_long = immediate.note(tree, tree_state, key, value);
        state.bytes = immediate.bytes();
        is_long
    }

    fn change_now(
        &self,
        keyspace: &Keyspace,
        txn: TxnId,
        state: &mut TxnState,
        writes: &WriteSet,
    ) -> Result<()> {
        let Some(immediate) = state.get_mut::<Immediate>() else { return Ok(()) };
        let changed = immediate.change_now(keyspace, &self.store, txn, writes);
        state.bytes = immediate.bytes();
        changed
    }

    fn mark(&self, state: &TxnState) -> usize {
        state.get::<Immediate>().map_or(0, Immediate::mark)
    }

    fn go_back(
        &self,
        keyspace: &Keyspace,
        txn: TxnId,
        state: &mut TxnState,
        changes: usize,
        writes: (&mut WriteSet, usize),
    ) -> Result<Option<Csn>> {
        let immediate = match state.get_mut::<Immediate>() {
            Some(immediate) if self.changes_at_once() => immediate,
            _ => {
                writes.0.go_back(writes.1);
                return Ok(None);
            }
        };
        let gone = immediate.go_back(keyspace, &self.store, txn, changes, writes);
        state.bytes = immediate.bytes();
        gone
    }

    fn undo_all(&self, keyspace: &Keyspace, txn: TxnId, state: &mut TxnState) -> Result<Option<Csn>> {
        let Some(immediate) = state.get_mut::<Immediate>() else { return Ok(None) };
        let undone = immediate.undo_all(keyspace, &self.store, txn);
        state.bytes = immediate.bytes();
        undone
    }

    fn commit(&self, keyspace: &Keyspace, commit: Commit<'_>) -> Result<(Csn, Grown)> {
        let Commit { txn, state, writes, .. } = commit;
        let immediate = state.get_or_default::<Immediate>();
        let committed = commit::commit(self, keyspace, txn, immediate, &writes, Keys::Changed, Vec::new())?;
        self.store.note_changed(writes.changed_bytes());
        Ok(committed)
    }

    fn prepare(&self, keyspace: &Keyspace, entry: NewEntry<'_>) -> Result<(Csn, Option<KeptSpace>)> {
        let NewEntry { txn, state, gid, encode, .. } = entry;
        // It is kept as its write set. Changes left in trees would be those of a transaction that has not ended.
        self.undo_all(keyspace, txn, state)?;
        let parts = (0..).zip(encode(crate::page::PageCounts::default())?);
        let entry = parts.map(|(part, bytes)| EntryPart { gid, part, bytes: Some(bytes) }).collect();
        let (csn, _) = self.commit_entry(keyspace, &WriteSet::default(), entry)?;
        // A transaction can be undone here, so its end needs no reserved space.
        Ok((csn, None))
    }

    fn end_prepared(&self, keyspace: &Keyspace, end: EndOfEntry<'_>) -> Result<(Csn, Grown)> {
        let EndOfEntry { gid, parts, writes, .. } = end;
        let nothing = WriteSet::default();
        let entry = (0..parts).map(|part| EntryPart { gid, part, bytes: None }).collect();
        self.commit_entry(keyspace, writes.as_deref().unwrap_or(&nothing), entry)
    }

    fn last_durable(&self) -> Csn {
        self.store.durable_csn()
    }

    fn wait_durable(&self, csn: Csn) -> Result<()> {
        self.store.wait_durable(csn)
    }

    fn when_durable(&self, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>) {
        self.store.when_durable(csn, call);
    }

    fn due(&self) -> Due {
        Due { clean: self.store.has_large_sphere(), ..Due::default() }
    }

    fn clean_some(&self) -> bool {
        // A failure poisons the store.
        let _ = self.store.write_large_spheres();
        false
    }

    fn reclaim_some(&self, keyspace: &Keyspace, _is_in_use: &dyn Fn(TreeId) -> bool) -> Result<bool> {
        reclaim(self, keyspace, RECLAIM_PAGES)
    }

    fn checkpoint(&self) -> Result<()> {
        Err(Error::Unsupported("a checkpoint: it takes its own as its log grows"))
    }

    fn log(&self) -> (u64, Option<LogCounts>) {
        (self.store.log_bytes(), None)
    }

    fn pages_in_use(&self) -> Option<Vec<PageId>> {
        Some(self.store.units_in_use())
    }
}

/// Makes the directory of trees of a new store.
fn create_directory(logged: &LoggedStore, page_locks: &mut LockOwner) -> Result<Directory> {
    let txn = page_locks.txn();
    let (subtxn, directory) = logged.change_trees(txn, page_locks, |pages| Directory::create(pages))?;
    logged.commit_trees(subtxn)?;
    page_locks.release_all();
    Ok(directory)
}

/// Gives back some pages of a dropped tree; true if there may be more to do.
fn reclaim(wal: &PageWal, keyspace: &Keyspace, pages_max: usize) -> Result<bool> {
    let logged = &*wal.store;
    let is_running = |tree| matches!(wal.unfinished.lock().get(&tree), Some(None));
    let Some((id, tree)) = keyspace.directory.dropped(&keyspace.store, is_running)? else { return Ok(false) };
    // What is given back must not be in the log before the commit that drops the tree.
    let dropped_by = wal.unfinished.lock().get(&id).copied().flatten();
    if let Some(csn) = dropped_by {
        keyspace.store.wait_durable(csn)?;
    }
    let mut page_locks = keyspace.locks.owner(wal.new_txn_id());
    let txn = page_locks.txn();
    let (subtxn, all) = logged.change_trees(txn, &mut page_locks, |pages| {
        let all = tree.reclaim(pages, pages_max)?;
        if all {
            keyspace.directory.remove(pages, id)?;
        }
        Ok(all)
    })?;
    Changed::default().settle(keyspace, || logged.commit_trees(subtxn), false)?;
    if all {
        wal.unfinished.lock().remove(&id);
    }
    Ok(true)
}

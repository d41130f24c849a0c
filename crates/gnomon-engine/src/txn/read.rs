//! Where a transaction's reads stand in time, and what they find in trees, without its own writes.

use std::cell::Cell;

use super::{
    database::KEYS,
    epoch::{NO_END, Pages},
    transaction::{Covered, Isolation, Transaction, Used},
    tree::TreeState,
};
use crate::{
    Conflict, Csn, Result, TreeId,
    access::{Search, Tree},
    lock::{LockName, key_mode},
    store::GroupCommit,
};

/// Where a read stands in time.
#[derive(Clone, Copy)]
pub(super) enum ReadAt {
    /// At a snapshot.
    Snapshot(Csn),
    /// At the newest committed value: behind a lock.
    Newest,
}

impl Transaction {
    /// Returns where a plain read stands, after taking the lock that its isolation asks for. Under READ COMMITTED, a
    /// transaction that has locked the whole tree against writers reads the newest values: the watermark may still be
    /// below the commit whose lock it waited for, held up by a commit elsewhere.
    pub(super) fn read_at(&mut self, used: &Used, key: &[u8]) -> Result<ReadAt> {
        let (at, locked) = self.plain_read(used)?;
        if locked {
            self.lock(LockName::key(KEYS, used.id.0, key), key_mode::S)?;
            return Ok(self.newest());
        }
        Ok(at)
    }

    /// Returns where a plain read stands, and true if it must lock its keys first.
    pub(super) fn plain_read(&mut self, used: &Used) -> Result<(ReadAt, bool)> {
        if self.is_placed(used) {
            return Ok((self.newest(), false));
        }
        let covered = used.covered() >= Covered::Reads;
        match self.options.isolation {
            Isolation::Snapshot => {
                self.snapshot_told = true;
                Ok((ReadAt::Snapshot(self.tree_snapshot(used)?), false))
            }
            Isolation::ReadCommitted if !covered => Ok((ReadAt::Snapshot(self.statement_snapshot()?), false)),
            isolation => match self.statement_of(used.id) {
                // That it has locked the tree for want of memory does not change what the statement sees.
                Some(snapshot) if isolation == Isolation::ReadCommitted => {
                    Ok((ReadAt::Snapshot(snapshot), false))
                }
                _ => Ok((self.newest(), !covered)),
            },
        }
    }

    /// Returns the snapshot, which must not be older than the tree: of the entries that a tree was made with there
    /// are no versions.
    pub(super) fn tree_snapshot(&mut self, used: &Used) -> Result<Csn> {
        let snapshot = self.untold_snapshot()?;
        match &used.state {
            Some(state) if state.created > snapshot => match self.renew_snapshot()? {
                true => self.untold_snapshot(),
                false => Err(self.refuse(Conflict::Write)),
            },
            _ => Ok(snapshot),
        }
    }

    /// Under SNAPSHOT, fails if another transaction has committed a change of the key since, unless the snapshot can be a newer
    /// one. Behind the key's lock.
    pub(super) fn check_first_committer(&mut self, used: &Used, key: &[u8]) -> Result<()> {
        if self.options.isolation != Isolation::Snapshot || self.is_placed(used) {
            return Ok(());
        }
        let Some(state) = &used.state else { return Ok(()) };
        let has_changed =
            |snapshot| state.epochs.last() > snapshot || state.versions.changed_since(key, snapshot);
        let mut snapshot = self.tree_snapshot(used)?;
        if has_changed(snapshot) {
            if !self.renew_snapshot()? {
                return Err(self.refuse(Conflict::Write));
            }
            snapshot = self.untold_snapshot()?;
            if has_changed(snapshot) {
                return Err(self.refuse(Conflict::Write));
            }
        }
        self.inner().timeline.check_snapshot(snapshot)
    }

    /// Stands at the newest value, behind a lock. To be called when the lock is granted: the transaction that wrote
    /// the value has taken its CSN before. The watermark may still be below that, held up by another commit.
    pub(super) fn newest(&mut self) -> ReadAt {
        self.seen = self.seen.max(self.inner().store.last_csn());
        ReadAt::Newest
    }

    /// Returns the snapshot that a read stands at, where the newest values in trees need not be committed. To be
    /// asked before the tree is read: of what is undone meanwhile, the versions are newer.
    pub(super) fn snapshot_of(&self, at: ReadAt) -> Option<Csn> {
        match at {
            ReadAt::Snapshot(snapshot) => Some(snapshot),
            ReadAt::Newest => self.inner().store.logged().map(|store| store.last_csn()),
        }
    }

    /// Reads a tree, without the write set, by `read`: it is given the tree, where its pages are, and the commit from
    /// which on versions do not count. None if the transaction makes the tree and nothing is stored of it.
    pub(super) fn read_stored<T>(
        &self,
        id: TreeId,
        state: Option<&TreeState>,
        at: ReadAt,
        read: impl Fn(&Tree, &Pages<'_>, Csn) -> Result<T>,
    ) -> Result<Option<T>> {
        match (self.private(id), state) {
            (Some((pages, tree)), _) => {
                tree.map(|tree| read(&tree, &Pages::Private(pages), NO_END)).transpose()
            }
            (None, Some(state)) => {
                let store = &self.inner().store;
                state.epochs.read(store, at, |pages, end| read(&state.tree, pages, end)).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns the value that the tree holds, without the write set.
    pub(super) fn stored(
        &self,
        id: TreeId,
        state: Option<&TreeState>,
        key: &[u8],
        at: ReadAt,
    ) -> Result<Option<Vec<u8>>> {
        self.stored_at(id, state, key, at, &mut Search::default())
    }

    /// As [`Transaction::stored`]. Looks where the key was before, and tells where it is now.
    pub(super) fn stored_at(
        &self,
        id: TreeId,
        state: Option<&TreeState>,
        key: &[u8],
        at: ReadAt,
        search: &mut Search,
    ) -> Result<Option<Vec<u8>>> {
        let snapshot_read = self.snapshot_of(at);
        let found = Cell::new(std::mem::take(search));
        let stored = self.read_stored(id, state, at, |tree, pages, end| {
            let mut search = found.take();
            let newest = tree.get_at(pages, key, &mut search)?;
            found.set(search);
            let (Some(snapshot), Some(state)) = (snapshot_read, state) else { return Ok(newest) };
            let before = state.versions.before(key, snapshot, end).filter(|_| !self.is_own(id, key));
            Ok(before.map_or(newest, |before| before.map(|before| before.to_vec())))
        });
        *search = found.take();
        if let ReadAt::Snapshot(snapshot) = at {
            self.inner().timeline.check_snapshot(snapshot)?;
        }
        Ok(stored?.flatten())
    }

    /// True if a key is stored. Looks where it was before, and tells where it is, or would be.
    pub(super) fn is_stored(&self, used: &Used, key: &[u8], search: &mut Search) -> Result<bool> {
        let state = used.state.as_deref();
        let found_at = Cell::new(std::mem::take(search));
        let found = self.read_stored(used.id, state, ReadAt::Newest, |tree, pages, _| {
            let mut search = found_at.take();
            let found = tree.contains(pages, key, &mut search)?;
            found_at.set(search);
            Ok(found)
        })?;
        *search = found_at.take();
        Ok(found.unwrap_or(false))
    }
}

//! Commit under a page WAL: what waited for it is done, and the pending versions get the CSN.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    PageWal,
    changes::{CHANGED_TOGETHER, Changed, Immediate, changes, put_key},
    undo::{DIRECTORY, Step, change},
};
use crate::{
    Csn, Result, TreeId, TxnId,
    access::{Change, DirectoryEntry, Listed, Tree, TreeOptions},
    mvcc::{APPLIERS, Keyspace, TreeRef, TreeState, applier},
    op::{Calls, absent},
    recovery::Grown,
    store::page_wal::{TreeAccess, TreeSubtxn},
    sync::{Arc, MutexGuard},
    write_set::{Write, WriteSet},
};

/// Bytes of entries of a new tree that one subtransaction puts there, about.
const FILLED_AT_ONCE_BYTES: usize = 1 << 20;

/// A part of a commit.
enum Piece<'a> {
    /// Puts a key or deletes it.
    Key(TreeId, TreeRef, &'a [u8], Option<&'a [u8]>),
    /// Applies operations to a key.
    Calls(TreeId, TreeRef, &'a [u8], Arc<Calls>),
    /// Makes a tree that no transaction finds yet.
    Create(TreeId, TreeOptions),
    /// Puts entries into such a tree.
    Fill(TreeId, Vec<(&'a [u8], &'a [u8])>),
    /// Makes such a tree live in the directory, where transactions find it.
    Publish(TreeId),
    Drop(TreeId),
    /// Stores a part of the entry of a prepared transaction, or removes it.
    Entry(EntryPart<'a>),
}

/// A part of the entry of a prepared transaction.
pub(super) struct EntryPart<'a> {
    pub gid: &'a str,
    pub part: u32,
    /// The bytes of the part; none removes it.
    pub bytes: Option<Vec<u8>>,
}

/// A commit under way.
struct Commit<'a> {
    wal: &'a PageWal,
    keyspace: &'a Keyspace,
    txn: TxnId,
    /// The trees that it has made.
    made: BTreeMap<TreeId, Listed>,
    grown: BTreeMap<(TreeId, Box<[u8]>), i128>,
}

/// The state of the keys that a write set puts and deletes: changed in their trees already, or to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Changed,
    ToChange,
}

/// Commits a transaction: changes what is not changed yet, and takes its CSN. An error leaves the transaction as if it
/// had done nothing.
pub(super) fn commit(
    wal: &PageWal,
    keyspace: &Keyspace,
    txn: TxnId,
    immediate: &mut Immediate,
    writes: &WriteSet,
    keys: Keys,
    entry: Vec<EntryPart<'_>>,
) -> Result<(Csn, Grown)> {
    let waiting = std::mem::take(&mut immediate.waiting);
    let mut pieces = pieces(wal, keyspace, writes, keys, entry)?;
    let late = changes(&waiting, writes);
    pieces.extend(late.map(|(tree, state, key, value)| Piece::Key(tree, state.clone(), key, value)));
    // Keys that go exist for others until the transaction has its CSN.
    let mut hidden = Vec::new();
    for piece in &pieces {
        if let Piece::Key(_, state, key, None) = piece
            && !state.is_pending(key)
        {
            state.hide(key);
            hidden.push((state.clone(), *key));
        }
    }
    // From here until they have their CSN: see above.
    let _appliers = lock_appliers(keyspace, &pieces);
    let mut commit = Commit { wal, keyspace, txn, made: BTreeMap::new(), grown: BTreeMap::new() };
    commit.note_unfinished(writes, |unfinished, tree| {
        unfinished.insert(tree, None);
    });
    let committed = commit.run(immediate, &pieces).and_then(|whole| {
        let take = || match whole {
            Some(whole) => wal.store.commit_trees(whole),
            None => wal.store.commit(txn),
        };
        // With their keys locked, and those of a new tree unknown.
        let csn = immediate.changed.settle(keyspace, take, false)?;
        (immediate.done, immediate.has_run) = (Vec::new(), false);
        Ok(csn)
    });
    match &committed {
        Ok(csn) => {
            for (id, listed) in &commit.made {
                keyspace.add_tree(*id, TreeState::new(*listed, *csn));
            }
            commit.note_unfinished(writes, |unfinished, tree| match commit.made.contains_key(&tree) {
                true => drop(unfinished.remove(&tree)),
                false => drop(unfinished.insert(tree, Some(*csn))),
            });
            for (id, _) in writes.trees().filter(|(_, tree)| tree.dropped) {
                keyspace.forget_tree(id);
            }
        }
        Err(_) => {
            immediate.undo_all(keyspace, &wal.store, txn)?;
            // What is left of trees that were to be made goes as dropped ones do.
            commit.note_unfinished(writes, |unfinished, tree| {
                unfinished.remove(&tree);
            });
        }
    }
    hidden.into_iter().for_each(|(state, key)| state.remove_pending(key));
    if let Some(locks) = &mut immediate.page_locks {
        locks.release_all();
    }
    committed.map(|csn| {
        let mut grown = Grown::default();
        commit.grown.into_iter().for_each(|((tree, key), bytes)| grown.add(tree, (&*key).into(), bytes));
        (csn, grown)
    })
}

/// Splits a commit into pieces.
fn pieces<'a>(
    wal: &PageWal,
    keyspace: &Keyspace,
    writes: &'a WriteSet,
    keys: Keys,
    entry: Vec<EntryPart<'a>>,
) -> Result<Vec<Piece<'a>>> {
    let all = keys == Keys::ToChange || !wal.changes_at_once();
    let mut pieces = Vec::new();
    for (id, tree) in writes.trees() {
        match (tree.created, tree.dropped) {
            (true, true) => {}
            (true, false) => {
                pieces.push(Piece::Create(id, tree.options));
                let (mut filled, mut bytes) = (Vec::new(), 0);
                for (key, write) in tree.entries() {
                    // Operations on what is not stored yet were applied when they were called.
                    let Write::Put(value) = write else { continue };
                    filled.push((key, &**value));
                    bytes += key.len() + value.len();
                    if bytes >= FILLED_AT_ONCE_BYTES {
                        pieces.push(Piece::Fill(id, std::mem::take(&mut filled)));
                        bytes = 0;
                    }
                }
                pieces.push(Piece::Fill(id, filled));
                pieces.push(Piece::Publish(id));
            }
            (false, true) => pieces.push(Piece::Drop(id)),
            (false, false) => {
                let state = keyspace.tree(id)?;
                for (key, write) in tree.entries() {
                    match write {
                        Write::Put(value) if all => {
                            pieces.push(Piece::Key(id, state.clone(), key, Some(value)));
                        }
                        Write::Delete if all => pieces.push(Piece::Key(id, state.clone(), key, None)),
                        Write::Put(_) | Write::Delete => {}
                        Write::Apply(calls) => {
                            pieces.push(Piece::Calls(id, state.clone(), key, Arc::new(calls.clone())));
                        }
                    }
                }
            }
        }
    }
    // Last: to take back that it was removed needs most space.
    pieces.extend(entry.into_iter().map(Piece::Entry));
    Ok(pieces)
}

/// Locks the mutexes of the keys that operations are applied to, in the order of the mutexes.
fn lock_appliers<'a>(keyspace: &'a Keyspace, pieces: &[Piece<'_>]) -> Vec<MutexGuard<'a, ()>> {
    let keys = pieces.iter().filter_map(|piece| match piece {
        Piece::Calls(_, _, key, _) => Some(applier(key)),
        _ => None,
    });
    let mutexes: BTreeSet<usize> = keys.collect();
    debug_assert!(mutexes.len() <= APPLIERS);
    mutexes.into_iter().map(|mutex| keyspace.appliers[mutex].lock()).collect()
}

impl Commit<'_> {
    /// Does the pieces: with two levels by subtransactions, with one level by one, which is returned.
    fn run(&mut self, immediate: &mut Immediate, pieces: &[Piece<'_>]) -> Result<Option<TreeSubtxn>> {
        let (wal, keyspace, txn) = (self.wal, self.keyspace, self.txn);
        if wal.changes_at_once() {
            let is_key = |piece: &&Piece<'_>| matches!(piece, Piece::Key(..) | Piece::Calls(..));
            let (keys, others): (Vec<_>, Vec<_>) = pieces.iter().partition(is_key);
            for pieces in keys.chunks(CHANGED_TOGETHER).chain(others.chunks(1)) {
                immediate.run(keyspace, &wal.store, txn, |pages, changed| {
                    let mut undo = Vec::new();
                    for piece in pieces {
                        undo.extend(self.run_piece(pages, changed, piece)?);
                    }
                    Ok(undo)
                })?;
            }
            return Ok(None);
        }
        let locks = Immediate::locks(&mut immediate.page_locks, keyspace, &wal.store);
        let changed = &mut immediate.changed;
        let (whole, ()) = wal.store.change_trees(txn, locks, |pages| {
            self.grown.clear();
            pieces.iter().try_for_each(|piece| self.run_piece(pages, changed, piece).map(drop))
        })?;
        Ok(Some(whole))
    }

    /// Does a piece. Returns the steps that take it back. It may be called again after an attempt that was taken
    /// back.
    fn run_piece(
        &mut self,
        pages: &TreeAccess<'_>,
        changed: &mut Changed,
        piece: &Piece<'_>,
    ) -> Result<Vec<Step>> {
        let directory = &self.keyspace.directory;
        Ok(match piece {
            Piece::Key(tree, state, key, value) => vec![put_key(pages, changed, *tree, state, key, *value)?],
            Piece::Calls(tree, state, key, calls) => {
                let (undo, longer) = apply(pages, changed, *tree, state, key, calls)?;
                if !calls.keep_length() {
                    self.grown.insert((*tree, (*key).into()), longer);
                }
                vec![undo]
            }
            Piece::Create(id, options) => {
                let tree = Tree::create(pages, options.page_size)?;
                let listed = Listed { tree, placement: options.placement };
                directory.insert_dropped(pages, *id, &listed)?;
                self.made.insert(*id, listed);
                Vec::new()
            }
            Piece::Fill(id, entries) => {
                let tree = self.made[id].tree;
                for (key, value) in entries {
                    tree.update(pages, key, &mut |_| change(Some(value)))?;
                }
                Vec::new()
            }
            Piece::Publish(id) => steps(directory.make_live(pages, *id, &self.made[id])?),
            Piece::Drop(id) => {
                let tree = self.keyspace.tree(*id)?.tree;
                steps(directory.drop_tree(pages, *id, &tree)?)
            }
            Piece::Entry(EntryPart { gid, part, bytes }) => {
                steps([directory.set_prepared(pages, gid, *part, bytes.as_deref())?])
            }
        })
    }

    /// Notes something of all trees that the transaction makes or drops.
    fn note_unfinished(&self, writes: &WriteSet, note: impl Fn(&mut BTreeMap<TreeId, Option<Csn>>, TreeId)) {
        let trees = writes.trees().filter(|(_, tree)| tree.created != tree.dropped);
        let mut unfinished = None;
        for (id, _) in trees {
            note(unfinished.get_or_insert_with(|| self.wal.unfinished.lock()), id);
        }
    }
}

/// Returns the steps that take changes of the directory back.
fn steps(before: impl IntoIterator<Item = DirectoryEntry>) -> Vec<Step> {
    before.into_iter().map(|(key, value)| Step::new(DIRECTORY, &key, value.as_deref())).collect()
}

/// Applies operations to a key whose value no other transaction changes before they are committed. Returns the step
/// that takes them back, and by how much the value is longer, in bytes.
fn apply(
    pages: &TreeAccess<'_>,
    changed: &mut Changed,
    tree: TreeId,
    state: &TreeRef,
    key: &[u8],
    calls: &Arc<Calls>,
) -> Result<(Step, i128)> {
    let entry = state.tree.entry(pages, key, None)?;
    let before = entry.value()?.ok_or_else(absent)?;
    let value = calls.apply(&before)?;
    changed.publish(tree, state, key, Some(&before), Some(calls));
    let undo = Step::new(tree, key, Some(&before));
    let longer = value.len() as i128 - before.len() as i128;
    entry.change(Change::Put(value.into()))?;
    Ok((undo, longer))
}

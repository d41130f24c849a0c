//! Scans: the entries of a range in order, as the transaction sees them.

use std::{collections::BTreeMap, ops::Bound};

use super::{
    core::Core,
    large,
    leaf_part::{Covered, LeafPart, Passed, entries_in, seek},
    read, shared_keys,
    trees::{self, gap_name},
};
use crate::{
    Result, TreeId,
    access::{Bounds, Direction, EntryPlace, KeyRange, LeafView, Tree, Value, as_slice, is_empty},
    failpoint::Failpoint,
    lock::{gap_mode, key_mode},
    mvcc::{NO_END, ReadAt, Scanning, TreeRef, TreeState},
    op::Calls,
    store::PageRead,
    sync::thread,
    write_set::Write,
};

/// Under locks, a scan takes so many keys in its first step, and twice as many in each further one: a scan that ends
/// early has not locked much more than it looked at.
const LOCKED_AT_ONCE: (usize, usize) = (2, 64);

/// A scan in progress. It lives within the statement that began it.
pub struct Cursor {
    tree: TreeId,
    state: Option<TreeRef>,
    direction: Direction,
    /// The part of the range that was not returned yet, but for the entry that `passed` tells.
    rest: KeyRange,
    /// The part of a leaf that was read last. It stays when it is passed: the next leaf is probably beside it.
    part: Option<LeafPart>,
    /// The index of the leaf's entry that was returned last, if `rest` does not tell.
    passed: Option<usize>,
    /// Where the part begins that was not read from the tree yet, up to the end of `rest`; none at the end.
    unread: Option<Bound<Vec<u8>>>,
    /// Number of keys to lock in the next step.
    lock_count: usize,
    /// True if the lock above the range was taken, or is not due yet: a backward scan under locks begins with it.
    edge_locked: bool,
    /// True if it reads the newest values and locks nothing.
    newest: bool,
    /// [`Core::applied`] when it read the leaf.
    applied: u64,
    /// The entry that was returned last, if it is not in the leaf.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The place of an entry that a cursor returns.
#[derive(Clone, Copy)]
enum Found {
    /// The leaf.
    InLeaf(EntryPlace),
    /// The buffers of the cursor.
    Copied,
}

/// A step of a scan.
enum Step {
    Entry(Found),
    /// Something was passed that the transaction does not see.
    Passed,
    End,
}

impl Cursor {
    pub(super) fn new(
        core: &Core,
        tree: TreeId,
        state: Option<TreeRef>,
        range: KeyRange,
        direction: Direction,
        newest: bool,
    ) -> Cursor {
        let (lock_count, edge_locked) = (LOCKED_AT_ONCE.0, direction == Direction::Forward);
        let mut cursor = Cursor {
            tree,
            state,
            direction,
            rest: range,
            part: None,
            passed: None,
            unread: None,
            lock_count,
            edge_locked,
            newest,
            applied: core.applied(),
            key: Vec::new(),
            value: Vec::new(),
        };
        cursor.unread = cursor.start_of_rest();
        cursor
    }

    /// Returns the next entry (key, value), or none at the end of the range. `core` is that of the transaction that
    /// began the scan.
    pub(super) fn next_in(&mut self, core: &mut Core) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.find_next(core)?.map(|found| match found {
            Found::Copied => (std::mem::take(&mut self.key), std::mem::take(&mut self.value)),
            found => {
                let (key, value) = self.found(found);
                (key.to_vec(), value.to_vec())
            }
        }))
    }

    /// As [`Cursor::next_in`]; lends the entry.
    #[inline]
    pub(super) fn next_ref_in(&mut self, core: &mut Core) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.find_next(core)?.map(|found| self.found(found)))
    }

    #[inline]
    fn found(&self, found: Found) -> (&[u8], &[u8]) {
        match (found, &self.part) {
            (Found::InLeaf(place), Some(part)) => part.at(place),
            _ => (&self.key, &self.value),
        }
    }

    #[inline]
    fn find_next(&mut self, core: &mut Core) -> Result<Option<Found>> {
        if core.notes_reads() { self.find_and_note(core) } else { self.find(core) }
    }

    /// Finds the next entry, and notes what was read up to it.
    fn find_and_note(&mut self, core: &mut Core) -> Result<Option<Found>> {
        self.settle()?;
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut read = self.rest.clone();
        let found = self.find(core)?;
        if let Some(found) = found {
            let last = Bound::Included(self.found(found).0.to_vec());
            match self.direction {
                Direction::Forward => read.end = last,
                Direction::Backward => read.start = last,
            }
        }
        core.note_range(self.tree, || read);
        Ok(found)
    }

    #[inline]
    fn find(&mut self, core: &mut Core) -> Result<Option<Found>> {
        // Nearly always: an entry of the leaf that was read last, without own changes that may come before.
        if self.applied == core.applied()
            && !core.writes.has_keys(self.tree)
            && let Some(part) = &mut self.part
            && let Some(index) = part.pass_unchanged(self.direction)
        {
            self.passed = Some(index);
            if let Some(found) = self.show_stored(core, index)? {
                return Ok(Some(found));
            }
        }
        self.find_on(core)
    }

    /// Finds the next entry, wherever it is.
    fn find_on(&mut self, core: &mut Core) -> Result<Option<Found>> {
        loop {
            self.follow(core)?;
            while self.part.as_ref().is_none_or(LeafPart::is_passed) && self.unread.is_some() {
                self.read_ahead(core)?;
                self.follow(core)?;
            }
            let step = match core.writes.has_keys(self.tree) {
                true => self.merge_own(core)?,
                false => self.step(core)?,
            };
            match step {
                Step::Entry(found) => return Ok(Some(found)),
                Step::Passed => {}
                Step::End => return Ok(None),
            }
        }
    }

    /// Passes the next entry of the tree.
    fn step(&mut self, core: &mut Core) -> Result<Step> {
        let Some(part) = &mut self.part else { return Ok(Step::End) };
        match part.pass(self.direction)? {
            Some(Passed::InLeaf(index)) => {
                self.passed = Some(index);
                Ok(self.show_stored(core, index)?.map_or(Step::Passed, Step::Entry))
            }
            Some(Passed::Version(key, value)) => {
                core.note_read(self.tree, &key);
                self.pass(&key);
                Ok(self.show(key.into_vec(), Some(value.to_vec())))
            }
            None if self.unread.is_some() => Ok(Step::Passed),
            None => Ok(Step::End),
        }
    }

    /// Returns an entry of the leaf that was passed; none if the transaction does not see it.
    #[inline]
    fn show_stored(&mut self, core: &mut Core, index: usize) -> Result<Option<Found>> {
        let Some(part) = &self.part else { return Ok(None) };
        if let Some(place) = part.place(index)? {
            core.note_read(self.tree, part.at(place).0);
            return Ok(Some(Found::InLeaf(place)));
        }
        let key = part.entry(index)?.0.to_vec();
        core.note_read(self.tree, &key);
        let Some(value) = self.large(core, &key)? else { return Ok(None) };
        (self.key, self.value) = (key, value);
        Ok(Some(Found::Copied))
    }

    /// Returns an entry, if the transaction sees it, in the buffers.
    fn show(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) -> Step {
        let Some(value) = value else { return Step::Passed };
        (self.key, self.value) = (key, value);
        Step::Entry(Found::Copied)
    }

    /// Passes the next entry of the tree or of the write set, or of both if they have the same key.
    fn merge_own(&mut self, core: &mut Core) -> Result<Step> {
        self.settle()?;
        if self.rest.is_empty() {
            return Ok(Step::End);
        }
        let stored = match &mut self.part {
            Some(part) => part.next_key(self.direction)?,
            None => None,
        };
        if stored.is_none() && self.unread.is_some() {
            return Ok(Step::Passed);
        }
        let last = self.direction == Direction::Backward;
        let own = core.writes.edge(self.tree, self.rest.as_bounds(), last);
        let (key, own) = match (own, stored) {
            (Some((own, _)), Some(stored)) if (if last { own < stored } else { own > stored }) => {
                return self.step(core);
            }
            (Some((key, own)), _) => (key.to_vec(), own.clone()),
            (None, _) => return self.step(core),
        };
        let is_stored = stored == Some(&key);
        // Before anything is passed: a caller that goes on after an error finds the key again.
        let is_newest =
            !self.newest && matches!(own, Write::Apply(_)) && shared_keys::observe_in(core, self.tree, &key)?;
        let there = match &mut self.part {
            Some(part) if is_stored => part.pass(self.direction)?,
            _ => None,
        };
        self.pass(&key);
        let value = match own {
            Write::Put(value) => Some(value.into_vec()),
            Write::Delete => None,
            Write::Apply(calls) => self.applied_to(core, &key, there, is_newest, &calls)?,
        };
        Ok(self.show(key, value))
    }

    /// Forgets what was read ahead if own changes were applied to pages since: they are not in the write set any more.
    #[inline]
    fn follow(&mut self, core: &Core) -> Result<()> {
        let applied = core.applied();
        if self.applied != applied {
            self.settle()?;
            self.applied = applied;
            self.part = None;
            self.unread = self.start_of_rest();
        }
        Ok(())
    }

    /// Returns where the rest begins, in the scan's direction; none if there is none.
    fn start_of_rest(&self) -> Option<Bound<Vec<u8>>> {
        let start = match self.direction {
            Direction::Forward => &self.rest.start,
            Direction::Backward => &self.rest.end,
        };
        (!self.rest.is_empty()).then(|| start.clone())
    }

    /// Shortens the rest to what is beyond the entry of the leaf that was returned last.
    fn settle(&mut self) -> Result<()> {
        if let (Some(index), Some(part)) = (self.passed.take(), &self.part) {
            let (key, _) = part.entry(index)?;
            shorten(&mut self.rest, key, self.direction);
        }
        Ok(())
    }

    /// Shortens the rest to what is beyond `key`.
    fn pass(&mut self, key: &[u8]) {
        self.passed = None;
        shorten(&mut self.rest, key, self.direction);
    }

    /// Returns the bounds of what was not read yet, which begins at `start`.
    fn unread_from<'c>(&'c self, start: &'c Bound<Vec<u8>>) -> Bounds<'c> {
        let (start, rest) = (as_slice(start), self.rest.as_bounds());
        match self.direction {
            Direction::Forward => (start, rest.1),
            Direction::Backward => (rest.0, start),
        }
    }

    /// Reads the leaf at which what is unread begins.
    fn leaf(&self, tree: &Tree, pages: &impl PageRead, unread: Bounds<'_>) -> Result<LeafView> {
        let seek = seek(unread, self.direction);
        match &self.part {
            Some(part) => tree.leaf_near(pages, part.view(), seek),
            None => tree.leaf(pages, seek),
        }
    }

    fn at(&self, core: &mut Core) -> Result<(ReadAt, bool)> {
        if self.newest {
            core.check()?;
            return Ok((core.newest(), false));
        }
        scan_at(core, self.tree)
    }

    /// Applies the transaction's own operations to the value that it sees under a key, which is the newest one if
    /// `is_newest`. None if it sees nothing there: the key was made after the snapshot.
    fn applied_to(
        &self,
        core: &mut Core,
        key: &[u8],
        there: Option<Passed>,
        is_newest: bool,
        calls: &Calls,
    ) -> Result<Option<Vec<u8>>> {
        let there = match there {
            // It has changed since the snapshot: see `shared_keys::observe`.
            _ if is_newest => {
                let at = core.newest();
                read::stored(core, self.tree, self.state.as_deref(), key, at)?
            }
            Some(Passed::Version(_, there)) => Some(there.to_vec()),
            Some(Passed::InLeaf(index)) => match &self.part {
                Some(part) => match part.entry(index)?.1 {
                    Value::Inline(there) => Some(there.to_vec()),
                    Value::Large { .. } => self.large(core, key)?,
                },
                None => None,
            },
            None => None,
        };
        there.map(|there| calls.apply(&there)).transpose()
    }

    fn large(&self, core: &mut Core, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (at, _) = self.at(core)?;
        read::stored(core, self.tree, self.state.as_deref(), key, at)
    }

    /// Reads the next leaf, or part of it.
    fn read_ahead(&mut self, core: &mut Core) -> Result<()> {
        self.settle()?;
        let Some(start) = self.unread.take() else { return Ok(()) };
        match self.read_from(core, &start) {
            Ok(Read::Part(part, rest)) => {
                let is_rest = |rest: &Bound<Vec<u8>>| !is_empty(self.unread_from(rest));
                self.unread = rest.filter(is_rest);
                self.part = Some(part);
                Ok(())
            }
            Ok(Read::Nothing) => {
                self.part = None;
                Ok(())
            }
            Ok(Read::Again) => {
                self.unread = Some(start);
                Ok(())
            }
            Err(error) => {
                self.unread = Some(start);
                Err(error)
            }
        }
    }

    fn read_from(&mut self, core: &mut Core, start: &Bound<Vec<u8>>) -> Result<Read> {
        let (at, locked) = self.at(core)?;
        match self.state.clone() {
            Some(state) if locked => self.read_locked(core, &state, start),
            _ => self.read_unlocked(core, at, self.unread_from(start)),
        }
    }

    fn read_unlocked(&self, core: &Core, at: ReadAt, unread: Bounds<'_>) -> Result<Read> {
        let state = self.state.as_deref();
        let snapshot = core.snapshot_of(at);
        let read = read::read_stored(core, self.tree, state, at, |tree, pages, end| {
            let view = self.leaf(tree, pages, unread)?;
            // Looked up after the leaf was read: see the version store.
            LeafPart::of_scan(view, unread, self.direction, |bounds| {
                let mut changed = match (snapshot, state) {
                    (Some(snapshot), Some(state)) => state.versions.changed(bounds, snapshot, end),
                    _ => BTreeMap::new(),
                };
                changed.retain(|key, _| !core.is_own(self.tree, key));
                changed
            })
        });
        if let ReadAt::Snapshot(snapshot) = at {
            core.inner().timeline.check_snapshot(snapshot)?;
        }
        Ok(read?.map_or(Read::Nothing, |(part, rest)| Read::Part(part, rest)))
    }

    /// Reads the next leaf, or part of it, under locks, which are taken on the way.
    fn read_locked(&mut self, core: &mut Core, state: &TreeRef, start: &Bound<Vec<u8>>) -> Result<Read> {
        if !self.edge_locked {
            self.lock_above(core, state)?;
            self.edge_locked = true;
        }
        loop {
            if core.applied() != self.applied {
                return Ok(Read::Again);
            }
            if let Some(read) = self.try_read_locked(core, state, self.unread_from(start))? {
                self.lock_count = (self.lock_count * 2).min(LOCKED_AT_ONCE.1);
                return Ok(read);
            }
        }
    }

    /// Locks the keys that are there and reads the leaf. None if others were there before the locks were granted, or
    /// own changes were applied.
    fn try_read_locked(&self, core: &mut Core, state: &TreeRef, unread: Bounds<'_>) -> Result<Option<Read>> {
        let direction = self.direction;
        let view = self.leaf(&state.tree, &core.inner().store, unread)?;
        let mut part = Covered::of(&view, unread, direction);
        let pending = state.pending(part.bounds);
        let mut keys = existing(&view, part.bounds, &pending, direction, self.lock_count + 1)?;
        if keys.len() > self.lock_count {
            keys.truncate(self.lock_count);
            part.cut_after(keys[self.lock_count - 1], direction);
        }
        for key in &keys {
            lock_scanned(core, self.tree, Some(key))?;
        }
        if part.is_last && direction == Direction::Forward {
            self.lock_above(core, state)?;
        }
        if core.applied() != self.applied {
            return Ok(None);
        }
        // What was there before the locks were granted must be what is there now. The tree last: a key stops to be
        // pending after it is in the tree, and one that leaves the tree before it is committed is hidden first.
        let hidden = state.hidden();
        let snapshot = core.snapshot_of(ReadAt::Newest);
        let failpoints = core.inner().store.failpoints();
        let mut pending = state.pending(part.bounds);
        let again = state.tree.leaf_near(&core.inner().store, &view, seek(unread, direction))?;
        if failpoints.is_on(Failpoint::PendingAfterTree) {
            thread::yield_now();
            pending = state.pending(part.bounds);
        }
        let now = existing(&again, part.bounds, &pending, direction, usize::MAX)?;
        let is_same = now == keys && state.hidden() == hidden;
        if !is_same || !Covered::of(&again, unread, direction).covers(&part) {
            return Ok(None);
        }
        let sees_before = failpoints.is_on(Failpoint::SeenBeforeLock);
        if !sees_before {
            core.newest();
        }
        // What is not committed there is the transaction's own, and may be taken back.
        let changed = snapshot
            .filter(|_| !sees_before)
            .map(|snapshot| state.versions.changed(part.bounds, snapshot, NO_END));
        let rest = part.rest(direction);
        let part = LeafPart::new(again, part.bounds, changed.unwrap_or_default())?;
        Ok(Some(Read::Part(part, rest)))
    }

    /// Locks the first key beyond the range and the gap before it, which reaches into the range.
    fn lock_above(&self, core: &mut Core, state: &TreeState) -> Result<()> {
        let above = match &self.rest.end {
            Bound::Included(end) => Bound::Excluded(&**end),
            Bound::Excluded(end) => Bound::Included(&**end),
            Bound::Unbounded => return lock_scanned(core, self.tree, None),
        };
        loop {
            let key = state.next_key(&core.inner().store, above)?;
            lock_scanned(core, self.tree, key.as_deref())?;
            if state.next_key(&core.inner().store, above)? == key {
                return Ok(());
            }
        }
    }
}

/// The outcome of reading ahead.
#[allow(clippy::large_enum_variant, reason = "it is matched where it is returned")]
enum Read {
    /// The next part, and where what is unread goes on behind it.
    Part(LeafPart, Option<Bound<Vec<u8>>>),
    /// Nothing of the tree is stored.
    Nothing,
    /// Own changes were applied meanwhile: it is to be read again.
    Again,
}

/// See [`Transaction::scan`](crate::Transaction::scan).
pub(super) fn scan(core: &mut Core, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
    let used = trees::use_tree(core, tree, core.read_mode())?;
    shared_keys::observe_tree(core, tree)?;
    core.fix_snapshot()?;
    Ok(Cursor::new(core, tree, used.state, range, direction, false))
}

/// See [`Transaction::scan_newest`](crate::Transaction::scan_newest).
pub(super) fn scan_newest(
    core: &mut Core,
    tree: TreeId,
    range: KeyRange,
    direction: Direction,
) -> Result<Cursor> {
    let used = trees::use_tree(core, tree, core.read_mode())?;
    Ok(Cursor::new(core, tree, used.state, range, direction, true))
}

/// See [`Transaction::last_key`](crate::Transaction::last_key).
pub(super) fn last_key(core: &mut Core, tree: TreeId) -> Result<Option<Vec<u8>>> {
    let used = trees::use_tree(core, tree, core.read_mode())?;
    // The tree last: a key stops to be pending after it is in the tree.
    let pending = used.state.and_then(|state| state.last_pending()).map(<[u8]>::into_vec);
    let stored = scan_newest(core, tree, KeyRange::all(), Direction::Backward)?.next_in(core)?;
    Ok(pending.max(stored.map(|(key, _)| key)))
}

/// Returns where a scan's next step reads: a snapshot, or the newest values, with true if their keys are to be
/// locked.
pub(super) fn scan_at(core: &mut Core, tree: TreeId) -> Result<(ReadAt, bool)> {
    core.check()?;
    let used = trees::use_tree(core, tree, core.read_mode())?;
    read::plain_read(core, &used)
}

/// Locks an existing key and the gap before it against others' writes; with none, what is after the last key.
pub(super) fn lock_scanned(core: &mut Core, tree: TreeId, key: Option<&[u8]>) -> Result<()> {
    large::relieve(core)?;
    let used = trees::use_tree(core, tree, core.read_mode())?;
    if let Some(state) = &used.state {
        count_scan(core, state);
    }
    if let Some(key) = key {
        shared_keys::lock_again(core, &used, key, key_mode::S)?;
    }
    core.lock(gap_name(tree, key), gap_mode::SCAN)
}

/// Tells inserts that gaps of a tree may be locked.
fn count_scan(core: &mut Core, state: &TreeRef) {
    if core.inner().store.failpoints().is_on(Failpoint::ScanNotCounted) {
        return;
    }
    if !core.scanning.iter().any(|scanning| scanning.is_of(state)) {
        core.scanning.push(Scanning::new(state.clone()));
    }
}

/// Returns the first keys that exist within bounds of the leaf, in it or pending, in the order of the scan.
fn existing<'v>(
    view: &'v LeafView,
    bounds: Bounds<'_>,
    pending: &'v [Box<[u8]>],
    direction: Direction,
    count_max: usize,
) -> Result<Vec<&'v [u8]>> {
    let mut entries = entries_in(view, bounds)?;
    match direction {
        Direction::Forward => entries.end = entries.end.min(entries.start.saturating_add(count_max)),
        Direction::Backward => entries.start = entries.start.max(entries.end.saturating_sub(count_max)),
    }
    let keys = entries.map(|index| view.known_entry(index).map(|(key, _)| key));
    let mut keys = keys.collect::<Result<Vec<&[u8]>>>()?;
    if !pending.is_empty() {
        keys.extend(pending.iter().map(|key| &**key));
        keys.sort_unstable();
        keys.dedup();
    }
    if direction == Direction::Backward {
        keys.reverse();
    }
    keys.truncate(count_max);
    Ok(keys)
}

/// Shortens what is left of a range to what is beyond `key`. Reuses the bound's buffer.
fn shorten(rest: &mut KeyRange, key: &[u8], direction: Direction) {
    let bound = match direction {
        Direction::Forward => &mut rest.start,
        Direction::Backward => &mut rest.end,
    };
    if let Bound::Excluded(buffer) = bound {
        buffer.clear();
        buffer.extend_from_slice(key);
    } else {
        *bound = Bound::Excluded(key.to_vec());
    }
}

//! Scans: the entries of a range in order, as the transaction sees them.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use super::{
    core::Core,
    large, read, shared_keys,
    trees::{self, gap_name},
};
use crate::{
    Result, TreeId,
    access::{Direction, KeyRange, LeafView, Seek, Value},
    failpoint::Failpoint,
    lock::{gap_mode, key_mode},
    mvcc::{Before, NO_END, ReadAt, Scanning, TreeRef, TreeState},
    op::Calls,
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
    /// The part of the range that was not returned yet.
    rest: KeyRange,
    /// Entries of the tree that were read ahead.
    ahead: VecDeque<(Box<[u8]>, Ahead)>,
    /// The part of the range that was not read from the tree yet; none at the end.
    unread: Option<KeyRange>,
    /// Number of keys to lock in the next step.
    lock_count: usize,
    /// True if the lock above the range was taken, or is not due yet: a backward scan under locks begins with it.
    edge_locked: bool,
    /// True if it reads the newest values and locks nothing.
    newest: bool,
    /// [`Core::applied`] when it read ahead.
    applied: u64,
}

/// The value of an entry that was read ahead.
pub(super) enum Ahead {
    Value(Box<[u8]>),
    /// To be fetched when its turn comes.
    Large,
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
        let unread = (!range.is_empty()).then(|| range.clone());
        let (lock_count, edge_locked) = (LOCKED_AT_ONCE.0, direction == Direction::Forward);
        Cursor {
            tree,
            state,
            direction,
            rest: range,
            ahead: VecDeque::new(),
            unread,
            lock_count,
            edge_locked,
            newest,
            applied: core.applied(),
        }
    }

    /// Returns the next entry (key, value), or none at the end of the range. `core` is that of the transaction that
    /// began the scan.
    pub(super) fn next_in(&mut self, core: &mut Core) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if !core.notes_reads() {
            return self.step(core);
        }
        let mut read = self.rest.clone();
        let next = self.step(core)?;
        if let Some((key, _)) = &next {
            match self.direction {
                Direction::Forward => read.end = Bound::Included(key.clone()),
                Direction::Backward => read.start = Bound::Included(key.clone()),
            }
        }
        core.note_range(self.tree, || read);
        Ok(next)
    }

    fn step(&mut self, core: &mut Core) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        loop {
            self.follow(core);
            while self.ahead.is_empty() && self.unread.is_some() {
                self.read_ahead(core)?;
                self.follow(core);
            }
            let last = self.direction == Direction::Backward;
            let own = core.writes.edge(self.tree, self.rest.as_bounds(), last);
            let stored = self.ahead.front().map(|(key, _)| &**key);
            let take_own = match (own, stored) {
                (None, None) => return Ok(None),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own, _)), Some(stored)) if last => own >= stored,
                (Some((own, _)), Some(stored)) => own <= stored,
            };
            if take_own {
                let (key, own) = own.expect("chosen");
                let (key, own) = (key.to_vec(), own.clone());
                let is_stored = stored == Some(&key);
                // Before anything is passed: a caller that goes on after an error finds the key again.
                let is_newest = !self.newest
                    && matches!(own, Write::Apply(_))
                    && shared_keys::observe_in(core, self.tree, &key)?;
                let there = if is_stored { self.ahead.pop_front() } else { None };
                self.pass(&key);
                let value = match own {
                    Write::Put(value) => Some(value.into_vec()),
                    Write::Delete => None,
                    Write::Apply(calls) => {
                        let there = there.map(|(_, there)| there);
                        self.applied_to(core, &key, there, is_newest, &calls)?
                    }
                };
                if let Some(value) = value {
                    return Ok(Some((key, value)));
                }
            } else if let Some((key, value)) = self.ahead.pop_front() {
                self.pass(&key);
                core.note_read(self.tree, &key);
                let value = match value {
                    Ahead::Value(value) => Some(value.into_vec()),
                    Ahead::Large => self.large(core, &key)?,
                };
                if let Some(value) = value {
                    return Ok(Some((key.into_vec(), value)));
                }
            }
        }
    }

    /// Forgets what was read ahead if own changes were applied to pages since: they are not in the write set any more.
    fn follow(&mut self, core: &Core) {
        let applied = core.applied();
        if self.applied != applied {
            self.applied = applied;
            self.ahead.clear();
            self.unread = (!self.rest.is_empty()).then(|| self.rest.clone());
        }
    }

    /// Shortens the rest to what is beyond `key`. Reuses the bound's buffer: this runs for every entry.
    fn pass(&mut self, key: &[u8]) {
        let bound = match self.direction {
            Direction::Forward => &mut self.rest.start,
            Direction::Backward => &mut self.rest.end,
        };
        if let Bound::Excluded(buffer) = bound {
            buffer.clear();
            buffer.extend_from_slice(key);
        } else {
            *bound = Bound::Excluded(key.to_vec());
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
        there: Option<Ahead>,
        is_newest: bool,
        calls: &Calls,
    ) -> Result<Option<Vec<u8>>> {
        let there = match there {
            // It has changed since the snapshot: see `shared_keys::observe`.
            _ if is_newest => {
                let at = core.newest();
                read::stored(core, self.tree, self.state.as_deref(), key, at)?
            }
            Some(Ahead::Value(there)) => Some(there.into_vec()),
            Some(Ahead::Large) => self.large(core, key)?,
            None => None,
        };
        there.map(|there| calls.apply(&there)).transpose()
    }

    fn large(&self, core: &mut Core, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (at, _) = self.at(core)?;
        read::stored(core, self.tree, self.state.as_deref(), key, at)
    }

    /// Reads the next leaf, or part of it, into `ahead`.
    fn read_ahead(&mut self, core: &mut Core) -> Result<()> {
        let Some(unread) = self.unread.clone() else { return Ok(()) };
        let (at, locked) = self.at(core)?;
        if let (true, Some(state)) = (locked, self.state.clone()) {
            return self.read_locked(core, &state, &unread);
        }
        let state = self.state.as_deref();
        let snapshot = core.snapshot_of(at);
        let read = read::read_stored(core, self.tree, state, at, |tree, pages, end| {
            let view = tree.leaf(pages, seek(&unread, self.direction))?;
            let part = Part::of(&view, &unread, self.direction);
            // Looked up after the leaf was read: see the version store.
            let mut changed = match (snapshot, state) {
                (Some(snapshot), Some(state)) => {
                    state.versions.changed(part.range.as_bounds(), snapshot, end)
                }
                _ => BTreeMap::new(),
            };
            changed.retain(|key, _| !core.is_own(self.tree, key));
            Ok((view, part, changed))
        });
        if let ReadAt::Snapshot(snapshot) = at {
            core.inner().timeline.check_snapshot(snapshot)?;
        }
        match read? {
            Some((view, part, changed)) => self.take(&view, part, changed)?,
            None => self.unread = None,
        }
        Ok(())
    }

    /// Reads the next leaf, or part of it, into `ahead` under locks, which are taken on the way.
    fn read_locked(&mut self, core: &mut Core, state: &TreeRef, unread: &KeyRange) -> Result<()> {
        if !self.edge_locked {
            self.lock_above(core, state, unread)?;
            self.edge_locked = true;
        }
        loop {
            if core.applied() != self.applied {
                return Ok(());
            }
            let view = state.tree.leaf(&core.inner().store, seek(unread, self.direction))?;
            let mut part = Part::of(&view, unread, self.direction);
            let mut keys = existing(&view, &part.range, state.pending(part.range.as_bounds()))?;
            if self.direction == Direction::Backward {
                keys.reverse();
            }
            if keys.len() > self.lock_count {
                keys.truncate(self.lock_count);
                part.cut_after(&keys[self.lock_count - 1], self.direction);
            }
            for key in &keys {
                lock_scanned(core, self.tree, Some(key))?;
            }
            if part.is_last && self.direction == Direction::Forward {
                self.lock_above(core, state, unread)?;
            }
            if core.applied() != self.applied {
                return Ok(());
            }
            // What was there before the locks were granted must be what is there now. The tree last: a key stops to be
            // pending after it is in the tree, and one that leaves the tree before it is committed is hidden first.
            let hidden = state.hidden();
            let snapshot = core.snapshot_of(ReadAt::Newest);
            let failpoints = core.inner().store.failpoints();
            let mut pending = state.pending(part.range.as_bounds());
            let again = state.tree.leaf(&core.inner().store, seek(unread, self.direction))?;
            if failpoints.is_on(Failpoint::PendingAfterTree) {
                thread::yield_now();
                pending = state.pending(part.range.as_bounds());
            }
            let mut now = existing(&again, &part.range, pending)?;
            if self.direction == Direction::Backward {
                now.reverse();
            }
            let same = now == keys && state.hidden() == hidden;
            if same && Part::of(&again, unread, self.direction).covers(&part) {
                self.lock_count = (self.lock_count * 2).min(LOCKED_AT_ONCE.1);
                if core.inner().store.failpoints().is_on(Failpoint::SeenBeforeLock) {
                    return self.take(&again, part, BTreeMap::new());
                }
                core.newest();
                // What is not committed there is the transaction's own, and may be taken back.
                let changed =
                    snapshot.map(|snapshot| state.versions.changed(part.range.as_bounds(), snapshot, NO_END));
                return self.take(&again, part, changed.unwrap_or_default());
            }
        }
    }

    /// Locks the first key beyond the range and the gap before it, which reaches into the range.
    fn lock_above(&self, core: &mut Core, state: &TreeState, range: &KeyRange) -> Result<()> {
        let above = match &range.end {
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

    /// Puts the entries of the part into `ahead`, with what those keys held that have `changed` since, and notes what
    /// is unread after it.
    fn take(&mut self, view: &LeafView, part: Part, changed: BTreeMap<Box<[u8]>, Before>) -> Result<()> {
        let mut entries = merge(view, &part.range, changed)?;
        if self.direction == Direction::Backward {
            entries.reverse();
        }
        self.ahead.extend(entries);
        self.unread = part.after(self.unread.take(), self.direction);
        Ok(())
    }
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

/// Returns the leaf to look for when the rest of a scan is `unread`.
pub(super) fn seek(unread: &KeyRange, direction: Direction) -> Seek<'_> {
    match direction {
        Direction::Forward => match &unread.start {
            Bound::Included(key) | Bound::Excluded(key) => Seek::At(key),
            Bound::Unbounded => Seek::First,
        },
        Direction::Backward => match &unread.end {
            Bound::Included(key) => Seek::At(key),
            Bound::Excluded(key) => Seek::Before(key),
            Bound::Unbounded => Seek::Last,
        },
    }
}

/// Returns the entries of a leaf within a range, in ascending order, with what those keys held that have `changed`
/// since the snapshot.
pub(super) fn merge(
    view: &LeafView,
    range: &KeyRange,
    mut changed: BTreeMap<Box<[u8]>, Before>,
) -> Result<Vec<(Box<[u8]>, Ahead)>> {
    let mut entries: Vec<(Box<[u8]>, Ahead)> = Vec::new();
    for entry in entries_in(view, range)? {
        let (key, value) = entry?;
        while let Some(first) = changed.first_entry()
            && **first.key() < *key
        {
            let (key, before) = first.remove_entry();
            entries.extend(before.map(|before| (key, Ahead::Value((&*before).into()))));
        }
        if let Some((key, before)) = changed.remove_entry(key) {
            entries.extend(before.map(|before| (key, Ahead::Value((&*before).into()))));
            continue;
        }
        entries.push((
            key.into(),
            match value {
                Value::Inline(value) => Ahead::Value(value.into()),
                Value::Large { .. } => Ahead::Large,
            },
        ));
    }
    for (key, before) in changed {
        entries.extend(before.map(|before| (key, Ahead::Value((&*before).into()))));
    }
    Ok(entries)
}

/// The keys that exist within a range of the leaf: in it or pending.
fn existing(view: &LeafView, range: &KeyRange, pending: Vec<Box<[u8]>>) -> Result<Vec<Box<[u8]>>> {
    let entries = entries_in(view, range)?;
    let mut keys = entries.map(|entry| Ok(entry?.0.into())).collect::<Result<Vec<Box<[u8]>>>>()?;
    if !pending.is_empty() {
        keys.extend(pending);
        keys.sort_unstable();
        keys.dedup();
    }
    Ok(keys)
}

fn entries_in<'v>(
    view: &'v LeafView,
    range: &'v KeyRange,
) -> Result<impl Iterator<Item = Result<(&'v [u8], Value<'v>)>>> {
    let start = match &range.start {
        Bound::Included(key) => view.search(key)?.unwrap_or_else(|index| index),
        Bound::Excluded(key) => view.search(key)?.map_or_else(|index| index, |index| index + 1),
        Bound::Unbounded => 0,
    };
    let entries = (start..view.len()).map_while(|index| view.entry(index).transpose());
    Ok(entries.take_while(|entry| entry.as_ref().map_or(true, |(key, _)| !range.is_above(key))))
}

/// The part of a scan's range that one leaf covers.
pub(super) struct Part {
    pub range: KeyRange,
    /// True if the scan ends with this part.
    is_last: bool,
}

impl Part {
    pub fn of(view: &LeafView, unread: &KeyRange, direction: Direction) -> Part {
        let mut range = unread.clone();
        let is_last = match direction {
            Direction::Forward => match view.upper() {
                Some(upper) if !unread.is_above(upper) => {
                    range.end = Bound::Excluded(upper.to_vec());
                    false
                }
                _ => true,
            },
            Direction::Backward => match view.lower() {
                Some(lower) if !unread.is_below(lower) => {
                    range.start = Bound::Included(lower.to_vec());
                    // An included start at the leaf's first key leaves nothing for the leaf before.
                    matches!(&unread.start, Bound::Included(start) if **start == *lower)
                }
                _ => true,
            },
        };
        Part { range, is_last }
    }

    /// Ends the part behind `key`.
    fn cut_after(&mut self, key: &[u8], direction: Direction) {
        match direction {
            Direction::Forward => self.range.end = Bound::Included(key.to_vec()),
            Direction::Backward => self.range.start = Bound::Included(key.to_vec()),
        }
        self.is_last = false;
    }

    /// True if this part is as large as `other`, or larger.
    fn covers(&self, other: &Part) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        let starts = match (&self.range.start, &other.range.start) {
            (Unbounded, _) => true,
            (_, Unbounded) => false,
            (Excluded(own), Included(others)) => own < others,
            (Included(own) | Excluded(own), Included(others) | Excluded(others)) => own <= others,
        };
        let ends = match (&self.range.end, &other.range.end) {
            (Unbounded, _) => true,
            (_, Unbounded) => false,
            (Excluded(own), Included(others)) => own > others,
            (Included(own) | Excluded(own), Included(others) | Excluded(others)) => own >= others,
        };
        starts && ends
    }

    /// Returns the rest of `unread` behind this part.
    pub fn after(self, unread: Option<KeyRange>, direction: Direction) -> Option<KeyRange> {
        if self.is_last {
            return None;
        }
        let mut rest = unread?;
        match direction {
            Direction::Forward => rest.start = flip(self.range.end),
            Direction::Backward => rest.end = flip(self.range.start),
        }
        (!rest.is_empty()).then_some(rest)
    }
}

fn flip(bound: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

//! The MVCC version store: what keys held before recent commits, for snapshots that are older than those.
//!
//! In memory only. A version is (CSN, the value before it). A snapshot reads, of each key, the first version after it;
//! so a version is needed while some snapshot in use lies between the key's version before and its own CSN, or may
//! still be taken so: a read-only transaction starts at the durable CSN. However often keys change, an old snapshot
//! costs one version of each key that has changed since.
//!
//! Operations ([`op`](crate::op)) on one key may be applied in another order than that of their commits, since none of
//! them sees anything of the others. The versions of those that are applied know which operations they were, and are
//! made anew when an earlier one comes: so each is what was there in the order of CSNs, and so is the key's value in
//! the end. They are kept at least until all earlier commits are applied, because these are durable only together.
//!
//! Where changes are made at once ([`immediate`](super::immediate)), a key has a version before its transaction has a
//! CSN: it is [`PENDING`], newer than every snapshot, and gets its CSN when the transaction does. If the change is
//! undone, the version gets a CSN all the same. The change was in the tree for a moment, and a reader that has seen
//! it there needs the version; it is no conflict for others, for the key is what it was.
//!
//! Garbage collection: commits forget versions that no snapshot needs, some dozens at a time.
//!
//! When the versions exceed their limit, the oldest snapshots that need some are ended: a reader at one of them fails
//! with [`Error::SnapshotTooOld`].

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    ops::{Bound, Deref, DerefMut},
};

use smallvec::{SmallVec, smallvec};

use super::{
    key::{Key, KeyBytes},
    tree::TreeRef,
    writes::{Calls, absent},
};
use crate::{
    Csn, Error, Result,
    sync::{
        Arc, Condvar, Line, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// The value that a key held, if it was there.
pub(super) type Before = Option<Arc<[u8]>>;
/// Each changed key's versions.
type ByKey = BTreeMap<Key, History>;
/// The CSN of a version whose transaction has none yet.
pub(super) const PENDING: Csn = Csn(u64::MAX - 1);

/// A change of a key by a commit.
struct Version {
    csn: Csn,
    /// True if its transaction has taken it back.
    undone: bool,
    /// The value that was there before.
    before: Before,
    did: Did,
    /// Bytes of memory that it takes, about.
    bytes: usize,
}

impl Version {
    /// The placeholder of a version that is forgotten.
    const NONE: Version = Version { csn: Csn(0), undone: true, before: None, did: Did::Changed, bytes: 0 };
}

/// The versions of a key, in the order of CSNs.
struct History {
    /// Begins with versions that are forgotten. A hot row has as many versions as commits are not durable yet, and the
    /// oldest go first: the others are moved once in so many times.
    versions: SmallVec<[Version; 1]>,
    forgotten: usize,
}

impl History {
    fn insert(&mut self, at: usize, version: Version) {
        self.versions.insert(self.forgotten + at, version);
    }

    fn remove(&mut self, at: usize) -> Version {
        let version = match at {
            0 => {
                self.forgotten += 1;
                std::mem::replace(&mut self.versions[self.forgotten - 1], Version::NONE)
            }
            _ => self.versions.remove(self.forgotten + at),
        };
        if self.forgotten > self.len() {
            self.versions.drain(..std::mem::take(&mut self.forgotten));
        }
        version
    }

    /// Takes the version at `csn` away, unless `snapshot`, the newest one in use before that, needs it.
    fn forget(&mut self, csn: Csn, snapshot: Option<Csn>) -> Option<Version> {
        let at = self.binary_search_by_key(&csn, |version| version.csn).ok()?;
        let previous = at.checked_sub(1).map_or(Csn(0), |at| self[at].csn);
        if snapshot.is_some_and(|snapshot| snapshot >= previous) {
            return None;
        }
        let mut version = self.remove(at);
        // A query for the changes since an older snapshot must still find this one, so the version before takes it
        // over. That needs its own operations no more: all commits up to this one are applied.
        if let Some(previous) = at.checked_sub(1).and_then(|at| self.get_mut(at)).filter(|_| !version.undone)
            && (matches!(version.did, Did::Changed) || previous.undone)
        {
            previous.did = std::mem::replace(&mut version.did, Did::Changed);
            previous.undone = false;
        }
        Some(version)
    }
}

impl Deref for History {
    type Target = [Version];
    fn deref(&self) -> &[Version] {
        &self.versions[self.forgotten..]
    }
}

impl DerefMut for History {
    fn deref_mut(&mut self) -> &mut [Version] {
        &mut self.versions[self.forgotten..]
    }
}

/// The kind of a commit's change to a key.
enum Did {
    /// A change that may have seen what was there.
    Changed,
    /// Blind operations, which have not seen it. They are kept if commits before it were not applied yet.
    Operated(Option<Arc<Calls>>),
}

/// The changes of others to a key since a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Nothing,
    /// Operations that did not see what was there.
    Operations,
    /// Something else; the key was there at the snapshot, or not.
    Changes {
        was_there: bool,
    },
}
/// A changed key.
pub(super) type ChangedKey = (TreeRef, Key);

/// The versions of one tree's keys.
#[derive(Default)]
pub(super) struct Versions {
    keys: Mutex<ByKey>,
    /// Number of keys, to pass by a tree without any.
    len: AtomicUsize,
}

impl Versions {
    /// Publishes what `key` held before commit `csn`. Must be called before the key changes in its tree, and for one
    /// key in the order of CSNs. Returns what it takes, in bytes.
    pub fn publish(&self, key: &[u8], csn: Csn, before: Option<&[u8]>) -> usize {
        self.push(&mut self.keys.lock(), key, csn, before, Did::Changed)
    }

    fn push(&self, keys: &mut ByKey, key: &[u8], csn: Csn, before: Option<&[u8]>, did: Did) -> usize {
        let bytes = push(keys.entry(Key::from(key)), csn, before, did);
        self.len.store(keys.len(), Ordering::Release);
        bytes
    }

    /// Publishes a commit that applies operations to `key`, which has the value `there` now, and returns what it has
    /// afterwards, with what the version takes. Operations of later commits may have been applied already; those of
    /// earlier ones have all been if it `is_next`.
    ///
    /// Must be called before the key changes in its tree; of those that change one key, one after the other.
    ///
    /// # Errors
    /// [`Error::Operation`]; nothing is published then.
    pub fn publish_calls(
        &self,
        key: &[u8],
        csn: Csn,
        there: &[u8],
        calls: Calls,
        is_next: bool,
    ) -> Result<(Vec<u8>, usize)> {
        let mut keys = self.keys.lock();
        let mut entry = keys.entry(Key::from(key));
        let later = match &mut entry {
            Entry::Occupied(entry) => {
                let versions = entry.get_mut();
                let at = versions.partition_point(|version| version.csn < csn);
                &mut versions[at..]
            }
            Entry::Vacant(_) => &mut [],
        };
        let Some(first) = later.first() else {
            let value = calls.apply(there)?;
            let kept = (!is_next).then(|| Arc::new(calls));
            let bytes = push(entry, csn, Some(there), Did::Operated(kept));
            self.len.store(keys.len(), Ordering::Release);
            return Ok((value, bytes));
        };
        let before = first.before.clone().ok_or_else(absent)?;
        let mut values = vec![calls.apply(&before)?];
        for version in &*later {
            // A transaction that saw the value would have waited for this commit, so later versions are of
            // operations.
            let Did::Operated(Some(calls)) = &version.did else { return Err(absent()) };
            values.push(calls.apply(&values[values.len() - 1])?);
        }
        let value = values.pop().unwrap_or_default();
        for (version, value) in later.iter_mut().zip(values) {
            version.before = Some(value.into());
        }
        let bytes = version_bytes(key, Some(&before));
        let did = Did::Operated((!is_next).then(|| Arc::new(calls)));
        let version = Version { csn, undone: false, before: Some(before), did, bytes };
        if let Some(versions) = keys.get_mut(KeyBytes::of(key)) {
            let at = versions.partition_point(|version| version.csn < csn);
            versions.insert(at, version);
        }
        Ok((value, bytes))
    }

    /// Publishes what `key` holds before a transaction changes it that has no CSN yet, by operations or otherwise; the
    /// only one that does so at the time. Returns what the version takes, in bytes; none if the transaction has one.
    pub fn publish_pending(
        &self,
        key: &[u8],
        before: Option<&[u8]>,
        calls: Option<&Arc<Calls>>,
    ) -> Option<usize> {
        let mut keys = self.keys.lock();
        let did = calls.map_or(Did::Changed, |calls| Did::Operated(Some(calls.clone())));
        let last = keys.get_mut(KeyBytes::of(key)).and_then(|versions| versions.last_mut());
        if let Some(version) = last.filter(|version| version.csn == PENDING) {
            version.did = did;
            return None;
        }
        Some(self.push(&mut keys, key, PENDING, before, did))
    }

    /// Gives the pending version of `key` its CSN: the key is changed, or what it was again if that is `undone`.
    pub fn stamp(&self, key: &[u8], csn: Csn, undone: bool) {
        let mut keys = self.keys.lock();
        let last = keys.get_mut(KeyBytes::of(key)).and_then(|versions| versions.last_mut());
        if let Some(version) = last.filter(|version| version.csn == PENDING) {
            (version.csn, version.undone) = (csn, undone);
        }
    }

    /// Takes a commit for the last one of its key: see [`Failpoint::VersionsInApplyOrder`].
    pub fn publish_in_apply_order(
        &self,
        key: &[u8],
        csn: Csn,
        there: &[u8],
        calls: &Calls,
    ) -> Result<(Vec<u8>, usize)> {
        let mut keys = self.keys.lock();
        let last = keys
            .get(KeyBytes::of(key))
            .and_then(|versions| versions.last())
            .map_or(csn, |last| last.csn.max(csn));
        let bytes = match last == csn {
            true => self.push(&mut keys, key, csn, Some(there), Did::Changed),
            false => 0,
        };
        Ok((calls.apply(there)?, bytes))
    }

    /// Returns the kind of changes that commits after `snapshot` have made to a key.
    pub fn since(&self, key: &[u8], snapshot: Csn) -> Since {
        if self.len.load(Ordering::Acquire) == 0 {
            return Since::Nothing;
        }
        let keys = self.keys.lock();
        let Some(versions) = keys.get(KeyBytes::of(key)) else { return Since::Nothing };
        let mut later = since(versions, snapshot).peekable();
        match later.peek().map(|first| first.before.is_some()) {
            None => Since::Nothing,
            Some(_) if later.all(|version| matches!(version.did, Did::Operated(_))) => Since::Operations,
            Some(was_there) => Since::Changes { was_there },
        }
    }

    /// True if a commit after `snapshot` has changed a key.
    pub fn changed_since(&self, key: &[u8], snapshot: Csn) -> bool {
        self.len.load(Ordering::Acquire) > 0
            && self
                .keys
                .lock()
                .get(KeyBytes::of(key))
                .is_some_and(|versions| since(versions, snapshot).next().is_some())
    }

    /// Returns the newest commit that changed `key`; none if its version is forgotten, and so every snapshot taken
    /// from now on includes it.
    pub fn newest(&self, key: &[u8]) -> Option<Csn> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let keys = self.keys.lock();
        keys.get(KeyBytes::of(key))
            .and_then(|versions| since(versions, Csn(0)).last())
            .map(|version| version.csn)
    }

    /// Returns the value that `key` held at `snapshot`, if a commit before `end` has changed it since. The caller
    /// must look at the tree first, here after.
    pub fn before(&self, key: &[u8], snapshot: Csn, end: Csn) -> Option<Before> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.keys.lock().get(KeyBytes::of(key)).and_then(|versions| at(versions, snapshot, end))
    }

    /// Returns the keys within bounds that commits before `end` have changed since `snapshot`, each with what it held
    /// then.
    pub fn changed(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        snapshot: Csn,
        end: Csn,
    ) -> BTreeMap<Box<[u8]>, Before> {
        if self.len.load(Ordering::Acquire) == 0 {
            return BTreeMap::new();
        }
        let keys = self.keys.lock();
        keys.range::<KeyBytes, _>((bounds.0.map(KeyBytes::of), bounds.1.map(KeyBytes::of)))
            .filter_map(|(key, versions)| Some((key[..].into(), at(versions, snapshot, end)?)))
            .collect()
    }

    /// Forgets the version of `key` at `csn`, unless `snapshot`, the newest one in use before that, needs it. Returns
    /// the bytes that were given back, or none if it is needed.
    fn forget(&self, key: &[u8], csn: Csn, snapshot: Option<Csn>) -> Option<usize> {
        let mut keys = self.keys.lock();
        let Entry::Occupied(mut entry) = keys.entry(Key::from(key)) else { return None };
        let version = entry.get_mut().forget(csn, snapshot)?;
        if entry.get().is_empty() {
            entry.remove();
            self.len.store(keys.len(), Ordering::Release);
        }
        drop(keys);
        Some(version.bytes)
    }

    /// As [`Versions::forget`], of versions that no snapshot needs, sorted by their keys. Returns the bytes that were
    /// given back.
    fn forget_all(&self, outdated: &[Outdated]) -> usize {
        let mut forgotten: SmallVec<[Version; AT_ONCE]> = SmallVec::new();
        let mut keys = self.keys.lock();
        for of_key in outdated.chunk_by(|a, b| a.key == b.key) {
            let Entry::Occupied(mut entry) = keys.entry(of_key[0].key.clone()) else { continue };
            let versions = entry.get_mut();
            forgotten.extend(of_key.iter().filter_map(|outdated| versions.forget(outdated.csn, None)));
            if versions.is_empty() {
                entry.remove();
            }
        }
        self.len.store(keys.len(), Ordering::Release);
        drop(keys);
        forgotten.iter().map(|version| version.bytes).sum()
    }
}

fn push(entry: Entry<'_, Key, History>, csn: Csn, before: Option<&[u8]>, did: Did) -> usize {
    let bytes = version_bytes(entry.key(), before);
    let version = Version { csn, undone: false, before: before.map(Arc::from), did, bytes };
    match entry {
        Entry::Occupied(mut entry) => {
            debug_assert!(entry.get().last().is_none_or(|last| last.csn < csn));
            entry.get_mut().versions.push(version);
        }
        Entry::Vacant(entry) => {
            entry.insert(History { versions: smallvec![version], forgotten: 0 });
        }
    }
    bytes
}

/// Returns the bytes of memory that a version takes, about.
fn version_bytes(key: &[u8], before: Option<&[u8]>) -> usize {
    const OVERHEAD_BYTES: usize = 160;
    key.len() + before.map_or(0, <[u8]>::len) + OVERHEAD_BYTES
}

/// Returns the versions of commits after a snapshot.
fn since(versions: &[Version], snapshot: Csn) -> impl Iterator<Item = &Version> {
    let first_after = versions.partition_point(|version| version.csn <= snapshot);
    versions[first_after..].iter().filter(|version| !version.undone && version.csn < PENDING)
}

fn at(versions: &[Version], snapshot: Csn, end: Csn) -> Option<Before> {
    let first_after = versions.partition_point(|version| version.csn <= snapshot);
    versions.get(first_after).filter(|version| version.csn < end).map(|version| version.before.clone())
}

/// A version, to be forgotten when no snapshot needs it.
struct Outdated {
    csn: Csn,
    tree: TreeRef,
    key: Key,
}

impl Outdated {
    /// Returns the tree, key and commit that it is found by.
    fn place(&self) -> (usize, &Key, Csn) {
        (self.tree.address(), &self.key, self.csn)
    }
}

/// Number of versions that are forgotten together: looked for in the order of their keys, and under one mutex those
/// of a tree, they take less time than one after another.
const AT_ONCE: usize = 64;
/// Bytes of versions from which on commits forget some even if there are fewer of them.
const MANY_BYTES: usize = 256 << 10;

/// The commits that are applied and the snapshots in use, which decide the versions that are needed.
pub(super) struct Timeline {
    /// Every CSN up to this one is applied.
    watermark: AtomicU64,
    applied: Line<Mutex<Vec<Csn>>>,
    advanced: Condvar,
    snapshots: Line<Mutex<BTreeMap<Csn, Snapshot>>>,
    /// Snapshots before this one are ended.
    ended: AtomicU64,
    /// Versions that are to be looked at, in the order in which commits were applied, behind those that a snapshot
    /// needed until now. One that may still be needed by a new snapshot holds up those behind it.
    outdated: Line<Mutex<VecDeque<Outdated>>>,
    /// Commits that replaced the pages of whole trees, in their order, while a snapshot is older.
    replaced: Mutex<Vec<(Csn, Vec<TreeRef>)>>,
    /// Number of the commits in `replaced`.
    replaced_len: AtomicUsize,
    /// Bytes of memory that all versions take.
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// A snapshot in use.
#[derive(Default)]
struct Snapshot {
    users: usize,
    /// Versions that it needs and no newer snapshot does.
    needed: Vec<Outdated>,
}

/// Number of times that a thread looks for an application before it sleeps: for some ten microseconds.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 256 };

impl Timeline {
    /// `bytes_max`: the limit for all versions.
    pub fn new(csn: Csn, bytes_max: usize) -> Timeline {
        Timeline {
            watermark: AtomicU64::new(csn.0),
            applied: Line::default(),
            advanced: Condvar::new(),
            snapshots: Line::default(),
            ended: AtomicU64::new(0),
            outdated: Line::default(),
            replaced: Mutex::default(),
            replaced_len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Begins with this commit and all before it applied, before any transaction can ask.
    pub fn begin_at(&self, csn: Csn) {
        self.watermark.store(csn.0, Ordering::Release);
    }

    pub fn watermark(&self) -> Csn {
        Csn(self.watermark.load(Ordering::Acquire))
    }

    /// Returns the bytes that all versions take.
    pub fn version_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes that a commit is applied, with the keys that have a version of it, which take so many bytes.
    pub fn applied(&self, csn: Csn, changed: Vec<ChangedKey>, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.outdated.lock().extend(changed.into_iter().map(|(tree, key)| Outdated { csn, tree, key }));
        // Out of order for as long as an earlier commit is still applying; few at a time.
        let mut applied = self.applied.lock();
        applied.push(csn);
        let mut watermark = self.watermark();
        while let Some(at) = applied.iter().position(|applied| applied.0 == watermark.0 + 1) {
            watermark = applied.swap_remove(at);
        }
        self.watermark.store(watermark.0, Ordering::Release);
        drop(applied);
        self.advanced.notify_all();
    }

    /// Passes commits that are not applied: see [`Failpoint::WatermarkOutOfOrder`].
    pub fn jump(&self, csn: Csn) {
        self.watermark.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// Wakes all threads that wait for a commit that will never be applied: `check` of [`Timeline::wait_for`] fails
    /// by now.
    pub fn failed(&self) {
        drop(self.applied.lock());
        self.advanced.notify_all();
    }

    /// Waits until every commit up to `csn` is applied: the time of an application at most. Gives up when `check`
    /// fails.
    pub fn wait_for(&self, csn: Csn, check: impl Fn() -> Result<()>) -> Result<()> {
        // An application takes a few microseconds, less than falling asleep and being woken.
        for _ in 0..SPINS {
            if self.watermark() >= csn {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut applied = self.applied.lock();
        while self.watermark() < csn {
            check()?;
            self.advanced.wait(&mut applied);
        }
        Ok(())
    }

    /// Takes the newest snapshot, or the one that `choose` says, into use.
    pub fn take_snapshot(&self, choose: impl FnOnce() -> Csn) -> Csn {
        // Chosen under the mutex: pruning sees it, or looks at versions that are not after it.
        let mut snapshots = self.snapshots.lock();
        let snapshot = choose();
        snapshots.entry(snapshot).or_default().users += 1;
        snapshot
    }

    /// Ends one use of a snapshot. True if it was the last and versions may be forgotten now.
    pub fn release_snapshot(&self, snapshot: Csn) -> bool {
        let mut snapshots = self.snapshots.lock();
        let Some(state) = snapshots.get_mut(&snapshot) else { return false };
        state.users -= 1;
        if state.users > 0 {
            return false;
        }
        let needed = snapshots.remove(&snapshot).map(|state| state.needed).unwrap_or_default();
        drop(snapshots);
        let any = !needed.is_empty() || self.replaced_len.load(Ordering::Acquire) > 0;
        self.look_again(needed);
        any
    }

    fn look_again(&self, versions: Vec<Outdated>) {
        let mut outdated = self.outdated.lock();
        for version in versions.into_iter().rev() {
            outdated.push_front(version);
        }
    }

    /// Fails if a snapshot was ended. To be asked after versions were read for it.
    pub fn check_snapshot(&self, snapshot: Csn) -> Result<()> {
        if snapshot.0 < self.ended.load(Ordering::Acquire) { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }

    /// Notes that a commit is about to replace the pages of trees.
    pub fn replaced(&self, csn: Csn, trees: Vec<TreeRef>) {
        let mut replaced = self.replaced.lock();
        let at = replaced.partition_point(|(other, _)| *other < csn);
        replaced.insert(at, (csn, trees));
        self.replaced_len.store(replaced.len(), Ordering::Release);
    }

    /// Forgets the states from before commits that no snapshot is older than, nor will be: `settled` is the oldest
    /// that can still be taken.
    fn forget_replaced(&self, settled: Csn) {
        let mut ended = Vec::new();
        {
            let snapshots = self.snapshots.lock();
            let oldest = snapshots.keys().next().map_or(settled, |oldest| settled.min(*oldest));
            let mut replaced = self.replaced.lock();
            let count = replaced.partition_point(|(csn, _)| *csn <= oldest);
            ended.extend(replaced.drain(..count));
            self.replaced_len.store(replaced.len(), Ordering::Release);
        }
        for (csn, trees) in ended {
            trees.iter().for_each(|tree| drop(tree.epochs.end(csn)));
        }
    }

    /// Forgets versions that no snapshot needs, and ends snapshots that need too many. `settled` is the oldest
    /// snapshot that can still be taken.
    pub fn prune(&self, settled: impl FnOnce() -> Csn) {
        // Readers come by here too, and mostly find nothing to do.
        let any_replaced = self.replaced_len.load(Ordering::Acquire) > 0;
        if !any_replaced && self.outdated.try_lock().is_none_or(|outdated| outdated.is_empty()) {
            return;
        }
        let settled = settled();
        if any_replaced {
            self.forget_replaced(settled);
        }
        let forget_some =
            || self.outdated.try_lock().map_or(0, |outdated| self.forget_of(outdated, AT_ONCE, settled));
        while forget_some() == AT_ONCE {}
        while self.version_bytes() > self.bytes_max {
            // A thread that is forgetting versions is waited for: no snapshot is to end for versions that none needs.
            if self.forget_of(self.outdated.lock(), AT_ONCE, settled) > 0 {
                continue;
            }
            let mut snapshots = self.snapshots.lock();
            let Some((oldest, state)) = snapshots.iter_mut().find(|(_, state)| !state.needed.is_empty())
            else {
                return;
            };
            // Before its versions go: a later read at the snapshot fails.
            self.ended.fetch_max(oldest.0 + 1, Ordering::AcqRel);
            let needed = std::mem::take(&mut state.needed);
            drop(snapshots);
            self.look_again(needed);
        }
    }

    /// Forgets some versions that no snapshot needs, after a commit that has added so many: more than that, since
    /// commits pass by while another thread is at it. Forgets none until there are enough to be worth it.
    pub fn forget_after(&self, changed: usize, settled: impl FnOnce() -> Csn) {
        let Some(outdated) = self.outdated.try_lock() else { return };
        if outdated.len() >= AT_ONCE || self.version_bytes() > MANY_BYTES {
            self.forget_of(outdated, AT_ONCE.max(2 * changed), settled());
        }
    }

    /// Looks at the first `count` versions, forgets those that no snapshot needs, and returns how many it looked at.
    fn forget_of(
        &self,
        mut outdated: MutexGuard<'_, VecDeque<Outdated>>,
        count: usize,
        settled: Csn,
    ) -> usize {
        let count = outdated.iter().take(count).take_while(|outdated| outdated.csn <= settled).count();
        let mut batch: SmallVec<[Outdated; AT_ONCE]> = outdated.drain(..count).collect();
        drop(outdated);
        if batch.is_empty() {
            return 0;
        }
        let looked_at = batch.len();
        // Snapshots that are taken from now on need none of them.
        let oldest = self.snapshots.lock().keys().next().copied();
        if let Some(oldest) = oldest {
            let needed = batch.iter().position(|outdated| outdated.csn > oldest).unwrap_or(batch.len());
            batch.drain(needed..).for_each(|outdated| self.forget(outdated));
        }
        batch.sort_unstable_by(|a, b| a.place().cmp(&b.place()));
        let of_trees =
            batch.chunk_by(|a, b| a.tree.is_same(&b.tree)).flat_map(|of_tree| of_tree.chunks(AT_ONCE));
        let forgotten = of_trees.map(|of_tree| of_tree[0].tree.versions.forget_all(of_tree)).sum();
        self.bytes.fetch_sub(forgotten, Ordering::Relaxed);
        looked_at
    }

    /// True if there is more to prune than what commits forget by the way.
    pub fn has_much(&self) -> bool {
        self.replaced_len.load(Ordering::Acquire) > 0 || self.version_bytes() > self.bytes_max / 8
    }

    fn forget(&self, version: Outdated) {
        let Outdated { csn, tree, key } = &version;
        let mut snapshots = self.snapshots.lock();
        let ended = Csn(self.ended.load(Ordering::Acquire));
        // The range would be empty, and is refused, the wrong way round.
        let newest = if ended < *csn { snapshots.range_mut(ended..*csn).next_back() } else { None };
        match tree.versions.forget(key, *csn, newest.as_ref().map(|(snapshot, _)| **snapshot)) {
            Some(bytes) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            None => {
                if let Some((_, snapshot)) = newest {
                    snapshot.needed.push(version);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::tree::{Listed, Placement, TreeState};

    #[test]
    fn a_snapshot_sees_the_value_before_the_first_later_commit() {
        let versions = Versions::default();
        versions.publish(b"k", Csn(5), None);
        versions.publish(b"k", Csn(8), Some(b"five"));
        let seen = |snapshot| {
            versions.before(b"k", Csn(snapshot), Csn(u64::MAX)).map(|before| before.map(|b| b.to_vec()))
        };
        assert_eq!(seen(4), Some(None));
        assert_eq!(seen(5), Some(Some(b"five".to_vec())));
        assert_eq!(seen(7), Some(Some(b"five".to_vec())));
        assert_eq!(seen(8), None);
        assert_eq!(versions.forget(b"k", Csn(5), Some(Csn(4))), None, "needed");
        assert!(versions.forget(b"k", Csn(5), None).is_some());
        assert_eq!(seen(5), Some(Some(b"five".to_vec())));
        assert_eq!(versions.forget(b"k", Csn(8), Some(Csn(7))), None, "needed");
        assert!(versions.forget(b"k", Csn(8), None).is_some());
        assert_eq!(versions.len.load(Ordering::Relaxed), 0);
    }

    /// Commits change keys while snapshots come and go: each sees what was there, whether versions are forgotten at
    /// once or many together, and in the end nothing is kept.
    #[test]
    fn snapshots_cost_one_version_a_key_and_see_what_was_there() {
        const KEYS: usize = 8;
        let timeline = Timeline::new(Csn(0), usize::MAX);
        let trees = [8, 9].map(|root| {
            let tree = crate::access::Tree::open(crate::PageId(root), Default::default());
            let listed = Listed { tree, placement: Placement::Anywhere };
            TreeRef::new(Arc::new(TreeState::new(listed, Csn(0))))
        });
        let mut rng = crate::env::Rng::from_seed(7);
        let mut now = [const { None::<u64> }; 2 * KEYS];
        let mut held = Vec::new();
        let place = |number: usize| (&trees[number / KEYS], [(number % KEYS) as u8]);
        for csn in 1..4000_u64 {
            let number = rng.below(now.len() as u64) as usize;
            let (tree, key) = place(number);
            let before = now[number].map(u64::to_be_bytes);
            let bytes = tree.versions.publish(&key, Csn(csn), before.as_ref().map(<[u8; 8]>::as_slice));
            now[number] = Some(csn);
            timeline.applied(Csn(csn), vec![(tree.clone(), key[..].into())], bytes);
            if rng.chance(1, 20) {
                held.push((timeline.take_snapshot(|| timeline.watermark()), now));
            }
            if !held.is_empty() && rng.chance(1, 25) {
                let (snapshot, _) = held.swap_remove(rng.below(held.len() as u64) as usize);
                timeline.release_snapshot(snapshot);
            }
            let later_max = match rng.chance(1, 50) {
                true => {
                    timeline.prune(|| Csn(csn));
                    0
                }
                false => {
                    timeline.forget_after(1, || Csn(csn));
                    AT_ONCE
                }
            };
            let kept =
                |tree: &TreeRef| tree.versions.keys.lock().values().map(|kept| kept.len()).sum::<usize>();
            let kept: usize = trees.iter().map(kept).sum();
            assert!(kept <= now.len() * held.len() + later_max, "{kept} for {} snapshots", held.len());
            for (snapshot, contents) in &held {
                for number in 0..now.len() {
                    let (tree, key) = place(number);
                    let before = tree.versions.before(&key, *snapshot, Csn(u64::MAX));
                    let before = before.map(|there| there.map(|bytes| bytes.to_vec()));
                    let seen = before.unwrap_or_else(|| now[number].map(|csn| csn.to_be_bytes().to_vec()));
                    let expected = contents[number].map(|csn| csn.to_be_bytes().to_vec());
                    assert_eq!(seen, expected, "key {number} at {snapshot}");
                }
            }
        }
        for (snapshot, _) in held {
            timeline.release_snapshot(snapshot);
        }
        timeline.prune(|| timeline.watermark());
        let len = trees.each_ref().map(|tree| tree.versions.len.load(Ordering::Relaxed));
        assert_eq!((timeline.version_bytes(), len), (0, [0, 0]));
    }

    #[test]
    fn a_history_is_a_list_whatever_is_forgotten_of_it() {
        let version = |csn| Version { csn: Csn(csn), ..Version::NONE };
        let mut rng = crate::env::Rng::from_seed(3);
        for _ in 0..100 {
            let mut list = vec![0];
            let mut history = History { versions: smallvec![version(0)], forgotten: 0 };
            for csn in 1..200 {
                match rng.below(8) {
                    0..4 => {
                        history.versions.push(version(csn));
                        list.push(csn);
                    }
                    4 => {
                        let at = rng.below(list.len() as u64 + 1) as usize;
                        history.insert(at, version(csn));
                        list.insert(at, csn);
                    }
                    5 if !list.is_empty() => {
                        let at = rng.below(list.len() as u64) as usize;
                        assert_eq!(history.remove(at).csn.0, list.remove(at));
                    }
                    _ if !list.is_empty() => assert_eq!(history.remove(0).csn.0, list.remove(0)),
                    _ => {}
                }
                assert!(history.iter().map(|version| version.csn.0).eq(list.iter().copied()));
                assert!(history.forgotten <= history.len());
            }
        }
    }

    #[test]
    fn the_watermark_waits_for_the_slowest_commit() {
        let timeline = Timeline::new(Csn(10), 0);
        timeline.applied(Csn(12), Vec::new(), 0);
        timeline.applied(Csn(13), Vec::new(), 0);
        assert_eq!(timeline.watermark(), Csn(10));
        timeline.applied(Csn(11), Vec::new(), 0);
        assert_eq!(timeline.watermark(), Csn(13));
    }
}

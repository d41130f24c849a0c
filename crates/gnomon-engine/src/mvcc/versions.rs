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
//! Where changes are made at once (page WAL), a key has a version before its transaction has a
//! CSN: it is [`PENDING`], newer than every snapshot, and gets its CSN when the transaction does. If the change is
//! undone, the version gets a CSN all the same. The change was in the tree for a moment, and a reader that has seen
//! it there needs the version; it is no conflict for others, for the key is what it was.
//!
//! Garbage collection: commits forget versions that no snapshot needs, some dozens at a time.
//!
//! When the versions exceed their limit, the oldest snapshots that need some are ended: a reader at one of them fails
//! with [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld).

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::{Bound, Deref, DerefMut},
};

use smallvec::{SmallVec, smallvec};

use crate::{
    Csn, Result,
    access::{Key, KeyBytes},
    op::{Calls, absent},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The value that a key held, if it was there.
pub(crate) type Before = Option<Arc<[u8]>>;
/// Each changed key's versions.
type ByKey = BTreeMap<Key, History>;
/// Number of versions that are forgotten together: looked for in the order of their keys, and under one mutex those
/// of a tree, they take less time than one after another.
pub(crate) const AT_ONCE: usize = 64;
/// The CSN of a version whose transaction has none yet.
pub(crate) const PENDING: Csn = Csn(u64::MAX - 1);

/// A change of a key by a commit.
struct Version {
    csn: Csn,
    /// True if its transaction has taken it back.
    undone: bool,
    /// True if the key was absent before a later version that is forgotten.
    was_absent: bool,
    /// The value that was there before.
    before: Before,
    did: Did,
    /// Bytes of memory that it takes, about.
    bytes: usize,
}

impl Version {
    /// The placeholder of a version that is forgotten.
    const NONE: Version = Version::new(Csn(0), None, Did::Changed, 0);

    const fn new(csn: Csn, before: Before, did: Did, bytes: usize) -> Version {
        Version { csn, undone: false, was_absent: false, before, did, bytes }
    }
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
        if let Some(previous) = at.checked_sub(1).and_then(|at| self.get_mut(at)) {
            previous.was_absent |= version.was_absent || version.before.is_none();
        }
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
pub(crate) enum Since {
    Nothing,
    /// Operations that did not see what was there.
    Operations,
    /// Something else.
    Changes {
        /// True if the key was there at the snapshot.
        was_there: bool,
        /// True if the key was there at the snapshot, and absent after it.
        was_deleted: bool,
    },
}

/// The versions of one tree's keys.
#[derive(Default)]
pub(crate) struct Versions {
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
    /// [`Error::Operation`](crate::Error::Operation); nothing is published then.
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
        let version = Version::new(csn, Some(before), did, bytes);
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

    /// Takes a commit for the last one of its key: see
    /// [`Failpoint::VersionsInApplyOrder`](crate::failpoint::Failpoint).
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
        let Some(first) = since(versions, snapshot).next() else { return Since::Nothing };
        let mut later = since(versions, snapshot);
        if later.all(|version| matches!(version.did, Did::Operated(_))) {
            return Since::Operations;
        }
        let was_there = first.before.is_some();
        let is_absent = |version: &Version| version.was_absent || version.before.is_none();
        Since::Changes { was_there, was_deleted: was_there && since(versions, snapshot).any(is_absent) }
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
    pub fn forget(&self, key: &[u8], csn: Csn, snapshot: Option<Csn>) -> Option<usize> {
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

    /// As [`Versions::forget`], of versions that no snapshot needs, sorted by their keys. `of` tells the key and the
    /// commit of one. Returns the bytes that were given back.
    pub fn forget_all<T>(&self, outdated: &[T], of: impl Fn(&T) -> (&Key, Csn)) -> usize {
        let mut forgotten: SmallVec<[Version; AT_ONCE]> = SmallVec::new();
        let mut keys = self.keys.lock();
        for of_key in outdated.chunk_by(|a, b| of(a).0 == of(b).0) {
            let Entry::Occupied(mut entry) = keys.entry(of(&of_key[0]).0.clone()) else { continue };
            let versions = entry.get_mut();
            forgotten.extend(of_key.iter().filter_map(|outdated| versions.forget(of(outdated).1, None)));
            if versions.is_empty() {
                entry.remove();
            }
        }
        self.len.store(keys.len(), Ordering::Release);
        drop(keys);
        forgotten.iter().map(|version| version.bytes).sum()
    }

    /// Returns the number of versions that are kept.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.keys.lock().values().map(|history| history.len()).sum()
    }
}

fn push(entry: Entry<'_, Key, History>, csn: Csn, before: Option<&[u8]>, did: Did) -> usize {
    let bytes = version_bytes(entry.key(), before);
    let version = Version::new(csn, before.map(Arc::from), did, bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

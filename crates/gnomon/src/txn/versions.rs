//! The version store: what keys held before recent commits, for statements that began before those.
//!
//! In memory only. A version is (CSN, the value before it); it is needed while some snapshot is older than the CSN,
//! or may still be taken so: a read-only transaction starts at the durable CSN.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use super::tree::TreeState;
use crate::{
    Csn, Result,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

type Before = Option<Arc<[u8]>>;
/// Each changed key's versions, in the order of CSNs.
type ByKey = BTreeMap<Box<[u8]>, Vec<(Csn, Before)>>;
/// A changed key.
pub(super) type ChangedKey = (Arc<TreeState>, Box<[u8]>);

/// The versions of one tree's keys.
#[derive(Default)]
pub(super) struct Versions {
    keys: Mutex<ByKey>,
    /// How many keys there are, to pass by a tree without any.
    len: AtomicUsize,
}

impl Versions {
    /// Publishes what `key` held before commit `csn`. Must be called before the key changes in its tree, and for one
    /// key in the order of CSNs.
    pub fn publish(&self, key: &[u8], csn: Csn, before: Option<&[u8]>) {
        let mut keys = self.keys.lock();
        match keys.get_mut(key) {
            Some(versions) => {
                debug_assert!(versions.last().is_none_or(|(last, _)| *last < csn));
                versions.push((csn, before.map(Arc::from)));
            }
            None => {
                keys.insert(key.into(), vec![(csn, before.map(Arc::from))]);
                self.len.store(keys.len(), Ordering::Release);
            }
        }
    }

    /// What `key` held at `snapshot`, if it has changed since. Look at the tree first, here after.
    pub fn before(&self, key: &[u8], snapshot: Csn) -> Option<Before> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.keys.lock().get(key).and_then(|versions| at(versions, snapshot))
    }

    /// The keys within bounds that have changed since `snapshot`, each with what it held then.
    pub fn changed(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        snapshot: Csn,
    ) -> BTreeMap<Box<[u8]>, Before> {
        if self.len.load(Ordering::Acquire) == 0 {
            return BTreeMap::new();
        }
        let keys = self.keys.lock();
        keys.range::<[u8], _>(bounds)
            .filter_map(|(key, versions)| Some((key.clone(), at(versions, snapshot)?)))
            .collect()
    }

    fn prune(&self, key: &[u8], horizon: Csn) {
        let mut keys = self.keys.lock();
        if let Some(versions) = keys.get_mut(key) {
            versions.retain(|(csn, _)| *csn > horizon);
            if versions.is_empty() {
                keys.remove(key);
                self.len.store(keys.len(), Ordering::Release);
            }
        }
    }
}

fn at(versions: &[(Csn, Before)], snapshot: Csn) -> Option<Before> {
    let first_after = versions.partition_point(|(csn, _)| *csn <= snapshot);
    versions.get(first_after).map(|(_, before)| before.clone())
}

/// A changed key, to be pruned when no snapshot before the CSN is left.
type Outdated = (Csn, Arc<TreeState>, Box<[u8]>);

/// Which commits are patched, which snapshots are in use, and so which versions are needed.
pub(super) struct Timeline {
    /// Every CSN up to this one is patched.
    watermark: AtomicU64,
    patched: Mutex<Vec<Csn>>,
    advanced: Condvar,
    /// Snapshots in use, each with how many use it.
    snapshots: Mutex<BTreeMap<Csn, usize>>,
    outdated: Mutex<VecDeque<Outdated>>,
}

impl Timeline {
    pub fn new(csn: Csn) -> Timeline {
        Timeline {
            watermark: AtomicU64::new(csn.0),
            patched: Mutex::default(),
            advanced: Condvar::new(),
            snapshots: Mutex::default(),
            outdated: Mutex::default(),
        }
    }

    pub fn watermark(&self) -> Csn {
        Csn(self.watermark.load(Ordering::Acquire))
    }

    /// Notes that a commit is patched; its changed keys are pruned later.
    pub fn patched(&self, csn: Csn, changed: Vec<ChangedKey>) {
        self.outdated.lock().extend(changed.into_iter().map(|(tree, key)| (csn, tree, key)));
        // Out of order for as long as an earlier commit is still patching; few at a time.
        let mut patched = self.patched.lock();
        patched.push(csn);
        let mut watermark = self.watermark();
        while let Some(at) = patched.iter().position(|patched| patched.0 == watermark.0 + 1) {
            watermark = patched.swap_remove(at);
        }
        self.watermark.store(watermark.0, Ordering::Release);
        drop(patched);
        self.advanced.notify_all();
    }

    /// Passes commits that are not patched.
    #[cfg(all(test, shuttle))]
    pub fn jump(&self, csn: Csn) {
        self.watermark.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// Wakes those who wait for a commit that will never be patched: `check` of [`Timeline::wait_for`] fails by now.
    pub fn failed(&self) {
        drop(self.patched.lock());
        self.advanced.notify_all();
    }

    /// Waits until every commit up to `csn` is patched: the time of a patch at most. Gives up when `check` fails.
    pub fn wait_for(&self, csn: Csn, check: impl Fn() -> Result<()>) -> Result<()> {
        if self.watermark() >= csn {
            return Ok(());
        }
        let mut patched = self.patched.lock();
        while self.watermark() < csn {
            check()?;
            self.advanced.wait(&mut patched);
        }
        Ok(())
    }

    /// Takes the newest snapshot, or the one that `choose` says, into use.
    pub fn take_snapshot(&self, choose: impl FnOnce() -> Csn) -> Csn {
        // Chosen under the mutex: whoever prunes sees it, or has a horizon that was chosen before.
        let mut snapshots = self.snapshots.lock();
        let snapshot = choose();
        *snapshots.entry(snapshot).or_default() += 1;
        snapshot
    }

    pub fn release_snapshot(&self, snapshot: Csn) {
        let mut snapshots = self.snapshots.lock();
        if let Some(count) = snapshots.get_mut(&snapshot) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&snapshot);
            }
        }
    }

    /// Forgets versions that no snapshot needs. `durable` is the oldest snapshot that can still be taken.
    pub fn prune(&self, durable: impl FnOnce() -> Csn) {
        const PRUNED_AT_A_TIME: usize = 256;
        // Readers come by here too, and mostly find nothing to do.
        if self.outdated.try_lock().is_none_or(|outdated| outdated.is_empty()) {
            return;
        }
        let horizon = {
            let snapshots = self.snapshots.lock();
            let durable = durable();
            snapshots.keys().next().map_or(durable, |oldest| durable.min(*oldest))
        };
        loop {
            let batch: Vec<Outdated> = {
                let Some(mut outdated) = self.outdated.try_lock() else { return };
                let needed = outdated.iter().take(PRUNED_AT_A_TIME).position(|(csn, ..)| *csn > horizon);
                let count = needed.unwrap_or(outdated.len().min(PRUNED_AT_A_TIME));
                outdated.drain(..count).collect()
            };
            for (_, tree, key) in &batch {
                tree.versions.prune(key, horizon);
            }
            if batch.len() < PRUNED_AT_A_TIME {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_the_value_before_the_first_later_commit() {
        let versions = Versions::default();
        versions.publish(b"k", Csn(5), None);
        versions.publish(b"k", Csn(8), Some(b"five"));
        let seen = |snapshot| versions.before(b"k", Csn(snapshot)).map(|before| before.map(|b| b.to_vec()));
        assert_eq!(seen(4), Some(None));
        assert_eq!(seen(5), Some(Some(b"five".to_vec())));
        assert_eq!(seen(7), Some(Some(b"five".to_vec())));
        assert_eq!(seen(8), None);
        versions.prune(b"k", Csn(5));
        assert_eq!(seen(5), Some(Some(b"five".to_vec())));
        versions.prune(b"k", Csn(8));
        assert_eq!(versions.len.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_watermark_waits_for_the_slowest_patch() {
        let timeline = Timeline::new(Csn(10));
        timeline.patched(Csn(12), Vec::new());
        timeline.patched(Csn(13), Vec::new());
        assert_eq!(timeline.watermark(), Csn(10));
        timeline.patched(Csn(11), Vec::new());
        assert_eq!(timeline.watermark(), Csn(13));
    }
}

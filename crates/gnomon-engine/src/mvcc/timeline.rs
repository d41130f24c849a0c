//! The timeline: which commits are applied, and which snapshots are in use, and so which versions are needed.
//!
//! Every CSN up to the watermark is applied. A version is handed to the timeline by the commit that made it, and
//! forgotten when no snapshot in use, nor one that can still be taken, lies between it and the key's version before.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::{tree::TreeRef, versions::AT_ONCE};
use crate::{
    Csn, Error, Result,
    access::Key,
    sync::{
        Condvar, Line, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// A changed key.
pub(crate) type ChangedKey = (TreeRef, Key);

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

/// Bytes of versions from which on commits forget some even if there are fewer of them.
const MANY_BYTES: usize = 256 << 10;

/// The commits that are applied and the snapshots in use, which decide the versions that are needed.
pub(crate) struct Timeline {
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
    /// Number of versions in `outdated`: readers that have none to look at touch nothing that commits change.
    outdated_len: Line<AtomicUsize>,
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
            outdated_len: Line::default(),
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
        if !changed.is_empty() {
            let mut outdated = self.outdated.lock();
            outdated.extend(changed.into_iter().map(|(tree, key)| Outdated { csn, tree, key }));
            self.count_outdated(&outdated);
        }
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

    /// Passes commits that are not applied: see [`Failpoint::WatermarkOutOfOrder`](crate::failpoint::Failpoint).
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
        if !needed.is_empty() {
            self.look_again(needed);
        }
        any
    }

    fn look_again(&self, versions: Vec<Outdated>) {
        let mut outdated = self.outdated.lock();
        for version in versions.into_iter().rev() {
            outdated.push_front(version);
        }
        self.count_outdated(&outdated);
    }

    fn count_outdated(&self, outdated: &VecDeque<Outdated>) {
        self.outdated_len.store(outdated.len(), Ordering::Release);
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
            trees.iter().for_each(|tree| drop(tree.generations.end(csn)));
        }
    }

    /// Forgets versions that no snapshot needs, and ends snapshots that need too many. `settled` is the oldest
    /// snapshot that can still be taken.
    pub fn prune(&self, settled: impl FnOnce() -> Csn) {
        // Readers come by here too, and mostly find nothing to do.
        let any_replaced = self.replaced_len.load(Ordering::Acquire) > 0;
        if !any_replaced && self.outdated_len.load(Ordering::Acquire) == 0 {
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
        self.count_outdated(&outdated);
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
        let forgotten = of_trees
            .map(|of_tree| {
                of_tree[0].tree.versions.forget_all(of_tree, |outdated| (&outdated.key, outdated.csn))
            })
            .sum();
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

/// A guard from before the CSN of a commit to the end of its application. An application cannot be taken back in part, so
/// an error or a panic between has stopped the database; the guard then tells the threads that wait for the application.
/// Nothing else may fail while it is held.
pub(crate) struct Unapplied<'a>(pub &'a Timeline);

impl Drop for Unapplied<'_> {
    fn drop(&mut self) {
        self.0.failed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::{Listed, Placement, Tree},
        mvcc::TreeState,
        sync::Arc,
    };

    /// Commits change keys while snapshots come and go: each sees what was there, whether versions are forgotten at
    /// once or many together, and in the end nothing is kept.
    #[test]
    fn snapshots_cost_one_version_a_key_and_see_what_was_there() {
        const KEYS: usize = 8;
        let timeline = Timeline::new(Csn(0), usize::MAX);
        let trees = [8, 9].map(|root| {
            let tree = Tree::open(crate::PageId(root), Default::default());
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
            let kept = |tree: &TreeRef| tree.versions.count();
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
        let len = trees.each_ref().map(|tree| tree.versions.count());
        assert_eq!((timeline.version_bytes(), len), (0, [0, 0]));
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

//! Release of locks: one by one, back to a mark, and all of them at the end.

use std::collections::HashSet;

use super::{Acquired, Before, LockOwner, Mark, RELEASED, WEAK, shard_index};
use crate::lock::{LockName, Mode, TableId, deadlock::wake, shard::Wake, weak::Space};

impl LockOwner {
    /// Keeps a lock that it holds as it is now until everything is released, also when the owner goes back to an
    /// earlier mark: the change that the lock covers is older than the marks.
    pub fn keep(&mut self, name: LockName<'_>) {
        self.leave_lists_with(&name);
        let hash = name.hash();
        let index = shard_index(hash);
        let Some((slot, _)) = self.manager.shard(index).lock().held(&name, hash, self.txn) else { return };
        let lock = (index as u16, slot);
        for step in self.log.iter_mut().filter(|step| (step.shard, step.slot) == lock) {
            step.slot = RELEASED;
        }
        if !self.kept.contains(&lock) {
            self.kept.push(lock);
        }
    }

    /// Releases the locks for which `which` is true, whatever their modes: another lock covers them.
    pub fn release_where(&mut self, which: impl Fn(LockName<'_>) -> bool) {
        self.leave_lists();
        let mut covered = HashSet::new();
        for step in self.log.iter().filter(|step| step.slot != RELEASED) {
            let shard = self.manager.shard(usize::from(step.shard)).lock();
            if shard.name_at(step.slot, self.txn).is_some_and(|(name, _)| which(name)) {
                covered.insert((step.shard, step.slot));
            }
        }
        let mut woken = Vec::new();
        for &(shard, slot) in &covered {
            let mut shard = self.manager.shard(usize::from(shard)).lock();
            shard.set_back(&self.manager.tables, slot, self.txn, None, false, &mut woken);
        }
        for step in self.log.iter_mut().filter(|step| covered.contains(&(step.shard, step.slot))) {
            step.slot = RELEASED;
        }
        self.held_count -= covered.len() as u64;
        self.forget_released();
        wake(woken);
    }

    /// Shortens the log by released locks at its end, as far as no mark needs its length.
    fn forget_released(&mut self) {
        while self.log.len() > self.mark_max && self.log.last().is_some_and(|s| s.slot == RELEASED) {
            self.log.pop();
        }
    }

    /// Releases one lock, whatever its mode, before the others; false if the owner does not hold it.
    pub fn release(&mut self, name: LockName<'_>) -> bool {
        self.leave_lists_with(&name);
        let (hash, mut woken) = (name.hash(), Vec::new());
        let index = shard_index(hash);
        let mut shard = self.manager.shard(index).lock();
        let Some((slot, _)) = shard.held(&name, hash, self.txn) else { return false };
        shard.set_back(&self.manager.tables, slot, self.txn, None, false, &mut woken);
        drop(shard);
        wake(woken);
        for step in self.log.iter_mut().rev().filter(|s| s.slot == slot && usize::from(s.shard) == index) {
            step.slot = RELEASED;
            if step.is_first() {
                break;
            }
        }
        self.kept.retain(|lock| *lock != (index as u16, slot));
        self.forget_released();
        self.held_count -= 1;
        true
    }

    /// Marks the present point, to which [`release_since`](LockOwner::release_since) goes back.
    pub fn mark(&mut self) -> Mark {
        self.mark_max = self.log.len();
        Mark(self.log.len())
    }

    /// Releases the locks taken since the mark and takes conversions made since then back: for a rollback to a
    /// savepoint, or for the locks of a subtransaction at its end. Marks made later than this one are void.
    pub fn release_since(&mut self, mark: Mark) {
        let mut woken = Vec::new();
        while self.log.len() > mark.0 {
            let Some(step) = self.log.pop() else { break };
            self.undo(&step, &mut woken);
        }
        self.mark_max = mark.0.min(self.log.len());
        wake(woken);
    }

    /// Weakens the locks taken or converted since the mark: each to what it was at the mark together with what
    /// `weaker` makes of its mode now. For a rollback to a savepoint by a transaction that must keep what it read as
    /// it is. Marks made later than this one are void.
    pub fn weaken_since(&mut self, mark: Mark, weaker: impl Fn(TableId, Mode) -> Mode) {
        self.leave_lists();
        let mut woken = Vec::new();
        let mut done = HashSet::new();
        let steps: Vec<Acquired> = self.log.drain(mark.0.min(self.log.len())..).collect();
        for step in steps.iter().rev().filter(|step| step.slot != RELEASED) {
            if let Before::Claims(replaced) = &step.before {
                let mut shard = self.manager.shard(usize::from(step.shard)).lock();
                shard.restore(&self.manager.tables, step.slot, self.txn, replaced, true, &mut woken);
            }
        }
        for step in steps {
            // The first step tells what was held at the mark.
            let Before::Mode(before) = step.before else { continue };
            if step.slot == RELEASED || !done.insert((step.shard, step.slot)) {
                continue;
            }
            let mut shard = self.manager.shard(usize::from(step.shard)).lock();
            let Some((table, mode)) = shard.held_at(step.slot, self.txn) else { continue };
            let weaker = weaker(table, mode);
            let kept = before.map_or(weaker, |before| self.manager.modes(table).supremum(before, weaker));
            shard.set_back(&self.manager.tables, step.slot, self.txn, Some(kept), false, &mut woken);
            drop(shard);
            if before != Some(kept) {
                self.log.push(step);
            }
        }
        self.mark_max = mark.0.min(self.log.len());
        wake(woken);
    }

    /// Releases everything, the latest first and weak locks at the end: the owner has changed nothing.
    pub fn release_all(&mut self) {
        self.end(false);
    }

    /// As [`LockOwner::release_all`]: what the owner has claimed is committed, and there for others to see.
    pub fn release_committed(&mut self) {
        self.end(true);
    }

    fn end(&mut self, committed: bool) {
        let mut woken = Vec::new();
        while let Some(step) = self.log.pop() {
            if step.is_first() && step.shard != WEAK {
                self.set_back(step.shard, step.slot, None, committed, &mut woken);
            }
        }
        for (shard, slot) in std::mem::take(&mut self.kept) {
            self.set_back(shard, slot, None, committed, &mut woken);
        }
        self.held_count -= self.weak.len() as u64;
        for moved in self.weak.end(&self.manager.weak, self.txn) {
            self.set_back_in_shard(moved, None, &mut woken);
        }
        self.mark_max = 0;
        if std::mem::take(&mut self.waits.count) > 0 {
            self.manager.forget(self.txn);
        }
        if std::mem::take(&mut self.is_in_doubt) {
            self.manager.clear_in_doubt(self.txn);
        }
        wake(woken);
    }

    fn undo(&mut self, step: &Acquired, woken: &mut Vec<Wake>) {
        match &step.before {
            Before::Mode(before) => self.set_back(step.shard, step.slot, *before, false, woken),
            Before::Claims(replaced) if step.slot != RELEASED => {
                let mut shard = self.manager.shard(usize::from(step.shard)).lock();
                shard.restore(&self.manager.tables, step.slot, self.txn, replaced, false, woken);
            }
            Before::Claims(_) => {}
        }
    }

    fn set_back(
        &mut self,
        shard: u16,
        slot: u32,
        before: Option<Mode>,
        committed: bool,
        woken: &mut Vec<Wake>,
    ) {
        if slot == RELEASED {
            return;
        }
        self.held_count -= u64::from(before.is_none());
        if shard == WEAK {
            let space = self.weak.space(slot);
            if !self.weak.set_back(&self.manager.weak, self.txn, slot, before) {
                self.set_back_in_shard(space, before, woken);
            }
            return;
        }
        let mut shard = self.manager.shard(usize::from(shard)).lock();
        shard.set_back(&self.manager.tables, slot, self.txn, before, committed, woken);
    }

    /// Sets back a weak lock that a contender has moved.
    fn set_back_in_shard(&self, space: Space, before: Option<Mode>, woken: &mut Vec<Wake>) {
        let name = space.name();
        let hash = name.hash();
        let mut shard = self.manager.shard(shard_index(hash)).lock();
        let held = shard.held(&name, hash, self.txn);
        debug_assert!(held.is_some(), "{} releases {name:?}, which it does not hold", self.txn);
        if let Some((slot, _)) = held {
            shard.set_back(&self.manager.tables, slot, self.txn, before, false, woken);
        }
    }

    /// Takes one lock back to its state at a mark, whatever was asked of it since. Other locks taken since then stay.
    pub fn take_back(&mut self, name: LockName<'_>, since: Mark) {
        self.leave_lists_with(&name);
        let (hash, mut woken) = (name.hash(), Vec::new());
        let index = shard_index(hash);
        let held = self.manager.shard(index).lock().held(&name, hash, self.txn);
        let Some((slot, _)) = held else { return };
        for at in (since.0.min(self.log.len())..self.log.len()).rev() {
            if (usize::from(self.log[at].shard), self.log[at].slot) == (index, slot) {
                let released = Acquired { slot: RELEASED, shard: index as u16, before: Before::Mode(None) };
                let step = std::mem::replace(&mut self.log[at], released);
                self.undo(&step, &mut woken);
            }
        }
        self.forget_released();
        wake(woken);
    }
}

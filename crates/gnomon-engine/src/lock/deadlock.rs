//! Deadlock detection: when a request blocks, a search of the waits-for graph from its owner.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use super::{
    manager::LockManager,
    park::Outcome,
    shard::{Waiter, Wake},
};
use crate::{TxnId, sync::Mutex};

/// The place where an owner waits, or has waited: the queue says if it still does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shard: usize,
    pub(super) slot: u32,
    /// Number of the wait among its owner's waits.
    pub(super) number: u64,
    /// Cost of rolling the owner back: the locks that it holds, plus its own weight.
    pub(super) weight: u64,
}

/// The rule that chooses the victim of a deadlock. The rule of the request that completes the deadlock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The one with the least to lose (locks held, plus its own weight); among equals the youngest.
    #[default]
    LeastLost,
    /// The youngest.
    Youngest,
    /// The one that asks. Those that run again at once may be victims for ever.
    Requester,
}

/// The waits that are a deadlock, or have no end in sight.
#[derive(Debug, Default)]
pub(super) struct Detector {
    /// The owners that have waited since they last released everything.
    places: Mutex<HashMap<TxnId, Place>>,
    /// The owners in doubt, those of prepared transactions ([`mark_in_doubt`](super::LockOwner::mark_in_doubt)).
    in_doubt: Mutex<HashSet<TxnId>>,
}

impl LockManager {
    /// Registers that `txn` waits at `place`, where its request is in the queue already, and breaks every
    /// deadlock that this completes. True if `txn` is itself a victim: it is out of the queue then.
    pub(super) fn break_deadlocks(&self, txn: TxnId, place: Place, rule: Victim) -> bool {
        let mut woken = Vec::new();
        let mut places = self.detector().places.lock();
        places.insert(txn, place);
        let is_victim = loop {
            if !self.waits_for_itself(&places, txn) {
                break false;
            }
            // An owner that is only ahead of another one in a queue is spared if there is a cycle of holders.
            let cycle = self.find_cycle(&places, txn, true).or_else(|| self.find_cycle(&places, txn, false));
            let Some(victim) = cycle.and_then(|cycle| rule.choose(&cycle, &places)) else {
                break false;
            };
            match self.withdraw(victim, &places[&victim], &mut woken) {
                Some(_) if victim == txn => break true,
                Some(Waiter { parking, .. }) => woken.push(Wake { parking, outcome: Outcome::Victim }),
                // A timeout or an interrupt was faster; that breaks the cycle as well.
                None => {}
            }
        };
        drop(places);
        wake(woken);
        is_victim
    }

    /// Registers that `txn` waits at `place`, where its request is in the queue already; it looks for deadlocks later.
    pub(super) fn register(&self, txn: TxnId, place: Place) {
        self.detector().places.lock().insert(txn, place);
    }

    /// Takes note of an owner in doubt.
    pub(super) fn mark_in_doubt(&self, txn: TxnId) {
        self.detector().in_doubt.lock().insert(txn);
    }

    /// Forgets an owner that was in doubt.
    pub(super) fn clear_in_doubt(&self, txn: TxnId) {
        self.detector().in_doubt.lock().remove(&txn);
    }

    /// True if an owner waits directly for one in doubt.
    pub(super) fn waits_for_in_doubt(&self, txn: TxnId) -> bool {
        let blockers = self.blockers(txn);
        let in_doubt = self.detector().in_doubt.lock();
        blockers.iter().any(|blocker| in_doubt.contains(blocker))
    }

    /// Forgets an owner that will not wait any more.
    pub(super) fn forget(&self, txn: TxnId) {
        self.detector().places.lock().remove(&txn);
    }

    /// Returns the owners that an owner waits for directly, at this moment.
    pub fn blockers(&self, txn: TxnId) -> Vec<TxnId> {
        let place = self.detector().places.lock().get(&txn).copied();
        place.map_or_else(Vec::new, |Place { shard, slot, number, .. }| {
            self.shard(shard).lock().blockers(self.tables(), slot, txn, number, false)
        })
    }

    /// True if `start` waits for itself. Visits each queue as a whole; most calls end after one, because the
    /// holders found there run.
    fn waits_for_itself(&self, places: &HashMap<TxnId, Place>, start: TxnId) -> bool {
        let mut found = false;
        let mut seen = HashSet::new();
        let mut todo = vec![start];
        while let Some(txn) = todo.pop() {
            let Some(place) = places.get(&txn) else { continue };
            let shard = self.shard(place.shard).lock();
            shard.reach(self.tables(), place.slot, txn, place.number, |blocker, holder| {
                found |= blocker == start;
                if holder && places.contains_key(&blocker) && seen.insert(blocker) {
                    todo.push(blocker);
                }
            });
            if found {
                return true;
            }
        }
        false
    }

    /// The owners of one cycle through `start`, which is the first, by depth-first search over direct edges: those to
    /// holders, or all.
    fn find_cycle(
        &self,
        places: &HashMap<TxnId, Place>,
        start: TxnId,
        to_holders: bool,
    ) -> Option<Vec<TxnId>> {
        let blockers = |txn: TxnId| match places.get(&txn) {
            Some(Place { shard, slot, number, .. }) => {
                self.shard(*shard).lock().blockers(self.tables(), *slot, txn, *number, to_holders)
            }
            None => Vec::new(),
        };
        let mut seen = HashSet::new();
        let mut path = vec![(start, blockers(start))];
        while let Some((_, untried)) = path.last_mut() {
            match untried.pop() {
                None => {
                    path.pop();
                }
                Some(next) if next == start => return Some(path.into_iter().map(|(txn, _)| txn).collect()),
                Some(next) if seen.insert(next) => path.push((next, blockers(next))),
                Some(_) => {}
            }
        }
        None
    }
}

impl Victim {
    /// Chooses from a cycle, of which the first is the one that asks.
    fn choose(self, cycle: &[TxnId], places: &HashMap<TxnId, Place>) -> Option<TxnId> {
        let mut owners = cycle.iter().copied();
        match self {
            Victim::LeastLost => owners.min_by_key(|txn| (places[txn].weight, Reverse(*txn))),
            Victim::Youngest => owners.max(),
            Victim::Requester => owners.next(),
        }
    }
}

/// Wakes sleepers, with no mutex held.
pub(super) fn wake(woken: Vec<Wake>) {
    for Wake { parking, outcome } in woken {
        parking.end(outcome);
    }
}

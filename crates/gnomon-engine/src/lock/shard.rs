//! One shard of the lock tables: the locks whose names hash to it, each with its holders and its queue.
//!
//! Plain data without synchronisation or time; the manager puts each shard under a mutex. A lock exists while
//! an owner holds or awaits it, in a slot that does not move meanwhile, so that holders release by slot without
//! looking the name up again. Slots and their buffers are reused: in the steady state nothing is allocated.
//!
//! Invariants, checked in debug builds after every grant:
//!
//! 1. Of two modes held by different owners, one admits the other (both, but for one-sided pairs).
//! 2. In a queue, conversions stand before new requests.
//! 3. No request waits that could be granted; so a lock that is awaited is held, by an owner awake or asleep.
//!
//! A lock whose mode leaves more than one owner to change what it names may have quantities under it ([`Escrow`]): an
//! owner that holds it claims of them, and waits in the same queue. The accounts live as long as the lock has a
//! holder: the next first holder reads the committed value.

use std::{collections::VecDeque, time::Duration};

use super::{
    LockName, LockTable, Mode, Modes, Part, TableId,
    escrow::{Claim, Claimed, Escrow, Hold, Pending},
    modes::ModeSet,
    park::{Outcome, Parking},
};
use crate::{TxnId, sync::Arc};

/// Buffers of a free slot that are larger than this (bytes of a name, or holders) are given back.
const SPARE_MAX: usize = 64;
/// A shard that falls empty gives its slots back if it has more than this many.
const SLOTS_KEPT: usize = 256;
const NO_SLOT: u32 = u32::MAX;
/// Number of times that a request that was granted in its sleep can be overtaken before it wakes up. With 32 threads
/// on 2 cores a sleeper may have 30 others before it until it runs.
pub(super) const OVERTAKEN_MAX: u32 = if cfg!(test) { 2 } else { 64 };

#[derive(Clone, Copy, Debug)]
struct Grant {
    txn: TxnId,
    mode: Mode,
}

/// A request in a queue.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) txn: TxnId,
    /// Number of the wait among its owner's waits.
    pub(super) number: u64,
    /// The mode that the owner will hold when it is granted, or an instant mode.
    pub(super) mode: Mode,
    /// The owner holds the lock already: it asks for a stronger mode, or claims.
    pub(super) conversion: bool,
    pub(super) since: Duration,
    pub(super) parking: Arc<Parking>,
    /// Number of times that it was granted and overtaken.
    pub(super) overtaken: u32,
    /// Its claims; none if it asks for a mode.
    pub(super) claims: Option<Claims>,
}

/// Claims of an owner that holds the lock, which wait and are decided together.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) claims: Box<[Claim]>,
    /// True if a refusal must stay true until the owner ends.
    pub(super) keeps_refusal: bool,
    /// The decision on them; none while they wait.
    pub(super) decided: Option<Claimed>,
}

/// The state of a request that was put into a queue.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// It is granted, and its owner knows.
    Granted,
    /// Its claims are decided, and its owner knows.
    Claimed(Claimed),
    Waits,
    /// Its owner is the victim of a deadlock, and will be told.
    Withdrawn,
}

/// A sleeper to be woken once the shard's mutex is free.
#[derive(Debug)]
pub(super) struct Wake {
    pub(super) parking: Arc<Parking>,
    pub(super) outcome: Outcome,
}

/// The immediate answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The owner holds what it asked for, or its instant request passed.
    Unchanged,
    /// The owner holds the lock now; before, in the given mode.
    Granted { slot: u32, before: Option<Mode> },
    /// The request must wait, or be given up.
    Blocked { slot: u32, target: Mode, before: Option<Mode> },
}

#[derive(Debug)]
struct Head {
    hash: u64,
    /// The next lock of the bucket, or the next free slot.
    next: u32,
    name: StoredName,
    granted: Vec<Grant>,
    queue: VecDeque<Waiter>,
    /// Requests that were granted and whose owners have not woken up yet.
    asleep: Vec<Waiter>,
    /// The quantities under the lock, with the claims of its holders.
    escrow: Escrow,
}

/// A [`LockName`] with bytes of its own.
#[derive(Debug)]
struct StoredName {
    table: super::TableId,
    space: u64,
    kind: Kind,
    key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Key,
    End,
}

impl StoredName {
    fn is(&self, name: &LockName<'_>) -> bool {
        self.table == name.table
            && self.space == name.space
            && match name.part {
                Part::Whole => self.kind == Kind::Whole,
                Part::Key(key) => self.kind == Kind::Key && self.key == key,
                Part::End => self.kind == Kind::End,
            }
    }

    fn set(&mut self, name: &LockName<'_>) {
        self.table = name.table;
        self.space = name.space;
        self.key.clear();
        self.kind = match name.part {
            Part::Whole => Kind::Whole,
            Part::Key(key) => {
                self.key.extend_from_slice(key);
                Kind::Key
            }
            Part::End => Kind::End,
        };
    }

    fn as_name(&self) -> LockName<'_> {
        let part = match self.kind {
            Kind::Whole => Part::Whole,
            Kind::Key => Part::Key(&self.key),
            Kind::End => Part::End,
        };
        LockName { table: self.table, space: self.space, part }
    }
}

impl Head {
    fn modes<'t>(&self, tables: &'t [LockTable]) -> &'t Modes {
        &tables[self.name.table.index()].modes
    }

    fn held_by_others(&self, txn: TxnId) -> ModeSet {
        self.granted.iter().filter(|g| g.txn != txn).fold(ModeSet::EMPTY, |set, g| set.with(g.mode))
    }

    /// Grants the lock to the waiters that can have it now, in the order of the queue.
    fn regrant(&mut self, modes: &Modes, woken: &mut Vec<Wake>) {
        let mut held = self.granted.iter().fold(ModeSet::EMPTY, |set, g| set.with(g.mode));
        let mut ahead = ModeSet::EMPTY;
        let mut at = 0;
        while at < self.queue.len() {
            self.decide_waiting(at);
            let waiter = &self.queue[at];
            let passes = if let Some(claims) = &waiter.claims {
                claims.decided.is_some()
            } else if waiter.conversion {
                self.held_by_others(waiter.txn).is_subset(modes.admitted_by(waiter.mode))
            } else {
                held.is_subset(modes.admitted_by(waiter.mode)) && ahead.is_subset(modes.friends(waiter.mode))
            };
            if !passes {
                ahead = ahead.with(waiter.mode);
                at += 1;
                continue;
            }
            let waiter = self.queue.remove(at).expect("it was just looked at");
            if waiter.claims.is_none() && !modes.is_instant(waiter.mode) {
                self.grant(waiter.txn, waiter.mode);
                held = held.with(waiter.mode);
            }
            woken.push(Wake { parking: waiter.parking.clone(), outcome: Outcome::Granted });
            self.asleep.push(waiter);
        }
        self.check(modes);
    }

    /// Decides the claims that wait at a place of the queue, if they can be.
    fn decide_waiting(&mut self, at: usize) {
        let Some(waiter) = self.queue.get(at) else { return };
        let Some(Claims { claims, keeps_refusal, decided: None }) = &waiter.claims else { return };
        if self.is_behind(waiter.txn, claims, at) {
            return;
        }
        let decided = self.escrow.request(waiter.txn, claims, *keeps_refusal);
        if let Some(waiting) = &mut self.queue[at].claims {
            waiting.decided = decided;
        }
    }

    /// True if claims have to wait behind others in the first `places` places of the queue. An owner that holds
    /// something of quantities already does not: the others may be waiting for it.
    fn is_behind(&self, txn: TxnId, claims: &[Claim], places: usize) -> bool {
        !self.escrow.holds(txn) && self.claims_before(places).any(|(_, earlier)| overlap(earlier, claims))
    }

    /// The claims that wait in the first places of the queue.
    fn claims_before(&self, places: usize) -> impl Iterator<Item = (TxnId, &[Claim])> {
        let waiters = self.queue.iter().take(places);
        waiters.filter_map(|waiter| Some((waiter.txn, &*waiter.claims.as_ref()?.claims)))
    }

    /// Returns the owners that the claims at a place of the queue wait for.
    fn claims_wait_for(&self, at: usize) -> Vec<TxnId> {
        let Some(waiter) = self.queue.get(at) else { return Vec::new() };
        let Some(waiting) = &waiter.claims else { return Vec::new() };
        let mut blockers: Vec<TxnId> = self.escrow.blockers(waiter.txn, &waiting.claims).collect();
        if self.is_behind(waiter.txn, &waiting.claims, at) {
            let earlier = self.claims_before(at).filter(|(_, claims)| overlap(claims, &waiting.claims));
            blockers.extend(earlier.map(|(txn, _)| txn));
        }
        blockers
    }

    /// Puts the holders that block a new request back to the head of the queue, if all of them may be overtaken:
    /// granted in their sleep, still asleep, and not overtaken too often. Otherwise, or if a conversion waits or no
    /// holder blocks the request, changes nothing and returns false.
    fn overtake(&mut self, modes: &Modes, mode: Mode) -> bool {
        let in_the_way = |grant: &Grant| !modes.admitted_by(mode).contains(grant.mode);
        let may_be_overtaken = |grant: &Grant| {
            let is_it = |waiter: &Waiter| {
                waiter.txn == grant.txn && !waiter.conversion && waiter.overtaken < OVERTAKEN_MAX
            };
            self.asleep.iter().any(is_it)
        };
        let mut in_its_way = self.granted.iter().filter(|grant| in_the_way(grant)).peekable();
        if self.queue.iter().any(|waiter| waiter.conversion)
            || in_its_way.peek().is_none()
            || !in_its_way.all(may_be_overtaken)
        {
            return false;
        }
        let overtaken: Vec<TxnId> =
            self.granted.extract_if(.., |grant| in_the_way(grant)).map(|grant| grant.txn).collect();
        let mut back: Vec<Waiter> =
            self.asleep.extract_if(.., |waiter| overtaken.contains(&waiter.txn)).collect();
        while let Some(mut waiter) = back.pop() {
            waiter.overtaken += 1;
            self.queue.push_front(waiter);
        }
        true
    }

    fn is_unused(&self) -> bool {
        self.granted.is_empty() && self.queue.is_empty() && self.asleep.is_empty()
    }

    fn grant(&mut self, txn: TxnId, mode: Mode) {
        match self.granted.iter_mut().find(|g| g.txn == txn) {
            Some(grant) => grant.mode = mode,
            None => self.granted.push(Grant { txn, mode }),
        }
    }

    /// Checks the invariants at the head of this file.
    fn check(&self, modes: &Modes) {
        if cfg!(debug_assertions) {
            for (at, a) in self.granted.iter().enumerate() {
                for b in &self.granted[at + 1..] {
                    assert!(a.txn != b.txn, "{} holds {:?} twice", a.txn, self.name);
                    assert!(
                        modes.admits(a.mode, b.mode) || modes.admits(b.mode, a.mode),
                        "{:?} is held in {} by {} and in {} by {}",
                        self.name,
                        modes.name(a.mode),
                        a.txn,
                        modes.name(b.mode),
                        b.txn
                    );
                }
            }
            assert!(self.queue.iter().is_sorted_by_key(|w| !w.conversion), "{:?}: queue order", self.name);
            assert!(self.queue.is_empty() || !self.granted.is_empty(), "{:?}: awaited, not held", self.name);
        }
    }
}

fn overlap(some: &[Claim], others: &[Claim]) -> bool {
    some.iter().any(|claim| others.iter().any(|other| other.quantity == claim.quantity))
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// The first slot of each bucket; a power of two of them.
    buckets: Vec<u32>,
    heads: Vec<Head>,
    first_free: Option<u32>,
    live: usize,
}

impl Shard {
    /// Requests a lock, and grants it if no holder or waiter blocks it.
    pub(super) fn request(
        &mut self,
        tables: &[LockTable],
        name: &LockName<'_>,
        hash: u64,
        txn: TxnId,
        mode: Mode,
        woken: &mut Vec<Wake>,
    ) -> Answer {
        let table = &tables[name.table.index()];
        let modes = &table.modes;
        let instant = modes.is_instant(mode);
        let Some(slot) = self.find(name, hash) else {
            if instant {
                return Answer::Unchanged;
            }
            let slot = self.insert(name, hash);
            self.heads[slot as usize].granted.push(Grant { txn, mode });
            return Answer::Granted { slot, before: None };
        };
        let head = &mut self.heads[slot as usize];
        let (mut own, mut others) = (None, ModeSet::EMPTY);
        for (at, grant) in head.granted.iter().enumerate() {
            if grant.txn == txn {
                own = Some((at, grant.mode));
            } else {
                others = others.with(grant.mode);
            }
        }
        let before = own.map(|(_, mode)| mode);
        let joined = before.map_or(mode, |before| modes.supremum(before, mode));
        if before == Some(joined) {
            return Answer::Unchanged;
        }
        let target = if instant { mode } else { joined };
        // Only holders block a conversion: a waiter may be waiting for this owner.
        let passes = others.is_subset(modes.admitted_by(target))
            && (own.is_some() || head.queue.iter().all(|w| modes.friends(target).contains(w.mode)));
        match own {
            None if !passes && !instant && !table.is_in_order() && head.overtake(modes, target) => {
                head.granted.push(Grant { txn, mode: target });
                // It may admit some of the waiters that it overtook.
                head.regrant(modes, woken);
            }
            _ if !passes => return Answer::Blocked { slot, target, before },
            _ if instant => return Answer::Unchanged,
            Some((at, _)) => head.granted[at].mode = target,
            None => head.granted.push(Grant { txn, mode: target }),
        }
        head.check(modes);
        Answer::Granted { slot, before }
    }

    /// Records a lock that an owner has in a weak mode, while no owner has a stronger one. Returns its slot.
    pub(super) fn admit(
        &mut self,
        tables: &[LockTable],
        name: &LockName<'_>,
        hash: u64,
        txn: TxnId,
        mode: Mode,
    ) -> u32 {
        let slot = self.find(name, hash).unwrap_or_else(|| self.insert(name, hash));
        let head = &mut self.heads[slot as usize];
        head.granted.push(Grant { txn, mode });
        head.check(head.modes(tables));
        slot
    }

    /// Claims of quantities under a lock that the owner holds. None if that depends on others.
    pub(super) fn claim(
        &mut self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        claims: &[Claim],
        keeps_refusal: bool,
    ) -> Option<Claimed> {
        let head = &mut self.heads[slot as usize];
        debug_assert!(
            head.granted.iter().any(|g| g.txn == txn && head.modes(tables).admits(g.mode, g.mode)),
            "{txn} claims under {:?}, which it does not hold",
            head.name
        );
        if head.is_behind(txn, claims, head.queue.len()) {
            return None;
        }
        head.escrow.request(txn, claims, keeps_refusal)
    }

    /// True if an owner's first claims leave enough for all to claim once more what they have.
    pub(super) fn leaves_room(&self, slot: u32, txn: TxnId, claims: &[Claim]) -> bool {
        self.heads[slot as usize].escrow.leaves_room(txn, claims)
    }

    /// Puts back an owner's holds of quantities; with `promises`, promises made to it since stay.
    pub(super) fn restore(
        &mut self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        replaced: &[(u32, Option<Hold>)],
        promises: bool,
        woken: &mut Vec<Wake>,
    ) {
        let head = &mut self.heads[slot as usize];
        head.escrow.restore(txn, replaced, promises);
        if !head.queue.is_empty() {
            head.regrant(head.modes(tables), woken);
        }
    }

    /// Returns an owner's holds of quantities under a lock.
    pub(super) fn claimed(&self, slot: u32, txn: TxnId) -> Vec<(u32, Hold)> {
        self.heads.get(slot as usize).map_or_else(Vec::new, |head| head.escrow.held(txn))
    }

    /// Sets the final net of an owner's changes of a quantity.
    pub(super) fn settle(&mut self, slot: u32, txn: TxnId, quantity: u32, net: i128) {
        self.heads[slot as usize].escrow.settle(txn, quantity, net);
    }

    /// Takes up a hold of a quantity from an earlier run, for an owner that holds the lock.
    pub(super) fn take_up(&mut self, slot: u32, quantity: u32, value: i128, hold: Hold) {
        self.heads[slot as usize].escrow.take_up(quantity, value, hold);
    }

    /// Puts a request that was blocked into its queue: conversions behind conversions, others at the end.
    pub(super) fn enqueue(&mut self, slot: u32, waiter: Waiter) {
        let queue = &mut self.heads[slot as usize].queue;
        let at =
            if waiter.conversion { queue.partition_point(|other| other.conversion) } else { queue.len() };
        queue.insert(at, waiter);
    }

    /// Takes a request out of its queue and grants the waiters that only it blocked. None if it is not there (any
    /// more): then another thread ended the wait.
    pub(super) fn withdraw(
        &mut self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        number: u64,
        woken: &mut Vec<Wake>,
    ) -> Option<Waiter> {
        let head = self.heads.get_mut(slot as usize)?;
        let at = head.queue.iter().position(|w| w.txn == txn && w.number == number)?;
        let waiter = head.queue.remove(at);
        head.regrant(head.modes(tables), woken);
        waiter
    }

    /// Sets an owner's lock back to the mode from before, or releases it: then its claimed changes count if it has
    /// committed.
    pub(super) fn set_back(
        &mut self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        before: Option<Mode>,
        committed: bool,
        woken: &mut Vec<Wake>,
    ) {
        let head = &mut self.heads[slot as usize];
        let Some(at) = head.granted.iter().position(|g| g.txn == txn) else {
            debug_assert!(false, "{txn} releases {:?}, which it does not hold", head.name);
            return;
        };
        match before {
            Some(mode) => head.granted[at].mode = mode,
            None => {
                head.granted.swap_remove(at);
                match head.granted.is_empty() {
                    false => head.escrow.end(txn, committed),
                    true => head.escrow.clear(),
                }
            }
        }
        if !head.queue.is_empty() {
            head.regrant(head.modes(tables), woken);
        }
        if head.is_unused() {
            self.remove(slot);
        }
    }

    /// Returns the state of a request. Its owner is awake: it cannot be overtaken any more.
    pub(super) fn fate(&mut self, slot: u32, txn: TxnId, number: u64) -> Fate {
        let is_it = |waiter: &Waiter| waiter.txn == txn && waiter.number == number;
        let Some(head) = self.heads.get_mut(slot as usize) else { return Fate::Withdrawn };
        if let Some(at) = head.asleep.iter().position(is_it) {
            let waiter = head.asleep.remove(at);
            if head.is_unused() {
                self.remove(slot);
            }
            return match waiter.claims.and_then(|claims| claims.decided) {
                Some(claimed) => Fate::Claimed(claimed),
                None => Fate::Granted,
            };
        }
        if head.queue.iter().any(is_it) { Fate::Waits } else { Fate::Withdrawn }
    }

    /// The slot of a lock, and the mode that an owner holds it in.
    pub(super) fn held(&self, name: &LockName<'_>, hash: u64, txn: TxnId) -> Option<(u32, Mode)> {
        let slot = self.find(name, hash)?;
        let grant = self.heads[slot as usize].granted.iter().find(|g| g.txn == txn)?;
        Some((slot, grant.mode))
    }

    /// The table of the lock in a slot, and the mode that an owner holds it in.
    pub(super) fn held_at(&self, slot: u32, txn: TxnId) -> Option<(TableId, Mode)> {
        let head = self.heads.get(slot as usize)?;
        let grant = head.granted.iter().find(|g| g.txn == txn)?;
        Some((head.name.table, grant.mode))
    }

    /// The name of the lock in a slot, and the mode that an owner holds it in.
    pub(super) fn name_at(&self, slot: u32, txn: TxnId) -> Option<(LockName<'_>, Mode)> {
        let head = self.heads.get(slot as usize)?;
        let grant = head.granted.iter().find(|g| g.txn == txn)?;
        Some((head.name.as_name(), grant.mode))
    }

    /// Returns the owners that a waiter waits for directly: holders that do not admit it and, unless `only_holders`,
    /// earlier waiters that it does not get on with.
    pub(super) fn blockers(
        &self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        number: u64,
        only_holders: bool,
    ) -> Vec<TxnId> {
        let Some((head, at)) = self.position(slot, txn, number) else { return Vec::new() };
        let modes = head.modes(tables);
        let waiter = &head.queue[at];
        if waiter.claims.is_some() {
            return head.claims_wait_for(at);
        }
        let holders = head.granted.iter().filter(|g| g.txn != txn && !modes.admits(g.mode, waiter.mode));
        let ahead = head.queue.range(..at).filter(|_| !only_holders && !waiter.conversion);
        let earlier = ahead.filter(|w| !modes.friends(waiter.mode).contains(w.mode));
        holders.map(|g| g.txn).chain(earlier.map(|w| w.txn)).collect()
    }

    /// Visits the owners that a waiter waits for, directly or through waiters ahead of it in the same queue: calls
    /// `reached` with each, and with true if it is a holder. Takes one pass over queue and holders.
    pub(super) fn reach(
        &self,
        tables: &[LockTable],
        slot: u32,
        txn: TxnId,
        number: u64,
        mut reached: impl FnMut(TxnId, bool),
    ) {
        let Some((head, at)) = self.position(slot, txn, number) else { return };
        if head.queue[at].claims.is_some() {
            head.claims_wait_for(at).into_iter().for_each(|blocker| reached(blocker, true));
            return;
        }
        let modes = head.modes(tables);
        // The modes that get on with, and that are admitted by, every new request reached so far.
        let (mut friends, mut admitted) = (None::<ModeSet>, None::<ModeSet>);
        for (place, waiter) in head.queue.iter().enumerate().take(at + 1).rev() {
            if place != at {
                if friends.is_none_or(|friends| friends.contains(waiter.mode)) {
                    continue;
                }
                reached(waiter.txn, false);
            }
            if waiter.claims.is_some() {
                // An owner that claims holds the lock, and is reached as a holder.
            } else if waiter.conversion {
                let holders =
                    head.granted.iter().filter(|g| g.txn != waiter.txn && !modes.admits(g.mode, waiter.mode));
                holders.for_each(|g| reached(g.txn, true));
            } else {
                let own = modes.friends(waiter.mode);
                friends = Some(friends.map_or(own, |friends| friends.intersection(own)));
                let own = modes.admitted_by(waiter.mode);
                admitted = Some(admitted.map_or(own, |admitted| admitted.intersection(own)));
            }
        }
        if let Some(admitted) = admitted {
            head.granted.iter().filter(|g| !admitted.contains(g.mode)).for_each(|g| reached(g.txn, true));
        }
    }

    /// Calls `visit` with every lock held and every request waiting.
    pub(super) fn visit(
        &self,
        mut visit: impl FnMut(LockName<'_>, TxnId, Mode, Option<&Waiter>, Vec<Pending>),
    ) {
        for head in &self.heads {
            for grant in &head.granted {
                visit(head.name.as_name(), grant.txn, grant.mode, None, head.escrow.pending(grant.txn));
            }
            let name = || head.name.as_name();
            head.queue.iter().for_each(|w| visit(name(), w.txn, w.mode, Some(w), Vec::new()));
        }
    }

    fn position(&self, slot: u32, txn: TxnId, number: u64) -> Option<(&Head, usize)> {
        let head = self.heads.get(slot as usize)?;
        let at = head.queue.iter().position(|w| w.txn == txn && w.number == number)?;
        Some((head, at))
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn find(&self, name: &LockName<'_>, hash: u64) -> Option<u32> {
        if self.live == 0 {
            return None;
        }
        let mut slot = self.buckets[self.bucket(hash)];
        while slot != NO_SLOT {
            let head = &self.heads[slot as usize];
            if head.hash == hash && head.name.is(name) {
                return Some(slot);
            }
            slot = head.next;
        }
        None
    }

    fn insert(&mut self, name: &LockName<'_>, hash: u64) -> u32 {
        if self.live >= self.buckets.len() {
            self.grow();
        }
        let slot = match self.first_free {
            Some(slot) => {
                let next = self.heads[slot as usize].next;
                self.first_free = (next != NO_SLOT).then_some(next);
                slot
            }
            None => {
                let slot = u32::try_from(self.heads.len()).expect("memory ends before the slots do");
                let name = StoredName { table: name.table, space: 0, kind: Kind::Whole, key: Vec::new() };
                let (granted, queue, asleep) = (Vec::new(), VecDeque::new(), Vec::new());
                let escrow = Escrow::default();
                self.heads.push(Head { hash, next: NO_SLOT, name, granted, queue, asleep, escrow });
                slot
            }
        };
        let bucket = self.bucket(hash);
        let head = &mut self.heads[slot as usize];
        head.hash = hash;
        head.name.set(name);
        head.next = std::mem::replace(&mut self.buckets[bucket], slot);
        self.live += 1;
        slot
    }

    fn remove(&mut self, slot: u32) {
        let next = self.heads[slot as usize].next;
        let bucket = self.bucket(self.heads[slot as usize].hash);
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            while self.heads[at as usize].next != slot {
                at = self.heads[at as usize].next;
            }
            self.heads[at as usize].next = next;
        }
        self.live -= 1;
        if self.live == 0 && self.heads.len() > SLOTS_KEPT {
            *self = Shard::default();
            return;
        }
        let head = &mut self.heads[slot as usize];
        head.next = self.first_free.replace(slot).unwrap_or(NO_SLOT);
        if head.name.key.capacity() > SPARE_MAX {
            head.name.key = Vec::new();
        }
        if head.granted.capacity() > SPARE_MAX {
            head.granted = Vec::new();
        }
        if head.queue.capacity() > SPARE_MAX {
            head.queue = VecDeque::new();
        }
        if head.asleep.capacity() > SPARE_MAX {
            head.asleep = Vec::new();
        }
    }

    fn grow(&mut self) {
        let count = (self.buckets.len() * 2).max(8);
        self.buckets.clear();
        self.buckets.resize(count, NO_SLOT);
        for slot in 0..self.heads.len() {
            // Free slots hold nothing; their links belong to the list of free slots.
            if !self.heads[slot].is_unused() {
                let bucket = self.bucket(self.heads[slot].hash);
                self.heads[slot].next = std::mem::replace(&mut self.buckets[bucket], slot as u32);
            }
        }
    }
}

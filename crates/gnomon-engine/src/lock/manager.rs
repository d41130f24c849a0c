//! The lock manager and its owners, which join the other modules of this folder.

use std::{collections::HashSet, fmt, time::Duration};

use super::{
    LockName, Mode, Modes, TableId,
    deadlock::{Detector, Place, Victim, wake},
    escrow::{Claim, Claimed, Hold, Pending, Replaced},
    park::Parking,
    shard::{Answer, Claims, Shard, Waiter, Wake},
    weak::{self, OwnLocks, Space, WeakLocks},
};
use crate::{
    Error, Result, TxnId,
    env::Clock,
    failpoint::Failpoints,
    sync::{
        Arc, Line, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

mod release;
mod wait;

pub use wait::WaitOptions;
pub(super) use wait::{Patience, Wait};
use wait::{WaitKind, Waits};

/// Shards, a power of two: enough that two threads seldom want the same.
const SHARDS_BITS: u32 = 6;
/// Number of steps that a new log has room for: enough for short transactions.
const LOG_SPARE: usize = 16;
/// A slot that no lock has, in an owner's log: the lock was released before the others.
const RELEASED: u32 = u32::MAX;
/// A shard that there is not, in an owner's log: the slot is the number of a weak lock.
const WEAK: u16 = u16::MAX;

/// The definition of a lock table.
#[derive(Clone, Copy, Debug)]
pub struct LockTable {
    /// The table's name, as views of locks show it.
    pub name: &'static str,
    /// The modes of its locks.
    pub modes: Modes,
    /// True if a waiter that was granted the lock in its sleep cannot be overtaken.
    in_order: bool,
    by_thread: bool,
}

impl LockTable {
    /// Makes a table of locks that are held for short: a running thread may overtake a waiter that was granted the lock
    /// and still sleeps.
    pub const fn new(name: &'static str, modes: Modes) -> LockTable {
        LockTable { name, modes, in_order: false, by_thread: false }
    }

    /// The same, but requests are granted in their order: a lock is held for so long that waking up is short beside it.
    #[must_use]
    pub const fn in_order(self) -> LockTable {
        LockTable { in_order: true, ..self }
    }

    pub(super) const fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// The same, but most owners lock its spaces as a whole, in [weak](Modes::is_weak) modes: these are kept by thread.
    #[must_use]
    pub const fn by_thread(self) -> LockTable {
        LockTable { by_thread: true, ..self }
    }

    pub(super) const fn is_by_thread(&self) -> bool {
        self.by_thread
    }
}

/// Several lock tables over which deadlocks are detected together.
pub struct LockManager {
    tables: Box<[LockTable]>,
    shards: Box<[Line<Mutex<Shard>>]>,
    pub(super) weak: WeakLocks,
    detector: Detector,
    /// Stamps waits, and nothing else.
    clock: Arc<dyn Clock>,
    waits: AtomicU64,
    waited_ns: AtomicU64,
    pub(super) failpoints: Failpoints,
}

/// Waits of requests since the manager was made. A wait under way does not count yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWaits {
    /// Number of waits.
    pub count: u64,
    /// Time of all waits together.
    pub time: Duration,
}

/// A lock that is held or awaited, as [`LockManager::snapshot`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The lock table's name.
    pub table: &'static str,
    /// The space in it.
    pub space: u64,
    /// The part of the space: empty for the whole, an escaped key, or `<end>`.
    pub part: String,
    /// The transaction that holds or awaits it.
    pub txn: TxnId,
    /// The mode that is held, or that will be when the wait is over.
    pub mode: &'static str,
    /// Begin of the owner's wait, by the manager's clock; none if it holds the lock.
    pub waiting_since: Option<Duration>,
    /// The transaction's holds of quantities under the name.
    pub pending: Vec<Pending>,
    /// The claims of quantities that it waits for.
    pub claims: Vec<Claim>,
}

impl LockManager {
    /// A manager of the given tables; a [`TableId`] is a place in the list. The clock stamps waits for
    /// [`snapshot`](LockManager::snapshot).
    pub fn new(tables: impl Into<Box<[LockTable]>>, clock: Arc<dyn Clock>) -> Arc<LockManager> {
        Arc::new(LockManager::build(tables.into(), clock))
    }

    pub(super) fn build(tables: Box<[LockTable]>, clock: Arc<dyn Clock>) -> LockManager {
        let failpoints = Failpoints::default();
        LockManager {
            tables,
            clock,
            shards: std::iter::repeat_with(Line::default).take(1 << SHARDS_BITS).collect(),
            weak: WeakLocks::new(failpoints.clone()),
            detector: Detector::default(),
            waits: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            failpoints,
        }
    }

    /// An owner without locks. No two owners at a time may have the same transaction; one owner serves one
    /// thread at a time.
    pub fn owner(self: &Arc<Self>, txn: TxnId) -> LockOwner {
        LockOwner {
            manager: self.clone(),
            txn,
            log: Vec::with_capacity(LOG_SPARE),
            kept: Vec::new(),
            weak: OwnLocks::new(txn),
            held_count: 0,
            mark_max: 0,
            weight: 0,
            victim: Victim::default(),
            waits: Waits::default(),
            is_in_doubt: false,
        }
    }

    /// The mode in which an owner, by its number, holds a lock.
    pub fn held_mode(&self, txn: TxnId, name: LockName<'_>) -> Option<Mode> {
        // In this order: a lock that leaves a list is in its shard before the list's mutex is free.
        let listed = Space::of(&name, &self.tables).and_then(|space| self.weak.held(txn, space));
        listed.or_else(|| self.held(txn, &name).map(|(.., mode)| mode))
    }

    /// The shard and slot of a lock that an owner has there, and its mode.
    fn held(&self, txn: TxnId, name: &LockName<'_>) -> Option<(usize, u32, Mode)> {
        let hash = name.hash();
        let index = shard_index(hash);
        self.shard(index).lock().held(name, hash, txn).map(|(slot, mode)| (index, slot, mode))
    }

    /// Takes note in a shard of a lock that was in a list. The list's mutex is held.
    fn admit(&self, listed: &weak::WeakLock) -> (usize, u32) {
        let name = listed.space.name();
        let hash = name.hash();
        let index = shard_index(hash);
        (index, self.shard(index).lock().admit(&self.tables, &name, hash, listed.txn, listed.mode))
    }

    /// The modes of a table.
    pub fn modes(&self, table: TableId) -> &Modes {
        &self.tables[table.index()].modes
    }

    /// Every lock that is held or awaited, sorted by name, holders before waiters and those in the order of the
    /// queue. Shards are read one after another, so it shows no single moment, but each lock as it was at one.
    pub fn snapshot(&self) -> Vec<LockInfo> {
        let mut listed = Vec::new();
        self.weak.visit(|weak| listed.push(*weak));
        let mut all = Vec::new();
        for shard in &self.shards {
            shard.lock().visit(|name, txn, mode, waiter, pending| {
                all.push(self.info(name, txn, mode, waiter, pending));
            });
        }
        // A lock that was moved from its list meanwhile is there already.
        let holders = all.iter().filter(|lock| lock.part.is_empty() && lock.waiting_since.is_none());
        let in_shards: HashSet<_> = holders.map(|lock| (lock.table, lock.space, lock.txn)).collect();
        let weak = listed
            .into_iter()
            .map(|weak| self.info(weak.space.name(), weak.txn, weak.mode, None, Vec::new()));
        all.extend(weak.filter(|lock| !in_shards.contains(&(lock.table, lock.space, lock.txn))));
        // Stable: keeps the order of a queue.
        all.sort_by(|a, b| {
            let place = |lock: &LockInfo| (lock.table, lock.space);
            let waits = |lock: &LockInfo| lock.waiting_since.is_some();
            (place(a), &a.part, waits(a)).cmp(&(place(b), &b.part, waits(b)))
        });
        all
    }

    fn info(
        &self,
        name: LockName<'_>,
        txn: TxnId,
        mode: Mode,
        waiter: Option<&Waiter>,
        pending: Vec<Pending>,
    ) -> LockInfo {
        let table = &self.tables[name.table.index()];
        LockInfo {
            table: table.name,
            space: name.space,
            part: name.part.to_string(),
            txn,
            mode: table.modes.name(mode),
            waiting_since: waiter.map(|w| w.since),
            // A holder that excludes its like needs no claims: its changes are not pending.
            pending: if table.modes.admits(mode, mode) { pending } else { Vec::new() },
            claims: waiter.and_then(|w| w.claims.as_ref()).map_or_else(Vec::new, |c| c.claims.to_vec()),
        }
    }

    /// Returns the number and time of waits for locks.
    pub fn waits(&self) -> LockWaits {
        LockWaits {
            count: self.waits.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
        }
    }

    fn note_wait(&self, time: Duration) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn parking(&self) -> Arc<Parking> {
        Arc::new(Parking::new(self.failpoints.clone()))
    }

    pub(super) fn tables(&self) -> &[LockTable] {
        &self.tables
    }

    pub(super) fn detector(&self) -> &Detector {
        &self.detector
    }

    pub(super) fn shard(&self, index: usize) -> &Mutex<Shard> {
        &self.shards[index]
    }

    /// Takes a waiting request out of its queue, if it is still there.
    pub(super) fn withdraw(&self, txn: TxnId, place: &Place, woken: &mut Vec<Wake>) -> Option<Waiter> {
        self.shard(place.shard).lock().withdraw(&self.tables, place.slot, txn, place.number, woken)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// The locks of a transaction. Dropping it releases all of them.
///
/// After [`Error::Deadlock`] the owner still holds what it held: the transaction is rolled back first.
#[derive(Debug)]
pub struct LockOwner {
    manager: Arc<LockManager>,
    txn: TxnId,
    /// Acquisitions and conversions in their order.
    log: Vec<Acquired>,
    held_count: u64,
    /// Locks that are not in the log, since they stay whatever is gone back to: see [`LockOwner::keep`].
    kept: Vec<(u16, u32)>,
    /// Locks that may be in a list of its thread's: in the log they are of the shard [`WEAK`].
    weak: OwnLocks,
    /// No mark that is still of use is beyond this place of the log.
    mark_max: usize,
    weight: u64,
    victim: Victim,
    waits: Waits,
    is_in_doubt: bool,
}

/// One step of a [`LockOwner`], with the state of its lock before.
#[derive(Debug)]
struct Acquired {
    slot: u32,
    shard: u16,
    before: Before,
}

/// The state of an owner's lock before a step.
#[derive(Debug)]
enum Before {
    /// The lock in a mode, or not at all.
    Mode(Option<Mode>),
    /// These parts of the quantities under it, and the lock.
    Claims(Replaced),
}

impl Acquired {
    /// True if the step took the lock, which the owner did not hold before.
    fn is_first(&self) -> bool {
        matches!(self.before, Before::Mode(None))
    }
}

/// A point in the course of a [`LockOwner`], for [`LockOwner::release_since`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// The immediate result of a request.
#[derive(Debug)]
pub(super) enum Requested {
    Granted,
    /// It would have to wait and was not allowed to.
    Refused,
    /// The claim at this place cannot be met.
    Denied(usize),
    Waiting(Wait),
}

impl LockOwner {
    /// The transaction.
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Returns the number of locks that it holds.
    pub fn held_count(&self) -> u64 {
        self.held_count
    }

    /// Sets the rule that chooses the victim of a deadlock that a request of this owner completes.
    pub fn set_victim(&mut self, victim: Victim) {
        self.victim = victim;
    }

    /// Makes the owner dearer when the victim is the one with the least to lose.
    pub fn set_weight(&mut self, weight: u64) {
        self.weight = weight;
    }

    /// Locks `name` in a mode that is at least as strong as `mode`, together with what the owner holds of it
    /// already. Waits as `options` say; a failed request leaves the owner as it was.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if this owner is the victim of a deadlock, [`Error::LockTimeout`],
    /// [`Error::Interrupted`].
    pub fn lock(&mut self, name: LockName<'_>, mode: Mode, options: &WaitOptions<'_>) -> Result<()> {
        match self.request(&name, mode, options.patience())? {
            Requested::Granted => Ok(()),
            Requested::Refused | Requested::Denied(_) => Err(Error::LockTimeout),
            Requested::Waiting(wait) => self.wait(wait, options).map(|_| ()),
        }
    }

    /// Claims of quantities under a lock that the owner holds in a mode that others can hold beside it: all of the
    /// claims, or none. Returns the place of the first claim that cannot be met, whatever others do; with
    /// `keeps_refusal`, others keep it so until this owner ends. Waits, as `options` say, for as long as that depends
    /// on others. What is claimed counts as committed if the owner ends by
    /// [`release_committed`](LockOwner::release_committed).
    ///
    /// # Errors
    /// Those of [`lock`](LockOwner::lock).
    ///
    /// # Panics
    /// If the owner does not hold the lock.
    pub fn claim(
        &mut self,
        name: LockName<'_>,
        claims: &[Claim],
        keeps_refusal: bool,
        options: &WaitOptions<'_>,
    ) -> Result<Option<usize>> {
        match self.request_claims(&name, claims, keeps_refusal, options.patience())? {
            Requested::Granted => Ok(None),
            Requested::Denied(place) => Ok(Some(place)),
            Requested::Refused => Err(Error::LockTimeout),
            Requested::Waiting(wait) => match self.wait(wait, options)? {
                Some(claimed) => Ok(claimed.refused),
                None => Ok(None),
            },
        }
    }

    /// Claims as [`claim`](LockOwner::claim) does, but returns none instead of waiting. Returns none also if too little
    /// would be left for others and this owner to do once more what they have done: those that want more then would
    /// wait for each other.
    ///
    /// # Panics
    /// If the owner does not hold the lock.
    pub fn try_claim(
        &mut self,
        name: LockName<'_>,
        claims: &[Claim],
        keeps_refusal: bool,
    ) -> Option<Option<usize>> {
        let hash = name.hash();
        let index = shard_index(hash);
        let mut shard = self.manager.shard(index).lock();
        let (slot, _) = shard.held(&name, hash, self.txn).expect("an owner that claims holds the lock");
        if !shard.leaves_room(slot, self.txn, claims) {
            return None;
        }
        let claimed = shard.claim(&self.manager.tables, slot, self.txn, claims, keeps_refusal)?;
        drop(shard);
        let refused = claimed.refused;
        self.note_claimed(index, slot, claimed);
        Some(refused)
    }

    /// Locks as [`lock`](LockOwner::lock) does, but returns false instead of waiting.
    pub fn try_lock(&mut self, name: LockName<'_>, mode: Mode) -> bool {
        matches!(self.request(&name, mode, Patience::None), Ok(Requested::Granted))
    }

    /// Returns the owner's holds of quantities under a lock.
    pub(crate) fn claimed(&self, name: LockName<'_>) -> Vec<(u32, Hold)> {
        let hash = name.hash();
        let shard = self.manager.shard(shard_index(hash)).lock();
        shard.held(&name, hash, self.txn).map_or_else(Vec::new, |(slot, _)| shard.claimed(slot, self.txn))
    }

    /// Sets the final net of its changes of a quantity, of which it holds something, to `net`: it commits next.
    pub(crate) fn settle(&mut self, name: LockName<'_>, quantity: u32, net: i128) {
        let hash = name.hash();
        let mut shard = self.manager.shard(shard_index(hash)).lock();
        if let Some((slot, _)) = shard.held(&name, hash, self.txn) {
            shard.settle(slot, self.txn, quantity, net);
        }
    }

    /// Takes up its hold of a quantity from an earlier run, under a lock that it holds. `value` is the committed value
    /// now.
    pub(crate) fn take_up(&mut self, name: LockName<'_>, quantity: u32, value: i128, hold: Hold) {
        let hash = name.hash();
        let mut shard = self.manager.shard(shard_index(hash)).lock();
        if let Some((slot, _)) = shard.held(&name, hash, self.txn) {
            shard.take_up(slot, quantity, value, Hold { txn: self.txn, ..hold });
        }
    }

    /// The mode in which the owner holds a lock.
    pub fn held_mode(&self, name: LockName<'_>) -> Option<Mode> {
        let space = Space::of(&name, &self.manager.tables);
        let listed = space.and_then(|space| self.weak.held(&self.manager.weak, self.txn, space));
        listed.or_else(|| self.manager.held(self.txn, &name).map(|(.., mode)| mode))
    }

    /// Calls `visit` with every lock that it holds, in the order in which they were first taken. `visit` must not use
    /// the lock manager.
    pub fn visit_held(&self, mut visit: impl FnMut(LockName<'_>, Mode)) {
        let logged = self.log.iter().filter(|step| step.slot != RELEASED && step.is_first());
        let logged = logged.map(|step| (step.shard, step.slot));
        for (shard, slot) in self.kept.iter().copied().chain(logged) {
            if shard == WEAK {
                let name = self.weak.space(slot).name();
                self.held_mode(name).into_iter().for_each(|mode| visit(name, mode));
                continue;
            }
            let shard = self.manager.shard(usize::from(shard)).lock();
            if let Some((name, mode)) = shard.name_at(slot, self.txn) {
                visit(name, mode);
            }
        }
    }

    /// As [`LockOwner::leave_lists`], if this lock may be in one.
    fn leave_lists_with(&mut self, name: &LockName<'_>) {
        if Space::of(name, &self.manager.tables).is_some() {
            self.leave_lists();
        }
    }

    /// Moves its weak locks to shards, and uses only shards until it ends: an owner that holds locks for long would
    /// fill the lists of others.
    pub(crate) fn leave_lists(&mut self) {
        let (manager, txn) = (&*self.manager, self.txn);
        if self.weak.shards_only {
            return;
        }
        let places = self.weak.leave(&manager.weak, txn, |space, listed| match listed {
            Some(listed) => Some(manager.admit(&listed)),
            None => manager.held(txn, &space.name()).map(|(shard, slot, _)| (shard, slot)),
        });
        for step in self.log.iter_mut().filter(|step| step.shard == WEAK) {
            let place = places.get(step.slot as usize).copied().flatten();
            debug_assert!(place.is_some(), "{txn} has lost a weak lock");
            (step.shard, step.slot) = place.map_or((0, RELEASED), |(shard, slot)| (shard as u16, slot));
        }
    }

    /// Makes it an owner whose end no thread of its own brings about, so that a wait for it may have no end
    /// ([`WaitOptions::in_doubt_max`]). Such an owner holds locks for long: it uses only shards until it ends.
    pub(crate) fn mark_in_doubt(&mut self) {
        self.leave_lists();
        self.is_in_doubt = true;
        self.manager.mark_in_doubt(self.txn);
    }

    fn acquired(&mut self, shard: usize, slot: u32, before: Option<Mode>) {
        self.log.push(Acquired { slot, shard: shard as u16, before: Before::Mode(before) });
        self.held_count += u64::from(before.is_none());
    }

    /// Asks for a lock; queues the request if it must wait and may. Fails if that is a deadlock and the owner its
    /// victim.
    pub(super) fn request(
        &mut self,
        name: &LockName<'_>,
        mode: Mode,
        patience: Patience,
    ) -> Result<Requested> {
        if let Some(space) = Space::of(name, &self.manager.tables)
            && self.request_weak(space, mode)
        {
            return Ok(Requested::Granted);
        }
        let hash = name.hash();
        let index = shard_index(hash);
        let manager = &*self.manager;
        let mut woken = Vec::new();
        let mut shard = manager.shard(index).lock();
        let answer = shard.request(&manager.tables, name, hash, self.txn, mode, &mut woken);
        let (slot, target, before) = match answer {
            Answer::Unchanged => return Ok(Requested::Granted),
            Answer::Granted { slot, before } => {
                drop(shard);
                wake(woken);
                self.acquired(index, slot, before);
                return Ok(Requested::Granted);
            }
            Answer::Blocked { .. } if patience == Patience::None => return Ok(Requested::Refused),
            Answer::Blocked { slot, target, before } => (slot, target, before),
        };
        let kind = match manager.modes(name.table).is_instant(mode) {
            true => WaitKind::Instant,
            false => WaitKind::Lock(before),
        };
        let waiter = self.waits.begin(manager, self.txn, target, before.is_some(), None);
        let place = self.place(index, slot);
        shard.enqueue(slot, waiter);
        drop(shard);
        self.waiting(place, kind, patience)
    }

    /// Locks a space in a weak mode, unless that needs a shard: then all that the owner holds is in shards. Returns
    /// true if it has locked.
    fn request_weak(&mut self, space: Space, mode: Mode) -> bool {
        let (manager, txn) = (&*self.manager, self.txn);
        let modes = manager.modes(space.name().table);
        if !modes.is_weak(mode) {
            self.weak.contend(&manager.weak, space, |listed| {
                manager.admit(listed);
            });
            self.leave_lists();
            return false;
        }
        match self.weak.request(&manager.weak, modes, txn, space, mode) {
            weak::Answer::Elsewhere => {
                self.leave_lists();
                return false;
            }
            weak::Answer::Unchanged => {}
            weak::Answer::Granted { number, before } => self.acquired(usize::from(WEAK), number, before),
        }
        true
    }

    /// Claims of quantities; queues the request if it must wait and may. Fails if that is a deadlock and the owner its
    /// victim.
    pub(super) fn request_claims(
        &mut self,
        name: &LockName<'_>,
        claims: &[Claim],
        keeps_refusal: bool,
        patience: Patience,
    ) -> Result<Requested> {
        let hash = name.hash();
        let index = shard_index(hash);
        let manager = &*self.manager;
        let mut shard = manager.shard(index).lock();
        let (slot, mode) = shard.held(name, hash, self.txn).expect("who claims holds the lock");
        if let Some(claimed) = shard.claim(&manager.tables, slot, self.txn, claims, keeps_refusal) {
            drop(shard);
            let refused = claimed.refused;
            self.note_claimed(index, slot, claimed);
            return Ok(refused.map_or(Requested::Granted, Requested::Denied));
        }
        if patience == Patience::None {
            return Ok(Requested::Refused);
        }
        let claims = Some(Claims { claims: claims.into(), keeps_refusal, decided: None });
        let waiter = self.waits.begin(manager, self.txn, mode, true, claims);
        let place = self.place(index, slot);
        shard.enqueue(slot, waiter);
        drop(shard);
        self.waiting(place, WaitKind::Claims, patience)
    }

    fn note_claimed(&mut self, shard: usize, slot: u32, claimed: Claimed) {
        if !claimed.replaced.is_empty() {
            let before = Before::Claims(claimed.replaced);
            self.log.push(Acquired { slot, shard: shard as u16, before });
        }
    }
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        self.release_all();
    }
}

fn shard_index(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARDS_BITS)) as usize
}

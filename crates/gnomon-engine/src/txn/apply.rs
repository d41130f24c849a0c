//! Operations on keys: writes that do not see the value that they change. Transactions whose operations commute
//! change the same key at the same time.
//!
//! [`Transaction::apply`] locks the key in the mode that its operation shares with those that it commutes with,
//! claims what the operation demands of quantities, and puts the call into the write set. The commit applies it
//! (`commit.rs`). While the lock is held the key exists, since an insert or a delete locks it exclusively.
//!
//! The operation is done at once instead, behind an exclusive lock and on a value that no other transaction changes,
//! where the value is seen anyway: when the transaction has put the key itself, has locked it exclusively before, or
//! has locked the tree as a whole; when a value could grow beyond what fits its leaf, so that its number of pages
//! depends on others; and under SNAPSHOT when the transaction has read the key. The result is the same. Exclusive
//! locks of operations admit requests that want the key to stay ([`RowLock::KeyShare`]), which it does.
//!
//! By isolation:
//!
//! - READ COMMITTED: conditions are asked of the newest value, as everything is behind a lock. To read a key
//!   afterwards converts the lock to an exclusive one, and the value is as if it had been that from the beginning. A
//!   refusal stays true until the transaction ends if it had applied an operation to the key before.
//! - SNAPSHOT: operations of others since the snapshot are no conflict, all other changes are. A condition that does
//!   not hold in the snapshot is refused; one that does, but cannot hold any more, is a conflict. A transaction that
//!   reads a key and applies operations to it, in whatever order, conflicts with every change since the snapshot: the
//!   first committer wins. As long as the transaction was told nothing but what its locks keep true, there is no
//!   conflict: its snapshot becomes a newer one ([`Transaction::renew_snapshot`]).
//! - SERIALIZABLE: a refusal stays true until the transaction ends, since it was seen. To read a key converts the
//!   lock to an exclusive one.
//!
//! Two transactions that convert their locks on one key are in a deadlock, and so are two that each wait for what the
//! other has claimed. One of them steps back and lets the other go first: it has seen nothing of the key but that its
//! operations may be applied. To keep that rare, later operations on the tree lock exclusively at once, for as long
//! as some of them turn out to need it. A first claim is granted beside others only if as much as all have claimed
//! would be left for them once more; else it waits for them behind an exclusive lock.

use std::collections::{BTreeSet, HashMap};

use super::{
    database::KEYS,
    read::ReadAt,
    strength::RowLock,
    transaction::{Covered, Isolation, Transaction, Used},
    tree::TreeState,
    versions::Since,
    writes::{BoundCall, Calls, Write, absent},
};
use crate::{
    Conflict, Error, Result, TreeId,
    access::{self, Search},
    lock::{Claim, LockName, Mode, first_refused, key_mode, tree_mode},
    op::{self, Call, Length, Registered},
    sync::Arc,
};

/// The quantity that is the length of a value that operations lengthen.
pub(super) const LENGTH: u32 = u32::MAX;
/// Number of keys of a tree that are remembered as read under SNAPSHOT. If more are read, all keys count as read.
const READS_MAX: usize = 4096;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It will be applied when the transaction commits, or was at once.
    Done,
    /// There is no such key.
    Absent,
    /// The claim at this place of those that the operation makes cannot be met: nothing is done.
    Refused(usize),
}

/// The keys that a transaction under SNAPSHOT has read, by tree. None stands for all keys of the tree.
#[derive(Default)]
pub(super) struct Reads(HashMap<TreeId, Option<BTreeSet<Box<[u8]>>>>);

impl Reads {
    fn note(&mut self, tree: TreeId, key: &[u8]) {
        let keys = self.0.entry(tree).or_insert_with(|| Some(BTreeSet::new()));
        if let Some(some) = keys {
            some.insert(key.into());
            if some.len() > READS_MAX {
                *keys = None;
            }
        }
    }

    fn has(&self, tree: TreeId, key: &[u8]) -> bool {
        self.0.get(&tree).is_some_and(|keys| keys.as_ref().is_none_or(|keys| keys.contains(key)))
    }
}

impl Transaction {
    /// Applies an operation to the value of a key, which it does not see. Other transactions may apply operations
    /// that commute with it to the same key meanwhile ([`op`](crate::op)).
    ///
    /// If the operation claims something of the value that depends on transactions that have not ended, it waits for
    /// them. What it was granted then holds until this transaction ends.
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`]; [`Error::Operation`] if the value or the arguments do not suit it. Under
    /// [`Isolation::Snapshot`], [`Error::Serialization`] if others have changed the key since otherwise than by
    /// operations, or so that a condition cannot hold which does in the snapshot, and the snapshot cannot be a newer one.
    /// And those of [`Transaction::put`].
    pub fn apply(&mut self, tree: TreeId, key: &[u8], call: &Call) -> Result<Applied> {
        self.check_write(&[])?;
        self.relieve()?;
        loop {
            let operation = self.inner().operations.get(call.family, call.operation)?.clone();
            let used = self.use_tree(tree, tree_mode::IX)?;
            let max = access::key_bytes_max(self.page_size(&used));
            if key.len() > max {
                return Err(Error::KeyTooLong { bytes: key.len(), max });
            }
            let mark = self.locks.mark();
            let is_applied = matches!(self.writes.get(tree, key), Some(Write::Apply(_)));
            let mut applied = self.apply_in(&used, key, &operation, &call.args, false);
            if matches!(applied, Err(Error::Deadlock)) {
                self.note_deadlock(&used, key);
                // Two that have each applied something, and want more than is certain to be left.
                applied = match self.step_back(&used, key) {
                    Ok(()) => self.apply_in(&used, key, &operation, &call.args, false),
                    Err(error) => Err(error),
                };
            }
            let applied = match (applied, self.options.isolation) {
                (Ok(applied), _) => applied,
                // The error tells something of the value, which is to stay so.
                (Err(error @ Error::Operation(_)), Isolation::Serializable) => {
                    self.locks.weaken_since(mark, |_, mode| mode);
                    return Err(error);
                }
                (Err(error), _) => {
                    self.locks.release_since(mark);
                    return Err(error);
                }
            };
            match (applied, self.options.isolation) {
                (Applied::Done, _) => return Ok(applied),
                // A key that it has changed would be locked otherwise: what it was told of it stays so.
                (Applied::Refused(_), isolation) if is_applied || isolation == Isolation::Serializable => {
                    self.snapshot_told = true;
                    self.refusals.push((tree, key.into()));
                    return Ok(applied);
                }
                (_, Isolation::ReadCommitted | Isolation::Snapshot) => {
                    // Nothing was changed, and nothing that was seen needs to stay.
                    self.snapshot_told = true;
                    self.locks.release_since(mark);
                    return Ok(applied);
                }
                (_, Isolation::Serializable) => {
                    // The key must stay absent. A shared lock sees to that, and admits other readers.
                    self.locks.release_since(mark);
                    if self.get_locked(tree, key, RowLock::Share)?.is_none() {
                        return Ok(Applied::Absent);
                    }
                }
            }
        }
    }

    /// Applies an operation to a key of a tree in use. With `takes_turn`, the first operation on the key locks it
    /// exclusively.
    fn apply_in(
        &mut self,
        used: &Used,
        key: &[u8],
        operation: &Arc<Registered>,
        args: &[u8],
        takes_turn: bool,
    ) -> Result<Applied> {
        let is_put = matches!(self.writes.get(used.id, key), Some(Write::Put(_) | Write::Delete));
        let is_read = self.reads.has(used.id, key);
        let is_alone = used.covered() == Covered::Writes || is_put || is_read;
        if is_alone || self.options.exclusive_operations || !op::is_shared(operation.mode) {
            return self.apply_alone(used, key, operation, args);
        }
        let name = LockName::key(KEYS, used.id.0, key);
        let mark = self.locks.mark();
        let is_applied = matches!(self.writes.get(used.id, key), Some(Write::Apply(_)));
        let is_exclusive = match is_applied {
            // Operations stay operations behind an exclusive lock: others under SNAPSHOT need not know of it.
            true => self.locks.held_mode(name).is_some_and(key_mode::is_alone),
            false => takes_turn || self.takes_turn_alone(used, name),
        };
        let mode = if is_exclusive { key_mode::NKU } else { operation.mode };
        let held_count = self.locks.held_count();
        if !self.keeps_what_it_sees() && !self.sees_or_locks(used, key, mode)? {
            return Ok(Applied::Absent);
        }
        self.lock(name, mode)?;
        self.rest_on_key(used.id, key)?;
        let is_first = self.locks.held_count() > held_count;
        if !is_first && self.locks.held_mode(name).is_none_or(|held| held != mode && !is_exclusive) {
            return self.apply_alone(used, key, operation, args);
        }
        // A key that is there stays there, and one that is not stays away.
        let at = self.newest();
        let mut search = match self.writes.written(used.id, key) {
            Some(written) => Search::at(written.place),
            None => self.ahead.search(used.id, key),
        };
        let there = self.stored_at(used.id, used.state.as_deref(), key, at, &mut search)?;
        let place = self.ahead.searched(used.id, key, search);
        if self.options.isolation == Isolation::Snapshot {
            let Some(seen) = self.in_snapshot(used, key)? else { return Ok(Applied::Absent) };
            let seen = self.with_calls(used.id, key, seen)?;
            let claims = operation.operation.claims(args, &seen)?;
            if let Some(refused) = first_refused(&claims) {
                if self.has_moved(used, key)? && self.renew_snapshot()? {
                    return self.apply_in(used, key, operation, args, takes_turn);
                }
                // It has seen that, so others must not have changed it if it writes the key, before or after.
                match is_applied {
                    true => self.observe(used, key).map(|_| ())?,
                    false => self.note_read(used.id, key),
                }
                return Ok(Applied::Refused(refused));
            }
        }
        let Some(there) = there else { return Ok(Applied::Absent) };
        let growth = operation.operation.length(args).growth_bytes();
        let inline_max = access::inline_bytes_max(self.page_size(used), key.len());
        // Behind an exclusive lock the value is known, and nothing is to be claimed. Where a replicator orders
        // commits, the claims are checked again there, and bind no other transaction here.
        let is_asked = is_exclusive || self.observed.is_some();
        let known = if is_asked { Some(self.with_calls(used.id, key, there.clone())?) } else { None };
        let value = known.as_ref().unwrap_or(&there);
        let mut claims = operation.operation.claims(args, value)?;
        if claims.iter().any(|claim| claim.quantity == LENGTH) {
            return Err(Error::Operation(format!("quantity {LENGTH} is the engine's own").into()));
        }
        let demanded = claims.len();
        // What makes it shorter claims nothing, and tells in the end by how much it did.
        if operation.operation.length(args) != Length::Same {
            let max = if growth > 0 { inline_max as i128 } else { i128::MAX };
            let (value, delta) = (value.len() as i128, growth as i128);
            claims.push(Claim { quantity: LENGTH, value, delta, min: i128::MIN, max });
        }
        let refused = match is_asked {
            true => first_refused(&claims),
            false => match self.claim(name, &claims, is_applied, is_first)? {
                Some(refused) => refused,
                // It depends on others, which may want more of it: as if it was nothing that can be shared, it waits until
                // they have ended.
                None => {
                    self.locks.release_since(mark);
                    return self.apply_in(used, key, operation, args, true);
                }
            },
        };
        // What was granted or refused may rest on commits that came meanwhile.
        self.seen = self.seen.max(self.inner().store.last_csn());
        match refused {
            Some(place) if place == demanded => {
                // It has seen nothing, so it gives up the shared lock: others that hold it may want an exclusive one,
                // too.
                if is_first && !is_exclusive {
                    self.locks.release_since(mark);
                }
                return self.apply_alone(used, key, operation, args);
            }
            // It is met in the snapshot.
            Some(place) if self.options.isolation == Isolation::Snapshot => match self.renew_snapshot()? {
                true => return Ok(Applied::Refused(place)),
                false => return Err(self.refuse(Conflict::Write)),
            },
            Some(place) => return Ok(Applied::Refused(place)),
            None => {}
        }
        let value_bytes_max = if growth > 0 { inline_max } else { there.len() };
        // The value may have changed during the wait.
        if self.check_applicable(used, key, there, operation, args).is_err() {
            let there = self.stored(used.id, used.state.as_deref(), key, ReadAt::Newest)?;
            self.check_applicable(used, key, there.ok_or_else(absent)?, operation, args)?;
        }
        self.writes.apply_at(
            used.id,
            key,
            BoundCall { operation: operation.clone(), args: args.into() },
            value_bytes_max,
            place,
        );
        if !is_exclusive && !is_applied && self.options.isolation != Isolation::Serializable {
            self.unobserved.push((used.id, key.into()));
        }
        Ok(Applied::Done)
    }

    /// True if an operation is to lock its key exclusively at once.
    fn takes_turn_alone(&self, used: &Used, name: LockName<'_>) -> bool {
        used.state.as_ref().is_some_and(|state| {
            state.takes_turns() && self.locks.held_mode(name).is_none() && state.take_turn_alone()
        })
    }

    /// Claims something of quantities of a key whose lock is shared. Returns the place of the claim that was refused,
    /// if one was. The first time it neither waits for other transactions nor leaves them too little: the outer option
    /// is none then.
    fn claim(
        &mut self,
        name: LockName<'_>,
        claims: &[Claim],
        is_applied: bool,
        is_first: bool,
    ) -> Result<Option<Option<usize>>> {
        if claims.is_empty() {
            return Ok(Some(None));
        }
        let keeps_refusal = self.options.isolation == Isolation::Serializable || is_applied;
        if is_first {
            return Ok(self.locks.try_claim(name, claims, keeps_refusal));
        }
        let interrupt = self.options.interrupt.clone();
        let options = self.wait_options(interrupt.as_deref());
        self.locks.claim(name, claims, keeps_refusal, &options).map(Some)
    }

    /// Fails if an operation cannot be applied to a value at all. That must be known before the commit.
    fn check_applicable(
        &self,
        used: &Used,
        key: &[u8],
        there: Vec<u8>,
        operation: &Registered,
        args: &[u8],
    ) -> Result<()> {
        let own = self.with_calls(used.id, key, there)?;
        operation.operation.apply(args, &own).map(|_| ())
    }

    /// Applies an operation at once, to a value that no other transaction changes.
    fn apply_alone(
        &mut self,
        used: &Used,
        key: &[u8],
        operation: &Registered,
        args: &[u8],
    ) -> Result<Applied> {
        if used.covered() < Covered::Writes {
            self.lock_alone(used, key)?;
        }
        let there = match self.writes.get(used.id, key) {
            Some(Write::Put(value)) => value.to_vec(),
            Some(Write::Delete) => return Ok(Applied::Absent),
            _ => {
                let at = self.newest();
                let stored = self.stored(used.id, used.state.as_deref(), key, at)?;
                if self.options.isolation == Isolation::Snapshot
                    && used.covered() < Covered::Writes
                    && self.in_snapshot(used, key)?.is_none()
                {
                    return Ok(Applied::Absent);
                }
                self.check_first_committer(used, key)?;
                let Some(stored) = stored else { return Ok(Applied::Absent) };
                self.with_calls(used.id, key, stored)?
            }
        };
        if let Some(refused) = first_refused(&operation.operation.claims(args, &there)?) {
            self.note_read(used.id, key);
            return Ok(Applied::Refused(refused));
        }
        let value = operation.operation.apply(args, &there)?;
        self.check_write(&value)?;
        self.writes.put(used.id, key, Some(&value));
        self.change_soon(used, key, Some(&value))?;
        Ok(Applied::Done)
    }

    /// Returns the value of a key in the snapshot, if it is there. If others have changed it since otherwise than by
    /// operations, the snapshot becomes a newer one; if it cannot, that is a conflict.
    fn in_snapshot(&mut self, used: &Used, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let snapshot = self.tree_snapshot(used)?;
        if let Some(state) = &used.state {
            if state.epochs.last() > snapshot {
                return match self.renew_snapshot()? {
                    true => self.in_snapshot(used, key),
                    false => Err(self.refuse(Conflict::Write)),
                };
            }
            let since = state.versions.since(key, snapshot);
            self.inner().timeline.check_snapshot(snapshot)?;
            match since {
                Since::Nothing | Since::Operations => {}
                Since::Changes { was_there: true } => match self.renew_snapshot()? {
                    true => return self.in_snapshot(used, key),
                    false => return Err(self.refuse(Conflict::Write)),
                },
                Since::Changes { was_there: false } => return Ok(None),
            }
        }
        self.stored(used.id, used.state.as_deref(), key, ReadAt::Snapshot(snapshot))
    }

    /// True if operations of others have changed a key since the snapshot.
    fn has_moved(&mut self, used: &Used, key: &[u8]) -> Result<bool> {
        let snapshot = self.untold_snapshot()?;
        let since = used.state.as_ref().map(|state| state.versions.since(key, snapshot));
        Ok(matches!(since, Some(Since::Operations)))
    }

    /// Applies the operations of this transaction to a value.
    fn with_calls(&self, tree: TreeId, key: &[u8], value: Vec<u8>) -> Result<Vec<u8>> {
        match self.writes.get(tree, key) {
            Some(Write::Apply(calls)) => calls.apply(&value),
            _ => Ok(value),
        }
    }

    /// Applies the operations of this transaction to the value that is stored under a key, if there is one.
    pub(super) fn with_own(
        &self,
        tree: TreeId,
        key: &[u8],
        stored: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        stored.map(|stored| self.with_calls(tree, key, stored)).transpose()
    }

    /// Notes that a key was read, so that operations on it are conflicts from now on.
    pub(super) fn note_read(&mut self, tree: TreeId, key: &[u8]) {
        if self.options.isolation == Isolation::Snapshot && !self.options.read_only {
            self.reads.note(tree, key);
        }
    }

    /// Prepares to read a key that the transaction has applied operations to: from now on no other transaction
    /// changes it. Under SNAPSHOT no other may have changed it since. Under READ COMMITTED it is as if the key had
    /// been locked exclusively from the beginning: a snapshot that is taken later includes all changes of it. Returns
    /// true if the newest value is to be read, since there is no snapshot yet, or the one in use lacks a change.
    pub(super) fn observe(&mut self, used: &Used, key: &[u8]) -> Result<bool> {
        self.note_read(used.id, key);
        if used.covered() < Covered::Writes {
            self.lock_alone(used, key)?;
        }
        self.check_first_committer(used, key)?;
        if self.options.isolation != Isolation::ReadCommitted {
            return Ok(false);
        }
        // Later snapshots include what this was built on.
        self.newest();
        let Some(snapshot) = self.snapshot() else { return Ok(true) };
        let newest = used.state.as_ref().and_then(|state| state.versions.newest(key));
        Ok(newest.is_some_and(|newest| snapshot < newest))
    }

    /// Calls [`Transaction::observe`] for a key in a tree that is scanned.
    pub(super) fn observe_in(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        let used = self.use_tree(tree, tree_mode::IX)?;
        self.observe(&used, key)
    }

    /// Prepares a statement that reads a tree at a snapshot, and has read nothing of it yet. Under READ COMMITTED,
    /// that snapshot must include what others have changed of keys of the tree that this transaction has applied
    /// operations to, or the statement would see a part of what they did: the locks on all such keys, whichever of
    /// them it will read, are converted to exclusive ones. Under SNAPSHOT the same is done while the snapshot may
    /// still be a newer one, which keeps what others have done meanwhile from being a conflict. [`Transaction::scan`]
    /// does the same for its own tree.
    ///
    /// # Errors
    /// Those of locks.
    pub fn observe_tree(&mut self, tree: TreeId) -> Result<()> {
        let is_fixed = match self.options.isolation {
            Isolation::ReadCommitted => self.snapshot().is_some(),
            Isolation::Snapshot => self.snapshot_told,
            Isolation::Serializable => true,
        };
        if is_fixed {
            return Ok(());
        }
        let mut keys: Vec<_> = self.unobserved.extract_if(.., |(of, _)| *of == tree).collect();
        // In one order: two transactions that do the same wait for each other, without a deadlock.
        keys.sort_unstable_by(|(_, a), (_, b)| b.cmp(a));
        let mut observed = Ok(());
        while observed.is_ok()
            && let Some((_, key)) = keys.last()
        {
            if matches!(self.writes.get(tree, key), Some(Write::Apply(_))) {
                observed = self.observe_in(tree, key).map(drop);
            }
            if observed.is_ok() {
                keys.pop();
            }
        }
        // They stay in the list if that fails: the transaction may go on.
        self.unobserved.append(&mut keys);
        observed
    }

    /// Locks a key exclusively, to read or change its value. Its lock may have been shared until now.
    pub(super) fn lock_alone(&mut self, used: &Used, key: &[u8]) -> Result<()> {
        self.lock_again(used, key, key_mode::NKU)
    }

    /// Locks a key whose lock may be shared with other transactions that apply operations to it, and notes a
    /// deadlock.
    pub(super) fn lock_again(&mut self, used: &Used, key: &[u8], mode: Mode) -> Result<()> {
        let name = LockName::key(KEYS, used.id.0, key);
        let locked = self.lock(name, mode);
        if let Err(Error::Deadlock) = locked {
            self.note_deadlock(used, key);
            self.step_back(used, key)?;
            return self.lock(name, mode);
        }
        if let Some(state) = self.state_of_applied(used, key) {
            state.note_needed();
        }
        locked
    }

    /// Steps back after a deadlock about a key that is shared with others: lets them go first, as if this transaction
    /// had applied its operations after them. It has seen nothing of the key but that they may be applied, which must
    /// still be so then.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if it is not, or the deadlock is about something else; then the operations cannot stay.
    /// Under SNAPSHOT the former is [`Error::Serialization`].
    fn step_back(&mut self, used: &Used, key: &[u8]) -> Result<()> {
        let name = LockName::key(KEYS, used.id.0, key);
        let shares = self.locks.held_mode(name).is_some_and(op::is_shared);
        let saw_refusal = self.refusals.iter().any(|(tree, refused)| *tree == used.id && **refused == *key);
        let Some(Write::Apply(calls)) = self.writes.get(used.id, key).filter(|_| shares && !saw_refusal)
        else {
            return Err(Error::Deadlock);
        };
        let calls = calls.clone();
        // Until it has the lock again, nothing keeps what it has applied possible.
        self.doomed = true;
        self.locks.release(name);
        self.lock(name, key_mode::NKU).map_err(|_| Error::Deadlock)?;
        // What it covers may have been done before a savepoint.
        self.locks.keep(name);
        let at = self.newest();
        let now = self.stored(used.id, used.state.as_deref(), key, at)?;
        if now.is_some_and(|now| are_possible(&calls, now)) {
            self.doomed = false;
            return Ok(());
        }
        match self.options.isolation {
            Isolation::Snapshot => Err(self.refuse(Conflict::Write)),
            _ => Err(Error::Deadlock),
        }
    }

    /// Notes a deadlock about a key that the transaction has applied operations to: others like it will do the same.
    fn note_deadlock(&self, used: &Used, key: &[u8]) {
        if let Some(state) = self.state_of_applied(used, key) {
            state.note_deadlock();
        }
    }

    /// The state of a tree, if others could profit from knowing what becomes of an operation that was applied to the
    /// key.
    fn state_of_applied<'u>(&self, used: &'u Used, key: &[u8]) -> Option<&'u TreeState> {
        let is_applied = matches!(self.writes.get(used.id, key), Some(Write::Apply(_)));
        used.state.as_deref().filter(|_| is_applied)
    }

    /// Replaces operations in the write set by the values that they make: the tree is locked as a whole.
    pub(super) fn resolve(&mut self, tree: TreeId) -> Result<()> {
        let state = self.used.iter().find(|used| used.id == tree).and_then(|used| used.state.clone());
        let at = self.newest();
        let bytes_max = self.inner().write_bytes_max;
        let mut writes = std::mem::take(&mut self.writes);
        let resolved = writes.resolve(tree, bytes_max, |key| self.stored(tree, state.as_deref(), key, at));
        self.writes = writes;
        resolved
    }
}

/// True if operations can be applied to a value, one after the other.
fn are_possible(calls: &Calls, mut value: Vec<u8>) -> bool {
    calls.iter().all(|BoundCall { operation, args }| {
        let claims = operation.operation.claims(args, &value);
        let is_met = claims.is_ok_and(|claims| first_refused(&claims).is_none());
        let applied = operation.operation.apply(args, &value);
        is_met && applied.map(|applied| value = applied).is_ok()
    })
}

#[cfg(all(test, not(shuttle)))]
mod tests;

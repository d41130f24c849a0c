//! Advisory locks: those that are tried for, of a session or of a transaction.
//!
//! A guard stands for each time that one was taken, and gives it back when it is dropped: those of a transaction are
//! dropped with it or go back to a savepoint with it, those of a session by `pg_advisory_unlock` and with the session.
//!
//! What it does not do: wait. A lock that is waited for would have to be part of the search for deadlocks, as the locks
//! of the engine are; `pg_advisory_lock` and `pg_advisory_xact_lock` are refused. At a member of a cluster all are:
//! the other members would not see them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gnomon_engine::sync::Mutex;

use crate::{Result, SqlError, SqlState, types::Datum};

/// The most locks that a session, or a transaction, holds at a time.
const HELD_MAX: usize = 100_000;

/// A lock's name: one number, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    One(i64),
    Two(i32, i32),
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

/// The advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    held: Mutex<HashMap<Key, Vec<Holder>>>,
    owners: AtomicU64,
}

struct Holder {
    owner: u64,
    mode: Mode,
    count: usize,
}

impl AdvisoryLocks {
    /// A number that tells a session from all others.
    pub(crate) fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a lock, unless another session holds it in a mode that excludes this one.
    fn take(self: &Arc<Self>, owner: u64, key: Key, mode: Mode) -> Option<Guard> {
        let mut held = self.held.lock();
        let holders = held.entry(key).or_default();
        let excludes = |holder: &Holder| holder.mode == Mode::Exclusive || mode == Mode::Exclusive;
        if holders.iter().any(|holder| holder.owner != owner && excludes(holder)) {
            return None;
        }
        match holders.iter_mut().find(|holder| holder.owner == owner && holder.mode == mode) {
            Some(holder) => holder.count += 1,
            None => holders.push(Holder { owner, mode, count: 1 }),
        }
        Some(Guard { locks: self.clone(), owner, key, mode })
    }

    fn give_back(&self, owner: u64, key: Key, mode: Mode) {
        let mut held = self.held.lock();
        let Some(holders) = held.get_mut(&key) else { return };
        if let Some(at) = holders.iter().position(|holder| holder.owner == owner && holder.mode == mode) {
            holders[at].count -= 1;
            if holders[at].count == 0 {
                holders.swap_remove(at);
            }
        }
        if holders.is_empty() {
            held.remove(&key);
        }
    }
}

/// One taking of a lock, which ends when this is dropped.
pub(crate) struct Guard {
    locks: Arc<AdvisoryLocks>,
    owner: u64,
    key: Key,
    mode: Mode,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.locks.give_back(self.owner, self.key, self.mode);
    }
}

/// The locks that a statement's session and transaction hold.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) of_session: Vec<Guard>,
    pub(crate) of_transaction: Vec<Guard>,
}

/// Runs a function of advisory locks; none if it is another one.
pub(crate) fn call(
    locks: &Arc<AdvisoryLocks>,
    owner: u64,
    held: &mut Held,
    function: &str,
    arguments: &[Datum],
) -> Option<Result<Datum>> {
    let (name, mode) = match function.strip_suffix("_shared") {
        Some(name) => (name, Mode::Shared),
        None => (function, Mode::Exclusive),
    };
    let key = match *arguments {
        [Datum::Int8(key)] => Some(Key::One(key)),
        [Datum::Int4(first), Datum::Int4(second)] => Some(Key::Two(first, second)),
        _ => None,
    };
    Some(match (name, key) {
        ("pg_try_advisory_lock", Some(key)) => take(locks, owner, &mut held.of_session, key, mode),
        ("pg_try_advisory_xact_lock", Some(key)) => take(locks, owner, &mut held.of_transaction, key, mode),
        ("pg_advisory_unlock", Some(key)) => {
            let at = held.of_session.iter().rposition(|guard| guard.key == key && guard.mode == mode);
            at.map(|at| held.of_session.remove(at));
            Ok(Datum::Bool(at.is_some()))
        }
        ("pg_advisory_unlock_all", None) => {
            held.of_session.clear();
            Ok(Datum::text(""))
        }
        _ => return None,
    })
}

fn take(
    locks: &Arc<AdvisoryLocks>,
    owner: u64,
    guards: &mut Vec<Guard>,
    key: Key,
    mode: Mode,
) -> Result<Datum> {
    if guards.len() >= HELD_MAX {
        return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory")
            .detail(format!("A session cannot hold more than {HELD_MAX} advisory locks.")));
    }
    let taken = locks.take(owner, key, mode);
    let is_taken = taken.is_some();
    guards.extend(taken);
    Ok(Datum::Bool(is_taken))
}

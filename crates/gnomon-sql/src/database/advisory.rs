//! Advisory locks, of a session or of a transaction, tried for or waited for.
//!
//! A guard stands for each time that one was taken, and gives it back when it is dropped: those of a transaction are
//! dropped with it or go back to a savepoint with it, those of a session by `pg_advisory_unlock` and with the session.
//!
//! A queue is fair: a request is granted when no holder excludes it and none of those ahead of it, unless its session
//! holds what they wait for. A request that waits looks itself for deadlocks, over the sessions that wait for advisory
//! locks and those that wait for locks of the engine: of each cycle that the engine cannot see, one session at least
//! waits here. The session that finds a deadlock is its victim. The table's mutex comes before those of the registry and
//! of the engine's locks.
//!
//! What it does not do: see other members of a cluster. At a member all are refused.

use gnomon_engine::{Interrupt, sync::Arc};

use crate::{
    Result, SqlError, SqlState, database::Shared, error::Severity, settings::Settings, types::Datum,
};

mod table;

use table::Mode;
use table::Patience;
pub(crate) use table::{AdvisoryLocks, Guard, Key, Owner};

/// The most locks that a session, or a transaction, holds at a time.
const HELD_MAX: usize = 100_000;

/// The locks that a statement's session and transaction hold.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) of_session: Vec<Guard>,
    pub(crate) of_transaction: Vec<Guard>,
}

/// The session that calls a function.
pub(crate) struct Caller<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) owner: Owner,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) settings: &'a Settings,
}

/// The result of a function of advisory locks.
pub(crate) struct Called {
    pub(crate) value: Datum,
    /// True if locks of the session changed, which no rollback undoes.
    pub(crate) is_lasting: bool,
    pub(crate) warning: Option<SqlError>,
}

/// Runs a function of advisory locks; none if it is another one.
pub(crate) fn call(
    caller: &Caller<'_>,
    held: &mut Held,
    function: &str,
    arguments: &[Datum],
) -> Option<Result<Called>> {
    let (name, mode) = match function.strip_suffix("_shared") {
        Some(name) => (name, Mode::Shared),
        None => (function, Mode::Exclusive),
    };
    let key = match *arguments {
        [Datum::Int8(key)] => Some(Key::One(key)),
        [Datum::Int4(first), Datum::Int4(second)] => Some(Key::Two(first, second)),
        _ => None,
    };
    let is_lasting = !name.contains("_xact_");
    let done = |value| Called { value, is_lasting, warning: None };
    Some(match (name, key) {
        ("pg_try_advisory_lock", Some(key)) => try_take(caller, &mut held.of_session, key, mode).map(done),
        ("pg_try_advisory_xact_lock", Some(key)) => {
            try_take(caller, &mut held.of_transaction, key, mode).map(done)
        }
        ("pg_advisory_lock", Some(key)) => take(caller, &mut held.of_session, key, mode).map(done),
        ("pg_advisory_xact_lock", Some(key)) => take(caller, &mut held.of_transaction, key, mode).map(done),
        ("pg_advisory_unlock", Some(key)) => Ok(unlock(held, key, mode)),
        ("pg_advisory_unlock_all", None) => {
            held.of_session.clear();
            Ok(done(Datum::text("")))
        }
        _ => return None,
    })
}

fn try_take(caller: &Caller<'_>, guards: &mut Vec<Guard>, key: Key, mode: Mode) -> Result<Datum> {
    check_room(guards)?;
    let taken = caller.shared.advisory.try_take(caller.owner, key, mode);
    let is_taken = taken.is_some();
    guards.extend(taken);
    Ok(Datum::Bool(is_taken))
}

fn take(caller: &Caller<'_>, guards: &mut Vec<Guard>, key: Key, mode: Mode) -> Result<Datum> {
    check_room(guards)?;
    let patience = Patience {
        interrupt: caller.interrupt,
        timeout: caller.settings.lock_timeout(),
        deadlock_after: caller.settings.deadlock_timeout(),
    };
    guards.push(caller.shared.advisory.take(caller.shared, caller.owner, (key, mode), &patience)?);
    Ok(Datum::text(""))
}

fn unlock(held: &mut Held, key: Key, mode: Mode) -> Called {
    let at = held.of_session.iter().rposition(|guard| guard.key == key && guard.mode == mode);
    at.map(|at| held.of_session.remove(at));
    let warning = || {
        let message = format!("you don't own a lock of type {}", mode.name());
        SqlError::new(SqlState::WARNING, message).severity(Severity::Warning)
    };
    Called { value: Datum::Bool(at.is_some()), is_lasting: true, warning: at.is_none().then(warning) }
}

fn check_room(guards: &[Guard]) -> Result<()> {
    if guards.len() < HELD_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory")
        .detail(format!("A session cannot hold more than {HELD_MAX} advisory locks.")))
}

//! Sessions that wait for others: `pg_blocking_pids` and its like.

use super::{Activity, AdvisoryLock, System};
use crate::types::{Datum, Scalar};

/// PostgreSQL's name of the lock mode that conflicts with every other use.
const EXCLUSIVE: &str = "ExclusiveLock";
/// The number that PostgreSQL has in place of the session of a prepared transaction.
const PREPARED: i32 = 0;

/// Runs a function; none if it is not one of them.
pub(super) fn waiting_function(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Datum> {
    Some(match (function, arguments) {
        ("pg_blocking_pids", [Datum::Int4(process)]) => pids(&blocking(system, *process)),
        // No transaction waits for a safe snapshot.
        ("pg_safe_snapshot_blocking_pids", [Datum::Int4(_)]) => pids(&[]),
        ("pg_isolation_test_session_is_blocked", [Datum::Int4(process), Datum::Array(_, others)]) => {
            let others: Vec<i64> = others.iter().filter_map(Datum::as_i64).collect();
            let blocking = blocking(system, *process);
            Datum::Bool(blocking.iter().any(|process| others.contains(&i64::from(*process))))
        }
        _ => return None,
    })
}

/// The sessions that a session waits for now.
fn blocking(system: System<'_>, process: i32) -> Vec<i32> {
    let activities = system.state.activities();
    let waiting = activities.iter().filter(|one| one.process_id == process).filter_map(|one| one.transaction);
    let process_of = |transaction: u64| {
        let of = |one: &&Activity| one.transaction == Some(transaction);
        activities.iter().find(of).map_or(PREPARED, |one| one.process_id)
    };
    let blockers = waiting.flat_map(|transaction| system.state.lock_blockers(transaction)).map(process_of);
    let mut all: Vec<i32> = blockers.chain(blocking_advisory(system, process)).collect();
    all.retain(|blocker| *blocker != process);
    all.sort_unstable();
    all.dedup();
    all
}

/// The sessions whose advisory locks a session waits for.
fn blocking_advisory(system: System<'_>, process: i32) -> Vec<i32> {
    let locks = system.state.advisory_locks();
    let wanted: Vec<&AdvisoryLock> =
        locks.iter().filter(|lock| lock.process_id == process && !lock.is_granted).collect();
    let blocks = |lock: &&AdvisoryLock| {
        wanted.iter().any(|wanted| {
            let conflicts = lock.mode == EXCLUSIVE || wanted.mode == EXCLUSIVE;
            lock.is_granted && lock.key == wanted.key && conflicts
        })
    };
    locks.iter().filter(blocks).map(|lock| lock.process_id).collect()
}

fn pids(processes: &[i32]) -> Datum {
    Datum::Array(Scalar::Int4, processes.iter().copied().map(Datum::Int4).collect())
}

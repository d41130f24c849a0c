//! Transactions whose commits others order, as in a member of a cluster: what they tell before and instead of a commit.
//!
//! SERIALIZABLE runs on a snapshot here, and is made serializable by what it has read.

use super::{core::Core, observed::Observed, options::Isolation};
use crate::{Csn, Error, Result};

/// Makes a new transaction note what it rests on, if others order commits.
pub(super) fn observe_for_others(core: &mut Core) {
    if core.inner().replicator().is_none() {
        return;
    }
    let is_serializable = core.options.isolation == Isolation::Serializable;
    if is_serializable {
        core.options.isolation = Isolation::Snapshot;
    }
    core.writes.keep_claims();
    core.observed = Some(Box::new(Observed::new(is_serializable)));
}

/// Before another statement: tells what those before it rest on, so that a transaction that cannot commit any more
/// does not go on. One of a single statement tells nothing.
pub(super) fn tell_statements(core: &mut Core) -> Result<()> {
    let snapshot = core.snapshot;
    let Some(observed) = &mut core.observed else { return Ok(()) };
    let Some(replicator) = core.handle.inner.replicator() else { return Ok(()) };
    observed.tell(&**replicator, core.id, core.options.isolation, snapshot, &core.writes)
}

/// Hands the transaction over, if it has changed something or was told of, and returns when its changes are applied
/// in their place. None if it is to end as any other that has changed nothing.
pub(super) fn hand_over(core: &mut Core) -> Result<Option<Csn>> {
    if core.observed.is_none() {
        return Ok(None);
    }
    core.check_committable()?;
    let handle = core.handle.clone();
    let is_begun = core.observed.as_ref().is_some_and(|observed| observed.is_begun);
    let Some(replicator) = handle.inner.replicator().filter(|_| is_begun || !core.writes.is_empty()) else {
        // It may have been refused for something, but it went back and commits.
        core.observed = None;
        return Ok(None);
    };
    if core.has_pages() {
        return Err(Error::TransactionTooLarge);
    }
    let snapshot = match core.options.isolation {
        Isolation::ReadCommitted => None,
        _ => Some(core.statement_snapshot()?),
    };
    core.release_snapshot();
    // From here on the transaction is at its end, whatever the outcome, and is not to be reported as abandoned.
    // Its locks are released when it is dropped.
    let Some(observed) = core.observed.take() else { return Ok(None) };
    let mut writes = std::mem::take(&mut core.writes);
    writes.forget_marks();
    let request = observed.request(core.id, core.options.isolation, snapshot, &core.used, &writes);
    drop(writes);
    let interrupt = core.options.interrupt.clone();
    replicator.commit(request, interrupt.as_deref()).map(Some)
}

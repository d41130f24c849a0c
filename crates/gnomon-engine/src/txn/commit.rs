//! Commit: a transaction is ordered and applied, and its locks are released. A [`Ticket`] stands for what remains, to
//! become durable.

use super::{core::Core, large, ordering, ticket::Ticket};
use crate::{Result, failpoint::Failpoint, recovery::Commit};

/// Orders and applies the transaction and releases its locks. Returns its commit ticket.
pub(super) fn finish(mut core: Core) -> Result<Ticket> {
    let handle = core.handle.clone();
    if let Some(csn) = ordering::hand_over(&mut core)? {
        return Ok(Ticket::new(handle, csn));
    }
    core.release_snapshot();
    core.check_committable()?;
    let pages = large::finish_large(&mut core)?;
    if core.writes.is_empty() && pages.is_none() {
        return Ok(match core.observed.is_some() {
            true => Ticket::of_reader(handle, core.seen),
            false => Ticket::new(handle, core.seen),
        });
    }
    let mut writes = std::mem::take(&mut core.writes);
    writes.know(core.used.iter().map(|used| (used.id, used.state.as_ref())));
    let inner = &handle.inner;
    let dropped = writes.trees().any(|(_, tree)| tree.dropped && !tree.created);
    // The pages of trees that were to be made go as those of dropped ones do.
    let leaves_trees = inner.properties.in_place && (dropped || writes.trees().any(|(_, tree)| tree.created));
    let changed = writes.keys();
    if inner.store.failpoints().is_on(Failpoint::LocksBeforeApply) {
        core.locks.release_committed();
    }
    let committed = inner.method.commit(
        &inner.keyspace,
        Commit {
            txn: core.id,
            state: &mut core.state,
            writes,
            pages,
            command: core.command.as_ref(),
            by_value: core.by_value,
        },
    );
    if committed.is_err() && leaves_trees {
        handle.host.reclaim();
    }
    let (csn, grown) = committed?;
    grown.settle(&mut core.locks);
    core.release(true);
    inner.forget_after(changed);
    if dropped {
        handle.host.reclaim();
    }
    Ok(Ticket::new(handle, csn))
}

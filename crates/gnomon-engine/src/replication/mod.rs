//! Commits of a database that is a member of a cluster: a [`Replicator`] orders them, and has to know what they rest
//! on.
//!
//! Promises: in a database that has a [`Replicator`], no transaction changes anything by itself. What it has written,
//! what that rests on and, if that matters, what it has read is handed over when it commits; the changes come back, in
//! their place among those of all members, by [`Database::apply_replicated`](crate::Database::apply_replicated), and
//! are the same everywhere. A transaction runs as ever until then: its locks and its reads are those of this database.
//!
//! How: the transaction notes, of each key that a transaction locks, the newest commit before it looks at the key.
//! Changes are applied without locks, since running transactions may hold locks for long. A transaction that rests on
//! something that has changed is refused at its turn in the order, by the versions that it names. So locks keep
//! transactions of one member apart, as far as that helps them, and the order keeps apart all others.
//!
//! SERIALIZABLE runs on a snapshot here, and is made serializable by what it has read. Operations claim nothing:
//! their bounds are asked when they are applied, in the order, where nothing else is applied beside them.
//!
//! Not here: the order, and the decision which transactions are refused. Transactions on pages of their own, serial
//! execution, two-phase commit, logs of pages.

use crate::{
    Csn, Error, Result, TreeId,
    access::Key,
    lock::first_refused,
    mvcc::Keyspace,
    op::BoundCall,
    procedure::{Procedures, run_call},
    recovery::{Commit, TxnState, decode_writes, encode_writes},
    sync::Arc,
    txn::{Handle, Ticket},
    write_set::{TreeWrites, Write, WriteSet},
};

pub use crate::txn::{Abandoned, CommitRequest, Note, Replicator, Touch, Touching};

/// The changes of a transaction in their place in the order of all members.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'a> {
    /// The trees that they change.
    pub trees: &'a [TreeId],
    /// The changes: [`CommitRequest::changes`].
    pub changes: &'a [u8],
    /// The row that is left beside them.
    pub mark: Mark<'a>,
}

/// The result of a call that has run in its place in the order. Nothing has changed yet.
#[derive(Clone, Debug)]
pub struct Called {
    /// The name of the procedure.
    pub procedure: String,
    /// The keys that it writes, as in [`CommitRequest::touched`].
    pub touched: Vec<Touch>,
    /// Its changes for [`Database::apply_replicated`](crate::Database::apply_replicated), which is not called if the
    /// answer is an error.
    pub changes: Vec<u8>,
    /// Its answer, at all members.
    pub answer: Result<Vec<u8>>,
}

/// A row that an applied commit leaves beside its own, so that what was applied can be told.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Its tree.
    pub tree: TreeId,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// The key of one that is not needed any more, which goes.
    pub forgets: Option<&'a [u8]>,
}

/// Runs a call in its place in the order of all members, alone.
///
/// # Errors
/// As [`Database::run_replicated`](crate::Database::run_replicated).
pub(crate) fn run(handle: &Arc<Handle>, procedures: &Procedures, call: &[u8]) -> Result<Called> {
    handle.inner.check_open()?;
    let (procedure, txn, answer) = run_call(handle, procedures, call)?;
    let writes = match answer {
        Ok(_) => txn.into_writes(),
        Err(_) => WriteSet::default(),
    };
    let touch =
        |tree, key: &[u8]| Touch { tree, key: Some(key.into()), how: Touching::Writes, based_on: Csn(0) };
    let of_tree = |(tree, writes): (TreeId, &TreeWrites)| {
        writes.entries().map(|(key, _)| touch(tree, key)).collect::<Vec<_>>()
    };
    let touched = writes.trees().flat_map(of_tree).collect();
    Ok(Called { procedure, touched, changes: encode_writes(&writes), answer })
}

/// Applies changes in their place in the order of all members, and their mark with them.
///
/// # Errors
/// As [`Database::apply_replicated`](crate::Database::apply_replicated).
pub(crate) fn apply(
    handle: &Arc<Handle>,
    &Ordered { changes, mark, .. }: &Ordered<'_>,
) -> Result<Option<Ticket>> {
    let inner = &handle.inner;
    inner.check_open()?;
    let damaged = |what: &str| Error::Corrupt {
        file: "the changes of another member".into(),
        page: 0,
        detail: what.into(),
    };
    let mut writes = decode_writes(changes, &inner.operations, damaged)?;
    if !resolve(inner, &mut writes)? {
        return Ok(None);
    }
    writes.put(mark.tree, mark.key, Some(mark.value));
    if let Some(forgotten) = mark.forgets {
        writes.put(mark.tree, forgotten, None);
    }
    for (tree, writes) in writes.trees().filter(|(_, writes)| writes.created) {
        debug_assert!(!writes.dropped);
        inner.pass_tree_id(tree);
    }
    let dropped = writes.trees().any(|(_, writes)| writes.dropped);
    let changed = writes.keys();
    let commit = Commit {
        txn: inner.new_txn_id(),
        state: &mut TxnState::default(),
        writes,
        pages: None,
        command: None,
        by_value: true,
    };
    let (csn, _) = inner.method.commit(&inner.keyspace, commit)?;
    inner.forget_after(changed);
    if dropped {
        handle.host.reclaim();
    }
    Ok(Some(Ticket::new(handle.clone(), csn)))
}

/// Asks the conditions of operations, whose keys no other commit changes now, and does those at once that may change
/// the length of a value. True if all conditions are met.
fn resolve(keyspace: &Keyspace, writes: &mut WriteSet) -> Result<bool> {
    let mut puts: Vec<(TreeId, Key, Vec<u8>)> = Vec::new();
    for (tree, of_tree) in writes.trees() {
        if of_tree.created || of_tree.dropped {
            continue;
        }
        for (key, write) in of_tree.entries() {
            let Write::Apply(calls) = write else { continue };
            let Some(mut value) = keyspace.tree(tree)?.tree.get(&keyspace.store, key)? else {
                return Ok(false);
            };
            for BoundCall { operation, args } in calls.iter() {
                let claims = operation.operation.claims(args, &value)?;
                if first_refused(&claims).is_some() {
                    return Ok(false);
                }
                value = operation.operation.apply(args, &value)?;
            }
            if !calls.keep_length() {
                puts.push((tree, key.into(), value));
            }
        }
    }
    puts.into_iter().for_each(|(tree, key, value)| writes.put(tree, &key, Some(&value)));
    Ok(true)
}

#[cfg(all(test, not(shuttle)))]
mod tests;

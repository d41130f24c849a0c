//! The interface to the component that orders the commits of a member of a cluster: what a transaction tells it.

use std::time::Duration;

use super::options::Isolation;
use crate::{Conflict, Csn, Result, TreeId, TxnId, access::KeyRange, lock::Interrupt};

/// The component that orders the commits of a member.
pub trait Replicator: Send + Sync {
    /// Tells that a transaction that accepts to have missed so many commits
    /// ([`TxnOptions::missed_max`](crate::TxnOptions)) has taken its snapshot.
    fn begin(&self, txn: TxnId, missed_max: u32, snapshot: Csn);

    /// Tells what the statements of a transaction rest on so far, before it goes on with another one.
    ///
    /// # Errors
    /// [`Error::Serialization`](crate::Error::Serialization) if it cannot commit any more.
    fn note(&self, note: Note) -> Result<()>;

    /// Orders a commit, and returns its place here when it is applied. Called for transactions that have written
    /// something, and for those that were told of by [`Replicator::begin`] or [`Replicator::note`].
    ///
    /// # Errors
    /// [`Error::Serialization`](crate::Error::Serialization) if it cannot commit in its place, and
    /// [`Error::Apart`](crate::Error::Apart) if it has not come to one: then nothing of it is there.
    /// [`Error::Unresolved`](crate::Error::Unresolved) if this member cannot tell what became of it, because it has
    /// stopped, or because the wait was interrupted.
    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn>;

    /// Orders a call of a procedure, which each member runs in its place there
    /// ([`Database::run_replicated`](crate::Database::run_replicated)). Returns that place here with the call's answer,
    /// which may be its own error.
    ///
    /// # Errors
    /// [`Error::Serialization`](crate::Error::Serialization) and [`Error::Apart`](crate::Error::Apart) if it has not
    /// run, [`Error::Unresolved`](crate::Error::Unresolved) if this member cannot tell.
    fn call(&self, call: Vec<u8>) -> Result<(Csn, Result<Vec<u8>>)>;

    /// Tells that a transaction ends without a commit that was told of by [`Replicator::begin`] or
    /// [`Replicator::note`], or that was refused here before it could ask.
    fn abandon(&self, abandoned: Abandoned);

    /// Waits until this member has all that was ordered up to so long ago, and returns the newest commit of that.
    ///
    /// # Errors
    /// [`Error::Apart`](crate::Error::Apart) if it does not get it, and
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn>;
}

/// The reads and keys that statements of a transaction rest on, as far as they were not told before.
#[derive(Clone, Debug)]
pub struct Note {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// As in [`CommitRequest::snapshot`].
    pub snapshot: Option<Csn>,
    /// As in [`CommitRequest::touched`].
    pub touched: Vec<Touch>,
    /// As in [`CommitRequest::reads`].
    pub reads: Vec<(TreeId, KeyRange)>,
}

/// A transaction that asks to commit.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Its snapshot: it has read all commits up to here, and none behind. None under READ COMMITTED.
    pub snapshot: Option<Csn>,
    /// The keys and trees that must be as they were.
    pub touched: Vec<Touch>,
    /// The ranges that it has read, if that is noted: for serializable ones and those that may not have missed much.
    pub reads: Vec<(TreeId, KeyRange)>,
    /// Its changes, for [`Database::apply_replicated`](crate::Database::apply_replicated); empty if there are none.
    pub changes: Vec<u8>,
}

/// A transaction that has not asked to commit, and does not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Number of commits that it accepts to have missed, if that is bounded.
    pub missed_max: Option<u32>,
    /// The conflict that has kept it here from going on, if there was one.
    pub refused: Option<Conflict>,
}

/// A key, or a whole tree, on which a commit rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The tree.
    pub tree: TreeId,
    /// The key; none is all keys.
    pub key: Option<Box<[u8]>>,
    /// The way in which the commit uses it.
    pub how: Touching,
    /// The newest commit that it counts on; later changes contradict it.
    pub based_on: Csn,
}

/// The way in which a transaction uses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touching {
    /// It has locked it.
    Locks,
    /// It applies operations of a kind, which commute with others of the kind and have seen nothing.
    Applies(u32),
    /// It writes it.
    Writes,
}

//! The protocol of replication, without I/O: entries of a total order in, actions out.
//!
//! Every member of a cluster has all data and runs transactions against its own copy. What a transaction wants to
//! change comes to all members in one order; each decides by itself, and all alike, whether it commits there
//! (certification). So there is no vote and no lock between members, and each transaction picks how much it wants to be
//! sure of ([`Level`]).
//!
//! - [`Replica`]: the protocol that is used; [`PaperReplica`]: K-Bound as its paper has it (Salinas, Muñoz-Escoí 2008,
//!   Figure 1), to measure against; both are a [`Protocol`];
//! - [`Touched`], [`ReadSet`]: what transactions touch; [`Window`]: what they are certified against.
//!
//! Promises, of [`Replica`] (those of the paper's are weaker, and stand there):
//!
//! 1. All members commit the same transactions in the same order, whatever else happens to them.
//! 2. A transaction with [`Level::Snapshot`] or a stricter one has read one snapshot, and no other has changed what it
//!    changes between that and its commit.
//! 3. One with [`Level::KBound`] has, of what it read, missed at most k commits that were ordered before it began.
//! 4. One with [`Level::Serializable`] that changes something has read what was there when it committed, ranges
//!    included, so such transactions are as if they ran one after another in the order of commits.
//! 5. One with [`Level::ReadCommitted`] has based each row that it changes on the newest version of that row. So no
//!    change of a row is lost that a statement has seen, and indexes remain those of their rows.
//!
//! Not done here: I/O and time, batches of entries and whether they come twice ([`order`](crate::order)), data.

use std::fmt;

use gnomon_engine::Conflict;

mod footprint;
mod paper;
mod replica;
mod window;

pub use footprint::{Access, Key, Range, ReadSet, Table, Touched, Version};
pub use paper::PaperReplica;
pub use replica::{Replica, Settings};
pub use window::Window;

/// A member of the cluster in one of its lives. One that comes back gets a new number, and numbers are not used
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u64);

/// A transaction: the member at which it runs, and a number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnName {
    /// Its delegate.
    pub member: Member,
    /// Its number there.
    pub number: u64,
}

/// A place in the total order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Of the append: it grows, and leaves numbers out.
    pub revision: u64,
    /// Among the entries of one append, from 0.
    pub index: u32,
}

/// The level at which a transaction is isolated from those of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Generalized read committed (GRC): each statement has a snapshot of its own.
    ReadCommitted,
    /// Generalized snapshot isolation (GSI): one snapshot, that of the member, which may be behind.
    Snapshot,
    /// Snapshot isolation whose snapshot has missed at most so many commits of what is read (k-bound). 0 is strict
    /// snapshot isolation (SSI).
    KBound(u32),
    /// Serializable (SER).
    Serializable,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::ReadCommitted => f.write_str("GRC"),
            Level::Snapshot => f.write_str("GSI"),
            Level::KBound(0) => f.write_str("SSI"),
            Level::KBound(k) => write!(f, "{k}-bound"),
            Level::Serializable => f.write_str("SER"),
        }
    }
}

/// The request of a transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction that asks.
    pub txn: TxnName,
    /// The level at which it is isolated.
    pub level: Level,
    /// Its snapshot: the last commit that it could see from its beginning on.
    pub start: Version,
    /// The rows that it changes or must have unchanged.
    pub touched: Vec<Touched>,
    /// Its read set, if that is certified everywhere.
    pub reads: ReadSet,
    /// The changes, as the members' databases understand them.
    pub changes: Vec<u8>,
}

/// An entry of the total order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A transaction has begun ("T.ID"): the commits before it are those that it should see.
    Begin(TxnName),
    /// A transaction asks to commit.
    Commit(Commit),
    /// The decision on a transaction that its delegate alone can make (weak voting): true if it commits.
    Decision(TxnName, bool),
    /// A procedure, which each member runs in its place in the order.
    Call(TxnName, Vec<u8>),
    /// A checksum of what a call has done where its client was answered; all must have the same.
    Digest(TxnName, u32),
    /// A member is gone, and what it has not decided is decided: it does not commit.
    Gone(Member),
}

impl Entry {
    /// Bytes of what takes much space: its changes or parameters.
    pub fn bytes(&self) -> usize {
        match self {
            Entry::Commit(commit) => commit.changes.len(),
            Entry::Call(_, procedure) => procedure.len(),
            Entry::Begin(_) | Entry::Decision(..) | Entry::Digest(..) | Entry::Gone(_) => 0,
        }
    }

    /// The member whose transaction it is about.
    pub fn member(&self) -> Member {
        match self {
            Entry::Begin(txn) | Entry::Decision(txn, _) | Entry::Call(txn, _) | Entry::Digest(txn, _) => {
                txn.member
            }
            Entry::Commit(commit) => commit.txn.member,
            Entry::Gone(member) => *member,
        }
    }
}

/// The reason why a transaction does not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It conflicts with others, and can be run again.
    Conflict(Conflict),
    /// It was a call of a procedure, which has failed by itself.
    Failed,
}

impl Reason {
    /// As a word of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Conflict(conflict) => conflict.name(),
            Reason::Failed => "failed",
        }
    }
}

impl From<Conflict> for Reason {
    fn from(conflict: Conflict) -> Reason {
        Reason::Conflict(conflict)
    }
}

/// An action that the state machine wants of its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have an entry ordered. Entries keep the order in which they are given.
    Append(Entry),
    /// Tell all members of a decision, reliably and in no order. Only the paper's protocol does that.
    Broadcast(TxnName, bool),
    /// Change the data by this commit, and answer [`Protocol::applied`]. One at a time.
    Apply(Apply),
    /// Compare what a call has done with its checksum where its client was answered.
    Compare(TxnName, u32),
    /// A transaction of this member is at its end: it does not commit.
    Refuse(u64, Reason),
    /// A transaction of this member has committed with this version; one that changed nothing, after it.
    Committed(u64, Version),
    /// A transaction of this member is to be run again from its beginning, by a new snapshot, without its client being
    /// told. Only the paper's protocol does that.
    Restart(u64),
    /// The others hold this member for gone: it must stop, and join anew.
    Fenced,
}

/// A commit to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// The commit that it will be, if it is possible.
    pub version: Version,
    /// Its position in the order.
    pub position: Position,
    /// Its transaction.
    pub txn: TxnName,
    /// The changes, or the procedure to run.
    pub work: Work,
}

/// The work that applies a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Changes, and the rows that they touch.
    Changes(Vec<Touched>, Vec<u8>),
    /// A procedure.
    Call(Vec<u8>),
}

/// The result of [`Action::Apply`], which must be the same at all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, and has touched these rows, if they were not told before: those of a procedure.
    Committed(Vec<Touched>),
    /// It was not possible for this reason, and nothing has changed.
    Refused(Reason),
}

/// A member's part in the replication, as a state machine. All that it wants done goes into `out`, in an order that is to
/// be kept.
///
/// A transaction of this member begins, takes notes of what it does, asks to commit, and is at its end when `out` says
/// so, or when it is abandoned. Entries of the order are delivered one after another, each once.
pub trait Protocol {
    /// A transaction begins with the snapshot `start`. `declared`: what it will read, if that is known.
    fn begin(&mut self, number: u64, level: Level, start: Version, declared: ReadSet, out: &mut Vec<Action>);

    /// A transaction has touched rows and read some more.
    fn note(&mut self, number: u64, touched: Vec<Touched>, reads: ReadSet, out: &mut Vec<Action>);

    /// A transaction asks to commit these changes; none if there are none.
    fn request(&mut self, number: u64, changes: Vec<u8>, out: &mut Vec<Action>);

    /// A procedure is to run everywhere.
    fn call(&mut self, number: u64, procedure: Vec<u8>, out: &mut Vec<Action>);

    /// A transaction ends without a commit, by its client's wish.
    fn abandon(&mut self, number: u64);

    /// The next entry of the order.
    fn deliver(&mut self, position: Position, entry: Entry, out: &mut Vec<Action>);

    /// Takes a decision that was broadcast.
    fn decided(&mut self, txn: TxnName, commits: bool, out: &mut Vec<Action>);

    /// Takes the result of the last [`Action::Apply`].
    fn applied(&mut self, outcome: Outcome, out: &mut Vec<Action>);

    /// The last commit that is applied: the snapshot of transactions that begin now.
    fn version(&self) -> Version;
}

//! The ordered log: entries of all members in one order, which each of them follows.
//!
//! - [`OrderedLog`]: what a member asks of such a log;
//! - [`Ledger`]: what it does, as plain data: the simulated log is one behind a network;
//! - [`MemoryLog`]: one behind a mutex, for members in one process;
//! - [`EtcdLog`]: the log in etcd, which does the same as a ledger; `encoding`: batches as they stand there;
//! - [`Sender`]: a member's side of appending: batches, and asking again when an answer was lost.
//!
//! Promises: each entry that was given to a [`Sender`] stands in the order at most once, and those of a member in the
//! order in which they were given, whatever messages are lost, delayed or repeated. Behind [`Entry::Gone`] no entry of
//! that member follows. A follower from a revision gets all that is behind it, or an error. What something else than
//! a member has put into the log is [`Foreign`] for all that follow it, and no entry for any of them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::protocol::{Entry, Member, Position};

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod encoding;
mod etcd;
mod ledger;
mod memory;
mod sender;

pub use etcd::{EtcdAccess, EtcdLog, EtcdOptions, LocalEtcd};
pub use ledger::{Ledger, MemberInfo};
pub use memory::MemoryLog;
pub use sender::{Batch, Sender};

/// The reason why the log refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A member of this name is there.
    #[error("a member '{0}' is in the cluster: stop that one, or give this one another name")]
    NameInUse(String),
    /// The log holds the member for gone.
    #[error("the others hold this member for gone: it joins anew")]
    Fenced,
    /// A batch is not the next one of its member.
    #[error("a batch is not the next one of its member, which is number {expected}")]
    OutOfSequence {
        /// The number of the next one.
        expected: u64,
    },
    /// The requested entries are not kept any more.
    #[error(
        "what was ordered before revision {from} is not kept any more: start with an empty directory, for a copy of \
         what a member has"
    )]
    Trimmed {
        /// The first revision that can be followed from.
        from: u64,
    },
}

/// The reason why a call of the log has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The log has answered.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The log was not reached, or has not answered in time: whether it did what it was asked to is not known. The same
    /// call can be made again.
    #[error("the log of the cluster cannot be reached: {0}")]
    Unreachable(String),
    /// The log has no space left. Whether it did what it was asked to is not known. The same call can be made again.
    #[error("the log of the cluster is full: {0}")]
    Full(String),
    /// The log there is not that of this cluster, or cannot be read: what is wrong, and what to do.
    #[error("{0}")]
    Foreign(String),
}

/// An ordered log, as one member uses it. Calls block, each for a bounded time.
pub trait OrderedLog: Send + Sync {
    /// The number of the data that the log is for. If it is for none yet, it is for those that are claimed here, from now
    /// on.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn data(&self, claimed: Option<u64>) -> Result<Option<u64>, LogError>;

    /// Joins by a name that no other member has, and stays a member until it leaves, or the log has not heard of this
    /// process for a while. If it has not heard of a member of that name for a while, that one is said to be gone first.
    /// The address is where others reach it.
    ///
    /// # Errors
    /// [`Refused::NameInUse`], and what keeps it from reaching the log.
    fn join(&self, name: &str, address: &str) -> Result<Member, LogError>;

    /// Says where others reach the member that has joined here from now on.
    ///
    /// # Errors
    /// [`Refused::Fenced`], and what keeps it from reaching the log.
    fn reached_at(&self, member: Member, address: &str) -> Result<(), LogError>;

    /// Appends a batch of the member that has joined here, unless it was appended before, and returns its revision.
    /// Batches of a member are numbered from 1.
    ///
    /// # Errors
    /// [`Refused::Fenced`], [`Refused::OutOfSequence`], and what keeps it from reaching the log.
    fn append(&self, member: Member, batch: &Batch) -> Result<u64, LogError>;

    /// Returns what was appended after a revision, in its order; waits up to `wait` for something. Nothing is left
    /// out, and nothing is given twice to a caller that goes on from the last revision that it was given. Where there
    /// are no entries, a part of a batch stands that is not whole yet. One thread follows at a time.
    ///
    /// # Errors
    /// [`Refused::Trimmed`], and what keeps it from reaching the log.
    fn after(&self, revision: u64, wait: Duration) -> Result<Vec<Appended>, LogError>;

    /// Returns the revision of the newest append before the call, 0 if there was none. A member that has followed up
    /// to it has all.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn newest(&self) -> Result<u64, LogError>;

    /// Returns the members, with those that were not heard of for a while, until they are said to be gone.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn members(&self) -> Result<Vec<MemberInfo>, LogError>;

    /// Says of a member that it is gone: of this one, which then has left, or of one that was not heard of for a while.
    /// Of one that is there, and of one that is gone, it says nothing.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn gone(&self, member: Member) -> Result<(), LogError>;

    /// Says that the member that has joined here needs nothing any more of what was appended up to a revision, when it
    /// comes back by its name.
    ///
    /// # Errors
    /// [`Refused::Fenced`], and what keeps it from reaching the log.
    fn keep_after(&self, member: Member, revision: u64) -> Result<(), LogError>;

    /// Says the same while the log is full. That is possible once, so the member should have all that was appended.
    /// When the log has room again, [`OrderedLog::keep_after`] is to be called, after which it can be said again.
    ///
    /// # Errors
    /// [`Refused::Fenced`], [`LogError::Full`] if less was said before, and what keeps it from reaching the log.
    fn keep_after_when_full(&self, member: Member, revision: u64) -> Result<(), LogError> {
        self.keep_after(member, revision)
    }

    /// Returns the revision that was last said by these for each name, with the names of members that are gone.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn kept_after(&self) -> Result<BTreeMap<String, u64>, LogError>;

    /// Stops keeping entries for a name, unless a member with it is there. Returns true if nothing is kept now.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn keep_nothing(&self, name: &str) -> Result<bool, LogError>;

    /// Forgets what was appended up to a revision, or less. A member that has followed up to that one can go on.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn trim(&self, upto: u64) -> Result<(), LogError>;

    /// True if the log is full: nothing can be appended, and no member can join or say what it needs.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn is_full(&self) -> Result<bool, LogError> {
        Ok(false)
    }

    /// Gives back the space of what was trimmed, after which a log that was full may not be so any more. It may take a
    /// minute, in which the log does not answer.
    ///
    /// # Errors
    /// What keeps it from reaching the log.
    fn make_room(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// Ends all waiting for the log. Calls under way and later ones end soon, with [`LogError::Unreachable`] if they
    /// would wait for what does not answer.
    fn close(&self) {}
}

/// Entries that were appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Their revision.
    pub revision: u64,
    /// The entries, in their order.
    pub entries: Vec<Entry>,
    /// No member has appended this, and so it has no entries.
    pub foreign: Option<Foreign>,
}

/// A change of the log that is of no member. All that follow the log skip it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its description, with the key and the revision.
    pub what: String,
    /// Bytes that it takes in the log.
    pub bytes: usize,
}

impl Appended {
    /// Entries of a member.
    pub fn new(revision: u64, entries: Vec<Entry>) -> Appended {
        Appended { revision, entries, foreign: None }
    }

    /// The entries with their positions.
    pub fn positioned(self) -> impl Iterator<Item = (Position, Entry)> {
        let revision = self.revision;
        (0..).zip(self.entries).map(move |(index, entry)| (Position { revision, index }, entry))
    }
}

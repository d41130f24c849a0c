//! The ordered log: entries of all members in one order, which each of them follows.
//!
//! - [`Ledger`]: what such a log does, as plain data: the in-process log is one behind a mutex, the simulated one is one
//!   behind a network, and one in etcd is compared with it;
//! - [`Sender`]: a member's side of appending: batches, and asking again when an answer was lost.
//!
//! Promises: each entry that was given to a [`Sender`] stands in the order at most once, and those of a member in the
//! order in which they were given, whatever messages are lost, delayed or repeated. Behind [`Entry::Gone`] no entry of
//! that member follows. Whoever follows from a revision gets all that is behind it, or an error.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use crate::protocol::{Entry, Member, Position};

mod ledger;
mod sender;

pub use ledger::{Ledger, MemberInfo};
pub use sender::{Batch, Sender};

/// Why the log does not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A member of this name is there.
    NameInUse(String),
    /// The log holds the member for gone.
    Fenced,
    /// A batch is not the next one of its member.
    OutOfSequence {
        /// The number of the next one.
        expected: u64,
    },
    /// What is asked for is not kept any more.
    Trimmed {
        /// The first revision that can be followed from.
        from: u64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NameInUse(name) => {
                write!(f, "a member '{name}' is in the cluster: stop that one, or give this one another name")
            }
            Refused::Fenced => {
                f.write_str("the others hold this member for gone: it must join anew, by starting again")
            }
            Refused::OutOfSequence { expected } => {
                write!(f, "a batch is not the next one of its member, which is number {expected}")
            }
            Refused::Trimmed { from } => write!(
                f,
                "what was ordered before revision {from} is not kept any more: take a backup from a member"
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// Entries that were appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Their revision.
    pub revision: u64,
    /// They themselves, in their order.
    pub entries: Vec<Entry>,
}

impl Appended {
    /// The entries with their positions.
    pub fn positioned(self) -> impl Iterator<Item = (Position, Entry)> {
        let revision = self.revision;
        (0..).zip(self.entries).map(move |(index, entry)| (Position { revision, index }, entry))
    }
}

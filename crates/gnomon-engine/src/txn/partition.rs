//! Partitions of trees that calls of procedures use serially: the locks that stand for them.

use crate::{lock::LockName, mvcc::PARTITIONS};

/// The partitions whose trees a call uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One.
    One(u32),
    /// Some.
    Several(Vec<u32>),
    /// All of them.
    All,
}

impl Partitions {
    /// Returns those that are named. A partition may be named more than once.
    pub fn of(partitions: impl IntoIterator<Item = u32>) -> Partitions {
        let mut partitions = partitions.into_iter();
        let Some(first) = partitions.next() else { return Partitions::Several(Vec::new()) };
        match partitions.find(|other| *other != first) {
            None => Partitions::One(first),
            Some(other) => Partitions::Several([first, other].into_iter().chain(partitions).collect()),
        }
    }
}

/// The executors whose partitions a transaction may use.
pub(crate) enum Confined {
    /// It takes what it needs.
    No,
    /// These, which it or its executor has locked.
    To(Vec<u32>),
}

/// Returns the lock that stands for what is in all partitions. A writer of that has it, and the locks of all executors
/// besides. A client's transaction shares it to read.
pub(crate) fn replicated() -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::MAX)
}

/// Returns the lock that stands for all partitions of an executor.
pub(crate) fn partitions_of(executor: u32) -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::from(executor))
}

/// Returns the executors that have partitions, of so many, in order and at least one.
pub(crate) fn executors_of(count: u32, partitions: &Partitions) -> Vec<u32> {
    let mut executors: Vec<u32> = match partitions {
        Partitions::One(partition) => vec![partition % count],
        Partitions::Several(partitions) if !partitions.is_empty() => {
            partitions.iter().map(|partition| partition % count).collect()
        }
        Partitions::Several(_) => vec![0],
        Partitions::All => (0..count).collect(),
    };
    executors.sort_unstable();
    executors.dedup();
    executors
}

//! Partitions: parts of a database that have trees of their own, so that most transactions need but one.

/// The most partitions that a workload has.
pub const PARTITIONS_MAX: u16 = 64;

/// What of a database a transaction reads and writes, beside what nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The partition of this number, from 0.
    One(u16),
    /// More than one of them.
    Several,
}

impl Touched {
    /// Those of all the numbers that are given, of which there must be one.
    pub fn of(partitions: impl IntoIterator<Item = u16>) -> Touched {
        let mut partitions = partitions.into_iter();
        match partitions.next() {
            Some(first) if partitions.all(|other| other == first) => Touched::One(first),
            _ => Touched::Several,
        }
    }
}

//! Events of a simulated disk, for golden tests and for the messages of failed ones.

use std::fmt;

/// A call that changed something, or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the order of events, from 0.
    pub number: u64,
    /// Kind of the call.
    pub kind: EventKind,
    /// The file's name; of a renamed one the one before.
    pub file: String,
    /// Start of the call's range, or the new length of a truncation (bytes).
    pub offset: u64,
    /// Length of the range; for an allocation the length asked for (bytes).
    pub len: u64,
    /// How it turned out.
    pub outcome: Outcome,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A file was created by [`Disk::open`](crate::disk::Disk::open).
    Create,
    /// [`Disk::rename`](crate::disk::Disk::rename)
    Rename,
    /// [`Disk::remove`](crate::disk::Disk::remove)
    Remove,
    /// [`File::write_at`](crate::disk::File::write_at)
    Write,
    /// [`File::sync`](crate::disk::File::sync)
    Sync,
    /// [`File::allocate`](crate::disk::File::allocate)
    Allocate,
    /// [`File::truncate`](crate::disk::File::truncate)
    Truncate,
    /// [`File::punch`](crate::disk::File::punch)
    Punch,
}

/// How an event turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As its caller wished.
    Done,
    /// With an I/O error, by the test's plan.
    Failed,
    /// Without space.
    Full,
    /// It was in flight when the machine stopped.
    Crashed,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { number, kind, file, offset, len, outcome } = self;
        match kind {
            EventKind::Create => write!(f, "{number} create {file}"),
            EventKind::Rename => write!(f, "{number} rename {file}"),
            EventKind::Remove => write!(f, "{number} remove {file}"),
            EventKind::Write => write!(f, "{number} write {file} {offset}+{len}"),
            EventKind::Sync => write!(f, "{number} sync {file}"),
            EventKind::Allocate => write!(f, "{number} allocate {file} {len}"),
            EventKind::Truncate => write!(f, "{number} truncate {file} {offset}"),
            EventKind::Punch => write!(f, "{number} punch {file} {offset}+{len}"),
        }?;
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed => f.write_str(" (failed)"),
            Outcome::Full => f.write_str(" (disk full)"),
            Outcome::Crashed => f.write_str(" (crashed)"),
        }
    }
}

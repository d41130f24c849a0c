//! Errors, sorted by what the caller should do about them ([`Reaction`]).

use std::{io, sync::Arc};

use crate::lock::InterruptReason;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The action that an error asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Roll back and run the transaction again; it may succeed.
    Retry,
    /// The input is at fault: change it.
    FixInput,
    /// Free some space (on the disk, or by a smaller transaction), then try again.
    FreeSpace,
    /// The database stopped itself or was closed: open it again, which recovers.
    Reopen,
    /// Stored data is damaged: restore it from a copy.
    Restore,
}

/// The reason why a transaction cannot be serialized with others ([`Error::Serialization`]). All but the first
/// three occur only in databases whose commits others order ([`replication`](crate::replication)).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[error("could not serialize access due to {}", self.cause())]
pub enum Conflict {
    /// Another transaction has changed something that it changes or counts on.
    Write,
    /// Another transaction has changed something that it has read.
    Read,
    /// A prepared transaction, which has not ended, holds something that it needs.
    Prepared,
    /// Its snapshot has missed more commits than it accepts.
    Stale,
    /// Its snapshot is older than the changes that are kept to compare with.
    TooOld,
    /// A bound that it counts on is not met in the order of all commits.
    Bound,
    /// The other members took this one for gone when the transaction was to commit.
    Gone,
}

impl Conflict {
    /// Returns the word that metrics use for it.
    pub fn name(self) -> &'static str {
        match self {
            Conflict::Write => "write",
            Conflict::Read => "read",
            Conflict::Prepared => "prepared",
            Conflict::Stale => "stale",
            Conflict::TooOld => "too_old",
            Conflict::Bound => "bound",
            Conflict::Gone => "gone",
        }
    }

    /// Returns its cause, as a part of the message.
    fn cause(self) -> &'static str {
        match self {
            Conflict::Write => "concurrent update",
            Conflict::Read | Conflict::Prepared => "read/write dependencies among transactions",
            Conflict::Stale => "missed commits",
            Conflict::TooOld => "the age of its snapshot",
            Conflict::Bound => "a bound that others have reached",
            Conflict::Gone => "the absence of this member",
        }
    }
}

/// Every error of the engine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transaction was chosen as the victim of a deadlock. Roll it back.
    #[error("deadlock detected: roll back and run the transaction again")]
    Deadlock,
    /// The transaction cannot be serialized with others that ran beside it. Roll it back.
    #[error("{0}: run the transaction again")]
    Serialization(Conflict),
    /// The transaction's snapshot was ended, because too many versions were kept for it
    /// ([`Options::version_bytes_max`](crate::Options::version_bytes_max)). Roll it back.
    #[error("snapshot too old: run the transaction again")]
    SnapshotTooOld,
    /// A lock was not granted within the transaction's lock timeout.
    #[error("a lock was not granted within the lock timeout")]
    LockTimeout,
    /// A wait or a scan was ended through the transaction's [`Interrupt`](crate::Interrupt).
    #[error("{0}")]
    Interrupted(InterruptReason),
    /// An insert found its key present.
    #[error("the key exists")]
    KeyExists,
    /// A key is longer than the tree's pages allow: a quarter of one, and at most
    /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    #[error("a key of {bytes} bytes exceeds the maximum of {max}{}", of_small_pages(*max))]
    KeyTooLong {
        /// The key's length in bytes.
        bytes: usize,
        /// The longest that it may be.
        max: usize,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) (bytes).
    #[error("a value of {bytes} bytes exceeds the maximum of {}", crate::VALUE_BYTES_MAX)]
    ValueTooLong {
        /// The value's length in bytes.
        bytes: usize,
    },
    /// A subobject is longer than a data page of its object holds.
    #[error(
        "a subobject of {bytes} bytes exceeds the maximum of {max} of an object with such pages: make one with larger \
         data pages"
    )]
    SubobjectTooLong {
        /// The subobject's length in bytes.
        bytes: usize,
        /// The longest that it may be.
        max: usize,
    },
    /// The header of an object has no room for another data page or reference.
    #[error(
        "the object's header has no room for another page or reference: make an object with a larger header"
    )]
    ObjectFull,
    /// An operation does not suit the key's value, or its arguments are none; the text says why.
    #[error("the operation cannot be applied: {0}")]
    Operation(Box<str>),
    /// No operation of this name is registered ([`Options::operations`](crate::Options::operations)).
    #[error(
        "there is no operation '{operation}' in a family '{family}': open the database with the operations that its \
         transactions use"
    )]
    NoSuchOperation {
        /// The family's name.
        family: Box<str>,
        /// The operation's name.
        operation: Box<str>,
    },
    /// A procedure cannot do what it was asked to; the text says why ([`Error::procedure`]).
    #[error("{0}")]
    Procedure(Box<str>),
    /// A call has used a tree that it was not routed to, where procedures run serially.
    #[error("{0}")]
    NotRouted(Box<str>),
    /// No procedure of this name is registered ([`Options::procedures`](crate::Options::procedures)).
    #[error("there is no procedure '{0}': open the database with the procedures that are to be called")]
    NoSuchProcedure(Box<str>),
    /// The log has calls of a procedure that is not registered, so it cannot be replayed.
    #[error(
        "the log has calls of the procedure '{0}', which this program does not have: open the database with the \
         program that has it, which can then be closed"
    )]
    ProcedureUnknown(Arc<str>),
    /// The log has calls of a procedure that is registered with another code now, so it cannot be replayed.
    #[error(
        "the log has calls of the procedure '{0}', whose code has changed since: open the database with the program \
         from before, and close it; then this one can open it"
    )]
    ProcedureChanged(Arc<str>),
    /// Another member of the cluster has called a procedure whose code is another one there.
    #[error(
        "the procedure '{0}' has another code at the member that has called it: give all members of the cluster the \
         same program"
    )]
    ProcedureDiffers(Box<str>),
    /// A call was replayed, and did something else than before.
    #[error(
        "a call of the procedure '{name}' cannot be replayed: it did something else than when it was logged ({detail}). \
         Its code has changed without its text, or it depends on more than its parameters and the database: open the \
         database with the program that wrote the log, or restore a backup"
    )]
    ProcedureDiverged {
        /// The procedure's name.
        name: Arc<str>,
        /// Its result in the replay, as a text.
        detail: Box<str>,
    },
    /// Too many calls wait for an executor ([`Execution::Serial`](crate::Execution::Serial)).
    #[error("too many calls wait: call again when some have been answered")]
    Busy,
    /// The tree does not exist, or no longer.
    #[error("tree {0} does not exist")]
    NoSuchTree(crate::TreeId),
    /// A write was asked of a read-only transaction.
    #[error("a read-only transaction cannot write")]
    ReadOnly,
    /// An option is out of its range; the text says which and what fits.
    #[error("{0}")]
    BadOption(String),
    /// The path holds no database, or not all of one.
    #[error("{path} is not a Gnomon database: {detail}")]
    NotADatabase {
        /// The path as it was given.
        path: String,
        /// The contents found there, and the action to take.
        detail: String,
    },
    /// A disk of the database is not among those that were opened, or its file is not there.
    #[error("disk {disk} of the database is missing{}", missing_disk(*mirrored))]
    DiskMissing {
        /// The number of the disk in the database.
        disk: usize,
        /// True if its pages have copies on other disks.
        mirrored: bool,
    },
    /// Another process (or another handle of this one) has the database open.
    #[error("{path} is open already: stop the other process; within one process, clone the open handle")]
    InUse {
        /// The path as it was given.
        path: String,
    },
    /// The file was written by a newer version of the format.
    #[error("the database has format version {found}, this program reads up to {known}: use a newer program")]
    TooNew {
        /// The version found.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// The file was written by a program from before the first release, whose format is not read any more.
    #[error(
        "the database has format version {found}, from before the first release; this program reads from {oldest} on: \
         load the data into a new database"
    )]
    TooOld {
        /// The version found.
        found: u32,
        /// The oldest version that this build reads.
        oldest: u32,
    },
    /// The transaction's changes take more memory than
    /// [`Options::write_bytes_max`](crate::Options::write_bytes_max) allows. Roll it back.
    #[error("the transaction changes more than memory is allowed for: change less in one transaction")]
    TransactionTooLarge,
    /// A transaction is prepared under this identifier already.
    #[error("a transaction is prepared as '{0}' already")]
    GidInUse(Arc<str>),
    /// No transaction is prepared under this identifier.
    #[error("no transaction is prepared as '{0}'")]
    NoSuchGid(Arc<str>),
    /// Another caller is ending the transaction that is prepared under this identifier.
    #[error("the transaction that is prepared as '{0}' is being ended")]
    GidBusy(Arc<str>),
    /// The identifier of a prepared transaction is longer than [`GID_BYTES_MAX`](crate::GID_BYTES_MAX) (bytes).
    #[error(
        "an identifier of {bytes} bytes for a prepared transaction exceeds the maximum of {}",
        crate::GID_BYTES_MAX
    )]
    GidTooLong {
        /// The identifier's length in bytes.
        bytes: usize,
    },
    /// As many transactions are prepared as [`Options::prepared_max`](crate::Options::prepared_max) allows.
    #[error("{max} transactions are prepared, and no more are allowed: end some of them")]
    TooManyPrepared {
        /// The limit.
        max: usize,
    },
    /// The transaction has done something that does not survive in a prepared one; the text says what.
    #[error("a transaction that {0} cannot be prepared")]
    CannotPrepare(&'static str),
    /// The database's recovery method does not have it; the text says what.
    #[error("a database that recovers by a log of pages has no {0}")]
    Unsupported(&'static str),
    /// No space for the transaction; the database goes on without it.
    #[error("no space left for this transaction: free disk space, then try again")]
    DiskFull,
    /// The operating system failed a call before anything depended on it.
    #[error("I/O error: {0}")]
    Io(#[source] Arc<io::Error>),
    /// A page is damaged: its checksum, version or identity is not what was written there.
    #[error("damaged page {page} in file {file}: {detail}")]
    Corrupt {
        /// The file's name within the database directory; [`LOGICAL_PAGES`](crate::LOGICAL_PAGES) if the page's bytes
        /// are whole, but what stands in them is not right.
        file: String,
        /// The physical page number: its offset in the file is this times the size of a physical page, 4 KiB unless the
        /// database was created with another. Of a logical page, its logical number.
        page: u64,
        /// The damage that was found.
        detail: String,
    },
    /// A file of the database does not go with the others: it is an older or newer copy, or another database's.
    #[error("file {file} does not go with the other files of the database: {detail}")]
    Mismatch {
        /// The file's name within the database directory.
        file: String,
        /// The files' statements about each other, and the action to take.
        detail: String,
    },
    /// A stream that a backup is written to or read from failed.
    #[error("the backup cannot be read or written: {0}")]
    BackupStream(#[source] Arc<io::Error>),
    /// A backup is damaged or cut short.
    #[error("backup {} is damaged at byte {offset}: {detail}", backup + 1)]
    BackupDamaged {
        /// The backup's place among those given, from 0.
        backup: usize,
        /// Offset of the damage in the backup, in bytes.
        offset: u64,
        /// The damage that was found.
        detail: String,
    },
    /// Backups do not go on from each other, or not from where they should; the text says which and what to do.
    #[error("{0}")]
    BackupChain(String),
    /// A write or a sync failed after a commit depended on it; the database stopped itself. The text is the cause.
    #[error("the database stopped after a failure ({0}): open it again to recover")]
    Poisoned(Arc<str>),
    /// A member of a cluster is apart from the others, so the transaction cannot go on here: the text says why. It has not
    /// committed, and can be run again, at another member too.
    #[error("this member of the cluster is apart from the others: {0}")]
    Apart(Arc<str>),
    /// A member of a cluster does not hear what has become of a transaction that asked to commit: the text says why.
    /// Whether it has committed must be looked up.
    #[error("whether the transaction has committed is not known here, look it up: {0}")]
    Unresolved(Arc<str>),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
}

impl Error {
    /// Returns the text that reports it as the cause for which the database stopped.
    pub(crate) fn as_cause(&self) -> Arc<str> {
        match self {
            Error::Poisoned(cause) => cause.clone(),
            // The room for what could not be written was reserved.
            Error::DiskFull => "the disk had no space left for a write that it had room for before".into(),
            other => other.to_string().into(),
        }
    }

    /// The error of a procedure that cannot do what it was asked to.
    pub fn procedure(why: impl Into<Box<str>>) -> Error {
        Error::Procedure(why.into())
    }

    /// Returns the action that this error asks of the caller.
    pub fn reaction(&self) -> Reaction {
        match self {
            Error::Deadlock
            | Error::Serialization(_)
            | Error::SnapshotTooOld
            | Error::LockTimeout
            | Error::Busy
            | Error::GidBusy(_)
            | Error::TooManyPrepared { .. }
            | Error::Apart(_)
            | Error::Interrupted(_) => Reaction::Retry,
            Error::KeyExists
            | Error::KeyTooLong { .. }
            | Error::ValueTooLong { .. }
            | Error::SubobjectTooLong { .. }
            | Error::ObjectFull
            | Error::Operation(_)
            | Error::NoSuchOperation { .. }
            | Error::Procedure(_)
            | Error::NotRouted(_)
            | Error::NoSuchProcedure(_)
            | Error::ProcedureUnknown(_)
            | Error::ProcedureChanged(_)
            | Error::ProcedureDiffers(_)
            | Error::NoSuchTree(_)
            | Error::ReadOnly
            | Error::GidInUse(_)
            | Error::NoSuchGid(_)
            | Error::GidTooLong { .. }
            | Error::CannotPrepare(_)
            | Error::Unsupported(_)
            | Error::BadOption(_)
            | Error::NotADatabase { .. }
            | Error::DiskMissing { .. }
            | Error::InUse { .. }
            | Error::TooNew { .. }
            | Error::TooOld { .. }
            | Error::BackupStream(_)
            | Error::BackupChain(_) => Reaction::FixInput,
            Error::DiskFull | Error::TransactionTooLarge => Reaction::FreeSpace,
            Error::Io(_) | Error::Poisoned(_) | Error::Unresolved(_) | Error::Closed => Reaction::Reopen,
            Error::Corrupt { .. }
            | Error::Mismatch { .. }
            | Error::BackupDamaged { .. }
            | Error::ProcedureDiverged { .. } => Reaction::Restore,
        }
    }
}

/// Returns the part of a message that says why the keys of a tree may be no longer than this (bytes), if its pages are
/// the reason.
fn of_small_pages(max: usize) -> String {
    if max >= crate::KEY_BYTES_MAX {
        return String::new();
    }
    format!(" of a tree with pages of {} bytes: make one with larger pages", max * 4)
}

/// Returns the part of a message that says what to do about a missing disk.
fn missing_disk(is_mirrored: bool) -> &'static str {
    if is_mirrored {
        ": bring it back; or, if it is lost for good and was not used without the others, open the database degraded \
         (`--degraded`), from the copies on these"
    } else {
        ", and what is on it has no copies: bring it back, or restore a backup"
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull { Error::DiskFull } else { Error::Io(Arc::new(error)) }
    }
}

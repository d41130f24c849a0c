//! Errors, sorted by what the caller should do about them ([`Reaction`]).

use std::{fmt, io, sync::Arc};

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

/// The reason why a transaction cannot be serialized with others ([`Error::Serialization`]). All but the first two
/// occur only in databases whose commits others order ([`replication`](crate::replication)).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conflict {
    /// Another transaction has changed something that it changes or counts on.
    Write,
    /// Another transaction has changed something that it has read.
    Read,
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
            Conflict::Read => "read/write dependencies among transactions",
            Conflict::Stale => "missed commits",
            Conflict::TooOld => "the age of its snapshot",
            Conflict::Bound => "a bound that others have reached",
            Conflict::Gone => "the absence of this member",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not serialize access due to {}", self.cause())
    }
}

/// Every error of the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The transaction was chosen as the victim of a deadlock. Roll it back.
    Deadlock,
    /// The transaction cannot be serialized with others that ran beside it. Roll it back.
    Serialization(Conflict),
    /// The transaction's snapshot was ended, because too many versions were kept for it
    /// ([`Options::version_bytes_max`](crate::Options::version_bytes_max)). Roll it back.
    SnapshotTooOld,
    /// A lock was not granted within the transaction's lock timeout.
    LockTimeout,
    /// A wait or a scan was ended through the transaction's [`Interrupt`](crate::Interrupt).
    Interrupted(InterruptReason),
    /// An insert found its key present.
    KeyExists,
    /// A key is longer than the tree's pages allow: a quarter of one, and at most
    /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    KeyTooLong {
        /// The key's length in bytes.
        bytes: usize,
        /// The longest that it may be.
        max: usize,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) (bytes).
    ValueTooLong {
        /// The value's length in bytes.
        bytes: usize,
    },
    /// A subobject is longer than a data page of its object holds.
    SubobjectTooLong {
        /// The subobject's length in bytes.
        bytes: usize,
        /// The longest that it may be.
        max: usize,
    },
    /// The header of an object has no room for another data page or reference.
    ObjectFull,
    /// An operation does not suit the key's value, or its arguments are none; the text says why.
    Operation(Box<str>),
    /// No operation of this name is registered ([`Options::operations`](crate::Options::operations)).
    NoSuchOperation {
        /// The family's name.
        family: Box<str>,
        /// The operation's name.
        operation: Box<str>,
    },
    /// A procedure cannot do what it was asked to; the text says why ([`Error::procedure`]).
    Procedure(Box<str>),
    /// A call has used a tree that it was not routed to, where procedures run serially.
    NotRouted(Box<str>),
    /// No procedure of this name is registered ([`Options::procedures`](crate::Options::procedures)).
    NoSuchProcedure(Box<str>),
    /// The log has calls of a procedure that is not registered, so it cannot be replayed.
    ProcedureUnknown(Arc<str>),
    /// The log has calls of a procedure that is registered with another code now, so it cannot be replayed.
    ProcedureChanged(Arc<str>),
    /// Another member of the cluster has called a procedure whose code is another one there.
    ProcedureDiffers(Box<str>),
    /// A call was replayed, and did something else than before.
    ProcedureDiverged {
        /// The procedure's name.
        name: Arc<str>,
        /// Its result in the replay, as a text.
        detail: Box<str>,
    },
    /// Too many calls wait for an executor ([`Execution::Serial`](crate::Execution::Serial)).
    Busy,
    /// The tree does not exist, or no longer.
    NoSuchTree(crate::TreeId),
    /// A write was asked of a read-only transaction.
    ReadOnly,
    /// An option is out of its range; the text says which and what fits.
    BadOption(String),
    /// The path holds no database, or not all of one.
    NotADatabase {
        /// The path as it was given.
        path: String,
        /// The contents found there, and the action to take.
        detail: String,
    },
    /// A disk of the database is not among those that were opened, or its file is not there.
    DiskMissing {
        /// The number of the disk in the database.
        disk: usize,
        /// True if its pages have copies on other disks.
        mirrored: bool,
    },
    /// Another process (or another handle of this one) has the database open.
    InUse {
        /// The path as it was given.
        path: String,
    },
    /// The file was written by a newer version of the format.
    TooNew {
        /// The version found.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// The file was written by a program from before the first release, whose format is not read any more.
    TooOld {
        /// The version found.
        found: u32,
        /// The oldest version that this build reads.
        oldest: u32,
    },
    /// The transaction's changes take more memory than
    /// [`Options::write_bytes_max`](crate::Options::write_bytes_max) allows. Roll it back.
    TransactionTooLarge,
    /// A transaction is prepared under this identifier already.
    GidInUse(Arc<str>),
    /// No transaction is prepared under this identifier.
    NoSuchGid(Arc<str>),
    /// Another caller is ending the transaction that is prepared under this identifier.
    GidBusy(Arc<str>),
    /// The identifier of a prepared transaction is longer than [`GID_BYTES_MAX`](crate::GID_BYTES_MAX) (bytes).
    GidTooLong {
        /// The identifier's length in bytes.
        bytes: usize,
    },
    /// As many transactions are prepared as [`Options::prepared_max`](crate::Options::prepared_max) allows.
    TooManyPrepared {
        /// The limit.
        max: usize,
    },
    /// The transaction has done something that does not survive in a prepared one; the text says what.
    CannotPrepare(&'static str),
    /// The database's recovery method does not have it; the text says what.
    Unsupported(&'static str),
    /// No space for the transaction; the database goes on without it.
    DiskFull,
    /// The operating system failed a call before anything depended on it.
    Io(Arc<io::Error>),
    /// A page is damaged: its checksum, version or identity is not what was written there.
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
    Mismatch {
        /// The file's name within the database directory.
        file: String,
        /// The files' statements about each other, and the action to take.
        detail: String,
    },
    /// A stream that a backup is written to or read from failed.
    BackupStream(Arc<io::Error>),
    /// A backup is damaged or cut short.
    BackupDamaged {
        /// The backup's place among those given, from 0.
        backup: usize,
        /// Offset of the damage in the backup, in bytes.
        offset: u64,
        /// The damage that was found.
        detail: String,
    },
    /// Backups do not go on from each other, or not from where they should; the text says which and what to do.
    BackupChain(String),
    /// A write or a sync failed after a commit depended on it; the database stopped itself. The text is the cause.
    Poisoned(Arc<str>),
    /// A member of a cluster is apart from the others, so the transaction cannot go on here: the text says why. It has not
    /// committed, and can be run again, at another member too.
    Apart(Arc<str>),
    /// A member of a cluster does not hear what has become of a transaction that asked to commit: the text says why.
    /// Whether it has committed must be looked up.
    Unresolved(Arc<str>),
    /// The database was closed.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Deadlock => f.write_str("deadlock detected: roll back and run the transaction again"),
            Error::Serialization(conflict) => write!(f, "{conflict}: run the transaction again"),
            Error::SnapshotTooOld => f.write_str("snapshot too old: run the transaction again"),
            Error::LockTimeout => f.write_str("a lock was not granted within the lock timeout"),
            Error::Interrupted(InterruptReason::Cancel) => f.write_str("canceled on request"),
            Error::Interrupted(InterruptReason::Timeout) => f.write_str("canceled by the statement timeout"),
            Error::Interrupted(InterruptReason::Shutdown) => f.write_str("the database is shutting down"),
            Error::KeyExists => f.write_str("the key exists"),
            Error::KeyTooLong { bytes, max } => {
                write!(f, "a key of {bytes} bytes exceeds the maximum of {max}")?;
                if *max < crate::KEY_BYTES_MAX {
                    write!(f, " of a tree with pages of {} bytes: make one with larger pages", max * 4)?;
                }
                Ok(())
            }
            Error::ValueTooLong { bytes } => {
                write!(f, "a value of {bytes} bytes exceeds the maximum of {}", crate::VALUE_BYTES_MAX)
            }
            Error::SubobjectTooLong { bytes, max } => write!(
                f,
                "a subobject of {bytes} bytes exceeds the maximum of {max} of an object with such pages: make one with larger data pages"
            ),
            Error::ObjectFull => f.write_str(
                "the object's header has no room for another page or reference: make an object with a larger header",
            ),
            Error::Operation(why) => write!(f, "the operation cannot be applied: {why}"),
            Error::NoSuchOperation { family, operation } => write!(
                f,
                "there is no operation '{operation}' in a family '{family}': open the database with the operations that its transactions use"
            ),
            Error::Procedure(why) | Error::NotRouted(why) => f.write_str(why),
            Error::NoSuchProcedure(name) => write!(
                f,
                "there is no procedure '{name}': open the database with the procedures that are to be called"
            ),
            Error::ProcedureUnknown(name) => write!(
                f,
                "the log has calls of the procedure '{name}', which this program does not have: open the database with the program that has it, which can then be closed"
            ),
            Error::ProcedureChanged(name) => write!(
                f,
                "the log has calls of the procedure '{name}', whose code has changed since: open the database with the program from before, and close it; then this one can open it"
            ),
            Error::ProcedureDiffers(name) => write!(
                f,
                "the procedure '{name}' has another code at the member that has called it: give all members of the cluster the same program"
            ),
            Error::ProcedureDiverged { name, detail } => write!(
                f,
                "a call of the procedure '{name}' cannot be replayed: it did something else than when it was logged ({detail}). Its code has changed without its text, or it depends on more than its parameters and the database: open the database with the program that wrote the log, or restore a backup"
            ),
            Error::Busy => f.write_str("too many calls wait: call again when some have been answered"),
            Error::NoSuchTree(tree) => write!(f, "tree {tree} does not exist"),
            Error::ReadOnly => f.write_str("a read-only transaction cannot write"),
            Error::BadOption(detail) => f.write_str(detail),
            Error::NotADatabase { path, detail } => write!(f, "{path} is not a Gnomon database: {detail}"),
            Error::DiskMissing { disk, mirrored: true } => write!(
                f,
                "disk {disk} of the database is missing: bring it back; or, if it is lost for good and was not used without the others, open the database degraded (`--degraded`), from the copies on these"
            ),
            Error::DiskMissing { disk, mirrored: false } => write!(
                f,
                "disk {disk} of the database is missing, and what is on it has no copies: bring it back, or restore a backup"
            ),
            Error::InUse { path } => {
                write!(
                    f,
                    "{path} is open already: stop the other process; within one process, clone the open handle"
                )
            }
            Error::TooNew { found, known } => write!(
                f,
                "the database has format version {found}, this program reads up to {known}: use a newer program"
            ),
            Error::TooOld { found, oldest } => write!(
                f,
                "the database has format version {found}, from before the first release; this program reads from {oldest} on: load the data into a new database"
            ),
            Error::TransactionTooLarge => f.write_str(
                "the transaction changes more than memory is allowed for: change less in one transaction",
            ),
            Error::GidInUse(gid) => write!(f, "a transaction is prepared as '{gid}' already"),
            Error::NoSuchGid(gid) => write!(f, "no transaction is prepared as '{gid}'"),
            Error::GidBusy(gid) => write!(f, "the transaction that is prepared as '{gid}' is being ended"),
            Error::GidTooLong { bytes } => write!(
                f,
                "an identifier of {bytes} bytes for a prepared transaction exceeds the maximum of {}",
                crate::GID_BYTES_MAX
            ),
            Error::TooManyPrepared { max } => {
                write!(f, "{max} transactions are prepared, and no more are allowed: end some of them")
            }
            Error::CannotPrepare(what) => write!(f, "a transaction that {what} cannot be prepared"),
            Error::Unsupported(what) => write!(
                f,
                "a database that recovers by a log of pages has no {what}"
            ),
            Error::DiskFull => {
                f.write_str("no space left for this transaction: free disk space, then try again")
            }
            Error::Io(error) => write!(f, "I/O error: {error}"),
            Error::Corrupt { file, page, detail } => {
                write!(f, "damaged page {page} in file {file}: {detail}")
            }
            Error::Mismatch { file, detail } => {
                write!(f, "file {file} does not go with the other files of the database: {detail}")
            }
            Error::BackupStream(error) => write!(f, "the backup cannot be read or written: {error}"),
            Error::BackupDamaged { backup, offset, detail } => {
                write!(f, "backup {} is damaged at byte {offset}: {detail}", backup + 1)
            }
            Error::BackupChain(detail) => f.write_str(detail),
            Error::Poisoned(cause) => {
                write!(f, "the database stopped after a failure ({cause}): open it again to recover")
            }
            Error::Apart(why) => write!(f, "this member of the cluster is apart from the others: {why}"),
            Error::Unresolved(why) => {
                write!(f, "whether the transaction has committed is not known here, look it up: {why}")
            }
            Error::Closed => f.write_str("the database is closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) | Error::BackupStream(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull { Error::DiskFull } else { Error::Io(Arc::new(error)) }
    }
}

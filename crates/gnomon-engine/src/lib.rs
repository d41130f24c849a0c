//! Gnomon, the embedded engine: a transactional key-value store of many trees, with more than one writer.
//!
//! Two levels of transactions. Level 0 is pages ([`disk`], `page`, `store`); level 1 is operations on keys (`txn`).
//! Between them stand the access methods (`access`), plain algorithms over page transactions; beneath both, lock
//! tables ([`lock`]). Imports run downward only; `docs/architecture.md` draws the house.
//!
//! ```
//! use gnomon_engine::{Database, Options, TxnOptions};
//! # fn main() -> gnomon_engine::Result<()> {
//! let db = Database::in_memory(Options::default())?;
//! let mut txn = db.begin(TxnOptions::default())?;
//! let tree = txn.create_tree()?;
//! txn.put(tree, b"gnomon", b"one that knows")?;
//! txn.commit()?; // returns when the commit is durable
//!
//! let mut txn = db.begin(TxnOptions::default())?;
//! assert_eq!(txn.get(tree, b"gnomon")?.as_deref(), Some(&b"one that knows"[..]));
//! # Ok(())
//! # }
//! ```

mod access;
pub mod disk;
pub mod env;
mod error;
mod failpoint;
mod id;
pub mod lock;
pub mod objects;
pub mod op;
mod page;
mod store;
pub mod sync;
mod txn;
mod wal;

pub use error::{Conflict, Error, Reaction, Result};
pub use id::{Csn, PageId, TreeId, TxnId};
pub use lock::{Interrupt, InterruptReason};
pub use page::PageSize;
pub use store::logged::{LogShape, Strategy};
pub use store::shadow::{
    Activity, Backup, BackupHeader, BackupId, DiskInfo, Finding, RestorePhase, ScrubReport, Severity,
    check_backup, read_header as read_backup_header,
};
pub use txn::{
    AccessSet, Applied, Call, Commits, Cursor, Database, Direction, Execution, GID_BYTES_MAX, Isolation,
    KeyLock, KeyRange, NOTE_BYTES_MAX, Options, Partitions, Placement, PreparedInfo, PreparedTransaction,
    Procedure, ProcedureStats, Records, Recovery, Replayer, Restored, RowLock, Savepoint, ScrubProgress,
    Stats, Ticket, Transaction, TreeLock, TreeOptions, TxnOptions, VerifiedTree, VerifyReport, restore,
    verify, verify_with,
};

/// The additional interface of a database that is a member of a cluster.
pub mod replication {
    pub use crate::txn::{
        Abandoned, Applier, Called, CommitRequest, Mark, Note, Ordered, Replicator, Touch, Touching,
    };
}

/// In place of a file's name in [`Error::Corrupt`]: the page is named by its logical number.
pub const LOGICAL_PAGES: &str = "logical pages";
/// The longest key of a tree, in bytes; of one with pages of less than 4 KiB a quarter of a page.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value of a tree, in bytes (16 MiB).
pub const VALUE_BYTES_MAX: usize = 16 << 20;

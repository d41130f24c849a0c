//! Gnomon, the embedded engine: a transactional key-value store of many trees, with more than one writer.
//!
//! Two levels of transactions. Level 0 is pages ([`disk`], `page`, `store`); level 1 is operations on keys (`txn`).
//! Between them stand the access methods (`access`), plain algorithms over page transactions; beneath both, lock
//! tables ([`lock`]). Imports run downward only; `docs/architecture.md` draws the house.
//!
//! **This crate promises no stability.** It is for the crates beside it, which run SQL and clusters; programs embed the
//! crate `gnomon`, which keeps its names.
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
mod bytes;
mod database;
pub mod disk;
pub mod env;
mod error;
#[doc(hidden)]
pub mod failpoint;
mod id;
#[doc(hidden)]
pub mod level0;
pub mod lock;
mod mvcc;
pub mod op;
mod page;
mod procedure;
mod recovery;
pub mod replication;
mod store;
pub mod sync;
#[cfg(test)]
mod tests;
mod txn;
mod wal;
mod write_set;

pub use access::{Direction, Extent, KeyRange, Placement, TreeOptions};
pub use database::{
    Applier, Database, Options, Replayer, Restored, ScrubProgress, Stats, VerifiedTree, VerifyReport,
    restore, verify, verify_with,
};
pub use error::{Conflict, Error, Reaction, Result};
pub use id::{Csn, PageId, TreeId, TxnId};
pub use lock::{Interrupt, InterruptReason};
pub use page::PageSize;
pub use procedure::{AccessSet, Call, Execution, Procedure, ProcedureStats};
pub use recovery::{Commits, GID_BYTES_MAX, Records, Recovery, has_database};
pub use store::page_wal::{LogShape, Strategy};
pub use store::shadow::{
    Activity, Backup, BackupHeader, BackupId, DiskInfo, Finding, RestorePhase, ScrubReport, Severity,
    check_backup, read_header as read_backup_header,
};
pub use txn::{
    Applied, ChangeByOthers, Cursor, Duplicate, Isolation, KeyLock, Load, NOTE_BYTES_MAX, Partitions,
    PreparedInfo, PreparedTransaction, RowLock, Savepoint, SharedSnapshot, Snapshot, SnapshotRange, Ticket,
    Transaction, TreeLock, TxnOptions,
};

/// In place of a file's name in [`Error::Corrupt`]: the page is named by its logical number.
pub const LOGICAL_PAGES: &str = "logical pages";
/// The first number of trees that are not given in turn: a layer above makes trees of its own with such numbers, so
/// that it finds them ([`Transaction::create_reserved_tree`]).
pub const RESERVED_TREES: TreeId = TreeId(1 << 61);
/// The longest key of a tree, in bytes; of one with pages of less than 4 KiB a quarter of a page.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value of a tree, in bytes (16 MiB).
pub const VALUE_BYTES_MAX: usize = 16 << 20;

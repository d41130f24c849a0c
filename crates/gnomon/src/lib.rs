//! Gnomon: an embedded transactional database with many writers.
//!
//! A database is a directory, or lives in memory. It has trees: ordered maps from keys to values, both bytes, each
//! with a name or a number. [`Transaction`]s read and write any number of trees; several write at the same time, also to
//! the same key if they need not see it ([`Transaction::apply`]). A [`ReadTransaction`] is one state of the database
//! that any number of threads read, while others write.
//!
//! ```
//! # fn main() -> gnomon::Result<()> {
//! let db = gnomon::Database::in_memory()?; // or Database::open("accounts.gnomon")
//! let accounts = db.tree("accounts")?; // made if there is none
//! let mut txn = db.begin()?;
//! txn.put(accounts, "alice", 100_u64.to_be_bytes())?;
//! txn.put(accounts, "bob", 50_u64.to_be_bytes())?;
//! txn.commit()?; // returns when the commit is durable
//!
//! let read = db.read()?;
//! assert_eq!(read.get(accounts, "alice")?, Some(100_u64.to_be_bytes().to_vec()));
//! for entry in read.range(accounts, "b"..)?.rev() {
//!     let (name, balance) = entry?;
//!     println!("{name:?} has {balance:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | open, configure, close | [`Database::builder`], [`Builder`], [`options`] |
//! | name trees | [`Database::tree`], [`Transaction::create_tree`], [`Transaction::drop_tree`] |
//! | write | [`Database::begin`], [`Database::transact`], [`Transaction`], [`Savepoint`] |
//! | read from many threads | [`Database::read`], [`ReadTransaction`], [`Range`] |
//! | change hot keys | [`Transaction::apply`], [`op`], [`Applied`] |
//! | not wait for the disk | [`Transaction::commit_ticket`], [`Ticket`], [`Commits`] |
//! | call transactions by name | [`Procedure`], [`Call`], [`Database::call`] |
//! | commit with other databases | [`Transaction::prepare`], [`PreparedTransaction`] |
//! | back up, restore, check | [`Database::backup`], [`restore`], [`verify`] |
//! | choose how a database recovers | [`Builder::recovery`], [`Recovery`] |
//!
//! Errors tell the caller what to do: [`Error::reaction`]. After [`Reaction::Retry`], roll back and run the transaction
//! again; [`Database::transact`] does that after deadlocks and conflicts.
//!
//! # Stability
//!
//! This crate keeps its names: a change that breaks a caller comes with a new major version. The engine beneath,
//! `gnomon-engine`, promises nothing of the kind; it is for the crates beside this one. SQL inside the process is the
//! crate `gnomon-sql`, which takes [`Database::engine`]: SQL and named trees can use one database that SQL has opened
//! first.

mod backup;
mod builder;
mod database;
mod names;
pub mod options;
mod procedure;
mod range;
mod read;
mod transaction;

pub use backup::{Backup, VerifyReport, restore, verify};
pub use builder::Builder;
pub use database::Database;
#[doc(inline)]
pub use gnomon_engine::{
    Applied, Commits, Csn, Error, Isolation, PreparedTransaction, Reaction, Recovery, Result, Savepoint,
    Ticket, TreeId as Tree,
};
pub use procedure::{Call, Procedure};
pub use range::Range;
pub use read::ReadTransaction;
pub use transaction::Transaction;

/// Operations that change a value without seeing it, those that are built in and one's own.
pub mod op {
    #[doc(inline)]
    pub use gnomon_engine::{
        lock::Claim,
        op::{
            Call, Commutes, Counterexample, Family, Length, Operation, Trial, bytes, check_family, number,
            set,
        },
    };
}

/// Types of which others are made: parts of errors, backups and reports.
pub mod report {
    #[doc(inline)]
    pub use gnomon_engine::{
        BackupHeader, BackupId, Conflict, Finding, InterruptReason, PreparedInfo, Severity,
    };
}

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

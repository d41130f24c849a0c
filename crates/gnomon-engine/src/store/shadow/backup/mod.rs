//! Backups: a durable state of a store as a stream of bytes, whole or what has changed since an earlier one, and a new
//! store made of such streams.
//!
//! Promises: what is restored is the state that the newest stream holds, page by page, or an error; a stream that is
//! damaged, cut short, of another database or out of order is refused. Taking a backup needs no latch and no part of
//! the buffer pool, and makes no other thread wait. It holds the pages of its state ([`PinnedRoot`]), so space that
//! is given up meanwhile is used again only when it has ended. Both ways go through the stream once, from its
//! beginning to its end, with a few megabytes of memory.
//!
//! *What has changed* is known from batch numbers: a page's entry in the page table carries the batch that wrote the
//! page, and a node's entry one that is at least as large as all below it. An incremental backup since batch `b` leaves
//! out what stands below nodes that are not newer than `b`, and of newer nodes the pages that are not. A page that is
//! moved to another place keeps its batch, and costs a backup nothing but a look at its node.
//!
//! *Names.* A backup is known by the database's identity and the batch of its state ([`BackupId`]). A restored
//! database gets an identity of its own: it and the original go on from the same state with the same numbers, so under
//! one identity the changes of one could be taken for those of the other. Its backups begin with a full one.
//!
//! Layout of a stream ([`stream`]): a header, one group for each node of level 1 in the order of logical pages, a
//! trailer. A group is the node, as a map from its slots to batches and sizes, then those of its pages that are newer
//! than what the backup goes on from, sealed as they stand in the file. So a reader knows from the map which pages are
//! there, which are in an earlier backup, and which are gone. Bitmaps of space are left out: a restored file is laid
//! out anew.

mod restore;
mod stream;
mod take;

use std::{fmt, io, str::FromStr, time::Duration};

use crate::{Csn, Error, page::PageSize};

pub use self::{
    restore::restore,
    stream::{check_backup, read_header},
};
#[cfg(doc)]
use super::snapshots::pin::PinnedRoot;

/// The name of a backup: the database and the state that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackupId {
    /// The database's identity.
    pub database: u64,
    /// The commit batch that made the state.
    pub batch: u64,
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.database, self.batch)
    }
}

impl FromStr for BackupId {
    type Err = Error;

    fn from_str(text: &str) -> Result<BackupId, Error> {
        let parsed = text.split_once('-').and_then(|(database, batch)| {
            let plain = database.len() == 16 && batch.bytes().all(|byte| byte.is_ascii_digit());
            let database = plain.then(|| u64::from_str_radix(database, 16).ok())??;
            Some(BackupId { database, batch: batch.parse().ok()? })
        });
        parsed.ok_or_else(|| {
            Error::BackupChain(format!(
                "'{text}' does not name a backup: names look like 00c0ffee00c0ffee-123, and `gnomon backup --list` tells them"
            ))
        })
    }
}

/// The header of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupHeader {
    /// The state that it holds.
    pub id: BackupId,
    /// The state whose backup it goes on from; none if it is a full one.
    pub since: Option<BackupId>,
    /// The last commit in the state.
    pub csn: Csn,
    /// When it was begun, since 1970-01-01 00:00 UTC, to the second.
    pub begun: Duration,
    /// The size of the database's smallest page, and of its physical pages.
    pub page_size_min: PageSize,
    /// Physical pages that the state uses in the database's file.
    pub used_pages: u64,
    /// Logical page numbers of the state: the unit of progress.
    pub logical_pages: u64,
}

/// A backup that was written or read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The header at the beginning of its stream.
    pub header: BackupHeader,
    /// Pages in it, of all sizes.
    pub pages: u64,
    /// The stream's length in bytes.
    pub bytes: u64,
}

/// The phase of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePhase {
    /// Pages are written.
    Writing,
    /// The new database is read again and checked.
    Verifying,
}

fn stream_failed(error: io::Error) -> Error {
    Error::BackupStream(error.into())
}

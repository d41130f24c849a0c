//! Level 0, for crates of this project that have a level 1 of their own over the page WAL store: `gnomon-objects`.
//!
//! Nothing is defined here, and nothing else of level 0 is meant for other crates. A level 1 opens a [`LoggedStore`],
//! changes pages in subtransactions ([`Subtxn`], [`PageAccess`]), gives an [`Undo`] record with each, and compensates
//! the [`Loser`]s of a crash. Its locks are of [`lock`](crate::lock), its planted faults of
//! [`failpoint`](crate::failpoint).
//!
//! With the feature `testing` there are also pages in memory, and a reader of the logs.

#[cfg(feature = "testing")]
pub use crate::access::memory::{MemoryPages, Random};
pub use crate::id::SubtxnId;
pub use crate::page::{Page, PageKind};
#[cfg(feature = "testing")]
pub use crate::store::page_wal::testing::{LogEntry, log_entries};
pub use crate::store::page_wal::{
    Contents, Limits, LoggedActivity, LoggedStore, Loser, Opening, PageAccess, Subtxn, Undo,
};
pub use crate::store::{GroupCommit, PageGuard, PageRead, PageWrite};

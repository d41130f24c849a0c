//! Shadow paging: pages that go to free space, and become the database's by a new superblock (Shadows, 1995): a
//! commit's changes to them ([`apply`]), the space that these take ([`estimate`]), and the disks that they are on.
//!
//! The method itself is [`deferred`](super::deferred): without a log, and with one.

mod apply;
mod copies;
mod estimate;
mod open;
mod prepared;
mod reclaim;
mod verify;

pub(super) use apply::{GatedCommit, begin_commit, create, in_parts};
pub(crate) use copies::Copies;
pub(super) use estimate::{LeavesChanged, leaves_of, pages_changed, pages_of_entry};
pub(super) use open::{open_store, recovery_of};
pub(crate) use prepared::KeptSpace;
pub(super) use prepared::begin_entry;
pub(super) use reclaim::reclaim_some;
pub(crate) use verify::{VerifiedPages, verify_pages};

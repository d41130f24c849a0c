//! Giving back the pages of dropped trees.

use crate::{
    Error, Result, TreeId,
    mvcc::Keyspace,
    page::PageCounts,
    store::{
        GroupCommit,
        shadow::{Purpose, ShadowStore},
    },
};

/// Pages of dropped trees given back in one page transaction.
const RECLAIM_PAGES: usize = 64;
/// The same when the disk is full.
const RECLAIM_PAGES_FULL: usize = 8;
/// More levels than a tree has, for want of numbers: in nodes of 512 bytes a dozen separators of some length fit.
const LEVELS: u64 = 12;

/// Gives back some pages of a dropped tree that is not in use; true if there may be more to do.
pub(in crate::recovery) fn reclaim_some(
    keyspace: &Keyspace,
    store: &ShadowStore,
    is_in_use: &dyn Fn(TreeId) -> bool,
) -> Result<bool> {
    match reclaim(keyspace, store, is_in_use, RECLAIM_PAGES) {
        Err(Error::DiskFull) => {
            // What was given back is free when that is durable, and so is what was reserved for it.
            store.flush()?;
            reclaim(keyspace, store, is_in_use, RECLAIM_PAGES_FULL)
        }
        done => done,
    }
}

fn reclaim(
    keyspace: &Keyspace,
    store: &ShadowStore,
    is_in_use: &dyn Fn(TreeId) -> bool,
    pages_max: usize,
) -> Result<bool> {
    let Some((id, tree)) = keyspace.directory.dropped(store, is_in_use)? else {
        return Ok(false);
    };
    // The nodes of the page table above what is freed, and on the way to where it ends nodes of the tree.
    let changed = PageCounts::from(2 * pages_max as u64) + PageCounts::of(tree.size(), LEVELS);
    let pages = store.begin_for(Purpose::Free, changed)?;
    let reclaimed = tree.reclaim(&pages, pages_max).and_then(|all| {
        if all {
            keyspace.directory.remove(&pages, id)?;
        }
        Ok(())
    });
    // A page transaction has no way back.
    reclaimed.map_err(|error| store.poison(&error))?;
    Ok(true)
}

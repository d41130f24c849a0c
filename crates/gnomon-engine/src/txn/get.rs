//! Reading a key.

use super::{core::Core, read, shared_keys, trees};
use crate::{
    Result, TreeId,
    access::{KeyRange, Search},
    write_set::{Write, Written},
};

/// See [`Transaction::get`](crate::Transaction::get).
pub(super) fn get(core: &mut Core, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let used = trees::use_tree(core, tree, core.read_mode())?;
    let (mut search, is_applied) = match core.writes.written(tree, key) {
        Some(Written { write: Write::Put(value), .. }) => return Ok(Some(value.to_vec())),
        Some(Written { write: Write::Delete, .. }) => return Ok(None),
        Some(Written { write: Write::Apply(_), place }) => (Search::at(*place), true),
        None => (core.ahead.search(tree, key), false),
    };
    let is_newest = is_applied && shared_keys::observe(core, &used, key)?;
    if !is_applied {
        core.note_read(tree, key);
    }
    core.note_range(tree, || KeyRange::only(key));
    let at = if is_newest { core.newest() } else { read::read_at(core, &used, key)? };
    let stored = read::stored_at(core, tree, used.state.as_deref(), key, at, &mut search)?;
    core.ahead.searched(tree, key, search);
    if is_applied { shared_keys::with_own(core, tree, key, stored) } else { Ok(stored) }
}

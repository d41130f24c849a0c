//! Bulk loads: a new tree is filled with entries that come in any order.
//!
//! 1. *Collection.* Entries go to memory, with neither a lock nor a place in the write set: no other transaction can know
//!    the tree.
//! 2. *Runs.* Entries that fill the memory are sorted and built into a tree, a run, page after page
//!    ([`Build`](crate::access::Build)). Those that are all greater than the last run go to its end. Runs are on private
//!    pages ([`large`](super::large)), and no transaction knows them.
//! 3. *End.* A single run is the tree. Several are merged into it with what is left in memory, and given back.
//!
//! The commit puts the private pages in their place, as for any large transaction, so the log has nothing of the entries.
//! Few entries are sorted and go into the write set: their record in the log costs less than a state of the store.
//!
//! Where there are no private pages, or others order the commits, every entry goes into the write set.
//!
//! A load belongs to one savepoint: between its begin and its end none is set or gone back to. If it is left unfinished,
//! its runs are given back when the transaction ends, or goes back to a savepoint before it.

mod entries;
mod merge;

use std::{collections::BTreeSet, ops::ControlFlow};

use super::{
    core::Core,
    large,
    private::{Large, LargeTree, Runs},
    shared::Shared,
    write::{self, Wanted},
};
use crate::{
    Error, Interrupt, Result, TreeId,
    access::{self, Build, Tree},
    page::PageSize,
    store::PrivatePages,
};
use entries::Entries;
use merge::merge;

/// So many bytes of entries go into the write set.
const FEW_BYTES: usize = 256 << 10;
/// The most memory that a load makes use of: places in it have four bytes.
const MEMORY_BYTES_MAX: usize = 2 << 30;
/// Number of entries that are stored between two looks at the interrupt.
const ENTRIES_BETWEEN_CHECKS: usize = 1024;

/// One of two entries with the same key, which a bulk load met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The key of both.
    pub key: Vec<u8>,
    /// The value of one of them.
    pub value: Vec<u8>,
}

/// A bulk load of a new tree, from [`Load::begin`] to [`Load::finish`].
pub struct Load {
    tree: TreeId,
    size: PageSize,
    memory_bytes: usize,
    /// True if every entry goes into the write set at once.
    is_direct: bool,
    entries: Entries,
    /// The greatest key of the last run.
    last: Vec<u8>,
    /// Bytes of all keys and values.
    bytes: usize,
    duplicate: Option<Duplicate>,
}

impl Load {
    /// Returns the bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.bytes()
    }

    /// Sorts the entries in memory. False if two entries, of these or of those before, have the same key.
    fn sort(&mut self) -> bool {
        if let Some(index) = self.entries.sort()
            && let Some((key, value)) = self.entries.get(index)
        {
            let duplicate = Duplicate { key: key.to_vec(), value: value.to_vec() };
            self.duplicate.get_or_insert(duplicate);
        }
        self.duplicate.is_none()
    }

    /// True if all entries in memory, which are sorted, come after the last run.
    fn continues(&self) -> bool {
        self.entries.get(0).is_some_and(|(first, _)| first > &self.last[..])
    }
}

/// The place of a load's runs.
struct Place<'c> {
    pages: &'c PrivatePages,
    runs: &'c mut Runs,
    pause: Pause<'c>,
}

/// The ends that others may set to the work, looked at now and then.
struct Pause<'c> {
    interrupt: Option<&'c Interrupt>,
    shared: &'c Shared,
}

impl<'c> Place<'c> {
    fn of(core: &'c mut Core, tree: TreeId) -> Result<Place<'c>> {
        large::begin_pages(core)?;
        let layer = core.layer();
        let Core { large: Some(large), handle, options, .. } = core else {
            return Err(Error::Unsupported("private pages"));
        };
        let Large { pages, loads, .. } = &mut **large;
        let runs = loads.entry(tree).or_insert_with(|| Runs { layer, builds: Vec::new() });
        if runs.layer != layer {
            return Err(Error::BadOption("a savepoint was set during a bulk load".into()));
        }
        pages.change_in(layer);
        Ok(Place {
            pages,
            runs,
            pause: Pause { interrupt: options.interrupt.as_deref(), shared: &handle.inner },
        })
    }

    /// Begins a run.
    fn begin(&mut self, size: PageSize) -> Result<()> {
        self.runs.builds.push(Build::begin(&self.pages, size)?);
        Ok(())
    }
}

impl Pause<'_> {
    /// Fails if the work is to end; looks at that once for many entries.
    fn check(&self, count: usize) -> Result<()> {
        if !count.is_multiple_of(ENTRIES_BETWEEN_CHECKS) {
            return Ok(());
        }
        if let Some(interrupt) = self.interrupt {
            interrupt.check()?;
        }
        self.shared.check_open()
    }
}

/// See [`Load::begin`].
pub(super) fn begin(core: &mut Core, tree: TreeId, memory_bytes: usize) -> Result<Load> {
    core.check_write(&[])?;
    let is_loading = core.large.as_ref().is_some_and(|large| large.loads.contains_key(&tree));
    let new = core.writes.tree(tree).filter(|writes| writes.created && !writes.dropped);
    let Some(new) = new.filter(|new| new.keys.is_empty() && !core.is_large(tree) && !is_loading) else {
        return Err(Error::BadOption(format!("tree {tree} is not new and empty: it cannot be loaded")));
    };
    let has_pages = core.inner().properties.has_private_pages && !core.alone && core.observed.is_none();
    Ok(Load {
        tree,
        size: new.options.page_size,
        memory_bytes: memory_bytes.min(MEMORY_BYTES_MAX),
        is_direct: !has_pages,
        entries: Entries::default(),
        last: Vec::new(),
        bytes: 0,
        duplicate: None,
    })
}

/// See [`Load::add`].
pub(super) fn add(load: &mut Load, core: &mut Core, key: &[u8], value: &[u8]) -> Result<()> {
    core.check_write(value)?;
    if load.is_direct {
        if write::write(core, load.tree, key, Some(value), Wanted::Absent)? {
            load.duplicate.get_or_insert_with(|| Duplicate { key: key.to_vec(), value: value.to_vec() });
        }
        return Ok(());
    }
    let max = access::key_bytes_max(load.size);
    if key.len() > max {
        return Err(Error::KeyTooLong { bytes: key.len(), max });
    }
    if !load.entries.is_empty() && load.entries.bytes_with(key, value) > load.memory_bytes {
        if load.sort() {
            store(load, core)?;
        }
        load.entries.clear();
    }
    load.entries.push(key, value);
    load.bytes += key.len() + value.len();
    Ok(())
}

/// See [`Load::finish`].
pub(super) fn finish(mut load: Load, core: &mut Core) -> Result<Option<Duplicate>> {
    let runs = core.large.as_ref().and_then(|large| large.loads.get(&load.tree));
    let runs = runs.map_or(0, |runs| runs.builds.len());
    if !load.sort() {
        return Ok(load.duplicate);
    }
    if runs == 0 && load.entries.bytes() <= FEW_BYTES.min(core.inner().escalate_bytes) {
        write_few(&load, core)?;
    } else if runs == 0 || runs == 1 && load.continues() {
        store(&mut load, core)?;
        make_tree(&load, core);
    } else {
        merge_runs(&mut load, core)?;
    }
    Ok(load.duplicate)
}

/// Puts the entries in memory, which are sorted, into the write set.
fn write_few(load: &Load, core: &mut Core) -> Result<()> {
    large::relieve(core)?;
    for index in 0..load.entries.len() {
        if let Some((key, value)) = load.entries.get(index) {
            core.writes.put(load.tree, key, Some(value));
        }
    }
    Ok(())
}

/// Puts the entries in memory, which are sorted, to the end of the last run, or else into another one.
fn store(load: &mut Load, core: &mut Core) -> Result<()> {
    let mut place = Place::of(core, load.tree)?;
    if place.runs.builds.is_empty() || !load.continues() {
        place.begin(load.size)?;
    }
    let Place { pages, runs, pause } = place;
    let Some(run) = runs.builds.last_mut() else { return Ok(()) };
    let mut run = run.append(&pages)?;
    for index in 0..load.entries.len() {
        pause.check(index)?;
        if let Some((key, value)) = load.entries.get(index) {
            run.push(key, value)?;
        }
    }
    if let Some((last, _)) = load.entries.len().checked_sub(1).and_then(|last| load.entries.get(last)) {
        load.last.clear();
        load.last.extend_from_slice(last);
    }
    Ok(())
}

/// Merges the runs and the entries in memory, which are sorted, into the tree.
fn merge_runs(load: &mut Load, core: &mut Core) -> Result<()> {
    let mut place = Place::of(core, load.tree)?;
    let merged: Vec<Tree> = place.runs.builds.iter().map(Build::tree).collect();
    place.begin(load.size)?;
    let Place { pages, runs, pause } = place;
    let Some(whole) = runs.builds.last_mut() else { return Ok(()) };
    let mut count = 0;
    let Load { last, entries, .. } = load;
    let mut whole = whole.append(&pages)?;
    let merging = merge(pages, &merged, entries, |key, value| {
        pause.check(count)?;
        if count > 0 && key == &last[..] {
            let duplicate = Duplicate { key: key.to_vec(), value: value.to_vec() };
            return Ok(ControlFlow::Break(duplicate));
        }
        last.clear();
        last.extend_from_slice(key);
        count += 1;
        whole.push(key, value).map(ControlFlow::Continue)
    })?;
    drop(whole);
    if let ControlFlow::Break(duplicate) = merging {
        load.duplicate = Some(duplicate);
        return Ok(());
    }
    for run in &merged {
        run.reclaim(&pages, usize::MAX)?;
    }
    make_tree(load, core);
    Ok(())
}

/// Makes the last run the tree.
fn make_tree(load: &Load, core: &mut Core) {
    let Some(large) = &mut core.large else { return };
    let Some(Runs { layer, builds }) = large.loads.remove(&load.tree) else { return };
    let tree = builds.last().map(Build::tree);
    let made = LargeTree { tree, made_in: layer, changed_in: layer, statement: None, own: BTreeSet::new() };
    large.trees.insert(load.tree, made);
    large.applied += 1;
    large.changed_bytes += load.bytes;
}

#[cfg(all(test, not(shuttle)))]
mod tests;

//! Making a store of backups: a full one and those that go on from it are read side by side, group by group, and each
//! page is taken from the one that has its newest batch. The new file has no holes: pages in the order of their logical
//! numbers, each node after what it maps.

use std::io::Read;

use super::{
    Backup, BackupId,
    stream::{Map, SLOTS, Source},
};
use crate::{
    Error, Result,
    disk::{Disk, File},
    page::{Identity, PAGE_BYTES, Page, PageKind},
    store::shadow::{
        open::disk_identity,
        place::Place,
        root::{DiskTable, ROOT_PAGES, Root},
        space::CHUNK_PAGES,
        table::{self, DEPTH_MAX, FANOUT, PageEntry},
    },
    sync::Arc,
};

/// The new file is written in pieces of so many pages (1 MiB).
const WRITE_PAGES: usize = 256;
/// The new file is synced each time so many pages were written (32 MiB), so that others who sync do not wait for all of
/// it.
const SYNC_PAGES: u64 = 8192;

/// Makes the file `name` the store that the last of the backups in `chain` holds; it is durable on return. The first
/// must be a full one, each other must go on from the one before it. The store's identity is `database`.
///
/// `progress` is called with the pages written and, about, the pages to write. Returns the last backup.
///
/// # Errors
/// [`Error::BackupChain`], [`Error::BackupDamaged`], [`Error::BackupStream`], [`Error::TooNew`]; of the disk.
pub fn restore<R: Read>(
    chain: impl IntoIterator<Item = R>,
    disk: &dyn Disk,
    name: &str,
    database: impl FnOnce(BackupId) -> u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup> {
    let mut sources: Vec<Source<R>> = chain
        .into_iter()
        .enumerate()
        .map(|(number, input)| Source::open(input, number))
        .collect::<Result<_>>()?;
    check_chain(&sources)?;
    let Some(last) = sources.last().map(|source| source.header) else {
        return Err(Error::BackupChain("there is no backup to restore".into()));
    };
    let file = disk.open(name, true)?;
    file.truncate(0)?;
    let database = database(last.id);
    let mut layout = Layout {
        file,
        database,
        batch: last.id.batch,
        next: ROOT_PAGES,
        buffer: Vec::with_capacity(WRITE_PAGES * PAGE_BYTES),
        synced: 0,
        open: [const { None }; DEPTH_MAX as usize + 1],
        bitmaps: Vec::new(),
    };
    for source in &mut sources {
        source.advance()?;
    }
    while let Some(base) = sources.iter().filter_map(|source| Some(source.group.as_ref()?.base)).min() {
        merge(&sources, base, &mut layout)?;
        progress(layout.next.min(last.used_pages), last.used_pages);
        for source in &mut sources {
            if source.group.as_ref().is_some_and(|group| group.base == base) {
                source.advance()?;
            }
        }
    }
    let root = Root {
        database,
        batch: last.id.batch,
        csn: last.csn,
        logical_end: last.logical_pages,
        used: 0,
        depth: 0,
        free_pages_whole: true,
        closed: true,
        copies_whole: true,
        table: PageEntry::default(),
    };
    layout.finish(root)?;
    Ok(sources.last().expect("there is one").summary())
}

/// Whether the backups begin with a full one and go on from each other.
fn check_chain<R>(sources: &[Source<R>]) -> Result<()> {
    let mut before: Option<BackupId> = None;
    for (number, source) in sources.iter().enumerate() {
        let (id, since) = (source.header.id, source.header.since);
        let detail = match (before, since) {
            (Some(before), Some(since)) if before == since => None,
            (None, None) => None,
            (None, Some(since)) => Some(format!(
                "backup {id} holds only what has changed since {since}: name that one before it, and so on down to a full one"
            )),
            (Some(_), None) => Some(format!(
                "backup {id}, number {} of those given, is a full one: name it alone or first",
                number + 1
            )),
            (Some(before), Some(since)) => Some(format!(
                "backup {id} goes on from {since}, but {before} is named before it: name all of a chain in the order in which they were taken"
            )),
        };
        if let Some(detail) = detail {
            return Err(Error::BackupChain(detail));
        }
        before = Some(id);
    }
    Ok(())
}

/// Writes the pages of a node: the newest group says which they are, and each is in the backup of its batch.
fn merge<R: Read>(sources: &[Source<R>], base: u64, layout: &mut Layout) -> Result<()> {
    let group_of = |source: &Source<R>| source.group.as_ref().is_some_and(|group| group.base == base);
    let newest = sources.iter().rfind(|source| group_of(source)).and_then(|source| source.group.as_ref());
    let Some(newest) = newest else { return Ok(()) };
    let map: &Map = &newest.map;
    layout.reserve_bitmaps(base)?;
    for slot in (0..SLOTS).filter(|&slot| map[slot] != 0) {
        let logical = base + slot as u64;
        // The newest that goes on from before the page was written.
        let is_before = |source: &&Source<R>| source.header.since.map_or(0, |since| since.batch) < map[slot];
        let from = sources.iter().rfind(is_before).expect("the first is a full one");
        let block = from
            .group
            .as_ref()
            .filter(|group| group.base == base && group.map[slot] == map[slot])
            .and_then(|group| group.block(slot));
        let Some(block) = block else {
            let detail = format!(
                "logical page {logical} of batch {} should be in it, since a later backup counts on it",
                map[slot]
            );
            return Err(from.damaged(0, detail));
        };
        let physical = layout.copy(block)?;
        layout.set(1, logical, PageEntry::new(Place::single(physical), map[slot]))?;
    }
    Ok(())
}

/// A node of the new page table that is not full yet.
struct Open {
    base: u64,
    node: Page,
}

/// The new file.
struct Layout {
    file: Arc<dyn File>,
    database: u64,
    batch: u64,
    /// The physical page that comes next; those before it that are not in the file are in the buffer.
    next: u64,
    buffer: Vec<u8>,
    /// Where the part of the file ends that was synced.
    synced: u64,
    /// The node of each level that is being filled.
    open: [Option<Open>; DEPTH_MAX as usize + 1],
    /// Where the bitmaps will be, by chunk.
    bitmaps: Vec<u64>,
}

impl Layout {
    /// Takes the next page of the file, and lets it be filled.
    fn append(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<u64> {
        if self.buffer.len() == WRITE_PAGES * PAGE_BYTES {
            self.write_buffer()?;
        }
        let at = self.buffer.len();
        self.buffer.resize(at + PAGE_BYTES, 0);
        fill(&mut self.buffer[at..]);
        self.next += 1;
        Ok(self.next - 1)
    }

    fn write_buffer(&mut self) -> Result<()> {
        let start = self.next - (self.buffer.len() / PAGE_BYTES) as u64;
        self.file.write_at(start * PAGE_BYTES as u64, &self.buffer)?;
        self.buffer.clear();
        if self.next - self.synced >= SYNC_PAGES {
            self.file.sync()?;
            self.synced = self.next;
        }
        Ok(())
    }

    /// Copies a page, under the new identity.
    fn copy(&mut self, block: &[u8]) -> Result<u64> {
        let database = self.database;
        self.append(|place| {
            place.copy_from_slice(block);
            Page::move_to(place, database);
        })
    }

    /// Sets an object's entry in the node of `level` above it. Comes in the order of logical pages.
    fn set(&mut self, level: u8, logical: u64, entry: PageEntry) -> Result<()> {
        let base = table::node_base(level, logical);
        if self.open[usize::from(level)].as_ref().is_some_and(|open| open.base != base) {
            self.close(level)?;
        }
        let open = self.open[usize::from(level)]
            .get_or_insert_with(|| Open { base, node: Page::new(PageKind::PageTable) });
        table::set_entry(&mut open.node, table::slot(level, logical), entry);
        Ok(())
    }

    /// Writes the node of a level, and enters it above.
    fn close(&mut self, level: u8) -> Result<()> {
        if let Some((base, entry)) = self.write_node(level)? {
            self.set(level + 1, base, entry)?;
        }
        Ok(())
    }

    fn write_node(&mut self, level: u8) -> Result<Option<(u64, PageEntry)>> {
        let Some(Open { base, node }) = self.open[usize::from(level)].take() else { return Ok(None) };
        let identity =
            Identity { database: self.database, level, logical: base, batch: self.batch, early: false };
        let physical = self.append(|place| node.seal(identity, place))?;
        Ok(Some((base, PageEntry::new(Place::single(physical), self.batch))))
    }

    /// Takes places for the bitmaps whose logical numbers come up to `logical`: there may be so many chunks.
    fn reserve_bitmaps(&mut self, logical: u64) -> Result<()> {
        loop {
            let number = self.bitmaps.len() as u64 * CHUNK_PAGES;
            if number > logical {
                return Ok(());
            }
            let physical = self.append(|_| ())?;
            self.bitmaps.push(physical);
            self.set(1, number, PageEntry::new(Place::single(physical), self.batch))?;
        }
    }

    /// Writes what is left of the page table, the bitmaps and the root.
    fn finish(mut self, root: Root) -> Result<()> {
        // The nodes that are open, and one of each level for each bitmap.
        while self.bitmaps.len() as u64 * CHUNK_PAGES <= self.next + 2 * u64::from(DEPTH_MAX) {
            self.reserve_bitmaps(self.bitmaps.len() as u64 * CHUNK_PAGES)?;
        }
        let numbers = root.logical_end.max((self.bitmaps.len() as u64 - 1) * CHUNK_PAGES + 1);
        let depth = (1..=DEPTH_MAX).find(|&depth| numbers <= table::span(depth));
        let depth = depth
            .ok_or_else(|| Error::BackupChain("the backup has more pages than a database can".into()))?;
        for level in 1..depth {
            self.close(level)?;
        }
        let Some((0, table)) = self.write_node(depth)? else {
            return Err(Error::BackupChain(
                "the backup has pages beyond the last one that it tells of".into(),
            ));
        };
        self.write_buffer()?;
        let end = self.next;
        for (chunk, &physical) in self.bitmaps.iter().enumerate() {
            let number = chunk as u64 * CHUNK_PAGES;
            let mut page = Page::new(PageKind::SpaceMap);
            for offset in 0..end.saturating_sub(number).min(CHUNK_PAGES) {
                page.body_mut()[(offset / 8) as usize] |= 1 << (offset % 8);
            }
            let mut block = [0; PAGE_BYTES];
            let identity = Identity {
                database: self.database,
                level: 0,
                logical: number,
                batch: self.batch,
                early: false,
            };
            page.seal(identity, &mut block);
            self.file.write_at(physical * PAGE_BYTES as u64, &block)?;
        }
        let root = Root { used: end, depth, table, ..root };
        let disks = DiskTable::of_one(disk_identity(self.database, 0, 0), end);
        root.write_all(&*self.file, &disks, 0)?;
        Ok(self.file.sync()?)
    }
}

const _: () = assert!(FANOUT == SLOTS as u64);

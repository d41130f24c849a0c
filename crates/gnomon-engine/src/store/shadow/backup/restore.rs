//! Making a store of backups: a full one and those that go on from it are read side by side, group by group, and each
//! page is taken from the one that has its newest batch. Pages lie in the new file in the order of their logical
//! numbers, each node after what it maps. There are no holes but where a larger page comes after smaller ones.

use std::io::Read;

use super::{
    Backup, BackupId,
    stream::{Map, SLOTS, Source},
};
use crate::{
    Error, Result,
    disk::{Disk, File},
    page::{Identity, Page, PageKind, PageSize},
    store::shadow::{
        allocator::space::Run,
        mirror::files::disk_identity,
        page_table::{
            node::{self, BLOCK, DEPTH_MAX, FANOUT, PageEntry},
            place::{CHUNK_PAGES, Place},
        },
        superblock::{self, DiskTable, LogMark, Superblock},
    },
    sync::Arc,
};

/// Bytes of the pieces in which the new file is written.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes written between two syncs of the new file, so that syncs of other files do not wait for all of it.
const SYNC_BYTES: u64 = 32 << 20;

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
        unit: last.page_size_min,
        next: superblock::physical_pages(last.page_size_min),
        holes: Vec::new(),
        buffer: Vec::with_capacity(WRITE_BYTES),
        synced: 0,
        open: [const { None }; DEPTH_MAX as usize + 1],
        bitmaps: Vec::new(),
    };
    for source in &mut sources {
        source.advance()?;
    }
    while let Some(base) = sources.iter().filter_map(|source| Some(source.group.as_ref()?.base)).min() {
        merge(&mut sources, base, &mut layout)?;
        progress(layout.next.min(last.used_pages), last.used_pages);
        for source in &mut sources {
            if source.group.as_ref().is_some_and(|group| group.base == base) {
                source.advance()?;
            }
        }
    }
    let superblock = Superblock {
        database,
        unit: last.page_size_min,
        batch: last.id.batch,
        csn: last.csn,
        logical_end: last.logical_pages,
        used: 0,
        depth: 0,
        closed: true,
        copies_whole: true,
        table: PageEntry::default(),
        log: LogMark::default(),
    };
    layout.finish(superblock)?;
    Ok(sources.last().expect("there is one").summary())
}

/// Checks that the backups begin with a full one and that each goes on from the one before it.
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
fn merge<R: Read>(sources: &mut [Source<R>], base: u64, layout: &mut Layout) -> Result<()> {
    let group_of = |source: &&Source<R>| source.group.as_ref().is_some_and(|group| group.base == base);
    let newest = sources.iter().rfind(group_of).and_then(|source| source.group.as_ref());
    let Some(newest) = newest else { return Ok(()) };
    let map: Box<Map> = newest.map.clone();
    layout.reserve_bitmaps(base)?;
    for (slot, mapped) in map.iter().enumerate() {
        let Some(mapped) = mapped else { continue };
        let logical = base + slot as u64;
        // The newest that goes on from before the page was written.
        let is_before =
            |source: &Source<R>| source.header.since.map_or(0, |since| since.batch) < mapped.batch;
        let from = sources.iter().rposition(is_before).expect("the first is a full one");
        let from = &mut sources[from];
        let agrees =
            from.group.as_ref().is_some_and(|group| group.base == base && group.map[slot] == Some(*mapped));
        let block = if agrees { from.page(slot)? } else { None };
        let Some(block) = block else {
            let detail = format!(
                "logical page {logical} of batch {} should be in it, since a later backup counts on it",
                mapped.batch
            );
            return Err(from.damaged(0, detail));
        };
        let physical = layout.copy(mapped.size, block)?;
        layout.set(1, logical, PageEntry::sized(Place::single(physical), mapped.size, mapped.batch))?;
    }
    Ok(())
}

/// A node of the new page table that is not full yet.
struct Open {
    base: u64,
    node: Page,
}

/// The new file, and the page table that is made for it.
struct Layout {
    file: Arc<dyn File>,
    database: u64,
    batch: u64,
    /// The size of a physical page.
    unit: PageSize,
    /// The physical page that comes next; those before it that are not in the file are in the buffer.
    next: u64,
    /// Physical pages that are not in use.
    holes: Vec<Run>,
    buffer: Vec<u8>,
    /// Where the part of the file ends that was synced, in bytes.
    synced: u64,
    /// The node of each level that is being filled.
    open: [Option<Open>; DEPTH_MAX as usize + 1],
    /// Where the bitmaps will be, by chunk.
    bitmaps: Vec<u64>,
}

impl Layout {
    /// Takes the next place of the file for a page of this size, and lets it be filled.
    fn append(&mut self, size: PageSize, fill: impl FnOnce(&mut [u8])) -> Result<u64> {
        let pages = (size.bytes() / self.unit.bytes()) as u64;
        let hole = hole_before(self.next, pages);
        if hole > 0 {
            self.holes.push(Run { start: self.next, len: hole });
            for _ in 0..hole {
                self.extend(self.unit, |_| ())?;
            }
        }
        let start = self.next;
        self.extend(size, fill)?;
        Ok(start)
    }

    fn extend(&mut self, size: PageSize, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        if self.buffer.len() + size.bytes() > WRITE_BYTES {
            self.write_buffer()?;
        }
        let at = self.buffer.len();
        self.buffer.resize(at + size.bytes(), 0);
        fill(&mut self.buffer[at..]);
        self.next += (size.bytes() / self.unit.bytes()) as u64;
        Ok(())
    }

    fn offset(&self, physical: u64) -> u64 {
        physical * self.unit.bytes() as u64
    }

    fn write_buffer(&mut self) -> Result<()> {
        let end = self.offset(self.next);
        self.file.write_at(end - self.buffer.len() as u64, &self.buffer)?;
        self.buffer.clear();
        if end - self.synced >= SYNC_BYTES {
            self.file.sync()?;
            self.synced = end;
        }
        Ok(())
    }

    /// Copies a page, under the new identity.
    fn copy(&mut self, size: PageSize, block: &[u8]) -> Result<u64> {
        let database = self.database;
        self.append(size, |place| {
            place.copy_from_slice(block);
            Page::move_to(place, database);
        })
    }

    /// Sets an object's entry in the node of `level` above it. Comes in the order of logical pages.
    fn set(&mut self, level: u8, logical: u64, entry: PageEntry) -> Result<()> {
        let base = node::node_base(level, logical);
        if self.open[usize::from(level)].as_ref().is_some_and(|open| open.base != base) {
            self.close(level)?;
        }
        let open = self.open[usize::from(level)]
            .get_or_insert_with(|| Open { base, node: Page::new(PageKind::PageTable) });
        node::set_entry(&mut open.node, node::slot(level, logical), entry);
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
        let physical = self.append(BLOCK, |place| node.seal(identity, place))?;
        Ok(Some((base, PageEntry::new(Place::single(physical), self.batch))))
    }

    /// Takes places for the bitmaps whose logical numbers come up to `logical`: there may be so many chunks.
    fn reserve_bitmaps(&mut self, logical: u64) -> Result<()> {
        loop {
            let number = self.bitmaps.len() as u64 * CHUNK_PAGES;
            if number > logical {
                return Ok(());
            }
            let physical = self.append(BLOCK, |_| ())?;
            self.bitmaps.push(physical);
            self.set(1, number, PageEntry::new(Place::single(physical), self.batch))?;
        }
    }

    /// Writes what is left of the page table, the bitmaps and the superblock.
    fn finish(mut self, superblock: Superblock) -> Result<()> {
        // The nodes that are open, and one of each level for each bitmap, and holes before them.
        let block_pages = (BLOCK.bytes() / self.unit.bytes()) as u64;
        while self.bitmaps.len() as u64 * CHUNK_PAGES <= self.next + 4 * u64::from(DEPTH_MAX) * block_pages {
            self.reserve_bitmaps(self.bitmaps.len() as u64 * CHUNK_PAGES)?;
        }
        let numbers = superblock.logical_end.max((self.bitmaps.len() as u64 - 1) * CHUNK_PAGES + 1);
        let depth = (1..=DEPTH_MAX).find(|&depth| numbers <= node::span(depth));
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
        let mut holes = self.holes.iter().peekable();
        for (chunk, &physical) in self.bitmaps.iter().enumerate() {
            let number = chunk as u64 * CHUNK_PAGES;
            let mut page = Page::sized(PageKind::SpaceMap, BLOCK);
            for offset in 0..end.saturating_sub(number).min(CHUNK_PAGES) {
                page.body_mut()[(offset / 8) as usize] |= 1 << (offset % 8);
            }
            // None crosses a chunk.
            while let Some(hole) = holes.next_if(|hole| hole.start < number + CHUNK_PAGES) {
                for offset in hole.start - number..hole.start + hole.len - number {
                    page.body_mut()[(offset / 8) as usize] &= !(1 << (offset % 8));
                }
            }
            let mut block = vec![0; BLOCK.bytes()];
            let identity = Identity {
                database: self.database,
                level: 0,
                logical: number,
                batch: self.batch,
                early: false,
            };
            page.seal(identity, &mut block);
            self.file.write_at(self.offset(physical), &block)?;
        }
        let used = end - self.holes.iter().map(|hole| hole.len).sum::<u64>();
        let superblock = Superblock { used, depth, table, ..superblock };
        let disks = DiskTable::of_one(disk_identity(self.database, 0, 0), end, used);
        superblock.write_all(&*self.file, &disks, 0)?;
        Ok(self.file.sync()?)
    }
}

/// Returns the number of physical pages to leave free before an extent of `pages` pages.
fn hole_before(next: u64, pages: u64) -> u64 {
    let offset = next % CHUNK_PAGES;
    let start = offset.next_multiple_of(pages);
    if start + pages <= CHUNK_PAGES { start - offset } else { CHUNK_PAGES - offset }
}

const _: () = assert!(FANOUT == SLOTS as u64);

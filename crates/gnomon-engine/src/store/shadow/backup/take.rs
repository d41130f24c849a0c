//! Taking a backup: the pinned page table is walked in order, and pages are read in the order of their places, some at
//! a time. While some are read and checked, those before are written.

use std::{io::Write, time::Duration};

use super::{
    Backup, BackupHeader, BackupId,
    stream::{Map, Mapped, SLOTS, encode_group, encode_header, encode_trailer},
    stream_failed,
};
use crate::{
    Error, Result,
    page::{Page, PageKind, PageSize},
    store::shadow::{
        page_table::{
            node::{self, FANOUT, PageEntry},
            place,
        },
        snapshots::pin::PinnedRoot,
    },
    sync::thread,
};

/// Bytes of pages that are gathered before they are read in the order of their places.
const WINDOW_BYTES: usize = 8 << 20;
/// Number of nodes and pages that are gathered at most, about.
const WINDOW_ITEMS: usize = 4096;
/// The longest read, but for a page.
const READ_BYTES: u64 = 1 << 20;
/// Bytes of a gap between two wanted pages up to which it is read along with them: that is cheaper than another read.
const GAP_BYTES: u64 = 32 << 10;

impl PinnedRoot {
    /// Writes the state as a backup: all of it, or what has changed `since` a state that a backup has.
    ///
    /// `begun` is the time since 1970-01-01 00:00 UTC. `progress` is called with logical pages passed and logical
    /// pages in all.
    ///
    /// # Errors
    /// [`Error::BackupChain`] if `since` is no earlier state of this database, [`Error::Corrupt`] if a page is damaged,
    /// [`Error::BackupStream`] if `out` fails. What was written until then is of no use.
    pub fn backup(
        &self,
        since: Option<BackupId>,
        begun: Duration,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        let id = BackupId { database: self.superblock.database, batch: self.batch() };
        if let Some(since) = since {
            if since.database != id.database {
                return Err(Error::BackupChain(format!(
                    "backup {since} is of another database than this one, {:016x} (a restored database is one of its own): take a full backup",
                    id.database
                )));
            }
            if since.batch == 0 || since.batch > id.batch {
                return Err(Error::BackupChain(format!(
                    "there can be no backup {since} of this database, whose newest state is {id}: take a full backup"
                )));
            }
        }
        let header = BackupHeader {
            id,
            since,
            csn: self.csn(),
            begun: Duration::from_secs(begun.as_secs()),
            page_size_min: self.superblock.unit,
            used_pages: self.superblock.used,
            logical_pages: self.superblock.logical_end,
        };
        let mut taking = Taking {
            state: self,
            since: since.map_or(0, |since| since.batch),
            is_full: since.is_none(),
            output: Output { out, bytes: 0, sum: 0 },
            window: Window::default(),
            read: Window::default(),
            spare: Vec::new(),
            groups: 0,
            pages: 0,
            progress,
        };
        taking.output.write(&encode_header(&header))?;
        if let Some(entry) = self.superblock.table.present().filter(|_| self.superblock.depth > 0) {
            taking.walk(self.superblock.depth, 0, entry)?;
        }
        taking.next_window()?;
        taking.next_window()?;
        let Taking { mut output, groups, pages, .. } = taking;
        output.write(&encode_trailer(groups, pages, output.sum))?;
        output.out.flush().map_err(stream_failed)?;
        Ok(Backup { header, pages, bytes: output.bytes })
    }
}

struct Output<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
    /// The crc32c of all bytes.
    sum: u32,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(stream_failed)
    }
}

struct Taking<'a> {
    state: &'a PinnedRoot,
    since: u64,
    is_full: bool,
    output: Output<'a>,
    /// The nodes and pages that are read next.
    window: Window,
    /// The nodes and pages that were read last.
    read: Window,
    /// Memory for blocks.
    spare: Vec<u8>,
    groups: u64,
    pages: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

/// Nodes and pages that are written together, in the order of the stream.
#[derive(Default)]
struct Window {
    items: Vec<Item>,
    /// Bytes of the pages among them.
    bytes: usize,
    /// The contents of these pages, one after the other.
    blocks: Vec<u8>,
}

enum Item {
    /// A node of level 1: its first page, and its map.
    Node(u64, Box<Map>),
    /// A page of it: its logical number, where it is, and where in the window's blocks.
    Page(u64, PageEntry, usize),
}

impl Taking<'_> {
    /// Gathers the pages below a node.
    fn walk(&mut self, level: u8, base: u64, entry: PageEntry) -> Result<()> {
        if entry.batch <= self.since {
            return Ok(());
        }
        let node = self.state.mirror().read_page(level, base, entry)?;
        if node.kind() != PageKind::PageTable {
            let detail = format!("logical page {base}, level {level}: its kind is {:?}", node.kind());
            return Err(self.state.mirror().corrupt(entry.place.first, detail));
        }
        if level > 1 {
            for slot in 0..FANOUT {
                if let Some(child) = node::entry(&node, slot as usize).present() {
                    self.walk(level - 1, base + slot * node::span(level - 1), child)?;
                }
            }
            return Ok(());
        }
        let mut entries: Vec<PageEntry> = (0..SLOTS).map(|slot| node::entry(&node, slot)).collect();
        if place::is_bitmap(base) {
            // A bitmap's.
            entries[0] = PageEntry::default();
        }
        if self.is_full && entries.iter().all(|entry| entry.present().is_none()) {
            return Ok(());
        }
        let mapped = |slot: usize| {
            let PageEntry { batch, size, .. } = entries[slot].present()?;
            Some(Mapped { batch, size })
        };
        let map: Box<Map> = Box::new(std::array::from_fn(mapped));
        self.window.items.push(Item::Node(base, map));
        for (slot, &entry) in entries.iter().enumerate() {
            if entry.present().is_none() || entry.batch <= self.since {
                continue;
            }
            if self.window.bytes + entry.size.bytes() > WINDOW_BYTES {
                self.next_window()?;
            }
            self.window.items.push(Item::Page(base + slot as u64, entry, self.window.bytes));
            self.window.bytes += entry.size.bytes();
        }
        // Nodes without pages take memory, too.
        if self.window.items.len() > WINDOW_ITEMS { self.next_window() } else { Ok(()) }
    }

    /// Reads the window, while the pages that were read before are written.
    fn next_window(&mut self) -> Result<()> {
        let state = self.state;
        let mut window = std::mem::take(&mut self.window);
        window.blocks = std::mem::take(&mut self.spare);
        thread::scope(|scope| {
            let reader = scope.spawn(move || window.read(state).map(|()| window));
            let written = self.write_read();
            let read = reader.join().expect("reading a window does not panic");
            written?;
            self.read = read?;
            Ok(())
        })
    }

    /// Writes the nodes and pages that were read last.
    fn write_read(&mut self) -> Result<()> {
        let Window { items, blocks, .. } = std::mem::take(&mut self.read);
        let logical_end = self.state.superblock.logical_end;
        for item in &items {
            match item {
                Item::Node(base, map) => {
                    self.output.write(&encode_group(*base, map))?;
                    self.groups += 1;
                    (self.progress)((base + FANOUT).min(logical_end), logical_end);
                }
                Item::Page(_, entry, at) => {
                    self.output.write(&blocks[*at..][..entry.size.bytes()])?;
                    self.pages += 1;
                }
            }
        }
        self.spare = blocks;
        Ok(())
    }
}

impl Window {
    /// Reads the pages, in long runs, and checks each.
    fn read(&mut self, state: &PinnedRoot) -> Result<()> {
        let mirror = state.mirror();
        let unit = mirror.disks.unit().bytes() as u64;
        let physical_pages = |size: PageSize| (size.bytes() as u64 / unit).max(1);
        let mut wanted: Vec<(u64, u64, PageEntry, usize)> = Vec::with_capacity(self.items.len());
        wanted.extend(self.items.iter().filter_map(|item| match item {
            Item::Node(..) => None,
            &Item::Page(logical, entry, at) => {
                let copy = mirror.disks.readable(entry.place).next().unwrap_or(entry.place.first);
                Some((copy, logical, entry, at))
            }
        }));
        wanted.sort_unstable_by_key(|(copy, ..)| *copy);
        self.blocks.resize(self.bytes, 0);
        let (gap, longest) = (GAP_BYTES / unit, READ_BYTES / unit);
        let mut scratch = Vec::new();
        let mut rest = wanted.as_slice();
        while let Some(&(start, _, first, _)) = rest.first() {
            let mut end = start + physical_pages(first.size);
            let fits = |&&(copy, _, entry, _): &&(u64, u64, PageEntry, usize)| {
                let to = copy + physical_pages(entry.size);
                let fits = copy == start || copy <= end + gap && to <= start + longest;
                if fits {
                    end = to;
                }
                fits
            };
            let (run, others) = rest.split_at(rest.iter().take_while(fits).count());
            scratch.resize(((end - start) * unit) as usize, 0);
            let read = mirror.read_block(start, &mut scratch);
            for &(copy, logical, entry, at) in run {
                let block = &scratch[((copy - start) * unit) as usize..][..entry.size.bytes()];
                let target = &mut self.blocks[at..at + block.len()];
                let identity = mirror.identity_of(0, logical, entry);
                let checked = read.clone().and_then(|()| {
                    Page::check_expected(block, identity).map_err(|detail| {
                        mirror.corrupt(copy, format!("logical page {logical}, level 0: {detail}"))
                    })
                });
                match checked {
                    Ok(_) => target.copy_from_slice(block),
                    Err(error) if entry.place.second == 0 => return Err(error),
                    // One by one: the other copy, or if there is no whole one, the error.
                    Err(_) => mirror.read_page(0, logical, entry)?.seal(identity, target),
                }
                if entry.early {
                    Page::set_batch(target, entry.batch);
                }
            }
            rest = others;
        }
        Ok(())
    }
}

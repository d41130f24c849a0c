//! Taking a backup: the pinned page table is walked in order, and pages are read in the order of their places, some at a
//! time. While some are read and checked, those before are written.

use std::{io::Write, time::Duration};

use super::{
    Backup, BackupHeader, BackupId,
    stream::{Map, SLOTS, encode_group, encode_header, encode_trailer},
    stream_failed,
};
use crate::{
    Error, Result,
    page::{PAGE_BYTES, Page, PageKind},
    store::shadow::{
        pin::PinnedRoot,
        place,
        table::{self, FANOUT, PageEntry},
    },
    sync::thread,
};

/// Pages are gathered until there are so many (8 MiB), then read in the order of their places.
const WINDOW_PAGES: usize = 2048;
/// The longest read (1 MiB).
const READ_PAGES: u64 = 256;
/// Pages that are not asked for are read along with those around them if there are at most so many: cheaper than
/// another read.
const GAP_PAGES: u64 = 8;

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
        let id = BackupId { database: self.root.database, batch: self.batch() };
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
            used_pages: self.root.used,
            logical_pages: self.root.logical_end,
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
        if let Some(entry) = self.root.table.present().filter(|_| self.root.depth > 0) {
            taking.walk(self.root.depth, 0, entry)?;
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
    /// What is to be read next.
    window: Window,
    /// What was read last.
    read: Window,
    /// Memory for blocks.
    spare: Vec<u8>,
    groups: u64,
    pages: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

/// Nodes of level 1 whose pages are read together.
#[derive(Default)]
struct Window {
    /// Their first pages, and what they map.
    nodes: Vec<(u64, Vec<PageEntry>)>,
    /// How many pages are to be read.
    pages: usize,
    /// These, one node's after the other's.
    blocks: Vec<u8>,
}

impl Taking<'_> {
    /// Takes what stands below a node.
    fn walk(&mut self, level: u8, base: u64, entry: PageEntry) -> Result<()> {
        if entry.batch <= self.since {
            return Ok(());
        }
        let node = self.state.store.read_page(level, base, entry)?;
        if node.kind() != PageKind::PageTable {
            let detail = format!("logical page {base}, level {level}: its kind is {:?}", node.kind());
            return Err(self.state.store.corrupt(entry.place.first, detail));
        }
        if level > 1 {
            for slot in 0..FANOUT {
                if let Some(child) = table::entry(&node, slot as usize).present() {
                    self.walk(level - 1, base + slot * table::span(level - 1), child)?;
                }
            }
            return Ok(());
        }
        let mut entries: Vec<PageEntry> = (0..SLOTS).map(|slot| table::entry(&node, slot)).collect();
        if place::is_bitmap(base) {
            // A bitmap's.
            entries[0] = PageEntry::default();
        }
        if self.is_full && entries.iter().all(|entry| entry.present().is_none()) {
            return Ok(());
        }
        let pages = entries.iter().filter(|entry| is_taken(entry, self.since)).count();
        if self.window.pages + pages > WINDOW_PAGES {
            self.next_window()?;
        }
        self.window.pages += pages;
        self.window.nodes.push((base, entries));
        Ok(())
    }

    /// Reads the window, while what was read before is written.
    fn next_window(&mut self) -> Result<()> {
        let (state, since) = (self.state, self.since);
        let mut window = std::mem::take(&mut self.window);
        window.blocks = std::mem::take(&mut self.spare);
        thread::scope(|scope| {
            let reader = scope.spawn(move || window.read(state, since).map(|()| window));
            let written = self.write_read();
            let read = reader.join().expect("reading a window does not panic");
            written?;
            self.read = read?;
            Ok(())
        })
    }

    /// Writes what was read.
    fn write_read(&mut self) -> Result<()> {
        let Window { nodes, blocks, .. } = std::mem::take(&mut self.read);
        let mut rest = blocks.as_slice();
        for (base, entries) in &nodes {
            let map: Map = std::array::from_fn(|slot| entries[slot].present().map_or(0, |entry| entry.batch));
            let pages = map.iter().filter(|&&batch| batch > self.since).count();
            self.output.write(&encode_group(*base, &map))?;
            let (blocks, others) = rest.split_at(pages * PAGE_BYTES);
            self.output.write(blocks)?;
            rest = others;
            self.groups += 1;
            self.pages += pages as u64;
            let logical_end = self.state.root.logical_end;
            (self.progress)((base + FANOUT).min(logical_end), logical_end);
        }
        self.spare = blocks;
        Ok(())
    }
}

/// Whether a page is in the backup.
fn is_taken(entry: &PageEntry, since: u64) -> bool {
    entry.present().is_some() && entry.batch > since
}

impl Window {
    /// Reads the pages, in long runs, and checks each.
    fn read(&mut self, state: &PinnedRoot, since: u64) -> Result<()> {
        let store = &state.store;
        let mut wanted: Vec<(u64, PageEntry, u64)> = Vec::with_capacity(self.pages);
        for (base, entries) in &self.nodes {
            let taken = entries.iter().enumerate().filter(|(_, entry)| is_taken(entry, since));
            wanted.extend(taken.map(|(slot, entry)| {
                let copy = store.disks.readable(entry.place).next().unwrap_or(entry.place.first);
                (copy, *entry, base + slot as u64)
            }));
        }
        let mut places: Vec<usize> = (0..wanted.len()).collect();
        places.sort_unstable_by_key(|&place| wanted[place].0);
        self.blocks.resize(wanted.len() * PAGE_BYTES, 0);
        let mut scratch = Vec::new();
        let mut places = places.as_slice();
        while let Some(&first) = places.first() {
            let start = wanted[first].0;
            let mut end = start + 1;
            let fits = |&&place: &&usize| {
                let physical = wanted[place].0;
                let fits = physical <= end + GAP_PAGES && physical < start + READ_PAGES;
                if fits {
                    end = physical + 1;
                }
                fits
            };
            let count = places.iter().take_while(fits).count();
            scratch.resize((end - start) as usize * PAGE_BYTES, 0);
            let read = store.read_block(start, &mut scratch);
            let (run, others) = places.split_at(count);
            for &place in run {
                let (copy, entry, logical) = wanted[place];
                let block = &scratch[(copy - start) as usize * PAGE_BYTES..][..PAGE_BYTES];
                let target = &mut self.blocks[place * PAGE_BYTES..][..PAGE_BYTES];
                let identity = store.identity_of(0, logical, entry);
                let checked = read.clone().and_then(|()| {
                    Page::check_expected(block, identity).map_err(|detail| {
                        store.corrupt(copy, format!("logical page {logical}, level 0: {detail}"))
                    })
                });
                match checked {
                    Ok(_) => target.copy_from_slice(block),
                    Err(error) if entry.place.second == 0 => return Err(error),
                    // One by one: the other copy, or if there is no whole one, the error.
                    Err(_) => store.read_page(0, logical, entry)?.seal(identity, target),
                }
                if entry.early {
                    Page::set_batch(target, entry.batch);
                }
            }
            places = others;
        }
        Ok(())
    }
}

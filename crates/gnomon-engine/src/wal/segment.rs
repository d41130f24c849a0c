//! The files of a log: segments of equal size, named `<name>.<slot>`, that are used again and again.
//!
//! A segment's number says which part of the log it holds; its slot is only where it is. The first sector of a file is
//! its header:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of the sector's other bytes |
//! | 4..8 | [`MAGIC`] |
//! | 8..12 | format version, [`FORMAT_VERSION`] |
//! | 12..16 | crc32c of the log's name |
//! | 16..24 | the database's identity |
//! | 24..32 | the segment's number |
//! | 32..40 | where the first block begins that begins in this segment or after it |
//! | 40..48 | the file's size in bytes |
//! | 48..52 | the epoch of the block that entered the segment |
//! | 52..56 | 1 once the next segment was entered, durably; else 0 |
//!
//! A header is written together with the block that *enters* the segment, which is to cover its first byte, and made
//! durable by the same syncs. A block counts only if the headers of all segments that it enters are there, say where it
//! ends, and are of its epoch. So what a header says of its first block is right if any block after that was
//! acknowledged, and reading can begin there, wherever in a block the tail of the log is. And a block that a crash left
//! whole, but without a header, does not come to life when a later run writes one and crashes as well.
//!
//! When a block that enters a segment is durable, and before that is acknowledged, the header of the segment before it
//! is written once more, with the note that it was left. So a log whose newest file is gone, or is an older copy of
//! itself, is told from one that a crash has ended. (Opening adds a note that a crash has prevented.)
//!
//! A file without a header that counts is spare. It was filled with zeros and synced when it was made: to overwrite
//! what was written once changes nothing but data, and a sync of it is much cheaper than one of a file that grows. (A
//! crash while a file is made can leave a spare one that is not filled. It is used all the same.)

use super::{
    LogOptions,
    block::{Block, Header, field},
};
use crate::{
    Error, Result,
    disk::{Disk, File, SECTOR_BYTES},
    failpoint::{Failpoint, Failpoints},
    sync::{Arc, Mutex},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::ErrorKind,
    ops::{ControlFlow, Range},
};

const MAGIC: [u8; 4] = *b"GnLs";
/// The version of the format of segments. Headers of version 1 have no note that the segment was left.
const FORMAT_VERSION: u32 = 2;
const SECTOR: u64 = SECTOR_BYTES as u64;
/// New files are filled with zeros in writes of so many bytes.
const FILL_BYTES: usize = 1 << 20;
/// Files are looked through in reads of so many bytes.
const SCAN_BYTES: usize = 1 << 20;
/// In the unit of [`Error::Corrupt`].
const PAGE_BYTES: u64 = 4096;

/// The files of a log, and what is where in them.
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    name: String,
    database: u64,
    file_bytes: u64,
    /// Held by the thread that makes or removes files.
    changing: Mutex<()>,
    state: Mutex<State>,
    failpoints: Failpoints,
}

#[derive(Default)]
struct State {
    /// The segments that hold a part of the log, by number; once the log is open there is no gap between them.
    live: BTreeMap<u64, Segment>,
    spare: Vec<Segment>,
    /// Where the durable blocks begin, from the tail's on.
    blocks: VecDeque<u64>,
    /// There are to be files up to this position.
    ensured: u64,
    /// Number of segments that were needed at the same time lately.
    lately: u64,
}

struct Segment {
    slot: u32,
    file: Arc<dyn File>,
    /// The entry in its header; none if that is not durable.
    entry: Option<Entry>,
    /// True if the header says that the next segment was entered.
    was_left: bool,
}

/// How a segment was entered.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Where the first block begins that begins in the segment or after it.
    first: u64,
    /// Of the block that entered it.
    epoch: u32,
}

/// The part of a block that lies in one file.
struct Piece {
    number: u64,
    file: Arc<dyn File>,
    /// In the file.
    offset: u64,
    /// In the block.
    part: Range<usize>,
    /// The entry that the segment's header must have, if the block enters the segment.
    entry: Option<Entry>,
}

impl State {
    /// Returns the segment in which a read of everything from a position on must begin, and its entry.
    fn begin(&self, tail: u64) -> Option<(u64, Entry)> {
        let entries = self.live.iter().rev().map(|(number, segment)| (*number, segment.entry));
        entries.filter_map(|(number, entry)| Some((number, entry?))).find(|(_, entry)| entry.first <= tail)
    }

    /// Returns the number of segments that there are to be from the first live one on, for the log up to a position.
    fn needed(&self, upto: u64, capacity: u64) -> u64 {
        let (Some((low, _)), Some((high, _))) = (self.live.first_key_value(), self.live.last_key_value())
        else {
            return 0;
        };
        (upto.saturating_sub(1) / capacity).max(*high) + 1 - low
    }

    fn files(&self) -> u64 {
        (self.live.len() + self.spare.len()) as u64
    }
}

fn damage(file: String, page: u64, detail: &str) -> Error {
    Error::Corrupt { file, page, detail: format!("{detail}; restore the files of the log, or a backup") }
}

/// The newest run of which there is a block in the files of a log: for an owner that has lost where the log begins.
pub(super) fn newest_run(disk: &Arc<dyn Disk>, name: &str, database: u64) -> Result<Option<u32>> {
    let how = |segment_bytes| LogOptions {
        name: name.into(),
        database,
        segment_bytes,
        epoch: 0,
        reaches: crate::id::Lsn(0),
        failpoints: Failpoints::default(),
    };
    let mut newest = None;
    for slot in Segments::new(disk, how(PAGE_BYTES)).slots()? {
        let file = disk.open(&format!("{name}.{slot}"), false)?;
        let bytes = file.len()?;
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) {
            continue;
        }
        Segments::new(disk, how(bytes)).scan::<()>(&*file, SECTOR, &mut |header| {
            newest = newest.max(Some(header.epoch));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(newest)
}

impl Segments {
    fn new(disk: &Arc<dyn Disk>, how: LogOptions) -> Segments {
        let fits = how.segment_bytes > 0 && how.segment_bytes.is_multiple_of(PAGE_BYTES);
        assert!(fits, "segments of {} bytes", how.segment_bytes);
        Segments {
            disk: disk.clone(),
            name: how.name,
            database: how.database,
            file_bytes: how.segment_bytes,
            changing: Mutex::default(),
            state: Mutex::default(),
            failpoints: how.failpoints,
        }
    }

    /// Makes a new log's first segment. Removes the files that are left of a log of that name.
    pub fn create(disk: &Arc<dyn Disk>, how: LogOptions) -> Result<Segments> {
        let epoch = how.epoch;
        let segments = Segments::new(disk, how);
        for slot in segments.slots()? {
            disk.remove(&segments.file_name(slot))?;
        }
        segments.make()?;
        let mut state = segments.state.lock();
        let mut segment = state.spare.pop().expect("made");
        let entry = Entry { first: 0, epoch };
        segment.file.write_at(0, &segments.header(0, entry, false))?;
        segment.file.sync()?;
        segment.entry = Some(entry);
        state.live.insert(0, segment);
        drop(state);
        Ok(segments)
    }

    /// The segments of a log, as their headers tell. Nothing is changed.
    pub fn open(disk: &Arc<dyn Disk>, how: LogOptions) -> Result<Segments> {
        let segments = Segments::new(disk, how);
        let mut state = segments.state.lock();
        for slot in segments.slots()? {
            let file = disk.open(&segments.file_name(slot), false)?;
            let mut segment = Segment { slot, file, entry: None, was_left: false };
            let bytes = segment.file.len()?;
            let header = if bytes < SECTOR { None } else { segments.read_header(&segment)? };
            match header {
                // One that was about to be made has nothing in it.
                Some((number, ..)) if bytes < segments.file_bytes => {
                    let detail = format!("segment {number} has {bytes} bytes of {}", segments.file_bytes);
                    return Err(segments.damaged(slot, bytes, detail));
                }
                None => state.spare.push(segment),
                Some((number, entry, was_left)) => {
                    segment.entry = Some(entry);
                    segment.was_left = was_left;
                    if let Some(other) = state.live.insert(number, segment) {
                        let detail =
                            format!("it is segment {number}, as is {}", segments.file_name(other.slot));
                        return Err(segments.damaged(slot, 0, detail));
                    }
                }
            }
        }
        drop(state);
        Ok(segments)
    }

    /// Where to begin to read for everything from a position on, and the epoch from which on blocks count there; none
    /// if the segment that tells is not there.
    pub fn begin(&self, tail: u64) -> Option<(u64, u32)> {
        self.state.lock().begin(tail).map(|(_, entry)| (entry.first, entry.epoch))
    }

    /// Refuses a log that ends before a segment that was entered durably.
    pub fn check_left(&self, end: u64) -> Result<()> {
        let state = self.state.lock();
        let missing = |number: u64| end <= (number + 1).saturating_mul(self.capacity());
        let left = state.live.iter().find(|(number, segment)| segment.was_left && missing(**number));
        let Some((number, slot)) = left.map(|(number, segment)| (*number, segment.slot)) else {
            return Ok(());
        };
        drop(state);
        let detail = format!(
            "the log went on from it to segment {}, but ends at {end}: the file of that is gone, cut or an older copy",
            number + 1
        );
        Err(self.damaged(slot, 0, detail))
    }

    /// Notes in the header of each segment before those given that it was left.
    fn note_left(&self, entered: impl Iterator<Item = u64>) -> Result<()> {
        for number in entered {
            let state = self.state.lock();
            let before = number.checked_sub(1).and_then(|before| Some((before, state.live.get(&before)?)));
            let Some((before, Segment { file, entry: Some(entry), was_left: false, .. })) = before else {
                continue;
            };
            let (file, header) = (file.clone(), self.header(before, *entry, true));
            drop(state);
            file.write_durably_at(0, &header)?;
            if let Some(segment) = self.state.lock().live.get_mut(&before) {
                segment.was_left = true;
            }
        }
        Ok(())
    }

    /// Where the files end that hold a part of the log.
    pub fn upto(&self) -> u64 {
        let last = self.state.lock().live.last_key_value().map(|(number, _)| *number);
        last.map_or(0, |number| (number + 1).saturating_mul(self.capacity()))
    }

    /// Ends the opening of a log whose blocks were read from the tail to the end. What else its files hold is
    /// forgotten: a segment beyond the end may get its number again in another file.
    pub fn settle(&self, tail: u64, end: u64) -> Result<()> {
        let mut state = self.state.lock();
        let (low, entry) = state.begin(tail).expect("it was read from there");
        let high = low.max(end.saturating_sub(1) / self.capacity());
        let State { live, spare, lately, .. } = &mut *state;
        if let Some(segment) = live.get_mut(&high).filter(|segment| segment.was_left && high > low) {
            segment.was_left = false;
            if let Some(entry) = segment.entry {
                segment.file.write_durably_at(0, &self.header(high, entry, false))?;
            }
        }
        // If no block begins there, the header may be of one that did not become durable, and be in a cache only.
        let first = live.get_mut(&low).expect("it was read from there");
        first.was_left &= low < high;
        first.file.write_durably_at(0, &self.header(low, entry, first.was_left))?;
        let beyond = live.split_off(&(high + 1));
        let kept = live.split_off(&low);
        let before = std::mem::replace(live, kept);
        spare.extend(before.into_values().chain(beyond.into_values()));
        *lately = live.len() as u64;
        let mut short = Vec::new();
        for segment in spare.iter_mut() {
            if segment.file.len()? < self.file_bytes {
                short.push(segment.slot);
            } else if segment.entry.take().is_some() {
                segment.file.write_at(0, &[0; SECTOR_BYTES])?;
                segment.file.sync()?;
            }
        }
        spare.retain(|segment| !short.contains(&segment.slot));
        drop(state);
        for slot in short {
            self.disk.remove(&self.file_name(slot))?;
        }
        // A crash may have come before the note.
        self.note_left(low + 1..=high)
    }

    /// Writes a block and makes it durable, with the headers of the segments that it enters. One at a time. Returns how
    /// many bytes were written.
    pub fn write(&self, block: &Block) -> Result<u64> {
        let Block { header, bytes } = block;
        self.enter(header.start, header.start + bytes.len() as u64)?;
        let mut written = bytes.len() as u64;
        let pieces = self.live_pieces(header.start, bytes.len(), header.epoch).expect("entered");
        if let [Piece { file, offset, entry: None, .. }] = &pieces[..]
            && !self.failpoints.is_on(Failpoint::ForceUnsynced)
        {
            file.write_durably_at(*offset, bytes)?;
            self.state.lock().blocks.push_back(header.start);
            return Ok(written);
        }
        for piece in &pieces {
            if let Some(entry) = piece.entry
                && !self.keeps_header(piece)
            {
                piece.file.write_at(0, &self.header(piece.number, entry, false))?;
                written += SECTOR;
            }
            piece.file.write_at(piece.offset, &bytes[piece.part.clone()])?;
        }
        if !self.failpoints.is_on(Failpoint::ForceUnsynced) {
            pieces.iter().try_for_each(|piece| piece.file.sync())?;
        }
        let mut state = self.state.lock();
        let entered = pieces.iter().filter(|piece| piece.entry.is_some());
        for piece in entered.clone() {
            let segment = state.live.get_mut(&piece.number).expect("entered");
            (segment.entry, segment.was_left) = (piece.entry, false);
        }
        drop(state);
        self.note_left(entered.map(|piece| piece.number))?;
        self.state.lock().blocks.push_back(header.start);
        Ok(written)
    }

    /// The block that begins at a position, if one does that is whole and was written there.
    pub fn read(&self, start: u64) -> Result<Option<Block>> {
        let Some(pieces) = self.live_pieces(start, SECTOR_BYTES, 0) else { return Ok(None) };
        let mut sector = [0; SECTOR_BYTES];
        pieces[0].file.read_at(pieces[0].offset, &mut sector)?;
        let header = Header::parse(&sector).filter(|it| it.start == start && it.database == self.database);
        let Some((header, end)) = header.and_then(|header| Some((header, header.end()?))) else {
            return Ok(None);
        };
        // Its length may be damaged: memory is taken only for what there are segments for.
        let length = (end - start) as usize;
        let Some(pieces) = self.live_pieces(start, length, header.epoch) else { return Ok(None) };
        let state = self.state.lock();
        let told = |piece: &Piece| state.live.get(&piece.number).and_then(|segment| segment.entry);
        let fits = |piece: &Piece| match (piece.entry, told(piece)) {
            (Some(entry), Some(told)) if self.failpoints.is_on(Failpoint::EntryOfAnyRun) => {
                entry.first == told.first
            }
            (Some(entry), told) => told == Some(entry),
            (None, _) => true,
        };
        if !pieces.iter().all(fits) {
            return Ok(None);
        }
        drop(state);
        self.read_pieces(header, pieces)
    }

    /// The block of a header, if it is whole. It may have lost its end with that of a file.
    fn read_pieces(&self, header: Header, pieces: Vec<Piece>) -> Result<Option<Block>> {
        let mut bytes = vec![0; pieces.last().map_or(0, |piece| piece.part.end)];
        for Piece { file, offset, part, .. } in pieces {
            match file.read_at(offset, &mut bytes[part]) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
        }
        let is_trusted = self.failpoints.is_on(Failpoint::TornTailAccepted);
        Ok(Some(Block { header, bytes }).filter(|block| is_trusted || block.is_whole()))
    }

    /// Where a whole block begins behind a position, of this epoch or a newer one, if there is one. A file whose header
    /// is damaged is taken for spare, one whose header was not written in time for an older segment: they are looked
    /// through too, as far as what they have is not older. If one of them cannot be read, it may be such a segment.
    pub fn block_behind(&self, at: u64, epoch: u32) -> Result<Option<u64>> {
        let is_behind = |header: &Header| header.start > at && header.epoch >= epoch;
        let (mut files, others) = {
            let state = self.state.lock();
            let of_segment = |(number, segment): (&u64, &Segment)| (*number, segment.file.clone());
            let first = at / self.capacity();
            let files: BTreeMap<u64, Arc<dyn File>> = state.live.range(first..).map(of_segment).collect();
            let older = state.live.range(..first).map(|(_, segment)| segment);
            let others: Vec<_> = older.chain(&state.spare).map(|segment| segment.file.clone()).collect();
            (files, others)
        };
        for file in others {
            let number = self.scan(&*file, SECTOR, &mut |header| {
                Ok(match header.start < at {
                    true => ControlFlow::Break(None),
                    false if is_behind(&header) => ControlFlow::Break(Some(header.start / self.capacity())),
                    false => ControlFlow::Continue(()),
                })
            })?;
            if let Some(number) = number.flatten() {
                files.entry(number).or_insert(file);
            }
        }
        let file_of = |number| files.get(&number).cloned();
        for (number, file) in &files {
            let offset = SECTOR + (at + SECTOR).saturating_sub(number * self.capacity());
            let found = self.scan(&**file, offset, &mut |header| {
                if header.start / self.capacity() != *number || !is_behind(&header) {
                    return Ok(ControlFlow::Continue(()));
                }
                let bytes = header.end().map(|end| (end - header.start) as usize);
                let pieces = bytes.and_then(|it| self.pieces(&file_of, header.start, it, header.epoch));
                let (start, block) = (header.start, pieces.map(|pieces| self.read_pieces(header, pieces)));
                Ok(match block.transpose()?.flatten() {
                    Some(_) => ControlFlow::Break(start),
                    None => ControlFlow::Continue(()),
                })
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Visits what looks like the header of a block of this log that was written there, from an offset in a file on.
    fn scan<B>(
        &self,
        file: &dyn File,
        mut offset: u64,
        visit: &mut dyn FnMut(Header) -> Result<ControlFlow<B>>,
    ) -> Result<Option<B>> {
        let end = file.len()?.min(self.file_bytes) / SECTOR * SECTOR;
        let mut buffer = vec![0; SCAN_BYTES.min(self.file_bytes as usize)];
        while offset < end {
            let bytes = buffer.len().min((end - offset) as usize);
            file.read_at(offset, &mut buffer[..bytes])?;
            for sector in buffer[..bytes].chunks_exact(SECTOR_BYTES) {
                if let Some(header) = Header::parse(sector)
                    && header.database == self.database
                    && header.start % self.capacity() == offset - SECTOR
                    && let ControlFlow::Break(found) = visit(header)?
                {
                    return Ok(Some(found));
                }
                offset += SECTOR;
            }
        }
        Ok(None)
    }

    /// Notes a durable block that was found.
    pub fn found(&self, start: u64) {
        self.state.lock().blocks.push_back(start);
    }

    /// Where the durable block begins that has a position in it or before it.
    pub fn block_of(&self, at: u64) -> Option<u64> {
        let state = self.state.lock();
        let after = state.blocks.partition_point(|start| *start <= at);
        after.checked_sub(1).map(|index| state.blocks[index])
    }

    /// Makes files for the log up to a position.
    pub fn ensure(&self, upto: u64) -> Result<()> {
        let _alone = self.changing.lock();
        loop {
            let mut state = self.state.lock();
            let needed = state.needed(upto, self.capacity());
            if needed <= state.files() {
                state.ensured = state.ensured.max(upto);
                return Ok(());
            }
            drop(state);
            self.make()?;
        }
    }

    /// Makes segments spare that are not needed to read everything from a position on. Then removes spare files while
    /// there are more than twice as many files as segments were needed lately.
    pub fn recycle(&self, tail: u64) -> Result<()> {
        let _alone = self.changing.lock();
        let mut state = self.state.lock();
        while state.blocks.get(1).is_some_and(|next| *next <= tail) {
            state.blocks.pop_front();
        }
        let Some((low, _)) = state.begin(tail) else { return Ok(()) };
        let needed = state.needed(state.ensured, self.capacity());
        let kept = state.live.split_off(&low);
        let freed = std::mem::replace(&mut state.live, kept);
        if freed.is_empty() {
            return Ok(());
        }
        state.spare.extend(freed.into_values().map(|segment| Segment {
            entry: None,
            was_left: false,
            ..segment
        }));
        state.lately = needed.max(state.lately.saturating_sub(1));
        let surplus = state.files().saturating_sub(2 * state.lately) as usize;
        let from = state.spare.len().saturating_sub(surplus);
        let removed = state.spare.split_off(from);
        drop(state);
        removed.iter().try_for_each(|segment| Ok(self.disk.remove(&self.file_name(segment.slot))?))
    }

    /// Gives a file to every segment of a range that has none.
    fn enter(&self, start: u64, end: u64) -> Result<()> {
        for number in start / self.capacity()..=(end - 1) / self.capacity() {
            loop {
                let mut state = self.state.lock();
                if state.live.contains_key(&number) {
                    break;
                }
                if let Some(segment) = state.spare.pop() {
                    state.live.insert(number, segment);
                    break;
                }
                drop(state);
                let _alone = self.changing.lock();
                self.make()?;
            }
        }
        Ok(())
    }

    /// Makes a spare file. The caller holds `changing`, or no other thread has the log yet.
    fn make(&self) -> Result<()> {
        let state = self.state.lock();
        let taken: BTreeSet<u32> =
            state.live.values().chain(&state.spare).map(|segment| segment.slot).collect();
        drop(state);
        let slot = (0..).find(|slot| !taken.contains(slot)).expect("there are fewer files than numbers");
        let file = self.disk.open(&self.file_name(slot), true)?;
        if let Err(error) = self.fill(&*file) {
            // That it could not be made matters more than that it could not be removed: the next opening does that.
            let _ = self.disk.remove(&self.file_name(slot));
            return Err(error);
        }
        self.state.lock().spare.push(Segment { slot, file, entry: None, was_left: false });
        Ok(())
    }

    fn fill(&self, file: &dyn File) -> Result<()> {
        file.allocate(self.file_bytes)?;
        let zeros = vec![0; FILL_BYTES.min(self.file_bytes as usize)];
        for offset in (0..self.file_bytes).step_by(FILL_BYTES) {
            let bytes = zeros.len().min((self.file_bytes - offset) as usize);
            file.write_at(offset, &zeros[..bytes])?;
        }
        Ok(file.sync()?)
    }

    /// Where the bytes of a block are in the log's segments; none if one is missing.
    fn live_pieces(&self, start: u64, bytes: usize, epoch: u32) -> Option<Vec<Piece>> {
        let state = self.state.lock();
        let file_of = |number| state.live.get(&number).map(|segment| segment.file.clone());
        self.pieces(&file_of, start, bytes, epoch)
    }

    /// The same in the files that are given for segments.
    fn pieces(
        &self,
        file_of: &dyn Fn(u64) -> Option<Arc<dyn File>>,
        start: u64,
        bytes: usize,
        epoch: u32,
    ) -> Option<Vec<Piece>> {
        let capacity = self.capacity();
        let mut pieces = Vec::with_capacity(1);
        let mut done = 0;
        while done < bytes {
            let at = start + done as u64;
            let (number, within) = (at / capacity, at % capacity);
            let end = bytes.min(done + (capacity - within) as usize);
            let first = if done == 0 { start } else { start + bytes as u64 };
            let entry = (within == 0).then_some(Entry { first, epoch });
            let file = file_of(number)?;
            pieces.push(Piece { number, file, offset: SECTOR + within, part: done..end, entry });
            done = end;
        }
        Some(pieces)
    }

    fn header(&self, number: u64, entry: Entry, was_left: bool) -> [u8; SECTOR_BYTES] {
        self.header_of(FORMAT_VERSION, number, entry, was_left)
    }

    fn header_of(&self, version: u32, number: u64, entry: Entry, was_left: bool) -> [u8; SECTOR_BYTES] {
        let mut header = [0; SECTOR_BYTES];
        header[4..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&version.to_le_bytes());
        header[12..16].copy_from_slice(&crc32c::crc32c(self.name.as_bytes()).to_le_bytes());
        header[16..24].copy_from_slice(&self.database.to_le_bytes());
        header[24..32].copy_from_slice(&number.to_le_bytes());
        header[32..40].copy_from_slice(&entry.first.to_le_bytes());
        header[40..48].copy_from_slice(&self.file_bytes.to_le_bytes());
        header[48..52].copy_from_slice(&entry.epoch.to_le_bytes());
        header[52..56].copy_from_slice(&u32::from(was_left).to_le_bytes());
        let sum = crc32c::crc32c(&header[4..]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// Reads a segment's header: its number, its entry, and true if the next segment was entered. None if there is no
    /// header, or a damaged one.
    fn read_header(&self, segment: &Segment) -> Result<Option<(u64, Entry, bool)>> {
        let mut header = [0; SECTOR_BYTES];
        segment.file.read_at(0, &mut header)?;
        let word = |at| u32::from_le_bytes(field(&header, at).expect("within the sector"));
        let long = |at| u64::from_le_bytes(field(&header, at).expect("within the sector"));
        if word(0) != crc32c::crc32c(&header[4..]) || header[4..8] != MAGIC {
            return Ok(None);
        }
        if word(8) > FORMAT_VERSION {
            return Err(Error::TooNew { found: word(8), known: FORMAT_VERSION });
        }
        let (number, entry) = (long(24), Entry { first: long(32), epoch: word(48) });
        let was_left = word(52) != 0;
        let has_end = number.checked_add(1).and_then(|next| next.checked_mul(self.capacity())).is_some();
        if header != self.header_of(word(8), number, entry, was_left)
            || !entry.first.is_multiple_of(SECTOR)
            || !has_end
        {
            return Err(self.damaged(segment.slot, 0, self.foreign(long(16))));
        }
        Ok(Some((number, entry, was_left)))
    }

    /// The text for a file with the header of another log, of this database or of another one.
    fn foreign(&self, database: u64) -> String {
        match database == self.database {
            true => "it is of another log".into(),
            false => format!("it is of the database {database:016x}, this is {:016x}", self.database),
        }
    }

    /// The numbers of the files that the log may have.
    fn slots(&self) -> Result<Vec<u32>> {
        let names = self.disk.list()?;
        let slots = names.iter().filter_map(|name| {
            let slot = name.strip_prefix(&self.name)?.strip_prefix('.')?.parse().ok()?;
            (*name == self.file_name(slot)).then_some(slot)
        });
        Ok(slots.collect())
    }

    fn file_name(&self, slot: u32) -> String {
        format!("{}.{slot}", self.name)
    }

    /// The bytes of the log that a segment holds.
    fn capacity(&self) -> u64 {
        self.file_bytes - SECTOR
    }

    /// The error of what is wrong at a position of the log.
    pub fn damaged_at(&self, at: u64, detail: String) -> Error {
        let slot = self.state.lock().live.get(&(at / self.capacity())).map(|segment| segment.slot);
        match slot {
            Some(slot) => self.damaged(slot, SECTOR + at % self.capacity(), detail),
            None => damage(self.name.clone(), 0, &detail),
        }
    }

    fn damaged(&self, slot: u32, offset: u64, detail: String) -> Error {
        damage(self.file_name(slot), offset / PAGE_BYTES, &detail)
    }

    fn keeps_header(&self, piece: &Piece) -> bool {
        let mut old = [0; SECTOR_BYTES];
        self.failpoints.is_on(Failpoint::OldHeaderKept)
            && piece.file.read_at(0, &mut old).is_ok()
            && old[4..8] == MAGIC
            && old[24..32] != piece.number.to_le_bytes()
    }
}

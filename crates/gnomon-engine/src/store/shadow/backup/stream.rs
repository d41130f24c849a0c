//! The stream of a backup, and reading it with every check that needs no other stream.
//!
//! Header:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `GNOMONBK` |
//! | 8..12 | stream version, [`VERSION`] |
//! | 12..16 | crc32c of the header with this field zero |
//! | 16..24 | the database's identity |
//! | 24..32 | batch of the state |
//! | 32..40 | batch of the state that it goes on from; 0 in a full backup |
//! | 40..48 | CSN: the last commit in the state |
//! | 48..56 | logical pages: each page number below was in use at some time |
//! | 56..64 | physical pages that the state uses |
//! | 64..72 | when the backup was begun, in seconds since 1970-01-01 00:00 UTC |
//! | 72..80 | log2 of the bytes of a physical page, less 9 |
//!
//! Group, for a node of level 1:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of bytes 4..1528 |
//! | 4..8 | 1 |
//! | 8..16 | the first logical page that the node maps; larger than in the group before |
//! | 16..1528 | for each slot 5 bytes for the batch that wrote the page, or 0 for no page, and 1 for log2 of its bytes, less 9 |
//! | 1528.. | the pages with a batch larger than what the backup goes on from, in the order of their slots |
//!
//! Trailer:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of bytes 4..32 |
//! | 4..8 | 2 |
//! | 8..16 | how many groups there are |
//! | 16..24 | how many pages there are |
//! | 24..28 | crc32c of all of the stream before the trailer |
//! | 28..32 | zero |
//!
//! A full backup has no groups without pages. An incremental one has a group for each node that is newer than what it
//! goes on from; a node without a group is as it was. Nothing follows the trailer.

use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

use super::{Backup, BackupHeader, BackupId, stream_failed};
use crate::{
    Csn, Error, Result,
    page::{Identity, Page, PageKind, PageSize},
    store::shadow::{
        page_table::{
            node::{BLOCK, DEPTH_MAX, FANOUT, span},
            place::is_bitmap,
        },
        superblock::NUMBER_MAX,
    },
};

/// The version of streams that this code reads and writes. Older ones were never released.
pub(super) const VERSION: u32 = 3;
const MAGIC: [u8; 8] = *b"GNOMONBK";
const HEADER_BYTES: usize = 80;
const TRAILER_BYTES: usize = 32;
const BATCH_BYTES: usize = 5;
const MAPPED_BYTES: usize = BATCH_BYTES + 1;
const MAP_AT: usize = 16;
const GROUP_HEAD_BYTES: usize = MAP_AT + SLOTS * MAPPED_BYTES;
const GROUP: u32 = 1;
const TRAILER: u32 = 2;
/// Pages of a group at most.
pub(super) const SLOTS: usize = FANOUT as usize;

/// The entry of a map for a page: the batch that wrote it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub batch: u64,
    pub size: PageSize,
}

/// The pages of a node, by slot.
pub(super) type Map = [Option<Mapped>; SLOTS];

pub(super) fn encode_header(header: &BackupHeader) -> [u8; HEADER_BYTES] {
    let mut block = [0; HEADER_BYTES];
    block[..8].copy_from_slice(&MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let words = [
        header.id.database,
        header.id.batch,
        header.since.map_or(0, |since| since.batch),
        header.csn.0,
        header.logical_pages,
        header.used_pages,
        header.begun.as_secs(),
        u64::from(header.page_size_min.code()),
    ];
    for (bytes, word) in block[16..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let sum = crc32c::crc32c(&block);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    block
}

fn decode_header(mut block: [u8; HEADER_BYTES]) -> Result<BackupHeader, Fault> {
    if block[..8] != MAGIC {
        return Err(Fault::Damaged("it does not begin as a backup of Gnomon does".into()));
    }
    let version = half(&block, 8);
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let stored = half(&block, 12);
    block[12..16].fill(0);
    if stored != crc32c::crc32c(&block) {
        return Err(Fault::Damaged("its header's checksum does not fit".into()));
    }
    let [database, batch, since, csn, logical_pages, used_pages, begun, unit] =
        std::array::from_fn(|i| word(&block, 16 + 8 * i));
    if batch >= NUMBER_MAX || since > batch || logical_pages > span(DEPTH_MAX) {
        return Err(Fault::Damaged("its header's numbers do not fit each other".into()));
    }
    let unit = u8::try_from(unit).ok().and_then(PageSize::from_code).filter(|unit| *unit <= BLOCK);
    let page_size_min =
        unit.ok_or_else(|| Fault::Damaged("its physical pages have no size that they can have".into()))?;
    Ok(BackupHeader {
        id: BackupId { database, batch },
        page_size_min,
        since: (since > 0).then_some(BackupId { database, batch: since }),
        csn: Csn(csn),
        begun: Duration::from_secs(begun),
        used_pages,
        logical_pages,
    })
}

pub(super) fn encode_group(base: u64, map: &Map) -> [u8; GROUP_HEAD_BYTES] {
    let mut block = [0; GROUP_HEAD_BYTES];
    block[4..8].copy_from_slice(&GROUP.to_le_bytes());
    block[8..16].copy_from_slice(&base.to_le_bytes());
    for (bytes, mapped) in block[MAP_AT..].chunks_exact_mut(MAPPED_BYTES).zip(map) {
        if let Some(Mapped { batch, size }) = mapped {
            bytes[..BATCH_BYTES].copy_from_slice(&batch.to_le_bytes()[..BATCH_BYTES]);
            bytes[BATCH_BYTES] = size.code();
        }
    }
    let sum = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

/// Encodes a trailer. `sum`: the crc32c of all of the stream before.
pub(super) fn encode_trailer(groups: u64, pages: u64, sum: u32) -> [u8; TRAILER_BYTES] {
    let mut block = [0; TRAILER_BYTES];
    block[4..8].copy_from_slice(&TRAILER.to_le_bytes());
    block[8..16].copy_from_slice(&groups.to_le_bytes());
    block[16..24].copy_from_slice(&pages.to_le_bytes());
    block[24..28].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

fn half(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"))
}

fn word(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"))
}

/// The fault of a part of a stream.
enum Fault {
    Damaged(String),
    Version(u32),
}

/// The beginning of a group: a node, and the map of its pages.
pub(super) struct Group {
    pub base: u64,
    pub map: Box<Map>,
    /// The slots from here on may have pages that were not read yet.
    next: usize,
}

/// A reader of a stream, which checks all of it.
pub(super) struct Source<R> {
    input: R,
    /// Which one of those given, for errors.
    number: usize,
    pub header: BackupHeader,
    /// Bytes read so far, and their crc32c.
    offset: u64,
    sum: u32,
    groups: u64,
    pages: u64,
    /// The group that was begun last; none at the end.
    pub group: Option<Group>,
    /// The page that was read last.
    block: Vec<u8>,
}

impl<R: Read> Source<R> {
    /// Reads the header.
    pub fn open(input: R, number: usize) -> Result<Source<R>> {
        let id = BackupId { database: 0, batch: 0 };
        let header = BackupHeader {
            id,
            since: None,
            csn: Csn(0),
            begun: Duration::ZERO,
            page_size_min: BLOCK,
            used_pages: 0,
            logical_pages: 0,
        };
        let mut source = Source {
            input,
            number,
            header,
            offset: 0,
            sum: 0,
            groups: 0,
            pages: 0,
            group: None,
            block: Vec::new(),
        };
        let mut block = [0; HEADER_BYTES];
        source.fill(&mut block)?;
        source.header = decode_header(block).map_err(|fault| match fault {
            Fault::Damaged(detail) => source.damaged(0, detail),
            Fault::Version(found) if found > VERSION => Error::TooNew { found, known: VERSION },
            Fault::Version(found) => Error::TooOld { found, oldest: VERSION },
        })?;
        source.note(&block);
        Ok(source)
    }

    pub fn damaged(&self, offset: u64, detail: impl Into<String>) -> Error {
        Error::BackupDamaged { backup: self.number, offset, detail: detail.into() }
    }

    fn fill(&mut self, block: &mut [u8]) -> Result<()> {
        self.input.read_exact(block).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.damaged(self.offset, "it is cut short from here on"),
            _ => stream_failed(error),
        })
    }

    fn note(&mut self, block: &[u8]) {
        self.sum = crc32c::crc32c_append(self.sum, block);
        self.offset += block.len() as u64;
    }

    /// Skips the rest of the group, and reads the beginning of the next one, or to the end of the stream.
    pub fn advance(&mut self) -> Result<()> {
        while self.read_page(SLOTS)?.is_some() {}
        let previous = self.group.take();
        let at = self.offset;
        let mut head = [0; GROUP_HEAD_BYTES];
        self.fill(&mut head[..8])?;
        match half(&head, 4) {
            GROUP => {
                self.fill(&mut head[8..])?;
                if half(&head, 0) != crc32c::crc32c(&head[4..]) {
                    return Err(self.damaged(at, "the checksum of a group does not fit"));
                }
                self.note(&head);
                self.group = Some(self.read_group(at, &head, previous.as_ref())?);
                self.groups += 1;
                Ok(())
            }
            TRAILER => {
                self.fill(&mut head[8..TRAILER_BYTES])?;
                let trailer = &head[..TRAILER_BYTES];
                if half(trailer, 0) != crc32c::crc32c(&trailer[4..]) {
                    return Err(self.damaged(at, "the checksum of its trailer does not fit"));
                }
                if (word(trailer, 8), word(trailer, 16)) != (self.groups, self.pages)
                    || half(trailer, 24) != self.sum
                {
                    return Err(self.damaged(at, "its trailer does not fit what came before"));
                }
                self.note(&head[..TRAILER_BYTES]);
                let mut more = [0];
                match self.input.read(&mut more) {
                    Ok(0) => Ok(()),
                    Ok(_) => Err(self.damaged(self.offset, "something follows its end")),
                    Err(error) => Err(stream_failed(error)),
                }
            }
            _ => Err(self.damaged(at, "neither a group nor the trailer begins here")),
        }
    }

    fn read_group(&self, at: u64, head: &[u8], previous: Option<&Group>) -> Result<Group> {
        let base = word(head, 8);
        let mut map: Box<Map> = Box::new([None; SLOTS]);
        let mut fits = base.is_multiple_of(FANOUT)
            && base < span(DEPTH_MAX)
            && previous.is_none_or(|previous| previous.base < base);
        for (mapped, bytes) in map.iter_mut().zip(head[MAP_AT..].chunks_exact(MAPPED_BYTES)) {
            let mut word = [0; 8];
            word[..BATCH_BYTES].copy_from_slice(&bytes[..BATCH_BYTES]);
            let batch = u64::from_le_bytes(word);
            let size = PageSize::from_code(bytes[BATCH_BYTES]);
            fits &= batch <= self.header.id.batch
                && size.is_some_and(|size| batch == 0 || size >= self.header.page_size_min);
            *mapped = size.filter(|_| batch > 0).map(|size| Mapped { batch, size });
        }
        fits &= !(is_bitmap(base) && map[0].is_some());
        if fits {
            Ok(Group { base, map, next: 0 })
        } else {
            Err(self.damaged(at, "the numbers of a group do not fit"))
        }
    }

    /// Returns the page of a slot of the group, if it is in this backup: whole, and the one that the map names. Slots
    /// must be asked for in ascending order.
    pub fn page(&mut self, slot: usize) -> Result<Option<&[u8]>> {
        while let Some(found) = self.read_page(slot + 1)? {
            if found == slot {
                return Ok(Some(&self.block));
            }
        }
        Ok(None)
    }

    /// Reads the next page of the group, if its slot is before `end`. Returns the slot.
    fn read_page(&mut self, end: usize) -> Result<Option<usize>> {
        let since = self.header.since.map_or(0, |since| since.batch);
        let Some(group) = &mut self.group else { return Ok(None) };
        let here = (group.next..end).find_map(|slot| {
            let mapped = group.map[slot].filter(|mapped| mapped.batch > since)?;
            Some((slot, mapped))
        });
        let Some((slot, Mapped { batch, size })) = here else {
            group.next = group.next.max(end);
            return Ok(None);
        };
        group.next = slot + 1;
        let logical = group.base + slot as u64;
        let mut block = std::mem::take(&mut self.block);
        block.resize(size.bytes(), 0);
        self.fill(&mut block)?;
        let identity = Identity { database: self.header.id.database, level: 0, logical, batch, early: false };
        let checked = Page::check_expected(&block, identity).and_then(|kind| match kind {
            PageKind::PageTable | PageKind::SpaceMap => Err(format!("its kind is {kind:?}")),
            _ => Ok(()),
        });
        checked.map_err(|detail| self.damaged(self.offset, format!("logical page {logical}: {detail}")))?;
        self.note(&block);
        self.block = block;
        self.pages += 1;
        Ok(Some(slot))
    }

    /// Returns the header, and the pages and bytes that were read so far.
    pub fn summary(&self) -> Backup {
        Backup { header: self.header, pages: self.pages, bytes: self.offset }
    }
}

/// Reads the header of a backup.
///
/// # Errors
/// [`Error::BackupDamaged`] if it does not begin as a backup does, [`Error::TooNew`], [`Error::BackupStream`].
pub fn read_header(input: impl Read) -> Result<BackupHeader> {
    Ok(Source::open(input, 0)?.header)
}

/// Reads a backup to its end, and checks all of it: every page is there, whole, and the one that it should be.
/// `progress` is called with logical pages passed and logical pages in all.
///
/// # Errors
/// As [`read_header`].
pub fn check_backup(input: impl Read, progress: &mut dyn FnMut(u64, u64)) -> Result<Backup> {
    let mut source = Source::open(input, 0)?;
    loop {
        source.advance()?;
        let Some(group) = &source.group else { return Ok(source.summary()) };
        progress(group.base, source.header.logical_pages);
    }
}

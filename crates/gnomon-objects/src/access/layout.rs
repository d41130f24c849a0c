//! The layout of an object's pages.
//!
//! All numbers are little-endian. Offsets count from the begin of the page's body.
//!
//! **Header** (kind `ObjectHeader`), whose number is the object's:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | the size of the data pages, by its code |
//! | 1 | 3 | zero |
//! | 4 | 4 | count of own subobjects, with the removed ones |
//! | 8 | 4 | count of data pages |
//! | 12 | 4 | count of references to foreign subobjects |
//! | 16 | 12 each | data pages: number (8), first slot (4), in ascending order of slots from 0 on |
//! | | 12 each | references: the other object's number (8), slot (4) |
//!
//! **Data page** (kind `ObjectData`):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | the object that it belongs to |
//! | 8 | 4 | first slot |
//! | 12 | 4 | count of slots |
//! | 16 | 4 | end: where the last cell ends |
//! | 20 | | cells, one for each slot, in order and without holes |
//!
//! A cell is the length of its value plus one, in 1 to 3 bytes of 7 bits each, the lowest first, of which all but the
//! last have the highest bit set; then the value. A removed subobject is a zero.
//!
//! There is no table of offsets: with two bytes a slot, nine pages of 2 KiB would hold 999 subobjects of 16 bytes, and
//! 1000 of them is what the experiments of the literature have. A subobject is found by walking over the lengths before
//! it, 56 of them on average in such a page; in pages of many KiB with tiny subobjects that is what a read costs.
//!
//! The bytes are not trusted. Every access checks what it relies on and answers with a [`Flaw`]. That the header's
//! slots ascend is left to the code that relies on it: a wrong order makes a search end at the wrong page, which
//! shows that it is wrong.

use std::ops::Range;

use gnomon_engine::{
    Error, PageId, PageSize, Result,
    failpoint::{Failpoint, Failpoints},
    level0::{Page, PageKind},
};

use super::{ObjectShape, Reference};

const OWN_AT: usize = 4;
const PAGES_AT: usize = 8;
const FOREIGN_AT: usize = 12;
const HEADER_BYTES: usize = 16;
const PAIR_BYTES: usize = 12;

const FIRST_AT: usize = 8;
const COUNT_AT: usize = 12;
const END_AT: usize = 16;
const DATA_HEADER_BYTES: usize = 20;
/// Most bytes that the length of a cell takes.
const PREFIX_BYTES_MAX: usize = 3;

/// Bytes of a data page that its cells share.
pub(super) const fn space_bytes(size: PageSize) -> usize {
    size.body_bytes() - DATA_HEADER_BYTES
}

/// The longest subobject, in bytes.
pub(super) const fn value_bytes_max(size: PageSize) -> usize {
    space_bytes(size) - prefix_bytes(space_bytes(size))
}

const fn prefix_bytes(value_bytes: usize) -> usize {
    match value_bytes + 1 {
        ..0x80 => 1,
        0x80..0x4000 => 2,
        _ => PREFIX_BYTES_MAX,
    }
}

/// Bytes that a subobject takes of its page.
pub(super) fn cell_bytes(value: Option<&[u8]>) -> usize {
    value.map_or(1, |value| prefix_bytes(value.len()) + value.len())
}

const _: () = {
    assert!(PageSize::MAX.body_bytes() < 1 << (7 * PREFIX_BYTES_MAX), "three bytes are enough for a length");
    let mut code = 0;
    while let Some(size) = PageSize::from_code(code) {
        let longest = value_bytes_max(size);
        assert!(prefix_bytes(longest) + longest == space_bytes(size), "the longest subobject fills its page");
        code += 1;
    }
};

/// A defect of a page. The caller adds the page's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Kind,
    Header,
    Size,
    Owner,
    Slots,
    Cell,
    Order,
}

impl Flaw {
    fn text(self) -> &'static str {
        match self {
            Flaw::Kind => "it is not the kind of page of an object that leads to it",
            Flaw::Header => "the header of the object's page contradicts itself",
            Flaw::Size => "its size is not that of the object's data pages",
            Flaw::Owner => "it belongs to another object",
            Flaw::Slots => "it has other subobjects than the object's directory says",
            Flaw::Cell => "a subobject ends outside its page, or in front of what the page says",
            Flaw::Order => "the directory's slots do not ascend",
        }
    }

    pub(super) fn error(self, page: PageId) -> Error {
        Error::Corrupt { file: gnomon_engine::LOGICAL_PAGES.into(), page: page.0, detail: self.text().into() }
    }
}

/// Adds to a flaw which page has it.
pub(super) trait At<T> {
    fn at(self, page: PageId) -> Result<T>;
}

impl<T> At<T> for Result<T, Flaw> {
    fn at(self, page: PageId) -> Result<T> {
        self.map_err(|flaw| flaw.error(page))
    }
}

/// A number of a page's header. No page has less than its header.
fn get_u32(body: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(body[at..at + 4].try_into().expect("4 bytes"))
}

fn get_u64(body: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"))
}

fn put_u32(body: &mut [u8], at: usize, number: u32) {
    body[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Offsets and counts within a page have four bytes: a page has 1 MiB at most.
fn put_usize(body: &mut [u8], at: usize, number: usize) {
    put_u32(body, at, number as u32);
}

/// A data page, as the directory knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) page: PageId,
    /// Its first slot.
    pub(super) first: u32,
}

fn get_pair(bytes: &[u8; PAIR_BYTES]) -> (PageId, u32) {
    (PageId(get_u64(bytes, 0)), get_u32(bytes, 8))
}

fn get_entry(bytes: &[u8; PAIR_BYTES]) -> Entry {
    let (page, first) = get_pair(bytes);
    Entry { page, first }
}

/// The contents of a header.
#[derive(Clone, Copy)]
pub(super) struct Directory<'a> {
    /// The size of the data pages.
    pub(super) data: PageSize,
    /// Number of own subobjects, with the removed ones.
    pub(super) own: u32,
    entries: &'a [[u8; PAIR_BYTES]],
    foreign: &'a [[u8; PAIR_BYTES]],
    /// Number of entries or references that it has room for.
    room: usize,
}

impl<'a> Directory<'a> {
    pub(super) fn parse(page: &'a Page) -> Result<Self, Flaw> {
        if page.kind() != PageKind::ObjectHeader {
            return Err(Flaw::Kind);
        }
        let body: &[u8] = page.body();
        let data = PageSize::from_code(body[0]).ok_or(Flaw::Header)?;
        let own = get_u32(body, OWN_AT);
        let (pairs, _) = body[HEADER_BYTES..].as_chunks();
        let (entries, pairs) =
            pairs.split_at_checked(get_u32(body, PAGES_AT) as usize).ok_or(Flaw::Header)?;
        let (foreign, room) =
            pairs.split_at_checked(get_u32(body, FOREIGN_AT) as usize).ok_or(Flaw::Header)?;
        // So that a subobject that there is has a page.
        if entries.first().map_or(own > 0, |entry| own == 0 || get_entry(entry).first > 0) {
            return Err(Flaw::Header);
        }
        Ok(Directory { data, own, entries, foreign, room: room.len() })
    }

    pub(super) fn entries(self) -> impl ExactSizeIterator<Item = Entry> + 'a {
        self.entries.iter().map(get_entry)
    }

    pub(super) fn foreign(self) -> impl ExactSizeIterator<Item = Reference> + 'a {
        self.foreign.iter().map(|pair| {
            let (object, slot) = get_pair(pair);
            Reference { object, slot }
        })
    }

    /// Returns the index of the data page that has a slot, if there is such a slot.
    pub(super) fn covering(self, slot: u32) -> Option<usize> {
        (slot < self.own)
            .then(|| self.entries.partition_point(|entry| get_entry(entry).first <= slot).saturating_sub(1))
    }

    /// The data page with an index that [`Directory::covering`] gave, or one less than the count of them.
    pub(super) fn entry(self, index: usize) -> Entry {
        get_entry(&self.entries[index])
    }

    /// The slots of the data page with such an index.
    pub(super) fn slots(self, index: usize) -> Result<Range<u32>, Flaw> {
        let slots = self.entry(index).first
            ..self.entries.get(index + 1).map_or(self.own, |next| get_entry(next).first);
        if slots.is_empty() { Err(Flaw::Order) } else { Ok(slots) }
    }

    /// The last data page, which new subobjects go to.
    pub(super) fn last(self) -> Option<usize> {
        self.entries.len().checked_sub(1)
    }

    /// For how many more data pages and references, together, there is room.
    pub(super) fn room(self) -> usize {
        self.room
    }

    /// Refuses more entries than there is room for.
    pub(super) fn make_room(self, more: usize) -> Result<()> {
        if Failpoints::of_thread().is_on(Failpoint::RoomUnchecked) {
            return Ok(());
        }
        if more <= self.room { Ok(()) } else { Err(Error::ObjectFull) }
    }

    /// As [`Directory::make_room`], for other references in the place of the present ones.
    pub(super) fn make_room_for_foreign(self, count: usize) -> Result<()> {
        self.make_room(count.saturating_sub(self.foreign.len()))
    }
}

/// True if a header of this shape has room for so many data pages and references.
pub(super) fn fits_header(shape: ObjectShape, pages: usize, foreign: usize) -> bool {
    pages.saturating_add(foreign) <= (shape.header.body_bytes() - HEADER_BYTES) / PAIR_BYTES
}

/// Writes a header that has room for all of that.
pub(super) fn write_header(
    page: &mut Page,
    data: PageSize,
    own: u32,
    entries: &[Entry],
    foreign: &[Reference],
) {
    let body = page.body_mut();
    body[0] = data.code();
    put_u32(body, OWN_AT, own);
    put_usize(body, PAGES_AT, entries.len());
    put_usize(body, FOREIGN_AT, foreign.len());
    let pairs = entries
        .iter()
        .map(|entry| (entry.page, entry.first))
        .chain(foreign.iter().map(|reference| (reference.object, reference.slot)));
    let (places, _) = body[HEADER_BYTES..].as_chunks_mut::<PAIR_BYTES>();
    for (place, (page, slot)) in places.iter_mut().zip(pairs) {
        place[..8].copy_from_slice(&page.0.to_le_bytes());
        put_u32(place, 8, slot);
    }
}

/// Notes in a header that there are so many own subobjects.
pub(super) fn set_own(page: &mut Page, own: u32) {
    put_u32(page.body_mut(), OWN_AT, own);
}

/// The contents of a data page.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    slots: u32,
    first: u32,
    body: &'a [u8],
    end: usize,
}

/// A subobject in its page.
pub(super) struct Cell<'a> {
    /// Where it is.
    pub(super) range: Range<usize>,
    /// None if it was removed.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Cells<'a> {
    /// Reads a page as the data page of an object that its directory knows as `entry`.
    pub(super) fn parse(page: &'a Page, object: PageId, data: PageSize, entry: Entry) -> Result<Self, Flaw> {
        if page.kind() != PageKind::ObjectData {
            return Err(Flaw::Kind);
        }
        let body: &[u8] = page.body();
        if page.size() != data {
            return Err(Flaw::Size);
        }
        let owner = get_u64(body, 0);
        let owner = if Failpoints::of_thread().is_on(Failpoint::OwnerUnchecked) { object.0 } else { owner };
        if owner != object.0 {
            return Err(Flaw::Owner);
        }
        let first = get_u32(body, FIRST_AT);
        if first != entry.first {
            return Err(Flaw::Slots);
        }
        let end = get_u32(body, END_AT) as usize;
        if end < DATA_HEADER_BYTES || end > body.len() {
            return Err(Flaw::Header);
        }
        Ok(Cells { slots: get_u32(body, COUNT_AT), first, body, end })
    }

    /// The cell that begins at an offset, which is not beyond the end.
    fn cell(self, at: usize) -> Result<Cell<'a>, Flaw> {
        let cells = &self.body[..self.end];
        let mut number = 0;
        for (index, byte) in cells[at..].iter().take(PREFIX_BYTES_MAX).enumerate() {
            number |= usize::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                let begin = at + index + 1;
                let Some(bytes) = number.checked_sub(1) else {
                    return Ok(Cell { range: at..begin, value: None });
                };
                let value = cells.get(begin..begin + bytes).ok_or(Flaw::Cell)?;
                return Ok(Cell { range: at..begin + bytes, value: Some(value) });
            }
        }
        Err(Flaw::Cell)
    }

    /// The cell of a slot that the directory says is here.
    pub(super) fn find(self, slot: u32) -> Result<Cell<'a>, Flaw> {
        let before = slot.checked_sub(self.first).filter(|before| *before < self.slots).ok_or(Flaw::Slots)?;
        let mut at = DATA_HEADER_BYTES;
        for _ in 0..before {
            at = self.cell(at)?.range.end;
        }
        self.cell(at)
    }

    /// All subobjects, if they are those of these slots, and everything is right with them.
    pub(super) fn values(self, slots: Range<u32>) -> Result<Vec<Option<&'a [u8]>>, Flaw> {
        self.check_slots(slots)?;
        let mut values = Vec::new();
        let mut at = DATA_HEADER_BYTES;
        for _ in 0..self.slots {
            let Cell { range, value } = self.cell(at)?;
            values.push(value);
            at = range.end;
        }
        if at == self.end { Ok(values) } else { Err(Flaw::Cell) }
    }

    /// Checks that the slots that the page says it has are exactly these.
    pub(super) fn check_slots(self, slots: Range<u32>) -> Result<(), Flaw> {
        if slots.start == self.first && slots.end - slots.start == self.slots {
            Ok(())
        } else {
            Err(Flaw::Slots)
        }
    }

    /// Where a new cell goes.
    pub(super) fn end(self) -> Range<usize> {
        self.end..self.end
    }

    /// True if there is room for a value in the place of the cell with this range.
    pub(super) fn has_room(self, range: &Range<usize>, value: Option<&[u8]>) -> bool {
        self.end - range.len() + cell_bytes(value) <= self.body.len()
    }
}

/// Writes a data page with values that fit, for the slots from `first` on.
pub(super) fn write_data(page: &mut Page, object: PageId, first: u32, values: &[Option<&[u8]>]) {
    let body = page.body_mut();
    body[..8].copy_from_slice(&object.0.to_le_bytes());
    put_u32(body, FIRST_AT, first);
    put_usize(body, COUNT_AT, values.len());
    let mut at = DATA_HEADER_BYTES;
    for value in values {
        at += put_cell(&mut body[at..], *value);
    }
    put_usize(body, END_AT, at);
}

/// Replaces the cell with this range, when [`Cells::has_room`].
pub(super) fn replace(page: &mut Page, range: Range<usize>, value: Option<&[u8]>) {
    let body = page.body_mut();
    let end = get_u32(body, END_AT) as usize;
    let bytes = cell_bytes(value);
    body.copy_within(range.end..end, range.start + bytes);
    put_cell(&mut body[range.start..], value);
    put_usize(body, END_AT, end - range.len() + bytes);
}

/// Adds a cell for a new slot, when [`Cells::has_room`] at its [`end`](Cells::end).
pub(super) fn push(page: &mut Page, value: &[u8]) {
    let end = get_u32(page.body(), END_AT) as usize;
    replace(page, end..end, Some(value));
    let slots = get_u32(page.body(), COUNT_AT);
    put_u32(page.body_mut(), COUNT_AT, slots + 1);
}

/// Writes a cell; gives its length in bytes.
fn put_cell(to: &mut [u8], value: Option<&[u8]>) -> usize {
    let Some(value) = value else {
        to[0] = 0;
        return 1;
    };
    let begin = prefix_bytes(value.len());
    let mut number = value.len() + 1;
    for byte in &mut to[..begin - 1] {
        *byte = number as u8 | 0x80;
        number >>= 7;
    }
    to[begin - 1] = number as u8;
    to[begin..begin + value.len()].copy_from_slice(value);
    begin + value.len()
}

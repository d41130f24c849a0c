//! A node as a slotted page: cells of variable length, in the order of their keys by slots.
//!
//! Reading checks each slot that it follows, and changes check the header first, so no bytes lead out of the page.

use std::{borrow::Cow, cmp::Ordering, ops::Deref};

use super::{
    CHILD_BYTES, Flaw, HEAD_BYTES, NODE_HEADER_BYTES, SKIP_MAX, SLOT_BYTES, Shape, TAG_BYTES, TAG_LARGE,
};
use crate::page::{Page, PageKind};

const COUNT_AT: usize = 2;
const HEAP_AT: usize = 4;
const LIVE_AT: usize = 6;

/// Counts, lengths of cells and numbers of steps fit two bytes (asserted in the layout).
fn put_u16(body: &mut [u8], at: usize, number: usize) {
    body[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
}

/// The head of a key, after the bytes that it shares with all others.
#[inline]
fn head_of(rest: &[u8]) -> u32 {
    // By values, not through memory: a number that is read where single bytes were just written is waited for.
    u32::from_be_bytes(match *rest {
        [a, b, c, d, ..] => [a, b, c, d],
        [a, b, c] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        [] => [0; HEAD_BYTES],
    })
}

/// Returns the number of leading bytes that two keys have in common.
pub(in crate::access) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

const fn slot_at(index: usize) -> usize {
    NODE_HEADER_BYTES + index * SLOT_BYTES
}

/// The header of a node, which is consistent.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) shape: Shape,
    pub(super) count: usize,
    /// In bytes, as `live`.
    heap: usize,
    live: usize,
}

/// The place of an entry in the body of its leaf.
#[derive(Clone, Copy)]
pub(crate) struct EntryPlace {
    key: usize,
    value: usize,
    end: usize,
}

impl EntryPlace {
    /// Returns the key and the value, in the body that the place was found in.
    #[inline]
    pub(in crate::access) fn of(self, body: &[u8]) -> (&[u8], &[u8]) {
        let part = |from, to| body.get(from..to).unwrap_or_default();
        (part(self.key, self.value), part(self.value, self.end))
    }
}

/// The cells of a node, whatever they hold.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    pub(super) body: &'a [u8],
    pub(super) header: Header,
}

impl Deref for Cells<'_> {
    type Target = Header;
    fn deref(&self) -> &Header {
        &self.header
    }
}

impl<'a> Cells<'a> {
    #[inline]
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Flaw> {
        let shape = Shape::of_body(body.len());
        let [_, _, count @ .., h0, h1, l0, l1] =
            *body.first_chunk::<NODE_HEADER_BYTES>().ok_or(Flaw::Header)?;
        let count = usize::from(u16::from_le_bytes(count));
        let heap = usize::from(u16::from_le_bytes([h0, h1])) << shape.shift;
        let live = usize::from(u16::from_le_bytes([l0, l1])) << shape.shift;
        if slot_at(count) > heap || heap > body.len() || live > body.len() - heap {
            return Err(Flaw::Header);
        }
        Ok(Cells { body, header: Header { shape, count, heap, live } })
    }

    pub(super) fn level(self) -> u8 {
        self.body[0]
    }

    fn skip(self) -> usize {
        usize::from(self.body[1])
    }

    #[inline]
    fn slot(self, index: usize) -> Result<&'a [u8; SLOT_BYTES], Flaw> {
        if index >= self.count {
            return Err(Flaw::Slot);
        }
        self.body.get(slot_at(index)..).and_then(<[u8]>::first_chunk).ok_or(Flaw::Header)
    }

    /// Where a cell lies.
    #[inline]
    fn range(self, index: usize) -> Result<(usize, usize), Flaw> {
        let [o0, o1, l0, l1, ..] = *self.slot(index)?;
        let start = usize::from(u16::from_le_bytes([o0, o1])) << self.shape.shift;
        let end = start + usize::from(u16::from_le_bytes([l0, l1]));
        if start < self.heap || end > self.body.len() {
            return Err(Flaw::Slot);
        }
        Ok((start, end))
    }

    #[inline]
    fn head(self, index: usize) -> Result<u32, Flaw> {
        let [_, _, _, _, head @ ..] = *self.slot(index)?;
        Ok(u32::from_be_bytes(head))
    }

    #[inline]
    pub(super) fn cell(self, index: usize) -> Result<&'a [u8], Flaw> {
        let (start, end) = self.range(index)?;
        self.body.get(start..end).ok_or(Flaw::Slot)
    }

    /// Returns the place of an entry of a leaf; none if its value is large.
    #[inline]
    pub(super) fn entry_place(self, index: usize) -> Result<Option<EntryPlace>, Flaw> {
        let (start, end) = self.range(index)?;
        let cell = self.body.get(start..end).ok_or(Flaw::Slot)?;
        let tag = u16::from_le_bytes(*cell.first_chunk().ok_or(Flaw::Cell)?);
        let key = start + TAG_BYTES;
        let value = key + usize::from(tag & !TAG_LARGE);
        if value > end {
            return Err(Flaw::Cell);
        }
        Ok((tag & TAG_LARGE == 0).then_some(EntryPlace { key, value, end }))
    }

    #[inline]
    pub(super) fn key(self, index: usize) -> Result<&'a [u8], Flaw> {
        key_of(self.level(), self.cell(index)?)
    }

    /// The first cell that has a key.
    fn first_key(self) -> usize {
        usize::from(self.level() > 0)
    }

    /// The index of a key, or the index where it would be inserted.
    #[inline]
    pub(super) fn search(self, key: &[u8]) -> Result<Result<usize, usize>, Flaw> {
        let first = self.first_key();
        if self.count <= first {
            return Ok(Err(first));
        }
        // As if the key began as all others do; whether it does is seen at the end, where a cell is looked at anyway.
        let rest = key.get(self.skip()..).unwrap_or_default();
        let head = head_of(rest);
        let (slots, _) = self.body[NODE_HEADER_BYTES..].as_chunks::<SLOT_BYTES>();
        let slots = slots.get(first..self.count).ok_or(Flaw::Slot)?;
        let head_in = |[.., a, b, c, d]: &[u8; SLOT_BYTES]| u32::from_be_bytes([*a, *b, *c, *d]);
        // Every step halves what is left, whatever it finds: without a branch, which half the time would be another one
        // than the processor expects.
        let mut low = first + slots.partition_point(|slot| head_in(slot) < head);
        let (mut high, mut middle) = (self.count, low);
        let mut found = false;
        // The first with that head is mostly the only one.
        while low < high && !found {
            let order = match head_in(&slots[middle - first]).cmp(&head) {
                Ordering::Equal => self.key(middle)?.get(self.skip()..).ok_or(Flaw::Head)?.cmp(rest),
                order => order,
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => (low, found) = (middle, true),
            }
            middle = low + (high - low) / 2;
        }
        if self.skip() > 0 {
            // Any key tells: in an inner node that of the child that is taken, whose cell is looked at next.
            let near = if found { low } else { low.saturating_sub(1).max(first) };
            let shared = self.key(near)?.get(..self.skip()).ok_or(Flaw::Head)?;
            match key.get(..self.skip()).unwrap_or(key).cmp(shared) {
                Ordering::Less => return Ok(Err(first)),
                Ordering::Greater => return Ok(Err(self.count)),
                Ordering::Equal => {}
            }
        }
        Ok(if found { Ok(low) } else { Err(low) })
    }

    /// The bytes of slots and cells.
    pub(super) fn used(self) -> usize {
        self.count * SLOT_BYTES + self.live
    }

    /// The bytes left for more slots and cells, holes included.
    pub(super) fn room(self) -> usize {
        self.shape.space_bytes().saturating_sub(self.used())
    }

    pub(super) fn all(self) -> Result<Vec<Cow<'a, [u8]>>, Flaw> {
        (0..self.count).map(|index| self.cell(index).map(Cow::Borrowed)).collect()
    }

    /// Checks that the cells do not overlap, that the header counts them right, and that heads are those of the keys.
    pub(super) fn check(self) -> Result<(), Flaw> {
        let padded = |index| {
            let (start, end) = self.range(index)?;
            Ok((start, start + self.shape.padded(end - start)))
        };
        let mut ranges = (0..self.count).map(padded).collect::<Result<Vec<_>, _>>()?;
        ranges.sort_unstable();
        let disjoint =
            ranges.iter().zip(ranges.iter().skip(1)).all(|((_, end), (next_start, _))| end <= next_start);
        let live: usize = ranges.iter().map(|(start, end)| end - start).sum();
        if !disjoint || live != self.live {
            return Err(Flaw::Overlap);
        }
        let mut shared = None;
        for index in self.first_key()..self.count {
            let (start, rest) = self.key(index)?.split_at_checked(self.skip()).ok_or(Flaw::Head)?;
            if *shared.get_or_insert(start) != start || self.head(index)? != head_of(rest) {
                return Err(Flaw::Head);
            }
        }
        Ok(())
    }
}

/// The key of a node's cell.
#[inline]
pub(super) fn key_of(level: u8, cell: &[u8]) -> Result<&[u8], Flaw> {
    if level == 0 { Ok(split_entry(cell)?.0) } else { cell.get(CHILD_BYTES..).ok_or(Flaw::Cell) }
}

#[inline]
pub(super) fn split_entry(cell: &[u8]) -> Result<(&[u8], &[u8], bool), Flaw> {
    let (tag, rest) = cell.split_first_chunk().ok_or(Flaw::Cell)?;
    let tag = u16::from_le_bytes(*tag);
    let (key, value) = rest.split_at_checked(usize::from(tag & !TAG_LARGE)).ok_or(Flaw::Cell)?;
    Ok((key, value, tag & TAG_LARGE != 0))
}

/// Makes a page an empty node.
pub(super) fn init(page: &mut Page, level: u8) {
    page.set_kind(if level == 0 { PageKind::TreeLeaf } else { PageKind::TreeInner });
    let body = page.body_mut();
    body.fill(0);
    body[0] = level;
    let shape = Shape::of_body(body.len());
    put_u16(body, HEAP_AT, shape.body_bytes >> shape.shift);
}

/// Inserts a cell, given in pieces, before the one at `index`. The first of an inner node has no key.
pub(super) fn insert_cell(body: &mut [u8], index: usize, key: &[u8], pieces: &[&[u8]]) -> Result<(), Flaw> {
    let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let mut cells = Cells::parse(body)?;
    let padded = cells.shape.padded(bytes);
    if index > cells.count || bytes > usize::from(u16::MAX) {
        return Err(Flaw::Slot);
    }
    if slot_at(cells.count + 1) + padded > cells.heap {
        compact(body)?;
        cells = Cells::parse(body)?;
        if slot_at(cells.count + 1) + padded > cells.heap {
            return Err(Flaw::Overfull);
        }
    }
    let head = if index < cells.first_key() { 0 } else { share_prefix(body, key)? };
    let Header { shape, count, heap, live } = Cells::parse(body)?.header;
    let start = heap - padded;
    write_pieces(body, start, pieces);
    body.copy_within(slot_at(index)..slot_at(count), slot_at(index + 1));
    put_slot(body, shape, index, start, bytes, head);
    put_u16(body, COUNT_AT, count + 1);
    put_u16(body, HEAP_AT, start >> shape.shift);
    put_u16(body, LIVE_AT, (live + padded) >> shape.shift);
    Ok(())
}

fn put_slot(body: &mut [u8], shape: Shape, index: usize, start: usize, bytes: usize, head: u32) {
    put_u16(body, slot_at(index), start >> shape.shift);
    put_u16(body, slot_at(index) + 2, bytes);
    body[slot_at(index) + HEAD_BYTES..slot_at(index + 1)].copy_from_slice(&head.to_be_bytes());
}

/// Makes `skip` what a new key has in common with those of the node, which may change all heads. Returns the new
/// key's head.
fn share_prefix(body: &mut [u8], key: &[u8]) -> Result<u32, Flaw> {
    let cells = Cells::parse(body)?;
    let (first, count) = (cells.first_key(), cells.count);
    let skip = if count <= first {
        key.len().min(SKIP_MAX)
    } else {
        // What all keys of the node share, any of them tells.
        common(cells.key(first)?, key).min(cells.skip())
    };
    if skip != cells.skip() {
        for index in first..count {
            let cells = Cells::parse(body)?;
            let (start, end) = cells.range(index)?;
            let (head, shape) = (head_of(cells.key(index)?.get(skip..).ok_or(Flaw::Head)?), cells.shape);
            put_slot(body, shape, index, start, end - start, head);
        }
        body[1] = skip as u8;
    }
    Ok(head_of(key.get(skip..).unwrap_or_default()))
}

/// Writes pieces one after another. The caller made sure that they fit.
fn write_pieces(body: &mut [u8], mut start: usize, pieces: &[&[u8]]) {
    for piece in pieces {
        body[start..start + piece.len()].copy_from_slice(piece);
        start += piece.len();
    }
}

pub(super) fn remove_cell(body: &mut [u8], index: usize) -> Result<(), Flaw> {
    let cells = Cells::parse(body)?;
    let (start, end) = cells.range(index)?;
    let Header { shape, count, heap, live } = cells.header;
    let padded = shape.padded(end - start);
    let live = live.checked_sub(padded).ok_or(Flaw::Header)?;
    body.copy_within(slot_at(index + 1)..slot_at(count), slot_at(index));
    put_u16(body, COUNT_AT, count - 1);
    put_u16(body, LIVE_AT, live >> shape.shift);
    if count == 1 {
        put_u16(body, HEAP_AT, shape.body_bytes >> shape.shift);
    } else if start == heap {
        put_u16(body, HEAP_AT, (start + padded) >> shape.shift);
    }
    Ok(())
}

/// Puts another cell in the place of the one at `index`, which has the same key; where it lies already, if it is
/// not longer.
pub(super) fn replace_cell(body: &mut [u8], index: usize, key: &[u8], pieces: &[&[u8]]) -> Result<(), Flaw> {
    let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let cells = Cells::parse(body)?;
    let (start, end) = cells.range(index)?;
    let shape = cells.shape;
    let (before, padded) = (shape.padded(end - start), shape.padded(bytes));
    if padded > before {
        remove_cell(body, index)?;
        return insert_cell(body, index, key, pieces);
    }
    let live = cells.live.checked_sub(before).ok_or(Flaw::Header)? + padded;
    write_pieces(body, start, pieces);
    put_u16(body, slot_at(index) + 2, bytes);
    put_u16(body, LIVE_AT, live >> shape.shift);
    Ok(())
}

/// Moves the cells together, so that the holes between them become room.
fn compact(body: &mut [u8]) -> Result<(), Flaw> {
    let old = body.to_vec();
    let cells = Cells::parse(&old)?;
    let shape = cells.shape;
    let mut heap = shape.body_bytes;
    for index in 0..cells.count {
        let cell = cells.cell(index)?;
        let start = heap
            .checked_sub(shape.padded(cell.len()))
            .filter(|start| *start >= slot_at(cells.count))
            .ok_or(Flaw::Overfull)?;
        body[start..start + cell.len()].copy_from_slice(cell);
        put_u16(body, slot_at(index), start >> shape.shift);
        heap = start;
    }
    put_u16(body, HEAP_AT, heap >> shape.shift);
    put_u16(body, LIVE_AT, (shape.body_bytes - heap) >> shape.shift);
    Ok(())
}

/// Writes a node from its cells, which fit.
pub(super) fn write_node(page: &mut Page, level: u8, cells: &[Cow<'_, [u8]>]) -> Result<(), Flaw> {
    init(page, level);
    let body = page.body_mut();
    let keys = cells.get(usize::from(level > 0)..).unwrap_or_default();
    let skip = match (keys.first(), keys.last()) {
        (Some(first), Some(last)) => common(key_of(level, first)?, key_of(level, last)?).min(SKIP_MAX),
        _ => 0,
    };
    let shape = Shape::of_body(body.len());
    let mut heap = shape.body_bytes;
    for (index, cell) in cells.iter().enumerate() {
        let start = heap.checked_sub(shape.padded(cell.len())).filter(|start| *start >= slot_at(cells.len()));
        let start = start.ok_or(Flaw::Overfull)?;
        body[start..start + cell.len()].copy_from_slice(cell);
        // Without a key, or out of order: the rest is empty.
        let head = head_of(key_of(level, cell)?.get(skip..).unwrap_or_default());
        put_slot(body, shape, index, start, cell.len(), head);
        heap = start;
    }
    body[1] = skip as u8;
    put_u16(body, COUNT_AT, cells.len());
    put_u16(body, HEAP_AT, heap >> shape.shift);
    put_u16(body, LIVE_AT, (shape.body_bytes - heap) >> shape.shift);
    Ok(())
}

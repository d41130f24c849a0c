//! The layout of a tree's pages.
//!
//! All numbers are little-endian. Offsets count from the begin of the page's body.
//!
//! **Node** (kinds `TreeLeaf` and `TreeInner`), a slotted page:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | level: 0 for a leaf, 1 for the parent of leaves, and so on |
//! | 1 | 1 | zero |
//! | 2 | 2 | count of cells |
//! | 4 | 2 | heap: the lowest offset that a cell may occupy |
//! | 6 | 2 | live: the bytes of all cells together |
//! | 8 | 4 each | slots in the order of keys: a cell's offset (2) and its length (2) |
//! | heap | | cells in any order, with holes where cells were removed, up to the end of the body |
//!
//! A leaf's cell is an entry: `tag` (2), key, value. The low 15 bits of the tag are the key's length. If its
//! highest bit is clear, the value is the rest of the cell; if it is set, the value is large and the rest is its
//! length in bytes (4) and the number of its first overflow page (8).
//!
//! An inner node's cell is the page number of a child (8) and a separator, which is the rest of the cell. Child
//! `i` covers the keys from its own separator (included) to that of child `i + 1` (excluded). The first cell's
//! separator is empty: the first child begins where the node itself does.
//!
//! **Overflow page** (kind `Overflow`): a part of a large value. Every part but the last fills its page.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | the page number of the next part; zero in the last |
//! | 8 | 4 | remaining: the bytes of the value in this part and all that follow |
//! | 12 | | the part |
//!
//! The bytes are not trusted. Every access checks what it relies on and answers with a [`Flaw`]; checks of a
//! whole node (cells do not overlap, keys ascend) are left to the walk in `check`. A wrong key order can make a
//! search miss, never run for ever.

use std::{borrow::Cow, cmp::Ordering};

use crate::{
    Error, KEY_BYTES_MAX, PageId, Result,
    page::{BODY_BYTES, Page, PageKind},
};

type Body = [u8; BODY_BYTES];

const NODE_HEADER_BYTES: usize = 8;
const SLOT_BYTES: usize = 4;
const TAG_BYTES: usize = 2;
const CHILD_BYTES: usize = 8;
const CHAIN_BYTES: usize = 12;
const TAG_LARGE: u16 = 0x8000;

/// What slots and cells share in a node, in bytes.
pub(super) const SPACE_BYTES: usize = BODY_BYTES - NODE_HEADER_BYTES;
/// The largest entry with its slot, in bytes: three fit every leaf, so a leaf that overflows can be cut in two
/// wherever the new entry falls.
const ENTRY_BYTES_MAX: usize = SPACE_BYTES / 3;
/// The largest separator with its child and slot, in bytes. An inner node with that much room is safe to pass.
const SEPARATOR_BYTES_MAX: usize = SLOT_BYTES + CHILD_BYTES + KEY_BYTES_MAX;
/// A node with less than this in slots and cells is underfull.
const LOW_WATER_BYTES: usize = SPACE_BYTES / 4;
/// An inner node with fewer children is underfull: it could not lose one and still have a separator.
const INNER_CHILDREN_MIN: usize = 3;
/// No tree is higher: with two children a node it would have more pages than there are numbers.
pub(super) const LEVEL_MAX: u8 = 63;

const OVERFLOW_HEADER_BYTES: usize = 12;
/// What an overflow page holds of a value, in bytes.
pub(super) const OVERFLOW_PART_BYTES: usize = BODY_BYTES - OVERFLOW_HEADER_BYTES;

const _: () = {
    assert!(BODY_BYTES <= u16::MAX as usize, "offsets and lengths have two bytes");
    assert!(KEY_BYTES_MAX < TAG_LARGE as usize, "a key's length leaves the tag's highest bit free");
    assert!(SLOT_BYTES + TAG_BYTES + KEY_BYTES_MAX + CHAIN_BYTES <= ENTRY_BYTES_MAX, "every entry fits");
    // An inner node without room for one more separator has at least four children, of which each half gets two.
    assert!(SPACE_BYTES - SEPARATOR_BYTES_MAX >= SLOT_BYTES + CHILD_BYTES + 2 * SEPARATOR_BYTES_MAX);
    assert!(crate::VALUE_BYTES_MAX <= u32::MAX as usize, "a large value's length has four bytes");
};

/// What is wrong with a page. The caller adds which page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Kind,
    Level,
    Header,
    Slot,
    Cell,
    Overfull,
    Childless,
    Reached,
    Chain,
    Order,
    Fence,
    Overlap,
    FirstSeparator,
    KeyLength,
}

impl Flaw {
    pub(super) fn text(self) -> &'static str {
        match self {
            Flaw::Kind => "not the kind of page that its parent points to",
            Flaw::Level => "its level does not follow from its parent's",
            Flaw::Header => "the node's header contradicts itself",
            Flaw::Slot => "a slot points outside the cells",
            Flaw::Cell => "a cell is shorter than its fields",
            Flaw::Overfull => "the cells need more space than the node has",
            Flaw::Childless => "an inner node has no child",
            Flaw::Reached => "the page is reached in two ways",
            Flaw::Chain => "the overflow page does not continue the large value that leads to it",
            Flaw::Order => "the keys do not ascend",
            Flaw::Fence => "a key lies outside the range that the parent gives",
            Flaw::Overlap => "two cells overlap, or the header counts them wrong",
            Flaw::FirstSeparator => "the first child has a separator",
            Flaw::KeyLength => "a key is too long",
        }
    }

    /// The error for this flaw in a page.
    pub(super) fn error(self, page: PageId) -> Error {
        Error::Corrupt { file: "pages".into(), page: page.0, detail: self.text().into() }
    }
}

/// Adds to a flaw which page has it.
pub(super) trait At<T> {
    fn at(self, page: PageId) -> Result<T>;
}

impl<T> At<T> for Result<T, Flaw> {
    #[inline]
    fn at(self, page: PageId) -> Result<T> {
        self.map_err(|flaw| flaw.error(page))
    }
}

#[inline]
fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Numbers within a body fit two bytes (asserted above).
fn put_u16(body: &mut Body, at: usize, number: usize) {
    body[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
}

const fn slot_at(index: usize) -> usize {
    NODE_HEADER_BYTES + index * SLOT_BYTES
}

/// The cells of a node, whatever they hold. The header is known to be consistent.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    body: &'a Body,
    count: usize,
    heap: usize,
    live: usize,
}

impl<'a> Cells<'a> {
    #[inline]
    fn parse(body: &'a Body) -> Result<Self, Flaw> {
        let field = |low: u8, high: u8| usize::from(u16::from_le_bytes([low, high]));
        let (count, heap, live) = (field(body[2], body[3]), field(body[4], body[5]), field(body[6], body[7]));
        if slot_at(count) > heap || heap > BODY_BYTES || live > BODY_BYTES - heap {
            return Err(Flaw::Header);
        }
        Ok(Cells { body, count, heap, live })
    }

    fn level(self) -> u8 {
        self.body[0]
    }

    /// Where a cell lies.
    #[inline]
    fn range(self, index: usize) -> Result<(usize, usize), Flaw> {
        if index >= self.count {
            return Err(Flaw::Slot);
        }
        let slot = self.body.get(slot_at(index)..slot_at(index + 1)).ok_or(Flaw::Header)?;
        let &[o0, o1, l0, l1] = slot else { return Err(Flaw::Header) };
        let start = usize::from(u16::from_le_bytes([o0, o1]));
        let end = start + usize::from(u16::from_le_bytes([l0, l1]));
        if start < self.heap || end > BODY_BYTES {
            return Err(Flaw::Slot);
        }
        Ok((start, end))
    }

    #[inline]
    fn cell(self, index: usize) -> Result<&'a [u8], Flaw> {
        let (start, end) = self.range(index)?;
        self.body.get(start..end).ok_or(Flaw::Slot)
    }

    /// The bytes of slots and cells.
    fn used(self) -> usize {
        self.count * SLOT_BYTES + self.live
    }

    /// The bytes left for more slots and cells, holes included.
    fn room(self) -> usize {
        SPACE_BYTES.saturating_sub(self.used())
    }

    fn all(self) -> Result<Vec<Cow<'a, [u8]>>, Flaw> {
        (0..self.count).map(|index| self.cell(index).map(Cow::Borrowed)).collect()
    }

    /// Checks that the cells do not overlap and that the header counts them right.
    fn check(self) -> Result<(), Flaw> {
        let mut ranges = (0..self.count).map(|index| self.range(index)).collect::<Result<Vec<_>, _>>()?;
        ranges.sort_unstable();
        let disjoint =
            ranges.iter().zip(ranges.iter().skip(1)).all(|((_, end), (next_start, _))| end <= next_start);
        let live: usize = ranges.iter().map(|(start, end)| end - start).sum();
        if disjoint && live == self.live { Ok(()) } else { Err(Flaw::Overlap) }
    }
}

/// A node, as its page's kind and level say.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Leaf(Leaf<'a>),
    Inner(Inner<'a>),
}

impl<'a> Node<'a> {
    /// Reads a page as a node; `level` is what its parent says of it, and none for a root.
    #[inline]
    pub(super) fn parse(page: &'a Page, level: Option<u8>) -> Result<Node<'a>, Flaw> {
        let cells = match page.kind() {
            PageKind::TreeLeaf | PageKind::TreeInner => Cells::parse(page.body())?,
            _ => return Err(Flaw::Kind),
        };
        let is_leaf = page.kind() == PageKind::TreeLeaf;
        if level.is_some_and(|level| level != cells.level())
            || is_leaf != (cells.level() == 0)
            || cells.level() > LEVEL_MAX
        {
            return Err(Flaw::Level);
        }
        if is_leaf {
            Ok(Node::Leaf(Leaf(cells)))
        } else if cells.count == 0 {
            Err(Flaw::Childless)
        } else {
            Ok(Node::Inner(Inner(cells)))
        }
    }

    /// A node that deletes should not pass without merging it or filling it up.
    pub(super) fn is_underfull(self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_underfull(),
            Node::Inner(inner) => inner.0.count < INNER_CHILDREN_MIN || inner.0.used() < LOW_WATER_BYTES,
        }
    }
}

/// The pages of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The page of its first part.
    pub(super) first: PageId,
    /// The value's length in bytes.
    pub(super) bytes: u32,
}

impl Chain {
    /// How many pages it has.
    pub(super) fn pages(self) -> usize {
        (self.bytes as usize).div_ceil(OVERFLOW_PART_BYTES)
    }
}

/// A value as a leaf stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored<'a> {
    Inline(&'a [u8]),
    Large(Chain),
}

impl Stored<'_> {
    fn bytes(self) -> usize {
        match self {
            Stored::Inline(value) => value.len(),
            Stored::Large(_) => CHAIN_BYTES,
        }
    }

    /// The overflow pages that go with it.
    pub(super) fn chain(self) -> Option<Chain> {
        match self {
            Stored::Inline(_) => None,
            Stored::Large(chain) => Some(chain),
        }
    }
}

/// Whether a value of that length is stored in the leaf, beside its key, and not in overflow pages.
pub(super) fn is_inline(key_bytes: usize, value_bytes: usize) -> bool {
    SLOT_BYTES + TAG_BYTES + key_bytes + value_bytes <= ENTRY_BYTES_MAX
}

/// A leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a>(Cells<'a>);

#[inline]
fn split_entry(cell: &[u8]) -> Result<(&[u8], &[u8], bool), Flaw> {
    let (tag, rest) = cell.split_first_chunk().ok_or(Flaw::Cell)?;
    let tag = u16::from_le_bytes(*tag);
    let (key, value) = rest.split_at_checked(usize::from(tag & !TAG_LARGE)).ok_or(Flaw::Cell)?;
    Ok((key, value, tag & TAG_LARGE != 0))
}

impl<'a> Leaf<'a> {
    /// How many entries it has.
    pub(super) fn count(self) -> usize {
        self.0.count
    }

    #[inline]
    pub(super) fn key(self, index: usize) -> Result<&'a [u8], Flaw> {
        Ok(split_entry(self.0.cell(index)?)?.0)
    }

    #[inline]
    pub(super) fn entry(self, index: usize) -> Result<(&'a [u8], Stored<'a>), Flaw> {
        let (key, value, large) = split_entry(self.0.cell(index)?)?;
        if !large {
            return Ok((key, Stored::Inline(value)));
        }
        let bytes = get_u32(value, 0).ok_or(Flaw::Cell)?;
        let first = PageId(get_u64(value, 4).ok_or(Flaw::Cell)?);
        if value.len() != CHAIN_BYTES || bytes == 0 || bytes as usize > crate::VALUE_BYTES_MAX {
            return Err(Flaw::Cell);
        }
        Ok((key, Stored::Large(Chain { first, bytes })))
    }

    /// The index of a key, or the index where it would be inserted.
    #[inline]
    pub(super) fn search(self, key: &[u8]) -> Result<Result<usize, usize>, Flaw> {
        let (mut low, mut high) = (0, self.0.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle)?.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The bytes of slots and cells.
    pub(super) fn used(self) -> usize {
        self.0.used()
    }

    pub(super) fn is_underfull(self) -> bool {
        self.used() < LOW_WATER_BYTES
    }

    /// Whether an entry can be put at a position (as [`Leaf::search`] gives it), replacing the one that is there.
    pub(super) fn has_room(
        self,
        position: Result<usize, usize>,
        key: &[u8],
        value: Stored<'_>,
    ) -> Result<bool, Flaw> {
        let freed = match position {
            Ok(index) => SLOT_BYTES + self.0.cell(index)?.len(),
            Err(_) => 0,
        };
        Ok(SLOT_BYTES + TAG_BYTES + key.len() + value.bytes() <= self.0.room() + freed)
    }

    /// Checks the order of the keys, their lengths and places.
    pub(super) fn check(self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<(), Flaw> {
        self.0.check()?;
        let mut before: Option<&[u8]> = None;
        for index in 0..self.count() {
            let (key, _) = self.entry(index)?;
            if before.is_some_and(|before| before >= key) {
                return Err(Flaw::Order);
            }
            check_key(key, lower, upper)?;
            before = Some(key);
        }
        Ok(())
    }
}

fn check_key(key: &[u8], lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<(), Flaw> {
    if key.len() > KEY_BYTES_MAX {
        Err(Flaw::KeyLength)
    } else if lower.is_some_and(|lower| key < lower) || upper.is_some_and(|upper| key >= upper) {
        Err(Flaw::Fence)
    } else {
        Ok(())
    }
}

/// An inner node, which has at least one child.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a>(Cells<'a>);

impl<'a> Inner<'a> {
    pub(super) fn level(self) -> u8 {
        self.0.level()
    }

    /// The level of its children.
    pub(super) fn child_level(self) -> u8 {
        self.0.level().saturating_sub(1)
    }

    /// How many children it has.
    pub(super) fn count(self) -> usize {
        self.0.count
    }

    #[inline]
    pub(super) fn child(self, index: usize) -> Result<PageId, Flaw> {
        Ok(PageId(get_u64(self.0.cell(index)?, 0).ok_or(Flaw::Cell)?))
    }

    /// The separator below a child; that of the first is empty.
    #[inline]
    pub(super) fn separator(self, index: usize) -> Result<&'a [u8], Flaw> {
        self.0.cell(index)?.get(CHILD_BYTES..).ok_or(Flaw::Cell)
    }

    /// The index of the last child whose separator is not right of the goal: `is_right` must be false for the
    /// separators up to some child and true for those after it.
    #[inline]
    fn partition(self, is_right: impl Fn(&[u8]) -> bool) -> Result<usize, Flaw> {
        let (mut low, mut high) = (1, self.0.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_right(self.separator(middle)?) { high = middle } else { low = middle + 1 }
        }
        Ok(low - 1)
    }

    /// The index of the child that covers a key.
    #[inline]
    pub(super) fn covering(self, key: &[u8]) -> Result<usize, Flaw> {
        self.partition(|separator| separator > key)
    }

    /// The index of the child that covers the greatest keys less than `key`.
    pub(super) fn covering_before(self, key: &[u8]) -> Result<usize, Flaw> {
        self.partition(|separator| separator >= key)
    }

    /// Whether any separator fits, whatever its length: a child can be split without asking the parent.
    pub(super) fn is_safe(self) -> bool {
        self.0.room() >= SEPARATOR_BYTES_MAX
    }

    /// Checks the order of the separators, their lengths and places.
    pub(super) fn check(self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<(), Flaw> {
        self.0.check()?;
        if !self.separator(0)?.is_empty() {
            return Err(Flaw::FirstSeparator);
        }
        let mut before = lower;
        for index in 1..self.count() {
            let separator = self.separator(index)?;
            if before.is_some_and(|before| before >= separator) {
                return Err(Flaw::Order);
            }
            check_key(separator, lower, upper)?;
            before = Some(separator);
        }
        Ok(())
    }
}

/// Makes a page an empty node.
fn init(page: &mut Page, level: u8) {
    page.set_kind(if level == 0 { PageKind::TreeLeaf } else { PageKind::TreeInner });
    let body = page.body_mut();
    body.fill(0);
    body[0] = level;
    put_u16(body, 4, BODY_BYTES);
}

/// Makes a page an empty leaf.
pub(super) fn init_leaf(page: &mut Page) {
    init(page, 0);
}

/// Makes a page an inner node with one child.
pub(super) fn init_inner(page: &mut Page, level: u8, child: PageId) -> Result<(), Flaw> {
    init(page, level);
    insert_cell(page.body_mut(), 0, &[&child.0.to_le_bytes()])
}

/// Inserts a cell, given in pieces, before the one at `index`.
fn insert_cell(body: &mut Body, index: usize, pieces: &[&[u8]]) -> Result<(), Flaw> {
    let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let mut cells = Cells::parse(body)?;
    if index > cells.count {
        return Err(Flaw::Slot);
    }
    if slot_at(cells.count + 1) + bytes > cells.heap {
        compact(body)?;
        cells = Cells::parse(body)?;
        if slot_at(cells.count + 1) + bytes > cells.heap {
            return Err(Flaw::Overfull);
        }
    }
    let Cells { count, heap, live, .. } = cells;
    let start = heap - bytes;
    write_pieces(body, start, pieces);
    body.copy_within(slot_at(index)..slot_at(count), slot_at(index + 1));
    put_u16(body, slot_at(index), start);
    put_u16(body, slot_at(index) + 2, bytes);
    put_u16(body, 2, count + 1);
    put_u16(body, 4, start);
    put_u16(body, 6, live + bytes);
    Ok(())
}

/// Writes pieces one after another. The caller made sure that they fit.
fn write_pieces(body: &mut Body, mut start: usize, pieces: &[&[u8]]) {
    for piece in pieces {
        body[start..start + piece.len()].copy_from_slice(piece);
        start += piece.len();
    }
}

fn remove_cell(body: &mut Body, index: usize) -> Result<(), Flaw> {
    let cells = Cells::parse(body)?;
    let (start, end) = cells.range(index)?;
    let Cells { count, heap, live, .. } = cells;
    let live = live.checked_sub(end - start).ok_or(Flaw::Header)?;
    body.copy_within(slot_at(index + 1)..slot_at(count), slot_at(index));
    put_u16(body, 2, count - 1);
    put_u16(body, 6, live);
    if count == 1 {
        put_u16(body, 4, BODY_BYTES);
    } else if start == heap {
        put_u16(body, 4, end);
    }
    Ok(())
}

/// Puts another cell in the place of the one at `index`; where it lies already, if it is not longer.
fn replace_cell(body: &mut Body, index: usize, pieces: &[&[u8]]) -> Result<(), Flaw> {
    let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let cells = Cells::parse(body)?;
    let (start, end) = cells.range(index)?;
    if bytes > end - start {
        remove_cell(body, index)?;
        return insert_cell(body, index, pieces);
    }
    let live = cells.live.checked_sub(end - start).ok_or(Flaw::Header)? + bytes;
    write_pieces(body, start, pieces);
    put_u16(body, slot_at(index) + 2, bytes);
    put_u16(body, 6, live);
    Ok(())
}

/// Moves the cells together, so that the holes between them become room.
fn compact(body: &mut Body) -> Result<(), Flaw> {
    let old = *body;
    let cells = Cells::parse(&old)?;
    let mut heap = BODY_BYTES;
    for index in 0..cells.count {
        let cell = cells.cell(index)?;
        let start = heap
            .checked_sub(cell.len())
            .filter(|start| *start >= slot_at(cells.count))
            .ok_or(Flaw::Overfull)?;
        body[start..heap].copy_from_slice(cell);
        put_u16(body, slot_at(index), start);
        heap = start;
    }
    put_u16(body, 4, heap);
    put_u16(body, 6, BODY_BYTES - heap);
    Ok(())
}

/// Puts an entry into a leaf that has room for it, at the position that [`Leaf::search`] gave.
pub(super) fn put_entry(
    page: &mut Page,
    position: Result<usize, usize>,
    key: &[u8],
    value: Stored<'_>,
) -> Result<(), Flaw> {
    with_entry(key, value, |pieces| match position {
        Ok(index) => replace_cell(page.body_mut(), index, pieces),
        Err(index) => insert_cell(page.body_mut(), index, pieces),
    })
}

/// Lays an entry out as the pieces of a cell.
fn with_entry<R>(key: &[u8], value: Stored<'_>, f: impl FnOnce(&[&[u8]]) -> R) -> R {
    // Keys are at most KEY_BYTES_MAX long, which leaves the highest bit free (asserted above).
    let tag = key.len() as u16;
    match value {
        Stored::Inline(value) => f(&[&tag.to_le_bytes(), key, value]),
        Stored::Large(Chain { first, bytes }) => {
            f(&[&(tag | TAG_LARGE).to_le_bytes(), key, &bytes.to_le_bytes(), &first.0.to_le_bytes()])
        }
    }
}

/// Removes an entry from a leaf.
pub(super) fn remove_entry(page: &mut Page, index: usize) -> Result<(), Flaw> {
    remove_cell(page.body_mut(), index)
}

/// Inserts a child, which must not be the first, with its separator.
pub(super) fn insert_child(
    page: &mut Page,
    index: usize,
    separator: &[u8],
    child: PageId,
) -> Result<(), Flaw> {
    insert_cell(page.body_mut(), index, &[&child.0.to_le_bytes(), separator])
}

/// Removes a child, which must not be the first, with its separator.
pub(super) fn remove_child(page: &mut Page, index: usize) -> Result<(), Flaw> {
    remove_cell(page.body_mut(), index)
}

/// Moves the upper half of a full leaf and a new entry into `right`, which is new, and returns the separator.
///
/// An entry that comes last goes to the right alone, and one that comes first stays on the left alone: keys that
/// are inserted in order leave full leaves behind.
pub(super) fn split_leaf(
    left: &mut Page,
    right: &mut Page,
    position: Result<usize, usize>,
    key: &[u8],
    value: Stored<'_>,
) -> Result<Vec<u8>, Flaw> {
    let old = *left.body();
    let mut cells = Cells::parse(&old)?.all()?;
    let entry = Cow::Owned(with_entry(key, value, |pieces| pieces.concat()));
    let cut_beside_entry = match position {
        Err(index) if index == cells.len() => Some(index),
        Err(0) => Some(1),
        _ => None,
    };
    match position {
        Ok(index) => *cells.get_mut(index).ok_or(Flaw::Slot)? = entry,
        Err(index) if index <= cells.len() => cells.insert(index, entry),
        Err(_) => return Err(Flaw::Slot),
    }
    let cut = cut_beside_entry.unwrap_or_else(|| middle(&cells, 0));
    cut_in_two(left, right, 0, cells, cut)
}

/// Moves the upper part of an inner node into `right`, which is new, and returns the separator. With `at_end`, the
/// split was caused by a key of the last child, and the left node stays as full as it may.
pub(super) fn split_inner(left: &mut Page, right: &mut Page, at_end: bool) -> Result<Vec<u8>, Flaw> {
    let old = *left.body();
    let cells = Cells::parse(&old)?;
    let all = cells.all()?;
    let cut = if at_end { all.len().saturating_sub(2) } else { middle(&all, cells.level()) };
    cut_in_two(left, right, cells.level(), all, cut)
}

/// What became of two neighbours.
#[derive(Debug)]
pub(super) enum Balanced {
    /// The left one holds all; the right one has left the parent and is to be freed.
    Merged,
    /// They share their cells evenly, around this separator.
    Shared(Vec<u8>),
    /// They stay as they are: they do not fit one page, and sharing would not help, or would need a separator
    /// that the parent has no room for.
    Unchanged,
}

/// Merges the children `index` and `index + 1` of `parent`, or moves cells from the fuller to the other.
pub(super) fn balance(
    parent: &mut Page,
    index: usize,
    left: &mut Page,
    right: &mut Page,
) -> Result<Balanced, Flaw> {
    let Node::Inner(inner) = Node::parse(parent, None)? else { return Err(Flaw::Kind) };
    let separator = inner.separator(index + 1)?.to_vec();
    let (right_id, parent_room) = (inner.child(index + 1)?, inner.0.room());
    let (old_left, old_right) = (*left.body(), *right.body());
    let (left_cells, right_cells) = (Cells::parse(&old_left)?, Cells::parse(&old_right)?);
    let level = left_cells.level();
    let mut cells = left_cells.all()?;
    let mut upper = right_cells.all()?;
    if let Some(first) = upper.first_mut().filter(|_| level > 0) {
        // What the parent says of the right node's first child goes with that child.
        first.to_mut().extend_from_slice(&separator);
    }
    cells.append(&mut upper);
    if total(&cells) <= SPACE_BYTES {
        write_node(left, level, &cells)?;
        remove_child(parent, index + 1)?;
        return Ok(Balanced::Merged);
    }
    let cut = middle(&cells, level);
    let new = separator_at(&cells, cut, level)?;
    if cut == left_cells.count || new.len() > parent_room + separator.len() {
        return Ok(Balanced::Unchanged);
    }
    cut_in_two(left, right, level, cells, cut)?;
    replace_cell(parent.body_mut(), index + 1, &[&right_id.0.to_le_bytes(), &new])?;
    Ok(Balanced::Shared(new))
}

fn total(cells: &[Cow<'_, [u8]>]) -> usize {
    cells.iter().map(|cell| SLOT_BYTES + cell.len()).sum()
}

/// Where to cut cells so that both sides have about half of the bytes. The cell in the middle goes to the side that
/// has less; in an inner node always to the right, where it leaves its separator to the parent. So neither side of
/// an inner node has more than half, and neither side of leaves more than half and half an entry.
fn middle(cells: &[Cow<'_, [u8]>], level: u8) -> usize {
    let total = total(cells);
    let mut before = 0;
    for (index, cell) in cells.iter().enumerate() {
        let reached = before + SLOT_BYTES + cell.len();
        if 2 * reached >= total {
            let goes_left = level == 0 && 2 * reached - total < total - 2 * before;
            return index + usize::from(goes_left);
        }
        before = reached;
    }
    cells.len()
}

/// What separates the cells before `cut` from the others: in leaves the shortest prefix of the right key that is
/// greater than the left key, in inner nodes the separator of the right child.
fn separator_at(cells: &[Cow<'_, [u8]>], cut: usize, level: u8) -> Result<Vec<u8>, Flaw> {
    let (Some(left), Some(right)) = (cut.checked_sub(1).and_then(|last| cells.get(last)), cells.get(cut))
    else {
        return Err(Flaw::Overfull);
    };
    if level > 0 {
        return Ok(right.get(CHILD_BYTES..).ok_or(Flaw::Cell)?.to_vec());
    }
    let (left, right) = (split_entry(left)?.0, split_entry(right)?.0);
    if left >= right {
        return Err(Flaw::Order);
    }
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right.get(..=common).map(<[u8]>::to_vec).ok_or(Flaw::Order)
}

/// Rewrites two nodes from their cells; changes nothing if they do not fit. Returns the separator.
fn cut_in_two(
    left: &mut Page,
    right: &mut Page,
    level: u8,
    mut cells: Vec<Cow<'_, [u8]>>,
    cut: usize,
) -> Result<Vec<u8>, Flaw> {
    let separator = separator_at(&cells, cut, level)?;
    let (lower, upper) = cells.split_at_mut(cut);
    if let Some(first) = upper.first_mut().filter(|_| level > 0) {
        first.to_mut().truncate(CHILD_BYTES);
    }
    if total(lower) > SPACE_BYTES || total(upper) > SPACE_BYTES {
        return Err(Flaw::Overfull);
    }
    write_node(right, level, upper)?;
    write_node(left, level, lower)?;
    Ok(separator)
}

fn write_node(page: &mut Page, level: u8, cells: &[Cow<'_, [u8]>]) -> Result<(), Flaw> {
    init(page, level);
    cells.iter().enumerate().try_for_each(|(index, cell)| insert_cell(page.body_mut(), index, &[cell]))
}

/// Makes `to` the same node as `from`.
pub(super) fn copy_node(from: &Page, to: &mut Page) {
    to.set_kind(from.kind());
    to.body_mut().copy_from_slice(from.body());
}

/// A part of a large value: the page with what follows, and the bytes.
pub(super) struct Part<'a> {
    /// The chain that begins after this part; none after the last.
    pub(super) rest: Option<Chain>,
    pub(super) bytes: &'a [u8],
}

/// Reads a page as the first part of `chain`.
pub(super) fn parse_part(page: &Page, chain: Chain) -> Result<Part<'_>, Flaw> {
    if page.kind() != PageKind::Overflow {
        return Err(Flaw::Kind);
    }
    let body: &[u8] = page.body();
    let next = get_u64(body, 0).ok_or(Flaw::Header)?;
    if get_u32(body, 8) != Some(chain.bytes) {
        return Err(Flaw::Chain);
    }
    let bytes = (chain.bytes as usize).min(OVERFLOW_PART_BYTES);
    let rest = chain.bytes - bytes as u32;
    Ok(Part {
        rest: (rest > 0).then_some(Chain { first: PageId(next), bytes: rest }),
        bytes: body.get(OVERFLOW_HEADER_BYTES..OVERFLOW_HEADER_BYTES + bytes).ok_or(Flaw::Header)?,
    })
}

/// Fills a new overflow page with a part and what follows it. Returns the chain that begins here.
pub(super) fn write_part(
    page: &mut Page,
    id: PageId,
    part: &[u8],
    rest: Option<Chain>,
) -> Result<Chain, Flaw> {
    let after = rest.map_or(0, |rest| rest.bytes);
    let bytes =
        u32::try_from(part.len()).ok().and_then(|bytes| after.checked_add(bytes)).ok_or(Flaw::Chain)?;
    let body = page.body_mut();
    body[..8].copy_from_slice(&rest.map_or(0, |rest| rest.first.0).to_le_bytes());
    body[8..OVERFLOW_HEADER_BYTES].copy_from_slice(&bytes.to_le_bytes());
    body.get_mut(OVERFLOW_HEADER_BYTES..OVERFLOW_HEADER_BYTES + part.len())
        .ok_or(Flaw::Overfull)?
        .copy_from_slice(part);
    Ok(Chain { first: id, bytes })
}

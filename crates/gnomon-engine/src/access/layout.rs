//! The layout of a tree's pages.
//!
//! All numbers are little-endian. Offsets count from the begin of the page's body.
//!
//! All nodes of a tree have one size. Offsets have two bytes whatever it is: in bodies of up to 64 KiB they count
//! bytes, in larger ones steps of 2 to 16 bytes ([`Shape`]), and cells begin at multiples of that. Offsets of four
//! bytes would make slots half as long again, or need a second layout with code of its own; steps cost a small page
//! nothing but a shift by zero, and a large one 8 bytes a cell at most, on average. Its cells have at most 65,520
//! bytes: longer values are kept in overflow pages.
//!
//! **Node** (kinds `TreeLeaf` and `TreeInner`), a slotted page:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | level: 0 for a leaf, 1 for the parent of leaves, and so on |
//! | 1 | 1 | skip: how many leading bytes the keys of the node are known to have in common |
//! | 2 | 2 | count of cells |
//! | 4 | 2 | heap: the lowest offset that a cell may occupy, in steps |
//! | 6 | 2 | live: what all cells take together, in steps |
//! | 8 | 8 each | slots in the order of keys: a cell's offset (2), in steps, its length in bytes (2), its key's head (4) |
//! | heap | | cells in any order, with holes where cells were removed, up to the end of the body |
//!
//! A key's head are the four bytes after those that it shares with all others, with zeros after its end, as a
//! big-endian number. Heads are in the order of keys, so a search compares numbers that lie side by side, and
//! touches cells only where heads are equal (Lomet 2001: "The Evolution of Effective B-tree"; Graefe and Larson 2001:
//! "B-Tree Indexes and CPU Caches").
//!
//! A leaf's cell is an entry: `tag` (2), key, value. The low 15 bits of the tag are the key's length. If its
//! highest bit is clear, the value is the rest of the cell; if it is set, the value is large and the rest is its
//! length in bytes (4) and the number of its first overflow page (8).
//!
//! An inner node's cell is the page number of a child (8) and a separator, which is the rest of the cell. Child
//! `i` covers the keys from its own separator (included) to that of child `i + 1` (excluded). The first cell's
//! separator is empty: the first child begins where the node itself does. It has no head and shares nothing.
//!
//! **Overflow page** (kind `Overflow`): a part of a large value. Every part but the last fills its page. The pages have
//! the sizes that fit the value ([`parts`]), whatever the size of the tree's nodes.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | the page number of the next part; zero in the last |
//! | 8 | 4 | remaining: the bytes of the value in this part and all that follow |
//! | 12 | | the part |
//!
//! The bytes are not trusted. Every access checks what it relies on and answers with a [`Flaw`]; checks of a
//! whole node (cells do not overlap, keys ascend, heads are those of the keys) are left to the walk in `check`. A wrong
//! order can make a search miss, never run for ever.

mod cells;
mod divide;

use crate::{
    Error, KEY_BYTES_MAX, PageId, Result,
    page::{Page, PageKind, PageSize},
    sync::prefetch,
};
use cells::{Cells, Header, init, insert_cell, remove_cell, replace_cell, split_entry};

pub(crate) use cells::EntryPlace;
pub(super) use cells::common;
pub(super) use divide::{Balanced, balance, split_inner, split_leaf};

const NODE_HEADER_BYTES: usize = 8;
const SLOT_BYTES: usize = 8;
const HEAD_BYTES: usize = 4;
const SKIP_MAX: usize = u8::MAX as usize;
const TAG_BYTES: usize = 2;
const CHILD_BYTES: usize = 8;
const CHAIN_BYTES: usize = 12;
const TAG_LARGE: u16 = 0x8000;
/// The longest cell, in bytes: a length has two bytes.
const CELL_BYTES_MAX: usize = 65_520;
/// An inner node with fewer children is underfull: it could not lose one and still have a separator.
const INNER_CHILDREN_MIN: usize = 3;
/// No tree is higher: with two children a node it would have more pages than there are numbers.
pub(super) const LEVEL_MAX: u8 = 63;

/// The sizes in a node that follow from the size of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    body_bytes: usize,
    /// Offsets count steps of `1 << shift` bytes.
    shift: u32,
}

impl Shape {
    pub(super) const fn of(size: PageSize) -> Shape {
        Shape::of_body(size.body_bytes())
    }

    #[inline]
    const fn of_body(body_bytes: usize) -> Shape {
        let bits = usize::BITS - body_bytes.leading_zeros();
        Shape { body_bytes, shift: bits.saturating_sub(u16::BITS) }
    }

    /// Bytes that slots and cells share in a node.
    #[inline]
    pub(super) const fn space_bytes(self) -> usize {
        self.body_bytes - NODE_HEADER_BYTES
    }

    /// Bytes that a cell takes of a node: whole steps.
    #[inline]
    const fn padded(self, bytes: usize) -> usize {
        let step = 1 << self.shift;
        (bytes + step - 1) & !(step - 1)
    }

    /// The longest cell of a leaf, in bytes, of which three with their slots fit: so a leaf that overflows can be cut
    /// in two wherever the new entry falls.
    const fn entry_cell_max(self) -> usize {
        let third = self.space_bytes() / 3 - SLOT_BYTES;
        let whole_steps = third >> self.shift << self.shift;
        if whole_steps < CELL_BYTES_MAX { whole_steps } else { CELL_BYTES_MAX }
    }

    /// The longest key, in bytes: a quarter of the page, up to [`KEY_BYTES_MAX`].
    const fn key_bytes_max(self) -> usize {
        let quarter = self.body_bytes.next_power_of_two() / 4;
        if quarter < KEY_BYTES_MAX { quarter } else { KEY_BYTES_MAX }
    }

    /// The largest separator with its child and slot, in bytes. An inner node with that much room is safe to pass.
    const fn separator_bytes_max(self) -> usize {
        SLOT_BYTES + self.padded(CHILD_BYTES + self.key_bytes_max())
    }

    /// A node with less than this in slots and cells is underfull.
    const fn low_water_bytes(self) -> usize {
        self.space_bytes() / 4
    }

    /// True if a value of that length is stored in the leaf, beside its key, and not in overflow pages.
    pub(super) const fn is_inline(self, key_bytes: usize, value_bytes: usize) -> bool {
        value_bytes <= self.inline_bytes_max(key_bytes)
    }

    /// The longest value that is stored in the leaf, in bytes.
    pub(super) const fn inline_bytes_max(self, key_bytes: usize) -> usize {
        self.entry_cell_max().saturating_sub(TAG_BYTES + key_bytes)
    }

    /// Bytes that an entry takes of its leaf, at most.
    pub(super) const fn entry_bytes(self, key_bytes: usize, value_bytes: usize) -> usize {
        let stored = if self.is_inline(key_bytes, value_bytes) { value_bytes } else { CHAIN_BYTES };
        SLOT_BYTES + self.padded(TAG_BYTES + key_bytes + stored)
    }
}

/// The longest key of a tree with nodes of this size, in bytes.
pub(super) const fn key_bytes_max(size: PageSize) -> usize {
    Shape::of(size).key_bytes_max()
}

const OVERFLOW_HEADER_BYTES: usize = 12;

/// Bytes of a value that an overflow page of this size holds.
const fn part_bytes(size: PageSize) -> usize {
    size.body_bytes() - OVERFLOW_HEADER_BYTES
}

/// The overflow pages of a value of so many bytes in a tree with nodes of `size`: their sizes, and how many bytes each
/// has of the value.
///
/// As few as can be of which none has more than a quarter unused, and none more than `max`. But they have 4 KiB at
/// least, unless the nodes have less: smaller ones would save little space for what they cost.
pub(super) fn parts(
    value_bytes: usize,
    size: PageSize,
    max: PageSize,
) -> impl Iterator<Item = (PageSize, usize)> {
    let smallest = size.min(PageSize::DEFAULT);
    let largest = max.max(smallest);
    let mut rest = value_bytes;
    std::iter::from_fn(move || {
        let size = match PageSize::all().find(|size| part_bytes(*size) >= rest) {
            _ if rest == 0 => return None,
            None => largest,
            Some(fits) if fits > largest => largest,
            Some(fits) if fits <= smallest => smallest,
            Some(fits) if (part_bytes(fits) - rest) * 4 <= fits.bytes() => fits,
            Some(fits) => fits.half().unwrap_or(fits),
        };
        let bytes = rest.min(part_bytes(size));
        rest -= bytes;
        Some((size, bytes))
    })
}

const _: () = {
    assert!(KEY_BYTES_MAX < TAG_LARGE as usize, "a key's length leaves the tag's highest bit free");
    assert!(crate::VALUE_BYTES_MAX <= u32::MAX as usize, "a large value's length has four bytes");
    let mut code = 0;
    while let Some(size) = PageSize::from_code(code) {
        let shape = Shape::of(size);
        assert!(shape.body_bytes >> shape.shift <= u16::MAX as usize, "an offset has two bytes");
        assert!(shape.padded(shape.body_bytes) == shape.body_bytes, "the body ends after a whole step");
        assert!(
            TAG_BYTES + shape.key_bytes_max() + CHAIN_BYTES <= shape.entry_cell_max(),
            "every entry fits"
        );
        // An inner node without room for one more separator has at least four children, of which each half gets two.
        let least = SLOT_BYTES + shape.padded(CHILD_BYTES) + 2 * shape.separator_bytes_max();
        assert!(shape.space_bytes() - shape.separator_bytes_max() >= least);
        code += 1;
    }
};

/// A defect of a page. The caller adds the page's number.
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
    Head,
    Size,
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
            Flaw::Head => "a slot has another head than its key",
            Flaw::Size => "its size is not that of the tree's nodes",
        }
    }

    /// The error for this flaw in a page.
    pub(super) fn error(self, page: PageId) -> Error {
        Error::Corrupt { file: crate::LOGICAL_PAGES.into(), page: page.0, detail: self.text().into() }
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
            Node::Inner(inner) => {
                inner.0.count < INNER_CHILDREN_MIN || inner.0.used() < inner.0.shape.low_water_bytes()
            }
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

/// A leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a>(Cells<'a>);

/// The header of a leaf, which was checked.
#[derive(Clone, Copy)]
pub(super) struct LeafHeader(Header);

impl LeafHeader {
    /// Number of entries.
    pub(super) fn count(self) -> usize {
        self.0.count
    }
}

impl<'a> Leaf<'a> {
    /// Returns the leaf with this header, which was read from the same image.
    #[inline]
    pub(super) fn with_header(page: &'a Page, header: LeafHeader) -> Leaf<'a> {
        Leaf(Cells { body: page.body(), header: header.0 })
    }

    /// The header, to read entries of the same image later.
    pub(super) fn header(self) -> LeafHeader {
        LeafHeader(self.0.header)
    }

    /// Number of entries.
    pub(super) fn count(self) -> usize {
        self.0.count
    }

    /// Returns the place of an entry; none if its value is large.
    #[inline]
    pub(super) fn entry_place(self, index: usize) -> Result<Option<EntryPlace>, Flaw> {
        self.0.entry_place(index)
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
        self.0.search(key)
    }

    /// Asks for the memory of a key's entry, if it is there.
    pub(super) fn prefetch(self, key: &[u8]) {
        if let Ok(Ok(index)) = self.search(key)
            && let Ok(cell) = self.0.cell(index)
        {
            prefetch(cell);
        }
    }

    /// The bytes of slots and cells.
    pub(super) fn used(self) -> usize {
        self.0.used()
    }

    pub(super) fn is_underfull(self) -> bool {
        self.used() < self.0.shape.low_water_bytes()
    }

    /// Returns true if an entry can be put at a position (as [`Leaf::search`] gives it), replacing the one that is
    /// there.
    pub(super) fn has_room(
        self,
        position: Result<usize, usize>,
        key: &[u8],
        value: Stored<'_>,
    ) -> Result<bool, Flaw> {
        let shape = self.0.shape;
        let freed = match position {
            Ok(index) => SLOT_BYTES + shape.padded(self.0.cell(index)?.len()),
            Err(_) => 0,
        };
        let needed = SLOT_BYTES + shape.padded(TAG_BYTES + key.len() + value.bytes());
        Ok(needed <= self.0.room() + freed)
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
            check_key(key, self.0.shape, lower, upper)?;
            before = Some(key);
        }
        Ok(())
    }
}

fn check_key(key: &[u8], shape: Shape, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<(), Flaw> {
    if key.len() > shape.key_bytes_max() {
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

    /// Number of children.
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
        self.0.key(index)
    }

    /// The index of the child that covers a key.
    #[inline]
    pub(super) fn covering(self, key: &[u8]) -> Result<usize, Flaw> {
        // The first child has no separator, so there is always one before the place of insertion.
        Ok(self.0.search(key)?.unwrap_or_else(|next| next - 1))
    }

    /// The index of the child that covers the greatest keys less than `key`.
    pub(super) fn covering_before(self, key: &[u8]) -> Result<usize, Flaw> {
        let (Ok(next) | Err(next)) = self.0.search(key)?;
        Ok(next - 1)
    }

    /// The bytes of slots and cells.
    pub(super) fn used(self) -> usize {
        self.0.used()
    }

    /// True if any separator fits, whatever its length: a child can be split without splitting this node.
    pub(super) fn is_safe(self) -> bool {
        self.0.room() >= self.0.shape.separator_bytes_max()
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
            check_key(separator, self.0.shape, lower, upper)?;
            before = Some(separator);
        }
        Ok(())
    }
}

/// Makes a page an empty leaf.
pub(super) fn init_leaf(page: &mut Page) {
    init(page, 0);
}

/// Makes a page an inner node with one child.
pub(super) fn init_inner(page: &mut Page, level: u8, child: PageId) -> Result<(), Flaw> {
    init(page, level);
    insert_cell(page.body_mut(), 0, &[], &[&child.0.to_le_bytes()])
}

/// Puts an entry into a leaf that has room for it, at the position that [`Leaf::search`] gave.
pub(super) fn put_entry(
    page: &mut Page,
    position: Result<usize, usize>,
    key: &[u8],
    value: Stored<'_>,
) -> Result<(), Flaw> {
    with_entry(key, value, |pieces| match position {
        Ok(index) => replace_cell(page.body_mut(), index, key, pieces),
        Err(index) => insert_cell(page.body_mut(), index, key, pieces),
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
    insert_cell(page.body_mut(), index, separator, &[&child.0.to_le_bytes(), separator])
}

/// Removes a child, which must not be the first, with its separator.
pub(super) fn remove_child(page: &mut Page, index: usize) -> Result<(), Flaw> {
    remove_cell(page.body_mut(), index)
}

/// Makes `to` the same node as `from`.
pub(super) fn copy_node(from: &Page, to: &mut Page) -> Result<(), Flaw> {
    if from.size() != to.size() {
        return Err(Flaw::Size);
    }
    to.set_kind(from.kind());
    to.body_mut().copy_from_slice(from.body());
    Ok(())
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
    let bytes = (chain.bytes as usize).min(part_bytes(page.size()));
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

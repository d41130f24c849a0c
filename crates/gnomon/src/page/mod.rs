//! Pages of 4 KiB, each with a checksum, a format version and its own identity.
//!
//! The first [`HEADER_BYTES`] belong to level 0 and say what the page is and where it belongs, so that a damaged,
//! misdirected, stale or torn block is detected when it is read; the body belongs to the page's owner.

pub use crate::id::PageId;

/// The size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// The size of the header that level 0 keeps in each page, in bytes.
pub const HEADER_BYTES: usize = 32;
/// What a page's owner has, in bytes.
pub const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// A node of the page table.
    PageTable = 1,
    /// A part of the map of physical pages in use.
    SpaceMap = 2,
    /// A leaf of a B+tree.
    TreeLeaf = 3,
    /// An inner node of a B+tree.
    TreeInner = 4,
    /// A part of a large value.
    Overflow = 5,
}

impl PageKind {
    /// The kind with this code, if there is one.
    pub fn from_code(code: u8) -> Option<PageKind> {
        Some(match code {
            1 => PageKind::PageTable,
            2 => PageKind::SpaceMap,
            3 => PageKind::TreeLeaf,
            4 => PageKind::TreeInner,
            5 => PageKind::Overflow,
            _ => return None,
        })
    }
}

/// The image of a page in memory.
#[derive(Clone)]
pub struct Page {
    kind: PageKind,
    body: Box<[u8; BODY_BYTES]>,
}

impl Page {
    /// A page of zeros.
    pub fn new(kind: PageKind) -> Page {
        Page { kind, body: Box::new([0; BODY_BYTES]) }
    }

    /// What the page holds.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Changes what the page holds.
    pub fn set_kind(&mut self, kind: PageKind) {
        self.kind = kind;
    }

    /// The owner's bytes.
    pub fn body(&self) -> &[u8; BODY_BYTES] {
        &self.body
    }

    /// The owner's bytes.
    pub fn body_mut(&mut self) -> &mut [u8; BODY_BYTES] {
        &mut self.body
    }
}

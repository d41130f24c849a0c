//! The names of locks: table, space and part.

use std::fmt;

/// A lock table of a manager, by its place in the list that the manager was made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(u8);

impl TableId {
    /// The table at a place.
    pub const fn new(index: u8) -> TableId {
        TableId(index)
    }

    /// The table's place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name of a lock. The manager compares names and knows nothing else of them; that a whole contains its
/// parts is for the callers to respect, by intention modes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockName<'a> {
    /// The lock table, which decides the modes.
    pub table: TableId,
    /// A number in which the parts are unique: a tree, a file.
    pub space: u64,
    /// The part of the space.
    pub part: Part<'a>,
}

/// The part of a space that a lock is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part<'a> {
    /// All of it.
    Whole,
    /// A key of it, the gap before the key, or another part that bytes name.
    Key(&'a [u8]),
    /// The range after the last key.
    End,
}

impl<'a> LockName<'a> {
    /// A space as a whole.
    pub const fn whole(table: TableId, space: u64) -> Self {
        LockName { table, space, part: Part::Whole }
    }

    /// A key of a space.
    pub const fn key(table: TableId, space: u64, key: &'a [u8]) -> Self {
        LockName { table, space, part: Part::Key(key) }
    }

    /// The range after the last key of a space.
    pub const fn end(table: TableId, space: u64) -> Self {
        LockName { table, space, part: Part::End }
    }

    /// Returns a hash by folded multiplication over words of eight bytes, as in wyhash. It does not resist chosen
    /// names: these cause long chains in a shard and nothing else.
    pub(super) fn hash(&self) -> u64 {
        let (kind, key) = match self.part {
            Part::Whole => (0, &[][..]),
            Part::Key(key) => (1, key),
            Part::End => (2, &[][..]),
        };
        let mut hash = fold(self.space ^ SEEDS[0], u64::from(self.table.0) << 8 | kind);
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            hash = fold(hash, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(fold(hash, u64::from_le_bytes(last)), key.len() as u64)
    }
}

/// Fractional digits of pi.
const SEEDS: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0];

fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ SEEDS[1]) * u128::from(word ^ SEEDS[2]);
    product as u64 ^ (product >> 64) as u64
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Whole => Ok(()),
            Part::Key(key) => write!(f, "{}", key.escape_ascii()),
            Part::End => f.write_str("<end>"),
        }
    }
}

//! Ranges of keys.

use std::ops::Bound;

/// Which way a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large.
    Forward,
    /// From large keys to small.
    Backward,
}

/// A range of keys.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// One key.
    pub fn only(key: &[u8]) -> KeyRange {
        KeyRange { start: Bound::Included(key.to_vec()), end: Bound::Included(key.to_vec()) }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                return KeyRange { start: Bound::Included(prefix.to_vec()), end: Bound::Excluded(end) };
            }
        }
        KeyRange { start: Bound::Included(prefix.to_vec()), end: Bound::Unbounded }
    }

    pub(super) fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (as_slice(&self.start), as_slice(&self.end))
    }

    /// Whether no key can be inside.
    pub(super) fn is_empty(&self) -> bool {
        match self.as_bounds() {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            _ => false,
        }
    }

    /// Whether the key is before the range.
    pub(super) fn is_below(&self, key: &[u8]) -> bool {
        match as_slice(&self.start) {
            Bound::Included(start) => key < start,
            Bound::Excluded(start) => key <= start,
            Bound::Unbounded => false,
        }
    }

    /// Whether the key is after the range.
    pub(super) fn is_above(&self, key: &[u8]) -> bool {
        match as_slice(&self.end) {
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
            Bound::Unbounded => false,
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

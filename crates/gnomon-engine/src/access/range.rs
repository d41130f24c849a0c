//! Ranges of keys.

use std::ops::Bound;

/// The direction of a scan.
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
    /// The lower bound.
    pub start: Bound<Vec<u8>>,
    /// The upper bound.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of every key.
    pub fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Returns the range of one key.
    pub fn only(key: &[u8]) -> KeyRange {
        KeyRange { start: Bound::Included(key.to_vec()), end: Bound::Included(key.to_vec()) }
    }

    /// Returns the range of every key that begins with `prefix`.
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

    pub(crate) fn as_bounds(&self) -> Bounds<'_> {
        (as_slice(&self.start), as_slice(&self.end))
    }

    /// True if no key can be inside.
    pub(crate) fn is_empty(&self) -> bool {
        is_empty(self.as_bounds())
    }
}

/// Bounds of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// True if no key can be between bounds.
pub(crate) fn is_empty(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        _ => false,
    }
}

/// True if a key is before what is between bounds.
pub(crate) fn is_below(bounds: Bounds<'_>, key: &[u8]) -> bool {
    match bounds.0 {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    }
}

/// True if a key is after what is between bounds.
pub(crate) fn is_above(bounds: Bounds<'_>, key: &[u8]) -> bool {
    match bounds.1 {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

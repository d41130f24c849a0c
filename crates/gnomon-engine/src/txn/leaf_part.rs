//! Parts of leaves, as a reader sees them.
//!
//! A scan reads a leaf at a time and keeps its image. It lends the entries where they lie in the image; only what keys
//! held that have changed since the reader's snapshot lies elsewhere, and mostly there is none.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, Range},
};

use crate::{
    Result,
    access::{Bounds, Direction, EntryPlace, LeafView, Seek, Value, is_above, is_below},
    mvcc::Before,
    sync::Arc,
};

/// The part of a leaf that a reader has not passed yet, from both ends.
pub(super) struct LeafPart {
    view: LeafView,
    /// The entries of the leaf that were not passed.
    entries: Range<usize>,
    /// The values at the snapshot of keys that have changed since, in ascending order, as far as they were not passed.
    changed: VecDeque<(Box<[u8]>, Before)>,
}

/// An entry that a reader has passed.
pub(super) enum Passed {
    /// The entry of the leaf with this index.
    InLeaf(usize),
    /// A key and its value at the snapshot, which have changed since.
    Version(Box<[u8]>, Arc<[u8]>),
}

impl LeafPart {
    /// Returns the part of a leaf between bounds, with what its keys held that have `changed` since the snapshot.
    pub fn new(view: LeafView, bounds: Bounds<'_>, changed: BTreeMap<Box<[u8]>, Before>) -> Result<LeafPart> {
        let entries = entries_in(&view, bounds)?;
        Ok(LeafPart { view, entries, changed: changed.into_iter().collect() })
    }

    /// Returns the part of a leaf that is within what a scan has not read yet, and where that goes on behind it;
    /// none at the end. `changed` is given the bounds of the part and returns what its keys held that have changed
    /// since the snapshot.
    pub fn of_scan(
        view: LeafView,
        unread: Bounds<'_>,
        direction: Direction,
        changed: impl FnOnce(Bounds<'_>) -> BTreeMap<Box<[u8]>, Before>,
    ) -> Result<(LeafPart, Option<Bound<Vec<u8>>>)> {
        let covered = Covered::of(&view, unread, direction);
        let changed = changed(covered.bounds).into_iter().collect();
        let entries = entries_in(&view, covered.bounds)?;
        let rest = covered.rest(direction);
        Ok((LeafPart { view, entries, changed }, rest))
    }

    /// True if the reader has passed all of it.
    #[inline]
    pub fn is_passed(&self) -> bool {
        self.entries.is_empty() && self.changed.is_empty()
    }

    /// The leaf.
    pub fn view(&self) -> &LeafView {
        &self.view
    }

    /// Returns an entry of the leaf, which the reader has passed or not.
    #[inline]
    pub fn entry(&self, index: usize) -> Result<(&[u8], Value<'_>)> {
        self.view.known_entry(index)
    }

    /// Returns the place of an entry of the leaf; none if its value is large.
    #[inline]
    pub fn place(&self, index: usize) -> Result<Option<EntryPlace>> {
        self.view.place(index)
    }

    /// Returns the key and the value at a place in the leaf.
    #[inline]
    pub fn at(&self, place: EntryPlace) -> (&[u8], &[u8]) {
        self.view.at(place)
    }

    /// Passes the next entry in a direction, and returns its index, if nothing of the part has changed.
    #[inline]
    pub fn pass_unchanged(&mut self, direction: Direction) -> Option<usize> {
        if self.changed.is_empty() { self.pass_stored(direction) } else { None }
    }

    /// Passes the next entry in a direction and returns it; none at the end.
    pub fn pass(&mut self, direction: Direction) -> Result<Option<Passed>> {
        while let Some(is_stored) = self.next_changed(direction)? {
            if is_stored {
                self.pass_stored(direction);
            }
            let changed = match direction {
                Direction::Forward => self.changed.pop_front(),
                Direction::Backward => self.changed.pop_back(),
            };
            if let Some((key, Some(value))) = changed {
                return Ok(Some(Passed::Version(key, value)));
            }
        }
        Ok(self.pass_stored(direction).map(Passed::InLeaf))
    }

    /// Returns the key of the entry that [`LeafPart::pass`] would return.
    pub fn next_key(&mut self, direction: Direction) -> Result<Option<&[u8]>> {
        // Those that were not there at the snapshot are no entries.
        while let Some(is_stored) = self.next_changed(direction)? {
            if self.end_of_changed(direction).is_some_and(|(_, before)| before.is_some()) {
                return Ok(self.end_of_changed(direction).map(|(key, _)| &**key));
            }
            if is_stored {
                self.pass_stored(direction);
            }
            match direction {
                Direction::Forward => self.changed.pop_front(),
                Direction::Backward => self.changed.pop_back(),
            };
        }
        self.end_of_entries(direction).map(|index| self.entry(index).map(|(key, _)| key)).transpose()
    }

    #[inline]
    fn pass_stored(&mut self, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Forward => self.entries.next(),
            Direction::Backward => self.entries.next_back(),
        }
    }

    fn end_of_entries(&self, direction: Direction) -> Option<usize> {
        match direction {
            _ if self.entries.is_empty() => None,
            Direction::Forward => Some(self.entries.start),
            Direction::Backward => Some(self.entries.end - 1),
        }
    }

    fn end_of_changed(&self, direction: Direction) -> Option<&(Box<[u8]>, Before)> {
        match direction {
            Direction::Forward => self.changed.front(),
            Direction::Backward => self.changed.back(),
        }
    }

    /// If a changed key is next, returns true if the leaf has it too; none if an entry of the leaf is before it.
    fn next_changed(&self, direction: Direction) -> Result<Option<bool>> {
        let Some((changed, _)) = self.end_of_changed(direction) else { return Ok(None) };
        let Some(index) = self.end_of_entries(direction) else { return Ok(Some(false)) };
        let (stored, _) = self.entry(index)?;
        let order = match direction {
            Direction::Forward => (**changed).cmp(stored),
            Direction::Backward => stored.cmp(changed),
        };
        Ok(order.is_le().then_some(order.is_eq()))
    }
}

/// Returns the entries of a leaf between bounds.
pub(super) fn entries_in(view: &LeafView, bounds: Bounds<'_>) -> Result<Range<usize>> {
    let from = |key: &[u8]| view.search(key).map(|found| found.unwrap_or_else(|index| index));
    let behind = |key: &[u8]| view.search(key).map(|found| found.map_or_else(|at| at, |at| at + 1));
    // What the leaf covers needs no search.
    let start = match bounds.0 {
        Bound::Included(key) if view.lower() == Some(key) => 0,
        Bound::Included(key) => from(key)?,
        Bound::Excluded(key) => behind(key)?,
        Bound::Unbounded => 0,
    };
    let end = match bounds.1 {
        Bound::Excluded(key) if view.upper() == Some(key) => view.len(),
        Bound::Excluded(key) => from(key)?,
        Bound::Included(key) => behind(key)?,
        Bound::Unbounded => view.len(),
    };
    Ok(start..end.max(start))
}

/// The part of a scan's range that one leaf covers.
pub(super) struct Covered<'a> {
    pub bounds: Bounds<'a>,
    /// True if the scan ends with this part.
    pub is_last: bool,
}

impl<'a> Covered<'a> {
    pub fn of(view: &'a LeafView, unread: Bounds<'a>, direction: Direction) -> Covered<'a> {
        let mut bounds = unread;
        let is_last = match direction {
            Direction::Forward => match view.upper() {
                Some(upper) if !is_above(unread, upper) => {
                    bounds.1 = Bound::Excluded(upper);
                    false
                }
                _ => true,
            },
            Direction::Backward => match view.lower() {
                Some(lower) if !is_below(unread, lower) => {
                    bounds.0 = Bound::Included(lower);
                    // An included start at the leaf's first key leaves nothing for the leaf before.
                    unread.0 == Bound::Included(lower)
                }
                _ => true,
            },
        };
        Covered { bounds, is_last }
    }

    /// Ends the part behind `key`.
    pub fn cut_after(&mut self, key: &'a [u8], direction: Direction) {
        match direction {
            Direction::Forward => self.bounds.1 = Bound::Included(key),
            Direction::Backward => self.bounds.0 = Bound::Included(key),
        }
        self.is_last = false;
    }

    /// True if this part is as large as `other`, or larger.
    pub fn covers(&self, other: &Covered<'_>) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        let starts = match (self.bounds.0, other.bounds.0) {
            (Unbounded, _) => true,
            (_, Unbounded) => false,
            (Excluded(own), Included(others)) => own < others,
            (Included(own) | Excluded(own), Included(others) | Excluded(others)) => own <= others,
        };
        let ends = match (self.bounds.1, other.bounds.1) {
            (Unbounded, _) => true,
            (_, Unbounded) => false,
            (Excluded(own), Included(others)) => own > others,
            (Included(own) | Excluded(own), Included(others) | Excluded(others)) => own >= others,
        };
        starts && ends
    }

    /// Returns where the range goes on behind this part; none if it does not.
    pub fn rest(&self, direction: Direction) -> Option<Bound<Vec<u8>>> {
        let end = match direction {
            _ if self.is_last => return None,
            Direction::Forward => self.bounds.1,
            Direction::Backward => self.bounds.0,
        };
        Some(match end {
            Bound::Included(key) => Bound::Excluded(key.to_vec()),
            Bound::Excluded(key) => Bound::Included(key.to_vec()),
            Bound::Unbounded => Bound::Unbounded,
        })
    }
}

/// Returns the leaf to look for when the rest of a scan is `unread`.
pub(super) fn seek(unread: Bounds<'_>, direction: Direction) -> Seek<'_> {
    match direction {
        Direction::Forward => match unread.0 {
            Bound::Included(key) | Bound::Excluded(key) => Seek::At(key),
            Bound::Unbounded => Seek::First,
        },
        Direction::Backward => match unread.1 {
            Bound::Included(key) => Seek::At(key),
            Bound::Excluded(key) => Seek::Before(key),
            Bound::Unbounded => Seek::Last,
        },
    }
}

//! Ranges of entries, read from both ends.

use std::ops::{Bound, RangeBounds};

use gnomon_engine::{Cursor, Direction, KeyRange, SnapshotRange, Transaction};

use crate::{Result, Tree};

/// The entries of a range: keys with their values, in the order of keys, from either end. Behind an error it ends.
///
/// A range of a [`Transaction`](crate::Transaction) sees the transaction's own changes, and borrows it; one of a
/// [`ReadTransaction`](crate::ReadTransaction) borrows nothing.
pub struct Range<'t>(Source<'t>);

enum Source<'t> {
    Snapshot(Box<SnapshotRange>),
    Transaction(Box<Ends<'t>>),
}

/// Two scans of a transaction that come towards each other.
struct Ends<'t> {
    txn: &'t mut Transaction,
    tree: Tree,
    /// The part that neither has passed.
    rest: KeyRange,
    /// The scans of both ends, once they are used.
    low: Option<Cursor>,
    high: Option<Cursor>,
    ended: bool,
}

impl<'t> Range<'t> {
    pub(crate) fn of_snapshot(range: SnapshotRange) -> Range<'static> {
        Range(Source::Snapshot(Box::new(range)))
    }

    pub(crate) fn of_transaction(txn: &'t mut Transaction, tree: Tree, range: KeyRange) -> Range<'t> {
        let ends = Ends { txn, tree, rest: range, low: None, high: None, ended: false };
        Range(Source::Transaction(Box::new(ends)))
    }
}

impl Ends<'_> {
    fn step(&mut self, from: Direction) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if self.ended {
            return None;
        }
        let step = self.try_step(from);
        self.ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }

    fn try_step(&mut self, from: Direction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let end = match from {
            Direction::Forward => &mut self.low,
            Direction::Backward => &mut self.high,
        };
        let scan = match end {
            Some(scan) => scan,
            None => end.insert(self.txn.scan(self.tree, self.rest.clone(), from)?),
        };
        let Some((key, value)) = scan.next(self.txn)? else { return Ok(None) };
        // The other end may have passed it.
        if !(self.rest.start.as_ref(), self.rest.end.as_ref()).contains(&key) {
            return Ok(None);
        }
        match from {
            Direction::Forward => self.rest.start = Bound::Excluded(key.clone()),
            Direction::Backward => self.rest.end = Bound::Excluded(key.clone()),
        }
        Ok(Some((key, value)))
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Snapshot(range) => range.next(),
            Source::Transaction(ends) => ends.step(Direction::Forward),
        }
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Snapshot(range) => range.next_back(),
            Source::Transaction(ends) => ends.step(Direction::Backward),
        }
    }
}

impl std::iter::FusedIterator for Range<'_> {}

/// Returns bounds as the engine takes them.
pub(crate) fn key_range<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> KeyRange {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    KeyRange { start: owned(bounds.start_bound()), end: owned(bounds.end_bound()) }
}

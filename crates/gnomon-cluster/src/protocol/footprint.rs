//! Access sets of transactions: the rows that they write, and the ranges that they read.
//!
//! A table is a number and its keys are bytes in order, whatever stands for that in a database. What is written tells
//! how: two changes that commute do not conflict. What is read is kept as ranges of keys, a single key being the
//! shortest, so that keys which were not there are read too.
//!
//! Promises: [`ReadSet`] forgets nothing that was put into it. It may be made coarser, which covers more than was read
//! and never less.

use std::{cmp::Reverse, collections::BTreeMap};

/// A table, or whatever else keys are in.
pub type Table = u64;

/// The key of a row.
pub type Key = Box<[u8]>;

/// A place in the order of commits: how many transactions have committed, on all members, up to and with this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The kind of access to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It is read, and must not change before the transaction commits.
    Read,
    /// It is changed by a blind update, which commutes with changes of the same kind.
    Commute(u32),
    /// It is put, replaced or deleted.
    Write,
}

impl Access {
    /// True if these accesses of two different transactions conflict.
    pub fn conflicts_with(self, other: Access) -> bool {
        match (self, other) {
            (Access::Read, Access::Read) => false,
            (Access::Commute(kind), Access::Commute(other)) => kind != other,
            _ => true,
        }
    }
}

/// A row, or a whole table, and what a transaction does to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where it is.
    pub table: Table,
    /// Its key; none is the whole table, as DDL changes it.
    pub key: Option<Key>,
    /// The kind of access.
    pub access: Access,
    /// The commit as of which the transaction knows the row: what has changed it since contradicts. None is the
    /// transaction's snapshot.
    pub since: Option<Version>,
}

impl Touched {
    /// A row that is done something to by a transaction that knows it as of its snapshot.
    pub fn row(table: Table, key: &[u8], access: Access) -> Touched {
        Touched { table, key: Some(key.into()), access, since: None }
    }

    /// A whole table, to which is done something.
    pub fn table(table: Table, access: Access) -> Touched {
        Touched { table, key: None, access, since: None }
    }

    /// True if it changes anything.
    pub fn is_change(&self) -> bool {
        self.access != Access::Read
    }

    /// True if these accesses of two different transactions conflict.
    pub fn conflicts_with(&self, other: &Touched) -> bool {
        let same_row = match (&self.key, &other.key) {
            (Some(key), Some(other)) => key == other,
            _ => true,
        };
        self.table == other.table && same_row && self.access.conflicts_with(other.access)
    }
}

/// Keys of a table that follow each other: from `low` to below `high`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The first key.
    pub low: Key,
    /// The end, which is beyond the last key; none is the end of the table.
    pub high: Option<Key>,
}

impl Range {
    /// All keys.
    pub fn all() -> Range {
        Range { low: Key::default(), high: None }
    }

    /// One key.
    pub fn key(key: &[u8]) -> Range {
        Range { low: key.into(), high: Some([key, &[0]].concat().into()) }
    }

    /// True if the key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.high.as_deref().is_none_or(|high| key < high)
    }

    /// True if no key is in the range.
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| **high <= *self.low)
    }
}

/// The read set of a transaction: ranges of tables, disjoint and in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    tables: BTreeMap<Table, Vec<Range>>,
}

impl ReadSet {
    /// Whole tables.
    pub fn of_tables(tables: impl IntoIterator<Item = Table>) -> ReadSet {
        let mut set = ReadSet::default();
        tables.into_iter().for_each(|table| set.add(table, Range::all()));
        set
    }

    /// Adds a range.
    pub fn add(&mut self, table: Table, range: Range) {
        if range.is_empty() {
            return;
        }
        let ranges = self.tables.entry(table).or_default();
        // Those that end before it begins stay, and so do those that begin beyond it; the others become one with it.
        let from =
            ranges.partition_point(|before| before.high.as_ref().is_some_and(|high| *high < range.low));
        let to = ranges.partition_point(|other| range.high.as_ref().is_none_or(|high| other.low <= *high));
        if from >= to {
            ranges.insert(from, range);
            return;
        }
        let low = ranges[from].low.clone().min(range.low);
        let high = match (&ranges[to - 1].high, range.high) {
            (Some(high), Some(other)) => Some(high.clone().max(other)),
            _ => None,
        };
        ranges.splice(from..to, [Range { low, high }]);
    }

    /// Adds a key.
    pub fn add_key(&mut self, table: Table, key: &[u8]) {
        self.add(table, Range::key(key));
    }

    /// Adds what another one has.
    pub fn extend(&mut self, other: ReadSet) {
        for (table, ranges) in other.tables {
            ranges.into_iter().for_each(|range| self.add(table, range));
        }
    }

    /// True if nothing was read.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.tables.values().map(Vec::len).sum()
    }

    /// Its tables with their ranges.
    pub fn tables(&self) -> impl Iterator<Item = (Table, &[Range])> {
        self.tables.iter().map(|(table, ranges)| (*table, &**ranges))
    }

    /// The same with whole tables.
    pub fn by_tables(&self) -> ReadSet {
        ReadSet::of_tables(self.tables.keys().copied())
    }

    /// True if a change of this row or table meets a range that was read.
    pub fn meets(&self, touched: &Touched) -> bool {
        let Some(ranges) = self.tables.get(&touched.table) else { return false };
        let Some(key) = &touched.key else { return true };
        let next = ranges.partition_point(|range| *range.low <= **key);
        next > 0 && ranges[next - 1].contains(key)
    }

    /// Makes it at most so many ranges, but one for each table: neighbours become one, first those whose ends agree in
    /// the longest beginning.
    pub fn coarsen(&mut self, ranges_max: usize) {
        let Some(mut surplus) = self.len().checked_sub(ranges_max) else { return };
        let mut gaps: Vec<(usize, Table, usize)> = Vec::new();
        for (&table, ranges) in &self.tables {
            for (place, pair) in ranges.windows(2).enumerate() {
                let end = pair[0].high.as_deref().unwrap_or_default();
                gaps.push((agreement(end, &pair[1].low), table, place));
            }
        }
        gaps.sort_by_key(|(agreement, ..)| Reverse(*agreement));
        surplus = surplus.min(gaps.len());
        let mut closed: BTreeMap<Table, Vec<usize>> = BTreeMap::new();
        for &(_, table, place) in &gaps[..surplus] {
            closed.entry(table).or_default().push(place);
        }
        for (table, mut places) in closed {
            places.sort_unstable();
            let Some(ranges) = self.tables.get_mut(&table) else { continue };
            let old = std::mem::take(ranges);
            for (place, range) in old.into_iter().enumerate() {
                match (place.checked_sub(1), ranges.last_mut()) {
                    (Some(gap), Some(last)) if places.binary_search(&gap).is_ok() => last.high = range.high,
                    _ => ranges.push(range),
                }
            }
        }
    }
}

/// Returns the number of bytes that two keys have in common at their beginning.
fn agreement(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(low: &[u8], high: Option<&[u8]>) -> Range {
        Range { low: low.into(), high: high.map(Into::into) }
    }

    fn set(ranges: &[Range]) -> ReadSet {
        let mut set = ReadSet::default();
        ranges.iter().for_each(|range| set.add(1, range.clone()));
        set
    }

    #[test]
    fn changes_conflict_unless_they_commute() {
        use Access::{Commute, Read, Write};
        for (one, other, conflict) in [
            (Read, Read, false),
            (Read, Write, true),
            (Read, Commute(1), true),
            (Write, Write, true),
            (Write, Commute(1), true),
            (Commute(1), Commute(1), false),
            (Commute(1), Commute(2), true),
        ] {
            assert_eq!(one.conflicts_with(other), conflict, "{one:?} {other:?}");
            assert_eq!(other.conflicts_with(one), conflict, "{other:?} {one:?}");
        }
        let row = |key: &[u8]| Touched::row(1, key, Write);
        assert!(row(b"a").conflicts_with(&row(b"a")));
        assert!(!row(b"a").conflicts_with(&row(b"b")));
        assert!(!row(b"a").conflicts_with(&Touched::row(2, b"a", Write)));
        assert!(row(b"a").conflicts_with(&Touched::table(1, Write)));
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let read = set(&[range(b"c", Some(b"e")), range(b"a", Some(b"b")), range(b"b", Some(b"c"))]);
        assert_eq!(read.tables[&1], [range(b"a", Some(b"e"))]);
        let read = set(&[range(b"f", None), range(b"a", Some(b"b")), range(b"b1", Some(b"x"))]);
        assert_eq!(read.tables[&1], [range(b"a", Some(b"b")), range(b"b1", None)]);
        assert!(set(&[range(b"b", Some(b"a"))]).is_empty());
        assert!(read.meets(&Touched::row(1, b"a\x05", Access::Write)));
        assert!(!read.meets(&Touched::row(1, b"b", Access::Write)));
        assert!(!read.meets(&Touched::row(2, b"a", Access::Write)));
        assert!(read.meets(&Touched::table(1, Access::Write)));
    }

    #[test]
    fn what_is_made_coarser_closes_the_narrowest_gaps() {
        let mut read = ReadSet::default();
        for key in ["aa1", "aa2", "b1", "c", "cc"] {
            read.add_key(1, key.as_bytes());
        }
        read.add_key(2, b"x");
        read.coarsen(4);
        let lows: Vec<_> = read.tables[&1].iter().map(|range| range.low.to_vec()).collect();
        assert_eq!(lows, [b"aa1".to_vec(), b"b1".to_vec(), b"c".to_vec()]);
        read.coarsen(0);
        assert_eq!(read.len(), 2);
    }

    proptest! {
        /// Whatever is added is in it, also when it was made coarser; and nothing else is before.
        #[test]
        fn nothing_is_forgotten(
            ranges in prop::collection::vec((prop::collection::vec(0u8..4, 0..3), prop::option::of(prop::collection::vec(0u8..4, 0..3))), 0..8),
            keys in prop::collection::vec(prop::collection::vec(0u8..4, 0..4), 0..20),
            ranges_max in 0usize..5,
        ) {
            let ranges: Vec<Range> = ranges.iter().map(|(low, high)| range(low, high.as_deref())).collect();
            let mut read = set(&ranges);
            for pair in read.tables.values().flat_map(|ranges| ranges.windows(2)) {
                prop_assert!(pair[0].high.as_ref().is_some_and(|high| *high < pair[1].low));
            }
            let meets = |read: &ReadSet, key: &[u8]| read.meets(&Touched::row(1, key, Access::Write));
            for key in &keys {
                prop_assert_eq!(meets(&read, key), ranges.iter().any(|range| range.contains(key)));
            }
            let fine = read.clone();
            read.coarsen(ranges_max);
            prop_assert!(read.len() <= ranges_max.max(1));
            for key in &keys {
                prop_assert!(!meets(&fine, key) || meets(&read, key));
            }
        }
    }
}

//! The changes of the newest commits, against which transactions are certified.
//!
//! Promises: whether a transaction passes depends on the commits before it in the order and on itself, never on the
//! replica or the time: the window has the same number of commits everywhere, and a transaction that began before it
//! is refused. It is rebuilt from its commits ([`Window::push`]), so a replica that was away continues with the same
//! one.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, RangeInclusive},
};

use super::footprint::{Access, Key, Range, ReadSet, Table, Touched, Version};

/// The last commits that have changed a row or a table, by the kind of change.
#[derive(Clone, Debug, Default)]
struct Last {
    /// By a write.
    written: Version,
    /// By changes that commute, for each kind of these.
    commuted: Vec<(u32, Version)>,
}

impl Last {
    fn note(&mut self, access: Access, version: Version) {
        match access {
            Access::Read => {}
            Access::Write => self.written = version,
            Access::Commute(kind) => match self.commuted.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, last)) => *last = version,
                None => self.commuted.push((kind, version)),
            },
        }
    }

    /// The newest change that contradicts an access.
    fn against(&self, access: Access) -> Version {
        let other = |&&(kind, _): &&(u32, Version)| access.conflicts_with(Access::Commute(kind));
        let commuted = self.commuted.iter().filter(other).map(|(_, version)| *version).max();
        self.written.max(commuted.unwrap_or_default())
    }

    fn newest(&self) -> Version {
        self.against(Access::Read)
    }

    /// Forgets what is not newer.
    fn forget(&mut self, upto: Version) -> bool {
        self.commuted.retain(|(_, version)| *version > upto);
        self.commuted.is_empty() && self.written <= upto
    }
}

/// Changes of a table.
#[derive(Clone, Debug, Default)]
struct OfTable {
    rows: BTreeMap<Key, Last>,
    /// Of the table as a whole.
    whole: Last,
    /// Of any row or the whole.
    any: Last,
}

/// The changes of the newest commits.
#[derive(Clone, Debug)]
pub struct Window {
    commits_max: usize,
    /// The newest commit.
    version: Version,
    /// The changes of each commit, the oldest first.
    commits: VecDeque<Vec<Touched>>,
    tables: BTreeMap<Table, OfTable>,
}

impl Window {
    /// A window of the newest `commits_max`, none of which is known yet: the last commit was `version`.
    pub fn new(commits_max: usize, version: Version) -> Window {
        Window { commits_max, version, commits: VecDeque::new(), tables: BTreeMap::new() }
    }

    /// The newest commit.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The commit before the oldest that is known: a transaction that began there can be certified, an older one not.
    pub fn horizon(&self) -> Version {
        Version(self.version.0 - self.commits.len() as u64)
    }

    /// Adds the next commit and what it touched, and forgets the oldest if there are too many. Returns its version.
    pub fn push(&mut self, touched: &[Touched]) -> Version {
        self.version.0 += 1;
        let changes: Vec<Touched> = touched.iter().filter(|touched| touched.is_change()).cloned().collect();
        for Touched { table, key, access, .. } in &changes {
            let table = self.tables.entry(*table).or_default();
            table.any.note(*access, self.version);
            match key {
                Some(key) => table.rows.entry(key.clone()).or_default().note(*access, self.version),
                None => table.whole.note(*access, self.version),
            }
        }
        self.commits.push_back(changes);
        while self.commits.len() > self.commits_max {
            self.forget_oldest();
        }
        self.version
    }

    fn forget_oldest(&mut self) {
        let oldest = Version(self.horizon().0 + 1);
        for Touched { table, key, .. } in self.commits.pop_front().into_iter().flatten() {
            let Some(of_table) = self.tables.get_mut(&table) else { continue };
            match key {
                Some(key) => {
                    if of_table.rows.get_mut(&key).is_some_and(|last| last.forget(oldest)) {
                        of_table.rows.remove(&key);
                    }
                }
                None => {
                    of_table.whole.forget(oldest);
                }
            }
            if of_table.any.forget(oldest) {
                self.tables.remove(&table);
            }
        }
    }

    /// The first row of a transaction with the snapshot `start` that a later commit contradicts.
    pub fn contradicted<'t>(&self, touched: &'t [Touched], start: Version) -> Option<&'t Touched> {
        touched.iter().find(|touched| {
            let since = touched.since.unwrap_or(start).max(start);
            let Some(of_table) = self.tables.get(&touched.table) else { return false };
            let last = match &touched.key {
                None => of_table.any.against(touched.access),
                Some(key) => {
                    let row = of_table.rows.get(key).map(|last| last.against(touched.access));
                    row.unwrap_or_default().max(of_table.whole.against(touched.access))
                }
            };
            last > since
        })
    }

    /// A table of which a commit after `start` has changed something that was read.
    pub fn changed_since(&self, reads: &ReadSet, start: Version) -> Option<Table> {
        reads.tables().find_map(|(table, ranges)| {
            let of_table = self.tables.get(&table).filter(|of_table| of_table.any.newest() > start)?;
            let is_changed = of_table.whole.newest() > start
                || ranges.iter().any(|range| {
                    let rows = of_table.rows.range::<[u8], _>(range_bounds(range));
                    rows.into_iter().any(|(_, last)| last.newest() > start)
                });
            is_changed.then_some(table)
        })
    }

    /// Returns the number of commits among `versions` that have changed something that was read.
    pub fn count_changing(&self, reads: &ReadSet, versions: RangeInclusive<Version>) -> usize {
        if reads.is_empty() {
            return 0;
        }
        let horizon = self.horizon().0;
        let from = versions.start().0.saturating_sub(horizon + 1) as usize;
        let to = (versions.end().0.saturating_sub(horizon) as usize).min(self.commits.len());
        let changing = |changes: &&Vec<Touched>| changes.iter().any(|touched| reads.meets(touched));
        self.commits.range(from.min(to)..to).filter(changing).count()
    }

    /// The commits after `version`, with what they changed, the oldest first.
    pub fn after(&self, version: Version) -> impl Iterator<Item = (Version, &[Touched])> {
        let horizon = self.horizon().0;
        let skipped = version.0.saturating_sub(horizon) as usize;
        let commits = self.commits.iter().enumerate().skip(skipped);
        commits.map(move |(place, changes)| (Version(horizon + 1 + place as u64), &**changes))
    }
}

/// The standard library's trees panic at a range that is empty, and none in a [`ReadSet`] is.
fn range_bounds(range: &Range) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&*range.low), range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(key: &[u8]) -> Touched {
        Touched::row(1, key, Access::Write)
    }

    #[test]
    fn commits_after_the_snapshot_contradict() {
        let mut window = Window::new(3, Version(10));
        assert_eq!(window.push(&[write(b"a")]), Version(11));
        assert_eq!(
            window.push(&[Touched::row(1, b"n", Access::Commute(7)), Touched::row(1, b"r", Access::Read)]),
            Version(12)
        );
        let fails = |window: &Window, touched: Touched, start| {
            window.contradicted(&[touched], Version(start)).is_some()
        };
        assert!(fails(&window, write(b"a"), 10));
        assert!(!fails(&window, write(b"a"), 11));
        assert!(!fails(&window, Touched { since: Some(Version(11)), ..write(b"a") }, 10));
        assert!(!fails(&window, write(b"r"), 10), "reads leave nothing");
        assert!(fails(&window, write(b"n"), 11));
        assert!(!fails(&window, Touched::row(1, b"n", Access::Commute(7)), 11));
        assert!(fails(&window, Touched::row(1, b"n", Access::Commute(8)), 11));
        assert!(fails(&window, Touched::table(1, Access::Write), 11));
        assert!(!fails(&window, Touched::table(1, Access::Write), 12));
        window.push(&[Touched::table(1, Access::Write)]);
        assert!(fails(&window, write(b"new"), 12));
        window.push(&[]);
        assert_eq!((window.version(), window.horizon()), (Version(14), Version(11)));
        assert!(!fails(&window, write(b"a"), 13));
        assert_eq!(window.after(Version(12)).map(|(version, _)| version.0).collect::<Vec<_>>(), [13, 14]);
    }

    #[test]
    fn what_is_read_is_compared_by_rows_and_counted_by_commits() {
        let mut window = Window::new(10, Version(0));
        for key in [b"a", b"b", b"c", b"b"] {
            window.push(&[write(key), write(b"z")]);
        }
        let mut reads = ReadSet::default();
        reads.add(1, Range { low: b"b".as_slice().into(), high: Some(b"d".as_slice().into()) });
        assert_eq!(window.changed_since(&reads, Version(3)), Some(1));
        assert_eq!(window.changed_since(&reads, Version(4)), None);
        let count = |from, to| window.count_changing(&reads, Version(from)..=Version(to));
        assert_eq!((count(1, 4), count(1, 1), count(3, 9), count(5, 4)), (3, 0, 2, 0));
        assert_eq!(window.count_changing(&reads.by_tables(), Version(1)..=Version(4)), 4);
    }

    proptest! {
        /// The index says what a look at each commit says.
        #[test]
        fn the_index_is_right(
            commits in prop::collection::vec(prop::collection::vec((0u64..2, prop::option::of(0u8..4), 0u8..4), 0..3), 1..12),
            tried in (0u64..2, prop::option::of(0u8..4), 0u8..4),
            start in 0u64..12,
            range in (0u8..5, 0u8..5),
        ) {
            let touched = |&(table, key, access): &(u64, Option<u8>, u8)| Touched {
                table,
                key: key.map(|key| [key].into()),
                access: [Access::Read, Access::Write, Access::Commute(1), Access::Commute(2)][usize::from(access)],
                since: None,
            };
            let mut window = Window::new(6, Version(0));
            for commit in &commits {
                window.push(&commit.iter().map(touched).collect::<Vec<_>>());
            }
            let tried = touched(&tried);
            let start = Version(start.max(window.horizon().0));
            let later: Vec<&Touched> = window.after(start).flat_map(|(_, changes)| changes).collect();
            let expected = later.iter().any(|change| change.conflicts_with(&tried));
            prop_assert_eq!(window.contradicted(std::slice::from_ref(&tried), start).is_some(), expected);
            let mut reads = ReadSet::default();
            reads.add(1, Range { low: [range.0].into(), high: Some([range.1].into()) });
            let expected = later.iter().any(|change| reads.meets(change));
            prop_assert_eq!(window.changed_since(&reads, start).is_some(), expected);
        }
    }
}

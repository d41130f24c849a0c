//! What clients of a cluster saw of lists that they append to, and whether it is what their levels promise.
//!
//! The lists in the end tell in which order each was appended to. From that follows which transaction saw or
//! overwrote what of which other one, without a look at what the members believe.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

/// How a transaction was isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    ReadCommitted,
    Snapshot,
    /// A snapshot that has missed nothing when it begins.
    Strict,
    Serializable,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::ReadCommitted, Level::Snapshot, Level::Strict, Level::Serializable];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Refused,
    /// The client does not know.
    Unknown,
}

pub type Item = i64;
pub type Lists = BTreeMap<i32, Vec<Item>>;

/// A transaction, as its client saw it. Lists are read before they are appended to.
#[derive(Clone, Debug)]
pub struct Record {
    pub level: Level,
    pub begun: Instant,
    pub ended: Instant,
    pub outcome: Outcome,
    pub reads: Vec<(i32, Vec<Item>)>,
    pub appends: Vec<(i32, Item)>,
}

/// What is wrong with a history whose lists are these in the end.
pub fn violations(records: &[Record], last: &Lists) -> Vec<String> {
    let mut found = Vec::new();
    let whose: BTreeMap<Item, usize> = records
        .iter()
        .enumerate()
        .flat_map(|(number, record)| record.appends.iter().map(move |(_, item)| (*item, number)))
        .collect();
    let mut places: BTreeMap<Item, (i32, usize)> = BTreeMap::new();
    for (list, items) in last {
        for (place, item) in items.iter().enumerate() {
            if places.insert(*item, (*list, place)).is_some() {
                found.push(format!("{item} was appended twice"));
            }
            if !whose.contains_key(item) {
                found.push(format!("nobody has appended {item}"));
            }
        }
    }
    for record in records {
        let there = record.appends.iter().filter(|(_, item)| places.contains_key(item)).count();
        let fits = match record.outcome {
            Outcome::Committed => there == record.appends.len(),
            Outcome::Refused => there == 0,
            Outcome::Unknown => there == 0 || there == record.appends.len(),
        };
        if !fits {
            found.push(format!("{there} of its appends are there: {record:?}"));
        }
        for (list, items) in &record.reads {
            if !last.get(list).is_some_and(|all| all.starts_with(items)) {
                found.push(format!("list {list} was never so: {record:?}"));
            }
        }
    }
    if found.is_empty() {
        let graph = Graph::new(records, last, &whose, &places);
        for (number, record) in records.iter().enumerate() {
            found.extend(graph.lost(record));
            found.extend(graph.fractured(record));
            found.extend(graph.stale(number, record));
        }
        found.extend(graph.cycle());
    }
    found
}

struct Graph<'a> {
    records: &'a [Record],
    last: &'a Lists,
    whose: &'a BTreeMap<Item, usize>,
    places: &'a BTreeMap<Item, (i32, usize)>,
    /// By transaction, those that come after it, since they saw or overwrote what it wrote.
    after: Vec<BTreeSet<usize>>,
}

impl<'a> Graph<'a> {
    fn new(
        records: &'a [Record],
        last: &'a Lists,
        whose: &'a BTreeMap<Item, usize>,
        places: &'a BTreeMap<Item, (i32, usize)>,
    ) -> Graph<'a> {
        let mut after = vec![BTreeSet::new(); records.len()];
        for items in last.values() {
            for pair in items.windows(2) {
                after[whose[&pair[0]]].insert(whose[&pair[1]]);
            }
        }
        for (number, record) in records.iter().enumerate() {
            for (_, items) in record.reads.iter().filter(|_| is_there(record, places)) {
                if let Some(seen) = items.last() {
                    after[whose[seen]].insert(number);
                }
            }
        }
        Graph { records, last, whose, places, after }
    }

    /// Under snapshots, nobody appends between what a transaction has read of a list and what it appends.
    fn lost(&self, record: &Record) -> Option<String> {
        let (_, items) = record.appends.iter().find_map(|(list, item)| {
            let read = record.reads.iter().find(|(of, _)| of == list)?;
            let (_, place) = self.places.get(item)?;
            (record.level > Level::ReadCommitted && *place != read.1.len()).then_some(read)
        })?;
        Some(format!("an update behind {items:?} was lost: {record:?}"))
    }

    /// A snapshot has no commit without those that are before it.
    fn fractured(&self, record: &Record) -> Option<String> {
        if record.level == Level::ReadCommitted || record.outcome != Outcome::Committed {
            return None;
        }
        let seen = record.reads.iter().filter_map(|(_, items)| items.last()).map(|item| self.whose[item]);
        let missed: BTreeSet<usize> = record
            .reads
            .iter()
            .filter_map(|(list, items)| self.last[list].get(items.len()))
            .map(|item| self.whose[item])
            .filter(|writer| !std::ptr::eq(&self.records[*writer], record))
            .collect();
        let seen: BTreeSet<usize> = seen.collect();
        let (from, to) = missed.iter().find_map(|from| self.reaches(*from, &seen).map(|to| (*from, to)))?;
        Some(format!("{to} was seen and {from}, which is before it, was not: {record:?}"))
    }

    /// Whether one of some transactions is another one, or comes after it.
    fn reaches(&self, from: usize, to: &BTreeSet<usize>) -> Option<usize> {
        let (mut known, mut next) = (BTreeSet::from([from]), VecDeque::from([from]));
        while let Some(number) = next.pop_front() {
            if to.contains(&number) {
                return Some(number);
            }
            next.extend(self.after[number].iter().filter(|after| known.insert(**after)));
        }
        None
    }

    /// What was told to have committed before a strict transaction began, it has seen.
    fn stale(&self, number: usize, record: &Record) -> Option<String> {
        if record.level != Level::Strict || record.outcome != Outcome::Committed {
            return None;
        }
        record.reads.iter().find_map(|(list, items)| {
            let missed = self.last[list].iter().skip(items.len());
            let missed = missed.map(|item| self.whose[item]).filter(|writer| *writer != number);
            let told = |writer: &usize| {
                self.records[*writer].outcome == Outcome::Committed
                    && self.records[*writer].ended < record.begun
            };
            let writer = missed.into_iter().find(told)?;
            Some(format!("it began after {:?} and has not seen that: {record:?}", self.records[writer]))
        })
    }

    /// Serializable transactions are as if one ran after another.
    fn cycle(&self) -> Option<String> {
        let counts = |number: &usize| {
            self.records[*number].level == Level::Serializable
                && is_there(&self.records[*number], self.places)
        };
        let mut before = vec![BTreeSet::new(); self.records.len()];
        let mut note = |one: usize, other: usize| {
            if one != other {
                before[other].insert(one);
            }
        };
        for items in self.last.values() {
            let writers: Vec<usize> = items.iter().map(|item| self.whose[item]).filter(counts).collect();
            writers.windows(2).for_each(|pair| note(pair[0], pair[1]));
        }
        for (number, record) in self.records.iter().enumerate().filter(|(number, _)| counts(number)) {
            for (list, items) in &record.reads {
                let (seen, missed) = self.last[list].split_at(items.len());
                let writer = |item: &Item| Some(self.whose[item]).filter(counts);
                seen.iter().rev().find_map(writer).into_iter().for_each(|writer| note(writer, number));
                missed.iter().find_map(writer).into_iter().for_each(|writer| note(number, writer));
            }
        }
        // Whoever has nobody before him goes, until nobody is left, or only those in cycles.
        let mut left: BTreeSet<usize> = (0..self.records.len()).filter(counts).collect();
        loop {
            let free: Vec<usize> =
                left.iter().filter(|number| before[**number].is_disjoint(&left)).copied().collect();
            if free.is_empty() {
                break;
            }
            left.retain(|number| !free.contains(number));
        }
        let first = left.first()?;
        Some(format!("{} serializable transactions are in cycles, as {:?}", left.len(), self.records[*first]))
    }
}

/// Whether a transaction has taken place.
fn is_there(record: &Record, places: &BTreeMap<Item, (i32, usize)>) -> bool {
    match record.outcome {
        Outcome::Committed => true,
        Outcome::Refused => false,
        Outcome::Unknown => record.appends.iter().any(|(_, item)| places.contains_key(item)),
    }
}

#[test]
fn what_levels_do_not_allow_is_found() {
    let start = Instant::now();
    let at = |millis: u64| start + std::time::Duration::from_millis(millis);
    let record = |level, (begun, ended), reads: &[(i32, &[Item])], appends: &[(i32, Item)]| Record {
        level,
        begun: at(begun),
        ended: at(ended),
        outcome: Outcome::Committed,
        reads: reads.iter().map(|(list, items)| (*list, items.to_vec())).collect(),
        appends: appends.to_vec(),
    };
    let lists = |lists: &[(i32, &[Item])]| -> Lists {
        lists.iter().map(|(list, items)| (*list, items.to_vec())).collect()
    };
    let first = |level| record(level, (0, 1), &[(1, &[])], &[(1, 10), (2, 20)]);
    let finds = |records: &[Record], last: &Lists, what: &str| {
        let found = violations(records, last);
        assert!(found.iter().any(|found| found.contains(what)), "{what}: {found:?}");
    };
    for level in Level::ALL {
        assert_eq!(violations(&[first(level)], &lists(&[(1, &[10]), (2, &[20])])), Vec::<String>::new());
        finds(&[first(level)], &lists(&[(1, &[10]), (2, &[])]), "1 of its appends");
        let lost = [first(level), record(level, (2, 3), &[(1, &[])], &[(1, 11)])];
        let all = lists(&[(1, &[10, 11]), (2, &[20])]);
        match level {
            Level::ReadCommitted => assert_eq!(violations(&lost, &all), Vec::<String>::new()),
            _ => finds(&lost, &all, "was lost"),
        }
        let torn = [first(level), record(level, (0, 3), &[(1, &[]), (2, &[20])], &[])];
        let all = lists(&[(1, &[10]), (2, &[20])]);
        match level {
            Level::ReadCommitted => assert_eq!(violations(&torn, &all), Vec::<String>::new()),
            _ => finds(&torn, &all, "was not"),
        }
        let old = [first(level), record(level, (2, 3), &[(1, &[])], &[])];
        match level {
            Level::Strict => finds(&old, &all, "has not seen"),
            _ => assert_eq!(violations(&old, &all), Vec::<String>::new()),
        }
        let skew = [
            record(level, (0, 2), &[(1, &[]), (2, &[])], &[(1, 10)]),
            record(level, (0, 2), &[(1, &[]), (2, &[])], &[(2, 20)]),
        ];
        match level {
            Level::Serializable => finds(&skew, &all, "in cycles"),
            _ => assert_eq!(violations(&skew, &all), Vec::<String>::new()),
        }
    }
    let refused = Record { outcome: Outcome::Refused, ..first(Level::Snapshot) };
    finds(&[refused], &lists(&[(1, &[10]), (2, &[20])]), "of its appends");
    finds(&[], &lists(&[(1, &[7])]), "nobody");
}

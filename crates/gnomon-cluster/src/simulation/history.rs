//! The history of a simulated cluster as its clients saw it, and the check that it is what their levels promise.
//!
//! Promises: what is checked is what happened, by the values that were read and the moments at which clients were told,
//! not what the state machines believe. That all members commit the same in the same order is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};

use super::{Micros, data::Data};
use crate::protocol::{Key, Level, Range, ReadSet, Reason, Table, Touched, TxnName, Version};

use super::data::Value;

/// Something that was promised did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    pub(super) fn new(what: impl Into<String>) -> Violation {
        Violation(what.into())
    }
}

/// A row that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Where it is.
    pub table: Table,
    /// Its key.
    pub key: Key,
    /// The snapshot.
    pub at: Version,
    /// The value that was there.
    pub value: Option<Value>,
}

/// A range that was read, but for the rows that the transaction had written itself.
#[derive(Clone, Debug)]
struct Scan {
    table: Table,
    range: Range,
    at: Version,
    rows: Vec<(Key, Value)>,
    /// The keys that the transaction had written before, which are left out.
    own: BTreeSet<Key>,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has committed with this version; if it changed nothing, behind it.
    Committed(Version),
    /// It has not.
    Refused(Reason),
    /// Its member went before its end was known.
    Unknown,
}

/// A transaction, as its client saw it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The name of the transaction.
    pub name: TxnName,
    /// Its isolation level.
    pub level: Level,
    /// When its client began it.
    pub begun_at: Micros,
    /// Its snapshot.
    pub start: Version,
    /// The rows that it read.
    pub reads: Vec<Read>,
    /// The rows that it touched.
    pub touched: Vec<Touched>,
    /// How it ended, and when.
    pub end: Option<(End, Micros)>,
    scans: Vec<Scan>,
    read_set: ReadSet,
    appended: Vec<(Table, Key, u64)>,
    /// When its client was told that it has committed.
    acknowledged_at: Option<Micros>,
    /// The commit that it is.
    version: Option<Version>,
}

impl Record {
    /// True if it has changed something.
    pub fn changes_something(&self) -> bool {
        self.touched.iter().any(Touched::is_change)
    }

    /// Returns the time until its client was told how it ended.
    pub fn duration_us(&self) -> Option<Micros> {
        self.end.map(|(_, at)| at - self.begun_at)
    }

    fn has_committed(&self) -> bool {
        matches!(self.end, Some((End::Committed(_), _))) || self.version.is_some()
    }
}

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
    /// The index of each commit's record.
    order: BTreeMap<Version, usize>,
}

impl History {
    /// The transactions, in the order in which they began.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the number of transactions that have committed a change.
    pub fn commits(&self) -> usize {
        self.order.len()
    }

    pub(super) fn begin(&mut self, name: TxnName, level: Level, now: Micros) -> usize {
        self.records.push(Record {
            name,
            level,
            begun_at: now,
            start: Version(0),
            reads: Vec::new(),
            touched: Vec::new(),
            end: None,
            scans: Vec::new(),
            read_set: ReadSet::default(),
            appended: Vec::new(),
            acknowledged_at: None,
            version: None,
        });
        self.records.len() - 1
    }

    pub(super) fn start(&mut self, record: usize, start: Version) {
        self.records[record].start = start;
    }

    /// A transaction is run again: what it did before does not count.
    pub(super) fn forget(&mut self, record: usize) {
        let record = &mut self.records[record];
        record.reads.clear();
        record.scans.clear();
        record.touched.clear();
        record.appended.clear();
        record.read_set = ReadSet::default();
    }

    pub(super) fn touch(&mut self, record: usize, touched: &[Touched], reads: &ReadSet) {
        let record = &mut self.records[record];
        record.touched.extend_from_slice(touched);
        record.read_set.extend(reads.clone());
    }

    pub(super) fn read(&mut self, record: usize, read: Read) {
        self.records[record].reads.push(read);
    }

    pub(super) fn scan(
        &mut self,
        record: usize,
        table: Table,
        range: Range,
        at: Version,
        rows: Vec<(Key, Value)>,
    ) {
        let record = &mut self.records[record];
        let written = record.touched.iter().filter(|touched| touched.table == table);
        let own = written.filter_map(|touched| touched.key.clone()).collect();
        // Of what is read, gaps are a part, whatever was told to the protocol.
        record.read_set.add(table, range.clone());
        record.scans.push(Scan { table, range, at, rows, own });
    }

    pub(super) fn append(&mut self, record: usize, table: Table, key: Key, item: u64) {
        self.records[record].appended.push((table, key, item));
    }

    pub(super) fn acknowledge(&mut self, record: usize, now: Micros) {
        self.records[record].acknowledged_at.get_or_insert(now);
    }

    pub(super) fn end(&mut self, record: usize, end: End, now: Micros) {
        if let End::Committed(_) = end {
            self.acknowledge(record, now);
        }
        self.records[record].end.get_or_insert((end, now));
    }

    /// A member has applied a commit.
    pub(super) fn order(&mut self, node: usize, version: Version, record: usize) -> Result<(), Violation> {
        let name = self.records[record].name;
        let first = *self.order.entry(version).or_insert(record);
        let known = *self.records[record].version.get_or_insert(version);
        if first != record {
            return Err(Violation::new(format!(
                "commit {} is {name:?} at member {node}, and {:?} at another",
                version.0, self.records[first].name
            )));
        }
        match known == version {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "{name:?} has committed twice, as {} and as {}",
                known.0, version.0
            ))),
        }
    }

    /// Checks that all was as promised, but for bounds. `data` is what all members have at the end.
    pub(super) fn check(&self, data: &Data, is_paper: bool) -> Result<(), Violation> {
        for record in &self.records {
            if record.acknowledged_at.is_some() && record.changes_something() && record.version.is_none() {
                return Err(record.violation("was told that it has committed, and has not"));
            }
            if let (Some(version), Some((End::Refused(reason), _))) = (record.version, record.end) {
                return Err(record.violation(&format!(
                    "was told that it has not committed ({}), and is commit {}",
                    reason.name(),
                    version.0
                )));
            }
            record.check_reads(data)?;
            if record.has_committed() {
                self.check_writes(record, is_paper)?;
                self.check_serializable(record, data, is_paper)?;
            }
        }
        self.check_values(data, is_paper)?;
        self.check_cycles(data, is_paper)
    }

    fn touched(&self, version: Version) -> &[Touched] {
        self.order.get(&version).map_or(&[], |record| &self.records[*record].touched)
    }

    /// Checks that no other commit has changed what it changes between what it is based on and its own commit.
    fn check_writes(&self, record: &Record, is_paper: bool) -> Result<(), Violation> {
        let Some(version) = record.version else { return Ok(()) };
        if is_paper && matches!(record.level, Level::ReadCommitted | Level::Serializable) {
            return Ok(());
        }
        for touched in &record.touched {
            let since = touched.since.unwrap_or(record.start);
            let between = (since.0 + 1..version.0).map(Version);
            for other in between {
                if self.touched(other).iter().any(|change| change.conflicts_with(touched)) {
                    return Err(record.violation(&format!("has overwritten a change of commit {}", other.0)));
                }
            }
        }
        Ok(())
    }

    /// Checks that what a serializable transaction read was still there when it committed.
    fn check_serializable(&self, record: &Record, data: &Data, is_paper: bool) -> Result<(), Violation> {
        let Some(version) = record.version.filter(|_| record.level == Level::Serializable) else {
            return Ok(());
        };
        let before = Version(version.0 - 1);
        for read in &record.reads {
            if data.get(read.table, &read.key, before) != read.value.as_ref() {
                return Err(
                    record.violation("is serializable, and what it read had changed when it committed")
                );
            }
        }
        for scan in record.scans.iter().filter(|_| !is_paper) {
            if scan.rows_of(data, before) != scan.rows {
                return Err(record.violation("is serializable, and others have changed a range that it read"));
            }
        }
        Ok(())
    }

    /// Checks that no transaction with a bound has missed more commits than that, of those that were told before it
    /// began.
    pub(super) fn check_bounds(&self, by_rows: bool) -> Result<(), Violation> {
        let mut told: Vec<(Micros, Version)> = self
            .records
            .iter()
            .filter_map(|record| Some((record.acknowledged_at?, record.version?)))
            .collect();
        told.sort_unstable();
        let mut newest = Version(0);
        for (_, version) in &mut told {
            newest = newest.max(*version);
            *version = newest;
        }
        for record in self.records.iter().filter(|record| record.has_committed()) {
            let Level::KBound(k) = record.level else { continue };
            let before = told.partition_point(|(at, _)| *at < record.begun_at);
            let Some((_, newest)) = told[..before].last() else { continue };
            let reads = if by_rows { record.read_set.clone() } else { record.read_set.by_tables() };
            let missed = (record.start.0 + 1..=newest.0)
                .filter(|version| self.touched(Version(*version)).iter().any(|change| reads.meets(change)))
                .count();
            if missed > k as usize {
                return Err(
                    record.violation(&format!("is {}, and has missed {missed} commits", record.level))
                );
            }
        }
        Ok(())
    }

    /// Checks that each item that was committed is there, once, and that nothing else is.
    fn check_values(&self, data: &Data, is_paper: bool) -> Result<(), Violation> {
        let committed = || self.records.iter().filter(|record| record.version.is_some());
        let loses = is_paper && committed().any(|record| record.level == Level::ReadCommitted);
        let mut expected: BTreeSet<(Table, &[u8], u64)> = BTreeSet::new();
        for record in committed() {
            expected.extend(record.appended.iter().map(|(table, key, item)| (*table, &**key, *item)));
        }
        for (table, key, value) in data.rows() {
            let Value::List(items) = value else { continue };
            for item in items {
                if !expected.remove(&(table, key, *item)) {
                    return Err(Violation::new(format!(
                        "item {item} stands twice in a list, or was not committed"
                    )));
                }
            }
        }
        match expected.first() {
            Some((_, _, item)) if !loses => {
                Err(Violation::new(format!("item {item} was committed, and is in no list")))
            }
            _ => data.check_numbers(),
        }
    }

    /// Checks that there is no cycle of transactions of which each must come before the next: because the next has
    /// read or overwritten what it wrote, or, of a serializable one, changed what it read.
    fn check_cycles(&self, data: &Data, is_paper: bool) -> Result<(), Violation> {
        if is_paper {
            return Ok(());
        }
        let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.version.is_some())
        {
            writers.extend(record.appended.iter().map(|(_, _, item)| (*item, number)));
        }
        let mut next: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.records.len()];
        let mut successors: BTreeMap<(Table, &[u8], Option<u64>), usize> = BTreeMap::new();
        for (table, key, value) in data.rows() {
            let Value::List(items) = value else { continue };
            let mut before = None;
            for item in items {
                let writer = writers[item];
                // Of several items of one transaction, the first one follows what was there.
                if before.is_none_or(|before| writers[&before] != writer) {
                    successors.insert((table, key, before), writer);
                }
                if let Some(before) = before {
                    next[writers[&before]].insert(writer);
                }
                before = Some(*item);
            }
        }
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.has_committed()) {
            for read in &record.reads {
                let last = match &read.value {
                    Some(Value::List(items)) => items.last().copied(),
                    _ => None,
                };
                next[number].extend(
                    successors
                        .get(&(read.table, &*read.key, last))
                        .filter(|_| record.level == Level::Serializable),
                );
                if let Some(item) = last {
                    next[writers[&item]].insert(number);
                }
            }
        }
        for (number, next) in next.iter_mut().enumerate() {
            next.remove(&number);
        }
        match has_cycle(&next) {
            Some(number) => Err(self.records[number].violation("is in a cycle of dependencies")),
            None => Ok(()),
        }
    }
}

impl Record {
    fn violation(&self, what: &str) -> Violation {
        Violation(format!("{:?} ({}, snapshot {}) {what}", self.name, self.level, self.start.0))
    }

    /// Checks that it has read the snapshots that it says.
    fn check_reads(&self, data: &Data) -> Result<(), Violation> {
        for read in &self.reads {
            if self.level != Level::ReadCommitted && read.at != self.start {
                return Err(self.violation("has read more than one snapshot"));
            }
            if data.get(read.table, &read.key, read.at) != read.value.as_ref() {
                return Err(self.violation("has read what its snapshot does not have"));
            }
        }
        match self.scans.iter().all(|scan| scan.rows_of(data, scan.at) == scan.rows) {
            true => Ok(()),
            false => Err(self.violation("has read a range as its snapshot does not have it")),
        }
    }
}

impl Scan {
    fn rows_of(&self, data: &Data, at: Version) -> Vec<(Key, Value)> {
        let mut rows = data.scan(self.table, &self.range, at);
        rows.retain(|(key, _)| !self.own.contains(key));
        rows
    }
}

/// A node of a cycle, if there is one.
fn has_cycle(next: &[BTreeSet<usize>]) -> Option<usize> {
    let mut entering = vec![0usize; next.len()];
    next.iter().flatten().for_each(|to| entering[*to] += 1);
    let mut free: Vec<usize> = (0..next.len()).filter(|node| entering[*node] == 0).collect();
    let mut left = next.len();
    while let Some(node) = free.pop() {
        left -= 1;
        for &to in &next[node] {
            entering[to] -= 1;
            if entering[to] == 0 {
                free.push(to);
            }
        }
    }
    (left > 0).then(|| entering.iter().position(|count| *count > 0)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found() {
        let graph = |edges: &[(usize, usize)]| {
            let mut next = vec![BTreeSet::new(); 5];
            edges.iter().for_each(|(from, to)| _ = next[*from].insert(*to));
            next
        };
        assert_eq!(has_cycle(&graph(&[(0, 1), (1, 2), (0, 2), (3, 2)])), None);
        assert!(has_cycle(&graph(&[(0, 1), (1, 2), (2, 1)])).is_some());
    }
}

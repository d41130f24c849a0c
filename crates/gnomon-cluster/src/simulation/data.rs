//! The data of a simulated member: rows with all their versions, and the commits that made them.

use std::collections::BTreeMap;

use super::Violation;
use crate::protocol::{Key, Position, Range, Table, Touched, Version};

/// The value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Items in the order in which they were appended.
    List(Vec<u64>),
    /// A quantity.
    Number(i64),
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is put.
    Put(Value),
    /// A number is added to it; none counts as 0. With a bound, only if what comes of it is at least that.
    Add {
        /// The quantity that is added.
        delta: i64,
        /// The bound.
        at_least: Option<i64>,
    },
}

/// Changes of a transaction, by their rows.
pub type Changes = BTreeMap<(Table, Key), Change>;

/// A commit that was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The commit's number.
    pub version: Version,
    /// Its position in the order.
    pub position: Position,
    /// The rows that it touched.
    pub touched: Vec<Touched>,
}

/// The data of a member.
#[derive(Clone, Debug, Default)]
pub struct Data {
    rows: BTreeMap<(Table, Key), Vec<(Version, Value)>>,
    commits: Vec<Applied>,
}

impl Data {
    /// Returns the commits that were applied, the oldest first.
    pub fn commits(&self) -> &[Applied] {
        &self.commits
    }

    /// The newest commit.
    pub fn version(&self) -> Version {
        self.commits.last().map(|commit| commit.version).unwrap_or_default()
    }

    /// A row as of a version.
    pub fn get(&self, table: Table, key: &[u8], at: Version) -> Option<&Value> {
        let versions = self.rows.get(&(table, key.into()))?;
        let newer = versions.partition_point(|(version, _)| *version <= at);
        versions[..newer].last().map(|(_, value)| value)
    }

    /// The rows of a range as of a version.
    pub fn scan(&self, table: Table, range: &Range, at: Version) -> Vec<(Key, Value)> {
        let rows = self.rows.range((table, range.low.clone())..);
        let within = rows.take_while(|((of, key), _)| *of == table && range.contains(key));
        within.filter_map(|((_, key), _)| Some((key.clone(), self.get(table, key, at)?.clone()))).collect()
    }

    /// Applies a commit, if that is possible, and tells whether it was.
    pub fn apply(&mut self, commit: Applied, changes: &Changes) -> bool {
        let is_possible = self.change(commit.version, changes);
        if is_possible {
            self.commits.push(commit);
        }
        is_possible
    }

    /// Makes changes by a version, if they are possible: all or none.
    pub fn change(&mut self, version: Version, changes: &Changes) -> bool {
        let mut values = Vec::with_capacity(changes.len());
        for ((table, key), change) in changes {
            values.push(match change {
                Change::Put(value) => value.clone(),
                Change::Add { delta, at_least } => {
                    let before = match self.get(*table, key, version) {
                        Some(Value::Number(number)) => *number,
                        _ => 0,
                    };
                    if at_least.is_some_and(|at_least| before + delta < at_least) {
                        return false;
                    }
                    Value::Number(before + delta)
                }
            });
        }
        for (row, value) in changes.keys().zip(values) {
            self.rows.entry(row.clone()).or_default().push((version, value));
        }
        true
    }

    /// Checks that no number was ever below zero.
    pub fn check_numbers(&self) -> Result<(), Violation> {
        for (table, key, value) in self
            .rows
            .iter()
            .flat_map(|((table, key), versions)| versions.iter().map(move |(_, value)| (table, key, value)))
        {
            if let Value::Number(number @ ..0) = value {
                return Err(Violation::new(format!("number {key:?} of table {table} was {number}")));
            }
        }
        Ok(())
    }

    /// Forgets the newest commits, but so many.
    pub fn cut(&mut self, commits: usize) {
        self.commits.truncate(commits);
        let last = self.version();
        for versions in self.rows.values_mut() {
            versions.retain(|(version, _)| *version <= last);
        }
        self.rows.retain(|_, versions| !versions.is_empty());
    }

    /// All rows with their newest values.
    pub fn rows(&self) -> impl Iterator<Item = (Table, &[u8], &Value)> {
        self.rows
            .iter()
            .filter_map(|((table, key), versions)| versions.last().map(|(_, value)| (*table, &**key, value)))
    }
}

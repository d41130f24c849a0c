//! The transactions that clients of a simulated cluster run.

use gnomon_engine::env::Rng;

use crate::protocol::{Key, Level, Range, ReadSet, Table};

/// A step of a transaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads a row.
    Read(Table, Key),
    /// Reads all rows of a range.
    Scan(Table, Range),
    /// Reads a list and puts it back with this item more, which no other list has.
    Append(Table, Key, u64),
    /// Adds to a number, unseen.
    Add {
        /// Where it is.
        table: Table,
        /// Its key.
        key: Key,
        /// The quantity that is added.
        delta: i64,
        /// The least quantity that must be left, if there is a bound.
        at_least: Option<i64>,
    },
    /// Waits for so many microseconds.
    Wait(u64),
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its isolation level.
    pub level: Level,
    /// True if it is a call of a procedure, which all members run in its turn.
    pub is_call: bool,
    /// The read set that it declares.
    pub declared: ReadSet,
    /// Its steps, in their order.
    pub steps: Vec<Step>,
}

/// A source of jobs.
pub trait Jobs {
    /// The next one.
    fn next(&mut self, rng: &mut Rng) -> Job;
}

/// Small transactions of all kinds on few rows, at levels of a list.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Each is as likely.
    pub levels: Vec<Level>,
    /// True if some serializable ones are calls of procedures.
    pub has_calls: bool,
    /// Number of tables.
    pub tables: u64,
    /// Number of rows of a table.
    pub rows: u64,
    /// The next item of a list.
    pub next_item: u64,
}

/// The table of numbers.
pub(super) const NUMBERS: Table = 1000;

impl Mixed {
    fn row(&self, rng: &mut Rng) -> (Table, Key) {
        // Half of all are of the first quarter.
        let rows = if rng.chance(1, 2) { self.rows.div_ceil(4) } else { self.rows };
        (rng.below(self.tables), [rng.below(rows) as u8].into())
    }
}

impl Jobs for Mixed {
    fn next(&mut self, rng: &mut Rng) -> Job {
        let level = self.levels[rng.below(self.levels.len() as u64) as usize];
        let mut steps = Vec::new();
        for _ in 0..1 + rng.below(5) {
            let (table, key) = self.row(rng);
            steps.push(match rng.below(8) {
                0 | 1 => Step::Read(table, key),
                2 => {
                    let high = [key[0].saturating_add(rng.below(4) as u8)].into();
                    Step::Scan(table, Range { low: key, high: Some(high) })
                }
                3..=5 => {
                    self.next_item += 1;
                    Step::Append(table, key, self.next_item)
                }
                6 => Step::Add { table: NUMBERS, key: [rng.below(2) as u8].into(), delta: 1, at_least: None },
                _ => {
                    let delta = if rng.chance(1, 2) { 2 } else { -3 };
                    Step::Add { table: NUMBERS, key: [2].into(), delta, at_least: Some(0) }
                }
            });
            if rng.chance(1, 2) {
                steps.push(Step::Wait(rng.below(3_000)));
            }
        }
        let reads = steps.iter().filter_map(|step| match step {
            Step::Read(table, _) | Step::Scan(table, _) | Step::Append(table, ..) => Some(*table),
            Step::Add { .. } | Step::Wait(_) => None,
        });
        let declared = ReadSet::of_tables(reads.collect::<Vec<_>>());
        Job {
            level,
            is_call: self.has_calls && level == Level::Serializable && rng.chance(1, 4),
            declared,
            steps,
        }
    }
}

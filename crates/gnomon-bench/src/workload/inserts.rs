//! Inserts: rows of 108 bytes, whose keys are in random order or ascend.
//!
//! The table is empty at the beginning. A transaction inserts one row or several; when all rows are there, the run and
//! the measured time end. What matters beside the speed is what the engine writes for it: see
//! [`Storage`](crate::report::Storage).
//!
//! The invariant: there is a row for each one of a committed transaction, and each row has the key of its number.

use clap::{Args, ValueEnum, value_parser};
use gnomon_engine::{
    env::Rng,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use gnomon_program::Progress;
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    report::Invariant,
    store::{Committed, Layout, Operations, Result, Store, Table, number_of},
    workload::{Workload, key_number},
};

const ROWS: Table = 0;
/// The most rows of a run.
const ROWS_MAX: u64 = 1 << 30;

/// The workload, with its settings.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Inserts {
    /// Rows to insert.
    ///
    /// When all are there, the run ends, and the measured time with it.
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = value_parser!(u64).range(1..=ROWS_MAX))]
    pub rows: u64,
    /// The order of the keys: random or ascending.
    ///
    /// Random keys are spread over all eight bytes, as hashes or random UUIDs are.
    #[arg(long, value_name = "ORDER", default_value = "random")]
    pub order: Order,
    /// Rows that a transaction inserts.
    ///
    /// Each commit is durable, so a load is faster with many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub rows_per_transaction: u64,
}

/// The order in which keys are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each is anywhere.
    Random,
    /// Each is greater than those before.
    Ascending,
}

impl Order {
    /// Returns the key of a row's number. Different numbers have different keys.
    fn key(self, number: u64) -> u64 {
        match self {
            Order::Ascending => number,
            // The finalizer of SplitMix64 (Steele, Lea and Flood 2014), which maps numbers one to one.
            Order::Random => {
                let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            }
        }
    }
}

/// A client that inserts the next rows that no other has.
struct Inserting<'a> {
    store: &'a dyn Store,
    inserts: &'a Inserts,
    /// The number of the next row that no client has chosen, and that of the last one and one more.
    next: &'a AtomicU64,
    end: u64,
    first: u64,
}

impl Inserting<'_> {
    fn insert(&self, operations: &mut dyn Operations) -> Result<()> {
        let Inserts { order, rows_per_transaction, .. } = *self.inserts;
        (self.first..self.first + rows_per_transaction).try_for_each(|number| {
            let value = Inserts::TABLES[ROWS].value(&[number as i64]);
            operations.insert(ROWS, &order.key(number).to_be_bytes(), &value)
        })
    }
}

impl Client for Inserting<'_> {
    fn choose(&mut self, _: &mut Rng) {
        self.first = self.next.fetch_add(self.inserts.rows_per_transaction, Ordering::Relaxed);
    }

    fn attempt(&mut self) -> Result<Committed> {
        match self.inserts.rows_per_transaction {
            1 => self.store.run_one(&mut |operations| self.insert(operations)),
            _ => self.store.run(&mut |operations| self.insert(operations)),
        }
    }

    fn is_over(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.end
    }
}

impl Workload for Inserts {
    const NAME: &'static str = "inserts";
    const TABLES: &'static [Layout] =
        &[Layout { name: "row", key: &["id"], numbers: &["number"], filler_bytes: 92 }];

    /// At the beginning there are no rows.
    fn load(&self, _: &dyn Store, _: &mut Progress, _: &AtomicBool) -> Result<()> {
        Ok(())
    }

    /// Runs of different seeds insert rows of different numbers, and so different keys.
    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured> {
        let begin = u64::from(load.seed as u32) << ROWS_MAX.ilog2();
        let (next, end) = (AtomicU64::new(begin), begin + self.rows);
        drive(store, load, outstanding, |_| Inserting { store, inserts: self, next: &next, end, first: 0 })
    }

    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant> {
        let (mut rows, mut wrong) = (0u64, 0u64);
        store.visit(ROWS, &mut |key, value| {
            rows += 1;
            wrong += u64::from(key_number(key)? != self.order.key(number_of(value)? as u64));
            Ok(())
        })?;
        let expected = committed * self.rows_per_transaction;
        let holds = (rows, wrong) == (expected, 0);
        let detail = match holds {
            true => format!("there are the {rows} rows of {committed} transactions, each under its key"),
            false => {
                format!("there are {rows} rows instead of {expected}, {wrong} of them under a wrong key")
            }
        };
        Ok(Invariant { holds, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        store::GnomonStore,
        workload::{Settings, bench, short_run},
    };

    #[test]
    fn a_run_ends_when_all_rows_are_there_and_tells_what_was_written() {
        for (order, rows_per_transaction) in [(Order::Random, 1), (Order::Ascending, 10)] {
            let inserts = Inserts { rows: 2_000, order, rows_per_transaction };
            let dir = tempfile::tempdir().unwrap();
            let settings = Settings {
                warm_up_seconds: 0.0,
                measured_seconds: 60.0,
                ..short_run(Some(dir.path().into()), true)
            };
            let report = bench(&inserts, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
            assert!(report.invariant.holds && report.seconds < 60.0, "{report}");
            assert!(report.invariant.detail.ends_with("also after reopening"), "{report}");
            let storage = report.storage.as_ref().unwrap();
            assert!(storage.user_bytes >= 2_000 * 108, "{report}");
            assert!(storage.written.leaves > storage.user_bytes && storage.used_bytes > 0, "{report}");
            assert!(report.to_string().contains("bytes written for each byte"), "{report}");
            let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
            assert!(inserts.check(&store, 1).unwrap().detail.contains("instead of"));
        }
    }
}

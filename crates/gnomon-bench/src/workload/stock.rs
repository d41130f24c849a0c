//! Stock: few items that everybody wants, until they are sold out.
//!
//! A transaction takes one piece of an item, chosen uniformly, on the condition that there is one; thinks, as if it
//! packed; and inserts an order. Where no piece is left it is rolled back and counts as refused. When all items are
//! sold out, the run and the measured time end.
//!
//! The invariant: for each item, the pieces left and the orders are the pieces at the beginning, and none is
//! negative; there is an order for each committed transaction.

use std::time::Duration;

use clap::{Args, value_parser};
use gnomon_engine::{
    env::Rng,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use gnomon_program::{Progress, argument::parse_time};
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    report::Invariant,
    store::{Added, Committed, Layout, Result, Store, StoreError, Table, number_of},
    workload::{self, Rows, Workload, key_number, load_rows, value_number},
};

const ITEMS: Table = 0;
const ORDERS: Table = 1;
/// An order tells its item here.
const ORDER_ITEM: usize = 1;

/// The workload, with its settings.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Stock {
    /// Items.
    ///
    /// Each is wanted as often as any other.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub items: u64,
    /// Pieces of each item at the beginning.
    ///
    /// When all pieces of all items are sold, the run ends, and the measured time with it.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=1_000_000_000_000))]
    pub stock: u64,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after the piece was taken. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "5", value_parser = parse_time)]
    pub think_ms: f64,
}

/// The state that all clients share.
struct Sale {
    /// Numbers of orders.
    numbers: AtomicU64,
    /// The items of which no piece is left. None comes back: an item refuses only if it would whatever others do.
    sold_out: Vec<AtomicBool>,
}

struct Buyer<'a> {
    store: &'a dyn Store,
    sale: &'a Sale,
    number: u64,
    item: u64,
    think: Duration,
}

impl Client for Buyer<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.item = rng.below(self.sale.sold_out.len() as u64);
        self.number = self.sale.numbers.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&mut self) -> Result<Committed> {
        let order = Stock::TABLES[ORDERS].value(&[1, self.item as i64]);
        self.store.run(&mut |operations| {
            if operations.add(ITEMS, &self.item.to_be_bytes(), -1, 0, i64::MAX)? == Added::Refused {
                self.sale.sold_out[self.item as usize].store(true, Ordering::Release);
                return Err(StoreError::Refused);
            }
            workload::sleep(self.think);
            operations.insert(ORDERS, &self.number.to_be_bytes(), &order)
        })
    }

    fn is_over(&self) -> bool {
        self.sale.sold_out.iter().all(|sold_out| sold_out.load(Ordering::Acquire))
    }
}

impl Workload for Stock {
    const NAME: &'static str = "stock";
    const TABLES: &'static [Layout] = &[
        Layout { name: "item", key: &["id"], numbers: &["pieces"], filler_bytes: 92 },
        Layout { name: "order", key: &["id"], numbers: &["pieces", "item"], filler_bytes: 34 },
    ];

    fn load(&self, store: &dyn Store, progress: &mut Progress, cancel: &AtomicBool) -> Result<()> {
        let value = |_| Stock::TABLES[ITEMS].value(&[self.stock as i64]);
        load_rows(store, &[Rows { table: ITEMS, count: self.items, value: &value }], progress, cancel)
    }

    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured> {
        let sold_out = (0..self.items).map(|_| AtomicBool::new(false)).collect();
        let sale = Sale { numbers: AtomicU64::new(0), sold_out };
        let think = workload::think(self.think_ms);
        drive(store, load, outstanding, |_| Buyer { store, sale: &sale, number: 0, item: 0, think })
    }

    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant> {
        let (mut pieces, mut orders) = (vec![0i128; self.items as usize], 0u64);
        let mut add = |item: u64, number: i64| {
            let there = pieces.get_mut(item as usize);
            *there.ok_or_else(|| StoreError::unexpected("an order has no item"))? += i128::from(number);
            Ok(())
        };
        let (mut left, mut negative) = (0i128, 0u64);
        store.visit(ITEMS, &mut |key, value| {
            let number = number_of(value)?;
            left += i128::from(number);
            negative += u64::from(number < 0);
            add(key_number(key)?, number)
        })?;
        store.visit(ORDERS, &mut |_, value| {
            orders += 1;
            add(value_number(value, ORDER_ITEM)? as u64, number_of(value)?)
        })?;
        let differ = pieces.iter().filter(|pieces| **pieces != i128::from(self.stock)).count();
        let holds = (differ, negative, orders) == (0, 0, committed);
        let detail = if holds {
            format!(
                "of each item the pieces left ({left} of all) and those ordered are {}, none is negative, there is an \
                 order for each of {committed} transactions",
                self.stock
            )
        } else {
            format!(
                "of {differ} items the pieces left and those ordered are not {}, of {negative} they are negative, there \
                 are {orders} orders instead of {committed}",
                self.stock
            )
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
    fn a_short_run_keeps_its_invariant() {
        let stock = Stock { items: 3, stock: 1_000_000, think_ms: 1.0 };
        for semantic_locks in [true, false] {
            let settings = short_run(None, semantic_locks);
            let report = bench(&stock, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
            assert!(report.invariant.holds, "{report}");
            assert!(report.invariant.detail.ends_with("also after reopening"), "{report}");
            assert!(report.committed > 0 && report.refused == 0 && report.latency_us.p50 >= 1000, "{report}");
        }
    }

    #[test]
    fn a_run_ends_when_everything_is_sold_out_and_a_broken_invariant_is_noticed() {
        let (dir, stock) = (tempfile::tempdir().unwrap(), Stock { items: 3, stock: 20, think_ms: 1.0 });
        let settings = Settings {
            warm_up_seconds: 0.0,
            measured_seconds: 60.0,
            ..short_run(Some(dir.path().into()), true)
        };
        let report = bench(&stock, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
        assert!(report.invariant.holds, "{report}");
        assert!(report.invariant.detail.contains("left (0 of all)"), "{report}");
        assert!(report.seconds < 30.0 && report.refused > 0 && report.committed <= 60, "{report}");
        let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
        assert!(stock.check(&store, 60).unwrap().holds);
        assert!(!stock.check(&store, 61).unwrap().holds, "an order was lost");
        let more = |operations: &mut dyn crate::store::Operations| {
            operations.add(ITEMS, &1u64.to_be_bytes(), 1, 0, i64::MAX).map(|_| ())
        };
        store.run(&mut { more }).unwrap().wait().unwrap();
        let broken = stock.check(&store, 60).unwrap();
        assert!(!broken.holds && broken.detail.starts_with("of 1 items"), "{broken:?}");
    }

    #[test]
    fn nothing_can_be_measured_after_everything_is_sold_out() {
        let stock = Stock { items: 1, stock: 1, think_ms: 0.0 };
        let settings = Settings { warm_up_seconds: 0.3, ..short_run(None, true) };
        let error = bench(&stock, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap_err();
        assert!(error.to_string().starts_with("nothing was left to do"), "{error}");
    }
}

//! TPC-C: orders, payments and deliveries of a wholesaler (TPC Benchmark C, revision 5.11), as registered procedures,
//! and as SQL on a server ([`sql`]).
//!
//! The database (`rows.rs`, `load.rs`) has the nine tables of the benchmark with all their columns, and is filled as
//! clause 4.3 says. The five transactions (`procedures.rs`) are those of clauses 2.4 to 2.8. Their parameters
//! (`input.rs`) are chosen as these clauses say, in the mix that the settings ask for. The twelve consistency
//! conditions of clause 3.3.2 are checked by [`check()`], and that there are as many orders and payments as were loaded
//! and committed.
//!
//! Every table but ITEM is partitioned by warehouse. A partition has trees of its own, and ITEM, which is never written,
//! is one tree for all. Trees are made in a fixed order on a new database, so that their numbers are known (`tree`).
//!
//! How tables are stored, where that is a choice:
//!
//! - W_YTD, D_YTD and D_NEXT_O_ID have keys of their own beside their rows. Payments add to the first two without
//!   seeing them, so that those of a warehouse run beside each other; the rows they read are never written.
//! - C_DATA is in a tree of its own: one payment in ten needs its up to 500 bytes, and none of the others.
//! - Customers are found by their last name in an index that has the numbers of those that share one, in the order of
//!   their first names; the last order of a customer in an index of orders by customer, the newest first; the order
//!   that a district delivers next in an index of the oldest new orders, which a delivery locks and keeps.
//! - A row of HISTORY has the customer and the customer's C_PAYMENT_CNT in its key. A payment counts that up under the
//!   customer's exclusive lock, so no two have the same, and a replay finds the same number.
//!
//! Transactions get the time as a parameter: they do the same when they run again. Money is in hundredths, rates are in
//! ten-thousandths, times in microseconds since 1970-01-01 00:00 UTC.
//!
//! Differences from the benchmark's rules: terminals neither think nor type, those of a client take turns at random,
//! deliveries are not queued but answered, transactions are chosen by their share and not from a deck of cards, new
//! orders that are rolled back because of an unused item count as refused and not as done, and there is no price. The
//! cardinalities can be made smaller.

#[cfg(test)]
mod answers;
mod check;
mod input;
mod load;
mod procedures;
mod rows;
pub mod sql;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use clap::{Args, value_parser};
use gnomon_engine::{
    Database, Error, Partitions, Procedure, Result, TreeId,
    sync::atomic::{AtomicBool, Ordering},
};
use gnomon_program::Progress;
use serde::{Deserialize, Serialize};

use crate::{
    procedure::{
        CallSource, Calls,
        fields::{At, Reader},
    },
    report::Invariant,
    store::StoreError,
};

pub use check::check;
pub use input::{
    CustomerBy, Delivery, NewOrder, OrderStatus, OrderedItem, Payment, StockLevel, Terminals, terminals,
};
pub use load::load;
pub use procedures::{is_unused_item, procedures};
use rows::Table;

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;
/// Customers of a district, and its orders at the beginning, unless the settings say otherwise.
pub const CUSTOMERS_PER_DISTRICT: u16 = 3000;
/// Items, unless the settings say otherwise.
pub const ITEMS: u32 = 100_000;

/// The workload, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Args, Serialize, Deserialize)]
pub struct Tpcc {
    /// Warehouses.
    ///
    /// Each has ten districts, with their customers and orders, and a stock of every item: about 80 MB. All are used
    /// alike, however many clients there are.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=10_000))]
    pub warehouses: u16,
    /// Partitions.
    ///
    /// Warehouse W is in partition (W - 1) modulo N. Each has trees of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    /// Customers of each district, and its orders at the beginning.
    ///
    /// The benchmark's own number is the default; fewer load faster.
    #[arg(
        long,
        value_name = "N",
        default_value_t = CUSTOMERS_PER_DISTRICT,
        value_parser = value_parser!(u16).range(10..=30_000)
    )]
    pub customers_per_district: u16,
    /// Items.
    ///
    /// The benchmark's own number is the default; fewer load faster.
    #[arg(long, value_name = "N", default_value_t = ITEMS, value_parser = value_parser!(u32).range(100..=10_000_000))]
    pub items: u32,
    /// The mix: how many of 100 transactions are new orders, payments, order statuses, deliveries and stock levels.
    ///
    /// The benchmark asks for at least 43/4/4/4 of the last four.
    #[arg(long, value_name = "N/N/N/N/N", default_value = "45/43/4/4/4")]
    pub mix: Mix,
    /// Computation added to each transaction, in microseconds.
    ///
    /// It takes a processor's time, and does nothing.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(..=1_000_000))]
    pub compute_us: u32,
}

impl Tpcc {
    /// The benchmark's own sizes.
    pub fn new(warehouses: u16, partitions: u16) -> Tpcc {
        Tpcc {
            warehouses,
            partitions,
            customers_per_district: CUSTOMERS_PER_DISTRICT,
            items: ITEMS,
            mix: Mix::default(),
            compute_us: 0,
        }
    }

    /// Orders of a district that are delivered at the beginning: 2100 of 3000.
    fn delivered_per_district(&self) -> u32 {
        u32::from(self.customers_per_district) * 7 / 10
    }

    /// How many last names there are among the customers of a district.
    fn last_names(&self) -> u16 {
        self.customers_per_district.min(rows::LAST_NAMES)
    }
}

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A customer orders from 5 to 15 items.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the last order.
    OrderStatus,
    /// The oldest undelivered order of each district is delivered.
    Delivery,
    /// How many of the items ordered last are running out.
    StockLevel,
}

impl Kind {
    /// All of them, in the order of [`Mix`].
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name of its procedure.
    pub fn name(self) -> &'static str {
        Tpcc::KINDS[self as usize].1
    }

    /// The partitions that a transaction of this kind touches, by its parameters.
    ///
    /// # Errors
    /// These are cut short.
    pub fn touched(self, params: &[u8], partitions: u16) -> Result<Partitions> {
        const HOME: At<u16> = At::first();
        let home = HOME.get(params)?;
        let touched = |other: u16| u32::from(partition(other, partitions));
        Ok(match self {
            Kind::NewOrder => {
                let (_, items) = NewOrder::split(params)?;
                let others = items.iter().map(|item| input::SUPPLY.get(item)).collect::<Result<Vec<_>>>()?;
                Partitions::of([home].into_iter().chain(others).map(touched))
            }
            Kind::Payment => Partitions::of([home, Payment::decode(params)?.customer_warehouse].map(touched)),
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => Partitions::One(touched(home)),
        })
    }
}

/// How many of 100 transactions are of each kind, in the order of [`Kind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix(pub [u8; 5]);

impl Default for Mix {
    fn default() -> Mix {
        Mix([45, 43, 4, 4, 4])
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let shares = text.split('/').map(str::parse).collect::<Result<Vec<u8>, _>>();
        let shares = shares.ok().and_then(|shares| <[u8; 5]>::try_from(shares).ok());
        match shares {
            Some(shares) if shares.iter().map(|share| u32::from(*share)).sum::<u32>() == 100 => {
                Ok(Mix(shares))
            }
            _ => Err("not five numbers with slashes between them that sum to 100".into()),
        }
    }
}

impl CallSource for Terminals {
    fn next(&mut self, now: i64) -> (usize, Vec<u8>) {
        let (kind, params) = Terminals::next(self, now);
        (kind as usize, params)
    }
}

impl Calls for Tpcc {
    const NAME: &'static str = "tpcc";
    const KINDS: &'static [(&'static str, &'static str)] = &[
        ("new order", "tpcc.new_order"),
        ("payment", "tpcc.payment"),
        ("order status", "tpcc.order_status"),
        ("delivery", "tpcc.delivery"),
        ("stock level", "tpcc.stock_level"),
    ];

    fn partitions(&self) -> u32 {
        self.partitions.into()
    }

    fn procedures(&self) -> Vec<Procedure> {
        procedures(self)
    }

    fn load(
        &self,
        db: &Database,
        seed: u64,
        progress: &mut Progress,
        cancel: &AtomicBool,
    ) -> crate::store::Result<()> {
        load(db, self, seed, &mut report_progress(progress, cancel))
    }

    fn clients(&self, count: usize, seed: u64) -> Vec<Box<dyn CallSource>> {
        let boxed = |terminals| Box::new(terminals) as Box<dyn CallSource>;
        terminals(self, count, seed).into_iter().map(boxed).collect()
    }

    fn is_refusal(error: &Error) -> bool {
        is_unused_item(error)
    }

    fn check(&self, db: &Database, committed: Option<&[u64]>) -> crate::store::Result<Invariant> {
        check(db, self, committed)
    }
}

/// Returns a function that a load tells how far it is. Canceled, it ends the load.
fn report_progress(
    progress: &mut Progress,
    cancel: &AtomicBool,
) -> impl FnMut(u64, u64) -> crate::store::Result<()> {
    |done, total| {
        progress.set(done, total);
        match cancel.load(Ordering::Acquire) {
            true => Err(StoreError::unexpected("canceled")),
            false => Ok(()),
        }
    }
}

/// The partition of a warehouse, which counts from 1.
fn partition(warehouse: u16, partitions: u16) -> u16 {
    warehouse.wrapping_sub(1) % partitions
}

/// The tree of a table, for a warehouse; that of ITEM is the same for all.
fn tree(table: Table, warehouse: u16, partitions: u16) -> TreeId {
    tree_in(table, partition(warehouse, partitions))
}

/// The tree of a table in a partition. The first tree of a database is number 1.
fn tree_in(table: Table, partition: u16) -> TreeId {
    let of_partition = table as u64;
    match table {
        Table::Item => TreeId(1),
        _ => TreeId(1 + u64::from(partition) * Table::PARTITIONED.len() as u64 + of_partition),
    }
}

/// Reads texts one after another.
fn strings<const N: usize>(reader: &mut Reader<'_>) -> Result<[String; N]> {
    let mut strings = [const { String::new() }; N];
    for string in &mut strings {
        *string = reader.string()?;
    }
    Ok(strings)
}

//! The consistency conditions of clause 3.3.2, checked over the whole database.
//!
//! Promises: all twelve hold, and the indexes agree with their tables, or it is told which do not and where first. They
//! say nothing of transactions that were lost as a whole: orders and payments are counted beside them. Reads one
//! snapshot of what is durable, each tree once.
//!
//! Conditions 3.3.2.2 and 3.3.2.3 say nothing about districts without new orders. Condition 3.3.2.11 says that 2100
//! orders of a district are delivered, which is so at the beginning: since, it is so many more as its customers have
//! deliveries (C_DELIVERY_CNT).

use std::fmt;

use gnomon_engine::{Cursor, Database, Direction, Isolation, KeyRange, Transaction, TreeId, TxnOptions};

use super::{
    DISTRICTS, Kind, Table, Tpcc,
    rows::{customer, district, history, order, order_line},
    tree_in,
};
use crate::{
    procedure::fields::{At, Reader},
    report::Invariant,
    store::{Result, StoreError},
};

/// The number of checks: the twelve conditions, and in the last place the indexes.
pub(super) const CONDITIONS: usize = 13;
/// In the place of a condition's number.
const INDEXES: usize = 13;

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Its number: 3 for 3.3.2.3. 13 stands for the indexes.
    pub condition: usize,
    /// How often it does not hold.
    pub count: u64,
    /// Where it does not hold first.
    pub first: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition {
            INDEXES => f.write_str("indexes: ")?,
            condition => write!(f, "condition 3.3.2.{condition}: ")?,
        }
        f.write_str(&self.first)?;
        match self.count {
            1 => Ok(()),
            count => write!(f, " (and {} more)", count - 1),
        }
    }
}

/// Checks that all conditions hold, and that the database has everything that was loaded and committed: so many
/// transactions of each kind, if that is given.
///
/// # Errors
/// Those of the database, and rows of districts or customers that there are none of.
pub fn check(db: &Database, tpcc: &Tpcc, committed: Option<&[u64]>) -> Result<Invariant> {
    let (sums, failed) = checked(db, tpcc)?;
    let sum = |of: fn(&DistrictSums) -> u64| sums.districts.iter().map(of).sum();
    let counts = Counts {
        orders: sum(|district| district.orders),
        lines: sum(|district| district.lines),
        payments: sum(|district| district.payments),
    };
    Ok(counts.invariant(tpcc, committed, &failed))
}

/// How many rows there are in the tables that grow.
pub(super) struct Counts {
    pub orders: u64,
    pub lines: u64,
    pub payments: u64,
}

impl Counts {
    /// Returns the invariant of a database with so many rows, by the conditions that do not hold.
    pub fn invariant(&self, tpcc: &Tpcc, committed: Option<&[u64]>, failed: &[Failed]) -> Invariant {
        let Counts { orders, lines, payments } = self;
        let mut wrong: Vec<String> = failed.iter().map(Failed::to_string).collect();
        // Each customer has an order and a payment at the beginning.
        let loaded =
            u64::from(tpcc.warehouses) * u64::from(DISTRICTS) * u64::from(tpcc.customers_per_district);
        let counted = [(Kind::NewOrder, orders, "orders"), (Kind::Payment, payments, "payments")];
        for (kind, &found, what) in counted {
            let expected = committed.and_then(|committed| committed.get(kind as usize));
            if let Some(expected) = expected.map(|committed| loaded + committed)
                && expected != found
            {
                wrong.push(format!("{found} {what} are stored, and {expected} were loaded and committed"));
            }
        }
        let holds = wrong.is_empty();
        let detail = match holds {
            true => format!(
                "the 12 consistency conditions hold of {} warehouses with {orders} orders, {lines} order lines and \
                 {payments} payments",
                tpcc.warehouses
            ),
            false => wrong.join("; "),
        };
        Invariant { holds, detail }
    }
}

/// The conditions that do not hold, in their order.
///
/// # Errors
/// As [`check`].
#[cfg(test)]
pub(super) fn failures(db: &Database, tpcc: &Tpcc) -> Result<Vec<Failed>> {
    Ok(checked(db, tpcc)?.1)
}

fn checked(db: &Database, tpcc: &Tpcc) -> Result<(Sums, Vec<Failed>)> {
    let options = TxnOptions { isolation: Isolation::Snapshot, read_only: true, ..TxnOptions::default() };
    let mut txn = db.begin(options)?;
    let mut sums = Sums::new(tpcc);
    for partition in 0..tpcc.partitions {
        sums.add_customers(&mut txn, partition)?;
        sums.add_districts(&mut txn, partition)?;
        sums.add_history(&mut txn, partition)?;
    }
    let mut failures = Failures::default();
    for partition in 0..tpcc.partitions {
        sums.add_orders(&mut txn, partition, &mut failures)?;
    }
    sums.compare(&mut failures);
    let failed = failures.0.into_iter().flatten().collect();
    Ok((sums, failed))
}

#[derive(Default)]
struct Failures([Option<Failed>; CONDITIONS]);

impl Failures {
    fn expect(&mut self, condition: usize, holds: bool, text: impl FnOnce() -> String) {
        if holds {
            return;
        }
        match &mut self.0[condition - 1] {
            Some(failed) => failed.count += 1,
            none => *none = Some(Failed { condition, count: 1, first: text() }),
        }
    }
}

/// Sums over the tables.
struct Sums {
    customers_per_district: u16,
    delivered_at_load: u64,
    /// W_YTD; sum of H_AMOUNT.
    warehouses: Vec<(i64, i64)>,
    districts: Vec<DistrictSums>,
    customers: Vec<CustomerSums>,
}

#[derive(Clone, Default)]
struct DistrictSums {
    ytd: i64,
    next_order: u32,
    /// The oldest new order, by its index.
    oldest: u32,
    history: i64,
    /// Rows of HISTORY.
    payments: u64,
    orders: u64,
    order_max: u32,
    /// How many, the smallest and the greatest.
    new_orders: Option<(u64, u32, u32)>,
    /// O_OL_CNT of all orders.
    lines_of_orders: u64,
    lines: u64,
    /// C_DELIVERY_CNT of all customers.
    deliveries: u64,
    /// Fingerprints of last names with their customers, and of customers with their orders.
    names: Fingerprint,
    names_indexed: Fingerprint,
    orders_of_customers: Fingerprint,
    orders_indexed: Fingerprint,
}

#[derive(Clone, Default)]
struct CustomerSums {
    balance: i64,
    ytd_payment: i64,
    delivered: i64,
    paid: i64,
}

/// Of the lines of an order.
#[derive(Default)]
struct LineSums {
    count: u64,
    undelivered: u64,
    /// OL_AMOUNT of the others.
    delivered: i64,
}

/// Tells sets of keys apart, in whichever order their elements come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    count: u64,
    sum: u64,
}

impl Fingerprint {
    fn add(&mut self, key: &[u8], number: u64) {
        // FNV-1a.
        let hash =
            key.iter().copied().chain(number.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash ^ (hash >> 29));
    }
}

/// The number of a district among all.
fn district_index(warehouse: u16, district: u8) -> usize {
    (usize::from(warehouse).wrapping_sub(1))
        .wrapping_mul(DISTRICTS.into())
        .wrapping_add(usize::from(district) - 1)
}

/// The names of a district, for texts.
fn name_of(index: usize) -> String {
    let of = usize::from(DISTRICTS);
    format!("district {} of warehouse {}", index % of + 1, index / of + 1)
}

/// The district that a key begins with.
fn district_of(key: &[u8]) -> Result<(u16, u8)> {
    match key {
        [w1, w2, d, ..] if (1..=DISTRICTS).contains(d) => Ok((u16::from_be_bytes([*w1, *w2]), *d)),
        _ => Err(StoreError::unexpected("a key is of no district")),
    }
}

/// Numbers in keys.
fn number_at<const N: usize>(key: &[u8], place: usize) -> Result<[u8; N]> {
    let bytes = key.get(place..).and_then(|rest| rest.first_chunk());
    bytes.copied().ok_or_else(|| StoreError::unexpected("a key is cut short"))
}

fn visit(
    txn: &mut Transaction,
    tree: TreeId,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward)?;
    while let Some((key, value)) = cursor.next(txn)? {
        visit(&key, &value)?;
    }
    Ok(())
}

/// The rows of a tree, of which the next can be looked at.
struct Rows {
    cursor: Cursor,
    next: Option<(Vec<u8>, Vec<u8>)>,
}

impl Rows {
    fn of(txn: &mut Transaction, tree: TreeId) -> Result<Rows> {
        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward)?;
        let next = cursor.next(txn)?;
        Ok(Rows { cursor, next })
    }

    fn take(&mut self, txn: &mut Transaction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = self.cursor.next(txn)?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the next row if its key, without what is behind the order, is `key` or below; tells whether it is `key`.
    fn take_up_to(&mut self, txn: &mut Transaction, key: Option<&[u8]>) -> Result<Option<(Taken, bool)>> {
        let Some((next, _)) = &self.next else { return Ok(None) };
        let order = next.get(..ORDER_KEY_BYTES).unwrap_or(next);
        let is_same = Some(order) == key;
        if is_same || key.is_none_or(|key| order < key) {
            return Ok(self.take(txn)?.map(|taken| (taken, is_same)));
        }
        Ok(None)
    }
}

type Taken = (Vec<u8>, Vec<u8>);

/// The bytes of a key of ORDER, which keys of ORDER-LINE begin with.
const ORDER_KEY_BYTES: usize = 7;

/// The value of a key that has a number alone.
const NUMBER: At<i64> = At::first();

impl Sums {
    fn new(tpcc: &Tpcc) -> Sums {
        let districts = usize::from(tpcc.warehouses) * usize::from(DISTRICTS);
        Sums {
            customers_per_district: tpcc.customers_per_district,
            delivered_at_load: tpcc.delivered_per_district().into(),
            warehouses: vec![(0, 0); tpcc.warehouses.into()],
            districts: vec![DistrictSums::default(); districts],
            customers: vec![CustomerSums::default(); districts * usize::from(tpcc.customers_per_district)],
        }
    }

    fn warehouse(&mut self, w: u16) -> Result<&mut (i64, i64)> {
        let warehouse = self.warehouses.get_mut(usize::from(w).wrapping_sub(1));
        warehouse.ok_or_else(|| StoreError::unexpected("a key is of no warehouse"))
    }

    fn district(&mut self, (w, d): (u16, u8)) -> Result<&mut DistrictSums> {
        let district = self.districts.get_mut(district_index(w, d));
        district.ok_or_else(|| StoreError::unexpected("a key is of no warehouse"))
    }

    fn customer(&mut self, (w, d): (u16, u8), c: u16) -> Result<&mut CustomerSums> {
        let customers = usize::from(self.customers_per_district);
        let index = district_index(w, d).wrapping_mul(customers).wrapping_add(usize::from(c).wrapping_sub(1));
        let customer = self.customers.get_mut(index).filter(|_| usize::from(c) <= customers);
        customer.ok_or_else(|| StoreError::unexpected("a key is of no customer"))
    }

    fn add_customers(&mut self, txn: &mut Transaction, partition: u16) -> Result<()> {
        visit(txn, tree_in(Table::Customer, partition), |key, row| {
            let (place, c) = (district_of(key)?, u16::from_be_bytes(number_at(key, 3)?));
            let sums = self.customer(place, c)?;
            sums.balance = customer::BALANCE.get(row)?;
            sums.ytd_payment = customer::YTD_PAYMENT.get(row)?;
            let district = self.district(place)?;
            district.deliveries += u64::from(customer::DELIVERY_COUNT.get(row)?);
            district.names.add(Reader::at(row, customer::TEXTS)?.text()?, c.into());
            Ok(())
        })?;
        visit(txn, tree_in(Table::CustomerByName, partition), |key, numbers| {
            let district = self.district(district_of(key)?)?;
            for number in numbers.as_chunks().0 {
                district.names_indexed.add(&key[3..], u16::from_le_bytes(*number).into());
            }
            Ok(())
        })
    }

    fn add_districts(&mut self, txn: &mut Transaction, partition: u16) -> Result<()> {
        visit(txn, tree_in(Table::Warehouse, partition), |key, row| {
            // The others are the warehouses' rows, which have no sums.
            if key.len() == 3 {
                self.warehouse(u16::from_be_bytes(number_at(key, 0)?))?.0 = NUMBER.get(row)?;
            }
            Ok(())
        })?;
        visit(txn, tree_in(Table::District, partition), |key, row| {
            if let [w1, w2] = key {
                for d in 1..=DISTRICTS {
                    let oldest = district::OLDEST.skip(usize::from(d) - 1).get(row)?;
                    self.district((u16::from_be_bytes([*w1, *w2]), d))?.oldest = oldest;
                }
                return Ok(());
            }
            let (place, sums) = (district_of(key)?, self.district(district_of(key)?)?);
            match key {
                _ if *key == district::ytd_key(place.0, place.1) => sums.ytd = NUMBER.get(row)?,
                _ if *key == district::next_order_key(place.0, place.1) => {
                    sums.next_order = district::NEXT_ORDER.get(row)?;
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn add_history(&mut self, txn: &mut Transaction, partition: u16) -> Result<()> {
        visit(txn, tree_in(Table::History, partition), |key, row| {
            let amount = history::AMOUNT.get(row)?;
            let place = district_of(key)?;
            self.warehouse(place.0)?.1 += amount;
            let district = self.district(place)?;
            district.history += amount;
            district.payments += 1;
            let of_customer = district_of(&number_at::<3>(key, 3)?)?;
            self.customer(of_customer, u16::from_be_bytes(number_at(key, 6)?))?.paid += amount;
            Ok(())
        })
    }

    /// Goes through orders, new orders and order lines side by side.
    fn add_orders(&mut self, txn: &mut Transaction, partition: u16, failures: &mut Failures) -> Result<()> {
        let mut orders = Rows::of(txn, tree_in(Table::Order, partition))?;
        let mut new_orders = Rows::of(txn, tree_in(Table::NewOrder, partition))?;
        let mut lines = Rows::of(txn, tree_in(Table::OrderLine, partition))?;
        loop {
            let taken = orders.take(txn)?;
            let key = taken.as_ref().map(|(key, _)| &key[..]);
            let is_new = self.add_new_orders(txn, &mut new_orders, key, failures)?;
            let of_order = self.add_lines(txn, &mut lines, key, failures)?;
            let Some((key, row)) = taken else { break };
            self.add_order(&key, &row, is_new, of_order, failures)?;
        }
        visit(txn, tree_in(Table::OrderByCustomer, partition), |key, _| {
            let number = !u32::from_be_bytes(number_at(key, 5)?);
            self.district(district_of(key)?)?.orders_indexed.add(&key[..5], number.into());
            Ok(())
        })
    }

    /// Takes the new orders up to an order; tells whether that is one of them.
    fn add_new_orders(
        &mut self,
        txn: &mut Transaction,
        new_orders: &mut Rows,
        key: Option<&[u8]>,
        failures: &mut Failures,
    ) -> Result<bool> {
        let mut is_new = false;
        while let Some(((new, _), is_same)) = new_orders.take_up_to(txn, key)? {
            is_new |= is_same;
            let number = u32::from_be_bytes(number_at(&new, 3)?);
            let place = district_of(&new)?;
            let before = &mut self.district(place)?.new_orders;
            let (count, min, _) = before.unwrap_or((0, number, number));
            *before = Some((count + 1, min, number));
            failures.expect(5, is_same, || {
                format!(
                    "NEW-ORDER has {number} of {}, which is no order",
                    name_of(district_index(place.0, place.1))
                )
            });
        }
        Ok(is_new)
    }

    /// Takes the order lines up to those of an order, and sums these up.
    fn add_lines(
        &mut self,
        txn: &mut Transaction,
        lines: &mut Rows,
        key: Option<&[u8]>,
        failures: &mut Failures,
    ) -> Result<LineSums> {
        let mut sums = LineSums::default();
        while let Some(((line_key, line), is_same)) = lines.take_up_to(txn, key)? {
            self.district(district_of(&line_key)?)?.lines += 1;
            failures.expect(6, is_same, || {
                let place = district_of(&line_key).unwrap_or_default();
                let number = number_at(&line_key, 3).map(u32::from_be_bytes).unwrap_or_default();
                format!(
                    "ORDER-LINE has lines of order {number} of {}, which is no order",
                    name_of(district_index(place.0, place.1))
                )
            });
            if is_same {
                sums.count += 1;
                match order_line::DELIVERED.get(&line)? {
                    0 => sums.undelivered += 1,
                    _ => sums.delivered += order_line::AMOUNT.get(&line)?,
                }
            }
        }
        Ok(sums)
    }

    fn add_order(
        &mut self,
        key: &[u8],
        row: &[u8],
        is_new: bool,
        lines: LineSums,
        failures: &mut Failures,
    ) -> Result<()> {
        let LineSums { count, undelivered, delivered } = lines;
        let (place, number) = (district_of(key)?, u32::from_be_bytes(number_at(key, 3)?));
        let name = || format!("order {number} of {}", name_of(district_index(place.0, place.1)));
        let (carrier, of_order) = (order::CARRIER.get(row)?, u64::from(order::LINES.get(row)?));
        let c = order::CUSTOMER.get(row)?;
        self.customer(place, c)?.delivered += delivered;
        let district = self.district(place)?;
        district.orders += 1;
        district.order_max = number;
        district.lines_of_orders += of_order;
        district.orders_of_customers.add(&customer::key(place.0, place.1, c), number.into());
        failures.expect(5, is_new == (carrier == 0), || match is_new {
            true => format!("{} has O_CARRIER_ID {carrier} and is in NEW-ORDER", name()),
            false => format!("{} has no O_CARRIER_ID and is not in NEW-ORDER", name()),
        });
        failures.expect(6, count == of_order, || {
            format!("{} has O_OL_CNT {of_order}, and ORDER-LINE has {count} of it", name())
        });
        failures.expect(7, undelivered == if carrier == 0 { count } else { 0 }, || {
            format!(
                "{} has O_CARRIER_ID {carrier}, and of its {count} lines {undelivered} have no OL_DELIVERY_D",
                name()
            )
        });
        Ok(())
    }

    fn compare(&self, failures: &mut Failures) {
        let of_warehouse = self.districts.chunks(DISTRICTS.into());
        for (number, ((ytd, paid), districts)) in (1..).zip(self.warehouses.iter().zip(of_warehouse)) {
            let of_districts: i64 = districts.iter().map(|district| district.ytd).sum();
            failures.expect(1, *ytd == of_districts, || {
                format!("W_YTD of warehouse {number} is {ytd}, D_YTD of its districts sum to {of_districts}")
            });
            failures.expect(8, ytd == paid, || {
                format!("W_YTD of warehouse {number} is {ytd}, H_AMOUNT of its payments sum to {paid}")
            });
        }
        for (index, district) in self.districts.iter().enumerate() {
            self.compare_district(index, district, failures);
        }
        for (index, customer) in self.customers.iter().enumerate() {
            let of = usize::from(self.customers_per_district);
            let name = || format!("customer {} of {}", index % of + 1, name_of(index / of));
            let CustomerSums { balance, ytd_payment, delivered, paid } = customer;
            failures.expect(10, *balance == delivered - paid, || {
                format!(
                    "C_BALANCE of {} is {balance}, OL_AMOUNT of what was delivered sum to {delivered}, and H_AMOUNT of \
                     the payments to {paid}",
                    name()
                )
            });
            failures.expect(12, balance + ytd_payment == *delivered, || {
                format!(
                    "C_BALANCE of {} is {balance}, C_YTD_PAYMENT is {ytd_payment}, and OL_AMOUNT of what was delivered \
                     sum to {delivered}",
                    name()
                )
            });
        }
    }

    fn compare_district(&self, index: usize, district: &DistrictSums, failures: &mut Failures) {
        let name = || name_of(index);
        let last = district.next_order.wrapping_sub(1);
        let new_max = district.new_orders.map_or(last, |(.., max)| max);
        failures.expect(2, last == district.order_max && last == new_max, || {
            format!(
                "D_NEXT_O_ID of {} is {}, the last order is {}, the last new order is {new_max}",
                name(),
                district.next_order,
                district.order_max
            )
        });
        if let Some((count, min, max)) = district.new_orders {
            failures.expect(3, u64::from(max - min) + 1 == count, || {
                format!("{} has {count} new orders from {min} to {max}", name())
            });
        }
        failures.expect(4, district.lines_of_orders == district.lines, || {
            format!(
                "O_OL_CNT of the orders of {} sum to {}, and ORDER-LINE has {} of them",
                name(),
                district.lines_of_orders,
                district.lines
            )
        });
        failures.expect(9, district.ytd == district.history, || {
            format!(
                "D_YTD of {} is {}, H_AMOUNT of its payments sum to {}",
                name(),
                district.ytd,
                district.history
            )
        });
        let new_orders = district.new_orders.map_or(0, |(count, ..)| count);
        let delivered = self.delivered_at_load + district.deliveries;
        failures.expect(11, district.orders == new_orders + delivered, || {
            format!(
                "{} has {} orders and {new_orders} new orders, and {delivered} were delivered",
                name(),
                district.orders
            )
        });
        let oldest = district.new_orders.map_or(district.next_order, |(_, min, _)| min);
        failures.expect(INDEXES, district.oldest == oldest, || {
            format!("the oldest new order of {} is {oldest}, and {} by its index", name(), district.oldest)
        });
        failures.expect(INDEXES, district.names == district.names_indexed, || {
            format!("customers of {} are not found by their last names", name())
        });
        failures.expect(INDEXES, district.orders_of_customers == district.orders_indexed, || {
            format!("orders of {} are not found by their customers", name())
        });
    }
}

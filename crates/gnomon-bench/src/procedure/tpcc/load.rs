//! The population of the database (clause 4.3).
//!
//! Promises: the same settings and seed load the same rows, dates included, wherever they go ([`Sink`]); transactions of
//! about 10,000 rows, on a database of this process each of them locks the trees that it fills; what fails or is canceled
//! leaves a database that is not used.

use gnomon_engine::{Database, Placement, Transaction, TreeId, TreeLock, TxnOptions, env::Rng};

use super::{
    DISTRICTS, Table, Tpcc,
    input::{Constants, within},
    procedures::{BAD_CREDIT, ORIGINAL},
    rows::{
        LAST_NAMES, customer, district, history, item, last_name, new_order, order, order_line, place_row,
        stock, warehouse,
    },
    tree_in,
};
use crate::{
    procedure::{fields::Writer, make_trees},
    store::Result,
};

/// Rows that are loaded in one transaction.
const CHUNK_ROWS: u64 = 10_000;
/// The date of whatever is loaded: 2026-01-01 00:00 UTC.
pub(super) const LOADED_AT: i64 = 1_767_225_600_000_000;
/// The first payment of each customer.
const FIRST_PAYMENT: i64 = 1_000;

/// Makes the trees of a new database and fills them. `progress` is told how many of how many rows are done, and ends
/// the load by an error. Order lines do not count, and a customer counts with the first payment.
///
/// # Errors
/// That of `progress`, those of the database, and that it is not new.
pub fn load(
    db: &Database,
    tpcc: &Tpcc,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let of_partitions =
        (0..tpcc.partitions).flat_map(|partition| Table::PARTITIONED.map(|table| (table, partition)));
    let trees = [(Table::Item, 0)].into_iter().chain(of_partitions).map(|(table, partition)| {
        let placement = match table {
            Table::Item => Placement::Replicated,
            _ => Placement::Partition(partition.into()),
        };
        (tree_in(table, partition), placement)
    });
    make_trees(db, trees)?;
    let txn = db.begin(TxnOptions::default())?;
    fill(Trees { db, partitions: tpcc.partitions, txn, filled: Vec::new() }, tpcc, seed, progress)
}

/// Where the rows go.
pub(super) trait Sink {
    /// Takes a row of a table; those of a warehouse are in its partition. Rows of tables whose columns are under several
    /// keys or in several tables come one right after another.
    fn put(&mut self, table: Table, warehouse: u16, key: &[u8], value: &[u8]) -> Result<()>;

    /// Commits what was taken since the last time.
    fn commit(&mut self) -> Result<()>;
}

/// The trees of a database in this process.
struct Trees<'a> {
    db: &'a Database,
    partitions: u16,
    txn: Transaction,
    /// Those that the transaction has locked.
    filled: Vec<TreeId>,
}

impl Sink for Trees<'_> {
    fn put(&mut self, table: Table, warehouse: u16, key: &[u8], value: &[u8]) -> Result<()> {
        let tree = super::tree(table, warehouse, self.partitions);
        if !self.filled.contains(&tree) {
            self.txn.lock_tree(tree, TreeLock::Exclusive)?;
            self.filled.push(tree);
        }
        Ok(self.txn.put(tree, key, value)?)
    }

    fn commit(&mut self) -> Result<()> {
        let next = self.db.begin(TxnOptions::default())?;
        std::mem::replace(&mut self.txn, next).commit()?;
        self.filled.clear();
        Ok(())
    }
}

/// Fills empty tables. `progress` is told as by [`load`].
///
/// # Errors
/// Those of `progress` and of the sink.
pub(super) fn fill(
    sink: impl Sink,
    tpcc: &Tpcc,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let (customers, items) = (u64::from(tpcc.customers_per_district), u64::from(tpcc.items));
    let of_warehouse = items + u64::from(DISTRICTS) * 2 * customers;
    let total = items + u64::from(tpcc.warehouses) * of_warehouse;
    let mut loader = Loader { sink, tpcc, rng: Rng::from_seed(seed), rows: 0, done: 0, total, progress };
    loader.items()?;
    for warehouse in 1..=tpcc.warehouses {
        loader.warehouse(warehouse)?;
    }
    loader.commit()
}

struct Loader<'a, S> {
    sink: S,
    tpcc: &'a Tpcc,
    rng: Rng,
    /// Rows that are not committed yet.
    rows: u64,
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> Result<()>,
}

impl<S: Sink> Loader<'_, S> {
    fn put(&mut self, table: Table, warehouse: u16, key: &[u8], value: &[u8]) -> Result<()> {
        self.sink.put(table, warehouse, key, value)?;
        self.rows += 1;
        if self.rows >= CHUNK_ROWS { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        self.sink.commit()?;
        self.rows = 0;
        (self.progress)(self.done, self.total)
    }

    fn items(&mut self) -> Result<()> {
        let mut row = Writer::default();
        for number in 1..=self.tpcc.items {
            let rng = &mut self.rng;
            row.clear().fixed(within(rng, 100, 10_000) as i64).fixed(within(rng, 1, 10_000) as u32);
            row.text(&letters(rng, 14, 24)).text(&data(rng));
            self.put(Table::Item, 1, &item::key(number), row.as_bytes())?;
            self.done += 1;
        }
        Ok(())
    }

    fn warehouse(&mut self, w: u16) -> Result<()> {
        let payments = FIRST_PAYMENT * i64::from(self.tpcc.customers_per_district);
        let mut row = Writer::default();
        place(&mut row, &mut self.rng);
        self.put(Table::Warehouse, w, &warehouse::key(w), row.as_bytes())?;
        let payments = payments * i64::from(DISTRICTS);
        self.put(Table::Warehouse, w, &warehouse::ytd_key(w), &payments.to_le_bytes())?;
        for number in 1..=self.tpcc.items {
            let rng = &mut self.rng;
            row.clear().fixed(within(rng, 10, 100) as i32).fixed(0_u32).fixed(0_u32).fixed(0_u32);
            for _ in 1..=DISTRICTS {
                row.raw(&letters(rng, 24, 24));
            }
            row.text(&data(rng));
            self.put(Table::Stock, w, &stock::key(w, number), row.as_bytes())?;
            self.done += 1;
        }
        row.clear();
        for _ in 1..=DISTRICTS {
            row.fixed(self.tpcc.delivered_per_district() + 1);
        }
        self.put(Table::District, w, &district::oldest_key(w), row.as_bytes())?;
        (1..=DISTRICTS).try_for_each(|d| self.district(w, d))
    }

    fn district(&mut self, w: u16, d: u8) -> Result<()> {
        let customers = self.tpcc.customers_per_district;
        let mut row = Writer::default();
        place(&mut row, &mut self.rng);
        self.put(Table::District, w, &district::key(w, d), row.as_bytes())?;
        let payments = FIRST_PAYMENT * i64::from(customers);
        self.put(Table::District, w, &district::ytd_key(w, d), &payments.to_le_bytes())?;
        let next = u32::from(customers) + 1;
        self.put(Table::District, w, &district::next_order_key(w, d), &next.to_le_bytes())?;
        self.customers(w, d)?;
        let mut ordering: Vec<u16> = (1..=customers).collect();
        self.rng.shuffle(&mut ordering);
        ordering.iter().zip(1..).try_for_each(|(c, number)| self.order((w, d), *c, number))
    }

    fn customers(&mut self, w: u16, d: u8) -> Result<()> {
        let mut by_name = Vec::new();
        let (mut row, mut paid) = (Writer::default(), Writer::default());
        for c in 1..=self.tpcc.customers_per_district {
            let (key, rng) = (customer::key(w, d, c), &mut self.rng);
            let last = match c - 1 {
                name if name < LAST_NAMES => name,
                _ => Constants::of_load().last_name(rng, LAST_NAMES),
            };
            let (last, first) = (last_name(last), letters(rng, 8, 16));
            row.clear().fixed(-FIRST_PAYMENT).fixed(FIRST_PAYMENT).fixed(1_u32).fixed(0_u32);
            row.fixed(within(rng, 0, 5_000) as i64).fixed(5_000_000_i64).fixed(LOADED_AT);
            row.fixed(if rng.chance(10, 100) { BAD_CREDIT } else { *b"GC" }).fixed(*b"OE");
            row.text(&last).text(&first);
            address(rng).iter().for_each(|text| {
                row.text(text);
            });
            row.text(&digits(rng, 16));
            let about = letters(rng, 300, 500);
            paid.clear().fixed(LOADED_AT).fixed(FIRST_PAYMENT).text(&letters(rng, 12, 24));
            self.put(Table::Customer, w, &key, row.as_bytes())?;
            self.put(Table::CustomerData, w, &key, &about)?;
            self.put(Table::History, w, &history::key((w, d), &key, 1), paid.as_bytes())?;
            by_name.push((last, first, c));
            self.done += 1;
        }
        by_name.sort_unstable();
        for same in by_name.chunk_by(|(one, ..), (other, ..)| one == other) {
            let numbers: Vec<u8> = same.iter().flat_map(|(.., c)| c.to_le_bytes()).collect();
            self.put(Table::CustomerByName, w, &customer::name_key(w, d, &same[0].0), &numbers)?;
        }
        Ok(())
    }

    fn order(&mut self, (w, d): (u16, u8), c: u16, number: u32) -> Result<()> {
        let is_delivered = number <= self.tpcc.delivered_per_district();
        let lines = within(&mut self.rng, 5, 15) as u8;
        let carrier = if is_delivered { within(&mut self.rng, 1, 10) as u8 } else { 0 };
        let mut row = Writer::default();
        row.fixed(LOADED_AT).fixed(c).fixed(carrier).fixed(lines).fixed(1_u8);
        self.put(Table::Order, w, &order::key(w, d, number), row.as_bytes())?;
        let by_customer = order::customer_key(&customer::key(w, d, c), number);
        self.put(Table::OrderByCustomer, w, &by_customer, &[])?;
        if !is_delivered {
            self.put(Table::NewOrder, w, &new_order::key(w, d, number), &[])?;
        }
        for line in 1..=lines {
            let rng = &mut self.rng;
            let (delivered, amount) = match is_delivered {
                true => (LOADED_AT, 0),
                false => (0, within(rng, 1, 999_999) as i64),
            };
            row.clear().fixed(delivered).fixed(amount).fixed(within(rng, 1, self.tpcc.items.into()) as u32);
            row.fixed(w).fixed(5_u8).raw(&letters(rng, 24, 24));
            self.put(Table::OrderLine, w, &order_line::key(w, d, number, line), row.as_bytes())?;
        }
        self.done += 1;
        Ok(())
    }
}

/// The row of a warehouse or a district.
fn place(row: &mut Writer, rng: &mut Rng) {
    let (tax, name) = (within(rng, 0, 2_000) as i64, letters(rng, 6, 10));
    let [street_1, street_2, city, state, zip] = &address(rng);
    place_row(row, tax, [&name, street_1, street_2, city, state, zip]);
}

/// Two streets, a city, a state and a zip code.
fn address(rng: &mut Rng) -> [Vec<u8>; 5] {
    let [street_1, street_2, city] = std::array::from_fn(|_| letters(rng, 10, 20));
    let (state, zip) = (letters(rng, 2, 2), [&digits(rng, 4), &b"11111"[..]].concat());
    [street_1, street_2, city, state, zip]
}

/// I_DATA and S_DATA: one in ten has the mark of brands somewhere.
fn data(rng: &mut Rng) -> Vec<u8> {
    let mut data = letters(rng, 26, 50);
    if rng.chance(10, 100) {
        let place = rng.below((data.len() - ORIGINAL.len() + 1) as u64) as usize;
        data[place..place + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// A random a-string of clause 4.3.2.2.
fn letters(rng: &mut Rng, min: u64, max: u64) -> Vec<u8> {
    random(rng, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", min, max)
}

/// A random n-string of clause 4.3.2.2.
fn digits(rng: &mut Rng, length: u64) -> Vec<u8> {
    random(rng, b"0123456789", length, length)
}

fn random(rng: &mut Rng, from: &[u8], min: u64, max: u64) -> Vec<u8> {
    let length = within(rng, min, max) as usize;
    let mut text = Vec::with_capacity(length);
    while text.len() < length {
        // Four letters of 16 bits each: that they are not quite equally likely shows nowhere.
        let bits = rng.next_u64();
        let letters = (0..4).map(|letter| from[((bits >> (16 * letter)) as u16 as usize * from.len()) >> 16]);
        text.extend(letters.take(length - text.len()));
    }
    text
}

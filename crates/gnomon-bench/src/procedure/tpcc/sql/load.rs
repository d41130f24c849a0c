//! The tables on a server, and what is copied into them.
//!
//! Promises: the rows are those that [`fill`] makes; a chunk of them is a transaction with a COPY for each table. The
//! indexes beside the primary keys are made at the end.

use std::{
    fmt::{self, Display, Write as _},
    io::Write as _,
    str,
};

use postgres::Client;

use super::money::Money;
use crate::{
    procedure::{
        fields::{At, Reader},
        tpcc::{
            DISTRICTS, Table, Tpcc,
            load::{LOADED_AT, Sink, fill},
            rows::{customer, district, history, item, order, order_line, stock, warehouse},
            strings,
        },
    },
    store::{
        Result, StoreError,
        server::{TABLE_PREFIX, failed, not_begun, transact},
    },
};

/// [`LOADED_AT`] as SQL writes it.
const LOADED_AT_TEXT: &str = "2026-01-01 00:00:00+00";
/// NULL as COPY writes it.
const NULL: &str = "\\N";

/// The tables: their names without the prefix, and their columns and primary keys.
const TABLES: [(Table, &str, &str); 9] = [
    (
        Table::Item,
        "item",
        "i_id integer PRIMARY KEY, i_im_id integer NOT NULL, i_name varchar(24) NOT NULL, \
         i_price numeric(5,2) NOT NULL, i_data varchar(50) NOT NULL",
    ),
    (
        Table::Warehouse,
        "warehouse",
        "w_id integer PRIMARY KEY, w_name varchar(10) NOT NULL, w_street_1 varchar(20) NOT NULL, \
         w_street_2 varchar(20) NOT NULL, w_city varchar(20) NOT NULL, w_state char(2) NOT NULL, \
         w_zip char(9) NOT NULL, w_tax numeric(4,4) NOT NULL, w_ytd numeric(12,2) NOT NULL",
    ),
    (
        Table::District,
        "district",
        "d_w_id integer, d_id integer, d_name varchar(10) NOT NULL, d_street_1 varchar(20) NOT NULL, \
         d_street_2 varchar(20) NOT NULL, d_city varchar(20) NOT NULL, d_state char(2) NOT NULL, \
         d_zip char(9) NOT NULL, d_tax numeric(4,4) NOT NULL, d_ytd numeric(12,2) NOT NULL, \
         d_next_o_id integer NOT NULL, PRIMARY KEY (d_w_id, d_id)",
    ),
    (
        Table::Customer,
        "customer",
        "c_w_id integer, c_d_id integer, c_id integer, c_last varchar(16) NOT NULL, \
         c_first varchar(16) NOT NULL, c_street_1 varchar(20) NOT NULL, c_street_2 varchar(20) NOT NULL, \
         c_city varchar(20) NOT NULL, c_state char(2) NOT NULL, c_zip char(9) NOT NULL, \
         c_phone char(16) NOT NULL, c_middle char(2) NOT NULL, c_since timestamptz NOT NULL, \
         c_credit char(2) NOT NULL, c_credit_lim numeric(12,2) NOT NULL, c_discount numeric(4,4) NOT NULL, \
         c_balance numeric(12,2) NOT NULL, c_ytd_payment numeric(12,2) NOT NULL, \
         c_payment_cnt integer NOT NULL, c_delivery_cnt integer NOT NULL, c_data varchar(500) NOT NULL, \
         PRIMARY KEY (c_w_id, c_d_id, c_id)",
    ),
    (
        Table::History,
        "history",
        "h_w_id integer NOT NULL, h_d_id integer NOT NULL, h_c_w_id integer NOT NULL, \
         h_c_d_id integer NOT NULL, h_c_id integer NOT NULL, h_date timestamptz NOT NULL, \
         h_amount numeric(6,2) NOT NULL, h_data varchar(24) NOT NULL",
    ),
    (
        Table::NewOrder,
        "new_order",
        "no_w_id integer, no_d_id integer, no_o_id integer, PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    ),
    (
        Table::Order,
        "orders",
        "o_w_id integer, o_d_id integer, o_id integer, o_c_id integer NOT NULL, \
         o_entry_d timestamptz NOT NULL, o_carrier_id integer, o_ol_cnt integer NOT NULL, \
         o_all_local integer NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id)",
    ),
    (
        Table::OrderLine,
        "order_line",
        "ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer NOT NULL, \
         ol_supply_w_id integer NOT NULL, ol_delivery_d timestamptz, ol_quantity integer NOT NULL, \
         ol_amount numeric(6,2) NOT NULL, ol_dist_info char(24) NOT NULL, \
         PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    ),
    (
        Table::Stock,
        "stock",
        "s_w_id integer, s_i_id integer, s_quantity integer NOT NULL, s_ytd integer NOT NULL, \
         s_order_cnt integer NOT NULL, s_remote_cnt integer NOT NULL, s_dist_01 char(24) NOT NULL, \
         s_dist_02 char(24) NOT NULL, s_dist_03 char(24) NOT NULL, s_dist_04 char(24) NOT NULL, \
         s_dist_05 char(24) NOT NULL, s_dist_06 char(24) NOT NULL, s_dist_07 char(24) NOT NULL, \
         s_dist_08 char(24) NOT NULL, s_dist_09 char(24) NOT NULL, s_dist_10 char(24) NOT NULL, \
         s_data varchar(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
    ),
];

/// The indexes beside the primary keys: their tables and columns.
const INDEXES: [(&str, &str); 2] =
    [("customer", "c_w_id, c_d_id, c_last, c_first"), ("orders", "o_w_id, o_d_id, o_c_id, o_id")];

/// Makes the tables anew and fills them. `progress` is told as by [`crate::procedure::tpcc::load()`].
///
/// # Errors
/// Those of `progress` and of the server.
pub(super) fn load(
    client: &mut Client,
    tpcc: &Tpcc,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    for (_, table, columns) in TABLES {
        let make = format!(
            "DROP TABLE IF EXISTS {TABLE_PREFIX}{table}; CREATE TABLE {TABLE_PREFIX}{table} ({columns})"
        );
        client.batch_execute(&make).map_err(not_begun("the tables are not made"))?;
    }
    fill(Copies { client, chunk: Default::default(), parts: Vec::new() }, tpcc, seed, progress)?;
    for (table, columns) in INDEXES {
        let make = format!("CREATE INDEX ON {TABLE_PREFIX}{table} ({columns})");
        client.batch_execute(&make).map_err(not_begun("the indexes are not made"))?;
    }
    for (_, table, _) in TABLES {
        // So that a server that plans by statistics has them from the beginning.
        client.batch_execute(&format!("ANALYZE {TABLE_PREFIX}{table}")).map_err(failed)?;
    }
    Ok(())
}

/// Rows on their way to the server.
struct Copies<'a> {
    client: &'a mut Client,
    /// The lines for each of [`TABLES`].
    chunk: [String; TABLES.len()],
    /// The first parts of a row whose columns come under several keys.
    parts: Vec<Vec<u8>>,
}

impl AsMut<Client> for Copies<'_> {
    fn as_mut(&mut self) -> &mut Client {
        self.client
    }
}

impl Sink for Copies<'_> {
    fn put(&mut self, table: Table, _: u16, key: &[u8], value: &[u8]) -> Result<()> {
        let parts_before = match table {
            Table::Warehouse | Table::CustomerData => 1,
            Table::District => 2,
            _ => 0,
        };
        let is_index = matches!(table, Table::CustomerByName | Table::OrderByCustomer)
            || (table == Table::District && key.len() == district::oldest_key(0).len());
        if is_index {
            return Ok(());
        }
        if table == Table::Customer || self.parts.len() < parts_before {
            self.parts.push(value.into());
            return Ok(());
        }
        let parts = std::mem::take(&mut self.parts);
        let table = if table == Table::CustomerData { Table::Customer } else { table };
        let place = TABLES.iter().position(|(of, ..)| *of == table);
        let place = place.ok_or_else(|| StoreError::unexpected("a row is of no table"))?;
        let mut line = Line { text: &mut self.chunk[place], separator: "" };
        write_line(&mut line, table, key, &parts, value)?;
        line.text.push('\n');
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        transact(self, "BEGIN", |copies| {
            for ((_, table, _), lines) in TABLES.iter().zip(&mut copies.chunk) {
                if lines.is_empty() {
                    continue;
                }
                let copy = format!("COPY {TABLE_PREFIX}{table} FROM STDIN");
                let mut input = copies.client.copy_in(&copy).map_err(failed)?;
                input.write_all(lines.as_bytes()).map_err(|error| StoreError::Failed(error.into()))?;
                input.finish().map_err(failed)?;
                lines.clear();
            }
            Ok(())
        })
    }
}

/// A line for COPY. No text has anything that COPY would take for its own.
struct Line<'a> {
    text: &'a mut String,
    separator: &'static str,
}

impl Line<'_> {
    fn field(&mut self, value: impl Display) -> &mut Self {
        let _ = write!(self.text, "{}{value}", self.separator);
        self.separator = "\t";
        self
    }

    fn fields(&mut self, values: impl IntoIterator<Item = impl Display>) -> &mut Self {
        for value in values {
            self.field(value);
        }
        self
    }
}

/// Writes the columns of a row, in the order of [`TABLES`]. Some come in parts, of which `value` is the last.
fn write_line(line: &mut Line<'_>, table: Table, key: &[u8], parts: &[Vec<u8>], value: &[u8]) -> Result<()> {
    let texts = |row, at| Reader::at(row, at);
    match table {
        Table::Item => {
            let [name, data] = strings(&mut texts(value, item::TEXTS)?)?;
            line.fields(numbers(key, [4])?).field(item::IMAGE.get(value)?);
            line.field(name).field(Money(item::PRICE.get(value)?)).field(data);
        }
        Table::Warehouse => {
            let place: [String; 6] = strings(&mut texts(&parts[0], warehouse::TEXTS)?)?;
            let [w, _] = numbers(key, [2, 1])?;
            line.field(w).fields(place).field(Rate(warehouse::TAX.get(&parts[0])?));
            line.field(Money(SUM.get(value)?));
        }
        Table::District => {
            let place: [String; 6] = strings(&mut texts(&parts[0], district::TEXTS)?)?;
            let [w, d, _] = numbers(key, [2, 1, 1])?;
            line.field(w).field(d).fields(place).field(Rate(district::TAX.get(&parts[0])?));
            line.field(Money(SUM.get(&parts[1])?)).field(district::NEXT_ORDER.get(value)?);
        }
        Table::Customer => {
            let row = &parts[0];
            let about: [String; 8] = strings(&mut texts(row, customer::TEXTS)?)?;
            line.fields(numbers(key, [2, 1, 2])?).fields(about).field(ascii(&customer::MIDDLE.get(row)?)?);
            line.field(date(customer::SINCE.get(row)?)).field(ascii(&customer::CREDIT.get(row)?)?);
            line.field(Money(customer::CREDIT_LIMIT.get(row)?)).field(Rate(customer::DISCOUNT.get(row)?));
            line.field(Money(customer::BALANCE.get(row)?)).field(Money(customer::YTD_PAYMENT.get(row)?));
            line.field(customer::PAYMENT_COUNT.get(row)?).field(customer::DELIVERY_COUNT.get(row)?);
            line.field(ascii(value)?);
        }
        Table::History => {
            let [data] = strings(&mut texts(value, history::AMOUNT.end())?)?;
            let [w, d, of_w, of_d, c, _] = numbers(key, [2, 1, 2, 1, 2, 4])?;
            line.fields([w, d, of_w, of_d, c]).field(date(history::DATE.get(value)?));
            line.field(Money(history::AMOUNT.get(value)?)).field(data);
        }
        Table::NewOrder => {
            line.fields(numbers(key, [2, 1, 4])?);
        }
        Table::Order => {
            line.fields(numbers(key, [2, 1, 4])?).field(order::CUSTOMER.get(value)?);
            line.field(date(order::ENTERED.get(value)?));
            match order::CARRIER.get(value)? {
                0 => line.field(NULL),
                carrier => line.field(carrier),
            };
            line.field(order::LINES.get(value)?).field(order::ALL_LOCAL.get(value)?);
        }
        Table::OrderLine => {
            line.fields(numbers(key, [2, 1, 4, 1])?).field(order_line::ITEM.get(value)?);
            line.field(order_line::SUPPLY.get(value)?).field(date(order_line::DELIVERED.get(value)?));
            line.field(order_line::QUANTITY.get(value)?).field(Money(order_line::AMOUNT.get(value)?));
            line.field(ascii(&order_line::DISTRICT_INFO.get(value)?)?);
        }
        Table::Stock => {
            let [data] = strings(&mut texts(value, stock::TEXTS)?)?;
            line.fields(numbers(key, [2, 4])?).field(stock::QUANTITY.get(value)?);
            line.field(stock::YTD.get(value)?);
            line.field(stock::ORDER_COUNT.get(value)?).field(stock::REMOTE_COUNT.get(value)?);
            for d in 0..DISTRICTS {
                line.field(ascii(&stock::DISTRICT_INFO.skip(d.into()).get(value)?)?);
            }
            line.field(data);
        }
        Table::CustomerData | Table::CustomerByName | Table::OrderByCustomer => {}
    }
    Ok(())
}

/// The value of the key of a sum.
const SUM: At<i64> = At::first();

/// A rate in ten-thousandths.
struct Rate(i64);

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

/// The date of whatever is loaded; zero stands for NULL.
fn date(date: i64) -> &'static str {
    debug_assert!([0, LOADED_AT].contains(&date));
    if date == 0 { NULL } else { LOADED_AT_TEXT }
}

/// The numbers of a key, which have so many bytes each.
fn numbers<const N: usize>(key: &[u8], widths: [usize; N]) -> Result<[u64; N]> {
    let mut rest = key;
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let (bytes, behind) =
            rest.split_at_checked(width).ok_or_else(|| StoreError::unexpected("a key is cut short"))?;
        *number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        rest = behind;
    }
    Ok(numbers)
}

fn ascii(text: &[u8]) -> Result<&str> {
    str::from_utf8(text).map_err(|error| StoreError::Failed(error.into()))
}

//! The tables: their keys and their rows as bytes.
//!
//! Keys are numbers, big-endian, so that a range of orders or order lines is a range of keys. Rows have fields of fixed
//! width in front and texts behind them. What is part of a key is not in the row.

use crate::procedure::fields::{At, Writer};

/// Last names are made of three syllables of ten.
pub const LAST_NAMES: u16 = 1000;
/// The most lines of an order.
pub const LINES_MAX: usize = 15;
/// The longest C_DATA.
pub const CUSTOMER_DATA_BYTES_MAX: usize = 500;

/// A tree of each partition, but for ITEM, which is one tree for all. Its number is its place among a partition's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// ITEM.
    Item,
    /// WAREHOUSE, and W_YTD under a key of its own.
    Warehouse,
    /// DISTRICT, with D_YTD and D_NEXT_O_ID under keys of their own, and the index of the oldest new orders.
    District,
    /// CUSTOMER without C_DATA.
    Customer,
    /// C_DATA.
    CustomerData,
    /// The numbers of the customers with a last name, by first name.
    CustomerByName,
    /// HISTORY.
    History,
    /// NEW-ORDER.
    NewOrder,
    /// ORDER.
    Order,
    /// Orders by customer, the newest first.
    OrderByCustomer,
    /// ORDER-LINE.
    OrderLine,
    /// STOCK.
    Stock,
}

impl Table {
    /// Those that each partition has, in the order in which they are made.
    pub const PARTITIONED: [Table; 11] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::CustomerData,
        Table::CustomerByName,
        Table::History,
        Table::NewOrder,
        Table::Order,
        Table::OrderByCustomer,
        Table::OrderLine,
        Table::Stock,
    ];
}

/// Puts parts of a key behind each other, and zeros behind these.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut key = [0; N];
    let mut end = 0;
    for part in parts {
        key[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    key
}

/// ITEM.
pub mod item {
    use super::*;

    /// I_PRICE
    pub const PRICE: At<i64> = At::first();
    /// I_IM_ID
    pub const IMAGE: At<u32> = PRICE.then();
    /// I_NAME, I_DATA
    pub const TEXTS: usize = IMAGE.end();

    /// I_ID
    pub fn key(item: u32) -> [u8; 4] {
        item.to_be_bytes()
    }
}

/// WAREHOUSE.
pub mod warehouse {
    use super::*;

    /// W_TAX
    pub const TAX: At<i64> = At::first();
    /// W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP
    pub const TEXTS: usize = TAX.end();

    /// W_ID
    pub fn key(warehouse: u16) -> [u8; 2] {
        warehouse.to_be_bytes()
    }

    /// The key of W_YTD, a number of 8 bytes.
    pub fn ytd_key(warehouse: u16) -> [u8; 3] {
        joined(&[&key(warehouse)])
    }
}

/// DISTRICT.
pub mod district {
    use super::*;

    /// D_TAX
    pub const TAX: At<i64> = At::first();
    /// D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP
    pub const TEXTS: usize = TAX.end();
    /// D_NEXT_O_ID, all that is under its key.
    pub const NEXT_ORDER: At<u32> = At::first();
    /// In the index of the oldest new orders, that of the first district; those of the others are behind it.
    pub const OLDEST: At<u32> = At::first();

    /// D_W_ID, D_ID
    pub fn key(warehouse: u16, district: u8) -> [u8; 3] {
        joined(&[&warehouse.to_be_bytes(), &[district]])
    }

    /// In the index of the oldest new orders: the warehouse. The value is the smallest NO_O_ID of each of its
    /// districts, or that of the next new order if there is none.
    pub fn oldest_key(warehouse: u16) -> [u8; 2] {
        warehouse.to_be_bytes()
    }

    /// The key of D_YTD, a number of 8 bytes.
    pub fn ytd_key(warehouse: u16, district: u8) -> [u8; 4] {
        joined(&[&key(warehouse, district)])
    }

    /// The key of D_NEXT_O_ID.
    pub fn next_order_key(warehouse: u16, district: u8) -> [u8; 4] {
        joined(&[&key(warehouse, district), &[1]])
    }
}

/// CUSTOMER.
pub mod customer {
    use super::*;

    /// C_BALANCE
    pub const BALANCE: At<i64> = At::first();
    /// C_YTD_PAYMENT
    pub const YTD_PAYMENT: At<i64> = BALANCE.then();
    /// C_PAYMENT_CNT
    pub const PAYMENT_COUNT: At<u32> = YTD_PAYMENT.then();
    /// C_DELIVERY_CNT
    pub const DELIVERY_COUNT: At<u32> = PAYMENT_COUNT.then();
    /// C_DISCOUNT
    pub const DISCOUNT: At<i64> = DELIVERY_COUNT.then();
    /// C_CREDIT_LIM
    pub const CREDIT_LIMIT: At<i64> = DISCOUNT.then();
    /// C_SINCE
    pub const SINCE: At<i64> = CREDIT_LIMIT.then();
    /// C_CREDIT
    pub const CREDIT: At<[u8; 2]> = SINCE.then();
    /// C_MIDDLE
    pub const MIDDLE: At<[u8; 2]> = CREDIT.then();
    /// C_LAST, C_FIRST, C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP, C_PHONE
    pub const TEXTS: usize = MIDDLE.end();

    /// C_W_ID, C_D_ID, C_ID; C_DATA has the same key in its own tree.
    pub fn key(warehouse: u16, district: u8, customer: u16) -> [u8; 5] {
        joined(&[&district::key(warehouse, district), &customer.to_be_bytes()])
    }

    /// In the index: C_W_ID, C_D_ID, C_LAST. The value is the numbers of customers (2 bytes each, little-endian).
    pub fn name_key(warehouse: u16, district: u8, last: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(3 + last.len());
        key.extend(district::key(warehouse, district));
        key.extend_from_slice(last);
        key
    }
}

/// HISTORY.
pub mod history {
    use super::*;

    /// H_DATE
    pub const DATE: At<i64> = At::first();
    /// H_AMOUNT
    pub const AMOUNT: At<i64> = DATE.then();

    /// H_W_ID, H_D_ID, H_C_W_ID, H_C_D_ID, H_C_ID, and C_PAYMENT_CNT after the payment.
    pub fn key(paid_at: (u16, u8), customer: &[u8; 5], payment: u32) -> [u8; 12] {
        joined(&[&district::key(paid_at.0, paid_at.1), customer, &payment.to_be_bytes()])
    }
}

/// NEW-ORDER; its rows are empty.
pub mod new_order {
    /// NO_W_ID, NO_D_ID, NO_O_ID
    pub fn key(warehouse: u16, district: u8, order: u32) -> [u8; 7] {
        super::order::key(warehouse, district, order)
    }
}

/// ORDER.
pub mod order {
    use super::*;

    /// O_ENTRY_D
    pub const ENTERED: At<i64> = At::first();
    /// O_C_ID
    pub const CUSTOMER: At<u16> = ENTERED.then();
    /// O_CARRIER_ID; zero stands for null.
    pub const CARRIER: At<u8> = CUSTOMER.then();
    /// O_OL_CNT
    pub const LINES: At<u8> = CARRIER.then();
    /// O_ALL_LOCAL
    pub const ALL_LOCAL: At<u8> = LINES.then();
    /// How long a row is.
    pub const BYTES: usize = ALL_LOCAL.end();

    /// O_W_ID, O_D_ID, O_ID
    pub fn key(warehouse: u16, district: u8, order: u32) -> [u8; 7] {
        joined(&[&district::key(warehouse, district), &order.to_be_bytes()])
    }

    /// In the index: O_W_ID, O_D_ID, O_C_ID, and O_ID so that the newest comes first.
    pub fn customer_key(customer: &[u8; 5], order: u32) -> [u8; 9] {
        joined(&[customer, &(!order).to_be_bytes()])
    }
}

/// ORDER-LINE.
pub mod order_line {
    use super::*;

    /// OL_DELIVERY_D; zero stands for null.
    pub const DELIVERED: At<i64> = At::first();
    /// OL_AMOUNT
    pub const AMOUNT: At<i64> = DELIVERED.then();
    /// OL_I_ID
    pub const ITEM: At<u32> = AMOUNT.then();
    /// OL_SUPPLY_W_ID
    pub const SUPPLY: At<u16> = ITEM.then();
    /// OL_QUANTITY
    pub const QUANTITY: At<u8> = SUPPLY.then();
    /// OL_DIST_INFO
    pub const DISTRICT_INFO: At<[u8; 24]> = QUANTITY.then();
    /// How long a row is.
    pub const BYTES: usize = DISTRICT_INFO.end();

    /// OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER
    pub fn key(warehouse: u16, district: u8, order: u32, number: u8) -> [u8; 8] {
        joined(&[&super::order::key(warehouse, district, order), &[number]])
    }
}

/// STOCK.
pub mod stock {
    use super::*;

    /// S_QUANTITY
    pub const QUANTITY: At<i32> = At::first();
    /// S_YTD
    pub const YTD: At<u32> = QUANTITY.then();
    /// S_ORDER_CNT
    pub const ORDER_COUNT: At<u32> = YTD.then();
    /// S_REMOTE_CNT
    pub const REMOTE_COUNT: At<u32> = ORDER_COUNT.then();
    /// S_DIST_01, with the others behind it.
    pub const DISTRICT_INFO: At<[u8; 24]> = REMOTE_COUNT.then();
    /// S_DATA
    pub const TEXTS: usize = DISTRICT_INFO.skip(9).end();

    /// S_W_ID, S_I_ID
    pub fn key(warehouse: u16, item: u32) -> [u8; 6] {
        joined(&[&warehouse.to_be_bytes(), &item.to_be_bytes()])
    }
}

/// The last name of a number below [`LAST_NAMES`] (clause 4.3.2.3).
pub fn last_name(number: u16) -> Vec<u8> {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    let [hundreds, tens, ones] =
        [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[usize::from(digit)]);
    [hundreds, tens, ones].concat()
}

/// A name and an address, as WAREHOUSE and DISTRICT have them, or a tax before them.
pub fn place_row(row: &mut Writer, tax: i64, texts: [&[u8]; 6]) {
    row.clear().fixed(tax);
    texts.into_iter().for_each(|text| {
        row.text(text);
    });
}

//! The five transactions as statements.
//!
//! Rows are locked in the same order everywhere: the customer, the district, the stock in the order of the items, and
//! the warehouse last, so that it is locked for the shortest time. Rows that are to be written are changed by the
//! statement that reads them, and counters and sums by additions.
//!
//! A payment adds to the sums of its district and its warehouse and reads their addresses. Where reads take no part in
//! the transaction's isolation (READ COMMITTED), these are two statements: the addition sees nothing of its row, so that
//! a server may let payments to the same warehouse run beside each other. At the other levels, a transaction that reads a row before or
//! after adding to it has seen the sum: there it is one statement.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use postgres::{
    Client, Row, Statement,
    types::{FromSql, ToSql},
};

use super::money::Money;
use crate::{
    isolation::Isolation,
    procedure::tpcc::{
        DISTRICTS, Kind,
        input::{
            CustomerBy, Delivery, NewOrder, OrderStatus, OrderedItem, Payment, StockLevel, middle,
            places_by_item,
        },
        procedures::BAD_CREDIT,
        rows::last_name,
    },
    store::{
        Result, StoreError,
        server::{TABLE_PREFIX as P, failed, transact},
    },
};

/// The statements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sql {
    CustomersByName,
    // New order.
    CustomerDiscount,
    TakeOrderNumber,
    InsertOrder,
    InsertNewOrder,
    Item,
    /// For a district.
    TakeStock(u8),
    InsertOrderLine,
    WarehouseTax,
    // Payment.
    PayCustomer,
    NoteOnCustomer,
    District,
    AddToDistrict,
    PayDistrict,
    Warehouse,
    AddToWarehouse,
    PayWarehouse,
    InsertHistory,
    // Order status.
    CustomerBalance,
    LastOrder,
    LinesOfOrder,
    // Delivery.
    OldestNewOrder,
    DeleteNewOrder,
    DeliverOrder,
    DeliverLines,
    DeliverToCustomer,
    // Stock level.
    NextOrder,
    LowStock,
}

const DISTRICT: &str = "d_name, d_street_1, d_street_2, d_city, d_state, d_zip";
const WAREHOUSE: &str = "w_name, w_street_1, w_street_2, w_city, w_state, w_zip";
const CUSTOMER_KEY: &str = "c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const DISTRICT_KEY: &str = "d_w_id = $1 AND d_id = $2";
const ORDER_KEY: &str = "o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
const NEW_ORDER_OF_DISTRICT: &str = "no_w_id = $1 AND no_d_id = $2";
const LINES_KEY: &str = "ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";

impl Sql {
    fn text(self) -> String {
        let add_to_district = format!("UPDATE {P}district SET d_ytd = d_ytd + $3 WHERE {DISTRICT_KEY}");
        let add_to_warehouse = format!("UPDATE {P}warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1");
        match self {
            Sql::CustomersByName => format!(
                "SELECT c_id FROM {P}customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
            ),
            Sql::CustomerDiscount => {
                format!("SELECT c_discount, c_last, c_credit FROM {P}customer WHERE {CUSTOMER_KEY}")
            }
            Sql::TakeOrderNumber => format!(
                "UPDATE {P}district SET d_next_o_id = d_next_o_id + 1 WHERE {DISTRICT_KEY} \
                 RETURNING d_next_o_id - 1, d_tax"
            ),
            Sql::InsertOrder => format!(
                "INSERT INTO {P}orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)"
            ),
            Sql::InsertNewOrder => {
                format!("INSERT INTO {P}new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)")
            }
            Sql::Item => format!("SELECT i_price, i_name, i_data FROM {P}item WHERE i_id = $1"),
            Sql::TakeStock(d) => format!(
                "UPDATE {P}stock SET \
                 s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, \
                 s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 \
                 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_{d:02}, s_quantity, s_data"
            ),
            Sql::InsertOrderLine => format!(
                "INSERT INTO {P}order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
                 ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            ),
            Sql::WarehouseTax => format!("SELECT w_tax FROM {P}warehouse WHERE w_id = $1"),
            Sql::PayCustomer => format!(
                "UPDATE {P}customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE {CUSTOMER_KEY} RETURNING c_credit, c_first, c_middle, \
                 c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, \
                 c_discount, c_balance"
            ),
            Sql::NoteOnCustomer => format!(
                "UPDATE {P}customer SET c_data = left($4 || c_data, 500) WHERE {CUSTOMER_KEY} \
                 RETURNING left(c_data, 200)"
            ),
            Sql::District => format!("SELECT {DISTRICT} FROM {P}district WHERE {DISTRICT_KEY}"),
            Sql::AddToDistrict => add_to_district,
            Sql::PayDistrict => format!("{add_to_district} RETURNING {DISTRICT}"),
            Sql::Warehouse => format!("SELECT {WAREHOUSE} FROM {P}warehouse WHERE w_id = $1"),
            Sql::AddToWarehouse => add_to_warehouse,
            Sql::PayWarehouse => format!("{add_to_warehouse} RETURNING {WAREHOUSE}"),
            Sql::InsertHistory => format!(
                "INSERT INTO {P}history (h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_date, h_amount, h_data) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            ),
            Sql::CustomerBalance => {
                format!("SELECT c_balance, c_first, c_middle, c_last FROM {P}customer WHERE {CUSTOMER_KEY}")
            }
            Sql::LastOrder => format!(
                "SELECT o_id, o_entry_d, o_carrier_id FROM {P}orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1"
            ),
            Sql::LinesOfOrder => format!(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM {P}order_line \
                 WHERE {LINES_KEY}"
            ),
            Sql::OldestNewOrder => format!(
                "SELECT no_o_id FROM {P}new_order WHERE {NEW_ORDER_OF_DISTRICT} ORDER BY no_o_id LIMIT 1 \
                 FOR UPDATE"
            ),
            Sql::DeleteNewOrder => {
                format!("DELETE FROM {P}new_order WHERE {NEW_ORDER_OF_DISTRICT} AND no_o_id = $3")
            }
            Sql::DeliverOrder => {
                format!("UPDATE {P}orders SET o_carrier_id = $4 WHERE {ORDER_KEY} RETURNING o_c_id")
            }
            Sql::DeliverLines => {
                format!("UPDATE {P}order_line SET ol_delivery_d = $4 WHERE {LINES_KEY} RETURNING ol_amount")
            }
            Sql::DeliverToCustomer => format!(
                "UPDATE {P}customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE {CUSTOMER_KEY}"
            ),
            Sql::NextOrder => format!("SELECT d_next_o_id FROM {P}district WHERE {DISTRICT_KEY}"),
            Sql::LowStock => format!(
                "SELECT count(DISTINCT s_i_id) FROM {P}order_line JOIN {P}stock \
                 ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 - 20 AND ol_o_id < $3 AND s_quantity < $4"
            ),
        }
    }
}

/// A connection, with the statements that were prepared on it.
pub(super) struct Session {
    client: Client,
    isolation: Isolation,
    statements: HashMap<Sql, Statement>,
}

impl AsMut<Client> for Session {
    fn as_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Session {
    pub(super) fn new(client: Client, isolation: Isolation) -> Session {
        Session { client, isolation, statements: HashMap::new() }
    }

    /// Runs a transaction, once. [`StoreError::Refused`] is an unused item.
    pub(super) fn run(&mut self, kind: Kind, params: &[u8]) -> Result<()> {
        let (isolation, access) = match kind {
            Kind::NewOrder | Kind::Payment | Kind::Delivery => (self.isolation, "READ WRITE"),
            Kind::OrderStatus => (self.isolation, "READ ONLY"),
            Kind::StockLevel => (Isolation::ReadCommitted, "READ ONLY"),
        };
        let begin = format!("BEGIN ISOLATION LEVEL {} {access}", isolation.sql());
        transact(self, &begin, |session| match kind {
            Kind::NewOrder => session.new_order(&NewOrder::decode(params)?),
            Kind::Payment => session.payment(&Payment::decode(params)?),
            Kind::OrderStatus => session.order_status(&OrderStatus::decode(params)?),
            Kind::Delivery => session.delivery(&Delivery::decode(params)?),
            Kind::StockLevel => session.stock_level(&StockLevel::decode(params)?),
        })
    }

    fn prepared(&mut self, sql: Sql) -> Result<Statement> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&sql.text()).map_err(failed)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn rows(&mut self, sql: Sql, params: Params<'_>) -> Result<Vec<Row>> {
        let statement = self.prepared(sql)?;
        self.client.query(&statement, params).map_err(failed)
    }

    fn row(&mut self, sql: Sql, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.rows(sql, params)?.into_iter().next())
    }

    /// The row of a key that is there.
    fn the_row(&mut self, sql: Sql, params: Params<'_>) -> Result<Row> {
        let row = self.row(sql, params)?;
        row.ok_or_else(|| StoreError::unexpected(format!("no row has what this asks for: {}", sql.text())))
    }

    /// Changes or inserts a single row.
    fn execute(&mut self, sql: Sql, params: Params<'_>) -> Result<()> {
        let statement = self.prepared(sql)?;
        match self.client.execute(&statement, params).map_err(failed)? {
            1 => Ok(()),
            rows => Err(StoreError::unexpected(format!("{rows} rows instead of one: {}", sql.text()))),
        }
    }

    /// Clause 2.4.2.
    fn new_order(&mut self, new: &NewOrder) -> Result<()> {
        let NewOrder { warehouse, district, customer, entered, ref items } = *new;
        let (w, d, c) = (i32::from(warehouse), i32::from(district), i32::from(customer));
        self.the_row(Sql::CustomerDiscount, &[&w, &d, &c])?;
        let number: i32 = column(&self.the_row(Sql::TakeOrderNumber, &[&w, &d])?)?;
        let lines = items.len() as i32;
        let is_all_local = i32::from(items.iter().all(|item| item.supply == warehouse));
        let order: Params<'_> = &[&w, &d, &number, &c, &time(entered), &lines, &is_all_local];
        self.execute(Sql::InsertOrder, order)?;
        self.execute(Sql::InsertNewOrder, &[&w, &d, &number])?;
        for place in places_by_item(items) {
            let OrderedItem { item, supply, quantity } = items[place];
            let (line, item, quantity) = (place as i32 + 1, item as i32, i32::from(quantity));
            let (is_remote, supply) = (i32::from(supply != warehouse), i32::from(supply));
            let Some(row) = self.row(Sql::Item, &[&item])? else { return Err(StoreError::Refused) };
            let Money(price) = column(&row)?;
            let amount = Money(price * i64::from(quantity));
            let row = self.the_row(Sql::TakeStock(district), &[&supply, &item, &quantity, &is_remote])?;
            let info: String = column(&row)?;
            let ordered: Params<'_> = &[&w, &d, &number, &line, &item, &supply, &quantity, &amount, &info];
            self.execute(Sql::InsertOrderLine, ordered)?;
        }
        self.the_row(Sql::WarehouseTax, &[&w])?;
        Ok(())
    }

    /// The number of a customer.
    fn number_of(&mut self, w: i32, d: i32, by: CustomerBy) -> Result<i32> {
        match by {
            CustomerBy::Id(number) => Ok(number.into()),
            CustomerBy::LastName(name) => {
                let name = String::from_utf8_lossy(&last_name(name)).into_owned();
                let rows = self.rows(Sql::CustomersByName, &[&w, &d, &name])?;
                let row = rows.get(middle(rows.len()));
                column(row.ok_or_else(|| StoreError::unexpected(format!("nobody is called {name}")))?)
            }
        }
    }

    /// Clause 2.5.2.
    fn payment(&mut self, paid: &Payment) -> Result<()> {
        let (w, d) = (i32::from(paid.warehouse), i32::from(paid.district));
        let (of_w, of_d) = (i32::from(paid.customer_warehouse), i32::from(paid.customer_district));
        let amount = Money(paid.amount.into());
        let c = self.number_of(of_w, of_d, paid.customer)?;
        let row = self.the_row(Sql::PayCustomer, &[&of_w, &of_d, &c, &amount])?;
        if column::<&str>(&row)?.as_bytes() == BAD_CREDIT {
            self.the_row(Sql::NoteOnCustomer, &[&of_w, &of_d, &c, &paid.note(c as u16)])?;
        }
        let (of_district, of_warehouse) = match self.isolation {
            Isolation::ReadCommitted => {
                let of_district = self.the_row(Sql::District, &[&w, &d])?;
                let of_warehouse = self.the_row(Sql::Warehouse, &[&w])?;
                self.execute(Sql::AddToDistrict, &[&w, &d, &amount])?;
                self.execute(Sql::AddToWarehouse, &[&w, &amount])?;
                (of_district, of_warehouse)
            }
            _ => (
                self.the_row(Sql::PayDistrict, &[&w, &d, &amount])?,
                self.the_row(Sql::PayWarehouse, &[&w, &amount])?,
            ),
        };
        let data = format!("{}    {}", column::<&str>(&of_warehouse)?, column::<&str>(&of_district)?);
        let history: Params<'_> = &[&w, &d, &of_w, &of_d, &c, &time(paid.date), &amount, &data];
        self.execute(Sql::InsertHistory, history)
    }

    /// Clause 2.6.2.
    fn order_status(&mut self, asked: &OrderStatus) -> Result<()> {
        let (w, d) = (i32::from(asked.warehouse), i32::from(asked.district));
        let c = self.number_of(w, d, asked.customer)?;
        self.the_row(Sql::CustomerBalance, &[&w, &d, &c])?;
        if let Some(order) = self.row(Sql::LastOrder, &[&w, &d, &c])? {
            let number: i32 = column(&order)?;
            self.rows(Sql::LinesOfOrder, &[&w, &d, &number])?;
        }
        Ok(())
    }

    /// Clause 2.7.4.
    fn delivery(&mut self, delivery: &Delivery) -> Result<()> {
        let (w, carrier) = (i32::from(delivery.warehouse), i32::from(delivery.carrier));
        for d in 1..=i32::from(DISTRICTS) {
            let Some(oldest) = self.row(Sql::OldestNewOrder, &[&w, &d])? else { continue };
            let number: i32 = column(&oldest)?;
            self.execute(Sql::DeleteNewOrder, &[&w, &d, &number])?;
            let c: i32 = column(&self.the_row(Sql::DeliverOrder, &[&w, &d, &number, &carrier])?)?;
            let lines = self.rows(Sql::DeliverLines, &[&w, &d, &number, &time(delivery.date)])?;
            let mut total = Money(0);
            for line in &lines {
                let Money(amount) = column(line)?;
                total.0 += amount;
            }
            self.execute(Sql::DeliverToCustomer, &[&w, &d, &c, &total])?;
        }
        Ok(())
    }

    /// Clause 2.8.2.
    fn stock_level(&mut self, asked: &StockLevel) -> Result<()> {
        let (w, d) = (i32::from(asked.warehouse), i32::from(asked.district));
        let next: i32 = column(&self.the_row(Sql::NextOrder, &[&w, &d])?)?;
        self.the_row(Sql::LowStock, &[&w, &d, &next, &i32::from(asked.threshold)])?;
        Ok(())
    }
}

/// The first column of a row; the others are what a terminal shows.
fn column<'a, T: FromSql<'a>>(row: &'a Row) -> Result<T> {
    row.try_get(0).map_err(failed)
}

/// A time in microseconds since 1970.
fn time(microseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(microseconds.unsigned_abs())
}

//! The five transactions as procedures, and what they answer.
//!
//! Promises: what a procedure reads and writes follows from its parameters and the database. Rows that are to be
//! written are locked for that when they are read; the stock of an order's items is locked in the order of the items,
//! whichever order they were entered in. Answers have what the terminal shows beside what was entered.
//!
//! A row is changed in the bytes that were read, and only the fields that are needed are decoded.

use std::{ops::Bound, time::Duration};

use gnomon_engine::{
    Applied, Call, Direction, Error, KeyRange, Partitions, Procedure, Result, TreeId, op::number,
};

use super::{
    DISTRICTS, Kind, Table, Tpcc,
    input::{
        CustomerBy, Delivery, NewOrder, OrderStatus, OrderedItem, Payment, StockLevel, middle, places_by_item,
    },
    partition,
    rows::{
        CUSTOMER_DATA_BYTES_MAX, LINES_MAX, customer, district, history, item, last_name, new_order, order,
        order_line, stock, warehouse,
    },
    tree_in,
};
use crate::procedure::{
    compute,
    fields::{Reader, Writer},
};

/// The text of the error that rolls back a new order with an unused item (clause 2.4.3.4).
const UNUSED_ITEM: &str = "Item number is not valid";
/// In I_DATA and S_DATA of brand items.
pub(super) const ORIGINAL: &[u8] = b"ORIGINAL";
/// C_CREDIT of customers with bad credit.
pub(super) const BAD_CREDIT: [u8; 2] = *b"BC";
/// The part of C_DATA that is shown.
const CUSTOMER_DATA_SHOWN_BYTES: usize = 200;
/// A stock level looks at so many orders.
const ORDERS_LOOKED_AT: u32 = 20;
/// So many rows are asked for at once, of many.
const PREFETCHED: usize = 16;
/// Rates are in ten-thousandths.
const RATE_ONE: i64 = 10_000;

/// True if an error is that of a new order that was to be rolled back because of an unused item. It counts as refused.
pub fn is_unused_item(error: &Error) -> bool {
    matches!(error, Error::Procedure(text) if **text == *UNUSED_ITEM)
}

/// The procedures that a database of the workload is to be opened with.
pub fn procedures(tpcc: &Tpcc) -> Vec<Procedure> {
    let (partitions, added) = (tpcc.partitions, Duration::from_micros(tpcc.compute_us.into()));
    // They write to other trees where there are other partitions, and other bytes where fields are encoded otherwise.
    let code = format!(
        "{partitions} {} {} {} {} {}",
        include_str!("mod.rs"),
        include_str!("procedures.rs"),
        include_str!("rows.rs"),
        include_str!("input.rs"),
        include_str!("../fields.rs")
    );
    let procedure = |kind: Kind, run: fn(&mut Call<'_>, u16, &[u8]) -> Result<Vec<u8>>| {
        Procedure::new(kind.name(), &code, move |call, params| {
            compute(added);
            run(call, partitions, params)
        })
        // Of parameters that are cut short the procedure tells.
        .with_partitions(move |params| kind.touched(params, partitions).unwrap_or(Partitions::All))
    };
    vec![
        procedure(Kind::NewOrder, new_order),
        procedure(Kind::Payment, payment),
        procedure(Kind::OrderStatus, order_status),
        procedure(Kind::Delivery, delivery),
        procedure(Kind::StockLevel, stock_level),
    ]
}

/// The trees of a partition.
#[derive(Clone, Copy)]
struct Trees(u16);

impl Trees {
    fn of(warehouse: u16, partitions: u16) -> Trees {
        Trees(partition(warehouse, partitions))
    }

    fn get(self, table: Table) -> TreeId {
        tree_in(table, self.0)
    }
}

/// A row that must be there.
fn found(row: Option<Vec<u8>>, what: &'static str) -> Result<Vec<u8>> {
    row.ok_or_else(|| Error::procedure(format!("there is no such {what}")))
}

fn get(call: &mut Call<'_>, tree: TreeId, key: &[u8], what: &'static str) -> Result<Vec<u8>> {
    found(call.get(tree, key)?, what)
}

fn get_for_update(call: &mut Call<'_>, tree: TreeId, key: &[u8], what: &'static str) -> Result<Vec<u8>> {
    found(call.get_for_update(tree, key)?, what)
}

/// Clause 2.4.2.
fn new_order(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> Result<Vec<u8>> {
    let NewOrder { warehouse: w, district: d, customer: c, entered, items } = NewOrder::decode(params)?;
    let trees = Trees::of(w, partitions);
    let warehouse_row = get(call, trees.get(Table::Warehouse), &warehouse::key(w), "warehouse")?;
    let district_row = get(call, trees.get(Table::District), &district::key(w, d), "district")?;
    let next_key = district::next_order_key(w, d);
    let mut next = get_for_update(call, trees.get(Table::District), &next_key, "district")?;
    let number = district::NEXT_ORDER.change(&mut next, |number| number + 1)? - 1;
    call.put(trees.get(Table::District), &next_key, &next)?;
    let customer_key = customer::key(w, d, c);
    let customer_row = get(call, trees.get(Table::Customer), &customer_key, "customer")?;

    let mut row = [0; order::BYTES];
    order::ENTERED.set(&mut row, entered)?;
    order::CUSTOMER.set(&mut row, c)?;
    order::LINES.set(&mut row, items.len() as u8)?;
    order::ALL_LOCAL.set(&mut row, items.iter().all(|item| item.supply == w).into())?;
    call.insert(trees.get(Table::Order), &order::key(w, d, number), &row)?;
    call.insert(trees.get(Table::OrderByCustomer), &order::customer_key(&customer_key, number), &[])?;
    call.insert(trees.get(Table::NewOrder), &new_order::key(w, d, number), &[])?;

    let by_item: Vec<usize> = places_by_item(&items).collect();
    prefetch_items(call, trees, partitions, by_item.iter().map(|place| &items[*place]))?;
    let mut lines = [const { None }; LINES_MAX];
    let mut total = 0;
    for place in by_item {
        let line = order_item(call, partitions, (w, d), &items[place])?;
        let mut row = [0; order_line::BYTES];
        order_line::AMOUNT.set(&mut row, line.amount)?;
        order_line::ITEM.set(&mut row, items[place].item)?;
        order_line::SUPPLY.set(&mut row, items[place].supply)?;
        order_line::QUANTITY.set(&mut row, items[place].quantity)?;
        order_line::DISTRICT_INFO.set(&mut row, line.district_info)?;
        call.insert(trees.get(Table::OrderLine), &order_line::key(w, d, number, place as u8 + 1), &row)?;
        total += line.amount;
        lines[place] = Some(line);
    }

    let discount = customer::DISCOUNT.get(&customer_row)?;
    let taxes = (warehouse::TAX.get(&warehouse_row)?, district::TAX.get(&district_row)?);
    let mut answer = Writer::with_capacity(64 + 44 * items.len());
    answer.fixed(number).fixed(discount).fixed(taxes.0).fixed(taxes.1);
    answer.fixed(with_rates(total, discount, taxes.0 + taxes.1));
    answer.fixed(customer::CREDIT.get(&customer_row)?);
    answer.text(Reader::at(&customer_row, customer::TEXTS)?.text()?);
    for line in lines.iter().flatten() {
        answer.text(Reader::at(&line.item_row, item::TEXTS)?.text()?);
        answer.fixed(line.stock).fixed(u8::from(line.is_brand)).fixed(line.price).fixed(line.amount);
    }
    Ok(answer.finish())
}

/// Tells that items are about to be ordered, in ascending order, at a warehouse with these trees.
fn prefetch_items<'a>(
    call: &mut Call<'_>,
    trees: Trees,
    partitions: u16,
    ordered: impl Iterator<Item = &'a OrderedItem> + Clone,
) -> Result<()> {
    let items: Vec<_> = ordered.clone().map(|ordered| item::key(ordered.item)).collect();
    call.prefetch(tree_in(Table::Item, 0), &items)?;
    let at_home = ordered.filter(|ordered| partition(ordered.supply, partitions) == trees.0);
    let stock: Vec<_> = at_home.map(|ordered| stock::key(ordered.supply, ordered.item)).collect();
    call.prefetch(trees.get(Table::Stock), &stock)
}

/// A line of an order that is being made.
struct OrderLine {
    item_row: Vec<u8>,
    district_info: [u8; 24],
    stock: i32,
    is_brand: bool,
    price: i64,
    amount: i64,
}

/// Takes an item from the stock.
fn order_item(
    call: &mut Call<'_>,
    partitions: u16,
    (w, d): (u16, u8),
    ordered: &OrderedItem,
) -> Result<OrderLine> {
    let &OrderedItem { item, supply, quantity } = ordered;
    let item_row = call.get(tree_in(Table::Item, 0), &item::key(item))?;
    let item_row = item_row.ok_or_else(|| Error::procedure(UNUSED_ITEM))?;
    let (tree, key) = (Trees::of(supply, partitions).get(Table::Stock), stock::key(supply, item));
    let mut row = get_for_update(call, tree, &key, "stock")?;
    let left = stock::QUANTITY.change(&mut row, |before| match before - i32::from(quantity) {
        left if left >= 10 => left,
        left => left + 91,
    })?;
    stock::YTD.change(&mut row, |ytd| ytd + u32::from(quantity))?;
    stock::ORDER_COUNT.change(&mut row, |order_count| order_count + 1)?;
    if supply != w {
        stock::REMOTE_COUNT.change(&mut row, |remote_count| remote_count + 1)?;
    }
    call.put(tree, &key, &row)?;
    let mut texts = Reader::at(&item_row, item::TEXTS)?;
    texts.text()?;
    let price = item::PRICE.get(&item_row)?;
    Ok(OrderLine {
        district_info: stock::DISTRICT_INFO
            .skip(usize::from(d.saturating_sub(1).min(DISTRICTS - 1)))
            .get(&row)?,
        stock: left,
        is_brand: is_original(texts.text()?) && is_original(Reader::at(&row, stock::TEXTS)?.text()?),
        price,
        amount: price * i64::from(quantity),
        item_row,
    })
}

fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

/// An amount with discount and tax, rounded.
fn with_rates(amount: i64, discount: i64, tax: i64) -> i64 {
    let one = i128::from(RATE_ONE * RATE_ONE);
    let amount = i128::from(amount) * i128::from(RATE_ONE - discount) * i128::from(RATE_ONE + tax);
    ((amount + one / 2) / one) as i64
}

/// The number of a customer. Of those with the same last name it is the one in the middle, by first name.
fn number_of(call: &mut Call<'_>, trees: Trees, (w, d): (u16, u8), by: CustomerBy) -> Result<u16> {
    match by {
        CustomerBy::Id(number) => Ok(number),
        CustomerBy::LastName(name) => {
            let key = customer::name_key(w, d, &last_name(name));
            let numbers = get(call, trees.get(Table::CustomerByName), &key, "last name")?;
            let (numbers, _) = numbers.as_chunks();
            let middle = numbers.get(middle(numbers.len()));
            middle
                .map(|number| u16::from_le_bytes(*number))
                .ok_or_else(|| Error::procedure("nobody has a last name that there is"))
        }
    }
}

/// Clause 2.5.2.
fn payment(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> Result<Vec<u8>> {
    let paid = Payment::decode(params)?;
    let (w, d, amount) = (paid.warehouse, paid.district, i64::from(paid.amount));
    let trees = Trees::of(w, partitions);
    let warehouse_row = get(call, trees.get(Table::Warehouse), &warehouse::key(w), "warehouse")?;
    let district_row = get(call, trees.get(Table::District), &district::key(w, d), "district")?;

    let of_customer = Trees::of(paid.customer_warehouse, partitions);
    let place = (paid.customer_warehouse, paid.customer_district);
    let c = number_of(call, of_customer, place, paid.customer)?;
    let customer_key = customer::key(place.0, place.1, c);
    let mut row = get_for_update(call, of_customer.get(Table::Customer), &customer_key, "customer")?;
    let count = customer::PAYMENT_COUNT.change(&mut row, |count| count + 1)?;
    customer::BALANCE.change(&mut row, |balance| balance - amount)?;
    customer::YTD_PAYMENT.change(&mut row, |ytd_payment| ytd_payment + amount)?;
    call.put(of_customer.get(Table::Customer), &customer_key, &row)?;
    let mut data = None;
    if customer::CREDIT.get(&row)? == BAD_CREDIT {
        let tree = of_customer.get(Table::CustomerData);
        let old = get_for_update(call, tree, &customer_key, "customer's data")?;
        let mut new = paid.note(c).into_bytes();
        new.extend_from_slice(&old);
        new.truncate(CUSTOMER_DATA_BYTES_MAX);
        call.put(tree, &customer_key, &new)?;
        new.truncate(CUSTOMER_DATA_SHOWN_BYTES);
        data = Some(new);
    }

    let warehouse_texts = Reader::at(&warehouse_row, warehouse::TEXTS)?;
    let district_texts = Reader::at(&district_row, district::TEXTS)?;
    let (mut warehouse_address, mut district_address) = (warehouse_texts, district_texts);
    let (warehouse_name, district_name) = (warehouse_address.text()?, district_address.text()?);
    let mut new = Writer::with_capacity(48);
    new.fixed(paid.date).fixed(amount);
    new.fixed((warehouse_name.len() + 4 + district_name.len()) as u8);
    new.raw(warehouse_name).raw(b"    ").raw(district_name);
    call.insert(trees.get(Table::History), &history::key((w, d), &customer_key, count), new.as_bytes())?;
    // Last, since these are what payments have in common.
    add(call, trees.get(Table::District), &district::ytd_key(w, d), amount)?;
    add(call, trees.get(Table::Warehouse), &warehouse::ytd_key(w), amount)?;

    let data = data.unwrap_or_default();
    let mut answer = Writer::with_capacity(320 + data.len());
    answer.fixed(c).raw(&row).raw(warehouse_address.rest()).raw(district_address.rest()).text(&data);
    Ok(answer.finish())
}

/// Adds to a sum of the year, which no transaction reads.
fn add(call: &mut Call<'_>, tree: TreeId, key: &[u8], amount: i64) -> Result<()> {
    match call.apply(tree, key, &number::add(amount.into()))? {
        Applied::Done => Ok(()),
        Applied::Absent | Applied::Refused(_) => {
            Err(Error::procedure("a sum of the year cannot be added to"))
        }
    }
}

/// Clause 2.6.2.
fn order_status(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> Result<Vec<u8>> {
    let OrderStatus { warehouse: w, district: d, customer: by } = OrderStatus::decode(params)?;
    let trees = Trees::of(w, partitions);
    let c = number_of(call, trees, (w, d), by)?;
    let customer_key = customer::key(w, d, c);
    let row = get(call, trees.get(Table::Customer), &customer_key, "customer")?;
    let mut answer = Writer::with_capacity(64 + 24 * LINES_MAX);
    let mut names = Reader::at(&row, customer::TEXTS)?;
    answer.fixed(c).fixed(customer::BALANCE.get(&row)?).fixed(customer::MIDDLE.get(&row)?);
    answer.text(names.text()?).text(names.text()?);

    let range = KeyRange::prefix(&customer_key);
    let mut newest = call.scan(trees.get(Table::OrderByCustomer), range, Direction::Forward)?;
    if let Some((key, _)) = call.next(&mut newest)? {
        let number = key.last_chunk().map(|number| !u32::from_be_bytes(*number));
        let number = number.ok_or_else(|| Error::procedure("a key of the index of orders is cut short"))?;
        let order_row = get(call, trees.get(Table::Order), &order::key(w, d, number), "order")?;
        answer.fixed(number).fixed(order::ENTERED.get(&order_row)?).fixed(order::CARRIER.get(&order_row)?);
        for line in 1..=order::LINES.get(&order_row)? {
            let key = order_line::key(w, d, number, line);
            let line = get(call, trees.get(Table::OrderLine), &key, "order line")?;
            answer.fixed(order_line::SUPPLY.get(&line)?).fixed(order_line::ITEM.get(&line)?);
            answer.fixed(order_line::QUANTITY.get(&line)?).fixed(order_line::AMOUNT.get(&line)?);
            answer.fixed(order_line::DELIVERED.get(&line)?);
        }
    }
    Ok(answer.finish())
}

/// Clause 2.7.4.
fn delivery(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> Result<Vec<u8>> {
    let Delivery { warehouse: w, carrier, date } = Delivery::decode(params)?;
    let trees = Trees::of(w, partitions);
    // It is locked from here on, so that there is one delivery at a time in a warehouse.
    let oldest_key = district::oldest_key(w);
    let mut oldest = get_for_update(call, trees.get(Table::District), &oldest_key, "warehouse")?;
    prefetch_orders(call, trees, w, &oldest)?;
    let mut answer = Writer::with_capacity(usize::from(DISTRICTS) * 4);
    for d in 1..=DISTRICTS {
        let of_district = district::OLDEST.skip(usize::from(d) - 1);
        let number = of_district.get(&oldest)?;
        let key = new_order::key(w, d, number);
        if !call.delete(trees.get(Table::NewOrder), &key)? {
            answer.fixed(0_u32);
            continue;
        }
        of_district.set(&mut oldest, number + 1)?;
        let mut order_row = get_for_update(call, trees.get(Table::Order), &key, "order")?;
        order::CARRIER.set(&mut order_row, carrier)?;
        call.put(trees.get(Table::Order), &key, &order_row)?;
        let mut total = 0;
        for line in 1..=order::LINES.get(&order_row)? {
            let key = order_line::key(w, d, number, line);
            let mut line = get_for_update(call, trees.get(Table::OrderLine), &key, "order line")?;
            order_line::DELIVERED.set(&mut line, date)?;
            total += order_line::AMOUNT.get(&line)?;
            call.put(trees.get(Table::OrderLine), &key, &line)?;
        }
        let customer_key = customer::key(w, d, order::CUSTOMER.get(&order_row)?);
        let mut row = get_for_update(call, trees.get(Table::Customer), &customer_key, "customer")?;
        customer::BALANCE.change(&mut row, |balance| balance + total)?;
        customer::DELIVERY_COUNT.change(&mut row, |delivery_count| delivery_count + 1)?;
        call.put(trees.get(Table::Customer), &customer_key, &row)?;
        answer.fixed(number);
    }
    call.put(trees.get(Table::District), &oldest_key, &oldest)?;
    Ok(answer.finish())
}

/// Tells that the oldest new order of each district of a warehouse is about to be delivered.
fn prefetch_orders(call: &mut Call<'_>, trees: Trees, w: u16, oldest: &[u8]) -> Result<()> {
    let (mut orders, mut lines) = (Vec::new(), Vec::new());
    for d in 1..=DISTRICTS {
        let number = district::OLDEST.skip(usize::from(d) - 1).get(oldest)?;
        orders.push(order::key(w, d, number));
        lines.push(order_line::key(w, d, number, 1));
    }
    call.prefetch(trees.get(Table::NewOrder), &orders)?;
    call.prefetch(trees.get(Table::Order), &orders)?;
    call.prefetch(trees.get(Table::OrderLine), &lines)
}

/// Clause 2.8.2.
fn stock_level(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> Result<Vec<u8>> {
    let StockLevel { warehouse: w, district: d, threshold } = StockLevel::decode(params)?;
    let trees = Trees::of(w, partitions);
    let next = get(call, trees.get(Table::District), &district::next_order_key(w, d), "district")?;
    let next = district::NEXT_ORDER.get(&next)?;
    let range = KeyRange {
        start: Bound::Included(order::key(w, d, next.saturating_sub(ORDERS_LOOKED_AT)).into()),
        end: Bound::Excluded(order::key(w, d, next).into()),
    };
    let mut lines = call.scan(trees.get(Table::OrderLine), range, Direction::Forward)?;
    let mut items = Vec::with_capacity(ORDERS_LOOKED_AT as usize * LINES_MAX);
    while let Some((_, line)) = call.next(&mut lines)? {
        items.push(order_line::ITEM.get(&line)?);
    }
    // New orders lock them in this order, too.
    items.sort_unstable();
    items.dedup();
    let mut low = 0_u32;
    for items in items.chunks(PREFETCHED) {
        let keys: Vec<_> = items.iter().map(|item| stock::key(w, *item)).collect();
        call.prefetch(trees.get(Table::Stock), &keys)?;
        for key in keys {
            let row = get(call, trees.get(Table::Stock), &key, "stock")?;
            low += u32::from(stock::QUANTITY.get(&row)? < i32::from(threshold));
        }
    }
    Ok(low.to_le_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_discount_and_taxes() {
        assert_eq!(with_rates(10_000, 0, 0), 10_000);
        assert_eq!(with_rates(10_000, 5_000, 0), 5_000);
        assert_eq!(with_rates(10_000, 1_000, 2_000), 10_800);
        assert_eq!((with_rates(1, 4_999, 0), with_rates(1, 5_001, 0)), (1, 0));
    }

    #[test]
    fn brands_are_told_by_their_data() {
        assert!(is_original(b"ORIGINAL") && is_original(b"xxORIGINALy"));
        assert!(!is_original(b"") && !is_original(b"ORIGINA") && !is_original(b"xxORIGINA"));
    }
}

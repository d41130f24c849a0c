//! The answers of the procedures, decoded: the output of terminals beside their input.

use gnomon_engine::Result;

use super::{DISTRICTS, OrderedItem, rows::customer, strings};
use crate::procedure::fields::Reader;

/// The answer to a new order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderAnswer {
    /// O_ID
    pub order: u32,
    /// C_DISCOUNT
    pub discount: i64,
    /// W_TAX
    pub warehouse_tax: i64,
    /// D_TAX
    pub district_tax: i64,
    /// The sum of the lines, with discount and taxes.
    pub total: i64,
    /// C_CREDIT
    pub credit: [u8; 2],
    /// C_LAST
    pub last_name: String,
    /// A line for each item that was ordered.
    pub lines: Vec<PricedLine>,
}

/// A line of [`NewOrderAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PricedLine {
    /// I_NAME
    pub name: String,
    /// S_QUANTITY
    pub stock: i32,
    /// True if it is brand and not generic.
    pub is_brand: bool,
    /// I_PRICE
    pub price: i64,
    /// OL_AMOUNT
    pub amount: i64,
}

impl NewOrderAnswer {
    /// Decodes it.
    ///
    /// # Errors
    /// It is cut short.
    pub fn decode(answer: &[u8]) -> Result<NewOrderAnswer> {
        let mut from = Reader::new(answer);
        let mut answer = NewOrderAnswer {
            order: from.fixed()?,
            discount: from.fixed()?,
            warehouse_tax: from.fixed()?,
            district_tax: from.fixed()?,
            total: from.fixed()?,
            credit: from.fixed()?,
            last_name: from.string()?,
            lines: Vec::new(),
        };
        while !from.rest().is_empty() {
            answer.lines.push(PricedLine {
                name: from.string()?,
                stock: from.fixed()?,
                is_brand: from.fixed::<u8>()? != 0,
                price: from.fixed()?,
                amount: from.fixed()?,
            });
        }
        Ok(answer)
    }
}

/// The answer to a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentAnswer {
    /// C_ID
    pub customer: u16,
    /// C_BALANCE
    pub balance: i64,
    /// C_DISCOUNT
    pub discount: i64,
    /// C_CREDIT_LIM
    pub credit_limit: i64,
    /// C_SINCE
    pub since: i64,
    /// C_CREDIT
    pub credit: [u8; 2],
    /// C_MIDDLE
    pub middle: [u8; 2],
    /// C_LAST
    pub last_name: String,
    /// C_FIRST, C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP, C_PHONE
    pub texts: [String; 7],
    /// W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP
    pub warehouse_address: [String; 5],
    /// D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP
    pub district_address: [String; 5],
    /// The beginning of C_DATA, of customers with bad credit.
    pub data: String,
}

impl PaymentAnswer {
    /// Decodes it.
    ///
    /// # Errors
    /// It is cut short or too long.
    pub fn decode(answer: &[u8]) -> Result<PaymentAnswer> {
        let mut from = Reader::new(answer);
        let number = from.fixed()?;
        let row = from.rest();
        let mut from = Reader::at(row, customer::TEXTS)?;
        let answer = PaymentAnswer {
            customer: number,
            balance: customer::BALANCE.get(row)?,
            discount: customer::DISCOUNT.get(row)?,
            credit_limit: customer::CREDIT_LIMIT.get(row)?,
            since: customer::SINCE.get(row)?,
            credit: customer::CREDIT.get(row)?,
            middle: customer::MIDDLE.get(row)?,
            last_name: from.string()?,
            texts: strings(&mut from)?,
            warehouse_address: strings(&mut from)?,
            district_address: strings(&mut from)?,
            data: from.string()?,
        };
        from.end().map(|()| answer)
    }
}

/// The answer to an order status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusAnswer {
    /// C_ID
    pub customer: u16,
    /// C_BALANCE
    pub balance: i64,
    /// C_MIDDLE
    pub middle: [u8; 2],
    /// C_LAST
    pub last_name: String,
    /// C_FIRST
    pub first_name: String,
    /// The last order, if the customer has any.
    pub order: Option<LastOrder>,
}

/// The order of [`OrderStatusAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOrder {
    /// O_ID
    pub order: u32,
    /// O_ENTRY_D
    pub entered: i64,
    /// O_CARRIER_ID; zero stands for null.
    pub carrier: u8,
    /// Its lines.
    pub lines: Vec<OrderedLine>,
}

/// A line of [`LastOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedLine {
    /// The item that was ordered.
    pub ordered: OrderedItem,
    /// OL_AMOUNT
    pub amount: i64,
    /// OL_DELIVERY_D; zero stands for null.
    pub delivered: i64,
}

impl OrderStatusAnswer {
    /// Decodes it.
    ///
    /// # Errors
    /// It is cut short.
    pub fn decode(answer: &[u8]) -> Result<OrderStatusAnswer> {
        let mut from = Reader::new(answer);
        let mut answer = OrderStatusAnswer {
            customer: from.fixed()?,
            balance: from.fixed()?,
            middle: from.fixed()?,
            last_name: from.string()?,
            first_name: from.string()?,
            order: None,
        };
        if !from.rest().is_empty() {
            let (order, entered, carrier) = (from.fixed()?, from.fixed()?, from.fixed()?);
            let mut lines = Vec::new();
            while !from.rest().is_empty() {
                let (supply, item, quantity) = (from.fixed()?, from.fixed()?, from.fixed()?);
                let ordered = OrderedItem { item, supply, quantity };
                lines.push(OrderedLine { ordered, amount: from.fixed()?, delivered: from.fixed()? });
            }
            answer.order = Some(LastOrder { order, entered, carrier, lines });
        }
        Ok(answer)
    }
}

/// The answer to a delivery: O_ID of the delivered order in each district, or zero if there was nothing to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered(pub [u32; DISTRICTS as usize]);

impl Delivered {
    /// Decodes it.
    ///
    /// # Errors
    /// It is cut short or too long.
    pub fn decode(answer: &[u8]) -> Result<Delivered> {
        let mut from = Reader::new(answer);
        let mut orders = [0; DISTRICTS as usize];
        for order in &mut orders {
            *order = from.fixed()?;
        }
        from.end().map(|()| Delivered(orders))
    }
}

/// Decodes the answer to a stock level: how many of the items that were ordered last have less than the threshold.
///
/// # Errors
/// It is cut short or too long.
pub fn stock_level_answer(answer: &[u8]) -> Result<u32> {
    let mut from = Reader::new(answer);
    let low = from.fixed()?;
    from.end().map(|()| low)
}

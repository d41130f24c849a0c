//! The input of terminals: the parameters of transactions, chosen as clauses 2.4.1 to 2.8.1 say, and their encoding.
//!
//! Promises: a seed repeats its transactions; parameters begin with the terminal's warehouse, have a few dozen bytes
//! (a new order 13, and 7 for each item), and whatever is cut short or too long is refused.

use gnomon_engine::{Error, Result, env::Rng};

use super::{
    DISTRICTS, Kind, Tpcc,
    rows::{LAST_NAMES, LINES_MAX},
};
use crate::procedure::fields::{At, Reader, Writer};

/// The C of NURand that last names were chosen with at the load.
const LAST_NAME_LOADED: u64 = 157;
/// The A of NURand for last names.
const A_LAST_NAME: u64 = 255;
/// That of customers.
const A_CUSTOMER: u64 = 1023;
/// That of items.
const A_ITEM: u64 = 8191;

/// The constants C of NURand (clause 2.1.6), one for each field that it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    last_name: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    /// Those of the load.
    pub(super) fn of_load() -> Constants {
        Constants { last_name: LAST_NAME_LOADED, customer: 0, item: 0 }
    }

    /// Those of a run. That of last names differs from the load's as clause 2.1.6.1 says.
    fn of_run(rng: &mut Rng) -> Constants {
        let last_name = loop {
            let constant = rng.below(A_LAST_NAME + 1);
            let delta = constant.abs_diff(LAST_NAME_LOADED);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break constant;
            }
        };
        Constants { last_name, customer: rng.below(A_CUSTOMER + 1), item: rng.below(A_ITEM + 1) }
    }

    /// The number of a last name, of so many.
    pub(super) fn last_name(&self, rng: &mut Rng, names: u16) -> u16 {
        nurand(rng, A_LAST_NAME, self.last_name, 0, u64::from(names.min(LAST_NAMES)) - 1) as u16
    }

    fn customer(&self, rng: &mut Rng, tpcc: &Tpcc) -> u16 {
        nurand(rng, A_CUSTOMER, self.customer, 1, tpcc.customers_per_district.into()) as u16
    }

    fn item(&self, rng: &mut Rng, tpcc: &Tpcc) -> u32 {
        nurand(rng, A_ITEM, self.item, 1, tpcc.items.into()) as u32
    }
}

/// NURand(A, x, y) of clause 2.1.6: a number within `x..=y`, some of which are hotter than others.
fn nurand(rng: &mut Rng, a: u64, c: u64, x: u64, y: u64) -> u64 {
    ((within(rng, 0, a) | within(rng, x, y)) + c) % (y - x + 1) + x
}

/// A number within `min..=max`, all equally likely.
pub(super) fn within(rng: &mut Rng, min: u64, max: u64) -> u64 {
    min + rng.below(max - min + 1)
}

/// A customer, as one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By C_ID.
    Id(u16),
    /// By C_LAST, which is given by its number below 1000: the one in the middle of those that share it.
    LastName(u16),
}

impl CustomerBy {
    /// 60 of 100 are named by their last names.
    fn choose(terminal: &mut Terminals) -> CustomerBy {
        let Terminals { tpcc, constants, rng, .. } = terminal;
        match rng.chance(60, 100) {
            true => CustomerBy::LastName(constants.last_name(rng, tpcc.last_names())),
            false => CustomerBy::Id(constants.customer(rng, tpcc)),
        }
    }

    fn encode(self, to: &mut Writer) {
        let (by, number) = match self {
            CustomerBy::Id(number) => (0_u8, number),
            CustomerBy::LastName(number) => (1, number),
        };
        to.fixed(by).fixed(number);
    }

    fn decode(from: &mut Reader<'_>) -> Result<CustomerBy> {
        match (from.fixed::<u8>()?, from.fixed()?) {
            (0, number) => Ok(CustomerBy::Id(number)),
            (1, number) if number < LAST_NAMES => Ok(CustomerBy::LastName(number)),
            _ => Err(Error::procedure("a customer is named by what is no number and no last name")),
        }
    }
}

/// The place of the one in the middle, of so many customers that share a last name.
pub(super) fn middle(count: usize) -> usize {
    count.div_ceil(2).saturating_sub(1)
}

/// The parameters of [`Kind::NewOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// W_ID
    pub warehouse: u16,
    /// D_ID
    pub district: u8,
    /// C_ID
    pub customer: u16,
    /// O_ENTRY_D
    pub entered: i64,
    /// The items that are ordered.
    pub items: Vec<OrderedItem>,
}

/// One item of a new order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderedItem {
    /// OL_I_ID; the unused number by which an order is rolled back is one above the last item.
    pub item: u32,
    /// OL_SUPPLY_W_ID
    pub supply: u16,
    /// OL_QUANTITY
    pub quantity: u8,
}

/// The places of ordered items in the order in which their stock is locked. An unused item has the largest number, so
/// that it comes last here, too, when all else is done.
pub(super) fn places_by_item(items: &[OrderedItem]) -> impl Iterator<Item = usize> {
    let mut places: [usize; LINES_MAX] = std::array::from_fn(|place| place);
    places[..items.len()].sort_unstable_by_key(|place| (items[*place].item, items[*place].supply));
    places.into_iter().take(items.len())
}

const ITEM: At<u32> = At::first();
/// Where an encoded item has its warehouse.
pub(super) const SUPPLY: At<u16> = ITEM.then();
const QUANTITY: At<u8> = SUPPLY.then();
const ITEM_BYTES: usize = QUANTITY.end();

impl NewOrder {
    /// Encodes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(13 + self.items.len() * ITEM_BYTES);
        to.fixed(self.warehouse).fixed(self.district).fixed(self.customer).fixed(self.entered);
        for item in &self.items {
            to.fixed(item.item).fixed(item.supply).fixed(item.quantity);
        }
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short, or there are too many items.
    pub fn decode(params: &[u8]) -> Result<NewOrder> {
        let (mut order, items) = NewOrder::split(params)?;
        order.items.reserve_exact(items.len());
        for item in items {
            order.items.push(OrderedItem {
                item: ITEM.get(item)?,
                supply: SUPPLY.get(item)?,
                quantity: QUANTITY.get(item)?,
            });
        }
        Ok(order)
    }

    /// Decodes them but for the items.
    pub(super) fn split(params: &[u8]) -> Result<(NewOrder, &[[u8; ITEM_BYTES]])> {
        let mut from = Reader::new(params);
        let order = NewOrder {
            warehouse: from.fixed()?,
            district: from.fixed()?,
            customer: from.fixed()?,
            entered: from.fixed()?,
            items: Vec::new(),
        };
        let (items, rest) = from.rest().as_chunks();
        match rest {
            [] if (1..=LINES_MAX).contains(&items.len()) => Ok((order, items)),
            _ => Err(Error::procedure("an order has from 1 to 15 items")),
        }
    }

    fn choose(terminal: &mut Terminals, now: i64) -> NewOrder {
        let Terminals { tpcc, constants, warehouse, rng, .. } = terminal;
        let district = within(rng, 1, DISTRICTS.into()) as u8;
        let customer = constants.customer(rng, tpcc);
        let count = within(rng, 5, LINES_MAX as u64) as usize;
        let is_rolled_back = rng.chance(1, 100);
        let items = (1..=count).map(|number| OrderedItem {
            item: match is_rolled_back && number == count {
                true => tpcc.items + 1,
                false => constants.item(rng, tpcc),
            },
            supply: match rng.chance(1, 100) {
                true => another(rng, *warehouse, tpcc.warehouses),
                false => *warehouse,
            },
            quantity: within(rng, 1, 10) as u8,
        });
        let items = items.collect();
        NewOrder { warehouse: *warehouse, district, customer, entered: now, items }
    }
}

/// Another warehouse, if there is one.
fn another(rng: &mut Rng, warehouse: u16, warehouses: u16) -> u16 {
    match warehouses {
        0..=1 => warehouse,
        _ => (u64::from(warehouse) + rng.below(u64::from(warehouses) - 1)) as u16 % warehouses + 1,
    }
}

/// The parameters of [`Kind::Payment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// W_ID
    pub warehouse: u16,
    /// D_ID
    pub district: u8,
    /// C_W_ID
    pub customer_warehouse: u16,
    /// C_D_ID
    pub customer_district: u8,
    /// C_ID or C_LAST
    pub customer: CustomerBy,
    /// H_AMOUNT
    pub amount: u32,
    /// H_DATE
    pub date: i64,
}

impl Payment {
    /// Encodes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(21);
        to.fixed(self.warehouse).fixed(self.district);
        to.fixed(self.customer_warehouse).fixed(self.customer_district);
        self.customer.encode(&mut to);
        to.fixed(self.amount).fixed(self.date);
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short or too long.
    pub fn decode(params: &[u8]) -> Result<Payment> {
        let mut from = Reader::new(params);
        let payment = Payment {
            warehouse: from.fixed()?,
            district: from.fixed()?,
            customer_warehouse: from.fixed()?,
            customer_district: from.fixed()?,
            customer: CustomerBy::decode(&mut from)?,
            amount: from.fixed()?,
            date: from.fixed()?,
        };
        from.end().map(|()| payment)
    }

    /// The text that is put before C_DATA of a customer with bad credit (clause 2.5.2.2).
    pub(super) fn note(&self, customer: u16) -> String {
        let Payment { warehouse, district, customer_warehouse, customer_district, amount, .. } = self;
        let (units, hundredths) = (amount / 100, amount % 100);
        format!(
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {units}.{hundredths:02} | "
        )
    }

    fn choose(terminal: &mut Terminals, now: i64) -> Payment {
        let Terminals { tpcc, warehouse, rng, .. } = terminal;
        let district = within(rng, 1, DISTRICTS.into()) as u8;
        let (customer_warehouse, customer_district) = match rng.chance(85, 100) {
            true => (*warehouse, district),
            false => (another(rng, *warehouse, tpcc.warehouses), within(rng, 1, DISTRICTS.into()) as u8),
        };
        let (warehouse, amount) = (*warehouse, within(rng, 100, 500_000) as u32);
        let customer = CustomerBy::choose(terminal);
        Payment { warehouse, district, customer_warehouse, customer_district, customer, amount, date: now }
    }
}

/// The parameters of [`Kind::OrderStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// W_ID
    pub warehouse: u16,
    /// D_ID
    pub district: u8,
    /// C_ID or C_LAST
    pub customer: CustomerBy,
}

impl OrderStatus {
    /// Encodes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(6);
        to.fixed(self.warehouse).fixed(self.district);
        self.customer.encode(&mut to);
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short or too long.
    pub fn decode(params: &[u8]) -> Result<OrderStatus> {
        let mut from = Reader::new(params);
        let (warehouse, district) = (from.fixed()?, from.fixed()?);
        let customer = CustomerBy::decode(&mut from)?;
        from.end().map(|()| OrderStatus { warehouse, district, customer })
    }

    fn choose(terminal: &mut Terminals) -> OrderStatus {
        let district = within(&mut terminal.rng, 1, DISTRICTS.into()) as u8;
        let customer = CustomerBy::choose(terminal);
        OrderStatus { warehouse: terminal.warehouse, district, customer }
    }
}

/// The parameters of [`Kind::Delivery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// W_ID
    pub warehouse: u16,
    /// O_CARRIER_ID
    pub carrier: u8,
    /// OL_DELIVERY_D, which is not zero.
    pub date: i64,
}

impl Delivery {
    /// Encodes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(11);
        to.fixed(self.warehouse).fixed(self.carrier).fixed(self.date);
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short, too long, or stand for no carrier or no date.
    pub fn decode(params: &[u8]) -> Result<Delivery> {
        let mut from = Reader::new(params);
        let delivery = Delivery { warehouse: from.fixed()?, carrier: from.fixed()?, date: from.fixed()? };
        match delivery {
            Delivery { carrier: 0, .. } | Delivery { date: 0, .. } => {
                Err(Error::procedure("a delivery has a carrier and a date"))
            }
            delivery => from.end().map(|()| delivery),
        }
    }

    fn choose(terminal: &mut Terminals, now: i64) -> Delivery {
        let carrier = within(&mut terminal.rng, 1, 10) as u8;
        Delivery { warehouse: terminal.warehouse, carrier, date: now }
    }
}

/// The parameters of [`Kind::StockLevel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// W_ID
    pub warehouse: u16,
    /// D_ID
    pub district: u8,
    /// An item with less than this is running out.
    pub threshold: u8,
}

impl StockLevel {
    /// Encodes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(4);
        to.fixed(self.warehouse).fixed(self.district).fixed(self.threshold);
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short or too long.
    pub fn decode(params: &[u8]) -> Result<StockLevel> {
        let mut from = Reader::new(params);
        let level =
            StockLevel { warehouse: from.fixed()?, district: from.fixed()?, threshold: from.fixed()? };
        from.end().map(|()| level)
    }

    fn choose(terminal: &mut Terminals) -> StockLevel {
        let threshold = within(&mut terminal.rng, 10, 20) as u8;
        StockLevel { warehouse: terminal.warehouse, district: terminal.district, threshold }
    }
}

/// The terminals of a client: choose transactions, one after another, each by a terminal that is drawn.
#[derive(Clone, Debug)]
pub struct Terminals {
    tpcc: Tpcc,
    constants: Constants,
    /// The number of the first one.
    first: usize,
    /// From one of them to the next: as many as there are clients.
    step: usize,
    count: usize,
    /// The warehouse of the one that chooses, and for stock levels its district.
    warehouse: u16,
    district: u8,
    rng: Rng,
}

impl Terminals {
    /// Lets another terminal choose. The warehouses take turns, and each gives its terminals other districts.
    fn draw(&mut self) {
        let number = self.first + self.step * self.rng.below(self.count as u64) as usize;
        let warehouses = usize::from(self.tpcc.warehouses);
        self.warehouse = (number % warehouses) as u16 + 1;
        self.district = (number / warehouses % usize::from(DISTRICTS)) as u8 + 1;
    }

    /// The next transaction: its kind, and its parameters. `now` is the time that it has.
    pub fn next(&mut self, now: i64) -> (Kind, Vec<u8>) {
        self.draw();
        let mut share = self.rng.below(100);
        let shares = Kind::ALL.into_iter().zip(self.tpcc.mix.0);
        for (kind, of_100) in shares {
            match share.checked_sub(of_100.into()) {
                Some(rest) => share = rest,
                None => return (kind, self.params(kind, now)),
            }
        }
        (Kind::NewOrder, self.params(Kind::NewOrder, now))
    }

    fn params(&mut self, kind: Kind, now: i64) -> Vec<u8> {
        match kind {
            Kind::NewOrder => NewOrder::choose(self, now).encode(),
            Kind::Payment => Payment::choose(self, now).encode(),
            Kind::OrderStatus => OrderStatus::choose(self).encode(),
            Kind::Delivery => Delivery::choose(self, now).encode(),
            Kind::StockLevel => StockLevel::choose(self).encode(),
        }
    }
}

/// The terminals of each of so many clients.
///
/// There are as many as warehouses and clients can share evenly, their least common multiple: all warehouses are used
/// alike. Clients take turns, so that one is at as few warehouses as that allows: at one, if there are a client or
/// several for each, and in one partition, if there are for each of these and the warehouses are shared out evenly.
pub fn terminals(tpcc: &Tpcc, clients: usize, seed: u64) -> Vec<Terminals> {
    let mut rng = Rng::from_seed(seed);
    let constants = Constants::of_run(&mut rng);
    let warehouses = usize::from(tpcc.warehouses);
    let of_client = |first| {
        let mut terminals = Terminals {
            tpcc: *tpcc,
            constants,
            first,
            step: clients,
            count: warehouses / common_divisor(clients, warehouses),
            warehouse: 0,
            district: 0,
            rng: Rng::from_seed(rng.next_u64()),
        };
        terminals.draw();
        terminals
    };
    (0..clients).map(of_client).collect()
}

/// The greatest common divisor.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedure::tpcc::Mix;
    use gnomon_engine::Partitions;

    fn terminal(warehouses: u16) -> Terminals {
        terminals(&Tpcc::new(warehouses, 4), 1, 1).remove(0)
    }

    #[test]
    fn parameters_come_back_and_others_are_refused() {
        let mut terminal = terminal(5);
        for round in 0..1000 {
            let now = 1 + (round << 40);
            let order = NewOrder::choose(&mut terminal, now);
            assert_eq!(NewOrder::decode(&order.encode()).unwrap(), order);
            assert_eq!(order.encode().len(), 13 + 7 * order.items.len());
            let payment = Payment::choose(&mut terminal, now);
            assert_eq!(Payment::decode(&payment.encode()).unwrap(), payment);
            let status = OrderStatus::choose(&mut terminal);
            assert_eq!(OrderStatus::decode(&status.encode()).unwrap(), status);
            let delivery = Delivery::choose(&mut terminal, now);
            assert_eq!(Delivery::decode(&delivery.encode()).unwrap(), delivery);
            let level = StockLevel::choose(&mut terminal);
            assert_eq!(StockLevel::decode(&level.encode()).unwrap(), level);
        }
        for kind in Kind::ALL {
            let params = terminal.params(kind, 1);
            let refuses = |params: &[u8]| match kind {
                Kind::NewOrder => NewOrder::decode(params).is_err(),
                Kind::Payment => Payment::decode(params).is_err(),
                Kind::OrderStatus => OrderStatus::decode(params).is_err(),
                Kind::Delivery => Delivery::decode(params).is_err(),
                Kind::StockLevel => StockLevel::decode(params).is_err(),
            };
            assert!(
                refuses(&params[..params.len() - 1]) && refuses(&[&params[..], &[0]].concat()),
                "{kind:?}"
            );
            assert!(refuses(&[]) && kind.touched(&[1], 4).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn numbers_are_spread_as_nurand_says() {
        let mut rng = Rng::from_seed(3);
        let mut counts = vec![0_u32; 3001];
        for _ in 0..300_000 {
            counts[nurand(&mut rng, A_CUSTOMER, 259, 1, 3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts.iter().filter(|count| **count > 0).count() > 2900);
        // The tenth of the numbers that is chosen most often gets far more than a tenth of the choices.
        counts.sort_unstable();
        let hot: u32 = counts[2701..].iter().sum();
        assert!((90_000..210_000).contains(&hot), "{hot}");
        for seed in 0..1000 {
            let constants = Constants::of_run(&mut Rng::from_seed(seed));
            let delta = constants.last_name.abs_diff(LAST_NAME_LOADED);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
        }
    }

    #[test]
    fn transactions_are_spread_as_the_benchmark_says() {
        let mut terminal = terminal(3);
        let (mut kinds, mut by_name, mut remote, mut several) = ([0_u32; 5], [0_u32; 2], 0, 0);
        let (mut lines, mut remote_lines, mut unused) = (0, 0, 0_usize);
        for _ in 0..100_000 {
            let (kind, params) = terminal.next(7);
            kinds[kind as usize] += 1;
            several += u32::from(matches!(kind.touched(&params, 3).unwrap(), Partitions::Several(_)));
            match kind {
                Kind::NewOrder => {
                    let order = NewOrder::decode(&params).unwrap();
                    lines += order.items.len();
                    remote_lines += order.items.iter().filter(|item| item.supply != order.warehouse).count();
                    let (last, others) = order.items.split_last().unwrap();
                    unused += usize::from(last.item == ITEMS_OF_TPCC + 1);
                    assert!(others.iter().all(|item| (1..=ITEMS_OF_TPCC).contains(&item.item)));
                    assert!(order.items.iter().all(|item| (1..=3).contains(&item.supply)));
                }
                Kind::Payment => {
                    let payment = Payment::decode(&params).unwrap();
                    by_name[0] += u32::from(matches!(payment.customer, CustomerBy::LastName(_)));
                    remote += u32::from(payment.customer_warehouse != payment.warehouse);
                }
                Kind::OrderStatus => {
                    let status = OrderStatus::decode(&params).unwrap();
                    by_name[1] += u32::from(matches!(status.customer, CustomerBy::LastName(_)));
                }
                Kind::Delivery | Kind::StockLevel => {}
            }
        }
        let share = |part: usize, all: usize| part as f64 / all as f64;
        let near = |share: f64, expected: f64| (share - expected).abs() < expected / 10.0;
        for (kind, expected) in kinds.into_iter().zip([0.45, 0.43, 0.04, 0.04, 0.04]) {
            assert!(near(share(kind as usize, 100_000), expected), "{kinds:?}");
        }
        let [orders, payments, statuses, ..] = kinds.map(|count| count as usize);
        assert!(near(share(lines, orders), 10.0) && near(share(remote_lines, lines), 0.01));
        assert!(near(share(unused, orders), 0.01), "{unused} of {orders}");
        assert!(
            near(share(by_name[0] as usize, payments), 0.6)
                && near(share(by_name[1] as usize, statuses), 0.6)
        );
        assert!(near(share(remote as usize, payments), 0.15));
        // About one order in ten has a remote line.
        assert!((6_000..12_500).contains(&several), "{several}");
    }

    #[test]
    fn clients_use_all_warehouses_alike_and_each_few() {
        for (clients, warehouses) in [(1, 8), (3, 8), (2, 8), (2, 3), (5, 2), (4, 2), (3, 3)] {
            let mut calls = vec![0_u32; warehouses];
            for mut terminals in terminals(&Tpcc::new(warehouses as u16, 1), clients, 9) {
                let mut of_client = vec![0_u32; warehouses];
                for now in 0..24_000 / clients {
                    let (_, params) = terminals.next(now as i64);
                    of_client[usize::from(At::<u16>::first().get(&params).unwrap()) - 1] += 1;
                }
                calls.iter_mut().zip(&of_client).for_each(|(all, one)| *all += one);
                let at = of_client.iter().filter(|calls| **calls > 0).count();
                assert_eq!(at, warehouses / common_divisor(clients, warehouses), "{clients} {of_client:?}");
            }
            let each = 24_000 / warehouses as u32;
            assert!(calls.iter().all(|calls| calls.abs_diff(each) < each / 10), "{clients} {calls:?}");
        }
        // With a client for each partition, each stays in its own.
        for (number, mut terminals) in terminals(&Tpcc::new(8, 2), 2, 9).into_iter().enumerate() {
            for now in 0..100 {
                let (_, params) = terminals.next(now);
                let touched = Kind::StockLevel.touched(&params, 2).unwrap();
                assert_eq!(touched, Partitions::One(number as u32));
            }
        }
    }

    const ITEMS_OF_TPCC: u32 = crate::procedure::tpcc::ITEMS;

    #[test]
    fn a_mix_is_five_shares() {
        assert_eq!("45/43/4/4/4".parse(), Ok(Mix::default()));
        for wrong in ["", "45/43/4/4", "45/43/4/4/5", "100/0/0/0/-0", "45/43/4/4/4/0", "a/43/4/4/4"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
        let mut terminal = terminal(1);
        terminal.tpcc.mix = Mix([0, 0, 0, 0, 100]);
        assert!((0..100).all(|_| terminal.next(1).0 == Kind::StockLevel));
    }

    #[test]
    fn a_seed_repeats_its_transactions() {
        let of = |seed| {
            let mut terminals = terminals(&Tpcc::new(3, 2), 2, seed);
            (0..100).map(|number| terminals[number % 2].next(number as i64)).collect::<Vec<_>>()
        };
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }
}

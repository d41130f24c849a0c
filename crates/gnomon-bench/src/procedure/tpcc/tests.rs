//! Loads, runs and damages small databases.

use gnomon_engine::{
    Database, Direction, Error, KeyRange, Options, Recovery, TxnOptions,
    disk::SimDisk,
    sync::{Arc, thread},
};

use super::{
    answers::{Delivered, NewOrderAnswer, OrderStatusAnswer, PaymentAnswer, stock_level_answer},
    check::{CONDITIONS, failures},
    rows::{customer, district, history, last_name, new_order, order, order_line, warehouse},
    *,
};
use crate::{procedure::fields::At, store::StoreError};

fn small(warehouses: u16, partitions: u16) -> Tpcc {
    Tpcc { customers_per_district: 30, items: 100, ..Tpcc::new(warehouses, partitions) }
}

fn options(tpcc: &Tpcc) -> Options {
    Options { procedures: procedures(tpcc), seed: Some(1), ..Options::default() }
}

fn loaded(tpcc: &Tpcc) -> Database {
    let db = Database::in_memory(options(tpcc)).unwrap();
    load(&db, tpcc, 1, &mut |_, _| Ok(())).unwrap();
    db
}

/// Runs transactions, and returns how many of a kind were committed and how many orders were rolled back.
fn run(db: &Database, terminal: &mut Terminals, count: i64) -> ([u64; 5], u64) {
    let (mut committed, mut rolled_back) = ([0; 5], 0);
    for number in 1..=count {
        let (kind, params) = terminal.next(number);
        match db.call(kind.name(), &params) {
            Ok(_) => committed[kind as usize] += 1,
            Err(error) if is_unused_item(&error) => rolled_back += 1,
            Err(error) => panic!("{kind:?}: {error}"),
        }
    }
    (committed, rolled_back)
}

fn dump(db: &Database, tpcc: &Tpcc) -> Vec<(TreeId, Vec<u8>, Vec<u8>)> {
    let mut txn = db.begin(TxnOptions { read_only: true, ..TxnOptions::default() }).unwrap();
    let trees = 1 + u64::from(tpcc.partitions) * Table::PARTITIONED.len() as u64;
    let mut rows = Vec::new();
    for tree in (1..=trees).map(TreeId) {
        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
        while let Some((key, value)) = cursor.next(&mut txn).unwrap() {
            rows.push((tree, key, value));
        }
    }
    rows
}

#[test]
fn what_is_loaded_is_consistent_and_as_large_as_the_benchmark_says() {
    let tpcc = small(3, 2);
    let db = Database::in_memory(options(&tpcc)).unwrap();
    let mut last = (0, 1);
    load(&db, &tpcc, 1, &mut |done, total| {
        last = (done, total);
        Ok(())
    })
    .unwrap();
    assert_eq!(last, (100 + 3 * (100 + 600), 100 + 3 * (100 + 600)));
    let found = check(&db, &tpcc, None).unwrap();
    assert!(found.holds && found.detail.contains("3 warehouses with 900 orders"), "{found:?}");
    let rows = dump(&db, &tpcc);
    let count = |table| {
        let trees = [0, 1].map(|partition| tree_in(table, partition));
        rows.iter().filter(|(tree, ..)| trees.contains(tree)).count()
    };
    for (table, expected) in [
        (Table::Item, 100),
        (Table::Warehouse, 3 * 2),
        (Table::District, 30 * 3 + 3),
        (Table::Customer, 900),
        (Table::CustomerData, 900),
        (Table::CustomerByName, 900),
        (Table::History, 900),
        (Table::NewOrder, 270),
        (Table::Order, 900),
        (Table::OrderByCustomer, 900),
        (Table::Stock, 300),
    ] {
        assert_eq!(count(table), expected, "{table:?}");
    }
    assert!((7 * 900..13 * 900).contains(&count(Table::OrderLine)));
    assert_eq!(rows, dump(&loaded(&tpcc), &tpcc), "the same seed loads the same");
    assert!(load(&db, &tpcc, 1, &mut |_, _| Ok(())).unwrap_err().to_string().contains("not new"));
    let canceled = Database::in_memory(options(&tpcc)).unwrap();
    let cancel = &mut |_, _| Err(StoreError::unexpected("canceled"));
    assert_eq!(load(&canceled, &tpcc, 1, cancel).unwrap_err().to_string(), "canceled");
}

#[test]
fn last_names_differ() {
    let mut names: Vec<Vec<u8>> = (0..rows::LAST_NAMES).map(last_name).collect();
    assert_eq!((&names[371][..], names.iter().map(Vec::len).max()), (&b"PRICALLYOUGHT"[..], Some(15)));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 1000);
}

#[test]
fn trees_are_known_by_arithmetic() {
    assert_eq!(tree(Table::Item, 5, 3), TreeId(1));
    assert_eq!(tree(Table::Warehouse, 1, 3), TreeId(2));
    assert_eq!(tree(Table::Stock, 1, 3), TreeId(12));
    assert_eq!(tree(Table::Warehouse, 2, 3), TreeId(13));
    assert_eq!(tree(Table::Stock, 6, 3), TreeId(34));
    assert_eq!((partition(1, 64), partition(64, 64), partition(65, 64)), (0, 63, 0));
}

#[test]
fn parameters_tell_the_partitions_that_they_touch() {
    let item = |supply| OrderedItem { item: 1, supply, quantity: 1 };
    let order = |items: &[OrderedItem]| {
        let order = NewOrder { warehouse: 2, district: 1, customer: 1, entered: 0, items: items.to_vec() };
        Kind::NewOrder.touched(&order.encode(), 3).unwrap()
    };
    // Of six warehouses, 2 and 5 are in a partition.
    assert_eq!(order(&[item(2), item(5), item(2)]), Partitions::One(1));
    assert_eq!(order(&[item(2), item(2), item(3)]), Partitions::Several(vec![1, 2]));
    let payment = |customer_warehouse| {
        let payment = Payment {
            warehouse: 6,
            district: 1,
            customer_warehouse,
            customer_district: 2,
            customer: CustomerBy::Id(1),
            amount: 1,
            date: 0,
        };
        Kind::Payment.touched(&payment.encode(), 3).unwrap()
    };
    assert_eq!(
        (payment(6), payment(3), payment(1)),
        (Partitions::One(2), Partitions::One(2), Partitions::Several(vec![2, 0]))
    );
    let level = StockLevel { warehouse: 4, district: 1, threshold: 1 }.encode();
    assert_eq!(Kind::StockLevel.touched(&level, 3).unwrap(), Partitions::One(0));
}

#[test]
fn a_terminal_keeps_the_database_consistent() {
    let tpcc = small(2, 2);
    let db = loaded(&tpcc);
    let mut terminal = terminals(&tpcc, 1, 2).remove(0);
    let (committed, rolled_back) = run(&db, &mut terminal, 3000);
    assert!(rolled_back > 0 && committed.iter().all(|count| *count > 50), "{committed:?} {rolled_back}");
    let found = check(&db, &tpcc, Some(&committed)).unwrap();
    let orders = 600 + committed[0];
    assert!(found.holds && found.detail.contains(&format!("with {orders} orders")), "{found:?}");
    // One more was committed than is there.
    for (kind, text) in [(Kind::NewOrder, "orders are stored"), (Kind::Payment, "payments are stored")] {
        let mut more = committed;
        more[kind as usize] += 1;
        let found = check(&db, &tpcc, Some(&more)).unwrap();
        assert!(!found.holds && found.detail.contains(text), "{found:?}");
    }
}

#[test]
fn terminals_beside_each_other_keep_the_database_consistent() {
    let tpcc = small(3, 2);
    let db = loaded(&tpcc);
    let committed: u64 = thread::scope(|scope| {
        let threads: Vec<_> = terminals(&tpcc, 4, 3)
            .into_iter()
            .map(|mut terminal| {
                let db = &db;
                scope.spawn(move || run(db, &mut terminal, 1000).0[0])
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let found = check(&db, &tpcc, None).unwrap();
    assert!(found.holds && found.detail.contains(&format!("with {} orders", 900 + committed)), "{found:?}");
}

#[test]
fn a_crash_loses_nothing_by_any_recovery_method() {
    let tpcc = small(2, 2);
    for recovery in Recovery::ALL {
        let disk = SimDisk::new(1);
        let options = || Options { recovery: Some(recovery), ..options(&tpcc) };
        let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
        load(&db, &tpcc, 1, &mut |_, _| Ok(())).unwrap();
        thread::scope(|scope| {
            for mut terminal in terminals(&tpcc, 2, 4) {
                let db = &db;
                scope.spawn(move || run(db, &mut terminal, 400));
            }
        });
        let image = disk.crash_image(1);
        let recovered = Database::open_on(Arc::new(image), options()).unwrap();
        assert!(dump(&recovered, &tpcc) == dump(&db, &tpcc), "{recovery:?}");
        let found = check(&recovered, &tpcc, None).unwrap();
        assert!(found.holds, "{recovery:?}: {found:?}");
        // What is recovered can be gone on with.
        run(&recovered, &mut terminals(&tpcc, 1, 5).remove(0), 100);
        assert!(check(&recovered, &tpcc, None).unwrap().holds);
    }
}

/// Changes a number of a row.
fn change<T: crate::procedure::fields::Fixed>(
    db: &Database,
    table: Table,
    key: &[u8],
    field: &At<T>,
    with: impl Fn(T) -> T,
) {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let mut row = txn.get(tree(table, 1, 1), key).unwrap().unwrap();
    field.change(&mut row, with).unwrap();
    txn.put(tree(table, 1, 1), key, &row).unwrap();
    txn.commit().unwrap();
}

fn remove(db: &Database, table: Table, key: &[u8]) {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.delete(tree(table, 1, 1), key).unwrap());
    txn.commit().unwrap();
}

#[test]
fn a_damage_is_noticed_by_each_condition() {
    const SUM: At<i64> = At::first();
    type Damage = fn(&Database);
    // In each district of 30 orders, 21 are delivered.
    let damages: [(&[usize], Damage); 15] = [
        (&[1, 9], |db| change(db, Table::District, &district::ytd_key(1, 1), &SUM, |ytd| ytd + 1)),
        (&[2], |db| {
            change(db, Table::District, &district::next_order_key(1, 2), &district::NEXT_ORDER, |next| {
                next + 1
            });
        }),
        (&[3, 5, 11], |db| remove(db, Table::NewOrder, &new_order::key(1, 3, 25))),
        (&[4, 6], |db| remove(db, Table::OrderLine, &order_line::key(1, 4, 1, 1))),
        (&[5, 7], |db| change(db, Table::Order, &order::key(1, 5, 30), &order::CARRIER, |_| 1)),
        (&[5, 11, 13], |db| remove(db, Table::NewOrder, &new_order::key(1, 5, 22))),
        (&[6], |db| {
            change(db, Table::Order, &order::key(1, 6, 2), &order::LINES, |lines| lines - 1);
            change(db, Table::Order, &order::key(1, 6, 3), &order::LINES, |lines| lines + 1);
        }),
        (&[7], |db| {
            let key = order_line::key(1, 7, 1, 5);
            change(db, Table::OrderLine, &key, &order_line::DELIVERED, |_| 0);
        }),
        (&[8, 9], |db| {
            change(db, Table::Warehouse, &warehouse::ytd_key(1), &SUM, |ytd| ytd + 1);
            change(db, Table::District, &district::ytd_key(1, 8), &SUM, |ytd| ytd + 1);
        }),
        (&[9], |db| {
            change(db, Table::District, &district::ytd_key(1, 9), &SUM, |ytd| ytd + 1);
            change(db, Table::District, &district::ytd_key(1, 10), &SUM, |ytd| ytd - 1);
        }),
        (&[10], |db| {
            for (c, by) in [(1, 5), (2, -5)] {
                let key = history::key((1, 1), &customer::key(1, 1, c), 1);
                change(db, Table::History, &key, &history::AMOUNT, |amount| amount + by);
            }
        }),
        (&[11], |db| {
            change(db, Table::Customer, &customer::key(1, 2, 3), &customer::DELIVERY_COUNT, |count| {
                count + 1
            });
        }),
        (&[12], |db| {
            change(db, Table::Customer, &customer::key(1, 3, 4), &customer::YTD_PAYMENT, |paid| paid + 1);
        }),
        (&[13], |db| {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            let tree = tree(Table::OrderByCustomer, 1, 1);
            let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
            let (key, _) = cursor.next(&mut txn).unwrap().unwrap();
            txn.delete(tree, &key).unwrap();
            txn.commit().unwrap();
        }),
        (&[13], |db| {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            let key = customer::name_key(1, 1, &last_name(7));
            txn.put(tree(Table::CustomerByName, 1, 1), &key, &9_u16.to_le_bytes()).unwrap();
            txn.commit().unwrap();
        }),
    ];
    let mut noticed = Vec::new();
    for (expected, damage) in damages {
        let tpcc = small(1, 1);
        let db = loaded(&tpcc);
        assert_eq!(failures(&db, &tpcc).unwrap(), []);
        damage(&db);
        let failed = failures(&db, &tpcc).unwrap();
        let conditions: Vec<usize> = failed.iter().map(|failed| failed.condition).collect();
        assert_eq!(conditions, expected, "{failed:?}");
        let found = check(&db, &tpcc, None).unwrap();
        assert!(!found.holds && found.detail.contains(&failed[0].first), "{found:?}");
        noticed.extend(conditions);
    }
    assert!((1..=CONDITIONS).all(|condition| noticed.contains(&condition)), "{noticed:?}");
}

#[test]
fn transactions_answer_what_terminals_show() {
    let tpcc = small(2, 1);
    let db = loaded(&tpcc);
    let items = vec![
        OrderedItem { item: 7, supply: 1, quantity: 3 },
        OrderedItem { item: 3, supply: 2, quantity: 10 },
        OrderedItem { item: 7, supply: 1, quantity: 4 },
    ];
    let order = NewOrder { warehouse: 1, district: 2, customer: 5, entered: 77, items: items.clone() };
    let answer = db.call(Kind::NewOrder.name(), &order.encode()).unwrap();
    let ordered = NewOrderAnswer::decode(&answer).unwrap();
    assert_eq!((ordered.order, &ordered.last_name[..], ordered.lines.len()), (31, "BARBARPRES", 3));
    let sum: i64 = ordered.lines.iter().map(|line| line.amount).sum();
    assert!(
        ordered
            .lines
            .iter()
            .zip(&items)
            .all(|(line, item)| line.amount == line.price * i64::from(item.quantity))
    );
    let factor = (10_000 - ordered.discount) * (10_000 + ordered.warehouse_tax + ordered.district_tax);
    assert!((ordered.total - sum * factor / 100_000_000).abs() <= 1);
    // The later of two lines has what the earlier one left.
    assert!([4, -87].contains(&(ordered.lines[0].stock - ordered.lines[2].stock)), "{ordered:?}");

    let unused = NewOrder { items: vec![items[0], OrderedItem { item: 101, ..items[0] }], ..order.clone() };
    let before = dump(&db, &tpcc);
    assert!(is_unused_item(&db.call(Kind::NewOrder.name(), &unused.encode()).unwrap_err()));
    assert!(before == dump(&db, &tpcc), "it is rolled back");

    let by_name = CustomerBy::LastName(4);
    let status = OrderStatus { warehouse: 1, district: 2, customer: by_name };
    let shown =
        OrderStatusAnswer::decode(&db.call(Kind::OrderStatus.name(), &status.encode()).unwrap()).unwrap();
    assert_eq!((shown.customer, shown.balance, &shown.last_name[..]), (5, -1000, "BARBARPRES"));
    let last = shown.order.unwrap();
    assert_eq!((last.order, last.entered, last.carrier), (31, 77, 0));
    let lines: Vec<OrderedItem> = last.lines.iter().map(|line| line.ordered).collect();
    assert_eq!(lines, items);

    // Until the new order is the oldest one.
    for number in 0..10 {
        let delivery = Delivery { warehouse: 1, carrier: 9, date: 99 };
        let delivered =
            Delivered::decode(&db.call(Kind::Delivery.name(), &delivery.encode()).unwrap()).unwrap();
        let mut expected = [if number < 9 { 22 + number } else { 0 }; 10];
        expected[1] = 22 + number;
        assert_eq!(delivered, Delivered(expected));
    }
    let answer = db.call(Kind::OrderStatus.name(), &status.encode()).unwrap();
    let last = OrderStatusAnswer::decode(&answer).unwrap().order.unwrap();
    assert!(last.carrier == 9 && last.lines.iter().all(|line| line.delivered == 99));

    let paid = Payment {
        warehouse: 2,
        district: 1,
        customer_warehouse: 1,
        customer_district: 2,
        customer: by_name,
        amount: 12_345,
        date: 5,
    };
    let decode = |answer: Vec<u8>| PaymentAnswer::decode(&answer).unwrap();
    let first = decode(db.call(Kind::Payment.name(), &paid.encode()).unwrap());
    let again = decode(db.call(Kind::Payment.name(), &paid.encode()).unwrap());
    assert_eq!(
        (first.customer, first.balance - again.balance, &first.last_name[..]),
        (5, 12_345, "BARBARPRES")
    );
    assert_eq!((first.texts[5].len(), first.texts[6].len(), first.warehouse_address[4].len()), (9, 16, 9));
    assert_eq!((first.credit_limit, first.middle, first.district_address[3].len()), (5_000_000, *b"OE", 2));

    let level = StockLevel { warehouse: 1, district: 2, threshold: 0 };
    let low = |level: StockLevel| {
        stock_level_answer(&db.call(Kind::StockLevel.name(), &level.encode()).unwrap()).unwrap()
    };
    assert_eq!(low(level), 0);
    assert!(low(StockLevel { threshold: 20, ..level }) <= low(StockLevel { threshold: 100, ..level }));
    assert!(low(StockLevel { threshold: 101, ..level }) > 50, "20 orders have most of 100 items");
    assert!(check(&db, &tpcc, None).unwrap().holds);
}

#[test]
fn payments_of_bad_credit_are_told_in_the_customers_data() {
    let tpcc = small(1, 1);
    let db = loaded(&tpcc);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let credit = |c: u16, txn: &mut gnomon_engine::Transaction| {
        let row = txn.get(tree(Table::Customer, 1, 1), &customer::key(1, 1, c)).unwrap().unwrap();
        customer::CREDIT.get(&row).unwrap()
    };
    let bad = (1..=30).find(|c| credit(*c, &mut txn) == *b"BC").unwrap();
    let good = (1..=30).find(|c| credit(*c, &mut txn) == *b"GC").unwrap();
    drop(txn);
    let pay = |c, amount| {
        let paid = Payment {
            warehouse: 1,
            district: 4,
            customer_warehouse: 1,
            customer_district: 1,
            customer: CustomerBy::Id(c),
            amount,
            date: 1,
        };
        PaymentAnswer::decode(&db.call(Kind::Payment.name(), &paid.encode()).unwrap()).unwrap().data
    };
    assert_eq!(pay(good, 100), "");
    pay(bad, 12_305);
    let data = pay(bad, 100);
    assert!(data.starts_with(&format!("{bad} 1 1 4 1 1.00 | {bad} 1 1 4 1 123.05 | ")), "{data}");
    assert_eq!(data.len(), 200);
    (0..30).for_each(|_| drop(pay(bad, 500_000)));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let data = txn.get(tree(Table::CustomerData, 1, 1), &customer::key(1, 1, bad)).unwrap().unwrap();
    assert_eq!(data.len(), 500);
}

#[test]
fn what_is_not_there_is_refused() {
    let tpcc = small(1, 1);
    let db = loaded(&tpcc);
    for (kind, params) in [
        (Kind::NewOrder, vec![1]),
        (Kind::StockLevel, StockLevel { warehouse: 2, district: 1, threshold: 1 }.encode()),
        (Kind::Payment, Vec::new()),
        (Kind::OrderStatus, OrderStatus { warehouse: 1, district: 1, customer: CustomerBy::Id(31) }.encode()),
        (
            Kind::OrderStatus,
            OrderStatus { warehouse: 1, district: 1, customer: CustomerBy::LastName(30) }.encode(),
        ),
        (Kind::Delivery, Delivery { warehouse: 1, carrier: 0, date: 1 }.encode()),
    ] {
        let error = db.call(kind.name(), &params).unwrap_err();
        assert!(matches!(error, Error::Procedure(_)) && !is_unused_item(&error), "{kind:?}: {error}");
    }
    assert!(check(&db, &tpcc, None).unwrap().holds);
}

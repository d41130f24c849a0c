//! Ranges: bounds, prefixes, both directions, several at a time, in several threads. `cargo run -p gnomon --example range`

use gnomon::{Database, Result};

/// A key that sorts by day, then by number: big-endian numbers sort as they count.
fn key(day: u16, number: u32) -> Vec<u8> {
    [&day.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let orders = db.tree("orders")?;
    db.transact(|txn| {
        for day in 0..30 {
            (0..100).try_for_each(|number| txn.put(orders, key(day, number), format!("order {number}")))?;
        }
        Ok(())
    })?;

    // One state of the database, whatever is written meanwhile.
    let read = db.read()?;
    db.transact(|txn| txn.delete(orders, key(7, 0)))?;
    assert_eq!(read.range(orders, key(7, 0)..key(8, 0))?.count(), 100);
    assert_eq!(db.read()?.prefix(orders, 7_u16.to_be_bytes())?.count(), 99);
    let (newest, _) = read.iter(orders)?.next_back().expect("there are orders")?;
    assert_eq!(newest, key(29, 99));

    // Threads share it; each goes through a part, from its end.
    let counts: Result<Vec<usize>> = std::thread::scope(|scope| {
        let count = |from: u16| {
            let read = &read;
            move || {
                let orders = read.range(orders, key(from, 0)..key(from + 10, 0))?.rev();
                orders.map(|order| order.map(|_| 1)).sum::<Result<usize>>()
            }
        };
        let threads: Vec<_> = [0, 10, 20].map(|from| scope.spawn(count(from))).into();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    println!("orders in three parts: {:?}", counts?);

    // A transaction's range has its own writes.
    let mut txn = db.begin()?;
    txn.put(orders, key(0, 1), "changed")?;
    let mut ends = txn.range(orders, ..=key(0, 1))?;
    assert_eq!(ends.next_back().transpose()?, Some((key(0, 1), b"changed".to_vec())));
    assert_eq!(ends.next().transpose()?, Some((key(0, 0), b"order 0".to_vec())));
    assert!(ends.next().is_none(), "the ends have met");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

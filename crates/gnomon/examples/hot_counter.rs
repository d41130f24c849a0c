//! A hot counter and a bounded stock, which many threads change at the same time without waiting for each other.
//! `cargo run --release -p gnomon --example hot_counter`

use gnomon::{Applied, Database, Result, Tree, op::number};

fn number_at(db: &Database, tree: Tree, key: &str) -> Result<u64> {
    let value = db.read()?.get(tree, key)?.expect("it is there");
    Ok(u64::from_le_bytes(value.try_into().expect("8 bytes")))
}

/// Sells one, if there is one left, and counts the visit.
fn sell(db: &Database, shop: Tree) -> Result<bool> {
    let mut txn = db.begin()?;
    txn.apply(shop, "visits", &number::add(1))?;
    let sold = txn.apply(shop, "stock", &number::add_within(-1, 0, i128::MAX))? == Applied::Done;
    txn.commit()?;
    Ok(sold)
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let shop = db.tree("shop")?;
    db.transact(|txn| {
        txn.put(shop, "visits", 0_u64.to_le_bytes())?; // numbers of 8 bytes, little-endian
        txn.put(shop, "stock", 100_u64.to_le_bytes())
    })?;

    // A transaction that has not ended keeps none of the others waiting.
    let mut open = db.begin()?;
    open.apply(shop, "visits", &number::add(1))?;
    let sold: usize = std::thread::scope(|scope| {
        let sell_some = || (0..50).map(|_| sell(&db, shop).map(usize::from)).sum::<Result<usize>>();
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(sell_some)).collect();
        clients.into_iter().map(|client| client.join().expect("it does not panic")).sum::<Result<usize>>()
    })?;
    open.commit()?;

    assert_eq!((sold, number_at(&db, shop, "stock")?), (100, 0)); // each once, and never more
    assert_eq!(number_at(&db, shop, "visits")?, 201);
    println!("200 visits of 4 clients, and one beside them: {sold} sold");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

//! Open a database, write, read, and open it again. `cargo run -p gnomon --example basic`

use gnomon::{Database, Result};

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("accounts.gnomon");

    let db = Database::open(&path)?;
    let accounts = db.tree("accounts")?; // made if there is none
    let mut txn = db.begin()?;
    txn.put(accounts, "alice", "100")?;
    txn.put(accounts, "bob", "50")?;
    txn.insert(accounts, "carol", "0")?; // fails if there is one
    assert_eq!(txn.get(accounts, "bob")?.as_deref(), Some(&b"50"[..])); // it sees its own writes
    txn.commit()?; // durable when it returns
    db.transact(|txn| txn.delete(accounts, "carol"))?; // the same in one call, which runs again after a conflict
    db.close()?;
    drop(db); // it cannot be opened again while a handle lives

    let db = Database::open(&path)?;
    for (name, tree) in db.trees()? {
        println!("{name}:");
        for entry in db.read()?.iter(tree)? {
            let (name, balance) = entry?;
            println!("  {} has {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&balance));
        }
    }
    assert_eq!(db.read()?.iter(accounts)?.count(), 2);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

//! A savepoint: a part of a transaction is undone, the rest is committed. `cargo run -p gnomon --example savepoint`

use gnomon::{Database, Error, Reaction, Result};

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let users = db.tree("users")?;
    db.transact(|txn| txn.put(users, "bob", "a user from before"))?;

    // An import keeps the lines that fit, and undoes all that it did for one that does not.
    let mut txn = db.begin()?;
    let mut skipped = 0;
    for name in ["alice", "bob", "carol"] {
        let before = txn.savepoint();
        txn.put(users, format!("{name}/imported"), "yes")?;
        match txn.insert(users, name, "a new user") {
            Err(Error::KeyExists) => {
                txn.rollback_to(before)?;
                skipped += 1;
            }
            inserted => inserted?,
        }
    }
    txn.commit()?;

    let read = db.read()?;
    assert_eq!(read.get(users, "bob")?.as_deref(), Some(&b"a user from before"[..]));
    assert_eq!(read.get(users, "bob/imported")?, None);
    assert_eq!((read.prefix(users, "carol")?.count(), skipped), (2, 1));
    // Errors tell what to do about them.
    assert_eq!(Error::KeyExists.reaction(), Reaction::FixInput);
    println!("{} entries, {skipped} skipped", read.iter(users)?.count());
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

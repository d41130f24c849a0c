//! Two databases change together: both prepare, then both commit. `cargo run -p gnomon --example two_phase`

use gnomon::{Database, Reaction, Result, Tree, op::number};
use std::path::Path;

fn open(path: &Path) -> Result<(Database, Tree)> {
    let db = Database::open(path)?;
    let accounts = db.tree("accounts")?;
    Ok((db, accounts))
}

/// Adds to an account, and prepares to commit that.
fn prepare(db: &Database, accounts: Tree, by: i128) -> Result<()> {
    let mut txn = db.begin()?;
    txn.apply(accounts, "balance", &number::add(by))?;
    txn.prepare("transfer 1")?; // durable, with its locks; now it can commit whatever happens
    Ok(())
}

fn balance(db: &Database, accounts: Tree) -> Result<u64> {
    let value = db.read()?.get(accounts, "balance")?.expect("there is an account");
    Ok(u64::from_le_bytes(value.try_into().expect("8 bytes")))
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (here, there) = (directory.path().join("here.gnomon"), directory.path().join("there.gnomon"));
    let ((from, from_accounts), (to, to_accounts)) = (open(&here)?, open(&there)?);
    from.transact(|txn| txn.put(from_accounts, "balance", 100_u64.to_le_bytes()))?;
    to.transact(|txn| txn.put(to_accounts, "balance", 0_u64.to_le_bytes()))?;

    prepare(&from, from_accounts, -30)?;
    prepare(&to, to_accounts, 30)?;
    // Both are prepared, so the transfer is decided: it happens, even if the program ends here.
    from.claim_prepared("transfer 1")?.commit()?;
    to.close()?;
    drop(to);

    let (to, to_accounts) = open(&there)?;
    assert_eq!(balance(&to, to_accounts)?, 0, "it is not committed yet");
    for name in to.prepared()? {
        to.claim_prepared(&name)?.commit()?; // or rollback, if it was decided so
    }
    assert_eq!((balance(&from, from_accounts)?, balance(&to, to_accounts)?), (70, 30));
    let again = to.claim_prepared("transfer 1").err().expect("it has ended");
    assert_eq!(again.reaction(), Reaction::FixInput);
    println!("30 were moved from one database to the other");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

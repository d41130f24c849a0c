//! A procedure: a transaction with a name, which the log keeps as its call. `cargo run -p gnomon --example procedure`

use gnomon::{Call, Database, Error, Procedure, Recovery, Result, options::Records};
use std::path::Path;

/// Adds an amount to an account, and returns its balance. It must follow from its parameters and what it reads.
fn deposit(call: &mut Call, params: &[u8]) -> Result<Vec<u8>> {
    let (account, amount) = params.split_first_chunk::<8>().ok_or(Error::procedure("no account"))?;
    let amount = i64::from_le_bytes(amount.try_into().map_err(|_| Error::procedure("no amount"))?);
    let accounts = call.tree("accounts")?;
    let balance = call.get_for_update(accounts, account)?.ok_or(Error::procedure("no such account"))?;
    let balance = i64::from_le_bytes(balance.try_into().expect("8 bytes")) + amount;
    call.put(accounts, account, balance.to_le_bytes())?;
    Ok(balance.to_le_bytes().into())
}

fn open(path: &Path) -> Result<Database> {
    // With a version of its code, or the text of that: opening refuses to replay calls of another one.
    let deposit = Procedure::new("deposit", "version 1", deposit);
    Database::builder(path).recovery(Recovery::CommitLog(Records::Calls)).procedure(deposit).open()
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bank.gnomon");
    let account = 7_u64.to_be_bytes();

    let db = open(&path)?;
    let accounts = db.tree("accounts")?;
    db.transact(|txn| txn.put(accounts, account, 0_i64.to_le_bytes()))?;
    for _ in 0..10 {
        db.call("deposit", &[account, 100_i64.to_le_bytes()].concat())?; // durable when it returns
    }
    let refused = db.call("deposit", b"7").expect_err("these are no parameters");
    println!("refused: {refused}");
    drop(db);

    let db = open(&path)?;
    let answer = db.call("deposit", &[account, 1_i64.to_le_bytes()].concat())?;
    let balance = i64::from_le_bytes(answer.try_into().expect("8 bytes"));
    assert_eq!(balance, 1001);
    println!("the account has {balance}");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

//! Stress with real threads on a simulated disk that stops at a random event: clients move money between accounts and
//! insert and delete rows of their own, in transactions that split and merge pages and write early, until the machine
//! stops. Of each image of what may be left every acknowledged transaction must be there, no transaction in part, and
//! verification must find nothing wrong.
//!
//! Threads of the system run in an order that no seed repeats; the seed chooses workload, crash and images.
//! `GNOMON_STRESS` sets how many seeds run.

use std::collections::BTreeMap;

use crate::*;
use crate::{
    Csn, Error, LogShape, Result, TreeId,
    disk::SimDisk,
    env::Rng,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

const CLIENTS: u64 = 4;
const ACCOUNTS: u64 = 12;
/// Rows that a client has at most.
const ROWS: u64 = 40;

/// What a client was told and what it left open, by its own rows: each transaction writes its number to the row
/// [`LAST`], so that it can be seen which of the client's transactions an image holds.
#[derive(Default)]
struct Client {
    /// The rows after each of its transactions.
    states: Vec<BTreeMap<u64, Vec<u8>>>,
    /// The number of the last one that was acknowledged.
    acknowledged: usize,
}

const LAST: u64 = u64::MAX;

fn open(disk: &SimDisk, recovery: Recovery) -> Result<Database> {
    let options = Options {
        recovery: Some(recovery),
        log_bytes_max: 256 << 10,
        logs: LogShape { segment_bytes: 64 << 10, ..LogShape::default() },
        sphere_pages_max: 16,
        pool_bytes: 512 << 10,
        seed: Some(7),
        ..Options::default()
    };
    Database::open_store(disk.into(), options, crate::recovery::Access::Write, |store| {
        if store.shadow().is_some() {
            store.shadow_mut().batcher.set_dirty_bytes_max(8 * 4096);
        }
    })
}

fn row(client: u64, row: u64) -> Vec<u8> {
    [client.to_be_bytes(), row.to_be_bytes()].concat()
}

struct Trees {
    accounts: TreeId,
    rows: TreeId,
}

fn create(db: &Database) -> Result<Trees> {
    let mut txn = db.begin(TxnOptions::default())?;
    let trees = Trees { accounts: txn.create_tree()?, rows: txn.create_tree()? };
    for account in 0..ACCOUNTS {
        txn.put(trees.accounts, &account.to_be_bytes(), &100_i64.to_be_bytes())?;
    }
    txn.commit()?;
    Ok(trees)
}

/// Runs transactions until the machine stops. Acknowledgements are noted at once, by callbacks too.
fn work(db: &Database, trees: &Trees, number: u64, seed: u64, client: &Arc<Mutex<Client>>) -> Result<()> {
    let mut rng = Rng::from_seed(seed * CLIENTS + number);
    let mut rows = BTreeMap::new();
    client.lock().states.push(rows.clone());
    loop {
        let isolation =
            [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable][rng.below(3) as usize];
        let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() })?;
        let mut next = rows.clone();
        let mut run = || {
            let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
            for (account, amount) in [(from, -1), (to, 1)] {
                let key = account.to_be_bytes();
                let old = txn.get_locked(trees.accounts, &key, RowLock::Exclusive)?.expect("it exists");
                let balance = i64::from_be_bytes(old.try_into().expect("8 bytes")) + amount;
                txn.put(trees.accounts, &key, &balance.to_be_bytes())?;
            }
            if rng.chance(1, 3) {
                // Writes that are taken back, and no trace of them.
                let savepoint = txn.savepoint();
                txn.put(trees.rows, &row(number, rng.below(ROWS)), b"never")?;
                txn.put(trees.accounts, &to.to_be_bytes(), b"never")?;
                txn.rollback_to(savepoint)?;
            }
            for _ in 0..rng.below(4) {
                let own = rng.below(ROWS);
                if rng.chance(1, 3) {
                    let was = next.remove(&own).is_some();
                    assert_eq!(txn.delete(trees.rows, &row(number, own))?, was);
                } else {
                    let value = vec![rng.below(256) as u8; [20, 900, 6000][rng.below(3) as usize]];
                    txn.put(trees.rows, &row(number, own), &value)?;
                    next.insert(own, value);
                }
            }
            let count = client.lock().states.len() as u64;
            txn.put(trees.rows, &row(number, LAST), &count.to_be_bytes())
        };
        match run() {
            Ok(()) => {}
            Err(Error::Deadlock | Error::Serialization(_)) => continue,
            Err(error) => return Err(error),
        }
        // Noted before, since the commit may be there without being acknowledged.
        let this = {
            let mut client = client.lock();
            client.states.push(next.clone());
            client.states.len() - 1
        };
        if rng.chance(1, 3) {
            let client = client.clone();
            txn.commit_ticket()?.on_durable(move |result| {
                if result.is_ok() {
                    let mut client = client.lock();
                    client.acknowledged = client.acknowledged.max(this);
                }
            });
        } else {
            txn.commit()?;
            let mut client = client.lock();
            client.acknowledged = client.acknowledged.max(this);
        }
        rows = next;
    }
}

/// Sums stay what they are while clients work. Ends with them: if the crash met each of them at a read, no write tells
/// the database of it, and what the pool holds can be read for ever.
fn watch(db: &Database, trees: &Trees, stopped: &AtomicBool) -> Result<()> {
    while !stopped.load(Ordering::SeqCst) {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
            let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() })?;
            match sum(&mut txn, trees) {
                Ok(sum) => assert_eq!(sum, 100 * ACCOUNTS as i64),
                Err(Error::Deadlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn sum(txn: &mut Transaction, trees: &Trees) -> Result<i64> {
    let mut cursor = txn.scan(trees.accounts, KeyRange::all(), Direction::Backward)?;
    let mut sum = 0;
    while let Some((_, value)) = cursor.next(txn)? {
        sum += i64::from_be_bytes(value.try_into().expect("8 bytes"));
    }
    Ok(sum)
}

/// Compares an image with what the clients were told.
fn check(image: &SimDisk, recovery: Recovery, trees: &Trees, clients: &[Client], created: Csn) {
    let db = open(image, recovery).unwrap();
    assert!(db.durable_csn() >= created);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(sum(&mut txn, trees).unwrap(), 100 * ACCOUNTS as i64);
    for (number, client) in (0..).zip(clients) {
        let acknowledged = client.acknowledged;
        let mut cursor =
            txn.scan(trees.rows, KeyRange::prefix(&u64::to_be_bytes(number)), Direction::Forward).unwrap();
        let (mut rows, mut last) = (BTreeMap::new(), 0);
        while let Some((key, value)) = cursor.next(&mut txn).unwrap() {
            match u64::from_be_bytes(key[8..].try_into().expect("8 bytes")) {
                LAST => last = u64::from_be_bytes(value.try_into().expect("8 bytes")) as usize,
                row => _ = rows.insert(row, value),
            }
        }
        assert!(last >= acknowledged, "client {number}: {acknowledged} was acknowledged, {last} is there");
        assert_eq!(rows, client.states[last], "client {number}: transaction {last} is there in part");
    }
    drop(txn);
    db.close().unwrap();
    drop(db);
    let report = verify(image, &mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

fn run(seed: u64, recovery: Recovery) -> usize {
    let mut rng = Rng::from_seed(seed);
    let disk = SimDisk::new(seed);
    let db = open(&disk, recovery).unwrap();
    let trees = create(&db).unwrap();
    let created = db.durable_csn();
    disk.crash_at(disk.events() + 5 + rng.below(600));
    let clients: Vec<Arc<Mutex<Client>>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(&clients)
            .map(|(number, client)| {
                let (db, trees) = (&db, &trees);
                scope.spawn(move || work(db, trees, number, seed, client))
            })
            .collect();
        scope.spawn(|| {
            let end = watch(&db, &trees, &stopped);
            assert!(end.is_ok() || disk.has_crashed(), "{end:?}");
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        // Before a panic of a worker is passed on: the scope waits for the one who watches.
        stopped.store(true, Ordering::SeqCst);
        for end in ends {
            let error = end.unwrap().unwrap_err();
            assert!(disk.has_crashed(), "{error}");
        }
    });
    drop(db);
    let clients: Vec<Client> =
        clients.into_iter().map(|client| std::mem::take(&mut *client.lock())).collect();
    for image in disk.crash_images(3) {
        check(&image, recovery, &trees, &clients, created);
    }
    clients.iter().map(|client| client.acknowledged).sum()
}

#[test]
fn a_crash_amid_many_clients_loses_nothing_acknowledged() {
    let seeds: u64 = std::env::var("GNOMON_STRESS").map_or(6, |seeds| seeds.parse().expect("a number"));
    for (seed, recovery) in (0..seeds).flat_map(|seed| Recovery::ALL.map(|recovery| (seed, recovery))) {
        println!("seed {seed}, {}", recovery.name());
        let acknowledged = run(seed, recovery);
        println!("{acknowledged} acknowledged transactions are in every image");
    }
}

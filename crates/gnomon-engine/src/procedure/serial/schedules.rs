//! Serial execution under seeded schedules: calls in one partition, calls in both, and clients' transactions beside
//! them. Each partition has a balance, and a number of changes that is written before it and after it; the sum of the
//! balances stays.

use crate::*;
use crate::{
    Error, LogShape, Result, TreeId,
    disk::SimDisk,
    failpoint::Failpoint,
    store::Store,
    sync::{Arc, Mutex, check_random, find_failing_seed, run_seed, thread},
};

const SEEDS: u64 = 500;
const START: u64 = 10;
const PARTITIONS: [TreeId; 2] = [TreeId(1), TreeId(2)];
const BALANCE: &[u8] = b"balance";

fn decode(value: Option<Vec<u8>>) -> (u64, u64) {
    let value = value.expect("it was made");
    let (balance, changes) = value.split_at(8);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    (number(balance), number(changes))
}

fn encode((balance, changes): (u64, u64)) -> Vec<u8> {
    [balance.to_le_bytes(), changes.to_le_bytes()].concat()
}

/// Changes a partition's balance and counts it.
fn change(call: &mut Call<'_>, tree: TreeId, by: i64) -> Result<()> {
    let (balance, changes) = decode(call.get_for_update(tree, BALANCE)?);
    // Another transaction that should be kept out has the chance to come.
    thread::yield_now();
    call.put(tree, BALANCE, &encode((balance.wrapping_add_signed(by), changes + 1)))
}

fn procedures() -> Vec<Procedure> {
    let one = |params: &[u8]| Partitions::One(params[0].into());
    vec![
        Procedure::new("touch", "1", |call, params| {
            change(call, PARTITIONS[usize::from(params[0])], 0).map(|()| Vec::new())
        })
        .with_partitions(one),
        Procedure::new("move", "1", |call, _| {
            change(call, PARTITIONS[0], -1)?;
            change(call, PARTITIONS[1], 1)?;
            Ok(Vec::new())
        })
        .with_partitions(|_| Partitions::All),
    ]
}

fn open(disk: &SimDisk, race: Option<Failpoint>) -> Database {
    let options = Options {
        recovery: Some(Recovery::CommitLog(Records::Calls)),
        execution: Execution::Serial { executors: 2, queue_max: 10 },
        procedures: procedures(),
        logs: LogShape { redo_files: 1, shared: true, segment_bytes: 64 << 10 },
        pool_bytes: 512 << 10,
        replay_threads: 1,
        seed: Some(7),
        ..Options::default()
    };
    Database::open_store(disk.into(), options, crate::recovery::Access::Write, |store| {
        if let Store::Shadow(_) = store {
            store.failpoints().turn_on(race);
        }
    })
    .unwrap()
}

/// Both balances with their changes, by a client's transaction.
fn look(db: &Database) -> Result<[(u64, u64); 2]> {
    let mut txn = db.begin(TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() })?;
    let mut seen = [(0, 0); 2];
    for (seen, tree) in seen.iter_mut().zip(PARTITIONS) {
        *seen = decode(txn.get(tree, BALANCE)?);
        thread::yield_now();
    }
    txn.commit()?;
    assert_eq!(seen[0].0 + seen[1].0, 2 * START, "half of a call was seen: {seen:?}");
    Ok(seen)
}

fn calls_and_clients(race: Option<Failpoint>) {
    let disk = SimDisk::new(1);
    let db = open(&disk, race);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    for (partition, tree) in (0..).zip(PARTITIONS) {
        let placement = Placement::Partition(partition);
        assert_eq!(txn.create_tree_with(TreeOptions { placement, ..TreeOptions::default() }).unwrap(), tree);
        txn.put(tree, BALANCE, &encode((START, 0))).unwrap();
    }
    txn.commit().unwrap();
    let db = Arc::new(db);
    let answered = Arc::new(Mutex::new([0_u64; 2]));
    let touches = thread::spawn({
        let (db, answered) = (db.clone(), answered.clone());
        move || {
            for partition in [0_u8, 1, 0] {
                let answered = answered.clone();
                db.call_then("touch", &[partition], move |answer| {
                    answer.unwrap();
                    answered.lock()[usize::from(partition)] += 1;
                })
                .unwrap();
            }
        }
    });
    let moves = thread::spawn({
        let (db, answered) = (db.clone(), answered.clone());
        move || {
            for _ in 0..2 {
                match db.call("move", &[]) {
                    Ok(_) => answered.lock().iter_mut().for_each(|answered| *answered += 1),
                    Err(error) => assert!(matches!(error, Error::Deadlock), "{error}"),
                }
            }
        }
    });
    let looks = thread::spawn({
        let db = db.clone();
        move || match look(&db) {
            Ok(_) => {}
            Err(error) => assert!(matches!(error, Error::Deadlock), "{error}"),
        }
    });
    for thread in [touches, moves, looks] {
        thread.join().unwrap();
    }
    // All are answered then.
    db.close().unwrap();
    let answered = *answered.lock();
    let seen = look(&open(&disk.crash_image_synced(), None)).unwrap();
    assert_eq!(seen.map(|(_, changes)| changes), answered, "a call was lost");
}

#[test]
fn shuttle_calls_in_partitions_and_clients_see_whole_calls() {
    check_random("partitions", SEEDS, || calls_and_clients(None));
}

#[test]
fn shuttle_finds_an_executor_that_does_not_lock_its_partitions() {
    let run = || calls_and_clients(Some(Failpoint::PartitionsNotLocked));
    let (seed, _) = find_failing_seed(0..2000, Arc::new(run)).expect("nothing was found");
    assert!(
        std::panic::catch_unwind(|| run_seed(seed, Arc::new(run))).is_err(),
        "seed {seed} does not repeat it"
    );
}

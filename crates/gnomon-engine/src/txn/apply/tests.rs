mod model;

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::*;
use crate::{
    Database, Direction, KeyRange, Options, RowLock, Savepoint, TreeLock, TxnOptions,
    env::Rng,
    op::{bytes, number, set},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};

fn database() -> Database {
    Database::in_memory(Options { pool_bytes: 1 << 20, seed: Some(1), ..Options::default() }).unwrap()
}

/// Fails instead of waiting.
fn begin(db: &Database, isolation: Isolation) -> Transaction {
    let lock_timeout = Some(Duration::ZERO);
    db.begin(TxnOptions { isolation, lock_timeout, ..TxnOptions::default() }).unwrap()
}

fn tree_with(db: &Database, numbers: &[(&str, i64)]) -> TreeId {
    let mut txn = begin(db, Isolation::ReadCommitted);
    let tree = txn.create_tree().unwrap();
    for (key, number) in numbers {
        txn.put(tree, key.as_bytes(), &number.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    tree
}

fn get(txn: &mut Transaction, tree: TreeId, key: &str) -> Result<i64> {
    txn.start_statement()?;
    let value = txn.get(tree, key.as_bytes())?.expect("it is there");
    Ok(i64::from_le_bytes(value.try_into().unwrap()))
}

fn add(txn: &mut Transaction, tree: TreeId, key: &str, delta: i128) -> Result<Applied> {
    txn.apply(tree, key.as_bytes(), &number::add_within(delta, 0, 1000))
}

fn now(db: &Database, tree: TreeId, key: &str) -> i64 {
    get(&mut begin(db, Isolation::ReadCommitted), tree, key).unwrap()
}

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

#[test]
fn additions_do_not_wait_for_each_other_and_add_up_in_whatever_order_they_commit() {
    for isolation in ALL {
        let db = database();
        let tree = tree_with(&db, &[("a", 10)]);
        let mut t: Vec<Transaction> = (0..4).map(|_| begin(&db, isolation)).collect();
        for (at, txn) in t.iter_mut().enumerate() {
            txn.start_statement().unwrap();
            assert_eq!(add(txn, tree, "a", 1 << at).unwrap(), Applied::Done);
        }
        let [first, second, third, fourth] = t.try_into().ok().unwrap();
        second.commit().unwrap();
        fourth.rollback();
        third.commit().unwrap();
        first.commit().unwrap();
        assert_eq!(now(&db, tree, "a"), 10 + 1 + 2 + 4);
    }
}

#[test]
fn what_is_bounded_is_granted_refused_or_waits() {
    let db = database();
    let tree = tree_with(&db, &[("a", 20)]);
    let [mut first, mut second, mut third] = ALL.map(|_| begin(&db, Isolation::ReadCommitted));
    assert_eq!(add(&mut first, tree, "a", -6).unwrap(), Applied::Done);
    assert!(matches!(add(&mut second, tree, "a", -15), Err(Error::LockTimeout)));
    assert_eq!(add(&mut second, tree, "a", -21).unwrap(), Applied::Refused(0));
    assert_eq!(add(&mut second, tree, "a", -4).unwrap(), Applied::Done);
    assert_eq!(add(&mut third, tree, "none", -4).unwrap(), Applied::Absent);
    first.rollback();
    assert_eq!(add(&mut third, tree, "a", -6).unwrap(), Applied::Done);
    assert_eq!(add(&mut third, tree, "a", 5).unwrap(), Applied::Done);
    // Its own changes are certain for itself, and for no other transaction.
    assert_eq!(add(&mut third, tree, "a", -5).unwrap(), Applied::Done);
    third.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 10);
    let mut fourth = begin(&db, Isolation::ReadCommitted);
    assert_eq!(add(&mut fourth, tree, "a", -11).unwrap(), Applied::Refused(0));
    drop(fourth);
    assert!(db.locks().is_empty());
}

#[test]
fn going_back_takes_back_what_was_added_and_reserved() {
    for isolation in ALL {
        let db = database();
        let tree = tree_with(&db, &[("a", 20)]);
        let (mut txn, mut other) = (begin(&db, isolation), begin(&db, Isolation::ReadCommitted));
        add(&mut txn, tree, "a", -2).unwrap();
        let savepoint = txn.savepoint();
        add(&mut txn, tree, "a", -18).unwrap();
        assert!(matches!(add(&mut other, tree, "a", -8), Err(Error::LockTimeout)));
        txn.rollback_to(savepoint).unwrap();
        let again = add(&mut other, tree, "a", -8);
        if isolation == Isolation::Serializable {
            assert!(matches!(again, Err(Error::LockTimeout)), "that there were 20 was seen");
            drop(other);
            txn.commit().unwrap();
            continue;
        }
        assert_eq!(again.unwrap(), Applied::Done);
        other.commit().unwrap();
        txn.commit().unwrap();
        assert_eq!(now(&db, tree, "a"), 10);
    }
}

#[test]
fn whoever_reads_what_others_add_to_waits_for_them_or_sees_a_snapshot() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10)]);
    let other_tree = tree_with(&db, &[("a", 15)]);
    let mut adder = begin(&db, Isolation::ReadCommitted);
    add(&mut adder, tree, "a", 5).unwrap();
    assert_eq!(get(&mut adder, tree, "a").unwrap(), 15, "its own");
    assert_eq!(get(&mut begin(&db, Isolation::ReadCommitted), tree, "a").unwrap(), 10);
    assert_eq!(get(&mut begin(&db, Isolation::Snapshot), tree, "a").unwrap(), 10);
    let mut reader = begin(&db, Isolation::Serializable);
    assert!(matches!(get(&mut reader, tree, "a"), Err(Error::LockTimeout)));
    let mut locker = begin(&db, Isolation::ReadCommitted);
    assert!(matches!(locker.get_locked(tree, b"a", RowLock::Share), Err(Error::LockTimeout)));
    assert!(matches!(locker.put(tree, b"a", b""), Err(Error::LockTimeout)));
    adder.commit().unwrap();
    assert_eq!(get(&mut reader, tree, "a").unwrap(), 15);
    assert!(matches!(add(&mut locker, tree, "a", 1), Err(Error::LockTimeout)), "it is read");
    // To read what one has added to converts the lock.
    let (mut one, mut two) = (begin(&db, Isolation::Serializable), begin(&db, Isolation::Serializable));
    drop(reader);
    let tree = other_tree;
    add(&mut one, tree, "a", 1).unwrap();
    add(&mut two, tree, "a", 1).unwrap();
    assert!(matches!(get(&mut one, tree, "a"), Err(Error::LockTimeout)));
    two.commit().unwrap();
    assert_eq!(get(&mut one, tree, "a").unwrap(), 17);
    one.put(tree, b"a", &3_i64.to_le_bytes()).unwrap();
    add(&mut one, tree, "a", 1).unwrap();
    one.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 4);
}

#[test]
fn under_snapshot_additions_merge_unless_their_value_is_read() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10), ("b", 10), ("other", 0)]);
    let snapshot = || {
        let mut txn = begin(&db, Isolation::Snapshot);
        assert_eq!(get(&mut txn, tree, "other").unwrap(), 0);
        txn
    };
    let somebody_adds = |delta| {
        let mut other = begin(&db, Isolation::ReadCommitted);
        assert_eq!(add(&mut other, tree, "a", delta).unwrap(), Applied::Done);
        other.commit().unwrap();
    };
    let (mut merges, mut reads_before, mut reads_after, mut scans, mut conditions) =
        (snapshot(), snapshot(), snapshot(), snapshot(), snapshot());
    somebody_adds(5);
    assert_eq!(add(&mut merges, tree, "a", 1).unwrap(), Applied::Done);
    merges.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 16);
    assert_eq!(get(&mut reads_before, tree, "a").unwrap(), 10);
    assert!(matches!(add(&mut reads_before, tree, "a", 1), Err(Error::Serialization(_))));
    drop(reads_before);
    assert_eq!(add(&mut reads_after, tree, "a", 1).unwrap(), Applied::Done);
    assert!(matches!(get(&mut reads_after, tree, "a"), Err(Error::Serialization(_))));
    drop(reads_after);
    assert_eq!(add(&mut scans, tree, "a", 1).unwrap(), Applied::Done);
    let mut cursor = scans.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
    assert!(matches!(cursor.next(&mut scans), Err(Error::Serialization(_))));
    drop(scans);
    // It holds in the snapshot and cannot hold any more.
    somebody_adds(-12);
    assert!(matches!(add(&mut conditions, tree, "a", -8), Err(Error::Serialization(_))));
    assert_eq!(add(&mut conditions, tree, "a", -11).unwrap(), Applied::Refused(0), "nor does it there");
    drop(conditions);
    let mut late = snapshot();
    let mut writer = begin(&db, Isolation::ReadCommitted);
    writer.put(tree, b"b", &1_i64.to_le_bytes()).unwrap();
    writer.insert(tree, b"c", &1_i64.to_le_bytes()).unwrap();
    writer.commit().unwrap();
    assert_eq!(add(&mut late, tree, "c", 1).unwrap(), Applied::Absent, "not in the snapshot");
    assert!(matches!(add(&mut late, tree, "b", 1), Err(Error::Serialization(_))), "not by an operation");
}

#[test]
fn under_serializable_a_refusal_stays_true() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10)]);
    let (mut sees, mut other) = (begin(&db, Isolation::Serializable), begin(&db, Isolation::ReadCommitted));
    assert_eq!(add(&mut sees, tree, "a", -12).unwrap(), Applied::Refused(0));
    assert_eq!(add(&mut other, tree, "a", 1).unwrap(), Applied::Done, "it stays refused");
    assert!(matches!(add(&mut other, tree, "a", 1), Err(Error::LockTimeout)));
    assert_eq!(add(&mut sees, tree, "none", 1).unwrap(), Applied::Absent);
    assert!(matches!(other.insert(tree, b"none", b"1"), Err(Error::LockTimeout)));
    drop(sees);
    assert_eq!(add(&mut other, tree, "a", 1).unwrap(), Applied::Done);
}

#[test]
fn sets_and_byte_strings_take_operations_in_the_order_of_commits() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut txn = begin(&db, Isolation::ReadCommitted);
    txn.put(tree, b"set", b"").unwrap();
    txn.put(tree, b"text", b"").unwrap();
    txn.put(tree, b"low", &9_i128.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    let [mut a, mut b] = [0; 2].map(|_| begin(&db, Isolation::ReadCommitted));
    a.apply(tree, b"set", &set::insert(b"x")).unwrap();
    b.apply(tree, b"set", &set::remove(b"x")).unwrap();
    b.apply(tree, b"set", &set::insert(b"y")).unwrap();
    a.apply(tree, b"text", &bytes::append(b"a")).unwrap();
    b.apply(tree, b"text", &bytes::append(b"b")).unwrap();
    a.apply(tree, b"low", &number::minimum(4)).unwrap();
    b.apply(tree, b"low", &number::minimum(7)).unwrap();
    assert!(matches!(a.apply(tree, b"low", &number::add(1)), Err(Error::LockTimeout)));
    assert!(matches!(a.apply(tree, b"text", &number::add(1)), Err(Error::LockTimeout)));
    b.commit().unwrap();
    a.commit().unwrap();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    let value = txn.get(tree, b"set").unwrap().unwrap();
    assert_eq!(set::elements(&value).unwrap(), [&b"x"[..], b"y"].into());
    assert_eq!(txn.get(tree, b"text").unwrap().unwrap(), b"ba");
    assert_eq!(txn.get(tree, b"low").unwrap().unwrap(), 4_i128.to_le_bytes());
    // What does not suit the value is told at once.
    assert!(matches!(txn.apply(tree, b"text", &number::add(1)), Err(Error::Operation(_))));
    let unknown = crate::op::Call { family: "none", operation: "add", args: Vec::new() };
    assert!(matches!(txn.apply(tree, b"text", &unknown), Err(Error::NoSuchOperation { .. })));
    // Beyond what a leaf holds one waits for the other, however much they append.
    let (long, mut c) = (vec![b'l'; 3000], begin(&db, Isolation::ReadCommitted));
    txn.apply(tree, b"text", &bytes::append(&long)).unwrap();
    assert!(matches!(c.apply(tree, b"text", &bytes::append(b"c")), Err(Error::LockTimeout)));
    txn.commit().unwrap();
    c.apply(tree, b"text", &bytes::append(&long)).unwrap();
    c.commit().unwrap();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    assert_eq!(txn.get(tree, b"text").unwrap().unwrap().len(), 2 + 2 * long.len());
}

#[test]
fn prepared_transactions_keep_what_they_reserved() {
    let disk = crate::disk::MemDisk::new();
    let options = || Options { pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    let db = Database::open_on(&disk, options()).unwrap();
    let tree = tree_with(&db, &[("a", 33)]);
    for (gid, delta) in [("one", -6), ("two", 5), ("three", -3)] {
        let mut txn = begin(&db, Isolation::ReadCommitted);
        assert_eq!(add(&mut txn, tree, "a", delta).unwrap(), Applied::Done);
        txn.prepare(gid, b"").unwrap();
    }
    let mut other = begin(&db, Isolation::ReadCommitted);
    assert_eq!(add(&mut other, tree, "a", 7).unwrap(), Applied::Done);
    other.commit().unwrap();
    db.close().unwrap();
    drop(db);
    let db = Database::open_on(&disk, options()).unwrap();
    let mut other = begin(&db, Isolation::ReadCommitted);
    assert_eq!(add(&mut other, tree, "a", -8).unwrap(), Applied::Done);
    assert_eq!(add(&mut other, tree, "a", -23).unwrap(), Applied::Done);
    assert!(matches!(add(&mut other, tree, "a", -1), Err(Error::LockTimeout)));
    assert!(matches!(other.put(tree, b"a", b""), Err(Error::LockTimeout)));
    other.commit().unwrap();
    db.commit_prepared("three").unwrap();
    db.rollback_prepared("two").unwrap();
    db.commit_prepared("one").unwrap();
    assert_eq!(now(&db, tree, "a"), 0);
    assert!(db.locks().is_empty());
    // That it was refused something is not kept, unless it has the key for itself.
    let tree = tree_with(&db, &[("a", 0)]);
    let mut txn = begin(&db, Isolation::Serializable);
    assert_eq!(add(&mut txn, tree, "a", -1).unwrap(), Applied::Refused(0));
    assert!(matches!(txn.prepare("four", b""), Err(Error::CannotPrepare(_))));
    let mut txn = begin(&db, Isolation::Serializable);
    assert!(txn.get_locked(tree, b"a", RowLock::Exclusive).unwrap().is_some());
    assert_eq!(add(&mut txn, tree, "a", -1).unwrap(), Applied::Refused(0));
    txn.prepare("four", b"").unwrap();
}

#[test]
fn operations_on_a_locked_tree_and_before_an_escalation_are_applied_once() {
    let db = Database::in_memory(Options {
        pool_bytes: 1 << 20,
        escalate_bytes: 64 << 10,
        seed: Some(1),
        ..Options::shadow()
    })
    .unwrap();
    let tree = tree_with(&db, &[("a", 10), ("b", 1)]);
    let mut txn = begin(&db, Isolation::ReadCommitted);
    add(&mut txn, tree, "a", 1).unwrap();
    let savepoint = txn.savepoint();
    add(&mut txn, tree, "a", 2).unwrap();
    for number in 0..2000_u32 {
        txn.put(tree, &number.to_be_bytes(), &[7; 100]).unwrap();
    }
    assert!(txn.core().has_pages());
    assert_eq!(get(&mut txn, tree, "a").unwrap(), 13);
    add(&mut txn, tree, "a", 4).unwrap();
    assert_eq!(get(&mut txn, tree, "a").unwrap(), 17);
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(get(&mut txn, tree, "a").unwrap(), 11);
    add(&mut txn, tree, "b", 1).unwrap();
    txn.commit().unwrap();
    assert_eq!((now(&db, tree, "a"), now(&db, tree, "b")), (11, 2));
    let mut txn = begin(&db, Isolation::ReadCommitted);
    txn.lock_tree(tree, TreeLock::Exclusive).unwrap();
    add(&mut txn, tree, "a", 4).unwrap();
    assert_eq!(get(&mut txn, tree, "a").unwrap(), 15);
    txn.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 15);
}

/// Money moves between accounts by additions, none of which goes below zero; every snapshot meanwhile has the same sum,
/// and in the end each account has what its transfers make of it.
#[test]
fn threads_add_and_every_snapshot_has_the_same_sum() {
    const ACCOUNTS: u64 = 4;
    let key = |account: u64| account.to_be_bytes();
    let db = database();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    let tree = txn.create_tree().unwrap();
    (0..ACCOUNTS).for_each(|account| txn.put(tree, &key(account), &100_i64.to_le_bytes()).unwrap());
    txn.commit().unwrap();
    let (stop, moved, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let sum = |txn: &mut Transaction| {
        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
        let (mut sum, mut least) = (0, i64::MAX);
        while let Some((_, value)) = cursor.next(txn).unwrap() {
            let value = i64::from_le_bytes(value.try_into().unwrap());
            (sum, least) = (sum + value, least.min(value));
        }
        (sum, least)
    };
    /// Ends the clients, also if a reader finds something wrong.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for client in 0..6 {
            let (db, stop, moved, refused) = (&db, &stop, &moved, &refused);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(client);
                while !stop.load(Ordering::Relaxed) {
                    let isolation = ALL[rng.below(3) as usize];
                    let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let amount = i128::from(rng.below(60) as u32);
                    let mut transfer = || {
                        txn.start_statement()?;
                        for (account, delta) in [(from, -amount), (to, amount)] {
                            match txn.apply(tree, &key(account), &number::add_within(delta, 0, i128::MAX))? {
                                Applied::Done => {}
                                _ => return Ok(false),
                            }
                        }
                        Ok(true)
                    };
                    match transfer() {
                        Ok(true) if rng.chance(9, 10) => {
                            txn.commit_ticket().unwrap();
                            moved.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(true) => {}
                        Ok(false) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::Deadlock | Error::Serialization(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for round in 0.. {
            if round > 300 && moved.load(Ordering::Relaxed) > 2000 {
                break;
            }
            let isolation = ALL[round % 2];
            let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
            let (sum, least) = sum(&mut txn);
            assert_eq!(sum, 100 * ACCOUNTS as i64);
            assert!(least >= 0, "{least}");
        }
    });
    assert_eq!(sum(&mut begin(&db, Isolation::ReadCommitted)).0, 100 * ACCOUNTS as i64);
    assert!(refused.into_inner() > 0);
    assert!(db.locks().is_empty());
}

#[test]
fn a_key_that_was_deleted_since_the_snapshot_is_a_conflict() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10), ("b", 0)]);
    let [mut reads, mut only_adds] = [0; 2].map(|_| begin(&db, Isolation::Snapshot));
    get(&mut reads, tree, "b").unwrap();
    only_adds.start_statement().unwrap();
    let mut other = begin(&db, Isolation::ReadCommitted);
    other.delete(tree, b"a").unwrap();
    other.commit().unwrap();
    assert!(matches!(add(&mut reads, tree, "a", 1), Err(Error::Serialization(_))));
    assert_eq!(add(&mut only_adds, tree, "a", 1).unwrap(), Applied::Absent, "its snapshot is a newer one");
}

/// As long as a transaction has been told nothing that its locks do not keep true, its snapshot becomes a newer one
/// instead of a conflict; from then on it is one snapshot.
#[test]
fn a_snapshot_of_which_nothing_was_told_is_taken_again() {
    /// Changes a key; false if that is a conflict.
    type Change = fn(&mut Transaction, TreeId) -> Result<()>;
    let changes: [(&str, Change); 5] = [
        ("add and read", |txn, tree| {
            add(txn, tree, "a", 1)?;
            assert_eq!(get(txn, tree, "a")?, 16);
            Ok(())
        }),
        ("add and lock", |txn, tree| {
            add(txn, tree, "a", 1)?;
            let locked = txn.get_locked(tree, b"a", RowLock::Exclusive)?;
            assert_eq!(locked, Some(16_i64.to_le_bytes().to_vec()));
            Ok(())
        }),
        ("lock and replace", |txn, tree| {
            let locked = txn.get_locked(tree, b"a", RowLock::NoKeyUpdate)?;
            assert_eq!(locked, Some(15_i64.to_le_bytes().to_vec()));
            assert!(txn.replace(tree, b"a", &16_i64.to_le_bytes())?);
            Ok(())
        }),
        ("put", |txn, tree| txn.put(tree, b"a", &16_i64.to_le_bytes())),
        ("delete", |txn, tree| {
            assert!(txn.delete(tree, b"a")?);
            txn.insert(tree, b"a", &16_i64.to_le_bytes())
        }),
    ];
    for (what, change) in changes {
        for tells in ["nothing", "a value", "an absence", "a refusal", "a lock given back", "a savepoint"] {
            let db = database();
            let tree = tree_with(&db, &[("a", 10), ("b", 7)]);
            let mut txn = begin(&db, Isolation::Snapshot);
            txn.start_statement().unwrap();
            match tells {
                "a value" => assert_eq!(get(&mut txn, tree, "b").unwrap(), 7),
                "an absence" => assert_eq!(add(&mut txn, tree, "none", 1).unwrap(), Applied::Absent),
                "a refusal" => assert_eq!(add(&mut txn, tree, "b", -8).unwrap(), Applied::Refused(0)),
                "a lock given back" => {
                    let (_, lock) = txn.lock_key(tree, b"b", RowLock::Exclusive).unwrap();
                    txn.give_back(tree, b"b", lock);
                }
                "a savepoint" => {
                    let savepoint = txn.savepoint();
                    add(&mut txn, tree, "b", 1).unwrap();
                    txn.rollback_to(savepoint).unwrap();
                }
                // What it changes and keeps locked is the same in every snapshot.
                _ => assert_eq!(add(&mut txn, tree, "b", 1).unwrap(), Applied::Done),
            }
            let mut other = begin(&db, Isolation::ReadCommitted);
            add(&mut other, tree, "a", 5).unwrap();
            other.commit().unwrap();
            txn.start_statement().unwrap();
            let changed = change(&mut txn, tree);
            if tells == "nothing" {
                changed.unwrap();
                assert_eq!(get(&mut txn, tree, "b").unwrap(), 8, "{what}");
                txn.commit().unwrap();
                assert_eq!(now(&db, tree, "a"), 16, "{what}");
            } else {
                assert!(matches!(changed, Err(Error::Serialization(_))), "{what} after {tells}: {changed:?}");
            }
        }
    }
}

#[test]
fn what_failed_leaves_no_lock_and_no_reservation() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10)]);
    let mut holder = begin(&db, Isolation::ReadCommitted);
    add(&mut holder, tree, "a", -6).unwrap();
    for isolation in ALL {
        let mut txn = begin(&db, isolation);
        txn.start_statement().unwrap();
        assert!(matches!(add(&mut txn, tree, "a", -6), Err(Error::LockTimeout)));
        let locks = db.locks();
        assert_eq!(locks.iter().filter(|lock| lock.txn == txn.id() && lock.table == "key").count(), 0);
    }
    let long = vec![7; crate::KEY_BYTES_MAX + 1];
    assert!(matches!(holder.apply(tree, &long, &number::add(1)), Err(Error::KeyTooLong { .. })));
}

#[test]
fn sums_that_no_number_holds_are_refused() {
    let db = database();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"a", &(i128::MIN + 1).to_le_bytes()).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    assert_eq!(txn.apply(tree, b"a", &number::add(i128::MAX)).unwrap(), Applied::Done);
    assert_eq!(txn.apply(tree, b"a", &number::add(i128::MAX)).unwrap(), Applied::Refused(0));
    txn.commit().unwrap();
}

#[test]
fn a_transaction_that_wrote_over_its_operations_can_be_prepared_and_found_again() {
    let disk = crate::disk::MemDisk::new();
    let options = || Options { pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    let db = Database::open_on(&disk, options()).unwrap();
    let tree = tree_with(&db, &[("a", 10), ("b", 10)]);
    let mut txn = begin(&db, Isolation::Serializable);
    add(&mut txn, tree, "a", 1).unwrap();
    add(&mut txn, tree, "b", 1).unwrap();
    assert_eq!(add(&mut txn, tree, "b", -20).unwrap(), Applied::Refused(0));
    txn.lock_tree(tree, TreeLock::Exclusive).unwrap();
    txn.put(tree, b"a", &3_i64.to_le_bytes()).unwrap();
    txn.prepare("one", b"").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Database::open_on(&disk, options()).unwrap();
    db.commit_prepared("one").unwrap();
    assert_eq!((now(&db, tree, "a"), now(&db, tree, "b")), (3, 11));
    assert!(db.locks().is_empty());
}

/// Which of some that each make a set longer, and do not end, finds no room beside those before it.
fn refused_beside(db: &Database, tree: TreeId) -> Option<u8> {
    let mut others: Vec<Transaction> = Vec::new();
    (0_u8..100).find(|number| {
        let mut txn = begin(db, Isolation::ReadCommitted);
        let applied = txn.apply(tree, b"set", &set::insert(&[*number; 100]));
        others.push(txn);
        matches!(applied, Err(Error::LockTimeout))
    })
}

#[test]
fn what_a_value_might_have_grown_and_has_not_is_there_for_others() {
    let db = database();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"set", &[]).unwrap();
    txn.commit().unwrap();
    let element = [b'x'; 100];
    // The lock is never free, so what is known of the value goes from one to the next.
    let mut before: Option<Transaction> = None;
    for _ in 0..200 {
        let mut txn = begin(&db, Isolation::ReadCommitted);
        assert_eq!(txn.apply(tree, b"set", &set::insert(&element)).unwrap(), Applied::Done);
        before.replace(txn).map(|before| before.commit().unwrap());
    }
    before.unwrap().commit().unwrap();
    // What it has grown counts still: of these only some fit beside each other.
    let refused = refused_beside(&db, tree);
    assert!(matches!(refused, Some(5..20)), "{refused:?}");
}

#[test]
fn a_value_that_becomes_longer_and_shorter_again_has_the_length_that_it_has() {
    let db = database();
    let mut txn = begin(&db, Isolation::ReadCommitted);
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"set", &[]).unwrap();
    txn.commit().unwrap();
    let element = [b'x'; 100];
    // Of two that overlap, the later one commits first now and then.
    let mut before: Option<Transaction> = None;
    for round in 0..400 {
        let mut txn = begin(&db, Isolation::ReadCommitted);
        let call = if round % 4 < 2 { set::insert(&element) } else { set::remove(&element) };
        assert_eq!(txn.apply(tree, b"set", &call).unwrap(), Applied::Done, "{round}");
        match round % 3 {
            0 => txn.commit().map(|_| ()).unwrap(),
            _ => before.replace(txn).map_or(Ok(()), |before| before.commit().map(|_| ())).unwrap(),
        }
    }
    // The lock was never free.
    let held = before.unwrap();
    let refused = refused_beside(&db, tree);
    assert!(matches!(refused, Some(5..20)), "{refused:?}");
    held.commit().unwrap();
}

#[test]
fn under_read_committed_what_was_applied_is_read_as_if_it_had_been_locked_exclusively() {
    let db = database();
    let tree = tree_with(&db, &[("a", 10), ("b", 0)]);
    let (mut first, mut second) =
        (begin(&db, Isolation::ReadCommitted), begin(&db, Isolation::ReadCommitted));
    for txn in [&mut first, &mut second] {
        add(txn, tree, "a", 1).unwrap();
    }
    let savepoint = first.savepoint();
    assert!(matches!(get(&mut first, tree, "a"), Err(Error::LockTimeout)), "the other may come before it");
    first.rollback_to(savepoint).unwrap();
    second.commit().unwrap();
    // No two have the same number.
    assert_eq!(get(&mut first, tree, "a").unwrap(), 12);
    let mut cursor = first.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(cursor.next(&mut first).unwrap().unwrap().1, 12_i64.to_le_bytes());
    // Back to before it was read, it is shared again.
    first.rollback_to(savepoint).unwrap();
    let mut third = begin(&db, Isolation::Snapshot);
    third.start_statement().unwrap();
    assert_eq!(add(&mut third, tree, "a", 1).unwrap(), Applied::Done);
    first.commit().unwrap();
    third.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 13);
    // A transaction after one that has read locks alone: it will read, too, without a wait for others that do.
    let (mut next, mut last) = (begin(&db, Isolation::ReadCommitted), begin(&db, Isolation::ReadCommitted));
    assert_eq!(add(&mut next, tree, "a", 1).unwrap(), Applied::Done);
    assert_eq!(add(&mut next, tree, "a", -15).unwrap(), Applied::Refused(0));
    assert!(matches!(add(&mut last, tree, "a", 1), Err(Error::LockTimeout)));
    assert_eq!(get(&mut next, tree, "a").unwrap(), 14);
    // That it was locked exclusively and read does not matter to a transaction that adds to it at a snapshot.
    let mut merges = begin(&db, Isolation::Snapshot);
    merges.start_statement().unwrap();
    next.commit().unwrap();
    assert_eq!(add(&mut merges, tree, "a", 1).unwrap(), Applied::Done);
    merges.commit().unwrap();
    assert_eq!(now(&db, tree, "a"), 15);
}

/// Two transactions add to the same key, and both read it then: one lets the other go first, and neither fails. Unless
/// what it was granted is not possible any more when the other has committed.
#[test]
fn of_two_who_read_what_they_changed_one_steps_back() {
    let patient = || TxnOptions { lock_timeout: Some(Duration::from_secs(60)), ..TxnOptions::default() };
    for (left_by_first, second_commits) in [(None, true), (Some(4), false)] {
        let db = database();
        let tree = tree_with(&db, &[("a", 20), ("b", 0)]);
        let mut first = db.begin(patient()).unwrap();
        let mut second = db.begin(patient()).unwrap();
        // Of two in a deadlock, the one with fewer locks is the victim.
        for key in [b"c", b"d", b"e"] {
            first.put(tree, key, b"own").unwrap();
        }
        assert_eq!(add(&mut first, tree, "a", -1).unwrap(), Applied::Done);
        assert_eq!(add(&mut second, tree, "a", -5).unwrap(), Applied::Done);
        let savepoint = second.savepoint();
        let waits = thread::spawn(move || {
            let seen = get(&mut first, tree, "a");
            if let Some(left) = left_by_first {
                first.put(tree, b"a", &i64::to_le_bytes(left)).unwrap();
            }
            first.commit().unwrap();
            seen
        });
        while db.locks().iter().all(|lock| lock.waiting_since.is_none()) {
            thread::yield_now();
        }
        let seen = second.get(tree, b"a");
        assert_eq!(waits.join().unwrap().unwrap(), 19);
        if second_commits {
            assert_eq!(seen.unwrap(), Some(i64::to_le_bytes(14).to_vec()));
            // The lock is older than the savepoint, as the change is.
            second.rollback_to(savepoint).unwrap();
            assert!(matches!(
                add(&mut begin(&db, Isolation::ReadCommitted), tree, "a", 1),
                Err(Error::LockTimeout)
            ));
            second.commit().unwrap();
            assert_eq!(now(&db, tree, "a"), 14);
        } else {
            assert!(matches!(seen, Err(Error::Deadlock)), "{seen:?}");
            assert!(matches!(second.rollback_to(savepoint), Err(Error::Deadlock)));
            assert!(matches!(second.commit(), Err(Error::Deadlock)));
            assert_eq!(now(&db, tree, "a"), 4);
        }
    }
}

/// Where a key was found counts only while no leaf is split or merged: others do both, between what a transaction does
/// to a key and its commit.
#[test]
fn leaves_are_split_and_merged_between_an_operation_and_its_commit() {
    let db = database();
    let key = |number: u64| format!("{number:06}");
    let keys: Vec<String> = (0..200).map(|number| key(number * 1000)).collect();
    let tree = tree_with(&db, &keys.iter().map(|key| (key.as_str(), 1)).collect::<Vec<_>>());
    let mut rng = Rng::from_seed(3);
    let mut added = BTreeMap::<String, i64>::new();
    for round in 0..60 {
        let mut txn = begin(&db, Isolation::ReadCommitted);
        for _ in 0..4 {
            let key = &keys[rng.below(200) as usize];
            assert_eq!(add(&mut txn, tree, key, 1).unwrap(), Applied::Done);
            *added.entry(key.clone()).or_default() += 1;
        }
        let new = key(rng.below(200) * 1000 + 1 + round);
        txn.put(tree, new.as_bytes(), &7_i64.to_le_bytes()).unwrap();
        added.insert(new, 6);
        // Rows of 100 bytes split leaves, and leave few in each when they are gone.
        let mut other = begin(&db, Isolation::ReadCommitted);
        for number in 0..2000 {
            let key = key(number * 100 + 99);
            match round % 2 {
                0 => other.put(tree, key.as_bytes(), &[b'x'; 100]).unwrap(),
                _ => assert!(other.delete(tree, key.as_bytes()).unwrap()),
            }
        }
        other.commit().unwrap();
        txn.commit().unwrap();
    }
    for (key, sum) in &added {
        assert_eq!(now(&db, tree, key), 1 + sum, "{key}");
    }
}

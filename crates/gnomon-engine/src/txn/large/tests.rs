//! `GNOMON_LARGE_ROWS` sets how many rows the largest transaction has.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::*;
use crate::*;
use crate::{
    Database, Direction, KeyRange, Options, RowLock, Savepoint, TreeLock, TxnOptions,
    disk::{Disk, MemDisk, SimDisk},
    env::Rng,
    store::GroupCommit,
    sync::{Arc, thread},
    verify,
};

/// A database in which transactions of more than `escalate_bytes` are large.
fn open(disk: &dyn CloneDisk, escalate_bytes: usize) -> Database {
    let options = Options { pool_bytes: 512 << 10, escalate_bytes, seed: Some(1), ..Options::shadow() };
    Database::open_on(disk.share(), options).unwrap()
}

/// A disk that is left behind by the database on it.
trait CloneDisk {
    fn share(&self) -> Arc<dyn Disk>;
}

impl CloneDisk for Arc<MemDisk> {
    fn share(&self) -> Arc<dyn Disk> {
        self.clone()
    }
}

impl CloneDisk for SimDisk {
    fn share(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }
}

fn begin(db: &Database, isolation: Isolation) -> Transaction {
    let lock_timeout = Some(Duration::ZERO);
    db.begin(TxnOptions { isolation, lock_timeout, ..TxnOptions::default() }).unwrap()
}

fn plain(db: &Database) -> Transaction {
    begin(db, Isolation::ReadCommitted)
}

fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value[..8].try_into().unwrap())
}

fn value(amount: i64, bytes: usize) -> Vec<u8> {
    let mut value = vec![7; bytes.max(8)];
    value[..8].copy_from_slice(&amount.to_le_bytes());
    value
}

fn make_tree(db: &Database, rows: u64, amount: i64) -> TreeId {
    let mut txn = plain(db);
    let tree = txn.create_tree().unwrap();
    for row in 0..rows {
        txn.put(tree, &key(row), &value(amount, 100)).unwrap();
    }
    txn.commit().unwrap();
    tree
}

/// How many rows a scan finds, and their sum.
fn sum(txn: &mut Transaction, tree: TreeId) -> Result<(u64, i64)> {
    let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward)?;
    let mut found = (0, 0);
    while let Some((_, value)) = cursor.next(txn)? {
        found = (found.0 + 1, found.1 + number(&value));
    }
    Ok(found)
}

/// No state is pinned, no lock held, and no space out of reach: but for what the background thread is at.
fn check_nothing_is_left(db: &Database) {
    let inner = &db.0.inner;
    let mut left = None;
    for _ in 0..1000 {
        inner.store.as_shadow().flush().unwrap();
        inner.prune();
        let (taken, reachable) = inner.store.as_shadow().taken_and_reachable();
        left = Some((taken - reachable, db.stats().held_pages));
        if left == Some((0, 0)) {
            break;
        }
        thread::yield_now();
    }
    assert_eq!(left, Some((0, 0)), "space is out of reach and not free, or held");
    assert!(db.locks().is_empty(), "{:?}", db.locks());
}

fn check_sound(disk: impl Into<crate::disk::DiskSet>) {
    let report = verify(disk, &mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

fn rows() -> u64 {
    std::env::var("GNOMON_LARGE_ROWS").map_or(30_000, |rows| rows.parse().expect("a number"))
}

/// Tells other threads to end, after a panic too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Loads far more rows than the pool and the transaction's memory hold, and changes what is there, while others read at
/// snapshots, and write other trees.
#[test]
fn a_transaction_far_beyond_memory_is_one_transaction() {
    let rows = rows();
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 64 << 10);
    let accounts = make_tree(&db, 2000, 10);
    let other = make_tree(&db, 10, 0);
    let done = AtomicBool::new(false);
    let used_before = {
        check_nothing_is_left(&db);
        db.stats().used_pages
    };
    for commit in [false, true] {
        done.store(false, Ordering::SeqCst);
        let before = (2000, 20_000);
        let after = if commit { (2000 + rows, 20_000) } else { before };
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut old, mut new) = (0, 0);
                loop {
                    let last = done.load(Ordering::SeqCst);
                    for read_only in [false, true] {
                        let isolation = Isolation::Snapshot;
                        let mut txn =
                            db.begin(TxnOptions { isolation, read_only, ..TxnOptions::default() }).unwrap();
                        let first = sum(&mut txn, accounts).unwrap();
                        assert!(first == before || first == after, "{first:?}");
                        assert_eq!(sum(&mut txn, accounts).unwrap(), first, "a snapshot has changed");
                        (old, new) = (old + u64::from(first == before), new + u64::from(first == after));
                    }
                    if last {
                        return (old, new);
                    }
                }
            });
            let writer = scope.spawn(|| {
                let mut commits = 0;
                while !done.load(Ordering::SeqCst) {
                    let mut txn = plain(&db);
                    txn.put(other, &key(commits % 10), &value(commits as i64, 8)).unwrap();
                    txn.commit().unwrap();
                    commits += 1;
                }
                commits
            });
            let stop = Stop(&done);
            let mut old = begin(&db, Isolation::Snapshot);
            old.get(accounts, &key(0)).unwrap();
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            for row in 0..rows {
                // Neither in their order nor next to each other, with those that are there in between.
                let row = row * 7919 % rows;
                txn.insert(accounts, &key(10_000 + row), &value(0, 150)).unwrap();
                if row.is_multiple_of(16) {
                    // Moves something from one account to another.
                    let (from, to) = (row / 16 % 2000, (row / 16 + 999) % 2000);
                    for (account, change) in [(from, -1), (to, 1)] {
                        let old =
                            txn.get_locked(accounts, &key(account), RowLock::Exclusive).unwrap().unwrap();
                        txn.put(accounts, &key(account), &value(number(&old) + change, 100)).unwrap();
                    }
                }
                assert!(memory_bytes(txn.core()) <= 65 << 10);
            }
            assert!(matches!(txn.insert(accounts, &key(10_000), b""), Err(Error::KeyExists)));
            assert_eq!(sum(&mut txn, accounts).unwrap(), (2000 + rows, 20_000));
            assert!(
                txn.core().has_pages() && txn.core().is_large(accounts) && txn.core().locks.held_count() < 4
            );
            match commit {
                true => drop(txn.commit().unwrap()),
                false => txn.rollback(),
            }
            assert_eq!(sum(&mut old, accounts).unwrap(), before);
            assert!(matches!(old.put(accounts, &key(3), b"x"), Err(Error::Serialization(_))) == commit);
            drop(old);
            drop(stop);
            let (old, new) = reader.join().unwrap();
            assert!(old > 0 && new > 0, "{old} {new}");
            assert!(writer.join().unwrap() > 5);
        });
        check_nothing_is_left(&db);
        if !commit {
            // But for a level of the page table.
            assert!(db.stats().used_pages <= used_before + 1, "everything was given back");
        }
    }
    let stats = db.stats();
    assert!(stats.pool_bytes <= stats.pool_bytes_max, "{stats:?}");
    assert_eq!(sum(&mut plain(&db), accounts).unwrap(), (2000 + rows, 20_000));
    // Small changes go on from there.
    let mut old = begin(&db, Isolation::Snapshot);
    old.get(accounts, &key(0)).unwrap();
    for row in 0..50 {
        let mut txn = plain(&db);
        txn.delete(accounts, &key(10_000 + row)).unwrap();
        txn.commit().unwrap();
    }
    assert_eq!(sum(&mut old, accounts).unwrap(), (2000 + rows, 20_000));
    assert_eq!(sum(&mut plain(&db), accounts).unwrap(), (1950 + rows, 20_000));
    drop(old);
    check_nothing_is_left(&db);
    db.close().unwrap();
    drop(db);
    check_sound(&*disk);
    let db = open(&disk, 64 << 10);
    assert_eq!(sum(&mut plain(&db), accounts).unwrap(), (1950 + rows, 20_000));
}

type Contents = BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>;

fn contents(txn: &mut Transaction, trees: &Contents, direction: Direction) -> Contents {
    let mut found = Contents::new();
    for &tree in trees.keys() {
        let mut cursor = txn.scan(tree, KeyRange::all(), direction).unwrap();
        let mut entries = Vec::new();
        while let Some(entry) = cursor.next(txn).unwrap() {
            entries.push(entry);
        }
        let sorted = entries.windows(2).all(|pair| match direction {
            Direction::Forward => pair[0].0 < pair[1].0,
            Direction::Backward => pair[0].0 > pair[1].0,
        });
        assert!(sorted, "in the order of keys");
        found.insert(tree, entries.into_iter().collect());
    }
    found
}

/// Says where two contents differ, in few words.
#[track_caller]
fn assert_same(found: &Contents, expected: &Contents, seed: u64) {
    for (tree, entries) in expected {
        let keys: std::collections::BTreeSet<_> = entries.keys().chain(found[tree].keys()).collect();
        for key in keys {
            let short = |value: Option<&Vec<u8>>| value.map(|value| (value.len(), value.first().copied()));
            let (now, then) = (found[tree].get(key), entries.get(key));
            assert!(now == then, "seed {seed}, {tree}, {key:?}: {:?}, not {:?}", short(now), short(then));
        }
    }
}

/// Transactions of random operations on several trees, with savepoints, do what maps do, whatever part of them is on
/// pages; and what older snapshots read does not change.
#[test]
fn behaves_as_maps_do_whatever_is_on_pages() {
    let mut large = 0;
    for seed in 0..40 {
        let mut rng = Rng::from_seed(seed);
        let disk = Arc::new(MemDisk::new());
        let db = open(&disk, [600, 3000, 12_000][rng.below(3) as usize]);
        let mut committed: Contents = (0..2).map(|_| (make_tree(&db, 0, 0), BTreeMap::new())).collect();
        let mut snapshots: Vec<(Transaction, Contents)> = Vec::new();
        for _ in 0..6 {
            let isolation = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]
                [rng.below(3) as usize];
            let mut txn = begin(&db, isolation);
            let mut now = committed.clone();
            let mut savepoints: Vec<(Savepoint, Contents)> = Vec::new();
            for _ in 0..rng.below(160) {
                let trees: Vec<TreeId> = now.keys().copied().collect();
                let tree = trees[rng.below(trees.len() as u64) as usize];
                let entry = vec![b'k'; rng.below(40) as usize]
                    .into_iter()
                    .chain([rng.below(120) as u8])
                    .collect::<Vec<u8>>();
                match rng.below(40) {
                    0..18 => {
                        let len = [20, 100, 900, 9000][rng.below(4).min(rng.below(4)) as usize];
                        let value = vec![rng.below(256) as u8; len];
                        txn.put(tree, &entry, &value).unwrap();
                        now.get_mut(&tree).unwrap().insert(entry, value);
                    }
                    18..22 => {
                        let present = now[&tree].contains_key(&entry);
                        match txn.insert(tree, &entry, b"inserted") {
                            Ok(()) => assert!(!present),
                            Err(error) => assert!(present && matches!(error, Error::KeyExists)),
                        }
                        now.get_mut(&tree).unwrap().entry(entry).or_insert_with(|| b"inserted".to_vec());
                    }
                    22..27 => {
                        let was = now.get_mut(&tree).unwrap().remove(&entry).is_some();
                        assert_eq!(txn.delete(tree, &entry).unwrap(), was);
                    }
                    27 => drop(now.insert(txn.create_tree().unwrap(), BTreeMap::new())),
                    // Readers of snapshots are waited for.
                    28 if now.len() > 3 && snapshots.is_empty() => {
                        txn.drop_tree(tree).unwrap();
                        now.remove(&tree);
                    }
                    29..32 => savepoints.push((txn.savepoint(), now.clone())),
                    32 if !savepoints.is_empty() => {
                        let at = rng.below(savepoints.len() as u64) as usize;
                        savepoints.truncate(at + 1);
                        txn.rollback_to(savepoints[at].0).unwrap();
                        now = savepoints[at].1.clone();
                    }
                    33 if !savepoints.is_empty() => {
                        let at = rng.below(savepoints.len() as u64) as usize;
                        txn.release_savepoint(savepoints[at].0).unwrap();
                        savepoints.truncate(at);
                    }
                    34 => {
                        // A scan that goes on while what it passes is changed.
                        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
                        let mut last = None;
                        while let Some((found, old)) = cursor.next(&mut txn).unwrap() {
                            let entries = now.get_mut(&tree).unwrap();
                            let after = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                            let next = entries.range::<Vec<u8>, _>((after, Bound::Unbounded)).next();
                            let next = next.map(|(key, value)| (key.clone(), value.clone()));
                            assert_eq!(next.as_ref(), Some(&(found.clone(), old)), "seed {seed}");
                            txn.put(tree, &found, b"scanned").unwrap();
                            entries.insert(found.clone(), b"scanned".to_vec());
                            if rng.chance(1, 3) {
                                let ahead = [&found[..], b"\x01"].concat();
                                txn.put(tree, &ahead, &[9; 200]).unwrap();
                                entries.insert(ahead, vec![9; 200]);
                            }
                            last = Some(found);
                            if rng.chance(1, 20) {
                                break;
                            }
                        }
                    }
                    35 => {
                        let direction =
                            if rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
                        assert_same(&contents(&mut txn, &now, direction), &now, seed);
                    }
                    36 => txn.start_statement().unwrap(),
                    _ => assert_eq!(
                        txn.get(tree, &entry).unwrap().as_ref(),
                        now[&tree].get(&entry),
                        "seed {seed}"
                    ),
                }
            }
            assert_same(&contents(&mut txn, &now, Direction::Forward), &now, seed);
            large += u64::from(txn.core().has_pages());
            if rng.chance(1, 4) {
                txn.rollback();
            } else {
                txn.commit().unwrap();
                committed = now;
            }
            assert_same(&contents(&mut plain(&db), &committed, Direction::Forward), &committed, seed);
            for (reader, seen) in &mut snapshots {
                assert_same(&contents(reader, seen, Direction::Backward), seen, seed);
            }
            if rng.chance(1, 2) {
                let mut reader = begin(&db, Isolation::Snapshot);
                reader.start_statement().unwrap();
                snapshots.push((reader, committed.clone()));
            }
            if rng.chance(1, 5) {
                snapshots.clear();
            }
        }
        drop(snapshots);
        check_nothing_is_left(&db);
        db.close().unwrap();
        drop(db);
        check_sound(&*disk);
        let db = open(&disk, 600);
        assert_same(&contents(&mut plain(&db), &committed, Direction::Forward), &committed, seed);
    }
    assert!(large > 80, "{large}");
}

#[test]
fn a_tree_that_is_locked_as_a_whole_is_read_by_everybody_at_snapshots() {
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 2000);
    let tree = make_tree(&db, 100, 1);
    let mut txn = plain(&db);
    let early = txn.savepoint();
    for row in 0..40 {
        txn.put(tree, &key(row), &value(2, 100)).unwrap();
    }
    assert!(txn.core().is_large(tree) && txn.core().has_pages());
    let check = |blocked: bool| {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
            assert_eq!(sum(&mut begin(&db, isolation), tree).unwrap(), (100, 100));
        }
        let is_blocked = |result: Result<()>| match result {
            Err(Error::LockTimeout) => true,
            Ok(()) => false,
            Err(error) => panic!("{error}"),
        };
        let write = plain(&db).put(tree, &key(99), b"12345678");
        let lock = plain(&db).get_locked(tree, &key(99), RowLock::Share).map(drop);
        let serial = begin(&db, Isolation::Serializable).get(tree, &key(99)).map(drop);
        let whole = plain(&db).lock_tree(tree, TreeLock::Shared);
        for result in [write, lock, serial, whole] {
            assert_eq!(is_blocked(result), blocked);
        }
    };
    check(true);
    assert_eq!(db.locks().len(), 1, "locks on keys were given back: {:?}", db.locks());
    // The lock stays, although it was taken after the savepoint: it may cover what was changed before.
    txn.rollback_to(early).unwrap();
    check(true);
    assert_eq!(sum(&mut txn, tree).unwrap(), (100, 100));
    txn.put(tree, &key(5), &value(3, 8)).unwrap();
    assert_eq!(sum(&mut txn, tree).unwrap(), (100, 102));
    drop(txn);
    check(false);
    // A transaction that has only read does not block readers.
    let mut reader = begin(&db, Isolation::Serializable);
    assert_eq!(sum(&mut reader, tree).unwrap(), (100, 100));
    assert!(
        !reader.core().is_large(tree) && reader.core().locks.held_count() < 30,
        "{}",
        reader.core().locks.held_count()
    );
    assert!(begin(&db, Isolation::Serializable).get(tree, &key(3)).is_ok());
    assert!(matches!(plain(&db).put(tree, &key(200), b"new"), Err(Error::LockTimeout)));
}

/// A transaction that cannot lock the whole tree goes on with locks on keys for a while, and then waits.
#[test]
fn others_are_waited_for_when_memory_is_twice_what_it_should_be() {
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 10_000);
    let tree = make_tree(&db, 100, 1);
    let mut other = plain(&db);
    other.put(tree, &key(99), &value(1, 8)).unwrap();
    let mut txn = plain(&db);
    let error = (0..100).find_map(|row| txn.put(tree, &key(row), &value(1, 100)).err());
    assert!(matches!(error, Some(Error::LockTimeout)), "{error:?}");
    let bytes = memory_bytes(txn.core());
    assert!((20_000..22_000).contains(&bytes), "{bytes}");
    other.commit().unwrap();
    txn.put(tree, &key(99), &value(1, 100)).unwrap();
    assert!(txn.core().is_large(tree));
    txn.commit().unwrap();
    check_nothing_is_left(&db);
}

/// A statement under READ COMMITTED that locks a tree for want of memory goes on to see what it saw when it began.
#[test]
fn a_statement_sees_nothing_newer_when_the_tree_is_locked() {
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 4000);
    let tree = make_tree(&db, 200, 1);
    let mut txn = plain(&db);
    txn.start_statement().unwrap();
    let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
    let mut found = vec![cursor.next(&mut txn).unwrap().unwrap()];
    let mut other = plain(&db);
    for row in 150..154 {
        other.put(tree, &key(row), &value(50, 8)).unwrap();
        other.put(tree, &key(row + 100), &value(50, 8)).unwrap();
        other.delete(tree, &key(row - 10)).unwrap();
    }
    assert!(!other.core().is_large(tree));
    other.commit().unwrap();
    // It sees what it writes itself, also where others have written since its snapshot.
    txn.put(tree, &key(199), &value(7, 8)).unwrap();
    txn.put(tree, &key(152), &value(9, 8)).unwrap();
    while let Some((row, old)) = cursor.next(&mut txn).unwrap() {
        if found.len() < 100 {
            txn.put(tree, &row, &value(number(&old) + 1, 100)).unwrap();
        }
        found.push((row, old));
    }
    assert!(txn.core().is_large(tree));
    let found: i64 = found.iter().map(|(_, value)| number(value)).sum();
    assert_eq!(found, 198 + 7 + 9);
    assert!(txn.get(tree, &key(250)).unwrap().is_none());
    txn.start_statement().unwrap();
    assert!(txn.get(tree, &key(250)).unwrap().is_some() && txn.get(tree, &key(140)).unwrap().is_none());
    assert_eq!(number(&txn.get(tree, &key(152)).unwrap().unwrap()), 9);
    assert_eq!(number(&txn.get(tree, &key(153)).unwrap().unwrap()), 50);
    txn.commit().unwrap();
    check_nothing_is_left(&db);
}

#[test]
fn a_full_disk_fails_the_large_transaction_only() {
    let disk = SimDisk::new(1);
    let db = open(&disk, 32 << 10);
    let tree = make_tree(&db, 100, 1);
    check_nothing_is_left(&db);
    let used = db.stats().used_pages;
    disk.full_after(Some(6 << 20));
    let mut txn = plain(&db);
    let savepoint = {
        for row in 0..500 {
            txn.put(tree, &key(1000 + row), &value(0, 200)).unwrap();
        }
        txn.savepoint()
    };
    let error = (0..100_000).find_map(|row| txn.put(tree, &key(10_000 + row), &value(0, 500)).err());
    assert!(matches!(error, Some(Error::DiskFull)), "{error:?}");
    // Back to the savepoint it can go on, and others can, too.
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(sum(&mut txn, tree).unwrap(), (600, 100));
    let mut other = plain(&db);
    let small = other.create_tree().unwrap();
    other.put(small, b"small", b"1").unwrap();
    other.commit().unwrap();
    txn.commit().unwrap();
    assert_eq!(sum(&mut plain(&db), tree).unwrap(), (600, 100));
    check_nothing_is_left(&db);
    let mut txn = plain(&db);
    let error = (0..100_000).find_map(|row| txn.put(tree, &key(10_000 + row), &value(0, 500)).err());
    assert!(matches!(error, Some(Error::DiskFull)), "{error:?}");
    txn.rollback();
    check_nothing_is_left(&db);
    assert!(db.stats().used_pages < used + 100);
    db.close().unwrap();
    drop(db);
    check_sound(&disk);
}

#[test]
fn a_large_transaction_is_not_prepared() {
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 1000);
    let tree = make_tree(&db, 10, 1);
    let mut txn = plain(&db);
    for row in 0..30 {
        txn.put(tree, &key(row), &value(2, 100)).unwrap();
    }
    assert!(matches!(txn.prepare("gid", b""), Err(Error::CannotPrepare(_))));
    assert_eq!(sum(&mut plain(&db), tree).unwrap(), (10, 10));
    check_nothing_is_left(&db);
}

/// A tree that a transaction makes itself needs no lock and no second state: loading a new tree pins nothing.
#[test]
fn a_tree_of_its_own_is_made_on_pages() {
    let disk = Arc::new(MemDisk::new());
    let db = open(&disk, 20_000);
    let mut txn = plain(&db);
    let [dropped, kept] = [(); 2].map(|()| txn.create_tree().unwrap());
    for row in 0..2000 {
        for tree in [dropped, kept] {
            txn.insert(tree, &key(row * 7 % 2000), &value(1, 100)).unwrap();
        }
    }
    assert!(txn.core().is_large(dropped) && txn.core().is_large(kept) && txn.core().locks.held_count() == 0);
    txn.drop_tree(dropped).unwrap();
    assert_eq!(sum(&mut txn, kept).unwrap(), (2000, 2000));
    txn.settle().unwrap();
    txn.put(kept, &key(5000), &value(1, 8)).unwrap();
    txn.commit().unwrap();
    assert_eq!(sum(&mut plain(&db), kept).unwrap(), (2001, 2001));
    assert!(matches!(plain(&db).get(dropped, b"k"), Err(Error::NoSuchTree(_))));
    check_nothing_is_left(&db);
    db.close().unwrap();
    drop(db);
    check_sound(&*disk);
}

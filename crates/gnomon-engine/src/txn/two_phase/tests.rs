use std::{ops::Bound, time::Duration};

use super::*;
use crate::*;
use crate::{
    Direction, Isolation, KeyRange, Options, Recovery, RowLock, TreeId, TreeLock, TxnOptions, disk::SimDisk,
    env::Rng, sync::thread, verify,
};

fn open(disk: &SimDisk) -> Database {
    let options = Options { pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    Database::open_on(Arc::new(disk.clone()), options).unwrap()
}

/// Opens what a crash leaves.
fn reopen(disk: &SimDisk) -> (SimDisk, Database) {
    let image = disk.crash_image_synced();
    let db = open(&image);
    (image, db)
}

/// A database with a tree that has the keys 10, 20 and 30.
fn world() -> (SimDisk, Database, TreeId) {
    world_of(None)
}

/// The same, that recovers by shadow paging: what is prepared has its space, and pages can be written by hand.
fn shadow_world() -> (SimDisk, Database, TreeId) {
    world_of(Some(Recovery::Shadow))
}

fn world_of(recovery: Option<Recovery>) -> (SimDisk, Database, TreeId) {
    let disk = SimDisk::new(1);
    let options = Options { recovery, pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    let db = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    for key in [10, 20, 30] {
        txn.put(tree, &[key], b"old").unwrap();
    }
    txn.commit().unwrap();
    (disk, db, tree)
}

fn begin(db: &Database, isolation: Isolation) -> Transaction {
    db.begin(TxnOptions { isolation, lock_timeout: Some(Duration::ZERO), ..TxnOptions::default() }).unwrap()
}

fn committed(db: &Database) -> Transaction {
    begin(db, Isolation::ReadCommitted)
}

fn keys(txn: &mut Transaction, tree: TreeId, range: KeyRange) -> Result<Vec<u8>> {
    let mut cursor = txn.scan(tree, range, Direction::Forward)?;
    let mut found = Vec::new();
    while let Some((key, _)) = cursor.next(txn)? {
        found.push(key[0]);
    }
    Ok(found)
}

fn between(start: u8, end: u8) -> KeyRange {
    KeyRange { start: Bound::Included(vec![start]), end: Bound::Excluded(vec![end]) }
}

fn blocked<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::LockTimeout))
}

fn gids(db: &Database) -> Vec<String> {
    db.prepared().unwrap().into_iter().map(|info| info.gid).collect()
}

/// Prepares a change, an insert and a delete.
fn prepare(db: &Database, tree: TreeId, gid: &str) {
    let mut txn = committed(db);
    txn.put(tree, &[10], b"new").unwrap();
    txn.insert(tree, &[15], b"new").unwrap();
    txn.delete(tree, &[30]).unwrap();
    assert!(txn.prepare(gid, b"a note").unwrap() <= db.durable_csn());
}

#[test]
fn a_prepared_transaction_waits_with_its_locks_and_ends_when_told() {
    for (commit, crash) in [(true, false), (true, true), (false, false), (false, true)] {
        let (disk, db, tree) = world();
        prepare(&db, tree, "one");
        let (_image, db) = if crash { reopen(&disk) } else { (disk, db) };
        let infos = db.prepared().unwrap();
        assert_eq!((infos[0].gid.as_str(), &infos[0].note[..]), ("one", &b"a note"[..]));
        assert!(db.locks().iter().all(|lock| lock.txn == infos[0].txn));
        // Nothing is seen of it.
        assert_eq!(keys(&mut committed(&db), tree, KeyRange::all()).unwrap(), [10, 20, 30]);
        for key in [10, 15, 30] {
            assert!(blocked(committed(&db).put(tree, &[key], b"x")), "key {key}");
        }
        committed(&db).put(tree, &[20], b"x").unwrap();
        // A scan that must not miss its insert waits for it.
        assert!(blocked(keys(&mut begin(&db, Isolation::Serializable), tree, between(11, 19))));
        assert!(blocked(committed(&db).lock_tree(tree, TreeLock::Shared)));
        match commit {
            true => db.commit_prepared("one").unwrap(),
            false => db.rollback_prepared("one").unwrap(),
        };
        assert!(db.locks().is_empty() && gids(&db).is_empty());
        let mut txn = begin(&db, Isolation::Serializable);
        let (right, value) = if commit { (vec![10, 15, 20], b"new") } else { (vec![10, 20, 30], b"old") };
        assert_eq!(keys(&mut txn, tree, KeyRange::all()).unwrap(), right);
        assert_eq!(txn.get(tree, &[10]).unwrap().as_deref(), Some(&value[..]));
        assert!(matches!(db.commit_prepared("one"), Err(Error::NoSuchGid(_))));
    }
}

#[test]
fn the_ranges_that_it_read_stay_locked_across_a_crash() {
    let (disk, db, tree) = world();
    let mut txn = begin(&db, Isolation::Serializable);
    assert_eq!(keys(&mut txn, tree, between(12, 25)).unwrap(), [20]);
    assert_eq!(txn.get(tree, &[200]).unwrap(), None);
    txn.insert(tree, &[17], b"own").unwrap();
    txn.prepare("reader", b"").unwrap();
    let (_image, db) = reopen(&disk);
    for key in [12, 16, 18, 20, 24, 200] {
        assert!(blocked(committed(&db).put(tree, &[key], b"x")), "key {key}");
    }
    for key in [5, 31, 199, 201] {
        committed(&db).put(tree, &[key], b"x").unwrap();
    }
    assert_eq!(committed(&db).get_locked(tree, &[20], RowLock::Share).unwrap().as_deref(), Some(&b"old"[..]));
    db.rollback_prepared("reader").unwrap();
    committed(&db).put(tree, &[16], b"x").unwrap();
}

/// A transaction that has written nothing is prepared for its locks.
#[test]
fn what_was_only_read_or_locked_is_prepared_too() {
    let (disk, db, tree) = world();
    let read_only =
        TxnOptions { isolation: Isolation::Serializable, read_only: true, ..TxnOptions::default() };
    let mut txn = db.begin(read_only).unwrap();
    txn.get(tree, &[10]).unwrap();
    txn.prepare("read", b"").unwrap();
    let mut txn = committed(&db);
    txn.get_locked(tree, &[20], RowLock::Exclusive).unwrap();
    txn.lock_tree(tree, TreeLock::IntentionExclusive).unwrap();
    txn.prepare("locked", b"").unwrap();
    committed(&db).prepare("empty", b"").unwrap();
    let (_image, db) = reopen(&disk);
    assert_eq!(gids(&db), ["empty", "locked", "read"]);
    assert!(blocked(committed(&db).put(tree, &[10], b"x")));
    assert!(blocked(committed(&db).get_locked(tree, &[20], RowLock::Share)));
    assert!(blocked(committed(&db).drop_tree(tree)));
    for gid in ["empty", "read", "locked"] {
        db.commit_prepared(gid).unwrap();
    }
    committed(&db).drop_tree(tree).unwrap();
}

/// A share admits an update that comes after it, and not the other way round. Which transaction comes first by name
/// must not matter when they are taken over.
#[test]
fn a_share_and_an_update_are_both_held_after_a_crash() {
    for gids in [["a", "b"], ["b", "a"]] {
        let (disk, db, tree) = world();
        for (gid, lock) in gids.into_iter().zip([RowLock::Share, RowLock::Update]) {
            let mut txn = committed(&db);
            txn.get_locked(tree, &[10], lock).unwrap();
            txn.prepare(gid, b"").unwrap();
        }
        let (_image, db) = reopen(&disk);
        assert!(blocked(committed(&db).get_locked(tree, &[10], RowLock::Share)));
        db.commit_prepared(gids[1]).unwrap();
        committed(&db).get_locked(tree, &[10], RowLock::Share).unwrap();
        assert!(blocked(committed(&db).put(tree, &[10], b"x")));
    }
}

/// Of two that change the same key the first to commit wins, also if it is prepared in between.
#[test]
fn snapshots_do_not_see_it_and_do_not_overwrite_it() {
    let (disk, db, tree) = world();
    let patient = || TxnOptions { isolation: Isolation::Snapshot, ..TxnOptions::default() };
    let mut loser = begin(&db, Isolation::Snapshot);
    loser.get(tree, &[20]).unwrap();
    let mut waiter = db.begin(patient()).unwrap();
    waiter.get(tree, &[20]).unwrap();
    let mut first = begin(&db, Isolation::Snapshot);
    first.put(tree, &[10], b"first").unwrap();
    first.prepare("first", b"").unwrap();
    assert!(blocked(loser.put(tree, &[10], b"lost")));
    let writer = thread::spawn(move || waiter.put(tree, &[10], b"lost").err());
    db.commit_prepared("first").unwrap();
    assert!(matches!(writer.join().unwrap(), Some(Error::Serialization(_))));
    assert!(matches!(loser.put(tree, &[10], b"lost"), Err(Error::Serialization(_))));
    assert_eq!(loser.get(tree, &[10]).unwrap().as_deref(), Some(&b"old"[..]));
    drop(loser);
    // And with a crash in between, after which every snapshot is new.
    let mut second = begin(&db, Isolation::Snapshot);
    second.put(tree, &[10], b"second").unwrap();
    second.prepare("second", b"").unwrap();
    let (_image, db) = reopen(&disk);
    let mut late = begin(&db, Isolation::Snapshot);
    assert_eq!(late.get(tree, &[10]).unwrap().as_deref(), Some(&b"first"[..]));
    db.commit_prepared("second").unwrap();
    assert_eq!(late.get(tree, &[10]).unwrap().as_deref(), Some(&b"first"[..]));
    assert!(matches!(late.put(tree, &[10], b"lost"), Err(Error::Serialization(_))));
}

/// The waiting thread may be the one that is to end what is prepared.
#[test]
fn a_serializable_transaction_does_not_wait_for_ever() {
    let (disk, db, tree) = world();
    let patient = || TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
    let mut reader = begin(&db, Isolation::Serializable);
    keys(&mut reader, tree, KeyRange::all()).unwrap();
    reader.prepare("reader", b"").unwrap();
    let mut writer = db.begin(patient()).unwrap();
    assert!(matches!(writer.put(tree, &[15], b"x"), Err(Error::Serialization(Conflict::Prepared))));
    drop(writer);
    let (_image, db) = reopen(&disk);
    let mut writer = db.begin(patient()).unwrap();
    assert!(matches!(writer.put(tree, &[15], b"x"), Err(Error::Serialization(Conflict::Prepared))));
    drop(writer);
    let mut writer = db.begin(patient()).unwrap();
    let waits = thread::spawn(move || writer.put(tree, &[15], b"x"));
    db.commit_prepared("reader").unwrap();
    waits.join().unwrap().unwrap();
}

#[test]
fn what_cannot_be_prepared_is_rolled_back() {
    let (_disk, db, tree) = world();
    prepare(&db, tree, "taken");
    let changed = || {
        let mut txn = committed(&db);
        txn.put(tree, &[20], b"x").unwrap();
        txn
    };
    assert!(matches!(changed().prepare("taken", b""), Err(Error::GidInUse(_))));
    let long = "é".repeat(100);
    assert!(matches!(changed().prepare(&long, b""), Err(Error::GidTooLong { bytes: 200 })));
    assert!(matches!(changed().prepare("noted", &[0; NOTE_BYTES_MAX + 1]), Err(Error::BadOption(_))));
    let mut making = changed();
    making.create_tree().unwrap();
    assert!(matches!(making.prepare("making", b""), Err(Error::CannotPrepare(_))));
    let mut savepoint = changed();
    let before = savepoint.savepoint();
    savepoint.create_tree().unwrap();
    savepoint.rollback_to(before).unwrap();
    savepoint.prepare(&long[2..], &[0; NOTE_BYTES_MAX]).unwrap();
    db.commit_prepared(&long[2..]).unwrap();
    changed().rollback();
    assert_eq!(gids(&db), ["taken"]);
    assert!(matches!(db.rollback_prepared("other"), Err(Error::NoSuchGid(_))));
    db.close().unwrap();
    assert!(matches!(db.commit_prepared("taken"), Err(Error::Closed)));
}

#[test]
fn there_are_so_many_and_no_more() {
    let disk = SimDisk::new(1);
    let limited = |prepared_max| {
        let options = Options { pool_bytes: 1 << 20, seed: Some(1), prepared_max, ..Options::default() };
        Database::open_on(Arc::new(disk.clone()), options).unwrap()
    };
    let db = limited(2);
    for gid in ["a", "b"] {
        committed(&db).prepare(gid, b"").unwrap();
    }
    assert!(matches!(committed(&db).prepare("c", b""), Err(Error::TooManyPrepared { max: 2 })));
    drop(db);
    // With a lower limit those that are there stay.
    let db = limited(0);
    assert_eq!(gids(&db), ["a", "b"]);
    db.commit_prepared("a").unwrap();
    assert!(matches!(committed(&db).prepare("c", b""), Err(Error::TooManyPrepared { max: 0 })));
}

#[test]
fn whoever_has_it_can_let_it_go_again() {
    let (_disk, db, tree) = world();
    prepare(&db, tree, "one");
    let claimed = db.claim_prepared("one").unwrap();
    assert_eq!(claimed.info().note, b"a note");
    assert!(matches!(db.commit_prepared("one"), Err(Error::GidBusy(_))));
    assert!(matches!(committed(&db).prepare("one", b""), Err(Error::GidInUse(_))));
    assert_eq!(gids(&db), ["one"]);
    drop(claimed);
    assert!(blocked(committed(&db).put(tree, &[10], b"x")));
    let ticket = db.claim_prepared("one").unwrap().commit_ticket().unwrap();
    // Nothing tells that it is gone before that is durable.
    assert_eq!(gids(&db), [""; 0]);
    assert!(ticket.is_durable().unwrap());
}

/// Larger than a part of an entry, than the pool and than what one batch lists.
#[test]
fn a_large_transaction_survives_in_parts() {
    let (disk, db, tree) = world();
    let mut rng = Rng::from_seed(3);
    let mut txn = begin(&db, Isolation::Serializable);
    let mut right = Vec::new();
    for number in 0..3000_u32 {
        let value = vec![number as u8; rng.below(2000) as usize];
        txn.put(tree, &[&[40][..], &number.to_be_bytes()].concat(), &value).unwrap();
        right.push(value);
    }
    txn.put(tree, &[50], &vec![5; 2 << 20]).unwrap();
    txn.prepare("large", b"").unwrap();
    for commit in [false, true] {
        let (image, db) = reopen(&disk);
        if commit {
            db.commit_prepared("large").unwrap();
            let mut txn = begin(&db, Isolation::Serializable);
            for (number, value) in (0_u32..).zip(&right) {
                let found = txn.get(tree, &[&[40][..], &number.to_be_bytes()].concat()).unwrap();
                assert_eq!(found.as_ref(), Some(value));
            }
            assert_eq!(txn.get(tree, &[50]).unwrap().map(|value| value.len()), Some(2 << 20));
        } else {
            db.rollback_prepared("large").unwrap();
            assert_eq!(keys(&mut committed(&db), tree, KeyRange::all()).unwrap(), [10, 20, 30]);
        }
        db.close().unwrap();
        drop(db);
        let report = verify(&image, &mut |_, _| ()).unwrap();
        assert_eq!(report.findings, []);
    }
}

/// The end of a prepared transaction has its space, whatever others do with the rest of the disk.
#[test]
fn a_full_disk_keeps_nobody_from_ending_it() {
    for (commit, crash) in [(true, false), (false, false), (true, true)] {
        let (disk, db, tree) = shadow_world();
        disk.full_after(Some(4 << 20));
        let mut txn = committed(&db);
        for number in 0..40 {
            txn.put(tree, &[40, number], &[7; 20_000]).unwrap();
        }
        txn.prepare("one", b"").unwrap();
        let fill = |db: &Database| {
            for number in 0..4000_u32 {
                let mut txn = committed(db);
                txn.put(tree, &[&[90][..], &number.to_be_bytes()].concat(), &[9; 3000])?;
                txn.commit()?;
            }
            Ok(())
        };
        assert!(matches!(fill(&db), Err(Error::DiskFull)));
        let mut refused = committed(&db);
        refused.put(tree, &[20], &vec![1; 1 << 20]).unwrap();
        assert!(matches!(refused.prepare("two", b""), Err(Error::DiskFull)));
        committed(&db).put(tree, &[20], b"not locked any more").unwrap();
        let (_image, db) = match crash {
            true => {
                let (image, db) = reopen(&disk);
                image.full_after(Some(0));
                assert!(matches!(fill(&db), Err(Error::DiskFull)));
                (image, db)
            }
            false => (disk, db),
        };
        match commit {
            true => db.commit_prepared("one").unwrap(),
            false => db.rollback_prepared("one").unwrap(),
        };
        let found = committed(&db).get(tree, &[40, 39]).unwrap().map(|value| value.len());
        assert_eq!(found, commit.then_some(20_000));
    }
}

/// The entry of the transaction "one", changed as a mistake of a program would, so that the pages are whole, and stored
/// under another identifier or the same.
fn with_entry(disk: &SimDisk, gid: &str, change: &dyn Fn(&mut Vec<u8>)) -> SimDisk {
    let (image, db) = reopen(disk);
    let inner = &db.0.inner;
    let mut entry = Vec::new();
    let visit = |_, _, bytes| {
        entry = bytes;
        Ok(())
    };
    inner.directory.visit_prepared(&inner.store, visit).unwrap();
    change(&mut entry);
    let pages = inner.store.as_shadow().begin(10).unwrap();
    inner.directory.set_prepared(&pages, gid, 0, Some(&entry)).unwrap();
    drop(pages);
    db.close().unwrap();
    image
}

/// Opened on a disk that has no space for it, as when the file was copied to a smaller one, it stays prepared until
/// there is some.
#[test]
fn without_space_it_stays_prepared() {
    let (disk, db, tree) = shadow_world();
    let mut txn = committed(&db);
    for number in 0..200 {
        txn.put(tree, &[40, number], &[7; 3000]).unwrap();
    }
    txn.prepare("one", b"").unwrap();
    let asks_for_too_much = |entry: &mut Vec<u8>| {
        entry[9..17].copy_from_slice(&(1_u64 << 16).to_le_bytes());
        let (bytes, sum) = entry.split_last_chunk_mut::<4>().unwrap();
        *sum = crc32c::crc32c(bytes).to_le_bytes();
    };
    let (disk, db) = (disk.crash_image_synced(), db);
    drop(db);
    disk.full_after(Some(8 << 20));
    let image = with_entry(&disk, "one", &asks_for_too_much);
    image.full_after(Some(0));
    let db = open(&image);
    assert_eq!(gids(&db), ["one"]);
    let mut number = 0_u32;
    let full = loop {
        let mut txn = committed(&db);
        txn.put(tree, &[&[90][..], &number.to_be_bytes()].concat(), &[9; 3000]).unwrap();
        match txn.commit() {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::DiskFull));
    assert!(matches!(db.commit_prepared("one"), Err(Error::DiskFull)));
    assert_eq!(gids(&db), ["one"]);
    assert!(blocked(committed(&db).put(tree, &[40, 1], b"x")));
    image.full_after(None);
    db.commit_prepared("one").unwrap();
    assert_eq!(committed(&db).get(tree, &[40, 1]).unwrap(), Some(vec![7; 3000]));
}

#[test]
fn a_damaged_entry_is_told_of_and_nothing_is_served() {
    let (disk, db, tree) = shadow_world();
    prepare(&db, tree, "one");
    open(&with_entry(&disk, "one", &|_| ()));
    for short in [true, false] {
        let image = with_entry(&disk, "one", &|entry| match short {
            true => entry.truncate(20),
            false => entry[30] ^= 1,
        });
        let opened = Database::open_on(Arc::new(image.clone()), Options::default());
        assert!(matches!(opened, Err(Error::Corrupt { .. })));
        let findings = verify(&image, &mut |_, _| ()).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.detail.contains("'one'")), "{findings:?}");
    }
    // Two that hold the same lock.
    let image = with_entry(&disk, "two", &|_| ());
    assert!(matches!(Database::open_on(Arc::new(image), Options::default()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_database_opened_for_reading_shows_it_and_locks_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path(), Options::default()).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.put(tree, &[10], b"old").unwrap();
    txn.commit().unwrap();
    prepare(&db, tree, "one");
    drop(db);
    let db = Database::open_read_only(directory.path(), Options::default()).unwrap();
    assert_eq!(gids(&db), ["one"]);
    assert_eq!(keys(&mut begin(&db, Isolation::Serializable), tree, KeyRange::all()).unwrap(), [10]);
    assert!(matches!(db.commit_prepared("one"), Err(Error::ReadOnly)));
    assert_eq!(gids(&db), ["one"]);
}

#[test]
fn the_last_key_may_be_one_that_is_prepared() {
    let (disk, db, tree) = world();
    let mut txn = committed(&db);
    txn.insert(tree, &[77], b"x").unwrap();
    txn.prepare("one", b"").unwrap();
    let (_image, db) = reopen(&disk);
    assert_eq!(committed(&db).last_key(tree).unwrap(), Some(vec![77]));
    db.rollback_prepared("one").unwrap();
    assert_eq!(committed(&db).last_key(tree).unwrap(), Some(vec![30]));
    let mut txn = committed(&db);
    txn.insert(tree, &[99], b"x").unwrap();
    assert_eq!(txn.last_key(tree).unwrap(), Some(vec![99]));
}

use super::{undo::change, *};
use crate::*;
use crate::{
    Cursor, Database, Direction, Isolation, KeyRange, Options, Recovery, TxnOptions,
    disk::{Disk, SimDisk},
    failpoint::Failpoint,
    recovery::Access,
    store::Store,
};

const TWO_LEVELS: [Strategy; 2] = [Strategy::TwoLevel, Strategy::TwoLevelDeferred];

fn open_planted(disk: &SimDisk, strategy: Strategy, planted: Option<Failpoint>) -> Database {
    let recovery = Some(Recovery::PageLog(strategy));
    let options = Options { recovery, pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    let plant = |store: &mut Store| store.failpoints().turn_on(planted);
    Database::open_store(disk.into(), options, Access::Write, plant).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(TxnOptions::default()).unwrap()
}

/// A database with two trees, of which the first has a key.
fn world(disk: &SimDisk, strategy: Strategy, planted: Option<Failpoint>) -> (Database, [TreeId; 2]) {
    let db = open_planted(disk, strategy, planted);
    let mut txn = begin(&db);
    let trees = [txn.create_tree().unwrap(), txn.create_tree().unwrap()];
    txn.put(trees[0], b"both", b"before").unwrap();
    txn.commit().unwrap();
    (db, trees)
}

/// Puts a key, in its tree at once.
fn put(txn: &mut Transaction, tree: TreeId, key: &[u8], value: &[u8]) {
    txn.put(tree, key, value).unwrap();
    txn.end_statement().unwrap();
}

fn get(db: &Database, tree: TreeId, key: &[u8]) -> Option<Vec<u8>> {
    begin(db).get(tree, key).unwrap()
}

/// Opens the state that a crash leaves.
fn reopen(disk: &SimDisk, strategy: Strategy) -> (SimDisk, Database) {
    let image = disk.crash_image_synced();
    let db = open_planted(&image, strategy, None);
    (image, db)
}

/// A transaction goes back to a savepoint, another one changes the same key and commits, and the machine stops before
/// the first has ended.
#[test]
fn what_was_taken_back_is_not_taken_back_again() {
    let found = |strategy, planted| {
        let disk = SimDisk::new(1);
        let (db, [tree, _]) = world(&disk, strategy, planted);
        let mut first = begin(&db);
        put(&mut first, tree, b"first", b"never");
        let savepoint = first.savepoint();
        put(&mut first, tree, b"both", b"never");
        first.rollback_to(savepoint).unwrap();
        let mut second = begin(&db);
        put(&mut second, tree, b"both", b"second");
        second.commit().unwrap();
        let (_image, db) = reopen(&disk, strategy);
        (get(&db, tree, b"first"), get(&db, tree, b"both").unwrap())
    };
    for strategy in Strategy::ALL {
        assert_eq!(found(strategy, None), (None, b"second".to_vec()), "{}", strategy.name());
    }
    let planted = Some(Failpoint::CompensationUnrecorded);
    assert_ne!(found(Strategy::TwoLevel, planted), (None, b"second".to_vec()), "it was not caught");
}

#[test]
fn a_change_of_one_leaf_locks_no_page() {
    let disk = SimDisk::new(1);
    let (db, [tree, other]) = world(&disk, Strategy::TwoLevelDeferred, None);
    let requests = || db.0.inner.store.logged().unwrap().page_waits().requests;
    let before = requests();
    let mut txn = begin(&db);
    put(&mut txn, tree, b"one", b"1");
    put(&mut txn, tree, b"both", b"after");
    txn.delete(tree, b"one").unwrap();
    txn.end_statement().unwrap();
    assert_eq!(requests(), before);
    txn.rollback();
    assert_eq!(get(&db, tree, b"both").unwrap(), b"before");
    let before = requests();
    let mut txn = begin(&db);
    txn.put(tree, b"one", b"1").unwrap();
    put(&mut txn, other, b"two", b"2");
    txn.commit().unwrap();
    assert_eq!(requests(), before + 2);
}

/// A subtransaction on two leaves has changed both, and fails when another one wants to change one of them.
#[test]
fn a_light_subtransaction_waits_for_one_that_has_not_ended() {
    let found = |strategy, planted| {
        let disk = SimDisk::new(1);
        let (db, [tree, other]) = world(&disk, strategy, planted);
        let inner = &db.0.inner;
        let logged = inner.store.logged().unwrap();
        let mut page_locks = inner.locks.owner(inner.new_txn_id());
        let txn = page_locks.txn();
        let requests = || logged.page_waits().requests;
        let before = requests();
        crate::sync::thread::scope(|scope| {
            let mut second = None;
            let failed = logged.change_trees(txn, &mut page_locks, |pages| {
                for tree in [tree, other] {
                    inner.tree(tree)?.tree.update(pages, b"first", &mut |_| change(Some(b"never")))?;
                }
                let second = second.get_or_insert_with(|| {
                    scope.spawn(|| {
                        let mut txn = begin(&db);
                        put(&mut txn, tree, b"both", b"second");
                        txn.commit().unwrap();
                    })
                });
                while requests() < before + 3 && !second.is_finished() {
                    crate::sync::thread::yield_now();
                }
                Err::<(), _>(Error::Closed)
            });
            assert!(matches!(failed, Err(Error::Closed)));
        });
        assert_eq!(get(&db, tree, b"first"), None);
        get(&db, tree, b"both").unwrap()
    };
    for strategy in TWO_LEVELS {
        assert_eq!(found(strategy, None), b"second", "{}", strategy.name());
    }
    let planted = Some(Failpoint::LightUnchecked);
    assert_ne!(found(Strategy::TwoLevelDeferred, planted), b"second", "it was not caught");
}

/// Nobody finds the tree any more when what was taken back in it would be taken back again.
#[test]
fn a_tree_is_dropped_after_what_others_have_taken_back_in_it() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let (db, [tree, other]) = world(&disk, strategy, None);
        let mut first = begin(&db);
        let savepoint = first.savepoint();
        put(&mut first, tree, b"b", b"never");
        let mut second = begin(&db);
        put(&mut second, tree, b"c", b"second");
        second.commit().unwrap();
        first.rollback_to(savepoint).unwrap();
        let mut third = begin(&db);
        third.drop_tree(tree).unwrap();
        let ticket = third.order().unwrap();
        db.0.inner.store.wait_durable(ticket.csn()).unwrap();
        let (_image, db) = reopen(&disk, strategy);
        assert_eq!(get(&db, other, b"x"), None);
    }
}

/// A number that is in the log is none of a later transaction.
#[test]
fn who_is_running_at_a_second_crash_has_not_committed() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let (db, [tree, _]) = world(&disk, strategy, None);
        let mut other = begin(&db);
        put(&mut other, tree, b"x", b"x");
        let mut first = begin(&db);
        let savepoint = first.savepoint();
        put(&mut first, tree, b"both", b"never");
        first.rollback_to(savepoint).unwrap();
        other.commit().unwrap();
        let (image, db) = reopen(&disk, strategy);
        let mut first = begin(&db);
        put(&mut first, tree, b"both", b"uncommitted");
        let mut other = begin(&db);
        put(&mut other, tree, b"x", b"y");
        other.commit().unwrap();
        let (_image, db) = reopen(&image, strategy);
        assert_eq!(get(&db, tree, b"both").unwrap(), b"before", "{}", strategy.name());
        assert_eq!(get(&db, tree, b"x").unwrap(), b"y");
    }
}

#[test]
fn a_drop_that_is_taken_back_shows_nobody_what_is_not_committed() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let (db, [tree, other]) = world(&disk, strategy, None);
        let mut first = begin(&db);
        put(&mut first, tree, b"both", b"uncommitted");
        let before_drop = first.savepoint();
        first.drop_tree(tree).unwrap();
        let after_drop = first.savepoint();
        put(&mut first, other, b"x", b"never");
        first.rollback_to(after_drop).unwrap();
        first.rollback_to(before_drop).unwrap();
        assert_eq!(get(&db, tree, b"both").unwrap(), b"before");
        first.commit().unwrap();
        assert_eq!(get(&db, tree, b"both").unwrap(), b"uncommitted");
        assert_eq!(get(&db, other, b"x"), None);
    }
}

/// The memory of versions is counted once, and versions that no snapshot needs go, although no transaction commits.
#[test]
fn what_was_taken_back_takes_no_memory() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let (db, [tree, _]) = world(&disk, strategy, None);
        let mut first = begin(&db);
        for _ in 0..100 {
            let savepoint = first.savepoint();
            put(&mut first, tree, b"both", &[1; 1000]);
            first.rollback_to(savepoint).unwrap();
            first.release_savepoint(savepoint).unwrap();
        }
        assert!(first.core().state.bytes < 10_000, "{}", first.core().state.bytes);
        let mut old =
            db.begin(TxnOptions { isolation: Isolation::Snapshot, ..TxnOptions::default() }).unwrap();
        assert_eq!(old.get(tree, b"x").unwrap(), None);
        for _ in 0..2 {
            let mut other = begin(&db);
            put(&mut other, tree, b"x", b"x");
            other.commit().unwrap();
        }
        assert_eq!(old.get(tree, b"x").unwrap(), None);
        drop((first, old));
        for _ in 0..4000 {
            let mut txn = begin(&db);
            put(&mut txn, tree, b"both", &[2; 1000]);
            txn.rollback();
        }
        let begin_wait = std::time::Duration::from_secs(30);
        let clock = crate::env::SystemClock::new();
        while db.stats().version_bytes > 2 << 20 {
            use crate::env::Clock;
            assert!(clock.now() < begin_wait, "{} of {}", db.stats().version_bytes, strategy.name());
            db.0.inner.prune();
            crate::sync::thread::yield_now();
        }
    }
}

/// A scan under locks goes on after its transaction went back to a savepoint.
#[test]
fn a_cursor_returns_nothing_that_was_taken_back() {
    for recovery in Recovery::ALL {
        let options =
            Options { recovery: Some(recovery), pool_bytes: 1 << 20, seed: Some(1), ..Options::default() };
        let db = Database::in_memory(options).unwrap();
        let mut txn = begin(&db);
        let tree = txn.create_tree().unwrap();
        (0..10u8).for_each(|key| txn.put(tree, &[key], b"old").unwrap());
        txn.commit().unwrap();
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
            let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
            let savepoint = txn.savepoint();
            txn.put(tree, &[1], b"new").unwrap();
            txn.delete(tree, &[3]).unwrap();
            txn.end_statement().unwrap();
            let mut cursor: Cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
            let mut found = vec![cursor.next(&mut txn).unwrap().unwrap()];
            txn.rollback_to(savepoint).unwrap();
            while let Some(entry) = cursor.next(&mut txn).unwrap() {
                found.push(entry);
            }
            let right: Vec<_> = (0..10u8).map(|key| (vec![key], b"old".to_vec())).collect();
            assert_eq!(found, right, "{} {isolation:?}", recovery.name());
        }
    }
}

#[test]
fn a_full_disk_fails_one_transaction_and_nothing_is_lost() {
    for strategy in Strategy::ALL {
        for (left, value_bytes) in
            [(1 << 20, 4 << 20), (8 << 20, 3000), (6 << 20, 3000), (5 << 20, 700), (3 << 20, 100)]
        {
            let disk = SimDisk::new(1);
            let (db, [tree, _]) = world(&disk, strategy, None);
            disk.full_after(Some(left));
            let mut txn = begin(&db);
            let value = vec![1; value_bytes];
            let mut fill = || -> Result<()> {
                for number in 0..100_000_u32 {
                    txn.put(tree, &number.to_be_bytes(), &value)?;
                    txn.end_statement()?;
                }
                Ok(())
            };
            let filled = fill();
            let what = format!("{}, {left} bytes left, values of {value_bytes}", strategy.name());
            if strategy != Strategy::SingleLevel {
                assert!(matches!(filled, Err(Error::DiskFull)), "{what}: {filled:?}");
            }
            txn.rollback();
            // Its log was reserved: the others go on without more of the disk.
            let mut other = begin(&db);
            other.put(tree, b"other", b"small").unwrap();
            other.commit().unwrap();
            assert_eq!(get(&db, tree, b"both").unwrap(), b"before", "{what}");
            disk.full_after(None);
            assert_eq!(get(&db, tree, b"both").unwrap(), b"before", "{what}");
            assert_eq!(get(&db, tree, &0_u32.to_be_bytes()), None, "{what}");
            let mut txn = begin(&db);
            txn.put(tree, b"both", b"after").unwrap();
            txn.commit().unwrap();
        }
    }
}

/// Its transaction has met a full disk, gone back to its savepoint, and goes on.
#[test]
fn others_change_a_key_after_a_full_disk() {
    for strategy in TWO_LEVELS {
        let disk = SimDisk::new(1);
        let (db, [tree, _]) = world(&disk, strategy, None);
        disk.full_after(Some(1 << 20));
        let mut txn = begin(&db);
        let savepoint = txn.savepoint();
        txn.put(tree, b"both", b"vain").unwrap();
        let full = txn.put(tree, b"large", &vec![1; 6 << 20]);
        assert!(matches!(full, Err(Error::DiskFull)), "{}: {full:?}", strategy.name());
        txn.rollback_to(savepoint).unwrap();
        disk.full_after(None);
        let mut other = begin(&db);
        put(&mut other, tree, b"both", b"after");
        other.commit().unwrap();
        assert_eq!(get(&db, tree, b"both").unwrap(), b"after", "{}", strategy.name());
        txn.commit().unwrap();
        assert_eq!(get(&db, tree, b"both").unwrap(), b"after", "{}", strategy.name());
    }
}

#[test]
fn a_full_disk_fails_a_large_value() {
    for strategy in Strategy::ALL {
        for left in (1..48).map(|n| n * (256 << 10)) {
            let disk = SimDisk::new(1);
            let (db, [tree, _]) = world(&disk, strategy, None);
            disk.full_after(Some(left));
            let mut txn = begin(&db);
            let done = txn.put(tree, b"large", &vec![1; 6 << 20]).and_then(|()| txn.commit().map(drop));
            assert!(matches!(done, Ok(()) | Err(Error::DiskFull)), "{}, {left}: {done:?}", strategy.name());
            assert_eq!(get(&db, tree, b"both").unwrap(), b"before");
        }
    }
}

/// It stays prepared, and commits when there is room.
#[test]
fn a_full_disk_leaves_what_is_prepared() {
    for strategy in Strategy::ALL {
        for left in (0..40).step_by(3).map(|n| n * (256 << 10)) {
            let disk = SimDisk::new(1);
            let (db, [tree, _]) = world(&disk, strategy, None);
            let mut txn = begin(&db);
            (0..1000_u32).for_each(|key| txn.put(tree, &key.to_be_bytes(), &[1; 3000]).unwrap());
            txn.prepare("gid", b"").unwrap();
            disk.full_after(Some(left));
            let done = db.commit_prepared("gid");
            let is_known = matches!(done, Ok(_) | Err(Error::DiskFull));
            assert!(is_known, "{}, {left}: {done:?}", strategy.name());
            disk.full_after(None);
            if done.is_err() && !db.prepared().unwrap().is_empty() {
                db.commit_prepared("gid").unwrap();
            }
            let found = get(&db, tree, &999_u32.to_be_bytes());
            assert_eq!(found.map(|value| value.len()), Some(3000), "{}, {left}: {done:?}", strategy.name());
        }
    }
}

#[test]
fn a_directory_with_other_files_is_left_alone() {
    for strategy in TWO_LEVELS {
        let disk = SimDisk::new(1);
        disk.open("letter.txt", true).unwrap();
        let recovery = Some(Recovery::PageLog(strategy));
        let opened = Database::open_on(&disk, Options { recovery, ..Options::default() }).map(drop);
        assert!(matches!(opened, Err(Error::NotADatabase { .. })), "{opened:?}");
        assert_eq!(disk.list().unwrap(), ["letter.txt"]);
    }
}

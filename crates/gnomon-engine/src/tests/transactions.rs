mod changed_rows;
mod model;
mod savepoints;

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use crate::*;
use crate::{
    Csn, Error, Result, TreeId,
    disk::{Disk, MemDisk, SimDisk},
    env::{Clock, Rng, SystemClock},
    store::shadow::Severity,
    sync::{Arc, thread},
};

fn database() -> Database {
    Database::in_memory(Options { pool_bytes: 1 << 20, seed: Some(1), ..Options::default() }).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(TxnOptions::default()).unwrap()
}

fn serializable(db: &Database) -> Transaction {
    db.begin(TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() }).unwrap()
}

/// Fails instead of waiting.
fn impatient(db: &Database, isolation: Isolation) -> Transaction {
    let lock_timeout = Some(Duration::ZERO);
    db.begin(TxnOptions { isolation, lock_timeout, ..TxnOptions::default() }).unwrap()
}

fn tree_with(db: &Database, keys: &[(&str, &str)]) -> TreeId {
    let mut txn = begin(db);
    let tree = txn.create_tree().unwrap();
    for (key, value) in keys {
        txn.put(tree, key.as_bytes(), value.as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    tree
}

fn get(txn: &mut Transaction, tree: TreeId, key: &str) -> Option<String> {
    txn.get(tree, key.as_bytes()).unwrap().map(|value| String::from_utf8(value).unwrap())
}

fn collect(
    txn: &mut Transaction,
    tree: TreeId,
    range: KeyRange,
    direction: Direction,
) -> Result<Vec<String>> {
    let mut cursor = txn.scan(tree, range, direction)?;
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next_ref(txn)? {
        found.push(format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
    }
    Ok(found)
}

fn all(txn: &mut Transaction, tree: TreeId) -> Vec<String> {
    collect(txn, tree, KeyRange::all(), Direction::Forward).unwrap()
}

fn between(start: &str, end: &str) -> KeyRange {
    KeyRange { start: Bound::Included(start.into()), end: Bound::Included(end.into()) }
}

#[test]
fn a_transaction_sees_its_own_writes_and_others_do_not_until_it_commits() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut writer = begin(&db);
    writer.put(tree, b"b", b"20").unwrap();
    assert!(writer.delete(tree, b"c").unwrap());
    writer.insert(tree, b"d", b"4").unwrap();
    assert_eq!(all(&mut writer, tree), ["a=1", "b=20", "d=4"]);
    let mut reader = begin(&db);
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2", "c=3"]);
    writer.commit().unwrap();
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2", "c=3"], "the statement goes on with its snapshot");
    reader.start_statement().unwrap();
    assert_eq!(all(&mut reader, tree), ["a=1", "b=20", "d=4"]);
}

#[test]
fn rolled_back_writes_are_gone_with_their_locks() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1")]);
    let mut txn = begin(&db);
    txn.put(tree, b"a", b"2").unwrap();
    txn.insert(tree, b"b", b"2").unwrap();
    txn.rollback();
    assert_eq!(all(&mut impatient(&db, Isolation::Serializable), tree), ["a=1"]);
    assert!(db.locks().is_empty());
}

#[test]
fn an_insert_of_a_present_key_fails_and_the_transaction_goes_on() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1")]);
    let mut txn = begin(&db);
    assert!(matches!(txn.insert(tree, b"a", b"2"), Err(Error::KeyExists)));
    txn.insert(tree, b"b", b"2").unwrap();
    assert!(matches!(txn.insert(tree, b"b", b"3"), Err(Error::KeyExists)));
    txn.delete(tree, b"b").unwrap();
    txn.insert(tree, b"b", b"4").unwrap();
    txn.commit().unwrap();
    assert_eq!(all(&mut begin(&db), tree), ["a=1", "b=4"]);
}

fn snapshot(db: &Database) -> Transaction {
    db.begin(TxnOptions { isolation: Isolation::Snapshot, ..TxnOptions::default() }).unwrap()
}

#[test]
fn a_snapshot_stays_and_its_reader_waits_for_nobody() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1"), ("b", "2")]);
    let mut reader = snapshot(&db);
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2"]);
    let mut writer = begin(&db);
    writer.put(tree, b"a", b"10").unwrap();
    writer.delete(tree, b"b").unwrap();
    writer.insert(tree, b"c", b"30").unwrap();
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2"]);
    writer.commit().unwrap();
    reader.start_statement().unwrap();
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2"]);
    reader.lock_tree(tree, TreeLock::Shared).unwrap();
    assert_eq!(get(&mut reader, tree, "a").as_deref(), Some("1"), "a lock does not move the snapshot");
    let mut newest = reader.scan_newest(tree, KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(newest.next(&mut reader).unwrap(), Some((b"a".to_vec(), b"10".to_vec())));
    reader.commit().unwrap();
    assert_eq!(all(&mut snapshot(&db), tree), ["a=10", "c=30"]);
}

/// A key that changes often costs a reader one version, and that goes with it.
#[test]
fn old_versions_go_with_their_readers() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1"), ("b", "2")]);
    let mut reader = snapshot(&db);
    all(&mut reader, tree);
    for value in 0..500_u32 {
        let mut txn = begin(&db);
        txn.put(tree, b"a", &value.to_be_bytes()).unwrap();
        txn.commit().unwrap();
    }
    let bytes = db.stats().version_bytes;
    assert!((1..1000).contains(&bytes), "{bytes} bytes for one key");
    assert_eq!(all(&mut reader, tree), ["a=1", "b=2"]);
    drop(reader);
    assert_eq!(db.stats().version_bytes, 0);
}

#[test]
fn a_reader_that_costs_too_much_is_ended() {
    let options = Options { version_bytes_max: 100_000, seed: Some(1), ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let tree = tree_with(&db, &[]);
    let fill = |value: u8| {
        let mut txn = begin(&db);
        for key in 0..200_u8 {
            txn.put(tree, &[key], &[value; 1000]).unwrap();
        }
        txn.commit().unwrap();
    };
    fill(1);
    let (mut long, mut longest) = (snapshot(&db), snapshot(&db));
    let mut cursor = long.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
    assert!(cursor.next(&mut long).unwrap().is_some());
    assert!(longest.get(tree, &[0]).unwrap().is_some());
    fill(2);
    assert!(matches!(longest.get(tree, &[199]), Err(Error::SnapshotTooOld)));
    let ended = loop {
        match cursor.next(&mut long) {
            Ok(Some((_, value))) => assert_eq!(value, [1; 1000], "never a newer value"),
            Ok(None) => panic!("the scan reached its end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, Error::SnapshotTooOld), "{ended}");
    assert!(db.stats().version_bytes <= 100_000);
    let mut fresh = snapshot(&db);
    assert_eq!(fresh.get(tree, &[0]).unwrap(), Some(vec![2; 1000]));
}

#[test]
fn the_first_committer_wins() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1"), ("b", "2"), ("c", "3")]);
    type Write = fn(&mut Transaction, TreeId) -> Result<()>;
    let writes: [(&str, Write); 5] = [
        ("put", |txn, tree| txn.put(tree, b"a", b"mine")),
        ("delete", |txn, tree| txn.delete(tree, b"a").map(drop)),
        ("lock", |txn, tree| txn.get_locked(tree, b"a", RowLock::Share).map(drop)),
        ("of a deleted key", |txn, tree| txn.put(tree, b"b", b"mine")),
        ("of an inserted key", |txn, tree| txn.put(tree, b"x", b"mine")),
    ];
    for (name, write) in writes {
        let mut txn = snapshot(&db);
        assert_eq!(get(&mut txn, tree, "c").as_deref(), Some("3"));
        let mut other = begin(&db);
        other.put(tree, b"a", b"theirs").unwrap();
        other.delete(tree, b"b").unwrap();
        other.put(tree, b"x", b"theirs").unwrap();
        other.commit().unwrap();
        assert!(matches!(write(&mut txn, tree), Err(Error::Serialization(_))), "{name}");
        txn.rollback();
        let mut restore = begin(&db);
        restore.put(tree, b"b", b"2").unwrap();
        restore.delete(tree, b"x").unwrap();
        restore.commit().unwrap();
    }
    // What nobody else changed can be changed, and what is present cannot be inserted, seen or not.
    let mut txn = snapshot(&db);
    assert_eq!(get(&mut txn, tree, "y"), None);
    let mut other = begin(&db);
    other.put(tree, b"y", b"theirs").unwrap();
    other.commit().unwrap();
    assert!(matches!(txn.insert(tree, b"y", b"mine"), Err(Error::KeyExists)));
    txn.put(tree, b"c", b"mine").unwrap();
    txn.commit().unwrap();
}

/// Two doctors on call: each may leave if the other stays. The classical difference of the two isolations.
#[test]
fn write_skew_is_possible_at_a_snapshot_and_not_when_serializable() {
    for (isolation, possible) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
        let db = database();
        let tree = tree_with(&db, &[("a", "on"), ("b", "on")]);
        let [mut a, mut b] = [(); 2].map(|()| impatient(&db, isolation));
        assert_eq!((all(&mut a, tree).len(), all(&mut b, tree).len()), (2, 2));
        let both = a.put(tree, b"a", b"off").and_then(|()| b.put(tree, b"b", b"off"));
        assert_eq!(both.is_ok(), possible, "{both:?}");
    }
}

#[test]
fn a_tree_made_after_the_snapshot_is_not_read() {
    let db = database();
    let old = tree_with(&db, &[("a", "1")]);
    let mut txn = snapshot(&db);
    all(&mut txn, old);
    let new = tree_with(&db, &[("a", "1")]);
    assert!(matches!(txn.get(new, b"a"), Err(Error::Serialization(_))));
    assert_eq!(all(&mut snapshot(&db), new), ["a=1"]);
}

#[test]
fn limits_are_errors() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut txn = begin(&db);
    assert!(matches!(txn.put(tree, &[0; 1025], b""), Err(Error::KeyTooLong { bytes: 1025, max: 1024 })));
    assert!(matches!(txn.put(tree, b"k", &vec![0; (16 << 20) + 1]), Err(Error::ValueTooLong { .. })));
    assert!(matches!(txn.get(TreeId(99), b"k"), Err(Error::NoSuchTree(TreeId(99)))));
    let mut reader = db.begin(TxnOptions { read_only: true, ..TxnOptions::default() }).unwrap();
    assert!(matches!(reader.put(tree, b"k", b"v"), Err(Error::ReadOnly)));
    assert!(matches!(
        Database::in_memory(Options { pool_bytes: 1000, ..Options::default() }),
        Err(Error::BadOption(_))
    ));
}

#[test]
fn new_trees_do_not_make_the_file_much_larger_than_what_it_holds() {
    let db = Database::in_memory(Options { seed: Some(1), ..Options::default() }).unwrap();
    for _ in 0..12 {
        let mut txn = begin(&db);
        let tree = txn.create_tree().unwrap();
        for key in 0..20_000_u32 {
            txn.put(tree, &key.to_be_bytes(), &[7; 8]).unwrap();
        }
        txn.commit().unwrap();
    }
    let stats = db.stats();
    assert!(stats.file_pages < 2 * stats.used_pages + 2048, "{stats:?}");
}

#[test]
fn a_transaction_has_so_much_memory() {
    let bytes = 100_000;
    let options =
        Options { escalate_bytes: bytes, write_bytes_max: bytes, seed: Some(1), ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let tree = tree_with(&db, &[]);
    // While others have locked keys of the tree, it cannot be locked as a whole.
    let mut other = begin(&db);
    other.put(tree, b"other", b"1").unwrap();
    let mut txn = begin(&db);
    let error = (0..200_u8).find_map(|key| txn.put(tree, &[key], &[key; 1000]).err());
    assert!(matches!(error, Some(Error::TransactionTooLarge)), "{error:?}");
    txn.rollback();
    assert!(all(&mut begin(&db), tree).is_empty());
}

#[test]
fn values_of_every_size_come_back() {
    let db = database();
    let tree = tree_with(&db, &[]);
    for size in [0, 1, 1000, 4000, 5000, 100_000, 16 << 20] {
        let value: Vec<u8> = (0..size).map(|at: usize| (at * 31 % 251) as u8).collect();
        let mut txn = begin(&db);
        txn.put(tree, b"large", &value).unwrap();
        assert_eq!(txn.get(tree, b"large").unwrap().as_ref(), Some(&value));
        txn.commit().unwrap();
        let mut txn = begin(&db);
        assert_eq!(txn.get(tree, b"large").unwrap(), Some(value.clone()));
        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Backward).unwrap();
        assert_eq!(cursor.next(&mut txn).unwrap(), Some((b"large".to_vec(), value)));
    }
}

#[test]
fn behind_a_lock_the_newest_value_counts() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1")]);
    let mut txn = begin(&db);
    txn.start_statement().unwrap();
    assert_eq!(get(&mut txn, tree, "a").as_deref(), Some("1"));
    let mut other = begin(&db);
    other.put(tree, b"a", b"2").unwrap();
    other.commit().unwrap();
    assert_eq!(get(&mut txn, tree, "a").as_deref(), Some("1"));
    assert_eq!(txn.get_locked(tree, b"a", RowLock::Exclusive).unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn serializable_scans_lock_out_phantoms_and_nothing_else() {
    let db = database();
    let tree = tree_with(&db, &[("10", ""), ("20", ""), ("30", ""), ("40", "")]);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scanner = serializable(&db);
        assert_eq!(collect(&mut scanner, tree, between("15", "25"), direction).unwrap(), ["20="]);
        let may = |key: &str| impatient(&db, Isolation::ReadCommitted).put(tree, key.as_bytes(), b"").is_ok();
        for locked in ["15", "18", "20", "22", "25"] {
            assert!(!may(locked), "{locked} is in the scanned range");
        }
        for free in ["05", "10", "35", "40", "45"] {
            assert!(may(free), "{free} is beyond the range and its neighbours");
        }
        drop(scanner);
        assert!(may("18"));
    }
}

#[test]
fn a_serializable_scan_waits_for_pending_inserts_in_its_range() {
    let db = database();
    let tree = tree_with(&db, &[("10", ""), ("40", "")]);
    let mut inserter = begin(&db);
    inserter.insert(tree, b"20", b"").unwrap();
    let mut far = impatient(&db, Isolation::Serializable);
    assert_eq!(collect(&mut far, tree, between("00", "05"), Direction::Forward).unwrap().len(), 0);
    let mut near = impatient(&db, Isolation::Serializable);
    assert!(matches!(
        collect(&mut near, tree, between("15", "25"), Direction::Forward),
        Err(Error::LockTimeout)
    ));
    drop(near);
    inserter.commit().unwrap();
    assert_eq!(
        collect(&mut serializable(&db), tree, between("15", "25"), Direction::Backward).unwrap(),
        ["20="]
    );
}

#[test]
fn a_scan_and_an_insert_of_the_same_transaction_keep_the_gap_locked_on_both_sides() {
    let db = database();
    let tree = tree_with(&db, &[("10", ""), ("40", "")]);
    let mut txn = serializable(&db);
    assert_eq!(collect(&mut txn, tree, between("10", "40"), Direction::Forward).unwrap().len(), 2);
    txn.insert(tree, b"25", b"").unwrap();
    for key in ["20", "30"] {
        let result = impatient(&db, Isolation::ReadCommitted).put(tree, key.as_bytes(), b"");
        assert!(matches!(result, Err(Error::LockTimeout)), "{key}");
    }
}

#[test]
fn an_absent_key_that_was_read_stays_absent() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut reader = serializable(&db);
    assert_eq!(reader.get(tree, b"k").unwrap(), None);
    let result = impatient(&db, Isolation::ReadCommitted).insert(tree, b"k", b"");
    assert!(matches!(result, Err(Error::LockTimeout)));
}

#[test]
fn a_deadlock_has_one_victim() {
    let db = database();
    let tree = tree_with(&db, &[("a", ""), ("b", "")]);
    let barrier = std::sync::Barrier::new(2);
    let victims: usize = thread::scope(|scope| {
        let run = |first: &'static [u8], second: &'static [u8]| {
            let (db, barrier) = (&db, &barrier);
            scope.spawn(move || {
                let mut txn = begin(db);
                txn.put(tree, first, b"x").unwrap();
                barrier.wait();
                let result = txn.put(tree, second, b"x");
                assert!(matches!(result, Ok(()) | Err(Error::Deadlock)), "{result:?}");
                usize::from(result.is_err())
            })
        };
        let (one, two) = (run(b"a", b"b"), run(b"b", b"a"));
        one.join().unwrap() + two.join().unwrap()
    });
    assert_eq!(victims, 1);
    let waits = db.stats().lock_waits;
    assert!((1..=2).contains(&waits.count) && !waits.time.is_zero(), "{waits:?}");
}

#[test]
fn trees_come_and_go_with_their_transactions() {
    let disk = Arc::new(MemDisk::new());
    let open = || Database::open_on(disk.clone(), Options { seed: Some(1), ..Options::default() }).unwrap();
    let db = open();
    let mut txn = begin(&db);
    let tree = txn.create_tree().unwrap();
    assert_eq!(tree, TreeId(1));
    txn.rollback();
    assert!(matches!(begin(&db).get(tree, b"k"), Err(Error::NoSuchTree(_))));
    let kept = tree_with(&db, &[("a", "1")]);
    let dropped = tree_with(&db, &[("a", "1")]);
    let used = {
        let mut txn = begin(&db);
        let value = vec![7; 1000];
        for key in 0..2000u32 {
            txn.put(dropped, &key.to_be_bytes(), &value).unwrap();
        }
        txn.commit().unwrap();
        // With a log of commits the root has that only now.
        db.close().unwrap();
        db.stats().used_pages
    };
    drop(db);
    let db = open();
    let mut txn = begin(&db);
    txn.drop_tree(dropped).unwrap();
    assert!(matches!(txn.get(dropped, b"a"), Err(Error::NoSuchTree(_))));
    txn.commit().unwrap();
    assert!(matches!(begin(&db).get(dropped, b"a"), Err(Error::NoSuchTree(_))));
    db.close().unwrap();
    drop(db);
    let mut now = used;
    for _ in 0..500 {
        let db = open();
        let mut txn = begin(&db);
        txn.put(kept, b"a", b"2").unwrap();
        txn.commit().unwrap();
        thread::sleep(Duration::from_millis(2));
        assert_eq!(all(&mut begin(&db), kept), ["a=2"]);
        db.close().unwrap();
        now = db.stats().used_pages;
        if now < used / 4 {
            return;
        }
    }
    panic!("{now} of {used} pages are still in use");
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let disk = Arc::new(MemDisk::new());
    let open = || Database::open_on(disk.clone(), Options { seed: Some(1), ..Options::default() }).unwrap();
    let db = open();
    let tree = tree_with(&db, &[("a", "1")]);
    let mut txn = begin(&db);
    txn.put(tree, b"b", b"2").unwrap();
    let csn = txn.commit_ticket().unwrap().csn();
    db.close().unwrap();
    assert!(matches!(db.begin(TxnOptions::default()), Err(Error::Closed)));
    drop(db);
    let db = open();
    assert_eq!(db.durable_csn(), csn);
    assert_eq!(all(&mut begin(&db), tree), ["a=1", "b=2"]);
}

/// What a crash leaves in free space is whole, so that damage is told from it at once; scrubbing ends that.
#[test]
fn a_crash_leaves_free_space_whole() {
    let disk = SimDisk::new(9);
    let options = Options { seed: Some(1), ..Options::shadow() };
    let open = |disk: &SimDisk| Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    let db = open(&disk);
    let tree = tree_with(&db, &[("a", "1")]);
    // In the writing of its pages, after the file has grown.
    disk.crash_at(disk.events() + 3);
    let mut txn = begin(&db);
    for key in 0..100u8 {
        txn.put(tree, &[key], &[key; 1000]).unwrap();
    }
    txn.put(tree, b"large", &[7; 100_000]).unwrap();
    txn.commit().unwrap_err();
    let of_pages = |image: &SimDisk| {
        let report = verify(image, &mut |_, _| ()).unwrap();
        assert_eq!(report.trees.len(), 1, "the trees are checked, whatever is wrong with free space");
        // The first four hold the root.
        report.findings.into_iter().filter(|finding| finding.page >= 4).collect::<Vec<_>>()
    };
    let images: Vec<SimDisk> = (0..50).map(|seed| disk.crash_image(seed)).collect();
    images.iter().for_each(|image| assert_eq!(of_pages(image), []));
    let image = &images[0];
    image.flip_bit("pages", db_len(image) - 1, 0);
    let found = of_pages(image);
    assert_eq!((found.len(), found[0].severity), (1, Severity::Spare));
    let db = open(image);
    assert_eq!(db.scrub(&mut |_, _| ()).unwrap().repaired, []);
    drop(db);
    assert_eq!(verify(image, &mut |_, _| ()).unwrap().findings, []);
}

#[test]
fn a_file_that_was_emptied_is_not_made_anew() {
    let disk = SimDisk::new(9);
    drop(Database::open_on(Arc::new(disk.clone()), Options::shadow()).unwrap());
    for left in [5000, 0] {
        disk.open("pages", false).unwrap().truncate(left).unwrap();
        let opened = Database::open_on(Arc::new(disk.clone()), Options::shadow()).map(drop);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }
}

fn db_len(disk: &SimDisk) -> u64 {
    disk.open("pages", false).unwrap().len().unwrap()
}

#[test]
fn tickets_are_fulfilled_without_anybody_waiting() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut txn = begin(&db);
    txn.put(tree, b"a", b"1").unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let ticket = txn.commit_ticket().unwrap();
    let csn = ticket.csn();
    ticket.on_durable(move |result| sender.send(result.unwrap()).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)).unwrap(), csn);
    assert!(db.durable_csn() >= csn);
}

#[test]
fn a_callback_that_panics_harms_nobody() {
    let later = Duration::from_millis(50);
    let db = Database::in_memory(Options { group_commit_interval: later, ..Options::default() }).unwrap();
    let tree = tree_with(&db, &[]);
    let (sender, receiver) = std::sync::mpsc::channel();
    for key in [b"a", b"b", b"c"] {
        let mut txn = begin(&db);
        txn.put(tree, key, b"1").unwrap();
        let sender = sender.clone();
        txn.commit_ticket().unwrap().on_durable(move |result| {
            sender.send(result.map(drop)).unwrap();
            panic!("as this test wants");
        });
    }
    for _ in 0..3 {
        receiver.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    }
    tree_with(&db, &[("d", "1")]);
    db.close().unwrap();
}

#[test]
fn commits_are_acknowledged_as_the_database_says() {
    let open = |disk: &SimDisk, commits| {
        let interval = Duration::from_millis(1);
        let options = Options { commits, group_commit_interval: interval, ..Options::shadow() };
        Database::open_on(Arc::new(disk.clone()), options)
    };
    let read = |db: &Database, tree| {
        let mut reader = db.begin(TxnOptions { read_only: true, ..TxnOptions::default() }).unwrap();
        all(&mut reader, tree)
    };
    let disk = SimDisk::new(9);
    let db = open(&disk, Commits::Unforced).unwrap();
    let tree = tree_with(&db, &[("a", "1")]);
    db.wait_durable(Csn(u64::MAX)).unwrap();
    let before = db.durable_csn();
    for value in ["2", "3"] {
        let mut txn = begin(&db);
        txn.put(tree, b"a", value.as_bytes()).unwrap();
        txn.commit().unwrap();
    }
    assert_eq!(read(&db, tree), ["a=3"], "it is there for others");
    assert_eq!(db.durable_csn(), before, "and nobody has made it durable");
    let image = disk.crash_image(1);
    assert_eq!(read(&open(&image, Commits::Synchronous).unwrap(), tree), ["a=1"]);
    db.close().unwrap();
    drop(db);
    let db = open(&disk, Commits::Asynchronous).unwrap();
    assert_eq!(read(&db, tree), ["a=3"]);
    let mut txn = begin(&db);
    txn.put(tree, b"a", b"4").unwrap();
    let csn = txn.commit().unwrap();
    let clock = SystemClock::new();
    while db.durable_csn() < csn {
        assert!(clock.now() < Duration::from_secs(10), "nobody makes it durable");
        thread::yield_now();
    }
    let refused = |options| Database::open_on(&MemDisk::new(), options).map(drop).unwrap_err().to_string();
    let recovery = Some(Recovery::CommitLog(Records::Values));
    let options = Options { recovery, commits: Commits::Unforced, ..Options::default() };
    assert!(refused(options).contains("shadow paging"));
    let options = Options { group_commit_interval: Duration::from_secs(2), ..Options::shadow() };
    assert!(refused(options).contains("group_commit_interval"));
}

#[test]
fn a_read_only_transaction_sees_its_sessions_commits() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut txn = begin(&db);
    txn.put(tree, b"a", b"1").unwrap();
    let after = txn.commit_ticket().unwrap().csn();
    let mut reader = db.begin(TxnOptions { read_only: true, after, ..TxnOptions::default() }).unwrap();
    assert_eq!(all(&mut reader, tree), ["a=1"]);
    assert!(reader.commit().unwrap() >= after);
}

#[test]
fn a_database_opened_for_reading_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = || Database::open_read_only(&path, Options::shadow());
    assert!(matches!(open(), Err(Error::NotADatabase { .. })), "it makes none");
    let db = Database::open(&path, Options::shadow()).unwrap();
    let tree = tree_with(&db, &[("a", "1")]);
    assert!(matches!(open(), Err(Error::InUse { .. })));
    drop(db);
    let file = path.join("pages");
    // One copy of the root is damaged: who may write would mend it.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    #[expect(clippy::disallowed_methods, reason = "damages the file from outside")]
    std::fs::write(&file, &bytes).unwrap();
    let (db, beside) = (open().unwrap(), open().unwrap());
    let mut txn = begin(&db);
    assert_eq!(all(&mut txn, tree), ["a=1"]);
    assert!(matches!(txn.put(tree, b"b", b"2"), Err(Error::ReadOnly)));
    assert!(matches!(txn.create_tree(), Err(Error::ReadOnly)));
    drop(txn);
    db.close().unwrap();
    drop((db, beside));
    assert!(std::fs::read(&file).unwrap() == bytes);
    let db = Database::open(&path, Options::shadow()).unwrap();
    drop(db);
    assert!(std::fs::read(&file).unwrap() != bytes);
}

#[test]
fn concurrent_transfers_keep_the_sum_in_every_snapshot() {
    const ACCOUNTS: u64 = 20;
    const TRANSFERS: usize = 300;
    let db = database();
    let mut txn = begin(&db);
    let tree = txn.create_tree().unwrap();
    for account in 0..ACCOUNTS {
        txn.put(tree, &account.to_be_bytes(), &100i64.to_be_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let sum = |txn: &mut Transaction, direction| {
        let mut cursor = txn.scan(tree, KeyRange::all(), direction).unwrap();
        let mut sum = 0;
        while let Some((_, value)) = cursor.next(txn)? {
            sum += i64::from_be_bytes(value.try_into().unwrap());
        }
        Result::Ok(sum)
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed);
                let mut done = 0;
                while done < TRANSFERS {
                    let mut txn = if rng.chance(1, 2) { begin(db) } else { serializable(db) };
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let mut transfer = || {
                        for (account, amount) in [(from, -1), (to, 1)] {
                            let key = account.to_be_bytes();
                            let old = txn.get_locked(tree, &key, RowLock::Exclusive)?.expect("it exists");
                            let new = i64::from_be_bytes(old.try_into().unwrap()) + amount;
                            txn.put(tree, &key, &new.to_be_bytes())?;
                        }
                        Result::Ok(())
                    };
                    match transfer() {
                        Ok(()) => {
                            txn.commit().unwrap();
                            done += 1;
                        }
                        Err(Error::Deadlock) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for seed in 10..12 {
            let (db, sum) = (&db, &sum);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed);
                for _ in 0..200 {
                    let direction = if rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
                    let read_only = rng.chance(1, 2);
                    let mut txn = db.begin(TxnOptions { read_only, ..TxnOptions::default() }).unwrap();
                    assert_eq!(sum(&mut txn, direction).unwrap(), 100 * ACCOUNTS as i64);
                    let mut txn = serializable(db);
                    match sum(&mut txn, direction) {
                        Ok(sum) => assert_eq!(sum, 100 * ACCOUNTS as i64),
                        Err(error) => assert!(matches!(error, Error::Deadlock), "{error}"),
                    }
                }
            });
        }
    });
    assert!(db.locks().is_empty());
    assert_eq!(sum(&mut begin(&db), Direction::Forward).unwrap(), 100 * ACCOUNTS as i64);
}

#[test]
fn csns_order_commits() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let mut last = Csn(0);
    for value in 0..10u8 {
        let mut txn = begin(&db);
        txn.put(tree, b"k", &[value]).unwrap();
        let csn = txn.commit().unwrap();
        assert!(csn > last);
        last = csn;
    }
}

#[test]
fn what_a_database_does_is_counted() {
    let disk = MemDisk::new();
    let db =
        Database::open_on(Arc::new(disk.clone()), Options { seed: Some(1), ..Options::shadow() }).unwrap();
    let tree = tree_with(&db, &[]);
    let before = db.stats().activity;
    let mut txn = begin(&db);
    for key in 0..1000_u32 {
        txn.put(tree, &key.to_be_bytes(), &[1; 96]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = begin(&db);
    txn.delete(tree, &1_u32.to_be_bytes()).unwrap();
    txn.commit().unwrap();
    let mut rolled_back = begin(&db);
    rolled_back.put(tree, b"key", b"value").unwrap();
    rolled_back.rollback();
    let done = db.stats().activity.since(&before);
    assert_eq!((done.bytes_changed, done.batches), (1000 * 100 + 4, 2), "{done:?}");
    assert_eq!(done.bytes_written, done.pages_written() * 4096, "{done:?}");
    assert!(done.write_amplification().is_some_and(|ratio| ratio > 1.0 && ratio < 20.0), "{done:?}");
    assert!(done.syncs >= 2 && done.translation_hits > 0, "{done:?}");
    let stats = db.stats();
    db.close().unwrap();
    drop(db);
    let report = verify(&disk, &mut |_, _| {}).unwrap();
    assert_eq!(report.table_pages, stats.table_pages);
}

/// Keys that were prefetched are found where they are by then: others have split and merged the leaves meanwhile, or the
/// transaction itself has written them.
#[test]
fn prefetched_keys_are_found_whatever_happens_meanwhile() {
    let db = database();
    let tree = tree_with(&db, &[]);
    let key = |number: u32| number.to_be_bytes();
    let put_all = |numbers: &mut dyn Iterator<Item = u32>, bytes: usize| {
        let mut txn = begin(&db);
        numbers.for_each(|number| txn.put(tree, &key(number), &vec![number as u8; bytes]).unwrap());
        txn.commit().unwrap();
    };
    put_all(&mut (0..2000).step_by(2), 100);
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
        let keys: Vec<_> = (0..40).map(|number| key(number * 50)).collect();
        txn.prefetch(tree, &keys).unwrap();
        txn.put(tree, &keys[1], b"own").unwrap();
        // More than a prefetch keeps, and keys that are absent.
        txn.prefetch(tree, &[key(1), key(4_000_000_000), keys[2], keys[1]]).unwrap();
        put_all(&mut (0..2000).filter(|number| number % 50 > 0), 300);
        assert_eq!(txn.get(tree, &keys[1]).unwrap().as_deref(), Some(&b"own"[..]));
        for (number, key) in
            (0_u32..).map(|number| number * 50).zip(&keys).filter(|(number, _)| *number != 50)
        {
            assert_eq!(
                txn.get(tree, key).unwrap(),
                Some(vec![number as u8; 100]),
                "{isolation:?}, key {number}"
            );
        }
        assert_eq!(txn.get(tree, &key(4_000_000_000)).unwrap(), None);
        txn.rollback();
    }
    assert!(matches!(begin(&db).prefetch(TreeId(99), &[b"k"]), Err(Error::NoSuchTree(_))));
}

#[test]
fn a_reserved_tree_is_found_by_its_number_and_takes_none_of_the_others() {
    use crate::{RESERVED_TREES, Recovery, TreeOptions};
    for recovery in Recovery::ALL {
        let disk = MemDisk::new();
        let open = || {
            let options = Options { recovery: Some(recovery), seed: Some(1), ..Options::default() };
            Database::open_on(&disk, options).unwrap()
        };
        let db = open();
        let tree = tree_with(&db, &[("a", "1")]);
        let mut txn = begin(&db);
        txn.create_reserved_tree(RESERVED_TREES, TreeOptions::default()).unwrap();
        assert!(matches!(
            txn.create_reserved_tree(RESERVED_TREES, TreeOptions::default()),
            Err(Error::KeyExists)
        ));
        assert!(matches!(
            txn.create_reserved_tree(TreeId(7), TreeOptions::default()),
            Err(Error::BadOption(_))
        ));
        txn.put(RESERVED_TREES, b"name", b"1").unwrap();
        txn.commit().unwrap();
        assert_eq!(tree_with(&db, &[]), TreeId(tree.0 + 1));
        db.close().unwrap();
        drop(db);
        let db = open();
        assert_eq!(all(&mut begin(&db), RESERVED_TREES), ["name=1"], "{}", recovery.name());
        assert_eq!(tree_with(&db, &[]), TreeId(tree.0 + 2));
        let mut txn = begin(&db);
        assert!(matches!(
            txn.create_reserved_tree(RESERVED_TREES, TreeOptions::default()),
            Err(Error::KeyExists)
        ));
        assert!(matches!(txn.drop_tree(RESERVED_TREES), Err(Error::BadOption(_))));
    }
}

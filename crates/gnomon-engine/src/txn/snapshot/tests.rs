use std::{collections::BTreeMap, ops::Bound};

use proptest::{prelude::*, strategy::Strategy as Generator};

use crate::{
    Csn, Database, Error, Execution, KeyRange, Options, Placement, Recovery, Snapshot, Strategy, TreeId,
    TreeOptions, TxnOptions,
    access::{is_above, is_below},
    sync::{
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Methods that differ in what trees hold while transactions run.
const RECOVERIES: [Recovery; 3] = [
    Recovery::Shadow,
    Recovery::CommitLog(crate::Records::Values),
    Recovery::PageLog(Strategy::TwoLevelDeferred),
];

fn database(recovery: Recovery) -> Database {
    let options =
        Options { recovery: Some(recovery), seed: Some(1), pool_bytes: 1 << 20, ..Options::default() };
    Database::in_memory(options).unwrap()
}

fn tree_with(db: &Database, entries: &Model) -> TreeId {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    for (key, value) in entries {
        txn.put(tree, key, value).unwrap();
    }
    txn.commit().unwrap();
    tree
}

fn write(db: &Database, tree: TreeId, key: &[u8], value: Option<&[u8]>) {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    match value {
        Some(value) => txn.put(tree, key, value).unwrap(),
        None => _ = txn.delete(tree, key).unwrap(),
    }
    txn.commit().unwrap();
}

/// A key of 100 bytes: some forty make a leaf.
fn key(number: u16) -> Vec<u8> {
    format!("{number:05}{:095}", 0).into_bytes()
}

fn all(snapshot: &Snapshot, tree: TreeId) -> Model {
    snapshot.range(tree, KeyRange::all()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_snapshot_stays_as_it_is_and_its_clones_share_it() {
    for recovery in RECOVERIES {
        let db = database(recovery);
        let tree =
            tree_with(&db, &Model::from([(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]));
        let snapshot = db.snapshot(Csn(0)).unwrap();
        let before = all(&snapshot, tree);
        assert_eq!(before.len(), 2);
        write(&db, tree, b"a", Some(b"10"));
        write(&db, tree, b"b", None);
        write(&db, tree, b"c", Some(&vec![7; 10_000]));
        let clone = snapshot.clone();
        drop(snapshot);
        assert_eq!(all(&clone, tree), before, "{}", recovery.name());
        assert_eq!(clone.get(tree, b"b").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(clone.get(tree, b"c").unwrap(), None);
        let now = db.snapshot(Csn(0)).unwrap();
        assert!(now.csn() > clone.csn());
        assert_eq!(now.get(tree, b"b").unwrap(), None);
        assert_eq!(all(&now, tree)[&b"c"[..]], vec![7; 10_000]);
        drop((now, clone));
        write(&db, tree, b"a", Some(b"11"));
        assert!(db.locks().is_empty());
    }
}

#[test]
fn versions_and_locks_go_with_the_last_clone() {
    let db = database(Recovery::Shadow);
    let tree = tree_with(&db, &Model::from([(b"a".to_vec(), b"1".to_vec())]));
    let snapshot = db.snapshot(Csn(0)).unwrap();
    let range = snapshot.range(tree, KeyRange::all()).unwrap();
    write(&db, tree, b"a", Some(b"2"));
    drop(snapshot);
    assert!(db.stats().version_bytes > 0, "the range needs it");
    let mut drop_tree = db
        .begin(TxnOptions { lock_timeout: Some(std::time::Duration::ZERO), ..TxnOptions::default() })
        .unwrap();
    assert!(matches!(drop_tree.drop_tree(tree), Err(Error::LockTimeout)));
    assert_eq!(range.map(Result::unwrap).collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
    drop_tree.drop_tree(tree).unwrap();
    drop_tree.commit().unwrap();
    assert_eq!(db.stats().version_bytes, 0);
    assert!(matches!(db.snapshot(Csn(0)).unwrap().get(tree, b"a"), Err(Error::NoSuchTree(_))));
}

#[test]
fn what_is_later_than_the_snapshot_is_not_there() {
    let db = database(Recovery::Shadow);
    let snapshot = db.snapshot(Csn(0)).unwrap();
    let tree = tree_with(&db, &Model::from([(b"a".to_vec(), b"1".to_vec())]));
    assert!(matches!(snapshot.get(tree, b"a"), Err(Error::NoSuchTree(_))));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree, b"a", b"2").unwrap();
    let ticket = txn.order().unwrap();
    let seen = db.snapshot(ticket.csn()).unwrap();
    assert_eq!(seen.get(tree, b"a").unwrap().as_deref(), Some(&b"2"[..]), "it was told of the commit");
    db.close().unwrap();
    assert!(matches!(seen.get(tree, b"a"), Err(Error::Closed)));
    assert!(matches!(db.snapshot(Csn(0)), Err(Error::Closed)));
}

#[test]
fn a_snapshot_that_was_ended_says_so_and_its_ranges_end() {
    let options = Options { version_bytes_max: 4096, ..Options::shadow() };
    let db = Database::in_memory(options).unwrap();
    let tree = tree_with(&db, &(0..200).map(|number| (key(number), b"1".to_vec())).collect());
    let snapshot = db.snapshot(Csn(0)).unwrap();
    let mut range = snapshot.range(tree, KeyRange::all()).unwrap();
    assert!(range.next().unwrap().is_ok());
    for number in 0..200 {
        write(&db, tree, &key(number), Some(b"2"));
    }
    assert!(matches!(snapshot.get(tree, &key(7)), Err(Error::SnapshotTooOld)));
    let read: Vec<_> = range.by_ref().collect();
    assert!(matches!(read.last(), Some(Err(Error::SnapshotTooOld))));
    assert!(range.next().is_none() && range.next_back().is_none());
}

#[test]
fn a_tree_in_a_partition_has_no_snapshots() {
    let db = Database::in_memory(Options { execution: Execution::serial(2), ..Options::shadow() }).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let placed = TreeOptions { placement: Placement::Partition(0), ..TreeOptions::default() };
    let (placed, free) = (txn.create_tree_with(placed).unwrap(), txn.create_tree().unwrap());
    txn.commit().unwrap();
    let snapshot = db.snapshot(Csn(0)).unwrap();
    assert!(matches!(snapshot.get(placed, b"a"), Err(Error::NotRouted(_))));
    assert_eq!(snapshot.get(free, b"a").unwrap(), None);
}

/// Writers move amounts between keys, also in one large transaction on pages of its own; readers share snapshots, whose
/// sum never changes, whichever way they go.
#[test]
fn threads_read_one_snapshot_beside_writers() {
    for recovery in RECOVERIES {
        const KEYS: u16 = 300;
        let db = database(recovery);
        let tree =
            tree_with(&db, &(0..KEYS).map(|number| (key(number), 10_u64.to_le_bytes().to_vec())).collect());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..2 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut rng = crate::env::Rng::from_seed(seed);
                    while !done.load(Ordering::Relaxed) {
                        let (from, to) = (rng.below(KEYS.into()) as u16, rng.below(KEYS.into()) as u16);
                        let (low, high) = (from.min(to), from.max(to));
                        if low == high {
                            continue;
                        }
                        let mut txn = db.begin(TxnOptions::default()).unwrap();
                        for (number, by) in [(low, 1), (high, u64::MAX)] {
                            let there =
                                txn.get_locked(tree, &key(number), crate::RowLock::Update).unwrap().unwrap();
                            let there = u64::from_le_bytes(there.try_into().unwrap()).wrapping_add(by);
                            txn.put(tree, &key(number), &there.to_le_bytes()).unwrap();
                        }
                        txn.commit_ticket().unwrap();
                    }
                });
            }
            for _ in 0..30 {
                let snapshot = db.snapshot(Csn(0)).unwrap();
                let sums: Vec<_> = (0..4)
                    .map(|reader| {
                        let snapshot = snapshot.clone();
                        scope.spawn(move || {
                            let mut range = snapshot.range(tree, KeyRange::all()).unwrap();
                            match reader % 2 {
                                0 => sum(&mut range),
                                _ => sum(&mut range.rev()),
                            }
                        })
                    })
                    .collect();
                for found in sums {
                    assert_eq!(found.join().unwrap(), (usize::from(KEYS), 3000), "{}", recovery.name());
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

fn sum(range: &mut dyn Iterator<Item = crate::Result<(Vec<u8>, Vec<u8>)>>) -> (usize, u64) {
    range.fold((0, 0), |(count, sum), entry| {
        (count + 1, sum.wrapping_add(u64::from_le_bytes(entry.unwrap().1.try_into().unwrap())))
    })
}

/// A large transaction replaces the pages of the tree; a snapshot from before reads on.
#[test]
fn a_range_goes_on_while_a_large_transaction_commits() {
    let db = Database::in_memory(Options { escalate_bytes: 64 << 10, ..Options::shadow() }).unwrap();
    let before: Model = (0..2000).map(|number| (key(number), b"before".to_vec())).collect();
    let tree = tree_with(&db, &before);
    let snapshot = db.snapshot(Csn(0)).unwrap();
    let mut range = snapshot.range(tree, KeyRange::all()).unwrap();
    let first: Vec<_> = range.by_ref().take(100).map(Result::unwrap).collect();
    let last: Vec<_> = range.by_ref().rev().take(100).map(Result::unwrap).collect();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    for number in 0..2000 {
        txn.put(tree, &key(number), &[b'x'; 200]).unwrap();
    }
    txn.commit().unwrap();
    let read: Model = first.into_iter().chain(range.map(Result::unwrap)).chain(last).collect();
    assert!(read == before);
    assert_eq!(all(&db.snapshot(Csn(0)).unwrap(), tree)[&key(5)], [b'x'; 200]);
}

#[derive(Clone, Debug)]
enum Step {
    Next,
    NextBack,
    Write(u16, Option<usize>),
}

fn steps() -> impl Generator<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Next),
        4 => Just(Step::NextBack),
        3 => (0..120_u16, prop_oneof![Just(None), (0..40_usize).prop_map(Some), Just(Some(6000))])
            .prop_map(|(number, value)| Step::Write(number, value)),
    ];
    prop::collection::vec(step, 0..200)
}

fn bound() -> impl Generator<Value = Bound<u16>> {
    prop_oneof![
        2 => Just(Bound::Unbounded),
        2 => (0..120_u16).prop_map(Bound::Included),
        2 => (0..120_u16).prop_map(Bound::Excluded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A range is that of a map: from both ends, until they meet, whatever is written meanwhile.
    #[test]
    fn a_range_is_that_of_a_map(
        recovery in 0..RECOVERIES.len(),
        present in prop::collection::btree_map(0..120_u16, 0..40_usize, 0..120),
        start in bound(),
        end in bound(),
        steps in steps(),
    ) {
        let db = database(RECOVERIES[recovery]);
        let model: Model = present.iter().map(|(number, bytes)| (key(*number), vec![1; *bytes])).collect();
        let tree = tree_with(&db, &model);
        let snapshot = db.snapshot(Csn(0)).unwrap();
        let range = KeyRange { start: start.map(key), end: end.map(key) };
        let mut expected: std::collections::VecDeque<(Vec<u8>, Vec<u8>)> = model
            .iter()
            .filter(|(key, _)| !is_below(range.as_bounds(), key) && !is_above(range.as_bounds(), key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut range = snapshot.range(tree, range).unwrap();
        let copied = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
        for step in steps {
            match step {
                Step::Next if expected.len().is_multiple_of(2) => {
                    prop_assert_eq!(range.next_ref().unwrap().map(copied), expected.pop_front());
                }
                Step::NextBack if expected.len().is_multiple_of(2) => {
                    prop_assert_eq!(range.next_back_ref().unwrap().map(copied), expected.pop_back());
                }
                Step::Next => prop_assert_eq!(range.next().transpose().unwrap(), expected.pop_front()),
                Step::NextBack => prop_assert_eq!(range.next_back().transpose().unwrap(), expected.pop_back()),
                Step::Write(number, value) => {
                    let value = value.map(|bytes| vec![2; bytes]);
                    write(&db, tree, &key(number), value.as_deref());
                }
            }
        }
        let rest: Vec<_> = range.map(Result::unwrap).collect();
        prop_assert_eq!(rest, Vec::from(expected));
        for number in 0..120 {
            let found = snapshot.get(tree, &key(number)).unwrap();
            prop_assert_eq!(found.as_ref(), model.get(&key(number)));
        }
    }
}

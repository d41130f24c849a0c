use std::collections::BTreeMap;

use super::{Duplicate, Load};
use crate::{
    Database, Direction, Error, Interrupt, InterruptReason, KeyRange, Options, PageSize, Records, Recovery,
    Transaction, TreeId, TreeOptions, TxnOptions, access::memory::Random, disk::MemDisk, sync::Arc, verify,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const METHODS: [Recovery; 3] =
    [Recovery::Shadow, Recovery::CommitLog(Records::Values), Recovery::PageLog(crate::Strategy::TwoLevel)];

fn open(disk: &Arc<MemDisk>, recovery: Recovery) -> Database {
    let options = Options { recovery: Some(recovery), pool_bytes: 1 << 20, ..Options::default() };
    Database::open_on(disk.clone(), options).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(TxnOptions::default()).unwrap()
}

fn entries(count: usize, value_bytes: usize, random: &mut Random) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |random: &mut Random| random.next_u64().to_be_bytes()[..8 - random.below(3)].to_vec();
    let mut model = Model::new();
    while model.len() < count {
        let value = vec![model.len() as u8; random.below(value_bytes + 1)];
        model.insert(key(random), value);
    }
    let mut entries: Vec<_> = model.into_iter().collect();
    for at in (1..entries.len()).rev() {
        entries.swap(at, random.below(at + 1));
    }
    entries
}

fn load(
    txn: &mut Transaction,
    tree: TreeId,
    memory: usize,
    entries: &[(Vec<u8>, Vec<u8>)],
) -> Option<Duplicate> {
    let mut load = Load::begin(txn, tree, memory).unwrap();
    for (key, value) in entries {
        load.add(txn, key, value).unwrap();
    }
    load.finish(txn).unwrap()
}

fn contents(txn: &mut Transaction, tree: TreeId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
    std::iter::from_fn(|| cursor.next(txn).unwrap()).collect()
}

#[test]
fn entries_in_any_order_make_a_tree() {
    let mut random = Random::new(3);
    for recovery in METHODS {
        let disk = Arc::new(MemDisk::new());
        let mut trees: Vec<(TreeId, Model)> = Vec::new();
        let db = open(&disk, recovery);
        for (count, value_bytes, memory, is_sorted) in [
            (0, 0, 1 << 20, false),
            (10, 20, 1 << 20, false),
            (20_000, 30, 8 << 20, false),
            (20_000, 30, 8 << 20, true),
            (20_000, 30, 200_000, false),
            (20_000, 30, 200_000, true),
            (300, 9000, 100_000, false),
            (20_000, 30, 1, false),
        ] {
            let mut entries = entries(count, value_bytes, &mut random);
            if is_sorted {
                entries.sort();
            }
            // So many runs would take a while.
            let entries = if memory == 1 { &entries[..200] } else { &entries[..] };
            let size = [PageSize::DEFAULT, PageSize::at_least(16 << 10).unwrap()][random.below(2)];
            let options = TreeOptions { page_size: size, ..TreeOptions::default() };
            let mut txn = begin(&db);
            let tree = txn.create_tree_with(options).unwrap();
            assert_eq!(load(&mut txn, tree, memory, entries), None);
            let mut model: Model = entries.iter().cloned().collect();
            assert!(contents(&mut txn, tree).into_iter().eq(model.clone()), "{recovery:?} {count} {memory}");
            // It can be changed at once.
            if let Some((key, _)) = entries.first() {
                txn.put(tree, key, b"changed").unwrap();
                model.insert(key.clone(), b"changed".to_vec());
                txn.delete(tree, &entries[entries.len() / 2].0).unwrap();
                model.remove(&entries[entries.len() / 2].0);
            }
            txn.commit().unwrap();
            trees.push((tree, model));
        }
        for is_reopened in [false, true] {
            let db = if is_reopened { open(&disk, recovery) } else { db.clone() };
            for (tree, model) in &trees {
                assert!(contents(&mut begin(&db), *tree).into_iter().eq(model.clone()));
            }
            db.close().unwrap();
        }
        assert!(verify(&*disk, &mut |_, _| ()).unwrap().findings.is_empty(), "{recovery:?}");
    }
}

#[test]
fn equal_keys_are_found_wherever_they_are() {
    let mut random = Random::new(4);
    for recovery in METHODS {
        let db = open(&Arc::new(MemDisk::new()), recovery);
        let used = db.stats().used_pages;
        for memory in [8 << 20, 100_000] {
            for is_sorted in [false, true] {
                for at in [0, 1, 7000, 13_999] {
                    let mut entries = entries(14_000, 30, &mut random);
                    if is_sorted {
                        entries.sort();
                    }
                    let key = entries[at].0.clone();
                    entries.push((key.clone(), b"again".to_vec()));
                    let mut txn = begin(&db);
                    let tree = txn.create_tree().unwrap();
                    let found = load(&mut txn, tree, memory, &entries).unwrap();
                    assert_eq!(found.key, key);
                    assert!(found.value == b"again" || found.value == entries[at].1);
                }
            }
        }
        db.close().unwrap();
        assert!(db.stats().used_pages <= used + 8, "nothing is left");
    }
}

#[test]
fn what_is_not_finished_is_given_back() {
    let mut random = Random::new(5);
    let entries = entries(20_000, 30, &mut random);
    for recovery in METHODS {
        let disk = Arc::new(MemDisk::new());
        let db = open(&disk, recovery);
        let mut txn = begin(&db);
        let outer = txn.savepoint();
        let tree = txn.create_tree().unwrap();
        let mut unfinished = Load::begin(&mut txn, tree, 100_000).unwrap();
        entries.iter().for_each(|(key, value)| unfinished.add(&mut txn, key, value).unwrap());
        // Gone with its savepoint.
        txn.rollback_to(outer).unwrap();
        assert!(matches!(Load::begin(&mut txn, tree, 100_000), Err(Error::BadOption(_))));
        let tree = txn.create_tree().unwrap();
        let inner = txn.savepoint();
        assert_eq!(load(&mut txn, tree, 100_000, &entries), None);
        assert!(matches!(Load::begin(&mut txn, tree, 100_000), Err(Error::BadOption(_))), "it is not empty");
        txn.release_savepoint(inner).unwrap();
        let dropped = txn.create_tree().unwrap();
        assert_eq!(load(&mut txn, dropped, 100_000, &entries), None);
        txn.drop_tree(dropped).unwrap();
        let empty = txn.create_tree().unwrap();
        let mut unfinished = Load::begin(&mut txn, empty, 100_000).unwrap();
        entries.iter().for_each(|(key, value)| unfinished.add(&mut txn, key, value).unwrap());
        txn.commit().unwrap();
        let mut found = contents(&mut begin(&db), tree);
        found.sort();
        let mut expected = entries.clone();
        expected.sort();
        assert!(found == expected, "{recovery:?}");
        db.close().unwrap();
        assert!(verify(&*disk, &mut |_, _| ()).unwrap().findings.is_empty(), "no page is lost: {recovery:?}");
    }
}

#[test]
fn a_load_can_be_interrupted_and_needs_a_new_tree() {
    let mut random = Random::new(6);
    let entries = entries(20_000, 30, &mut random);
    let db = open(&Arc::new(MemDisk::new()), Recovery::Shadow);
    let mut txn = begin(&db);
    let known = txn.create_tree().unwrap();
    txn.commit().unwrap();
    let interrupt = Arc::new(Interrupt::default());
    let options = TxnOptions { interrupt: Some(interrupt.clone()), ..TxnOptions::default() };
    let mut txn = db.begin(options).unwrap();
    assert!(matches!(Load::begin(&mut txn, known, 1000), Err(Error::BadOption(_))));
    let tree = txn.create_tree().unwrap();
    let mut load = Load::begin(&mut txn, tree, 8 << 20).unwrap();
    entries.iter().for_each(|(key, value)| load.add(&mut txn, key, value).unwrap());
    let too_long = load.add(&mut txn, &[0; 2000], b"");
    assert!(matches!(too_long, Err(Error::KeyTooLong { bytes: 2000, max: 1024 })));
    interrupt.raise(InterruptReason::Cancel);
    assert!(matches!(load.finish(&mut txn), Err(Error::Interrupted(_))));
}

//! Transactions compared with a simple reference.

use proptest::prelude::{Strategy, *};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    Delete(u8),
    Commit,
    Rollback,
    Reopen,
    Savepoint,
    RollbackTo(usize),
    Release(usize),
    Scan { from: u8, to: u8, backward: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), 0..3000u16).prop_map(|(key, size)| Step::Put(key, size)),
        4 => any::<u8>().prop_map(Step::Delete),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Reopen),
        2 => Just(Step::Savepoint),
        2 => any::<usize>().prop_map(Step::RollbackTo),
        1 => any::<usize>().prop_map(Step::Release),
        3 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(from, to, backward)| Step::Scan { from, to, backward }),
    ]
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn isolation() -> impl Strategy<Value = Isolation> {
    prop::sample::select(vec![Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One transaction after another does what a map does, in every isolation, over reopening.
    #[test]
    fn behaves_as_a_map(
        steps in prop::collection::vec(step(), 1..200),
        isolation in isolation(),
        escalate_bytes in prop_oneof![Just(500_usize), Just(5000), Just(1 << 20)],
    ) {
        let disk = Arc::new(MemDisk::new());
        let options = Options { pool_bytes: 512 << 10, escalate_bytes, seed: Some(1), ..Options::default() };
        let open = || Database::open_on(disk.clone(), options.clone()).unwrap();
        let begin = |db: &Database| db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
        let mut db = open();
        let tree = tree_with(&db, &[]);
        let mut committed = Contents::new();
        let mut current = committed.clone();
        let mut txn = begin(&db);
        // The contents at each savepoint.
        let mut savepoints: Vec<(Savepoint, Contents)> = Vec::new();
        for step in steps {
            if matches!(step, Step::Commit | Step::Rollback | Step::Reopen) {
                savepoints.clear();
            }
            match step {
                Step::Savepoint => savepoints.push((txn.savepoint(), current.clone())),
                Step::RollbackTo(at) if !savepoints.is_empty() => {
                    savepoints.truncate(at % savepoints.len() + 1);
                    let (savepoint, contents) = savepoints.last().unwrap();
                    txn.rollback_to(*savepoint).unwrap();
                    current = contents.clone();
                }
                Step::Release(at) if !savepoints.is_empty() => {
                    let gone = savepoints.split_off(at % savepoints.len());
                    txn.release_savepoint(gone[0].0).unwrap();
                    for (savepoint, _) in gone {
                        prop_assert!(txn.rollback_to(savepoint).is_err());
                    }
                }
                Step::RollbackTo(_) | Step::Release(_) => {}
                Step::Put(key, size) => {
                    let value = vec![key; size as usize];
                    txn.put(tree, &[key], &value).unwrap();
                    current.insert(vec![key], value);
                }
                Step::Delete(key) => {
                    let was = current.remove(&vec![key]).is_some();
                    prop_assert_eq!(txn.delete(tree, &[key]).unwrap(), was);
                }
                Step::Commit => {
                    txn.commit().unwrap();
                    committed = current.clone();
                    txn = begin(&db);
                }
                Step::Rollback => {
                    txn.rollback();
                    current = committed.clone();
                    txn = begin(&db);
                }
                Step::Reopen => {
                    drop(txn);
                    drop(db);
                    current = committed.clone();
                    db = open();
                    txn = begin(&db);
                }
                Step::Scan { from, to, backward } => {
                    let range = KeyRange { start: Bound::Included(vec![from]), end: Bound::Excluded(vec![to]) };
                    let direction = if backward { Direction::Backward } else { Direction::Forward };
                    let mut copied = txn.scan(tree, range.clone(), direction).unwrap();
                    let mut lent = txn.scan(tree, range, direction).unwrap();
                    let mut found = Vec::new();
                    while let Some(entry) = copied.next(&mut txn).unwrap() {
                        let same = lent.next_ref(&mut txn).unwrap();
                        prop_assert_eq!(same, Some((&*entry.0, &*entry.1)));
                        found.push(entry);
                    }
                    prop_assert_eq!(lent.next_ref(&mut txn).unwrap(), None);
                    let mut expected: Vec<_> = current.iter()
                        .filter(|(key, _)| key[0] >= from && key[0] < to)
                        .map(|(key, value)| (key.clone(), value.clone())).collect();
                    if backward {
                        expected.reverse();
                    }
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}

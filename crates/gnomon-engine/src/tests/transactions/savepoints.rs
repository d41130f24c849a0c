//! Savepoints: what going back returns.

use super::*;

#[test]
fn a_rollback_to_a_savepoint_returns_locks() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let db = database();
        let tree = tree_with(&db, &[("a", "1"), ("b", "2"), ("c", "3")]);
        let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
        txn.put(tree, b"a", b"10").unwrap();
        let savepoint = txn.savepoint();
        get(&mut txn, tree, "b");
        txn.put(tree, b"b", b"20").unwrap();
        txn.put(tree, b"c", b"30").unwrap();
        txn.insert(tree, b"d", b"40").unwrap();
        let made = txn.create_tree().unwrap();
        txn.put(made, b"k", b"v").unwrap();
        txn.rollback_to(savepoint).unwrap();
        assert!(txn.get(made, b"k").is_err());
        let mut other = impatient(&db, Isolation::ReadCommitted);
        assert!(other.put(tree, b"a", b"x").is_err(), "written before");
        // Under SERIALIZABLE what was read stays locked, and a blind write has seen whether the key was there.
        let kept = isolation == Isolation::Serializable;
        for key in [b"b", b"c"] {
            assert_eq!(other.put(tree, key, b"x").is_err(), kept, "{isolation:?}");
            assert!(other.get_locked(tree, key, RowLock::Share).is_ok(), "{isolation:?}");
        }
        drop(other);
        txn.commit().unwrap();
        assert!(db.locks().is_empty());
        assert_eq!(all(&mut begin(&db), tree), ["a=10", "b=2", "c=3"]);
    }
}

#[test]
fn what_is_taken_back_leaves_no_trace_of_its_tree() {
    let db = database();
    let [tree, other] = [(); 2].map(|()| tree_with(&db, &[("a", "1")]));
    let mut txn = begin(&db);
    let savepoint = txn.savepoint();
    txn.put(tree, b"a", b"2").unwrap();
    txn.rollback_to(savepoint).unwrap();
    let mut dropper = impatient(&db, Isolation::ReadCommitted);
    dropper.drop_tree(tree).unwrap();
    dropper.commit().unwrap();
    txn.put(other, b"a", b"2").unwrap();
    txn.commit().unwrap();
    assert_eq!(all(&mut begin(&db), other), ["a=2"]);
}

#[test]
fn a_released_savepoint_is_not_taken_for_another() {
    let db = database();
    let mut txn = begin(&db);
    let first = txn.savepoint();
    txn.release_savepoint(first).unwrap();
    let second = txn.savepoint();
    assert!(matches!(txn.rollback_to(first), Err(Error::BadOption(_))));
    txn.rollback_to(second).unwrap();
}

#[test]
fn a_dropped_tree_comes_back_with_a_savepoint() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1")]);
    let mut txn = begin(&db);
    txn.put(tree, b"b", b"2").unwrap();
    let savepoint = txn.savepoint();
    txn.drop_tree(tree).unwrap();
    assert!(txn.get(tree, b"a").is_err());
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(all(&mut txn, tree), ["a=1", "b=2"]);
    txn.commit().unwrap();
    assert_eq!(all(&mut begin(&db), tree), ["a=1", "b=2"]);
}

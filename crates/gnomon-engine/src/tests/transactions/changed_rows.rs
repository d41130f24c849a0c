//! What a lock tells of a key that others have changed since the statement's snapshot.

use super::{begin, database, get, tree_with};
use crate::{ChangeByOthers, Database, RowLock, Transaction, TreeId};

fn change(db: &Database, change: impl FnOnce(&mut Transaction)) {
    let mut txn = begin(db);
    change(&mut txn);
    txn.commit().unwrap();
}

fn put(db: &Database, tree: TreeId, value: &str) {
    change(db, |txn| txn.put(tree, b"a", value.as_bytes()).unwrap());
}

fn others(txn: &mut Transaction, tree: TreeId) -> ChangeByOthers {
    txn.lock_key(tree, b"a", RowLock::Exclusive).unwrap().1.others()
}

#[test]
fn a_lock_tells_what_others_have_done_since_the_snapshot() {
    let db = database();
    let tree = tree_with(&db, &[("a", "1"), ("b", "1")]);
    let delete = || change(&db, |txn| assert!(txn.delete(tree, b"a").unwrap()));
    let cases: [(&dyn Fn(), ChangeByOthers); 6] = [
        (&|| {}, ChangeByOthers::None),
        (&|| put(&db, tree, "2"), ChangeByOthers::Changed),
        (&|| put(&db, tree, "2"), ChangeByOthers::Changed),
        (
            &|| {
                delete();
                put(&db, tree, "3");
            },
            ChangeByOthers::Replaced,
        ),
        // Versions between are forgotten: no snapshot needs them.
        (
            &|| {
                put(&db, tree, "4");
                delete();
                put(&db, tree, "5");
                (0..300).for_each(|i| put(&db, tree, &i.to_string()));
            },
            ChangeByOthers::Replaced,
        ),
        (&|| change(&db, |txn| txn.put(tree, b"b", b"2").unwrap()), ChangeByOthers::None),
    ];
    for (at, (done, expected)) in cases.into_iter().enumerate() {
        let mut txn = begin(&db);
        assert!(get(&mut txn, tree, "a").is_some());
        done();
        assert_eq!(others(&mut txn, tree), expected, "case {at}");
        // Its own changes are none of others.
        txn.put(tree, b"a", b"own").unwrap();
        txn.start_statement().unwrap();
        assert!(get(&mut txn, tree, "a").is_some());
        assert_eq!(others(&mut txn, tree), ChangeByOthers::None, "case {at}");
    }
    let mut txn = begin(&db);
    assert!(get(&mut txn, tree, "a").is_some());
    delete();
    assert_eq!(others(&mut txn, tree), ChangeByOthers::Changed, "it is not there again");
    txn.rollback();
    let mut txn = begin(&db);
    assert_eq!(get(&mut txn, tree, "a"), None);
    put(&db, tree, "6");
    assert_eq!(others(&mut txn, tree), ChangeByOthers::Changed, "it was not there");
}

//! A replicator that orders commits by itself, and what it is told.

use std::{ops::Bound, time::Duration};

use super::*;
use crate::*;
use crate::{
    Direction, RowLock, TreeLock, TxnOptions,
    op::number,
    sync::{Mutex, OnceLock},
};

const MARKS: &[u8] = b"mark";

/// Applies each commit at once, unless the commits since contradict it.
#[derive(Default)]
struct Alone {
    database: OnceLock<Database>,
    marks: OnceLock<TreeId>,
    committed: Mutex<Vec<(Csn, CommitRequest)>>,
    begun: Mutex<Vec<(TxnId, u32)>>,
    abandoned: Mutex<Vec<TxnId>>,
}

impl Replicator for Alone {
    fn begin(&self, txn: TxnId, missed_max: u32, _: Csn) {
        self.begun.lock().push((txn, missed_max));
    }

    fn note(&self, _: Note) -> Result<()> {
        Ok(())
    }

    fn commit(&self, request: CommitRequest, _: Option<&Interrupt>) -> Result<Csn> {
        let mut committed = self.committed.lock();
        let conflict = committed.iter().any(|(csn, before)| {
            let conflicts = |touch: &Touch, other: &Touch| {
                let same = touch.tree == other.tree
                    && (touch.key.is_none() || other.key.is_none() || touch.key == other.key);
                same && *csn > touch.based_on
                    && !matches!(
                        (touch.how, other.how),
                        (Touching::Applies(a), Touching::Applies(b)) if a == b
                    )
                    && other.how != Touching::Locks
            };
            request.touched.iter().any(|touch| before.touched.iter().any(|other| conflicts(touch, other)))
        });
        if conflict {
            return Err(Error::Serialization(Conflict::Write));
        }
        let database = self.database.get().expect("it is set");
        let mark =
            Mark { tree: *self.marks.get().expect("it is set"), key: MARKS, value: b"x", forgets: None };
        let ordered = Ordered { trees: &[], changes: &request.changes, mark };
        let csn = match database.apply_replicated(&ordered)? {
            Some(ticket) => ticket.csn(),
            None => return Err(Error::Serialization(Conflict::Bound)),
        };
        committed.push((csn, request));
        Ok(csn)
    }

    fn call(&self, call: Vec<u8>) -> Result<(Csn, Result<Vec<u8>>)> {
        let database = self.database.get().expect("it is set");
        let called = database.run_replicated(&call)?;
        if called.answer.is_err() {
            return Ok((database.durable_csn(), called.answer));
        }
        let mark =
            Mark { tree: *self.marks.get().expect("it is set"), key: MARKS, value: b"x", forgets: None };
        let ticket = database.apply_replicated(&Ordered { trees: &[], changes: &called.changes, mark })?;
        Ok((ticket.expect("it puts").csn(), called.answer))
    }

    fn abandon(&self, abandoned: Abandoned) {
        self.abandoned.lock().push(abandoned.txn);
    }

    fn freshen(&self, _: Duration, _: Option<&Interrupt>) -> Result<Csn> {
        Ok(Csn(0))
    }
}

fn apply(database: &Database, changes: &WriteSet, mark: Mark<'_>) {
    let ordered = Ordered { trees: &[], changes: &encode_writes(changes), mark };
    database.apply_replicated(&ordered).unwrap().unwrap();
}

fn number_of(number: i64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn member() -> (Database, Arc<Alone>, TreeId) {
    member_with(crate::Options::shadow())
}

fn member_with(options: crate::Options) -> (Database, Arc<Alone>, TreeId) {
    // A log of pages is none for members.
    let database = Database::in_memory(options).unwrap();
    let mut txn = database.begin(TxnOptions::default()).unwrap();
    let (marks, tree) = (txn.create_tree().unwrap(), txn.create_tree().unwrap());
    for key in [b"a", b"b", b"c"] {
        txn.put(tree, key, &number_of(10)).unwrap();
    }
    txn.commit().unwrap();
    let alone = Arc::new(Alone::default());
    let _ = alone.marks.set(marks);
    let _ = alone.database.set(database.clone());
    database.set_replicator(alone.clone()).unwrap();
    (database, alone, tree)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap()
}

fn last(alone: &Alone) -> CommitRequest {
    alone.committed.lock().last().unwrap().1.clone()
}

#[test]
fn commits_are_handed_over_and_come_back() {
    let (database, alone, tree) = member();
    let mut txn = begin(&database, Isolation::ReadCommitted);
    assert_eq!(txn.get_locked(tree, b"a", RowLock::Update).unwrap(), Some(number_of(10)));
    txn.put(tree, b"a", &number_of(11)).unwrap();
    txn.get_locked(tree, b"b", RowLock::Share).unwrap();
    txn.insert(tree, b"d", &number_of(1)).unwrap();
    txn.apply(tree, b"c", &number::add(5)).unwrap();
    let csn = txn.commit().unwrap();
    let request = last(&alone);
    let touched: Vec<_> = request
        .touched
        .iter()
        .map(|touch| (touch.key.as_deref().unwrap_or_default()[0] as char, touch.how))
        .collect();
    assert!(matches!(
        touched[..],
        [
            ('a', Touching::Writes),
            ('c', Touching::Applies(_)),
            ('d', Touching::Writes),
            ('b', Touching::Locks)
        ]
    ));
    assert!(request.touched.iter().all(|touch| touch.based_on < csn));
    assert!(request.reads.is_empty() && request.snapshot.is_none());
    let mut txn = begin(&database, Isolation::ReadCommitted);
    for (key, value) in [(b"a", 11), (b"b", 10), (b"c", 15), (b"d", 1)] {
        assert_eq!(txn.get(tree, key).unwrap(), Some(number_of(value)));
    }
    txn.commit().unwrap();
    assert_eq!(alone.committed.lock().len(), 1, "whoever only reads asks nobody");
    assert!(database.locks().is_empty());
    begin(&database, Isolation::ReadCommitted).prepare("g", b"").unwrap_err();
}

#[test]
fn who_rests_on_what_has_changed_is_refused_and_operations_are_not() {
    let (database, _, tree) = member();
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let mut first = begin(&database, isolation);
        first.apply(tree, b"c", &number::add(1)).unwrap();
        first.put(tree, b"a", &number_of(0)).unwrap();
        // What another member does takes no locks here.
        let mut changes = WriteSet::default();
        changes.put(tree, b"c2", Some(&number_of(3)));
        let operation = database.0.inner.operations.get("number", "add").unwrap().clone();
        let args = number::add(1).args.into();
        changes.apply(tree, b"c", BoundCall { operation, args }, 8, None);
        let mark = Mark { tree, key: b"m", value: b"", forgets: None };
        apply(&database, &changes, mark);
        first.commit().unwrap();

        let mut late = begin(&database, isolation);
        late.put(tree, b"b", &number_of(0)).unwrap();
        let mut early = begin(&database, isolation);
        early.get(tree, b"a").unwrap();
        late.commit().unwrap();
        let written = early.put(tree, b"b", &number_of(1));
        match isolation {
            Isolation::ReadCommitted => {
                written.unwrap();
                early.commit().unwrap();
            }
            _ => assert!(matches!(written, Err(Error::Serialization(_)))),
        }
    }
    let mut txn = begin(&database, Isolation::ReadCommitted);
    assert_eq!(txn.get(tree, b"c").unwrap(), Some(number_of(16)));
}

#[test]
fn reads_are_noted_where_they_matter() {
    let (database, alone, tree) = member();
    let read = |options: TxnOptions| {
        let mut txn = database.begin(options).unwrap();
        txn.get(tree, b"x").unwrap();
        let mut scan = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
        scan.next(&mut txn).unwrap();
        scan.next(&mut txn).unwrap();
        txn.put(tree, b"z", b"1").unwrap();
        txn.commit().unwrap();
        let reads = last(&alone).reads;
        reads.into_iter().map(|(_, range)| (range.start, range.end)).collect::<Vec<_>>()
    };
    let options = |isolation| TxnOptions { isolation, ..TxnOptions::default() };
    let x = Bound::Included(b"x".to_vec());
    let noted = vec![(x.clone(), x), (Bound::Unbounded, Bound::Included(b"b".to_vec()))];
    assert!(read(options(Isolation::ReadCommitted)).is_empty());
    assert!(read(options(Isolation::Snapshot)).is_empty());
    assert_eq!(read(options(Isolation::Serializable)), noted);
    assert_eq!(last(&alone).isolation, Isolation::Serializable);
    assert!(last(&alone).snapshot.is_some());
    assert_eq!(read(TxnOptions { missed_max: Some(3), ..options(Isolation::Snapshot) }), noted);
    assert_eq!(alone.begun.lock().iter().map(|(_, missed_max)| *missed_max).collect::<Vec<_>>(), [3]);
    assert!(alone.abandoned.lock().is_empty());
    let mut txn = database.begin(TxnOptions { missed_max: Some(0), ..options(Isolation::Snapshot) }).unwrap();
    let id = txn.id();
    txn.get(tree, b"a").unwrap();
    drop(txn);
    assert_eq!(*alone.abandoned.lock(), [id]);
}

#[test]
fn what_is_too_large_is_abandoned() {
    let limits =
        crate::Options { escalate_bytes: 16 << 10, write_bytes_max: 64 << 10, ..crate::Options::shadow() };
    let (database, alone, tree) = member_with(limits);
    let options = TxnOptions { isolation: Isolation::Snapshot, missed_max: Some(0), ..TxnOptions::default() };
    let mut txn = database.begin(options).unwrap();
    let id = txn.id();
    // Others order it as a whole, so it never has pages of its own.
    let put = (0..200_u16).map(|key| txn.put(tree, &key.to_be_bytes(), &[0; 500]));
    assert!(matches!(put.last(), Some(Err(Error::TransactionTooLarge))));
    drop(txn);
    assert_eq!(*alone.abandoned.lock(), [id]);
    assert!(alone.committed.lock().is_empty() && database.locks().is_empty());
}

#[test]
fn bounds_are_asked_in_the_order() {
    let (database, _, tree) = member();
    let take = |txn: &mut Transaction| txn.apply(tree, b"a", &number::add_within(-6, 0, 100)).unwrap();
    let (mut one, mut other) =
        (begin(&database, Isolation::ReadCommitted), begin(&database, Isolation::ReadCommitted));
    assert_eq!(take(&mut one), crate::Applied::Done);
    assert_eq!(take(&mut other), crate::Applied::Done, "nobody claims anything");
    one.commit().unwrap();
    assert!(matches!(other.commit(), Err(Error::Serialization(_))));
    let mut again = begin(&database, Isolation::ReadCommitted);
    assert_eq!(take(&mut again), crate::Applied::Refused(0));
}

#[test]
fn bounds_of_each_of_several_operations_are_asked_in_the_order() {
    let (database, _, tree) = member();
    let twice = || {
        let mut txn = begin(&database, Isolation::ReadCommitted);
        for _ in 0..2 {
            txn.apply(tree, b"a", &number::add_within(-4, 0, 100)).unwrap();
        }
        txn
    };
    let (one, other) = (twice(), twice());
    one.commit().unwrap();
    assert!(matches!(other.commit(), Err(Error::Serialization(_))), "there are 2 left");
}

#[test]
fn very_many_operations_on_one_row_are_one() {
    let (database, alone, tree) = member();
    let mut txn = begin(&database, Isolation::ReadCommitted);
    for _ in 0..10_000 {
        // As each statement does.
        txn.savepoint();
        txn.apply(tree, b"a", &number::add_within(1, 0, 100_000)).unwrap();
    }
    txn.commit().unwrap();
    assert!(last(&alone).changes.len() < 100);
}

#[test]
fn trees_are_made_and_dropped_beside_those_who_use_them() {
    let (database, alone, tree) = member();
    let mut reader = begin(&database, Isolation::Snapshot);
    reader.get(tree, b"a").unwrap();
    let mut maker = begin(&database, Isolation::ReadCommitted);
    let made = maker.create_tree().unwrap();
    maker.put(made, b"k", b"v").unwrap();
    maker.lock_tree(tree, TreeLock::Shared).unwrap();
    maker.commit().unwrap();
    let whole: Vec<_> =
        last(&alone).touched.iter().map(|touch| (touch.tree, touch.key.is_none(), touch.how)).collect();
    assert_eq!(whole, [(made, true, Touching::Writes), (tree, true, Touching::Writes)]);
    let is_based = |touch: &Touch| touch.based_on > Csn(0);
    assert!(last(&alone).touched.iter().all(is_based), "what is new is not older than all that is kept");
    // Another member drops the tree.
    let mut changes = WriteSet::default();
    changes.drop_tree(tree);
    let marks = *alone.marks.get().unwrap();
    let mark = Mark { tree: marks, key: MARKS, value: b"y", forgets: None };
    apply(&database, &changes, mark);
    assert!(!crate::database::reclaim_some(&database.0.inner).unwrap(), "it is in use");
    assert_eq!(reader.get(tree, b"b").unwrap(), Some(number_of(10)));
    drop(reader);
    assert!(crate::database::reclaim_some(&database.0.inner).unwrap());
    let mut txn = begin(&database, Isolation::ReadCommitted);
    assert!(matches!(txn.get(tree, b"a"), Err(Error::NoSuchTree(_))));
    assert_eq!(txn.get(made, b"k").unwrap().as_deref(), Some(b"v".as_slice()));
}

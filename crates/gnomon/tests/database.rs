//! The crate's own promises: named trees, ranges of transactions, reads after commits, options that are not ignored.

use std::{collections::BTreeMap, time::Duration};

use gnomon::{
    Builder, Commits, Database, Error, Isolation, Procedure, Recovery, Result, Tree,
    options::{Execution, Records, Strategy},
};
use proptest::{prelude::*, strategy::Strategy as Generator};

const RECOVERIES: [Recovery; 3] =
    [Recovery::Shadow, Recovery::CommitLog(Records::Values), Recovery::PageLog(Strategy::TwoLevelDeferred)];

fn in_memory(recovery: Recovery) -> Database {
    Builder::in_memory().recovery(recovery).open().unwrap()
}

#[test]
fn names_are_kept_with_their_transactions() {
    for recovery in RECOVERIES {
        let directory = tempfile::tempdir().unwrap();
        let open = || Database::builder(directory.path().join("db")).recovery(recovery).open().unwrap();
        let db = open();
        assert!(db.trees().unwrap().is_empty());
        assert_eq!(db.find_tree("a").unwrap(), None);
        let mut txn = db.begin().unwrap();
        let rolled_back = txn.create_tree("a", |_| ()).unwrap();
        txn.put(rolled_back, "key", "value").unwrap();
        assert_eq!(txn.tree("a").unwrap(), rolled_back);
        drop(txn);
        assert_eq!(db.find_tree("a").unwrap(), None);
        let (b, a) = (db.tree("b").unwrap(), db.tree("a").unwrap());
        assert_eq!(db.tree("a").unwrap(), a);
        db.transact(|txn| {
            assert!(matches!(txn.create_tree("a", |_| ()), Err(Error::KeyExists)));
            txn.put(a, "key", "value")
        })
        .unwrap();
        let numbered = db.transact(|txn| txn.create_numbered_tree(|_| ())).unwrap();
        assert_eq!(db.trees().unwrap(), [("a".into(), a), ("b".into(), b)]);
        db.close().unwrap();
        drop(db);

        let db = open();
        assert_eq!(db.trees().unwrap(), [("a".into(), a), ("b".into(), b)]);
        assert_eq!(db.read().unwrap().get(a, "key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(matches!(db.transact(|txn| txn.drop_numbered_tree(a)), Err(Error::BadOption(_))));
        db.transact(|txn| txn.drop_numbered_tree(numbered)).unwrap();
        assert!(db.transact(|txn| txn.drop_tree("a")).unwrap());
        assert!(!db.transact(|txn| txn.drop_tree("a")).unwrap());
        assert!(matches!(db.transact(|txn| txn.get(a, "key")), Err(Error::NoSuchTree(_))));
        assert_eq!(db.trees().unwrap(), [("b".into(), b)]);
        assert!(db.tree("a").unwrap() > numbered, "numbers are given in turn");
    }
}

#[test]
fn a_name_has_bounds() {
    let db = Database::in_memory().unwrap();
    for name in ["", &"n".repeat(256)] {
        assert!(matches!(db.tree(name), Err(Error::BadOption(_))));
        assert!(matches!(db.find_tree(name), Err(Error::BadOption(_))));
    }
    db.tree(&"n".repeat(255)).unwrap();
    db.tree("Bäume").unwrap();
}

/// Threads that ask for the same names at the same time get the same trees.
#[test]
fn a_name_is_given_once() {
    for recovery in RECOVERIES {
        let db = in_memory(recovery);
        let found: Vec<Vec<Tree>> = std::thread::scope(|scope| {
            let ask = || (0..8).map(|number| db.tree(&format!("tree {number}")).unwrap()).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(db.trees().unwrap().len(), 8);
    }
}

/// A tree that a transaction has found by its name stays until the transaction ends.
#[test]
fn a_tree_that_is_in_use_is_not_dropped() {
    let db = Builder::in_memory().lock_timeout(Duration::ZERO).open().unwrap();
    let tree = db.tree("a").unwrap();
    let mut user = db.begin().unwrap();
    assert_eq!(user.find_tree("a").unwrap(), Some(tree));
    assert!(matches!(db.transact(|txn| txn.drop_tree("a")), Err(Error::LockTimeout)));
    user.commit().unwrap();
    let read = db.read().unwrap();
    read.get(tree, "key").unwrap();
    assert!(matches!(db.transact(|txn| txn.drop_tree("a")), Err(Error::LockTimeout)));
    drop(read);
    assert!(db.transact(|txn| txn.drop_tree("a")).unwrap());
}

#[test]
fn a_read_has_every_commit_that_a_caller_was_told_of() {
    for commits in [Commits::Synchronous, Commits::Asynchronous, Commits::Unforced] {
        let touch = Procedure::new("touch", "1", |call, params| {
            let tree = call.tree("tree")?;
            call.put(tree, params, "called")?;
            Ok(Vec::new())
        });
        let db = Builder::in_memory().commits(commits).procedure(touch).open().unwrap();
        let tree = db.tree("tree").unwrap();
        for number in 0..100_u32 {
            db.transact(|txn| txn.put(tree, number.to_be_bytes(), "")).unwrap();
            assert!(db.read().unwrap().get(tree, number.to_be_bytes()).unwrap().is_some());
            db.call("touch", b"key").unwrap();
            db.transact(|txn| txn.delete(tree, "key")).unwrap();
            assert_eq!(db.read().unwrap().get(tree, "key").unwrap(), None);
            let mut txn = db.begin().unwrap();
            txn.put(tree, "ticket", number.to_be_bytes()).unwrap();
            let ticket = txn.commit_ticket().unwrap();
            let seen = db.read_after(ticket.csn()).unwrap().get(tree, "ticket").unwrap();
            assert_eq!(seen.as_deref(), Some(&number.to_be_bytes()[..]));
        }
    }
}

#[test]
fn each_read_of_a_read_committed_transaction_sees_what_is_committed() {
    let db = Database::in_memory().unwrap();
    let tree = db.tree("tree").unwrap();
    for (isolation, count) in [(Isolation::ReadCommitted, 2), (Isolation::Snapshot, 1)] {
        db.transact(|txn| txn.delete(tree, "b").and(txn.put(tree, "a", ""))).unwrap();
        let mut txn = db.begin_with(|options| options.isolation = isolation).unwrap();
        assert_eq!(txn.iter(tree).unwrap().count(), 1);
        db.transact(|txn| txn.put(tree, "b", "")).unwrap();
        assert_eq!(txn.iter(tree).unwrap().count(), count);
        assert_eq!(txn.get(tree, "b").unwrap().is_some(), count == 2);
    }
}

/// Counters that transactions read and write, which a lost update would leave too low.
#[test]
fn transactions_run_again_until_they_have_committed() {
    for recovery in RECOVERIES {
        let db = in_memory(recovery);
        let tree = db.tree("tree").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let count = |txn: &mut gnomon::Transaction| -> Result<()> {
                            let there = txn.get(tree, "count")?.map_or(0, |there| there[0]);
                            txn.put(tree, "count", [there + 1])
                        };
                        db.transact(count).unwrap();
                    }
                });
            }
        });
        assert_eq!(db.read().unwrap().get(tree, "count").unwrap(), Some(vec![100]));
    }
}

#[test]
fn names_are_found_where_procedures_run_serially() {
    let put = Procedure::new("put", "1", |call, params| {
        let tree = call.tree("placed")?;
        call.put(tree, params, "put")?;
        Ok(call.range::<&[u8]>(tree, ..)?.len().to_le_bytes().into())
    });
    let db = Builder::in_memory().procedure(put).execution(Execution::serial(2)).open().unwrap();
    let placement = gnomon::options::Placement::Partition(1);
    let tree = db.transact(|txn| txn.create_tree("placed", |options| options.placement = placement)).unwrap();
    assert_eq!(db.call("put", b"a").unwrap(), 1_usize.to_le_bytes());
    assert_eq!(db.call("put", b"b").unwrap(), 2_usize.to_le_bytes());
    assert_eq!(db.transact(|txn| Ok(txn.iter(tree)?.count())).unwrap(), 2);
    assert!(matches!(db.read().unwrap().get(tree, "a"), Err(Error::NotRouted(_))));
    assert_eq!(db.tree("placed").unwrap(), tree);
    assert_eq!(db.trees().unwrap().len(), 1);
}

#[test]
fn an_option_that_would_be_ignored_is_refused() {
    let refused = |builder: Builder| match builder.open() {
        Err(Error::BadOption(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is accepted"),
    };
    let page_log = Recovery::PageLog(Strategy::TwoLevel);
    for (builder, name) in [
        (Builder::in_memory().log(|log| log.bytes_max = Some(1 << 20)), "bytes_max"),
        (Builder::in_memory().recovery(page_log).log(|log| log.replay_threads = Some(1)), "replay_threads"),
        (
            Builder::in_memory().recovery(page_log).log(|log| log.replay_bytes_max = Some(1)),
            "replay_bytes_max",
        ),
        (Builder::in_memory().recovery(page_log).storage(|storage| storage.cleaner = false), "cleaner"),
        (Builder::in_memory().recovery(page_log).storage(|storage| storage.fill_max = 0.5), "fill_max"),
        (
            Builder::in_memory()
                .recovery(Recovery::CommitLog(Records::Values))
                .log(|log| log.replay_weight = Some(1.0)),
            "replay_weight",
        ),
        (Builder::in_memory().log(|log| log.sphere_pages_max = Some(1)), "sphere_pages_max"),
        (Builder::in_memory().storage(|storage| storage.create = false), "in memory"),
        (Builder::in_memory().storage(|storage| storage.mirrored = true), "in memory"),
        (Builder::in_memory().memory(|memory| memory.pool_bytes = 1), "pool"),
    ] {
        assert!(refused(builder).contains(name), "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    assert!(Database::builder(&path).storage(|storage| storage.create = false).open().is_err());
    Database::open(&path).unwrap().tree("a").unwrap();
    assert!(refused(Database::builder(&path).recovery(Recovery::Shadow)).contains("recovers by"));
    let read_only = Database::builder(&path).commits(Commits::Asynchronous).open_read_only();
    assert!(matches!(read_only, Err(Error::BadOption(_))));
    for builder in [
        Database::builder(&path).memory(|memory| memory.escalate_bytes = 1 << 20),
        Database::builder(&path).memory(|memory| memory.write_bytes_max = 1 << 20),
        Database::builder(&path).log(|log| log.bytes_max = Some(1 << 30)),
        Database::builder(&path).log(|log| log.sphere_pages_max = Some(1)),
    ] {
        assert!(matches!(builder.open_read_only(), Err(Error::BadOption(_))));
    }
    assert!(matches!(Database::builder(&path).prepared_max(1).verify(), Err(Error::BadOption(_))));
    assert!(matches!(Builder::in_memory().verify(), Err(Error::BadOption(_))));
    let read_only = Database::builder(&path).open_read_only().unwrap();
    assert_eq!(read_only.trees().unwrap().len(), 1);
    assert!(matches!(read_only.tree("b"), Err(Error::ReadOnly)));
    drop(read_only);
    assert!(gnomon::verify(&path).unwrap().is_sound);
}

/// SQL numbers its trees, and so do programs of the engine: names are beside both.
#[test]
fn names_are_beside_the_trees_of_others() {
    let db = Database::in_memory().unwrap();
    let named = db.tree("named").unwrap();
    let engine = db.engine().clone();
    let mut txn = engine.begin(gnomon_engine::TxnOptions::default()).unwrap();
    assert!(txn.create_tree().unwrap() > named);
    let older = gnomon_engine::Database::in_memory(gnomon_engine::Options::default()).unwrap();
    let mut txn = older.begin(gnomon_engine::TxnOptions::default()).unwrap();
    assert_eq!(txn.create_tree().unwrap(), Tree(1));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Next,
    NextBack,
}

fn steps() -> impl Generator<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => (0..40_u8).prop_map(Step::Delete),
        3 => Just(Step::Next),
        3 => Just(Step::NextBack),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A transaction's range is that of a map with its own changes, from both ends, until they meet.
    #[test]
    fn a_range_of_a_transaction_is_that_of_a_map(
        recovery in 0..RECOVERIES.len(),
        isolation in 0..3_usize,
        present in prop::collection::btree_map(0..40_u8, any::<u8>(), 0..40),
        rounds in prop::collection::vec((0..40_u8, 0..40_u8, steps()), 1..4),
    ) {
        let isolation = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable][isolation];
        let db = in_memory(RECOVERIES[recovery]);
        let tree = db.tree("tree").unwrap();
        db.transact(|txn| present.iter().try_for_each(|(key, value)| txn.put(tree, [*key], [*value]))).unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> =
            present.iter().map(|(key, value)| (vec![*key], vec![*value])).collect();
        let mut txn = db.begin_with(|options| options.isolation = isolation).unwrap();
        for (start, end, steps) in rounds {
            for step in &steps {
                match step {
                    Step::Put(key, value) => {
                        txn.put(tree, [*key], [*value]).unwrap();
                        model.insert(vec![*key], vec![*value]);
                    }
                    Step::Delete(key) => {
                        let was_there = model.remove(&vec![*key]).is_some();
                        prop_assert_eq!(txn.delete(tree, [*key]).unwrap(), was_there);
                    }
                    Step::Next | Step::NextBack => {}
                }
            }
            let expected = model.iter().filter(|(key, _)| (start..end).contains(&key[0]));
            let mut expected = expected.map(|(key, value)| (key.clone(), value.clone()));
            let mut range = txn.range(tree, [start]..[end]).unwrap();
            for step in &steps {
                match step {
                    Step::Next => prop_assert_eq!(range.next().transpose().unwrap(), expected.next()),
                    Step::NextBack => {
                        prop_assert_eq!(range.next_back().transpose().unwrap(), expected.next_back());
                    }
                    Step::Put(..) | Step::Delete(_) => {}
                }
            }
            prop_assert_eq!(range.map(Result::unwrap).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        txn.commit().unwrap();
        let read: Vec<_> = db.read().unwrap().iter(tree).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(read, model.into_iter().collect::<Vec<_>>());
    }
}

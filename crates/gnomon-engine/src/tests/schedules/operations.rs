//! Operations that share their keys.

use super::*;

/// Additions to two numbers, none of which waits for another, beside readers at snapshots. Whatever the order in which
/// they are applied, every snapshot has what the commits before it make, and so has what a crash leaves.
fn additions(race: Option<Failpoint>) {
    let world = World::new(race);
    let keys = [&b"a"[..], b"b"];
    let mut txn = world.begin(Isolation::ReadCommitted);
    keys.iter().for_each(|key| txn.put(world.tree, key, &START.to_le_bytes()).unwrap());
    txn.commit().unwrap();
    let sum = |txn: &mut Transaction| -> i64 {
        let value = |txn: &mut Transaction, key| txn.get(world.tree, key).unwrap().expect("it exists");
        keys.iter().map(|key| i64::from_le_bytes(value(txn, key).try_into().unwrap())).sum()
    };
    let adders: Vec<_> = (1..4_i128)
        .map(|amount| {
            let world = world.clone();
            thread::spawn(move || {
                for step in 1..3 {
                    let mut txn = world.begin(Isolation::ReadCommitted);
                    for (key, delta) in [(b"a", -amount), (b"b", amount)] {
                        let call = crate::op::number::add_within(delta, 0, 1000);
                        assert_eq!(txn.apply(world.tree, key, &call).unwrap(), Applied::Done);
                    }
                    let after = txn.commit_ticket().unwrap().csn();
                    // A snapshot of just that commit, while later ones may be applied.
                    let options = TxnOptions { read_only: true, after, ..TxnOptions::default() };
                    let mut txn = world.db.begin(options).unwrap();
                    let value = txn.get(world.tree, b"b").unwrap().expect("it exists");
                    let value = i64::from_le_bytes(value.try_into().unwrap());
                    assert!(i128::from(value - START) >= step * amount, "{value} after {step} of {amount}");
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let mut txn = world.begin(Isolation::Snapshot);
        txn.start_statement().unwrap();
        assert_eq!(sum(&mut txn), 2 * START);
    }
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    let mut txn = world.begin(Isolation::ReadCommitted);
    assert_eq!(sum(&mut txn), 2 * START);
    assert_eq!(txn.get(world.tree, b"b").unwrap().unwrap(), (START + 12).to_le_bytes());
    txn.commit().unwrap();
    assert!(world.db.locks().is_empty());
    let left = open(&world.disk.crash_image_synced(), race);
    let mut txn = left.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.get(world.tree, b"b").unwrap().unwrap(), (START + 12).to_le_bytes());
}

#[test]
fn shuttle_additions_are_in_the_order_of_commits_for_every_reader() {
    check_random("additions", SEEDS, || additions(None));
}

#[test]
fn shuttle_finds_versions_in_the_order_of_application() {
    catch(Failpoint::VersionsInApplyOrder, additions);
}

/// A transaction takes what another one has just put there, and reads the rest, while a commit elsewhere holds up what
/// snapshots include.
fn takings() {
    let world = World::new(None);
    let mut txn = world.begin(Isolation::ReadCommitted);
    txn.put(world.tree, b"a", &0_i64.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    let add = |world: &World, txn: &mut Transaction, key: &[u8], delta| {
        txn.apply(world.tree, key, &crate::op::number::add_within(delta, 0, 1000)).unwrap()
    };
    let elsewhere = commit_elsewhere(&world);
    let putter = thread::spawn({
        let world = world.clone();
        move || {
            let mut txn = world.begin(Isolation::ReadCommitted);
            assert_eq!(add(&world, &mut txn, b"a", 10), Applied::Done);
            txn.commit_ticket().unwrap();
        }
    });
    let mut txn = world.begin(Isolation::ReadCommitted);
    txn.start_statement().unwrap();
    if add(&world, &mut txn, b"a", -10) == Applied::Done {
        let left = txn.get(world.tree, b"a").expect("it was allowed").expect("it exists");
        assert_eq!(i64::from_le_bytes(left.try_into().unwrap()), 0);
    }
    elsewhere.join().unwrap();
    putter.join().unwrap();
}

#[test]
fn shuttle_what_was_taken_was_there() {
    check_random("takings", SEEDS, takings);
}

#[test]
fn shuttle_finds_records_out_of_order_and_repeats_it() {
    catch(Failpoint::RecordOutOfOrder, additions);
}

//! Transactions on pages of their own, beside readers.

use super::*;

/// A database whose transactions are all large.
fn large_world(race: Option<Failpoint>) -> Arc<World> {
    let mut world = Arc::into_inner(World::new(race)).unwrap();
    world.db.close().unwrap();
    drop(world.db);
    let options = Options { pool_bytes: 512 << 10, escalate_bytes: 1, seed: Some(7), ..Options::default() };
    world.db = open_with(&world.disk, options, race);
    Arc::new(world)
}

/// Transfers on private pages, beside readers whose snapshots are older and younger.
fn large_transfers(race: Option<Failpoint>) {
    let world = large_world(race);
    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (world, done) = (world.clone(), done.clone());
            thread::spawn(move || {
                let isolation =
                    if thread_rng().gen_bool(0.5) { Isolation::ReadCommitted } else { Isolation::Snapshot };
                match world.transfer(isolation) {
                    Ok(committed) => drop(done.fetch_add(usize::from(committed), Ordering::SeqCst)),
                    Err(Error::Serialization(_)) if isolation == Isolation::Snapshot => {}
                    Err(error) => panic!("{error}"),
                }
            })
        })
        .collect();
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            for _ in 0..2 {
                let mut txn = world.begin(Isolation::Snapshot);
                let first = world.accounts(&mut txn).unwrap();
                assert_eq!(world.accounts(&mut txn).unwrap(), first, "a snapshot has changed");
                drop(txn);
                let read_only = TxnOptions { read_only: true, ..TxnOptions::default() };
                let seen = world.accounts(&mut world.db.begin(read_only).unwrap()).unwrap();
                world.check_image(&seen);
            }
        }
    });
    for thread in writers.into_iter().chain([reader]) {
        thread.join().unwrap();
    }
    let seen = world.accounts(&mut world.begin(Isolation::ReadCommitted)).unwrap();
    let changes: u64 = seen.values().sum();
    assert_eq!(changes as usize, 2 * done.load(Ordering::SeqCst), "an update was lost");
    world.db.0.inner.store.wait_durable(world.db.0.inner.store.last_csn()).unwrap();
    world.db.0.inner.prune();
    assert_eq!(world.db.stats().held_pages, 0, "a state is pinned that nobody needs");
}

#[test]
fn shuttle_readers_of_all_times_see_whole_large_transactions() {
    check_random("large transfers", SEEDS / 4, || large_transfers(None));
}

#[test]
fn shuttle_finds_pages_that_were_replaced_under_their_reader_and_repeats_it() {
    catch(Failpoint::ReplacedUnseen, large_transfers);
}

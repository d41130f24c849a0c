//! Transactions under seeded schedules, on a simulated disk, with so few changed pages allowed that commits write
//! early. What a transaction was told is compared with what a crash at that moment would leave.
//!
//! `GNOMON_RECOVERY` names another recovery method; what is planted is planted in shadow paging, or in the log of
//! commits.

mod large;
mod operations;

use std::{collections::BTreeMap, ops::Bound, panic::catch_unwind};

use shuttle::rand::{Rng as _, thread_rng};

use crate::*;
use crate::{
    Csn, Error, LogShape, Result, TreeId,
    disk::SimDisk,
    failpoint::Failpoint,
    store::Store,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        check_random, find_failing_seed, run_seed, thread,
    },
};

const SEEDS: u64 = 1000;
const ACCOUNTS: u8 = 3;
const START: i64 = 100;

struct World {
    disk: SimDisk,
    db: Database,
    tree: TreeId,
}

fn open(disk: &SimDisk, race: Option<Failpoint>) -> Database {
    use Failpoint::{CheckpointBehindBatch, RecordOutOfOrder};
    let recovery = race.map(|race| match race {
        RecordOutOfOrder | CheckpointBehindBatch => Recovery::CommitLog(Records::Values),
        _ => Recovery::Shadow,
    });
    let options = Options { recovery, pool_bytes: 512 << 10, seed: Some(7), ..Options::default() };
    open_with(disk, options, race)
}

/// Segments that are filled with zeros in few steps.
const LOGS: LogShape = LogShape { redo_files: 1, shared: true, segment_bytes: 64 << 10 };

fn open_with(disk: &SimDisk, options: Options, race: Option<Failpoint>) -> Database {
    Database::open_store(
        disk.into(),
        Options { logs: LOGS, ..options },
        crate::recovery::Access::Write,
        |store| {
            if let Store::Shadow(_) = store {
                let store = store.shadow_mut();
                store.batcher.set_dirty_bytes_max(4096);
                store.failpoints.turn_on(race);
            }
        },
    )
    .unwrap()
}

impl World {
    /// A database with a tree of accounts. A value is a balance and how often it was changed.
    fn new(race: Option<Failpoint>) -> Arc<World> {
        let disk = SimDisk::new(1);
        let db = open(&disk, race);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let tree = txn.create_tree().unwrap();
        for account in 0..ACCOUNTS {
            txn.put(tree, &[account], &encode(START, 0)).unwrap();
        }
        txn.commit().unwrap();
        Arc::new(World { disk, db, tree })
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        self.db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap()
    }

    /// Moves an amount between two accounts; false if it was the victim of a deadlock.
    fn transfer(&self, isolation: Isolation) -> Result<bool> {
        let mut txn = self.begin(isolation);
        let from = thread_rng().gen_range(0..ACCOUNTS);
        let to = (from + thread_rng().gen_range(1..ACCOUNTS)) % ACCOUNTS;
        let mut run = || {
            for (account, amount) in [(from, -1), (to, 1)] {
                let old = txn.get_locked(self.tree, &[account], RowLock::Exclusive)?.expect("it exists");
                let (balance, version) = decode(&old);
                txn.put(self.tree, &[account], &encode(balance + amount, version + 1))?;
            }
            Result::Ok(())
        };
        match run() {
            Ok(()) => txn.commit().map(|_| true),
            Err(Error::Deadlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Prepares a transfer between two accounts, after as many tries as it takes.
    fn prepare_transfer(&self, gid: &str) {
        loop {
            let mut txn = self.begin(Isolation::ReadCommitted);
            let from = thread_rng().gen_range(0..ACCOUNTS);
            let accounts = [from, (from + 1) % ACCOUNTS];
            let mut run = || {
                for (account, amount) in accounts.into_iter().zip([-1, 1]) {
                    let old = txn.get_locked(self.tree, &[account], RowLock::Exclusive)?.expect("it exists");
                    let (balance, version) = decode(&old);
                    txn.put(self.tree, &[account], &encode(balance + amount, version + 1))?;
                }
                Result::Ok(())
            };
            match run() {
                Ok(()) => {
                    txn.prepare(gid, b"").unwrap();
                    return;
                }
                Err(Error::Deadlock) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What was told to be prepared is so in what a crash would leave.
    fn check_prepared_image(&self, gid: &str) {
        let db = open(&self.disk.crash_image_synced(), None);
        assert!(db.prepared().unwrap().iter().any(|info| info.gid == gid));
        db.commit_prepared(gid).unwrap();
    }

    /// All accounts as one scan sees them; their sum must be what it was at first.
    fn accounts(&self, txn: &mut Transaction) -> Result<BTreeMap<u8, u64>> {
        let direction = if thread_rng().gen_bool(0.5) { Direction::Forward } else { Direction::Backward };
        let mut cursor = txn.scan(self.tree, KeyRange::all(), direction)?;
        let (mut sum, mut versions) = (0, BTreeMap::new());
        while let Some((key, value)) = cursor.next(txn)? {
            let (balance, version) = decode(&value);
            sum += balance;
            versions.insert(key[0], version);
        }
        assert_eq!(versions.len(), usize::from(ACCOUNTS));
        assert_eq!(
            sum,
            START * i64::from(ACCOUNTS),
            "{:?} sees a sum that never was",
            txn.options().isolation
        );
        Ok(versions)
    }

    /// What was seen is in what a crash would leave.
    fn check_image(&self, seen: &BTreeMap<u8, u64>) {
        let db = open(&self.disk.crash_image_synced(), None);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        for (account, version) in seen {
            let found = decode(&txn.get(self.tree, &[*account]).unwrap().unwrap()).1;
            assert!(found >= *version, "version {version} was told of, but {found} is what a crash leaves");
        }
    }
}

fn encode(balance: i64, version: u64) -> Vec<u8> {
    [balance.to_le_bytes(), version.to_le_bytes()].concat()
}

fn decode(value: &[u8]) -> (i64, u64) {
    let (balance, version) = value.split_at(8);
    (i64::from_le_bytes(balance.try_into().unwrap()), u64::from_le_bytes(version.try_into().unwrap()))
}

/// Transfers beside readers of every kind.
fn transfers(race: Option<Failpoint>) {
    let world = World::new(race);
    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = [Isolation::ReadCommitted, Isolation::Serializable]
        .into_iter()
        .map(|isolation| {
            let (world, done) = (world.clone(), done.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    if world.transfer(isolation).unwrap() {
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    let snapshots = thread::spawn({
        let world = world.clone();
        move || {
            let mut txn = world.begin(Isolation::ReadCommitted);
            for _ in 0..2 {
                let first = world.accounts(&mut txn).unwrap();
                // Within the statement the same again, whatever is committed and pruned meanwhile.
                assert_eq!(world.accounts(&mut txn).unwrap(), first);
                txn.start_statement().unwrap();
            }
            let read_only = TxnOptions { read_only: true, ..TxnOptions::default() };
            let seen = world.accounts(&mut world.db.begin(read_only).unwrap()).unwrap();
            world.check_image(&seen);
        }
    });
    let scans = thread::spawn({
        let world = world.clone();
        move || {
            let mut txn = world.begin(Isolation::Serializable);
            match world.accounts(&mut txn) {
                Ok(seen) => {
                    txn.commit().unwrap();
                    world.check_image(&seen);
                }
                Err(error) => assert!(matches!(error, Error::Deadlock), "{error}"),
            }
        }
    });
    for thread in writers.into_iter().chain([snapshots, scans]) {
        thread.join().unwrap();
    }
    assert!(world.db.locks().is_empty());
    let seen = world.accounts(&mut world.begin(Isolation::ReadCommitted)).unwrap();
    let changes: u64 = seen.values().sum();
    assert_eq!(changes as usize, 2 * done.load(Ordering::SeqCst), "an update was lost");
    world.check_image(&seen);
}

#[test]
fn shuttle_transfers_keep_the_sum_for_every_reader() {
    check_random("transfers", SEEDS, || transfers(None));
}

/// Writers of an account each, which commit beside each other, and readers whose statement sees the same twice.
fn independent_changes(race: Option<Failpoint>) {
    const CHANGES: u64 = 2;
    let world = World::new(race);
    let writers = (0..ACCOUNTS).map(|account| {
        let world = world.clone();
        thread::spawn(move || {
            for version in 1..=CHANGES {
                let mut txn = world.begin(Isolation::ReadCommitted);
                txn.put(world.tree, &[account], &encode(START, version)).unwrap();
                txn.commit().unwrap();
            }
        })
    });
    let readers = (0..2).map(|_| {
        let world = world.clone();
        thread::spawn(move || {
            let mut txn = world.begin(Isolation::ReadCommitted);
            for _ in 0..3 {
                let first = world.accounts(&mut txn).unwrap();
                assert_eq!(world.accounts(&mut txn).unwrap(), first);
                txn.start_statement().unwrap();
            }
        })
    });
    for thread in writers.chain(readers).collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    let seen = world.accounts(&mut world.begin(Isolation::ReadCommitted)).unwrap();
    assert!(seen.values().all(|version| *version == CHANGES), "{seen:?}");
}

#[test]
fn shuttle_independent_changes_leave_statements_their_snapshot() {
    check_random("independent_changes", SEEDS, || independent_changes(None));
}

/// Inserts beside serializable scans. What a scan sees stays so until it commits, and is what there is at its place in
/// the order of commits.
fn inserts_and_scans(race: Option<Failpoint>) {
    let world = World::new(race);
    let inserted = Arc::new(Mutex::new(Vec::new()));
    let inserters: Vec<_> = (0..2_u8)
        .map(|own| {
            let (world, inserted) = (world.clone(), inserted.clone());
            thread::spawn(move || {
                for step in 0..2 {
                    let mut txn = world.begin(Isolation::ReadCommitted);
                    let key = [10 + 7 * step + 3 * own];
                    let result = match step {
                        1 if own == 1 => txn.delete(world.tree, &[10]).map(|was| was.then_some(-1)),
                        _ => txn.insert(world.tree, &key, b"new").map(|()| Some(1)),
                    };
                    match result {
                        Ok(Some(change)) => {
                            thread::yield_now();
                            let csn = txn.commit_ticket().unwrap().csn();
                            inserted.lock().push((csn, change));
                        }
                        Ok(None) | Err(Error::Deadlock) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    let scanner = thread::spawn({
        let world = world.clone();
        move || -> Result<(Csn, i64)> {
            let mut txn = world.begin(Isolation::Serializable);
            let range = KeyRange { start: Bound::Included(vec![9]), end: Bound::Excluded(vec![40]) };
            let direction = if thread_rng().gen_bool(0.5) { Direction::Forward } else { Direction::Backward };
            let mut counts = [0; 2];
            for count in &mut counts {
                let mut cursor = txn.scan(world.tree, range.clone(), direction)?;
                while cursor.next(&mut txn)?.is_some() {
                    *count += 1;
                }
            }
            assert_eq!(counts[0], counts[1], "a phantom");
            txn.put(world.tree, b"count", &[counts[0] as u8])?;
            Ok((txn.commit()?, counts[0]))
        }
    });
    inserters.into_iter().for_each(|thread| thread.join().unwrap());
    match scanner.join().unwrap() {
        Ok((csn, count)) => {
            let before: i64 =
                inserted.lock().iter().filter(|(at, _)| *at < csn).map(|(_, change)| change).sum();
            assert_eq!(count, before, "what the scan saw is not what was there at {csn}");
        }
        Err(error) => assert!(matches!(error, Error::Deadlock), "{error}"),
    }
    assert!(world.db.locks().is_empty());
}

#[test]
fn shuttle_serializable_scans_see_no_phantoms() {
    check_random("phantoms", SEEDS, || inserts_and_scans(None));
}

/// A close amid commits: each commit either is refused, or its ticket is fulfilled and it is there afterwards.
#[test]
fn shuttle_a_close_fulfils_every_ticket() {
    check_random("close", SEEDS, || {
        let world = World::new(None);
        let fulfilled = Arc::new(Mutex::new(Vec::new()));
        let committers: Vec<_> = (0..2_u8)
            .map(|own| {
                let (world, fulfilled) = (world.clone(), fulfilled.clone());
                thread::spawn(move || {
                    let mut tickets = Vec::new();
                    for step in 0..2 {
                        let key = 100 + 10 * own + step;
                        let Ok(mut txn) = world.db.begin(TxnOptions::default()) else { break };
                        match txn.put(world.tree, &[key], b"x").and_then(|()| txn.commit_ticket()) {
                            Ok(ticket) => {
                                tickets.push(key);
                                let fulfilled = fulfilled.clone();
                                ticket.on_durable(move |result| {
                                    result.unwrap();
                                    fulfilled.lock().push(key);
                                });
                            }
                            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
                        }
                    }
                    tickets
                })
            })
            .collect();
        world.db.close().unwrap();
        let mut tickets: Vec<u8> = committers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let mut fulfilled = fulfilled.lock().clone();
        tickets.sort_unstable();
        fulfilled.sort_unstable();
        assert_eq!(fulfilled, tickets);
        let db = open(&world.disk.crash_image_synced(), None);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        for key in 100..130 {
            assert_eq!(txn.get(world.tree, &[key]).unwrap().is_some(), tickets.contains(&key), "key {key}");
        }
    });
}

/// The disk fails while sessions commit and wait for each other: all of them are told, and none sleeps for ever.
#[test]
fn shuttle_a_failing_disk_wakes_every_session() {
    check_random("failing disk", SEEDS, || {
        let world = World::new(None);
        match thread_rng().gen_bool(0.7) {
            true => world.disk.fail_write_after(thread_rng().gen_range(0..6)),
            false => world.disk.fail_sync_after(thread_rng().gen_range(0..3)),
        }
        let sessions: Vec<_> = (0..3_u8)
            .map(|own| {
                let world = world.clone();
                thread::spawn(move || -> Result<()> {
                    let mut after = Csn(0);
                    for step in 0..2 {
                        let options = TxnOptions { after, ..TxnOptions::default() };
                        let mut txn = world.db.begin(options)?;
                        let before = txn.get(world.tree, &[50 + own])?;
                        assert_eq!(before, (step > 0).then(|| vec![step - 1]), "its own commit is missing");
                        txn.put(world.tree, &[50 + own], &[step])?;
                        after = match thread_rng().gen_bool(0.5) {
                            true => txn.commit_ticket()?.csn(),
                            false => txn.commit()?,
                        };
                    }
                    Ok(())
                })
            })
            .collect();
        for session in sessions {
            if let Err(error) = session.join().unwrap() {
                assert!(matches!(error, Error::Poisoned(_)), "{error}");
            }
        }
        let _ = world.db.close();
    });
}

/// What is read behind a lock is durable when the reader's commit returns.
fn locked_reads(race: Option<Failpoint>) {
    let world = World::new(race);
    let writers: Vec<_> = (0..2_u8)
        .map(|account| {
            let world = world.clone();
            thread::spawn(move || {
                for version in 1..3 {
                    let mut txn = world.begin(Isolation::ReadCommitted);
                    txn.put(world.tree, &[account], &encode(0, version)).unwrap();
                    txn.commit().unwrap();
                }
            })
        })
        .collect();
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            for account in [0, 1, 0] {
                let mut txn = world.begin(Isolation::Serializable);
                let value = match thread_rng().gen_range(0..3) {
                    0 => txn.get(world.tree, &[account]).unwrap(),
                    1 => txn.get_locked(world.tree, &[account], RowLock::Share).unwrap(),
                    _ => {
                        let range = KeyRange::prefix(&[account]);
                        let mut cursor = txn.scan(world.tree, range, Direction::Forward).unwrap();
                        cursor.next(&mut txn).unwrap().map(|(_, value)| value)
                    }
                };
                txn.commit().unwrap();
                world.check_image(&BTreeMap::from([(account, decode(&value.unwrap()).1)]));
            }
        }
    });
    writers.into_iter().chain([reader]).for_each(|thread| thread.join().unwrap());
}

#[test]
fn shuttle_what_was_read_behind_a_lock_is_durable_when_told() {
    check_random("locked reads", SEEDS, || locked_reads(None));
}

/// A prepared transfer is committed and rolled back at once, beside transfers and scans: one of the two wins, and
/// nobody sees half of it.
fn prepared_transfers(race: Option<Failpoint>) {
    let world = World::new(race);
    world.prepare_transfer("one");
    let enders: Vec<_> = [true, false]
        .into_iter()
        .map(|commit| {
            let world = world.clone();
            thread::spawn(move || {
                let ended = match commit {
                    true => world.db.commit_prepared("one"),
                    false => world.db.rollback_prepared("one"),
                };
                match ended {
                    Ok(_) => {
                        let db = open(&world.disk.crash_image_synced(), None);
                        assert!(db.prepared().unwrap().iter().all(|info| info.gid != "one"));
                        Some(commit)
                    }
                    Err(Error::NoSuchGid(_)) => {
                        // Whoever ended it, that is durable.
                        let db = open(&world.disk.crash_image_synced(), None);
                        assert!(db.prepared().unwrap().iter().all(|info| info.gid != "one"));
                        None
                    }
                    Err(Error::GidBusy(_)) => None,
                    Err(error) => panic!("{error}"),
                }
            })
        })
        .collect();
    let other = thread::spawn({
        let world = world.clone();
        move || {
            let done = world.transfer(Isolation::ReadCommitted).unwrap();
            world.prepare_transfer("two");
            world.check_prepared_image("two");
            usize::from(done)
        }
    });
    let scans = thread::spawn({
        let world = world.clone();
        move || {
            let mut txn = world.begin(Isolation::Snapshot);
            let first = world.accounts(&mut txn).unwrap();
            assert_eq!(world.accounts(&mut txn).unwrap(), first);
            drop(txn);
            let mut txn = world.begin(Isolation::Serializable);
            // The second prepared transaction may hold what it waits for until everybody is done.
            txn.set_lock_timeout(Some(std::time::Duration::ZERO));
            match world.accounts(&mut txn) {
                Ok(_) | Err(Error::Deadlock | Error::LockTimeout) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    let outcomes: Vec<bool> = enders.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    let transfers = other.join().unwrap();
    scans.join().unwrap();
    assert_eq!(outcomes.len(), 1, "one of the two ends it");
    world.db.commit_prepared("two").unwrap();
    assert!(world.db.locks().is_empty());
    let seen = world.accounts(&mut world.begin(Isolation::ReadCommitted)).unwrap();
    let changes: u64 = seen.values().sum();
    assert_eq!(changes as usize, 2 * (transfers + usize::from(outcomes[0]) + 1), "an update was lost");
}

#[test]
fn shuttle_a_prepared_transaction_ends_once_and_as_a_whole() {
    check_random("prepared", SEEDS, || prepared_transfers(None));
}

#[test]
fn shuttle_finds_locks_of_a_prepared_transaction_released_before_its_application() {
    catch(Failpoint::LocksBeforeApply, prepared_transfers);
}

/// Some seed finds the race, and finds it each time.
fn catch(race: Failpoint, scenario: fn(Option<Failpoint>)) {
    let run = Arc::new(move || scenario(Some(race)));
    let (seed, _) = find_failing_seed(0..SEEDS, run.clone()).expect("it is found");
    println!("{race:?} is found by seed {seed}");
    for _ in 0..3 {
        assert!(catch_unwind(std::panic::AssertUnwindSafe(|| run_seed(seed, run.clone()))).is_err());
    }
}

#[test]
fn shuttle_finds_a_version_published_late_and_repeats_it() {
    catch(Failpoint::VersionAfterChange, transfers);
}

#[test]
fn shuttle_finds_locks_released_before_the_application_and_repeats_it() {
    catch(Failpoint::LocksBeforeApply, transfers);
}

#[test]
fn shuttle_finds_a_watermark_out_of_order_and_repeats_it() {
    catch(Failpoint::WatermarkOutOfOrder, independent_changes);
}

#[test]
fn shuttle_finds_pending_keys_read_after_the_tree_and_repeats_it() {
    catch(Failpoint::PendingAfterTree, inserts_and_scans);
}

#[test]
fn shuttle_finds_a_scan_that_is_not_counted_and_repeats_it() {
    catch(Failpoint::ScanNotCounted, inserts_and_scans);
}

#[test]
fn shuttle_finds_a_commit_seen_behind_a_lock_and_not_noted_and_repeats_it() {
    catch(Failpoint::SeenBeforeLock, locked_reads);
}

/// A commit of other keys, which may hold up what snapshots include.
fn commit_elsewhere(world: &Arc<World>) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || {
        let mut txn = world.begin(Isolation::ReadCommitted);
        (0..4).for_each(|key| txn.put(world.tree, &[b'b', key], b"").unwrap());
        txn.commit_ticket().unwrap();
    })
}

/// Somebody writes an account behind another's transfer and sums all of them, while a commit elsewhere holds up what
/// snapshots include.
fn sums_after_writes(race: Option<Failpoint>) {
    let world = World::new(race);
    let elsewhere = commit_elsewhere(&world);
    let mover = thread::spawn({
        let world = world.clone();
        move || (0..2).for_each(|_| assert!(world.transfer(Isolation::ReadCommitted).unwrap()))
    });
    let mut txn = world.begin(Isolation::ReadCommitted);
    let own = txn.get_locked(world.tree, &[0], RowLock::Exclusive).unwrap().unwrap();
    txn.put(world.tree, &[0], &own).unwrap();
    txn.start_statement().unwrap();
    let sum: i64 =
        (0..ACCOUNTS).map(|account| decode(&txn.get(world.tree, &[account]).unwrap().unwrap()).0).sum();
    assert_eq!(sum, START * i64::from(ACCOUNTS), "a part of a transfer");
    txn.rollback();
    elsewhere.join().unwrap();
    mover.join().unwrap();
}

#[test]
fn shuttle_who_has_written_sees_whole_transfers() {
    check_random("sums after writes", SEEDS, || sums_after_writes(None));
}

#[test]
fn shuttle_finds_a_snapshot_behind_own_writes_and_repeats_it() {
    catch(Failpoint::SnapshotBehindOwnWrites, sums_after_writes);
}

/// Transfers beside checkpoints, where there is a log of commits: a crash at the end leaves those that were
/// acknowledged.
fn checkpoints(race: Option<Failpoint>) {
    let world = World::new(race);
    let done = Arc::new(AtomicUsize::new(0));
    let writers = (0..2).map(|_| {
        let (world, done) = (world.clone(), done.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                done.fetch_add(
                    usize::from(world.transfer(Isolation::ReadCommitted).unwrap()),
                    Ordering::SeqCst,
                );
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let checkpoint = thread::spawn({
        let world = world.clone();
        move || match world.db.checkpoint() {
            Err(Error::Unsupported(_)) => {}
            taken => taken.unwrap(),
        }
    });
    for thread in writers.into_iter().chain([checkpoint]) {
        thread.join().unwrap();
    }
    let crashed = Arc::new(World {
        disk: world.disk.clone(),
        db: open(&world.disk.crash_image_synced(), race),
        tree: world.tree,
    });
    let found = crashed.accounts(&mut crashed.begin(Isolation::ReadCommitted)).unwrap();
    assert_eq!(found.values().sum::<u64>() as usize, 2 * done.load(Ordering::SeqCst), "a commit is lost");
}

#[test]
fn shuttle_checkpoints_lose_no_commit() {
    check_random("checkpoints", SEEDS, || checkpoints(None));
}

#[test]
fn shuttle_finds_a_checkpoint_that_gives_up_too_much_and_repeats_it() {
    catch(Failpoint::CheckpointBehindBatch, checkpoints);
}

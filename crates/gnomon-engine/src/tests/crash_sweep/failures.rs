//! Disks that fail or are full: what was acknowledged stays, and what can go on does.

use super::*;
use crate::store::GroupCommit;

/// An error of the disk during a commit stops the database; what was acknowledged is there after opening it again.
#[test]
fn a_failing_write_or_sync_poisons_and_loses_nothing() {
    let whole = SimDisk::new(5);
    run(&whole, 5, TRANSACTIONS, &State::default(), SHADOW);
    let mut poisoned = 0;
    for event in 0..whole.events() {
        let disk = SimDisk::new(5);
        disk.fail_event(event);
        let history = run(&disk, 5, TRANSACTIONS, &State::default(), SHADOW);
        poisoned += u64::from(matches!(history.error, Some(Error::Poisoned(_))));
        for image in [disk.crash_image_synced(), disk.crash_image_everything(), disk.crash_image(event)] {
            check(&image, &history, SHADOW)
                .unwrap_or_else(|wrong| panic!("event {event} failed: {wrong}\n{}", disk.history()));
        }
    }
    assert!(poisoned > 50, "{poisoned}");
}

/// Opened again after that without a stop of the machine, the database serves what it can read; from then on that must
/// survive, although the failed sync may have left it in memory only.
#[test]
fn what_is_served_after_a_failure_is_durable() {
    for (seed, event) in (6..10).flat_map(|seed| {
        let whole = SimDisk::new(seed);
        run(&whole, seed, TRANSACTIONS, &State::default(), SHADOW);
        (0..whole.events()).map(move |event| (seed, event))
    }) {
        let disk = SimDisk::new(seed);
        disk.fail_event(event);
        let mut history = run(&disk, seed, TRANSACTIONS, &State::default(), SHADOW);
        // A name whose creation failed can be gone.
        let Ok(db) = open(&disk, SHADOW, 0) else { continue };
        let served = db.durable_csn();
        // As if the machine stopped next: closing it would make all durable.
        std::mem::forget(db);
        assert!(served >= history.acknowledged, "seed {seed}, event {event}");
        history.acknowledged = served;
        for image in disk.crash_images(1) {
            check(&image, &history, SHADOW).unwrap_or_else(|wrong| {
                panic!("seed {seed}, event {event} failed: {wrong}\n{}", disk.history())
            });
        }
    }
}

/// Opening after a failed sync, and the first commit after that, are cut short in turn: what was acknowledged before
/// the failure is still there, although the newest root may have been in memory only.
#[test]
fn a_crash_while_opening_after_a_failure_loses_nothing() {
    let mut images = 0;
    for seed in 6..8 {
        let whole = SimDisk::new(seed);
        run(&whole, seed, TRANSACTIONS / 3, &State::default(), SHADOW);
        for event in 0..whole.events() {
            for crash in 0.. {
                let disk = SimDisk::new(seed);
                disk.fail_event(event);
                let mut history = run(&disk, seed, TRANSACTIONS / 3, &State::default(), SHADOW);
                disk.crash_at(disk.events() + crash);
                if let Ok(db) = open(&disk, SHADOW, 0) {
                    // Opened, it serves what it found; a commit more, of nothing new.
                    history.acknowledged = db.durable_csn();
                    let found = history.states[&history.acknowledged].clone();
                    let mut txn = db.begin(TxnOptions::default()).unwrap();
                    if let Ok(tree) = txn.create_tree() {
                        let mut next = found;
                        next.contents.insert(tree, BTreeMap::new());
                        history.states.insert(Csn(history.acknowledged.0 + 1), next);
                        history.acknowledged = txn.commit().unwrap_or(history.acknowledged);
                    }
                    std::mem::forget(db);
                }
                for image in disk.crash_images(2) {
                    images += 1;
                    check(&image, &history, SHADOW).unwrap_or_else(|wrong| {
                        panic!("seed {seed}, event {event}, {crash}: {wrong}\n{}", disk.history())
                    });
                }
                if !disk.has_crashed() {
                    break;
                }
            }
        }
    }
    println!("{images} crash images");
}

/// A full disk fails the transaction that finds it; the others go on.
#[test]
fn a_full_disk_fails_one_transaction() {
    let disk = SimDisk::new(1);
    let db = open(&disk, SHADOW, 0).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"small", b"1").unwrap();
    txn.commit().unwrap();
    disk.full_after(Some(1 << 20));
    let large = |value: u8| {
        let mut txn = db.begin(TxnOptions::default())?;
        txn.put(tree, &[value], &vec![value; 4 << 20])?;
        txn.commit()
    };
    assert!(matches!(large(1), Err(Error::DiskFull)));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree, b"small", b"2").unwrap();
    txn.commit().unwrap();
    disk.full_after(None);
    large(2).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.get(tree, b"small").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(txn.get(tree, &[2]).unwrap().map(|value| value.len()), Some(4 << 20));
    assert_eq!(txn.get(tree, &[1]).unwrap(), None);
}

/// A file that would grow by more than there is room for grows by what there is.
#[test]
fn room_that_is_less_than_wanted_is_used() {
    let disk = SimDisk::new(1);
    let db = open(&disk, SHADOW, 0).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.commit().unwrap();
    let mut number = 0_u32;
    let mut fill = |room: u64| {
        disk.full_after(Some(room));
        let from = number;
        loop {
            let mut txn = db.begin(TxnOptions::default())?;
            let put = txn.put(tree, &number.to_be_bytes(), &[7; 3000]).and_then(|()| txn.commit());
            match put {
                Ok(_) => number += 1,
                Err(Error::DiskFull) => return Ok::<u64, Error>(u64::from(number - from) * 3000),
                Err(error) => return Err(error),
            }
        }
    };
    fill(12 << 20).unwrap();
    let used = fill(4 << 20).unwrap();
    assert!(used > 2 << 20, "{used} bytes");
}

/// On a full disk what frees space goes on: deletes, drops, and the giving back of dropped trees' pages.
#[test]
fn a_full_disk_can_be_emptied() {
    let disk = SimDisk::new(1);
    let db = open(&disk, SHADOW, 0).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let [dropped, kept] = [(); 2].map(|()| txn.create_tree().unwrap());
    txn.commit().unwrap();
    let fill = |tree| {
        for number in 0..10_000_u32 {
            let mut txn = db.begin(TxnOptions::default())?;
            txn.put(tree, &number.to_be_bytes(), &[7; 3000])?;
            txn.commit()?;
        }
        Ok(())
    };
    disk.full_after(Some(8 << 20));
    for number in 0..500_u32 {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(dropped, &number.to_be_bytes(), &[7; 3000]).unwrap();
        txn.commit().unwrap();
    }
    assert!(matches!(fill(kept), Err(Error::DiskFull)));
    for number in 0..20_u32 {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.delete(kept, &number.to_be_bytes()).unwrap();
        txn.commit().unwrap();
    }
    assert!(matches!(fill(kept), Err(Error::DiskFull)));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.drop_tree(dropped).unwrap();
    txn.commit().unwrap();
    while crate::database::reclaim_some(&db.0.inner).unwrap() {}
    db.0.inner.store.as_shadow().flush().unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(kept, b"large", &vec![1; 1 << 20]).unwrap();
    txn.commit().unwrap();
}

/// On a full disk a log of pages is given up as far as that goes, so that what frees space goes on.
#[test]
fn a_log_of_pages_makes_room_on_a_full_disk() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let options = Options {
            recovery: Some(Recovery::PageLog(strategy)),
            logs: LogShape { segment_bytes: 256 << 10, ..LogShape::default() },
            ..Options::default()
        };
        let set = (&disk.open_exclusive().unwrap()).into();
        let db = Database::open_store(set, options, crate::recovery::Access::Write, |_| ()).unwrap();
        let begin = || db.begin(TxnOptions::default()).unwrap();
        let mut txn = begin();
        let tree = txn.create_tree().unwrap();
        txn.commit().unwrap();
        let mut txn = begin();
        txn.put(tree, b"prepared", b"1").unwrap();
        txn.prepare("kept", b"").unwrap();
        let put = |number: u32, value: u8| {
            let mut txn = begin();
            txn.put(tree, &number.to_be_bytes(), &[value; 3000]).and_then(|()| txn.commit())
        };
        for number in 0..100 {
            put(number, 0).unwrap();
        }
        // Much less than the log would become.
        disk.full_after(Some(2 << 20));
        for number in 0..6000 {
            put(number % 100, number as u8).unwrap();
        }
        let full = (100..).find_map(|number| put(number, 1).err()).unwrap();
        assert!(matches!(full, Error::DiskFull), "{strategy:?}: {full}");
        db.commit_prepared("kept").unwrap();
        for number in 0..100_u32 {
            let mut txn = begin();
            txn.delete(tree, &number.to_be_bytes()).unwrap();
            txn.commit().unwrap();
        }
        db.close().unwrap();
    }
}

/// One failed read is repeated, and nothing comes of it. Two in a row are an error of the transaction that needs the
/// page, as long as it has no place in the order of commits; behind that they stop the database, which loses nothing.
#[test]
fn a_failed_read_is_repeated_and_then_fails_one_transaction() {
    const ROWS: u32 = 3000;
    for recovery in Recovery::ALL {
        let options = || Options {
            pool_bytes: 512 << 10,
            recovery: Some(recovery),
            cleaner: false,
            logs: LogShape { segment_bytes: 1 << 20, ..LogShape::default() },
            ..Options::default()
        };
        let open = |disk: &SimDisk| Database::open_on(Arc::new(disk.clone()), options()).unwrap();
        let mut disk = SimDisk::new(1);
        let mut db = open(&disk);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let tree = txn.create_tree().unwrap();
        (0..ROWS).for_each(|row| txn.put(tree, &row.to_be_bytes(), &[1; 700]).unwrap());
        txn.commit().unwrap();
        db.close().unwrap();
        drop(db);
        db = open(&disk);
        let mut rows: BTreeMap<u32, u8> = (0..ROWS).map(|row| (row, 1)).collect();
        // Others push the leaves that were read for the locks out of memory again.
        let update = |db: &Database, disk: &SimDisk, both: [u32; 2], value, (calls, count)| {
            let mut txn = db.begin(TxnOptions::default())?;
            both.iter().try_for_each(|row| txn.put(tree, &row.to_be_bytes(), &[value; 700]).map(drop))?;
            let mut reader = db.begin(TxnOptions::default())?;
            for other in (0..ROWS).step_by(4) {
                reader.get(tree, &other.to_be_bytes())?;
            }
            disk.fail_reads_after(calls, count);
            let committed = txn.commit();
            disk.fail_reads_after(u64::MAX, 0);
            committed.map(drop)
        };
        let value_of = |db: &Database, row: u32| {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            txn.get(tree, &row.to_be_bytes()).unwrap().map(|found| found[0])
        };
        let (mut failed, mut stopped) = (0, 0);
        for (number, count) in (0..60).flat_map(|number| [(number, 1), (number, 2)]) {
            let both = [number * 37 % ROWS, (number * 37 + ROWS / 2) % ROWS];
            let value = number as u8 + 2;
            match update(&db, &disk, both, value, (u64::from(number) % 6, count)) {
                Ok(()) => rows.extend(both.map(|row| (row, value))),
                Err(Error::Io(error)) => {
                    assert_eq!(count, 2, "one failed read is repeated: {error}");
                    failed += 1;
                }
                Err(Error::Poisoned(why)) => {
                    assert_eq!(count, 2, "one failed read is repeated: {why}");
                    stopped += 1;
                    disk = disk.crash_image(1);
                    db = open(&disk);
                    // Its commit was not acknowledged: it is there as a whole or not at all.
                    let found = both.map(|row| value_of(&db, row));
                    let is_there = found[0] == Some(value);
                    assert!(found == both.map(|row| Some(if is_there { value } else { rows[&row] })));
                    rows.extend(both.map(|row| (row, if is_there { value } else { rows[&row] })));
                }
                Err(error) => panic!("{error}"),
            }
        }
        println!("{recovery:?}: {failed} transactions failed, the database stopped {stopped} times");
        // With a log, most of what a commit changes is in memory until a checkpoint.
        let least = if recovery == Recovery::Shadow { 30 } else { 0 };
        assert!(failed >= least && stopped < 10, "{recovery:?}: {failed}, {stopped}");
        for (row, value) in &rows {
            assert_eq!(value_of(&db, *row), Some(*value), "row {row}");
        }
    }
}

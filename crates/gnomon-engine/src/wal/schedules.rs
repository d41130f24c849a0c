//! Appends and forces under seeded schedules. Whenever a force returns, the disk is looked at as a crash would leave
//! it, if nothing unsynced survives.

use shuttle::rand::{Rng as _, thread_rng};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::{
    disk::SimDisk,
    failpoint::{Failpoint, Failpoints},
    sync::{check_random, find_failing_seed, run_seed, thread},
};

const SEEDS: u64 = 1000;
const THREADS: u8 = 3;
const EACH: u8 = 3;

fn how(epoch: u32) -> LogOptions {
    LogOptions {
        name: "wal".into(),
        database: 7,
        segment_bytes: 4096,
        epoch,
        reaches: Lsn(0),
        failpoints: Failpoints::default(),
    }
}

/// Opens the log on a disk; the positions of its records.
fn open(disk: &SimDisk, epoch: u32, tail: Lsn, planted: Option<Failpoint>) -> (Log, Vec<Lsn>) {
    let mut found = Vec::new();
    let mut visit = |record: Record<'_>| {
        found.push(record.lsn);
        Ok(())
    };
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let how = how(epoch);
    how.failpoints.turn_on(planted);
    let log = Log::open(&disk, how, tail, &mut visit).unwrap();
    (log, found)
}

/// Some threads at once; with `failing`, a write or a sync fails at some time.
fn random_forces(failing: bool, planted: Option<Failpoint>) {
    let disk = SimDisk::new(1);
    drop(Log::create(&(Arc::new(disk.clone()) as Arc<dyn Disk>), how(1)).unwrap());
    let log = Arc::new(open(&disk, 2, Lsn(0), planted).0);
    // What a thread gives as the tail is held by it until that is done: the image is opened with the same.
    let tail = Arc::new(Mutex::new(Lsn(0)));
    if failing {
        match thread_rng().gen_bool(0.5) {
            true => disk.fail_write_after(thread_rng().gen_range(0..8)),
            false => disk.fail_sync_after(thread_rng().gen_range(0..5)),
        }
    }
    let threads: Vec<_> = (0..THREADS)
        .map(|own| {
            let (disk, log, tail) = (disk.clone(), log.clone(), tail.clone());
            thread::spawn(move || -> Result<()> {
                for step in 0..EACH {
                    let payload = vec![own; if step == own { 3000 } else { 20 }];
                    let lsn = log.append(&[&payload]);
                    log.force(Lsn(lsn.0 + 1))?;
                    assert!(log.forced() > lsn);
                    let mut tail = tail.lock();
                    let found = open(&disk.crash_image_synced(), 3, *tail, None).1;
                    assert!(lsn < *tail || found.contains(&lsn), "{lsn} was forced and is not there");
                    if lsn >= *tail {
                        assert!(log.read(lsn).unwrap() == payload);
                    }
                    if thread_rng().gen_bool(0.3) {
                        *tail = log.forced();
                        log.recycle(*tail)?;
                    }
                }
                Ok(())
            })
        })
        .collect();
    let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(failing || ended.iter().all(|end| end.is_ok()));
    if ended.iter().any(|end| end.is_err()) {
        log.append(&[b"more"]);
    }
    // Either all that was appended is durable, or nothing more will be.
    assert_eq!(log.force(log.end()).is_ok(), ended.iter().all(|end| end.is_ok()));
    let (again, found) = open(&disk.crash_image_synced(), 3, *tail.lock(), None);
    assert!(again.end() >= log.forced() && found.is_sorted());
}

#[test]
fn shuttle_a_force_returns_when_its_record_is_durable() {
    check_random("forces", SEEDS, || random_forces(false, None));
}

#[test]
fn shuttle_a_failure_reaches_everybody_who_waits() {
    check_random("failing forces", SEEDS, || random_forces(true, None));
}

/// Some seed finds the bug, and finds it each time.
fn catch(bug: Failpoint) {
    let run = Arc::new(move || random_forces(false, Some(bug)));
    let (seed, _) = find_failing_seed(0..SEEDS, run.clone()).expect("it is found");
    println!("it is found by seed {seed}");
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(|| run_seed(seed, run.clone()))).is_err());
    }
}

#[test]
fn shuttle_finds_a_force_that_returns_before_the_sync_and_repeats_it() {
    catch(Failpoint::ForceUnsynced);
}

#[test]
fn shuttle_finds_a_block_that_is_written_beside_another_and_repeats_it() {
    catch(Failpoint::WriterNotAlone);
}

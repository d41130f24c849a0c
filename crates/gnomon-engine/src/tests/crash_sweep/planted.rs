//! Faults that the sweep, and runs of a few events, must catch.

use super::*;

#[test]
fn bugs_planted_in_the_log_of_commits_are_caught() {
    use Failpoint::{GivenUpFirst, RecordNotForced, ReplayedTwice, SuperblockNotAwaited};
    for how in [VALUE_LOG, COMMAND_LOG] {
        for bug in [GivenUpFirst, ReplayedTwice, SuperblockNotAwaited, RecordNotForced] {
            let how = How { planted: Some(bug), ..how };
            let wrong = (1..20).find_map(|seed| sweep(seed, SimDisk::new, how).err());
            println!("{bug:?}: {}", wrong.expect("the sweep catches it").lines().next().unwrap_or_default());
        }
    }
}

#[test]
fn planted_bugs_are_caught() {
    for bug in [
        Failpoint::BatchUnsynced,
        Failpoint::ListMissing,
        Failpoint::SyncNotWaitedFor,
        Failpoint::OverwriteInPlace,
        Failpoint::EntryRemovedFirst,
        Failpoint::MoveUnsynced,
        Failpoint::PublishedUnsynced,
        Failpoint::ExtentFreedShort,
    ] {
        let caught = (1..10).find_map(|seed| sweep(seed, SimDisk::new, How::planted(bug)).err());
        let caught = caught.unwrap_or_else(|| panic!("{bug:?} was not caught"));
        println!("{bug:?}: {}", caught.lines().next().unwrap_or_default());
    }
}

/// Pages that were written early for a batch to come are newer than the root that is confirmed meanwhile.
#[test]
fn a_confirmed_root_is_older_than_early_writes() {
    let run = |how| -> Result<(), String> {
        let db = open(&SimDisk::new(1), how, 0).unwrap();
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let tree = txn.create_tree().unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(tree, b"large", &[1; 400_000]).unwrap();
        txn.order().unwrap();
        db.0.inner.store.as_shadow().batcher.confirm().unwrap();
        let mut full = Vec::new();
        let state = db.0.inner.store.as_shadow().pin();
        let id = state.backup(None, Duration::ZERO, &mut full, &mut |_, _| ()).unwrap().header.id;
        let mut changes = Vec::new();
        db.backup(Some(id), &mut changes, &mut |_, _| ()).map_err(|error| error.to_string())?;
        match restored(&[&full, &changes])?.0 == contents(&db).unwrap() {
            true => Ok(()),
            false => Err("what was restored is another state".into()),
        }
    };
    run(SHADOW).unwrap();
    println!("{}", run(How::planted(Failpoint::ConfirmedOverEarlyFlush)).unwrap_err());
}

#[test]
fn a_checksum_that_is_not_checked_is_caught() {
    let disk = SimDisk::new(3);
    let history = run(&disk, 3, TRANSACTIONS, &State::default(), SHADOW);
    let right = &history.states.values().last().expect("it committed").contents;
    let wrong_values = |how| {
        let len = disk.open(FILE, false).unwrap().len().unwrap();
        (0..len).step_by(97).any(|offset| {
            let image = disk.crash_image_synced();
            image.flip_bit(FILE, offset, 3);
            let read = open(&image, how, 0).and_then(|db| contents(&db));
            read.is_ok_and(|found| found != *right)
        })
    };
    assert!(!wrong_values(SHADOW));
    assert!(wrong_values(How::planted(Failpoint::ChecksumUnchecked)));
}

/// A disk fails once, or is gone, at some event of a run.
fn lose_disks(seed: u64, how: How) -> Result<(), String> {
    let parts = 2 + seed as usize % 2;
    let whole = SimDisk::of_parts(seed, parts);
    drop(open(&whole, how, seed).unwrap());
    let opened = whole.events();
    let whole = SimDisk::of_parts(seed, parts);
    run(&whole, seed, TRANSACTIONS, &State::default(), how);
    for event in (opened..whole.events()).step_by(if seeds() < 10 { 9 } else { 1 }) {
        for part in 0..=parts {
            let disk = SimDisk::of_parts(seed, parts);
            match part {
                part if part == parts => disk.fail_event(event),
                part => disk.remove_part_at(event, part),
            }
            let history = run(&disk, seed, TRANSACTIONS, &State::default(), how);
            let wrong = |wrong: String| {
                format!("seed {seed}, event {event}, part {part} of {parts}: {wrong}\n{}", disk.history())
            };
            if let Some(error) = &history.error {
                return Err(wrong(error.to_string()));
            }
            check_backups(&history).map_err(wrong)?;
            for image in [disk.crash_image_synced(), disk.crash_image(event)] {
                if part < parts && event % 2 == 0 {
                    image.remove_part(part);
                }
                check(&image, &history, how).map_err(wrong)?;
                let db = open(&image, how, 0).map_err(|error| wrong(error.to_string()))?;
                let there = db.disks().iter().filter(|(info, _)| info.given.is_some()).count();
                // Near the end nothing may have been asked of it any more.
                if there != parts - 1 && event + 4 * (parts as u64) < whole.events() {
                    return Err(wrong(format!("{there} disks are taken for whole")));
                }
            }
        }
    }
    Ok(())
}

/// The others go on, and have everything, with it and without it.
#[test]
fn a_lost_disk_is_survived_without_a_stop() {
    for seed in 1..=seeds() {
        lose_disks(seed, SHADOW).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    let caught = lose_disks(1, How::planted(Failpoint::LossUnrecorded)).expect_err("a planted bug is caught");
    println!("{}", caught.lines().next().unwrap_or_default());
}

/// In a run that is long enough to come to the end of the file, and to use again what was given up.
#[test]
fn backups_are_right_when_space_is_used_again() {
    let run = |seed, how| {
        let history = run(&SimDisk::new(seed), seed, 20 * TRANSACTIONS, &State::default(), how);
        match history.error {
            Some(error) => Err(error.to_string()),
            None => check_backups(&history).map(|()| history.backups.len()),
        }
    };
    for seed in 1..=seeds() {
        assert!(run(seed, SHADOW).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}")) > 5);
    }
    let caught = (1..20).find_map(|seed| run(seed, How::planted(Failpoint::PinsIgnored)).err());
    println!("{}", caught.expect("it was not caught"));
}

//! The sweep where a log of pages recovers: without what such a database has not, and with a transaction beside the
//! others, which changes the same pages and may not have ended when the machine stops, so that opening undoes it, and
//! may crash in doing so, and once more.

use super::*;

/// Goes on with a transaction that runs beside the others, on keys that these do not write: begins it, has it write
/// something, ends it.
pub(super) fn work_beside(
    db: &Database,
    rng: &mut Rng,
    current: &mut State,
    beside: &mut Option<(Transaction, State)>,
    history: &mut History,
) -> Result<()> {
    let trees: Vec<TreeId> = current.contents.keys().copied().collect();
    if trees.is_empty() {
        return Ok(());
    }
    if beside.is_none() && rng.chance(1, 2) {
        let options = TxnOptions { lock_timeout: Some(Duration::ZERO), ..TxnOptions::default() };
        *beside = Some((db.begin(options)?, State::default()));
    }
    let Some((txn, own)) = beside else { return Ok(()) };
    for _ in 0..1 + rng.below(4) {
        let tree = trees[rng.below(trees.len() as u64) as usize];
        let key = [&vec![b'j'; 1 + rng.below(2) as usize * 40][..], &[rng.below(8) as u8]].concat();
        let value = vec![rng.below(256) as u8; [10, 300, 6000][rng.below(3) as usize]];
        let written = match rng.chance(1, 4) {
            true => txn.delete(tree, &key).map(|_| Written::Value(None)),
            false => txn.put(tree, &key, &value).map(|()| Written::Value(Some(value))),
        };
        match written {
            Ok(written) => {
                let prepared = own.prepared.entry(String::new()).or_default();
                prepared.writes.insert((tree, key.clone()), written);
            }
            Err(Error::LockTimeout) => {}
            Err(error) => return Err(error),
        }
        if rng.chance(1, 3) {
            // Of the others' keys, which they write before this transaction has ended.
            let key = some_key(rng);
            write_in_vain(rng, txn, tree, &key)?;
        }
        if rng.chance(2, 3) {
            txn.end_statement()?;
        }
    }
    if rng.chance(1, 3)
        && let Some((txn, own)) = beside.take()
    {
        if rng.chance(1, 3) {
            txn.rollback();
            return Ok(());
        }
        let mut next = State { prepared: own.prepared, ..current.clone() };
        next.prepared.entry(String::new()).or_default();
        next.end("", true);
        next.prepared.clone_from(&current.prepared);
        let expected = Csn(db.0.inner.store.last_csn().0 + 1);
        history.states.insert(expected, next.clone());
        let ticket = txn.order()?;
        if ticket.csn() < expected {
            history.states.remove(&expected);
            return Ok(());
        }
        assert_eq!(ticket.csn(), expected);
        if rng.chance(1, 2) {
            history.acknowledged = ticket.wait()?;
        }
        *current = next;
    }
    Ok(())
}

fn sweep_log_of_pages(strategy: Strategy) {
    let recovery = Recovery::PageLog(strategy);
    let (mut images, mut prepared) = (0, 0);
    for seed in 1..=seeds() {
        let counts = sweep(seed, SimDisk::new, How { recovery, ..SHADOW });
        let counts = counts.unwrap_or_else(|wrong| panic!("{wrong}"));
        (images, prepared) = (images + counts.0, prepared + counts.1);
    }
    println!("{images} crash images were opened and compared, {prepared} with prepared transactions");
    assert!(images > 300 * seeds() && prepared > 50 * seeds());
}

#[test]
fn every_crash_with_one_level_leaves_a_state_that_is_allowed() {
    sweep_log_of_pages(Strategy::SingleLevel);
}

#[test]
fn every_crash_with_two_levels_leaves_a_state_that_is_allowed() {
    sweep_log_of_pages(Strategy::TwoLevel);
}

#[test]
fn every_crash_with_spheres_leaves_a_state_that_is_allowed() {
    sweep_log_of_pages(Strategy::TwoLevelDeferred);
}

#[test]
fn verification_tells_the_length_of_the_log_that_a_restart_reads() {
    let disk = SimDisk::new(1);
    let how = How { recovery: Recovery::PageLog(Strategy::TwoLevel), ..SHADOW };
    let db = open(&disk, how, 0).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"key", b"value").unwrap();
    txn.commit().unwrap();
    let log_bytes = |image: SimDisk| {
        verify_with(&image.open_exclusive().unwrap(), verify_options(), &mut |_, _| ())
            .unwrap()
            .stats
            .log_bytes
    };
    assert!(db.stats().log_bytes > 0);
    assert_eq!(log_bytes(disk.crash_image_synced()), db.stats().log_bytes);
    db.close().unwrap();
    assert_eq!((log_bytes(disk.crash_image_synced()), db.stats().log_bytes), (0, 0));
}

#[test]
fn bugs_planted_in_the_log_of_pages_are_caught() {
    use Failpoint::{EosEarly, OverlapIgnored, PlacesUnsynced, UndoNotForced};
    use Strategy::{TwoLevel, TwoLevelDeferred};
    for (bug, strategy) in [
        (UndoNotForced, TwoLevel),
        (OverlapIgnored, TwoLevelDeferred),
        (EosEarly, TwoLevelDeferred),
        (PlacesUnsynced, TwoLevelDeferred),
    ] {
        let how = How { recovery: Recovery::PageLog(strategy), planted: Some(bug), ..SHADOW };
        let caught = (1..20).find_map(|seed| sweep(seed, SimDisk::new, how).err());
        let caught = caught.unwrap_or_else(|| panic!("{bug:?} was not caught"));
        println!("{bug:?}: {}", caught.lines().next().unwrap_or_default());
    }
}

//! Databases of several disks, mirrored and not.

use std::collections::BTreeMap;

use super::*;
use crate::*;
use crate::{
    Direction, Error, KeyRange, Options, TreeId, TreeOptions, TxnOptions,
    disk::{Disk, DiskSet, FileDisk, MemDisk, SimDisk},
    page::PAGE_BYTES,
    sync::Arc,
    verify,
};

fn options() -> Options {
    Options { pool_bytes: 512 << 10, seed: Some(7), ..Options::shadow() }
}

fn open(set: DiskSet, degraded: bool) -> Result<Database> {
    Database::open_on(set, Options { degraded, ..options() })
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes `count` keys in as many commits, some of them with large values.
fn fill(db: &Database, tree: TreeId, count: u32, contents: &mut Contents) {
    for number in 0..count {
        let key = number.to_be_bytes().to_vec();
        let value = vec![number as u8; if number % 10 == 0 { 9000 } else { 300 }];
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(tree, &key, &value).unwrap();
        txn.commit().unwrap();
        contents.insert(key, value);
    }
}

fn create(db: &Database, count: u32) -> (TreeId, Contents) {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.commit().unwrap();
    let mut contents = Contents::new();
    fill(db, tree, count, &mut contents);
    (tree, contents)
}

fn contents(db: &Database, tree: TreeId) -> Result<Contents> {
    let mut txn = db.begin(TxnOptions::default())?;
    let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward)?;
    let mut found = Contents::new();
    while let Some((key, value)) = cursor.next(&mut txn)? {
        found.insert(key, value);
    }
    Ok(found)
}

/// Works in the background's stead until every page has its copies.
fn repair(db: &Database) {
    let store = db.0.inner.store.as_shadow();
    for _ in 0..1000 {
        store.repairer.repair_some().unwrap();
        if store.mirror.has_all_copies() {
            return;
        }
    }
    panic!("copies are missing for ever: {:?}", store.mirror.take_reports());
}

fn is_sound(set: DiskSet) -> bool {
    verify(set, &mut |_, _| ()).unwrap().is_sound()
}

/// A closed mirrored database on two parts.
fn mirrored(count: u32) -> (SimDisk, TreeId, Contents) {
    let disk = SimDisk::of_parts(3, 2);
    let db = open(disk.set(), false).unwrap();
    let (tree, contents) = create(&db, count);
    db.close().unwrap();
    drop(db);
    (disk, tree, contents)
}

fn pages_of(disk: &SimDisk, part: usize) -> u64 {
    disk.open(&format!("{part}-pages"), false).unwrap().len().unwrap() / PAGE_BYTES as u64
}

#[test]
fn every_block_may_be_damaged_on_either_disk() {
    let (whole, tree, right) = mirrored(250);
    let step = std::env::var("GNOMON_MIRROR_STEP").map_or(3, |step| step.parse().expect("a number"));
    let (mut repaired, mut damaged) = (0, 0);
    for part in 0..2 {
        for page in (0..pages_of(&whole, part)).step_by(step) {
            let disk = whole.crash_image_everything();
            let file = format!("{part}-pages");
            let at = page * PAGE_BYTES as u64 + 77;
            assert!(disk.flip_bit(&file, at, 3));
            let db = open(disk.set(), false).unwrap();
            assert_eq!(contents(&db, tree).unwrap(), right, "disk {part}, page {page}");
            let report = db.scrub(&mut |_, _| ()).unwrap();
            repaired += u64::from(!report.repaired.is_empty() || !db.take_reports().is_empty());
            damaged += 1;
            assert!(report.lost.is_empty() && report.missing == 0, "{report:?}");
            repair(&db);
            let again = db.scrub(&mut |_, _| ()).unwrap();
            assert!(again.repaired.is_empty() && again.lost.is_empty(), "{again:?}");
            db.close().unwrap();
            drop(db);
            assert!(is_sound(disk.set()), "disk {part}, page {page}");
            disk.remove_part(1 - part);
            let db = open(disk.set(), true).unwrap();
            assert_eq!(contents(&db, tree).unwrap(), right, "disk {part} alone, page {page}");
        }
    }
    assert!(repaired > 8, "{repaired} of {damaged} were in use");
}

#[test]
fn what_is_damaged_on_both_is_told_and_nothing_else_is_lost() {
    let (whole, tree, right) = mirrored(250);
    let mut told = 0;
    for page in (4..pages_of(&whole, 0)).step_by(5) {
        let disk = whole.crash_image_everything();
        for part in 0..2 {
            // The same pages of both: without moves they are written alike.
            disk.flip_bit(&format!("{part}-pages"), page * PAGE_BYTES as u64 + 500, 1);
        }
        let report = verify(disk.set(), &mut |_, _| ()).unwrap();
        let lost: Vec<_> =
            report.findings.iter().filter(|found| found.severity == crate::Severity::Data).collect();
        let Ok(db) = open(disk.set(), false) else {
            assert!(!lost.is_empty());
            continue;
        };
        match contents(&db, tree) {
            Ok(found) => assert_eq!(found, right),
            Err(Error::Corrupt { .. }) => {
                told += 1;
                assert!(!lost.is_empty());
                assert!(!db.scrub(&mut |_, _| ()).unwrap().lost.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(told > 3, "{told}");
}

#[test]
fn a_fresh_disk_is_filled_and_is_enough() {
    let disk = SimDisk::of_parts(5, 3);
    disk.remove_part(2);
    let db = open(disk.set(), false).unwrap();
    let (tree, mut right) = create(&db, 200);
    disk.remove_part(0);
    fill(&db, tree, 100, &mut right);
    assert!(!db.mirroring().1);
    assert!(db.take_reports().iter().any(|report| report.contains("disk 0 is lost")));
    // A reader of a state from before.
    let pinned = db.0.inner.store.as_shadow().pin();
    let part = disk.crash_image_everything();
    let fresh = MemDisk::new();
    let number = db.0.inner.store.as_shadow().repairer.add_disk(&fresh, 2, false).unwrap();
    assert_eq!(number, 2, "pages still name the lost one");
    fill(&db, tree, 150, &mut right);
    repair(&db);
    drop(pinned);
    assert_eq!(contents(&db, tree).unwrap(), right);
    db.close().unwrap();
    assert_eq!(db.disks().iter().filter(|(info, _)| info.given.is_some()).count(), 2);
    drop((db, part));
    // The fresh one alone has everything.
    let db = open((&fresh).into(), true).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), right);
    drop(db);
    assert!(is_sound((&fresh).into()));
}

/// Without a stop, in the background.
#[test]
fn a_spare_disk_takes_the_place_of_a_lost_one() {
    let directory = tempfile::tempdir().unwrap();
    let [used, spare] = ["used", "spare"].map(|name| directory.path().join(name));
    FileDisk::open(&used, true).unwrap().open("other", true).unwrap();
    let disk = SimDisk::of_parts(6, 2);
    let spares = vec![spare.clone(), used];
    let db = Database::open_on(disk.set(), Options { spares, ..options() }).unwrap();
    let (tree, mut right) = create(&db, 100);
    assert!(!spare.exists());
    disk.remove_part(1);
    fill(&db, tree, 100, &mut right);
    while !db.mirroring().1 {
        fill(&db, tree, 1, &mut right);
    }
    let reports = db.take_reports().join("\n");
    assert!(reports.contains("cannot be used") && reports.contains("disk 2 was added"), "{reports}");
    db.close().unwrap();
    drop(db);
    let db = Database::open(&spare, Options { degraded: true, ..options() }).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), right);
}

#[test]
fn a_database_of_one_disk_becomes_a_mirrored_one() {
    let (first, second) = (MemDisk::new(), MemDisk::new());
    let db = open((&first).into(), false).unwrap();
    let (tree, mut right) = create(&db, 300);
    db.0.inner.store.as_shadow().repairer.add_disk(&second, 1, true).unwrap();
    fill(&db, tree, 50, &mut right);
    repair(&db);
    assert_eq!(db.mirroring(), (true, true));
    db.close().unwrap();
    drop(db);
    for disk in [&first, &second] {
        let db = open(disk.into(), true).unwrap();
        assert_eq!(contents(&db, tree).unwrap(), right);
    }
}

#[test]
fn a_missing_disk_is_told() {
    let (disk, tree, right) = mirrored(20);
    disk.remove_part(1);
    assert!(matches!(open(disk.set(), false), Err(Error::DiskMissing { disk: 1, mirrored: true })));
    let db = open(disk.set(), true).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), right);
    db.close().unwrap();
    drop(db);
    // From then on the option is not needed, and the other disk is not used should it come back.
    let db = open(disk.set(), false).unwrap();
    let mut more = right.clone();
    fill(&db, tree, 30, &mut more);
    db.close().unwrap();
    drop(db);
    let both = disk.crash_image_everything();
    let db = open(both.set(), false).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), more);
    assert_eq!(db.disks().iter().filter(|(info, _)| info.given.is_some()).count(), 1);
}

#[test]
fn pages_are_spread_over_disks_that_are_not_mirrored() {
    let disks = [MemDisk::new(), MemDisk::new(), MemDisk::new()];
    let set = |disks: &[MemDisk]| {
        DiskSet::of(disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect(), false)
    };
    let db = open(set(&disks), false).unwrap();
    let (tree, mut right) = create(&db, 600);
    fill(&db, tree, 300, &mut right);
    let used: Vec<u64> = db.disks().iter().map(|(info, _)| info.used_pages).collect();
    assert!(used.iter().all(|pages| *pages > used.iter().sum::<u64>() / 6), "{used:?}");
    db.close().unwrap();
    drop(db);
    // In any order.
    let db = open(set(&[disks[2].clone(), disks[0].clone(), disks[1].clone()]), false).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), right);
    drop(db);
    assert!(is_sound(set(&disks)));
    for degraded in [false, true] {
        assert!(matches!(
            open(set(&disks[1..]), degraded),
            Err(Error::DiskMissing { disk: 0, mirrored: false })
        ));
    }
    assert!(matches!(open(set(&[disks[0].clone(), MemDisk::new()]), false), Err(Error::DiskMissing { .. })));
}

/// Several disks are for shadow paging. One that has a log gets no second one, with which it could not be opened.
#[test]
fn a_new_database_recovers_as_fits_its_disks() {
    if Options::default().recovery_of_new().is_some() {
        return;
    }
    let of = |set: DiskSet| Database::open_on(set, Options::default()).unwrap().stats().recovery;
    assert_eq!(of((&MemDisk::new()).into()), Recovery::CommitLog(crate::Records::Values));
    let two = vec![Arc::new(MemDisk::new()) as Arc<dyn Disk>, Arc::new(MemDisk::new())];
    assert_eq!(of(DiskSet::of(two, false)), Recovery::Shadow);
    assert_eq!(Database::in_memory(Options::default()).unwrap().stats().recovery, Recovery::Shadow);

    let directory = tempfile::tempdir().unwrap();
    let [one, more] = ["one", "more"].map(|name| directory.path().join(name));
    let db = Database::open(&one, Options::default()).unwrap();
    assert!(matches!(db.add_disk(&more, false), Err(Error::BadOption(_))));
    drop(db);
    assert!(!more.exists());
    Database::open(&one, Options::default()).unwrap();
}

#[test]
fn disks_of_other_databases_are_refused() {
    let (a, b) = (MemDisk::new(), MemDisk::new());
    for (disk, seed) in [(&a, 1), (&b, 2)] {
        drop(Database::open_on(disk, Options { seed: Some(seed), ..options() }).unwrap());
    }
    let set = |first: &MemDisk, second: &MemDisk| {
        DiskSet::of(vec![Arc::new(first.clone()), Arc::new(second.clone())], false)
    };
    assert!(matches!(open(set(&a, &b), false), Err(Error::NotADatabase { .. })));
    assert!(matches!(open(set(&a, &a), false), Err(Error::NotADatabase { .. })));
    let db = open((&a).into(), false).unwrap();
    assert!(matches!(db.0.inner.store.as_shadow().repairer.add_disk(&b, 1, true), Err(Error::BadOption(_))));
}

/// A database on the first of two parts, to be mirrored to the second, and nothing but what the test does.
fn single(disk: &SimDisk, count: u32) -> (Database, Arc<dyn Disk>, TreeId, Contents) {
    let parts: Vec<Arc<dyn Disk>> = disk.set().disks().cloned().collect();
    let set = DiskSet::of(vec![parts[0].clone()], false);
    let db = Database::open_store(set, options(), crate::recovery::Access::Write, |store| {
        store.shadow_mut().write_in_order()
    });
    let db = db.unwrap();
    db.parts().background.stop();
    let (tree, contents) = create(&db, count);
    (db, parts[1].clone(), tree, contents)
}

#[test]
fn a_crash_while_a_mirror_is_added_leaves_the_state() {
    let add = |db: &Database, second: &dyn Disk| -> Result<()> {
        db.0.inner.store.as_shadow().repairer.add_disk(second, 1, true)?;
        db.make_copies(&mut |_, _| ())?;
        db.close()
    };
    let whole = SimDisk::of_parts(8, 2);
    let (db, second, ..) = single(&whole, 40);
    let began = whole.events();
    add(&db, &*second).unwrap();
    for event in began..whole.events() {
        let disk = SimDisk::of_parts(8, 2);
        let (db, second, tree, right) = single(&disk, 40);
        disk.crash_at(event);
        assert!(add(&db, &*second).is_err());
        drop(db);
        for (number, image) in disk.crash_images(2).enumerate() {
            let alone = image.crash_image_everything();
            alone.remove_part(1);
            for image in [&image, &alone] {
                let db = open(image.set(), true).unwrap();
                assert_eq!(contents(&db, tree).unwrap(), right, "event {event}, image {number}");
                db.close().unwrap();
                drop(db);
                let report = verify(image.set(), &mut |_, _| ()).unwrap();
                assert!(report.is_sound(), "event {event}, image {number}: {:?}", report.findings);
            }
        }
    }
}

/// Going on with the other would lose what has not been copied yet.
#[test]
fn the_only_disk_with_everything_is_not_given_up() {
    let disk = SimDisk::of_parts(9, 2);
    let (db, second, tree, right) = single(&disk, 3000);
    db.0.inner.store.as_shadow().repairer.add_disk(&*second, 1, true).unwrap();
    db.0.inner.store.as_shadow().repairer.repair_some().unwrap();
    assert!(!db.mirroring().1, "there is more than one step of work");
    disk.remove_part(0);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let committed = txn.put(tree, b"more", b"value").and_then(|()| txn.commit());
    assert!(matches!(committed, Err(Error::Poisoned(_))), "{committed:?}");
    drop(db);
    let db = open(disk.crash_image_everything().set(), false).unwrap();
    let mut found = contents(&db, tree).unwrap();
    found.remove(&b"more"[..]);
    assert!(found == right);
}

/// The pages of a batch to come carry its number already.
#[test]
fn a_root_alone_does_not_take_the_number_of_early_writes() {
    let disk = SimDisk::of_parts(10, 3);
    let (db, second, tree, mut right) = single(&disk, 200);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let value = vec![1; 400_000];
    txn.put(tree, b"large", &value).unwrap();
    txn.order().unwrap();
    right.insert(b"large".to_vec(), value);
    db.0.inner.store.as_shadow().repairer.add_disk(&*second, 1, true).unwrap();
    repair(&db);
    let image = disk.crash_image_everything();
    assert_eq!(contents(&db, tree).unwrap(), right);
    db.close().unwrap();
    drop(db);
    for disk in [disk, image] {
        let db = open(disk.set(), true).unwrap();
        assert_eq!(contents(&db, tree).unwrap(), right);
    }
}

#[test]
fn a_directory_is_known_by_whatever_leads_to_it_and_taken_again_when_it_was_emptied() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    let options = Options { disks: vec![b.clone()], mirrored: true, ..options() };
    let db = Database::open(&a, options).unwrap();
    let (tree, right) = create(&db, 50);
    db.close().unwrap();
    drop(db);
    let around = a.join("..").join("b");
    let open = |path: &Path| Database::open(path, Options { degraded: true, ..self::options() });
    assert_eq!(contents(&open(&around).unwrap(), tree).unwrap(), right);
    assert!(is_sound(DiskSet::open_read_only(&around).unwrap()));
    // Its disk was replaced, and stands at the same place.
    FileDisk::open(&b, false).unwrap().remove("pages").unwrap();
    let db = open(&a).unwrap();
    assert!(matches!(db.add_disk(&a, false), Err(Error::BadOption(_))));
    db.add_disk(&around, false).unwrap();
    repair(&db);
    db.close().unwrap();
    drop(db);
    let db = Database::open(&b, self::options()).unwrap();
    assert_eq!((contents(&db, tree).unwrap(), db.mirroring()), (right, (true, true)));
}

#[test]
fn disks_that_were_used_without_each_other_are_not_mixed() {
    let (disk, tree, right) = mirrored(20);
    for part in 0..2 {
        let alone = disk.crash_image_everything();
        alone.remove_part(1 - part);
        assert_eq!(contents(&open(alone.set(), true).unwrap(), tree).unwrap(), right);
    }
    // On the same parts, one after the other.
    for part in 0..2 {
        let set = DiskSet::of(vec![disk.set().disks().nth(part).unwrap().clone()], true);
        let db = open(set, true).unwrap();
        fill(&db, tree, 3, &mut right.clone());
        db.close().unwrap();
    }
    for degraded in [false, true] {
        let refused = open(disk.set(), degraded).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("each used without the other"), "{refused}");
    }
}

#[test]
fn nothing_is_given_up_that_is_nowhere_else() {
    let disk = SimDisk::of_parts(11, 3);
    let db = open(disk.set(), false).unwrap();
    let (tree, right) = create(&db, 100);
    db.close().unwrap();
    drop(db);
    disk.remove_part(0);
    disk.remove_part(2);
    assert!(matches!(open(disk.set(), true), Err(Error::NotADatabase { .. })));
    let db = open(disk.crash_image_everything().set(), false).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), right);
}

/// Damages of each page its even sectors on one disk and its odd ones on the other: no copy is whole, and every sector
/// is.
fn damage_in_turn(disks: &[MemDisk; 2]) {
    const SECTOR: u64 = 512;
    for (parity, disk) in (0..).zip(disks) {
        let file = disk.open("pages", false).unwrap();
        let sectors = (16 << 10) / SECTOR..file.len().unwrap() / SECTOR;
        for sector in sectors.filter(|sector| sector % 2 == parity) {
            let mut byte = [0];
            file.read_at(sector * SECTOR + 100, &mut byte).unwrap();
            file.write_at(sector * SECTOR + 100, &[byte[0] ^ 0x10]).unwrap();
        }
    }
}

fn mirrored_with_large_pages() -> ([MemDisk; 2], TreeId, Contents) {
    let disks = [MemDisk::new(), MemDisk::new()];
    let db = open(set_of(&disks), false).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let page_size = crate::PageSize::at_least(128 << 10).unwrap();
    let tree = txn.create_tree_with(TreeOptions { page_size, ..TreeOptions::default() }).unwrap();
    txn.commit().unwrap();
    let mut rows = Contents::new();
    fill(&db, tree, 600, &mut rows);
    db.close().unwrap();
    (disks, tree, rows)
}

fn set_of(disks: &[MemDisk; 2]) -> DiskSet {
    let disks: Vec<Arc<dyn Disk>> = disks.iter().map(|disk| Arc::new(disk.clone()) as _).collect();
    DiskSet::of(disks, true)
}

#[test]
fn copies_that_are_damaged_in_different_sectors_are_put_together() {
    let (disks, tree, rows) = mirrored_with_large_pages();
    damage_in_turn(&disks);
    let found = verify(set_of(&disks), &mut |_, _| ()).unwrap();
    assert!(!found.is_sound() && found.severity() == Some(crate::Severity::Spare), "{:?}", found.severity());
    let db = open(set_of(&disks), false).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), rows);
    let report = db.scrub(&mut |_, _| ()).unwrap();
    // What was read above is being repaired in the background.
    assert!(report.lost.is_empty(), "{report:?}");
    assert_eq!(report.missing, 0);
    db.close().unwrap();
    drop(db);
    assert!(is_sound(set_of(&disks)));
    let db = open(set_of(&disks), false).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), rows);
}

/// Waits until the background has come so far.
fn scrub_until(db: &Database, done: impl Fn(&ScrubProgress) -> bool) -> ScrubProgress {
    db.scrub_in_background(1 << 30).unwrap();
    for _ in 0..2000 {
        let progress = db.scrub_progress();
        if done(&progress) {
            return progress;
        }
        crate::sync::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?}", db.scrub_progress());
}

#[test]
fn the_background_repairs_what_nobody_reads() {
    let (disks, tree, rows) = mirrored_with_large_pages();
    damage_in_turn(&disks);
    let db = open(set_of(&disks), false).unwrap();
    assert_eq!(db.scrub_progress(), ScrubProgress::default());
    let progress = scrub_until(&db, |progress| progress.passes > 0);
    assert!(progress.repaired > 8 && progress.lost == 0 && progress.bytes_checked > 100_000, "{progress:?}");
    assert!(db.take_reports().iter().any(|report| report.ends_with("repaired from its copy")));
    db.scrub_in_background(0).unwrap();
    assert_eq!(contents(&db, tree).unwrap(), rows);
    db.close().unwrap();
    drop(db);
    let report = verify(set_of(&disks), &mut |_, _| ()).unwrap();
    assert!(report.severity() <= Some(crate::Severity::Spare), "{:?}", report.findings);
}

#[test]
fn the_background_counts_what_a_single_disk_has_lost() {
    let disk = MemDisk::new();
    let set = || DiskSet::from(Arc::new(disk.clone()));
    let db = open(set(), false).unwrap();
    let (_, _) = create(&db, 200);
    db.close().unwrap();
    drop(db);
    let file = disk.open("pages", false).unwrap();
    for page in 4..file.len().unwrap() / PAGE_BYTES as u64 {
        let at = page * PAGE_BYTES as u64 + 1000;
        let mut byte = [0];
        file.read_at(at, &mut byte).unwrap();
        if byte[0] != 0 {
            file.write_at(at, &[byte[0] ^ 0x10]).unwrap();
            break;
        }
    }
    let db = open(set(), false).unwrap();
    let progress = scrub_until(&db, |progress| progress.passes > 0);
    let reports = db.take_reports();
    assert!(progress.lost <= 1 && progress.repaired == 0, "{progress:?}");
    let told = reports.iter().filter(|report| report.contains("restore a backup")).count() as u64;
    assert_eq!(told, progress.lost, "{reports:?}");
}

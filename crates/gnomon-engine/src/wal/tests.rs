//! Tests of the log on a simulated disk: crashes at every event, failures of every call, every flipped bit.

use super::*;
use crate::{
    disk::{MemDisk, SimDisk},
    env::Rng,
    failpoint::{Failpoint, Failpoints},
    sync::thread,
};
use std::collections::BTreeSet;

const SEGMENT_BYTES: u64 = 4096;
const CAPACITY: u64 = SEGMENT_BYTES - SECTOR_BYTES as u64;

fn how(epoch: u32) -> LogOptions {
    LogOptions {
        name: "wal".into(),
        database: 7,
        segment_bytes: SEGMENT_BYTES,
        epoch,
        reaches: Lsn(0),
        failpoints: Failpoints::default(),
    }
}

fn create(disk: &SimDisk) -> Result<Log> {
    Log::create(&(Arc::new(disk.clone()) as Arc<dyn Disk>), how(1))
}

type Found = Vec<(Lsn, Vec<u8>)>;

/// Opens a log, and what it shows.
fn open(disk: &SimDisk, epoch: u32, tail: Lsn, planted: Option<Failpoint>) -> Result<(Log, Found)> {
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let mut found = Found::new();
    let mut visit = |record: Record<'_>| {
        assert!(record.epoch < epoch);
        found.push((record.lsn, record.payload.to_vec()));
        Ok(())
    };
    let how = how(epoch);
    how.failpoints.turn_on(planted);
    let log = Log::open(&disk, how, tail, &mut visit)?;
    Ok((log, found))
}

fn files(disk: &SimDisk) -> usize {
    disk.list().unwrap().len()
}

/// What was done to a log, and is to be in it.
#[derive(Clone)]
struct Model {
    epoch: u32,
    /// All that was appended and was not lost.
    records: Found,
    /// What is before this must be there.
    acknowledged: Lsn,
    tail: Lsn,
    appended: u64,
}

impl Model {
    fn new() -> Model {
        Model { epoch: 1, records: Found::new(), acknowledged: Lsn(0), tail: Lsn(0), appended: 0 }
    }

    fn append(&mut self, log: &Log, bytes: usize) -> Lsn {
        self.appended += 1;
        let mut payload = vec![self.appended as u8; bytes];
        payload[..8].copy_from_slice(&self.appended.to_le_bytes());
        let (first, rest) = payload.split_at(bytes / 3);
        let before = log.end();
        let lsn = log.append(&[first, rest]);
        assert!(lsn >= before && lsn < log.end());
        self.records.push((lsn, payload));
        lsn
    }

    fn force(&mut self, log: &Log, upto: Lsn) -> Result<()> {
        log.force(upto)?;
        assert!(log.forced() >= upto);
        self.acknowledged = self.acknowledged.max(log.forced());
        Ok(())
    }

    fn recycle(&mut self, log: &Log, tail: Lsn) -> Result<()> {
        self.tail = tail;
        self.records.retain(|(lsn, _)| *lsn >= tail);
        log.recycle(tail)
    }

    /// Opens the log in the next run and compares it with what must be in it.
    fn reopen(&mut self, disk: &SimDisk, planted: Option<Failpoint>) -> Result<Log, String> {
        self.epoch += 1;
        let (log, found) = open(disk, self.epoch, self.tail, planted).map_err(|error| error.to_string())?;
        if !self.records.starts_with(&found) {
            return Err(format!("{} records of {} are other ones", found.len(), self.records.len()));
        }
        if let Some((lsn, _)) = self.records.get(found.len())
            && *lsn < self.acknowledged
        {
            return Err(format!("{lsn} is lost, all before {} was acknowledged", self.acknowledged));
        }
        assert!(log.end() == log.forced() && log.end() >= self.acknowledged);
        assert_eq!(log.live_bytes(), log.end().0 - self.tail.0);
        for (lsn, payload) in &found {
            if log.read(*lsn).map_err(|error| error.to_string())? != *payload {
                return Err(format!("{lsn} is read as another record"));
            }
        }
        self.records = found;
        self.acknowledged = log.end();
        Ok(log)
    }

    /// Does this and that, up to the first error of a force; others leave the log as it is.
    fn work(&mut self, log: &Log, rng: &mut Rng, steps: usize) -> Result<()> {
        for _ in 0..steps {
            let bytes = match rng.below(8) {
                0 => 1000 + rng.below(3000),
                1 => 2 * CAPACITY + rng.below(3000),
                _ => 8 + rng.below(200),
            };
            let lsn = self.append(log, bytes as usize);
            if rng.chance(2, 3) {
                let upto = if rng.chance(1, 2) { log.end() } else { Lsn(lsn.0 + 1) };
                self.force(log, upto)?;
            }
            let forced: Vec<_> = self.records.iter().filter(|(lsn, _)| *lsn < log.forced()).collect();
            if let Some((lsn, payload)) = forced.get(rng.below(forced.len() as u64) as usize).copied()
                && let Ok(read) = log.read(*lsn)
            {
                assert!(read == *payload, "{lsn}");
            }
            if rng.chance(1, 6) {
                let middle = forced.get(rng.below(forced.len() as u64) as usize).map(|(lsn, _)| *lsn);
                let tail = if rng.chance(1, 2) { middle } else { None };
                let _ = self.recycle(log, tail.unwrap_or(log.forced()));
            }
            if rng.chance(1, 6) {
                let _ = log.ensure(rng.below(3 * CAPACITY));
            }
        }
        let end = log.end();
        self.force(log, end)
    }
}

/// Makes a log and works with it; none if it was not made.
fn first_run(disk: &SimDisk, seed: u64, planted: Option<Failpoint>) -> Option<Model> {
    drop(create(disk).ok()?);
    let mut model = Model::new();
    if let Ok(log) = model.reopen(disk, planted) {
        let _ = model.work(&log, &mut Rng::from_seed(seed), 25);
    }
    Some(model)
}

/// Crashes at every event; goes on with what is left, and crashes again.
fn sweep(seed: u64, planted: Option<Failpoint>) -> Result<(), String> {
    let whole = SimDisk::new(seed);
    first_run(&whole, seed, None).unwrap();
    for event in 0..=whole.events() {
        let disk = SimDisk::new(seed);
        disk.crash_at(event);
        let Some(model) = first_run(&disk, seed, planted) else { continue };
        for (number, image) in disk.crash_images(3).enumerate() {
            let wrong =
                |what| format!("seed {seed}, event {event}, image {number}: {what}\n{}", disk.history());
            let mut rng = Rng::from_seed(seed ^ (event << 8) ^ number as u64);
            let mut model = model.clone();
            image.crash_at(rng.below(60));
            match model.reopen(&image, planted) {
                Ok(log) => drop(model.work(&log, &mut rng, 12)),
                // It may have been in doubt as long as the log was not open.
                Err(_) if image.has_crashed() => {}
                Err(what) => return Err(wrong(what)),
            }
            for image in image.crash_images(2) {
                let mut model = model.clone();
                let log = model.reopen(&image, planted).map_err(wrong)?;
                model.work(&log, &mut rng, 3).map_err(|error| wrong(error.to_string()))?;
                drop(log);
                model.reopen(&image, planted).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

fn seeds() -> u64 {
    std::env::var("GNOMON_SWEEP_SEEDS").map_or(2, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn a_crash_at_any_event_leaves_a_prefix_with_all_that_was_forced() {
    (0..seeds()).for_each(|seed| sweep(seed, None).unwrap_or_else(|what| panic!("{what}")));
}

#[test]
fn the_sweep_finds_planted_bugs() {
    for bug in [Failpoint::ForceUnsynced, Failpoint::OldHeaderKept, Failpoint::TornTailAccepted] {
        let caught = (0..4).find_map(|seed| sweep(seed, Some(bug)).err());
        println!("{bug:?}: {}", caught.unwrap_or_else(|| panic!("{bug:?} is not found")));
    }
}

/// Fails one event after the other.
fn failures(seed: u64, planted: Option<Failpoint>) -> Result<(), String> {
    let whole = SimDisk::new(seed);
    first_run(&whole, seed, None).unwrap();
    for event in 0..whole.events() {
        let disk = SimDisk::new(seed ^ event);
        disk.fail_event(event);
        let Ok(log) = create(&disk) else { continue };
        drop(log);
        let mut model = Model::new();
        let wrong = |what| format!("seed {seed}, event {event}: {what}\n{}", disk.history());
        if let Ok(log) = model.reopen(&disk, planted)
            && let Err(error) = model.work(&log, &mut Rng::from_seed(seed), 25)
        {
            assert!(matches!(error, Error::Io(_)), "{error}");
            let (forced, counts) = (log.forced(), log.counts());
            model.append(&log, 100);
            for _ in 0..2 {
                assert_eq!(log.force(log.end()).unwrap_err().to_string(), error.to_string());
            }
            assert!(log.force(forced).is_ok() && (log.forced(), log.counts()) == (forced, counts));
        }
        // Without a crash first: what is shown now is there for good.
        let log = model.reopen(&disk, planted).map_err(wrong)?;
        let image = disk.crash_image_synced();
        model.clone().reopen(&image, planted).map_err(wrong)?;
        model.work(&log, &mut Rng::from_seed(event), 5).map_err(|error| wrong(error.to_string()))?;
        model.reopen(&disk.crash_image_synced(), planted).map_err(wrong)?;
    }
    Ok(())
}

#[test]
fn a_failed_call_breaks_the_log_and_nothing_else() {
    (0..seeds()).for_each(|seed| failures(seed, None).unwrap_or_else(|what| panic!("{what}")));
}

#[test]
fn failures_find_a_last_block_that_is_trusted() {
    let caught = (0..4).find_map(|seed| failures(seed, Some(Failpoint::LastBlockTrusted)).err());
    println!("{}", caught.expect("it is found"));
}

#[test]
fn records_of_all_sizes_round_trip_and_are_read_alone() {
    let disk = SimDisk::new(1);
    let log = create(&disk).unwrap();
    let mut model = Model::new();
    assert!((log.end(), log.forced(), log.live_bytes()) == (Lsn(0), Lsn(0), 0));
    for bytes in (8..1200).step_by(61).chain([3500, 3584, 20_000, 8]).chain(std::iter::repeat_n(460, 20)) {
        model.append(&log, bytes);
        if bytes % 2 == 0 {
            model.force(&log, log.end()).unwrap();
        }
    }
    let empty = log.append(&[]);
    model.records.push((empty, Vec::new()));
    assert!(log.read(empty).is_err(), "it is in memory only");
    log.force(Lsn(u64::MAX)).unwrap();
    model.force(&log, log.end()).unwrap();
    let counts = log.counts();
    assert_eq!(log.live_bytes(), log.end().0);
    assert!(counts.forces < model.records.len() as u64 && counts.bytes > log.end().0);
    log.force(log.end()).unwrap();
    assert_eq!(log.counts(), counts, "nothing was left to force");
    for (lsn, payload) in &model.records {
        assert_eq!(log.read(*lsn).unwrap(), *payload);
    }
    assert!(log.read(Lsn(empty.0 + 1)).is_err());
    drop(log);
    model.reopen(&disk, None).unwrap();
    // From any record on.
    for at in 0..model.records.len() {
        let mut part = model.clone();
        part.tail = part.records[at].0;
        part.records.drain(..at);
        part.reopen(&disk.crash_image_synced(), None).unwrap();
    }
}

#[test]
fn recycling_bounds_the_files_and_never_shows_an_old_record() {
    let disk = SimDisk::new(1);
    let log = create(&disk).unwrap();
    let mut model = Model::new();
    let mut rng = Rng::from_seed(1);
    for round in 0..200 {
        model.append(&log, 8 + rng.below(2500) as usize);
        model.force(&log, log.end()).unwrap();
        if round % 3 == 0 {
            model.recycle(&log, log.forced()).unwrap();
        }
        assert!(files(&disk) <= 8, "{} files", files(&disk));
        model.clone().reopen(&disk.crash_image(round), None).unwrap();
    }
    // Files for much that is needed once go again.
    for _ in 0..40 {
        model.append(&log, 2000);
        model.force(&log, log.end()).unwrap();
    }
    let most = files(&disk);
    assert!(most > 20);
    for _ in 0..80 {
        model.append(&log, 2000);
        model.force(&log, log.end()).unwrap();
        model.recycle(&log, log.forced()).unwrap();
    }
    assert!(files(&disk) <= 6 && disk.used_bytes() <= 6 * SEGMENT_BYTES, "{} files", files(&disk));
    drop(log);
    model.reopen(&disk, None).unwrap();
}

#[test]
fn a_full_disk_is_told_by_ensure_and_the_log_goes_on() {
    let disk = SimDisk::new(1);
    let log = create(&disk).unwrap();
    let mut model = Model::new();
    log.ensure(3 * CAPACITY).unwrap();
    assert_eq!(files(&disk), 3);
    disk.full_after(Some(SEGMENT_BYTES));
    assert!(matches!(log.ensure(5 * CAPACITY), Err(Error::DiskFull)));
    assert_eq!(files(&disk), 4);
    disk.full_after(Some(0));
    // What was promised is there.
    while log.forced().0 < 4 * CAPACITY {
        model.append(&log, 400);
        model.force(&log, log.end()).unwrap();
    }
    assert!(matches!(log.ensure(1), Err(Error::DiskFull)));
    model.recycle(&log, log.forced()).unwrap();
    log.ensure(3 * CAPACITY).unwrap();
    disk.full_after(None);
    log.ensure(9 * CAPACITY).unwrap();
    model.recycle(&log, log.forced()).unwrap();
    disk.full_after(Some(0));
    model.append(&log, 8 * CAPACITY as usize);
    model.force(&log, log.end()).unwrap();
    drop(log);
    disk.full_after(None);
    model.reopen(&disk, None).unwrap();
}

/// A log of three segments, of which the tail is in the first, after its second block. The last block has 128 bytes:
/// one flipped bit makes that none.
fn small_log(disk: &SimDisk) -> (Log, Model, Vec<u64>) {
    let mut model = Model::new();
    let log = create(disk).unwrap();
    let mut blocks = vec![0];
    for bytes in [100, 700, 300, 2000, 1500, 600, 1500, 60] {
        model.append(&log, bytes);
        model.append(&log, 20);
        model.force(&log, log.end()).unwrap();
        blocks.push(log.end().0);
    }
    model.recycle(&log, model.records[4].0).unwrap();
    assert_eq!((files(disk), blocks[2] < model.tail.0 && model.tail.0 < blocks[3]), (3, true));
    (log, model, blocks)
}

#[test]
fn every_flipped_bit_ends_the_log_before_it_or_is_reported() {
    let disk = SimDisk::new(1);
    let (log, model, blocks) = small_log(&disk);
    drop(log);
    let (whole, last, end) = (model.records.len(), blocks[blocks.len() - 2], blocks[blocks.len() - 1]);
    let mut seen = BTreeSet::new();
    for (segment, offset) in
        (0..3).flat_map(|segment| (0..SEGMENT_BYTES).map(move |offset| (segment, offset)))
    {
        for bit in 0..8 {
            // Slots are taken in order.
            assert!(disk.flip_bit(&format!("wal.{segment}"), offset, bit));
            let result = open(&disk.crash_image_synced(), 2, model.tail, None);
            assert!(disk.flip_bit(&format!("wal.{segment}"), offset, bit));
            let at = segment * CAPACITY + offset.saturating_sub(SECTOR_BYTES as u64);
            let damaged = blocks.iter().rev().find(|block| **block <= at).copied().unwrap();
            let live = at < end;
            match result {
                Ok((_, found)) => {
                    assert!(model.records.starts_with(&found));
                    let before = model.records.iter().filter(|(lsn, _)| !live || lsn.0 < damaged).count();
                    assert_eq!(found.len(), before, "bit {bit} of byte {offset} of segment {segment}");
                    // A header is one of the block that enters its segment.
                    let is_last = damaged >= last;
                    assert!(before == whole || is_last, "bit {bit} of byte {offset} of segment {segment}");
                    seen.insert(if before == whole { "outside" } else { "ends" });
                }
                Err(Error::Corrupt { .. }) => {
                    assert!(
                        live && (damaged <= model.tail.0 || damaged < last),
                        "bit {bit} of byte {offset} of segment {segment}"
                    );
                    seen.insert("reported");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["ends", "outside", "reported"]);
}

#[test]
fn files_that_were_cut_are_reported() {
    let disk = SimDisk::new(1);
    let (log, model, _) = small_log(&disk);
    drop(log);
    for (segment, bytes) in (0..3).flat_map(|segment| (0..SEGMENT_BYTES).map(move |bytes| (segment, bytes))) {
        let image = disk.crash_image_synced();
        image.open(&format!("wal.{segment}"), false).unwrap().truncate(bytes).unwrap();
        match open(&image, 2, model.tail, None) {
            Err(Error::Corrupt { .. }) => {}
            Ok(_) => panic!("segment {segment} of {bytes} bytes is taken for the log's end"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Damages each block in turn, writes another of the same size in its place, and looks whether those after it are taken
/// for a part of the log again.
fn stale_blocks(planted: Option<Failpoint>) -> Result<(), String> {
    // The damage would be reported, and no log would have older blocks behind newer ones.
    let planted = planted.or(Some(Failpoint::DamageUnseen));
    let disk = SimDisk::new(1);
    let log = create(&disk).unwrap();
    let mut model = Model::new();
    for _ in 0..12 {
        model.append(&log, 900);
        model.force(&log, log.end()).unwrap();
    }
    drop(log);
    for block in 0..model.records.len() {
        let image = disk.crash_image_synced();
        let at = model.records[block].0.0;
        image.flip_bit(&format!("wal.{}", at / CAPACITY), SECTOR_BYTES as u64 + at % CAPACITY, 3);
        let mut model = Model { acknowledged: Lsn(0), ..model.clone() };
        let log = model.reopen(&image, planted)?;
        assert_eq!(model.records.len(), block);
        model.append(&log, 900);
        model.force(&log, log.end()).unwrap();
        drop(log);
        for image in image.crash_images(2) {
            model.clone().reopen(&image, planted)?;
        }
        // An opening that looks for damage does not take them for a sign of it.
        model.clone().reopen(&image.crash_image_synced(), None)?;
    }
    Ok(())
}

/// Damages a block with others behind it.
fn damage_in_the_middle(planted: Option<Failpoint>) -> Result<(), String> {
    let disk = SimDisk::new(1);
    let (log, mut model, blocks) = small_log(&disk);
    drop(log);
    let at = blocks[blocks.len() - 3];
    disk.flip_bit(&format!("wal.{}", at / CAPACITY), SECTOR_BYTES as u64 + at % CAPACITY + 100, 3);
    match model.reopen(&disk.crash_image_synced(), planted) {
        Err(wrong) if wrong.contains("a whole block is behind it") => Ok(()),
        opened => Err(format!("{:?}", opened.map(drop))),
    }
}

#[test]
fn damage_in_the_middle_is_reported() {
    damage_in_the_middle(None).unwrap();
    let wrong = damage_in_the_middle(Some(Failpoint::DamageUnseen));
    println!("{}", wrong.expect_err("a planted bug is caught"));
}

#[test]
fn blocks_of_an_older_run_behind_newer_ones_are_not_read() {
    stale_blocks(None).unwrap();
    println!("{}", stale_blocks(Some(Failpoint::EpochUnchecked)).expect_err("a planted bug is caught"));
}

/// A crash leaves a block at the begin of a segment whole, but not the segment's header; a later run writes one, and
/// crashes before its own block is there.
fn revival(planted: Option<Failpoint>) -> Result<(), String> {
    let disk = SimDisk::new(1);
    let log = create(&disk).unwrap();
    let mut model = Model::new();
    model.append(&log, CAPACITY as usize - 100);
    model.force(&log, log.end()).unwrap();
    log.ensure(CAPACITY).unwrap();
    assert_eq!(log.end(), Lsn(CAPACITY));
    let acknowledged = model.acknowledged;
    let left = disk.open("wal.0", false).unwrap();
    let mut header = [0; SECTOR_BYTES];
    left.read_at(0, &mut header).unwrap();
    model.append(&log, 100);
    model.force(&log, log.end()).unwrap();
    drop(log);
    model.acknowledged = acknowledged;
    assert!(disk.flip_bit("wal.1", 24, 0));
    // The crash came before that was noted.
    left.write_at(0, &header).unwrap();
    let log = model.reopen(&disk, planted)?;
    assert_eq!(model.records.len(), 1);
    model.append(&log, 100);
    disk.crash_at(disk.events() + 1);
    assert!(model.force(&log, log.end()).is_err());
    for image in disk.crash_images(30) {
        model.clone().reopen(&image, planted)?;
    }
    Ok(())
}

#[test]
fn a_block_without_its_header_does_not_come_to_life() {
    revival(None).unwrap();
    println!("{}", revival(Some(Failpoint::EntryOfAnyRun)).expect_err("a planted bug is caught"));
}

#[test]
fn what_is_not_this_log_is_refused_and_left_alone() {
    let disk = SimDisk::new(1);
    let (log, model, _) = small_log(&disk);
    let end = log.end();
    drop(log);
    let events = disk.events();
    let shared = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let refused = |how: LogOptions, tail: Lsn| {
        let error = Log::open(&shared, how, tail, &mut |_| Ok(())).err().expect("refused");
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        error.to_string()
    };
    println!("{}", refused(LogOptions { database: 8, ..how(2) }, model.tail));
    println!("{}", refused(LogOptions { segment_bytes: 8192, ..how(2) }, model.tail));
    println!("{}", refused(LogOptions { name: "lo".into(), ..how(2) }, model.tail));
    println!("{}", refused(how(1), model.tail));
    println!("{}", refused(how(2), Lsn(end.0 + 1)));
    let error = Log::open(&shared, how(2), model.tail, &mut |_| Err(Error::Closed)).err().expect("refused");
    assert!(matches!(error, Error::Closed) && disk.events() == events);
    assert!(open(&disk, 2, end, None).unwrap().1.is_empty());
    // A new one takes the place of whatever is there, and nothing else.
    disk.open("wal.x", true).unwrap();
    disk.open("wal.01", true).unwrap();
    drop(create(&disk).unwrap());
    assert_eq!(disk.list().unwrap(), ["wal.0", "wal.01", "wal.x"]);
    assert!(open(&disk, 2, Lsn(0), None).unwrap().1.is_empty());
}

#[test]
fn threads_append_and_force_beside_each_other() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let disk = Arc::new(MemDisk::new()) as Arc<dyn Disk>;
    let log = Log::create(&disk, how(1)).unwrap();
    thread::scope(|scope| {
        for own in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for step in 0..EACH {
                    let payload = [own.to_le_bytes(), step.to_le_bytes()];
                    let lsn = log.append(&[&payload[0], &payload[1]]);
                    log.force(Lsn(lsn.0 + 1)).unwrap();
                    assert!(log.forced() > lsn && log.read(lsn).unwrap() == payload.concat());
                    if step % 50 == 0 {
                        log.ensure(CAPACITY).unwrap();
                    }
                }
            });
        }
    });
    assert!(log.counts().forces <= THREADS * EACH);
    drop(log);
    let mut next = [0; THREADS as usize];
    let mut visit = |record: Record<'_>| {
        let own = u64::from_le_bytes(record.payload[..8].try_into().unwrap()) as usize;
        assert_eq!(record.payload[8..], u64::to_le_bytes(next[own]));
        next[own] += 1;
        Ok(())
    };
    Log::open(&disk, how(2), Lsn(0), &mut visit).unwrap();
    assert_eq!(next, [EACH; THREADS as usize]);
}

//! The simulated disk against rules simple enough to be believed: what may a crash leave of a file?

use super::*;
use crate::disk::SECTOR_BYTES;
use proptest::{collection::vec, prelude::*};

fn contents_of(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn sector(bytes: &[u8], index: usize) -> [u8; SECTOR_BYTES] {
    let mut padded = [0; SECTOR_BYTES];
    let range = (index * SECTOR_BYTES).min(bytes.len())..((index + 1) * SECTOR_BYTES).min(bytes.len());
    padded[..range.len()].copy_from_slice(&bytes[range]);
    padded
}

/// The rule: an image's length is that of some state since the last sync (which is the first state), and so is each
/// of its sectors, as far as the image reaches.
fn check_image(image: &[u8], states: &[Vec<u8>]) -> Result<(), String> {
    if !states.iter().any(|state| state.len() == image.len()) {
        return Err(format!("no state was {} bytes long", image.len()));
    }
    for index in 0..image.len().div_ceil(SECTOR_BYTES) {
        let within = (image.len() - index * SECTOR_BYTES).min(SECTOR_BYTES);
        let found = sector(image, index);
        if !states.iter().any(|state| sector(state, index)[..within] == found[..within]) {
            return Err(format!("sector {index} is of no state"));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: u64, len: usize, byte: u8 },
    Allocate(u64),
    Truncate(u64),
    Punch { offset: u64, len: u64 },
    Sync,
    FailWrite { offset: u64, len: usize, byte: u8 },
    FailSync,
}

fn place() -> impl Strategy<Value = u64> {
    prop_oneof![0..6000u64, (0..12u64, 0..6u64).prop_map(|(sector, offset)| sector * 512 + offset)]
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (place(), place()).prop_map(|(a, b)| (a.min(b), a.abs_diff(b).max(1)));
    let write = || (range(), 1..=255u8).prop_map(|((offset, len), byte)| (offset, len as usize, byte));
    prop_oneof![
        8 => write().prop_map(|(offset, len, byte)| Op::Write { offset, len, byte }),
        1 => place().prop_map(Op::Allocate),
        2 => place().prop_map(Op::Truncate),
        2 => range().prop_map(|(offset, len)| Op::Punch { offset, len }),
        3 => Just(Op::Sync),
        1 => write().prop_map(|(offset, len, byte)| Op::FailWrite { offset, len, byte }),
        1 => Just(Op::FailSync),
    ]
}

fn run(disk: &SimDisk, file: &dyn File, op: &Op) -> io::Result<()> {
    match *op {
        Op::Write { offset, len, byte } => file.write_at(offset, &vec![byte; len]),
        Op::Allocate(len) => file.allocate(len),
        Op::Truncate(len) => file.truncate(len),
        Op::Punch { offset, len } => file.punch(offset, len),
        Op::Sync => file.sync(),
        Op::FailWrite { offset, len, byte } => {
            disk.fail_write_after(0);
            file.write_at(offset, &vec![byte; len])
        }
        Op::FailSync => {
            disk.fail_sync_after(0);
            file.sync()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn images_hold_states_since_the_last_sync(seed: u64, ops in vec(op(), 1..25), crash in 0..60u64) {
        let disk = SimDisk::new(seed);
        let file = disk.open("file", true).unwrap();
        disk.crash_at(crash);
        // The state that was last synced, then each one since; a state that only may have been is among them.
        let mut states = vec![Vec::new()];
        let mut in_doubt = false;
        for op in &ops {
            let result = run(&disk, &*file, op);
            let visible = (!disk.has_crashed()).then(|| contents_of(&disk, "file"));
            let now = visible.unwrap_or_else(|| contents_of(&disk.crash_image_everything(), "file"));
            let is_to_fail = matches!(op, Op::FailSync | Op::FailWrite { .. });
            prop_assert!(disk.has_crashed() || result.is_err() == is_to_fail);
            match op {
                // After a failed sync, what is durable is anybody's guess until the end.
                Op::Sync if result.is_ok() && !in_doubt => states = vec![now],
                Op::FailSync => {
                    in_doubt = true;
                    states.push(now);
                }
                _ => states.push(now),
            }
        }
        if !in_doubt {
            prop_assert_eq!(&contents_of(&disk.crash_image_synced(), "file"), &states[0]);
            prop_assert_eq!(&contents_of(&disk.crash_image_everything(), "file"), states.last().unwrap());
            for image in disk.crash_images(8) {
                let check = check_image(&contents_of(&image, "file"), &states);
                prop_assert!(check.is_ok(), "{}\n{}", check.unwrap_err(), disk.history());
            }
        }
    }

    #[test]
    fn a_sync_makes_durable_what_was_written_since_a_failed_one(seed: u64, offset in 0..4000u64, len in 1..3000usize) {
        let disk = SimDisk::new(seed);
        let file = disk.open("file", true).unwrap();
        file.write_at(0, &[1; 4096]).unwrap();
        disk.fail_sync_after(0);
        file.sync().unwrap_err();
        file.write_at(offset, &vec![2; len]).unwrap();
        file.sync().unwrap();
        for image in disk.crash_images(3) {
            let bytes = contents_of(&image, "file");
            prop_assert!(bytes[offset as usize..][..len].iter().all(|byte| *byte == 2));
        }
    }
}

/// The images of `count` seeds, of one file of the disk.
fn images(disk: &SimDisk, count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|seed| contents_of(&disk.crash_image(seed), "file")).collect()
}

#[test]
fn writes_are_lost_kept_torn_and_reordered() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    file.allocate(8192).unwrap();
    file.sync().unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    file.write_at(4096, &[2; 4096]).unwrap();
    let images = images(&disk, 200);
    let uniform = |bytes: &[u8], byte: u8| bytes.iter().all(|b| *b == byte);
    let count = |test: &dyn Fn(&[u8], &[u8]) -> bool| {
        images.iter().filter(|image| test(&image[..4096], &image[4096..])).count()
    };
    assert!(count(&|first, second| uniform(first, 0) && uniform(second, 0)) > 0, "all lost");
    assert!(count(&|first, second| uniform(first, 1) && uniform(second, 2)) > 0, "all kept");
    assert!(
        count(&|first, second| uniform(first, 0) && uniform(second, 2)) > 0,
        "the second without the first"
    );
    assert!(count(&|first, _| !uniform(first, 0) && !uniform(first, 1)) > 0, "torn");
}

#[test]
fn lengths_and_data_reach_the_disk_apart() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    file.write_at(1024, &[2; 1024]).unwrap();
    let images = images(&disk, 200);
    for len in [0, 1024, 2048] {
        assert!(images.iter().any(|image| image.len() == len), "{len}");
    }
    assert!(images.iter().any(|image| image.len() == 2048 && image.iter().all(|byte| *byte == 0)));
}

#[test]
fn a_failed_sync_cannot_be_mended_by_another() {
    let (mut lost, mut kept, mut unread) = (0, 0, 0);
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = disk.open("file", true).unwrap();
        file.allocate(512).unwrap();
        file.sync().unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        disk.fail_sync_after(0);
        assert!(file.sync().is_err());
        file.sync().unwrap();
        let durable = contents_of(&disk.crash_image_synced(), "file") == [1; 512];
        assert_eq!(durable, contents_of(&disk.crash_image_everything(), "file") == [1; 512]);
        kept += u32::from(durable);
        lost += u32::from(!durable);
        unread += u32::from(contents_of(&disk, "file") != [1; 512]);
    }
    assert!(lost > 10 && kept > 10 && unread > 10 && unread < lost, "{lost} {kept} {unread}");
}

#[test]
fn after_a_crash_every_call_fails_and_the_event_in_flight_is_open() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    file.write_at(0, &[1; 512]).unwrap();
    disk.crash_at(disk.events());
    assert!(file.sync().is_err());
    assert!(disk.has_crashed());
    assert!(file.read_at(0, &mut [0]).is_err() && file.len().is_err() && file.write_at(0, &[1]).is_err());
    assert!(disk.open("file", true).is_err() && disk.list().is_err() && disk.remove("file").is_err());
    assert_eq!(disk.events(), 3, "nothing happens after a crash");
    let images = images(&disk, 50);
    assert!(images.iter().any(|image| image.is_empty()) && images.iter().any(|image| *image == [1; 512]));
}

#[test]
fn names_are_durable_unless_in_flight() {
    let disk = SimDisk::new(0);
    disk.open("kept", true).unwrap();
    disk.open("removed", true).unwrap();
    disk.remove("removed").unwrap();
    disk.crash_at(disk.events());
    assert!(disk.open("created", true).is_err());
    let (mut with, mut without) = (0, 0);
    for image in disk.crash_images(50) {
        match &image.list().unwrap()[..] {
            [created, kept] if created == "created" && kept == "kept" => with += 1,
            [kept] if kept == "kept" => without += 1,
            names => panic!("{names:?}"),
        }
    }
    assert!(with > 5 && without > 5);

    let disk = SimDisk::new(0);
    disk.open("file", true).unwrap();
    disk.crash_at(disk.events());
    assert!(disk.remove("file").is_err());
    let counts = disk.crash_images(50).map(|image| image.list().unwrap().len()).collect::<Vec<_>>();
    assert!(counts.contains(&0) && counts.contains(&1));
}

#[test]
fn a_full_disk_fails_what_needs_space_and_nothing_else() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    file.allocate(8192).unwrap();
    disk.full_after(Some(4096));
    let full = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    full(file.allocate(8192 + 4097));
    full(file.write_at(0, &[1; 8192 + 4097]));
    assert_eq!(file.len().unwrap(), 8192);
    file.write_at(0, &[1; 8192]).unwrap();
    file.allocate(8192 + 4096).unwrap();
    full(disk.open("other", true).unwrap().write_at(0, &[1]));
    file.punch(0, 4096).unwrap();
    disk.open("other", true).unwrap().write_at(0, &[1]).unwrap();
    full(file.write_at(0, &[1]));
    disk.remove("other").unwrap();
    file.write_at(0, &[1]).unwrap();
    assert_eq!(disk.used_bytes(), 3 * 4096);
    file.truncate(1).unwrap();
    assert_eq!(disk.used_bytes(), 4096);
    disk.full_after(None);
    file.allocate(1 << 20).unwrap();
}

#[test]
fn planned_calls_fail_once() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    disk.fail_write_after(1);
    file.write_at(0, &[1]).unwrap();
    assert!(file.write_at(0, &[1]).is_err() && file.write_at(0, &[1]).is_ok());
    disk.fail_read_after(0);
    assert!(file.read_at(0, &mut [0]).is_err() && file.read_at(0, &mut [0]).is_ok());
    disk.fail_event(disk.events());
    assert!(file.allocate(10).is_err() && file.allocate(10).is_ok());
}

#[test]
fn bits_flip_where_they_are_read_and_where_they_are_durable() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    assert_eq!(disk.flip_random_bit(0), None);
    file.write_at(0, &[0; 100]).unwrap();
    file.sync().unwrap();
    assert!(disk.flip_bit("file", 7, 3));
    assert!(!disk.flip_bit("file", 100, 3) && !disk.flip_bit("absent", 0, 0));
    assert_eq!(contents_of(&disk, "file")[7], 8);
    let (name, offset, bit) = disk.flip_random_bit(1).unwrap();
    let image = contents_of(&disk.crash_image_synced(), "file");
    let flipped = if offset == 7 { 8 } else { 0 } ^ (1 << bit);
    assert_eq!((name.as_str(), image[offset as usize]), ("file", flipped));
}

#[test]
fn one_exclusive_handle_at_a_time() {
    let disk = SimDisk::new(0);
    let engine = disk.open_exclusive().unwrap();
    assert!(matches!(disk.open_exclusive(), Err(Error::InUse { .. })));
    let file = engine.clone().open("file", true).unwrap();
    drop(engine);
    assert!(disk.open_exclusive().is_err(), "an open file holds the disk");
    drop(file);
    disk.open_exclusive().unwrap();
}

#[test]
fn the_trace_tells_what_happened() {
    let disk = SimDisk::new(0);
    disk.record_all();
    let file = disk.open("pages", true).unwrap();
    file.allocate(8192).unwrap();
    disk.full_after(Some(0));
    file.allocate(16384).unwrap_err();
    file.write_at(4096, &[1; 4096]).unwrap();
    disk.fail_sync_after(0);
    file.sync().unwrap_err();
    file.punch(0, 4096).unwrap();
    file.truncate(4096).unwrap();
    disk.crash_at(7);
    disk.remove("pages").unwrap_err();
    let expected = "\
0 create pages
1 allocate pages 8192
2 allocate pages 16384 (disk full)
3 write pages 4096+4096
4 sync pages (failed)
5 punch pages 0+4096
6 truncate pages 4096
7 remove pages (crashed)
";
    assert_eq!(disk.history(), expected);
}

#[test]
fn only_the_latest_events_are_remembered_unless_asked() {
    let disk = SimDisk::new(0);
    let file = disk.open("file", true).unwrap();
    (0..100).for_each(|_| file.sync().unwrap());
    let trace = disk.trace();
    assert_eq!((trace.len(), trace[0].number), (HISTORY_EVENTS, 101 - HISTORY_EVENTS as u64));
}

#[test]
fn a_seed_repeats_its_disk() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        let file = disk.open("file", true).unwrap();
        file.write_at(0, &[1; 4096]).unwrap();
        disk.fail_sync_after(0);
        file.sync().unwrap_err();
        file.write_at(1000, &[2; 4096]).unwrap();
        contents_of(&disk.crash_image(seed), "file")
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
    assert!((0..20).any(|seed| run(seed) != run(0)));
}

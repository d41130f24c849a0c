use std::collections::BTreeMap;

use super::*;
use crate::*;
use crate::{
    BackupHeader, Direction, KeyRange, Options, TreeId, TxnOptions, check_backup,
    disk::{MemDisk, SimDisk},
    read_backup_header,
    store::shadow::Severity,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
    verify,
};

type Contents = BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>;

fn options(seed: u64) -> Options {
    Options { pool_bytes: 1 << 20, seed: Some(seed), ..Options::shadow() }
}

fn contents(db: &Database, trees: impl Iterator<Item = TreeId>) -> Contents {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let mut found = Contents::new();
    for tree in trees {
        let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
        let entries = found.entry(tree).or_default();
        while let Some((key, value)) = cursor.next(&mut txn).unwrap() {
            entries.insert(key, value);
        }
    }
    found
}

fn backup(db: &Database, since: Option<BackupId>) -> (Backup, Vec<u8>) {
    let mut stream = Vec::new();
    let mut last = (0, 1);
    let backup = db.backup(since, &mut stream, &mut |done, total| last = (done, total)).unwrap();
    assert!(last.0 <= last.1);
    assert_eq!(backup.bytes, stream.len() as u64);
    assert_eq!(check_backup(stream.as_slice(), &mut |_, _| ()).unwrap(), backup);
    (backup, stream)
}

fn restored(chain: &[&[u8]]) -> (Database, Restored) {
    let disk = MemDisk::new();
    let restored = restore(chain.iter().copied(), &disk, Some(99), &mut |_, _, _| ()).unwrap();
    let db = Database::open_on(Arc::new(disk), Options { create: false, ..options(1) }).unwrap();
    (db, restored)
}

fn error_of(chain: &[&[u8]]) -> Error {
    let disk = MemDisk::new();
    let error = restore(chain.iter().copied(), &disk, Some(99), &mut |_, _, _| ()).unwrap_err();
    assert_eq!(disk.list().unwrap(), [""; 0], "{error}");
    error
}

/// A random transaction: changes `state` as it changes the database.
fn change(db: &Database, rng: &mut Rng, state: &mut Contents, keys: u64) -> crate::Csn {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    if state.is_empty() || rng.chance(1, 12) {
        state.insert(txn.create_tree().unwrap(), BTreeMap::new());
    }
    let trees: Vec<TreeId> = state.keys().copied().collect();
    if trees.len() > 3 && rng.chance(1, 10) {
        let dropped = trees[rng.below(trees.len() as u64) as usize];
        txn.drop_tree(dropped).unwrap();
        state.remove(&dropped);
    }
    let trees: Vec<TreeId> = state.keys().copied().collect();
    for _ in 0..1 + rng.below(20) {
        let tree = trees[rng.below(trees.len() as u64) as usize];
        let entries = state.get_mut(&tree).expect("chosen");
        let key = format!("key {}", rng.below(keys)).into_bytes();
        if rng.chance(1, 3) {
            assert_eq!(txn.delete(tree, &key).unwrap(), entries.remove(&key).is_some());
        } else {
            let len = [20, 200, 2000, 30_000][rng.below(4).min(rng.below(4)) as usize];
            let value = vec![rng.below(256) as u8; rng.below(len) as usize];
            txn.put(tree, &key, &value).unwrap();
            entries.insert(key, value);
        }
    }
    txn.commit().unwrap()
}

#[test]
fn chains_restore_to_the_states_that_were_backed_up() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let mut db = Database::in_memory(options(seed)).unwrap();
        let mut state = Contents::new();
        change(&db, &mut rng, &mut state, 300);
        let mut chain: Vec<(Backup, Vec<u8>, Contents)> = Vec::new();
        for round in 0..24 {
            for _ in 0..[0, 1, 5, 60][rng.below(4) as usize] {
                change(&db, &mut rng, &mut state, 300);
            }
            let since =
                (!rng.chance(1, 8)).then(|| chain.last().map(|(backup, ..)| backup.header.id)).flatten();
            if since.is_none() {
                chain.clear();
            }
            let (backup, stream) = backup(&db, since);
            assert_eq!(backup.header.since, since);
            assert_eq!(backup.header.csn, db.durable_csn());
            assert_eq!(read_backup_header(stream.as_slice()).unwrap(), backup.header);
            chain.push((backup, stream, state.clone()));
            let streams: Vec<&[u8]> = chain.iter().map(|(_, stream, _)| stream.as_slice()).collect();
            let upto = 1 + rng.below(chain.len() as u64) as usize;
            let (copy, report) = restored(&streams[..upto]);
            let (backup, _, expected) = &chain[upto - 1];
            assert_eq!(report.backup, *backup);
            assert_eq!(report.report.severity(), None::<Severity>);
            assert_eq!(copy.durable_csn(), backup.header.csn);
            assert_eq!(contents(&copy, expected.keys().copied()), *expected, "round {round}");
            // Life goes on in the copy, now and then for good.
            let mut state_of_copy = expected.clone();
            change(&copy, &mut rng, &mut state_of_copy, 300);
            let refused = copy.backup(Some(backup.header.id), &mut Vec::new(), &mut |_, _| ()).unwrap_err();
            assert!(matches!(refused, Error::BackupChain(_)), "{refused}");
            if rng.chance(1, 8) {
                (db, state) = (copy, state_of_copy);
                chain.clear();
            }
        }
    }
}

/// A backup holds the state of its CSN, though a writer changes and frees pages while it is taken.
#[test]
fn a_backup_beside_writers_is_the_state_of_its_commit() {
    /// Waits a little at each write, so that the backup lasts.
    struct Slow(Vec<u8>);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            thread::yield_now();
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let db = Database::in_memory(options(3)).unwrap();
    let mut rng = Rng::from_seed(3);
    let mut state = Contents::new();
    for _ in 0..300 {
        change(&db, &mut rng, &mut state, 3000);
    }
    let states = Arc::new(Mutex::new(BTreeMap::from([(db.durable_csn(), state.clone())])));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = thread::spawn({
        let (db, states, stop) = (db.clone(), states.clone(), stop.clone());
        move || {
            while !stop.load(Ordering::Acquire) {
                let csn = change(&db, &mut rng, &mut state, 3000);
                states.lock().insert(csn, state.clone());
            }
        }
    });
    let mut chain: Vec<(Backup, Vec<u8>)> = Vec::new();
    for _ in 0..6 {
        let mut stream = Slow(Vec::new());
        let since = chain.last().map(|(backup, _)| backup.header.id);
        let backup = db.backup(since, &mut stream, &mut |_, _| ()).unwrap();
        while db.durable_csn() == backup.header.csn {
            thread::yield_now();
        }
        chain.push((backup, stream.0));
    }
    stop.store(true, Ordering::Release);
    writer.join().unwrap();
    assert_eq!(db.stats().held_pages, 0);
    let states = states.lock();
    let streams: Vec<&[u8]> = chain.iter().map(|(_, stream)| stream.as_slice()).collect();
    for (number, (backup, _)) in chain.iter().enumerate() {
        let expected = &states[&backup.header.csn];
        let (copy, _) = restored(&streams[..=number]);
        assert_eq!(contents(&copy, expected.keys().copied()), *expected);
    }
}

#[test]
fn an_incremental_backup_costs_what_has_changed() {
    let db = Database::in_memory(options(1)).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    for key in 0..20_000u32 {
        txn.put(tree, &key.to_be_bytes(), &[1; 400]).unwrap();
    }
    txn.commit().unwrap();
    let (full, stream) = backup(&db, None);
    assert!(full.pages > 2000);
    let (none, nothing) = backup(&db, Some(full.header.id));
    assert_eq!((none.pages, nothing.len()), (0, 80 + 32));
    // In one of a hundred leaves.
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    for key in (0..20_000u32).step_by(900) {
        txn.put(tree, &key.to_be_bytes(), &[2; 400]).unwrap();
    }
    txn.commit().unwrap();
    let (incremental, changes) = backup(&db, Some(none.header.id));
    assert!(incremental.bytes * 100 < full.bytes * 3, "{} of {}", incremental.bytes, full.bytes);
    let (copy, _) = restored(&[&stream, &nothing, &changes]);
    assert_eq!(contents(&copy, [tree].into_iter()), contents(&db, [tree].into_iter()));
}

fn small_chain() -> (Database, Vec<u8>, Vec<u8>) {
    let db = Database::in_memory(options(5)).unwrap();
    let mut rng = Rng::from_seed(5);
    let mut state = Contents::new();
    change(&db, &mut rng, &mut state, 10);
    let (full, first) = backup(&db, None);
    change(&db, &mut rng, &mut state, 10);
    let (_, second) = backup(&db, Some(full.header.id));
    (db, first, second)
}

#[test]
fn every_damaged_byte_and_every_cut_is_refused() {
    let (_db, full, incremental) = small_chain();
    for stream in [&full, &incremental] {
        let stride = std::env::var("GNOMON_FLIP_STRIDE").map_or(7, |stride| stride.parse().unwrap());
        for at in
            (0..stream.len()).filter(|at| at % stride == 0 || at % 4096 < 160 || at + 200 > stream.len())
        {
            let mut damaged = stream.clone();
            damaged[at] ^= 1 << (at % 8);
            let found = check_backup(damaged.as_slice(), &mut |_, _| ());
            assert!(
                matches!(
                    found,
                    Err(Error::BackupDamaged { .. } | Error::TooNew { .. } | Error::TooOld { .. })
                ),
                "byte {at}: {found:?}"
            );
            let found = check_backup(&stream[..at], &mut |_, _| ());
            assert!(matches!(found, Err(Error::BackupDamaged { .. })), "cut at {at}: {found:?}");
        }
        let longer = [stream.as_slice(), b"x"].concat();
        assert!(check_backup(longer.as_slice(), &mut |_, _| ()).is_err());
    }
    for at in (0..incremental.len()).step_by(997) {
        let mut damaged = incremental.clone();
        damaged[at] ^= 0x10;
        let error = error_of(&[&full, &damaged]);
        assert!(matches!(error, Error::BackupDamaged { backup: 1, .. } | Error::TooNew { .. }), "{error}");
        let error = error_of(&[&full[..at], &incremental]);
        assert!(matches!(error, Error::BackupDamaged { backup: 0, .. }), "{error}");
    }
}

#[test]
fn chains_out_of_order_are_refused() {
    let (db, full, incremental) = small_chain();
    let id = |stream: &[u8]| read_backup_header(stream).unwrap().id;
    let (_, third) = backup(&db, Some(id(&incremental)));
    let (other, other_full, _) = {
        let db = Database::in_memory(options(6)).unwrap();
        let mut state = Contents::new();
        change(&db, &mut Rng::from_seed(1), &mut state, 10);
        let (taken, stream) = backup(&db, None);
        (db, stream, taken)
    };
    let chains: [&[&[u8]]; 6] = [
        &[],
        &[&incremental],
        &[&full, &full],
        &[&incremental, &full],
        &[&other_full, &incremental],
        &[&full, &incremental, &incremental],
    ];
    for chain in chains {
        let error = error_of(chain);
        assert!(matches!(error, Error::BackupChain(_)), "{error}");
        println!("{error}");
    }
    // The state of `incremental` may be that of `third`: nothing was changed.
    restored(&[&full, &incremental, &third]);
    let foreign =
        [id(&other_full), BackupId { batch: u64::MAX, ..id(&full) }, BackupId { batch: 0, ..id(&full) }];
    for since in foreign {
        let error = db.backup(Some(since), &mut Vec::new(), &mut |_, _| ()).unwrap_err();
        assert!(matches!(error, Error::BackupChain(_)), "{error}");
        println!("{error}");
    }
    drop(other);
}

/// A backup between two of a chain that is left out is found missing, even if the numbers in the headers are made to
/// fit: later maps count on pages that no backup has.
#[test]
fn what_no_backup_has_is_not_made_up() {
    let (db, full, incremental) = small_chain();
    let mut rng = Rng::from_seed(6);
    let mut state = Contents::new();
    change(&db, &mut rng, &mut state, 10);
    let (_, third) = backup(&db, Some(read_backup_header(incremental.as_slice()).unwrap().id));
    let header_of = |stream: &[u8]| -> BackupHeader { read_backup_header(stream).unwrap() };
    let forged = BackupHeader { since: Some(header_of(&full).id), ..header_of(&third) };
    let mut stream = third;
    stream[32..40].copy_from_slice(&forged.since.unwrap().batch.to_le_bytes());
    stream[12..16].fill(0);
    let sum = crc32c::crc32c(&stream[..72]);
    stream[12..16].copy_from_slice(&sum.to_le_bytes());
    let error = error_of(&[&full, &stream]);
    assert!(matches!(error, Error::BackupDamaged { .. }), "{error}");
}

#[test]
fn names_of_backups_are_read_as_they_are_written() {
    let id = BackupId { database: 0xc0ffee, batch: 123 };
    assert_eq!(id.to_string(), "0000000000c0ffee-123");
    assert_eq!(id.to_string().parse::<BackupId>().unwrap(), id);
    for wrong in
        ["", "-", "c0ffee-123", "0000000000c0ffee-", "0000000000c0ffee-+1", "+000000000c0ffee-1x", "é-1"]
    {
        assert!(wrong.parse::<BackupId>().is_err(), "{wrong}");
    }
}

#[test]
fn a_failing_stream_fails_the_backup_only() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (db, full, _) = small_chain();
    for limit in [0, 10, 72, 2000, full.len() - 1] {
        let error = db.backup(None, &mut Full(limit), &mut |_, _| ()).unwrap_err();
        assert!(matches!(error, Error::BackupStream(_)), "{error}");
    }
    assert_eq!(db.stats().held_pages, 0);
    db.begin(TxnOptions::default()).unwrap().create_tree().unwrap();
}

#[test]
fn a_damaged_page_is_named_and_not_backed_up() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), options(1)).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"large", &vec![7; 100_000]).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    drop(db);
    let len = disk.open(FILE, false).unwrap().len().unwrap();
    let mut refused = 0;
    for page in 4..len / 4096 {
        let image = disk.crash_image_synced();
        image.flip_bit(FILE, page * 4096 + 2000, 3);
        let Ok(db) = Database::open_on(Arc::new(image), options(1)) else { continue };
        match db.backup(None, &mut Vec::new(), &mut |_, _| ()) {
            Ok(_) => {}
            Err(Error::Corrupt { page: named, .. }) => {
                // A large value's page takes several physical ones, and is named by its first.
                assert!(named <= page && page - named < 32, "{named} is not {page}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 100_000 / 4096, "{refused}");
}

#[test]
fn only_an_empty_disk_takes_a_database() {
    let (_db, full, _) = small_chain();
    let disk = MemDisk::new();
    disk.open("notes", true).unwrap();
    let error = restore([full.as_slice()], &disk, None, &mut |_, _, _| ()).unwrap_err();
    assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
    disk.remove("notes").unwrap();
    for name in LEFTOVERS {
        disk.open(name, true).unwrap().write_at(0, b"cut short").unwrap();
    }
    restore([full.as_slice()], &disk, None, &mut |_, _, _| ()).unwrap();
    assert_eq!(disk.list().unwrap(), [FILE]);
    let error = restore([full.as_slice()], &disk, None, &mut |_, _, _| ()).unwrap_err();
    assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
}

/// Cut short anywhere, a restore leaves an empty disk, or one that is refused until it was restored to again, or the
/// whole database.
#[test]
fn a_crash_while_restoring_leaves_nothing_that_is_served_but_the_whole_database() {
    let (db, full, incremental) = small_chain();
    let trees: Vec<TreeId> = (1..10)
        .map(TreeId)
        .filter(|tree| {
            db.begin(TxnOptions::default()).unwrap().scan(*tree, KeyRange::all(), Direction::Forward).is_ok()
        })
        .collect();
    let expected = contents(&db, trees.iter().copied());
    let run =
        |disk: &SimDisk| restore([full.as_slice(), incremental.as_slice()], disk, Some(1), &mut |_, _, _| ());
    let whole = SimDisk::new(1);
    run(&whole).unwrap();
    let (mut made, mut refused) = (0, 0);
    for event in 0..=whole.events() {
        let disk = SimDisk::new(1);
        disk.crash_at(event);
        let done = run(&disk).is_ok();
        for image in disk.crash_images(4) {
            if image.list().unwrap().is_empty() {
                assert!(!done, "event {event}");
                continue;
            }
            let opened = Database::open_on(Arc::new(image.clone()), Options { create: true, ..options(1) });
            match opened {
                Ok(copy) => {
                    assert_eq!(contents(&copy, trees.iter().copied()), expected);
                    made += 1;
                }
                Err(Error::NotADatabase { detail, .. }) => {
                    assert!(!done && detail.contains("an interrupted restore"), "event {event}: {detail}");
                    let verified = verify(Arc::new(image.clone()), &mut |_, _| ()).unwrap_err();
                    assert!(verified.to_string().contains("an interrupted restore"), "{verified}");
                    run(&image).unwrap();
                    refused += 1;
                }
                Err(error) => panic!("event {event}: {error}"),
            }
        }
    }
    assert!(made > 0 && refused > 0);
}

/// Beyond one bitmap and one level of the page table: with holes in the logical numbers.
#[test]
fn many_pages_are_laid_out_anew() {
    let db = Database::in_memory(Options { pool_bytes: 32 << 20, ..options(2) }).unwrap();
    db.parts().background.stop();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let [dropped, kept] = [(); 2].map(|()| txn.create_tree().unwrap());
    txn.commit().unwrap();
    // A page each.
    let fill = |tree: TreeId, keys: std::ops::Range<u32>| {
        for some in keys.clone().step_by(2000) {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            for key in some..(some + 2000).min(keys.end) {
                txn.put(tree, &key.to_be_bytes(), &vec![key as u8; 3800]).unwrap();
            }
            txn.commit().unwrap();
        }
    };
    fill(dropped, 0..8_000);
    fill(kept, 0..28_000);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.drop_tree(dropped).unwrap();
    txn.commit().unwrap();
    while crate::database::reclaim_some(&db.0.inner).unwrap() {}
    let (full, stream) = backup(&db, None);
    assert!(full.header.logical_pages > 32_512 && full.pages < full.header.logical_pages, "{full:?}");
    let (copy, report) = restored(&[&stream]);
    assert!(report.report.free_pages == 0 && report.report.stats.table_depth == 2);
    let mut txn = copy.begin(TxnOptions::default()).unwrap();
    for key in (0..28_000u32).step_by(7) {
        let value = txn.get(kept, &key.to_be_bytes()).unwrap().unwrap();
        assert!(value.len() == 3800 && value[77] == key as u8);
    }
    txn.put(kept, b"more", &vec![1; 1 << 20]).unwrap();
    txn.commit().unwrap();
}

/// Random damage of a backup: reading it fails with a reason and restores nothing, or finds what was backed up.
#[test]
fn fuzz_damaged_streams() {
    use proptest::{collection::vec, prelude::*};

    let db = Database::in_memory(options(3)).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    for key in 0..200_u8 {
        txn.put(tree, &[key], &[key; 50]).unwrap();
    }
    txn.commit().unwrap();
    let (whole, stream) = backup(&db, None);
    // The place is a share of the length; without a byte the rest is cut off.
    let edit = (any::<u32>(), proptest::option::weighted(0.9, any::<u8>()));
    gnomon_testing::fuzz(&(vec(edit, 1..6), vec(any::<u8>(), 0..64)), |(edits, any)| {
        assert!(check_backup(any.as_slice(), &mut |_, _| ()).is_err());
        let mut damaged = stream.clone();
        for (at, byte) in edits {
            let at = ((u64::from(at) * damaged.len() as u64) >> 32) as usize;
            match byte {
                Some(byte) if at < damaged.len() => damaged[at] = byte,
                _ => damaged.truncate(at),
            }
        }
        let disk = MemDisk::new();
        let restored = restore([damaged.as_slice()], &disk, Some(99), &mut |_, _, _| ());
        match check_backup(damaged.as_slice(), &mut |_, _| ()) {
            Ok(found) => assert_eq!((found, restored.is_ok()), (whole, true)),
            Err(_) => {
                assert!(restored.is_err());
                assert_eq!(disk.list().unwrap(), [""; 0]);
            }
        }
    });
}

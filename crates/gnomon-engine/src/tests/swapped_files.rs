//! The table of files that do not go together: for every recovery method, each file of a database is put in place of an
//! older or a newer one, deleted, cut, or taken from another database. Opening and verifying give the right data or
//! refuse; the test prints the table (`cargo test -p gnomon-engine --lib swapped_files -- --nocapture`), the files of a log in
//! one row.

use crate::*;
use crate::{
    Error, KeyRange, LogShape, Options, Reaction, TreeId,
    disk::{Disk, DiskSet, MemDisk},
    sync::Arc,
};
use std::collections::{BTreeMap, BTreeSet};

type Files = BTreeMap<String, Vec<u8>>;
/// The files of each disk.
type Disks = Vec<Files>;
type Rows = BTreeSet<Vec<u8>>;

/// The states in which files are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The database was closed.
    Stop,
    /// The process ended without.
    Crash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mutation {
    Older,
    Newer,
    Deleted,
    Half,
    Empty,
    Foreign,
}

impl Mutation {
    const ALL: [Mutation; 6] = [
        Mutation::Older,
        Mutation::Newer,
        Mutation::Deleted,
        Mutation::Half,
        Mutation::Empty,
        Mutation::Foreign,
    ];
}

/// The outcome of opening, verifying, and opening once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The right data.
    Right,
    /// An error that names what is wrong.
    Refused,
    /// The only file of the database is another database, or an earlier state of this one: as if all was exchanged.
    WholeDatabase,
    /// Neither file tells it from a crash: the state of an earlier moment. See `docs/formats.md`.
    AsAfterCrash,
}

fn copy_of(disks: &[MemDisk]) -> Disks {
    let read = |disk: &MemDisk, name: String| {
        let file = disk.open(&name, false).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disks.iter().map(|disk| disk.list().unwrap().into_iter().map(|name| read(disk, name)).collect()).collect()
}

fn made_of(copy: &Disks) -> Vec<MemDisk> {
    let make = |files: &Files| {
        let disk = MemDisk::new();
        for (name, bytes) in files {
            disk.open(name, true).unwrap().write_at(0, bytes).unwrap();
        }
        disk
    };
    copy.iter().map(make).collect()
}

fn set(disks: &[MemDisk]) -> DiskSet {
    let disks: Vec<Arc<dyn Disk>> = disks.iter().map(|disk| Arc::new(disk.clone()) as _).collect();
    let mirrored = disks.len() > 1;
    DiskSet::of(disks, mirrored)
}

fn options(recovery: Recovery, seed: u64) -> Options {
    Options {
        recovery: Some(recovery),
        logs: LogShape { segment_bytes: 16 << 10, redo_files: 2, ..LogShape::default() },
        log_bytes_max: 1 << 20,
        cleaner: false,
        seed: Some(seed),
        create: true,
        ..Options::default()
    }
}

fn open(disks: &[MemDisk], recovery: Recovery, seed: u64) -> Result<Database, Error> {
    Database::open_on(set(disks), options(recovery, seed))
}

const TREE: TreeId = TreeId(1);

/// Adds rows, each in a commit, and some of them large enough that a log gets several files.
fn add(db: &Database, rows: std::ops::Range<u32>) {
    for row in rows {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let value = vec![row as u8; if row % 8 == 0 { 3000 } else { 100 }];
        txn.put(TREE, &row.to_be_bytes(), &value).unwrap();
        txn.commit().unwrap();
    }
}

fn rows(db: &Database) -> Result<Rows, Error> {
    let mut txn = db.begin(TxnOptions::default())?;
    let mut cursor = match txn.scan(TREE, KeyRange::all(), Direction::Forward) {
        // Nothing was ever made in it.
        Err(Error::NoSuchTree(_)) => return Ok(Rows::new()),
        cursor => cursor?,
    };
    let mut found = Rows::new();
    while let Some((key, _)) = cursor.next(&mut txn)? {
        found.insert(key);
    }
    Ok(found)
}

fn numbers(rows: std::ops::Range<u32>) -> Rows {
    rows.map(|row| row.to_be_bytes().to_vec()).collect()
}

/// Opens a database or makes it, adds rows, and ends as it is told. Gives the files then.
fn run(disks: &[MemDisk], recovery: Recovery, seed: u64, rows: std::ops::Range<u32>, end: End) -> Disks {
    let db = open(disks, recovery, seed).unwrap();
    if rows.start == 0 {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.create_tree().unwrap(), TREE);
        txn.commit().unwrap();
    }
    add(&db, rows);
    match end {
        End::Stop => {
            db.close().unwrap();
            drop(db);
            copy_of(disks)
        }
        End::Crash => {
            let files = copy_of(disks);
            // It would go on writing.
            drop(db);
            files
        }
    }
}

/// The files of a database at two moments, and of another one.
struct World {
    older: Disks,
    newer: Disks,
    foreign: Disks,
}

const OLDER_ROWS: u32 = 60;
const NEWER_ROWS: u32 = 90;

impl World {
    fn new(recovery: Recovery, disks: usize, end: End) -> World {
        let make = |seed: u64, rows: u32| {
            let disks: Vec<MemDisk> = (0..disks).map(|_| MemDisk::new()).collect();
            let files = run(&disks, recovery, seed, 0..rows, end);
            (files.clone(), made_of(&files))
        };
        let (older, disks) = make(1, OLDER_ROWS);
        let newer = run(&disks, recovery, 1, OLDER_ROWS..NEWER_ROWS, end);
        World { older, newer, foreign: make(2, NEWER_ROWS + 9).0 }
    }

    /// The files with one of them changed, and the rows that are right then; none if there is nothing to change.
    fn mutated(&self, disk: usize, name: &str, mutation: Mutation) -> Option<(Disks, Rows)> {
        let (base, rows) = match mutation {
            Mutation::Newer => (&self.older, OLDER_ROWS),
            _ => (&self.newer, NEWER_ROWS),
        };
        let mut files = base.clone();
        let before = files[disk].get(name)?.clone();
        let bytes = match mutation {
            Mutation::Older => Some(self.older[disk].get(name)?.clone()),
            Mutation::Newer => Some(self.newer[disk].get(name)?.clone()),
            Mutation::Foreign => Some(self.foreign[disk].get(name)?.clone()),
            Mutation::Deleted => None,
            Mutation::Half => Some(before[..before.len() / 2].to_vec()),
            Mutation::Empty => Some(Vec::new()),
        };
        if bytes.as_ref() == Some(&before) {
            return None;
        }
        match bytes {
            Some(bytes) => files[disk].insert(name.to_owned(), bytes),
            None => files[disk].remove(name),
        };
        Some((files, numbers(0..rows)))
    }

    fn names(&self) -> BTreeSet<(usize, String)> {
        let all = self.older.iter().enumerate().chain(self.newer.iter().enumerate());
        all.flat_map(|(disk, files)| files.keys().map(move |name| (disk, name.clone()))).collect()
    }
}

/// True if an error tells that files are to be put back or restored.
fn is_refusal(error: &Error) -> bool {
    let is_other = matches!(error, Error::NotADatabase { .. } | Error::DiskMissing { .. });
    assert!(is_other || error.reaction() == Reaction::Restore, "{error}");
    true
}

/// Opens the files, and says what came of it.
fn outcome(files: &Disks, recovery: Recovery, right: &Rows) -> (Outcome, String) {
    let disks = made_of(files);
    // As a program does that is not to make a database.
    let opened = Database::open_on(set(&disks), Options { create: false, ..options(recovery, 1) });
    let found = opened.and_then(|db| rows(&db));
    let is_whole_database = files.iter().map(Files::len).sum::<usize>() == 1;
    match found {
        Ok(found) if found == *right => (Outcome::Right, String::new()),
        Err(error) if is_refusal(&error) => (Outcome::Refused, error.to_string()),
        Ok(_) if is_whole_database => (Outcome::WholeDatabase, String::new()),
        Ok(found) => {
            let last = found.len() as u32;
            assert_eq!(found, numbers(0..last), "{last} rows");
            (Outcome::AsAfterCrash, format!("{last} rows"))
        }
        Err(error) => panic!("{error}"),
    }
}

/// Verifies the files: false if something is found or there is nothing to verify.
fn verified(files: &Disks) -> bool {
    match verify(set(&made_of(files)), &mut |_, _| ()) {
        Ok(report) => report.is_sound(),
        Err(error) => !is_refusal(&error),
    }
}

/// The kind of a file, in place of its name.
fn kind_of(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((log, slot)) if slot.bytes().all(|byte| byte.is_ascii_digit()) => format!("{log}.N"),
        _ => name.to_owned(),
    }
}

/// How many files had an outcome, by the disk and kind of the file, and the mutation.
type Table = BTreeMap<(usize, String, Mutation), BTreeMap<Outcome, usize>>;

fn table(recovery: Recovery, disks: usize, end: End) -> Table {
    let world = World::new(recovery, disks, end);
    // As they are they go together.
    for (files, rows) in [(&world.older, OLDER_ROWS), (&world.newer, NEWER_ROWS)] {
        assert_eq!(outcome(files, recovery, &numbers(0..rows)).0, Outcome::Right);
        assert!(verified(files));
    }
    let mut table = Table::new();
    for (disk, name) in world.names() {
        for mutation in Mutation::ALL {
            let Some((files, right)) = world.mutated(disk, &name, mutation) else { continue };
            let (outcome, detail) = outcome(&files, recovery, &right);
            let is_verified = verified(&files);
            let text = format!(
                "{:18} {disks} {:5} {disk}:{name:14} {:8} {:13} {:9} {detail}",
                recovery.name(),
                format!("{end:?}"),
                format!("{mutation:?}"),
                format!("{outcome:?}"),
                if is_verified { "sound" } else { "not sound" }
            );
            // A database that is refused is not sound, whatever else it has.
            assert!(outcome != Outcome::Refused || !is_verified, "{text}");
            assert_ne!(outcome, Outcome::AsAfterCrash, "{text}");
            if std::env::var_os("GNOMON_EVERY_FILE").is_some() {
                println!("{text}");
            }
            *table.entry((disk, kind_of(&name), mutation)).or_default().entry(outcome).or_default() += 1;
        }
    }
    table
}

#[test]
fn every_file_swapped_cut_or_gone_is_right_data_or_a_refusal() {
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for end in [End::Stop, End::Crash] {
        for recovery in Recovery::ALL {
            for disks in if recovery == Recovery::Shadow { 1..=2 } else { 1..=1 } {
                for ((disk, kind, mutation), outcomes) in table(recovery, disks, end) {
                    let kind = format!("{disk}:{kind}");
                    println!("{:18} {disks} {end:?} {kind:14} {mutation:?}: {outcomes:?}", recovery.name());
                    for (outcome, files) in outcomes {
                        *counts.entry(outcome).or_default() += files;
                    }
                }
            }
        }
    }
    println!("{counts:?}");
    assert!(counts[&Outcome::Right] > 100 && counts[&Outcome::Refused] > 300, "{counts:?}");
}

/// Two changes at once: an older data file, and no file that says where the log begins. The log's files know better.
#[test]
fn older_pages_without_the_begin_of_the_log_are_refused() {
    for recovery in Recovery::ALL.into_iter().filter(|recovery| recovery.records().is_some()) {
        let world = World::new(recovery, 1, End::Stop);
        let mut files = world.newer.clone();
        files[0].insert("pages".into(), world.older[0]["pages"].clone());
        for control in [None, Some(vec![0; 8192])] {
            match control {
                Some(bytes) => files[0].insert("commits".into(), bytes),
                None => files[0].remove("commits"),
            };
            for rows in [OLDER_ROWS, NEWER_ROWS] {
                assert_eq!(outcome(&files, recovery, &numbers(0..rows)).0, Outcome::Refused);
            }
        }
    }
}

/// A byte of any sector that is damaged is right data or an error, and never other data; the last blocks of a log are
/// as if a crash had come before them.
#[test]
fn a_damaged_sector_is_right_data_or_an_error() {
    const SECTOR: usize = 512;
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for end in [End::Stop, End::Crash] {
        for recovery in Recovery::ALL {
            let world = World::new(recovery, 1, end);
            let right = numbers(0..NEWER_ROWS);
            for (name, bytes) in &world.newer[0] {
                let used: Vec<usize> = (0..bytes.len() / SECTOR)
                    .filter(|sector| bytes[sector * SECTOR..][..SECTOR].iter().any(|byte| *byte != 0))
                    .collect();
                for sector in used.iter().step_by((used.len() / 24).max(1)) {
                    let mut files = world.newer.clone();
                    files[0].get_mut(name).unwrap()[sector * SECTOR + 60] ^= 0x10;
                    let (outcome, detail) = outcome(&files, recovery, &right);
                    if outcome == Outcome::AsAfterCrash {
                        println!("{} {end:?} {name} sector {sector}: {detail}", recovery.name());
                        let is_log = name.contains('.');
                        assert!(
                            is_log && end == End::Crash,
                            "{} {end:?} {name} {sector}: {detail}",
                            recovery.name()
                        );
                    }
                    *counts.entry(outcome).or_default() += 1;
                }
            }
        }
    }
    println!("{counts:?}");
}

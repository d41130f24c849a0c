//! Memory stays bounded: a database ten times the buffer pool is loaded, scanned both ways and updated at random by
//! several threads, and the process never has more resident memory than the pool and 64 MiB.
//!
//! A test binary of its own, with one test: what is measured is the whole process. Only Linux tells
//! (`/proc/self/status`).

#![cfg(target_os = "linux")]

use std::ops::Bound;

use gnomon_engine::{
    Database, Direction, Error, Isolation, KeyRange, Options, Result, RowLock, TreeId, TxnOptions, env::Rng,
    sync::thread,
};

const POOL_BYTES: usize = 16 << 20;
const DATABASE_BYTES: u64 = 10 * POOL_BYTES as u64;
/// What everything beside the pool may take: program, stacks, versions, locks, buffers, the allocator's holes.
const OTHER_BYTES_MAX: u64 = 64 << 20;
const VALUE_BYTES: u64 = 400;
const ROWS: u64 = DATABASE_BYTES / VALUE_BYTES;
const ROWS_PER_LOAD: u64 = 2000;
const THREADS: u64 = 4;
const UPDATES_PER_THREAD: u64 = 800;

fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn value(row: u64, version: u64) -> Vec<u8> {
    let mut value = vec![row as u8; VALUE_BYTES as usize];
    value[..8].copy_from_slice(&row.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

/// Resident memory of this process in bytes: at most so far (`VmHWM`).
fn resident_bytes_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kilobytes << 10
}

fn report(phase: &str, before: u64) {
    let peak = resident_bytes_peak();
    println!(
        "after {phase}: at most {} MiB resident, {} MiB more than at first",
        peak >> 20,
        (peak - before) >> 20
    );
}

/// Loads rows in an order that leaves no leaf full of neighbours: every leaf is visited again and again.
fn load(db: &Database) -> Result<TreeId> {
    let mut txn = db.begin(TxnOptions::default())?;
    let tree = txn.create_tree()?;
    txn.commit()?;
    for chunk in 0..ROWS.div_ceil(ROWS_PER_LOAD) {
        let mut txn = db.begin(TxnOptions::default())?;
        for row in chunk * ROWS_PER_LOAD..((chunk + 1) * ROWS_PER_LOAD).min(ROWS) {
            txn.insert(tree, &key(row), &value(row, 0))?;
        }
        txn.commit()?;
    }
    Ok(tree)
}

fn scan(db: &Database, tree: TreeId, range: KeyRange, direction: Direction) -> Result<u64> {
    let mut txn = db.begin(TxnOptions::default())?;
    let mut cursor = txn.scan(tree, range, direction)?;
    let mut rows = 0;
    while let Some((key, value)) = cursor.next(&mut txn)? {
        assert_eq!(key[..], u64::from_le_bytes(value[..8].try_into().unwrap()).to_be_bytes());
        rows += 1;
    }
    Ok(rows)
}

/// Updates random rows; sometimes scans a part, sometimes waits for its commit.
fn update(db: &Database, tree: TreeId, seed: u64) -> Result<()> {
    let mut rng = Rng::from_seed(seed);
    let mut done = 0;
    while done < UPDATES_PER_THREAD {
        let isolation = if rng.chance(1, 2) { Isolation::ReadCommitted } else { Isolation::Serializable };
        let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() })?;
        let mut run = || {
            for _ in 0..8 {
                let row = rng.below(ROWS);
                let old = txn.get_locked(tree, &key(row), RowLock::Exclusive)?.expect("every row is there");
                let version = u64::from_le_bytes(old[8..16].try_into().unwrap());
                txn.put(tree, &key(row), &value(row, version + 1))?;
            }
            Ok(())
        };
        match run() {
            Ok(()) => {}
            Err(Error::Deadlock) => continue,
            Err(error) => return Err(error),
        }
        if rng.chance(1, 4) {
            txn.commit()?;
        } else {
            txn.commit_ticket()?;
        }
        done += 1;
        if rng.chance(1, 100) {
            let start = rng.below(ROWS);
            let range = KeyRange {
                start: Bound::Included(key(start).to_vec()),
                end: Bound::Excluded(key(start + 5000).to_vec()),
            };
            scan(db, tree, range, Direction::Backward)?;
        }
    }
    Ok(())
}

#[test]
fn resident_memory_is_the_pool_and_little_more() {
    let before = resident_bytes_peak();
    let folder = tempfile::tempdir().unwrap();
    let options = Options { pool_bytes: POOL_BYTES, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let tree = load(&db).unwrap();
    report("loading", before);
    assert!(db.stats().used_pages * 4096 >= DATABASE_BYTES, "{:?}", db.stats());
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(scan(&db, tree, KeyRange::all(), direction).unwrap(), ROWS);
    }
    report("scanning", before);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                scope.spawn({
                    let db = &db;
                    move || update(db, tree, seed)
                })
            })
            .collect();
        // A long reader keeps versions, but of what is updated meanwhile only.
        assert_eq!(scan(&db, tree, KeyRange::all(), Direction::Forward).unwrap(), ROWS);
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    report("updating", before);
    println!("{:?}", db.stats());
    assert!(db.stats().pool_bytes <= db.stats().pool_bytes_max);
    db.close().unwrap();
    let peak = resident_bytes_peak();
    assert!(peak < POOL_BYTES as u64 + OTHER_BYTES_MAX, "{} MiB were resident", peak >> 20);
}

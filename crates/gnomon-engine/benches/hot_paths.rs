//! The engine's hottest paths: `cargo bench -p gnomon-engine`. The database is in memory, so no disk is measured.

use std::{hint::black_box, ops::Bound};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gnomon_engine::{Csn, Database, Direction, Isolation, KeyRange, Options, TreeId, TxnOptions, op::number};

const ENTRIES: u32 = 100_000;
const MANY_ENTRIES: u32 = 1_000_000;
const ENTRIES_A_COMMIT: u32 = 10_000;
const SCANNED: u64 = 100;
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// A database with a tree of so many entries of 4 and 8 bytes.
fn filled(entries: u32) -> (Database, TreeId) {
    let db = Database::in_memory(Options::default()).expect("memory is there");
    let mut txn = db.begin(TxnOptions::default()).expect("it is open");
    let tree = txn.create_tree().expect("there is space");
    for key in 0..entries {
        txn.put(tree, &key.to_be_bytes(), &[0; 8]).expect("there is space");
        if key % ENTRIES_A_COMMIT == ENTRIES_A_COMMIT - 1 {
            txn.commit().expect("nothing conflicts");
            txn = db.begin(TxnOptions::default()).expect("it is open");
        }
    }
    txn.commit().expect("nothing conflicts");
    (db, tree)
}

/// Keys that follow each other at random, the same ones in each run.
fn keys(entries: u32) -> impl Iterator<Item = [u8; 4]> {
    (0u32..).map(move |step| (step.wrapping_mul(2_654_435_761) % entries).to_be_bytes())
}

/// The options of a transaction that only reads.
fn reading(isolation: Isolation) -> TxnOptions {
    TxnOptions { isolation, read_only: true, ..TxnOptions::default() }
}

/// The range of every key from this one on.
fn from(key: [u8; 4]) -> KeyRange {
    KeyRange { start: Bound::Included(key.to_vec()), end: Bound::Unbounded }
}

fn reads(criterion: &mut Criterion) {
    let (db, tree) = filled(ENTRIES);
    let mut keys = keys(ENTRIES);
    let mut txn = db.begin(TxnOptions::default()).expect("it is open");
    criterion.bench_function("read a key", |bencher| {
        bencher.iter(|| black_box(txn.get(tree, &keys.next().expect("endless"))).expect("it is there"));
    });
    drop(txn);
    let mut group = criterion.benchmark_group("read a key in its own transaction");
    for isolation in ISOLATIONS {
        group.bench_function(format!("{isolation:?}"), |bencher| {
            bencher.iter(|| {
                let mut txn = db.begin(reading(isolation)).expect("it is open");
                black_box(txn.get(tree, &keys.next().expect("endless"))).expect("it is there");
                txn.commit().expect("nothing conflicts")
            });
        });
    }
}

fn scans(criterion: &mut Criterion) {
    let (db, tree) = filled(MANY_ENTRIES);
    let mut keys = keys(MANY_ENTRIES);
    let mut group = criterion.benchmark_group("scan of 100 entries");
    group.throughput(Throughput::Elements(SCANNED));
    for isolation in ISOLATIONS {
        let mut txn = db.begin(reading(isolation)).expect("it is open");
        group.bench_function(format!("{isolation:?}"), |bencher| {
            bencher.iter(|| {
                let range = from(keys.next().expect("endless"));
                let mut cursor = txn.scan(tree, range, Direction::Forward).expect("it is there");
                for _ in 0..SCANNED {
                    black_box(cursor.next_ref(&mut txn)).expect("it is there");
                }
            });
        });
    }
    let mut txn = db.begin(reading(Isolation::ReadCommitted)).expect("it is open");
    group.bench_function("copied", |bencher| {
        bencher.iter(|| {
            let range = from(keys.next().expect("endless"));
            let mut cursor = txn.scan(tree, range, Direction::Forward).expect("it is there");
            for _ in 0..SCANNED {
                black_box(cursor.next(&mut txn)).expect("it is there");
            }
        });
    });
    group.bench_function("in its own transaction, serializable", |bencher| {
        bencher.iter(|| {
            let mut txn = db.begin(reading(Isolation::Serializable)).expect("it is open");
            let range = from(keys.next().expect("endless"));
            let mut cursor = txn.scan(tree, range, Direction::Forward).expect("it is there");
            for _ in 0..SCANNED {
                black_box(cursor.next_ref(&mut txn)).expect("it is there");
            }
            txn.commit().expect("nothing conflicts")
        });
    });
    let snapshot = db.snapshot(Csn(0)).expect("it is open");
    group.bench_function("of a handle", |bencher| {
        bencher.iter(|| {
            let mut range = snapshot.range(tree, from(keys.next().expect("endless"))).expect("it is there");
            for _ in 0..SCANNED {
                black_box(range.next_ref()).expect("it is there");
            }
        });
    });
    group.finish();
    let mut group = criterion.benchmark_group("scan of 1 M entries");
    group.sample_size(10);
    group.throughput(Throughput::Elements(u64::from(MANY_ENTRIES)));
    for isolation in ISOLATIONS {
        let mut txn = db.begin(reading(isolation)).expect("it is open");
        group.bench_function(format!("{isolation:?}"), |bencher| {
            bencher.iter(|| {
                let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).expect("it is there");
                while let Some(entry) = cursor.next_ref(&mut txn).expect("it is there") {
                    black_box(entry);
                }
            });
        });
    }
    let mut txn = db.begin(reading(Isolation::ReadCommitted)).expect("it is open");
    group.bench_function("copied", |bencher| {
        bencher.iter(|| {
            let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).expect("it is there");
            while let Some(entry) = cursor.next(&mut txn).expect("it is there") {
                black_box(entry);
            }
        });
    });
    group.bench_function("of a handle", |bencher| {
        bencher.iter(|| {
            let mut range = snapshot.range(tree, KeyRange::all()).expect("it is there");
            while let Some(entry) = range.next_ref().expect("it is there") {
                black_box(entry);
            }
        });
    });
}

fn commits(criterion: &mut Criterion) {
    let (db, tree) = filled(ENTRIES);
    let mut keys = keys(ENTRIES);
    criterion.bench_function("commit a key", |bencher| {
        bencher.iter(|| {
            let mut txn = db.begin(TxnOptions::default()).expect("it is open");
            txn.put(tree, &keys.next().expect("endless"), &[1; 8]).expect("there is space");
            txn.commit().expect("nothing conflicts")
        });
    });
    criterion.bench_function("commit an increment of one key", |bencher| {
        bencher.iter(|| {
            let mut txn = db.begin(TxnOptions::default()).expect("it is open");
            txn.apply(tree, &[0; 4], &number::add(1)).expect("it is a number");
            txn.commit().expect("nothing conflicts")
        });
    });
}

criterion_group!(benches, reads, scans, commits);
criterion_main!(benches);

//! The engine's hottest paths: `cargo bench -p gnomon-engine`. The database is in memory, so no disk is measured.

use std::{hint::black_box, ops::Bound};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gnomon_engine::{Database, Direction, KeyRange, Options, TreeId, TxnOptions, op::number};

const ENTRIES: u32 = 100_000;
const SCANNED: u64 = 100;

/// A database with a tree of entries of 4 and 8 bytes.
fn filled() -> (Database, TreeId) {
    let db = Database::in_memory(Options::default()).expect("memory is there");
    let mut txn = db.begin(TxnOptions::default()).expect("it is open");
    let tree = txn.create_tree().expect("there is space");
    for key in 0..ENTRIES {
        txn.put(tree, &key.to_be_bytes(), &[0; 8]).expect("there is space");
    }
    txn.commit().expect("nothing conflicts");
    (db, tree)
}

/// Keys that follow each other at random, the same ones in each run.
fn keys() -> impl Iterator<Item = [u8; 4]> {
    (0u32..).map(|step| (step.wrapping_mul(2_654_435_761) % ENTRIES).to_be_bytes())
}

fn reads(criterion: &mut Criterion) {
    let (db, tree) = filled();
    let mut keys = keys();
    let mut txn = db.begin(TxnOptions::default()).expect("it is open");
    criterion.bench_function("read a key", |bencher| {
        bencher.iter(|| black_box(txn.get(tree, &keys.next().expect("endless"))).expect("it is there"));
    });
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Elements(SCANNED));
    group.bench_function("100 entries", |bencher| {
        bencher.iter(|| {
            let first = Bound::Included(keys.next().expect("endless").to_vec());
            let range = KeyRange { start: first, end: Bound::Unbounded };
            let mut cursor = txn.scan(tree, range, Direction::Forward).expect("it is there");
            for _ in 0..SCANNED {
                black_box(cursor.next(&mut txn)).expect("it is there");
            }
        });
    });
}

fn commits(criterion: &mut Criterion) {
    let (db, tree) = filled();
    let mut keys = keys();
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

criterion_group!(benches, reads, commits);
criterion_main!(benches);

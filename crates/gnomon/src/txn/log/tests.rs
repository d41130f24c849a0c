//! What the crash sweep does not tell: which parts of the log opening needs, and what it says of a log that is not
//! there.

use super::{super::*, FILE};
use crate::{
    Csn, Error, TreeId,
    disk::{Disk, MemDisk, SimDisk},
    op::number,
    sync::Arc,
};

const VALUE_LOG: Recovery = Recovery::CommitLog(Records::Values);

fn options() -> Options {
    Options {
        recovery: Some(VALUE_LOG),
        logs: crate::LogShape { segment_bytes: 64 << 10, ..crate::LogShape::default() },
        log_bytes_max: 1 << 20,
        cleaner: false,
        ..Options::default()
    }
}

fn open(disk: &MemDisk) -> Result<Database, Error> {
    Database::open_on(Arc::new(disk.clone()), options())
}

fn make(db: &Database) -> TreeId {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let tree = txn.create_tree().unwrap();
    txn.put(tree, b"sum", &0_i64.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    tree
}

/// Adds 1 to a key; returns the commit.
fn add(db: &Database, tree: TreeId) -> Csn {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.apply(tree, b"sum", &number::add_within(1, 0, i128::MAX)).unwrap();
    txn.commit().unwrap()
}

fn sum(db: &Database, tree: TreeId) -> i64 {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    i64::from_le_bytes(txn.get(tree, b"sum").unwrap().unwrap().try_into().unwrap())
}

/// Opens what a crash left of a database.
fn crashed(disk: &SimDisk, seed: u64) -> (SimDisk, Database) {
    let image = disk.crash_image(seed);
    let db = Database::open_on(Arc::new(image.clone()), options()).unwrap();
    (image, db)
}

#[test]
fn commits_are_replayed_once_behind_the_last_root() {
    let mut disk = SimDisk::new(1);
    let mut db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
    let tree = make(&db);
    let mut added = 0;
    for round in 0..12 {
        for _ in 0..round {
            add(&db, tree);
            added += 1;
        }
        if round % 3 == 1 {
            db.0.inner.log().unwrap().checkpoint().unwrap();
        }
        let before = db.stats();
        (disk, db) = crashed(&disk, round);
        assert_eq!(sum(&db, tree), added, "round {round}");
        assert_eq!(db.durable_csn(), before.durable_csn);
        assert!(db.stats().log_bytes >= before.log_bytes);
    }
    assert!(verify(&disk.crash_image(99), &mut |_, _| ()).unwrap().is_sound());
    db.close().unwrap();
    drop(db);
    let report = verify(&disk, &mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.stats.recovery, report.stats.log_bytes), (VALUE_LOG, 0));
}

#[test]
fn a_checkpoint_gives_up_the_log_and_the_log_is_bounded() {
    let disk = MemDisk::new();
    let db = open(&disk).unwrap();
    let tree = make(&db);
    for number in 0..3000_u32 {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(tree, &number.to_be_bytes(), &[7; 3000]).unwrap();
        txn.commit().unwrap();
    }
    // The background thread comes to it.
    while db.stats().log_bytes > options().log_bytes_max {
        std::thread::yield_now();
        db.wait_durable(db.durable_csn()).unwrap();
    }
    let log = db.0.inner.log().unwrap();
    log.checkpoint().unwrap();
    assert!(log.live_bytes() < 512);
    let segments = disk.list().unwrap().into_iter().filter(|name| name.starts_with(FILE)).count();
    assert!(segments < 60, "{segments} files of 64 KiB");
}

#[test]
fn what_is_larger_than_memory_is_in_a_root_before_anything_after_it_is_acknowledged() {
    let disk = SimDisk::new(1);
    let options = Options { escalate_bytes: 20_000, pool_bytes: 1 << 20, ..options() };
    let db = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    let tree = make(&db);
    add(&db, tree);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    for number in 0..2000_u32 {
        txn.put(tree, &number.to_be_bytes(), &[1; 100]).unwrap();
    }
    assert!(txn.has_pages());
    let large = txn.finish().unwrap();
    // Whatever is forced now, neither it nor what comes after it may be.
    let log = db.0.inner.log().unwrap();
    let mut after = db.begin(TxnOptions::default()).unwrap();
    after.apply(tree, b"sum", &number::add_within(1, 0, i128::MAX)).unwrap();
    let after = after.finish().unwrap();
    log.log.force(log.log.end()).unwrap();
    assert!(!large.is_durable().unwrap());
    assert_eq!(sum(&crashed(&disk, 4).1, tree), 1);
    after.wait().unwrap();
    assert!(large.is_durable().unwrap());
    let (_, db) = crashed(&disk, 5);
    assert_eq!(sum(&db, tree), 2);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.get(tree, &1999_u32.to_be_bytes()).unwrap(), Some(vec![1; 100]));
}

#[test]
fn a_log_that_is_not_there_is_an_error_unless_the_database_was_closed() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
    let tree = make(&db);
    let opened = |disk: &SimDisk| Database::open_on(Arc::new(disk.clone()), options());
    for _ in 0..2 {
        add(&db, tree);
        let image = disk.crash_image(1);
        image.remove(FILE).unwrap();
        assert!(matches!(opened(&image), Err(Error::Corrupt { .. })));
        let other = disk.crash_image(1);
        other.open(FILE, false).unwrap().write_at(0, &[0; 8192]).unwrap();
        assert!(matches!(opened(&other), Err(Error::Corrupt { .. })));
    }
    db.close().unwrap();
    drop(db);
    for name in disk.list().unwrap().into_iter().filter(|name| name.starts_with(FILE)) {
        disk.remove(&name).unwrap();
    }
    let looked_at = Database::open_store(
        Arc::new(disk.clone()).into(),
        options(),
        super::super::database::Access::Read,
        |_| (),
    );
    assert_eq!(sum(&looked_at.unwrap(), tree), 2);
    let db = opened(&disk).unwrap();
    add(&db, tree);
    let (_, db) = crashed(&disk, 2);
    assert_eq!(sum(&db, tree), 3);
}

#[test]
fn a_log_of_another_database_is_refused() {
    let disks = [SimDisk::new(1), SimDisk::new(2)];
    let open_with = |disk: &SimDisk, seed| {
        Database::open_on(Arc::new(disk.clone()), Options { seed: Some(seed), ..options() })
    };
    let dbs = [open_with(&disks[0], 1).unwrap(), open_with(&disks[1], 2).unwrap()];
    for db in &dbs {
        make(db);
    }
    let images = disks.map(|disk| disk.crash_image(0));
    let mut control = [0; 8192];
    let from = images[1].open(FILE, false).unwrap();
    let len = (from.len().unwrap() as usize).min(control.len());
    from.read_at(0, &mut control[..len]).unwrap();
    images[0].open(FILE, false).unwrap().write_at(0, &control[..len]).unwrap();
    let error = open_with(&images[0], 1).err().expect("it is another one's");
    assert!(error.to_string().contains("put the right one in its place"), "{error}");
}

#[test]
fn looking_at_a_database_replays_in_memory() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
    let tree = make(&db);
    add(&db, tree);
    let image = disk.crash_image(3);
    let events = image.events();
    let looked_at = Database::open_store(
        Arc::new(image.clone()).into(),
        options(),
        super::super::database::Access::Read,
        |_| (),
    )
    .unwrap();
    assert_eq!(sum(&looked_at, tree), 1);
    let mut txn = looked_at.begin(TxnOptions::default()).unwrap();
    assert!(matches!(txn.put(tree, b"x", b"y"), Err(Error::ReadOnly)));
    drop(txn);
    looked_at.close().unwrap();
    assert_eq!(image.events(), events);
}

#[test]
fn prepared_transactions_are_in_the_log() {
    let mut disk = SimDisk::new(1);
    let mut db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
    let tree = make(&db);
    for (round, commit) in [(0, true), (1, false), (2, true)] {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.apply(tree, b"sum", &number::add_within(10, 0, i128::MAX)).unwrap();
        txn.put(tree, b"big", &vec![round; 3 << 20]).unwrap();
        txn.prepare("gid", b"note").unwrap();
        add(&db, tree);
        (disk, db) = crashed(&disk, u64::from(round));
        assert_eq!(db.prepared().unwrap()[0].note, b"note");
        match commit {
            true => db.commit_prepared("gid").unwrap(),
            false => db.rollback_prepared("gid").unwrap(),
        };
        (disk, db) = crashed(&disk, 7);
        assert!(db.prepared().unwrap().is_empty());
        let expected = [11, 12, 23][usize::from(round)];
        assert_eq!(sum(&db, tree), expected);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let big = txn.get(tree, b"big").unwrap().map(|value| value[0]);
        assert_eq!(big, Some([0, 0, 2][usize::from(round)]));
    }
}

const COMMAND_LOG: Recovery = Recovery::CommitLog(Records::Calls);

/// Adds 1 to the key that is given, which need not be there, and answers what comes of it; refuses more than 9.
fn count(code: &str) -> Procedure {
    Procedure::new("count", code, |call, key| {
        let tree = TreeId(1);
        let old = call.get_for_update(tree, key)?.map_or(0, |value| value[0]);
        call.put(tree, key, &[old + 1])?;
        if old == 9 { Err(Error::procedure("that is enough")) } else { Ok(vec![old + 1]) }
    })
}

fn open_with(disk: &SimDisk, recovery: Recovery, procedures: Vec<Procedure>) -> Result<Database, Error> {
    let options = Options { recovery: Some(recovery), procedures, ..options() };
    Database::open_on(Arc::new(disk.clone()), options)
}

fn text(opened: Result<Database, Error>) -> String {
    opened.err().expect("it is refused").to_string()
}

#[test]
fn calls_are_logged_as_calls_and_run_again() {
    for recovery in Recovery::ALL {
        let disk = SimDisk::new(1);
        let db = open_with(&disk, recovery, vec![count("1")]).unwrap();
        let tree = make(&db);
        let before = db.stats().activity.log_bytes_written;
        let key = vec![b'k'; 300];
        for number in 1..=9 {
            assert_eq!(db.call("count", &key).unwrap(), [number]);
            add(&db, tree);
        }
        let error = db.call("count", &key).unwrap_err();
        assert_eq!(error.to_string(), "that is enough");
        assert!(matches!(db.call("recount", b""), Err(Error::NoSuchProcedure(_))));
        if recovery.records().is_some() {
            assert!(db.stats().activity.log_bytes_written - before < 20 * 1024);
        }
        let image = disk.crash_image(1);
        let db = open_with(&image, recovery, vec![count("1")]).unwrap();
        assert_eq!(sum(&db, tree), 9);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.get(tree, &key).unwrap(), Some(vec![9]), "{}", recovery.name());
    }
}

#[test]
fn calls_of_other_code_are_not_replayed() {
    let disk = SimDisk::new(1);
    let db = open_with(&disk, COMMAND_LOG, vec![count("1")]).unwrap();
    make(&db);
    db.call("count", b"k").unwrap();
    let image = disk.crash_image(1);
    assert!(text(open_with(&image, COMMAND_LOG, vec![count("2")])).contains("whose code has changed"));
    assert!(text(open_with(&image, COMMAND_LOG, vec![])).contains("does not have"));
    assert!(matches!(verify(&image, &mut |_, _| ()), Err(Error::ProcedureUnknown(_))));
    let options = Options { procedures: vec![count("1")], ..options() };
    assert!(verify_with(&image, options, &mut |_, _| ()).unwrap().is_sound());
    open_with(&image, COMMAND_LOG, vec![count("1")]).unwrap().close().unwrap();
    // From here on it is the new code that the log knows, also in a log that has nothing of it.
    let db = open_with(&image, COMMAND_LOG, vec![count("2")]).unwrap();
    let of_new = image.crash_image(2);
    assert_eq!(db.call("count", b"k").unwrap(), [2]);
    assert!(open_with(&of_new, COMMAND_LOG, vec![count("1")]).is_ok());
    let image = image.crash_image(3);
    assert!(text(open_with(&image, COMMAND_LOG, vec![count("1")])).contains("whose code has changed"));
    let other = Procedure::new("other", "", |_, _| Ok(Vec::new()));
    let db = open_with(&image, COMMAND_LOG, vec![other, count("2")]).unwrap();
    assert_eq!(db.call("count", b"k").unwrap(), [3]);
    assert_eq!(db.call("other", b"k").unwrap(), []);
}

#[test]
fn what_does_something_else_when_it_runs_again_is_refused() {
    let runs = Arc::new(crate::sync::atomic::AtomicU64::new(0));
    let disk = SimDisk::new(1);
    let random = || {
        let runs = runs.clone();
        Procedure::new("random", "1", move |call, _| {
            let run = runs.fetch_add(1, crate::sync::atomic::Ordering::SeqCst);
            call.put(TreeId(1), b"k", &run.to_le_bytes())?;
            Ok(Vec::new())
        })
    };
    let db = open_with(&disk, COMMAND_LOG, vec![random()]).unwrap();
    make(&db);
    db.call("random", b"").unwrap();
    let image = disk.crash_image(1);
    assert!(text(open_with(&image, COMMAND_LOG, vec![random()])).contains("it did something else"));
    runs.store(0, crate::sync::atomic::Ordering::SeqCst);
    assert!(open_with(&image, COMMAND_LOG, vec![random()]).is_ok());
}

#[test]
fn what_a_call_cannot_stand_for_is_logged_by_value() {
    let disk = SimDisk::new(1);
    let make_tree = Procedure::new("make", "1", |call, _| {
        let tree = call.create_tree(TreeOptions::default())?;
        call.put(tree, b"k", b"v")?;
        Ok(tree.0.to_le_bytes().to_vec())
    });
    let db = open_with(&disk, COMMAND_LOG, vec![make_tree]).unwrap();
    // Draws a number that replay would give to the procedure's tree.
    db.begin(TxnOptions::default()).unwrap().create_tree().unwrap();
    let tree = db.call("make", b"").unwrap();
    let tree = TreeId(u64::from_le_bytes(tree.try_into().unwrap()));
    let db = open_with(&disk.crash_image(1), COMMAND_LOG, vec![]).unwrap();
    assert_eq!(db.begin(TxnOptions::default()).unwrap().get(tree, b"k").unwrap().unwrap(), b"v");
}

#[test]
fn a_call_that_takes_long_is_logged_by_value_where_the_cheaper_record_is_wanted() {
    let spin = Procedure::new("spin", "1", |call, params| {
        let mut sum = 0_u64;
        for number in 0..u64::from_le_bytes(params.try_into().unwrap()) {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        call.put(TreeId(1), b"spun", &vec![sum as u8; 2000])?;
        Ok(Vec::new())
    });
    let bytes_of = |rounds: u64| {
        let disk = SimDisk::new(rounds);
        let db = open_with(&disk, Recovery::CommitLog(Records::Cheaper), vec![spin.clone()]).unwrap();
        make(&db);
        db.call("spin", &rounds.to_le_bytes()).unwrap();
        let before = db.0.inner.log().unwrap().log.end();
        db.call("spin", &rounds.to_le_bytes()).unwrap();
        db.0.inner.log().unwrap().log.end().0 - before.0
    };
    assert!(bytes_of(1) + 1000 < bytes_of(30_000_000));
}

#[test]
fn calls_that_deadlock_run_again() {
    let transfer = Procedure::new("transfer", "1", |call, params| {
        let tree = TreeId(1);
        for key in params {
            let old = call.get(tree, &[*key])?.map_or(0, |value| value[0]);
            call.put(tree, &[*key], &[old.wrapping_add(1)])?;
        }
        Ok(Vec::new())
    });
    let options = Options { procedures: vec![transfer], ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    make(&db);
    const CALLS: u32 = 200;
    let threads = [[1, 2], [2, 1], [1, 2]].map(|keys| {
        let db = db.clone();
        std::thread::Builder::new()
            .spawn(move || (0..CALLS).for_each(|_| db.call_then("transfer", &keys, |_| ()).unwrap()))
            .unwrap()
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.get(TreeId(1), &[1]).unwrap(), Some(vec![(3 * CALLS) as u8]));
}

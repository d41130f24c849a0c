//! What the crash sweep does not tell: which parts of the log opening needs, and what it says of a log that is not
//! there.

use std::any::Any;

use super::{CommitLog, FILE, Logged};
use crate::*;
use crate::{
    Csn, Error, TreeId,
    disk::{Disk, MemDisk, SimDisk},
    env::Rng,
    op::number,
    page::PageCounts,
    recovery::deferred::DeferredUpdates,
    sync::Arc,
    write_set::WriteSet,
};

/// The log of a database.
fn log_of(db: &Database) -> &Arc<CommitLog> {
    let method: &dyn Any = &*db.0.inner.method;
    let method = method.downcast_ref::<DeferredUpdates>().expect("it has a logical WAL");
    method.commit_log().expect("it was replayed")
}

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

/// A program that commits faster than the disk takes it waits, before memory is full of the log.
#[test]
fn little_of_the_log_is_in_memory_alone() {
    const VALUE_BYTES: usize = 1 << 20;
    let later = std::time::Duration::from_secs(1);
    let slow = Options { commits: Commits::Asynchronous, group_commit_interval: later, ..options() };
    let db = Database::open_on(Arc::new(MemDisk::new()), Options { log_bytes_max: 1 << 30, ..slow }).unwrap();
    let tree = make(&db);
    let unforced_bytes = || log_of(&db).log.unforced_bytes();
    let mut most = 0;
    for i in 0..60_u8 {
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(tree, &[i], &vec![i; VALUE_BYTES]).unwrap();
        txn.commit().unwrap();
        most = unforced_bytes().max(most);
    }
    assert!(most < super::UNFORCED_BYTES_MAX + 2 * VALUE_BYTES as u64, "{most}");
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
            log_of(&db).checkpoint().unwrap();
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
        // The background thread comes to it.
        while number % 100 == 0 && db.stats().log_bytes > options().log_bytes_max {
            std::thread::yield_now();
            db.wait_durable(db.durable_csn()).unwrap();
        }
    }
    let log = log_of(&db);
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
    assert!(txn.core().has_pages());
    let large = txn.order().unwrap();
    // Whatever is forced now, neither it nor what comes after it may be.
    let log = log_of(&db);
    let mut after = db.begin(TxnOptions::default()).unwrap();
    after.apply(tree, b"sum", &number::add_within(1, 0, i128::MAX)).unwrap();
    let after = after.order().unwrap();
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
fn a_commit_that_writes_nothing_has_its_place_in_the_order() {
    for threads in [1, 2] {
        let options = || Options { replay_threads: threads, ..options() };
        let disk = SimDisk::new(1);
        let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
        let tree = make(&db);
        add(&db, tree);
        let log = log_of(&db);
        log.checkpoint().unwrap();
        let nothing = log.prepare(&Logged::Writes(&WriteSet::default())).unwrap();
        let mut pages = log.store.begin(PageCounts::default()).unwrap();
        let csn = nothing.append(&mut pages);
        drop(pages);
        log.log.force(log.log.end()).unwrap();
        let disk = disk.crash_image_synced();
        let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
        assert_eq!(db.durable_csn(), csn);
        add(&db, tree);
        let db = Database::open_on(Arc::new(disk.crash_image_synced()), options()).unwrap();
        assert_eq!(sum(&db, tree), 2);
    }
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
        let lost: Arc<dyn Disk> = Arc::new(image);
        let found = verify_with(lost, options(), &mut |_, _| ()).unwrap().findings;
        assert!(found.iter().any(|finding| finding.severity == crate::Severity::Data), "{found:?}");
        let other = disk.crash_image(1);
        other.open(FILE, false).unwrap().write_at(0, &[0; 8192]).unwrap();
        assert!(matches!(opened(&other), Err(Error::Corrupt { .. })));
    }
    db.close().unwrap();
    drop(db);
    for name in disk.list().unwrap().into_iter().filter(|name| name.starts_with(FILE)) {
        disk.remove(&name).unwrap();
    }
    let looked_at =
        Database::open_store(Arc::new(disk.clone()).into(), options(), crate::recovery::Access::Read, |_| ());
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
        crate::recovery::Access::Read,
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
        let before = log_of(&db).log.end();
        db.call("spin", &rounds.to_le_bytes()).unwrap();
        log_of(&db).log.end().0 - before.0
    };
    assert!(bytes_of(1) + 1000 < bytes_of(30_000_000));
}

#[test]
fn a_call_that_made_a_tree_in_vain_is_logged_by_value() {
    let procedures = || {
        vec![Procedure::new("in vain", "1", |call, _| {
            let savepoint = call.savepoint();
            let made = call.create_tree(TreeOptions::default())?;
            call.put(made, b"k", b"v")?;
            call.rollback_to(savepoint)?;
            call.put(TreeId(1), b"sum", &7_i64.to_le_bytes())?;
            Ok(Vec::new())
        })]
    };
    let disk = SimDisk::new(1);
    let recovery = Recovery::CommitLog(Records::Calls);
    let db = open_with(&disk, recovery, procedures()).unwrap();
    let tree = make(&db);
    db.call("in vain", b"").unwrap();
    let db = open_with(&disk.crash_image_synced(), recovery, procedures()).unwrap();
    assert_eq!(sum(&db, tree), 7);
}

/// Trees of three partitions, one that all read, and one of no partition.
const SHARES: [TreeId; 3] = [TreeId(1), TreeId(2), TreeId(3)];
const EVERYBODYS: TreeId = TreeId(4);
const NOBODYS: TreeId = TreeId(5);

/// Puts under a key what has been read so far, in short, and reads on from there.
fn mix(call: &mut Call<'_>, tree: TreeId, key: u8, seen: u32) -> Result<u32, Error> {
    let before = call.get_for_update(tree, &[key])?.unwrap_or_default();
    let seen = crc32c::crc32c_append(seen, &before);
    match seen % 7 {
        0 => drop(call.delete(tree, &[key])?),
        _ => call.put(tree, &[key], &seen.to_le_bytes())?,
    }
    Ok(seen)
}

/// Calls that mix keys of theirs, and now and then something else: the first parameter says what.
fn mixers() -> Vec<Procedure> {
    let share = |partition: u8| SHARES[usize::from(partition) % 3];
    vec![
        Procedure::new("share", "1", move |call, params| {
            let common = call.get(EVERYBODYS, b"c")?.unwrap_or_default();
            let mut seen = crc32c::crc32c(&common);
            for &key in &params[3..] {
                seen = mix(call, share(params[1]), key, seen)?;
            }
            seen = mix(call, share(params[2]), params[3], seen)?;
            match params[0] {
                0 => drop(mix(call, share(params[1] + 1), params[3], seen)?),
                1 => {
                    let savepoint = call.savepoint();
                    let found = call.get(share(params[1] + 1), &params[3..4])?;
                    call.rollback_to(savepoint)?;
                    call.put(share(params[1]), b"found", &found.unwrap_or_default())?;
                }
                _ => {}
            }
            Ok(Vec::new())
        })
        .with_partitions(|params| Partitions::of([params[1], params[2]].map(|number| u32::from(number % 3)))),
        Procedure::new("keys", "1", move |call, params| {
            let mut seen = mix(call, NOBODYS, params[3], 0)?;
            seen = mix(call, share(params[1]), params[3], seen)?;
            match params[0] {
                0 => drop(mix(call, NOBODYS, params[3] + 1, seen)?),
                1 => {
                    let found = call.get(share(params[1]), &[params[3] + 1])?;
                    call.put(NOBODYS, &params[3..4], &found.unwrap_or_default())?;
                }
                _ => {}
            }
            Ok(Vec::new())
        })
        .with_accesses(move |params| {
            let key = &params[3..4];
            AccessSet::default().write(NOBODYS, key).write(share(params[1]), key)
        }),
        Procedure::new("sum", "1", move |call, params| {
            let mut cursor = call.scan(share(params[1]), KeyRange::all(), Direction::Forward)?;
            let mut seen = 0;
            while let Some((key, value)) = call.next(&mut cursor)? {
                seen = crc32c::crc32c_append(crc32c::crc32c_append(seen, &key), &value);
            }
            mix(call, NOBODYS, params[3], seen)?;
            Ok(Vec::new())
        })
        .with_accesses(move |params| {
            AccessSet::default().read_tree(share(params[1])).write(NOBODYS, &params[3..4])
        }),
        Procedure::new("anything", "1", move |call, params| {
            let seen = mix(call, share(params[1]), params[3], 0)?;
            mix(call, EVERYBODYS, b'c', seen)?;
            Ok(Vec::new())
        }),
    ]
}

#[test]
fn replay_on_several_threads_comes_to_the_same() {
    let options = |threads| Options {
        recovery: Some(Recovery::CommitLog(Records::Calls)),
        procedures: mixers(),
        replay_threads: threads,
        log_bytes_max: 64 << 20,
        ..options()
    };
    let mut rng = Rng::from_seed(20);
    let disk = SimDisk::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), options(1)).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let mut placements: Vec<Placement> = (0..3).map(Placement::Partition).collect();
    placements.extend([Placement::Replicated, Placement::Anywhere]);
    for placement in placements {
        txn.create_tree_with(TreeOptions { placement, ..TreeOptions::default() }).unwrap();
    }
    txn.commit().unwrap();
    let trees = [SHARES[0], SHARES[1], SHARES[2], EVERYBODYS, NOBODYS];
    for round in 0..3000 {
        // Long rows of commits by value, and of calls with a few between.
        let by_value = if round / 250 % 2 == 0 { 1 } else { 9 };
        if rng.below(10) < by_value {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            for _ in 0..1 + rng.below(20) {
                let tree = if rng.below(100) == 0 { EVERYBODYS } else { SHARES[rng.below(3) as usize] };
                let (key, value) = (rng.below(40) as u8, rng.below(1 << 20).to_le_bytes());
                txn.put(tree, &[key], &value).unwrap();
            }
            if rng.below(50) == 0 {
                txn.create_tree().unwrap();
            }
            txn.commit_ticket().unwrap();
            continue;
        }
        let name = ["share", "share", "keys", "keys", "sum", "anything"][rng.below(6) as usize];
        let mut params = vec![rng.below(20) as u8, rng.below(3) as u8, rng.below(3) as u8];
        params.extend((0..1 + rng.below(5)).map(|_| rng.below(40) as u8));
        db.call_then(name, &params, |answer| drop(answer.unwrap())).unwrap();
    }
    db.wait_durable(Csn(u64::MAX)).unwrap();
    let contents = |threads, replay_bytes_max| {
        let options = Options { replay_bytes_max, ..options(threads) };
        let db = Database::open_on(Arc::new(disk.crash_image_synced()), options).unwrap();
        let mut txn = db.begin(TxnOptions { read_only: true, ..TxnOptions::default() }).unwrap();
        let all = trees.map(|tree| {
            let mut cursor = txn.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
            std::iter::from_fn(|| cursor.next(&mut txn).unwrap()).collect::<Vec<_>>()
        });
        (db.durable_csn(), all)
    };
    let expected = contents(1, 0);
    assert!(expected.1.iter().all(|entries| !entries.is_empty()));
    for (threads, replay_bytes_max) in [(1, 64 << 20), (2, 10_000), (2, 64 << 20), (5, 64 << 20)] {
        assert_eq!(contents(threads, replay_bytes_max), expected);
    }
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

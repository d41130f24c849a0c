//! Transactions on objects: the paper's examples, crashes, and threads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Barrier,
};

use gnomon_engine::{
    disk::SimDisk,
    env::Rng,
    failpoint::Failpoint,
    level0::{LogEntry, log_entries},
    sync::thread,
};

use super::*;

const TWO_LOGS: LogShape = LogShape { redo_files: 1, shared: false, segment_bytes: 64 << 10 };

fn options(strategy: Strategy, logs: LogShape) -> ObjectOptions {
    ObjectOptions {
        strategy,
        logs,
        page_bytes_min: 512,
        pool_bytes: 256 << 10,
        log_bytes_max: 32 << 10,
        lock_timeout: Some(Duration::ZERO),
        seed: Some(7),
        ..ObjectOptions::default()
    }
}

fn open(disk: &SimDisk, options: ObjectOptions, planted: Option<Failpoint>) -> Result<ObjectDatabase> {
    ObjectDatabase::open_store((&disk.open_exclusive()?).into(), options, |store| {
        store.failpoints.turn_on(planted)
    })
}

/// A document of so many subobjects of a length that has each on a page of its own or shares pages with others.
fn document(db: &ObjectDatabase, count: usize, bytes: usize) -> ObjectId {
    let mut txn = db.begin().unwrap();
    let parts = vec![vec![b'.'; bytes]; count];
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let document = txn.create(PageSize::MIN.into(), &parts, &[]).unwrap();
    txn.commit().unwrap();
    document
}

fn change(txn: &mut ObjectTransaction, document: ObjectId, slots: &[u32], to: u8) -> Result<()> {
    txn.operate(|operation| {
        for slot in slots {
            let at = Reference { object: document, slot: *slot };
            let mut value = operation.read(at)?.expect("it is there");
            value[0] = to;
            operation.update(at, Some(&value))?;
        }
        Ok(())
    })
}

fn first_bytes(db: &ObjectDatabase, document: ObjectId, count: u32) -> String {
    let mut txn = db.begin().unwrap();
    let read = |operation: &mut Operation<'_>| {
        (0..count)
            .map(|slot| {
                Ok(operation
                    .read(Reference { object: document, slot })?
                    .map_or(' ', |value| value[0] as char))
            })
            .collect()
    };
    txn.operate(read).unwrap()
}

/// The example of Fig. 1: the document's pages p, q, r and s have two subobjects each. T1 changes x (T11: on p and q)
/// and y (T12: on r and s), T2 changes x (T21: on p and r). T2 commits. Returns the document.
fn papers_example(db: &ObjectDatabase) -> (ObjectId, Vec<ObjectTransaction>) {
    let document = document(db, 8, 200);
    let [mut t1, mut t2] = [(); 2].map(|()| db.begin().unwrap());
    change(&mut t1, document, &[0, 2], b'1').unwrap();
    change(&mut t2, document, &[1, 4], b'2').unwrap();
    change(&mut t1, document, &[5, 6], b'1').unwrap();
    t2.commit().unwrap();
    (document, vec![t1])
}

/// The logs as text, with the names of the paper for numbers of the example.
fn trace(disk: &SimDisk, document: ObjectId) -> String {
    let logs = log_entries(&disk.crash_image_synced());
    // What made the document is not part of the example.
    let creation =
        |entry: &&LogEntry| !matches!(entry, LogEntry::Unit { pages, .. } if pages.contains(&document.0));
    let redo: Vec<&LogEntry> = logs["redo-0"].iter().filter(creation).collect();
    let mut ids: Vec<SubtxnName> = Vec::new();
    let name = |ids: &mut Vec<SubtxnName>, txn: Option<u64>, subtxn: u64| match ids
        .iter()
        .find(|id| id.subtxn == subtxn)
    {
        Some(id) => id.name.clone(),
        None => {
            let txns: BTreeSet<u64> = ids.iter().map(|id| id.txn).chain(txn).collect();
            let txn = txn.expect("an undo record comes first");
            let number = txns.iter().position(|of| *of == txn).unwrap() + 1;
            let count = ids.iter().filter(|id| id.txn == txn).count() + 1;
            ids.push(SubtxnName { txn, subtxn, name: format!("T{number}{count}") });
            ids.last().unwrap().name.clone()
        }
    };
    let mut text = String::from("L1:");
    let mut first = true;
    for entry in &logs["ops"] {
        match entry {
            // That of the creation.
            LogEntry::Undo(..) | LogEntry::End(..) if std::mem::take(&mut first) => {}
            LogEntry::Undo(txn, subtxn, _) => {
                text += &format!(" {}:C", name(&mut ids, Some(txn.0), subtxn.0))
            }
            LogEntry::End(txn, committed) if ids.iter().any(|id| id.txn == txn.0) => {
                let txns: BTreeSet<u64> = ids.iter().map(|id| id.txn).collect();
                let number = txns.iter().position(|of| *of == txn.0).unwrap() + 1;
                text += &format!(" {}(T{number})", if *committed { "EOT" } else { "undone" });
            }
            _ => {}
        }
    }
    text += "\nL0:";
    for entry in redo {
        let LogEntry::Unit { pages, subtxns, committed } = entry else { continue };
        let pages: String =
            pages.iter().map(|page| ['p', 'q', 'r', 's'][(page - document.0 - 1) as usize]).collect();
        let mut made_of: Vec<String> = subtxns.iter().map(|subtxn| name(&mut ids, None, subtxn.0)).collect();
        made_of.sort_unstable();
        let eot = if committed.is_empty() { "" } else { " EOT" };
        text += &format!(" [{} {pages} EOS{eot}]", made_of.join(","));
    }
    text
}

struct SubtxnName {
    txn: u64,
    subtxn: u64,
    name: String,
}

/// Figures 3 and 4: what is in the logs after the example.
#[test]
fn the_logs_of_the_papers_example() {
    let logs = |strategy| {
        let disk = SimDisk::new(1);
        let db = open(&disk, options(strategy, TWO_LOGS), None).unwrap();
        let (document, running) = papers_example(&db);
        // The end of T2 is in the log of operations when that is forced next.
        let text = trace(&disk, document);
        drop(running);
        text
    };
    assert_eq!(
        logs(Strategy::TwoLevel),
        "L1: T11:C T21:C T12:C EOT(T2)\nL0: [T11 pq EOS] [T21 pr EOS] [T12 rs EOS]"
    );
    assert_eq!(logs(Strategy::TwoLevelDeferred), "L1: T11:C T21:C T12:C\nL0: [T11,T12,T21 pqrs EOS EOT]");
}

/// Under one level, the example is not possible: T2 waits for T1's pages.
#[test]
fn two_changes_of_a_document_wait_for_each_other_under_one_level_only() {
    for strategy in Strategy::ALL {
        let db = open(&SimDisk::new(1), options(strategy, TWO_LOGS), None).unwrap();
        let document = document(&db, 8, 200);
        let [mut t1, mut t2] = [(); 2].map(|()| db.begin().unwrap());
        change(&mut t1, document, &[0], b'1').unwrap();
        let second = change(&mut t2, document, &[1], b'2');
        let held: Vec<String> = db
            .locks()
            .iter()
            .map(|lock| {
                let who =
                    if lock.txn == t1.id() || (lock.table == "page" && strategy == Strategy::SingleLevel) {
                        1
                    } else {
                        2
                    };
                format!(
                    "{} {}{} T{who}",
                    lock.table,
                    lock.mode,
                    if lock.part.is_empty() { "" } else { " of it" }
                )
            })
            .collect();
        if strategy == Strategy::SingleLevel {
            assert!(matches!(second, Err(Error::LockTimeout)));
            // The header and the first page; T2 reads the header, too.
            assert_eq!(held, ["page S T1", "page S T1", "page X T1"]);
            drop(t2);
            t1.commit().unwrap();
            assert_eq!(first_bytes(&db, document, 2), "1.");
        } else {
            second.unwrap();
            assert_eq!(
                held,
                ["object IX T1", "object IX T2", "subobject X of it T1", "subobject X of it T2"]
            );
            t2.commit().unwrap();
            t1.commit().unwrap();
            assert_eq!(first_bytes(&db, document, 2), "12");
        }
    }
}

/// Section 2: without spheres, T2's commit would make half of T11 durable, and no recovery would undo it.
#[test]
fn a_commit_takes_what_it_overlaps_with_to_the_log() {
    let after_crash = |strategy, planted| {
        let disk = SimDisk::new(1);
        let db = open(&disk, options(strategy, TWO_LOGS), planted).unwrap();
        let (document, running) = papers_example(&db);
        let image = disk.crash_image_synced();
        drop(running);
        let db = open(&image, options(strategy, TWO_LOGS), None).unwrap();
        first_bytes(&db, document, 8)
    };
    for strategy in [Strategy::TwoLevel, Strategy::TwoLevelDeferred] {
        assert_eq!(after_crash(strategy, None), ".2..2...");
    }
    assert_ne!(after_crash(Strategy::TwoLevelDeferred, Some(Failpoint::OverlapIgnored)), ".2..2...");
}

#[test]
fn an_operation_that_fails_has_done_nothing_and_savepoints_go_back() {
    for strategy in Strategy::ALL {
        let db = open(&SimDisk::new(1), options(strategy, TWO_LOGS), None).unwrap();
        let document = document(&db, 8, 200);
        let mut txn = db.begin().unwrap();
        change(&mut txn, document, &[0, 1], b'a').unwrap();
        let at = |slot| Reference { object: document, slot };
        let failed = txn.operate(|operation| {
            operation.update(at(2), Some(b"b"))?;
            operation.update(at(77), Some(b"b"))
        });
        assert!(matches!(failed, Err(Error::Operation(_))), "{failed:?}");
        let savepoint = txn.savepoint();
        change(&mut txn, document, &[1, 3], b'c').unwrap();
        let new = txn.operate(|operation| operation.append(document, b"new")).unwrap();
        assert_eq!(new.slot, 8);
        txn.operate(|operation| operation.set_foreign(document, &[at(1)])).unwrap();
        let later = txn.savepoint();
        txn.rollback_to(savepoint).unwrap();
        assert!(txn.rollback_to(later).is_err());
        change(&mut txn, document, &[4], b'd').unwrap();
        txn.operate(|operation| {
            assert_eq!(operation.header(document)?.foreign().count(), 0);
            operation.verify(document)
        })
        .unwrap();
        txn.commit().unwrap();
        assert_eq!(first_bytes(&db, document, 9), "aa..d... ", "{strategy:?}");
    }
}

/// Subobjects that a transaction made shorter can be made longer again, although others have filled the pages and the
/// header.
#[test]
fn a_header_keeps_room_for_what_may_be_undone() {
    for strategy in [Strategy::TwoLevel, Strategy::TwoLevelDeferred] {
        let disk = SimDisk::new(1);
        let db = open(&disk, options(strategy, TWO_LOGS), None).unwrap();
        // A header with room for three data pages more.
        let other = document(&db, 1, 1);
        let mut txn = db.begin().unwrap();
        let references = [Reference { object: other, slot: 0 }; 31];
        let document = txn.create(PageSize::MIN.into(), &[&[b'.'; 200][..]; 8], &references).unwrap();
        txn.commit().unwrap();
        let at = |slot| Reference { object: document, slot };
        let mut shorter = db.begin().unwrap();
        shorter.operate(|operation| operation.update(at(0), Some(b"short"))).unwrap();
        // Its room is taken, and then all that can be had in the header.
        let mut refused = 0;
        for (slot, bytes) in [(1, 380), (2, 400), (4, 400), (6, 400)] {
            let mut longer = db.begin().unwrap();
            match longer.operate(|operation| operation.update(at(slot), Some(&vec![b'2'; bytes]))) {
                Err(Error::ObjectFull) => refused += 1,
                done => drop(done.unwrap()),
            }
            longer.commit().unwrap();
        }
        assert_eq!(refused, 2);
        let image = disk.crash_image_everything();
        shorter.rollback().unwrap();
        assert_eq!(first_bytes(&db, document, 2), ".2");
        let db = open(&image, options(strategy, TWO_LOGS), None).unwrap();
        assert_eq!(first_bytes(&db, document, 2), ".2");
    }
}

/// The subobjects of objects, by object and slot.
type Contents = BTreeMap<ObjectId, BTreeMap<u32, Vec<u8>>>;

fn contents(db: &ObjectDatabase, known: &BTreeSet<ObjectId>) -> Result<Contents> {
    let mut found = Contents::new();
    let mut txn = db.begin()?;
    for object in known {
        // What was never made, or made and undone, is no object.
        let slots = match txn.operate(|operation| {
            operation.verify(*object)?;
            Ok(operation.header(*object)?.own())
        }) {
            Err(Error::Corrupt { .. }) => continue,
            slots => slots?,
        };
        let entries = found.entry(*object).or_default();
        for slot in 0..slots {
            let at = Reference { object: *object, slot };
            if let Some(value) = txn.operate(|operation| operation.read(at))? {
                entries.insert(slot, value);
            }
        }
    }
    Ok(found)
}

struct History {
    states: BTreeMap<Csn, Contents>,
    acknowledged: Csn,
    known: BTreeSet<ObjectId>,
    error: Option<Error>,
}

struct Running {
    txn: ObjectTransaction,
    changes: Vec<(Reference, Option<Vec<u8>>)>,
    made: Vec<(ObjectId, Vec<Vec<u8>>)>,
}

fn work(disk: &SimDisk, seed: u64, options: &ObjectOptions, history: &mut History) -> Result<()> {
    let mut rng = Rng::from_seed(seed);
    let db = open(disk, options.clone(), None)?;
    db.0.background.stop();
    let mut current = Contents::new();
    history.states.insert(Csn(0), current.clone());
    let mut running: Vec<Running> = Vec::new();
    for _ in 0..90 {
        if running.len() < 3 {
            running.push(Running { txn: db.begin()?, changes: Vec::new(), made: Vec::new() });
        }
        let at = rng.below(running.len() as u64) as usize;
        match rng.below(12) {
            0..3 => {
                let Running { txn, changes, made } = running.swap_remove(at);
                if changes.is_empty() && made.is_empty() {
                    continue;
                }
                let mut next = current.clone();
                for (object, values) in made {
                    next.insert(object, (0..).zip(values).collect());
                }
                for (at, value) in changes {
                    let object = next.get_mut(&at.object).expect("it is there");
                    match value {
                        Some(value) => drop(object.insert(at.slot, value)),
                        None => drop(object.remove(&at.slot)),
                    }
                }
                let expected = Csn(db.0.store.last_csn().0 + 1);
                history.states.insert(expected, next.clone());
                let csn = txn.finish()?;
                assert_eq!(csn, expected);
                current = next;
                if rng.chance(2, 3) {
                    db.0.store.wait_durable(csn)?;
                    history.acknowledged = csn;
                }
            }
            3 => running.swap_remove(at).txn.rollback()?,
            4 => {
                let values: Vec<Vec<u8>> = (0..3 + rng.below(12)).map(|slot| vec![slot as u8; 30]).collect();
                let parts: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                let object = running[at].txn.create(PageSize::MIN.into(), &parts, &[])?;
                history.known.insert(object);
                running[at].made.push((object, values));
            }
            5 => {
                let savepoint = running[at].txn.savepoint();
                if let Some(object) = current.keys().next().copied() {
                    let at_0 = Reference { object, slot: 0 };
                    let _ =
                        running[at].txn.operate(|operation| operation.update(at_0, Some(b"gone back from")));
                }
                running[at].txn.rollback_to(savepoint)?;
            }
            _ => {
                let Running { txn, changes, .. } = &mut running[at];
                let objects: Vec<ObjectId> = current.keys().copied().collect();
                if objects.is_empty() {
                    continue;
                }
                let mut wanted = Vec::new();
                for _ in 0..1 + rng.below(4) {
                    let object = objects[rng.below(objects.len() as u64) as usize];
                    let slots = 3.min(current[&object].len().max(1)) as u64;
                    let at = Reference { object, slot: rng.below(slots) as u32 };
                    let bytes = [5, 30, 200][rng.below(3) as usize];
                    let value = rng.chance(5, 6).then(|| vec![rng.below(256) as u8; bytes]);
                    wanted.push((at, value));
                }
                let done = txn.operate(|operation| {
                    for (at, value) in &wanted {
                        operation.update(*at, value.as_deref())?;
                    }
                    Ok(())
                });
                match done {
                    Ok(()) => changes.extend(wanted),
                    Err(Error::LockTimeout) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    drop(running);
    db.close()?;
    history.acknowledged = db.0.store.last_csn();
    Ok(())
}

fn run(disk: &SimDisk, seed: u64, options: &ObjectOptions) -> History {
    let mut history =
        History { states: BTreeMap::new(), acknowledged: Csn(0), known: BTreeSet::new(), error: None };
    history.error = work(disk, seed, options, &mut history).err();
    history
}

fn check(image: &SimDisk, history: &History, options: &ObjectOptions) -> Result<(), String> {
    let db = open(image, options.clone(), None).map_err(|error| format!("it does not open: {error}"))?;
    let csn = db.durable_csn();
    let found = contents(&db, &history.known).map_err(|error| error.to_string())?;
    if csn < history.acknowledged {
        return Err(format!("{csn} is durable, {} was acknowledged", history.acknowledged));
    }
    match history.states.get(&csn) {
        Some(state) if *state == found => Ok(()),
        None if csn == Csn(0) && found.is_empty() => Ok(()),
        None => Err(format!("{csn} was never committed")),
        Some(state) => {
            let objects: BTreeSet<ObjectId> = state.keys().chain(found.keys()).copied().collect();
            let differ = objects.into_iter().filter(|object| state.get(object) != found.get(object));
            let differ: Vec<_> =
                differ.map(|object| (object, state.get(&object), found.get(&object))).collect();
            Err(format!("after {csn}, objects differ (as they should be, as they are): {differ:?}"))
        }
    }
}

/// Every crash leaves whole transactions, also one within the crash recovery after another.
#[test]
fn every_crash_leaves_whole_transactions() {
    let seeds = std::env::var("GNOMON_SWEEP_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"));
    let shared = LogShape { redo_files: 2, shared: true, segment_bytes: 8 << 10 };
    for seed in 1..=seeds {
        for (strategy, logs) in
            Strategy::ALL.into_iter().flat_map(|strategy| [(strategy, TWO_LOGS), (strategy, shared)])
        {
            let options = options(strategy, logs);
            let whole = SimDisk::new(seed);
            let history = run(&whole, seed, &options);
            if let Some(error) = history.error {
                panic!("{strategy:?}, seed {seed}: {error}");
            }
            let mut images = 0;
            for event in (0..whole.events()).step_by(11) {
                let disk = SimDisk::new(seed);
                disk.crash_at(event);
                let history = run(&disk, seed, &options);
                for (number, mut image) in disk.crash_images(1).enumerate() {
                    images += 1;
                    if number != 1 {
                        image.crash_at(image.events() + (event * 5 + number as u64) % 29);
                        let _ = open(&image, options.clone(), None);
                        image.crash();
                        image = image.crash_image(event);
                    }
                    check(&image, &history, &options).unwrap_or_else(|wrong| {
                        panic!(
                            "{strategy:?}, {logs:?}, seed {seed}, event {event}, image {number}: {wrong}\n{}",
                            disk.history()
                        )
                    });
                }
            }
            println!("{strategy:?}, {logs:?}, seed {seed}: {images} images");
        }
    }
}

/// Two operations of a transaction, of which each waits until both are running.
#[test]
fn operations_of_a_transaction_run_at_once_and_are_undone_together() {
    for strategy in Strategy::ALL {
        let disk = SimDisk::new(1);
        let options = ObjectOptions { sphere_pages_max: 0, ..options(strategy, LogShape::default()) };
        let db = open(&disk, options.clone(), None).unwrap();
        let document = document(&db, 8, 200);
        let barrier = Barrier::new(2);
        let change = |slot: u32, fails: bool| {
            let barrier = &barrier;
            move |operation: &mut Operation<'_>| {
                operation.update(Reference { object: document, slot }, Some(b"x"))?;
                if strategy != Strategy::SingleLevel {
                    barrier.wait();
                }
                if fails { Err(Error::Operation("it gives up".into())) } else { Ok(slot) }
            }
        };
        let mut txn = db.begin().unwrap();
        assert_eq!(txn.operate_in_parallel([change(0, false), change(4, false)]).unwrap(), [0, 4]);
        let failed = txn.operate_in_parallel([change(2, false), change(6, true)]);
        assert!(matches!(failed, Err(Error::Operation(_))), "{failed:?}");
        assert_eq!(txn.operate_in_parallel([change(2, false)].into_iter().take(0)).unwrap(), []);
        txn.commit().unwrap();
        assert_eq!(first_bytes(&db, document, 8), "x...x...", "{strategy:?}");
        let mut txn = db.begin().unwrap();
        txn.operate_in_parallel([change(2, false), change(6, false)]).unwrap();
        // What is running when the machine stops.
        db.0.store.write_large_spheres().unwrap();
        let image = disk.crash_image_synced();
        let db = open(&image, options, None).unwrap();
        assert_eq!(first_bytes(&db, document, 8), "x...x...", "{strategy:?}");
        drop(txn);
    }
}

/// Threads that move amounts between subobjects of few objects, with deadlocks at both levels: nothing is lost. Some
/// have all operations of a transaction run at once.
#[test]
fn transfers_of_many_threads_keep_the_sum() {
    const THREADS: u64 = 4;
    const OBJECTS: usize = 3;
    const SLOTS: u32 = 12;
    use Strategy::{SingleLevel, TwoLevel, TwoLevelDeferred};
    for (strategy, victim) in [
        (SingleLevel, Victim::LeastLost),
        (TwoLevel, Victim::LeastLost),
        (TwoLevelDeferred, Victim::LeastLost),
        (TwoLevelDeferred, Victim::Youngest),
        (TwoLevelDeferred, Victim::Requester),
    ] {
        let options = ObjectOptions { lock_timeout: None, victim, ..options(strategy, LogShape::default()) };
        let disk = SimDisk::new(1);
        let db = open(&disk, options.clone(), None).unwrap();
        let objects: Vec<ObjectId> = (0..OBJECTS).map(|_| document(&db, SLOTS as usize, 60)).collect();
        let start = i64::from(b'.');
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (db, objects) = (&db, &objects);
                scope.spawn(move || {
                    let mut rng = Rng::from_seed(number);
                    for _ in 0..60 {
                        let mut somewhere = || Reference {
                            object: objects[rng.below(OBJECTS as u64) as usize],
                            slot: rng.below(u64::from(SLOTS)) as u32,
                        };
                        let steps: Vec<(Reference, Reference)> =
                            (0..3).map(|_| (somewhere(), somewhere())).filter(|(a, b)| a != b).collect();
                        let gives_up = rng.chance(1, 5);
                        loop {
                            let mut txn = db.begin().unwrap();
                            let operations = steps.iter().map(|(from, to)| {
                                move |operation: &mut Operation<'_>| {
                                    for (at, by) in [(from, -1), (to, 1)] {
                                        let mut value = operation.read(*at)?.unwrap();
                                        value[0] = (i64::from(value[0]) + by) as u8;
                                        operation.update(*at, Some(&value))?;
                                    }
                                    Ok(())
                                }
                            });
                            let moved = match number % 2 {
                                0 => operations.into_iter().try_for_each(|operation| txn.operate(operation)),
                                _ => txn.operate_in_parallel(operations).map(drop),
                            };
                            match moved {
                                Ok(()) if gives_up => txn.rollback().unwrap(),
                                Ok(()) => drop(txn.commit().unwrap()),
                                Err(Error::Deadlock) => continue,
                                Err(error) => panic!("{error}"),
                            }
                            break;
                        }
                    }
                });
            }
        });
        println!("{strategy:?} {victim:?}: {:?}", db.activity());
        assert_eq!(db.locks(), []);
        db.close().unwrap();
        drop(db);
        let db = open(&disk, options, None).unwrap();
        let sum: i64 = objects
            .iter()
            .map(|object| {
                first_bytes(&db, *object, SLOTS).chars().map(|first| i64::from(first as u32)).sum::<i64>()
            })
            .sum();
        assert_eq!(sum, start * i64::from(SLOTS) * OBJECTS as i64, "{strategy:?}");
    }
}

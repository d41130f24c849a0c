//! Calls in partitions, beside each other, beside calls in several and beside transactions of clients.

use crate::*;
use crate::{
    Csn, Error, Result, TreeId,
    disk::{MemDisk, SimDisk},
    env::Rng,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
        thread,
    },
};

const EXECUTORS: u32 = 3;
const PARTITIONS: u64 = 5;
/// Accounts, of which each is in the partition of its number.
const ACCOUNTS: u64 = 20;

const FEES: TreeId = TreeId(1);

fn tree(account: u64) -> TreeId {
    TreeId(2 + account % PARTITIONS)
}

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

fn numbers(params: &[u8]) -> Vec<u64> {
    params.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn params(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn partition(account: u64) -> u32 {
    (account % PARTITIONS) as u32
}

/// Moves an amount, and a fee that all partitions know.
fn transfer(call: &mut Call<'_>, params: &[u8]) -> Result<Vec<u8>> {
    let [from, to, amount] = numbers(params)[..] else { return Err(Error::procedure("three numbers")) };
    let fee = number(call.get(FEES, b"fee")?);
    let left = number(call.get_for_update(tree(from), &from.to_le_bytes())?);
    let left = left.checked_sub(amount + fee).ok_or(Error::procedure("there is not enough"))?;
    call.put(tree(from), &from.to_le_bytes(), &left.to_le_bytes())?;
    let has = number(call.get_for_update(tree(to), &to.to_le_bytes())?);
    call.put(tree(to), &to.to_le_bytes(), &(has + amount + fee).to_le_bytes())?;
    Ok(left.to_le_bytes().to_vec())
}

fn procedures() -> Vec<Procedure> {
    vec![
        Procedure::new("transfer", "1", transfer).with_partitions(|params| {
            let [from, to, _] = numbers(params)[..] else { return Partitions::All };
            match partition(from) == partition(to) {
                true => Partitions::One(partition(from)),
                false => Partitions::Several(vec![partition(from), partition(to)]),
            }
        }),
        // Routed to where only one of its accounts is.
        Procedure::new("astray", "1", transfer)
            .with_partitions(|params| Partitions::One(partition(numbers(params)[0]))),
        Procedure::new("charge", "1", |call, params| {
            call.put(FEES, b"fee", params)?;
            Ok(Vec::new())
        }),
        Procedure::new("charge astray", "1", |call, params| {
            call.get(FEES, b"fee")?;
            call.put(FEES, b"fee", params)?;
            Ok(Vec::new())
        })
        .with_partitions(|_| Partitions::One(0)),
        Procedure::new("panic", "1", |_, _| panic!("a procedure that is at fault"))
            .with_partitions(|_| Partitions::One(0)),
        Procedure::new("nobody's", "1", |call, _| {
            Ok(call.get(TreeId(2 + PARTITIONS), b"k")?.unwrap_or_default())
        })
        .with_partitions(|_| Partitions::One(0)),
        Procedure::new("hides it", "1", |call, _| {
            let found = call.get(TreeId(2 + PARTITIONS), b"k").ok().flatten();
            call.put(tree(0), b"hidden", &found.unwrap_or_default())?;
            Ok(Vec::new())
        })
        .with_partitions(|_| Partitions::One(0)),
        Procedure::new("nowhere", "1", |call, _| Ok(call.get(FEES, b"fee")?.unwrap_or_default()))
            .with_partitions(|_| Partitions::of([])),
    ]
}

fn options(recovery: Recovery, execution: Execution) -> Options {
    Options {
        recovery: Some(recovery),
        execution,
        procedures: procedures(),
        logs: crate::LogShape { segment_bytes: 64 << 10, ..crate::LogShape::default() },
        ..Options::default()
    }
}

const SERIAL: Execution = Execution::Serial { executors: EXECUTORS, queue_max: 1000 };

fn make(db: &Database) {
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let make = |txn: &mut Transaction, placement| {
        txn.create_tree_with(TreeOptions { placement, ..TreeOptions::default() }).unwrap()
    };
    assert_eq!(make(&mut txn, Placement::Replicated), FEES);
    for partition in 0..PARTITIONS {
        assert_eq!(make(&mut txn, Placement::Partition(partition as u32)), tree(partition));
    }
    make(&mut txn, Placement::Anywhere);
    for account in 0..ACCOUNTS {
        txn.put(tree(account), &account.to_le_bytes(), &1000_u64.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
}

fn balances(db: &Database, isolation: Isolation) -> Result<Vec<u64>> {
    let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() })?;
    (0..ACCOUNTS).map(|account| Ok(number(txn.get(tree(account), &account.to_le_bytes())?))).collect()
}

/// Checkpoints are asked for when calls run serially as they are under locks.
#[test]
fn a_log_is_cut_behind_checkpoints() {
    const LOG_BYTES_MAX: u64 = 64 << 10;
    for commits in [Commits::Synchronous, Commits::Asynchronous] {
        let options = Options {
            log_bytes_max: LOG_BYTES_MAX,
            commits,
            ..options(Recovery::CommitLog(Records::Values), SERIAL)
        };
        let db = Database::open_on(Arc::new(MemDisk::new()), options).unwrap();
        make(&db);
        let begun = db.stats().activity.log_bytes_written;
        let written = || db.stats().activity.log_bytes_written - begun;
        let mut calls = 0;
        while written() < 20 * LOG_BYTES_MAX {
            let account = calls % ACCOUNTS;
            db.call("transfer", &params(&[account, account, 0])).unwrap();
            calls += 1;
        }
        // It is cut beside the calls, which may be ahead.
        let is_short = || db.stats().log_bytes < 5 * LOG_BYTES_MAX;
        let found = (0..100).any(|_| {
            is_short() || {
                thread::sleep(std::time::Duration::from_millis(10));
                db.call("transfer", &params(&[0, 0, 0])).unwrap();
                false
            }
        });
        assert!(found, "{} bytes of the log", db.stats().log_bytes);
    }
}

#[test]
fn calls_are_answered_before_they_are_durable_if_the_database_says_so() {
    let disk = SimDisk::new(3);
    let unforced = Options { commits: Commits::Unforced, ..options(Recovery::Shadow, SERIAL) };
    let db = Database::open_on(Arc::new(disk.clone()), unforced).unwrap();
    make(&db);
    let before = db.durable_csn();
    db.call("transfer", &params(&[1, 6, 10])).unwrap();
    db.call("transfer", &params(&[1, 2, 10])).unwrap();
    assert_eq!(db.durable_csn(), before);
    db.close().unwrap();
    drop(db);
    let asynchronous = Options { commits: Commits::Asynchronous, ..options(Recovery::Shadow, SERIAL) };
    let db = Database::open_on(Arc::new(disk), asynchronous).unwrap();
    assert_eq!(balances(&db, Isolation::ReadCommitted).unwrap()[1..3], [980, 1010]);
    db.call("transfer", &params(&[1, 2, 10])).unwrap();
    db.wait_durable(Csn(u64::MAX)).unwrap();
}

#[test]
fn a_call_uses_what_it_was_routed_to_and_nothing_else() {
    let db = Database::open_on(&MemDisk::new(), options(Recovery::Shadow, SERIAL)).unwrap();
    make(&db);
    assert_eq!(db.call("transfer", &params(&[1, 6, 10])).unwrap(), 990_u64.to_le_bytes());
    assert_eq!(db.call("transfer", &params(&[1, 2, 10])).unwrap(), 980_u64.to_le_bytes());
    db.call("charge", &5_u64.to_le_bytes()).unwrap();
    assert_eq!(db.call("transfer", &params(&[1, 2, 10])).unwrap(), 965_u64.to_le_bytes());
    let refused = |name: &str, params: &[u8]| db.call(name, params).unwrap_err().to_string();
    assert!(refused("astray", &params(&[1, 2, 10])).contains("was not routed there"));
    assert!(refused("charge astray", &[0; 8]).contains("was not routed there"));
    assert!(refused("nobody's", b"").contains("in no partition"));
    assert!(refused("hides it", b"").contains("in no partition"), "whatever it makes of the error");
    assert!(refused("panic", b"").contains("panicked"));
    assert_eq!(db.call("nowhere", b"").unwrap(), 5_u64.to_le_bytes());
    assert!(refused("transfer", &params(&[1, 2, 5000])).contains("not enough"));
    assert_eq!(balances(&db, Isolation::ReadCommitted).unwrap()[1..3], [965, 1025]);
    let other = Database::open_on(
        &MemDisk::new(),
        options(Recovery::Shadow, Execution::Serial { executors: 0, queue_max: 1 }),
    );
    assert!(matches!(other, Err(Error::BadOption(_))));
}

#[test]
fn closing_does_not_wait_for_a_client_that_has_a_partition() {
    let db = Database::open_on(&MemDisk::new(), options(Recovery::Shadow, SERIAL)).unwrap();
    make(&db);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree(1), &1_u64.to_le_bytes(), &[0; 8]).unwrap();
    let (sender, answers) = std::sync::mpsc::channel();
    db.call_then("transfer", &params(&[1, 6, 10]), move |answer| sender.send(answer).unwrap()).unwrap();
    db.close().unwrap();
    assert!(matches!(answers.recv().unwrap(), Err(Error::Closed)));
}

#[test]
fn a_panic_of_whoever_is_answered_ends_nothing_else() {
    let db = Database::open_on(&MemDisk::new(), options(Recovery::Shadow, SERIAL)).unwrap();
    make(&db);
    db.call_then("transfer", &params(&[1, 6, 5000]), |_| panic!("a caller that is at fault")).unwrap();
    assert_eq!(db.call("transfer", &params(&[1, 6, 10])).unwrap(), 990_u64.to_le_bytes());
    db.close().unwrap();
}

#[test]
fn placed_trees_are_not_prepared_and_partitions_have_numbers_up_to_a_limit() {
    let db = Database::open_on(&MemDisk::new(), options(Recovery::Shadow, SERIAL)).unwrap();
    make(&db);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree(1), b"k", b"v").unwrap();
    let savepoint = txn.savepoint();
    txn.rollback_to(savepoint).unwrap();
    assert!(matches!(txn.prepare("g", b""), Err(Error::CannotPrepare(_))));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    let far = TreeOptions { placement: Placement::Partition(u32::MAX), ..TreeOptions::default() };
    assert!(matches!(txn.create_tree_with(far), Err(Error::BadOption(_))));
}

/// A transaction that is prepared with locks in no partition is there again, however calls run; one with others has
/// to end first.
#[test]
fn what_is_prepared_outside_of_partitions_waits_through_serial_execution() {
    let disk = SimDisk::new(1);
    let open = |execution| Database::open_on(Arc::new(disk.clone()), options(Recovery::Shadow, execution));
    let nowhere = TreeId(2 + PARTITIONS);
    let db = open(SERIAL).unwrap();
    make(&db);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(nowhere, b"k", b"v").unwrap();
    txn.prepare("outside", b"").unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(Execution::Locked).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree(1), b"k", b"v").unwrap();
    txn.prepare("within", b"").unwrap();
    db.close().unwrap();
    drop(db);
    let refused = open(SERIAL).map(drop).unwrap_err().to_string();
    assert!(refused.contains("'within' is prepared and has locks in partitions"), "{refused}");
    let db = open(Execution::Locked).unwrap();
    db.rollback_prepared("within").unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(SERIAL).unwrap();
    let no_wait = TxnOptions { lock_timeout: Some(std::time::Duration::ZERO), ..TxnOptions::default() };
    let mut txn = db.begin(no_wait).unwrap();
    assert!(matches!(txn.put(nowhere, b"k", b"w"), Err(Error::LockTimeout)));
    drop(txn);
    db.commit_prepared("outside").unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.get(nowhere, b"k").unwrap(), Some(b"v".to_vec()));
}

/// Every recovery method, with both kinds of execution after each other.
#[test]
fn calls_and_clients_beside_each_other_keep_the_sum_and_a_crash_leaves_it() {
    for recovery in Recovery::ALL {
        let mut disk = SimDisk::new(1);
        make(&Database::open_on(Arc::new(disk.clone()), options(recovery, SERIAL)).unwrap());
        for (round, execution) in [SERIAL, Execution::Locked, SERIAL].into_iter().enumerate() {
            let db = Database::open_on(Arc::new(disk.clone()), options(recovery, execution)).unwrap();
            let unanswered = Arc::new(AtomicU64::new(0));
            let callers = (0..3).map(|seed| {
                let (db, unanswered) = (db.clone(), unanswered.clone());
                thread::spawn(move || {
                    let mut rng = Rng::from_seed(seed);
                    for _ in 0..60 {
                        let accounts = [rng.below(ACCOUNTS), rng.below(ACCOUNTS)];
                        // Half of them in one partition.
                        let to = if rng.chance(1, 2) { accounts[0] % PARTITIONS } else { accounts[1] };
                        let unanswered = unanswered.clone();
                        let call = params(&[accounts[0], to, rng.below(50)]);
                        match rng.below(10) {
                            0 => drop(db.call("charge", &rng.below(3).to_le_bytes()).unwrap()),
                            1..5 => drop(db.call("transfer", &call)),
                            _ => {
                                unanswered.fetch_add(1, Ordering::SeqCst);
                                let done = move |_| {
                                    unanswered.fetch_sub(1, Ordering::SeqCst);
                                };
                                db.call_then("transfer", &call, done).unwrap();
                            }
                        }
                    }
                })
            });
            let clients = (0..2).map(|seed| {
                let db = db.clone();
                thread::spawn(move || {
                    let mut rng = Rng::from_seed(100 + seed);
                    for _ in 0..20 {
                        let isolation =
                            [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]
                                [rng.below(3) as usize];
                        match balances(&db, isolation) {
                            Ok(all) if isolation == Isolation::Serializable => {
                                assert_eq!(all.iter().sum::<u64>(), 1000 * ACCOUNTS);
                            }
                            Ok(_) | Err(Error::Deadlock | Error::Serialization(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                        let mut txn = db.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap();
                        let accounts = [rng.below(ACCOUNTS), rng.below(ACCOUNTS)];
                        let mut move_one = || -> Result<bool> {
                            for (account, by) in accounts.into_iter().zip([-1, 1]) {
                                let key = account.to_le_bytes();
                                let has = number(txn.get_locked(tree(account), &key, RowLock::Exclusive)?);
                                let Some(now) = has.checked_add_signed(by) else { return Ok(false) };
                                txn.put(tree(account), &key, &now.to_le_bytes())?;
                            }
                            Ok(true)
                        };
                        match move_one() {
                            Ok(true) => drop(txn.commit().unwrap()),
                            Ok(false) | Err(Error::Deadlock | Error::Serialization(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            });
            let threads: Vec<_> = callers.chain(clients).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // Some may be queued still.
            while unanswered.load(Ordering::SeqCst) > 0 {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            let before = balances(&db, Isolation::Serializable).unwrap();
            assert_eq!(before.iter().sum::<u64>(), 1000 * ACCOUNTS);
            db.wait_durable(crate::Csn(u64::MAX)).unwrap();
            let image = disk.crash_image(round as u64);
            drop(db);
            disk = image;
            let db = Database::open_on(Arc::new(disk.clone()), options(recovery, execution)).unwrap();
            assert_eq!(balances(&db, Isolation::Serializable).unwrap(), before, "{}", recovery.name());
        }
    }
}

/// Answers are of durable commits, for calls in the queue of one executor too.
#[test]
fn answers_are_durable() {
    for recovery in [Recovery::Shadow, Recovery::CommitLog(Records::Calls)] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(Arc::new(disk.clone()), options(recovery, SERIAL)).unwrap();
        make(&db);
        let images = Arc::new(Mutex::new(Vec::new()));
        for number in 0..200_u64 {
            let (images, disk) = (images.clone(), disk.clone());
            let done = move |answer: Result<Vec<u8>>| {
                answer.unwrap();
                if number.is_multiple_of(40) {
                    images.lock().push((number, disk.crash_image(number)));
                }
            };
            db.call_then("transfer", &params(&[1, 6, 1]), done).unwrap();
        }
        db.call("transfer", &params(&[1, 6, 1])).unwrap();
        drop(db);
        assert_eq!(images.lock().len(), 5);
        for (number, image) in images.lock().drain(..) {
            let db = Database::open_on(Arc::new(image), options(recovery, SERIAL)).unwrap();
            assert!(balances(&db, Isolation::Serializable).unwrap()[6] > 1000 + number);
        }
    }
}

/// A call that has one executor stand still has the other one after the call under way, not after all that are
/// queued.
#[test]
fn an_executor_gives_way_to_calls_of_several_between_two_of_its_own() {
    const MARKS: usize = 20;
    let gates = Arc::new((Mutex::new(0_u8), Condvar::new()));
    let order = Arc::new(Mutex::new(Vec::new()));
    // The gate of the last call that has begun.
    let begun = Arc::new(AtomicU8::new(0));
    let (waits, told, begins) = (gates.clone(), order.clone(), begun.clone());
    let procedure = |name: &str, partitions: fn(&[u8]) -> Partitions| {
        let (waits, told, begins) = (waits.clone(), told.clone(), begins.clone());
        Procedure::new(name, "1", move |_, params| {
            begins.store(params[0], Ordering::SeqCst);
            let mut opened = waits.0.lock();
            while *opened < params[0] {
                waits.1.wait(&mut opened);
            }
            told.lock().push(params[0]);
            Ok(Vec::new())
        })
        .with_partitions(partitions)
    };
    let one = procedure("one", |_| Partitions::One(1));
    let both = procedure("both", |_| Partitions::All);
    let db = Database::open_on(
        &MemDisk::new(),
        Options { execution: SERIAL, procedures: vec![one, both], ..Options::default() },
    )
    .unwrap();
    let open = |gate| {
        *gates.0.lock() = gate;
        gates.1.notify_all();
    };
    // What is queued behind the first is one batch.
    for gate in [[1, 2].as_slice(), &[0; MARKS]].concat() {
        db.call_then("one", &[gate], |answer| drop(answer.unwrap())).unwrap();
    }
    open(1);
    while begun.load(Ordering::SeqCst) < 2 {
        thread::yield_now();
    }
    db.call_then("both", &[2], |answer| drop(answer.unwrap())).unwrap();
    let executors = db.parts().executors.as_ref().unwrap();
    while executors.queues.of_one[1].wanted.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    open(2);
    db.call("one", &[0]).unwrap();
    db.close().unwrap();
    let order = order.lock();
    let marks_before = order.iter().skip(2).take_while(|gate| **gate == 0).count();
    assert!(marks_before < MARKS / 2, "it waited for {marks_before} calls");
    assert_eq!(order.len(), MARKS + 4);
}

#[test]
fn a_full_queue_refuses_and_closing_answers_what_waits() {
    let execution = Execution::Serial { executors: 1, queue_max: 2 };
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = gate.clone();
    let wait = Procedure::new("wait", "1", move |_, _| {
        let mut open = waits.0.lock();
        while !*open {
            waits.1.wait(&mut open);
        }
        Ok(Vec::new())
    });
    let db = Database::open_on(
        &MemDisk::new(),
        Options { execution, procedures: vec![wait], ..Options::default() },
    )
    .unwrap();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let call = || {
        let answers = answers.clone();
        db.call_then("wait", b"", move |answer| answers.lock().push(answer.is_ok()))
    };
    // The route is all partitions, which is one executor's.
    let mut accepted = 0;
    let refused = loop {
        match call() {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Busy), "{refused}");
    assert!((2..5).contains(&accepted), "{accepted}");
    *gate.0.lock() = true;
    gate.1.notify_all();
    db.close().unwrap();
    assert_eq!(answers.lock().len(), accepted);
    assert!(matches!(call(), Err(Error::Closed)));
}

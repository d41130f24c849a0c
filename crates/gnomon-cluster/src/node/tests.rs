//! Members in one process, whose databases are the same in the end.

use super::*;
use crate::{
    order::{Batch, EtcdLog, EtcdOptions, LocalEtcd, MemoryLog, conformance::eventually},
    protocol::Settings,
};
use gnomon_engine::{
    Conflict, Database, Direction, Isolation, KeyRange, Procedure, Ticket, Transaction, TxnOptions,
    env::Rng,
    op::number,
    replication::Ordered,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
};

const KEYS: u8 = 16;

/// Databases with the same data: those of a new cluster.
struct World {
    log: MemoryLog,
    databases: Vec<Database>,
    marks: TreeId,
    rows: TreeId,
}

/// A database in which `move` takes some of one row to another, if there is so much. The parameters are the tree (8 bytes,
/// little-endian), both rows and how much (1 each); it answers what is left.
fn database(code: &str) -> Database {
    let of_params = gnomon_engine::Procedure::new("move", code, |call, params| {
        let [tree @ .., from, to, amount] = params else { return Err(Error::procedure("11 bytes, please")) };
        let tree = TreeId(u64::from_le_bytes(tree.try_into().unwrap()));
        let mut change = |key: u8, by: i64| {
            let value = number_of(&call.get_for_update(tree, &[key])?.unwrap()) + by;
            call.put(tree, &[key], &value.to_le_bytes())?;
            Ok::<_, Error>(value)
        };
        let left = change(*from, -i64::from(*amount))?;
        change(*to, i64::from(*amount))?;
        // What it has written does not count then.
        if left < 0 { Err(Error::procedure("there is too little")) } else { Ok(left.to_le_bytes().into()) }
    });
    let procedures: Vec<Procedure> = vec![of_params, different()];
    Database::in_memory(gnomon_engine::Options { procedures, ..gnomon_engine::Options::default() }).unwrap()
}

/// One that breaks what is asked of procedures: it does something else each time that it runs.
fn different() -> Procedure {
    static RUNS: AtomicI64 = AtomicI64::new(0);
    Procedure::new("different", "1", |call, params| {
        let tree = TreeId(u64::from_le_bytes(params.try_into().unwrap()));
        call.put(tree, &[0], &RUNS.fetch_add(1, Ordering::Relaxed).to_le_bytes())?;
        Ok(Vec::new())
    })
}

fn call(database: &Database, rows: TreeId, [from, to, amount]: [u8; 3]) -> gnomon_engine::Result<i64> {
    let params = [&rows.0.to_le_bytes()[..], &[from, to, amount]].concat();
    database.call("move", &params).map(|left| number_of(&left))
}

/// One with the data of a new cluster, and its trees: that of marks, and that of rows.
fn made(code: &str) -> (Database, TreeId, TreeId) {
    let database = database(code);
    let common = Common { data: 7, settings: Settings::default() };
    let marks = create(&database, &common).unwrap();
    let mut txn = database.begin(TxnOptions::default()).unwrap();
    let rows = txn.create_tree().unwrap();
    for key in 0..KEYS {
        txn.put(rows, &[key], &100_i64.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    (database, marks, rows)
}

fn world(members: usize) -> World {
    let made: Vec<_> = (0..members).map(|_| made("1")).collect();
    let (_, marks, rows) = made[0];
    let databases = made.into_iter().map(|(database, ..)| database).collect();
    World { log: MemoryLog::default(), databases, marks, rows }
}

impl World {
    fn start(&self, member: usize) -> Node {
        let options = Options::new(format!("node {member}"), self.marks);
        let database = Arc::new(self.databases[member].clone());
        Node::start(database, Arc::new(self.log.clone()), options).unwrap()
    }

    fn contents(&self, member: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut txn = begin(&self.databases[member], Isolation::Snapshot);
        let mut scan = txn.scan(self.rows, KeyRange::all(), Direction::Forward).unwrap();
        std::iter::from_fn(|| scan.next(&mut txn).unwrap()).collect()
    }
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.begin(TxnOptions { isolation, ..TxnOptions::default() }).unwrap()
}

fn number_of(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().unwrap())
}

/// Moves something from one row to another by reading both.
fn transfer(
    database: &Database,
    rows: TreeId,
    isolation: Isolation,
    rng: &mut Rng,
) -> gnomon_engine::Result<()> {
    let mut txn = begin(database, isolation);
    let (from, to) = (rng.below(KEYS.into()) as u8, rng.below(KEYS.into()) as u8);
    if from == to {
        return Ok(());
    }
    for (key, change) in [(from, -1), (to, 1)] {
        let value = match isolation {
            Isolation::ReadCommitted => txn.get_locked(rows, &[key], gnomon_engine::RowLock::Update)?,
            _ => txn.get(rows, &[key])?,
        };
        let value = number_of(&value.unwrap()) + change;
        txn.put(rows, &[key], &value.to_le_bytes())?;
    }
    txn.commit().map(|_| ())
}

#[test]
fn members_have_the_same_data_and_no_change_is_lost() {
    let world = world(3);
    let nodes: Vec<Node> = (0..3).map(|member| world.start(member)).collect();
    let counts: Vec<(u64, u64)> = thread::scope(|scope| {
        let run = |member: usize, seed: u64| {
            let (world, database, rows) = (&world, &world.databases[member], world.rows);
            move || {
                let mut rng = Rng::from_seed(seed);
                let (mut added, mut refused) = (0, 0);
                for round in 0..60 {
                    if round % 10 == 0 {
                        world.log.put_foreign("x");
                    }
                    let isolation =
                        [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable][round % 3];
                    let done = match round % 2 {
                        0 => transfer(database, rows, isolation, &mut rng),
                        _ => (|| {
                            let mut txn = begin(database, isolation);
                            txn.apply(rows, &[0], &number::add(1))?;
                            txn.commit().map(|_| added += 1)
                        })(),
                    };
                    match done {
                        Ok(()) => {}
                        Err(Error::Serialization(_) | Error::Deadlock) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                (added, refused)
            }
        };
        let threads: Vec<_> = (0..6).map(|seed| scope.spawn(run(seed as usize % 3, seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    let contents = world.contents(0);
    assert!((1..3).all(|member| world.contents(member) == contents));
    let sum: i64 = contents.iter().map(|(_, value)| number_of(value)).sum();
    let added: u64 = counts.iter().map(|(added, _)| added).sum();
    assert_eq!(sum, 100 * i64::from(KEYS) + added as i64);
    let refused: u64 = counts.iter().map(|(_, refused)| refused).sum();
    println!("{added} added, {refused} refused, {:?}", nodes[0].status().version);
    assert!(refused > 0 && nodes.iter().all(|node| node.stopped().is_none()));
    let skipped = Skipped { count: 6 * 6, last: Some("x".into()) };
    assert!(nodes.iter().all(|node| node.status().skipped == skipped));
}

#[test]
fn a_hot_counter_is_never_refused() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    thread::scope(|scope| {
        for member in [0, 1, 0, 1] {
            let (database, rows) = (&world.databases[member], world.rows);
            scope.spawn(move || {
                for _ in 0..50 {
                    let mut txn = begin(database, Isolation::Snapshot);
                    txn.apply(rows, &[0], &number::add(1)).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
    });
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    assert!((0..2).all(|member| number_of(&world.contents(member)[0].1) == 300));
}

#[test]
fn calls_run_at_all_members_and_never_conflict() {
    let mut world = world(3);
    let mut nodes: Vec<Node> = (0..3).map(|member| world.start(member)).collect();
    let counts = thread::scope(|scope| {
        let calls: Vec<_> = (0..3)
            .map(|member| {
                let (database, rows) = (&world.databases[member], world.rows);
                scope.spawn(move || {
                    // Of all members from one row, which is empty in the end.
                    let called = |_| match call(database, rows, [0, 1, 2]) {
                        Ok(left) => left >= 0,
                        Err(error) => {
                            assert_eq!(error.to_string(), "there is too little");
                            false
                        }
                    };
                    (0..40).filter(|number| called(*number)).count()
                })
            })
            .collect();
        for member in 0..3 {
            let (database, rows) = (&world.databases[member], world.rows);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(member as u64);
                for _ in 0..60 {
                    match transfer(database, rows, Isolation::Serializable, &mut rng) {
                        Ok(()) | Err(Error::Serialization(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        calls.into_iter().map(|call| call.join().unwrap()).sum::<usize>()
    });
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    let contents = world.contents(0);
    assert!((1..3).all(|member| world.contents(member) == contents));
    assert_eq!(contents.iter().map(|(_, value)| number_of(value)).sum::<i64>(), 100 * i64::from(KEYS));
    assert!((30..70).contains(&counts), "{counts}");
    // One that panics does so at all members, which go on.
    let panicked = call(&world.databases[1], world.rows, [KEYS, 1, 1]).unwrap_err();
    assert_eq!(panicked.to_string(), "the procedure panicked");
    // A member that comes back goes on behind a call.
    let last = call(&world.databases[2], world.rows, [1, 2, 1]).unwrap();
    nodes[2].catch_up().unwrap();
    assert_eq!(number_of(&world.contents(2)[1].1), last);
    drop(nodes.pop());
    let reopened = copy_of(&world, 2);
    world.databases[2] = reopened;
    call(&world.databases[0], world.rows, [1, 2, 1]).unwrap();
    nodes.push(world.start(2));
    nodes[2].catch_up().unwrap();
    assert_eq!(world.contents(2), world.contents(0));
}

#[test]
fn who_has_done_something_else_than_a_client_was_told_stops() {
    let world = world(3);
    let nodes: Vec<Node> = (0..3).map(|member| world.start(member)).collect();
    world.databases[1].call("different", &world.rows.0.to_le_bytes()).unwrap();
    for stopped in [&nodes[0], &nodes[2]] {
        eventually("it stops", || stopped.stopped().is_some());
        let why = stopped.stopped().unwrap().to_string();
        assert!(why.contains("'different' has done something else"), "{why}");
    }
    call(&world.databases[1], world.rows, [1, 2, 1]).unwrap();
}

#[test]
fn a_member_with_another_code_of_a_procedure_stops() {
    let mut world = world(2);
    let one = world.start(0);
    (world.databases[1], ..) = made("2");
    let two = world.start(1);
    call(&world.databases[0], world.rows, [0, 1, 1]).unwrap();
    one.catch_up().unwrap();
    let stopped = two.catch_up().unwrap_err().to_string();
    assert!(stopped.contains("'move' has another code"), "{stopped}");
    let refused = call(&world.databases[1], world.rows, [0, 1, 1]).unwrap_err();
    assert!(matches!(refused, Error::Apart(_)), "{refused}");
    eventually("it has left, and is not waited for", || one.status().overview.members.len() == 1);
}

#[test]
fn who_comes_back_goes_on_where_it_was() {
    let world = world(2);
    let first = world.start(0);
    let mut rng = Rng::from_seed(1);
    let mut run = |member: usize, count: usize| {
        for _ in 0..count {
            let database = &world.databases[member];
            transfer(database, world.rows, Isolation::Serializable, &mut rng).unwrap();
        }
    };
    run(0, 20);
    let second = world.start(1);
    second.catch_up().unwrap();
    assert_eq!(world.contents(1), world.contents(0));
    let member = second.status().member;
    drop(second);
    run(0, 20);
    // Another life, of the same database opened again.
    let backup = world.contents(1);
    assert_ne!(backup, world.contents(0));
    let mut world = world;
    let reopened = copy_of(&world, 1);
    world.databases[1] = reopened;
    let second = world.start(1);
    assert_ne!(second.status().member, member);
    second.catch_up().unwrap();
    assert_eq!(world.contents(1), world.contents(0));
    assert_eq!(first.status().version, second.status().version);
    transfer(&world.databases[1], world.rows, Isolation::Snapshot, &mut Rng::from_seed(9)).unwrap();
    first.catch_up().unwrap();
    assert_eq!(world.contents(1), world.contents(0));
}

/// A database with what a member's has, as a backup of it would be.
fn copy_of(world: &World, member: usize) -> Database {
    let copy = database("1");
    let mut txn = copy.begin(TxnOptions::default()).unwrap();
    assert_eq!((txn.create_tree().unwrap(), txn.create_tree().unwrap()), (world.marks, world.rows));
    let mut from = begin(&world.databases[member], Isolation::Snapshot);
    for tree in [world.marks, world.rows] {
        let mut scan = from.scan(tree, KeyRange::all(), Direction::Forward).unwrap();
        while let Some((key, value)) = scan.next(&mut from).unwrap() {
            txn.put(tree, &key, &value).unwrap();
        }
    }
    txn.commit().unwrap();
    copy
}

#[test]
fn who_accepts_to_have_missed_nothing_waits_for_his_beginning() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    let strict = |member: usize| {
        let options =
            TxnOptions { isolation: Isolation::Snapshot, missed_max: Some(0), ..TxnOptions::default() };
        let mut txn = world.databases[member].begin(options).unwrap();
        let value = txn.get(world.rows, &[3]).unwrap();
        txn.commit().map(|_| number_of(&value.unwrap()))
    };
    let mut rng = Rng::from_seed(4);
    for round in 0..30 {
        let mut txn = begin(&world.databases[0], Isolation::Snapshot);
        txn.put(world.rows, &[3], &i64::from(round).to_le_bytes()).unwrap();
        txn.commit().unwrap();
        let reader = rng.below(2) as usize;
        // A commit that was told before is not missed; a transaction that would miss it is refused.
        match strict(reader) {
            Ok(value) => assert_eq!(value, i64::from(round)),
            Err(error) => assert!(matches!(error, Error::Serialization(_)), "{error}"),
        }
    }
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    assert_eq!(strict(1).unwrap(), 29);
}

#[test]
fn who_was_held_for_gone_comes_back_by_itself() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    let former = nodes[1].status().member;
    let mut rng = Rng::from_seed(2);
    for round in 0..40 {
        if round % 10 == 5 {
            world.log.fence(nodes[1].status().member);
        }
        match transfer(&world.databases[1], world.rows, Isolation::Snapshot, &mut rng) {
            // Whether one is refused or waits for the next life is a matter of the moment.
            Ok(()) | Err(Error::Serialization(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    assert!(nodes.iter().all(|node| node.stopped().is_none()));
    assert_ne!(nodes[1].status().member, former);
    assert_eq!(world.contents(1), world.contents(0));
    // Of what was told of in a former life, that is the end.
    let former = nodes[1].status().member;
    let options = TxnOptions { isolation: Isolation::Snapshot, missed_max: Some(0), ..TxnOptions::default() };
    let mut txn = world.databases[1].begin(options).unwrap();
    txn.get(world.rows, &[3]).unwrap();
    world.log.fence(former);
    eventually("it is back", || nodes[1].status().member != former);
    assert!(matches!(txn.commit(), Err(Error::Serialization(_))));
    assert_eq!(nodes[1].status().ended.get(&(Level::KBound(0), Some(Conflict::Gone.into()))), Some(&1));
}

#[test]
fn what_must_not_be_old_is_not() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    for round in 0..30_i64 {
        let mut txn = begin(&world.databases[0], Isolation::Snapshot);
        txn.put(world.rows, &[3], &round.to_le_bytes()).unwrap();
        txn.commit().unwrap();
        for (isolation, read_only) in [(Isolation::ReadCommitted, true), (Isolation::Snapshot, false)] {
            let age_max = Some(Duration::ZERO);
            let options = TxnOptions { isolation, read_only, age_max, ..TxnOptions::default() };
            let mut txn = world.databases[1].begin(options).unwrap();
            assert_eq!(number_of(&txn.get(world.rows, &[3]).unwrap().unwrap()), round);
        }
    }
    drop(nodes);
    let options = TxnOptions { age_max: Some(Duration::from_secs(1)), ..TxnOptions::default() };
    let mut txn = world.databases[1].begin(options).unwrap();
    assert!(matches!(txn.get(world.rows, &[3]), Err(Error::Apart(_))), "it has left");
    assert!(begin(&world.databases[1], Isolation::Snapshot).get(world.rows, &[3]).unwrap().is_some());
    let refused = transfer(&world.databases[1], world.rows, Isolation::Snapshot, &mut Rng::from_seed(1));
    assert!(matches!(refused, Err(Error::Apart(_))));
}

#[test]
fn a_log_is_for_one_database_and_is_trimmed() {
    let world = world(2);
    let mut options = Options::new("node 0", world.marks);
    options.absent_max = Duration::ZERO;
    let start = |options: &Options| {
        let database = Arc::new(world.databases[0].clone());
        Node::start(database, Arc::new(world.log.clone()), options.clone())
    };
    let first = start(&options).unwrap();
    let second = world.start(1);
    let mut rng = Rng::from_seed(3);
    for _ in 0..50 {
        let _ = transfer(&world.databases[0], world.rows, Isolation::Snapshot, &mut rng);
    }
    second.catch_up().unwrap();
    let trimmed = || {
        let refused = crate::order::OrderedLog::after(&world.log.clone(), 0, Duration::ZERO);
        matches!(refused, Err(LogError::Refused(crate::order::Refused::Trimmed { .. })))
    };
    eventually("it is trimmed", trimmed);
    // What commits nothing is trimmed as well.
    let newest = crate::order::OrderedLog::newest(&world.log).unwrap();
    let begin_bounded = || {
        let options =
            TxnOptions { isolation: Isolation::Snapshot, missed_max: Some(3), ..TxnOptions::default() };
        world.databases[0].begin(options).unwrap()
    };
    for _ in 0..5000 {
        let mut txn = begin_bounded();
        txn.get(world.rows, &[0]).unwrap();
        txn.commit().unwrap();
    }
    eventually("it is trimmed without commits", || {
        let refused = crate::order::OrderedLog::after(&world.log.clone(), newest, Duration::ZERO);
        matches!(refused, Err(LogError::Refused(crate::order::Refused::Trimmed { .. })))
    });
    drop((first, second));

    let other = Database::in_memory(gnomon_engine::Options::default()).unwrap();
    let common = Common { data: 8, settings: Settings::default() };
    let marks = create(&other, &common).unwrap();
    let foreign = Node::start(Arc::new(other), Arc::new(world.log.clone()), Options::new("other", marks));
    let why = foreign.err().unwrap().to_string();
    assert!(why.contains("of another cluster"), "{why}");
    let elsewhere = MemoryLog::default();
    let copy = copy_of(&world, 0);
    let lost = Node::start(Arc::new(copy), Arc::new(elsewhere), Options::new("other", world.marks));
    let why = lost.err().unwrap().to_string();
    assert!(why.contains("is empty"), "{why}");
}

/// A database to which nothing is applied while a thread holds its lock.
struct Held(Database, Arc<Mutex<()>>);

impl Applier for Held {
    fn database(&self) -> &Database {
        &self.0
    }

    fn apply(&self, ordered: &Ordered<'_>) -> gnomon_engine::Result<Option<Ticket>> {
        let _held = self.1.lock();
        self.0.apply(ordered)
    }
}

/// One that is soon full.
fn small_etcd(directory: &std::path::Path) -> Option<LocalEtcd> {
    match LocalEtcd::start(directory, 1, &["--quota-backend-bytes=8000000"]) {
        Ok(etcd) => Some(etcd),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: etcd is not installed (Debian package etcd-server)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_full_etcd_has_room_again_when_who_is_behind_has_come_after() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = small_etcd(directory.path()) else { return };
    let world = world(2);
    let held = Arc::new(Mutex::new(()));
    let start = |member: usize, applier: Arc<dyn Applier>| {
        let log = EtcdLog::open(&EtcdOptions::new(etcd.endpoints(0))).unwrap();
        Node::start(applier, Arc::new(log), Options::new(format!("node {member}"), world.marks)).unwrap()
    };
    let nodes = [
        start(0, Arc::new(world.databases[0].clone())),
        start(1, Arc::new(Held(world.databases[1].clone(), held.clone()))),
    ];
    let is_full = || nodes[0].shared.state.lock().is_full;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Commits wait while it is full, or are refused.
        let writer = scope.spawn(|| {
            let put = |row: u64| {
                let mut txn = begin(&world.databases[0], Isolation::Snapshot);
                // Every other one is in pieces, between which it may get full.
                let bytes = if row.is_multiple_of(2) { 300_000 } else { 1_200_000 };
                txn.put(world.rows, &row.to_be_bytes(), &vec![0; bytes])?;
                txn.commit()
            };
            (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).filter(|row| put(*row).is_ok()).count()
        });
        let rounds = scope.spawn(|| {
            for round in 0..2 {
                let behind = held.lock();
                eventually("it is full", is_full);
                drop(behind);
                eventually(&format!("it has room, round {round}"), || !is_full());
            }
        });
        let ended = rounds.join();
        is_over.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 2 * 4);
        ended.unwrap();
    });
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    assert_eq!(world.contents(1), world.contents(0));
}

#[test]
fn who_has_what_the_log_has_not_does_not_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path().join("data"), gnomon_engine::Options::default()).unwrap();
    let database = open();
    let marks = create(&database, &Common { data: 7, settings: Settings::default() }).unwrap();
    let options = Options::new("node", marks);
    let log = Arc::new(MemoryLog::default());
    let node = Node::start(Arc::new(database.clone()), log, options.clone()).unwrap();
    for _ in 0..3 {
        let mut txn = begin(&database, Isolation::Snapshot);
        txn.create_tree().unwrap();
        txn.commit().unwrap();
    }
    drop((node, database));
    let database = open();
    let older = MemoryLog::default();
    assert_eq!(older.data(Some(7)), Ok(Some(7)));
    let start = || Node::start(Arc::new(database.clone()), Arc::new(older.clone()), options.clone());
    let is_lost = |stopped: Stopped| matches!(stopped, Stopped::Log(LogError::Foreign(_)));
    assert!(start().err().is_some_and(is_lost), "it ends before that");
    assert_eq!(older.members(), Ok(Vec::new()), "it has not joined");
    let other = older.join("other", "").unwrap();
    for sequence in 1..=20 {
        let entries = vec![Entry::Begin(TxnName { member: other, number: sequence })];
        older.append(other, &Batch { sequence, entries }).unwrap();
    }
    let node = start().unwrap();
    assert!(node.catch_up().err().is_some_and(is_lost), "it has gone on without that");
}

#[test]
fn a_member_whose_thread_panics_stops() {
    struct Panics(Database);
    impl Applier for Panics {
        fn database(&self) -> &Database {
            &self.0
        }

        fn apply(&self, _: &Ordered<'_>) -> gnomon_engine::Result<Option<Ticket>> {
            panic!("as it should in this test")
        }
    }
    let world = world(1);
    let applier = Arc::new(Panics(world.databases[0].clone()));
    let node = Node::start(applier, Arc::new(world.log.clone()), Options::new("node", world.marks)).unwrap();
    let mut txn = begin(&world.databases[0], Isolation::Snapshot);
    txn.put(world.rows, b"row", b"value").unwrap();
    let told = txn.commit().map(drop);
    assert!(matches!(told, Err(Error::Unresolved(_))), "{told:?}");
    assert!(node.stopped().is_some_and(|why| why.to_string().contains("panicked")));
    eventually("it has left", || world.log.members().unwrap().is_empty());
}

/// A copy may take long, and the log is kept for it meanwhile.
#[test]
fn who_has_copied_while_etcd_became_full_goes_on_and_gives_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = small_etcd(directory.path()) else { return };
    let world = world(2);
    let open = || Arc::new(EtcdLog::open(&EtcdOptions::new(etcd.endpoints(0))).unwrap());
    let start = |member: usize, log: Arc<EtcdLog>, joined: Option<Member>| {
        let address = "there".to_owned();
        let options = Options { joined, address, ..Options::new(format!("node {member}"), world.marks) };
        Node::start(Arc::new(world.databases[member].clone()), log, options).unwrap()
    };
    let writing = start(0, open(), None);
    let log = open();
    let member = log.join("node 1", "").unwrap();
    log.keep_after(member, 0).unwrap();
    let put = |row: u64| {
        let mut txn = begin(&world.databases[0], Isolation::Snapshot);
        txn.put(world.rows, &row.to_be_bytes(), &vec![0; 300_000]).unwrap();
        txn.commit()
    };
    thread::scope(|scope| {
        // The last of them waits for room.
        scope.spawn(|| (0..40).for_each(|row| while put(row).is_err() {}));
        eventually("it is full", || writing.shared.state.lock().is_full);
        let copied = start(1, log.clone(), Some(member));
        eventually("it has room", || !writing.shared.state.lock().is_full);
        assert_eq!(copied.status().member, member);
        eventually("it is reached", || {
            log.members().unwrap().iter().any(|info| info.member == member && info.address == "there")
        });
        copied.catch_up().unwrap();
        while copied.status().version < Version(40) {
            copied.catch_up().unwrap();
        }
        assert_eq!(world.contents(1), world.contents(0));
    });
}

#[test]
fn who_cannot_commit_any_more_is_told_at_the_next_statement() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    let put = |database: &Database, key: u8| {
        let mut txn = begin(database, Isolation::Snapshot);
        txn.put(world.rows, &[key], &7_i64.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    };
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let mut txn = begin(&world.databases[0], isolation);
        txn.start_statement().unwrap();
        // What a serializable one has read counts when it changes something.
        let (read, written) = if isolation == Isolation::Serializable { (1, 2) } else { (3, 1) };
        txn.get(world.rows, &[read]).unwrap();
        txn.put(world.rows, &[written], &8_i64.to_le_bytes()).unwrap();
        txn.start_statement().unwrap();
        put(&world.databases[1], 5);
        nodes[0].catch_up().unwrap();
        txn.start_statement().unwrap();
        txn.get(world.rows, &[5]).unwrap();
        put(&world.databases[1], 1);
        nodes[0].catch_up().unwrap();
        txn.put(world.rows, &[6], &8_i64.to_le_bytes()).unwrap();
        let told = txn.start_statement();
        assert!(matches!(told, Err(Error::Serialization(_))), "{isolation:?}: {told:?}");
    }
    // Transactions that go on in vain all the same, and those that go back, leave nothing.
    let mut txn = begin(&world.databases[0], Isolation::Snapshot);
    txn.put(world.rows, &[1], &8_i64.to_le_bytes()).unwrap();
    txn.start_statement().unwrap();
    drop(txn);
    assert!(nodes[0].shared.state.lock().begun.is_empty());
}

#[test]
fn a_log_that_has_gone_back_is_not_followed() {
    let world = world(2);
    let common = |log: &MemoryLog| crate::order::OrderedLog::data(log, Some(7)).unwrap();
    let put = |database: &Database, number: i64| {
        let mut txn = begin(database, Isolation::Snapshot);
        txn.put(world.rows, &[1], &number.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    };
    // What the second one has committed is in the log of before no more; others have committed in its place.
    let second = world.start(1);
    put(&world.databases[1], 1);
    drop(second);
    let mut back = World { log: MemoryLog::default(), ..world };
    common(&back.log);
    back.databases[1] = copy_of(&back, 1);
    let first = back.start(0);
    for number in 0..10_i64 {
        let mut txn = begin(&back.databases[0], Isolation::Snapshot);
        txn.put(back.rows, &[2], &number.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    }
    let second = back.start(1);
    let stopped = second.catch_up().unwrap_err().to_string();
    assert!(stopped.contains("has not the last commit"), "{stopped}");
    first.catch_up().unwrap();
}

#[test]
fn a_lock_on_a_whole_tree_counts_from_when_it_was_taken() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    let mut txn = begin(&world.databases[0], Isolation::ReadCommitted);
    txn.lock_tree(world.rows, gnomon_engine::TreeLock::Shared).unwrap();
    let mut other = begin(&world.databases[1], Isolation::Snapshot);
    other.put(world.rows, &[5], &7_i64.to_le_bytes()).unwrap();
    other.commit().unwrap();
    nodes[0].catch_up().unwrap();
    // What is told of first is based on more than the lock.
    txn.put(world.rows, &[6], &7_i64.to_le_bytes()).unwrap();
    txn.start_statement().unwrap();
    assert!(matches!(txn.commit(), Err(Error::Serialization(_))));
}

#[test]
fn what_changes_very_many_rows_changes_the_whole_tree() {
    let world = world(2);
    let nodes: Vec<Node> = (0..2).map(|member| world.start(member)).collect();
    let rows = 2 * session::TOUCHED_BYTES_MAX as u64 / session::ROW_BYTES as u64;
    let mut large = begin(&world.databases[0], Isolation::Snapshot);
    for row in 0..rows {
        large.put(world.rows, &row.to_be_bytes(), &row.to_le_bytes()).unwrap();
    }
    let mut beside = begin(&world.databases[1], Isolation::Snapshot);
    beside.put(world.rows, &[3], &7_i64.to_le_bytes()).unwrap();
    large.commit().unwrap();
    nodes[1].catch_up().unwrap();
    assert!(matches!(beside.commit(), Err(Error::Serialization(_))), "it has written there");
    assert_eq!(world.contents(0).len() as u64, rows + u64::from(KEYS));
    assert_eq!(world.contents(1), world.contents(0));
    // Its mark is read again.
    drop(nodes);
    let node = world.databases[1].clone();
    assert_eq!(marks::read(&node, world.marks).unwrap().last.unwrap().touched.len(), 1);
}

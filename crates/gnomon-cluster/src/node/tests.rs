//! Members in one process, whose databases are the same in the end.

use super::*;
use crate::order::MemoryLog;
use gnomon::{Direction, KeyRange, Transaction, TxnOptions, env::Rng, op::number};

const KEYS: u8 = 16;

/// Databases with the same data: those of a new cluster.
struct World {
    log: MemoryLog,
    databases: Vec<Database>,
    marks: TreeId,
    rows: TreeId,
}

fn world(members: usize) -> World {
    let made: Vec<_> = (0..members)
        .map(|_| {
            let database = Database::in_memory(gnomon::Options::default()).unwrap();
            let marks = create(&database).unwrap();
            let mut txn = database.begin(TxnOptions::default()).unwrap();
            let rows = txn.create_tree().unwrap();
            for key in 0..KEYS {
                txn.put(rows, &[key], &100_i64.to_le_bytes()).unwrap();
            }
            txn.commit().unwrap();
            (database, marks, rows)
        })
        .collect();
    let (_, marks, rows) = made[0];
    let databases = made.into_iter().map(|(database, ..)| database).collect();
    World { log: MemoryLog::default(), databases, marks, rows }
}

impl World {
    fn start(&self, member: usize) -> Node {
        let options =
            Options { name: format!("node {member}"), marks: self.marks, settings: Settings::default() };
        Node::start(self.databases[member].clone(), Arc::new(self.log.clone()), options).unwrap()
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
fn transfer(database: &Database, rows: TreeId, isolation: Isolation, rng: &mut Rng) -> gnomon::Result<()> {
    let mut txn = begin(database, isolation);
    let (from, to) = (rng.below(KEYS.into()) as u8, rng.below(KEYS.into()) as u8);
    if from == to {
        return Ok(());
    }
    for (key, change) in [(from, -1), (to, 1)] {
        let value = match isolation {
            Isolation::ReadCommitted => txn.get_locked(rows, &[key], gnomon::RowLock::Update)?,
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
            let (database, rows) = (&world.databases[member], world.rows);
            move || {
                let mut rng = Rng::from_seed(seed);
                let (mut added, mut refused) = (0, 0);
                for round in 0..60 {
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
                        Err(Error::Serialization | Error::Deadlock) => refused += 1,
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
    println!("{added} added, {refused} refused, {:?}", nodes[0].version());
    assert!(refused > 0 && nodes.iter().all(|node| node.stopped().is_none()));
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
    let member = second.member();
    drop(second);
    run(0, 20);
    // Another life, of the same database opened again.
    let backup = world.contents(1);
    assert_ne!(backup, world.contents(0));
    let mut world = world;
    let reopened = copy_of(&world, 1);
    world.databases[1] = reopened;
    let second = world.start(1);
    assert_ne!(second.member(), member);
    second.catch_up().unwrap();
    assert_eq!(world.contents(1), world.contents(0));
    assert_eq!(first.version(), second.version());
    transfer(&world.databases[1], world.rows, Isolation::Snapshot, &mut Rng::from_seed(9)).unwrap();
    first.catch_up().unwrap();
    assert_eq!(world.contents(1), world.contents(0));
}

/// A database with what a member's has, as a backup of it would be.
fn copy_of(world: &World, member: usize) -> Database {
    let copy = Database::in_memory(gnomon::Options::default()).unwrap();
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
        // What was told to have committed before is not missed; who would is refused.
        match strict(reader) {
            Ok(value) => assert_eq!(value, i64::from(round)),
            Err(error) => assert!(matches!(error, Error::Serialization), "{error}"),
        }
    }
    nodes.iter().for_each(|node| node.catch_up().unwrap());
    assert_eq!(strict(1).unwrap(), 29);
}

//! Members of a cluster that are killed and paused under load, and etcd beneath them: nothing acknowledged is lost, every
//! level keeps its promises, and all members have the same data.
//!
//! `GNOMON_CLUSTER_FAULTS` is the number of faults (4), `GNOMON_SEED` where random numbers begin.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    thread,
    time::{Duration, Instant},
};

use gnomon_engine::{env::Rng, sync::Mutex};
use postgres::{Client, error::SqlState};

use crate::{
    cluster::{LONG, Member, World, one, retried, same, world},
    harness::from_environment,
    history::{Level, Lists, Outcome, Record, violations},
};

const NAMES: [&str; 3] = ["one", "two", "three"];
const LISTS: u64 = 8;
const CLIENTS: u64 = 6;

/// Runs a transaction; what it read and appended goes into the record.
fn run(
    client: &mut Client,
    record: &mut Record,
    rng: &mut Rng,
    next: &AtomicI64,
) -> Result<(), postgres::Error> {
    let begin = match record.level {
        Level::ReadCommitted => "BEGIN",
        Level::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Level::Strict => "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL gnomon.k = 0",
        Level::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
    };
    client.batch_execute(begin)?;
    let first = rng.below(LISTS) as i32;
    let lists = [first, (first + 1 + rng.below(LISTS - 1) as i32) % LISTS as i32];
    for list in lists {
        let items: String = client.query_one("SELECT items FROM lists WHERE id = $1", &[&list])?.get(0);
        let items = items.split_whitespace().map(|item| item.parse().unwrap()).collect();
        record.reads.push((list, items));
    }
    for list in &lists[..rng.below(3) as usize] {
        let item = next.fetch_add(1, Ordering::Relaxed);
        record.appends.push((*list, item));
        let update = "UPDATE lists SET items = items || $1 || ' ' WHERE id = $2";
        client.execute(update, &[&item.to_string(), list])?;
    }
    client.batch_execute("COMMIT")
}

/// Runs transactions at one member after another.
fn client(members: &[Mutex<Option<Member>>], seed: u64, next: &AtomicI64, stop: &AtomicBool) -> Vec<Record> {
    let (mut rng, mut records) = (Rng::from_seed(seed), Vec::new());
    let mut connection: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(client) = &mut connection else {
            let member = rng.below(members.len() as u64) as usize;
            let config = "connect_timeout=2 options='-c statement_timeout=20s'";
            connection = members[member].lock().as_ref().and_then(|member| member.connect_with(config).ok());
            if connection.is_none() {
                thread::sleep(Duration::from_millis(20));
            }
            continue;
        };
        let level = Level::ALL[rng.below(4) as usize];
        let now = Instant::now();
        let (reads, appends) = (Vec::new(), Vec::new());
        let mut record = Record { level, begun: now, ended: now, outcome: Outcome::Refused, reads, appends };
        let ran = run(client, &mut record, &mut rng, next);
        record.ended = Instant::now();
        record.outcome = match ran.as_ref().map_err(|error| error.code().cloned()) {
            Ok(()) => Outcome::Committed,
            Err(Some(
                SqlState::T_R_SERIALIZATION_FAILURE
                | SqlState::T_R_DEADLOCK_DETECTED
                | SqlState::CANNOT_CONNECT_NOW,
            )) => Outcome::Refused,
            // The connection, or the member.
            Err(
                None
                | Some(
                    SqlState::TRANSACTION_RESOLUTION_UNKNOWN
                    | SqlState::ADMIN_SHUTDOWN
                    | SqlState::QUERY_CANCELED,
                ),
            ) => Outcome::Unknown,
            Err(Some(_)) => panic!("{ran:?}"),
        };
        match ran {
            Err(error) if error.code().is_none() => connection = None,
            Err(_) => drop(client.batch_execute("ROLLBACK")),
            Ok(()) => {}
        }
        records.push(record);
    }
    records
}

fn lists(client: &mut Client) -> Lists {
    let rows = client.query("SELECT id, items FROM lists", &[]).unwrap();
    let items = |items: String| items.split_whitespace().map(|item| item.parse().unwrap()).collect();
    rows.iter().map(|row| (row.get(0), items(row.get(1)))).collect()
}

/// Does something to a member or a node of etcd, and has it come back.
fn fault(world: &mut World, members: &[Mutex<Option<Member>>], rng: &mut Rng) {
    let pause = Duration::from_millis(200 + rng.below(1500));
    let (member, node) = (rng.below(3) as usize, rng.below(world.etcd.count() as u64) as usize);
    let signal = |id: u32, signal: &str| {
        let sent = std::process::Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
        assert!(sent.success());
    };
    match rng.below(5) {
        0 | 1 => {
            println!("member {member} is killed for {pause:?}");
            members[member].lock().take().unwrap().kill();
            thread::sleep(pause);
            *members[member].lock() = Some(world.start(NAMES[member]));
        }
        2 => {
            // Sometimes for longer than its lease.
            let pause = pause * 5;
            println!("member {member} is paused for {pause:?}");
            let id = members[member].lock().as_ref().unwrap().process_id();
            signal(id, "-STOP");
            thread::sleep(pause);
            signal(id, "-CONT");
        }
        3 => {
            println!("node {node} of etcd is killed for {pause:?}");
            world.etcd.kill(node).unwrap();
            thread::sleep(pause);
            world.etcd.start_node(node).unwrap();
        }
        _ => {
            println!("node {node} of etcd is paused for {pause:?}");
            let id = world.etcd.process_id(node).unwrap();
            signal(id, "-STOP");
            thread::sleep(pause);
            signal(id, "-CONT");
        }
    }
}

#[test]
fn levels_keep_their_promises_while_members_and_etcd_fail() {
    let Some(mut world) = world(3) else { return };
    let seed = from_environment("GNOMON_SEED", Rng::from_entropy().below(1_000_000));
    println!("GNOMON_SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let members = NAMES.map(|name| Mutex::new(Some(world.start(name))));
    {
        let mut client = members[0].lock().as_ref().unwrap().connect();
        retried(&mut client, "CREATE TABLE lists (id int PRIMARY KEY, items text NOT NULL)");
        retried(
            &mut client,
            &format!("INSERT INTO lists SELECT n, '' FROM generate_series(0, {}) AS n", LISTS - 1),
        );
    }
    let connect = |member: usize| {
        let begun = Instant::now();
        loop {
            let connected = members[member].lock().as_ref().unwrap().connect_with("");
            match connected {
                Ok(client) => return client,
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
        }
    };
    for member in 1..3 {
        let begun = Instant::now();
        while one(&mut connect(member), "SELECT count(*) FROM pg_tables WHERE tablename = 'lists'") == "0" {
            assert!(begun.elapsed() < LONG);
        }
    }
    let next = AtomicI64::new(1);
    for number in 0..from_environment("GNOMON_CLUSTER_FAULTS", 4) {
        let stop = AtomicBool::new(false);
        let mut records: Vec<Record> = Vec::new();
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| rng.next_u64()).collect();
        thread::scope(|scope| {
            let start = |seed| {
                let (members, next, stop) = (&members, &next, &stop);
                scope.spawn(move || client(members, seed, next, stop))
            };
            let clients: Vec<_> = seeds.into_iter().map(start).collect();
            thread::sleep(Duration::from_millis(300));
            fault(&mut world, &members, &mut rng);
            thread::sleep(Duration::from_millis(700));
            stop.store(true, Ordering::Relaxed);
            records.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
        });
        let mut clients: Vec<Client> = (0..3).map(connect).collect();
        same(&mut clients);
        let found = violations(&records, &lists(&mut clients[0]));
        assert!(found.is_empty(), "fault {number}: {} violations, as {}", found.len(), found[0]);
        let count = |outcome| records.iter().filter(|record| record.outcome == outcome).count();
        let [committed, refused, unknown] =
            [Outcome::Committed, Outcome::Refused, Outcome::Unknown].map(count);
        println!("fault {number}: {committed} committed, {refused} refused, {unknown} unknown");
        retried(&mut clients[0], "UPDATE lists SET items = ''");
    }
}

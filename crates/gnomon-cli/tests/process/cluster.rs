//! Members of a cluster as processes, on etcd. Without etcd these tests say so, and test nothing.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use gnomon_cluster::order::LocalEtcd;
use gnomon_engine::{
    env::Rng,
    sync::{Arc, Mutex},
};
use postgres::{Client, NoTls, error::SqlState};
use tempfile::TempDir;

use crate::harness::{gnomon, run, text};

/// How long what takes place at some time may take.
pub const LONG: Duration = Duration::from_secs(60);

/// An etcd, and the data of members.
pub struct World {
    pub etcd: LocalEtcd,
    directory: TempDir,
}

pub fn world(etcd_nodes: usize) -> Option<World> {
    world_with(etcd_nodes, &[])
}

pub fn world_with(etcd_nodes: usize, options: &[&str]) -> Option<World> {
    let directory = tempfile::tempdir().unwrap();
    match LocalEtcd::start(&directory.path().join("etcd"), etcd_nodes, options) {
        Ok(etcd) => {
            wait_until_listening(&etcd.endpoints(0));
            Some(World { etcd, directory })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: etcd is not installed (Debian package etcd-server)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the first of an etcd's endpoints accepts connections: what members say of it is asserted.
fn wait_until_listening(endpoints: &str) {
    let first = endpoints.split(',').next().unwrap();
    let (_, address) = first.split_once("://").unwrap();
    let began = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        assert!(began.elapsed() < LONG, "etcd at {first}: {error}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A member as a process; killed when dropped.
pub struct Member {
    child: Child,
    pub port: u16,
    /// What it has said on standard error.
    said: Arc<Mutex<String>>,
}

impl World {
    fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn arguments(&self, name: &str) -> Vec<String> {
        let data = self.data(name);
        let endpoints = self.etcd.endpoints(0);
        let arguments =
            ["serve", text(&data), "--listen", "127.0.0.1:0", "--metrics", "0", "--cluster", &endpoints];
        arguments.map(str::to_owned).to_vec()
    }

    pub fn start(&self, name: &str) -> Member {
        self.try_start(name, &[]).unwrap_or_else(|why| panic!("{why}"))
    }

    /// What it says if it does not serve.
    pub fn try_start(&self, name: &str, more: &[&str]) -> Result<Member, String> {
        let arguments = self.arguments(name);
        let named = ["--node", name];
        let more = if more.contains(&"--node") { more } else { &[&named, more].concat()[..] };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut child = gnomon(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut errors = child.stderr.take().unwrap();
        match line.trim().rsplit(':').next().and_then(|port| port.parse().ok()) {
            Some(port) => {
                let said = Arc::new(Mutex::new(String::new()));
                let heard = said.clone();
                // So that it never waits for somebody to read.
                thread::spawn(move || {
                    for line in BufReader::new(errors).lines().map_while(Result::ok) {
                        println!("{line}");
                        *heard.lock() += &format!("{line}\n");
                    }
                });
                Ok(Member { child, port, said })
            }
            None => {
                let mut said = String::new();
                errors.read_to_string(&mut said).unwrap();
                assert_ne!(child.wait().unwrap().code(), Some(0), "{said}");
                Err(said)
            }
        }
    }
}

impl Member {
    pub fn connect(&self) -> Client {
        self.connect_with("").unwrap()
    }

    pub fn connect_with(&self, more: &str) -> Result<Client, postgres::Error> {
        let config = format!("host=127.0.0.1 port={} user=gnomon dbname=gnomon {more}", self.port);
        Client::connect(&config, NoTls)
    }

    /// Waits until it has said something.
    pub fn has_said(&self, what: &str) {
        let begun = Instant::now();
        while !self.said.lock().contains(what) {
            assert!(begun.elapsed() < LONG, "{what}: {}", self.said.lock());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it answers over HTTP where its metrics are.
    pub fn http(&self, request: &str) -> String {
        self.has_said("metrics at http://");
        let said = self.said.lock().clone();
        let address = said.split("metrics at http://").nth(1).and_then(|rest| rest.split('/').next());
        let mut stream = TcpStream::connect(address.unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> String {
        let metrics = self.http("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        metrics.lines().find_map(value).unwrap_or_else(|| panic!("{name}: {metrics}"))
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ctrl-C.
    pub fn stop(mut self) {
        self.signal("-INT");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a query has this answer.
pub fn eventually(client: &mut Client, query: &str, expected: &str) {
    let begun = Instant::now();
    loop {
        let answer = one(client, query);
        if answer == expected {
            return;
        }
        assert!(begun.elapsed() < LONG, "{query}: {answer} instead of {expected}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The rows of a query as one text.
pub fn one(client: &mut Client, query: &str) -> String {
    let rows = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let row = |message| match message {
        postgres::SimpleQueryMessage::Row(row) => {
            let values: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
            Some(values.join(","))
        }
        _ => None,
    };
    rows.into_iter().filter_map(row).collect::<Vec<_>>().join(";")
}

/// Runs a statement again until it is not refused for what others do at the same time.
pub fn retried(client: &mut Client, statement: &str) {
    let begun = Instant::now();
    while let Err(error) = client.simple_query(statement) {
        let state = error.code().cloned();
        assert_eq!(state, Some(SqlState::T_R_SERIALIZATION_FAILURE), "{statement}: {error:?}");
        assert!(begun.elapsed() < LONG, "{statement}");
    }
}

/// The texts that make an identical dump of all data.
fn dump(client: &mut Client) -> String {
    let tables = one(
        client,
        "SELECT string_agg(tablename, ',' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'",
    );
    let tables = tables.split(',').filter(|table| *table != "NULL");
    let dump = |table: &str| {
        let rows = one(client, &format!("SELECT * FROM {table}"));
        let mut rows: Vec<&str> = rows.split(';').collect();
        rows.sort_unstable();
        format!("{table}: {}\n", rows.join(";"))
    };
    tables.map(dump).collect()
}

/// Checks that members have the same data when all of them have all.
pub fn same(clients: &mut [Client]) -> String {
    let dumps: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            client.simple_query("SET gnomon.max_staleness = 0").unwrap();
            dump(client)
        })
        .collect();
    for other in &dumps[1..] {
        assert_eq!(other, &dumps[0]);
    }
    dumps.into_iter().next().unwrap()
}

#[test]
fn members_have_the_same_data_whoever_changes_them_and_their_tables() {
    let Some(world) = world(1) else { return };
    let members = ["one", "two", "three"].map(|name| world.start(name));
    let mut clients: Vec<Client> = members.iter().map(Member::connect).collect();
    retried(
        &mut clients[0],
        "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0))",
    );
    retried(&mut clients[0], "INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 10) AS n");
    eventually(&mut clients[2], "SELECT count(*) FROM pg_tables WHERE tablename = 'accounts'", "1");
    eventually(&mut clients[2], "SELECT sum(balance) FROM accounts", "1000");
    retried(&mut clients[2], "CREATE TABLE notes (n serial, text text)");
    retried(&mut clients[2], "CREATE INDEX ON notes (text)");
    retried(&mut clients[1], "SET gnomon.max_staleness = 0");
    // All insert into a table without a primary key, with values of a sequence.
    thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                eventually(client, "SELECT count(*) FROM pg_indexes WHERE tablename = 'notes'", "1");
                for note in 0..100 {
                    retried(client, &format!("INSERT INTO notes (text) VALUES ('{number} {note}')"));
                    retried(client, "UPDATE accounts SET balance = balance + 1 WHERE id = 1");
                }
            });
        }
    });
    // Tables change while rows are written.
    thread::scope(|scope| {
        let [one, two, three] = &mut clients[..] else { unreachable!() };
        scope.spawn(|| retried(one, "CREATE INDEX ON accounts (balance)"));
        scope.spawn(|| retried(two, "ALTER TABLE notes ADD COLUMN more int"));
        scope.spawn(|| {
            (11..40).for_each(|id| retried(three, &format!("INSERT INTO accounts VALUES ({id}, {id})")))
        });
    });
    let data = same(&mut clients);
    assert!(data.contains("1,400;"), "{data}");
    for client in &mut clients {
        assert_eq!(one(client, "SELECT count(*), count(DISTINCT n) FROM notes"), "300,300");
        assert_eq!(one(client, "SELECT count(*) FROM accounts WHERE balance = 39 AND id = 39"), "1");
        assert!(
            one(client, "EXPLAIN SELECT id FROM accounts WHERE balance = 39").contains("accounts_balance")
        );
        let all = "one,present;three,present;two,present";
        eventually(client, "SELECT name, state FROM gnomon_cluster", all);
    }
    let committed = "SELECT transactions >= 200 FROM gnomon_cluster_transactions \
                     WHERE level = 'GRC' AND outcome = 'committed'";
    assert_eq!(one(&mut clients[0], committed), "t");
    retried(&mut clients[1], "DROP TABLE notes");
    assert!(!same(&mut clients).contains("notes"));
    drop(clients);
    let [one_member, two, three] = members;
    two.stop();
    three.kill();
    let mut client = one_member.connect();
    retried(&mut client, "UPDATE accounts SET balance = 7 WHERE id = 7");
    // Who was stopped and who was killed come back with what they have, a new one with a copy.
    let members = [one_member, world.start("two"), world.start("three"), world.start("four")];
    let mut clients: Vec<Client> = members.iter().map(Member::connect).collect();
    assert!(same(&mut clients).contains("7,7;"));
    drop(clients);
    members.into_iter().for_each(Member::stop);
    let alone = run(&["sql", text(&world.data("one")), "-c", "SELECT 1"]);
    assert!(alone.code != Some(0) && alone.stderr.contains("member of a cluster"), "{alone:?}");
}

#[test]
fn each_transaction_picks_what_it_may_miss() {
    let Some(world) = world(1) else { return };
    let members = ["one", "two"].map(|name| world.start(name));
    let mut writer = members[0].connect();
    retried(&mut writer, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    retried(&mut writer, "INSERT INTO t VALUES (1, 0), (2, 0)");
    // In the connection string, as everything that can be set.
    let mut fresh = members[1].connect_with("options='-c gnomon.max_staleness=0'").unwrap();
    let mut strict = members[1].connect_with("options='-c gnomon.k=0'").unwrap();
    assert_eq!(one(&mut fresh, "SHOW gnomon.max_staleness"), "0");
    assert_eq!(one(&mut strict, "SHOW gnomon.k"), "0");
    assert!(members[1].connect_with("options='-c gnomon.k=-2'").is_err());
    for value in 1..50 {
        retried(&mut writer, &format!("UPDATE t SET v = {value} WHERE id = 1"));
        assert_eq!(one(&mut fresh, "SELECT v FROM t WHERE id = 1"), value.to_string());
        // What it has missed when it begins it is refused for.
        loop {
            match strict.query_one("SELECT v FROM t WHERE id = 1", &[]) {
                Ok(row) => break assert_eq!(row.get::<_, i32>(0), value),
                Err(error) => {
                    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}")
                }
            }
        }
    }
    // Tables of others are there, too, for whatever names them.
    for number in 0..10 {
        retried(&mut writer, &format!("CREATE TABLE n{number} (id int PRIMARY KEY)"));
        let statement = match number % 4 {
            0 => format!("SELECT * FROM n{number}"),
            1 => format!("ALTER TABLE n{number} ADD COLUMN v int"),
            2 => format!("COPY n{number} TO STDOUT"),
            _ => format!("BEGIN ISOLATION LEVEL SERIALIZABLE; DROP TABLE n{number}; COMMIT"),
        };
        if number % 4 == 2 {
            drop(fresh.copy_out(&statement).unwrap());
        } else {
            fresh.batch_execute(&statement).unwrap();
        }
    }
    // To be fresh is no wait for a lock.
    fresh
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE t IN SHARE MODE NOWAIT; COMMIT")
        .unwrap();
    // One that has begun may miss what is committed meanwhile. Its beginning is ordered while it runs: where that comes
    // behind the commit, the transaction is refused.
    for k in [0, 1] {
        strict.batch_execute(&format!("SET gnomon.k = {k}")).unwrap();
        let commits = (0..50).any(|_| {
            strict.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
            one(&mut strict, "SELECT sum(v) FROM t");
            retried(&mut writer, "UPDATE t SET v = v + 1 WHERE id = 2");
            strict.batch_execute("COMMIT").is_ok()
        });
        assert!(commits, "it is always ordered behind what is committed meanwhile");
    }
    // Write skew, which serializable transactions of different members do not have.
    let mut sessions = [members[0].connect(), members[1].connect()];
    for session in &mut sessions {
        session
            .batch_execute("SET default_transaction_isolation = serializable; SET gnomon.max_staleness = 0")
            .unwrap();
        session.batch_execute("BEGIN").unwrap();
        one(session, "SELECT sum(v) FROM t");
    }
    sessions[0].batch_execute("UPDATE t SET v = v + 1 WHERE id = 1; COMMIT").unwrap();
    let refused = sessions[1].batch_execute("UPDATE t SET v = v + 1 WHERE id = 2; COMMIT").unwrap_err();
    let message = refused.as_db_error().unwrap().message();
    assert_eq!(message, "could not serialize access due to read/write dependencies among transactions");
    // What its own member refuses before it asks to commit counts too.
    let mut late = members[1].connect();
    late.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    one(&mut late, "SELECT v FROM t WHERE id = 1");
    retried(&mut members[1].connect(), "UPDATE t SET v = 0 WHERE id = 1");
    let refused = late.batch_execute("UPDATE t SET v = 1 WHERE id = 1").unwrap_err();
    let message = refused.as_db_error().unwrap().message();
    assert_eq!(message, "could not serialize access due to concurrent update");
    let levels = "SELECT DISTINCT level FROM gnomon_cluster_transactions ORDER BY 1";
    let shown = one(&mut late, &format!("ROLLBACK; {levels}"));
    assert!(shown.contains("SER") && shown.contains("0-bound"), "{shown}");
    let refusals = "SELECT level, transactions FROM gnomon_cluster_transactions \
                    WHERE outcome = 'write' AND level <> 'GRC' ORDER BY 1";
    assert_eq!(one(&mut late, refusals), "GSI,1");
    // Once, if it does not commit after all.
    for (begin, end, counted) in [
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "COMMIT", "GSI,1"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "ROLLBACK", "GSI,2"),
        ("SET gnomon.k = 0; BEGIN ISOLATION LEVEL SERIALIZABLE", "ROLLBACK", "GSI,2;SER,1"),
    ] {
        late.batch_execute(begin).unwrap();
        one(&mut late, "SELECT v FROM t WHERE id = 1");
        late.batch_execute("SAVEPOINT s").unwrap();
        retried(&mut members[1].connect(), "UPDATE t SET v = v * 2 WHERE id = 1");
        late.batch_execute("UPDATE t SET v = 1 WHERE id = 1").unwrap_err();
        late.batch_execute(&format!("ROLLBACK TO s; {end}")).unwrap();
        late.batch_execute("SET gnomon.k = -1").unwrap();
        assert_eq!(one(&mut late, refusals), counted);
    }
    let metrics = members[1].http("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for line in [
        "HTTP/1.1 200 OK",
        "gnomon_cluster_member{member=\"one\",state=\"present\"} 1",
        "gnomon_cluster_lag_positions{member=\"two\"} ",
        "gnomon_cluster_transactions_total{level=\"GSI\",outcome=\"write\"} 2",
        "gnomon_cluster_log_reachable 1",
        "gnomon_server_connections_accepted_total ",
        "gnomon_server_connections_open ",
        "gnomon_build_info{version=",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(members[1].http("POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405"));
    assert!(members[1].http("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404"));
    assert!(members[1].http("\0\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn what_is_no_member_of_the_cluster_is_told_so() {
    let Some(world) = world(1) else { return };
    let one_member = world.start("one");
    retried(&mut one_member.connect(), "CREATE TABLE t (id int PRIMARY KEY)");
    let told = |name: &str, more: &[&str], why: &str| {
        let said = world.try_start(name, more).err().unwrap_or_else(|| panic!("{name} serves"));
        assert!(said.contains(why), "{said}");
    };
    told("one", &[], "in use by another process");
    // Two with one name: the second waits for the first to be gone, and gives up.
    told("one again", &["--node", "one"], "a member 'one' is in the cluster");
    let own = world.data("own");
    assert_eq!(run(&["sql", text(&own), "-c", "CREATE TABLE mine (id int)"]).code, Some(0));
    told("own", &[], "a database of its own");
    let other = World { etcd: start_etcd(&world.data("other")), directory: tempfile::tempdir().unwrap() };
    let two = other.start("two");
    two.stop();
    copy_directory(&other.data("two"), &world.data("two"));
    told("two", &[], "of another cluster");
    let unreached = run(&[
        "serve",
        text(&world.data("three")),
        "--cluster",
        "http://127.0.0.1:1",
        "--node",
        "three",
        "--port",
        "0",
    ]);
    assert!(unreached.code == Some(1) && unreached.stderr.contains("127.0.0.1:1"), "{unreached:?}");
    assert!(!world.data("three").exists(), "nothing is made");
    let unnamed = run(&["serve", text(&world.data("three")), "--cluster", "http://127.0.0.1:1"]);
    assert_eq!(unnamed.code, Some(2), "{unnamed:?}");
}

#[test]
fn a_log_that_is_away_is_waited_for_or_told_of() {
    let Some(mut world) = world(1) else { return };
    let member = world.start("one");
    let mut client = member.connect();
    retried(&mut client, "CREATE TABLE t (id int PRIMARY KEY)");
    retried(&mut client, "INSERT INTO t VALUES (1)");
    world.etcd.kill(0).unwrap();
    // What is asked while that is not known waits, for as long as its client does.
    let mut waiting = member.connect_with("options='-c statement_timeout=500ms'").unwrap();
    let asked = waiting.batch_execute("INSERT INTO t VALUES (2)").unwrap_err();
    assert_eq!(asked.code(), Some(&SqlState::TRANSACTION_RESOLUTION_UNKNOWN), "{asked:?}");
    let asked = waiting.batch_execute("SET gnomon.max_staleness = 0; SELECT * FROM t").unwrap_err();
    assert_eq!(asked.code(), Some(&SqlState::QUERY_CANCELED), "{asked:?}");
    thread::sleep(Duration::from_millis(2500));
    for (statement, state) in [
        ("INSERT INTO t VALUES (3)", SqlState::CANNOT_CONNECT_NOW),
        ("CREATE TABLE u (id int)", SqlState::CANNOT_CONNECT_NOW),
        ("SET gnomon.max_staleness = '1s'; SELECT * FROM t", SqlState::CANNOT_CONNECT_NOW),
    ] {
        let refused = client.batch_execute(statement).unwrap_err();
        assert_eq!(refused.code(), Some(&state), "{statement}: {refused:?}");
        let message = refused.as_db_error().unwrap().message();
        assert!(message.contains("apart from the others"), "{message}");
    }
    assert_eq!(one(&mut client, "SELECT count(*) FROM t"), "1", "it reads what it has");
    assert_eq!(one(&mut client, "SELECT name, state FROM gnomon_cluster"), "one,apart");
    member.has_said("apart from the cluster: ");
    world.etcd.start_node(0).unwrap();
    let begun = Instant::now();
    while client.batch_execute("INSERT INTO t VALUES (4)").is_err() {
        assert!(begun.elapsed() < LONG);
        thread::sleep(Duration::from_millis(50));
    }
    retried(&mut client, "SET gnomon.max_staleness = 0");
    member.has_said("with the cluster again");
    // What was not waited for has its place all the same.
    assert_eq!(one(&mut client, "SELECT id FROM t ORDER BY id"), "1;2;4");
    drop((client, waiting));
    world.etcd.kill(0).unwrap();
    let begun = Instant::now();
    member.stop();
    assert!(begun.elapsed() < LONG, "it stops without the log: {:?}", begun.elapsed());
    let left =
        run(&["serve", text(&world.data("one")), "--leave-cluster", "--cluster", "http://127.0.0.1:1"]);
    assert_eq!(left.code, Some(2), "one or the other: {left:?}");
    let alone = crate::harness::Served::start_with(&world.data("one"), &["--leave-cluster"]);
    let mut client = alone.connect().unwrap();
    retried(&mut client, "INSERT INTO t VALUES (5)");
    assert_eq!(one(&mut client, "SELECT count(*) FROM t"), "4");
    assert_eq!(one(&mut client, "SELECT count(*) FROM gnomon_cluster"), "0");
    drop(client);
    assert_eq!(alone.interrupt(), Some(0));
    let again = run(&["sql", text(&world.data("one")), "-c", "DELETE FROM t WHERE id = 5"]);
    assert_eq!(again.code, Some(0), "{again:?}");
}

/// One that does not go on is in nobody's way for long.
#[test]
fn a_full_etcd_has_room_again_without_a_member_that_is_silent() {
    let Some(world) = world_with(1, &["--quota-backend-bytes=24000000"]) else { return };
    let [mut silent, member] = ["one", "two"].map(|name| world.start(name));
    let mut writer = member.connect_with("options='-c statement_timeout=10s'").unwrap();
    retried(&mut writer, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    let insert =
        |id: i32| format!("INSERT INTO t VALUES ({id}, repeat('x', 1000000)) ON CONFLICT DO NOTHING");
    let (begun, mut refused) = (Instant::now(), 0);
    for id in 1..=60 {
        if id == 30 {
            // So much has gone through it by now: what both have is trimmed.
            assert_eq!(refused, 0);
            silent.signal("-STOP");
        }
        while let Err(error) = writer.batch_execute(&insert(id)) {
            let states = [
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            ];
            assert!(error.code().is_some_and(|state| states.contains(state)), "{error:?}");
            refused += 1;
            assert!(begun.elapsed() < 3 * LONG, "{error:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }
    assert!(refused > 0, "it was never full");
    assert_eq!(one(&mut writer, "SELECT count(*), sum(length(v)) FROM t"), "60,60000000");
    member.has_said("member one is silent");
    member.has_said("the log of the cluster is full");
    member.has_said("the log of the cluster has room again");
    // What it needs is gone.
    silent.signal("-CONT");
    assert_ne!(silent.child.wait().unwrap().code(), Some(0));
}

/// pgbench's transaction, with a text of one's own in its history.
fn tpcb(client: &mut Client, rng: &mut Rng, text: &str) -> Result<(), postgres::Error> {
    let (aid, tid, delta) =
        (1 + rng.below(100_000) as i32, 1 + rng.below(10) as i32, rng.below(10_001) as i32 - 5000);
    let mut txn = client.transaction()?;
    txn.execute("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", &[&delta, &aid])?;
    txn.query_one("SELECT abalance FROM pgbench_accounts WHERE aid = $1", &[&aid])?;
    txn.execute("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", &[&delta, &tid])?;
    txn.execute("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = 1", &[&delta])?;
    txn.execute(
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) \
         VALUES ($1, 1, $2, $3, current_timestamp, $4)",
        &[&tid, &aid, &delta, &text],
    )?;
    txn.commit()
}

#[test]
fn clients_of_several_hosts_go_on_when_a_member_dies() {
    let Some(world) = world(1) else { return };
    let members = ["one", "two", "three"].map(|name| world.start(name));
    let ports = members.each_ref().map(|member| member.port.to_string());
    let made = std::process::Command::new("pgbench")
        .args(["-i", "-q", "-h", "127.0.0.1", "-p", &ports[0], "-U", "gnomon", "gnomon"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let config = format!(
        "host=127.0.0.1,127.0.0.1,127.0.0.1 port={} user=gnomon dbname=gnomon connect_timeout=2 \
         options='-c gnomon.max_staleness=0'",
        ports.join(",")
    );
    // All begin at the first one.
    let client = |number: u64| {
        let mut rng = Rng::from_seed(number);
        let (mut connection, mut lost) = (None, 0);
        let begun = Instant::now();
        for round in 0..60 {
            let text = format!("{number} {round}");
            let mut is_known = true;
            loop {
                assert!(begun.elapsed() < LONG, "client {number}, round {round}");
                let Some(client) = &mut connection else {
                    connection = Client::connect(&config, NoTls).ok();
                    continue;
                };
                if !is_known {
                    // Whether the last one has committed is looked up.
                    let found = client.query("SELECT FROM pgbench_history WHERE filler = $1", &[&text]);
                    match found {
                        Ok(rows) if !rows.is_empty() => break,
                        Ok(_) => is_known = true,
                        Err(_) => connection = None,
                    }
                    continue;
                }
                match tpcb(client, &mut rng, &text) {
                    Ok(()) => break,
                    Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                    Err(_) => {
                        lost += 1;
                        (connection, is_known) = (None, false);
                    }
                }
            }
        }
        lost
    };
    let lost: u64 = thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || client(number))).collect();
        thread::sleep(Duration::from_millis(400));
        members[0].signal("-KILL");
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(lost > 0, "nobody has noticed");
    let mut clients: Vec<Client> = members[1..].iter().map(Member::connect).collect();
    same(&mut clients);
    let sums = "SELECT (SELECT count(DISTINCT filler) FROM pgbench_history), (SELECT count(*) FROM pgbench_history), \
                (SELECT sum(delta) FROM pgbench_history) = (SELECT sum(abalance) FROM pgbench_accounts), \
                (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)";
    assert_eq!(one(&mut clients[0], sums), "240,240,t,t");
}

fn start_etcd(directory: &Path) -> LocalEtcd {
    LocalEtcd::start(directory, 1, &[]).unwrap()
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

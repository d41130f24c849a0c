//! Foreign values that are written where a cluster has its log, while members are at work. Without etcd this says so, and tests
//! nothing.

use postgres::Client;

use crate::cluster::{Member, World, eventually, one, retried, same, wait_until, world};

/// `/gnomon/log` in base64, as the gateway of etcd takes it.
const LOG: &str = "L2dub21vbi9sb2c=";

fn put(world: &World, value: &str) {
    let request = format!(r#"{{"key": "{LOG}", "value": "{value}"}}"#);
    let answer = world.etcd.post(0, "/v3/kv/put", &request).unwrap();
    assert!(answer.contains("revision"), "{answer}");
}

fn delete(world: &World) {
    let request = format!(r#"{{"key": "{LOG}"}}"#);
    let answer = world.etcd.post(0, "/v3/kv/deleterange", &request).unwrap();
    assert!(answer.contains(r#""deleted":"1""#), "{answer}");
}

/// The value of the key, in base64.
fn value(world: &World) -> String {
    let request = format!(r#"{{"key": "{LOG}"}}"#);
    let answer = world.etcd.post(0, "/v3/kv/range", &request).unwrap();
    let value = answer.split(r#""value":""#).nth(1).and_then(|rest| rest.split('"').next());
    value.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn skipped(member: &Member) -> String {
    member.metric("gnomon_cluster_foreign_entries_total")
}

#[test]
fn a_foreign_value_under_the_clusters_key_ends_no_member() {
    let Some(world) = world(1) else { return };
    let members = ["one", "two", "three"].map(|name| world.start(name));
    let mut clients: Vec<Client> = members.iter().map(Member::connect).collect();
    retried(&mut clients[0], "CREATE TABLE t (id int PRIMARY KEY, v int)");
    retried(&mut clients[0], "INSERT INTO t VALUES (1, 0)");
    eventually(&mut clients[2], "SELECT count(*) FROM t", "1");
    eventually(&mut clients[1], "SELECT count(*) FROM t", "1");
    let add = |client: &mut Client| retried(client, "UPDATE t SET v = v + 1 WHERE id = 1");
    for client in &mut clients {
        add(client);
        put(&world, "eA==");
        add(client);
        // The last batch once more, which would add again.
        put(&world, &value(&world));
        add(client);
        delete(&world);
    }
    assert_eq!(one(&mut clients[0], "SET gnomon.max_staleness = 0; SELECT v FROM t"), "9");
    assert!(same(&mut clients).contains("1,9"));
    for member in &members {
        member.has_said("none has written it: the key /gnomon/log was deleted at revision");
        assert_eq!(skipped(member), "9");
    }
    // Whose data the log is for is said again before a new member brings its own.
    let data = "L2dub21vbi9kYXRh";
    let post = |path: &str| world.etcd.post(0, path, &format!(r#"{{"key": "{data}"}}"#)).unwrap();
    assert!(post("/v3/kv/deleterange").contains(r#""deleted":"1""#));
    wait_until("it is there again", || post("/v3/kv/range").contains(r#""value""#));
    // Those that come back, and new ones, skip the same.
    drop(clients);
    let [one_member, two, three] = members;
    two.kill();
    put(&world, "eA==");
    three.stop();
    delete(&world);
    let members = [one_member, world.start("two"), world.start("three"), world.start("four")];
    let mut clients: Vec<Client> = members.iter().map(Member::connect).collect();
    clients.iter_mut().for_each(add);
    assert!(same(&mut clients).contains("1,13"));
    assert_eq!(skipped(&members[0]), "11");
}

//! Members that run statements again by themselves. Without etcd this says so, and tests nothing.

use std::{sync::Barrier, thread};

use postgres::{Client, error::SqlState};

use crate::cluster::{Member, eventually, one, retried, same, world};

/// The rows that each client changes.
const CHANGES: usize = 30;

#[test]
fn no_statement_on_a_hot_row_is_refused() {
    let Some(world) = world(1) else { return };
    let members = ["one", "two", "three"].map(|name| world.start(name));
    let mut clients: Vec<Client> = members.iter().map(Member::connect).collect();
    retried(&mut clients[0], "CREATE TABLE hot (id int PRIMARY KEY, v int)");
    retried(&mut clients[0], "INSERT INTO hot VALUES (1, 0), (2, 0)");
    for client in &mut clients {
        eventually(client, "SELECT count(*) FROM hot", "2");
        client.simple_query("SET gnomon.retries = 1000").unwrap();
    }
    let barrier = Barrier::new(clients.len());
    thread::scope(|scope| {
        for client in &mut clients {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                let mut last = [0, 0];
                for _ in 0..CHANGES {
                    // By the extended protocol, and by the simple one.
                    let id = 1;
                    let add = "UPDATE hot SET v = v + 1 WHERE id = $1 RETURNING v";
                    let v: i32 = client.query_one(add, &[&id]).unwrap().get(0);
                    let w = one(client, "UPDATE hot SET v = v + 1 WHERE id = 2 RETURNING v").parse().unwrap();
                    assert!(v > last[0] && w > last[1], "each sees the one before");
                    last = [v, w];
                }
            });
        }
    });
    let count = 3 * CHANGES;
    assert!(same(&mut clients).contains(&format!("1,{count};2,{count}")));
    let again: u64 = members
        .iter()
        .map(|member| {
            assert_eq!(member.metric("gnomon_cluster_statements_given_up_total"), "0");
            member.metric("gnomon_cluster_statements_run_again_total").parse::<u64>().unwrap()
        })
        .sum();
    println!("{again} of {} were run again", 2 * count);
    // What a block has read its client knows.
    clients[0].batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM hot").unwrap();
    retried(&mut clients[1], "UPDATE hot SET v = 0 WHERE id = 1");
    eventually(&mut members[0].connect(), "SELECT v FROM hot WHERE id = 1", "0");
    let refused = clients[0].batch_execute("UPDATE hot SET v = 1 WHERE id = 1").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
}

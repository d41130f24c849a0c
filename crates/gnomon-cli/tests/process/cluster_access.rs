//! Members that reach etcd and each other by TLS, with users and certificates. Without etcd this says so, and tests
//! nothing.

use gnomon_tls::client::Target;
use postgres::Client;

use crate::{
    access::Files,
    cluster::{Member, World, eventually, retried, world, world_with},
    harness::text,
};

/// The options in a text, in which `@NAME` is a file.
fn options(files: &Files, options: &str) -> Vec<String> {
    let of_path = |word: &str| match word.split_once('@') {
        Some((before, name)) => format!("{before}{}", text(&files.path(name))),
        None => word.to_owned(),
    };
    options.split_whitespace().map(of_path).collect()
}

fn start(world: &World, name: &str, options: &[String]) -> Result<Member, String> {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    world.try_start(name, &options)
}

fn connect(files: &Files, member: &Member) -> Client {
    let path = |name: &str| text(&files.path(name)).to_owned();
    let url = format!(
        "postgres://ann:secret@127.0.0.1:{}/gnomon?sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
        member.port,
        path("ca.crt"),
        path("ann.crt"),
        path("ann.key")
    );
    Target::parse(&url).unwrap().connect().unwrap()
}

#[test]
fn members_reach_etcd_and_each_other_by_tls() {
    let (files, others) = (Files::new(), Files::new());
    let of_etcd =
        "--cert-file=@member.crt --key-file=@member.key --client-cert-auth --trusted-ca-file=@ca.crt";
    let of_etcd = options(&files, of_etcd);
    let Some(world) = world_with(1, &of_etcd.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let to_etcd = options(&files, "--etcd-ca @ca.crt --etcd-cert @ann.crt --etcd-key @ann.key");
    let of_server = "--tls-cert @member.crt --tls-key @member.key --tls-client-ca @ca.crt \
                     --user ann --password-file @password";
    let of_server = options(&files, of_server);
    let with = |more: &[&[String]]| more.concat();
    let wrong = options(&others, "--etcd-ca @ca.crt");
    let said = start(&world, "one", &wrong).err().unwrap();
    assert!(said.contains("is not one that --etcd-ca signs for"), "{said}");
    let said = start(&world, "one", &[]).err().unwrap();
    assert!(said.contains("--etcd-ca"), "{said}");
    let first = start(&world, "one", &with(&[&to_etcd, &of_server])).unwrap();
    let mut client = connect(&files, &first);
    retried(&mut client, "CREATE TABLE t (id int PRIMARY KEY)");
    retried(&mut client, "INSERT INTO t VALUES (7)");
    // A member that none of the right ones has signed is not copied from.
    let strangers = options(&others, "--member-ca @ca.crt");
    let said = start(&world, "two", &with(&[&to_etcd, &of_server, &strangers])).err().unwrap();
    assert!(said.contains("invalid peer certificate"), "{said}");
    // Nor does one without a certificate get a copy.
    let by_password = options(&files, "--user ann --password-file @password");
    let said = start(&world, "two", &with(&[&to_etcd, &by_password])).err().unwrap();
    assert!(said.contains("cannot be copied"), "{said}");
    let members = options(&files, "--member-ca @ca.crt");
    let second = start(&world, "two", &with(&[&to_etcd, &of_server, &members])).unwrap();
    let third = start(&world, "three", &with(&[&to_etcd, &of_server])).unwrap();
    for member in [&second, &third] {
        let mut client = connect(&files, member);
        eventually(&mut client, "SELECT id FROM t", "7");
        eventually(&mut client, "SELECT count(*) FROM gnomon_cluster WHERE state = 'present'", "3");
    }
}

#[test]
fn members_are_users_of_etcd() {
    let Some(mut world) = world(1) else { return };
    let files = Files::new();
    // Of etcd's API: a user that is root.
    for (path, request) in [
        ("/v3/auth/user/add", r#"{"name": "root", "password": "secret"}"#),
        ("/v3/auth/role/add", r#"{"name": "root"}"#),
        ("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        let post = || world.etcd.post(0, path, request).is_ok_and(|answer| answer.contains("200 OK"));
        crate::cluster::wait_until(path, post);
    }
    let said = start(&world, "one", &[]).err().unwrap();
    assert!(said.contains("asks for a user") && said.contains("--etcd-user"), "{said}");
    let user = options(&files, "--etcd-user root --etcd-password-file @password");
    let members = ["one", "two"].map(|name| start(&world, name, &user).unwrap());
    let mut clients = members.each_ref().map(Member::connect);
    retried(&mut clients[0], "CREATE TABLE t (id int PRIMARY KEY)");
    // Its tokens are forgotten.
    world.etcd.kill(0).unwrap();
    world.etcd.start_node(0).unwrap();
    crate::cluster::wait_until("a member commits", || {
        clients[0].simple_query("INSERT INTO t VALUES (7) ON CONFLICT DO NOTHING").is_ok()
    });
    eventually(&mut clients[1], "SELECT id FROM t", "7");
}

//! Tests against etcd processes, which they start and stop. Without etcd they say so, and test nothing.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
};

use gnomon_engine::sync::{
    atomic::{AtomicBool, Ordering},
    thread,
};
use tempfile::TempDir;

use super::*;
use crate::{
    node::make_room_if_alone,
    order::{
        Sender,
        conformance::{all_after, batch, conforms, entry, eventually},
    },
    protocol::{Entry, TxnName},
};
use appending::PIECE_BYTES_MAX;
use kept::Bits;
use keys::Ack;

mod access;
mod foreign;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Nodes with their data.
struct Etcd {
    local: LocalEtcd,
    _directory: TempDir,
}

impl Etcd {
    /// Nothing if there is no etcd here.
    fn start(nodes: usize, options: &[&str]) -> Option<Etcd> {
        let directory = tempfile::tempdir().unwrap();
        match LocalEtcd::start(directory.path(), nodes, options) {
            Ok(local) => Some(Etcd { local, _directory: directory }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: etcd is not installed (Debian package etcd-server)");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn start_node(&mut self, node: usize) {
        self.local.start_node(node).unwrap();
    }

    fn kill(&mut self, node: usize) {
        self.local.kill(node).unwrap();
    }

    /// True if a node leads, by its metrics.
    fn leads(&self, node: usize) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.local.port(node))) else { return false };
        let mut answer = String::new();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains("\netcd_server_is_leader 1\n")
    }

    fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a node leads", || {
            leader = (0..self.local.count()).find(|node| self.leads(*node));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// With the endpoints beginning at this node.
    fn options(&self, first: usize) -> EtcdOptions {
        EtcdOptions { ttl: Duration::from_secs(1), ..EtcdOptions::new(self.local.endpoints(first)) }
    }

    fn log(&self) -> EtcdLog {
        EtcdLog::open(&self.options(0)).unwrap()
    }
}

#[test]
fn it_is_an_ordered_log() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    conforms(|| etcd.log());
    let other = EtcdLog::open(&EtcdOptions { prefix: "/other/".into(), ..etcd.options(0) });
    assert!(
        matches!(other, Err(LogError::Foreign(why)) if why.contains("under /gnomon,")),
        "members trim it all"
    );
    assert_eq!(etcd.log().shared.cluster, etcd.log().shared.cluster);
}

#[test]
fn whose_lease_is_over_appends_nothing() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (one, two) = (etcd.log(), etcd.log());
    let member = one.join("one", "").unwrap();
    let first = one.append(member, &batch(1, &[entry(1, 1)])).unwrap();
    thread::sleep(Duration::from_secs(2));
    two.gone(member).unwrap();
    assert!(two.members().unwrap()[0].is_alive, "its lease is kept alive");
    one.stop_keeping_alive();
    eventually("it is not heard of", || !two.members().unwrap()[0].is_alive);
    two.gone(member).unwrap();
    for sequence in 1..3 {
        assert_eq!(one.append(member, &batch(sequence, &[entry(1, 2)])), Err(Refused::Fenced.into()));
    }
    assert_eq!(
        all_after(&two, first).into_iter().map(|all| all.entries).collect::<Vec<_>>(),
        [[Entry::Gone(member)]]
    );
    let again = one.join("one", "").unwrap();
    assert!(again > member);
    one.append(again, &batch(1, &[entry(1, 3)])).unwrap();
}

/// An entry that fills so many pieces, and a bit of the next.
fn large(pieces: usize) -> Entry {
    let bytes = (0..pieces * PIECE_BYTES_MAX + 1000).map(|at| (at % 251) as u8).collect();
    Entry::Call(TxnName { member: Member(1), number: 1 }, bytes)
}

/// Appends the first piece of a batch, as a member does that then stops.
fn append_first_piece(log: &EtcdLog, member: Member, sequence: u64, entry: &Entry) -> u64 {
    let bytes = Bytes::from(encoding::encode(std::slice::from_ref(entry))).slice(..PIECE_BYTES_MAX);
    log.run(|shared| async move {
        let Space { client, keys } = &shared.space;
        let record = Record::new(0, true, bytes);
        let puts = vec![
            RequestOp::put(&keys.log, record.encode_to_vec().into()),
            RequestOp::put(&keys.ack(member), Ack { batch: sequence, pieces: 1 }.to_bytes()),
            RequestOp::put(&keys.pieces(member, sequence), Bytes::new()),
        ];
        Ok(client.txn(Vec::new(), puts, Vec::new()).await?.revision() as u64)
    })
    .unwrap()
}

#[test]
fn large_batches_come_whole_or_not_at_all() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (one, two, reader) = (etcd.log(), etcd.log(), etcd.log());
    let (member, other) = (one.join("one", "").unwrap(), two.join("two", "").unwrap());
    let entry = large(3);
    let revision = one.append(member, &batch(1, std::slice::from_ref(&entry))).unwrap();
    assert_eq!(one.append(member, &batch(1, std::slice::from_ref(&entry))), Ok(revision));
    let expected = [Appended::new(revision, vec![entry.clone()])];
    for beginning in [0, revision - 2, revision - 1] {
        assert_eq!(all_after(&reader, beginning), expected, "followed from {beginning}");
    }
    one.trim(revision - 1).unwrap();
    assert_eq!(all_after(&etcd.log(), revision - 1), expected, "its pieces are kept");
    // Two members stop between pieces; one goes on later, the other never does.
    append_first_piece(&two, other, 1, &large(1));
    let first = append_first_piece(&one, member, 2, &entry);
    assert_eq!(one.append(member, &batch(3, &[])), Err(Refused::OutOfSequence { expected: 2 }.into()));
    two.gone(other).unwrap();
    let gone = reader.newest().unwrap();
    one.trim(gone).unwrap();
    let whole = one.append(member, &batch(2, std::slice::from_ref(&entry))).unwrap();
    assert_eq!(one.append(member, &batch(2, std::slice::from_ref(&entry))), Ok(whole));
    let expected = [Appended::new(gone, vec![Entry::Gone(other)]), Appended::new(whole, vec![entry])];
    assert_eq!(all_after(&reader, revision), expected);
    assert_eq!(all_after(&etcd.log(), first), expected);
    one.trim(whole).unwrap();
    let trimmed = Refused::Trimmed { from: whole };
    assert_eq!(
        etcd.log().after(first, Duration::from_secs(9)),
        Err(trimmed.into()),
        "nothing is kept in vain"
    );
    // Another program has cut off pieces that were needed.
    let cut = one.append(member, &batch(3, &[large(1)])).unwrap();
    one.run(|shared| async move { Ok(shared.space.client.compact(cut as i64).await?) }).unwrap();
    let trimmed = Refused::Trimmed { from: cut };
    assert_eq!(reader.after(cut - 1, Duration::from_secs(9)), Err(trimmed.into()));
    assert_eq!(etcd.log().after(cut, Duration::ZERO), Ok(Vec::new()));
}

/// etcd sends up to 1000 revisions at a time, in fragments; a follower holds one fragment, not all of them.
#[test]
fn batches_are_given_out_as_they_come() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let log = etcd.log();
    let member = log.join("one", "").unwrap();
    let entry = Entry::Call(TxnName { member, number: 1 }, vec![7; PIECE_BYTES_MAX - 1000]);
    let append = |sequence| log.append(member, &batch(sequence, std::slice::from_ref(&entry))).unwrap();
    let newest = (1..=40).map(append).last();
    let (reader, mut seen, mut largest, mut count) = (etcd.log(), 0, 0, 0);
    while Some(seen) < newest {
        let appended = reader.after(seen, Duration::from_secs(9)).unwrap();
        seen = appended.last().unwrap().revision;
        let batches = appended.iter().filter(|appended| appended.entries == [entry.clone()]).count();
        (largest, count) = (largest.max(batches), count + batches);
    }
    assert_eq!(count, 40);
    assert!(largest <= 4, "{largest} batches of 1 MB at once");
}

#[test]
fn a_log_that_was_made_anew_is_not_joined() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let log = etcd.log();
    log.run(|shared| async move {
        let key = &shared.space.keys.cluster;
        Ok(shared.space.client.txn(Vec::new(), vec![RequestOp::delete(key)], Vec::new()).await?)
    })
    .unwrap();
    assert!(matches!(log.join("one", ""), Err(LogError::Foreign(_))));
    assert_eq!(log.data(Some(9)), Ok(None), "it is not the member's");
    let anew = etcd.log();
    assert_eq!(log.data(Some(9)), Ok(None), "it is not the member's");
    assert_ne!(anew.shared.cluster, log.shared.cluster);
    assert!(matches!(log.join("one", ""), Err(LogError::Foreign(_))));
    anew.join("one", "").unwrap();
    let newest = anew.newest().unwrap();
    assert!(
        matches!(anew.after(newest + 100, Duration::ZERO), Err(LogError::Foreign(_))),
        "it is not there yet"
    );
}

#[test]
fn a_full_etcd_says_so_and_has_room_again_when_it_was_trimmed() {
    let Some(etcd) = Etcd::start(1, &["--quota-backend-bytes=4000000"]) else { return };
    let log = etcd.log();
    let member = log.join("one", "").unwrap();
    let mut newest = 0;
    let append = |sequence| log.append(member, &batch(sequence, &[large(0), large(1)]));
    // etcd looks at its quota now and then.
    let full = (1..500).find_map(|sequence| match append(sequence) {
        Ok(revision) => {
            newest = revision;
            None
        }
        Err(error) => Some(error),
    });
    let error = full.unwrap();
    assert!(matches!(&error, LogError::Full(text) if text.contains("--quota-backend-bytes")), "{error}");
    assert!(matches!(log.keep_after(member, newest), Err(LogError::Full(_))));
    assert_eq!(log.is_full(), Ok(true));
    let kept = || log.kept_after().unwrap().get("one").copied();
    assert_eq!(kept(), None);
    log.stop_keeping_alive();
    eventually("its lease is over", || !log.members().unwrap()[0].is_alive);
    // As if the first answer had been lost.
    for _ in 0..2 {
        log.keep_after_when_full(member, newest).unwrap();
        assert_eq!(kept(), Some(newest));
    }
    // Which has not all bits that were said.
    let other = newest & (newest - 1);
    assert!(matches!(log.keep_after_when_full(member, other), Err(LogError::Full(_))));
    assert_eq!(kept(), Some(newest));
    // No member is there: one that cannot join gives it room.
    assert!(matches!(log.gone(member), Err(LogError::Full(_))));
    assert!(matches!(log.join("one", ""), Err(LogError::Full(_))));
    make_room_if_alone(&log).unwrap();
    assert_eq!(log.is_full(), Ok(false));
    let member = log.join("one", "").unwrap();
    assert!(log.append(member, &batch(1, &[large(0), large(1)])).unwrap() > newest);
    // What is said as always counts again, and so can the next time that it is full.
    log.keep_after(member, newest + 1).unwrap();
    assert_eq!(kept(), Some(newest + 1));
    // As if the answer to that had been lost: it is not known when the bits were made.
    log.shared.joined.lock().as_mut().unwrap().bits = Bits::made_at(member.0 as i64);
    log.keep_after_when_full(member, newest + 2).unwrap();
    assert_eq!(kept(), Some(newest + 2));
    // Which needs no lease.
    log.gone(member).unwrap();
    assert_eq!(kept(), Some(newest + 2));
    assert_eq!(log.keep_nothing("one"), Ok(true));
    assert_eq!(kept(), None);
}

#[test]
fn endpoints_that_are_none_are_named() {
    let open = |endpoints: &str| {
        let options = EtcdOptions { timeout: Duration::from_millis(200), ..EtcdOptions::new(endpoints) };
        EtcdLog::open(&options).unwrap_err()
    };
    for (endpoints, what) in [
        ("https://127.0.0.1:2379", "--etcd-ca"),
        ("http://127.0.0.1:1,127.0.0.1:2379", "'127.0.0.1:2379' does not begin with http:// or https://"),
        ("http://ann:pa55word@127.0.0.1:2379", "--etcd-user"),
        ("http://ann:pa55word,more@127.0.0.1:2379", "--etcd-user"),
        ("http://a b", "'http://a b' is not an address"),
    ] {
        let error = open(endpoints);
        assert!(matches!(&error, LogError::Foreign(text) if text.contains(what)), "{error}");
        assert!(!error.to_string().contains("pa55word"), "{error}");
    }
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let error = open(&nobody);
    assert!(matches!(&error, LogError::Unreachable(text) if text.contains(&nobody)), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    // One that takes connections and says nothing, and one that speaks another protocol.
    for (answer, what) in
        [("", "does not answer in time"), ("HTTP/1.1 200 OK\r\n\r\n", "does not answer as an etcd does")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let streams = listener.incoming().map(|stream| {
                let mut stream = stream.unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                stream
            });
            streams.take(20).collect::<Vec<_>>()
        });
        let error = open(&address);
        assert!(error.to_string().contains(&address) && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn an_etcd_of_another_cluster_is_refused() {
    let (Some(one), Some(two)) = (Etcd::start(1, &[]), Etcd::start(1, &["--initial-cluster-token=two"]))
    else {
        return;
    };
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let endpoints = [nobody, one.options(0).endpoints, two.options(0).endpoints].join(",");
    let log = EtcdLog::open(&EtcdOptions { endpoints, ..one.options(0) }).unwrap();
    assert_eq!(log.newest(), Ok(0));
    // Whichever has answered, the next one that does is of the other.
    log.shared.space.client.leave_current();
    let error = log.newest().unwrap_err();
    assert!(matches!(&error, LogError::Foreign(text) if text.contains("not of one cluster")), "{error}");
}

/// Appends until it is stopped, and returns the member and how many entries it has appended.
fn append_until(stop: &AtomicBool, log: &EtcdLog, name: &str) -> (Member, u64) {
    let member = log.join(name, "").unwrap();
    let (mut sender, mut entries) = (Sender::new(3), 0);
    loop {
        if !sender.is_sending() {
            if stop.load(Ordering::Relaxed) {
                return (member, entries);
            }
            (1..=3).for_each(|number| sender.push(entry(member.0, entries + number)));
            entries += 3;
        }
        let batch = sender.batch().unwrap().clone();
        match log.append(member, &batch) {
            Ok(_) => sender.appended(batch.sequence),
            Err(LogError::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nothing_is_lost_or_repeated_when_nodes_die() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let logs: Vec<EtcdLog> = (0..4)
        .map(|first| {
            let options = EtcdOptions { ttl: Duration::from_secs(20), ..etcd.options(first) };
            EtcdLog::open(&options).unwrap()
        })
        .collect();
    let (stop, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let (followed, appended) = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let (mut all, mut revision): (Vec<Appended>, _) = (Vec::new(), 0);
            loop {
                let is_last = end.load(Ordering::Relaxed);
                match logs[3].after(revision, Duration::from_millis(200)) {
                    Ok(more) if more.is_empty() && is_last => return all,
                    Ok(more) => all.extend(more),
                    Err(LogError::Unreachable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                revision = all.last().map_or(0, |last| last.revision);
            }
        });
        let appenders: Vec<_> = logs[..3]
            .iter()
            .zip(["a", "b", "c"])
            .map(|(log, name)| scope.spawn(|| append_until(&stop, log, name)))
            .collect();
        for is_leader in [true, false] {
            thread::sleep(Duration::from_millis(500));
            let leader = etcd.leader();
            let node = if is_leader { leader } else { (leader + 1) % 3 };
            etcd.kill(node);
            thread::sleep(Duration::from_millis(700));
            etcd.start_node(node);
            let options = EtcdOptions {
                endpoints: format!("http://127.0.0.1:{}", etcd.local.port(node)),
                ..etcd.options(0)
            };
            EtcdLog::open(&options).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let appended: Vec<(Member, u64)> =
            appenders.into_iter().map(|thread| thread.join().unwrap()).collect();
        end.store(true, Ordering::Relaxed);
        (follower.join().unwrap(), appended)
    });
    assert_eq!(all_after(&etcd.log(), 0), followed, "followed during and after it");
    for (member, count) in appended {
        let own = |all: &Appended| {
            all.entries.iter().filter(|entry| entry.member() == member).cloned().collect::<Vec<_>>()
        };
        let entries: Vec<Entry> = followed.iter().flat_map(own).collect();
        assert!(count > 10, "{count} entries");
        assert_eq!(entries, (1..=count).map(|number| entry(member.0, number)).collect::<Vec<_>>());
    }
}

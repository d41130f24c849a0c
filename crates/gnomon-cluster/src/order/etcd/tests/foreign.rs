//! Foreign values under the log's key, against etcd processes.

use prost::Message;

use super::*;
use crate::order::etcd::keys::Record;

/// Changes the log's key as something else than a member, and returns the revision.
fn change(log: &EtcdLog, operation: RequestOp) -> u64 {
    log.run(|shared| async move {
        Ok(shared.space.client.txn(Vec::new(), vec![operation], Vec::new()).await?.revision() as u64)
    })
    .unwrap()
}

fn put(log: &EtcdLog, value: &[u8]) -> u64 {
    change(log, RequestOp::put(&log.shared.space.keys.log, Bytes::copy_from_slice(value)))
}

fn delete(log: &EtcdLog) -> u64 {
    change(log, RequestOp::delete(&log.shared.space.keys.log))
}

/// The value of the log's key.
fn value(log: &EtcdLog) -> Option<Vec<u8>> {
    let answer = log.run(|shared| async move {
        let get = RequestOp::get(&shared.space.keys.log);
        Ok(shared.space.client.read(vec![get]).await?.found(0).first().map(|kv| kv.value.to_vec()))
    });
    answer.unwrap()
}

/// All that was appended after a revision, with what is foreign; by a new watch for each answer, or one.
fn all(log: &EtcdLog, mut revision: u64, anew: bool) -> Vec<Appended> {
    let (newest, mut all) = (log.newest().unwrap(), Vec::new());
    while revision < newest {
        all.extend(log.after(revision, Duration::from_secs(60)).unwrap());
        revision = all.last().map_or(revision, |last: &Appended| last.revision);
        if anew {
            log.run(|shared| async move {
                shared.follower.lock().await.break_off();
                Ok(())
            })
            .unwrap();
        }
    }
    // Parts of batches, and that the key is there again.
    all.retain(|appended| appended.foreign.is_some() || !appended.entries.is_empty());
    all
}

#[test]
fn what_no_member_has_written_is_skipped_by_all_alike() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (log, reader) = (etcd.log(), etcd.log());
    log.data(Some(7)).unwrap();
    let member = log.join("one", "").unwrap();
    let newer = Record::new(0, false, Bytes::from_static(&[8, 99])).encode_to_vec();
    let (mut rng, mut sequence) = (Rng::from_seed(14), 0);
    // The revision of each change, and its entry if it is of a member.
    let mut expected: Vec<(u64, Option<Entry>)> = Vec::new();
    for step in 0..80 {
        if rng.chance(1, 2) {
            sequence += 1;
            let entry = if rng.chance(1, 10) { large(1) } else { entry(member.0, sequence) };
            let revision = log.append(member, &batch(sequence, std::slice::from_ref(&entry))).unwrap();
            expected.push((revision, Some(entry)));
            continue;
        }
        let known = value(&log).unwrap_or_default();
        let how = rng.below(7);
        let revision = match how {
            0 => put(&log, b"x"),
            1 => put(&log, b""),
            2 => put(&log, &newer),
            // What a member has appended, again; the beginning of it; or with another byte.
            3 => put(&log, &known),
            4 => put(&log, &known[..known.len() / 2]),
            5 => put(&log, &known.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>()),
            _ if known.is_empty() => continue,
            _ => {
                let revision = delete(&log);
                if step % 2 == 0 {
                    assert!(reader.newest().unwrap() > revision, "what comes later is newer");
                }
                revision
            }
        };
        // What restores the key tells nothing.
        if how != 3 || known != Record::new(0, true, Bytes::new()).encode_to_vec() {
            expected.push((revision, None));
        }
    }
    log.gone(member).unwrap();
    expected.push((reader.newest().unwrap(), Some(Entry::Gone(member))));
    let found = all(&reader, 0, false);
    let shown = |appended: &Appended| (appended.revision, appended.entries.first().cloned());
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    println!(
        "{} changes, {} of them foreign",
        expected.len(),
        found.iter().filter(|a| a.foreign.is_some()).count()
    );
    // Members that come later or again, anywhere; and when a part is trimmed.
    for (at, appended) in found.iter().enumerate().step_by(3) {
        for anew in [false, true] {
            assert_eq!(all(&etcd.log(), appended.revision, anew), found[at + 1..], "behind {at}");
        }
    }
    let middle = found.len() / 2;
    log.trim(found[middle].revision).unwrap();
    assert_eq!(all(&etcd.log(), found[middle].revision, true), found[middle + 1..]);
    let trimmed = etcd.log().after(0, Duration::from_secs(60));
    assert!(matches!(trimmed, Err(LogError::Refused(Refused::Trimmed { .. }))), "{trimmed:?}");
}

/// Makes a member append a value that is none: as one with another program, or as an etcd that has damaged it.
fn append_raw(log: &EtcdLog, member: Member, value: Vec<u8>) -> u64 {
    log.run(|shared| async move {
        let Space { client, keys } = &shared.space;
        let puts = vec![
            RequestOp::put(&keys.log, value.into()),
            RequestOp::put(&keys.ack(member), Ack { batch: 1, pieces: 0 }.to_bytes()),
        ];
        Ok(client.txn(Vec::new(), puts, Vec::new()).await?.revision() as u64)
    })
    .unwrap()
}

#[test]
fn what_a_member_has_written_is_never_skipped() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let log = etcd.log();
    let member = log.join("one", "").unwrap();
    let bytes = Bytes::from(encoding::encode(&[entry(1, 1)]));
    let whole = Record::new(0, false, bytes.clone()).encode_to_vec();
    let flipped =
        |at: usize| whole.iter().enumerate().map(|(i, b)| b ^ u8::from(i == at)).collect::<Vec<u8>>();
    let damaged = "compare the nodes of etcd";
    for (value, what) in [
        (b"x".to_vec(), damaged),
        (Vec::new(), damaged),
        (whole[..whole.len() / 2].to_vec(), damaged),
        (flipped(4), damaged),
        (flipped(whole.len() - 1), damaged),
        (Record::new(member.0 as i64, false, bytes.clone()).encode_to_vec(), damaged),
        (Record::new(1, false, bytes).encode_to_vec(), damaged),
        (Record::new(0, false, Bytes::from_static(&[8, 99])).encode_to_vec(), "upgrade this one"),
    ] {
        let before = log.newest().unwrap();
        let revision = append_raw(&log, member, value.clone());
        for reader in [etcd.log(), etcd.log()] {
            let answer = reader.after(before, Duration::from_secs(60));
            let Err(LogError::Foreign(why)) = &answer else { panic!("{value:?}: {answer:?}") };
            let why = why.to_lowercase();
            assert!(
                why.contains(&format!("under /gnomon/log at revision {revision} is of a member")),
                "{why}"
            );
            assert!(why.contains(what), "{value:?}: {why}");
        }
    }
}

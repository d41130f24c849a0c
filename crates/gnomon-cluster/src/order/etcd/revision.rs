//! The effect of a revision of etcd on the log.
//!
//! A member never writes the log's key alone. By appending it writes its `ack` in the same transaction, and by saying that
//! a member is gone it deletes that one's `live`. A watch over these keys gets all changes of a revision together, in each
//! life of each follower. So it is known of each version of the log's key whether it is of a member, whatever it holds: a
//! value of something else, one of another cluster, a copy of a batch of this one, the whole or a part of it, are not, nor
//! is a deletion. What is of a member and cannot be read is damaged, or of a newer version of the program.
//!
//! Promises: the answer depends on what stands in etcd at the revision, and on nothing else.

use prost::{Message, bytes::Bytes};

use super::{
    Foreign,
    keys::{Keys, Record},
    messages::{DELETE, Event, KeyValue, PUT, WatchCreateRequest},
};

/// Maximum bytes of a foreign value that are shown.
const SHOWN_BYTES: usize = 20;

/// The effect of a revision on the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// Nothing.
    Nothing,
    /// A member has appended this.
    Appended(Bytes),
    /// No member has.
    Foreign(Foreign),
    /// There is a version again, after the key was deleted (`Space::newest`).
    Restored,
}

/// A watch over all that tells of the log: the keys from `ack/` to `log`.
pub(super) fn watch(keys: &Keys, start_revision: i64) -> WatchCreateRequest {
    let range_end = Bytes::from([&keys.log[..], &[0]].concat());
    WatchCreateRequest { key: keys.all_acks.clone(), range_end, start_revision, fragment: true }
}

/// Returns the effect of the events of one revision on the log.
pub(super) fn done(keys: &Keys, events: &[Event]) -> Done {
    let of_log = events.iter().find_map(|event| Some((event.kind, key_value(event, &keys.log)?)));
    let Some((kind, kv)) = of_log else { return Done::Nothing };
    let (key, revision) = (String::from_utf8_lossy(&keys.log), kv.mod_revision);
    if kind == DELETE {
        let what = format!("the key {key} was deleted at revision {revision}");
        return Done::Foreign(Foreign { what, bytes: 0 });
    }
    if events.iter().any(|event| is_by_member(keys, event)) {
        return Done::Appended(kv.value.clone());
    }
    if kv.value[..] == Record::new(0, true, Bytes::new()).encode_to_vec() {
        return Done::Restored;
    }
    let shown = kv.value[..kv.value.len().min(SHOWN_BYTES)].escape_ascii();
    let more = if kv.value.len() > SHOWN_BYTES { "..." } else { "" };
    let what = format!(
        "the key {key} was written at revision {revision}: '{shown}{more}', {} bytes",
        kv.value.len()
    );
    Done::Foreign(Foreign { what, bytes: kv.value.len() })
}

/// The key and value of an event, if it is of this key.
fn key_value<'a>(event: &'a Event, key: &[u8]) -> Option<&'a KeyValue> {
    event.kv.as_ref().filter(|kv| kv.key == key)
}

/// True for what members change with the log.
fn is_by_member(keys: &Keys, event: &Event) -> bool {
    let begins = |beginning: &Bytes| event.kv.as_ref().is_some_and(|kv| kv.key.starts_with(beginning));
    match event.kind {
        PUT => begins(&keys.all_acks),
        DELETE => begins(&keys.all_live),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: i32, key: &str, value: &[u8]) -> Event {
        let kv = KeyValue {
            key: Bytes::from(format!("/gnomon/{key}")),
            mod_revision: 7,
            value: Bytes::copy_from_slice(value),
            ..KeyValue::default()
        };
        Event { kind, kv: Some(kv) }
    }

    #[test]
    fn who_has_written_is_seen_by_what_was_changed_beside() {
        let keys = Keys::new("/gnomon");
        let value = Record::new(0, false, Bytes::from_static(b"batch")).encode_to_vec();
        let restored = Record::new(0, true, Bytes::new()).encode_to_vec();
        let log = |value: &[u8]| event(PUT, "log", value);
        let others = [
            event(PUT, "ack/5", b"a"),
            event(DELETE, "live/one", b""),
            event(DELETE, "ack/5", b""),
            event(PUT, "live/one", b""),
            event(PUT, "kept/one", b"5"),
            event(PUT, "bits/one/5", b""),
            event(PUT, "data", b"0"),
            event(PUT, "cluster", b"0"),
        ];
        let is_by_member = [true, true, false, false, false, false, false, false];
        for (other, is_by_member) in others.iter().zip(is_by_member) {
            for value in [&value[..], b"", b"x", &value[..3], &restored] {
                for events in [vec![log(value), other.clone()], vec![other.clone(), log(value)]] {
                    let done = done(&keys, &events);
                    match is_by_member {
                        true => assert_eq!(done, Done::Appended(Bytes::copy_from_slice(value))),
                        false if value == restored => assert_eq!(done, Done::Restored),
                        false => assert!(matches!(done, Done::Foreign(_)), "{done:?}"),
                    }
                }
            }
            let deleted = done(&keys, &[event(DELETE, "log", b""), other.clone()]);
            assert!(matches!(deleted, Done::Foreign(_)), "{deleted:?}");
            assert_eq!(done(&keys, std::slice::from_ref(other)), Done::Nothing);
        }
    }

    #[test]
    fn what_is_foreign_is_told_with_its_key_and_revision() {
        let what = |events: &[Event]| match done(&Keys::new("/gnomon"), events) {
            Done::Foreign(foreign) => (foreign.what, foreign.bytes),
            done => panic!("{done:?}"),
        };
        let long = [b"\x00'".as_slice(), &[b'x'; 100]].concat();
        for (event, text, bytes) in [
            (event(PUT, "log", b"x"), "the key /gnomon/log was written at revision 7: 'x', 1 bytes", 1),
            (
                event(PUT, "log", &long),
                r"the key /gnomon/log was written at revision 7: '\x00\'xxxxxxxxxxxxxxxxxx...', 102 bytes",
                102,
            ),
            (event(DELETE, "log", b""), "the key /gnomon/log was deleted at revision 7", 0),
        ] {
            assert_eq!(what(&[event]), (text.to_owned(), bytes));
        }
    }

    #[test]
    fn a_record_that_was_changed_is_not_read() {
        let record = Record::new(5, true, Bytes::from_static(b"batch"));
        let bytes = record.encode_to_vec();
        assert_eq!(Record::read(bytes.clone().into()).as_ref(), Some(&record));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let read = Record::read(changed.into());
                // Without its checksum it is read as one of an older version.
                let is_known = |read: Record| read == record || read.checksum.is_none();
                assert!(read.is_none_or(is_known), "byte {at}, bit {bit}");
            }
        }
        let older = Record { checksum: None, ..Record::new(5, true, Bytes::from_static(b"batch")) };
        assert_eq!(Record::read(older.encode_to_vec().into()), Some(older));
    }
}

//! Batches of entries as bytes, as they stand in a log that other processes read.
//!
//! A batch is a protobuf message, declared by hand. It has a version: members of several versions of the program follow
//! one log, and an older one must notice that it does not understand a newer one, so any change of these messages gets a
//! new version. What repeats is written once: the member of a batch, the table and the access of rows that follow each
//! other, and what a key has in common with the one before it.
//!
//! Promises: what is written is read again. Whatever the bytes are, reading them is an answer or an error, and takes
//! memory in proportion to their number.
//!
//! Not done here: checksums, which logs have themselves.

use prost::Message;

use crate::protocol::{Access, Commit, Entry, Key, Level, Member, Range, ReadSet, Touched, TxnName, Version};

/// The version of these messages.
const VERSION: u32 = 1;

/// Maximum number of bytes that are taken over from the key before, which bounds what few bytes can become.
const SHARED_BYTES_MAX: usize = 255;

/// The head of a batch in all versions.
#[derive(Clone, PartialEq, Message)]
struct HeadMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
}

#[derive(Clone, PartialEq, Message)]
struct BatchMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    /// Of entries that do not name another one.
    #[prost(uint64, tag = "2")]
    member: u64,
    #[prost(message, repeated, tag = "3")]
    entries: Vec<EntryMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct EntryMessage {
    #[prost(uint64, optional, tag = "1")]
    member: Option<u64>,
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(oneof = "Kind", tags = "3, 4, 5, 6, 7, 8")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(bool, tag = "3")]
    Begin(bool),
    #[prost(message, tag = "4")]
    Commit(CommitMessage),
    #[prost(bool, tag = "5")]
    Decision(bool),
    #[prost(bytes, tag = "6")]
    Call(Vec<u8>),
    #[prost(bool, tag = "7")]
    Gone(bool),
    #[prost(fixed32, tag = "8")]
    Digest(u32),
}

#[derive(Clone, PartialEq, Message)]
struct CommitMessage {
    #[prost(uint64, tag = "1")]
    level: u64,
    #[prost(uint64, tag = "2")]
    start: u64,
    #[prost(message, repeated, tag = "3")]
    touched: Vec<RowsMessage>,
    #[prost(message, repeated, tag = "4")]
    reads: Vec<RangesMessage>,
    #[prost(bytes, tag = "5")]
    changes: Vec<u8>,
}

/// Rows that follow each other and agree in all but their keys; without keys, a whole table.
#[derive(Clone, PartialEq, Message)]
struct RowsMessage {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    access: u64,
    #[prost(uint64, optional, tag = "3")]
    since: Option<u64>,
    #[prost(message, optional, tag = "4")]
    keys: Option<KeysMessage>,
}

/// Ranges of a table: the ends of each, one after another; the last may be missing, and then is the end of the table.
#[derive(Clone, PartialEq, Message)]
struct RangesMessage {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(message, optional, tag = "2")]
    ends: Option<KeysMessage>,
}

/// Keys, each as what it has in common with the one before it, and the rest.
#[derive(Clone, PartialEq, Message)]
struct KeysMessage {
    /// For each key, the number of bytes that it shares with the key before, in a byte.
    #[prost(bytes, tag = "1")]
    shared: Vec<u8>,
    /// Number of bytes of `rests` for each.
    #[prost(uint32, repeated, tag = "2")]
    lengths: Vec<u32>,
    #[prost(bytes, tag = "3")]
    rests: Vec<u8>,
}

impl KeysMessage {
    fn push(&mut self, before: &[u8], key: &[u8]) {
        let agree = before.iter().zip(key).take(SHARED_BYTES_MAX).take_while(|(a, b)| a == b).count();
        self.shared.push(agree as u8);
        self.lengths.push((key.len() - agree) as u32);
        self.rests.extend_from_slice(&key[agree..]);
    }

    fn of<'a>(keys: impl Iterator<Item = &'a [u8]>) -> KeysMessage {
        let (mut message, mut before): (_, &[u8]) = (KeysMessage::default(), &[]);
        for key in keys {
            message.push(before, key);
            before = key;
        }
        message
    }

    fn keys(&self) -> Result<Vec<Key>, Damaged> {
        if self.shared.len() != self.lengths.len() {
            return Err(Damaged);
        }
        let (mut keys, mut rests): (Vec<Key>, &[u8]) = (Vec::with_capacity(self.shared.len()), &self.rests);
        for (shared, length) in self.shared.iter().zip(&self.lengths) {
            let before = keys.last().map_or(&[][..], |key| key);
            let shared = before.get(..usize::from(*shared)).ok_or(Damaged)?;
            let (rest, others) = rests.split_at_checked(*length as usize).ok_or(Damaged)?;
            rests = others;
            keys.push([shared, rest].concat().into());
        }
        if rests.is_empty() { Ok(keys) } else { Err(Damaged) }
    }
}

/// Bytes are not those of a batch.
struct Damaged;

impl Access {
    fn to_code(self) -> u64 {
        match self {
            Access::Read => 0,
            Access::Write => 1,
            Access::Commute(kind) => 2 + u64::from(kind),
        }
    }

    fn from_code(code: u64) -> Result<Access, Damaged> {
        Ok(match code {
            0 => Access::Read,
            1 => Access::Write,
            _ => Access::Commute(u32::try_from(code - 2).map_err(|_| Damaged)?),
        })
    }
}

impl Level {
    fn to_code(self) -> u64 {
        match self {
            Level::ReadCommitted => 0,
            Level::Snapshot => 1,
            Level::Serializable => 2,
            Level::KBound(k) => 3 + u64::from(k),
        }
    }

    fn from_code(code: u64) -> Result<Level, Damaged> {
        Ok(match code {
            0 => Level::ReadCommitted,
            1 => Level::Snapshot,
            2 => Level::Serializable,
            _ => Level::KBound(u32::try_from(code - 3).map_err(|_| Damaged)?),
        })
    }
}

/// Rows of one message: what they agree in, and whether they are rows and not whole tables.
fn agrees(one: &Touched, other: &Touched) -> bool {
    one.key.is_some()
        && other.key.is_some()
        && (one.table, one.access, one.since) == (other.table, other.access, other.since)
}

fn write_touched(touched: &[Touched]) -> Vec<RowsMessage> {
    let message = |rows: &[Touched]| RowsMessage {
        table: rows[0].table,
        access: rows[0].access.to_code(),
        since: rows[0].since.map(|version| version.0),
        keys: rows[0]
            .key
            .is_some()
            .then(|| KeysMessage::of(rows.iter().filter_map(|row| row.key.as_deref()))),
    };
    touched.chunk_by(agrees).map(message).collect()
}

fn read_touched(messages: &[RowsMessage]) -> Result<Vec<Touched>, Damaged> {
    let mut touched = Vec::new();
    for message in messages {
        let access = Access::from_code(message.access)?;
        let row = |key| Touched { table: message.table, key, access, since: message.since.map(Version) };
        match &message.keys {
            Some(keys) => touched.extend(keys.keys()?.into_iter().map(|key| row(Some(key)))),
            None => touched.push(row(None)),
        }
    }
    Ok(touched)
}

fn write_reads(reads: &ReadSet) -> Vec<RangesMessage> {
    let ends = |ranges: &[Range]| {
        KeysMessage::of(ranges.iter().flat_map(|range| [Some(&*range.low), range.high.as_deref()]).flatten())
    };
    reads.tables().map(|(table, ranges)| RangesMessage { table, ends: Some(ends(ranges)) }).collect()
}

fn read_reads(messages: &[RangesMessage]) -> Result<ReadSet, Damaged> {
    let mut reads = ReadSet::default();
    for message in messages {
        let mut ends = message.ends.as_ref().ok_or(Damaged)?.keys()?.into_iter();
        while let Some(low) = ends.next() {
            reads.add(message.table, Range { low, high: ends.next() });
        }
    }
    Ok(reads)
}

fn write_entry(entry: &Entry, batch: Member) -> EntryMessage {
    let member = entry.member();
    let (number, kind) = match entry {
        Entry::Begin(txn) => (txn.number, Kind::Begin(true)),
        Entry::Commit(commit) => (
            commit.txn.number,
            Kind::Commit(CommitMessage {
                level: commit.level.to_code(),
                start: commit.start.0,
                touched: write_touched(&commit.touched),
                reads: write_reads(&commit.reads),
                changes: commit.changes.clone(),
            }),
        ),
        Entry::Decision(txn, commits) => (txn.number, Kind::Decision(*commits)),
        Entry::Call(txn, procedure) => (txn.number, Kind::Call(procedure.clone())),
        Entry::Digest(txn, digest) => (txn.number, Kind::Digest(*digest)),
        Entry::Gone(_) => (0, Kind::Gone(true)),
    };
    EntryMessage { member: (member != batch).then_some(member.0), number, kind: Some(kind) }
}

fn read_entry(message: EntryMessage, batch: u64) -> Result<Entry, Damaged> {
    let member = Member(message.member.unwrap_or(batch));
    let txn = TxnName { member, number: message.number };
    Ok(match message.kind.ok_or(Damaged)? {
        Kind::Begin(_) => Entry::Begin(txn),
        Kind::Commit(commit) => Entry::Commit(Commit {
            txn,
            level: Level::from_code(commit.level)?,
            start: Version(commit.start),
            touched: read_touched(&commit.touched)?,
            reads: read_reads(&commit.reads)?,
            changes: commit.changes,
        }),
        Kind::Decision(commits) => Entry::Decision(txn, commits),
        Kind::Call(procedure) => Entry::Call(txn, procedure),
        Kind::Digest(digest) => Entry::Digest(txn, digest),
        Kind::Gone(_) => Entry::Gone(member),
    })
}

/// A batch of entries as bytes.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let member = entries.first().map_or(Member(0), Entry::member);
    let entries = entries.iter().map(|entry| write_entry(entry, member)).collect();
    BatchMessage { version: VERSION, member: member.0, entries }.encode_to_vec()
}

/// The reason why bytes are not read as entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// They are not those of a batch.
    #[error("it is damaged")]
    Damaged,
    /// They are those of a version that is not known.
    #[error(
        "it has format {0}, and this program knows {VERSION}: a member with a newer program wrote it, upgrade this one"
    )]
    Newer(u32),
}

/// The entries that bytes are.
///
/// # Errors
/// They are not those of a batch, or those of a version that is not known.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Entry>, Unreadable> {
    let damaged = |_| Unreadable::Damaged;
    let version = HeadMessage::decode(bytes).map_err(damaged)?.version;
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    let batch = BatchMessage::decode(bytes).map_err(damaged)?;
    if version == 0 {
        return Err(Unreadable::Damaged);
    }
    let entries = batch.entries.into_iter().map(|entry| read_entry(entry, batch.member));
    entries.collect::<Result<_, Damaged>>().map_err(|_| Unreadable::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(0u8..3, 0..5),
            (250usize..260, any::<u8>()).prop_map(|(length, last)| [vec![7; length], vec![last]].concat()),
        ]
    }

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![Just(Access::Read), Just(Access::Write), any::<u32>().prop_map(Access::Commute)]
    }

    fn touched() -> impl Strategy<Value = Touched> {
        let since = prop::option::of(prop_oneof![Just(5), any::<u64>()].prop_map(Version));
        (0u64..3, prop::option::weighted(0.9, key()), access(), since).prop_map(
            |(table, key, access, since)| Touched { table, key: key.map(Into::into), access, since },
        )
    }

    fn reads() -> impl Strategy<Value = ReadSet> {
        prop::collection::vec((0u64..3, key(), prop::option::of(key())), 0..8).prop_map(|ranges| {
            let mut reads = ReadSet::default();
            for (table, low, high) in ranges {
                reads.add(table, Range { low: low.into(), high: high.map(Into::into) });
            }
            reads
        })
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let txn = || {
            (0u64..3, any::<u64>()).prop_map(|(member, number)| TxnName { member: Member(member), number })
        };
        let bytes = || prop::collection::vec(any::<u8>(), 0..20);
        let level = prop_oneof![
            Just(Level::ReadCommitted),
            Just(Level::Snapshot),
            Just(Level::Serializable),
            any::<u32>().prop_map(Level::KBound)
        ];
        let commit = (txn(), level, any::<u64>(), prop::collection::vec(touched(), 0..12), reads(), bytes())
            .prop_map(|(txn, level, start, touched, reads, changes)| Commit {
                txn,
                level,
                start: Version(start),
                touched,
                reads,
                changes,
            });
        prop_oneof![
            txn().prop_map(Entry::Begin),
            commit.prop_map(Entry::Commit),
            (txn(), any::<bool>()).prop_map(|(txn, commits)| Entry::Decision(txn, commits)),
            (txn(), any::<u32>()).prop_map(|(txn, digest)| Entry::Digest(txn, digest)),
            (txn(), bytes()).prop_map(|(txn, procedure)| Entry::Call(txn, procedure)),
            any::<u64>().prop_map(|member| Entry::Gone(Member(member))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(entries in prop::collection::vec(entry(), 0..6)) {
            prop_assert_eq!(decode(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn damaged_bytes_are_an_error_or_other_entries(
            entries in prop::collection::vec(entry(), 1..4),
            damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            length in any::<prop::sample::Index>(),
            noise in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = encode(&entries);
            let _ = decode(&bytes[..length.index(bytes.len())]);
            for (place, byte) in damages {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let _ = decode(&bytes);
            let _ = decode(&noise);
        }
    }

    #[test]
    fn what_repeats_is_written_once() {
        let txn = |number| TxnName { member: Member(u64::MAX), number };
        let begins: Vec<Entry> = (0..100).map(|number| Entry::Begin(txn(number))).collect();
        assert!(encode(&begins).len() < 100 * 7);
        let key =
            |number: u32| [b"a table's long common beginning".as_slice(), &number.to_be_bytes()].concat();
        let mut reads = ReadSet::default();
        (0..100).for_each(|number| reads.add_key(u64::MAX, &key(2 * number)));
        let commit = Commit {
            txn: txn(1),
            level: Level::Serializable,
            start: Version(9),
            touched: (0..100).map(|number| Touched::row(u64::MAX, &key(number), Access::Write)).collect(),
            reads,
            changes: Vec::new(),
        };
        let length = encode(&[Entry::Commit(commit)]).len();
        assert!(length < 100 * 3 + 200 * 3 + 150, "{length} bytes");
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let newer = BatchMessage { version: VERSION + 1, ..BatchMessage::default() }.encode_to_vec();
        assert_eq!(decode(&newer), Err(Unreadable::Newer(VERSION + 1)));
        assert!(Unreadable::Newer(VERSION + 1).to_string().contains("upgrade this one"));
        assert_eq!(decode(&[]), Err(Unreadable::Damaged));
        assert_eq!(decode(b"{\"json\": 1}"), Err(Unreadable::Damaged));
        let keys = KeysMessage { shared: vec![0], lengths: vec![1, 1], rests: b"ab".to_vec() };
        assert!(keys.keys().is_err());
    }
}

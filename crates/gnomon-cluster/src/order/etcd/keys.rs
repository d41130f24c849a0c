//! The keys of a cluster's log in etcd, and the values that are not entries.
//!
//! | Key                         | Lease | Written                     | Meaning                                      |
//! |-----------------------------|-------|-----------------------------|----------------------------------------------|
//! | `gnomon-cluster-of-this-etcd` |     | by the first member         | the prefix: one etcd has one cluster         |
//! | `PREFIX/cluster`            |       | by the first member         | the number of the cluster                    |
//! | `PREFIX/log`                |       | by each append              | [`Record`]; its versions are the log         |
//! | `PREFIX/data`               |       | by the first to have data   | the number of the data                       |
//! | `PREFIX/members/NAME`       | yes   | by joining                  | the member is heard of, and where            |
//! | `PREFIX/live/NAME`          |       | by joining, with the former | the member was not said gone                 |
//! | `PREFIX/ack/MEMBER`         |       | by each append              | [`Ack`]: how far the member's batches are    |
//! | `PREFIX/kept/NAME`          |       | by the member               | the revision up to which it needs nothing    |
//! | `PREFIX/bits/NAME/BIT`      |       | by joining; see `kept`      | where it is missing, a bit of such a revision|
//! | `PREFIX/pieces/MEMBER/BATCH`|       | by each piece of a batch    | from the first revision to the newest one    |
//!
//! A member's number is the revision at which `members/NAME` and `live/NAME` were created.

use prost::{Message, bytes::Bytes};

use crate::protocol::Member;

/// A version of the log key: a batch, or a piece of one. Only the last piece of a batch has been appended; the others
/// are read back from it.
///
/// It is one of the cluster's if the same revision has written an `ack` or deleted a `live` (see `revision`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    /// The revision of the piece before; 0 if there is none.
    #[prost(int64, tag = "1")]
    pub previous: i64,
    /// True if another piece follows.
    #[prost(bool, tag = "2")]
    pub is_unfinished: bool,
    #[prost(bytes = "bytes", tag = "3")]
    pub bytes: Bytes,
    /// crc32c of the others; none in what older versions of the program have written.
    #[prost(fixed32, optional, tag = "4")]
    pub checksum: Option<u32>,
}

impl Record {
    /// A piece of a batch, or the whole of it.
    pub(super) fn new(previous: i64, is_unfinished: bool, bytes: Bytes) -> Record {
        let record = Record { previous, is_unfinished, bytes, checksum: None };
        Record { checksum: Some(record.sum()), ..record }
    }

    fn sum(&self) -> u32 {
        let head = [&self.previous.to_le_bytes()[..], &[u8::from(self.is_unfinished)]].concat();
        crc32c::crc32c_append(crc32c::crc32c(&head), &self.bytes)
    }

    /// The record that bytes are, if they are what was written.
    pub(super) fn read(bytes: Bytes) -> Option<Record> {
        let record = Record::decode(bytes).ok()?;
        record.checksum.is_none_or(|checksum| checksum == record.sum()).then_some(record)
    }
}

/// The position of a member's appends.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Ack {
    /// The number of its last batch.
    #[prost(uint64, tag = "1")]
    pub batch: u64,
    /// Number of its pieces that are appended; 0 if all are.
    #[prost(uint64, tag = "2")]
    pub pieces: u64,
}

impl Ack {
    pub(super) fn to_bytes(self) -> Bytes {
        self.encode_to_vec().into()
    }
}

/// The keys of a cluster.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
    pub log: Bytes,
    pub cluster: Bytes,
    pub data: Bytes,
    /// The key of the etcd itself, whichever cluster it is for.
    pub owner: Bytes,
    pub all_acks: Bytes,
    pub all_kept: Bytes,
    pub all_bits: Bytes,
    pub all_members: Bytes,
    pub all_live: Bytes,
    pub all_pieces: Bytes,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        let prefix = prefix.trim_end_matches('/').to_owned();
        let key = |name: &str| Bytes::from(format!("{prefix}/{name}"));
        let (log, cluster, data, all_kept) = (key("log"), key("cluster"), key("data"), key("kept/"));
        let (all_members, all_live, all_pieces) = (key("members/"), key("live/"), key("pieces/"));
        let (all_acks, all_bits) = (key("ack/"), key("bits/"));
        let owner = Bytes::from_static(b"gnomon-cluster-of-this-etcd");
        Keys {
            prefix,
            log,
            cluster,
            data,
            owner,
            all_acks,
            all_kept,
            all_bits,
            all_members,
            all_live,
            all_pieces,
        }
    }

    /// Returns the prefix of all keys.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn key(&self, rest: std::fmt::Arguments) -> Bytes {
        format!("{}/{rest}", self.prefix).into()
    }

    pub(super) fn member(&self, name: &str) -> Bytes {
        self.key(format_args!("members/{name}"))
    }

    pub(super) fn live(&self, name: &str) -> Bytes {
        self.key(format_args!("live/{name}"))
    }

    pub(super) fn kept(&self, name: &str) -> Bytes {
        self.key(format_args!("kept/{name}"))
    }

    pub(super) fn bit(&self, name: &str, bit: u32) -> Bytes {
        self.key(format_args!("bits/{name}/{bit}"))
    }

    /// Returns the prefix of the keys of all bits of a name.
    pub(super) fn bits(&self, name: &str) -> Bytes {
        self.key(format_args!("bits/{name}/"))
    }

    /// The name and the bit of a key of bits.
    pub(super) fn name_and_bit(&self, key: &[u8]) -> Option<(String, u32)> {
        let rest = Keys::rest(key, &self.all_bits);
        let (name, bit) = rest.rsplit_once('/')?;
        Some((name.to_owned(), bit.parse().ok()?))
    }

    pub(super) fn ack(&self, member: Member) -> Bytes {
        self.key(format_args!("ack/{}", member.0))
    }

    pub(super) fn pieces(&self, member: Member, batch: u64) -> Bytes {
        self.key(format_args!("pieces/{}/{batch}", member.0))
    }

    /// Returns the part of a key behind one of the prefixes.
    pub(super) fn rest<'a>(key: &'a [u8], beginning: &[u8]) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(key.strip_prefix(beginning).unwrap_or(key))
    }

    /// The member of a key of pieces.
    pub(super) fn member_of_pieces(&self, key: &[u8]) -> Option<Member> {
        let rest = Keys::rest(key, &self.all_pieces);
        rest.split('/').next()?.parse().ok().map(Member)
    }
}

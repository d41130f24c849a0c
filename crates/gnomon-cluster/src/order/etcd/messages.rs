//! The messages of etcd's API, version 3, that are needed here, with the fields that are needed: declared by hand, since
//! code made from etcd's own declarations needs a compiler for them on every machine that builds this.
//!
//! Names and tags are those of etcd's `rpc.proto` and `kv.proto`.

use prost::{Message, Oneof, bytes::Bytes};

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    /// Of the cluster of etcd nodes.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// As of which; 0 is the newest one.
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    /// The answer to a range; those to other requests are not needed.
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// [`Compare::result`]: equal.
pub(super) const EQUAL: i32 = 0;
/// [`Compare::result`]: not equal.
pub(super) const NOT_EQUAL: i32 = 3;
/// [`Compare::target`]: the revision at which the key was created.
pub(super) const CREATE: i32 = 1;
/// [`Compare::target`]: the revision at which the key was written last.
pub(super) const MODIFIED: i32 = 2;
/// [`Compare::target`]: the value of the key.
pub(super) const VALUE: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub result: i32,
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    #[prost(oneof = "Against", tags = "5, 6, 7")]
    pub against: Option<Against>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Against {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
    /// Answer when the space is free, and not when it is decided.
    #[prost(bool, tag = "2")]
    pub physical: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DefragmentRequest {}

/// [`AlarmRequest::action`]: tell of alarms, or end one.
pub(super) const GET_ALARMS: i32 = 0;
pub(super) const END_ALARM: i32 = 2;
/// [`Alarm::kind`]: a node has reached its quota.
pub(super) const NO_SPACE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub action: i32,
    /// The node of etcd.
    #[prost(uint64, tag = "2")]
    pub node: u64,
    #[prost(int32, tag = "3")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<Alarm>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Alarm {
    /// The node of etcd.
    #[prost(uint64, tag = "1")]
    pub node: u64,
    #[prost(int32, tag = "2")]
    pub kind: i32,
}

/// A user asks for a token.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

/// An answer of which nothing is needed but that it came.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Done {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Cut answers that are too large for a message.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Not 0 if what was asked for is not kept any more.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// More of the same answer follows: a revision may have come in part.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// [`Event::kind`]: the key is written, or deleted.
pub(super) const PUT: i32 = 0;
pub(super) const DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl_s: i64,
}

/// A lease, as requests name it and answers tell of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// 0 if the lease is over.
    #[prost(int64, tag = "3")]
    pub ttl_s: i64,
}

/// Requests and comparisons in a line.
impl Compare {
    pub(super) fn created(key: &Bytes, revision: i64) -> Compare {
        let against = Some(Against::CreateRevision(revision));
        Compare { result: EQUAL, target: CREATE, key: key.clone(), against }
    }

    pub(super) fn not_created(key: &Bytes, revision: i64) -> Compare {
        Compare { result: NOT_EQUAL, ..Compare::created(key, revision) }
    }

    pub(super) fn absent(key: &Bytes) -> Compare {
        Compare::created(key, 0)
    }

    pub(super) fn present(key: &Bytes) -> Compare {
        Compare::not_created(key, 0)
    }

    pub(super) fn modified(key: &Bytes, revision: i64) -> Compare {
        let against = Some(Against::ModRevision(revision));
        Compare { result: EQUAL, target: MODIFIED, key: key.clone(), against }
    }

    pub(super) fn value(key: &Bytes, value: Bytes) -> Compare {
        Compare { result: EQUAL, target: VALUE, key: key.clone(), against: Some(Against::Value(value)) }
    }
}

/// Behind all keys that begin so and go on; the beginning ends with a slash.
fn end_of_all(beginning: &Bytes) -> Bytes {
    [beginning.strip_suffix(b"/").unwrap_or(beginning), b"0"].concat().into()
}

impl RequestOp {
    pub(super) fn get(key: &Bytes) -> RequestOp {
        let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        RequestOp { request: Some(Request::Range(range)) }
    }

    /// All keys that begin so and go on; the beginning ends with a slash.
    pub(super) fn get_all(beginning: &Bytes) -> RequestOp {
        let range = RangeRequest { key: beginning.clone(), range_end: end_of_all(beginning), revision: 0 };
        RequestOp { request: Some(Request::Range(range)) }
    }

    pub(super) fn put(key: &Bytes, value: Bytes) -> RequestOp {
        RequestOp::put_with_lease(key, value, 0)
    }

    pub(super) fn put_with_lease(key: &Bytes, value: Bytes, lease: i64) -> RequestOp {
        RequestOp { request: Some(Request::Put(PutRequest { key: key.clone(), value, lease })) }
    }

    pub(super) fn delete(key: &Bytes) -> RequestOp {
        let delete = DeleteRangeRequest { key: key.clone(), range_end: Bytes::new() };
        RequestOp { request: Some(Request::DeleteRange(delete)) }
    }

    /// As [`RequestOp::get_all`], but deletes them.
    pub(super) fn delete_all(beginning: &Bytes) -> RequestOp {
        let delete = DeleteRangeRequest { key: beginning.clone(), range_end: end_of_all(beginning) };
        RequestOp { request: Some(Request::DeleteRange(delete)) }
    }
}

impl TxnResponse {
    /// Returns the key-value pairs that the range request in this place has found.
    pub(super) fn found(&self, place: usize) -> &[KeyValue] {
        self.responses.get(place).and_then(|response| response.range.as_ref()).map_or(&[], |range| &range.kvs)
    }

    pub(super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }
}

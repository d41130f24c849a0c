//! Following the log: a watch on its key, and on those that members change with it, which is made anew where it was when
//! it breaks.

use std::time::Duration;

use prost::bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;

use super::{
    Appended, LogError, Refused, Space,
    client::Failure,
    encoding::{self, Unreadable},
    keys::Record,
    messages::{DELETE, Event, RequestOp, WatchResponse},
    revision::{self, Done},
    value_of,
};
use crate::protocol::Entry;

/// The position up to which the log is followed.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// The revision up to which it was given out.
    given: u64,
    /// The newest revision that was looked at of those that have changed the key.
    seen: u64,
    /// The state of the key there; none if only what is behind was asked for.
    found: Option<Found>,
    /// Batches that are not given out yet.
    ready: Vec<Appended>,
    /// Events of a revision of which the next fragment may have more.
    unfinished: Vec<Event>,
    stream: Option<Streaming<WatchResponse>>,
}

/// The key at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Written,
    Deleted,
}

impl Follower {
    /// Returns what was appended after a revision; waits up to `wait` for something.
    pub(super) async fn after(
        &mut self,
        space: &Space,
        cluster: u64,
        revision: u64,
        wait: Duration,
    ) -> Result<Vec<Appended>, LogError> {
        if self.given != revision {
            *self = Follower { given: revision, seen: revision, ..Follower::default() };
        }
        let end = Instant::now() + wait;
        while self.ready.is_empty() {
            // It is put back when it has gone well: after an error the watch begins behind what was seen.
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.watch(space, cluster).await?,
            };
            let why = match timeout_at(end, stream.message()).await {
                Err(_) => {
                    self.stream = Some(stream);
                    break;
                }
                Ok(Ok(Some(response))) if response.canceled && response.compact_revision == 0 => {
                    response.cancel_reason
                }
                Ok(Ok(Some(response))) => {
                    self.take(space, response).await?;
                    self.stream = Some(stream);
                    continue;
                }
                Ok(Ok(None)) => "it has ended".into(),
                Ok(Err(status)) => status.message().to_owned(),
            };
            space.client.leave_current();
            if Instant::now() >= end {
                return Err(LogError::Unreachable(format!("the watch of etcd broke: {why}")));
            }
        }
        if let Some(last) = self.ready.last() {
            self.given = last.revision;
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// Makes it watch again.
    #[cfg(test)]
    pub(super) fn break_off(&mut self) {
        self.stream = None;
    }

    async fn watch(&mut self, space: &Space, cluster: u64) -> Result<Streaming<WatchResponse>, LogError> {
        let gone_back = |what: String| {
            Err(LogError::Foreign(format!(
                "{what}: etcd has lost data, or was made anew; start a new cluster from a member's data (gnomon serve \
                 DIR --leave-cluster)"
            )))
        };
        // A watch from a revision that is not there yet would wait for it, and leave out what comes before.
        let answer = space.client.read(vec![RequestOp::get(&space.keys.cluster)]).await?;
        let newest = answer.revision() as u64;
        if answer.found(0).first().is_none_or(|kv| kv.value != value_of(cluster)) {
            return gone_back(
                "the log of the cluster in etcd is not the one that this member has joined".into(),
            );
        }
        if newest < self.seen {
            let seen = self.seen;
            return gone_back(format!(
                "etcd is at revision {newest}, and this member has followed it to {seen}"
            ));
        }
        if let Some(found) = self.found {
            match space.client.version(&space.keys.log, self.seen as i64).await {
                Ok(Some(kv)) if kv.mod_revision as u64 == self.seen => {}
                Ok(None) if found == Found::Deleted => {}
                // It was trimmed since.
                Err(Failure::Compacted) => {}
                Ok(_) => {
                    return gone_back(format!(
                        "etcd has not what this member has seen at revision {}",
                        self.seen
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.unfinished.clear();
        Ok(space.client.watch(revision::watch(&space.keys, self.seen as i64 + 1)).await?)
    }

    /// Takes over what a watch has brought.
    async fn take(&mut self, space: &Space, response: WatchResponse) -> Result<(), LogError> {
        if response.compact_revision > 0 {
            return Err(Refused::Trimmed { from: response.compact_revision as u64 }.into());
        }
        let mut events = std::mem::take(&mut self.unfinished);
        events.extend(response.events);
        if response.fragment {
            let last = events.last().map(revision_of);
            self.unfinished =
                events.split_off(events.partition_point(|event| Some(revision_of(event)) < last));
        }
        for events in events.chunk_by(|one, next| revision_of(one) == revision_of(next)) {
            let revision = revision_of(&events[0]);
            let (entries, foreign) = match revision::done(&space.keys, events) {
                Done::Nothing => continue,
                Done::Appended(bytes) => (entries(space, bytes, revision).await?, None),
                Done::Foreign(foreign) => (Vec::new(), Some(foreign)),
                Done::Restored => (Vec::new(), None),
            };
            let is_deleted = |event: &Event| {
                event.kind == DELETE && event.kv.as_ref().is_some_and(|kv| kv.key == space.keys.log)
            };
            self.found = Some(if events.iter().any(is_deleted) { Found::Deleted } else { Found::Written });
            self.seen = revision as u64;
            self.ready.push(Appended { revision: self.seen, entries, foreign });
        }
        Ok(())
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

/// The entries of a batch whose last piece is at this revision; none if another piece follows.
async fn entries(space: &Space, bytes: Bytes, revision: i64) -> Result<Vec<Entry>, LogError> {
    let unreadable = |why: &str| {
        let key = String::from_utf8_lossy(&space.keys.log);
        LogError::Foreign(format!(
            "the entry of the cluster under {key} at revision {revision} is of a member, and cannot be read: {why}"
        ))
    };
    let record = Record::read(bytes).ok_or_else(|| unreadable(DAMAGED))?;
    if record.is_unfinished {
        return Ok(Vec::new());
    }
    let Some(bytes) = whole(space, record, revision).await? else { return Err(unreadable(DAMAGED)) };
    encoding::decode(&bytes).map_err(|error| match error {
        Unreadable::Damaged => unreadable(DAMAGED),
        newer @ Unreadable::Newer(_) => unreadable(&newer.to_string()),
    })
}

/// The error of an entry that is damaged. No member skips it: others may have read it.
const DAMAGED: &str = "it is damaged. Compare the nodes of etcd (etcdctl endpoint hashkv --cluster): if one differs, \
                       replace it, and start this member again; if they agree, start a new cluster from the member with \
                       the most commits (gnomon serve DIR --leave-cluster)";

/// The bytes of a batch whose last piece is at this revision; nothing if they cannot be read.
async fn whole(space: &Space, last: Record, revision: i64) -> Result<Option<Bytes>, LogError> {
    let (mut previous, mut pieces) = (last.previous, vec![last.bytes]);
    while previous > 0 {
        let version = match space.client.version(&space.keys.log, previous).await {
            // A member that follows from the last piece on does not need the others.
            Err(Failure::Compacted) => return Err(Refused::Trimmed { from: revision as u64 }.into()),
            version => version?,
        };
        let piece = version.filter(|kv| kv.mod_revision == previous);
        let Some(record) = piece.and_then(|kv| Record::read(kv.value)) else { return Ok(None) };
        // Pieces are behind each other, whatever stands there.
        previous = record.previous.min(previous - 1);
        pieces.push(record.bytes);
    }
    let mut bytes = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().rev().for_each(|piece| bytes.extend_from_slice(piece));
    Ok(Some(bytes.freeze()))
}

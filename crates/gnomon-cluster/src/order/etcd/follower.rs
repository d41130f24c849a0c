//! Following the log: a watch on its key, which is made anew where it was when it breaks.

use std::time::Duration;

use prost::{
    Message,
    bytes::{Bytes, BytesMut},
};
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;

use super::{
    Appended, LogError, Refused, Space,
    client::Failure,
    encoding,
    keys::Record,
    messages::{DELETE, Event, RequestOp, WatchCreateRequest, WatchResponse},
    value_of,
};

/// How far the log is followed.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// The revision up to which it was given out.
    given: u64,
    /// The revision of the newest version of the key that was looked at.
    seen: u64,
    /// Whether a version was looked at there, and not only asked for what is behind.
    has_seen: bool,
    /// What is not given out yet.
    ready: Vec<Appended>,
    stream: Option<Streaming<WatchResponse>>,
}

impl Follower {
    /// What was appended after a revision; waits so long for something.
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

    async fn watch(&self, space: &Space, cluster: u64) -> Result<Streaming<WatchResponse>, LogError> {
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
        if self.has_seen {
            match space.client.version(&space.keys.log, self.seen as i64).await {
                Ok(Some(kv)) if kv.mod_revision as u64 == self.seen => {}
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
        let start_revision = self.seen as i64 + 1;
        let create = WatchCreateRequest { key: space.keys.log.clone(), start_revision, fragment: true };
        Ok(space.client.watch(create).await?)
    }

    /// Takes over what a watch has brought.
    async fn take(&mut self, space: &Space, response: WatchResponse) -> Result<(), LogError> {
        if response.compact_revision > 0 {
            return Err(Refused::Trimmed { from: response.compact_revision as u64 }.into());
        }
        for Event { kind, kv } in response.events {
            let Some(kv) = kv else { continue };
            let revision = kv.mod_revision as u64;
            if kind == DELETE {
                return Err(LogError::Foreign(format!(
                    "somebody has deleted the log of the cluster in etcd, at revision {revision}: \
                     start a new cluster from a member's data"
                )));
            }
            let record = decode(kv.value)?;
            let entries = match record.is_unfinished {
                true => Vec::new(),
                false => {
                    let bytes = whole(space, record, kv.mod_revision).await?;
                    encoding::decode(&bytes).map_err(LogError::Foreign)?
                }
            };
            self.ready.push(Appended { revision, entries });
            (self.seen, self.has_seen) = (revision, true);
        }
        Ok(())
    }
}

fn decode(bytes: Bytes) -> Result<Record, LogError> {
    let what = "the log of the cluster in etcd cannot be read: see that nothing else writes there";
    Record::decode(bytes).map_err(|_| LogError::Foreign(what.into()))
}

/// The bytes of a batch whose last piece is at this revision.
async fn whole(space: &Space, last: Record, revision: i64) -> Result<Bytes, LogError> {
    let (mut previous, mut pieces) = (last.previous, vec![last.bytes]);
    while previous > 0 {
        let version = match space.client.version(&space.keys.log, previous).await {
            // Who follows from the last piece on does not need the others.
            Err(Failure::Compacted) => return Err(Refused::Trimmed { from: revision as u64 }.into()),
            version => version?,
        };
        let record = decode(version.map(|kv| kv.value).unwrap_or_default())?;
        // Pieces are behind each other, whatever stands there.
        previous = record.previous.min(previous - 1);
        pieces.push(record.bytes);
    }
    let mut bytes = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().rev().for_each(|piece| bytes.extend_from_slice(piece));
    Ok(bytes.freeze())
}

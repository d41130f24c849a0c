//! Membership of the cluster: joining, being heard of, and being gone.

use std::time::Duration;

use gnomon_engine::sync::{Arc, Mutex};
use prost::{Message, bytes::Bytes};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::{
    LogError, Member, MemberInfo, Refused, Shared, Space,
    client::Failure,
    encoding,
    kept::Bits,
    keys::{Keys, Record},
    messages::{Compare, KeyValue, RequestOp},
    value_of,
};
use crate::protocol::Entry;

/// Maximum delay of the answer that a lease is kept.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// The member that this process is.
#[derive(Debug)]
pub(super) struct Joined {
    pub member: Member,
    pub name: String,
    lease: i64,
    keeper: AbortHandle,
    pub bits: Bits,
    /// When etcd has answered last that the lease is kept.
    heard_at: Arc<Mutex<Instant>>,
}

impl Joined {
    pub(super) fn stop_keeping_alive(&self) {
        self.keeper.abort();
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.stop_keeping_alive();
    }
}

impl Shared {
    pub(super) async fn join(self: Arc<Self>, name: String, address: String) -> Result<Member, LogError> {
        let lease = self.space.client.grant(self.ttl).await?;
        match self.space.join(self.cluster, (&name, &address), lease).await {
            Ok(member) => {
                let heard_at = Arc::new(Mutex::new(Instant::now()));
                let keeper = tokio::spawn(keep_alive(self.clone(), lease, heard_at.clone())).abort_handle();
                let bits = Bits::made_at(member.0 as i64);
                *self.joined.lock() = Some(Joined { member, name, lease, keeper, heard_at, bits });
                Ok(member)
            }
            Err(error) => {
                // It would run out by itself.
                let _ = self.space.client.revoke(lease).await;
                Err(error)
            }
        }
    }

    pub(super) async fn reached_at(&self, member: Member, address: String) -> Result<(), LogError> {
        let (member_key, lease) = {
            let joined = self.joined.lock();
            let own = joined.as_ref().filter(|own| own.member == member).ok_or(Refused::Fenced)?;
            (self.space.keys.member(&own.name), own.lease)
        };
        let compare = vec![Compare::created(&member_key, member.0 as i64)];
        let put = RequestOp::put_with_lease(&member_key, address.into(), lease);
        match self.space.client.txn(compare, vec![put], Vec::new()).await?.succeeded {
            true => Ok(()),
            false => Err(Refused::Fenced.into()),
        }
    }

    /// Returns the time for which etcd has not answered this member, if that is longer than it should be.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let heard_at = *self.joined.lock().as_ref()?.heard_at.lock();
        Some(heard_at.elapsed()).filter(|silent| *silent > self.ttl / 3 + SILENT_MAX)
    }

    pub(super) async fn gone(&self, member: Member) -> Result<(), LogError> {
        let own = self.joined.lock().as_ref().filter(|own| own.member == member).map(|own| own.lease);
        let members = self.space.members().await?;
        let said = match members.into_iter().find(|info| info.member == member) {
            Some(info) => self.space.say_gone(member, &info.name, own.is_some()).await,
            None => Ok(()),
        };
        // Said or not, it is heard of no more.
        if let Some(lease) = own {
            *self.joined.lock() = None;
            // Nothing is bound to it any more, and it would run out by itself.
            let _ = self.space.client.revoke(lease).await;
        }
        said
    }
}

/// Keeps the member's lease alive, until it is over all the same: the log then refuses what it appends.
async fn keep_alive(shared: Arc<Shared>, lease: i64, heard_at: Arc<Mutex<Instant>>) {
    loop {
        match shared.space.client.keep_alive(lease).await {
            Ok(()) => *heard_at.lock() = Instant::now(),
            Err(Failure::LeaseOver) => return,
            Err(_) => {}
        }
        sleep((shared.ttl / 3).max(Duration::from_millis(100))).await;
    }
}

impl Space {
    async fn join(
        &self,
        cluster: u64,
        (name, address): (&str, &str),
        lease: i64,
    ) -> Result<Member, LogError> {
        let (member_key, live_key) = (self.keys.member(name), self.keys.live(name));
        loop {
            let compare = vec![
                Compare::value(&self.keys.cluster, value_of(cluster)),
                Compare::absent(&member_key),
                Compare::absent(&live_key),
            ];
            let mut puts = self.make_bits(name);
            puts.extend([
                RequestOp::put_with_lease(&member_key, Bytes::from(address.to_owned()), lease),
                RequestOp::put(&live_key, Bytes::new()),
            ]);
            let reads = [&member_key, &live_key, &self.keys.cluster].map(RequestOp::get).to_vec();
            let answer = self.client.txn(compare, puts, reads).await?;
            if answer.succeeded {
                return Ok(Member(answer.revision() as u64));
            }
            if answer.found(2).first().is_none_or(|kv| kv.value != value_of(cluster)) {
                return Err(LogError::Foreign(
                    "the log of the cluster in etcd was removed, or made anew, since this member has reached it: \
                     start a new cluster from a member's data"
                        .into(),
                ));
            }
            match (answer.found(0).first(), answer.found(1).first()) {
                // The answer to an earlier try was lost.
                (Some(key), _) if key.lease == lease => return Ok(Member(key.create_revision as u64)),
                (Some(_), _) => return Err(Refused::NameInUse(name.to_owned()).into()),
                (None, Some(former)) => {
                    self.say_gone(Member(former.create_revision as u64), name, false).await?;
                }
                (None, None) => {}
            }
        }
    }

    pub(super) async fn members(&self) -> Result<Vec<MemberInfo>, LogError> {
        let reads = [&self.keys.all_live, &self.keys.all_members].map(RequestOp::get_all);
        let answer = self.client.read(reads.to_vec()).await?;
        let info = |live: &KeyValue| {
            let heard = answer.found(1).iter().find(|key| key.create_revision == live.create_revision);
            let address = heard.map_or(&[][..], |key| &key.value);
            MemberInfo {
                member: Member(live.create_revision as u64),
                name: Keys::rest(&live.key, &self.keys.all_live).into_owned(),
                address: String::from_utf8_lossy(address).into_owned(),
                is_alive: heard.is_some(),
            }
        };
        Ok(answer.found(0).iter().map(info).collect())
    }

    /// Says that a member is gone, unless that was said already, or it is heard of and is another one than this.
    async fn say_gone(&self, member: Member, name: &str, is_own: bool) -> Result<(), LogError> {
        let (member_key, live_key) = (self.keys.member(name), self.keys.live(name));
        let entry = encoding::encode(&[Entry::Gone(member)]);
        let record = Record::new(0, false, entry.into());
        let mut compare = vec![Compare::created(&live_key, member.0 as i64)];
        let mut changes = vec![
            RequestOp::put(&self.keys.log, record.encode_to_vec().into()),
            RequestOp::delete(&live_key),
            RequestOp::delete(&self.keys.ack(member)),
        ];
        match is_own {
            // No other member has the name while the marker is there.
            true => changes.push(RequestOp::delete(&member_key)),
            false => compare.push(Compare::not_created(&member_key, member.0 as i64)),
        }
        self.client.txn(compare, changes, Vec::new()).await?;
        Ok(())
    }
}

//! The ordered log in etcd: one key whose versions are the log, and etcd's revisions their numbers.
//!
//! - [`EtcdLog`]: the log; [`EtcdOptions`]: where it is;
//! - [`EtcdAccess`]: TLS, certificates and users of etcd;
//! - `client`: calls of etcd over several endpoints; `messages`: the messages of its API;
//! - `keys`: the keys of a cluster, and what stands there;
//! - [`LocalEtcd`]: nodes of etcd on this machine, for experiments and tests;
//! - `appending`, `membership`, `kept`: what the log does, each step a transaction of etcd; `follower`: following it.
//!
//! Promises, beside those of [`order`](crate::order): each step compares what it needs to be so, in the transaction that
//! changes it. So it can be asked for again when an answer was lost, at another endpoint too, and takes effect once. A
//! member whose lease is over cannot append any more, from the moment on at which another one can say that it is gone.
//!
//! A batch that is larger than etcd takes is cut in pieces. It is appended with its last piece, which leads to the ones
//! before; those of a batch that never gets its last piece mean nothing.
//!
//! Whatever else writes or deletes the log's key is skipped by all alike: that a revision is of a member is seen by what
//! it has changed beside (`revision`), which etcd has the same of for all, and not by what is written there.
//!
//! etcd's own compaction (`--auto-compaction-retention`) must be off, which it is by default: it would trim what members
//! have not applied.

use std::{collections::BTreeMap, future::Future, sync::mpsc::RecvTimeoutError, time::Duration};

use gnomon_engine::{
    env::Rng,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use prost::{Message, bytes::Bytes};
use tokio::runtime::{Builder, Runtime};

use super::{Appended, Batch, Foreign, LogError, Member, MemberInfo, OrderedLog, Refused, encoding};

mod access;
mod appending;
mod client;
mod follower;
mod kept;
mod keys;
mod local;
mod membership;
mod messages;
mod revision;
#[cfg(test)]
mod tests;

pub use access::EtcdAccess;
use client::Client;
use follower::Follower;
use keys::{Keys, Record};
pub use local::LocalEtcd;
use membership::Joined;
use messages::{Compare, RequestOp};

/// The place of a cluster's log, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// The endpoints of etcd's nodes, as `http://HOST:2379` or `https://HOST:2379`, separated by commas.
    pub endpoints: String,
    /// The credentials that they ask for.
    pub access: EtcdAccess,
    /// The prefix of the cluster's keys. One etcd is for one cluster, whose members trim all of it.
    pub prefix: String,
    /// For how long a member is not heard of until another one may say that it is gone, in whole seconds. etcd makes it
    /// at least one and a half times its election timeout.
    pub ttl: Duration,
    /// Maximum time of a call, while endpoints do not answer.
    pub timeout: Duration,
}

impl EtcdOptions {
    /// The log at these endpoints, with the usual prefix and times.
    pub fn new(endpoints: impl Into<String>) -> EtcdOptions {
        EtcdOptions {
            endpoints: endpoints.into(),
            access: EtcdAccess::default(),
            prefix: "/gnomon".into(),
            ttl: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
        }
    }
}

/// The keys of a cluster, and how to reach them.
#[derive(Debug)]
struct Space {
    client: Client,
    keys: Keys,
}

#[derive(Debug)]
struct Shared {
    space: Space,
    cluster: u64,
    ttl: Duration,
    joined: Mutex<Option<Joined>>,
    follower: tokio::sync::Mutex<Follower>,
}

/// An ordered log in etcd, as one member uses it. Dropping it without having said that the member is gone is as if the
/// process had died: its lease runs out.
///
/// It has a thread of its own, and can be called from any thread.
#[derive(Debug)]
pub struct EtcdLog {
    shared: Arc<Shared>,
    /// There until it is dropped.
    runtime: Option<Runtime>,
    is_closed: AtomicBool,
}

/// Interval at which a call that waits looks whether the log is closed.
const LOOK: Duration = Duration::from_millis(100);

impl EtcdLog {
    /// Reaches the log of a cluster, which is made if it is not there.
    ///
    /// # Errors
    /// Endpoints that are none, that do not answer, or are not those of an etcd: which one, and what to do.
    pub fn open(options: &EtcdOptions) -> Result<EtcdLog, LogError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("gnomon-etcd")
            .enable_all()
            .build()
            .map_err(|error| LogError::Unreachable(format!("a thread for it cannot be started: {error}")))?;
        let is_closed = AtomicBool::new(false);
        match wait(&runtime, Shared::open(options.clone()), &is_closed) {
            Ok(shared) => Ok(EtcdLog { shared: Arc::new(shared), runtime: Some(runtime), is_closed }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Does something on the thread of the log, and waits for it.
    fn run<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Result<T, LogError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LogError>> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or_else(stopped)?;
        wait(runtime, work(self.shared.clone()), &self.is_closed)
    }

    /// The member is not heard of any more, as if its process had been stopped.
    #[cfg(test)]
    fn stop_keeping_alive(&self) {
        self.shared.joined.lock().as_ref().unwrap().stop_keeping_alive();
    }
}

/// Does something on the thread of a runtime, and waits for it: unlike the runtime itself, on whatever thread.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, LogError>> + Send + 'static,
    is_closed: &AtomicBool,
) -> Result<T, LogError> {
    let (answer, answered) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = answer.send(work.await);
    });
    loop {
        match answered.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
            Err(RecvTimeoutError::Timeout) if is_closed.load(Ordering::Acquire) => {
                return Err(LogError::Unreachable("it was not waited for: the member stops".into()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn stopped() -> LogError {
    LogError::Unreachable("the thread of the log has stopped".into())
}

impl Drop for EtcdLog {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl OrderedLog for EtcdLog {
    fn data(&self, claimed: Option<u64>) -> Result<Option<u64>, LogError> {
        self.run(move |shared| async move {
            let (space, key) = (&shared.space, &shared.space.keys.data);
            let known = space.client.read(vec![RequestOp::get(key)]).await?;
            let mut known = known.found(0).first().cloned();
            if let (None, Some(claimed)) = (&known, claimed) {
                // An etcd that was made anew is not the one that the member knows.
                let of_cluster = Compare::value(&space.keys.cluster, value_of(shared.cluster));
                let compare = vec![Compare::absent(key), of_cluster];
                let put = vec![RequestOp::put(key, value_of(claimed))];
                let answer = space.client.txn(compare, put, vec![RequestOp::get(key)]).await?;
                if answer.succeeded {
                    return Ok(Some(claimed));
                }
                known = answer.found(0).first().cloned();
            }
            known.map(|kv| space.number_of(key, &kv.value)).transpose()
        })
    }

    fn join(&self, name: &str, address: &str) -> Result<Member, LogError> {
        let (name, address) = (name.to_owned(), address.to_owned());
        self.run(|shared| async move { shared.join(name, address).await })
    }

    fn reached_at(&self, member: Member, address: &str) -> Result<(), LogError> {
        let address = address.to_owned();
        self.run(move |shared| async move { shared.reached_at(member, address).await })
    }

    fn append(&self, member: Member, batch: &Batch) -> Result<u64, LogError> {
        let (sequence, bytes) = (batch.sequence, Bytes::from(encoding::encode(&batch.entries)));
        self.run(|shared| async move { shared.append(member, sequence, bytes).await })
    }

    fn after(&self, revision: u64, wait: Duration) -> Result<Vec<Appended>, LogError> {
        self.run(move |shared| async move {
            let appended =
                shared.follower.lock().await.after(&shared.space, shared.cluster, revision, wait).await?;
            // A watch is silent if there is nothing, and also if etcd is not there.
            match shared.silent_for().filter(|_| appended.is_empty()) {
                Some(silent) => Err(LogError::Unreachable(format!(
                    "etcd has not answered for {:.1} seconds",
                    silent.as_secs_f64()
                ))),
                None => Ok(appended),
            }
        })
    }

    fn newest(&self) -> Result<u64, LogError> {
        self.run(|shared| async move { shared.space.newest().await })
    }

    fn members(&self) -> Result<Vec<MemberInfo>, LogError> {
        self.run(|shared| async move { shared.space.members().await })
    }

    fn gone(&self, member: Member) -> Result<(), LogError> {
        self.run(|shared| async move { shared.gone(member).await })
    }

    fn keep_after(&self, member: Member, revision: u64) -> Result<(), LogError> {
        self.run(move |shared| async move { shared.keep_after(member, revision).await })
    }

    fn keep_after_when_full(&self, member: Member, revision: u64) -> Result<(), LogError> {
        self.run(move |shared| async move { shared.keep_after_when_full(member, revision).await })
    }

    fn kept_after(&self) -> Result<BTreeMap<String, u64>, LogError> {
        self.run(|shared| async move { shared.space.kept_after().await })
    }

    fn keep_nothing(&self, name: &str) -> Result<bool, LogError> {
        let name = name.to_owned();
        self.run(|shared| async move { shared.space.keep_nothing(&name).await })
    }

    fn trim(&self, upto: u64) -> Result<(), LogError> {
        self.run(|shared| async move { shared.space.trim(upto).await })
    }

    fn is_full(&self) -> Result<bool, LogError> {
        self.run(|shared| async move { Ok(!shared.space.client.full_nodes().await?.is_empty()) })
    }

    fn make_room(&self) -> Result<(), LogError> {
        self.run(|shared| async move {
            shared.space.client.defragment().await?;
            Ok(shared.space.client.end_alarms().await?)
        })
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

impl Shared {
    async fn open(options: EtcdOptions) -> Result<Shared, LogError> {
        let client = Client::new(&options.endpoints, &options.access, options.timeout)?;
        let space = Space { client, keys: Keys::new(&options.prefix) };
        space.own().await?;
        let cluster = space.number(&space.keys.cluster, Rng::from_entropy().next_u64()).await?;
        Ok(Shared {
            space,
            cluster,
            ttl: options.ttl,
            joined: Mutex::default(),
            follower: tokio::sync::Mutex::default(),
        })
    }
}

/// The value of the key of a cluster, or of its data.
fn value_of(number: u64) -> Bytes {
    format!("{number:016x}").into()
}

impl Space {
    /// Claims the etcd for this cluster, whose members trim all of it. Fails if another one has it.
    async fn own(&self) -> Result<(), LogError> {
        let (key, prefix) = (&self.keys.owner, self.keys.prefix());
        let known = self.value_or_put(key, Bytes::from(prefix.to_owned())).await?;
        let known = String::from_utf8_lossy(&known);
        match known == prefix {
            true => Ok(()),
            false => Err(LogError::Foreign(format!(
                "this etcd is that of the cluster under {known}, whose members trim all of it: give the cluster under \
                 {prefix} an etcd of its own"
            ))),
        }
    }

    /// The number that stands under a key, this one if it is not there.
    async fn number(&self, key: &Bytes, number: u64) -> Result<u64, LogError> {
        let known = self.value_or_put(key, value_of(number)).await?;
        self.number_of(key, &known)
    }

    /// The value that stands under a key, this one if it is not there.
    async fn value_or_put(&self, key: &Bytes, value: Bytes) -> Result<Bytes, LogError> {
        // A full etcd takes nothing that might put a value.
        let answer = self.client.read(vec![RequestOp::get(key)]).await?;
        if let Some(known) = answer.found(0).first() {
            return Ok(known.value.clone());
        }
        let put = RequestOp::put(key, value.clone());
        let answer =
            self.client.txn(vec![Compare::absent(key)], vec![put], vec![RequestOp::get(key)]).await?;
        match answer.succeeded {
            true => Ok(value),
            false => Ok(answer.found(0).first().map(|kv| kv.value.clone()).unwrap_or_default()),
        }
    }

    fn number_of(&self, key: &Bytes, value: &[u8]) -> Result<u64, LogError> {
        let number = std::str::from_utf8(value).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        number.ok_or_else(|| {
            let key = String::from_utf8_lossy(key);
            LogError::Foreign(format!(
                "the key {key} in etcd is not that of a Gnomon cluster: use another prefix"
            ))
        })
    }

    async fn newest(&self) -> Result<u64, LogError> {
        let Keys { log, data, .. } = &self.keys;
        let reads = [log, data].map(RequestOp::get).to_vec();
        loop {
            let answer = self.client.read(reads.clone()).await?;
            match (answer.found(0).first(), answer.found(1).first()) {
                (Some(newest), _) => return Ok(newest.mod_revision as u64),
                (None, None) => return Ok(0),
                // There has been no member yet, or something else has deleted the log's key: when is not known, so there
                // is to be something that is newer.
                (None, Some(_)) => {
                    let nothing = Record::new(0, true, Bytes::new()).encode_to_vec();
                    let compare = vec![Compare::absent(log), Compare::present(data)];
                    let put = vec![RequestOp::put(log, nothing.into())];
                    self.client.txn(compare, put, Vec::new()).await?;
                }
            }
        }
    }
}

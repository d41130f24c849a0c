//! Calls of etcd over several endpoints.
//!
//! A call is tried at one endpoint after another until one of them answers or the time is over. So what is called must
//! bear being done twice: transactions compare before they change anything. Answers are checked to be of one cluster of
//! etcd nodes, since revisions of another one mean nothing here.

use std::{collections::BTreeMap, error::Error, future::Future, time::Duration};

use gnomon_engine::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};
use prost::{Message, bytes::Bytes};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Status, Streaming,
    client::Grpc,
    codegen::{http::uri::PathAndQuery, tokio_stream},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    EtcdAccess, LogError,
    access::{Caller, Tokens, needs_token, refused_watch},
    messages::{
        AlarmRequest, AlarmResponse, CompactionRequest, Compare, DefragmentRequest, Done, END_ALARM,
        GET_ALARMS, KeyValue, LeaseGrantRequest, LeaseRequest, LeaseResponse, NO_SPACE, RangeRequest,
        RangeResponse, RequestOp, ResponseHeader, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
        WatchResponse,
    },
};

/// Time that one endpoint has for an answer before another one is asked.
pub(super) const ATTEMPT: Duration = Duration::from_secs(2);
/// Pause after all endpoints have failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum time to make a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// Maximum time that a node has for giving space back.
const DEFRAGMENT: Duration = Duration::from_secs(60);
/// Maximum number of times that a call asks for another token.
const RENEWALS_MAX: usize = 3;
/// How often a connection is tried that nothing comes over; etcd closes those that do so more often than every 5 s.
const PING: Duration = Duration::from_secs(6);

/// The reason why a call has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// As the log says it.
    Log(LogError),
    /// The revision that was asked for is not kept any more.
    Compacted,
    /// The lease is over.
    LeaseOver,
}

impl From<Failure> for LogError {
    fn from(failure: Failure) -> LogError {
        match failure {
            Failure::Log(error) => error,
            Failure::Compacted => {
                LogError::Unreachable("etcd does not keep a revision that was asked for".into())
            }
            Failure::LeaseOver => {
                LogError::Unreachable("etcd has ended the lease of this member: it was not heard of".into())
            }
        }
    }
}

/// The meaning of an answer that is not the wanted one.
enum Verdict {
    /// Another endpoint may do better.
    Again(String),
    /// It is final.
    Final(Failure),
}

#[derive(Debug)]
struct Node {
    address: String,
    channel: Channel,
}

/// The endpoints, and which one is asked.
#[derive(Debug)]
pub(super) struct Client {
    nodes: Vec<Node>,
    /// Counts on, and is taken modulo the number of nodes.
    current: AtomicUsize,
    timeout: Duration,
    tokens: Tokens,
    /// Of the cluster of etcd nodes that has answered first.
    cluster: OnceLock<u64>,
}

impl Client {
    /// Endpoints as `http://HOST:PORT` or `https://HOST:PORT`, separated by commas. Nothing is connected yet. Must be
    /// called in a runtime.
    pub(super) fn new(endpoints: &str, access: &EtcdAccess, timeout: Duration) -> Result<Client, LogError> {
        // A password may have commas.
        if endpoints.contains('@') {
            return Err(LogError::Foreign(
                "an etcd endpoint has a user or a password in it: write http://HOST:2379 or https://HOST:2379, and give \
                 these by --etcd-user and --etcd-password-file"
                    .into(),
            ));
        }
        let node = |address: &str| {
            let wrong = |what: &str| {
                LogError::Foreign(format!(
                    "the etcd endpoint '{address}' {what}: write http://HOST:2379 or https://HOST:2379, several \
                     separated by commas"
                ))
            };
            if !["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
                return Err(wrong("does not begin with http:// or https://"));
            }
            let endpoint =
                Endpoint::from_shared(address.to_owned()).map_err(|_| wrong("is not an address"))?;
            let endpoint = endpoint
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(ATTEMPT)
                .keep_alive_while_idle(true);
            let endpoint = access.prepare(address, endpoint)?;
            Ok(Node { address: address.to_owned(), channel: endpoint.connect_lazy() })
        };
        let nodes = endpoints.split(',').map(|address| node(address.trim())).collect::<Result<_, _>>()?;
        let tokens = Tokens::new(access.user.clone());
        Ok(Client { nodes, current: AtomicUsize::new(0), timeout, tokens, cluster: OnceLock::new() })
    }

    /// Asks another endpoint from now on, if this one is still the one that is asked.
    fn leave(&self, asked: usize) {
        let _ = self.current.compare_exchange(asked, asked + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks another endpoint from now on.
    pub(super) fn leave_current(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    /// Tries at one endpoint after another.
    async fn call<T, F>(&self, attempt: impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let end = Instant::now() + self.timeout;
        // The failure of each endpoint.
        let mut failed = BTreeMap::new();
        let mut renewals = 0;
        for tried in 1.. {
            let attempt_end = end.min(Instant::now() + ATTEMPT);
            let asked = self.current.load(Ordering::Relaxed);
            let place = asked % self.nodes.len();
            let node = &self.nodes[place];
            let (caller, token) = self.tokens.caller(node.grpc());
            let mut answer = timeout_at(attempt_end, attempt(caller)).await;
            if let Ok(Err(status)) = &answer
                && needs_token(status)
                && self.tokens.user().is_some()
                && renewals < RENEWALS_MAX
            {
                renewals += 1;
                match timeout_at(attempt_end, self.tokens.renew(node.grpc(), token)).await {
                    Ok(Ok(())) if Instant::now() < end => continue,
                    Ok(Ok(())) => {}
                    Ok(Err(status)) => answer = Ok(Err(status)),
                    Err(late) => answer = Err(late),
                }
            }
            match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => match self.judge(&node.address, &status) {
                    Verdict::Again(why) => _ = failed.insert(place, why),
                    Verdict::Final(failure) => return Err(failure),
                },
                // What it failed with before tells more than that the last try had no time left.
                Err(_) => {
                    let late = || format!("etcd at {} does not answer in time", node.address);
                    failed.entry(place).or_insert_with(late);
                }
            }
            self.leave(asked);
            if tried % self.nodes.len() == 0 {
                sleep(PAUSE).await;
            }
            if Instant::now() >= end {
                break;
            }
        }
        let failed: Vec<String> = failed.into_values().collect();
        Err(Failure::Log(LogError::Unreachable(failed.join("; "))))
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.call(|mut caller| {
            let request = caller.request(request.clone());
            async move {
                ready(&mut caller.grpc).await?;
                let codec = ProstCodec::<Q, A>::default();
                Ok(caller.grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
            }
        })
        .await
    }

    /// Checks that an answer is of the cluster that has answered before.
    fn check(&self, header: Option<&ResponseHeader>) -> Result<(), LogError> {
        let answered = header.map_or(0, |header| header.cluster_id);
        let expected = *self.cluster.get_or_init(|| answered);
        if answered == expected {
            return Ok(());
        }
        let addresses: Vec<&str> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        Err(LogError::Foreign(format!(
            "the etcd endpoints {} are not of one cluster, or it was made anew: \
             name those of one, and start this member again",
            addresses.join(", ")
        )))
    }

    /// Makes changes if the comparisons hold; reads otherwise.
    pub(super) async fn txn(
        &self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> Result<TxnResponse, Failure> {
        let request = TxnRequest { compare, success, failure };
        let answer: TxnResponse = self.unary("/etcdserverpb.KV/Txn", request).await?;
        self.check(answer.header.as_ref()).map_err(Failure::Log)?;
        Ok(answer)
    }

    /// Reads.
    pub(super) async fn read(&self, ranges: Vec<RequestOp>) -> Result<TxnResponse, Failure> {
        self.txn(Vec::new(), ranges, Vec::new()).await
    }

    /// The version of a key as of a revision, which is a plain read: some etcds do not bear one of a transaction whose
    /// revision is not kept any more.
    pub(super) async fn version(&self, key: &Bytes, revision: i64) -> Result<Option<KeyValue>, Failure> {
        let request = RangeRequest { key: key.clone(), revision, ..RangeRequest::default() };
        let answer: RangeResponse = self.unary("/etcdserverpb.KV/Range", request).await?;
        self.check(answer.header.as_ref()).map_err(Failure::Log)?;
        Ok(answer.kvs.into_iter().next())
    }

    /// Forgets old versions of keys.
    pub(super) async fn compact(&self, revision: i64) -> Result<(), Failure> {
        let request = CompactionRequest { revision, physical: true };
        self.unary("/etcdserverpb.KV/Compact", request).await.map(|_: Done| ())
    }

    /// Makes each node that is named here give back the space of what it has forgotten; a node does not answer
    /// meanwhile. Fails if none has done so.
    pub(super) async fn defragment(&self) -> Result<(), Failure> {
        let mut failed = Vec::new();
        for node in &self.nodes {
            let answered = timeout_at(Instant::now() + DEFRAGMENT, async {
                let (mut caller, token) = self.tokens.caller(node.grpc());
                match defragment(&mut caller).await {
                    Err(status) if needs_token(&status) && self.tokens.user().is_some() => {
                        self.tokens.renew(node.grpc(), token).await?;
                        defragment(&mut self.tokens.caller(node.grpc()).0).await
                    }
                    answer => answer,
                }
            });
            match answered.await {
                Ok(Ok(_)) => {}
                Ok(Err(status)) => failed.push(format!("etcd at {}: {}", node.address, status.message())),
                Err(_) => failed.push(format!("etcd at {} does not answer in time", node.address)),
            }
        }
        match failed.len() == self.nodes.len() {
            true => Err(Failure::Log(LogError::Unreachable(failed.join("; ")))),
            false => Ok(()),
        }
    }

    async fn alarm(&self, action: i32, node: u64) -> Result<AlarmResponse, Failure> {
        let request = AlarmRequest { action, node, kind: NO_SPACE };
        self.unary("/etcdserverpb.Maintenance/Alarm", request).await
    }

    /// The nodes of etcd that have reached their quotas, after which none of them takes anything.
    pub(super) async fn full_nodes(&self) -> Result<Vec<u64>, Failure> {
        let alarms = self.alarm(GET_ALARMS, 0).await?.alarms;
        Ok(alarms.into_iter().filter(|alarm| alarm.kind == NO_SPACE).map(|alarm| alarm.node).collect())
    }

    /// Makes nodes accept writes again that had reached their quotas.
    pub(super) async fn end_alarms(&self) -> Result<(), Failure> {
        for node in self.full_nodes().await? {
            self.alarm(END_ALARM, node).await?;
        }
        Ok(())
    }

    /// A new lease.
    pub(super) async fn grant(&self, ttl: Duration) -> Result<i64, Failure> {
        let request = LeaseGrantRequest { ttl_s: ttl.as_secs().max(1) as i64 };
        let answer: LeaseResponse = self.unary("/etcdserverpb.Lease/LeaseGrant", request).await?;
        Ok(answer.id)
    }

    /// Ends a lease, with the keys that are bound to it.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id: lease }).await.map(|_: Done| ())
    }

    /// Keeps a lease for another while.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<(), Failure> {
        let answer = self
            .call(|mut caller| async move {
                ready(&mut caller.grpc).await?;
                let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
                let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
                let request = caller.needs_leader(LeaseRequest { id: lease });
                let mut answers = caller.grpc.server_streaming(request, path, codec).await?.into_inner();
                answers.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))
            })
            .await?;
        if answer.ttl_s == 0 { Err(Failure::LeaseOver) } else { Ok(()) }
    }

    /// Follows a key from a revision on.
    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let (stream, first) = self
            .call(|mut caller| {
                let request = WatchRequest { create: Some(create.clone()) };
                async move {
                    ready(&mut caller.grpc).await?;
                    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
                    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
                    // etcd ends the watch when its requests end.
                    let requests = tokio_stream::StreamExt::chain(
                        tokio_stream::once(request),
                        tokio_stream::pending::<WatchRequest>(),
                    );
                    let requests = caller.needs_leader(requests);
                    let mut stream = caller.grpc.streaming(requests, path, codec).await?.into_inner();
                    match stream.message().await? {
                        Some(first) if first.created && !first.canceled => Ok((stream, first)),
                        Some(first) => Err(refused_watch(&first.cancel_reason)),
                        None => Err(Status::unavailable("the watch has ended")),
                    }
                }
            })
            .await?;
        self.check(first.header.as_ref()).map_err(Failure::Log)?;
        Ok(stream)
    }
}

impl Node {
    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }
}

async fn defragment(caller: &mut Caller) -> Result<Done, Status> {
    ready(&mut caller.grpc).await?;
    let request = caller.request(DefragmentRequest {});
    let codec = ProstCodec::<DefragmentRequest, Done>::default();
    let path = PathAndQuery::from_static("/etcdserverpb.Maintenance/Defragment");
    Ok(caller.grpc.unary(request, path, codec).await?.into_inner())
}

pub(super) async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unavailable(whole_text(&error)))
}

/// An error with what it was caused by.
pub(super) fn whole_text(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

impl Client {
    /// The meaning of an error of etcd, or on the way to it.
    fn judge(&self, address: &str, status: &Status) -> Verdict {
        let message = status.message();
        let foreign = |what: String| Verdict::Final(Failure::Log(LogError::Foreign(what)));
        match status.code() {
            Code::ResourceExhausted if message.contains("database space exceeded") => {
                Verdict::Final(Failure::Log(LogError::Full(format!(
                    "etcd at {address} has reached its quota. Members that run, or start, trim what all of them have, and \
                 have etcd give its space back: if that does not help in a minute, start etcd with a larger \
                 --quota-backend-bytes"
                ))))
            }
            Code::OutOfRange if message.contains("compacted") => Verdict::Final(Failure::Compacted),
            Code::NotFound if message.contains("lease") => Verdict::Final(Failure::LeaseOver),
            Code::Unimplemented => foreign(format!(
                "what answers at {address} is not an etcd: name an etcd, version 3.4 or newer"
            )),
            // A member that was let in before, with the same password, waits until it is so again.
            _ if message.contains("authentication failed") && self.tokens.had_any() => {
                Verdict::Again(format!("etcd at {address} does not take the password any more: {message}"))
            }
            _ if message.contains("authentication failed") => foreign(format!(
                "etcd at {address} does not let the user in: {message}: see --etcd-user and --etcd-password-file"
            )),
            Code::Unauthenticated | Code::PermissionDenied => match self.tokens.user() {
                Some(user) => foreign(format!(
                    "etcd at {address} refuses what the user {user} asks for: {message}: grant its role readwrite on the \
                 cluster's keys (--prefix /gnomon/) and on gnomon-cluster-of-this-etcd"
                )),
                None => foreign(format!(
                    "etcd at {address} refuses what this member asks for: {message}: give a user of etcd by --etcd-user"
                )),
            },
            _ if needs_token(status) => foreign(format!(
                "etcd at {address} asks for a user: {message}: give one by --etcd-user and --etcd-password-file, or by a \
             certificate"
            )),
            Code::InvalidArgument if message.contains("too large") => foreign(format!(
                "etcd at {address} accepts less than 1.5 MiB a request: start it without --max-request-bytes"
            )),
            _ => {
                // etcd answers with a message alone; what has a cause happened on the way to it.
                let Some(cause) = status.source().map(whole_text) else {
                    return Verdict::Again(format!("etcd at {address}: {message}"));
                };
                Verdict::Again(match &cause {
                    _ if cause.contains("invalid peer certificate") => {
                        format!("etcd at {address} is not one that --etcd-ca signs for: {cause}")
                    }
                    _ if cause.contains("fatal alert") => {
                        format!(
                            "etcd at {address} does not take this member's certificate (--etcd-cert): {cause}"
                        )
                    }
                    _ if cause.contains("connect error") => format!("etcd at {address}: {cause}"),
                    _ => format!("{address} does not answer as an etcd does: {cause}"),
                })
            }
        }
    }
}

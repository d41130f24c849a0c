//! The counters of a server, over HTTP for a collector (Prometheus): OpenMetrics text at `/metrics`.
//!
//! A thread with its own runtime answers, so that scrapes take nothing from queries: a few at a time, each once and
//! in a bounded time. A [`Guard`] decides which clients may read them; without one, all clients that reach the
//! address may, which is on loopback then.

use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use gnomon_engine::{
    Database,
    sync::{Arc, OnceLock, atomic::AtomicU64, thread},
};
use gnomon_program::Failure;
use gnomon_server::{Kind, Metrics, ServerHandle};
use gnomon_sql::catalog::system::Cluster;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::Registry,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime,
    sync::{Semaphore, oneshot},
    time::{sleep, timeout},
};

use super::guard::Guard;

/// Maximum number of connections that are answered at a time.
const CONNECTIONS_MAX: usize = 100;
/// Maximum duration of a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The components whose counters are shown.
pub struct Sources {
    pub server: ServerHandle,
    pub engine: Database,
    pub cluster: Option<Arc<dyn Cluster>>,
}

/// Answers until it is dropped; before it knows the sources, that there is nothing yet.
pub struct Endpoint {
    pub url: String,
    sources: Arc<OnceLock<Sources>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Endpoint {
    pub fn begin(address: SocketAddr, guard: Guard) -> Result<Endpoint, Failure> {
        let failed = |error| {
            Failure(format!("cannot serve metrics on {address}: {error}: give another address by --metrics"))
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let url = format!("{}://{}/metrics", guard.scheme(), listener.local_addr().map_err(failed)?);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _within = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        let (end, ended) = oneshot::channel();
        let sources: Arc<OnceLock<Sources>> = Arc::default();
        let known = sources.clone();
        let work = move || {
            runtime.spawn(answer_all(listener, guard, known));
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = thread::spawn_named("metrics", work).map_err(failed)?;
        Ok(Endpoint { url, sources, end: Some(end), thread: Some(thread) })
    }

    /// Makes it answer with the counters of these, from now on.
    pub fn show(&self, sources: Sources) {
        let _ = self.sources.set(sources);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn answer_all(listener: tokio::net::TcpListener, guard: Guard, sources: Arc<OnceLock<Sources>>) {
    let guard = Arc::new(guard);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let (guard, sources) = (guard.clone(), sources.clone());
        tokio::spawn(async move {
            let _ = timeout(CONNECTION_MAX, serve(stream, &guard, &sources)).await;
            drop(place);
        });
    }
}

/// Serves a connection. A client that sends something else, or nothing, is not answered.
async fn serve(stream: TcpStream, guard: &Guard, sources: &OnceLock<Sources>) {
    let Some(acceptor) = &guard.tls else { return serve_http(stream, guard, false, sources).await };
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
    serve_http(stream, guard, has_certificate, sources).await;
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    guard: &Guard,
    has_certificate: bool,
    sources: &OnceLock<Sources>,
) {
    let answer = async |request| Ok::<_, Infallible>(answer(&request, guard, has_certificate, sources));
    let mut http = http1::Builder::new();
    http.keep_alive(false).half_close(true).timer(TokioTimer::new());
    let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

/// An answer without metrics.
fn refusal(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(why));
    *response.status_mut() = status;
    response
}

/// Answers from memory, at once.
fn answer(
    request: &Request<Incoming>,
    guard: &Guard,
    has_certificate: bool,
    sources: &OnceLock<Sources>,
) -> Response<Full<Bytes>> {
    if !guard.lets_in(request.headers(), has_certificate) {
        let mut refusal = refusal(StatusCode::UNAUTHORIZED, "give the token: Authorization: Bearer TOKEN\n");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return refusal;
    }
    if request.uri().path() != "/metrics" {
        return refusal(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "metrics can be read only\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let Some(sources) = sources.get() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server does not serve yet\n");
    };
    let text = text(&sources.server.metrics(), &sources.engine, sources.cluster.as_deref());
    let mut response = Response::new(Full::from(text));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<u64, AtomicU64>>;

/// Returns all metrics, as OpenMetrics text. `docs/operations.md` lists them.
fn text(server: &Metrics, engine: &Database, cluster: Option<&dyn Cluster>) -> String {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("gnomon_build", "The program", build);
    let of_server = registry.sub_registry_with_prefix("gnomon_server");
    for (name, help, kind, value) in server.all() {
        let help = help.trim_end_matches('.');
        match kind {
            Kind::Gauge => of_server.register(name, help, ConstGauge::new(value)),
            Kind::Counter => of_server.register(name, help, ConstCounter::new(value)),
        }
    }
    of_scrubbing(registry.sub_registry_with_prefix("gnomon_scrub"), engine);
    of_disks(registry.sub_registry_with_prefix("gnomon"), engine);
    if let Some(cluster) = cluster {
        of_cluster(registry.sub_registry_with_prefix("gnomon_cluster"), cluster);
    }
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all");
    text
}

/// How far the reading for damaged pages is, and what it has found.
fn of_scrubbing(registry: &mut Registry, engine: &Database) {
    let scrubbed = engine.scrub_progress();
    for (name, help, count) in [
        ("copies_checked", "Copies of pages that were read and checked", scrubbed.copies_checked),
        ("bytes_checked", "Bytes of these copies", scrubbed.bytes_checked),
        ("copies_repaired", "Damaged copies that were made anew", scrubbed.repaired),
        ("copies_lost", "Damaged copies of pages of which nothing whole is left", scrubbed.lost),
        ("passes", "How often all pages were read", scrubbed.passes),
    ] {
        registry.register(name, help, ConstCounter::new(count));
    }
    for (name, help, value) in [
        ("bytes_per_second", "Bytes that may be read in a second, 0 if none are", scrubbed.bytes_per_second),
        ("position_pages", "The page that the present pass is at", scrubbed.position),
        ("end_pages", "The pages that a pass goes through", scrubbed.end),
    ] {
        registry.register(name, help, ConstGauge::new(value));
    }
}

/// The disks of a database that may have several.
fn of_disks(registry: &mut Registry, engine: &Database) {
    let disks = engine.disks();
    let lost = disks.iter().filter(|(info, _)| info.given.is_none()).count();
    for (name, help, value) in [
        ("disks", "Disks that the database has, lost ones too", disks.len()),
        ("disks_lost", "Disks that are lost, and need a fresh one in their stead", lost),
    ] {
        registry.register(name, help, ConstGauge::new(value as u64));
    }
}

/// As the tables `gnomon_cluster` and `gnomon_cluster_transactions` have it.
fn of_cluster(registry: &mut Registry, cluster: &dyn Cluster) {
    let [states, durable, lag] = [(); 3].map(|()| Gauges::default());
    let mut is_apart = false;
    for shown in cluster.members() {
        let member = ("member", shown.name);
        for state in ["present", "silent", "gone", "apart"] {
            let labels = vec![member.clone(), ("state", state.to_owned())];
            states.get_or_create(&labels).set(u64::from(state == shown.state));
        }
        // A member that is gone has no lag that an operator should act on.
        let lagging = shown.lag.filter(|_| shown.state != "gone");
        for (family, value) in [(&durable, shown.durable), (&lag, lagging)] {
            if let Some(value) = value {
                family.get_or_create(&vec![member.clone()]).set(value);
            }
        }
        is_apart |= shown.state == "apart";
        if let Some(applied) = shown.applied {
            let help = "Commits of the cluster that this member has applied";
            registry.register("commits_applied", help, ConstCounter::new(applied));
        }
        if let Some(received) = shown.received {
            let help = "The newest position of the log that this member has received";
            registry.register("received_position", help, ConstGauge::new(received));
        }
    }
    let help = "Changes of the log that no member has written and all have skipped, seen by this one";
    registry.register("foreign_entries", help, ConstCounter::new(cluster.skipped()));
    let (run_again, given_up) = cluster.retries();
    let help = "How often a statement was run again since others were ahead of it";
    registry.register("statements_run_again", help, ConstCounter::new(run_again));
    let help = "Statements that failed since others were ahead of them, however often they were run";
    registry.register("statements_given_up", help, ConstCounter::new(given_up));
    let help = "Whether this member reaches the log of the cluster";
    registry.register("log_reachable", help, ConstGauge::new(u64::from(!is_apart)));
    registry.register("member", "How a member is: 1 at its state", states);
    registry.register("durable_position", "Up to where in the log a member's data are durable", durable);
    registry.register("lag_positions", "How far behind the newest position of the log a member is", lag);
    let transactions = Family::<Labels, Counter>::default();
    for ended in cluster.transactions() {
        let labels = vec![("level", ended.level), ("outcome", ended.outcome.to_owned())];
        transactions.get_or_create(&labels).inc_by(ended.count);
    }
    let help =
        "Transactions of this member's clients that asked to commit in the order of the cluster or could not";
    registry.register("transactions", help, transactions);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gnomon_sql::catalog::system::{ClusterMember, ClusterTransactions};

    use super::*;

    /// A cluster that has something of all that is shown.
    struct Shown;

    impl Cluster for Shown {
        fn members(&self) -> Vec<ClusterMember> {
            vec![ClusterMember {
                name: "one".into(),
                member: Some(1),
                address: String::new(),
                state: "present",
                is_self: true,
                applied: Some(1),
                received: Some(1),
                durable: Some(1),
                lag: Some(0),
            }]
        }

        fn transactions(&self) -> Vec<ClusterTransactions> {
            vec![ClusterTransactions { level: "GSI".into(), outcome: "committed", count: 1 }]
        }

        fn skipped(&self) -> u64 {
            0
        }

        fn retries(&self) -> (u64, u64) {
            (0, 0)
        }
    }

    /// Returns the name of a metric with the names of its labels, of a line such as `name{a="b"} 1`.
    fn name_of(line: &str) -> String {
        let name = line.rsplit_once(' ').unwrap().0;
        let Some((name, labels)) = name.split_once('{') else { return name.into() };
        let labels = labels.trim_end_matches('}').split(',').map(|label| label.split('=').next().unwrap());
        format!("{name}{{{}}}", labels.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn the_documented_metrics_are_those_that_are_shown() {
        let engine = Database::in_memory(gnomon_engine::Options::default()).unwrap();
        let text = text(&Metrics::default(), &engine, Some(&Shown));
        let shown: BTreeSet<String> =
            text.lines().filter(|line| !line.starts_with('#')).map(name_of).collect();
        let section = include_str!("../../../../docs/operations.md").split("\n## Metrics\n").nth(1).unwrap();
        let rows = section.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: BTreeSet<String> = rows.map(|row| row.split('`').next().unwrap().into()).collect();
        assert_eq!(shown, documented);
    }
}

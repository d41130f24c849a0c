//! `gnomon serve`: a database over the PostgreSQL protocol.

use std::{
    io::{ErrorKind, Write, stderr, stdout},
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, builder::NonEmptyStringValueParser};
use cluster::{ClusterArguments, Credentials};
use encryption::EncryptionArguments;
use gnomon_engine::{
    Database, Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use gnomon_program::{Failure, signals};
use gnomon_server::{Auth, Server, ServerError, ServerOptions, Tls, Users};
use gnomon_sql::session::{MemoryLimits, SqlDatabase};
use guard::GuardArguments;

use crate::storage::Storage;

mod cluster;
mod descriptors;
mod encryption;
mod guard;
mod metrics;

/// Serves a database to psql, pgbench and the drivers of PostgreSQL, until Ctrl-C or SIGTERM, which let running
/// statements end and close the database. A second Ctrl-C ends at once; nothing acknowledged is lost.
///
/// Without a password every client that reaches the address is let in, so that is allowed on loopback addresses only.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon serve                          data.gnomon on 127.0.0.1:5433
  gnomon serve bank.gnomon --port 5445  on 127.0.0.1:5445
  gnomon serve bank.gnomon --port 0     on a free port, which is printed
  gnomon serve --listen 0.0.0.0:5433 --user alice --password-file secret
  gnomon serve one.gnomon --cluster http://127.0.0.1:2379 --node one
  psql -h 127.0.0.1 -p 5433             a client")]
pub struct Serve {
    /// The database's directory.
    ///
    /// The database is made if there is none. No other process may have it open while the server runs.
    #[arg(value_name = "DIR", default_value = "data.gnomon")]
    directory: PathBuf,
    /// Where to listen: HOST:PORT, or a port of 127.0.0.1.
    ///
    /// Port 0 takes a free one, which is printed. Addresses beyond loopback need --user or --users-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5433", value_parser = parse_address)]
    listen: SocketAddr,
    /// The port to listen on, of 127.0.0.1.
    ///
    /// The same as --listen 127.0.0.1:PORT.
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// A directory for a Unix-domain socket to listen on too.
    ///
    /// The socket is named .s.PGSQL.PORT, as libpq expects: `psql -h DIR -p PORT`.
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Ask for no password.
    ///
    /// The default. Every client that reaches the address is let in, so it is allowed on loopback addresses only.
    #[arg(long, conflicts_with_all = ["user", "users_file"])]
    trust: bool,
    /// The one user that is let in.
    ///
    /// With the password in --password-file, by SCRAM-SHA-256.
    #[arg(long, value_name = "NAME", requires = "password_file", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// A file whose first line is the user's password.
    ///
    /// A file that others can read is refused: chmod 600, or 640 if root owns it. Or keep a verifier instead of the
    /// password in a users file.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Users and their SCRAM verifiers, a line NAME:SCRAM-SHA-256$... each.
    ///
    /// `gnomon hash-password NAME` makes such a line; pg_authid.rolpassword of PostgreSQL has the same form. Empty
    /// lines and lines that begin with # are passed over. Read once, when the server starts. A file that others can read
    /// is refused: chmod 600, or 640 if root owns it.
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    users_file: Option<PathBuf>,
    #[command(flatten)]
    encryption: EncryptionArguments,
    /// The only database name to accept.
    ///
    /// Without it every name that a client gives is the one database.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    database: Option<String>,
    /// Connections at a time.
    ///
    /// More are refused with SQLSTATE 53300. Each has a thread; SHOW max_connections tells the number. The limit on open
    /// files is raised for them; where the system does not allow that, the server does not start.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: u32,
    /// End connections whose client is silent for so many seconds.
    ///
    /// Without it they may stay silent for ever. Their transactions are rolled back.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    idle_timeout: Option<u64>,
    /// How many seconds interrupted statements have to end when the server stops.
    ///
    /// If some have not by then, the server ends with an error; nothing acknowledged is lost.
    #[arg(long, value_name = "S", default_value_t = 30)]
    shutdown_timeout: u64,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
    /// Memory of all sessions together, in MiB.
    ///
    /// For prepared statements, portals, cursors, syntax trees, sorts and hashes, beside the buffer pool. A statement that
    /// would take more fails with SQLSTATE 53200.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    memory_mib: u32,
    /// Memory of a session, in MiB.
    ///
    /// Within --memory-mib. A statement that would take more fails with SQLSTATE 53200, and the session goes on.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    session_memory_mib: u32,
    /// How many seconds a client may take from connecting to being authenticated.
    ///
    /// Then it is refused with SQLSTATE 57014.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    authentication_timeout: u32,
    /// Where to serve metrics over HTTP, for Prometheus: HOST:PORT, or a port of 127.0.0.1.
    ///
    /// OpenMetrics text at /metrics: counts, and members' names. Addresses beyond loopback need --metrics-token-file,
    /// or --metrics-tls and --tls-client-ca.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    guard: GuardArguments,
    /// How many MiB a second the background reads to find damaged pages; 0 reads none.
    ///
    /// All copies of all pages are read again and again. What is damaged gets a new copy of its mirror; what has none is
    /// told on standard error and counted in the metrics. Without it 4, and none with a log of pages, which has no such
    /// reading.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    scrub_mib_per_s: Option<u32>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    storage: Storage,
}

/// An address, a host's name with a port, or a port.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    const FORM: &str = "give HOST:PORT such as 127.0.0.1:5433, or a port alone";
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let (_, port) = text.rsplit_once(':').ok_or(FORM)?;
    port.parse::<u16>().map_err(|_| FORM)?;
    let addresses: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("{error}: {FORM}"))?.collect();
    // Clients try both kinds of loopback address; most name 127.0.0.1.
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    address.copied().ok_or_else(|| FORM.into())
}

/// The failure of a server that cannot be bound, with what to do if something else listens there.
fn not_bound(error: &ServerError) -> Failure {
    match error {
        ServerError::Listen { error: why, .. } if why.kind() == ErrorKind::AddrInUse => {
            Failure(format!("{error}: give another port by --port; 0 takes a free one"))
        }
        _ => Failure(error.to_string()),
    }
}

pub fn run(arguments: &Serve) -> Result<ExitCode, Failure> {
    descriptors::provide(arguments.connections_max)?;
    // Read once: the file may be a pipe.
    let user = user(arguments)?;
    let auth = auth(arguments, user.as_ref())?;
    let listen = arguments.port.map_or(arguments.listen, |port| (Ipv4Addr::LOCALHOST, port).into());
    let tls = arguments.encryption.tls()?;
    if matches!(auth, Auth::Trust) && !listen.ip().is_loopback() && !arguments.encryption.authenticates() {
        return Err(Failure(format!(
            "{} can be reached from other machines, where --trust is not allowed: \
             give --user and --password-file, or --client-certificates authenticate, or listen on 127.0.0.1",
            listen
        )));
    }
    // A database is not made for a server that cannot be.
    if !arguments.directory.exists()
        && let Err(error) = TcpListener::bind(listen)
    {
        return Err(not_bound(&ServerError::Listen { address: listen.to_string(), error }));
    }
    let metrics = metrics(arguments, tls.as_ref())?;
    let directory = &arguments.directory;
    let is_new = !gnomon_engine::has_database(directory);
    let joining = arguments.cluster.reach(is_new)?;
    if let Some(joining) = &joining {
        joining.copy_if_new(directory, &credentials(arguments, user))?;
    }
    let engine = arguments.storage.open(directory, arguments.pool_mib)?;
    scrub(&engine, arguments.scrub_mib_per_s)?;
    let reports = Reports::begin(engine.clone());
    engine.when_stopped(|error| tell(&mut stderr(), &format!("ending all sessions: {error}")));
    if arguments.cluster.leave_cluster {
        cluster::leave(&engine, directory)?;
    }
    let database = match &joining {
        Some(joining) => joining.open(engine.clone(), directory)?,
        None => {
            let opened = SqlDatabase::open(engine.clone());
            opened.map_err(|error| Failure::new(directory.display(), error))?
        }
    };
    database.limit_memory(MemoryLimits {
        session_bytes: (arguments.session_memory_mib as usize) << 20,
        total_bytes: (arguments.memory_mib as usize) << 20,
        directory: Some(directory.clone()),
        ..MemoryLimits::default()
    });
    let options = ServerOptions {
        listen,
        unix_socket_dir: arguments.socket_dir.clone(),
        auth,
        tls,
        log: |line| tell(&mut stderr(), line),
        database: arguments.database.clone(),
        connections_max: arguments.connections_max as usize,
        auth_timeout: Duration::from_secs(arguments.authentication_timeout.into()),
        idle_timeout: arguments.idle_timeout.map(Duration::from_secs),
        shutdown_timeout: Duration::from_secs(arguments.shutdown_timeout),
        ..ServerOptions::default()
    };
    let server = Server::bind(database.clone(), options).map_err(|error| not_bound(&error))?;
    let address = server.local_addr();
    let joined =
        joining.map(|joining| joining.join(&database, directory, address.to_string())).transpose()?;
    let (node, view) = joined.unzip();
    drop(database);
    let handle = server.handle();
    signals::on_stop(move || {
        tell(&mut stderr(), "stopping: running statements are interrupted; once more ends at once");
        handle.shut_down();
    })
    .map_err(|error| Failure::new("cannot listen to signals", error))?;
    if is_new {
        tell(&mut stderr(), &format!("{} is a new database", directory.display()));
    }
    tell(&mut stdout(), &format!("serving {} on {address}", directory.display()));
    let named = |option: &str, name: Option<&String>| {
        name.map_or_else(String::new, |name| format!(" -{option} {name}"))
    };
    let user = match &arguments.users_file {
        Some(_) => " -U NAME".to_owned(),
        None => named("U", arguments.user.as_ref()),
    };
    let database = named("d", arguments.database.as_ref());
    let (host, port) = (address.ip(), address.port());
    tell(&mut stderr(), &format!("connect with: psql -h {host}{user}{database} -p {port}"));
    if let Some(endpoint) = &metrics {
        endpoint.show(metrics::Sources { server: server.handle(), engine, cluster: view });
        tell(&mut stderr(), &format!("metrics at {}", endpoint.url));
    }
    let watch = node.map(|node| cluster::Watch::begin(node, server.handle()));
    let ran = server.run();
    drop(metrics);
    let stopped = watch.and_then(cluster::Watch::end);
    drop(reports);
    ran.map_err(|error| Failure(error.to_string()))?;
    if let Some(stopped) = stopped {
        return Err(Failure(stopped.to_string()));
    }
    tell(&mut stderr(), "closed");
    Ok(ExitCode::SUCCESS)
}

/// Begins to answer for metrics, with nothing as yet.
fn metrics(arguments: &Serve, tls: Option<&Tls>) -> Result<Option<metrics::Endpoint>, Failure> {
    let Some(address) = arguments.metrics else { return Ok(None) };
    let guard = arguments.guard.guard(tls, arguments.encryption.asks_for_certificates())?;
    if guard.is_open() && !address.ip().is_loopback() {
        return Err(Failure(format!(
            "metrics at {address} could be read from other machines by everyone: give --metrics-token-file, or \
             --metrics-tls and --tls-client-ca, or an address on 127.0.0.1"
        )));
    }
    metrics::Endpoint::begin(address, guard).map(Some)
}

/// Starts the background scrub.
fn scrub(engine: &Database, mib_per_second: Option<u32>) -> Result<(), Failure> {
    const MIB_PER_SECOND: u32 = 4;
    let rate = u64::from(mib_per_second.unwrap_or(MIB_PER_SECOND)) << 20;
    match (engine.scrub_in_background(rate), mib_per_second) {
        (Err(Error::Unsupported(_)), None | Some(0)) => Ok(()),
        (done, _) => done.map_err(|error| Failure::new("--scrub-mib-per-s", error)),
    }
}

/// Tells on standard error what the database reports of its disks.
struct Reports {
    ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reports {
    fn begin(engine: Database) -> Reports {
        const INTERVAL: Duration = Duration::from_millis(500);
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let thread = thread::spawn(move || {
            loop {
                let is_last = flag.load(Ordering::Acquire);
                for report in engine.take_reports() {
                    tell(&mut stderr(), &report);
                }
                if is_last {
                    return;
                }
                thread::park_timeout(INTERVAL);
            }
        });
        Reports { ended, thread: Some(thread) }
    }
}

impl Drop for Reports {
    /// Lets go of the database.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("telling does not panic");
        }
    }
}

/// Prints a line, if it has a reader: a server goes on without.
fn tell(to: &mut dyn Write, line: &str) {
    let _ = writeln!(to, "{line}").and_then(|()| to.flush());
}

fn auth(arguments: &Serve, user: Option<&(String, String)>) -> Result<Auth, Failure> {
    if let Some(path) = &arguments.users_file {
        return Users::from_file(path).map(Auth::Scram).map_err(Failure);
    }
    let Some((user, password)) = user else {
        // A server that asks for certificates is not meant to let in every process that reaches a socket's directory.
        if arguments.encryption.authenticates() && arguments.socket_dir.is_some() && !arguments.trust {
            return Err(Failure(
                "no certificate is asked for over a Unix-domain socket: give --users-file, or --trust to ask for \
                 nothing there"
                    .into(),
            ));
        }
        return Ok(Auth::Trust);
    };
    let users =
        Users::single(user, password).map_err(|_| Failure("the system has no randomness to give".into()))?;
    Ok(Auth::Scram(users))
}

/// Returns the user as which a member asks another one for a copy.
fn credentials(arguments: &Serve, user: Option<(String, String)>) -> Credentials {
    let (user, password) = match user {
        Some((user, password)) => (user, Some(password)),
        None => ("gnomon".into(), None),
    };
    Credentials { user, password, certificate: arguments.encryption.files() }
}

/// Reads the one user that is let in, and the password.
fn user(arguments: &Serve) -> Result<Option<(String, String)>, Failure> {
    let (Some(user), Some(path)) = (&arguments.user, &arguments.password_file) else { return Ok(None) };
    let password = gnomon_tls::secret::read_line("password file", path).map_err(Failure)?;
    Ok(Some((user.clone(), password)))
}

#[cfg(test)]
mod tests {
    use super::parse_address;

    #[test]
    fn addresses_are_read_in_the_forms_that_people_write() {
        for (text, address) in [
            ("5445", "127.0.0.1:5445"),
            ("localhost:5445", "127.0.0.1:5445"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:5433", "[::1]:5433"),
        ] {
            assert_eq!(parse_address(text).map(|address| address.to_string()).as_deref(), Ok(address));
        }
        for text in ["nowhere", "localhost", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "65536", ""] {
            assert!(parse_address(text).is_err_and(|error| error.contains("give HOST:PORT")), "{text}");
        }
    }
}

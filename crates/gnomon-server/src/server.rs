//! The listening server: accepts clients, watches over them, ends in order.
//!
//! One thread (the one that calls [`Server::run`]) waits for new clients and, while there are any, looks around ten
//! times a second: for clients that have not authenticated in time, for sessions that were told to end, and for
//! clients that disappeared while a statement runs (the peer closed or reset the connection). The latter's statement
//! is interrupted, so that a dead client's transaction and locks do not outlive it by more than that, even when the
//! statement waits for another transaction's lock. Half-closed connections count as closed there, as with
//! PostgreSQL's `client_connection_check_interval`.
//!
//! A shutdown stops listening, interrupts every statement, tells every client (57P01), and when the last session
//! has ended closes the database. When a failure stops the database, the server does the same by itself, with 57P02:
//! opening the database again recovers it, so a supervisor should start the server anew.

use std::{
    collections::HashMap,
    io::{self, PipeReader, PipeWriter, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use gnomon_engine::{
    Interrupt, InterruptReason,
    env::{Clock, SystemClock},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
        thread,
    },
};
use gnomon_sql::session::SqlDatabase;
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt,
};

use crate::{
    connection,
    login_log::LoginLog,
    metrics::{Counters, Metrics, count},
    options::{Auth, ServerError, ServerOptions},
    scram,
    throttle::Throttle,
    tls::ClientCertificates,
    wire::{Socket, timespec},
};

/// Interval at which the server looks around while it has clients.
const TICK: Duration = Duration::from_millis(100);
/// The same interval while it shuts down.
const SHUTDOWN_TICK: Duration = Duration::from_millis(10);
/// Maximum time that a shutdown waits for clients to take their last message: one that does not read cannot hold it up.
const LAST_MESSAGE: Duration = Duration::from_secs(1);
/// Clients that may be about to authenticate at a time, beyond `connections_max`. One more ends the oldest of them, so
/// that silent connections do not shut others out.
const STARTING_SPARE: usize = 64;
/// Address space for a connection's stack: expressions nest, and the system gives memory only as it is touched.
const STACK_BYTES: usize = 16 << 20;

/// Returns how many file descriptors a server with so many connections uses for its sockets at most.
pub fn descriptors_needed(connections_max: usize) -> usize {
    /// Two that listen, the pipe that wakes the server, one to accept by, and the spare one.
    const OWN: usize = 6;
    starting_max(connections_max).saturating_add(connections_max).saturating_add(OWN)
}

/// Returns how many connections may be about to authenticate: all clients of a full server may come back at once.
fn starting_max(connections_max: usize) -> usize {
    connections_max.saturating_add(STARTING_SPARE)
}

/// A server that listens; [`Server::run`] serves.
pub struct Server {
    shared: Arc<Shared>,
    tcp: TcpListener,
    unix: Option<SocketFile>,
    local_addr: SocketAddr,
    wake: PipeReader,
    /// A file descriptor to give up when there are no more: to accept by it, and refuse.
    spare: Mutex<Option<PipeReader>>,
}

/// Stops a server from elsewhere, and reads its counters. Clones belong to the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

/// The state that the server and its connections share.
pub(crate) struct Shared {
    pub(crate) database: SqlDatabase,
    pub(crate) options: ServerOptions,
    pub(crate) throttle: Throttle,
    pub(crate) login_log: LoginLog,
    pub(crate) counters: Counters,
    /// Timeouts of remote clients run in real time: no data depends on them.
    clock: SystemClock,
    peers: Mutex<Peers>,
    stopping: AtomicBool,
    /// The reason why the database stopped by itself.
    failure: OnceLock<gnomon_engine::Error>,
    wake: PipeWriter,
}

#[derive(Default)]
struct Peers {
    by_id: HashMap<i32, Arc<Peer>>,
    last_id: i32,
    admitted: usize,
}

/// A connection, as others see it.
pub(crate) struct Peer {
    /// The process ID in BackendKeyData.
    pub(crate) id: i32,
    /// The secret key that a cancel request must give beside it.
    pub(crate) secret: [u8; 4],
    socket: Socket,
    /// The time when it was accepted, by the server's clock.
    accepted: Duration,
    phase: AtomicU8,
    /// Set once there is a session.
    pub(crate) interrupt: OnceLock<Arc<Interrupt>>,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Not authenticated yet.
    Starting,
    /// Waiting for the client.
    Idle,
    /// Running something for it.
    Busy,
    /// The client was found gone.
    Lost,
    /// Ended before it had authenticated, since it took too long.
    Late,
    /// Ended before it had authenticated, to make room for others.
    Displaced,
}

impl Peer {
    /// Enters another phase; returns whether the client was found gone in the present one.
    pub(crate) fn enter(&self, phase: Phase) -> bool {
        self.phase.swap(phase as u8, Ordering::AcqRel) == Phase::Lost as u8
    }

    /// Enters the first phase after authentication; false if it was ended before.
    pub(crate) fn begin(&self) -> bool {
        self.leave_start(Phase::Idle)
    }

    /// Leaves [`Phase::Starting`]; false if it has done so before.
    fn leave_start(&self, phase: Phase) -> bool {
        let starting = Phase::Starting as u8;
        self.phase.compare_exchange(starting, phase as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends it before it has authenticated. Its thread wakes up and tells the client why.
    fn displace(&self, why: Phase, counters: &Counters) {
        if self.leave_start(why) {
            count(&counters.connections_displaced);
            self.socket.shutdown(Shutdown::Read);
        }
    }

    pub(crate) fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    /// True if the session was told to end: by a shutdown, or by `pg_terminate_backend`.
    pub(crate) fn is_terminated(&self) -> bool {
        let ended = |interrupt: &Arc<Interrupt>| {
            matches!(interrupt.check(), Err(gnomon_engine::Error::Interrupted(InterruptReason::Shutdown)))
        };
        self.interrupt.get().is_some_and(ended)
    }

    fn interrupt(&self, reason: InterruptReason) {
        if let Some(interrupt) = self.interrupt.get() {
            interrupt.raise(reason);
        }
    }
}

/// A connection's entry among the peers, for as long as it lives. Drop it after the session.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    admitted: bool,
}

impl Registered {
    /// Takes one of the `connections_max` places; false if there is none.
    pub(crate) fn admit(&mut self) -> bool {
        let mut peers = self.shared.peers.lock();
        if peers.admitted >= self.shared.options.connections_max {
            count(&self.shared.counters.connections_refused);
            return false;
        }
        peers.admitted += 1;
        self.admitted = true;
        count(&self.shared.counters.connections_open);
        true
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut peers = self.shared.peers.lock();
        peers.by_id.remove(&self.peer.id);
        if self.admitted {
            peers.admitted -= 1;
            self.shared.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// True if clients beyond this machine are let in by certificates.
fn has_certificates_for_passwords(options: &ServerOptions) -> bool {
    options.tls.as_ref().and_then(|tls| tls.clients) == Some(ClientCertificates::Authenticate)
}

impl Shared {
    /// The time since the server was bound.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// True if the server shuts down.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns the reason why the database stopped by itself, if it did.
    pub(crate) fn failure(&self) -> Option<&gnomon_engine::Error> {
        self.failure.get()
    }

    /// Interrupts the statement of the session that `id` and `secret` name, if there is one.
    pub(crate) fn cancel(&self, id: i32, secret: &[u8]) {
        let peer = self.peers.lock().by_id.get(&id).cloned();
        if let Some(peer) = peer
            && gnomon_tls::secret::equal(&peer.secret, secret)
        {
            count(&self.counters.cancels);
            if peer.is(Phase::Busy) {
                peer.interrupt(InterruptReason::Cancel);
            }
        }
    }
}

impl ServerHandle {
    /// Asks the server to stop; [`Server::run`] returns when it has.
    pub fn shut_down(&self) {
        if !self.0.stopping.swap(true, Ordering::AcqRel) {
            // Only a reader that is gone makes this fail, and then no thread waits to be woken.
            let _ = (&self.0.wake).write_all(&[0]);
        }
    }

    /// Returns the server's counters.
    pub fn metrics(&self) -> Metrics {
        let memory = self.0.database.memory_use();
        Metrics {
            session_memory_bytes: memory.bytes,
            session_file_bytes: memory.file_bytes,
            memory_refused: memory.refused,
            ..self.0.counters.read()
        }
    }
}

impl Server {
    /// Listens, but serves no client yet.
    ///
    /// # Errors
    /// Trust beyond loopback is refused; an address may be taken.
    pub fn bind(database: SqlDatabase, options: ServerOptions) -> Result<Server, ServerError> {
        let is_open = matches!(options.auth, Auth::Trust) && !has_certificates_for_passwords(&options);
        if is_open && !options.listen.ip().is_loopback() {
            return Err(ServerError::TrustBeyondLoopback(options.listen));
        }
        let listen_error = |error| ServerError::Listen { address: options.listen.to_string(), error };
        let tcp = TcpListener::bind(options.listen).map_err(listen_error)?;
        tcp.set_nonblocking(true).map_err(listen_error)?;
        let local_addr = tcp.local_addr().map_err(listen_error)?;
        let unix = match &options.unix_socket_dir {
            Some(dir) => Some(SocketFile::bind(dir, local_addr.port())?),
            None => None,
        };
        let (wake_reader, wake) = io::pipe().map_err(ServerError::Io)?;
        let login_log = LoginLog::new(options.log);
        let spare = Mutex::new(Some(wake_reader.try_clone().map_err(ServerError::Io)?));
        let shared = Arc::new(Shared {
            database,
            options,
            throttle: Throttle::default(),
            login_log,
            counters: Counters::default(),
            clock: SystemClock::new(),
            peers: Mutex::new(Peers::default()),
            stopping: AtomicBool::new(false),
            failure: OnceLock::new(),
            wake,
        });
        Ok(Server { shared, tcp, unix, local_addr, wake: wake_reader, spare })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// A handle to stop it with.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(self.shared.clone())
    }

    /// Serves until [`ServerHandle::shut_down`] is called or a failure stops the database, then ends every session and
    /// closes the database.
    ///
    /// # Errors
    /// The operating system fails the loop; sessions do not end within the shutdown timeout; the database does not
    /// close in order. The server has stopped listening in each case.
    pub fn run(self) -> Result<(), ServerError> {
        let shared = Arc::downgrade(&self.shared);
        self.shared.database.engine().when_stopped(move |error| {
            if let Some(shared) = shared.upgrade() {
                let _ = shared.failure.set(error);
                ServerHandle(shared).shut_down();
            }
        });
        let served = self.serve();
        let Server { shared, tcp, unix, wake, spare, .. } = self;
        drop((tcp, unix, wake, spare));
        shared.stopping.store(true, Ordering::Release);
        let stopped = stop(&shared);
        if let Some(error) = shared.failure.get() {
            return Err(ServerError::Stopped(error.clone()));
        }
        served.map_err(ServerError::Io).and(stopped)
    }

    fn serve(&self) -> io::Result<()> {
        let mut last_look = Duration::ZERO;
        let mut may_accept = true;
        while !self.shared.is_stopping() {
            let alone = self.shared.peers.lock().by_id.is_empty();
            self.wait(may_accept, (!alone || !may_accept).then_some(TICK))?;
            may_accept = self.accept_all();
            let now = self.shared.clock.now();
            if now.saturating_sub(last_look) >= TICK {
                last_look = now;
                look_around(&self.shared)?;
            }
        }
        Ok(())
    }

    /// Waits for a client (if `may_accept`), to be woken, or for `timeout`.
    fn wait(&self, may_accept: bool, timeout: Option<Duration>) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if may_accept {
            fds.push(PollFd::new(&self.tcp, PollFlags::IN));
            if let Some(unix) = &self.unix {
                fds.push(PollFd::new(&unix.listener, PollFlags::IN));
            }
        }
        poll_fds(&mut fds, timeout)
    }

    /// Takes every client that waits. False if the system has no more sockets to give for the moment.
    fn accept_all(&self) -> bool {
        loop {
            let accepted = match self.tcp.accept() {
                Ok((stream, _)) => Some(Socket::from(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(error) => return is_of_the_client(&error) || self.refuse_one(&error),
            };
            let accepted = match (accepted, &self.unix) {
                (None, Some(unix)) => match unix.listener.accept() {
                    Ok((stream, _)) => Some(Socket::from(stream)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                    Err(error) => return is_of_the_client(&error) || self.refuse_one(&error),
                },
                (accepted, _) => accepted,
            };
            let Some(socket) = accepted else { return true };
            count(&self.shared.counters.connections_accepted);
            // A socket that cannot be set up is one whose client has gone again.
            if self.start(socket).is_err() {
                count(&self.shared.counters.connections_refused);
            }
        }
    }

    /// Without a file descriptor for a client that waits: accepts it by the spare one, and tells it. False, so that the
    /// server waits a little before it accepts the next.
    fn refuse_one(&self, error: &io::Error) -> bool {
        let mut spare = self.spare.lock();
        drop(spare.take());
        let accepted = match (self.tcp.accept(), &self.unix) {
            (Ok((stream, _)), _) => Some(Socket::from(stream)),
            (Err(_), Some(unix)) => unix.listener.accept().ok().map(|(stream, _)| Socket::from(stream)),
            (Err(_), None) => None,
        };
        if let Some(socket) = accepted {
            count(&self.shared.counters.connections_accepted);
            count(&self.shared.counters.connections_refused);
            connection::refuse(socket, &format!("no file descriptor for a connection: {error}"));
        }
        *spare = self.wake.try_clone().ok();
        false
    }

    /// Starts the thread of a connection.
    fn start(&self, socket: Socket) -> io::Result<()> {
        prepare(&socket)?;
        let secret = scram::random().map_err(|_| io::Error::other("no randomness"))?;
        let peer = {
            let mut peers = self.shared.peers.lock();
            make_room(&peers, starting_max(self.shared.options.connections_max), &self.shared.counters);
            let mut id = peers.last_id;
            loop {
                id = id.checked_add(1).unwrap_or(1);
                if !peers.by_id.contains_key(&id) {
                    break;
                }
            }
            peers.last_id = id;
            let peer = Arc::new(Peer {
                id,
                secret,
                socket: socket.clone(),
                accepted: self.shared.clock.now(),
                phase: AtomicU8::new(Phase::Starting as u8),
                interrupt: OnceLock::new(),
            });
            peers.by_id.insert(id, peer.clone());
            peer
        };
        let shared = self.shared.clone();
        let name = format!("connection {}", peer.id);
        let registered = Registered { shared: shared.clone(), peer, admitted: false };
        let begun = {
            let socket = socket.clone();
            thread::spawn_sized(name, STACK_BYTES, move || connection::serve(&shared, registered, socket))
        };
        if let Err(error) = begun {
            connection::refuse(socket, &format!("no thread for a connection: {error}"));
            return Err(error);
        }
        Ok(())
    }
}

/// Ends the oldest connections that have not authenticated, if there are too many of them. One that was ended still has
/// its thread for a moment, but is not counted or chosen again.
fn make_room(peers: &Peers, starting_max: usize, counters: &Counters) {
    let mut starting: Vec<_> = peers.by_id.values().filter(|peer| peer.is(Phase::Starting)).collect();
    let excess = (starting.len() + 1).saturating_sub(starting_max);
    starting.sort_unstable_by_key(|peer| peer.accepted);
    for peer in starting.into_iter().take(excess) {
        peer.displace(Phase::Displaced, counters);
    }
}

/// True if an error of accept is about the client that came (and went) rather than about this process.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Sets an accepted socket up: blocking, no delay, keepalive after a minute of silence.
fn prepare(socket: &Socket) -> io::Result<()> {
    match socket {
        Socket::Tcp(stream) => {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            sockopt::set_socket_keepalive(stream, true)?;
            sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
            sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
            sockopt::set_tcp_keepcnt(stream, 6)?;
        }
        Socket::Unix(stream) => stream.set_nonblocking(false)?,
    }
    Ok(())
}

fn poll_fds(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(timespec);
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends connections that do not authenticate in time or were told to end, and statements whose client is gone.
fn look_around(shared: &Shared) -> io::Result<()> {
    let peers: Vec<Arc<Peer>> = shared.peers.lock().by_id.values().cloned().collect();
    let now = shared.clock.now();
    for peer in &peers {
        let age = now.saturating_sub(peer.accepted);
        if age >= shared.options.auth_timeout {
            peer.displace(Phase::Late, &shared.counters);
        }
        // One whose client does not read why it was ended does not wait for that.
        let is_ended = peer.is(Phase::Late) || peer.is(Phase::Displaced);
        if is_ended && age >= shared.options.auth_timeout + LAST_MESSAGE {
            peer.socket.shutdown(Shutdown::Both);
        }
    }

    // A busy one finds out by itself, unless it waits for its client (below).
    for peer in peers.iter().filter(|peer| peer.is(Phase::Idle) && peer.is_terminated()) {
        peer.socket.shutdown(Shutdown::Read);
    }

    let busy: Vec<&Arc<Peer>> = peers.iter().filter(|peer| peer.is(Phase::Busy)).collect();
    // Errors and hang-ups are reported unasked; RDHUP tells that the peer has closed its end even while data that
    // came before wait to be read.
    let asked = PollFlags::RDHUP | PollFlags::OUT;
    let mut fds: Vec<PollFd<'_>> =
        busy.iter().map(|peer| PollFd::from_borrowed_fd(peer.socket.as_fd(), asked)).collect();
    poll_fds(&mut fds, Some(Duration::ZERO))?;
    for (peer, fd) in busy.iter().zip(&fds) {
        // One that was told to end, and waits for its client to read something, would wait on.
        let is_stuck = || !fd.revents().contains(PollFlags::OUT) && peer.is_terminated();
        if fd.revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) || is_stuck() {
            // If the statement has just ended, the connection's own read finds out instead.
            let busy = Phase::Busy as u8;
            let lost = Phase::Lost as u8;
            if peer.phase.compare_exchange(busy, lost, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                count(&shared.counters.clients_lost);
                peer.interrupt(InterruptReason::Cancel);
                peer.socket.shutdown(Shutdown::Both);
            }
        }
    }
    Ok(())
}

/// Ends every session, then closes the database.
fn stop(shared: &Shared) -> Result<(), ServerError> {
    let begun = shared.clock.now();
    loop {
        let peers: Vec<Arc<Peer>> = shared.peers.lock().by_id.values().cloned().collect();
        if peers.is_empty() {
            break;
        }
        let waited = shared.clock.now().saturating_sub(begun);
        if waited >= shared.options.shutdown_timeout {
            return Err(ServerError::StillRunning(peers.len()));
        }
        let how = if waited >= LAST_MESSAGE { Shutdown::Both } else { Shutdown::Read };
        for peer in peers {
            // Again and again: a statement that began meanwhile has cleared what was raised before it.
            peer.interrupt(InterruptReason::Shutdown);
            peer.socket.shutdown(how);
        }
        thread::sleep(SHUTDOWN_TICK);
    }
    shared.database.close().map_err(ServerError::Close)
}

/// A Unix-domain socket's listener, whose file goes with it.
struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketFile {
    fn bind(dir: &Path, port: u16) -> Result<SocketFile, ServerError> {
        let path = dir.join(format!(".s.PGSQL.{port}"));
        let bind = || {
            // What is left of a server that was killed refuses connections, and would refuse to be bound again.
            if UnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            {
                remove(&path)?;
            }
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        match bind() {
            Ok(listener) => Ok(SocketFile { listener, path }),
            Err(error) => Err(ServerError::Listen { address: path.display().to_string(), error }),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone already is what was wanted.
        let _ = remove(&self.path);
    }
}

#[expect(clippy::disallowed_methods, reason = "a socket's name holds no bytes of the database")]
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

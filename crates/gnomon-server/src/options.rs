//! Settings of a server, and the reasons why it refuses them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::{scram::Users, tls::Tls};

/// Takes a line of the server's log.
pub type Log = fn(&str);

/// Settings of a server: where it listens, which clients it lets in, and what it grants them.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address on which it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// A directory in which it listens on a Unix-domain socket too, named as libpq expects (`.s.PGSQL.PORT`).
    pub unix_socket_dir: Option<PathBuf>,
    /// The clients that it lets in.
    pub auth: Auth,
    /// TLS for clients that ask for it.
    pub tls: Option<Tls>,
    /// The only database name that is accepted; none accepts every name. There is one database in any case.
    pub database: Option<String>,
    /// Authenticated connections at a time.
    pub connections_max: usize,
    /// The longest message of an authenticated client, in bytes. Before, it is 10,000.
    pub message_bytes_max: usize,
    /// The longest text of a statement, in bytes.
    pub statement_bytes_max: usize,
    /// Prepared statements, and portals, of a session at a time (each counted for itself).
    pub prepared_max: usize,
    /// Where the server tells of clients that are not let in, in a bounded number of lines.
    pub log: Log,
    /// Maximum time of a client from connecting to being authenticated.
    pub auth_timeout: Duration,
    /// Maximum time that a client keeps silent between two messages, or reads nothing of an answer; none for ever.
    pub idle_timeout: Option<Duration>,
    /// Maximum time that a shutdown waits for statements to end, each of which has been interrupted.
    pub shutdown_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5433)),
            unix_socket_dir: None,
            auth: Auth::Trust,
            tls: None,
            database: None,
            connections_max: 200,
            message_bytes_max: 64 << 20,
            statement_bytes_max: 40 << 20,
            prepared_max: 10_000,
            log: |_| (),
            auth_timeout: Duration::from_secs(30),
            idle_timeout: None,
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}

/// The clients that a server lets in.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Every client that reaches it. Only for loopback addresses and Unix-domain sockets.
    Trust,
    /// Users that prove by SCRAM-SHA-256 that they know their password.
    Scram(Users),
}

/// The reason why a server cannot be bound or did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Every client could reach the database, and none would be asked for a password.
    #[error(
        "{0} can be reached from other machines, and everyone would be let in without a password: listen on a \
         loopback address such as 127.0.0.1, or give a users file"
    )]
    TrustBeyondLoopback(SocketAddr),
    /// The address or socket file cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address or path.
        address: String,
        /// The error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// The operating system failed the server's loop.
    #[error("I/O error: {0}")]
    Io(#[source] std::io::Error),
    /// The shutdown timeout passed and so many sessions still ran.
    #[error("{0} sessions did not end within the shutdown timeout")]
    StillRunning(usize),
    /// The database did not close in order.
    #[error("the database did not close in order: {0}")]
    Close(#[source] gnomon_engine::Error),
    /// A failure stopped the database; every session was ended with 57P02.
    #[error("{0}")]
    Stopped(#[source] gnomon_engine::Error),
}

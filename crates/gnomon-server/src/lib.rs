//! PostgreSQL's wire protocol (version 3.0) over `gnomon-sql`: psql, drivers and pgbench talk to a Gnomon database
//! as to PostgreSQL.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gnomon_server::{Server, ServerOptions};
//! use gnomon_sql::session::SqlDatabase;
//!
//! let database = SqlDatabase::open(gnomon_engine::Database::open("bank.gnomon", gnomon_engine::Options::default())?)?;
//! let server = Server::bind(database, ServerOptions::default())?;
//! let handle = server.handle(); // handle.shut_down() ends the server from another thread
//! server.run()?;
//! # let _ = handle;
//! # Ok(())
//! # }
//! ```
//!
//! # A thread for each connection
//!
//! The engine is synchronous: a statement waits for locks and for the disk. So each connection has a thread of its
//! own, which reads from a blocking socket, runs the session, and writes. A request wakes one thread, once; behind
//! an async runtime it is handed over once or twice more, and a wake-up on another core costs as much as a point
//! query. Measured by pgbench with 8 and 32 clients on two cores against servers that do nothing but answer a query
//! with the same row: a thread for each connection answers 1.6 to 2.2 times as many as tokio with `spawn_blocking`,
//! and 2 to 2.5 times as many as with `block_in_place`. A few hundred connections are a few hundred stacks, which
//! take memory only where they are touched; for more, put a pooler in front.
//!
//! # Why the messages are decoded here
//!
//! The crate pgwire was considered. Its handlers are asynchronous, and would bring the hand-overs back. Its codec
//! alone (0.42.1) trusts what it decodes: a count or length inside Bind reads beyond the message or panics, invalid
//! UTF-8 is replaced instead of refused, limits on length are constants, FunctionCall does not exist. The twenty
//! messages of the protocol are less code than guarding against that (`message.rs`).
//!
//! # What it does not do
//!
//! Protocol 3.2 (clients are told to speak 3.0), replication, GSSAPI, passwords in clear or by MD5, LISTEN and NOTIFY.
//! FunctionCall is known, and refused with 0A000.

mod authentication;
mod connection;
mod login_log;
mod message;
mod metrics;
mod options;
mod scram;
mod server;
mod sink;
mod startup;
mod throttle;
mod tls;
mod wire;

pub use metrics::{Kind, Metrics};
pub use options::{Auth, Log, ServerError, ServerOptions};
pub use scram::{NoRandomness, Users, Verifier};
pub use server::{Server, ServerHandle, descriptors_needed};
pub use tls::{ClientCertificates, Clients, Tls, TlsFiles};

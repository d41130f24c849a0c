//! The server through its sockets: a real client library for what clients do every day, raw bytes for the rest.

mod access;
mod authority;
mod common;
mod fuzz;
mod limits;
mod protocol;
mod sequences;
mod sql;
mod tls;

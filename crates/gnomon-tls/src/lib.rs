//! TLS as a server and a client of PostgreSQL's protocol need it, over rustls and ring: PEM files, files that hold
//! secrets, the channel binding of SCRAM-SHA-256-PLUS, and (feature `client`) connections that follow `sslmode`.
//!
//! Messages are texts for the operator: each names the file and, where there is one, the remedy.
//!
//! # What it does not do
//!
//! Revocation lists, encrypted keys, libpq's default files in `~/.postgresql`.

pub mod certificate;
#[cfg(feature = "client")]
pub mod client;
pub mod secret;

use std::{fmt::Display, path::Path};

/// Returns the message that the file `path` cannot be used.
fn unusable(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

/// Returns the cryptography that all connections use.
pub fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

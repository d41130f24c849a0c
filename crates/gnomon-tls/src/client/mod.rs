//! Connections to a PostgreSQL server by its URL, encrypted as libpq does it.
//!
//! | `sslmode` | encrypted | the server is checked |
//! |---|---|---|
//! | `disable` | never | |
//! | `prefer` (default) | if the server can | its certificate's chain, if `sslrootcert` is given |
//! | `require` | or not connected | the same |
//! | `verify-ca` | or not connected | its certificate leads to one in `sslrootcert` |
//! | `verify-full` | or not connected | and has the host's name |
//!
//! `sslrootcert`, `sslcert` and `sslkey` name PEM files; a certificate in `sslrootcert` that is the server's own is
//! trusted as well. Unlike libpq, `prefer` does not connect in clear after a failed handshake, names are compared with
//! the alternative names of a certificate only, and files that the URL does not name are not looked for. Over a
//! Unix-domain socket nothing is encrypted. Passwords are bound to the channel where the server offers it.

mod connector;
#[cfg(test)]
mod tests;
mod url;
mod verify;

use std::fmt;

use postgres::{Client, Config, config::Host};

pub use connector::{Connector, Stream};

/// A server, and how it is connected to. Messages show it by `Display`, which leaves the password out.
#[derive(Clone)]
pub struct Target {
    /// The rest of the URL: host, port, user, database and so on.
    pub config: Config,
    connector: Connector,
}

impl Target {
    /// Reads a URL `postgres://USER@HOST:PORT/DATABASE?sslmode=...&sslrootcert=...` and the files that it names.
    ///
    /// # Errors
    /// The text is not such a URL (libpq's strings of keywords are refused), the URL is not understood, or a file cannot
    /// be used. No message has a part of the URL in which a password could be.
    pub fn parse(url: &str) -> Result<Target, UrlError> {
        let (url, tls) = url::split(url)?;
        let mut config: Config = url.parse().map_err(UrlError::Rest)?;
        config.ssl_mode(tls.mode_for(config.get_hosts()));
        let connector = Connector::new(&tls).map_err(UrlError::Tls)?;
        Ok(Target { config, connector })
    }

    /// Returns what makes encrypted connections, for clients that have a runtime of their own.
    pub fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, is not the right one, or does not let the user in.
    pub fn connect(&self) -> Result<Client, postgres::Error> {
        self.config.connect(self.connector())
    }
}

/// The URL of the server without the password and the settings.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        f.write_str("postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{user}@")?;
        }
        for (index, host) in config.get_hosts().iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            // One port may stand for all hosts.
            let port = config.get_ports().get(index).or(config.get_ports().first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) if name.contains(':') => write!(f, "{separator}[{name}]:{port}")?,
                Host::Tcp(name) => write!(f, "{separator}{name}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{separator}{}:{port}", path.display())?,
            }
        }
        match config.get_dbname().or(config.get_user()) {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// Returns a check that trusts every certificate, as `sslmode=require` without `sslrootcert` does.
pub fn any_certificate() -> std::sync::Arc<dyn rustls::client::danger::ServerCertVerifier> {
    let algorithms = crate::provider().signature_verification_algorithms;
    std::sync::Arc::new(verify::Verifier { algorithms, authorities: None, checks_name: false })
}

/// The reason why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It does not have the form of a URL.
    #[error("{0}")]
    Form(&'static str),
    /// A setting of TLS; the text says which.
    #[error("{0}")]
    Tls(String),
    /// Anything else of the URL.
    #[error("{}", with_cause(.0))]
    Rest(postgres::Error),
}

/// Returns the text of an error and of its cause.
fn with_cause(error: &postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

//! The server's certificate and key, and the authorities that sign its clients' certificates.

use std::path::PathBuf;

use gnomon_engine::sync::Arc;
use gnomon_tls::certificate::{end_point, read_chain, read_key, roots};
use rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

/// The files of a certificate chain and its private key, both PEM, and what is asked of clients.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificates: PathBuf,
    /// The key. No other user can read the file.
    pub key: PathBuf,
    /// True if TCP connections that are not encrypted are refused. Cancel requests, which old clients send in clear, are
    /// not: they name a session by a secret number, and end no more than its statement.
    pub required: bool,
    /// The certificates that clients are asked for.
    pub clients: Option<Clients>,
}

impl TlsFiles {
    /// TLS for clients that ask for it, with the files of a certificate chain and its key.
    pub fn new(certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> TlsFiles {
        TlsFiles { certificates: certificates.into(), key: key.into(), required: false, clients: None }
    }
}

/// The certificates that clients are asked for.
#[derive(Clone, Debug)]
pub struct Clients {
    /// A PEM file with the certificates of the authorities that sign them.
    pub authorities: PathBuf,
    /// Their use.
    pub policy: ClientCertificates,
}

/// The use of clients' certificates. One that is presented must be valid in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client may have one, and needs its password.
    Request,
    /// A client must have one, and needs its password too.
    Require,
    /// A client must have one, whose common name is the user's name, and needs no password.
    Authenticate,
}

/// The keys and rules by which connections are encrypted.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The channel binding of the certificate, if it has one.
    pub(crate) end_point: Option<Vec<u8>>,
    /// True if TCP connections that are not encrypted are refused.
    pub(crate) required: bool,
    /// The use of clients' certificates, if they are asked for some.
    pub(crate) clients: Option<ClientCertificates>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("required", &self.required)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Reads the files, each once: it may be a pipe.
    ///
    /// # Errors
    /// A file cannot be used, or rules contradict each other; the text says which and why.
    pub fn read(&self) -> Result<Tls, String> {
        let must_have = |clients: &Clients| clients.policy != ClientCertificates::Request;
        if !self.required && self.clients.as_ref().is_some_and(must_have) {
            return Err(
                "clients without encryption have no certificate: require TLS, or only request one".into()
            );
        }
        let chain = read_chain(&self.certificates)?;
        let key = read_key(&self.key)?;
        let end_point = chain.first().and_then(end_point);
        let builder = ServerConfig::builder_with_provider(gnomon_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(verifier(clients)?),
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key).map_err(|error| error.to_string())?;
        let clients = self.clients.as_ref().map(|clients| clients.policy);
        Ok(Tls { config: Arc::new(config), end_point, required: self.required, clients })
    }
}

impl Tls {
    /// Returns the keys as rustls has them, for what else is served with them.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

/// Returns what checks the certificates of clients. A client without one is refused later, by a message that it can show.
fn verifier(clients: &Clients) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let path = &clients.authorities;
    let roots = roots(path, &read_chain(path)?)?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), gnomon_tls::provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| format!("{}: {error}", path.display()))
}

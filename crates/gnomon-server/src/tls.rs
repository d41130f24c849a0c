//! The server's certificate and key, and whose certificates it takes.

use gnomon::sync::Arc;
use gnomon_tls::certificate::{end_point, read_chain, read_key, roots};
use rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use crate::options::{ClientCertificates, Clients, ServerError, TlsFiles};

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
    /// [`ServerError::Tls`] of a file that cannot be used, and of rules that contradict each other.
    pub fn read(&self) -> Result<Tls, ServerError> {
        let failed = |error: &dyn std::fmt::Display| ServerError::Tls(error.to_string());
        let must_have = |clients: &Clients| clients.policy != ClientCertificates::Request;
        if !self.required && self.clients.as_ref().is_some_and(must_have) {
            return Err(failed(
                &"clients without encryption have no certificate: require TLS, or only request one",
            ));
        }
        let chain = read_chain(&self.certificates).map_err(ServerError::Tls)?;
        let key = read_key(&self.key).map_err(ServerError::Tls)?;
        let end_point = chain.first().and_then(end_point);
        let builder = ServerConfig::builder_with_provider(gnomon_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?;
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(verifier(clients).map_err(ServerError::Tls)?),
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key).map_err(|error| failed(&error))?;
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

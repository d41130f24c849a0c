//! The server's certificate and key, and whose certificates it takes.

use gnomon::sync::Arc;
use gnomon_tls::certificate::{end_point, read_chain, read_key, roots};
use rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use crate::options::{ClientCertificates, Clients, ServerError, Tls};

/// The keys and rules by which connections are encrypted.
pub(crate) struct Encryption {
    pub(crate) config: Arc<ServerConfig>,
    /// The channel binding of the certificate, if it has one.
    pub(crate) end_point: Option<Vec<u8>>,
}

/// Reads the files that `tls` names.
pub(crate) fn configure(tls: &Tls) -> Result<Encryption, ServerError> {
    let failed = |error: &dyn std::fmt::Display| ServerError::Tls(error.to_string());
    let must_have = |clients: &Clients| clients.policy != ClientCertificates::Request;
    if !tls.required && tls.clients.as_ref().is_some_and(must_have) {
        return Err(failed(
            &"clients without encryption have no certificate: require TLS, or only request one",
        ));
    }
    let chain = read_chain(&tls.certificates).map_err(ServerError::Tls)?;
    let key = read_key(&tls.key).map_err(ServerError::Tls)?;
    let end_point = chain.first().and_then(end_point);
    let builder = ServerConfig::builder_with_provider(gnomon_tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let builder = match &tls.clients {
        Some(clients) => builder.with_client_cert_verifier(verifier(clients).map_err(ServerError::Tls)?),
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| failed(&error))?;
    Ok(Encryption { config: Arc::new(config), end_point })
}

impl Tls {
    /// Reads the files, as [`Server::bind`](crate::Server::bind) does, for what else is served with them.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, ServerError> {
        configure(self).map(|encryption| encryption.config)
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

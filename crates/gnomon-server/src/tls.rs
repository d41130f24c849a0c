//! The server's certificate and key.

use gnomon::sync::Arc;
use gnomon_tls::certificate::{read_chain, read_key};
use rustls::ServerConfig;

use crate::options::{ServerError, Tls};

/// Reads the files that `tls` names.
pub(crate) fn configure(tls: &Tls) -> Result<Arc<ServerConfig>, ServerError> {
    let chain = read_chain(&tls.certificates).map_err(ServerError::Tls)?;
    let key = read_key(&tls.key).map_err(ServerError::Tls)?;
    let config = ServerConfig::builder_with_provider(gnomon_tls::provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| ServerError::Tls(error.to_string()))?;
    Ok(Arc::new(config))
}

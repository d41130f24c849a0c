//! The server's certificate and key.

use gnomon::sync::Arc;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::options::{ServerError, Tls};

/// Reads the files that `tls` names.
pub(crate) fn configure(tls: &Tls) -> Result<Arc<ServerConfig>, ServerError> {
    let failed = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        ServerError::Tls(format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(&tls.certificates, &error))?;
    if chain.is_empty() {
        return Err(failed(&tls.certificates, &"no certificate in this file"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| failed(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| ServerError::Tls(error.to_string()))?;
    Ok(Arc::new(config))
}

//! The check of a server's certificate, as strict as `sslmode` asks for.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::certificate::is_valid_at;

/// The certificates that a client trusts.
#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) roots: RootCertStore,
    /// The same certificates: a server may present one of them as its own.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// Checks a server's certificate. In any case the server must prove that it has the certificate's key.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    /// None trusts every certificate.
    pub(super) authorities: Option<Authorities>,
    /// True if the certificate must have the host's name.
    pub(super) checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        // A certificate that signs itself, as openssl makes it by default, is an authority: a chain of it alone is
        // refused by webpki, and accepted by OpenSSL if it is trusted.
        if authorities.certificates.iter().any(|trusted| trusted == end_entity) {
            if !is_valid_at(end_entity, now.as_secs()) {
                return Err(CertificateError::Expired.into());
            }
        } else {
            let (roots, algorithms) = (&authorities.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        }
        if self.checks_name {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

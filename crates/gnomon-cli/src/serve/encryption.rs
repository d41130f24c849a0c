//! The options of `gnomon serve` for TLS and the certificates of clients.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gnomon_program::Failure;
use gnomon_server::{ClientCertificates, Clients, Tls, TlsFiles};

/// How connections are encrypted.
#[derive(Args)]
pub struct EncryptionArguments {
    /// A certificate chain (PEM) for TLS.
    ///
    /// The server's own certificate comes first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    ///
    /// A file that others can read is refused: chmod 600, or 640 if root owns it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// TLS of clients: allow or require it.
    ///
    /// With require, a TCP connection that is not encrypted is refused with SQLSTATE 28000, before anything is asked of
    /// it; Unix-domain sockets stay open. The default is allow, and require where clients must have certificates.
    #[arg(long, value_name = "HOW", requires = "tls_cert")]
    tls: Option<Encrypted>,
    /// The certificates of the authorities that sign the certificates of clients (PEM).
    ///
    /// The use of a client's certificate is set by --client-certificates.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// The use of clients' certificates: request, require or authenticate.
    ///
    /// With require, the default, a client must have one, and needs its password too. With authenticate it needs no
    /// password, but a certificate whose common name (CN) is the user's name. With request it may do without one. A
    /// certificate that no authority of --tls-client-ca has signed ends the connection in any case.
    #[arg(long, value_name = "WHAT", requires = "tls_client_ca")]
    client_certificates: Option<Policy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Encrypted {
    Allow,
    Require,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    Request,
    Require,
    Authenticate,
}

impl EncryptionArguments {
    /// True if clients are asked for certificates.
    pub fn asks_for_certificates(&self) -> bool {
        self.tls_client_ca.is_some()
    }

    /// True if clients are let in by certificates instead of passwords.
    pub fn authenticates(&self) -> bool {
        self.client_certificates == Some(Policy::Authenticate)
    }

    /// Returns the files of the server's certificate and its key.
    pub fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert.clone().zip(self.tls_key.clone())
    }

    /// Reads the files, each once: it may be a pipe. A member that copies another one's data reads them again.
    pub fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let clients = self.tls_client_ca.clone().map(|authorities| Clients {
            authorities,
            policy: match self.client_certificates.unwrap_or(Policy::Require) {
                Policy::Request => ClientCertificates::Request,
                Policy::Require => ClientCertificates::Require,
                Policy::Authenticate => ClientCertificates::Authenticate,
            },
        });
        let must_have = clients.as_ref().is_some_and(|clients| clients.policy != ClientCertificates::Request);
        if must_have && self.tls == Some(Encrypted::Allow) {
            return Err(Failure(
                "--tls allow lets clients in that have no certificate: give --tls require, or --client-certificates \
                 request"
                    .into(),
            ));
        }
        let required = must_have || self.tls == Some(Encrypted::Require);
        let files = TlsFiles { required, clients, ..TlsFiles::new(certificates, key) };
        files.read().map(Some).map_err(|error| Failure(format!("cannot set TLS up: {error}")))
    }
}

//! Access to metrics: by a token, or by a certificate.

use std::path::{Path, PathBuf};

use clap::Args;
use gnomon_program::Failure;
use gnomon_server::Tls;
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderValue},
};
use tokio_rustls::TlsAcceptor;

/// The access to metrics.
#[derive(Args)]
pub struct GuardArguments {
    /// A file whose first line is the token that metrics are given for.
    ///
    /// Asked for as `Authorization: Bearer TOKEN`, at least 16 characters. A file that others can read is refused: chmod
    /// 600, or 640 if root owns it.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    metrics_token_file: Option<PathBuf>,
    /// Serve metrics over HTTPS, with the certificate of --tls-cert.
    ///
    /// With --tls-client-ca, metrics are given for a certificate that it has signed, or for the token.
    #[arg(long, requires_all = ["metrics", "tls_cert"])]
    metrics_tls: bool,
}

impl GuardArguments {
    /// Returns the guard; `tls` is what connections are encrypted with, if they can be, and `asks_for_certificates` if
    /// it asks clients for certificates.
    pub fn guard(&self, tls: Option<&Tls>, asks_for_certificates: bool) -> Result<Guard, Failure> {
        let token = self.metrics_token_file.as_deref().map(Token::read).transpose()?;
        let tls = tls.filter(|_| self.metrics_tls).map(|tls| tls.server_config().into());
        Ok(Guard { token, takes_certificates: tls.is_some() && asks_for_certificates, tls })
    }
}

/// Lets requests for metrics in, or not.
pub struct Guard {
    /// The certificate and key of connections.
    pub tls: Option<TlsAcceptor>,
    token: Option<Token>,
    takes_certificates: bool,
}

impl Guard {
    /// True if it lets all in.
    pub fn is_open(&self) -> bool {
        self.token.is_none() && !self.takes_certificates
    }

    /// Returns the scheme of URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// True if a request with these headers is let in; `has_certificate` if its client has presented a valid one.
    pub fn lets_in(&self, headers: &HeaderMap, has_certificate: bool) -> bool {
        self.is_open()
            || self.takes_certificates && has_certificate
            || self.token.as_ref().is_some_and(|token| token.is_in(headers))
    }
}

struct Token(String);

impl Token {
    /// Reads the first line of a file.
    fn read(path: &Path) -> Result<Token, Failure> {
        const CHARS_MIN: usize = 16;
        let token = gnomon_tls::secret::read_line("token file", path).map_err(Failure)?;
        if token.len() < CHARS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure(format!(
                "the token file {} has no token: write at least {CHARS_MIN} letters, digits and signs into its first \
                 line, as `openssl rand -hex 32` does",
                path.display()
            )));
        }
        Ok(Token(token))
    }

    /// True if a request has it.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let given = value.and_then(|value| {
            let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
        });
        given.is_some_and(|given| gnomon_tls::secret::equal(given, self.0.as_bytes()))
    }
}

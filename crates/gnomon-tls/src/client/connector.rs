//! TLS for connections of the crates postgres and tokio-postgres.

use std::{
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client};

use super::{
    url::{Mode, Settings},
    verify::{Authorities, Verifier},
};
use crate::certificate::{end_point, read_chain, read_key, roots};

/// Makes encrypted connections. Clones share what was read from files.
#[derive(Clone)]
pub struct Connector(Arc<ClientConfig>);

impl Connector {
    /// Reads the files that the settings name.
    pub(super) fn new(settings: &Settings) -> Result<Connector, String> {
        let provider = crate::provider();
        let must_check = matches!(settings.mode, Mode::VerifyCa | Mode::VerifyFull);
        if must_check && settings.root_certificates.is_none() {
            return Err(
                "sslmode verifies the server, but no authority is known: give a file of certificates by sslrootcert"
                    .into(),
            );
        }
        let verifier = Verifier {
            algorithms: provider.signature_verification_algorithms,
            authorities: settings.root_certificates.as_deref().map(authorities).transpose()?,
            checks_name: settings.mode == Mode::VerifyFull,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match (&settings.certificates, &settings.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificates), Some(key)) => builder
                .with_client_auth_cert(read_chain(certificates)?, read_key(key)?)
                .map_err(|error| format!("{}: {error}", certificates.display()))?,
            _ => return Err("sslcert and sslkey belong together: give both".into()),
        };
        Ok(Connector(Arc::new(config)))
    }
}

fn authorities(path: &Path) -> Result<Authorities, String> {
    let certificates = read_chain(path)?;
    Ok(Authorities { roots: roots(path, &certificates)?, certificates })
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        // Of a Unix-domain socket, which is never encrypted, there is no name.
        let domain = if domain.is_empty() { "localhost" } else { domain };
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { connector: TlsConnector::from(self.0.clone()), name })
    }
}

/// A handshake to be made.
pub struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.name, stream).await?;
            Ok(Stream(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub struct Stream<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, connection) = self.0.get_ref();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        certificate
            .and_then(end_point)
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

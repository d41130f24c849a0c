//! How a member proves to etcd that it may come in, and etcd that it is the right one.
//!
//! - [`EtcdAccess`]: certificates, a user and a password;
//! - [`Tokens`]: what etcd gives for a password, for each request.
//!
//! etcd forgets a simple token five minutes after its last use, and when a node is started again; it refuses all of them
//! when its users have changed. A call that is told so asks for a new one, once for all that need it, and goes on.

use std::fmt;

use gnomon_engine::sync::Mutex;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

use super::{
    LogError,
    client::{ATTEMPT, ready},
    messages::{AuthenticateRequest, AuthenticateResponse},
};

/// The credentials that etcd asks for, and those that it is known by.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// The certificates, in PEM, of those that sign etcd's: for endpoints `https://HOST:2379`.
    pub authorities: Option<Vec<u8>>,
    /// This member's certificate and its key, in PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// A user of etcd, and the password.
    pub user: Option<(String, String)>,
}

impl fmt::Debug for EtcdAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdAccess")
            .field("is_encrypted", &self.authorities.is_some())
            .field("has_certificate", &self.identity.is_some())
            .field("user", &self.user.as_ref().map(|(user, _)| user))
            .finish()
    }
}

impl EtcdAccess {
    /// Sets an endpoint up as its URL and this say.
    pub(super) fn prepare(&self, address: &str, endpoint: Endpoint) -> Result<Endpoint, LogError> {
        let wrong = |what: &str| LogError::Foreign(format!("the etcd endpoint '{address}' {what}"));
        let is_encrypted = address.starts_with("https://");
        match &self.authorities {
            None if is_encrypted => {
                Err(wrong("asks for TLS: give the certificates of those that sign etcd's by --etcd-ca"))
            }
            Some(_) if !is_encrypted => {
                Err(wrong("is not encrypted, and --etcd-ca asks for TLS: write https://HOST:2379"))
            }
            None => Ok(endpoint),
            Some(authorities) => {
                let mut tls = ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(authorities))
                    .timeout(ATTEMPT);
                if let Some((certificate, key)) = &self.identity {
                    tls = tls.identity(Identity::from_pem(certificate, key));
                }
                let failed = |error| {
                    wrong(&format!("cannot be reached by TLS: {}", super::client::whole_text(&error)))
                };
                endpoint.tls_config(tls).map_err(failed)
            }
        }
    }
}

/// A token, as requests carry it.
pub(super) type Token = MetadataValue<Ascii>;

/// A connection to a node for one call, with the token that it is made by.
pub(super) struct Caller {
    pub grpc: Grpc<Channel>,
    token: Option<Token>,
}

impl Caller {
    /// A request with the token.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// A stream that a node is to end when it has lost the others.
    pub(super) fn needs_leader<T>(&self, message: T) -> Request<T> {
        let mut request = self.request(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        request
    }
}

/// The token of a user; none is needed where there is no user.
pub(super) struct Tokens {
    user: Option<(String, String)>,
    state: Mutex<State>,
    /// Held by the call that asks for a token: one at a time.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// Counts tokens.
    number: u64,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("number", &self.state.lock().number).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(user: Option<(String, String)>) -> Tokens {
        Tokens { user, state: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// A call, and the number of its token.
    pub(super) fn caller(&self, grpc: Grpc<Channel>) -> (Caller, u64) {
        let state = self.state.lock();
        (Caller { grpc, token: state.token.clone() }, state.number)
    }

    /// The name of the user, if there is one.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|(user, _)| user.as_str())
    }

    /// True if a token was ever had.
    pub(super) fn had_any(&self) -> bool {
        self.state.lock().number > 0
    }

    /// Gets a token in the place of the one with this number, unless that has been done.
    pub(super) async fn renew(&self, mut grpc: Grpc<Channel>, number: u64) -> Result<(), Status> {
        let Some((name, password)) = &self.user else { return Ok(()) };
        let _asking = self.asking.lock().await;
        if self.state.lock().number != number {
            return Ok(());
        }
        ready(&mut grpc).await?;
        let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
        let token = match grpc.unary(Request::new(request), path, codec).await {
            Ok(answer) => {
                let token = answer.into_inner().token.parse();
                Some(token.map_err(|_| Status::internal("the token of etcd cannot be sent"))?)
            }
            // It lets every client in at present.
            Err(status) if status.message().contains("authentication is not enabled") => None,
            Err(status) => return Err(status),
        };
        let mut state = self.state.lock();
        state.token = token;
        state.number += 1;
        Ok(())
    }
}

/// True if a request needs a token, or another one.
pub(super) fn needs_token(status: &Status) -> bool {
    let says = |what: &str| status.message().contains(what);
    match status.code() {
        Code::Unauthenticated => true,
        Code::InvalidArgument => says("user name is empty") || says("revision of auth store is old"),
        _ => false,
    }
}

/// The error of a watch that was not created. What it is refused for, older versions of etcd do not say.
pub(super) fn refused_watch(reason: &str) -> Status {
    let is_refused = ["permission denied", "invalid auth token", "user name is empty", "auth store is old"];
    let text = format!("the watch was not created: {reason}");
    match is_refused.iter().any(|what| reason.contains(what)) {
        true => Status::unauthenticated(text),
        false => Status::unavailable(text),
    }
}

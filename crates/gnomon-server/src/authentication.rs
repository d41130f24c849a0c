//! Authentication of clients: encryption, client certificates, passwords.
//!
//! A refusal tells the client no more than PostgreSQL would. The server's log has the address, the user and the reason
//! ([`ServerOptions::log`](crate::ServerOptions::log)), in so many lines a second at most. An address that is slowed down
//! ([`Throttle`](crate::throttle::Throttle)) is told of once for each wrong password.

use std::net::SocketAddr;

use gnomon_sql::{SqlError, SqlState, session::ConnectedBy};

use crate::{
    message::{self, Reader, fatal, put, violation},
    metrics::count,
    options::Auth,
    scram::{self, Exchange, Failure},
    server::Shared,
    startup::Startup,
    throttle::{Permit, Source, Turn},
    tls::ClientCertificates,
    wire::{End, Wire},
};

/// The characters of a name that a client gave, in the log.
const LOGGED_CHARS_MAX: usize = 64;

/// The reason why a client is not let in.
struct Refusal {
    end: End,
    reason: Reason,
}

/// The part of a refusal that is logged.
enum Reason {
    Is(String),
    /// The error that is sent to the client.
    AsTold,
    /// Nothing: it was told before.
    Told,
}

impl From<End> for Refusal {
    fn from(end: End) -> Refusal {
        Refusal { end, reason: Reason::AsTold }
    }
}

fn refused(error: SqlError, reason: impl Into<String>) -> Refusal {
    Refusal { end: End::Fatal(error), reason: Reason::Is(reason.into()) }
}

/// Goes through what the server asks of a client before it lets it in.
pub(crate) fn authenticate(shared: &Shared, wire: &mut Wire, startup: &Startup) -> Result<(), End> {
    let connection = wire.connected_by()?;
    let Err(refusal) = check(shared, wire, startup, connection) else { return Ok(()) };
    if let End::Fatal(error) = &refusal.end {
        count(&shared.counters.authentications_failed);
        let (user, from) = (logged(&startup.user), origin(connection));
        let log = |reason: &str| {
            let line = format!("failed login of user {user} from {from}: {reason}");
            shared.login_log.tell(shared.now(), &line);
        };
        match &refusal.reason {
            Reason::Is(reason) => log(reason),
            Reason::AsTold => log(&error.report().message),
            Reason::Told => {}
        }
    }
    Err(refusal.end)
}

/// Counts and tells of a client whose handshake of TLS failed, before it gave a name: it has no certificate that counts,
/// trusts not the server's, or speaks something else.
pub(crate) fn refuse_handshake(shared: &Shared, connection: ConnectedBy, error: &rustls::Error) {
    count(&shared.counters.authentications_failed);
    let line = format!("failed login from {}: TLS: {error}", origin(connection));
    shared.login_log.tell(shared.now(), &line);
}

/// Returns from where a client is connected.
fn origin(connection: ConnectedBy) -> String {
    match connection {
        ConnectedBy::Tcp { client, .. } => client.to_string(),
        ConnectedBy::Unix => "a Unix-domain socket".into(),
    }
}

/// Returns a name that a client gave, so that it is one word of one line.
fn logged(name: &str) -> String {
    let cut: String = name.chars().take(LOGGED_CHARS_MAX).collect();
    let dots = if cut.len() < name.len() { "..." } else { "" };
    format!("{cut:?}{dots}")
}

fn check(
    shared: &Shared,
    wire: &mut Wire,
    startup: &Startup,
    connection: ConnectedBy,
) -> Result<(), Refusal> {
    if let (Some(tls), ConnectedBy::Tcp { client, .. }) = (&shared.options.tls, connection) {
        if tls.required && !wire.is_encrypted() {
            return Err(refused(unencrypted(startup, client), "not encrypted"));
        }
        let asked = tls.clients;
        let certificate = wire.client_certificate();
        if certificate.is_none()
            && matches!(asked, Some(ClientCertificates::Require | ClientCertificates::Authenticate))
        {
            let error = fatal(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                "connection requires a valid client certificate",
            );
            return Err(refused(error, "no client certificate"));
        }
        if let (Some(certificate), Some(ClientCertificates::Authenticate)) = (certificate, asked) {
            let name = gnomon_tls::certificate::common_name(certificate);
            return check_name(&startup.user, name.as_deref());
        }
    }
    match &shared.options.auth {
        Auth::Trust => Ok(()),
        Auth::Scram(users) => check_password(shared, wire, users, &startup.user, connection),
    }
}

fn unencrypted(startup: &Startup, client: SocketAddr) -> SqlError {
    let message = format!(
        "no entry for host \"{}\", user \"{}\", database \"{}\", no encryption",
        client.ip(),
        startup.user,
        startup.database
    );
    fatal(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
        .detail("The server takes encrypted connections only.")
        .hint("Connect with sslmode=require, or better verify-full.")
}

/// Lets in the user that a certificate names.
fn check_name(user: &str, name: Option<&str>) -> Result<(), Refusal> {
    if name == Some(user) {
        return Ok(());
    }
    let reason = match name {
        Some(name) => format!("the certificate is of {}", logged(name)),
        None => "the certificate has no common name".into(),
    };
    let message = format!("certificate authentication failed for user \"{user}\"");
    Err(refused(fatal(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message), reason))
}

fn check_password(
    shared: &Shared,
    wire: &mut Wire,
    users: &scram::Users,
    user: &str,
    connection: ConnectedBy,
) -> Result<(), Refusal> {
    let address = connection.addresses().map(|(client, _)| client.ip());
    match exchange(shared, wire, users, user, Source::of(address)) {
        Ok(()) => Ok(()),
        Err(Unproved::Refused(refusal)) => Err(refusal),
        Err(Unproved::Failed(Failure::Refused { is_known })) => {
            count(&shared.counters.passwords_wrong);
            let message = format!("password authentication failed for user \"{user}\"");
            let reason = if is_known { "wrong password" } else { "no such user" };
            Err(refused(fatal(SqlState::INVALID_PASSWORD, message), reason))
        }
        Err(Unproved::Failed(failure)) => Err(End::Fatal(told_of(failure)).into()),
    }
}

/// Returns what a client is told of an exchange that failed.
fn told_of(failure: Failure) -> SqlError {
    match failure {
        Failure::Refused { .. } => fatal(SqlState::INVALID_PASSWORD, "password authentication failed"),
        Failure::Malformed(detail) => violation("malformed SCRAM message").detail(detail),
        Failure::UnknownFlag(flag) => violation("malformed SCRAM message")
            .detail(format!("Unexpected channel-binding flag \"{flag:?}\".")),
        Failure::UnknownBinding(name) => {
            violation(format!("unsupported SCRAM channel-binding type \"{name}\""))
        }
        Failure::UnexpectedBinding => {
            violation("unexpected SCRAM channel-binding attribute in client-final-message")
        }
        Failure::Identity => fatal(
            SqlState::FEATURE_NOT_SUPPORTED,
            "client uses authorization identity, but it is not supported",
        ),
        Failure::Downgraded => fatal(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "SCRAM channel binding negotiation error",
        )
        .detail(
            "The client supports SCRAM channel binding but thinks the server does not.  However, this server does \
             support channel binding.",
        ),
        Failure::WrongBinding => {
            fatal(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "SCRAM channel binding check failed")
        }
        Failure::NoRandomness => fatal(SqlState::INTERNAL_ERROR, "could not generate random bytes"),
    }
}

/// Waits until an address may try a password.
fn wait_for_turn<'a>(shared: &'a Shared, wire: &Wire, source: Source) -> Result<Turn<'a>, Refusal> {
    match shared.throttle.ask(source, shared.now()) {
        Permit::Turn(turn) => {
            let until = shared.now().saturating_add(turn.wait);
            if !turn.wait.is_zero() {
                count(&shared.counters.authentications_delayed);
            }
            loop {
                let left = until.saturating_sub(shared.now());
                if left.is_zero() {
                    return Ok(turn);
                }
                wire.wait_unless_gone(left)?;
            }
        }
        Permit::Refused { after, is_first } => {
            count(&shared.counters.authentications_throttled);
            let error = fatal(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                "too many failed logins from this address",
            )
            .hint(format!("Try again in {} s.", after.as_secs() + 1));
            let reason = if is_first { Reason::AsTold } else { Reason::Told };
            Err(Refusal { end: End::Fatal(error), reason })
        }
    }
}

/// The reason why an exchange proved nothing.
enum Unproved {
    /// The client's messages are none of an exchange, it left, or its address may not try.
    Refused(Refusal),
    Failed(Failure),
}

impl From<End> for Unproved {
    fn from(end: End) -> Unproved {
        Unproved::Refused(end.into())
    }
}

impl From<Refusal> for Unproved {
    fn from(refusal: Refusal) -> Unproved {
        Unproved::Refused(refusal)
    }
}

impl From<Failure> for Unproved {
    fn from(failure: Failure) -> Unproved {
        Unproved::Failed(failure)
    }
}

/// Goes through SCRAM-SHA-256, or SCRAM-SHA-256-PLUS, with the client.
fn exchange(
    shared: &Shared,
    wire: &mut Wire,
    users: &scram::Users,
    user: &str,
    source: Source,
) -> Result<(), Unproved> {
    const SASL: i32 = 10;
    const SASL_CONTINUE: i32 = 11;
    const SASL_FINAL: i32 = 12;
    let mut turn = wait_for_turn(shared, wire, source)?;
    let offered = shared.options.tls.as_ref().and_then(|tls| tls.end_point.as_deref());
    let offered = offered.filter(|_| wire.is_encrypted());
    let mut mechanisms = Vec::new();
    for mechanism in [offered.map(|_| scram::MECHANISM_PLUS), Some(scram::MECHANISM)].into_iter().flatten() {
        mechanisms.extend_from_slice(mechanism.as_bytes());
        mechanisms.push(0);
    }
    mechanisms.push(0);
    put_authentication(wire, SASL, &mechanisms);
    let (exchange, reply) = read_password(wire, |body| {
        let mut reader = Reader::new(body);
        let is_bound = match &*reader.string().map_err(End::by)? {
            scram::MECHANISM => false,
            scram::MECHANISM_PLUS if offered.is_some() => true,
            _ => {
                let error = violation("client selected an invalid SASL authentication mechanism");
                return Err(End::Fatal(error).into());
            }
        };
        let length = usize::try_from(reader.i32().map_err(End::by)?).unwrap_or(0);
        let first = reader.bytes(length).map_err(End::by)?;
        Ok(Exchange::begin(users, user, first, scram::Channel { end_point: offered, is_bound })?)
    })?;
    put_authentication(wire, SASL_CONTINUE, reply.as_bytes());
    let proof = read_password(wire, |body| Ok(body.to_vec()))?;
    let reply = loop {
        let look = || exchange.finish(&proof);
        let is_wrong = |result: &Result<_, _>| matches!(result, Err(Failure::Refused { .. }));
        match turn.prove(shared.now(), look, is_wrong) {
            Some(result) => break result?,
            None => turn = wait_for_turn(shared, wire, source)?,
        }
    };
    put_authentication(wire, SASL_FINAL, reply.as_bytes());
    Ok(())
}

/// Appends an Authentication message.
pub(crate) fn put_authentication(wire: &mut Wire, code: i32, data: &[u8]) {
    put(wire.output(), b'R', |out| {
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// Sends what is due and hands the client's next step of SASL to `take`.
fn read_password<T>(wire: &mut Wire, take: impl FnOnce(&[u8]) -> Result<T, Unproved>) -> Result<T, Unproved> {
    wire.flush()?;
    let frame = wire.read(message::SHORT_BYTES_MAX)?;
    match frame.kind {
        b'p' => take(wire.body(&frame).map_err(End::by)?),
        b'X' => Err(End::Gone.into()),
        _ => {
            let error = violation(format!("expected SASL response, got message type {}", frame.kind));
            Err(End::Fatal(error).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_line_of_the_log() {
        assert_eq!(logged("ann"), "\"ann\"");
        assert_eq!(logged("a\" from\n\u{1b}[1m"), "\"a\\\" from\\n\\u{1b}[1m\"");
        assert_eq!(logged(&"ä".repeat(100)), format!("\"{}\"...", "ä".repeat(LOGGED_CHARS_MAX)));
    }
}

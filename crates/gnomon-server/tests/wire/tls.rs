//! Encrypted connections: what the server offers and refuses, and how the project's own clients connect.

use std::{io::Read, net::TcpStream};

use gnomon_server::{Auth, ServerOptions, Users};
use gnomon_tls::client::Target;

use super::{authority::Authority, common::*};

const SSL_REQUEST: i32 = (1234 << 16) | 5679;

/// A client's side of TLS that trusts one certificate.
fn tls_client(certificate: rustls::pki_types::CertificateDer<'static>) -> rustls::ClientConnection {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(gnomon_tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    rustls::ClientConnection::new(config.into(), "localhost".try_into().unwrap()).unwrap()
}

#[test]
fn encryption() {
    let authority = Authority::new();
    authority.sign("server", "localhost", &["localhost"]);
    let root = gnomon_tls::certificate::read_chain(&authority.path("ca.crt")).unwrap().remove(0);
    let tls = authority.tls("server");
    let users = Users::single("ann", "secret").unwrap();
    let server = TestServer::start(ServerOptions {
        tls: Some(tls.read().unwrap()),
        auth: Auth::Scram(users),
        ..options()
    });

    let mut raw = Raw::connect(server.addr);
    raw.untyped(SSL_REQUEST, b"");
    assert_eq!(raw.byte(), b'S');
    let mut raw = Raw { stream: rustls::StreamOwned::new(tls_client(root), raw.stream) };
    raw.startup("ann");
    assert_eq!(raw.read().unwrap().1[..4], [0, 0, 0, 10]);

    // A client may do without; one that sends plain text behind its request is cut off.
    let mut config = server.config();
    config.user("ann").password("secret").connect(postgres::NoTls).unwrap();
    let mut raw = Raw::connect(server.addr);
    let mut both = b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec();
    both.extend(b"\0\0\0\x12\0\x03\0\0user\0ann\0\0");
    raw.bytes(&both);
    assert_eq!(state(&raw.until_closed()), "08P01");
    // And one that speaks no TLS after all.
    let mut raw = Raw::connect(server.addr);
    raw.untyped(SSL_REQUEST, b"");
    assert_eq!(raw.byte(), b'S');
    raw.startup("ann");
    let mut rest = Vec::new();
    let _ = raw.stream.read_to_end(&mut rest);

    let refused = || tls.read().expect_err("refused");
    authority.write("server.key", "no key", 0o600);
    assert!(refused().contains("server.key"), "{}", refused());
    authority.write("server.key", "no key", 0o644);
    assert!(refused().contains("has group or world access"), "{}", refused());
}

/// A raw client past its handshake, which trusts every certificate.
pub fn encrypted(server: &TestServer) -> Raw<rustls::StreamOwned<rustls::ClientConnection, TcpStream>> {
    let mut raw = Raw::connect(server.addr);
    raw.untyped(SSL_REQUEST, b"");
    assert_eq!(raw.byte(), b'S');
    let config = rustls::ClientConfig::builder_with_provider(gnomon_tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(gnomon_tls::client::any_certificate())
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let connection = rustls::ClientConnection::new(config.into(), name).unwrap();
    Raw { stream: rustls::StreamOwned::new(connection, raw.stream) }
}

/// Connects as ann, with her password unless the settings have another one, to a host by its name or address.
pub fn connect(server: &TestServer, host: &str, settings: &str) -> Result<postgres::Client, String> {
    let port = server.addr.port();
    let password = if settings.contains("password=") { "" } else { ":secret" };
    let target = Target::parse(&format!("postgres://ann{password}@{host}:{port}/bank{settings}"));
    target.map_err(|error| error.to_string())?.connect().map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    })
}

#[test]
fn clients_check_the_server_as_strictly_as_they_are_told() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.sign("server", "localhost", &["localhost"]);
    let users = Users::single("ann", "secret").unwrap();
    let start = |tls| TestServer::start(ServerOptions { tls, auth: Auth::Scram(users.clone()), ..options() });
    let server = start(Some(authority.tls("server").read().unwrap()));
    let trusting = |authority: &Authority| format!("&sslrootcert={}", authority.path("ca.crt").display());
    let (right, wrong) = (trusting(&authority), trusting(&other));
    for (mode, root, host, refusal) in [
        ("disable", "", "127.0.0.1", None),
        ("disable", &wrong, "127.0.0.1", None),
        ("prefer", "", "127.0.0.1", None),
        ("prefer", &wrong, "localhost", Some("invalid peer certificate")),
        ("require", "", "127.0.0.1", None),
        ("require", &wrong, "localhost", Some("invalid peer certificate")),
        ("require", &right, "127.0.0.1", None),
        ("verify-ca", &right, "127.0.0.1", None),
        ("verify-ca", &wrong, "localhost", Some("invalid peer certificate")),
        ("verify-ca", "", "localhost", Some("sslrootcert")),
        ("verify-full", &right, "localhost", None),
        ("verify-full", &right, "127.0.0.1", Some("not valid for name")),
        ("verify-full", &wrong, "localhost", Some("invalid peer certificate")),
        ("verify-full", "&sslrootcert=/nowhere/ca.crt", "localhost", Some("/nowhere/ca.crt")),
        ("require", "&sslcert=/nowhere/ann.crt", "localhost", Some("sslkey")),
        ("require", "&channel_binding=require", "127.0.0.1", None),
        ("disable", "&channel_binding=require", "localhost", Some("channel binding")),
    ] {
        let connected = connect(&server, host, &format!("?sslmode={mode}{root}"));
        match (connected, refusal) {
            (Ok(mut client), None) => client.batch_execute("BEGIN").unwrap(),
            (Err(error), Some(refusal)) => assert!(error.contains(refusal), "{mode}, {host}: {error}"),
            (connected, _) => panic!("{mode}, {host}, {root}: {:?}", connected.err()),
        }
    }
    // A password is not sent in clear to a server that has no TLS.
    let plain = start(None);
    assert!(connect(&plain, "localhost", "?sslmode=require").is_err());
    assert!(connect(&plain, "localhost", &format!("?sslmode=verify-full{right}")).is_err());
    assert!(connect(&plain, "localhost", "").is_ok());
    // A server whose certificate is the trusted one itself.
    authority.self_signed("own", &rcgen::PKCS_ECDSA_P256_SHA256);
    let server = start(Some(authority.tls("own").read().unwrap()));
    let own = format!("?sslmode=verify-full&sslrootcert={}", authority.path("own.crt").display());
    assert!(connect(&server, "localhost", &own).is_ok());
    assert!(connect(&server, "127.0.0.1", &own).is_err());
    assert!(connect(&server, "localhost", &format!("?sslmode=verify-ca{right}")).is_err());
}

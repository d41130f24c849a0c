//! Access: encryption that is required, channel binding, client certificates, wrong passwords.

use std::{os::unix::net::UnixStream, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use gnomon_engine::{
    env::{Clock, SystemClock},
    sync::{Mutex, thread},
};
use gnomon_server::{Auth, ClientCertificates, Clients, Server, ServerError, ServerOptions, TlsFiles, Users};
use gnomon_sql::session::SqlDatabase;

use super::{
    authority::Authority,
    common::*,
    tls::{connect, encrypted},
};

const SSL_REQUEST: i32 = (1234 << 16) | 5679;
const GSS_REQUEST: i32 = (1234 << 16) | 5680;
const CANCEL_REQUEST: i32 = (1234 << 16) | 5678;

fn users() -> Auth {
    Auth::Scram(Users::single("ann", "secret").unwrap())
}

#[test]
fn plain_connections_are_refused_if_tls_is_required() {
    let authority = Authority::new();
    authority.sign("server", "localhost", &["localhost"]);
    let tls = Some(TlsFiles { required: true, ..authority.tls("server") }.read().unwrap());
    for auth in [Auth::Trust, users()] {
        let unix = tempfile::tempdir().unwrap();
        let unix_socket_dir = Some(unix.path().into());
        let server =
            TestServer::start(ServerOptions { tls: tls.clone(), auth, unix_socket_dir, ..options() });
        for asks_for_gss in [false, true] {
            let mut raw = Raw::connect(server.addr);
            if asks_for_gss {
                raw.untyped(GSS_REQUEST, b"");
                assert_eq!(raw.byte(), b'N');
            }
            raw.startup("ann");
            let messages = raw.until_closed();
            // Nothing is asked before.
            assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("E", "28000"));
            assert_eq!(
                error_field(&messages, b'M'),
                "no entry for host \"127.0.0.1\", user \"ann\", database \"bank\", no encryption"
            );
        }
        assert_eq!(server.handle.metrics().authentications_failed, 2);
        // Cancel requests of old clients come in clear.
        let mut raw = Raw::connect(server.addr);
        raw.untyped(CANCEL_REQUEST, &[0; 8]);
        assert!(raw.until_closed().is_empty());
        connect(&server, "localhost", "?sslmode=require").unwrap();
        // What does not leave the machine is not encrypted.
        let path = unix.path().join(format!(".s.PGSQL.{}", server.addr.port()));
        let mut raw = Raw { stream: UnixStream::connect(&path).unwrap() };
        raw.untyped(SSL_REQUEST, b"");
        assert_eq!(raw.byte(), b'N');
        raw.startup("ann");
        assert_eq!(raw.read().unwrap().0, b'R');
    }
}

/// The mechanisms that a server offers on a connection that has just begun.
fn offered<S: std::io::Read + std::io::Write>(raw: &mut Raw<S>) -> Vec<String> {
    raw.startup("ann");
    let (kind, body) = raw.read().unwrap();
    assert_eq!((kind, &body[..4]), (b'R', &[0, 0, 0, 10][..]));
    let names = body[4..].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

/// The client's first message of SASL.
fn first_message(mechanism: &str, first: &str) -> Vec<u8> {
    let length = (first.len() as i32).to_be_bytes();
    [mechanism.as_bytes(), b"\0", &length, first.as_bytes()].concat()
}

#[test]
fn passwords_are_bound_to_the_channel() {
    const PLUS: &str = "SCRAM-SHA-256-PLUS";
    const PLAIN: &str = "SCRAM-SHA-256";
    let authority = Authority::new();
    let certificates = [
        ("p256", authority.sign("p256", "localhost", &["localhost"]), true),
        ("p384", authority.self_signed("p384", &rcgen::PKCS_ECDSA_P384_SHA384), true),
        ("ed25519", authority.self_signed("ed25519", &rcgen::PKCS_ED25519), false),
    ];
    for (name, certificate, has_binding) in certificates {
        let tls = Some(authority.tls(name).read().unwrap());
        let server = TestServer::start(ServerOptions { tls, auth: users(), ..options() });
        assert_eq!(offered(&mut Raw::connect(server.addr)), [PLAIN], "in clear");
        if !has_binding {
            assert_eq!(offered(&mut encrypted(&server)), [PLAIN], "{name}");
            connect(&server, "localhost", "?sslmode=require").unwrap();
            continue;
        }
        assert_eq!(offered(&mut encrypted(&server)), [PLUS, PLAIN], "{name}");
        // The crate postgres computes the binding by itself, of the connection of our connector.
        connect(&server, "localhost", "?sslmode=require&channel_binding=require").unwrap();
        connect(&server, "localhost", "?sslmode=require&channel_binding=disable").unwrap();
        let end_point = gnomon_tls::certificate::end_point(&certificate).unwrap();

        for (mechanism, first, expected, message) in [
            (PLUS, "n,,n=,r=a", "08P01", "malformed SCRAM message"),
            (PLUS, "y,,n=,r=a", "08P01", "malformed SCRAM message"),
            (PLUS, "p=tls-unique,,n=,r=a", "08P01", "unsupported SCRAM channel-binding type \"tls-unique\""),
            (PLAIN, "p=tls-server-end-point,,n=,r=a", "08P01", "malformed SCRAM message"),
            (PLAIN, "y,,n=,r=a", "28000", "SCRAM channel binding negotiation error"),
            (PLAIN, "q,,n=,r=a", "08P01", "malformed SCRAM message"),
            (PLAIN, "n,a=x,n=,r=a", "0A000", "client uses authorization identity, but it is not supported"),
            ("SCRAM-SHA-1", "n,,n=,r=a", "08P01", "client selected an invalid SASL authentication mechanism"),
        ] {
            let mut raw = encrypted(&server);
            offered(&mut raw);
            raw.send(b'p', &first_message(mechanism, first));
            let messages = raw.until_closed();
            let told = (state(&messages), error_field(&messages, b'M'));
            assert_eq!(told, (expected.into(), message.into()), "{mechanism}, {first}");
        }
        // The proof comes with the binding of another certificate, of none, or of this one.
        for (binding, expected) in
            [(vec![7; end_point.len()], "28000"), (Vec::new(), "28000"), (end_point, "28P01")]
        {
            let mut raw = encrypted(&server);
            offered(&mut raw);
            raw.send(b'p', &first_message(PLUS, "p=tls-server-end-point,,n=,r=a"));
            let (_, challenge) = raw.read().unwrap();
            let challenge = String::from_utf8(challenge[4..].to_vec()).unwrap();
            let nonce = challenge.split(',').next().unwrap();
            let bound = BASE64_STANDARD.encode([&b"p=tls-server-end-point,,"[..], &binding].concat());
            let proof = BASE64_STANDARD.encode([0; 32]);
            raw.send(b'p', format!("c={bound},{nonce},p={proof}").as_bytes());
            assert_eq!(state(&raw.until_closed()), expected, "{binding:?}");
        }
    }
    // In clear there is nothing to bind.
    let server = TestServer::start(ServerOptions { auth: users(), ..options() });
    for (mechanism, first, expected) in
        [(PLUS, "n,,n=,r=a", "08P01"), (PLAIN, "p=tls-server-end-point,,n=,r=a", "08P01")]
    {
        let mut raw = Raw::connect(server.addr);
        offered(&mut raw);
        raw.send(b'p', &first_message(mechanism, first));
        assert_eq!(state(&raw.until_closed()), expected, "{mechanism}, {first}");
    }
    let mut raw = Raw::connect(server.addr);
    offered(&mut raw);
    raw.send(b'p', &first_message(PLAIN, "y,,n=,r=a"));
    assert_eq!(raw.read().unwrap().0, b'R', "rightly, it thinks that the server cannot");
}

/// The log of the servers of [`certificates_of_clients`].
static HANDSHAKES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn certificates_of_clients() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.sign("server", "localhost", &["localhost"]);
    authority.sign("ann", "ann", &[]);
    authority.sign("bob", "bob", &[]);
    other.sign("ann", "ann", &[]);
    let with = |authority: &Authority, name: &str| {
        let path = |kind| authority.path(&format!("{name}.{kind}")).display().to_string();
        format!("&sslcert={}&sslkey={}", path("crt"), path("key"))
    };
    let (anns, bobs, forged) = (with(&authority, "ann"), with(&authority, "bob"), with(&other, "ann"));
    use ClientCertificates::{Authenticate, Request, Require};
    for (policy, certificate, password, expected) in [
        (Request, "", "secret", None),
        (Request, &anns, "secret", None),
        (Request, &anns, "wrong", Some("password authentication failed for user \"ann\"")),
        (Request, &forged, "secret", Some("alert")),
        (Require, "", "secret", Some("connection requires a valid client certificate")),
        (Require, &anns, "secret", None),
        (Require, &bobs, "secret", None),
        (Require, &anns, "wrong", Some("password authentication failed for user \"ann\"")),
        (Require, &forged, "secret", Some("alert")),
        (Authenticate, "", "secret", Some("connection requires a valid client certificate")),
        (Authenticate, &anns, "wrong", None),
        (Authenticate, &bobs, "secret", Some("certificate authentication failed for user \"ann\"")),
        (Authenticate, &forged, "secret", Some("alert")),
    ] {
        let clients = Some(Clients { authorities: authority.path("ca.crt"), policy });
        let tls = TlsFiles { required: policy != Request, clients, ..authority.tls("server") };
        let tls = Some(tls.read().unwrap());
        let log = |line: &str| HANDSHAKES.lock().push(line.to_owned());
        let server = TestServer::start(ServerOptions { tls, auth: users(), log, ..options() });
        let connected =
            connect(&server, "localhost", &format!("?sslmode=require&password={password}{certificate}"));
        match (connected, expected) {
            (Ok(mut client), None) => {
                let sql = "SELECT ssl, client_dn, issuer_dn IS NULL, version LIKE 'TLSv1._' FROM pg_stat_ssl";
                let row = client.query_one(sql, &[]).unwrap();
                let user = if certificate == bobs { "bob" } else { "ann" };
                let subject = (!certificate.is_empty()).then(|| format!("/CN={user}"));
                let shown = (row.get(0), row.get::<_, Option<String>>(1), row.get(2), row.get(3));
                assert_eq!(shown, (true, subject, certificate.is_empty(), true));
            }
            (Err(error), Some(expected)) => {
                // A client that writes while it is being refused may see no more than its connection's end.
                let is_cut = expected == "alert" && (error.contains("closed") || error.contains("reset"));
                assert!(error.contains(expected) || is_cut, "{policy:?}, {certificate}: {error}");
                // Of a handshake the client is told first.
                let line = loop {
                    match HANDSHAKES.lock().pop() {
                        Some(line) => break line,
                        None => thread::sleep(Duration::from_millis(1)),
                    }
                };
                assert_eq!(server.handle.metrics().authentications_failed, 1);
                let tells_of_handshake = line.contains(": TLS: invalid peer certificate: ");
                assert_eq!(tells_of_handshake, expected == "alert", "{line}");
                assert!(line.starts_with("failed login "), "{line}");
            }
            (connected, _) => panic!("{policy:?}, {certificate}: {:?}", connected.err()),
        }
    }

    let read =
        |clients, required| TlsFiles { required, clients: Some(clients), ..authority.tls("server") }.read();
    let refused = |clients, listen: &str| {
        let tls = Some(read(clients, true).unwrap());
        let database =
            SqlDatabase::open(gnomon_engine::Database::in_memory(Default::default()).unwrap()).unwrap();
        let listen = listen.parse().unwrap();
        Server::bind(database, ServerOptions { tls, listen, ..ServerOptions::default() }).err()
    };
    let clients = |policy| Clients { authorities: authority.path("ca.crt"), policy };
    for policy in [Require, Authenticate] {
        assert!(read(clients(policy), false).unwrap_err().contains("require TLS"), "{policy:?}");
    }
    assert!(refused(clients(Authenticate), "0.0.0.0:0").is_none(), "certificates protect it");
    let error = refused(clients(Require), "0.0.0.0:0");
    assert!(matches!(error, Some(ServerError::TrustBeyondLoopback(_))), "{error:?}");
    let nowhere = Clients { authorities: authority.path("nowhere.crt"), policy: Request };
    let error = read(nowhere, false).unwrap_err();
    assert!(error.contains("nowhere.crt"), "{error}");
}

/// The log of the server of [`failed_logins_are_logged_counted_and_slowed`].
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn failed_logins_are_logged_counted_and_slowed() {
    let log = |line: &str| LOG.lock().push(line.to_owned());
    let server = TestServer::start(ServerOptions { auth: users(), log, ..options() });
    let connect = |user: &str, password: &str| {
        let mut config = server.config();
        config.user(user).password(password).connect(postgres::NoTls)
    };
    connect("ann", "secret").unwrap();
    assert!(LOG.lock().is_empty());
    let tries = 8;
    let clock = SystemClock::new();
    let begun = clock.now();
    for number in 0..tries {
        let (user, password) = if number == 2 { ("e\nve", "secret") } else { ("ann", "wrong") };
        let error = connect(user, password).err().expect("refused");
        assert_eq!(error.code().map(|code| code.code()), Some("28P01"), "{error}");
    }
    let lines = std::mem::take(&mut *LOG.lock());
    assert_eq!(lines.len(), tries);
    for (number, line) in lines.iter().enumerate() {
        let (user, reason) =
            if number == 2 { ("\"e\\nve\"", "no such user") } else { ("\"ann\"", "wrong password") };
        let begins = line.starts_with(&format!("failed login of user {user} from 127.0.0.1:"));
        assert!(begins && line.ends_with(reason), "{line}");
    }
    let metrics = server.handle.metrics();
    assert_eq!((metrics.authentications_failed, metrics.passwords_wrong), (tries as u64, tries as u64));
    // The first five are free; after the next ones the address waits for 100, 200, 400 and 800 ms.
    assert!(clock.now() - begun >= Duration::from_millis(700));
    assert!(metrics.authentications_delayed <= 3 && metrics.authentications_throttled == 0, "{metrics:?}");
    // The right password waits for its turn, too.
    connect("ann", "secret").unwrap();
    assert!(clock.now() - begun >= Duration::from_millis(1500));

    // More at once than may wait are refused, which is told once.
    let mut waiting: Vec<_> = (0..20).map(|_| Raw::connect(server.addr)).collect();
    for raw in &mut waiting {
        raw.startup("ann");
        raw.stream.set_nonblocking(true).unwrap();
    }
    let is_refused = |raw: &Raw<_>| {
        let stream: &std::net::TcpStream = &raw.stream;
        let mut byte = [0];
        stream.peek(&mut byte).is_ok() && byte[0] == b'E'
    };
    let refused = loop {
        match waiting.iter().position(is_refused) {
            Some(found) => break found,
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut refused = waiting.swap_remove(refused);
    refused.stream.set_nonblocking(false).unwrap();
    let messages = refused.until_closed();
    assert_eq!(state(&messages), "28000");
    assert_eq!(error_field(&messages, b'M'), "too many failed logins from this address");
    assert!(error_field(&messages, b'H').starts_with("Try again in "));
    assert!(server.handle.metrics().authentications_throttled >= 1);
    let told =
        LOG.lock().iter().filter(|line| line.ends_with("too many failed logins from this address")).count();
    assert_eq!(told, 1);
    // Those that leave give their turns back.
    drop(waiting);
    while connect("ann", "secret").is_err() {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_addresses_of_clients_are_shown() {
    let unix = tempfile::tempdir().unwrap();
    let server = TestServer::start(ServerOptions { unix_socket_dir: Some(unix.path().into()), ..options() });
    let mut raw = server.raw();
    let own = raw.stream.local_addr().unwrap();
    let shown = rows(&raw.query_messages(
        "SELECT client_addr, client_port, client_hostname, inet_client_addr(), inet_client_port(), \
         inet_server_addr(), inet_server_port() FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    ));
    let text = |text: &str| Some(text.to_owned());
    let (client, port) = (text("127.0.0.1"), Some(own.port().to_string()));
    let server_port = Some(server.addr.port().to_string());
    assert_eq!(shown, [[client.clone(), port.clone(), None, client.clone(), port, client, server_port]]);

    let path = unix.path().join(format!(".s.PGSQL.{}", server.addr.port()));
    let mut local = Raw { stream: UnixStream::connect(&path).unwrap() };
    local.start("tester");
    let shown = rows(&local.query_messages(
        "SELECT client_addr, client_port, inet_client_addr(), inet_client_port(), inet_server_addr(), \
         inet_server_port() FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    ));
    assert_eq!(shown, [[None, text("-1"), None, None, None, None]]);
}

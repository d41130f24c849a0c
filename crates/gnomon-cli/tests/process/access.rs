//! Access by the options of `gnomon serve`, with psql and with the program's own clients.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls;

use crate::harness::{Served, gnomon, run, text};

/// Writes a file with a mode of its own.
fn write(path: PathBuf, content: &str, mode: u32) -> PathBuf {
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// A directory with an authority (ca.crt), a server of localhost, one of 127.0.0.1, the user ann, and her password.
pub struct Files(tempfile::TempDir);

impl Files {
    pub fn new() -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        write(files.path("ca.crt"), &params.self_signed(&key).unwrap().pem(), 0o644);
        let issuer = Issuer::new(params, key);
        for (name, names) in [
            ("server", &["localhost".to_owned()][..]),
            ("member", &["127.0.0.1".to_owned()][..]),
            ("ann", &[]),
        ] {
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            write(files.path(&format!("{name}.crt")), &certificate.pem(), 0o644);
            write(files.path(&format!("{name}.key")), &key.serialize_pem(), 0o600);
        }
        write(files.path("password"), "secret\n", 0o600);
        files
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a server with these options, in which `@NAME` is a file.
    fn serve(&self, options: &str) -> Served {
        let options = self.options(options);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Served::start_with(&self.path("db"), &options)
    }

    fn options(&self, options: &str) -> Vec<String> {
        let of_path = |word: &str| match word.strip_prefix('@') {
            Some(name) => text(&self.path(name)).to_owned(),
            None => word.to_owned(),
        };
        options.split_whitespace().map(of_path).collect()
    }

    /// Runs `gnomon serve`, which refuses these options; returns what it says.
    fn refusal(&self, options: &str) -> String {
        let (options, db) = (self.options(options), self.path("refused"));
        let mut arguments = vec!["serve", text(&db)];
        arguments.extend(options.iter().map(String::as_str));
        if !options.iter().any(|option| option == "--listen") {
            arguments.extend(["--port", "0"]);
        }
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(1), "{options:?}: {}", ran.stderr);
        assert!(!db.exists(), "{options:?} makes a database");
        ran.stderr
    }
}

const TLS: &str = "--tls-cert @server.crt --tls-key @server.key";
const PASSWORD: &str = "--user ann --password-file @password";

/// Asks psql for the user, by libpq's settings; its error if it does not get in. None where psql is not installed.
fn psql(server: &Served, settings: &str) -> Option<Result<String, String>> {
    let output = Command::new("psql")
        .args(["-XAtq", "-c", "SELECT current_user"])
        .arg(format!("host=localhost port={} user=ann dbname=bank {settings}", server.port))
        .env("PGPASSWORD", "secret")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

#[test]
fn psql_gets_in_as_the_server_demands() {
    let files = Files::new();
    let named = |name: &str| text(&files.path(name)).to_owned();
    let root = format!("sslrootcert={}", named("ca.crt"));
    let own = format!("sslmode=require sslcert={} sslkey={}", named("ann.crt"), named("ann.key"));
    let none = "sslmode=require sslcert=/nowhere";
    for (options, settings, refusal) in [
        ("", "sslmode=disable", None),
        ("", "sslmode=prefer", None),
        ("", "sslmode=require channel_binding=require", None),
        ("", &format!("sslmode=verify-full channel_binding=require {root}"), None),
        ("--tls require", "sslmode=disable", Some("no encryption")),
        ("--tls require", "sslmode=allow", None),
        ("--tls require", "sslmode=prefer", None),
        ("--tls-client-ca @ca.crt", none, Some("connection requires a valid client certificate")),
        ("--tls-client-ca @ca.crt", "sslmode=disable", Some("no encryption")),
        ("--tls-client-ca @ca.crt", &own, None),
        ("--tls-client-ca @ca.crt --client-certificates request", none, None),
        ("--tls-client-ca @ca.crt --client-certificates request", "sslmode=disable", None),
    ] {
        let server = files.serve(&format!("{TLS} {PASSWORD} {options}"));
        let Some(answer) = psql(&server, &format!("gssencmode=disable {settings}")) else {
            println!("skipped: psql is not installed");
            return;
        };
        match (&answer, refusal) {
            (Ok(user), None) => assert_eq!(user, "ann"),
            (Err(error), Some(refusal)) => assert!(error.contains(refusal), "{options}, {settings}: {error}"),
            _ => panic!("{options}, {settings}: {answer:?}"),
        }
    }
    let server = files.serve(&format!("{TLS} --tls-client-ca @ca.crt --client-certificates authenticate"));
    assert_eq!(psql(&server, &own).unwrap().unwrap(), "ann");
    let error = psql(&server, &format!("{own} user=bob")).unwrap().unwrap_err();
    assert!(error.contains("certificate authentication failed for user \"bob\""), "{error}");
}

#[test]
fn the_programs_own_clients_connect_by_tls() {
    let files = Files::new();
    let server = files.serve(&format!("{TLS} {PASSWORD} --tls require"));
    let backups = files.path("backups");
    let root = files.path("ca.crt");
    let back_up = |host: &str, settings: &str| {
        let url = format!("postgres://ann:secret@{host}:{}/gnomon{settings}", server.port);
        run(&["backup", &url, "--to", text(&backups)])
    };
    let verified = format!("?sslmode=verify-full&sslrootcert={}", root.display());
    let ran = back_up("localhost", &verified);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for (host, settings, message) in [
        ("127.0.0.1", verified.as_str(), "not valid for name"),
        ("localhost", "?sslmode=disable", "no encryption"),
        ("localhost", "?sslmode=allow", "sslmode is allow"),
        ("localhost", "?sslmode=verify-ca", "sslrootcert"),
    ] {
        let ran = back_up(host, settings);
        assert!(ran.code == Some(1) && ran.stderr.contains(message), "{settings}: {}", ran.stderr);
    }
    let url = format!("postgres://ann:secret@localhost:{}/gnomon{verified}", server.port);
    let ran = run(&["bench", "counter", "--url", &url, "--seconds", "1", "--clients", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let files = Files::new();
    write(files.path("users"), "# nobody\n", 0o600);
    write(files.path("token"), "0123456789abcdef\n", 0o600);
    for (name, kind, options) in [
        ("password", "password file", PASSWORD),
        ("users", "users file", "--users-file @users"),
        ("server.key", "private key file", TLS),
        ("token", "token file", "--metrics 0 --metrics-token-file @token"),
    ] {
        for mode in [0o644, 0o604, 0o660] {
            fs::set_permissions(files.path(name), Permissions::from_mode(mode)).unwrap();
            let said = files.refusal(options);
            let (path, mode) = (files.path(name).display().to_string(), format!("mode {mode:04o}"));
            for part in [kind, "has group or world access", &mode, &format!("chmod 600 {path}")] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        fs::set_permissions(files.path(name), Permissions::from_mode(0o600)).unwrap();
        files.serve(options);
    }
}

#[test]
fn options_that_would_let_others_in_are_refused() {
    let files = Files::new();
    write(files.path("token"), "too short\n", 0o600);
    for (options, message) in [
        ("--metrics 0.0.0.0:0".to_owned(), "give --metrics-token-file"),
        ("--metrics 0 --metrics-token-file @token".into(), "at least 16"),
        (format!("{TLS} --metrics 0.0.0.0:0 --metrics-tls"), "--metrics-tls and --tls-client-ca"),
        (format!("{TLS} --tls allow --tls-client-ca @ca.crt"), "give --tls require"),
        (format!("{TLS} --tls-client-ca @ca.crt --listen 0.0.0.0:0"), "--trust is not allowed"),
        (
            format!("{TLS} --tls-client-ca @ca.crt --client-certificates authenticate --socket-dir @."),
            "no certificate is asked for over a Unix-domain socket",
        ),
        (format!("{TLS} --tls-client-ca @password {PASSWORD}"), "no certificate in this file"),
    ] {
        let said = files.refusal(&options);
        assert!(said.contains(message), "{options}: {said}");
    }
    for options in [
        "--tls require",
        "--tls-client-ca @ca.crt",
        "--metrics-token-file @token",
        "--metrics 0 --metrics-tls",
    ] {
        let options = files.options(options);
        let mut arguments = vec!["serve", "nowhere"];
        arguments.extend(options.iter().map(String::as_str));
        assert_eq!(run(&arguments).code, Some(2), "{options:?}");
    }
}

/// The answer of a server's metrics to a request with this header.
fn metrics(mut stream: impl Read + Write, header: &str) -> String {
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A connection by TLS with the certificate of this name, or without one.
fn encrypted(files: &Files, address: &str, name: Option<&str>) -> impl Read + Write {
    let builder = rustls::ClientConfig::builder_with_provider(gnomon_tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(gnomon_tls::client::any_certificate());
    let config = match name {
        Some(name) => builder
            .with_client_auth_cert(
                gnomon_tls::certificate::read_chain(&files.path(&format!("{name}.crt"))).unwrap(),
                gnomon_tls::certificate::read_key(&files.path(&format!("{name}.key"))).unwrap(),
            )
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    let connection = rustls::ClientConnection::new(config.into(), "localhost".try_into().unwrap()).unwrap();
    rustls::StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

/// Reads lines up to the first that contains `part`, which is returned.
fn line_with(lines: &mut impl Iterator<Item = std::io::Result<String>>, part: &str) -> String {
    lines
        .map(Result::unwrap)
        .find(|line| line.contains(part))
        .unwrap_or_else(|| panic!("no line with {part}"))
}

fn start(directory: &Path, options: &[String]) -> std::process::Child {
    let mut command = gnomon(&["serve", text(directory), "--listen", "127.0.0.1:0"]);
    let command = command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A shell gives secrets as `--password-file <(command)`: a pipe can be read once.
#[test]
fn secrets_are_read_from_pipes() {
    let files = Files::new();
    for name in ["password", "server.crt", "server.key", "ca.crt"] {
        let (from, pipe) = (files.path(name), files.path(&format!("{name}.pipe")));
        assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
        std::thread::spawn(move || fs::write(pipe, fs::read(from).unwrap()).unwrap());
    }
    let server = files.serve(
        "--user ann --password-file @password.pipe --tls-cert @server.crt.pipe --tls-key @server.key.pipe --tls require \
         --tls-client-ca @ca.crt.pipe --client-certificates request --metrics 127.0.0.1:0 --metrics-tls",
    );
    let Some(asked) = psql(&server, "sslmode=require sslcert=/nowhere") else { return };
    assert_eq!(asked.as_deref(), Ok("ann"));
}

#[test]
fn metrics_need_the_token_and_failed_logins_are_told() {
    let files = Files::new();
    write(files.path("token"), "0123456789abcdef\n", 0o600);
    let options = files.options(&format!("{PASSWORD} --metrics 0.0.0.0:0 --metrics-token-file @token"));
    let mut child = start(&files.path("db"), &options);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = line_with(&mut lines, "connect with");
    assert!(told.starts_with("connect with: psql -h 127.0.0.1 -U ann -p "), "{told}");
    let port = told.rsplit(' ').next().unwrap().to_owned();
    let said = line_with(&mut lines, "metrics at http://0.0.0.0:");
    let address = said.rsplit("0.0.0.0:").next().and_then(|rest| rest.split('/').next()).unwrap();
    let address = format!("127.0.0.1:{address}");

    let connect = |password: &str| {
        let config = format!("host=127.0.0.1 port={port} user=ann password={password}");
        postgres::Client::connect(&config, postgres::NoTls).map(drop)
    };
    connect("secret").unwrap();
    connect("wrong").unwrap_err();
    let told = line_with(&mut lines, "failed login");
    assert!(told.starts_with("failed login of user \"ann\" from 127.0.0.1:"), "{told}");
    assert!(told.ends_with(": wrong password"), "{told}");

    for header in
        ["", "Authorization: Bearer 0123456789abcdeF\r\n", "Authorization: Basic 0123456789abcdef\r\n"]
    {
        let answer = metrics(TcpStream::connect(&address).unwrap(), header);
        assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("gnomon_"), "{header}: {answer}");
    }
    let answer = metrics(TcpStream::connect(&address).unwrap(), "Authorization: Bearer 0123456789abcdef\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for line in ["gnomon_server_authentications_failed_total 1\n", "gnomon_server_passwords_wrong_total 1\n"]
    {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn metrics_by_tls_take_a_certificate_or_the_token() {
    let files = Files::new();
    write(files.path("token"), "0123456789abcdef\n", 0o600);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    for (options, has_token) in [("", false), ("--metrics-token-file @token", true)] {
        let options = files.options(&format!(
            "{TLS} --tls-client-ca @ca.crt {PASSWORD} --metrics 0.0.0.0:0 --metrics-tls {options}"
        ));
        let mut child = start(&files.path("db"), &options);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = line_with(&mut lines, "metrics at https://0.0.0.0:");
        let port = said.rsplit("0.0.0.0:").next().and_then(|rest| rest.split('/').next()).unwrap();
        let address = format!("127.0.0.1:{port}");
        for (name, header, status) in [
            (Some("ann"), "", "200"),
            (None, "", "401"),
            (None, token, if has_token { "200" } else { "401" }),
            (None, "Authorization: Bearer 0123456789abcdeF\r\n", "401"),
        ] {
            let answer = metrics(encrypted(&files, &address, name), header);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name:?}, {header}: {answer}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

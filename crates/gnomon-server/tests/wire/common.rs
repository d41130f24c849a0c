//! A server on a free port and a client that sees every message, for tests.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use gnomon_engine::env::Rng;
use gnomon_server::{Server, ServerError, ServerHandle, ServerOptions};
use gnomon_sql::session::SqlDatabase;

/// A server over an empty database in memory, which ends with this.
pub struct TestServer {
    pub addr: SocketAddr,
    pub handle: ServerHandle,
    thread: Option<gnomon_engine::sync::thread::JoinHandle<Result<(), ServerError>>>,
}

/// Options for tests: a free port.
pub fn options() -> ServerOptions {
    ServerOptions { listen: "127.0.0.1:0".parse().unwrap(), ..ServerOptions::default() }
}

impl TestServer {
    pub fn start(options: ServerOptions) -> TestServer {
        TestServer::over(
            gnomon_engine::Database::in_memory(gnomon_engine::Options::default()).unwrap(),
            options,
        )
    }

    /// A server over an open database.
    pub fn over(engine: gnomon_engine::Database, options: ServerOptions) -> TestServer {
        TestServer::serving(SqlDatabase::open(engine).unwrap(), options)
    }

    /// A server over an open database that speaks SQL.
    pub fn serving(database: SqlDatabase, options: ServerOptions) -> TestServer {
        let server = Server::bind(database, options).unwrap();
        let (addr, handle) = (server.local_addr(), server.handle());
        let thread = gnomon_engine::sync::thread::spawn(move || server.run());
        TestServer { addr, handle, thread: Some(thread) }
    }

    /// Stops it and returns what `run` returned.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.handle.shut_down();
        self.ended()
    }

    /// Waits until it ends by itself, and returns what `run` returned.
    pub fn ended(&mut self) -> Result<(), ServerError> {
        self.thread.take().expect("it runs").join().expect("no panic in the server's loop")
    }

    /// A raw client past its start.
    pub fn raw(&self) -> Raw<TcpStream> {
        let mut raw = Raw::connect(self.addr);
        raw.start("tester");
        raw
    }

    /// A client of the crate postgres.
    pub fn client(&self) -> postgres::Client {
        self.config().connect(postgres::NoTls).unwrap()
    }

    pub fn config(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.addr.port()).user("tester").dbname("bank");
        config
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let stopped = self.stop();
            if !std::thread::panicking() {
                stopped.unwrap();
                assert_eq!(self.handle.metrics().panics, 0);
                assert_eq!(self.handle.metrics().connections_open, 0);
            }
        }
    }
}

/// A message: its type and body.
pub type RawMessage = (u8, Vec<u8>);

/// A client that sends and sees bytes.
pub struct Raw<S> {
    pub stream: S,
}

impl Raw<TcpStream> {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Raw { stream }
    }
}

impl<S: Read + Write> Raw<S> {
    pub fn bytes(&mut self, bytes: &[u8]) {
        // The server may have closed the connection already: what it said before tells.
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.flush();
    }

    /// Sends a message without a type, such as the startup message.
    pub fn untyped(&mut self, code: i32, body: &[u8]) {
        let mut bytes = (8 + body.len() as i32).to_be_bytes().to_vec();
        bytes.extend(code.to_be_bytes());
        bytes.extend(body);
        self.bytes(&bytes);
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) {
        self.bytes(&frame(kind, body));
    }

    /// One byte, as the answer to a request for encryption is.
    pub fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// The next message; none at the end of the stream.
    pub fn read(&mut self) -> Option<RawMessage> {
        let mut head = [0; 5];
        if let Err(error) = self.stream.read_exact(&mut head) {
            use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
            assert!(matches!(error.kind(), UnexpectedEof | ConnectionReset), "{error}");
            return None;
        }
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Messages up to ReadyForQuery, that one included.
    pub fn until_ready(&mut self) -> Vec<RawMessage> {
        let mut messages = Vec::new();
        loop {
            let message = self.read().unwrap_or_else(|| panic!("closed after {}", kinds(&messages)));
            messages.push(message);
            if messages.last().unwrap().0 == b'Z' {
                return messages;
            }
        }
    }

    /// Messages up to the end of the stream.
    pub fn until_closed(&mut self) -> Vec<RawMessage> {
        std::iter::from_fn(|| self.read()).collect()
    }

    /// Sends a startup message for version 3.0.
    pub fn startup(&mut self, user: &str) {
        self.untyped(3 << 16, format!("user\0{user}\0database\0bank\0\0").as_bytes());
    }

    /// Starts without a password.
    pub fn start(&mut self, user: &str) -> Vec<RawMessage> {
        self.startup(user);
        self.until_ready()
    }

    /// A simple query; the types of the messages that answer it.
    pub fn query(&mut self, sql: &str) -> String {
        kinds(&self.query_messages(sql))
    }

    pub fn query_messages(&mut self, sql: &str) -> Vec<RawMessage> {
        self.send(b'Q', format!("{sql}\0").as_bytes());
        self.until_ready()
    }
}

pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((4 + body.len() as i32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Parse without parameter types.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Bind with parameters in text and results in one format.
pub fn bind(portal: &str, statement: &str, parameters: &[Option<&str>], format: i16) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0").into_bytes();
    body.extend(0i16.to_be_bytes());
    body.extend((parameters.len() as i16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            Some(value) => {
                body.extend((value.len() as i32).to_be_bytes());
                body.extend(value.as_bytes());
            }
            None => body.extend((-1i32).to_be_bytes()),
        }
    }
    body.extend(1i16.to_be_bytes());
    body.extend(format.to_be_bytes());
    frame(b'B', &body)
}

pub fn describe(target: char, name: &str) -> Vec<u8> {
    frame(b'D', format!("{target}{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(rows_max.to_be_bytes());
    frame(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    frame(b'S', b"")
}

/// The types of messages, in order; ReadyForQuery with its state.
pub fn kinds(messages: &[RawMessage]) -> String {
    let mut kinds = String::new();
    for (kind, body) in messages {
        kinds.push(*kind as char);
        if *kind == b'Z' {
            kinds.push(body[0] as char);
        }
    }
    kinds
}

/// The field of the first ErrorResponse (or NoticeResponse) among messages.
pub fn error_field(messages: &[RawMessage], field: u8) -> String {
    let (_, body) = messages.iter().find(|(kind, _)| matches!(kind, b'E' | b'N')).expect("an error");
    body.split(|byte| *byte == 0)
        .find(|part| part.first() == Some(&field))
        .map(|part| String::from_utf8_lossy(&part[1..]).into_owned())
        .unwrap_or_default()
}

/// The SQLSTATE of the first error among messages.
pub fn state(messages: &[RawMessage]) -> String {
    error_field(messages, b'C')
}

/// The values of the rows among messages, as text.
pub fn rows(messages: &[RawMessage]) -> Vec<Vec<Option<String>>> {
    let row = |body: &[u8]| {
        let mut rest = &body[2..];
        let mut values = Vec::new();
        while !rest.is_empty() {
            let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
            rest = &rest[4..];
            values.push((length >= 0).then(|| {
                let (value, after) = rest.split_at(length as usize);
                rest = after;
                text(value)
            }));
        }
        values
    };
    messages.iter().filter(|(kind, _)| *kind == b'D').map(|(_, body)| row(body)).collect()
}

/// Bytes as text; if they are not UTF-8, the upper ones as `\xHH`.
pub fn text(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| match byte.is_ascii() {
        true => char::from(*byte).to_string(),
        false => format!("\\x{byte:02x}"),
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(escaped).collect(),
    }
}

/// Random bytes.
pub fn random_bytes(random: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

/// One of these.
pub fn any<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[below(random, choices.len())]
}

pub fn below(random: &mut Rng, end: usize) -> usize {
    random.below(end as u64) as usize
}

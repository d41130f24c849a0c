//! A connection's socket with its two buffers: whole frames in, messages out.
//!
//! Reading never trusts a length: a frame may be as long as the limit that holds for its type and for the
//! connection's phase, and memory for it grows as its bytes arrive, not as they are announced. Writing appends to
//! one buffer, sent when it passes [`OUTPUT_BYTES`], at Sync and Flush, and before the server waits for COPY data:
//! a result of any size streams through a bounded buffer, and a client that does not read holds the statement back.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use gnomon_engine::sync::Arc;
use gnomon_sql::{
    Severity, SqlError,
    memory::Held,
    session::{CertificateNames, ConnectedBy, Encryption, Mark},
    types::encoding::Encoding,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{
    CipherSuite, ProtocolVersion, ServerConfig, ServerConnection, StreamOwned, pki_types::CertificateDer,
};

use crate::message::{self, Decoded, violation};

/// Output is sent once it is this long.
const OUTPUT_BYTES: usize = 32 << 10;
/// The length of an input buffer at rest.
const INPUT_BYTES: usize = 8 << 10;
/// Messages of COPY data that are longer come in pieces.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum time that refused input is waited for.
const DRAIN: Duration = Duration::from_secs(1);
/// Maximum time that a ticking read waits.
const TICK: Duration = Duration::from_millis(100);

/// A read of what was refused counts as so many bytes at least, so that a slow client does not hold its connection.
const DRAINED_BYTES_MIN: usize = 1 << 10;

/// A duration as system calls take it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// A stream socket. Clones share its file descriptor.
#[derive(Clone, Debug)]
pub enum Socket {
    /// TCP.
    Tcp(Arc<TcpStream>),
    /// A Unix-domain socket.
    Unix(Arc<UnixStream>),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Socket {
        Socket::Tcp(Arc::new(stream))
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Socket {
        Socket::Unix(Arc::new(stream))
    }
}

impl Socket {
    /// Ends one or both directions; a thread that is blocked in them returns.
    pub fn shutdown(&self, how: Shutdown) {
        // An error says that the socket is down already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_write_timeout(timeout),
            Socket::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&**stream).read(buffer),
            Socket::Unix(stream) => (&**stream).read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&**stream).write(bytes),
            Socket::Unix(stream) => (&**stream).write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // sockets have no buffer of their own
    }
}

enum Channel {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
    /// For a moment, while the one above is built; and for good if that fails.
    Closed,
}

impl Channel {
    fn stream(&mut self) -> io::Result<&mut dyn Stream> {
        match self {
            Channel::Plain(socket) => Ok(socket),
            Channel::Tls(stream) => Ok(stream.as_mut()),
            Channel::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn socket(&self) -> Option<&Socket> {
        match self {
            Channel::Plain(socket) => Some(socket),
            Channel::Tls(stream) => Some(&stream.sock),
            Channel::Closed => None,
        }
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// The reason why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client said goodbye, closed its end, or cannot be reached: it is told nothing.
    Gone,
    /// The client is told, as a last message.
    Fatal(SqlError),
    /// The read timeout passed. Nothing was lost: reading can go on.
    TimedOut,
}

impl End {
    /// The end of a connection by an error, whatever its severity.
    pub fn by(error: SqlError) -> End {
        End::Fatal(error.severity(Severity::Fatal))
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => End::TimedOut,
            _ => End::Gone,
        }
    }
}

/// A message as it stands in the input buffer, until the next read.
#[derive(Debug)]
pub struct Frame {
    /// The message's type; 0 for those of the start, which have none.
    pub kind: u8,
    body: Result<Range<usize>, SqlError>,
}

/// A message that there is no memory for: it is read and thrown away.
#[derive(Debug)]
struct Skipped {
    kind: u8,
    bytes_left: usize,
    error: SqlError,
}

/// A connection's socket and buffers.
pub struct Wire {
    channel: Channel,
    /// Initialised memory; what has arrived and is not consumed stands at `unread`.
    input: Vec<u8>,
    unread: Range<usize>,
    /// Bytes still to come of the present message of COPY data.
    copy_left: usize,
    /// Bytes still to come of a message that was refused for its length.
    refused: usize,
    skipped: Option<Skipped>,
    /// The memory that the input takes beyond [`INPUT_BYTES`]; none before a session has an account of it.
    input_memory: Option<Held>,
    output: Vec<u8>,
    /// Number of times that output has left.
    sent: u64,
    /// The encoding of the client's texts.
    encoding: Encoding,
    /// Once a write has failed, nothing is written any more.
    broken: bool,
    idle_timeout: Option<Duration>,
    /// Maximum time that the socket waits for bytes.
    read_timeout: Option<Duration>,
}

impl Wire {
    /// Over a connected socket in blocking mode.
    pub fn new(socket: Socket) -> Wire {
        Wire {
            channel: Channel::Plain(socket),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            copy_left: 0,
            refused: 0,
            skipped: None,
            input_memory: None,
            output: Vec::with_capacity(INPUT_BYTES),
            sent: 0,
            encoding: Encoding::UTF8,
            broken: false,
            idle_timeout: None,
            read_timeout: None,
        }
    }

    /// The encoding of the client's texts.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Sets the encoding of the texts that follow.
    pub fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// Counts the memory of long messages as a part of `memory`. A message that does not fit is skipped, and its
    /// [`Wire::body`] fails with 53200.
    pub fn count_input(&mut self, memory: Held) {
        self.input_memory = Some(memory);
    }

    /// Reads a message without a type, as a connection begins with: its length, then the rest.
    pub fn read_untyped(&mut self) -> Result<Frame, End> {
        self.read_frame(0, message::SHORT_BYTES_MAX)
    }

    /// Reads a message of at most `bytes_max` bytes, its length field included. COPY data may be longer: a long message
    /// of them comes as several.
    pub fn read(&mut self, bytes_max: usize) -> Result<Frame, End> {
        if self.copy_left > 0 {
            return self.read_piece();
        }
        if let Some(skipped) = self.skipped.take() {
            return self.skip(skipped);
        }
        self.read_frame(1, bytes_max)
    }

    fn read_frame(&mut self, prefix: usize, bytes_max: usize) -> Result<Frame, End> {
        while self.unread.len() < prefix + 4 {
            self.make_room(prefix + 4).map_err(End::Fatal)?;
            self.fill()?;
        }
        let head = &self.input[self.unread.clone()];
        let kind = if prefix == 1 { head[0] } else { 0 };
        let length = i32::from_be_bytes([head[prefix], head[prefix + 1], head[prefix + 2], head[prefix + 3]]);
        let length = usize::try_from(length).unwrap_or(0);
        if length < 4 {
            return Err(End::Fatal(violation("invalid message length")));
        }
        if kind == message::COPY_DATA && length > PIECE_BYTES && length <= message::COPY_DATA_BYTES_MAX {
            self.unread.start += prefix + 4;
            self.copy_left = length - 4;
            return self.read_piece();
        }
        let may_be_long = message::rules(kind).is_some_and(|rules| rules.may_be_long);
        let limit = if may_be_long { bytes_max } else { bytes_max.min(message::SHORT_BYTES_MAX) };
        if length > limit {
            self.refused = if may_be_long { length } else { 0 };
            return Err(End::Fatal(
                violation("invalid message length")
                    .detail(format!("A message of {length} bytes exceeds the limit of {limit}.")),
            ));
        }
        while self.unread.len() < prefix + length {
            if let Err(error) = self.make_room(prefix + length) {
                return self.skip(Skipped { kind, bytes_left: prefix + length, error });
            }
            self.fill()?;
        }
        let start = self.unread.start;
        self.unread.start += prefix + length;
        Ok(Frame { kind, body: Ok(start + prefix + 4..start + prefix + length) })
    }

    /// Reads the rest of a message that there is no memory for, without keeping it.
    fn skip(&mut self, mut skipped: Skipped) -> Result<Frame, End> {
        loop {
            let count = self.unread.len().min(skipped.bytes_left);
            self.unread.start += count;
            skipped.bytes_left -= count;
            if skipped.bytes_left == 0 {
                return Ok(Frame { kind: skipped.kind, body: Err(skipped.error) });
            }
            let filled = self.make_room(INPUT_BYTES).map_err(End::Fatal).and_then(|()| self.fill());
            if let Err(end) = filled {
                self.skipped = Some(skipped);
                return Err(end);
            }
        }
    }

    /// Reads a piece of the present message of COPY data.
    fn read_piece(&mut self) -> Result<Frame, End> {
        if self.unread.is_empty() {
            self.make_room(self.copy_left.min(PIECE_BYTES)).map_err(End::Fatal)?;
            self.fill()?;
        }
        let start = self.unread.start;
        let length = self.unread.len().min(self.copy_left);
        self.unread.start += length;
        self.copy_left -= length;
        Ok(Frame { kind: message::COPY_DATA, body: Ok(start..start + length) })
    }

    /// Makes the buffer fit to read more towards having `wanted` bytes unread: longer by what has come, not by what is
    /// announced; short again when a long message was read.
    ///
    /// # Errors
    /// 53200; then it is as it was.
    fn make_room(&mut self, wanted: usize) -> Result<(), SqlError> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        if self.input.len() > 8 * INPUT_BYTES && wanted <= INPUT_BYTES && self.unread.len() < INPUT_BYTES {
            let mut input = vec![0; INPUT_BYTES];
            input[..self.unread.len()].copy_from_slice(&self.input[self.unread.clone()]);
            self.unread = 0..self.unread.len();
            self.input = input;
            self.count(INPUT_BYTES)?;
        } else if self.unread.end == self.input.len() && self.unread.start > 0 {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        } else if self.unread.end == self.input.len() {
            let length = (self.input.len() * 2).min(wanted.max(INPUT_BYTES));
            self.count(length)?;
            self.input.resize(length, 0);
        }
        Ok(())
    }

    /// Counts a buffer of `length` bytes.
    fn count(&mut self, length: usize) -> Result<(), SqlError> {
        match &mut self.input_memory {
            Some(memory) => memory.set(length - INPUT_BYTES),
            None => Ok(()),
        }
    }

    /// Reads what there is, at least a byte.
    fn fill(&mut self) -> Result<(), End> {
        let stream = self.channel.stream()?;
        loop {
            match stream.read(&mut self.input[self.unread.end..]) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the body of the last frame that was read.
    ///
    /// # Errors
    /// 53200 if there was no memory for it.
    pub fn body(&self, frame: &Frame) -> Decoded<&[u8]> {
        Ok(&self.input[frame.body.clone()?])
    }

    /// True if bytes have arrived that no message was made of yet.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Where messages to the client are appended; call [`Wire::pace`] after each.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The end of the output, to go back to.
    pub fn mark(&self) -> Mark {
        Mark { sent: self.sent, length: self.output.len() }
    }

    /// Forgets the output behind a mark. False if it has left.
    pub fn take_back(&mut self, mark: Mark) -> bool {
        let is_there = mark.sent == self.sent && mark.length <= self.output.len();
        if is_there {
            self.output.truncate(mark.length);
        }
        is_there
    }

    /// Sends the output if it has grown long.
    pub fn pace(&mut self) -> Result<(), End> {
        if self.output.len() >= OUTPUT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends the output.
    pub fn flush(&mut self) -> Result<(), End> {
        let sent = match self.channel.stream() {
            _ if self.broken => Err(io::ErrorKind::BrokenPipe.into()),
            _ if self.output.is_empty() => Ok(()),
            Ok(stream) => stream.write_all(&self.output).and_then(|()| stream.flush()),
            Err(error) => Err(error),
        };
        self.sent += u64::from(!self.output.is_empty());
        self.output.clear();
        self.output.shrink_to(4 * OUTPUT_BYTES);
        sent.map_err(|_| {
            self.broken = true;
            End::Gone
        })
    }

    /// True over TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.channel.socket(), Some(Socket::Tcp(_)))
    }

    /// True if the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.channel, Channel::Tls(_))
    }

    /// Returns the certificate that the client presented. It was found valid.
    pub fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.channel {
            Channel::Tls(stream) => stream.conn.peer_certificates()?.first(),
            _ => None,
        }
    }

    /// Returns what the connection is encrypted by, if it is.
    pub fn encryption(&self) -> Option<Encryption> {
        let Channel::Tls(stream) = &self.channel else { return None };
        let version = match stream.conn.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let (cipher, bits) = cipher_name(stream.conn.negotiated_cipher_suite()?.suite())?;
        let client = self.client_certificate().and_then(gnomon_tls::certificate::names);
        let client = client.map(|[subject, serial, issuer]| CertificateNames { subject, serial, issuer });
        Some(Encryption { version, cipher, bits, client })
    }

    /// Returns how the client is connected.
    pub fn connected_by(&self) -> Result<ConnectedBy, End> {
        match self.channel.socket() {
            Some(Socket::Tcp(stream)) => {
                Ok(ConnectedBy::Tcp { client: stream.peer_addr()?, server: stream.local_addr()? })
            }
            Some(Socket::Unix(_)) => Ok(ConnectedBy::Unix),
            None => Err(End::Gone),
        }
    }

    /// Waits for so long, or less. A client that closes its end, and a server that shuts the socket down, end the wait
    /// with [`End::Gone`].
    pub fn wait_unless_gone(&self, time: Duration) -> Result<(), End> {
        let socket = self.channel.socket().ok_or(End::Gone)?;
        let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
        match poll(&mut fds, Some(&timespec(time))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            _ => Err(End::Gone),
        }
    }

    /// Fails if bytes came together with a request for encryption, whose answer its client did not wait for: they could
    /// have been injected on the way.
    pub fn refuse_early_data(&self, what: &str) -> Result<(), End> {
        if !self.has_unread() {
            return Ok(());
        }
        Err(End::Fatal(violation(format!("received unencrypted data after {what} request")).detail(
            "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
        )))
    }

    /// Answers a request for TLS with yes, and shakes hands. The inner error is a failed handshake, which the client has
    /// been told of and which ends the connection.
    pub fn start_tls(&mut self, config: Arc<ServerConfig>) -> Result<Result<(), rustls::Error>, End> {
        self.refuse_early_data("SSL")?;
        self.output.push(b'S');
        self.flush()?;
        let Channel::Plain(socket) = std::mem::replace(&mut self.channel, Channel::Closed) else {
            return Err(End::Gone);
        };
        let mut stream = StreamOwned::new(ServerConnection::new(config).map_err(|_| End::Gone)?, socket);
        while stream.conn.is_handshaking() {
            if let Err(error) = stream.conn.complete_io(&mut stream.sock) {
                let failed = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                return match failed {
                    Some(failed) => Ok(Err(failed.clone())),
                    None => Err(error.into()),
                };
            }
        }
        self.channel = Channel::Tls(Box::new(stream));
        Ok(Ok(()))
    }

    /// After this long without a byte, reads end with [`End::TimedOut`], and writes of which the client reads nothing
    /// with [`End::Gone`].
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) -> Result<(), End> {
        self.idle_timeout = timeout;
        if timeout.is_none() {
            return Ok(());
        }
        if let Some(socket) = self.channel.socket() {
            socket.set_write_timeout(timeout)?;
        }
        self.set_ticking(false)
    }

    /// Bounds reads by `limit` beside the idle timeout: the shorter one without a byte ends them with [`End::TimedOut`].
    pub fn limit_idle(&mut self, limit: Option<Duration>) -> Result<(), End> {
        self.time_reads(match (limit, self.idle_timeout) {
            (Some(limit), Some(idle)) => Some(limit.min(idle)),
            (limit, idle) => limit.or(idle),
        })
    }

    /// While it ticks, reads end with [`End::TimedOut`] every now and then, so that their caller can look whether
    /// it is still to wait; the idle timeout rests.
    pub fn set_ticking(&mut self, ticking: bool) -> Result<(), End> {
        self.time_reads(if ticking { Some(TICK) } else { self.idle_timeout })
    }

    fn time_reads(&mut self, timeout: Option<Duration>) -> Result<(), End> {
        if self.read_timeout == timeout {
            return Ok(());
        }
        match self.channel.socket() {
            Some(socket) => socket.set_read_timeout(timeout)?,
            None => return Err(End::Gone),
        }
        self.read_timeout = timeout;
        Ok(())
    }

    /// Sends what is left and ends the connection in order.
    pub fn close(&mut self) {
        let _ = self.flush();
        if let Channel::Tls(stream) = &mut self.channel {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        if let Some(socket) = self.channel.socket() {
            socket.shutdown(Shutdown::Write);
        }
        self.drain();
        if let Some(socket) = self.channel.socket() {
            socket.shutdown(Shutdown::Both);
        }
    }

    /// Sends what is left to a client of which nothing was read, and ends the connection. Waits a moment for the client's
    /// first message, since one that comes afterwards could cost the client the answer.
    pub fn refuse(&mut self) {
        let socket = self.channel.socket();
        if socket.is_some_and(|socket| socket.set_read_timeout(Some(TICK)).is_ok()) {
            let _ = self.make_room(INPUT_BYTES).map_err(End::Fatal).and_then(|()| self.fill());
        }
        self.close();
    }

    /// Takes in the rest of a message that was refused, as fast as it comes: a socket that is closed with data unread
    /// resets the connection, and its client may lose the error that says why.
    fn drain(&mut self) {
        let mut left = self.refused;
        let patient =
            self.channel.socket().is_some_and(|socket| socket.set_read_timeout(Some(DRAIN)).is_ok());
        if left == 0 || !patient {
            return;
        }
        let mut piece = vec![0; PIECE_BYTES];
        let Ok(stream) = self.channel.stream() else { return };
        while left > 0 {
            match stream.read(&mut piece) {
                Ok(count) if count > 0 => left = left.saturating_sub(count.max(DRAINED_BYTES_MIN)),
                _ => return,
            }
        }
    }
}
/// OpenSSL's name of a cipher suite, and the bits of its key.
fn cipher_name(suite: CipherSuite) -> Option<(&'static str, i32)> {
    use CipherSuite as C;
    Some(match suite {
        C::TLS13_AES_128_GCM_SHA256 => ("TLS_AES_128_GCM_SHA256", 128),
        C::TLS13_AES_256_GCM_SHA384 => ("TLS_AES_256_GCM_SHA384", 256),
        C::TLS13_CHACHA20_POLY1305_SHA256 => ("TLS_CHACHA20_POLY1305_SHA256", 256),
        C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => ("ECDHE-ECDSA-AES128-GCM-SHA256", 128),
        C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => ("ECDHE-ECDSA-AES256-GCM-SHA384", 256),
        C::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => ("ECDHE-ECDSA-CHACHA20-POLY1305", 256),
        C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => ("ECDHE-RSA-AES128-GCM-SHA256", 128),
        C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => ("ECDHE-RSA-AES256-GCM-SHA384", 256),
        C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => ("ECDHE-RSA-CHACHA20-POLY1305", 256),
        _ => return None,
    })
}

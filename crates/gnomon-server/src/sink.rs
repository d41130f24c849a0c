//! The output of a statement, as messages.

use std::borrow::Cow;

use gnomon_engine::Interrupt;
use gnomon_sql::{
    Notice, Result, SqlError, SqlState,
    session::{CopySource, Format, Mark, ResultColumn, Sink},
    types::{Context, Datum, Type, binary, encoding::Encoding, limit::row_bytes, text},
};

use crate::{
    message::{self, Reader, format_of, put, violation, write_length},
    options::ServerOptions,
    wire::{End, Wire},
};

/// The longest row on the wire, in bytes: as PostgreSQL, whose messages end at 1 GiB.
const ROW_BYTES_MAX: usize = 1 << 30;

/// A row that takes more memory than this goes out in pieces, value by value.
const LARGE_ROW_BYTES: usize = 1 << 20;
/// The length of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Writes results to a connection.
pub(crate) struct WireSink<'a> {
    wire: &'a mut Wire,
    options: &'a ServerOptions,
    /// Raised to end a wait for COPY data.
    interrupt: &'a Interrupt,
    /// True if a RowDescription announces rows.
    describes: bool,
    /// The columns' formats as Bind gives them; empty is all text.
    formats: &'a [Format],
    types: Vec<Type>,
    /// Where a value's text is written before it goes out; kept for its memory.
    text: String,
    /// The reason why the connection cannot go on, once it cannot.
    pub(crate) end: Option<End>,
}

impl<'a> WireSink<'a> {
    /// As a simple query has it: with row descriptions, all text.
    pub(crate) fn new(wire: &'a mut Wire, options: &'a ServerOptions, interrupt: &'a Interrupt) -> Self {
        WireSink {
            wire,
            options,
            interrupt,
            describes: true,
            formats: &[],
            types: Vec::new(),
            text: String::new(),
            end: None,
        }
    }

    /// As Execute has it: without row descriptions, in the portal's formats.
    pub(crate) fn undescribed(self, formats: &'a [Format]) -> Self {
        WireSink { describes: false, formats, ..self }
    }

    /// Announces rows of these columns in the formats that hold now.
    fn begin_rows(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.types = columns.iter().map(|column| column.ty.ty).collect();
        if self.describes {
            let encoding = self.wire.encoding();
            message::put_row_description(self.wire.output(), encoding, columns, self.formats)?;
            self.pace()?;
        }
        Ok(())
    }

    /// After a message: sends the output if it is long. The statement ends if the client is gone.
    fn pace(&mut self) -> Result<()> {
        let paced = self.wire.pace();
        self.went(paced)
    }

    /// Sends a row of which there is to be no copy as a whole: first its length is found, then each value goes out.
    fn large_row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        const FIELD_BYTES: usize = 4;
        let mut lengths = Vec::with_capacity(row.len());
        let mut whole = 6 + FIELD_BYTES * row.len();
        for (index, datum) in row.iter().enumerate() {
            let length = if datum.is_null() { None } else { Some(self.form(context, index, datum)?.len()) };
            whole = whole.saturating_add(length.unwrap_or(0));
            if whole > ROW_BYTES_MAX {
                return Err(row_too_long());
            }
            lengths.push(length);
        }
        let out = self.wire.output();
        out.push(b'D');
        out.extend_from_slice(&u32::try_from(whole).unwrap_or(u32::MAX).to_be_bytes());
        message::put_count(out, row.len());
        for (index, (datum, length)) in row.iter().zip(lengths).enumerate() {
            let Some(length) = length else {
                self.wire.output().extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            };
            self.wire.output().extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            self.send_value(context, index, datum, length)?;
        }
        self.pace()
    }

    /// Sends the bytes of a value of a large row.
    fn send_value(
        &mut self,
        context: &Context<'_>,
        index: usize,
        datum: &Datum,
        length: usize,
    ) -> Result<()> {
        let bytes = self.form(context, index, datum)?;
        // A length that has gone out already binds.
        if bytes.len() != length {
            return Err(self.gone(End::Gone));
        }
        for piece in bytes.chunks(PIECE_BYTES) {
            self.wire.output().extend_from_slice(piece);
            self.pace()?;
        }
        Ok(())
    }

    /// The bytes of a value that are the same in memory and on the wire.
    fn plain<'d>(&self, index: usize, datum: &'d Datum) -> Option<&'d [u8]> {
        match (datum, format_of(self.formats, index)) {
            (Datum::Text(text) | Datum::Bpchar(text), _) if self.wire.encoding().is_plain() => {
                Some(text.as_bytes())
            }
            (Datum::Bytea(bytes), Format::Binary) => Some(bytes),
            _ => None,
        }
    }

    /// The bytes of a value on the wire.
    fn form<'d>(&self, context: &Context<'_>, index: usize, datum: &'d Datum) -> Result<Cow<'d, [u8]>> {
        if let Some(bytes) = self.plain(index, datum) {
            return Ok(Cow::Borrowed(bytes));
        }
        let ty = self.types.get(index).copied().unwrap_or(Type::Text);
        let encoding = self.wire.encoding();
        Ok(Cow::Owned(match format_of(self.formats, index) {
            Format::Text => encoding.encode(&text::output(context, datum, ty)?)?.into_owned(),
            Format::Binary => {
                let mut out = Vec::new();
                binary::send(datum, ty, encoding, &mut out)?;
                out
            }
        }))
    }

    fn went(&mut self, result: std::result::Result<(), End>) -> Result<()> {
        result.map_err(|end| self.gone(end))
    }

    fn gone(&mut self, end: End) -> SqlError {
        let error = match &end {
            End::Fatal(error) => error.clone(),
            End::Gone | End::TimedOut => {
                SqlError::new(SqlState::CONNECTION_FAILURE, "the connection to the client was lost")
            }
        };
        self.end = Some(end);
        error
    }
}

fn row_too_long() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("a row exceeds the limit of {ROW_BYTES_MAX} bytes"),
    )
}

impl Sink for WireSink<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if self.describes {
            self.formats = &[];
        }
        self.begin_rows(columns)
    }

    fn binary_columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        // Bind has said what Execute sends.
        if self.describes {
            self.formats = &[Format::Binary];
        }
        self.begin_rows(columns)
    }

    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        if row_bytes(row) > LARGE_ROW_BYTES {
            return self.large_row(context, row);
        }
        let (encoding, out) = (self.wire.encoding(), self.wire.output());
        let start = out.len();
        out.extend_from_slice(b"D\0\0\0\0");
        message::put_count(out, row.len());
        for (index, datum) in row.iter().enumerate() {
            let at = out.len();
            if datum.is_null() {
                out.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            }
            out.extend_from_slice(&[0; 4]);
            let ty = self.types.get(index).copied().unwrap_or(Type::Text);
            let written = match format_of(self.formats, index) {
                Format::Text => {
                    self.text.clear();
                    text::write(context, datum, ty, &mut self.text)
                        .and_then(|()| encoding.encode(&self.text))
                        .map(|bytes| out.extend_from_slice(&bytes))
                }
                Format::Binary => binary::send(datum, ty, encoding, out),
            };
            if let Err(error) = written {
                out.truncate(start); // a row goes out whole or not at all
                return Err(error);
            }
            let length = i32::try_from(out.len() - at - 4).unwrap_or(i32::MAX);
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
            if out.len() - start > ROW_BYTES_MAX {
                out.truncate(start); // a row goes out whole or not at all
                return Err(row_too_long());
            }
        }
        write_length(out, start + 1);
        self.pace()
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        message::put_complete(self.wire.output(), tag);
        self.pace()
    }

    fn suspended(&mut self) -> Result<()> {
        put(self.wire.output(), b's', |_| ());
        self.pace()
    }

    fn empty(&mut self) -> Result<()> {
        put(self.wire.output(), b'I', |_| ());
        self.pace()
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        let encoding = self.wire.encoding();
        message::put_report(self.wire.output(), encoding, &notice)?;
        self.pace()
    }

    fn encoding(&mut self, encoding: Encoding) {
        self.wire.set_encoding(encoding);
    }

    fn copy_out(&mut self, binary: bool, columns: usize) -> Result<()> {
        message::put_copy_response(self.wire.output(), b'H', binary, columns);
        self.pace()
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        // A message a row, as clients expect; the client puts pieces together again.
        for piece in data.chunks(ROW_BYTES_MAX) {
            put(self.wire.output(), b'd', |out| out.extend_from_slice(piece));
            self.pace()?;
        }
        Ok(())
    }

    fn copy_done(&mut self) -> Result<()> {
        put(self.wire.output(), b'c', |_| ());
        self.pace()
    }

    fn mark(&mut self) -> Option<Mark> {
        Some(self.wire.mark())
    }

    fn take_back(&mut self, mark: Mark) -> bool {
        self.wire.take_back(mark)
    }

    fn copy_in(&mut self, binary: bool, columns: usize) -> Result<Box<dyn CopySource + '_>> {
        message::put_copy_response(self.wire.output(), b'G', binary, columns);
        let ready = self.wire.flush().and_then(|()| self.wire.set_ticking(true));
        self.went(ready)?;
        Ok(Box::new(WireCopySource { sink: self }))
    }
}

/// CopyData from a client, up to CopyDone or CopyFail. While it waits, the statement can be cancelled.
struct WireCopySource<'a, 'b> {
    sink: &'a mut WireSink<'b>,
}

impl Drop for WireCopySource<'_, '_> {
    fn drop(&mut self) {
        if let Err(end) = self.sink.wire.set_ticking(false) {
            self.sink.end.get_or_insert(end);
        }
    }
}

impl CopySource for WireCopySource<'_, '_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let frame = match self.sink.wire.read(self.sink.options.message_bytes_max) {
                Ok(frame) => frame,
                Err(End::TimedOut) => {
                    self.sink.interrupt.check()?;
                    continue;
                }
                Err(end) => return Err(self.sink.gone(end)),
            };
            let body = self.sink.wire.body(&frame)?;
            return match frame.kind {
                message::COPY_DATA => Ok(Some(body.to_vec())),
                message::COPY_DONE => Ok(None),
                message::COPY_FAIL => {
                    let why = Reader::new(body).encoded(self.sink.wire.encoding()).string()?;
                    Err(SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {why}")))
                }
                // "Frontends may send them, the backend ignores them during copy-in" (the protocol's rules).
                message::FLUSH | message::SYNC => continue,
                message::TERMINATE => Err(self.sink.gone(End::Gone)),
                other => {
                    let error =
                        violation(format!("unexpected message type 0x{other:02X} during COPY from stdin"));
                    Err(self.sink.gone(End::Fatal(error)))
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    use gnomon_engine::{InterruptReason, sync::thread};
    use gnomon_sql::types::{ColumnType, FixedEnvironment};

    use super::*;

    /// A connection and its client's end.
    fn pair() -> (Wire, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Wire::new(ours.into()), theirs)
    }

    fn columns(types: &[Type]) -> Vec<ResultColumn> {
        let column = |ty: &Type| ResultColumn {
            name: "c".into(),
            ty: ColumnType { ty: *ty, modifier: -1 },
            table: 0,
            attribute: 0,
        };
        types.iter().map(column).collect()
    }

    #[test]
    fn rows_in_text_and_binary() {
        let (mut wire, _client) = pair();
        let (options, interrupt, environment) = <(ServerOptions, Interrupt, FixedEnvironment)>::default();
        let context = Context::new(&environment);
        let formats = [Format::Text, Format::Binary, Format::Text];
        let mut sink = WireSink::new(&mut wire, &options, &interrupt).undescribed(&formats);
        sink.columns(&columns(&[Type::Int4, Type::Int4, Type::Text])).unwrap();
        sink.row(&context, &[Datum::Int4(-7), Datum::Int4(-7), Datum::Null]).unwrap();
        sink.complete("SELECT 1").unwrap();
        assert_eq!(
            wire.output(),
            b"D\0\0\0\x18\0\x03\0\0\0\x02-7\0\0\0\x04\xff\xff\xff\xf9\xff\xff\xff\xff\
              C\0\0\0\x0dSELECT 1\0"
        );
    }

    #[test]
    fn a_result_of_any_size_passes_through_a_bounded_buffer() {
        const ROWS: usize = 10_000;
        let (mut wire, mut client) = pair();
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            received.len()
        });
        let (options, interrupt, environment) = <(ServerOptions, Interrupt, FixedEnvironment)>::default();
        let context = Context::new(&environment);
        let row = [Datum::text("x".repeat(1000))];
        let mut sink = WireSink::new(&mut wire, &options, &interrupt);
        sink.columns(&columns(&[Type::Text])).unwrap();
        for _ in 0..ROWS {
            sink.row(&context, &row).unwrap();
            assert!(sink.wire.output().len() < 64 << 10);
        }
        drop(sink);
        wire.close();
        let description = 1 + 4 + 2 + 2 + 18;
        assert_eq!(reader.join().unwrap(), description + ROWS * (1 + 4 + 2 + 4 + 1000));
    }

    #[test]
    fn a_client_that_is_gone_ends_the_statement() {
        let (mut wire, client) = pair();
        drop(client);
        let (options, interrupt) = <(ServerOptions, Interrupt)>::default();
        let mut sink = WireSink::new(&mut wire, &options, &interrupt);
        sink.copy_out(false, 1).unwrap();
        let error = sink.copy_data(&[b'x'; 100_000]).unwrap_err();
        assert_eq!(error.state(), SqlState::CONNECTION_FAILURE);
        assert!(matches!(sink.end, Some(End::Gone)));
    }

    /// Returns what a COPY sees when its client sends `messages`: its pieces, its end, and true if the connection ends.
    fn copy(messages: &[u8]) -> (Vec<u8>, Result<()>, bool) {
        let (mut wire, mut client) = pair();
        client.write_all(messages).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (options, interrupt) = <(ServerOptions, Interrupt)>::default();
        let mut sink = WireSink::new(&mut wire, &options, &interrupt);
        let mut data = Vec::new();
        let mut source = sink.copy_in(false, 2).unwrap();
        let end = loop {
            match source.next() {
                Ok(Some(piece)) => data.extend(piece),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(source);
        let closes = sink.end.is_some();
        let mut response = [0; 12];
        client.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
        (data, end, closes)
    }

    #[test]
    fn copy_data_and_their_ends() {
        let (data, end, closes) = copy(b"d\0\0\0\x06abH\0\0\0\x04S\0\0\0\x04d\0\0\0\x05cc\0\0\0\x04");
        assert!(data == b"abc" && end.is_ok() && !closes);
        let (data, end, closes) = copy(b"d\0\0\0\x05af\0\0\0\x08why\0");
        let error = end.unwrap_err();
        assert!(data == b"a" && !closes);
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        assert_eq!(error.to_string(), "COPY from stdin failed: why");
        for (messages, state) in [
            (&b"Q\0\0\0\x05\0"[..], SqlState::PROTOCOL_VIOLATION),
            (b"?\0\0\0\x04", SqlState::PROTOCOL_VIOLATION),
            (b"d\xff\xff\xff\xff", SqlState::PROTOCOL_VIOLATION),
            (b"X\0\0\0\x04", SqlState::CONNECTION_FAILURE),
            (b"d\0\0\0\x09cut", SqlState::CONNECTION_FAILURE),
        ] {
            let (_, end, closes) = copy(messages);
            assert!(closes);
            assert_eq!(end.unwrap_err().state(), state, "{messages:?}");
        }
    }

    #[test]
    fn a_copy_that_waits_for_data_can_be_cancelled() {
        let (mut wire, _client) = pair();
        let (options, interrupt) = <(ServerOptions, Interrupt)>::default();
        interrupt.raise(InterruptReason::Cancel);
        let mut sink = WireSink::new(&mut wire, &options, &interrupt);
        let error = sink.copy_in(false, 1).unwrap().next().unwrap_err();
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        assert!(sink.end.is_none());
    }
}

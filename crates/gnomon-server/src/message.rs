//! The messages of PostgreSQL's protocol 3.0: decoding what a frontend sends, encoding what a backend sends
//! (PostgreSQL's manual, "Frontend/Backend Protocol", "Message Formats").
//!
//! Decoding works on exactly one frame: a count or a length inside a message can never reach past the message's
//! end, whatever follows it in the buffer, and bytes left over are an error too. The frame itself is whole, so such an
//! error spoils its message only; a length that cannot be and an unknown type end the connection. A message with two
//! errors may be answered by another of them than in PostgreSQL, which carries out parts of Bind as it reads. Names and
//! statements are owned (a statement may read more messages while it runs), parameter values are borrowed. Encoding
//! appends to a byte buffer and patches the length in afterwards, so that a message is never built apart and copied.
//!
//! Other letters of a backend stand where they are sent: rows, the end of a portal's rows and COPY data in `sink.rs`;
//! replies without content and BackendKeyData in `connection.rs`; authentication in `authentication.rs`; what precedes
//! it in `startup.rs`, and the yes to TLS in `wire.rs`. [`decode`] and [`rules`] say
//! all that depends on the letter of a frontend's message, except how `startup.rs` and `authentication.rs` read.

use std::borrow::Cow;

use gnomon_sql::{
    Severity, SqlError, SqlState,
    session::{Format, ResultColumn, TransactionStatus},
    types::{Type, encoding::Encoding, text::cut_name},
};

/// Messages that carry no data are never longer, nor is any before authentication (as in PostgreSQL).
pub const SHORT_BYTES_MAX: usize = 10_000;

/// A message of COPY data; it comes in pieces, so that its length needs no memory (as in PostgreSQL).
pub const COPY_DATA: u8 = b'd';
/// The end of COPY data.
pub const COPY_DONE: u8 = b'c';
/// The end of COPY data that the client gives up.
pub const COPY_FAIL: u8 = b'f';
/// A request to send what is buffered.
pub const FLUSH: u8 = b'H';
/// The end of a pipeline.
pub const SYNC: u8 = b'S';
/// The end of a connection.
pub const TERMINATE: u8 = b'X';
/// COPY data are at most so long in one message.
pub const COPY_DATA_BYTES_MAX: usize = (1 << 30) - 1;

/// The result of decoding. An error of severity Fatal means that the stream cannot be trusted any more; one of
/// severity Error spoils this message only.
pub type Decoded<T> = std::result::Result<T, SqlError>;

/// The kind of object that Describe and Close name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

/// A message of a frontend once a connection is up.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// `Q`: a simple query, possibly of several statements.
    Query(String),
    /// `P`: prepare a statement. Types are OIDs, 0 where the client leaves it to the server.
    Parse {
        /// The statement's name, empty for the unnamed one.
        name: String,
        /// Its text.
        sql: String,
        /// The types of the first parameters.
        parameter_types: Vec<u32>,
    },
    /// `B`: make a portal of a statement.
    Bind(Bind<'a>),
    /// `D`: describe a statement or portal.
    Describe(Target, String),
    /// `E`: run a portal, for at most so many rows (0: all).
    Execute {
        /// The portal's name, empty for the unnamed one.
        portal: String,
        /// The limit, 0 for none.
        rows_max: usize,
    },
    /// `C`: forget a statement or portal.
    Close(Target, String),
    /// `H`: send what is buffered.
    Flush,
    /// `S`: the end of a pipeline.
    Sync,
    /// `d`, `c`, `f`: of a COPY FROM STDIN, which reads them itself.
    Copy,
    /// `F`: the obsolete function call.
    FunctionCall,
    /// `X`: goodbye.
    Terminate,
}

/// The value of a parameter with its format; none for NULL.
pub type Parameter<'a> = Option<(Format, &'a [u8])>;

/// A Bind message.
#[derive(Debug, PartialEq)]
pub struct Bind<'a> {
    /// The portal's name, empty for the unnamed one.
    pub portal: String,
    /// The statement's name.
    pub statement: String,
    /// The values.
    pub parameters: Vec<Parameter<'a>>,
    /// None (all text), one (for all) or one for each result column.
    pub result_formats: Vec<Format>,
}

/// Returns an error after which the connection is closed.
pub fn fatal(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message).severity(Severity::Fatal)
}

/// Returns a protocol violation after which the connection is closed.
pub fn violation(message: impl Into<String>) -> SqlError {
    fatal(SqlState::PROTOCOL_VIOLATION, message)
}

/// The error of a message whose frame is whole and whose content is not.
fn malformed(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn cut_short() -> SqlError {
    malformed("insufficient data left in message")
}

/// The format of a code.
fn format(code: i16) -> Decoded<Format> {
    match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        _ => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {code}")))
        }
    }
}

/// Reads the body of one message from its front.
pub struct Reader<'a>(&'a [u8], Encoding);

impl<'a> Reader<'a> {
    /// Over the body of a message whose texts are UTF-8, as before authentication.
    pub fn new(body: &'a [u8]) -> Reader<'a> {
        Reader(body, Encoding::UTF8)
    }

    /// The same of texts in an encoding.
    pub fn encoded(self, encoding: Encoding) -> Reader<'a> {
        Reader(self.0, encoding)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A count of things, 16 bits.
    fn count(&mut self) -> Decoded<usize> {
        self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    /// A signed 32-bit number.
    pub fn i32(&mut self) -> Decoded<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// A string that ends with NUL.
    pub fn string(&mut self) -> Decoded<Cow<'a, str>> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| malformed("invalid string in message"))?;
        let bytes = self.bytes(end + 1)?;
        self.1.decode(&bytes[..end])
    }

    /// The name of a statement or portal; of a long one the beginning counts, as where SQL has the name.
    fn name(&mut self) -> Decoded<String> {
        Ok(cut_name(&self.string()?).to_owned())
    }

    /// True if what is left ends with NUL.
    pub fn ends_with_nul(&self) -> bool {
        self.0.last() == Some(&0)
    }

    /// Whatever is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn format_codes(&mut self) -> Decoded<Vec<i16>> {
        (0..self.count()?).map(|_| self.array().map(i16::from_be_bytes)).collect()
    }

    /// The parameters of a Bind: the codes of their formats (none for all text, one for all, or one for each), then the
    /// values.
    fn parameters(&mut self) -> Decoded<Vec<Parameter<'a>>> {
        let formats = self.format_codes()?;
        let count = self.count()?;
        if formats.len() > 1 && formats.len() != count {
            let formats = formats.len();
            return Err(malformed(format!(
                "bind message has {formats} parameter formats but {count} parameters"
            )));
        }
        let one = |index| {
            let value = self.value()?;
            let format = format(format_of(&formats, index))?;
            Ok(value.map(|value| (format, value)))
        };
        (0..count).map(one).collect()
    }

    /// The length of a value, and the value; none for NULL.
    fn value(&mut self) -> Decoded<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.bytes(usize::try_from(length).map_err(|_| cut_short())?).map(Some),
        }
    }

    /// A statement or portal, which ends the message `message`.
    fn target(&mut self, message: &str) -> Decoded<(Target, String)> {
        let [kind] = self.array().map_err(|_| malformed("no data left in message"))?;
        let name = self.name()?;
        self.end()?;
        let target = match kind {
            b'S' => Target::Statement,
            b'P' => Target::Portal,
            other => return Err(malformed(format!("invalid {message} message subtype {other}"))),
        };
        Ok((target, name))
    }

    fn end(&self) -> Decoded<()> {
        if self.is_empty() { Ok(()) } else { Err(malformed("invalid message format")) }
    }
}

/// How a connection that is up takes a message, by the message's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// True if it may be longer than [`SHORT_BYTES_MAX`].
    pub may_be_long: bool,
    /// True if it is carried out even after an error in the extended protocol.
    pub ends_skipping: bool,
    /// True if it belongs to a COPY FROM STDIN.
    pub is_of_copy: bool,
    /// True if its reply ends with ReadyForQuery, also after an error.
    pub ends_with_ready: bool,
}

/// Returns the rules of messages of type `kind`; none if there are no such messages.
pub fn rules(kind: u8) -> Option<Rules> {
    let plain = Rules { may_be_long: false, ends_skipping: false, is_of_copy: false, ends_with_ready: false };
    Some(match kind {
        b'Q' | b'F' => Rules { may_be_long: true, ends_with_ready: true, ..plain },
        b'P' | b'B' => Rules { may_be_long: true, ..plain },
        b'D' | b'E' | b'C' | FLUSH => plain,
        SYNC => Rules { ends_skipping: true, ends_with_ready: true, ..plain },
        TERMINATE => Rules { ends_skipping: true, ..plain },
        COPY_DATA => Rules { may_be_long: true, is_of_copy: true, ..plain },
        COPY_DONE | COPY_FAIL => Rules { is_of_copy: true, ..plain },
        _ => return None,
    })
}

/// Decodes the message of type `kind` with this body, whose texts are in the client's encoding.
pub fn decode(kind: u8, body: &[u8], encoding: Encoding) -> Decoded<Message<'_>> {
    let mut reader = Reader(body, encoding);
    let message = match kind {
        b'Q' => Message::Query(reader.string()?.into_owned()),
        b'P' => Message::Parse {
            name: reader.name()?,
            sql: reader.string()?.into_owned(),
            parameter_types: (0..reader.count()?)
                .map(|_| reader.array().map(u32::from_be_bytes))
                .collect::<Decoded<_>>()?,
        },
        b'B' => Message::Bind(Bind {
            portal: reader.name()?,
            statement: reader.name()?,
            parameters: reader.parameters()?,
            result_formats: reader.format_codes()?.into_iter().map(format).collect::<Decoded<_>>()?,
        }),
        b'D' => {
            let (target, name) = reader.target("DESCRIBE")?;
            Message::Describe(target, name)
        }
        b'E' => Message::Execute {
            portal: reader.name()?,
            // A limit of zero or less is none, as PostgreSQL has it.
            rows_max: usize::try_from(reader.i32()?).unwrap_or(0),
        },
        b'C' => {
            let (target, name) = reader.target("CLOSE")?;
            Message::Close(target, name)
        }
        FLUSH => Message::Flush,
        SYNC => Message::Sync,
        // Of these PostgreSQL does not look at the content.
        COPY_DATA | COPY_DONE | COPY_FAIL => return Ok(Message::Copy),
        b'F' => return Ok(Message::FunctionCall),
        TERMINATE => return Ok(Message::Terminate),
        other => return Err(violation(format!("invalid frontend message type {other}"))),
    };
    reader.end()?;
    Ok(message)
}

/// Appends a message of type `kind` whose body `body` writes.
pub fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    write_length(out, at);
}

/// Writes the number of bytes from `at` to the end (the length's own four included) at `at`. Messages of the
/// server are far below 2 GiB; the only ones that grow with data, rows and COPY data, are limited by their makers.
pub fn write_length(out: &mut [u8], at: usize) {
    let length = i32::try_from(out.len() - at).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a string and its NUL; a NUL inside would end it early and becomes a replacement character.
pub fn put_string(out: &mut Vec<u8>, string: &str) {
    if string.contains('\0') {
        out.extend_from_slice(string.replace('\0', "\u{fffd}").as_bytes());
    } else {
        out.extend_from_slice(string.as_bytes());
    }
    out.push(0);
}

/// Appends a text of a client's encoding and its NUL.
fn put_text(out: &mut Vec<u8>, encoding: Encoding, text: &str) -> Decoded<()> {
    if encoding.is_plain() {
        put_string(out, text);
    } else {
        out.extend_from_slice(&encoding.encode(&text.replace('\0', " "))?);
        out.push(0);
    }
    Ok(())
}

/// Appends a message as [`put`] does; nothing if its body cannot be written.
fn put_whole(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>) -> Decoded<()>) -> Decoded<()> {
    let (start, mut done) = (out.len(), Ok(()));
    put(out, kind, |out| done = body(out));
    if done.is_err() {
        out.truncate(start);
    }
    done
}

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    // PostgreSQL limits columns to 1664 and parameters to 65535; the decoder and the planner keep both.
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

/// Appends an ErrorResponse. In place of an error with characters that the client's encoding has not, the client gets
/// the error that says so, as from PostgreSQL.
pub fn put_error(out: &mut Vec<u8>, encoding: Encoding, error: &SqlError) {
    if let Err(untranslatable) = put_report(out, encoding, error) {
        let untranslatable = untranslatable.severity(error.report().severity);
        // Its texts are ASCII.
        let _ = put_report(out, Encoding::UTF8, &untranslatable);
    }
}

/// Appends an ErrorResponse or, for what is no error, a NoticeResponse.
///
/// # Errors
/// 22P05.
pub fn put_report(out: &mut Vec<u8>, encoding: Encoding, report: &SqlError) -> Decoded<()> {
    let report = report.report();
    let kind = if matches!(report.severity, Severity::Error | Severity::Fatal) { b'E' } else { b'N' };
    let severity = report.severity.word();
    let position = report.position.map(|position| position.to_string());
    put_whole(out, kind, |out| {
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(report.state.0)),
            (b'M', Some(report.message.as_str())),
            (b'D', report.detail.as_deref()),
            (b'H', report.hint.as_deref()),
            (b'W', report.context.as_deref()),
            (b'P', position.as_deref()),
            (b's', report.schema.as_deref()),
            (b't', report.table.as_deref()),
            (b'c', report.column.as_deref()),
            (b'n', report.constraint.as_deref()),
            (b'R', report.routine),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                out.push(field);
                put_text(out, encoding, value)?;
            }
        }
        out.push(0);
        Ok(())
    })
}

/// Appends a ParameterStatus.
///
/// # Errors
/// 22P05.
pub fn put_parameter_status(out: &mut Vec<u8>, encoding: Encoding, name: &str, value: &str) -> Decoded<()> {
    put_whole(out, b'S', |out| {
        put_string(out, name);
        put_text(out, encoding, value)
    })
}

/// Appends a ReadyForQuery.
pub fn put_ready(out: &mut Vec<u8>, status: TransactionStatus) {
    put(out, b'Z', |out| {
        out.push(match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        });
    });
}

/// Appends a CommandComplete.
pub fn put_complete(out: &mut Vec<u8>, tag: &str) {
    put(out, b'C', |out| put_string(out, tag));
}

/// The format of column `index` by a list as Bind gives it: none for all text, one for all, or one for each.
pub fn format_of<F: Copy + Default>(formats: &[F], index: usize) -> F {
    match formats {
        [one] => *one,
        _ => formats.get(index).copied().unwrap_or_default(),
    }
}

/// Appends a RowDescription.
///
/// # Errors
/// 22P05.
pub fn put_row_description(
    out: &mut Vec<u8>,
    encoding: Encoding,
    columns: &[ResultColumn],
    formats: &[Format],
) -> Decoded<()> {
    put_whole(out, b'T', |out| {
        put_count(out, columns.len());
        for (index, column) in columns.iter().enumerate() {
            put_text(out, encoding, &column.name)?;
            out.extend_from_slice(&column.table.to_be_bytes());
            out.extend_from_slice(&column.attribute.to_be_bytes());
            out.extend_from_slice(&column.ty.ty.oid().to_be_bytes());
            out.extend_from_slice(&column.ty.ty.info().length.to_be_bytes());
            // That of a record is the process's own number of its shape.
            let modifier = if column.ty.ty == Type::Record { -1 } else { column.ty.modifier };
            out.extend_from_slice(&modifier.to_be_bytes());
            put_format(out, format_of(formats, index));
        }
        Ok(())
    })
}

/// Appends a ParameterDescription.
pub fn put_parameter_description(out: &mut Vec<u8>, types: &[Type]) {
    put(out, b't', |out| {
        put_count(out, types.len());
        for ty in types {
            out.extend_from_slice(&ty.oid().to_be_bytes());
        }
    });
}

/// Appends CopyInResponse (`G`) or CopyOutResponse (`H`).
pub fn put_copy_response(out: &mut Vec<u8>, kind: u8, binary: bool, columns: usize) {
    let format = if binary { Format::Binary } else { Format::Text };
    put(out, kind, |out| {
        out.push(u8::from(binary));
        put_count(out, columns);
        for _ in 0..columns {
            put_format(out, format);
        }
    });
}

fn put_format(out: &mut Vec<u8>, format: Format) {
    let code: i16 = match format {
        Format::Text => 0,
        Format::Binary => 1,
    };
    out.extend_from_slice(&code.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_rules_are_those_that_are_decoded() {
        for kind in 0..=u8::MAX {
            let decoded = decode(kind, b"", Encoding::UTF8);
            let is_refused =
                decoded.is_err_and(|error| error.report().message.starts_with("invalid frontend"));
            assert_eq!(rules(kind).is_some(), !is_refused, "{kind}");
        }
    }
}

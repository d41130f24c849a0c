//! COPY FROM: data in pieces cut anywhere, taken apart into rows of fields.
//!
//! The fields of a row are ranges of one buffer, which is used again for the next row: nothing is allocated for a
//! field.

use super::{
    lines::{FoundLine, LineSearch, Newline},
    options::{DataFormat, Header, Options},
};
use crate::{Result, SqlError, SqlState, sink::CopySource, types::encoding::Encoding};

/// Data that is consumed from the front gives its room back once there is this much of it, in bytes.
const COMPACT_BYTES: usize = 1 << 16;
/// The longest line or field that is accepted, in bytes.
const FIELD_BYTES_MAX: usize = 64 << 20;

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// The pieces as one stream.
struct Input<'a> {
    source: Box<dyn CopySource + 'a>,
    /// Of the pieces, if they are text.
    encoding: Encoding,
    /// The beginning of a character whose end is in the next piece.
    cut: Vec<u8>,
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
}

impl Input<'_> {
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Reads another piece; false at the end.
    fn fill(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.start > COMPACT_BYTES || self.start == self.buffer.len() {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.len() - self.start > FIELD_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a line of COPY data exceeds {} MiB", FIELD_BYTES_MAX >> 20),
            ));
        }
        match self.source.next()? {
            Some(piece) => {
                let piece = self.decode(piece)?;
                match self.buffer.is_empty() {
                    true => self.buffer = piece,
                    false => self.buffer.extend_from_slice(&piece),
                }
            }
            None => {
                // An end within a character.
                self.encoding.decode(&self.cut)?;
                self.ended = true;
            }
        }
        Ok(!self.ended)
    }

    /// Brings a piece to the encoding of the database, with what the piece before it ended in.
    fn decode(&mut self, piece: Vec<u8>) -> Result<Vec<u8>> {
        if self.encoding.is_plain() {
            return Ok(piece);
        }
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend(piece);
        self.cut = bytes.split_off(self.encoding.whole_characters(&bytes));
        Ok(self.encoding.decode(&bytes)?.into_owned().into_bytes())
    }

    /// Makes `count` bytes available; false if the data ends before.
    fn need(&mut self, count: usize) -> Result<bool> {
        while self.rest().len() < count {
            if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads what is left and forgets it.
    fn discard(&mut self) -> Result<()> {
        self.buffer.clear();
        self.start = 0;
        while !self.ended {
            match self.source.next()? {
                Some(_) => {}
                None => self.ended = true,
            }
        }
        Ok(())
    }
}

/// A field of the present row.
#[derive(Clone, Copy, Debug)]
struct Field {
    start: usize,
    end: usize,
    null: bool,
}

/// Rows of fields.
pub(super) struct Rows<'a> {
    input: Input<'a>,
    options: Options,
    /// Of CSV: the columns whose values are never, or always, compared with the NULL text.
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    /// The present row: its values without quotes and escapes.
    values: Vec<u8>,
    fields: Vec<Field>,
    /// The number of the present line (or, of binary data, row), from 1.
    pub(super) line: u64,
    /// Where the text of the present line stands in the input.
    text: Option<(usize, usize)>,
    /// How lines end, once one has.
    newline: Option<Newline>,
    begun: bool,
    finished: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        source: Box<dyn CopySource + 'a>,
        options: Options,
        columns: &[String],
    ) -> Result<Rows<'a>> {
        Ok(Rows {
            force_not_null: options.force_not_null.among(columns)?,
            force_null: options.force_null.among(columns)?,
            input: Input {
                source,
                encoding: if options.format == DataFormat::Binary {
                    Encoding::UTF8
                } else {
                    options.encoding
                },
                cut: Vec::new(),
                buffer: Vec::new(),
                start: 0,
                ended: false,
            },
            options,
            values: Vec::new(),
            fields: Vec::new(),
            line: 0,
            text: None,
            newline: None,
            begun: false,
            finished: false,
        })
    }

    /// The encoding of texts in fields of binary form, if the fields have it.
    pub(super) fn binary_encoding(&self) -> Option<Encoding> {
        (self.options.format == DataFormat::Binary).then_some(self.options.client_encoding)
    }

    /// Returns how many fields the present row has.
    pub(super) fn width(&self) -> usize {
        self.fields.len()
    }

    /// A field of the present row; none for NULL.
    pub(super) fn field(&self, i: usize) -> Option<&[u8]> {
        let field = self.fields.get(i)?;
        (!field.null).then(|| &self.values[field.start..field.end])
    }

    /// Reads the next row; false at the end.
    pub(super) fn next(&mut self, columns: &[String]) -> Result<bool> {
        if self.finished {
            return Ok(false);
        }
        let more = match self.options.format {
            DataFormat::Binary => self.next_binary(columns.len())?,
            _ => self.next_line(columns)?,
        };
        if !more {
            self.finished = true;
            self.input.discard()?;
        }
        Ok(more)
    }

    fn next_line(&mut self, columns: &[String]) -> Result<bool> {
        if !self.begun {
            self.begun = true;
            if self.options.header != Header::None {
                if !self.read_line()? {
                    return Ok(false);
                }
                self.check_header(columns)?;
            }
        }
        self.read_line()
    }

    fn check_header(&self, columns: &[String]) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        if self.width() != columns.len() {
            return Err(bad(format!(
                "wrong number of fields in header line: got {}, expected {}",
                self.width(),
                columns.len()
            )));
        }
        for (i, column) in columns.iter().enumerate() {
            let found = self.field(i).map(String::from_utf8_lossy);
            if found.as_deref() != Some(column) {
                return Err(bad(match found {
                    Some(found) => format!(
                        "column name mismatch in header line field {}: got \"{found}\", expected \"{column}\"",
                        i + 1
                    ),
                    None => format!(
                        "column name mismatch in header line field {}: got null value, expected \"{column}\"",
                        i + 1
                    ),
                }));
            }
        }
        Ok(())
    }

    /// Reads a line and takes it apart.
    fn read_line(&mut self) -> Result<bool> {
        self.text = None;
        self.line += 1;
        let Options { format, quote, escape, .. } = self.options;
        let csv = format == DataFormat::Csv;
        let mut search = LineSearch::default();
        let first_line = self.line;
        let found = loop {
            let (rest, ended) = (self.input.rest(), self.input.ended);
            let found = match csv {
                true => search.csv(rest, ended, &mut self.newline, quote, escape),
                false => search.text(rest, ended, &mut self.newline),
            };
            self.line = first_line + search.newlines;
            match found? {
                Some(found) => break found,
                None if self.input.fill()? => {}
                None if !ended => {}
                None if self.input.rest().is_empty() => return Ok(false),
                None => {
                    let end = self.input.rest().len();
                    let is_end_of_data = self.input.rest() == b"\\.";
                    break FoundLine { end, next: end, is_end_of_data };
                }
            }
        };
        let start = self.input.start;
        self.text = Some((start, start + found.end));
        if search.quoted {
            return Err(bad("unterminated CSV quoted field"));
        }
        if !found.is_end_of_data {
            let line = &self.input.rest()[..found.end];
            let (values, fields) = (&mut self.values, &mut self.fields);
            values.clear();
            fields.clear();
            if csv {
                split_csv(line, &self.options, &self.force_not_null, &self.force_null, values, fields)?;
            } else {
                split_text(line, &self.options, values, fields)?;
            }
        }
        self.input.start += found.next;
        Ok(!found.is_end_of_data)
    }

    /// The text of the present line, as far as there is one.
    pub(super) fn line_text(&self) -> Option<&[u8]> {
        let (start, end) = self.text?;
        self.input.buffer.get(start..end)
    }

    fn next_binary(&mut self, columns: usize) -> Result<bool> {
        if !self.begun {
            self.begun = true;
            self.binary_header()?;
        }
        self.line += 1;
        self.values.clear();
        self.fields.clear();
        let unexpected = || bad("unexpected EOF in COPY data");
        // The data may also end without the trailer.
        if !self.input.need(2)? {
            return Ok(false);
        }
        let count = self.take::<2>().map(i16::from_be_bytes).ok_or_else(unexpected)?;
        if count == -1 {
            return if self.input.need(1)? {
                Err(bad("received copy data after EOF marker"))
            } else {
                Ok(false)
            };
        }
        if usize::try_from(count) != Ok(columns) {
            return Err(bad(format!("row field count is {count}, expected {columns}")));
        }
        for _ in 0..columns {
            if !self.input.need(4)? {
                return Err(unexpected());
            }
            let length = self.take::<4>().map(i32::from_be_bytes).ok_or_else(unexpected)?;
            let start = self.values.len();
            if length == -1 {
                self.fields.push(Field { start, end: start, null: true });
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
            if length > FIELD_BYTES_MAX {
                return Err(bad("invalid field size"));
            }
            if !self.input.need(length)? {
                return Err(unexpected());
            }
            self.values.extend_from_slice(&self.input.rest()[..length]);
            self.input.start += length;
            self.fields.push(Field { start, end: start + length, null: false });
        }
        Ok(true)
    }

    fn binary_header(&mut self) -> Result<()> {
        let unrecognized = || bad("COPY file signature not recognized");
        if !self.input.need(super::BINARY_SIGNATURE.len())? {
            return Err(unrecognized());
        }
        if !self.input.rest().starts_with(super::BINARY_SIGNATURE) {
            return Err(unrecognized());
        }
        self.input.start += super::BINARY_SIGNATURE.len();
        let missing = || bad("invalid COPY file header (missing flags)");
        if !self.input.need(8)? {
            return Err(missing());
        }
        let flags = self.take::<4>().map(u32::from_be_bytes).ok_or_else(missing)?;
        let extension = self.take::<4>().map(u32::from_be_bytes).ok_or_else(missing)?;
        if flags >> 16 != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let extension = usize::try_from(extension).unwrap_or(usize::MAX);
        if extension > FIELD_BYTES_MAX || !self.input.need(extension)? {
            return Err(bad("invalid COPY file header (wrong length)"));
        }
        self.input.start += extension;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.input.rest().first_chunk::<N>()?;
        self.input.start += N;
        Some(bytes)
    }
}

/// Takes a line of the text format apart.
fn split_text(line: &[u8], options: &Options, values: &mut Vec<u8>, fields: &mut Vec<Field>) -> Result<()> {
    let mut at = 0;
    loop {
        let start = values.len();
        let raw = at;
        // Bytes between escapes are copied in one go.
        let mut plain = at;
        while let Some(&byte) = line.get(at) {
            if byte == options.delimiter {
                break;
            }
            if byte != b'\\' {
                at += 1;
                continue;
            }
            values.extend_from_slice(&line[plain..at]);
            at = unescape(line, at + 1, values);
            plain = at;
        }
        values.extend_from_slice(&line[plain..at]);
        // NULL is what looks like it before escapes are replaced.
        let null = &line[raw..at] == options.null.as_bytes();
        fields.push(Field { start, end: values.len(), null });
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

/// Replaces the escape whose character is at `at`; returns where it ends.
fn unescape(line: &[u8], at: usize, values: &mut Vec<u8>) -> usize {
    let digits = |from: usize, most: usize, radix: u32| {
        let digit = |b: &&u8| char::from(**b).is_digit(radix);
        let count = line[from.min(line.len())..].iter().take(most).take_while(digit).count();
        let value = line[from.min(line.len())..][..count]
            .iter()
            .fold(0u32, |value, b| value * radix + char::from(*b).to_digit(radix).unwrap_or(0));
        // As in PostgreSQL, octal escapes above 255 lose their highest bit.
        (count, (value & 0xff) as u8)
    };
    let Some(&byte) = line.get(at) else {
        values.push(b'\\');
        return at;
    };
    let byte = match byte {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'0'..=b'7' => {
            let (count, value) = digits(at, 3, 8);
            values.push(value);
            return at + count;
        }
        b'x' => match digits(at + 1, 2, 16) {
            (0, _) => b'x',
            (count, value) => {
                values.push(value);
                return at + 1 + count;
            }
        },
        other => other,
    };
    values.push(byte);
    at + 1
}

/// Takes a line of the CSV format apart.
fn split_csv(
    line: &[u8],
    options: &Options,
    force_not_null: &[bool],
    force_null: &[bool],
    values: &mut Vec<u8>,
    fields: &mut Vec<Field>,
) -> Result<()> {
    let mut at = 0;
    loop {
        let start = values.len();
        let (mut was_quoted, mut quoted) = (false, false);
        while let Some(&byte) = line.get(at) {
            if quoted {
                let next = line.get(at + 1).copied();
                if byte == options.escape && next.is_some_and(|n| n == options.quote || n == options.escape) {
                    values.extend(next);
                    at += 2;
                    continue;
                }
                if byte == options.quote {
                    quoted = false;
                } else {
                    values.push(byte);
                }
            } else if byte == options.delimiter {
                break;
            } else if byte == options.quote {
                quoted = true;
                was_quoted = true;
            } else {
                values.push(byte);
            }
            at += 1;
        }
        if quoted {
            return Err(bad("unterminated CSV quoted field"));
        }
        let i = fields.len();
        let like_null = values[start..] == *options.null.as_bytes();
        let compared = if was_quoted {
            force_null.get(i).copied().unwrap_or(false)
        } else {
            !force_not_null.get(i).copied().unwrap_or(false)
        };
        fields.push(Field { start, end: values.len(), null: like_null && compared });
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnomon_parser::{ast::Statement, parse};

    struct Pieces(Vec<Vec<u8>>);
    impl CopySource for Pieces {
        fn next(&mut self) -> Result<Option<Vec<u8>>> {
            Ok(if self.0.is_empty() { None } else { Some(self.0.remove(0)) })
        }
    }

    fn rows(with: &str, data: &[u8], piece: usize) -> Result<Vec<Vec<Option<String>>>> {
        let sql = format!("COPY t FROM STDIN WITH ({with})");
        let statements = parse(&sql).unwrap();
        let Statement::Copy(copy) = &statements[0].statement else { panic!("not COPY") };
        let options = Options::of(copy, Encoding::UTF8)?;
        let pieces = data.chunks(piece).map(<[u8]>::to_vec).collect();
        let columns = ["a".to_owned(), "b".to_owned()];
        let mut rows = Rows::new(Box::new(Pieces(pieces)), options, &columns)?;
        let mut all = Vec::new();
        while rows.next(&columns)? {
            let text = |i| rows.field(i).map(|bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned());
            all.push((0..rows.width()).map(text).collect());
        }
        Ok(all)
    }

    fn same(with: &str, data: &[u8], expected: &[&[Option<&str>]]) {
        for piece in [1, 2, 3, 5, 1000] {
            let found = rows(with, data, piece).unwrap();
            let found: Vec<Vec<Option<&str>>> =
                found.iter().map(|row| row.iter().map(|field| field.as_deref()).collect()).collect();
            assert_eq!(found, expected, "{with} in pieces of {piece}");
        }
    }

    #[test]
    fn text_is_taken_apart_wherever_it_is_cut() {
        same(
            "format text",
            b"1\tab\n2\t\\N\n\\\\N\t\\x41\\102\\t\\q\nx\\\ny\t\n\\.\nrest\n",
            &[
                &[Some("1"), Some("ab")],
                &[Some("2"), None],
                &[Some("\\N"), Some("AB\tq")],
                &[Some("x\ny"), Some("")],
            ],
        );
        same("delimiter '|', null ''", b"1|\n||", &[&[Some("1"), None], &[None, None, None]]);
        same("header true", b"x\ty\n1\t2", &[&[Some("1"), Some("2")]]);
    }

    #[test]
    fn csv_is_taken_apart_wherever_it_is_cut() {
        same(
            "format csv",
            b"1,\"a,\"\"b\"\"\"\n,\"\"\n\"two\nlines\",x\n",
            &[&[Some("1"), Some("a,\"b\"")], &[None, Some("")], &[Some("two\nlines"), Some("x")]],
        );
        same(
            "format csv, quote '''', escape '\\', null 'NIL', force_null (b), force_not_null (a)",
            b"NIL,'NIL'\n'a\\'b\n',x\n",
            &[&[Some("NIL"), None], &[Some("a'b\n"), Some("x")]],
        );
    }

    #[test]
    fn bad_data_is_refused() {
        let state = |with: &str, data: &[u8]| rows(with, data, 7).unwrap_err().state();
        assert_eq!(state("format csv", b"1,\"open\n"), SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(state("format csv, header match", b"a,c\n"), SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(state("format binary", b"PGCOPY"), SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(state("format xml", b""), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(state("delimiter 'ab'", b""), SqlState::FEATURE_NOT_SUPPORTED);
        let mut data = super::super::BINARY_SIGNATURE.to_vec();
        data.extend_from_slice(&[0; 8]);
        data.extend_from_slice(&[0, 2, 0, 0, 0, 1, b'x', 0xff, 0xff, 0xff, 0xff]);
        same("format binary", &data, &[&[Some("x"), None]]);
        data.extend_from_slice(&[0xff, 0xff]);
        same("format binary", &data, &[&[Some("x"), None]]);
        data.push(0);
        assert_eq!(state("format binary", &data), SqlState::BAD_COPY_FILE_FORMAT);
        data.pop();
        data[20] = 9;
        assert_eq!(state("format binary", &data), SqlState::BAD_COPY_FILE_FORMAT);
    }
}

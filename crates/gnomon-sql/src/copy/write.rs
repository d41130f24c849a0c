//! COPY TO: rows as text, CSV or binary data.

use std::borrow::Cow;

use super::options::{DataFormat, Header, Options};
use crate::{
    Result,
    types::{
        Context, Datum, Type,
        binary::{self, validate_text},
        text,
    },
};

/// Writes rows into a buffer.
pub(super) struct Writer {
    options: Options,
    types: Vec<Type>,
    force_quote: Vec<bool>,
    pub(super) buffer: Vec<u8>,
    field: String,
}

impl Writer {
    /// A writer of rows with these columns; its buffer holds what comes before the first row.
    pub(super) fn new(options: Options, names: &[String], types: Vec<Type>) -> Result<Writer> {
        let force_quote = options.force_quote.among(names)?;
        let mut writer = Writer { options, types, force_quote, buffer: Vec::new(), field: String::new() };
        if writer.options.format == DataFormat::Binary {
            writer.buffer.extend_from_slice(super::BINARY_SIGNATURE);
            // No flags, no extension.
            writer.buffer.extend_from_slice(&[0; 8]);
        } else if writer.options.header == Header::Present {
            for (i, name) in names.iter().enumerate() {
                writer.separate(i);
                writer.field.clear();
                writer.field.push_str(name);
                writer.put_field(false);
            }
            writer.buffer.push(b'\n');
        }
        Ok(writer)
    }

    pub(super) fn is_binary(&self) -> bool {
        self.options.format == DataFormat::Binary
    }

    /// The contents of the buffer in the encoding of the data.
    pub(super) fn encoded(&self) -> Result<Cow<'_, [u8]>> {
        if self.is_binary() || self.options.encoding.is_plain() {
            return Ok(Cow::Borrowed(&self.buffer));
        }
        self.options.encoding.encode(validate_text(&self.buffer)?)
    }

    pub(super) fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        if self.options.format == DataFormat::Binary {
            // Results have at most 1664 columns.
            let count = i16::try_from(row.len()).unwrap_or(i16::MAX);
            self.buffer.extend_from_slice(&count.to_be_bytes());
            for (value, ty) in row.iter().zip(&self.types) {
                if value.is_null() {
                    self.buffer.extend_from_slice(&(-1i32).to_be_bytes());
                    continue;
                }
                let at = self.buffer.len();
                self.buffer.extend_from_slice(&[0; 4]);
                binary::send(value, *ty, self.options.client_encoding, &mut self.buffer)?;
                let length = i32::try_from(self.buffer.len() - at - 4).unwrap_or(i32::MAX);
                self.buffer[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
            return Ok(());
        }
        for (i, value) in row.iter().enumerate() {
            self.separate(i);
            if value.is_null() {
                self.buffer.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            self.field.clear();
            let ty = self.types.get(i).copied().unwrap_or(Type::Text);
            text::write(context, value, ty, &mut self.field)?;
            self.put_field(self.force_quote.get(i).copied().unwrap_or(false));
        }
        self.buffer.push(b'\n');
        Ok(())
    }

    /// Writes the end mark that follows the last row, if the format has one.
    pub(super) fn finish(&mut self) {
        if self.options.format == DataFormat::Binary {
            self.buffer.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn separate(&mut self, i: usize) {
        if i > 0 {
            self.buffer.push(self.options.delimiter);
        }
    }

    fn put_field(&mut self, force_quote: bool) {
        match self.options.format {
            DataFormat::Csv => self.put_csv(force_quote),
            _ => self.put_text(),
        }
    }

    fn put_text(&mut self) {
        for &byte in self.field.as_bytes() {
            let escaped = match byte {
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                8 => b'b',
                11 => b'v',
                12 => b'f',
                _ if byte == self.options.delimiter => byte,
                _ => {
                    self.buffer.push(byte);
                    continue;
                }
            };
            self.buffer.extend_from_slice(&[b'\\', escaped]);
        }
    }

    fn put_csv(&mut self, force_quote: bool) {
        let Options { delimiter, quote, escape, .. } = self.options;
        let bytes = self.field.as_bytes();
        let special = |b: &u8| *b == delimiter || *b == quote || *b == b'\n' || *b == b'\r';
        let needs = force_quote
            || bytes == self.options.null.as_bytes()
            || bytes == b"\\."
            || bytes.iter().any(special);
        if !needs {
            self.buffer.extend_from_slice(bytes);
            return;
        }
        self.buffer.push(quote);
        for &byte in bytes {
            if byte == quote || byte == escape {
                self.buffer.push(escape);
            }
            self.buffer.push(byte);
        }
        self.buffer.push(quote);
    }
}

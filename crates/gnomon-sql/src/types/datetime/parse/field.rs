//! The fields that a text is cut into.

use std::borrow::Cow;

use super::{Misfit, word::is_word};

/// The most fields that a text may have.
const FIELDS_MAX: usize = 25;

/// The kind of a field, as its first characters tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum FieldKind {
    /// `12:34:56.7`
    Time,
    /// `2024-01-31`, `31/jan/2024`, `europe/berlin`, `040506-08`
    Date,
    /// `20240131`, `5`, `.5`
    Number,
    /// A run of letters: `pm`
    Word,
    /// `+02:00`
    Displacement,
    /// `-infinity`
    Signed,
}

/// A piece of the text. Spaces behind a sign are left out.
#[derive(Clone, Debug)]
pub(in super::super) struct Field<'a> {
    pub kind: FieldKind,
    pub text: Cow<'a, str>,
}

/// The rest of a text whose letters are in lower case.
struct Cutter<'a> {
    rest: &'a str,
}

impl<'a> Cutter<'a> {
    fn next(&self) -> u8 {
        self.rest.as_bytes().first().copied().unwrap_or(0)
    }

    fn skip(&mut self, test: impl Fn(u8) -> bool) {
        let end = self.rest.bytes().position(|byte| !test(byte)).unwrap_or(self.rest.len());
        // Only ASCII passes the tests, so this is between characters.
        self.rest = self.rest.get(end..).unwrap_or_default();
    }

    fn skip_one(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn skip_digits(&mut self) {
        self.skip(|byte| byte.is_ascii_digit());
    }

    /// Passes over a field that begins with a digit.
    fn number(&mut self) -> FieldKind {
        self.skip_digits();
        match self.next() {
            b':' => {
                self.skip(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
                FieldKind::Time
            }
            delimiter @ (b'-' | b'/' | b'.') => {
                self.skip_one();
                if !self.next().is_ascii_digit() {
                    self.skip(|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                    return FieldKind::Date;
                }
                self.skip_digits();
                if self.next() == delimiter {
                    self.skip(|byte| byte.is_ascii_digit() || byte == delimiter);
                    return FieldKind::Date;
                }
                if delimiter == b'.' { FieldKind::Number } else { FieldKind::Date }
            }
            _ => FieldKind::Number,
        }
    }

    /// Passes over a field that begins with a letter: a date with the name of its month first, the name of a zone, or
    /// another word.
    fn word(&mut self) -> FieldKind {
        let start = self.rest;
        self.skip(|byte| byte.is_ascii_alphabetic());
        let word = &start[..start.len() - self.rest.len()];
        let next = self.next();
        let goes_on =
            matches!(next, b'-' | b'/' | b'.') || ((next == b'+' || next.is_ascii_digit()) && !is_word(word));
        if !goes_on {
            return FieldKind::Word;
        }
        self.skip(|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
        FieldKind::Date
    }

    /// Passes over a field that begins with a sign.
    fn signed(&mut self) -> Result<FieldKind, Misfit> {
        self.skip_one();
        self.skip(is_space);
        match self.next() {
            byte if byte.is_ascii_digit() => {
                self.skip(|byte| byte.is_ascii_digit() || b":.-".contains(&byte));
                Ok(FieldKind::Displacement)
            }
            byte if byte.is_ascii_alphabetic() => {
                self.skip(|byte| byte.is_ascii_alphabetic());
                Ok(FieldKind::Signed)
            }
            _ => Err(Misfit::Format),
        }
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn without_space_behind_sign(text: &str) -> Cow<'_, str> {
    match text.as_bytes() {
        [b'+' | b'-', second, ..] if is_space(*second) => {
            let (sign, rest) = text.split_at(1);
            Cow::Owned(format!(
                "{sign}{}",
                rest.trim_start_matches(|c: char| c.is_ascii() && is_space(c as u8))
            ))
        }
        _ => Cow::Borrowed(text),
    }
}

impl<'a> Field<'a> {
    /// Cuts a text, whose letters are in lower case, into fields. Together they may have so many characters, an end of
    /// each included.
    pub(in super::super) fn all(text: &'a str, length_max: usize) -> Result<Vec<Field<'a>>, Misfit> {
        let mut cutter = Cutter { rest: text };
        let mut fields = Vec::new();
        let mut length = 0;
        while !cutter.rest.is_empty() {
            let start = cutter.rest;
            let kind = match cutter.next() {
                byte if is_space(byte) => {
                    cutter.skip(is_space);
                    continue;
                }
                byte if byte.is_ascii_digit() => cutter.number(),
                b'.' => {
                    cutter.skip_one();
                    cutter.skip_digits();
                    FieldKind::Number
                }
                byte if byte.is_ascii_alphabetic() => cutter.word(),
                b'+' | b'-' => cutter.signed()?,
                byte if byte.is_ascii_punctuation() => {
                    cutter.skip_one();
                    continue;
                }
                _ => return Err(Misfit::Format),
            };
            let text = without_space_behind_sign(&start[..start.len() - cutter.rest.len()]);
            length += text.len() + 1;
            if fields.len() == FIELDS_MAX || length > length_max {
                return Err(Misfit::Format);
            }
            fields.push(Field { kind, text });
        }
        Ok(fields)
    }
}

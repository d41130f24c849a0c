//! Errors of a text: PostgreSQL's message, state and position.

use std::fmt;

use crate::Position;

/// The kind of an error; each is one SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 42601: the grammar does not have it.
    Syntax,
    /// 22025: an escape in a string is not whole.
    InvalidEscape,
    /// 22P06: an escape in a string is not allowed here, or, of a warning, will not be one by the SQL standard.
    NonstandardEscape,
    /// 22021: the escapes of a string give bytes that are not UTF-8.
    InvalidBytes,
    /// 42602: a name is not one.
    InvalidName,
    /// 22023: a value is out of its range.
    InvalidParameter,
    /// 42P13: the definition of a routine lacks something.
    InvalidDefinition,
    /// 42P20: the frame of a window is none.
    InvalidWindow,
    /// 42710: it is given twice.
    DuplicateObject,
    /// 0A000: PostgreSQL refuses it as well.
    Unsupported,
    /// 54001: it nests too deeply.
    TooComplex,
    /// 57014: the caller's watch ended the work.
    Interrupted,
}

impl ErrorKind {
    /// Returns the SQLSTATE.
    pub fn sqlstate(self) -> &'static str {
        match self {
            ErrorKind::Syntax => "42601",
            ErrorKind::InvalidEscape => "22025",
            ErrorKind::NonstandardEscape => "22P06",
            ErrorKind::InvalidBytes => "22021",
            ErrorKind::InvalidName => "42602",
            ErrorKind::InvalidParameter => "22023",
            ErrorKind::InvalidDefinition => "42P13",
            ErrorKind::InvalidWindow => "42P20",
            ErrorKind::DuplicateObject => "42710",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::TooComplex => "54001",
            ErrorKind::Interrupted => "57014",
        }
    }
}

/// An error of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Its kind.
    pub kind: ErrorKind,
    /// PostgreSQL's message.
    pub message: String,
    /// More about it, if PostgreSQL tells more.
    pub detail: Option<&'static str>,
    /// Advice, if PostgreSQL gives one.
    pub hint: Option<&'static str>,
    /// The byte of the text that it is about.
    pub position: Position,
}

/// The result of parsing.
pub type Result<T, E = Box<Error>> = std::result::Result<T, E>;

impl Error {
    /// Returns an error of a kind.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>, position: Position) -> Box<Error> {
        Box::new(Error { kind, message: message.into(), detail: None, hint: None, position })
    }

    /// Returns an error of the grammar.
    pub(crate) fn syntax(message: impl Into<String>, position: Position) -> Box<Error> {
        Error::new(ErrorKind::Syntax, message, position)
    }

    pub(crate) fn detail(mut self: Box<Self>, detail: &'static str) -> Box<Error> {
        self.detail = Some(detail);
        self
    }

    pub(crate) fn hint(mut self: Box<Self>, hint: &'static str) -> Box<Error> {
        self.hint = Some(hint);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

//! The meaning of backslashes in strings, which three settings of PostgreSQL decide.

use crate::{
    error::{Error, ErrorKind, Result},
    position::Position,
};

/// The meaning of backslashes in strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringRules {
    /// True if a backslash in `'...'` stands for itself (`standard_conforming_strings`); else `'...'` is read as
    /// `E'...'`.
    pub is_standard: bool,
    /// True if the first escape of such a string gives a warning (`escape_string_warning`).
    pub warns: bool,
    /// True if `\'` may stand for a quote (`backslash_quote`).
    pub has_escaped_quotes: bool,
}

impl Default for StringRules {
    fn default() -> StringRules {
        StringRules { is_standard: true, warns: true, has_escaped_quotes: true }
    }
}

impl StringRules {
    /// True if strings mean what they mean by default.
    pub fn is_usual(self) -> bool {
        self.is_standard && self.has_escaped_quotes
    }

    /// Fails if strings of the kind of the one at `start`, `U&'...'`, are not to be read.
    pub(crate) fn check_unicode_string(self, start: usize) -> Result<()> {
        match self.is_standard {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Unsupported,
                "unsafe use of string constant with Unicode escapes",
                Position::new(start),
            )
            .detail(
                "String constants with Unicode escapes cannot be used when standard_conforming_strings is off.",
            )),
        }
    }

    /// The error of `\'` in the string at `start`.
    pub(crate) fn escaped_quote(start: usize) -> Box<Error> {
        let message = "unsafe use of \\' in a string literal";
        Error::new(ErrorKind::NonstandardEscape, message, Position::new(start))
            .hint("Use '' to write quotes in strings. \\' is insecure in client-only encodings.")
    }

    /// The warning about the string without an `E` at `start`, in which a backslash stands before `escaped`.
    pub(crate) fn warning(self, escaped: u8, start: usize) -> Option<Error> {
        if !self.warns {
            return None;
        }
        let (what, hint) = match escaped {
            b'\'' => ("\\'", "Use '' to write quotes in strings, or use the escape string syntax (E'...')."),
            b'\\' => ("\\\\", "Use the escape string syntax for backslashes, e.g., E'\\\\'."),
            _ => ("escape", "Use the escape string syntax for escapes, e.g., E'\\r\\n'."),
        };
        let message = format!("nonstandard use of {what} in a string literal");
        Some(*Error::new(ErrorKind::NonstandardEscape, message, Position::new(start)).hint(hint))
    }
}

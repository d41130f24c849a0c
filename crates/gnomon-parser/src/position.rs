//! Places in a text.

use std::fmt;

/// The offset of a byte in the text that was parsed, or none for what has no place in it.
///
/// Any two places are equal, as in PostgreSQL's comparison of trees: two trees are the same when they mean the same.
#[derive(Clone, Copy)]
pub struct Position(u32);

impl Position {
    /// No place.
    pub const NONE: Position = Position(u32::MAX);

    /// Returns the place of a byte. Texts are shorter than 4 GiB.
    pub fn new(byte: usize) -> Position {
        Position(u32::try_from(byte).unwrap_or(u32::MAX))
    }

    /// Returns the offset of the byte.
    pub fn byte(self) -> Option<usize> {
        (self.0 != u32::MAX).then_some(self.0 as usize)
    }

    /// Returns the place in `text` as PostgreSQL reports it: in characters, from 1.
    pub fn character(self, text: &str) -> Option<usize> {
        let byte = self.byte()?.min(text.len());
        Some(text.as_bytes()[..byte].iter().filter(|byte| (**byte as i8) >= -0x40).count() + 1)
    }
}

impl PartialEq for Position {
    fn eq(&self, _: &Position) -> bool {
        true
    }
}

impl Eq for Position {}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.byte() {
            Some(byte) => write!(f, "@{byte}"),
            None => f.write_str("@-"),
        }
    }
}

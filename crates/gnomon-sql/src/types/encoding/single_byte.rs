//! Encodings of one byte a character. The lower half is ASCII; the upper one stands in `single_byte.tsv`, which
//! `tools/encodings.sh` writes from a PostgreSQL 15 server: a line for each encoding, its name and the code points of
//! the bytes from 0x80, `-` for a byte that is no character.

use std::{collections::HashMap, sync::LazyLock};

use super::Encoding;

/// The upper half of an encoding.
pub(super) struct SingleByte {
    characters: Vec<Option<char>>,
    bytes: HashMap<char, u8>,
}

static TABLES: LazyLock<HashMap<&str, SingleByte>> =
    LazyLock::new(|| include_str!("single_byte.tsv").lines().filter_map(read).collect());

fn read(line: &'static str) -> Option<(&'static str, SingleByte)> {
    let (name, codes) = line.split_once('\t')?;
    let character = |code: &str| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    let characters: Vec<Option<char>> = codes.split(' ').map(character).collect();
    let bytes = (0x80..=0xff).zip(&characters).filter_map(|(byte, character)| Some(((*character)?, byte)));
    let bytes = bytes.collect();
    Some((name, SingleByte { characters, bytes }))
}

impl SingleByte {
    /// The table of an encoding, if it has one.
    pub(super) fn of(encoding: Encoding) -> Option<&'static SingleByte> {
        TABLES.get(encoding.name())
    }

    /// Returns the character of a byte of the upper half.
    pub(super) fn character(&self, byte: u8) -> Option<char> {
        *self.characters.get(usize::from(byte.checked_sub(0x80)?))?
    }

    /// Returns the byte of a character.
    pub(super) fn byte(&self, character: char) -> Option<u8> {
        self.bytes.get(&character).copied()
    }
}

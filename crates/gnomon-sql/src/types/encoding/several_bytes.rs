//! Encodings of several bytes a character: the structure of their characters as PostgreSQL checks it, the characters
//! themselves of encoding_rs, but for those in which PostgreSQL's tables differ ([`Differences`]).
//!
//! A character is written as encoding_rs writes it, or where that only reads it (the web writes fewer characters than
//! it reads), by the bytes that it is read from.

use std::{collections::HashMap, ops::RangeInclusive, sync::LazyLock};

use super::differences::Differences;

/// An encoding of several bytes a character.
pub(super) struct SeveralBytes {
    name: &'static str,
    structure: Structure,
    characters: &'static encoding_rs::Encoding,
    /// First bytes of characters that the web has added to the encoding.
    added: &'static [RangeInclusive<u8>],
    /// The bytes of the characters that encoding_rs reads and does not write.
    read_only: LazyLock<HashMap<char, Vec<u8>>>,
}

/// The structure of characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Structure {
    /// Two bytes of the upper half.
    Euc,
    /// As Euc; behind 0x8e one of half width, behind 0x8f two of JIS X 0212.
    EucJp,
    /// Two bytes, the first of them in two ranges; one byte of half width between these.
    Sjis,
    /// Two bytes, of which the first is in the upper half.
    Lead,
    /// As Lead, or four bytes of which the second is a digit.
    Gb18030,
}

macro_rules! encoding {
    ($name:ident, $structure:ident, $characters:ident $(, $added:expr)*) => {
        pub(super) static $name: SeveralBytes = SeveralBytes {
            name: stringify!($name),
            structure: Structure::$structure,
            characters: encoding_rs::$characters,
            added: &[$($added),*],
            read_only: LazyLock::new(|| read_only(&$name)),
        };
    };
}

encoding!(EUC_JP, EucJp, EUC_JP);
encoding!(EUC_CN, Euc, GBK);
encoding!(EUC_KR, Euc, EUC_KR);
encoding!(SJIS, Sjis, SHIFT_JIS, 0xf0..=0xf9);
encoding!(BIG5, Lead, BIG5, 0x81..=0xa0, 0xfa..=0xfe);
encoding!(GBK, Lead, GBK);
encoding!(UHC, Lead, EUC_KR);
encoding!(GB18030, Gb18030, GB18030);

fn is_upper(byte: u8) -> bool {
    (0xa1..=0xfe).contains(&byte)
}

/// The characters of two and, in EUC_JP, three bytes that are read and not written.
fn read_only(encoding: &SeveralBytes) -> HashMap<char, Vec<u8>> {
    let pairs = (0x80..=0xff_u8).flat_map(|first| (0x21..=0xff_u8).map(move |second| vec![first, second]));
    let of_jis = |pair: &Vec<u8>| [vec![0x8f], pair.clone()].concat();
    let has_three = encoding.structure == Structure::EucJp;
    let threes: Vec<Vec<u8>> = pairs.clone().filter(|_| has_three).map(|pair| of_jis(&pair)).collect();
    let mut found = HashMap::new();
    for bytes in pairs.chain(threes) {
        if encoding.is_character(&bytes)
            && encoding.length(&bytes) == bytes.len()
            && let Some(character) = encoding.read_by_web(&bytes)
            && encoding.written_by_web(character).is_none()
        {
            found.entry(character).or_insert(bytes);
        }
    }
    found
}

impl SeveralBytes {
    /// Returns how many bytes the first character has, by its first ones; of a cut one more than there are.
    pub(super) fn length(&self, bytes: &[u8]) -> usize {
        let Some(first) = bytes.first() else { return 1 };
        match (self.structure, first) {
            (_, 0..0x80) | (Structure::Sjis, 0xa1..=0xdf) => 1,
            (Structure::EucJp, 0x8f) => 3,
            (Structure::Gb18030, _) if matches!(bytes.get(1), Some(b'0'..=b'9')) => 4,
            _ => 2,
        }
    }

    /// True if the first bytes have the structure of a character.
    pub(super) fn is_character(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.get(..self.length(bytes)) else { return false };
        match (self.structure, bytes) {
            (_, [_]) => true,
            (Structure::EucJp, [0x8e, half]) => (0xa1..=0xdf).contains(half),
            (Structure::Euc | Structure::EucJp, [first, second]) => is_upper(*first) && is_upper(*second),
            (Structure::EucJp, [_, first, second]) => is_upper(*first) && is_upper(*second),
            (Structure::Sjis, [first, second]) => {
                matches!(first, 0x81..=0x9f | 0xe0..=0xfc) && matches!(second, 0x40..=0x7e | 0x80..=0xfc)
            }
            (Structure::Gb18030, [first, second]) => {
                matches!(first, 0x81..=0xfe) && matches!(second, 0x40..=0x7e | 0x80..=0xfe)
            }
            (Structure::Gb18030, [first, _, third, fourth]) => {
                matches!(first, 0x81..=0xfe) && matches!(third, 0x81..=0xfe) && fourth.is_ascii_digit()
            }
            // PostgreSQL has chosen this one to be wrong everywhere.
            (_, [0x8d, b' ']) => false,
            (_, bytes) => !bytes.contains(&0),
        }
    }

    /// Returns the character that these bytes are.
    pub(super) fn character(&self, bytes: &[u8]) -> Option<char> {
        let different = Differences::of(self.name).and_then(|differences| differences.read(bytes));
        different.unwrap_or_else(|| self.read_by_web(bytes))
    }

    /// As [`SeveralBytes::character`], by encoding_rs.
    pub(super) fn read_by_web(&self, bytes: &[u8]) -> Option<char> {
        let first = bytes.first()?;
        if self.added.iter().any(|added| added.contains(first)) {
            return None;
        }
        let text = self.characters.decode_without_bom_handling_and_without_replacement(bytes)?;
        let mut characters = text.chars();
        characters.next().filter(|_| characters.next().is_none())
    }

    /// Writes a character; false if the encoding has it not.
    pub(super) fn put(&self, character: char, out: &mut Vec<u8>) -> bool {
        let different = Differences::of(self.name).and_then(|differences| differences.written(character));
        if let Some(bytes) = different {
            out.extend_from_slice(bytes);
            return !bytes.is_empty();
        }
        match self.written_or_read_by_web(character) {
            Some(bytes) => {
                out.extend(bytes);
                true
            }
            None => false,
        }
    }

    /// Returns the bytes of a character that encoding_rs writes or, if it writes none, reads.
    pub(super) fn written_or_read_by_web(&self, character: char) -> Option<Vec<u8>> {
        self.written_by_web(character).or_else(|| self.read_only.get(&character).cloned())
    }

    fn written_by_web(&self, character: char) -> Option<Vec<u8>> {
        let mut buffer = [0; 4];
        let (bytes, _, is_wrong) = self.characters.encode(character.encode_utf8(&mut buffer));
        // An encoding with fewer characters shares the table of one with more, and some are written as others are.
        let is_own = self.is_character(&bytes) && self.length(&bytes) == bytes.len();
        (!is_wrong && is_own && self.read_by_web(&bytes) == Some(character)).then(|| bytes.into_owned())
    }
}

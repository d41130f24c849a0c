//! The encodings of characters that clients can use, by the names and numbers that PostgreSQL has for them.
//!
//! The database holds UTF-8, and so do all texts of the program. What a client sends is decoded where it comes in, what
//! it gets is encoded where it goes out: by the server's messages, the binary form of values, and COPY.
//!
//! How: encodings of one byte a character have tables (`single_byte`) that PostgreSQL 15 wrote; those of several
//! bytes (`several_bytes`) have the structure that PostgreSQL checks, and the characters of the crate encoding_rs,
//! which has the tables of the web, but for those that PostgreSQL has otherwise (`differences`).
//!
//! What it does not do: EUC_TW, EUC_JIS_2004, JOHAB, MULE_INTERNAL and SHIFT_JIS_2004 have no tables here, and cannot
//! be a client's encoding.

mod differences;
mod several_bytes;
mod single_byte;

use std::borrow::Cow;

use self::{several_bytes::SeveralBytes, single_byte::SingleByte};
use super::binary::validate_text;
use crate::{Result, SqlError, SqlState};

/// An encoding of characters: its place among `ENCODINGS`, which is PostgreSQL's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding(u8);

/// The form of an encoding's characters.
#[derive(Clone, Copy)]
enum Form {
    /// UTF-8. SQL_ASCII stands for the same bytes.
    Same,
    SingleByte,
    SeveralBytes(&'static SeveralBytes),
    /// Of none that there is a table for.
    Unknown,
}

use Form::{Same, SeveralBytes as Several, SingleByte as Single, Unknown};

/// The encodings by PostgreSQL's numbers, with the most bytes that a character takes.
const ENCODINGS: [(&str, Form, i32); 42] = [
    ("SQL_ASCII", Same, 1),
    ("EUC_JP", Several(&several_bytes::EUC_JP), 3),
    ("EUC_CN", Several(&several_bytes::EUC_CN), 3),
    ("EUC_KR", Several(&several_bytes::EUC_KR), 3),
    ("EUC_TW", Unknown, 4),
    ("EUC_JIS_2004", Unknown, 3),
    ("UTF8", Same, 4),
    ("MULE_INTERNAL", Unknown, 4),
    ("LATIN1", Single, 1),
    ("LATIN2", Single, 1),
    ("LATIN3", Single, 1),
    ("LATIN4", Single, 1),
    ("LATIN5", Single, 1),
    ("LATIN6", Single, 1),
    ("LATIN7", Single, 1),
    ("LATIN8", Single, 1),
    ("LATIN9", Single, 1),
    ("LATIN10", Single, 1),
    ("WIN1256", Single, 1),
    ("WIN1258", Single, 1),
    ("WIN866", Single, 1),
    ("WIN874", Single, 1),
    ("KOI8R", Single, 1),
    ("WIN1251", Single, 1),
    ("WIN1252", Single, 1),
    ("ISO_8859_5", Single, 1),
    ("ISO_8859_6", Single, 1),
    ("ISO_8859_7", Single, 1),
    ("ISO_8859_8", Single, 1),
    ("WIN1250", Single, 1),
    ("WIN1253", Single, 1),
    ("WIN1254", Single, 1),
    ("WIN1255", Single, 1),
    ("WIN1257", Single, 1),
    ("KOI8U", Single, 1),
    ("SJIS", Several(&several_bytes::SJIS), 2),
    ("BIG5", Several(&several_bytes::BIG5), 2),
    ("GBK", Several(&several_bytes::GBK), 2),
    ("UHC", Several(&several_bytes::UHC), 2),
    ("GB18030", Several(&several_bytes::GB18030), 4),
    ("JOHAB", Unknown, 3),
    ("SHIFT_JIS_2004", Unknown, 2),
];

/// Names beside an encoding's own, by their letters and digits.
const ALIASES: [(&str, &str); 39] = [
    ("abc", "WIN1258"),
    ("alt", "WIN866"),
    ("iso88591", "LATIN1"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("koi8", "KOI8R"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("unicode", "UTF8"),
    ("vscii", "WIN1258"),
    ("win", "WIN1251"),
    ("win932", "SJIS"),
    ("win936", "GBK"),
    ("win949", "UHC"),
    ("win950", "BIG5"),
    ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"),
    ("windows1252", "WIN1252"),
    ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"),
    ("windows1255", "WIN1255"),
    ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"),
    ("windows1258", "WIN1258"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
    ("windows932", "SJIS"),
    ("windows936", "GBK"),
    ("windows949", "UHC"),
    ("windows950", "BIG5"),
];

/// The letters and digits of a name, which alone count.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

impl Encoding {
    /// The encoding of the database.
    pub const UTF8: Encoding = Encoding(6);

    /// The encoding of this name.
    pub fn named(name: &str) -> Option<Encoding> {
        let wanted = letters(name);
        let wanted = match ALIASES.iter().find(|(alias, _)| *alias == wanted) {
            Some((_, own)) => letters(own),
            None => wanted,
        };
        let place = ENCODINGS.iter().position(|(own, ..)| letters(own) == wanted)?;
        u8::try_from(place).ok().map(Encoding)
    }

    /// The encoding of this number.
    pub fn numbered(number: i32) -> Option<Encoding> {
        let place = u8::try_from(number).ok()?;
        ENCODINGS.get(usize::from(place)).map(|_| Encoding(place))
    }

    /// Returns its number.
    pub fn number(self) -> i32 {
        self.0.into()
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        ENCODINGS.get(usize::from(self.0)).map_or("", |(name, ..)| name)
    }

    /// Returns the most bytes that a character of it takes.
    pub fn character_bytes_max(self) -> i32 {
        ENCODINGS.get(usize::from(self.0)).map_or(1, |(.., bytes)| *bytes)
    }

    fn form(self) -> Form {
        ENCODINGS.get(usize::from(self.0)).map_or(Unknown, |(_, form, _)| *form)
    }

    /// True if its bytes are those of the database.
    pub fn is_plain(self) -> bool {
        matches!(self.form(), Same)
    }

    /// True if only clients may have it, since bytes of ASCII may be parts of its other characters.
    pub fn is_client_only(self) -> bool {
        const LAST_OF_SERVERS: u8 = 34;
        self.0 > LAST_OF_SERVERS
    }

    /// True if texts can be brought to and from it.
    pub fn is_known(self) -> bool {
        !matches!(self.form(), Unknown)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// 22021 for bytes that are no characters of it, or for a zero byte; 22P05 for characters that UTF-8 has not.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        match self.form() {
            Same => validate_text(bytes).map(Cow::Borrowed),
            _ if bytes.is_ascii() && !bytes.contains(&0) => validate_text(bytes).map(Cow::Borrowed),
            _ => self.decode_characters(bytes).map(Cow::Owned),
        }
    }

    fn decode_characters(self, bytes: &[u8]) -> Result<String> {
        let table = SingleByte::of(self);
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 2);
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let length = self.verified_length(rest).ok_or_else(|| self.invalid(rest))?;
            let (character, behind) = rest.split_at(length);
            rest = behind;
            let decoded = match self.form() {
                _ if first.is_ascii() && length == 1 => Some(char::from(first)),
                Single => table.and_then(|table| table.character(first)),
                Several(encoding) => encoding.character(character),
                Same | Unknown => None,
            };
            text.push(decoded.ok_or_else(|| untranslatable(character, self, Encoding::UTF8))?);
        }
        Ok(text)
    }

    /// Writes a text.
    ///
    /// # Errors
    /// 22P05 for a character that the encoding has not.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>> {
        if self.is_plain() || text.is_ascii() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let table = SingleByte::of(self);
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            let is_encoded = match self.form() {
                _ if character.is_ascii() => {
                    bytes.push(character as u8);
                    true
                }
                Single => {
                    let byte = table.and_then(|table| table.byte(character));
                    bytes.extend(byte);
                    byte.is_some()
                }
                Several(encoding) => encoding.put(character, &mut bytes),
                Same | Unknown => false,
            };
            if !is_encoded {
                let mut buffer = [0; 4];
                let own = character.encode_utf8(&mut buffer).as_bytes();
                return Err(untranslatable(own, Encoding::UTF8, self));
            }
        }
        Ok(Cow::Owned(bytes))
    }

    /// Returns how many of these bytes, which can be cut anywhere, are whole characters.
    pub fn whole_characters(self, bytes: &[u8]) -> usize {
        let Several(encoding) = self.form() else { return bytes.len() };
        let mut whole = 0;
        while let Some(rest) = bytes.get(whole..).filter(|rest| !rest.is_empty()) {
            let length = encoding.length(rest);
            if length > rest.len() {
                break;
            }
            whole += length;
        }
        whole
    }

    /// Returns how many bytes the first character has, if they are a character's.
    fn verified_length(self, bytes: &[u8]) -> Option<usize> {
        match (self.form(), bytes.first()?) {
            (_, 0) => None,
            (Several(encoding), _) => encoding.is_character(bytes).then(|| encoding.length(bytes)),
            _ => Some(1),
        }
    }

    /// The error of bytes that begin with no character.
    fn invalid(self, bytes: &[u8]) -> SqlError {
        let promised = match self.form() {
            Several(encoding) => encoding.length(bytes),
            _ => 1,
        };
        let shown = hex(bytes.get(..promised.min(bytes.len())).unwrap_or_default());
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"{}\": {shown}", self.name()),
        )
    }
}

/// The error of a character that another encoding has not.
fn untranslatable(character: &[u8], from: Encoding, to: Encoding) -> SqlError {
    SqlError::new(
        SqlState::UNTRANSLATABLE_CHARACTER,
        format!(
            "character with byte sequence {} in encoding \"{}\" has no equivalent in encoding \"{}\"",
            hex(character),
            from.name(),
            to.name()
        ),
    )
}

/// Bytes as messages show them.
fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Encoding {
        Encoding::named(name).expect(name)
    }

    #[test]
    fn names_and_numbers_are_postgresql_s() {
        for (name, own, number) in [
            ("utf-8", "UTF8", 6),
            ("ISO_8859-1", "LATIN1", 8),
            ("Windows-1252", "WIN1252", 24),
            ("mskanji", "SJIS", 35),
        ] {
            assert_eq!((of(name).name(), of(name).number()), (own, number));
            assert_eq!(Encoding::numbered(number), Some(of(name)));
        }
        assert_eq!(Encoding::named("latin0"), None);
        assert_eq!(Encoding::numbered(42), None);
        assert!(ALIASES.iter().all(|(_, own)| ENCODINGS.iter().any(|(name, ..)| name == own)));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (name, form, _) in ENCODINGS {
            let encoding = of(name);
            let characters: Vec<char> = ('\u{80}'..='\u{ffff}').step_by(7).collect();
            let (mut written, mut same) = (0, 0);
            for character in characters {
                let text = format!("a{character}b");
                let Ok(bytes) = encoding.encode(&text) else { continue };
                written += 1;
                // PostgreSQL writes some characters as others that look like them.
                let read = encoding.decode(&bytes).expect(name);
                assert_eq!(encoding.encode(&read).expect(name), bytes, "{name} {character}");
                same += usize::from(read == text);
                for end in 0..bytes.len() {
                    assert!(encoding.whole_characters(&bytes[..end]) <= end);
                }
                assert_eq!(encoding.whole_characters(&bytes), bytes.len(), "{name} {bytes:x?}");
            }
            let least = match form {
                Same => 9000,
                Single => 5,
                Several(_) => 1000,
                Unknown => 0,
            };
            assert!(written >= least && encoding.is_known() == (written > 0), "{name} {written}");
            assert!(written - same <= 5, "{name} {same} of {written}");
        }
    }

    #[test]
    fn wrong_bytes_and_characters_are_told_of() {
        let message = |result: Result<Cow<'_, str>>| result.expect_err("an error").report().message.clone();
        assert_eq!(
            message(of("LATIN1").decode(b"a\0")),
            "invalid byte sequence for encoding \"LATIN1\": 0x00"
        );
        assert_eq!(
            message(of("EUC_JP").decode(b"\xa4'")),
            "invalid byte sequence for encoding \"EUC_JP\": 0xa4 0x27"
        );
        assert_eq!(
            message(of("WIN1252").decode(b"\x81")),
            "character with byte sequence 0x81 in encoding \"WIN1252\" has no equivalent in encoding \"UTF8\""
        );
        let error = of("LATIN1").encode("\u{20ac}").expect_err("no euro");
        assert_eq!(error.state(), SqlState::UNTRANSLATABLE_CHARACTER);
        // Bytes of any kind are read or refused.
        for (name, ..) in ENCODINGS {
            for first in 0..=0xff {
                for second in [0, 0x27, 0x30, 0x5c, 0x80, 0xa1, 0xff] {
                    let _ = of(name).decode(&[first, second, first]);
                    let _ = of(name).whole_characters(&[first, second, first]);
                }
            }
        }
    }
}

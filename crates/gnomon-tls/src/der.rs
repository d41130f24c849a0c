//! Reading of DER (X.690), as far as certificates need it.
//!
//! Promises: nothing beyond the bytes that are given is read, and a length that is indefinite, not minimal or beyond
//! their end is refused.
//!
//! Not done here: tags of several bytes, which certificates do not have; values in their types, but object identifiers
//! and times.

/// Tags of values.
pub const INTEGER: u8 = 0x02;
pub const OBJECT_IDENTIFIER: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const NUMERIC_STRING: u8 = 0x12;
pub const PRINTABLE_STRING: u8 = 0x13;
pub const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// The first field of those that are told apart by their tags.
pub const FIELD_0: u8 = 0xa0;

/// Values one behind the other, of which the next is read.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next value: its tag and its contents.
    pub fn value(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let is_minimal = length[0] != 0 && (length.len() > 1 || length[0] >= 0x80);
                let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
                (is_minimal.then_some(length)?, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }

    /// Reads the contents of the next value if it has this tag.
    pub fn tagged(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = Reader(self.0);
        let (_, contents) = ahead.value().filter(|(found, _)| *found == tag)?;
        *self = ahead;
        Some(contents)
    }

    /// Reads the values within the next value, which has this tag.
    pub fn within(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.tagged(tag).map(Reader)
    }

    /// Reads an object identifier as numbers with dots between them.
    pub fn object_identifier(&mut self) -> Option<String> {
        let mut numbers = Vec::new();
        let mut number = 0_u64;
        let bytes = self.tagged(OBJECT_IDENTIFIER)?;
        for &byte in bytes {
            number = number.checked_mul(0x80)? | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                numbers.push(std::mem::take(&mut number));
            }
        }
        if bytes.last()? & 0x80 != 0 {
            return None;
        }
        // The first two numbers are one.
        let first = (numbers[0] / 40).min(2);
        numbers[0] -= first * 40;
        let texts = [first].into_iter().chain(numbers).map(|number| number.to_string());
        Some(texts.collect::<Vec<_>>().join("."))
    }

    /// Reads a time in the form of RFC 5280 (section 4.1.2.5), as seconds since 1970.
    pub fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.value()?;
        let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        let number = |digits: &[u8]| digits.iter().fold(0, |all, digit| all * 10 + i64::from(digit - b'0'));
        let (year, rest) = match (tag, digits.len()) {
            (UTC_TIME, 12) => match number(&digits[..2]) {
                year @ 0..50 => (2000 + year, &digits[2..]),
                year => (1900 + year, &digits[2..]),
            },
            (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
            _ => return None,
        };
        let &[month, day, hour, minute, second] = rest.chunks(2).map(number).collect::<Vec<_>>().as_slice()
        else {
            return None;
        };
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // Years from March, so that the day that not every year has is the last.
        let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days_before = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1;
        Some((days_before - DAYS_TO_1970) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_minimal_and_within_the_bytes() {
        let long = [&[0x04, 0x81, 0x80][..], &[7; 0x80]].concat();
        assert_eq!(Reader::new(&long).value(), Some((0x04, &[7; 0x80][..])));
        let mut two = Reader::new(&[0x02, 1, 5, 0x05, 0]);
        assert_eq!((two.tagged(0x05), two.tagged(INTEGER)), (None, Some(&[5][..])));
        assert_eq!((two.value(), two.is_empty(), two.value()), (Some((0x05, &[][..])), true, None));
        for wrong in [
            &[][..],
            &[0x04],
            &[0x04, 1],
            &[0x04, 0x80, 0, 0],
            &[0x04, 0x81, 1, 7],
            &[0x04, 0x82, 0, 0x80],
            &[0x04, 0x85, 0, 0, 0, 0, 1],
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x1f, 0x20, 1, 7],
        ] {
            assert_eq!(Reader::new(wrong).value(), None, "{wrong:?}");
        }
    }

    #[test]
    fn object_identifiers_have_dots() {
        let read = |bytes: &[u8]| Reader::new(&[&[6, bytes.len() as u8], bytes].concat()).object_identifier();
        assert_eq!(read(&[0x55, 4, 3]).as_deref(), Some("2.5.4.3"));
        assert_eq!(read(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]).as_deref(), Some("1.2.840.113549"));
        assert_eq!(read(&[0x88, 0x37]).as_deref(), Some("2.999"));
        assert_eq!((read(&[]), read(&[0x55, 0x84]), read(&[0xff; 12])), (None, None, None));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let read =
            |tag: u8, text: &str| Reader::new(&[&[tag, text.len() as u8], text.as_bytes()].concat()).time();
        for (text, second) in [
            ("19700101000000Z", 0),
            ("20000229235959Z", 951_868_799),
            ("20000301000000Z", 951_868_800),
            ("19691231235959Z", -1),
            ("20500101000000Z", 2_524_608_000),
            ("99991231235959Z", 253_402_300_799),
            ("00000301000000Z", -62_162_035_200),
        ] {
            assert_eq!(read(GENERALIZED_TIME, text), Some(second), "{text}");
        }
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        for wrong in [
            "20230229000000Z",
            "20231301000000Z",
            "20230001000000Z",
            "20230100000000Z",
            "20230101240000Z",
            "20230101006000Z",
            "20230101000060Z",
            "20230101000000",
            "2023010100000Z",
            "2023010100000+Z",
            "",
        ] {
            assert_eq!(read(GENERALIZED_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(read(SEQUENCE, "20230101000000Z"), None);
    }
}

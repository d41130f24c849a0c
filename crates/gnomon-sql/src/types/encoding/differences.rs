//! The characters that PostgreSQL's encodings of several bytes have otherwise than the web's.
//!
//! They stand in `several_bytes.tsv`, a line each: the encoding, `read` or `write`, what is read or written and what it
//! becomes, both in hexadecimal; without the last, a range of what is none. The test of this module compares all
//! characters with a file that `tools/encodings.sh` has asked a PostgreSQL server for, and writes that table.

use std::{collections::HashMap, sync::LazyLock};

/// The characters in which an encoding differs.
#[derive(Default)]
pub(super) struct Differences {
    /// By their bytes as a number; none for bytes that are no character.
    read: HashMap<u32, Option<char>>,
    /// Their bytes; empty for a character that the encoding has not.
    written: HashMap<char, Vec<u8>>,
}

static TABLES: LazyLock<HashMap<&str, Differences>> = LazyLock::new(|| {
    let mut tables = HashMap::new();
    for line in include_str!("several_bytes.tsv").lines() {
        add(&mut tables, line);
    }
    tables
});

/// Adds a line.
fn add(tables: &mut HashMap<&'static str, Differences>, line: &'static str) {
    let fields: Vec<&str> = line.split('\t').collect();
    let [encoding, direction, from, to] = fields[..] else { return };
    let table = tables.entry(encoding).or_default();
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let (first, last) = from.split_once('-').unwrap_or((from, from));
    let (Some(first), Some(last)) = (number(first), number(last)) else { return };
    for from in first..=last {
        if direction == "read" {
            table.read.insert(from, number(to).and_then(char::from_u32));
        } else if let Some(character) = char::from_u32(from) {
            table.written.insert(character, number(to).map(bytes_of).unwrap_or_default());
        }
    }
}

/// The bytes of a number, from the first that is not zero on.
fn bytes_of(number: u32) -> Vec<u8> {
    number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect()
}

fn number_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

impl Differences {
    /// Returns the differences of an encoding, if it has some.
    pub(super) fn of(encoding: &str) -> Option<&'static Differences> {
        TABLES.get(encoding)
    }

    /// Returns what these bytes are, if that is different.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Option<char>> {
        self.read.get(&number_of(bytes)).copied()
    }

    /// Returns the bytes of a character, if they are different; none of them if it has none.
    pub(super) fn written(&self, character: char) -> Option<&[u8]> {
        self.written.get(&character).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::types::encoding::{ENCODINGS, Encoding, Form, several_bytes::SeveralBytes};

    /// An encoding as PostgreSQL has it.
    #[derive(Default)]
    struct Asked {
        read: HashMap<u32, u32>,
        written: HashMap<u32, u32>,
    }

    fn asked(file: &str) -> HashMap<&str, Asked> {
        let mut encodings: HashMap<&str, Asked> = HashMap::new();
        for line in file.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [encoding, direction, from, to] = fields[..] else { panic!("{line}") };
            let number = |digits| u32::from_str_radix(digits, 16).unwrap();
            let asked = encodings.entry(encoding).or_default();
            let by_direction = if direction == "read" { &mut asked.read } else { &mut asked.written };
            by_direction.insert(number(from), number(to));
        }
        encodings
    }

    /// The bytes that were asked for: two, and three behind 0x8f or four of which the second is a digit.
    fn sequences(encoding: &str) -> Vec<u32> {
        let mut all: Vec<u32> = (0x8000..=0xffff).collect();
        match encoding {
            "EUC_JP" => all.extend(0x8fa1a1..=0x8ffefe),
            "GB18030" => {
                let ends =
                    (0x81..=0xfe).flat_map(|third| (0x30..=0x39).map(move |fourth| third << 8 | fourth));
                let begins =
                    (0x81..=0x84).flat_map(|first| (0x30..=0x39).map(move |second| first << 8 | second));
                all.extend(begins.flat_map(|begin| ends.clone().map(move |end| begin << 16 | end)));
            }
            _ => {}
        }
        all.retain(|number| number & 0xff != 0);
        all
    }

    fn characters() -> impl Iterator<Item = char> {
        ('\u{80}'..='\u{ffff}').chain('\u{20000}'..='\u{2ffff}')
    }

    /// Writes the lines of what is different, ranges of none together.
    fn lines(out: &mut String, head: &str, different: &[(u32, Option<u32>)]) {
        let is_next =
            |a: &(u32, Option<u32>), b: &(u32, Option<u32>)| a.1.is_none() && b.1.is_none() && a.0 + 1 == b.0;
        for run in different.chunk_by(is_next) {
            let (first, to) = run[0];
            let last = run[run.len() - 1].0;
            match to {
                Some(to) => writeln!(out, "{head}\t{first:x}\t{to:x}"),
                None if first == last => writeln!(out, "{head}\t{first:x}\t"),
                None => writeln!(out, "{head}\t{first:x}-{last:x}\t"),
            }
            .unwrap();
        }
    }

    fn table(name: &str, encoding: &SeveralBytes, asked: &Asked) -> String {
        let mut out = String::new();
        let by_web = |number: &u32| {
            let bytes = bytes_of(*number);
            let is_one = encoding.is_character(&bytes) && encoding.length(&bytes) == bytes.len();
            is_one.then(|| encoding.read_by_web(&bytes)).flatten().map(u32::from)
        };
        let read = sequences(name).into_iter().map(|number| (number, asked.read.get(&number).copied()));
        let read: Vec<_> = read.filter(|(number, to)| by_web(number) != *to).collect();
        lines(&mut out, &format!("{name}\tread"), &read);
        let by_web = |c: char| encoding.written_or_read_by_web(c).map(|bytes| number_of(&bytes));
        let written = characters().map(|c| (c, asked.written.get(&u32::from(c)).copied()));
        let written = written.filter(|(c, to)| by_web(*c) != *to).map(|(c, to)| (u32::from(c), to));
        lines(&mut out, &format!("{name}\twrite"), &written.collect::<Vec<_>>());
        out
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the table is for the source, not for the engine")]
    #[ignore = "needs a file of tools/encodings.sh, which GNOMON_ENCODINGS names"]
    fn characters_are_postgresql_s() {
        let file = std::fs::read_to_string(std::env::var("GNOMON_ENCODINGS").unwrap()).unwrap();
        let asked = asked(&file);
        let mut wanted = String::new();
        for (name, form, _) in ENCODINGS {
            if let Form::SeveralBytes(encoding) = form {
                wanted.push_str(&table(name, encoding, &asked[name]));
            }
        }
        if wanted != include_str!("several_bytes.tsv") {
            let path = std::env::temp_dir().join("several_bytes.tsv");
            std::fs::write(&path, wanted).unwrap();
            panic!("the table is another one: {}", path.display());
        }
        for (name, of_name) in asked {
            let encoding = Encoding::named(name).unwrap();
            for number in sequences(name) {
                let read = encoding.decode(&bytes_of(number)).ok().map(|text| text.into_owned());
                let expected =
                    of_name.read.get(&number).map(|code| char::from_u32(*code).unwrap().to_string());
                // Two bytes may also be two characters.
                if expected.is_some() || read.as_ref().is_some_and(|text| text.chars().count() == 1) {
                    assert_eq!(read, expected, "{name} {number:x}");
                }
            }
            for character in characters() {
                let written = encoding.encode(&character.to_string()).ok().map(|bytes| number_of(&bytes));
                assert_eq!(
                    written,
                    of_name.written.get(&u32::from(character)).copied(),
                    "{name} {character:?}"
                );
            }
        }
    }
}

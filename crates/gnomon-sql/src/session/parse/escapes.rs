//! Errors of escapes in string constants, found as PostgreSQL finds them (scan.l and parser.c of its parser).

use std::{iter::Peekable, str::CharIndices};

use super::text::unterminated;
use crate::{Result, SqlError, SqlState, types::binary::validate_text};

/// Returns the error of a constant `E'...'` that the tokenizer crate cannot read. `start` is the byte of `sql` where the
/// constant begins.
pub(super) fn escape_string_error(sql: &str, start: usize) -> SqlError {
    scan(sql, start, escape_string)
}

/// Returns the error of a constant `U&'...'` that the tokenizer crate cannot read, or that has a NUL.
pub(super) fn unicode_string_error(sql: &str, start: usize) -> SqlError {
    scan(sql, start, unicode_string)
}

/// Characters of a constant with their places in the text.
type Characters<'a> = Peekable<CharIndices<'a>>;

fn scan(sql: &str, start: usize, of_kind: fn(&str, &mut Characters<'_>) -> Result<()>) -> SqlError {
    let rest = &sql[start..];
    let open = rest.find('\'').map_or(rest.len(), |quote| quote + 1);
    let mut characters = rest.char_indices().peekable();
    while characters.next_if(|(at, _)| *at < open).is_some() {}
    let position = |at: usize| sql[..start + at].chars().count() + 1;
    match of_kind(rest, &mut characters) {
        // The constant is sound, and the tokenizer crate does not join escapes.
        Ok(()) => SqlError::unsupported("a character of several escapes")
            .hint("Write the character itself, or its number as one escape.")
            .position(position(0)),
        // The scanners give places as bytes of the constant.
        Err(error) => match error.report().position {
            Some(at) => error.position(position(at)),
            None => error,
        },
    }
}

fn escape_string(literal: &str, characters: &mut Characters<'_>) -> Result<()> {
    let mut bytes = Vec::new();
    // The first half of a character in UTF-16.
    let mut first_half = None;
    loop {
        let Some((at, character)) = characters.next() else {
            return Err(match first_half {
                Some(_) => SqlError::new(SqlState::SYNTAX_ERROR, format!("{INVALID_PAIR} at end of input"))
                    .position(literal.len()),
                None => unterminated("quoted string", literal).position(0),
            });
        };
        let code = match (character, characters.peek().map(|(_, next)| *next)) {
            ('\\', Some(kind @ ('u' | 'U'))) => {
                characters.next();
                let length = if kind == 'u' { 4 } else { 8 };
                let digits = digits(characters, length, 16);
                if digits.len() < length {
                    return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape")
                        .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
                        .position(at));
                }
                Some((number(&digits, 16), length + 2))
            }
            _ => None,
        };
        let near = |message: &str, length: usize| {
            let text = literal.get(at..at + length).unwrap_or(&literal[at..]);
            SqlError::new(SqlState::SYNTAX_ERROR, format!("{message} at or near \"{text}\"")).position(at)
        };
        let is_second = code.is_some_and(|(code, _)| is_second_half(code));
        if is_second != first_half.is_some() {
            let length = code.map_or(character.len_utf8(), |(_, length)| length);
            return Err(near(INVALID_PAIR, length));
        }
        if let Some((code, length)) = code {
            match (first_half.take(), char::from_u32(code)) {
                (Some(first), _) => push(&mut bytes, joined(first, code)),
                (None, Some('\0')) => return Err(near(INVALID_VALUE, length)),
                (None, Some(character)) => push(&mut bytes, character),
                (None, None) if is_first_half(code) => first_half = Some(code),
                (None, None) => return Err(near(INVALID_VALUE, length)),
            }
            continue;
        }
        match character {
            '\'' => match characters.next_if(|(_, next)| *next == '\'') {
                Some(_) => bytes.push(b'\''),
                None => return validate_text(&bytes).map(|_| ()),
            },
            '\\' => match characters.next() {
                None => return Err(unterminated("quoted string", literal).position(0)),
                Some((_, 'x')) => match digits(characters, 2, 16).as_str() {
                    "" => bytes.push(b'x'),
                    digits => bytes.push(number(digits, 16) as u8),
                },
                Some((_, digit)) if digit.is_digit(8) => {
                    let digits = format!("{digit}{}", digits(characters, 2, 8));
                    // Its highest bit is lost, as in PostgreSQL.
                    bytes.push(number(&digits, 8) as u8);
                }
                Some((_, character)) => push(&mut bytes, character),
            },
            character => push(&mut bytes, character),
        }
    }
}

fn unicode_string(literal: &str, characters: &mut Characters<'_>) -> Result<()> {
    let mut doubled_quotes = 0;
    // PostgreSQL counts in the text with its quotes single.
    let error = |message: &str, at: usize, doubled_quotes: usize| {
        SqlError::new(SqlState::SYNTAX_ERROR, message).position(at - doubled_quotes)
    };
    // Its escapes are looked at when it has ended.
    if !has_end(characters.clone()) {
        return Err(unterminated("quoted string", literal).position(0));
    }
    let mut first_half = None;
    loop {
        let Some((at, character)) = characters.next() else { return Ok(()) };
        let code = match (character, characters.peek().map(|(_, next)| *next)) {
            ('\\', Some(next)) if next != '\\' => {
                let length = if characters.next_if(|(_, next)| *next == '+').is_some() { 6 } else { 4 };
                let digits = digits(characters, length, 16);
                if digits.len() < length {
                    return Err(error("invalid Unicode escape", at, doubled_quotes)
                        .hint("Unicode escapes must be \\XXXX or \\+XXXXXX."));
                }
                Some(number(&digits, 16))
            }
            _ => None,
        };
        if code.is_some_and(is_second_half) != first_half.is_some() {
            return Err(error(INVALID_PAIR, at, doubled_quotes));
        }
        match (code, first_half.take()) {
            (Some(_), Some(_)) => {}
            (Some(code), None) if is_first_half(code) => first_half = Some(code),
            (Some(code), None) if code == 0 || code > u32::from(char::MAX) => {
                return Err(error(INVALID_VALUE, at, doubled_quotes));
            }
            (Some(_), None) => {}
            (None, _) => {
                let is_doubled = characters.next_if(|(_, next)| *next == character && "'\\".contains(*next));
                match (character, is_doubled) {
                    ('\'', None) => return Ok(()),
                    ('\'', Some(_)) => doubled_quotes += 1,
                    _ => {}
                }
            }
        }
    }
}

/// True if a quote ends the constant.
fn has_end(mut characters: Characters<'_>) -> bool {
    while let Some((_, character)) = characters.next() {
        if character == '\'' && characters.next_if(|(_, next)| *next == '\'').is_none() {
            return true;
        }
    }
    false
}

const INVALID_VALUE: &str = "invalid Unicode escape value";
const INVALID_PAIR: &str = "invalid Unicode surrogate pair";

/// Takes the digits that come next, so many at most.
fn digits(characters: &mut Characters<'_>, most: usize, radix: u32) -> String {
    let mut digits = String::new();
    while digits.len() < most
        && let Some((_, digit)) = characters.next_if(|(_, next)| next.is_digit(radix))
    {
        digits.push(digit);
    }
    digits
}

/// The number of at most eight digits.
fn number(digits: &str, radix: u32) -> u32 {
    digits.chars().filter_map(|digit| digit.to_digit(radix)).fold(0, |number, digit| number * radix + digit)
}

fn is_first_half(code: u32) -> bool {
    (0xd800..0xdc00).contains(&code)
}

fn is_second_half(code: u32) -> bool {
    (0xdc00..0xe000).contains(&code)
}

fn joined(first: u32, second: u32) -> char {
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn push(bytes: &mut Vec<u8>, character: char) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

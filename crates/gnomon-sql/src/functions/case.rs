//! Upper and lower case, as PostgreSQL has them where the C library maps characters: each one to one.
//!
//! A character whose mapping is a text of several ones (`ß` to `SS`) stays as it is, and none depends on those around
//! it (`Σ` is always `σ`). The mappings themselves are those of Unicode.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    Result,
    types::{Context, limit::Pace},
};

/// Returns the only character of a mapping; of one to a text of several ones, `c` itself.
fn only(mut mapping: impl Iterator<Item = char>, c: char) -> char {
    match (mapping.next(), mapping.next()) {
        (Some(mapped), None) => mapped,
        _ => c,
    }
}

/// Returns a character in upper case.
pub(super) fn upper_char(c: char) -> char {
    // Greek letters with an iota below: these have a character for the beginning of a title, and else a text of two.
    let title = match c {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => return only(c.to_uppercase(), c),
    };
    char::from_u32(u32::from(c) + title).unwrap_or(c)
}

/// Returns a character in lower case.
pub(super) fn lower_char(c: char) -> char {
    match c {
        // Unicode keeps its dot as a character of its own.
        '\u{130}' => 'i',
        _ => only(c.to_lowercase(), c),
    }
}

/// Returns a text in upper case.
pub(super) fn upper(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_uppercase() } else { text.chars().map(upper_char).collect() }
}

/// Returns a text in lower case.
pub(super) fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(lower_char).collect() }
}

/// True for letters and decimal digits, of which words consist.
fn is_of_word(c: char) -> bool {
    static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d").ok());
    let is_digit = || DIGIT.as_ref().is_some_and(|digit| digit.is_match(c.encode_utf8(&mut [0; 4])));
    c.is_ascii_alphanumeric() || c.is_alphabetic() || c.is_numeric() && is_digit()
}

/// Returns a text whose words begin in upper case and go on in lower case.
pub(super) fn initcap(cx: &Context, text: &str) -> Result<String> {
    let mut pace = Pace::new(cx);
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        pace.step(1)?;
        out.push(if inside { lower_char(c) } else { upper_char(c) });
        inside = is_of_word(c);
    }
    Ok(out)
}

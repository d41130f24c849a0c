//! Functions that read a text by rules of the lexer: qualified names and Unicode escapes.

use super::{
    arguments::{boolean, invalid, text},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Scalar, Type, limit::Elements},
};

/// Splits a qualified name into its parts, as they are after quotes and case folding. With `strict`, nothing may follow
/// them.
fn parse_ident(name: &str, strict: bool) -> Result<Datum> {
    let wrong = || invalid(format!("string is not a valid identifier: \"{name}\""));
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let is_start = |c: char| c == '_' || c.is_ascii_alphabetic() || !c.is_ascii();
    let mut parts = Vec::new();
    let mut rest = name.trim_start_matches(is_space);
    let mut after_dot = false;
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut closed = quoted.char_indices().peekable();
            let mut text = String::new();
            rest = loop {
                match closed.next() {
                    None => return Err(wrong().detail("String has unclosed double quotes.")),
                    Some((_, '"')) if closed.peek().is_some_and(|(_, next)| *next == '"') => {
                        closed.next();
                        text.push('"');
                    }
                    Some((at, '"')) => break &quoted[at + 1..],
                    Some((_, c)) => text.push(c),
                }
            };
            if text.is_empty() {
                return Err(wrong().detail("Quoted identifier must not be empty."));
            }
            part = text;
        } else if rest.starts_with(is_start) {
            let is_end = |c: char| !(is_start(c) || c.is_ascii_digit() || c == '$');
            let end = rest.find(is_end).unwrap_or(rest.len());
            part = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
        } else if rest.starts_with('.') {
            return Err(wrong().detail("No valid identifier before \".\"."));
        } else if after_dot {
            return Err(wrong().detail("No valid identifier after \".\"."));
        } else {
            return Err(wrong());
        }
        parts.push(Datum::text(part));
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(next) => {
                after_dot = true;
                rest = next.trim_start_matches(is_space);
            }
            None if rest.is_empty() || !strict => break,
            None => return Err(wrong()),
        }
    }
    Ok(Elements::collect(parts)?.into_array(Scalar::Text))
}

/// Replaces escapes of code points by their characters: a backslash and 4 hexadecimal digits, or between them `+` (then 6
/// digits), `u` (4) or `U` (8).
fn unescape_unicode(text: &str) -> Result<Datum> {
    let malformed = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let pair = || malformed("invalid Unicode surrogate pair");
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let mut high: Option<u32> = None;
    while let Some(first) = rest.chars().next() {
        if first != '\\' || rest.starts_with("\\\\") {
            if high.is_some() {
                return Err(pair());
            }
            out.push(first);
            rest = &rest[if first == '\\' { 2 } else { first.len_utf8() }..];
            continue;
        }
        let (skipped, count) = match rest.as_bytes().get(1) {
            Some(b'+') => (2, 6),
            Some(b'u') => (2, 4),
            Some(b'U') => (2, 8),
            _ => (1, 4),
        };
        let digits = rest.get(skipped..skipped + count).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| {
            malformed("invalid Unicode escape")
                .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
        })?;
        rest = &rest[skipped + count..];
        let code = u32::from_str_radix(digits, 16).ok().filter(|code| (1..=0x0010_ffff).contains(code));
        let code = code.ok_or_else(|| {
            let digits = digits.trim_start_matches('0').to_ascii_uppercase();
            invalid(format!("invalid Unicode code point: {digits:0>4}"))
        })?;
        let code = match (high.take(), code) {
            (Some(high), 0xdc00..0xe000) => 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff),
            (Some(_), _) | (None, 0xdc00..0xe000) => return Err(pair()),
            (None, 0xd800..0xdc00) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        out.push(char::from_u32(code).ok_or_else(pair)?);
    }
    if high.is_some() { Err(pair()) } else { Ok(Datum::text(out)) }
}

pub(super) fn declare(all: &mut Declarations) {
    let names = Type::Array(Scalar::Text);
    all.add("parse_ident", &[Type::Text, Type::Bool], names, |_, a| parse_ident(text(a, 0)?, boolean(a, 1)?))
        .names(&["str", "strict"])
        .defaults(vec![Datum::Bool(true)]);
    all.add("unistr", &[Type::Text], Type::Text, |_, a| unescape_unicode(text(a, 0)?));
}

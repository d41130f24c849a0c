//! Places in the text of a statement, names in it, and what is wrong with it, as PostgreSQL says it.

use sqlparser::{
    ast::Ident,
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenizerError},
};

use super::depth::NESTING_MAX;
use crate::{SqlError, SqlState, types::binary::validate_text};

pub(super) fn too_complex() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint(format!("Statements may nest {NESTING_MAX} levels deep."))
}

/// The offset in bytes of a place in the text.
fn byte_offset(sql: &str, place: Location) -> usize {
    let line_start = match place.line.checked_sub(2) {
        None => 0,
        Some(lines) => sql
            .match_indices('\n')
            .nth(usize::try_from(lines).unwrap_or(usize::MAX))
            .map_or(0, |(i, _)| i + 1),
    };
    let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = &sql[line_start..];
    line_start + line.char_indices().nth(column).map_or(line.len(), |(i, _)| i)
}

/// A place in the text as PostgreSQL counts it: characters from 1.
fn position(sql: &str, place: Location) -> usize {
    sql[..byte_offset(sql, place)].chars().count() + 1
}

/// An error's place in the text as PostgreSQL counts it.
pub(crate) fn locate(error: SqlError, sql: &str) -> SqlError {
    let Some(place) = &error.report().place else { return error };
    let start = byte_offset(sql, place.start);
    let operator = place.operator.as_ref().and_then(|(operator, end)| {
        let text = sql.get(start..byte_offset(sql, *end))?;
        text.to_ascii_lowercase().find(&operator.to_ascii_lowercase())
    });
    let offset = start + operator.unwrap_or(0);
    let position = sql[..offset].chars().count() + 1;
    error.unplaced().position(position)
}

/// The error for a string `E'...'` with escapes of single bytes beyond ASCII (`\xff`, `\377`), which the tokenizer
/// refuses; none if it has none before its end.
fn byte_escapes_error(literal: &str) -> Option<SqlError> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut rest = literal.strip_prefix(['E', 'e'])?.strip_prefix('\'')?.chars().peekable();
    let mut escapes = false;
    loop {
        let c = rest.next()?;
        match (c, rest.peek()) {
            ('\'', Some('\'')) => {
                rest.next();
                bytes.push(b'\'');
            }
            ('\'', _) => break,
            ('\\', Some(kind)) => {
                let (radix, digits_max) = if *kind == 'x' { (16, 2) } else { (8, 3) };
                if radix == 16 || !kind.is_digit(8) {
                    rest.next();
                }
                let mut byte = None;
                for _ in
                    0..if radix == 16 || rest.peek().is_some_and(|c| c.is_digit(8)) { digits_max } else { 0 }
                {
                    let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
                    byte = Some((byte.unwrap_or(0) * radix + digit) & 0xff);
                    rest.next();
                }
                // What other escapes stand for does not matter here.
                let byte = byte.map_or(b'?', |byte| byte as u8);
                escapes |= !byte.is_ascii();
                bytes.push(byte);
            }
            (c, _) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    if !escapes {
        return None;
    }
    Some(match validate_text(&bytes) {
        Err(error) => error,
        Ok(_) => SqlError::unsupported("a character of several escaped bytes")
            .hint("Write the character itself, or its number as \\u0000."),
    })
}

/// The error for text that cannot be cut into tokens.
pub(super) fn tokenizer_error(error: &TokenizerError, sql: &str) -> SqlError {
    let message = error.message.trim_end_matches(" at ").trim_end();
    if message.starts_with("Unterminated encoded string")
        && let Some(error) = byte_escapes_error(&sql[byte_offset(sql, error.location)..])
    {
        return error;
    }
    let message = if message.starts_with("Unterminated string literal")
        || message.starts_with("Unterminated encoded string")
    {
        "unterminated quoted string".to_owned()
    } else {
        let mut chars = message.chars();
        chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message).position(position(sql, error.location))
}

/// The parser crate's error as PostgreSQL would put it.
pub(super) fn parser_error(error: ParserError, sql: &str) -> SqlError {
    let text = match error {
        ParserError::RecursionLimitExceeded => return too_complex(),
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
    };
    let place = text.rsplit_once(" at Line: ").and_then(|(_, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
    });
    let message = match text.rsplit_once("found: ").map(|(_, found)| found) {
        Some(found) => {
            let token = found.rsplit_once(" at Line: ").map_or(found, |(token, _)| token);
            if token == "EOF" {
                "syntax error at end of input".to_owned()
            } else {
                format!("syntax error at or near \"{token}\"")
            }
        }
        None => {
            let text = text.rsplit_once(" at Line: ").map_or(text.as_str(), |(text, _)| text);
            format!("syntax error: {text}")
        }
    };
    let report = SqlError::new(SqlState::SYNTAX_ERROR, message);
    match place {
        Some(place) if place.line > 0 => report.position(position(sql, place)),
        _ => report.position(sql.chars().count() + 1),
    }
}

/// A syntax error at the parser's next token.
pub(super) fn unexpected(parser: &Parser, sql: &str) -> SqlError {
    let next = parser.peek_token_ref();
    match &next.token {
        Token::EOF => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")
            .position(sql.chars().count() + 1),
        token => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{token}\""))
            .position(position(sql, next.span.start)),
    }
}

/// An identifier as PostgreSQL stores it: folded to lower case unless quoted.
pub(crate) fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

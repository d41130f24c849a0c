//! Places in the text of a statement, names in it, and what is wrong with it, as PostgreSQL says it.

use sqlparser::{
    ast::{Function, FunctionArg, FunctionArguments, Ident},
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenizerError},
};

use super::depth::{FLAT_LINKS_MAX, LINKS_MAX, NESTING_MAX};
use crate::{SqlError, SqlState};

pub(super) fn too_complex() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").hint(format!(
        "Statements may nest {NESTING_MAX} levels deep, with chains of {LINKS_MAX} operators, and of \
             {FLAT_LINKS_MAX} AND, OR and UNION."
    ))
}

/// The offset in bytes of a place in the text.
pub(super) fn byte_offset(sql: &str, place: Location) -> usize {
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

/// The error for text that cannot be cut into tokens.
pub(super) fn tokenizer_error(error: &TokenizerError, sql: &str) -> SqlError {
    let message = error.message.trim_end_matches(" at ").trim_end();
    let report = if message.starts_with("Unterminated encoded string") {
        let literal = &sql[byte_offset(sql, error.location)..];
        // The tokenizer also stops at escapes of bytes that are no characters of their own.
        if literal.matches('\'').count() > 1 && has_byte_escape(literal) {
            SqlError::unsupported("a character of escaped bytes")
                .hint("Write the character itself, or its number as \\u0000.")
        } else {
            unterminated()
        }
    } else if message.starts_with("Unterminated string literal") {
        unterminated()
    } else {
        let mut chars = message.chars();
        let message =
            chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect());
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    };
    report.position(position(sql, error.location))
}

fn unterminated() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "unterminated quoted string")
}

/// Whether there is an escape of a byte: `\x` or `\` and an octal digit.
fn has_byte_escape(literal: &str) -> bool {
    literal.split('\\').skip(1).any(|rest| rest.starts_with(|c: char| c == 'x' || c.is_digit(8)))
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

/// The arguments of what is written like a call of a function, if nothing is said but them.
pub(crate) fn plain_arguments(call: &Function) -> Option<&[FunctionArg]> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && call.within_group.is_empty()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.over.is_none();
    is_plain.then_some(&list.args)
}

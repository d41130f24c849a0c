//! Places in the text of a statement, names in it, and what is wrong with it, as PostgreSQL says it.

use sqlparser::{
    ast::{Function, FunctionArg, FunctionArguments, Ident},
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenizerError},
};

use super::{
    depth::{FLAT_LINKS_MAX, LINKS_MAX, NESTING_MAX},
    escapes::{escape_string_error, unicode_string_error},
};
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

/// The error for text that cannot be cut into tokens; `begins` is where the token begins that is wrong.
pub(super) fn tokenizer_error(error: &TokenizerError, begins: Location, sql: &str) -> SqlError {
    let token = byte_offset(sql, begins);
    // PostgreSQL has the N of N'...' as a token of its own.
    let start =
        if ["N'", "n'"].iter().any(|head| sql[token..].starts_with(head)) { token + 1 } else { token };
    let rest = &sql[start..];
    let begins_with =
        |prefix: &str| rest.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    if begins_with("E'") {
        return escape_string_error(sql, start);
    }
    if begins_with("U&'") {
        return unicode_string_error(sql, start);
    }
    let unterminated_kinds = [
        ("B'", "bit string literal"),
        ("X'", "hexadecimal string literal"),
        ("'", "quoted string"),
        ("\"", "quoted identifier"),
        ("$", "dollar-quoted string"),
        ("/*", "/* comment"),
    ];
    if let Some((_, kind)) = unterminated_kinds.iter().find(|(prefix, _)| begins_with(prefix)) {
        return unterminated(kind, rest).position(sql[..start].chars().count() + 1);
    }
    let message = error.message.trim_end_matches(" at ").trim_end();
    let mut chars = message.chars();
    let message = chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect());
    SqlError::new(SqlState::SYNTAX_ERROR, message).position(position(sql, error.location))
}

/// The error of a token that the text ends in.
pub(super) fn unterminated(kind: &str, rest: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("unterminated {kind} at or near \"{rest}\""))
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

//! A text's tokens, as the grammar wants them.
//!
//! The tokenizer crate reads a text as a whole and cannot be stopped, and the tokens of a text take many times its
//! memory. So a long text is given to it in pieces, and between them the caller looks at the interrupt and at the memory.
//! A token that ends close to the end of its piece may be a part of a longer one, so the next piece begins before it.

use sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError},
};

use super::{
    escapes::unicode_string_error,
    text::{byte_offset, tokenizer_error},
};
use crate::Result;

/// The length of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// No token depends on more characters behind its end.
const LOOKAHEAD: usize = 8;

/// Returns the tokens of a text. `watch` is told now and then how many there are so far.
pub(super) fn tokens_of(sql: &str, watch: &mut dyn FnMut(usize) -> Result<()>) -> Result<Vec<TokenWithSpan>> {
    tokens_by_pieces(sql, PIECE_BYTES, watch)
}

fn tokens_by_pieces(
    sql: &str,
    piece_bytes: usize,
    watch: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<TokenWithSpan>> {
    let mut wanted = Vec::new();
    let mut place = Place { byte: 0, location: Location { line: 1, column: 1 } };
    let mut previous = None;
    let mut length = piece_bytes;
    loop {
        let end = (place.byte.saturating_add(length)..sql.len())
            .find(|at| sql.is_char_boundary(*at))
            .unwrap_or(sql.len());
        let is_last = end == sql.len();
        let piece = &sql[place.byte..end];
        let mut tokens: Vec<TokenWithSpan> = previous.iter().cloned().collect();
        let before = tokens.len();
        let done = tokenize(piece, place.location, &mut tokens);
        if is_last {
            let begins = tokens.last().map_or(place.location, |token| token.span.end);
            done.map_err(|error| tokenizer_error(&error, begins, sql))?;
        } else {
            let sure = place.walk(piece, |byte, _| piece.len() - byte <= 4 * LOOKAHEAD);
            let kept = tokens.partition_point(|token| token.span.end <= sure.location);
            tokens.truncate(kept.max(before));
        }
        let Some(last) = tokens.get(before..).and_then(<[_]>::last) else {
            if is_last {
                return Ok(wanted);
            }
            // One token is longer than the piece; or what is wrong with the text shows at its end only.
            length *= 2;
            continue;
        };
        length = piece_bytes;
        let reached = last.span.end;
        previous = Some(last.clone());
        for token in tokens.drain(before..) {
            if matches!(&token.token, Token::UnicodeStringLiteral(text) if text.contains('\0')) {
                return Err(unicode_string_error(sql, byte_offset(sql, token.span.start)));
            }
            add(token, &mut wanted);
        }
        watch(wanted.len())?;
        if is_last {
            return Ok(wanted);
        }
        place = place.walk(piece, |_, location| location == reached);
    }
}

/// A place in the text.
#[derive(Clone, Copy)]
struct Place {
    byte: usize,
    location: Location,
}

impl Place {
    /// Goes on through `piece`, which begins here, to its first place (a byte of it, and where that is in the text) of which
    /// `ends` is true.
    fn walk(self, piece: &str, ends: impl Fn(usize, Location) -> bool) -> Place {
        let mut location = self.location;
        for (byte, character) in piece.char_indices() {
            if ends(byte, location) {
                return Place { byte: self.byte + byte, location };
            }
            // As the tokenizer counts.
            location = match character {
                '\n' => Location { line: location.line + 1, column: 1 },
                _ => Location { line: location.line, column: location.column + 1 },
            };
        }
        Place { byte: self.byte + piece.len(), location }
    }
}

/// Appends the tokens of a piece, with their locations in the text.
fn tokenize(piece: &str, begins: Location, tokens: &mut Vec<TokenWithSpan>) -> Result<(), TokenizerError> {
    let shift = |location: Location| match location.line {
        1 => Location { line: begins.line, column: location.column + begins.column - 1 },
        line => Location { line: line + begins.line - 1, column: location.column },
    };
    let shifted = |token: TokenWithSpan| TokenWithSpan {
        token: token.token,
        span: Span { start: shift(token.span.start), end: shift(token.span.end) },
    };
    Tokenizer::new(&PostgreSqlDialect {}, piece)
        .tokenize_with_location_into_buf_with_mapper(tokens, shifted)
        .map_err(|error| TokenizerError { location: shift(error.location), ..error })
}

/// Adds a token, without white space and in the parts that PostgreSQL has.
fn add(token: TokenWithSpan, wanted: &mut Vec<TokenWithSpan>) {
    let parts = match &token.token {
        Token::Whitespace(_) => return,
        Token::CustomBinaryOperator(operator) => split_signs(operator),
        _ => None,
    };
    match parts {
        None => wanted.push(token),
        Some(parts) => {
            wanted.extend(parts.into_iter().map(|part| TokenWithSpan { token: part, span: token.span }));
        }
    }
}

/// Cuts the signs off an operator that cannot end in them: `3>-1` compares with -1. An operator of several characters
/// ends in `+` or `-` only if it has one of the characters that no standard operator has. None if nothing is cut off.
fn split_signs(operator: &str) -> Option<Vec<Token>> {
    let head = &operator[..operator.trim_end_matches(['+', '-']).len().max(1)];
    if head.len() == operator.len() || operator.contains(|c| "~!@#%^&|`?".contains(c)) {
        return None;
    }
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, head).tokenize().ok()?;
    tokens.extend(
        operator[head.len()..].chars().map(|sign| if sign == '+' { Token::Plus } else { Token::Minus }),
    );
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlError;

    fn by_pieces(sql: &str, bytes: usize) -> Result<Vec<TokenWithSpan>, String> {
        tokens_by_pieces(sql, bytes, &mut |_| Ok(())).map_err(|error| format!("{error:?}"))
    }

    /// 23 texts of all kinds of tokens, each in pieces of 20 lengths.
    #[test]
    fn pieces_of_any_length_give_the_same_tokens() {
        let mut texts: Vec<String> = [
            "SELECT a.b, \"quoted \"\" name\", 'text with '' and -- no comment', 1.5e+10, .5, 1e5, 12.",
            "SELECT E'back\\'slash \\\\', U&'d\\0061t', N'x', B'0101', X'1F', $1, $tag$ any ' \" $$ text $tag$, $$a$$",
            "-- a comment\nSELECT /* one /* within */ another */ 1\r\n;\n\n  SELECT 2 -- the end",
            "SELECT a<=b, a<>-1, a>=+2, a||b, a->>'k', a#>>'{x}', a::int, a @> b, 3>-1, !~*x, a ~~ b, 5!=-1",
            "SELECT 'Zürich – 東京', \"Größe\" FROM \"straße\" WHERE ä = 'ö'; CREATE TABLE é (ñ int)",
            "SELECT ARRAY[1,2,3][1:2], (ROW(1,2)).f1, a.*, t.a[1], interval '1 day', timestamp 'now'",
        ]
        .map(String::from)
        .into();
        let joined = texts.join(" ; ");
        texts.push(joined.replace(' ', "\n"));
        texts.push(joined.replace(' ', "\t  \n "));
        texts.push(format!("SELECT '{}', 1", "long ''".repeat(100)));
        texts.push("SELECT 1 + ".repeat(60) + "1");
        for wrong in ["SELECT 'open", "SELECT \"open", "/* open", "SELECT $a$ open", "SELECT 1, E'\\'"] {
            texts.push(wrong.to_owned());
            texts.push(format!("{joined}\n{wrong} {joined}"));
        }
        texts.extend([String::new(), "   ".repeat(50), ",".repeat(300)]);
        assert_eq!(texts.len(), 23);
        for text in &texts {
            let whole = by_pieces(text, usize::MAX);
            for bytes in (1..20).chain([100]) {
                assert_eq!(by_pieces(text, bytes), whole, "{bytes} bytes of {text}");
            }
        }
    }

    #[test]
    fn a_long_text_is_given_up_when_its_watch_says_so() {
        let mut calls = 0;
        let text = "1,".repeat(1 << 20);
        let ended = tokens_of(&text, &mut |count| {
            calls += 1;
            if count > 100_000 { Err(SqlError::unsupported("more")) } else { Ok(()) }
        });
        assert!(ended.is_err());
        assert!(calls < 10, "{calls}");
    }
}

//! A text without its literals: equal for statements that differ in their literals only.
//!
//! Only the lexer reads the text here, which takes a fraction of the time of parsing it.

use std::ops::Range;

use crate::{
    lexer::{self, Kind, Lexer, Token},
    position::Position,
};

/// The most literals that a text may have.
const LITERALS_MAX: usize = 1000;

/// A text of one statement, apart from its literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalizedText {
    /// The text, with a mark of its kind where each literal stands.
    pub key: String,
    /// The literals from left to right.
    pub literals: Vec<Literal>,
}

/// A literal of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Its kind.
    pub kind: LiteralKind,
    /// The bytes that it takes in the text.
    pub range: Range<usize>,
    /// The byte where a minus stands before it.
    pub minus: Option<usize>,
}

/// The kind of a literal, which decides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// A number that is an integer, with a minus before it or not.
    Integer,
    /// A number that is a bigint, with a minus before it or not.
    Bigint,
    /// Another number.
    Numeric,
    /// `'...'`, which its place gives a type.
    String,
    /// `E'...'`, which its place gives a type.
    EscapeString,
}

impl LiteralKind {
    /// Returns the mark that stands for a literal of this kind: a control character, which no text has outside of
    /// literals, comments and quoted names.
    fn mark(self) -> char {
        match self {
            LiteralKind::Integer => '\u{1}',
            LiteralKind::Bigint => '\u{2}',
            LiteralKind::Numeric => '\u{3}',
            LiteralKind::String => '\u{4}',
            LiteralKind::EscapeString => '\u{5}',
        }
    }

    /// Returns the kind of a number; none if a minus before it would make another one of it.
    fn of_number(digits: &str) -> Option<LiteralKind> {
        let kind = |number: &str| {
            if number.parse::<i32>().is_ok() {
                LiteralKind::Integer
            } else if number.parse::<i64>().is_ok() {
                LiteralKind::Bigint
            } else {
                LiteralKind::Numeric
            }
        };
        let (positive, negative) = (kind(digits), kind(&format!("-{digits}")));
        (positive == negative).then_some(positive)
    }
}

impl Literal {
    /// Returns the literal of a token; none of a token that is no literal.
    fn of(text: &str, token: Token, minus: Option<usize>) -> Option<Literal> {
        let range = token.start as usize..token.end as usize;
        let kind = match token.kind {
            Kind::Integer | Kind::Number => LiteralKind::of_number(&text[range.clone()])?,
            Kind::String => LiteralKind::String,
            Kind::EscapeString => LiteralKind::EscapeString,
            _ => return None,
        };
        Some(Literal { kind, range, minus })
    }

    /// Returns the digits of a number of `text`, or the contents of a string.
    pub fn value(&self, text: &str) -> Option<String> {
        let Range { start, end } = self.range;
        match self.kind {
            LiteralKind::Integer | LiteralKind::Bigint | LiteralKind::Numeric => {
                text.get(start..end).map(str::to_owned)
            }
            LiteralKind::String => text.get(start + 1..end).map(lexer::plain),
            LiteralKind::EscapeString => lexer::escape_string(text, start, end).ok(),
        }
    }

    /// Returns true if a constant of the tree that stands at `position` is this literal, and whether the minus before
    /// it is part of it; none for another constant.
    pub fn stands_at(&self, position: Position) -> Option<bool> {
        let byte = position.byte()?;
        match byte == self.range.start {
            true => Some(false),
            false => (self.minus == Some(byte)).then_some(true),
        }
    }
}

impl NormalizedText {
    /// Reads a text. None if it is not of one statement, is not well formed, has parameters or more than a thousand
    /// literals.
    pub fn of(text: &str) -> Option<NormalizedText> {
        let mut lexer = Lexer::new(text, 0);
        let mut normalized = NormalizedText { key: String::with_capacity(text.len()), literals: Vec::new() };
        let (mut copied, mut minus) = (0, None);
        loop {
            let token = lexer.token();
            let (start, end) = (token.start as usize, token.end as usize);
            match token.kind {
                Kind::Wrong | Kind::Parameter => return None,
                Kind::End => break,
                Kind::Char(';') => {
                    normalized.key.push_str(&text[copied..start]);
                    return (lexer.token().kind == Kind::End).then_some(normalized);
                }
                _ => {}
            }
            if let Some(literal) = Literal::of(text, token, minus) {
                normalized.key.push_str(&text[copied..start]);
                normalized.key.push(literal.kind.mark());
                normalized.literals.push(literal);
                copied = end;
            }
            if normalized.literals.len() > LITERALS_MAX {
                return None;
            }
            minus = (token.kind == Kind::Char('-')).then_some(start);
        }
        normalized.key.push_str(&text[copied..]);
        Some(normalized)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let normalized = NormalizedText::of(text)?;
        let values = normalized.literals.iter().filter_map(|literal| literal.value(text));
        let key: String = normalized
            .key
            .chars()
            .map(|c| match c {
                '\u{1}' => 'i',
                '\u{2}' => 'l',
                '\u{3}' => 'n',
                '\u{4}' => 's',
                '\u{5}' => 'e',
                c => c,
            })
            .collect();
        Some(format!("{key} {:?}", values.collect::<Vec<_>>()))
    }

    #[test]
    fn texts_are_equal_without_their_literals() {
        let cases = [
            ("SELECT 1", Some(r#"SELECT i ["1"]"#)),
            ("SELECT 1 ; ", Some(r#"SELECT i  ["1"]"#)),
            ("SELECT 1; SELECT 2", None),
            ("SELECT $1", None),
            ("SELECT 'a", None),
            ("SELECT 'it''s', E'a\\nb', $$a$$", Some(r#"SELECT s, e, $$a$$ ["it's", "a\nb"]"#)),
            ("SELECT -3000000000 - 1.5", Some(r#"SELECT -l - n ["3000000000", "1.5"]"#)),
            // With a minus this would be an integer.
            ("SELECT 2147483648", Some("SELECT 2147483648 []")),
            ("SELECT 9223372036854775808", Some("SELECT 9223372036854775808 []")),
            ("SELECT \"1\" -- 1\n", Some("SELECT \"1\" -- 1\n []")),
            ("", Some(" []")),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn constants_of_the_tree_are_found() {
        let text = "- 5";
        let literals = NormalizedText::of(text).expect("a text").literals;
        assert_eq!(literals[0].stands_at(Position::new(2)), Some(false));
        assert_eq!(literals[0].stands_at(Position::new(0)), Some(true));
        assert_eq!(literals[0].stands_at(Position::NONE), None);
    }
}

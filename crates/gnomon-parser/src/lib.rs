//! PostgreSQL's grammar: from SQL text to a syntax tree.
//!
//! [`Statements`] reads the statements of a text one by one; [`parse_expression`] and [`parse_query`] read one item,
//! such as the catalog keeps. A text that PostgreSQL's grammar does not have is refused at the token where PostgreSQL
//! refuses it, with the same message. A statement or clause that the grammar has and the tree has not becomes
//! [`Statement::Unsupported`], with its name and place.
//!
//! Names are not looked up here, and nothing of the project is known: what a tree means is the binder's part.

pub mod ast;
mod error;
mod form;
pub mod general;
mod keyword;
mod lexer;
pub mod literals;
mod parse;
mod position;
mod print;
mod string_rules;
pub mod visit;

use std::ops::Range;

use self::lexer::Lexer;
pub use self::{
    ast::Statement,
    error::{Error, ErrorKind, Result},
    keyword::Keyword,
    lexer::{NAME_BYTES_MAX, truncate},
    parse::{Parsed, Watch},
    position::Position,
    string_rules::StringRules,
};

/// The longest text that is parsed, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

fn check_length(text: &str) -> Result<()> {
    match text.len() > TEXT_BYTES_MAX {
        true => Err(Error::new(
            ErrorKind::TooComplex,
            format!("a text of {} bytes exceeds the maximum of {TEXT_BYTES_MAX}", text.len()),
            Position::NONE,
        )),
        false => Ok(()),
    }
}

/// The statements of a text, read one by one.
pub struct Statements<'a, 'w> {
    parser: parse::Parser<'a, 'w>,
    is_done: bool,
}

impl<'a, 'w> Statements<'a, 'w> {
    /// Reads the statements of `text`, its strings by `rules`. `watch` is told now and then how many tokens have been
    /// read; true ends the work.
    pub fn new(text: &'a str, rules: StringRules, watch: Watch<'w>) -> Result<Statements<'a, 'w>> {
        check_length(text)?;
        let lexer = Lexer::new(text, 0).by(rules);
        Ok(Statements { parser: parse::Parser::new(text, lexer, watch), is_done: false })
    }
}

impl Iterator for Statements<'_, '_> {
    type Item = Result<Parsed>;

    fn next(&mut self) -> Option<Result<Parsed>> {
        if self.is_done {
            return None;
        }
        let next = self.parser.next_statement().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Parses a text of statements that semicolons separate. Empty statements are left out.
pub fn parse(text: &str) -> Result<Vec<Parsed>> {
    Statements::new(text, StringRules::default(), &mut |_| false)?.collect()
}

/// Parses the statement that stands in this range of a text, as [`Parsed::range`] has it, by the rules
/// of strings that the text was read by. Positions are in the whole text.
pub fn parse_range(text: &str, range: Range<usize>, rules: StringRules) -> Result<Parsed> {
    check_length(text)?;
    let text = &text[..range.end];
    let mut watch = |_| false;
    let mut parser = parse::Parser::new(text, Lexer::new(text, range.start).by(rules), &mut watch);
    parser
        .next_statement()?
        .ok_or_else(|| Error::syntax("syntax error at end of input", Position::new(range.end)))
}

/// Reads one item that is the whole of a text.
fn whole<T>(text: &str, read: impl FnOnce(&mut parse::Parser<'_, '_>) -> Result<T>) -> Result<T> {
    check_length(text)?;
    parse::Parser::new(text, Lexer::apart(text), &mut |_| false).whole(read)
}

/// Parses a text that is one expression. The tree has no positions, since the text is no part of a statement's.
/// Comparisons associate to the left here and in [`parse_query`]: older texts have chains of them.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    whole(text, |parser| parser.expr())
}

/// Parses a text that is one query. The tree has no positions.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    whole(text, |parser| parser.query())
}

/// Parses a text that is the name of a type. The tree has no positions.
pub fn parse_type(text: &str) -> Result<ast::TypeName> {
    whole(text, |parser| parser.type_name())
}

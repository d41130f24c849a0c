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
mod keyword;
mod lexer;
mod parse;
mod position;
mod print;

pub use self::{
    ast::Statement,
    error::{Error, ErrorKind, Result},
    keyword::Keyword,
    parse::{Parsed, Watch},
    position::Position,
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
    /// Reads the statements of `text`. `watch` is told now and then how many tokens have been read; true ends the work.
    pub fn new(text: &'a str, watch: Watch<'w>) -> Result<Statements<'a, 'w>> {
        check_length(text)?;
        Ok(Statements { parser: parse::Parser::new(text, watch), is_done: false })
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
    Statements::new(text, &mut |_| false)?.collect()
}

/// Parses a text that is one expression.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    check_length(text)?;
    parse::Parser::new(text, &mut |_| false).whole(parse::Parser::expr)
}

/// Parses a text that is one query.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    check_length(text)?;
    parse::Parser::new(text, &mut |_| false).whole(parse::Parser::query)
}

/// Parses a text that is the name of a type.
pub fn parse_type(text: &str) -> Result<ast::TypeName> {
    check_length(text)?;
    parse::Parser::new(text, &mut |_| false).whole(parse::Parser::type_name)
}

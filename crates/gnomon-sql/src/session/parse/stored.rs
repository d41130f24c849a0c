//! Expressions and queries that the catalog keeps as text: DEFAULT, CHECK, views.
//!
//! What is kept is the syntax tree as the parser crate prints it. Where it prints something else than it read (`- -3`
//! as the comment `--3`, a quote in a string) the tree is put into a form that survives first, and whatever is to be
//! kept is read again before: it must give the same tree. What is read here has no places: errors about it would
//! point into the statement at hand.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{self, DollarQuotedString, Value, VisitMut, visit_expressions_mut},
    dialect::PostgreSqlDialect,
    parser::Parser,
    tokenizer::{Span, Token, TokenWithSpan},
};

use super::{
    depth::{nesting, on_fit_stack},
    text::{parser_error, too_complex, unexpected},
    tokenize::tokens_of,
};
use crate::{Result, SqlError, SqlState};

/// An expression as the text to keep.
///
/// # Errors
/// 0A000 if it cannot be kept.
pub(crate) fn expression_text(expr: &ast::Expr) -> Result<String> {
    let mut expr = expr.clone();
    make_printable(&mut expr);
    let text = expr.to_string();
    let same = parse_expression(&text).is_ok_and(|read| read == expr);
    confirm("expression", text, same)
}

/// A query as the text to keep.
///
/// # Errors
/// As [`expression_text`].
pub(crate) fn query_text(query: &ast::Query) -> Result<String> {
    let mut query = query.clone();
    make_printable(&mut query);
    let text = query.to_string();
    let same = parse_query(&text).is_ok_and(|read| *read == query);
    confirm("query", text, same)
}

fn confirm(kind: &str, text: String, same: bool) -> Result<String> {
    if same { Ok(text) } else { Err(SqlError::unsupported(format!("storing the {kind} {text}"))) }
}

/// An expression that was kept as this text.
///
/// # Errors
/// 55000 if it cannot be read.
pub(crate) fn parse_expression(text: &str) -> Result<ast::Expr> {
    read(text, |parser| parser.parse_expr())
}

/// The query of a view that was kept as this text.
///
/// # Errors
/// As [`parse_expression`].
pub(crate) fn parse_query(text: &str) -> Result<Box<ast::Query>> {
    read(text, |parser| parser.parse_query())
}

fn read<T>(
    text: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, sqlparser::parser::ParserError>,
) -> Result<T> {
    let unreadable = |error: SqlError| {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "a text that the catalog keeps cannot be read",
        )
        .detail(format!("{error}: {text}"))
        .hint("Drop the default, constraint or view that it belongs to, and make it anew.")
    };
    // Their places would be taken for places in the statement that uses the text.
    let tokens: Vec<TokenWithSpan> = tokens_of(text, &mut |_| Ok(()))
        .map_err(unreadable)?
        .into_iter()
        .filter(|token| token.token != Token::EOF)
        .map(|token| TokenWithSpan { token: token.token, span: Span::empty() })
        .collect();
    let nesting = nesting(&tokens).ok_or_else(too_complex).map_err(unreadable)?;
    on_fit_stack(nesting, || {
        let mut parser = Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(super::recursion_limit(nesting))
            .with_tokens_with_locations(tokens);
        let tree = parse(&mut parser).map_err(|error| unreadable(parser_error(error, text)))?;
        match parser.peek_token_ref().token {
            Token::EOF => Ok(tree),
            _ => Err(unreadable(unexpected(&parser, text))),
        }
    })
}

/// Puts what the parser crate prints wrongly into a form that it prints well.
fn make_printable<T: VisitMut>(tree: &mut T) {
    let _: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        match expr {
            // Two signs beside each other would be another operator, or a comment.
            ast::Expr::UnaryOp { expr: operand, .. } if matches!(**operand, ast::Expr::UnaryOp { .. }) => {
                let inner = std::mem::replace(&mut **operand, ast::Expr::Value(Value::Null.into()));
                **operand = ast::Expr::Nested(Box::new(inner));
            }
            ast::Expr::Value(value) => {
                if let Value::SingleQuotedString(text) = &value.value
                    && (text.contains("''") || text.contains("\\'"))
                {
                    let tag = (0..)
                        .map(|number| format!("q{number}"))
                        .find(|tag| !text.contains(&format!("${tag}$")));
                    value.value = Value::DollarQuotedString(DollarQuotedString { value: text.clone(), tag });
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

//! Which place of the statement an error is about, as PostgreSQL shows it.

use sqlparser::ast::{Expr, ObjectName, Spanned, Value};

use super::syntax::operator_name;
use crate::{SqlError, error::SourcePlace};

/// An error of binding an expression, unless one within it has said where: an operator between two operands, a
/// literal that cannot be read, otherwise where the expression begins.
pub(super) fn at_expr(error: SqlError, expr: &Expr) -> SqlError {
    let is_about_a_value = error.state().0.starts_with("22");
    error.at_place(|| {
        let Expr::BinaryOp { left, op, right } = expr else {
            return Some(SourcePlace { start: expr.span().start, operator: None });
        };
        let literal = [left, right].into_iter().find(|operand| is_text(operand));
        if let (true, Some(literal)) = (is_about_a_value, literal) {
            return Some(SourcePlace { start: literal.span().start, operator: None });
        }
        let operator = operator_name(op).ok().map(|_| (op.to_string(), right.span().start));
        Some(SourcePlace { start: left.span().end, operator })
    })
}

/// An error about an object of this name.
pub(super) fn at_name(error: SqlError, name: &ObjectName) -> SqlError {
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(ident) => error.at(ident.span),
        None => error,
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

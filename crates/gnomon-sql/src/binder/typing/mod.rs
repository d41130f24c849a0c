//! Types: conversions, operators and functions, all over operands that are bound.
//!
//! [`Typing`] builds typed expressions by PostgreSQL's rules: which operator or function applies to the types at hand,
//! which conversions that takes, and what a literal or parameter of unknown type becomes. It knows no names, no
//! clauses and no queries.

mod aggregate;
mod call;
mod convert;
mod name;
mod order;
mod row;

use super::{literals::Literals, parameters::Parameters};
use crate::{
    Result,
    executor::{Expr, expr::ExprKind},
    types::{ColumnType, Context, Datum, Type, format_type, text},
};

pub use aggregate::AggregateForm;
pub use call::CallArguments;
pub use convert::{Assignee, AssigneeKind};
pub use row::{RowOperator, row_expected, row_operator};

/// The types of a statement's expressions: the settings under which literals are read, and the parameters.
pub struct Typing<'a> {
    /// Settings, times, and the layers above functions.
    pub context: &'a Context<'a>,
    /// The statement's parameters.
    pub parameters: Parameters<'a>,
    /// The literals, if they are to be fixed in the syntax tree.
    pub literals: Option<Literals>,
    /// True if a call or conversion of constants has failed, and is left to be computed.
    pub has_failing_constants: bool,
}

impl Typing<'_> {
    /// A number, which may have a sign.
    pub fn number(&mut self, digits: &str) -> Result<Expr> {
        if let Ok(n) = digits.parse::<i32>() {
            return Ok(Expr::constant(Datum::Int4(n), Type::Int4));
        }
        if let Ok(n) = digits.parse::<i64>() {
            return Ok(Expr::constant(Datum::Int8(n), Type::Int8));
        }
        self.parse_literal(digits, Type::Numeric.into())
    }

    /// A literal of unknown type read as a value of `target`.
    pub fn parse_literal(&self, literal: &str, target: ColumnType) -> Result<Expr> {
        let value = text::input(self.context, literal, target)?;
        Ok(Expr { kind: ExprKind::Const(value), ty: target })
    }
}

/// A type's name in messages.
pub fn type_name(ty: Type) -> String {
    format_type(ty, None)
}

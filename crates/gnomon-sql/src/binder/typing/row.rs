//! Rows, arrays, and comparisons of rows.

use super::{Typing, type_name};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::{ExprKind, RowPair},
    },
    types::{Datum, Type},
};

/// How a list of two-part comparisons of rows is decided.
#[derive(Clone, Copy, PartialEq)]
pub enum RowOperator {
    Equal,
    NotEqual,
    Order(&'static str),
}

impl Typing<'_> {
    /// ROW(...).
    pub fn row(&mut self, items: Vec<Expr>) -> Result<Expr> {
        let items = items.into_iter().map(|item| self.of_any_type(item)).collect::<Result<_>>()?;
        Ok(Expr::new(ExprKind::Row(items), Type::Record))
    }

    /// An array of `items`, each converted to `ty`.
    pub fn array_of(&mut self, items: Vec<Expr>, ty: Type, what: &str) -> Result<Expr> {
        let Some(scalar) = ty.scalar() else {
            return Err(SqlError::unsupported(format!("an array of {}", type_name(ty))));
        };
        let items = self.all_to(items, ty, what)?;
        let kind = match items.iter().map(Expr::as_const).collect::<Option<Vec<_>>>() {
            Some(values) => ExprKind::Const(Datum::Array(scalar, values.into_iter().cloned().collect())),
            None => ExprKind::Array(scalar, items),
        };
        Ok(Expr::new(kind, Type::Array(scalar)))
    }

    /// The error for an operator between rows that compares none.
    pub fn no_row_operator(&mut self, name: &str, left: Vec<Expr>, right: Vec<Expr>) -> SqlError {
        let pairs = left.into_iter().zip(right);
        let operators = pairs.map(|(left, right)| self.comparison(name, left, right).map(drop));
        match operators.collect::<Result<()>>() {
            Err(error) => error,
            Ok(()) => SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("could not determine interpretation of row comparison operator {name}"),
            )
            .hint("Row comparison operators must be associated with btree operator families."),
        }
    }

    pub fn compare_rows(&mut self, operator: RowOperator, left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        if left.is_empty() {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length"));
        }
        let pairs = left.into_iter().zip(right);
        match operator {
            RowOperator::Equal => {
                let tests = pairs.map(|(left, right)| self.operator("=", vec![left, right]));
                Ok(Expr::and(tests.collect::<Result<_>>()?))
            }
            RowOperator::NotEqual => {
                let tests = pairs.map(|(left, right)| self.operator("<>", vec![left, right]));
                Ok(Expr::or(tests.collect::<Result<_>>()?))
            }
            RowOperator::Order(name) => {
                let mut bound = Vec::new();
                for (left, right) in pairs {
                    let (order, args) = self.comparison(name, left, right)?;
                    let [left, right] = args.clone();
                    let (equal, _) = self.comparison("=", left, right)?;
                    bound.push(RowPair { equal, order, args });
                }
                Ok(Expr::new(ExprKind::RowCompare { pairs: bound }, Type::Bool))
            }
        }
    }
}

pub fn row_operator(name: &str) -> Option<RowOperator> {
    Some(match name {
        "=" => RowOperator::Equal,
        "<>" => RowOperator::NotEqual,
        "<" => RowOperator::Order("<"),
        "<=" => RowOperator::Order("<="),
        ">" => RowOperator::Order(">"),
        ">=" => RowOperator::Order(">="),
        _ => return None,
    })
}

pub fn row_expected() -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, "row expressions cannot be compared with a single value")
}

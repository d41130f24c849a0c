//! Keys of ORDER BY.

use gnomon_parser::ast::{SortBy, SortDirection};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, plan::SortKey},
    functions::{Comparison, resolve_operator},
    types::{Type, format_type},
};

impl Typing<'_> {
    /// A key with its direction; NULLs come last, or first if it descends, unless the statement says otherwise.
    ///
    /// # Errors
    /// 42883 if USING names no operator of the type, 42809 if that orders nothing.
    pub fn sort_key(&self, expr: Expr, item: &SortBy) -> Result<SortKey> {
        if !expr.ty.ty.has_order() {
            return Err(unordered(expr.ty.ty));
        }
        let descending = match &item.direction {
            SortDirection::Default | SortDirection::Ascending => false,
            SortDirection::Descending => true,
            SortDirection::Using(operator) => {
                let name = self.operator_name(operator)?;
                descends(&name, expr.ty.ty).map_err(|error| error.at(operator.position))?
            }
        };
        Ok(SortKey { expr, descending, nulls_first: item.is_nulls_first.unwrap_or(descending) })
    }
}

fn unordered(ty: Type) -> SqlError {
    let message = format!("could not identify an ordering operator for type {}", format_type(ty, None));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint("Use an explicit ordering operator or modify the query.")
}

/// True if an operator orders values of a type from the greatest to the least, false if the other way round.
fn descends(name: &str, ty: Type) -> Result<bool> {
    let operator = resolve_operator(name, Some(ty), ty)?;
    match (operator.comparison(), name) {
        (Some(Comparison::Less), _) | (_, "~<~") => Ok(false),
        (Some(Comparison::Greater), _) | (_, "~>~") => Ok(true),
        _ => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("operator {name} is not a valid ordering operator"),
        )
        .hint("Ordering operators must be \"<\" or \">\" members of btree operator families.")),
    }
}

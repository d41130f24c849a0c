//! Keys of ORDER BY.

use gnomon_parser::ast::{SortBy, SortDirection};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, plan::SortKey},
    functions::{Comparison, resolve_operator},
    types::Type,
};

impl Typing<'_> {
    /// A key with its direction; NULLs come last, or first if it descends, unless the statement says otherwise.
    ///
    /// # Errors
    /// 42883 if USING names no operator of the type, 42809 if that orders nothing.
    pub fn sort_key(&self, expr: Expr, item: &SortBy) -> Result<SortKey> {
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

//! A relation's row as one value: `t`, `t.*` as an argument.

use super::{ScopeColumn, ScopeRelation};
use crate::{
    executor::{Expr, expr::ExprKind},
    types::{Datum, Type},
};

/// The value that a relation's row is.
#[derive(Clone, Debug)]
pub enum WholeRow {
    /// The row of its columns.
    Columns {
        /// The number of a column that only the rows added by outer joins have NULL; none of a join with an alias,
        /// whose row is one of NULLs there.
        witness: Option<usize>,
        /// True if an outer join may add rows to it: the row is NULL there.
        is_extended: bool,
    },
    /// The value of the only column: the relation is a function that does not return rows.
    Value,
}

impl WholeRow {
    /// The row of columns that column `witness` tells from a row added by an outer join.
    pub fn told_by(witness: usize) -> WholeRow {
        WholeRow::Columns { witness: Some(witness), is_extended: false }
    }

    /// The row of columns of a join.
    pub fn of_join() -> WholeRow {
        WholeRow::Columns { witness: None, is_extended: false }
    }

    /// Notes that an outer join may add rows.
    pub fn extend(&mut self) {
        if let WholeRow::Columns { is_extended, .. } = self {
            *is_extended = true;
        }
    }
}

impl ScopeRelation {
    /// Returns its row as one value.
    pub fn whole_row(&self) -> Expr {
        let shown = |column: &&ScopeColumn| !column.is_hidden;
        let columns: Vec<Expr> =
            self.columns.iter().filter(shown).map(|column| column.expr.clone()).collect();
        if let (WholeRow::Value, [value]) = (&self.whole, &columns[..]) {
            return value.clone();
        }
        let row = Expr::new(ExprKind::Row(columns), Type::Record);
        let Some(witness) = self.witness() else { return row };
        let is_added = Expr::new(ExprKind::IsNull { arg: Box::new(witness), negated: false }, Type::Bool);
        let arms = vec![(is_added, Expr::constant(Datum::Null, Type::Record))];
        Expr::new(ExprKind::Case { arms, otherwise: Box::new(row) }, Type::Record)
    }

    /// Returns the column that tells rows that an outer join added; none if there are none.
    pub fn witness(&self) -> Option<Expr> {
        match self.whole {
            WholeRow::Columns { witness: Some(number), is_extended: true } => {
                Some(Expr::column(number, format!("{}.*", self.name), Type::Bool.into()))
            }
            _ => None,
        }
    }
}

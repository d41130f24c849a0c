//! The arms of set operations: a literal among their columns has no type until those of all arms are known.

use std::sync::Arc;

use crate::{
    executor::{
        Expr,
        expr::ExprKind,
        plan::{self, Plan},
    },
    types::{ColumnType, Type},
};

/// The column of an arm of a set operation; a literal shows itself, so that it can take the other arm's type.
pub fn arm_column(plan: &Plan, position: usize, ty: ColumnType) -> Expr {
    let open = (ty.ty == Type::Unknown).then(|| computed(plan, position)).flatten();
    match open.filter(|expr| is_open(expr)) {
        Some(open) => open.clone(),
        None => Expr::column(position, "?column?", ty),
    }
}

/// The expression that computes a column of a plan, beneath what passes the column on.
fn computed(mut plan: &Plan, mut position: usize) -> Option<&Expr> {
    loop {
        match plan {
            Plan::With(node) => plan = &node.body,
            Plan::Sort(node) => plan = &node.input,
            Plan::Limit(node) => plan = &node.input,
            Plan::Distinct(node) => plan = &node.input,
            Plan::Values(node) => return node.rows.first()?.get(position),
            Plan::Project(node) => {
                let expr = node.columns.get(position)?;
                let Some(below) = expr.as_column() else { return Some(expr) };
                (plan, position) = (&node.input, below);
            }
            _ => return None,
        }
    }
}

/// A plan whose columns are these expressions of its own; itself if nothing changes.
pub fn projected(plan: Plan, columns: Vec<Expr>) -> Plan {
    let unchanged = columns.iter().enumerate().all(|(position, column)| column.as_column() == Some(position));
    match unchanged {
        true => plan,
        false => Plan::Project(Arc::new(plan::Project { input: plan, columns })),
    }
}

/// True if it is a literal or parameter whose type its place may still decide.
pub fn is_open(expr: &Expr) -> bool {
    expr.ty.ty == Type::Unknown && matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
}

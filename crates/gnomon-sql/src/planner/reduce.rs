//! Outer joins that conditions make inner ones: a row that a join has filled with NULLs is removed by a condition that
//! is not true of NULL.

use std::collections::BTreeSet;

use super::{JoinTree, members::columns_of};
use crate::executor::{
    Expr,
    expr::{ExprKind, on_deep_stack},
    plan::JoinKind,
};

/// Returns FROM with simpler joins, which give the same rows where `filter` holds.
pub fn reduced(tree: JoinTree, filter: &[Expr]) -> JoinTree {
    match has_outer(&tree) {
        true => below(tree, &refusing(filter)),
        false => tree,
    }
}

fn has_outer(tree: &JoinTree) -> bool {
    match tree {
        JoinTree::Item(_) => false,
        JoinTree::Join { kind, left, right, .. } => {
            *kind != JoinKind::Inner || has_outer(left) || has_outer(right)
        }
    }
}

/// `refused` are columns that are not NULL in any row that is kept.
fn below(tree: JoinTree, refused: &BTreeSet<usize>) -> JoinTree {
    let JoinTree::Join { kind, left, right, condition } = tree else { return tree };
    let is_refused = |side: &JoinTree| {
        let mut columns = BTreeSet::new();
        columns_of(side, &mut columns);
        !columns.is_disjoint(refused)
    };
    // The sides whose rows are kept without a partner.
    let keeps_left = matches!(kind, JoinKind::Left | JoinKind::Full) && !is_refused(&right);
    let keeps_right = matches!(kind, JoinKind::Right | JoinKind::Full) && !is_refused(&left);
    let kind = match (keeps_left, keeps_right) {
        (false, false) => JoinKind::Inner,
        (true, false) => JoinKind::Left,
        (false, true) => JoinKind::Right,
        (true, true) => JoinKind::Full,
    };
    let own = refusing(&condition);
    let of_side = |is_kept: bool, other_is_kept: bool| match (is_kept, other_is_kept) {
        // Only pairs are left.
        (false, false) => refused.union(&own).copied().collect(),
        // It is the side that the condition of the join does not filter.
        (true, false) => refused.clone(),
        // Its rows without a partner are removed.
        (false, true) => own.clone(),
        (true, true) => BTreeSet::new(),
    };
    let (of_left, of_right) = (of_side(keeps_left, keeps_right), of_side(keeps_right, keeps_left));
    let (left, right) = (Box::new(below(*left, &of_left)), Box::new(below(*right, &of_right)));
    JoinTree::Join { kind, left, right, condition }
}

/// The columns that are not NULL where all conditions are true.
fn refusing(conditions: &[Expr]) -> BTreeSet<usize> {
    conditions.iter().flat_map(|condition| needed_of(condition, true)).collect()
}

/// The columns whose NULL makes an expression NULL; of a condition that has to be true, `is_true`, also those whose
/// NULL makes it false.
fn needed_of(expr: &Expr, is_true: bool) -> BTreeSet<usize> {
    on_deep_stack(|| needed_of_kind(expr, is_true))
}

fn needed_of_kind(expr: &Expr, is_true: bool) -> BTreeSet<usize> {
    match &expr.kind {
        ExprKind::Column { index, .. } => BTreeSet::from([*index]),
        ExprKind::Cast { arg, .. } => needed_of(arg, false),
        ExprKind::Call { function, args } if function.strict && !function.is_spread() => {
            args.iter().flat_map(|arg| needed_of(arg, false)).collect()
        }
        ExprKind::AnyAll { function, all: false, left, .. } if function.strict && is_true => {
            needed_of(left, false)
        }
        ExprKind::And(args) if is_true => args.iter().flat_map(|arg| needed_of(arg, true)).collect(),
        ExprKind::And(args) | ExprKind::Or(args) => {
            let each = args.iter().map(|arg| needed_of(arg, is_true));
            each.reduce(|all, own| all.intersection(&own).copied().collect()).unwrap_or_default()
        }
        ExprKind::Not(arg) => needed_of(arg, false),
        ExprKind::IsNull { arg, negated: true } if is_true && arg.as_column().is_some() => {
            needed_of(arg, false)
        }
        ExprKind::IsBool { arg, value: Some(_), negated: false } if is_true => needed_of(arg, false),
        ExprKind::IsBool { arg, value: None, negated: true } if is_true => needed_of(arg, false),
        _ => BTreeSet::new(),
    }
}

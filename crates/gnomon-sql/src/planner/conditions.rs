//! Rewriting of conditions: parts that the arms of an OR have in common, and restrictions of one table that they imply.

use crate::executor::{Expr, expr::ExprKind};

/// Returns conditions that say the same together. What every arm of an OR says stands beside the OR, where it can find
/// rows by a key and join tables by hash: `a = b AND c OR a = b AND d` is `a = b AND (c OR d)`.
pub fn factored(conditions: Vec<Expr>) -> Vec<Expr> {
    let count = conditions.len();
    let parts: Vec<Expr> = conditions.into_iter().flat_map(factor).collect();
    if parts.len() == count {
        return parts;
    }
    // What an OR says may have been said beside it.
    let mut distinct: Vec<Expr> = Vec::with_capacity(parts.len());
    for part in parts {
        if !distinct.iter().any(|known| known.same(&part)) {
            distinct.push(part);
        }
    }
    distinct
}

fn factor(condition: Expr) -> Vec<Expr> {
    let ExprKind::Or(arms) = &condition.kind else { return vec![condition] };
    let Some((first, others)) = arms.split_first() else { return vec![condition] };
    let is_common =
        |part: &&Expr| others.iter().all(|arm| conjuncts(arm).iter().any(|other| other.same(part)));
    let common: Vec<Expr> = conjuncts(first).iter().filter(is_common).cloned().collect();
    if common.is_empty() {
        return vec![condition];
    }
    let rest = |arm: &Expr| {
        let parts = conjuncts(arm).iter().filter(|part| !common.iter().any(|other| other.same(part)));
        Expr::and(parts.cloned().collect())
    };
    // An arm that says no more than the others have in common makes the OR true; it is left out then.
    let rest = Expr::or(arms.iter().map(rest).collect());
    let rest = (!rest.is_bool(true)).then_some(rest);
    common.into_iter().chain(rest).collect()
}

/// Returns what an OR says of the rows of a table alone, whatever those of others are; none if an arm says nothing.
/// `is_own` tells the numbers of the table's columns.
pub fn restriction(condition: &Expr, is_own: &dyn Fn(usize) -> bool) -> Option<Expr> {
    let ExprKind::Or(arms) = &condition.kind else { return None };
    let is_of_table = |part: &&Expr| {
        let columns = part.columns();
        !columns.is_empty()
            && columns.iter().all(|column| is_own(*column))
            && !part.is_volatile()
            && !part.has_subquery()
    };
    let of_arm = |arm: &Expr| {
        let parts: Vec<Expr> = conjuncts(arm).iter().filter(is_of_table).cloned().collect();
        (!parts.is_empty()).then(|| Expr::and(parts))
    };
    arms.iter().map(of_arm).collect::<Option<_>>().map(Expr::or)
}

fn conjuncts(expr: &Expr) -> &[Expr] {
    match &expr.kind {
        ExprKind::And(parts) => parts,
        _ => std::slice::from_ref(expr),
    }
}

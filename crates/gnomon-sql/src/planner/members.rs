//! Members of lists of inner joins: what they are, and what conditions say of them.

use std::collections::BTreeSet;

use super::{FromItem, JoinTree, conditions::restriction};
use crate::{
    executor::{Expr, expr::ExprKind, plan::JoinKind},
    functions::Comparison,
    types::{Type, cast::CastContext},
};

/// A member of a list of inner joins.
pub enum Member {
    Item(Box<FromItem>),
    Tree { tree: JoinTree, columns: BTreeSet<usize> },
}

impl Member {
    pub fn has(&self, column: usize) -> bool {
        match self {
            Member::Item(item) => (item.base..item.base + item.width).contains(&column),
            Member::Tree { columns, .. } => columns.contains(&column),
        }
    }

    /// Its columns.
    pub fn columns(&self) -> BTreeSet<usize> {
        match self {
            Member::Item(item) => (item.base..item.base + item.width).collect(),
            Member::Tree { columns, .. } => columns.clone(),
        }
    }

    /// The columns of other members that its LATERAL items take.
    pub fn takes(&self) -> BTreeSet<usize> {
        let mut columns = BTreeSet::new();
        match self {
            Member::Item(item) => {
                item.params.iter().for_each(|(_, value)| value.collect_columns(&mut columns))
            }
            Member::Tree { tree, columns: own } => {
                lateral_columns(tree, &mut columns);
                columns.retain(|column| !own.contains(column));
            }
        }
        columns
    }
}

pub fn columns_of(tree: &JoinTree, out: &mut BTreeSet<usize>) {
    match tree {
        JoinTree::Item(item) => out.extend(item.base..item.base + item.width),
        JoinTree::Join { left, right, .. } => {
            columns_of(left, out);
            columns_of(right, out);
        }
    }
}

/// All columns that conditions use.
pub fn columns_used(conditions: &[Expr], out: &mut BTreeSet<usize>) {
    conditions.iter().for_each(|condition| condition.collect_columns(out));
}

/// Takes the conditions out of a list for which `test` holds.
pub fn take(conditions: &mut Vec<Expr>, mut test: impl FnMut(&Expr) -> bool) -> Vec<Expr> {
    let (taken, rest) = std::mem::take(conditions).into_iter().partition(|condition| test(condition));
    *conditions = rest;
    taken
}

/// Returns the restrictions of single members that conditions on several of them imply.
pub fn restrictions(members: &[Member], conditions: &[Expr]) -> Vec<Expr> {
    let of_member = |condition: &Expr, member: &Member| {
        let is_of_others = condition.columns().iter().any(|column| !member.has(*column));
        is_of_others.then(|| restriction(condition, &|column| member.has(column))).flatten()
    };
    let of_condition = |condition| members.iter().filter_map(move |member| of_member(condition, member));
    conditions.iter().flat_map(of_condition).collect()
}

pub fn flatten(tree: JoinTree, members: &mut Vec<Member>, filter: &mut Vec<Expr>) {
    match tree {
        JoinTree::Item(item) => members.push(Member::Item(item)),
        JoinTree::Join { kind: JoinKind::Inner, left, right, condition } => {
            flatten(*left, members, filter);
            flatten(*right, members, filter);
            filter.extend(condition);
        }
        tree => {
            let mut columns = BTreeSet::new();
            columns_of(&tree, &mut columns);
            members.push(Member::Tree { tree, columns });
        }
    }
}

/// The columns that LATERAL items of a tree take from outside of it or from each other.
pub fn lateral_columns(tree: &JoinTree, out: &mut BTreeSet<usize>) {
    match tree {
        JoinTree::Item(item) => item.params.iter().for_each(|(_, value)| value.collect_columns(out)),
        JoinTree::Join { left, right, .. } => {
            lateral_columns(left, out);
            lateral_columns(right, out);
        }
    }
}

/// A condition as a scan of `item` would see it: its own columns by position, all others as slots.
pub fn as_lookup(condition: &Expr, item: &FromItem) -> Expr {
    let mut condition = condition.clone();
    condition.replace(&mut |expr| match &expr.kind {
        ExprKind::Column { index, label } => {
            let kind = match index.checked_sub(item.base).filter(|position| *position < item.width) {
                Some(index) => ExprKind::Column { index, label: label.clone() },
                None => ExprKind::Slot(usize::MAX),
            };
            Some(Expr { kind, ty: expr.ty })
        }
        _ => None,
    });
    condition
}

/// The sides of an equality between what is joined and what is on the right, if it is one that a hash can decide.
pub fn equal_sides(condition: &Expr, left: &[usize], right: &dyn Fn(usize) -> bool) -> Option<(Expr, Expr)> {
    if condition.is_volatile() {
        return None;
    }
    let (a, b) = hash_sides(condition)?;
    let of_left = |expr: &Expr| {
        let columns = expr.columns();
        !columns.is_empty() && columns.iter().all(|column| left.contains(column))
    };
    let of_right = |expr: &Expr| {
        let columns = expr.columns();
        !columns.is_empty() && columns.iter().all(|column| right(*column))
    };
    match (of_left(&a) && of_right(&b), of_left(&b) && of_right(&a)) {
        (true, _) => Some((a, b)),
        (_, true) => Some((b, a)),
        _ => None,
    }
}

/// The sides of an equality, as a hash can compare them.
pub fn hash_sides(condition: &Expr) -> Option<(Expr, Expr)> {
    let ExprKind::Call { function, args } = &condition.kind else { return None };
    let [a, b] = &args[..] else { return None };
    (function.comparison() == Some(Comparison::Equal)).then(|| hashed_alike(a, b)).flatten()
}

/// Two expressions, widened if need be, so that equal values have equal key bytes; none if that cannot be.
pub fn hashed_alike(a: &Expr, b: &Expr) -> Option<(Expr, Expr)> {
    let text = |ty| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    let oid = |ty: Type| ty == Type::Oid || ty.is_registered();
    let wide = |expr: &Expr| match expr.ty.ty {
        Type::Float4 => {
            let kind = ExprKind::Cast { context: CastContext::Implicit, arg: Box::new(expr.clone()) };
            Expr::new(kind, Type::Float8)
        }
        _ => expr.clone(),
    };
    match (a.ty.ty, b.ty.ty) {
        (a_type, b_type) if a_type == b_type => Some((a.clone(), b.clone())),
        (Type::Float4, Type::Float8) | (Type::Float8, Type::Float4) => Some((wide(a), wide(b))),
        (a_type, b_type) if text(a_type) && text(b_type) => Some((a.clone(), b.clone())),
        (a_type, b_type) if oid(a_type) && oid(b_type) => Some((a.clone(), b.clone())),
        _ => None,
    }
}

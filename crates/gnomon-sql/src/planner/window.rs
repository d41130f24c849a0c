//! Plans of window functions.

use std::{cmp::Ordering, sync::Arc};

use super::{from::place_in, input::OutputOrder};
use crate::executor::{
    Expr,
    plan::{Plan, Window, WindowCall},
};

/// Window calls that are computed together, each with its number in the query.
type Group = Vec<(usize, WindowCall)>;

/// Window calls by partition and order: calls that have both in common are computed together. The groups stand in
/// the order in which PostgreSQL computes them, so that rows come out in the same order.
pub fn window_groups(windows: Vec<WindowCall>, order: &[OutputOrder]) -> Vec<Group> {
    let mut rest: Group = windows.into_iter().enumerate().collect();
    let mut known: Vec<Expr> = order.iter().map(|order| order.key.expr.clone()).collect();
    let mut groups: Vec<(Vec<Place>, Group)> = Vec::new();
    while !rest.is_empty() {
        // The first is taken by itself: keys that are subqueries are not known to be the same as any, themselves too.
        let mut together = vec![rest.remove(0)];
        let (alike, others) = rest.into_iter().partition(|(_, call)| same_window(call, &together[0].1));
        rest = others;
        together.extend::<Group>(alike);
        groups.push((places(&together[0].1, &mut known), together));
    }
    groups.sort_by(|(a, _), (b, _)| compare(a, b));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A key of a window: the number of its expression in the query, and its direction.
#[derive(PartialEq, Eq)]
struct Place {
    number: usize,
    descending: bool,
    nulls_first: bool,
}

/// The keys of partition and order, without repetitions.
fn places(call: &WindowCall, known: &mut Vec<Expr>) -> Vec<Place> {
    let partition = call.partition_by.iter().map(|expr| (expr, false, false));
    let order = call.order_by.iter().map(|key| (&key.expr, key.descending, key.nulls_first));
    let mut places = Vec::new();
    for (expr, descending, nulls_first) in partition.chain(order) {
        let number = known.iter().position(|other| other.same(expr)).unwrap_or_else(|| {
            known.push(expr.clone());
            known.len() - 1
        });
        let place = Place { number, descending, nulls_first };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Puts the windows with more keys before those whose keys are the first of these.
fn compare(a: &[Place], b: &[Place]) -> Ordering {
    let key = |place: &Place| (place.number, place.descending, place.nulls_first);
    let different = a.iter().zip(b).map(|(a, b)| key(b).cmp(&key(a))).find(|ordering| ordering.is_ne());
    different.unwrap_or_else(|| b.len().cmp(&a.len()))
}

/// Computes window calls over the rows of a plan; their values become columns.
pub fn add_windows(
    mut plan: Plan,
    mut layout: Vec<usize>,
    groups: Vec<Group>,
    base: usize,
) -> (Plan, Vec<usize>) {
    for group in groups {
        let mut calls = Vec::with_capacity(group.len());
        let mut numbers = Vec::with_capacity(group.len());
        for (number, mut call) in group {
            numbers.push(base + number);
            call.exprs_mut().for_each(|expr| place_in(expr, &layout));
            calls.push(call);
        }
        layout.extend(numbers);
        plan = Plan::Window(Arc::new(Window { input: plan, calls }));
    }
    (plan, layout)
}

fn same_window(a: &WindowCall, b: &WindowCall) -> bool {
    a.partition_by.len() == b.partition_by.len()
        && a.order_by.len() == b.order_by.len()
        && a.partition_by.iter().zip(&b.partition_by).all(|(a, b)| a.same(b))
        && a.order_by.iter().zip(&b.order_by).all(|(a, b)| a.same(b))
}

//! The place of what a query with groups uses outside of aggregates without grouping by it.

use std::ops::ControlFlow;

use gnomon_parser::{
    Position,
    ast::{Expr, GroupingElement, Query, Select, SortBy},
    visit::Visitor,
};

use crate::{SqlError, SqlState, binder::located::position_of, functions::is_aggregate};

/// Gives an error about an ungrouped column, or argument of GROUPING, its place: in the select list, in ORDER BY, or in HAVING.
pub fn at_ungrouped(error: SqlError, select: &Select, order: &[SortBy]) -> SqlError {
    let message = &error.report().message;
    let in_subquery = message.starts_with("subquery uses ungrouped column");
    let is_about_column = in_subquery || message.contains("must appear in the GROUP BY clause");
    let name = match message.starts_with("arguments to GROUPING must be grouping expressions") {
        true => None,
        false => message.split('"').nth(1),
    };
    if error.state() != SqlState::GROUPING_ERROR || !is_about_column && name.is_some() {
        return error;
    }
    let mut keys = Vec::new();
    collect_keys(&select.group_by, &mut keys);
    let mut finder = Finder { name, keys, in_subquery, depth: 0 };
    let targets = select.targets.iter().map(|target| &target.value);
    let mut exprs = targets.chain(order.iter().map(|item| &item.value)).chain(&select.having);
    match exprs.try_for_each(|expr| finder.visit_expr(expr)) {
        ControlFlow::Break(position) => error.at(position),
        ControlFlow::Continue(()) => error,
    }
}

/// Collects the expressions of GROUP BY as text.
fn collect_keys(elements: &[GroupingElement], keys: &mut Vec<String>) {
    for element in elements {
        match element {
            GroupingElement::Expr(expr) => keys.push(expr.to_string()),
            GroupingElement::Empty(_) => {}
            GroupingElement::Sets(elements, _) => collect_keys(elements, keys),
            GroupingElement::Rollup(exprs, _) | GroupingElement::Cube(exprs, _) => {
                keys.extend(exprs.iter().map(Expr::to_string));
            }
        }
    }
}

/// Looks for a column by the name that the error has, or for an argument of GROUPING that is no key.
struct Finder<'a> {
    name: Option<&'a str>,
    keys: Vec<String>,
    in_subquery: bool,
    /// The number of queries around, within the expression.
    depth: usize,
}

impl Visitor for Finder<'_> {
    type Break = Position;

    fn visit_query(&mut self, query: &Query) -> ControlFlow<Position> {
        self.depth += 1;
        let found = if self.in_subquery { self.walk_query(query) } else { ControlFlow::Continue(()) };
        self.depth -= 1;
        found
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<Position> {
        match expr {
            Expr::Function(call)
                if call.over.is_none() && is_aggregate(&call.name.last().name) && self.depth == 0 =>
            {
                let direct = if call.is_within_group { &call.arguments[..] } else { &[] };
                direct.iter().try_for_each(|argument| self.visit_expr(&argument.value))
            }
            Expr::Grouping(list) if self.name.is_none() => {
                let is_key = |operand: &&Expr| self.keys.contains(&operand.to_string());
                match list.operands.iter().find(|operand| !is_key(operand)) {
                    Some(operand) => ControlFlow::Break(position_of(operand)),
                    None => ControlFlow::Continue(()),
                }
            }
            _ if self.keys.contains(&expr.to_string()) => ControlFlow::Continue(()),
            Expr::Column(column) if (self.depth > 0) == self.in_subquery && !column.has_star => {
                let parts: Vec<&str> = column.fields.iter().map(|field| &*field.name).collect();
                let written = parts.join(".");
                let is_it = |name: &str| {
                    let name = name.strip_suffix(".*").unwrap_or(name);
                    name == written || name.ends_with(&format!(".{written}"))
                };
                match self.name.is_some_and(is_it) {
                    true => ControlFlow::Break(column.position),
                    false => ControlFlow::Continue(()),
                }
            }
            _ => self.walk_expr(expr),
        }
    }
}

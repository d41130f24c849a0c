//! WITH RECURSIVE: which queries refer to which, and where a query may refer to itself.
//!
//! The rules and their messages are PostgreSQL's. They are checked on the syntax tree, before anything is bound: a
//! query that breaks them may have no end.

use std::ops::ControlFlow;

use gnomon_parser::{
    Position,
    ast::{
        self, CommonTable, Distinct, Join, JoinCondition, Query, QueryBody, RelationName, Select,
        SetOperation, SetOperationKind, TableReference, With,
    },
    visit::Visitor,
};

use super::with::query_of;
use crate::{
    Result, SqlError, SqlState,
    binder::located::position_of,
    executor::{expr::on_deep_stack, plan::Plan},
    planner::{FromItem, FromKind, JoinTree},
};

/// Where a reference stands, as far as the rules tell places apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// Where a query may refer to itself, once.
    Allowed,
    FirstTerm,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

impl Spot {
    /// PostgreSQL's words for it; none for where references are allowed.
    fn words(self) -> Option<&'static str> {
        match self {
            Spot::Allowed => None,
            Spot::FirstTerm => Some("its non-recursive term"),
            Spot::Subquery => Some("a subquery"),
            Spot::OuterJoin => Some("an outer join"),
            Spot::Intersect => Some("INTERSECT"),
            Spot::Except => Some("EXCEPT"),
        }
    }
}

/// A name without a schema that no WITH within the query looked at stands for.
struct Reference {
    name: Box<str>,
    position: Position,
    spot: Spot,
}

/// Collects references, in the order in which PostgreSQL looks at them.
struct Walker {
    spot: Spot,
    /// The names of WITH clauses within the query, as far as they are in reach.
    hidden: Vec<Box<str>>,
    found: Vec<Reference>,
}

/// The parts of a query that refers to itself: `first UNION [ALL] second`, and the WITH in front of it.
pub struct RecursiveParts<'c> {
    pub with: Option<&'c With>,
    pub first: &'c QueryBody,
    /// The set operations that belong to the first part.
    pub operations: &'c [SetOperation],
    pub second: &'c QueryBody,
    pub is_all: bool,
}

/// The queries of WITH RECURSIVE, each after those that it refers to: their positions, and whether they refer to
/// themselves.
///
/// # Errors
/// 0A000 if queries refer to each other in a circle.
pub fn order(with: &With) -> Result<Vec<(usize, bool)>> {
    let mut waiting: Vec<(usize, Vec<usize>, bool)> = Vec::with_capacity(with.tables.len());
    for (position, table) in with.tables.iter().enumerate() {
        let query = query_of(table)?;
        let found = Walker::collect(Spot::Allowed, |walker| walker.query(query));
        let mut needed: Vec<usize> = found
            .iter()
            .filter_map(|reference| with.tables.iter().position(|other| other.name.name == reference.name))
            .collect();
        let itself = needed.contains(&position);
        needed.retain(|other| *other != position);
        waiting.push((position, needed, itself));
    }
    let mut ordered = Vec::with_capacity(with.tables.len());
    while let Some((first, ..)) = waiting.first() {
        let Some(next) = waiting.iter().position(|(_, needed, _)| needed.is_empty()) else {
            let error = SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "mutual recursion between WITH items is not implemented",
            );
            return Err(error.at(with.tables[*first].name.position));
        };
        let (position, _, itself) = waiting.remove(next);
        waiting.iter_mut().for_each(|(_, needed, _)| needed.retain(|other| *other != position));
        ordered.push((position, itself));
    }
    Ok(ordered)
}

/// Takes a query that refers to itself apart.
///
/// # Errors
/// 42P19 if it does so where it must not, 0A000 if it has a clause that recursion does not go with.
pub fn parts(table: &CommonTable) -> Result<RecursiveParts<'_>> {
    let name = &*table.name.name;
    let query = query_of(table)?;
    let with = query.with.as_deref();
    let Some(parts) = union_parts(query) else {
        let message = format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        );
        return Err(SqlError::new(SqlState::INVALID_RECURSION, message).at(table.name.position));
    };
    // The names of the query's own WITH hide others in its terms.
    let own: Vec<Box<str>> = with.iter().flat_map(|with| names(with)).collect();
    let within = |spot, walk: &dyn Fn(&mut Walker)| {
        let found = Walker::collect(spot, |walker| {
            walker.hidden.clone_from(&own);
            walk(walker);
        });
        check_references(name, found)
    };
    within(Spot::FirstTerm, &|walker| walker.chain(parts.first, parts.operations))?;
    within(Spot::Allowed, &|walker| walker.body(parts.second))?;
    if let Some(with) = with {
        let found = Walker::collect(Spot::Subquery, |walker| walker.with(with));
        check_references(name, found)?;
    }
    refuse_clauses(query)?;
    Ok(parts)
}

/// The parts of a query, if it is a union.
fn union_parts(query: &Query) -> Option<RecursiveParts<'_>> {
    let QueryBody::SetOperations(union) = &query.body else { return None };
    let (last, operations) = union.rest.split_last()?;
    (last.kind == SetOperationKind::Union).then_some(RecursiveParts {
        with: query.with.as_deref(),
        first: &union.first,
        operations,
        second: &last.right,
        is_all: last.is_all,
    })
}

/// Refuses what follows a union in a recursive query.
fn refuse_clauses(query: &Query) -> Result<()> {
    let refused = |clause: &str, position| {
        let message = format!("{clause} in a recursive query is not implemented");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position))
    };
    if let Some(first) = query.order_by.first() {
        return refused("ORDER BY", position_of(&first.value));
    }
    if let Some(limit) = &query.limit {
        return match (&limit.offset, &limit.count) {
            (Some(offset), _) => refused("OFFSET", position_of(offset)),
            (None, count) => refused("LIMIT", count.as_ref().map_or(Position::NONE, position_of)),
        };
    }
    match query.locks.is_empty() {
        true => Ok(()),
        false => refused("FOR UPDATE/SHARE", Position::NONE),
    }
}

fn names(with: &With) -> impl Iterator<Item = Box<str>> {
    with.tables.iter().map(|table| table.name.name.clone())
}

/// Refuses references of a query to itself in a wrong place, or more than one.
fn check_references(name: &str, found: Vec<Reference>) -> Result<()> {
    let mut seen = false;
    for reference in found.into_iter().filter(|reference| &*reference.name == name) {
        let wrong = match reference.spot.words() {
            Some(words) => format!("within {words}"),
            None if seen => "more than once".to_owned(),
            None => {
                seen = true;
                continue;
            }
        };
        let message = format!("recursive reference to query \"{name}\" must not appear {wrong}");
        return Err(SqlError::new(SqlState::INVALID_RECURSION, message).at(reference.position));
    }
    Ok(())
}

/// True if an item of FROM is one of these common table expressions.
pub fn reads_any(tree: &JoinTree, tables: &[usize]) -> bool {
    item_of(tree, tables).is_some()
}

/// The item of FROM that is one of these common table expressions.
pub fn item_of<'t>(tree: &'t JoinTree, tables: &[usize]) -> Option<&'t FromItem> {
    match tree {
        JoinTree::Item(item) => match &item.kind {
            FromKind::Plan(Plan::CteScan(scan)) => tables.contains(&scan.table).then_some(item),
            _ => None,
        },
        JoinTree::Join { left, right, .. } => item_of(left, tables).or_else(|| item_of(right, tables)),
    }
}

impl Walker {
    fn collect(spot: Spot, walk: impl FnOnce(&mut Walker)) -> Vec<Reference> {
        let mut walker = Walker { spot, hidden: Vec::new(), found: Vec::new() };
        walk(&mut walker);
        walker.found
    }

    fn relation(&mut self, relation: &RelationName) {
        let RelationName { catalog: None, schema: None, name } = relation else { return };
        if !self.hidden.contains(&name.name) {
            let reference = Reference { name: name.name.clone(), position: name.position, spot: self.spot };
            self.found.push(reference);
        }
    }

    /// Walks in another spot.
    fn within(&mut self, spot: Spot, walk: impl FnOnce(&mut Walker)) {
        let outer = std::mem::replace(&mut self.spot, spot);
        walk(self);
        self.spot = outer;
    }

    /// Walks through the queries of a WITH, whose names are hidden from then on. Changes in it are refused elsewhere.
    fn with(&mut self, with: &With) {
        if with.is_recursive {
            self.hidden.extend(names(with));
        }
        for table in &with.tables {
            if let ast::Statement::Query(query) = &*table.statement {
                self.query(query);
            }
            if !with.is_recursive {
                self.hidden.push(table.name.name.clone());
            }
        }
    }

    fn query(&mut self, query: &Query) {
        on_deep_stack(|| {
            let hidden = self.hidden.len();
            if let Some(with) = &query.with {
                self.with(with);
            }
            self.body(&query.body);
            self.expressions(|visitor| visitor.walk_order(&query.order_by));
            if let Some(limit) = &query.limit {
                self.expressions(|visitor| {
                    visitor.walk_optional(&limit.count)?;
                    visitor.walk_optional(&limit.offset)
                });
            }
            self.hidden.truncate(hidden);
        });
    }

    fn body(&mut self, body: &QueryBody) {
        on_deep_stack(|| match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::Query(query) => self.query(query),
            QueryBody::SetOperations(chain) => self.chain(&chain.first, &chain.rest),
            QueryBody::Values(values) => {
                self.expressions(|visitor| values.rows.iter().try_for_each(|row| visitor.walk_exprs(row)))
            }
        });
    }

    /// Walks through a chain of set operations; each has all before it as its left operand.
    fn chain(&mut self, first: &QueryBody, operations: &[SetOperation]) {
        let mut spot = self.spot;
        let mut spots = Vec::with_capacity(operations.len());
        for operation in operations.iter().rev() {
            let (left, right) = match (spot, operation.kind) {
                (Spot::Allowed, SetOperationKind::Intersect) if operation.is_all => {
                    (Spot::Intersect, Spot::Intersect)
                }
                (Spot::Allowed, SetOperationKind::Except) => {
                    (if operation.is_all { Spot::Except } else { Spot::Allowed }, Spot::Except)
                }
                (spot, _) => (spot, spot),
            };
            spots.push(right);
            spot = left;
        }
        self.within(spot, |walker| walker.body(first));
        for (operation, spot) in operations.iter().zip(spots.into_iter().rev()) {
            self.within(spot, |walker| walker.body(&operation.right));
        }
    }

    fn select(&mut self, select: &Select) {
        self.expressions(|visitor| {
            if let Distinct::On(exprs) = &select.distinct {
                visitor.walk_exprs(exprs)?;
            }
            visitor.walk_targets(&select.targets)
        });
        select.from.iter().for_each(|table| self.table(table));
        self.expressions(|visitor| {
            visitor.walk_optional(&select.filter)?;
            select.group_by.iter().try_for_each(|element| visitor.walk_grouping(element))?;
            visitor.walk_optional(&select.having)?;
            select.windows.iter().try_for_each(|window| visitor.walk_window(window))
        });
    }

    fn table(&mut self, table: &TableReference) {
        on_deep_stack(|| match table {
            TableReference::Relation(relation) => {
                self.relation(&relation.name);
                if let Some(sample) = &relation.sample {
                    self.expressions(|visitor| {
                        visitor.walk_exprs(&sample.arguments)?;
                        visitor.walk_optional(&sample.repeatable)
                    });
                }
            }
            TableReference::Subquery(subquery) => self.query(&subquery.query),
            TableReference::Function(function) => self.expressions(|visitor| {
                function.functions.iter().try_for_each(|(call, _)| visitor.visit_expr(call))
            }),
            TableReference::Join(join) => self.join(join),
        });
    }

    fn join(&mut self, join: &Join) {
        let (nullable_left, nullable_right) = match join.kind {
            ast::JoinKind::Left => (false, true),
            ast::JoinKind::Right => (true, false),
            ast::JoinKind::Full => (true, true),
            ast::JoinKind::Inner | ast::JoinKind::Cross => (false, false),
        };
        let side = |spot, nullable| match spot {
            Spot::Allowed if nullable => Spot::OuterJoin,
            spot => spot,
        };
        self.within(side(self.spot, nullable_left), |walker| walker.table(&join.left));
        self.within(side(self.spot, nullable_right), |walker| walker.table(&join.right));
        if let JoinCondition::On(condition) = &join.condition {
            self.expressions(|visitor| visitor.visit_expr(condition));
        }
    }

    /// Walks through the subqueries of expressions, whatever the expressions are part of.
    fn expressions(&mut self, walk: impl FnOnce(&mut Subqueries<'_>) -> ControlFlow<()>) {
        // It never breaks off.
        let _ = walk(&mut Subqueries { walker: self });
    }
}

/// A visitor that walks through the outermost queries of expressions.
struct Subqueries<'w> {
    walker: &'w mut Walker,
}

impl Visitor for Subqueries<'_> {
    type Break = ();

    fn visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.walker.within(Spot::Subquery, |walker| walker.query(query));
        ControlFlow::Continue(())
    }
}

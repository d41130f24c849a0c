//! WITH RECURSIVE: which queries refer to which, and where a query may refer to itself.
//!
//! The rules and their messages are PostgreSQL's. They are checked on the syntax tree, before anything is bound: a
//! query that breaks them may have no end.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{
        Cte, Join, JoinOperator, LimitClause, ObjectName, Query, Select, SetExpr, SetOperator, SetQuantifier,
        TableFactor, TableWithJoins, Visit, Visitor, With,
    },
    tokenizer::Span,
};

use crate::{
    Result, SqlError, SqlState,
    binder::syntax::name_of,
    executor::{expr::on_deep_stack, plan::Plan},
    planner::{FromKind, JoinTree},
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
    name: String,
    span: Span,
    spot: Spot,
}

/// Collects references, in the order in which PostgreSQL looks at them.
struct Walker {
    spot: Spot,
    /// The names of WITH clauses within the query, as far as they are in reach.
    hidden: Vec<String>,
    found: Vec<Reference>,
}

/// The parts of a query that refers to itself: `first UNION [ALL] second`, and the WITH in front of it.
pub struct RecursiveParts<'c> {
    pub with: Option<&'c With>,
    pub first: &'c SetExpr,
    pub second: &'c SetExpr,
    pub all: bool,
}

/// The queries of WITH RECURSIVE, each after those that it refers to: their positions, and whether they refer to
/// themselves.
///
/// # Errors
/// 0A000 if queries refer to each other in a circle.
pub fn order(with: &With) -> Result<Vec<(usize, bool)>> {
    let names: Vec<String> = with.cte_tables.iter().map(|cte| name_of(&cte.alias.name)).collect();
    let mut waiting: Vec<(usize, Vec<usize>, bool)> = Vec::with_capacity(names.len());
    for (position, cte) in with.cte_tables.iter().enumerate() {
        let found = Walker::collect(Spot::Allowed, |walker| walker.query(&cte.query));
        let mut needed: Vec<usize> = found
            .iter()
            .filter_map(|reference| names.iter().position(|name| *name == reference.name))
            .collect();
        let itself = needed.contains(&position);
        needed.retain(|other| *other != position);
        waiting.push((position, needed, itself));
    }
    let mut ordered = Vec::with_capacity(names.len());
    while let Some((first, ..)) = waiting.first() {
        let Some(next) = waiting.iter().position(|(_, needed, _)| needed.is_empty()) else {
            let error = SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "mutual recursion between WITH items is not implemented",
            );
            return Err(error.at(with.cte_tables[*first].alias.name.span));
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
pub fn parts(cte: &Cte) -> Result<RecursiveParts<'_>> {
    let name = name_of(&cte.alias.name);
    let invalid = |message: String| SqlError::new(SqlState::INVALID_RECURSION, message);
    let mut levels = vec![&*cte.query];
    // Parentheses around a query make no level of their own.
    while let SetExpr::Query(inner) = &*levels[levels.len() - 1].body {
        levels.push(inner);
    }
    let body = &*levels[levels.len() - 1].body;
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = body else {
        let error = invalid(format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        ));
        return Err(error.at(cte.alias.name.span));
    };
    let with = levels.iter().find_map(|level| level.with.as_ref());
    // The names of the query's own WITH hide others in its terms.
    let own: Vec<String> = with.iter().flat_map(|with| names(with)).collect();
    let within = |spot, walk: &dyn Fn(&mut Walker)| {
        let found = Walker::collect(spot, |walker| {
            walker.hidden.clone_from(&own);
            walk(walker);
        });
        check_references(&name, found)
    };
    within(Spot::FirstTerm, &|walker| walker.set_expr(left))?;
    within(Spot::Allowed, &|walker| walker.set_expr(right))?;
    if let Some(with) = with {
        let found = Walker::collect(Spot::Subquery, |walker| walker.with(with));
        check_references(&name, found)?;
    }
    for (present, clause) in [
        (levels.iter().any(|level| level.order_by.is_some()), "ORDER BY"),
        (levels.iter().any(|level| limit_and_offset(level).1), "OFFSET"),
        (levels.iter().any(|level| limit_and_offset(level).0), "LIMIT"),
        (levels.iter().any(|level| !level.locks.is_empty()), "FOR UPDATE/SHARE"),
    ] {
        if present {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{clause} in a recursive query is not implemented"),
            ));
        }
    }
    Ok(RecursiveParts { with, first: left, second: right, all: *set_quantifier == SetQuantifier::All })
}

fn limit_and_offset(query: &Query) -> (bool, bool) {
    let (limit, offset) = match &query.limit_clause {
        None => (false, false),
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        Some(LimitClause::OffsetCommaLimit { .. }) => (true, true),
    };
    (limit || query.fetch.is_some(), offset)
}

fn names(with: &With) -> impl Iterator<Item = String> {
    with.cte_tables.iter().map(|cte| name_of(&cte.alias.name))
}

/// Refuses references of a query to itself in a wrong place, or more than one.
fn check_references(name: &str, found: Vec<Reference>) -> Result<()> {
    let mut seen = false;
    for reference in found.into_iter().filter(|reference| reference.name == name) {
        let wrong = match reference.spot.words() {
            Some(words) => format!("within {words}"),
            None if seen => "more than once".to_owned(),
            None => {
                seen = true;
                continue;
            }
        };
        let message = format!("recursive reference to query \"{name}\" must not appear {wrong}");
        return Err(SqlError::new(SqlState::INVALID_RECURSION, message).at(reference.span));
    }
    Ok(())
}

/// True if an item of FROM is one of these common table expressions.
pub fn reads_any(tree: &JoinTree, tables: &[usize]) -> bool {
    match tree {
        JoinTree::Item(item) => {
            matches!(&item.kind, FromKind::Plan(Plan::CteScan(scan)) if tables.contains(&scan.table))
        }
        JoinTree::Join { left, right, .. } => reads_any(left, tables) || reads_any(right, tables),
    }
}

impl Walker {
    fn collect(spot: Spot, walk: impl FnOnce(&mut Walker)) -> Vec<Reference> {
        let mut walker = Walker { spot, hidden: Vec::new(), found: Vec::new() };
        walk(&mut walker);
        walker.found
    }

    fn reference(&mut self, name: String, span: Span) {
        if !self.hidden.contains(&name) {
            self.found.push(Reference { name, span, spot: self.spot });
        }
    }

    fn relation(&mut self, name: &ObjectName) {
        if let [part] = &name.0[..]
            && let Some(ident) = part.as_ident()
        {
            self.reference(name_of(ident), ident.span);
        }
    }

    /// Walks in another spot.
    fn within(&mut self, spot: Spot, walk: impl FnOnce(&mut Walker)) {
        let outer = std::mem::replace(&mut self.spot, spot);
        walk(self);
        self.spot = outer;
    }

    /// Walks through the queries of a WITH, whose names are hidden from then on.
    fn with(&mut self, with: &With) {
        if with.recursive {
            self.hidden.extend(names(with));
        }
        for cte in &with.cte_tables {
            self.query(&cte.query);
            if !with.recursive {
                self.hidden.push(name_of(&cte.alias.name));
            }
        }
    }

    fn query(&mut self, query: &Query) {
        on_deep_stack(|| {
            let hidden = self.hidden.len();
            if let Some(with) = &query.with {
                self.with(with);
            }
            self.set_expr(&query.body);
            self.expressions(&query.order_by);
            self.expressions(&query.limit_clause);
            self.expressions(&query.fetch);
            self.hidden.truncate(hidden);
        });
    }

    fn set_expr(&mut self, body: &SetExpr) {
        on_deep_stack(|| match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let all = *set_quantifier == SetQuantifier::All;
                let (of_left, of_right) = match (self.spot, op) {
                    (Spot::Allowed, SetOperator::Intersect) if all => (Spot::Intersect, Spot::Intersect),
                    (Spot::Allowed, SetOperator::Except | SetOperator::Minus) => {
                        (if all { Spot::Except } else { Spot::Allowed }, Spot::Except)
                    }
                    (spot, _) => (spot, spot),
                };
                self.within(of_left, |walker| walker.set_expr(left));
                self.within(of_right, |walker| walker.set_expr(right));
            }
            SetExpr::Values(values) => self.expressions(values),
            SetExpr::Table(table) => {
                if let (None, Some(name)) = (&table.schema_name, &table.table_name) {
                    self.reference(name.clone(), Span::empty());
                }
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {}
        });
    }

    fn select(&mut self, select: &Select) {
        self.expressions(&select.distinct);
        self.expressions(&select.projection);
        select.from.iter().for_each(|item| self.table_with_joins(item));
        self.expressions(&select.selection);
        self.expressions(&select.group_by);
        self.expressions(&select.having);
        self.expressions(&select.named_window);
    }

    fn table_with_joins(&mut self, item: &TableWithJoins) {
        self.joins(&item.relation, &item.joins);
    }

    /// Joins stand left-deep: the last one has all before it on its left side.
    fn joins(&mut self, first: &TableFactor, joins: &[Join]) {
        on_deep_stack(|| {
            let Some((last, before)) = joins.split_last() else { return self.factor(first) };
            let (nullable_left, nullable_right) = match &last.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            let side = |spot, nullable| match spot {
                Spot::Allowed if nullable => Spot::OuterJoin,
                spot => spot,
            };
            self.within(side(self.spot, nullable_left), |walker| walker.joins(first, before));
            self.within(side(self.spot, nullable_right), |walker| walker.factor(&last.relation));
            self.expressions(&last.join_operator);
        });
    }

    fn factor(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.relation(name),
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.table_with_joins(table_with_joins),
            TableFactor::Table { args, .. } => self.expressions(args),
            TableFactor::Function { args, .. } => self.expressions(args),
            TableFactor::UNNEST { array_exprs, .. } => self.expressions(array_exprs),
            _ => {}
        }
    }

    /// Walks through the subqueries of expressions, whatever the expressions are part of.
    fn expressions(&mut self, node: &impl Visit) {
        // It never breaks off.
        let _ = node.visit(&mut Subqueries { walker: self, depth: 0 });
    }
}

/// A visitor that walks through the outermost queries of expressions.
struct Subqueries<'w> {
    walker: &'w mut Walker,
    depth: usize,
}

impl Visitor for Subqueries<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.walker.within(Spot::Subquery, |walker| walker.query(query));
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

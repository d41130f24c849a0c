//! The written-out forms of what a query abbreviates: `*`, NATURAL, columns without their relation, relations without
//! their schema.
//!
//! A view means the columns that there were when it was created, whatever columns its tables get later, so its text
//! must name them. Binding knows what the abbreviations stand for, and [`Expansions`] collects it.

use std::{collections::HashMap, ops::ControlFlow, ptr};

use sqlparser::ast::{
    self, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, SelectItem, TableFactor,
    TableWithJoins, Value, VisitMut, VisitorMut,
};

use super::scope::{Scope, ScopeColumn};
use crate::functions::quote_ident;

/// The abbreviations of a query, with what they stand for.
///
/// They are known by their place in memory: the syntax tree stays where it is until [`Expansions::apply`].
#[derive(Default)]
pub struct Expansions {
    /// For each star its columns; none if a column has no name of its own, and the star stays.
    stars: HashMap<*const SelectItem, Option<Vec<ast::Expr>>>,
    /// For each natural join the columns that must be equal.
    joins: HashMap<*const JoinConstraint, Vec<Ident>>,
    /// For names that another column might come to have: what they mean; none if that has no name of its own.
    names: HashMap<*const ast::Expr, Option<ast::Expr>>,
    /// For names of relations of the catalog that lack their schema, the schema.
    relations: HashMap<*const ObjectName, Ident>,
}

impl Expansions {
    /// Notes the columns of `*`, or of `relation.*` for a relation of this level.
    pub fn star(&mut self, star: &SelectItem, columns: &[ScopeColumn], scope: &Scope<'_>) {
        let names = columns.iter().map(|column| scope.name_for(column).map(|parts| named(&parts)));
        self.stars.insert(ptr::from_ref(star), names.collect());
    }

    /// Notes the columns of `relation.*` for a relation of a level around.
    pub fn outer_star(&mut self, star: &SelectItem, relation: &[&str], columns: &[ScopeColumn]) {
        let is_unique = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
        let names = columns.iter().map(|column| {
            is_unique(&column.name).then(|| named(&[relation, &[column.name.as_str()]].concat()))
        });
        self.stars.insert(ptr::from_ref(star), names.collect());
    }

    /// Notes the columns that a natural join compares.
    pub fn natural(&mut self, join: &JoinConstraint, columns: &[String]) {
        self.joins.insert(ptr::from_ref(join), columns.iter().map(|name| identifier(name)).collect());
    }

    /// Notes which column of the scope, or of one around it, is named without its relation.
    pub fn column(&mut self, expr: &ast::Expr, name: &str, scope: &Scope<'_>) {
        // An aggregate may be bound once more, further out, where names can mean more than where it stands.
        let full_name = || scope.full_name(name).map(|parts| named(&parts));
        self.names.entry(ptr::from_ref(expr)).or_insert_with(full_name);
    }

    /// Notes the schema of a relation of the catalog that is named without it.
    pub fn relation(&mut self, name: &ObjectName, schema: &str) {
        self.relations.insert(ptr::from_ref(name), Ident::with_quote('"', schema));
    }

    /// Notes that a key of GROUP BY is the name of a column of the select list.
    pub fn output(&mut self, key: &ast::Expr, position: usize) {
        let number = Value::Number((position + 1).to_string(), false);
        self.names.insert(ptr::from_ref(key), Some(ast::Expr::Value(number.into())));
    }

    /// Writes them into the query that they were collected from.
    pub fn apply(mut self, query: &mut ast::Query) {
        let _: ControlFlow<()> = query.visit(&mut self);
    }

    fn write_joins(&self, item: &mut TableWithJoins) {
        for join in &mut item.joins {
            let Some(columns) = constraint_of(&mut join.join_operator)
                .and_then(|constraint| self.joins.get(&ptr::from_ref(constraint)))
            else {
                continue;
            };
            let using = match &columns[..] {
                [] if matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_)) => {
                    join.join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
                    continue;
                }
                [] => JoinConstraint::On(ast::Expr::Value(Value::Boolean(true).into())),
                columns => {
                    JoinConstraint::Using(columns.iter().map(|name| ObjectName::from(name.clone())).collect())
                }
            };
            if let Some(constraint) = constraint_of(&mut join.join_operator) {
                *constraint = using;
            }
        }
    }
}

impl VisitorMut for Expansions {
    type Break = ();

    /// Moves the items of the select list, after what is within them has been looked up.
    fn post_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        let items = std::mem::take(&mut select.projection);
        let stars: Vec<_> = items.iter().map(|item| self.stars.remove(&ptr::from_ref(item))).collect();
        for (item, columns) in items.into_iter().zip(stars) {
            match columns.flatten() {
                Some(columns) => select.projection.extend(columns.into_iter().map(SelectItem::UnnamedExpr)),
                None => select.projection.push(item),
            }
        }
        select.from.iter_mut().for_each(|item| self.write_joins(item));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if let Some(schema) = self.relations.remove(&ptr::from_ref(name)) {
            name.0.insert(0, ObjectNamePart::Identifier(schema));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let Some(Some(name)) = self.names.remove(&ptr::from_ref(expr)) {
            *expr = name;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.write_joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

fn constraint_of(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn named(parts: &[&str]) -> ast::Expr {
    match parts {
        [name] => ast::Expr::Identifier(identifier(name)),
        parts => ast::Expr::CompoundIdentifier(parts.iter().map(|name| identifier(name)).collect()),
    }
}

/// An identifier that means exactly this name.
fn identifier(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}

//! The written-out forms of what a query abbreviates: `*`, NATURAL, columns without their relation, relations without
//! their schema.
//!
//! A view means the columns that there were when it was created, whatever columns its tables get later, so its text
//! must name them. Binding knows what the abbreviations stand for, and [`Expansions`] collects it.

use std::{collections::HashMap, ops::ControlFlow, ptr};

use gnomon_parser::{
    Position,
    ast::{
        self, ColumnReference, Constant, Ident, Join, JoinCondition, JoinKind, RelationName, TableReference,
        Target, Value,
    },
    visit::VisitorMut,
};

use super::scope::{Scope, ScopeColumn};

/// The abbreviations of a query, with what they stand for.
///
/// They are known by their place in memory: the syntax tree stays where it is until [`Expansions::apply`].
#[derive(Default)]
pub struct Expansions {
    /// For each star its columns; none if a column has no name of its own, and the star stays.
    stars: HashMap<*const Target, Option<Vec<ast::Expr>>>,
    /// For each natural join the columns that must be equal.
    joins: HashMap<*const Join, Vec<Ident>>,
    /// For names that another column might come to have: what they mean; none if that has no name of its own.
    names: HashMap<*const ast::Expr, Option<ast::Expr>>,
    /// For names of relations of the catalog that lack their schema, the schema.
    relations: HashMap<*const RelationName, Ident>,
}

impl Expansions {
    /// Notes the columns of `*`, or of `relation.*` for a relation of this level.
    pub fn star(&mut self, star: &Target, columns: &[ScopeColumn], scope: &Scope<'_>) {
        let names = columns.iter().map(|column| scope.name_for(column).map(|parts| named(&parts)));
        self.stars.insert(ptr::from_ref(star), names.collect());
    }

    /// Notes the columns of `relation.*` for a relation of a level around.
    pub fn outer_star(&mut self, star: &Target, relation: &[&str], columns: &[ScopeColumn]) {
        let is_unique = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
        let names = columns.iter().map(|column| {
            is_unique(&column.name).then(|| named(&[relation, &[column.name.as_str()]].concat()))
        });
        self.stars.insert(ptr::from_ref(star), names.collect());
    }

    /// Notes the columns that a natural join compares.
    pub fn natural(&mut self, join: &Join, columns: &[String]) {
        self.joins.insert(ptr::from_ref(join), columns.iter().map(|name| Ident::new(name)).collect());
    }

    /// Notes which column of the scope, or of one around it, is named without its relation.
    pub fn column(&mut self, expr: &ast::Expr, name: &str, scope: &Scope<'_>) {
        // An aggregate may be bound once more, further out, where names can mean more than where it stands.
        let full_name = || scope.full_name(name).map(|parts| named(&parts));
        self.names.entry(ptr::from_ref(expr)).or_insert_with(full_name);
    }

    /// Notes the schema of a relation of the catalog that is named without it.
    pub fn relation(&mut self, name: &RelationName, schema: &str) {
        self.relations.insert(ptr::from_ref(name), Ident::new(schema));
    }

    /// Notes that a key of GROUP BY is the name of a column of the select list.
    pub fn output(&mut self, key: &ast::Expr, position: usize) {
        // There are never so many columns.
        let number = Value::Integer(i32::try_from(position + 1).unwrap_or(i32::MAX));
        let number = Constant { value: number, position: Position::NONE };
        self.names.insert(ptr::from_ref(key), Some(ast::Expr::Constant(number)));
    }

    /// Writes them into the query that they were collected from.
    pub fn apply(mut self, query: &mut ast::Query) {
        // It never breaks off.
        let _: ControlFlow<()> = self.visit_query(query);
    }

    fn write_join(&self, join: &mut Join) {
        let Some(columns) = self.joins.get(&ptr::from_ref(&*join)) else { return };
        join.condition = match &columns[..] {
            [] if join.kind == JoinKind::Inner => {
                join.kind = JoinKind::Cross;
                JoinCondition::None
            }
            [] => {
                let always = Constant { value: Value::Boolean(true), position: Position::NONE };
                JoinCondition::On(ast::Expr::Constant(always))
            }
            columns => JoinCondition::Using(columns.to_vec(), None),
        };
    }
}

impl VisitorMut for Expansions {
    type Break = ();

    /// Moves the items of the select list, after what is within them has been looked up.
    fn visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        self.walk_select(select)?;
        let targets = std::mem::take(&mut select.targets);
        let stars: Vec<_> = targets.iter().map(|target| self.stars.remove(&ptr::from_ref(target))).collect();
        for (target, columns) in targets.into_iter().zip(stars) {
            match columns.flatten() {
                Some(columns) => select.targets.extend(columns.into_iter().map(|value| Target {
                    value,
                    alias: None,
                    position: target.position,
                })),
                None => select.targets.push(target),
            }
        }
        ControlFlow::Continue(())
    }

    fn visit_table(&mut self, table: &mut TableReference) -> ControlFlow<()> {
        if let TableReference::Join(join) = table {
            self.write_join(join);
        }
        self.walk_table(table)
    }

    fn visit_relation(&mut self, name: &mut RelationName) -> ControlFlow<()> {
        if let Some(schema) = self.relations.remove(&ptr::from_ref(&*name)) {
            name.schema = Some(schema);
        }
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        match self.names.remove(&ptr::from_ref(&*expr)) {
            Some(Some(name)) => {
                *expr = name;
                ControlFlow::Continue(())
            }
            _ => self.walk_expr(expr),
        }
    }
}

/// The name of a column, as an expression that means exactly it.
fn named(parts: &[&str]) -> ast::Expr {
    let fields = parts.iter().map(|name| Ident::new(name)).collect();
    ast::Expr::Column(ColumnReference { fields, has_star: false, position: Position::NONE })
}

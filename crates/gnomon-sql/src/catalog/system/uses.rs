//! The relations that kept expressions and queries name.

use std::{collections::BTreeSet, ops::ControlFlow};

use gnomon_parser::{
    ast::{Expr, Query, RelationName},
    visit::Visitor,
};

use super::{names, reference};
use crate::{
    catalog::{Catalog, Relation, model::Oid},
    syntax::{may_name_relations, parse_expression, relation_string},
};

/// Returns the relation that a kept string stands for.
pub fn relation_of_string(catalog: &Catalog, string: &str) -> Option<Relation> {
    match &names::parts(string)?[..] {
        [schema, name] => catalog.relation(schema, name),
        _ => None,
    }
}

/// Returns the relations that strings of a kept expression stand for.
pub fn relations_of_expression(catalog: &Catalog, text: &str) -> BTreeSet<Oid> {
    let mut uses = Uses { catalog, has_strings: true, relations: BTreeSet::new() };
    if may_name_relations(text)
        && let Ok(expr) = parse_expression(text)
    {
        let _: ControlFlow<()> = uses.visit_expr(&expr);
    }
    uses.relations
}

/// Returns the relations that a kept query names in FROM, of the system too, and those that its strings stand for.
pub fn relations_of_query(catalog: &Catalog, query: &Query) -> BTreeSet<Oid> {
    used_by(catalog, query, true)
}

/// Returns the relations that a kept query names in FROM, of the system too.
pub fn relations_in_from(catalog: &Catalog, query: &Query) -> BTreeSet<Oid> {
    used_by(catalog, query, false)
}

fn used_by(catalog: &Catalog, query: &Query, has_strings: bool) -> BTreeSet<Oid> {
    let mut uses = Uses { catalog, has_strings, relations: BTreeSet::new() };
    let _: ControlFlow<()> = uses.visit_query(query);
    uses.relations
}

struct Uses<'c> {
    catalog: &'c Catalog,
    /// True if strings that stand for relations count.
    has_strings: bool,
    relations: BTreeSet<Oid>,
}

impl Visitor for Uses<'_> {
    type Break = ();

    fn visit_relation(&mut self, name: &RelationName) -> ControlFlow<()> {
        // Others are common table expressions.
        if let Some(schema) = &name.schema {
            let (schema, name) = (&schema.name, &name.name.name);
            let relation = self.catalog.relation(schema, name).map(|relation| relation.oid());
            let of_system = || reference::relation(schema, name).map(|relation| relation.oid);
            self.relations.extend(relation.or_else(of_system));
        }
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let string = relation_string(expr).filter(|_| self.has_strings);
        let relation = string.and_then(|string| relation_of_string(self.catalog, string));
        self.relations.extend(relation.map(|relation| relation.oid()));
        self.walk_expr(expr)
    }
}

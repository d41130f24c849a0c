//! Names of relations within strings of stored expressions: `nextval('ticket')`, `'ticket'::regclass`. They are kept with
//! their schemas, so that they mean the same whatever the search path is.

use std::ops::ControlFlow;

use gnomon_parser::{
    ast::{Expr, Query},
    visit::VisitorMut,
};

use crate::{
    Result,
    context::View,
    functions::quote_ident,
    query::Binder,
    syntax::{expression_text, query_text, relation_string, set_relation_string},
    types::{Context, Type},
};

/// Returns the text to keep of an expression that `bind` binds, and what that gives.
pub(super) fn fixed_expression_text<R>(
    expr: &Expr,
    types: &Context<'_>,
    view: &View,
    bind: impl FnOnce(&mut Binder<'_>, &Expr) -> Result<R>,
) -> Result<(String, R)> {
    let mut expr = expr.clone();
    let bound = Binder::new(view, types, &[]).expr_to_keep(&mut expr, bind)?;
    let _: ControlFlow<()> = FixedNames { types, view }.visit_expr(&mut expr);
    Ok((expression_text(&expr)?, bound))
}

/// Returns the text to keep of a query.
pub(super) fn fixed_query_text(query: &mut Query, types: &Context<'_>, view: &View) -> Result<String> {
    let _: ControlFlow<()> = FixedNames { types, view }.visit_query(query);
    query_text(query)
}

/// Puts schemas into the strings of an expression or query that name relations.
struct FixedNames<'a> {
    types: &'a Context<'a>,
    view: &'a View,
}

impl VisitorMut for FixedNames<'_> {
    type Break = ();

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(name) = relation_string(expr).and_then(|name| self.fixed(name)) {
            set_relation_string(expr, name);
        }
        self.walk_expr(expr)
    }
}

impl FixedNames<'_> {
    fn fixed(&self, name: &str) -> Option<String> {
        let oid = self.types.environment.object_by_name(Type::Regclass, name).ok()?;
        let (schema, relation) = self.view.relation_name(oid)?;
        Some(format!("{}.{}", quote_ident(&schema), quote_ident(&relation)))
    }
}

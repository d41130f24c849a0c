//! The texts that catalogs show of views and stored expressions: as PostgreSQL 15 prints them.
//!
//! The catalog keeps a query or an expression as its parser's tree, printed. PostgreSQL keeps an analysed tree, and its
//! texts show what analysis has added: types of literals, conversions, `IN` as `ANY`, and names of columns in full. So a
//! text is bound again when it is asked for, with the catalog of that moment; the binder records the type of each node of
//! the syntax tree, and the columns of each member of FROM ([`Analysis`](crate::binder::Analysis)). Two steps make the
//! text of these:
//!
//! - `typed` and `call` turn an expression's tree into [`node::Node`]s. They put conversions where operators, functions
//!   and places ask for them, by the recorded types and the same resolution that the binder uses. Where PostgreSQL has
//!   an operator or function of exactly the types at hand that this program carries out by a conversion, there is none.
//! - `expression`, `query` and `from` print nodes and clauses, with PostgreSQL's lines, indents and parentheses.
//!
//! The texts are for readers, and for pg_dump: they are SQL that means the same. What the database binds is the kept text.
//! A text that cannot be bound (a damaged catalog) is an error, and the caller shows the kept text instead.

mod call;
mod expression;
mod from;
mod node;
mod query;
mod typed;
mod writer;

use std::sync::Arc;

use gnomon_parser::ast;

use self::writer::{DefinitionWriter, Surroundings};
use crate::{
    Result,
    binder::{Binder, CatalogView, Scope},
    catalog::{
        model::{Table, View},
        system::Style,
    },
    syntax::on_deepest_stack,
    types::{ColumnType, Context},
};

/// Prints the query of a view, with its semicolon.
///
/// # Errors
/// Those of binding.
pub fn view(catalog: &dyn CatalogView, context: &Context<'_>, view: &View, style: Style) -> Result<String> {
    on_deepest_stack(|| {
        let query = catalog.view_query(view)?;
        let analysis = Binder::new(catalog, context, &[]).analyse_query(&query)?;
        let around = Surroundings { analysis: &analysis, context, catalog };
        let names: Vec<String> = view.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut writer = DefinitionWriter::new(&around, style);
        writer.view_query(&query, &names);
        writer.push(";");
        Ok(writer.finish())
    })
}

/// Prints an expression over the columns of a table, if one is given, converted to `target` if it is assigned to that.
///
/// # Errors
/// As [`view`].
pub fn expression(
    catalog: &dyn CatalogView,
    context: &Context<'_>,
    (table, expr): (Option<&Arc<Table>>, &ast::Expr),
    target: Option<ColumnType>,
    style: Style,
) -> Result<String> {
    on_deepest_stack(|| {
        let scope = table.map_or_else(Scope::empty, |table| Scope::of_table(table, None));
        let analysis = Binder::new(catalog, context, &[]).analyse_expr(expr, &scope)?;
        let around = Surroundings { analysis: &analysis, context, catalog };
        let mut writer = DefinitionWriter::new(&around, style);
        let node = match target {
            Some(target) => writer.reader.converted(expr, target),
            None => writer.reader.known(expr),
        };
        writer.expression(&node, false);
        Ok(writer.finish())
    })
}

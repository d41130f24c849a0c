//! Changes of rows through views: PostgreSQL's rules of the views for which it carries them out.

use std::ops::ControlFlow;

use gnomon_parser::{
    ast::{Distinct, Expr, FunctionCall, Query, QueryBody, Select, TableReference},
    visit::Visitor,
};

use super::{CatalogView, Relation};
use crate::{
    Result, SqlError, SqlState,
    catalog::{model::View, row_address::is_system_column},
    functions::{is_aggregate, is_set_function},
};

/// A statement that changes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl Change {
    fn command(self) -> &'static str {
        match self {
            Change::Insert => "INSERT",
            Change::Update => "UPDATE",
            Change::Delete => "DELETE",
        }
    }

    /// Returns the error for a view that PostgreSQL does not change either.
    fn refused(self, view: &View, reason: &str) -> SqlError {
        let (verb, doing) = match self {
            Change::Insert => ("insert into", "inserting into"),
            Change::Update => ("update", "updating"),
            Change::Delete => ("delete from", "deleting from"),
        };
        let (state, command) = (SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, self.command());
        SqlError::new(state, format!("cannot {verb} view \"{}\"", view.name)).detail(reason).hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {command} trigger or an unconditional ON {command} DO \
             INSTEAD rule."
        ))
    }
}

/// Returns the error for a change of rows through a view. One that PostgreSQL would carry out is a missing feature.
pub fn refused_change(catalog: &dyn CatalogView, view: &View, change: Change) -> Result<SqlError> {
    let query = catalog.view_query(view)?;
    let select = match plain_select(&query) {
        Ok(select) => select,
        Err(reason) => return Ok(change.refused(view, reason)),
    };
    let base = match &select.from[..] {
        [TableReference::Relation(base)] => base,
        _ => return Ok(change.refused(view, NO_SINGLE_TABLE)),
    };
    let schema = base.name.schema.as_ref().map(|schema| &*schema.name);
    let inner = match catalog.relation(schema, &base.name.name.name)? {
        Some(Relation::Table(_)) => None,
        Some(Relation::View(inner)) => Some(inner),
        _ => return Ok(change.refused(view, NO_SINGLE_TABLE)),
    };
    if base.sample.is_some() {
        return Ok(change.refused(view, "Views containing TABLESAMPLE are not automatically updatable."));
    }
    if change != Change::Delete && !select.targets.iter().any(|target| is_column(&target.value)) {
        return Ok(
            change.refused(view, "Views that have no updatable columns are not automatically updatable.")
        );
    }
    match inner {
        Some(inner) => refused_change(catalog, &inner, change),
        None => Ok(SqlError::unsupported(format!("{} of rows through a view", change.command()))),
    }
}

const NO_SINGLE_TABLE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Returns the SELECT of a query without clauses by which a row would not be one of a table; else the clause.
fn plain_select(query: &Query) -> Result<&Select, &'static str> {
    let select = match &query.body {
        QueryBody::Query(inner) if query.with.is_none() && query.limit.is_none() => {
            return plain_select(inner);
        }
        QueryBody::Select(select) => Some(select),
        QueryBody::Values(_) | QueryBody::Query(_) => None,
        QueryBody::SetOperations(_) => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
    };
    let has = |clause: bool, reason| if clause { Err(reason) } else { Ok(()) };
    if let Some(select) = select {
        let is_distinct = !matches!(select.distinct, Distinct::No);
        has(is_distinct, "Views containing DISTINCT are not automatically updatable.")?;
        has(!select.group_by.is_empty(), "Views containing GROUP BY are not automatically updatable.")?;
        has(select.having.is_some(), "Views containing HAVING are not automatically updatable.")?;
    }
    has(query.with.is_some(), "Views containing WITH are not automatically updatable.")?;
    has(query.limit.is_some(), "Views containing LIMIT or OFFSET are not automatically updatable.")?;
    let select = select.ok_or(NO_SINGLE_TABLE)?;
    let mut calls = Calls::default();
    let sorted = query.order_by.iter().map(|item| &item.value);
    for expr in select.targets.iter().map(|target| &target.value).chain(sorted) {
        // It never breaks off.
        let _: ControlFlow<()> = calls.visit_expr(expr);
    }
    has(calls.aggregates, "Views that return aggregate functions are not automatically updatable.")?;
    has(calls.windows, "Views that return window functions are not automatically updatable.")?;
    has(calls.sets, "Views that return set-returning functions are not automatically updatable.")?;
    Ok(select)
}

/// True for a column of the table.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => {
            !column.has_star && column.fields.last().is_some_and(|name| !is_system_column(&name.name))
        }
        _ => false,
    }
}

/// The kinds of functions that a query calls at its own level.
#[derive(Default)]
struct Calls {
    aggregates: bool,
    windows: bool,
    sets: bool,
}

impl Calls {
    fn add(&mut self, call: &FunctionCall) {
        let name = call.name.0.last().map_or("", |name| &*name.name);
        match call.over {
            Some(_) => self.windows = true,
            None => self.aggregates |= is_aggregate(name),
        }
        self.sets |= is_set_function(name);
    }
}

impl Visitor for Calls {
    type Break = ();

    /// Passes by, since a query within has calls of its own.
    fn visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr {
            self.add(call);
        }
        self.walk_expr(expr)
    }
}

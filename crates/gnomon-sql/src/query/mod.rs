//! Queries: names and types bound, access paths planned, rows produced.
//!
//! A query passes through three stages. [`bind`] turns the parser's tree into typed expressions over numbered
//! columns: names, parameters, implicit casts and grouping are settled there, with PostgreSQL's messages. [`plan`]
//! chooses how each table is reached (a point, ranges of a key, or all of it), the order and kind of joins, and
//! whether a key's order spares a sort. [`exec`] pulls rows through the plan.
//!
//! Plans are immutable and hold no transaction: a prepared statement binds and plans once, and opens its plan for
//! each execution ([`Planned::open`]). Values of an enclosing query's row reach a subquery, and values of a join's
//! outer row its inner side, through numbered slots of the execution ([`ExecContext`]), never by nested scopes at
//! run time.
//!
//! What is not done: statistics (the planner goes by keys and the shape of the query alone), spilling sorts and hashes
//! to disk (one that outgrows the memory of its statement fails with 53200), parallel execution.
//!
//! - [`CatalogView`]: what names of relations mean, asked while binding;
//! - [`Binder`]: expressions of other statements (DEFAULT, CHECK, SET, RETURNING), with shared parameters;
//! - [`plan_query`], [`Planned`], [`Execution`]: a query from syntax tree to rows;
//! - [`Spool`]: what a statement keeps until it may write;
//! - [`TargetScan`], [`Targets`]: the rows that UPDATE and DELETE change, found, locked and checked again.

pub mod bind;
mod context;
pub mod exec;
pub mod expr;
pub mod plan;
mod spool;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sqlparser::ast;

use crate::{
    Result,
    catalog::model::{Oid, Table, View},
    types::{ColumnType, Context, Row, Type},
};

pub use bind::{Binder, ParameterNames, Scope};
pub(crate) use bind::{GROUP_BY_DISTINCT, WEAKER_ROW_LOCK};
pub use context::{ExecContext, RowsDone};
pub use exec::Execution;
pub use expr::Expr;
pub use spool::{Spool, SpoolReader};
pub use targets::{Target, TargetScan, Targets};

/// The meaning of names of relations in the session that binds: its search path and its transaction's catalog.
pub trait CatalogView {
    /// The relation of this name; without a schema, the first one on the search path. None if there is none. What
    /// exists but cannot be read as rows (an index) is an error.
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Relation>>;

    /// The query of a view, read from the text that is kept of it.
    fn view_query(&self, view: &View) -> Result<Box<ast::Query>>;

    /// The database's name: `database.schema.table` is accepted if it is this one.
    fn database(&self) -> &str;
}

/// A relation that can stand in FROM.
#[derive(Clone)]
pub enum Relation {
    /// A stored table.
    Table(Arc<Table>),
    /// A table whose rows are computed, such as those of `pg_catalog`.
    Virtual(Arc<dyn VirtualTable>),
    /// A view.
    View(Arc<View>),
}

/// A table whose rows are computed when it is scanned.
pub trait VirtualTable: Send + Sync {
    /// Its identifier (`pg_class.oid`).
    fn oid(&self) -> Oid;
    /// Its schema.
    fn schema(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// Its columns.
    fn columns(&self) -> &[VirtualColumn];
    /// Its rows, each as wide as [`VirtualTable::columns`].
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>>;
}

/// A column of a virtual table.
#[derive(Clone, Debug)]
pub struct VirtualColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: ColumnType,
}

/// A column of a result.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// The table that it comes from, or 0.
    pub table: Oid,
    /// Its number in that table, from 1, or 0.
    pub attribute: i16,
}

/// A query, bound and planned. Valid as long as the catalog that it was bound with; cheap to clone.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The columns of its result.
    pub columns: Arc<[ResultColumn]>,
    /// The types of its parameters.
    pub params: Arc<[Type]>,
    plan: plan::Plan,
}

impl Planned {
    /// Binds a query with a binder of its own, and plans it.
    pub fn bind(mut binder: Binder<'_>, query: &ast::Query) -> Result<Planned> {
        let (plan, columns) = binder.query(query)?;
        Ok(Planned { columns: columns.into(), params: binder.parameters()?.into(), plan })
    }

    /// Binds a query that is to be kept as text, and plans it; what the query abbreviates is written out in it.
    pub fn bind_to_keep(mut binder: Binder<'_>, query: &mut ast::Query) -> Result<Planned> {
        let (plan, columns) = binder.query_to_keep(query)?;
        Ok(Planned { columns: columns.into(), params: binder.parameters()?.into(), plan })
    }

    /// Starts an execution. Nothing is read before [`Execution::next`].
    pub fn open(&self) -> Execution {
        Execution::new(&self.plan)
    }

    /// The plan as EXPLAIN prints it, a line each.
    pub fn explain(&self) -> Vec<String> {
        plan::explain(&self.plan)
    }

    /// True if running it locks rows (FOR UPDATE or FOR SHARE), which a read-only transaction must refuse.
    pub fn locks_rows(&self) -> bool {
        self.plan.locks_rows()
    }
}

/// Binds and plans a query. `params` are the types of its parameters as far as the client declared them
/// ([`Type::Unknown`] where it did not); the result has the types of all. `types` are the settings under which
/// literals are read.
pub fn plan_query(
    query: &ast::Query,
    catalog: &dyn CatalogView,
    types: &Context<'_>,
    params: &[Type],
) -> Result<Planned> {
    Planned::bind(Binder::new(catalog, types, params), query)
}

//! A query from its syntax tree to its rows: [`plan_query`], [`Planned`], [`Execution`].
//!
//! It passes through three rooms. The binder turns the syntax tree into typed expressions over numbered columns:
//! names, parameters, implicit casts and grouping are settled there, with PostgreSQL's messages. The planner chooses
//! how rows are reached and joined. The executor pulls them through the plan. Imports run one way: from the binder to
//! the planner and the executor, and from the planner to the executor.
//!
//! This module is only their door for sessions: a change belongs into `crate::binder`, `crate::planner` or
//! `crate::executor`. Their tests are in the folder of this module (`query/tests.rs`), since most need all three.

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use gnomon_parser::ast;

use crate::{
    Result,
    executor::plan::{Origins, Plan},
    types::{Context, Type},
};

pub use crate::{
    binder::{
        Assignee, AssigneeKind, Binder, CatalogView, Change, ChangeTarget, ParameterNames, Relation,
        ResultColumn, Scope, ScopeRelation, check_collation, check_operator_class, column_of_key,
        column_position, figure_name, into_clause, is_star, position_of, query_item_position, relation_name,
        relation_of,
    },
    executor::{
        AccessCounts, Accesses, ByRelation, Cursors, ExecContext, Execution, Expr, Measures, RowSource,
        RowsDone, Run, Spool, SpoolReader, Tally, Target, TargetScan, Targets, VirtualTable,
        estimate::Estimator, expr, open, open_tables, plan,
    },
};

/// A query, bound and planned. Valid as long as the catalog that it was bound with; cheap to clone.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The columns of its result.
    pub columns: Arc<[ResultColumn]>,
    /// The types of its parameters.
    pub params: Arc<[Type]>,
    plan: Plan,
}

impl Planned {
    /// Binds a query with a binder of its own, and plans it.
    pub fn bind(binder: &mut Binder<'_>, query: &ast::Query) -> Result<Planned> {
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
        self.open_measured(&Measures::default())
    }

    /// As [`Planned::open`], with a measure of the plan's nodes.
    pub fn open_measured(&self, measures: &Measures) -> Execution {
        Execution::new(&self.plan, measures)
    }

    /// Its parts, for a search through its constants.
    pub fn parts(&self) -> plan::Parts<'_> {
        plan::Parts { plans: vec![&self.plan], ..plan::Parts::default() }
    }

    /// Fails if a constant cannot be computed, for a statement that runs a query as a part of it.
    ///
    /// # Errors
    /// That of the constant.
    pub fn refuse_failing_constants(&self, types: &Context<'_>) -> Result<()> {
        self.parts().failing_constant(types).map_or(Ok(()), Err)
    }

    /// As [`Planned::open`], with the keys of the rows that its rows come from behind their columns.
    pub fn open_keyed(&self) -> (Execution, Origins) {
        let (plan, origins) = plan::keyed(&self.plan);
        (Execution::new(&plan, &Measures::default()), origins)
    }

    /// The plan as EXPLAIN shows it, with the runs of its nodes if these were measured.
    pub fn explain(&self, measures: &Measures) -> plan::Node {
        plan::explain(&self.plan, measures)
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
    Planned::bind(&mut Binder::new(catalog, types, params), query)
}

//! Estimates of plans: the rows that a node returns and what they cost, from the statistics of tables.
//!
//! [`Estimator`] walks a finished plan from its leaves up. The planner compares plans by it, and EXPLAIN prints it.
//! Selectivities are computed by PostgreSQL's formulas and, where there are no statistics, its defaults (`selectivity`,
//! `value`, `join`); costs by constants of the engine's own (`cost`). A wrong estimate makes a plan slower, not wrong.

mod column;
mod cost;
mod join;
mod scan;
mod selectivity;
mod tree;
mod value;

use std::{collections::HashMap, sync::Arc};

pub use column::ColumnEstimate;
pub use cost::{EVALUATE, HASH_PROBE, PAIR, RESCAN, hash_cost, sort_cost};
pub use scan::{Lookup, lookup, table_columns, table_rows};
pub use selectivity::selectivity;

use super::{
    expr::on_deep_stack,
    measure::{Estimates, Measured},
    plan::{Cte, NodeEstimate, Plan},
};

/// The estimate of a node of a plan.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The cost until its first row.
    pub startup: f64,
    /// The cost of all rows.
    pub total: f64,
    /// Number of rows: of a scan perhaps less than one, as it is on average when it is run many times.
    pub rows: f64,
    /// Its columns.
    pub columns: Vec<ColumnEstimate>,
}

impl Estimate {
    /// The width of a row in bytes.
    pub fn width(&self) -> f64 {
        self.columns.iter().map(|column| column.width).sum()
    }

    /// Raises its cost, of all its rows.
    fn plus(mut self, cost: f64) -> Estimate {
        self.total += cost;
        self
    }
}

/// Estimates plans, each node once.
#[derive(Default)]
pub struct Estimator {
    known: HashMap<usize, Arc<Estimate>>,
    /// The rows of common table expressions, by number.
    tables: HashMap<usize, Arc<Estimate>>,
}

impl Estimator {
    /// Returns the estimate of a plan. Plans that an estimator has seen must live as long as it does.
    pub fn of(&mut self, plan: &Plan) -> Arc<Estimate> {
        if let Some(known) = self.known.get(&plan.address()) {
            return known.clone();
        }
        let estimate = Arc::new(on_deep_stack(|| self.node(plan)));
        self.known.insert(plan.address(), estimate.clone());
        estimate
    }
}

impl Estimates for Estimator {
    fn of_node(&mut self, plan: &Plan) -> NodeEstimate {
        let found = self.of(plan);
        NodeEstimate {
            startup: found.startup,
            total: found.total,
            rows: whole_rows(found.rows),
            width: found.width(),
        }
    }

    fn note_tables(&mut self, tables: &[Cte]) {
        self.of_tables(tables);
    }
}

/// A number of rows that is at least one, and whole.
fn whole_rows(rows: f64) -> f64 {
    if rows.is_nan() { 1.0 } else { rows.round().max(1.0) }
}

//! Rows in batches of columns, for operators that read all of their input.
//!
//! A [`Batch`] holds the columns of up to [`ROWS_MAX`] rows. Its sources read a table's rows straight into columns
//! ([`scan`]), join them by hash ([`join`]) and leave out those that a condition does not hold for; expressions are evaluated for a whole
//! batch ([`eval`]), and aggregates take its values in loops.
//!
//! They return what the row sources of the same plan return. A condition is tested for a row only if those before it in
//! an AND are true for it, and a part of CASE, COALESCE and their like only where it is asked for: errors come up where
//! they would row by row, but of several rows' errors another one may come first. Batches stand beneath operators
//! only that read all rows before they return one, and only where nothing depends on the order of evaluation: no
//! expression is volatile. Plans that have no batches ([`open`] returns none) are run by rows.

mod eval;
mod join;
mod keys;
mod scan;

use std::sync::Arc;

pub(super) use self::{
    eval::{Evaluated, eval, is_evaluated_at_once},
    keys::{Key, KeyMap},
};
use super::{
    Expr, Measures,
    context::ExecContext,
    expr::ExprKind,
    measure::MeasuredSource,
    plan::{self, Plan},
};
use crate::{
    Result,
    types::{Row, column::Column},
};

/// The largest number of rows of a batch.
const ROWS_MAX: usize = 1024;
/// A batch gets no more rows once those it has took so many bytes in the table.
const STORED_BYTES_MAX: usize = 256 << 10;

/// A source of batches.
pub(super) trait BatchSource: Send {
    /// Returns the next rows, at least one; none at the end (and from then on).
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>>;
}

/// Rows by column.
pub(super) struct Batch {
    rows: usize,
    columns: Vec<Column>,
}

impl Batch {
    /// Returns a single row.
    fn of_row(row: Row) -> Batch {
        Batch { rows: 1, columns: row.into_iter().map(|value| Column::of_values(vec![value])).collect() }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the rows at these positions.
    pub(super) fn take(&self, positions: &[u32]) -> Batch {
        let columns = self.columns.iter().map(|column| column.take(positions)).collect();
        Batch { rows: positions.len(), columns }
    }

    /// Returns the rows that a condition is true for.
    fn filter(mut self, condition: &Expr, ctx: &mut ExecContext<'_>) -> Result<Batch> {
        for conjunct in conjuncts(condition) {
            let truth = eval(conjunct, &self, ctx)?;
            let mut kept = Vec::with_capacity(self.rows);
            kept.extend((0..self.rows as u32).filter(|at| truth.is_true(*at as usize)));
            if kept.len() < self.rows {
                self = self.take(&kept);
            }
            if self.rows == 0 {
                break;
            }
        }
        Ok(self)
    }
}

/// The conditions that are all to be true, in their order.
fn conjuncts(condition: &Expr) -> &[Expr] {
    match &condition.kind {
        ExprKind::And(conjuncts) => conjuncts,
        _ => std::slice::from_ref(condition),
    }
}

/// Opens a plan whose rows can come in batches; none if they cannot.
pub(super) fn open(plan: &Plan, measures: &Measures) -> Option<Box<dyn BatchSource>> {
    let source: Box<dyn BatchSource> = match plan {
        Plan::TableScan(node) => Box::new(scan::BatchScan::of(node)?),
        Plan::Filter(node) if is_evaluated_at_once(&node.condition) => {
            Box::new(FilterBatches { input: open(&node.input, measures)?, node: node.clone() })
        }
        Plan::Project(node) if node.columns.iter().all(is_evaluated_at_once) => {
            Box::new(ProjectBatches { input: open(&node.input, measures)?, node: node.clone() })
        }
        Plan::HashJoin(node) => Box::new(join::HashJoinBatches::of(node, measures)?),
        _ => return None,
    };
    Some(match measures.measured(plan, source) {
        Ok(measured) => Box::new(measured),
        Err(source) => source,
    })
}

impl BatchSource for MeasuredSource<Box<dyn BatchSource>> {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        let rows = |batch: &Result<Option<Batch>>| match batch {
            Ok(Some(batch)) => batch.rows(),
            _ => 0,
        };
        self.measured(|source| source.next(ctx), rows)
    }
}

/// Leaves out rows that a condition is not true for.
struct FilterBatches {
    node: Arc<plan::Filter>,
    input: Box<dyn BatchSource>,
}

impl BatchSource for FilterBatches {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        if self.node.condition.is_never_true() {
            return Ok(None);
        }
        while let Some(batch) = self.input.next(ctx)? {
            let before = batch.rows;
            let batch = batch.filter(&self.node.condition, ctx)?;
            ctx.measures.note_removed_rows(&self.node, before - batch.rows);
            if batch.rows > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Evaluates other columns for each row.
struct ProjectBatches {
    node: Arc<plan::Project>,
    input: Box<dyn BatchSource>,
}

impl BatchSource for ProjectBatches {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        let Some(batch) = self.input.next(ctx)? else { return Ok(None) };
        let column = |expr| Ok(eval(expr, &batch, ctx)?.into_column(batch.rows));
        let columns = self.node.columns.iter().map(column).collect::<Result<_>>()?;
        Ok(Some(Batch { rows: batch.rows, columns }))
    }
}

//! Execution: rows pulled through a plan.
//!
//! This is the lowest of the three rooms of a query. It owns the language in which the others tell it what to do:
//! [`plan`], the nodes of a plan, and [`expr`], the expressions in them, which it evaluates. The planner builds plans
//! and the binder expressions; neither is known here. Plans are immutable and hold no transaction: a prepared statement
//! binds and plans once, and each execution opens the plan anew.
//!
//! Each node of a plan opens as a [`RowSource`], which holds where it stands and borrows the transaction only for
//! the call. Aggregates take their input in batches of columns where they can ([`batch`]). What can stream does; sorts, hashes and the kept side of a join hold their rows in memory, counted
//! against the statement's limit. Values of an enclosing query's row reach a subquery, and values of a join's outer row
//! its inner side, through numbered slots of the execution ([`ExecContext`]), never by nested scopes at run time.
//!
//! What is not done: spilling sorts and hashes to disk (one that outgrows the memory of its statement fails with
//! 53200), parallel execution.
//!
//! - [`Execution`]: a plan under way;
//! - [`TargetScan`], [`Targets`]: the rows that UPDATE and DELETE change, found, locked and checked again;
//! - [`Spool`]: what a statement keeps until it may write;
//! - [`VirtualTable`]: a table whose rows are computed.

mod aggregate;
mod batch;
mod context;
pub mod estimate;
pub mod expr;
mod join;
mod keys;
mod lock;
mod measure;
pub mod plan;
mod quicksort;
mod scan;
mod set;
mod sort;
mod spool;
mod tally;
mod targets;
mod virtual_table;
mod window;

use std::{mem, sync::Arc};

use self::{
    context::{ExecState, row_bytes},
    keys::{HashKey, hash_key, sort_key},
    plan::Plan,
    set::CteRows,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Datum, Row,
        limit::{LONG_BYTES, ROW_BYTES_MAX, datum_bytes, too_long},
    },
};

pub use context::{Cursors, ExecContext, RowsDone};
pub use expr::Expr;
pub use measure::{Measures, Run};
pub use set::open_tables;
pub use spool::{Spool, SpoolReader};
pub use tally::{AccessCounts, Accesses, ByRelation, Tally};
pub use targets::{Find, Target, TargetScan, Targets};
pub use virtual_table::{VirtualColumn, VirtualTable};

/// A source of rows.
pub trait RowSource: Send {
    /// The next row, or none at the end (and from then on).
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>>;
}

/// A query under way: what a portal holds between two fetches.
pub struct Execution {
    source: Box<dyn RowSource>,
    state: ExecState,
}

impl Execution {
    /// Starts an execution of a plan, whose nodes are measured if there is a measure. Nothing is read before
    /// [`Execution::next`].
    pub fn new(plan: &Plan, measures: &Measures) -> Execution {
        Execution { source: open(plan, measures), state: ExecState::default() }
    }

    /// The next row, or none at the end. `ctx` must have the transaction and the parameters of the first call.
    pub fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        mem::swap(&mut self.state, &mut ctx.state);
        let row = self.source.next(ctx);
        mem::swap(&mut self.state, &mut ctx.state);
        row
    }
}

/// Rows kept by the execution, shared by their readers.
type CachedRows = Arc<Vec<Row>>;

/// The part of a subquery's result that is kept from row to row.
#[derive(Clone)]
enum SubqueryResult {
    /// A value (EXISTS, scalar, ARRAY).
    Value(Datum),
    /// Its rows.
    Rows(CachedRows),
    /// Its rows by hash.
    Hash(Arc<HashedRows>),
    /// Of a correlated one: what its evaluations for rows around it, one by one, have taken.
    OneByOne(OneByOne),
    /// Of a correlated one: the rows for all rows around.
    Keyed(Arc<KeyedRows>),
}

/// The cost so far of evaluating a correlated subquery for the rows around it one by one.
#[derive(Clone, Copy, Default)]
struct OneByOne {
    pub evaluations: u64,
    /// The rows that they have passed.
    pub rows: u64,
    /// The cost from which on its tables are to be read for all rows around; none if they are not.
    pub until: Option<u64>,
}

/// The rows of a correlated subquery, by the values that must be equal.
struct KeyedRows {
    pub buckets: std::collections::HashMap<HashKey, Bucket>,
    /// The value of a scalar subquery without rows.
    pub of_none: Datum,
}

/// The rows of one key.
enum Bucket {
    Rows(Vec<Row>),
    Hashed(HashedRows),
}

/// The rows of a subquery for `IN`.
struct HashedRows {
    /// The rows without a NULL.
    pub rows: std::collections::HashSet<HashKey>,
    /// The rows with one, for which the comparison may be NULL.
    pub with_null: Vec<Row>,
    /// True if there is no row at all.
    pub empty: bool,
    /// All rows, if they have several columns.
    pub all: Vec<Row>,
}

/// Opens a plan. Its rows are made in the state of the context that they are asked for with.
pub fn open(plan: &Plan, measures: &Measures) -> Box<dyn RowSource> {
    let source: Box<dyn RowSource> = match plan {
        Plan::Values(node) => {
            Box::new(ValuesSource { node: node.clone(), next: 0, long: LongValues::default() })
        }
        Plan::TableScan(node) => scan::table(node),
        Plan::VirtualScan(node) => Box::new(scan::VirtualSource::new(node.clone())),
        Plan::FunctionScan(node) => Box::new(scan::FunctionSource::new(node.clone())),
        Plan::CteScan(node) => Box::new(set::CteSource::new(node.clone())),
        Plan::Filter(node) => {
            Box::new(FilterSource { input: open(&node.input, measures), node: node.clone() })
        }
        Plan::Project(node) => Box::new(ProjectSource {
            input: open(&node.input, measures),
            node: node.clone(),
            long: LongValues::default(),
        }),
        Plan::ProjectSet(node) => Box::new(scan::ProjectSetSource::new(node.clone(), measures)),
        Plan::NestedLoop(node) => Box::new(join::NestedLoopSource::new(node.clone(), measures)),
        Plan::HashJoin(node) => Box::new(join::HashJoinSource::new(node.clone(), measures)),
        Plan::Sort(node) => Box::new(sort::SortSource::new(node.clone())),
        Plan::Limit(node) => Box::new(LimitSource {
            input: open(&node.input, measures),
            node: node.clone(),
            left: None,
            last: None,
        }),
        Plan::Aggregate(node) => Box::new(aggregate::AggregateSource::new(node.clone())),
        Plan::Window(node) => Box::new(window::WindowSource::new(node.clone())),
        Plan::Distinct(node) => Box::new(set::DistinctSource::new(node.clone(), measures)),
        Plan::Append(inputs) => Box::new(AppendSource { inputs: inputs.clone(), next: 0, input: None }),
        Plan::SetOperation(node) => Box::new(set::SetOperationSource::new(node.clone(), measures)),
        Plan::LockRows(node) => Box::new(lock::LockRowsSource::new(node.clone(), measures)),
        Plan::With(node) => Box::new(set::WithSource::new(node.clone())),
    };
    measures.around(plan, source)
}

/// Evaluates expressions to a row.
fn eval_all(exprs: &[Expr], row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Row> {
    eval_watched(exprs, row, ctx, |_, _| Ok(()))
}

/// Evaluates expressions to a row. `on_long` is told the size of each long value before the next one is evaluated.
fn eval_watched<'a>(
    exprs: &[Expr],
    row: &[Datum],
    ctx: &mut ExecContext<'a>,
    mut on_long: impl FnMut(&mut ExecContext<'a>, usize) -> Result<()>,
) -> Result<Row> {
    let mut out = Vec::with_capacity(exprs.len());
    let mut bytes = 0;
    for expr in exprs {
        let value = expr.eval(row, ctx)?;
        let value_bytes = datum_bytes(&value);
        bytes += value_bytes;
        if bytes > ROW_BYTES_MAX {
            return Err(too_long());
        }
        if value_bytes > LONG_BYTES {
            on_long(ctx, value_bytes)?;
        }
        out.push(value);
    }
    Ok(out)
}

/// All rows of a source, with the memory they were counted for.
fn collect(source: &mut dyn RowSource, ctx: &mut ExecContext<'_>) -> Result<(Vec<Row>, usize)> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = source.next(ctx)? {
        ctx.tick()?;
        let size = row_bytes(&row);
        ctx.reserve(size)?;
        bytes += size;
        rows.push(row);
    }
    Ok((rows, bytes))
}

struct ValuesSource {
    node: Arc<plan::Values>,
    next: usize,
    long: LongValues,
}

impl RowSource for ValuesSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        ctx.tick()?;
        self.long.release(ctx);
        let Some(row) = self.node.rows.get(self.next) else { return Ok(None) };
        self.next += 1;
        self.long.eval(row, &[], ctx).map(Some)
    }
}

struct FilterSource {
    node: Arc<plan::Filter>,
    input: Box<dyn RowSource>,
}

impl RowSource for FilterSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.node.condition.is_never_true() {
            return Ok(None);
        }
        while let Some(row) = self.input.next(ctx)? {
            if self.node.condition.is_true(&row, ctx)? {
                return Ok(Some(row));
            }
            ctx.measures.note_removed(&self.node);
        }
        Ok(None)
    }
}

/// The memory of the long values of a source's last row, in bytes.
#[derive(Default)]
struct LongValues(usize);

impl LongValues {
    fn release(&mut self, ctx: &mut ExecContext<'_>) {
        ctx.release_long(mem::take(&mut self.0));
    }

    /// Evaluates expressions to a row, and takes memory for each long value before the next one is evaluated.
    fn eval(&mut self, exprs: &[Expr], row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Row> {
        eval_watched(exprs, row, ctx, |ctx, bytes| {
            self.0 += bytes;
            ctx.reserve_long(bytes)
        })
    }
}

struct ProjectSource {
    node: Arc<plan::Project>,
    input: Box<dyn RowSource>,
    long: LongValues,
}

impl RowSource for ProjectSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        // The row before was read: its values are not needed any more.
        self.long.release(ctx);
        let Some(row) = self.input.next(ctx)? else { return Ok(None) };
        self.long.eval(&self.node.columns, &row, ctx).map(Some)
    }
}

struct LimitSource {
    node: Arc<plan::Limit>,
    input: Box<dyn RowSource>,
    /// How many rows are still to be returned, once that is known.
    left: Option<u64>,
    /// WITH TIES: the place in the order of the last of them.
    last: Option<Box<[u8]>>,
}

/// The value of LIMIT (none for all of them) and of OFFSET.
fn limit_and_offset(
    limit: Option<&Expr>,
    offset: Option<&Expr>,
    ctx: &mut ExecContext<'_>,
) -> Result<(Option<u64>, u64)> {
    let mut count = |expr: Option<&Expr>, state, what| match expr {
        None => Ok(None),
        Some(expr) => match expr.eval(&[], ctx)? {
            Datum::Int8(n) => match u64::try_from(n) {
                Ok(n) => Ok(Some(n)),
                Err(_) => Err(SqlError::new(state, format!("{what} must not be negative"))),
            },
            _ => Ok(None),
        },
    };
    // As in PostgreSQL, that of OFFSET is computed first.
    let offset = count(offset, SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, "OFFSET")?;
    let limit = count(limit, SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT")?;
    Ok((limit, offset.unwrap_or(0)))
}

impl RowSource for LimitSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let left = match &mut self.left {
            Some(left) => left,
            left => {
                let (limit, offset) =
                    limit_and_offset(self.node.limit.as_ref(), self.node.offset.as_ref(), ctx)?;
                let limit = left.insert(limit.unwrap_or(u64::MAX));
                if *limit > 0 {
                    for _ in 0..offset {
                        if self.input.next(ctx)?.is_none() {
                            *limit = 0;
                            break;
                        }
                    }
                }
                limit
            }
        };
        if *left == 0 {
            return self.next_tie(ctx);
        }
        *left -= 1;
        let is_last = *left == 0;
        let row = self.input.next(ctx)?;
        match &row {
            Some(row) if is_last && !self.node.ties.is_empty() => {
                self.last = Some(sort_key(&self.node.ties, row, ctx)?);
            }
            Some(_) => {}
            None => self.left = Some(0),
        }
        Ok(row)
    }
}

impl LimitSource {
    /// The next row behind the last one, if it has the same place in the order.
    fn next_tie(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let Some(last) = &self.last else { return Ok(None) };
        if let Some(row) = self.input.next(ctx)?
            && sort_key(&self.node.ties, &row, ctx)? == *last
        {
            return Ok(Some(row));
        }
        self.last = None;
        Ok(None)
    }
}

struct AppendSource {
    inputs: Arc<Vec<Plan>>,
    next: usize,
    input: Option<Box<dyn RowSource>>,
}

impl RowSource for AppendSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        loop {
            if let Some(input) = &mut self.input {
                if let Some(row) = input.next(ctx)? {
                    return Ok(Some(row));
                }
                self.input = None;
            }
            let Some(plan) = self.inputs.get(self.next) else { return Ok(None) };
            self.next += 1;
            self.input = Some(open(plan, &ctx.measures));
        }
    }
}

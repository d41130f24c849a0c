//! DISTINCT, INTERSECT and EXCEPT, common table expressions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    CachedRows, HashKey, Measures, RowSource,
    context::{ExecContext, row_bytes},
    keys::{group_key, row_key},
    open, plan,
};
use crate::{Result, types::Row};

/// Returns the first of rows that are equal in the keys.
pub(super) struct DistinctSource {
    node: Arc<plan::Distinct>,
    input: Box<dyn RowSource>,
    seen: HashSet<HashKey>,
}

impl DistinctSource {
    pub(super) fn new(node: Arc<plan::Distinct>, measures: &Measures) -> Self {
        DistinctSource { input: open(&node.input, measures), node, seen: HashSet::new() }
    }
}

impl RowSource for DistinctSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        while let Some(row) = self.input.next(ctx)? {
            let key = group_key(self.node.keys.iter(), &row, ctx)?;
            let bytes = key.len() + 48;
            if self.seen.insert(key) {
                ctx.reserve(bytes)?;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// INTERSECT and EXCEPT: counts the right side's rows, then passes the left side's.
pub(super) struct SetOperationSource {
    node: Arc<plan::SetOperation>,
    left: Box<dyn RowSource>,
    /// Number of times that each row stands on the right side; of ALL, that it is still to be matched.
    right: Option<HashMap<HashKey, u64>>,
    returned: HashSet<HashKey>,
}

impl SetOperationSource {
    pub(super) fn new(node: Arc<plan::SetOperation>, measures: &Measures) -> Self {
        SetOperationSource { left: open(&node.left, measures), node, right: None, returned: HashSet::new() }
    }
}

impl RowSource for SetOperationSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let node = &self.node;
        if self.right.is_none() {
            let mut counts = HashMap::new();
            let mut right = open(&node.right, &ctx.measures);
            while let Some(row) = right.next(ctx)? {
                ctx.tick()?;
                let key = row_key(&row);
                let bytes = key.len() + 56;
                let count = counts.entry(key).or_insert(0);
                if *count == 0 {
                    ctx.reserve(bytes)?;
                }
                *count += 1;
            }
            self.right = Some(counts);
        }
        let Some(right) = &mut self.right else { return Ok(None) };
        while let Some(row) = self.left.next(ctx)? {
            ctx.tick()?;
            let key = row_key(&row);
            let count = right.get_mut(&key);
            let there = matches!(count, Some(1..));
            if let (true, Some(count)) = (node.all, count) {
                *count = count.saturating_sub(1);
            }
            if there == node.except {
                continue;
            }
            if !node.all {
                let bytes = key.len() + 48;
                if !self.returned.insert(key) {
                    continue;
                }
                ctx.reserve(bytes)?;
            }
            return Ok(Some(row));
        }
        Ok(None)
    }
}

/// The rows of a common table expression, as the execution keeps them.
pub enum CteRows {
    /// Those of the last round of a recursive one, as its own recursive part sees it.
    Round(CachedRows),
    /// Those that were asked for so far, with what makes the others.
    Growing(Growing),
}

/// A common table expression under way: its rows are made as they are asked for, so that one without end can stand
/// under a LIMIT, and kept for all its readers.
pub struct Growing {
    tables: Arc<[plan::Cte]>,
    /// Its position among the tables.
    position: usize,
    rows: Vec<Row>,
    /// The memory that it was counted for.
    bytes: usize,
    /// Where more rows come from; none at the end.
    source: Option<Box<dyn RowSource>>,
    /// Of a recursive one: where the rows of the present round begin.
    round_start: usize,
    /// Of a recursive one, the rows that the present round sees.
    last_round: CachedRows,
    /// Of UNION: the rows that were there.
    seen: HashSet<HashKey>,
}

impl Growing {
    fn new(tables: Arc<[plan::Cte]>, position: usize, measures: &Measures) -> Growing {
        let source = tables.get(position).map(|cte| open(&cte.plan, measures));
        let last_round = CachedRows::default();
        let (rows, seen) = (Vec::new(), HashSet::new());
        Growing { tables, position, rows, bytes: 0, source, round_start: 0, last_round, seen }
    }

    /// Adds a row; false if there is none any more. Recursion goes by rounds, as in PostgreSQL: the recursive part
    /// sees the rows of the round before, until it adds none.
    fn grow(&mut self, ctx: &mut ExecContext<'_>) -> Result<bool> {
        let Some(cte) = self.tables.get(self.position) else { return Ok(false) };
        while let Some(source) = &mut self.source {
            if cte.recursive.is_some() {
                ctx.state.tables.insert(cte.table, CteRows::Round(self.last_round.clone()));
            }
            while let Some(row) = source.next(ctx)? {
                ctx.tick()?;
                let mut bytes = row_bytes(&row);
                if matches!(cte.recursive, Some((_, true))) {
                    let key = row_key(&row);
                    bytes += key.len();
                    if !self.seen.insert(key) {
                        continue;
                    }
                }
                ctx.reserve(bytes)?;
                self.rows.push(row);
                return Ok(true);
            }
            self.source = None;
            if let Some((recursive, _)) = &cte.recursive
                && self.round_start < self.rows.len()
            {
                self.last_round = Arc::new(self.rows[self.round_start..].to_vec());
                self.round_start = self.rows.len();
                self.source = Some(open(recursive, &ctx.measures));
            }
        }
        Ok(false)
    }
}

/// True if all rows of a common table expression have been made.
pub(super) fn has_all_rows(table: usize, ctx: &ExecContext<'_>) -> bool {
    matches!(ctx.state.tables.get(&table), Some(CteRows::Growing(Growing { source: None, .. })))
}

/// Reads the rows of a common table expression.
pub(super) struct CteSource {
    node: Arc<plan::CteScan>,
    next: usize,
}

impl CteSource {
    pub(super) fn new(node: Arc<plan::CteScan>) -> Self {
        CteSource { node, next: 0 }
    }

    fn row(&self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let table = self.node.table;
        match ctx.state.tables.get(&table) {
            Some(CteRows::Round(rows)) => return Ok(rows.get(self.next).cloned()),
            Some(CteRows::Growing(growing)) if self.next < growing.rows.len() => {
                return Ok(growing.rows.get(self.next).cloned());
            }
            _ => {}
        }
        // It is out of the map while it grows: its recursive part reads the round there.
        let Some(CteRows::Growing(mut growing)) = ctx.state.tables.remove(&table) else { return Ok(None) };
        // It stays when the source that asks for its row is gone.
        let before = ctx.reserved();
        growing.grow(ctx)?;
        growing.bytes += ctx.keep_since(before);
        let row = growing.rows.get(self.next).cloned();
        ctx.state.tables.insert(table, CteRows::Growing(growing));
        Ok(row)
    }
}

impl RowSource for CteSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        ctx.tick()?;
        let row = self.row(ctx)?;
        self.next += 1;
        Ok(row)
    }
}

/// Makes common table expressions known; those of these names that were known before are forgotten.
pub fn open_tables(tables: &Arc<[plan::Cte]>, ctx: &mut ExecContext<'_>) {
    forget_tables(tables, ctx);
    for (position, cte) in tables.iter().enumerate() {
        let growing = Growing::new(tables.clone(), position, &ctx.measures);
        ctx.state.tables.insert(cte.table, CteRows::Growing(growing));
    }
}

/// Forgets the rows of common table expressions.
fn forget_tables(tables: &[plan::Cte], ctx: &mut ExecContext<'_>) {
    for cte in tables {
        if let Some(CteRows::Growing(growing)) = ctx.state.tables.remove(&cte.table) {
            ctx.release_kept(growing.bytes);
        }
    }
}

/// Makes common table expressions known, then passes the rows of the query that uses them, and forgets them at its end.
pub(super) struct WithSource {
    node: Arc<plan::With>,
    body: Option<Box<dyn RowSource>>,
}

impl WithSource {
    pub(super) fn new(node: Arc<plan::With>) -> Self {
        WithSource { node, body: None }
    }
}

impl RowSource for WithSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.body.is_none() {
            // Rows of a source before it that was not read to its end may be there.
            open_tables(&self.node.tables, ctx);
        }
        let row = self.body.get_or_insert_with(|| open(&self.node.body, &ctx.measures)).next(ctx)?;
        if row.is_none() {
            forget_tables(&self.node.tables, ctx);
        }
        Ok(row)
    }
}

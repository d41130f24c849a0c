//! DISTINCT, INTERSECT and EXCEPT, common table expressions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    CachedRows, HashKey, RowSource, collect,
    keys::{group_key, row_key},
    open,
};
use crate::{
    Result,
    query::{
        context::{ExecContext, row_bytes},
        plan,
    },
    types::Row,
};

/// Returns the first of rows that are equal in the keys.
pub(super) struct DistinctSource {
    node: Arc<plan::Distinct>,
    input: Box<dyn RowSource>,
    seen: HashSet<HashKey>,
}

impl DistinctSource {
    pub(super) fn new(node: Arc<plan::Distinct>) -> Self {
        DistinctSource { input: open(&node.input), node, seen: HashSet::new() }
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
    /// How often each row stands on the right side; of ALL, how often it is still to be matched.
    right: Option<HashMap<HashKey, u64>>,
    returned: HashSet<HashKey>,
}

impl SetOperationSource {
    pub(super) fn new(node: Arc<plan::SetOperation>) -> Self {
        SetOperationSource { left: open(&node.left), node, right: None, returned: HashSet::new() }
    }
}

impl RowSource for SetOperationSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let node = &self.node;
        if self.right.is_none() {
            let mut counts = HashMap::new();
            let mut right = open(&node.right);
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

/// Reads rows kept by the execution.
pub(super) struct CteSource {
    node: Arc<plan::CteScan>,
    rows: Option<CachedRows>,
    next: usize,
}

impl CteSource {
    pub(super) fn new(node: Arc<plan::CteScan>) -> Self {
        CteSource { node, rows: None, next: 0 }
    }
}

impl RowSource for CteSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        ctx.tick()?;
        if self.rows.is_none() {
            // A table expression is computed before whatever scans it is opened, so it is there.
            self.rows = ctx.state.tables.get(&self.node.table).cloned();
        }
        let row = self.rows.as_ref().and_then(|rows| rows.get(self.next)).cloned();
        self.next += 1;
        Ok(row)
    }
}

/// Computes common table expressions, then passes the rows of the query that uses them.
pub(super) struct WithSource {
    node: Arc<plan::With>,
    body: Option<Box<dyn RowSource>>,
}

impl WithSource {
    pub(super) fn new(node: Arc<plan::With>) -> Self {
        WithSource { node, body: None }
    }
}

fn compute(cte: &plan::Cte, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
    let Some((recursive, distinct)) = &cte.recursive else {
        return Ok(collect(&mut *open(&cte.plan), ctx)?.0);
    };
    // Rounds, as PostgreSQL has them: the recursive part sees the rows of the round before, until it adds none.
    let mut seen: HashSet<HashKey> = HashSet::new();
    let mut all: Vec<Row> = Vec::new();
    let mut plan = &cte.plan;
    loop {
        let mut round = Vec::new();
        let mut source = open(plan);
        while let Some(row) = source.next(ctx)? {
            ctx.tick()?;
            let mut bytes = row_bytes(&row);
            if *distinct {
                let key = row_key(&row);
                bytes += key.len();
                if !seen.insert(key) {
                    continue;
                }
            }
            ctx.reserve(bytes)?;
            round.push(row);
        }
        if round.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&round);
        ctx.state.tables.insert(cte.table, Arc::new(round));
        plan = recursive;
    }
}

impl RowSource for WithSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.body.is_none() {
            for cte in &self.node.tables {
                let rows = compute(cte, ctx)?;
                ctx.state.tables.insert(cte.table, Arc::new(rows));
            }
            self.body = Some(open(&self.node.body));
        }
        match &mut self.body {
            Some(body) => body.next(ctx),
            None => Ok(None),
        }
    }
}

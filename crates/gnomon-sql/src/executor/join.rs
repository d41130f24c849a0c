//! Joins: nested loops, with the inner side opened anew for each outer row or kept, and hash joins.

use std::{collections::HashMap, sync::Arc};

use super::{
    Expr, HashKey, Measures, RowSource, collect,
    context::{ExecContext, row_bytes},
    hash_key, open,
    plan::{self, JoinKind},
};
use crate::{
    Result,
    types::{Datum, Row},
};

fn joined(left: &[Datum], right: &[Datum]) -> Row {
    let mut row = Vec::with_capacity(left.len() + right.len());
    row.extend_from_slice(left);
    row.extend_from_slice(right);
    row
}

fn nulls(width: usize) -> Row {
    vec![Datum::Null; width]
}

/// Joins by trying every pair, or by opening the inner side with slots set from the outer row.
pub(super) struct NestedLoopSource {
    node: Arc<plan::NestedLoop>,
    left: Box<dyn RowSource>,
    /// The present left row, and whether it found a pair.
    row: Option<(Row, bool)>,
    inner: Inner,
    /// For right and full joins: which of the kept rows found a pair.
    matched: Vec<bool>,
}

enum Inner {
    /// Not opened for the present left row.
    Closed,
    /// Opened for the present left row.
    Open(Box<dyn RowSource>),
    /// Kept: its rows, the next one.
    Kept(Vec<Row>, usize),
    /// At the end of a right or full join: the next kept row that may lack a pair.
    Unmatched(Vec<Row>, usize),
}

impl NestedLoopSource {
    pub(super) fn new(node: Arc<plan::NestedLoop>, measures: &Measures) -> Self {
        NestedLoopSource {
            left: open(&node.left, measures),
            node,
            row: None,
            inner: Inner::Closed,
            matched: Vec::new(),
        }
    }

    /// Prepares the inner side for the present left row.
    fn restart(&mut self, ctx: &mut ExecContext<'_>) -> Result<()> {
        if let Inner::Kept(_, next) = &mut self.inner {
            *next = 0;
            return Ok(());
        }
        if self.node.params.is_empty() {
            let (rows, _) = collect(&mut *open(&self.node.right, &ctx.measures), ctx)?;
            if matches!(self.node.kind, JoinKind::Right | JoinKind::Full) {
                self.matched = vec![false; rows.len()];
            }
            self.inner = Inner::Kept(rows, 0);
            return Ok(());
        }
        if let Some((row, _)) = &self.row {
            for (slot, value) in &self.node.params {
                let value = value.eval(row, ctx)?;
                ctx.set_slot(*slot, value);
            }
        }
        self.inner = Inner::Open(open(&self.node.right, &ctx.measures));
        Ok(())
    }

    /// The next pair of the present left row.
    fn next_pair(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let Some((left, found)) = &mut self.row else { return Ok(None) };
        let condition = self.node.condition.as_ref();
        match &mut self.inner {
            Inner::Open(inner) => {
                while let Some(right) = inner.next(ctx)? {
                    let row = joined(left, &right);
                    if condition.is_none_or_true(&row, ctx)? {
                        *found = true;
                        return Ok(Some(row));
                    }
                    ctx.measures.note_removed(&self.node);
                }
            }
            Inner::Kept(rows, next) => {
                while let Some(right) = rows.get(*next) {
                    ctx.tick()?;
                    *next += 1;
                    let row = joined(left, right);
                    if condition.is_none_or_true(&row, ctx)? {
                        *found = true;
                        if let Some(matched) = self.matched.get_mut(*next - 1) {
                            *matched = true;
                        }
                        return Ok(Some(row));
                    }
                    ctx.measures.note_removed(&self.node);
                }
            }
            Inner::Closed | Inner::Unmatched(..) => {}
        }
        Ok(None)
    }
}

/// A condition that may be absent.
pub(super) trait OptionalCondition {
    /// True if there is no condition, or it is true on the row.
    fn is_none_or_true(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<bool>;
}

impl OptionalCondition for Option<&Expr> {
    fn is_none_or_true(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<bool> {
        match self {
            Some(condition) => condition.is_true(row, ctx),
            None => Ok(true),
        }
    }
}

impl RowSource for NestedLoopSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let kind = self.node.kind;
        loop {
            if let Inner::Unmatched(rows, next) = &mut self.inner {
                while let Some(right) = rows.get(*next) {
                    *next += 1;
                    if !self.matched[*next - 1] {
                        return Ok(Some(joined(&nulls(self.node.left_width), right)));
                    }
                }
                return Ok(None);
            }
            if self.row.is_none() {
                ctx.tick()?;
                match self.left.next(ctx)? {
                    Some(row) => {
                        self.row = Some((row, false));
                        self.restart(ctx)?;
                    }
                    None if matches!(kind, JoinKind::Right | JoinKind::Full) => {
                        if matches!(self.inner, Inner::Closed) {
                            self.restart(ctx)?;
                        }
                        if let Inner::Kept(rows, _) = std::mem::replace(&mut self.inner, Inner::Closed) {
                            self.inner = Inner::Unmatched(rows, 0);
                        }
                        continue;
                    }
                    None => return Ok(None),
                }
            }
            if let Some(row) = self.next_pair(ctx)? {
                return Ok(Some(row));
            }
            if let Some((left, found)) = self.row.take()
                && !found
                && matches!(kind, JoinKind::Left | JoinKind::Full)
            {
                return Ok(Some(joined(&left, &nulls(self.node.right_width))));
            }
        }
    }
}

/// Joins by a hash table of the right side.
pub(super) struct HashJoinSource {
    node: Arc<plan::HashJoin>,
    left: Box<dyn RowSource>,
    table: Option<Table>,
    /// The present left row, whether it found a pair, and where it stands in the chain of its key.
    row: Option<(Row, bool, u32)>,
    /// Once the left side is at its end: the next right row that may lack a pair.
    unmatched: Option<usize>,
}

/// The right side: rows in arrival order, chained by key.
struct Table {
    rows: Vec<Row>,
    /// For each row the next one with its key, or [`NONE`].
    next: Vec<u32>,
    /// For each key its first and last row.
    chains: HashMap<HashKey, (u32, u32)>,
    matched: Vec<bool>,
}

const NONE: u32 = u32::MAX;

impl HashJoinSource {
    pub(super) fn new(node: Arc<plan::HashJoin>, measures: &Measures) -> Self {
        HashJoinSource { left: open(&node.left, measures), node, table: None, row: None, unmatched: None }
    }

    fn build(&self, ctx: &mut ExecContext<'_>) -> Result<Table> {
        let mut table = Table { rows: vec![], next: vec![], chains: HashMap::new(), matched: vec![] };
        let keeps = matches!(self.node.kind, JoinKind::Right | JoinKind::Full);
        let mut right = open(&self.node.right, &ctx.measures);
        while let Some(row) = right.next(ctx)? {
            ctx.tick()?;
            let key = hash_key(self.node.keys.iter().map(|(_, right)| right), &row, ctx)?;
            if key.is_none() && !keeps {
                continue;
            }
            let at = table.rows.len() as u32;
            ctx.reserve(row_bytes(&row) + 64)?;
            table.rows.push(row);
            table.next.push(NONE);
            if let Some(key) = key {
                match table.chains.entry(key) {
                    std::collections::hash_map::Entry::Occupied(mut chain) => {
                        let (_, last) = chain.get_mut();
                        table.next[*last as usize] = at;
                        *last = at;
                    }
                    std::collections::hash_map::Entry::Vacant(chain) => {
                        chain.insert((at, at));
                    }
                }
            }
        }
        if keeps {
            table.matched = vec![false; table.rows.len()];
        }
        Ok(table)
    }
}

impl RowSource for HashJoinSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.table.is_none() {
            self.table = Some(self.build(ctx)?);
        }
        let Some(table) = &mut self.table else { return Ok(None) };
        let node = &self.node;
        loop {
            if let Some(next) = &mut self.unmatched {
                while let Some(right) = table.rows.get(*next) {
                    *next += 1;
                    if !table.matched[*next - 1] {
                        return Ok(Some(joined(&nulls(node.left_width), right)));
                    }
                }
                return Ok(None);
            }
            let Some((left, found, at)) = &mut self.row else {
                ctx.tick()?;
                match self.left.next(ctx)? {
                    Some(row) => {
                        let key = hash_key(node.keys.iter().map(|(left, _)| left), &row, ctx)?;
                        let first = key.and_then(|key| table.chains.get(&key)).map_or(NONE, |chain| chain.0);
                        self.row = Some((row, false, first));
                    }
                    None if matches!(node.kind, JoinKind::Right | JoinKind::Full) => self.unmatched = Some(0),
                    None => return Ok(None),
                }
                continue;
            };
            while *at != NONE {
                ctx.tick()?;
                let index = *at as usize;
                *at = table.next[index];
                let row = joined(left, &table.rows[index]);
                if node.condition.as_ref().is_none_or_true(&row, ctx)? {
                    *found = true;
                    if let Some(matched) = table.matched.get_mut(index) {
                        *matched = true;
                    }
                    return Ok(Some(row));
                }
            }
            if let Some((left, found, _)) = self.row.take()
                && !found
                && matches!(node.kind, JoinKind::Left | JoinKind::Full)
            {
                return Ok(Some(joined(&left, &nulls(node.right_width))));
            }
        }
    }
}

//! Hash joins of batches: inner ones, and left ones without a further condition.

use std::sync::Arc;

use super::{Batch, BatchSource, Evaluated, Key, KeyMap, ROWS_MAX, eval, is_evaluated_at_once, open};
use crate::{
    Result,
    executor::{
        Expr, Measures,
        context::ExecContext,
        plan::{self, JoinKind},
    },
    types::column::Column,
};

/// In the place of a position: there is none.
const NONE: u32 = u32::MAX;
/// The memory that a row of the right side takes beside its values, in bytes.
const ROW_BYTES: usize = 64;

/// Joins batches of the left side with a hash table of the right one.
pub(super) struct HashJoinBatches {
    node: Arc<plan::HashJoin>,
    left: Box<dyn BatchSource>,
    table: Option<Table>,
    present: Option<Present>,
}

/// The batch of the left side whose pairs are returned.
struct Present {
    batch: Batch,
    /// For each row the first row of the right side with its key, or [`NONE`].
    firsts: Vec<u32>,
    /// The next row, and the row of the right side that is its next pair.
    next: (usize, u32),
}

impl HashJoinBatches {
    /// Returns the source of a join; none if it is to be run by rows.
    pub(super) fn of(node: &Arc<plan::HashJoin>, measures: &Measures) -> Option<HashJoinBatches> {
        let is_fit = match node.kind {
            JoinKind::Inner => node.condition.as_ref().is_none_or(is_evaluated_at_once),
            JoinKind::Left => node.condition.is_none(),
            JoinKind::Right | JoinKind::Full => false,
        };
        let mut keys = node.keys.iter().flat_map(|(left, right)| [left, right]);
        if !is_fit || !keys.all(is_evaluated_at_once) {
            return None;
        }
        let left = open(&node.left, measures)?;
        Some(HashJoinBatches { node: node.clone(), left, table: None, present: None })
    }

    /// Returns the next pairs, whether the condition holds for them or not.
    fn pairs(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(Table::read(&self.node, ctx)?),
        };
        loop {
            if let Some(present) = &mut self.present {
                let (lefts, rights) = present.take(table, self.node.kind == JoinKind::Left);
                if !lefts.is_empty() {
                    ctx.tick_rows(lefts.len())?;
                    let mut pairs = present.batch.take(&lefts);
                    pairs.columns.extend(table.rows(&rights, self.node.right_width));
                    return Ok(Some(pairs));
                }
                self.present = None;
            }
            let Some(batch) = self.left.next(ctx)? else { return Ok(None) };
            let firsts = table.firsts(self.node.keys.iter().map(|(left, _)| left), &batch, ctx)?;
            let next = (0, firsts[0]);
            self.present = Some(Present { batch, firsts, next });
        }
    }
}

impl BatchSource for HashJoinBatches {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        while let Some(pairs) = self.pairs(ctx)? {
            let Some(condition) = &self.node.condition else { return Ok(Some(pairs)) };
            let before = pairs.rows();
            let pairs = pairs.filter(condition, ctx)?;
            ctx.measures.note_removed_rows(&self.node, before - pairs.rows());
            if pairs.rows() > 0 {
                return Ok(Some(pairs));
            }
        }
        Ok(None)
    }
}

impl Present {
    /// Returns the positions of the next pairs. With `keeps`, a left row without a pair has [`NONE`] beside it.
    fn take(&mut self, table: &Table, keeps: bool) -> (Vec<u32>, Vec<u32>) {
        let (mut lefts, mut rights) = (Vec::with_capacity(ROWS_MAX), Vec::with_capacity(ROWS_MAX));
        let (at, right) = &mut self.next;
        while *at < self.firsts.len() && lefts.len() < ROWS_MAX {
            if *right != NONE || keeps && self.firsts[*at] == NONE {
                lefts.push(*at as u32);
                rights.push(*right);
            }
            *right = table.next.get(*right as usize).copied().unwrap_or(NONE);
            if *right == NONE {
                *at += 1;
                *right = self.firsts.get(*at).copied().unwrap_or(NONE);
            }
        }
        (lefts, rights)
    }
}

/// The right side: its rows in the order in which they came, chained by key.
#[derive(Default)]
struct Table {
    columns: Vec<Column>,
    /// For each row the next one with its key, or [`NONE`].
    next: Vec<u32>,
    /// For each key its first and last row.
    chains: KeyMap<(u32, u32)>,
}

impl Table {
    /// Reads the right side.
    fn read(node: &plan::HashJoin, ctx: &mut ExecContext<'_>) -> Result<Table> {
        let mut table = Table::default();
        let keys: Vec<&Expr> = node.keys.iter().map(|(_, right)| right).collect();
        if let Some(mut right) = open(&node.right, &ctx.measures) {
            while let Some(batch) = right.next(ctx)? {
                table.add(&keys, batch, ctx)?;
            }
            return Ok(table);
        }
        let mut right = crate::executor::open(&node.right, &ctx.measures);
        while let Some(row) = right.next(ctx)? {
            ctx.tick()?;
            table.add(&keys, Batch::of_row(row), ctx)?;
        }
        Ok(table)
    }

    /// Adds rows, but for those with a NULL in their key.
    fn add(&mut self, keys: &[&Expr], batch: Batch, ctx: &mut ExecContext<'_>) -> Result<()> {
        let values = evaluate(keys.iter().copied(), &batch, ctx)?;
        let mut bytes = Vec::new();
        let mut kept = Vec::with_capacity(batch.rows());
        for at in 0..batch.rows() {
            let Some(key) = key_of(&values, at, &mut bytes) else { continue };
            kept.push(at as u32);
            let row = self.next.len() as u32;
            self.next.push(NONE);
            if let Some((_, last)) = self.chains.get_mut(&key) {
                self.next[*last as usize] = row;
                *last = row;
                continue;
            }
            ctx.reserve(key.bytes())?;
            self.chains.insert(&key, (row, row));
        }
        drop(values);
        let rows = if kept.len() == batch.rows() { batch } else { batch.take(&kept) };
        ctx.reserve(rows.rows() * ROW_BYTES + rows.columns.iter().map(Column::bytes).sum::<usize>())?;
        if self.columns.is_empty() {
            self.columns = rows.columns;
            return Ok(());
        }
        for (column, more) in self.columns.iter_mut().zip(rows.columns) {
            column.append(more);
        }
        Ok(())
    }

    /// Returns for each row of a batch the first row of the table with its key, or [`NONE`].
    fn firsts<'e>(
        &self,
        keys: impl Iterator<Item = &'e Expr>,
        batch: &Batch,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Vec<u32>> {
        let values = evaluate(keys, batch, ctx)?;
        let mut bytes = Vec::new();
        let first = |at| {
            let key = key_of(&values, at, &mut bytes)?;
            self.chains.get(&key).map(|(first, _)| *first)
        };
        Ok((0..batch.rows()).map(first).map(|first| first.unwrap_or(NONE)).collect())
    }

    /// Returns the rows at these positions, NULL where there is [`NONE`].
    fn rows(&self, positions: &[u32], width: usize) -> Vec<Column> {
        match self.columns.is_empty() {
            true => (0..width).map(|_| Column::of_nulls(positions.len())).collect(),
            false => self.columns.iter().map(|column| column.take_or_null(positions)).collect(),
        }
    }
}

fn evaluate<'b, 'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    batch: &'b Batch,
    ctx: &mut ExecContext<'_>,
) -> Result<Vec<Evaluated<'b>>> {
    exprs.map(|expr| eval(expr, batch, ctx)).collect()
}

/// Returns the key of a row; none if a value is NULL, which equals nothing. Both sides of a join have keys of the same
/// types.
fn key_of<'k>(values: &[Evaluated<'_>], at: usize, bytes: &'k mut Vec<u8>) -> Option<Key<'k>> {
    let has_null = values.iter().any(|value| value.is_null(at));
    (!has_null).then(|| Key::of(values, at, bytes))
}

//! Scans of stored tables, from the stored rows straight into columns.

use std::sync::Arc;

use super::{Batch, BatchSource, ROWS_MAX, STORED_BYTES_MAX, eval::is_evaluated_at_once};
use crate::{
    Result,
    executor::{
        Expr,
        context::ExecContext,
        plan::{self, Access},
        scan::{RangeScan, TableState, start},
    },
    types::{column::Column, rows},
};

/// Reads rows of a table by ranges of its own tree.
pub(super) struct BatchScan {
    node: Arc<plan::TableScan>,
    scan: Option<Box<RangeScan>>,
}

impl BatchScan {
    /// Returns the scan of a node; none if its rows are not read one behind the other.
    pub(super) fn of(node: &Arc<plan::TableScan>) -> Option<BatchScan> {
        let is_range = match &node.access {
            Access::Full(_) => true,
            Access::Key(access) => !access.point && access.secondary(&node.table).is_none(),
            Access::Address(_) | Access::Current(_) => false,
        };
        let is_fit = is_range && !node.with_key && node.filter.as_ref().is_none_or(is_evaluated_at_once);
        is_fit.then(|| BatchScan { node: node.clone(), scan: None })
    }

    /// Reads the next rows, whether the condition holds for them or not.
    fn read(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        let node = &self.node;
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => match start(node, ctx)? {
                TableState::Ranges(scan) => none.insert(scan),
                // No key is in reach of the condition.
                TableState::New | TableState::Points(_) => return Ok(None),
            },
        };
        let (direction, relation) = match &node.access {
            Access::Key(access) => (access.direction, access.index_of(&node.table).oid),
            Access::Full(direction) => (*direction, node.table.oid),
            Access::Address(_) | Access::Current(_) => return Ok(None),
        };
        let types = node.columns.iter().map(|column| node.types[*column].ty);
        let mut batch = Batch { rows: 0, columns: types.map(Column::of).collect() };
        let mut bytes = 0;
        while batch.rows < ROWS_MAX && bytes < STORED_BYTES_MAX {
            let columns = &mut batch.columns;
            let stored_bytes = scan.next(&node.table, None, direction, relation, ctx, |_, _, stored| {
                rows::decode_to_columns(stored, &node.types, &node.columns, columns).map(|()| stored.len())
            })?;
            let Some(stored_bytes) = stored_bytes else { break };
            ctx.tick()?;
            ctx.accesses((relation, scan.place)).found();
            batch.rows += 1;
            bytes += stored_bytes;
        }
        Ok((batch.rows > 0).then_some(batch))
    }
}

impl BatchSource for BatchScan {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Batch>> {
        if self.node.filter.as_ref().is_some_and(Expr::is_never_true) {
            return Ok(None);
        }
        while let Some(batch) = self.read(ctx)? {
            let Some(filter) = &self.node.filter else { return Ok(Some(batch)) };
            let before = batch.rows;
            let batch = batch.filter(filter, ctx)?;
            ctx.measures.note_removed_rows(&self.node, before - batch.rows);
            if batch.rows > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

//! Sorts in memory: all rows, or only the first ones when a LIMIT stands above.

use std::{collections::BinaryHeap, sync::Arc};

use super::{
    RowSource,
    context::{ExecContext, row_bytes},
    keys::sort_key,
    limit_and_offset, open, plan,
    quicksort::quicksort,
};
use crate::{Result, types::Row};

/// Keeping only the first rows pays while they are few; beyond this, all are sorted.
const BOUND_MAX: u64 = 100_000;

/// A row with its place in the order. Of rows of one place the first that came are those within a LIMIT.
struct Entry {
    key: Box<[u8]>,
    arrival: u64,
    row: Row,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key).then(self.arrival.cmp(&other.arrival))
    }
}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Entry {}

/// Returns the rows of its input in order.
pub(super) struct SortSource {
    node: Arc<plan::Sort>,
    sorted: Option<std::vec::IntoIter<Entry>>,
}

impl SortSource {
    pub(super) fn new(node: Arc<plan::Sort>) -> Self {
        SortSource { node, sorted: None }
    }

    fn sort(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Entry>> {
        let bound = match &self.node.bound {
            Some((limit, offset)) => {
                let (limit, offset) = limit_and_offset(Some(limit), offset.as_ref(), ctx)?;
                limit.and_then(|limit| limit.checked_add(offset)).filter(|rows| *rows <= BOUND_MAX)
            }
            None => None,
        };
        let mut input = open(&self.node.input, &ctx.measures);
        let mut arrival = 0;
        let mut next = |ctx: &mut ExecContext<'_>| -> Result<Option<Entry>> {
            ctx.tick()?;
            let Some(row) = input.next(ctx)? else { return Ok(None) };
            arrival += 1;
            Ok(Some(Entry { key: sort_key(&self.node.keys, &row, ctx)?, arrival, row }))
        };
        let size = |entry: &Entry| row_bytes(&entry.row) + entry.key.len() + 32;
        if let Some(bound) = bound {
            let mut first = BinaryHeap::new();
            while bound > 0
                && let Some(entry) = next(ctx)?
            {
                if first.len() as u64 == bound {
                    match first.peek() {
                        Some(last) if entry < *last => {}
                        _ => continue,
                    }
                    if let Some(last) = first.pop() {
                        ctx.release(size(&last));
                    }
                }
                ctx.reserve(size(&entry))?;
                first.push(entry);
            }
            return Ok(first.into_sorted_vec());
        }
        let mut entries = Vec::new();
        while let Some(entry) = next(ctx)? {
            ctx.reserve(size(&entry))?;
            entries.push(entry);
        }
        quicksort(&mut entries, |a, b| a.key.cmp(&b.key));
        Ok(entries)
    }
}

impl RowSource for SortSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.sorted.is_none() {
            self.sorted = Some(self.sort(ctx)?.into_iter());
        }
        Ok(self.sorted.as_mut().and_then(Iterator::next).map(|entry| entry.row))
    }
}

//! Window functions: rows sorted by partition and order, values computed for each partition.

mod frame;
mod running;

use std::{ops::Range, sync::Arc};

use self::{frame::FrameFinder, running::Running};
use super::{
    RowSource,
    context::{ExecContext, row_bytes},
    eval_all,
    keys::{add_sort_key, row_key},
    open,
    plan::{self, Frame, WindowCall, WindowFunction},
    quicksort::quicksort,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Row, limit::datum_bytes},
};

/// A row with its partition and its place in it.
struct Entry {
    partition: Box<[u8]>,
    place: Box<[u8]>,
    /// The value of the window's first key, if frames go by it.
    key: Datum,
    row: Row,
}

/// Appends window functions' values to rows.
pub(super) struct WindowSource {
    node: Arc<plan::Window>,
    rows: Option<std::vec::IntoIter<Row>>,
}

impl WindowSource {
    pub(super) fn new(node: Arc<plan::Window>) -> Self {
        WindowSource { node, rows: None }
    }

    fn compute(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        let calls = &self.node.calls;
        let frames: Result<Vec<_>> = calls.iter().map(|call| frame::with_values(&call.frame, ctx)).collect();
        let frames = frames?;
        let mut entries = self.entries(ctx)?;
        quicksort(&mut entries, |a, b| (&a.partition, &a.place).cmp(&(&b.partition, &b.place)));
        let mut start = 0;
        let mut values: Vec<Vec<Datum>> = Vec::with_capacity(entries.len());
        for part in entries.chunk_by(|a, b| a.partition == b.partition) {
            let peers = peers(part);
            values.resize(start + part.len(), Vec::with_capacity(calls.len()));
            for (call, frame) in calls.iter().zip(&frames) {
                for (row, value) in compute_call(call, frame, part, &peers, ctx)?.into_iter().enumerate() {
                    values[start + row].push(value);
                }
            }
            start += part.len();
        }
        Ok(entries
            .into_iter()
            .zip(values)
            .map(|(entry, values)| entry.row.into_iter().chain(values).collect())
            .collect())
    }

    /// The rows of the input.
    fn entries(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Entry>> {
        let Some(first) = self.node.calls.first() else { return Ok(Vec::new()) };
        let keeps_key = self.node.calls.iter().any(|call| call.frame.measures_values());
        let mut entries = Vec::new();
        let mut input = open(&self.node.input, &ctx.measures);
        while let Some(row) = input.next(ctx)? {
            ctx.tick()?;
            let partition = row_key(&eval_all(&first.partition_by, &row, ctx)?);
            let (mut place, mut key) = (Vec::with_capacity(16), Datum::Null);
            for part in &first.order_by {
                let value = part.expr.eval(&row, ctx)?;
                add_sort_key(&mut place, part, &value);
                if keeps_key {
                    key = value;
                }
            }
            let bytes = row_bytes(&row) + partition.len() + place.len() + datum_bytes(&key);
            ctx.reserve(bytes + 64 + size_of::<Datum>())?;
            entries.push(Entry { partition, place: place.into(), key, row });
        }
        Ok(entries)
    }
}

impl RowSource for WindowSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.rows.is_none() {
            self.rows = Some(self.compute(ctx)?.into_iter());
        }
        Ok(self.rows.as_mut().and_then(Iterator::next))
    }
}

/// The groups of rows of one place.
fn peers(part: &[Entry]) -> Vec<Range<usize>> {
    let mut start = 0;
    part.chunk_by(|a, b| a.place == b.place)
        .map(|group| {
            let range = start..start + group.len();
            start = range.end;
            range
        })
        .collect()
}

/// The values of a call for the rows of a partition.
fn compute_call(
    call: &WindowCall,
    frame: &Frame<Datum>,
    part: &[Entry],
    peers: &[Range<usize>],
    ctx: &mut ExecContext<'_>,
) -> Result<Vec<Datum>> {
    use WindowFunction as F;
    let length = part.len();
    let mut out = Vec::with_capacity(length);
    let mut frames = FrameFinder::new(frame, part, peers, &call.order_by);
    let count = |n: usize| Datum::Int8(n as i64);
    let arg = |position: usize, row: usize, ctx: &mut ExecContext<'_>| -> Result<Datum> {
        ctx.tick()?;
        match call.args.get(position) {
            Some(arg) => arg.eval(&part[row].row, ctx),
            None => Ok(Datum::Null),
        }
    };
    let keep = |out: &mut Vec<Datum>, value: Datum, ctx: &mut ExecContext<'_>| -> Result<()> {
        ctx.reserve(datum_bytes(&value))?;
        out.push(value);
        Ok(())
    };
    match &call.function {
        F::RowNumber => out.extend((1..=length).map(count)),
        F::Rank => peers.iter().for_each(|group| out.extend(group.clone().map(|_| count(group.start + 1)))),
        F::DenseRank => {
            for (number, group) in peers.iter().enumerate() {
                out.extend(group.clone().map(|_| count(number + 1)));
            }
        }
        F::PercentRank => {
            for group in peers {
                let rank = if length > 1 { group.start as f64 / (length - 1) as f64 } else { 0.0 };
                out.extend(group.clone().map(|_| Datum::Float8(rank)));
            }
        }
        F::CumeDist => {
            for group in peers {
                out.extend(group.clone().map(|_| Datum::Float8(group.end as f64 / length as f64)));
            }
        }
        F::Ntile => {
            let buckets = match arg(0, 0, ctx)? {
                Datum::Int4(n) if n > 0 => n as usize,
                Datum::Null => return Ok(vec![Datum::Null; length]),
                _ => {
                    return Err(SqlError::new(
                        SqlState("22014"),
                        "argument of ntile must be greater than zero",
                    ));
                }
            };
            // The first buckets take one row more where they cannot all be alike.
            let (size, more) = (length / buckets, length % buckets);
            for row in 0..length {
                let bucket = match row < more * (size + 1) {
                    true => row / (size + 1),
                    false => more + (row - more * (size + 1)) / size.max(1),
                };
                out.push(Datum::Int4(bucket as i32 + 1));
            }
        }
        F::Lag | F::Lead => {
            for (row, entry) in part.iter().enumerate() {
                let distance = match call.args.get(1) {
                    None => 1,
                    Some(expr) => match expr.eval(&entry.row, ctx)? {
                        Datum::Int4(n) => i64::from(n),
                        _ => {
                            out.push(Datum::Null);
                            continue;
                        }
                    },
                };
                let distance = if matches!(call.function, F::Lag) { -distance } else { distance };
                let other = usize::try_from(row as i64 + distance).ok().filter(|other| *other < length);
                let value = match other {
                    Some(other) => arg(0, other, ctx)?,
                    None => arg(2, row, ctx)?,
                };
                keep(&mut out, value, ctx)?;
            }
        }
        F::FirstValue | F::LastValue | F::NthValue => {
            for (number, group) in peers.iter().enumerate() {
                for row in group.clone() {
                    let frame = frames.find(row, number, ctx)?;
                    let wanted = match &call.function {
                        F::FirstValue => frame.nth(0),
                        F::LastValue => frame.last(),
                        _ => match arg(1, row, ctx)? {
                            Datum::Int4(n) if n > 0 => frame.nth(n as usize - 1),
                            Datum::Null => None,
                            _ => {
                                return Err(SqlError::new(
                                    SqlState("22016"),
                                    "argument of nth_value must be greater than zero",
                                ));
                            }
                        },
                    };
                    let value = match wanted {
                        Some(wanted) => arg(0, wanted, ctx)?,
                        None => Datum::Null,
                    };
                    keep(&mut out, value, ctx)?;
                }
            }
        }
        F::Aggregate(aggregate) => {
            let mut running = Running::new(call, aggregate, part);
            for (number, group) in peers.iter().enumerate() {
                for row in group.clone() {
                    let frame = frames.find(row, number, ctx)?;
                    let value = running.value(frame, ctx)?;
                    ctx.tick()?;
                    keep(&mut out, value, ctx)?;
                }
            }
            running.end(ctx);
        }
    }
    Ok(out)
}

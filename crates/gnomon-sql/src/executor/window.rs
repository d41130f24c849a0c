//! Window functions: rows sorted by partition and order, values computed for each partition.

use std::{ops::Range, sync::Arc};

use super::{
    RowSource,
    context::{ExecContext, row_bytes},
    eval_all,
    join::OptionalCondition,
    keys::{row_key, sort_key},
    open,
    plan::{self, WindowCall, WindowFunction},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Row, limit::datum_bytes},
};

/// A row with its partition and its place in it.
struct Entry {
    partition: Box<[u8]>,
    place: Box<[u8]>,
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
        let Some(first) = self.node.calls.first() else { return Ok(Vec::new()) };
        let mut entries = Vec::new();
        let mut input = open(&self.node.input);
        while let Some(row) = input.next(ctx)? {
            ctx.tick()?;
            let partition = row_key(&eval_all(&first.partition_by, &row, ctx)?);
            let place = sort_key(&first.order_by, &row, ctx)?;
            ctx.reserve(row_bytes(&row) + partition.len() + place.len() + 64)?;
            entries.push(Entry { partition, place, row });
        }
        entries.sort_by(|a, b| (&a.partition, &a.place).cmp(&(&b.partition, &b.place)));
        let mut start = 0;
        let mut values: Vec<Vec<Datum>> = Vec::with_capacity(entries.len());
        for part in entries.chunk_by(|a, b| a.partition == b.partition) {
            let peers = peers(part);
            values.resize(start + part.len(), Vec::with_capacity(self.node.calls.len()));
            for call in &self.node.calls {
                for (row, value) in compute_call(call, part, &peers, ctx)?.into_iter().enumerate() {
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
    part: &[Entry],
    peers: &[Range<usize>],
    ctx: &mut ExecContext<'_>,
) -> Result<Vec<Datum>> {
    use WindowFunction as F;
    let length = part.len();
    let mut out = Vec::with_capacity(length);
    // For each row the end of its frame.
    let frame_end = |row: usize, group: &Range<usize>| match (call.whole_partition, call.rows) {
        (true, _) => length,
        (false, true) => row + 1,
        (false, false) => group.end,
    };
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
            for group in peers {
                for row in group.clone() {
                    let end = frame_end(row, group);
                    let wanted = match &call.function {
                        F::FirstValue => Some(0),
                        F::LastValue => end.checked_sub(1),
                        _ => match arg(1, row, ctx)? {
                            Datum::Int4(n) if n > 0 => Some(n as usize - 1),
                            Datum::Null => None,
                            _ => {
                                return Err(SqlError::new(
                                    SqlState("22016"),
                                    "argument of nth_value must be greater than zero",
                                ));
                            }
                        },
                    };
                    let value = match wanted.filter(|wanted| *wanted < end) {
                        Some(wanted) => arg(0, wanted, ctx)?,
                        None => Datum::Null,
                    };
                    keep(&mut out, value, ctx)?;
                }
            }
        }
        F::Aggregate(aggregate) => {
            let mut accumulator = aggregate.accumulator();
            let mut fed = 0;
            for group in peers {
                for row in group.clone() {
                    let end = frame_end(row, group);
                    while fed < end {
                        let next = &part[fed].row;
                        if call.filter.as_ref().is_none_or_true(next, ctx)? {
                            let args = eval_all(&call.args, next, ctx)?;
                            ctx.tick()?;
                            accumulator.step(&args)?;
                        }
                        fed += 1;
                    }
                    let value = accumulator.finish()?;
                    ctx.tick()?;
                    keep(&mut out, value, ctx)?;
                }
            }
        }
    }
    Ok(out)
}

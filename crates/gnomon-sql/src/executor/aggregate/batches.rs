//! Groups and their aggregates, of batches.

use super::{Group, State};
use crate::{
    Result,
    executor::{
        batch::{Batch, Evaluated, Key, KeyMap, eval, is_evaluated_at_once, open},
        context::ExecContext,
        plan::{self, AggregateCall},
    },
    types::Datum,
};

/// Returns the groups of a node in the order in which they first appear; none if it is to be run by rows.
pub(super) fn group(node: &plan::Aggregate, ctx: &mut ExecContext<'_>) -> Result<Option<Vec<Group>>> {
    let is_fit = node.sets.is_none()
        && node.keys.iter().all(is_evaluated_at_once)
        && node.calls.iter().all(is_fed_in_any_order);
    let Some(mut input) = is_fit.then(|| open(&node.input, &ctx.measures)).flatten() else { return Ok(None) };
    let mut groups = Groups::default();
    if node.keys.is_empty() {
        groups.add(node, Vec::new());
    }
    let mut numbers = Vec::new();
    while let Some(batch) = input.next(ctx)? {
        if !node.keys.is_empty() {
            numbers.clear();
            groups.find(node, &batch, &mut numbers, ctx)?;
        }
        for (position, call) in node.calls.iter().enumerate() {
            groups.feed(call, position, &batch, &numbers, ctx)?;
        }
    }
    Ok(Some(groups.all))
}

/// True if an aggregate takes each row's arguments as they come, and these may be evaluated for many rows at once.
fn is_fed_in_any_order(call: &AggregateCall) -> bool {
    !call.distinct
        && call.order_by.is_empty()
        && call.function.direct().is_none()
        && call.args.iter().chain(&call.filter).all(is_evaluated_at_once)
}

/// The groups so far.
#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    /// The numbers of groups by their keys.
    by_keys: KeyMap<u32>,
}

impl Groups {
    /// Adds a group with these keys. Returns its number.
    fn add(&mut self, node: &plan::Aggregate, keys: Vec<Datum>) -> u32 {
        self.all.push((0, keys, node.calls.iter().map(State::new).collect()));
        (self.all.len() - 1) as u32
    }

    /// Adds the number of each row's group to `numbers`.
    fn find(
        &mut self,
        node: &plan::Aggregate,
        batch: &Batch,
        numbers: &mut Vec<u32>,
        ctx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let keys: Vec<Evaluated<'_>> =
            node.keys.iter().map(|key| eval(key, batch, ctx)).collect::<Result<_>>()?;
        let mut bytes = Vec::new();
        for at in 0..batch.rows() {
            let key = Key::of(node.telling(&keys), at, &mut bytes);
            let number = match self.by_keys.get(&key) {
                Some(number) => *number,
                None => {
                    let values: Vec<Datum> = keys.iter().map(|key| key.get(at)).collect();
                    ctx.reserve(key.bytes() + node.group_bytes(&values))?;
                    let number = self.add(node, values);
                    self.by_keys.insert(&key, number);
                    number
                }
            };
            numbers.push(number);
        }
        Ok(())
    }

    /// Feeds the rows of a batch to an aggregate, the one at `position`. `numbers` has the groups of the rows, if there may
    /// be several.
    fn feed(
        &mut self,
        call: &AggregateCall,
        position: usize,
        batch: &Batch,
        numbers: &[u32],
        ctx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let filter = call.filter.as_ref().map(|filter| eval(filter, batch, ctx)).transpose()?;
        let filtered;
        let (batch, rows) = match &filter {
            None => (batch, None),
            Some(filter) => {
                let rows: Vec<u32> =
                    (0..batch.rows() as u32).filter(|at| filter.is_true(*at as usize)).collect();
                filtered = batch.take(&rows);
                (&filtered, Some(rows))
            }
        };
        if batch.rows() == 0 {
            return Ok(());
        }
        let args: Vec<Evaluated<'_>> =
            call.args.iter().map(|arg| eval(arg, batch, ctx)).collect::<Result<_>>()?;
        let number = |at: usize| {
            let at = rows.as_ref().map_or(at, |rows| rows[at] as usize);
            numbers.get(at).map_or(0, |number| *number as usize)
        };
        let mut values = Vec::with_capacity(args.len());
        match &args[..] {
            [] if numbers.is_empty() => self.all[0].2[position].step_rows(batch.rows(), ctx)?,
            [Evaluated::Column(column)] if numbers.is_empty() => {
                self.all[0].2[position].step_column(column, ctx)?;
            }
            [Evaluated::Column(column)] => {
                for at in 0..batch.rows() {
                    self.all[number(at)].2[position].step_value(column, at, ctx)?;
                }
            }
            args => {
                for at in 0..batch.rows() {
                    values.clear();
                    values.extend(args.iter().map(|arg| arg.get(at)));
                    self.all[number(at)].2[position].step(&values, ctx)?;
                }
            }
        }
        Ok(())
    }
}

//! Groups by hash, in the order in which they first appear, and their aggregates.

mod batches;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    HashKey, RowSource,
    context::{ExecContext, row_bytes},
    eval_all,
    join::OptionalCondition,
    keys::{place_of, row_key, sort_key},
    open,
    plan::{self, AggregateCall},
    quicksort::quicksort,
};
use crate::{
    Result,
    functions::{Accumulator, Direct},
    types::{Datum, Row, column::Column},
};

/// State of an aggregate after the rows of a group so far.
pub(super) struct State {
    accumulator: Box<dyn Accumulator>,
    /// Bytes of the accumulator's memory that are counted.
    counted: usize,
    /// For DISTINCT: the arguments seen.
    seen: HashSet<HashKey>,
    /// For ORDER BY: the arguments to be fed, with their places.
    waiting: Vec<(Box<[u8]>, Row)>,
}

impl State {
    pub(super) fn new(call: &AggregateCall) -> State {
        State {
            accumulator: call.function.accumulator(),
            counted: 0,
            seen: HashSet::new(),
            waiting: Vec::new(),
        }
    }

    /// Takes rows of an aggregate without arguments.
    fn step_rows(&mut self, rows: usize, ctx: &mut ExecContext<'_>) -> Result<()> {
        self.accumulator.step_rows(rows)?;
        self.count(ctx)
    }

    /// Takes a value of a column.
    fn step_value(&mut self, column: &Column, at: usize, ctx: &mut ExecContext<'_>) -> Result<()> {
        self.accumulator.step_value(column, at)?;
        self.count(ctx)
    }

    /// Takes all values of a column.
    fn step_column(&mut self, column: &Column, ctx: &mut ExecContext<'_>) -> Result<()> {
        self.accumulator.step_column(column)?;
        self.count(ctx)
    }

    fn add(&mut self, call: &AggregateCall, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<()> {
        if !call.filter.as_ref().is_none_or_true(row, ctx)? {
            return Ok(());
        }
        // The common shapes need no list of their own.
        if call.args.is_empty() {
            return self.step(&[], ctx);
        }
        if let ([arg], false, true) = (&call.args[..], call.distinct, call.order_by.is_empty()) {
            let value = [arg.eval(row, ctx)?];
            return self.step(&value, ctx);
        }
        let args = eval_all(&call.args, row, ctx)?;
        let mut place = sort_key(&call.order_by, row, ctx)?;
        if call.distinct {
            let key = row_key(&args);
            let bytes = key.len() + 48;
            if self.seen.contains(&key) {
                return Ok(());
            }
            // Arguments that count once are fed in their own order, after the one that is asked for.
            place = [&place[..], &key[..]].concat().into();
            self.seen.insert(key);
            ctx.reserve(bytes)?;
        }
        if place.is_empty() {
            return self.step(&args, ctx);
        }
        let args = if call.function.direct() == Some(Direct::Row) { Row::new() } else { args };
        ctx.reserve(place.len() + row_bytes(&args))?;
        self.waiting.push((place, args));
        Ok(())
    }

    /// Feeds the accumulator, and counts what it grows.
    fn step(&mut self, args: &[Datum], ctx: &mut ExecContext<'_>) -> Result<()> {
        self.accumulator.step(args)?;
        self.count(ctx)
    }

    /// Counts what the accumulator has grown.
    fn count(&mut self, ctx: &mut ExecContext<'_>) -> Result<()> {
        let bytes = self.accumulator.bytes();
        if bytes > self.counted {
            ctx.reserve(bytes - self.counted)?;
            self.counted = bytes;
        }
        Ok(())
    }

    /// Returns the value of the aggregate for the group with these keys.
    fn finish(mut self, call: &AggregateCall, keys: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let compares_row = call.function.direct() == Some(Direct::Row);
        if call.function.direct().is_some() {
            let values = eval_all(&call.direct, keys, ctx)?;
            self.accumulator.direct(match compares_row {
                true => vec![Datum::Bytea(place_of(&values, &call.order_by))],
                false => values,
            })?;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        quicksort(&mut waiting, |a, b| a.0.cmp(&b.0));
        for (place, args) in waiting {
            ctx.tick()?;
            match compares_row {
                true => self.step(&[Datum::Bytea(place)], ctx)?,
                false => self.step(&args, ctx)?,
            }
        }
        ctx.release(self.counted);
        self.accumulator.finish()
    }
}

/// A group: the number of its grouping set, its keys' values and its aggregates' states.
type Group = (usize, Row, Vec<State>);

/// Groups rows.
pub(super) struct AggregateSource {
    node: Arc<plan::Aggregate>,
    groups: Option<std::vec::IntoIter<Group>>,
}

impl AggregateSource {
    pub(super) fn new(node: Arc<plan::Aggregate>) -> Self {
        AggregateSource { node, groups: None }
    }

    fn group(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Group>> {
        let node = &self.node;
        if let Some(groups) = batches::group(node, ctx)? {
            return Ok(groups);
        }
        let states = || node.calls.iter().map(State::new).collect::<Vec<_>>();
        let mut input = open(&node.input, &ctx.measures);
        let all: Vec<usize> = (0..node.keys.len()).collect();
        let sets = node.sets.as_deref().unwrap_or(std::slice::from_ref(&all));
        let mut groups: Vec<Group> = Vec::new();
        let mut found: HashMap<(usize, HashKey), usize> = HashMap::new();
        // The empty grouping set is there even without rows.
        for (number, set) in sets.iter().enumerate().filter(|(_, set)| set.is_empty()) {
            debug_assert!(set.is_empty());
            found.insert((number, HashKey::default()), groups.len());
            groups.push((number, vec![Datum::Null; node.keys.len()], states()));
        }
        while let Some(row) = input.next(ctx)? {
            ctx.tick()?;
            let values = eval_all(&node.keys, &row, ctx)?;
            for (number, set) in sets.iter().enumerate() {
                let group = if set.is_empty() {
                    found.get(&(number, HashKey::default())).copied()
                } else {
                    let mut keys = vec![Datum::Null; values.len()];
                    set.iter().for_each(|key| keys[*key].clone_from(&values[*key]));
                    let key = row_key(node.telling(&keys));
                    Some(match found.entry((number, key)) {
                        std::collections::hash_map::Entry::Occupied(entry) => *entry.get(),
                        std::collections::hash_map::Entry::Vacant(entry) => {
                            ctx.reserve(entry.key().1.len() + node.group_bytes(&keys))?;
                            entry.insert(groups.len());
                            groups.push((number, keys, states()));
                            groups.len() - 1
                        }
                    })
                };
                if let Some((.., states)) = group.and_then(|group| groups.get_mut(group)) {
                    for (call, state) in node.calls.iter().zip(states) {
                        state.add(call, &row, ctx)?;
                    }
                }
            }
        }
        Ok(groups)
    }
}

impl RowSource for AggregateSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.groups.is_none() {
            self.groups = Some(self.group(ctx)?.into_iter());
        }
        let Some((set, keys, states)) = self.groups.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        let mut row = keys.clone();
        for (state, call) in states.into_iter().zip(&self.node.calls) {
            row.push(state.finish(call, &keys, ctx)?);
        }
        for mask in &self.node.masks {
            row.push(Datum::Int4(self.node.grouping(set, mask)));
        }
        Ok(Some(row))
    }
}

impl plan::Aggregate {
    /// The memory that a group takes beside the key that it is found by, in bytes.
    fn group_bytes(&self, keys: &[Datum]) -> usize {
        row_bytes(keys) + 96 * (1 + self.calls.len())
    }

    /// The value of a call of GROUPING in a grouping set: a bit for each of its keys, set if the set has it not.
    fn grouping(&self, set: usize, mask: &[usize]) -> i32 {
        let grouped = |key: &usize| self.sets.as_ref().is_none_or(|sets| sets[set].contains(key));
        mask.iter().fold(0, |bits, key| bits << 1 | i32::from(!grouped(key)))
    }
}

//! Subqueries within expressions: evaluated once if they depend on no row around them, for each of these rows, or from
//! one reading whose rows are told apart by keys.

use std::{collections::HashMap, sync::Arc};

use gnomon_engine::Isolation;

use super::{Expr, Keyed, Subquery, SubqueryKind};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        self, Bucket, HashKey, HashedRows, KeyedRows, OneByOne, SubqueryResult, context::ExecContext,
        hash_key, set::has_all_rows,
    },
    types::{Datum, Row, limit},
};

/// How often a subquery is evaluated for one row around it before its tables are read for all of them: one that is asked
/// for few rows costs no more than they need.
const EVALUATIONS_BEFORE_KEYED: u64 = 4;

/// The cost of one evaluation beside the rows that it passes, in rows that are read one after another.
const EVALUATION_ROWS: u64 = 4;

/// An attempt to read the rows for all may pass so many rows for each row that the evaluations one by one have cost.
const ATTEMPT_FACTOR: u64 = 2;

/// The next attempt is made when the evaluations one by one have cost so many times as much: all attempts together cost
/// little more than the last.
const NEXT_ATTEMPT_FACTOR: u64 = 4;

/// From this many rows on those of one key are hashed themselves.
const HASHED_ROWS_MIN: usize = 16;

impl Subquery {
    pub(super) fn eval(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        for (slot, value) in &self.args {
            let value = value.eval(row, ctx)?;
            ctx.set_slot(*slot, value);
        }
        let Some(keyed) = &self.keyed else { return self.eval_alone(ctx) };
        if let Some(rows) = self.keyed_rows(keyed, ctx)? {
            return self.of_keyed(keyed, &rows, ctx);
        }
        let before = ctx.rows();
        let value = self.eval_alone(ctx)?;
        let passed = ctx.rows() - before;
        if let Some(SubqueryResult::OneByOne(so_far)) = ctx.state.subqueries.get_mut(&self.id) {
            so_far.evaluations += 1;
            so_far.rows += passed;
        }
        Ok(value)
    }

    /// Its value for the row around it that its slots have, by its own plan.
    fn eval_alone(&self, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        match &self.kind {
            SubqueryKind::Quantified { all, test, hash } => self.quantified(*all, test, hash.as_deref(), ctx),
            _ if self.correlated => self.value(ctx),
            _ => {
                if let Some(SubqueryResult::Value(value)) = ctx.state.subqueries.get(&self.id) {
                    return Ok(value.clone());
                }
                let value = self.value(ctx)?;
                let before = ctx.reserved();
                ctx.reserve(limit::datum_bytes(&value))?;
                ctx.keep_since(before);
                ctx.state.subqueries.insert(self.id, SubqueryResult::Value(value.clone()));
                Ok(value)
            }
        }
    }

    /// The rows for all rows around; none as long as each is better evaluated alone.
    ///
    /// How many rows there are is not known before they are read. So an attempt is given up when it takes more than the
    /// evaluations one by one have taken, and made again when these have taken several times as much: whichever way is
    /// cheaper, the cost stays within a small factor of it.
    fn keyed_rows(&self, keyed: &Keyed, ctx: &mut ExecContext<'_>) -> Result<Option<Arc<KeyedRows>>> {
        let so_far = match ctx.state.subqueries.get(&self.id) {
            Some(SubqueryResult::Keyed(rows)) => return Ok(Some(rows.clone())),
            Some(SubqueryResult::OneByOne(so_far)) => *so_far,
            _ => {
                let so_far = OneByOne { until: Some(0), ..OneByOne::default() };
                ctx.state.subqueries.insert(self.id, SubqueryResult::OneByOne(so_far));
                so_far
            }
        };
        // A transaction that locks what it reads locks the keys that it looks up, and not the whole table.
        let is_kept = keyed.reading.replaces_lookup && ctx.txn.options().isolation == Isolation::Serializable;
        let cost = so_far.rows + EVALUATION_ROWS * so_far.evaluations;
        let is_time = so_far.until.is_some_and(|until| cost >= until);
        if is_kept
            || !is_time
            || so_far.evaluations < EVALUATIONS_BEFORE_KEYED
            || !keyed.reading.tables.iter().all(|table| has_all_rows(*table, ctx))
        {
            return Ok(None);
        }
        let before = ctx.reserved();
        let built = ctx.within(ATTEMPT_FACTOR * cost, |ctx| self.build(keyed, ctx));
        let until = match built {
            Ok(Some(rows)) => {
                ctx.keep_since(before);
                let rows = Arc::new(rows);
                ctx.state.subqueries.insert(self.id, SubqueryResult::Keyed(rows.clone()));
                return Ok(Some(rows));
            }
            Ok(None) => Some(NEXT_ATTEMPT_FACTOR * cost),
            // The rows for all take more memory than the statement may, or one fails that may not be asked for.
            Err(error) if error.state().may_be_avoided() => None,
            Err(error) => return Err(error),
        };
        ctx.release_since(before);
        ctx.state.subqueries.insert(self.id, SubqueryResult::OneByOne(OneByOne { until, ..so_far }));
        Ok(None)
    }

    fn build(&self, keyed: &Keyed, ctx: &mut ExecContext<'_>) -> Result<KeyedRows> {
        let keys: Vec<Expr> = (0..keyed.probes.len())
            .map(|key| Expr::column(keyed.width + key, "?column?", keyed.probes[key].ty))
            .collect();
        // Where a key alone says that there are rows, none is kept.
        let keeps = !matches!(self.kind, SubqueryKind::Exists) || keyed.condition.is_some();
        let mut found: HashMap<HashKey, Vec<Row>> = HashMap::new();
        let of_none = match &keyed.of_none {
            Some(plan) => scalar(&mut *executor::open(plan, &ctx.measures), ctx)?,
            None => Datum::Null,
        };
        let mut source = executor::open(&keyed.plan, &ctx.measures);
        while let Some(mut row) = source.next(ctx)? {
            ctx.tick()?;
            let Some(key) = hash_key(keys.iter(), &row, ctx)? else { continue };
            let bytes = key.len() + 72;
            let rows = match found.entry(key) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    ctx.reserve(bytes)?;
                    entry.insert(Vec::new())
                }
            };
            if keeps {
                if keyed.condition.is_none() {
                    row.truncate(keyed.width);
                }
                ctx.reserve(limit::row_bytes(&row))?;
                rows.push(row);
            }
        }
        let mut buckets = HashMap::with_capacity(found.len());
        for (key, rows) in found {
            let bucket = match &self.kind {
                SubqueryKind::Quantified { hash: Some(pairs), .. }
                    if keyed.condition.is_none() && rows.len() >= HASHED_ROWS_MIN =>
                {
                    Bucket::Hashed(HashedRows::new(rows, pairs, ctx)?)
                }
                _ => Bucket::Rows(rows),
            };
            buckets.insert(key, bucket);
        }
        Ok(KeyedRows { buckets, of_none })
    }

    /// Its value for the row around it that its slots have.
    fn of_keyed(&self, keyed: &Keyed, rows: &KeyedRows, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let key = hash_key(keyed.probes.iter(), &[], ctx)?;
        let bucket = key.and_then(|key| rows.buckets.get(&key));
        match (&self.kind, bucket) {
            (SubqueryKind::Quantified { all, .. }, None) => Ok(Datum::Bool(*all)),
            (SubqueryKind::Quantified { all, test, hash: Some(pairs) }, Some(Bucket::Hashed(table))) => {
                table.contains(pairs, test, *all, ctx)
            }
            (SubqueryKind::Quantified { all, test, .. }, Some(Bucket::Rows(rows))) => {
                test_rows(keyed.condition.as_ref(), test, rows, *all, ctx)
            }
            (SubqueryKind::Scalar, None) => Ok(rows.of_none.clone()),
            (SubqueryKind::Scalar, Some(Bucket::Rows(rows))) => {
                only_value(keyed.condition.as_ref(), rows, ctx)
            }
            (_, None) => Ok(Datum::Bool(false)),
            (_, Some(Bucket::Rows(rows))) => {
                let Some(condition) = &keyed.condition else { return Ok(Datum::Bool(true)) };
                for row in rows {
                    ctx.tick()?;
                    if condition.is_true(row, ctx)? {
                        return Ok(Datum::Bool(true));
                    }
                }
                Ok(Datum::Bool(false))
            }
            (_, Some(Bucket::Hashed(_))) => Ok(Datum::Bool(true)),
        }
    }

    fn value(&self, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let before = ctx.reserved();
        let value = self.read_value(ctx)?;
        ctx.release_since(before);
        Ok(value)
    }

    fn read_value(&self, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let mut source = executor::open(&self.plan, &ctx.measures);
        Ok(match &self.kind {
            SubqueryKind::Exists => Datum::Bool(source.next(ctx)?.is_some()),
            SubqueryKind::Array(scalar) => {
                let mut items = limit::Elements::default();
                while let Some(row) = source.next(ctx)? {
                    ctx.tick()?;
                    row.into_iter().next().map_or(Ok(()), |item| items.push(item))?;
                }
                items.into_array(*scalar)
            }
            SubqueryKind::Row => match only_row(&mut *source, ctx)? {
                Some(row) => limit::record(row)?,
                None => Datum::Null,
            },
            SubqueryKind::Scalar | SubqueryKind::Quantified { .. } => scalar(&mut *source, ctx)?,
        })
    }

    /// ANY and ALL over the subquery's rows, which are kept if they depend on no row around.
    fn quantified(
        &self,
        all: bool,
        test: &Expr,
        hash: Option<&[(Expr, Expr)]>,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let before = ctx.reserved();
        if self.correlated {
            let result = test_source(test, &mut *executor::open(&self.plan, &ctx.measures), all, ctx)?;
            ctx.release_since(before);
            return Ok(result);
        }
        let kept = match ctx.state.subqueries.get(&self.id) {
            Some(kept) => kept.clone(),
            None => {
                let (rows, _) = executor::collect(&mut *executor::open(&self.plan, &ctx.measures), ctx)?;
                let kept = match hash {
                    Some(pairs) => SubqueryResult::Hash(Arc::new(HashedRows::new(rows, pairs, ctx)?)),
                    None => SubqueryResult::Rows(Arc::new(rows)),
                };
                ctx.keep_since(before);
                ctx.state.subqueries.insert(self.id, kept.clone());
                kept
            }
        };
        match (&kept, hash) {
            (SubqueryResult::Hash(table), Some(pairs)) => table.contains(pairs, test, all, ctx),
            (SubqueryResult::Rows(rows), _) => test_rows(None, test, rows, all, ctx),
            _ => Ok(Datum::Null),
        }
    }
}

/// The only row of a source; none if it has none.
fn only_row(source: &mut dyn executor::RowSource, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
    let Some(row) = source.next(ctx)? else { return Ok(None) };
    match source.next(ctx)? {
        None => Ok(Some(row)),
        Some(_) => Err(several_rows()),
    }
}

fn several_rows() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    )
}

/// The first column of the only one of the rows for which `condition` is true; NULL if there is none.
fn only_value(condition: Option<&Expr>, rows: &[Row], ctx: &mut ExecContext<'_>) -> Result<Datum> {
    let mut value = None;
    for row in rows {
        ctx.tick()?;
        if condition.map_or(Ok(true), |condition| condition.is_true(row, ctx))?
            && value.replace(row.first().cloned().unwrap_or(Datum::Null)).is_some()
        {
            return Err(several_rows());
        }
    }
    Ok(value.unwrap_or(Datum::Null))
}

/// The first column of the only row of a source; NULL if it has none.
fn scalar(source: &mut dyn executor::RowSource, ctx: &mut ExecContext<'_>) -> Result<Datum> {
    let row = only_row(source, ctx)?;
    Ok(row.and_then(|row| row.into_iter().next()).unwrap_or(Datum::Null))
}

impl HashedRows {
    /// `pairs` are what is looked up, and what it must be equal to in the rows.
    fn new(rows: Vec<Row>, pairs: &[(Expr, Expr)], ctx: &mut ExecContext<'_>) -> Result<HashedRows> {
        let mut table = HashedRows {
            rows: std::collections::HashSet::with_capacity(rows.len()),
            with_null: Vec::new(),
            empty: rows.is_empty(),
            all: Vec::new(),
        };
        for row in &rows {
            ctx.tick()?;
            match hash_key(pairs.iter().map(|(_, own)| own), row, ctx)? {
                None => table.with_null.push(row.clone()),
                Some(key) => {
                    ctx.reserve(key.len() + 32)?;
                    table.rows.insert(key);
                }
            }
        }
        // One column is decided by the hash and the NULLs alone.
        if pairs.len() > 1 {
            table.all = rows;
        }
        Ok(table)
    }

    /// `left = ANY (rows)`, the left side in slots.
    fn contains(
        &self,
        pairs: &[(Expr, Expr)],
        test: &Expr,
        all: bool,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        if self.empty {
            return Ok(Datum::Bool(false));
        }
        match hash_key(pairs.iter().map(|(probe, _)| probe), &[], ctx)? {
            Some(key) if self.rows.contains(&key) => Ok(Datum::Bool(true)),
            Some(_) => test_rows(None, test, &self.with_null, all, ctx),
            // Of several columns with a NULL among them the answer may still be false: then all rows are tested.
            None if pairs.len() == 1 => Ok(Datum::Null),
            None => test_rows(None, test, &self.all, all, ctx),
        }
    }
}

fn test_source(
    test: &Expr,
    source: &mut dyn executor::RowSource,
    all: bool,
    ctx: &mut ExecContext<'_>,
) -> Result<Datum> {
    let mut null = false;
    while let Some(row) = source.next(ctx)? {
        match test.eval(&row, ctx)? {
            Datum::Bool(found) if found != all => return Ok(Datum::Bool(found)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(all) })
}

/// ANY and ALL over those of the rows for which `condition` is true.
fn test_rows(
    condition: Option<&Expr>,
    test: &Expr,
    rows: &[Row],
    all: bool,
    ctx: &mut ExecContext<'_>,
) -> Result<Datum> {
    let mut null = false;
    for row in rows {
        ctx.tick()?;
        if let Some(condition) = condition
            && !condition.is_true(row, ctx)?
        {
            continue;
        }
        match test.eval(row, ctx)? {
            Datum::Bool(found) if found != all => return Ok(Datum::Bool(found)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(all) })
}

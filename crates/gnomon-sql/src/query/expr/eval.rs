//! Evaluation.

use std::{collections::HashSet, sync::Arc};

use super::{Expr, ExprKind, Subquery, SubqueryKind, on_deep_stack};
use crate::{
    Result, SqlError, SqlState,
    functions::FunctionRef,
    query::{
        context::ExecContext,
        exec::{self, HashedRows, SubqueryResult},
    },
    types::{Datum, Row, Type, cast::cast, keys, limit},
};

impl Expr {
    /// Its value on a row.
    pub fn eval(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        match &self.kind {
            ExprKind::Const(value) => Ok(value.clone()),
            ExprKind::Column { index, .. } => row.get(*index).cloned().ok_or_else(|| self.misplaced()),
            ExprKind::Slot(slot) => Ok(ctx.slot(*slot).clone()),
            _ => on_deep_stack(|| self.compute(row, ctx)),
        }
    }

    fn compute(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        Ok(match &self.kind {
            // These need no deep stack, and so do not come here.
            ExprKind::Const(_) | ExprKind::Column { .. } | ExprKind::Slot(_) => self.eval(row, ctx)?,
            ExprKind::Param(position) => match ctx.params.get(*position) {
                Some(value) => value.clone(),
                None => {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_PARAMETER,
                        format!("there is no parameter ${}", position + 1),
                    ));
                }
            },
            ExprKind::Call { function, args } => match &args[..] {
                [arg] => {
                    let args = [arg.eval(row, ctx)?];
                    function.call(ctx.types, &args)?
                }
                [left, right] => {
                    let args = [left.eval(row, ctx)?, right.eval(row, ctx)?];
                    function.call(ctx.types, &args)?
                }
                args => {
                    let args = exec::eval_all(args, row, ctx)?;
                    function.call(ctx.types, &args)?
                }
            },
            ExprKind::Cast { context, arg } => {
                let value = arg.eval(row, ctx)?;
                cast(ctx.types, value, arg.ty.ty, self.ty, *context)?
            }
            ExprKind::And(args) => {
                let mut null = false;
                for arg in args {
                    match arg.eval(row, ctx)? {
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        Datum::Null => null = true,
                        _ => {}
                    }
                }
                if null { Datum::Null } else { Datum::Bool(true) }
            }
            ExprKind::Or(args) => {
                let mut null = false;
                for arg in args {
                    match arg.eval(row, ctx)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => null = true,
                        _ => {}
                    }
                }
                if null { Datum::Null } else { Datum::Bool(false) }
            }
            ExprKind::Not(arg) => match arg.eval(row, ctx)? {
                Datum::Bool(value) => Datum::Bool(!value),
                other => other,
            },
            ExprKind::IsNull { arg, negated } => {
                let null = match arg.eval(row, ctx)? {
                    Datum::Null => !negated,
                    Datum::Record(fields) => fields.iter().all(|field| field.is_null() != *negated),
                    _ => *negated,
                };
                Datum::Bool(null)
            }
            ExprKind::IsBool { arg, value, negated } => {
                let is = match (arg.eval(row, ctx)?, value) {
                    (Datum::Null, None) => true,
                    (Datum::Bool(a), Some(b)) => a == *b,
                    _ => false,
                };
                Datum::Bool(is != *negated)
            }
            ExprKind::Distinct { equal, args, negated } => {
                let values = exec::eval_all(args, row, ctx)?;
                let distinct = match values.iter().filter(|value| value.is_null()).count() {
                    0 => !is_true(&equal.call(ctx.types, &values)?),
                    1 => true,
                    _ => false,
                };
                Datum::Bool(distinct != *negated)
            }
            ExprKind::Case { arms, otherwise } => {
                for (condition, result) in arms {
                    if condition.is_true(row, ctx)? {
                        return result.eval(row, ctx);
                    }
                }
                otherwise.eval(row, ctx)?
            }
            ExprKind::Coalesce(args) => {
                for arg in args {
                    let value = arg.eval(row, ctx)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            ExprKind::Extreme { less, greatest, args } => {
                let mut best = Datum::Null;
                for arg in args {
                    let value = arg.eval(row, ctx)?;
                    if value.is_null() {
                        continue;
                    }
                    let pair = if *greatest { [best, value] } else { [value, best] };
                    let replaces = pair.iter().any(Datum::is_null) || is_true(&less.call(ctx.types, &pair)?);
                    let [first, second] = pair;
                    best = match (*greatest, replaces) {
                        (true, true) | (false, false) => second,
                        (true, false) | (false, true) => first,
                    };
                }
                best
            }
            ExprKind::AnyAll { function, all, left, array } => {
                let value = left.eval(row, ctx)?;
                match &array.kind {
                    // Lists are not copied for each row.
                    ExprKind::Const(Datum::Array(_, items)) => any_all(function, *all, value, items, ctx)?,
                    _ => match array.eval(row, ctx)? {
                        Datum::Array(_, items) => any_all(function, *all, value, &items, ctx)?,
                        _ => Datum::Null,
                    },
                }
            }
            ExprKind::Array(scalar, args) => {
                limit::Elements::collect(exec::eval_all(args, row, ctx)?)?.into_array(*scalar)
            }
            ExprKind::Row(args) => limit::record(exec::eval_all(args, row, ctx)?)?,
            ExprKind::RowCompare { pairs } => {
                for (position, pair) in pairs.iter().enumerate() {
                    let values = [pair.args[0].eval(row, ctx)?, pair.args[1].eval(row, ctx)?];
                    let last = position + 1 == pairs.len();
                    if !last {
                        match pair.equal.call(ctx.types, &values)? {
                            Datum::Bool(true) => continue,
                            Datum::Bool(false) => {}
                            _ => return Ok(Datum::Null),
                        }
                    }
                    return pair.order.call(ctx.types, &values);
                }
                Datum::Null
            }
            ExprKind::Subscript { array, index } => match (array.eval(row, ctx)?, index.eval(row, ctx)?) {
                (Datum::Array(_, items), Datum::Int4(index)) => usize::try_from(index)
                    .ok()
                    .and_then(|index| index.checked_sub(1))
                    .and_then(|index| items.get(index).cloned())
                    .unwrap_or(Datum::Null),
                _ => Datum::Null,
            },
            ExprKind::Slice { array, from, to } => {
                let Datum::Array(scalar, items) = array.eval(row, ctx)? else { return Ok(Datum::Null) };
                let mut bound = |bound: &Option<Box<Expr>>, default: i64| -> Result<Option<i64>> {
                    match bound {
                        None => Ok(Some(default)),
                        Some(bound) => Ok(match bound.eval(row, ctx)? {
                            Datum::Int4(bound) => Some(i64::from(bound)),
                            _ => None,
                        }),
                    }
                };
                let length = items.len() as i64;
                let (Some(from), Some(to)) = (bound(from, 1)?, bound(to, length)?) else {
                    return Ok(Datum::Null);
                };
                let (from, to) = (from.clamp(1, length + 1), to.clamp(0, length));
                let items = items.iter().skip(from as usize - 1).take((to - from + 1).max(0) as usize);
                Datum::Array(scalar, items.cloned().collect())
            }
            ExprKind::Field { record, index } => match record.eval(row, ctx)? {
                Datum::Record(fields) => fields.get(*index).cloned().unwrap_or(Datum::Null),
                _ => Datum::Null,
            },
            ExprKind::Let { slot, value, body } => {
                let value = value.eval(row, ctx)?;
                ctx.set_slot(*slot, value);
                body.eval(row, ctx)?
            }
            ExprKind::Subquery(subquery) => subquery.eval(row, ctx)?,
            ExprKind::SetCall { .. } => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "set-valued function called in context that cannot accept a set",
                ));
            }
            ExprKind::Aggregate(_) | ExprKind::Window(_) => return Err(self.misplaced()),
        })
    }

    /// Whether it is true on a row (neither false nor NULL).
    pub fn is_true(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<bool> {
        // Conjuncts are the common case, and need no value of their own.
        if let ExprKind::And(args) = &self.kind {
            for arg in args {
                if !is_true(&arg.eval(row, ctx)?) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(is_true(&self.eval(row, ctx)?))
    }

    fn misplaced(&self) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, "an expression was planned for a row of another shape")
    }
}

fn is_true(value: &Datum) -> bool {
    matches!(value, Datum::Bool(true))
}

fn any_all(
    function: &FunctionRef,
    all: bool,
    value: Datum,
    items: &[Datum],
    ctx: &mut ExecContext<'_>,
) -> Result<Datum> {
    let mut null = false;
    let mut args = [value, Datum::Null];
    for item in items {
        ctx.tick()?;
        args[1] = item.clone();
        match function.call(ctx.types, &args)? {
            Datum::Bool(found) if found != all => return Ok(Datum::Bool(found)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(all) })
}

impl Subquery {
    fn eval(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        for (slot, value) in &self.args {
            let value = value.eval(row, ctx)?;
            ctx.set_slot(*slot, value);
        }
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

    fn value(&self, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let before = ctx.reserved();
        let value = self.read_value(ctx)?;
        ctx.release_since(before);
        Ok(value)
    }

    fn read_value(&self, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        let mut source = exec::open(&self.plan);
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
            SubqueryKind::Scalar | SubqueryKind::Quantified { .. } => {
                let Some(row) = source.next(ctx)? else { return Ok(Datum::Null) };
                if source.next(ctx)?.is_some() {
                    return Err(SqlError::new(
                        SqlState::CARDINALITY_VIOLATION,
                        "more than one row returned by a subquery used as an expression",
                    ));
                }
                row.into_iter().next().unwrap_or(Datum::Null)
            }
        })
    }

    /// ANY and ALL over the subquery's rows, which are kept if they depend on no row around.
    fn quantified(
        &self,
        all: bool,
        test: &Expr,
        hash: Option<&[(usize, Type)]>,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let before = ctx.reserved();
        if self.correlated {
            let result = test_source(test, &mut *exec::open(&self.plan), all, ctx)?;
            ctx.release_since(before);
            return Ok(result);
        }
        let kept = match ctx.state.subqueries.get(&self.id) {
            Some(kept) => kept.clone(),
            None => {
                let (rows, _) = exec::collect(&mut *exec::open(&self.plan), ctx)?;
                let kept = match hash {
                    Some(slots) => SubqueryResult::Hash(Arc::new(hashed(rows, slots.len(), ctx)?)),
                    None => SubqueryResult::Rows(Arc::new(rows)),
                };
                ctx.keep_since(before);
                ctx.state.subqueries.insert(self.id, kept.clone());
                kept
            }
        };
        let rows = match (&kept, hash) {
            (SubqueryResult::Hash(table), Some(slots)) => {
                if table.empty {
                    return Ok(Datum::Bool(false));
                }
                let mut key = Vec::with_capacity(16);
                let mut null = false;
                for (slot, _) in slots {
                    let value = ctx.slot(*slot);
                    null |= value.is_null();
                    keys::encode(&mut key, value, false, false);
                }
                if !null && table.rows.contains(&key[..]) {
                    return Ok(Datum::Bool(true));
                }
                // Of several columns with a NULL among them the answer may still be false: then all rows are tested.
                if null && slots.len() == 1 {
                    return Ok(Datum::Null);
                }
                if !null {
                    return test_rows(test, &table.with_null, all, ctx);
                }
                &table.all
            }
            (SubqueryResult::Rows(rows), _) => &**rows,
            _ => return Ok(Datum::Null),
        };
        test_rows(test, rows, all, ctx)
    }
}

fn test_source(
    test: &Expr,
    source: &mut dyn exec::RowSource,
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

fn test_rows(test: &Expr, rows: &[Row], all: bool, ctx: &mut ExecContext<'_>) -> Result<Datum> {
    let mut null = false;
    for row in rows {
        ctx.tick()?;
        match test.eval(row, ctx)? {
            Datum::Bool(found) if found != all => return Ok(Datum::Bool(found)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(all) })
}

fn hashed(rows: Vec<Row>, width: usize, ctx: &mut ExecContext<'_>) -> Result<HashedRows> {
    let mut table = HashedRows {
        rows: HashSet::with_capacity(rows.len()),
        with_null: Vec::new(),
        empty: rows.is_empty(),
        all: Vec::new(),
    };
    for row in &rows {
        ctx.tick()?;
        if row.iter().any(Datum::is_null) {
            table.with_null.push(row.clone());
            continue;
        }
        let mut key = Vec::with_capacity(16);
        row.iter().for_each(|value| keys::encode(&mut key, value, false, false));
        ctx.reserve(key.len() + 32)?;
        table.rows.insert(key.into());
    }
    // One column is decided by the hash and the NULLs alone.
    if width > 1 {
        table.all = rows;
    }
    Ok(table)
}

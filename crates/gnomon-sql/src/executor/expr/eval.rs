//! Evaluation.

use std::{collections::HashSet, sync::Arc};

use gnomon_engine::TreeLock;

use super::{Expr, ExprKind, on_deep_stack};
use crate::{
    Result, SqlError, SqlState,
    executor::{self, HashKey, context::ExecContext},
    functions::FunctionRef,
    types::{Datum, Type, cast::cast, keys, limit},
};

/// The length of a value of type name, with the zero at its end.
const NAME_BYTES: usize = 64;

impl Expr {
    /// Its value on a row.
    pub fn eval(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        match &self.kind {
            ExprKind::Const(value) => Ok(value.clone()),
            ExprKind::Column { index, .. } => row.get(*index).cloned().ok_or_else(|| self.misplaced()),
            ExprKind::Param(position) => ctx.params.get(*position).cloned().ok_or_else(|| {
                let missing = format!("there is no parameter ${}", position + 1);
                SqlError::new(SqlState::UNDEFINED_PARAMETER, missing)
            }),
            ExprKind::Slot(slot) => Ok(ctx.slot(*slot).clone()),
            _ => on_deep_stack(|| self.compute(row, ctx)),
        }
    }

    fn compute(&self, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Datum> {
        Ok(match &self.kind {
            // These need no deep stack, and so do not come here.
            ExprKind::Const(_) | ExprKind::Column { .. } | ExprKind::Param(_) | ExprKind::Slot(_) => {
                self.eval(row, ctx)?
            }
            ExprKind::System { column, table, key } => match key.eval(row, ctx)? {
                Datum::Bytea(key) => table.system_value(*column, &key)?,
                _ => Datum::Null,
            },
            ExprKind::Call { function, args } => match &args[..] {
                [arg] => {
                    let args = [arg.eval(row, ctx)?];
                    call(function, &args, ctx)?
                }
                [left, right] => {
                    let args = [left.eval(row, ctx)?, right.eval(row, ctx)?];
                    call(function, &args, ctx)?
                }
                args => {
                    let args = executor::eval_all(args, row, ctx)?;
                    call(function, &args, ctx)?
                }
            },
            ExprKind::Cast { context, arg } => {
                let value = arg.eval(row, ctx)?;
                let types = ctx.types;
                limit::watched(types, limit::is_large(&value), || {
                    cast(types, value, arg.ty.ty, self.ty, *context)
                })?
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
                let values = executor::eval_all(args, row, ctx)?;
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
            ExprKind::AnyAll { function, all, left, array, list } => {
                let value = left.eval(row, ctx)?;
                if let Some(list) = list
                    && let Some(items) = hashed_list(*list, array, ctx)?
                {
                    return Ok(items.contains(&value, *all));
                }
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
                limit::Elements::collect(executor::eval_all(args, row, ctx)?)?.into_array(*scalar)
            }
            ExprKind::Row(args) => limit::record(executor::eval_all(args, row, ctx)?)?,
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
            ExprKind::Subscript { array, index, first } => {
                match (array.eval(row, ctx)?, index.eval(row, ctx)?) {
                    (Datum::Array(_, items), Datum::Int4(index)) => index
                        .checked_sub(*first)
                        .and_then(|index| items.get(usize::try_from(index).ok()?).cloned())
                        .unwrap_or(Datum::Null),
                    // The bytes of a name; those behind its end are zero.
                    (Datum::Text(name), Datum::Int4(index)) => match usize::try_from(index) {
                        Ok(index) if index < NAME_BYTES => {
                            Datum::Char(name.as_bytes().get(index).copied().unwrap_or(0))
                        }
                        _ => Datum::Null,
                    },
                    _ => Datum::Null,
                }
            }
            ExprKind::Slice { array, from, to, first } => {
                let Datum::Array(scalar, items) = array.eval(row, ctx)? else { return Ok(Datum::Null) };
                let mut bound = |bound: &Option<Box<Expr>>, default: i64| -> Result<Option<i64>> {
                    match bound {
                        None => Ok(Some(default)),
                        Some(bound) => Ok(match bound.eval(row, ctx)? {
                            Datum::Int4(bound) => Some(i64::from(bound) + 1 - i64::from(*first)),
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
            ExprKind::SetPart { array, part, value } => {
                let Type::Array(scalar) = self.ty.ty else { return Err(self.misplaced()) };
                let array = array.eval(row, ctx)?;
                let value = value.eval(row, ctx)?;
                part.set(scalar, array, value, row, ctx)?
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
            ExprKind::Aggregate(_) | ExprKind::Grouping(_) | ExprKind::Window(_) => {
                return Err(self.misplaced());
            }
        })
    }

    /// True if its value on a row is true (neither false nor NULL).
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

    /// Returns the error of an expression on a row that is not the one it was planned for.
    pub(in crate::executor) fn misplaced(&self) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, "an expression was planned for a row of another shape")
    }
}

fn is_true(value: &Datum) -> bool {
    matches!(value, Datum::Bool(true))
}

/// From this many elements on a list is hashed, if it is asked more than once.
const HASHED_ITEMS_MIN: usize = 16;

/// The set that an execution keeps of a list that is the same for all rows.
pub enum List {
    /// It was looked through once.
    Seen,
    /// It is short.
    Short,
    /// It is looked up by hash.
    Hashed(Arc<HashedItems>),
}

/// The elements of a list.
pub struct HashedItems {
    keys: HashSet<HashKey>,
    has_null: bool,
}

impl HashedItems {
    /// `value = ANY (items)`, or with `all` `value <> ALL (items)`.
    fn contains(&self, value: &Datum, all: bool) -> Datum {
        if value.is_null() {
            return Datum::Null;
        }
        let mut key = Vec::with_capacity(16);
        keys::encode(&mut key, value, false, false);
        match self.keys.contains(&key[..]) {
            true => Datum::Bool(!all),
            false if self.has_null => Datum::Null,
            false => Datum::Bool(all),
        }
    }
}

fn hashed_list(list: usize, array: &Expr, ctx: &mut ExecContext<'_>) -> Result<Option<Arc<HashedItems>>> {
    let kept = match ctx.state.lists.get(&list) {
        Some(List::Hashed(items)) => return Ok(Some(items.clone())),
        Some(List::Short) => return Ok(None),
        None => List::Seen,
        Some(List::Seen) => match array.eval(&[], ctx)? {
            Datum::Array(_, items) if items.len() >= HASHED_ITEMS_MIN => {
                let before = ctx.reserved();
                let mut found = HashedItems { keys: HashSet::new(), has_null: false };
                for item in items.iter() {
                    ctx.tick()?;
                    if item.is_null() {
                        found.has_null = true;
                        continue;
                    }
                    let mut key = Vec::with_capacity(16);
                    keys::encode(&mut key, item, false, false);
                    ctx.reserve(key.len() + 32)?;
                    found.keys.insert(key.into());
                }
                ctx.keep_since(before);
                List::Hashed(Arc::new(found))
            }
            _ => List::Short,
        },
    };
    let found = match &kept {
        List::Hashed(items) => Some(items.clone()),
        List::Seen | List::Short => None,
    };
    ctx.state.lists.insert(list, kept);
    Ok(found)
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
        match call(function, &args, ctx)? {
            Datum::Bool(found) if found != all => return Ok(Datum::Bool(found)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(all) })
}

/// Calls a function. A transaction that draws from a sequence locks it, so that it stays as it is until the transaction ends.
pub(in crate::executor) fn call(
    function: &FunctionRef,
    args: &[Datum],
    ctx: &mut ExecContext<'_>,
) -> Result<Datum> {
    if let (true, [Datum::Oid(sequence), ..]) = (function.draws(), args) {
        ctx.txn.lock_name(u64::from(*sequence), TreeLock::IntentionExclusive)?;
    }
    function.call(ctx.types, args)
}

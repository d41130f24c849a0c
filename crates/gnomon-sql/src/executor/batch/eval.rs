//! Expressions over the rows of a batch.
//!
//! Comparisons, sums, differences and products of integers and numerics run in loops over columns, and so do tests for
//! NULL and the connectives of what cannot fail. Other functions are called for one row after the other, with values
//! from columns; all else is evaluated row by row ([`by_row`]).

use std::{borrow::Cow, cmp::Ordering};

use super::Batch;
use crate::{
    Result,
    executor::{
        Expr,
        context::ExecContext,
        expr::{ExprKind, call, on_deep_stack},
    },
    functions::{Comparison, FunctionRef},
    types::{
        Datum, Row, Type,
        column::{Column, Decimal, Texts, Values, integral, is_integral},
        keys, rows,
    },
};

/// The values of an expression for the rows of a batch.
pub(in crate::executor) enum Evaluated<'b> {
    /// One for each row.
    Column(Cow<'b, Column>),
    /// The same for each.
    Constant(Datum),
}

impl Evaluated<'_> {
    /// Returns the value for a row.
    pub(in crate::executor) fn get(&self, at: usize) -> Datum {
        match self {
            Evaluated::Column(column) => column.get(at),
            Evaluated::Constant(value) => value.clone(),
        }
    }

    /// True if the value for a row is NULL.
    pub(in crate::executor) fn is_null(&self, at: usize) -> bool {
        match self {
            Evaluated::Column(column) => column.is_null(at),
            Evaluated::Constant(value) => value.is_null(),
        }
    }

    /// True if the value for a row is the boolean true.
    pub(in crate::executor) fn is_true(&self, at: usize) -> bool {
        match self {
            Evaluated::Column(column) => match column.values() {
                Values::Integers(Type::Bool, values) => values[at] != 0 && !column.is_null(at),
                _ => matches!(column.get(at), Datum::Bool(true)),
            },
            Evaluated::Constant(value) => matches!(value, Datum::Bool(true)),
        }
    }

    /// Returns the value for a row as an integer, if it is one, a date, a time or a boolean.
    pub(in crate::executor) fn integral(&self, at: usize) -> Option<i64> {
        match self {
            Evaluated::Column(column) => match column.values() {
                Values::Integers(_, values) => (!column.is_null(at)).then(|| values[at]),
                Values::Others(values) => integral(&values[at]),
                Values::Decimals(_) | Values::Texts(_) => None,
            },
            Evaluated::Constant(value) => integral(value),
        }
    }

    /// Returns the values as a column of so many rows.
    pub(in crate::executor) fn into_column(self, rows: usize) -> Column {
        match self {
            Evaluated::Column(column) => column.into_owned(),
            Evaluated::Constant(value) => Column::of_values(vec![value; rows]),
        }
    }

    /// Appends the value for a row, as [`Column::encode`].
    pub(in crate::executor) fn encode(&self, at: usize, out: &mut Vec<u8>) {
        match self {
            Evaluated::Column(column) => column.encode(at, out),
            Evaluated::Constant(value) => keys::encode(out, value, false, false),
        }
    }

    /// For each row true if the value is NULL; empty if none is known to be.
    fn nulls(&self) -> &[bool] {
        match self {
            Evaluated::Column(column) => column.nulls(),
            Evaluated::Constant(_) => &[],
        }
    }
}

/// True if the values of an expression may be held for a whole batch: they are a table's own, or of a short type, and none
/// changes from call to call.
pub(in crate::executor) fn is_evaluated_at_once(expr: &Expr) -> bool {
    is_short(expr) && !expr.is_volatile()
}

/// True if the values of an expression are a table's own, or of a short type.
fn is_short(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Column { .. } | ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Slot(_) => true,
        ExprKind::Cast { arg, .. } if is_relabelled(expr, arg) => is_short(arg),
        _ => rows::width(expr.ty.ty) != 0 || expr.ty.ty == Type::Numeric,
    }
}

/// True if a conversion of texts leaves them as they are.
fn is_relabelled(cast: &Expr, arg: &Expr) -> bool {
    let is_text = |ty| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    is_text(arg.ty.ty) && matches!(cast.ty.ty, Type::Text | Type::Varchar) && cast.ty.modifier < 0
}

/// True if an expression has a value for every row: no part of it can fail, or is slow.
fn is_safe(expr: &Expr) -> bool {
    on_deep_stack(|| match &expr.kind {
        ExprKind::Column { .. } | ExprKind::Const(_) => true,
        ExprKind::Call { function, args } => {
            function.comparison().is_some() && args.iter().all(|arg| is_integral(arg.ty.ty) && is_safe(arg))
        }
        ExprKind::Not(arg) | ExprKind::IsNull { arg, .. } => is_safe(arg),
        ExprKind::And(args) | ExprKind::Or(args) => args.iter().all(is_safe),
        _ => false,
    })
}

/// Evaluates an expression for all rows of a batch.
///
/// # Errors
/// That of one of the rows.
pub(in crate::executor) fn eval<'b>(
    expr: &Expr,
    batch: &'b Batch,
    ctx: &mut ExecContext<'_>,
) -> Result<Evaluated<'b>> {
    match &expr.kind {
        ExprKind::Column { index, .. } => match batch.columns.get(*index) {
            Some(column) => Ok(Evaluated::Column(Cow::Borrowed(column))),
            None => Err(expr.misplaced()),
        },
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Slot(_) => {
            expr.eval(&[], ctx).map(Evaluated::Constant)
        }
        _ => on_deep_stack(|| compute(expr, batch, ctx)),
    }
}

fn compute<'b>(expr: &Expr, batch: &'b Batch, ctx: &mut ExecContext<'_>) -> Result<Evaluated<'b>> {
    let column = match &expr.kind {
        ExprKind::Call { function, args } if args.iter().all(is_short) => {
            return call_for_each(expr, function, args, batch, ctx);
        }
        ExprKind::Cast { arg, .. } if is_relabelled(expr, arg) => return eval(arg, batch, ctx),
        ExprKind::Cast { arg, .. } if is_integral(arg.ty.ty) => {
            match widened(&eval(arg, batch, ctx)?, arg.ty.ty, expr) {
                Some(column) => column,
                None => by_row(expr, batch, ctx)?,
            }
        }
        ExprKind::IsNull { arg, negated } if is_short(arg) => {
            let values = eval(arg, batch, ctx)?;
            of_bools(batch, |at| Some(values.is_null(at) != *negated))
        }
        ExprKind::Not(arg) if is_short(arg) => {
            let values = eval(arg, batch, ctx)?;
            of_bools(batch, |at| (!values.is_null(at)).then(|| !values.is_true(at)))
        }
        ExprKind::And(args) if is_safe(expr) => connected(args, false, batch, ctx)?,
        ExprKind::Or(args) if is_safe(expr) => connected(args, true, batch, ctx)?,
        _ => by_row(expr, batch, ctx)?,
    };
    Ok(Evaluated::Column(Cow::Owned(column)))
}

/// Evaluates an expression for one row after the other.
fn by_row(expr: &Expr, batch: &Batch, ctx: &mut ExecContext<'_>) -> Result<Column> {
    let used = expr.columns();
    let mut row: Row = vec![Datum::Null; batch.columns.len()];
    let mut out = Column::of(expr.ty.ty);
    for at in 0..batch.rows {
        for &index in &used {
            if let (Some(place), Some(column)) = (row.get_mut(index), batch.columns.get(index)) {
                *place = column.get(at);
            }
        }
        out.push(expr.eval(&row, ctx)?);
    }
    Ok(out)
}

/// Calls a function for each row.
fn call_for_each<'b>(
    expr: &Expr,
    function: &FunctionRef,
    args: &[Expr],
    batch: &'b Batch,
    ctx: &mut ExecContext<'_>,
) -> Result<Evaluated<'b>> {
    let args: Vec<Evaluated<'_>> = args.iter().map(|arg| eval(arg, batch, ctx)).collect::<Result<_>>()?;
    if args.iter().all(|arg| matches!(arg, Evaluated::Constant(_))) {
        let values: Row = args.iter().map(|arg| arg.get(0)).collect();
        return call(function, &values, ctx).map(Evaluated::Constant);
    }
    let is_null = |arg: &Evaluated<'_>| matches!(arg, Evaluated::Constant(Datum::Null));
    if function.strict && args.iter().any(is_null) {
        return Ok(Evaluated::Constant(Datum::Null));
    }
    if let [left, right] = &args[..]
        && let Some(column) = in_a_loop(function, left, right, batch.rows)
    {
        return Ok(Evaluated::Column(Cow::Owned(column)));
    }
    let mut out = Column::of(expr.ty.ty);
    let mut values: Row = Vec::with_capacity(args.len());
    for at in 0..batch.rows {
        values.clear();
        values.extend(args.iter().map(|arg| arg.get(at)));
        out.push(call(function, &values, ctx)?);
    }
    Ok(Evaluated::Column(Cow::Owned(out)))
}

/// Returns the values of an operator that has a loop for such operands; none if it has not, or if a value does not fit.
fn in_a_loop(
    function: &FunctionRef,
    left: &Evaluated<'_>,
    right: &Evaluated<'_>,
    rows: usize,
) -> Option<Column> {
    let nulls = either_null(left.nulls(), right.nulls());
    if let Some(comparison) = function.comparison() {
        let values = if let (Some(left), Some(right)) = (Operands::integers(left), Operands::integers(right))
        {
            compared_integers(comparison, &left, &right, rows)
        } else if let (Some(left), Some(right)) = (TextsOf::of(left), TextsOf::of(right)) {
            compared(comparison, rows, |at| left.get(at).cmp(right.get(at)))
        } else {
            let (left, right) = (Operands::decimals(left)?, Operands::decimals(right)?);
            compared(comparison, rows, |at| left.get(at).cmp(&right.get(at)))
        };
        return Some(Column::of_integers(Type::Bool, values, nulls));
    }
    let operator = function.operator()?;
    let is_null = |at: usize| nulls.get(at).is_some_and(|is_null| *is_null);
    match function.returns() {
        ty @ (Type::Int2 | Type::Int4 | Type::Int8) if function.arguments() == [ty, ty] => {
            let (left, right) = (Operands::integers(left)?, Operands::integers(right)?);
            let range = match ty {
                Type::Int2 => i16::MIN.into()..=i16::MAX.into(),
                Type::Int4 => i32::MIN.into()..=i32::MAX.into(),
                _ => i64::MIN..=i64::MAX,
            };
            let op = match operator {
                "+" => i64::checked_add,
                "-" => i64::checked_sub,
                "*" => i64::checked_mul,
                _ => return None,
            };
            let value = |at| match op(left.get(at), right.get(at)) {
                Some(value) if range.contains(&value) => Some(value),
                _ => is_null(at).then_some(0),
            };
            let values = (0..rows).map(value).collect::<Option<_>>()?;
            Some(Column::of_integers(ty, values, nulls))
        }
        Type::Numeric if function.arguments() == [Type::Numeric; 2] => {
            let (left, right) = (Operands::decimals(left)?, Operands::decimals(right)?);
            let op = match operator {
                "+" => Decimal::plus,
                "-" => Decimal::minus,
                "*" => Decimal::times,
                _ => return None,
            };
            let value = |at| op(left.get(at), right.get(at)).or_else(|| is_null(at).then(Decimal::default));
            let values = (0..rows).map(value).collect::<Option<_>>()?;
            Some(Column::of_decimals(values, nulls))
        }
        _ => None,
    }
}

/// For each row true if one of the two is.
fn either_null(left: &[bool], right: &[bool]) -> Vec<bool> {
    match (left, right) {
        ([], nulls) | (nulls, []) => nulls.to_vec(),
        _ => left.iter().zip(right).map(|(left, right)| *left || *right).collect(),
    }
}

/// Operands of a loop: integers, dates, times and booleans as integers, or numerics of few digits.
enum Operands<'v, T> {
    Each(&'v [T]),
    Same(T),
}

impl<'v> Operands<'v, i64> {
    fn integers(values: &'v Evaluated<'_>) -> Option<Operands<'v, i64>> {
        match values {
            Evaluated::Column(column) => match column.values() {
                Values::Integers(_, values) => Some(Operands::Each(values)),
                _ => None,
            },
            Evaluated::Constant(value) => integral(value).map(Operands::Same),
        }
    }
}

impl<'v> Operands<'v, Decimal> {
    fn decimals(values: &'v Evaluated<'_>) -> Option<Operands<'v, Decimal>> {
        match values {
            Evaluated::Column(column) => match column.values() {
                Values::Decimals(values) => Some(Operands::Each(values)),
                _ => None,
            },
            Evaluated::Constant(Datum::Numeric(value)) => Decimal::of(value).map(Operands::Same),
            Evaluated::Constant(_) => None,
        }
    }
}

impl<T: Copy> Operands<'_, T> {
    fn get(&self, at: usize) -> T {
        match self {
            Operands::Each(values) => values[at],
            Operands::Same(value) => *value,
        }
    }
}

/// Operands that are texts.
enum TextsOf<'v> {
    Each(&'v Texts),
    Same(&'v str),
}

impl<'v> TextsOf<'v> {
    fn of(values: &'v Evaluated<'_>) -> Option<TextsOf<'v>> {
        match values {
            Evaluated::Column(column) => match column.values() {
                Values::Texts(texts) => Some(TextsOf::Each(texts)),
                _ => None,
            },
            Evaluated::Constant(Datum::Text(text)) => Some(TextsOf::Same(text)),
            Evaluated::Constant(_) => None,
        }
    }

    fn get(&self, at: usize) -> &str {
        match self {
            TextsOf::Each(texts) => texts.get(at),
            TextsOf::Same(text) => text,
        }
    }
}

/// Compares integers, in a loop of its own for each comparison and each kind of operands.
fn compared_integers(
    comparison: Comparison,
    left: &Operands<'_, i64>,
    right: &Operands<'_, i64>,
    rows: usize,
) -> Vec<i64> {
    match (left, right) {
        (Operands::Each(left), Operands::Same(right)) => compared(comparison, rows, |at| left[at].cmp(right)),
        (Operands::Same(left), Operands::Each(right)) => {
            compared(comparison, rows, |at| left.cmp(&right[at]))
        }
        _ => compared(comparison, rows, |at| left.get(at).cmp(&right.get(at))),
    }
}

/// Returns for each row 1 if its operands, whose order `order` tells, compare so, else 0.
fn compared(comparison: Comparison, rows: usize, order: impl Fn(usize) -> Ordering) -> Vec<i64> {
    fn each(rows: usize, holds: impl Fn(usize) -> bool) -> Vec<i64> {
        (0..rows).map(|at| i64::from(holds(at))).collect()
    }
    match comparison {
        Comparison::Equal => each(rows, |at| order(at).is_eq()),
        Comparison::NotEqual => each(rows, |at| order(at).is_ne()),
        Comparison::Less => each(rows, |at| order(at).is_lt()),
        Comparison::LessOrEqual => each(rows, |at| order(at).is_le()),
        Comparison::Greater => each(rows, |at| order(at).is_gt()),
        Comparison::GreaterOrEqual => each(rows, |at| order(at).is_ge()),
    }
}

/// Converts integers to a wider type of integers, or to numerics of any precision; none if it is another conversion.
fn widened(values: &Evaluated<'_>, from: Type, cast: &Expr) -> Option<Column> {
    let Evaluated::Column(column) = values else { return None };
    let Values::Integers(_, values) = column.values() else { return None };
    let nulls = column.nulls().to_vec();
    match (from, cast.ty.ty) {
        (Type::Int2, ty @ (Type::Int4 | Type::Int8)) | (Type::Int4, ty @ Type::Int8) => {
            Some(Column::of_integers(ty, values.clone(), nulls))
        }
        (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric) if cast.ty.modifier < 0 => {
            let decimal = |value: &i64| Decimal { units: (*value).into(), scale: 0 };
            Some(Column::of_decimals(values.iter().map(decimal).collect(), nulls))
        }
        _ => None,
    }
}

/// Returns booleans, NULL where there is none.
fn of_bools(batch: &Batch, value: impl Fn(usize) -> Option<bool>) -> Column {
    let values: Vec<Option<bool>> = (0..batch.rows).map(value).collect();
    let nulls = match values.iter().any(Option::is_none) {
        true => values.iter().map(Option::is_none).collect(),
        false => Vec::new(),
    };
    Column::of_integers(
        Type::Bool,
        values.iter().map(|value| i64::from(*value == Some(true))).collect(),
        nulls,
    )
}

/// Returns AND of all, or with `any` OR.
fn connected(args: &[Expr], any: bool, batch: &Batch, ctx: &mut ExecContext<'_>) -> Result<Column> {
    let args: Vec<Evaluated<'_>> = args.iter().map(|arg| eval(arg, batch, ctx)).collect::<Result<_>>()?;
    Ok(of_bools(batch, |at| {
        let decides = |arg: &Evaluated<'_>| !arg.is_null(at) && arg.is_true(at) == any;
        match args.iter().any(decides) {
            true => Some(any),
            false => (!args.iter().any(|arg| arg.is_null(at))).then_some(!any),
        }
    }))
}

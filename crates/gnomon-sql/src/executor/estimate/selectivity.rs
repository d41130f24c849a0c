//! Selectivities of conditions.

use super::{ColumnEstimate, Estimator, join::equal_columns, value};
use crate::{
    executor::{
        Expr,
        expr::{ExprKind, on_deep_stack},
    },
    functions::{Comparison, FunctionRef},
    types::{Context, Datum, FixedEnvironment, cast::CastContext},
};

/// The estimates of columns by their numbers.
pub type Columns<'a> = dyn Fn(usize) -> Option<&'a ColumnEstimate> + 'a;

/// The selectivity of a condition of which nothing is known.
const UNKNOWN: f64 = 1.0 / 3.0;
/// The selectivity of a Boolean value, or of a subquery's.
const HALF: f64 = 0.5;
/// The selectivity of IS NULL without statistics.
const NULL: f64 = 0.005;
/// The length of a list that is not known.
const LIST: f64 = 10.0;

/// Returns the selectivity of a condition: the fraction of rows, or of pairs of rows, for which it is true.
pub fn selectivity<'a>(condition: &Expr, columns: &Columns<'a>) -> f64 {
    let found = on_deep_stack(|| of_kind(condition, columns));
    if found.is_nan() { UNKNOWN } else { found.clamp(0.0, 1.0) }
}

fn of_kind<'a>(condition: &Expr, columns: &Columns<'a>) -> f64 {
    match &condition.kind {
        ExprKind::Const(Datum::Bool(true)) => 1.0,
        ExprKind::Const(_) => 0.0,
        ExprKind::And(parts) => selectivity_of_all(parts, columns),
        ExprKind::Or(parts) => parts.iter().fold(0.0, |sum, part| {
            let own = selectivity(part, columns);
            sum + own - sum * own
        }),
        ExprKind::Not(arg) => 1.0 - selectivity(arg, columns),
        ExprKind::IsNull { arg, negated } => {
            let nulls = match column_of(arg, columns) {
                Some(column) if column.statistics().is_some() => column.null_fraction(),
                _ => NULL,
            };
            if *negated { 1.0 - nulls } else { nulls }
        }
        ExprKind::IsBool { arg, value, negated } => {
            let of = match value {
                Some(true) => selectivity(arg, columns),
                Some(false) => 1.0 - selectivity(arg, columns),
                None => NULL,
            };
            if *negated { 1.0 - of } else { of }
        }
        ExprKind::Column { .. } => match column_of(condition, columns) {
            Some(column) if column.statistics().is_some() => value::equal(column, Some(&Datum::Bool(true))),
            _ => HALF,
        },
        ExprKind::Call { function, args } => match (function.comparison(), &args[..]) {
            (Some(comparison), [left, right]) => compared(comparison, left, right, columns),
            (None, [left, right]) if matches!(function.operator(), Some("~~" | "!~~")) => {
                let matches = like(function, left, right, columns);
                match (function.operator(), column_of(left, columns)) {
                    (Some("~~"), _) => matches,
                    (_, column) => 1.0 - matches - column.map_or(0.0, ColumnEstimate::null_fraction),
                }
            }
            _ => UNKNOWN,
        },
        ExprKind::Distinct { args, negated, .. } => match &args[..] {
            [left, right] => {
                let equal = compared(Comparison::Equal, left, right, columns);
                if *negated { equal } else { 1.0 - equal }
            }
            _ => UNKNOWN,
        },
        ExprKind::AnyAll { function, all, left, array, .. } => {
            any_all(function.comparison(), *all, left, array, columns)
        }
        ExprKind::RowCompare { .. } => value::INEQUALITY,
        ExprKind::Subquery(_) | ExprKind::Param(_) | ExprKind::Slot(_) => HALF,
        _ => UNKNOWN,
    }
}

/// Returns the selectivity of several conditions together. Bounds of one column make a range.
pub fn selectivity_of_all<'a>(conditions: &[Expr], columns: &Columns<'a>) -> f64 {
    let mut product = 1.0;
    let mut ranges: Vec<(usize, Option<f64>, Option<f64>)> = Vec::new();
    for condition in conditions {
        match bound_of(condition, columns) {
            Some((column, is_low, selectivity)) => {
                let at = ranges.iter().position(|(known, ..)| *known == column).unwrap_or_else(|| {
                    ranges.push((column, None, None));
                    ranges.len() - 1
                });
                let bound = if is_low { &mut ranges[at].1 } else { &mut ranges[at].2 };
                // The narrowest of several bounds on one side.
                *bound = Some(bound.map_or(selectivity, |known| known.min(selectivity)));
            }
            None => product *= selectivity(condition, columns),
        }
    }
    for (column, low, high) in ranges {
        product *= range(columns(column), low, high);
    }
    product
}

/// Returns the selectivity of a range of a column, from those of its bounds.
pub fn range(column: Option<&ColumnEstimate>, low: Option<f64>, high: Option<f64>) -> f64 {
    match (low, high) {
        (Some(low), Some(high)) if low == value::INEQUALITY && high == value::INEQUALITY => value::RANGE,
        (Some(low), Some(high)) => {
            let nulls = column.map_or(0.0, ColumnEstimate::null_fraction);
            let both = low + high - 1.0 + nulls;
            // The two overlap by nothing or next to nothing.
            if both > 0.0 { both } else { 1e-10_f64.max(column.map_or(0.0, |c| 1.0 / c.base_rows.max(1.0))) }
        }
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => 1.0,
    }
}

/// A bound of a column: its number, true if it is the low one, the selectivity.
fn bound_of<'a>(condition: &Expr, columns: &Columns<'a>) -> Option<(usize, bool, f64)> {
    let ExprKind::Call { function, args } = &condition.kind else { return None };
    let (comparison, [left, right]) = (function.comparison()?, &args[..]) else { return None };
    let (number, comparison, other) = match (bare(left).as_column(), bare(right).as_column()) {
        (Some(number), None) if !right.has_columns() => (number, comparison, right),
        (None, Some(number)) if !left.has_columns() => (number, comparison.mirrored(), left),
        _ => return None,
    };
    let is_low = match comparison {
        Comparison::Greater | Comparison::GreaterOrEqual => true,
        Comparison::Less | Comparison::LessOrEqual => false,
        _ => return None,
    };
    let column = columns(number)?;
    Some((number, is_low, value::inequality(column, comparison, bare(other).as_const())))
}

/// The operand of implicit conversions, which keep order and distinctness.
pub fn bare(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { arg, context: CastContext::Implicit } => bare(arg),
        _ => expr,
    }
}

fn column_of<'a>(expr: &Expr, columns: &Columns<'a>) -> Option<&'a ColumnEstimate> {
    bare(expr).as_column().and_then(columns)
}

fn compared<'a>(comparison: Comparison, left: &Expr, right: &Expr, columns: &Columns<'a>) -> f64 {
    let sides = (column_of(left, columns), column_of(right, columns));
    let (column, comparison, other) = match sides {
        (Some(a), Some(b)) => {
            return match comparison {
                Comparison::Equal => equal_columns(a, b),
                Comparison::NotEqual => 1.0 - equal_columns(a, b),
                _ => value::INEQUALITY,
            };
        }
        (Some(column), None) => (column, comparison, right),
        (None, Some(column)) => (column, comparison.mirrored(), left),
        (None, None) => {
            // An expression has as many values as a column of which nothing is known.
            let equal = 0.005;
            return match comparison {
                Comparison::Equal => equal,
                Comparison::NotEqual => 1.0 - equal,
                _ => value::INEQUALITY,
            };
        }
    };
    let value = bare(other).as_const();
    match comparison {
        Comparison::Equal => value::equal(column, value),
        Comparison::NotEqual => 1.0 - value::equal(column, value) - column.null_fraction(),
        comparison => value::inequality(column, comparison, value),
    }
}

fn like<'a>(function: &FunctionRef, left: &Expr, pattern: &Expr, columns: &Columns<'a>) -> f64 {
    let Some(column) = column_of(left, columns) else { return value::RANGE };
    let environment = FixedEnvironment::at(0);
    let context = Context::new(&environment);
    let is_positive = function.operator() == Some("~~");
    let matches = |value: &Datum| {
        let found =
            pattern.as_const().map(|pattern| function.call(&context, &[value.clone(), pattern.clone()]));
        matches!(found, Some(Ok(Datum::Bool(is_like))) if is_like == is_positive)
    };
    value::like(column, pattern.as_const().and_then(Datum::as_str), &matches)
}

fn any_all<'a>(
    comparison: Option<Comparison>,
    all: bool,
    left: &Expr,
    array: &Expr,
    columns: &Columns<'a>,
) -> f64 {
    let column = column_of(left, columns);
    let of = |element: Option<&Datum>| match (comparison, column) {
        (Some(Comparison::Equal), Some(column)) => value::equal(column, element),
        (Some(Comparison::NotEqual), Some(column)) => 1.0 - value::equal(column, element),
        (Some(Comparison::Equal), None) => 0.005,
        (Some(_), Some(column)) => value::inequality(column, Comparison::Less, element),
        _ => UNKNOWN,
    };
    let each: Vec<f64> = match (array.as_const(), &array.kind) {
        (Some(Datum::Array(_, elements)), _) => elements.iter().map(|element| of(Some(element))).collect(),
        (Some(_), _) => return 0.0,
        (None, ExprKind::Array(_, elements)) => {
            elements.iter().map(|element| of(bare(element).as_const())).collect()
        }
        (None, _) => vec![of(None); LIST as usize],
    };
    match (all, comparison) {
        // Different values of a list exclude each other.
        (false, Some(Comparison::Equal)) => each.iter().sum::<f64>().min(1.0),
        (true, Some(Comparison::NotEqual)) => (each.iter().sum::<f64>() - (each.len() as f64 - 1.0)).max(0.0),
        (false, _) => each.iter().fold(0.0, |sum, own| sum + own - sum * own),
        (true, _) => each.iter().product(),
    }
}

/// Returns how many elements a list has, as far as it tells.
pub fn list_length(array: &Expr) -> f64 {
    match (array.as_const(), &array.kind) {
        (Some(Datum::Array(_, elements)), _) => elements.len() as f64,
        (None, ExprKind::Array(_, elements)) => elements.len() as f64,
        (None, ExprKind::Subquery(subquery)) => Estimator::default().of(&subquery.plan).rows,
        _ => LIST,
    }
}

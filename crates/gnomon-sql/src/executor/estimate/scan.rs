//! Estimates of scans of stored tables.

use std::sync::Arc;

use super::{
    ColumnEstimate,
    column::default_width,
    cost::{DESCENT, EVALUATE, FETCH, ROW},
    selectivity::{Columns, bare, list_length, range, selectivity_of_all},
    value,
};
use crate::{
    catalog::model::{Index, Table},
    executor::{
        Expr,
        expr::ExprKind,
        plan::{Access, KeyAccess, KeyPart, KeyRangePart},
    },
    functions::Comparison,
    types::Datum,
};

/// The estimate of a scan, or of one lookup of it.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The rows that it returns: perhaps less than one on average.
    pub rows: f64,
    /// Its cost.
    pub cost: f64,
}

/// Returns how many rows a table has: as it was analyzed, or else as many as ten pages of PostgreSQL's hold.
pub fn table_rows(table: &Table) -> f64 {
    const PAGES: f64 = 10.0;
    const PAGE_BYTES: f64 = 8168.0;
    const ROW_BYTES: f64 = 28.0;
    match table.statistics.as_ref().filter(|_| table.is_analyzed()) {
        Some(statistics) => statistics.rows,
        None => {
            let widths = table.live_columns().map(|(_, column)| default_width(column.ty));
            let width: f64 = widths.sum();
            PAGES * (PAGE_BYTES / (width + ROW_BYTES)).floor()
        }
    }
}

/// Returns the estimates of all columns of a table of so many rows.
pub fn table_columns(table: &Arc<Table>, rows: f64) -> Vec<ColumnEstimate> {
    (0..table.columns.len()).map(|position| ColumnEstimate::stored(table, position, rows)).collect()
}

/// Returns the estimate of a scan of a table of so many rows, whose rows are found by `access` and then tested for
/// `filter`, in terms of `columns`.
pub fn lookup<'a>(
    table: &Arc<Table>,
    rows: f64,
    access: &Access,
    filter: &[Expr],
    columns: &Columns<'a>,
) -> Lookup {
    let (found, cost, tested) = match access {
        Access::Full(_) => (rows, rows * ROW, filter.to_vec()),
        Access::Key(key) => {
            let index = key.index_of(table);
            let (selectivity, descents) = by_key(table, rows, key);
            let found = rows * selectivity;
            let of_row = if key.index.is_some() { ROW + FETCH } else { ROW };
            let bound: Vec<usize> = bound_columns(index, key);
            (found, descents * DESCENT + found * of_row, without_bounds(filter, &bound, columns))
        }
        Access::Address(access) => {
            let count = match &access.addresses {
                KeyPart::Any(array) => list_length(array),
                _ => 1.0,
            };
            (count.min(rows), count * (DESCENT + ROW), filter.to_vec())
        }
        Access::Current(_) => (1.0, DESCENT, Vec::new()),
    };
    let cost = cost + found * filter.len() as f64 * EVALUATE;
    Lookup { rows: found * selectivity_of_all(&tested, columns), cost }
}

/// The columns that a key access bounds.
fn bound_columns(index: &Index, key: &KeyAccess) -> Vec<usize> {
    let count = key.equal_columns() + usize::from(key.range.is_some());
    index.columns.iter().take(count).copied().collect()
}

/// Conditions but those that say again what a key access has found rows by.
fn without_bounds<'a>(filter: &[Expr], bound: &[usize], columns: &Columns<'a>) -> Vec<Expr> {
    let is_bound = |expr: &Expr| {
        let column = bare(expr).as_column().and_then(columns);
        column.and_then(ColumnEstimate::position).is_some_and(|position| bound.contains(&position))
    };
    let says_again = |condition: &&Expr| match &condition.kind {
        ExprKind::Call { args, .. } => match &args[..] {
            [left, right] => is_bound(left) && !right.has_columns() || is_bound(right) && !left.has_columns(),
            _ => false,
        },
        ExprKind::AnyAll { left, .. } => is_bound(left),
        ExprKind::RowCompare { pairs } => pairs.first().is_some_and(|pair| is_bound(&pair.args[0])),
        _ => false,
    };
    filter.iter().filter(|condition| !says_again(condition)).cloned().collect()
}

/// Returns the fraction of a table's rows that a key finds, and how often the tree is descended.
fn by_key(table: &Arc<Table>, rows: f64, key: &KeyAccess) -> (f64, f64) {
    let columns = table_columns(table, rows);
    let mut places = key.index_of(table).columns.iter().filter_map(|position| columns.get(*position));
    let (mut selectivity, mut descents) = (1.0, 1.0);
    let known = |value: &Expr| bare(value).as_const().cloned();
    for part in &key.equal {
        match part {
            KeyPart::Equal(of) => {
                if let Some(column) = places.next() {
                    selectivity *= value::equal(column, known(of).as_ref());
                }
            }
            KeyPart::Any(array) => {
                descents *= list_length(array);
                if let Some(column) = places.next() {
                    selectivity *= any_of(column, array);
                }
            }
            KeyPart::Rows(width, listed) => {
                descents *= listed.len() as f64;
                let columns: Vec<&ColumnEstimate> = places.by_ref().take(*width).collect();
                let of_row = |row: &Vec<Expr>| -> f64 {
                    columns
                        .iter()
                        .zip(row)
                        .map(|(column, of)| value::equal(column, known(of).as_ref()))
                        .product()
                };
                selectivity *= listed.iter().map(of_row).sum::<f64>().min(1.0);
            }
        }
    }
    if key.point {
        // Each combination of values is one row at most.
        return ((descents / rows.max(1.0)).min(selectivity.max(1.0 / rows.max(1.0))).min(1.0), descents);
    }
    if let (Some(bounds), Some(column)) = (&key.range, places.next()) {
        selectivity *= of_range(column, bounds);
    }
    (selectivity.min(1.0), descents.max(1.0))
}

fn any_of(column: &ColumnEstimate, array: &Expr) -> f64 {
    match (array.as_const(), &array.kind) {
        (Some(Datum::Array(_, elements)), _) => {
            elements.iter().map(|element| value::equal(column, Some(element))).sum::<f64>().min(1.0)
        }
        (None, ExprKind::Array(_, elements)) => {
            let each = elements.iter().map(|element| value::equal(column, bare(element).as_const()));
            each.sum::<f64>().min(1.0)
        }
        (None, _) => (list_length(array) * value::equal(column, None)).min(1.0),
        (Some(_), _) => 0.0,
    }
}

fn of_range(column: &ColumnEstimate, bounds: &KeyRangePart) -> f64 {
    let of = |bound: &Option<(Expr, bool)>, comparison| {
        bound.as_ref().map(|(of, _)| value::inequality(column, comparison, bare(of).as_const()))
    };
    let low = of(&bounds.low, Comparison::GreaterOrEqual);
    let high = of(&bounds.high, Comparison::LessOrEqual);
    range(Some(column), low, high)
}

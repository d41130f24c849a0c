//! Blind updates: they observe nothing of their row, and so need not wait for others that do the same (`SET c = c + 1`).
//!
//! An UPDATE of the row under one key, or the action of ON CONFLICT DO UPDATE, is such a one if of the row it wants to
//! know nothing but whether numbers are within bounds (docs/semantics.md has the rules and why they are right). It
//! becomes an operation of the engine's ([`gnomon_engine::op::record`]), whose claims are the conditions of WHERE, the bounds
//! of CHECK constraints, and those of the column's type.
//!
//! Whatever the operation cannot do, down to raising the right error, is left to the same statement under an exclusive
//! lock: so a statement's row count and errors are those of exclusive locks, but for 40P01 and 40001.

use std::{collections::BTreeMap, fmt};

use gnomon_engine::{
    Applied, Error,
    op::record::{self, Change, Condition, Number},
};

use super::BoundCheck;
use crate::{
    Result, SqlError,
    catalog::model::{Column, Table},
    functions::Comparison,
    query::{ExecContext, Expr, expr::ExprKind},
    types::{
        ColumnType, Datum, Type,
        counted::{number_of, units},
        rows,
    },
};

/// An update of one row that observes nothing of it.
#[derive(Clone, Debug)]
pub(super) struct BlindUpdate {
    widths: Vec<u8>,
    /// Conditions on the row before the update.
    conditions: Vec<Bound>,
    changes: Vec<(usize, Becomes)>,
    /// Conditions on the row after the update, of columns that are added to.
    checks: Vec<Bound>,
    names: Vec<(String, &'static str)>,
}

/// The change of a column.
#[derive(Clone, Debug)]
enum Becomes {
    /// The value of `by` is added, or subtracted.
    More { number: Number, subtracted: bool, by: Expr, precision: Option<u32> },
    /// It gets a value that is not NULL if it must not.
    Value { value: Expr, ty: ColumnType, not_null: bool },
}

/// A comparison of a column with something that does not see the row.
#[derive(Clone, Debug)]
struct Bound {
    column: usize,
    number: Number,
    comparison: Comparison,
    value: Expr,
}

/// Outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Updated,
    /// There is no such row.
    Absent,
    /// A condition is not met.
    NotMet,
    /// The outcome depends on the row, which must be seen: nothing is done.
    ToBeSeen,
}

/// The reason why a statement must see its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observing(pub(super) String);

impl fmt::Display for Observing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn seen<T>(why: impl Into<String>) -> Result<T, Observing> {
    Err(Observing(why.into()))
}

impl BlindUpdate {
    /// An update of `table` with these assignments, under conditions beside the key's. Columns from the table's width
    /// on are those of another row, which is known.
    pub(super) fn plan(
        table: &Table,
        assignments: &[(usize, Expr)],
        conditions: Vec<Expr>,
        checks: &[BoundCheck],
    ) -> Result<BlindUpdate, Observing> {
        let known = |expr: &Expr| is_known(expr, table.columns.len());
        let mut blind = BlindUpdate {
            widths: Vec::new(),
            conditions: Vec::new(),
            changes: Vec::new(),
            checks: Vec::new(),
            names: Vec::new(),
        };
        for (position, expr) in assignments {
            let column = &table.columns[*position];
            if let Some(index) = table.all_indexes().find(|index| index.depends_on(*position)) {
                return seen(format!("{} is a column of index {}", column.name, index.name));
            }
            let becomes = becomes(column, *position, expr, &known)?;
            let how = if matches!(becomes, Becomes::More { .. }) { "is added to" } else { "is set" };
            blind.names.push((column.name.clone(), how));
            blind.changes.push((*position, becomes));
        }
        for condition in conditions {
            match bound(&condition, table, &known) {
                Some(bound) => blind.conditions.push(bound),
                None => return seen("the condition is more than a key and bounds of numbers"),
            }
        }
        let changed = |column: &usize| assignments.iter().any(|(position, _)| position == column);
        for check in checks {
            let mut parts = Vec::new();
            check.condition.clone().split_and(&mut parts);
            for part in
                parts.into_iter().filter(|part| part.columns().iter().any(changed) || !part.is_immutable())
            {
                match bound(&part, table, &known) {
                    // Only what is added to is watched while others change it, too.
                    Some(bound) if bound.comparison != Comparison::Equal && changed(&bound.column) => {
                        blind.checks.push(bound);
                    }
                    _ => return seen(format!("constraint {} is more than a bound of a number", check.name)),
                }
            }
        }
        let last = blind.columns().max().unwrap_or(0);
        if u16::try_from(last).is_err() {
            return seen(format!("{} is too far behind", table.columns[last].name));
        }
        blind.widths = table.columns[..=last].iter().map(|column| rows::width(column.ty.ty)).collect();
        Ok(blind)
    }

    /// The columns that it names.
    fn columns(&self) -> impl Iterator<Item = usize> {
        let bounds = self.conditions.iter().chain(&self.checks).map(|bound| bound.column);
        bounds.chain(self.changes.iter().map(|(column, _)| *column))
    }

    /// Updates the row under a located key. `row` has the columns from the table's width on.
    pub(super) fn run(
        &self,
        ctx: &mut ExecContext<'_>,
        table: &Table,
        key: &[u8],
        row: &[Datum],
    ) -> Result<Outcome> {
        let (place, key) = table.split(key)?;
        let tree = table.tree_at(place)?;
        // Values are computed before it is known whether there is such a row: if one cannot be, that may be no error.
        let Ok(Some(update)) = self.update(ctx, row) else { return Ok(Outcome::ToBeSeen) };
        let Ok(call) = record::update(&update) else { return Ok(Outcome::ToBeSeen) };
        Ok(match ctx.txn.apply(tree, key, &call) {
            Ok(Applied::Done) => {
                ctx.accesses((table.oid, place)).updated += 1;
                Outcome::Updated
            }
            Ok(Applied::Absent) => Outcome::Absent,
            Ok(Applied::Refused(claim)) if claim < update.conditions.len() => Outcome::NotMet,
            Ok(Applied::Refused(_))
            | Err(Error::Operation(_) | Error::KeyTooLong { .. } | Error::ValueTooLong { .. }) => {
                Outcome::ToBeSeen
            }
            Err(error) => return Err(error.into()),
        })
    }

    /// Computes the engine's update from the values known when it runs; none if one of them cannot be counted with.
    fn update(&self, ctx: &mut ExecContext<'_>, row: &[Datum]) -> Result<Option<record::Update>> {
        let mut of_each = |all: &[Bound]| {
            let mut bounds: BTreeMap<usize, Condition> = BTreeMap::new();
            for bound in all {
                let Some((min, max)) = bound.bounds(ctx, row)? else { return Ok(None) };
                let (field, number) = (bound.column as u16, bound.number);
                let all = Condition { field, number, min: i128::MIN, max: i128::MAX };
                let both = bounds.entry(bound.column).or_insert(all);
                (both.min, both.max) = (both.min.max(min), both.max.min(max));
            }
            Ok::<_, SqlError>(Some(bounds))
        };
        let (Some(conditions), Some(bounds)) = (of_each(&self.conditions)?, of_each(&self.checks)?) else {
            return Ok(None);
        };
        let conditions = conditions.into_values().collect();
        let mut update = record::Update { widths: self.widths.clone(), conditions, changes: BTreeMap::new() };
        for (column, becomes) in &self.changes {
            let change = match becomes {
                Becomes::Value { value, ty, not_null } => {
                    let value = value.eval(row, ctx)?;
                    if value.is_null() && *not_null {
                        return Ok(None);
                    }
                    Change::Set(rows::encode_alone(&value, ty.ty)?)
                }
                Becomes::More { number, subtracted, by, precision } => {
                    let Some((units, scale)) = units(&by.eval(row, ctx)?, *number) else { return Ok(None) };
                    let delta = if *subtracted { -units } else { units };
                    let within = bounds.get(column).map(|bound| (bound.min, bound.max));
                    let (mut min, mut max) = within.unwrap_or((i128::MIN, i128::MAX));
                    if let Some(precision) = precision {
                        let greatest = 10_i128.pow(*precision) - 1;
                        (min, max) = (min.max(-greatest), max.min(greatest));
                    }
                    Change::Add { number: *number, delta, scale, min, max }
                }
            };
            update.changes.insert(*column as u16, change);
        }
        Ok(Some(update))
    }
}

/// As EXPLAIN prints it.
impl fmt::Display for BlindUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, how)) in self.names.iter().enumerate() {
            write!(f, "{}{name} {how}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Bound {
    /// The least and the greatest number that meets it, in units.
    fn bounds(&self, ctx: &mut ExecContext<'_>, row: &[Datum]) -> Result<Option<(i128, i128)>> {
        let Some((units, _)) = units(&self.value.eval(row, ctx)?, self.number) else { return Ok(None) };
        Ok(Some(match self.comparison {
            Comparison::Equal => (units, units),
            Comparison::Less => (i128::MIN, units - 1),
            Comparison::LessOrEqual => (i128::MIN, units),
            Comparison::Greater => (units + 1, i128::MAX),
            Comparison::GreaterOrEqual => (units, i128::MAX),
            Comparison::NotEqual => return Ok(None),
        }))
    }
}

/// Returns the change of a column that an expression is assigned to, or why that needs the row.
fn becomes(
    column: &Column,
    position: usize,
    expr: &Expr,
    known: &dyn Fn(&Expr) -> bool,
) -> Result<Becomes, Observing> {
    match number_of(column.ty) {
        Some((number, precision)) => match addition(expr, position, column) {
            Some((subtracted, by)) if known(by) => {
                Ok(Becomes::More { number, subtracted, by: by.clone(), precision })
            }
            _ => {
                let kind = if column.ty.ty == Type::Numeric { "a number" } else { "an integer" };
                seen(format!("{} is set to something else than a sum of itself and {kind}", column.name))
            }
        },
        None if known(expr) => {
            Ok(Becomes::Value { value: expr.clone(), ty: column.ty, not_null: column.not_null })
        }
        None => seen(format!("{} is set to something else than a value", column.name)),
    }
}

/// True if it can be computed without the row, any number of times: columns from `width` on are those of a row that is
/// known.
fn is_known(expr: &Expr, width: usize) -> bool {
    !expr.has_subquery() && !expr.is_volatile() && expr.columns().iter().all(|column| *column >= width)
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int2 | Type::Int4 | Type::Int8)
}

/// True if it is a column, or the column in a wider type of integers.
fn is_column(expr: &Expr, column: usize) -> bool {
    match &expr.kind {
        ExprKind::Cast { arg, .. } => {
            let wider = match (arg.ty.ty, expr.ty.ty) {
                (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8) => true,
                (from, to) => from == to && expr.ty.modifier < 0,
            };
            wider && is_column(arg, column)
        }
        _ => expr.as_column() == Some(column),
    }
}

/// Returns the operand that an assigned expression adds to its column, or (true) subtracts from it.
fn addition<'e>(expr: &'e Expr, position: usize, column: &Column) -> Option<(bool, &'e Expr)> {
    let numeric = column.ty.ty == Type::Numeric;
    let suits = |ty: Type| if numeric { ty == Type::Numeric } else { is_integer(ty) };
    let sum = match &expr.kind {
        // To the column's type. An integer is within its range before and after.
        ExprKind::Cast { arg, .. } if expr.ty == column.ty && suits(arg.ty.ty) => arg,
        _ => expr,
    };
    let ExprKind::Call { function, args } = &sum.kind else { return None };
    let [left, right] = &args[..] else { return None };
    if !suits(sum.ty.ty) || !suits(left.ty.ty) || !suits(right.ty.ty) {
        return None;
    }
    match function.operator() {
        Some("+") if is_column(left, position) => Some((false, right)),
        Some("+") if is_column(right, position) => Some((false, left)),
        Some("-") if is_column(left, position) => Some((true, right)),
        _ => None,
    }
}

/// A condition as a bound of a number.
fn bound(condition: &Expr, table: &Table, known: &dyn Fn(&Expr) -> bool) -> Option<Bound> {
    let ExprKind::Call { function, args } = &condition.kind else { return None };
    let [left, right] = &args[..] else { return None };
    let comparison = function.comparison().filter(|comparison| *comparison != Comparison::NotEqual)?;
    let of = |side: &Expr, value: &Expr, comparison| {
        let columns = side.columns();
        let column = *columns.first().filter(|column| **column < table.columns.len())?;
        let (number, _) = number_of(table.columns[column].ty)?;
        let found = is_column(side, column) && known(value);
        found.then(|| Bound { column, number, comparison, value: value.clone() })
    };
    of(left, right, comparison).or_else(|| of(right, left, comparison.mirrored()))
}

//! What ANALYZE found, as `pg_statistic` and `pg_stats` show it.
//!
//! The rows of a table in partitions are described together, as those that inherit from it; its partitions have no
//! statistics of their own. A value of anyarray has the elements of its column's type; for a column of arrays, their
//! texts.

use super::{
    System,
    builder::{Rows, int, oid, option, small, string, strings, yes},
    reference,
};
use crate::{
    Result,
    catalog::{
        model::{Oid, Table},
        statistics::{ColumnStatistics, TableStatistics},
    },
    types::{Datum, Scalar, Type},
};

/// The number of slots of a row of `pg_statistic`.
const SLOTS: usize = 5;
/// `stakind` of the most common values.
const COMMON: i16 = 1;
/// `stakind` of a histogram.
const HISTOGRAM: i16 = 2;
/// `stakind` of a correlation.
const CORRELATION: i16 = 3;

/// The kinds of a table's statistics that the catalog shows: of the table itself, as those of partitions are not kept.
pub(super) fn shown_of(table: &Table) -> Option<&TableStatistics> {
    table.statistics.as_deref().filter(|_| table.partition_of.is_none())
}

/// A slot of a row of `pg_statistic`.
struct Slot {
    kind: i16,
    operator: Oid,
    numbers: Option<Datum>,
    values: Option<Datum>,
}

/// `pg_stats`.
pub(super) fn stats(system: System<'_>, rows: &mut Rows) -> Result<()> {
    each(system, |table, position, column| {
        let (common, histogram) = (common(system, column)?, histogram(system, column)?);
        rows.add([
            ("schemaname", string(table.schema.as_str())),
            ("tablename", string(table.name.as_str())),
            ("attname", string(table.columns[position].name.as_str())),
            ("inherited", yes(table.partitioning.is_some())),
            ("null_frac", Datum::Float4(column.null_fraction)),
            ("avg_width", int(column.width as usize)),
            ("n_distinct", Datum::Float4(column.distinct)),
            ("most_common_vals", option(common)),
            ("most_common_freqs", option(fractions(column))),
            ("histogram_bounds", option(histogram)),
            ("correlation", option(column.correlation.map(Datum::Float4))),
        ]);
        Ok(())
    })
}

/// `pg_statistic`.
pub(super) fn statistic(system: System<'_>, rows: &mut Rows) -> Result<()> {
    each(system, |table, position, column| {
        let mut row: Vec<(String, Datum)> = [
            ("starelid", oid(table.oid)),
            ("staattnum", small(position + 1)),
            ("stainherit", yes(table.partitioning.is_some())),
            ("stanullfrac", Datum::Float4(column.null_fraction)),
            ("stawidth", int(column.width as usize)),
            ("stadistinct", Datum::Float4(column.distinct)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let slots = slots(system, column)?;
        let collation = table.columns[position].collation;
        for at in 0..SLOTS {
            let slot = slots.get(at);
            let number = at + 1;
            let collation = slot.map_or(0, |_| collation);
            let numbers = slot.and_then(|slot| slot.numbers.clone());
            let values = slot.and_then(|slot| slot.values.clone());
            row.push((format!("stakind{number}"), Datum::Int2(slot.map_or(0, |slot| slot.kind))));
            row.push((format!("staop{number}"), oid(slot.map_or(0, |slot| slot.operator))));
            row.push((format!("stacoll{number}"), oid(collation)));
            row.push((format!("stanumbers{number}"), option(numbers)));
            row.push((format!("stavalues{number}"), option(values)));
        }
        rows.add(row.iter().map(|(name, value)| (name.as_str(), value.clone())));
        Ok(())
    })
}

fn slots(system: System<'_>, column: &ColumnStatistics) -> Result<Vec<Slot>> {
    let (equal, less) = (operator("=", column.ty.ty), operator("<", column.ty.ty));
    let common = common(system, column)?.map(|values| Slot {
        kind: COMMON,
        operator: equal,
        numbers: fractions(column),
        values: Some(values),
    });
    let histogram = histogram(system, column)?.map(|values| Slot {
        kind: HISTOGRAM,
        operator: less,
        numbers: None,
        values: Some(values),
    });
    let correlation = column.correlation.map(|correlation| Slot {
        kind: CORRELATION,
        operator: less,
        numbers: Some(Datum::Array(Scalar::Float4, [Datum::Float4(correlation)].into())),
        values: None,
    });
    Ok([common, histogram, correlation].into_iter().flatten().collect())
}

/// Calls `show` for each column that has statistics.
fn each(
    system: System<'_>,
    mut show: impl FnMut(&Table, usize, &ColumnStatistics) -> Result<()>,
) -> Result<()> {
    for table in system.catalog().tables().filter(|table| shown_of(table).is_some()) {
        for (position, _) in table.live_columns() {
            if let Some(column) = table.column_statistics(position) {
                show(table, position, column)?;
            }
        }
    }
    Ok(())
}

fn common(system: System<'_>, column: &ColumnStatistics) -> Result<Option<Datum>> {
    array(system, column.common.iter().map(|(value, _)| value), column.ty.ty)
}

fn histogram(system: System<'_>, column: &ColumnStatistics) -> Result<Option<Datum>> {
    array(system, column.histogram.iter(), column.ty.ty)
}

fn fractions(column: &ColumnStatistics) -> Option<Datum> {
    let fractions = column.common.iter().map(|(_, fraction)| Datum::Float4(*fraction));
    (!column.common.is_empty()).then(|| Datum::Array(Scalar::Float4, fractions.collect()))
}

/// Values as an array; none if there are no values.
fn array<'v>(system: System<'_>, values: impl Iterator<Item = &'v Datum>, ty: Type) -> Result<Option<Datum>> {
    let array = match ty.scalar() {
        Some(scalar) => Datum::Array(scalar, values.cloned().collect()),
        None => strings(values.map(|value| system.state.text(value, ty)).collect::<Result<Vec<String>>>()?),
    };
    Ok((!matches!(&array, Datum::Array(_, elements) if elements.is_empty())).then_some(array))
}

/// The operator by which values of a type are compared.
fn operator(name: &str, ty: Type) -> Oid {
    let compared = match ty {
        Type::Varchar => Type::Text.oid(),
        Type::Array(_) => reference::type_named("anyarray").map_or(0, |ty| ty.oid),
        ty if ty.is_registered() => Type::Oid.oid(),
        ty => ty.oid(),
    };
    let mut named = reference::operators_named(name);
    named.find(|known| known.left == compared && known.right == compared).map_or(0, |known| known.oid)
}

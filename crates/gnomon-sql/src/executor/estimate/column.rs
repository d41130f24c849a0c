//! What is known of a column of a plan.

use std::sync::Arc;

use crate::{
    catalog::{model::Table, statistics::ColumnStatistics},
    types::{ColumnType, Type, rows},
};

/// The number of distinct values of a column without statistics.
const DEFAULT_DISTINCT: f64 = 200.0;

/// The estimate of a column.
#[derive(Clone, Debug)]
pub struct ColumnEstimate {
    /// Its average width in bytes.
    pub width: f64,
    /// The column of a stored table that its values come from.
    source: Option<(Arc<Table>, usize)>,
    /// Number of rows of that table, or of the plan that computes it.
    pub base_rows: f64,
    /// Number of distinct values, where that is known from something else than statistics.
    distinct: Option<f64>,
}

impl ColumnEstimate {
    /// A column of a stored table of so many rows.
    pub fn stored(table: &Arc<Table>, position: usize, rows: f64) -> ColumnEstimate {
        let width = match (table.column_statistics(position), table.columns.get(position)) {
            (Some(statistics), _) => f64::from(statistics.width),
            (None, Some(column)) => default_width(column.ty),
            (None, None) => 0.0,
        };
        ColumnEstimate { width, source: Some((table.clone(), position)), base_rows: rows, distinct: None }
    }

    /// A computed column of so many rows.
    pub fn computed(ty: ColumnType, rows: f64) -> ColumnEstimate {
        let distinct = (ty.ty == Type::Bool).then_some(2.0);
        ColumnEstimate { width: default_width(ty), source: None, base_rows: rows, distinct }
    }

    /// A column of so many rows that are all distinct.
    pub fn distinct(ty: ColumnType, rows: f64) -> ColumnEstimate {
        ColumnEstimate { distinct: Some(rows), ..ColumnEstimate::computed(ty, rows) }
    }

    /// Its statistics, if its table was analyzed.
    pub fn statistics(&self) -> Option<&ColumnStatistics> {
        let (table, position) = self.source.as_ref()?;
        table.column_statistics(*position)
    }

    /// Its position in its table.
    pub fn position(&self) -> Option<usize> {
        self.source.as_ref().map(|(_, position)| *position)
    }

    /// The table that it belongs to.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.source.as_ref().map(|(table, _)| table)
    }

    /// True if no two rows of its table have the same value.
    pub fn is_unique(&self) -> bool {
        self.source.as_ref().is_some_and(|(table, position)| {
            table.all_indexes().any(|index| index.unique && index.columns == [*position])
        })
    }

    /// The fraction of NULLs.
    pub fn null_fraction(&self) -> f64 {
        self.statistics().map_or(0.0, |statistics| statistics.null_fraction.into())
    }

    /// The number of distinct values in its table.
    pub fn distinct_values(&self) -> f64 {
        let rows = self.base_rows.max(1.0);
        let is_bool = self.source.as_ref().is_some_and(|(table, position)| {
            table.columns.get(*position).is_some_and(|column| column.ty.ty == Type::Bool)
        });
        let known = self.distinct.or_else(|| {
            let unique = self.is_unique().then(|| rows * (1.0 - self.null_fraction()));
            unique.or_else(|| self.statistics().and_then(|statistics| statistics.distinct_of(rows)))
        });
        let default = if is_bool { 2.0 } else { DEFAULT_DISTINCT };
        known.unwrap_or(default).clamp(1.0, rows)
    }
}

/// The width of values of a type that was not analyzed.
pub fn default_width(ty: ColumnType) -> f64 {
    const UNKNOWN: f64 = 32.0;
    match (ty.ty, rows::width(ty.ty)) {
        (Type::Name, _) => 64.0,
        // Half of what a short length allows, as PostgreSQL has it.
        (Type::Varchar | Type::Bpchar, _) if (5..=36).contains(&ty.modifier) => f64::from(ty.modifier),
        (_, 0) => UNKNOWN,
        (_, width) => f64::from(width),
    }
}

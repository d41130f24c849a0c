//! Statistics of a table's rows, as ANALYZE found them: what the planner estimates with.
//!
//! They have PostgreSQL's meaning (`pg_statistic`), so that `pg_stats` shows them as they are. Plans made with old ones
//! return the same rows, at another cost.

use std::{collections::BTreeMap, sync::Arc};

use crate::types::{ColumnType, Datum};

/// Statistics of a table.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    /// Number of rows.
    pub rows: f64,
    /// Number of pages of 8 KiB that its rows take.
    pub pages: u32,
    /// Statistics of columns, by position in the table.
    pub columns: BTreeMap<usize, ColumnStatistics>,
}

/// Statistics of a column.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// The type of the column when it was analyzed. Statistics of another type are of no use.
    pub ty: ColumnType,
    /// The fraction of rows in which it is NULL.
    pub null_fraction: f32,
    /// The average width of its values in bytes.
    pub width: u32,
    /// Number of distinct values; if negative, minus their ratio to the number of rows; 0 if unknown.
    pub distinct: f32,
    /// The most common values, with the fractions of rows that have them, most common first.
    pub common: Vec<(Datum, f32)>,
    /// Values that divide the rows with other values into groups of about the same size, in ascending order.
    pub histogram: Vec<Datum>,
    /// Correlation of the order of values and the order of stored rows: from -1 to 1.
    pub correlation: Option<f32>,
}

impl TableStatistics {
    /// Returns the statistics of one of several partitions, whose rows are taken to be alike.
    pub fn of_partition(&self, partitions: usize) -> Arc<TableStatistics> {
        let share = partitions.max(1);
        let pages = self.pages / u32::try_from(share).unwrap_or(u32::MAX);
        Arc::new(TableStatistics { rows: self.rows / share as f64, pages, columns: self.columns.clone() })
    }
}

impl ColumnStatistics {
    /// Returns the number of distinct values among `rows` rows; none if it is unknown.
    pub fn distinct_of(&self, rows: f64) -> Option<f64> {
        match f64::from(self.distinct) {
            0.0 => None,
            ratio if ratio < 0.0 => Some((-ratio * rows).max(1.0)),
            count => Some(count),
        }
    }
}

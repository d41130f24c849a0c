//! The statistics of a column from a sample of its values, by PostgreSQL's formulas (`analyze.c`).

use std::cmp::{Ordering, Reverse};

use super::width;
use crate::{
    catalog::statistics::ColumnStatistics,
    types::{ColumnType, Datum, compare::compare},
};

/// Values that are wider than this are left out of lists: they are taken to be distinct.
const WIDTH_MAX: usize = 1024;

/// A run of equal values in a sorted sample.
struct Run {
    count: usize,
    first: usize,
}

/// A sample of a column, counted.
struct Counted {
    /// Values that are not too wide, in their order, each with its place in the sample.
    sorted: Vec<(Datum, usize)>,
    /// Number of values of the sample, NULLs too.
    size: usize,
    nulls: usize,
    /// Number of values that are too wide.
    wide: usize,
    /// Number of distinct values.
    distinct: usize,
    /// Number of those that are there more than once.
    repeated: usize,
    /// The most common of these, most common first.
    runs: Vec<Run>,
}

/// Returns the statistics of a column of a table with `rows` rows. Lists have up to about `target` entries.
pub(super) fn statistics(values: Vec<Datum>, ty: ColumnType, rows: f64, target: usize) -> ColumnStatistics {
    let present = values.iter().filter(|value| !value.is_null());
    let (count, total) =
        present.fold((0, 0), |(count, total), value| (count + 1, total + width::of(value, ty.ty)));
    let width = match (width::fixed(ty.ty), count) {
        (Some(width), _) => width,
        (None, 0) => 0,
        (None, count) => total / count,
    };
    let counted = Counted::of(values, ty, target);
    // As precise as it is kept, which the number of distinct values follows from.
    let null_fraction = (counted.nulls as f64 / counted.size.max(1) as f64) as f32;
    let mut statistics = ColumnStatistics {
        ty,
        null_fraction,
        width: u32::try_from(width).unwrap_or(u32::MAX),
        distinct: 0.0,
        common: Vec::new(),
        histogram: Vec::new(),
        correlation: None,
    };
    let null_fraction = f64::from(null_fraction);
    if count == 0 {
        return statistics;
    }
    let distinct = counted.distinct_values(rows, null_fraction);
    statistics.distinct = distinct as f32;
    let common = counted.common(distinct, null_fraction, rows, target);
    let fraction = |run: &Run| (run.count as f64 / counted.size as f64) as f32;
    statistics.common =
        common.iter().map(|run| (counted.sorted[run.first].0.clone(), fraction(run))).collect();
    if ty.ty.has_order() {
        statistics.histogram = counted.histogram(common, target);
        statistics.correlation = counted.correlation();
    }
    statistics
}

impl Counted {
    fn of(values: Vec<Datum>, ty: ColumnType, target: usize) -> Counted {
        let size = values.len();
        let (mut nulls, mut wide) = (0, 0);
        let mut sorted = Vec::new();
        for value in values {
            if value.is_null() {
                nulls += 1;
            } else if width::of(&value, ty.ty) > WIDTH_MAX {
                wide += 1;
            } else {
                let place = sorted.len();
                sorted.push((value, place));
            }
        }
        sorted.sort_by(|(a, _), (b, _)| compare(a, b));
        let mut counted = Counted { sorted, size, nulls, wide, distinct: 0, repeated: 0, runs: Vec::new() };
        counted.count_runs(target);
        counted
    }

    fn count_runs(&mut self, target: usize) {
        let mut first = 0;
        for run in self.sorted.chunk_by(|(a, _), (b, _)| compare(a, b) == Ordering::Equal) {
            self.distinct += 1;
            if run.len() > 1 {
                self.repeated += 1;
                self.runs.push(Run { count: run.len(), first });
            }
            first += run.len();
        }
        // Of equally common ones the smaller stay.
        self.runs.sort_by_key(|run| Reverse(run.count));
        self.runs.truncate(target);
    }

    /// Returns the number of distinct values in the table, or minus their ratio to its rows: the estimator of Haas and
    /// Stokes, from how many values the sample has once.
    fn distinct_values(&self, rows: f64, null_fraction: f64) -> f64 {
        let (distinct, repeated, wide) = (self.distinct as f64, self.repeated as f64, self.wide as f64);
        let estimate = if self.repeated == 0 {
            return -(1.0 - null_fraction);
        } else if self.wide == 0 && self.repeated == self.distinct {
            distinct
        } else {
            let single = distinct - repeated + wide;
            let seen = single + repeated;
            let sampled = (self.size - self.nulls) as f64;
            let all = rows * (1.0 - null_fraction);
            let estimate = match all > 0.0 {
                true => sampled * seen / ((sampled - single) + single * sampled / all),
                false => 0.0,
            };
            (estimate.max(seen).min(all) + 0.5).floor()
        };
        if estimate > 0.1 * rows { -(estimate / rows) } else { estimate }
    }

    /// Returns the values that are common enough to be listed.
    fn common(&self, distinct: f64, null_fraction: f64, rows: f64, target: usize) -> &[Run] {
        let has_all = self.runs.len() == self.distinct && self.wide == 0 && distinct > 0.0;
        if has_all && self.runs.len() <= target {
            return &self.runs;
        }
        let count = self.common_enough(distinct, null_fraction, rows);
        self.runs.get(..count).unwrap_or_default()
    }

    /// Returns how many of the most common values are, with some certainty, more common than those not listed.
    fn common_enough(&self, distinct: f64, null_fraction: f64, rows: f64) -> usize {
        let size = self.size as f64;
        let mut count = self.runs.len();
        if size >= rows || rows <= 1.0 {
            return count;
        }
        let distinct = if distinct < 0.0 { -distinct * rows } else { distinct };
        let mut before: usize = self.runs.iter().take(count.saturating_sub(1)).map(|run| run.count).sum();
        while let Some(last) = count.checked_sub(1).and_then(|last| self.runs.get(last)) {
            let mut others = (1.0 - before as f64 / size - null_fraction).clamp(0.0, 1.0);
            let other_distinct = distinct - (count as f64 - 1.0);
            if other_distinct > 1.0 {
                others /= other_distinct;
            }
            let in_table = rows * last.count as f64 / size;
            let variance = size * in_table * (rows - in_table) * (rows - size) / (rows * rows * (rows - 1.0));
            if last.count as f64 > others * size + 2.0 * variance.max(0.0).sqrt() + 0.5 {
                break;
            }
            count -= 1;
            before -= count.checked_sub(1).map_or(0, |last| self.runs[last].count);
        }
        count
    }

    /// Returns the bounds of groups of about the same size, of the values that are not listed.
    fn histogram(&self, common: &[Run], target: usize) -> Vec<Datum> {
        let bounds = (self.distinct - common.len()).min(target + 1);
        if bounds < 2 {
            return Vec::new();
        }
        let mut listed: Vec<&Run> = common.iter().collect();
        listed.sort_by_key(|run| run.first);
        let mut rest: Vec<&Datum> = Vec::new();
        let mut from = 0;
        for run in listed {
            rest.extend(self.sorted[from..run.first].iter().map(|(value, _)| value));
            from = run.first + run.count;
        }
        rest.extend(self.sorted[from..].iter().map(|(value, _)| value));
        (0..bounds).map(|bound| rest[bound * (rest.len() - 1) / (bounds - 1)].clone()).collect()
    }

    /// Returns the correlation of values and places.
    fn correlation(&self) -> Option<f32> {
        if self.sorted.len() < 2 {
            return None;
        }
        let count = self.sorted.len() as f64;
        let products = self.sorted.iter().enumerate().map(|(order, (_, place))| order as f64 * *place as f64);
        let products: f64 = products.sum();
        let sum = (count - 1.0) * count / 2.0;
        let squares = (count - 1.0) * count * (2.0 * count - 1.0) / 6.0;
        Some(((count * products - sum * sum) / (count * squares - sum * sum)) as f32)
    }
}

//! Selectivities of comparisons of a column with a value: from common values, histograms, or defaults.

use std::{cmp::Ordering, mem::discriminant};

use super::ColumnEstimate;
use crate::{
    catalog::statistics::ColumnStatistics,
    functions::{Comparison, like_prefix},
    types::{Datum, compare::compare},
};

/// The selectivity of a comparison by order of which nothing is known.
pub const INEQUALITY: f64 = 1.0 / 3.0;
/// The selectivity of a range of which nothing is known.
pub const RANGE: f64 = 0.005;
/// The selectivity of a match of which nothing is known.
const MATCH: f64 = 0.005;

/// Returns the selectivity of `column = value`; of a value that is not known, as it is on average.
pub fn equal(column: &ColumnEstimate, value: Option<&Datum>) -> f64 {
    let value = value.filter(|value| value.is_null() || is_comparable(column, value));
    let rows = column.base_rows.max(1.0);
    match value {
        Some(Datum::Null) => return 0.0,
        _ if column.is_unique() => return 1.0 / rows,
        _ => {}
    }
    let distinct = column.distinct_values();
    let Some(statistics) = column.statistics() else { return 1.0 / distinct };
    let common = &statistics.common;
    let present = 1.0 - f64::from(statistics.null_fraction);
    let selectivity = match value {
        Some(value) => {
            let is_same = |(common, _): &&(Datum, f32)| compare(common, value) == Ordering::Equal;
            if let Some((_, fraction)) = common.iter().find(is_same) {
                return f64::from(*fraction).clamp(0.0, 1.0);
            }
            let others = distinct - common.len() as f64;
            let rest = (present - common_fraction(statistics)).clamp(0.0, 1.0);
            let each = if others > 1.0 { rest / others } else { rest };
            // It cannot be more common than the least of the common values.
            each.min(common.last().map_or(1.0, |(_, fraction)| f64::from(*fraction)))
        }
        None => {
            let each = if distinct > 1.0 { present / distinct } else { present };
            each.min(common.first().map_or(1.0, |(_, fraction)| f64::from(*fraction)))
        }
    };
    selectivity.clamp(0.0, 1.0)
}

/// Returns the selectivity of a comparison by order, of a column with a value.
pub fn inequality(column: &ColumnEstimate, comparison: Comparison, value: Option<&Datum>) -> f64 {
    let value = match value {
        Some(Datum::Null) => return 0.0,
        Some(value) if is_comparable(column, value) => value,
        _ => return INEQUALITY,
    };
    let Some(statistics) = column.statistics() else { return INEQUALITY };
    let common = statistics.common.iter().filter(|(common, _)| comparison.holds(compare(common, value)));
    let common: f64 = common.map(|(_, fraction)| f64::from(*fraction)).sum();
    let rest = (1.0 - f64::from(statistics.null_fraction) - common_fraction(statistics)).clamp(0.0, 1.0);
    let of_rest = match below(&statistics.histogram, value) {
        Some(below) => match comparison {
            Comparison::Greater | Comparison::GreaterOrEqual => 1.0 - below,
            _ => below,
        },
        None if rest > 0.0 && statistics.common.is_empty() => INEQUALITY,
        None => 0.5,
    };
    (common + rest * of_rest).clamp(0.0, 1.0)
}

/// True if a value can be compared with those in the statistics of a column.
fn is_comparable(column: &ColumnEstimate, value: &Datum) -> bool {
    let statistics = column.statistics();
    let known =
        statistics.and_then(|found| found.histogram.first().or(found.common.first().map(|(one, _)| one)));
    known.is_none_or(|known| {
        discriminant(known) == discriminant(value) || known.as_i64().is_some() && value.as_i64().is_some()
    })
}

/// The fraction of rows that have one of the common values.
pub fn common_fraction(statistics: &ColumnStatistics) -> f64 {
    statistics.common.iter().map(|(_, fraction)| f64::from(*fraction)).sum()
}

/// Returns the fraction of a histogram's values that are below a value.
fn below(histogram: &[Datum], value: &Datum) -> Option<f64> {
    let groups = histogram.len().checked_sub(1).filter(|groups| *groups > 0)?;
    let after = histogram.partition_point(|bound| compare(bound, value) == Ordering::Less);
    let fraction = match after {
        0 => 0.0,
        after if after > groups => 1.0,
        after => {
            let (low, high) = (&histogram[after - 1], &histogram[after]);
            (after as f64 - 1.0 + within(low, high, value)) / groups as f64
        }
    };
    // The ends of a sample are not those of its table.
    let least = 0.01 / groups as f64;
    Some(fraction.clamp(least, 1.0 - least))
}

/// Returns the place of a value between two others: from 0 to 1.
fn within(low: &Datum, high: &Datum, value: &Datum) -> f64 {
    const MIDDLE: f64 = 0.5;
    let texts = (low.as_str(), high.as_str(), value.as_str());
    let numbers = match texts {
        (Some(low), Some(high), Some(value)) => {
            let common = low.bytes().zip(high.bytes()).take_while(|(a, b)| a == b).count();
            [low, high, value].map(|text| Some(digits(text.as_bytes().get(common..).unwrap_or_default())))
        }
        _ => [low, high, value].map(number),
    };
    let [Some(low), Some(high), Some(value)] = numbers else { return MIDDLE };
    let place = (value - low) / (high - low);
    if place.is_finite() { place.clamp(0.0, 1.0) } else { MIDDLE }
}

/// Bytes as the digits of a fraction.
fn digits(bytes: &[u8]) -> f64 {
    bytes.iter().take(8).rev().fold(0.0, |sum, byte| (sum + f64::from(*byte)) / 256.0)
}

fn number(value: &Datum) -> Option<f64> {
    match value {
        Datum::Date(days) => Some(f64::from(*days)),
        Datum::Time(time) | Datum::Timestamp(time) | Datum::Timestamptz(time) => Some(*time as f64),
        Datum::Oid(oid) => Some(f64::from(*oid)),
        Datum::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    }
}

/// Returns the selectivity of `column LIKE pattern`. `matches` tells if a value is like it.
pub fn like(column: &ColumnEstimate, pattern: Option<&str>, matches: &dyn Fn(&Datum) -> bool) -> f64 {
    /// The fewest values of a histogram that are a sample worth looking at, and the number that is one by itself.
    const SAMPLE: (usize, f64) = (10, 100.0);
    let Some(pattern) = pattern else { return MATCH };
    let (prefix, is_exact) = like_prefix(pattern);
    if is_exact {
        return equal(column, Some(&Datum::text(prefix)));
    }
    let Some(statistics) = column.statistics() else {
        let begins = if prefix.is_empty() { 1.0 } else { MATCH };
        return (begins * rest_of_pattern(pattern, &prefix)).clamp(1e-4, 0.9999);
    };
    // The ends of a histogram are no usual values.
    let inner = statistics.histogram.len().checked_sub(1).and_then(|last| statistics.histogram.get(1..last));
    let inner = inner.filter(|_| statistics.histogram.len() >= SAMPLE.0).unwrap_or_default();
    let seen = match inner.is_empty() {
        true => 0.0,
        false => inner.iter().filter(|value| matches(value)).count() as f64 / inner.len() as f64,
    };
    let weight = if inner.is_empty() { 0.0 } else { (statistics.histogram.len() as f64 / SAMPLE.1).min(1.0) };
    let begins = match (prefix.is_empty(), &statistics.histogram[..]) {
        (true, _) => 1.0,
        (false, []) => MATCH,
        (false, histogram) => {
            let of = |text: String| below(histogram, &Datum::text(text)).unwrap_or_default();
            of(format!("{prefix}{}", char::MAX)) - of(prefix.clone())
        }
    };
    let guess = begins * rest_of_pattern(pattern, &prefix);
    let of_rest = (weight * seen + (1.0 - weight) * guess).clamp(1e-4, 0.9999);
    let common = statistics.common.iter().filter(|(value, _)| matches(value));
    let common: f64 = common.map(|(_, fraction)| f64::from(*fraction)).sum();
    let rest = (1.0 - f64::from(statistics.null_fraction) - common_fraction(statistics)).clamp(0.0, 1.0);
    (common + rest * of_rest).clamp(0.0, 1.0)
}

/// Returns the selectivity of what follows the prefix of a pattern.
fn rest_of_pattern(pattern: &str, prefix: &str) -> f64 {
    /// The selectivity of a fixed character.
    const CHARACTER: f64 = 0.2;
    /// The selectivity of `_`.
    const ANY_CHARACTER: f64 = 0.9;
    /// The factor of `%`.
    const WILDCARD: f64 = 5.0;
    let rest: String = pattern.chars().skip(prefix.chars().count()).collect();
    let product = rest.trim_start_matches('%').chars().fold(1.0, |selectivity: f64, c| match c {
        '%' => selectivity * WILDCARD,
        '_' => selectivity * ANY_CHARACTER,
        _ => selectivity * CHARACTER,
    });
    product.min(1.0)
}

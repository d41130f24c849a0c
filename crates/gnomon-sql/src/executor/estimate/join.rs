//! Selectivities of equality between columns, and numbers of groups.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{ColumnEstimate, value::common_fraction};
use crate::types::compare::compare;

/// Returns the selectivity of the equality of two columns over the pairs of their rows.
pub fn equal_columns(a: &ColumnEstimate, b: &ColumnEstimate) -> f64 {
    let (a_present, b_present) = (1.0 - a.null_fraction(), 1.0 - b.null_fraction());
    let (a_distinct, b_distinct) = (a.distinct_values(), b.distinct_values());
    let by_distinct = a_present * b_present / a_distinct.max(b_distinct);
    let (Some(a_known), Some(b_known)) = (a.statistics(), b.statistics()) else { return by_distinct };
    if a_known.common.is_empty() || b_known.common.is_empty() {
        return by_distinct;
    }
    // Pairs of common values are told exactly; what is left of either side meets the other's values evenly.
    let mut matched = 0.0;
    let (mut a_matched, mut b_matched, mut pairs) = (0.0, 0.0, 0.0);
    for (value, a_fraction) in &a_known.common {
        let same = b_known.common.iter().find(|(other, _)| compare(value, other) == Ordering::Equal);
        if let Some((_, b_fraction)) = same {
            matched += f64::from(*a_fraction) * f64::from(*b_fraction);
            a_matched += f64::from(*a_fraction);
            b_matched += f64::from(*b_fraction);
            pairs += 1.0;
        }
    }
    let rest = |known, present: f64| (present - common_fraction(known)).clamp(0.0, 1.0);
    let (a_rest, b_rest) = (rest(a_known, a_present), rest(b_known, b_present));
    let a_unmatched = (common_fraction(a_known) - a_matched).clamp(0.0, 1.0);
    let b_unmatched = (common_fraction(b_known) - b_matched).clamp(0.0, 1.0);
    let (a_common, b_common) = (a_known.common.len() as f64, b_known.common.len() as f64);
    let total =
        |own: f64, own_rest: f64, other_distinct: f64, other_common: f64, other_rest: f64, other: f64| {
            let mut sum = matched;
            if other_distinct > other_common {
                sum += own * other_rest / (other_distinct - other_common);
            }
            if other_distinct > pairs {
                sum += own_rest * (other_rest + other) / (other_distinct - pairs);
            }
            sum
        };
    let by_a = total(a_unmatched, a_rest, b_distinct, b_common, b_rest, b_unmatched);
    let by_b = total(b_unmatched, b_rest, a_distinct, a_common, a_rest, a_unmatched);
    by_a.min(by_b).clamp(0.0, 1.0)
}

/// Returns how many groups rows fall into by the values of columns. Columns of one table depend on each other: their
/// groups are not more than a tenth of its rows where there are several.
pub fn groups<'c>(columns: impl Iterator<Item = Option<&'c ColumnEstimate>>, rows: f64) -> f64 {
    const OF_EXPRESSION: f64 = 200.0;
    const DEPENDENT: f64 = 0.1;
    let mut by_table: BTreeMap<u32, Vec<&ColumnEstimate>> = BTreeMap::new();
    let mut groups = 1.0;
    for column in columns {
        match column {
            Some(column) => match column.table() {
                Some(table) => by_table.entry(table.oid).or_default().push(column),
                None => groups *= column.distinct_values(),
            },
            None => groups *= OF_EXPRESSION,
        }
    }
    for columns in by_table.values() {
        let base = columns.iter().map(|column| column.base_rows).fold(1.0, f64::max);
        let product: f64 = columns.iter().map(|column| column.distinct_values()).product();
        let most = columns.iter().map(|column| column.distinct_values()).fold(1.0, f64::max);
        let limit = if columns.len() > 1 { (base * DEPENDENT).max(most) } else { base };
        let mut distinct = product.min(limit);
        // Of some of the table's rows: how many of its values are met.
        if rows < base && base > 0.0 {
            distinct *= 1.0 - ((base - rows) / base).powf(base / distinct.max(1.0));
        }
        groups *= distinct.max(1.0);
    }
    groups.min(rows).max(1.0).ceil()
}

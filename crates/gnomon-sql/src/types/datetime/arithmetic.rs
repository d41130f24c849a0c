//! Arithmetic of dates, timestamps and intervals.

use super::DAY;
use crate::types::Interval;

/// The length that comparison takes: a month has 30 days, a day 24 hours. In microseconds.
pub fn interval_span(interval: Interval) -> i128 {
    (i128::from(interval.months) * 30 + i128::from(interval.days)) * i128::from(DAY)
        + i128::from(interval.micros)
}

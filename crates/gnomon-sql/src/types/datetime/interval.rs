//! Intervals: writing the style "postgres", and the field restrictions of `interval year to month` and its like.

use std::ops::BitOr;

use super::{HOUR, MINUTE, output::write_fraction, split_clock};
use crate::types::{Interval, TypeMod};

/// The fields that an interval type keeps, as bits of its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalRange(i32);

impl IntervalRange {
    /// All of them: plain `interval`.
    pub const ALL: IntervalRange = IntervalRange(0x7fff);
    /// `month`
    pub const MONTH: IntervalRange = IntervalRange(1 << 1);
    /// `year`
    pub const YEAR: IntervalRange = IntervalRange(1 << 2);
    /// `day`
    pub const DAY: IntervalRange = IntervalRange(1 << 3);
    /// `hour`
    pub const HOUR: IntervalRange = IntervalRange(1 << 10);
    /// `minute`
    pub const MINUTE: IntervalRange = IntervalRange(1 << 11);
    /// `second`
    pub const SECOND: IntervalRange = IntervalRange(1 << 12);

    const PRECISION_FULL: i32 = 0xffff;

    /// The modifier for these fields and this many fractional digits of seconds.
    pub fn modifier(self, precision: Option<u8>) -> TypeMod {
        match precision {
            None if self == IntervalRange::ALL => -1,
            precision => (self.0 << 16) | precision.map_or(Self::PRECISION_FULL, i32::from),
        }
    }

    /// The fields and precision of a modifier.
    pub fn from_modifier(modifier: TypeMod) -> (IntervalRange, Option<u8>) {
        if modifier < 0 {
            return (IntervalRange::ALL, None);
        }
        let precision = modifier & 0xffff;
        (IntervalRange((modifier >> 16) & 0x7fff), u8::try_from(precision).ok().filter(|p| *p <= 6))
    }

    pub(super) fn has(self, field: IntervalRange) -> bool {
        self.0 & field.0 != 0
    }

    /// ` year to month` and its like; nothing for all fields.
    pub fn sql_name(self) -> &'static str {
        let (year, month, day, hour, minute, second) =
            (Self::YEAR, Self::MONTH, Self::DAY, Self::HOUR, Self::MINUTE, Self::SECOND);
        let known = [
            (year, " year"),
            (month, " month"),
            (day, " day"),
            (hour, " hour"),
            (minute, " minute"),
            (second, " second"),
            (year | month, " year to month"),
            (day | hour, " day to hour"),
            (day | hour | minute, " day to minute"),
            (day | hour | minute | second, " day to second"),
            (hour | minute, " hour to minute"),
            (hour | minute | second, " hour to second"),
            (minute | second, " minute to second"),
        ];
        known.iter().find(|(range, _)| *range == self).map_or("", |(_, name)| name)
    }

    /// Drops what lies below the smallest field and rounds seconds.
    pub fn restrict(modifier: TypeMod, interval: Interval) -> Interval {
        let (range, precision) = Self::from_modifier(modifier);
        let mut out = interval;
        if range != Self::ALL && !range.has(Self::SECOND) {
            let unit = if range.has(Self::MINUTE) {
                MINUTE
            } else if range.has(Self::HOUR) {
                HOUR
            } else {
                out.micros = 0;
                1
            };
            out.micros = out.micros / unit * unit;
            if !range.has(Self::MINUTE) && !range.has(Self::HOUR) && !range.has(Self::DAY) {
                out.days = 0;
                if !range.has(Self::MONTH) {
                    out.months = out.months / 12 * 12;
                }
            }
        }
        out.micros = super::round_to_precision(out.micros, precision.map(i32::from));
        out
    }
}

impl BitOr for IntervalRange {
    type Output = IntervalRange;
    fn bitor(self, other: IntervalRange) -> IntervalRange {
        IntervalRange(self.0 | other.0)
    }
}

/// Writes an interval in the style "postgres".
pub fn write_interval(out: &mut String, interval: Interval) {
    let start = out.len();
    // A positive field after a negative one shows its sign.
    let mut before_negative = false;
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (value, name) in [(years, "year"), (months, "mon"), (interval.days, "day")] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(' ');
        }
        let sign = if before_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        out.push_str(&format!("{sign}{value} {name}{plural}"));
        before_negative = value < 0;
    }
    if interval.micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(' ');
        }
        if interval.micros < 0 {
            out.push('-');
        } else if before_negative {
            out.push('+');
        }
        // i64::MIN has no positive counterpart; its parts do.
        let (hour, minute, second, micro) = split_clock(interval.micros);
        let [hour, minute, second, micro] = [hour, minute, second, micro].map(i64::abs);
        out.push_str(&format!("{hour:02}:{minute:02}:{second:02}"));
        write_fraction(out, micro);
    }
}

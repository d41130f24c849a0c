//! Intervals: their text in each style, and the field restrictions of `interval year to month` and its like.

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

/// The text form of intervals: the setting IntervalStyle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days ago`
    PostgresVerbose,
    /// `1-2`, `3 4:05:06`. In input a sign before the first field is that of all, if no other field has one.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    /// The values of the setting.
    pub const NAMES: &'static [&'static str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

    /// Returns the style of a value of the setting, the default one for what is none.
    pub fn named(name: &str) -> IntervalStyle {
        match name {
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        }
    }
}

/// The fields of an interval, each with its sign.
struct Fields {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Fields {
    fn of(interval: Interval) -> Fields {
        let (hours, minutes, seconds, micros) = split_clock(interval.micros);
        let (years, months) = (interval.months / 12, interval.months % 12);
        Fields { years, months, days: interval.days, hours, minutes, seconds, micros }
    }

    /// The numbers before the seconds, the largest unit first.
    fn whole(&self) -> [i64; 5] {
        [self.years.into(), self.months.into(), self.days.into(), self.hours, self.minutes]
    }

    fn has_seconds(&self) -> bool {
        self.seconds != 0 || self.micros != 0
    }

    fn is_seconds_negative(&self) -> bool {
        self.seconds < 0 || self.micros < 0
    }

    /// Writes the absolute value of the seconds, with at least so many digits before the point.
    fn write_seconds(&self, out: &mut String, digits: usize) {
        out.push_str(&format!("{:0digits$}", self.seconds.abs()));
        write_fraction(out, self.micros.abs());
    }
}

/// Writes an interval in a style.
pub fn write_interval(out: &mut String, interval: Interval, style: IntervalStyle) {
    let fields = Fields::of(interval);
    match style {
        IntervalStyle::Postgres => write_postgres(out, interval, &fields),
        IntervalStyle::PostgresVerbose => write_verbose(out, &fields),
        IntervalStyle::SqlStandard => write_sql_standard(out, interval, &fields),
        IntervalStyle::Iso8601 => write_iso_8601(out, &fields),
    }
}

fn write_postgres(out: &mut String, interval: Interval, fields: &Fields) {
    let start = out.len();
    // A positive field after a negative one shows its sign.
    let mut before_negative = false;
    for (value, name) in [(fields.years, "year"), (fields.months, "mon"), (fields.days, "day")] {
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
        out.push_str(&format!("{:02}:{:02}:", fields.hours.abs(), fields.minutes.abs()));
        fields.write_seconds(out, 2);
    }
}

/// Writes fields with the sign of the first one turned into `ago`, which turns the signs of the others.
fn write_verbose(out: &mut String, fields: &Fields) {
    out.push('@');
    let mut is_ago = None;
    let names = ["year", "mon", "day", "hour", "min"];
    for (value, name) in fields.whole().into_iter().zip(names).filter(|(value, _)| *value != 0) {
        let shown = if *is_ago.get_or_insert(value < 0) { -value } else { value };
        let plural = if shown == 1 { "" } else { "s" };
        out.push_str(&format!(" {shown} {name}{plural}"));
    }
    if fields.has_seconds() {
        let is_negative = fields.is_seconds_negative();
        out.push(' ');
        if is_negative != *is_ago.get_or_insert(is_negative) {
            out.push('-');
        }
        fields.write_seconds(out, 1);
        let plural = if fields.seconds.abs() == 1 && fields.micros == 0 { "" } else { "s" };
        out.push_str(&format!(" sec{plural}"));
    }
    match is_ago {
        None => out.push_str(" 0"),
        Some(true) => out.push_str(" ago"),
        Some(false) => {}
    }
}

/// Writes years and months, or days and a time, with one sign; what SQL has no form for with all fields and their signs.
fn write_sql_standard(out: &mut String, interval: Interval, fields: &Fields) {
    let parts = [i64::from(interval.months), i64::from(interval.days), interval.micros];
    let has_negative = parts.iter().any(|part| *part < 0);
    let has_positive = parts.iter().any(|part| *part > 0);
    let [has_months, has_days, has_time] = parts.map(|part| part != 0);
    let sign = |part: i64| if part < 0 { '-' } else { '+' };
    let Fields { years, months, days, hours, minutes, .. } = fields;
    let [years, months, days] = [years, months, days].map(|field| field.unsigned_abs());
    let [hours, minutes] = [hours, minutes].map(|field| field.unsigned_abs());
    if !has_negative && !has_positive {
        out.push('0');
        return;
    }
    if has_negative && has_positive || has_months && (has_days || has_time) {
        let [month_sign, day_sign, time_sign] = parts.map(sign);
        out.push_str(&format!(
            "{month_sign}{years}-{months} {day_sign}{days} {time_sign}{hours}:{minutes:02}:"
        ));
        fields.write_seconds(out, 2);
        return;
    }
    if has_negative {
        out.push('-');
    }
    if has_months {
        out.push_str(&format!("{years}-{months}"));
        return;
    }
    if has_days {
        out.push_str(&format!("{days} "));
    }
    out.push_str(&format!("{hours}:{minutes:02}:"));
    fields.write_seconds(out, 2);
}

fn write_iso_8601(out: &mut String, fields: &Fields) {
    let [years, months, days, hours, minutes] = fields.whole();
    let date = [(years, 'Y'), (months, 'M'), (days, 'D')];
    let time = [(hours, 'H'), (minutes, 'M')];
    let is_zero = |parts: &[(i64, char)]| parts.iter().all(|(value, _)| *value == 0);
    let has_time = !is_zero(&time) || fields.has_seconds();
    if is_zero(&date) && !has_time {
        out.push_str("PT0S");
        return;
    }
    let write = |out: &mut String, parts: &[(i64, char)]| {
        for (value, unit) in parts.iter().filter(|(value, _)| *value != 0) {
            out.push_str(&format!("{value}{unit}"));
        }
    };
    out.push('P');
    write(out, &date);
    if has_time {
        out.push('T');
        write(out, &time);
    }
    if fields.has_seconds() {
        if fields.is_seconds_negative() {
            out.push('-');
        }
        fields.write_seconds(out, 1);
        out.push('S');
    }
}

//! Intervals: reading PostgreSQL's verbose, ISO 8601 and SQL forms, writing the style "postgres", and the field
//! restrictions of `interval year to month` and its like.

use std::ops::BitOr;

use super::{DAY, HOUR, MINUTE, SECOND, output::write_fraction, parse::malformed, split_clock};
use crate::{
    Result, SqlError, SqlState,
    types::{Interval, TypeMod},
};

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

    fn has(self, field: IntervalRange) -> bool {
        self.0 & field.0 != 0
    }

    /// The unit of the smallest field, in which a bare number counts.
    fn unit(self) -> Unit {
        if self == IntervalRange::ALL || self.has(IntervalRange::SECOND) {
            Unit::Micros(SECOND)
        } else if self.has(IntervalRange::MINUTE) {
            Unit::Micros(MINUTE)
        } else if self.has(IntervalRange::HOUR) {
            Unit::Micros(HOUR)
        } else if self.has(IntervalRange::DAY) {
            Unit::Days(1)
        } else if self.has(IntervalRange::MONTH) {
            Unit::Months(1)
        } else {
            Unit::Months(12)
        }
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

#[derive(Clone, Copy)]
enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit(name: &str) -> Option<Unit> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "us" | "usec" | "usecs" | "useconds" | "usecond" | "microsecon" | "microsecond" | "microseconds" => {
            Unit::Micros(1)
        }
        "ms" | "msec" | "msecs" | "mseconds" | "msecond" | "millisecon" | "millisecond" | "milliseconds" => {
            Unit::Micros(1_000)
        }
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Micros(SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Micros(MINUTE),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Micros(HOUR),
        "d" | "day" | "days" => Unit::Days(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "qtr" | "quarter" | "quarters" => Unit::Months(3),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1_200),
        "mil" | "mils" | "millennia" | "millennium" => Unit::Months(12_000),
        _ => return None,
    })
}

/// Sums in wide integers; the range is checked once at the end.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

impl Sum {
    /// Adds `whole` and `fraction` (below one) units; the fraction spills into smaller ones, a month having 30 days.
    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) {
        let whole = i128::from(whole);
        match unit {
            Unit::Months(months) => {
                self.months += whole * i128::from(months);
                let part = fraction * months as f64;
                if months > 1 {
                    // Parts of a year and above count in whole months.
                    self.months += part.round_ties_even() as i128;
                } else {
                    let days = part * 30.0;
                    self.days += days.trunc() as i128;
                    self.micros += (days.fract() * DAY as f64).round_ties_even() as i128;
                }
            }
            Unit::Days(days) => {
                self.days += whole * i128::from(days);
                let part = fraction * days as f64;
                self.days += part.trunc() as i128;
                self.micros += (part.fract() * DAY as f64).round_ties_even() as i128;
            }
            Unit::Micros(micros) => {
                self.micros +=
                    whole * i128::from(micros) + (fraction * micros as f64).round_ties_even() as i128;
            }
        }
    }

    fn finish(self, negate: bool) -> Option<Interval> {
        let sign = if negate { -1 } else { 1 };
        Some(Interval {
            months: i32::try_from(self.months * sign).ok()?,
            days: i32::try_from(self.days * sign).ok()?,
            micros: i64::try_from(self.micros * sign).ok()?,
        })
    }
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
}

/// Splits a number into its whole part and its fraction, both with its sign.
fn number(text: &str) -> Option<(i64, f64)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty()
        || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    Some(if negative { (-whole, -fraction) } else { (whole, fraction) })
}

/// Reads an interval of the type with this modifier (-1 for plain `interval`).
///
/// # Errors
/// 22007 for what is none, 22015 for a field out of range.
pub fn parse_interval(text: &str, modifier: TypeMod) -> Result<Interval> {
    let (range, _) = IntervalRange::from_modifier(modifier);
    let trimmed = text.trim();
    let parsed = if trimmed.trim_start_matches(['-', '+']).starts_with('P') {
        parse_iso(trimmed)
    } else {
        parse_verbose(trimmed, range)
    };
    match parsed {
        Parsed::Interval(interval) => Ok(IntervalRange::restrict(modifier, interval)),
        Parsed::Malformed => Err(malformed("interval", text)),
        Parsed::Overflow => Err(out_of_range(text)),
    }
}

enum Parsed {
    Interval(Interval),
    Malformed,
    Overflow,
}

/// `1 year 2 mons -3 days 04:05:06 ago`, `@ 5 minutes`, `1-2`, `3 4:05`.
fn parse_verbose(text: &str, range: IntervalRange) -> Parsed {
    let mut sum = Sum::default();
    let mut ago = false;
    let mut seen = false;
    let words = words(text);
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        if ago {
            return Parsed::Malformed;
        }
        if word == "@" {
            continue;
        }
        if word.eq_ignore_ascii_case("ago") {
            if !seen {
                return Parsed::Malformed;
            }
            ago = true;
            continue;
        }
        seen = true;
        if word.contains(':') {
            let Some(micros) = clock(word, range) else { return Parsed::Malformed };
            let Some(micros) = micros else { return Parsed::Overflow };
            sum.micros += i128::from(micros);
            continue;
        }
        // Years and months of SQL: 1-2.
        if let Some((years, months)) = word.trim_start_matches(['+', '-']).split_once('-') {
            let (Ok(years), Ok(months)) = (years.parse::<i64>(), months.parse::<i64>()) else {
                return Parsed::Malformed;
            };
            if months >= 12 {
                return Parsed::Overflow;
            }
            let sign = if word.starts_with('-') { -1 } else { 1 };
            sum.months += i128::from(sign) * (i128::from(years) * 12 + i128::from(months));
            continue;
        }
        let Some((whole, fraction)) = number(word) else {
            let digits = word.trim_start_matches(['+', '-']);
            return if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                Parsed::Overflow
            } else {
                Parsed::Malformed
            };
        };
        let followed_by_unit = words.peek().and_then(|next| unit(next));
        match followed_by_unit {
            Some(unit) => {
                words.next();
                sum.add(whole, fraction, unit);
            }
            // Days before a time of day, as in SQL: 3 4:05.
            None if words.peek().is_some_and(|next| next.contains(':')) => {
                sum.add(whole, fraction, Unit::Days(1));
            }
            None if words.peek().is_some_and(|next| !next.eq_ignore_ascii_case("ago")) => {
                return Parsed::Malformed;
            }
            None => sum.add(whole, fraction, range.unit()),
        }
    }
    if !seen {
        return Parsed::Malformed;
    }
    sum.finish(ago).map_or(Parsed::Overflow, Parsed::Interval)
}

/// Cuts at blanks, and between a number and its unit.
fn words(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for chunk in text.split_whitespace() {
        let mut rest = chunk;
        while !rest.is_empty() {
            let numeric = rest.starts_with(|c: char| !c.is_ascii_alphabetic());
            let end = rest.find(|c: char| c.is_ascii_alphabetic() == numeric).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            out.push(word);
            rest = tail;
        }
    }
    out
}

/// `[-]hh:mm[:ss[.fff]]`. Outer none: malformed; inner none: out of range.
#[allow(clippy::option_option, reason = "two ways to fail, told apart by the caller")]
fn clock(text: &str, range: IntervalRange) -> Option<Option<i64>> {
    let negative = text.starts_with('-');
    let parts: Vec<&str> = text.trim_start_matches(['+', '-']).split(':').collect();
    let minutes_first =
        range == (IntervalRange::MINUTE | IntervalRange::SECOND) || parts.last()?.contains('.');
    let (hours, minutes, seconds) = match parts.as_slice() {
        [minutes, seconds] if minutes_first => ("0", *minutes, *seconds),
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (second, fraction) = number(seconds)?;
    let micros = (fraction * SECOND as f64).round_ties_even() as i64;
    let (Ok(hours), Ok(minutes)) = (hours.parse::<i64>(), minutes.parse::<i64>()) else { return Some(None) };
    if minutes > 59 || !(0..=60).contains(&second) {
        return Some(None);
    }
    let total = hours
        .checked_mul(HOUR)
        .and_then(|total| total.checked_add(minutes * MINUTE + second * SECOND + micros));
    Some(total.map(|total| if negative { -total } else { total }))
}

/// `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`.
fn parse_iso(text: &str) -> Parsed {
    let negative = text.starts_with('-');
    let Some(body) = text.trim_start_matches(['-', '+']).strip_prefix('P') else { return Parsed::Malformed };
    let (date, time) = match body.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (body, None),
    };
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Parsed::Malformed;
    }
    let mut sum = Sum::default();
    for (mut rest, is_time) in [(date, false), (time.unwrap_or_default(), true)] {
        if is_time && rest.contains(':') {
            match clock(rest, IntervalRange::ALL) {
                Some(Some(micros)) => sum.micros += i128::from(micros),
                Some(None) => return Parsed::Overflow,
                None => return Parsed::Malformed,
            }
            continue;
        }
        if !is_time && !rest.ends_with(|c: char| c.is_ascii_alphabetic()) && rest.contains('-') {
            let parts: Vec<i64> = rest.split('-').filter_map(|part| part.parse().ok()).collect();
            let [years, months, days] = parts.as_slice() else { return Parsed::Malformed };
            sum.months += i128::from(*years) * 12 + i128::from(*months);
            sum.days += i128::from(*days);
            continue;
        }
        while !rest.is_empty() {
            let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { return Parsed::Malformed };
            let Some((whole, fraction)) = rest.get(..end).and_then(number) else { return Parsed::Malformed };
            let unit = match (rest.get(end..end + 1), is_time) {
                (Some("Y"), false) => Unit::Months(12),
                (Some("M"), false) => Unit::Months(1),
                (Some("W"), false) => Unit::Days(7),
                (Some("D"), false) => Unit::Days(1),
                (Some("H"), true) => Unit::Micros(HOUR),
                (Some("M"), true) => Unit::Micros(MINUTE),
                (Some("S"), true) => Unit::Micros(SECOND),
                _ => return Parsed::Malformed,
            };
            sum.add(whole, fraction, unit);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }
    sum.finish(negative).map_or(Parsed::Overflow, Parsed::Interval)
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

//! Arithmetic of dates, timestamps and intervals.

use super::{
    Civil, DAY, HOUR, MINUTE, SECOND, Zone, date_out_of_range, is_date, is_timestamp, month_days,
    timestamp_out_of_range,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Interval, numeric::division_by_zero},
};

fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// True if a timestamp is one of the infinities.
pub fn is_infinite(timestamp: i64) -> bool {
    timestamp == i64::MIN || timestamp == i64::MAX
}

/// The length that comparison takes: a month has 30 days, a day 24 hours. In microseconds.
pub fn interval_span(interval: Interval) -> i128 {
    (i128::from(interval.months) * 30 + i128::from(interval.days)) * i128::from(DAY)
        + i128::from(interval.micros)
}

/// The sum of two intervals, field by field.
///
/// # Errors
/// 22008 on overflow.
pub fn interval_add(a: Interval, b: Interval) -> Result<Interval> {
    let sum = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            micros: a.micros.checked_add(b.micros)?,
        })
    };
    sum().ok_or_else(interval_out_of_range)
}

/// The interval with the opposite sign.
///
/// # Errors
/// 22008 on overflow.
pub fn interval_negate(a: Interval) -> Result<Interval> {
    let negated = || {
        Some(Interval {
            months: a.months.checked_neg()?,
            days: a.days.checked_neg()?,
            micros: a.micros.checked_neg()?,
        })
    };
    negated().ok_or_else(interval_out_of_range)
}

/// The interval `factor` times; fractions of months become days of a 30-day month, fractions of days time.
///
/// # Errors
/// 22008 on overflow.
pub fn interval_multiply(a: Interval, factor: f64) -> Result<Interval> {
    scale_interval(a, |field| field * factor)
}

/// The interval divided.
///
/// # Errors
/// 22012 for a divisor of 0, 22008 on overflow.
pub fn interval_divide(a: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(division_by_zero());
    }
    scale_interval(a, |field| field / divisor)
}

/// Rounds to microseconds, which removes noise of the fractions that spill down.
fn to_micro_precision(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn scale_interval(a: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    let to_i32 = |value: f64| {
        if value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX) {
            Ok(value as i32)
        } else {
            Err(interval_out_of_range())
        }
    };
    let months = scale(f64::from(a.months));
    let days = scale(f64::from(a.days));
    let whole_months = to_i32(months.trunc())?;
    let mut whole_days = to_i32(days.trunc())?;
    // Fractions of months count as days, those of days as seconds.
    let month_remainder_days = to_micro_precision((months - months.trunc()) * 30.0);
    let mut second_remainder =
        (days - days.trunc() + month_remainder_days - month_remainder_days.trunc()) * 86_400.0;
    second_remainder = to_micro_precision(second_remainder);
    if second_remainder.abs() >= 86_400.0 {
        let carried = (second_remainder / 86_400.0).trunc();
        whole_days = whole_days.checked_add(carried as i32).ok_or_else(interval_out_of_range)?;
        second_remainder -= carried * 86_400.0;
    }
    whole_days =
        whole_days.checked_add(month_remainder_days.trunc() as i32).ok_or_else(interval_out_of_range)?;
    let micros = (scale(a.micros as f64) + second_remainder * 1e6).round_ties_even();
    if !(-9.223_372_036_854_775e18..=9.223_372_036_854_775e18).contains(&micros) {
        return Err(interval_out_of_range());
    }
    Ok(Interval { months: whole_months, days: whole_days, micros: micros as i64 })
}

/// Hours beyond a day become days: `justify_hours()`.
///
/// # Errors
/// 22008 on overflow.
pub fn justify_hours(a: Interval) -> Result<Interval> {
    let mut days = i64::from(a.days) + a.micros / DAY;
    let mut micros = a.micros % DAY;
    if days > 0 && micros < 0 {
        micros += DAY;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= DAY;
        days += 1;
    }
    Ok(Interval { months: a.months, days: i32::try_from(days).map_err(|_| interval_out_of_range())?, micros })
}

/// Days beyond 30 become months: `justify_days()`.
///
/// # Errors
/// 22008 on overflow.
pub fn justify_days(a: Interval) -> Result<Interval> {
    let mut months = i64::from(a.months) + i64::from(a.days / 30);
    let mut days = a.days % 30;
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    Ok(Interval {
        months: i32::try_from(months).map_err(|_| interval_out_of_range())?,
        days,
        micros: a.micros,
    })
}

/// Both, and one sign throughout: `justify_interval()`.
///
/// # Errors
/// 22008 on overflow.
pub fn justify_interval(a: Interval) -> Result<Interval> {
    let mut days = i64::from(a.days) + a.micros / DAY;
    let mut micros = a.micros % DAY;
    let mut months = i64::from(a.months) + days / 30;
    days %= 30;
    if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
        days -= 30;
        months += 1;
    }
    if days > 0 && micros < 0 {
        micros += DAY;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= DAY;
        days += 1;
    }
    Ok(Interval {
        months: i32::try_from(months).map_err(|_| interval_out_of_range())?,
        days: days as i32,
        micros,
    })
}

fn add_months_and_days(timestamp: i64, interval: Interval) -> Result<i64> {
    let mut civil = Civil::of_timestamp(timestamp);
    if interval.months != 0 {
        let month = i64::from(civil.year) * 12 + i64::from(civil.month) - 1 + i64::from(interval.months);
        civil.year = i32::try_from(month.div_euclid(12)).map_err(|_| timestamp_out_of_range())?;
        civil.month = month.rem_euclid(12) as i32 + 1;
        // The last day of a shorter month stands for what it lacks.
        civil.day = civil.day.min(month_days(civil.year, civil.month));
    }
    (civil.days() + i64::from(interval.days))
        .checked_mul(DAY)
        .and_then(|t| t.checked_add(civil.micros))
        .ok_or_else(timestamp_out_of_range)
}

fn checked(timestamp: Option<i64>) -> Result<i64> {
    timestamp.filter(|t| is_timestamp(*t)).ok_or_else(timestamp_out_of_range)
}

/// A timestamp after an interval: months first, then days, then the time.
///
/// # Errors
/// 22008 out of range.
pub fn timestamp_add(timestamp: i64, interval: Interval) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    checked(add_months_and_days(timestamp, interval)?.checked_add(interval.micros))
}

/// An instant after an interval: months and days by the zone's calendar, the time by the clock.
///
/// # Errors
/// 22008 out of range.
pub fn timestamptz_add(timestamptz: i64, interval: Interval, zone: &Zone) -> Result<i64> {
    if is_infinite(timestamptz) {
        return Ok(timestamptz);
    }
    let moved = if interval.months != 0 || interval.days != 0 {
        zone.to_utc(checked(Some(add_months_and_days(zone.to_local(timestamptz), interval)?))?)
    } else {
        timestamptz
    };
    checked(moved.checked_add(interval.micros))
}

/// The days and time between two timestamps.
///
/// # Errors
/// 22008 for an infinite one, or on overflow.
pub fn timestamp_sub(a: i64, b: i64) -> Result<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    justify_hours(Interval { months: 0, days: 0, micros })
}

/// A date so many days later.
///
/// # Errors
/// 22008 out of range.
pub fn date_add(date: i32, days: i64) -> Result<i32> {
    if date == i32::MIN || date == i32::MAX {
        return Ok(date);
    }
    let sum = i64::from(date) + days;
    if is_date(sum) { i32::try_from(sum).map_err(|_| date_out_of_range()) } else { Err(date_out_of_range()) }
}

/// The days between two dates.
///
/// # Errors
/// 22008 for an infinite one.
pub fn date_sub(a: i32, b: i32) -> Result<i32> {
    if [a, b].iter().any(|date| *date == i32::MIN || *date == i32::MAX) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
    }
    a.checked_sub(b).ok_or_else(date_out_of_range)
}

/// Years, months, days and time between two local timestamps: `age()`.
///
/// # Errors
/// 22008 for an infinite one.
pub fn age(a: i64, b: i64) -> Result<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(timestamp_out_of_range());
    }
    let (first, second) = (Civil::of_timestamp(a), Civil::of_timestamp(b));
    let negative = a < b;
    let (late, early) = if negative { (second, first) } else { (first, second) };
    let mut micros = late.micros - early.micros;
    let mut days = late.day - early.day;
    let mut months = i64::from(late.year - early.year) * 12 + i64::from(late.month - early.month);
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    // A borrowed month is as long as the month of the earlier one.
    while days < 0 {
        days += month_days(early.year, early.month);
        months -= 1;
    }
    let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
    let interval = Interval { months, days, micros };
    if negative { interval_negate(interval) } else { Ok(interval) }
}

/// A unit of `date_trunc` and `extract`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's own field names")]
pub enum DateField {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Dow,
    Isodow,
    Doy,
    Isoyear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

/// The letters of a field's name that count.
const NAME_LETTERS: usize = 10;

impl DateField {
    /// The field of this name, in any of its spellings.
    pub fn parse(name: &str) -> Option<DateField> {
        let lower = name.to_ascii_lowercase();
        // Only so many letters of a name count.
        let counting = lower.char_indices().nth(NAME_LETTERS).map_or(&*lower, |(end, _)| &lower[..end]);
        Some(match counting {
            "microsecon" | "us" | "usecond" | "useconds" | "usec" | "usecs" => DateField::Microseconds,
            "millisecon" | "ms" | "msecond" | "mseconds" | "msec" | "msecs" => DateField::Milliseconds,
            "second" | "seconds" | "sec" | "secs" | "s" => DateField::Second,
            "minute" | "minutes" | "min" | "mins" | "m" => DateField::Minute,
            "hour" | "hours" | "hr" | "hrs" | "h" => DateField::Hour,
            "day" | "days" | "d" => DateField::Day,
            "week" | "weeks" | "w" => DateField::Week,
            "month" | "months" | "mon" | "mons" => DateField::Month,
            "quarter" | "qtr" => DateField::Quarter,
            "year" | "years" | "yr" | "yrs" | "y" => DateField::Year,
            "decade" | "decades" | "dec" | "decs" => DateField::Decade,
            "century" | "centuries" | "cent" | "c" => DateField::Century,
            "millennium" | "millennia" | "mil" | "mils" => DateField::Millennium,
            "dow" => DateField::Dow,
            "isodow" => DateField::Isodow,
            "doy" => DateField::Doy,
            "isoyear" => DateField::Isoyear,
            "julian" | "jd" | "j" => DateField::Julian,
            "epoch" => DateField::Epoch,
            "timezone" => DateField::Timezone,
            "timezone_h" => DateField::TimezoneHour,
            "timezone_m" => DateField::TimezoneMinute,
            _ => return None,
        })
    }
}

/// A finite local timestamp cut to a unit; none for a unit that cuts nothing.
pub fn truncate(timestamp: i64, field: DateField) -> Option<i64> {
    let mut civil = Civil::of_timestamp(timestamp);
    let unit = match field {
        DateField::Microseconds => 1,
        DateField::Milliseconds => 1_000,
        DateField::Second => SECOND,
        DateField::Minute => MINUTE,
        DateField::Hour => HOUR,
        _ => DAY,
    };
    civil.micros -= civil.micros % unit;
    match field {
        DateField::Microseconds
        | DateField::Milliseconds
        | DateField::Second
        | DateField::Minute
        | DateField::Hour
        | DateField::Day => {}
        DateField::Week => {
            let days = civil.days();
            return Some((days - (days + 5).rem_euclid(7)) * DAY);
        }
        DateField::Month => civil.day = 1,
        DateField::Quarter => (civil.month, civil.day) = ((civil.month - 1) / 3 * 3 + 1, 1),
        DateField::Year => (civil.month, civil.day) = (1, 1),
        DateField::Decade => (civil.year, civil.month, civil.day) = (civil.year.div_euclid(10) * 10, 1, 1),
        // A century begins with its year 1.
        DateField::Century => {
            (civil.year, civil.month, civil.day) = ((civil.year - 1).div_euclid(100) * 100 + 1, 1, 1);
        }
        DateField::Millennium => {
            (civil.year, civil.month, civil.day) = ((civil.year - 1).div_euclid(1000) * 1000 + 1, 1, 1);
        }
        _ => return None,
    }
    Some(civil.days() * DAY + civil.micros)
}

/// An interval cut to a unit; none for a unit that cuts nothing.
pub fn truncate_interval(interval: Interval, field: DateField) -> Option<Interval> {
    let mut out = interval;
    let unit = match field {
        DateField::Microseconds => 1,
        DateField::Milliseconds => 1_000,
        DateField::Second => SECOND,
        DateField::Minute => MINUTE,
        DateField::Hour => HOUR,
        _ => {
            out.micros = 0;
            1
        }
    };
    out.micros -= out.micros % unit;
    let months = match field {
        DateField::Month => 1,
        DateField::Quarter => 3,
        DateField::Year => 12,
        DateField::Decade => 120,
        DateField::Century => 1_200,
        DateField::Millennium => 12_000,
        DateField::Microseconds
        | DateField::Milliseconds
        | DateField::Second
        | DateField::Minute
        | DateField::Hour
        | DateField::Day => return Some(out),
        _ => return None,
    };
    out.days = 0;
    out.months -= out.months % months;
    Some(out)
}

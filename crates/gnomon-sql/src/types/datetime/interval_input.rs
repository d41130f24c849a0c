//! Reading intervals: PostgreSQL's verbose form, that of SQL, and those of ISO 8601.
//!
//! The text is cut into fields as that of a date is. They are taken from the last to the first, since a unit stands
//! behind its number. A field that was given twice is refused. What is no such text may be one of ISO 8601.

use super::{
    DAY, HOUR, MINUTE, SECOND,
    interval::{IntervalRange, IntervalStyle},
    parse::{Field, FieldKind, malformed},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Interval, TypeMod},
};

/// The most characters that the fields of a text may have together.
const FIELDS_LENGTH_MAX: usize = 255;
/// Only so many letters of a unit's name count.
const UNIT_LETTERS: usize = 10;

/// Reads an interval of the type with this modifier (-1 for plain `interval`).
///
/// # Errors
/// 22007 for what is none, 22015 for a field out of range, 22008 for a result out of range.
pub fn parse_interval(text: &str, modifier: TypeMod, style: IntervalStyle) -> Result<Interval> {
    let (range, _) = IntervalRange::from_modifier(modifier);
    let lower = text.to_ascii_lowercase();
    let fields = Field::all(&lower, FIELDS_LENGTH_MAX).map_err(|_| Misfit::Format);
    let parsed = match fields.and_then(|fields| decode(&fields, range, style)) {
        Err(Misfit::Format) => decode_iso(text),
        parsed => parsed,
    };
    match parsed.map(Sum::finish) {
        Ok(Some(interval)) => Ok(IntervalRange::restrict(modifier, interval)),
        Ok(None) => Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")),
        Err(Misfit::Format) => Err(malformed("interval", text)),
        Err(Misfit::Overflow) => Err(SqlError::new(
            SqlState::INTERVAL_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        )),
    }
}

/// Why a text is no interval.
#[derive(Debug)]
enum Misfit {
    Format,
    Overflow,
}

type Fit<T> = Result<T, Misfit>;

/// The unit that a number counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// All parts of a second, as bits of the fields that were given.
const SECONDS: u16 = 1 << Unit::Microsecond as u16 | 1 << Unit::Millisecond as u16 | 1 << Unit::Second as u16;
/// A time of day, likewise.
const TIME: u16 = SECONDS | 1 << Unit::Minute as u16 | 1 << Unit::Hour as u16;

impl Unit {
    /// The unit of a name in lower case.
    fn named(word: &str) -> Option<Unit> {
        Some(match word.get(..UNIT_LETTERS).unwrap_or(word) {
            "us" | "usec" | "usecs" | "useconds" | "usecond" | "microsecon" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "mseconds" | "msecond" | "millisecon" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
            _ => return None,
        })
    }

    /// The unit of the smallest field of a type, in which a bare number counts.
    fn of_range(range: IntervalRange) -> Unit {
        let smallest = [
            (IntervalRange::SECOND, Unit::Second),
            (IntervalRange::MINUTE, Unit::Minute),
            (IntervalRange::HOUR, Unit::Hour),
            (IntervalRange::DAY, Unit::Day),
            (IntervalRange::MONTH, Unit::Month),
            (IntervalRange::YEAR, Unit::Year),
        ];
        smallest.into_iter().find(|(field, _)| range.has(*field)).map_or(Unit::Second, |(_, unit)| unit)
    }
}

/// The interval as far as it was read.
#[derive(Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Sum {
    fn add_years(&mut self, value: i64, scale: i32) -> Fit<()> {
        let value = i32::try_from(value).ok().and_then(|value| value.checked_mul(scale));
        self.years = value.and_then(|value| self.years.checked_add(value)).ok_or(Misfit::Overflow)?;
        Ok(())
    }

    fn add_months(&mut self, value: i64) -> Fit<()> {
        let value = i32::try_from(value).ok();
        self.months = value.and_then(|value| self.months.checked_add(value)).ok_or(Misfit::Overflow)?;
        Ok(())
    }

    fn add_days(&mut self, value: i64, scale: i32) -> Fit<()> {
        let value = i32::try_from(value).ok().and_then(|value| value.checked_mul(scale));
        self.days = value.and_then(|value| self.days.checked_add(value)).ok_or(Misfit::Overflow)?;
        Ok(())
    }

    fn add_micros(&mut self, value: i64, scale: i64) -> Fit<()> {
        let value = value.checked_mul(scale);
        self.micros = value.and_then(|value| self.micros.checked_add(value)).ok_or(Misfit::Overflow)?;
        Ok(())
    }

    /// Adds a part of a unit of so many microseconds.
    fn add_part(&mut self, fraction: f64, micros: i64) -> Fit<()> {
        let exact = fraction * micros as f64;
        let whole = exact as i64;
        let rest = exact - whole as f64;
        let rounded = if rest > 0.5 {
            whole + 1
        } else if rest < -0.5 {
            whole - 1
        } else {
            whole
        };
        self.add_micros(rounded, 1)
    }

    /// Adds a part of a unit of so many days.
    fn add_part_of_days(&mut self, fraction: f64, days: i32) -> Fit<()> {
        let exact = fraction * f64::from(days);
        let whole = exact as i32;
        self.add_days(whole.into(), 1)?;
        self.add_part(exact - f64::from(whole), DAY)
    }

    /// Adds a part of a unit of so many years: whole months.
    fn add_part_of_years(&mut self, fraction: f64, years: i32) -> Fit<()> {
        self.add_months((fraction * f64::from(years) * 12.0).round_ties_even() as i64)
    }

    fn add(&mut self, value: i64, fraction: f64, unit: Unit) -> Fit<()> {
        let micros = match unit {
            Unit::Microsecond => 1,
            Unit::Millisecond => 1_000,
            Unit::Second => SECOND,
            Unit::Minute => MINUTE,
            Unit::Hour => HOUR,
            Unit::Day => {
                self.add_days(value, 1)?;
                return self.add_part(fraction, DAY);
            }
            Unit::Week => {
                self.add_days(value, 7)?;
                return self.add_part_of_days(fraction, 7);
            }
            Unit::Month => {
                self.add_months(value)?;
                return self.add_part_of_days(fraction, 30);
            }
            Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium => {
                let years = match unit {
                    Unit::Year => 1,
                    Unit::Decade => 10,
                    Unit::Century => 100,
                    _ => 1_000,
                };
                self.add_years(value, years)?;
                return self.add_part_of_years(fraction, years);
            }
        };
        self.add_micros(value, micros)?;
        self.add_part(fraction, micros)
    }

    fn negate(&mut self) -> Fit<()> {
        let Sum { years, months, days, micros } = self;
        for part in [years, months, days] {
            *part = part.checked_neg().ok_or(Misfit::Overflow)?;
        }
        *micros = micros.checked_neg().ok_or(Misfit::Overflow)?;
        Ok(())
    }

    fn finish(self) -> Option<Interval> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        Some(Interval { months: i32::try_from(months).ok()?, days: self.days, micros: self.micros })
    }
}

/// `1 year 2 mons -3 days 04:05:06 ago`, `@ 5 minutes`, `1-2`, `3 4:05`.
///
/// In the style of standard SQL `-1 2:03` is a day and two hours less; in the others two hours are added.
fn decode(fields: &[Field<'_>], range: IntervalRange, style: IntervalStyle) -> Fit<Sum> {
    let mut sum = Sum::default();
    let mut given = 0_u16;
    let mut unit = None;
    // A number with nothing behind it counts in the smallest field that the type has.
    let mut bare = Some(Unit::of_range(range));
    let mut ago = false;
    let all_negative = style == IntervalStyle::SqlStandard && has_one_sign(fields);
    for field in fields.iter().rev() {
        let mask = match field.kind {
            FieldKind::Time => {
                let micros = clock(&field.text, range)?;
                sum.micros = if all_negative { -micros } else { micros };
                unit = Some(Unit::Day);
                TIME
            }
            FieldKind::Displacement => {
                let (is_negative, text) = (field.text.starts_with('-'), &field.text[1..]);
                match text.contains(':').then(|| clock(text, range)) {
                    Some(Ok(micros)) => {
                        sum.micros = if is_negative { -micros } else { micros };
                        unit = Some(Unit::Day);
                        TIME
                    }
                    _ => number(&mut sum, (is_negative, text), &mut unit, bare)?,
                }
            }
            FieldKind::Number | FieldKind::Date => {
                number(&mut sum, (all_negative, &field.text), &mut unit, bare)?
            }
            FieldKind::Word if field.text == "ago" => {
                // It is no unit, and the number before it needs one.
                (ago, unit, bare) = (true, None, None);
                0
            }
            FieldKind::Word | FieldKind::Signed => {
                unit = Some(Unit::named(&field.text).ok_or(Misfit::Format)?);
                0
            }
        };
        if given & mask != 0 {
            return Err(Misfit::Format);
        }
        given |= mask;
    }
    if given == 0 {
        return Err(Misfit::Format);
    }
    if ago {
        sum.negate()?;
    }
    Ok(sum)
}

/// True if the first field is a number with a minus, and no other field has a sign.
fn has_one_sign(fields: &[Field<'_>]) -> bool {
    let [first, others @ ..] = fields else { return false };
    first.kind == FieldKind::Displacement
        && first.text.starts_with('-')
        && !others.iter().any(|field| field.text.starts_with(['+', '-']))
}

/// Adds a number of `unit`, or of `bare` if none stands behind it; returns the fields that it gives.
fn number(
    sum: &mut Sum,
    (negative, text): (bool, &str),
    unit: &mut Option<Unit>,
    bare: Option<Unit>,
) -> Fit<u16> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits);
    let sign = if negative { "-" } else { "" };
    let value: i64 = match whole {
        "" => 0,
        whole => format!("{sign}{whole}").parse().map_err(|_| Misfit::Overflow)?,
    };
    if let Some(months) = rest.strip_prefix('-') {
        let months: i64 = match months.bytes().all(|b| b.is_ascii_digit()) {
            true if months.is_empty() => 0,
            true => months.parse().map_err(|_| Misfit::Overflow)?,
            false => return Err(Misfit::Format),
        };
        if months >= 12 {
            return Err(Misfit::Overflow);
        }
        *unit = Some(Unit::Month);
        let months = if negative { -months } else { months };
        let total = value.checked_mul(12).and_then(|value| value.checked_add(months));
        sum.add_months(total.ok_or(Misfit::Overflow)?)?;
        return Ok(1 << Unit::Month as u16);
    }
    let counted = *unit.insert(unit.or(bare).ok_or(Misfit::Format)?);
    let fraction = match rest {
        "" => 0.0,
        rest => fraction(rest)?,
    };
    sum.add(value, if negative { -fraction } else { fraction }, counted)?;
    // Days may stand before hours without their unit.
    if counted == Unit::Hour {
        *unit = Some(Unit::Day);
    }
    Ok(match counted {
        Unit::Second if fraction != 0.0 => SECONDS,
        counted => 1 << counted as u16,
    })
}

/// `.5`
fn fraction(text: &str) -> Fit<f64> {
    match text.strip_prefix('.') {
        Some("") => Ok(0.0),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("0.{digits}").parse().map_err(|_| Misfit::Format)
        }
        _ => Err(Misfit::Format),
    }
}

/// `hh:mm`, `hh:mm:ss.fff`, `mm:ss.fff`.
fn clock(text: &str, range: IntervalRange) -> Fit<i64> {
    let integer = |text: &str| -> Fit<i64> {
        match text.bytes().all(|b| b.is_ascii_digit()) {
            true if text.is_empty() => Ok(0),
            true => text.parse().map_err(|_| Misfit::Overflow),
            false => Err(Misfit::Format),
        }
    };
    let seconds = |text: &str| -> Fit<(i64, i64)> {
        let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
        let part = if rest.is_empty() { 0.0 } else { fraction(rest)? };
        Ok((integer(whole)?, (part * SECOND as f64).round_ties_even() as i64))
    };
    let (first, rest) = text.split_once(':').ok_or(Misfit::Format)?;
    let first = integer(first)?;
    let (hour, minute, (second, micros)) = match rest.split_once(':') {
        Some((minute, second)) => (first, integer(minute)?, seconds(second)?),
        None if rest.contains('.') || range == (IntervalRange::MINUTE | IntervalRange::SECOND) => {
            (0, first, seconds(rest)?)
        }
        None => (first, integer(rest)?, (0, 0)),
    };
    if minute > 59 || second > 60 {
        return Err(Misfit::Overflow);
    }
    let total = hour.checked_mul(HOUR).and_then(|hours| hours.checked_add(minute * MINUTE + second * SECOND));
    total.and_then(|total| total.checked_add(micros)).ok_or(Misfit::Overflow)
}

/// Reads numbers of ISO 8601.
struct IsoReader<'a> {
    rest: &'a str,
}

impl IsoReader<'_> {
    /// The next character, which is taken.
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// A number's whole part and fraction, and how many digits the whole part has.
    fn number(&mut self) -> Fit<(i64, f64, usize)> {
        if !self.rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.')) {
            return Err(Misfit::Format);
        }
        let unsigned = self.rest.trim_start_matches('-');
        let sign = self.rest.len() - unsigned.len();
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let mut end = sign + digits;
        if self.rest[end..].starts_with('.') {
            end += 1 + self.rest[end + 1..].bytes().take_while(u8::is_ascii_digit).count();
        }
        let exponent = self.rest[end..].strip_prefix(['e', 'E']).unwrap_or_default();
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let power = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        if power > 0 {
            end += 1 + exponent.len() - unsigned.len() + power;
        }
        let (text, rest) = self.rest.split_at(end);
        let value: f64 = text.parse().map_err(|_| Misfit::Format)?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_zero = value == 0.0 && !mantissa.contains(|c| matches!(c, '1'..='9'));
        // strtod refuses values that a double cannot hold.
        if !(value.is_normal() || is_zero) {
            return Err(Misfit::Format);
        }
        if value.abs() > 1.0e15 {
            return Err(Misfit::Overflow);
        }
        self.rest = rest;
        Ok((value.trunc() as i64, value.fract(), digits))
    }
}

/// `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506`.
fn decode_iso(text: &str) -> Fit<Sum> {
    let rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Misfit::Format)?;
    let mut reader = IsoReader { rest };
    let mut sum = Sum::default();
    let (mut is_date, mut have_field) = (true, false);
    while !reader.rest.is_empty() {
        if let Some(rest) = reader.rest.strip_prefix('T') {
            reader.rest = rest;
            (is_date, have_field) = (false, false);
            continue;
        }
        let (value, part, digits) = reader.number()?;
        let unit = match (reader.next(), is_date) {
            (Some('Y'), true) => Unit::Year,
            (Some('M'), true) => Unit::Month,
            (Some('W'), true) => Unit::Week,
            (Some('D'), true) => Unit::Day,
            (Some('H'), false) => Unit::Hour,
            (Some('M'), false) => Unit::Minute,
            (Some('S'), false) => Unit::Second,
            (None | Some('T' | '-'), true) | (None | Some(':'), false) if have_field => {
                return Err(Misfit::Format);
            }
            (end @ (None | Some('T')), true) if digits == 8 => {
                sum.add_years(value / 10_000, 1)?;
                sum.add_months(value / 100 % 100)?;
                sum.add(value % 100, part, Unit::Day)?;
                if end.is_none() {
                    break;
                }
                (is_date, have_field) = (false, false);
                continue;
            }
            (None, false) if digits == 6 => {
                sum.add(value / 10_000, 0.0, Unit::Hour)?;
                sum.add(value / 100 % 100, 0.0, Unit::Minute)?;
                sum.add(value % 100, 0.0, Unit::Second)?;
                sum.add_part(part, 1)?;
                break;
            }
            (first @ (None | Some('T' | '-')), true) => {
                sum.add(value, part, Unit::Year)?;
                if alternative(&mut sum, &mut reader, first, '-', [Unit::Month, Unit::Day])? {
                    break;
                }
                (is_date, have_field) = (false, false);
                continue;
            }
            (first @ (None | Some(':')), false) => {
                sum.add(value, part, Unit::Hour)?;
                match alternative(&mut sum, &mut reader, first, ':', [Unit::Minute, Unit::Second])? {
                    true => break,
                    false => return Err(Misfit::Format),
                }
            }
            _ => return Err(Misfit::Format),
        };
        sum.add(value, part, unit)?;
        have_field = true;
    }
    Ok(sum)
}

/// The further numbers of the alternative form, each behind a delimiter, the first of which has been read. True if the
/// text ends there, false if a time follows.
fn alternative(
    sum: &mut Sum,
    reader: &mut IsoReader<'_>,
    first: Option<char>,
    delimiter: char,
    units: [Unit; 2],
) -> Fit<bool> {
    let mut read = first;
    for unit in units {
        match read {
            None => return Ok(true),
            Some('T') => return Ok(false),
            Some(c) if c == delimiter => {}
            Some(_) => return Err(Misfit::Format),
        }
        let (value, part, _) = reader.number()?;
        sum.add(value, part, unit)?;
        read = reader.next();
    }
    match read {
        None => Ok(true),
        Some('T') => Ok(false),
        Some(_) => Err(Misfit::Format),
    }
}

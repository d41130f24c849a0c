//! Reading dates, times and timestamps in the many forms that people write them.
//!
//! The text is cut into fields (numbers, dates, times, words, displacements) and each field is taken for what is
//! still missing, in the manner of PostgreSQL's ParseDateTime and DecodeDateTime. A pure number's meaning depends on
//! its length and on what is known: year if it has three digits or more, else the next in the order of DateStyle.

use super::{
    Civil, DAY, DateOrder, HOUR, MINUTE, MONTHS, SECOND, WEEKDAYS, Zone, days_from_civil, is_date,
    month_days,
    zone::{is_time_of_day, offset_magnitude},
};
use crate::{Result, SqlError, SqlState, types::Context};

/// Reads a timestamp; a zone in the text is ignored.
///
/// # Errors
/// 22007 for what is none, 22008 for a field or result out of range.
pub fn parse_timestamp(cx: &Context, text: &str) -> Result<i64> {
    match decode(cx, text, "timestamp")? {
        Decoded::Infinity(negative) => Ok(if negative { i64::MIN } else { i64::MAX }),
        Decoded::Now => Ok(cx.zone.to_local(cx.time_of_literal())),
        Decoded::Fields(fields) => fields.timestamp(text),
    }
}

/// Reads a timestamptz; without a zone in the text the session's holds.
///
/// # Errors
/// As [`parse_timestamp`], and 22023 for an unknown zone.
pub fn parse_timestamptz(cx: &Context, text: &str) -> Result<i64> {
    match decode(cx, text, "timestamp with time zone")? {
        Decoded::Infinity(negative) => Ok(if negative { i64::MIN } else { i64::MAX }),
        Decoded::Now => Ok(cx.time_of_literal()),
        Decoded::Fields(fields) => {
            let local = fields.timestamp(text)?;
            let utc = match &fields.zone {
                Some(zone) => zone.to_utc(local),
                None => cx.zone.to_utc(local),
            };
            if super::is_timestamp(utc) { Ok(utc) } else { Err(range_error("timestamp", text)) }
        }
    }
}

/// Reads a date; a time in the text is ignored.
///
/// # Errors
/// As [`parse_timestamp`].
pub fn parse_date(cx: &Context, text: &str) -> Result<i32> {
    match decode(cx, text, "date")? {
        Decoded::Infinity(negative) => Ok(if negative { i32::MIN } else { i32::MAX }),
        Decoded::Now => {
            let days = cx.zone.to_local(cx.time_of_literal()).div_euclid(DAY);
            i32::try_from(days).map_err(|_| range_error("date", text))
        }
        Decoded::Fields(fields) => match fields.date {
            Some((year, month, day)) => {
                let days = days_from_civil(year, month, day);
                if !is_date(days) {
                    return Err(range_error("date", text));
                }
                i32::try_from(days).map_err(|_| range_error("date", text))
            }
            None => Err(malformed("date", text)),
        },
    }
}

/// Reads a time; a date and a zone in the text are ignored.
///
/// # Errors
/// As [`parse_timestamp`].
pub fn parse_time(cx: &Context, text: &str) -> Result<i64> {
    match decode(cx, text, "time")? {
        Decoded::Infinity(_) => Err(malformed("time", text)),
        Decoded::Now => Ok(cx.zone.to_local(cx.time_of_literal()).rem_euclid(DAY)),
        Decoded::Fields(fields) => fields.micros.ok_or_else(|| malformed("time", text)),
    }
}

pub(super) fn malformed(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn range_error(what: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

enum Decoded {
    Infinity(bool),
    Now,
    Fields(Fields),
}

#[derive(Default)]
struct Fields {
    /// Year (astronomical), month, day: valid.
    date: Option<(i32, i32, i32)>,
    /// Of the day.
    micros: Option<i64>,
    zone: Option<Zone>,
}

impl Fields {
    fn timestamp(&self, text: &str) -> Result<i64> {
        let (year, month, day) = self.date.ok_or_else(|| malformed("timestamp", text))?;
        Civil { year, month, day, micros: self.micros.unwrap_or(0) }
            .timestamp()
            .map_err(|_| range_error("timestamp", text))
    }
}

/// A piece of the text.
#[derive(Debug)]
enum Field<'a> {
    /// `12:34:56.7`
    Time(&'a str),
    /// `2024-01-31`, `31/Jan/2024`
    Date(&'a str),
    /// `20240131`, `5`, `.5`
    Number(&'a str),
    /// A run of letters, or of what names a zone: `PM`, `Europe/Berlin`
    Word(&'a str),
    /// `+02:00`
    Displacement(&'a str),
    /// `-infinity`
    Signed(&'a str),
}

/// Cuts text into fields; none if a character fits nowhere.
fn fields(text: &str) -> Option<Vec<Field<'_>>> {
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let run = |from: usize, test: &dyn Fn(u8) -> bool| {
        from + bytes.get(from..).unwrap_or_default().iter().take_while(|b| test(**b)).count()
    };
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        match bytes[i] {
            b if b.is_ascii_whitespace() || b == 0x0b => i += 1,
            b'0'..=b'9' => {
                i = run(i, &|b| b.is_ascii_digit());
                let delimiter = at(i);
                if delimiter == b':' {
                    i = run(i, &|b| b.is_ascii_digit() || b == b':' || b == b'.');
                    out.push(Field::Time(text.get(start..i)?));
                } else if matches!(delimiter, b'-' | b'/' | b'.') {
                    i += 1;
                    if at(i).is_ascii_digit() {
                        i = run(i, &|b| b.is_ascii_digit());
                        if at(i) == delimiter {
                            i = run(i, &|b| b.is_ascii_digit() || b == delimiter);
                            out.push(Field::Date(text.get(start..i)?));
                        } else if delimiter == b'.' {
                            out.push(Field::Number(text.get(start..i)?));
                        } else {
                            out.push(Field::Date(text.get(start..i)?));
                        }
                    } else {
                        i = run(i, &|b| b.is_ascii_alphanumeric() || b == delimiter);
                        out.push(Field::Date(text.get(start..i)?));
                    }
                } else {
                    out.push(Field::Number(text.get(start..i)?));
                }
            }
            b'.' => {
                i = run(i + 1, &|b| b.is_ascii_digit());
                out.push(Field::Number(text.get(start..i)?));
            }
            b if b.is_ascii_alphabetic() => {
                i = run(i, &|b| b.is_ascii_alphabetic());
                let word = text.get(start..i)?;
                if matches!(at(i), b'-' | b'/' | b'.') && month(word).is_some() {
                    let delimiter = at(i);
                    i = run(i, &|b| b.is_ascii_alphanumeric() || b == delimiter);
                    out.push(Field::Date(text.get(start..i)?));
                } else if matches!(at(i), b'/' | b'_')
                    || (matches!(at(i), b'+' | b'-') && !is_known_word(word))
                {
                    i = run(i, &|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'+' | b'-'));
                    out.push(Field::Word(text.get(start..i)?));
                } else if at(i).is_ascii_digit() && !is_known_word(word) {
                    // A POSIX zone such as EST5EDT; but not T04, whose T is known.
                    i = run(i, &|b| b.is_ascii_alphanumeric());
                    out.push(Field::Word(text.get(start..i)?));
                } else {
                    out.push(Field::Word(word));
                }
            }
            b'+' | b'-' => {
                i = run(i + 1, &|b| b.is_ascii_whitespace());
                if at(i).is_ascii_digit() {
                    let digits = i;
                    i = run(i, &|b| b.is_ascii_digit() || b == b':');
                    if digits == start + 1 {
                        out.push(Field::Displacement(text.get(start..i)?));
                    } else {
                        return None;
                    }
                } else if at(i).is_ascii_alphabetic() {
                    i = run(i, &|b| b.is_ascii_alphabetic());
                    out.push(Field::Signed(text.get(start..i)?));
                } else {
                    return None;
                }
            }
            b if b.is_ascii_punctuation() => i += 1,
            _ => return None,
        }
    }
    Some(out)
}

/// The number of a month by its name or a beginning of it of three letters (`sept` too).
fn month(word: &str) -> Option<i32> {
    let lower = word.to_ascii_lowercase();
    let position = MONTHS.iter().position(|name| {
        let name = name.to_ascii_lowercase();
        name == lower || name.get(..3) == Some(lower.as_str())
    });
    match position {
        Some(index) => Some(index as i32 + 1),
        None => (lower == "sept").then_some(9),
    }
}

fn is_weekday(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    matches!(lower.as_str(), "tues" | "wednes" | "weds" | "thur" | "thurs")
        || WEEKDAYS.iter().any(|name| {
            let name = name.to_ascii_lowercase();
            name == lower || name.get(..3) == Some(lower.as_str())
        })
}

fn is_known_word(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "t" | "j"
            | "jd"
            | "julian"
            | "am"
            | "pm"
            | "bc"
            | "ad"
            | "now"
            | "today"
            | "tomorrow"
            | "yesterday"
            | "epoch"
            | "infinity"
            | "allballs"
            | "at"
            | "on"
            | "y"
            | "m"
            | "d"
            | "h"
            | "mm"
            | "s"
    ) || month(word).is_some()
        || is_weekday(word)
}

/// The fields that are known so far.
#[derive(Default)]
struct Decoder {
    /// The order of numbers that do not tell it.
    order: DateOrder,
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    /// The month was a word, so that numbers are day and year.
    text_month: bool,
    /// The year had one or two digits.
    short_year: bool,
    /// The date came as a Julian day or special word: valid as it is.
    exact: bool,
    bc: bool,
    hour: i64,
    /// Of the hour.
    rest_micros: i64,
    have_time: bool,
    pm: Option<bool>,
    zone: Option<Zone>,
    /// True if the zone is one by name, whose offset depends on the date.
    named_zone: bool,
}

/// Why a field does not fit.
enum Misfit {
    Format,
    Range,
    /// A month or day out of range, which another DateStyle might explain.
    MonthOrDay,
    Displacement,
    UnknownZone(String),
}

fn decode(cx: &Context, text: &str, type_name: &str) -> Result<Decoded> {
    let report = |misfit: Misfit| match misfit {
        Misfit::Format => malformed(type_name, text),
        Misfit::Range => field_overflow(text),
        Misfit::MonthOrDay => {
            field_overflow(text).hint("Perhaps you need a different \"datestyle\" setting.")
        }
        Misfit::Displacement => SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Misfit::UnknownZone(name) => {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
        }
    };
    let fields = fields(text).ok_or_else(|| report(Misfit::Format))?;
    decode_fields(cx, &fields, type_name == "time").map_err(report)
}

fn decode_fields(cx: &Context, fields: &[Field], time_only: bool) -> Result<Decoded, Misfit> {
    let mut d = Decoder { order: cx.date_style.order, ..Decoder::default() };
    let mut fields = fields.iter().peekable();
    let mut alone = 0;
    let mut special = None;
    if fields.peek().is_none() {
        return Err(Misfit::Format);
    }
    while let Some(field) = fields.next() {
        alone += 1;
        match field {
            Field::Time(text) => d.time(text)?,
            Field::Date(text) => {
                // It could only be a zone's name.
                if d.has_date() && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    return Err(Misfit::UnknownZone(text.to_ascii_lowercase()));
                }
                if d.has_date() || d.have_time {
                    return Err(Misfit::Format);
                }
                d.date(text)?;
            }
            Field::Displacement(text) => {
                // A zone stands after a time, or after a date that is complete.
                if d.zone.is_some() || !(d.have_time || d.has_date()) {
                    return Err(Misfit::Format);
                }
                let magnitude = offset_magnitude(text.get(1..).unwrap_or_default());
                let magnitude = magnitude.ok_or(Misfit::Displacement)?;
                d.zone = Some(Zone::fixed(if text.starts_with('-') { -magnitude } else { magnitude }));
            }
            Field::Number(text) => d.number_field(text, time_only)?,
            Field::Signed(text) => match text.to_ascii_lowercase().as_str() {
                "-infinity" => special = Some(Decoded::Infinity(true)),
                "+infinity" => special = Some(Decoded::Infinity(false)),
                _ => return Err(Misfit::Format),
            },
            Field::Word(word) => {
                let lower = word.to_ascii_lowercase();
                match lower.as_str() {
                    "infinity" | "inf" => special = Some(Decoded::Infinity(false)),
                    "now" => special = Some(Decoded::Now),
                    "today" | "tomorrow" | "yesterday" | "epoch" => {
                        let today = || cx.zone.to_local(cx.time_of_literal()).div_euclid(DAY);
                        let days = match lower.as_str() {
                            "today" => today(),
                            "tomorrow" => today() + 1,
                            "yesterday" => today() - 1,
                            _ => {
                                d.zone = Some(Zone::UTC);
                                days_from_civil(1970, 1, 1)
                            }
                        };
                        d.set_day(days)?;
                    }
                    "allballs" => {
                        d.set_time(0, 0)?;
                        d.zone = Some(Zone::UTC);
                    }
                    "am" | "pm" => d.pm = Some(lower == "pm"),
                    "ad" => d.bc = false,
                    "bc" => d.bc = true,
                    "at" | "on" => {}
                    "t" => {
                        // The time of ISO 8601 follows.
                        match fields.next() {
                            Some(Field::Time(text)) => d.time(text)?,
                            Some(Field::Number(text)) => d.packed_time(text)?,
                            _ => return Err(Misfit::Format),
                        }
                    }
                    "j" | "jd" | "julian" => match fields.next() {
                        Some(Field::Number(text)) => {
                            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                            let julian: i64 = whole.parse().map_err(|_| Misfit::Range)?;
                            d.set_day(julian - 2_451_545)?;
                            if !fraction.is_empty() {
                                let part: f64 =
                                    format!("0.{fraction}").parse().map_err(|_| Misfit::Format)?;
                                let micros = (part * DAY as f64) as i64;
                                d.set_time(micros / HOUR, micros % HOUR)?;
                            }
                        }
                        _ => return Err(Misfit::Format),
                    },
                    "dst" => {
                        let summer = d.zone.as_ref().and_then(Zone::with_summer_time);
                        d.zone = Some(summer.ok_or(Misfit::Format)?);
                    }
                    "z" => d.set_zone(Zone::fixed(0))?,
                    _ if month(word).is_some() => {
                        // A month after a number taken for one: that number was the day.
                        if !d.text_month && d.day.is_none() && d.month.is_some_and(|m| (1..=31).contains(&m))
                        {
                            d.day = d.month.take();
                        }
                        if d.month.is_some() {
                            return Err(Misfit::Format);
                        }
                        d.month = month(word);
                        d.text_month = true;
                    }
                    _ if is_weekday(word) => {}
                    _ => match Zone::of_abbreviation(word) {
                        Some(zone) => d.set_zone(zone)?,
                        None => match Zone::parse(word) {
                            Some(zone) => {
                                d.set_zone(zone)?;
                                d.named_zone = true;
                            }
                            None if word.contains('/') => {
                                return Err(Misfit::UnknownZone(word.to_ascii_lowercase()));
                            }
                            None => return Err(Misfit::Format),
                        },
                    },
                }
            }
        }
    }
    if let Some(special) = special {
        return if alone == 1 || (matches!(special, Decoded::Now) && d.zone.is_some()) {
            Ok(special)
        } else {
            Err(Misfit::Format)
        };
    }
    if time_only && d.named_zone && !d.has_date() {
        return Err(Misfit::Format);
    }
    d.finish().map(Decoded::Fields)
}

impl Decoder {
    fn has_date(&self) -> bool {
        self.exact || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    fn set_day(&mut self, days: i64) -> Result<(), Misfit> {
        if self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return Err(Misfit::Format);
        }
        if !is_date(days) {
            return Err(Misfit::Range);
        }
        let civil = Civil::of_day(days, 0);
        (self.year, self.month, self.day) = (Some(civil.year), Some(civil.month), Some(civil.day));
        self.exact = true;
        Ok(())
    }

    fn set_time(&mut self, hour: i64, rest_micros: i64) -> Result<(), Misfit> {
        if self.have_time {
            return Err(Misfit::Format);
        }
        (self.hour, self.rest_micros, self.have_time) = (hour, rest_micros, true);
        Ok(())
    }

    fn set_zone(&mut self, zone: Zone) -> Result<(), Misfit> {
        // A displacement may follow a zone's name (`GMT+3`), which the cutting has kept together; two do not go.
        if self.zone.is_some() {
            return Err(Misfit::Format);
        }
        self.zone = Some(zone);
        Ok(())
    }

    /// `12:34`, `12:34:56.7`, `34:56.7` (minutes and seconds).
    fn time(&mut self, text: &str) -> Result<(), Misfit> {
        let parts: Vec<&str> = text.split(':').collect();
        let whole = |digits: &str| digits.parse::<i64>().map_err(|_| Misfit::Format);
        let (hour, minute, second) = match parts.as_slice() {
            [minute, second] if second.contains('.') => (0, whole(minute)?, seconds(second)?),
            [hour, minute] => (whole(hour)?, whole(minute)?, 0),
            [hour, minute, second] => (whole(hour)?, whole(minute)?, seconds(second)?),
            _ => return Err(Misfit::Format),
        };
        if minute > 59 || second > 60 * SECOND || hour > 24 {
            return Err(Misfit::Range);
        }
        self.set_time(hour, minute * MINUTE + second)
    }

    /// `123456.7` or `1234`: hours, minutes, seconds without colons.
    fn packed_time(&mut self, text: &str) -> Result<(), Misfit> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        let value: i64 = digits.parse().map_err(|_| Misfit::Format)?;
        let (hour, minute, second) = match digits.len() {
            6 => (value / 10_000, value / 100 % 100, value % 100),
            4 => (value / 100, value % 100, 0),
            2 => (value, 0, 0),
            _ => return Err(Misfit::Format),
        };
        let micros = fraction_micros(fraction)?;
        if hour > 24 || minute > 59 || second > 60 {
            return Err(Misfit::Range);
        }
        self.set_time(hour, minute * MINUTE + second * SECOND + micros)
    }

    /// A date whose parts are joined: digits and perhaps a month's name.
    fn date(&mut self, text: &str) -> Result<(), Misfit> {
        let parts: Vec<&str> =
            text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
        if let Some(name) = parts.iter().find(|part| part.starts_with(|c: char| c.is_ascii_alphabetic())) {
            if self.month.is_some() {
                return Err(Misfit::Format);
            }
            self.month = Some(month(name).ok_or(Misfit::Format)?);
            self.text_month = true;
        }
        for part in parts {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                self.number(part)?;
            } else if month(part).is_none() {
                return Err(Misfit::Format);
            }
        }
        if self.has_date() || (self.year.is_some() && self.day.is_some()) {
            Ok(())
        } else {
            Err(Misfit::Format)
        }
    }

    fn number_field(&mut self, text: &str, time_only: bool) -> Result<(), Misfit> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        let complete = self.has_date();
        if time_only && !self.have_time && digits.len() >= 4 && !complete {
            return self.packed_time(text);
        }
        if text.contains('.') {
            if complete && !self.have_time {
                return self.packed_time(text);
            }
            if digits.len() >= 8 && !self.have_time {
                self.packed_date(digits)?;
                let micros = (format!("0.{fraction}").parse::<f64>().map_err(|_| Misfit::Format)?
                    * DAY as f64)
                    .round() as i64;
                return self.set_time(micros / HOUR, micros % HOUR);
            }
            if let Some((year, day_of_year)) = text.split_once('.')
                && year.len() == 4
                && day_of_year.len() == 3
            {
                let year: i32 = year.parse().map_err(|_| Misfit::Format)?;
                let day: i64 = day_of_year.parse().map_err(|_| Misfit::Format)?;
                return self.set_day(days_from_civil(year, 1, 1) + day - 1);
            }
            return Err(Misfit::Format);
        }
        if digits.len() >= 6 && !complete && self.month.is_none() {
            return self.packed_date(digits);
        }
        if complete && !self.have_time && (digits.len() == 4 || digits.len() == 6) {
            return self.packed_time(text);
        }
        if complete {
            return Err(Misfit::Format);
        }
        self.number(digits)
    }

    /// `20240131` or `240131`.
    fn packed_date(&mut self, digits: &str) -> Result<(), Misfit> {
        if self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return Err(Misfit::Format);
        }
        let split = digits.len().checked_sub(4).ok_or(Misfit::Format)?;
        let number = |part: Option<&str>| part.and_then(|p| p.parse::<i32>().ok()).ok_or(Misfit::Range);
        self.year = Some(number(digits.get(..split))?);
        self.month = Some(number(digits.get(split..split + 2))?);
        self.day = Some(number(digits.get(split + 2..))?);
        self.short_year = split <= 2;
        Ok(())
    }

    /// A number of a date: what it is depends on its length and on what is known.
    fn number(&mut self, digits: &str) -> Result<(), Misfit> {
        let value: i32 = digits.parse().map_err(|_| Misfit::Range)?;
        let long = digits.len() >= 3;
        if digits.len() == 3 && self.year.is_some() && self.month.is_none() && self.day.is_none() {
            let year = self.year.take().unwrap_or_default();
            return self.set_day(days_from_civil(year, 1, 1) + i64::from(value) - 1);
        }
        if long && self.text_month && self.short_year && self.year.is_some() && self.day.is_none() {
            // The first number was not the year: `08-Jan-1999` where the year comes first.
            self.day = self.year.replace(value);
            self.short_year = false;
            return Ok(());
        }
        let slot = match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (false, false, false) if long || self.order == DateOrder::Ymd => 0,
            (false, false, false) if self.order == DateOrder::Dmy => 2,
            (false, false, false) => 1,
            (true, false, _) | (false, false, true) => 1,
            (false, true, false) if self.text_month && (long || self.order == DateOrder::Ymd) => 0,
            (_, true, false) => 2,
            (false, true, true) => 0,
            (true, true, true) => return Err(Misfit::Format),
        };
        match slot {
            0 => {
                self.year = Some(value);
                self.short_year = digits.len() <= 2;
            }
            1 => self.month = Some(value),
            _ => self.day = Some(value),
        }
        Ok(())
    }

    fn finish(self) -> Result<Fields, Misfit> {
        let mut fields = Fields { zone: self.zone.clone(), ..Fields::default() };
        if self.have_time {
            let hour = match self.pm {
                Some(_) if self.hour > 12 => return Err(Misfit::Range),
                Some(true) if self.hour != 12 => self.hour + 12,
                Some(false) if self.hour == 12 => 0,
                _ => self.hour,
            };
            let micros = hour * HOUR + self.rest_micros;
            if !is_time_of_day(micros) {
                return Err(Misfit::Range);
            }
            fields.micros = Some(micros);
        } else if self.pm.is_some() {
            return Err(Misfit::Format);
        }
        match (self.year, self.month, self.day) {
            (None, None, None) => {}
            (Some(year), Some(month), Some(day)) => {
                let year = if self.exact {
                    year
                } else if self.bc {
                    if year <= 0 {
                        return Err(Misfit::Range);
                    }
                    1 - year
                } else if self.short_year {
                    if year < 70 { year + 2000 } else { year + 1900 }
                } else if year == 0 {
                    return Err(Misfit::Range);
                } else {
                    year
                };
                if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
                    return Err(Misfit::MonthOrDay);
                }
                if day > month_days(year, month) {
                    return Err(Misfit::Range);
                }
                fields.date = Some((year, month, day));
            }
            _ => return Err(Misfit::Format),
        }
        Ok(fields)
    }
}

/// `56.789` as microseconds, rounded.
fn seconds(text: &str) -> Result<i64, Misfit> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().map_err(|_| Misfit::Format)?;
    let micros = fraction_micros(fraction)?;
    whole.checked_mul(SECOND).and_then(|s| s.checked_add(micros)).ok_or(Misfit::Range)
}

/// The digits after the point as microseconds, rounded.
fn fraction_micros(digits: &str) -> Result<i64, Misfit> {
    if digits.is_empty() {
        return Ok(0);
    }
    let fraction: f64 = format!("0.{digits}").parse().map_err(|_| Misfit::Format)?;
    Ok((fraction * SECOND as f64).round_ties_even() as i64)
}

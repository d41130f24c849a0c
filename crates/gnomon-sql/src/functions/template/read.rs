//! `to_timestamp` and `to_date`: reading by a template.
//!
//! Spaces before and after fields are passed over, a separator of the template stands for one of the input or for none,
//! another character for any one, until FX. A number has as many digits as its pattern, unless what follows in the
//! template cannot be part of a number.

use super::{
    Convention, ROMAN_MONTHS,
    date::{Field, Pattern, Piece, is_separator, is_space, pieces},
    show::{first_monday, julian_day},
};
use crate::{
    Result, SqlError, SqlState,
    types::datetime::{Civil, MONTHS, SECOND, WEEKDAYS, is_leap, month_days},
};

/// The Julian day of 2000-01-01.
const EPOCH_JULIAN_DAY: i64 = 2_451_545;

/// The fields that were read, a number for each kind of field; 0 is none.
#[derive(Default)]
struct Found {
    convention: Option<Convention>,
    century: i64,
    year: i64,
    year_digits: usize,
    is_bc: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// From Sunday, which is 1.
    weekday: i64,
    week: i64,
    week_of_month: i64,
    julian_day: i64,
    hour: i64,
    is_12_hour_clock: bool,
    is_pm: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    millis: i64,
    micros: i64,
    /// How many digits of a second count, if FF said so.
    precision: Option<i32>,
    offset_sign: i64,
    offset_hours: i64,
    offset_minutes: i64,
}

/// A time that was read.
pub(super) struct Read {
    /// May have a day that its month has not; [`Read::julian_day`] counts on.
    year: i64,
    month: i64,
    day: i64,
    /// Since midnight.
    micros: i64,
    /// In seconds east, if there was one.
    pub offset: Option<i64>,
    pub precision: Option<i32>,
}

impl Read {
    /// Days since 2000-01-01, and microseconds since midnight; none out of the range of dates.
    pub fn days(&self) -> Option<i64> {
        let is_in_range =
            (-4_713..=5_874_898).contains(&self.year) && (self.year > -4_713 || self.month >= 11);
        is_in_range.then(|| julian_day(self.year, self.month, self.day) - EPOCH_JULIAN_DAY)
    }

    pub fn civil(&self) -> Option<Civil> {
        self.days().map(|days| Civil::of_day(days, self.micros))
    }
}

fn malformed(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

const USE_FM: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Reads a time by a template.
///
/// # Errors
/// 22007 for what does not fit the template, 22008 for a field out of range, 22009 for such an offset, 0A000 for a pattern
/// that is only written.
pub(super) fn read(input: &str, template: &str) -> Result<Read> {
    let pieces = pieces(template);
    let mut reader =
        Reader { rest: input, before: None, found: Found::default(), is_fixed: false, skipped: 0 };
    for (at, piece) in pieces.iter().enumerate() {
        if reader.rest.is_empty() {
            break;
        }
        reader.piece(piece, pieces.get(at + 1), at == 0)?;
    }
    reader.found.resolve(input)
}

struct Reader<'a> {
    rest: &'a str,
    /// The character before the rest.
    before: Option<char>,
    found: Found,
    is_fixed: bool,
    /// How many characters more were passed over than the template has.
    skipped: i64,
}

impl<'a> Reader<'a> {
    fn piece(&mut self, piece: &Piece, next: Option<&Piece>, is_first: bool) -> Result<()> {
        let pattern = match piece {
            Piece::Pattern { pattern, .. } => Some(*pattern),
            _ => None,
        };
        let is_fx = pattern.is_some_and(|pattern| pattern.field == Field::Fixed);
        if !self.is_fixed && !is_fx && (pattern.is_some() || is_first) {
            self.skip_spaces();
        }
        match piece {
            Piece::Space(_) | Piece::Separator(_) if !self.is_fixed => {
                self.skipped -= 1;
                if self.rest.starts_with(|c| is_space(c) || is_separator(c)) {
                    self.pass();
                    self.skipped += 1;
                }
            }
            Piece::Space(_) | Piece::Separator(_) => self.pass(),
            // A character passed over before may have been the input's for this one.
            Piece::Literal(_) if !self.is_fixed && self.skipped > 0 => self.skipped -= 1,
            Piece::Literal(_) => self.pass(),
            Piece::Pattern { pattern, is_short, ordinal, .. } => {
                self.found.keep_to(pattern)?;
                let takes_all = *is_short || ordinal.is_some() || ends_number(next);
                self.field(Number { pattern, takes_all })?;
                // Only a number has an ending, though others may be written with one.
                if ordinal.is_some() && has_ordinal(pattern.field) {
                    self.pass();
                    self.pass();
                }
                if !self.is_fixed {
                    self.skipped = 0;
                    self.skip_spaces();
                }
            }
        }
        Ok(())
    }

    /// Passes over a character.
    fn pass(&mut self) {
        let mut chars = self.rest.chars();
        if let Some(c) = chars.next() {
            self.before = Some(c);
            self.rest = chars.as_str();
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.before = passed.chars().next_back().or(self.before);
        self.rest = rest;
    }

    fn skip_spaces(&mut self) {
        while self.rest.starts_with(is_space) {
            self.pass();
            self.skipped += 1;
        }
    }

    fn field(&mut self, number: Number) -> Result<()> {
        let pattern = number.pattern;
        let width = pattern.name.len();
        match pattern.field {
            Field::Fixed => self.is_fixed = true,
            Field::HalfOfDay
            | Field::Era
            | Field::MonthName
            | Field::MonthNameShort
            | Field::MonthRoman
            | Field::DayName
            | Field::DayNameShort => self.word(pattern)?,
            Field::Zone | Field::Offset => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("formatting field \"{}\" is only supported in to_char", pattern.name),
                ));
            }
            Field::Hour12 => {
                self.number(&number, 2, |found| &mut found.hour)?;
                self.found.is_12_hour_clock = true;
            }
            Field::Hour => self.number(&number, 2, |found| &mut found.hour).map(drop)?,
            Field::Minute => self.number(&number, width, |found| &mut found.minute).map(drop)?,
            Field::Second => self.number(&number, width, |found| &mut found.second).map(drop)?,
            Field::SecondOfDay => self.number(&number, width, |found| &mut found.second_of_day).map(drop)?,
            Field::Milliseconds => {
                let taken = self.number(&number, 3, |found| &mut found.millis)?;
                self.found.millis *= scale(taken, 3);
            }
            Field::Microseconds => self.micros(&number, 6)?,
            Field::Fraction(digits) => {
                self.found.precision = i32::try_from(digits).ok();
                self.micros(&number, digits)?;
            }
            Field::Month => self.number(&number, width, |found| &mut found.month).map(drop)?,
            Field::Day => self.number(&number, width, |found| &mut found.day).map(drop)?,
            Field::DayOfYear | Field::DayOfIsoYear => {
                self.number(&number, 3, |found| &mut found.day_of_year).map(drop)?;
            }
            Field::Weekday => self.number(&number, width, |found| &mut found.weekday).map(drop)?,
            Field::IsoWeekday => {
                self.number(&number, 1, |found| &mut found.weekday)?;
                self.found.weekday = if self.found.weekday >= 7 { 1 } else { self.found.weekday + 1 };
            }
            Field::WeekOfYear | Field::WeekOfIsoYear => {
                self.number(&number, width, |found| &mut found.week).map(drop)?;
            }
            Field::WeekOfMonth => self.number(&number, width, |found| &mut found.week_of_month).map(drop)?,
            // A quarter does not say which of its days is meant.
            Field::Quarter => self.integer(&number, width).map(drop)?,
            Field::Century => self.number(&number, width, |found| &mut found.century).map(drop)?,
            Field::JulianDay => self.number(&number, width, |found| &mut found.julian_day).map(drop)?,
            Field::YearWithComma => self.year_with_comma(pattern)?,
            Field::Year(digits) | Field::IsoYear(digits) => self.year(&number, digits)?,
            Field::OffsetHours => {
                // A sign may have been passed over as a separator.
                let was_minus = self.skipped > 0 && self.before == Some('-');
                self.found.offset_sign = match self.rest.chars().next() {
                    Some('-') => -1,
                    Some('+' | ' ') => 1,
                    _ if was_minus => -1,
                    _ => 1,
                };
                if self.rest.starts_with(['+', '-', ' ']) {
                    self.pass();
                }
                self.number(&number, 2, |found| &mut found.offset_hours)?;
            }
            Field::OffsetMinutes => {
                if self.found.offset_sign == 0 {
                    self.found.offset_sign = 1;
                }
                self.number(&number, 2, |found| &mut found.offset_minutes)?;
            }
        }
        Ok(())
    }

    /// Reads a field that is no number.
    fn word(&mut self, pattern: &Pattern) -> Result<()> {
        match pattern.field {
            Field::HalfOfDay => {
                let names = if pattern.name.contains('.') { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let value = self.name(pattern, &names)?;
                set(&mut self.found.is_pm, value, pattern)?;
                self.found.is_12_hour_clock = true;
            }
            Field::Era => {
                let names = if pattern.name.contains('.') { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let value = self.name(pattern, &names)?;
                set(&mut self.found.is_bc, value, pattern)?;
            }
            Field::MonthName => {
                let value = self.name(pattern, &MONTHS)?;
                set(&mut self.found.month, value + 1, pattern)?;
            }
            Field::MonthNameShort => {
                let value = self.name(pattern, &MONTHS.map(|name| &name[..3]))?;
                set(&mut self.found.month, value + 1, pattern)?;
            }
            Field::MonthRoman => {
                let mut names = ROMAN_MONTHS;
                names.reverse();
                let value = self.name(pattern, &names)?;
                set(&mut self.found.month, 12 - value, pattern)?;
            }
            Field::DayName => self.weekday(pattern, &WEEKDAYS)?,
            Field::DayNameShort => self.weekday(pattern, &WEEKDAYS.map(|name| &name[..3]))?,
            _ => {}
        }
        Ok(())
    }

    fn weekday(&mut self, pattern: &Pattern, names: &[&str]) -> Result<()> {
        let value = self.name(pattern, names)?;
        set(&mut self.found.weekday, value, pattern)?;
        self.found.weekday += 1;
        Ok(())
    }

    fn micros(&mut self, number: &Number, digits: usize) -> Result<()> {
        let taken = self.number(number, digits, |found| &mut found.micros)?;
        self.found.micros *= scale(taken, 6);
        Ok(())
    }

    fn year(&mut self, number: &Number, digits: usize) -> Result<()> {
        let taken = self.number(number, digits, |found| &mut found.year)?;
        if digits < 4 && taken < 4 {
            self.found.year = next_to_2020(self.found.year);
        }
        self.found.year_digits = digits;
        Ok(())
    }

    /// `1,234`
    fn year_with_comma(&mut self, pattern: &Pattern) -> Result<()> {
        let wrong = || malformed("invalid input string for \"Y,YYY\"".into());
        let thousands = integer_at(self.rest).ok_or_else(wrong)?;
        self.advance(thousands.bytes);
        if !self.rest.starts_with(',') {
            return Err(wrong());
        }
        self.pass();
        let spaces = self.rest.len() - self.rest.trim_start_matches(is_space).len();
        let part = self.rest.get(spaces..).unwrap_or_default();
        let part: &str = part.char_indices().nth(3).map_or(part, |(end, _)| part.get(..end).unwrap_or(part));
        let years = integer_at(part).ok_or_else(wrong)?;
        self.advance(spaces + years.bytes);
        let year = thousands.value.and_then(|value| value.checked_mul(1_000)?.checked_add(years.value?));
        set(&mut self.found.year, in_range(year, pattern)?, pattern)?;
        self.found.year_digits = 4;
        Ok(())
    }

    /// Reads a number into a field and returns how many characters it took.
    fn number(
        &mut self,
        number: &Number,
        width: usize,
        field: impl Fn(&mut Found) -> &mut i64,
    ) -> Result<usize> {
        let (value, taken) = self.integer(number, width)?;
        set(field(&mut self.found), value, number.pattern)?;
        Ok(taken)
    }

    /// Reads a number and returns it with how many characters it took.
    fn integer(&mut self, number: &Number, width: usize) -> Result<(i64, usize)> {
        let pattern = number.pattern;
        let spaces = self.rest.len() - self.rest.trim_start_matches(is_space).len();
        let text = self.rest.get(spaces..).unwrap_or_default();
        let of_width =
            text.char_indices().nth(width).map_or(text, |(end, _)| text.get(..end).unwrap_or(text));
        let found = match number.takes_all {
            true => integer_at(text),
            false if text.len() < width => {
                return Err(malformed(format!(
                    "source string too short for \"{}\" formatting field",
                    pattern.name
                ))
                .detail(format!("Field requires {width} characters, but only {} remain.", text.len()))
                .hint(USE_FM));
            }
            false => integer_at(of_width),
        };
        let wrong = || malformed(format!("invalid value \"{of_width}\" for \"{}\"", pattern.name));
        let Some(found) = found else {
            return Err(wrong().detail("Value must be an integer."));
        };
        if !number.takes_all && found.bytes < width {
            let parsed = found.bytes;
            let detail = format!("Field requires {width} characters, but only {parsed} could be parsed.");
            return Err(wrong().detail(detail).hint(USE_FM));
        }
        let value = in_range(found.value, pattern)?;
        self.advance(spaces + found.bytes);
        Ok((value, spaces + found.bytes))
    }

    /// Reads one of some names, in any case, and returns its place.
    fn name(&mut self, pattern: &Pattern, names: &[&str]) -> Result<i64> {
        let begins =
            |name: &&str| self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        match names.iter().position(begins) {
            Some(at) => {
                self.advance(names[at].len());
                Ok(at as i64)
            }
            None => {
                let shown = self.rest.split(is_space).next().unwrap_or_default();
                Err(malformed(format!("invalid value \"{shown}\" for \"{}\"", pattern.name))
                    .detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }
}

/// A number in the template.
struct Number {
    pattern: &'static Pattern,
    /// It has as many digits as there are.
    takes_all: bool,
}

/// True if a piece of the template, or its end, cannot go on with a number.
fn ends_number(next: Option<&Piece>) -> bool {
    match next {
        None => true,
        Some(Piece::Pattern { pattern, .. }) => !pattern.is_digits,
        Some(Piece::Literal(c) | Piece::Separator(c) | Piece::Space(c)) => !c.is_ascii_digit(),
    }
}

/// True for fields whose ordinal ending is read.
fn has_ordinal(field: Field) -> bool {
    use Field::*;
    !matches!(
        field,
        Fixed
            | HalfOfDay
            | Era
            | MonthName
            | MonthNameShort
            | MonthRoman
            | DayName
            | DayNameShort
            | Zone
            | Offset
            | OffsetHours
            | OffsetMinutes
    )
}

/// An integer at the beginning of a text, as C reads it.
struct Integer {
    /// None if it is out of range.
    value: Option<i64>,
    bytes: usize,
}

fn integer_at(text: &str) -> Option<Integer> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    let bytes = sign + digits;
    let value = text.get(..bytes).and_then(|number| number.parse().ok());
    (digits > 0).then_some(Integer { value, bytes })
}

fn in_range(value: Option<i64>, pattern: &Pattern) -> Result<i64> {
    let narrow = value.filter(|value| i32::try_from(*value).is_ok());
    narrow.ok_or_else(|| {
        let message = format!("value for \"{}\" in source string is out of range", pattern.name);
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
            .detail("Value must be in the range -2147483648 to 2147483647.")
    })
}

/// Sets a field, which must not be set to something else.
fn set(field: &mut i64, value: i64, pattern: &Pattern) -> Result<()> {
    if *field != 0 && *field != value {
        let name = pattern.name;
        return Err(malformed(format!("conflicting values for \"{name}\" field in formatting string"))
            .detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}

/// By how much digits behind the point are multiplied that were `taken` of `digits`.
fn scale(taken: usize, digits: usize) -> i64 {
    10_i64.pow(digits.saturating_sub(taken) as u32)
}

/// The year next to 2020 that a shorter one stands for.
fn next_to_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        1_000.. => year,
    }
}

impl Found {
    /// Notes the calendar of a pattern, which must be that of the others.
    fn keep_to(&mut self, pattern: &Pattern) -> Result<()> {
        let Some(convention) = pattern.convention else { return Ok(()) };
        if *self.convention.get_or_insert(convention) != convention {
            return Err(malformed("invalid combination of date conventions".into())
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        Ok(())
    }

    fn resolve(mut self, input: &str) -> Result<Read> {
        let overflow = || {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{input}\""),
            )
        };
        let micros = self.time().and_then(|micros| micros.ok_or_else(overflow))?;
        let [year, month, day] = self.date().and_then(|date| date.ok_or_else(overflow))?;
        let offset = match self.offset_sign {
            0 => None,
            sign if (0..16).contains(&self.offset_hours) && (0..60).contains(&self.offset_minutes) => {
                Some(sign * (self.offset_hours * 3_600 + self.offset_minutes * 60))
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
                    format!("time zone displacement out of range: \"{input}\""),
                ));
            }
        };
        Ok(Read { year, month, day, micros, offset, precision: self.precision })
    }

    /// Microseconds since midnight; none out of range.
    fn time(&self) -> Result<Option<i64>> {
        let or = |given: i64, otherwise: i64| if given != 0 { given } else { otherwise };
        let of_day = self.second_of_day;
        let mut hour = or(self.hour, of_day / 3_600);
        let minute = or(self.minute, of_day % 3_600 / 60);
        let second = or(self.second, of_day % 60);
        if self.is_12_hour_clock {
            if !(1..=12).contains(&hour) {
                return Err(malformed(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.is_pm != 0 { 12 } else { 0 };
        }
        let fraction = self.millis * 1_000 + self.micros;
        let is_time = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&fraction);
        Ok(is_time.then_some((hour * 3_600 + minute * 60 + second) * SECOND + fraction))
    }

    /// The year, if there is one or a century.
    fn resolved_year(&mut self) -> Option<i64> {
        let is_bc = self.is_bc != 0;
        let century = if is_bc { -self.century } else { self.century };
        match (self.year, self.century) {
            (0, 0) => None,
            (0, _) if century >= 0 => Some((century - 1) * 100 + 1),
            (0, _) => Some(century * 100 + 1),
            (year, given) if given != 0 && self.year_digits <= 2 => Some(match year % 100 {
                0 if century >= 0 => century * 100,
                0 => century * 100 + 1,
                year if century >= 0 => (century - 1) * 100 + year,
                year => (century + 1) * 100 - year + 1,
            }),
            (year, _) => {
                let year = if is_bc { -year } else { year };
                Some(if year < 0 { year + 1 } else { year })
            }
        }
    }

    /// Year, month and day; none out of range.
    fn date(&mut self) -> Result<Option<[i64; 3]>> {
        let given_year = self.resolved_year();
        let mut date = [given_year.unwrap_or(0), 1, 1];
        // Which of the three were given, as far as they are checked.
        let mut given = [given_year.is_some(), false, false];
        let of_julian_day = |day: i64| {
            let civil = Civil::of_day(day - EPOCH_JULIAN_DAY, 0);
            [civil.year, civil.month, civil.day].map(i64::from)
        };
        if self.julian_day != 0 {
            (date, given) = (of_julian_day(self.julian_day), [true; 3]);
        }
        let is_iso = self.convention == Some(Convention::IsoWeek);
        if self.week != 0 && is_iso {
            // A week without a day is its Monday.
            let day = if self.weekday == 0 { 0 } else { (self.weekday + 5) % 7 };
            (date, given) = (of_julian_day(first_monday(date[0]) + (self.week - 1) * 7 + day), [true; 3]);
        } else if self.week != 0 {
            self.day_of_year = (self.week - 1) * 7 + 1;
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        for (at, field) in [(1, self.month), (2, self.day)] {
            if field != 0 {
                (date[at], given[at]) = (field, true);
            }
        }
        if self.day_of_year != 0 && (date[1] <= 1 || date[2] <= 1) {
            if date[0] == 0 && self.is_bc == 0 {
                return Err(malformed("cannot calculate day of year without year information".into()));
            }
            if is_iso {
                (date, given) = (of_julian_day(first_monday(date[0]) - 1 + self.day_of_year), [true; 3]);
            } else {
                let (month, day) = month_of_day(date[0], self.day_of_year);
                date[1] = if date[1] <= 1 { month } else { date[1] };
                date[2] = if date[2] <= 1 { day } else { date[2] };
                (given[1], given[2]) = (true, true);
            }
        }
        let [year, month, day] = date;
        let is_month = !given[1] || (1..=12).contains(&month);
        let is_day = !given[2] || (1..=31).contains(&day);
        let is_date = || {
            let narrow = (i32::try_from(year), i32::try_from(month));
            matches!(narrow, (Ok(year), Ok(month)) if day <= month_days(year, month).into())
        };
        Ok((is_month && is_day && (given != [true; 3] || is_date())).then_some(date))
    }
}

/// The month and day of a day of a year; a month too many for a day too late.
fn month_of_day(year: i64, day_of_year: i64) -> (i64, i64) {
    let is_leap = i32::try_from(year).is_ok_and(is_leap);
    let year = if is_leap { 2000 } else { 2001 };
    let mut left = day_of_year;
    for month in 1..=12 {
        let length = i64::from(month_days(year, month));
        if left <= length {
            return (month.into(), left);
        }
        left -= length;
    }
    (13, left)
}

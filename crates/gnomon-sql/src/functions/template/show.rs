//! `to_char` of dates, times and intervals.

use super::{
    ROMAN_MONTHS,
    date::{Case, Field, Pattern, Piece, pieces},
    ordinal_ending,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Interval,
        datetime::{Civil, MONTHS, WEEKDAYS, split_clock},
    },
};

/// The fields of a time or an interval that a template shows.
pub(super) struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// From Sunday.
    weekday: i64,
    /// From 1; of an interval its length, about.
    day_of_year: i64,
    /// The offset in seconds east, and the abbreviation, if it has a zone.
    zone: Option<(i32, String)>,
    is_interval: bool,
}

impl Moment {
    pub fn of_time(civil: &Civil, zone: Option<(i32, String)>) -> Moment {
        let (hour, minute, second, micros) = civil.clock();
        Moment {
            year: civil.year.into(),
            month: civil.month.into(),
            day: civil.day.into(),
            hour,
            minute,
            second,
            micros,
            weekday: civil.weekday(),
            day_of_year: civil.day_of_year(),
            zone,
            is_interval: false,
        }
    }

    pub fn of_interval(interval: Interval) -> Moment {
        let (hour, minute, second, micros) = split_clock(interval.micros);
        let (year, month) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
        let day = i64::from(interval.days);
        Moment {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
            weekday: 0,
            day_of_year: (year * 12 + month) * 30 + day,
            zone: None,
            is_interval: true,
        }
    }

    /// A year as it is shown: there is none between 1 BC and 1 AD.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn julian_day(&self) -> i64 {
        julian_day(self.year, self.month, self.day)
    }

    /// The year and the week of ISO 8601, whose first week holds January 4.
    fn iso_week(&self) -> (i64, i64) {
        let day = self.julian_day();
        let first_of = |year: i64| first_monday(year);
        let mut year = self.year;
        if day < first_of(year) {
            year -= 1;
        }
        let week = (day - first_of(year)) / 7 + 1;
        if week >= 52 && day >= first_of(self.year + 1) {
            return (self.year + 1, (day - first_of(self.year + 1)) / 7 + 1);
        }
        (year, week)
    }
}

/// The number of a day since the beginning of 4714 BC, of months that intervals have too.
pub(super) fn julian_day(year: i64, month: i64, day: i64) -> i64 {
    let (month, year) = if month > 2 { (month + 1, year + 4_800) } else { (month + 13, year + 4_799) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days - 32_167 + 7_834 * month / 256 + day
}

/// The Julian day of the Monday of a year's first week.
pub(super) fn first_monday(year: i64) -> i64 {
    let fourth = julian_day(year, 1, 4);
    fourth - fourth.rem_euclid(7)
}

/// Shows a time by a template.
///
/// # Errors
/// 22007 for a pattern that an interval has nothing for.
pub(super) fn show(moment: &Moment, template: &str) -> Result<String> {
    let mut out = String::new();
    for piece in pieces(template) {
        match piece {
            Piece::Literal(c) | Piece::Separator(c) | Piece::Space(c) => out.push(c),
            Piece::Pattern { pattern, is_short, is_translated, ordinal } => {
                let style = Style { pattern, is_short, is_translated };
                if moment.is_interval && is_of_calendar(pattern.field) {
                    return Err(SqlError::new(
                        SqlState::INVALID_DATETIME_FORMAT,
                        "invalid format specification for an interval value",
                    )
                    .hint("Intervals are not tied to specific calendar dates."));
                }
                match style.number(moment) {
                    Some(number) => {
                        out.push_str(&number);
                        out.extend(ordinal.map(|upper| ordinal_ending(number.as_bytes(), upper)));
                    }
                    None => out.push_str(&style.words(moment)),
                }
            }
        }
    }
    Ok(out)
}

/// True for what intervals do not have.
fn is_of_calendar(field: Field) -> bool {
    use Field::*;
    matches!(
        field,
        Era | DayName
            | DayNameShort
            | Weekday
            | IsoWeekday
            | MonthName
            | MonthNameShort
            | Offset
            | OffsetHours
            | OffsetMinutes
            | Zone
    )
}

/// How a field is shown.
struct Style {
    pattern: &'static Pattern,
    is_short: bool,
    is_translated: bool,
}

impl Style {
    /// A number of at least so many digits, with zeros before it.
    fn padded(&self, value: i64, digits: usize) -> String {
        self.filled(value, digits + usize::from(value < 0))
    }

    /// A number of at least so many characters, its sign too, with zeros before it.
    fn filled(&self, value: i64, width: usize) -> String {
        if self.is_short { value.to_string() } else { format!("{value:0width$}") }
    }

    /// The text of a field that is a number and may have the ending of an ordinal; none if it is another.
    fn number(&self, moment: &Moment) -> Option<String> {
        // The width goes by the sign of the year, also of an ISO year, which may have another.
        let is_negative = moment.shown_year(moment.year) < 0;
        let last = |year: i64, digits: usize| {
            let year = moment.shown_year(year);
            match digits {
                1 => (year % 10).to_string(),
                4 => self.filled(year, 4 + usize::from(is_negative)),
                digits => self.filled(year % 10_i64.pow(digits as u32), digits + usize::from(is_negative)),
            }
        };
        let fraction = |digits: usize| format!("{:0digits$}", moment.micros / 10_i64.pow(6 - digits as u32));
        Some(match self.pattern.field {
            Field::Hour => self.padded(moment.hour, 2),
            Field::Hour12 if moment.hour % 12 == 0 => self.filled(12, 2 + usize::from(moment.hour < 0)),
            Field::Hour12 => self.padded(moment.hour % 12, 2),
            Field::Minute => self.padded(moment.minute, 2),
            Field::Second => self.padded(moment.second, 2),
            Field::Fraction(digits) => fraction(digits),
            Field::Milliseconds => fraction(3),
            Field::Microseconds => fraction(6),
            Field::SecondOfDay => (moment.hour * 3_600 + moment.minute * 60 + moment.second).to_string(),
            Field::Month => self.padded(moment.month, 2),
            Field::DayOfYear => self.filled(moment.day_of_year, 3),
            Field::DayOfIsoYear => {
                self.filled(moment.julian_day() - first_monday(moment.iso_week().0) + 1, 3)
            }
            Field::Day => self.filled(moment.day, 2),
            Field::Weekday => (moment.weekday + 1).to_string(),
            Field::IsoWeekday => (if moment.weekday == 0 { 7 } else { moment.weekday }).to_string(),
            Field::WeekOfYear => self.filled((moment.day_of_year - 1) / 7 + 1, 2),
            Field::WeekOfIsoYear => self.filled(moment.iso_week().1, 2),
            Field::WeekOfMonth => ((moment.day - 1) / 7 + 1).to_string(),
            Field::Quarter if moment.month == 0 => return None,
            Field::Quarter => ((moment.month - 1) / 3 + 1).to_string(),
            Field::Century => {
                let century = match moment.year {
                    year if moment.is_interval => year / 100,
                    year if year > 0 => (year - 1) / 100 + 1,
                    year => year / 100 - 1,
                };
                if century.abs() <= 99 { self.padded(century, 2) } else { century.to_string() }
            }
            Field::YearWithComma => {
                let year = moment.shown_year(moment.year);
                format!("{},{:03}", year / 1_000, year % 1_000)
            }
            Field::Year(digits) => last(moment.year, digits),
            Field::IsoYear(digits) => last(moment.iso_week().0, digits),
            Field::JulianDay => moment.julian_day().to_string(),
            _ => return None,
        })
    }

    /// The text of a field that is none.
    fn words(&self, moment: &Moment) -> String {
        match self.pattern.field {
            Field::Era => self.either("AD", "BC", moment.year <= 0),
            Field::HalfOfDay => self.either("AM", "PM", moment.hour % 24 >= 12),
            Field::MonthName => self.name(month_name(moment.month), 9),
            Field::MonthNameShort => self.name(short(month_name(moment.month)), 0),
            Field::DayName => self.name(day_name(moment.weekday), 9),
            Field::DayNameShort => self.name(short(day_name(moment.weekday)), 0),
            Field::MonthRoman => match roman_month(moment) {
                Some(roman) if self.is_short => self.cased(roman),
                Some(roman) => format!("{:4}", self.cased(roman)),
                None => String::new(),
            },
            Field::Zone => match &moment.zone {
                Some((_, abbreviation)) if self.pattern.case() == Case::Lower => abbreviation.to_lowercase(),
                Some((_, abbreviation)) => abbreviation.clone(),
                None => String::new(),
            },
            Field::Offset | Field::OffsetHours | Field::OffsetMinutes => self.offset(moment),
            _ => String::new(),
        }
    }

    fn offset(&self, moment: &Moment) -> String {
        let seconds = moment.zone.as_ref().map_or(0, |(seconds, _)| *seconds);
        let sign = if seconds < 0 { '-' } else { '+' };
        let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
        match self.pattern.field {
            Field::OffsetHours => format!("{sign}{hours:02}"),
            Field::OffsetMinutes => format!("{minutes:02}"),
            _ => {
                let hours = self.filled(hours.into(), 2);
                let is_whole = seconds.abs() % 3_600 == 0;
                if is_whole { format!("{sign}{hours}") } else { format!("{sign}{hours}:{minutes:02}") }
            }
        }
    }

    /// One of two words, with points between its letters where the pattern has them.
    fn either(&self, first: &str, second: &str, is_second: bool) -> String {
        let word = self.cased(if is_second { second } else { first });
        match self.pattern.name.contains('.') {
            true => word.chars().flat_map(|c| [c, '.']).collect(),
            false => word,
        }
    }

    /// A name, filled with spaces to a width unless it is short or translated.
    fn name(&self, name: &str, width: usize) -> String {
        let name = self.cased(name);
        if name.is_empty() || self.is_short || self.is_translated { name } else { format!("{name:width$}") }
    }

    fn cased(&self, word: &str) -> String {
        match self.pattern.case() {
            Case::Upper => word.to_uppercase(),
            Case::Lower => word.to_lowercase(),
            Case::Title => word.to_owned(),
        }
    }
}

fn month_name(month: i64) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or_default()
}

fn day_name(weekday: i64) -> &'static str {
    usize::try_from(weekday).ok().and_then(|day| WEEKDAYS.get(day)).copied().unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// A month in Roman numerals. Negative months of an interval count back from December; whole years are December too.
fn roman_month(moment: &Moment) -> Option<&'static str> {
    let month = match moment.month {
        0 if moment.year == 0 => return None,
        0 if moment.year > 0 => 12,
        0 => 1,
        month if month < 0 => month + 13,
        month => month,
    };
    usize::try_from(month - 1).ok().and_then(|month| ROMAN_MONTHS.get(month)).copied()
}

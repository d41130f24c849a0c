//! Dates, times, timestamps and intervals: the calendar, text in and out, time zones, arithmetic.
//!
//! A date counts days, a timestamp microseconds from 2000-01-01 in the proleptic Gregorian calendar; the extreme
//! integers are the infinities. Years are astronomical inside (0 is 1 BC). Text comes out in the style of the setting
//! DateStyle and is read in every common form, in the order of that setting where it is ambiguous.

mod abbreviation;
pub mod arithmetic;
mod interval;
mod interval_input;
mod output;
mod parse;
mod style;
mod zone;

pub use interval::{IntervalRange, IntervalStyle, write_interval};
pub use interval_input::parse_interval;
pub use output::{write_date, write_time, write_timestamp, write_timestamptz};
pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub use style::{DateFormat, DateOrder, DateStyle};
pub use zone::Zone;

use crate::{Result, SqlError, SqlState};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;
/// Seconds from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_SECONDS: i64 = 946_684_800;

/// The first timestamp: 4714-11-24 BC.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The first instant after the last timestamp: 294277-01-01.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// The first date: 4714-11-24 BC.
pub const DATE_MIN: i32 = -2_451_545;
/// The last date: 5874897-12-31.
pub const DATE_MAX: i32 = 2_147_483_493 - 2_451_545;

/// A timestamp taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Civil {
    /// The year, astronomical: 0 is 1 BC.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// Microseconds since midnight.
    pub micros: i64,
}

impl Civil {
    /// The day `days` after 2000-01-01, at `micros` since its midnight.
    pub fn of_day(days: i64, micros: i64) -> Civil {
        // Days from 0000-03-01, in eras of 400 years; months counted from March, so that February is last.
        let shifted = days + 730_425;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil { year: year as i32, month: month as i32, day: day as i32, micros }
    }

    /// The parts of a finite timestamp.
    pub fn of_timestamp(timestamp: i64) -> Civil {
        Civil::of_day(timestamp.div_euclid(DAY), timestamp.rem_euclid(DAY))
    }

    /// Days since 2000-01-01.
    pub fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// Microseconds since 2000-01-01 00:00.
    ///
    /// # Errors
    /// 22008 if it is no timestamp.
    pub fn timestamp(&self) -> Result<i64> {
        self.days()
            .checked_mul(DAY)
            .and_then(|t| t.checked_add(self.micros))
            .filter(|t| is_timestamp(*t))
            .ok_or_else(timestamp_out_of_range)
    }

    /// The hour, minute, second and microsecond.
    pub fn clock(&self) -> (i64, i64, i64, i64) {
        split_clock(self.micros)
    }

    /// 0 for Sunday to 6 for Saturday.
    pub fn weekday(&self) -> i64 {
        // 2000-01-01 was a Saturday.
        (self.days() + 6).rem_euclid(7)
    }

    /// 1 to 366.
    pub fn day_of_year(&self) -> i64 {
        self.days() - days_from_civil(self.year, 1, 1) + 1
    }

    /// The ISO 8601 year and week.
    pub fn iso_week(&self) -> (i32, i64) {
        let days = self.days();
        // The week belongs to the year of its Thursday.
        let monday_based = (days + 5).rem_euclid(7);
        let thursday = days - monday_based + 3;
        let year = Civil::of_day(thursday, 0).year;
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }
}

/// Microseconds of a day as hour, minute, second, microsecond.
pub fn split_clock(micros: i64) -> (i64, i64, i64, i64) {
    (micros / HOUR, micros / MINUTE % 60, micros / SECOND % 60, micros % SECOND)
}

/// Days since 2000-01-01 of a date that need not be valid (day 0 is the last of the month before).
pub fn days_from_civil(year: i32, month: i32, day: i32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = i64::from((month + 9).rem_euclid(12));
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 730_425
}

/// True if the year has a February 29.
pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The days of a month (1 to 12).
pub fn month_days(year: i32, month: i32) -> i32 {
    match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// True if it is a finite timestamp in range.
pub fn is_timestamp(timestamp: i64) -> bool {
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp)
}

/// True if it is a finite date in range.
pub fn is_date(days: i64) -> bool {
    (i64::from(DATE_MIN)..=i64::from(DATE_MAX)).contains(&days)
}

pub(crate) fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

pub(crate) fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// The three letters by which month names are told.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The names of the days, from Sunday.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Rounds microseconds to `precision` fractional digits of a second (half away from zero); none or more than 5
/// leaves them.
pub fn round_to_precision(micros: i64, precision: Option<i32>) -> i64 {
    let Some(digits @ 0..=5) = precision else { return micros };
    if micros == i64::MIN || micros == i64::MAX {
        return micros;
    }
    let unit = 10_i64.pow(6 - digits as u32);
    let half = unit / 2;
    if micros >= 0 {
        micros.saturating_add(half) / unit * unit
    } else {
        -((-micros).saturating_add(half) / unit * unit)
    }
}

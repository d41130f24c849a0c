//! Reading dates, times and timestamps in the many forms that people write them.
//!
//! The text is cut into fields (numbers, dates, times, words, displacements), and each field is taken for what is still
//! missing, as PostgreSQL's ParseDateTime, DecodeDateTime and DecodeTimeOnly do it, in their order: so what is no date
//! there is none here, with the same error.

mod calendar;
mod decoder;
mod field;
mod numeral;
mod word;

use self::decoder::{Decoded, Moment, Offset, decode};
pub(super) use self::{
    field::{Field, FieldKind},
    numeral::{Displacement, displacement},
};
use super::{Civil, DAY, TIMESTAMP_END, TIMESTAMP_MIN, UNIX_EPOCH_SECONDS, days_from_civil, is_date};
use crate::{Result, SqlError, SqlState, types::Context};

/// The first day of which a date may be written: 4714-11-01 BC; earlier ones have no Julian day.
const FIRST_DAY: (i32, i32) = (-4713, 11);
/// The first month after those of which a date may be written.
const END_OF_DAYS: (i32, i32) = (5_874_898, 6);

/// Reads a timestamp; a zone in the text is ignored.
///
/// # Errors
/// 22007 for what is none, 22008 for a field or result out of range.
pub fn parse_timestamp(cx: &Context, text: &str) -> Result<i64> {
    read(cx, text, "timestamp", false)?.timestamp(text, |local, _| local)
}

/// Reads a timestamptz; without a zone in the text the session's holds.
///
/// # Errors
/// As [`parse_timestamp`], and 22023 for an unknown zone.
pub fn parse_timestamptz(cx: &Context, text: &str) -> Result<i64> {
    read(cx, text, "timestamp with time zone", false)?.timestamp(text, |local, offset| match offset {
        Offset::OfSession => cx.zone.to_utc(local),
        Offset::Seconds(east) => local.saturating_sub(i64::from(*east) * super::SECOND),
        Offset::Zone(zone) => zone.to_utc(local),
    })
}

/// Reads a date; a time in the text is ignored.
///
/// # Errors
/// As [`parse_timestamp`].
pub fn parse_date(cx: &Context, text: &str) -> Result<i32> {
    let decoded = read(cx, text, "date", false)?;
    let days = match decoded.moment {
        Moment::Early => return Ok(i32::MIN),
        Moment::Late => return Ok(i32::MAX),
        Moment::Epoch => days_from_civil(1970, 1, 1),
        Moment::Fields if is_written(decoded.civil) => decoded.civil.days(),
        Moment::Fields => return Err(range_error("date", text)),
    };
    match i32::try_from(days) {
        Ok(day) if is_date(days) => Ok(day),
        _ => Err(range_error("date", text)),
    }
}

/// Reads a time; a date and a zone in the text are ignored.
///
/// # Errors
/// As [`parse_timestamp`].
pub fn parse_time(cx: &Context, text: &str) -> Result<i64> {
    Ok(read(cx, text, "time", true)?.civil.micros)
}

impl Decoded {
    /// Returns the timestamp that `resolve` makes of the local one and the offset of the text.
    fn timestamp(&self, text: &str, resolve: impl FnOnce(i64, &Offset) -> i64) -> Result<i64> {
        let out_of_range = || range_error("timestamp", text);
        match self.moment {
            Moment::Early => return Ok(i64::MIN),
            Moment::Late => return Ok(i64::MAX),
            Moment::Epoch => return Ok(-UNIX_EPOCH_SECONDS * super::SECOND),
            Moment::Fields if is_written(self.civil) => {}
            Moment::Fields => return Err(out_of_range()),
        }
        let local = self.civil.days().checked_mul(DAY).and_then(|day| day.checked_add(self.civil.micros));
        // A local time beyond the range may be one within it elsewhere.
        let time = local.filter(|local| *local < TIMESTAMP_END + DAY && *local >= TIMESTAMP_MIN - DAY);
        let time = time.map(|local| resolve(local, &self.offset)).ok_or_else(out_of_range)?;
        if super::is_timestamp(time) { Ok(time) } else { Err(out_of_range()) }
    }
}

/// True if a day is one of those that have a Julian day.
fn is_written(civil: Civil) -> bool {
    (FIRST_DAY..END_OF_DAYS).contains(&(civil.year, civil.month))
}

pub(super) fn malformed(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn range_error(what: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

/// The most characters that the fields of a date or a time may have together.
const FIELDS_LENGTH_MAX: usize = 152;

/// The reason why a field does not fit.
pub(super) enum Misfit {
    Format,
    Range,
    /// A month or day out of range, which another DateStyle might explain.
    MonthOrDay,
    Displacement,
    UnknownZone(String),
}

fn read(cx: &Context, text: &str, type_name: &str, is_time: bool) -> Result<Decoded> {
    let lower = text.to_ascii_lowercase();
    let decoded = Field::all(&lower, FIELDS_LENGTH_MAX).and_then(|fields| decode(cx, &fields, is_time));
    decoded.map_err(|misfit| {
        let field_overflow = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        };
        match misfit {
            Misfit::Format => malformed(type_name, text),
            Misfit::Range => field_overflow(),
            Misfit::MonthOrDay => {
                field_overflow().hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Misfit::Displacement => SqlError::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Misfit::UnknownZone(name) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            ),
        }
    })
}

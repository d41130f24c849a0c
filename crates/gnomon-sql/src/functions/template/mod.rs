//! Templates: `to_char`, `to_date`, `to_timestamp` and `to_number`.
//!
//! `date` cuts the template of a time into pieces, `show` writes by them and `read` reads. `picture`, `number` and
//! `number_text` do the same for numbers. Names of days and months are English.

mod date;
mod number;
mod number_text;
mod picture;
mod read;
mod show;

use self::{
    read::{Read, read},
    show::{Moment, show},
};
use super::{
    arguments::{any, micros, text},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Type,
        cast::{CastContext, cast},
        datetime::{Civil, Zone, arithmetic, is_date, is_timestamp, round_to_precision},
        limit::too_long,
    },
};

/// The longest template that is read, in bytes: each of them becomes some tens in memory.
const TEMPLATE_BYTES_MAX: usize = 1 << 20;

const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The calendar that a field belongs to. A template keeps to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

/// The template of a call, its second argument.
fn template_of(a: &[Datum]) -> Result<&str> {
    let template = text(a, 1)?;
    if template.len() > TEMPLATE_BYTES_MAX { Err(too_long()) } else { Ok(template) }
}

/// The ending of an ordinal number: `1st`, `22ND`, `13th`.
fn ordinal_ending(number: &[u8], upper: bool) -> &'static str {
    let mut digits = number.iter().rev().filter(|b| b.is_ascii_digit());
    let last = digits.next();
    let teen = digits.next() == Some(&b'1');
    let ending = match last {
        Some(b'1') if !teen => ["st", "ST"],
        Some(b'2') if !teen => ["nd", "ND"],
        Some(b'3') if !teen => ["rd", "RD"],
        _ => ["th", "TH"],
    };
    ending[usize::from(upper)]
}

fn to_char(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let template = template_of(a)?;
    let moment = match any(a, 0)? {
        _ if template.is_empty() => return Ok(Datum::Null),
        Datum::Timestamp(t) | Datum::Timestamptz(t) if arithmetic::is_infinite(*t) => return Ok(Datum::Null),
        Datum::Timestamptz(t) => {
            let zone = (cx.zone.offset_at(*t), cx.zone.abbreviation_at(*t));
            Moment::of_time(&Civil::of_timestamp(cx.zone.to_local(*t)), Some(zone))
        }
        Datum::Interval(value) => Moment::of_interval(*value),
        _ => Moment::of_time(&Civil::of_timestamp(micros(a, 0)?), None),
    };
    show(&moment, template).map(Datum::text)
}

fn to_date(_: &Context, a: &[Datum]) -> Result<Datum> {
    let input = text(a, 0)?;
    let days = read(input, template_of(a)?)?.days().filter(|days| is_date(*days));
    let days = days.and_then(|days| i32::try_from(days).ok());
    days.map(Datum::Date).ok_or_else(|| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{input}\""))
    })
}

fn to_timestamp(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let read = read(text(a, 0)?, template_of(a)?)?;
    let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let local = read.civil().ok_or_else(out_of_range)?.timestamp()?;
    let timestamp = match read {
        Read { offset: Some(seconds), .. } => {
            Zone::fixed(i32::try_from(seconds).map_err(|_| out_of_range())?).to_utc(local)
        }
        _ => {
            let local = Datum::Timestamp(local);
            match cast(cx, local, Type::Timestamp, Type::Timestamptz.into(), CastContext::Explicit)? {
                Datum::Timestamptz(timestamp) => timestamp,
                other => return Ok(other),
            }
        }
    };
    if !is_timestamp(timestamp) {
        return Err(out_of_range());
    }
    Ok(Datum::Timestamptz(round_to_precision(timestamp, read.precision)))
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [Type::Timestamp, Type::Timestamptz, Type::Interval] {
        all.add("to_char", &[ty, Type::Text], Type::Text, to_char).stable();
    }
    all.add("to_date", &[Type::Text, Type::Text], Type::Date, to_date).stable();
    all.add("to_timestamp", &[Type::Text, Type::Text], Type::Timestamptz, to_timestamp).stable();
    number::declare(all);
}

//! Functions and operators of dates, times and intervals.

use super::{
    Eval,
    arguments::{any, date, float, integer, interval, invalid, micros, text},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        ColumnType, Context, Datum, Interval, Numeric, Type,
        cast::{CastContext, cast},
        datetime::{
            Civil, DAY, HOUR, MINUTE, SECOND, UNIX_EPOCH_SECONDS, Zone,
            arithmetic::{self, DateField},
            is_timestamp, month_days,
        },
        format_type,
    },
};

const TEXT: Type = Type::Text;
const DATE: Type = Type::Date;
const TIME: Type = Type::Time;
const TIMESTAMP: Type = Type::Timestamp;
const TIMESTAMPTZ: Type = Type::Timestamptz;
const INTERVAL: Type = Type::Interval;
const FLOAT8: Type = Type::Float8;
const INT4: Type = Type::Int4;

/// A value cast to another type, as the date arithmetic needs it.
fn as_type(cx: &Context, datum: &Datum, ty: Type) -> Result<Datum> {
    cast(cx, datum.clone(), datum.natural_type(), ColumnType::from(ty), CastContext::Explicit)
}

/// The timestamp at a date's midnight.
fn midnight(cx: &Context, a: &[Datum], i: usize) -> Result<i64> {
    micros(&[as_type(cx, any(a, i)?, TIMESTAMP)?], 0)
}

fn field(name: &str, ty: Type) -> Result<DateField> {
    DateField::parse(name)
        .ok_or_else(|| invalid(format!("unit \"{name}\" not recognized for type {}", format_type(ty, None))))
}

/// A field to cut at: those that only `extract` knows are not recognized.
fn trunc_field(name: &str, ty: Type) -> Result<DateField> {
    match field(name, ty)? {
        DateField::Dow
        | DateField::Isodow
        | DateField::Doy
        | DateField::Isoyear
        | DateField::Julian
        | DateField::Epoch => {
            Err(invalid(format!("unit \"{name}\" not recognized for type {}", format_type(ty, None))))
        }
        field => Ok(field),
    }
}

fn unsupported_field(name: &str, ty: Type) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{name}\" not supported for type {}", format_type(ty, None)),
    )
}

fn zone(name: &str) -> Result<Zone> {
    Zone::parse_or_abbreviation(name).ok_or_else(|| invalid(format!("time zone \"{name}\" not recognized")))
}

/// The zone of `make_timestamptz`: a displacement that counts eastward, an abbreviation or a name.
fn made_zone(name: &str) -> Result<Zone> {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(invalid(format!("invalid input syntax for type numeric time zone: \"{name}\""))
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match Zone::of_displacement(name)? {
        Some(displaced) => Ok(displaced),
        None => zone(name),
    }
}

/// The zone that an interval displaces by.
fn zone_of_interval(cx: &Context, value: Interval) -> Result<Zone> {
    if value.months != 0 || value.days != 0 {
        let mut shown = String::new();
        crate::types::datetime::write_interval(&mut shown, value, cx.interval_style);
        return Err(invalid(format!("interval time zone \"{shown}\" must not include months or days")));
    }
    i32::try_from(value.micros / SECOND).map(Zone::fixed).map_err(|_| arithmetic_out_of_range())
}

fn arithmetic_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

fn in_range(timestamp: i64) -> Result<i64> {
    if arithmetic::is_infinite(timestamp) || is_timestamp(timestamp) {
        Ok(timestamp)
    } else {
        Err(arithmetic_out_of_range())
    }
}

/// Cuts a timestamp of a zone.
fn trunc_in_zone(timestamptz: i64, zone: &Zone, name: &str) -> Result<Datum> {
    let field = trunc_field(name, TIMESTAMPTZ)?;
    if arithmetic::is_infinite(timestamptz) {
        return Ok(Datum::Timestamptz(timestamptz));
    }
    let local = zone.to_local(timestamptz);
    let cut = arithmetic::truncate(local, field).ok_or_else(|| unsupported_field(name, TIMESTAMPTZ))?;
    // Below a day the offset stays what it is, which matters where an hour repeats.
    let fine = matches!(
        field,
        DateField::Microseconds
            | DateField::Milliseconds
            | DateField::Second
            | DateField::Minute
            | DateField::Hour
    );
    Ok(Datum::Timestamptz(in_range(if fine { timestamptz - (local - cut) } else { zone.to_utc(cut) })?))
}

/// A number with `scale` digits after the point from its millionths.
fn millionths(value: i128, unit: i64, scale: i64) -> Numeric {
    Numeric::new((value * 10_i128.pow(scale as u32) / i128::from(unit)).into(), scale)
}

/// A field of a finite local timestamp; none if timestamps have no such field.
fn extract_local(timestamp: i64, field: DateField) -> Result<Option<Numeric>> {
    let civil = Civil::of_timestamp(timestamp);
    let year = i64::from(civil.year);
    let (hour, minute, second, micro) = civil.clock();
    // There is no year 0: what lies before counts from -1.
    let shown_year = if year > 0 { year } else { year - 1 };
    let integer = |value: i64| Ok(Some(Numeric::from(value)));
    match field {
        DateField::Microseconds => integer(second * SECOND + micro),
        DateField::Milliseconds => Ok(Some(millionths((second * SECOND + micro).into(), 1_000, 3))),
        DateField::Second => Ok(Some(millionths((second * SECOND + micro).into(), SECOND, 6))),
        DateField::Minute => integer(minute),
        DateField::Hour => integer(hour),
        DateField::Day => integer(civil.day.into()),
        DateField::Month => integer(civil.month.into()),
        DateField::Quarter => integer(i64::from(civil.month - 1) / 3 + 1),
        DateField::Week => integer(civil.iso_week().1),
        DateField::Year => integer(shown_year),
        DateField::Decade => integer(year.div_euclid(10)),
        DateField::Century => integer(if year > 0 { (year + 99) / 100 } else { -((99 - (year - 1)) / 100) }),
        DateField::Millennium => {
            integer(if year > 0 { (year + 999) / 1000 } else { -((999 - (year - 1)) / 1000) })
        }
        DateField::Isoyear => {
            let year = i64::from(civil.iso_week().0);
            integer(if year > 0 { year } else { year - 1 })
        }
        DateField::Dow => integer(civil.weekday()),
        DateField::Isodow => integer(if civil.weekday() == 0 { 7 } else { civil.weekday() }),
        DateField::Doy => integer(civil.day_of_year()),
        DateField::Julian => {
            let part = Numeric::from(civil.micros).div(&Numeric::from(DAY))?;
            Numeric::from(civil.days() + 2_451_545).add(&part).map(Some)
        }
        DateField::Epoch => {
            let micros = i128::from(timestamp) + i128::from(UNIX_EPOCH_SECONDS) * i128::from(SECOND);
            Ok(Some(millionths(micros, SECOND, 6)))
        }
        DateField::Timezone | DateField::TimezoneHour | DateField::TimezoneMinute => Ok(None),
    }
}

/// Returns a field of an infinite time: infinite if the field grows without end, else NULL.
fn extract_infinite(field: DateField, negative: bool) -> Datum {
    match field {
        DateField::Year
        | DateField::Decade
        | DateField::Century
        | DateField::Millennium
        | DateField::Julian
        | DateField::Isoyear
        | DateField::Epoch => {
            Datum::Numeric(if negative { Numeric::NegativeInfinity } else { Numeric::Infinity })
        }
        _ => Datum::Null,
    }
}

fn extract_interval(value: Interval, field: DateField) -> Option<Numeric> {
    let months = i64::from(value.months);
    let (hour, minute) = (value.micros / HOUR, value.micros / MINUTE % 60);
    let seconds = value.micros % MINUTE;
    let integer = |value: i64| Some(Numeric::from(value));
    match field {
        DateField::Microseconds => integer(seconds),
        DateField::Milliseconds => Some(millionths(seconds.into(), 1_000, 3)),
        DateField::Second => Some(millionths(seconds.into(), SECOND, 6)),
        DateField::Minute => integer(minute),
        DateField::Hour => integer(hour),
        DateField::Day => integer(value.days.into()),
        DateField::Month => integer(months % 12),
        DateField::Quarter => integer(months % 12 / 3 + 1),
        DateField::Year => integer(months / 12),
        DateField::Decade => integer(months / 120),
        DateField::Century => integer(months / 1_200),
        DateField::Millennium => integer(months / 12_000),
        DateField::Epoch => {
            // A year has 365.25 days here.
            let days = i128::from(months / 12) * 36_525
                + (i128::from(months % 12) * 30 + i128::from(value.days)) * 100;
            Some(millionths(days * i128::from(DAY) / 100 + i128::from(value.micros), SECOND, 6))
        }
        _ => None,
    }
}

fn extract(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let name = text(a, 0)?;
    let value = any(a, 1)?;
    let ty = value.natural_type();
    let field = field(name, ty)?;
    let missing = || unsupported_field(name, ty);
    Ok(match value {
        Datum::Timestamp(t) if arithmetic::is_infinite(*t) => extract_infinite(field, *t < 0),
        Datum::Timestamptz(t) if arithmetic::is_infinite(*t) => extract_infinite(field, *t < 0),
        Datum::Timestamp(t) => Datum::Numeric(extract_local(*t, field)?.ok_or_else(missing)?),
        Datum::Timestamptz(t) => {
            let offset = i64::from(cx.zone.offset_at(*t));
            Datum::Numeric(match field {
                DateField::Timezone => Numeric::from(offset),
                DateField::TimezoneHour => Numeric::from(offset / 3_600),
                DateField::TimezoneMinute => Numeric::from(offset / 60 % 60),
                DateField::Epoch => extract_local(*t, field)?.ok_or_else(missing)?,
                _ => extract_local(cx.zone.to_local(*t), field)?.ok_or_else(missing)?,
            })
        }
        Datum::Date(days) if *days == i32::MIN || *days == i32::MAX => extract_infinite(field, *days < 0),
        Datum::Date(days) => {
            let whole = match field {
                DateField::Epoch => Some(i64::from(*days) * 86_400 + UNIX_EPOCH_SECONDS),
                DateField::Julian => Some(i64::from(*days) + 2_451_545),
                DateField::Microseconds
                | DateField::Milliseconds
                | DateField::Second
                | DateField::Minute
                | DateField::Hour
                | DateField::Timezone
                | DateField::TimezoneHour
                | DateField::TimezoneMinute => return Err(missing()),
                _ => None,
            };
            match whole {
                Some(whole) => Datum::Numeric(Numeric::from(whole)),
                None => {
                    // Dates reach further than timestamps; the fields of a day need no time.
                    let civil = Civil::of_day(i64::from(*days), 0);
                    // The calendar repeats every 400 years.
                    let near = Civil { year: 2000 + civil.year.rem_euclid(400), ..civil };
                    let numeric = match field {
                        DateField::Year
                        | DateField::Decade
                        | DateField::Century
                        | DateField::Millennium
                        | DateField::Isoyear => extract_far(&civil, field),
                        _ => extract_local(near.days() * DAY, field)?.ok_or_else(missing)?,
                    };
                    Datum::Numeric(numeric)
                }
            }
        }
        Datum::Time(micros) => {
            let (second, rest) = (*micros % MINUTE, *micros);
            Datum::Numeric(match field {
                DateField::Microseconds => Numeric::from(second),
                DateField::Milliseconds => millionths(second.into(), 1_000, 3),
                DateField::Second => millionths(second.into(), SECOND, 6),
                DateField::Minute => Numeric::from(rest / MINUTE % 60),
                DateField::Hour => Numeric::from(rest / HOUR),
                DateField::Epoch => millionths(rest.into(), SECOND, 6),
                _ => return Err(missing()),
            })
        }
        _ => Datum::Numeric(extract_interval(interval(a, 1)?, field).ok_or_else(missing)?),
    })
}

/// The fields of a date that its year alone decides.
fn extract_far(civil: &Civil, field: DateField) -> Numeric {
    let year = i64::from(civil.year);
    let iso = i64::from(civil.iso_week().0);
    Numeric::from(match field {
        DateField::Decade => year.div_euclid(10),
        DateField::Century if year > 0 => (year + 99) / 100,
        DateField::Century => -((99 - (year - 1)) / 100),
        DateField::Millennium if year > 0 => (year + 999) / 1000,
        DateField::Millennium => -((999 - (year - 1)) / 1000),
        DateField::Isoyear if iso > 0 => iso,
        DateField::Isoyear => iso - 1,
        _ if year > 0 => year,
        _ => year - 1,
    })
}

fn make_date(a: &[Datum]) -> Result<Civil> {
    let (year, month, day) = (integer(a, 0)?, integer(a, 1)?, integer(a, 2)?);
    // A negative year is one BC.
    let astronomical = if year < 0 { year + 1 } else { year };
    let fail = || {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        )
    };
    let narrow = |value: i64| i32::try_from(value).map_err(|_| fail());
    let civil = Civil { year: narrow(astronomical)?, month: narrow(month)?, day: narrow(day)?, micros: 0 };
    if year == 0
        || !(1..=12).contains(&civil.month)
        || civil.day < 1
        || civil.day > month_days(civil.year, civil.month)
    {
        return Err(fail());
    }
    Ok(civil)
}

fn make_time(a: &[Datum], from: usize) -> Result<i64> {
    let (hour, minute, second) = (integer(a, from)?, integer(a, from + 1)?, float(a, from + 2)?);
    let micros = (second * SECOND as f64).round_ties_even();
    let fine = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&second)
        && (hour < 24 || (minute == 0 && second == 0.0));
    if !fine {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
        ));
    }
    Ok(hour * HOUR + minute * MINUTE + micros as i64)
}

fn make_interval(a: &[Datum]) -> Result<Datum> {
    let part = |i: usize| integer(a, i);
    let seconds = float(a, 6)?;
    let fail = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    let months = part(0)? * 12 + part(1)?;
    let days = part(2)? * 7 + part(3)?;
    let seconds = (seconds * SECOND as f64).round_ties_even();
    if seconds.is_nan() || seconds.abs() >= 9.2e18 {
        return Err(fail());
    }
    let micros =
        i128::from(part(4)?) * i128::from(HOUR) + i128::from(part(5)?) * i128::from(MINUTE) + seconds as i128;
    Ok(Datum::Interval(Interval {
        months: i32::try_from(months).map_err(|_| fail())?,
        days: i32::try_from(days).map_err(|_| fail())?,
        micros: i64::try_from(micros).map_err(|_| fail())?,
    }))
}

/// Today in the session's zone, as a timestamp at midnight.
fn today(cx: &Context) -> i64 {
    let local = cx.zone.to_local(cx.transaction_time);
    local - local.rem_euclid(DAY)
}

fn date_bin(a: &[Datum], wrap: fn(i64) -> Datum) -> Result<Datum> {
    let (stride, source, origin) = (interval(a, 0)?, micros(a, 1)?, micros(a, 2)?);
    if arithmetic::is_infinite(source) {
        return Ok(wrap(source));
    }
    if arithmetic::is_infinite(origin) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "origin out of range"));
    }
    if stride.months != 0 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let width = i128::from(stride.days) * i128::from(DAY) + i128::from(stride.micros);
    let overflow = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    let width = i64::try_from(width).map_err(|_| overflow())?;
    if width <= 0 {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "stride must be greater than zero"));
    }
    let since = source.checked_sub(origin).ok_or_else(overflow)?;
    let binned = (since - since.rem_euclid(width)).checked_add(origin).ok_or_else(arithmetic_out_of_range)?;
    Ok(wrap(in_range(binned)?))
}

pub(super) fn declare(all: &mut Declarations) {
    clocks(all);
    fields(all);
    makers(all);
    zones(all);
}

fn clocks(all: &mut Declarations) {
    for name in ["now", "current_timestamp", "transaction_timestamp"] {
        all.add::<Type>(name, &[], TIMESTAMPTZ, |cx, _| Ok(Datum::Timestamptz(cx.transaction_time))).stable();
    }
    all.add::<Type>("statement_timestamp", &[], TIMESTAMPTZ, |cx, _| {
        Ok(Datum::Timestamptz(cx.statement_time))
    })
    .stable();
    all.add::<Type>("clock_timestamp", &[], TIMESTAMPTZ, |cx, _| {
        Ok(Datum::Timestamptz(cx.environment.clock()))
    })
    .volatile();
    all.add::<Type>("localtimestamp", &[], TIMESTAMP, |cx, _| {
        Ok(Datum::Timestamp(cx.zone.to_local(cx.transaction_time)))
    })
    .stable();
    all.add::<Type>("current_date", &[], DATE, |cx, _| as_type(cx, &Datum::Timestamp(today(cx)), DATE))
        .stable();
    all.add::<Type>("localtime", &[], TIME, |cx, _| {
        Ok(Datum::Time(cx.zone.to_local(cx.transaction_time).rem_euclid(DAY)))
    })
    .stable();
}

fn fields(all: &mut Declarations) {
    all.add("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, |_, a| {
        let (name, timestamp) = (text(a, 0)?, micros(a, 1)?);
        let field = trunc_field(name, TIMESTAMP)?;
        if arithmetic::is_infinite(timestamp) {
            return Ok(Datum::Timestamp(timestamp));
        }
        let cut = arithmetic::truncate(timestamp, field).ok_or_else(|| unsupported_field(name, TIMESTAMP))?;
        Ok(Datum::Timestamp(in_range(cut)?))
    });
    all.add("date_trunc", &[TEXT, TIMESTAMPTZ], TIMESTAMPTZ, |cx, a| {
        trunc_in_zone(micros(a, 1)?, &cx.zone, text(a, 0)?)
    })
    .stable();
    all.add("date_trunc", &[TEXT, TIMESTAMPTZ, TEXT], TIMESTAMPTZ, |_, a| {
        trunc_in_zone(micros(a, 1)?, &zone(text(a, 2)?)?, text(a, 0)?)
    });
    all.add("date_trunc", &[TEXT, INTERVAL], INTERVAL, |_, a| {
        let name = text(a, 0)?;
        let field = trunc_field(name, INTERVAL)?;
        let cut = arithmetic::truncate_interval(interval(a, 1)?, field);
        cut.map(Datum::Interval).ok_or_else(|| match field {
            DateField::Week => {
                unsupported_field(name, INTERVAL).detail("Months usually have fractional weeks.")
            }
            _ => unsupported_field(name, INTERVAL),
        })
    });
    all.add("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], TIMESTAMP, |_, a| date_bin(a, Datum::Timestamp));
    all.add("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], TIMESTAMPTZ, |_, a| {
        date_bin(a, Datum::Timestamptz)
    });
    for ty in [TIMESTAMP, TIMESTAMPTZ, DATE, TIME, INTERVAL] {
        all.add("extract", &[TEXT, ty], Type::Numeric, extract).stable();
        all.add("date_part", &[TEXT, ty], FLOAT8, |cx, a| {
            // Unlike extract, date_part lets dates have the fields of their midnight.
            let widened = match any(a, 1)? {
                Datum::Date(_) => vec![any(a, 0)?.clone(), Datum::Timestamp(midnight(cx, a, 1)?)],
                _ => a.to_vec(),
            };
            Ok(match extract(cx, &widened)? {
                Datum::Numeric(value) => Datum::Float8(value.to_f64()),
                other => other,
            })
        })
        .stable();
    }
    all.add("age", &[TIMESTAMP, TIMESTAMP], INTERVAL, |_, a| {
        arithmetic::age(micros(a, 0)?, micros(a, 1)?).map(Datum::Interval)
    });
    all.add("age", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |cx, a| {
        arithmetic::age(cx.zone.to_local(micros(a, 0)?), cx.zone.to_local(micros(a, 1)?)).map(Datum::Interval)
    })
    .stable();
    all.add("age", &[TIMESTAMP], INTERVAL, |cx, a| {
        arithmetic::age(today(cx), micros(a, 0)?).map(Datum::Interval)
    })
    .stable();
    all.add("age", &[TIMESTAMPTZ], INTERVAL, |cx, a| {
        arithmetic::age(today(cx), cx.zone.to_local(micros(a, 0)?)).map(Datum::Interval)
    })
    .stable();
    let justify: [(&'static str, Eval); 3] = [
        ("justify_hours", |_, a| arithmetic::justify_hours(interval(a, 0)?).map(Datum::Interval)),
        ("justify_days", |_, a| arithmetic::justify_days(interval(a, 0)?).map(Datum::Interval)),
        ("justify_interval", |_, a| arithmetic::justify_interval(interval(a, 0)?).map(Datum::Interval)),
    ];
    for (name, eval) in justify {
        all.add(name, &[INTERVAL], INTERVAL, eval);
    }
    all.add("isfinite", &[DATE], Type::Bool, |_, a| {
        Ok(Datum::Bool(!matches!(date(a, 0)?, i32::MIN | i32::MAX)))
    });
    for ty in [TIMESTAMP, TIMESTAMPTZ] {
        all.add("isfinite", &[ty], Type::Bool, |_, a| {
            Ok(Datum::Bool(!arithmetic::is_infinite(micros(a, 0)?)))
        });
    }
    all.add("isfinite", &[INTERVAL], Type::Bool, |_, _| Ok(Datum::Bool(true)));
}

fn makers(all: &mut Declarations) {
    all.add("make_date", &[INT4, INT4, INT4], DATE, |_, a| {
        let days = make_date(a)?.days();
        if !crate::types::datetime::is_date(days) {
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"));
        }
        Ok(Datum::Date(days as i32))
    })
    .names(&["year", "month", "day"]);
    all.add("make_time", &[INT4, INT4, FLOAT8], TIME, |_, a| make_time(a, 0).map(Datum::Time))
        .names(&["hour", "min", "sec"]);
    let names = &["year", "month", "mday", "hour", "min", "sec", "timezone"];
    let parts = [INT4, INT4, INT4, INT4, INT4, FLOAT8];
    all.add("make_timestamp", &parts, TIMESTAMP, |_, a| {
        let civil = Civil { micros: make_time(a, 3)?, ..make_date(a)? };
        civil.timestamp().map(Datum::Timestamp)
    })
    .names(&names[..6]);
    all.add("make_timestamptz", &parts, TIMESTAMPTZ, |cx, a| {
        let civil = Civil { micros: make_time(a, 3)?, ..make_date(a)? };
        Ok(Datum::Timestamptz(in_range(cx.zone.to_utc(civil.timestamp()?))?))
    })
    .names(&names[..6])
    .stable();
    all.add("make_timestamptz", &[INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT], TIMESTAMPTZ, |_, a| {
        let civil = Civil { micros: make_time(a, 3)?, ..make_date(a)? };
        Ok(Datum::Timestamptz(in_range(made_zone(text(a, 6)?)?.to_utc(civil.timestamp()?))?))
    })
    .names(names);
    let parts = [INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8];
    let zero = || vec![Datum::Int4(0); 6].into_iter().chain([Datum::Float8(0.0)]).collect();
    all.add("make_interval", &parts, INTERVAL, |_, a| make_interval(a))
        .names(&["years", "months", "weeks", "days", "hours", "mins", "secs"])
        .defaults(zero());
    all.add("timestamp", &[DATE, TIME], TIMESTAMP, |cx, a| date_and_time(cx, a, 0, 1));
    all.add("timestamptz", &[DATE, TIME], TIMESTAMPTZ, |cx, a| {
        as_type(cx, &date_and_time(cx, a, 0, 1)?, TIMESTAMPTZ)
    })
    .stable();
    all.add("to_timestamp", &[FLOAT8], TIMESTAMPTZ, |_, a| {
        let seconds = float(a, 0)?;
        if seconds.is_nan() {
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN"));
        }
        if seconds.is_infinite() {
            return Ok(Datum::Timestamptz(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
        }
        let micros = ((seconds - UNIX_EPOCH_SECONDS as f64) * SECOND as f64).round_ties_even();
        let timestamp = micros as i64;
        if micros.abs() > 9.3e18 || !is_timestamp(timestamp) {
            return Err(SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("timestamp out of range: \"{seconds}\""),
            ));
        }
        Ok(Datum::Timestamptz(timestamp))
    });
}

fn zones(all: &mut Declarations) {
    // AT TIME ZONE: from a local time of the zone to the instant, and back.
    all.add("timezone", &[TEXT, TIMESTAMP], TIMESTAMPTZ, |_, a| {
        Ok(Datum::Timestamptz(in_range(zone(text(a, 0)?)?.to_utc(micros(a, 1)?))?))
    });
    all.add("timezone", &[TEXT, TIMESTAMPTZ], TIMESTAMP, |_, a| {
        Ok(Datum::Timestamp(in_range(zone(text(a, 0)?)?.to_local(micros(a, 1)?))?))
    });
    all.add("timezone", &[INTERVAL, TIMESTAMP], TIMESTAMPTZ, |cx, a| {
        Ok(Datum::Timestamptz(in_range(zone_of_interval(cx, interval(a, 0)?)?.to_utc(micros(a, 1)?))?))
    });
    all.add("timezone", &[INTERVAL, TIMESTAMPTZ], TIMESTAMP, |cx, a| {
        Ok(Datum::Timestamp(in_range(zone_of_interval(cx, interval(a, 0)?)?.to_local(micros(a, 1)?))?))
    });
}

/// The time of day after an interval, around midnight.
pub(super) fn time_add(micros: i64, value: Interval) -> Datum {
    Datum::Time((i128::from(micros) + i128::from(value.micros)).rem_euclid(i128::from(DAY)) as i64)
}

/// A date at a time of day.
fn date_and_time(cx: &Context, a: &[Datum], date_at: usize, time_at: usize) -> Result<Datum> {
    let midnight = midnight(cx, a, date_at)?;
    if arithmetic::is_infinite(midnight) {
        return Ok(Datum::Timestamp(midnight));
    }
    Ok(Datum::Timestamp(in_range(midnight.saturating_add(micros(a, time_at)?))?))
}

pub(super) fn declare_operators(all: &mut Declarations) {
    sums(all);
    differences(all);
    all.add("*", &[INTERVAL, FLOAT8], INTERVAL, |_, a| {
        arithmetic::interval_multiply(interval(a, 0)?, float(a, 1)?).map(Datum::Interval)
    });
    all.add("*", &[FLOAT8, INTERVAL], INTERVAL, |_, a| {
        arithmetic::interval_multiply(interval(a, 1)?, float(a, 0)?).map(Datum::Interval)
    });
    all.add("/", &[INTERVAL, FLOAT8], INTERVAL, |_, a| {
        arithmetic::interval_divide(interval(a, 0)?, float(a, 1)?).map(Datum::Interval)
    });
    all.add("-", &[INTERVAL], INTERVAL, |_, a| {
        arithmetic::interval_negate(interval(a, 0)?).map(Datum::Interval)
    });
}

fn sums(all: &mut Declarations) {
    all.add("+", &[DATE, INT4], DATE, |_, a| {
        arithmetic::date_add(date(a, 0)?, integer(a, 1)?).map(Datum::Date)
    });
    all.add("+", &[INT4, DATE], DATE, |_, a| {
        arithmetic::date_add(date(a, 1)?, integer(a, 0)?).map(Datum::Date)
    });
    all.add("+", &[DATE, TIME], TIMESTAMP, |cx, a| date_and_time(cx, a, 0, 1));
    all.add("+", &[TIME, DATE], TIMESTAMP, |cx, a| date_and_time(cx, a, 1, 0));
    all.add("+", &[DATE, INTERVAL], TIMESTAMP, |cx, a| {
        arithmetic::timestamp_add(midnight(cx, a, 0)?, interval(a, 1)?).map(Datum::Timestamp)
    });
    all.add("+", &[INTERVAL, DATE], TIMESTAMP, |cx, a| {
        arithmetic::timestamp_add(midnight(cx, a, 1)?, interval(a, 0)?).map(Datum::Timestamp)
    });
    all.add("+", &[TIME, INTERVAL], TIME, |_, a| Ok(time_add(micros(a, 0)?, interval(a, 1)?)));
    all.add("+", &[INTERVAL, TIME], TIME, |_, a| Ok(time_add(micros(a, 1)?, interval(a, 0)?)));
    all.add("+", &[TIMESTAMP, INTERVAL], TIMESTAMP, |_, a| {
        arithmetic::timestamp_add(micros(a, 0)?, interval(a, 1)?).map(Datum::Timestamp)
    });
    all.add("+", &[INTERVAL, TIMESTAMP], TIMESTAMP, |_, a| {
        arithmetic::timestamp_add(micros(a, 1)?, interval(a, 0)?).map(Datum::Timestamp)
    });
    all.add("+", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |cx, a| {
        arithmetic::timestamptz_add(micros(a, 0)?, interval(a, 1)?, &cx.zone).map(Datum::Timestamptz)
    })
    .stable();
    all.add("+", &[INTERVAL, TIMESTAMPTZ], TIMESTAMPTZ, |cx, a| {
        arithmetic::timestamptz_add(micros(a, 1)?, interval(a, 0)?, &cx.zone).map(Datum::Timestamptz)
    })
    .stable();
    all.add("+", &[INTERVAL, INTERVAL], INTERVAL, |_, a| {
        arithmetic::interval_add(interval(a, 0)?, interval(a, 1)?).map(Datum::Interval)
    });
}

fn differences(all: &mut Declarations) {
    all.add("-", &[DATE, INT4], DATE, |_, a| {
        arithmetic::date_add(date(a, 0)?, -integer(a, 1)?).map(Datum::Date)
    });
    all.add("-", &[DATE, DATE], INT4, |_, a| arithmetic::date_sub(date(a, 0)?, date(a, 1)?).map(Datum::Int4));
    all.add("-", &[DATE, INTERVAL], TIMESTAMP, |cx, a| {
        let back = arithmetic::interval_negate(interval(a, 1)?)?;
        arithmetic::timestamp_add(midnight(cx, a, 0)?, back).map(Datum::Timestamp)
    });
    all.add("-", &[TIME, INTERVAL], TIME, |_, a| {
        Ok(time_add(micros(a, 0)?, arithmetic::interval_negate(interval(a, 1)?)?))
    });
    all.add("-", &[TIME, TIME], INTERVAL, |_, a| {
        Ok(Datum::Interval(Interval { months: 0, days: 0, micros: micros(a, 0)? - micros(a, 1)? }))
    });
    all.add("-", &[TIMESTAMP, INTERVAL], TIMESTAMP, |_, a| {
        let back = arithmetic::interval_negate(interval(a, 1)?)?;
        arithmetic::timestamp_add(micros(a, 0)?, back).map(Datum::Timestamp)
    });
    all.add("-", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |cx, a| {
        let back = arithmetic::interval_negate(interval(a, 1)?)?;
        arithmetic::timestamptz_add(micros(a, 0)?, back, &cx.zone).map(Datum::Timestamptz)
    })
    .stable();
    all.add("-", &[TIMESTAMP, TIMESTAMP], INTERVAL, |_, a| {
        arithmetic::timestamp_sub(micros(a, 0)?, micros(a, 1)?).map(Datum::Interval)
    });
    all.add("-", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |_, a| {
        arithmetic::timestamp_sub(micros(a, 0)?, micros(a, 1)?).map(Datum::Interval)
    });
    all.add("-", &[INTERVAL, INTERVAL], INTERVAL, |_, a| {
        let back = arithmetic::interval_negate(interval(a, 1)?)?;
        arithmetic::interval_add(interval(a, 0)?, back).map(Datum::Interval)
    });
}

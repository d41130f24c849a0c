//! Dates and times as text, in the style of the setting DateStyle.

use super::{Civil, DateFormat, DateStyle, MONTHS, WEEKDAYS, Zone, split_clock};

/// The longest name of a zone behind a timestamp; longer ones are cut.
const ZONE_NAME_BYTES_MAX: usize = 10;

fn push_number(out: &mut String, value: i64, width: usize) {
    // Fast for the common two digits.
    if width == 2 && (0..100).contains(&value) {
        out.push(char::from(b'0' + (value / 10) as u8));
        out.push(char::from(b'0' + (value % 10) as u8));
    } else {
        out.push_str(&format!("{value:0width$}"));
    }
}

/// A second's fraction without trailing zeroes.
pub(super) fn write_fraction(out: &mut String, micro: i64) {
    if micro != 0 {
        let digits = format!("{micro:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

fn write_clock(out: &mut String, micros: i64) {
    let (hour, minute, second, micro) = split_clock(micros);
    push_number(out, hour, 2);
    out.push(':');
    push_number(out, minute, 2);
    out.push(':');
    push_number(out, second, 2);
    write_fraction(out, micro);
}

fn write_civil_date(out: &mut String, civil: &Civil, style: DateStyle) {
    let shown = if civil.year > 0 { civil.year } else { 1 - civil.year };
    let (year, month, day) = ((i64::from(shown), 4), (i64::from(civil.month), 2), (i64::from(civil.day), 2));
    let (separator, parts) = match style.format {
        DateFormat::Iso => ('-', [year, month, day]),
        DateFormat::German => ('.', [day, month, year]),
        DateFormat::Sql if style.is_day_first() => ('/', [day, month, year]),
        DateFormat::Sql => ('/', [month, day, year]),
        DateFormat::Postgres if style.is_day_first() => ('-', [day, month, year]),
        DateFormat::Postgres => ('-', [month, day, year]),
    };
    for (position, (number, width)) in parts.into_iter().enumerate() {
        if position > 0 {
            out.push(separator);
        }
        push_number(out, number, width);
    }
}

/// Writes the date and the time of a timestamp.
fn write_civil(out: &mut String, civil: &Civil, style: DateStyle) {
    if style.format != DateFormat::Postgres {
        write_civil_date(out, civil, style);
        out.push(' ');
        return write_clock(out, civil.micros);
    }
    let short = |names: &[&'static str], index: i64| {
        usize::try_from(index).ok().and_then(|index| names.get(index)?.get(..3)).unwrap_or_default()
    };
    out.push_str(short(&WEEKDAYS, civil.weekday()));
    out.push(' ');
    let month = short(&MONTHS, i64::from(civil.month) - 1);
    if style.is_day_first() {
        push_number(out, i64::from(civil.day), 2);
        out.push(' ');
        out.push_str(month);
    } else {
        out.push_str(month);
        out.push(' ');
        push_number(out, i64::from(civil.day), 2);
    }
    out.push(' ');
    write_clock(out, civil.micros);
    out.push(' ');
    push_number(out, i64::from(if civil.year > 0 { civil.year } else { 1 - civil.year }), 4);
}

fn write_era(out: &mut String, civil: &Civil) {
    if civil.year <= 0 {
        out.push_str(" BC");
    }
}

/// `+02`, `-03:30`, `+00:53:28`.
pub(super) fn write_offset(out: &mut String, seconds_east: i32) {
    out.push(if seconds_east < 0 { '-' } else { '+' });
    let magnitude = i64::from(seconds_east.unsigned_abs());
    push_number(out, magnitude / 3_600, 2);
    if magnitude % 3_600 != 0 {
        out.push(':');
        push_number(out, magnitude / 60 % 60, 2);
        if magnitude % 60 != 0 {
            out.push(':');
            push_number(out, magnitude % 60, 2);
        }
    }
}

fn infinite(out: &mut String, negative: bool) {
    out.push_str(if negative { "-infinity" } else { "infinity" });
}

/// Writes a date (days since 2000-01-01).
pub fn write_date(out: &mut String, days: i32, style: DateStyle) {
    if days == i32::MIN || days == i32::MAX {
        return infinite(out, days < 0);
    }
    let civil = Civil::of_day(i64::from(days), 0);
    write_civil_date(out, &civil, style);
    write_era(out, &civil);
}

/// Writes a time (microseconds since midnight).
pub fn write_time(out: &mut String, micros: i64) {
    write_clock(out, micros);
}

/// Writes a timestamp (microseconds since 2000-01-01).
pub fn write_timestamp(out: &mut String, timestamp: i64, style: DateStyle) {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return infinite(out, timestamp < 0);
    }
    let civil = Civil::of_timestamp(timestamp);
    write_civil(out, &civil, style);
    write_era(out, &civil);
}

/// Writes a timestamptz (microseconds since 2000-01-01 UTC) as the local time of a zone.
pub fn write_timestamptz(out: &mut String, timestamptz: i64, zone: &Zone, style: DateStyle) {
    if timestamptz == i64::MIN || timestamptz == i64::MAX {
        return infinite(out, timestamptz < 0);
    }
    let offset = zone.offset_at(timestamptz);
    let civil = Civil::of_timestamp(timestamptz.saturating_add(i64::from(offset) * super::SECOND));
    write_civil(out, &civil, style);
    match style.format {
        DateFormat::Iso => write_offset(out, offset),
        _ => {
            let name = zone.abbreviation_at(timestamptz);
            out.push(' ');
            out.push_str(name.get(..ZONE_NAME_BYTES_MAX).unwrap_or(&name));
        }
    }
    write_era(out, &civil);
}

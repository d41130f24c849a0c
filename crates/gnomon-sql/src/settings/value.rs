//! Values of settings: from what SET was given to what SHOW prints.

use std::{fmt, sync::Arc};

use super::definition::{Definition, Kind, Unit};
use crate::{
    Result, SqlError, SqlState,
    catalog::system::is_predefined_role,
    types::{
        datetime::{DateStyle, IntervalStyle, Zone, parse_interval},
        encoding::Encoding,
        float::general,
        text::cut_name,
    },
};

/// Values that PostgreSQL takes and that are not carried out, beside those of switches.
const OF_POSTGRES: [(&str, &str); 3] = [
    ("default_tablespace", "pg_global"),
    ("timezone_abbreviations", "Australia"),
    ("timezone_abbreviations", "India"),
];

fn available(words: &[&str]) -> String {
    format!("Available values: {}.", words.join(", "))
}

pub(super) fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

pub(super) fn fixed(name: &str) -> SqlError {
    SqlError::new(SqlState("55P02"), format!("parameter \"{name}\" cannot be changed"))
}

/// Checks the values of a setting and puts them into the form that SHOW prints; `styles` are the DateStyle that holds
/// and the one of new sessions, `user` the session's.
pub(super) fn normalise(
    definition: &Definition,
    values: &[String],
    styles: [DateStyle; 2],
    user: &str,
) -> Result<String> {
    let name = definition.name;
    let value = values.first().map_or("", String::as_str);
    Ok(match definition.kind {
        Kind::Fixed => return Err(fixed(name)),
        Kind::Bool => match bool_word(value) {
            Some(true) => "on".into(),
            Some(false) => "off".into(),
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("parameter \"{name}\" requires a Boolean value"),
                ));
            }
        },
        Kind::Int { min, max, unit } => {
            let number = integer_with_unit(value, unit).ok_or_else(|| invalid(name, value))?;
            if number < min || number > max {
                return Err(outside(name, unit, [&number, &min, &max]));
            }
            number.to_string()
        }
        Kind::Real { min, max, unit } => {
            let number = number_with_unit(value, unit).ok_or_else(|| invalid(name, value))?;
            if number < min || number > max {
                return Err(outside(
                    name,
                    unit,
                    [number, min, max].map(real_text).each_ref().map(|text| text as _),
                ));
            }
            real_text(number)
        }
        Kind::Word(words) => {
            let word = match bool_word(value) {
                Some(on)
                    if words.iter().any(|word| ["on", "off"].contains(word)) && !words.contains(&value) =>
                {
                    if on {
                        "on"
                    } else {
                        "off"
                    }
                }
                _ => value,
            };
            let found = words.iter().find(|known| known.eq_ignore_ascii_case(word));
            let is_switch = words.iter().any(|word| ["on", "off"].contains(word));
            match found {
                Some(known) => (*known).to_owned(),
                None if is_switch && bool_word(value).is_some() || OF_POSTGRES.contains(&(name, value)) => {
                    let what = format!("the value \"{value}\" of parameter \"{name}\"");
                    return Err(SqlError::unsupported(what).hint(available(words)));
                }
                None => return Err(invalid(name, value).hint(available(words))),
            }
        }
        Kind::Text => value.to_owned(),
        Kind::Name => printable_name(value),
        Kind::Names => list_of_names(values),
        Kind::Encoding => encoding(name, value)?.into(),
        Kind::Role => role(value, user)?,
        Kind::DateStyle => {
            let [present, default] = styles;
            let text = values.join(", ");
            let style = DateStyle::read(&text, present, default);
            style.map_err(|detail| invalid(name, &text).detail(detail))?.to_string()
        }
        Kind::TimeZone => {
            let zone = match interval_of_zone(value) {
                Some(text) => zone_of_interval(text).map_err(|detail| match detail {
                    Some(detail) => invalid(name, value).detail(detail),
                    None => invalid(name, value),
                })?,
                None => time_zone(value).ok_or_else(|| invalid(name, value))?,
            };
            zone.name().to_owned()
        }
    })
}

/// Returns the Boolean of a word, as settings have it; none if it is no such word.
pub fn bool_word(word: &str) -> Option<bool> {
    let word = word.to_ascii_lowercase();
    let prefix_of = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if prefix_of("true", 1) || prefix_of("yes", 1) || word == "on" || word == "1" {
        Some(true)
    } else if prefix_of("false", 1) || prefix_of("no", 1) || prefix_of("off", 2) || word == "0" {
        Some(false)
    } else {
        None
    }
}

/// The beginning of a value that fits into a name, without what some reader of logs may not be able to show.
fn printable_name(value: &str) -> String {
    let printable = |byte: u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '?' };
    cut_name(value).bytes().map(printable).collect()
}

/// The error for a number that is outside of its bounds: the number, the least and the greatest.
fn outside(name: &str, unit: Unit, [number, min, max]: [&dyn fmt::Display; 3]) -> SqlError {
    let unit = unit.name().map(|unit| format!(" {unit}")).unwrap_or_default();
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("{number}{unit} is outside the valid range for parameter \"{name}\" ({min} .. {max})"),
    )
}

/// Units of time and of memory in which values are given and shown, the largest first, with their milliseconds or bytes.
const TIMES: [(&str, f64); 6] =
    [("d", 8.64e7), ("h", 3.6e6), ("min", 6e4), ("s", 1e3), ("ms", 1.0), ("us", 0.001)];
const SIZES: [(&str, f64); 5] =
    [("TB", 1099511627776.0), ("GB", 1073741824.0), ("MB", 1048576.0), ("kB", 1024.0), ("B", 1.0)];

/// Returns the units in which values of a setting in this unit are given, and how much the setting's own is of their
/// measure.
fn units_of(unit: Unit) -> (&'static [(&'static str, f64)], f64) {
    match unit {
        Unit::None => (&[], 1.0),
        Unit::Milliseconds => (&TIMES, 1.0),
        Unit::Bytes => (&SIZES, 1.0),
        Unit::Kilobytes => (&SIZES, 1024.0),
        Unit::Blocks => (&SIZES, 8192.0),
    }
}

pub(super) fn integer_with_unit(text: &str, unit: Unit) -> Option<i64> {
    let value = number_with_unit(text, unit)?.round_ties_even();
    // Beyond this, the conversion would not be exact; every range is far narrower.
    (value.abs() < 9e15).then_some(value as i64)
}

/// Parses a number with the name of a unit, or without; returns it in a setting's own unit.
fn number_with_unit(text: &str, unit: Unit) -> Option<f64> {
    let text = text.trim();
    let end = |from: usize| {
        let is_behind = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
        text[from..].find(is_behind).map_or(text.len(), |at| from + at)
    };
    let mut digits = end(0);
    // No unit begins as an exponent does.
    if text[digits..].starts_with(['e', 'E']) {
        digits = end(digits + 1);
    }
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let suffix = suffix.trim();
    if suffix.is_empty() {
        return Some(number);
    }
    let (units, own) = units_of(unit);
    units.iter().find(|(name, _)| *name == suffix).map(|(_, of)| number * of / own)
}

/// True if a number is whole but for what a conversion of units may have rounded.
fn is_whole(number: f64) -> bool {
    let whole = number.round();
    whole != 0.0 && (number - whole).abs() <= whole.abs() * 1e-8
}

/// Returns a number as SHOW prints it: in the largest unit of which it is a whole number.
pub(super) fn with_unit(text: &str, unit: Unit) -> String {
    let number: f64 = text.parse().unwrap_or(0.0);
    let (units, own) = units_of(unit);
    if number <= 0.0 {
        return text.to_owned();
    }
    match units.iter().map(|(name, of)| (name, number * own / of)).find(|(_, count)| is_whole(*count)) {
        Some((name, count)) => format!("{}{name}", count.round()),
        None => format!("{text}{}", unit.name().unwrap_or_default()),
    }
}

/// Returns a number with at most 6 digits, as PostgreSQL shows one.
pub(super) fn real_text(number: f64) -> String {
    general(number, 6)
}

/// The zone of a name, or so many hours east of Greenwich.
pub(super) fn time_zone(text: &str) -> Option<Zone> {
    let text = text.trim();
    match text.parse::<f64>() {
        // No place is further from Greenwich than this many hours.
        Ok(hours) if hours.abs() < 168.0 => Some(Zone::fixed((hours * 3600.0) as i32)),
        Ok(_) => None,
        Err(_) if text.eq_ignore_ascii_case("default") || text.eq_ignore_ascii_case("local") => {
            Some(Zone::UTC)
        }
        Err(_) => Zone::parse(text),
    }
}

/// The text within `INTERVAL '...'`, if this is how a time zone is given.
fn interval_of_zone(value: &str) -> Option<&str> {
    let (head, rest) = value.split_at_checked("interval".len())?;
    let quoted = rest.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    head.eq_ignore_ascii_case("interval").then_some(quoted)
}

/// The zone that is an interval east of Greenwich; else the detail of the error, if there is one.
fn zone_of_interval(text: &str) -> Result<Zone, Option<&'static str>> {
    let interval = parse_interval(text, -1, IntervalStyle::Postgres).map_err(|_| None)?;
    if interval.months != 0 {
        return Err(Some("Cannot specify months in time zone interval."));
    }
    if interval.days != 0 {
        return Err(Some("Cannot specify days in time zone interval."));
    }
    // No place is further from Greenwich than this many seconds.
    let seconds =
        i32::try_from(interval.micros / 1_000_000).ok().filter(|seconds| seconds.abs() < 168 * 3600);
    seconds.map(Zone::fixed).ok_or(None)
}

/// The encoding of a name, of which letters and digits count.
fn encoding(setting: &str, value: &str) -> Result<&'static str> {
    let encoding = Encoding::named(value).ok_or_else(|| invalid(setting, value))?;
    if encoding.is_known() {
        return Ok(encoding.name());
    }
    let message = invalid(setting, value).report().message.clone();
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(format!("Conversion between {} and UTF8 is not supported.", encoding.name())))
}

/// The role that a session acts as: its user is the only one that it can be.
fn role(value: &str, user: &str) -> Result<String> {
    if value == "none" || value == user {
        return Ok(value.to_owned());
    }
    if is_predefined_role(value) {
        return Err(SqlError::unsupported(format!("a session of the role \"{value}\"")));
    }
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{value}\" does not exist")))
}

/// The text of a list of names.
fn list_of_names(names: &[String]) -> String {
    let quote = |name: &String| {
        let plain = name
            .chars()
            .enumerate()
            .all(|(i, c)| c.is_ascii_lowercase() || c == '_' || (i > 0 && (c.is_ascii_digit() || c == '$')));
        if plain && !name.is_empty() { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
    };
    names.iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// The names of a list, as `set_config('search_path', 'a, "B c"', false)` has one.
pub(super) fn split_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut quoted = false;
    let mut chars = list.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                name.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name)),
            c if c.is_whitespace() && !quoted => {}
            c => name.push(c),
        }
    }
    names.push(name);
    names
}

pub(super) fn search_path(text: &str, user: &str) -> Arc<[String]> {
    split_names(text)
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| if name == "$user" { user.to_owned() } else { name })
        .collect()
}

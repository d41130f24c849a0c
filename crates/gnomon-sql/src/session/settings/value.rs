//! Values of settings: from what SET was given to what SHOW prints.

use std::sync::Arc;

use super::definition::{Definition, Kind, Unit};
use crate::{Result, SqlError, SqlState, types::datetime::Zone};

pub(super) fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

pub(super) fn fixed(name: &str) -> SqlError {
    SqlError::new(SqlState("55P02"), format!("parameter \"{name}\" cannot be changed"))
}

/// Checks the values of a setting and puts them into the form that SHOW prints.
pub(super) fn normalise(definition: &Definition, values: &[String]) -> Result<String> {
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
                let unit = match unit {
                    Unit::None => "",
                    Unit::Milliseconds => " ms",
                    Unit::Kilobytes => " kB",
                };
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number}{unit} is outside the valid range for parameter \"{name}\" ({min} .. {max})"
                    ),
                ));
            }
            number.to_string()
        }
        Kind::Real { min, max } => match value.parse::<f64>() {
            Ok(number) if number >= min && number <= max => number.to_string(),
            _ => return Err(invalid(name, value)),
        },
        Kind::Word(words) => {
            let word = match bool_word(value) {
                Some(on) if words.contains(&"on") && !words.contains(&value) => {
                    if on {
                        "on"
                    } else {
                        "off"
                    }
                }
                _ => value,
            };
            match words.iter().find(|known| known.eq_ignore_ascii_case(word)) {
                Some(known) => (*known).to_owned(),
                None => {
                    return Err(invalid(name, value).hint(format!("Available values: {}.", words.join(", "))));
                }
            }
        }
        Kind::Text => value.to_owned(),
        Kind::Names => list_of_names(values),
        Kind::Encoding => match value.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "utf8" | "unicode" => "UTF8".into(),
            _ => return Err(invalid(name, value)),
        },
        Kind::DateStyle => date_style(values).ok_or_else(|| {
            invalid(name, value).hint("Only the style ISO with the order MDY is supported.")
        })?,
        Kind::TimeZone => time_zone(value).ok_or_else(|| invalid(name, value))?.name().to_owned(),
    })
}

pub(crate) fn bool_word(word: &str) -> Option<bool> {
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

pub(super) fn integer_with_unit(text: &str, unit: Unit) -> Option<i64> {
    let text = text.trim();
    let digits =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let factor = match (unit, suffix.trim()) {
        (_, "") => 1.0,
        (Unit::Milliseconds, "us") => 0.001,
        (Unit::Milliseconds, "ms") => 1.0,
        (Unit::Milliseconds, "s") => 1e3,
        (Unit::Milliseconds, "min") => 6e4,
        (Unit::Milliseconds, "h") => 3.6e6,
        (Unit::Milliseconds, "d") => 8.64e7,
        (Unit::Kilobytes, "B") => 1.0 / 1024.0,
        (Unit::Kilobytes, "kB") => 1.0,
        (Unit::Kilobytes, "MB") => 1024.0,
        (Unit::Kilobytes, "GB") => 1024.0 * 1024.0,
        (Unit::Kilobytes, "TB") => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let value = (number * factor).round();
    // Beyond this, the conversion would not be exact; every range is far narrower.
    (value.abs() < 9e15).then_some(value as i64)
}

/// DateStyle has an output style and a field order. There is one of each here.
pub(super) fn date_style(values: &[String]) -> Option<String> {
    let mut words = values.iter().flat_map(|value| value.split(','));
    let known = ["iso", "mdy", "us", "noneuro", "noneuropean", "default"];
    words.all(|word| known.contains(&word.trim().to_ascii_lowercase().as_str())).then(|| "ISO, MDY".into())
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

//! Numbers within fields.

use super::{super::SECOND, Misfit};

/// Returns the whole number that a text begins with, perhaps with a sign, and the rest; 0 if it begins with none.
pub(super) fn leading(text: &str) -> Result<(i32, &str), Misfit> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(sign + digits);
    match digits {
        0 => Ok((0, text)),
        _ => Ok((number.parse().map_err(|_| Misfit::Range)?, rest)),
    }
}

/// Returns a fraction, which begins with its point, as a part of `unit`, rounded.
pub(super) fn fraction(text: &str, unit: i64) -> Result<i64, Misfit> {
    if text == "." {
        return Ok(0);
    }
    let part: f64 = format!("0{text}").parse().map_err(|_| Misfit::Format)?;
    Ok((part * unit as f64).round_ties_even() as i64)
}

/// Returns a fraction of a second in microseconds.
pub(super) fn second_fraction(text: &str) -> Result<i64, Misfit> {
    fraction(text, SECOND)
}

/// The reason why a text is no displacement.
pub(in super::super) enum Displacement {
    Format,
    Range,
}

/// Returns the seconds east of Greenwich of `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss` (DecodeTimezone).
pub(in super::super) fn displacement(text: &str) -> Result<i32, Displacement> {
    let is_west = match text.as_bytes().first() {
        Some(b'+') => false,
        Some(b'-') => true,
        _ => return Err(Displacement::Format),
    };
    let number = |text| leading(text).map_err(|_| Displacement::Range);
    let (mut hours, mut rest) = number(&text[1..])?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minutes, rest) = number(behind)?;
        if let Some(behind) = rest.strip_prefix(':') {
            (seconds, rest) = number(behind)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    let fits = (0..16).contains(&hours) && (0..60).contains(&minutes) && (0..60).contains(&seconds);
    if !fits {
        return Err(Displacement::Range);
    }
    if !rest.is_empty() {
        return Err(Displacement::Format);
    }
    let magnitude = hours * 3_600 + minutes * 60 + seconds;
    Ok(if is_west { -magnitude } else { magnitude })
}

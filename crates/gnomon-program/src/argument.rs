//! Parsers of numbers and switches on a command line.

use std::ops::RangeInclusive;

/// Seconds or milliseconds, fractions allowed.
///
/// # Errors
/// What is no number, or not between 0 and 86,400.
pub fn parse_time(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0..=86_400.0)
}

/// As [`parse_time`], but not zero.
///
/// # Errors
/// Those, and zero.
pub fn parse_measured(text: &str) -> Result<f64, String> {
    match parse_time(text)? {
        0.0 => Err("nothing would be measured in no time".into()),
        time => Ok(time),
    }
}

/// Calls a second, fractions allowed. With a smaller rate than 0.001, no run would see a call.
///
/// # Errors
/// What is no number, or not between 0.001 and 1,000,000,000.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    parse_within(text, 0.001..=1e9)
}

/// How long commits wait for others, in milliseconds.
///
/// # Errors
/// What is no number, or not between 0 and 1000.
pub fn parse_interval(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0..=1000.0)
}

/// An exponent of Zipf's law. With a larger one than 5, all but two numbers would never be chosen.
///
/// # Errors
/// What is no number, or not between 0 and 5.
pub fn parse_exponent(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0..=5.0)
}

/// A switch.
///
/// # Errors
/// What is neither on nor off.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".into()),
    }
}

fn parse_within(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("not between {} and {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_not_bounded_as_times_are() {
        for (text, rate) in [("100000", 1e5), ("0.5", 0.5), ("1e9", 1e9)] {
            assert_eq!(parse_rate(text), Ok(rate));
        }
        for wrong in ["0", "1e-9", "1e10", "-1", "NaN", "inf", "many"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        assert!(parse_measured("100000").is_err() && parse_measured("0").is_err());
    }
}

//! What numbers on a command line may be.

/// Seconds or milliseconds, fractions allowed.
///
/// # Errors
/// What is no number, or not between 0 and 86,400.
pub fn parse_time(text: &str) -> Result<f64, String> {
    parse_within(text, 86_400.0)
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

/// How long commits wait for others, in milliseconds.
///
/// # Errors
/// What is no number, or not between 0 and 1000.
pub fn parse_interval(text: &str) -> Result<f64, String> {
    parse_within(text, 1000.0)
}

/// An exponent of Zipf's law. With a larger one than 5, all but two numbers would never be chosen.
///
/// # Errors
/// What is no number, or not between 0 and 5.
pub fn parse_exponent(text: &str) -> Result<f64, String> {
    parse_within(text, 5.0)
}

fn parse_within(text: &str, max: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=max).contains(&number) { Ok(number) } else { Err(format!("not between 0 and {max}")) }
}

//! Numbers and words as reports write them.

use std::borrow::Cow;

/// A number as people read it, with as many digits as tell something.
pub fn figure(number: f64) -> String {
    match number.abs() {
        _ if !number.is_finite() => "-".into(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Several of them.
pub fn figures(numbers: impl IntoIterator<Item = f64>) -> String {
    numbers.into_iter().map(figure).collect::<Vec<_>>().join(", ")
}

/// A share as people read it.
pub fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", share * 100.0)
}

/// A word of a command as a shell reads it.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,=/:+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let figures = [0.123, 9.876, 98.76, 987.6, f64::NAN, f64::INFINITY].map(figure);
        assert_eq!(figures, ["0.12", "9.88", "98.8", "988", "-", "-"]);
    }
}

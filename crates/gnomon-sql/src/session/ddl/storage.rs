//! Storage parameters: the size of pages.

use gnomon::PageSize;
use sqlparser::ast::{BinaryOperator, Expr, SqlOption, Value};

use super::super::parse::fold;
use crate::{Result, SqlError, SqlState};

/// The name of the storage parameter.
pub(super) const PAGE_SIZE: &str = "page_size";

/// What WITH (page_size = ...) says of a table.
pub(super) fn page_size_of_table(options: &[SqlOption]) -> Result<Option<PageSize>> {
    let given = options.iter().filter_map(|option| match option {
        SqlOption::KeyValue { key, value } if fold(key) == PAGE_SIZE => Some(value),
        _ => None,
    });
    given.map(page_size).next_back().transpose()
}

/// What it says of an index.
pub(super) fn page_size_of_index(options: &[Expr]) -> Result<Option<PageSize>> {
    let given = options.iter().filter_map(|option| match option {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => match &**left {
            Expr::Identifier(name) if fold(name) == PAGE_SIZE => Some(&**right),
            _ => None,
        },
        _ => None,
    });
    given.map(page_size).next_back().transpose()
}

/// A size in bytes, or as text with one of PostgreSQL's units: B, kB, MB.
fn page_size(value: &Expr) -> Result<PageSize> {
    let text = match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string(),
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    };
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match trimmed[digits.len()..].trim_start() {
        "" | "B" => Some(1),
        "kB" => Some(1 << 10),
        "MB" => Some(1 << 20),
        _ => None,
    };
    let bytes = factor.and_then(|factor| digits.parse::<usize>().ok()?.checked_mul(factor));
    bytes.and_then(PageSize::from_bytes).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{PAGE_SIZE}\": \"{text}\""),
        )
        .detail("Pages have 512 bytes to 1MB, a power of two.")
        .hint("Valid units for this parameter are \"B\", \"kB\", and \"MB\".")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_of_bytes_or_have_units() {
        let parse = |text: &str| page_size(&Expr::value(Value::SingleQuotedString(text.into()))).ok();
        for (text, bytes) in
            [("512", 512), ("16384", 16 << 10), ("16kB", 16 << 10), (" 64 kB ", 64 << 10), ("1MB", 1 << 20)]
        {
            assert_eq!(parse(text).map(PageSize::bytes), Some(bytes), "{text}");
        }
        for text in
            ["", "kB", "0", "256", "4097", "2MB", "-4096", "16KB", "99999999999999999999", "4096 x", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

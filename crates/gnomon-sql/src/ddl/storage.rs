//! Storage parameters: the size of pages, partitions, copies in all of them.

use gnomon_engine::PageSize;
use sqlparser::ast::{BinaryOperator, Expr, SqlOption, Value};

use crate::{Notice, Result, SqlError, SqlState, catalog::partition::PARTITIONS_MAX, session::parse::fold};

/// The name of the storage parameter.
pub(super) const PAGE_SIZE: &str = "page_size";
const REPLICATED: &str = "replicated";
const PARTITIONS: &str = "partitions";

/// PostgreSQL's others: they are about a storage that this is not.
const TABLE_PARAMETERS: [&str; 7] = [
    "fillfactor",
    "toast",
    "parallel_workers",
    "autovacuum_",
    "vacuum_",
    "log_autovacuum_min_duration",
    "user_catalog_table",
];
const INDEX_PARAMETERS: [&str; 7] = [
    "fillfactor",
    "deduplicate_items",
    "buffering",
    "fastupdate",
    "gin_pending_list_limit",
    "pages_per_range",
    "autosummarize",
];

/// Storage parameters of a table, given by WITH (...).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableParameters {
    pub page_size: Option<PageSize>,
    /// True if every partition may read it.
    pub replicated: Option<bool>,
    /// Number of partitions that it is made with.
    pub partitions: Option<u16>,
}

impl TableParameters {
    pub fn read(options: &[SqlOption], notices: &mut Vec<Notice>) -> Result<TableParameters> {
        let mut found = TableParameters::default();
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(SqlError::unsupported(format!("the storage parameter {option}")));
            };
            match fold(key).as_str() {
                PAGE_SIZE => found.page_size = Some(page_size(value)?),
                REPLICATED => found.replicated = Some(replicated(value)?),
                PARTITIONS => found.partitions = Some(partitions(value)?),
                key => check_ignored(key, &TABLE_PARAMETERS, notices)?,
            }
        }
        Ok(found)
    }
}

/// Reads the storage parameters of an index. Returns its page size, if it is given.
pub(super) fn page_size_of_index(options: &[Expr], notices: &mut Vec<Notice>) -> Result<Option<PageSize>> {
    let mut found = None;
    for option in options {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = option else {
            return Err(SqlError::unsupported(format!("the storage parameter {option}")));
        };
        match &**left {
            Expr::Identifier(name) if fold(name) == PAGE_SIZE => found = Some(page_size(right)?),
            name => check_ignored(&name.to_string().to_lowercase(), &INDEX_PARAMETERS, notices)?,
        }
    }
    Ok(found)
}

/// Tells that a storage parameter of PostgreSQL's, or one that begins like it, has no effect. Others are refused.
fn check_ignored(name: &str, known: &[&str], notices: &mut Vec<Notice>) -> Result<()> {
    if known.iter().any(|known| name.starts_with(known)) {
        let what = format!("storage parameter \"{name}\"");
        notices.push(Notice::no_effect(&what, "it is about pages that are filled and vacuumed in place"));
        return Ok(());
    }
    let message = format!("unrecognized parameter \"{name}\"");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// A value as it was written, without quotes.
pub(super) fn text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string(),
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn replicated(value: &Expr) -> Result<bool> {
    match text(value).to_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        other => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for boolean option \"{REPLICATED}\": {other}"),
        )),
    }
}

fn partitions(value: &Expr) -> Result<u16> {
    let text = text(value);
    text.parse().ok().filter(|count| (1..=PARTITIONS_MAX).contains(count)).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{PARTITIONS}\": \"{text}\""),
        )
        .detail(format!("A table has from 1 to {PARTITIONS_MAX} partitions."))
    })
}

/// A size in bytes, or as text with one of PostgreSQL's units: B, kB, MB.
fn page_size(value: &Expr) -> Result<PageSize> {
    let text = text(value);
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

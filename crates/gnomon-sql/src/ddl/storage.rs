//! Storage parameters: the size of pages, partitions, copies in all of them.

use std::borrow::Cow;

use gnomon_engine::PageSize;
use gnomon_parser::ast::{DefinitionItem, OptionValue};

use crate::{Notice, Result, SqlError, SqlState, catalog::partition::PARTITIONS_MAX};

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
    pub fn read(options: &[DefinitionItem], notices: &mut Vec<Notice>) -> Result<TableParameters> {
        let mut found = TableParameters::default();
        for option in read_options(options)? {
            match &*option.name {
                PAGE_SIZE => found.page_size = Some(page_size(&option.value)?),
                REPLICATED => found.replicated = Some(replicated(&option.value)?),
                PARTITIONS => found.partitions = Some(partitions(&option.value)?),
                name => check_ignored(name, &TABLE_PARAMETERS, notices)?,
            }
        }
        Ok(found)
    }
}

/// Reads the storage parameters of an index. Returns its page size, if it is given.
pub(super) fn page_size_of_index(
    options: &[DefinitionItem],
    notices: &mut Vec<Notice>,
) -> Result<Option<PageSize>> {
    let mut found = None;
    for option in read_options(options)? {
        match &*option.name {
            PAGE_SIZE => found = Some(page_size(&option.value)?),
            name => check_ignored(name, &INDEX_PARAMETERS, notices)?,
        }
    }
    Ok(found)
}

/// An option of a relation: its name, with its namespace, and its value as it was written, without quotes.
pub(super) struct RelationOption<'o> {
    pub(super) name: Cow<'o, str>,
    pub(super) value: Cow<'o, str>,
}

/// Reads the options of a relation, each of which may be given once. One without a value is true.
pub(super) fn read_options(options: &[DefinitionItem]) -> Result<Vec<RelationOption<'_>>> {
    let mut found: Vec<RelationOption<'_>> = Vec::with_capacity(options.len());
    for DefinitionItem { namespace, name, value } in options {
        let name = match namespace {
            Some(namespace) if *namespace.name == *"toast" => Cow::from(format!("toast.{}", name.name)),
            Some(namespace) => {
                let message = format!("unrecognized parameter namespace \"{}\"", namespace.name);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            None => Cow::from(&*name.name),
        };
        if found.iter().any(|known| known.name == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let value = match value {
            None => Cow::from("true"),
            Some(OptionValue::Word(word)) => Cow::from(&*word.name),
            Some(OptionValue::String(text) | OptionValue::Number(text)) => Cow::from(&**text),
            Some(OptionValue::Type(ty)) => Cow::from(ty.to_string()),
            Some(OptionValue::Operator(operator)) => Cow::from(operator.to_string()),
            Some(OptionValue::Star | OptionValue::List(_)) => {
                return Err(SqlError::unsupported(format!("this value of the parameter \"{name}\"")));
            }
        };
        found.push(RelationOption { name, value });
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

fn replicated(text: &str) -> Result<bool> {
    match text.to_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        other => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for boolean option \"{REPLICATED}\": {other}"),
        )),
    }
}

fn partitions(text: &str) -> Result<u16> {
    text.parse().ok().filter(|count| (1..=PARTITIONS_MAX).contains(count)).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{PARTITIONS}\": \"{text}\""),
        )
        .detail(format!("A table has from 1 to {PARTITIONS_MAX} partitions."))
    })
}

/// A size in bytes, or as text with one of PostgreSQL's units: B, kB, MB.
fn page_size(text: &str) -> Result<PageSize> {
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
        let parse = |text: &str| page_size(text).ok();
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

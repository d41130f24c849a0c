//! Options in the lists of COPY, EXPLAIN and VACUUM.

use gnomon_parser::ast::{DefinitionItem, OptionValue};

use crate::{Result, SqlError, SqlState};

/// Returns the text of an option's value.
///
/// # Errors
/// 42601 without a value, or with one that is no text.
pub(crate) fn option_text(option: &DefinitionItem) -> Result<&str> {
    match &option.value {
        Some(OptionValue::Word(word)) => Ok(&word.name),
        Some(OptionValue::String(text) | OptionValue::Number(text)) => Ok(text),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a parameter", option.name.name))),
    }
}

/// True if an option is on, as it is without a value.
///
/// # Errors
/// 42601 for a value that is not Boolean.
pub(crate) fn option_is_on(option: &DefinitionItem) -> Result<bool> {
    let not_boolean =
        || SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a Boolean value", option.name.name));
    if option.value.is_none() {
        return Ok(true);
    }
    match option_text(option).map_err(|_| not_boolean())?.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(not_boolean()),
    }
}

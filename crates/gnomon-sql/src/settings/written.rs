//! Names and values of settings as statements have them.

use gnomon_parser::ast::{SettingItem, SettingName, Value};

use crate::{
    Result, SqlError, SqlState,
    types::{
        TypeMod, column_type,
        datetime::{IntervalStyle, parse_interval, write_interval},
    },
};

/// Returns the name of a setting in lower case; none for ALL.
pub(crate) fn setting_name(name: &SettingName) -> Option<String> {
    match name {
        SettingName::All => None,
        SettingName::One(name) => Some(name.name.to_lowercase()),
    }
}

/// Returns the texts of a list of values.
///
/// # Errors
/// 22007 and others for an interval that cannot be read.
pub(crate) fn setting_texts(items: &[SettingItem]) -> Result<Vec<String>> {
    items.iter().map(text_of).collect()
}

fn text_of(item: &SettingItem) -> Result<String> {
    Ok(match item {
        SettingItem::Text(text) => text.to_string(),
        SettingItem::Number(digits) => digits.to_string(),
        SettingItem::Interval(constant, ty) => match &constant.value {
            Value::String(text) => interval_text(text, column_type(ty)?.modifier)?,
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "an interval is no string")),
        },
    })
}

/// An interval as the setting of the time zone takes it: `INTERVAL '02:00:00'`.
fn interval_text(text: &str, modifier: TypeMod) -> Result<String> {
    let mut canonical = String::new();
    let style = IntervalStyle::Postgres;
    write_interval(&mut canonical, parse_interval(text, modifier, style)?, style);
    Ok(format!("INTERVAL '{canonical}'"))
}

//! ALTER ROLE ... SET and ALTER DATABASE ... SET: what settings are in new sessions.

use gnomon_parser::ast::{SettingDefault, SettingValue};

use super::{Ddl, clauses::role_name};
use crate::{
    Result, SqlError, SqlState,
    settings::{Progress, Scope, setting_name, setting_texts},
    sink::{Tag, tag},
};

/// Fails with 3D000 if a database is named that is not the session's, the only one.
fn check_database(ddl: &Ddl<'_>, name: Option<&str>) -> Result<()> {
    match name {
        Some(name) if name != &*ddl.session.database => {
            Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")))
        }
        _ => Ok(()),
    }
}

/// Changes the value of a setting in new sessions of a role, or of any role. Without a value, removes it; without a
/// name, removes those of all settings.
pub(super) fn setting_default(ddl: &mut Ddl<'_>, default: &SettingDefault) -> Result<Tag> {
    let SettingDefault { is_database, name, database, setting, value } = default;
    let (what, role, database) = match is_database {
        true => ("ALTER DATABASE", None, name.as_ref()),
        false => ("ALTER ROLE", name.as_ref(), database.as_ref()),
    };
    check_database(ddl, database.map(|database| &*database.name))?;
    ddl.begin(what)?;
    let name = setting_name(setting);
    let value = match (&name, value) {
        (Some(name), Some(SettingValue::List(items))) => {
            let mut tried = ddl.session.settings.clone();
            tried.set(name, Some(&setting_texts(items)?), Scope::Session, Progress::None)?;
            Some(tried.show(name)?.1)
        }
        (Some(name), Some(SettingValue::Current)) => Some(ddl.session.settings.show(name)?.1),
        (Some(name), Some(SettingValue::Default) | None) => {
            ddl.session.settings.show(name)?;
            None
        }
        (None, _) => None,
    };
    let role = role.map_or("", |role| role_name(role, ddl.session.settings.user())).to_owned();
    ddl.change(|catalog| match name {
        Some(name) => catalog.put_setting(role, name, value.as_deref()),
        None => catalog.remove_settings(&role),
    })?;
    tag(what)
}

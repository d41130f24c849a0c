//! ALTER ROLE ... SET and ALTER DATABASE ... SET: what settings are in new sessions.

use super::Ddl;
use crate::{
    Result, SqlError, SqlState,
    context::{NAME_BYTES_MAX, shorten},
    settings::{Progress, Scope},
    sink::{Tag, tag},
};

/// Fails with 3D000 if a database is named that is not the session's, the only one.
pub(super) fn check_database(ddl: &Ddl<'_>, name: Option<&str>) -> Result<()> {
    match name.map(|name| shorten(name, NAME_BYTES_MAX)) {
        Some(name) if name != &*ddl.session.database => {
            Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")))
        }
        _ => Ok(()),
    }
}

/// Changes the value of a setting in new sessions of a role, or of any role. Without values, removes it; without a
/// name, removes those of all settings.
pub(super) fn setting_default(
    ddl: &mut Ddl<'_>,
    what: &'static str,
    role: Option<&str>,
    name: Option<&str>,
    values: Option<&[String]>,
) -> Result<Tag> {
    ddl.begin(what)?;
    let value = match (name, values) {
        (Some(name), Some(values)) => {
            let mut tried = ddl.session.settings.clone();
            tried.set(name, Some(values), Scope::Session, Progress::None)?;
            Some(tried.show(name)?.1)
        }
        (Some(name), None) => {
            ddl.session.settings.show(name)?;
            None
        }
        (None, _) => None,
    };
    let role = shorten(role.unwrap_or_default(), NAME_BYTES_MAX).to_owned();
    let name = name.map(str::to_lowercase);
    ddl.change(|catalog| match name {
        Some(name) => catalog.put_setting(role, name, value.as_deref()),
        None => catalog.remove_settings(&role),
    })?;
    tag(what)
}

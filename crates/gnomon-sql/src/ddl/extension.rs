//! CREATE EXTENSION. What an extension brings along is always there; the statement says so, for programs that begin with it.

use gnomon_parser::ast::CreateExtension;

use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::system::{EXTENSIONS, SYSTEM_SCHEMA},
    sink::{Tag, tag},
};

pub(super) fn create_extension(notices: &mut Vec<Notice>, create: &CreateExtension) -> Result<Tag> {
    let CreateExtension { name, if_not_exists, schema, version, is_cascade: _ } = create;
    let name = &*name.name;
    let Some(extension) = EXTENSIONS.iter().find(|extension| extension.name == name) else {
        let known: Vec<&str> = EXTENSIONS.iter().map(|extension| extension.name).collect();
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("extension \"{name}\" is not available"),
        )
        .hint(format!("There is no way to add one; what is there: {}.", known.join(", "))));
    };
    if schema.as_ref().is_some_and(|schema| *schema.name != *SYSTEM_SCHEMA) {
        return Err(SqlError::unsupported("an extension in another schema than pg_catalog"));
    }
    if let Some(version) = version.as_deref().filter(|version| *version != extension.version) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!(
                "extension \"{name}\" has no installation script nor update path for version \"{version}\""
            ),
        ));
    }
    notices.push(match if_not_exists {
        true => {
            Notice::note(SqlState::DUPLICATE_OBJECT, format!("extension \"{name}\" already exists, skipping"))
        }
        false => Notice::no_effect("CREATE EXTENSION", &format!("{name} is always there")),
    });
    tag("CREATE EXTENSION")
}

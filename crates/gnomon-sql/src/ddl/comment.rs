//! COMMENT.

use gnomon_parser::ast::{Comment, ObjectKind, QualifiedName};

use super::{Ddl, column_of, kind_name};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Oid, Table},
    context::{Name, with_article},
    query::relation_of,
    sink::{Tag, tag},
};

pub(super) fn comment(ddl: &mut Ddl<'_>, comment: &Comment) -> Result<Tag> {
    let Comment { kind, name, table, text } = comment;
    ddl.begin("COMMENT")?;
    let key = match kind {
        // There is one database, and it has no row of its own to comment on.
        ObjectKind::Database | ObjectKind::Role => {
            let what = format!("COMMENT ON {}", kind_name(*kind).to_uppercase());
            ddl.notices.push(Notice::no_effect(&what, "there is one, and it has no row of its own"));
            None
        }
        ObjectKind::Schema => {
            let name = Name { schema: None, name: name.last().name.to_string() };
            match ddl.session.view().schema_oid(&name.name) {
                Some(oid) => Some((oid, 0)),
                None => return Err(name.missing("schema")),
            }
        }
        ObjectKind::Column => Some(column_key(ddl, name)?),
        ObjectKind::Constraint => {
            let Some(table) = table else {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a constraint has no table"));
            };
            let table = ddl.session.view().table(&ddl.session.name(&relation_of(table)?)?)?;
            let key = constraint_key(&table, &name.last().name)?;
            if key.is_none() {
                let why = "a CHECK has no row of its own";
                ddl.notices.push(Notice::no_effect("COMMENT ON CONSTRAINT", why));
            }
            key
        }
        ObjectKind::Table | ObjectKind::Index | ObjectKind::Sequence | ObjectKind::View => {
            let name = ddl.session.name(&relation_of(name)?)?;
            match ddl.session.view().find(&name) {
                Some(relation) if relation.kind() == kind_name(*kind) => {
                    ddl.session.view().relation_oid(&name).map(|oid| (oid, 0))
                }
                Some(_) => {
                    return Err(SqlError::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("\"{}\" is not {}", name.name, with_article(kind_name(*kind))),
                    ));
                }
                None => return Err(name.missing("relation")),
            }
        }
        ObjectKind::MaterializedView => return Err(SqlError::unsupported("COMMENT ON MATERIALIZED VIEW")),
    };
    if let Some(key) = key {
        ddl.change(|catalog| catalog.put_comment(key, text.as_deref()))?;
    }
    tag("COMMENT")
}

/// The key of a column's comment.
fn column_key(ddl: &Ddl<'_>, name: &QualifiedName) -> Result<(Oid, u32)> {
    let mut table = name.clone();
    let column = match table.0.pop() {
        Some(column) if !table.0.is_empty() => column,
        _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified")),
    };
    let table = ddl.session.view().table(&ddl.session.name(&relation_of(&table)?)?)?;
    let position = column_of(&table, &column)?;
    Ok((table.oid, u32::try_from(position + 1).unwrap_or(u32::MAX)))
}

/// The key of a constraint's comment: that of its index; a CHECK has none.
fn constraint_key(table: &Table, constraint: &str) -> Result<Option<(Oid, u32)>> {
    let index = table.all_indexes().find(|index| index.name == constraint).map(|index| (index.oid, 0));
    if index.is_some() || table.has_constraint_or_index(constraint) {
        return Ok(index);
    }
    Err(SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name),
    ))
}

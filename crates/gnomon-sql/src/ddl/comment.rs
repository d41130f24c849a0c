//! COMMENT.

use gnomon_parser::ast::{Comment, ObjectKind, QualifiedName, RoutineName};

use super::{Ddl, column_of, kind_name, procedure::find_procedure};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        CONSTRAINT_COMMENT, Relation,
        model::{Constraint, Oid, Table},
    },
    context::{Name, with_article},
    query::relation_of,
    sink::{Tag, tag},
};

pub(super) fn comment(ddl: &mut Ddl<'_>, comment: &Comment) -> Result<Tag> {
    let Comment { kind, name, table, parameters, text } = comment;
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
        ObjectKind::Procedure => {
            let routine = RoutineName { name: name.clone(), parameters: parameters.clone() };
            Some((find_procedure(ddl, &routine)?.oid, 0))
        }
        ObjectKind::Column => Some(column_key(ddl, name)?),
        ObjectKind::Constraint => {
            let Some(table) = table else {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a constraint has no table"));
            };
            let table = ddl.session.view().table(&ddl.session.name(&relation_of(table)?)?)?;
            Some(constraint_key(&table, &name.last().name)?)
        }
        ObjectKind::Table | ObjectKind::Index | ObjectKind::Sequence | ObjectKind::View => {
            let name = ddl.session.name(&relation_of(name)?)?;
            match ddl.session.view().find(&name) {
                Some(Relation::Index(table, _)) if table.partition_of.is_some() => {
                    return Err(SqlError::unsupported("COMMENT ON INDEX of a partition"));
                }
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
    let name = ddl.session.name(&relation_of(&table)?)?;
    let view = ddl.session.view();
    let (oid, position) = match view.find(&name) {
        Some(Relation::View(view)) => {
            let position = view.columns.iter().position(|(name, _)| **name == *column.name);
            let missing = || {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", column.name, view.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            };
            (view.oid, position.ok_or_else(missing)?)
        }
        _ => {
            let table = view.table(&name)?;
            (table.oid, column_of(&table, &column)?)
        }
    };
    Ok((oid, u32::try_from(position + 1).unwrap_or(u32::MAX)))
}

/// The key of a constraint's comment.
fn constraint_key(table: &Table, constraint: &str) -> Result<(Oid, u32)> {
    match table.constraint(constraint) {
        Some(Constraint::PrimaryKey(index) | Constraint::Unique(index)) => {
            Ok((index.oid, CONSTRAINT_COMMENT))
        }
        Some(Constraint::Check(check)) => Ok((check.oid(table.oid), 0)),
        Some(Constraint::NotNull(_)) | None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name),
        )),
    }
}

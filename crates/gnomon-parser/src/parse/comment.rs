//! COMMENT.

use super::{Parser, name, routine, types, unsupported};
use crate::{
    Position, Statement,
    ast::{Comment, CommentedObject, NamedKind, ObjectKind, RoutineKind},
    error::Result,
    keyword::Keyword as K,
};

pub(super) fn comment(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let position = p.expect(K::Comment)?.position();
    p.expect(K::On)?;
    let Some(object) = commented(p, position)? else {
        return unsupported::unsupported_object(p, "COMMENT ON", position);
    };
    p.expect(K::Is)?;
    let text = if p.take(K::Null) { None } else { Some(p.string()?) };
    Ok(Statement::Comment(Box::new(Comment { object, text })))
}

/// The object of a comment; none if it is of a kind that has no tree.
fn commented(p: &mut Parser<'_, '_>, position: Position) -> Result<Option<CommentedObject>> {
    let relation = match p.keyword() {
        Some(K::Table) => Some(ObjectKind::Table),
        Some(K::Index) => Some(ObjectKind::Index),
        Some(K::Sequence) => Some(ObjectKind::Sequence),
        Some(K::View) => Some(ObjectKind::View),
        _ => None,
    };
    if let Some(kind) = relation {
        p.bump();
        return Ok(Some(CommentedObject::Relation { kind, name: p.qualified_name()? }));
    }
    let named = match p.keyword() {
        Some(K::Access) => Some((NamedKind::AccessMethod, &[K::Access, K::Method][..])),
        Some(K::Database) => Some((NamedKind::Database, &[K::Database][..])),
        Some(K::Extension) => Some((NamedKind::Extension, &[K::Extension][..])),
        Some(K::Language) => Some((NamedKind::Language, &[K::Language][..])),
        Some(K::Procedural) => Some((NamedKind::Language, &[K::Procedural, K::Language][..])),
        Some(K::Role) => Some((NamedKind::Role, &[K::Role][..])),
        Some(K::Schema) => Some((NamedKind::Schema, &[K::Schema][..])),
        Some(K::Tablespace) => Some((NamedKind::Tablespace, &[K::Tablespace][..])),
        _ => None,
    };
    if let Some((kind, words)) = named {
        p.expect_all(words)?;
        return Ok(Some(CommentedObject::Named { kind, name: p.name()? }));
    }
    let routine = match p.keyword() {
        Some(K::Aggregate) => Some(RoutineKind::Aggregate),
        Some(K::Function) => Some(RoutineKind::Function),
        Some(K::Procedure) => Some(RoutineKind::Procedure),
        Some(K::Routine) => Some(RoutineKind::Routine),
        _ => None,
    };
    if let Some(kind) = routine {
        p.bump();
        let routine = match kind {
            RoutineKind::Aggregate => routine::aggregate_name(p)?,
            _ => routine::routine_name(p)?,
        };
        return Ok(Some(CommentedObject::Routine { kind, routine }));
    }
    Ok(Some(match p.keyword() {
        Some(K::Column) => {
            p.bump();
            CommentedObject::Column(p.qualified_name()?)
        }
        Some(K::Constraint) => {
            p.bump();
            let name = p.name()?;
            p.expect(K::On)?;
            if p.is(K::Domain) && p.is_name_at(1) {
                p.bump();
                p.refuse("COMMENT ON CONSTRAINT of a domain", position);
            }
            CommentedObject::Constraint { name, table: p.qualified_name()? }
        }
        Some(K::Collation) => {
            p.bump();
            CommentedObject::Collation(p.qualified_name()?)
        }
        Some(K::Type) => {
            p.bump();
            CommentedObject::Type(types::type_name(p)?)
        }
        Some(K::Operator) if !p.is_at(1, K::Class) && !p.is_at(1, K::Family) => {
            p.bump();
            let name = name::any_operator(p)?;
            p.expect_char('(')?;
            let left = if p.take(K::None) { None } else { Some(types::type_name(p)?) };
            p.expect_char(',')?;
            let right = types::type_name(p)?;
            p.expect_char(')')?;
            CommentedObject::Operator { name, left, right }
        }
        Some(K::Cast) => {
            p.bump();
            p.expect_char('(')?;
            let from = types::type_name(p)?;
            p.expect(K::As)?;
            let to = types::type_name(p)?;
            p.expect_char(')')?;
            CommentedObject::Cast { from, to }
        }
        _ => return Ok(None),
    }))
}

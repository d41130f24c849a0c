//! DROP of kinds of objects that cannot be made.

use super::{Parser, option, routine, unsupported};
use crate::{
    Position, Statement,
    ast::{AbsentKind, AbsentObject, DropAbsent, QualifiedName},
    error::Result,
    keyword::Keyword as K,
};

/// The words of the kinds.
const KINDS: &[(&[K], AbsentKind)] = &[
    (&[K::Domain], AbsentKind::Domain),
    (&[K::Event, K::Trigger], AbsentKind::EventTrigger),
    (&[K::Extension], AbsentKind::Extension),
    (&[K::Foreign, K::Data, K::Wrapper], AbsentKind::ForeignDataWrapper),
    (&[K::Foreign, K::Table], AbsentKind::ForeignTable),
    (&[K::Function], AbsentKind::Function),
    (&[K::Group], AbsentKind::Role),
    (&[K::Materialized, K::View], AbsentKind::MaterializedView),
    (&[K::Policy], AbsentKind::Policy),
    (&[K::Publication], AbsentKind::Publication),
    (&[K::Role], AbsentKind::Role),
    (&[K::Rule], AbsentKind::Rule),
    (&[K::Server], AbsentKind::Server),
    (&[K::Statistics], AbsentKind::Statistics),
    (&[K::Subscription], AbsentKind::Subscription),
    (&[K::Trigger], AbsentKind::Trigger),
    (&[K::Type], AbsentKind::Type),
    (&[K::User], AbsentKind::Role),
];

/// DROP of a kind of object that cannot be made, or of one that the tree does not have; DROP has been read.
pub(super) fn drop(p: &mut Parser<'_, '_>, position: Position) -> Result<Statement> {
    let is_next = |p: &mut Parser<'_, '_>, words: &[K]| {
        words.iter().enumerate().all(|(ahead, word)| p.is_at(ahead, *word))
    };
    // USER MAPPING is another kind.
    let is_mapping = is_next(p, &[K::User, K::Mapping]);
    let kind = KINDS.iter().find(|(words, _)| !is_mapping && is_next(p, words));
    let Some((words, kind)) = kind else { return unsupported::unsupported_object(p, "DROP", position) };
    p.expect_all(words)?;
    let if_exists = option::if_exists(p);
    let objects = match kind {
        AbsentKind::Policy | AbsentKind::Rule | AbsentKind::Trigger => {
            let name = p.name()?;
            p.expect(K::On)?;
            vec![AbsentObject::Of { name, relation: p.qualified_name()? }]
        }
        kind => p.list(|p| object(p, *kind))?,
    };
    if *kind != AbsentKind::Role {
        option::cascade(p);
    }
    Ok(Statement::DropAbsent(DropAbsent { kind: *kind, objects, if_exists }))
}

fn object(p: &mut Parser<'_, '_>, kind: AbsentKind) -> Result<AbsentObject> {
    Ok(match kind {
        AbsentKind::Domain | AbsentKind::Type => AbsentObject::Type(p.type_name()?),
        AbsentKind::Function => AbsentObject::Function(routine::routine_name(p)?),
        AbsentKind::ForeignTable | AbsentKind::MaterializedView | AbsentKind::Statistics => {
            AbsentObject::Named(p.qualified_name()?)
        }
        _ => AbsentObject::Named(QualifiedName(vec![p.name()?])),
    })
}

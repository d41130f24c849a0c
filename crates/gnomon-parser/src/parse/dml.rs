//! INSERT, UPDATE, DELETE, TRUNCATE.

use super::{Parser, ddl, from, option, primary, query};
use crate::{
    Statement,
    ast::{
        Assignment, AssignmentTarget, ConflictTarget, ConflictUpdate, Delete, Insert, OnConflict, Overriding,
        RowFilter, Target, Truncate, Update, With,
    },
    error::Result,
    keyword::Keyword as K,
};

/// A query or a change, with WITH (PreparableStmt).
pub(super) fn preparable(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let start = p.position();
    let with = query::optional_with(p)?;
    match p.keyword() {
        Some(K::Insert) => insert(p, with),
        Some(K::Update) => update(p, with),
        Some(K::Delete) => delete(p, with),
        Some(K::Merge) => p.unsupported("MERGE", start),
        _ => p.nested(|p| query::query_after_with(p, with)).map(|query| Statement::Query(Box::new(query))),
    }
}

fn insert(p: &mut Parser<'_, '_>, with: Option<Box<With>>) -> Result<Statement> {
    p.expect_all(&[K::Insert, K::Into])?;
    let table = p.relation_name()?;
    let alias = if p.take(K::As) { Some(p.name()?) } else { None };
    let mut columns = Vec::new();
    if p.is_char('(') && !p.is_char_at(1, '(') && !primary::begins_query_at(p, 1) {
        columns = p.parens(assignment_target)?;
    }
    let mut overriding = None;
    let mut source = None;
    if p.is(K::Default) && columns.is_empty() {
        p.bump();
        p.expect(K::Values)?;
    } else {
        if p.take(K::Overriding) {
            overriding = Some(match p.take(K::User) {
                true => Overriding::User,
                false => {
                    p.expect(K::System)?;
                    Overriding::System
                }
            });
            p.expect(K::Value)?;
        }
        source = Some(Box::new(p.query()?));
    }
    let on_conflict = on_conflict(p)?;
    let returning = returning(p)?;
    Ok(Statement::Insert(Box::new(Insert {
        with,
        table,
        alias,
        columns,
        overriding,
        source,
        on_conflict,
        returning,
    })))
}

fn on_conflict(p: &mut Parser<'_, '_>) -> Result<Option<Box<OnConflict>>> {
    if !p.is(K::On) {
        return Ok(None);
    }
    let position = p.bump().position();
    p.expect(K::Conflict)?;
    let at = p.position();
    let target = if p.is_char('(') {
        let elements = p.parens(ddl::index_element)?;
        Some(ConflictTarget::Index { elements, filter: query::optional_where(p)?, position: at })
    } else if p.take(K::On) {
        p.expect(K::Constraint)?;
        Some(ConflictTarget::Constraint(p.name()?))
    } else {
        None
    };
    p.expect(K::Do)?;
    let update = if p.take(K::Nothing) {
        None
    } else {
        p.expect_all(&[K::Update, K::Set])?;
        let assignments = p.list(assignment)?;
        Some(ConflictUpdate { assignments, filter: query::optional_where(p)? })
    };
    Ok(Some(Box::new(OnConflict { target, update, position })))
}

fn assignment_target(p: &mut Parser<'_, '_>) -> Result<AssignmentTarget> {
    Ok(AssignmentTarget { column: p.name()?, path: primary::path(p)? })
}

fn assignment(p: &mut Parser<'_, '_>) -> Result<Assignment> {
    let position = p.position();
    if p.is_char('(') {
        let targets = p.parens(assignment_target)?;
        p.expect_char('=')?;
        return Ok(Assignment::Row { targets, value: p.expr()?, position });
    }
    let target = assignment_target(p)?;
    p.expect_char('=')?;
    Ok(Assignment::One(target, p.expr()?))
}

fn update(p: &mut Parser<'_, '_>, with: Option<Box<With>>) -> Result<Statement> {
    p.expect(K::Update)?;
    let table = from::changed_relation(p)?;
    p.expect(K::Set)?;
    let assignments = p.list(assignment)?;
    let from = if p.take(K::From) { p.list(from::table_reference)? } else { Vec::new() };
    let filter = row_filter(p)?;
    let returning = returning(p)?;
    Ok(Statement::Update(Box::new(Update { with, table, assignments, from, filter, returning })))
}

fn delete(p: &mut Parser<'_, '_>, with: Option<Box<With>>) -> Result<Statement> {
    p.expect_all(&[K::Delete, K::From])?;
    let table = from::changed_relation(p)?;
    let using = if p.take(K::Using) { p.list(from::table_reference)? } else { Vec::new() };
    let filter = row_filter(p)?;
    let returning = returning(p)?;
    Ok(Statement::Delete(Box::new(Delete { with, table, using, filter, returning })))
}

/// WHERE of UPDATE and DELETE.
fn row_filter(p: &mut Parser<'_, '_>) -> Result<Option<RowFilter>> {
    if p.is(K::Where) && p.is_at(1, K::Current) && p.is_at(2, K::Of) {
        p.bump();
        p.bump();
        p.bump();
        return Ok(Some(RowFilter::CurrentOf(p.name()?)));
    }
    Ok(query::optional_where(p)?.map(RowFilter::Where))
}

fn returning(p: &mut Parser<'_, '_>) -> Result<Vec<Target>> {
    if p.take(K::Returning) { query::targets(p) } else { Ok(Vec::new()) }
}

pub(super) fn truncate(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Truncate)?;
    p.take(K::Table);
    let tables = p.list(from::relation_expr)?;
    let restart_identity = p.take_all(&[K::Restart, K::Identity])?;
    if !restart_identity {
        p.take_all(&[K::Continue, K::Identity])?;
    }
    let is_cascade = option::cascade(p);
    Ok(Statement::Truncate(Truncate { tables, restart_identity, is_cascade }))
}

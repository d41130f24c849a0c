//! Which statement a text is.

use super::{
    Parser, alter, call, comment, create, cursor, ddl, dml, from, option, query, session, unsupported,
};
use crate::{
    Statement,
    ast::{Backup, Cluster, Lock, LockMode, Maintenance, Reindex, ReindexTarget},
    error::Result,
    keyword::Keyword as K,
    lexer::Kind,
};

/// A statement, without its semicolon (stmt).
pub(super) fn statement(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let token = p.peek();
    let Some(keyword) = token.keyword() else {
        return match token.kind {
            Kind::Char('(') => p.preparable().map(query::made_table),
            Kind::Name if p.text_of(token).eq_ignore_ascii_case("backup") && p.is_at(1, K::To) => backup(p),
            _ => p.fail(),
        };
    };
    match keyword {
        K::Select | K::Values | K::Table | K::With => p.preparable().map(query::made_table),
        K::Insert | K::Update | K::Delete => p.preparable(),
        K::Create => create::create(p),
        K::Alter => alter::alter(p),
        K::Drop => ddl::drop(p),
        K::Truncate => dml::truncate(p),
        K::Comment => comment::comment(p),
        K::Begin | K::Start | K::Commit | K::End | K::Rollback | K::Abort | K::Savepoint | K::Release => {
            session::transaction(p)
        }
        K::Prepare if p.is_at(1, K::Transaction) && p.is_string_at(2) => session::transaction(p),
        K::Set => session::set(p),
        K::Reset => session::reset(p),
        K::Show => session::show(p),
        K::Prepare => cursor::prepare(p),
        K::Execute => cursor::execute(p),
        K::Deallocate => {
            p.bump();
            if p.is(K::Prepare) && (p.is_name_at(1) || p.is_at(1, K::All)) {
                p.bump();
            }
            if p.take(K::All) {
                return Ok(Statement::Deallocate(None));
            }
            Ok(Statement::Deallocate(Some(p.name()?)))
        }
        K::Discard => session::discard(p),
        K::Copy => cursor::copy(p),
        K::Declare => cursor::declare(p),
        K::Fetch | K::Move => cursor::fetch(p),
        K::Close => {
            p.bump();
            if p.take(K::All) {
                return Ok(Statement::Close(None));
            }
            Ok(Statement::Close(Some(p.name()?)))
        }
        K::Explain => cursor::explain(p),
        K::Vacuum | K::Analyze | K::Analyse => maintenance(p, keyword),
        K::Reindex => reindex(p),
        K::Cluster => cluster(p),
        K::Call => {
            p.bump();
            let position = p.position();
            let name = p.function_name()?;
            Ok(Statement::Call(call::call(p, name, position)?))
        }
        K::Lock => lock(p),
        K::Checkpoint => {
            p.bump();
            Ok(Statement::Checkpoint)
        }
        K::Unlisten => {
            p.bump();
            if p.take_char('*') {
                return Ok(Statement::Unlisten(None));
            }
            Ok(Statement::Unlisten(Some(p.name()?)))
        }
        _ => unsupported::unsupported_statement(p, keyword),
    }
}

fn backup(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let position = p.bump().position();
    p.expect(K::To)?;
    let mut backup = Backup { file: None, since: None, position };
    if p.is_string_at(0) {
        backup.file = Some(p.string()?);
    } else {
        p.expect(K::Stdout)?;
    }
    let token = p.peek();
    if token.kind == Kind::Name && p.text_of(token).eq_ignore_ascii_case("since") {
        p.bump();
        backup.since = Some(p.string()?);
    }
    Ok(Statement::Backup(backup))
}

fn maintenance(p: &mut Parser<'_, '_>, verb: K) -> Result<Statement> {
    p.bump();
    let mut options = Vec::new();
    if p.is_char('(') {
        options = option::utility_options(p)?;
    } else {
        let words: &[K] = match verb {
            K::Vacuum => &[K::Full, K::Freeze, K::Verbose, K::Analyze, K::Analyse],
            _ => &[K::Verbose],
        };
        for word in words {
            if p.is(*word) {
                options.push(option::bare(p.any_word()?));
            }
        }
    }
    let mut tables = Vec::new();
    if p.is_name_at(0) {
        tables = p.list(|p| Ok((p.relation_name()?, p.optional_names()?)))?;
    }
    let maintenance = Maintenance { options, tables };
    Ok(match verb {
        K::Vacuum => Statement::Vacuum(maintenance),
        _ => Statement::Analyze(maintenance),
    })
}

fn reindex(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.bump();
    let mut options = if p.is_char('(') { option::utility_options(p)? } else { Vec::new() };
    let kind = p.keyword();
    match kind {
        Some(K::Index | K::Table | K::Schema | K::Database | K::System) => p.bump(),
        _ => return p.fail(),
    };
    if p.is(K::Concurrently) {
        options.push(option::bare(p.any_word()?));
    }
    let target = match kind {
        Some(K::Index) => ReindexTarget::Index(p.relation_name()?),
        Some(K::Table) => ReindexTarget::Table(p.relation_name()?),
        Some(K::Schema) => ReindexTarget::Schema(p.name()?),
        Some(K::Database) => ReindexTarget::Database(p.name()?),
        _ => ReindexTarget::System(p.name()?),
    };
    Ok(Statement::Reindex(Reindex { options, target }))
}

fn cluster(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.bump();
    let (mut options, mut table, mut index) = (Vec::new(), None, None);
    let has_options = p.is_char('(');
    if has_options {
        options = option::utility_options(p)?;
    } else if p.is(K::Verbose) {
        options.push(option::bare(p.any_word()?));
    }
    if !has_options && p.is_name_at(0) && p.is_at(1, K::On) {
        // The order of the words before PostgreSQL 8.3.
        index = Some(p.name()?);
        p.bump();
        table = Some(p.relation_name()?);
    } else if has_options || p.is_name_at(0) {
        table = Some(p.relation_name()?);
        index = if p.take(K::Using) { Some(p.name()?) } else { None };
    }
    Ok(Statement::Cluster(Cluster { options, table, index }))
}

fn lock(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.bump();
    p.take(K::Table);
    let tables = p.list(from::relation_expr)?;
    let mut mode = LockMode::AccessExclusive;
    if p.take(K::In) {
        mode = lock_mode(p)?;
        p.expect(K::Mode)?;
    }
    let is_nowait = p.take(K::Nowait);
    Ok(Statement::Lock(Lock { tables, mode, is_nowait }))
}

fn lock_mode(p: &mut Parser<'_, '_>) -> Result<LockMode> {
    if p.take(K::Access) {
        if p.take(K::Share) {
            return Ok(LockMode::AccessShare);
        }
        p.expect(K::Exclusive)?;
        return Ok(LockMode::AccessExclusive);
    }
    if p.take(K::Row) {
        if p.take(K::Share) {
            return Ok(LockMode::RowShare);
        }
        p.expect(K::Exclusive)?;
        return Ok(LockMode::RowExclusive);
    }
    if p.take(K::Share) {
        if p.take_all(&[K::Update, K::Exclusive])? {
            return Ok(LockMode::ShareUpdateExclusive);
        }
        if p.take_all(&[K::Row, K::Exclusive])? {
            return Ok(LockMode::ShareRowExclusive);
        }
        return Ok(LockMode::Share);
    }
    p.expect(K::Exclusive)?;
    Ok(LockMode::Exclusive)
}

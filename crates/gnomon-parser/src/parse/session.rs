//! Transactions and settings.

use super::{Parser, option, types};
use crate::{
    Statement,
    ast::{
        Constant, Discard, Ident, IsolationLevel, OptionValue, Set, SettingItem, SettingName, SettingValue,
        Transaction, TransactionMode, TypeName, Value,
    },
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

pub(super) fn transaction(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let verb = p.bump().keyword();
    Ok(Statement::Transaction(match verb {
        Some(K::Begin) => {
            work(p);
            Transaction::Begin { modes: optional_modes(p)?, is_start: false }
        }
        Some(K::Start) => {
            p.expect(K::Transaction)?;
            Transaction::Begin { modes: optional_modes(p)?, is_start: true }
        }
        Some(K::Commit) if p.take(K::Prepared) => Transaction::CommitPrepared(p.string()?),
        Some(K::Rollback) if p.take(K::Prepared) => Transaction::RollbackPrepared(p.string()?),
        Some(K::Commit | K::End) => {
            work(p);
            Transaction::Commit { chain: chain(p)? }
        }
        Some(K::Rollback) => {
            work(p);
            if p.take(K::To) {
                return Ok(Statement::Transaction(Transaction::RollbackTo(savepoint(p)?)));
            }
            Transaction::Rollback { chain: chain(p)? }
        }
        Some(K::Abort) => {
            work(p);
            Transaction::Rollback { chain: chain(p)? }
        }
        Some(K::Savepoint) => Transaction::Savepoint(p.name()?),
        Some(K::Release) => Transaction::Release(savepoint(p)?),
        _ => {
            p.expect(K::Transaction)?;
            Transaction::Prepare(p.string()?)
        }
    }))
}

/// WORK or TRANSACTION, which mean nothing.
fn work(p: &mut Parser<'_, '_>) {
    if !p.take(K::Work) {
        p.take(K::Transaction);
    }
}

fn chain(p: &mut Parser<'_, '_>) -> Result<bool> {
    if !p.take(K::And) {
        return Ok(false);
    }
    let chain = !p.take(K::No);
    p.expect(K::Chain)?;
    Ok(chain)
}

/// A savepoint behind the word SAVEPOINT, which may be its name.
fn savepoint(p: &mut Parser<'_, '_>) -> Result<Ident> {
    if p.is(K::Savepoint) && p.is_name_at(1) {
        p.bump();
    }
    p.name()
}

fn optional_modes(p: &mut Parser<'_, '_>) -> Result<Vec<TransactionMode>> {
    match begins_mode(p) {
        true => modes(p),
        false => Ok(Vec::new()),
    }
}

fn begins_mode(p: &mut Parser<'_, '_>) -> bool {
    matches!(p.keyword(), Some(K::Isolation | K::Read | K::Deferrable | K::Not))
}

fn modes(p: &mut Parser<'_, '_>) -> Result<Vec<TransactionMode>> {
    let mut modes = vec![mode(p)?];
    loop {
        if p.take_char(',') || begins_mode(p) {
            modes.push(mode(p)?);
        } else {
            return Ok(modes);
        }
    }
}

fn mode(p: &mut Parser<'_, '_>) -> Result<TransactionMode> {
    match p.keyword() {
        Some(K::Isolation) => {
            p.bump();
            p.expect(K::Level)?;
            let level = if p.take(K::Read) {
                match p.take(K::Uncommitted) {
                    true => IsolationLevel::ReadUncommitted,
                    false => {
                        p.expect(K::Committed)?;
                        IsolationLevel::ReadCommitted
                    }
                }
            } else if p.take_all(&[K::Repeatable, K::Read])? {
                IsolationLevel::RepeatableRead
            } else {
                p.expect(K::Serializable)?;
                IsolationLevel::Serializable
            };
            Ok(TransactionMode::Isolation(level))
        }
        Some(K::Read) => {
            p.bump();
            let is_read_only = p.take(K::Only);
            if !is_read_only {
                p.expect(K::Write)?;
            }
            Ok(TransactionMode::ReadOnly(is_read_only))
        }
        Some(K::Deferrable) => {
            p.bump();
            Ok(TransactionMode::Deferrable(true))
        }
        _ => {
            p.expect_all(&[K::Not, K::Deferrable])?;
            Ok(TransactionMode::Deferrable(false))
        }
    }
}

pub(super) fn set(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Set)?;
    if p.is(K::Constraints) && !is_value_at(p, 1) {
        let position = p.position();
        return p.unsupported("SET CONSTRAINTS", position);
    }
    let mut is_local = false;
    if matches!(p.keyword(), Some(K::Local | K::Session)) && !is_value_at(p, 1) {
        if p.is(K::Session) && p.is_at(1, K::Characteristics) {
            p.bump();
            p.bump();
            p.expect_all(&[K::As, K::Transaction])?;
            let modes = modes(p)?;
            return Ok(Statement::Transaction(Transaction::SetModes { is_session: true, modes }));
        }
        if !p.is_at(1, K::Authorization) {
            is_local = p.bump().keyword() == Some(K::Local);
        }
    }
    if p.is(K::Transaction) && !is_value_at(p, 1) {
        p.bump();
        if p.take(K::Snapshot) {
            return Ok(Statement::Transaction(Transaction::SetSnapshot(p.string()?)));
        }
        let modes = modes(p)?;
        return Ok(Statement::Transaction(Transaction::SetModes { is_session: false, modes }));
    }
    let (name, value) = setting(p)?;
    Ok(Statement::Set(Set { is_local, name, value }))
}

/// True if the token that many ahead stands between a setting's name and its value.
fn is_value_at(p: &mut Parser<'_, '_>, ahead: usize) -> bool {
    p.is_at(ahead, K::To) || p.is_char_at(ahead, '=') || p.is_char_at(ahead, '.')
}

/// A setting and its value, behind SET (set_rest_more).
pub(super) fn setting(p: &mut Parser<'_, '_>) -> Result<(Ident, SettingValue)> {
    let position = p.position();
    let named = |name: &str| Ident { name: name.into(), position };
    let text = |text: Box<str>| SettingValue::List(vec![SettingItem::Text(text)]);
    let is_word = !is_value_at(p, 1) && !p.is_at(1, K::From);
    match p.keyword() {
        Some(K::Time) if is_word => {
            p.bump();
            p.expect(K::Zone)?;
            Ok((named("timezone"), zone(p)?))
        }
        Some(K::Catalog) if is_word => {
            p.bump();
            let at = p.position();
            p.string()?;
            Err(Error::new(ErrorKind::Unsupported, "current database cannot be changed", at))
        }
        Some(K::Schema) if is_word => {
            p.bump();
            Ok((named("search_path"), text(p.string()?)))
        }
        Some(K::Names) if is_word => {
            p.bump();
            let value = if p.is_string_at(0) {
                text(p.string()?)
            } else {
                p.take(K::Default);
                SettingValue::Default
            };
            Ok((named("client_encoding"), value))
        }
        Some(K::Role) if is_word => {
            p.bump();
            let value = non_reserved_or_string(p)?;
            Ok((named("role"), text(value)))
        }
        Some(K::Session) if p.is_at(1, K::Authorization) => {
            p.bump();
            p.bump();
            let value = match p.take(K::Default) {
                true => SettingValue::Default,
                false => text(non_reserved_or_string(p)?),
            };
            Ok((named("session_authorization"), value))
        }
        Some(K::Xml) if is_word => {
            p.bump();
            p.expect(K::Option)?;
            let value = match p.take(K::Document) {
                true => "DOCUMENT",
                false => {
                    p.expect(K::Content)?;
                    "CONTENT"
                }
            };
            Ok((named("xmloption"), text(value.into())))
        }
        _ => {
            let name = setting_name(p)?;
            if p.take(K::From) {
                p.expect(K::Current)?;
                return Ok((name, SettingValue::Current));
            }
            if !p.take(K::To) {
                p.expect_char('=')?;
            }
            if p.take(K::Default) {
                return Ok((name, SettingValue::Default));
            }
            Ok((name, SettingValue::List(p.list(setting_item)?)))
        }
    }
}

fn setting_item(p: &mut Parser<'_, '_>) -> Result<SettingItem> {
    if p.is_number() {
        return Ok(SettingItem::Number(p.number()?));
    }
    Ok(SettingItem::Text(match option::word_or_string(p)? {
        OptionValue::String(text) => text,
        OptionValue::Word(word) => word.name,
        _ => return p.fail(),
    }))
}

pub(super) fn non_reserved_or_string(p: &mut Parser<'_, '_>) -> Result<Box<str>> {
    if p.is_string_at(0) { p.string() } else { Ok(p.non_reserved_word()?.name) }
}

/// The value of TIME ZONE.
fn zone(p: &mut Parser<'_, '_>) -> Result<SettingValue> {
    let position = p.position();
    let item = match p.peek().kind {
        Kind::Keyword(K::Default | K::Local) => {
            p.bump();
            return Ok(SettingValue::Default);
        }
        Kind::Keyword(K::Interval) => {
            let mut ty: TypeName;
            let value;
            if p.is_char_at(1, '(') {
                ty = types::simple_type(p)?;
                value = p.string()?;
            } else {
                p.bump();
                ty = TypeName::system("interval", position);
                value = p.string()?;
                let at = p.position();
                ty.modifiers = types::interval_fields(p)?;
                // HOUR, or HOUR TO MINUTE.
                let is_hours = match ty.modifiers.first() {
                    Some(crate::ast::Expr::Constant(mask)) => {
                        matches!(mask.value, Value::Integer(fields) if fields & !(3 << 10) == 0 && fields & (1 << 10) != 0)
                    }
                    _ => true,
                };
                if !is_hours {
                    return Err(Error::syntax("time zone interval must be HOUR or HOUR TO MINUTE", at));
                }
            }
            SettingItem::Interval(Constant { value: Value::String(value), position }, Box::new(ty))
        }
        Kind::Name | Kind::QuotedName | Kind::UnicodeName => SettingItem::Text(p.any_word()?.name),
        _ if p.is_number() => SettingItem::Number(p.number()?),
        _ => SettingItem::Text(p.string()?),
    };
    Ok(SettingValue::List(vec![item]))
}

/// The name of a setting, with its dots.
fn setting_name(p: &mut Parser<'_, '_>) -> Result<Ident> {
    let mut name = p.name()?;
    while p.take_char('.') {
        name.name = format!("{}.{}", name.name, p.name()?.name).into();
    }
    Ok(name)
}

/// Reads the setting of RESET or SHOW.
fn shown(p: &mut Parser<'_, '_>) -> Result<SettingName> {
    let position = p.position();
    let named = |name: &str| SettingName::One(Ident { name: name.into(), position });
    if p.take(K::All) {
        return Ok(SettingName::All);
    }
    if p.is_at(1, K::Zone) && p.take_all(&[K::Time, K::Zone])? {
        return Ok(named("timezone"));
    }
    if p.is_at(1, K::Isolation) && p.take_all(&[K::Transaction, K::Isolation, K::Level])? {
        return Ok(named("transaction_isolation"));
    }
    if p.is_at(1, K::Authorization) && p.take_all(&[K::Session, K::Authorization])? {
        return Ok(named("session_authorization"));
    }
    Ok(SettingName::One(setting_name(p)?))
}

pub(super) fn reset(p: &mut Parser<'_, '_>) -> Result<Statement> {
    Ok(Statement::Reset(reset_setting(p)?))
}

pub(super) fn reset_setting(p: &mut Parser<'_, '_>) -> Result<SettingName> {
    p.expect(K::Reset)?;
    shown(p)
}

pub(super) fn show(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Show)?;
    Ok(Statement::Show(shown(p)?))
}

pub(super) fn discard(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Discard)?;
    let what = match p.keyword() {
        Some(K::All) => Discard::All,
        Some(K::Plans) => Discard::Plans,
        Some(K::Sequences) => Discard::Sequences,
        Some(K::Temp | K::Temporary) => Discard::Temp,
        _ => return p.fail(),
    };
    p.bump();
    Ok(Statement::Discard(what))
}

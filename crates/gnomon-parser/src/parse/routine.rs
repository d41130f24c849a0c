//! CREATE and DROP PROCEDURE.

use super::{
    Parser, option, session,
    types::{self, is_type_keyword},
};
use crate::{
    Position, Statement,
    ast::{CreateProcedure, DropRoutine, Ident, ParameterMode, RoutineBody, RoutineName, RoutineParameter},
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

pub(super) fn create_procedure(p: &mut Parser<'_, '_>, or_replace: bool) -> Result<Statement> {
    p.expect(K::Procedure)?;
    let name = p.function_name()?;
    let parameters = parameters(p, true)?;
    let mut procedure = CreateProcedure {
        name,
        or_replace,
        parameters,
        language: None,
        body: None,
        is_security_definer: None,
        others: Vec::new(),
    };
    while routine_option(p, &mut procedure)? {}
    if p.is(K::Begin) || p.is(K::Return) {
        let body = routine_body(p)?;
        if procedure.body.replace(body).is_some() {
            let message = "duplicate function body specified";
            return Err(Error::new(ErrorKind::InvalidDefinition, message, Position::NONE));
        }
    }
    Ok(Statement::CreateProcedure(Box::new(procedure)))
}

/// A clause of CREATE PROCEDURE; false if there is none.
fn routine_option(p: &mut Parser<'_, '_>, procedure: &mut CreateProcedure) -> Result<bool> {
    let Some(keyword) = p.keyword() else { return Ok(false) };
    let is_redundant = match keyword {
        K::As => procedure.body.is_some(),
        K::Language => procedure.language.is_some(),
        K::External | K::Security => procedure.is_security_definer.is_some(),
        _ => false,
    };
    let position = p.position();
    match keyword {
        K::As => {
            p.bump();
            let mut texts = vec![p.string()?];
            if p.take_char(',') {
                texts.push(p.string()?);
            }
            procedure.body = Some(RoutineBody::Text(texts));
        }
        K::Language => {
            p.bump();
            let position = p.position();
            let name = session::non_reserved_or_string(p)?;
            procedure.language = Some(Ident { name: name.to_lowercase().into(), position });
        }
        K::External | K::Security => {
            p.take(K::External);
            p.expect(K::Security)?;
            let is_definer = p.take(K::Definer);
            if !is_definer {
                p.expect(K::Invoker)?;
            }
            procedure.is_security_definer = Some(is_definer);
        }
        K::Set => {
            procedure.others.push(p.any_word()?);
            session::setting(p)?;
        }
        K::Reset => {
            let position = p.position();
            procedure.others.push(Ident { name: "reset".into(), position });
            session::reset_setting(p)?;
        }
        K::Transform => {
            procedure.others.push(p.any_word()?);
            p.list(|p| {
                p.expect_all(&[K::For, K::Type])?;
                p.type_name()
            })?;
        }
        K::Strict | K::Immutable | K::Stable | K::Volatile | K::Leakproof | K::Window => {
            procedure.others.push(p.any_word()?);
        }
        K::Not if p.is_at(1, K::Leakproof) => {
            p.bump();
            procedure.others.push(p.any_word()?);
        }
        K::Called => {
            procedure.others.push(p.any_word()?);
            p.expect_all(&[K::On, K::Null, K::Input])?;
        }
        K::Returns => {
            procedure.others.push(p.any_word()?);
            p.expect_all(&[K::Null, K::On, K::Null, K::Input])?;
        }
        K::Cost | K::Rows => {
            procedure.others.push(p.any_word()?);
            p.number()?;
        }
        K::Support => {
            procedure.others.push(p.any_word()?);
            p.qualified_name()?;
        }
        K::Parallel => {
            procedure.others.push(p.any_word()?);
            p.name()?;
        }
        _ => return Ok(false),
    }
    match is_redundant {
        true => Err(Error::syntax("conflicting or redundant options", position)),
        false => Ok(true),
    }
}

/// BEGIN ATOMIC ... END, or RETURN.
fn routine_body(p: &mut Parser<'_, '_>) -> Result<RoutineBody> {
    if p.is(K::Return) {
        let position = p.bump().position();
        let _ = p.expr()?;
        p.refuse("RETURN in CREATE PROCEDURE", position);
        return Ok(RoutineBody::Text(Vec::new()));
    }
    p.expect_all(&[K::Begin, K::Atomic])?;
    let start = p.end;
    let mut statements = Vec::new();
    loop {
        while p.take_char(';') {}
        let end = p.peek().start as usize;
        if p.take(K::End) {
            let text = p.text[start..end].trim().into();
            return Ok(RoutineBody::Atomic { text, statements });
        }
        let statement = p.nested(|p| {
            if p.is(K::Return) {
                let position = p.bump().position();
                let _ = p.expr()?;
                return p.unsupported("RETURN in CREATE PROCEDURE", position);
            }
            p.statement()
        })?;
        statements.push(statement);
        p.expect_char(';')?;
    }
}

/// Parameters of a routine, in parentheses.
pub(super) fn parameters(p: &mut Parser<'_, '_>, may_have_default: bool) -> Result<Vec<RoutineParameter>> {
    p.expect_char('(')?;
    if p.take_char(')') {
        return Ok(Vec::new());
    }
    let parameters = p.list(|p| {
        let mut parameter = parameter(p)?;
        if may_have_default && (p.take(K::Default) || p.take_char('=')) {
            parameter.default = Some(p.expr()?);
        }
        Ok(parameter)
    })?;
    p.expect_char(')')?;
    Ok(parameters)
}

fn parameter(p: &mut Parser<'_, '_>) -> Result<RoutineParameter> {
    let position = p.position();
    let mut mode = parameter_mode(p);
    // A name is one if a type or a mode follows it.
    let is_named = match p.peek().kind {
        Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
        Kind::Keyword(keyword) => keyword.may_name_function(),
        _ => false,
    } && (begins_type_at(p, 1) || mode.is_none() && begins_mode_at(p, 1));
    let name = if is_named { Some(p.function_name_word()?) } else { None };
    if is_named && mode.is_none() {
        mode = parameter_mode(p);
    }
    let ty = types::parameter_type(p)?;
    Ok(RoutineParameter { name, mode: mode.unwrap_or_default(), ty, default: None, position })
}

fn begins_type_at(p: &mut Parser<'_, '_>, ahead: usize) -> bool {
    match p.peek_at(ahead).kind {
        Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
        Kind::Keyword(keyword) => {
            keyword.may_name_function()
                || is_type_keyword(keyword)
                || matches!(keyword, K::Interval | K::Setof)
        }
        _ => false,
    }
}

fn begins_mode_at(p: &mut Parser<'_, '_>, ahead: usize) -> bool {
    matches!(p.keyword_at(ahead), Some(K::In | K::Out | K::Inout | K::Variadic))
}

fn parameter_mode(p: &mut Parser<'_, '_>) -> Option<ParameterMode> {
    let mode = match p.keyword()? {
        K::In if p.is_at(1, K::Out) => {
            p.bump();
            ParameterMode::InOut
        }
        K::In => ParameterMode::In,
        K::Out => ParameterMode::Out,
        K::Inout => ParameterMode::InOut,
        K::Variadic => ParameterMode::Variadic,
        _ => return None,
    };
    p.bump();
    Some(mode)
}

/// The name of a routine, with its parameters if they are given.
pub(super) fn routine_name(p: &mut Parser<'_, '_>) -> Result<RoutineName> {
    let name = match p.keyword() {
        Some(keyword) if !keyword.may_name_column() && !keyword.is_reserved() => {
            crate::ast::QualifiedName(vec![p.any_word()?])
        }
        _ => p.qualified_name()?,
    };
    let parameters = if p.is_char('(') { Some(parameters(p, false)?) } else { None };
    Ok(RoutineName { name, parameters })
}

/// The name of an aggregate with its arguments (aggregate_with_argtypes).
pub(super) fn aggregate_name(p: &mut Parser<'_, '_>) -> Result<RoutineName> {
    let name = p.function_name()?;
    p.expect_char('(')?;
    if p.take_char('*') {
        p.expect_char(')')?;
        return Ok(RoutineName { name, parameters: Some(Vec::new()) });
    }
    let mut parameters = if p.is(K::Order) { Vec::new() } else { p.list(parameter)? };
    if p.take_all(&[K::Order, K::By])? {
        parameters.extend(p.list(parameter)?);
    }
    p.expect_char(')')?;
    Ok(RoutineName { name, parameters: Some(parameters) })
}

pub(super) fn drop_procedures(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Procedure)?;
    let if_exists = option::if_exists(p);
    let routines = p.list(routine_name)?;
    let is_cascade = option::cascade(p);
    Ok(Statement::DropRoutine(DropRoutine { routines, if_exists, is_cascade }))
}

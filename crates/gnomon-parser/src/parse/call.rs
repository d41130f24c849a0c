//! Calls of functions, and what the standard spells in words of its own.

use super::{Parser, types, unsupported, window};
use crate::{
    Position,
    ast::{
        Argument, Cast, Constant, Expr, ExprList, FunctionCall, Ident, NullIf, Over, QualifiedName,
        SystemValue, SystemValueKind, TypeName, Value,
    },
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

/// The arguments of a call (func_application).
pub(super) fn call(
    p: &mut Parser<'_, '_>,
    name: QualifiedName,
    position: Position,
) -> Result<Box<FunctionCall>> {
    p.nested(|p| arguments(p, name, position))
}

fn arguments(p: &mut Parser<'_, '_>, name: QualifiedName, position: Position) -> Result<Box<FunctionCall>> {
    let mut call = Box::new(FunctionCall::new(name, position));
    p.expect_char('(')?;
    if p.take_char(')') {
        return Ok(call);
    }
    if p.take_char('*') {
        call.has_star = true;
        p.expect_char(')')?;
        return Ok(call);
    }
    let may_be_variadic = match p.keyword() {
        Some(K::Distinct) => {
            p.bump();
            call.is_distinct = true;
            false
        }
        Some(K::All) => {
            p.bump();
            false
        }
        _ => true,
    };
    loop {
        if may_be_variadic && p.take(K::Variadic) {
            call.is_variadic = true;
            call.arguments.push(argument(p)?);
            break;
        }
        call.arguments.push(argument(p)?);
        if !p.take_char(',') {
            break;
        }
    }
    call.order_by = window::optional_order_by(p)?;
    p.expect_char(')')?;
    Ok(call)
}

fn argument(p: &mut Parser<'_, '_>) -> Result<Argument> {
    let has_name = matches!(p.peek_at(1).kind, Kind::ColonEquals | Kind::EqualsGreater)
        && match p.peek().kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
            Kind::Keyword(keyword) => keyword.may_name_function(),
            _ => false,
        };
    let name = if has_name { Some(p.function_name_word()?) } else { None };
    if has_name {
        p.bump();
    }
    Ok(Argument { name, value: p.expr()? })
}

/// WITHIN GROUP, FILTER and OVER behind a call.
pub(super) fn call_clauses(p: &mut Parser<'_, '_>, mut call: Box<FunctionCall>) -> Result<Expr> {
    if p.is(K::Within) {
        let position = p.bump().position();
        p.expect(K::Group)?;
        p.expect_char('(')?;
        if !call.order_by.is_empty() {
            let message = "cannot use multiple ORDER BY clauses with WITHIN GROUP";
            return Err(Error::syntax(message, position));
        }
        if call.is_distinct {
            let message = "cannot use DISTINCT with WITHIN GROUP";
            return Err(Error::syntax(message, position));
        }
        if call.is_variadic {
            let message = "cannot use VARIADIC with WITHIN GROUP";
            return Err(Error::syntax(message, position));
        }
        call.is_within_group = true;
        call.order_by = window::order_by(p)?;
        p.expect_char(')')?;
    }
    if p.take(K::Filter) {
        p.expect_char('(')?;
        p.expect(K::Where)?;
        call.filter = Some(p.nested(Parser::expr)?);
        p.expect_char(')')?;
    }
    if p.take(K::Over) {
        call.over = Some(match p.is_char('(') {
            true => Over::Window(Box::new(p.nested(window::window)?)),
            false => Over::Name(p.name()?),
        });
    }
    Ok(Expr::Function(call))
}

/// Reads an expression that begins with a word of the standard's (func_expr_common_subexpr); none if it is something else.
pub(super) fn special_call(p: &mut Parser<'_, '_>, keyword: K, position: Position) -> Result<Option<Expr>> {
    if let Some(value) = system_value(p, keyword, position)? {
        return Ok(Some(value));
    }
    let has_parens = p.is_char_at(1, '(');
    let call = match keyword {
        K::Cast => p.nested(|p| cast(p, position))?,
        K::Collation if p.is_at(1, K::For) => {
            p.bump();
            p.bump();
            p.expect_char('(')?;
            let operand = p.nested(Parser::expr)?;
            p.expect_char(')')?;
            Expr::system_call("pg_collation_for", vec![operand], position)
        }
        K::Coalesce | K::Greatest | K::Least | K::Grouping if has_parens => {
            p.bump();
            let operands = p.nested(|p| p.parens(Parser::expr))?;
            let list = ExprList { operands, position };
            match keyword {
                K::Coalesce => Expr::Coalesce(list),
                K::Greatest => Expr::Greatest(list),
                K::Least => Expr::Least(list),
                _ => Expr::Grouping(list),
            }
        }
        K::Nullif if has_parens => {
            p.bump();
            p.bump();
            let left = p.nested(Parser::expr)?;
            p.expect_char(',')?;
            let right = p.nested(Parser::expr)?;
            p.expect_char(')')?;
            Expr::NullIf(Box::new(NullIf { left, right, position }))
        }
        K::Extract | K::Normalize | K::Overlay | K::Position | K::Substring | K::Treat | K::Trim
            if has_parens =>
        {
            return p.nested(|p| worded_call(p, keyword, position)).map(Some);
        }
        K::Xmlconcat
        | K::Xmlelement
        | K::Xmlexists
        | K::Xmlforest
        | K::Xmlparse
        | K::Xmlpi
        | K::Xmlroot
        | K::Xmlserialize
            if has_parens =>
        {
            p.refuse(keyword.text().to_ascii_uppercase(), position);
            p.bump();
            unsupported::skip_parens(p)?;
            Expr::Constant(Constant { value: Value::Null, position })
        }
        _ => return Ok(None),
    };
    Ok(Some(call))
}

fn system_value(p: &mut Parser<'_, '_>, keyword: K, position: Position) -> Result<Option<Expr>> {
    use SystemValueKind as V;
    let (kind, has_precision) = match keyword {
        K::CurrentDate => (V::CurrentDate, false),
        K::CurrentTime => (V::CurrentTime, true),
        K::CurrentTimestamp => (V::CurrentTimestamp, true),
        K::Localtime => (V::LocalTime, true),
        K::Localtimestamp => (V::LocalTimestamp, true),
        K::CurrentRole => (V::CurrentRole, false),
        K::CurrentUser => (V::CurrentUser, false),
        K::SessionUser => (V::SessionUser, false),
        K::User => (V::User, false),
        K::CurrentCatalog => (V::CurrentCatalog, false),
        // With parentheses it is a function.
        K::CurrentSchema if !p.is_char_at(1, '(') && !p.is_string_at(1) => (V::CurrentSchema, false),
        _ => return Ok(None),
    };
    p.bump();
    let mut precision = None;
    if has_precision && p.take_char('(') {
        precision = Some(p.integer()?);
        p.expect_char(')')?;
    }
    Ok(Some(Expr::SystemValue(SystemValue { kind, precision, position })))
}

fn cast(p: &mut Parser<'_, '_>, position: Position) -> Result<Expr> {
    p.expect(K::Cast)?;
    p.expect_char('(')?;
    let operand = p.expr()?;
    p.expect(K::As)?;
    let ty = p.type_name()?;
    p.expect_char(')')?;
    Ok(Expr::Cast(Box::new(Cast { operand, ty, position })))
}

/// EXTRACT, OVERLAY, TRIM and their like, as calls of the functions that they stand for.
fn worded_call(p: &mut Parser<'_, '_>, keyword: K, position: Position) -> Result<Expr> {
    p.bump();
    p.expect_char('(')?;
    let mut operands = Vec::new();
    let name = match keyword {
        K::Extract => {
            operands.push(extract_field(p)?);
            p.expect(K::From)?;
            operands.push(p.expr()?);
            "extract"
        }
        K::Normalize => {
            operands.push(p.expr()?);
            if p.take_char(',') {
                operands.push(normal_form(p)?);
            }
            "normalize"
        }
        K::Position => {
            let substring = p.simple_expr()?;
            p.expect(K::In)?;
            operands = vec![p.simple_expr()?, substring];
            "position"
        }
        K::Treat => {
            operands.push(p.expr()?);
            p.expect(K::As)?;
            let ty = p.type_name()?;
            p.expect_char(')')?;
            return Ok(Expr::Function(Box::new(FunctionCall {
                arguments: operands.into_iter().map(|value| Argument { name: None, value }).collect(),
                ..FunctionCall::new(QualifiedName::system(&ty.name.last().name, position), position)
            })));
        }
        K::Trim => {
            let (name, trimmed) = trimmed(p)?;
            operands = trimmed;
            name
        }
        _ => return substring_or_overlay(p, keyword, position),
    };
    p.expect_char(')')?;
    Ok(Expr::system_call(name, operands, position))
}

fn extract_field(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let position = p.position();
    let is_word = matches!(p.peek().kind, Kind::Name | Kind::QuotedName | Kind::UnicodeName)
        || matches!(p.keyword(), Some(K::Year | K::Month | K::Day | K::Hour | K::Minute | K::Second));
    let field = if is_word { p.any_word()?.name } else { p.string()? };
    Ok(Expr::Constant(Constant { value: Value::String(field), position }))
}

/// The operands of TRIM, and the function that it stands for.
fn trimmed(p: &mut Parser<'_, '_>) -> Result<(&'static str, Vec<Expr>)> {
    let name = match p.keyword() {
        Some(K::Leading) => "ltrim",
        Some(K::Trailing) => "rtrim",
        _ => "btrim",
    };
    if matches!(p.keyword(), Some(K::Leading | K::Trailing | K::Both)) {
        p.bump();
    }
    if p.take(K::From) {
        return Ok((name, p.exprs()?));
    }
    let first = p.expr()?;
    let operands = if p.take(K::From) {
        let mut operands = p.exprs()?;
        operands.push(first);
        operands
    } else {
        let mut operands = vec![first];
        while p.take_char(',') {
            operands.push(p.expr()?);
        }
        operands
    };
    Ok((name, operands))
}

/// SUBSTRING or OVERLAY behind its parenthesis: in the standard's words, or as a plain call.
fn substring_or_overlay(p: &mut Parser<'_, '_>, keyword: K, position: Position) -> Result<Expr> {
    let name = keyword.text();
    let plain = |arguments| FunctionCall {
        arguments,
        ..FunctionCall::new(QualifiedName(vec![Ident { name: name.into(), position }]), position)
    };
    if p.take_char(')') {
        return Ok(Expr::Function(Box::new(plain(Vec::new()))));
    }
    let first = argument(p)?;
    let mut operands = vec![first.value];
    let is_sql = first.name.is_none();
    let name = match p.keyword() {
        Some(K::Placing) if is_sql && keyword == K::Overlay => {
            p.bump();
            operands.push(p.expr()?);
            p.expect(K::From)?;
            operands.push(p.expr()?);
            if p.take(K::For) {
                operands.push(p.expr()?);
            }
            name
        }
        Some(K::Similar) if is_sql && keyword == K::Substring => {
            p.bump();
            operands.push(p.expr()?);
            p.expect(K::Escape)?;
            operands.push(p.expr()?);
            name
        }
        Some(K::From) if is_sql && keyword == K::Substring => {
            p.bump();
            operands.push(p.expr()?);
            if p.take(K::For) {
                operands.push(p.expr()?);
            }
            name
        }
        Some(K::For) if is_sql && keyword == K::Substring => {
            p.bump();
            let at = p.position();
            let length = p.expr()?;
            let from = match p.take(K::From) {
                true => p.expr()?,
                false => types::number(1, Position::NONE),
            };
            // Only the form with both is certain to be of integers.
            let length = Expr::Cast(Box::new(Cast {
                operand: length,
                ty: TypeName::system("int4", at),
                position: Position::NONE,
            }));
            operands.extend([from, length]);
            name
        }
        _ => {
            let value = operands.pop().expect("the first was pushed");
            let mut arguments = vec![Argument { name: first.name, value }];
            while p.take_char(',') {
                arguments.push(argument(p)?);
            }
            p.expect_char(')')?;
            return Ok(Expr::Function(Box::new(plain(arguments))));
        }
    };
    p.expect_char(')')?;
    Ok(Expr::system_call(name, operands, position))
}

/// The name of a Unicode normal form, as a string.
pub(super) fn normal_form(p: &mut Parser<'_, '_>) -> Result<Expr> {
    match p.keyword() {
        Some(keyword @ (K::Nfc | K::Nfd | K::Nfkc | K::Nfkd)) => {
            let value = Value::String(keyword.text().to_ascii_uppercase().into());
            Ok(Expr::Constant(Constant { value, position: p.bump().position() }))
        }
        _ => p.fail(),
    }
}

//! Operands of expressions: constants, columns, subqueries, and what stands in parentheses.

use super::{
    Parser, call, name,
    types::{self, is_type_keyword},
};
use crate::{
    Position,
    ast::{
        Access, ArrayConstructor, Case, Cast, ColumnReference, Constant, Expr, Indirection, Parameter,
        QualifiedName, Query, Row, Subquery, TypeName, Value,
    },
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::{Kind, Token},
};

/// The content of parentheses.
pub(super) enum Parenthesized {
    Query(Query),
    Expr(Expr),
    /// At least two, and the first comma.
    Exprs(Vec<Expr>, Token),
}

/// An operand (c_expr).
pub(super) fn primary(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let token = p.peek();
    let position = token.position();
    let constant = |value| Ok(Expr::Constant(Constant { value, position }));
    match token.kind {
        Kind::Name | Kind::QuotedName | Kind::UnicodeName => named(p),
        Kind::Integer => {
            let value = p.integer()?;
            constant(Value::Integer(value))
        }
        Kind::Number => {
            p.bump();
            constant(Value::Number(p.text_of(token).into()))
        }
        Kind::String | Kind::EscapeString | Kind::UnicodeString | Kind::DollarString => {
            let value = p.string()?;
            constant(Value::String(value))
        }
        Kind::BitString => constant(Value::Bits(name::digits(p))),
        Kind::HexString => constant(Value::Hex(name::digits(p))),
        Kind::Parameter => {
            p.bump();
            // PostgreSQL lets a number wrap around.
            let number = p.text_of(token)[1..]
                .bytes()
                .fold(0_u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
            let parameter = Expr::Parameter(Parameter { number, position });
            indirection(p, parameter)
        }
        Kind::Char('(') => match parenthesized(p)? {
            Parenthesized::Query(query) => {
                let subquery = Expr::Subquery(Box::new(Subquery { query, position }));
                indirection(p, subquery)
            }
            Parenthesized::Expr(expr) => indirection(p, expr),
            Parenthesized::Exprs(fields, _) => Ok(Expr::Row(Row { fields, is_explicit: false, position })),
        },
        Kind::Keyword(keyword) => worded(p, keyword, position),
        _ => p.fail(),
    }
}

/// An operand that begins with a keyword.
fn worded(p: &mut Parser<'_, '_>, keyword: K, position: Position) -> Result<Expr> {
    let constant = |value| Ok(Expr::Constant(Constant { value, position }));
    match keyword {
        K::Null => {
            p.bump();
            constant(Value::Null)
        }
        K::True | K::False => {
            p.bump();
            constant(Value::Boolean(keyword == K::True))
        }
        K::Case => p.nested(case),
        K::Array => {
            p.bump();
            match p.is_char('(') {
                true => {
                    let subquery = subquery(p)?;
                    Ok(Expr::ArraySubquery(Box::new(Subquery { position, ..*subquery })))
                }
                false => p.nested(|p| array(p, position)),
            }
        }
        K::Row if p.is_char_at(1, '(') => row(p),
        K::Exists if p.is_char_at(1, '(') => {
            p.bump();
            let subquery = subquery(p)?;
            Ok(Expr::Exists(Box::new(Subquery { position, ..*subquery })))
        }
        K::Interval if p.is_string_at(1) || p.is_char_at(1, '(') => interval(p, position),
        _ if is_type_keyword(keyword) && begins_standard_type(p) => {
            let ty = types::standard_type(p)?;
            typed_string(p, ty)
        }
        K::Double if p.is_at(1, K::Precision) => {
            let ty = types::standard_type(p)?;
            typed_string(p, ty)
        }
        _ => match call::special_call(p, keyword, position)? {
            Some(call) => Ok(call),
            None if keyword.is_reserved() => p.fail(),
            None => named(p),
        },
    }
}

/// True if a keyword of a type is one here, and not the name of a column.
fn begins_standard_type(p: &mut Parser<'_, '_>) -> bool {
    match p.keyword_at(1) {
        Some(K::Varying | K::Without) => true,
        Some(K::With) => p.is_at(2, K::Time),
        Some(K::Character | K::Char) => p.is(K::National),
        _ => p.is_string_at(1) || p.is_char_at(1, '('),
    }
}

/// The string behind a type.
fn typed_string(p: &mut Parser<'_, '_>, ty: TypeName) -> Result<Expr> {
    let position = p.position();
    let value = Value::String(p.string()?);
    let operand = Expr::Constant(Constant { value, position });
    Ok(Expr::Cast(Box::new(Cast { operand, ty, position: Position::NONE })))
}

fn interval(p: &mut Parser<'_, '_>, position: Position) -> Result<Expr> {
    if p.is_char_at(1, '(') {
        let ty = types::simple_type(p)?;
        return typed_string(p, ty);
    }
    p.bump();
    let mut cast = typed_string(p, TypeName::system("interval", position))?;
    if let Expr::Cast(cast) = &mut cast {
        cast.ty.modifiers = types::interval_fields(p)?;
    }
    Ok(cast)
}

/// An operand that begins with a name: a column, a call, or a type before a string.
fn named(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let token = p.peek();
    let position = token.position();
    let (names_column, names_function) = match token.kind {
        Kind::Keyword(keyword) => (keyword.may_name_column(), keyword.may_name_function()),
        _ => (true, true),
    };
    let first = p.any_word()?;
    let mut names = Vec::with_capacity(1);
    names.push(first);
    if !names_column {
        // Only a function or type, without a schema.
        return match p.is_char('(') || p.is_string_at(0) {
            true => call_or_string(p, QualifiedName(names), position),
            false => p.fail(),
        };
    }
    while p.is_char('.') && !p.is_char_at(1, '*') {
        p.bump();
        names.push(p.label()?);
    }
    let is_function = names.len() > 1 || names_function;
    if is_function && (p.is_char('(') || p.is_string_at(0)) {
        return call_or_string(p, QualifiedName(names), position);
    }
    let has_star = p.is_char('.');
    if has_star {
        p.bump();
        p.bump();
        if p.is_char('.') || p.is_char('[') {
            return Err(misplaced_star(p));
        }
    }
    let column = Expr::Column(ColumnReference { fields: names, has_star, position });
    if has_star { Ok(column) } else { indirection(p, column) }
}

fn call_or_string(p: &mut Parser<'_, '_>, name: QualifiedName, position: Position) -> Result<Expr> {
    if !p.is_char('(') {
        return typed_string(p, TypeName { name, ..TypeName::system("", position) });
    }
    let call = call::call(p, name, position)?;
    let is_plain = !call.has_star && !call.is_distinct && !call.is_variadic && !call.arguments.is_empty();
    if is_plain && p.is_string_at(0) {
        if !call.order_by.is_empty() {
            return Err(Error::syntax("type modifier cannot have ORDER BY", position));
        }
        if call.arguments.iter().any(|argument| argument.name.is_some()) {
            return Err(Error::syntax("type modifier cannot have parameter name", position));
        }
        let modifiers = call.arguments.into_iter().map(|argument| argument.value).collect();
        return typed_string(p, TypeName { name: call.name, modifiers, ..TypeName::system("", position) });
    }
    call::call_clauses(p, call)
}

/// Parts of a value behind it.
pub(super) fn indirection(p: &mut Parser<'_, '_>, base: Expr) -> Result<Expr> {
    let path = path(p)?;
    match path.is_empty() {
        true => Ok(base),
        false => Ok(Expr::Indirection(Box::new(Indirection { base, path }))),
    }
}

pub(super) fn path(p: &mut Parser<'_, '_>) -> Result<Vec<Access>> {
    let mut path = Vec::new();
    while p.is_char('.') || p.is_char('[') {
        if matches!(path.last(), Some(Access::Star)) {
            return Err(misplaced_star(p));
        }
        path.push(access(p)?);
    }
    Ok(path)
}

/// The error of what stands behind a star; PostgreSQL gives it when it has read all of it.
fn misplaced_star(p: &mut Parser<'_, '_>) -> Box<Error> {
    while p.is_char('.') || p.is_char('[') {
        if let Err(error) = access(p) {
            return error;
        }
    }
    p.refused("improper use of \"*\"")
}

/// `.name`, `.*`, `[subscript]` or `[from:to]`.
fn access(p: &mut Parser<'_, '_>) -> Result<Access> {
    if p.take_char('.') {
        return match p.take_char('*') {
            true => Ok(Access::Star),
            false => Ok(Access::Field(p.label()?)),
        };
    }
    p.expect_char('[')?;
    let from = match p.is_char(':') {
        true => None,
        false => Some(p.nested(Parser::expr)?),
    };
    let access = if p.take_char(':') {
        let to = match p.is_char(']') {
            true => None,
            false => Some(p.nested(Parser::expr)?),
        };
        Access::Slice(from, to)
    } else {
        match from {
            Some(at) => Access::Subscript(at),
            None => return p.fail(),
        }
    };
    p.expect_char(']')?;
    Ok(access)
}

/// True if a query begins that many tokens ahead, but for parentheses.
pub(super) fn begins_query_at(p: &mut Parser<'_, '_>, ahead: usize) -> bool {
    match p.keyword_at(ahead) {
        Some(K::Select | K::With | K::Table) => true,
        Some(K::Values) => p.is_char_at(ahead + 1, '('),
        _ => false,
    }
}

/// A query in parentheses.
pub(super) fn subquery(p: &mut Parser<'_, '_>) -> Result<Box<Subquery>> {
    let position = p.position();
    if !p.is_char('(') {
        return p.fail();
    }
    Ok(Box::new(Subquery { query: p.query_in_parens()?, position }))
}

/// Reads the content of parentheses: a query, or expressions.
pub(super) fn parenthesized(p: &mut Parser<'_, '_>) -> Result<Parenthesized> {
    p.nested(|p| {
        p.expect_char('(')?;
        let first = if begins_query_at(p, 0) {
            let query = p.query()?;
            p.expect_char(')')?;
            return Ok(Parenthesized::Query(query));
        } else if p.is_char('(') {
            let links = std::mem::take(&mut p.links);
            let position = p.position();
            let inner = match parenthesized(p)? {
                Parenthesized::Query(query) => {
                    if goes_on_as_query(p) {
                        let query = p.query_from(query)?;
                        p.expect_char(')')?;
                        return Ok(Parenthesized::Query(query));
                    }
                    let subquery = Expr::Subquery(Box::new(Subquery { query, position }));
                    indirection(p, subquery)?
                }
                Parenthesized::Expr(expr) => indirection(p, expr)?,
                Parenthesized::Exprs(fields, _) => overlaps(p, Row { fields, is_explicit: false, position })?,
            };
            let first = p.expr_from(inner)?;
            p.links = p.links.max(links);
            first
        } else {
            p.expr()?
        };
        if !p.is_char(',') {
            p.expect_char(')')?;
            return Ok(Parenthesized::Expr(first));
        }
        let comma = p.peek();
        let mut exprs = vec![first];
        while p.take_char(',') {
            exprs.push(p.expr()?);
        }
        p.expect_char(')')?;
        Ok(Parenthesized::Exprs(exprs, comma))
    })
}

/// True if the query in parentheses that was read is an operand of a larger one.
pub(super) fn goes_on_as_query(p: &mut Parser<'_, '_>) -> bool {
    let keyword = p.keyword();
    p.is_char(')')
        || matches!(
            keyword,
            Some(K::Union | K::Intersect | K::Except | K::Order | K::Limit | K::Offset | K::Fetch | K::For)
        )
}

/// ROW(...), or (a, b, ...).
pub(super) fn row(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let position = p.position();
    if p.take(K::Row) {
        p.expect_char('(')?;
        let fields = match p.is_char(')') {
            true => Vec::new(),
            false => p.nested(Parser::exprs)?,
        };
        p.expect_char(')')?;
        return Ok(Expr::Row(Row { fields, is_explicit: true, position }));
    }
    if !p.is_char('(') {
        return p.fail();
    }
    match parenthesized(p)? {
        Parenthesized::Exprs(fields, _) => Ok(Expr::Row(Row { fields, is_explicit: false, position })),
        _ => p.fail(),
    }
}

fn case(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let position = p.expect(K::Case)?.position();
    let operand = if p.is(K::When) { None } else { Some(p.expr()?) };
    let mut branches = Vec::new();
    loop {
        p.expect(K::When)?;
        let condition = p.expr()?;
        p.expect(K::Then)?;
        branches.push((condition, p.expr()?));
        if !p.is(K::When) {
            break;
        }
    }
    let otherwise = if p.take(K::Else) { Some(p.expr()?) } else { None };
    p.expect(K::End)?;
    Ok(Expr::Case(Box::new(Case { operand, branches, otherwise, position })))
}

/// The elements of ARRAY; those of an inner array need no word.
fn array(p: &mut Parser<'_, '_>, position: Position) -> Result<Expr> {
    p.expect_char('[')?;
    let elements = if p.is_char(']') {
        Vec::new()
    } else if p.is_char('[') {
        p.list(|p| {
            let position = p.position();
            p.nested(|p| array(p, position))
        })?
    } else {
        p.exprs()?
    };
    p.expect_char(']')?;
    Ok(Expr::Array(ArrayConstructor { elements, position }))
}

/// The text of a constant for places where only a constant may stand (AexprConst).
pub(super) fn constant(p: &mut Parser<'_, '_>) -> Result<Expr> {
    if p.is_char('(') || matches!(p.keyword(), Some(K::Cast | K::Case | K::Array | K::Row | K::Exists)) {
        return p.fail();
    }
    match primary(p)? {
        expr @ Expr::Constant(_) => Ok(expr),
        Expr::Cast(cast) if matches!(cast.operand, Expr::Constant(_)) => Ok(Expr::Cast(cast)),
        // A name would be that of a type.
        _ => p.fail(),
    }
}

/// A row, or the two that OVERLAPS compares.
pub(super) fn overlaps(p: &mut Parser<'_, '_>, left: Row) -> Result<Expr> {
    if !p.is(K::Overlaps) {
        return Ok(Expr::Row(left));
    }
    let position = p.bump().position();
    let Expr::Row(right) = row(p)? else { return p.fail() };
    for (row, side) in [(&left, "left"), (&right, "right")] {
        if row.fields.len() != 2 {
            let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
            return Err(Error::syntax(message, row.position));
        }
    }
    let operands = left.fields.into_iter().chain(right.fields).collect();
    Ok(Expr::system_call("overlaps", operands, position))
}

//! Names of types.

use super::Parser;
use crate::{
    Position,
    ast::{Constant, Expr, QualifiedName, TypeName, Value},
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

// The bits of an interval's fields, as PostgreSQL has them in the type's modifier.
const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;
const ALL_FIELDS: i32 = 0x7fff;

pub(super) fn number(value: i32, position: Position) -> Expr {
    Expr::Constant(Constant { value: Value::Integer(value), position })
}

/// A type (Typename).
pub(super) fn type_name(p: &mut Parser<'_, '_>) -> Result<TypeName> {
    let position = p.position();
    let is_set = p.take(K::Setof);
    let mut ty = simple_type(p)?;
    ty.position = position;
    ty.is_set = is_set;
    if p.take(K::Array) {
        let mut bound = None;
        if p.take_char('[') {
            bound = Some(p.integer()?);
            p.expect_char(']')?;
        }
        ty.bounds.push(bound);
        return Ok(ty);
    }
    while p.take_char('[') {
        let bound = if p.peek().kind == Kind::Integer { Some(p.integer()?) } else { None };
        ty.bounds.push(bound);
        p.expect_char(']')?;
    }
    Ok(ty)
}

/// The type of a parameter, which may be `column%TYPE` (func_type).
pub(super) fn parameter_type(p: &mut Parser<'_, '_>) -> Result<TypeName> {
    let mut ty = p.type_name()?;
    if p.is_char('%') && ty.name.0.len() > 1 {
        p.bump();
        p.expect(K::Type)?;
        ty.is_reference = true;
    }
    Ok(ty)
}

/// A type that is no array (SimpleTypename).
pub(super) fn simple_type(p: &mut Parser<'_, '_>) -> Result<TypeName> {
    match p.keyword() {
        Some(K::Interval) => {
            let position = p.bump().position();
            let mut ty = TypeName::system("interval", position);
            match p.is_char('(') {
                true => ty.modifiers = vec![number(ALL_FIELDS, position), precision(p)?],
                false => ty.modifiers = interval_fields(p)?,
            }
            Ok(ty)
        }
        Some(keyword) if is_type_keyword(keyword) || keyword == K::Double && p.is_at(1, K::Precision) => {
            standard_type(p)
        }
        _ => {
            let name = QualifiedName({
                let mut names = vec![p.function_name_word()?];
                p.dotted(&mut names)?;
                names
            });
            let position = name.position();
            let modifiers = modifiers(p)?;
            Ok(TypeName { name, modifiers, ..TypeName::system("", position) })
        }
    }
}

/// `(precision)` of a type.
fn precision(p: &mut Parser<'_, '_>) -> Result<Expr> {
    p.expect_char('(')?;
    let position = p.position();
    let precision = number(p.integer()?, position);
    p.expect_char(')')?;
    Ok(precision)
}

fn modifiers(p: &mut Parser<'_, '_>) -> Result<Vec<Expr>> {
    if p.is_char('(') { p.parens(Parser::expr) } else { Ok(Vec::new()) }
}

/// The fields of an interval, if there are any: their mask, and the precision of seconds.
pub(super) fn interval_fields(p: &mut Parser<'_, '_>) -> Result<Vec<Expr>> {
    let position = p.position();
    let Some(first) = p.keyword().and_then(field) else { return Ok(Vec::new()) };
    p.bump();
    let mut fields = first;
    let mut last = first;
    if first != SECOND && p.is(K::To) {
        let next = p.keyword_at(1).and_then(field);
        let allowed = match first {
            YEAR => MONTH,
            DAY => HOUR | MINUTE | SECOND,
            HOUR => MINUTE | SECOND,
            MINUTE => SECOND,
            _ => 0,
        };
        if allowed == 0 {
            return Ok(vec![number(fields, position)]);
        }
        p.bump();
        match next {
            Some(next) if next & allowed != 0 => {
                p.bump();
                last = next;
                // Everything from the one to the other; days are below months.
                for field in [YEAR, MONTH, DAY, HOUR, MINUTE, SECOND] {
                    let is_after = order(field) >= order(first) && order(field) <= order(last);
                    fields |= if is_after { field } else { 0 };
                }
            }
            _ => return p.fail(),
        }
    }
    let mut modifiers = vec![number(fields, position)];
    if last == SECOND && p.is_char('(') {
        modifiers.push(precision(p)?);
    }
    Ok(modifiers)
}

/// A type in the standard's own words.
pub(super) fn standard_type(p: &mut Parser<'_, '_>) -> Result<TypeName> {
    let token = p.bump();
    let position = token.position();
    let system = |name: &str| TypeName::system(name, position);
    Ok(match token.keyword() {
        Some(K::Int | K::Integer) => system("int4"),
        Some(K::Smallint) => system("int2"),
        Some(K::Bigint) => system("int8"),
        Some(K::Real) => system("float4"),
        Some(K::Boolean) => system("bool"),
        Some(K::Double) => {
            p.expect(K::Precision)?;
            system("float8")
        }
        Some(K::Float) => {
            if !p.take_char('(') {
                return Ok(system("float8"));
            }
            let at = p.position();
            let digits = p.integer()?;
            p.expect_char(')')?;
            let error = |message: &str| Error::new(ErrorKind::InvalidParameter, message, at);
            match digits {
                ..1 => return Err(error("precision for type float must be at least 1 bit")),
                1..25 => system("float4"),
                25..54 => system("float8"),
                _ => return Err(error("precision for type float must be less than 54 bits")),
            }
        }
        Some(K::Decimal | K::Dec | K::Numeric) => TypeName { modifiers: modifiers(p)?, ..system("numeric") },
        Some(K::Bit) => {
            let varying = p.take(K::Varying);
            let mut modifiers = modifiers(p)?;
            if !varying && modifiers.is_empty() && !p.is_string_at(0) {
                modifiers.push(number(1, Position::NONE));
            }
            TypeName { modifiers, ..system(if varying { "varbit" } else { "bit" }) }
        }
        Some(keyword @ (K::Character | K::Char | K::Nchar | K::National | K::Varchar)) => {
            if keyword == K::National && !p.take(K::Character) {
                p.expect(K::Char)?;
            }
            let varying = keyword == K::Varchar || p.take(K::Varying);
            let mut ty = system(if varying { "varchar" } else { "bpchar" });
            if p.is_char('(') {
                ty.modifiers.push(precision(p)?);
            } else if !varying && !p.is_string_at(0) {
                // In front of a constant the type has no length.
                ty.modifiers.push(number(1, Position::NONE));
            }
            ty
        }
        Some(keyword @ (K::Timestamp | K::Time)) => {
            let modifiers = if p.is_char('(') { vec![precision(p)?] } else { Vec::new() };
            let name = match (keyword, with_time_zone(p)?) {
                (K::Timestamp, true) => "timestamptz",
                (K::Timestamp, false) => "timestamp",
                (_, true) => "timetz",
                (_, false) => "time",
            };
            TypeName { modifiers, ..system(name) }
        }
        _ => return p.fail(),
    })
}

fn with_time_zone(p: &mut Parser<'_, '_>) -> Result<bool> {
    if p.is(K::With) && p.is_at(1, K::Time) {
        p.bump();
        p.expect_all(&[K::Time, K::Zone])?;
        return Ok(true);
    }
    p.take_all(&[K::Without, K::Time, K::Zone])?;
    Ok(false)
}

fn field(keyword: K) -> Option<i32> {
    Some(match keyword {
        K::Year => YEAR,
        K::Month => MONTH,
        K::Day => DAY,
        K::Hour => HOUR,
        K::Minute => MINUTE,
        K::Second => SECOND,
        _ => return None,
    })
}

fn order(field: i32) -> u8 {
    match field {
        YEAR => 0,
        MONTH => 1,
        DAY => 2,
        HOUR => 3,
        MINUTE => 4,
        _ => 5,
    }
}

/// True if a keyword begins a type and nothing else where a type stands; INTERVAL and DOUBLE are apart.
pub(super) fn is_type_keyword(keyword: K) -> bool {
    matches!(
        keyword,
        K::Int
            | K::Integer
            | K::Smallint
            | K::Bigint
            | K::Real
            | K::Float
            | K::Boolean
            | K::Decimal
            | K::Dec
            | K::Numeric
            | K::Bit
            | K::Character
            | K::Char
            | K::Nchar
            | K::National
            | K::Varchar
            | K::Timestamp
            | K::Time
    )
}

//! Expressions: operators by precedence.
//!
//! The levels are those of `gram.y`. Operators of a level that does not associate (`a < b < c`) are refused where the
//! second one stands.

use super::{
    Parser, call, name,
    primary::{self, Parenthesized},
};
use crate::{
    Position,
    ast::{
        Between, BooleanChain, Cast, Collate, Constant, Expr, In, InSet, IsBoolean, IsDistinct, IsNull, Like,
        LikeKind, Not, Operation, OperatorName, Quantified, QuantifiedOperand, Value,
    },
    error::Result,
    keyword::Keyword as K,
    lexer::{Kind, Token},
};

/// How tightly operators bind, loosest first.
type Level = u8;
const OR: Level = 1;
const AND: Level = 2;
const NOT: Level = 3;
const IS: Level = 4;
const COMPARE: Level = 5;
const MATCH: Level = 6;
const OTHER: Level = 10;
const ADD: Level = 11;
const MULTIPLY: Level = 12;
const POWER: Level = 13;
const AT: Level = 14;
const COLLATE: Level = 15;
const SIGN: Level = 16;
const CAST: Level = 19;

/// The expressions of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Any (a_expr).
    All,
    /// Those without AND, NOT, IN, IS NULL and their like (b_expr).
    Simple,
}

/// An expression (a_expr).
pub(super) fn expr(p: &mut Parser<'_, '_>) -> Result<Expr> {
    expr_of(p, 0, Kinds::All)
}

/// An expression whose operators are symbols (b_expr).
pub(super) fn simple_expr(p: &mut Parser<'_, '_>) -> Result<Expr> {
    expr_of(p, 0, Kinds::Simple)
}

/// An expression of operators that bind at least as tightly as `min`.
fn expr_of(p: &mut Parser<'_, '_>, min: Level, kinds: Kinds) -> Result<Expr> {
    let links = std::mem::take(&mut p.links);
    let first = operand(p, kinds)?;
    let expr = operators(p, first, min, kinds)?;
    p.links = p.links.max(links);
    Ok(expr)
}

/// Goes on with an expression whose first operand has been read.
pub(super) fn expr_from(p: &mut Parser<'_, '_>, first: Expr) -> Result<Expr> {
    operators(p, first, 0, Kinds::All)
}

/// The operand of a prefix.
fn prefixed(p: &mut Parser<'_, '_>, min: Level, kinds: Kinds) -> Result<Expr> {
    p.nested(|p| expr_of(p, min, kinds))
}

/// An operand with its prefixes.
fn operand(p: &mut Parser<'_, '_>, kinds: Kinds) -> Result<Expr> {
    let token = p.peek();
    let position = token.position();
    match token.kind {
        Kind::Char('-') => {
            p.bump();
            let operand = prefixed(p, SIGN, kinds)?;
            Ok(negate(operand, position))
        }
        Kind::Char('+') => {
            p.bump();
            let right = prefixed(p, SIGN, kinds)?;
            let operator = OperatorName { schema: Vec::new(), symbol: "+".into(), position };
            Ok(Expr::Operation(Box::new(Operation { operator, left: None, right })))
        }
        Kind::Operator => {
            let operator = name::symbol(p)?;
            let right = prefixed(p, ADD, kinds)?;
            Ok(Expr::Operation(Box::new(Operation { operator, left: None, right })))
        }
        Kind::Keyword(K::Operator) if p.is_char_at(1, '(') => {
            let operator = name::operator_call(p)?;
            let right = prefixed(p, ADD, kinds)?;
            Ok(Expr::Operation(Box::new(Operation { operator, left: None, right })))
        }
        Kind::Keyword(K::Not) if kinds == Kinds::All => {
            p.bump();
            let operand = prefixed(p, NOT, kinds)?;
            Ok(Expr::Not(Box::new(Not { operand, position })))
        }
        Kind::Keyword(K::Default) if kinds == Kinds::All => {
            p.bump();
            Ok(Expr::Default(position))
        }
        Kind::Keyword(K::Unique) if kinds == Kinds::All => {
            p.bump();
            if p.take(K::Nulls) {
                p.take(K::Not);
                p.expect(K::Distinct)?;
            }
            p.parens(|p| p.query())?;
            p.refuse("UNIQUE predicate", position);
            Ok(Expr::Constant(Constant { value: Value::Null, position }))
        }
        _ => match primary::primary(p)? {
            Expr::Row(row) if kinds == Kinds::All => primary::overlaps(p, row),
            primary => Ok(primary),
        },
    }
}

/// The level of the operator that the next token begins, if it goes on with an expression.
fn next_level(p: &mut Parser<'_, '_>, kinds: Kinds) -> Option<Level> {
    let token = p.peek();
    let level = match token.kind {
        Kind::Char('+' | '-') => ADD,
        Kind::Char('*' | '/' | '%') => MULTIPLY,
        Kind::Char('^') => POWER,
        Kind::Char('<' | '>' | '=') | Kind::LessEquals | Kind::GreaterEquals | Kind::NotEquals => COMPARE,
        Kind::Operator | Kind::Keyword(K::Operator) => OTHER,
        Kind::Typecast => CAST,
        Kind::Keyword(_) if is_label(p) => return None,
        Kind::Keyword(K::Is) => IS,
        Kind::Keyword(keyword) if kinds == Kinds::All => match keyword {
            K::Or => OR,
            K::And => AND,
            K::Isnull | K::Notnull => IS,
            K::In | K::Like | K::Ilike | K::Between => MATCH,
            // It may be the word of SUBSTRING.
            K::Similar if p.is_at(1, K::To) => MATCH,
            K::Not => match p.keyword_at(1) {
                Some(K::In | K::Like | K::Ilike | K::Between | K::Similar) => MATCH,
                _ => return None,
            },
            K::At => AT,
            K::Collate => COLLATE,
            _ => return None,
        },
        _ => return None,
    };
    Some(level)
}

/// True if the word of an operator that is next is the label of a column: nothing that it could be applied to
/// follows.
fn is_label(p: &mut Parser<'_, '_>) -> bool {
    p.label_depth == Some(p.depth)
        && !matches!(p.keyword(), Some(K::Isnull | K::Notnull))
        && (matches!(p.peek_at(1).kind, Kind::End | Kind::Char(';' | ',' | ')')) || p.is_at(1, K::From))
}

fn operators(p: &mut Parser<'_, '_>, mut left: Expr, min: Level, kinds: Kinds) -> Result<Expr> {
    while let Some(level) = next_level(p, kinds) {
        if level < min {
            break;
        }
        if !matches!(level, OR | AND) {
            p.link()?;
        }
        let token = p.peek();
        let has_right: bool;
        (left, has_right) = operator(p, left, token, level, kinds)?;
        // What does not associate is refused. Texts that were kept before this grammar was have chains of comparisons.
        let associates = level == COMPARE && p.lexer.is_apart || !matches!(level, IS | COMPARE | MATCH);
        if has_right && !associates && next_level(p, kinds) == Some(level) {
            return p.fail();
        }
    }
    Ok(left)
}

/// Reads the operator at `token` and its right operand. True if the expression ends in an operand.
fn operator(
    p: &mut Parser<'_, '_>,
    left: Expr,
    token: Token,
    level: Level,
    kinds: Kinds,
) -> Result<(Expr, bool)> {
    let position = token.position();
    let expr = match token.kind {
        Kind::Typecast => {
            p.bump();
            Expr::Cast(Box::new(Cast { operand: left, ty: p.type_name()?, position }))
        }
        Kind::Keyword(K::Or | K::And) => return Ok((boolean_chain(p, left, token, level)?, true)),
        Kind::Keyword(K::Is) => return is_test(p, left, kinds),
        Kind::Keyword(keyword @ (K::Isnull | K::Notnull)) => {
            p.bump();
            let is_negated = keyword == K::Notnull;
            Expr::IsNull(Box::new(IsNull { operand: left, is_negated, position }))
        }
        Kind::Keyword(K::At) => {
            p.bump();
            p.expect_all(&[K::Time, K::Zone])?;
            let zone = expr_of(p, AT + 1, kinds)?;
            Expr::system_call("timezone", vec![zone, left], position)
        }
        Kind::Keyword(K::Collate) => {
            p.bump();
            let collation = p.qualified_name()?;
            Expr::Collate(Box::new(Collate { operand: left, collation, position }))
        }
        Kind::Keyword(K::Not | K::In | K::Like | K::Ilike | K::Between | K::Similar) => {
            return matching(p, left, position);
        }
        _ => {
            let operator = match token.kind {
                Kind::Keyword(_) => name::operator_call(p)?,
                _ => name::symbol(p)?,
            };
            if kinds == Kinds::All && is_quantifier(p) {
                return Ok((quantified(p, left, operator)?, false));
            }
            let right = expr_of(p, level + 1, kinds)?;
            return Ok((Expr::Operation(Box::new(Operation { operator, left: Some(left), right })), true));
        }
    };
    Ok((expr, false))
}

/// A chain of AND or of OR, as one list.
fn boolean_chain(p: &mut Parser<'_, '_>, left: Expr, token: Token, level: Level) -> Result<Expr> {
    let mut operands = vec![left];
    while p.peek().kind == token.kind {
        p.bump();
        operands.push(expr_of(p, level + 1, Kinds::All)?);
    }
    let chain = Box::new(BooleanChain { operands, position: token.position() });
    Ok(if level == AND { Expr::And(chain) } else { Expr::Or(chain) })
}

fn is_quantifier(p: &mut Parser<'_, '_>) -> bool {
    matches!(p.keyword(), Some(K::Any | K::Some | K::All))
}

/// ANY, SOME or ALL behind an operator.
fn quantified(p: &mut Parser<'_, '_>, left: Expr, operator: OperatorName) -> Result<Expr> {
    let is_all = p.bump().keyword() == Some(K::All);
    if !p.is_char('(') {
        return p.fail();
    }
    let right = match primary::parenthesized(p)? {
        Parenthesized::Query(query) => QuantifiedOperand::Query(Box::new(query)),
        Parenthesized::Expr(expr) => QuantifiedOperand::Array(expr),
        // Refused at the comma behind the first.
        Parenthesized::Exprs(_, comma) => return Err(p.near("syntax error", comma)),
    };
    Ok(Expr::Quantified(Box::new(Quantified { left, operator, is_all, right })))
}

/// Reads the test behind IS.
fn is_test(p: &mut Parser<'_, '_>, operand: Expr, kinds: Kinds) -> Result<(Expr, bool)> {
    let position = p.bump().position();
    let is_negated = p.take(K::Not);
    let keyword = p.keyword();
    let boolean =
        |operand, value| Expr::IsBoolean(Box::new(IsBoolean { operand, value, is_negated, position }));
    let expr = match keyword {
        Some(K::Distinct) => {
            p.bump();
            p.expect(K::From)?;
            let right = expr_of(p, IS + 1, kinds)?;
            let test = IsDistinct { left: operand, right, is_negated, position };
            return Ok((Expr::IsDistinct(Box::new(test)), true));
        }
        Some(K::Document) => {
            p.bump();
            p.refuse("IS DOCUMENT", position);
            operand
        }
        _ if kinds == Kinds::Simple => return p.fail(),
        Some(K::Null) => {
            p.bump();
            Expr::IsNull(Box::new(IsNull { operand, is_negated, position }))
        }
        Some(K::True | K::False) => {
            p.bump();
            boolean(operand, Some(keyword == Some(K::True)))
        }
        Some(K::Unknown) => {
            p.bump();
            boolean(operand, None)
        }
        Some(K::Normalized | K::Nfc | K::Nfd | K::Nfkc | K::Nfkd) => {
            let mut operands = vec![operand];
            if keyword != Some(K::Normalized) {
                operands.push(call::normal_form(p)?);
            }
            p.expect(K::Normalized)?;
            let call = Expr::system_call("is_normalized", operands, position);
            match is_negated {
                true => Expr::Not(Box::new(Not { operand: call, position })),
                false => call,
            }
        }
        _ => return p.fail(),
    };
    Ok((expr, false))
}

/// [NOT] IN, LIKE, ILIKE, SIMILAR TO or BETWEEN.
fn matching(p: &mut Parser<'_, '_>, operand: Expr, position: Position) -> Result<(Expr, bool)> {
    let is_negated = p.take(K::Not);
    let keyword = p.bump().keyword();
    let kind = match keyword {
        Some(K::In) => {
            if !p.is_char('(') {
                return p.fail();
            }
            let set = match primary::parenthesized(p)? {
                Parenthesized::Query(query) => InSet::Query(Box::new(query)),
                Parenthesized::Expr(expr) => InSet::List(vec![expr]),
                Parenthesized::Exprs(exprs, _) => InSet::List(exprs),
            };
            return Ok((Expr::In(Box::new(In { operand, is_negated, set, position })), false));
        }
        Some(K::Between) => {
            let is_symmetric = p.take(K::Symmetric);
            if !is_symmetric {
                p.take(K::Asymmetric);
            }
            let low = p.simple_expr()?;
            p.expect(K::And)?;
            let high = expr_of(p, MATCH + 1, Kinds::All)?;
            let between = Between { operand, low, high, is_negated, is_symmetric, position };
            return Ok((Expr::Between(Box::new(between)), true));
        }
        Some(K::Similar) => {
            p.expect(K::To)?;
            LikeKind::Similar
        }
        Some(K::Ilike) => LikeKind::Ilike,
        _ => LikeKind::Like,
    };
    if kind != LikeKind::Similar && is_quantifier(p) {
        let symbol = match (is_negated, kind) {
            (false, LikeKind::Like) => "~~",
            (false, _) => "~~*",
            (true, LikeKind::Like) => "!~~",
            (true, _) => "!~~*",
        };
        let operator = OperatorName { schema: Vec::new(), symbol: symbol.into(), position };
        return Ok((quantified(p, operand, operator)?, false));
    }
    let pattern = expr_of(p, MATCH + 1, Kinds::All)?;
    let escape = match p.take(K::Escape) {
        true => Some(expr_of(p, MATCH + 1, Kinds::All)?),
        false => None,
    };
    let like = Like { kind, is_negated, operand, pattern, escape, position };
    Ok((Expr::Like(Box::new(like)), true))
}

/// Returns `- operand`; of a number, the negative one.
fn negate(operand: Expr, position: Position) -> Expr {
    let operand = match operand {
        Expr::Constant(constant) => match constant.value {
            Value::Integer(number) => {
                return Expr::Constant(Constant { value: Value::Integer(-number), position });
            }
            Value::Number(number) => {
                let negative = match number.strip_prefix('-') {
                    Some(positive) => positive.into(),
                    None => format!("-{number}").into(),
                };
                return Expr::Constant(Constant { value: Value::Number(negative), position });
            }
            value => Expr::Constant(Constant { value, ..constant }),
        },
        operand => operand,
    };
    let operator = OperatorName { schema: Vec::new(), symbol: "-".into(), position };
    Expr::Operation(Box::new(Operation { operator, left: None, right: operand }))
}

//! Names and strings.

use super::Parser;
use crate::{
    Position,
    ast::{Ident, OperatorName, QualifiedName, RelationName},
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::{self, Kind, Token},
};

impl Parser<'_, '_> {
    /// True if the token that many ahead may name a column, table or other object.
    pub(super) fn is_name_at(&mut self, ahead: usize) -> bool {
        match self.peek_at(ahead).kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
            Kind::Keyword(keyword) => keyword.may_name_column(),
            _ => false,
        }
    }

    /// The name of a column, table or other object (ColId).
    pub(super) fn name(&mut self) -> Result<Ident> {
        if self.is_name_at(0) { self.any_word() } else { self.fail() }
    }

    /// The name of a function or type (type_function_name).
    pub(super) fn function_name_word(&mut self) -> Result<Ident> {
        match self.peek().kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => self.any_word(),
            Kind::Keyword(keyword) if keyword.may_name_function() => self.any_word(),
            _ => self.fail(),
        }
    }

    /// Any word (ColLabel).
    pub(super) fn label(&mut self) -> Result<Ident> {
        match self.peek().kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName | Kind::Keyword(_) => self.any_word(),
            _ => self.fail(),
        }
    }

    /// A word that is not reserved (NonReservedWord).
    pub(super) fn non_reserved_word(&mut self) -> Result<Ident> {
        match self.keyword() {
            Some(keyword) if keyword.is_reserved() => self.fail(),
            _ => self.label(),
        }
    }

    /// The next token as a word.
    pub(super) fn any_word(&mut self) -> Result<Ident> {
        let token = self.bump();
        let position = token.position();
        let text = self.text_of(token);
        let name = match token.kind {
            Kind::Keyword(keyword) => keyword.text().into(),
            Kind::QuotedName => {
                let inside = &text[1..text.len() - 1];
                match inside.contains('"') {
                    true => self.cut(&inside.replace("\"\"", "\"")),
                    false => self.cut(inside),
                }
            }
            Kind::UnicodeName => {
                let inside = text[3..text.len() - 1].replace("\"\"", "\"");
                let name = unicode(self, &inside, token)?;
                self.cut(&name)
            }
            _ if text.len() > lexer::NAME_BYTES_MAX => self.cut(&text.to_ascii_lowercase()),
            _ => lexer::fold(text),
        };
        Ok(Ident { name, position })
    }

    /// Cuts a name to its length, and takes note of it if that changes it.
    fn cut(&mut self, name: &str) -> Box<str> {
        let cut = lexer::truncate(name);
        if cut.len() < name.len() && !self.lexer.is_apart {
            self.cut_names.push((name.into(), cut.into()));
        }
        cut.into()
    }

    /// True if the token that many ahead is a string.
    pub(super) fn is_string_at(&mut self, ahead: usize) -> bool {
        matches!(
            self.peek_at(ahead).kind,
            Kind::String | Kind::EscapeString | Kind::UnicodeString | Kind::DollarString
        )
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Box<str>> {
        if !self.is_string_at(0) {
            return self.fail();
        }
        let token = self.bump();
        let text = self.text_of(token);
        Ok(match token.kind {
            Kind::String => lexer::plain(&text[1..]),
            Kind::EscapeString => lexer::escape_string(self.text, token.start as usize, token.end as usize)?,
            Kind::UnicodeString => {
                let plain = lexer::plain(&text[3..]);
                unicode(self, &plain, token)?
            }
            _ => {
                let tag = text[1..].find('$').map_or(0, |length| length + 2);
                text[tag..text.len() - tag].to_owned()
            }
        }
        .into())
    }

    /// A whole number that fits into 32 bits (Iconst).
    pub(super) fn integer(&mut self) -> Result<i32> {
        if self.peek().kind != Kind::Integer {
            return self.fail();
        }
        let token = self.bump();
        Ok(self.text_of(token).parse().unwrap_or(i32::MAX))
    }

    /// True if a number or the sign of one follows.
    pub(super) fn is_number(&mut self) -> bool {
        matches!(self.peek().kind, Kind::Integer | Kind::Number | Kind::Char('+' | '-'))
    }

    /// A number with an optional sign, as text (NumericOnly).
    pub(super) fn number(&mut self) -> Result<Box<str>> {
        let sign = if self.take_char('-') { "-" } else { "" };
        if sign.is_empty() {
            self.take_char('+');
        }
        if !matches!(self.peek().kind, Kind::Integer | Kind::Number) {
            return self.fail();
        }
        let token = self.bump();
        Ok(format!("{sign}{}", self.text_of(token)).into())
    }

    /// `.name` behind what was read, as often as it stands there.
    pub(super) fn dotted(&mut self, names: &mut Vec<Ident>) -> Result<()> {
        while self.take_char('.') {
            names.push(self.label()?);
        }
        Ok(())
    }

    /// A name with what qualifies it (any_name).
    pub(super) fn qualified_name(&mut self) -> Result<QualifiedName> {
        let mut names = vec![self.name()?];
        self.dotted(&mut names)?;
        Ok(QualifiedName(names))
    }

    /// The name of a function (func_name).
    pub(super) fn function_name(&mut self) -> Result<QualifiedName> {
        let mut names = match self.is_char_at(1, '.') {
            true => vec![self.name()?],
            false => vec![self.function_name_word()?],
        };
        self.dotted(&mut names)?;
        Ok(QualifiedName(names))
    }

    /// The name of a relation (qualified_name).
    pub(super) fn relation_name(&mut self) -> Result<RelationName> {
        let first = self.name()?;
        relation_name_from(self, first)
    }

    pub(super) fn names(&mut self) -> Result<Vec<Ident>> {
        self.list(Self::name)
    }

    /// Names in parentheses, if there are any.
    pub(super) fn optional_names(&mut self) -> Result<Vec<Ident>> {
        if self.is_char('(') { self.parens(Self::name) } else { Ok(Vec::new()) }
    }
}

fn unicode(p: &mut Parser<'_, '_>, value: &str, token: Token) -> Result<String> {
    let mut mark = '\\';
    if p.is(K::Uescape) {
        p.bump();
        let given = p.bump();
        let text = p.text_of(given);
        let error = |message: &str| lexer::near(message, p.text, given.start as usize, given.end as usize);
        let plain = match given.kind {
            Kind::String => lexer::plain(&text[1..]),
            Kind::EscapeString => lexer::escape_string(p.text, given.start as usize, given.end as usize)?,
            _ => return Err(error("UESCAPE must be followed by a simple string literal")),
        };
        mark = match plain.as_bytes() {
            [byte] if !byte.is_ascii_hexdigit() && !b"+'\" \t\n\r\x0c".contains(byte) => char::from(*byte),
            _ => return Err(error("invalid Unicode escape character")),
        };
    }
    lexer::unicode_escapes(value, mark, token.start as usize)
}

/// The digits of `B'...'` or `X'...'`.
pub(super) fn digits(p: &mut Parser<'_, '_>) -> Box<str> {
    let token = p.bump();
    lexer::plain(&p.text_of(token)[2..]).into()
}

/// A whole number with an optional sign (SignedIconst).
pub(super) fn signed_integer(p: &mut Parser<'_, '_>) -> Result<i64> {
    let sign = if p.take_char('-') { -1 } else { 1 };
    if sign == 1 {
        p.take_char('+');
    }
    Ok(sign * i64::from(p.integer()?))
}

pub(super) fn relation_name_from(p: &mut Parser<'_, '_>, first: Ident) -> Result<RelationName> {
    if p.is_char('[') {
        // PostgreSQL refuses a subscript when it has read it.
        p.bump();
        p.expr()?;
        return p.fail();
    }
    if !p.is_char('.') {
        return Ok(RelationName { catalog: None, schema: None, name: first });
    }
    let mut names = vec![first];
    p.dotted(&mut names)?;
    relation_of(names)
}

/// A role: a name, or one of the session's.
pub(super) fn role(p: &mut Parser<'_, '_>) -> Result<Ident> {
    match p.keyword() {
        Some(K::CurrentRole | K::CurrentUser | K::SessionUser) => p.any_word(),
        _ => p.non_reserved_word(),
    }
}

/// True if an operator follows, as a symbol (all_Op).
pub(super) fn is_symbol_at(p: &mut Parser<'_, '_>, ahead: usize) -> bool {
    match p.peek_at(ahead).kind {
        Kind::Operator | Kind::LessEquals | Kind::GreaterEquals | Kind::NotEquals => true,
        Kind::Char(character) => "+-*/%^<>=".contains(character),
        _ => false,
    }
}

/// An operator's symbol (all_Op).
pub(super) fn symbol(p: &mut Parser<'_, '_>) -> Result<OperatorName> {
    if !is_symbol_at(p, 0) {
        return p.fail();
    }
    let token = p.bump();
    let symbol = match token.kind {
        Kind::NotEquals => "<>",
        _ => p.text_of(token),
    };
    Ok(OperatorName { schema: Vec::new(), symbol: symbol.into(), position: token.position() })
}

/// `OPERATOR(schema.symbol)`.
pub(super) fn operator_call(p: &mut Parser<'_, '_>) -> Result<OperatorName> {
    let position = p.expect(K::Operator)?.position();
    p.expect_char('(')?;
    let operator = any_operator(p)?;
    p.expect_char(')')?;
    Ok(OperatorName { position, ..operator })
}

/// An operator's symbol with its schema (any_operator).
pub(super) fn any_operator(p: &mut Parser<'_, '_>) -> Result<OperatorName> {
    let mut schema = Vec::new();
    while p.is_name_at(0) {
        schema.push(p.name()?);
        p.expect_char('.')?;
    }
    Ok(OperatorName { schema, ..symbol(p)? })
}

/// Returns the relation that names stand for.
pub(super) fn relation_of(names: Vec<Ident>) -> Result<RelationName> {
    let position = names.first().map_or(Position::NONE, |first| first.position);
    let mut names = names.into_iter().rev();
    let relation = RelationName {
        name: names.next().expect("there is a name"),
        schema: names.next(),
        catalog: names.next(),
    };
    if names.len() == 0 {
        return Ok(relation);
    }
    let mut parts: Vec<String> = names.rev().map(|part| part.name.into()).collect();
    let rest = [relation.catalog, relation.schema, Some(relation.name)];
    parts.extend(rest.into_iter().flatten().map(|part| part.name.into()));
    let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
    Err(Error::syntax(message, position))
}

//! Statements of PostgreSQL's grammar that have no tree: they are told by their first words, and passed over.

use super::Parser;
use crate::{
    Statement,
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

/// The kinds of objects that CREATE, ALTER and DROP have and the tree has not.
const KINDS: &[&[K]] = &[
    &[K::Access, K::Method],
    &[K::Aggregate],
    &[K::Cast],
    &[K::Collation],
    &[K::Constraint, K::Trigger],
    &[K::Conversion],
    &[K::Database],
    &[K::Default, K::Conversion],
    &[K::Default, K::Privileges],
    &[K::Domain],
    &[K::Event, K::Trigger],
    &[K::Extension],
    &[K::Foreign, K::Data, K::Wrapper],
    &[K::Foreign, K::Table],
    &[K::Function],
    &[K::Group],
    &[K::Language],
    &[K::Large, K::Object],
    &[K::Materialized, K::View],
    &[K::Operator, K::Class],
    &[K::Operator, K::Family],
    &[K::Operator],
    &[K::Owned],
    &[K::Policy],
    &[K::Procedural, K::Language],
    &[K::Procedure],
    &[K::Publication],
    &[K::Role],
    &[K::Routine],
    &[K::Rule],
    &[K::Schema],
    &[K::Server],
    &[K::Statistics],
    &[K::Subscription],
    &[K::System],
    &[K::Tablespace],
    &[K::Text, K::Search, K::Configuration],
    &[K::Text, K::Search, K::Dictionary],
    &[K::Text, K::Search, K::Parser],
    &[K::Text, K::Search, K::Template],
    &[K::Transform],
    &[K::Trigger],
    &[K::Trusted, K::Language],
    &[K::Trusted, K::Procedural, K::Language],
    &[K::Type],
    &[K::User, K::Mapping],
    &[K::User],
];

/// A statement that its first word tells.
pub(super) fn unsupported_statement(p: &mut Parser<'_, '_>, verb: K) -> Result<Statement> {
    let position = p.position();
    let feature = match verb {
        K::Do | K::Grant | K::Listen | K::Load | K::Merge | K::Notify | K::Revoke => {
            verb.text().to_ascii_uppercase()
        }
        K::Import => words_of(p, &[K::Foreign, K::Schema])?,
        K::Reassign => words_of(p, &[K::Owned])?,
        K::Refresh => words_of(p, &[K::Materialized, K::View])?,
        K::Security => words_of(p, &[K::Label])?,
        _ => return p.fail(),
    };
    p.unsupported(feature, position)
}

/// The name of a statement whose first word, which is next, has others behind it.
fn words_of(p: &mut Parser<'_, '_>, rest: &[K]) -> Result<String> {
    let mut words = p.bump().keyword().map_or("", K::text).to_ascii_uppercase();
    for keyword in rest {
        p.expect(*keyword)?;
        words.push(' ');
        words.push_str(&keyword.text().to_ascii_uppercase());
    }
    Ok(words)
}

/// How many of these words are next.
fn words_ahead(p: &mut Parser<'_, '_>, words: &[K]) -> usize {
    words.iter().enumerate().take_while(|(ahead, word)| p.is_at(*ahead, **word)).count()
}

/// CREATE, ALTER or DROP of a kind of object that has no tree; `verb` has been read.
pub(super) fn unsupported_object(
    p: &mut Parser<'_, '_>,
    verb: &str,
    position: crate::Position,
) -> Result<Statement> {
    let kind = KINDS.iter().find(|kind| words_ahead(p, kind) == kind.len());
    let Some(kind) = kind else {
        if p.is(K::Assertion) {
            let message = "CREATE ASSERTION is not yet implemented";
            return Err(Error::new(ErrorKind::Unsupported, message, crate::Position::NONE));
        }
        // The error is where no kind goes on.
        let longest = KINDS.iter().map(|kind| words_ahead(p, kind)).max().unwrap_or(0);
        for _ in 0..longest {
            p.bump();
        }
        return p.fail();
    };
    let words: Vec<&str> = kind.iter().map(|keyword| keyword.text()).collect();
    p.unsupported(format!("{verb} {}", words.join(" ")).to_ascii_uppercase(), position)
}

/// Passes over the rest of a statement. The statements of a routine's body are a part of it.
pub(super) fn skip_statement(p: &mut Parser<'_, '_>) -> Result<()> {
    let mut parens = 0_usize;
    // How many END are to come.
    let mut open = 0_usize;
    loop {
        let token = p.peek();
        match token.kind {
            Kind::End => return Ok(()),
            Kind::Wrong => return p.fail(),
            // No token of any statement.
            Kind::Char(character) if !",()[].;:+-*/%^<>=".contains(character) => return p.fail(),
            Kind::Char(';') if parens == 0 && open == 0 => return Ok(()),
            Kind::Char('(') => parens += 1,
            // It may be the end of what the statement stands in.
            Kind::Char(')') if parens == 0 => return Ok(()),
            Kind::Char(')') => parens -= 1,
            Kind::Keyword(K::Begin) if p.is_at(1, K::Atomic) => open += 1,
            Kind::Keyword(K::Case) if open > 0 => open += 1,
            Kind::Keyword(K::End) => open = open.saturating_sub(1),
            _ => {}
        }
        p.bump();
    }
}

/// Passes over what stands in parentheses.
pub(super) fn skip_parens(p: &mut Parser<'_, '_>) -> Result<()> {
    p.expect_char('(')?;
    let mut open = 1_usize;
    while open > 0 {
        match p.peek().kind {
            Kind::End | Kind::Wrong => return p.fail(),
            Kind::Char('(') => open += 1,
            Kind::Char(')') => open -= 1,
            _ => {}
        }
        p.bump();
    }
    Ok(())
}

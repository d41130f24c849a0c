//! Prepared statements, cursors, COPY and EXPLAIN.

use super::{
    Parser, name,
    option::{self, bare},
    primary, query, unsupported,
};
use crate::{
    Position, Statement,
    ast::{
        Copy, CopyEnd, CopySource, DeclareCursor, DefinitionItem, Execute, Explain, Fetch, FetchDirection,
        Ident, OptionValue, Prepare,
    },
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

pub(super) fn prepare(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Prepare)?;
    let name = p.name()?;
    let types = if p.is_char('(') { p.parens(Parser::type_name)? } else { Vec::new() };
    p.expect(K::As)?;
    let statement = Box::new(query::made_table(p.preparable()?));
    Ok(Statement::Prepare(Prepare { name, types, statement }))
}

pub(super) fn execute(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Execute)?;
    let name = p.name()?;
    let arguments = if p.is_char('(') { p.parens(Parser::expr)? } else { Vec::new() };
    Ok(Statement::Execute(Execute { name, arguments }))
}

pub(super) fn declare(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Declare)?;
    let name = p.name()?;
    let (mut is_binary, mut is_scroll, mut is_no_scroll) = (false, false, false);
    let (mut is_insensitive, mut is_asensitive) = (false, false);
    loop {
        match p.keyword() {
            Some(K::Binary) => is_binary = true,
            Some(K::Scroll) => is_scroll = true,
            Some(K::No) => {
                p.bump();
                p.expect(K::Scroll)?;
                is_no_scroll = true;
                continue;
            }
            Some(K::Insensitive) => is_insensitive = true,
            Some(K::Asensitive) => is_asensitive = true,
            _ => break,
        }
        p.bump();
    }
    p.expect(K::Cursor)?;
    let mut is_hold = false;
    if p.take_all(&[K::With, K::Hold])? {
        is_hold = true;
    } else {
        p.take_all(&[K::Without, K::Hold])?;
    }
    p.expect(K::For)?;
    let statement = Box::new(Statement::Query(Box::new(p.query()?)));
    Ok(Statement::DeclareCursor(DeclareCursor {
        name,
        is_binary,
        is_scroll,
        is_no_scroll,
        is_insensitive,
        is_asensitive,
        is_hold,
        statement,
    }))
}

pub(super) fn fetch(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let is_move = p.bump().keyword() == Some(K::Move);
    let direction = fetch_direction(p)?;
    if !p.take(K::From) {
        p.take(K::In);
    }
    let cursor = p.name()?;
    Ok(Statement::Fetch(Fetch { is_move, cursor, direction }))
}

fn fetch_direction(p: &mut Parser<'_, '_>) -> Result<FetchDirection> {
    let keyword = p.keyword();
    // As the last word it is the cursor's name.
    if matches!(p.peek_at(1).kind, Kind::End | Kind::Char(';')) && p.is_name_at(0) {
        return Ok(FetchDirection::Forward(Some(1)));
    }
    let direction = match keyword {
        Some(K::Next) => FetchDirection::Forward(Some(1)),
        Some(K::Prior) => FetchDirection::Backward(Some(1)),
        Some(K::First) => FetchDirection::Absolute(1),
        Some(K::Last) => FetchDirection::Absolute(-1),
        Some(K::All) => FetchDirection::Forward(None),
        Some(K::Absolute | K::Relative) => {
            p.bump();
            let rows = name::signed_integer(p)?;
            return Ok(match keyword {
                Some(K::Absolute) => FetchDirection::Absolute(rows),
                _ => FetchDirection::Relative(rows),
            });
        }
        Some(K::Forward | K::Backward) => {
            p.bump();
            let rows = if p.take(K::All) {
                None
            } else if p.is_number() {
                Some(name::signed_integer(p)?)
            } else {
                Some(1)
            };
            return Ok(match keyword {
                Some(K::Forward) => FetchDirection::Forward(rows),
                _ => FetchDirection::Backward(rows),
            });
        }
        _ if p.is_number() => return Ok(FetchDirection::Forward(Some(name::signed_integer(p)?))),
        _ => return Ok(FetchDirection::Forward(Some(1))),
    };
    p.bump();
    Ok(direction)
}

pub(super) fn copy(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Copy)?;
    let mut options = Vec::new();
    let source;
    let is_to;
    if p.take_char('(') {
        source = CopySource::Query(Box::new(p.nested(Parser::preparable)?));
        p.expect_char(')')?;
        p.expect(K::To)?;
        is_to = true;
    } else {
        if p.is(K::Binary) {
            options.push(word_option("format", p.any_word()?));
        }
        let name = p.relation_name()?;
        source = CopySource::Table { name, columns: p.optional_names()? };
        is_to = p.take(K::To);
        if !is_to {
            p.expect(K::From)?;
        }
    }
    let is_program = p.take(K::Program);
    let end = if matches!(p.keyword(), Some(K::Stdin | K::Stdout)) {
        p.bump();
        if is_program {
            return Err(Error::syntax("STDIN/STDOUT not allowed with PROGRAM", Position::NONE));
        }
        CopyEnd::Standard
    } else {
        let name = p.string()?;
        if is_program { CopyEnd::Program(name) } else { CopyEnd::File(name) }
    };
    let is_table = matches!(source, CopySource::Table { .. });
    if is_table && (p.is(K::Delimiters) || p.is(K::Using)) {
        p.take(K::Using);
        let position = p.expect(K::Delimiters)?.position();
        let name = Ident { name: "delimiter".into(), position };
        options.push(DefinitionItem { value: Some(OptionValue::String(p.string()?)), ..bare(name) });
    }
    p.take(K::With);
    if p.is_char('(') {
        options.extend(option::copy_options(p)?);
    } else {
        old_copy_options(p, &mut options)?;
    }
    let at = p.position();
    let filter = if is_table { query::optional_where(p)? } else { None };
    if filter.is_some() && is_to {
        return Err(Error::syntax("WHERE clause not allowed with COPY TO", at)
            .hint("Use the WHERE clause in the query of the COPY TO instead."));
    }
    Ok(Statement::Copy(Box::new(Copy { source, is_to, end, options, filter })))
}

/// The options of COPY without parentheses, under the names that they have in them.
fn old_copy_options(p: &mut Parser<'_, '_>, options: &mut Vec<DefinitionItem>) -> Result<()> {
    while let Some(keyword) = p.keyword() {
        let option = match keyword {
            K::Binary | K::Csv => word_option("format", p.any_word()?),
            K::Freeze | K::Header => bare(p.any_word()?),
            K::Delimiter | K::Null | K::Quote | K::Escape => {
                let name = p.any_word()?;
                p.take(K::As);
                DefinitionItem { value: Some(OptionValue::String(p.string()?)), ..bare(name) }
            }
            K::Encoding => {
                let name = p.any_word()?;
                DefinitionItem { value: Some(OptionValue::String(p.string()?)), ..bare(name) }
            }
            K::Force => {
                let position = p.bump().position();
                let (name, may_be_star) = if p.take(K::Quote) {
                    ("force_quote", true)
                } else if p.take_all(&[K::Not, K::Null])? {
                    ("force_not_null", false)
                } else {
                    p.expect(K::Null)?;
                    ("force_null", false)
                };
                let value = match may_be_star && p.take_char('*') {
                    true => OptionValue::Star,
                    false => OptionValue::List(p.names()?.into_iter().map(|name| name.name).collect()),
                };
                let name = Ident { name: name.into(), position };
                DefinitionItem { value: Some(value), ..bare(name) }
            }
            _ => break,
        };
        options.push(option);
    }
    Ok(())
}

pub(super) fn explain(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Explain)?;
    let mut options = Vec::new();
    if p.is_char('(') && !p.is_char_at(1, '(') && !primary::begins_query_at(p, 1) {
        options = option::utility_options(p)?;
    } else {
        if matches!(p.keyword(), Some(K::Analyze | K::Analyse)) {
            options.push(bare(p.any_word()?));
        }
        if p.is(K::Verbose) {
            options.push(bare(p.any_word()?));
        }
    }
    let statement = match p.keyword() {
        Some(K::Declare) => declare(p)?,
        Some(K::Execute) => execute(p)?,
        Some(K::Refresh) => unsupported::unsupported_statement(p, K::Refresh)?,
        Some(K::Create) => match p.statement()? {
            created @ (Statement::CreateTableAs(_) | Statement::Unsupported(_)) => created,
            _ => return p.fail(),
        },
        _ => query::made_table(p.preparable()?),
    };
    Ok(Statement::Explain(Explain { options, statement: Box::new(statement) }))
}

fn word_option(name: &str, value: Ident) -> DefinitionItem {
    let name = Ident { name: name.into(), position: value.position };
    DefinitionItem { value: Some(OptionValue::Word(value)), ..bare(name) }
}

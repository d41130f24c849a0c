//! Indexes, views, sequences and schemas; DROP.

use super::{Parser, absent, call, from, name, option, query, routine, types, unsupported, window};
use crate::{
    Statement,
    ast::{
        CreateExtension, CreateIndex, CreateSchema, CreateSequence, CreateView, Drop, IndexElement, IndexKey,
        ObjectKind, Persistence, QualifiedName, SequenceOption, SequenceOptionKind, ViewCheck,
    },
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
};

pub(super) fn create_index(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let is_unique = p.take(K::Unique);
    p.expect(K::Index)?;
    let is_concurrent = p.take(K::Concurrently);
    let if_not_exists = option::if_not_exists(p)?;
    let name = if if_not_exists || !p.is(K::On) { Some(p.name()?) } else { None };
    p.expect(K::On)?;
    let table = from::relation_expr(p)?;
    let access_method = if p.take(K::Using) { Some(p.name()?) } else { None };
    let elements = p.parens(index_element)?;
    let include = if p.take(K::Include) { p.parens(index_element)? } else { Vec::new() };
    let is_nulls_not_distinct = nulls_not_distinct(p)?;
    let options = if p.take(K::With) { option::relation_options(p)? } else { Vec::new() };
    let tablespace = if p.take(K::Tablespace) { Some(p.name()?) } else { None };
    let filter = query::optional_where(p)?;
    Ok(Statement::CreateIndex(Box::new(CreateIndex {
        is_unique,
        is_concurrent,
        if_not_exists,
        name,
        table: table.name,
        is_only: table.is_only,
        access_method,
        elements,
        include,
        is_nulls_not_distinct,
        options,
        tablespace,
        filter,
    })))
}

/// A column or expression of an index (index_elem).
pub(super) fn index_element(p: &mut Parser<'_, '_>) -> Result<IndexElement> {
    let mut element = partition_element(p)?;
    if element.operator_class.is_some() && p.is_char('(') {
        element.operator_class_options = option::relation_options(p)?;
    }
    element.direction = window::direction(p);
    element.is_nulls_first = window::nulls_order(p)?;
    Ok(element)
}

/// A column or expression of a partition key (part_elem).
pub(super) fn partition_element(p: &mut Parser<'_, '_>) -> Result<IndexElement> {
    let position = p.position();
    let key = if p.take_char('(') {
        let expr = p.nested(Parser::expr)?;
        p.expect_char(')')?;
        IndexKey::Expr(expr)
    } else if p.is_name_at(0) && !p.is_char_at(1, '(') && !p.is_char_at(1, '.') {
        match p.keyword().map(|keyword| call::special_call(p, keyword, position)).transpose()?.flatten() {
            Some(value) => IndexKey::Expr(value),
            None => IndexKey::Column(p.name()?),
        }
    } else {
        IndexKey::Expr(from::windowless_call(p)?)
    };
    let collation = if p.take(K::Collate) { Some(p.qualified_name()?) } else { None };
    let is_nulls = p.is(K::Nulls) && matches!(p.keyword_at(1), Some(K::First | K::Last));
    let operator_class = if p.is_name_at(0) && !is_nulls { Some(p.qualified_name()?) } else { None };
    Ok(IndexElement {
        key,
        collation,
        operator_class,
        operator_class_options: Vec::new(),
        direction: Default::default(),
        is_nulls_first: None,
        position,
    })
}

pub(super) fn create_view(
    p: &mut Parser<'_, '_>,
    or_replace: bool,
    persistence: Persistence,
) -> Result<Statement> {
    let is_recursive = p.take(K::Recursive);
    p.expect(K::View)?;
    let name = p.relation_name()?;
    let columns = match is_recursive {
        true => p.parens(Parser::name)?,
        false => p.optional_names()?,
    };
    let options = if p.take(K::With) { option::relation_options(p)? } else { Vec::new() };
    p.expect(K::As)?;
    let query = p.query()?;
    let mut check = None;
    if p.is(K::With) {
        let position = p.bump().position();
        let kind = match p.take(K::Local) {
            true => ViewCheck::Local,
            false => {
                p.take(K::Cascaded);
                ViewCheck::Cascaded
            }
        };
        p.expect_all(&[K::Check, K::Option])?;
        if is_recursive {
            let message = "WITH CHECK OPTION not supported on recursive views";
            return Err(Error::new(ErrorKind::Unsupported, message, position));
        }
        check = Some(kind);
    }
    Ok(Statement::CreateView(Box::new(CreateView {
        name,
        persistence,
        or_replace,
        is_recursive,
        columns,
        options,
        query,
        check,
    })))
}

pub(super) fn create_sequence(p: &mut Parser<'_, '_>, persistence: Persistence) -> Result<Statement> {
    p.expect(K::Sequence)?;
    let if_not_exists = option::if_not_exists(p)?;
    let name = p.relation_name()?;
    let options = sequence_options(p)?;
    Ok(Statement::CreateSequence(CreateSequence { name, persistence, if_not_exists, options }))
}

/// Options of a sequence, as many as there are.
pub(super) fn sequence_options(p: &mut Parser<'_, '_>) -> Result<Vec<SequenceOption>> {
    let mut options = Vec::new();
    while let Some(option) = sequence_option(p)? {
        options.push(option);
    }
    Ok(options)
}

pub(super) fn sequence_options_in_parens(p: &mut Parser<'_, '_>) -> Result<Vec<SequenceOption>> {
    if !p.take_char('(') {
        return Ok(Vec::new());
    }
    let options = sequence_options(p)?;
    if options.is_empty() {
        return p.fail();
    }
    p.expect_char(')')?;
    Ok(options)
}

pub(super) fn sequence_option(p: &mut Parser<'_, '_>) -> Result<Option<SequenceOption>> {
    use SequenceOptionKind as O;
    let position = p.position();
    let Some(keyword) = p.keyword() else { return Ok(None) };
    if !matches!(
        keyword,
        K::As
            | K::Cache
            | K::Cycle
            | K::No
            | K::Increment
            | K::Logged
            | K::Unlogged
            | K::Maxvalue
            | K::Minvalue
            | K::Owned
            | K::Sequence
            | K::Start
            | K::Restart
    ) {
        return Ok(None);
    }
    p.bump();
    let kind = match keyword {
        K::As => O::As(types::simple_type(p)?),
        K::Cache => O::Cache(p.number()?),
        K::Cycle => O::Cycle(true),
        K::Increment => {
            p.take(K::By);
            O::Increment(p.number()?)
        }
        K::Logged | K::Unlogged => O::Logged(keyword == K::Logged),
        K::Maxvalue => O::MaxValue(Some(p.number()?)),
        K::Minvalue => O::MinValue(Some(p.number()?)),
        K::Owned => {
            p.expect(K::By)?;
            O::OwnedBy(p.qualified_name()?)
        }
        K::Sequence => {
            p.expect(K::Name)?;
            O::SequenceName(p.qualified_name()?)
        }
        K::Start => {
            p.take(K::With);
            O::Start(p.number()?)
        }
        K::Restart => {
            let has_value = p.take(K::With) || p.is_number();
            O::Restart(if has_value { Some(p.number()?) } else { None })
        }
        _ => match p.keyword() {
            Some(K::Cycle) => {
                p.bump();
                O::Cycle(false)
            }
            Some(K::Maxvalue) => {
                p.bump();
                O::MaxValue(None)
            }
            Some(K::Minvalue) => {
                p.bump();
                O::MinValue(None)
            }
            _ => return p.fail(),
        },
    };
    Ok(Some(SequenceOption { kind, position }))
}

pub(super) fn create_schema(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Schema)?;
    let if_not_exists = option::if_not_exists(p)?;
    let name = if p.is(K::Authorization) { None } else { Some(p.name()?) };
    let authorization = if p.take(K::Authorization) { Some(name::role(p)?) } else { None };
    let mut elements = Vec::new();
    let at = p.position();
    while let Some(K::Create | K::Grant) = p.keyword() {
        let element = match p.is(K::Grant) {
            true => unsupported::unsupported_statement(p, K::Grant)?,
            false => p.statement()?,
        };
        elements.push(element);
    }
    if if_not_exists && !elements.is_empty() {
        let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(Error::new(ErrorKind::Unsupported, message, at));
    }
    Ok(Statement::CreateSchema(CreateSchema { name, if_not_exists, authorization, elements }))
}

pub(super) fn create_extension(p: &mut Parser<'_, '_>) -> Result<Statement> {
    p.expect(K::Extension)?;
    let if_not_exists = option::if_not_exists(p)?;
    let name = p.name()?;
    p.take(K::With);
    let mut create = CreateExtension { name, if_not_exists, schema: None, version: None, is_cascade: false };
    loop {
        if create.schema.is_none() && p.take(K::Schema) {
            create.schema = Some(p.name()?);
        } else if create.version.is_none() && p.take(K::Version) {
            create.version = Some(if p.is_string_at(0) { p.string()? } else { p.label()?.name });
        } else if !create.is_cascade && p.take(K::Cascade) {
            create.is_cascade = true;
        } else {
            return Ok(Statement::CreateExtension(create));
        }
    }
}

pub(super) fn drop(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let position = p.expect(K::Drop)?.position();
    let kind = match p.keyword() {
        Some(K::Table) => ObjectKind::Table,
        Some(K::Index) => ObjectKind::Index,
        Some(K::Sequence) => ObjectKind::Sequence,
        Some(K::View) => ObjectKind::View,
        Some(K::Schema) => ObjectKind::Schema,
        Some(K::Procedure) => return routine::drop_procedures(p),
        _ => return absent::drop(p, position),
    };
    p.bump();
    let is_concurrent = kind == ObjectKind::Index && p.take(K::Concurrently);
    let if_exists = option::if_exists(p);
    let names = match kind {
        ObjectKind::Schema => p.list(|p| Ok(QualifiedName(vec![p.name()?])))?,
        _ => p.list(Parser::qualified_name)?,
    };
    let is_cascade = option::cascade(p);
    Ok(Statement::Drop(Drop { kind, names, if_exists, is_cascade, is_concurrent }))
}

pub(super) fn nulls_not_distinct(p: &mut Parser<'_, '_>) -> Result<bool> {
    if !p.take(K::Nulls) {
        return Ok(false);
    }
    let is_not = p.take(K::Not);
    p.expect(K::Distinct)?;
    Ok(is_not)
}

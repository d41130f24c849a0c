//! FROM: tables, functions, subqueries and joins.

use super::{Parser, call, name, primary, unsupported};
use crate::{
    Position,
    ast::{
        Alias, Expr, FunctionReference, Ident, Join, JoinCondition, JoinKind, QualifiedName, Query,
        QueryBody, RelationReference, SubqueryReference, TableColumn, TableReference, TableSample,
    },
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

/// An item in parentheses in FROM.
enum InParens {
    Query(Query),
    Join(TableReference),
}

/// The alias of a function, and the columns that it defines.
type FunctionAlias = (Option<Alias>, Vec<TableColumn>);

/// A member of FROM with its joins (table_ref).
pub(super) fn table_reference(p: &mut Parser<'_, '_>) -> Result<TableReference> {
    p.nested(|p| {
        let first = table_primary(p)?;
        joins(p, first)
    })
}

fn joins(p: &mut Parser<'_, '_>, mut left: TableReference) -> Result<TableReference> {
    loop {
        let position = p.position();
        let is_natural = p.is(K::Natural);
        let word = if is_natural { p.keyword_at(1) } else { p.keyword() };
        let kind = match word {
            Some(K::Cross) if !is_natural => JoinKind::Cross,
            Some(K::Join | K::Inner) => JoinKind::Inner,
            Some(K::Left) => JoinKind::Left,
            Some(K::Right) => JoinKind::Right,
            Some(K::Full) => JoinKind::Full,
            _ if is_natural => {
                p.bump();
                return p.fail();
            }
            _ => return Ok(left),
        };
        p.link()?;
        if is_natural {
            p.bump();
        }
        if word != Some(K::Join) {
            p.bump();
            if matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full) {
                p.take(K::Outer);
            }
        }
        p.expect(K::Join)?;
        let (right, condition) = if kind == JoinKind::Cross {
            (table_primary(p)?, JoinCondition::None)
        } else if is_natural {
            (table_primary(p)?, JoinCondition::Natural)
        } else {
            let right = table_reference(p)?;
            (right, join_condition(p)?)
        };
        left = TableReference::Join(Box::new(Join { left, right, kind, condition, alias: None, position }));
    }
}

fn join_condition(p: &mut Parser<'_, '_>) -> Result<JoinCondition> {
    if p.take(K::On) {
        return Ok(JoinCondition::On(p.expr()?));
    }
    p.expect(K::Using)?;
    let columns = p.parens(Parser::name)?;
    let alias = if p.take(K::As) { Some(p.name()?) } else { None };
    Ok(JoinCondition::Using(columns, alias))
}

/// A member of FROM without joins.
fn table_primary(p: &mut Parser<'_, '_>) -> Result<TableReference> {
    let is_lateral = p.take(K::Lateral);
    let position = p.position();
    if is_lateral && p.is_char('(') {
        let query = p.query_in_parens()?;
        return aliased_subquery(p, query, is_lateral, position);
    }
    if p.is_char('(') {
        return match in_parens(p)? {
            InParens::Query(query) => aliased_subquery(p, query, is_lateral, position),
            InParens::Join(mut join) => {
                if let (Some(alias), TableReference::Join(join)) = (optional_alias(p)?, &mut join) {
                    join.alias = Some(alias);
                }
                Ok(join)
            }
        };
    }
    if p.is(K::Rows) && p.is_at(1, K::From) {
        return rows_from(p, is_lateral, position);
    }
    if p.is(K::Xmltable) && p.is_char_at(1, '(') {
        p.refuse("XMLTABLE", position);
        p.bump();
        unsupported::skip_parens(p)?;
        let (alias, _) = function_alias(p)?;
        return Ok(function_reference(Vec::new(), alias, Vec::new(), is_lateral, position));
    }
    if p.is(K::Only) {
        let mut relation = relation_expr(p)?;
        alias_and_sample(p, &mut relation)?;
        return Ok(TableReference::Relation(Box::new(relation)));
    }
    if let Some(keyword) = p.keyword()
        && let Some(value) = call::special_call(p, keyword, position)?
    {
        return function(p, value, is_lateral, position);
    }
    let (names_column, names_function) = match p.peek().kind {
        Kind::Name | Kind::QuotedName | Kind::UnicodeName => (true, true),
        Kind::Keyword(keyword) => (keyword.may_name_column(), keyword.may_name_function()),
        _ => return p.fail(),
    };
    if !names_column && !names_function {
        return p.fail();
    }
    let mut names = vec![p.any_word()?];
    if names_column {
        p.dotted(&mut names)?;
    }
    let is_function = names.len() > 1 || names_function;
    if is_function && (p.is_char('(') || is_lateral || !names_column) {
        let call = call::call(p, QualifiedName(names), position)?;
        return function(p, Expr::Function(call), is_lateral, position);
    }
    if is_lateral {
        return p.fail();
    }
    if p.is_char('[') {
        primary::path(p)?;
        return p.fail();
    }
    let name = name::relation_of(names)?;
    p.take_char('*');
    let mut relation = RelationReference { name, is_only: false, alias: None, sample: None };
    alias_and_sample(p, &mut relation)?;
    Ok(TableReference::Relation(Box::new(relation)))
}

fn aliased_subquery(
    p: &mut Parser<'_, '_>,
    query: Query,
    is_lateral: bool,
    position: Position,
) -> Result<TableReference> {
    let Some(alias) = optional_alias(p)? else {
        let (what, hint) = match query.body {
            QueryBody::Values(_) => ("VALUES", "For example, FROM (VALUES ...) [AS] foo."),
            _ => ("subquery", "For example, FROM (SELECT ...) [AS] foo."),
        };
        return Err(Error::syntax(format!("{what} in FROM must have an alias"), position).hint(hint));
    };
    let subquery = SubqueryReference { is_lateral, query, alias, position };
    Ok(TableReference::Subquery(Box::new(subquery)))
}

fn in_parens(p: &mut Parser<'_, '_>) -> Result<InParens> {
    p.nested(|p| {
        p.expect_char('(')?;
        if primary::begins_query_at(p, 0) {
            let query = p.query()?;
            p.expect_char(')')?;
            return Ok(InParens::Query(query));
        }
        let reference = if p.is_char('(') {
            let position = p.position();
            let first = match in_parens(p)? {
                InParens::Query(query) if primary::goes_on_as_query(p) => {
                    let query = p.query_from(query)?;
                    p.expect_char(')')?;
                    return Ok(InParens::Query(query));
                }
                InParens::Query(query) => aliased_subquery(p, query, false, position)?,
                InParens::Join(mut join) => {
                    if let (Some(alias), TableReference::Join(join)) = (optional_alias(p)?, &mut join) {
                        join.alias = Some(alias);
                    }
                    join
                }
            };
            joins(p, first)?
        } else {
            table_reference(p)?
        };
        if !matches!(reference, TableReference::Join(_)) {
            return p.fail();
        }
        p.expect_char(')')?;
        Ok(InParens::Join(reference))
    })
}

/// A function in FROM, behind its call.
fn function(
    p: &mut Parser<'_, '_>,
    call: Expr,
    is_lateral: bool,
    position: Position,
) -> Result<TableReference> {
    let with_ordinality = ordinality(p)?;
    let (alias, columns) = function_alias(p)?;
    let mut reference = function_reference(vec![(call, Vec::new())], alias, columns, is_lateral, position);
    if let TableReference::Function(function) = &mut reference {
        function.with_ordinality = with_ordinality;
    }
    Ok(reference)
}

fn ordinality(p: &mut Parser<'_, '_>) -> Result<bool> {
    let found = p.is(K::With) && p.is_at(1, K::Ordinality);
    if found {
        p.bump();
        p.bump();
    }
    Ok(found)
}

/// A call where no window may follow (func_expr_windowless).
pub(super) fn windowless_call(p: &mut Parser<'_, '_>) -> Result<Expr> {
    let position = p.position();
    if let Some(keyword) = p.keyword()
        && let Some(value) = call::special_call(p, keyword, position)?
    {
        return Ok(value);
    }
    let name = p.function_name()?;
    Ok(Expr::Function(call::call(p, name, position)?))
}

fn rows_from(p: &mut Parser<'_, '_>, is_lateral: bool, position: Position) -> Result<TableReference> {
    p.bump();
    p.bump();
    let functions = p.parens(|p| {
        let call = windowless_call(p)?;
        let columns = if p.take(K::As) { table_columns(p)? } else { Vec::new() };
        Ok((call, columns))
    })?;
    let with_ordinality = ordinality(p)?;
    let (alias, columns) = function_alias(p)?;
    Ok(TableReference::Function(Box::new(FunctionReference {
        is_lateral,
        is_rows_from: true,
        functions,
        with_ordinality,
        alias,
        columns,
        position,
    })))
}

fn table_columns(p: &mut Parser<'_, '_>) -> Result<Vec<TableColumn>> {
    p.parens(table_column)
}

fn table_column(p: &mut Parser<'_, '_>) -> Result<TableColumn> {
    let name = p.name()?;
    table_column_of(p, name)
}

fn table_column_of(p: &mut Parser<'_, '_>, name: Ident) -> Result<TableColumn> {
    let ty = p.type_name()?;
    let collation = if p.take(K::Collate) { Some(p.qualified_name()?) } else { None };
    Ok(TableColumn { name, ty, collation })
}

fn function_alias(p: &mut Parser<'_, '_>) -> Result<FunctionAlias> {
    let has_as = p.take(K::As);
    if has_as && p.is_char('(') {
        return Ok((None, table_columns(p)?));
    }
    if !has_as && !p.is_name_at(0) {
        return Ok((None, Vec::new()));
    }
    let name = p.name()?;
    let (mut names, mut columns) = (Vec::new(), Vec::new());
    if p.take_char('(') {
        let first = p.name()?;
        if p.is_char(',') || p.is_char(')') {
            names.push(first);
            while p.take_char(',') {
                names.push(p.name()?);
            }
        } else {
            columns.push(table_column_of(p, first)?);
            while p.take_char(',') {
                columns.push(table_column(p)?);
            }
        }
        p.expect_char(')')?;
    }
    Ok((Some(Alias { name, columns: names }), columns))
}

/// An alias, if there is one (opt_alias_clause).
fn optional_alias(p: &mut Parser<'_, '_>) -> Result<Option<Alias>> {
    if !p.take(K::As) && !p.is_name_at(0) {
        return Ok(None);
    }
    let name = p.name()?;
    Ok(Some(Alias { name, columns: p.optional_names()? }))
}

/// A relation, with ONLY or `*` (relation_expr).
pub(super) fn relation_expr(p: &mut Parser<'_, '_>) -> Result<RelationReference> {
    let is_only = p.take(K::Only);
    let has_parens = is_only && p.take_char('(');
    let name = p.relation_name()?;
    if has_parens {
        p.expect_char(')')?;
    }
    if !is_only {
        p.take_char('*');
    }
    Ok(RelationReference { name, is_only, alias: None, sample: None })
}

/// A relation that is changed; SET is no alias of it (relation_expr_opt_alias).
pub(super) fn changed_relation(p: &mut Parser<'_, '_>) -> Result<RelationReference> {
    let mut relation = relation_expr(p)?;
    if p.take(K::As) || (p.is_name_at(0) && !p.is(K::Set)) {
        relation.alias = Some(Alias { name: p.name()?, columns: Vec::new() });
    }
    Ok(relation)
}

fn alias_and_sample(p: &mut Parser<'_, '_>, relation: &mut RelationReference) -> Result<()> {
    relation.alias = optional_alias(p)?;
    if p.is(K::Tablesample) {
        let position = p.bump().position();
        let method = p.function_name()?;
        let arguments = p.parens(Parser::expr)?;
        let mut repeatable = None;
        if p.take(K::Repeatable) {
            p.expect_char('(')?;
            repeatable = Some(p.expr()?);
            p.expect_char(')')?;
        }
        relation.sample = Some(Box::new(TableSample { method, arguments, repeatable, position }));
    }
    Ok(())
}

fn function_reference(
    functions: Vec<(Expr, Vec<TableColumn>)>,
    alias: Option<Alias>,
    columns: Vec<TableColumn>,
    is_lateral: bool,
    position: Position,
) -> TableReference {
    TableReference::Function(Box::new(FunctionReference {
        is_lateral,
        is_rows_from: false,
        functions,
        with_ordinality: false,
        alias,
        columns,
        position,
    }))
}

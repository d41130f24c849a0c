//! Queries: SELECT, VALUES, TABLE, set operations, WITH.

use super::{Parser, from, primary, window};
use crate::{
    Position, Statement,
    ast::{
        ColumnReference, CommonTable, Constant, CreateTableAs, Cycle, Distinct, Expr, GroupingElement,
        IntoClause, Limit, LockStrength, LockWait, LockingClause, Persistence, Query, QueryBody, Search,
        Select, SetOperation, SetOperationKind, SetOperations, SortBy, TableReference, Target, Value, Values,
        With,
    },
    error::{Error, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

/// A query, with or without parentheses (SelectStmt).
pub(super) fn query(p: &mut Parser<'_, '_>) -> Result<Query> {
    p.nested(|p| {
        let with = optional_with(p)?;
        query_after_with(p, with)
    })
}

/// The query behind WITH.
pub(super) fn query_after_with(p: &mut Parser<'_, '_>, with: Option<Box<With>>) -> Result<Query> {
    let links = std::mem::take(&mut p.links);
    let first = query_operand(p)?;
    let body = set_operations(p, first)?;
    let query = query_clauses(p, with, body)?;
    p.links = p.links.max(links);
    Ok(query)
}

/// Goes on with a query whose first operand, in parentheses, has been read.
pub(super) fn query_from(p: &mut Parser<'_, '_>, first: Query) -> Result<Query> {
    let body = set_operations(p, body_of(first))?;
    query_clauses(p, None, body)
}

pub(super) fn query_in_parens(p: &mut Parser<'_, '_>) -> Result<Query> {
    p.nested(|p| {
        p.expect_char('(')?;
        let query = if p.is_char('(') {
            let first = p.query_in_parens()?;
            p.query_from(first)?
        } else if primary::begins_query_at(p, 0) {
            p.query()?
        } else {
            return p.fail();
        };
        p.expect_char(')')?;
        Ok(query)
    })
}

/// An operand of set operations.
fn query_operand(p: &mut Parser<'_, '_>) -> Result<QueryBody> {
    match p.keyword() {
        Some(K::Select) => select(p),
        Some(K::Values) => values(p),
        Some(K::Table) => table_query(p),
        _ if p.is_char('(') => Ok(body_of(p.query_in_parens()?)),
        _ => p.fail(),
    }
}

/// UNION, EXCEPT and INTERSECT behind their first operand.
fn set_operations(p: &mut Parser<'_, '_>, first: QueryBody) -> Result<QueryBody> {
    let mut body = intersections(p, first)?;
    if matches!(p.keyword(), Some(K::Union | K::Except)) {
        let mut rest = Vec::new();
        while let Some(keyword @ (K::Union | K::Except)) = p.keyword() {
            let kind = match keyword {
                K::Union => SetOperationKind::Union,
                _ => SetOperationKind::Except,
            };
            let (position, is_all) = quantifier(p);
            // UNIONs of one kind make one list when they are run; all other operations nest.
            let is_same = |last: &SetOperation| (last.kind, last.is_all) == (kind, is_all);
            if kind != SetOperationKind::Union || !rest.last().is_none_or(is_same) {
                p.link()?;
            }
            let links = std::mem::take(&mut p.links);
            let operand = query_operand(p)?;
            let right = intersections(p, operand)?;
            p.links = p.links.max(links);
            rest.push(SetOperation { kind, is_all, right, position });
        }
        body = QueryBody::SetOperations(Box::new(SetOperations { first: body, rest }));
    }
    Ok(body)
}

fn intersections(p: &mut Parser<'_, '_>, first: QueryBody) -> Result<QueryBody> {
    if !p.is(K::Intersect) {
        return Ok(first);
    }
    let mut rest = Vec::new();
    while p.is(K::Intersect) {
        p.link()?;
        let (position, is_all) = quantifier(p);
        let right = query_operand(p)?;
        rest.push(SetOperation { kind: SetOperationKind::Intersect, is_all, right, position });
    }
    Ok(QueryBody::SetOperations(Box::new(SetOperations { first, rest })))
}

/// A set operation's word, and ALL or DISTINCT.
fn quantifier(p: &mut Parser<'_, '_>) -> (Position, bool) {
    let position = p.bump().position();
    let is_all = p.take(K::All);
    if !is_all {
        p.take(K::Distinct);
    }
    (position, is_all)
}

fn select(p: &mut Parser<'_, '_>) -> Result<QueryBody> {
    let position = p.expect(K::Select)?.position();
    let mut distinct = Distinct::No;
    if p.take(K::Distinct) {
        distinct = match p.take(K::On) {
            true => Distinct::On(p.parens(Parser::expr)?),
            false => Distinct::Yes,
        };
    } else {
        p.take(K::All);
    }
    let targets = match distinct == Distinct::No && ends_targets(p) {
        true => Vec::new(),
        false => targets(p)?,
    };
    let into = into_clause(p)?;
    let from = if p.take(K::From) { p.list(from::table_reference)? } else { Vec::new() };
    let filter = optional_where(p)?;
    let (mut group_by, mut is_group_distinct) = (Vec::new(), false);
    if p.take(K::Group) {
        p.expect(K::By)?;
        is_group_distinct = p.take(K::Distinct);
        if !is_group_distinct {
            p.take(K::All);
        }
        group_by = p.list(grouping_element)?;
    }
    let having = if p.take(K::Having) { Some(p.expr()?) } else { None };
    let mut windows = Vec::new();
    if p.take(K::Window) {
        windows = p.list(|p| {
            let name = p.name()?;
            p.expect(K::As)?;
            let mut window = window::window(p)?;
            window.name = Some(name);
            Ok(window)
        })?;
    }
    Ok(QueryBody::Select(Box::new(Select {
        distinct,
        targets,
        into,
        from,
        filter,
        group_by,
        is_group_distinct,
        having,
        windows,
        position,
    })))
}

/// True if a list of columns that may be empty is so.
fn ends_targets(p: &mut Parser<'_, '_>) -> bool {
    match p.peek().kind {
        Kind::End | Kind::Char(')' | ';') => true,
        Kind::Keyword(keyword) => matches!(
            keyword,
            K::Into
                | K::From
                | K::Where
                | K::Group
                | K::Having
                | K::Window
                | K::Union
                | K::Intersect
                | K::Except
                | K::Order
                | K::Limit
                | K::Offset
                | K::Fetch
                | K::For
                | K::On
                | K::Returning
                | K::With
        ),
        _ => false,
    }
}

/// The columns of a result.
pub(super) fn targets(p: &mut Parser<'_, '_>) -> Result<Vec<Target>> {
    p.list(|p| {
        let position = p.position();
        if p.take_char('*') {
            let star = ColumnReference { fields: Vec::new(), has_star: true, position };
            return Ok(Target { value: Expr::Column(star), alias: None, position });
        }
        let outer = p.label_depth.replace(p.depth);
        let value = p.expr();
        p.label_depth = outer;
        let value = value?;
        let alias = match p.peek().kind {
            Kind::Keyword(K::As) => {
                p.bump();
                Some(p.label()?)
            }
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => Some(p.any_word()?),
            Kind::Keyword(keyword) if keyword.may_be_bare_label() => Some(p.any_word()?),
            _ => None,
        };
        Ok(Target { value, alias, position })
    })
}

pub(super) fn optional_where(p: &mut Parser<'_, '_>) -> Result<Option<Expr>> {
    if p.take(K::Where) { p.expr().map(Some) } else { Ok(None) }
}

/// The statement that a query with INTO, which only the first SELECT may have, stands for.
pub(super) fn made_table(statement: Statement) -> Statement {
    let Statement::Query(mut query) = statement else { return statement };
    let Some(into) = take_into(&mut query.body) else { return Statement::Query(query) };
    Statement::CreateTableAs(Box::new(CreateTableAs {
        name: into.name,
        persistence: into.persistence,
        if_not_exists: false,
        columns: Vec::new(),
        access_method: None,
        options: Vec::new(),
        on_commit: None,
        tablespace: None,
        source: Statement::Query(query),
        with_data: true,
        is_select_into: true,
    }))
}

fn take_into(body: &mut QueryBody) -> Option<Box<IntoClause>> {
    match body {
        QueryBody::Select(select) => select.into.take(),
        QueryBody::Values(_) => None,
        QueryBody::SetOperations(operations) => take_into(&mut operations.first),
        QueryBody::Query(query) => take_into(&mut query.body),
    }
}

fn into_clause(p: &mut Parser<'_, '_>) -> Result<Option<Box<IntoClause>>> {
    if !p.take(K::Into) {
        return Ok(None);
    }
    let mut persistence = Persistence::Permanent;
    match p.keyword() {
        Some(K::Temporary | K::Temp) => persistence = Persistence::Temporary,
        Some(K::Unlogged) => persistence = Persistence::Unlogged,
        Some(K::Local | K::Global) if matches!(p.keyword_at(1), Some(K::Temporary | K::Temp)) => {
            p.bump();
            persistence = Persistence::Temporary;
        }
        _ => {}
    }
    // Such a word is the table's name if nothing else is.
    if persistence != Persistence::Permanent {
        match p.is_name_at(1) || p.is_at(1, K::Table) {
            true => {
                p.bump();
            }
            false => persistence = Persistence::Permanent,
        }
    }
    p.take(K::Table);
    Ok(Some(Box::new(IntoClause { persistence, name: p.relation_name()? })))
}

fn grouping_element(p: &mut Parser<'_, '_>) -> Result<GroupingElement> {
    let position = p.position();
    let has_parens = p.is_char_at(1, '(');
    match p.keyword() {
        Some(keyword @ (K::Cube | K::Rollup)) if has_parens => {
            p.bump();
            let exprs = p.nested(|p| p.parens(Parser::expr))?;
            Ok(match keyword {
                K::Cube => GroupingElement::Cube(exprs, position),
                _ => GroupingElement::Rollup(exprs, position),
            })
        }
        Some(K::Grouping) if p.is_at(1, K::Sets) => {
            p.bump();
            p.bump();
            let sets = p.nested(|p| p.parens(grouping_element))?;
            Ok(GroupingElement::Sets(sets, position))
        }
        _ if p.is_char('(') && p.is_char_at(1, ')') => {
            p.bump();
            p.bump();
            Ok(GroupingElement::Empty(position))
        }
        _ => Ok(GroupingElement::Expr(p.expr()?)),
    }
}

fn values(p: &mut Parser<'_, '_>) -> Result<QueryBody> {
    let position = p.expect(K::Values)?.position();
    let rows = p.list(|p| p.nested(|p| p.parens(Parser::expr)))?;
    Ok(QueryBody::Values(Values { rows, position }))
}

/// `TABLE t`, which is `SELECT * FROM t`.
fn table_query(p: &mut Parser<'_, '_>) -> Result<QueryBody> {
    let position = p.expect(K::Table)?.position();
    let relation = from::relation_expr(p)?;
    let star = ColumnReference { fields: Vec::new(), has_star: true, position };
    Ok(QueryBody::Select(Box::new(Select {
        distinct: Distinct::No,
        targets: vec![Target { value: Expr::Column(star), alias: None, position }],
        into: None,
        from: vec![TableReference::Relation(Box::new(relation))],
        filter: None,
        group_by: Vec::new(),
        is_group_distinct: false,
        having: None,
        windows: Vec::new(),
        position,
    })))
}

/// ORDER BY, LIMIT, FOR UPDATE and their like, behind a body.
fn query_clauses(p: &mut Parser<'_, '_>, with: Option<Box<With>>, body: QueryBody) -> Result<Query> {
    // What is around a query in parentheses is added to it.
    let mut query = match body {
        QueryBody::Query(query) => *query,
        body => Query { with: None, body, order_by: Vec::new(), limit: None, locks: Vec::new() },
    };
    // PostgreSQL points at the first item.
    let order_at = if p.is(K::Order) { p.peek_at(2).position() } else { Position::NONE };
    let order_by: Vec<SortBy> = window::optional_order_by(p)?;
    if !order_by.is_empty() {
        if !query.order_by.is_empty() {
            return Err(Error::syntax("multiple ORDER BY clauses not allowed", order_at));
        }
        query.order_by = order_by;
    }
    if p.is(K::For) {
        locks(p, &mut query)?;
        limit(p, &mut query)?;
    } else {
        limit(p, &mut query)?;
        locks(p, &mut query)?;
    }
    if let Some(with) = with {
        if query.with.is_some() {
            return Err(Error::syntax("multiple WITH clauses not allowed", with.position));
        }
        query.with = Some(with);
    }
    Ok(query)
}

fn limit(p: &mut Parser<'_, '_>, query: &mut Query) -> Result<()> {
    let (mut has_limit, mut has_offset) = (false, false);
    while let Some(keyword) = p.keyword() {
        match keyword {
            K::Limit | K::Fetch if !has_limit => {
                has_limit = true;
                limit_clause(p, query)?;
            }
            K::Offset if !has_offset => {
                has_offset = true;
                p.bump();
                let at = p.position();
                let offset = p.expr()?;
                if !p.take(K::Row) {
                    p.take(K::Rows);
                }
                let limit = query.limit.get_or_insert_default();
                if limit.offset.is_some() {
                    return Err(Error::syntax("multiple OFFSET clauses not allowed", at));
                }
                limit.offset = Some(offset);
            }
            _ => break,
        }
    }
    Ok(())
}

/// LIMIT or FETCH.
fn limit_clause(p: &mut Parser<'_, '_>, query: &mut Query) -> Result<()> {
    let start = p.bump();
    let at = p.position();
    let mut is_with_ties = false;
    let count = if start.keyword() == Some(K::Limit) {
        let count = if p.take(K::All) { None } else { Some(p.expr()?) };
        if p.is_char(',') {
            p.bump();
            let _ = p.expr()?;
            return Err(Error::syntax("LIMIT #,# syntax is not supported", start.position())
                .hint("Use separate LIMIT and OFFSET clauses."));
        }
        count
    } else {
        if !p.take(K::First) {
            p.expect(K::Next)?;
        }
        let count = if matches!(p.keyword(), Some(K::Row | K::Rows)) && !p.is_char_at(1, '(') {
            Expr::Constant(Constant { value: Value::Integer(1), position: Position::NONE })
        } else if p.is_number() {
            let position = p.position();
            let value = p.number()?;
            let value = value.parse().map_or_else(|_| Value::Number(value), Value::Integer);
            Expr::Constant(Constant { value, position })
        } else {
            primary::primary(p)?
        };
        if !p.take(K::Row) {
            p.expect(K::Rows)?;
        }
        if !p.take(K::Only) {
            p.expect_all(&[K::With, K::Ties])?;
            is_with_ties = true;
        }
        Some(count)
    };
    let limit: &mut Limit = query.limit.get_or_insert_default();
    if limit.count.is_some() && count.is_some() {
        return Err(Error::syntax("multiple LIMIT clauses not allowed", at));
    }
    limit.count = count;
    limit.is_with_ties = is_with_ties;
    if is_with_ties && query.order_by.is_empty() {
        let message = "WITH TIES cannot be specified without ORDER BY clause";
        return Err(Error::syntax(message, Position::NONE));
    }
    Ok(())
}

fn locks(p: &mut Parser<'_, '_>, query: &mut Query) -> Result<()> {
    if p.is(K::For) && p.is_at(1, K::Read) {
        p.bump();
        return p.expect_all(&[K::Read, K::Only]);
    }
    while p.is(K::For) {
        let position = p.bump().position();
        let strength = match bump_keyword(p)? {
            K::Update => LockStrength::Update,
            K::Share => LockStrength::Share,
            K::No => {
                p.expect_all(&[K::Key, K::Update])?;
                LockStrength::NoKeyUpdate
            }
            _ => {
                p.expect(K::Share)?;
                LockStrength::KeyShare
            }
        };
        let tables = if p.take(K::Of) { p.list(Parser::relation_name)? } else { Vec::new() };
        let wait = if p.take(K::Nowait) {
            LockWait::Nowait
        } else if p.take_all(&[K::Skip, K::Locked])? {
            LockWait::SkipLocked
        } else {
            LockWait::Wait
        };
        query.locks.push(LockingClause { strength, tables, wait, position });
    }
    let skips = query.locks.iter().any(|lock| lock.wait == LockWait::SkipLocked);
    if skips && query.limit.as_ref().is_some_and(|limit| limit.is_with_ties) {
        let message = "SKIP LOCKED and WITH TIES options cannot be used together";
        return Err(Error::syntax(message, Position::NONE));
    }
    Ok(())
}

/// A word of FOR UPDATE and its like.
fn bump_keyword(p: &mut Parser<'_, '_>) -> Result<K> {
    match p.keyword() {
        Some(keyword @ (K::Update | K::Share | K::No | K::Key)) => {
            p.bump();
            Ok(keyword)
        }
        _ => p.fail(),
    }
}

/// WITH, if it is there.
pub(super) fn optional_with(p: &mut Parser<'_, '_>) -> Result<Option<Box<With>>> {
    if !p.is(K::With) {
        return Ok(None);
    }
    let position = p.bump().position();
    // RECURSIVE may be the name of the first table.
    let is_recursive = !p.is_char_at(1, '(') && !p.is_at(1, K::As) && p.take(K::Recursive);
    let tables = p.list(common_table)?;
    Ok(Some(Box::new(With { is_recursive, tables, position })))
}

fn common_table(p: &mut Parser<'_, '_>) -> Result<CommonTable> {
    let name = p.name()?;
    let columns = p.optional_names()?;
    p.expect(K::As)?;
    let is_materialized = if p.take(K::Materialized) {
        Some(true)
    } else if p.take_all(&[K::Not, K::Materialized])? {
        Some(false)
    } else {
        None
    };
    p.expect_char('(')?;
    let statement = Box::new(p.nested(Parser::preparable)?);
    p.expect_char(')')?;
    let mut search = None;
    if p.is(K::Search) {
        let position = p.bump().position();
        let is_breadth_first = p.take(K::Breadth);
        if !is_breadth_first {
            p.expect(K::Depth)?;
        }
        p.expect_all(&[K::First, K::By])?;
        let columns = p.names()?;
        p.expect(K::Set)?;
        let sequence = p.name()?;
        search = Some(Box::new(Search { is_breadth_first, columns, sequence, position }));
    }
    let mut cycle = None;
    if p.is(K::Cycle) {
        let position = p.bump().position();
        let columns = p.names()?;
        p.expect(K::Set)?;
        let mark = p.name()?;
        let mut values = None;
        if p.take(K::To) {
            let value = primary::constant(p)?;
            p.expect(K::Default)?;
            values = Some((value, primary::constant(p)?));
        }
        p.expect(K::Using)?;
        let path = p.name()?;
        cycle = Some(Box::new(Cycle { columns, mark, values, path, position }));
    }
    Ok(CommonTable { name, columns, is_materialized, statement, search, cycle })
}

/// Returns a query in parentheses as an operand.
fn body_of(query: Query) -> QueryBody {
    match is_bare(&query) {
        true => query.body,
        false => QueryBody::Query(Box::new(query)),
    }
}

/// True if a query has no clauses of its own, so that its body may stand for it.
pub(super) fn is_bare(query: &Query) -> bool {
    let Query { with, body, order_by, limit, locks } = query;
    with.is_none()
        && order_by.is_empty()
        && limit.is_none()
        && locks.is_empty()
        && !matches!(body, QueryBody::Query(_))
}

//! FROM: relations, joins, and the names that they bring.
//!
//! Columns are numbered through the level in the order of FROM; a stored table takes a number for each of its
//! columns, dropped ones included, and one more for its row key.

use std::sync::Arc;

use gnomon_parser::ast::{
    self, Alias, FunctionCall, FunctionReference, Join, JoinCondition, RelationReference, SubqueryReference,
    TableReference,
};

use super::{BoundQuery, Output, QueryBinder, output::figure_name};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        Relation, ResultColumn,
        scope::{Barred, Clause, Place, Scope, ScopeColumn, ScopeRelation, WholeRow},
        syntax::relation_name,
    },
    catalog::{model::View, row_address::SystemColumn},
    executor::{
        Expr,
        expr::{ExprKind, on_deep_stack},
        plan::{CteScan, JoinKind, Plan, RowsFrom, Values},
    },
    planner::{FromItem, FromKind, JoinTree},
    types::{ColumnType, Type},
};

/// A bound piece of FROM with the names that it brings.
struct Piece {
    tree: JoinTree,
    relations: Vec<ScopeRelation>,
    columns: Vec<ScopeColumn>,
}

/// The left side of a join, as its right side sees it.
#[derive(Clone, Copy)]
struct LeftSide<'p> {
    piece: &'p Piece,
    /// True if LATERAL may not refer to it.
    is_barred: bool,
}

/// State of binding FROM.
struct FromCx<'s> {
    /// The level's names without FROM.
    level: &'s Scope<'s>,
    /// The next column's number.
    next: usize,
}

impl QueryBinder<'_, '_> {
    /// Binds FROM. Its items' names go into the scope returned, which lies within `level`.
    pub fn bind_from<'s>(
        &mut self,
        from: &[TableReference],
        level: &'s Scope<'s>,
    ) -> Result<(Option<JoinTree>, Scope<'s>, usize)> {
        self.bind_from_after(from, level, &Scope::empty(), 0)
    }

    /// As [`QueryBinder::bind_from`], after the target of a change, whose columns take the numbers below `next`:
    /// LATERAL items may not refer to it, and no name may be its.
    pub fn bind_from_after<'s>(
        &mut self,
        from: &[TableReference],
        level: &'s Scope<'s>,
        before: &Scope<'_>,
        next: usize,
    ) -> Result<(Option<JoinTree>, Scope<'s>, usize)> {
        let mut cx = FromCx { level, next };
        let mut scope = Scope::within(level);
        let mut tree = None;
        for item in from {
            let mut seen = Scope::within(level);
            seen.relations = before.relations.iter().chain(&scope.relations).cloned().collect();
            seen.columns = before.columns.iter().chain(&scope.columns).cloned().collect();
            seen.barred = barred(&before.relations, true).collect();
            let piece = self.table_reference(item, &mut cx, &seen, None)?;
            check_aliases(&seen.relations, &piece.relations)?;
            scope.relations.extend(piece.relations);
            scope.columns.extend(piece.columns);
            tree = Some(match tree {
                None => piece.tree,
                Some(left) => JoinTree::Join {
                    kind: JoinKind::Inner,
                    left: Box::new(left),
                    right: Box::new(piece.tree),
                    condition: Vec::new(),
                },
            });
        }
        Ok((tree, scope, cx.next))
    }

    /// Binds a member of FROM. `left` is the left side of the join that it is the right side of.
    fn table_reference(
        &mut self,
        reference: &TableReference,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<LeftSide<'_>>,
    ) -> Result<Piece> {
        self.statement.enter_query()?;
        let piece = on_deep_stack(|| match reference {
            TableReference::Relation(relation) => self.relation_item(relation, cx),
            TableReference::Function(function) => self.function_item(function, cx, before, left),
            TableReference::Subquery(subquery) => self.subquery_item(subquery, cx, before, left),
            TableReference::Join(join) => match left {
                None => self.joins(join, cx, before),
                // Within parentheses, the items before are seen as LATERAL sees them.
                Some(_) => self.joins(join, cx, &lateral_scope(cx.level, before, left)),
            },
        })?;
        self.statement.leave_query();
        if let (Some(analysis), [relation]) = (&mut self.statement.analysis, &piece.relations[..]) {
            analysis.table(reference, relation.columns.iter().map(|column| column.name.clone()));
        }
        Ok(piece)
    }

    /// Binds a chain of joins, from left to right: it may be longer than a stack is deep.
    fn joins(&mut self, last: &Join, cx: &mut FromCx<'_>, before: &Scope<'_>) -> Result<Piece> {
        let mut chain = vec![last];
        let mut first = &last.left;
        while let TableReference::Join(join) = first {
            chain.push(join);
            first = &join.left;
        }
        let mut left = self.table_reference(first, cx, before, None)?;
        for join in chain.into_iter().rev() {
            let kind = match join.kind {
                ast::JoinKind::Inner | ast::JoinKind::Cross => JoinKind::Inner,
                ast::JoinKind::Left => JoinKind::Left,
                ast::JoinKind::Right => JoinKind::Right,
                ast::JoinKind::Full => JoinKind::Full,
            };
            // LATERAL on the right of a join that keeps its right rows could find no left row to refer to.
            let is_barred = matches!(kind, JoinKind::Right | JoinKind::Full);
            let seen = LeftSide { piece: &left, is_barred };
            let right = self.table_reference(&join.right, cx, before, Some(seen))?;
            left = self.join(left, right, kind, join, (cx, before))?;
            if let Some(alias) = &join.alias {
                left = aliased_join(left, alias)?;
            }
        }
        Ok(left)
    }

    fn join(
        &mut self,
        left: Piece,
        right: Piece,
        kind: JoinKind,
        join: &Join,
        (cx, before): (&FromCx<'_>, &Scope<'_>),
    ) -> Result<Piece> {
        check_aliases(&left.relations, &right.relations)?;
        let mut condition = Vec::new();
        let using = self.using_columns(join, &left, &right)?;
        let mut merged = Vec::with_capacity(using.len());
        for name in &using {
            let (a, b) = (using_column(&left, name, "left")?, using_column(&right, name, "right")?);
            condition.push(self.statement.typing.operator("=", vec![a.expr.clone(), b.expr.clone()])?);
            self.statement.note_columns([a, b]);
            merged.push(self.merged_column(a, b, kind)?);
        }
        let rest = |columns: Vec<ScopeColumn>| {
            columns.into_iter().filter(|column| !using.contains(&column.name)).collect::<Vec<_>>()
        };
        let right_first = left.relations.len();
        let right_end = right_first + right.relations.len();
        let mut relations: Vec<_> = left.relations.into_iter().chain(right.relations).collect();
        relations.iter_mut().for_each(ScopeRelation::hide_system_columns);
        if let JoinCondition::Using(_, Some(alias)) = &join.condition {
            let relation = named_columns(alias.name.to_string(), merged.clone(), &[]);
            check_aliases(&relations, std::slice::from_ref(&relation))?;
            relations.push(relation);
        }
        let columns = merged.into_iter().chain(rest(left.columns)).chain(rest(right.columns)).collect();
        let mut scope = Scope::within(cx.level);
        (scope.relations, scope.columns) = (relations, columns);
        scope.beyond.push(&before.relations);
        if let JoinCondition::On(on) = &join.condition {
            let on = self.expressions().bind_condition(on, Place::new(&scope, Clause::JoinOn))?;
            on.split_and(&mut condition);
        }
        let (left_rows, right_rows) = scope.relations[..right_end].split_at_mut(right_first);
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            left_rows.iter_mut().for_each(|relation| relation.whole.extend());
        }
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            right_rows.iter_mut().for_each(|relation| relation.whole.extend());
        }
        let tree = JoinTree::Join { kind, left: Box::new(left.tree), right: Box::new(right.tree), condition };
        Ok(Piece { tree, relations: scope.relations, columns: scope.columns })
    }

    /// The names of the columns that a join with USING or NATURAL compares.
    fn using_columns(&mut self, join: &Join, left: &Piece, right: &Piece) -> Result<Vec<String>> {
        match &join.condition {
            JoinCondition::On(_) | JoinCondition::None => Ok(Vec::new()),
            JoinCondition::Using(names, _) => {
                let mut using: Vec<String> = Vec::with_capacity(names.len());
                for name in names {
                    if using.iter().any(|other| **other == *name.name) {
                        let message =
                            format!("column name \"{}\" appears more than once in USING clause", name.name);
                        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                    }
                    using.push(name.name.to_string());
                }
                Ok(using)
            }
            JoinCondition::Natural => {
                let columns = left.columns.iter().map(|column| &column.name);
                let shared = columns.filter(|name| right.columns.iter().any(|other| other.name == **name));
                let using: Vec<String> = shared.cloned().collect();
                if let Some(expansions) = &mut self.statement.expansions {
                    expansions.natural(join, &using);
                }
                Ok(using)
            }
        }
    }

    /// The column that USING makes of two.
    fn merged_column(&mut self, a: &ScopeColumn, b: &ScopeColumn, kind: JoinKind) -> Result<ScopeColumn> {
        let mut column = if kind == JoinKind::Right { b.clone() } else { a.clone() };
        let typing = &mut self.statement.typing;
        let both = || vec![a.expr.clone(), b.expr.clone()];
        let ty = typing.common_type(&both(), "JOIN/USING")?;
        if kind == JoinKind::Full {
            let args = typing.all_to(both(), ty, "JOIN/USING")?;
            column.expr = Expr::new(ExprKind::Coalesce(args), ty);
            (column.table, column.attribute) = (0, 0);
        } else if column.expr.ty.ty != ty {
            column.expr = typing.explicit(column.expr, ty.into())?;
        }
        Ok(column)
    }

    fn subquery_item(
        &mut self,
        reference: &SubqueryReference,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<LeftSide<'_>>,
    ) -> Result<Piece> {
        let lateral;
        let around = match reference.is_lateral {
            true => {
                lateral = lateral_scope(cx.level, before, left);
                &lateral
            }
            false => cx.level,
        };
        let mut inner = Scope::of_query(Place::new(around, Clause::FromQuery));
        if !reference.is_lateral {
            inner.beyond.push(&before.relations);
            inner.beyond.extend(left.map(|left| &*left.piece.relations));
        }
        let BoundQuery { plan, columns, .. } =
            self.bind_query(&reference.query, &inner, Output::Own, None)?;
        let (params, _) = inner.into_captures();
        plan_item(
            plan,
            (&columns, 0),
            params,
            reference.alias.name.name.to_string(),
            Some(&reference.alias),
            cx,
        )
    }

    fn relation_item(&mut self, reference: &RelationReference, cx: &mut FromCx<'_>) -> Result<Piece> {
        if let Some(sample) = &reference.sample {
            return Err(SqlError::unsupported("TABLESAMPLE").at(sample.position));
        }
        let name = &reference.name;
        self.named_relation(reference, cx).map_err(|error| match error.state() {
            // PostgreSQL shows no place of a list of columns that is too long.
            SqlState::INVALID_COLUMN_REFERENCE => error,
            _ => error.at(name.position()),
        })
    }

    fn named_relation(&mut self, reference: &RelationReference, cx: &mut FromCx<'_>) -> Result<Piece> {
        let RelationReference { name, is_only, alias, sample: _ } = reference;
        let alias = alias.as_ref();
        let (schema, relation) = relation_name(name, self.statement.database)?;
        if schema.is_none()
            && let Some(cte) = self.relations.ctes.iter().rev().find(|cte| cte.name == relation)
        {
            let cte = cte.clone();
            *self.statement.numbers.cte_references.entry(cte.table).or_default() += 1;
            if cte.changes {
                self.relations.changing_references += 1;
            }
            let scan = CteScan { table: cte.table, name: relation.clone() };
            let plan = Plan::CteScan(Arc::new(scan));
            return plan_item(plan, (&cte.columns, cte.hidden), Vec::new(), relation, alias, cx);
        }
        let found = self.relations.find(schema.as_deref(), &relation)?;
        if let (None, Some(expansions)) = (&schema, &mut self.statement.expansions) {
            expansions.relation(name, found.schema());
        }
        let base = cx.next;
        match found {
            Relation::Table(table) => {
                if *is_only && table.partitioning.is_some() {
                    return Err(SqlError::unsupported("ONLY of a partitioned table"));
                }
                let alias_name = alias.map(|alias| &*alias.name.name);
                let key = base + table.columns.len();
                let mut relation =
                    ScopeRelation::of_table(&table, alias_name, base).with_system_columns(&table, key);
                relation.columns = rename(relation.columns, alias, "table")?;
                let width = table.columns.len() + 1;
                Ok(cx.item(FromKind::Table(table), relation, width, Vec::new()))
            }
            Relation::Virtual(table) => {
                let name = alias.map_or_else(|| relation.clone(), |alias| alias.name.name.to_string());
                let columns = table.columns().iter().enumerate().map(|(position, column)| ScopeColumn {
                    name: column.name.to_owned(),
                    expr: Expr::column(base + position, format!("{name}.{}", column.name), column.ty),
                    table: table.oid(),
                    attribute: i16::try_from(position + 1).unwrap_or(0),
                    is_hidden: false,
                });
                // Behind the table's own columns, VirtualScan has the identifier of the table.
                let width = table.columns().len() + 1;
                let tableoid = ScopeColumn {
                    name: SystemColumn::TableOid.name().to_owned(),
                    expr: Expr::column(base + width - 1, format!("{name}.tableoid"), Type::Oid.into()),
                    table: table.oid(),
                    attribute: SystemColumn::TableOid.attribute(),
                    is_hidden: false,
                };
                let relation = ScopeRelation {
                    schema: alias.is_none().then(|| table.schema().to_owned()),
                    columns: rename(columns.collect(), alias, "table")?,
                    system_columns: vec![tableoid],
                    name,
                    aliased: alias.map(|_| relation),
                    stored: None,
                    joined: None,
                    whole: WholeRow::told_by(base + width - 1),
                };
                Ok(cx.item(FromKind::Virtual(table), relation, width, Vec::new()))
            }
            Relation::View(view) => {
                let (plan, columns) = self.view(&view)?;
                let name = alias.map_or_else(|| relation, |alias| alias.name.name.to_string());
                let mut piece = plan_item(plan, (&columns, 0), Vec::new(), name, alias, cx)?;
                if let (None, [relation]) = (alias, &mut piece.relations[..]) {
                    relation.schema = Some(view.schema.clone());
                }
                Ok(piece)
            }
        }
    }

    /// The plan of a view's query. Its names are not those of the statement around it.
    fn view(&mut self, view: &View) -> Result<(Plan, Vec<ResultColumn>)> {
        if self.statement.analysis.is_some() || self.statement.expansions.is_some() {
            return Ok(shape_of_view(view));
        }
        self.statement.add_view()?;
        let query = self.relations.catalog.view_query(view)?;
        let ctes = std::mem::take(&mut self.relations.ctes);
        let scope = Scope::empty();
        let BoundQuery { plan, mut columns, .. } = self.bind_query(&query, &scope, Output::Own, None)?;
        self.relations.ctes = ctes;
        if columns.len() != view.columns.len() {
            return Err(view.damaged("It has another number of columns than the view."));
        }
        for (position, (column, (name, _))) in columns.iter_mut().zip(&view.columns).enumerate() {
            column.name.clone_from(name);
            (column.table, column.attribute) = (view.oid, attribute(position));
        }
        Ok((plan, columns))
    }

    fn function_item(
        &mut self,
        reference: &FunctionReference,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<LeftSide<'_>>,
    ) -> Result<Piece> {
        let defined = reference.functions.iter().flat_map(|(_, columns)| columns).chain(&reference.columns);
        if let Some(column) = defined.into_iter().next() {
            let error = SqlError::unsupported("a column definition list of a function");
            return Err(error.at(column.name.position));
        }
        let scope = lateral_scope(cx.level, before, left);
        let inner = Scope::of_query(Place::new(&scope, Clause::From));
        let (mut functions, mut columns) = (Vec::new(), Vec::new());
        for (value, _) in &reference.functions {
            let place = Place::new(&inner, Clause::From);
            for (function, returned) in self.rows_from(value, place)? {
                functions.push(function);
                columns.extend(returned);
            }
        }
        let (params, _) = inner.into_captures();
        let name = reference.functions.first().map(|(value, _)| figure_name(value)).unwrap_or_default();
        functions_item(functions, columns, params, name, reference, cx)
    }

    /// The functions that a call in FROM means, each with its columns.
    fn rows_from(&mut self, value: &ast::Expr, place: Place<'_>) -> Result<Vec<FunctionRows>> {
        let Some(call) = plain_call(value) else {
            let bound = self.expressions().bind(value, place)?;
            let bound = self.statement.typing.known(bound)?;
            let column = (figure_name(value), bound.ty);
            return Ok(vec![(RowsFrom::Scalar(bound), vec![column])]);
        };
        let name = match self.statement.function_name(&call.name) {
            Ok(name) => name,
            Err(error) => {
                let missing = self.expressions().not_in_schema(error, call, place)?.at(call.position);
                return Err(self.expressions().or_procedure(missing, call, place));
            }
        };
        let args = self.expressions().call_arguments(call, place)?;
        let typing = &mut self.statement.typing;
        let at = |error: SqlError| error.at(call.position);
        if args.values.len() > 1 && call.name.0.len() == 1 && name == "unnest" {
            let arrays = args.values.into_iter();
            return arrays.map(|array| typing.rows_from(&name, vec![array].into()).map_err(at)).collect();
        }
        let rows = typing.rows_from(&name, args).map_err(at);
        Ok(vec![rows.map_err(|error| self.expressions().or_procedure(error, call, place))?])
    }
}

/// The columns of a view, over no rows: enough where a query is bound for its text, or the types of its expressions.
fn shape_of_view(view: &View) -> (Plan, Vec<ResultColumn>) {
    let columns = view.columns.iter().enumerate().map(|(position, (name, ty))| ResultColumn {
        name: name.clone(),
        ty: *ty,
        table: view.oid,
        attribute: attribute(position),
    });
    (Plan::Values(Arc::new(Values { rows: Vec::new() })), columns.collect())
}

/// The number of a column.
fn attribute(position: usize) -> i16 {
    i16::try_from(position + 1).unwrap_or(0)
}

/// A function in FROM, with the names and types of its columns.
type FunctionRows = (RowsFrom, Vec<(String, ColumnType)>);

/// The call, if a value is one without clauses.
fn plain_call(value: &ast::Expr) -> Option<&FunctionCall> {
    let ast::Expr::Function(call) = value else { return None };
    let is_plain = !call.has_star
        && !call.is_distinct
        && call.order_by.is_empty()
        && !call.is_within_group
        && call.filter.is_none()
        && call.over.is_none();
    is_plain.then_some(call)
}

/// A join in parentheses with an alias: it is one relation.
fn aliased_join(join: Piece, alias: &Alias) -> Result<Piece> {
    let columns = rename(join.columns, Some(alias), "join expression")?;
    let relation = named_columns(alias.name.name.to_string(), columns.clone(), &join.relations);
    Ok(Piece { tree: join.tree, columns, relations: vec![relation] })
}

/// Columns of a join that can be named as a relation's.
fn named_columns(name: String, columns: Vec<ScopeColumn>, joined: &[ScopeRelation]) -> ScopeRelation {
    ScopeRelation {
        schema: None,
        name,
        aliased: None,
        columns,
        system_columns: Vec::new(),
        stored: None,
        joined: Some(joined.into()),
        whole: WholeRow::of_join(),
    }
}

/// A relation whose rows are computed, with the columns that its alias renames.
fn computed(
    name: String,
    columns: Vec<ScopeColumn>,
    alias: Option<&Alias>,
    whole: WholeRow,
) -> Result<ScopeRelation> {
    Ok(ScopeRelation {
        schema: None,
        columns: rename(columns, alias, "table")?,
        name,
        aliased: None,
        system_columns: Vec::new(),
        stored: None,
        joined: None,
        whole,
    })
}

fn plan_item(
    plan: Plan,
    (columns, hidden): (&[ResultColumn], usize),
    params: Vec<(usize, Expr)>,
    name: String,
    alias: Option<&Alias>,
    cx: &mut FromCx<'_>,
) -> Result<Piece> {
    let name = alias.map_or(name, |alias| alias.name.name.to_string());
    let base = cx.next;
    let scope_columns = columns.iter().enumerate().map(|(position, column)| ScopeColumn {
        name: column.name.clone(),
        expr: Expr::column(base + position, format!("{name}.{}", column.name), column.ty),
        table: column.table,
        attribute: column.attribute,
        is_hidden: position >= columns.len().saturating_sub(hidden),
    });
    let whole = WholeRow::told_by(base + columns.len());
    let scope_columns = scope_columns.collect();
    let relation = computed(name, scope_columns, alias, whole)?;
    Ok(cx.item(FromKind::Plan(plan), relation, columns.len() + 1, params))
}

fn functions_item(
    functions: Vec<RowsFrom>,
    mut columns: Vec<(String, ColumnType)>,
    params: Vec<(usize, Expr)>,
    name: String,
    reference: &FunctionReference,
    cx: &mut FromCx<'_>,
) -> Result<Piece> {
    let (alias, ordinality) = (reference.alias.as_ref(), reference.with_ordinality);
    let name = alias.map_or(name, |alias| alias.name.name.to_string());
    // A function of one column gives it the alias's name.
    if let (Some(_), [(column, _)]) = (alias, &mut columns[..]) {
        column.clone_from(&name);
    }
    if ordinality {
        columns.push(("ordinality".to_owned(), Type::Int8.into()));
    }
    let base = cx.next;
    let whole = match columns[..] {
        [_] => WholeRow::Value,
        _ => WholeRow::told_by(base + columns.len()),
    };
    let scope_columns = columns.iter().enumerate().map(|(position, (column, ty))| ScopeColumn {
        name: column.clone(),
        expr: Expr::column(base + position, format!("{name}.{column}"), *ty),
        table: 0,
        attribute: 0,
        is_hidden: false,
    });
    let scope_columns = scope_columns.collect();
    let relation = computed(name, scope_columns, alias, whole)?;
    Ok(cx.item(FromKind::Functions { functions, ordinality }, relation, columns.len() + 1, params))
}

impl FromCx<'_> {
    fn item(
        &mut self,
        kind: FromKind,
        relation: ScopeRelation,
        width: usize,
        params: Vec<(usize, Expr)>,
    ) -> Piece {
        let item = FromItem { kind, alias: relation.name.clone(), base: self.next, width, params };
        self.next += width;
        Piece {
            tree: JoinTree::Item(Box::new(item)),
            columns: relation.columns.clone(),
            relations: vec![relation],
        }
    }
}

/// Returns the scope of a LATERAL item: the items before, and the left side of the join that it is in.
fn lateral_scope<'s>(level: &'s Scope<'s>, before: &Scope<'_>, left: Option<LeftSide<'_>>) -> Scope<'s> {
    let mut scope = Scope::within(level);
    scope.relations.clone_from(&before.relations);
    scope.columns.clone_from(&before.columns);
    scope.barred.clone_from(&before.barred);
    if let Some(LeftSide { piece, is_barred }) = left {
        scope.relations.extend(piece.relations.iter().cloned());
        scope.columns.extend(piece.columns.iter().cloned());
        if is_barred {
            scope.barred.extend(barred(&piece.relations, false));
        }
    }
    scope
}

/// The relations, as ones that may not be referred to.
fn barred(relations: &[ScopeRelation], is_target: bool) -> impl Iterator<Item = Barred> {
    relations.iter().map(move |relation| Barred { relation: relation.name.clone(), is_target })
}

fn using_column<'p>(piece: &'p Piece, name: &str, side: &str) -> Result<&'p ScopeColumn> {
    let mut matching = piece.columns.iter().filter(|column| column.name == name);
    match (matching.next(), matching.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        )),
        (None, _) => Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )),
    }
}

fn check_aliases(before: &[ScopeRelation], new: &[ScopeRelation]) -> Result<()> {
    for relation in new {
        // Two tables of one name from different schemas can still be told apart.
        let are_apart = |other: &ScopeRelation| match (&other.schema, &relation.schema) {
            (Some(other), Some(schema)) => other != schema,
            _ => false,
        };
        if before.iter().any(|other| other.name == relation.name && !are_apart(other)) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{}\" specified more than once", relation.name),
            ));
        }
    }
    Ok(())
}

/// Gives columns the names of an alias's column list.
fn rename(mut columns: Vec<ScopeColumn>, alias: Option<&Alias>, what: &str) -> Result<Vec<ScopeColumn>> {
    let Some(Alias { name, columns: names }) = alias else { return Ok(columns) };
    if names.len() > columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "{what} \"{}\" has {} columns available but {} columns specified",
                name.name,
                columns.len(),
                names.len()
            ),
        ));
    }
    for (column, new) in columns.iter_mut().zip(names) {
        column.name = new.name.to_string();
    }
    Ok(columns)
}

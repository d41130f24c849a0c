//! FROM: relations, joins, and the names that they bring.
//!
//! Columns are numbered through the level in the order of FROM; a stored table takes a number for each of its
//! columns, dropped ones included, and one more for its row key.

use std::sync::Arc;

use sqlparser::ast::{
    FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor,
    TableWithJoins,
};

use super::{BoundQuery, Output, QueryBinder};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        Relation, ResultColumn,
        located::at_name,
        scope::{Clause, Place, Scope, ScopeColumn, ScopeRelation},
        syntax::{function_name, is_keyword_call, name_of, name_parts, relation_name},
    },
    catalog::model::View,
    executor::{
        Expr,
        expr::ExprKind,
        plan::{CteScan, JoinKind, Plan, RowsFrom},
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
        from: &[TableWithJoins],
        level: &'s Scope<'s>,
    ) -> Result<(Option<JoinTree>, Scope<'s>, usize)> {
        self.bind_from_after(from, level, &Scope::empty(), 0)
    }

    /// As [`QueryBinder::bind_from`], after relations whose columns take the numbers below `next`: LATERAL items see them,
    /// and no name may be theirs.
    pub fn bind_from_after<'s>(
        &mut self,
        from: &[TableWithJoins],
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
            let piece = self.table_with_joins(item, &mut cx, &seen)?;
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

    fn table_with_joins(
        &mut self,
        item: &TableWithJoins,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
    ) -> Result<Piece> {
        let mut left = self.table_factor(&item.relation, cx, before, None)?;
        for join in &item.joins {
            let (kind, constraint) = join_kind(&join.join_operator)?;
            // LATERAL on the right of a join that keeps its right rows could find no left row to refer to.
            let seen = matches!(kind, JoinKind::Inner | JoinKind::Left).then_some(&left);
            let right = self.table_factor(&join.relation, cx, before, seen)?;
            left = self.join(left, right, kind, constraint, cx)?;
        }
        Ok(left)
    }

    fn join(
        &mut self,
        left: Piece,
        right: Piece,
        kind: JoinKind,
        constraint: &JoinConstraint,
        cx: &FromCx<'_>,
    ) -> Result<Piece> {
        check_aliases(&left.relations, &right.relations)?;
        let mut condition = Vec::new();
        let using = match constraint {
            JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
            JoinConstraint::Using(names) => names
                .iter()
                .map(|name| Ok(name_parts(name)?.pop().unwrap_or_default()))
                .collect::<Result<Vec<String>>>()?,
            JoinConstraint::Natural => left
                .columns
                .iter()
                .filter(|column| right.columns.iter().any(|other| other.name == column.name))
                .map(|column| column.name.clone())
                .collect(),
        };
        if let (JoinConstraint::Natural, Some(expansions)) = (constraint, &mut self.statement.expansions) {
            expansions.natural(constraint, &using);
        }
        let mut merged = Vec::with_capacity(using.len());
        for name in &using {
            let (a, b) = (using_column(&left, name, "left")?, using_column(&right, name, "right")?);
            condition.push(self.statement.typing.operator("=", vec![a.expr.clone(), b.expr.clone()])?);
            let mut column = if kind == JoinKind::Right { b.clone() } else { a.clone() };
            let ty = self.statement.typing.common_type(&[a.expr.clone(), b.expr.clone()], "JOIN/USING")?;
            if kind == JoinKind::Full {
                let args =
                    self.statement.typing.all_to(vec![a.expr.clone(), b.expr.clone()], ty, "JOIN/USING")?;
                column.expr = Expr::new(ExprKind::Coalesce(args), ty);
                (column.table, column.attribute) = (0, 0);
            } else if column.expr.ty.ty != ty {
                column.expr = self.statement.typing.explicit(column.expr, ty.into())?;
            }
            merged.push(column);
        }
        let rest = |columns: Vec<ScopeColumn>| {
            columns.into_iter().filter(|column| !using.contains(&column.name)).collect::<Vec<_>>()
        };
        let columns = merged.into_iter().chain(rest(left.columns)).chain(rest(right.columns)).collect();
        let relations = left.relations.into_iter().chain(right.relations).collect();
        let mut scope = Scope::within(cx.level);
        (scope.relations, scope.columns) = (relations, columns);
        if let JoinConstraint::On(on) = constraint {
            let on = self.expressions().bind_condition(on, Place::new(&scope, Clause::JoinOn))?;
            on.split_and(&mut condition);
        }
        let tree = JoinTree::Join { kind, left: Box::new(left.tree), right: Box::new(right.tree), condition };
        Ok(Piece { tree, relations: scope.relations, columns: scope.columns })
    }

    fn table_factor(
        &mut self,
        factor: &TableFactor,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<&Piece>,
    ) -> Result<Piece> {
        self.statement.enter_query()?;
        let piece = self.table_factor_inner(factor, cx, before, left)?;
        self.statement.leave_query();
        Ok(piece)
    }

    fn table_factor_inner(
        &mut self,
        factor: &TableFactor,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<&Piece>,
    ) -> Result<Piece> {
        if let TableFactor::Table { with_hints, version, partitions, json_path, index_hints, .. } = factor
            && !(with_hints.is_empty()
                && version.is_none()
                && partitions.is_empty()
                && json_path.is_none()
                && index_hints.is_empty())
        {
            return Err(SqlError::unsupported("a hint or partition of a table in FROM"));
        }
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality, sample: None, .. }
                if is_keyword_call(name) =>
            {
                let name = function_name(name)?;
                let call = self.statement.typing.keyword_function(&name)?;
                let columns = vec![(name.clone(), call.ty)];
                let functions = vec![RowsFrom::Scalar(call)];
                functions_item(functions, columns, Vec::new(), name, alias.as_ref(), *with_ordinality, cx)
            }
            TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } => {
                self.named_relation(name, alias.as_ref(), cx)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let call = (name, &args.args[..]);
                self.function_item(call, alias.as_ref(), *with_ordinality, cx, before, left)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.function_item((name, args), alias.as_ref(), *with_ordinality, cx, before, left)
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                let scope = lateral_scope(cx.level, before, left);
                let inner = Scope::of_query(Place::new(&scope, Clause::From));
                let mut functions = Vec::new();
                let mut columns = Vec::new();
                for array in array_exprs {
                    let arg = self.expressions().bind(array, Place::new(&inner, Clause::From))?;
                    let (function, returned) = self.statement.typing.rows_from("unnest", vec![arg])?;
                    functions.push(function);
                    columns.extend(returned);
                }
                let (params, _) = inner.into_captures();
                let name = "unnest".to_owned();
                functions_item(functions, columns, params, name, alias.as_ref(), *with_ordinality, cx)
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let (plan, columns, params) = if *lateral {
                    let scope = lateral_scope(cx.level, before, left);
                    let inner = Scope::of_query(Place::new(&scope, Clause::FromQuery));
                    let BoundQuery { plan, columns, .. } =
                        self.bind_query(subquery, &inner, Output::Own, None)?;
                    (plan, columns, inner.into_captures().0)
                } else {
                    let inner = Scope::of_query(Place::new(cx.level, Clause::FromQuery));
                    let BoundQuery { plan, columns, .. } =
                        self.bind_query(subquery, &inner, Output::Own, None)?;
                    (plan, columns, inner.into_captures().0)
                };
                let Some(alias) = alias else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .hint("For example, FROM (SELECT ...) [AS] foo."));
                };
                plan_item(plan, &columns, params, name_of(&alias.name), Some(alias), cx)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                // Within parentheses, the items before are seen as LATERAL sees them.
                let scope = lateral_scope(cx.level, before, left);
                let mut piece = self.table_with_joins(table_with_joins, cx, &scope)?;
                if let Some(alias) = alias {
                    let relation = ScopeRelation {
                        schema: None,
                        name: name_of(&alias.name),
                        aliased: None,
                        columns: rename(piece.columns, Some(alias))?,
                        stored: None,
                    };
                    piece.columns = relation.columns.clone();
                    piece.relations = vec![relation];
                }
                Ok(piece)
            }
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    fn named_relation(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
        cx: &mut FromCx<'_>,
    ) -> Result<Piece> {
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
            return plan_item(plan, &cte.columns, Vec::new(), relation, alias, cx);
        }
        let found =
            self.relations.find(schema.as_deref(), &relation).map_err(|error| at_name(error, name))?;
        if let (None, Some(expansions)) = (&schema, &mut self.statement.expansions) {
            expansions.relation(name, found.schema());
        }
        let base = cx.next;
        match found {
            Relation::Table(table) => {
                let alias_name = alias.map(|alias| name_of(&alias.name));
                let mut relation = ScopeRelation::of_table(&table, alias_name.as_deref(), base);
                relation.columns = rename(relation.columns, alias)?;
                let width = table.columns.len() + 1;
                Ok(cx.item(FromKind::Table(table), relation, width, Vec::new()))
            }
            Relation::Virtual(table) => {
                let name = alias.map_or_else(|| relation.clone(), |alias| name_of(&alias.name));
                let columns = table.columns().iter().enumerate().map(|(position, column)| ScopeColumn {
                    name: column.name.to_owned(),
                    expr: Expr::column(base + position, format!("{name}.{}", column.name), column.ty),
                    table: table.oid(),
                    attribute: i16::try_from(position + 1).unwrap_or(0),
                });
                let relation = ScopeRelation {
                    schema: alias.is_none().then(|| table.schema().to_owned()),
                    columns: rename(columns.collect(), alias)?,
                    name,
                    aliased: alias.map(|_| relation),
                    stored: None,
                };
                let width = table.columns().len();
                Ok(cx.item(FromKind::Virtual(table), relation, width, Vec::new()))
            }
            Relation::View(view) => {
                let (plan, columns) = self.view(&view)?;
                let name = alias.map_or_else(|| relation, |alias| name_of(&alias.name));
                let mut piece = plan_item(plan, &columns, Vec::new(), name, alias, cx)?;
                if let (None, [relation]) = (alias, &mut piece.relations[..]) {
                    relation.schema = Some(view.schema.clone());
                }
                Ok(piece)
            }
        }
    }

    /// The plan of a view's query. Its names are not those of the statement around it.
    fn view(&mut self, view: &View) -> Result<(Plan, Vec<ResultColumn>)> {
        let query = self.relations.catalog.view_query(view)?;
        let ctes = std::mem::take(&mut self.relations.ctes);
        let expansions = self.statement.expansions.take();
        let scope = Scope::empty();
        let BoundQuery { plan, mut columns, .. } = self.bind_query(&query, &scope, Output::Own, None)?;
        self.relations.ctes = ctes;
        self.statement.expansions = expansions;
        if columns.len() != view.columns.len() {
            return Err(view.damaged("It has another number of columns than the view."));
        }
        for (position, (column, (name, _))) in columns.iter_mut().zip(&view.columns).enumerate() {
            column.name.clone_from(name);
            (column.table, column.attribute) = (view.oid, i16::try_from(position + 1).unwrap_or(0));
        }
        Ok((plan, columns))
    }

    fn function_item(
        &mut self,
        (name, args): (&ObjectName, &[FunctionArg]),
        alias: Option<&TableAlias>,
        ordinality: bool,
        cx: &mut FromCx<'_>,
        before: &Scope<'_>,
        left: Option<&Piece>,
    ) -> Result<Piece> {
        let scope = lateral_scope(cx.level, before, left);
        let inner = Scope::of_query(Place::new(&scope, Clause::From));
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return Err(SqlError::unsupported(format!("the argument {arg} of a function in FROM")));
            };
            bound.push(self.expressions().bind(arg, Place::new(&inner, Clause::From))?);
        }
        let name = function_name(name)?;
        let (function, columns) = self.statement.typing.rows_from(&name, bound)?;
        let (params, _) = inner.into_captures();
        functions_item(vec![function], columns, params, name, alias, ordinality, cx)
    }
}

fn plan_item(
    plan: Plan,
    columns: &[ResultColumn],
    params: Vec<(usize, Expr)>,
    name: String,
    alias: Option<&TableAlias>,
    cx: &mut FromCx<'_>,
) -> Result<Piece> {
    let name = alias.map_or(name, |alias| name_of(&alias.name));
    let base = cx.next;
    let scope_columns = columns.iter().enumerate().map(|(position, column)| ScopeColumn {
        name: column.name.clone(),
        expr: Expr::column(base + position, format!("{name}.{}", column.name), column.ty),
        table: column.table,
        attribute: column.attribute,
    });
    let relation = ScopeRelation {
        schema: None,
        columns: rename(scope_columns.collect(), alias)?,
        name,
        aliased: None,
        stored: None,
    };
    Ok(cx.item(FromKind::Plan(plan), relation, columns.len(), params))
}

#[allow(clippy::too_many_arguments, reason = "the parts of one FROM item")]
fn functions_item(
    functions: Vec<RowsFrom>,
    mut columns: Vec<(String, ColumnType)>,
    params: Vec<(usize, Expr)>,
    name: String,
    alias: Option<&TableAlias>,
    ordinality: bool,
    cx: &mut FromCx<'_>,
) -> Result<Piece> {
    let name = alias.map_or(name, |alias| name_of(&alias.name));
    // A function of one column gives it the alias's name.
    if let (Some(_), [(column, _)]) = (alias, &mut columns[..]) {
        column.clone_from(&name);
    }
    if ordinality {
        columns.push(("ordinality".to_owned(), Type::Int8.into()));
    }
    let base = cx.next;
    let scope_columns = columns.iter().enumerate().map(|(position, (column, ty))| ScopeColumn {
        name: column.clone(),
        expr: Expr::column(base + position, format!("{name}.{column}"), *ty),
        table: 0,
        attribute: 0,
    });
    let relation = ScopeRelation {
        schema: None,
        columns: rename(scope_columns.collect(), alias)?,
        name,
        aliased: None,
        stored: None,
    };
    Ok(cx.item(FromKind::Functions { functions, ordinality }, relation, columns.len(), params))
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
fn lateral_scope<'s>(level: &'s Scope<'s>, before: &Scope<'_>, left: Option<&Piece>) -> Scope<'s> {
    let mut scope = Scope::within(level);
    scope.relations.clone_from(&before.relations);
    scope.columns.clone_from(&before.columns);
    if let Some(left) = left {
        scope.relations.extend(left.relations.iter().cloned());
        scope.columns.extend(left.columns.iter().cloned());
    }
    scope
}

fn join_kind(operator: &JoinOperator) -> Result<(JoinKind, &JoinConstraint)> {
    Ok(match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinKind::Inner, constraint),
        JoinOperator::CrossJoin(constraint) => (JoinKind::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinKind::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (JoinKind::Right, constraint)
        }
        JoinOperator::FullOuter(constraint) => (JoinKind::Full, constraint),
        _ => return Err(SqlError::unsupported("this kind of join")),
    })
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
        let clash = before.iter().any(|other| other.name == relation.name && other.schema == relation.schema);
        if clash {
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{}\" specified more than once", relation.name),
            ));
        }
    }
    Ok(())
}

/// Gives columns the names of an alias's column list.
fn rename(mut columns: Vec<ScopeColumn>, alias: Option<&TableAlias>) -> Result<Vec<ScopeColumn>> {
    let Some(alias) = alias else { return Ok(columns) };
    if alias.columns.len() > columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "table \"{}\" has {} columns available but {} columns specified",
                name_of(&alias.name),
                columns.len(),
                alias.columns.len()
            ),
        ));
    }
    for (column, new) in columns.iter_mut().zip(&alias.columns) {
        column.name = name_of(&new.name);
    }
    Ok(columns)
}

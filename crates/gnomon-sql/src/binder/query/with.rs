//! WITH: common table expressions, recursive ones too.

use std::{collections::HashSet, sync::Arc};

use gnomon_parser::{
    Position,
    ast::{self, CommonTable, Ident, Query, With},
};

use super::{
    BoundQuery, Output, QueryBinder,
    arm::{arm_column, projected},
    recursion,
    search::Paths,
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        located::column_position,
        relations::{Carried, CteName},
        scope::{Clause, Place, Scope},
        typing::{Typing, type_name},
    },
    executor::{
        Expr,
        plan::{self, Plan},
    },
    types::{ColumnType, cast::CastContext},
};

impl QueryBinder<'_, '_> {
    /// Binds WITH. The names stay in reach until the caller takes them away again.
    pub fn bind_with(&mut self, with: &With, level: &Scope<'_>) -> Result<Vec<plan::Cte>> {
        refuse_duplicates(with)?;
        let order = match with.is_recursive {
            true => recursion::order(with)?,
            false => (0..with.tables.len()).map(|position| (position, false)).collect(),
        };
        // All are well-formed before any is bound.
        let mut parts = Vec::with_capacity(order.len());
        for (position, itself) in order {
            let table = &with.tables[position];
            let query = query_of(table)?;
            parts.push((table, query, if itself { Some(recursion::parts(table)?) } else { None }));
        }
        let mut plans = Vec::with_capacity(parts.len());
        let future = self.relations.future_ctes.len();
        if !with.is_recursive {
            let names = with.tables.iter().rev().map(|table| table.name.name.to_string());
            self.relations.future_ctes.extend(names);
        }
        for (table, query, parts) in parts {
            let name = table.name.name.to_string();
            let inner = Scope::of_query(Place::new(level, Clause::FromQuery));
            let (plan, columns) = match parts {
                Some(parts) => self.recursive_cte(table, &parts, &inner)?,
                None => {
                    let BoundQuery { plan, mut columns, .. } =
                        self.bind_query(query, &inner, Output::Own, None)?;
                    if table.search.is_some() || table.cycle.is_some() {
                        let message = "WITH query is not recursive";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(table.name.position));
                    }
                    rename_columns(&mut columns, &table.columns, &table.name)?;
                    let table = self.statement.numbers.next_table();
                    (plan::Cte { table, name: name.clone(), plan, recursive: None }, columns)
                }
            };
            match table.is_materialized {
                Some(true) => {
                    *self.statement.numbers.cte_references.entry(plan.table).or_default() += 1;
                }
                Some(false) => self
                    .statement
                    .typing
                    .context
                    .environment
                    .tell_no_effect("NOT MATERIALIZED", "a query that is named twice is evaluated once"),
                None => {}
            }
            let changes = inner.is_correlated();
            if !with.is_recursive {
                self.relations.future_ctes.pop();
            }
            self.relations.ctes.push(CteName {
                name,
                table: plan.table,
                columns,
                changes,
                is_itself: false,
                hidden: 0,
            });
            plans.push(plan);
        }
        self.relations.future_ctes.truncate(future);
        Ok(plans)
    }

    fn recursive_cte(
        &mut self,
        cte: &CommonTable,
        parts: &recursion::RecursiveParts<'_>,
        inner: &Scope<'_>,
    ) -> Result<(plan::Cte, Vec<ResultColumn>)> {
        let name = &*cte.name.name;
        let marks = cte.cycle.as_ref().map(|cycle| self.cycle_marks(cycle, inner)).transpose()?;
        let outer_ctes = self.relations.ctes.len();
        let own = parts.with.map(|with| self.bind_with(with, inner)).transpose()?;
        let (plan, mut columns) = match parts.operations {
            [] => self.bind_set_expr(parts.first, inner, Output::Arm)?,
            operations => self.bind_set_operations(parts.first, operations, inner)?,
        };
        let given: Vec<ColumnType> = columns.iter().map(|column| column.ty).collect();
        let plan = self.settled_arm(plan, &mut columns)?;
        rename_columns(&mut columns, &cte.columns, &cte.name)?;
        let mut paths = Paths::of(cte, parts, marks)?;
        let extra = paths.columns();
        let table = self.statement.numbers.next_table();
        self.relations.ctes.push(CteName {
            name: name.to_owned(),
            table,
            columns: columns.iter().chain(&extra).cloned().collect(),
            changes: true,
            is_itself: true,
            hidden: extra.len(),
        });
        let carried = Carried { name: name.to_owned(), table, columns: extra.clone() };
        self.relations.carried = (!extra.is_empty()).then_some(carried);
        let (recursive, mut others) = self.bind_set_expr(parts.second, inner, Output::Arm)?;
        self.relations.ctes.truncate(outer_ctes);
        others.truncate(others.len().saturating_sub(extra.len()));
        if others.len() != columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "each UNION query must have the same number of columns",
            )
            .at(column_position(parts.second, 0)));
        }
        let mut casts = Vec::with_capacity(columns.len());
        for (position, (column, other)) in columns.iter().zip(&others).enumerate() {
            let first = Expr::column(position, column.name.clone(), given[position]);
            let second = arm_column(&recursive, position, other.ty);
            let places = [parts.first, parts.second].map(|term| column_position(term, position));
            let typing = &mut self.statement.typing;
            casts.push(recursive_column(typing, (name, position), column.ty, [first, second], places)?);
        }
        let carried = extra.iter().zip(columns.len()..);
        casts.extend(carried.map(|(column, at)| Expr::column(at, column.name.clone(), column.ty)));
        let recursive = Plan::Project(Arc::new(plan::Project { input: recursive, columns: casts }));
        paths.find(&columns)?;
        let plan = self.first_paths(&paths, &columns, plan)?;
        let recursive = self.next_paths(&paths, &columns, recursive)?;
        columns.extend(extra);
        // Both terms see the tables of the query's own WITH; one is at its end before the other begins.
        let (plan, recursive) = match own {
            None => (plan, recursive),
            Some(tables) => {
                let tables: Arc<[plan::Cte]> = tables.into();
                let with = |body| Plan::With(Arc::new(plan::With { tables: tables.clone(), body }));
                (with(plan), with(recursive))
            }
        };
        let recursive = Some((recursive, !parts.is_all));
        Ok((plan::Cte { table, name: name.to_owned(), plan, recursive }, columns))
    }
}

impl QueryBinder<'_, '_> {
    /// A plan whose columns have types: text, if nothing else tells.
    fn settled_arm(&mut self, plan: Plan, columns: &mut [ResultColumn]) -> Result<Plan> {
        let mut settled = Vec::with_capacity(columns.len());
        for (position, column) in columns.iter_mut().enumerate() {
            let expr = self.statement.typing.known(arm_column(&plan, position, column.ty))?;
            column.ty = expr.ty;
            settled.push(expr);
        }
        Ok(projected(plan, settled))
    }
}

/// A column of the second term as the type `ty` that the first one gives it, which must be that of both. A literal of
/// either has no type of its own.
fn recursive_column(
    typing: &mut Typing<'_>,
    (name, position): (&str, usize),
    ty: ColumnType,
    [first, second]: [Expr; 2],
    [first_place, second_place]: [Position; 2],
) -> Result<Expr> {
    let from = second.ty;
    let pair = [first, second];
    let common = typing.common_type(&pair, "UNION").map_err(|error| error.at(second_place))?;
    let [_, second] = pair;
    let modifier = if ty == from { ty.modifier } else { -1 };
    let overall = ColumnType { ty: common, modifier };
    if overall != ty {
        let of = |ty: ColumnType| crate::types::format_type(ty.ty, Some(ty.modifier));
        let (given, overall) = (of(ty), of(overall));
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "recursive query \"{name}\" column {} has type {given} in non-recursive term but type {overall} overall",
                position + 1,
            ),
        )
        .hint("Cast the output of the non-recursive term to the correct type.")
        .at(first_place));
    }
    let converted = typing.coerce(second, ty, CastContext::Implicit);
    converted.map_err(|error| error.at(second_place))?.ok_or_else(|| {
        let message =
            format!("UNION types {} and {} cannot be matched", type_name(ty.ty), type_name(from.ty));
        SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(second_place)
    })
}

/// The query of a table of WITH.
///
/// # Errors
/// 0A000 if it is a change, or has a clause that is not supported.
pub(super) fn query_of(table: &CommonTable) -> Result<&Query> {
    match &*table.statement {
        ast::Statement::Query(query) => Ok(query),
        _ => Err(SqlError::unsupported("a data-modifying statement in WITH").at(table.name.position)),
    }
}

fn refuse_duplicates(with: &With) -> Result<()> {
    let mut names = HashSet::new();
    for Ident { name, position } in with.tables.iter().map(|table| &table.name) {
        if !names.insert(name) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message).at(*position));
        }
    }
    Ok(())
}

fn rename_columns(columns: &mut [ResultColumn], names: &[Ident], table: &Ident) -> Result<()> {
    if names.len() > columns.len() {
        let message = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            table.name,
            columns.len(),
            names.len()
        );
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(table.position));
    }
    for (column, new) in columns.iter_mut().zip(names) {
        column.name = new.name.to_string();
    }
    Ok(())
}

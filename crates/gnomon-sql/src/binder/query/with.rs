//! WITH: common table expressions, recursive ones too.

use std::{collections::HashSet, sync::Arc};

use sqlparser::ast::{self, Cte, TableAlias};

use super::{BoundQuery, Output, QueryBinder, recursion};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        relations::CteName,
        scope::{Clause, Place, Scope},
        syntax::name_of,
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
    pub fn bind_with(&mut self, with: &ast::With, level: &Scope<'_>) -> Result<Vec<plan::Cte>> {
        let mut names = HashSet::new();
        for cte in &with.cte_tables {
            let name = name_of(&cte.alias.name);
            if names.contains(&name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                let error = SqlError::new(SqlState::DUPLICATE_ALIAS, message);
                return Err(error.at(cte.alias.name.span));
            }
            names.insert(name);
        }
        let order = match with.recursive {
            true => recursion::order(with)?,
            false => (0..with.cte_tables.len()).map(|position| (position, false)).collect(),
        };
        // All are well-formed before any is bound.
        let mut parts = Vec::with_capacity(order.len());
        for (position, itself) in order {
            let cte = &with.cte_tables[position];
            parts.push((cte, if itself { Some(recursion::parts(cte)?) } else { None }));
        }
        let mut plans = Vec::with_capacity(parts.len());
        let future = self.relations.future_ctes.len();
        if !with.recursive {
            self.relations
                .future_ctes
                .extend(with.cte_tables.iter().rev().map(|cte| name_of(&cte.alias.name)));
        }
        for (cte, parts) in parts {
            let name = name_of(&cte.alias.name);
            let inner = Scope::of_query(Place::new(level, Clause::FromQuery));
            let (plan, columns) = match parts {
                Some(parts) => self.recursive_cte(cte, &name, &parts, &inner)?,
                None => {
                    let BoundQuery { plan, mut columns, .. } =
                        self.bind_query(&cte.query, &inner, Output::Own, None)?;
                    rename_columns(&mut columns, &cte.alias, &name)?;
                    let table = self.statement.numbers.next_table();
                    (plan::Cte { table, name: name.clone(), plan, recursive: None }, columns)
                }
            };
            match cte.materialized {
                Some(ast::CteAsMaterialized::Materialized) => {
                    *self.statement.numbers.cte_references.entry(plan.table).or_default() += 1;
                }
                Some(ast::CteAsMaterialized::NotMaterialized) => self
                    .statement
                    .typing
                    .context
                    .environment
                    .tell_no_effect("NOT MATERIALIZED", "a query that is named twice is evaluated once"),
                None => {}
            }
            let changes = inner.is_correlated();
            if !with.recursive {
                self.relations.future_ctes.pop();
            }
            self.relations.ctes.push(CteName { name, table: plan.table, columns, changes, is_itself: false });
            plans.push(plan);
        }
        self.relations.future_ctes.truncate(future);
        Ok(plans)
    }

    fn recursive_cte(
        &mut self,
        cte: &Cte,
        name: &str,
        parts: &recursion::RecursiveParts<'_>,
        inner: &Scope<'_>,
    ) -> Result<(plan::Cte, Vec<ResultColumn>)> {
        let outer_ctes = self.relations.ctes.len();
        let own = parts.with.map(|with| self.bind_with(with, inner)).transpose()?;
        let (plan, mut columns) = self.bind_set_expr(parts.first, inner, Output::Own)?;
        rename_columns(&mut columns, &cte.alias, name)?;
        let table = self.statement.numbers.next_table();
        self.relations.ctes.push(CteName {
            name: name.to_owned(),
            table,
            columns: columns.clone(),
            changes: true,
            is_itself: true,
        });
        let (recursive, others) = self.bind_set_expr(parts.second, inner, Output::Own)?;
        self.relations.ctes.truncate(outer_ctes);
        if others.len() != columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "each UNION query must have the same number of columns",
            ));
        }
        let mut casts = Vec::with_capacity(columns.len());
        for (position, (column, other)) in columns.iter().zip(&others).enumerate() {
            casts.push(recursive_column(&mut self.statement.typing, name, position, column, other)?);
        }
        let recursive = Plan::Project(Arc::new(plan::Project { input: recursive, columns: casts }));
        // Both terms see the tables of the query's own WITH; one is at its end before the other begins.
        let (plan, recursive) = match own {
            None => (plan, recursive),
            Some(tables) => {
                let tables: Arc<[plan::Cte]> = tables.into();
                let with = |body| Plan::With(Arc::new(plan::With { tables: tables.clone(), body }));
                (with(plan), with(recursive))
            }
        };
        let recursive = Some((recursive, !parts.all));
        Ok((plan::Cte { table, name: name.to_owned(), plan, recursive }, columns))
    }
}

/// A column of a recursive term as the type that the column has in the first one, which must be that of both.
fn recursive_column(
    typing: &mut Typing<'_>,
    name: &str,
    position: usize,
    column: &ResultColumn,
    other: &ResultColumn,
) -> Result<Expr> {
    let first = Expr::column(position, column.name.clone(), column.ty);
    let second = Expr::column(position, other.name.clone(), other.ty);
    let common = typing.common_type(&[first, second.clone()], "UNION")?;
    let modifier = if column.ty == other.ty { column.ty.modifier } else { -1 };
    let overall = ColumnType { ty: common, modifier };
    if overall != column.ty {
        let of = |ty: ColumnType| crate::types::format_type(ty.ty, Some(ty.modifier));
        let (given, overall) = (of(column.ty), of(overall));
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "recursive query \"{name}\" column {} has type {given} in non-recursive term but type {overall} overall",
                position + 1,
            ),
        )
        .hint("Cast the output of the non-recursive term to the correct type."));
    }
    let from = second.ty.ty;
    typing.coerce(second, column.ty, CastContext::Implicit)?.ok_or_else(|| {
        let message =
            format!("UNION types {} and {} cannot be matched", type_name(column.ty.ty), type_name(from));
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
    })
}

fn rename_columns(columns: &mut [ResultColumn], alias: &TableAlias, name: &str) -> Result<()> {
    if alias.columns.len() > columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                alias.columns.len()
            ),
        ));
    }
    for (column, new) in columns.iter_mut().zip(&alias.columns) {
        column.name = name_of(&new.name);
    }
    Ok(())
}

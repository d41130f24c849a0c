//! ALTER COLUMN of ALTER TABLE.

use std::sync::Arc;

use gnomon_parser::{
    Position,
    ast::{AlterColumn, ColumnReference, Expr, Ident, TypeName},
};

use super::{
    Ddl, clauses,
    column::bind_default,
    dependents::views_of_column,
    identity::{add_identity, drop_identity, set_identity, set_identity_type},
    partition::refuse_key_column,
    refuse_null,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Table,
    dml::bind_check,
    query::{Binder, ExecContext, Scope},
    syntax::parse_expression,
    types::{Row, column_type, format_type},
};

/// Carries out an action of ALTER COLUMN.
pub(super) fn alter_column(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    action: &AlterColumn,
) -> Result<()> {
    let mut changed = (**table).clone();
    let column = table.columns[position].clone();
    let is_identity = || {
        SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name),
        )
    };
    match action {
        AlterColumn::SetNotNull => {
            changed.columns[position].not_null = true;
            let shape = changed.clone();
            ddl.check_rows(table, |_, row| refuse_null(&shape, row))?;
        }
        AlterColumn::DropNotNull => {
            if table.primary_key.as_ref().is_some_and(|primary| primary.columns.contains(&position)) {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{}\" is in a primary key", column.name),
                ));
            }
            if column.identity.is_some() {
                return Err(is_identity());
            }
            changed.columns[position].not_null = false;
        }
        AlterColumn::SetDefault(value) => {
            if column.identity.is_some() {
                return Err(is_identity());
            }
            // As in PostgreSQL, where its errors have no place.
            changed.columns[position].default =
                bind_default(ddl, &column, value).map_err(SqlError::unplaced)?;
        }
        AlterColumn::DropDefault => {
            if column.identity.is_some() {
                let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
                return Err(is_identity().hint(hint));
            }
            changed.columns[position].default = None;
        }
        AlterColumn::Type { ty, collation, using } => {
            refuse_key_column(table, position, "alter")?;
            let collation = clauses::column_collation(collation.as_ref(), column_type(ty)?.ty)?;
            return alter_type(ddl, table, position, (ty, collation), using.as_ref());
        }
        AlterColumn::AddIdentity { is_always, options } => {
            add_identity(ddl, &mut changed, position, *is_always, options)?;
        }
        AlterColumn::SetIdentity { is_always, options } => {
            set_identity(ddl, &mut changed, position, *is_always, options)?;
        }
        AlterColumn::DropIdentity { if_exists } => drop_identity(ddl, &mut changed, position, *if_exists)?,
        _ => return Err(SqlError::unsupported("this action of ALTER COLUMN")),
    }
    ddl.change(|catalog| catalog.put_table(changed)).map(drop)
}

/// SET DATA TYPE.
fn alter_type(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    (type_name, collation): (&TypeName, u32),
    using: Option<&Expr>,
) -> Result<()> {
    let column = table.columns[position].clone();
    refuse_retyping(ddl, table, position)?;
    let ty = column_type(type_name)?;
    if let Some(identity) = column.identity {
        set_identity_type(ddl, identity, ty)?;
    }
    let name = Expr::Column(ColumnReference {
        fields: vec![Ident::new(&column.name)],
        has_star: false,
        position: Position::NONE,
    });
    let source = using.unwrap_or(&name);
    let scope = Scope::of_table(table, None);
    let bound = ddl.session.with_types(|types, view| {
        Binder::new(view, types, &[]).assign(source, &scope, &column.name, ty).map_err(|error| {
            if error.state() != SqlState::DATATYPE_MISMATCH {
                return error;
            }
            let fails = format!(
                "column \"{}\" cannot be cast automatically to type {}",
                column.name,
                format_type(ty.ty, None)
            );
            match using {
                Some(_) => {
                    SqlError::new(SqlState::DATATYPE_MISMATCH, format!("result of USING clause for {fails}"))
                        .hint("You might need to add an explicit cast.")
                }
                None => SqlError::new(SqlState::DATATYPE_MISMATCH, fails)
                    .hint(format!("You might need to specify \"USING {}::{type_name}\".", column.name)),
            }
        })
    })?;
    let mut changed = (**table).clone();
    changed.columns[position].ty = ty;
    changed.columns[position].collation = collation;
    if let Some(default) = &column.default {
        // It must fit the new type as well.
        changed.columns[position].default =
            bind_default(ddl, &changed.columns[position], &parse_expression(default)?)?;
    }
    let shape = Arc::new(changed.clone());
    for check in &changed.checks {
        ddl.session
            .with_types(|types, view| bind_check(&mut Binder::new(view, types, &[]), &shape, check))?;
    }
    let mut convert = |ctx: &mut ExecContext<'_>, row: &mut Row| {
        let value = bound.eval(row, ctx)?;
        if let Some(place) = row.get_mut(position) {
            *place = value;
        }
        Ok(())
    };
    ddl.rewrite(table, changed, Some(&mut convert)).map(drop)
}

/// Views keep the types of their columns.
fn refuse_retyping(ddl: &mut Ddl<'_>, table: &Arc<Table>, position: usize) -> Result<()> {
    let Some(view) = views_of_column(ddl, table, position)?.into_iter().next() else { return Ok(()) };
    let (view, column) = (view.describe(ddl)?, &table.columns[position].name);
    let message = "cannot alter type of a column used by a view or rule";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(format!("rule _RETURN on {view} depends on column \"{column}\"")))
}

//! ALTER COLUMN of ALTER TABLE.

use std::sync::Arc;

use gnomon_parser::{
    Position,
    ast::{AlterColumn, ColumnReference, Expr, Ident, TypeName},
};

use super::{
    Ddl, clauses,
    column::bind_default,
    column_of,
    dependents::views_of_column,
    identity::{add_identity, drop_identity, set_identity, set_identity_type},
    partition::refuse_key_column,
    refuse_null,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{model::Table, row_address::is_system_column},
    dml::bind_check,
    executor::Expr as BoundExpr,
    query::{Binder, ExecContext, Scope},
    syntax::parse_expression,
    types::{ColumnType, Datum, Row, column_type, format_type},
};

/// Carries out an action of ALTER COLUMN other than SET DATA TYPE.
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

/// Returns the error for ALTER COLUMN of a system column.
pub(super) fn of_system_column(name: &Ident) -> SqlError {
    let message = format!("cannot alter system column \"{}\"", name.name);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// A column that gets another type, by SET DATA TYPE.
struct Retyped {
    position: usize,
    ty: ColumnType,
    collation: u32,
    /// The new value, from the row as it was before the statement.
    value: BoundExpr,
}

/// Carries out every SET DATA TYPE of a statement at once, since each USING reads the rows as they were before.
/// `before` is the table before the statement, `table` that without what the statement drops.
pub(super) fn alter_types(
    ddl: &mut Ddl<'_>,
    before: &Arc<Table>,
    table: &Arc<Table>,
    actions: &[(&Ident, &AlterColumn)],
) -> Result<()> {
    let mut retyped: Vec<Retyped> = Vec::with_capacity(actions.len());
    for (name, action) in actions {
        let AlterColumn::Type { ty, collation, using } = action else { continue };
        if is_system_column(&name.name) {
            return Err(of_system_column(name));
        }
        let position = column_of(table, name)?;
        let is_same = |other: &Retyped| other.position == position;
        if retyped.iter().any(|other| is_same(other) && other.ty != table.columns[position].ty) {
            let message = format!("cannot alter type of column \"{}\" twice", name.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        refuse_key_column(table, position, "alter")?;
        refuse_retyping(ddl, table, position)?;
        let collation = clauses::column_collation(collation.as_ref(), column_type(ty)?.ty)?;
        let value = bind_new_value(ddl, before, position, ty, using.as_ref())?;
        retyped.retain(|other| !is_same(other));
        retyped.push(Retyped { position, ty: column_type(ty)?, collation, value });
    }
    let mut changed = (**table).clone();
    for Retyped { position, ty, collation, .. } in &retyped {
        if let Some(identity) = table.columns[*position].identity {
            set_identity_type(ddl, identity, *ty)?;
        }
        let column = &mut changed.columns[*position];
        (column.ty, column.collation) = (*ty, *collation);
        if let Some(default) = column.default.clone() {
            // It must fit the new type as well.
            column.default = bind_default(ddl, column, &parse_expression(&default)?)?;
        }
    }
    let shape = Arc::new(changed.clone());
    for check in &changed.checks {
        ddl.session
            .with_types(|types, view| bind_check(&mut Binder::new(view, types, &[]), &shape, check))?;
    }
    let mut convert = |ctx: &mut ExecContext<'_>, row: &mut Row| {
        let values: Vec<Datum> =
            retyped.iter().map(|column| column.value.eval(row, ctx)).collect::<Result<_>>()?;
        for (column, value) in retyped.iter().zip(values) {
            if let Some(place) = row.get_mut(column.position) {
                *place = value;
            }
        }
        Ok(())
    };
    ddl.rewrite(table, changed, Some(&mut convert)).map(drop)
}

/// Binds the value that a column of another type has for a row of the table; without USING it is converted.
fn bind_new_value(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    type_name: &TypeName,
    using: Option<&Expr>,
) -> Result<BoundExpr> {
    let (column, ty) = (&table.columns[position], column_type(type_name)?);
    let name = Expr::Column(ColumnReference {
        fields: vec![Ident::new(&column.name)],
        has_star: false,
        position: Position::NONE,
    });
    let source = using.unwrap_or(&name);
    let scope = Scope::of_table(table, None);
    ddl.session.with_types(|types, view| {
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
    })
}

/// Views keep the types of their columns.
fn refuse_retyping(ddl: &mut Ddl<'_>, table: &Arc<Table>, position: usize) -> Result<()> {
    let Some(view) = views_of_column(ddl, table, position)?.into_iter().next() else { return Ok(()) };
    let (view, column) = (view.describe(ddl)?, &table.columns[position].name);
    let message = "cannot alter type of a column used by a view or rule";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(format!("rule _RETURN on {view} depends on column \"{column}\"")))
}

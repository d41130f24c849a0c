//! ALTER COLUMN of ALTER TABLE.

use std::sync::Arc;

use gnomon_parser::{
    Position,
    ast::{AlterColumn, ColumnReference, Expr, Ident, SequenceOption, TypeName},
};

use super::{
    Ddl, clauses,
    column::{bind_default, sequence_name},
    partition::{refuse_key_column, with_partitions},
    refuse_null,
    sequence::SequenceSpec,
    view::views_using,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Identity, Table},
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
    let is_identity = |what: &str| {
        SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("column \"{}\" of relation \"{}\" is {what} identity column", column.name, table.name),
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
                return Err(is_identity("an"));
            }
            changed.columns[position].not_null = false;
        }
        AlterColumn::SetDefault(value) => {
            if column.identity.is_some() {
                return Err(is_identity("an"));
            }
            changed.columns[position].default = bind_default(ddl, &column, value)?;
        }
        AlterColumn::DropDefault => {
            if column.identity.is_some() {
                return Err(is_identity("an"));
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
        _ => return Err(SqlError::unsupported("this action of ALTER COLUMN")),
    }
    ddl.change(|catalog| catalog.put_table(changed)).map(drop)
}

/// ADD GENERATED ... AS IDENTITY.
fn add_identity(
    ddl: &mut Ddl<'_>,
    table: &mut Table,
    position: usize,
    always: bool,
    options: &[SequenceOption],
) -> Result<()> {
    let column = table.columns[position].clone();
    let refused = |what: &str| {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("column \"{}\" of relation \"{}\" {what}", column.name, table.name),
        )
    };
    if column.identity.is_some() || column.default.is_some() {
        return Err(refused("already has a default value or identity"));
    }
    if !column.not_null {
        return Err(refused("must be declared NOT NULL before identity can be added"));
    }
    clauses::sequence_cache(options, ddl.notices);
    let spec = SequenceSpec::of_identity(column.ty, options)?;
    let name = sequence_name(ddl, table, &column.name, &spec)?;
    let oid = ddl.session.shared.new_oid()?;
    let sequence = spec.build(oid, &table.schema, &name, Some((table.oid, position)))?;
    table.columns[position].identity = Some(Identity { always, sequence: oid });
    ddl.change(|catalog| catalog.put_sequence(sequence)).map(drop)
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
    refuse_retyping(ddl, table, &column.name)?;
    let ty = column_type(type_name)?;
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
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" cannot be cast automatically to type {}",
                    column.name,
                    format_type(ty.ty, None)
                ),
            )
            .hint(format!("You might need to specify \"USING {}::{type_name}\".", column.name))
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
fn refuse_retyping(ddl: &Ddl<'_>, table: &Arc<Table>, column: &str) -> Result<()> {
    for relation in with_partitions(ddl, table) {
        if let Some(view) = views_using(ddl, relation.oid, Some(column))?.first() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a view or rule",
            )
            .detail(format!("view {} depends on column \"{column}\"", view.name)));
        }
    }
    Ok(())
}

//! ALTER TABLE.

use std::{ops::ControlFlow, sync::Arc};

use gnomon_engine::TreeLock;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTable, AlterTableOperation, DropBehavior, RenameTableNameKind,
    visit_expressions, visit_expressions_mut,
};

use super::{
    Ddl, choose_name, clauses,
    column::{
        ColumnSpec, ConstraintSpec, add_column, add_constraint, bind_default, column_spec, constraint_spec,
        has_constraint, parser_option,
    },
    column_of,
    drop::{
        drop_dependent_views, drop_views_that_fail, owned_sequences, refuse_renaming, remove_index,
        rename_relation, rename_table,
    },
    index::build_index,
    partition::{refuse_key_column, refuse_partition, with_partitions},
    refuse_null, refuse_taken,
    sequence::SequenceSpec,
    skip_missing,
    storage::TableParameters,
    view::views_using,
    violated,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Constraint, Identity, Index, Oid, Table},
    dml::{bind_check, default_of, missing_column},
    query::{Binder, Scope},
    session::parse::{expression_text, fold, parse_expression},
    sink::{Tag, tag},
    types::{Datum, column_type},
};

fn cascades(behaviour: Option<DropBehavior>) -> bool {
    behaviour == Some(DropBehavior::Cascade)
}

/// True if a stored expression names a column.
fn names_column(text: &str, column: &str) -> Result<bool> {
    let expr = parse_expression(text)?;
    Ok(visit_expressions(&expr, |expr| {
        let ident = match expr {
            ast::Expr::Identifier(ident) => Some(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        match ident {
            Some(ident) if fold(ident) == column => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })
    .is_break())
}

/// A stored expression with a column renamed.
fn rename_in(text: &str, from: &str, to: &str) -> Result<String> {
    let mut expr = parse_expression(text)?;
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |expr| {
        let ident = match expr {
            ast::Expr::Identifier(ident) => Some(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(ident) = ident
            && fold(ident) == from
        {
            *ident = ast::Ident::with_quote('"', to);
        }
        ControlFlow::Continue(())
    });
    expression_text(&expr)
}

pub(super) fn alter_table(ddl: &mut Ddl<'_>, alter: &AlterTable) -> Result<Tag> {
    clauses::alter_table(alter)?;
    ddl.begin("ALTER TABLE")?;
    let name = ddl.session.name(&alter.name)?;
    let view = ddl.session.view();
    if let [AlterTableOperation::RenameTable { table_name }] = &alter.operations[..] {
        let (RenameTableNameKind::To(to) | RenameTableNameKind::As(to)) = table_name;
        let to = ddl.session.name(to)?.name;
        return rename_relation(ddl, "table", &alter.name, alter.if_exists, &to);
    }
    if view.find(&name).is_none() {
        skip_missing(&name, "relation", alter.if_exists, ddl.notices)?;
        return tag("ALTER TABLE");
    }
    let table = view.table(&name)?;
    refuse_partition(&table, "ALTER TABLE")?;
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    for operation in &alter.operations {
        // Each operation works on what the ones before it made of the table.
        let table = match ddl.session.catalog().table_by_oid(table.oid) {
            Some(table) => table.clone(),
            None => return Err(name.missing("relation")),
        };
        alter_by(ddl, &table, operation)?;
    }
    tag("ALTER TABLE")
}

fn put(ddl: &mut Ddl<'_>, table: Table) -> Result<()> {
    ddl.change(|catalog| catalog.put_table(table)).map(drop)
}

fn alter_by(ddl: &mut Ddl<'_>, table: &Arc<Table>, operation: &AlterTableOperation) -> Result<()> {
    match operation {
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            if *not_valid {
                return Err(SqlError::unsupported("a constraint that is NOT VALID"));
            }
            alter_add_constraint(ddl, table, &constraint_spec(constraint)?)
        }
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position, .. } => {
            if column_position.is_some() {
                return Err(SqlError::unsupported("a position of a new column"));
            }
            let spec = column_spec(&table.name, column_def)?;
            if *if_not_exists && table.column(&spec.column.name).is_some() {
                ddl.notices.push(Notice::note(
                    SqlState::DUPLICATE_COLUMN,
                    format!(
                        "column \"{}\" of relation \"{}\" already exists, skipping",
                        spec.column.name, table.name
                    ),
                ));
                return Ok(());
            }
            alter_add_column(ddl, table, &spec)
        }
        AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let mut current = table.clone();
            for column in column_names {
                let name = fold(column);
                match current.column(&name) {
                    Some(position) => {
                        current = alter_drop_column(ddl, &current, position, cascades(*drop_behavior))?;
                    }
                    None if *if_exists => ddl.notices.push(Notice::note(
                        SqlState::UNDEFINED_COLUMN,
                        format!("column \"{name}\" of relation \"{}\" does not exist, skipping", table.name),
                    )),
                    None => return Err(missing_column(&current, &name)),
                }
            }
            Ok(())
        }
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let cascade = matches!(drop_behavior, Some(ast::DropBehavior::Cascade));
            alter_drop_constraint(ddl, table, &fold(name), (*if_exists, cascade))
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            alter_rename_column(ddl, table, old_column_name, &fold(new_column_name))
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            alter_rename_constraint(ddl, table, &fold(old_name), &fold(new_name))
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let position = column_of(table, column_name)?;
            alter_column(ddl, table, position, op)
        }
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::To(to) | RenameTableNameKind::As(to)) = table_name;
            let to = ddl.session.name(to)?.name;
            rename_table(ddl, table, &to)
        }
        AlterTableOperation::SetOptionsParens { options } => {
            let given = TableParameters::read(options, ddl.notices)?;
            let page_size = given.page_size.or(table.page_size);
            let is_replicated = given.replicated.unwrap_or(table.is_replicated);
            if given.partitions.is_some() || is_replicated && table.partitioning.is_some() {
                return Err(SqlError::unsupported("changing how a table is partitioned"));
            }
            if (page_size, is_replicated) == (table.page_size, table.is_replicated) {
                return Ok(());
            }
            let changed = Table { page_size, is_replicated, ..(**table).clone() };
            ddl.rewrite(table, changed, None).map(drop)
        }
        AlterTableOperation::OwnerTo { new_owner } => {
            clauses::owner(new_owner, ddl.session.settings.user(), ddl.notices);
            Ok(())
        }
        AlterTableOperation::ReplicaIdentity { .. } => {
            ddl.notices.push(Notice::no_effect("REPLICA IDENTITY", "there is no logical replication"));
            Ok(())
        }
        // Every constraint is.
        AlterTableOperation::ValidateConstraint { name } => {
            let name = fold(name);
            match has_constraint(table, &name) {
                true => Ok(()),
                false => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
                )),
            }
        }
        other => Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
    }
}

fn alter_add_constraint(ddl: &mut Ddl<'_>, table: &Arc<Table>, spec: &ConstraintSpec) -> Result<()> {
    let mut changed = (**table).clone();
    add_constraint(ddl, &mut changed, spec)?;
    match spec {
        ConstraintSpec::Key { primary: true, .. } => {
            // Rows move from their numbers to their keys.
            ddl.rewrite(table, changed, None).map(drop)
        }
        ConstraintSpec::Key { .. } => match changed.indexes.pop() {
            Some(index) => build_index(ddl, table, index).map(drop),
            None => Ok(()),
        },
        ConstraintSpec::Check { .. } => {
            let Some(check) = changed.checks.last().cloned() else { return Ok(()) };
            let bound = ddl
                .session
                .with_types(|types, view| bind_check(&mut Binder::new(view, types, &[]), table, &check))?;
            ddl.check_rows(table, |ctx, row| match bound.condition.eval(row, ctx)? {
                Datum::Bool(false) => Err(violated(table, &bound)),
                _ => Ok(()),
            })?;
            put(ddl, changed)
        }
    }
}

fn alter_add_column(ddl: &mut Ddl<'_>, table: &Arc<Table>, spec: &ColumnSpec) -> Result<()> {
    let mut changed = (**table).clone();
    let position = add_column(ddl, &mut changed, spec)?;
    let column = changed.columns[position].clone();
    let default = default_of(&column)?;
    if default.is_some() || column.not_null {
        // Every row gets the value that DEFAULT has for it.
        let bound = match &default {
            None => None,
            Some(default) => Some(ddl.session.with_types(|types, view| {
                Binder::new(view, types, &[]).assign(default, &Scope::empty(), &column.name, column.ty)
            })?),
        };
        let mut fill = |ctx: &mut crate::query::ExecContext<'_>, row: &mut crate::types::Row| {
            if let (Some(bound), Some(value)) = (&bound, row.get_mut(position)) {
                *value = bound.eval(&[], ctx)?;
            }
            Ok(())
        };
        ddl.rewrite(table, changed, Some(&mut fill))?;
    } else {
        put(ddl, changed)?;
    }
    for constraint in &spec.constraints {
        let Some(table) = ddl.session.catalog().table_by_oid(table.oid).cloned() else { continue };
        alter_add_constraint(ddl, &table, constraint)?;
    }
    Ok(())
}

fn alter_drop_column(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    cascade: bool,
) -> Result<Arc<Table>> {
    let name = table.columns[position].name.clone();
    refuse_key_column(table, position, "drop")?;
    for relation in with_partitions(ddl, table) {
        let what = format!("column {name} of table {}", relation.name);
        drop_dependent_views(ddl, relation.oid, &what, Some(&name), cascade)?;
    }
    let mut changed = (**table).clone();
    let uses = |index: &Index| index.columns.contains(&position);
    for index in table.indexes.iter().filter(|index| uses(index)) {
        ddl.drop_index_trees(table, index)?;
    }
    changed.indexes.retain(|index| !uses(index));
    let mut checks = Vec::new();
    for check in std::mem::take(&mut changed.checks) {
        if !names_column(&check.expression, &name)? {
            checks.push(check);
        }
    }
    changed.checks = checks;
    let column = &mut changed.columns[position];
    column.name = format!("........dropped.{}........", position + 1);
    column.dropped = true;
    column.not_null = false;
    column.default = None;
    column.identity = None;
    let owned: Vec<Oid> = owned_sequences(ddl, table.oid)
        .iter()
        .filter(|sequence| sequence.owner == Some((table.oid, position)))
        .map(|sequence| sequence.oid)
        .collect();
    owned.iter().try_for_each(|sequence| ddl.lock_sequence(*sequence, TreeLock::Exclusive))?;
    let oid = table.oid;
    ddl.change(|catalog| {
        for sequence in owned {
            catalog.remove_sequence(sequence);
        }
        if let Ok(column) = u32::try_from(position + 1) {
            catalog.put_comment((oid, column), None);
        }
    })?;
    if changed.primary_key.as_ref().is_some_and(uses) {
        // Rows keep their place only by number now.
        changed.primary_key = None;
        return ddl.rewrite(table, changed, None);
    }
    ddl.change(|catalog| catalog.put_table(changed))
}

fn alter_drop_constraint(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    name: &str,
    (if_exists, cascade): (bool, bool),
) -> Result<()> {
    let mut changed = (**table).clone();
    match table.constraint(name) {
        Some(Constraint::Check(_)) => {
            changed.checks.retain(|check| check.name != name);
            put(ddl, changed)
        }
        Some(Constraint::PrimaryKey(_)) => {
            changed.primary_key = None;
            ddl.rewrite(table, changed, None)?;
            let what = format!("constraint {name} on table {}", table.name);
            drop_views_that_fail(ddl, table.oid, &what, cascade)
        }
        Some(Constraint::Unique(index)) => remove_index(ddl, table, index.oid).map(drop),
        Some(Constraint::NotNull(_)) | None => {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            if if_exists {
                ddl.notices.push(Notice::note(SqlState::UNDEFINED_OBJECT, format!("{message}, skipping")));
                return Ok(());
            }
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

fn alter_rename_column(ddl: &mut Ddl<'_>, table: &Arc<Table>, from: &ast::Ident, to: &str) -> Result<()> {
    let position = column_of(table, from)?;
    let from = fold(from);
    if table.column(to).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{to}\" of relation \"{}\" already exists", table.name),
        ));
    }
    for relation in with_partitions(ddl, table) {
        refuse_renaming(ddl, relation.oid, &format!("column {from} of table {}", relation.name))?;
    }
    let mut changed = (**table).clone();
    changed.columns[position].name = to.to_owned();
    for check in &mut changed.checks {
        check.expression = rename_in(&check.expression, &from, to)?;
    }
    put(ddl, changed)
}

fn alter_rename_constraint(ddl: &mut Ddl<'_>, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
    if has_constraint(table, to) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{to}\" for relation \"{}\" already exists", table.name),
        ));
    }
    let mut changed = (**table).clone();
    match table.constraint(from) {
        Some(Constraint::Check(_)) => {
            changed
                .checks
                .iter_mut()
                .filter(|check| check.name == from)
                .for_each(|check| to.clone_into(&mut check.name));
        }
        Some(Constraint::PrimaryKey(_) | Constraint::Unique(_)) => {
            refuse_taken(&ddl.session.view(), &table.schema, to)?;
            let indexes = changed.primary_key.iter_mut().chain(&mut changed.indexes);
            indexes.filter(|index| index.name == from).for_each(|index| to.clone_into(&mut index.name));
        }
        Some(Constraint::NotNull(_)) | None => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{from}\" for table \"{}\" does not exist", table.name),
            ));
        }
    }
    put(ddl, changed)
}

fn alter_column(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    operation: &AlterColumnOperation,
) -> Result<()> {
    let mut changed = (**table).clone();
    let column = table.columns[position].clone();
    let is_identity = |what: &str| {
        SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("column \"{}\" of relation \"{}\" is {what} identity column", column.name, table.name),
        )
    };
    match operation {
        AlterColumnOperation::SetNotNull => {
            changed.columns[position].not_null = true;
            let shape = changed.clone();
            ddl.check_rows(table, |_, row| refuse_null(&shape, row))?;
        }
        AlterColumnOperation::DropNotNull => {
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
        AlterColumnOperation::SetDefault { value } => {
            if column.identity.is_some() {
                return Err(is_identity("an"));
            }
            changed.columns[position].default = bind_default(ddl, &column, value)?;
        }
        AlterColumnOperation::DropDefault => {
            if column.identity.is_some() {
                return Err(is_identity("an"));
            }
            changed.columns[position].default = None;
        }
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            refuse_key_column(table, position, "alter")?;
            return alter_type(ddl, table, position, data_type, using.as_ref());
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            if column.identity.is_some() || column.default.is_some() {
                return Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!(
                        "column \"{}\" of relation \"{}\" already has a default value or identity",
                        column.name, table.name
                    ),
                ));
            }
            if !column.not_null {
                return Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!(
                        "column \"{}\" of relation \"{}\" must be declared NOT NULL before identity can be added",
                        column.name, table.name
                    ),
                ));
            }
            let mut spec = SequenceSpec::new(column.ty);
            for option in sequence_options.iter().flatten() {
                spec.apply(&parser_option(option)?)?;
            }
            let view = ddl.session.view();
            let name = choose_name(&table.name, &column.name, "seq", |name| {
                view.catalog.has_relation(&table.schema, name)
            });
            let oid = ddl.session.shared.new_oid()?;
            let sequence = spec.build(oid, &table.schema, &name, Some((table.oid, position)))?;
            let always = matches!(generated_as, Some(ast::GeneratedAs::Always));
            changed.columns[position].identity = Some(Identity { always, sequence: oid });
            ddl.change(|catalog| catalog.put_sequence(sequence))?;
        }
    }
    put(ddl, changed)
}

fn alter_type(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    position: usize,
    data_type: &ast::DataType,
    using: Option<&ast::Expr>,
) -> Result<()> {
    let column = table.columns[position].clone();
    refuse_retyping(ddl, table, &column.name)?;
    let ty = column_type(data_type)?;
    let name = ast::Expr::Identifier(ast::Ident::with_quote('"', column.name.as_str()));
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
                    crate::types::format_type(ty.ty, None)
                ),
            )
            .hint(format!("You might need to specify \"USING {}::{data_type}\".", column.name))
        })
    })?;
    let mut changed = (**table).clone();
    changed.columns[position].ty = ty;
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
    let mut convert = |ctx: &mut crate::query::ExecContext<'_>, row: &mut crate::types::Row| {
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

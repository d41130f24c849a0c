//! ALTER TABLE, and ALTER of other relations.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{
    self, AlterAction, AlterColumn, AlterOwner, AlterTable, ColumnDefinition, Constraint, Ident, ObjectKind,
    OwnedObject,
};

use super::{
    Ddl,
    alter_column::{alter_column, alter_types, of_system_column},
    attach::{attach_index, attach_partition, only_has_no_effect, refuse_whole, repeats},
    check::names_column,
    clauses,
    cluster::cluster_on,
    column::{ColumnSpec, add_column, column_spec, or_composite},
    column_of,
    constraint::{ConstraintSpec, add_constraint, constraint_spec},
    dependents::Object,
    drop::{drop_dependents, owned_sequences, remove_index},
    index::build_index,
    kind_name, not_supported_for,
    partition::{refuse_key_column, refuse_only, refuse_partition},
    procedure::find_procedure,
    rename::set_schema,
    storage::TableParameters,
    violated,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{self, Oid, Table},
        row_address::is_system_column,
    },
    context::{Name, with_article},
    dml::{bind_check, default_of},
    query::{Binder, Scope},
    sink::{Tag, tag},
    types::Datum,
};

/// ALTER of a relation, other than to rename it.
pub(super) fn alter(ddl: &mut Ddl<'_>, alter: &AlterTable) -> Result<Tag> {
    let AlterTable { kind, name: _, is_only: _, if_exists: _, actions } = alter;
    let what = format!("ALTER {}", kind_name(*kind).to_uppercase());
    if *kind == ObjectKind::MaterializedView {
        return Err(SqlError::unsupported(what));
    }
    let other = actions.iter().find(|action| !matches!(action, AlterAction::OwnerTo(_)));
    if let [AlterAction::AttachPartition(part, _)] = &actions[..]
        && *kind == ObjectKind::Index
    {
        ddl.begin(&what)?;
        attach_index(ddl, alter, part)?;
        return tag(what);
    }
    if let [AlterAction::SetSchema(schema)] = &actions[..] {
        ddl.begin(&what)?;
        set_schema(ddl, alter, schema)?;
        return tag(what);
    }
    if let [AlterAction::Other { words: words @ ("SET LOGGED" | "SET UNLOGGED"), .. }] = &actions[..]
        && *kind == ObjectKind::Sequence
    {
        ddl.begin(&what)?;
        set_logged(ddl, alter, words)?;
        return tag(what);
    }
    if let Some(action) = other
        && *kind != ObjectKind::Table
    {
        ddl.begin(&what)?;
        if !has_kind(ddl, alter)? {
            return tag(what);
        }
        return Err(SqlError::unsupported(format!("{what} ... {}", words(action))));
    }
    ddl.begin(&what)?;
    match other {
        None => alter_owners(ddl, alter)?,
        Some(_) => alter_table(ddl, alter)?,
    }
    tag(what)
}

/// Fails if the relation is of another kind than the statement says; returns false if IF EXISTS lets it be missing.
fn has_kind(ddl: &mut Ddl<'_>, alter: &AlterTable) -> Result<bool> {
    let (name, kind) = (ddl.session.name(&alter.name)?, kind_name(alter.kind));
    match ddl.session.view().find(&name) {
        Some(relation) if relation.kind() == kind => Ok(true),
        Some(_) => {
            let message = format!("\"{}\" is not {}", name.name, with_article(kind));
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => ddl.skip_missing(&name, "relation", alter.if_exists).map(|()| false),
    }
}

/// SET LOGGED and SET UNLOGGED of a sequence.
fn set_logged(ddl: &mut Ddl<'_>, alter: &AlterTable, words: &str) -> Result<()> {
    let name = ddl.session.name(&alter.name)?;
    match ddl.session.view().find(&name) {
        Some(Relation::Sequence(_)) if words == "SET UNLOGGED" => {
            ddl.notices.push(Notice::no_effect(words, "every sequence is durable"));
            Ok(())
        }
        Some(Relation::Sequence(_)) => Ok(()),
        Some(_) => {
            let message = format!("\"{}\" is not a sequence", name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => ddl.skip_missing(&name, "relation", alter.if_exists),
    }
}

/// OWNER TO, of a relation of any kind.
fn alter_owners(ddl: &mut Ddl<'_>, alter: &AlterTable) -> Result<()> {
    let name = ddl.session.name(&alter.name)?;
    let kind = kind_name(alter.kind);
    match ddl.session.view().find(&name) {
        None => ddl.skip_missing(&name, "relation", alter.if_exists),
        // As in PostgreSQL, ALTER TABLE is of other relations too.
        Some(relation) if relation.kind() != kind && alter.kind != ObjectKind::Table => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not {}", name.name, with_article(kind)),
        )),
        Some(relation) => {
            if let Relation::Table(table) = &relation {
                ddl.refuse_in_use(table, "ALTER TABLE")?;
            }
            for action in &alter.actions {
                if let AlterAction::OwnerTo(owner) = action {
                    clauses::owner(owner, ddl.session.settings.user(), ddl.notices);
                }
            }
            Ok(())
        }
    }
}

/// OWNER TO, of a schema or a procedure.
pub(super) fn alter_owner(ddl: &mut Ddl<'_>, alter: &AlterOwner) -> Result<Tag> {
    let AlterOwner { object, owner } = alter;
    let what = match object {
        OwnedObject::Schema(_) => "ALTER SCHEMA",
        OwnedObject::Procedure(_) => "ALTER PROCEDURE",
    };
    ddl.begin(what)?;
    match object {
        OwnedObject::Schema(name) => {
            let name = Name { schema: None, name: name.name.to_string() };
            if ddl.session.view().schema_oid(&name.name).is_none() {
                return Err(name.missing("schema"));
            }
        }
        OwnedObject::Procedure(routine) => drop(find_procedure(ddl, routine)?),
    }
    clauses::owner(owner, ddl.session.settings.user(), ddl.notices);
    tag(what)
}

fn alter_table(ddl: &mut Ddl<'_>, alter: &AlterTable) -> Result<()> {
    let name = ddl.session.name(&alter.name)?;
    let view = ddl.session.view();
    match view.find(&name) {
        Some(Relation::Table(_)) => {}
        Some(Relation::Sequence(_)) if alter.actions.iter().all(is_of_persistence) => {
            return alter.actions.iter().try_for_each(|action| set_logged(ddl, alter, words(action)));
        }
        Some(Relation::View(_)) if alter.actions.iter().all(is_of_defaults) => {
            return Err(SqlError::unsupported("a default of a column of a view"));
        }
        Some(other) => return Err(refused_action(alter, &other, &name)),
        None => return ddl.skip_missing(&name, "relation", alter.if_exists),
    }
    let table = view.table(&name)?;
    if table.partition_of.is_some() && repeats(ddl, &table, alter)? {
        return Ok(());
    }
    refuse_partition(&table, "ALTER TABLE")?;
    ddl.refuse_in_use(&table, "ALTER TABLE")?;
    if let [AlterAction::AttachPartition(partition, values)] = &alter.actions[..] {
        return attach_partition(ddl, &table, partition, values);
    }
    if alter.is_only {
        match alter.actions.iter().all(reaches_partitions) {
            true => only_has_no_effect(ddl, &table),
            false => refuse_only(&table, "ALTER TABLE")?,
        }
    }
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    let before = table;
    let mut actions: Vec<&AlterAction> = alter.actions.iter().collect();
    actions.sort_by_key(|action| Pass::of(action));
    for actions in
        actions.chunk_by(|one, next| [one, next].map(|action| Pass::of(action)) == [Pass::Types; 2])
    {
        // Each action works on what the ones before it made of the table.
        let table = match ddl.session.catalog().table_by_oid(before.oid) {
            Some(table) => table.clone(),
            None => return Err(name.missing("relation")),
        };
        match actions {
            [action] if Pass::of(action) != Pass::Types => alter_by(ddl, &table, action)?,
            retyping => {
                let columns: Vec<_> = retyping.iter().filter_map(|action| altered_column(action)).collect();
                alter_types(ddl, &before, &table, &columns)?;
            }
        }
    }
    Ok(())
}

/// Returns the column that ALTER COLUMN is of, and its action.
fn altered_column(action: &AlterAction) -> Option<(&Ident, &AlterColumn)> {
    match action {
        AlterAction::AlterColumn { name, action } => Some((name, action)),
        _ => None,
    }
}

/// The order in which ALTER TABLE carries out its actions, as PostgreSQL does; those of a pass in the order written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    Types,
    AddColumns,
    AddConstraints,
    Attributes,
    Defaults,
    Others,
}

impl Pass {
    fn of(action: &AlterAction) -> Pass {
        match action {
            AlterAction::DropColumn { .. } | AlterAction::DropConstraint { .. } => Pass::Drop,
            AlterAction::AddColumn { .. } => Pass::AddColumns,
            AlterAction::AddConstraint(_) => Pass::AddConstraints,
            AlterAction::AlterColumn { action, .. } => match action {
                AlterColumn::DropDefault | AlterColumn::DropNotNull | AlterColumn::DropIdentity { .. } => {
                    Pass::Drop
                }
                AlterColumn::Type { .. } => Pass::Types,
                AlterColumn::SetDefault(_) | AlterColumn::AddIdentity { .. } => Pass::Defaults,
                AlterColumn::SetNotNull => Pass::Attributes,
                _ => Pass::Others,
            },
            _ => Pass::Others,
        }
    }
}

fn is_of_persistence(action: &AlterAction) -> bool {
    matches!(action, AlterAction::Other { words: "SET LOGGED" | "SET UNLOGGED", .. })
}

fn is_of_defaults(action: &AlterAction) -> bool {
    let AlterAction::AlterColumn { action, .. } = action else { return false };
    matches!(action, AlterColumn::SetDefault(_) | AlterColumn::DropDefault)
}

/// The error of an action that is not one of relations of this kind.
fn refused_action(alter: &AlterTable, relation: &Relation, name: &Name) -> SqlError {
    let action = alter.actions.iter().find(|action| !matches!(action, AlterAction::OwnerTo(_)));
    let message = format!(
        "ALTER action {} cannot be performed on relation \"{}\"",
        action.map_or("OWNER TO", words),
        name.name
    );
    not_supported_for(relation, message)
}

/// True if an action is one of the whole table in the end, where a dump says ONLY.
fn reaches_partitions(action: &AlterAction) -> bool {
    match action {
        AlterAction::OwnerTo(_) => true,
        AlterAction::AlterColumn {
            action: AlterColumn::SetDefault(_) | AlterColumn::DropDefault, ..
        } => true,
        AlterAction::AddConstraint(constraint) => {
            matches!(constraint.kind, ast::ConstraintKind::Unique(_) | ast::ConstraintKind::PrimaryKey(_))
        }
        _ => false,
    }
}

fn put(ddl: &mut Ddl<'_>, table: Table) -> Result<()> {
    ddl.change(|catalog| catalog.put_table(table)).map(drop)
}

/// The words of an action, as errors say them.
fn words(action: &AlterAction) -> &'static str {
    match action {
        AlterAction::AddColumn { .. } => "ADD COLUMN",
        AlterAction::DropColumn { .. } => "DROP COLUMN",
        AlterAction::AlterColumn { action, .. } => match action {
            AlterColumn::SetDefault(_) | AlterColumn::DropDefault => "ALTER COLUMN ... SET DEFAULT",
            AlterColumn::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            AlterColumn::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            AlterColumn::Type { .. } => "ALTER COLUMN ... SET DATA TYPE",
            AlterColumn::AddIdentity { .. } => "ALTER COLUMN ... ADD IDENTITY",
            AlterColumn::SetIdentity { .. } => "ALTER COLUMN ... SET",
            AlterColumn::DropIdentity { .. } => "ALTER COLUMN ... DROP IDENTITY",
            AlterColumn::Other { words, .. } => words,
            _ => "ALTER COLUMN",
        },
        AlterAction::AddConstraint(_) => "ADD CONSTRAINT",
        AlterAction::AlterConstraint { .. } => "ALTER CONSTRAINT",
        AlterAction::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
        AlterAction::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterAction::SetOptions(_) => "SET (...)",
        AlterAction::ResetOptions(_) => "RESET (...)",
        AlterAction::OwnerTo(_) => "OWNER TO",
        AlterAction::SetSchema(_) => "SET SCHEMA",
        AlterAction::AttachPartition(..) => "ATTACH PARTITION",
        AlterAction::DetachPartition { .. } => "DETACH PARTITION",
        AlterAction::Inherit { is_removed: false, .. } => "INHERIT",
        AlterAction::Inherit { .. } => "NO INHERIT",
        AlterAction::ReplicaIdentity(_) => "REPLICA IDENTITY",
        AlterAction::ClusterOn(Some(_)) => "CLUSTER ON",
        AlterAction::ClusterOn(None) => "SET WITHOUT CLUSTER",
        AlterAction::AllTriggers { is_enabled: true } => "ENABLE TRIGGER ALL",
        AlterAction::AllTriggers { .. } => "DISABLE TRIGGER ALL",
        AlterAction::Other { words, .. } => words,
        _ => "this action",
    }
}

/// The error of an action that is not carried out.
fn unsupported_action(action: &AlterAction) -> SqlError {
    let error = SqlError::unsupported(format!("ALTER TABLE ... {}", words(action)));
    match action {
        AlterAction::Other { position, .. }
        | AlterAction::AlterColumn { action: AlterColumn::Other { position, .. }, .. } => error.at(*position),
        AlterAction::AlterColumn { name, .. }
        | AlterAction::AlterConstraint { name, .. }
        | AlterAction::SetSchema(name) => error.at(name.position),
        _ => error,
    }
}

fn alter_by(ddl: &mut Ddl<'_>, table: &Arc<Table>, action: &AlterAction) -> Result<()> {
    let missing_constraint = |name: &Ident| {
        let message = format!("constraint \"{}\" of relation \"{}\" does not exist", name.name, table.name);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    };
    match action {
        AlterAction::AddConstraint(constraint) => {
            if constraint.attributes.is_not_valid {
                return Err(not_valid(constraint));
            }
            alter_add_constraint(ddl, table, &constraint_spec(constraint)?)
        }
        AlterAction::AddColumn { if_not_exists, column } => add(ddl, table, column, *if_not_exists),
        AlterAction::DropColumn { name, .. } if is_system_column(&name.name) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot drop system column \"{}\"", name.name),
        )),
        AlterAction::DropColumn { name, if_exists, is_cascade } => match table.column(&name.name) {
            Some(position) => alter_drop_column(ddl, table, position, *is_cascade),
            None if *if_exists => {
                ddl.notices.push(Notice::note(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!(
                        "column \"{}\" of relation \"{}\" does not exist, skipping",
                        name.name, table.name
                    ),
                ));
                Ok(())
            }
            None => column_of(table, name).map(drop),
        },
        AlterAction::DropConstraint { name, if_exists, is_cascade } => {
            alter_drop_constraint(ddl, table, &name.name, (*if_exists, *is_cascade))
        }
        AlterAction::AlterColumn { action: AlterColumn::Other { .. }, .. } => Err(unsupported_action(action)),
        AlterAction::AlterColumn { name, .. } if is_system_column(&name.name) => Err(of_system_column(name)),
        AlterAction::AlterColumn { name, action } => {
            let position = column_of(table, name)?;
            alter_column(ddl, table, position, action)
        }
        AlterAction::SetOptions(options) => {
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
        AlterAction::OwnerTo(owner) => {
            clauses::owner(owner, ddl.session.settings.user(), ddl.notices);
            Ok(())
        }
        AlterAction::AllTriggers { .. } => {
            ddl.notices.push(Notice::no_effect(words(action), "there are no triggers"));
            Ok(())
        }
        AlterAction::ReplicaIdentity(_) => {
            ddl.notices.push(Notice::no_effect("REPLICA IDENTITY", "there is no logical replication"));
            Ok(())
        }
        AlterAction::ClusterOn(index) => cluster_on(ddl, table, index.as_ref()),
        // What is to be logged is so already.
        AlterAction::Other { words: "SET LOGGED", .. } => Ok(()),
        AlterAction::Other { words: "SET UNLOGGED", .. } => {
            ddl.notices.push(Notice::no_effect("SET UNLOGGED", "every table is durable"));
            Ok(())
        }
        // Every constraint is.
        AlterAction::ValidateConstraint(name) => match table.has_constraint_or_index(&name.name) {
            true => Ok(()),
            false => Err(missing_constraint(name)),
        },
        AlterAction::DetachPartition { .. } => {
            refuse_whole(table)?;
            Err(unsupported_action(action))
        }
        other => Err(unsupported_action(other)),
    }
}

fn not_valid(constraint: &Constraint) -> SqlError {
    let position = constraint.attributes.position.unwrap_or(constraint.position);
    SqlError::unsupported("a constraint that is NOT VALID").at(position)
}

/// ADD COLUMN.
fn add(ddl: &mut Ddl<'_>, table: &Arc<Table>, column: &ColumnDefinition, if_not_exists: bool) -> Result<()> {
    let spec = column_spec(&table.name, column);
    let spec = spec.map_err(|error| or_composite(ddl, error, column.ty.as_ref()))?;
    for constraint in &column.constraints {
        if let ast::ConstraintKind::Identity { options, .. } = &constraint.kind {
            clauses::sequence_cache(options, ddl.notices);
        }
    }
    if if_not_exists && table.column(&spec.column.name).is_some() {
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

fn alter_add_constraint(ddl: &mut Ddl<'_>, table: &Arc<Table>, spec: &ConstraintSpec) -> Result<()> {
    let mut changed = (**table).clone();
    add_constraint(ddl, &mut changed, spec).map_err(|error| match spec {
        // As in PostgreSQL, where its errors have no place.
        ConstraintSpec::Check { .. } => error.unplaced(),
        ConstraintSpec::Key { .. } => error,
    })?;
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

fn alter_drop_column(ddl: &mut Ddl<'_>, table: &Arc<Table>, position: usize, cascade: bool) -> Result<()> {
    let name = table.columns[position].name.clone();
    refuse_key_column(table, position, "drop")?;
    let column = Object::Column(table.oid, position);
    let what = column.describe(ddl)?;
    drop_dependents(ddl, &[column], Some(&what), cascade)?;
    // They may have been other parts of the table.
    let Some(table) = &ddl.session.catalog().table_by_oid(table.oid).cloned() else { return Ok(()) };
    let mut changed = (**table).clone();
    for index in table.indexes.iter().filter(|index| index.depends_on(position)) {
        ddl.drop_index_trees(table, index)?;
    }
    changed.indexes.retain(|index| !index.depends_on(position));
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
    if changed.primary_key.as_ref().is_some_and(|primary| primary.depends_on(position)) {
        // Rows keep their place only by number now.
        changed.primary_key = None;
        return ddl.rewrite(table, changed, None).map(drop);
    }
    put(ddl, changed)
}

fn alter_drop_constraint(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    name: &str,
    (if_exists, cascade): (bool, bool),
) -> Result<()> {
    let index = table.constraint(name).and_then(model::Constraint::index);
    if let Some(index) = index {
        let key = Object::Key(table.oid, index.oid);
        let what = key.describe(ddl)?;
        drop_dependents(ddl, &[key], Some(&what), cascade)?;
    }
    let Some(table) = &ddl.session.catalog().table_by_oid(table.oid).cloned() else { return Ok(()) };
    let mut changed = (**table).clone();
    match table.constraint(name) {
        Some(model::Constraint::Check(_)) => {
            changed.checks.retain(|check| check.name != name);
            put(ddl, changed)
        }
        Some(model::Constraint::PrimaryKey(_)) => {
            changed.primary_key = None;
            ddl.rewrite(table, changed, None).map(drop)
        }
        Some(model::Constraint::Unique(index)) => remove_index(ddl, table, index.oid).map(drop),
        Some(model::Constraint::NotNull(_)) | None => {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            if if_exists {
                let message = format!("{message}, skipping");
                ddl.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, message));
                return Ok(());
            }
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

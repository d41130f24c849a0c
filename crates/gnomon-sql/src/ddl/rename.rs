//! RENAME and SET SCHEMA.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{AlterTable, Ident, ObjectKind, Rename, RenamedPart};

use super::{
    Ddl,
    check::{rename_in, with_bare_columns},
    drop::owned_sequences,
    kind_name,
    moved::{Move, Place, RenamedColumn, move_relations, put_queries, queries_with_column},
    not_supported_for,
    partition::{refuse_only, refuse_partition, with_partitions},
    refuse_taken, schema,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{self, Table, View, derived_oid},
        row_address::{conflicting_name, is_system_column},
    },
    context::{Name, with_article},
    sink::{Tag, tag},
    syntax::parse_expression,
};

fn put(ddl: &mut Ddl<'_>, table: Table) -> Result<()> {
    ddl.change(|catalog| catalog.put_table(table)).map(drop)
}

/// RENAME of a relation, or of a part of it.
pub(super) fn rename(ddl: &mut Ddl<'_>, rename: &Rename) -> Result<Tag> {
    let Rename { kind, name, is_only, if_exists, part, to } = rename;
    let what = format!("ALTER {}", kind_name(*kind).to_uppercase());
    match (kind, part) {
        (ObjectKind::MaterializedView, _) => return Err(SqlError::unsupported(what)),
        (ObjectKind::Schema, _) => {
            ddl.begin(&what)?;
            let name = Name { schema: None, name: name.name.name.to_string() };
            schema::rename_schema(ddl, &name, &to.name)?;
            return tag(what);
        }
        (ObjectKind::Table | ObjectKind::View, _) | (_, None) => {}
        (_, Some(_)) => return Err(SqlError::unsupported(format!("{what} ... RENAME COLUMN"))),
    }
    ddl.begin(&what)?;
    let name = ddl.session.name(name)?;
    let Some(part) = part else {
        rename_relation(ddl, kind_name(*kind), &name, *if_exists, &to.name)?;
        return tag(what);
    };
    let table = match (ddl.session.view().find(&name), part) {
        (Some(Relation::Table(table)), _) => table,
        // As in PostgreSQL, ALTER TABLE is of views too, and ALTER VIEW of tables.
        (Some(Relation::View(view)), RenamedPart::Column(from)) => {
            rename_view_column(ddl, &view, from, &to.name)?;
            return tag(what);
        }
        (Some(Relation::View(_)), RenamedPart::Constraint(from)) => {
            return Err(missing_constraint(&name.name, &from.name));
        }
        (Some(other), _) => {
            let message = format!("cannot rename columns of relation \"{}\"", name.name);
            return Err(not_supported_for(&other, message));
        }
        (None, _) => {
            ddl.skip_missing(&name, "relation", *if_exists)?;
            return tag(what);
        }
    };
    refuse_partition(&table, "ALTER TABLE")?;
    if *is_only {
        refuse_only(&table, "ALTER TABLE")?;
    }
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    match part {
        RenamedPart::Column(from) => rename_column(ddl, &table, from, &to.name)?,
        RenamedPart::Constraint(from) => rename_constraint(ddl, &table, &from.name, &to.name)?,
    }
    tag(what)
}

fn rename_relation(ddl: &mut Ddl<'_>, kind: &str, name: &Name, if_exists: bool, to: &str) -> Result<()> {
    let view = ddl.session.view();
    match view.find(name) {
        None => ddl.skip_missing(name, "relation", if_exists)?,
        // As in PostgreSQL, ALTER TABLE and ALTER INDEX rename other relations too.
        Some(relation) if relation.kind() != kind && !matches!(kind, "table" | "index") => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not {}", name.name, with_article(kind)),
            ));
        }
        Some(Relation::Index(table, oid)) => {
            refuse_partition(&table, "renaming an index")?;
            refuse_taken(&view, &table.schema, to)?;
            let to = Place { schema: table.schema.clone(), name: to.to_owned() };
            move_relations(ddl, &[Move { relation: Relation::Index(table, oid), to }])?;
        }
        Some(relation) => {
            let Place { schema, .. } = Place::of(&relation);
            refuse_taken(&view, &schema, to)?;
            let to = Place { schema, name: to.to_owned() };
            move_relations(ddl, &[Move { relation, to }])?;
        }
    }
    Ok(())
}

/// SET SCHEMA, of a relation of any kind. The sequences of a table's columns go with it.
pub(super) fn set_schema(ddl: &mut Ddl<'_>, alter: &AlterTable, schema: &Ident) -> Result<()> {
    let name = ddl.session.name(&alter.name)?;
    let view = ddl.session.view();
    let Some(relation) = view.find(&name) else {
        return ddl.skip_missing(&name, "relation", alter.if_exists);
    };
    let kind = kind_name(alter.kind);
    if relation.kind() != kind && alter.kind != ObjectKind::Table {
        let message = format!("\"{}\" is not {}", name.name, with_article(kind));
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let mut relations = vec![relation.clone()];
    match &relation {
        Relation::Table(table) => {
            relations.extend(owned_sequences(ddl, table.oid).into_iter().map(Relation::Sequence));
        }
        Relation::Sequence(sequence) => refuse_owned(ddl, sequence)?,
        Relation::Index(..) => {
            let message = format!("cannot change schema of index \"{}\"", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("Change the schema of the table instead."));
        }
        Relation::View(_) => {}
    }
    let schema = view.schema_for(&Name { schema: Some(schema.name.to_string()), name: String::new() })?;
    if Place::of(&relation).schema == schema {
        return Ok(());
    }
    let indexes = relation_indexes(&relation);
    for name in relations.iter().map(|relation| Place::of(relation).name).chain(indexes) {
        if ddl.session.catalog().has_relation(&schema, &name) {
            let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
    }
    let moves = relations.into_iter().map(|relation| {
        let name = Place::of(&relation).name;
        Move { relation, to: Place { schema: schema.clone(), name } }
    });
    move_relations(ddl, &moves.collect::<Vec<_>>())
}

/// Returns the names of the indexes that go with a relation.
fn relation_indexes(relation: &Relation) -> Vec<String> {
    match relation {
        Relation::Table(table) => table.all_indexes().map(|index| index.name.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Fails if a column owns a sequence.
fn refuse_owned(ddl: &Ddl<'_>, sequence: &model::Sequence) -> Result<()> {
    let Some((owner, _)) = sequence.owner else { return Ok(()) };
    let table = ddl.session.catalog().table_by_oid(owner).map(|table| table.name.clone());
    let message = "cannot move an owned sequence into another schema";
    let detail =
        format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.unwrap_or_default());
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
}

fn rename_column(ddl: &mut Ddl<'_>, table: &Arc<Table>, from: &Ident, to: &str) -> Result<()> {
    if is_system_column(&from.name) {
        let message = format!("cannot rename system column \"{}\"", from.name);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let Some(position) = table.column(&from.name) else {
        let message = format!("column \"{}\" does not exist", from.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let from = &*from.name;
    if is_system_column(to) {
        return Err(conflicting_name(to));
    }
    if table.column(to).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{to}\" of relation \"{}\" already exists", table.name),
        ));
    }
    let at = table.live_columns().take_while(|(i, _)| *i < position).count();
    let mut following = Vec::new();
    for relation in with_partitions(ddl, table) {
        let of = Place { schema: table.schema.clone(), name: relation.name.clone() };
        following.append(&mut queries_with_column(ddl, &RenamedColumn { of, from, at, to })?);
    }
    let mut changed = (**table).clone();
    changed.columns[position].name = to.to_owned();
    for check in &mut changed.checks {
        // Older texts have names of the table in other places too.
        let bare = with_bare_columns(&parse_expression(&check.expression)?, table)?;
        check.expression = rename_in(bare, from, to)?;
    }
    put(ddl, changed)?;
    put_queries(ddl, following)
}

/// RENAME COLUMN of a view.
fn rename_view_column(ddl: &mut Ddl<'_>, view: &View, from: &Ident, to: &str) -> Result<()> {
    let from = &*from.name;
    let Some(at) = view.columns.iter().position(|(column, _)| column == from) else {
        let message = format!("column \"{from}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    if view.columns.iter().any(|(column, _)| column == to) {
        let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let of = Place { schema: view.schema.clone(), name: view.name.clone() };
    let following = queries_with_column(ddl, &RenamedColumn { of, from, at, to })?;
    let mut changed = view.clone();
    to.clone_into(&mut changed.columns[at].0);
    ddl.change(|catalog| catalog.put_view(changed))?;
    put_queries(ddl, following)
}

fn rename_constraint(ddl: &mut Ddl<'_>, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
    if table.has_constraint_or_index(to) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{to}\" for relation \"{}\" already exists", table.name),
        ));
    }
    match table.constraint(from) {
        Some(model::Constraint::Check(check)) => {
            // Its comment goes with its name.
            let comment = ddl.session.catalog().comment((check.oid(table.oid), 0)).map(str::to_owned);
            let mut changed = (**table).clone();
            changed
                .checks
                .iter_mut()
                .filter(|check| check.name == from)
                .for_each(|check| to.clone_into(&mut check.name));
            put(ddl, changed)?;
            ddl.change(|catalog| {
                catalog.put_comment((derived_oid(table.oid, to), 0), comment.as_deref());
            })
        }
        Some(model::Constraint::PrimaryKey(index) | model::Constraint::Unique(index)) => {
            refuse_taken(&ddl.session.view(), &table.schema, to)?;
            let to = Place { schema: table.schema.clone(), name: to.to_owned() };
            move_relations(ddl, &[Move { relation: Relation::Index(table.clone(), index.oid), to }])
        }
        Some(model::Constraint::NotNull(_)) | None => Err(missing_constraint(&table.name, from)),
    }
}

fn missing_constraint(table: &str, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

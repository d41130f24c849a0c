//! DROP and TRUNCATE.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{Drop, ObjectKind, Truncate};

use super::{
    Ddl, kind_name,
    moved::Place,
    partition::{drop_partition, truncate_partition, with_partitions},
    skip_missing,
    view::views_using,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, Procedure, Sequence, Table, View},
        system::SYSTEM_SCHEMAS,
    },
    context::{Name, SessionContext, query_of, with_article},
    functions::quote_ident,
    query::{plan_query, relation_of},
    sink::{Tag, tag},
    types::Type,
};

pub(super) fn drop_objects(ddl: &mut Ddl<'_>, drop: &Drop) -> Result<Tag> {
    let Drop { kind, names, if_exists, is_cascade, is_concurrent } = drop;
    if *is_concurrent {
        let refused = match (names.len(), is_cascade) {
            (1, false) => None,
            (1, true) => Some("CASCADE"),
            _ => Some("dropping multiple objects"),
        };
        if let Some(what) = refused {
            let message = format!("DROP INDEX CONCURRENTLY does not support {what}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let why = "DROP INDEX waits for the transactions that use the table";
        ddl.notices.push(Notice::no_effect("CONCURRENTLY", why));
    }
    let is_schema = *kind == ObjectKind::Schema;
    let kind = kind_name(*kind);
    let what = format!("DROP {}", kind.to_uppercase());
    ddl.begin(&what)?;
    for name in names {
        if is_schema {
            let name = Name { schema: None, name: name.last().name.to_string() };
            drop_schema(ddl, &name, *if_exists, *is_cascade)?;
            continue;
        }
        let name = ddl.session.name(&relation_of(name)?)?;
        let Some(relation) = ddl.session.view().find(&name) else {
            if let Some(known) = name.of_system().filter(|known| known.kind() != kind) {
                return Err(wrong_kind(&name, kind, known.kind()));
            }
            skip_missing(&name, kind, *if_exists, ddl.notices)?;
            continue;
        };
        if relation.kind() != kind {
            return Err(wrong_kind(&name, kind, relation.kind()));
        }
        drop_relation(ddl, relation, *is_cascade)?;
    }
    tag(what)
}

/// The error of a DROP of one kind of relation where the name has one of another.
pub(super) fn wrong_kind(name: &Name, kind: &str, found: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not {}", name.name, with_article(kind)))
        .hint(format!("Use DROP {} to remove {}.", found.to_uppercase(), with_article(found)))
}

/// The error of an object without which there is no database.
pub(super) fn needed(what: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because it is required by the database system"),
    )
}

fn drop_relation(ddl: &mut Ddl<'_>, relation: Relation, cascade: bool) -> Result<()> {
    match relation {
        Relation::Table(table) => drop_table(ddl, &table, cascade),
        Relation::Index(table, oid) => drop_index(ddl, &table, oid),
        Relation::Sequence(sequence) => drop_sequence(ddl, &sequence, cascade),
        Relation::View(view) => drop_view(ddl, &view, cascade),
    }
}

fn drop_table(ddl: &mut Ddl<'_>, table: &Arc<Table>, cascade: bool) -> Result<()> {
    for relation in with_partitions(ddl, table) {
        let what = described(ddl, "table", &table.schema, &relation.name);
        drop_dependent_views(ddl, relation.oid, &what, None, cascade)?;
    }
    if let Some(of) = &table.partition_of {
        return drop_partition(ddl, of);
    }
    ddl.lock_table(table, TreeLock::Exclusive)?;
    ddl.drop_trees(table)?;
    let owned: Vec<Oid> = owned_sequences(ddl, table.oid).iter().map(|sequence| sequence.oid).collect();
    owned.iter().try_for_each(|sequence| ddl.lock_sequence(*sequence, TreeLock::Exclusive))?;
    let oid = table.oid;
    ddl.change(|catalog| {
        catalog.remove_table(oid);
        for sequence in owned {
            catalog.remove_sequence(sequence);
        }
    })
}

fn drop_index(ddl: &mut Ddl<'_>, table: &Arc<Table>, oid: Oid) -> Result<()> {
    let Some(index) = table.index(oid) else { return Ok(()) };
    if let Some(whole) = table.whole_index(index) {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop index {} because index {} requires it", index.name, whole.name),
        )
        .hint(format!("You can drop index {} instead.", whole.name)));
    }
    if index.constraint {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop index {} because constraint {} on table {} requires it",
                index.name, index.name, table.name
            ),
        )
        .hint(format!("You can drop constraint {} on table {} instead.", index.name, table.name)));
    }
    ddl.lock_table(table, TreeLock::Exclusive)?;
    remove_index(ddl, table, oid).map(drop)
}

/// Takes an index other than the primary key out of its table, which is locked.
pub(super) fn remove_index(ddl: &mut Ddl<'_>, table: &Arc<Table>, oid: Oid) -> Result<Arc<Table>> {
    let mut changed = (**table).clone();
    if let Some(at) = changed.indexes.iter().position(|index| index.oid == oid) {
        let index = changed.indexes.remove(at);
        ddl.drop_index_trees(table, &index)?;
    }
    ddl.change(|catalog| catalog.put_table(changed))
}

fn drop_sequence(ddl: &mut Ddl<'_>, sequence: &Sequence, cascade: bool) -> Result<()> {
    let uses = |table: &Table, position: usize| {
        table.columns.get(position).is_some_and(|column| {
            column.identity.is_some_and(|identity| identity.sequence == sequence.oid)
                || column.default.as_deref().is_some_and(|default| mentions(default, sequence))
        })
    };
    let catalog = ddl.session.catalog();
    for table in catalog.tables() {
        for position in (0..table.columns.len()).filter(|position| uses(table, *position)) {
            let column = &table.columns[position];
            if column.identity.is_some() || !cascade {
                let dependent = if column.identity.is_some() {
                    format!("column {} of table {}", column.name, table.name)
                } else {
                    format!("default value for column {} of table {}", column.name, table.name)
                };
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop sequence {} because other objects depend on it", sequence.name),
                )
                .detail(format!("{dependent} depends on sequence {}", sequence.name))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let of = described(ddl, "table", &table.schema, &table.name);
            ddl.dropped.push(format!("default value for column {} of {of}", column.name));
            ddl.lock_table(table, TreeLock::Exclusive)?;
            let mut changed = match ddl.session.catalog().table_by_oid(table.oid) {
                Some(table) => (**table).clone(),
                None => continue,
            };
            changed.columns[position].default = None;
            ddl.change(|catalog| catalog.put_table(changed))?;
        }
    }
    let oid = sequence.oid;
    ddl.lock_sequence(oid, TreeLock::Exclusive)?;
    ddl.change(|catalog| catalog.remove_sequence(oid))
}

pub(super) fn drop_view(ddl: &mut Ddl<'_>, view: &View, cascade: bool) -> Result<()> {
    let what = described(ddl, "view", &view.schema, &view.name);
    drop_dependent_views(ddl, view.oid, &what, None, cascade)?;
    let oid = view.oid;
    ddl.change(|catalog| catalog.remove_view(oid))
}

/// Fails if views use a relation (or one of its columns), or with CASCADE drops them.
pub(super) fn drop_dependent_views(
    ddl: &mut Ddl<'_>,
    oid: Oid,
    what: &str,
    column: Option<&str>,
    cascade: bool,
) -> Result<()> {
    let dependent = views_using(ddl, oid, column)?;
    drop_views(ddl, dependent, what, cascade)
}

/// Drops the views of a table whose queries no longer hold, since GROUP BY has relied on the primary key that the
/// table had; without CASCADE the statement fails.
pub(super) fn drop_views_that_fail(ddl: &mut Ddl<'_>, oid: Oid, what: &str, cascade: bool) -> Result<()> {
    let mut dependent = Vec::new();
    for view in views_using(ddl, oid, None)? {
        let query = query_of(&view)?;
        if ddl.session.with_types(|types, catalog| plan_query(&query, catalog, types, &[])).is_err() {
            dependent.push(view);
        }
    }
    drop_views(ddl, dependent, what, cascade)
}

fn drop_views(ddl: &mut Ddl<'_>, dependent: Vec<Arc<View>>, what: &str, cascade: bool) -> Result<()> {
    if dependent.is_empty() {
        return Ok(());
    }
    if !cascade {
        let mut found = Vec::new();
        add_dependents(ddl, dependent, what, &mut found)?;
        return Err(still_used(what, found));
    }
    for view in dependent {
        if ddl.session.catalog().views().any(|known| known.oid == view.oid) {
            let dropped = described(ddl, "view", &view.schema, &view.name);
            ddl.dropped.push(dropped);
            drop_view(ddl, &view, true)?;
        }
    }
    Ok(())
}

/// Returns an object's kind and name, with its schema if that is not on the search path.
pub(super) fn described(ddl: &Ddl<'_>, kind: &str, schema: &str, name: &str) -> String {
    let bare = Name { schema: None, name: name.to_owned() };
    let is_visible = ddl.session.view().find(&bare).is_some_and(|found| Place::of(&found).schema == *schema);
    match is_visible {
        true => format!("{kind} {}", quote_ident(name)),
        false => format!("{kind} {}.{}", quote_ident(schema), quote_ident(name)),
    }
}

/// An object that depends on another one: its identifier, and both as errors describe them.
type Dependent = (Oid, String, String);

/// Adds views that use an object, each with those that use it before the next one.
fn add_dependents(
    ddl: &mut Ddl<'_>,
    views: Vec<Arc<View>>,
    what: &str,
    found: &mut Vec<Dependent>,
) -> Result<()> {
    for view in views {
        if found.iter().any(|(oid, ..)| *oid == view.oid) {
            continue;
        }
        let this = described(ddl, "view", &view.schema, &view.name);
        found.push((view.oid, this.clone(), what.to_owned()));
        let using = views_using(ddl, view.oid, None)?;
        add_dependents(ddl, using, &this, found)?;
    }
    Ok(())
}

/// The error for an object that others use.
fn still_used(what: &str, dependents: Vec<Dependent>) -> SqlError {
    let lines = dependents.into_iter().map(|(_, object, used)| format!("{object} depends on {used}"));
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .detail(lines.collect::<Vec<_>>().join("\n"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Returns what a schema holds, and the views elsewhere that use it.
fn schema_dependents(ddl: &mut Ddl<'_>, schema: &str) -> Result<Vec<Dependent>> {
    let what = format!("schema {}", quote_ident(schema));
    let catalog = ddl.session.catalog();
    let mut held: Vec<(Oid, String)> = Vec::new();
    for relation in catalog.relations_of(schema) {
        let (oid, kind) = match &relation {
            // They go with their tables, which are in the same schema.
            Relation::Table(table) if table.partition_of.is_some() => continue,
            Relation::Table(table) => (table.oid, "table"),
            Relation::View(view) => (view.oid, "view"),
            Relation::Sequence(sequence) if sequence.owner.is_none() => (sequence.oid, "sequence"),
            Relation::Sequence(_) | Relation::Index(..) => continue,
        };
        held.push((oid, described(ddl, kind, schema, &Place::of(&relation).name)));
    }
    let procedures = catalog.procedures().filter(|procedure| procedure.schema == schema);
    for oid in procedures.map(|procedure| procedure.oid).collect::<Vec<Oid>>() {
        let name =
            ddl.session.with_types(|types, _| Ok(types.environment.object_name(Type::Regprocedure, oid)))?;
        held.push((oid, format!("function {}", name.unwrap_or_default())));
    }
    held.sort_unstable();
    let mut found: Vec<Dependent> = Vec::new();
    for (oid, this) in &held {
        found.push((*oid, this.clone(), what.clone()));
        let elsewhere = views_using(ddl, *oid, None)?;
        let elsewhere = elsewhere.into_iter().filter(|view| held.iter().all(|(held, _)| *held != view.oid));
        add_dependents(ddl, elsewhere.collect(), this, &mut found)?;
    }
    Ok(found)
}

fn drop_schema(ddl: &mut Ddl<'_>, name: &Name, if_exists: bool, cascade: bool) -> Result<()> {
    let Some(schema) = ddl.session.catalog().schema(&name.name).cloned() else {
        if SYSTEM_SCHEMAS.contains(&&*name.name) {
            return Err(needed(&format!("schema {name}")));
        }
        return skip_missing(name, "schema", if_exists, ddl.notices);
    };
    let catalog = ddl.session.catalog();
    if !catalog.schema_is_empty(&schema.name) {
        let relations = catalog.relations_of(&schema.name);
        let dependents = schema_dependents(ddl, &schema.name)?;
        if !cascade {
            return Err(still_used(&format!("schema {}", quote_ident(&schema.name)), dependents));
        }
        let told = std::mem::take(&mut ddl.dropped);
        let of_schema = |procedure: &&Arc<Procedure>| procedure.schema == schema.name;
        let procedures: Vec<Oid> =
            catalog.procedures().filter(of_schema).map(|procedure| procedure.oid).collect();
        for oid in procedures {
            ddl.change(|catalog| catalog.remove_procedure(oid))?;
        }
        for relation in relations {
            // A relation that went with an earlier one is gone already; indexes and owned sequences go with theirs.
            let present = |session: &SessionContext, oid: Oid| session.view().relation_name(oid).is_some();
            let oid = match &relation {
                // They go with their tables, which are in the same schema.
                Relation::Table(table) if table.partition_of.is_some() => continue,
                Relation::Table(table) => table.oid,
                Relation::View(view) => view.oid,
                Relation::Sequence(sequence) if sequence.owner.is_none() => sequence.oid,
                Relation::Sequence(_) | Relation::Index(..) => continue,
            };
            if present(ddl.session, oid) {
                drop_relation(ddl, relation, true)?;
            }
        }
        // Sequences whose owners stand in another schema are left.
        for relation in ddl.session.catalog().relations_of(&schema.name) {
            drop_relation(ddl, relation, true)?;
        }
        ddl.dropped = told;
        ddl.dropped.extend(dependents.into_iter().map(|(_, object, _)| object));
    }
    ddl.change(|catalog| {
        catalog.put_comment((schema.oid, 0), None);
        catalog.remove_schema(schema.oid);
    })
}

/// The sequences that columns of a table own.
pub(super) fn owned_sequences(ddl: &Ddl<'_>, table: Oid) -> Vec<Arc<Sequence>> {
    let catalog = ddl.session.catalog();
    let owned = catalog.sequences().filter(|s| s.owner.is_some_and(|(owner, _)| owner == table));
    owned.cloned().collect()
}

pub(super) fn truncate(ddl: &mut Ddl<'_>, truncate: &Truncate) -> Result<Tag> {
    // With CASCADE, tables go along whose foreign keys are of these: there are none.
    let Truncate { tables, restart_identity, is_cascade: _ } = truncate;
    ddl.begin("TRUNCATE TABLE")?;
    for target in tables {
        let name = ddl.session.name(&target.name)?;
        let table = ddl.session.view().table(&name)?;
        if let Some(of) = &table.partition_of {
            truncate_partition(ddl, of)?;
            continue;
        }
        if target.is_only && table.partitioning.is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "cannot truncate only a partitioned table",
            )
            .hint("Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly."));
        }
        ddl.lock_table(&table, TreeLock::Exclusive)?;
        ddl.drop_trees(&table)?;
        let mut empty = (*table).clone();
        ddl.new_trees(&mut empty)?;
        ddl.change(|catalog| catalog.put_table(empty))?;
        if *restart_identity {
            for sequence in owned_sequences(ddl, table.oid) {
                ddl.lock_sequence(sequence.oid, TreeLock::Exclusive)?;
                let mut restarted = (*sequence).clone();
                restarted.generation = restarted.generation.wrapping_add(1);
                restarted.first = restarted.start;
                ddl.change(|catalog| catalog.put_sequence(restarted))?;
            }
        }
    }
    tag("TRUNCATE TABLE")
}

/// The name of a sequence as the default of a serial column has it.
fn quoted_name(sequence: &Sequence) -> String {
    format!("'{}.{}'", quote_ident(&sequence.schema), quote_ident(&sequence.name).replace('\'', "''"))
}

/// True if a default draws from a sequence.
fn mentions(default: &str, sequence: &Sequence) -> bool {
    default.contains(&quoted_name(sequence))
        || default.contains(&format!("'{}'", quote_ident(&sequence.name).replace('\'', "''")))
}

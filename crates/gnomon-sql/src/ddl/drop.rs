//! DROP and TRUNCATE.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{Drop, ObjectKind, QualifiedName, Truncate};

use super::{
    Ddl,
    dependents::{Dependents, Object},
    kind_name,
    partition::{drop_partition, truncate_partition},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, Sequence, Table},
        system::SYSTEM_SCHEMAS,
    },
    context::{Name, with_article},
    query::relation_of,
    sink::{Tag, tag},
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
    let mut originals = Vec::with_capacity(names.len());
    for name in names {
        originals.extend(match is_schema {
            true => find_schema(ddl, &name.last().name, *if_exists)?,
            false => find_relation(ddl, name, kind, *if_exists)?,
        });
    }
    drop_all(ddl, &originals, *is_cascade)?;
    tag(what)
}

/// Returns the schema of a name; none if IF EXISTS lets it be missing.
fn find_schema(ddl: &mut Ddl<'_>, name: &str, if_exists: bool) -> Result<Option<Object>> {
    if let Some(schema) = ddl.session.catalog().schema(name) {
        return Ok(Some(Object::Schema(schema.oid)));
    }
    let name = Name { schema: None, name: name.to_owned() };
    if SYSTEM_SCHEMAS.contains(&&*name.name) {
        return Err(needed(&format!("schema {name}")));
    }
    ddl.skip_missing(&name, "schema", if_exists)?;
    Ok(None)
}

/// Returns the relation of a name, which is to be of this kind; none if IF EXISTS lets it be missing.
fn find_relation(
    ddl: &mut Ddl<'_>,
    name: &QualifiedName,
    kind: &str,
    if_exists: bool,
) -> Result<Option<Object>> {
    let name = ddl.session.name(&relation_of(name)?)?;
    let Some(relation) = ddl.session.view().find(&name) else {
        if let Some(known) = name.of_system().filter(|known| known.kind() != kind) {
            return Err(wrong_kind(&name, kind, known.kind()));
        }
        ddl.skip_missing(&name, kind, if_exists)?;
        return Ok(None);
    };
    if relation.kind() != kind {
        return Err(wrong_kind(&name, kind, relation.kind()));
    }
    Ok(Some(match relation {
        Relation::Table(table) => Object::Table(table.oid),
        Relation::Index(table, oid) => Object::Index(table.oid, oid),
        Relation::Sequence(sequence) => Object::Sequence(sequence.oid),
        Relation::View(view) => Object::View(view.oid),
    }))
}

/// Drops objects that a statement names. Without CASCADE, nothing else may depend on them.
fn drop_all(ddl: &mut Ddl<'_>, originals: &[Object], cascade: bool) -> Result<()> {
    for original in originals {
        refuse_required(ddl, original)?;
    }
    let what = match originals {
        [only] => Some(only.describe(ddl)?),
        _ => None,
    };
    drop_dependents(ddl, originals, what.as_deref(), cascade)?;
    originals.iter().try_for_each(|original| remove(ddl, original))
}

/// Drops what depends on objects that `what` describes; without CASCADE, fails if anything does.
pub(super) fn drop_dependents(
    ddl: &mut Ddl<'_>,
    originals: &[Object],
    what: Option<&str>,
    cascade: bool,
) -> Result<()> {
    let dependents = Dependents::of(ddl, originals)?;
    dependents.admit(ddl, what, cascade)?;
    dependents.objects.iter().try_for_each(|object| remove(ddl, object))
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

/// Fails for a part of an object that goes only with that.
fn refuse_required(ddl: &mut Ddl<'_>, object: &Object) -> Result<()> {
    let (what, owner) = match object {
        Object::Index(oid, index) => {
            let catalog = ddl.session.catalog();
            let Some(table) = catalog.table_by_oid(*oid) else { return Ok(()) };
            let Some(index) = table.index(*index) else { return Ok(()) };
            let owner = match table.whole_index(index) {
                Some(whole) => format!("index {}", whole.name),
                None if index.constraint => format!("constraint {} on table {}", index.name, table.name),
                None => return Ok(()),
            };
            (format!("index {}", index.name), owner)
        }
        Object::Sequence(oid) => {
            let catalog = ddl.session.catalog();
            let Some(sequence) = catalog.sequence_by_oid(*oid) else { return Ok(()) };
            let Some((table, position)) = sequence.owner else { return Ok(()) };
            let column = catalog.table_by_oid(table).and_then(|table| table.columns.get(position));
            let is_identity = column
                .is_some_and(|column| column.identity.is_some_and(|identity| identity.sequence == *oid));
            if !is_identity {
                return Ok(());
            }
            (object.describe(ddl)?, Object::Column(table, position).describe(ddl)?)
        }
        _ => return Ok(()),
    };
    let message = format!("cannot drop {what} because {owner} requires it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .hint(format!("You can drop {owner} instead.")))
}

/// Takes an object out, which may have gone with another one.
fn remove(ddl: &mut Ddl<'_>, object: &Object) -> Result<()> {
    let catalog = ddl.session.catalog();
    let table = |oid: &Oid| catalog.table_by_oid(*oid).cloned();
    match object {
        Object::Schema(oid) => {
            let oid = *oid;
            ddl.change(|catalog| {
                catalog.put_comment((oid, 0), None);
                catalog.remove_schema(oid);
            })
        }
        Object::Table(oid) => table(oid).map_or(Ok(()), |table| drop_table(ddl, &table)),
        Object::Index(oid, index) => match table(oid) {
            Some(table) => {
                ddl.lock_table(&table, TreeLock::Exclusive)?;
                remove_index(ddl, &table, *index).map(drop)
            }
            None => Ok(()),
        },
        Object::Sequence(oid) => {
            ddl.lock_sequence(*oid, TreeLock::Exclusive)?;
            ddl.change(|catalog| catalog.remove_sequence(*oid))
        }
        Object::View(oid) => ddl.change(|catalog| catalog.remove_view(*oid)),
        Object::Procedure(oid) => ddl.change(|catalog| catalog.remove_procedure(*oid)),
        Object::Default(oid, position) => change_table(ddl, table(oid), |table| {
            table.columns[*position].default = None;
        }),
        Object::Check(oid, name) => change_table(ddl, table(oid), |table| {
            table.checks.retain(|check| check.name != *name);
        }),
        // ALTER TABLE takes them out.
        Object::Column(..) | Object::Key(..) => Ok(()),
    }
}

fn change_table(ddl: &mut Ddl<'_>, table: Option<Arc<Table>>, change: impl FnOnce(&mut Table)) -> Result<()> {
    let Some(table) = table else { return Ok(()) };
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    let mut changed = Arc::unwrap_or_clone(table);
    change(&mut changed);
    ddl.change(|catalog| catalog.put_table(changed)).map(drop)
}

fn drop_table(ddl: &mut Ddl<'_>, table: &Arc<Table>) -> Result<()> {
    ddl.refuse_in_use(table, "DROP TABLE")?;
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

/// Takes an index other than the primary key out of its table, which is locked.
pub(super) fn remove_index(ddl: &mut Ddl<'_>, table: &Arc<Table>, oid: Oid) -> Result<Arc<Table>> {
    let mut changed = (**table).clone();
    if let Some(at) = changed.indexes.iter().position(|index| index.oid == oid) {
        let index = changed.indexes.remove(at);
        ddl.drop_index_trees(table, &index)?;
    }
    ddl.change(|catalog| catalog.put_table(changed))
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
        ddl.refuse_in_use(&table, "TRUNCATE")?;
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

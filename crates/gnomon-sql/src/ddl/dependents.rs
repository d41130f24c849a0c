//! The objects that depend on others: without CASCADE they keep these from being dropped, with it they go too.
//!
//! Views, defaults, CHECKs and procedures depend on the relations that their texts name; what is part of an object goes
//! with it in any case. Dependents are found and told of in the order that PostgreSQL has: depth first, from the newest
//! object to the oldest, each after its own dependents, and the list is read from its end. An object is told to depend
//! on the one by which it was found first.

use std::{collections::BTreeSet, sync::Arc};

use super::{Ddl, check::names_column, moved::Place, partition::with_partitions};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Index, Oid, Table, View},
        system::{relations_of_expression, relations_of_query},
    },
    context::{Name, query_of},
    functions::quote_ident,
    query::{Binder, expr::on_deep_stack},
    types::Type,
};

/// An object that others can depend on, or that can depend on others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Schema(Oid),
    Table(Oid),
    /// A column of a table, by its position.
    Column(Oid, usize),
    /// An index, after its table.
    Index(Oid, Oid),
    /// A key constraint, by its table and its index.
    Key(Oid, Oid),
    Sequence(Oid),
    View(Oid),
    Procedure(Oid),
    /// The default of a column.
    Default(Oid, usize),
    /// A CHECK, by its table and its name.
    Check(Oid, String),
}

/// An object that goes, and why.
struct Doomed {
    object: Object,
    /// True if it is part of another one that goes.
    is_part: bool,
    /// The object by which it was found; none if the statement names it.
    on: Option<String>,
}

/// The objects that depend on those that a statement drops.
pub(super) struct Dependents {
    /// In the order in which they can be dropped.
    pub(super) objects: Vec<Object>,
    /// Each with the object that it depends on, as messages describe them, in the order of messages.
    described: Vec<(String, String)>,
}

impl Dependents {
    /// Finds what depends on objects, apart from these and their parts.
    pub(super) fn of(ddl: &mut Ddl<'_>, originals: &[Object]) -> Result<Dependents> {
        let uses = Uses::of(ddl)?;
        let mut search = Search { ddl, uses, doomed: Vec::new(), entered: Vec::new() };
        for original in originals {
            search.enter(original, false, None)?;
        }
        let Search { ddl, doomed, .. } = search;
        let obstructs =
            |doomed: &&Doomed| doomed.on.is_some() && !doomed.is_part && !originals.contains(&doomed.object);
        let found: Vec<&Doomed> = doomed.iter().filter(obstructs).collect();
        let mut described = Vec::with_capacity(found.len());
        for Doomed { object, on, .. } in found.iter().rev() {
            described.push((object.describe(ddl)?, on.clone().unwrap_or_default()));
        }
        Ok(Dependents { objects: found.iter().map(|doomed| doomed.object.clone()).collect(), described })
    }

    /// Takes note of them for the notice of CASCADE; without CASCADE, fails if there are any. `what` is dropped.
    pub(super) fn admit(&self, ddl: &mut Ddl<'_>, what: Option<&str>, cascade: bool) -> Result<()> {
        if self.described.is_empty() {
            return Ok(());
        }
        if cascade {
            ddl.dropped.extend(self.described.iter().map(|(object, _)| object.clone()));
            return Ok(());
        }
        let lines = self.described.iter().map(|(object, used)| format!("{object} depends on {used}"));
        let message = match what {
            Some(what) => format!("cannot drop {what} because other objects depend on it"),
            None => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .detail(lines.collect::<Vec<_>>().join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }
}

/// A search for dependents.
struct Search<'d, 'a> {
    ddl: &'d mut Ddl<'a>,
    uses: Uses,
    doomed: Vec<Doomed>,
    /// The objects whose dependents are looked for.
    entered: Vec<Object>,
}

impl Search<'_, '_> {
    fn enter(&mut self, object: &Object, is_part: bool, on: Option<&str>) -> Result<()> {
        if let Some(known) = self.doomed.iter_mut().find(|known| known.object == *object) {
            known.is_part |= is_part;
            return Ok(());
        }
        if self.entered.contains(object) {
            return Ok(());
        }
        self.entered.push(object.clone());
        let this = object.describe(self.ddl)?;
        let catalog = self.ddl.session.catalog();
        let mut next: Vec<(Object, bool)> = parts(self.ddl, &catalog, object)?;
        for user in self.uses.users(self.ddl, object)? {
            if next.iter().all(|(known, _)| *known != user) {
                next.push((user, false));
            }
        }
        next.sort_by_key(|(object, _)| std::cmp::Reverse(object.age(&catalog)));
        for (object, is_part) in next {
            on_deep_stack(|| self.enter(&object, is_part, Some(&this)))?;
        }
        self.entered.pop();
        self.doomed.push(Doomed { object: object.clone(), is_part, on: on.map(str::to_owned) });
        Ok(())
    }
}

/// Returns what belongs to an object: each with true if it is part of it, and with false if it must be told of.
fn parts(ddl: &Ddl<'_>, catalog: &Catalog, object: &Object) -> Result<Vec<(Object, bool)>> {
    let mut found = Vec::new();
    match object {
        Object::Schema(oid) => {
            let schema = catalog.schemas().find(|schema| schema.oid == *oid).map(|schema| &*schema.name);
            let is_in = |name: &str| Some(name) == schema;
            let tables = catalog.tables().filter(|table| is_in(&table.schema));
            found.extend(tables.map(|table| (Object::Table(table.oid), false)));
            let views = catalog.views().filter(|view| is_in(&view.schema));
            found.extend(views.map(|view| (Object::View(view.oid), false)));
            let sequences = catalog.sequences().filter(|sequence| is_in(&sequence.schema));
            found.extend(sequences.map(|sequence| (Object::Sequence(sequence.oid), false)));
            let procedures = catalog.procedures().filter(|procedure| is_in(&procedure.schema));
            found.extend(procedures.map(|procedure| (Object::Procedure(procedure.oid), false)));
        }
        Object::Table(oid) => {
            let Some(table) = catalog.table_by_oid(*oid) else { return Ok(found) };
            let partitions = catalog.partitions_of(table).map(|partition| Object::Table(partition.oid));
            found.extend(partitions.map(|partition| (partition, true)));
            found.extend(table.all_indexes().map(|index| (of_index(table, index), true)));
            // The defaults and checks of a partition are its table's.
            if table.partition_of.is_none() {
                let columns = table.live_columns().filter(|(_, column)| column.default.is_some());
                found.extend(columns.map(|(position, _)| (Object::Default(*oid, position), true)));
                let checks = table.checks.iter().map(|check| Object::Check(*oid, check.name.clone()));
                found.extend(checks.map(|check| (check, true)));
            }
            found.extend(owned(catalog, *oid, None).map(|sequence| (sequence, true)));
        }
        Object::Column(oid, position) => {
            let Some(table) = catalog.table_by_oid(*oid) else { return Ok(found) };
            let Some(column) = table.columns.get(*position) else { return Ok(found) };
            let partitions = catalog.partitions_of(table);
            found.extend(partitions.map(|partition| (Object::Column(partition.oid, *position), true)));
            let indexes = table.all_indexes().filter(|index| index.depends_on(*position));
            found.extend(indexes.map(|index| (of_index(table, index), true)));
            if table.partition_of.is_none() {
                found.extend(column.default.is_some().then_some((Object::Default(*oid, *position), true)));
                for check in &table.checks {
                    if names_column(&check.expression, &column.name)? {
                        found.push((Object::Check(*oid, check.name.clone()), true));
                    }
                }
            }
            found.extend(owned(catalog, *oid, Some(*position)).map(|sequence| (sequence, true)));
        }
        Object::Key(table, index) => found.push((Object::Index(*table, *index), true)),
        Object::Index(oid, index) => {
            let Some(table) = catalog.table_by_oid(*oid) else { return Ok(found) };
            for partition in with_partitions(ddl, table).iter().filter(|partition| partition.oid != *oid) {
                let part = table.index(*index).map(|index| index.of_partition(partition.oid));
                found.extend(part.map(|part| (Object::Index(partition.oid, part), true)));
            }
        }
        Object::Sequence(_) | Object::View(_) | Object::Procedure(_) => {}
        Object::Default(..) | Object::Check(..) => {}
    }
    Ok(found)
}

/// Returns the constraint that an index stands for, or the index.
fn of_index(table: &Table, index: &Index) -> Object {
    match index.constraint {
        true => Object::Key(table.oid, index.oid),
        false => Object::Index(table.oid, index.oid),
    }
}

/// Returns the sequences that a table's columns own, or one of them.
fn owned(catalog: &Catalog, table: Oid, position: Option<usize>) -> impl Iterator<Item = Object> {
    let is_owned = move |owner: (Oid, usize)| owner.0 == table && position.is_none_or(|at| at == owner.1);
    let owned = catalog.sequences().filter(move |sequence| sequence.owner.is_some_and(is_owned));
    owned.map(|sequence| Object::Sequence(sequence.oid))
}

impl Object {
    /// Returns a key by which objects that were made later are greater.
    fn age(&self, catalog: &Catalog) -> (Oid, u8, usize) {
        match self {
            Object::Schema(oid)
            | Object::Table(oid)
            | Object::Index(_, oid)
            | Object::Key(_, oid)
            | Object::Sequence(oid)
            | Object::View(oid)
            | Object::Procedure(oid) => (*oid, 0, 0),
            Object::Column(oid, position) => (*oid, 0, *position),
            // They have no numbers of their own, and are made with their tables most times.
            Object::Default(oid, position) => (*oid, 1, *position),
            Object::Check(oid, name) => {
                let checks = catalog.table_by_oid(*oid).map(|table| &table.checks[..]).unwrap_or_default();
                (*oid, 2, checks.iter().position(|check| check.name == *name).unwrap_or(0))
            }
        }
    }

    /// Returns it as messages describe it.
    pub(super) fn describe(&self, ddl: &mut Ddl<'_>) -> Result<String> {
        let catalog = ddl.session.catalog();
        let of_table = |oid: &Oid| match catalog.table_by_oid(*oid) {
            Some(table) => described(ddl, "table", &table.schema, &table.name),
            None => String::new(),
        };
        Ok(match self {
            Object::Schema(oid) => {
                let schema = catalog.schemas().find(|schema| schema.oid == *oid);
                format!("schema {}", schema.map_or_else(String::new, |schema| quote_ident(&schema.name)))
            }
            Object::Table(oid) => of_table(oid),
            Object::Column(oid, position) => {
                format!("column {} of {}", column_name(&catalog, *oid, *position), of_table(oid))
            }
            Object::Index(oid, index) => match catalog.table_by_oid(*oid) {
                Some(table) => {
                    let name = table.index(*index).map_or("", |index| &*index.name);
                    described(ddl, "index", &table.schema, name)
                }
                None => String::new(),
            },
            Object::Key(oid, index) => {
                let table = catalog.table_by_oid(*oid);
                let name = table.and_then(|table| table.index(*index)).map_or("", |index| &*index.name);
                format!("constraint {name} on {}", of_table(oid))
            }
            Object::Sequence(oid) => match catalog.sequence_by_oid(*oid) {
                Some(sequence) => described(ddl, "sequence", &sequence.schema, &sequence.name),
                None => String::new(),
            },
            Object::View(oid) => match catalog.view_by_oid(*oid) {
                Some(view) => described(ddl, "view", &view.schema, &view.name),
                None => String::new(),
            },
            Object::Procedure(oid) => {
                let name = ddl
                    .session
                    .with_types(|types, _| Ok(types.environment.object_name(Type::Regprocedure, *oid)))?;
                format!("function {}", name.unwrap_or_default())
            }
            Object::Default(oid, position) => format!(
                "default value for column {} of {}",
                column_name(&catalog, *oid, *position),
                of_table(oid)
            ),
            Object::Check(oid, name) => format!("constraint {name} on {}", of_table(oid)),
        })
    }
}

fn column_name(catalog: &Catalog, table: Oid, position: usize) -> String {
    let column = catalog.table_by_oid(table).and_then(|table| table.columns.get(position));
    column.map_or_else(String::new, |column| column.name.clone())
}

/// Returns an object's kind and name, with its schema if that is not on the search path.
fn described(ddl: &Ddl<'_>, kind: &str, schema: &str, name: &str) -> String {
    let bare = Name { schema: None, name: name.to_owned() };
    let is_visible = ddl.session.view().find(&bare).is_some_and(|found| Place::of(&found).schema == *schema);
    match is_visible {
        true => format!("{kind} {}", quote_ident(name)),
        false => format!("{kind} {}.{}", quote_ident(schema), quote_ident(name)),
    }
}

/// The relations that kept texts name.
struct Uses {
    views: Vec<(Arc<View>, BTreeSet<Oid>)>,
    others: Vec<(Object, BTreeSet<Oid>)>,
}

impl Uses {
    fn of(ddl: &Ddl<'_>) -> Result<Uses> {
        let catalog = ddl.session.catalog();
        let mut uses = Uses { views: Vec::new(), others: Vec::new() };
        for view in catalog.views() {
            uses.views.push((view.clone(), relations_of_query(&catalog, &query_of(view)?)));
        }
        for table in catalog.tables() {
            for (position, column) in table.live_columns() {
                let default = column.default.as_deref().unwrap_or_default();
                uses.add(&catalog, || Object::Default(table.oid, position), default);
            }
            for check in &table.checks {
                uses.add(&catalog, || Object::Check(table.oid, check.name.clone()), &check.expression);
            }
        }
        for procedure in catalog.procedures() {
            for default in procedure.parameters.iter().filter_map(|parameter| parameter.default.as_deref()) {
                uses.add(&catalog, || Object::Procedure(procedure.oid), default);
            }
        }
        Ok(uses)
    }

    fn add(&mut self, catalog: &Catalog, object: impl FnOnce() -> Object, text: &str) {
        let relations = relations_of_expression(catalog, text);
        if !relations.is_empty() {
            self.others.push((object(), relations));
        }
    }

    /// Returns the objects whose texts name an object.
    fn users(&self, ddl: &mut Ddl<'_>, object: &Object) -> Result<Vec<Object>> {
        let (relation, column) = match object {
            Object::Table(oid) | Object::Index(_, oid) | Object::Sequence(oid) | Object::View(oid) => {
                (*oid, None)
            }
            Object::Column(oid, position) => (*oid, Some(*position)),
            Object::Key(table, index) => return self.views_by_key(ddl, *table, *index),
            Object::Schema(_) | Object::Procedure(_) => return Ok(Vec::new()),
            Object::Default(..) | Object::Check(..) => return Ok(Vec::new()),
        };
        let mut found = Vec::new();
        for (view, _) in self.views.iter().filter(|(_, relations)| relations.contains(&relation)) {
            let is_user = match column {
                Some(column) => uses_column(ddl, view, relation, column)?,
                None => true,
            };
            if is_user {
                found.push(Object::View(view.oid));
            }
        }
        let others = self.others.iter().filter(|(_, names)| column.is_none() && names.contains(&relation));
        found.extend(others.map(|(object, _)| object.clone()));
        Ok(found)
    }
}

impl Uses {
    /// Returns the views whose GROUP BY relies on a key: those that cannot be bound without it.
    fn views_by_key(&self, ddl: &mut Ddl<'_>, oid: Oid, index: Oid) -> Result<Vec<Object>> {
        let catalog = ddl.session.catalog();
        let Some(table) = catalog.table_by_oid(oid) else { return Ok(Vec::new()) };
        if table.partition_of.is_some() || table.primary_key.as_ref().is_none_or(|key| key.oid != index) {
            return Ok(Vec::new());
        }
        let views: Vec<_> = self.views.iter().filter(|(_, relations)| relations.contains(&oid)).collect();
        if views.is_empty() {
            return Ok(Vec::new());
        }
        let mut without = (*catalog).clone();
        without.put_table(Table { primary_key: None, ..(**table).clone() });
        let without = ddl.session.view().with_catalog(Arc::new(without));
        let mut found = Vec::new();
        for (view, _) in views {
            let query = query_of(view)?;
            let bound = ddl
                .session
                .with_types(|types, _| Binder::new(&without, types, &[]).analyse_query(&query).map(drop));
            match bound {
                Ok(()) => {}
                Err(error) if error.state().tells_of_names() => found.push(Object::View(view.oid)),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// True if the query of a view uses the column at a position in a table; also if the query cannot be bound.
fn uses_column(ddl: &mut Ddl<'_>, view: &View, table: Oid, position: usize) -> Result<bool> {
    let uses = query_of(view).and_then(|query| {
        ddl.session.with_types(|types, catalog| {
            let analysis = Binder::new(catalog, types, &[]).analyse_query(&query)?;
            Ok(analysis.uses().clone())
        })
    });
    let number = i16::try_from(position + 1).unwrap_or(0);
    match uses {
        Ok(uses) => Ok(uses.contains(&(table, number))),
        Err(error) if error.state().tells_of_names() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the views that use the column at a position of a table, or of one of its partitions.
pub(super) fn views_of_column(ddl: &mut Ddl<'_>, table: &Arc<Table>, position: usize) -> Result<Vec<Object>> {
    let uses = Uses::of(ddl)?;
    let mut found = Vec::new();
    for relation in with_partitions(ddl, table) {
        let users = uses.users(ddl, &Object::Column(relation.oid, position))?;
        found.extend(users.into_iter().filter(|user| matches!(user, Object::View(_))));
    }
    Ok(found)
}

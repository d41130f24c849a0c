//! The catalog at one moment: immutable, shared by all sessions, replaced as a whole when DDL commits.
//!
//! A transaction that runs DDL works on a copy of its own, which no other transaction sees until it commits
//! ([`super::store`]). Tables, indexes, sequences and views of a schema share one name space, as in PostgreSQL.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use gnomon_engine::Csn;

use super::{
    model::{Constraint, Index, Oid, Procedure, Schema, Sequence, Table, View, row_types},
    statistics::{ColumnStatistics, TableStatistics},
};

/// The first identifier that user objects get.
pub const FIRST_USER_OID: Oid = 16384;
/// `public`, which exists in every database.
pub const PUBLIC_SCHEMA_OID: Oid = 2200;
/// The name of the schema that exists in every database.
pub const PUBLIC_SCHEMA: &str = "public";

/// The object that a name in a schema stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// An index, with the table that it belongs to.
    Index(Arc<Table>, Oid),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// A view.
    View(Arc<View>),
}

impl Relation {
    /// Returns its identifier (`pg_class.oid`).
    pub fn oid(&self) -> Oid {
        match self {
            Relation::Table(table) => table.oid,
            Relation::Index(_, oid) => *oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::View(view) => view.oid,
        }
    }

    /// Returns the word for its kind in PostgreSQL's messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::Index(..) => "index",
            Relation::Sequence(_) => "sequence",
            Relation::View(_) => "view",
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Name {
    Table(Oid),
    Partition(Oid),
    Index { table: Oid, index: Oid },
    PartitionIndex { partition: Oid, index: Oid },
    Sequence(Oid),
    View(Oid),
}

/// The subject of a COMMENT: the object, and the column's number from 1 (0 for the object itself).
pub type CommentKey = (Oid, u32);

/// Stands for the column's number in comments on key constraints, whose identifier is that of their index.
pub const CONSTRAINT_COMMENT: u32 = u32::MAX;

/// Stands, with the identifier of their system catalog in its other bits, for the column's number in comments on
/// objects that the system catalogs define. An empty text is in place of a description that was taken away.
pub const BUILT_IN_COMMENT: u32 = 1 << 31;

/// The key of a setting's value in new sessions: the role, empty for all, and the setting's name.
pub type SettingKey = (String, String);

/// All objects of a database at one moment.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Grows with every commit that changed the catalog: plans made for another version must not be used.
    pub version: u64,
    /// The commit that made this version; statements planned with it read a snapshot that includes that commit.
    pub csn: Csn,
    pub(super) schemas: BTreeMap<Oid, Arc<Schema>>,
    pub(super) tables: BTreeMap<Oid, Arc<Table>>,
    /// The partitions of tables, each as a table by itself.
    partitions: BTreeMap<Oid, Arc<Table>>,
    pub(super) sequences: BTreeMap<Oid, Arc<Sequence>>,
    pub(super) views: BTreeMap<Oid, Arc<View>>,
    pub(super) procedures: BTreeMap<Oid, Arc<Procedure>>,
    pub(super) comments: BTreeMap<CommentKey, Arc<str>>,
    /// Values of settings in new sessions.
    pub(super) settings: BTreeMap<SettingKey, Arc<str>>,
    names: HashMap<String, HashMap<String, Name>>,
    /// The relation of each part that has an identifier: [`Table::identified_parts`], [`View::identified_parts`].
    owners: HashMap<Oid, Oid>,
}

impl Default for Catalog {
    fn default() -> Self {
        let mut catalog = Catalog::empty();
        catalog.put_schema(Schema { oid: PUBLIC_SCHEMA_OID, name: PUBLIC_SCHEMA.into() });
        catalog.put_comment((PUBLIC_SCHEMA_OID, 0), Some("standard public schema"));
        catalog
    }
}

impl Catalog {
    /// A catalog without any schema.
    pub(super) fn empty() -> Catalog {
        Catalog {
            version: 1,
            csn: Csn::default(),
            schemas: BTreeMap::new(),
            tables: BTreeMap::new(),
            partitions: BTreeMap::new(),
            sequences: BTreeMap::new(),
            views: BTreeMap::new(),
            procedures: BTreeMap::new(),
            comments: BTreeMap::new(),
            settings: BTreeMap::new(),
            names: HashMap::new(),
            owners: HashMap::new(),
        }
    }

    /// The schema of this name.
    pub fn schema(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.values().find(|schema| schema.name == name)
    }
    /// All schemas.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }
    /// All tables, in the order of their identifiers.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }
    /// All tables, and the partitions of those that have any.
    pub fn tables_and_partitions(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().chain(self.partitions.values())
    }
    /// The partitions of a table, by their numbers, each as a table by itself.
    pub fn partitions_of<'c>(&'c self, table: &'c Table) -> impl Iterator<Item = &'c Arc<Table>> {
        let partitions = table.partitioning.iter().flat_map(|partitioning| partitioning.partitions.values());
        partitions.filter_map(|partition| self.partitions.get(&partition.oid))
    }
    /// All sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }
    /// All views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }
    /// All procedures.
    pub fn procedures(&self) -> impl Iterator<Item = &Arc<Procedure>> {
        self.procedures.values()
    }
    /// The procedure with this identifier.
    pub fn procedure_by_oid(&self, oid: Oid) -> Option<&Arc<Procedure>> {
        self.procedures.get(&oid)
    }
    /// The procedure of this name in this schema.
    pub fn procedure(&self, schema: &str, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures.values().find(|procedure| procedure.name == name && procedure.schema == schema)
    }
    /// The comments on an object and its parts.
    pub fn comments_on(&self, object: Oid) -> impl Iterator<Item = (CommentKey, &Arc<str>)> {
        self.comments.range((object, 0)..=(object, u32::MAX)).map(|(key, text)| (*key, text))
    }
    /// All comments.
    pub fn comments(&self) -> impl Iterator<Item = (CommentKey, &Arc<str>)> {
        self.comments.iter().map(|(key, text)| (*key, text))
    }
    /// The table, or partition of one, with this identifier.
    pub fn table_by_oid(&self, oid: Oid) -> Option<&Arc<Table>> {
        self.tables.get(&oid).or_else(|| self.partitions.get(&oid))
    }
    /// The view with this identifier.
    pub fn view_by_oid(&self, oid: Oid) -> Option<&Arc<View>> {
        self.views.get(&oid)
    }
    /// The sequence with this identifier.
    pub fn sequence_by_oid(&self, oid: Oid) -> Option<&Arc<Sequence>> {
        self.sequences.get(&oid)
    }
    /// The relation that a part of it belongs to: an index or a constraint, a rule, a type of rows.
    pub fn owner(&self, part: Oid) -> Option<Oid> {
        self.owners.get(&part).copied()
    }
    /// The index with this identifier, with its table or the partition of one.
    pub fn index_by_oid(&self, oid: Oid) -> Option<(&Arc<Table>, &Index)> {
        let table = self.table_by_oid(self.owner(oid)?)?;
        Some((table, table.index(oid)?))
    }
    /// The constraint with this identifier, with its table or the partition of one.
    pub fn constraint_by_oid(&self, oid: Oid) -> Option<(&Arc<Table>, Constraint<'_>)> {
        let table = self.table_by_oid(self.owner(oid)?)?;
        let constraint = table.constraints().find(|constraint| constraint.oid(table) == Some(oid))?;
        Some((table, constraint))
    }
    /// The view with the rule of this identifier.
    pub fn view_by_rule(&self, rule: Oid) -> Option<&Arc<View>> {
        self.view_by_oid(self.owner(rule)?).filter(|view| view.rule_oid() == rule)
    }

    /// The relation of this name in this schema.
    pub fn relation(&self, schema: &str, name: &str) -> Option<Relation> {
        Some(match *self.names.get(schema)?.get(name)? {
            Name::Table(oid) => Relation::Table(self.tables.get(&oid)?.clone()),
            Name::Partition(oid) => Relation::Table(self.partitions.get(&oid)?.clone()),
            Name::Index { table, index } => Relation::Index(self.tables.get(&table)?.clone(), index),
            Name::PartitionIndex { partition, index } => {
                Relation::Index(self.partitions.get(&partition)?.clone(), index)
            }
            Name::Sequence(oid) => Relation::Sequence(self.sequences.get(&oid)?.clone()),
            Name::View(oid) => Relation::View(self.views.get(&oid)?.clone()),
        })
    }

    /// True if any relation of this schema has this name.
    pub fn has_relation(&self, schema: &str, name: &str) -> bool {
        self.names.get(schema).is_some_and(|names| names.contains_key(name))
    }

    /// True if a table of the schema has a constraint of this name.
    pub fn has_constraint(&self, schema: &str, name: &str) -> bool {
        self.tables().any(|table| table.schema == schema && table.constraint(name).is_some())
    }

    /// True if the schema has no relations and no procedures.
    pub fn schema_is_empty(&self, schema: &str) -> bool {
        self.names.get(schema).is_none_or(HashMap::is_empty)
            && !self.procedures.values().any(|procedure| procedure.schema == schema)
    }

    /// The relations of a schema.
    pub fn relations_of(&self, schema: &str) -> Vec<Relation> {
        let mut names: Vec<&String> = self.names.get(schema).into_iter().flat_map(HashMap::keys).collect();
        names.sort();
        names.into_iter().filter_map(|name| self.relation(schema, name)).collect()
    }

    /// Adds a schema, or replaces the one with its identifier.
    pub fn put_schema(&mut self, schema: Schema) {
        self.names.entry(schema.name.clone()).or_default();
        self.schemas.insert(schema.oid, Arc::new(schema));
    }
    /// Takes a schema out, which must be empty.
    pub fn remove_schema(&mut self, oid: Oid) {
        if let Some(schema) = self.schemas.remove(&oid) {
            self.names.remove(&schema.name);
        }
    }

    /// Adds a table with its indexes, or replaces the one with its identifier.
    pub fn put_table(&mut self, table: Table) -> Arc<Table> {
        debug_assert!(table.partition_of.is_none(), "a partition is a part of its table's entry");
        self.forget_parts_of_table(table.oid);
        if let Some(old) = self.tables.get(&table.oid) {
            let gone: Vec<Oid> = old.parts().filter(|part| table.parts().all(|kept| kept != *part)).collect();
            self.comments.retain(|key, _| !gone.contains(&key.0));
        }
        let names = self.names.entry(table.schema.clone()).or_default();
        names.insert(table.name.clone(), Name::Table(table.oid));
        for index in table.primary_key.iter().chain(&table.indexes) {
            names.insert(index.name.clone(), Name::Index { table: table.oid, index: index.oid });
        }
        self.owners.extend(table.identified_parts().map(|part| (part, table.oid)));
        let table = Arc::new(table);
        for (number, partition) in table.partitioning.iter().flat_map(|partitioning| &partitioning.partitions)
        {
            names.insert(partition.name.clone(), Name::Partition(partition.oid));
            if let Some(alone) = table.partition(*number, |name| names.contains_key(name)) {
                for index in alone.all_indexes() {
                    let part = Name::PartitionIndex { partition: partition.oid, index: index.oid };
                    names.insert(index.name.clone(), part);
                }
                self.owners.extend(alone.identified_parts().map(|part| (part, alone.oid)));
                self.partitions.insert(partition.oid, Arc::new(alone));
            }
        }
        self.tables.insert(table.oid, table.clone());
        table
    }
    /// Gives a table the statistics of its rows.
    pub fn put_statistics(&mut self, oid: Oid, statistics: TableStatistics) {
        if let Some(table) = self.tables.get(&oid) {
            let analyzed = Table { statistics: Some(Arc::new(statistics)), ..(**table).clone() };
            self.put_table(analyzed);
        }
    }
    /// Takes a table out, with its indexes and comments.
    pub fn remove_table(&mut self, oid: Oid) {
        self.forget_parts_of_table(oid);
        if let Some(table) = self.tables.remove(&oid) {
            let gone: Vec<Oid> = table.parts().chain([oid]).collect();
            self.comments.retain(|key, _| !gone.contains(&key.0));
        }
    }

    /// Takes out the names and identifiers of a table and of its parts, and its partitions.
    fn forget_parts_of_table(&mut self, oid: Oid) {
        if let Some(table) = self.tables.get(&oid)
            && let Some(names) = self.names.get_mut(&table.schema)
        {
            forget(&mut self.owners, table.identified_parts());
            names.remove(&table.name);
            for index in table.primary_key.iter().chain(&table.indexes) {
                names.remove(&index.name);
            }
            for partition in
                table.partitioning.iter().flat_map(|partitioning| partitioning.partitions.values())
            {
                names.remove(&partition.name);
                let Some(alone) = self.partitions.remove(&partition.oid) else { continue };
                forget(&mut self.owners, alone.identified_parts());
                for index in alone.all_indexes() {
                    names.remove(&index.name);
                }
            }
        }
    }

    /// Adds a sequence, or replaces the one with its identifier.
    pub fn put_sequence(&mut self, sequence: Sequence) -> Arc<Sequence> {
        if let Some(old) = self.sequences.get(&sequence.oid)
            && let Some(names) = self.names.get_mut(&old.schema)
        {
            names.remove(&old.name);
        }
        self.names
            .entry(sequence.schema.clone())
            .or_default()
            .insert(sequence.name.clone(), Name::Sequence(sequence.oid));
        let sequence = Arc::new(sequence);
        self.sequences.insert(sequence.oid, sequence.clone());
        sequence
    }
    /// Takes a sequence out.
    pub fn remove_sequence(&mut self, oid: Oid) {
        if let Some(sequence) = self.sequences.remove(&oid) {
            if let Some(names) = self.names.get_mut(&sequence.schema) {
                names.remove(&sequence.name);
            }
            self.comments.retain(|key, _| key.0 != oid);
        }
    }

    /// Adds a view, or replaces the one with its identifier.
    pub fn put_view(&mut self, view: View) {
        if let Some(old) = self.views.get(&view.oid)
            && let Some(names) = self.names.get_mut(&old.schema)
        {
            names.remove(&old.name);
        }
        self.names.entry(view.schema.clone()).or_default().insert(view.name.clone(), Name::View(view.oid));
        self.owners.extend(view.identified_parts().map(|part| (part, view.oid)));
        self.views.insert(view.oid, Arc::new(view));
    }
    /// Takes a view out.
    pub fn remove_view(&mut self, oid: Oid) {
        if let Some(view) = self.views.remove(&oid) {
            forget(&mut self.owners, view.identified_parts());
            if let Some(names) = self.names.get_mut(&view.schema) {
                names.remove(&view.name);
            }
            self.comments.retain(|key, _| key.0 != oid);
        }
    }

    /// Adds a procedure, or replaces the one with its identifier.
    pub fn put_procedure(&mut self, procedure: Procedure) {
        self.procedures.insert(procedure.oid, Arc::new(procedure));
    }
    /// Takes a procedure out.
    pub fn remove_procedure(&mut self, oid: Oid) {
        self.procedures.remove(&oid);
        self.comments.retain(|key, _| key.0 != oid);
    }

    /// Sets or removes what a setting is in new sessions of a role; an empty name stands for all roles.
    pub fn put_setting(&mut self, role: String, name: String, value: Option<&str>) {
        match value {
            Some(value) => drop(self.settings.insert((role, name), value.into())),
            None => drop(self.settings.remove(&(role, name))),
        }
    }
    /// Removes what all settings are in new sessions of a role.
    pub fn remove_settings(&mut self, role: &str) {
        self.settings.retain(|(of, _), _| of != role);
    }
    /// Returns names and values of the settings of new sessions that are stored for this role alone (empty: for all).
    pub fn settings_of<'c>(&'c self, role: &'c str) -> impl Iterator<Item = (&'c str, &'c str)> {
        let own = self.settings.iter().filter(move |((of, _), _)| of == role);
        own.map(|((_, name), value)| (&**name, &**value))
    }

    /// Sets or removes a comment.
    pub fn put_comment(&mut self, key: CommentKey, text: Option<&str>) {
        match text {
            Some(text) => {
                self.comments.insert(key, text.into());
            }
            None => {
                self.comments.remove(&key);
            }
        }
    }
    /// The comment on an object, or on a column of it.
    pub fn comment(&self, key: CommentKey) -> Option<&str> {
        self.comments.get(&key).map(|text| &**text)
    }
}

/// Takes parts out of the owners of parts.
fn forget(owners: &mut HashMap<Oid, Oid>, parts: impl Iterator<Item = Oid>) {
    for part in parts {
        owners.remove(&part);
    }
}

impl Table {
    /// True if it was analyzed when it had rows. One that had none has filled since then, most likely.
    pub fn is_analyzed(&self) -> bool {
        self.statistics.as_ref().is_some_and(|statistics| statistics.rows > 0.0)
    }
    /// The statistics of a column, if it was analyzed and is as it was then.
    pub fn column_statistics(&self, position: usize) -> Option<&ColumnStatistics> {
        let column = self.columns.get(position).filter(|column| !column.dropped)?;
        let statistics = self.statistics.as_ref()?.columns.get(&position)?;
        (statistics.ty == column.ty).then_some(statistics)
    }
    /// The index with this identifier, the primary key's too.
    pub fn index(&self, oid: Oid) -> Option<&Index> {
        self.all_indexes().find(|index| index.oid == oid)
    }
    /// The identifiers of its indexes, its constraints and the types of its rows.
    pub fn identified_parts(&self) -> impl Iterator<Item = Oid> {
        let indexes = self.all_indexes().map(|index| index.oid);
        let constraints = self.constraints().filter_map(|constraint| constraint.oid(self));
        indexes.chain(constraints).chain(row_types(self.oid))
    }
    /// Its indexes, the primary key's first.
    pub fn all_indexes(&self) -> impl Iterator<Item = &Index> {
        self.primary_key.iter().chain(&self.indexes)
    }
    /// The position of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| !column.dropped && column.name == name)
    }
    /// The columns that were not dropped, with their positions.
    pub fn live_columns(&self) -> impl Iterator<Item = (usize, &super::model::Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }
}

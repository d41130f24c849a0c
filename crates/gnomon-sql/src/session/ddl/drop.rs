//! DROP, TRUNCATE, and the renaming of relations.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use sqlparser::ast::{ObjectName, Truncate, TruncateIdentityOption};

use super::super::{
    Session,
    connection::Tag,
    view::{Name, query_of, with_article},
};
use super::{notice, partition::refuse_partition, refuse_taken, skip_missing, tag};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, Procedure, Sequence, Table, View},
    },
    functions::quote_ident,
    query::plan_query,
};

impl Session {
    pub(super) fn drop_objects(
        &mut self,
        kind: &'static str,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<Tag> {
        let what = format!("DROP {}", kind.to_uppercase());
        self.begin_ddl(&what)?;
        for name in names {
            let name = self.name(name)?;
            if kind == "schema" {
                self.drop_schema(&name, if_exists, cascade, notices)?;
                continue;
            }
            let Some(relation) = self.view().find(&name) else {
                skip_missing(&name, kind, if_exists, notices)?;
                continue;
            };
            if relation.kind() != kind {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not {}", name.name, with_article(kind)),
                )
                .hint(format!(
                    "Use DROP {} to remove {}.",
                    relation.kind().to_uppercase(),
                    with_article(relation.kind())
                )));
            }
            self.drop_relation(relation, cascade, notices)?;
        }
        tag(what)
    }

    fn drop_relation(&mut self, relation: Relation, cascade: bool, notices: &mut Vec<Notice>) -> Result<()> {
        match relation {
            Relation::Table(table) => self.drop_table(&table, cascade, notices),
            Relation::Index(table, oid) => self.drop_index(&table, oid),
            Relation::Sequence(sequence) => self.drop_sequence(&sequence, cascade, notices),
            Relation::View(view) => self.drop_view(&view, cascade, notices),
        }
    }

    fn drop_table(&mut self, table: &Arc<Table>, cascade: bool, notices: &mut Vec<Notice>) -> Result<()> {
        for relation in self.with_partitions(table) {
            let what = format!("table {}", relation.name);
            self.drop_dependent_views(relation.oid, &what, None, cascade, notices)?;
        }
        if let Some(of) = &table.partition_of {
            return self.drop_partition(of);
        }
        self.lock_table(table, TreeLock::Exclusive)?;
        self.drop_trees(table)?;
        let owned: Vec<Oid> = self.owned_sequences(table.oid).iter().map(|sequence| sequence.oid).collect();
        owned.iter().try_for_each(|sequence| self.lock_sequence(*sequence, TreeLock::Exclusive))?;
        let oid = table.oid;
        self.change(|catalog| {
            catalog.remove_table(oid);
            for sequence in owned {
                catalog.remove_sequence(sequence);
            }
        })
    }

    fn drop_index(&mut self, table: &Arc<Table>, oid: Oid) -> Result<()> {
        let Some(index) = table.index(oid) else { return Ok(()) };
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
        self.lock_table(table, TreeLock::Exclusive)?;
        self.remove_index(table, oid).map(drop)
    }

    /// Takes an index other than the primary key out of its table, which is locked.
    pub(super) fn remove_index(&mut self, table: &Arc<Table>, oid: Oid) -> Result<Arc<Table>> {
        let mut changed = (**table).clone();
        if let Some(at) = changed.indexes.iter().position(|index| index.oid == oid) {
            let index = changed.indexes.remove(at);
            self.drop_index_trees(table, &index)?;
        }
        self.change(|catalog| {
            catalog.put_comment((oid, 0), None);
            catalog.put_table(changed)
        })
    }

    fn drop_sequence(&mut self, sequence: &Sequence, cascade: bool, notices: &mut Vec<Notice>) -> Result<()> {
        let uses = |table: &Table, position: usize| {
            table.columns.get(position).is_some_and(|column| {
                column.identity.is_some_and(|identity| identity.sequence == sequence.oid)
                    || column.default.as_deref().is_some_and(|default| mentions(default, sequence))
            })
        };
        let catalog = self.catalog();
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
                notices.push(notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!(
                        "drop cascades to default value for column {} of table {}",
                        column.name, table.name
                    ),
                ));
                self.lock_table(table, TreeLock::Exclusive)?;
                let mut changed = match self.catalog().table_by_oid(table.oid) {
                    Some(table) => (**table).clone(),
                    None => continue,
                };
                changed.columns[position].default = None;
                self.change(|catalog| catalog.put_table(changed))?;
            }
        }
        let oid = sequence.oid;
        self.lock_sequence(oid, TreeLock::Exclusive)?;
        self.change(|catalog| catalog.remove_sequence(oid))
    }

    pub(super) fn drop_view(&mut self, view: &View, cascade: bool, notices: &mut Vec<Notice>) -> Result<()> {
        self.drop_dependent_views(view.oid, &format!("view {}", view.name), None, cascade, notices)?;
        let oid = view.oid;
        self.change(|catalog| catalog.remove_view(oid))
    }

    /// Fails if views use a relation (or one of its columns), or with CASCADE drops them.
    pub(super) fn drop_dependent_views(
        &mut self,
        oid: Oid,
        what: &str,
        column: Option<&str>,
        cascade: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let dependent = self.views_using(oid, column)?;
        self.drop_views(dependent, what, cascade, notices)
    }

    /// Drops the views of a table whose queries no longer hold, since GROUP BY has relied on the primary key that the
    /// table had; without CASCADE the statement fails.
    pub(super) fn drop_views_that_fail(
        &mut self,
        oid: Oid,
        what: &str,
        cascade: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let mut dependent = Vec::new();
        for view in self.views_using(oid, None)? {
            let query = query_of(&view)?;
            if self.with_types(|types, catalog| plan_query(&query, catalog, types, &[])).is_err() {
                dependent.push(view);
            }
        }
        self.drop_views(dependent, what, cascade, notices)
    }

    fn drop_views(
        &mut self,
        dependent: Vec<Arc<View>>,
        what: &str,
        cascade: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let Some(first) = dependent.first() else { return Ok(()) };
        if !cascade {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {what} because other objects depend on it"),
            )
            .detail(format!("view {} depends on {what}", first.name))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for view in dependent {
            if self.catalog().views().any(|known| known.oid == view.oid) {
                notices.push(notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("drop cascades to view {}", view.name),
                ));
                self.drop_view(&view, true, notices)?;
            }
        }
        Ok(())
    }

    fn drop_schema(
        &mut self,
        name: &Name,
        if_exists: bool,
        cascade: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let Some(schema) = self.catalog().schema(&name.name).cloned() else {
            return skip_missing(name, "schema", if_exists, notices);
        };
        let catalog = self.catalog();
        if !catalog.schema_is_empty(&schema.name) {
            let relations = catalog.relations_of(&schema.name);
            if !cascade {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop schema {} because other objects depend on it", schema.name),
                )
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let of_schema = |procedure: &&Arc<Procedure>| procedure.schema == schema.name;
            let procedures: Vec<Oid> =
                catalog.procedures().filter(of_schema).map(|procedure| procedure.oid).collect();
            for oid in procedures {
                self.change(|catalog| catalog.remove_procedure(oid))?;
            }
            for relation in relations {
                // A relation that went with an earlier one is gone already; indexes and owned sequences go with theirs.
                let present = |session: &Session, oid: Oid| session.view().relation_name(oid).is_some();
                let oid = match &relation {
                    // They go with their tables, which are in the same schema.
                    Relation::Table(table) if table.partition_of.is_some() => continue,
                    Relation::Table(table) => table.oid,
                    Relation::View(view) => view.oid,
                    Relation::Sequence(sequence) if sequence.owner.is_none() => sequence.oid,
                    Relation::Sequence(_) | Relation::Index(..) => continue,
                };
                if present(self, oid) {
                    self.drop_relation(relation, true, notices)?;
                }
            }
            // Sequences whose owners stand in another schema are left.
            for relation in self.catalog().relations_of(&schema.name) {
                self.drop_relation(relation, true, notices)?;
            }
        }
        self.change(|catalog| {
            catalog.put_comment((schema.oid, 0), None);
            catalog.remove_schema(schema.oid);
        })
    }

    /// The sequences that columns of a table own.
    pub(super) fn owned_sequences(&self, table: Oid) -> Vec<Arc<Sequence>> {
        let catalog = self.catalog();
        let owned = catalog.sequences().filter(|s| s.owner.is_some_and(|(owner, _)| owner == table));
        owned.cloned().collect()
    }

    pub(super) fn truncate(&mut self, truncate: &Truncate) -> Result<Tag> {
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
            return Err(SqlError::unsupported("this form of TRUNCATE"));
        }
        self.begin_ddl("TRUNCATE TABLE")?;
        for target in &truncate.table_names {
            let name = self.name(&target.name)?;
            let table = self.view().table(&name)?;
            if let Some(of) = &table.partition_of {
                self.truncate_partition(of)?;
                continue;
            }
            self.lock_table(&table, TreeLock::Exclusive)?;
            self.drop_trees(&table)?;
            let mut empty = (*table).clone();
            self.new_trees(&mut empty)?;
            self.change(|catalog| catalog.put_table(empty))?;
            if truncate.identity == Some(TruncateIdentityOption::Restart) {
                for sequence in self.owned_sequences(table.oid) {
                    self.lock_sequence(sequence.oid, TreeLock::Exclusive)?;
                    let mut restarted = (*sequence).clone();
                    restarted.generation = restarted.generation.wrapping_add(1);
                    restarted.first = restarted.start;
                    self.change(|catalog| catalog.put_sequence(restarted))?;
                }
            }
        }
        tag("TRUNCATE TABLE")
    }

    pub(super) fn rename_relation(
        &mut self,
        kind: &str,
        name: &ObjectName,
        if_exists: bool,
        to: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<Tag> {
        let what = format!("ALTER {}", kind.to_uppercase());
        self.begin_ddl(&what)?;
        let name = self.name(name)?;
        let view = self.view();
        match view.find(&name) {
            None => skip_missing(&name, "relation", if_exists, notices)?,
            Some(relation) if relation.kind() != kind && kind != "table" => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not {}", name.name, with_article(kind)),
                ));
            }
            Some(Relation::Index(table, oid)) => {
                refuse_taken(&view, &table.schema, to)?;
                let mut changed = (*table).clone();
                let indexes = changed.primary_key.iter_mut().chain(&mut changed.indexes);
                for index in indexes.filter(|index| index.oid == oid) {
                    index.name = to.to_owned();
                }
                self.change(|catalog| catalog.put_table(changed))?;
            }
            Some(Relation::Sequence(sequence)) => {
                refuse_taken(&view, &sequence.schema, to)?;
                self.rename_sequence(&sequence, to)?;
            }
            Some(Relation::View(old)) => {
                refuse_taken(&view, &old.schema, to)?;
                self.refuse_renaming(old.oid, &format!("view {}", old.name))?;
                let renamed = View { name: to.to_owned(), ..(*old).clone() };
                self.change(|catalog| catalog.put_view(renamed))?;
            }
            Some(Relation::Table(table)) => self.rename_table(&table, to)?,
        }
        tag(what)
    }

    pub(super) fn rename_table(&mut self, table: &Arc<Table>, to: &str) -> Result<()> {
        refuse_taken(&self.view(), &table.schema, to)?;
        refuse_partition(table, "renaming")?;
        self.refuse_renaming(table.oid, &format!("table {}", table.name))?;
        self.lock_table(table, TreeLock::Exclusive)?;
        let mut renamed = (**table).clone();
        renamed.name = to.to_owned();
        self.change(|catalog| catalog.put_table(renamed)).map(drop)
    }

    /// Views keep the text of their queries, in which names are not replaced.
    pub(super) fn refuse_renaming(&self, oid: Oid, what: &str) -> Result<()> {
        match self.views_using(oid, None)?.first() {
            None => Ok(()),
            Some(view) => {
                Err(SqlError::unsupported(format!("renaming {what} while view {} uses it", view.name)))
            }
        }
    }

    /// Defaults that draw from the sequence go by its new name.
    fn rename_sequence(&mut self, sequence: &Sequence, to: &str) -> Result<()> {
        self.lock_sequence(sequence.oid, TreeLock::Exclusive)?;
        let mut renamed = sequence.clone();
        renamed.name = to.to_owned();
        let (old_text, new_text) = (quoted_name(sequence), quoted_name(&renamed));
        let catalog = self.catalog();
        for table in catalog.tables() {
            let stale = |default: &Option<String>| {
                default.as_deref().is_some_and(|default| mentions(default, sequence))
            };
            if !table.columns.iter().any(|column| stale(&column.default)) {
                continue;
            }
            self.lock_table(table, TreeLock::Exclusive)?;
            let mut changed = (**table).clone();
            for column in changed.columns.iter_mut().filter(|column| stale(&column.default)) {
                column.default = column.default.take().map(|default| default.replace(&old_text, &new_text));
            }
            self.change(|catalog| catalog.put_table(changed))?;
        }
        self.change(|catalog| catalog.put_sequence(renamed)).map(drop)
    }
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

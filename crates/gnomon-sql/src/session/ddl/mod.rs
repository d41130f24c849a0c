//! DDL: statements that change the catalog.
//!
//! DDL is transactional. The first such statement of a transaction locks the catalog's header, so that transactions
//! with DDL run one after another; it works on a copy of the catalog, which only this transaction sees. The
//! transaction's commit writes what changed and puts the copy in place of the committed one in the same moment
//! (`Session::commit`). A table is locked before it is changed: [`TreeLock::Exclusive`] on its tree keeps all others
//! away, [`TreeLock::Shared`] (index builds) only writers. Statements that waited for such a lock find that the
//! catalog changed, and are planned again. DDL that meets a relation in use gives the catalog back while it waits, and
//! begins again ([`Waiting`]); unless its transaction has changed the catalog before, or is SERIALIZABLE.

mod alter;
pub(super) mod clauses;
mod column;
mod create;
mod drop;
mod index;
mod partition;
mod procedure;
mod sequence;
mod setting;
mod storage;
mod view;

use std::{sync::Arc, time::Duration};

use gnomon_engine::{Isolation, TreeId, TreeLock, TreeOptions};
use sqlparser::ast::{ObjectName, Statement};

use super::{
    Session,
    connection::{Tag, tag},
    dml::{BoundCheck, TableReader, TableWriter, describe_key},
    parse::{Command, on_deepest_stack},
    view::{Name, View},
};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Index, Oid, Table},
        partition::Place,
        store,
    },
    query::ExecContext,
    types::{Datum, Row},
};

/// The longest name, in bytes; longer ones are cut off with a notice, as PostgreSQL does.
pub(super) const NAME_BYTES_MAX: usize = 63;
/// The most columns that a table may have.
pub(super) const COLUMNS_MAX: usize = 1600;
/// The most columns that an index may have.
pub(super) const INDEX_COLUMNS_MAX: usize = 32;

/// The catalog of a transaction that runs DDL.
#[derive(Clone)]
pub(super) struct Ddl {
    /// The committed catalog that it began with; no other transaction changes it meanwhile.
    pub(super) base: Arc<Catalog>,
    /// Its own.
    pub(super) now: Arc<Catalog>,
}

/// How DDL waits for relations that others use.
#[derive(Default)]
pub(super) enum Waiting {
    /// With all that it holds.
    #[default]
    Blocks,
    /// Not at all: it takes note of them, and its statement is undone.
    GivesWay,
    /// It has taken note of these, which it is to lock so before it runs again.
    For(Vec<Lockable>, TreeLock),
}

/// A relation, or a part of it, as the engine locks it.
pub(super) enum Lockable {
    Tree(TreeId),
    Sequence(Oid),
}

impl Lockable {
    fn lock(&self, engine: &mut gnomon_engine::Transaction, lock: TreeLock) -> gnomon_engine::Result<()> {
        match self {
            Lockable::Tree(tree) => engine.lock_tree(*tree, lock),
            Lockable::Sequence(sequence) => engine.lock_name(u64::from(*sequence), lock),
        }
    }
}

/// The conversion of each row when its table is written anew.
pub(super) type Convert<'a> = &'a mut dyn FnMut(&mut ExecContext<'_>, &mut Row) -> Result<()>;

/// A notice of something skipped.
pub(super) fn notice(state: SqlState, message: String) -> Notice {
    SqlError::new(state, message).severity(Severity::Notice)
}

impl Session {
    /// The catalog as this session's transaction sees it.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        match &self.current.ddl {
            Some(ddl) => ddl.now.clone(),
            None => self.shared.catalog(),
        }
    }

    /// Makes the transaction one that runs DDL. `what` names the statement in errors.
    pub(super) fn begin_ddl(&mut self, what: &str) -> Result<()> {
        self.ensure_transaction();
        if self.current.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {what} in a read-only transaction"),
            ));
        }
        self.freshen_catalog()?;
        self.engine_transaction(false, self.shared.catalog().csn)?;
        if self.current.ddl.is_none() {
            store::lock(self.engine()?)?;
            let base = self.shared.catalog();
            self.current.ddl = Some(Ddl { now: base.clone(), base });
        }
        self.engine()?.start_statement()?;
        Ok(())
    }

    /// The engine's transaction, which has been begun.
    pub(super) fn engine(&mut self) -> Result<&mut gnomon_engine::Transaction> {
        self.current.engine.as_mut().ok_or_else(|| {
            SqlError::new(SqlState::INTERNAL_ERROR, "a statement runs outside of a transaction")
        })
    }

    /// Changes the transaction's catalog.
    pub(super) fn change<R>(&mut self, f: impl FnOnce(&mut Catalog) -> R) -> Result<R> {
        let version = self.shared.next_version();
        match &mut self.current.ddl {
            Some(ddl) => {
                let catalog = Arc::make_mut(&mut ddl.now);
                catalog.version = version;
                Ok(f(catalog))
            }
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "the catalog is changed outside of DDL")),
        }
    }

    /// An identifier for a new object.
    pub(super) fn new_oid(&self) -> Result<Oid> {
        self.shared.new_oid()
    }

    /// A name as a statement has it.
    pub(super) fn name(&self, name: &ObjectName) -> Result<Name> {
        Name::of(name, &self.database)
    }

    /// Locks a table against all others (or, shared, against writers) and begins to see what they committed.
    pub(super) fn lock_table(&mut self, table: &Table, lock: TreeLock) -> Result<()> {
        // First the tree that stands for the table, as all do; the others against uses of a partition by its name.
        self.lock_all(table.trees().map(Lockable::Tree).collect(), lock)?;
        Ok(self.engine()?.start_statement()?)
    }

    /// Locks a sequence against draws, and against transactions that have drawn from it and have not ended.
    pub(super) fn lock_sequence(&mut self, sequence: Oid, lock: TreeLock) -> Result<()> {
        self.lock_all(vec![Lockable::Sequence(sequence)], lock)
    }

    /// Locks relations, or takes note of them and fails, as the transaction's DDL waits.
    pub(super) fn lock_all(&mut self, all: Vec<Lockable>, lock: TreeLock) -> Result<()> {
        let gives_way = matches!(self.current.waiting, Waiting::GivesWay);
        let timeout = self.settings.lock_timeout();
        let engine = self.engine()?;
        if gives_way {
            engine.set_lock_timeout(Some(Duration::ZERO));
        }
        let locked = all.iter().try_for_each(|lockable| lockable.lock(engine, lock));
        engine.set_lock_timeout(timeout);
        if gives_way && matches!(locked, Err(gnomon_engine::Error::LockTimeout)) {
            self.current.waiting = Waiting::For(all, lock);
        }
        Ok(locked?)
    }

    /// Runs a DDL statement. While it waits for relations that others use, it does not keep other DDL from running.
    fn run_giving_way(
        &mut self,
        notices: &mut Vec<Notice>,
        mut run: impl FnMut(&mut Session, &mut Vec<Notice>) -> Result<Tag>,
    ) -> Result<Tag> {
        self.ensure_transaction();
        if self.current.read_only || self.current.ddl.is_some() {
            return run(self, notices);
        }
        self.engine_transaction(false, self.shared.catalog().csn)?;
        if self.engine()?.options().isolation == Isolation::Serializable {
            return run(self, notices);
        }
        loop {
            let (noticed, savepoint) = (notices.len(), self.engine()?.savepoint());
            self.current.waiting = Waiting::GivesWay;
            let ran = run(self, notices);
            let waiting = std::mem::take(&mut self.current.waiting);
            let (Err(_), Waiting::For(all, lock)) = (&ran, waiting) else {
                self.engine()?.release_savepoint(savepoint)?;
                return ran;
            };
            notices.truncate(noticed);
            self.current.ddl = None;
            let engine = self.engine()?;
            engine.rollback_to(savepoint)?;
            engine.release_savepoint(savepoint)?;
            for lockable in all {
                match lockable.lock(engine, lock) {
                    // Dropped while this waited.
                    Ok(()) | Err(gnomon_engine::Error::NoSuchTree(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Makes an empty tree for the entries of an index at a place.
    fn create_index_tree(&mut self, table: &Table, index: &Index, place: Place) -> Result<TreeId> {
        let page_size = index.page_size.unwrap_or_default();
        Ok(self.engine()?.create_tree_with(TreeOptions { page_size, placement: table.placement(place) })?)
    }

    /// Gives an index new, empty trees.
    fn new_index_trees(&mut self, table: &Table, index: &mut Index) -> Result<()> {
        for place in table.places() {
            let tree = self.create_index_tree(table, index, place)?;
            match place {
                Place::Whole => index.tree = tree,
                Place::Partition(number) => drop(index.partition_trees.insert(number, tree)),
            }
        }
        Ok(())
    }

    fn drop_index_trees(&mut self, table: &Table, index: &Index) -> Result<()> {
        for place in table.places() {
            self.engine()?.drop_tree(index.tree_at(place)?)?;
        }
        Ok(())
    }

    /// Makes an empty tree for the rows of a table at a place; they are numbered from 1 if it has no primary key.
    fn create_tree(&mut self, table: &Table, place: Place) -> Result<TreeId> {
        let page_size = table.page_size.unwrap_or_default();
        let options = TreeOptions { page_size, placement: table.placement(place) };
        let tree = self.engine()?.create_tree_with(options)?;
        self.shared.row_numbers.register(tree, &self.shared.engine);
        Ok(tree)
    }

    /// Drops the trees of a table and its indexes.
    pub(super) fn drop_trees(&mut self, table: &Table) -> Result<()> {
        for tree in table.trees() {
            self.engine()?.drop_tree(tree)?;
        }
        for index in &table.indexes {
            self.drop_index_trees(table, index)?;
        }
        Ok(())
    }

    /// Gives a table and its indexes new, empty trees. The former ones are left alone.
    pub(super) fn new_trees(&mut self, table: &mut Table) -> Result<()> {
        table.tree = self.create_tree(table, Place::Whole)?;
        for index in table.primary_key.iter_mut().chain(&mut table.indexes) {
            index.tree = table.tree;
            index.partition_trees.clear();
        }
        table.partition_trees.clear();
        let Some(partitioning) = &table.partitioning else {
            for at in 0..table.indexes.len() {
                table.indexes[at].tree = self.create_index_tree(table, &table.indexes[at], Place::Whole)?;
            }
            return Ok(());
        };
        for number in partitioning.partitions.keys().copied().collect::<Vec<_>>() {
            self.new_partition_trees(table, number)?;
        }
        Ok(())
    }

    /// Stores the rows of `old` anew as rows of `new`, which gets trees of its own, and drops the former ones. Each
    /// row passes through `convert` (none: it stays as it is); then the constraints of `new` are checked.
    pub(super) fn rewrite(
        &mut self,
        old: &Arc<Table>,
        mut new: Table,
        convert: Option<Convert<'_>>,
    ) -> Result<Arc<Table>> {
        self.new_trees(&mut new)?;
        let new = Arc::new(new);
        let (old, target) = (old.clone(), new.clone());
        self.with_context(&[], move |shared, ctx, _| {
            let writer = TableWriter::new(shared, ctx.txn, target.clone(), Arc::from([]))?;
            let mut rows = TableReader::new(old.clone());
            let mut convert = convert;
            while let Some((_, mut row)) = rows.next(ctx.txn)? {
                row.resize(target.columns.len(), Datum::Null);
                if let Some(convert) = &mut convert {
                    convert(ctx, &mut row)?;
                }
                refuse_null(&target, &row)?;
                writer
                    .insert(ctx.txn, ctx.types, &row)
                    .map_err(|error| not_unique(error, ctx, &target, &row))?;
            }
            Ok(())
        })?;
        let former = self.catalog().table_by_oid(new.oid).cloned();
        if let Some(former) = former {
            self.drop_trees(&former)?;
        }
        self.change(|catalog| catalog.put_table((*new).clone()))
    }

    /// Checks the rows of a table against a constraint that is to be added.
    pub(super) fn check_rows(
        &mut self,
        table: &Arc<Table>,
        check: impl Fn(&mut ExecContext<'_>, &Row) -> Result<()>,
    ) -> Result<()> {
        let table = table.clone();
        self.with_context(&[], move |_, ctx, _| {
            let mut rows = TableReader::new(table);
            while let Some((_, row)) = rows.next(ctx.txn)? {
                check(ctx, &row)?;
            }
            Ok(())
        })
    }

    /// Runs a DDL statement of the parser crate's; none if it is no DDL.
    pub(super) fn run_ddl(
        &mut self,
        statement: &Statement,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Tag>> {
        if !matches!(
            statement,
            Statement::CreateTable(_)
                | Statement::CreateIndex(_)
                | Statement::AlterTable(_)
                | Statement::Truncate(_)
                | Statement::CreateView(_)
                | Statement::CreateSchema { .. }
        ) {
            return Ok(None);
        }
        with_stack(|| {
            self.run_giving_way(notices, |session, notices| match statement {
                Statement::CreateTable(create) => session.create_table(create, notices),
                Statement::CreateIndex(create) => session.create_index(create, notices),
                Statement::AlterTable(alter) => session.alter_table(alter, notices),
                Statement::Truncate(truncate) => session.truncate(truncate),
                Statement::CreateView(create) => session.create_view(create, notices),
                statement => match clauses::create_schema(statement, session.settings.user(), notices)? {
                    Some((name, if_not_exists)) => session.create_schema(name, if_not_exists, notices),
                    None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement is no DDL")),
                },
            })
        })
    }

    /// Runs a DDL command of this crate's; none if it is no DDL.
    pub(super) fn run_ddl_command(
        &mut self,
        command: &Command,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Tag>> {
        match command {
            Command::CreateSequence { name, if_not_exists, options } => {
                with_stack(|| self.create_sequence(name, *if_not_exists, options, notices))
            }
            Command::AlterSequence { name, if_exists, options } => with_stack(|| {
                self.run_giving_way(notices, |session, notices| {
                    session.alter_sequence(name, *if_exists, options, notices)
                })
            }),
            Command::Rename { kind, name, if_exists, to } => with_stack(|| {
                self.run_giving_way(notices, |session, notices| {
                    session.rename_relation(kind, name, *if_exists, to, notices)
                })
            }),
            Command::Drop { kind, names, if_exists, cascade, concurrently } => {
                if *concurrently {
                    let why = "DROP INDEX waits for the transactions that use the table";
                    clauses::no_effect(notices, "CONCURRENTLY", why);
                }
                with_stack(|| {
                    self.run_giving_way(notices, |session, notices| {
                        session.drop_objects(kind, names, *if_exists, *cascade, notices)
                    })
                })
            }
            Command::CreateProcedure(create) => with_stack(|| self.create_procedure(create)),
            Command::DropProcedures { procedures, if_exists } => {
                with_stack(|| self.drop_procedures(procedures, *if_exists, notices))
            }
            Command::SettingDefault { what, role, name, values } => {
                self.setting_default(what, role.as_deref(), name.as_deref(), values.as_deref()).map(Some)
            }
            Command::Comment { kind, name, text } => {
                with_stack(|| self.comment(kind, name, text.as_deref(), notices))
            }
            _ => Ok(None),
        }
    }
}

/// Runs DDL, which works on what the catalog keeps.
fn with_stack(run: impl FnOnce() -> Result<Tag>) -> Result<Option<Tag>> {
    on_deepest_stack(run).map(Some)
}

/// Fails if a row has a NULL where the table has none.
fn refuse_null(table: &Table, row: &[Datum]) -> Result<()> {
    for (column, value) in table.columns.iter().zip(row) {
        if column.not_null && !column.dropped && value.is_null() {
            return Err(SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!("column \"{}\" of relation \"{}\" contains null values", column.name, table.name),
            )
            .table(&table.schema, &table.name)
            .column(&column.name));
        }
    }
    Ok(())
}

/// A violation met while an index is built, as PostgreSQL words it.
fn not_unique(error: SqlError, ctx: &ExecContext<'_>, table: &Table, row: &[Datum]) -> SqlError {
    let index = match error.report().constraint.as_deref() {
        Some(name) if error.state() == SqlState::UNIQUE_VIOLATION => {
            table.all_indexes().find(|index| index.name == name)
        }
        _ => None,
    };
    match index {
        Some(index) => could_not_build(ctx, table, index, row),
        None => error,
    }
}

fn could_not_build(ctx: &ExecContext<'_>, table: &Table, index: &Index, row: &[Datum]) -> SqlError {
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .detail(format!("Key {} is duplicated.", describe_key(ctx.types, table, index, row)))
        .table(&table.schema, &table.name)
        .constraint(&index.name)
}

/// A check that a row breaks when it is added to a table.
fn violated(table: &Table, check: &BoundCheck) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!("check constraint \"{}\" of relation \"{}\" is violated by some row", check.name, table.name),
    )
    .table(&table.schema, &table.name)
    .constraint(&check.name)
}

/// A name cut to the longest that names may be.
pub(super) fn shorten(name: &str, bytes_max: usize) -> &str {
    let mut end = name.len().min(bytes_max);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// A name for an object that was given none: `table_column_suffix`, with a number if that is taken. The longer of
/// table and column is shortened first, as PostgreSQL's `makeObjectName` does.
pub(super) fn choose_name(table: &str, columns: &str, suffix: &str, taken: impl Fn(&str) -> bool) -> String {
    (0u32..)
        .map(|attempt| {
            let suffix = if attempt == 0 { suffix.to_owned() } else { format!("{suffix}{attempt}") };
            let separators = 1 + usize::from(!columns.is_empty());
            let room = NAME_BYTES_MAX.saturating_sub(suffix.len() + separators);
            let (mut table_bytes, mut column_bytes) = (table.len(), columns.len());
            while table_bytes + column_bytes > room {
                if table_bytes > column_bytes {
                    table_bytes -= 1;
                } else {
                    column_bytes -= 1;
                }
            }
            let (table, columns) = (shorten(table, table_bytes), shorten(columns, column_bytes));
            if columns.is_empty() {
                format!("{table}_{suffix}")
            } else {
                format!("{table}_{columns}_{suffix}")
            }
        })
        .find(|name| !taken(name))
        .unwrap_or_default()
}

/// The relation of this name if it exists, else an error or, with IF EXISTS, a notice.
pub(super) fn skip_missing(
    name: &Name,
    kind: &str,
    if_exists: bool,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    if !if_exists {
        return Err(name.missing(kind));
    }
    notices.push(notice(
        SqlState::SUCCESSFUL_COMPLETION,
        format!("{kind} \"{}\" does not exist, skipping", name.name),
    ));
    Ok(())
}

/// Fails if a relation of this name exists in the schema.
pub(super) fn refuse_taken(view: &View, schema: &str, name: &str) -> Result<()> {
    if view.catalog.has_relation(schema, name) {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_as_postgresql_does() {
        let none = |_: &str| false;
        assert_eq!(choose_name("t", "a_b", "key", none), "t_a_b_key");
        assert_eq!(choose_name("t", "", "pkey", none), "t_pkey");
        assert_eq!(choose_name("t", "a", "seq", |name| name == "t_a_seq"), "t_a_seq1");
        let long = choose_name(&"t".repeat(60), &"c".repeat(40), "check", none);
        assert_eq!(long.len(), NAME_BYTES_MAX);
        assert!(long.ends_with("_check"));
        assert_eq!(shorten("äöü", 3), "ä");
    }
}

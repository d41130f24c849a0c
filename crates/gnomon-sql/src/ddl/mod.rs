//! DDL: statements that change the catalog.
//!
//! DDL is transactional. The first such statement of a transaction locks the catalog's header, so that transactions
//! with DDL run one after another; it works on a copy of the catalog, which only this transaction sees. The
//! transaction's commit writes what changed and puts the copy in place of the committed one in the same moment
//! (`SessionContext::commit`). A table is locked before it is changed: [`TreeLock::Exclusive`] on its tree keeps all others
//! away, [`TreeLock::Shared`] (index builds) only writers. Statements that waited for such a lock find that the
//! catalog changed, and are planned again. DDL that meets a relation in use gives the catalog back while it waits, and
//! begins again ([`Waiting`]); unless its transaction has changed the catalog before, or is SERIALIZABLE.

mod absent;
mod alter;
mod alter_column;
mod analyze;
mod attach;
mod check;
mod clauses;
mod cluster;
mod column;
mod comment;
mod constraint;
mod create;
mod dependents;
mod drop;
mod extension;
mod fixed_names;
mod identity;
mod index;
mod like;
mod moved;
mod partition;
mod procedure;
mod reindex;
mod rename;
mod schema;
mod sequence;
mod setting;
mod storage;
mod trees;
mod view;

pub(crate) use analyze::analyze;
pub(crate) use reindex::words_in_block as reindex_words_in_block;

use std::{sync::Arc, time::Duration};

use gnomon_engine::{Isolation, Transaction, TreeId, TreeLock};
use gnomon_parser::ast::{CreateTableAs, Ident, ObjectKind, Statement};

pub(crate) use create::{TableQuery, TableSource, free_name};

use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Catalog, Relation,
        model::{Oid, Table},
    },
    context::{Name, SessionContext, View},
    dml::{BoundCheck, TableLoader, TableReader, TableWriter, missing_column},
    query::ExecContext,
    settings::maintenance_bytes,
    sink::Tag,
    syntax::on_deepest_stack,
    types::{Datum, Row},
};

/// The most columns that a table may have.
const COLUMNS_MAX: usize = 1600;
/// The most columns that an index may have.
const INDEX_COLUMNS_MAX: usize = 32;

/// How DDL waits for relations that others use.
#[derive(Default)]
enum Waiting {
    /// With all that it holds.
    #[default]
    Blocks,
    /// Not at all: it takes note of them, and its statement is undone.
    GivesWay,
    /// It has taken note of these, which it is to lock so before it runs again.
    For(Vec<Lockable>, TreeLock),
}

/// A relation, or a part of it, as the engine locks it.
enum Lockable {
    Tree(TreeId),
    Sequence(Oid),
}

impl Lockable {
    fn lock(&self, engine: &mut Transaction, lock: TreeLock) -> gnomon_engine::Result<()> {
        match self {
            Lockable::Tree(tree) => engine.lock_tree(*tree, lock),
            Lockable::Sequence(sequence) => engine.lock_name(u64::from(*sequence), lock),
        }
    }
}

/// The conversion of each row when its table is written anew.
type Convert<'a> = &'a mut dyn FnMut(&mut ExecContext<'_>, &mut Row) -> Result<()>;

/// Creates a table that a query fills.
pub(crate) fn create_table_as(
    session: &mut SessionContext,
    create: &CreateTableAs,
    source: TableSource<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Tag> {
    let mut ddl = Ddl::new(session, notices);
    on_deepest_stack(|| ddl.giving_way(|ddl| create::create_table_as(ddl, create, &source)))
}

/// Runs a DDL statement but CREATE TABLE AS; none if it is no DDL.
pub(crate) fn run(
    session: &mut SessionContext,
    statement: &Statement,
    notices: &mut Vec<Notice>,
) -> Result<Option<Tag>> {
    let mut ddl = Ddl::new(session, notices);
    // It works on what the catalog keeps.
    let ran = on_deepest_stack(|| run_any(&mut ddl, statement));
    ddl.tell_dropped();
    ran
}

fn run_any(ddl: &mut Ddl<'_>, statement: &Statement) -> Result<Option<Tag>> {
    let ran = match statement {
        Statement::CreateTable(create) => ddl.giving_way(|ddl| create::create_table(ddl, create)),
        Statement::CreateIndex(create) => ddl.giving_way(|ddl| index::create_index(ddl, create)),
        Statement::CreateView(create) => ddl.giving_way(|ddl| view::create_view(ddl, create)),
        Statement::CreateSchema(create) => ddl.giving_way(|ddl| schema::create_schema(ddl, create)),
        Statement::CreateExtension(create) => extension::create_extension(ddl.notices, create),
        Statement::CreateSequence(create) => sequence::create_sequence(ddl, create),
        Statement::CreateProcedure(create) => procedure::create_procedure(ddl, create),
        Statement::AlterTable(alter) => ddl.giving_way(|ddl| alter::alter(ddl, alter)),
        Statement::AlterSequence(alter) => ddl.giving_way(|ddl| sequence::alter_sequence(ddl, alter)),
        Statement::Rename(rename) => ddl.giving_way(|ddl| rename::rename(ddl, rename)),
        Statement::Reindex(reindex) => ddl.giving_way(|ddl| reindex::reindex(ddl, reindex)),
        Statement::Cluster(cluster) => ddl.giving_way(|ddl| cluster::cluster(ddl, cluster)),
        Statement::Truncate(truncate) => ddl.giving_way(|ddl| drop::truncate(ddl, truncate)),
        Statement::Drop(drop) => ddl.giving_way(|ddl| drop::drop_objects(ddl, drop)),
        Statement::DropAbsent(drop) => absent::drop_absent(ddl, drop),
        Statement::DropRoutine(drop) => procedure::drop_procedures(ddl, drop),
        Statement::AlterOwner(alter) => alter::alter_owner(ddl, alter),
        Statement::SettingDefault(default) => setting::setting_default(ddl, default),
        Statement::Comment(comment) => comment::comment(ddl, comment),
        _ => return Ok(None),
    };
    ran.map(Some)
}

/// A DDL statement at work: the session that it runs in, with a catalog of the transaction's own, and its notices.
struct Ddl<'a> {
    session: &'a mut SessionContext,
    notices: &'a mut Vec<Notice>,
    waiting: Waiting,
    /// The objects that CASCADE has dropped, as notices describe them.
    dropped: Vec<String>,
}

impl<'a> Ddl<'a> {
    fn new(session: &'a mut SessionContext, notices: &'a mut Vec<Notice>) -> Ddl<'a> {
        Ddl { session, notices, waiting: Waiting::default(), dropped: Vec::new() }
    }

    /// Tells of the objects that CASCADE has dropped: by one notice, as PostgreSQL does.
    fn tell_dropped(&mut self) {
        let lines: Vec<String> =
            self.dropped.drain(..).map(|dropped| format!("drop cascades to {dropped}")).collect();
        let notice = |message: String| Notice::note(SqlState::SUCCESSFUL_COMPLETION, message);
        match &lines[..] {
            [] => {}
            [one] => self.notices.push(notice(one.clone())),
            all => {
                let message = format!("drop cascades to {} other objects", all.len());
                self.notices.push(notice(message).detail(all.join("\n")));
            }
        }
    }

    /// Makes the transaction one that runs DDL. `what` names the statement in errors.
    fn begin(&mut self, what: &str) -> Result<()> {
        self.session.ensure_transaction();
        self.session.refuse_read_only(what)?;
        self.session.freshen_catalog()?;
        self.session.engine_transaction(false, self.session.shared.catalog().csn)?;
        self.session.own_catalog()?;
        self.session.engine()?.start_statement()?;
        Ok(())
    }

    /// Changes the transaction's catalog.
    fn change<R>(&mut self, change: impl FnOnce(&mut Catalog) -> R) -> Result<R> {
        self.session.change_catalog(change)
    }

    /// Locks a table against all others (or, shared, against writers) and begins to see what they committed.
    fn lock_table(&mut self, table: &Table, lock: TreeLock) -> Result<()> {
        // First the tree that stands for the table, as all do; the others against uses of a partition by its name.
        self.lock_all(table.trees().map(Lockable::Tree).collect(), lock)?;
        Ok(self.session.engine()?.start_statement()?)
    }

    /// Fails if an open query of the session reads a table or a partition of it. `what` names the statement.
    fn refuse_in_use(&self, table: &Arc<Table>, what: &str) -> Result<()> {
        let catalog = self.session.catalog();
        let mut relations = [table].into_iter().chain(catalog.partitions_of(table));
        let Some(used) = relations.find(|relation| self.session.client.reads(relation.oid)) else {
            return Ok(());
        };
        let message = format!(
            "cannot {what} \"{}\" because it is being used by active queries in this session",
            used.name
        );
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }

    /// Tells by a notice that an object is missing; without IF EXISTS, or if it is one of the system's, fails.
    fn skip_missing(&mut self, name: &Name, kind: &str, if_exists: bool) -> Result<()> {
        let missing = self.session.view().missing(name, kind);
        if !if_exists || missing.state() == SqlState::INSUFFICIENT_PRIVILEGE {
            return Err(missing);
        }
        // ALTER says only the name.
        let message = match missing.state() {
            SqlState::INVALID_SCHEMA_NAME if kind != "relation" => missing.report().message.clone(),
            _ => format!("{kind} \"{}\" does not exist", name.name),
        };
        self.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping")));
        Ok(())
    }

    /// Locks a sequence against draws, and against transactions that have drawn from it and have not ended.
    fn lock_sequence(&mut self, sequence: Oid, lock: TreeLock) -> Result<()> {
        self.lock_all(vec![Lockable::Sequence(sequence)], lock)
    }

    /// Locks tables that are read, which the catalog's lock keeps from changing.
    fn lock_tables(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        self.lock_all(tables.iter().map(|table| Lockable::Tree(table.tree)).collect(), TreeLock::Access)?;
        self.session.engine()?.start_statement()?;
        self.session.observe(tables.iter())
    }

    /// Locks relations, or takes note of them and fails, as the statement waits.
    fn lock_all(&mut self, all: Vec<Lockable>, lock: TreeLock) -> Result<()> {
        let gives_way = matches!(self.waiting, Waiting::GivesWay);
        let timeout = self.session.settings.lock_timeout();
        let engine = self.session.engine()?;
        if gives_way {
            engine.set_lock_timeout(Some(Duration::ZERO));
        }
        let locked = all.iter().try_for_each(|lockable| lockable.lock(engine, lock));
        engine.set_lock_timeout(timeout);
        if gives_way && matches!(locked, Err(gnomon_engine::Error::LockTimeout)) {
            self.waiting = Waiting::For(all, lock);
        }
        Ok(locked?)
    }

    /// Runs a DDL statement. While it waits for relations that others use, it does not keep other DDL from running.
    fn giving_way(&mut self, mut run: impl FnMut(&mut Ddl<'a>) -> Result<Tag>) -> Result<Tag> {
        self.session.ensure_transaction();
        if self.session.current.read_only || self.session.has_own_catalog() {
            return run(self);
        }
        self.session.engine_transaction(false, self.session.shared.catalog().csn)?;
        if self.session.engine()?.options().isolation == Isolation::Serializable {
            return run(self);
        }
        loop {
            let (noticed, savepoint) = (self.notices.len(), self.session.engine()?.savepoint());
            self.waiting = Waiting::GivesWay;
            let ran = run(self);
            let waiting = std::mem::take(&mut self.waiting);
            let (Err(_), Waiting::For(all, lock)) = (&ran, waiting) else {
                self.session.engine()?.release_savepoint(savepoint)?;
                return ran;
            };
            self.notices.truncate(noticed);
            self.dropped.clear();
            self.session.give_up_own_catalog();
            let engine = self.session.engine()?;
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

    /// Stores the rows of `old` anew as rows of `new`, which gets trees of its own, and drops the former ones. Each
    /// row passes through `convert` (none: it stays as it is); then the constraints of `new` are checked.
    fn rewrite(
        &mut self,
        old: &Arc<Table>,
        mut new: Table,
        convert: Option<Convert<'_>>,
    ) -> Result<Arc<Table>> {
        self.new_trees(&mut new)?;
        let new = Arc::new(new);
        let (old, target) = (old.clone(), new.clone());
        let memory_bytes = maintenance_bytes(&self.session.settings);
        self.session.with_context(&[], move |shared, ctx| {
            let writer = TableWriter::new(shared, ctx.txn, target.clone(), Arc::from([]))?;
            let mut loader = TableLoader::of_rows(ctx, writer, &target.places(), memory_bytes)?;
            let mut rows = TableReader::new(old.clone());
            let mut convert = convert;
            while let Some((_, mut row)) = rows.next(ctx.txn)? {
                row.resize(target.columns.len(), Datum::Null);
                if let Some(convert) = &mut convert {
                    convert(ctx, &mut row)?;
                }
                refuse_null(&target, &row)?;
                loader.add_row(ctx, &row)?;
            }
            loader.finish(ctx)
        })?;
        let former = self.session.catalog().table_by_oid(new.oid).cloned();
        if let Some(former) = former {
            self.drop_trees(&former)?;
        }
        self.change(|catalog| catalog.put_table((*new).clone()))
    }

    /// Checks the rows of a table against a constraint that is to be added.
    fn check_rows(
        &mut self,
        table: &Arc<Table>,
        check: impl Fn(&mut ExecContext<'_>, &Row) -> Result<()>,
    ) -> Result<()> {
        let table = table.clone();
        self.session.with_context(&[], move |_, ctx| {
            let mut rows = TableReader::new(table);
            while let Some((_, row)) = rows.next(ctx.txn)? {
                check(ctx, &row)?;
            }
            Ok(())
        })
    }
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

/// A check that a row breaks when it is added to a table.
fn violated(table: &Table, check: &BoundCheck) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!("check constraint \"{}\" of relation \"{}\" is violated by some row", check.name, table.name),
    )
    .table(&table.schema, &table.name)
    .constraint(&check.name)
}

/// The position of a column, or PostgreSQL's error.
fn column_of(table: &Table, name: &Ident) -> Result<usize> {
    table.column(&name.name).ok_or_else(|| missing_column(table, &name.name))
}

/// A kind of object, as messages and the catalog name it.
fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::Index => "index",
        ObjectKind::Sequence => "sequence",
        ObjectKind::View => "view",
        ObjectKind::MaterializedView => "materialized view",
        ObjectKind::Schema => "schema",
    }
}

/// The error of a statement that is not one of relations of this kind.
fn not_supported_for(relation: &Relation, message: String) -> SqlError {
    let kinds = match relation {
        Relation::Table(_) => "tables",
        Relation::Index(..) => "indexes",
        Relation::Sequence(_) => "sequences",
        Relation::View(_) => "views",
    };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .detail(format!("This operation is not supported for {kinds}."))
}

/// Fails if a relation of this name exists in the schema.
fn refuse_taken(view: &View, schema: &str, name: &str) -> Result<()> {
    if view.catalog.has_relation(schema, name) {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
    }
    Ok(())
}

//! VACUUM, ANALYZE, CHECKPOINT, and LOCK TABLE.

use std::{collections::BTreeSet, sync::Arc};

use gnomon_engine::{Error, TreeLock};
use gnomon_parser::ast::{DefinitionItem, Ident, Lock, LockMode, Maintenance, OptionValue};

use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::{
        Catalog, Relation,
        model::{self, Table},
        system::relations_in_from,
    },
    context::{Company, Name, SessionContext, View, query_of},
    ddl,
    dml::{missing_column, missing_column_of},
    sink::{Tag, tag},
    syntax::{option_is_on, option_text},
};

/// The options of VACUUM.
const VACUUM_OPTIONS: [&str; 10] = [
    "analyze",
    "disable_page_skipping",
    "freeze",
    "full",
    "index_cleanup",
    "parallel",
    "process_toast",
    "skip_locked",
    "truncate",
    "verbose",
];

/// The options of ANALYZE.
const ANALYZE_OPTIONS: [&str; 2] = ["skip_locked", "verbose"];

/// VACUUM: pages are reclaimed all the time. With ANALYZE, statistics are made.
pub(super) fn vacuum(
    session: &mut SessionContext,
    vacuum: &Maintenance,
    notices: &mut Vec<Notice>,
) -> Result<Tag> {
    let Options { on, off } = options_of("VACUUM", vacuum, &VACUUM_OPTIONS)?;
    let of_full = |message: &str| match on.contains(&"full") {
        true => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)),
        false => Ok(()),
    };
    if on.contains(&"parallel") {
        of_full("VACUUM FULL cannot be performed in parallel")?;
    }
    let has_columns = vacuum.tables.iter().any(|(_, columns)| !columns.is_empty());
    if has_columns && !on.iter().any(|name| is_analyze(name)) {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "ANALYZE option must be specified when a column list is provided",
        ));
    }
    if on.contains(&"disable_page_skipping") {
        of_full("VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL")?;
    }
    if off.contains(&"process_toast") {
        of_full("PROCESS_TOAST required with VACUUM FULL")?;
    }
    let tables = find_tables(session, vacuum, "vacuum", notices)?;
    tell_of_options("VACUUM", &on, "space is reclaimed all the time", notices);
    if on.iter().any(|name| is_analyze(name)) {
        ddl::analyze(session, tables, notices)?;
    }
    tag("VACUUM")
}

/// ANALYZE.
pub(super) fn analyze(
    session: &mut SessionContext,
    analyze: &Maintenance,
    notices: &mut Vec<Notice>,
) -> Result<Tag> {
    let Options { on, .. } = options_of("ANALYZE", analyze, &ANALYZE_OPTIONS)?;
    let tables = find_tables(session, analyze, "analyze", notices)?;
    tell_of_options("ANALYZE", &on, "tables are not locked while they are read", notices);
    ddl::analyze(session, tables, notices)?;
    tag("ANALYZE")
}

fn is_analyze(option: &str) -> bool {
    matches!(option, "analyze" | "analyse")
}

/// The names of the options that a statement turns on, and of those that it turns off.
#[derive(Default)]
struct Options<'a> {
    on: Vec<&'a str>,
    off: Vec<&'a str>,
}

/// Returns the options of a statement, each as it is given last.
fn options_of<'a>(verb: &str, statement: &'a Maintenance, known: &[&str]) -> Result<Options<'a>> {
    let mut options = Options::default();
    for option in &statement.options {
        let name = &*option.name.name;
        let is_known = known.contains(&name) || verb == "VACUUM" && is_analyze(name);
        if !is_known {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("unrecognized {verb} option \"{name}\""),
            )
            .at(option.name.position));
        }
        let is_on = match name {
            "parallel" => workers(option)? > 0,
            "index_cleanup" if option_text(option).is_ok_and(|word| word.eq_ignore_ascii_case("auto")) => {
                true
            }
            _ => option_is_on(option)?,
        };
        options.on.retain(|known| *known != name);
        options.off.retain(|known| *known != name);
        if is_on { &mut options.on } else { &mut options.off }.push(name);
    }
    Ok(options)
}

/// Returns the number of workers that the option PARALLEL asks for.
fn workers(option: &DefinitionItem) -> Result<u16> {
    const WORKERS_MAX: u16 = 1024;
    let wrong = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let Some(value) = &option.value else {
        let message = format!("parallel option requires a value between 0 and {WORKERS_MAX}");
        return Err(wrong(&message).at(option.name.position));
    };
    let number: Option<i32> = match value {
        OptionValue::Number(number) => number.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| wrong("parallel requires an integer value"))?;
    u16::try_from(number).ok().filter(|number| *number <= WORKERS_MAX).ok_or_else(|| {
        let message = format!("parallel workers for vacuum must be between 0 and {WORKERS_MAX}");
        wrong(&message).at(option.name.position)
    })
}

/// Tells that options have no effect. VERBOSE, which has nothing to tell, is none of them, nor is ANALYZE.
fn tell_of_options(verb: &str, on: &[&str], why: &str, notices: &mut Vec<Notice>) {
    for option in on.iter().filter(|option| **option != "verbose" && !is_analyze(option)) {
        notices.push(Notice::no_effect(&format!("{verb} option {}", option.to_uppercase()), why));
    }
}

/// Returns the tables, each with the columns that are named; all tables if none is named. Fails if one of them, or a
/// column of it, does not exist. Other relations are passed over with a warning.
fn find_tables(
    session: &SessionContext,
    statement: &Maintenance,
    verb: &str,
    notices: &mut Vec<Notice>,
) -> Result<Vec<(Arc<Table>, Vec<usize>)>> {
    let view = session.view();
    if statement.tables.is_empty() {
        return Ok(view.catalog.tables().map(|table| (table.clone(), Vec::new())).collect());
    }
    let mut found = Vec::new();
    for (name, columns) in &statement.tables {
        let name = session.name(name)?;
        let relation = view.find(&name);
        if let Some(Relation::View(_) | Relation::Sequence(_) | Relation::Index(..)) = &relation {
            let message =
                format!("skipping \"{}\" --- cannot {verb} non-tables or special system tables", name.name);
            notices.push(SqlError::new(SqlState::WARNING, message).severity(Severity::Warning));
            continue;
        }
        if let Some(known) = name.of_system().filter(|known| known.kind() == "table" && relation.is_none()) {
            let is_there = |column: &Ident| known.columns().iter().any(|own| *own.name == *column.name);
            if let Some(column) = columns.iter().find(|column| !is_there(column)) {
                return Err(missing_column_of(&name.name, &column.name));
            }
            continue;
        }
        let table: Arc<Table> = view.table(&name)?;
        let position =
            |column: &Ident| table.column(&column.name).ok_or_else(|| missing_column(&table, &column.name));
        let columns = columns.iter().map(position).collect::<Result<_>>()?;
        found.push((table, columns));
    }
    Ok(found)
}

/// Returns the tables that LOCK TABLE locks: a table, or those of a view; none of a system catalog.
fn tables_to_lock(view: &View, name: &Name) -> Result<Vec<Arc<Table>>> {
    match view.find(name) {
        Some(Relation::Table(table)) => Ok(vec![table]),
        Some(Relation::View(found)) => tables_of_view(&view.catalog, &found),
        Some(other) => Err(not_locked(name, &other)),
        // The rows of a system catalog are made of the snapshot of the statement that reads them: no lock could keep
        // anything from changing them, and none of any mode has to wait.
        None if name.of_system().is_some() => Ok(Vec::new()),
        None => Err(view.missing(name, "relation")),
    }
}

/// Returns the tables that a view reads, through other views too.
fn tables_of_view(catalog: &Catalog, view: &model::View) -> Result<Vec<Arc<Table>>> {
    let (mut tables, mut seen) = (Vec::new(), BTreeSet::new());
    let mut pending = relations_in_from(catalog, &query_of(view)?);
    while let Some(oid) = pending.pop_first() {
        if !seen.insert(oid) {
            continue;
        }
        if let Some(view) = catalog.view_by_oid(oid) {
            pending.extend(relations_in_from(catalog, &query_of(view)?));
        }
        tables.extend(catalog.table_by_oid(oid).cloned());
    }
    Ok(tables)
}

/// LOCK TABLE. The engine's locks on trees conflict as PostgreSQL's modes do.
pub(super) fn lock_tables(session: &mut SessionContext, lock: &Lock, company: Company) -> Result<Tag> {
    if !session.in_block() && company != Company::Text {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "LOCK TABLE can only be used in transaction blocks",
        ));
    }
    let mode = match lock.mode {
        LockMode::AccessShare => TreeLock::Access,
        LockMode::RowShare => TreeLock::IntentionShared,
        LockMode::RowExclusive => TreeLock::IntentionExclusive,
        LockMode::ShareUpdateExclusive => TreeLock::Maintenance,
        LockMode::Share => TreeLock::Shared,
        LockMode::ShareRowExclusive => TreeLock::SharedAlone,
        LockMode::Exclusive => TreeLock::Escalated,
        LockMode::AccessExclusive => TreeLock::Exclusive,
    };
    for relation in &lock.tables {
        let name = session.name(&relation.name)?;
        loop {
            let view = session.view();
            let tables = tables_to_lock(&view, &name)?;
            if relation.is_only && tables.iter().any(|table| table.partitioning.is_some()) {
                let error = SqlError::unsupported("LOCK TABLE ONLY of a partitioned table");
                return Err(error.at(relation.name.position()));
            }
            session.engine_transaction(false, view.catalog.csn)?;
            let timeout = session.settings.lock_timeout();
            let engine = session.engine()?;
            if lock.is_nowait {
                engine.set_lock_timeout(Some(std::time::Duration::ZERO));
            }
            let taken = tables.iter().try_for_each(|table| {
                let locked = table.trees().try_for_each(|tree| engine.lock_tree(tree, mode));
                locked.map_err(|error| (error, &table.name))
            });
            engine.set_lock_timeout(timeout);
            let unchanged = Arc::ptr_eq(&session.catalog(), &view.catalog);
            match taken {
                Ok(()) if unchanged => break,
                Ok(()) => {}
                Err((Error::NoSuchTree(_), _)) if !unchanged => {}
                Err((Error::LockTimeout, table)) if lock.is_nowait => {
                    return Err(SqlError::new(
                        SqlState::LOCK_NOT_AVAILABLE,
                        format!("could not obtain lock on relation \"{table}\""),
                    ));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }
    tag("LOCK TABLE")
}

/// The error of LOCK TABLE for a relation that has no rows of its own.
fn not_locked(name: &Name, relation: &Relation) -> SqlError {
    let kinds = if matches!(relation, Relation::Index(..)) { "indexes" } else { "sequences" };
    let message = format!("cannot lock relation \"{}\"", name.name);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .detail(format!("This operation is not supported for {kinds}."))
}

/// CHECKPOINT.
pub(super) fn checkpoint(session: &SessionContext, notices: &mut Vec<Notice>) -> Result<Tag> {
    match session.shared.engine.checkpoint() {
        Err(Error::Unsupported(_)) => {
            let why = "a database with a log of pages takes checkpoints as its log grows";
            notices.push(Notice::no_effect("CHECKPOINT", why));
        }
        done => done?,
    }
    tag("CHECKPOINT")
}

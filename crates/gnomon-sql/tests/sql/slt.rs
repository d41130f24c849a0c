//! Runs the scripts in `tests/slt` over sessions of a database in memory.
//!
//! `connection NAME` in front of a record runs it in another session of the same database. NULL prints as `NULL`, an
//! empty text as `(empty)`. What follows a line `--data` in a statement is the data of its COPY FROM STDIN; COPY TO
//! returns its lines as rows of one column.

use std::fmt;

use crate::support::Collect;
use gnomon_engine::Database;
use gnomon_sql::{
    SqlError,
    session::{Session, SessionOptions, SqlDatabase},
    types::Type,
};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

struct Connection(Session);

/// The error type of the runner must be an error of its own.
#[derive(Debug)]
struct Failure(SqlError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0.report();
        write!(f, "{}: {}", report.state.0, report.message)?;
        if let Some(detail) = &report.detail {
            write!(f, " DETAIL: {detail}")?;
        }
        if let Some(context) = &report.context {
            write!(f, " CONTEXT: {context}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl DB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut sink = Collect::default();
        let sql = match sql.split_once("\n--data\n") {
            Some((sql, data)) => {
                sink.data = format!("{data}\n").into_bytes();
                sql
            }
            None => sql,
        };
        self.0.execute(sql, &mut sink).map_err(Failure)?;
        if let Some(copied) = sink.copied {
            let rows = String::from_utf8_lossy(&copied).lines().map(|line| vec![line.to_owned()]).collect();
            return Ok(DBOutput::Rows { types: vec![DefaultColumnType::Text], rows });
        }
        Ok(match sink.columns {
            None => DBOutput::StatementComplete(sink.affected),
            Some(columns) => {
                let types = columns.iter().map(|column| kind(column.ty.ty)).collect();
                DBOutput::Rows { types, rows: sink.rows }
            }
        })
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        Some(error.0.state().0.to_owned())
    }
}

fn kind(ty: Type) -> DefaultColumnType {
    match ty {
        Type::Int2 | Type::Int4 | Type::Int8 => DefaultColumnType::Integer,
        Type::Float4 | Type::Float8 | Type::Numeric => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

/// Runs a script, with updates that share locks or without. Without, and with another recovery method than the default,
/// literals are parameters of plans wherever they can be.
fn run(script: &str, semantic_locks: &str) {
    let is_generic = semantic_locks == "off" || std::env::var_os("GNOMON_RECOVERY").is_some();
    let plan_cache_mode = if is_generic { "force_generic_plan" } else { "auto" };
    let engine = Database::in_memory(crate::support::options()).expect("a database in memory");
    let db = SqlDatabase::open(engine).expect("an empty catalog");
    let mut runner = Runner::new(|| {
        let settings = vec![
            ("gnomon.semantic_locks".into(), semantic_locks.into()),
            ("plan_cache_mode".into(), plan_cache_mode.into()),
        ];
        let session =
            db.session(SessionOptions { settings, ..SessionOptions::default() }).expect("a session");
        async move { Ok(Connection(session)) }
    });
    let path = format!("{}/tests/slt/{script}.slt", env!("CARGO_MANIFEST_DIR"));
    if let Err(error) = runner.run_file(&path) {
        panic!("{}", error.display(false));
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { run(stringify!($name), "on"); })*
        mod without_semantic_locks {
            $(#[test] fn $name() { super::run(stringify!($name), "off"); })*
        }
        /// Every script in the folder is run.
        #[test]
        fn all_scripts_are_listed() {
            let listed = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt")).expect("the folder") {
                let name = entry.expect("an entry").file_name().into_string().expect("a name");
                let name = name.strip_suffix(".slt").expect("a script");
                assert!(listed.contains(&name), "{name} is not listed");
            }
        }
    };
}

scripts! {
    access_control_lists, aggregates, alter, alter_passes, analyze, array_parts, basics, blocks, bytes,
    call_notation, collations, columns_of_views, comments, constraints, copy, create_table_as, current_of,
    cursor_errors, cursors, date_orders, date_styles, dates_as_written, dependent_columns, dml, dumps, encodings,
    errors, escape_strings, explain_analyze, expressions, failing_constants, fields, fixed_literals, found_by_oid,
    groups, hashing, identity, index_builds, information_schema, intervals, join_aliases, keyed_values,
    lateral_order, letter_case, like, limits, locked_views, maintenance_options, misused_names, never_computed,
    normal_forms, numerics, object_identity, operator_functions, ordered_sets, outer_joins, page_sizes, parameters,
    partitions, patterns, pg_lsn, polymorphic, postgres, prepared, privileges, procedures, qualified_calls,
    query_access, query_aggregates, query_errors, query_joins, query_levels, query_setops, query_subqueries,
    read_only_views, recursion, references, reg_types, regular_expressions, relation_strings, renaming, results,
    rewritten_indexes, row_addresses, row_checks, row_stars, row_types, savepoints, select_into, semantic_locks,
    sequences, set_functions, sets_in_groups, setting_origins, settings, sizes, snapshots, spellings,
    statement_statistics, statistics, stored, system_columns, system_objects, tables_in_use, templates,
    templates_of_times, ties, time_zones, transaction_numbers, transactions, two_phase, unknown_columns,
    updatable_views, usage_views, view_changes, view_conflicts, view_rows, view_stars, views, whole_rows, windows,
    with
}

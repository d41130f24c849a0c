//! `pg_stat_statements` in the form of version 1.10 of PostgreSQL's extension, which is always there.
//!
//! Nothing counts blocks, the log, or the time of planning by statements, and nothing is compiled: those are zero.

use super::{
    DATABASE, OWNER, SYSTEM_SCHEMA, SYSTEM_SCHEMA_OID, System,
    builder::{Rows, count, oid, string, yes},
    extensions::EXTENSIONS,
};
use crate::types::{Datum, Numeric};

/// `pg_extension`.
pub(super) fn extensions(rows: &mut Rows) {
    for extension in &EXTENSIONS {
        rows.add([
            ("oid", oid(extension.oid)),
            ("extname", string(extension.name)),
            ("extowner", oid(OWNER)),
            ("extnamespace", oid(SYSTEM_SCHEMA_OID)),
            ("extrelocatable", yes(false)),
            ("extversion", string(extension.version)),
        ]);
    }
}

/// `pg_available_extensions`.
pub(super) fn available(rows: &mut Rows) {
    for extension in &EXTENSIONS {
        rows.add([
            ("name", string(extension.name)),
            ("default_version", string(extension.version)),
            ("installed_version", string(extension.version)),
            ("comment", string(extension.comment)),
        ]);
    }
}

/// `pg_available_extension_versions`.
pub(super) fn available_versions(rows: &mut Rows) {
    for extension in &EXTENSIONS {
        rows.add([
            ("name", string(extension.name)),
            ("version", string(extension.version)),
            ("installed", yes(true)),
            ("superuser", yes(true)),
            ("trusted", yes(false)),
            ("relocatable", yes(false)),
            ("schema", string(SYSTEM_SCHEMA)),
            ("comment", string(extension.comment)),
        ]);
    }
}

/// Counts that stay zero.
const ZEROS: [&str; 17] = [
    "plans",
    "shared_blks_hit",
    "shared_blks_read",
    "shared_blks_dirtied",
    "shared_blks_written",
    "local_blks_hit",
    "local_blks_read",
    "local_blks_dirtied",
    "local_blks_written",
    "temp_blks_read",
    "temp_blks_written",
    "wal_records",
    "wal_fpi",
    "jit_functions",
    "jit_inlining_count",
    "jit_optimization_count",
    "jit_emission_count",
];

/// Times that stay zero.
const ZERO_TIMES: [&str; 13] = [
    "total_plan_time",
    "min_plan_time",
    "max_plan_time",
    "mean_plan_time",
    "stddev_plan_time",
    "blk_read_time",
    "blk_write_time",
    "temp_blk_read_time",
    "temp_blk_write_time",
    "jit_generation_time",
    "jit_inlining_time",
    "jit_optimization_time",
    "jit_emission_time",
];

/// `pg_stat_statements`.
pub(super) fn forms(system: System<'_>, rows: &mut Rows) {
    for form in system.state.statements() {
        let zeros = ZEROS.map(|name| (name, Datum::Int8(0)));
        let times = ZERO_TIMES.map(|name| (name, Datum::Float8(0.0)));
        let row = [
            ("userid", oid(OWNER)),
            ("dbid", oid(DATABASE)),
            ("toplevel", yes(true)),
            ("queryid", Datum::Int8(form.id)),
            ("query", string(&*form.text)),
            ("calls", count(form.calls)),
            ("rows", count(form.rows)),
            ("total_exec_time", Datum::Float8(form.total)),
            ("min_exec_time", Datum::Float8(form.min)),
            ("max_exec_time", Datum::Float8(form.max)),
            ("mean_exec_time", Datum::Float8(form.mean)),
            ("stddev_exec_time", Datum::Float8(form.deviation)),
            ("wal_bytes", Datum::Numeric(Numeric::from(0_i64))),
        ];
        rows.add(zeros.into_iter().chain(times).chain(row));
    }
}

/// `pg_stat_statements_info`.
pub(super) fn info(system: System<'_>, rows: &mut Rows) {
    let (evictions, reset) = system.state.statements_info();
    let reset = reset.unwrap_or_else(|| system.state.start_time());
    rows.add([("dealloc", count(evictions)), ("stats_reset", Datum::Timestamptz(reset))]);
}

/// `pg_stat_statements_reset`: forgets what belongs to a user, a database and a form; zero stands for any.
pub(super) fn reset_statements(system: System<'_>, user: u32, database: u32, id: i64) {
    if [0, OWNER].contains(&user) && [0, DATABASE].contains(&database) {
        system.state.reset_statements((id != 0).then_some(id));
    }
}

//! Statistics: the views `pg_stat_*` and `pg_statio_*`, but for `pg_stat_activity`.
//!
//! Counts are those since the database was opened, or since `pg_stat_reset()`: transactions, scans, rows read and
//! written. Nothing counts blocks by relation, nor live and dead rows: these are zero. Of features that Gnomon lacks,
//! such as replication slots, there are no rows.

use super::{
    Analyzed, DATABASE, INFORMATION_SCHEMA, Object, SYSTEM_SCHEMA, System,
    builder::{Rows, count, oid, option, string, yes},
    reference,
};
use crate::{
    catalog::{
        model::{Index, Oid, Table},
        partition::Place,
    },
    executor::{Accesses, ByRelation},
    types::Datum,
};

/// Counts that stay zero in views of tables.
const TABLE_ZEROS: [&str; 6] =
    ["n_tup_hot_upd", "n_live_tup", "n_dead_tup", "vacuum_count", "autovacuum_count", "autoanalyze_count"];

/// Counts that stay zero in `pg_stat_bgwriter`.
const WRITER_ZEROS: [&str; 8] = [
    "checkpoints_timed",
    "checkpoints_req",
    "buffers_checkpoint",
    "buffers_clean",
    "maxwritten_clean",
    "buffers_backend",
    "buffers_backend_fsync",
    "buffers_alloc",
];

/// Counts that stay zero in `pg_stat_database`.
const DATABASE_ZEROS: [&str; 9] = [
    "blks_read",
    "blks_hit",
    "conflicts",
    "temp_files",
    "temp_bytes",
    "deadlocks",
    "sessions_abandoned",
    "sessions_fatal",
    "sessions_killed",
];

/// Which relations a view is about.
#[derive(Clone, Copy)]
struct Kinds {
    users: bool,
    systems: bool,
}

impl Kinds {
    /// The relations that a word in the name of a view says; none if it is no such word.
    fn of(word: &str) -> Option<Kinds> {
        Some(match word {
            "all" => Kinds { users: true, systems: true },
            "user" => Kinds { users: true, systems: false },
            "sys" => Kinds { users: false, systems: true },
            _ => return None,
        })
    }
}

/// Fills a view; those of what Gnomon lacks stay empty.
pub(super) fn statistics(system: System<'_>, view: &str, rows: &mut Rows) {
    let words: Vec<&str> = view.split('_').skip(1).collect();
    match words[..] {
        ["stat", kinds, "tables"] if let Some(kinds) = Kinds::of(kinds) => {
            tables(system, kinds, &system.state.accesses(), false, rows);
        }
        ["stat", "xact", kinds, "tables"] if let Some(kinds) = Kinds::of(kinds) => {
            tables(system, kinds, &system.state.own_accesses(), true, rows);
        }
        ["stat", kinds, "indexes"] if let Some(kinds) = Kinds::of(kinds) => {
            indexes(system, kinds, &["idx_scan", "idx_tup_read", "idx_tup_fetch"], rows);
        }
        ["statio", kinds, "indexes"] if let Some(kinds) = Kinds::of(kinds) => {
            indexes(system, kinds, &["idx_blks_read", "idx_blks_hit"], rows);
        }
        ["statio", kinds, "tables"] if let Some(kinds) = Kinds::of(kinds) => {
            table_blocks(system, kinds, rows)
        }
        ["statio", kinds, "sequences"] if let Some(kinds) = Kinds::of(kinds) => {
            sequences(system, kinds, rows)
        }
        ["stat", "database"] => database(system, rows),
        ["stat", "database", "conflicts"] => {
            let zeros = ["tablespace", "lock", "snapshot", "bufferpin", "deadlock"]
                .map(|name| format!("confl_{name}"));
            let names = [("datid", oid(DATABASE)), ("datname", string(system.state.database()))];
            rows.add(names.into_iter().chain(zeros.iter().map(|name| (name.as_str(), Datum::Int8(0)))));
        }
        ["stat", "bgwriter"] => rows.add(
            WRITER_ZEROS
                .map(|name| (name, Datum::Int8(0)))
                .into_iter()
                .chain(
                    ["checkpoint_write_time", "checkpoint_sync_time"].map(|name| (name, Datum::Float8(0.0))),
                )
                .chain([since(system)]),
        ),
        ["stat", "archiver"] => {
            rows.add([("archived_count", Datum::Int8(0)), ("failed_count", Datum::Int8(0)), since(system)])
        }
        ["stat", "wal"] => log(system, rows),
        ["stat", "gssapi"] => {
            for session in system.state.activities() {
                rows.add([
                    ("pid", Datum::Int4(session.process_id)),
                    ("gss_authenticated", yes(false)),
                    ("encrypted", yes(false)),
                ]);
            }
        }
        ["stat", "progress", "copy"] => progress(system, "COPY FROM", rows),
        ["stat", "progress", "create", "index"] => progress(system, "CREATE INDEX", rows),
        _ => {}
    }
}

/// When statistics that are not of the database alone began.
fn since(system: System<'_>) -> (&'static str, Datum) {
    let since = system.state.usage().reset.unwrap_or_else(|| system.state.start_time());
    ("stats_reset", Datum::Timestamptz(since))
}

/// The accesses to a relation of a table: of a partition, also those at its place in the whole table.
fn accesses(counts: &ByRelation, table: &Table, own: Oid, whole: Option<Oid>) -> Accesses {
    let mut sum = counts.get(&(own, Place::Whole)).copied().unwrap_or_default();
    if let (Some(of), Some(whole)) = (&table.partition_of, whole)
        && let Some(there) = counts.get(&(whole, Place::Partition(of.number)))
    {
        sum.add(there);
    }
    sum
}

fn of_table(counts: &ByRelation, table: &Table) -> Accesses {
    accesses(counts, table, table.oid, Some(table.numbered().oid))
}

fn of_index(counts: &ByRelation, table: &Table, index: &Index) -> Accesses {
    accesses(counts, table, index.oid, table.whole_index(index).map(|whole| whole.oid))
}

/// The tables of users that store rows.
fn stored<'a>(system: System<'a>, kinds: Kinds) -> impl Iterator<Item = &'a Table> {
    let tables = system.catalog().tables_and_partitions();
    tables.map(|table| &**table).filter(move |table| kinds.users && table.partitioning.is_none())
}

/// Identifier, schema and name of the tables that PostgreSQL defines.
fn systems(kinds: Kinds) -> impl Iterator<Item = [(&'static str, Datum); 3]> {
    let tables = reference::RELATIONS.iter().filter(move |relation| kinds.systems && relation.kind == b'r');
    tables.map(|relation| {
        debug_assert!([SYSTEM_SCHEMA, INFORMATION_SCHEMA].contains(&relation.schema));
        [
            ("relid", oid(relation.oid)),
            ("schemaname", string(relation.schema)),
            ("relname", string(relation.name)),
        ]
    })
}

fn names(table: &Table) -> [(&'static str, Datum); 3] {
    [
        ("relid", oid(table.oid)),
        ("schemaname", string(table.schema.as_str())),
        ("relname", string(table.name.as_str())),
    ]
}

fn tables(system: System<'_>, kinds: Kinds, counts: &ByRelation, in_transaction: bool, rows: &mut Rows) {
    let mut add = |names: [(&'static str, Datum); 3],
                   own: Accesses,
                   by_index: Option<Accesses>,
                   analyzed: Option<Analyzed>| {
        let mut row = names.to_vec();
        row.extend([
            ("seq_scan", count(own.scans)),
            ("seq_tup_read", count(own.read)),
            ("idx_scan", option(by_index.map(|sum| count(sum.scans)))),
            ("idx_tup_fetch", option(by_index.map(|sum| count(sum.fetched)))),
            ("n_tup_ins", count(own.inserted)),
            ("n_tup_upd", count(own.updated)),
            ("n_tup_del", count(own.deleted)),
        ]);
        let zeros = if in_transaction { &TABLE_ZEROS[..1] } else { &TABLE_ZEROS[..] };
        row.extend(zeros.iter().map(|name| (*name, Datum::Int8(0))));
        if !in_transaction {
            // Nothing is ever vacuumed.
            row.push(("analyze_count", count(analyzed.map_or(0, |analyzed| analyzed.count))));
            row.push(("last_analyze", option(analyzed.map(|analyzed| Datum::Timestamptz(analyzed.last)))));
            row.push(("n_mod_since_analyze", count(since_analyze(own, analyzed))));
            row.push(("n_ins_since_vacuum", count(own.inserted)));
        }
        rows.add(row);
    };
    for table in stored(system, kinds) {
        let mut by_index = None;
        for index in table.all_indexes() {
            by_index.get_or_insert_with(Accesses::default).add(&of_index(counts, table, index));
        }
        add(names(table), of_table(counts, table), by_index, system.state.analyzed(table.oid));
    }
    systems(kinds).for_each(|names| add(names, Accesses::default(), None, None));
}

/// The changes of a table's rows since it was analyzed last.
fn since_analyze(own: Accesses, analyzed: Option<Analyzed>) -> u64 {
    own.changed.saturating_sub(analyzed.map_or(0, |analyzed| analyzed.changed))
}

fn table_blocks(system: System<'_>, kinds: Kinds, rows: &mut Rows) {
    let zeros = |names: [&'static str; 2]| names.map(|name| (name, Datum::Int8(0)));
    let heap = zeros(["heap_blks_read", "heap_blks_hit"]);
    for table in stored(system, kinds) {
        let indexes = zeros(["idx_blks_read", "idx_blks_hit"]);
        let indexes = indexes.into_iter().filter(|_| table.all_indexes().next().is_some());
        rows.add(names(table).into_iter().chain(heap.clone()).chain(indexes));
    }
    systems(kinds).for_each(|names| rows.add(names.into_iter().chain(heap.clone())));
}

/// The indexes of users; those that PostgreSQL has on its own tables do not exist here.
fn indexes(system: System<'_>, kinds: Kinds, columns: &[&'static str], rows: &mut Rows) {
    let counts = system.state.accesses();
    for table in stored(system, kinds) {
        for index in table.all_indexes() {
            let sum = of_index(&counts, table, index);
            let value = |column: &str| match column {
                "idx_scan" => sum.scans,
                "idx_tup_read" => sum.read,
                "idx_tup_fetch" => sum.fetched,
                _ => 0,
            };
            let own = [("indexrelid", oid(index.oid)), ("indexrelname", string(index.name.as_str()))];
            let counts = columns.iter().map(|column| (*column, count(value(column))));
            rows.add(names(table).into_iter().chain(own).chain(counts));
        }
    }
}

fn sequences(system: System<'_>, kinds: Kinds, rows: &mut Rows) {
    for object in system.objects().filter(|object| kinds.users && matches!(object, Object::Sequence(_))) {
        rows.add([
            ("relid", oid(object.oid())),
            ("schemaname", string(object.schema())),
            ("relname", string(object.name())),
            ("blks_read", Datum::Int8(0)),
            ("blks_hit", Datum::Int8(0)),
        ]);
    }
}

fn database(system: System<'_>, rows: &mut Rows) {
    let usage = system.state.usage();
    let mut sum = Accesses::default();
    let (mut returned, mut fetched) = (0, 0);
    let counts = system.state.accesses();
    for table in stored(system, Kinds { users: true, systems: false }) {
        let own = of_table(&counts, table);
        sum.add(&own);
        returned += own.read;
        for index in table.all_indexes() {
            let by_index = of_index(&counts, table, index);
            returned += by_index.read;
            fetched += by_index.fetched;
        }
    }
    let times =
        ["blk_read_time", "blk_write_time", "session_time", "active_time", "idle_in_transaction_time"];
    let row = [
        ("datid", oid(DATABASE)),
        ("datname", string(system.state.database())),
        ("numbackends", Datum::Int4(i32::try_from(system.state.activities().len()).unwrap_or(i32::MAX))),
        ("xact_commit", count(usage.committed)),
        ("xact_rollback", count(usage.rolled_back)),
        ("tup_returned", count(returned)),
        ("tup_fetched", count(fetched)),
        ("tup_inserted", count(sum.inserted)),
        ("tup_updated", count(sum.updated)),
        ("tup_deleted", count(sum.deleted)),
        ("sessions", count(usage.sessions)),
        ("stats_reset", option(usage.reset.map(Datum::Timestamptz))),
    ];
    let zeros = DATABASE_ZEROS.map(|name| (name, Datum::Int8(0)));
    rows.add(row.into_iter().chain(zeros).chain(times.map(|name| (name, Datum::Float8(0.0)))));
}

/// `pg_stat_wal`: of the engine's log, if it has one.
fn log(system: System<'_>, rows: &mut Rows) {
    let usage = system.state.usage();
    let zeros = ["wal_records", "wal_fpi", "wal_buffers_full", "wal_write"];
    let row = [
        ("wal_bytes", Datum::Numeric(i128::from(usage.log_bytes).into())),
        ("wal_sync", count(usage.log_forces)),
        ("wal_write_time", Datum::Float8(0.0)),
        ("wal_sync_time", Datum::Float8(0.0)),
        ("stats_reset", Datum::Timestamptz(system.state.start_time())),
    ];
    rows.add(row.into_iter().chain(zeros.map(|name| (name, Datum::Int8(0)))));
}

/// The progress of the statements of a kind.
fn progress(system: System<'_>, command: &str, rows: &mut Rows) {
    for statement in system.state.progress().into_iter().filter(|one| one.command == command) {
        let done = count(statement.rows);
        let names = [
            ("pid", Datum::Int4(statement.process_id)),
            ("datid", oid(DATABASE)),
            ("datname", string(system.state.database())),
            ("relid", oid(statement.table)),
            ("command", string(statement.command)),
        ];
        let counts = match command {
            "CREATE INDEX" => vec![("phase", string("building index")), ("tuples_done", done)],
            _ => vec![("tuples_processed", done), ("tuples_excluded", Datum::Int8(0))],
        };
        rows.add(names.into_iter().chain(counts));
    }
}

impl System<'_> {
    /// A function `pg_stat_get_*` of a relation; none if it is not one of them.
    pub(super) fn relation_statistic(&self, function: &str, relation: Oid) -> Option<Datum> {
        let name = function.strip_prefix("pg_stat_get_")?;
        let (counts, name) = match name.strip_prefix("xact_") {
            Some(name) => (self.state.own_accesses(), name),
            None => (self.state.accesses(), name),
        };
        let sum = match self.object(relation) {
            Some(Object::Table(table)) => of_table(&counts, table),
            Some(Object::Index(table, index)) => of_index(&counts, table, index),
            _ => Accesses::default(),
        };
        let analyzed = self.state.analyzed(relation);
        Some(count(match name {
            "numscans" => sum.scans,
            "tuples_returned" => sum.read,
            "tuples_fetched" => sum.fetched,
            "tuples_inserted" | "ins_since_vacuum" => sum.inserted,
            "tuples_updated" => sum.updated,
            "tuples_deleted" => sum.deleted,
            "mod_since_analyze" => since_analyze(sum, analyzed),
            "analyze_count" => analyzed.map_or(0, |analyzed| analyzed.count),
            "last_analyze_time" => {
                return Some(option(analyzed.map(|analyzed| Datum::Timestamptz(analyzed.last))));
            }
            time if time.ends_with("_time") => return Some(Datum::Null),
            _ => 0,
        }))
    }
}

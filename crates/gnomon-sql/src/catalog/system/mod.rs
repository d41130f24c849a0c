//! The system catalog: `pg_catalog` and `information_schema` as tables whose rows are computed, the functions that
//! tell of objects, and the names of objects as values of the reg* types.
//!
//! It promises that what ordinary clients ask (psql's `\d` and tab completion, drivers at connect, tools that reflect
//! a schema) is answered as PostgreSQL 15 would answer it: the same tables with the same columns, built-in objects
//! under their own identifiers, users' objects under theirs ([`FIRST_USER_OID`](super::FIRST_USER_OID) and up).
//!
//! How: [`relation`] gives a `VirtualTable` for a name; when it is scanned, the rows come through the
//! [`Environment`](crate::types::Environment) from [`rows`], which reads the transaction's [`Catalog`] and what else a
//! [`SystemState`] tells. [`call`] runs functions, `names` reads and `display` writes reg* values; `relations`,
//! `objects`, `activity` and `information` compute the rows. `reference` holds what PostgreSQL defines itself. This
//! folder stands above `executor`, whose traits it implements, and below `session`.
//!
//! What it does not do: columns of types that Gnomon lacks have the nearest one (inet is text, a domain of
//! information_schema is the type under it); there is one role beside the predefined ones, the user of the
//! session, which owns everything and may do everything; tables of features that Gnomon lacks are empty.

mod access_rights;
mod activity;
mod analyzed;
mod builder;
mod conformance;
mod definitions;
mod dependencies;
mod display;
mod extensions;
mod facts;
mod functions;
mod grants;
mod identity;
mod information;
mod names;
mod objects;
mod privileges;
mod reference;
mod relations;
mod routines;
mod row_types;
mod sets;
mod shown;
mod sizes;
mod state;
mod statements;
mod statistics;
#[cfg(test)]
mod tests;
mod usage;
mod uses;
mod waiting;

use std::sync::Arc;

use builder::string;
use gnomon_engine::TreeId;
use reference::SystemRelation;

use super::{
    Catalog,
    model::{self, Oid, Sequence},
};
use crate::{
    Result, SqlError, SqlState,
    executor::{ExecContext, VirtualColumn, VirtualTable},
    types::{ColumnType, Datum, Row, Type},
};

pub use display::object_name;
pub use extensions::EXTENSIONS;
pub use functions::call;
pub use names::{object_by_name, quote};
pub use privileges::is_predefined_role;
pub use reference::{Signature, has_function, has_operator, signatures};
pub use shown::{Kept, Style};
pub use state::{
    Activity, AdvisoryLock, Analyzed, CertificateNames, Cluster, ClusterMember, ClusterTransactions,
    ConnectedBy, Cursor, Encryption, PreparedStatement, PreparedTransaction, Setting, StatementProgress,
    StatementStatistics, SystemState, Usage,
};
pub use uses::{relation_of_string, relations_in_from, relations_of_expression, relations_of_query};

/// The schema that is searched first, whatever the search path says.
pub const SYSTEM_SCHEMA: &str = "pg_catalog";
/// The schema of the SQL standard's views.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// The schemas that the system defines.
pub const SYSTEM_SCHEMAS: [&str; 2] = [SYSTEM_SCHEMA, INFORMATION_SCHEMA];

/// Value of `server_version`: the PostgreSQL whose behaviour is followed, then this program's own version.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Gnomon ", env!("CARGO_PKG_VERSION"), ")");

/// `pg_namespace.oid` of `pg_catalog`.
const SYSTEM_SCHEMA_OID: Oid = 11;
/// `pg_namespace.oid` of `information_schema`; PostgreSQL gives it one when a cluster is made.
const INFORMATION_SCHEMA_OID: Oid = 13213;
/// The role that owns everything, and that every user is.
const OWNER: Oid = 10;
/// `pg_database.oid` of the database: that of `postgres` in a new cluster.
const DATABASE: Oid = 5;
/// `pg_tablespace.oid` of `pg_default`, in which the database is.
const DEFAULT_TABLESPACE: Oid = 1663;
/// `pg_tablespace.oid` of `pg_global`, in which is nothing.
const GLOBAL_TABLESPACE: Oid = 1664;

/// The system table of this name; without a schema, of `pg_catalog`.
pub fn relation(schema: Option<&str>, name: &str) -> Option<Arc<dyn VirtualTable>> {
    let relation = reference::relation(schema.unwrap_or(SYSTEM_SCHEMA), name)?;
    Some(Arc::new(SystemTable(relation)))
}

/// A sequence as a table of one row, which tells where it stands.
pub fn sequence(sequence: &Arc<Sequence>) -> Arc<dyn VirtualTable> {
    Arc::new(SequenceTable(sequence.clone()))
}

struct SequenceTable(Arc<Sequence>);

static SEQUENCE_COLUMNS: [VirtualColumn; 3] = [
    VirtualColumn { name: "last_value", ty: ColumnType { ty: Type::Int8, modifier: -1 } },
    VirtualColumn { name: "log_cnt", ty: ColumnType { ty: Type::Int8, modifier: -1 } },
    VirtualColumn { name: "is_called", ty: ColumnType { ty: Type::Bool, modifier: -1 } },
];

impl VirtualTable for SequenceTable {
    fn kind(&self) -> &'static str {
        "sequence"
    }
    fn oid(&self) -> Oid {
        self.0.oid
    }
    fn schema(&self) -> &str {
        &self.0.schema
    }
    fn name(&self) -> &str {
        &self.0.name
    }
    fn columns(&self) -> &[VirtualColumn] {
        &SEQUENCE_COLUMNS
    }
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        ctx.types.environment.rows(self.0.oid)
    }
}

struct SystemTable(&'static SystemRelation);

impl VirtualTable for SystemTable {
    fn kind(&self) -> &'static str {
        if self.0.kind == b'v' { "view" } else { "table" }
    }
    fn oid(&self) -> Oid {
        self.0.oid
    }
    fn schema(&self) -> &str {
        self.0.schema
    }
    fn name(&self) -> &str {
        self.0.name
    }
    fn columns(&self) -> &[VirtualColumn] {
        &self.0.columns
    }
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        ctx.types.environment.rows(self.0.oid)
    }
}

/// The rows of the system table or sequence with this identifier.
///
/// # Errors
/// 42P01 if there is none, and those of the state.
pub fn rows(state: &dyn SystemState, oid: Oid) -> Result<Vec<Row>> {
    if let Some(sequence) = state.catalog().sequence_by_oid(oid) {
        let (value, is_called) = state.position(sequence)?;
        let reserved = state.reserved(sequence);
        return Ok(vec![vec![Datum::Int8(value), Datum::Int8(reserved), Datum::Bool(is_called)]]);
    }
    let Some(relation) = reference::relation_by_oid(oid) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("there is no system table with OID {oid}"),
        ));
    };
    let mut rows = builder::Rows::of(relation);
    let system = System { state };
    if let Some(mut all) = reference::rows(relation) {
        match relation.name {
            "pg_type" => row_types::row_types(system, &mut rows),
            "sql_features" => conformance::mark_missing(relation, &mut all),
            "sql_implementation_info" => conformance::program(&mut rows),
            _ => {}
        }
        all.extend(rows.finish());
        return Ok(all);
    }
    if relation.schema == INFORMATION_SCHEMA {
        information::information(system, relation.name, &mut rows)?;
    } else {
        match relation.name {
            "pg_class" => relations::classes(system, &mut rows),
            "pg_attribute" => relations::attributes(system, &mut rows),
            "pg_attrdef" => relations::defaults(system, &mut rows),
            "pg_index" => relations::indexes(system, &mut rows),
            "pg_inherits" => relations::inheritance(system, &mut rows),
            "pg_partitioned_table" => relations::partitioned_tables(system, &mut rows),
            "pg_constraint" => relations::constraints(system, &mut rows),
            "pg_namespace" => relations::namespaces(system, &mut rows),
            "pg_sequence" => relations::sequences(system, &mut rows),
            "pg_description" => dependencies::descriptions(system, &mut rows),
            "pg_shdescription" => dependencies::shared_descriptions(system, &mut rows),
            "pg_depend" => dependencies::dependencies(system, &mut rows),
            "pg_rewrite" => relations::rewrites(system, &mut rows),
            "pg_tables" => relations::table_list(system, &mut rows),
            "pg_views" => relations::view_list(system, &mut rows),
            "pg_indexes" => relations::index_list(system, &mut rows),
            "pg_sequences" => relations::sequence_list(system, &mut rows)?,
            "pg_proc" => {
                objects::functions(&mut rows);
                objects::procedures(system, &mut rows);
            }
            "pg_database" => objects::databases(system, &mut rows),
            "pg_authid" | "pg_roles" | "pg_user" | "pg_shadow" | "pg_group" => {
                privileges::roles(system, relation.name, &mut rows)
            }
            "pg_auth_members" => privileges::memberships(&mut rows),
            "pg_init_privs" => privileges::initial(system, &mut rows),
            "pg_db_role_setting" => activity::setting_defaults(system, &mut rows),
            "pg_tablespace" => objects::tablespaces(&mut rows),
            "pg_timezone_names" => activity::time_zones(system, &mut rows),
            "pg_timezone_abbrevs" => activity::zone_abbreviations(system, &mut rows),
            "pg_config" => rows.add([
                ("name", string("VERSION")),
                ("setting", string(format!("PostgreSQL {SERVER_VERSION}"))),
            ]),
            "pg_settings" => activity::setting_list(system, &mut rows),
            "pg_stat_activity" => activity::activity_list(system, &mut rows),
            "pg_stat_ssl" => activity::encryption(system, &mut rows),
            "pg_locks" => activity::lock_list(system, &mut rows),
            "gnomon_progress" => activity::progress_list(system, &mut rows),
            "gnomon_cluster" => activity::cluster_list(system, &mut rows),
            "gnomon_cluster_transactions" => activity::cluster_transactions(system, &mut rows),
            "gnomon_locks" => activity::claim_list(system, &mut rows),
            "pg_prepared_statements" => objects::prepared_list(system, &mut rows),
            "pg_prepared_xacts" => objects::prepared_transaction_list(system, &mut rows)?,
            "pg_cursors" => objects::cursor_list(system, &mut rows),
            "pg_extension" => statements::extensions(&mut rows),
            "pg_available_extensions" => statements::available(&mut rows),
            "pg_available_extension_versions" => statements::available_versions(&mut rows),
            "pg_stat_statements" => statements::forms(system, &mut rows),
            "pg_stat_statements_info" => statements::info(system, &mut rows),
            "pg_statistic" => analyzed::statistic(system, &mut rows)?,
            "pg_stats" => analyzed::stats(system, &mut rows)?,
            name if name.starts_with("pg_stat") => statistics::statistics(system, name, &mut rows),
            // Features that Gnomon lacks: there are no such objects.
            _ => {}
        }
    }
    Ok(rows.finish())
}

/// The name of the database, which information_schema calls a catalog.
fn catalog_name(system: System<'_>) -> Datum {
    string(system.state.database())
}

/// Source of the rows of system tables.
#[derive(Clone, Copy)]
struct System<'a> {
    state: &'a dyn SystemState,
}

/// A relation of a user, as pg_class has it.
#[derive(Clone, Copy)]
enum Object<'a> {
    Table(&'a model::Table),
    Index(&'a model::Table, &'a model::Index),
    Sequence(&'a Sequence),
    View(&'a model::View),
}

impl<'a> Object<'a> {
    fn oid(&self) -> Oid {
        match self {
            Object::Table(table) => table.oid,
            Object::Index(_, index) => index.oid,
            Object::Sequence(sequence) => sequence.oid,
            Object::View(view) => view.oid,
        }
    }

    fn name(&self) -> &'a str {
        match self {
            Object::Table(table) => &table.name,
            Object::Index(_, index) => &index.name,
            Object::Sequence(sequence) => &sequence.name,
            Object::View(view) => &view.name,
        }
    }

    fn schema(&self) -> &'a str {
        match self {
            Object::Table(table) | Object::Index(table, _) => &table.schema,
            Object::Sequence(sequence) => &sequence.schema,
            Object::View(view) => &view.schema,
        }
    }
}

impl<'a> System<'a> {
    fn catalog(&self) -> &'a Catalog {
        self.state.catalog()
    }

    /// All relations of users.
    fn objects(&self) -> impl Iterator<Item = Object<'a>> + use<'a> {
        let catalog = self.catalog();
        let tables = catalog.tables().flat_map(|table| {
            let indexes = table.primary_key.iter().chain(&table.indexes);
            let partitions = catalog.partitions_of(table).flat_map(|partition| {
                let parts = partition.all_indexes().map(|index| Object::Index(partition, index));
                std::iter::once(Object::Table(partition)).chain(parts)
            });
            let own = std::iter::once(Object::Table(table));
            own.chain(indexes.map(|index| Object::Index(table, index))).chain(partitions)
        });
        let sequences = catalog.sequences().map(|sequence| Object::Sequence(sequence));
        tables.chain(sequences).chain(catalog.views().map(|view| Object::View(view)))
    }

    fn object(&self, oid: Oid) -> Option<Object<'a>> {
        let catalog = self.catalog();
        let table = catalog.table_by_oid(oid).map(|table| Object::Table(table));
        let index = || catalog.index_by_oid(oid).map(|(table, index)| Object::Index(table, index));
        let sequence = || catalog.sequence_by_oid(oid).map(|sequence| Object::Sequence(sequence));
        let view = || catalog.view_by_oid(oid).map(|view| Object::View(view));
        table.or_else(index).or_else(sequence).or_else(view)
    }

    fn schema_oid(&self, name: &str) -> Option<Oid> {
        match name {
            SYSTEM_SCHEMA => Some(SYSTEM_SCHEMA_OID),
            INFORMATION_SCHEMA => Some(INFORMATION_SCHEMA_OID),
            name => self.catalog().schema(name).map(|schema| schema.oid),
        }
    }

    /// The schemas that are searched, in order, `pg_catalog` first unless the path names it.
    fn searched(&self) -> Vec<&'a str> {
        let path = self.state.search_path().iter().map(String::as_str);
        let known: Vec<&str> = path.filter(|name| self.schema_oid(name).is_some()).collect();
        let implicit = (!known.contains(&SYSTEM_SCHEMA)).then_some(SYSTEM_SCHEMA);
        implicit.into_iter().chain(known).collect()
    }

    /// The identifier of the relation of this name in this schema.
    fn relation_in(&self, schema: &str, name: &str) -> Option<Oid> {
        if schema == SYSTEM_SCHEMA || schema == INFORMATION_SCHEMA {
            return reference::relation(schema, name).map(|relation| relation.oid);
        }
        self.catalog().relation(schema, name).map(|relation| relation.oid())
    }

    /// Schema and name of a relation, a system table too.
    fn relation_name(&self, oid: Oid) -> Option<(&'a str, &'a str)> {
        match reference::relation_by_oid(oid) {
            Some(relation) => Some((relation.schema, relation.name)),
            None => self.object(oid).map(|object| (object.schema(), object.name())),
        }
    }

    /// The last value that a sequence gave out, if it gave any.
    fn last_value(&self, sequence: &Sequence) -> Result<Option<i64>> {
        let (value, is_called) = self.state.position(sequence)?;
        Ok(is_called.then_some(value))
    }
}

/// The identifier of a column's default.
fn default_oid(table: Oid, position: usize) -> Oid {
    model::derived_oid(table, &format!(".{position}"))
}

/// `relfilenode`: the tree in which a table or an index is.
fn tree_number(tree: TreeId) -> Oid {
    u32::try_from(tree.0).unwrap_or(0)
}

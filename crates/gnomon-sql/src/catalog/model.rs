//! The descriptions of tables, indexes and sequences, as every layer above shares them (immutable, behind `Arc`).

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::{PageSize, TreeId};

use super::statistics::TableStatistics;
use crate::{SqlError, SqlState, syntax::with_row_renamed, types::ColumnType};

/// An object identifier as PostgreSQL has it; those of users begin at 16384.
pub type Oid = u32;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its identifier (`pg_class.oid`).
    pub oid: Oid,
    /// Its schema: `public` unless one was created.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns in order of definition. A dropped column stays, so that stored rows keep their positions.
    pub columns: Vec<Column>,
    /// Where its rows are: key is the primary key's columns, or a row number (8 bytes, big-endian) if there is none.
    /// Of a table in partitions it is empty, and stands for the table in locks.
    pub tree: TreeId,
    /// Where the rows of each partition are.
    pub partition_trees: BTreeMap<u16, TreeId>,
    /// How it is partitioned, if it is.
    pub partitioning: Option<Partitioning>,
    /// The table that it is a partition of, if it is one; not stored.
    pub partition_of: Option<PartitionOf>,
    /// True if every partition may read it (WITH (replicated)).
    pub is_replicated: bool,
    /// Its primary key, if it has one: `None` while rows are keyed by row number.
    pub primary_key: Option<Index>,
    /// Its other indexes, unique or not.
    pub indexes: Vec<Index>,
    /// Its CHECK constraints.
    pub checks: Vec<Check>,
    /// The size of its pages, if it was given (WITH (page_size = ...)).
    pub page_size: Option<PageSize>,
    /// The statistics of its rows, if it was analyzed; stored apart.
    pub statistics: Option<Arc<TableStatistics>>,
}

/// PARTITION BY HASH.
#[derive(Clone, Debug)]
pub struct Partitioning {
    /// Positions in [`Table::columns`].
    pub columns: Vec<usize>,
    /// The modulus of all partitions; 0 while there are none.
    pub modulus: u16,
    /// The partitions that there are, by their remainders.
    pub partitions: BTreeMap<u16, Partition>,
}

/// A partition. Its columns and indexes are the table's.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Its identifier (`pg_class.oid`).
    pub oid: Oid,
    /// Its name, in the schema of the table.
    pub name: String,
}

/// The table of a partition that is used by its own name, and the number of the partition.
#[derive(Clone, Debug)]
pub struct PartitionOf {
    /// The table.
    pub table: Arc<Table>,
    /// Its remainder.
    pub number: u16,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Its collation (`pg_collation.oid`), 0 if its type has none.
    pub collation: u32,
    /// True if NULL is refused.
    pub not_null: bool,
    /// Its DEFAULT, as SQL text.
    pub default: Option<String>,
    /// Its identity, if it has one; the sequence is the one that it owns.
    pub identity: Option<Identity>,
    /// True if it was dropped.
    pub dropped: bool,
}

/// GENERATED ... AS IDENTITY, or the sequence of a serial column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// ALWAYS refuses explicit values.
    pub always: bool,
    /// The sequence (`pg_class.oid`).
    pub sequence: Oid,
}

/// An index, the primary key's too.
///
/// # Adding a kind
///
/// Whatever reads [`Index::columns`] has to know what a new kind has in their place:
///
/// - The bytes of the catalog: `catalog/encode.rs`, whose layout `docs/formats.md` describes.
/// - DDL: `ddl/clauses.rs` and `ddl/index.rs`, where other kinds are refused; columns that are dropped, renamed or get
///   another type: `ddl/alter.rs`, `ddl/alter_column.rs`; keys of partitioned tables: `ddl/partition.rs`.
/// - Entries: `dml/write.rs`. A `TableWriter` computes them of a row alone; what has
///   to be bound before is given to it by `dml/mod.rs`, `dml/insert.rs`, `dml/update.rs`, `copy/mod.rs`,
///   `ddl/create.rs`, `ddl/index.rs` and `ddl/mod.rs`.
/// - Updates that do not read their row (`dml/blind.rs`) must leave no entry stale: [`Index::depends_on`].
/// - ON CONFLICT: `dml/conflict.rs`, `dml/insert.rs`.
/// - Expressions: `binder/syntax.rs` (`column_of_key`); their texts in the catalog: `syntax/kept.rs`.
/// - Use: `planner/access.rs`, `executor/plan/access.rs`, `executor/scan.rs`.
/// - Shown: `catalog/system/relations.rs`, `catalog/system/definitions.rs`, `catalog/system/functions.rs`; a new access
///   method also in `catalog/system/data/pg_am.tsv`, which `tools/system_catalog.sh` writes;
///   `gnomon-cli/src/shell/describe.rs`.
/// - Another structure of entries than a B+tree: `ddl/trees.rs`, and `gnomon-engine/src/access`.
/// - Tests and documents: `gnomon-sql/tests/sql/clauses.rs`, `docs/sql.md`, `docs/features.md`.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its identifier (`pg_class.oid`).
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Positions in [`Table::columns`], in key order.
    pub columns: Vec<usize>,
    /// For each column, whether it descends.
    pub descending: Vec<bool>,
    /// For each column, whether NULLs come first.
    pub nulls_first: Vec<bool>,
    /// True if no two rows may be equal in all columns (rows with a NULL are never equal).
    pub unique: bool,
    /// True if it stands for a constraint (PRIMARY KEY, UNIQUE) rather than CREATE INDEX.
    pub constraint: bool,
    /// Its entries. The primary key's tree is the table's own.
    /// Key: the columns; of an index that is not unique, and of a row with a NULL in it, followed by the row's key.
    /// Value: the row's key.
    pub tree: TreeId,
    /// The entries of each partition, if the table has them.
    pub partition_trees: BTreeMap<u16, TreeId>,
    /// The size of its pages, if it was given. Of a primary key that is the table's.
    pub page_size: Option<PageSize>,
    /// True if CLUSTER is to go by it.
    pub is_clustered: bool,
}

/// The identifier of the constraint that an index keeps (`pg_constraint.oid`).
pub fn constraint_of_index(index: Oid) -> Oid {
    derived_oid(index, "constraint")
}

impl Index {
    /// The identifier of the constraint that it keeps, if it keeps one (`pg_constraint.oid`).
    pub fn constraint_oid(&self) -> Oid {
        constraint_of_index(self.oid)
    }

    /// The identifier of the part of it that a partition has.
    pub fn of_partition(&self, partition: Oid) -> Oid {
        derived_oid(partition, &self.oid.to_string())
    }

    /// True if its entries depend on the column at a position in [`Table::columns`].
    pub fn depends_on(&self, column: usize) -> bool {
        self.columns.contains(&column)
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The expression, as SQL text, in which only the row of the table has the table's name: `t.*`.
    pub expression: String,
}

impl Check {
    /// Returns it as a check of another table with the same columns, or of its table under another name.
    pub fn of_table(&self, from: &str, to: &str) -> Check {
        // A text that cannot be read is told of where it is bound.
        let renamed = with_row_renamed(&self.expression, from, to);
        Check { name: self.name.clone(), expression: renamed.unwrap_or_else(|_| self.expression.clone()) }
    }

    /// The identifier of the check of a table (`pg_constraint.oid`).
    pub fn oid(&self, table: Oid) -> Oid {
        derived_oid(table, &self.name)
    }
}

/// An identifier for what has none of its own (constraints, defaults, rules), the same as long as its table and name
/// are. In the upper half of the numbers, where no object has one: FNV-1a.
pub fn derived_oid(table: Oid, name: &str) -> Oid {
    let bytes = table.to_be_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash | 0x8000_0000
}

/// True for an identifier that [`derived_oid`] may have made.
pub fn is_derived(oid: Oid) -> bool {
    oid & 0x8000_0000 != 0
}

/// The identifiers of the types (`pg_type.oid`) of a relation's rows and of arrays of them.
pub fn row_types(relation: Oid) -> [Oid; 2] {
    ["type", "type[]"].map(|name| derived_oid(relation, name))
}

/// A constraint of a table, with what keeps it.
///
/// # Adding a kind
///
/// The compiler names the places that list all kinds. The others:
///
/// - The bytes of the catalog: `catalog/encode.rs`, whose layout `docs/formats.md` describes; tables that refer to a
///   table: `catalog/snapshot.rs`.
/// - DDL: `ddl/constraint.rs`; of a column: `ddl/column.rs`; `ddl/alter.rs`, `ddl/alter_column.rs`, `ddl/comment.rs`;
///   rows that are there: `ddl/mod.rs`; DROP and TRUNCATE, with CASCADE: `ddl/drop.rs`, of partitions:
///   `ddl/partition.rs`; what depends on it: `ddl/dependents.rs`; the texts of CHECKs: `ddl/check.rs`.
/// - Rows: binding in `dml/mod.rs`; `dml/insert.rs`, `dml/update.rs`, `dml/write.rs`, `copy/mod.rs`; updates that do
///   not read their row: `dml/blind.rs`; a statement that writes to other tables: `statement/plan.rs`.
/// - A row that is referred to stays by `RowLock::KeyShare`, taken as in `executor/lock.rs`; its strength:
///   `gnomon-engine/src/txn/strength.rs`, `gnomon-engine/src/txn/row_lock.rs`.
/// - Shown: `catalog/system/functions.rs`, `catalog/system/relations.rs` (also `pg_depend` and
///   `pg_class.relhastriggers`, by which psql asks for foreign keys), `catalog/system/information.rs`,
///   `gnomon-cli/src/shell/describe.rs`.
/// - Tests and documents: `gnomon-sql/tests/sql/clauses.rs`, `gnomon-sql/tests/slt/constraints.slt`, `docs/sql.md`,
///   `docs/features.md`.
#[derive(Clone, Copy, Debug)]
pub enum Constraint<'t> {
    /// PRIMARY KEY: the index that rows are stored by.
    PrimaryKey(&'t Index),
    /// UNIQUE: an index.
    Unique(&'t Index),
    /// CHECK: an expression.
    Check(&'t Check),
    /// NOT NULL of the column at a position. It has no name, as in PostgreSQL 15.
    NotNull(usize),
}

impl<'t> Constraint<'t> {
    /// Its name, if it has one.
    pub fn name(self) -> Option<&'t str> {
        match self {
            Constraint::PrimaryKey(index) | Constraint::Unique(index) => Some(&index.name),
            Constraint::Check(check) => Some(&check.name),
            Constraint::NotNull(_) => None,
        }
    }

    /// Its identifier in a table (`pg_constraint.oid`), if it has one.
    pub fn oid(self, table: &Table) -> Option<Oid> {
        match self {
            Constraint::PrimaryKey(index) | Constraint::Unique(index) => Some(index.constraint_oid()),
            Constraint::Check(check) => Some(check.oid(table.oid)),
            Constraint::NotNull(_) => None,
        }
    }

    /// The index that keeps it, if it is a key.
    pub fn index(self) -> Option<&'t Index> {
        match self {
            Constraint::PrimaryKey(index) | Constraint::Unique(index) => Some(index),
            Constraint::Check(_) | Constraint::NotNull(_) => None,
        }
    }
}

impl Table {
    /// Its constraints: keys, the primary one first, CHECKs, NOT NULLs.
    pub fn constraints(&self) -> impl Iterator<Item = Constraint<'_>> {
        let primary = self.primary_key.iter().map(Constraint::PrimaryKey);
        let unique = self.indexes.iter().filter(|index| index.constraint).map(Constraint::Unique);
        let checks = self.checks.iter().map(Constraint::Check);
        let columns = self.columns.iter().enumerate();
        let not_null = columns.filter(|(_, column)| column.not_null && !column.dropped);
        primary.chain(unique).chain(checks).chain(not_null.map(|(position, _)| Constraint::NotNull(position)))
    }

    /// The identifiers of the parts of it that can have comments of their own.
    pub fn parts(&self) -> impl Iterator<Item = Oid> {
        let indexes = self.primary_key.iter().chain(&self.indexes).map(|index| index.oid);
        let checks = self.checks.iter().map(|check| check.oid(self.oid));
        let partitions = self.partitioning.iter().flat_map(|partitioning| partitioning.partitions.values());
        indexes.chain(checks).chain(partitions.map(|partition| partition.oid))
    }

    /// The constraint of this name.
    pub fn constraint(&self, name: &str) -> Option<Constraint<'_>> {
        self.constraints().find(|constraint| constraint.name() == Some(name))
    }

    /// True if it has a constraint or index of this name.
    pub fn has_constraint_or_index(&self, name: &str) -> bool {
        self.constraint(name).is_some() || self.all_indexes().any(|index| index.name == name)
    }
}

/// A schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Its identifier (`pg_namespace.oid`).
    pub oid: Oid,
    /// Its name.
    pub name: String,
}

/// A view.
#[derive(Clone, Debug)]
pub struct View {
    /// Its identifier (`pg_class.oid`).
    pub oid: Oid,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, as they were when it was created: name and type.
    pub columns: Vec<(String, ColumnType)>,
    /// Its query, as SQL text in which relations have their schemas, and columns, also those of `*`, their relations.
    pub query: String,
    /// WITH (...), each as `name=value`.
    pub options: Vec<String>,
}

impl View {
    /// The identifier of the rule that it is (`pg_rewrite.oid`).
    pub fn rule_oid(&self) -> Oid {
        derived_oid(self.oid, "rule")
    }

    /// The identifiers of its rule and of the types of its rows.
    pub fn identified_parts(&self) -> impl Iterator<Item = Oid> {
        [self.rule_oid()].into_iter().chain(row_types(self.oid))
    }

    /// The error for a view whose stored query is not what it must be.
    pub(crate) fn damaged(&self, detail: impl Into<String>) -> SqlError {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the query of view \"{}\" is damaged", self.name),
        )
        .detail(detail)
        .hint("Drop the view and make it anew.")
    }
}

/// A procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its identifier (`pg_proc.oid`).
    pub oid: Oid,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Its statements, as SQL text.
    pub body: String,
}

/// A parameter of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    pub ty: ColumnType,
    /// True if the caller passes a value for it.
    pub is_input: bool,
    /// True if its value is returned to the caller.
    pub is_output: bool,
    /// Its DEFAULT, as SQL text.
    pub default: Option<String>,
}

impl Procedure {
    /// The parameters that the caller gets.
    pub fn outputs(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.is_output)
    }

    /// Those that the caller gives.
    pub fn inputs(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.is_input)
    }
}

/// A sequence: its definition. Where it stands is kept apart, since `nextval` is not undone by a rollback.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its identifier (`pg_class.oid`).
    pub oid: Oid,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: ColumnType,
    /// INCREMENT BY.
    pub increment: i64,
    /// MINVALUE.
    pub min: i64,
    /// MAXVALUE.
    pub max: i64,
    /// START WITH.
    pub start: i64,
    /// True if it wraps around at its bounds (CYCLE).
    pub cycle: bool,
    /// Counts its restarts (ALTER SEQUENCE RESTART, TRUNCATE RESTART IDENTITY), each of which begins a new series of
    /// values; a restart that is rolled back leaves the former series as it stands.
    pub generation: u32,
    /// The first value of the present generation.
    pub first: i64,
    /// The table and column (position) that own it.
    pub owner: Option<(Oid, usize)>,
}

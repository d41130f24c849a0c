//! Statements that steer a session, and maintenance.

use super::{Constant, DefinitionItem, Expr, Ident, RelationName, RelationReference, Statement, TypeName};
use crate::Position;

/// A statement about a transaction.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the statements")]
pub enum Transaction {
    /// BEGIN, or START TRANSACTION.
    Begin {
        modes: Vec<TransactionMode>,
        is_start: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Ident),
    Release(Ident),
    RollbackTo(Ident),
    Prepare(Box<str>),
    CommitPrepared(Box<str>),
    RollbackPrepared(Box<str>),
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetModes {
        is_session: bool,
        modes: Vec<TransactionMode>,
    },
    SetSnapshot(Box<str>),
}

/// A characteristic of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum TransactionMode {
    Isolation(IsolationLevel),
    ReadOnly(bool),
    Deferrable(bool),
}

/// ISOLATION LEVEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// SET.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Set {
    pub is_local: bool,
    /// With its dots.
    pub name: Ident,
    pub value: SettingValue,
}

/// The name of a setting; TIME ZONE and its like are under the names that they have.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum SettingName {
    All,
    /// With its dots.
    One(Ident),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum SettingValue {
    Default,
    /// FROM CURRENT.
    Current,
    List(Vec<SettingItem>),
}

/// An item of a setting's value.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingItem {
    /// A word, folded, or a string.
    Text(Box<str>),
    /// A number, with its sign.
    Number(Box<str>),
    /// INTERVAL of SET TIME ZONE, with its type.
    Interval(Constant, Box<TypeName>),
}

/// PREPARE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Prepare {
    pub name: Ident,
    pub types: Vec<TypeName>,
    pub statement: Box<Statement>,
}

/// EXECUTE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Execute {
    pub name: Ident,
    pub arguments: Vec<Expr>,
}

/// DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum Discard {
    All,
    Plans,
    Sequences,
    Temp,
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Copy {
    pub source: CopySource,
    pub is_to: bool,
    pub end: CopyEnd,
    pub options: Vec<DefinitionItem>,
    pub filter: Option<Expr>,
}

/// The source of the rows of COPY.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum CopySource {
    Table {
        name: RelationName,
        columns: Vec<Ident>,
    },
    /// A query, or a change with RETURNING.
    Query(Box<Statement>),
}

/// The other end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum CopyEnd {
    /// STDIN or STDOUT.
    Standard,
    File(Box<str>),
    Program(Box<str>),
}

/// DECLARE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct DeclareCursor {
    pub name: Ident,
    pub is_binary: bool,
    pub is_scroll: bool,
    pub is_no_scroll: bool,
    pub is_insensitive: bool,
    pub is_asensitive: bool,
    pub is_hold: bool,
    /// A query.
    pub statement: Box<Statement>,
}

/// FETCH and MOVE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Fetch {
    pub is_move: bool,
    pub cursor: Ident,
    pub direction: FetchDirection,
}

/// Which rows a cursor goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// So many rows ahead; none is all.
    Forward(Option<i64>),
    /// So many rows back; none is all.
    Backward(Option<i64>),
    /// The row of this number, from the end if it is negative.
    Absolute(i64),
    /// The row so far ahead.
    Relative(i64),
}

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Explain {
    pub options: Vec<DefinitionItem>,
    pub statement: Box<Statement>,
}

/// VACUUM and ANALYZE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Maintenance {
    pub options: Vec<DefinitionItem>,
    pub tables: Vec<(RelationName, Vec<Ident>)>,
}

/// REINDEX.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Reindex {
    /// Those in parentheses, and CONCURRENTLY.
    pub options: Vec<DefinitionItem>,
    pub target: ReindexTarget,
}

/// The indexes that REINDEX makes anew: one, those of a table, of a schema, of the database.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ReindexTarget {
    Index(RelationName),
    Table(RelationName),
    Schema(Ident),
    Database(Ident),
    /// Of the system catalogs in the database.
    System(Ident),
}

/// CLUSTER.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Cluster {
    pub options: Vec<DefinitionItem>,
    /// Without one: all tables that were clustered before.
    pub table: Option<RelationName>,
    /// Without one: that of the last time.
    pub index: Option<Ident>,
}

/// LOCK.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Lock {
    pub tables: Vec<RelationReference>,
    pub mode: LockMode,
    pub is_nowait: bool,
}

/// A mode of LOCK, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named as their words")]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// BACKUP, which is Gnomon's own.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Backup {
    /// A file of the server; none for STDOUT.
    pub file: Option<Box<str>>,
    /// The name of the backup that it goes on from.
    pub since: Option<Box<str>>,
    pub position: Position,
}

//! CREATE, DROP and COMMENT.

use super::{
    Expr, Ident, OperatorName, QualifiedName, Query, RelationName, SortDirection, Statement, TypeName,
};
use crate::Position;

/// How long a relation lives, and what a crash leaves of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum Persistence {
    #[default]
    Permanent,
    Unlogged,
    Temporary,
}

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateTable {
    pub name: RelationName,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    /// Of a partition or a typed table, columns have no type.
    pub elements: Vec<TableElement>,
    pub inherits: Vec<RelationName>,
    /// OF type.
    pub of_type: Option<QualifiedName>,
    /// PARTITION OF.
    pub partition_of: Option<(RelationName, PartitionBound)>,
    pub partition_by: Option<PartitionBy>,
    pub access_method: Option<Ident>,
    pub options: Vec<DefinitionItem>,
    pub on_commit: Option<OnCommit>,
    pub tablespace: Option<Ident>,
}

/// An element in the parentheses of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "a variant has the name of its struct")]
pub enum TableElement {
    Column(Box<ColumnDefinition>),
    Constraint(Box<Constraint>),
    Like(TableLike),
}

/// A column of CREATE TABLE or ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct ColumnDefinition {
    pub name: Ident,
    /// None in a partition or a typed table.
    pub ty: Option<TypeName>,
    pub compression: Option<Ident>,
    pub collation: Option<QualifiedName>,
    pub constraints: Vec<Constraint>,
}

/// LIKE in CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct TableLike {
    pub table: RelationName,
    /// INCLUDING (true) and EXCLUDING words, in lower case.
    pub options: Vec<(bool, Ident)>,
}

/// A constraint, of a column or of a table.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Constraint {
    pub name: Option<Ident>,
    pub kind: ConstraintKind,
    pub attributes: ConstraintAttributes,
    pub position: Position,
}

/// The condition of a constraint.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum ConstraintKind {
    NotNull,
    Null,
    Default(Expr),
    Check(Expr),
    Identity {
        is_always: bool,
        options: Vec<SequenceOption>,
    },
    /// GENERATED ALWAYS AS (expression) STORED; BY DEFAULT is refused.
    Generated(Expr),
    Unique(IndexConstraint),
    PrimaryKey(IndexConstraint),
    Exclude(Exclude),
    ForeignKey(ForeignKey),
}

/// UNIQUE or PRIMARY KEY.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct IndexConstraint {
    /// Empty in a column.
    pub columns: Vec<Ident>,
    /// USING INDEX.
    pub using_index: Option<Ident>,
    pub include: Vec<Ident>,
    pub is_nulls_not_distinct: bool,
    pub options: Vec<DefinitionItem>,
    pub tablespace: Option<Ident>,
}

/// EXCLUDE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Exclude {
    pub access_method: Option<Ident>,
    pub elements: Vec<(IndexElement, OperatorName)>,
    pub include: Vec<Ident>,
    pub options: Vec<DefinitionItem>,
    pub tablespace: Option<Ident>,
    pub filter: Option<Expr>,
}

/// FOREIGN KEY or REFERENCES.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct ForeignKey {
    /// Empty in a column.
    pub columns: Vec<Ident>,
    pub table: RelationName,
    /// Empty for its primary key.
    pub references: Vec<Ident>,
    pub matching: ForeignKeyMatch,
    pub on_update: ForeignKeyAction,
    pub on_delete: ForeignKeyAction,
    /// The columns of ON DELETE SET NULL or SET DEFAULT; empty for all.
    pub on_delete_columns: Vec<Ident>,
}

/// MATCH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ForeignKeyMatch {
    #[default]
    Simple,
    Full,
    Partial,
}

/// ON DELETE and ON UPDATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ForeignKeyAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// When and how a constraint is checked.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct ConstraintAttributes {
    pub is_deferrable: Option<bool>,
    pub is_initially_deferred: Option<bool>,
    pub is_not_valid: bool,
    pub is_no_inherit: bool,
    /// Where the first of them stands.
    pub position: Option<Position>,
}

/// PARTITION BY.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct PartitionBy {
    /// `hash`, `range`, `list`.
    pub strategy: Ident,
    pub elements: Vec<IndexElement>,
    pub position: Position,
}

/// FOR VALUES, or DEFAULT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum PartitionBound {
    Default(Position),
    Hash { modulus: i32, remainder: i32, position: Position },
    List(Vec<Expr>, Position),
    Range { from: Vec<Expr>, to: Vec<Expr>, position: Position },
}

/// ON COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum OnCommit {
    Drop,
    DeleteRows,
    PreserveRows,
}

/// An item of WITH (...), or of a list of options.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct DefinitionItem {
    pub namespace: Option<Ident>,
    pub name: Ident,
    pub value: Option<OptionValue>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A word.
    Word(Ident),
    /// A string.
    String(Box<str>),
    /// A number as it is written, with its sign.
    Number(Box<str>),
    /// The name of a type that is more than a word.
    Type(TypeName),
    /// An operator.
    Operator(OperatorName),
    /// `*`
    Star,
    /// A list of words or strings.
    List(Vec<Box<str>>),
}

/// CREATE TABLE AS, or SELECT INTO.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateTableAs {
    pub name: RelationName,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub columns: Vec<Ident>,
    pub access_method: Option<Ident>,
    pub options: Vec<DefinitionItem>,
    pub on_commit: Option<OnCommit>,
    pub tablespace: Option<Ident>,
    /// A query, or EXECUTE.
    pub source: Statement,
    /// False with WITH NO DATA.
    pub with_data: bool,
    /// True if it was written as SELECT INTO.
    pub is_select_into: bool,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateIndex {
    pub is_unique: bool,
    pub is_concurrent: bool,
    pub if_not_exists: bool,
    pub name: Option<Ident>,
    pub table: RelationName,
    pub is_only: bool,
    pub access_method: Option<Ident>,
    pub elements: Vec<IndexElement>,
    pub include: Vec<IndexElement>,
    pub is_nulls_not_distinct: bool,
    pub options: Vec<DefinitionItem>,
    pub tablespace: Option<Ident>,
    pub filter: Option<Expr>,
}

/// A column or expression of an index, a partition key or a conflict.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct IndexElement {
    pub key: IndexKey,
    pub collation: Option<QualifiedName>,
    pub operator_class: Option<QualifiedName>,
    pub operator_class_options: Vec<DefinitionItem>,
    pub direction: SortDirection,
    /// NULLS FIRST, if it is given.
    pub is_nulls_first: Option<bool>,
    pub position: Position,
}

/// The value of an index element.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum IndexKey {
    Column(Ident),
    Expr(Expr),
}

/// CREATE VIEW.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateView {
    pub name: RelationName,
    pub persistence: Persistence,
    pub or_replace: bool,
    pub is_recursive: bool,
    pub columns: Vec<Ident>,
    pub options: Vec<DefinitionItem>,
    pub query: Query,
    pub check: Option<ViewCheck>,
}

/// WITH CHECK OPTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ViewCheck {
    Local,
    Cascaded,
}

/// CREATE SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateSequence {
    pub name: RelationName,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub options: Vec<SequenceOption>,
}

/// An option of a sequence.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct SequenceOption {
    pub kind: SequenceOptionKind,
    pub position: Position,
}

/// The kind of a sequence's option, with its value. Numbers are as they are written, with their signs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum SequenceOptionKind {
    As(TypeName),
    Cache(Box<str>),
    Cycle(bool),
    Increment(Box<str>),
    /// None for NO MAXVALUE.
    MaxValue(Option<Box<str>>),
    /// None for NO MINVALUE.
    MinValue(Option<Box<str>>),
    /// The name `none` stands for NONE.
    OwnedBy(QualifiedName),
    SequenceName(QualifiedName),
    Start(Box<str>),
    Restart(Option<Box<str>>),
    Logged(bool),
}

/// CREATE SCHEMA.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateSchema {
    pub name: Option<Ident>,
    pub if_not_exists: bool,
    pub authorization: Option<Ident>,
    pub elements: Vec<Statement>,
}

/// CREATE EXTENSION.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateExtension {
    pub name: Ident,
    pub if_not_exists: bool,
    pub schema: Option<Ident>,
    pub version: Option<Box<str>>,
    /// CASCADE: the extensions too that it needs.
    pub is_cascade: bool,
}

/// CREATE PROCEDURE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CreateProcedure {
    pub name: QualifiedName,
    pub or_replace: bool,
    pub parameters: Vec<RoutineParameter>,
    /// LANGUAGE, folded.
    pub language: Option<Ident>,
    pub body: Option<RoutineBody>,
    /// SECURITY DEFINER (true) or INVOKER.
    pub is_security_definer: Option<bool>,
    /// Clauses that are read and not kept: their words, for an error.
    pub others: Vec<Ident>,
}

/// The statements of a routine.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum RoutineBody {
    /// AS strings.
    Text(Vec<Box<str>>),
    /// BEGIN ATOMIC: the text between it and END, and its statements.
    Atomic { text: Box<str>, statements: Vec<Statement> },
}

/// A parameter of a routine.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct RoutineParameter {
    pub name: Option<Ident>,
    pub mode: ParameterMode,
    pub ty: TypeName,
    pub default: Option<Expr>,
    pub position: Position,
}

/// Which way a parameter goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ParameterMode {
    #[default]
    In,
    Out,
    InOut,
    Variadic,
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum ObjectKind {
    Table,
    Index,
    Sequence,
    View,
    MaterializedView,
    Schema,
}

/// DROP of relations and schemas.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Drop {
    pub kind: ObjectKind,
    pub names: Vec<QualifiedName>,
    pub if_exists: bool,
    pub is_cascade: bool,
    pub is_concurrent: bool,
}

/// DROP PROCEDURE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct DropRoutine {
    pub routines: Vec<RoutineName>,
    pub if_exists: bool,
    pub is_cascade: bool,
}

/// DROP of a kind of objects that cannot be made here.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct DropAbsent {
    pub kind: AbsentKind,
    pub objects: Vec<AbsentObject>,
    pub if_exists: bool,
}

/// A kind of objects that cannot be made here, and of which PostgreSQL's grammar has a DROP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum AbsentKind {
    Domain,
    EventTrigger,
    Extension,
    ForeignDataWrapper,
    ForeignTable,
    Function,
    MaterializedView,
    Policy,
    Publication,
    /// ROLE, USER or GROUP.
    Role,
    Rule,
    Server,
    Statistics,
    Subscription,
    Trigger,
    Type,
}

/// An object of such a kind.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the kinds")]
pub enum AbsentObject {
    Named(QualifiedName),
    /// A type or domain.
    Type(TypeName),
    Function(RoutineName),
    /// A trigger, rule or policy of a relation.
    Of {
        name: Ident,
        relation: QualifiedName,
    },
}

/// A routine with, if they are given, its parameters.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct RoutineName {
    pub name: QualifiedName,
    pub parameters: Option<Vec<RoutineParameter>>,
}

/// OWNER TO of an object that is no relation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct AlterOwner {
    pub object: OwnedObject,
    pub owner: Ident,
}

/// An object that is no relation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum OwnedObject {
    Schema(Ident),
    Procedure(RoutineName),
}

/// COMMENT ON.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Comment {
    pub object: CommentedObject,
    /// None for NULL.
    pub text: Option<Box<str>>,
}

/// The object of a comment.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum CommentedObject {
    Relation {
        kind: ObjectKind,
        name: QualifiedName,
    },
    Column(QualifiedName),
    Constraint {
        name: Ident,
        table: QualifiedName,
    },
    /// An object whose name has no schema.
    Named {
        kind: NamedKind,
        name: Ident,
    },
    Type(TypeName),
    Collation(QualifiedName),
    Routine {
        kind: RoutineKind,
        routine: RoutineName,
    },
    Operator {
        name: OperatorName,
        left: Option<TypeName>,
        right: TypeName,
    },
    Cast {
        from: TypeName,
        to: TypeName,
    },
}

/// A kind of object whose names have no schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum NamedKind {
    AccessMethod,
    Database,
    Extension,
    Language,
    Role,
    Schema,
    Tablespace,
}

/// A kind of routine; ROUTINE is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum RoutineKind {
    Aggregate,
    Function,
    Procedure,
    Routine,
}

//! ALTER.

use super::{
    ColumnDefinition, Constraint, ConstraintAttributes, DefinitionItem, Expr, Ident, ObjectKind,
    PartitionBound, QualifiedName, RelationName, SequenceOption, SettingName, SettingValue, TypeName,
};
use crate::Position;

/// ALTER TABLE, and ALTER of other relations with actions of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct AlterTable {
    pub kind: ObjectKind,
    pub name: RelationName,
    pub is_only: bool,
    pub if_exists: bool,
    pub actions: Vec<AlterAction>,
}

/// An action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
#[non_exhaustive]
pub enum AlterAction {
    AddColumn {
        if_not_exists: bool,
        column: Box<ColumnDefinition>,
    },
    DropColumn {
        name: Ident,
        if_exists: bool,
        is_cascade: bool,
    },
    AlterColumn {
        name: Ident,
        action: AlterColumn,
    },
    AddConstraint(Box<Constraint>),
    AlterConstraint {
        name: Ident,
        attributes: ConstraintAttributes,
    },
    ValidateConstraint(Ident),
    DropConstraint {
        name: Ident,
        if_exists: bool,
        is_cascade: bool,
    },
    SetOptions(Vec<DefinitionItem>),
    ResetOptions(Vec<DefinitionItem>),
    OwnerTo(Ident),
    SetSchema(Ident),
    AttachPartition(RelationName, PartitionBound),
    DetachPartition {
        name: RelationName,
        is_concurrent: bool,
        is_finalize: bool,
    },
    Inherit {
        parent: RelationName,
        is_removed: bool,
    },
    ReplicaIdentity(Ident),
    /// CLUSTER ON; none is SET WITHOUT CLUSTER.
    ClusterOn(Option<Ident>),
    /// ENABLE or DISABLE TRIGGER, ALL or USER.
    AllTriggers {
        is_enabled: bool,
    },
    /// Any other: its words, as an error says them.
    Other {
        words: &'static str,
        position: Position,
    },
}

/// An action of ALTER COLUMN.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
#[non_exhaustive]
pub enum AlterColumn {
    SetDefault(Expr),
    DropDefault,
    SetNotNull,
    DropNotNull,
    Type {
        ty: TypeName,
        collation: Option<QualifiedName>,
        using: Option<Expr>,
    },
    AddIdentity {
        is_always: bool,
        options: Vec<SequenceOption>,
    },
    DropIdentity {
        if_exists: bool,
    },
    /// SET GENERATED, and options of the sequence.
    SetIdentity {
        is_always: Option<bool>,
        options: Vec<SequenceOption>,
    },
    /// Any other: its words, as an error says them.
    Other {
        words: &'static str,
        position: Position,
    },
}

/// ALTER SEQUENCE with options.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct AlterSequence {
    pub name: RelationName,
    pub if_exists: bool,
    pub options: Vec<SequenceOption>,
}

/// RENAME of a relation, or of a column or constraint of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Rename {
    pub kind: ObjectKind,
    pub name: RelationName,
    pub is_only: bool,
    pub if_exists: bool,
    pub part: Option<RenamedPart>,
    pub to: Ident,
}

/// The part of a relation that is renamed.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum RenamedPart {
    Column(Ident),
    Constraint(Ident),
}

/// ALTER ROLE, USER or DATABASE with SET or RESET: a setting of new sessions.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct SettingDefault {
    /// ALTER DATABASE.
    pub is_database: bool,
    /// None for ALL roles.
    pub name: Option<Ident>,
    /// IN DATABASE.
    pub database: Option<Ident>,
    pub setting: SettingName,
    /// None for RESET.
    pub value: Option<SettingValue>,
}

//! Column definitions and constraints, as CREATE TABLE and ALTER TABLE have them.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_parser::{
    Position,
    ast::{
        self, ColumnDefinition, Constraint, ConstraintAttributes, ConstraintKind, Ident, IndexConstraint,
        IndexElement, SortDirection, TypeName,
    },
};

use super::{
    COLUMNS_MAX, Ddl, INDEX_COLUMNS_MAX, choose_name,
    clauses::{check_collation, check_tablespace},
    partition::check_unique,
    refuse_taken,
    sequence::SequenceSpec,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Check, Column, Identity, Index, Table},
    dml::bind_check,
    functions::quote_ident,
    query::{Binder, Scope},
    syntax::expression_text,
    types::{ColumnType, Datum, Type, column_type, format_type},
};

/// A sequence that a new column draws from: of a serial type, or of an identity.
pub(super) struct ColumnSequence {
    /// GENERATED ALWAYS or BY DEFAULT; none for serial.
    identity_always: Option<bool>,
    spec: SequenceSpec,
}

/// A column definition, taken apart.
pub(super) struct ColumnSpec {
    pub(super) column: Column,
    /// The DEFAULT, to be bound.
    pub(super) default: Option<ast::Expr>,
    pub(super) sequence: Option<ColumnSequence>,
    pub(super) constraints: Vec<ConstraintSpec>,
}

/// A constraint, with the columns by name.
pub(super) enum ConstraintSpec {
    Key { name: Option<String>, primary: bool, columns: Vec<IndexKey> },
    Check { name: Option<String>, column: Option<String>, expression: Box<ast::Expr> },
}

/// A column of an index definition.
pub(super) struct IndexKey {
    pub(super) column: String,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

/// The type of a column definition, and whether it is serial.
fn type_of(column: &str, name: &TypeName) -> Result<(ColumnType, bool)> {
    let serial = match &name.name.0[..] {
        [word] if !name.is_reference => match &*word.name {
            "serial" | "serial4" => Some(Type::Int4),
            "bigserial" | "serial8" => Some(Type::Int8),
            "smallserial" | "serial2" => Some(Type::Int2),
            _ => None,
        },
        _ => None,
    };
    if let Some(ty) = serial {
        return match (name.bounds.is_empty(), name.modifiers.is_empty() && !name.is_set) {
            (true, true) => Ok((ColumnType { ty, modifier: -1 }, true)),
            (false, _) => {
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "array of serial is not implemented")
                    .at(name.position))
            }
            _ => Err(SqlError::unsupported(format!("the type {name}")).at(name.position)),
        };
    }
    let ty = column_type(name)?;
    match ty.ty {
        Type::Record | Type::Void | Type::Unknown => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{column}\" has pseudo-type {}", format_type(ty.ty, None)),
        )),
        _ => Ok((ty, false)),
    }
}

/// Constraints are checked at once here, which NOT DEFERRABLE and INITIALLY IMMEDIATE ask for anyway.
fn refuse_attributes(attributes: &ConstraintAttributes) -> Result<()> {
    let ConstraintAttributes {
        is_deferrable,
        is_initially_deferred,
        is_not_valid: _,
        is_no_inherit,
        position,
    } = attributes;
    let what = if *is_deferrable == Some(true) || *is_initially_deferred == Some(true) {
        "a deferrable constraint"
    } else if *is_no_inherit {
        "a constraint that is NO INHERIT"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(what).at(position.unwrap_or(Position::NONE)))
}

/// Fails if a clause of a column that is no constraint, or one that is never deferred, is told when it is checked.
fn refuse_misplaced_attributes(constraint: &Constraint) -> Result<()> {
    let may_defer = matches!(
        constraint.kind,
        ConstraintKind::Unique(_)
            | ConstraintKind::PrimaryKey(_)
            | ConstraintKind::Exclude(_)
            | ConstraintKind::ForeignKey(_)
    );
    let attributes = &constraint.attributes;
    let clause = match (attributes.is_deferrable, attributes.is_initially_deferred) {
        (None, None) => return Ok(()),
        _ if may_defer => return Ok(()),
        (Some(true), _) => "DEFERRABLE",
        (Some(false), _) => "NOT DEFERRABLE",
        (None, Some(true)) => "INITIALLY DEFERRED",
        (None, Some(false)) => "INITIALLY IMMEDIATE",
    };
    let position = attributes.position.unwrap_or(constraint.position);
    Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("misplaced {clause} clause")).at(position))
}

/// A column definition that is taken apart.
struct ColumnReader<'c> {
    table: &'c str,
    spec: ColumnSpec,
    is_serial: bool,
    /// NULL or NOT NULL, if either is given.
    nullable: Option<bool>,
    /// Of the clause that is read.
    position: Position,
}

impl ColumnReader<'_> {
    fn invalid(&self, what: &str) -> SqlError {
        let message = format!("{what} for column \"{}\" of table \"{}\"", self.spec.column.name, self.table);
        SqlError::new(SqlState::SYNTAX_ERROR, message).at(self.position)
    }

    fn set_nullable(&mut self, nullable: bool) -> Result<()> {
        if self.nullable.is_some_and(|known| known != nullable) {
            return Err(self.invalid("conflicting NULL/NOT NULL declarations"));
        }
        self.nullable = Some(nullable);
        Ok(())
    }

    fn is_identity(&self) -> bool {
        self.spec.sequence.as_ref().is_some_and(|sequence| sequence.identity_always.is_some())
    }

    fn constraint(&mut self, constraint: &Constraint) -> Result<()> {
        refuse_misplaced_attributes(constraint)?;
        self.position = constraint.position;
        let name = constraint.name.as_ref().map(|name| String::from(&*name.name));
        match &constraint.kind {
            ConstraintKind::Null => self.set_nullable(true)?,
            ConstraintKind::NotNull => self.set_nullable(false)?,
            ConstraintKind::Default(expr) => {
                if self.spec.default.is_some() || self.is_serial {
                    return Err(self.invalid("multiple default values specified"));
                }
                if self.is_identity() {
                    return Err(self.invalid("both default and identity specified"));
                }
                self.spec.default = Some(expr.clone());
            }
            ConstraintKind::Identity { is_always, options } => {
                if self.is_identity() {
                    return Err(self.invalid("multiple identity specifications"));
                }
                if self.is_serial || self.spec.default.is_some() {
                    return Err(self.invalid("both default and identity specified"));
                }
                self.set_nullable(false)?;
                self.spec.sequence = Some(ColumnSequence {
                    identity_always: Some(*is_always),
                    spec: SequenceSpec::of_identity(self.spec.column.ty, options)?,
                });
            }
            ConstraintKind::Check(expression) => {
                refuse_attributes(&constraint.attributes)?;
                self.spec.constraints.push(ConstraintSpec::Check {
                    name,
                    column: Some(self.spec.column.name.clone()),
                    expression: Box::new(expression.clone()),
                });
            }
            ConstraintKind::Unique(index) | ConstraintKind::PrimaryKey(index) => {
                let mut columns = key_columns(constraint, index)?;
                columns.push(IndexKey::ascending(&self.spec.column.name));
                let primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
                self.spec.constraints.push(ConstraintSpec::Key { name, primary, columns });
            }
            ConstraintKind::ForeignKey(_) | ConstraintKind::Exclude(_) | ConstraintKind::Generated(_) => {
                return Err(unsupported_constraint(constraint));
            }
        }
        Ok(())
    }
}

/// A column definition, taken apart.
pub(super) fn column_spec(table: &str, definition: &ColumnDefinition) -> Result<ColumnSpec> {
    let ColumnDefinition { name, ty, compression, collation, constraints } = definition;
    let Some(ty) = ty else {
        return Err(SqlError::unsupported("a column without a type").at(name.position));
    };
    let (ty, is_serial) = type_of(&name.name, ty)?;
    if let Some(compression) = compression {
        return Err(SqlError::unsupported("COMPRESSION of a column").at(compression.position));
    }
    check_collation(collation.as_ref(), Some(ty.ty))?;
    let column = Column {
        name: name.name.to_string(),
        ty,
        not_null: false,
        default: None,
        identity: None,
        dropped: false,
    };
    let sequence = is_serial.then(|| ColumnSequence { identity_always: None, spec: SequenceSpec::new(ty) });
    let spec = ColumnSpec { column, default: None, sequence, constraints: Vec::new() };
    let mut reader = ColumnReader { table, spec, is_serial, nullable: None, position: name.position };
    for constraint in constraints {
        reader.constraint(constraint)?;
    }
    if is_serial {
        reader.set_nullable(false)?;
    }
    reader.spec.column.not_null = reader.nullable == Some(false);
    Ok(reader.spec)
}

fn unsupported_constraint(constraint: &Constraint) -> SqlError {
    SqlError::unsupported(match constraint.kind {
        ConstraintKind::ForeignKey(_) => "a FOREIGN KEY constraint",
        ConstraintKind::Exclude(_) => "an EXCLUDE constraint",
        ConstraintKind::Generated(_) => "a generated column",
        _ => "this constraint",
    })
    .at(constraint.position)
}

impl IndexKey {
    fn ascending(column: &str) -> IndexKey {
        IndexKey { column: column.to_owned(), descending: false, nulls_first: false }
    }
}

fn check_key_count(count: usize) -> Result<()> {
    if count <= INDEX_COLUMNS_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::TOO_MANY_COLUMNS,
        format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
    ))
}

/// Returns the name of the column that a key is, if it is one.
pub(super) fn column_of_key(key: &ast::IndexKey) -> Option<&Ident> {
    match key {
        ast::IndexKey::Column(name) => Some(name),
        ast::IndexKey::Expr(ast::Expr::Column(column)) => match &column.fields[..] {
            [name] if !column.has_star => Some(name),
            _ => None,
        },
        ast::IndexKey::Expr(_) => None,
    }
}

/// The columns of an index definition; expressions are not supported.
pub(super) fn index_keys(elements: &[IndexElement]) -> Result<Vec<IndexKey>> {
    check_key_count(elements.len())?;
    elements
        .iter()
        .map(|element| {
            let Some(column) = column_of_key(&element.key) else {
                return Err(SqlError::unsupported("an index on an expression").at(element.position));
            };
            let descending = match &element.direction {
                SortDirection::Default | SortDirection::Ascending => false,
                SortDirection::Descending => true,
                SortDirection::Using(operator) => {
                    return Err(SqlError::unsupported("USING in an index").at(operator.position));
                }
            };
            let nulls_first = element.is_nulls_first.unwrap_or(descending);
            Ok(IndexKey { column: column.name.to_string(), descending, nulls_first })
        })
        .collect()
}

/// The columns of UNIQUE or PRIMARY KEY; none if it is of a column.
fn key_columns(constraint: &Constraint, index: &IndexConstraint) -> Result<Vec<IndexKey>> {
    refuse_attributes(&constraint.attributes)?;
    let IndexConstraint { columns, using_index, include, is_nulls_not_distinct, options, tablespace } = index;
    let refused = [
        (using_index.is_some(), "a constraint USING INDEX"),
        (!include.is_empty(), "INCLUDE in an index"),
        (*is_nulls_not_distinct, "NULLS NOT DISTINCT"),
        (!options.is_empty(), "an index option of a constraint"),
    ];
    if let Some((_, what)) = refused.iter().find(|(present, _)| *present) {
        return Err(SqlError::unsupported(what).at(constraint.position));
    }
    check_tablespace(tablespace.as_ref())?;
    check_key_count(columns.len())?;
    Ok(columns.iter().map(|column| IndexKey::ascending(&column.name)).collect())
}

/// A table constraint, taken apart.
pub(super) fn constraint_spec(constraint: &Constraint) -> Result<ConstraintSpec> {
    let name = constraint.name.as_ref().map(|name| String::from(&*name.name));
    match &constraint.kind {
        ConstraintKind::PrimaryKey(index) | ConstraintKind::Unique(index) => {
            let primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
            Ok(ConstraintSpec::Key { name, primary, columns: key_columns(constraint, index)? })
        }
        ConstraintKind::Check(expression) => {
            refuse_attributes(&constraint.attributes)?;
            Ok(ConstraintSpec::Check { name, column: None, expression: Box::new(expression.clone()) })
        }
        _ => Err(unsupported_constraint(constraint)),
    }
}

/// Returns the name of the new sequence that a column draws from.
pub(super) fn sequence_name(
    ddl: &Ddl<'_>,
    table: &Table,
    column: &str,
    spec: &SequenceSpec,
) -> Result<String> {
    let view = ddl.session.view();
    let Some(name) = &spec.name else {
        return Ok(choose_name(&table.name, column, "seq", |name| {
            view.catalog.has_relation(&table.schema, name)
        }));
    };
    let name = ddl.session.name(name)?;
    if name.schema.is_some_and(|schema| schema != table.schema) {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "sequence must be in same schema as table it is linked to",
        ));
    }
    refuse_taken(&view, &table.schema, &name.name)?;
    Ok(name.name)
}

/// The names that rows have for themselves, which columns may not have.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// Adds a column to a table that is being defined: binds its default, makes its sequence.
pub(super) fn add_column(ddl: &mut Ddl<'_>, table: &mut Table, spec: &ColumnSpec) -> Result<usize> {
    let mut column = spec.column.clone();
    if SYSTEM_COLUMNS.contains(&column.name.as_str()) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column name \"{}\" conflicts with a system column name", column.name),
        ));
    }
    if table.column(&column.name).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" of relation \"{}\" already exists", column.name, table.name),
        ));
    }
    if table.columns.len() >= COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {COLUMNS_MAX} columns"),
        ));
    }
    let position = table.columns.len();
    if let Some(default) = &spec.default {
        column.default = bind_default(ddl, &column, default)?;
    }
    if let Some(sequence) = &spec.sequence {
        let name = sequence_name(ddl, table, &column.name, &sequence.spec)?;
        let oid = ddl.session.shared.new_oid()?;
        let made = sequence.spec.build(oid, &table.schema, &name, Some((table.oid, position)))?;
        match sequence.identity_always {
            Some(always) => column.identity = Some(Identity { always, sequence: oid }),
            None => {
                let text =
                    format!("{}.{}", quote_ident(&table.schema), quote_ident(&name)).replace('\'', "''");
                column.default = Some(format!("nextval('{text}'::regclass)"));
            }
        }
        ddl.change(|catalog| catalog.put_sequence(made))?;
    }
    table.columns.push(column);
    Ok(position)
}

/// Checks a DEFAULT; returns its text, or none for DEFAULT NULL.
pub(super) fn bind_default(
    ddl: &mut Ddl<'_>,
    column: &Column,
    default: &ast::Expr,
) -> Result<Option<String>> {
    ddl.session.with_types(|types, view| {
        let mut binder = Binder::new(view, types, &[]);
        let expr = binder.assign(default, &Scope::empty(), &column.name, column.ty)?;
        let null = expr.as_const().is_some_and(Datum::is_null);
        if null { Ok(None) } else { expression_text(default).map(Some) }
    })
}

/// Adds a constraint to a table that is being defined. The trees of its indexes are made later.
pub(super) fn add_constraint(ddl: &mut Ddl<'_>, table: &mut Table, spec: &ConstraintSpec) -> Result<()> {
    match spec {
        ConstraintSpec::Key { name, primary, columns } => {
            if *primary && table.primary_key.is_some() {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("multiple primary keys for table \"{}\" are not allowed", table.name),
                ));
            }
            let index = define_index(ddl, table, name.as_deref(), columns, true, true, *primary)?;
            if *primary {
                for &column in &index.columns {
                    table.columns[column].not_null = true;
                }
                table.primary_key = Some(index);
            } else {
                table.indexes.push(index);
            }
        }
        ConstraintSpec::Check { name, column, expression } => {
            let taken = |table: &Table, name: &str| has_constraint(table, name);
            let name = match name {
                Some(name) if taken(table, name) => return Err(duplicate_constraint(table, name)),
                Some(name) => name.clone(),
                None => choose_name(&table.name, column.as_deref().unwrap_or(""), "check", |name| {
                    taken(table, name)
                }),
            };
            let check = Check { name, expression: expression_text(expression)? };
            let shape = Arc::new(table.clone());
            ddl.session.with_types(|types, view| {
                let mut binder = Binder::new(view, types, &[]);
                bind_check(&mut binder, &shape, &check)
            })?;
            table.checks.push(check);
        }
    }
    Ok(())
}

/// An index of a table, without a tree yet.
pub(super) fn define_index(
    ddl: &mut Ddl<'_>,
    table: &Table,
    name: Option<&str>,
    keys: &[IndexKey],
    unique: bool,
    constraint: bool,
    primary: bool,
) -> Result<Index> {
    let mut columns = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(position) = table.column(&key.column) else {
            return Err(if constraint {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{}\" named in key does not exist", key.column),
                )
            } else {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", key.column))
            });
        };
        if constraint && columns.contains(&position) {
            let what = if primary { "primary key" } else { "unique" };
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" appears twice in {what} constraint", key.column),
            ));
        }
        columns.push(position);
    }
    let view = ddl.session.view();
    let taken = |name: &str| {
        view.catalog.has_relation(&table.schema, name) || name == table.name || has_constraint(table, name)
    };
    let name = match name {
        Some(name) if taken(name) => {
            return Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        Some(name) => name.to_owned(),
        None => {
            let names: Vec<&str> = keys.iter().map(|key| key.column.as_str()).collect();
            match (primary, constraint) {
                (true, _) => choose_name(&table.name, "", "pkey", taken),
                (_, true) => choose_name(&table.name, &names.join("_"), "key", taken),
                _ => choose_name(&table.name, &names.join("_"), "idx", taken),
            }
        }
    };
    let index = Index {
        oid: ddl.session.shared.new_oid()?,
        name,
        columns,
        descending: keys.iter().map(|key| key.descending).collect(),
        nulls_first: keys.iter().map(|key| key.nulls_first).collect(),
        unique,
        constraint,
        tree: table.tree,
        partition_trees: BTreeMap::new(),
        page_size: None,
    };
    check_unique(table, &index, primary)?;
    Ok(index)
}

/// True if a table has a constraint or index of this name.
pub(super) fn has_constraint(table: &Table, name: &str) -> bool {
    table.checks.iter().any(|check| check.name == name) || table.all_indexes().any(|index| index.name == name)
}

fn duplicate_constraint(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
    )
}

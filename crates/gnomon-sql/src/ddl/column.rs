//! Column definitions, as CREATE TABLE and ALTER TABLE have them.

use gnomon_parser::{
    Position,
    ast::{self, ColumnDefinition, Constraint, ConstraintKind, TypeName},
};

use super::{
    COLUMNS_MAX, Ddl,
    clauses::column_collation,
    constraint::{
        ConstraintSpec, key_columns, refuse_attributes, refuse_misplaced_attributes, unsupported_constraint,
    },
    fixed_names::fixed_expression_text,
    index::IndexKey,
    refuse_taken,
    sequence::SequenceSpec,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Relation, choose_name,
        model::{Column, Identity, Table},
        row_address::{conflicting_name, is_system_column},
    },
    functions::quote_ident,
    query::{Scope, relation_of},
    types::{ColumnType, Datum, Type, column_type, format_type},
};

/// Returns the error of a type, which is another one if its name is that of a relation's rows.
pub(super) fn or_composite(ddl: &Ddl<'_>, error: SqlError, ty: Option<&TypeName>) -> SqlError {
    let Some(ty) = ty.filter(|_| error.state() == SqlState::UNDEFINED_OBJECT) else { return error };
    let name = relation_of(&ty.name).and_then(|name| ddl.session.name(&name));
    match name.map(|name| ddl.session.view().find(&name)) {
        Ok(Some(Relation::Table(_) | Relation::View(_))) => {
            SqlError::unsupported(format!("composite type {ty}")).at(ty.position)
        }
        _ => error,
    }
}

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
    match ty.ty.is_pseudo() {
        true => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{column}\" has pseudo-type {}", format_type(ty.ty, None)),
        )),
        false => Ok((ty, false)),
    }
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

    /// The error for two defaults. PostgreSQL gives that of a serial type no place.
    fn has_default(&self, what: &str) -> SqlError {
        let error = self.invalid(what);
        if self.is_serial { error.unplaced() } else { error }
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
                    return Err(self.has_default("multiple default values specified"));
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
                    return Err(self.has_default("both default and identity specified"));
                }
                self.set_nullable(false)?;
                self.spec.sequence = Some(ColumnSequence {
                    identity_always: Some(*is_always),
                    spec: SequenceSpec::of_identity(self.spec.column.ty, options)?,
                });
            }
            ConstraintKind::Check(expression) => {
                refuse_attributes(&constraint.attributes)?;
                self.spec
                    .constraints
                    .push(ConstraintSpec::Check { name, expression: Box::new(expression.clone()) });
            }
            ConstraintKind::Unique(index) | ConstraintKind::PrimaryKey(index) => {
                let mut columns = key_columns(constraint, index)?;
                columns.push(IndexKey::ascending(&self.spec.column.name));
                let primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
                let position = constraint.position;
                self.spec.constraints.push(ConstraintSpec::Key { name, primary, columns, position });
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
    let column = Column {
        name: name.name.to_string(),
        ty,
        collation: column_collation(collation.as_ref(), ty.ty)?,
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

/// Adds a column to a table that is being defined: binds its default, makes its sequence.
pub(super) fn add_column(ddl: &mut Ddl<'_>, table: &mut Table, spec: &ColumnSpec) -> Result<usize> {
    let mut column = spec.column.clone();
    if is_system_column(&column.name) {
        return Err(conflicting_name(&column.name));
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
        let (text, value) = fixed_expression_text(default, types, view, |binder, default| {
            binder.assign(default, &Scope::empty(), &column.name, column.ty)
        })?;
        let is_null = value.as_const().is_some_and(Datum::is_null);
        Ok((!is_null).then_some(text))
    })
}

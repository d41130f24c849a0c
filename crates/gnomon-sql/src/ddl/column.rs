//! Column definitions and constraints, as CREATE TABLE and ALTER TABLE have them.

use std::{collections::BTreeMap, sync::Arc};

use sqlparser::ast::{
    self, ColumnDef, ColumnOption, ConstraintCharacteristics, DataType, GeneratedAs, IndexColumn,
    SequenceOptions, TableConstraint,
};

use super::{
    COLUMNS_MAX, Ddl, INDEX_COLUMNS_MAX, choose_name, partition::check_unique, sequence::SequenceSpec,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Check, Column, Identity, Index, Table},
    dml::bind_check,
    functions::quote_ident,
    query::{Binder, Scope},
    session::parse::{SequenceOption, expression_text, fold},
    types::{ColumnType, Datum, Type, column_type},
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
fn type_of(data_type: &DataType) -> Result<(ColumnType, bool)> {
    let serial = match data_type.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        "smallserial" | "serial2" => Some(Type::Int2),
        _ => None,
    };
    match serial {
        Some(ty) => Ok((ColumnType { ty, modifier: -1 }, true)),
        None => {
            let ty = column_type(data_type)?;
            match ty.ty {
                Type::Record | Type::Void | Type::Unknown => Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("a column cannot have the pseudo-type {data_type}"),
                )),
                _ => Ok((ty, false)),
            }
        }
    }
}

/// Constraints are checked at once here, which NOT DEFERRABLE and INITIALLY IMMEDIATE ask for anyway.
fn refuse_deferrable(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    match characteristics {
        Some(c) if c.deferrable == Some(true) || c.initially == Some(ast::DeferrableInitial::Deferred) => {
            Err(SqlError::unsupported("a deferrable constraint"))
        }
        _ => Ok(()),
    }
}

/// A column definition, taken apart.
pub(super) fn column_spec(table: &str, definition: &ColumnDef) -> Result<ColumnSpec> {
    let name = fold(&definition.name);
    let (ty, serial) = type_of(&definition.data_type)?;
    let mut spec = ColumnSpec {
        column: Column {
            name: name.clone(),
            ty,
            not_null: serial,
            default: None,
            identity: None,
            dropped: false,
        },
        default: None,
        sequence: serial.then(|| ColumnSequence { identity_always: None, spec: SequenceSpec::new(ty) }),
        constraints: Vec::new(),
    };
    let mut null = false;
    for option in &definition.options {
        let constraint_name = option.name.as_ref().map(fold);
        match &option.option {
            ColumnOption::Null => null = true,
            ColumnOption::NotNull => spec.column.not_null = true,
            ColumnOption::Default(expr) => {
                if spec.default.is_some() || serial {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!(
                            "multiple default values specified for column \"{name}\" of table \"{table}\""
                        ),
                    ));
                }
                spec.default = Some(expr.clone());
            }
            ColumnOption::PrimaryKey(key) => {
                refuse_deferrable(key.characteristics.as_ref())?;
                refuse_key_options(!key.index_options.is_empty() || key.index_type.is_some())?;
                spec.constraints.push(single_key(constraint_name, true, &name));
            }
            ColumnOption::Unique(key) => {
                refuse_deferrable(key.characteristics.as_ref())?;
                refuse_key_options(!key.index_options.is_empty() || key.index_type.is_some())?;
                spec.constraints.push(single_key(constraint_name, false, &name));
            }
            ColumnOption::Check(check) => {
                refuse_check_options(check)?;
                spec.constraints.push(ConstraintSpec::Check {
                    name: constraint_name.or_else(|| check.name.as_ref().map(fold)),
                    column: Some(name.clone()),
                    expression: check.expr.clone(),
                });
            }
            ColumnOption::ForeignKey(_) => return Err(SqlError::unsupported("a FOREIGN KEY constraint")),
            ColumnOption::Generated { generation_expr: Some(_), .. } => {
                return Err(SqlError::unsupported("a generated column"));
            }
            ColumnOption::Generated { generated_as, sequence_options, .. } => {
                if serial || spec.sequence.is_some() || spec.default.is_some() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!(
                            "both default and identity specified for column \"{name}\" of table \"{table}\""
                        ),
                    ));
                }
                if !matches!(ty.ty, Type::Int2 | Type::Int4 | Type::Int8) {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "identity column type must be smallint, integer, or bigint",
                    ));
                }
                let mut sequence = SequenceSpec::new(ty);
                for option in sequence_options.iter().flatten() {
                    sequence.apply(&parser_option(option)?)?;
                }
                spec.column.not_null = true;
                spec.sequence = Some(ColumnSequence {
                    identity_always: Some(matches!(generated_as, GeneratedAs::Always)),
                    spec: sequence,
                });
            }
            ColumnOption::Collation(name) => {
                let name = name.to_string().to_lowercase();
                if !["\"c\"", "\"posix\"", "\"default\"", "c", "posix"].contains(&name.as_str()) {
                    return Err(SqlError::unsupported(format!("the collation {name}")));
                }
            }
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    if null && spec.column.not_null {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{table}\""),
        ));
    }
    Ok(spec)
}

fn single_key(name: Option<String>, primary: bool, column: &str) -> ConstraintSpec {
    let column = IndexKey { column: column.to_owned(), descending: false, nulls_first: false };
    ConstraintSpec::Key { name, primary, columns: vec![column] }
}

/// An option of the sequence behind an identity column, as the parser crate has it.
pub(super) fn parser_option(option: &SequenceOptions) -> Result<SequenceOption> {
    let number = |expr: &ast::Expr| {
        expr.to_string().replace(' ', "").parse::<i64>().map_err(|_| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("\"{expr}\" is not an integer of a sequence"))
        })
    };
    Ok(match option {
        SequenceOptions::IncrementBy(expr, _) => SequenceOption::Increment(number(expr)?),
        SequenceOptions::MinValue(expr) => SequenceOption::Min(expr.as_ref().map(number).transpose()?),
        SequenceOptions::MaxValue(expr) => SequenceOption::Max(expr.as_ref().map(number).transpose()?),
        SequenceOptions::StartWith(expr, _) => SequenceOption::Start(number(expr)?),
        SequenceOptions::Cache(expr) => SequenceOption::Cache(number(expr)?),
        // The parser crate's flag is the word NO's.
        SequenceOptions::Cycle(no) => SequenceOption::Cycle(!*no),
    })
}

/// The columns of an index definition; expressions are not supported.
pub(super) fn index_keys(columns: &[IndexColumn]) -> Result<Vec<IndexKey>> {
    if columns.len() > INDEX_COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
        ));
    }
    columns
        .iter()
        .map(|column| {
            let order = &column.column;
            let ast::Expr::Identifier(ident) = &order.expr else {
                return Err(SqlError::unsupported("an index on an expression"));
            };
            let descending = order.options.sort == Some(ast::OrderBySort::Desc);
            let nulls_first = order.options.nulls_first.unwrap_or(descending);
            Ok(IndexKey { column: fold(ident), descending, nulls_first })
        })
        .collect()
}

/// A table constraint, taken apart.
pub(super) fn constraint_spec(constraint: &TableConstraint) -> Result<ConstraintSpec> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            refuse_deferrable(key.characteristics.as_ref())?;
            refuse_key_options(!key.index_options.is_empty() || key.index_type.is_some())?;
            refuse_include(&key.include)?;
            Ok(ConstraintSpec::Key {
                name: key.name.as_ref().map(fold),
                primary: true,
                columns: index_keys(&key.columns)?,
            })
        }
        TableConstraint::Unique(key) => {
            refuse_deferrable(key.characteristics.as_ref())?;
            refuse_key_options(!key.index_options.is_empty() || key.index_type.is_some())?;
            refuse_include(&key.include)?;
            if key.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
            }
            Ok(ConstraintSpec::Key {
                name: key.name.as_ref().map(fold),
                primary: false,
                columns: index_keys(&key.columns)?,
            })
        }
        TableConstraint::Check(check) => {
            refuse_check_options(check)?;
            Ok(ConstraintSpec::Check {
                name: check.name.as_ref().map(fold),
                column: None,
                expression: check.expr.clone(),
            })
        }
        TableConstraint::ForeignKey(_) => Err(SqlError::unsupported("a FOREIGN KEY constraint")),
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

fn refuse_key_options(present: bool) -> Result<()> {
    if present { Err(SqlError::unsupported("an index option of a constraint")) } else { Ok(()) }
}

fn refuse_check_options(check: &ast::CheckConstraint) -> Result<()> {
    if check.no_inherit {
        return Err(SqlError::unsupported("a constraint that is NO INHERIT"));
    }
    match check.enforced {
        Some(false) => Err(SqlError::unsupported("a constraint that is NOT ENFORCED")),
        _ => Ok(()),
    }
}

pub(super) fn refuse_include(include: &[ast::Ident]) -> Result<()> {
    if include.is_empty() { Ok(()) } else { Err(SqlError::unsupported("INCLUDE in an index")) }
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
        let view = ddl.session.view();
        let name = choose_name(&table.name, &column.name, "seq", |name| {
            view.catalog.has_relation(&table.schema, name)
        });
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

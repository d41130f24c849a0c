//! Constraints, as CREATE TABLE and ALTER TABLE have them. What is not carried out is refused here.

use std::{collections::BTreeSet, sync::Arc};

use gnomon_parser::{
    Position,
    ast::{self, Constraint, ConstraintAttributes, ConstraintKind, IndexConstraint},
};

use super::{
    Ddl,
    check::with_bare_columns,
    clauses::check_tablespace,
    fixed_names::fixed_expression_text,
    index::{IndexKey, check_key_count, define_index},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        choose_name,
        model::{Check, Table},
    },
    dml::bind_check,
    query::{Binder, Scope},
};

/// A constraint, with the columns by name.
pub(super) enum ConstraintSpec {
    Key { name: Option<String>, primary: bool, columns: Vec<IndexKey>, position: Position },
    Check { name: Option<String>, expression: Box<ast::Expr> },
}

/// Constraints are checked at once here, which NOT DEFERRABLE and INITIALLY IMMEDIATE ask for anyway.
pub(super) fn refuse_attributes(attributes: &ConstraintAttributes) -> Result<()> {
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
pub(super) fn refuse_misplaced_attributes(constraint: &Constraint) -> Result<()> {
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

pub(super) fn unsupported_constraint(constraint: &Constraint) -> SqlError {
    SqlError::unsupported(match constraint.kind {
        ConstraintKind::ForeignKey(_) => "a FOREIGN KEY constraint",
        ConstraintKind::Exclude(_) => "an EXCLUDE constraint",
        ConstraintKind::Generated(_) => "a generated column",
        _ => "this constraint",
    })
    .at(constraint.position)
}

/// The columns of UNIQUE or PRIMARY KEY; none if it is of a column.
pub(super) fn key_columns(constraint: &Constraint, index: &IndexConstraint) -> Result<Vec<IndexKey>> {
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
    tablespace.as_ref().map_or(Ok(()), |space| check_tablespace(&space.name))?;
    check_key_count(columns.len())?;
    Ok(columns.iter().map(|column| IndexKey::ascending(&column.name)).collect())
}

/// A table constraint, taken apart.
pub(super) fn constraint_spec(constraint: &Constraint) -> Result<ConstraintSpec> {
    let name = constraint.name.as_ref().map(|name| String::from(&*name.name));
    match &constraint.kind {
        ConstraintKind::PrimaryKey(index) | ConstraintKind::Unique(index) => {
            let primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
            let (columns, position) = (key_columns(constraint, index)?, constraint.position);
            Ok(ConstraintSpec::Key { name, primary, columns, position })
        }
        ConstraintKind::Check(expression) => {
            refuse_attributes(&constraint.attributes)?;
            Ok(ConstraintSpec::Check { name, expression: Box::new(expression.clone()) })
        }
        _ => Err(unsupported_constraint(constraint)),
    }
}

/// As [`add_constraint`], of CREATE TABLE, where PostgreSQL shows the place of a key that cannot be.
pub(super) fn add_new_constraint(ddl: &mut Ddl<'_>, table: &mut Table, spec: &ConstraintSpec) -> Result<()> {
    const SHOWN: [SqlState; 3] =
        [SqlState::UNDEFINED_COLUMN, SqlState::DUPLICATE_COLUMN, SqlState::INVALID_TABLE_DEFINITION];
    add_constraint(ddl, table, spec).map_err(|error| match spec {
        ConstraintSpec::Key { position, .. } if SHOWN.contains(&error.state()) => error.at(*position),
        _ => error,
    })
}

/// Adds a constraint to a table that is being defined. The trees of its indexes are made later.
pub(super) fn add_constraint(ddl: &mut Ddl<'_>, table: &mut Table, spec: &ConstraintSpec) -> Result<()> {
    match spec {
        ConstraintSpec::Key { name, primary, columns, position: _ } => {
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
        ConstraintSpec::Check { name, expression } => {
            let shape = Arc::new(table.clone());
            let expression = &with_bare_columns(expression, table)?;
            let (expression, _) = ddl.session.with_types(|types, view| {
                fixed_expression_text(expression, types, view, |binder, expression| {
                    binder.condition(expression, &Scope::of_table(&shape, None), true)
                })
            })?;
            let mut check = Check { name: name.clone().unwrap_or_default(), expression };
            let bound = ddl.session.with_types(|types, view| {
                let mut binder = Binder::new(view, types, &[]);
                bind_check(&mut binder, &shape, &check)
            })?;
            match name {
                Some(name) if table.constraint(name).is_some() => {
                    return Err(duplicate_constraint(table, name));
                }
                Some(_) => {}
                None => check.name = check_name(ddl, table, &bound.condition.columns()),
            }
            table.checks.push(check);
        }
    }
    Ok(())
}

/// A name for a CHECK that was given none. Its column is part of it, if its condition has only one.
fn check_name(ddl: &mut Ddl<'_>, table: &Table, columns: &BTreeSet<usize>) -> String {
    let view = ddl.session.view();
    let column = match columns.iter().copied().collect::<Vec<_>>()[..] {
        [column] => &*table.columns[column].name,
        _ => "",
    };
    choose_name(&table.name, column, "check", |name| {
        table.has_constraint_or_index(name) || view.catalog.has_constraint(&table.schema, name)
    })
}

fn duplicate_constraint(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
    )
}

//! Columns, and parts of values: `t.a`, `t.a[1]`, `a[1:2]`, `(f(x)).n`.

use gnomon_parser::ast::{self, Access, ColumnReference, Indirection};

use super::{ExpressionBinder, row};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        scope::{Clause, Place, unsupported_column},
        typing::type_name,
    },
    catalog::row_address::is_system_column,
    executor::{Expr, expr::ExprKind},
    types::{Type, cast::CastContext},
};

impl ExpressionBinder<'_, '_> {
    /// Binds a column, or the row of a relation.
    pub fn column(&mut self, expr: &ast::Expr, column: &ColumnReference, place: Place<'_>) -> Result<Expr> {
        if place.clause == Clause::Default {
            let message = "cannot use column reference in DEFAULT expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if column.has_star {
            return row::relation_row(self, column, place);
        }
        let names: Vec<&str> = column.fields.iter().map(|field| &*field.name).collect();
        let [name] = names[..] else { return self.qualified(&names, place) };
        if let Some(column) = place.scope.column(name, &mut self.statement.numbers)? {
            if let Some(expansions) = &mut self.statement.expansions {
                expansions.column(expr, name, place.scope);
            }
            self.statement.note_columns([&column]);
            return Ok(column.expr);
        }
        if let Some(row) = place.scope.whole_row(None, name, &mut self.statement.numbers)? {
            return Ok(row);
        }
        if let Some(parameter) = self.statement.typing.parameters.named(None, name) {
            return Ok(parameter);
        }
        if is_system_column(name) && place.scope.has_system_columns() {
            return Err(match place.clause {
                Clause::Check if name != "tableoid" => {
                    let message =
                        format!("system column \"{name}\" reference in check constraint is invalid");
                    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                }
                _ => unsupported_column(name),
            });
        }
        Err(place.scope.missing_column(None, name))
    }

    /// Binds a column with the names that qualify it.
    fn qualified(&mut self, names: &[&str], place: Place<'_>) -> Result<Expr> {
        let (qualifier, column) = match names {
            [qualifier @ .., column] => (qualifier, *column),
            [] => return Err(improper_star()),
        };
        let (schema, relation) = self.relation_of(qualifier, names)?;
        match place.scope.qualified(schema, relation, column, &mut self.statement.numbers)? {
            Some(column) => {
                self.statement.note_columns([&column]);
                Ok(column.expr)
            }
            None => {
                let parameter = match schema {
                    None => self.statement.typing.parameters.named(Some(relation), column),
                    Some(_) => None,
                };
                parameter.ok_or_else(|| place.scope.missing_relation(relation))
            }
        }
    }

    /// The schema and the relation that names before a column or a star stand for; `whole` is all of it, for messages.
    pub fn relation_of<'n>(&self, names: &[&'n str], whole: &[&str]) -> Result<(Option<&'n str>, &'n str)> {
        match *names {
            [relation] => Ok((None, relation)),
            [schema, relation] => Ok((Some(schema), relation)),
            [database, schema, relation] if database == self.statement.database => {
                Ok((Some(schema), relation))
            }
            [_, _, _] => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: {}", whole.join(".")),
            )),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {}", whole.join(".")),
            )),
        }
    }

    /// Binds the fields of a row; `relation.*` stands for all columns of the relation.
    pub fn fields(&mut self, fields: &[ast::Expr], place: Place<'_>) -> Result<Vec<Expr>> {
        let mut bound = Vec::with_capacity(fields.len());
        for field in fields {
            match field {
                ast::Expr::Column(star) if star.has_star => {
                    let columns =
                        row::relation_columns(self, star, place).map_err(|error| at_expr(error, field))?;
                    bound.extend(columns.into_iter().map(|column| column.expr));
                }
                ast::Expr::Indirection(parts) if matches!(parts.path.last(), Some(Access::Star)) => {
                    let columns = match row::star_of(self, parts, place)? {
                        Some(star) => row::relation_columns(self, &star, place),
                        None => row::row_columns(self, parts, place),
                    };
                    let columns = columns.map_err(|error| at_expr(error, field))?;
                    bound.extend(columns.into_iter().map(|column| column.expr));
                }
                field => bound.push(self.bind(field, place)?),
            }
        }
        Ok(bound)
    }

    /// Binds a chain of subscripts and fields. Several subscripts together are those of several dimensions.
    pub fn indirection(&mut self, indirection: &Indirection, place: Place<'_>) -> Result<Expr> {
        let mut path = &indirection.path[..];
        let is_subscript = |access: &Access| matches!(access, Access::Subscript(_) | Access::Slice(..));
        if path.windows(2).any(|pair| pair.iter().all(is_subscript)) {
            return Err(SqlError::unsupported("a subscript of several dimensions"));
        }
        let mut value = match (&indirection.base, path) {
            // `(t).a` is the column, if `t` is none itself.
            (ast::Expr::Column(relation), [Access::Field(field), rest @ ..])
                if relation.has_star || row::is_relation(self, relation, place)? =>
            {
                path = rest;
                let names: Vec<&str> =
                    relation.fields.iter().chain([field]).map(|name| &*name.name).collect();
                self.qualified(&names, place)?
            }
            (base, _) => self.bind(base, place)?,
        };
        for access in path {
            value = match access {
                Access::Field(field) => row::field(value, &field.name)?,
                Access::Star => return Err(row_expansion()),
                access => self.subscript(value, access, place)?,
            };
        }
        Ok(value)
    }

    fn subscript(&mut self, value: Expr, access: &Access, place: Place<'_>) -> Result<Expr> {
        let ty = value.ty;
        if ty.ty == Type::Name {
            return letter_of_name(self, value, access, place);
        }
        let Some(element) = ty.ty.element() else {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "cannot subscript type {} because it does not support subscripting",
                    type_name(ty.ty)
                ),
            ));
        };
        let first = ty.ty.first_subscript();
        let array = Box::new(value);
        match access {
            Access::Subscript(index) => {
                let index = array_subscript(self, index, place)?;
                Ok(Expr::new(ExprKind::Subscript { array, index, first }, element))
            }
            Access::Slice(from, to) => {
                let from = from.as_ref().map(|at| array_subscript(self, at, place)).transpose()?;
                let to = to.as_ref().map(|at| array_subscript(self, at, place)).transpose()?;
                // A part of a vector is an array.
                let ty = if ty.ty.is_vector() { element.array().unwrap_or(ty.ty).into() } else { ty };
                Ok(Expr { kind: ExprKind::Slice { array, from, to, first }, ty })
            }
            Access::Field(_) | Access::Star => Err(row_expansion()),
        }
    }
}

pub fn row_expansion() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "row expansion via \"*\" is not supported here")
}

pub fn improper_star() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "improper use of \"*\"")
}

/// A name is an array of "char", from 0, of fixed length.
fn letter_of_name(
    binder: &mut ExpressionBinder<'_, '_>,
    value: Expr,
    access: &Access,
    place: Place<'_>,
) -> Result<Expr> {
    let Access::Subscript(index) = access else {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "slices of fixed-length arrays not implemented",
        ));
    };
    let (array, index) = (Box::new(value), array_subscript(binder, index, place)?);
    Ok(Expr::new(ExprKind::Subscript { array, index, first: 0 }, Type::Char))
}

pub fn array_subscript(
    binder: &mut ExpressionBinder<'_, '_>,
    expr: &ast::Expr,
    place: Place<'_>,
) -> Result<Box<Expr>> {
    let index = binder.bind(expr, place)?;
    let index = binder.statement.typing.coerce(index, Type::Int4.into(), CastContext::Assignment);
    let refused = || SqlError::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer");
    index.and_then(|index| index.map(Box::new).ok_or_else(refused)).map_err(|error| at_expr(error, expr))
}

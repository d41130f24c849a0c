//! Rows of relations and of expressions: `t.*`, `(t).*`, `(f(x)).*`, `(ROW(1, 2)).f1`.

use gnomon_parser::ast::{self, Access, ColumnReference, Indirection};

use super::{
    ExpressionBinder,
    access::{improper_star, row_expansion},
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::{Place, ScopeColumn},
        typing::type_name,
    },
    executor::{Expr, expr::ExprKind},
    types::{Type, shape},
};

/// The schema and the relation of `relation.*`.
fn relation_of_star<'n>(
    binder: &ExpressionBinder<'_, '_>,
    star: &'n ColumnReference,
) -> Result<(Option<&'n str>, &'n str)> {
    let names: Vec<&str> = star.fields.iter().map(|field| &*field.name).collect();
    if names.is_empty() {
        return Err(improper_star());
    }
    let whole: Vec<&str> = names.iter().copied().chain(["*"]).collect();
    binder.relation_of(&names, &whole)
}

/// The columns that `relation.*` stands for.
pub fn relation_columns(
    binder: &mut ExpressionBinder<'_, '_>,
    star: &ColumnReference,
    place: Place<'_>,
) -> Result<Vec<ScopeColumn>> {
    let (schema, relation) = relation_of_star(binder, star)?;
    let columns = place.scope.whole_relation(schema, relation, &mut binder.statement.numbers)?;
    let columns = columns.ok_or_else(|| place.scope.missing_relation(relation))?;
    binder.statement.note_columns(&columns);
    Ok(columns)
}

/// The row that `relation.*` stands for, where one value is asked for.
pub fn relation_row(
    binder: &mut ExpressionBinder<'_, '_>,
    star: &ColumnReference,
    place: Place<'_>,
) -> Result<Expr> {
    let (schema, relation) = relation_of_star(binder, star)?;
    place
        .scope
        .whole_row(schema, relation, &mut binder.statement.numbers)?
        .ok_or_else(|| place.scope.missing_relation(relation))
}

/// Returns `relation.*` if that is meant by `(relation).*`.
pub fn star_of(
    binder: &mut ExpressionBinder<'_, '_>,
    parts: &Indirection,
    place: Place<'_>,
) -> Result<Option<ColumnReference>> {
    let (ast::Expr::Column(column), [Access::Star]) = (&parts.base, &parts.path[..]) else {
        return Ok(None);
    };
    let is_relation = column.has_star || is_relation(binder, column, place)?;
    Ok(is_relation.then(|| ColumnReference { has_star: true, ..column.clone() }))
}

/// True if a name is one of a relation, and of no column.
pub fn is_relation(
    binder: &mut ExpressionBinder<'_, '_>,
    column: &ColumnReference,
    place: Place<'_>,
) -> Result<bool> {
    let [name] = &column.fields[..] else { return Ok(false) };
    let numbers = &mut binder.statement.numbers;
    Ok(place.scope.column(&name.name, numbers)?.is_none()
        && place.scope.whole_relation(None, &name.name, numbers)?.is_some())
}

/// The columns that `(row).*` stands for.
pub fn row_columns(
    binder: &mut ExpressionBinder<'_, '_>,
    parts: &Indirection,
    place: Place<'_>,
) -> Result<Vec<ScopeColumn>> {
    let (_, path) = parts.path.split_last().ok_or_else(row_expansion)?;
    let base = Indirection { base: parts.base.clone(), path: path.to_vec() };
    let value = binder.indirection(&base, place)?;
    let column =
        |name: String, expr: Expr| ScopeColumn { name, expr, table: 0, attribute: 0, is_hidden: false };
    if let ExprKind::Row(fields) = &value.kind {
        let fields = fields.iter().enumerate();
        return Ok(fields.map(|(at, field)| column(format!("f{}", at + 1), field.clone())).collect());
    }
    let Some(fields) = shape::fields_of(value.ty) else {
        return Err(match value.ty.ty {
            Type::Record => SqlError::unsupported("the expansion of a row without named fields by .*"),
            ty => {
                let message = format!("type {} is not composite", type_name(ty));
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            }
        });
    };
    let fields = fields.iter().enumerate().map(|(index, (name, ty))| {
        let kind = ExprKind::Field { record: Box::new(value.clone()), index };
        column((*name).to_owned(), Expr::new(kind, *ty))
    });
    Ok(fields.collect())
}

/// A field of a row whose shape is known.
pub fn field(value: Expr, name: &str) -> Result<Expr> {
    if let ExprKind::Row(fields) = value.kind {
        let position = name.strip_prefix('f').and_then(|digits| digits.parse::<usize>().ok());
        let field = position.and_then(|position| fields.into_iter().nth(position.checked_sub(1)?));
        return field.ok_or_else(|| no_field(name));
    }
    let Some(fields) = shape::fields_of(value.ty) else {
        if value.ty.ty == Type::Record {
            return Err(SqlError::unsupported("access to a field of a composite value"));
        }
        let ty = type_name(value.ty.ty);
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("column notation .{name} applied to type {ty}, which is not a composite type"),
        ));
    };
    let Some(index) = fields.iter().position(|(known, _)| *known == name) else {
        return Err(no_field(name));
    };
    Ok(Expr::new(ExprKind::Field { record: Box::new(value), index }, fields[index].1))
}

fn no_field(name: &str) -> SqlError {
    let message = format!("could not identify column \"{name}\" in record data type");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

//! Subscripts and fields: `t.a[1]`, `a[1:2]`, `(f(x)).n`.

use sqlparser::ast::{self, AccessExpr, Ident, Subscript};

use super::ExpressionBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::Place,
        syntax::{name_of, unnested},
        typing::type_name,
    },
    executor::{Expr, expr::ExprKind},
    types::{Type, cast::CastContext, shape},
};

impl ExpressionBinder<'_, '_> {
    /// Binds a chain of subscripts and fields. The names at its head are those of a column: `schema.t.a[1]`.
    pub fn access(&mut self, root: &ast::Expr, chain: &[AccessExpr], place: Place<'_>) -> Result<Expr> {
        let (mut value, rest) = match self.column_names(root, chain, place)? {
            Some(names) => {
                let taken = names.len() - names_of(root).map_or(0, <[Ident]>::len);
                (self.compound(&names, place)?, &chain[taken..])
            }
            None => (self.bind(root, place)?, chain),
        };
        for access in rest {
            value = match access {
                AccessExpr::Dot(ast::Expr::Identifier(field)) => self.field(value, field)?,
                AccessExpr::Dot(_) => {
                    return Err(SqlError::unsupported("access to a field of a composite value"));
                }
                AccessExpr::Subscript(subscript) => self.subscript(value, subscript, place)?,
            };
        }
        Ok(value)
    }

    /// The names that the root and the fields after it are, if they name a column: those without parentheses do, and
    /// `(t).a` does if `t` is no column itself.
    fn column_names(
        &mut self,
        root: &ast::Expr,
        chain: &[AccessExpr],
        place: Place<'_>,
    ) -> Result<Option<Vec<Ident>>> {
        let fields = chain.iter().map_while(|access| match access {
            AccessExpr::Dot(ast::Expr::Identifier(field)) => Some(field),
            _ => None,
        });
        let is_nested = matches!(root, ast::Expr::Nested(_));
        let fields: Vec<Ident> = fields.take(if is_nested { 1 } else { usize::MAX }).cloned().collect();
        let Some(names) = names_of(root).filter(|_| !fields.is_empty()) else { return Ok(None) };
        if is_nested {
            let [name] = names else { return Ok(None) };
            if place.scope.column(&name_of(name), &mut self.statement.numbers)?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(names.iter().cloned().chain(fields).collect()))
    }

    /// A field of a row whose shape is known.
    fn field(&mut self, value: Expr, field: &Ident) -> Result<Expr> {
        let name = name_of(field);
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
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("could not identify column \"{name}\" in record data type"),
            ));
        };
        Ok(Expr::new(ExprKind::Field { record: Box::new(value), index }, fields[index].1))
    }

    fn subscript(&mut self, value: Expr, subscript: &Subscript, place: Place<'_>) -> Result<Expr> {
        let ty = value.ty;
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
        match subscript {
            Subscript::Index { index } => {
                let index = self.index(index, place)?;
                Ok(Expr::new(ExprKind::Subscript { array, index, first }, element))
            }
            Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                let from = lower_bound.as_ref().map(|at| self.index(at, place)).transpose()?;
                let to = upper_bound.as_ref().map(|at| self.index(at, place)).transpose()?;
                // A part of a vector is an array.
                let ty = if ty.ty.is_vector() { element.array().unwrap_or(ty.ty).into() } else { ty };
                Ok(Expr { kind: ExprKind::Slice { array, from, to, first }, ty })
            }
            Subscript::Slice { .. } => Err(SqlError::unsupported("a slice with a stride")),
        }
    }

    fn index(&mut self, index: &ast::Expr, place: Place<'_>) -> Result<Box<Expr>> {
        let index = self.bind(index, place)?;
        let index = self.statement.typing.coerce(index, Type::Int4.into(), CastContext::Assignment)?;
        index.map(Box::new).ok_or_else(|| {
            SqlError::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer")
        })
    }
}

/// The names that an expression is made of, if it is nothing else.
fn names_of(expr: &ast::Expr) -> Option<&[Ident]> {
    match unnested(expr) {
        ast::Expr::Identifier(ident) => Some(std::slice::from_ref(ident)),
        ast::Expr::CompoundIdentifier(idents) => Some(idents),
        _ => None,
    }
}

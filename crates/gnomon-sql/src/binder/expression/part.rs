//! Parts of columns as targets of assignments: `SET a[1] = x`, `INSERT INTO t (a[2:3])`.

use gnomon_parser::ast::{Access, AssignmentTarget};

use super::{ExpressionBinder, access::array_subscript};
use crate::{
    Result, SqlError, SqlState,
    binder::{scope::Place, typing::type_name},
    executor::expr::Part,
    types::ColumnType,
};

/// Binds the part of a column of this type that is assigned to; returns the type of its value too.
pub fn bind_part(
    binder: &mut ExpressionBinder<'_, '_>,
    target: &AssignmentTarget,
    ty: ColumnType,
    place: Place<'_>,
) -> Result<(Part, ColumnType)> {
    let mismatch =
        |message: String| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(target.column.position));
    let access = match &target.path[..] {
        [Access::Field(field), ..] => {
            let (column, ty) = (&target.column.name, type_name(ty.ty));
            return mismatch(format!(
                "cannot assign to field \"{}\" of column \"{column}\" because its type {ty} is not a composite type",
                field.name
            ));
        }
        [access @ (Access::Subscript(_) | Access::Slice(..))] => access,
        _ => {
            let error = SqlError::unsupported("assigning to an element of an array of several dimensions");
            return Err(error.at(target.column.position));
        }
    };
    let Some(element) = ty.ty.element().filter(|_| !ty.ty.is_vector()) else {
        let ty = type_name(ty.ty);
        return mismatch(format!("cannot subscript type {ty} because it does not support subscripting"));
    };
    let mut bound = |at: &Option<_>| match at {
        Some(at) => array_subscript(binder, at, place).map(|bound| Some(*bound)),
        None => Ok(None),
    };
    Ok(match access {
        Access::Slice(from, to) => {
            let (from, to) = (bound(from)?, bound(to)?);
            (Part { from, to, is_slice: true }, ty)
        }
        Access::Subscript(index) => {
            let from = Some(*array_subscript(binder, index, place)?);
            (Part { from, to: None, is_slice: false }, ColumnType { ty: element, modifier: ty.modifier })
        }
        Access::Field(_) | Access::Star => return Err(super::access::row_expansion()),
    })
}

//! Assignment to a part of an array: `SET a[1] = x`, `SET a[2:3] = y`.

use super::{Expr, ExprKind};
use crate::{
    Result, SqlError, SqlState,
    executor::context::ExecContext,
    types::{
        Datum, Scalar,
        limit::{ELEMENTS_MAX, Elements, too_many_elements},
    },
};

/// The part of an array that is assigned to.
#[derive(Clone, Debug)]
pub struct Part {
    /// The subscript of the element, or of the first one of a slice.
    pub from: Option<Expr>,
    /// The subscript of the last one of a slice.
    pub to: Option<Expr>,
    /// True if it is a slice.
    pub is_slice: bool,
}

impl Part {
    /// Returns the array whose part gets a value.
    pub fn assign(self, array: Expr, value: Expr) -> Expr {
        let ty = array.ty;
        let kind = ExprKind::SetPart { array: Box::new(array), part: Box::new(self), value: Box::new(value) };
        Expr { kind, ty }
    }

    /// Returns an array with the part replaced by `value`; a NULL array is an empty one.
    ///
    /// # Errors
    /// 22004 for a subscript that is NULL, 2202E for a slice that does not fit.
    pub fn set(
        &self,
        scalar: Scalar,
        array: Datum,
        value: Datum,
        row: &[Datum],
        ctx: &mut ExecContext<'_>,
    ) -> Result<Datum> {
        let from = subscript(self.from.as_ref(), row, ctx)?;
        let to = subscript(self.to.as_ref(), row, ctx)?;
        let mut items = match array {
            Datum::Array(_, items) => items.into_vec(),
            _ => Vec::new(),
        };
        if !self.is_slice {
            let at = from.unwrap_or_default();
            grow(&mut items, at, at, ctx)?;
            if let Some(item) = usize::try_from(at - 1).ok().and_then(|at| items.get_mut(at)) {
                *item = value;
            }
            return Ok(Elements::collect(items)?.into_array(scalar));
        }
        // A slice that is NULL changes nothing.
        let Datum::Array(_, new) = value else { return Ok(Datum::Array(scalar, items.into())) };
        if items.is_empty() && (from.is_none() || to.is_none()) {
            let message = "array slice subscript must provide both boundaries";
            let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message).detail(detail));
        }
        let (from, to) = (from.unwrap_or(1), to.unwrap_or(items.len() as i64));
        if from > to && !items.is_empty() {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        if (new.len() as i64) < to - from + 1 {
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "source array too small"));
        }
        grow(&mut items, from, to, ctx)?;
        let slice = usize::try_from(from - 1).ok().and_then(|from| items.get_mut(from..));
        for (item, new) in slice.into_iter().flatten().take((to - from + 1).max(0) as usize).zip(new) {
            *item = new;
        }
        Ok(Elements::collect(items)?.into_array(scalar))
    }
}

fn subscript(expr: Option<&Expr>, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Option<i64>> {
    match expr.map(|expr| expr.eval(row, ctx)).transpose()? {
        None => Ok(None),
        Some(Datum::Int4(number)) => Ok(Some(number.into())),
        Some(_) => {
            let message = "array subscript in assignment must not be null";
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
        }
    }
}

/// Makes an array as long as elements from `from` to `to` need.
fn grow(items: &mut Vec<Datum>, from: i64, to: i64, ctx: &mut ExecContext<'_>) -> Result<()> {
    if from < 1 || (items.is_empty() && from > 1) {
        return Err(SqlError::unsupported("an array with a lower bound other than 1"));
    }
    if to > i64::from(ELEMENTS_MAX) {
        return Err(too_many_elements());
    }
    let more = usize::try_from(to).unwrap_or_default().saturating_sub(items.len());
    ctx.reserve(more * size_of::<Datum>())?;
    items.resize(items.len() + more, Datum::Null);
    Ok(())
}

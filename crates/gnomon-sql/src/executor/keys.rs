//! Values as bytes that compare and hash as the values do: what sorts, hashes and groups go by.

use super::{Expr, context::ExecContext, plan::SortKey};
use crate::{
    Result,
    types::{Datum, keys},
};

/// Equal for equal values.
pub type HashKey = Box<[u8]>;

/// The values of `exprs`, by which rows are joined; none if one of them is NULL, which equals nothing.
pub fn hash_key<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    row: &[Datum],
    ctx: &mut ExecContext<'_>,
) -> Result<Option<HashKey>> {
    let mut key = Vec::with_capacity(16);
    for expr in exprs {
        let value = expr.eval(row, ctx)?;
        if matches!(value, Datum::Null) {
            return Ok(None);
        }
        keys::encode(&mut key, &value, false, false);
    }
    Ok(Some(key.into()))
}

/// The values of `exprs`, by which rows are grouped: NULLs are alike.
pub fn group_key<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    row: &[Datum],
    ctx: &mut ExecContext<'_>,
) -> Result<HashKey> {
    let mut key = Vec::with_capacity(16);
    for expr in exprs {
        let value = expr.eval(row, ctx)?;
        keys::encode(&mut key, &value, false, false);
    }
    Ok(key.into())
}

/// A whole row, as DISTINCT and set operations compare it.
pub fn row_key(row: &[Datum]) -> HashKey {
    let mut key = Vec::with_capacity(16 * row.len());
    row.iter().for_each(|value| keys::encode(&mut key, value, false, false));
    key.into()
}

/// A row's place in an order: bytes that compare as `order` says.
pub fn sort_key(order: &[SortKey], row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Box<[u8]>> {
    let mut key = Vec::with_capacity(16 * order.len());
    for part in order {
        let value = part.expr.eval(row, ctx)?;
        add_sort_key(&mut key, part, &value);
    }
    Ok(key.into())
}

/// The place that values have in an order: bytes that compare as `order` says.
pub fn place_of(values: &[Datum], order: &[SortKey]) -> Box<[u8]> {
    let mut key = Vec::with_capacity(16 * order.len());
    for (value, part) in values.iter().zip(order) {
        add_sort_key(&mut key, part, value);
    }
    key.into()
}

/// Appends a part of a row's place in an order.
pub fn add_sort_key(key: &mut Vec<u8>, part: &SortKey, value: &Datum) {
    keys::encode(key, value, part.descending, part.nulls_first);
}

//! Array functions and operators.

use super::{
    Eval,
    arguments::{any, array, count, integer, text},
    declaration::{Declarations, Param},
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Scalar, Type, compare,
        limit::{Elements, Pace},
    },
};

const ARRAY: Param = Param::AnyArray;
const ELEMENT: Param = Param::AnyElement;
const INT4: Param = Param::Is(Type::Int4);
const BOOL: Type = Type::Bool;

/// An array or NULL, which counts as empty.
fn elements(a: &[Datum], i: usize) -> Result<&[Datum]> {
    if any(a, i)?.is_null() { Ok(&[]) } else { array(a, i).map(|(_, elements)| elements) }
}

/// Array to array; NULL beside an array leaves it.
fn concatenate(a: &[Datum]) -> Result<Datum> {
    match a {
        [Datum::Null, Datum::Null] => Ok(Datum::Null),
        [Datum::Array(scalar, _), _] | [_, Datum::Array(scalar, _)] => {
            let both = elements(a, 0)?.iter().chain(elements(a, 1)?);
            Ok(Elements::collect(both.cloned())?.into_array(*scalar))
        }
        _ => array(a, 0).map(|_| Datum::Null),
    }
}

fn scalar_of(array: &Datum, element: &Datum) -> Result<Scalar> {
    match array {
        Datum::Array(scalar, _) => Ok(*scalar),
        _ => element.natural_type().scalar().ok_or_else(|| {
            SqlError::new(SqlState::DATATYPE_MISMATCH, "could not determine the array's element type")
        }),
    }
}

fn append(a: &[Datum], array_at: usize, element_at: usize) -> Result<Datum> {
    let (array, element) = (any(a, array_at)?, any(a, element_at)?);
    // Beside a NULL array a NULL element does not tell its type; the caller knows it.
    let scalar = if element.is_null() && array.is_null() { Scalar::Text } else { scalar_of(array, element)? };
    let mut out = elements(a, array_at)?.to_vec();
    out.insert(if array_at < element_at { out.len() } else { 0 }, element.clone());
    Ok(Elements::collect(out)?.into_array(scalar))
}

/// True if `element` is among `elements`; NULL never is.
fn holds(elements: &[Datum], element: &Datum, pace: &mut Pace<'_>) -> Result<bool> {
    pace.step(size_of_val(elements))?;
    Ok(!element.is_null() && elements.iter().any(|other| !other.is_null() && compare::same(other, element)))
}

/// Tests if all elements of `part` are in `whole`, or without `all`, if any of them is.
fn shares(cx: &Context, whole: &[Datum], part: &[Datum], all: bool) -> Result<Datum> {
    let mut pace = Pace::new(cx);
    for element in part {
        if holds(whole, element, &mut pace)? != all {
            return Ok(Datum::Bool(!all));
        }
    }
    Ok(Datum::Bool(all))
}

/// A length in a dimension: arrays have one, the empty array none.
fn length(a: &[Datum]) -> Result<Datum> {
    let (_, elements) = array(a, 0)?;
    if integer(a, 1)? != 1 || elements.is_empty() { Ok(Datum::Null) } else { count(elements.len()) }
}

/// Pieces of text; those equal to the third argument become NULL.
pub(super) fn split_text(a: &[Datum]) -> Result<Option<Elements>> {
    if any(a, 0)?.is_null() {
        return Ok(None);
    }
    let whole = text(a, 0)?;
    let null = match a.get(2) {
        Some(Datum::Text(null)) => Some(&**null),
        _ => None,
    };
    let piece = |piece: &str| if Some(piece) == null { Datum::Null } else { Datum::text(piece) };
    if whole.is_empty() {
        return Ok(Some(Elements::default()));
    }
    if any(a, 1)?.is_null() {
        return Elements::collect(whole.chars().map(|c| piece(&c.to_string()))).map(Some);
    }
    let separator = text(a, 1)?;
    if separator.is_empty() {
        return Elements::collect([piece(whole)]).map(Some);
    }
    Elements::collect(whole.split(separator).map(piece)).map(Some)
}

pub(super) fn declare(all: &mut Declarations) {
    for name in ["array_length", "array_upper"] {
        all.add(name, &[ARRAY, INT4], Type::Int4, |_, a| length(a));
    }
    all.add("array_lower", &[ARRAY, INT4], Type::Int4, |_, a| {
        Ok(if length(a)?.is_null() { Datum::Null } else { Datum::Int4(1) })
    });
    for vector in [Type::Int2vector, Type::Oidvector] {
        declare_vector(all, vector);
    }
    all.add("array_ndims", &[ARRAY], Type::Int4, |_, a| {
        Ok(if array(a, 0)?.1.is_empty() { Datum::Null } else { Datum::Int4(1) })
    });
    all.add("array_dims", &[ARRAY], Type::Text, |_, a| {
        let (_, elements) = array(a, 0)?;
        Ok(if elements.is_empty() { Datum::Null } else { Datum::text(format!("[1:{}]", elements.len())) })
    });
    all.add("trim_array", &[ARRAY, INT4], ARRAY, |_, a| {
        let ((scalar, elements), trimmed) = (array(a, 0)?, integer(a, 1)?);
        let left = usize::try_from(trimmed).ok().and_then(|trimmed| elements.len().checked_sub(trimmed));
        let left = left.ok_or_else(|| {
            let message = format!("number of elements to trim must be between 0 and {}", elements.len());
            SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
        })?;
        Ok(Elements::collect(elements[..left].iter().cloned())?.into_array(scalar))
    });
    all.add("cardinality", &[ARRAY], Type::Int4, |_, a| count(array(a, 0)?.1.len()));
    all.add("array_append", &[ARRAY, ELEMENT], ARRAY, |_, a| append(a, 0, 1)).not_strict();
    all.add("array_prepend", &[ELEMENT, ARRAY], ARRAY, |_, a| append(a, 1, 0)).not_strict();
    all.add("array_cat", &[ARRAY, ARRAY], ARRAY, |_, a| concatenate(a)).not_strict();
    all.add("array_position", &[ARRAY, ELEMENT], Type::Int4, |_, a| {
        let wanted = any(a, 1)?;
        match elements(a, 0)?.iter().position(|element| compare::same(element, wanted)) {
            Some(index) => count(index + 1),
            None => Ok(Datum::Null),
        }
    })
    .not_strict();
    all.add("array_positions", &[ARRAY, ELEMENT], Type::Array(Scalar::Int4), |_, a| {
        if any(a, 0)?.is_null() {
            return Ok(Datum::Null);
        }
        let wanted = any(a, 1)?;
        let found = elements(a, 0)?.iter().enumerate().filter(|(_, element)| compare::same(element, wanted));
        let positions = found.map(|(index, _)| count(index + 1)).collect::<Result<Vec<_>>>()?;
        Ok(Elements::collect(positions)?.into_array(Scalar::Int4))
    })
    .not_strict();
    all.add("array_remove", &[ARRAY, ELEMENT], ARRAY, |_, a| {
        let Datum::Array(scalar, elements) = any(a, 0)? else { return Ok(Datum::Null) };
        let wanted = any(a, 1)?;
        let kept = elements.iter().filter(|element| !compare::same(element, wanted));
        Ok(Elements::collect(kept.cloned())?.into_array(*scalar))
    })
    .not_strict();
    all.add("array_replace", &[ARRAY, ELEMENT, ELEMENT], ARRAY, |_, a| {
        let Datum::Array(scalar, elements) = any(a, 0)? else { return Ok(Datum::Null) };
        let (from, to) = (any(a, 1)?, any(a, 2)?);
        let replaced =
            elements.iter().map(|element| if compare::same(element, from) { to } else { element }.clone());
        Ok(Elements::collect(replaced)?.into_array(*scalar))
    })
    .not_strict();
    let split: Eval = |_, a| Ok(split_text(a)?.map_or(Datum::Null, |pieces| pieces.into_array(Scalar::Text)));
    let text = Type::Text;
    all.add("string_to_array", &[text, text], Type::Array(Scalar::Text), split).not_strict();
    all.add("string_to_array", &[text, text, text], Type::Array(Scalar::Text), split).not_strict();
}

/// Declares the functions that depend on the subscript of the first element, which is 0 in int2vector and oidvector.
fn declare_vector(all: &mut Declarations, vector: Type) {
    fn bound(a: &[Datum], upper: bool) -> Result<Datum> {
        let last = count(array(a, 0)?.1.len())?.as_i64().unwrap_or(0) - 1;
        if integer(a, 1)? != 1 {
            return Ok(Datum::Null);
        }
        super::arguments::int4(if upper { last } else { 0 })
    }
    let vector: Param = vector.into();
    all.add("array_lower", &[vector, INT4], Type::Int4, |_, a| bound(a, false));
    all.add("array_upper", &[vector, INT4], Type::Int4, |_, a| bound(a, true));
    all.add("array_length", &[vector, INT4], Type::Int4, |_, a| {
        if integer(a, 1)? == 1 { count(array(a, 0)?.1.len()) } else { Ok(Datum::Null) }
    });
    all.add("array_position", &[vector, Type::Int8.into()], Type::Int4, |_, a| {
        let wanted = integer(a, 1)?;
        match array(a, 0)?.1.iter().position(|element| element.as_i64() == Some(wanted)) {
            Some(index) => count(index),
            None => Ok(Datum::Null),
        }
    });
}

pub(super) fn declare_operators(all: &mut Declarations) {
    all.add("||", &[ARRAY, ARRAY], ARRAY, |_, a| concatenate(a)).not_strict();
    all.add("||", &[ARRAY, ELEMENT], ARRAY, |_, a| append(a, 0, 1)).not_strict();
    all.add("||", &[ELEMENT, ARRAY], ARRAY, |_, a| append(a, 1, 0)).not_strict();
    all.add("@>", &[ARRAY, ARRAY], BOOL, |cx, a| shares(cx, array(a, 0)?.1, array(a, 1)?.1, true));
    all.add("<@", &[ARRAY, ARRAY], BOOL, |cx, a| shares(cx, array(a, 1)?.1, array(a, 0)?.1, true));
    all.add("&&", &[ARRAY, ARRAY], BOOL, |cx, a| shares(cx, array(a, 0)?.1, array(a, 1)?.1, false));
}

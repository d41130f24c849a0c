//! Widths of values as PostgreSQL stores them, which `pg_stats.avg_width` tells.

use crate::types::{Datum, Type, numeric, rows};

/// The longest value with a header of one byte, with that.
const SHORT_MAX: usize = 127;
/// The width of a name.
const NAME_WIDTH: usize = 64;

/// Returns the width of all values of a type; none if they differ.
pub(super) fn fixed(ty: Type) -> Option<usize> {
    match (ty, rows::width(ty)) {
        (Type::Name, _) => Some(NAME_WIDTH),
        (_, 0) => None,
        (_, width) => Some(usize::from(width)),
    }
}

/// Returns the width of a value of a type, with its header.
pub(super) fn of(value: &Datum, ty: Type) -> usize {
    fixed(ty).unwrap_or_else(|| with_header(payload(value)))
}

/// Returns the width of a value without its header that tells its length.
fn payload(value: &Datum) -> usize {
    match value {
        Datum::Text(text) | Datum::Bpchar(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Numeric(number) => {
            // Digits of 10,000; small scales and weights share two bytes.
            let (weight, digits) = numeric::to_base_10000(number);
            let is_short = (0..=63).contains(&number.scale()) && (-64..=63).contains(&weight);
            digits.len() * 2 + if is_short { 2 } else { 4 }
        }
        Datum::Array(scalar, elements) => array(Type::from(*scalar), elements),
        _ => 0,
    }
}

/// Returns the width of an array without its header: the number of dimensions, the place of the elements and their
/// type; of the dimension, length and first subscript; a bit for each element if there are NULLs; the elements, aligned.
fn array(element: Type, elements: &[Datum]) -> usize {
    if elements.is_empty() {
        return 12;
    }
    let has_nulls = elements.iter().any(Datum::is_null);
    let nulls = if has_nulls { elements.len().div_ceil(8) } else { 0 };
    let begin = (24 + nulls).next_multiple_of(8);
    let end =
        elements.iter().filter(|element| !element.is_null()).fold(begin, |at, value| match fixed(element) {
            Some(width) => at.next_multiple_of(alignment(width)) + width,
            None => at.next_multiple_of(4) + 4 + payload(value),
        });
    end - 4
}

fn alignment(width: usize) -> usize {
    match width {
        1 => 1,
        2 => 2,
        4 | NAME_WIDTH => 4,
        _ => 8,
    }
}

fn with_header(payload: usize) -> usize {
    if payload < SHORT_MAX { payload + 1 } else { payload + 4 }
}

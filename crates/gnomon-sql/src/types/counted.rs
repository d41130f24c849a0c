//! Numbers as the engine's operations count them: in units of a column's last digit.

use gnomon_engine::op::record::Number;

use super::{ColumnType, Datum, Type, name::numeric_parts};

/// Returns how a column's numbers are counted, and how many digits a numeric may have. None if its values are no
/// numbers, or have more digits than are counted.
pub fn number_of(ty: ColumnType) -> Option<(Number, Option<u32>)> {
    match ty.ty {
        Type::Int2 | Type::Int4 | Type::Int8 => Some((Number::Integer, None)),
        Type::Numeric if ty.modifier < 0 => Some((Number::Decimal, None)),
        Type::Numeric => match numeric_parts(ty.modifier) {
            (precision @ 1..=38, scale @ 0..=18) => {
                Some((Number::Fixed(scale as u8), Some(precision.unsigned_abs())))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A value in units of a number, and its scale. None if it is no whole count of them, or too great.
pub fn units(value: &Datum, number: Number) -> Option<(i128, u8)> {
    match (value, number) {
        (Datum::Int2(value), Number::Integer) => Some((i128::from(*value), 0)),
        (Datum::Int4(value), Number::Integer) => Some((i128::from(*value), 0)),
        (Datum::Int8(value), Number::Integer) => Some((i128::from(*value), 0)),
        (Datum::Numeric(value), Number::Fixed(_) | Number::Decimal) => value.units(number.scale()),
        _ => None,
    }
}

//! Distances between values, for frames of windows that count by values (RANGE with offsets).

use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Interval, Numeric, Type, cast::date_to_timestamp, compare::compare,
        datetime::arithmetic,
    },
};

/// The types of offsets for keys of this type, by PostgreSQL's operator families; none if there is no distance.
pub fn offset_types(key: Type) -> &'static [Type] {
    match key {
        Type::Int2 | Type::Int4 | Type::Int8 => &[Type::Int2, Type::Int4, Type::Int8],
        Type::Float4 | Type::Float8 => &[Type::Float8],
        Type::Numeric => &[Type::Numeric],
        Type::Date | Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval => &[Type::Interval],
        _ => &[],
    }
}

/// The side of a limit on which a value is searched: `base - offset` if `subtract`, else `base + offset`; values up to
/// the limit if `up_to`, else values from it on.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'v> {
    /// The value that the distance is from.
    pub base: &'v Datum,
    /// The distance.
    pub offset: &'v Datum,
    /// True if the limit is before the base.
    pub subtract: bool,
    /// True if values up to the limit are in range.
    pub up_to: bool,
}

impl Limit<'_> {
    /// True if a value is in range. Value and base have one type; neither is NULL.
    ///
    /// # Errors
    /// 22013 for a negative offset, 22008 if a time is out of range.
    pub fn admits(&self, value: &Datum, cx: &Context<'_>) -> Result<bool> {
        match (value, self.base, self.offset) {
            (Datum::Float4(value), Datum::Float4(base), Datum::Float8(offset)) => {
                self.float(f64::from(*value), f64::from(*base), *offset)
            }
            (Datum::Float8(value), Datum::Float8(base), Datum::Float8(offset)) => {
                self.float(*value, *base, *offset)
            }
            (Datum::Numeric(value), Datum::Numeric(base), Datum::Numeric(offset)) => {
                self.numeric(value, base, offset)
            }
            (value, base, Datum::Interval(offset)) => self.time(value, base, *offset, cx),
            (value, base, offset) => match (integer(value), integer(base), integer(offset)) {
                (Some(value), Some(base), Some(offset)) => {
                    not_negative(offset >= 0)?;
                    Ok(self.compares(&value, &if self.subtract { base - offset } else { base + offset }))
                }
                _ => {
                    Err(SqlError::new(SqlState::INTERNAL_ERROR, "no distance between values of these types"))
                }
            },
        }
    }

    fn compares<T: PartialOrd>(&self, value: &T, limit: &T) -> bool {
        if self.up_to { value <= limit } else { value >= limit }
    }

    /// NaN is far from everything but itself, and the greatest.
    fn float(&self, value: f64, base: f64, offset: f64) -> Result<bool> {
        not_negative(offset >= 0.0)?;
        if value.is_nan() {
            return Ok(base.is_nan() || !self.up_to);
        }
        if base.is_nan() {
            return Ok(self.up_to);
        }
        let is_everywhere = offset.is_infinite() && base.is_infinite() && (base > 0.0) == self.subtract;
        let limit = if self.subtract { base - offset } else { base + offset };
        Ok(is_everywhere || self.compares(&value, &limit))
    }

    fn numeric(&self, value: &Numeric, base: &Numeric, offset: &Numeric) -> Result<bool> {
        not_negative(!offset.is_nan() && offset.signum() >= 0)?;
        if value.is_nan() {
            return Ok(base.is_nan() || !self.up_to);
        }
        if base.is_nan() {
            return Ok(self.up_to);
        }
        let is_infinite = |number: &Numeric| !matches!(number, Numeric::Finite(_));
        if is_infinite(offset) && is_infinite(base) && (base.signum() > 0) == self.subtract {
            return Ok(true);
        }
        let offset = if self.subtract { offset.negate() } else { offset.clone() };
        Ok(self.compares(value, &base.add_exactly(&offset)))
    }

    fn time(&self, value: &Datum, base: &Datum, offset: Interval, cx: &Context<'_>) -> Result<bool> {
        // Days and months say nothing about times of a day.
        if let (Datum::Time(value), Datum::Time(base)) = (value, base) {
            not_negative(offset.micros >= 0)?;
            let (value, base, offset) = (i128::from(*value), i128::from(*base), i128::from(offset.micros));
            return Ok(self.compares(&value, &if self.subtract { base - offset } else { base + offset }));
        }
        not_negative(arithmetic::interval_span(offset) >= 0)?;
        let offset = if self.subtract { arithmetic::interval_negate(offset)? } else { offset };
        let limit = match base {
            Datum::Date(base) => {
                Datum::Timestamp(arithmetic::timestamp_add(date_to_timestamp(*base)?, offset)?)
            }
            Datum::Timestamp(base) => Datum::Timestamp(arithmetic::timestamp_add(*base, offset)?),
            Datum::Timestamptz(base) => {
                Datum::Timestamptz(arithmetic::timestamptz_add(*base, offset, &cx.zone)?)
            }
            Datum::Interval(base) => Datum::Interval(arithmetic::interval_add(*base, offset)?),
            other => other.clone(),
        };
        let value = match value {
            Datum::Date(value) => Datum::Timestamp(date_to_timestamp(*value)?),
            other => other.clone(),
        };
        let ordering = compare(&value, &limit);
        Ok(if self.up_to { ordering.is_le() } else { ordering.is_ge() })
    }
}

fn integer(value: &Datum) -> Option<i128> {
    match value {
        Datum::Int2(n) => Some(i128::from(*n)),
        Datum::Int4(n) => Some(i128::from(*n)),
        Datum::Int8(n) => Some(i128::from(*n)),
        _ => None,
    }
}

fn not_negative(holds: bool) -> Result<()> {
    match holds {
        true => Ok(()),
        false => {
            Err(SqlError::new(SqlState("22013"), "invalid preceding or following size in window function"))
        }
    }
}

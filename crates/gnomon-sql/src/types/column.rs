//! Columns of values: the vectors that batches of rows are made of.
//!
//! A column holds the values of one type in the form that loops over many of them like best: integers, dates and times
//! as 64-bit integers, numerics of few digits as 128-bit ones, texts one behind the other. What has none of these forms
//! is held as single values. A numeric that does not fit turns its whole column into single values.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::{Datum, Numeric, Type, keys, limit::datum_bytes};

/// Values of one type.
#[derive(Clone, Debug)]
pub struct Column {
    values: Values,
    /// For each value, if any is NULL, true if it is; empty of [`Values::Others`], which hold NULL themselves.
    nulls: Vec<bool>,
}

/// The values of a [`Column`]; anything stands in the place of NULL.
#[derive(Clone, Debug)]
pub enum Values {
    /// Of an integer type, or another that [`is_integral`].
    Integers(Type, Vec<i64>),
    /// Numerics of few digits.
    Decimals(Vec<Decimal>),
    /// text, varchar or name.
    Texts(Texts),
    /// Of any type.
    Others(Vec<Datum>),
}

/// A product has so many digits after the point at most: less than a numeric can have.
const FACTORS_SCALE_MAX: u16 = 4000;

/// A numeric of few digits: `units / 10^scale`. It is equal to one of another scale and the same value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    /// The unscaled value.
    pub units: i128,
    /// The digits after the point.
    pub scale: u16,
}

/// Texts one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    text: String,
    /// Where each of them ends.
    ends: Vec<usize>,
}

/// True for the types whose values are 64-bit integers in a column: boolean (0 and 1), integers, dates and times.
pub fn is_integral(ty: Type) -> bool {
    use Type::{Bool, Date, Int2, Int4, Int8, Time, Timestamp, Timestamptz};
    matches!(ty, Bool | Int2 | Int4 | Int8 | Date | Time | Timestamp | Timestamptz)
}

/// Returns the value as an integer, if its type [`is_integral`].
pub fn integral(datum: &Datum) -> Option<i64> {
    match datum {
        Datum::Bool(value) => Some(i64::from(*value)),
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => Some(i64::from(*value)),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
            Some(*value)
        }
        _ => None,
    }
}

/// Returns the value of a type that [`is_integral`]; `value` must be in its range.
fn of_integer(ty: Type, value: i64) -> Datum {
    match ty {
        Type::Bool => Datum::Bool(value != 0),
        Type::Int2 => Datum::Int2(value as i16),
        Type::Int4 => Datum::Int4(value as i32),
        Type::Date => Datum::Date(value as i32),
        Type::Time => Datum::Time(value),
        Type::Timestamp => Datum::Timestamp(value),
        Type::Timestamptz => Datum::Timestamptz(value),
        _ => Datum::Int8(value),
    }
}

impl Decimal {
    /// Returns a numeric of few digits.
    pub fn of(value: &Numeric) -> Option<Decimal> {
        let (_, units, scale) = value.parts()?;
        Some(Decimal { units: i128::try_from(units).ok()?, scale: u16::try_from(scale).ok()? })
    }

    /// Returns it with `scale` digits after the point, which are at least its own; none if the units become too large.
    pub fn widened(self, scale: u16) -> Option<Decimal> {
        let more = u32::from(scale.checked_sub(self.scale)?);
        let units =
            if more == 0 { self.units } else { self.units.checked_mul(10_i128.checked_pow(more)?)? };
        Some(Decimal { units, scale })
    }

    /// Returns the sum; none if the units become too large.
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let units = self.widened(scale)?.units.checked_add(other.widened(scale)?.units)?;
        Some(Decimal { units, scale })
    }

    /// Returns the difference; none if the units become too large.
    pub fn minus(self, other: Decimal) -> Option<Decimal> {
        self.plus(Decimal { units: other.units.checked_neg()?, ..other })
    }

    /// Returns the product; none if the units or the scale become too large.
    pub fn times(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.checked_add(other.scale).filter(|scale| *scale <= FACTORS_SCALE_MAX)?;
        Some(Decimal { units: self.units.checked_mul(other.units)?, scale })
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Decimal {}
impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        match (self.widened(scale), other.widened(scale)) {
            (Some(one), Some(other)) => one.units.cmp(&other.units),
            _ => Numeric::from(*self).cmp(&Numeric::from(*other)),
        }
    }
}

impl From<Decimal> for Numeric {
    fn from(decimal: Decimal) -> Numeric {
        Numeric::new(BigInt::from(decimal.units), decimal.scale.into())
    }
}

impl Texts {
    /// Returns a text by its position.
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }
}

impl Values {
    /// Returns no values in the same form.
    fn emptied(&self) -> Values {
        match self {
            Values::Integers(ty, _) => Values::Integers(*ty, Vec::new()),
            Values::Decimals(_) => Values::Decimals(Vec::new()),
            Values::Texts(_) => Values::Texts(Texts::default()),
            Values::Others(_) => Values::Others(Vec::new()),
        }
    }
}

impl Column {
    /// Returns a column for values of a type, empty.
    pub fn of(ty: Type) -> Column {
        let values = match ty {
            ty if is_integral(ty) => Values::Integers(ty, Vec::new()),
            Type::Numeric => Values::Decimals(Vec::new()),
            Type::Text | Type::Varchar | Type::Name => Values::Texts(Texts::default()),
            _ => Values::Others(Vec::new()),
        };
        Column { values, nulls: Vec::new() }
    }

    /// Returns a column of integers, dates, times or booleans. `nulls` is empty if none is NULL.
    pub fn of_integers(ty: Type, values: Vec<i64>, nulls: Vec<bool>) -> Column {
        Column { values: Values::Integers(ty, values), nulls }
    }

    /// Returns a column of numerics. `nulls` is empty if none is NULL.
    pub fn of_decimals(values: Vec<Decimal>, nulls: Vec<bool>) -> Column {
        Column { values: Values::Decimals(values), nulls }
    }

    /// Returns a column of single values.
    pub fn of_values(values: Vec<Datum>) -> Column {
        Column { values: Values::Others(values), nulls: Vec::new() }
    }

    /// Returns a column of so many NULLs.
    pub fn of_nulls(rows: usize) -> Column {
        Column::of_values(vec![Datum::Null; rows])
    }

    /// Its values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// For each value true if it is NULL; empty if none is, or if they are [`Values::Others`].
    pub fn nulls(&self) -> &[bool] {
        &self.nulls
    }

    /// Number of values.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Integers(_, values) => values.len(),
            Values::Decimals(values) => values.len(),
            Values::Texts(texts) => texts.ends.len(),
            Values::Others(values) => values.len(),
        }
    }

    /// True if a value is NULL.
    pub fn is_null(&self, at: usize) -> bool {
        match &self.values {
            Values::Others(values) => values[at].is_null(),
            _ => self.nulls.get(at).is_some_and(|is_null| *is_null),
        }
    }

    /// Returns a value.
    pub fn get(&self, at: usize) -> Datum {
        if self.is_null(at) {
            return Datum::Null;
        }
        match &self.values {
            Values::Integers(ty, values) => of_integer(*ty, values[at]),
            Values::Decimals(values) => Datum::Numeric(values[at].into()),
            Values::Texts(texts) => Datum::text(texts.get(at)),
            Values::Others(values) => values[at].clone(),
        }
    }

    /// Appends a value of the column's type.
    pub fn push(&mut self, datum: Datum) {
        let is_held = match (&self.values, &datum) {
            (Values::Others(_), _) => false,
            (_, Datum::Null) => return self.push_null(),
            (Values::Integers(..), _) => integral(&datum).is_some_and(|value| self.push_integer(value)),
            (Values::Texts(_), Datum::Text(text)) => self.push_text(text),
            (Values::Decimals(_), Datum::Numeric(value)) => {
                Decimal::of(value).is_some_and(|value| self.push_decimal(value))
            }
            _ => false,
        };
        if !is_held {
            self.push_single(datum);
        }
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        let length = self.rows();
        match &mut self.values {
            Values::Others(values) => return values.push(Datum::Null),
            Values::Integers(_, values) => values.push(0),
            Values::Decimals(values) => values.push(Decimal::default()),
            Values::Texts(texts) => texts.push(""),
        }
        self.nulls.resize(length, false);
        self.nulls.push(true);
    }

    /// Appends an integer, date, time or boolean; false if these are no such values.
    pub(super) fn push_integer(&mut self, value: i64) -> bool {
        let Values::Integers(_, values) = &mut self.values else { return false };
        values.push(value);
        self.note_value();
        true
    }

    /// Appends a numeric; false if these are no numerics of few digits.
    pub(super) fn push_decimal(&mut self, value: Decimal) -> bool {
        let Values::Decimals(values) = &mut self.values else { return false };
        values.push(value);
        self.note_value();
        true
    }

    /// Appends a text; false if these are no texts.
    pub(super) fn push_text(&mut self, text: &str) -> bool {
        let Values::Texts(texts) = &mut self.values else { return false };
        texts.push(text);
        self.note_value();
        true
    }

    /// Keeps up the list of NULLs, if there is one, behind a value that is none.
    fn note_value(&mut self) {
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Appends a value, and turns the others into single ones.
    fn push_single(&mut self, datum: Datum) {
        if let Values::Others(values) = &mut self.values {
            values.push(datum);
            return;
        }
        let values = (0..self.rows()).map(|at| self.get(at)).chain([datum]).collect();
        (self.values, self.nulls) = (Values::Others(values), Vec::new());
    }

    /// Appends a value as bytes that are equal for equal values: those of [`keys::encode`].
    pub fn encode(&self, at: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Texts(texts) if !self.is_null(at) => keys::encode_text(out, texts.get(at)),
            Values::Others(values) => keys::encode(out, &values[at], false, false),
            _ => keys::encode(out, &self.get(at), false, false),
        }
    }

    /// The memory of its values, in bytes.
    pub fn bytes(&self) -> usize {
        self.nulls.len()
            + match &self.values {
                Values::Integers(_, values) => size_of_val(&values[..]),
                Values::Decimals(values) => size_of_val(&values[..]),
                Values::Texts(texts) => texts.text.len() + size_of_val(&texts.ends[..]),
                Values::Others(values) => {
                    values.iter().map(|value| size_of::<Datum>() + datum_bytes(value)).sum()
                }
            }
    }

    /// Appends the values of another column of the same type.
    pub fn append(&mut self, other: Column) {
        let (rows, more) = (self.rows(), other.rows());
        match (&mut self.values, &other.values) {
            (Values::Integers(_, values), Values::Integers(_, others)) => values.extend(others),
            (Values::Decimals(values), Values::Decimals(others)) => values.extend(others),
            (Values::Texts(texts), Values::Texts(others)) => {
                (0..more).for_each(|at| texts.push(others.get(at)))
            }
            _ => return (0..more).for_each(|at| self.push(other.get(at))),
        }
        if !self.nulls.is_empty() || !other.nulls.is_empty() {
            self.nulls.resize(rows, false);
            self.nulls.extend(other.nulls);
            self.nulls.resize(rows + more, false);
        }
    }

    /// As [`Column::take`], with NULL for positions behind the last.
    pub fn take_or_null(&self, positions: &[u32]) -> Column {
        if positions.iter().all(|at| (*at as usize) < self.rows()) {
            return self.take(positions);
        }
        let value =
            |at: &u32| if (*at as usize) < self.rows() { self.get(*at as usize) } else { Datum::Null };
        let mut taken = Column { values: self.values.emptied(), nulls: Vec::new() };
        positions.iter().for_each(|at| taken.push(value(at)));
        taken
    }

    /// Returns the values at these positions.
    pub fn take(&self, positions: &[u32]) -> Column {
        fn picked<T: Clone>(values: &[T], positions: &[u32]) -> Vec<T> {
            positions.iter().map(|at| values[*at as usize].clone()).collect()
        }
        let values = match &self.values {
            Values::Integers(ty, values) => Values::Integers(*ty, picked(values, positions)),
            Values::Decimals(values) => Values::Decimals(picked(values, positions)),
            Values::Texts(texts) => {
                let mut taken = Texts::default();
                positions.iter().for_each(|at| taken.push(texts.get(*at as usize)));
                Values::Texts(taken)
            }
            Values::Others(values) => Values::Others(picked(values, positions)),
        };
        let nulls = if self.nulls.is_empty() { Vec::new() } else { picked(&self.nulls, positions) };
        Column { values, nulls }
    }
}

//! `sum` and `avg`.

use super::{Accumulator, any, float, integer, interval, numeric, out_of_range};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Datum, Interval, Numeric,
        column::{Column, Decimal, Values},
        datetime::arithmetic,
    },
};

/// `sum` and `avg` of integers.
pub(super) struct IntegerSum {
    sum: i128,
    count: i64,
    result: IntegerResult,
}

/// The result that is made of a sum of integers.
pub(super) enum IntegerResult {
    /// `sum` of smallint and integer, a bigint.
    Sum,
    /// `sum` of bigint, a numeric.
    WideSum,
    Average,
}

impl IntegerSum {
    pub(super) fn new(result: IntegerResult) -> Box<Self> {
        Box::new(Self { sum: 0, count: 0, result })
    }
}

impl Accumulator for IntegerSum {
    fn step_value(&mut self, column: &Column, at: usize) -> Result<()> {
        let Values::Integers(_, values) = column.values() else { return self.step(&[column.get(at)]) };
        if !column.is_null(at) {
            self.sum += i128::from(values[at]);
            self.count += 1;
        }
        Ok(())
    }

    fn step_column(&mut self, column: &Column) -> Result<()> {
        match (column.values(), column.nulls()) {
            (Values::Integers(_, values), []) => {
                self.sum += values.iter().map(|value| i128::from(*value)).sum::<i128>();
                self.count += values.len() as i64;
                Ok(())
            }
            _ => (0..column.rows()).try_for_each(|at| self.step_value(column, at)),
        }
    }

    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if !any(arguments, 0)?.is_null() {
            // 2^64 rows of the largest bigint would fit.
            self.sum += i128::from(integer(arguments, 0)?);
            self.count += 1;
        }
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        if !any(arguments, 0)?.is_null() {
            self.sum -= i128::from(integer(arguments, 0)?);
            self.count -= 1;
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        match self.result {
            IntegerResult::Sum => {
                i64::try_from(self.sum).map(Datum::Int8).map_err(|_| out_of_range("bigint"))
            }
            IntegerResult::WideSum => Ok(Datum::Numeric(Numeric::from(self.sum))),
            IntegerResult::Average => {
                Numeric::from(self.sum).div(&Numeric::from(self.count)).map(Datum::Numeric)
            }
        }
    }
}

/// The largest scale of the numbers in a sum, which is the scale of the sum.
#[derive(Default)]
pub(super) struct LargestScale {
    scale: i64,
    /// The numbers that have it.
    count: i64,
}

impl LargestScale {
    /// Adds a number of a scale.
    pub(super) fn add(&mut self, scale: i64) {
        if scale > self.scale {
            *self = LargestScale { scale, count: 0 };
        }
        self.count += i64::from(scale == self.scale);
    }

    /// Takes a number out; false if the largest scale of the `rest` that stays is not known then.
    pub(super) fn remove(&mut self, number: &Numeric, rest: i64) -> bool {
        self.count -= i64::from(number.scale() == self.scale);
        self.scale == 0 || rest == 0 || self.count > 0
    }
}

/// True if it is none of the special values.
pub(super) fn is_finite(number: &Numeric) -> bool {
    matches!(number, Numeric::Finite(_))
}

pub(super) struct SumNumeric {
    /// The sum but for what `recent` holds.
    sum: Numeric,
    /// The sum of numbers of few digits that came last.
    recent: Decimal,
    count: i64,
    largest: LargestScale,
    average: bool,
}

impl SumNumeric {
    pub(super) fn new(average: bool) -> SumNumeric {
        let (sum, recent, largest) = (Numeric::zero(), Decimal::default(), LargestScale::default());
        SumNumeric { sum, recent, count: 0, largest, average }
    }
}

impl SumNumeric {
    /// Adds what came last to the rest.
    fn settle(&mut self) -> Result<()> {
        if self.recent.units != 0 || self.recent.scale != 0 {
            self.sum = self.sum.add(&Numeric::from(std::mem::take(&mut self.recent)))?;
        }
        Ok(())
    }
}

impl Accumulator for SumNumeric {
    fn step_value(&mut self, column: &Column, at: usize) -> Result<()> {
        let Values::Decimals(values) = column.values() else { return self.step(&[column.get(at)]) };
        if column.is_null(at) {
            return Ok(());
        }
        let value = values[at];
        match self.recent.plus(value) {
            Some(sum) => self.recent = sum,
            None => {
                self.settle()?;
                self.recent = value;
            }
        }
        self.count += 1;
        self.largest.add(value.scale.into());
        Ok(())
    }

    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if !any(arguments, 0)?.is_null() {
            let value = numeric(arguments, 0)?;
            self.sum = self.sum.add(value)?;
            self.count += 1;
            self.largest.add(value.scale());
        }
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        if any(arguments, 0)?.is_null() {
            return Ok(true);
        }
        self.settle()?;
        let value = numeric(arguments, 0)?;
        self.count -= 1;
        if !is_finite(&self.sum) || !self.largest.remove(value, self.count) {
            return Ok(false);
        }
        match self.count {
            0 => (self.sum, self.largest) = (Numeric::zero(), LargestScale::default()),
            _ => self.sum = self.sum.sub(value)?,
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        self.settle()?;
        Ok(Datum::Numeric(if self.average {
            self.sum.div(&Numeric::from(self.count))?
        } else {
            self.sum.clone()
        }))
    }
}

pub(super) struct SumFloat {
    pub sum: Option<f64>,
    pub narrow: bool,
}

impl Accumulator for SumFloat {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if any(arguments, 0)?.is_null() {
            return Ok(());
        }
        let value = float(arguments, 0)?;
        let sum = self.sum.map_or(value, |sum| sum + value);
        // A sum of reals is kept in single precision.
        let sum = if self.narrow { f64::from(sum as f32) } else { sum };
        if sum.is_infinite() && value.is_finite() && self.sum.is_none_or(f64::is_finite) {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
        }
        self.sum = Some(sum);
        Ok(())
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(match self.sum {
            None => Datum::Null,
            Some(sum) if self.narrow => Datum::Float4(sum as f32),
            Some(sum) => Datum::Float8(sum),
        })
    }
}

pub(super) struct SumInterval {
    pub sum: Interval,
    pub count: i64,
    pub average: bool,
}

impl Accumulator for SumInterval {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if !any(arguments, 0)?.is_null() {
            self.sum = arithmetic::interval_add(self.sum, interval(arguments, 0)?)?;
            self.count += 1;
        }
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        if !any(arguments, 0)?.is_null() {
            let back = arithmetic::interval_negate(interval(arguments, 0)?)?;
            self.sum = arithmetic::interval_add(self.sum, back)?;
            self.count -= 1;
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        Ok(Datum::Interval(if self.average {
            arithmetic::interval_divide(self.sum, self.count as f64)?
        } else {
            self.sum
        }))
    }
}

//! Averages, variances and standard deviations, from sums of values and of their squares.

use super::{
    Accumulator,
    sums::{LargestScale, is_finite},
};
use crate::{
    Result, SqlError, SqlState,
    functions::arguments::{any, float, integer},
    types::{Datum, Numeric},
};

/// The result that is computed from sum and sum of squares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moments {
    Average,
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
}

impl Moments {
    pub(super) fn of_name(name: &str) -> Moments {
        match name {
            "var_pop" => Moments::VariancePopulation,
            "var_samp" | "variance" => Moments::VarianceSample,
            "stddev_pop" => Moments::DeviationPopulation,
            "stddev_samp" | "stddev" => Moments::DeviationSample,
            _ => Moments::Average,
        }
    }

    fn sample(self) -> bool {
        matches!(self, Moments::VarianceSample | Moments::DeviationSample)
    }

    fn root(self) -> bool {
        matches!(self, Moments::DeviationPopulation | Moments::DeviationSample)
    }
}

pub(super) struct NumericMoments {
    count: i64,
    sum: Numeric,
    squares: Numeric,
    largest: LargestScale,
    moments: Moments,
}

impl NumericMoments {
    pub(super) fn new(moments: Moments) -> NumericMoments {
        let (sum, squares) = (Numeric::zero(), Numeric::zero());
        NumericMoments { count: 0, sum, squares, largest: LargestScale::default(), moments }
    }
}

/// An integer or a numeric as numeric; none if it is NULL.
fn number(arguments: &[Datum]) -> Result<Option<Numeric>> {
    Ok(match any(arguments, 0)? {
        Datum::Null => None,
        Datum::Numeric(value) => Some(value.clone()),
        _ => Some(Numeric::from(integer(arguments, 0)?)),
    })
}

impl Accumulator for NumericMoments {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let Some(value) = number(arguments)? else { return Ok(()) };
        self.count += 1;
        self.sum = self.sum.add_exactly(&value);
        self.squares = self.squares.add_exactly(&value.mul_exactly(&value));
        self.largest.add(value.scale());
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        let Some(value) = number(arguments)? else { return Ok(true) };
        self.count -= 1;
        let is_known = is_finite(&self.sum) && is_finite(&self.squares);
        if !is_known || !self.largest.remove(&value, self.count) {
            return Ok(false);
        }
        match self.count {
            0 => *self = NumericMoments::new(self.moments),
            _ => {
                self.sum = self.sum.add_exactly(&value.negate());
                self.squares = self.squares.add_exactly(&value.mul_exactly(&value).negate());
            }
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.count < if self.moments.sample() { 2 } else { 1 } {
            return Ok(Datum::Null);
        }
        if !matches!((&self.sum, &self.squares), (Numeric::Finite(_), Numeric::Finite(_))) {
            return Ok(Datum::Numeric(Numeric::NaN));
        }
        let count = Numeric::from(self.count);
        let spread = count.mul_exactly(&self.squares).add_exactly(&self.sum.mul_exactly(&self.sum).negate());
        if spread.signum() <= 0 {
            return Ok(Datum::Numeric(Numeric::zero()));
        }
        let divisor = if self.moments.sample() {
            count.mul(&Numeric::from(self.count - 1))?
        } else {
            count.mul(&count)?
        };
        let variance = spread.div(&divisor)?;
        Ok(Datum::Numeric(if self.moments.root() {
            variance.sqrt_to_scale(variance.scale())?
        } else {
            variance
        }))
    }
}

/// Number, sum, and sum of squared differences from the mean, updated as Youngs and Cramer do.
#[derive(Clone, Copy, Default)]
pub(super) struct Spread {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) differences: f64,
}

impl Spread {
    pub(super) fn add(&mut self, value: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.sum += value;
        if before.count > 0.0 {
            let difference = value * self.count - self.sum;
            self.differences += difference * difference / (self.count * before.count);
            if self.sum.is_infinite() || self.differences.is_infinite() {
                if before.sum.is_finite() && value.is_finite() {
                    return Err(overflow());
                }
                self.differences = f64::NAN;
            }
        } else if !value.is_finite() {
            self.differences = f64::NAN;
        }
        Ok(())
    }
}

pub(super) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

pub(super) struct FloatMoments {
    spread: Spread,
    moments: Moments,
}

impl FloatMoments {
    pub(super) fn new(moments: Moments) -> FloatMoments {
        FloatMoments { moments, spread: Spread::default() }
    }
}

impl Accumulator for FloatMoments {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        match any(arguments, 0)? {
            Datum::Null => Ok(()),
            _ => self.spread.add(float(arguments, 0)?),
        }
    }

    fn finish(&mut self) -> Result<Datum> {
        let Spread { count, sum, differences } = self.spread;
        if count < if self.moments.sample() { 2.0 } else { 1.0 } {
            return Ok(Datum::Null);
        }
        if self.moments == Moments::Average {
            return Ok(Datum::Float8(sum / count));
        }
        let divisor = if self.moments.sample() { count - 1.0 } else { count };
        let variance = differences / divisor;
        Ok(Datum::Float8(if self.moments.root() { variance.sqrt() } else { variance }))
    }
}

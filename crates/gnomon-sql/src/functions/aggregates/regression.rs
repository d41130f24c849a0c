//! Aggregates of pairs of numbers: covariance, correlation and least squares, each of `(y, x)`.

use super::{Accumulator, moments::overflow};
use crate::{
    Result,
    functions::arguments::{any, float},
    types::Datum,
};

/// The names of the aggregates.
pub(super) const NAMES: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// Number and sums of pairs, and sums of the products of their differences from the means, updated as Youngs and Cramer
/// do.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) count: f64,
    pub(super) x: f64,
    pub(super) xx: f64,
    pub(super) y: f64,
    pub(super) yy: f64,
    pub(super) xy: f64,
}

impl Sums {
    pub(super) fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count > 0.0 {
            let (of_x, of_y) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before.count);
            self.xx += of_x * of_x * scale;
            self.yy += of_y * of_y * scale;
            self.xy += of_x * of_y * scale;
            self.check(before.x.is_finite() && x.is_finite(), before.y.is_finite() && y.is_finite())?;
            for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
            return Ok(());
        }
        if !x.is_finite() {
            (self.xx, self.xy) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (self.yy, self.xy) = (f64::NAN, f64::NAN);
        }
        Ok(())
    }

    /// Refuses sums that became infinite of values that were not.
    fn check(&self, finite_x: bool, finite_y: bool) -> Result<()> {
        let of_x = finite_x && (self.x.is_infinite() || self.xx.is_infinite());
        let of_y = finite_y && (self.y.is_infinite() || self.yy.is_infinite());
        let of_both = finite_x && finite_y && self.xy.is_infinite();
        if of_x || of_y || of_both { Err(overflow()) } else { Ok(()) }
    }

    /// The value of an aggregate; none for NULL.
    fn value(&self, name: &str) -> Option<f64> {
        let Sums { count, x, xx, y, yy, xy } = *self;
        if count < if name == "covar_samp" { 2.0 } else { 1.0 } {
            return None;
        }
        match name {
            "corr" => (xx != 0.0 && yy != 0.0).then(|| xy / (xx * yy).sqrt()),
            "covar_pop" => Some(xy / count),
            "covar_samp" => Some(xy / (count - 1.0)),
            "regr_avgx" => Some(x / count),
            "regr_avgy" => Some(y / count),
            "regr_sxx" => Some(xx),
            "regr_syy" => Some(yy),
            "regr_sxy" => Some(xy),
            // A vertical line fits nothing, a horizontal one everything.
            _ if xx == 0.0 => None,
            "regr_r2" if yy == 0.0 => Some(1.0),
            "regr_r2" => Some(xy * xy / (xx * yy)),
            "regr_slope" => Some(xy / xx),
            _ => Some((y - x * xy / xx) / count),
        }
    }
}

pub(super) struct Regression {
    sums: Sums,
    name: &'static str,
}

impl Regression {
    pub(super) fn new(name: &'static str) -> Regression {
        Regression { sums: Sums::default(), name }
    }
}

impl Accumulator for Regression {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if any(arguments, 0)?.is_null() || any(arguments, 1)?.is_null() {
            return Ok(());
        }
        if self.name == "regr_count" {
            self.sums.count += 1.0;
            return Ok(());
        }
        self.sums.add(float(arguments, 0)?, float(arguments, 1)?)
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.name == "regr_count" {
            return Ok(Datum::Int8(self.sums.count as i64));
        }
        Ok(self.sums.value(self.name).map_or(Datum::Null, Datum::Float8))
    }
}

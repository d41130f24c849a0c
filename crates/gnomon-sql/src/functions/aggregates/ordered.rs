//! Ordered-set and hypothetical-set aggregates, whose rows come in the order of WITHIN GROUP.

use super::Accumulator;
use crate::{
    Result, SqlError, SqlState,
    functions::arguments::{any, array, bytes},
    types::{
        Datum, Scalar,
        compare::same,
        datetime::arithmetic,
        float::write_f64,
        limit::{Elements, datum_bytes},
    },
};

/// The arguments that stand before WITHIN GROUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// So many, evaluated once for each group.
    Count(usize),
    /// A row that is compared with those of the group: as many as WITHIN GROUP orders by.
    Row,
}

/// The direct arguments of an ordered-set aggregate; none if the aggregate of this name is another one.
pub(super) fn direct(name: &str) -> Option<Direct> {
    match name {
        "percentile_cont" | "percentile_disc" => Some(Direct::Count(1)),
        "mode" => Some(Direct::Count(0)),
        "rank" | "dense_rank" | "percent_rank" | "cume_dist" => Some(Direct::Row),
        _ => None,
    }
}

/// Values at fractions of the ordered rows.
pub(super) struct Percentile {
    fractions: Datum,
    values: Vec<Datum>,
    bytes: usize,
    /// True if values between two rows are computed from both.
    continuous: bool,
    /// The type of the elements of the result, if that is an array.
    elements: Option<Scalar>,
}

impl Percentile {
    pub(super) fn new(continuous: bool, elements: Option<Scalar>) -> Percentile {
        Percentile { fractions: Datum::Null, values: Vec::new(), bytes: 0, continuous, elements }
    }

    fn at(&self, fraction: f64) -> Result<Datum> {
        let count = self.values.len();
        let row = |number: usize| self.values.get(number).cloned().unwrap_or(Datum::Null);
        if !self.continuous {
            return Ok(row(((fraction * count as f64).ceil() as usize).saturating_sub(1)));
        }
        let place = fraction * (count - 1) as f64;
        let (low, high) = (row(place.floor() as usize), row(place.ceil() as usize));
        let share = place - place.floor();
        match (low, high) {
            (low, _) if share == 0.0 => Ok(low),
            (Datum::Float8(low), Datum::Float8(high)) => Ok(Datum::Float8(low + share * (high - low))),
            (Datum::Interval(low), Datum::Interval(high)) => {
                let whole = arithmetic::interval_add(high, arithmetic::interval_negate(low)?)?;
                let part = arithmetic::interval_multiply(whole, share)?;
                arithmetic::interval_add(part, low).map(Datum::Interval)
            }
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a percentile of values without a distance")),
        }
    }
}

fn fraction(value: &Datum) -> Result<Option<f64>> {
    match value {
        Datum::Float8(fraction) if (0.0..=1.0).contains(fraction) => Ok(Some(*fraction)),
        Datum::Float8(other) => {
            let message = format!("percentile value {} is not between 0 and 1", six_digits(*other));
            Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
        }
        _ => Ok(None),
    }
}

/// A number with six digits.
fn six_digits(number: f64) -> String {
    let mut out = String::new();
    write_f64(&mut out, number, 6 - 15);
    out
}

impl Accumulator for Percentile {
    fn direct(&mut self, arguments: Vec<Datum>) -> Result<()> {
        self.fractions = any(&arguments, 0)?.clone();
        Ok(())
    }

    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = any(arguments, 0)?;
        if !value.is_null() {
            self.bytes += datum_bytes(value);
            self.values.push(value.clone());
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(&mut self) -> Result<Datum> {
        let Some(scalar) = self.elements else {
            return match fraction(&self.fractions)? {
                Some(fraction) if !self.values.is_empty() => self.at(fraction),
                _ => Ok(Datum::Null),
            };
        };
        if self.values.is_empty() || self.fractions.is_null() {
            return Ok(Datum::Null);
        }
        let mut out = Elements::default();
        for value in array(std::slice::from_ref(&self.fractions), 0)?.1 {
            out.push(fraction(value)?.map_or(Ok(Datum::Null), |fraction| self.at(fraction))?)?;
        }
        Ok(out.into_array(scalar))
    }
}

/// The most frequent value, the first of several in the order.
pub(super) struct Mode {
    best: (u64, Datum),
    current: (u64, Datum),
}

impl Mode {
    pub(super) fn new() -> Mode {
        Mode { best: (0, Datum::Null), current: (0, Datum::Null) }
    }
}

impl Accumulator for Mode {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = any(arguments, 0)?;
        if value.is_null() {
            return Ok(());
        }
        if self.current.0 == 0 || !same(&self.current.1, value) {
            self.current = (0, value.clone());
        }
        self.current.0 += 1;
        if self.current.0 > self.best.0 {
            self.best = self.current.clone();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(self.best.1.clone())
    }
}

/// The place that a row would have among those of the group. Rows are bytes that compare as WITHIN GROUP orders.
pub(super) struct Hypothetical {
    name: &'static str,
    row: Box<[u8]>,
    rows: i64,
    before: i64,
    /// Rows before it that differ from the one before them.
    distinct_before: i64,
    equal: i64,
    last: Box<[u8]>,
}

impl Hypothetical {
    pub(super) fn new(name: &'static str) -> Hypothetical {
        let (row, last) = Default::default();
        Hypothetical { name, row, rows: 0, before: 0, distinct_before: 0, equal: 0, last }
    }
}

impl Accumulator for Hypothetical {
    fn direct(&mut self, arguments: Vec<Datum>) -> Result<()> {
        self.row = bytes(&arguments, 0)?.into();
        Ok(())
    }

    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let row = bytes(arguments, 0)?;
        self.rows += 1;
        if *row < *self.row {
            self.before += 1;
            if self.before == 1 || *row != *self.last {
                self.distinct_before += 1;
                self.last = row.into();
            }
        } else if *row == *self.row {
            self.equal += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(match self.name {
            "rank" => Datum::Int8(self.before + 1),
            "dense_rank" => Datum::Int8(self.distinct_before + 1),
            "percent_rank" if self.rows == 0 => Datum::Float8(0.0),
            "percent_rank" => Datum::Float8(self.before as f64 / self.rows as f64),
            _ => Datum::Float8((self.before + self.equal + 1) as f64 / (self.rows + 1) as f64),
        })
    }
}

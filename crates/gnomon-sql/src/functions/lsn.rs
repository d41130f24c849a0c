//! Places in a log (pg_lsn): their distances, and sums with numbers of bytes.

use super::{
    arguments::{invalid, numeric},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Numeric, Type},
};

fn place(a: &[Datum], position: usize) -> Result<u64> {
    match a.get(position) {
        Some(Datum::PgLsn(place)) => Ok(*place),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "an argument is no pg_lsn")),
    }
}

fn number(place: u64) -> Numeric {
    i128::from(place).into()
}

/// The place that a number stands for.
fn of_number(number: &Numeric) -> Result<Datum> {
    let what = match number {
        Numeric::NaN => "NaN",
        Numeric::Infinity | Numeric::NegativeInfinity => "infinity",
        Numeric::Finite(_) => {
            let place = number.try_round(0)?.to_string().parse();
            return place.map(Datum::PgLsn).map_err(|_| invalid("pg_lsn out of range"));
        }
    };
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to pg_lsn")))
}

fn plus(place: u64, bytes: &Numeric) -> Result<Datum> {
    if bytes.is_nan() {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot add NaN to pg_lsn"));
    }
    of_number(&number(place).add(bytes)?)
}

fn minus(place: u64, bytes: &Numeric) -> Result<Datum> {
    if bytes.is_nan() {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot subtract NaN from pg_lsn"));
    }
    of_number(&number(place).sub(bytes)?)
}

fn distance(a: &[Datum]) -> Result<Datum> {
    Ok(Datum::Numeric((i128::from(place(a, 0)?) - i128::from(place(a, 1)?)).into()))
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("pg_lsn", &[Type::Numeric], Type::PgLsn, |_, a| of_number(numeric(a, 0)?));
    all.add("pg_wal_lsn_diff", &[Type::PgLsn, Type::PgLsn], Type::Numeric, |_, a| distance(a));
}

pub(super) fn declare_operators(all: &mut Declarations) {
    use Type::{Numeric, PgLsn};
    all.add("-", &[PgLsn, PgLsn], Numeric, |_, a| distance(a));
    all.add("+", &[PgLsn, Numeric], PgLsn, |_, a| plus(place(a, 0)?, numeric(a, 1)?));
    all.add("+", &[Numeric, PgLsn], PgLsn, |_, a| plus(place(a, 1)?, numeric(a, 0)?));
    all.add("-", &[PgLsn, Numeric], PgLsn, |_, a| minus(place(a, 0)?, numeric(a, 1)?));
}

//! The comparison operators: of every type that has an order, both sides of one type, real and double precision
//! also mixed. Other mixtures (integer with bigint, date with timestamp) are cast to the wider one.

use std::cmp::Ordering;

use super::{
    Comparison, Eval,
    declaration::{Declarations, Param},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Scalar, Type, compare::compare, format_type},
};

pub(super) const EQUAL: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_eq())));
const NOT_EQUAL: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_ne())));
const LESS: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_lt())));
const LESS_OR_EQUAL: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_le())));
const GREATER: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_gt())));
const GREATER_OR_EQUAL: Eval = |_, a| Ok(Datum::Bool(matches!(a, [x, y] if compare(x, y).is_ge())));

const EQUAL_BITS: Eval =
    |_, a| Ok(Datum::Bool(matches!(a, [Datum::Oid(x), Datum::Int4(y)] if *x == *y as u32)));
const NOT_EQUAL_BITS: Eval =
    |_, a| Ok(Datum::Bool(matches!(a, [Datum::Oid(x), Datum::Int4(y)] if *x != *y as u32)));

/// The order of two values, of which row values, also as elements, must have fields of the same types up to the first
/// that differ.
///
/// # Errors
/// 42804 if they have not.
fn compare_rows(x: &Datum, y: &Datum) -> Result<Ordering> {
    let dissimilar = |message: String| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    let (is_record, x, y) = match (x, y) {
        (Datum::Record(x), Datum::Record(y)) => (true, x, y),
        (Datum::Array(_, x), Datum::Array(_, y)) => (false, x, y),
        _ => return Ok(compare(x, y)),
    };
    for (number, (x, y)) in x.iter().zip(y.iter()).enumerate() {
        let (of_x, of_y) = (x.natural_type(), y.natural_type());
        if is_record && of_x != of_y && !x.is_null() && !y.is_null() {
            let (of_x, of_y) = (format_type(of_x, None), format_type(of_y, None));
            return dissimilar(format!(
                "cannot compare dissimilar column types {of_x} and {of_y} at record column {}",
                number + 1
            ));
        }
        let order = compare_rows(x, y)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    match x.len().cmp(&y.len()) {
        Ordering::Less | Ordering::Greater if is_record => {
            dissimilar("cannot compare record types with different numbers of columns".to_owned())
        }
        order => Ok(order),
    }
}

fn of_rows(a: &[Datum], comparison: Comparison) -> Result<Datum> {
    match a {
        [x, y] => compare_rows(x, y).map(|order| Datum::Bool(comparison.holds(order))),
        _ => Ok(Datum::Null),
    }
}

pub(super) fn declare(all: &mut Declarations) {
    let table: [(&'static str, Comparison, Eval, Eval); 6] = [
        ("=", Comparison::Equal, EQUAL, |_, a| of_rows(a, Comparison::Equal)),
        ("<>", Comparison::NotEqual, NOT_EQUAL, |_, a| of_rows(a, Comparison::NotEqual)),
        ("<", Comparison::Less, LESS, |_, a| of_rows(a, Comparison::Less)),
        ("<=", Comparison::LessOrEqual, LESS_OR_EQUAL, |_, a| of_rows(a, Comparison::LessOrEqual)),
        (">", Comparison::Greater, GREATER, |_, a| of_rows(a, Comparison::Greater)),
        (">=", Comparison::GreaterOrEqual, GREATER_OR_EQUAL, |_, a| of_rows(a, Comparison::GreaterOrEqual)),
    ];
    // varchar is compared as text, the reg* types as oid.
    let types = Scalar::ALL.iter().map(|scalar| Type::from(*scalar));
    let own = types.filter(|ty| *ty != Type::Varchar && !ty.is_registered() && ty.has_order());
    let mut pairs: Vec<[Param; 2]> = own.map(|ty| [ty.into(), ty.into()]).collect();
    pairs.push([Type::Float4.into(), Type::Float8.into()]);
    pairs.push([Type::Float8.into(), Type::Float4.into()]);
    pairs.push([Param::AnyArray, Param::AnyArray]);
    for (name, comparison, eval, of_rows) in table {
        for pair in &pairs {
            let has_rows = matches!(pair, [Param::Is(Type::Record) | Param::AnyArray, _]);
            all.add(name, pair, Type::Bool, if has_rows { of_rows } else { eval }).comparison =
                Some(comparison);
        }
    }
    // Numbers of transactions and commands begin anew, and so have no order.
    for (name, comparison, eval, eval_bits) in
        [("=", Comparison::Equal, EQUAL, EQUAL_BITS), ("<>", Comparison::NotEqual, NOT_EQUAL, NOT_EQUAL_BITS)]
    {
        all.add(name, &[Type::Xid, Type::Xid], Type::Bool, eval).comparison = Some(comparison);
        all.add(name, &[Type::Xid, Type::Int4], Type::Bool, eval_bits);
    }
    all.add("=", &[Type::Cid, Type::Cid], Type::Bool, EQUAL).comparison = Some(Comparison::Equal);
    all.add("xid8cmp", &[Type::Xid8, Type::Xid8], Type::Int4, |_, a| match a {
        [x, y] => Ok(Datum::Int4(compare(x, y) as i32)),
        _ => Ok(Datum::Null),
    });
    // By the bytes, as all collations here are.
    for (name, eval) in [("~<~", LESS), ("~<=~", LESS_OR_EQUAL), ("~>~", GREATER), ("~>=~", GREATER_OR_EQUAL)]
    {
        for ty in [Type::Text, Type::Bpchar] {
            all.add(name, &[ty, ty], Type::Bool, eval);
        }
    }
}

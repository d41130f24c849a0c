//! The comparison operators: of every type that has an order, both sides of one type, real and double precision
//! also mixed. Other mixtures (integer with bigint, date with timestamp) are cast to the wider one.

use super::{
    Comparison, Eval,
    declaration::{Declarations, Param},
};
use crate::types::{Datum, Scalar, Type, compare::compare};

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

pub(super) fn declare(all: &mut Declarations) {
    let table: [(&'static str, Comparison, Eval); 6] = [
        ("=", Comparison::Equal, EQUAL),
        ("<>", Comparison::NotEqual, NOT_EQUAL),
        ("<", Comparison::Less, LESS),
        ("<=", Comparison::LessOrEqual, LESS_OR_EQUAL),
        (">", Comparison::Greater, GREATER),
        (">=", Comparison::GreaterOrEqual, GREATER_OR_EQUAL),
    ];
    // varchar is compared as text, the reg* types as oid.
    let types = Scalar::ALL.iter().map(|scalar| Type::from(*scalar));
    let own = types.filter(|ty| *ty != Type::Varchar && !ty.is_registered() && ty.has_order());
    let mut pairs: Vec<[Param; 2]> = own.map(|ty| [ty.into(), ty.into()]).collect();
    pairs.push([Type::Float4.into(), Type::Float8.into()]);
    pairs.push([Type::Float8.into(), Type::Float4.into()]);
    pairs.push([Param::AnyArray, Param::AnyArray]);
    for (name, comparison, eval) in table {
        for pair in &pairs {
            all.add(name, pair, Type::Bool, eval).comparison = Some(comparison);
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

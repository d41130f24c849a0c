//! The functions that carry operators out, by their own names: `int4pl` is `+` of two integers, `booleq` is `=` of two
//! booleans. They are what PostgreSQL's catalog says they are.

use std::collections::HashMap;

use super::declaration::{Declaration, Declarations, Param};
use crate::types::Type;

/// `pg_type.oid` of `anyarray`.
const ANY_ARRAY: u32 = 2277;

/// An operator of PostgreSQL's catalog.
struct Operator {
    symbol: &'static str,
    /// One or two.
    operands: Vec<Param>,
    /// The function that carries it out.
    function: u32,
}

impl Operator {
    /// Reads a line of `pg_operator`; none of one whose types are not here.
    fn of(line: &'static str) -> Option<Operator> {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let operands = [number(7)?, number(8)?].into_iter().filter(|oid| *oid != 0).map(operand);
        Some(Operator {
            symbol: fields.get(1)?,
            operands: operands.collect::<Option<_>>()?,
            function: number(12)?,
        })
    }

    /// Returns the declaration of what the operator does for exactly its types; integers of two widths are as those of
    /// the wider one.
    fn declaration<'d>(&self, operators: &'d Declarations) -> Option<&'d Declaration> {
        let of = |params: &[Param]| {
            operators.of(self.symbol).iter().find(|declaration| declaration.params == params)
        };
        of(&self.operands).or_else(|| match self.operands[..] {
            [left, right] => {
                let wider = if width(left)? > width(right)? { left } else { right };
                of(&[wider, wider])
            }
            _ => None,
        })
    }
}

fn operand(oid: u32) -> Option<Param> {
    match oid {
        ANY_ARRAY => Some(Param::AnyArray),
        oid => Type::from_oid(oid).map(Param::Is),
    }
}

/// The bytes of an integer type.
fn width(param: Param) -> Option<u8> {
    match param {
        Param::Is(Type::Int2) => Some(2),
        Param::Is(Type::Int4) => Some(4),
        Param::Is(Type::Int8) => Some(8),
        _ => None,
    }
}

/// Declares the functions of `operators`, but for those that are declared by themselves.
pub(super) fn declare(all: &mut Declarations, operators: &Declarations) {
    let names = include_str!("../catalog/system/data/functions.tsv").lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?.parse::<u32>().ok()?, fields.next()?))
    });
    let names: HashMap<u32, &'static str> = names.collect();
    for operator in include_str!("../catalog/system/data/pg_operator.tsv").lines().filter_map(Operator::of) {
        let Some(&name) = names.get(&operator.function) else { continue };
        let Some(declaration) = operator.declaration(operators) else { continue };
        let params = operator.operands;
        if all.of(name).iter().any(|known| known.params == params) {
            continue;
        }
        all.push(Declaration { name, params, comparison: None, ..declaration.clone() });
    }
}

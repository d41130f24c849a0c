//! OVERLAPS: two spans of time, each of two moments in any order, or of its start and its length.

use super::{
    arguments::{interval, micros},
    datetime::time_add,
    declaration::Declarations,
};
use crate::{
    Result,
    types::{Context, Datum, Type, compare::compare, datetime::arithmetic},
};

/// A span of two moments in order; one that is unknown is the second. None if both are unknown.
fn span<'d>(one: &'d Datum, other: &'d Datum) -> Option<(&'d Datum, &'d Datum)> {
    match (one.is_null(), other.is_null()) {
        (true, true) => None,
        (true, false) => Some((other, one)),
        (false, false) if compare(one, other).is_gt() => Some((other, one)),
        _ => Some((one, other)),
    }
}

/// True if two spans have a moment in common, not counting their ends; none if that is unknown.
fn overlap(first: (&Datum, &Datum), second: (&Datum, &Datum)) -> Option<bool> {
    let order = compare(first.0, second.0);
    if order.is_eq() {
        return (!first.1.is_null() && !second.1.is_null()).then_some(true);
    }
    let (earlier, later) = if order.is_lt() { (first, second) } else { (second, first) };
    if earlier.1.is_null() {
        return None;
    }
    match compare(later.0, earlier.1).is_lt() {
        true => Some(true),
        // The later span may begin before its known moment.
        false => (!later.1.is_null()).then_some(false),
    }
}

/// The end of a span: a moment, or the length from its start.
fn end(cx: &Context, a: &[Datum], at: usize) -> Result<Datum> {
    match (&a[at - 1], &a[at]) {
        (Datum::Null, Datum::Interval(_)) => Ok(Datum::Null),
        (Datum::Time(start), Datum::Interval(length)) => Ok(time_add(*start, *length)),
        (Datum::Timestamp(_), Datum::Interval(_)) => {
            arithmetic::timestamp_add(micros(a, at - 1)?, interval(a, at)?).map(Datum::Timestamp)
        }
        (Datum::Timestamptz(_), Datum::Interval(_)) => {
            arithmetic::timestamptz_add(micros(a, at - 1)?, interval(a, at)?, &cx.zone)
                .map(Datum::Timestamptz)
        }
        (_, end) => Ok(end.clone()),
    }
}

fn overlaps(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let (first_end, second_end) = (end(cx, a, 1)?, end(cx, a, 3)?);
    let spans = span(&a[0], &first_end).zip(span(&a[2], &second_end));
    Ok(spans.and_then(|(first, second)| overlap(first, second)).map_or(Datum::Null, Datum::Bool))
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [Type::Time, Type::Timestamp, Type::Timestamptz] {
        for first in [ty, Type::Interval] {
            for second in [ty, Type::Interval] {
                let declaration = all.add("overlaps", &[ty, first, ty, second], Type::Bool, overlaps);
                declaration.not_strict();
                // A day is as long as the time zone has it.
                if ty == Type::Timestamptz && (first, second) != (ty, ty) {
                    declaration.stable();
                }
            }
        }
    }
}

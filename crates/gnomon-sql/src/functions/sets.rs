//! Functions that return sets of rows: `generate_series`, `unnest` and their like.

use std::{fmt, sync::Arc};

use super::{
    acl,
    arguments::{array, count, integer, invalid, micros, numeric},
    arrays,
    declaration::{Declarations, DeclaredBody, Param},
    keywords, pattern, system,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Context, Datum, Numeric, Row, Scalar, Type, datetime::arithmetic},
};

/// A set-returning function, resolved for the types of its arguments.
#[derive(Clone)]
pub struct SetFunctionRef(Arc<Resolved>);

struct Resolved {
    name: &'static str,
    arguments: Vec<Type>,
    columns: Vec<(&'static str, Type)>,
}

/// Rows that are made one after the other.
pub type Rows = Box<dyn Iterator<Item = Result<Row>> + Send>;

pub(super) fn resolved(name: &'static str, arguments: Vec<Type>, result: Type) -> SetFunctionRef {
    let columns = match name {
        "pg_partition_ancestors" => vec![("relid", result)],
        "_pg_expandarray" => vec![("x", result), ("n", Type::Int4)],
        "pg_get_keywords" => keywords::COLUMNS.to_vec(),
        "pg_options_to_table" => vec![("option_name", Type::Text), ("option_value", Type::Text)],
        name => system::columns(name).map_or_else(|| vec![(name, result)], <[_]>::to_vec),
    };
    SetFunctionRef(Arc::new(Resolved { name, arguments, columns }))
}

impl PartialEq for SetFunctionRef {
    fn eq(&self, other: &SetFunctionRef) -> bool {
        self.0.name == other.0.name && self.0.arguments == other.0.arguments
    }
}

impl SetFunctionRef {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The types to cast its arguments to.
    pub fn arguments(&self) -> &[Type] {
        &self.0.arguments
    }

    /// The names and types of its columns; a single one is mostly named as the function.
    pub fn columns(&self) -> &[(&'static str, Type)] {
        &self.0.columns
    }

    /// Returns how many columns it has.
    pub fn width(&self) -> usize {
        self.0.columns.len()
    }

    /// All its rows; see [`SetFunctionRef::iterate`] for those that are many.
    ///
    /// # Errors
    /// Its own.
    pub fn rows(&self, arguments: &[Datum], cx: &Context) -> Result<Vec<Row>> {
        self.iterate(arguments, cx)?.collect()
    }

    /// Its rows, made as they are asked for.
    ///
    /// # Errors
    /// Its own, here or at a row.
    pub fn iterate(&self, arguments: &[Datum], cx: &Context) -> Result<Rows> {
        let fixed =
            |values: Vec<Datum>| -> Rows { Box::new(values.into_iter().map(|value| Ok(vec![value]))) };
        let nulls_allowed = self.0.name == "string_to_table";
        if !nulls_allowed && arguments.iter().any(Datum::is_null) {
            return Ok(fixed(Vec::new()));
        }
        Ok(match self.0.name {
            "generate_series" => Box::new(series(arguments, cx)?.map(|value| value.map(|value| vec![value]))),
            "unnest" => fixed(array(arguments, 0)?.1.to_vec()),
            // The catalog has them as an array.
            "pg_partition_ancestors" => {
                let ancestors = [cx.environment.call(self.0.name, arguments)?];
                fixed(array(&ancestors, 0)?.1.to_vec())
            }
            "generate_subscripts" => {
                let (_, elements) = array(arguments, 0)?;
                let length = if integer(arguments, 1)? == 1 { elements.len() } else { 0 };
                let is_vector = self.0.arguments.first().is_some_and(|array| array.is_vector());
                let first = usize::from(!is_vector);
                Box::new((first..first + length).map(|i| count(i).map(|i| vec![i])))
            }
            "_pg_expandarray" => {
                let elements = array(arguments, 0)?.1.to_vec();
                let numbered =
                    |(i, element): (usize, Datum)| count(i + 1).map(|number| vec![element, number]);
                Box::new(elements.into_iter().enumerate().map(numbered))
            }
            "pg_get_keywords" => Box::new(keywords::rows().map(Ok)),
            "pg_options_to_table" => Box::new(options(array(arguments, 0)?.1).into_iter()),
            "string_to_table" => fixed(arrays::split_text(arguments)?.unwrap_or_default().into_items()),
            "regexp_matches" => fixed(pattern::regexp_matches(cx, arguments)?),
            "regexp_split_to_table" => {
                fixed(pattern::regexp_split(cx, arguments, "regexp_split_to_table")?.into_items())
            }
            "aclexplode" => Box::new(acl::explode(cx, array(arguments, 0)?.1)?.into_iter().map(Ok)),
            // The catalog has them as rows in an array.
            name if system::columns(name).is_some() => {
                let rows = [cx.environment.call(name, arguments)?];
                let rows = array(&rows, 0)?.1.to_vec();
                Box::new(rows.into_iter().map(|row| match row {
                    Datum::Record(fields) => Ok(fields.into_vec()),
                    value => Ok(vec![value]),
                }))
            }
            name => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{name} is no set function")));
            }
        })
    }
}

impl fmt::Debug for SetFunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.0.name, self.0.arguments)
    }
}

/// The options of an object, `name=value` or a name alone, as rows.
fn options(items: &[Datum]) -> Vec<Result<Row>> {
    let text = |value: &str| Datum::Text(value.into());
    let row = |item: &Datum| match item {
        Datum::Text(item) => Ok(match item.split_once('=') {
            Some((name, value)) => vec![text(name), text(value)],
            None => vec![text(item), Datum::Null],
        }),
        _ => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "null array element not allowed in this context",
        )),
    };
    items.iter().map(row).collect()
}

fn zero_step() -> SqlError {
    invalid("step size cannot equal zero")
}

/// The values of a series from its start to its stop.
fn series(a: &[Datum], cx: &Context) -> Result<Box<dyn Iterator<Item = Result<Datum>> + Send>> {
    match a.first() {
        Some(Datum::Int4(_) | Datum::Int8(_)) => {
            let narrow = matches!(a.first(), Some(Datum::Int4(_)));
            let (start, stop) = (integer(a, 0)?, integer(a, 1)?);
            let step = if a.len() > 2 { integer(a, 2)? } else { 1 };
            if step == 0 {
                return Err(zero_step());
            }
            let mut next = Some(start);
            Ok(Box::new(std::iter::from_fn(move || {
                let value = next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop })?;
                next = value.checked_add(step);
                // Within the bounds, which are integers, it is one.
                Some(if narrow { super::arguments::int4(value) } else { Ok(Datum::Int8(value)) })
            })))
        }
        Some(Datum::Numeric(start)) => {
            let stop = numeric(a, 1)?.clone();
            let step = if a.len() > 2 { numeric(a, 2)?.clone() } else { Numeric::from(1_i64) };
            for (bound, what) in [(start, "start value"), (&stop, "stop value"), (&step, "step size")] {
                if bound.is_nan() {
                    return Err(invalid(format!("{what} cannot be NaN")));
                }
                if !matches!(bound, Numeric::Finite(_)) {
                    return Err(invalid(format!("{what} cannot be infinity")));
                }
            }
            if step.is_zero() {
                return Err(zero_step());
            }
            // A number that is too long to be one is beyond the end.
            let mut next = Some(start.clone());
            Ok(Box::new(std::iter::from_fn(move || {
                let within =
                    |value: &Numeric| if step.signum() > 0 { *value <= stop } else { *value >= stop };
                let value = next.take().filter(within)?;
                next = value.add(&step).ok();
                Some(Ok(Datum::Numeric(value)))
            })))
        }
        _ => time_series(a, cx),
    }
}

fn time_series(a: &[Datum], cx: &Context) -> Result<Box<dyn Iterator<Item = Result<Datum>> + Send>> {
    let (mut value, stop, step) = (micros(a, 0)?, micros(a, 1)?, super::arguments::interval(a, 2)?);
    let zone = match a.first() {
        Some(Datum::Timestamptz(_)) => Some(cx.zone.clone()),
        _ => None,
    };
    let direction = arithmetic::interval_span(step).signum();
    if direction == 0 {
        return Err(zero_step());
    }
    let mut failed = false;
    Ok(Box::new(std::iter::from_fn(move || {
        let within = if direction > 0 { value <= stop } else { value >= stop };
        if !within || failed {
            return None;
        }
        let out = match &zone {
            Some(_) => Datum::Timestamptz(value),
            None => Datum::Timestamp(value),
        };
        let next = match &zone {
            Some(zone) => arithmetic::timestamptz_add(value, step, zone),
            None => arithmetic::timestamp_add(value, step),
        };
        match next {
            Ok(next) => value = next,
            Err(error) => {
                failed = true;
                return Some(Err(error));
            }
        }
        Some(Ok(out))
    })))
}

pub(super) fn declare(all: &mut Declarations) {
    use Type::{Int4, Int8, Interval, Numeric, Text, Timestamp, Timestamptz};
    // The bodies are found by name in `iterate`; what is declared here is for resolution.
    let body = DeclaredBody::Environment;
    for ty in [Int4, Int8, Numeric] {
        all.declare("generate_series", &[ty, ty], ty, body);
        all.declare("generate_series", &[ty, ty, ty], ty, body);
    }
    for ty in [Timestamp, Timestamptz] {
        all.declare("generate_series", &[ty, ty, Interval], ty, body);
    }
    all.declare("unnest", &[Param::AnyArray], Param::AnyElement, body);
    all.declare("pg_partition_ancestors", &[Type::Regclass], Type::Regclass, body).stable();
    all.declare("generate_subscripts", &[Param::AnyArray, Param::Is(Int4)], Int4, body);
    for vector in [Type::Int2vector, Type::Oidvector] {
        all.declare("generate_subscripts", &[vector, Int4], Int4, body);
    }
    all.declare("_pg_expandarray", &[Param::AnyArray], Param::AnyElement, body);
    all.declare::<Type>("pg_get_keywords", &[], Type::Record, body).stable();
    all.declare("pg_options_to_table", &[Type::Array(Scalar::Text)], Type::Record, body).stable();
    all.declare("string_to_table", &[Text, Text], Text, body);
    all.declare("string_to_table", &[Text, Text, Text], Text, body);
    let texts = Type::Array(Scalar::Text);
    all.declare("regexp_matches", &[Text, Text], texts, body);
    all.declare("regexp_matches", &[Text, Text, Text], texts, body);
    all.declare("regexp_split_to_table", &[Text, Text], Text, body);
    all.declare("regexp_split_to_table", &[Text, Text, Text], Text, body);
}

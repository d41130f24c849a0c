//! Aggregates.
//!
//! An accumulator takes the arguments of one row after the other and gives the result at the end. NULLs are its own
//! business: all but `count(*)` and `array_agg` pass rows over whose first argument is NULL. DISTINCT, ORDER BY and
//! FILTER are the caller's.

mod moments;
mod ordered;
mod regression;
mod sums;
pub(super) mod transitions;

use std::{cmp::Ordering, fmt, sync::Arc};

use moments::{FloatMoments, Moments, NumericMoments};
pub use ordered::Direct;
use ordered::{Hypothetical, Mode, Percentile};
use regression::Regression;
use sums::{IntegerResult, IntegerSum, SumFloat, SumInterval, SumNumeric};

use super::{
    arguments::{any, boolean, bytes, float, integer, interval, numeric, out_of_range, text},
    declaration::{Declarations, DeclaredBody, Param},
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Datum, Interval, Scalar, Type,
        column::Column,
        compare::compare,
        format_type,
        limit::{Elements, check_bytes, push_str},
    },
};

/// The state of an aggregate over the rows of a group.
pub trait Accumulator: Send {
    /// Takes one row's arguments.
    ///
    /// # Errors
    /// Overflow, mostly.
    fn step(&mut self, arguments: &[Datum]) -> Result<()>;

    /// Takes so many rows of an aggregate without arguments.
    ///
    /// # Errors
    /// As [`Accumulator::step`].
    fn step_rows(&mut self, rows: usize) -> Result<()> {
        (0..rows).try_for_each(|_| self.step(&[]))
    }

    /// Takes one row's only argument, from a column.
    ///
    /// # Errors
    /// As [`Accumulator::step`].
    fn step_value(&mut self, column: &Column, at: usize) -> Result<()> {
        self.step(&[column.get(at)])
    }

    /// Takes the only argument of each row of a column.
    ///
    /// # Errors
    /// As [`Accumulator::step`].
    fn step_column(&mut self, column: &Column) -> Result<()> {
        (0..column.rows()).try_for_each(|at| self.step_value(column, at))
    }

    /// Takes the direct arguments of an ordered-set aggregate, before the rows come in their order. A row that is to be
    /// compared with those of the group is given as bytes that compare as WITHIN GROUP orders, and so are the rows.
    ///
    /// # Errors
    /// A fault of the caller.
    fn direct(&mut self, arguments: Vec<Datum>) -> Result<()> {
        let _ = arguments;
        Ok(())
    }

    /// Returns how much memory the state takes, in bytes, if it grows with the rows.
    fn bytes(&self) -> usize {
        0
    }

    /// True if [`Accumulator::take_back`] may succeed.
    fn takes_back(&self) -> bool {
        false
    }

    /// Takes back one row's arguments, which were taken before. Returns false if the result over the rows that stay is
    /// not known then: the state is of no use any more.
    ///
    /// # Errors
    /// Overflow, mostly.
    fn take_back(&mut self, _arguments: &[Datum]) -> Result<bool> {
        Ok(false)
    }

    /// The result over the rows taken so far.
    ///
    /// # Errors
    /// Overflow, mostly.
    fn finish(&mut self) -> Result<Datum>;
}

/// An aggregate, resolved for the types of its arguments.
#[derive(Clone)]
pub struct AggregateRef(Arc<Resolved>);

struct Resolved {
    name: &'static str,
    arguments: Vec<Type>,
    result: Type,
    kind: Kind,
}

impl AggregateRef {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The types to cast its arguments to.
    pub fn arguments(&self) -> &[Type] {
        &self.0.arguments
    }

    /// The type of its result.
    pub fn returns(&self) -> Type {
        self.0.result
    }

    /// The arguments that stand before WITHIN GROUP, if it is an ordered-set aggregate.
    pub fn direct(&self) -> Option<Direct> {
        ordered::direct(self.0.name)
    }

    /// A fresh state, for a group.
    pub fn accumulator(&self) -> Box<dyn Accumulator> {
        match self.0.kind {
            Kind::CountRows => Box::new(Count { rows: 0, all: true }),
            Kind::Count => Box::new(Count { rows: 0, all: false }),
            Kind::SumInteger if self.0.result == Type::Numeric => IntegerSum::new(IntegerResult::WideSum),
            Kind::SumInteger => IntegerSum::new(IntegerResult::Sum),
            Kind::SumNumeric => Box::new(SumNumeric::new(false)),
            Kind::SumFloat => Box::new(SumFloat { sum: None, narrow: self.0.result == Type::Float4 }),
            Kind::SumInterval => Box::new(SumInterval { sum: Interval::default(), count: 0, average: false }),
            Kind::AverageInteger => IntegerSum::new(IntegerResult::Average),
            Kind::AverageNumeric => Box::new(SumNumeric::new(true)),
            Kind::AverageFloat => Box::new(FloatMoments::new(Moments::Average)),
            Kind::AverageInterval => {
                Box::new(SumInterval { sum: Interval::default(), count: 0, average: true })
            }
            Kind::Extreme { greatest } => Box::new(Extreme { best: Datum::Null, greatest }),
            Kind::Bool { all } => Box::new(BoolAll { counts: (0, 0), all }),
            Kind::Bits(op) => Box::new(Bits { result: Datum::Null, op }),
            Kind::StringAgg => Box::new(StringAgg { out: None }),
            Kind::BytesAgg => Box::new(BytesAgg { out: None }),
            Kind::ArrayAgg(scalar) => Box::new(ArrayAgg { elements: Elements::default(), scalar }),
            Kind::NumericMoments(moments) => Box::new(NumericMoments::new(moments)),
            Kind::FloatMoments(moments) => Box::new(FloatMoments::new(moments)),
            Kind::Regression => Box::new(Regression::new(self.0.name)),
            Kind::Percentile { continuous } => {
                let fractions = self.0.arguments.first().and_then(|fractions| fractions.element());
                let elements = fractions.and(self.0.result.element()).and_then(Type::scalar);
                Box::new(Percentile::new(continuous, elements))
            }
            Kind::Mode => Box::new(Mode::new()),
            Kind::Hypothetical => Box::new(Hypothetical::new(self.0.name)),
        }
    }
}

impl fmt::Debug for AggregateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.0.name, self.0.arguments)
    }
}

/// The same aggregate on the same types.
impl PartialEq for AggregateRef {
    fn eq(&self, other: &AggregateRef) -> bool {
        self.0.name == other.0.name && self.0.arguments == other.0.arguments
    }
}

impl Eq for AggregateRef {}

#[derive(Clone, Copy)]
enum Kind {
    CountRows,
    Count,
    SumInteger,
    SumNumeric,
    SumFloat,
    SumInterval,
    AverageInteger,
    AverageNumeric,
    AverageFloat,
    AverageInterval,
    Extreme { greatest: bool },
    Bool { all: bool },
    Bits(BitOp),
    StringAgg,
    BytesAgg,
    ArrayAgg(Scalar),
    NumericMoments(Moments),
    FloatMoments(Moments),
    Regression,
    Percentile { continuous: bool },
    Mode,
    Hypothetical,
}

#[derive(Clone, Copy)]
enum BitOp {
    And,
    Or,
    Xor,
}

pub(super) fn resolved(name: &'static str, arguments: Vec<Type>, result: Type) -> Result<AggregateRef> {
    let first = arguments.first().copied();
    let is_float = matches!(first, Some(Type::Float4 | Type::Float8));
    if let (Type::Unknown, "percentile_disc", Some(ty @ Type::Array(_))) = (result, name, arguments.last()) {
        let message = format!("could not find array type for data type {}", format_type(*ty, None));
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    }
    if result == Type::Unknown {
        return Err(SqlError::unsupported(format!("{name} of values that are no scalars")));
    }
    let kind = match (name, first) {
        ("count", None) => Kind::CountRows,
        ("count", Some(_)) => Kind::Count,
        ("sum", Some(Type::Numeric)) => Kind::SumNumeric,
        ("sum", Some(Type::Interval)) => Kind::SumInterval,
        ("sum", _) if is_float => Kind::SumFloat,
        ("sum", _) => Kind::SumInteger,
        ("avg", Some(Type::Numeric)) => Kind::AverageNumeric,
        ("avg", Some(Type::Interval)) => Kind::AverageInterval,
        ("avg", _) if is_float => Kind::AverageFloat,
        ("avg", _) => Kind::AverageInteger,
        ("min", _) => Kind::Extreme { greatest: false },
        ("max", _) => Kind::Extreme { greatest: true },
        ("bool_and" | "every", _) => Kind::Bool { all: true },
        ("bool_or", _) => Kind::Bool { all: false },
        ("bit_and", _) => Kind::Bits(BitOp::And),
        ("bit_or", _) => Kind::Bits(BitOp::Or),
        ("bit_xor", _) => Kind::Bits(BitOp::Xor),
        ("string_agg", Some(Type::Bytea)) => Kind::BytesAgg,
        ("string_agg", _) => Kind::StringAgg,
        ("array_agg", Some(ty)) => Kind::ArrayAgg(ty.scalar().unwrap_or(Scalar::Text)),
        ("percentile_cont", _) => Kind::Percentile { continuous: true },
        ("percentile_disc", _) => Kind::Percentile { continuous: false },
        ("mode", _) => Kind::Mode,
        (name, _) if ordered::direct(name) == Some(Direct::Row) => Kind::Hypothetical,
        (name, _) if regression::NAMES.contains(&name) => Kind::Regression,
        (name, _) if is_float => Kind::FloatMoments(Moments::of_name(name)),
        (name, _) => Kind::NumericMoments(Moments::of_name(name)),
    };
    Ok(AggregateRef(Arc::new(Resolved { name, arguments, result, kind })))
}

pub(super) fn declare(all: &mut Declarations) {
    use Type::{Bool, Bytea, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Text};
    // Accumulators are found by name and type in `resolved`; what is declared here is for resolution.
    let body = DeclaredBody::Environment;
    all.declare::<Type>("count", &[], Int8, body);
    all.declare("count", &[Param::Any], Int8, body);
    for (from, sum, average) in [
        (Int2, Int8, Numeric),
        (Int4, Int8, Numeric),
        (Int8, Numeric, Numeric),
        (Numeric, Numeric, Numeric),
        (Float4, Float4, Float8),
        (Float8, Float8, Float8),
        (Interval, Interval, Interval),
    ] {
        all.declare("sum", &[from], sum, body);
        all.declare("avg", &[from], average, body);
    }
    for name in ["var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"] {
        for from in [Int2, Int4, Int8, Numeric] {
            all.declare(name, &[from], Numeric, body);
        }
        for from in [Float4, Float8] {
            all.declare(name, &[from], Float8, body);
        }
    }
    for name in ["min", "max"] {
        for ty in [
            Int2,
            Int4,
            Int8,
            Float4,
            Float8,
            Numeric,
            Text,
            Type::Bpchar,
            Type::Date,
            Type::Time,
            Type::Timestamp,
            Type::Timestamptz,
            Interval,
            Type::Oid,
            Type::Tid,
            Type::Xid8,
            Type::PgLsn,
            Type::Int2vector,
            Type::Oidvector,
        ] {
            all.declare(name, &[ty], ty, body);
        }
        all.declare(name, &[Param::AnyArray], Param::AnyArray, body);
    }
    for name in ["bool_and", "bool_or", "every"] {
        all.declare(name, &[Bool], Bool, body);
    }
    for name in ["bit_and", "bit_or", "bit_xor"] {
        for ty in [Int2, Int4, Int8] {
            all.declare(name, &[ty], ty, body);
        }
    }
    all.declare("string_agg", &[Text, Text], Text, body);
    all.declare("string_agg", &[Bytea, Bytea], Bytea, body);
    all.declare("array_agg", &[Param::AnyElement], Param::AnyArray, body);
    for name in regression::NAMES {
        let result = if name == "regr_count" { Int8 } else { Float8 };
        all.declare(name, &[Float8, Float8], result, body);
    }
    declare_ordered(all);
}

/// The arguments of WITHIN GROUP follow the direct ones.
fn declare_ordered(all: &mut Declarations) {
    use Type::{Float8, Int8, Interval};
    let body = DeclaredBody::Environment;
    let fractions = Type::Array(Scalar::Float8);
    for ty in [Float8, Interval] {
        all.declare("percentile_cont", &[Float8, ty], ty, body);
        all.declare("percentile_cont", &[fractions, ty], ty.array().map_or(Param::AnyArray, Param::Is), body);
    }
    let element = Param::AnyElement;
    all.declare("percentile_disc", &[Param::Is(Float8), element], element, body);
    all.declare("percentile_disc", &[Param::Is(fractions), element], Param::AnyArray, body);
    all.declare("mode", &[element], element, body);
    for (name, result) in
        [("rank", Int8), ("dense_rank", Int8), ("percent_rank", Float8), ("cume_dist", Float8)]
    {
        all.declare(name, &[Param::Any], result, body).variadic();
    }
}

struct Count {
    rows: i64,
    all: bool,
}

impl Accumulator for Count {
    fn step_rows(&mut self, rows: usize) -> Result<()> {
        self.rows += rows as i64;
        Ok(())
    }

    fn step_value(&mut self, column: &Column, at: usize) -> Result<()> {
        self.rows += i64::from(self.all || !column.is_null(at));
        Ok(())
    }

    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if self.all || !any(arguments, 0)?.is_null() {
            self.rows += 1;
        }
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        if self.all || !any(arguments, 0)?.is_null() {
            self.rows -= 1;
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(Datum::Int8(self.rows))
    }
}

struct Extreme {
    best: Datum,
    greatest: bool,
}

impl Accumulator for Extreme {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = any(arguments, 0)?;
        if value.is_null() {
            return Ok(());
        }
        let ordering = compare(value, &self.best);
        // Of equal values that look different (1.5 and 1.50) the later one stays; of char(n) the earlier.
        let replace = match ordering {
            _ if self.best.is_null() => true,
            Ordering::Equal => !matches!(value, Datum::Bpchar(_)),
            Ordering::Greater => self.greatest,
            Ordering::Less => !self.greatest,
        };
        if replace {
            self.best = value.clone();
        }
        Ok(())
    }

    fn takes_back(&self) -> bool {
        true
    }

    /// Only the best value matters.
    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        let value = any(arguments, 0)?;
        Ok(value.is_null() || compare(value, &self.best).is_ne())
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(self.best.clone())
    }
}

struct BoolAll {
    /// How many are true, and how many false.
    counts: (i64, i64),
    all: bool,
}

impl BoolAll {
    fn add(&mut self, arguments: &[Datum], number: i64) -> Result<()> {
        if !any(arguments, 0)?.is_null() {
            match boolean(arguments, 0)? {
                true => self.counts.0 += number,
                false => self.counts.1 += number,
            }
        }
        Ok(())
    }
}

impl Accumulator for BoolAll {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        self.add(arguments, 1)
    }

    fn takes_back(&self) -> bool {
        true
    }

    fn take_back(&mut self, arguments: &[Datum]) -> Result<bool> {
        self.add(arguments, -1).map(|()| true)
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(match self.counts {
            (0, 0) => Datum::Null,
            (_, wrong) if self.all => Datum::Bool(wrong == 0),
            (right, _) => Datum::Bool(right > 0),
        })
    }
}

struct Bits {
    result: Datum,
    op: BitOp,
}

impl Accumulator for Bits {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = any(arguments, 0)?;
        if value.is_null() {
            return Ok(());
        }
        let op = |a: i64, b: i64| match self.op {
            BitOp::And => a & b,
            BitOp::Or => a | b,
            BitOp::Xor => a ^ b,
        };
        // Both operands have one width, and bitwise operations stay in it.
        self.result = match (&self.result, value) {
            (Datum::Int2(a), Datum::Int2(b)) => Datum::Int2(op(i64::from(*a), i64::from(*b)) as i16),
            (Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(op(i64::from(*a), i64::from(*b)) as i32),
            (Datum::Int8(a), Datum::Int8(b)) => Datum::Int8(op(*a, *b)),
            _ => value.clone(),
        };
        Ok(())
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(self.result.clone())
    }
}

struct StringAgg {
    out: Option<String>,
}

impl Accumulator for StringAgg {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if any(arguments, 0)?.is_null() {
            return Ok(());
        }
        let value = text(arguments, 0)?;
        match &mut self.out {
            None => self.out = Some(value.to_owned()),
            Some(out) => {
                // The delimiter of the row, before its value; a NULL one is nothing.
                if !any(arguments, 1)?.is_null() {
                    push_str(out, text(arguments, 1)?)?;
                }
                push_str(out, value)?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.out.as_ref().map_or(0, String::len)
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(self.out.as_deref().map_or(Datum::Null, Datum::text))
    }
}

struct BytesAgg {
    out: Option<Vec<u8>>,
}

impl Accumulator for BytesAgg {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        if any(arguments, 0)?.is_null() {
            return Ok(());
        }
        let value = bytes(arguments, 0)?;
        match &mut self.out {
            None => self.out = Some(value.to_owned()),
            Some(out) => {
                if !any(arguments, 1)?.is_null() {
                    out.extend(bytes(arguments, 1)?);
                }
                out.extend(value);
                check_bytes(out.len())?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.out.as_ref().map_or(0, Vec::len)
    }

    fn finish(&mut self) -> Result<Datum> {
        Ok(self.out.as_deref().map_or(Datum::Null, |out| Datum::Bytea(out.into())))
    }
}

struct ArrayAgg {
    elements: Elements,
    scalar: Scalar,
}

impl Accumulator for ArrayAgg {
    fn step(&mut self, arguments: &[Datum]) -> Result<()> {
        self.elements.push(any(arguments, 0)?.clone())
    }

    fn bytes(&self) -> usize {
        self.elements.bytes()
    }

    fn finish(&mut self) -> Result<Datum> {
        if self.elements.items().is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Array(self.scalar, self.elements.items().into()))
    }
}

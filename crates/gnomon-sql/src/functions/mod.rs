//! Functions, operators and aggregates by name and argument types, resolved as PostgreSQL resolves them.
//!
//! A resolved one is a cheap handle: the types that its arguments are to be cast to, the type of its result, whether
//! it is strict, how volatile it is, and how to run it. Casting the arguments is the binder's work; a handle is called
//! with values of exactly its argument types.
//!
//! - [`resolve_operator`], [`resolve_call`], [`resolve_set_function`], [`resolve_aggregate`], [`resolve_cast`];
//! - the functions themselves: `operators`, `comparison`, `math`, `strings`, `encoding`, `pattern`, `arrays`,
//!   `datetime`, `format`, `template` (to_char and its like), and those of `sets` and `aggregates`;
//! - `declaration` is what each of these files imports to declare its functions, and `registry` collects them all;
//! - functions whose body lives in an upper layer (sequences, the catalog) are declared in `environment` and `system`,
//!   and run through [`Environment::call`](crate::types::Environment::call).
//!
//! Not here: AND, OR, NOT, CASE, COALESCE, NULLIF, GREATEST, LEAST, IS ..., which are no functions.

mod acl;
mod aggregates;
mod arguments;
mod arrays;
mod buckets;
mod case;
mod comparison;
mod datetime;
mod declaration;
mod encoding;
mod environment;
mod expression;
mod format;
mod hashing;
mod in_range;
mod keywords;
mod lexical;
mod lsn;
mod math;
mod normal_form;
mod operator_functions;
mod operators;
mod overlaps;
mod pattern;
mod registry;
mod resolve;
mod sets;
mod strings;
mod system;
mod template;
#[cfg(test)]
mod tests;
mod trigonometry;

use std::{cmp::Ordering, fmt, sync::Arc};

pub use aggregates::{Accumulator, AggregateRef, Direct};
pub use in_range::{Limit, offset_types};
pub use pattern::like_prefix;
pub use registry::{function_exists, is_aggregate, is_set_function};
pub use resolve::{
    Arguments, Given, ResolvedCall, check_function, is_missing_function, missing_function, resolve_aggregate,
    resolve_call, resolve_cast, resolve_operator, resolve_set_function, undetermined,
};
pub use sets::{Rows, SetFunctionRef};
pub use strings::quote_ident;

use crate::{
    Result,
    types::{
        ColumnType, Context, Datum, Type,
        cast::{self, CastContext},
        limit,
    },
};

/// How the result of a function may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatility {
    /// Only with its arguments: may be computed once, when planning.
    Immutable,
    /// Not within a statement, but with settings or the time.
    Stable,
    /// At every call.
    Volatile,
}

/// The comparisons that indexes know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison with the sides exchanged: `a < b` is `b > a`.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// True if it holds for two values in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Its operator.
    pub fn operator(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// A function's body: gets values of its argument types, none NULL if it is strict.
pub type Eval = fn(&Context, &[Datum]) -> Result<Datum>;

/// How a resolved function runs.
#[derive(Clone)]
enum Body {
    Native(Eval),
    /// In an upper layer, by this name.
    Environment(&'static str),
    /// A conversion spelled as a call: `int4('1')`.
    Cast(CastRef),
    /// Known when it was resolved: `pg_typeof`.
    Constant(Datum),
}

/// A function or operator, resolved for the types of its arguments.
#[derive(Clone)]
pub struct FunctionRef(Arc<Function>);

/// The properties of a [`FunctionRef`].
pub struct Function {
    name: &'static str,
    is_operator: bool,
    arguments: Vec<Type>,
    result: Type,
    /// True if any NULL argument makes the result NULL, without a call.
    pub strict: bool,
    /// How its result may change.
    pub volatility: Volatility,
    comparison: Option<Comparison>,
    /// Set if its last argument is an array whose elements are the arguments.
    spread: Option<NullList>,
    body: Body,
}

/// The meaning of NULL in the place of an array behind VARIADIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NullList {
    /// The result is NULL.
    Null,
    /// An empty array.
    Empty,
}

impl std::ops::Deref for FunctionRef {
    type Target = Function;
    fn deref(&self) -> &Function {
        &self.0
    }
}

impl Function {
    /// Its name; of an operator its symbol.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its symbol, if it is an operator.
    pub fn operator(&self) -> Option<&'static str> {
        self.is_operator.then_some(self.name)
    }

    /// The types to cast its arguments to.
    pub fn arguments(&self) -> &[Type] {
        &self.arguments
    }

    /// The type of its result.
    pub fn returns(&self) -> Type {
        self.result
    }

    /// Returns which comparison it is, if it is the operator of one.
    pub fn comparison(&self) -> Option<Comparison> {
        self.comparison
    }

    /// An array whose elements are all NULL, and so do not tell their type, with the type of the result.
    fn typed(&self, value: Datum) -> Datum {
        match (value, self.result) {
            (Datum::Array(scalar, items), Type::Array(wanted)) if scalar != wanted => {
                Datum::Array(wanted, items)
            }
            (value, _) => value,
        }
    }

    /// True if its last argument is an array whose elements are the arguments: that of VARIADIC.
    pub fn is_spread(&self) -> bool {
        self.spread.is_some()
    }

    /// Runs it on values of its argument types.
    ///
    /// # Errors
    /// Its own.
    pub fn call(&self, cx: &Context, arguments: &[Datum]) -> Result<Datum> {
        if self.strict && arguments.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let list;
        let arguments = match (self.spread, arguments) {
            (Some(NullList::Null), [.., Datum::Null]) => return Ok(Datum::Null),
            (Some(_), [first @ .., Datum::Null]) => first,
            (Some(_), [first @ .., Datum::Array(_, items)]) => {
                list = [first, items].concat();
                &list[..]
            }
            _ => arguments,
        };
        let is_long = arguments.iter().any(limit::is_large);
        limit::watched(cx, is_long, || match &self.body {
            Body::Native(eval) => limit::check_after(self.typed(eval(cx, arguments)?)),
            Body::Environment(name) => cx.environment.call(name, arguments),
            Body::Cast(cast) => cast.apply(cx, arguments.first().cloned().unwrap_or(Datum::Null)),
            Body::Constant(datum) => Ok(datum.clone()),
        })
    }

    /// True if it changes where the sequence stands that is its first argument.
    pub fn draws(&self) -> bool {
        matches!(self.body, Body::Environment("nextval" | "setval"))
    }
}

impl fmt::Debug for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name, self.arguments)
    }
}

/// The same function on the same types.
impl PartialEq for FunctionRef {
    fn eq(&self, other: &FunctionRef) -> bool {
        self.name == other.name
            && self.is_operator == other.is_operator
            && self.spread == other.spread
            && self.arguments == other.arguments
    }
}

impl Eq for FunctionRef {}

/// A conversion of values of one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastRef {
    /// The type of the values.
    pub from: Type,
    /// The type that they become.
    pub to: ColumnType,
    /// Where it is asked for: an explicit one cuts strings that are too long.
    pub context: CastContext,
    /// How its result may change: what reads the clock, the time zone or the catalog is stable.
    pub volatility: Volatility,
}

impl CastRef {
    /// Casts a value; NULL stays NULL.
    ///
    /// # Errors
    /// Those of [`cast::cast`].
    pub fn apply(&self, cx: &Context, value: Datum) -> Result<Datum> {
        if value.is_null() {
            return Ok(value);
        }
        let (from, to, context) = (self.from, self.to, self.context);
        limit::watched(cx, limit::is_large(&value), || cast::cast(cx, value, from, to, context))
    }
}

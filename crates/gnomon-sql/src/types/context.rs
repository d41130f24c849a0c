//! The context that values and functions depend on beside their arguments: the session's settings, the times of its
//! transaction, and what lies above types and functions (the catalog, sequences), reached through a trait.

use std::{cell::Cell, fmt};

use super::{
    Datum, Row, Type,
    datetime::{DateStyle, IntervalStyle, Zone},
};
use crate::{Result, SqlError, SqlState};

/// The surroundings in which values are read, written and computed with.
#[derive(Clone)]
pub struct Context<'a> {
    /// The session's TimeZone.
    pub zone: Zone,
    /// When the transaction began, in microseconds since 2000-01-01 00:00 UTC: `now()`.
    pub transaction_time: i64,
    /// When the statement began, likewise.
    pub statement_time: i64,
    /// The setting DateStyle.
    pub date_style: DateStyle,
    /// The setting IntervalStyle.
    pub interval_style: IntervalStyle,
    /// The setting extra_float_digits: above 0 shortest exact output, else 15 (6) digits plus it.
    pub extra_float_digits: i32,
    /// True if bytea_output is escape.
    pub bytea_escape: bool,
    /// The catalog, sequences, clock and randomness.
    pub environment: &'a dyn Environment,
    /// True if a literal was read whose value depends on the time of the transaction.
    pub(crate) time_was_read: Cell<bool>,
}

impl<'a> Context<'a> {
    /// A context with PostgreSQL's default settings and UTC, at the environment's time.
    pub fn new(environment: &'a dyn Environment) -> Context<'a> {
        let now = environment.clock();
        Context {
            zone: Zone::UTC,
            transaction_time: now,
            statement_time: now,
            date_style: DateStyle::ISO,
            interval_style: IntervalStyle::Postgres,
            extra_float_digits: 1,
            bytea_escape: false,
            environment,
            time_was_read: Cell::new(false),
        }
    }
}

impl Context<'_> {
    /// When the transaction began, for a literal that stands for it: what it makes holds for this transaction only.
    pub(super) fn time_of_literal(&self) -> i64 {
        self.time_was_read.set(true);
        self.transaction_time
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("zone", &self.zone)
            .field("transaction_time", &self.transaction_time)
            .field("statement_time", &self.statement_time)
            .finish_non_exhaustive()
    }
}

/// Services of the layers above, for functions and the reg* types.
pub trait Environment {
    /// The current time in microseconds since 2000-01-01 00:00 UTC: `clock_timestamp()`.
    fn clock(&self) -> i64;

    /// Sixty-four random bits: `random()`, `gen_random_uuid()`.
    fn random(&self) -> u64;

    /// `setseed()`: the numbers that follow are determined by `seed`.
    fn set_seed(&self, seed: u64);

    /// The object of a reg* type by its name as SQL text has it (perhaps quoted and qualified).
    ///
    /// Without a catalog only numbers and type names are known.
    fn object_by_name(&self, ty: Type, name: &str) -> Result<u32> {
        Err(match ty {
            Type::Regtype => return Ok(super::parse_type_name(name)?.ty.oid()),
            Type::Regclass => {
                SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
            }
            Type::Regnamespace => {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
            }
            Type::Regproc | Type::Regprocedure => {
                SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{name}\" does not exist"))
            }
            _ => SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")),
        })
    }

    /// The name of an object of a reg* type as SQL text would have it; none if there is no such object.
    fn object_name(&self, _ty: Type, _oid: u32) -> Option<String> {
        None
    }

    /// The rows of a table that an upper layer computes: the system table with this identifier.
    fn rows(&self, table: u32) -> Result<Vec<Row>> {
        Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("table {table} has no rows here")))
    }

    /// Fails once the statement is to end: it was cancelled, or its time is up. Costs next to nothing.
    fn check_interrupt(&self) -> Result<()> {
        Ok(())
    }

    /// Tells the client that something has no effect, and why that is harmless.
    fn tell_no_effect(&self, _what: &str, _why: &str) {}

    /// Runs a function that an upper layer declared (see `functions::Registry`) and that lives there.
    fn call(&self, function: &str, _arguments: &[Datum]) -> Result<Datum> {
        Err(SqlError::new(
            SqlState::INTERNAL_ERROR,
            format!("function {function} has no implementation here"),
        ))
    }
}

/// An environment without catalog or sequences, whose clock stands still and whose random numbers are a sequence
/// (SplitMix64): for tests and constant folding.
#[derive(Debug, Default)]
pub struct FixedEnvironment {
    time: i64,
    state: std::cell::Cell<u64>,
}

impl FixedEnvironment {
    /// One whose clock shows `time` (microseconds since 2000-01-01 00:00 UTC).
    pub fn at(time: i64) -> FixedEnvironment {
        FixedEnvironment { time, state: std::cell::Cell::new(0) }
    }
}

impl Environment for FixedEnvironment {
    fn clock(&self) -> i64 {
        self.time
    }

    fn random(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn set_seed(&self, seed: u64) {
        self.state.set(seed);
    }
}

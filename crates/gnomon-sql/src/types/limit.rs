//! How large a value may grow, and how long work on it may go without a look at the interrupt.
//!
//! A few calls of `replace` or `string_agg` would make any amount of text out of little. Whatever makes text, bytes,
//! arrays or rows out of more than one value is held to [`VALUE_BYTES_MAX`] here and fails with 54000, as PostgreSQL
//! does at 1 GB. Work that is not linear in the size of its arguments counts its steps on a [`Pace`].

use super::{Context, Datum, Environment, Scalar};
use crate::{Result, SqlError, SqlState};

/// The largest value that an expression makes, in bytes: as much as a statement's text may have, and little enough
/// that the few copies of a value that are alive at a time fit a small machine.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// The largest row that an expression list makes, in bytes of memory.
pub const ROW_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

/// A value of more bytes is counted while its row passes, and is not kept in a plan: a plan stays, a row passes.
pub const LONG_BYTES: usize = 64 << 10;

/// The most elements that PostgreSQL lets an array have.
pub const ELEMENTS_MAX: i32 = 134_217_727;

/// How much work passes between two looks at the interrupt: bytes that are read, or steps.
const WORK_BETWEEN_CHECKS: usize = 1 << 20;

/// The error for a value that would grow too large.
#[cold]
pub fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("Values may have {VALUE_BYTES_MAX} bytes."))
}

/// The error for an array of more elements than there may be.
#[cold]
pub fn too_many_elements() -> SqlError {
    let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// Fails if a value of so many bytes would be too large.
///
/// # Errors
/// 54000.
pub fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX { Err(too_long()) } else { Ok(()) }
}

/// Appends to a text that may become no larger than a value.
///
/// # Errors
/// 54000.
pub fn push_str(out: &mut String, piece: &str) -> Result<()> {
    check_bytes(out.len().saturating_add(piece.len()))?;
    out.push_str(piece);
    Ok(())
}

/// About how much memory a value takes, in bytes.
pub fn datum_bytes(value: &Datum) -> usize {
    size_of::<Datum>()
        + match value {
            Datum::Text(text) | Datum::Bpchar(text) => text.len(),
            Datum::Bytea(bytes) => bytes.len(),
            Datum::Numeric(number) => 32 + number.digit_bytes(),
            Datum::Array(_, items) | Datum::Record(items) => row_bytes(items),
            _ => 0,
        }
}

/// About how much memory a row takes, in bytes.
pub fn row_bytes(row: &[Datum]) -> usize {
    24 + row.iter().map(datum_bytes).sum::<usize>()
}

/// The elements of an array, or the fields of a row value, while they are collected.
#[derive(Debug, Default)]
pub struct Elements {
    items: Vec<Datum>,
    bytes: usize,
}

impl Elements {
    /// Adds one.
    ///
    /// # Errors
    /// 54000 if all together are too large.
    pub fn push(&mut self, item: Datum) -> Result<()> {
        self.bytes += datum_bytes(&item);
        check_bytes(self.bytes)?;
        self.items.push(item);
        Ok(())
    }

    /// About how much memory they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the values collected so far.
    pub fn items(&self) -> &[Datum] {
        &self.items
    }

    /// Takes what was collected.
    pub fn into_items(self) -> Vec<Datum> {
        self.items
    }

    /// The array of what was collected.
    pub fn into_array(self, scalar: Scalar) -> Datum {
        Datum::Array(scalar, self.items.into())
    }

    /// All of them from an iterator.
    ///
    /// # Errors
    /// 54000.
    pub fn collect(items: impl IntoIterator<Item = Datum>) -> Result<Elements> {
        let mut elements = Elements::default();
        items.into_iter().try_for_each(|item| elements.push(item))?;
        Ok(elements)
    }
}

/// A row value of these fields.
///
/// # Errors
/// 54000.
pub fn record(items: Vec<Datum>) -> Result<Datum> {
    check_bytes(row_bytes(&items))?;
    Ok(Datum::Record(items.into()))
}

/// Counts work, and looks at the interrupt now and then.
pub struct Pace<'a> {
    environment: &'a dyn Environment,
    left: usize,
}

impl<'a> Pace<'a> {
    /// For work in these surroundings.
    pub fn new(cx: &Context<'a>) -> Pace<'a> {
        Pace { environment: cx.environment, left: WORK_BETWEEN_CHECKS }
    }

    /// Counts a step that reads so many bytes.
    ///
    /// # Errors
    /// 57014 once the statement is cancelled or its time is up.
    pub fn step(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes.max(1)) {
            Some(left) => self.left = left,
            None => {
                self.left = WORK_BETWEEN_CHECKS;
                self.environment.check_interrupt()?;
            }
        }
        Ok(())
    }
}

/// Fails if a value that was made of few others by a function is too large.
///
/// # Errors
/// 54000.
pub fn check_after(value: Datum) -> Result<Datum> {
    match &value {
        Datum::Text(text) | Datum::Bpchar(text) => check_bytes(text.len())?,
        Datum::Bytea(bytes) => check_bytes(bytes.len())?,
        _ => {}
    }
    Ok(value)
}

/// True if work on a value may take long.
pub fn is_large(value: &Datum) -> bool {
    const LARGE: usize = 1 << 14;
    match value {
        Datum::Text(text) | Datum::Bpchar(text) => text.len() > LARGE,
        Datum::Bytea(bytes) => bytes.len() > LARGE,
        Datum::Array(_, items) | Datum::Record(items) => items.len() > LARGE / size_of::<Datum>(),
        Datum::Numeric(_) => true,
        _ => false,
    }
}

/// Does work, which is long if an argument of it is large. If it is, or what comes out is large, looks at the interrupt
/// before and after it, so that work that took too long fails although it is done.
///
/// # Errors
/// As [`Pace::step`], and those of the work.
pub fn watched(cx: &Context, is_long: bool, work: impl FnOnce() -> Result<Datum>) -> Result<Datum> {
    if is_long {
        cx.environment.check_interrupt()?;
    }
    let value = work()?;
    if is_long || is_large(&value) {
        cx.environment.check_interrupt()?;
    }
    Ok(value)
}

//! The place of a cursor among its rows, and its moves.
//!
//! A cursor keeps the rows that it has returned, and goes back to those. With SCROLL it keeps all, in a temporary file if
//! they are many. Without SCROLL and NO SCROLL it keeps them as long as they take little memory; PostgreSQL lets such a
//! cursor go back if its plan can.

use super::portal::{Portal, counted};
use crate::{
    Result, SqlError, SqlState,
    context::SessionContext,
    statement::{Executor, PassedRows},
    types::{Context, Datum, Row},
};

/// Gets each row that a move passes.
pub(super) type Send<'a> = &'a mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>;

/// The place of a cursor: before its rows, on one of them, or behind them.
pub(super) struct Place {
    /// Number of rows up to it, with its own; behind the rows the number of all.
    passed: u64,
    /// True if no row has been passed yet.
    is_at_start: bool,
    /// True if it is behind the rows.
    is_at_end: bool,
    /// The rows that it may go back to; none if it only goes forward.
    rows: Option<PassedRows>,
    /// True if they are kept even if they are many.
    keeps_all: bool,
    /// The keys behind the columns of the row that was passed last: of the row that it is on, if it is on one.
    pub(super) keys: Row,
}

impl Place {
    /// The place of a cursor that only goes forward.
    pub(super) fn forward_only() -> Place {
        Place {
            passed: 0,
            is_at_start: true,
            is_at_end: false,
            rows: None,
            keeps_all: false,
            keys: Row::new(),
        }
    }

    /// The place of a cursor that goes back as well: with SCROLL wherever, otherwise among few rows.
    pub(super) fn scrolling(session: &SessionContext, keeps_all: bool) -> Result<Place> {
        let rows = Some(PassedRows::new(session.memory.clone())?);
        Ok(Place { rows, keeps_all, ..Place::forward_only() })
    }

    /// True if the cursor may go back.
    pub(super) fn is_scrollable(&self) -> bool {
        self.rows.is_some()
    }

    /// True if it is on a row.
    pub(super) fn is_on_row(&self) -> bool {
        !self.is_at_start && !self.is_at_end
    }

    /// Returns the number of the row that it is on, from 1; behind the rows one more than there are.
    fn number(&self) -> u64 {
        self.passed + u64::from(self.is_at_end)
    }

    /// Keeps a row that is passed for the first time.
    fn keep(&mut self, row: &[Datum]) -> Result<()> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        if !self.keeps_all && rows.are_many() {
            self.rows = None;
            return Ok(());
        }
        rows.push(row)
    }

    /// Returns the row of a number, from 1, if it has been passed before.
    fn row(&mut self, number: u64) -> Result<Option<Vec<Datum>>> {
        match &mut self.rows {
            Some(rows) => rows.get(number - 1),
            None => Ok(None),
        }
    }

    /// Passes a row, whose keys stand behind its `width` columns.
    fn pass(&mut self, width: usize, context: &Context<'_>, row: &[Datum], send: Send<'_>) -> Result<()> {
        let (row, keys) = row.split_at(width.min(row.len()));
        self.keys.clear();
        self.keys.extend_from_slice(keys);
        send(context, row)
    }

    /// Notes a move forward by so many rows, perhaps beyond the last one.
    fn advance(&mut self, rows: u64, is_at_end: bool) {
        self.is_at_start &= rows == 0;
        self.is_at_end = is_at_end;
        self.passed += rows;
    }

    /// Goes before the first row.
    ///
    /// # Errors
    /// 55000 if it only goes forward.
    pub(super) fn rewind(&mut self) -> Result<()> {
        if self.is_at_start && !self.is_at_end {
            return Ok(());
        }
        if self.rows.is_none() {
            return Err(only_forward());
        }
        (self.passed, self.is_at_start, self.is_at_end) = (0, true, false);
        Ok(())
    }
}

impl Portal {
    /// Passes so many rows forward, without a count all that are left. Returns how many they were.
    pub(super) fn forward(
        &mut self,
        executor: &mut Executor<'_>,
        count: Option<u64>,
        send: Send<'_>,
    ) -> Result<u64> {
        if self.place.is_at_end || count == Some(0) {
            return Ok(0);
        }
        let mut place = std::mem::replace(&mut self.place, Place::forward_only());
        let moved = self.forward_from(&mut place, executor, count, send);
        self.place = place;
        let (moved, _) = moved?;
        self.place.advance(moved, count.is_none_or(|count| moved < count));
        Ok(moved)
    }

    /// Runs it on for Execute, up to so many rows (0 for all). Returns how many were sent and, once it is at its end, the
    /// command tag of this call.
    pub(super) fn execute(
        &mut self,
        executor: &mut Executor<'_>,
        max_rows: usize,
        send: Send<'_>,
    ) -> Result<(u64, Option<String>)> {
        let count = (max_rows > 0).then_some(max_rows as u64);
        let mut place = std::mem::replace(&mut self.place, Place::forward_only());
        let moved = self.forward_from(&mut place, executor, count, send);
        self.place = place;
        let (moved, tag) = moved?;
        self.place.advance(moved, tag.is_some());
        Ok((moved, tag))
    }

    /// Returns how many columns its rows have.
    fn width(&self) -> usize {
        self.columns().map_or(0, |columns| columns.len())
    }

    /// Passes rows forward from a place: those that were passed before first. Returns as [`Portal::execute`] does.
    fn forward_from(
        &mut self,
        place: &mut Place,
        executor: &mut Executor<'_>,
        count: Option<u64>,
        send: Send<'_>,
    ) -> Result<(u64, Option<String>)> {
        let width = self.width();
        let mut moved = 0;
        while count.is_none_or(|count| moved < count)
            && let Some(row) = place.row(place.passed + moved + 1)?
        {
            executor.session.with_types(|context, _| place.pass(width, context, &row, send))?;
            moved += 1;
        }
        let left = match count {
            Some(count) if count == moved => return Ok((moved, None)),
            Some(count) => usize::try_from(count - moved).unwrap_or(usize::MAX),
            None => 0,
        };
        let mut keep = |context: &Context<'_>, row: &[Datum]| {
            place.keep(row)?;
            place.pass(width, context, row, send)
        };
        let (new, tag) = self.advance(executor, left, &mut keep)?;
        let tag = match moved {
            0 => tag,
            moved => tag.map(|tag| counted(Some(&tag), moved + new)),
        };
        Ok((moved + new, tag))
    }

    /// Passes so many rows backward, without a count all. Returns how many they were.
    ///
    /// # Errors
    /// 55000 if the cursor only goes forward.
    pub(super) fn backward(
        &mut self,
        executor: &mut Executor<'_>,
        count: Option<u64>,
        send: Send<'_>,
    ) -> Result<u64> {
        let width = self.width();
        let place = &mut self.place;
        if !place.is_scrollable() {
            return Err(only_forward());
        }
        if place.is_at_start || count == Some(0) {
            return Ok(0);
        }
        let (mut moved, mut number) = (0, place.number());
        while count.is_none_or(|count| moved < count) && number > 1 {
            number -= 1;
            let Some(row) = place.row(number)? else { break };
            executor.session.with_types(|context, _| place.pass(width, context, &row, send))?;
            moved += 1;
        }
        if moved > 0 {
            place.is_at_end = false;
        }
        match count.is_none_or(|count| moved < count) {
            true => (place.passed, place.is_at_start) = (0, true),
            false => place.passed = number,
        }
        Ok(moved)
    }

    /// Goes to the row of a number, from 1, and passes it on. Returns 1, or 0 if there is none.
    pub(super) fn go_to_row(
        &mut self,
        executor: &mut Executor<'_>,
        number: u64,
        send: Send<'_>,
    ) -> Result<u64> {
        let here = self.place.number();
        if number > here {
            self.forward(executor, Some(number - here - 1), &mut |_, _| Ok(()))?;
        } else {
            self.place.rewind()?;
            self.forward(executor, Some(number - 1), &mut |_, _| Ok(()))?;
        }
        self.forward(executor, Some(1), send)
    }
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

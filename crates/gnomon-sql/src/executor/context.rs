//! The context of an execution: the transaction, parameters, settings, and its own state.

use std::{collections::HashMap, sync::Arc};

use gnomon_engine::{
    Transaction,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    CteRows, SubqueryResult,
    expr::List,
    measure::Measures,
    tally::{Accesses, Counted, Tally},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Oid, Table},
    memory::Held,
    types::{Context, Datum, Row},
};

pub(super) use crate::types::limit::row_bytes;

/// The memory that the sorts and hashes of one statement may take together, in bytes, unless
/// [`ExecContext::memory_bytes_max`] is set otherwise.
pub const MEMORY_BYTES_MAX: usize = 256 << 20;

/// Memory is taken from the session's account in pieces of so many bytes.
const HELD_PIECE_BYTES: usize = 256 << 10;

/// Number of rows that a statement has done, seen from elsewhere.
pub type RowsDone = Arc<AtomicU64>;

/// Number of rows between two looks at the interrupt.
const ROWS_BETWEEN_CHECKS: u64 = 256;

/// The cursors of a session.
pub trait Cursors {
    /// Returns the located key of the row of a table that a cursor is on; none if its row is of another one of the
    /// tables that it reads.
    ///
    /// # Errors
    /// 34000 if there is no such cursor, 24000 if it is on no row, or its rows are not the table's.
    fn current_row(&self, cursor: &str, table: &Table) -> Result<Option<Vec<u8>>>;

    /// Returns the number of a statement that begins, larger than those of the statements before it that have changed
    /// rows of cursors.
    fn begin_statement(&self) -> u64;

    /// Notes that the row with a located key has left that: it has another one now, or is deleted. Rows that the same
    /// `statement` moves leave their keys before the first gets its new one.
    fn row_left(&self, statement: u64, table: &Table, key: &[u8], new_key: Option<&[u8]>) -> Result<()>;
}

/// The context in which plans and expressions are evaluated. Make a new one for each statement: it keeps the results of
/// subqueries that are evaluated once.
pub struct ExecContext<'a> {
    /// The transaction; its interrupt is looked at every few hundred rows.
    pub txn: &'a mut Transaction,
    /// The values of the statement's parameters, of the types that were bound.
    pub params: &'a [Datum],
    /// Settings, times, and the layers above functions.
    pub types: &'a Context<'a>,
    /// The memory that sorts and hashes may take together, in bytes.
    pub memory_bytes_max: usize,
    /// The part of the session's account that these take, if they have one.
    pub memory: Option<Held>,
    /// True if blind updates share locks with each other.
    pub semantic_locks: bool,
    /// The counter of rows that are written.
    pub rows_done: RowsDone,
    /// The accesses to tables and indexes.
    pub tally: Tally,
    /// The cursors that WHERE CURRENT OF can name.
    pub cursors: &'a dyn Cursors,
    /// The number that these have given the statement.
    pub statement: u64,
    /// The runs of plans' nodes, if they are measured.
    pub measures: Measures,
    pub(super) state: ExecState,
}

/// No cursors.
impl Cursors for () {
    fn current_row(&self, cursor: &str, _: &Table) -> Result<Option<Vec<u8>>> {
        Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{cursor}\" does not exist")))
    }

    fn begin_statement(&self) -> u64 {
        0
    }

    fn row_left(&self, _: u64, _: &Table, _: &[u8], _: Option<&[u8]>) -> Result<()> {
        Ok(())
    }
}

/// Bytes of memory that sources hold at a time.
#[derive(Clone, Copy)]
pub(super) struct Reserved {
    passing_bytes: usize,
    long_bytes: usize,
}

/// State that an execution keeps from row to row.
pub(super) struct ExecState {
    slots: Vec<Datum>,
    /// Results of subqueries that depend on no row, by the number that the binder gave them.
    pub(super) subqueries: HashMap<usize, SubqueryResult>,
    /// Lists that are the same for all rows, by the number that the binder gave them.
    pub(super) lists: HashMap<usize, List>,
    /// Rows of common table expressions, by their number.
    pub(super) tables: HashMap<usize, CteRows>,
    /// Rows of computed tables, by their identifiers.
    pub(super) virtual_rows: HashMap<Oid, Arc<Vec<Row>>>,
    /// The memory that is taken by sources, for as long as they live.
    passing_bytes: usize,
    /// The memory that is taken by what stands here.
    kept_bytes: usize,
    /// The memory that long values of rows on their way take.
    long_bytes: usize,
    /// The rows that sources have passed so far, each as often as it was passed.
    rows: u64,
    /// The number of rows at which the interrupt is looked at, or the rows are too many.
    next_check: u64,
    /// The number of rows that are not to be exceeded.
    rows_max: u64,
}

impl Default for ExecState {
    fn default() -> ExecState {
        ExecState {
            slots: Vec::new(),
            subqueries: HashMap::new(),
            lists: HashMap::new(),
            tables: HashMap::new(),
            virtual_rows: HashMap::new(),
            passing_bytes: 0,
            kept_bytes: 0,
            long_bytes: 0,
            rows: 0,
            next_check: ROWS_BETWEEN_CHECKS,
            rows_max: u64::MAX,
        }
    }
}

impl<'a> ExecContext<'a> {
    /// A context for one statement.
    pub fn new(txn: &'a mut Transaction, params: &'a [Datum], types: &'a Context<'a>) -> ExecContext<'a> {
        let (rows_done, tally, state) = Default::default();
        ExecContext {
            txn,
            params,
            types,
            memory_bytes_max: MEMORY_BYTES_MAX,
            memory: None,
            semantic_locks: false,
            rows_done,
            tally,
            cursors: &(),
            statement: 0,
            measures: Measures::default(),
            state,
        }
    }

    /// The located key of the row of a table that a cursor is on, as [`Cursors::current_row`] returns it.
    pub(super) fn current_row(&mut self, cursor: &str, table: &Table) -> Result<Option<Vec<u8>>> {
        // Another run would not have the cursor.
        self.txn.log_by_value();
        self.cursors.current_row(cursor, table)
    }

    pub(super) fn slot(&self, slot: usize) -> &Datum {
        self.state.slots.get(slot).unwrap_or(&Datum::Null)
    }

    pub(super) fn set_slot(&mut self, slot: usize, value: Datum) {
        if self.state.slots.len() <= slot {
            self.state.slots.resize(slot + 1, Datum::Null);
        }
        self.state.slots[slot] = value;
    }

    /// Called for every row: looks at the interrupt now and then.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.tick_rows(1)
    }

    /// Called for rows, as [`ExecContext::tick`] for each.
    pub(super) fn tick_rows(&mut self, rows: usize) -> Result<()> {
        self.state.rows += rows as u64;
        if self.state.rows < self.state.next_check {
            return Ok(());
        }
        self.check()
    }

    fn check(&mut self) -> Result<()> {
        if self.state.rows > self.state.rows_max {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many rows are read"));
        }
        self.state.next_check =
            (self.state.rows + ROWS_BETWEEN_CHECKS).min(self.state.rows_max.saturating_add(1));
        match &self.txn.options().interrupt {
            Some(interrupt) => Ok(interrupt.check()?),
            None => Ok(()),
        }
    }

    /// The rows that sources have passed so far, each as often as it was passed.
    pub(super) fn rows(&self) -> u64 {
        self.state.rows
    }

    /// Returns what `run` returns; none if sources would pass more than so many rows for it.
    pub(super) fn within<R>(
        &mut self,
        rows: u64,
        run: impl FnOnce(&mut ExecContext<'a>) -> Result<R>,
    ) -> Result<Option<R>> {
        let before = self.state.rows_max;
        let rows_max = self.state.rows.saturating_add(rows).min(before);
        (self.state.rows_max, self.state.next_check) =
            (rows_max, self.state.next_check.min(rows_max.saturating_add(1)));
        let result = run(self);
        self.state.rows_max = before;
        match result {
            // The first row too many ends it, and nothing is read after that.
            Err(_) if self.state.rows > rows_max && rows_max < before => Ok(None),
            result => result.map(Some),
        }
    }

    /// Notes that a row is done.
    pub fn row_done(&self) {
        self.rows_done.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of accesses to a relation.
    pub fn accesses(&mut self, relation: Counted) -> &mut Accesses {
        self.tally.on(relation)
    }

    /// Takes memory for what a source holds; [`ExecContext::release`] gives it back.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.state.passing_bytes += bytes;
        let taken = self.state.passing_bytes.saturating_add(self.state.kept_bytes);
        if taken > self.memory_bytes_max {
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(format!(
                "The statement's sorts and hashes would take more than {} MiB.",
                self.memory_bytes_max >> 20
            )));
        }
        self.hold()
    }

    /// Takes memory for a long value of a row on its way; [`ExecContext::release_long`] gives it back. It counts as the
    /// session's, and not as that of the statement's sorts and hashes.
    pub(super) fn reserve_long(&mut self, bytes: usize) -> Result<()> {
        self.state.long_bytes += bytes;
        self.hold()
    }

    /// Gives back what [`ExecContext::reserve_long`] took.
    pub(super) fn release_long(&mut self, bytes: usize) {
        self.state.long_bytes = self.state.long_bytes.saturating_sub(bytes);
    }

    /// Takes from the session's account what is reserved.
    fn hold(&mut self) -> Result<()> {
        let state = &self.state;
        let taken = state.passing_bytes.saturating_add(state.kept_bytes).saturating_add(state.long_bytes);
        match &mut self.memory {
            Some(held) if taken > held.bytes() => held.set(taken.next_multiple_of(HELD_PIECE_BYTES)),
            _ => Ok(()),
        }
    }

    /// Returns the memory that sources hold.
    pub(super) fn reserved(&self) -> Reserved {
        Reserved { passing_bytes: self.state.passing_bytes, long_bytes: self.state.long_bytes }
    }

    /// Gives back what [`ExecContext::reserve`] took.
    pub(super) fn release(&mut self, bytes: usize) {
        self.state.passing_bytes = self.state.passing_bytes.saturating_sub(bytes);
    }

    /// Gives back the memory taken since `before` was taken, by sources that go now.
    pub(super) fn release_since(&mut self, before: Reserved) {
        self.state.passing_bytes = self.state.passing_bytes.min(before.passing_bytes);
        self.state.long_bytes = self.state.long_bytes.min(before.long_bytes);
    }

    /// Counts the memory taken since `before` was taken as kept: it is for something that stays in the execution's
    /// state, whichever source asked for it. Returns how much that is, for [`ExecContext::release_kept`].
    pub(super) fn keep_since(&mut self, before: Reserved) -> usize {
        let bytes = self.state.passing_bytes.saturating_sub(before.passing_bytes);
        self.state.passing_bytes -= bytes;
        self.state.kept_bytes += bytes;
        bytes
    }

    /// Gives back what [`ExecContext::keep_since`] counted.
    pub(super) fn release_kept(&mut self, bytes: usize) {
        self.state.kept_bytes = self.state.kept_bytes.saturating_sub(bytes);
    }
}

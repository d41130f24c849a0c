//! Aggregates over frames.
//!
//! The state of an aggregate follows the frame from row to row: rows that the frame reaches are fed to it, and rows that
//! it leaves are taken back where the aggregate can. Otherwise it begins anew with the rows of the frame.

use std::{collections::VecDeque, ops::Range};

use super::{
    super::{
        context::{ExecContext, row_bytes},
        eval_all,
        join::OptionalCondition,
        plan::WindowCall,
    },
    Entry,
    frame::FrameRows,
};
use crate::{
    Result,
    functions::{Accumulator, AggregateRef},
    types::{Datum, Row},
};

/// Bytes that a kept row of arguments takes beside its own.
const KEPT_BYTES: usize = 32;

/// An aggregate over the frames of a partition's rows.
pub struct Running<'p> {
    call: &'p WindowCall,
    aggregate: &'p AggregateRef,
    part: &'p [Entry],
    accumulator: Box<dyn Accumulator>,
    /// Bytes of the accumulator's memory that are counted.
    counted: usize,
    /// The rows that the accumulator holds.
    held: Range<usize>,
    /// The arguments of rows from `kept_from` on, none for those that FILTER leaves out; not kept if all frames begin
    /// with the partition and leave nothing out.
    kept: Option<VecDeque<Option<Row>>>,
    kept_from: usize,
    /// The frame of the row before, and the value over it.
    before: Option<(FrameRows, Datum)>,
}

impl<'p> Running<'p> {
    pub fn new(call: &'p WindowCall, aggregate: &'p AggregateRef, part: &'p [Entry]) -> Running<'p> {
        Running {
            call,
            aggregate,
            part,
            accumulator: aggregate.accumulator(),
            counted: 0,
            held: 0..0,
            kept: (!call.frame.only_grows()).then(VecDeque::new),
            kept_from: 0,
            before: None,
        }
    }

    /// The value over a frame, which begins and ends no earlier than those before.
    pub fn value(&mut self, frame: FrameRows, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        if let Some((before, value)) = &self.before
            && *before == frame
        {
            return Ok(value.clone());
        }
        let value = match frame.hole.is_empty() || self.accumulator.takes_back() {
            true => self.follow(&frame, ctx)?,
            false => None,
        };
        let value = match value {
            Some(value) => value,
            None => self.anew(&frame, ctx)?,
        };
        self.before = Some((frame, value.clone()));
        Ok(value)
    }

    /// Gives back the memory that it took.
    pub fn end(mut self, ctx: &mut ExecContext<'_>) {
        self.restart(self.part.len(), ctx);
    }

    /// The value over a frame by the state of the frame before; none if what is left out cannot be taken back.
    fn follow(&mut self, frame: &FrameRows, ctx: &mut ExecContext<'_>) -> Result<Option<Datum>> {
        if !self.leave(self.held.start..frame.start, ctx)? {
            self.restart(frame.start, ctx);
        }
        for row in self.held.end.max(frame.start)..frame.end {
            self.feed(row, ctx)?;
            self.held.end = row + 1;
        }
        for row in frame.left_out() {
            if !self.take_back(row, ctx)? {
                return Ok(None);
            }
        }
        let value = self.accumulator.finish()?;
        for row in frame.left_out() {
            self.feed(row, ctx)?;
        }
        Ok(Some(value))
    }

    /// The value over a frame, computed from its rows.
    fn anew(&mut self, frame: &FrameRows, ctx: &mut ExecContext<'_>) -> Result<Datum> {
        self.restart(frame.start, ctx);
        for row in frame.rows() {
            self.feed(row, ctx)?;
        }
        let value = self.accumulator.finish()?;
        self.restart(frame.start, ctx);
        Ok(value)
    }

    /// Takes the first rows back; false if that cannot be, or would take longer than to begin anew.
    fn leave(&mut self, rows: Range<usize>, ctx: &mut ExecContext<'_>) -> Result<bool> {
        if rows.is_empty() {
            return Ok(true);
        }
        if rows.end >= self.held.end || rows.len() > self.held.end - rows.end {
            return Ok(false);
        }
        for row in rows {
            if !self.take_back(row, ctx)? {
                return Ok(false);
            }
            self.held.start = row + 1;
        }
        self.forget_before(self.held.start, ctx);
        Ok(true)
    }

    fn restart(&mut self, start: usize, ctx: &mut ExecContext<'_>) {
        self.accumulator = self.aggregate.accumulator();
        ctx.release(std::mem::take(&mut self.counted));
        self.held = start..start;
        self.forget_before(start, ctx);
    }

    fn forget_before(&mut self, start: usize, ctx: &mut ExecContext<'_>) {
        let Some(kept) = &mut self.kept else { return };
        while self.kept_from < start {
            if let Some(row) = kept.pop_front() {
                ctx.release(KEPT_BYTES + row.as_ref().map_or(0, |row| row_bytes(row)));
            }
            self.kept_from += 1;
        }
    }

    fn feed(&mut self, row: usize, ctx: &mut ExecContext<'_>) -> Result<()> {
        ctx.tick()?;
        self.keep_up_to(row, ctx)?;
        match &self.kept {
            Some(kept) => {
                if let Some(Some(args)) = kept.get(row - self.kept_from) {
                    self.accumulator.step(args)?;
                }
            }
            None => {
                if let Some(args) = arguments(self.call, &self.part[row].row, ctx)? {
                    self.accumulator.step(&args)?;
                }
            }
        }
        let bytes = self.accumulator.bytes();
        if bytes > self.counted {
            ctx.reserve(bytes - self.counted)?;
            self.counted = bytes;
        }
        Ok(())
    }

    fn take_back(&mut self, row: usize, ctx: &mut ExecContext<'_>) -> Result<bool> {
        ctx.tick()?;
        match self.kept.as_ref().and_then(|kept| kept.get(row - self.kept_from)) {
            Some(Some(args)) => self.accumulator.take_back(args),
            Some(None) => Ok(true),
            None => Ok(false),
        }
    }

    /// Evaluates the arguments of the rows up to this one, if they are kept.
    fn keep_up_to(&mut self, row: usize, ctx: &mut ExecContext<'_>) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        while self.kept_from + kept.len() <= row {
            let args = arguments(self.call, &self.part[self.kept_from + kept.len()].row, ctx)?;
            ctx.reserve(KEPT_BYTES + args.as_ref().map_or(0, |args| row_bytes(args)))?;
            kept.push_back(args);
        }
        Ok(())
    }
}

/// The arguments of a row; none if FILTER leaves it out.
fn arguments(call: &WindowCall, row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
    match call.filter.as_ref().is_none_or_true(row, ctx)? {
        true => eval_all(&call.args, row, ctx).map(Some),
        false => Ok(None),
    }
}

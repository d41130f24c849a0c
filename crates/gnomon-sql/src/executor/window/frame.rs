//! The rows of frames.

use std::ops::Range;

use super::{super::context::ExecContext, Entry};
use crate::{
    Result, SqlError, SqlState,
    executor::plan::{Frame, FrameBound, FrameExclusion, FrameMode, SortKey},
    functions::Limit,
    types::Datum,
};

/// The rows of a row's frame: those from `start` to `end` but for those of `hole`, of which `kept` stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRows {
    pub start: usize,
    pub end: usize,
    pub hole: Range<usize>,
    pub kept: Option<usize>,
}

impl FrameRows {
    fn new(rows: Range<usize>, hole: Range<usize>, kept: Option<usize>) -> FrameRows {
        let (start, end) = (rows.start, rows.end.max(rows.start));
        let clipped = hole.start.clamp(start, end)..hole.end.clamp(start, end);
        let hole = if clipped.is_empty() { start..start } else { clipped };
        FrameRows { start, end, kept: kept.filter(|kept| hole.contains(kept)), hole }
    }

    /// Its rows, in their order, as ranges.
    fn parts(&self) -> [Range<usize>; 3] {
        let kept = self.kept.map_or(self.hole.start..self.hole.start, |kept| kept..kept + 1);
        [self.start..self.hole.start, kept, self.hole.end..self.end]
    }

    /// Its rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        self.parts().into_iter().flatten()
    }

    /// The rows that are left out.
    pub fn left_out(&self) -> impl Iterator<Item = usize> + use<> {
        let kept = self.kept;
        self.hole.clone().filter(move |row| Some(*row) != kept)
    }

    /// The row with this number, counted from 0.
    pub fn nth(&self, mut number: usize) -> Option<usize> {
        for part in self.parts() {
            if number < part.len() {
                return Some(part.start + number);
            }
            number -= part.len();
        }
        None
    }

    /// Its last row.
    pub fn last(&self) -> Option<usize> {
        self.parts().into_iter().rev().find_map(|part| part.last())
    }
}

/// Returns a frame with the values of its offsets.
///
/// # Errors
/// 22004 and 22013 for an offset that is NULL or negative.
pub fn with_values(frame: &Frame, ctx: &mut ExecContext<'_>) -> Result<Frame<Datum>> {
    let mut value = |bound: &FrameBound, end: &str| {
        bound.try_map(|offset| {
            let value = offset.eval(&[], ctx)?;
            let wrong = |state, problem: &str| {
                Err(SqlError::new(state, format!("frame {end} offset must not be {problem}")))
            };
            match value {
                Datum::Null => wrong(SqlState("22004"), "null"),
                Datum::Int8(n) if n < 0 && frame.mode != FrameMode::Range => {
                    wrong(SqlState("22013"), "negative")
                }
                value => Ok(value),
            }
        })
    };
    let (start, end) = (value(&frame.start, "starting")?, value(&frame.end, "ending")?);
    Ok(Frame { mode: frame.mode, start, end, exclusion: frame.exclusion })
}

/// Finds the frames of a partition's rows, one after the other.
pub struct FrameFinder<'p> {
    frame: &'p Frame<Datum>,
    part: &'p [Entry],
    peers: &'p [Range<usize>],
    /// The window's key, if distances count.
    key: Option<&'p SortKey>,
    /// Ends of the frame of the row before, in a frame of distances. Those of later rows are not before them.
    head: usize,
    tail: usize,
}

impl<'p> FrameFinder<'p> {
    pub fn new(
        frame: &'p Frame<Datum>,
        part: &'p [Entry],
        peers: &'p [Range<usize>],
        order_by: &'p [SortKey],
    ) -> FrameFinder<'p> {
        FrameFinder { frame, part, peers, key: order_by.first(), head: 0, tail: 0 }
    }

    /// The frame of a row in the group of peers of this number.
    pub fn find(&mut self, row: usize, group: usize, ctx: &mut ExecContext<'_>) -> Result<FrameRows> {
        let start = self.start(row, group, ctx)?;
        let end = self.end(row, group, ctx)?;
        let peers = self.peers[group].clone();
        let (hole, kept) = match self.frame.exclusion {
            FrameExclusion::NoOthers => (row..row, None),
            FrameExclusion::CurrentRow => (row..row + 1, None),
            FrameExclusion::Group => (peers, None),
            FrameExclusion::Ties => (peers, Some(row)),
        };
        Ok(FrameRows::new(start..end, hole, kept))
    }

    fn start(&mut self, row: usize, group: usize, ctx: &mut ExecContext<'_>) -> Result<usize> {
        use FrameBound as B;
        use FrameMode as M;
        let length = self.part.len();
        let group_start = |group: usize| self.peers.get(group).map_or(length, |peers| peers.start);
        Ok(match (&self.frame.start, self.frame.mode) {
            (B::UnboundedPreceding, _) => 0,
            (B::UnboundedFollowing, _) => length,
            (B::CurrentRow, M::Rows) => row,
            (B::CurrentRow, _) => group_start(group),
            (B::Preceding(offset), M::Rows) => row.saturating_sub(count(offset)),
            (B::Following(offset), M::Rows) => row.saturating_add(count(offset)).min(length),
            (B::Preceding(offset), M::Groups) => group_start(group.saturating_sub(count(offset))),
            (B::Following(offset), M::Groups) => group_start(group.saturating_add(count(offset))),
            (bound, M::Range) => {
                while self.head < length && !self.reaches(bound, self.head, row, false, ctx)? {
                    self.head += 1;
                }
                self.head
            }
        })
    }

    fn end(&mut self, row: usize, group: usize, ctx: &mut ExecContext<'_>) -> Result<usize> {
        use FrameBound as B;
        use FrameMode as M;
        let length = self.part.len();
        let group_end = |group: usize| self.peers.get(group).map_or(length, |peers| peers.end);
        Ok(match (&self.frame.end, self.frame.mode) {
            (B::UnboundedPreceding, _) => 0,
            (B::UnboundedFollowing, _) => length,
            (B::CurrentRow, M::Rows) => row + 1,
            (B::CurrentRow, _) => group_end(group),
            (B::Preceding(offset), M::Rows) => (row + 1).saturating_sub(count(offset)),
            (B::Following(offset), M::Rows) => (row + 1).saturating_add(count(offset)).min(length),
            (B::Preceding(offset), M::Groups) => group.checked_sub(count(offset)).map_or(0, group_end),
            (B::Following(offset), M::Groups) => group_end(group.saturating_add(count(offset))),
            (bound, M::Range) => {
                while self.tail < length && self.reaches(bound, self.tail, row, true, ctx)? {
                    self.tail += 1;
                }
                self.tail
            }
        })
    }

    /// True if a row is at the bound of another row's frame or after it; with `is_end`, if it is at it or before it.
    fn reaches(
        &self,
        bound: &FrameBound<Datum>,
        candidate: usize,
        row: usize,
        is_end: bool,
        ctx: &ExecContext<'_>,
    ) -> Result<bool> {
        let (Some(key), Some(offset)) = (self.key, bound.offset()) else { return Ok(true) };
        let (value, base) = (&self.part[candidate].key, &self.part[row].key);
        match (value.is_null(), base.is_null()) {
            (false, false) => Limit {
                base,
                offset,
                subtract: matches!(bound, FrameBound::Preceding(_)) != key.descending,
                up_to: is_end != key.descending,
            }
            .admits(value, ctx.types),
            // NULLs are peers, at no distance from each other and endlessly far from others.
            (true, true) => Ok(true),
            (value_is_null, _) => {
                let is_before = value_is_null == key.nulls_first;
                Ok(is_before == is_end)
            }
        }
    }
}

/// The number of rows or groups that an offset says.
fn count(offset: &Datum) -> usize {
    match offset {
        Datum::Int8(n) => usize::try_from(*n).unwrap_or(0),
        _ => 0,
    }
}

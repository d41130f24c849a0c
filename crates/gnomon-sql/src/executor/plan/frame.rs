//! Frames of windows: the rows of its partition that a row's call of a window function sees.

use super::Expr;

/// A frame, with its offsets as expressions, or with their values.
#[derive(Clone, Debug)]
pub struct Frame<T = Expr> {
    /// The unit of its bounds.
    pub mode: FrameMode,
    /// Where it begins.
    pub start: FrameBound<T>,
    /// Where it ends.
    pub end: FrameBound<T>,
    /// The rows in it that it leaves out.
    pub exclusion: FrameExclusion,
}

/// The unit of a frame's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameMode {
    /// Rows.
    Rows,
    /// Values of the one key of ORDER BY.
    Range,
    /// Groups of peers.
    Groups,
}

/// An end of a frame. CURRENT ROW stands for the row's first or last peer, but with ROWS.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as their words")]
pub enum FrameBound<T = Expr> {
    UnboundedPreceding,
    Preceding(T),
    CurrentRow,
    Following(T),
    UnboundedFollowing,
}

/// The rows that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    /// None.
    NoOthers,
    /// The current row.
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl FrameMode {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            FrameMode::Rows => "ROWS",
            FrameMode::Range => "RANGE",
            FrameMode::Groups => "GROUPS",
        }
    }
}

impl<T> Frame<T> {
    /// The frame of a window that names none: from its partition's start to the row's last peer.
    pub fn implied() -> Frame<T> {
        Frame {
            mode: FrameMode::Range,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
            exclusion: FrameExclusion::NoOthers,
        }
    }

    /// True if another frame differs by the values of its offsets at most.
    pub fn same_form(&self, other: &Frame<T>) -> bool {
        let same_bound =
            |a: &FrameBound<T>, b: &FrameBound<T>| std::mem::discriminant(a) == std::mem::discriminant(b);
        self.mode == other.mode
            && self.exclusion == other.exclusion
            && same_bound(&self.start, &other.start)
            && same_bound(&self.end, &other.end)
    }

    /// The offsets of its bounds.
    pub fn offsets(&self) -> impl Iterator<Item = &T> {
        self.start.offset().into_iter().chain(self.end.offset())
    }

    /// The offsets of its bounds, to be changed.
    pub fn offsets_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.start, &mut self.end].into_iter().filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        })
    }

    /// True if the frame of a row has all rows of the frames of the rows before.
    pub fn only_grows(&self) -> bool {
        matches!(self.start, FrameBound::UnboundedPreceding) && self.exclusion == FrameExclusion::NoOthers
    }

    /// True if it depends on distances between values of the window's key.
    pub fn measures_values(&self) -> bool {
        self.mode == FrameMode::Range && self.offsets().next().is_some()
    }
}

impl<T> FrameBound<T> {
    /// Its offset, if it has one.
    pub fn offset(&self) -> Option<&T> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        }
    }

    /// The bound with its offset made into something else.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn try_map<U, E>(&self, make: impl FnOnce(&T) -> Result<U, E>) -> Result<FrameBound<U>, E> {
        Ok(match self {
            FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
            FrameBound::Preceding(offset) => FrameBound::Preceding(make(offset)?),
            FrameBound::CurrentRow => FrameBound::CurrentRow,
            FrameBound::Following(offset) => FrameBound::Following(make(offset)?),
            FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
        })
    }
}

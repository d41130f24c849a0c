//! Windows, and ORDER BY.

use super::{Parser, name};
use crate::{
    Position,
    ast::{Frame, FrameBound, FrameExclusion, FrameMode, SortBy, SortDirection, WindowDefinition},
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
};

/// ORDER BY, if it is there.
pub(super) fn optional_order_by(p: &mut Parser<'_, '_>) -> Result<Vec<SortBy>> {
    if p.is(K::Order) { order_by(p) } else { Ok(Vec::new()) }
}

pub(super) fn order_by(p: &mut Parser<'_, '_>) -> Result<Vec<SortBy>> {
    p.expect_all(&[K::Order, K::By])?;
    p.list(|p| {
        let value = p.expr()?;
        let direction = match p.keyword() {
            Some(K::Using) => {
                p.bump();
                SortDirection::Using(match p.is(K::Operator) {
                    true => name::operator_call(p)?,
                    false => name::symbol(p)?,
                })
            }
            _ => direction(p),
        };
        Ok(SortBy { value, direction, is_nulls_first: nulls_order(p)? })
    })
}

pub(super) fn direction(p: &mut Parser<'_, '_>) -> SortDirection {
    if p.take(K::Asc) {
        SortDirection::Ascending
    } else if p.take(K::Desc) {
        SortDirection::Descending
    } else {
        SortDirection::Default
    }
}

pub(super) fn nulls_order(p: &mut Parser<'_, '_>) -> Result<Option<bool>> {
    if !p.is(K::Nulls) || !matches!(p.keyword_at(1), Some(K::First | K::Last)) {
        return Ok(None);
    }
    p.bump();
    Ok(Some(p.bump().keyword() == Some(K::First)))
}

/// A window in parentheses (window_specification).
pub(super) fn window(p: &mut Parser<'_, '_>) -> Result<WindowDefinition> {
    let position = p.expect_char('(')?.position();
    // These words begin a clause, though they may be names.
    let is_clause = matches!(p.keyword(), Some(K::Partition | K::Range | K::Rows | K::Groups));
    let base = if !is_clause && p.is_name_at(0) { Some(p.name()?) } else { None };
    let mut partition_by = Vec::new();
    if p.take(K::Partition) {
        p.expect(K::By)?;
        partition_by = p.exprs()?;
    }
    let order_by = optional_order_by(p)?;
    let mode = match p.keyword() {
        Some(K::Range) => Some(FrameMode::Range),
        Some(K::Rows) => Some(FrameMode::Rows),
        Some(K::Groups) => Some(FrameMode::Groups),
        _ => None,
    };
    let frame = match mode {
        Some(mode) => {
            p.bump();
            Some(Box::new(frame(p, mode)?))
        }
        None => None,
    };
    p.expect_char(')')?;
    Ok(WindowDefinition { name: None, base, partition_by, order_by, frame, position })
}

fn frame(p: &mut Parser<'_, '_>, mode: FrameMode) -> Result<Frame> {
    let has_end = p.take(K::Between);
    let at = p.position();
    let start = frame_bound(p)?;
    let wrong = |message: &str, at: Position| Error::new(ErrorKind::InvalidWindow, message, at);
    let mut end = FrameBound::CurrentRow;
    if has_end {
        p.expect(K::And)?;
        let end_at = p.position();
        end = frame_bound(p)?;
        use FrameBound as B;
        match (&start, &end) {
            (B::UnboundedFollowing, _) => {
                return Err(wrong("frame start cannot be UNBOUNDED FOLLOWING", at));
            }
            (_, B::UnboundedPreceding) => {
                return Err(wrong("frame end cannot be UNBOUNDED PRECEDING", end_at));
            }
            (B::CurrentRow, B::Preceding(_)) => {
                return Err(wrong("frame starting from current row cannot have preceding rows", end_at));
            }
            (B::Following(_), B::Preceding(_) | B::CurrentRow) => {
                return Err(wrong("frame starting from following row cannot have preceding rows", end_at));
            }
            _ => {}
        }
    } else {
        match start {
            FrameBound::UnboundedFollowing => {
                return Err(wrong("frame start cannot be UNBOUNDED FOLLOWING", at));
            }
            FrameBound::Following(_) => {
                return Err(wrong("frame starting from following row cannot end with current row", at));
            }
            _ => {}
        }
    }
    let mut exclusion = FrameExclusion::NoOthers;
    if p.take(K::Exclude) {
        exclusion = match p.keyword() {
            Some(K::Current) => {
                p.bump();
                p.expect(K::Row)?;
                return Ok(Frame { mode, start, end, has_end, exclusion: FrameExclusion::CurrentRow });
            }
            Some(K::Group) => FrameExclusion::Group,
            Some(K::Ties) => FrameExclusion::Ties,
            Some(K::No) => {
                p.bump();
                p.expect(K::Others)?;
                return Ok(Frame { mode, start, end, has_end, exclusion });
            }
            _ => return p.fail(),
        };
        p.bump();
    }
    Ok(Frame { mode, start, end, has_end, exclusion })
}

fn frame_bound(p: &mut Parser<'_, '_>) -> Result<FrameBound> {
    if p.is(K::Unbounded) && matches!(p.keyword_at(1), Some(K::Preceding | K::Following)) {
        p.bump();
        return Ok(match p.bump().keyword() {
            Some(K::Preceding) => FrameBound::UnboundedPreceding,
            _ => FrameBound::UnboundedFollowing,
        });
    }
    if p.is(K::Current) && p.is_at(1, K::Row) {
        p.bump();
        p.bump();
        return Ok(FrameBound::CurrentRow);
    }
    let offset = p.nested(Parser::expr)?;
    match p.keyword() {
        Some(K::Preceding) => {
            p.bump();
            Ok(FrameBound::Preceding(offset))
        }
        Some(K::Following) => {
            p.bump();
            Ok(FrameBound::Following(offset))
        }
        _ => p.fail(),
    }
}

//! Frames of windows.

use gnomon_parser::{Position, ast};

use super::{ExpressionBinder, window::refused};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        scope::{Clause, Place},
        typing::type_name,
    },
    executor::{
        Expr,
        plan::{Frame, FrameBound, FrameExclusion, FrameMode, SortKey},
    },
    functions::offset_types,
    types::{
        Type,
        cast::{CastContext, cast_context},
    },
};

impl ExpressionBinder<'_, '_> {
    /// Binds the frame of a window that is defined at `position`.
    pub(super) fn bind_frame(
        &mut self,
        frame: &ast::Frame,
        order_by: &[SortKey],
        position: Position,
        place: Place<'_>,
    ) -> Result<Frame> {
        let mode = mode_of(frame.mode);
        let has_offset = [&frame.start, &frame.end]
            .iter()
            .any(|bound| matches!(bound, ast::FrameBound::Preceding(_) | ast::FrameBound::Following(_)));
        let key = match (mode, order_by) {
            (FrameMode::Range, [key]) => key.expr.ty.ty,
            (FrameMode::Range, _) if has_offset => {
                let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                return Err(refused(message.to_owned(), position));
            }
            (FrameMode::Groups, []) => {
                return Err(refused("GROUPS mode requires an ORDER BY clause".to_owned(), position));
            }
            _ => Type::Unknown,
        };
        let start = self.bind_bound(&frame.start, mode, key, place)?;
        let end = self.bind_bound(&frame.end, mode, key, place)?;
        Ok(Frame { mode, start, end, exclusion: exclusion_of(frame.exclusion) })
    }

    fn bind_bound(
        &mut self,
        bound: &ast::FrameBound,
        mode: FrameMode,
        key: Type,
        place: Place<'_>,
    ) -> Result<FrameBound> {
        let mut offset = |expr| self.bind_offset(expr, mode, key, place);
        Ok(match bound {
            ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
            ast::FrameBound::Preceding(expr) => FrameBound::Preceding(offset(expr)?),
            ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
            ast::FrameBound::Following(expr) => FrameBound::Following(offset(expr)?),
            ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
        })
    }

    fn bind_offset(
        &mut self,
        offset: &ast::Expr,
        mode: FrameMode,
        key: Type,
        place: Place<'_>,
    ) -> Result<Expr> {
        let place = Place { clause: Clause::Frame(mode), calls: None, ..place };
        let bound = self.bind(offset, place)?;
        let from = bound.ty.ty;
        let target = match mode {
            FrameMode::Range => range_offset_type(key, from).map_err(|error| at_expr(error, offset))?,
            FrameMode::Rows | FrameMode::Groups => Type::Int8,
        };
        let has_columns = bound.has_columns();
        let coerced = self.statement.typing.coerce(bound, target.into(), CastContext::Assignment);
        let coerced = coerced.map_err(|error| at_expr(error, offset))?;
        let failed = |state, problem: String| {
            at_expr(SqlError::new(state, format!("argument of {} {problem}", mode.word())), offset)
        };
        let Some(expr) = coerced else {
            let problem = format!("must be type {}, not type {}", type_name(target), type_name(from));
            return Err(failed(SqlState::DATATYPE_MISMATCH, problem));
        };
        match has_columns {
            true => Err(failed(SqlState::INVALID_COLUMN_REFERENCE, "must not contain variables".to_owned())),
            false => Ok(expr),
        }
    }
}

/// The type that an offset of RANGE becomes, for keys of a type.
fn range_offset_type(key: Type, offset: Type) -> Result<Type> {
    let wanted = if offset == Type::Unknown { key } else { offset };
    let types = offset_types(key);
    let converts = |to: Type| {
        offset == Type::Unknown
            || offset == to
            || cast_context(offset, to).is_some_and(|least| least <= CastContext::Implicit)
    };
    if types.contains(&wanted) {
        return Ok(wanted);
    }
    let fitting: Vec<Type> = types.iter().copied().filter(|ty| converts(*ty)).collect();
    let key = match key {
        Type::Varchar => "text".to_owned(),
        Type::Array(_) => "anyarray".to_owned(),
        key => type_name(key).to_string(),
    };
    let offset = type_name(offset);
    let refused = |problem: String, hint: &str| {
        let message = format!("RANGE with offset PRECEDING/FOLLOWING {problem}");
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        Err(if hint.is_empty() { error } else { error.hint(hint) })
    };
    match fitting[..] {
        [ty] => Ok(ty),
        _ if types.is_empty() => refused(format!("is not supported for column type {key}"), ""),
        [] => refused(
            format!("is not supported for column type {key} and offset type {offset}"),
            "Cast the offset value to an appropriate type.",
        ),
        _ => refused(
            format!("has multiple interpretations for column type {key} and offset type {offset}"),
            "Cast the offset value to the exact intended type.",
        ),
    }
}

fn mode_of(mode: ast::FrameMode) -> FrameMode {
    match mode {
        ast::FrameMode::Range => FrameMode::Range,
        ast::FrameMode::Rows => FrameMode::Rows,
        ast::FrameMode::Groups => FrameMode::Groups,
    }
}

fn exclusion_of(exclusion: ast::FrameExclusion) -> FrameExclusion {
    match exclusion {
        ast::FrameExclusion::NoOthers => FrameExclusion::NoOthers,
        ast::FrameExclusion::CurrentRow => FrameExclusion::CurrentRow,
        ast::FrameExclusion::Group => FrameExclusion::Group,
        ast::FrameExclusion::Ties => FrameExclusion::Ties,
    }
}

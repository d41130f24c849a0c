//! Window functions.

use sqlparser::ast::{self, WindowFrameBound, WindowFrameUnits, WindowType};

use super::ExpressionBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::{Clause, Place},
        syntax::{name_of, sort_key},
    },
    executor::{
        Expr,
        expr::ExprKind,
        plan::{SortKey, WindowCall},
    },
};

/// A window's definition, bound.
pub struct BoundWindow {
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortKey>,
    pub whole_partition: bool,
    pub rows: bool,
}

impl ExpressionBinder<'_, '_> {
    /// Binds what stands after OVER.
    pub fn bind_window(&mut self, window: &WindowType, place: Place<'_>) -> Result<BoundWindow> {
        if place.calls.is_none() {
            return Err(not_here(place.clause));
        }
        let named = |name: &ast::Ident| {
            let name = name_of(name);
            let found = place.windows.iter().find(|(other, _)| *other == name);
            found.map(|(_, spec)| *spec).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
            })
        };
        let (spec, base) = match window {
            WindowType::NamedWindow(name) => (named(name)?, None),
            WindowType::WindowSpec(spec) => (spec, spec.window_name.as_ref().map(named).transpose()?),
        };
        let partition_by = &base.unwrap_or(spec).partition_by;
        let order_by = &base.filter(|base| !base.order_by.is_empty()).unwrap_or(spec).order_by;
        let frame = &spec.window_frame;
        let place = Place { clause: Clause::Window, in_window: true, ..place };
        let mut partitions = Vec::with_capacity(partition_by.len());
        for expr in partition_by {
            let expr = self.bind(expr, place)?;
            partitions.push(self.statement.typing.known(expr)?);
        }
        let mut order = Vec::with_capacity(order_by.len());
        for item in order_by {
            let expr = self.bind(&item.expr, place)?;
            let expr = self.statement.typing.known(expr)?;
            order.push(sort_key(expr, &item.options)?);
        }
        let (whole_partition, rows) = match frame {
            None => (order.is_empty(), false),
            Some(frame) => {
                let rows = match frame.units {
                    WindowFrameUnits::Rows => true,
                    WindowFrameUnits::Range => false,
                    WindowFrameUnits::Groups => return Err(SqlError::unsupported("a frame of GROUPS")),
                };
                let from_start = matches!(frame.start_bound, WindowFrameBound::Preceding(None));
                match (from_start, &frame.end_bound) {
                    (true, Some(WindowFrameBound::Following(None))) => (true, rows),
                    (true, None | Some(WindowFrameBound::CurrentRow)) => (false, rows),
                    _ => {
                        return Err(SqlError::unsupported(
                            "a window frame that does not begin at its partition's start",
                        ));
                    }
                }
            }
        };
        Ok(BoundWindow { partition_by: partitions, order_by: order, whole_partition, rows })
    }
}

/// Adds a window call to its level; the expression that stands for its value.
pub fn add_window_call(call: WindowCall, place: Place<'_>) -> Result<Expr> {
    let Some(calls) = place.calls else { return Err(not_here(place.clause)) };
    if place.in_window {
        return Err(SqlError::new(SqlState("42P20"), "window function calls cannot be nested"));
    }
    if place.in_aggregate {
        return Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            "aggregate function calls cannot contain window function calls",
        ));
    }
    if !matches!(place.clause, Clause::Select | Clause::OrderBy) {
        return Err(not_here(place.clause));
    }
    let ty = call.ty;
    let mut calls = calls.borrow_mut();
    calls.windows.push(call);
    Ok(Expr { kind: ExprKind::Window(calls.windows.len() - 1), ty })
}

fn not_here(clause: Clause) -> SqlError {
    SqlError::new(SqlState("42P20"), format!("window functions are not allowed in {}", clause.name()))
}

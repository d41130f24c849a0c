//! Window functions.

use gnomon_parser::{
    Position,
    ast::{self, Ident, Over, SortBy, WindowDefinition},
};

use super::ExpressionBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::scope::{Clause, NamedWindow, Place},
    executor::{
        Expr,
        expr::ExprKind,
        plan::{Frame, SortKey, WindowCall},
    },
};

/// A window's definition, bound.
pub struct BoundWindow {
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortKey>,
    pub frame: Frame,
}

/// A window's clauses, with those that it takes from others.
#[derive(Clone, Copy)]
struct Clauses<'q> {
    partition_by: &'q [ast::Expr],
    order_by: &'q [SortBy],
    frame: Option<&'q ast::Frame>,
    /// Where the window is defined.
    position: Position,
}

impl ExpressionBinder<'_, '_> {
    /// Binds what stands after OVER.
    pub fn bind_window(&mut self, over: &Over, place: Place<'_>) -> Result<BoundWindow> {
        if place.calls.is_none() {
            return Err(not_here(place.clause));
        }
        let clauses = match over {
            Over::Name(name) => named(name, name.position, place.windows)?,
            Over::Window(window) => clauses_of(window, place.windows)?,
        };
        let place = Place { clause: Clause::Window, in_window: false, ..place };
        let mut partition_by = Vec::with_capacity(clauses.partition_by.len());
        for expr in clauses.partition_by {
            let expr = self.bind(expr, place)?;
            partition_by.push(self.statement.typing.known(expr)?);
        }
        let mut order_by = Vec::with_capacity(clauses.order_by.len());
        for item in clauses.order_by {
            let expr = self.bind(&item.value, place)?;
            let expr = self.statement.typing.known(expr)?;
            order_by.push(self.statement.typing.sort_key(expr, item)?);
        }
        let frame = match clauses.frame {
            Some(frame) => self.bind_frame(frame, &order_by, clauses.position, place)?,
            None => Frame::implied(),
        };
        Ok(BoundWindow { partition_by, order_by, frame })
    }
}

pub(super) fn refused(message: String, position: Position) -> SqlError {
    SqlError::new(SqlState("42P20"), message).at(position)
}

/// The clauses of the window of this name.
fn named<'q>(name: &Ident, position: Position, windows: &[NamedWindow<'q>]) -> Result<Clauses<'q>> {
    let Some(at) = windows.iter().position(|(other, _)| **other == *name.name) else {
        let message = format!("window \"{}\" does not exist", name.name);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position));
    };
    // A window is made from one before it only.
    clauses_of(windows[at].1, &windows[..at])
}

/// The clauses of a window, with those of the window that it is made from.
fn clauses_of<'q>(window: &'q WindowDefinition, windows: &[NamedWindow<'q>]) -> Result<Clauses<'q>> {
    let own = Clauses {
        partition_by: &window.partition_by,
        order_by: &window.order_by,
        frame: window.frame.as_deref(),
        position: window.position,
    };
    let Some(name) = &window.base else { return Ok(own) };
    let base = named(name, window.position, windows)?;
    let cannot = |what: &str| refused(format!("cannot {what} \"{}\"", name.name), window.position);
    if !own.partition_by.is_empty() {
        return Err(cannot("override PARTITION BY clause of window"));
    }
    if !own.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(cannot("override ORDER BY clause of window"));
    }
    if base.frame.is_some() {
        let message = format!("cannot copy window \"{}\" because it has a frame clause", name.name);
        let error = refused(message, window.position);
        let is_only_name = window.name.is_none() && own.order_by.is_empty() && own.frame.is_none();
        return Err(match is_only_name {
            true => error.hint("Omit the parentheses in this OVER clause."),
            false => error,
        });
    }
    let order_by = if own.order_by.is_empty() { base.order_by } else { own.order_by };
    Ok(Clauses { partition_by: base.partition_by, order_by, ..own })
}

/// Adds a window call to its level; the expression that stands for its value.
pub fn add_window_call(call: WindowCall, place: Place<'_>) -> Result<Expr> {
    let Some(calls) = place.calls else { return Err(not_here(place.clause)) };
    if matches!(place.clause, Clause::Filter | Clause::Window) {
        return Err(not_here(place.clause));
    }
    if place.in_window {
        return Err(SqlError::new(SqlState("42P20"), "window function calls cannot be nested"));
    }
    if place.in_aggregate && place.clause != Clause::Filter {
        return Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            "aggregate function calls cannot contain window function calls",
        ));
    }
    if !matches!(place.clause, Clause::Select | Clause::OrderBy) {
        return Err(not_here(place.clause));
    }
    let ty = call.ty;
    let windows = &mut calls.borrow_mut().windows;
    let number = windows.iter().position(|other| other.same(&call)).unwrap_or_else(|| {
        windows.push(call);
        windows.len() - 1
    });
    Ok(Expr { kind: ExprKind::Window(number), ty })
}

fn not_here(clause: Clause) -> SqlError {
    let clause = clause.of_frame().name();
    SqlError::new(SqlState("42P20"), format!("window functions are not allowed in {clause}"))
}

//! Window functions.

use sqlparser::ast::{self, WindowFrameBound, WindowFrameUnits, WindowType};

use super::{Binder, Clause, Place, name_of, query::sort_key};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::ExprKind,
        plan::{SortKey, WindowCall, WindowFunction},
    },
    functions::undetermined,
    types::{Datum, Type},
};

/// A window's definition, bound.
pub(super) struct BoundWindow {
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortKey>,
    pub whole_partition: bool,
    pub rows: bool,
}

impl Binder<'_> {
    /// Binds what stands after OVER.
    pub(super) fn bind_window(&mut self, window: &WindowType, place: Place<'_>) -> Result<BoundWindow> {
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
            partitions.push(self.known(expr)?);
        }
        let mut order = Vec::with_capacity(order_by.len());
        for item in order_by {
            let expr = self.bind(&item.expr, place)?;
            let expr = self.known(expr)?;
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

    /// The window function of this name, if there is one, with its arguments and the type of its value.
    pub(super) fn window_function(
        &mut self,
        name: &str,
        mut args: Vec<Expr>,
    ) -> Result<Option<(WindowFunction, Vec<Expr>, Type)>> {
        use WindowFunction as F;
        let (function, arity, ty) = match name {
            "row_number" => (F::RowNumber, 0..=0, Some(Type::Int8)),
            "rank" => (F::Rank, 0..=0, Some(Type::Int8)),
            "dense_rank" => (F::DenseRank, 0..=0, Some(Type::Int8)),
            "percent_rank" => (F::PercentRank, 0..=0, Some(Type::Float8)),
            "cume_dist" => (F::CumeDist, 0..=0, Some(Type::Float8)),
            "ntile" => (F::Ntile, 1..=1, Some(Type::Int4)),
            "lag" => (F::Lag, 1..=3, None),
            "lead" => (F::Lead, 1..=3, None),
            "first_value" => (F::FirstValue, 1..=1, None),
            "last_value" => (F::LastValue, 1..=1, None),
            "nth_value" => (F::NthValue, 2..=2, None),
            _ => return Ok(None),
        };
        if !arity.contains(&args.len()) {
            return Ok(None);
        }
        // Counts are integers; the value, and the default of lag and lead, share a type.
        let count = if matches!(function, F::Ntile) { 0 } else { 1 };
        if args.len() > count {
            let arg = std::mem::replace(&mut args[count], Expr::constant(Datum::Null, Type::Int4));
            args[count] = self.explicit(arg, Type::Int4.into())?;
        }
        let ty = match ty {
            Some(ty) => ty,
            None => {
                let mut values = vec![args[0].clone()];
                values.extend(args.get(2).cloned());
                if matches!(&values[..], [value] if value.ty.ty == Type::Unknown) {
                    return Err(undetermined());
                }
                let ty = self.common_type(&values, name)?;
                for (position, value) in [0, 2].into_iter().zip(self.all_to(values, ty, name)?) {
                    args[position] = value;
                }
                ty
            }
        };
        Ok(Some((function, args, ty)))
    }

    /// Adds a window call to its level; the expression that stands for its value.
    pub(super) fn add_window_call(&mut self, call: WindowCall, place: Place<'_>) -> Result<Expr> {
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
}

fn not_here(clause: Clause) -> SqlError {
    SqlError::new(SqlState("42P20"), format!("window functions are not allowed in {}", clause.name()))
}

//! Aggregates and GROUPING: which query level they belong to.
//!
//! An aggregate belongs to the innermost level whose columns its arguments and its FILTER name, however deep within
//! subqueries it stands; one that names no column belongs to the level where it stands. So it is bound where it stands
//! first, to see which levels it names. If all of them lie further out, it is bound again at the place of the subquery
//! in the level that it belongs to, whose rules hold for it, and the subquery takes its value from there.

use gnomon_parser::ast;

use super::ExpressionBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        scope::{Clause, Place},
        typing::AggregateForm,
    },
    executor::{
        Expr,
        expr::ExprKind,
        plan::{AggregateCall, SortKey},
    },
    functions::Direct,
    types::{ColumnType, Type, cast::CastContext},
};

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::GROUPING_ERROR, message)
}

impl Place<'_> {
    /// The place, here or around, whose scope is not deeper than `depth`.
    fn at_depth(self, depth: usize) -> Self {
        let mut place = self;
        while place.scope.depth() > depth {
            match place.scope.around() {
                Some(around) => place = around,
                None => break,
            }
        }
        place
    }

    /// Refuses what may not be called here.
    fn check_aggregate(self, what: &str) -> Result<()> {
        if self.clause == Clause::Filter && !self.is_lifted || self.calls.is_none() && !self.in_aggregate {
            return Err(refused(format!("{what} are not allowed in {}", self.clause.name())));
        }
        match self.in_aggregate {
            true => Err(refused("aggregate function calls cannot be nested")),
            false => Ok(()),
        }
    }
}

impl ExpressionBinder<'_, '_> {
    /// Binds a call of an aggregate; the expression that stands for its value.
    pub fn aggregate_call(&mut self, name: &str, call: &ast::FunctionCall, place: Place<'_>) -> Result<Expr> {
        self.at_own_level(place, &mut |binder, place| {
            let bound = binder.aggregate_parts(name, call, place)?;
            Ok(move |place: Place<'_>| {
                place.check_aggregate("aggregate functions")?;
                let ty = bound.ty;
                let number = add_call(bound, place)?;
                Ok(Expr { kind: ExprKind::Aggregate(number), ty })
            })
        })
    }

    /// GROUPING(...), of expressions of GROUP BY.
    pub fn grouping_call(&mut self, args: &[ast::Expr], place: Place<'_>) -> Result<Expr> {
        if args.len() > 31 {
            return Err(SqlError::new(SqlState("54023"), "GROUPING must have fewer than 32 arguments"));
        }
        self.at_own_level(place, &mut |binder, place| {
            let inside = Place { in_aggregate: true, ..place };
            let args = args.iter().map(|arg| {
                let bound = binder.bind(arg, inside)?;
                binder.statement.typing.known(bound)
            });
            let args = args.collect::<Result<Vec<_>>>()?;
            Ok(move |place: Place<'_>| {
                place.check_aggregate("grouping operations")?;
                if let Some(calls) = place.calls {
                    calls.borrow_mut().has_grouping = true;
                }
                Ok(Expr::new(ExprKind::Grouping(args), Type::Int4))
            })
        })
    }

    /// Binds by `bind` what belongs to the innermost level that it names, and adds it there.
    fn at_own_level<F: FnOnce(Place<'_>) -> Result<Expr>>(
        &mut self,
        place: Place<'_>,
        bind: &mut dyn FnMut(&mut Self, Place<'_>) -> Result<F>,
    ) -> Result<Expr> {
        let marks = place.scope.mark();
        let around = place.scope.take_named();
        let add = bind(self, place)?;
        let home = place.scope.innermost_named().map_or(place, |depth| place.at_depth(depth));
        place.scope.add_named(&around);
        let depth = home.scope.depth();
        let value = if depth == place.scope.depth() {
            add(place)?
        } else {
            place.scope.forget_since(&marks);
            self.at_own_level(Place { is_lifted: true, ..home }, bind)?
        };
        home.scope.set_named();
        Ok(place.scope.lift(depth, value, &mut self.statement.numbers))
    }

    fn aggregate_parts(
        &mut self,
        name: &str,
        call: &ast::FunctionCall,
        place: Place<'_>,
    ) -> Result<AggregateCall> {
        if call.is_within_group {
            return self.ordered_set_parts(name, call, place);
        }
        let inside = Place { in_aggregate: true, ..place };
        let args = self.call_arguments(call, inside)?;
        let filter = self.aggregate_filter(call, inside)?;
        let distinct = call.is_distinct;
        let form = AggregateForm {
            has_star: call.has_star,
            is_distinct: distinct,
            is_ordered: !call.order_by.is_empty(),
            ..AggregateForm::default()
        };
        let typing = &mut self.statement.typing;
        let function = typing.aggregate(name, args.described(&args.types()), form)?;
        let args = typing.arguments(args.values, function.arguments())?;
        let mut order_by: Vec<SortKey> = Vec::with_capacity(call.order_by.len());
        for item in &call.order_by {
            let expr = self.bind(&item.value, inside)?;
            let expr = self.statement.typing.known(expr)?;
            if distinct && !args.iter().any(|arg| as_given(arg).same(&expr)) {
                let error = SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                );
                return Err(at_expr(error, &item.value));
            }
            order_by.push(self.statement.typing.sort_key(expr, item)?);
        }
        let ty: ColumnType = function.returns().into();
        Ok(AggregateCall { function, direct: Vec::new(), args, distinct, order_by, filter, ty })
    }

    /// The parts of an aggregate with WITHIN GROUP.
    fn ordered_set_parts(
        &mut self,
        name: &str,
        call: &ast::FunctionCall,
        place: Place<'_>,
    ) -> Result<AggregateCall> {
        let inside = Place { in_aggregate: true, ..place };
        // The direct arguments do not decide which level the aggregate belongs to.
        let named = place.scope.take_named();
        let mut args = self.call_arguments(call, inside)?;
        let direct_depth = place.scope.innermost_named();
        place.scope.take_named();
        place.scope.add_named(&named);
        let direct = args.values.len();
        for item in &call.order_by {
            args.values.push(self.bind(&item.value, inside)?);
        }
        let filter = self.aggregate_filter(call, inside)?;
        let form = AggregateForm { within_group: Some(call.order_by.len()), ..AggregateForm::default() };
        let function = self.statement.typing.aggregate(name, args.described(&args.types()), form)?;
        let mut values = match function.direct() {
            Some(Direct::Row) => self.rows_alike(args.values, &call.arguments)?,
            _ => self.statement.typing.arguments(args.values, function.arguments())?,
        };
        let args = values.split_off(direct);
        let mut order_by: Vec<SortKey> = Vec::with_capacity(args.len());
        for (arg, item) in args.iter().zip(&call.order_by) {
            order_by.push(self.statement.typing.sort_key(arg.clone(), item)?);
        }
        if let (Some(depth), Some(home)) = (direct_depth, place.scope.innermost_named())
            && depth > home
            && let Some(first) = call.arguments.first()
        {
            let message =
                "outer-level aggregate cannot contain a lower-level variable in its direct arguments";
            return Err(at_expr(refused(message), &first.value));
        }
        let ty: ColumnType = function.returns().into();
        Ok(AggregateCall { function, direct: values, args, distinct: false, order_by, filter, ty })
    }

    /// A row that is compared with others, followed by these: each column of both gets one type.
    fn rows_alike(&mut self, mut values: Vec<Expr>, row: &[ast::Argument]) -> Result<Vec<Expr>> {
        for (column, argument) in row.iter().enumerate() {
            let (what, places) = ("WITHIN GROUP", [row.len() + column, column]);
            let pair: Vec<Expr> = places.iter().map(|place| values[*place].clone()).collect();
            let ty = self.common_type(&pair, what, |_| Some(&argument.value))?;
            let pair = self.statement.typing.all_to(pair, ty, what)?;
            for (place, value) in places.into_iter().zip(pair) {
                values[place] = value;
            }
        }
        Ok(values)
    }

    fn aggregate_filter(&mut self, call: &ast::FunctionCall, inside: Place<'_>) -> Result<Option<Expr>> {
        let place = Place { clause: Clause::Filter, ..inside };
        call.filter.as_ref().map(|filter| self.bind_condition(filter, place)).transpose()
    }
}

/// An argument as the call has it, without the conversion that the aggregate needs.
fn as_given(arg: &Expr) -> &Expr {
    match &arg.kind {
        ExprKind::Cast { context: CastContext::Implicit, arg } => arg,
        _ => arg,
    }
}

/// Adds a call to its level, unless the level has the same; its number there.
fn add_call(call: AggregateCall, place: Place<'_>) -> Result<usize> {
    let Some(calls) = place.calls else {
        return Err(refused(format!("aggregate functions are not allowed in {}", place.clause.name())));
    };
    let calls = &mut calls.borrow_mut().aggregates;
    let alike = calls.iter().position(|other| {
        other.function == call.function
            && other.distinct == call.distinct
            && other.args.len() == call.args.len()
            && other.args.iter().zip(&call.args).all(|(a, b)| a.same(b))
            && other.order_by.is_empty()
            && call.order_by.is_empty()
            && other.filter.is_none()
            && call.filter.is_none()
    });
    Ok(alike.unwrap_or_else(|| {
        calls.push(call);
        calls.len() - 1
    }))
}

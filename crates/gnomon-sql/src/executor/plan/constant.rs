//! Constants of a statement that cannot be computed.
//!
//! PostgreSQL computes calls of constants when it plans a statement, so that `1 / 0` is an error even where no row would
//! ask for it, unless a constant beside it tells that it is never asked for. Binding leaves a call that fails as it is;
//! here it is found again.

use super::{Cte, Plan};
use crate::{
    SqlError,
    executor::{
        Expr,
        expr::{ExprKind, SubqueryKind},
    },
    functions::{FunctionRef, Volatility, resolve_cast},
    types::{Context, Datum, Type},
};

/// Functions that PostgreSQL has in SQL: an error within one tells of it.
const IN_SQL: [(&str, &[Type]); 2] =
    [("log", &[Type::Numeric]), ("substring", &[Type::Text, Type::Text, Type::Text])];

/// The parts of a statement that is more than one plan, with what it computes beside plans.
#[derive(Default)]
pub struct Parts<'a> {
    /// The tables of WITH.
    pub tables: &'a [Cte],
    /// The expressions beside plans.
    pub exprs: Vec<&'a Expr>,
    /// The plans, but for those of WITH.
    pub plans: Vec<&'a Plan>,
}

impl Parts<'_> {
    /// Returns the error of the first constant, in subqueries too, that cannot be computed.
    pub fn failing_constant(&self, cx: &Context<'_>) -> Option<SqlError> {
        // A table expression that nothing names is not planned.
        let named = self.tables.iter().filter(|cte| self.names(cte.table));
        let mut plans = named.flat_map(Cte::plans);
        plans
            .find_map(|plan| plan.failing_constant(cx))
            .or_else(|| self.exprs.iter().find_map(|expr| expr.failing_constant(cx)))
            .or_else(|| self.plans.iter().find_map(|plan| plan.failing_constant(cx)))
    }

    fn names(&self, table: usize) -> bool {
        let of_tables = self.tables.iter().flat_map(Cte::plans);
        of_tables.chain(self.plans.iter().copied()).any(|plan| plan.scans(table))
            || self.exprs.iter().any(|expr| expr.scans(table))
    }
}

impl Plan {
    /// As [`Parts::failing_constant`].
    pub fn failing_constant(&self, cx: &Context<'_>) -> Option<SqlError> {
        if let Plan::With(node) = self {
            let parts = Parts { tables: &node.tables, exprs: Vec::new(), plans: vec![&node.body] };
            return parts.failing_constant(cx);
        }
        let mut failing = None;
        self.exprs(&mut |expr| failing = failing.take().or_else(|| expr.failing_constant(cx)));
        failing.or_else(|| self.inputs().into_iter().find_map(|input| input.failing_constant(cx)))
    }

    /// True if it reads this table expression, in subqueries too.
    fn scans(&self, table: usize) -> bool {
        let here = matches!(self, Plan::CteScan(scan) if scan.table == table);
        let mut found = here || self.inputs().into_iter().any(|input| input.scans(table));
        self.exprs(&mut |expr| found = found || expr.scans(table));
        found
    }
}

impl Expr {
    /// True if a subquery in it reads this table expression.
    fn scans(&self, table: usize) -> bool {
        self.any(&|e| matches!(&e.kind, ExprKind::Subquery(subquery) if subquery.plan.scans(table)))
    }

    /// As [`Parts::failing_constant`].
    pub fn failing_constant(&self, cx: &Context<'_>) -> Option<SqlError> {
        let is_bool =
            |expr: &Expr, value: bool| matches!(expr.as_const(), Some(Datum::Bool(is)) if *is == value);
        match &self.kind {
            ExprKind::And(args) => failing_before(args, cx, |arg| is_bool(arg, false)),
            ExprKind::Or(args) => failing_before(args, cx, |arg| is_bool(arg, true)),
            ExprKind::Coalesce(args) => {
                failing_before(args, cx, |arg| arg.as_const().is_some_and(|value| !value.is_null()))
            }
            ExprKind::Case { arms, otherwise } => {
                for (condition, result) in arms {
                    if let Some(error) = condition.failing_constant(cx) {
                        return Some(error);
                    }
                    if is_bool(condition, true) {
                        return result.failing_constant(cx);
                    }
                    if condition.as_const().is_none()
                        && let Some(error) = result.failing_constant(cx)
                    {
                        return Some(error);
                    }
                }
                otherwise.failing_constant(cx)
            }
            _ => self.failing_part(cx).or_else(|| self.failure(cx)),
        }
    }

    fn failing_part(&self, cx: &Context<'_>) -> Option<SqlError> {
        let mut failing = None;
        self.children(&mut |child| failing = failing.take().or_else(|| child.failing_constant(cx)));
        let ExprKind::Subquery(subquery) = &self.kind else { return failing };
        let plan = match (&subquery.kind, &subquery.plan) {
            // What EXISTS selects is never asked for.
            (SubqueryKind::Exists, Plan::Project(node)) => &node.input,
            (_, plan) => plan,
        };
        failing.or_else(|| plan.failing_constant(cx)).or_else(|| match &subquery.kind {
            SubqueryKind::Quantified { test, .. } => test.failing_constant(cx),
            _ => None,
        })
    }

    /// The error of the expression itself, if all below it is constant.
    fn failure(&self, cx: &Context<'_>) -> Option<SqlError> {
        match &self.kind {
            ExprKind::Call { function, args } if function.volatility == Volatility::Immutable => {
                let values: Vec<Datum> =
                    args.iter().map(|arg| arg.as_const().cloned()).collect::<Option<_>>()?;
                function.call(cx, &values).err().map(|error| told_by(function, error))
            }
            ExprKind::Cast { arg, context } => {
                let value = arg.as_const()?;
                let cast = resolve_cast(arg.ty.ty, self.ty, *context)?;
                let is_fixed = cast.volatility == Volatility::Immutable;
                is_fixed.then(|| cast.apply(cx, value.clone()).err()).flatten()
            }
            _ => None,
        }
    }
}

/// The error of the first of these that fails, up to the one that makes the others needless.
fn failing_before(args: &[Expr], cx: &Context<'_>, decides: impl Fn(&Expr) -> bool) -> Option<SqlError> {
    let needed = args.iter().position(decides).unwrap_or(args.len());
    args[..needed].iter().find_map(|arg| arg.failing_constant(cx))
}

fn told_by(function: &FunctionRef, error: SqlError) -> SqlError {
    let is_it = |(name, types): &&(&str, &[Type])| {
        function.operator().is_none() && function.name() == *name && function.arguments() == *types
    };
    match IN_SQL.iter().find(is_it) {
        Some((name, _)) => error.context(format!("SQL function \"{name}\" statement 1")),
        None => error,
    }
}

//! Constants of a statement that cannot be computed.
//!
//! PostgreSQL computes calls of constants when it plans a statement, so that `1 / 0` is an error even where no row would
//! ask for it, unless a constant beside it tells that it is never asked for. Binding leaves a call that fails as it is;
//! here it is found again. Where texts that differ in their literals share a plan, its parameters are constants of the
//! text.

use std::cell::Cell;

use super::{Cte, Plan};
use crate::{
    Result, SqlError,
    executor::{
        Expr,
        expr::{ExprKind, SubqueryKind, on_deep_stack},
    },
    functions::{FunctionRef, Volatility, resolve_cast},
    types::{
        Context, Datum, Type,
        limit::{LONG_BYTES, datum_bytes},
    },
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
        Constants::new(cx, &[]).of_parts(self).err()
    }

    fn names(&self, table: usize) -> bool {
        let of_tables = self.tables.iter().flat_map(Cte::plans);
        of_tables.chain(self.plans.iter().copied()).any(|plan| plan.scans(table))
            || self.exprs.iter().any(|expr| expr.scans(table))
    }
}

impl Plan {
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
}

/// Computes the constants of a statement, and parameters that stand for constants.
pub struct Constants<'a> {
    cx: &'a Context<'a>,
    /// The values of the parameters.
    values: &'a [Datum],
    /// True if anything was computed that binding had left to be computed.
    has_computed: Cell<bool>,
}

impl<'a> Constants<'a> {
    /// The constants of a statement, with the values of its parameters if these are constants, too.
    pub fn new(cx: &'a Context<'a>, values: &'a [Datum]) -> Constants<'a> {
        Constants { cx, values, has_computed: Cell::new(false) }
    }

    /// True if anything was computed from the parameters: with other values it may fail.
    pub fn has_computed(&self) -> bool {
        self.has_computed.get()
    }

    /// Computes the constants of a statement.
    ///
    /// # Errors
    /// That of the first one, in subqueries too, that cannot be computed.
    pub fn of_parts(&self, parts: &Parts<'_>) -> Result<()> {
        // A table expression that nothing names is not planned.
        let named = parts.tables.iter().filter(|cte| parts.names(cte.table));
        named.flat_map(Cte::plans).try_for_each(|plan| self.of_plan(plan))?;
        parts.exprs.iter().try_for_each(|expr| self.of_expr(expr).map(drop))?;
        parts.plans.iter().try_for_each(|plan| self.of_plan(plan))
    }

    fn of_plan(&self, plan: &Plan) -> Result<()> {
        if let Plan::With(node) = plan {
            let parts = Parts { tables: &node.tables, exprs: Vec::new(), plans: vec![&node.body] };
            return self.of_parts(&parts);
        }
        let mut done = Ok(());
        plan.exprs(&mut |expr| {
            if done.is_ok() {
                done = self.of_expr(expr).map(drop);
            }
        });
        done?;
        plan.inputs().into_iter().try_for_each(|input| self.of_plan(input))
    }

    /// Returns the value of an expression, if it is a constant, or is computed from constants.
    fn of_expr(&self, expr: &Expr) -> Result<Option<Datum>> {
        on_deep_stack(|| match &expr.kind {
            ExprKind::Const(value) => Ok(Some(value.clone())),
            ExprKind::Param(position) => Ok(self.values.get(*position).cloned()),
            ExprKind::And(args) => self.first(args, |value| matches!(value, Datum::Bool(false))),
            ExprKind::Or(args) => self.first(args, |value| matches!(value, Datum::Bool(true))),
            ExprKind::Coalesce(args) => self.of_coalesce(args),
            ExprKind::Case { arms, otherwise } => self.of_case(arms, otherwise),
            ExprKind::Call { function, args } => {
                let values = args.iter().map(|arg| self.of_expr(arg)).collect::<Result<Vec<_>>>()?;
                let is_fixed = function.volatility == Volatility::Immutable;
                let Some(values) = values.into_iter().collect::<Option<Vec<_>>>().filter(|_| is_fixed) else {
                    return Ok(None);
                };
                self.has_computed.set(true);
                let value = function.call(self.cx, &values).map_err(|error| told_by(function, error))?;
                Ok(Some(value).filter(|value| datum_bytes(value) <= LONG_BYTES))
            }
            ExprKind::Cast { arg, context } => {
                let Some(value) = self.of_expr(arg)? else { return Ok(None) };
                self.has_computed.set(true);
                match resolve_cast(arg.ty.ty, expr.ty, *context) {
                    Some(cast) if cast.volatility == Volatility::Immutable => {
                        cast.apply(self.cx, value).map(Some)
                    }
                    _ => Ok(None),
                }
            }
            _ => self.of_parts_of(expr).map(|()| None),
        })
    }

    /// Computes operands of AND or OR up to the one whose value decides, whatever the others are. Returns that.
    fn first(&self, args: &[Expr], decides: impl Fn(&Datum) -> bool) -> Result<Option<Datum>> {
        for arg in args {
            if let Some(value) = self.of_expr(arg)? {
                self.has_computed.set(true);
                if decides(&value) {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    /// Computes arguments up to one that is not NULL; it is the value if those before it are NULL for certain.
    fn of_coalesce(&self, args: &[Expr]) -> Result<Option<Datum>> {
        let mut is_certain = true;
        for arg in args {
            match self.of_expr(arg)? {
                Some(Datum::Null) => {}
                Some(value) => {
                    self.has_computed.set(true);
                    return Ok(Some(value).filter(|_| is_certain));
                }
                None => is_certain = false,
            }
        }
        Ok(Some(Datum::Null).filter(|_| is_certain))
    }

    fn of_case(&self, arms: &[(Expr, Expr)], otherwise: &Expr) -> Result<Option<Datum>> {
        let mut is_certain = true;
        for (condition, result) in arms {
            let condition = self.of_expr(condition)?;
            self.has_computed.set(self.has_computed.get() || condition.is_some());
            match condition {
                Some(Datum::Bool(true)) => {
                    return self.of_expr(result).map(|value| value.filter(|_| is_certain));
                }
                Some(_) => {}
                None => {
                    self.of_expr(result)?;
                    is_certain = false;
                }
            }
        }
        self.of_expr(otherwise).map(|value| value.filter(|_| is_certain))
    }

    /// Computes what is below an expression.
    fn of_parts_of(&self, expr: &Expr) -> Result<()> {
        let mut done = Ok(());
        expr.children(&mut |child| {
            if done.is_ok() {
                done = self.of_expr(child).map(drop);
            }
        });
        done?;
        let ExprKind::Subquery(subquery) = &expr.kind else { return Ok(()) };
        let plan = match (&subquery.kind, &subquery.plan) {
            // What EXISTS selects is never asked for.
            (SubqueryKind::Exists, Plan::Project(node)) => &node.input,
            (_, plan) => plan,
        };
        self.of_plan(plan)?;
        match &subquery.kind {
            SubqueryKind::Quantified { test, .. } => self.of_expr(test).map(drop),
            _ => Ok(()),
        }
    }
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

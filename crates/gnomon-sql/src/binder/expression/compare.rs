//! Tests: IN, ANY, ALL, LIKE, BETWEEN, IS ..., and comparisons of rows with subqueries.

use gnomon_parser::ast::{self, InSet, LikeKind, QuantifiedOperand};

use super::{Asked, ExpressionBinder, negate_if};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::Place,
        syntax::as_row,
        typing::{RowOperator, row_expected, row_operator},
    },
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{Plan, Project},
    },
    functions::Comparison,
    planner::hashed_alike,
    types::{Datum, Type},
};

impl ExpressionBinder<'_, '_> {
    /// `[NOT] IN`.
    pub fn is_in(&mut self, test: &ast::In, place: Place<'_>) -> Result<Expr> {
        let bound = match &test.set {
            InSet::List(list) => self.in_list(&test.operand, list, place)?,
            InSet::Query(query) => self.quantified(&test.operand, "=", query, false, place)?,
        };
        Ok(negate_if(bound, test.is_negated))
    }

    fn in_list(&mut self, expr: &ast::Expr, list: &[ast::Expr], place: Place<'_>) -> Result<Expr> {
        if let Some(left) = as_row(expr) {
            let left = self.fields(left, place)?;
            let mut any = Vec::with_capacity(list.len());
            for item in list {
                let Some(right) = as_row(item) else {
                    let row = self.statement.typing.row(left)?;
                    let item = self.bind(item, place)?;
                    let test = self.statement.typing.operator("=", vec![row, item]);
                    return Err(test.err().unwrap_or_else(row_expected));
                };
                let right = self.fields(right, place)?;
                any.push(self.statement.typing.compare_rows(RowOperator::Equal, left.clone(), right)?);
            }
            return Ok(Expr::any_of(any));
        }
        let left = self.bind(expr, place)?;
        let items = self.bind_all(list, place)?;
        let fixed = items.iter().filter(|item| !item.has_columns()).count();
        if fixed == items.len() {
            return self.in_array(left, items);
        }
        // As in PostgreSQL, what depends on the row is compared one by one, only until one is equal, and behind the rest if
        // that is several.
        let (of_row, fixed) = match fixed {
            0 | 1 => (items, Vec::new()),
            _ => items.into_iter().partition(Expr::has_columns),
        };
        let (held, left) = self.statement.hold(left)?;
        let mut any = match fixed.is_empty() {
            true => Vec::new(),
            false => vec![self.in_array(left.clone(), fixed)?],
        };
        self.equal_to_each(&left, of_row, &mut any)?;
        Ok(held.around(Expr::any_of(any)))
    }

    fn equal_to_each(&mut self, left: &Expr, items: Vec<Expr>, any: &mut Vec<Expr>) -> Result<()> {
        for item in items {
            any.push(self.statement.typing.operator("=", vec![left.clone(), item])?);
        }
        Ok(())
    }

    fn in_array(&mut self, left: Expr, mut items: Vec<Expr>) -> Result<Expr> {
        if items.len() == 1
            && let Some(item) = items.pop()
        {
            return self.statement.typing.operator("=", vec![left, item]);
        }
        items.push(left);
        let common = self.statement.typing.common_type(&items, "IN").ok();
        // Rows are compared value by value.
        let common = common.filter(|ty| *ty != Type::Record && ty.array().is_some());
        let Some(left) = items.pop() else { return Err(row_expected()) };
        let Some(common) = common else {
            let (held, left) = self.statement.hold(left)?;
            let mut any = Vec::with_capacity(items.len());
            self.equal_to_each(&left, items, &mut any)?;
            return Ok(held.around(Expr::any_of(any)));
        };
        let left = match left.ty.ty {
            Type::Unknown => self.statement.typing.explicit(left, common.into())?,
            _ => left,
        };
        let array = self.statement.typing.array_of(items, common, "IN")?;
        self.any_all_array(left, "=", array, false)
    }

    /// A comparison with ANY or ALL.
    pub fn any_all(&mut self, quantified: &ast::Quantified, place: Place<'_>) -> Result<Expr> {
        let ast::Quantified { left, operator, is_all, right } = quantified;
        let name = self.statement.typing.operator_name(operator)?;
        match right {
            QuantifiedOperand::Query(query) => self.quantified(left, &name, query, *is_all, place),
            QuantifiedOperand::Array(array) => {
                let left = self.bind(left, place)?;
                let array = self.bind(array, place)?;
                self.any_all_array(left, &name, array, *is_all)
            }
        }
    }

    /// A comparison with the elements of an array.
    pub fn any_all_array(&mut self, left: Expr, name: &str, array: Expr, all: bool) -> Result<Expr> {
        let array = match array.ty.ty {
            Type::Unknown => {
                let element = if left.ty.ty == Type::Unknown { Type::Text } else { left.ty.ty };
                let ty = element.array().ok_or_else(array_expected)?;
                self.statement.typing.explicit(array, ty.into())?
            }
            Type::Name | Type::Text => return Err(array_expected()),
            _ => array,
        };
        let element = array.ty.ty.element().ok_or_else(array_expected)?;
        // Which operator applies, and what its arguments become, is settled with a stand-in for the elements.
        let stand_in = Expr::new(ExprKind::Slot(usize::MAX), element);
        let (function, [left, converted]) = self.statement.typing.comparison(name, left, stand_in)?;
        let array = match converted.ty.ty == element {
            true => array,
            false => {
                let ty = converted.ty.ty.array().ok_or_else(array_expected)?;
                self.statement.typing.explicit(array, ty.into())?
            }
        };
        if function.returns() != Type::Bool {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
            ));
        }
        let decides = matches!(
            (function.comparison(), all),
            (Some(Comparison::Equal), false) | (Some(Comparison::NotEqual), true)
        );
        let is_fixed = !array.has_columns() && !array.is_volatile() && array.outer_slots().is_empty();
        let list = (decides && is_fixed && array.ty.ty.element() == Some(left.ty.ty))
            .then(|| self.statement.numbers.next_subquery());
        let kind = ExprKind::AnyAll { function, all, left: Box::new(left), array: Box::new(array), list };
        Ok(Expr::new(kind, Type::Bool))
    }

    /// `left op ANY (query)`, or ALL.
    fn quantified(
        &mut self,
        left: &ast::Expr,
        name: &str,
        query: &ast::Query,
        all: bool,
        place: Place<'_>,
    ) -> Result<Expr> {
        // Different from all is equal to none, which a hash decides.
        if all && matches!(name, "<>" | "!=") {
            let equal = self.quantified(left, "=", query, false, place)?;
            return Ok(Expr::new(ExprKind::Not(Box::new(equal)), Type::Bool));
        }
        let left = match as_row(left) {
            Some(fields) => self.fields(fields, place)?,
            None => vec![self.bind(left, place)?],
        };
        let (mut bound, columns) =
            self.subqueries.subquery(self.statement, query, place, Some(Asked::Rows))?;
        if columns.len() != left.len() {
            let few = if columns.len() < left.len() { "few" } else { "many" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {few} columns")));
        }
        let rows = columns.iter().enumerate().map(|(index, ty)| Expr::column(index, "?column?", *ty));
        let mut pairs = Vec::with_capacity(left.len());
        for (left, right) in left.into_iter().zip(rows) {
            let (function, [left, right]) = self.statement.typing.comparison(name, left, right)?;
            // The left side, cast to what the operator takes, waits in a slot while the subquery's rows pass.
            let slot = self.statement.numbers.next_slot();
            let value = Expr { kind: ExprKind::Slot(slot), ty: left.ty };
            bound.args.push((slot, left));
            pairs.push((function, slot, [value, right]));
        }
        let hash = (name == "=" && !all)
            .then(|| {
                pairs
                    .iter()
                    .map(|(_, _, [left, right])| hashed_alike(left, right))
                    .collect::<Option<Vec<_>>>()
            })
            .flatten();
        let test = match row_operator(name) {
            Some(operator) if pairs.len() > 1 => {
                let (left, right) = pairs.into_iter().map(|(_, _, [left, right])| (left, right)).unzip();
                self.statement.typing.compare_rows(operator, left, right)?
            }
            _ => {
                let mut tests = pairs
                    .into_iter()
                    .map(|(function, _, args)| self.statement.typing.apply(function, args.into()));
                match (tests.next(), tests.next()) {
                    (Some(test), None) => test?,
                    _ => return Err(row_expected()),
                }
            }
        };
        let test = Box::new(test);
        let kind = SubqueryKind::Quantified { all, test, hash };
        Ok(Expr::new(ExprKind::Subquery(Box::new(Subquery { kind, ..bound })), Type::Bool))
    }

    /// `(a, b) op (SELECT ...)`, of at most one row.
    pub fn compare_with_subquery(
        &mut self,
        operator: RowOperator,
        left: &[ast::Expr],
        query: &ast::Query,
        place: Place<'_>,
    ) -> Result<Expr> {
        let left = self.fields(left, place)?;
        let (bound, columns) = self.subqueries.subquery(self.statement, query, place, None)?;
        if columns.len() != left.len() {
            let few = if columns.len() < left.len() { "few" } else { "many" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {few} columns")));
        }
        // The subquery's row becomes one record, of which the fields are compared.
        let items = columns.iter().enumerate().map(|(i, ty)| Expr::column(i, "?column?", *ty)).collect();
        let record = Expr::new(ExprKind::Row(items), Type::Record);
        let plan = Plan::Project(Project { input: bound.plan, columns: vec![record] }.into());
        let kind = ExprKind::Subquery(Box::new(Subquery { plan, ..bound }));
        let (held, record) = self.statement.hold(Expr::new(kind, Type::Record))?;
        let right = columns
            .iter()
            .enumerate()
            .map(|(index, ty)| Expr {
                kind: ExprKind::Field { record: Box::new(record.clone()), index },
                ty: *ty,
            })
            .collect();
        Ok(held.around(self.statement.typing.compare_rows(operator, left, right)?))
    }

    /// `IS [NOT] TRUE` and its like.
    pub fn is_boolean(&mut self, test: &ast::IsBoolean, place: Place<'_>) -> Result<Expr> {
        let (value, negated) = (test.value, test.is_negated);
        let word = match value {
            Some(true) => "TRUE",
            Some(false) => "FALSE",
            None => "UNKNOWN",
        };
        let what = format!("IS {}{word}", if negated { "NOT " } else { "" });
        let arg = Box::new(self.boolean(&test.operand, &what, place)?);
        Ok(Expr::new(ExprKind::IsBool { arg, value, negated }, Type::Bool))
    }

    /// `IS [NOT] DISTINCT FROM`.
    pub fn is_distinct(&mut self, test: &ast::IsDistinct, place: Place<'_>) -> Result<Expr> {
        if let (Some(left), Some(right)) = (as_row(&test.left), as_row(&test.right)) {
            return self.rows_distinct(left, right, test.is_negated, place);
        }
        let left = self.bind(&test.left, place)?;
        let right = self.bind(&test.right, place)?;
        self.distinct(left, right, test.is_negated)
    }

    /// `IS [NOT] DISTINCT FROM` of rows, which is that of their fields.
    fn rows_distinct(
        &mut self,
        left: &[ast::Expr],
        right: &[ast::Expr],
        negated: bool,
        place: Place<'_>,
    ) -> Result<Expr> {
        let left = self.fields(left, place)?;
        let right = self.fields(right, place)?;
        if left.len() != right.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        let pairs = left.into_iter().zip(right);
        let tests = pairs.map(|(left, right)| self.distinct(left, right, negated));
        let tests = tests.collect::<Result<Vec<Expr>>>()?;
        Ok(if negated { Expr::all_of(tests) } else { Expr::any_of(tests) })
    }

    fn distinct(&mut self, left: Expr, right: Expr, negated: bool) -> Result<Expr> {
        let is_null = |expr: &Expr| matches!(expr.kind, ExprKind::Const(Datum::Null));
        if is_null(&left) || is_null(&right) {
            let arg = Box::new(if is_null(&right) { left } else { right });
            return Ok(Expr::new(ExprKind::IsNull { arg, negated: !negated }, Type::Bool));
        }
        let (equal, args) = self.statement.typing.comparison("=", left, right)?;
        Ok(Expr::new(ExprKind::Distinct { equal, args: args.into(), negated }, Type::Bool))
    }

    /// LIKE, ILIKE and SIMILAR TO.
    pub fn like(&mut self, like: &ast::Like, place: Place<'_>) -> Result<Expr> {
        let value = self.bind(&like.operand, place)?;
        let mut pattern = self.bind(&like.pattern, place)?;
        let escape = like.escape.as_ref().map(|escape| self.bind(escape, place)).transpose()?;
        let typing = &mut self.statement.typing;
        if like.kind == LikeKind::Similar {
            pattern =
                typing.system_call("similar_to_escape", [pattern].into_iter().chain(escape).collect())?;
        } else if let Some(escape) = escape {
            pattern = typing.system_call("like_escape", vec![pattern, escape])?;
        }
        typing.operator(like.operator(), vec![value, pattern])
    }

    /// BETWEEN, which is two comparisons.
    pub fn between(&mut self, between: &ast::Between, place: Place<'_>) -> Result<Expr> {
        let value = self.bind(&between.operand, place)?;
        let low = self.bind(&between.low, place)?;
        let (held, value) = self.statement.hold(value)?;
        let negated = between.is_negated;
        if !between.is_symmetric {
            let outer = self.bound_test(&value, low, true, negated)?;
            let high = self.bind(&between.high, place)?;
            let inner = self.bound_test(&value, high, false, negated)?;
            return Ok(held.around(within(outer, inner, negated)));
        }
        let high = self.bind(&between.high, place)?;
        let (held_low, low) = self.statement.hold(low)?;
        let (held_high, high) = self.statement.hold(high)?;
        let mut ranges = Vec::with_capacity(2);
        for (low, high) in [(&low, &high), (&high, &low)] {
            let outer = self.bound_test(&value, low.clone(), true, negated)?;
            let inner = self.bound_test(&value, high.clone(), false, negated)?;
            ranges.push(within(outer, inner, negated));
        }
        let test = match negated {
            true => Expr::all_of(ranges),
            false => Expr::any_of(ranges),
        };
        Ok(held.around(held_low.around(held_high.around(test))))
    }

    /// The comparison of a value with a bound of BETWEEN.
    fn bound_test(&mut self, value: &Expr, bound: Expr, is_low: bool, negated: bool) -> Result<Expr> {
        let typing = &mut self.statement.typing;
        // PostgreSQL binds the operands for each comparison, so the first one decides the type of a parameter.
        let anew = |expr: Expr| match expr.kind {
            ExprKind::Param(position) => typing.parameters.at(position),
            _ => expr,
        };
        let args = vec![anew(value.clone()), anew(bound)];
        let operator = match (is_low, negated) {
            (true, false) => ">=",
            (true, true) => "<",
            (false, false) => "<=",
            (false, true) => ">",
        };
        typing.operator(operator, args)
    }
}

/// The test of a value against both bounds of a range; with `negated`, that it is outside.
fn within(low: Expr, high: Expr, negated: bool) -> Expr {
    match negated {
        true => Expr::any_of(vec![low, high]),
        false => Expr::all_of(vec![low, high]),
    }
}

pub fn one_column() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

fn array_expected() -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side")
}

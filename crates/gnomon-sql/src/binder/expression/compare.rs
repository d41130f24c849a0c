//! Comparisons of one value, or one row, with many: IN, ANY, ALL, row constructors, subqueries.

use sqlparser::ast::{self, BinaryOperator};

use super::{Asked, ExpressionBinder};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::Place,
        syntax::{as_row, operator_name, unnested},
        typing::{RowOperator, row_expected, row_operator},
    },
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{Plan, Project},
    },
    functions::Comparison,
    planner::hashed_alike,
    types::Type,
};

impl ExpressionBinder<'_, '_> {
    pub fn in_list(&mut self, expr: &ast::Expr, list: &[ast::Expr], place: Place<'_>) -> Result<Expr> {
        if let Some(left) = as_row(expr) {
            let left = left.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
            let mut any = Vec::with_capacity(list.len());
            for item in list {
                let Some(right) = as_row(item) else { return Err(row_expected()) };
                let right = right.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
                any.push(self.statement.typing.compare_rows(RowOperator::Equal, left.clone(), right)?);
            }
            return Ok(Expr::any_of(any));
        }
        let left = self.bind(expr, place)?;
        let items = list.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
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
        let common = self.statement.typing.common_type(&items, "IN").ok().filter(|ty| ty.array().is_some());
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

    pub fn any_all(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
        place: Place<'_>,
    ) -> Result<Expr> {
        let name = operator_name(op)?;
        if let ast::Expr::Subquery(query) = unnested(right) {
            return self.quantified(left, &name, query, all, place);
        }
        let left = self.bind(left, place)?;
        let array = self.bind(right, place)?;
        self.any_all_array(left, &name, array, all)
    }

    fn any_all_array(&mut self, left: Expr, name: &str, array: Expr, all: bool) -> Result<Expr> {
        let array = match array.ty.ty {
            Type::Unknown => {
                let element = if left.ty.ty == Type::Unknown { Type::Text } else { left.ty.ty };
                let ty = element.array().ok_or_else(|| array_expected(all))?;
                self.statement.typing.explicit(array, ty.into())?
            }
            Type::Name | Type::Text => return Err(array_expected(all)),
            _ => array,
        };
        let element = array.ty.ty.element().ok_or_else(|| array_expected(all))?;
        // Which operator applies, and what its arguments become, is settled with a stand-in for the elements.
        let stand_in = Expr::new(ExprKind::Slot(usize::MAX), element);
        let (function, [left, converted]) = self.statement.typing.comparison(name, left, stand_in)?;
        let array = match converted.ty.ty == element {
            true => array,
            false => {
                let ty = converted.ty.ty.array().ok_or_else(|| array_expected(all))?;
                self.statement.typing.explicit(array, ty.into())?
            }
        };
        if function.returns() != Type::Bool {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("op {} (array) requires operator to yield boolean", if all { "ALL" } else { "ANY" }),
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
    pub fn quantified(
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
            Some(items) => items.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?,
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
        left: &[&ast::Expr],
        query: &ast::Query,
        place: Place<'_>,
    ) -> Result<Expr> {
        let left = left.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
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
}

pub fn one_column() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

fn array_expected(all: bool) -> SqlError {
    let what = if all { "ALL" } else { "ANY" };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("op {what} (array) requires array on right side"))
}

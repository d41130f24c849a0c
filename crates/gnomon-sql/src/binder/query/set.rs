//! VALUES and set operations.

use std::sync::Arc;

use gnomon_parser::{
    Position,
    ast::{self, QueryBody, SetOperation, SetOperationKind},
};

use super::{
    Output, QueryBinder,
    arm::{arm_column, projected},
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        located::{column_position, item_position, position_of, query_item_position},
        scope::{Clause, Place, Scope},
        syntax::into_clause,
    },
    executor::{
        Expr,
        plan::{self, Plan},
    },
    planner::{SetOperator, plan_set_operation, row_with_sets},
    types::ColumnType,
};

impl QueryBinder<'_, '_> {
    pub(super) fn bind_values(
        &mut self,
        values: &ast::Values,
        level: &Scope<'_>,
        output: Output<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let is_select_list = values.rows.len() == 1 && matches!(output, Output::Assigned(_));
        let place = Place::new(level, if is_select_list { Clause::SingleValues } else { Clause::Values });
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let mut cells = self.expressions().fields(row, place)?;
            if rows.first().is_some_and(|first| first.len() != cells.len()) {
                let position = row.first().map_or(Position::NONE, position_of);
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
            }
            for (at, (cell, target)) in cells.iter_mut().zip(output.targets()).enumerate() {
                let bound = std::mem::replace(cell, Expr::bool(true));
                *cell = self
                    .statement
                    .typing
                    .assigned(bound, *target)
                    .map_err(|error| error.at(item_position(row, at)))?;
            }
            rows.push(cells);
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        for position in 0..width {
            let ty = match output.target(position) {
                Some(target) => target.ty,
                None => {
                    let cells: Vec<Expr> = rows.iter().map(|row: &Vec<Expr>| row[position].clone()).collect();
                    let ty = self.statement.typing.common_type(&cells, "VALUES")?;
                    for (row, cell) in rows.iter_mut().zip(self.statement.typing.all_to(cells, ty, "VALUES")?)
                    {
                        row[position] = cell;
                    }
                    let modifier = rows[0][position].ty.modifier;
                    let same = rows.iter().all(|row| row[position].ty == ColumnType { ty, modifier });
                    ColumnType { ty, modifier: if same { modifier } else { -1 } }
                }
            };
            let name = format!("column{}", position + 1);
            columns.push(ResultColumn { name, ty, table: 0, attribute: 0 });
        }
        rows.iter_mut().flatten().for_each(Expr::fold);
        let plan = match rows.pop() {
            Some(row) if is_select_list => row_with_sets(row),
            last => {
                rows.extend(last);
                Plan::Values(Arc::new(plan::Values { rows }))
            }
        };
        Ok((plan, columns))
    }

    /// Binds a chain of set operations, arm by arm: it may be longer than a stack is deep.
    pub(super) fn bind_set_operations(
        &mut self,
        first: &QueryBody,
        operations: &[SetOperation],
        level: &Scope<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let mut bound = self.bind_arm(first, level)?;
        for operation in operations {
            let right = self.bind_arm(&operation.right, level)?;
            bound = self.combine_arms(bound, first, operation, right)?;
        }
        Ok(bound)
    }

    fn combine_arms(
        &mut self,
        (left, mut columns): (Plan, Vec<ResultColumn>),
        first: &QueryBody,
        operation: &SetOperation,
        (right, others): (Plan, Vec<ResultColumn>),
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let (op, name) = match operation.kind {
            SetOperationKind::Union => (SetOperator::Union, "UNION"),
            SetOperationKind::Intersect => (SetOperator::Intersect, "INTERSECT"),
            SetOperationKind::Except => (SetOperator::Except, "EXCEPT"),
        };
        if columns.len() != others.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("each {name} query must have the same number of columns"),
            )
            .at(column_position(&operation.right, 0)));
        }
        let (mut left_exprs, mut right_exprs) = (Vec::new(), Vec::new());
        for (position, (a, b)) in columns.iter_mut().zip(&others).enumerate() {
            let (x, y) = (arm_column(&left, position, a.ty), arm_column(&right, position, b.ty));
            let pair = [x, y];
            let ty = self.statement.typing.common_type(&pair, name);
            let ty = ty.map_err(|error| error.at(column_position(&operation.right, position)))?;
            for ((expr, body), exprs) in
                pair.into_iter().zip([first, &operation.right]).zip([&mut left_exprs, &mut right_exprs])
            {
                let converted = self.statement.typing.all_to(vec![expr], ty, name);
                exprs.extend(converted.map_err(|error| error.at(query_item_position(body, position)))?);
            }
            let modifier = if a.ty == b.ty && a.ty.ty == ty { a.ty.modifier } else { -1 };
            a.ty = ColumnType { ty, modifier };
            (a.table, a.attribute) = (0, 0);
        }
        let types = columns.iter().map(|column| column.ty.ty).collect();
        let plan = plan_set_operation(
            op,
            operation.is_all,
            projected(left, left_exprs),
            projected(right, right_exprs),
            types,
        );
        Ok((plan, columns))
    }

    /// An arm of a set operation: literals of unknown type stay so until both arms are known.
    fn bind_arm(&mut self, arm: &QueryBody, level: &Scope<'_>) -> Result<(Plan, Vec<ResultColumn>)> {
        if let Some(into) = into_clause(arm) {
            let message = "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(into.name.position()));
        }
        self.bind_set_expr(arm, level, Output::Arm)
    }
}

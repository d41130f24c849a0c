//! Expressions: from syntax trees to typed expressions.
//!
//! An expression takes names from the scopes of its place, types from [`Typing`](super::typing::Typing), and queries
//! within it from [`Subqueries`]. It knows neither FROM nor WITH.

mod access;
mod aggregate;
mod call;
mod compare;
mod frame;
pub mod part;
pub mod row;
mod window;

use std::{collections::BTreeSet, sync::Arc};

use gnomon_parser::ast::{self, Value};

use super::{
    located::{at_expr, at_node},
    scope::{Clause, Place},
    statement::Statement,
    syntax::{as_row, check_collation},
    typing::{row_expected, row_operator},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Procedure,
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind, on_deep_stack},
    },
    planner::prune,
    types::{ColumnType, Datum, Type, format_type},
};

use compare::one_column;

/// Binds the expressions of a statement.
pub struct ExpressionBinder<'b, 'a> {
    /// The state that the statement's expressions share.
    pub statement: &'b mut Statement<'a>,
    /// The binder of the queries within them.
    pub subqueries: &'b mut dyn Subqueries<'a>,
}

/// The binder of queries, as far as expressions need it: the seam between the two, which call each other.
pub trait Subqueries<'a> {
    /// Binds a query within an expression at `place`. It is scalar, and the caller says otherwise; of its rows no more
    /// is asked than `asked`, if that is given. Returns the types of its columns too.
    fn subquery(
        &mut self,
        statement: &mut Statement<'a>,
        query: &ast::Query,
        place: Place<'_>,
        asked: Option<Asked>,
    ) -> Result<(Subquery, Vec<ColumnType>)>;

    /// The procedure of the catalog that a name stands for.
    fn procedure(&self, schema: Option<&str>, name: &str) -> Option<Arc<Procedure>>;
}

/// The question that is asked of a subquery whose rows may be told apart by keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Existence of rows.
    Existence,
    /// Its rows, in any order and number.
    Rows,
    /// Its only row's only column.
    Value,
}

impl ExpressionBinder<'_, '_> {
    /// Binds an expression. Literals and parameters whose type their place must decide stay [`Type::Unknown`].
    pub fn bind(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        self.statement.enter_expression()?;
        let bound = on_deep_stack(|| self.bind_inner(expr, place)).map_err(|error| at_node(error, expr))?;
        self.statement.leave_expression();
        if let Some(analysis) = &mut self.statement.analysis {
            analysis.expression(expr, bound.ty);
        }
        Ok(bound)
    }

    /// Binds expressions one by one.
    fn bind_all(&mut self, exprs: &[ast::Expr], place: Place<'_>) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.bind(expr, place)).collect()
    }

    /// Binds an expression that must be boolean.
    pub fn bind_condition(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        let what = match place.clause {
            Clause::JoinOn => "JOIN/ON",
            clause => clause.name(),
        };
        let mut bound = self.boolean(expr, what, place)?;
        if !matches!(place.clause, Clause::Having) {
            bound.fold();
        }
        Ok(bound)
    }

    /// Binds an expression that must be boolean; `what` it is of, for the message.
    fn boolean(&mut self, expr: &ast::Expr, what: &str, place: Place<'_>) -> Result<Expr> {
        let bound = self.bind(expr, place)?;
        self.statement.typing.boolean(bound, what).map_err(|error| at_expr(error, expr))
    }

    fn bind_inner(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        use ast::Expr as E;
        match expr {
            E::Column(column) => self.column(expr, column, place),
            E::Constant(constant) => self.constant(constant),
            E::Parameter(parameter) => self.statement.typing.parameters.numbered(parameter.number),
            E::Default(_) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context"))
            }
            E::Indirection(indirection) => self.indirection(indirection, place),
            E::Operation(operation) => self.operation(operation, place),
            E::Quantified(quantified) => self.any_all(quantified, place),
            E::And(chain) => Ok(Expr::all_of(self.junction(chain, "AND", place)?)),
            E::Or(chain) => Ok(Expr::any_of(self.junction(chain, "OR", place)?)),
            E::Not(not) => Ok(negate_if(self.boolean(&not.operand, "NOT", place)?, true)),
            E::IsNull(test) => {
                let arg = self.bind(&test.operand, place)?;
                let arg = Box::new(self.statement.typing.of_any_type(arg)?);
                Ok(Expr::new(ExprKind::IsNull { arg, negated: test.is_negated }, Type::Bool))
            }
            E::IsBoolean(test) => self.is_boolean(test, place),
            E::IsDistinct(test) => self.is_distinct(test, place),
            E::In(test) => self.is_in(test, place),
            E::Like(like) => self.like(like, place),
            E::Between(between) => self.between(between, place),
            E::Cast(cast) => self.cast(cast, place),
            E::Collate(collate) => self.collate(collate, place),
            E::Case(case) => self.case(case, place),
            E::Row(row) => {
                let fields = self.fields(&row.fields, place)?;
                self.statement.typing.row(fields)
            }
            E::Array(array) => self.array(&array.elements, place),
            E::Subquery(subquery) => {
                let (bound, columns) =
                    self.subqueries.subquery(self.statement, &subquery.query, place, Some(Asked::Value))?;
                let [ty] = columns[..] else { return Err(one_column()) };
                Ok(Expr { kind: ExprKind::Subquery(Box::new(bound)), ty })
            }
            E::Exists(subquery) => self.exists(&subquery.query, place),
            E::ArraySubquery(subquery) => self.array_of_query(&subquery.query, place),
            E::Function(call) => self.function_call(call, place),
            E::SystemValue(value) => self.statement.typing.system_value(value),
            E::Coalesce(list) => self.coalesce(&list.operands, place),
            E::Greatest(list) => self.extreme(&list.operands, true, place),
            E::Least(list) => self.extreme(&list.operands, false, place),
            E::NullIf(nullif) => self.null_if(nullif, place),
            E::Grouping(list) => self.grouping_call(&list.operands, place),
            _ => Err(SqlError::unsupported(format!("the expression {expr}"))),
        }
    }

    fn constant(&mut self, constant: &ast::Constant) -> Result<Expr> {
        match &constant.value {
            Value::Null => Ok(Expr::constant(Datum::Null, Type::Unknown)),
            Value::Boolean(value) => Ok(Expr::bool(*value)),
            Value::Integer(number) => Ok(Expr::constant(Datum::Int4(*number), Type::Int4)),
            Value::Number(digits) => self.statement.typing.number(digits),
            Value::String(text) => {
                let number =
                    self.statement.typing.literals.as_mut().map(|literals| literals.number(constant));
                let ty = ColumnType { ty: Type::Unknown, modifier: number.unwrap_or(-1) };
                Ok(Expr { kind: ExprKind::Const(Datum::Text((**text).into())), ty })
            }
            Value::Bits(digits) => Err(SqlError::unsupported(format!("the literal B'{digits}'"))),
            Value::Hex(digits) => Err(SqlError::unsupported(format!("the literal X'{digits}'"))),
        }
    }

    fn operation(&mut self, operation: &ast::Operation, place: Place<'_>) -> Result<Expr> {
        let name = self.statement.typing.operator_name(&operation.operator)?;
        let Some(left) = &operation.left else {
            let arg = self.bind(&operation.right, place)?;
            return self.statement.typing.operator(&name, vec![arg]);
        };
        if let (None, Some(left), ast::Expr::Row(right)) =
            (row_operator(&name), as_row(left), &operation.right)
        {
            let left = self.fields(left, place)?;
            let right = self.fields(&right.fields, place)?;
            return Err(self.statement.typing.no_row_operator(&name, left, right));
        }
        if let (Some(operator), Some(left)) = (row_operator(&name), as_row(left)) {
            match &operation.right {
                ast::Expr::Row(right) => {
                    let left = self.fields(left, place)?;
                    let right = self.fields(&right.fields, place)?;
                    return self.statement.typing.compare_rows(operator, left, right);
                }
                ast::Expr::Subquery(subquery) => {
                    return self.compare_with_subquery(operator, left, &subquery.query, place);
                }
                _ => {}
            }
        }
        let left = self.bind(left, place)?;
        let right = self.bind(&operation.right, place)?;
        self.statement.typing.operator(&name, vec![left, right])
    }

    /// The operands of AND or OR: a chain is one list, however long.
    fn junction(&mut self, chain: &ast::BooleanChain, name: &str, place: Place<'_>) -> Result<Vec<Expr>> {
        chain.operands.iter().map(|operand| self.boolean(operand, name, place)).collect()
    }

    fn cast(&mut self, cast: &ast::Cast, place: Place<'_>) -> Result<Expr> {
        let target = self.statement.typing.type_named(&cast.ty)?;
        // ARRAY[...]::type[] gives its elements their type, and an empty array its own.
        if let (ast::Expr::Array(array), Some(element)) = (&cast.operand, target.ty.element()) {
            let element_type = ColumnType { ty: element, modifier: target.modifier };
            let mut items = Vec::with_capacity(array.elements.len());
            for item in &array.elements {
                let item = self.bind(item, place)?;
                if item.ty.ty.element().is_some() {
                    let what = format!("an array of {}", format_type(item.ty.ty, None));
                    return Err(SqlError::unsupported(what));
                }
                items.push(self.statement.typing.explicit(item, element_type)?);
            }
            return self.statement.typing.array_of(items, element, "ARRAY");
        }
        let arg = self.bind(&cast.operand, place)?;
        self.statement.typing.explicit(arg, target)
    }

    fn collate(&mut self, collate: &ast::Collate, place: Place<'_>) -> Result<Expr> {
        let operand = self.bind(&collate.operand, place)?;
        let ty = Some(operand.ty.ty).filter(|ty| *ty != Type::Unknown);
        check_collation(&collate.collation, ty, collate.position)?;
        Ok(operand)
    }

    fn case(&mut self, case: &ast::Case, place: Place<'_>) -> Result<Expr> {
        let place = Place { in_conditional: Some("CASE"), ..place };
        let operand = case.operand.as_ref().map(|operand| self.bind(operand, place)).transpose()?;
        let operand = operand.map(|operand| self.statement.typing.known(operand)).transpose()?;
        let mut tests = Vec::with_capacity(case.branches.len());
        let mut results = Vec::with_capacity(case.branches.len() + 1);
        for (condition, result) in &case.branches {
            tests.push(match operand {
                Some(_) => self.bind(condition, place)?,
                None => self.boolean(condition, "CASE/WHEN", place)?,
            });
            results.push(self.bind(result, place)?);
        }
        results.push(match &case.otherwise {
            Some(otherwise) => self.bind(otherwise, place)?,
            None => Expr::constant(Datum::Null, Type::Unknown),
        });
        // PostgreSQL counts ELSE first.
        results.rotate_right(1);
        let ty = self.common_type(&results, "CASE", |at| match at.checked_sub(1) {
            Some(branch) => case.branches.get(branch).map(|(_, result)| result),
            None => case.otherwise.as_ref(),
        })?;
        results.rotate_left(1);
        let mut results = self.statement.typing.all_to(results, ty, "CASE")?;
        let Some(otherwise) = results.pop().map(Box::new) else { return Err(row_expected()) };
        let result_type = otherwise.ty;
        let build = |tests: Vec<Expr>, results: Vec<Expr>, otherwise: Box<Expr>| Expr {
            kind: ExprKind::Case { arms: tests.into_iter().zip(results).collect(), otherwise },
            ty: ColumnType { ty, modifier: if result_type.ty == ty { -1 } else { result_type.modifier } },
        };
        match operand {
            None => Ok(build(tests, results, otherwise)),
            Some(operand) => {
                let (held, operand) = self.statement.hold(operand)?;
                let tests = tests
                    .into_iter()
                    .map(|test| self.statement.typing.operator("=", vec![operand.clone(), test]))
                    .collect::<Result<_>>()?;
                Ok(held.around(build(tests, results, otherwise)))
            }
        }
    }

    fn array(&mut self, elements: &[ast::Expr], place: Place<'_>) -> Result<Expr> {
        let items = self.bind_all(elements, place)?;
        if items.is_empty() {
            return Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                "cannot determine type of empty array",
            )
            .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let ty = self.common_type(&items, "ARRAY", |at| elements.get(at))?;
        self.statement.typing.array_of(items, ty, "ARRAY")
    }

    /// The type that bound expressions share; an error is about the first that does not fit, which `written` has in the
    /// statement.
    pub fn common_type<'q>(
        &mut self,
        bound: &[Expr],
        what: &str,
        written: impl Fn(usize) -> Option<&'q ast::Expr>,
    ) -> Result<Type> {
        let typing = &mut self.statement.typing;
        typing.common_type(bound, what).map_err(|error| {
            // So many of the first ones fit, and no more.
            let (mut fits, mut fails) = (0, bound.len());
            while fits + 1 < fails {
                let middle = (fits + fails) / 2;
                match typing.common_type(&bound[..middle], what) {
                    Ok(_) => fits = middle,
                    Err(_) => fails = middle,
                }
            }
            match written(fits) {
                Some(expr) => at_expr(error, expr),
                None => error,
            }
        })
    }

    fn exists(&mut self, query: &ast::Query, place: Place<'_>) -> Result<Expr> {
        let (bound, _) = self.subqueries.subquery(self.statement, query, place, Some(Asked::Existence))?;
        let plan = prune(bound.plan, &BTreeSet::new(), &mut self.statement.numbers.cte_columns);
        let bound = Subquery { kind: SubqueryKind::Exists, plan, ..bound };
        Ok(Expr::new(ExprKind::Subquery(Box::new(bound)), Type::Bool))
    }
}

/// Binds a subquery as a row: an expression of each of its columns.
pub fn columns_of(
    binder: &mut ExpressionBinder<'_, '_>,
    query: &ast::Query,
    place: Place<'_>,
) -> Result<Vec<Expr>> {
    let (bound, types) = binder.subqueries.subquery(binder.statement, query, place, None)?;
    let row = Subquery { kind: SubqueryKind::Row, keyed: None, ..bound };
    let record = Expr::new(ExprKind::Subquery(Box::new(row)), Type::Record);
    let column = |(index, ty)| Expr { kind: ExprKind::Field { record: Box::new(record.clone()), index }, ty };
    Ok(types.into_iter().enumerate().map(column).collect())
}

fn negate_if(expr: Expr, negated: bool) -> Expr {
    match negated {
        true => Expr::new(ExprKind::Not(Box::new(expr)), Type::Bool),
        false => expr,
    }
}

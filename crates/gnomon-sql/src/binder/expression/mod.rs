//! Expressions: from syntax trees to typed expressions.
//!
//! An expression takes names from the scopes of its place, types from [`Typing`](super::typing::Typing), and queries
//! within it from [`Subqueries`]. It knows neither FROM nor WITH nor the catalog.

mod access;
mod aggregate;
mod call;
mod compare;
mod window;

use std::collections::BTreeSet;

use sqlparser::ast::{
    self, BinaryOperator, CeilFloorKind, DateTimeField, UnaryOperator, Value, ValueWithSpan,
};

use super::{
    located::at_expr,
    scope::{Clause, Place, ScopeColumn, is_system_column, unsupported_column},
    statement::Statement,
    syntax::{
        as_row, field_name, interval_range, is_keyword_function, name_of, name_parts, operator_name,
        trim_function, unnested,
    },
    typing::{row_expected, row_operator},
};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind, on_deep_stack},
    },
    planner::prune,
    types::{ColumnType, Datum, Type, column_type, datetime::IntervalRange},
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
}

/// The question that is asked of a subquery whose rows may be told apart by keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Existence of rows.
    Existence,
    /// Its rows, in any order and number.
    Rows,
}

impl ExpressionBinder<'_, '_> {
    /// Binds an expression. Literals and parameters whose type their place must decide stay [`Type::Unknown`].
    pub fn bind(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        self.statement.enter_expression()?;
        let bound = on_deep_stack(|| self.bind_inner(expr, place)).map_err(|error| at_expr(error, expr))?;
        self.statement.leave_expression();
        Ok(bound)
    }

    /// Binds an expression that must be boolean.
    pub fn bind_condition(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        let what = match place.clause {
            Clause::JoinOn => "JOIN/ON",
            clause => clause.name(),
        };
        let bound = self.bind(expr, place)?;
        let mut bound = self.statement.typing.boolean(bound, what).map_err(|error| at_expr(error, expr))?;
        if !matches!(place.clause, Clause::Having) {
            bound.fold();
        }
        Ok(bound)
    }

    fn bind_inner(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.bind(inner, place),
            E::Identifier(ident) if is_keyword_function(ident) => {
                self.statement.typing.keyword_function(&name_of(ident))
            }
            E::Identifier(ident) => {
                let name = name_of(ident);
                if let Some(column) = place.scope.column(&name, &mut self.statement.numbers)? {
                    if let Some(expansions) = &mut self.statement.expansions {
                        expansions.column(expr, &name, place.scope);
                    }
                    return Ok(column.expr);
                }
                if let Some(columns) = place.scope.whole_relation(None, &name, &mut self.statement.numbers)? {
                    return Ok(whole_row(columns));
                }
                if let Some(parameter) = self.statement.typing.parameters.named(None, &name) {
                    return Ok(parameter);
                }
                if is_system_column(&name) && !place.scope.relations.is_empty() {
                    return Err(unsupported_column(&name));
                }
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
            }
            E::CompoundIdentifier(idents) => self.compound(idents, place),
            E::Value(value) => self.literal(value),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, place),
            E::UnaryOp { op, expr } => self.unary(*op, expr, place),
            E::Cast { expr, data_type, kind, format: None } => {
                if !matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) {
                    return Err(SqlError::unsupported("TRY_CAST"));
                }
                self.cast(expr, data_type, place)
            }
            E::TypedString(ast::TypedString { data_type, value, .. }) => {
                let text = self.literal(value)?;
                let ty = column_type(data_type)?;
                self.statement.typing.explicit(text, ty)
            }
            E::Function(function) => self.function_call(function, place),
            E::IsNull(arg) | E::IsNotNull(arg) => {
                let arg = self.bind(arg, place)?;
                let arg = self.statement.typing.of_any_type(arg)?;
                let negated = matches!(expr, E::IsNotNull(_));
                Ok(Expr::new(ExprKind::IsNull { arg: Box::new(arg), negated }, Type::Bool))
            }
            E::IsTrue(arg) => self.is_bool(arg, Some(true), false, "IS TRUE", place),
            E::IsNotTrue(arg) => self.is_bool(arg, Some(true), true, "IS NOT TRUE", place),
            E::IsFalse(arg) => self.is_bool(arg, Some(false), false, "IS FALSE", place),
            E::IsNotFalse(arg) => self.is_bool(arg, Some(false), true, "IS NOT FALSE", place),
            E::IsUnknown(arg) => self.is_bool(arg, None, false, "IS UNKNOWN", place),
            E::IsNotUnknown(arg) => self.is_bool(arg, None, true, "IS NOT UNKNOWN", place),
            E::IsDistinctFrom(left, right) => self.distinct(left, right, false, place),
            E::IsNotDistinctFrom(left, right) => self.distinct(left, right, true, place),
            E::Between { expr, negated, low, high } => {
                let value = self.bind(expr, place)?;
                let low = self.bind(low, place)?;
                let (first, second) = if *negated { ("<", ">") } else { (">=", "<=") };
                let (held, value) = self.statement.hold(value)?;
                let low = self.statement.typing.operator(first, vec![value.clone(), low])?;
                // PostgreSQL binds the value for each bound, so the first one decides the type of a parameter.
                let value = match value.kind {
                    ExprKind::Param(position) => self.statement.typing.parameters.at(position),
                    _ => value,
                };
                let high = self.bind(high, place)?;
                let high = self.statement.typing.operator(second, vec![value, high])?;
                Ok(held.around(match negated {
                    true => Expr::any_of(vec![low, high]),
                    false => Expr::all_of(vec![low, high]),
                }))
            }
            E::Like { negated, any: false, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~" } else { "~~" };
                self.like(operator, expr, pattern, escape_char.as_deref(), place)
            }
            E::ILike { negated, any: false, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~*" } else { "~~*" };
                self.like(operator, expr, pattern, escape_char.as_deref(), place)
            }
            E::SimilarTo { negated, expr, pattern, escape_char } => {
                let value = self.bind(expr, place)?;
                let mut args = vec![self.bind(pattern, place)?];
                if let Some(escape) = escape_char {
                    args.push(self.bind(escape, place)?);
                }
                let pattern = self.statement.typing.call("similar_to_escape", args)?;
                self.statement.typing.operator(if *negated { "!~" } else { "~" }, vec![value, pattern])
            }
            E::InList { expr, list, negated } => {
                let bound = self.in_list(expr, list, place)?;
                Ok(negate_if(bound, *negated))
            }
            E::InSubquery { expr, subquery, negated } => {
                let bound = self.quantified(expr, "=", subquery, false, place)?;
                Ok(negate_if(bound, *negated))
            }
            E::AnyOp { left, compare_op, right, .. } => self.any_all(left, compare_op, right, false, place),
            E::AllOp { left, compare_op, right } => self.any_all(left, compare_op, right, true, place),
            E::Exists { subquery, negated } => {
                let (bound, _) =
                    self.subqueries.subquery(self.statement, subquery, place, Some(Asked::Existence))?;
                let plan = prune(bound.plan, &BTreeSet::new(), &mut self.statement.numbers.cte_columns);
                let bound = Expr::new(
                    ExprKind::Subquery(Box::new(Subquery { kind: SubqueryKind::Exists, plan, ..bound })),
                    Type::Bool,
                );
                Ok(negate_if(bound, *negated))
            }
            E::Subquery(query) => {
                let (bound, columns) = self.subqueries.subquery(self.statement, query, place, None)?;
                let [ty] = columns[..] else { return Err(one_column()) };
                Ok(Expr { kind: ExprKind::Subquery(Box::new(bound)), ty })
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), place)
            }
            E::Tuple(items) => {
                let items = items.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
                self.statement.typing.row(items)
            }
            E::Array(array) => {
                let items =
                    array.elem.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
                if items.is_empty() {
                    return Err(SqlError::new(
                        SqlState::INDETERMINATE_DATATYPE,
                        "cannot determine type of empty array",
                    )
                    .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
                }
                let ty = self.statement.typing.common_type(&items, "ARRAY")?;
                self.statement.typing.array_of(items, ty, "ARRAY")
            }
            E::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, place),
            E::Collate { expr, collation } => {
                let parts = name_parts(collation)?;
                match parts.last().map(String::as_str) {
                    Some("default" | "C" | "POSIX" | "ucs_basic") => self.bind(expr, place),
                    _ => Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("collation \"{}\" for encoding \"UTF8\" does not exist", parts.join(".")),
                    )),
                }
            }
            E::AtTimeZone { timestamp, time_zone } => {
                let zone = self.bind(time_zone, place)?;
                let time = self.bind(timestamp, place)?;
                self.statement.typing.call("timezone", vec![zone, time])
            }
            E::Extract { field, expr, .. } => {
                let field = Expr::constant(Datum::Text(field_name(field).into()), Type::Text);
                let value = self.bind(expr, place)?;
                self.statement.typing.call("extract", vec![field, value])
            }
            E::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let arg = self.bind(expr, place)?;
                self.statement.typing.call("ceil", vec![arg])
            }
            E::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let arg = self.bind(expr, place)?;
                self.statement.typing.call("floor", vec![arg])
            }
            E::Position { expr, r#in } => {
                let part = self.bind(expr, place)?;
                let whole = self.bind(r#in, place)?;
                self.statement.typing.call("position", vec![whole, part])
            }
            E::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let mut args = vec![self.bind(expr, place)?];
                match substring_from {
                    Some(from) => args.push(self.bind(from, place)?),
                    None => args.push(Expr::constant(Datum::Int4(1), Type::Int4)),
                }
                if let Some(length) = substring_for {
                    args.push(self.bind(length, place)?);
                }
                self.statement.typing.call(if *shorthand { "substr" } else { "substring" }, args)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters } => {
                let mut args = vec![self.bind(expr, place)?];
                let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                for what in what {
                    args.push(self.bind(what, place)?);
                }
                self.statement.typing.call(trim_function(trim_where.as_ref()), args)
            }
            E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = Vec::new();
                for part in [expr, overlay_what, overlay_from].into_iter().chain(overlay_for) {
                    args.push(self.bind(part, place)?);
                }
                self.statement.typing.call("overlay", args)
            }
            E::Interval(interval) => self.interval(interval, place),
            _ => Err(SqlError::unsupported(format!("the expression {expr}"))),
        }
    }

    pub fn compound(&mut self, idents: &[ast::Ident], place: Place<'_>) -> Result<Expr> {
        let names: Vec<String> = idents.iter().map(name_of).collect();
        let (schema, relation, column) = match &names[..] {
            [relation, column] => (None, relation, column),
            [schema, relation, column] => (Some(schema.as_str()), relation, column),
            [database, schema, relation, column] if database == self.statement.database => {
                (Some(schema.as_str()), relation, column)
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("cross-database references are not implemented: {}", names.join(".")),
                ));
            }
        };
        match place.scope.qualified(schema, relation, column, &mut self.statement.numbers)? {
            Some(column) => Ok(column.expr),
            None => {
                let parameter = if schema.is_none() {
                    self.statement.typing.parameters.named(Some(relation), column)
                } else {
                    None
                };
                parameter.ok_or_else(|| place.scope.missing_relation(relation))
            }
        }
    }

    /// A literal or a parameter.
    fn literal(&mut self, value: &ValueWithSpan) -> Result<Expr> {
        let text = |text: &str| Ok(Expr::constant(Datum::Text(text.into()), Type::Unknown));
        match &value.value {
            Value::Number(digits, _) => self.statement.typing.number(digits),
            Value::SingleQuotedString(s)
            | Value::EscapedStringLiteral(s)
            | Value::UnicodeStringLiteral(s)
            | Value::NationalStringLiteral(s) => text(s),
            Value::DollarQuotedString(s) => text(&s.value),
            Value::Boolean(value) => Ok(Expr::bool(*value)),
            Value::Null => Ok(Expr::constant(Datum::Null, Type::Unknown)),
            Value::Placeholder(name) => {
                self.statement.typing.parameters.numbered(name).map_err(|error| error.at(value.span))
            }
            other => Err(SqlError::unsupported(format!("the literal {other}"))),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        place: Place<'_>,
    ) -> Result<Expr> {
        match op {
            BinaryOperator::And | BinaryOperator::Or => return self.junction(left, op, right, place),
            BinaryOperator::Overlaps => return Err(SqlError::unsupported("OVERLAPS")),
            _ => {}
        }
        let name = operator_name(op)?;
        if let (Some(operator), Some(left), Some(right)) = (row_operator(&name), as_row(left), as_row(right))
        {
            let left = left.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
            let right = right.iter().map(|item| self.bind(item, place)).collect::<Result<Vec<_>>>()?;
            return self.statement.typing.compare_rows(operator, left, right);
        }
        if let (Some(operator), Some(left), ast::Expr::Subquery(query)) =
            (row_operator(&name), as_row(left), unnested(right))
        {
            return self.compare_with_subquery(operator, &left, query, place);
        }
        let left = self.bind(left, place)?;
        let right = self.bind(right, place)?;
        self.statement.typing.operator(&name, vec![left, right])
    }

    /// AND and OR: a chain of one of them becomes one list, however long.
    fn junction(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        place: Place<'_>,
    ) -> Result<Expr> {
        let mut operands = vec![right];
        let mut rest = left;
        while let ast::Expr::BinaryOp { left, op: inner, right } = rest
            && inner == op
        {
            operands.push(right);
            rest = left;
        }
        operands.push(rest);
        let name = if *op == BinaryOperator::And { "AND" } else { "OR" };
        let mut args = Vec::with_capacity(operands.len());
        for operand in operands.into_iter().rev() {
            let bound = self.bind(operand, place)?;
            args.push(self.statement.typing.boolean(bound, name).map_err(|error| at_expr(error, operand))?);
        }
        Ok(match op {
            BinaryOperator::And => Expr::all_of(args),
            _ => Expr::any_of(args),
        })
    }

    fn unary(&mut self, op: UnaryOperator, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        if op == UnaryOperator::Not {
            let arg = self.bind(expr, place)?;
            let arg = self.statement.typing.boolean(arg, "NOT")?;
            return Ok(Expr::new(ExprKind::Not(Box::new(arg)), Type::Bool));
        }
        // The smallest integers are literals only together with their sign.
        if op == UnaryOperator::Minus
            && let ast::Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = expr
        {
            return self.statement.typing.number(&format!("-{digits}"));
        }
        let name = match op {
            UnaryOperator::Minus => "-",
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::PGPrefixFactorial => "!!",
            other => return Err(SqlError::unsupported(format!("the operator {other}"))),
        };
        let arg = self.bind(expr, place)?;
        self.statement.typing.operator(name, vec![arg])
    }

    fn cast(&mut self, expr: &ast::Expr, data_type: &ast::DataType, place: Place<'_>) -> Result<Expr> {
        let target = column_type(data_type)?;
        // ARRAY[...]::type[] gives its elements their type, and an empty array its own.
        if let (ast::Expr::Array(array), Some(element)) = (unnested(expr), target.ty.element()) {
            let element_type = ColumnType { ty: element, modifier: target.modifier };
            let mut items = Vec::with_capacity(array.elem.len());
            for item in &array.elem {
                let item = self.bind(item, place)?;
                items.push(self.statement.typing.explicit(item, element_type)?);
            }
            return self.statement.typing.array_of(items, element, "ARRAY");
        }
        let arg = self.bind(expr, place)?;
        self.statement.typing.explicit(arg, target)
    }

    fn is_bool(
        &mut self,
        arg: &ast::Expr,
        value: Option<bool>,
        negated: bool,
        what: &str,
        place: Place<'_>,
    ) -> Result<Expr> {
        let arg = self.bind(arg, place)?;
        let arg = Box::new(self.statement.typing.boolean(arg, what)?);
        Ok(Expr::new(ExprKind::IsBool { arg, value, negated }, Type::Bool))
    }

    fn distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        place: Place<'_>,
    ) -> Result<Expr> {
        let left = self.bind(left, place)?;
        let right = self.bind(right, place)?;
        let is_null = |expr: &Expr| matches!(expr.kind, ExprKind::Const(Datum::Null));
        if is_null(&left) || is_null(&right) {
            let arg = Box::new(if is_null(&right) { left } else { right });
            return Ok(Expr::new(ExprKind::IsNull { arg, negated: !negated }, Type::Bool));
        }
        let (equal, args) = self.statement.typing.comparison("=", left, right)?;
        Ok(Expr::new(ExprKind::Distinct { equal, args: args.into(), negated }, Type::Bool))
    }

    fn like(
        &mut self,
        operator: &str,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        place: Place<'_>,
    ) -> Result<Expr> {
        let value = self.bind(expr, place)?;
        let mut pattern = self.bind(pattern, place)?;
        if let Some(escape) = escape {
            let escape = self.bind(escape, place)?;
            pattern = self.statement.typing.call("like_escape", vec![pattern, escape])?;
        }
        self.statement.typing.operator(operator, vec![value, pattern])
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        place: Place<'_>,
    ) -> Result<Expr> {
        let operand = operand.map(|operand| self.bind(operand, place)).transpose()?;
        let operand = operand.map(|operand| self.statement.typing.known(operand)).transpose()?;
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for arm in conditions {
            let test = self.bind(&arm.condition, place)?;
            tests.push(match operand {
                Some(_) => test,
                None => self.statement.typing.boolean(test, "CASE/WHEN")?,
            });
            results.push(self.bind(&arm.result, place)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.bind(otherwise, place)?,
            None => Expr::constant(Datum::Null, Type::Unknown),
        });
        // PostgreSQL counts ELSE first.
        results.rotate_right(1);
        let ty = self.statement.typing.common_type(&results, "CASE")?;
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

    fn interval(&mut self, interval: &ast::Interval, place: Place<'_>) -> Result<Expr> {
        let value = self.bind(&interval.value, place)?;
        let range = match (&interval.leading_field, &interval.last_field) {
            (None, _) => Some(IntervalRange::ALL),
            (Some(first), None) => interval_range(first, first),
            (Some(first), Some(last)) => interval_range(first, last),
        };
        let range = range
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "invalid fields of an interval literal"))?;
        let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
        let precision = precision.map(|digits| u8::try_from(digits.min(6)).unwrap_or(6));
        self.statement
            .typing
            .explicit(value, ColumnType { ty: Type::Interval, modifier: range.modifier(precision) })
    }
}

fn negate_if(expr: Expr, negated: bool) -> Expr {
    match negated {
        true => Expr::new(ExprKind::Not(Box::new(expr)), Type::Bool),
        false => expr,
    }
}

/// A relation's row as one value.
fn whole_row(columns: Vec<ScopeColumn>) -> Expr {
    let items = columns.into_iter().map(|column| column.expr).collect();
    Expr::new(ExprKind::Row(items), Type::Record)
}

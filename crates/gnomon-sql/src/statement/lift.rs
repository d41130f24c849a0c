//! Literals of a statement as parameters, so that one plan serves texts that differ in their literals only.
//!
//! A literal becomes a parameter where the statement means the same with one: as an operand beside something that is no
//! constant, in BETWEEN and a short IN list, under `::`, as a value of INSERT's VALUES and of SET, and as an argument of
//! CALL. A number gives its parameter its type; the place of a string decides its parameter's type, by the same rules as
//! the string's. Other literals stay: those that are positions (ORDER BY 1), that a constant is computed of, that a plan
//! is made by (LIKE, LIMIT), and the arguments of functions.

use std::ops::ControlFlow;

use gnomon_parser::{
    ast::{
        Assignment, Constant, Distinct, Expr, InSet, Parameter, Query, QueryBody, Select, Statement, Value,
    },
    literals::{Literal, LiteralKind, NormalizedText},
    visit::VisitorMut,
};

use crate::{
    Result,
    types::{self, ColumnType, Context, Datum, Type},
};

/// A longer IN list keeps its literals: as constants they are hashed once for all runs.
const LIST_MAX: usize = 16;

/// A literal that has become a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifted {
    /// Its place among the literals of the text.
    literal: usize,
    /// True if the minus before it belongs to it.
    is_negative: bool,
}

/// The literals of a statement that have become its parameters.
#[derive(Clone, Debug)]
pub(crate) struct LiftedLiterals {
    lifted: Vec<Lifted>,
    /// True for each literal of the text that is among them.
    is_lifted: Vec<bool>,
    /// The types of the parameters; unknown where the place of a string decides.
    pub(crate) types: Vec<Type>,
}

impl LiftedLiterals {
    /// Makes parameters of literals of a statement without parameters, whose text has been normalized.
    pub(crate) fn lift(statement: &mut Statement, literals: &[Literal]) -> LiftedLiterals {
        let mut lifter = Lifter { literals, found: LiftedLiterals::none(literals) };
        lifter.statement(statement);
        lifter.found
    }

    /// Leaves the literals of a statement as they are.
    pub(crate) fn none(literals: &[Literal]) -> LiftedLiterals {
        LiftedLiterals { lifted: Vec::new(), is_lifted: vec![false; literals.len()], types: Vec::new() }
    }

    /// True if a text has as many literals as the statement's.
    pub(crate) fn fit(&self, text: &NormalizedText) -> bool {
        self.is_lifted.len() == text.literals.len()
    }

    /// Returns the literals that have stayed in the statement, as they are written in a text.
    pub(crate) fn left<'t>(&self, sql: &'t str, text: &NormalizedText) -> impl Iterator<Item = &'t str> {
        let literals = text.literals.iter().zip(&self.is_lifted);
        literals.filter_map(|(literal, is_lifted)| match is_lifted {
            true => None,
            false => sql.get(literal.range.clone()),
        })
    }

    /// Returns the values of the parameters in a text, as `types` of a plan.
    ///
    /// # Errors
    /// Those of a literal that is no value of its type.
    pub(crate) fn values(
        &self,
        context: &Context<'_>,
        sql: &str,
        text: &NormalizedText,
        types: &[Type],
    ) -> Result<Vec<Datum>> {
        let value = |(lifted, ty): (&Lifted, &Type)| {
            let written = text.literals.get(lifted.literal).and_then(|literal| literal.value(sql));
            let written = match lifted.is_negative {
                true => format!("-{}", written.unwrap_or_default()),
                false => written.unwrap_or_default(),
            };
            types::text::input(context, &written, ColumnType { ty: *ty, modifier: -1 })
        };
        self.lifted.iter().zip(types).map(value).collect()
    }
}

struct Lifter<'a> {
    literals: &'a [Literal],
    found: LiftedLiterals,
}

impl Lifter<'_> {
    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Insert(insert) => {
                if let Some(Query { body: QueryBody::Values(values), .. }) = insert.source.as_deref_mut() {
                    values.rows.iter_mut().flatten().for_each(|value| self.lift(value));
                }
                if let Some(update) =
                    insert.on_conflict.as_deref_mut().and_then(|conflict| conflict.update.as_mut())
                {
                    self.assignments(&mut update.assignments);
                }
            }
            Statement::Update(update) => self.assignments(&mut update.assignments),
            Statement::Call(call) => {
                call.arguments.iter_mut().for_each(|argument| self.lift(&mut argument.value));
            }
            _ => {}
        }
        let ControlFlow::Continue(()) = self.walk_statement(statement);
    }

    fn assignments(&mut self, assignments: &mut [Assignment]) {
        for assignment in assignments {
            match assignment {
                Assignment::One(target, value) if target.path.is_empty() => self.lift(value),
                Assignment::One(..) | Assignment::Row { .. } => {}
            }
        }
    }

    /// Makes a parameter of an expression that is a literal.
    fn lift(&mut self, expr: &mut Expr) {
        if let Expr::Constant(constant) = expr
            && let Some(parameter) = self.parameter(constant)
        {
            *expr = Expr::Parameter(parameter);
        }
    }

    /// Makes a parameter of an operand that is a literal; of a row, of those of its fields that are, unless fields of
    /// the other row are constants too: two of them may be compared once for all.
    fn lift_beside(&mut self, other: &Expr, expr: &mut Expr) {
        match (expr, other) {
            (Expr::Row(row), Expr::Row(other)) if !other.fields.iter().any(is_constant) => {
                row.fields.iter_mut().for_each(|field| self.lift(field));
            }
            (expr, _) => self.lift(expr),
        }
    }

    fn parameter(&mut self, constant: &Constant) -> Option<Parameter> {
        if !matches!(constant.value, Value::Integer(_) | Value::Number(_) | Value::String(_)) {
            return None;
        }
        let position = constant.position.byte()?;
        // The literal itself, or the one behind the minus.
        let number = self.literals.partition_point(|literal| literal.range.start < position);
        let literal = self.literals.get(number)?;
        let is_negative = literal.stands_at(constant.position)?;
        self.found.is_lifted[number] = true;
        self.found.lifted.push(Lifted { literal: number, is_negative });
        self.found.types.push(match literal.kind {
            LiteralKind::Integer => Type::Int4,
            LiteralKind::Bigint => Type::Int8,
            LiteralKind::Numeric => Type::Numeric,
            LiteralKind::String | LiteralKind::EscapeString => Type::Unknown,
        });
        let parameters = u32::try_from(self.found.lifted.len()).unwrap_or(u32::MAX);
        Some(Parameter { number: parameters, position: constant.position })
    }
}

/// True if an expression consists of constants.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Constant(_) => true,
        Expr::Cast(cast) => is_constant(&cast.operand),
        Expr::Collate(collate) => is_constant(&collate.operand),
        Expr::Operation(operation) => {
            operation.left.as_ref().is_none_or(is_constant) && is_constant(&operation.right)
        }
        Expr::Row(row) => row.fields.iter().all(is_constant),
        Expr::Function(call) => call.arguments.iter().all(|argument| is_constant(&argument.value)),
        _ => false,
    }
}

impl VisitorMut for Lifter<'_> {
    type Break = std::convert::Infallible;

    /// Leaves ORDER BY and LIMIT out.
    fn visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(with) = &mut query.with {
            self.walk_with(with)?;
        }
        self.walk_body(&mut query.body)
    }

    /// Of a query with groups, only what its rows are made of: expressions must stay equal to those of GROUP BY.
    fn visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if select.group_by.is_empty() && select.distinct == Distinct::No {
            self.walk_targets(&mut select.targets)?;
        }
        for table in &mut select.from {
            self.visit_table(table)?;
        }
        self.walk_optional(&mut select.filter)
    }

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if is_constant(expr) {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Operation(operation) => {
                if let Some(left) = &mut operation.left {
                    self.lift_beside(left, &mut operation.right);
                    self.lift_beside(&operation.right, left);
                }
            }
            Expr::Between(between) => {
                self.lift_beside(&between.operand, &mut between.low);
                self.lift_beside(&between.operand, &mut between.high);
            }
            Expr::In(test) => match &mut test.set {
                InSet::List(list) if list.len() <= LIST_MAX => {
                    list.iter_mut().for_each(|item| self.lift_beside(&test.operand, item));
                }
                InSet::List(_) => return self.visit_expr(&mut test.operand),
                InSet::Query(_) => {}
            },
            // Only a part of what they have may be changed.
            Expr::Like(like) => return self.visit_expr(&mut like.operand),
            Expr::Function(call) if call.over.is_some() => return ControlFlow::Continue(()),
            _ => {}
        }
        self.walk_expr(expr)
    }
}

//! Expressions.

use super::{Ident, OperatorName, QualifiedName, Query, SortBy, TypeName, WindowDefinition};
use crate::Position;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "a variant has the name of its struct")]
#[non_exhaustive]
pub enum Expr {
    Column(ColumnReference),
    Constant(Constant),
    Parameter(Parameter),
    /// DEFAULT in VALUES and SET.
    Default(Position),
    Indirection(Box<Indirection>),
    Operation(Box<Operation>),
    Quantified(Box<Quantified>),
    /// A chain of ANDs, as one list.
    And(Box<BooleanChain>),
    /// A chain of ORs, as one list.
    Or(Box<BooleanChain>),
    Not(Box<Not>),
    IsNull(Box<IsNull>),
    IsBoolean(Box<IsBoolean>),
    IsDistinct(Box<IsDistinct>),
    In(Box<In>),
    Like(Box<Like>),
    Between(Box<Between>),
    Cast(Box<Cast>),
    Collate(Box<Collate>),
    Case(Box<Case>),
    Row(Row),
    Array(ArrayConstructor),
    Subquery(Box<Subquery>),
    Exists(Box<Subquery>),
    /// ARRAY(SELECT ...).
    ArraySubquery(Box<Subquery>),
    Function(Box<FunctionCall>),
    SystemValue(SystemValue),
    Coalesce(ExprList),
    Greatest(ExprList),
    Least(ExprList),
    NullIf(Box<NullIf>),
    Grouping(ExprList),
}

/// A reference to a column, or to all columns.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnReference {
    /// The names from left to right; empty for a lone star.
    pub fields: Vec<Ident>,
    /// True if `*` stands at the end.
    pub has_star: bool,
    /// Where it begins.
    pub position: Position,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Constant {
    pub value: Value,
    pub position: Position,
}

/// The value of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// TRUE, FALSE.
    Boolean(bool),
    /// A number without a point that fits into 32 bits.
    Integer(i32),
    /// Another number, as it is written.
    Number(Box<str>),
    /// A string, decoded.
    String(Box<str>),
    /// The digits of `B'...'`.
    Bits(Box<str>),
    /// The digits of `X'...'`.
    Hex(Box<str>),
}

/// `$n`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Parameter {
    pub number: u32,
    pub position: Position,
}

/// A part of a value: `base.field`, `base[1]`, `base[1:2]`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Indirection {
    pub base: Expr,
    pub path: Vec<Access>,
}

/// A step of an indirection.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum Access {
    Field(Ident),
    /// `.*`
    Star,
    Subscript(Expr),
    Slice(Option<Expr>, Option<Expr>),
}

/// An operator with one or two operands.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Operation {
    pub operator: OperatorName,
    /// None for a prefix.
    pub left: Option<Expr>,
    pub right: Expr,
}

/// `left operator ANY (...)`, with ANY, SOME or ALL.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Quantified {
    pub left: Expr,
    /// LIKE and ILIKE are `~~` and `~~*`, and their negations `!~~` and `!~~*`.
    pub operator: OperatorName,
    pub is_all: bool,
    pub right: QuantifiedOperand,
}

/// The values that a quantified comparison goes through.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum QuantifiedOperand {
    Query(Box<Query>),
    Array(Expr),
}

/// Operands that AND or OR connects.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct BooleanChain {
    /// At least two.
    pub operands: Vec<Expr>,
    /// Of the first operator.
    pub position: Position,
}

/// NOT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Not {
    pub operand: Expr,
    pub position: Position,
}

/// `IS [NOT] NULL`, `ISNULL`, `NOTNULL`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct IsNull {
    pub operand: Expr,
    pub is_negated: bool,
    pub position: Position,
}

/// `IS [NOT] TRUE`, `FALSE` or `UNKNOWN`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct IsBoolean {
    pub operand: Expr,
    /// None for UNKNOWN.
    pub value: Option<bool>,
    pub is_negated: bool,
    pub position: Position,
}

/// `IS [NOT] DISTINCT FROM`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct IsDistinct {
    pub left: Expr,
    pub right: Expr,
    pub is_negated: bool,
    pub position: Position,
}

/// `[NOT] IN`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct In {
    pub operand: Expr,
    pub is_negated: bool,
    pub set: InSet,
    pub position: Position,
}

/// The values of IN.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum InSet {
    List(Vec<Expr>),
    Query(Box<Query>),
}

/// `[NOT] LIKE`, `ILIKE` or `SIMILAR TO`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Like {
    pub kind: LikeKind,
    pub is_negated: bool,
    pub operand: Expr,
    pub pattern: Expr,
    pub escape: Option<Expr>,
    pub position: Position,
}

impl Like {
    /// Returns the operator that stands for the test, whose right operand is a pattern of LIKE or a regular expression.
    pub fn operator(&self) -> &'static str {
        match (self.kind, self.is_negated) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::Ilike, false) => "~~*",
            (LikeKind::Ilike, true) => "!~~*",
            (LikeKind::Similar, false) => "~",
            (LikeKind::Similar, true) => "!~",
        }
    }
}

/// The language of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their operators")]
pub enum LikeKind {
    Like,
    Ilike,
    Similar,
}

/// `[NOT] BETWEEN [SYMMETRIC]`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Between {
    pub operand: Expr,
    pub low: Expr,
    pub high: Expr,
    pub is_negated: bool,
    pub is_symmetric: bool,
    pub position: Position,
}

/// CAST, `::`, or a type before a string.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Cast {
    pub operand: Expr,
    pub ty: TypeName,
    /// Of `::` or CAST; of a type before a string, none: the type has it.
    pub position: Position,
}

/// COLLATE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Collate {
    pub operand: Expr,
    pub collation: QualifiedName,
    pub position: Position,
}

/// CASE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Case {
    pub operand: Option<Expr>,
    /// Conditions and their results.
    pub branches: Vec<(Expr, Expr)>,
    pub otherwise: Option<Expr>,
    pub position: Position,
}

/// ROW(...), or (a, b).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Row {
    pub fields: Vec<Expr>,
    /// True with the word ROW.
    pub is_explicit: bool,
    pub position: Position,
}

/// ARRAY[...].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct ArrayConstructor {
    pub elements: Vec<Expr>,
    pub position: Position,
}

/// A query as an expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Subquery {
    pub query: Query,
    pub position: Position,
}

/// Expressions of a construct.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct ExprList {
    pub operands: Vec<Expr>,
    pub position: Position,
}

/// NULLIF.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct NullIf {
    pub left: Expr,
    pub right: Expr,
    pub position: Position,
}

/// A value of the session or of the time, in the standard's words.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct SystemValue {
    pub kind: SystemValueKind,
    pub precision: Option<i32>,
    pub position: Position,
}

/// Which value of the session or of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum SystemValueKind {
    CurrentDate,
    CurrentTime,
    CurrentTimestamp,
    LocalTime,
    LocalTimestamp,
    CurrentRole,
    CurrentUser,
    SessionUser,
    User,
    CurrentCatalog,
    CurrentSchema,
}

/// A call of a function, aggregate or window function.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct FunctionCall {
    pub name: QualifiedName,
    pub arguments: Vec<Argument>,
    /// `f(*)`
    pub has_star: bool,
    pub is_distinct: bool,
    /// The last argument is VARIADIC.
    pub is_variadic: bool,
    /// ORDER BY in the parentheses, or of WITHIN GROUP.
    pub order_by: Vec<SortBy>,
    pub is_within_group: bool,
    pub filter: Option<Expr>,
    pub over: Option<Over>,
    /// True if it was not written as a call, but in the standard's own words (`a AT TIME ZONE b`).
    pub is_sql_syntax: bool,
    pub position: Position,
}

/// An argument of a call, with its name if it was given.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Argument {
    pub name: Option<Ident>,
    pub value: Expr,
}

/// OVER.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum Over {
    Name(Ident),
    Window(Box<WindowDefinition>),
}

impl FunctionCall {
    /// Returns a call without arguments.
    pub fn new(name: QualifiedName, position: Position) -> FunctionCall {
        FunctionCall {
            name,
            arguments: Vec::new(),
            has_star: false,
            is_distinct: false,
            is_variadic: false,
            order_by: Vec::new(),
            is_within_group: false,
            filter: None,
            over: None,
            is_sql_syntax: false,
            position,
        }
    }
}

impl Expr {
    /// Returns the call of a function of the system that the standard has its own words for.
    pub(crate) fn system_call(name: &str, operands: Vec<Expr>, position: Position) -> Expr {
        Expr::Function(Box::new(FunctionCall {
            is_sql_syntax: true,
            arguments: operands.into_iter().map(|value| Argument { name: None, value }).collect(),
            ..FunctionCall::new(QualifiedName::system(name, position), position)
        }))
    }
}

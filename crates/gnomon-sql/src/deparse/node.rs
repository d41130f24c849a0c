//! Expressions as PostgreSQL's analysis leaves them: typed constants, conversions in their places, `IN` and `BETWEEN`
//! written out.

use gnomon_parser::ast::Query;

use crate::types::{ColumnType, Type};

/// An expression.
pub enum Node<'q> {
    /// A column, as it is printed.
    Column(String),
    Constant(Constant),
    /// A word that is a value: CURRENT_DATE, `$1`.
    Word(String),
    Subscript(Box<Node<'q>>, Vec<Subscript<'q>>),
    Field(Box<Node<'q>>, String),
    Call(Box<Call<'q>>),
    /// A call that the standard has its own words for: the function's name and its arguments.
    Syntax(String, Vec<Node<'q>>),
    Cast(Box<Cast<'q>>),
    /// An operator; the left operand of a prefix is none.
    Operation(String, Option<Box<Node<'q>>>, Box<Node<'q>>),
    /// `left operator ANY (array)`, or with ALL.
    Quantified(Box<Quantified<'q>>),
    And(Vec<Node<'q>>),
    Or(Vec<Node<'q>>),
    Not(Box<Node<'q>>),
    /// IS NULL and its like, with the words behind the operand.
    Test(Box<Node<'q>>, &'static str),
    Distinct(Box<Node<'q>>, Box<Node<'q>>),
    RowComparison(String, Vec<Node<'q>>, Vec<Node<'q>>),
    /// COLLATE, with the collation as it is printed.
    Collate(Box<Node<'q>>, String),
    Case(Box<Case<'q>>),
    Array(Vec<Node<'q>>, ColumnType),
    Row(Vec<Node<'q>>),
    /// A construct that looks like a call: COALESCE and its like.
    Construct(&'static str, Vec<Node<'q>>),
    Query(Box<Subquery<'q>>),
}

/// A constant.
pub struct Constant {
    /// Its text; none is NULL.
    pub text: Option<String>,
    /// Its type.
    pub ty: ColumnType,
}

/// A step into an array.
pub enum Subscript<'q> {
    At(Node<'q>),
    Slice(Option<Node<'q>>, Option<Node<'q>>),
}

/// A conversion.
pub struct Cast<'q> {
    pub operand: Node<'q>,
    pub ty: ColumnType,
    /// True if the statement has it; others are shown only where they decide an operator or a function.
    pub is_explicit: bool,
    /// True if a function carries it out.
    pub is_call: bool,
}

/// A call of a function, an aggregate or a window function.
pub struct Call<'q> {
    pub name: String,
    pub arguments: Vec<(Option<String>, Node<'q>)>,
    pub has_star: bool,
    pub is_distinct: bool,
    pub is_variadic: bool,
    pub is_within_group: bool,
    pub order_by: Vec<SortKey<'q>>,
    pub filter: Option<Node<'q>>,
    pub over: Option<Over<'q>>,
}

/// The window of a call.
pub enum Over<'q> {
    Name(String),
    Window(Box<Window<'q>>),
}

/// A window.
pub struct Window<'q> {
    pub base: Option<String>,
    pub partition_by: Vec<Node<'q>>,
    pub order_by: Vec<SortKey<'q>>,
    /// The words of the frame, with its offsets between them.
    pub frame: Vec<FramePart<'q>>,
}

/// A part of a frame clause.
pub enum FramePart<'q> {
    Words(&'static str),
    Offset(Node<'q>),
}

/// A key of ORDER BY.
pub struct SortKey<'q> {
    pub value: Node<'q>,
    /// The words behind it, with a space before.
    pub words: String,
}

/// A comparison with the elements of an array.
pub struct Quantified<'q> {
    pub left: Node<'q>,
    pub operator: String,
    pub is_all: bool,
    pub array: Node<'q>,
    /// The type of the array, if it is a subquery in parentheses.
    pub query_type: Option<Type>,
}

/// CASE.
pub struct Case<'q> {
    pub operand: Option<Node<'q>>,
    pub branches: Vec<(Node<'q>, Node<'q>)>,
    pub otherwise: Node<'q>,
}

/// A query in an expression.
pub struct Subquery<'q> {
    pub kind: SubqueryKind,
    /// The left operand of IN, ANY and ALL, and of a comparison of rows.
    pub left: Vec<Node<'q>>,
    pub query: &'q Query,
}

/// The use of a query in an expression.
pub enum SubqueryKind {
    Scalar,
    Exists,
    Array,
    /// ANY with this operator.
    Any(String),
    /// ALL with this operator.
    All(String),
    /// A row that is compared by this operator.
    Row(String),
}

/// The place of an expression within another one, which decides if it needs parentheses.
#[derive(Clone, Copy)]
pub enum Around<'n> {
    /// An operator; of two operands, if `is_binary` says so; and the first of them, if `is_first` does.
    Operation {
        operator: &'n str,
        is_binary: bool,
        is_first: bool,
    },
    And,
    Or,
    Not,
    Other,
}

impl Node<'_> {
    /// True if it needs no parentheses in a place, where only those are printed that are needed.
    pub fn is_simple(&self, around: Around<'_>) -> bool {
        use Node as N;
        match self {
            N::Column(_) | N::Constant(_) | N::Word(_) | N::Subscript(..) | N::Call(_) | N::Syntax(..) => {
                true
            }
            N::Array(..) | N::Row(_) | N::Construct(..) | N::Case(_) | N::Field(..) => true,
            N::Cast(cast) => cast.is_call || cast.operand.is_simple(Around::Other),
            N::Operation(operator, left, _) => match around {
                Around::Operation { .. } => binds_tighter(operator, left.is_some(), around),
                around => is_separated(around),
            },
            N::Query(_) | N::Test(..) | N::Distinct(..) => is_separated(around),
            N::And(_) | N::Not(_) => matches!(around, Around::And | Around::Or),
            N::Or(_) => matches!(around, Around::Or),
            N::Quantified(_) | N::RowComparison(..) | N::Collate(..) => false,
        }
    }

    /// True if it is printed like a call, which could be taken for CUBE or ROLLUP where it is a key.
    pub fn is_call_like(&self) -> bool {
        match self {
            Node::Call(_) | Node::Syntax(..) => true,
            Node::Cast(cast) => cast.is_call,
            _ => false,
        }
    }
}

fn is_separated(around: Around<'_>) -> bool {
    matches!(around, Around::And | Around::Or | Around::Not)
}

/// True if an operation is an operand without parentheses: of the basic operators only.
fn binds_tighter(operator: &str, is_binary: bool, around: Around<'_>) -> bool {
    let level = |operator: &str| match operator {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    };
    let Around::Operation { operator: outer, is_binary: true, is_first } = around else { return false };
    match (level(operator).filter(|_| is_binary), level(outer)) {
        (Some(inner), Some(outer)) => inner > outer || (inner == outer && is_first),
        _ => false,
    }
}

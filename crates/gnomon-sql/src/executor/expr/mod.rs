//! Bound, typed expressions.
//!
//! A column is a number: while a query level is bound and planned, its number among all columns of the level's FROM
//! clause; in a finished plan, its position in the row that the expression is evaluated on. [`Expr::map_columns`]
//! leads from one to the other. Values from outside of the row (an enclosing query's row, the outer row of a join)
//! come through slots.

mod display;
mod eval;
mod part;
mod subquery;

use std::{collections::BTreeSet, sync::Arc};

use super::plan::Plan;
use crate::{
    catalog::{model::Table, row_address::SystemColumn},
    functions::{FunctionRef, SetFunctionRef, Volatility, resolve_cast},
    types::{ColumnType, Datum, Scalar, Type, cast::CastContext},
};

pub use display::{DisplayExpr, own_name};
pub(super) use eval::{List, call};
pub use part::Part;

/// Less stack than this, in bytes, is not left to a function that recurses over expressions.
const STACK_LEFT_BYTES: usize = 256 << 10;
/// How much more it is given at a time.
const STACK_MORE_BYTES: usize = 4 << 20;

/// Runs a step of a recursion over expressions, on another stack where little of the present one is left: chains of
/// operators make trees as deep as they are long, and what they were bound from (a view, a CHECK) was not measured with
/// the statement that uses it.
pub fn on_deep_stack<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_MORE_BYTES, f)
}

/// A bound expression.
#[derive(Debug)]
pub struct Expr {
    /// The operation and its operands.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: ColumnType,
}

/// The operation of an expression, with its operands.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant.
    Const(Datum),
    /// A column of the row.
    Column {
        /// Its number (see the module's head).
        index: usize,
        /// Its name, for EXPLAIN and messages: qualified, `relation.column`.
        label: Arc<str>,
    },
    /// A system column of a stored table; NULL where there is no row.
    System {
        /// Which one.
        column: SystemColumn,
        /// The table.
        table: Arc<Table>,
        /// The located key of its row.
        key: Box<Expr>,
    },
    /// A statement parameter, from 0.
    Param(usize),
    /// A value that an enclosing plan node has set.
    Slot(usize),
    /// A function or operator.
    Call {
        /// The function.
        function: FunctionRef,
        /// Its arguments, of its argument types.
        args: Vec<Expr>,
    },
    /// A conversion to this expression's type.
    Cast {
        /// The context that asked for it: an implicit conversion is not printed.
        context: CastContext,
        /// Of what.
        arg: Box<Expr>,
    },
    /// All of these; NULL if none is false and one is NULL.
    And(Vec<Expr>),
    /// Any of these.
    Or(Vec<Expr>),
    /// Not this.
    Not(Box<Expr>),
    /// IS \[NOT\] NULL; of a row: all fields are (not).
    IsNull {
        /// Of what.
        arg: Box<Expr>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// IS \[NOT\] TRUE, FALSE, UNKNOWN.
    IsBool {
        /// Of what.
        arg: Box<Expr>,
        /// The value looked for; none for UNKNOWN.
        value: Option<bool>,
        /// IS NOT.
        negated: bool,
    },
    /// IS \[NOT\] DISTINCT FROM.
    Distinct {
        /// The equality operator of the two arguments.
        equal: FunctionRef,
        /// The arguments: two.
        args: Vec<Expr>,
        /// IS NOT DISTINCT FROM.
        negated: bool,
    },
    /// The result of the first arm whose condition is true.
    Case {
        /// Conditions and results.
        arms: Vec<(Expr, Expr)>,
        /// The result without one (ELSE, or NULL).
        otherwise: Box<Expr>,
    },
    /// The first that is not NULL.
    Coalesce(Vec<Expr>),
    /// GREATEST or LEAST of those that are not NULL.
    Extreme {
        /// The operator `<` of their type.
        less: FunctionRef,
        /// GREATEST.
        greatest: bool,
        /// Of what.
        args: Vec<Expr>,
    },
    /// `left op ANY (array)` or `ALL`; IN lists are this too.
    AnyAll {
        /// The operator, of `left` and the array's elements.
        function: FunctionRef,
        /// ALL.
        all: bool,
        /// The left side.
        left: Box<Expr>,
        /// The array.
        array: Box<Expr>,
        /// If elements can be looked up by hash: the number under which the execution keeps them.
        list: Option<usize>,
    },
    /// ARRAY[...].
    Array(Scalar, Vec<Expr>),
    /// ROW(...).
    Row(Vec<Expr>),
    /// `(a, b) < (c, d)` and its like: decided by the first pair that is not equal.
    RowCompare {
        /// For each pair: its operator `=`, its operator for the order (`<`, `<=`, ...), left, right.
        pairs: Vec<RowPair>,
    },
    /// `array[index]`.
    Subscript {
        /// The array.
        array: Box<Expr>,
        /// The index, an integer.
        index: Box<Expr>,
        /// The index of the first element.
        first: i32,
    },
    /// `array[from:to]`.
    Slice {
        /// The array.
        array: Box<Expr>,
        /// The first index, or the array's.
        from: Option<Box<Expr>>,
        /// The last index, or the array's.
        to: Option<Box<Expr>>,
        /// The index of the first element.
        first: i32,
    },
    /// An array with a part replaced.
    SetPart {
        /// The array.
        array: Box<Expr>,
        /// The part.
        part: Box<Part>,
        /// The value of the part.
        value: Box<Expr>,
    },
    /// Field `index` of a record.
    Field {
        /// The record.
        record: Box<Expr>,
        /// From 0.
        index: usize,
    },
    /// `body` with slot `slot` set to `value`, which is evaluated once.
    Let {
        /// The slot.
        slot: usize,
        /// Its value.
        value: Box<Expr>,
        /// The expression that is computed with it.
        body: Box<Expr>,
    },
    /// A set-returning function in a select list. Replaced by a column when the level is planned.
    SetCall {
        /// The function.
        function: SetFunctionRef,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A subquery.
    Subquery(Box<Subquery>),
    /// An aggregate call, by its number in the query level. Replaced by a column when the level is planned.
    Aggregate(usize),
    /// GROUPING of expressions of GROUP BY, likewise.
    Grouping(Vec<Expr>),
    /// A window function call, likewise.
    Window(usize),
}

/// A pair of [`ExprKind::RowCompare`].
#[derive(Clone, Debug)]
pub struct RowPair {
    /// The operator `=` of the two.
    pub equal: FunctionRef,
    /// The operator for the order of the two.
    pub order: FunctionRef,
    /// The two, of the types of `equal`.
    pub args: [Expr; 2],
}

/// A subquery within an expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// Its number in the statement.
    pub id: usize,
    /// The result that is made of its rows.
    pub kind: SubqueryKind,
    /// Its plan.
    pub plan: Plan,
    /// The slots that it needs, and their values in terms of the row around it.
    pub args: Vec<(usize, Expr)>,
    /// True if its rows depend on a row around it; if not, it is run once.
    pub correlated: bool,
    /// The slots that its plan needs.
    pub outer_slots: Arc<BTreeSet<usize>>,
    /// Of a correlated one: how its rows are found for all rows around it at once, where that may be better.
    pub keyed: Option<Arc<Keyed>>,
}

/// The conditions on which the rows of a keyed form may be read.
#[derive(Clone, Debug, Default)]
pub struct KeyedReading {
    /// The numbers of the common table expressions that it shares with other plans. Before it is read these have all their
    /// rows: if reading is given up in the middle, others find them whole.
    pub tables: Vec<usize>,
    /// True if the subquery's own plan looks its rows up by keys.
    pub replaces_lookup: bool,
}

/// A correlated subquery without the conditions that depend on the row around it: its rows are told apart by what is to
/// be equal.
#[derive(Debug)]
pub struct Keyed {
    /// Its plan: the subquery's own columns, as far as they are asked for, the keys, and what `condition` needs.
    pub plan: Plan,
    /// Number of columns that are the subquery's own.
    pub width: usize,
    /// The values that the keys must be equal to, in slots.
    pub probes: Vec<Expr>,
    /// The condition that each row with equal keys is tested for.
    pub condition: Option<Expr>,
    /// The conditions that the keys stand for, for EXPLAIN.
    pub equalities: Vec<Expr>,
    /// Of a scalar subquery: the plan of its value where no row has the keys.
    pub of_none: Option<Plan>,
    /// The conditions on which it may be read.
    pub reading: KeyedReading,
}

/// The result that is made of a subquery's rows.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// EXISTS.
    Exists,
    /// Its only row's only column.
    Scalar,
    /// Its only row.
    Row,
    /// ARRAY(...).
    Array(Scalar),
    /// `left op ANY (...)`, `IN`, or `ALL`.
    Quantified {
        /// ALL.
        all: bool,
        /// The comparison of the left side, which is in slots, with the subquery's row, which is the row.
        test: Box<Expr>,
        /// If the test is equality of what has equal bytes when it is equal: the left side, in slots, and the right
        /// side, of the subquery's row. The rows are then looked up by hash.
        hash: Option<Vec<(Expr, Expr)>>,
    },
}

/// Calls `$f` on each expression directly below `$kind`: by shared reference, or to change them.
macro_rules! visit_children {
    ($kind:expr, $f:ident, $iter:ident) => {
        match $kind {
            ExprKind::Const(_)
            | ExprKind::Column { .. }
            | ExprKind::Param(_)
            | ExprKind::Slot(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_) => {}
            ExprKind::Call { args, .. }
            | ExprKind::SetCall { args, .. }
            | ExprKind::And(args)
            | ExprKind::Or(args)
            | ExprKind::Coalesce(args)
            | ExprKind::Array(_, args)
            | ExprKind::Row(args)
            | ExprKind::Grouping(args)
            | ExprKind::Distinct { args, .. }
            | ExprKind::Extreme { args, .. } => args.$iter().for_each($f),
            ExprKind::Cast { arg, .. }
            | ExprKind::Not(arg)
            | ExprKind::IsNull { arg, .. }
            | ExprKind::IsBool { arg, .. }
            | ExprKind::System { key: arg, .. }
            | ExprKind::Field { record: arg, .. } => $f(arg),
            ExprKind::Case { arms, otherwise } => {
                for (condition, result) in arms {
                    $f(condition);
                    $f(result);
                }
                $f(otherwise);
            }
            ExprKind::AnyAll { left, array, .. } => {
                $f(left);
                $f(array);
            }
            ExprKind::RowCompare { pairs } => {
                pairs.$iter().for_each(|pair| pair.args.$iter().for_each(&mut *$f));
            }
            ExprKind::Subscript { array, index, .. } => {
                $f(array);
                $f(index);
            }
            ExprKind::Slice { array, from, to, .. } => {
                $f(array);
                from.$iter().chain(to.$iter()).for_each(|e| $f(e));
            }
            ExprKind::SetPart { array, part, value } => {
                $f(array);
                part.from.$iter().chain(part.to.$iter()).for_each(|e| $f(e));
                $f(value);
            }
            ExprKind::Let { value, body, .. } => {
                $f(value);
                $f(body);
            }
            ExprKind::Subquery(subquery) => subquery.args.$iter().for_each(|(_, value)| $f(value)),
        }
    };
}

impl Clone for Expr {
    fn clone(&self) -> Expr {
        on_deep_stack(|| Expr { kind: self.kind.clone(), ty: self.ty })
    }
}

impl Expr {
    /// An expression of this type without modifier.
    pub fn new(kind: ExprKind, ty: Type) -> Expr {
        Expr { kind, ty: ColumnType { ty, modifier: -1 } }
    }

    /// A constant.
    pub fn constant(value: Datum, ty: Type) -> Expr {
        Expr::new(ExprKind::Const(value), ty)
    }

    /// TRUE or FALSE.
    pub fn bool(value: bool) -> Expr {
        Expr::constant(Datum::Bool(value), Type::Bool)
    }

    /// A column.
    pub fn column(index: usize, label: impl Into<Arc<str>>, ty: ColumnType) -> Expr {
        Expr { kind: ExprKind::Column { index, label: label.into() }, ty }
    }

    /// All of these, flattened; TRUE if there are none.
    pub fn all_of(conjuncts: Vec<Expr>) -> Expr {
        let mut flat = Vec::with_capacity(conjuncts.len());
        conjuncts.into_iter().for_each(|e| e.split_and(&mut flat));
        match flat.len() {
            0 => Expr::bool(true),
            1 => flat.swap_remove(0),
            _ => Expr::new(ExprKind::And(flat), Type::Bool),
        }
    }

    /// Any of these; FALSE if there are none.
    pub fn any_of(mut disjuncts: Vec<Expr>) -> Expr {
        disjuncts.retain(|e| !e.is_bool(false));
        match disjuncts.len() {
            0 => Expr::bool(false),
            1 => disjuncts.swap_remove(0),
            _ => Expr::new(ExprKind::Or(disjuncts), Type::Bool),
        }
    }

    /// All of these, flattened; TRUE if there are none, and FALSE if one is that whatever the row.
    pub fn and(conjuncts: Vec<Expr>) -> Expr {
        let mut all = Expr::all_of(conjuncts);
        if let ExprKind::And(args) = &all.kind
            && args.iter().any(|e| e.is_bool(false))
        {
            all = Expr::bool(false);
        }
        all
    }

    /// Any of these; FALSE if there are none, and TRUE if one is that whatever the row.
    pub fn or(disjuncts: Vec<Expr>) -> Expr {
        match disjuncts.iter().any(|e| e.is_bool(true)) {
            true => Expr::bool(true),
            false => Expr::any_of(disjuncts),
        }
    }

    /// Leaves out what the value does not depend on: all of AND beside FALSE, of OR beside TRUE, and the other arguments of
    /// a strict function of a constant NULL. A comparison with NULL is left, since it may find rows by a key: none.
    ///
    /// It forgets columns, so it comes behind the checks of those (GROUP BY).
    pub fn fold(&mut self) {
        self.children_mut(&mut |child| child.fold());
        match &mut self.kind {
            ExprKind::And(args) => *self = Expr::and(std::mem::take(args)),
            ExprKind::Or(args) => *self = Expr::or(std::mem::take(args)),
            ExprKind::Call { function, args }
                if function.strict
                    && function.comparison().is_none()
                    && args.iter().filter_map(Expr::as_const).any(Datum::is_null) =>
            {
                self.kind = ExprKind::Const(Datum::Null);
            }
            _ => {}
        }
    }

    /// True if as a condition it holds for no row: it is the constant FALSE or NULL.
    pub fn is_never_true(&self) -> bool {
        self.is_bool(false) || matches!(self.kind, ExprKind::Const(Datum::Null))
    }

    /// True if it is the constant `value`.
    pub fn is_bool(&self, value: bool) -> bool {
        matches!(self.kind, ExprKind::Const(Datum::Bool(constant)) if constant == value)
    }

    /// Adds its conjuncts to `out`.
    pub fn split_and(self, out: &mut Vec<Expr>) {
        match self.kind {
            ExprKind::And(args) => args.into_iter().for_each(|e| e.split_and(out)),
            ExprKind::Const(Datum::Bool(true)) => {}
            _ => out.push(self),
        }
    }

    /// Its value, if it is a constant.
    pub fn as_const(&self) -> Option<&Datum> {
        match &self.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The number of the column that it is, if it is one.
    pub fn as_column(&self) -> Option<usize> {
        match self.kind {
            ExprKind::Column { index, .. } => Some(index),
            _ => None,
        }
    }

    /// Calls `f` on each expression directly below. Of a subquery these are the values of its slots: what they
    /// refer to is this row; its plan and test refer to rows of their own.
    pub fn children<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        on_deep_stack(|| visit_children!(&self.kind, f, iter));
    }

    /// As [`Expr::children`], to change them.
    pub fn children_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        on_deep_stack(|| visit_children!(&mut self.kind, f, iter_mut));
    }

    /// True if `test` holds for it or for anything below.
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.children(&mut |child| found = found || child.any(test));
        found
    }

    /// Replaces each column's number.
    pub fn map_columns(&mut self, map: &dyn Fn(usize) -> usize) {
        if let ExprKind::Column { index, .. } = &mut self.kind {
            *index = map(*index);
        }
        self.children_mut(&mut |child| child.map_columns(map));
    }

    /// Replaces whole expressions, from the top: where `map` gives none, it looks below.
    pub fn replace(&mut self, map: &mut dyn FnMut(&Expr) -> Option<Expr>) {
        match map(self) {
            Some(new) => *self = new,
            None => self.children_mut(&mut |child| child.replace(map)),
        }
    }

    /// Adds the numbers of its columns to `out`.
    pub fn collect_columns(&self, out: &mut BTreeSet<usize>) {
        if let ExprKind::Column { index, .. } = self.kind {
            out.insert(index);
        }
        self.children(&mut |child| child.collect_columns(out));
    }

    /// The numbers of its columns.
    pub fn columns(&self) -> BTreeSet<usize> {
        let mut out = BTreeSet::new();
        self.collect_columns(&mut out);
        out
    }

    /// True if it contains a column of the row.
    pub fn has_columns(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::Column { .. }))
    }

    /// True if it contains a subquery.
    pub fn has_subquery(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::Subquery(_)))
    }

    /// True if it contains a call whose value changes from row to row with equal arguments.
    pub fn is_volatile(&self) -> bool {
        self.any(&|e| e.volatility() == Volatility::Volatile)
    }

    /// True if its value depends on nothing but the row.
    pub fn is_immutable(&self) -> bool {
        let may_change = |e: &Expr| match &e.kind {
            ExprKind::Cast { arg, context } => resolve_cast(arg.ty.ty, e.ty, *context)
                .is_none_or(|cast| cast.volatility != Volatility::Immutable),
            ExprKind::Subquery(_) => true,
            _ => e.volatility() != Volatility::Immutable,
        };
        !self.any(&may_change)
    }

    /// The volatility of this node alone.
    pub fn volatility(&self) -> Volatility {
        match &self.kind {
            ExprKind::Call { function, .. }
            | ExprKind::AnyAll { function, .. }
            | ExprKind::Distinct { equal: function, .. } => function.volatility,
            _ => Volatility::Immutable,
        }
    }

    /// True if it computes the same as `other` for certain: the same tree over the same columns, without subqueries and
    /// volatile functions.
    pub fn same(&self, other: &Expr) -> bool {
        !self.is_volatile() && self.alike(other)
    }

    /// True if it is the same tree over the same columns as `other`, without subqueries: what a query means by one
    /// expression in two places.
    pub fn alike(&self, other: &Expr) -> bool {
        self.ty == other.ty && self.same_tree(other, &mut Vec::new())
    }

    /// As [`Expr::alike`]; `slots` are pairs of slots that `Let` around the two has set to the same.
    fn same_tree(&self, other: &Expr, slots: &mut Vec<(usize, usize)>) -> bool {
        use ExprKind as K;
        let here = match (&self.kind, &other.kind) {
            // Two constants of one type print alike if they are alike, in every detail that shows (1.0 is not 1.00).
            (K::Const(a), K::Const(b)) => format!("{a:?}") == format!("{b:?}"),
            (K::Column { index: a, .. }, K::Column { index: b, .. }) => a == b,
            (K::System { column: a, .. }, K::System { column: b, .. }) => a == b,
            (K::Param(a), K::Param(b)) => a == b,
            (K::Slot(a), K::Slot(b)) => match slots.iter().rev().find(|(x, y)| x == a || y == b) {
                Some(pair) => *pair == (*a, *b),
                None => a == b,
            },
            (K::Aggregate(a), K::Aggregate(b)) | (K::Window(a), K::Window(b)) => a == b,
            (K::Call { function: a, .. }, K::Call { function: b, .. }) => a == b,
            (K::SetCall { function: a, .. }, K::SetCall { function: b, .. }) => a == b,
            (K::Cast { .. }, K::Cast { .. }) => self.ty == other.ty,
            (K::IsNull { negated: a, .. }, K::IsNull { negated: b, .. }) => a == b,
            (K::IsBool { value: a, negated: m, .. }, K::IsBool { value: b, negated: n, .. }) => {
                a == b && m == n
            }
            (K::Distinct { equal: a, negated: m, .. }, K::Distinct { equal: b, negated: n, .. }) => {
                a == b && m == n
            }
            (K::RowCompare { pairs: a }, K::RowCompare { pairs: b }) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equal == b.equal && a.order == b.order)
            }
            (K::Let { slot: a, value: x, body: left }, K::Let { slot: b, value: y, body: right }) => {
                if x.ty != y.ty || left.ty != right.ty || !x.same_tree(y, slots) {
                    return false;
                }
                slots.push((*a, *b));
                let same = left.same_tree(right, slots);
                slots.pop();
                return same;
            }
            (K::Case { arms: a, .. }, K::Case { arms: b, .. }) => a.len() == b.len(),
            (K::Coalesce(_), K::Coalesce(_))
            | (K::And(_), K::And(_))
            | (K::Or(_), K::Or(_))
            | (K::Not(_), K::Not(_))
            | (K::Array(..), K::Array(..))
            | (K::Row(_), K::Row(_))
            | (K::Grouping(_), K::Grouping(_))
            | (K::Subscript { .. }, K::Subscript { .. }) => true,
            (K::Slice { from: a, to: b, .. }, K::Slice { from: c, to: d, .. }) => {
                a.is_some() == c.is_some() && b.is_some() == d.is_some()
            }
            (K::SetPart { part: a, .. }, K::SetPart { part: b, .. }) => {
                a.is_slice == b.is_slice
                    && a.from.is_some() == b.from.is_some()
                    && a.to.is_some() == b.to.is_some()
            }
            (K::Field { index: a, .. }, K::Field { index: b, .. }) => a == b,
            (K::Extreme { greatest: a, .. }, K::Extreme { greatest: b, .. }) => a == b,
            (K::AnyAll { function: a, all: m, .. }, K::AnyAll { function: b, all: n, .. }) => {
                a == b && m == n
            }
            _ => false,
        };
        if !here {
            return false;
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.children(&mut |e| left.push(e));
        other.children(&mut |e| right.push(e));
        left.len() == right.len()
            && left.iter().zip(right).all(|(a, b)| a.ty == b.ty && a.same_tree(b, slots))
    }
}

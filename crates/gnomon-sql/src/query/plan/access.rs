//! How a table's rows are found: which key, what is known of its columns, which order comes for free.
//!
//! A key serves as far as its leading columns are compared by equality (with one value or a list), plus a range of
//! the column after them. Without statistics the choice goes by what is certain: a whole unique key first, then the
//! most columns by equality, then a range, then the order asked for.

use std::collections::BTreeSet;

use gnomon::Direction;

use crate::{
    catalog::model::{Index, Table},
    functions::{Comparison, like_prefix},
    query::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::SortKey,
    },
    types::{Datum, Type, cast::CastContext},
};

/// How a table's rows are found.
#[derive(Clone, Debug)]
pub enum Access {
    /// All of them, by row key.
    Full(Direction),
    /// By a key.
    Key(KeyAccess),
}

/// Access by a key.
#[derive(Clone, Debug)]
pub struct KeyAccess {
    /// Which of the table's indexes: position in [`Table::indexes`], or none for the primary key.
    pub index: Option<usize>,
    /// What its leading columns are equal to.
    pub equal: Vec<KeyPart>,
    /// The range of the column after these.
    pub range: Option<KeyRangePart>,
    /// Whether each combination of `equal` is one key, or none.
    pub point: bool,
    /// Which way it is passed.
    pub direction: Direction,
    /// The conditions that it stands for, for EXPLAIN: in terms of the scan's columns.
    pub conditions: Vec<Expr>,
}

/// What a column of the key is equal to. The expressions see no row: constants, parameters, slots.
#[derive(Clone, Debug)]
pub enum KeyPart {
    /// One value.
    Equal(Expr),
    /// Any element of an array.
    Any(Expr),
}

/// A bound of a range.
pub type KeyBound = Expr;

/// A range of a column; for each bound, whether it belongs to the range.
#[derive(Clone, Debug, Default)]
pub struct KeyRangePart {
    /// The low bound.
    pub low: Option<(KeyBound, bool)>,
    /// The high bound.
    pub high: Option<(KeyBound, bool)>,
}

impl KeyAccess {
    /// The index.
    pub fn index_of<'t>(&self, table: &'t Table) -> &'t Index {
        match self.index {
            Some(position) => &table.indexes[position],
            None => {
                table.primary_key.as_ref().expect("access by primary key is planned on tables that have one")
            }
        }
    }

    /// Whether it is the whole primary key, each column equal to one value.
    pub fn is_whole_key(&self) -> bool {
        self.index.is_none() && self.point && self.equal.iter().all(|part| matches!(part, KeyPart::Equal(_)))
    }

    /// The index, if its entries point to rows rather than being them.
    pub fn secondary<'t>(&self, table: &'t Table) -> Option<&'t Index> {
        self.index.map(|position| &table.indexes[position])
    }
}

/// An access, and which of the conditions it makes superfluous.
pub(in crate::query) struct Choice {
    pub access: Access,
    /// Positions of conditions that hold for each row found.
    pub covered: BTreeSet<usize>,
    /// Whether rows come in the order asked for.
    pub ordered: bool,
    /// How much it finds, as far as is certain.
    pub rank: Rank,
    /// What each column of the partition key is equal to, if the conditions say so of all.
    pub pruning: Option<Vec<KeyPart>>,
}

/// How selective an access is, without statistics; larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query) enum Rank {
    Full,
    /// A range of the first column.
    Range,
    /// That many columns by equality, and whether a range follows.
    Equal(usize, bool),
    /// A whole unique key.
    Point,
}

/// A comparison of a column with something that sees no row of the scan.
struct Comparand {
    column: usize,
    operator: Operator,
    value: Expr,
    condition: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Compare(Comparison),
    Any,
}

/// The column of the table behind an expression that orders and equals as the column does.
fn key_column(expr: &Expr, columns: &[usize]) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column { index, .. } => columns.get(*index).copied(),
        // Widening keeps integers' order and distinctness; the scan narrows the other side.
        ExprKind::Cast { arg, context: CastContext::Implicit }
            if matches!(
                (arg.ty.ty, expr.ty.ty),
                (Type::Int2, Type::Int4 | Type::Int8)
                    | (Type::Int4, Type::Int8)
                    | (Type::Varchar | Type::Name, Type::Text)
            ) =>
        {
            key_column(arg, columns)
        }
        _ => None,
    }
}

/// Whether values of type `value` can be looked up in a key of type `column` (see `fit` of the scan).
fn compatible(column: Type, value: Type) -> bool {
    use Type::*;
    column == value
        || matches!((column, value), (Int2 | Int4 | Int8, Int2 | Int4 | Int8))
        || matches!((column, value), (Text | Varchar | Name, Text | Varchar | Name))
}

/// Reads comparisons with columns of keys out of conditions.
struct Reader<'r> {
    table: &'r Table,
    columns: &'r [usize],
    out: Vec<Comparand>,
}

impl Reader<'_> {
    fn usable(&self, column: usize, value: &Expr, ty: Type) -> bool {
        compatible(self.table.columns[column].ty.ty, ty) && !value.has_columns() && !value.is_volatile()
    }

    fn condition(&mut self, condition: &Expr, position: usize) {
        match &condition.kind {
            ExprKind::Call { function, args } => {
                let [left, right] = &args[..] else { return };
                match function.comparison() {
                    Some(comparison) => self.comparison(comparison, left, right, position),
                    None if function.operator() == Some("~~") => self.like(left, right, position),
                    None => {}
                }
            }
            ExprKind::AnyAll { function, all: false, left, array }
                if function.comparison() == Some(Comparison::Equal) =>
            {
                self.any(left, array.as_ref().clone(), position);
            }
            ExprKind::Or(args) => self.equal_to_one_of(args, position),
            ExprKind::Subquery(subquery) => self.in_subquery(subquery, position),
            // The first pair bounds a range; the rest is left to the filter, as the bound itself is.
            ExprKind::RowCompare { pairs } => {
                let Some(pair) = pairs.first() else { return };
                let comparison = match pair.order.comparison() {
                    Some(Comparison::Less | Comparison::LessOrEqual) => Comparison::LessOrEqual,
                    Some(Comparison::Greater | Comparison::GreaterOrEqual) => Comparison::GreaterOrEqual,
                    _ => return,
                };
                let [left, right] = &pair.args;
                self.comparison(comparison, left, right, position);
            }
            _ => {}
        }
    }

    fn comparison(&mut self, comparison: Comparison, left: &Expr, right: &Expr, position: usize) {
        for (side, value, comparison) in [(left, right, comparison), (right, left, comparison.mirrored())] {
            if let Some(column) = key_column(side, self.columns)
                && comparison != Comparison::NotEqual
                && self.usable(column, value, value.ty.ty)
            {
                let operator = Operator::Compare(comparison);
                self.out.push(Comparand { column, operator, value: value.clone(), condition: position });
                return;
            }
        }
    }

    fn any(&mut self, left: &Expr, array: Expr, position: usize) {
        if let (Some(column), Some(element)) = (key_column(left, self.columns), array.ty.ty.element())
            && self.usable(column, &array, element)
        {
            self.out.push(Comparand { column, operator: Operator::Any, value: array, condition: position });
        }
    }

    /// `column = a OR column = b`, as a list.
    fn equal_to_one_of(&mut self, args: &[Expr], position: usize) {
        let mut of: Option<&Expr> = None;
        let mut values: Vec<Expr> = Vec::with_capacity(args.len());
        for arg in args {
            let ExprKind::Call { function, args } = &arg.kind else { return };
            let (Some(Comparison::Equal), [left, right]) = (function.comparison(), &args[..]) else { return };
            let (side, value) = match key_column(left, self.columns) {
                Some(_) => (left, right),
                None => (right, left),
            };
            if key_column(side, self.columns).is_none()
                || of.is_some_and(|of| !of.same(side))
                || values.first().is_some_and(|first| first.ty.ty != value.ty.ty)
            {
                return;
            }
            of = Some(side);
            values.push(value.clone());
        }
        if let (Some(side), Some(scalar)) = (of, values.first().and_then(|value| value.ty.ty.scalar())) {
            self.any(side, Expr::new(ExprKind::Array(scalar, values), Type::Array(scalar)), position);
        }
    }

    /// `column IN (SELECT ...)` of a subquery that depends on no row: its rows, collected once, are the list.
    fn in_subquery(&mut self, subquery: &Subquery, position: usize) {
        let SubqueryKind::Quantified { all: false, hash: Some(slots), .. } = &subquery.kind else { return };
        let ([(_, ty)], [(_, left)], false) = (&slots[..], &subquery.args[..], subquery.correlated) else {
            return;
        };
        let Some(scalar) = ty.scalar() else { return };
        let rows = Subquery {
            // The rows are kept in another form than for the test itself, which may run too: under another number.
            id: subquery.id | LIST_OF_SUBQUERY,
            kind: SubqueryKind::Array(scalar),
            plan: subquery.plan.clone(),
            args: Vec::new(),
            correlated: false,
        };
        self.any(left, Expr::new(ExprKind::Subquery(Box::new(rows)), Type::Array(scalar)), position);
    }

    /// `column LIKE 'prefix%'`: text is ordered by its bytes, so the prefix bounds a range.
    fn like(&mut self, left: &Expr, pattern: &Expr, position: usize) {
        let (Some(column), Some(Datum::Text(pattern))) = (key_column(left, self.columns), pattern.as_const())
        else {
            return;
        };
        let (prefix, _) = like_prefix(pattern);
        if prefix.is_empty() || !compatible(self.table.columns[column].ty.ty, Type::Text) {
            return;
        }
        let mut bound = |comparison, text: String| {
            let value = Expr::constant(Datum::text(text), Type::Text);
            let operator = Operator::Compare(comparison);
            self.out.push(Comparand { column, operator, value, condition: position });
        };
        // The next text after all that begin with the prefix: its last character that has a successor, raised.
        let mut after = prefix.clone();
        bound(Comparison::GreaterOrEqual, prefix);
        while let Some(last) = after.pop() {
            let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
            if let Some(next) = next {
                after.push(next);
                bound(Comparison::Less, after);
                return;
            }
        }
    }
}

/// Set in the number of a subquery whose rows are collected as a list of keys.
const LIST_OF_SUBQUERY: usize = 1 << (usize::BITS - 1);

/// Chooses how to find the rows of `table` for which `conditions` hold. Column `i` of the conditions and the order is
/// column `columns[i]` of the table; a row key may follow as one more. With `limited`, only a few rows are wanted,
/// which makes an order worth a secondary index.
pub(in crate::query) fn choose_access(
    table: &Table,
    columns: &[usize],
    conditions: &[Expr],
    order: &[SortKey],
    limited: bool,
) -> Choice {
    let mut reader = Reader { table, columns, out: Vec::new() };
    for (position, condition) in conditions.iter().enumerate() {
        reader.condition(condition, position);
    }
    let comparands = reader.out;
    let pruning = pruning(table, &comparands);
    // Partitions are passed one after another, so several of them have no order together.
    let is_one = |parts: &Vec<KeyPart>| parts.iter().all(|part| matches!(part, KeyPart::Equal(_)));
    let has_order = table.partitioning.is_none() || pruning.as_ref().is_some_and(is_one);
    let full_order = table
        .primary_key
        .as_ref()
        .filter(|_| has_order && !order.is_empty())
        .and_then(|index| order_of(table, index, &[], columns, order));
    let mut best = Choice {
        access: Access::Full(full_order.unwrap_or(Direction::Forward)),
        covered: BTreeSet::new(),
        ordered: order.is_empty() || full_order.is_some(),
        rank: Rank::Full,
        pruning: pruning.clone(),
    };
    let indexes = table.indexes.iter().enumerate().map(|(position, index)| (Some(position), index));
    for (position, index) in table.primary_key.iter().map(|index| (None, index)).chain(indexes) {
        let Some(mut choice) = by_index(table, position, index, columns, conditions, &comparands, order)
        else {
            continue;
        };
        choice.ordered &= has_order || order.is_empty();
        choice.pruning.clone_from(&pruning);
        // A detour over a secondary index for its order alone pays when only the first rows are wanted.
        let for_order = limited && !order.is_empty() && choice.ordered && !best.ordered;
        if choice.rank == Rank::Full && !for_order {
            continue;
        }
        if (choice.rank, choice.ordered) > (best.rank, best.ordered) {
            best = choice;
        }
    }
    best
}

/// The first comparison of a column by an operator.
fn comparand(comparands: &[Comparand], column: usize, operator: Operator) -> Option<&Comparand> {
    comparands.iter().find(|comparand| comparand.column == column && comparand.operator == operator)
}

/// What the columns of the partition key are equal to, if something is known of each.
fn pruning(table: &Table, comparands: &[Comparand]) -> Option<Vec<KeyPart>> {
    let of_column = |column: &usize| {
        let with = |operator| comparand(comparands, *column, operator);
        let equal = with(Operator::Compare(Comparison::Equal)).map(|c| KeyPart::Equal(c.value.clone()));
        equal.or_else(|| with(Operator::Any).map(|c| KeyPart::Any(c.value.clone())))
    };
    table.partitioning.as_ref()?.columns.iter().map(of_column).collect()
}

fn by_index(
    table: &Table,
    position: Option<usize>,
    index: &Index,
    columns: &[usize],
    conditions: &[Expr],
    comparands: &[Comparand],
    order: &[SortKey],
) -> Option<Choice> {
    let mut equal = Vec::new();
    let mut covered = BTreeSet::new();
    let mut used = Vec::new();
    let mut fixed = Vec::new();
    for column in &index.columns {
        let of_column = |operator| comparand(comparands, *column, operator);
        if let Some(c) = of_column(Operator::Compare(Comparison::Equal)) {
            equal.push(KeyPart::Equal(c.value.clone()));
            fixed.push(*column);
            covered.insert(c.condition);
            used.push(c.condition);
        } else if let Some(c) = of_column(Operator::Any)
            && !equal.iter().any(|part| matches!(part, KeyPart::Any(_)))
        {
            equal.push(KeyPart::Any(c.value.clone()));
            covered.insert(c.condition);
            used.push(c.condition);
        } else {
            break;
        }
    }
    let mut range = None;
    if let Some(column) = index.columns.get(equal.len()) {
        let mut part = KeyRangePart::default();
        for c in comparands.iter().filter(|c| c.column == *column) {
            let (bound, inclusive) = match c.operator {
                Operator::Compare(Comparison::Greater) => (&mut part.low, false),
                Operator::Compare(Comparison::GreaterOrEqual) => (&mut part.low, true),
                Operator::Compare(Comparison::Less) => (&mut part.high, false),
                Operator::Compare(Comparison::LessOrEqual) => (&mut part.high, true),
                _ => continue,
            };
            // A second bound on the same side is left to the filter, as NULLs within the range are.
            if bound.is_none() {
                *bound = Some((c.value.clone(), inclusive));
                used.push(c.condition);
            }
        }
        if part.low.is_some() || part.high.is_some() {
            range = Some(part);
        }
    }
    used.dedup();
    let point = index.unique && equal.len() == index.columns.len();
    let direction = if order.is_empty() { None } else { order_of(table, index, &fixed, columns, order) };
    // Several prefixes are passed in key order only if nothing but the listed column varies before the order's.
    let rank = match (equal.len(), &range) {
        _ if point => Rank::Point,
        (0, None) => Rank::Full,
        (0, Some(_)) => Rank::Range,
        (columns, range) => Rank::Equal(columns, range.is_some()),
    };
    Some(Choice {
        access: Access::Key(KeyAccess {
            index: position,
            equal,
            range,
            point,
            direction: direction.unwrap_or(Direction::Forward),
            conditions: used.iter().map(|position| conditions[*position].clone()).collect(),
        }),
        covered,
        ordered: order.is_empty() || direction.is_some(),
        rank,
        pruning: None,
    })
}

/// Which way the index must be passed for `order`, if its order serves; columns in `fixed` have one value.
fn order_of(
    table: &Table,
    index: &Index,
    fixed: &[usize],
    columns: &[usize],
    order: &[SortKey],
) -> Option<Direction> {
    let mut direction = None;
    let mut positions = index.columns.iter().enumerate().filter(|(_, column)| !fixed.contains(column));
    let mut unique_until_here = false;
    for key in order {
        // After a whole unique key (of columns that hold no NULL) nothing further can differ.
        if unique_until_here {
            break;
        }
        let column = key_column(&key.expr, columns)?;
        if fixed.contains(&column) {
            continue;
        }
        let (position, _) = positions.next().filter(|(_, indexed)| **indexed == column)?;
        let backward = key.descending != index.descending[position];
        if !table.columns[column].not_null && key.nulls_first != (index.nulls_first[position] != backward) {
            return None;
        }
        let wanted = if backward { Direction::Backward } else { Direction::Forward };
        if *direction.get_or_insert(wanted) != wanted {
            return None;
        }
        unique_until_here = index.unique
            && positions.clone().next().is_none()
            && index.columns.iter().all(|column| table.columns[*column].not_null);
    }
    Some(direction.unwrap_or(Direction::Forward))
}

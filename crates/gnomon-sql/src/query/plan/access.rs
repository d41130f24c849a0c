//! How a table's rows are found: which key, what is known of its columns, which order comes for free.
//!
//! A key serves as far as its leading columns are compared by equality (with one value or a list), plus a range of
//! the column after them. Without statistics the choice goes by what is certain: a whole unique key first, then the
//! most columns by equality, then a range, then the order asked for.

use std::collections::BTreeSet;

use gnomon::Direction;

use crate::{
    catalog::model::{Index, Table},
    functions::Comparison,
    query::{Expr, expr::ExprKind, plan::SortKey},
    types::{Type, cast::CastContext},
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
struct Comparand<'e> {
    column: usize,
    operator: Operator,
    value: &'e Expr,
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

fn comparand<'e>(
    table: &Table,
    columns: &[usize],
    condition: &'e Expr,
    position: usize,
    out: &mut Vec<Comparand<'e>>,
) {
    let usable = |column: usize, value: &Expr, ty: Type| {
        compatible(table.columns[column].ty.ty, ty) && !value.has_columns() && !value.is_volatile()
    };
    match &condition.kind {
        ExprKind::Call { function, args } => {
            let (Some(comparison), [left, right]) = (function.comparison(), &args[..]) else { return };
            for (side, value, comparison) in [(left, right, comparison), (right, left, comparison.mirrored())]
            {
                if let Some(column) = key_column(side, columns)
                    && comparison != Comparison::NotEqual
                    && usable(column, value, value.ty.ty)
                {
                    out.push(Comparand {
                        column,
                        operator: Operator::Compare(comparison),
                        value,
                        condition: position,
                    });
                    return;
                }
            }
        }
        ExprKind::AnyAll { function, all: false, left, array }
            if function.comparison() == Some(Comparison::Equal) =>
        {
            if let (Some(column), Some(element)) = (key_column(left, columns), array.ty.ty.element())
                && usable(column, array, element)
            {
                out.push(Comparand { column, operator: Operator::Any, value: array, condition: position });
            }
        }
        _ => {}
    }
}

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
    let mut comparands = Vec::new();
    for (position, condition) in conditions.iter().enumerate() {
        comparand(table, columns, condition, position, &mut comparands);
    }
    let full_order = table
        .primary_key
        .as_ref()
        .filter(|_| !order.is_empty())
        .and_then(|index| order_of(table, index, &[], columns, order));
    let mut best = Choice {
        access: Access::Full(full_order.unwrap_or(Direction::Forward)),
        covered: BTreeSet::new(),
        ordered: order.is_empty() || full_order.is_some(),
        rank: Rank::Full,
    };
    let indexes = table.indexes.iter().enumerate().map(|(position, index)| (Some(position), index));
    for (position, index) in table.primary_key.iter().map(|index| (None, index)).chain(indexes) {
        let Some(choice) = by_index(table, position, index, columns, conditions, &comparands, order) else {
            continue;
        };
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

fn by_index(
    table: &Table,
    position: Option<usize>,
    index: &Index,
    columns: &[usize],
    conditions: &[Expr],
    comparands: &[Comparand<'_>],
    order: &[SortKey],
) -> Option<Choice> {
    let mut equal = Vec::new();
    let mut covered = BTreeSet::new();
    let mut used = Vec::new();
    let mut fixed = Vec::new();
    for column in &index.columns {
        let of_column =
            |operator| comparands.iter().find(move |c| c.column == *column && c.operator == operator);
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

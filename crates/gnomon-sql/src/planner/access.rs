//! How a table's rows are found: which key, what is known of its columns, which order comes for free.
//!
//! A key serves as far as its leading columns are compared by equality (with one value or a list), plus a range of
//! the column after them. Of a table that was analyzed the cheapest access is chosen, but a whole unique key is always
//! preferred, which costs no time. Without statistics the choice goes by what is certain: a whole unique key first, then
//! the most columns by equality, then a range, then the order asked for.

use std::{collections::BTreeSet, sync::Arc};

use gnomon_engine::Direction;

use crate::{
    catalog::{
        model::{Index, Table},
        row_address::SystemColumn,
    },
    executor::{
        Expr,
        estimate::{lookup, sort_cost, table_columns, table_rows},
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{Access, AddressAccess, KeyAccess, KeyPart, KeyRangePart, SortKey},
    },
    functions::{Comparison, like_prefix, resolve_operator},
    types::{Datum, Scalar, Type, cast::CastContext},
};

/// An access, and which of the conditions it makes superfluous.
pub struct Choice {
    pub access: Access,
    /// Positions of conditions that hold for each row found.
    pub covered: BTreeSet<usize>,
    /// True if rows come in the order asked for.
    pub ordered: bool,
    /// How much it finds, as far as is certain.
    pub rank: Rank,
    /// The values that the columns of the partition key are equal to, if the conditions give one for each.
    pub pruning: Option<Vec<KeyPart>>,
}

/// How selective an access is, without statistics; larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
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
    /// The position of the condition that it was read out of.
    condition: usize,
    /// True if the condition says no more than this.
    exact: bool,
    /// The comparison as an expression.
    shown: Expr,
}

/// Columns that are equal to those of one of several rows.
struct RowsComparand<'c> {
    columns: Vec<usize>,
    /// For each row and column: the comparison, and the value.
    rows: Vec<Vec<(&'c Expr, &'c Expr)>>,
    condition: usize,
    /// True if the condition says no more than this.
    exact: bool,
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

/// True if values of type `value` can be looked up in a key of type `column` (see `fit` of the scan).
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
    rows: Vec<RowsComparand<'r>>,
}

impl<'r> Reader<'r> {
    fn usable(&self, column: usize, value: &Expr, ty: Type) -> bool {
        compatible(self.table.columns[column].ty.ty, ty) && !value.has_columns() && !value.is_volatile()
    }

    fn condition(&mut self, condition: &'r Expr, position: usize) {
        match &condition.kind {
            ExprKind::Call { function, args } => {
                let [left, right] = &args[..] else { return };
                match function.comparison() {
                    Some(comparison) => self.comparison(comparison, left, right, position, Some(condition)),
                    None if function.operator() == Some("~~") => self.like(left, right, position),
                    None => {}
                }
            }
            ExprKind::AnyAll { function, all: false, left, array, .. }
                if function.comparison() == Some(Comparison::Equal) =>
            {
                self.any(left, array.as_ref().clone(), position, Some(condition));
            }
            ExprKind::Or(args) => self.equal_to_one_of(condition, args, position),
            ExprKind::Subquery(subquery) => self.in_subquery(subquery, position, condition),
            // The first pair bounds a range; the rest is left to the filter, as the bound itself is.
            ExprKind::RowCompare { pairs } => {
                let Some(pair) = pairs.first() else { return };
                let comparison = match pair.order.comparison() {
                    Some(Comparison::Less | Comparison::LessOrEqual) => Comparison::LessOrEqual,
                    Some(Comparison::Greater | Comparison::GreaterOrEqual) => Comparison::GreaterOrEqual,
                    _ => return,
                };
                let [left, right] = &pair.args;
                self.comparison(comparison, left, right, position, None);
            }
            _ => {}
        }
    }

    /// Reads a comparison of a column with a value. `whole` is the condition if it says no more than that.
    fn comparison(
        &mut self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
        position: usize,
        whole: Option<&Expr>,
    ) {
        for (side, value, comparison) in [(left, right, comparison), (right, left, comparison.mirrored())] {
            if let Some(column) = key_column(side, self.columns)
                && comparison != Comparison::NotEqual
                && self.usable(column, value, value.ty.ty)
            {
                self.compared(column, comparison, side, value.clone(), position, whole);
                return;
            }
        }
    }

    fn compared(
        &mut self,
        column: usize,
        comparison: Comparison,
        side: &Expr,
        value: Expr,
        position: usize,
        whole: Option<&Expr>,
    ) {
        let shown = match whole {
            Some(condition) => condition.clone(),
            None => match resolve_operator(comparison.operator(), Some(side.ty.ty), value.ty.ty) {
                Ok(function) => {
                    let args = vec![side.clone(), value.clone()];
                    Expr::new(ExprKind::Call { function, args }, Type::Bool)
                }
                Err(_) => return,
            },
        };
        let (operator, exact) = (Operator::Compare(comparison), whole.is_some());
        self.out.push(Comparand { column, operator, value, condition: position, exact, shown });
    }

    fn any(&mut self, left: &Expr, array: Expr, position: usize, whole: Option<&Expr>) {
        let (Some(column), Some(element)) = (key_column(left, self.columns), array.ty.ty.element()) else {
            return;
        };
        if !self.usable(column, &array, element) {
            return;
        }
        let shown = match whole {
            Some(condition) => condition.clone(),
            None => match resolve_operator("=", Some(left.ty.ty), element) {
                Ok(function) => {
                    let (left, array) = (Box::new(left.clone()), Box::new(array.clone()));
                    Expr::new(ExprKind::AnyAll { function, all: false, left, array, list: None }, Type::Bool)
                }
                Err(_) => return,
            },
        };
        let (operator, exact) = (Operator::Any, whole.is_some());
        self.out.push(Comparand { column, operator, value: array, condition: position, exact, shown });
    }

    /// `column = value`: the column, its side, the value.
    fn equality(&self, condition: &'r Expr) -> Option<(usize, &'r Expr, &'r Expr)> {
        let ExprKind::Call { function, args } = &condition.kind else { return None };
        let (Some(Comparison::Equal), [left, right]) = (function.comparison(), &args[..]) else {
            return None;
        };
        [(left, right), (right, left)].into_iter().find_map(|(side, value)| {
            let column = key_column(side, self.columns)?;
            self.usable(column, value, value.ty.ty).then_some((column, side, value))
        })
    }

    /// `a = 1 AND b = 2 OR a = 3 AND b = 4`: the columns that each arm says a value of, as rows; of one column, as a
    /// list.
    fn equal_to_one_of(&mut self, condition: &'r Expr, args: &'r [Expr], position: usize) {
        let mut exact = true;
        let mut arms = Vec::with_capacity(args.len());
        for arg in args {
            let conjuncts = match &arg.kind {
                ExprKind::And(conjuncts) => &conjuncts[..],
                _ => std::slice::from_ref(arg),
            };
            let mut arm: Vec<(usize, &Expr, &Expr, &Expr)> = Vec::with_capacity(conjuncts.len());
            for conjunct in conjuncts {
                match self.equality(conjunct) {
                    Some((column, side, value)) if arm.iter().all(|(known, ..)| *known != column) => {
                        arm.push((column, side, value, conjunct));
                    }
                    _ => exact = false,
                }
            }
            arms.push(arm);
        }
        let Some(first) = arms.first() else { return };
        let of = |arm: &[(usize, &Expr, &Expr, &'r Expr)], column: usize| {
            arm.iter().any(|(known, ..)| *known == column)
        };
        let columns: Vec<usize> = first
            .iter()
            .map(|(column, ..)| *column)
            .filter(|column| arms.iter().all(|arm| of(arm, *column)))
            .collect();
        exact &= arms.iter().all(|arm| arm.len() == columns.len());
        for column in &columns {
            // As a list too: it serves an index of this column alone, and tells partitions.
            let found = arms.iter().flatten().filter(|(known, ..)| known == column);
            let values: Vec<Expr> = found.clone().map(|(_, _, value, _)| (*value).clone()).collect();
            let sides: Vec<&Expr> = found.map(|(_, side, ..)| *side).collect();
            if let (Some(side), Some(ty)) = (sides.first(), values.first().map(|value| value.ty.ty))
                && let Some(scalar) = ty.scalar()
                && values.iter().all(|value| value.ty.ty == ty)
            {
                let whole = (exact && columns.len() == 1).then_some(condition);
                let array = Expr::new(ExprKind::Array(scalar, values), Type::Array(scalar));
                self.any(side, array, position, whole);
            }
        }
        if columns.len() > 1 {
            let row = |arm: Vec<(usize, &'r Expr, &'r Expr, &'r Expr)>| {
                let cell = |column: &usize| arm.iter().find(|(known, ..)| known == column);
                columns.iter().filter_map(cell).map(|(_, _, value, shown)| (*shown, *value)).collect()
            };
            let rows = arms.into_iter().map(row).collect();
            self.rows.push(RowsComparand { columns, rows, condition: position, exact });
        }
    }

    /// `column IN (SELECT ...)` of a subquery that depends on no row.
    fn in_subquery(&mut self, subquery: &Subquery, position: usize, condition: &Expr) {
        if let Some((left, array)) = list_of_subquery(subquery) {
            self.any(left, array, position, Some(condition));
        }
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
            self.compared(column, comparison, left, value, position, None);
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

/// The left side of `IN (SELECT ...)` of a subquery that depends on no row, and its rows, collected once, as a list.
fn list_of_subquery(subquery: &Subquery) -> Option<(&Expr, Expr)> {
    let SubqueryKind::Quantified { all: false, hash: Some(pairs), .. } = &subquery.kind else { return None };
    let ([(_, own)], [(_, left)], false) = (&pairs[..], &subquery.args[..], subquery.correlated) else {
        return None;
    };
    let (Some(scalar), Some(0)) = (own.ty.ty.scalar(), own.as_column()) else { return None };
    let rows = Subquery {
        // The rows are kept in another form than for the test itself, which may run too: under another number.
        id: subquery.id | LIST_OF_SUBQUERY,
        kind: SubqueryKind::Array(scalar),
        plan: subquery.plan.clone(),
        args: Vec::new(),
        correlated: false,
        outer_slots: subquery.outer_slots.clone(),
        keyed: None,
    };
    Some((left, Expr::new(ExprKind::Subquery(Box::new(rows)), Type::Array(scalar))))
}

/// The addresses that a condition asks of a row, if it asks for some and no more.
fn addresses(condition: &Expr) -> Option<KeyPart> {
    let is_address = |expr: &Expr| {
        let ExprKind::System { column: SystemColumn::Ctid, key, .. } = &expr.kind else { return false };
        key.as_column().is_some()
    };
    let is_fixed = |value: &Expr| !value.has_columns() && !value.is_volatile();
    match &condition.kind {
        ExprKind::Call { function, args } if function.comparison() == Some(Comparison::Equal) => {
            let [left, right] = &args[..] else { return None };
            let value = match (is_address(left), is_address(right)) {
                (true, _) => right,
                (_, true) => left,
                _ => return None,
            };
            is_fixed(value).then(|| KeyPart::Equal(value.clone()))
        }
        ExprKind::AnyAll { function, all: false, left, array, .. }
            if function.comparison() == Some(Comparison::Equal) && is_address(left) && is_fixed(array) =>
        {
            Some(KeyPart::Any(array.as_ref().clone()))
        }
        ExprKind::Or(args) => {
            let value = |arg: &Expr| match addresses(arg)? {
                KeyPart::Equal(value) => Some(value),
                _ => None,
            };
            let values = args.iter().map(value).collect::<Option<_>>()?;
            Some(KeyPart::Any(Expr::new(ExprKind::Array(Scalar::Tid, values), Type::Array(Scalar::Tid))))
        }
        ExprKind::Subquery(subquery) => {
            let (left, array) = list_of_subquery(subquery)?;
            is_address(left).then_some(KeyPart::Any(array))
        }
        _ => None,
    }
}

/// Access by the addresses of rows, if a condition asks for some.
fn by_address(conditions: &[Expr], order: &[SortKey]) -> Option<Choice> {
    let found = conditions.iter().enumerate();
    let (position, addresses) =
        found.filter_map(|(at, condition)| Some((at, addresses(condition)?))).next()?;
    let rank = if matches!(addresses, KeyPart::Equal(_)) { Rank::Point } else { Rank::Equal(1, false) };
    Some(Choice {
        access: Access::Address(AddressAccess { addresses, condition: conditions[position].clone() }),
        covered: BTreeSet::from([position]),
        ordered: order.is_empty(),
        rank,
        pruning: None,
    })
}

/// Set in the number of a subquery whose rows are collected as a list of keys.
const LIST_OF_SUBQUERY: usize = 1 << (usize::BITS - 1);

/// How an access is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// True if only a few rows are wanted, which makes an order worth a secondary index.
    pub limited: bool,
    /// True if costs decide, where the table was analyzed, rather than what is certain.
    pub costs: bool,
}

impl Rule {
    /// The rule by which certainty alone decides.
    pub const CERTAIN: Rule = Rule { limited: false, costs: false };
}

/// Chooses how to find the rows of `table` for which `conditions` hold. Column `i` of the conditions and the order is
/// column `columns[i]` of the table; a row key may follow as one more.
pub fn choose_access(
    table: &Arc<Table>,
    columns: &[usize],
    conditions: &[Expr],
    order: &[SortKey],
    rule: Rule,
) -> Choice {
    let mut reader = Reader { table, columns, out: Vec::new(), rows: Vec::new() };
    for (position, condition) in conditions.iter().enumerate() {
        reader.condition(condition, position);
    }
    let Reader { out: comparands, rows, .. } = reader;
    let pruning = pruning(table, &comparands);
    // Partitions are passed one after another, so several of them have no order together.
    let is_one = |parts: &Vec<KeyPart>| parts.iter().all(|part| matches!(part, KeyPart::Equal(_)));
    let has_order = table.partitioning.is_none() || pruning.as_ref().is_some_and(is_one);
    let full_order = table
        .primary_key
        .as_ref()
        .filter(|_| has_order && !order.is_empty())
        .and_then(|index| order_of(table, index, &[], columns, order));
    let mut choices = vec![Choice {
        access: Access::Full(full_order.unwrap_or(Direction::Forward)),
        covered: BTreeSet::new(),
        ordered: order.is_empty() || full_order.is_some(),
        rank: Rank::Full,
        pruning: pruning.clone(),
    }];
    let indexes = table.indexes.iter().enumerate().map(|(position, index)| (Some(position), index));
    for (position, index) in table.primary_key.iter().map(|index| (None, index)).chain(indexes) {
        let Some(mut choice) = by_index(table, position, index, columns, &comparands, &rows, order) else {
            continue;
        };
        choice.ordered &= has_order || order.is_empty();
        choice.pruning.clone_from(&pruning);
        // A detour over a secondary index for its order alone pays when only the first rows are wanted.
        let for_order = rule.limited && !order.is_empty() && choice.ordered && !choices[0].ordered;
        if choice.rank > Rank::Full || for_order {
            choices.push(choice);
        }
    }
    let is_point = choices.iter().any(|choice| choice.rank == Rank::Point);
    let best = match rule.costs && table.is_analyzed() && !is_point {
        true => cheapest(table, columns, conditions, !order.is_empty(), rule.limited, choices),
        false => most_certain(choices),
    };
    by_address(conditions, order).filter(|choice| choice.rank > best.rank).unwrap_or(best)
}

/// The first of the choices that are the most certain to find few rows.
fn most_certain(choices: Vec<Choice>) -> Choice {
    let better =
        |best: Choice, choice: Choice| match (choice.rank, choice.ordered) > (best.rank, best.ordered) {
            true => choice,
            false => best,
        };
    choices.into_iter().reduce(better).expect("a table can always be read as a whole")
}

/// The cheapest of the choices; of equal ones the most certain.
fn cheapest(
    table: &Arc<Table>,
    columns: &[usize],
    conditions: &[Expr],
    is_sorted: bool,
    limited: bool,
    choices: Vec<Choice>,
) -> Choice {
    /// The fewest rows that a table is taken to have: one that was analyzed when it was small may have grown.
    const ROWS_MIN: f64 = 1000.0;
    /// The fraction of rows that a limit leaves.
    const LIMITED: f64 = 0.1;
    let rows = table_rows(table).max(ROWS_MIN);
    let stored = table_columns(table, rows);
    let cost = |choice: &Choice| {
        let rest = conditions.iter().enumerate().filter(|(at, _)| !choice.covered.contains(at));
        let rest: Vec<Expr> = rest.map(|(_, condition)| condition.clone()).collect();
        let of = |number: usize| columns.get(number).and_then(|position| stored.get(*position));
        let found = lookup(table, rows, &choice.access, &rest, &of);
        match (is_sorted, choice.ordered) {
            (true, false) => found.cost + sort_cost(found.rows, found.rows),
            (true, true) if limited => found.cost * LIMITED,
            _ => found.cost,
        }
    };
    let costs: Vec<f64> = choices.iter().map(cost).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let choices = choices.into_iter().zip(costs).filter(|(_, cost)| *cost <= least);
    most_certain(choices.map(|(choice, _)| choice).collect())
}

/// The first comparison of a column by an operator.
fn comparand(comparands: &[Comparand], column: usize, operator: Operator) -> Option<&Comparand> {
    comparands.iter().find(|comparand| comparand.column == column && comparand.operator == operator)
}

/// Returns the values that the columns of the partition key are equal to, if conditions give one or several for each.
fn pruning(table: &Table, comparands: &[Comparand]) -> Option<Vec<KeyPart>> {
    let of_column = |column: &usize| {
        let with = |operator| comparand(comparands, *column, operator);
        let equal = with(Operator::Compare(Comparison::Equal)).map(|c| KeyPart::Equal(c.value.clone()));
        equal.or_else(|| with(Operator::Any).map(|c| KeyPart::Any(c.value.clone())))
    };
    table.partitioning.as_ref()?.columns.iter().map(of_column).collect()
}

/// The first of several columns of a key that a comparison with rows has values of.
fn rows_part(comparand: &RowsComparand<'_>, columns: &[usize]) -> Option<(KeyPart, Expr)> {
    let places: Vec<usize> = columns
        .iter()
        .map_while(|column| comparand.columns.iter().position(|known| known == column))
        .collect();
    if places.is_empty() {
        return None;
    }
    let rows = comparand.rows.iter().map(|row| places.iter().map(|place| row[*place].1.clone()).collect());
    let part = KeyPart::Rows(places.len(), rows.collect());
    let arm =
        |row: &Vec<(&Expr, &Expr)>| Expr::and(places.iter().map(|place| row[*place].0.clone()).collect());
    let shown = ExprKind::Or(comparand.rows.iter().map(arm).collect());
    Some((part, Expr::new(shown, Type::Bool)))
}

fn by_index(
    table: &Table,
    position: Option<usize>,
    index: &Index,
    columns: &[usize],
    comparands: &[Comparand],
    rows: &[RowsComparand<'_>],
    order: &[SortKey],
) -> Option<Choice> {
    let mut equal: Vec<KeyPart> = Vec::new();
    let mut covered = BTreeSet::new();
    let mut shown = Vec::new();
    let mut fixed = Vec::new();
    let mut is_one = true;
    let mut at = 0;
    while let Some(column) = index.columns.get(at) {
        let of_column = |operator| comparand(comparands, *column, operator);
        if let Some(c) = of_column(Operator::Compare(Comparison::Equal)) {
            equal.push(KeyPart::Equal(c.value.clone()));
            fixed.push(*column);
            covered.insert(c.condition);
            shown.push(c.shown.clone());
            at += 1;
            continue;
        }
        // Several values of one part of a key at most: two would multiply.
        if !is_one {
            break;
        }
        let list = of_column(Operator::Any);
        let of_rows = rows
            .iter()
            .filter_map(|rows| Some((rows, rows_part(rows, &index.columns[at..])?)))
            .find(|(_, (part, _))| part.width() > 1 || list.is_none());
        if let Some((rows, (part, comparison))) = of_rows {
            if rows.exact && part.width() == rows.columns.len() {
                covered.insert(rows.condition);
            }
            at += part.width();
            equal.push(part);
            shown.push(comparison);
        } else if let Some(c) = list {
            equal.push(KeyPart::Any(c.value.clone()));
            if c.exact {
                covered.insert(c.condition);
            }
            shown.push(c.shown.clone());
            at += 1;
        } else {
            break;
        }
        is_one = false;
    }
    let mut range = None;
    if let Some(column) = index.columns.get(at) {
        let mut part = KeyRangePart::default();
        let mut bounds = Vec::new();
        for c in comparands.iter().filter(|c| c.column == *column) {
            let (bound, inclusive) = match c.operator {
                Operator::Compare(Comparison::Greater) => (&mut part.low, false),
                Operator::Compare(Comparison::GreaterOrEqual) => (&mut part.low, true),
                Operator::Compare(Comparison::Less) => (&mut part.high, false),
                Operator::Compare(Comparison::LessOrEqual) => (&mut part.high, true),
                _ => continue,
            };
            // A second bound on the same side is left to the filter.
            if bound.is_none() {
                *bound = Some((c.value.clone(), inclusive));
                bounds.push(c);
                shown.push(c.shown.clone());
            }
        }
        // Within one bound alone there are NULLs, if the column may have them.
        if table.columns[*column].not_null || (part.low.is_some() && part.high.is_some()) {
            covered.extend(bounds.iter().filter(|c| c.exact).map(|c| c.condition));
        }
        if part.low.is_some() || part.high.is_some() {
            range = Some(part);
        }
    }
    let point = index.unique && at == index.columns.len();
    let direction = if order.is_empty() { None } else { order_of(table, index, &fixed, columns, order) };
    // Several prefixes are passed in key order only if nothing but the listed column varies before the order's.
    let rank = match (at, &range) {
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
            conditions: shown,
        }),
        covered,
        ordered: order.is_empty() || direction.is_some(),
        rank,
        pruning: None,
    })
}

/// Returns which way the index must be passed for `order`, if its order serves; columns in `fixed` have one value.
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

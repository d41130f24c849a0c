//! Grouping: expressions over FROM's columns become expressions over keys and aggregates.

use std::{collections::BTreeSet, sync::Arc};

use gnomon_parser::ast::{self, GroupingElement, Row, Select};

use super::{
    QueryBinder,
    output::{SelectItem, plain_name},
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        scope::{Clause, Place, Scope, ScopeRelation},
        syntax::ordinal,
    },
    catalog::model::Oid,
    executor::{
        Expr,
        expr::{ExprKind, on_deep_stack},
        plan::WindowCall,
    },
    planner::{BoundSelect, Grouping},
    types::Datum,
};

/// The most grouping sets of a query.
const SETS_MAX: usize = 4096;

/// GROUP BY, before it is applied to what stands above it.
#[derive(Debug, Default)]
pub struct GroupBy {
    /// The keys, in terms of FROM's columns.
    keys: Vec<Expr>,
    /// For each key the column of the select list that it is, if any.
    outputs: Vec<Option<usize>>,
    /// The grouping sets, unless there is one of all keys.
    sets: Option<Vec<Vec<usize>>>,
}

/// The surroundings in which the items of GROUP BY are bound.
struct GroupCx<'c> {
    items: &'c mut [SelectItem],
    scope: &'c Scope<'c>,
    grouping: GroupBy,
}

impl QueryBinder<'_, '_> {
    /// GROUP BY: its keys in terms of FROM's columns, and the grouping sets over them.
    pub fn bind_group_by(
        &mut self,
        select: &Select,
        items: &mut [SelectItem],
        scope: &Scope<'_>,
    ) -> Result<Option<GroupBy>> {
        if select.group_by.is_empty() {
            return Ok(None);
        }
        let mut cx = GroupCx { items, scope, grouping: GroupBy::default() };
        // Each item contributes alternatives; the grouping sets are their product.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for element in &select.group_by {
            let alternatives = self.alternatives(element, &mut cx)?;
            check_sets(sets.len().saturating_mul(alternatives.len()))?;
            sets = sets
                .iter()
                .flat_map(|set| alternatives.iter().map(move |more| [&set[..], more].concat()))
                .collect();
        }
        if select.is_group_distinct {
            let mut known = BTreeSet::new();
            sets.retain(|set| known.insert(set.iter().copied().collect::<BTreeSet<usize>>()));
        }
        let mut grouping = cx.grouping;
        let plain = select
            .group_by
            .iter()
            .all(|element| matches!(element, GroupingElement::Expr(_) | GroupingElement::Empty(_)));
        grouping.sets = (!plain || grouping.keys.is_empty()).then_some(sets);
        Ok(Some(grouping))
    }

    /// The grouping sets that an item of GROUP BY or of GROUPING SETS stands for.
    fn alternatives(&mut self, element: &GroupingElement, cx: &mut GroupCx<'_>) -> Result<Vec<Vec<usize>>> {
        match element {
            GroupingElement::Expr(expr) => {
                let mut keys = Vec::new();
                self.group_keys(expr, &mut keys, cx)?;
                Ok(vec![keys])
            }
            GroupingElement::Empty(_) => Ok(vec![Vec::new()]),
            GroupingElement::Sets(elements, _) => {
                let mut sets = Vec::new();
                for element in elements {
                    sets.extend(self.alternatives(element, cx)?);
                    check_sets(sets.len())?;
                }
                Ok(sets)
            }
            GroupingElement::Rollup(exprs, _) => {
                let lists = self.key_lists(exprs, cx)?;
                Ok((0..=lists.len()).rev().map(|count| lists[..count].concat()).collect())
            }
            GroupingElement::Cube(exprs, _) => cube(&self.key_lists(exprs, cx)?),
        }
    }

    fn key_lists(&mut self, exprs: &[ast::Expr], cx: &mut GroupCx<'_>) -> Result<Vec<Vec<usize>>> {
        let mut lists = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let mut keys = Vec::new();
            self.group_keys(expr, &mut keys, cx)?;
            lists.push(keys);
        }
        Ok(lists)
    }

    /// Adds the keys that an expression of GROUP BY stands for: their positions among all keys.
    fn group_keys(
        &mut self,
        expr: &ast::Expr,
        positions: &mut Vec<usize>,
        cx: &mut GroupCx<'_>,
    ) -> Result<()> {
        // A list in parentheses is no row here.
        if let ast::Expr::Row(Row { fields, is_explicit: false, .. }) = expr {
            return on_deep_stack(|| {
                fields.iter().try_for_each(|field| self.group_keys(field, positions, cx))
            });
        }
        let (output, bound) = self.group_key(expr, cx)?;
        if bound.any(&|e| matches!(e.kind, ExprKind::Aggregate(_))) {
            return Err(SqlError::new(
                SqlState::GROUPING_ERROR,
                "aggregate functions are not allowed in GROUP BY",
            ));
        }
        if bound.any(&|e| matches!(e.kind, ExprKind::Window(_))) {
            return Err(SqlError::new(SqlState("42P20"), "window functions are not allowed in GROUP BY"));
        }
        let GroupBy { keys, outputs, .. } = &mut cx.grouping;
        // Keys that are different columns of the select list stay apart, be they the same expression.
        let known = match output {
            Some(_) => outputs.iter().position(|other| *other == output),
            None => keys.iter().position(|key| key.alike(&bound)),
        };
        positions.push(known.unwrap_or_else(|| {
            keys.push(bound);
            outputs.push(output);
            keys.len() - 1
        }));
        Ok(())
    }

    /// A key, and the column of the select list that it is, if any.
    fn group_key(&mut self, expr: &ast::Expr, cx: &mut GroupCx<'_>) -> Result<(Option<usize>, Expr)> {
        let items = &mut *cx.items;
        let output = match plain_name(expr) {
            None => ordinal(expr, items.len(), "GROUP BY")?,
            // A column of the input goes before one of the output.
            Some(name) => match cx.scope.column(&name.name, &mut self.statement.numbers) {
                Ok(Some(_)) => None,
                Ok(None) => {
                    let position = named_output(&name.name, items).map_err(|error| at_expr(error, expr))?;
                    if let (Some(expansions), Some(position)) = (&mut self.statement.expansions, position) {
                        expansions.output(expr, position);
                    }
                    position
                }
                Err(error) => return Err(at_expr(error, expr)),
            },
        };
        if let Some(position) = output {
            return Ok((output, items[position].settled(&mut self.statement.typing)?));
        }
        let bound = self.expressions().bind(expr, Place::new(cx.scope, Clause::GroupBy))?;
        match items.iter().position(|item| item.expr.alike(&bound)) {
            Some(position) => Ok((Some(position), items[position].settled(&mut self.statement.typing)?)),
            None => Ok((None, self.statement.typing.known(bound)?)),
        }
    }
}

/// The position of the output column of this name.
fn named_output(name: &str, items: &[SelectItem]) -> Result<Option<usize>> {
    let mut named = items.iter().enumerate().filter(|(_, item)| item.name == name);
    let Some((position, item)) = named.next() else { return Ok(None) };
    if named.any(|(_, other)| !other.expr.alike(&item.expr)) {
        return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("GROUP BY \"{name}\" is ambiguous")));
    }
    Ok(Some(position))
}

/// Rewrites what stands above the grouping in terms of its keys and aggregates.
/// Returns the tables on whose primary keys that relies.
pub fn apply_grouping(
    select: &mut BoundSelect,
    mut grouping: GroupBy,
    scope: &Scope<'_>,
) -> Result<BTreeSet<Oid>> {
    let (dependents, tables) = add_dependent_columns(&mut grouping, select, scope);
    let names = select.aggregates.iter().map(|call| call.to_string().into()).collect();
    let GroupBy { keys, outputs, sets } = grouping;
    let mut grouped = Grouped { keys: &keys, aggregates: names, masks: Vec::new() };
    for (position, column) in select.columns.iter_mut().enumerate() {
        match outputs.iter().position(|output| *output == Some(position)) {
            Some(key) => *column = grouped.key(key),
            None => grouped.rewrite(column, false)?,
        }
    }
    let mut rewrite = |expr: &mut Expr| grouped.rewrite(expr, false);
    let keys_of_distinct = select.distinct.iter_mut().flatten().flatten();
    for order in select.order.iter_mut().chain(keys_of_distinct) {
        match order.output {
            Some(position) => order.key.expr = select.columns[position].clone(),
            None => rewrite(&mut order.key.expr)?,
        }
    }
    select.having.iter_mut().try_for_each(&mut rewrite)?;
    let mut aggregates = std::mem::take(&mut select.aggregates);
    for direct in aggregates.iter_mut().flat_map(|call| &mut call.direct) {
        rewrite(direct).map_err(|error| {
            error.detail("Direct arguments of an ordered-set aggregate must use only grouped columns.")
        })?;
    }
    select.aggregates = aggregates;
    for call in &mut select.windows {
        call.exprs_mut().try_for_each(&mut rewrite)?;
    }
    let masks = grouped.masks;
    select.grouping = Some(Grouping { keys, dependents, sets, masks });
    Ok(tables)
}

fn check_sets(count: usize) -> Result<()> {
    match count > SETS_MAX {
        true => Err(SqlError::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!("too many grouping sets present (maximum {SETS_MAX})"),
        )),
        false => Ok(()),
    }
}

/// All choices of the lists, larger ones first.
fn cube(lists: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    if lists.len() > 12 {
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, "CUBE is limited to 12 elements"));
    }
    let chosen = |mask: usize| (0..lists.len()).filter(move |bit| mask >> (lists.len() - 1 - bit) & 1 == 1);
    let sets = (0..1_usize << lists.len()).rev();
    Ok(sets.map(|mask| chosen(mask).flat_map(|bit| lists[bit].iter().copied()).collect()).collect())
}

/// Where the whole primary key of a table is among the keys of every grouping set, its other columns depend on it:
/// those that are used join the keys, which makes no more groups. Returns how many, and the tables that they are of.
fn add_dependent_columns(
    grouping: &mut GroupBy,
    select: &BoundSelect,
    scope: &Scope<'_>,
) -> (usize, BTreeSet<Oid>) {
    let first = grouping.keys.len();
    let mut tables = BTreeSet::new();
    let mut used = None;
    for relation in &scope.relations {
        let Some(table) = &relation.stored else { continue };
        let Some(primary_key) = &table.primary_key else { continue };
        let in_all_sets = |key: usize| grouping.sets.iter().flatten().all(|set| set.contains(&key));
        let is_key = |column: &Expr| {
            let mut keys = grouping.keys.iter().enumerate();
            keys.any(|(number, key)| key.same(column) && in_all_sets(number))
        };
        let grouped = primary_key.columns.iter().all(|position| {
            let column =
                relation.columns.iter().find(|c| usize::from(c.attribute.unsigned_abs()) == position + 1);
            column.is_some_and(|column| is_key(&column.expr))
        });
        if !grouped {
            continue;
        }
        let used = used.get_or_insert_with(|| ungrouped_columns(select, grouping));
        let columns = relation.columns.iter().map(|column| column.expr.clone());
        let columns = columns.chain(relation.witness()).chain(key_of_rows(relation));
        let more: Vec<Expr> = columns
            .filter(|column| column.as_column().is_some_and(|number| used.contains(&number)))
            .collect();
        if !more.is_empty() {
            tables.insert(table.oid);
        }
        let numbers = grouping.keys.len()..grouping.keys.len() + more.len();
        grouping.sets.iter_mut().flatten().for_each(|set| set.extend(numbers.clone()));
        grouping.outputs.extend(more.iter().map(|_| None));
        grouping.keys.extend(more);
    }
    (grouping.keys.len() - first, tables)
}

/// The key of a relation's rows, of which its system columns are computed.
fn key_of_rows(relation: &ScopeRelation) -> Option<Expr> {
    match &relation.system_columns.first()?.expr.kind {
        ExprKind::System { key, .. } => Some(Expr::clone(key)),
        _ => None,
    }
}

/// The columns that are used above the grouping, outside of aggregates and keys.
fn ungrouped_columns(select: &BoundSelect, grouping: &GroupBy) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let columns = select.columns.iter().enumerate();
    let columns = columns.filter(|(position, _)| !grouping.outputs.contains(&Some(*position)));
    let keys_of_distinct = select.distinct.iter().flatten().flatten();
    let orders = select.order.iter().chain(keys_of_distinct).filter(|order| order.output.is_none());
    let exprs = columns.map(|(_, column)| column).chain(&select.having);
    let exprs = exprs.chain(orders.map(|order| &order.key.expr));
    let exprs = exprs.chain(select.aggregates.iter().flat_map(|call| &call.direct));
    exprs
        .chain(select.windows.iter().flat_map(WindowCall::exprs))
        .for_each(|expr| collect_ungrouped(expr, &grouping.keys, &mut used));
    used
}

fn collect_ungrouped(expr: &Expr, keys: &[Expr], used: &mut BTreeSet<usize>) {
    if matches!(expr.kind, ExprKind::Grouping(_)) || keys.iter().any(|key| key.alike(expr)) {
        return;
    }
    used.extend(expr.as_column());
    expr.children(&mut |child| collect_ungrouped(child, keys, used));
}

/// The parts of a grouped row: keys, then aggregates by their names for EXPLAIN, then calls of GROUPING.
struct Grouped<'g> {
    keys: &'g [Expr],
    aggregates: Vec<Arc<str>>,
    masks: Vec<Vec<usize>>,
}

impl Grouped<'_> {
    /// The key at this position.
    fn key(&self, position: usize) -> Expr {
        let key = &self.keys[position];
        let label = match &key.kind {
            ExprKind::Column { label, .. } => label.clone(),
            _ => "?column?".into(),
        };
        Expr { kind: ExprKind::Column { index: position, label }, ty: key.ty }
    }

    /// The number of a call of GROUPING among those of the level.
    fn mask(&mut self, args: &[Expr]) -> Result<usize> {
        let asked = args.iter().map(|arg| self.keys.iter().position(|key| key.alike(arg)));
        let asked = asked.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            SqlError::new(
                SqlState::GROUPING_ERROR,
                "arguments to GROUPING must be grouping expressions of the associated query level",
            )
        })?;
        Ok(self.masks.iter().position(|mask| *mask == asked).unwrap_or_else(|| {
            self.masks.push(asked);
            self.masks.len() - 1
        }))
    }

    fn rewrite(&mut self, expr: &mut Expr, in_subquery: bool) -> Result<()> {
        let keys = self.keys;
        if let ExprKind::Aggregate(number) = expr.kind {
            let label = self.aggregates.get(number).cloned().unwrap_or_else(|| "?column?".into());
            expr.kind = ExprKind::Column { index: keys.len() + number, label };
            return Ok(());
        }
        if let ExprKind::Grouping(args) = &expr.kind {
            let index = keys.len() + self.aggregates.len() + self.mask(args)?;
            expr.kind = ExprKind::Column { index, label: "grouping".into() };
            return Ok(());
        }
        if !matches!(expr.kind, ExprKind::Const(Datum::Null))
            && let Some(position) = keys.iter().position(|key| key.alike(expr))
        {
            *expr = self.key(position);
            return Ok(());
        }
        if let ExprKind::Column { label, .. } = &expr.kind {
            return Err(SqlError::new(
                SqlState::GROUPING_ERROR,
                match in_subquery {
                    true => format!("subquery uses ungrouped column \"{label}\" from outer query"),
                    false => format!(
                        "column \"{label}\" must appear in the GROUP BY clause or be used in an aggregate function"
                    ),
                },
            ));
        }
        let in_subquery = in_subquery || matches!(expr.kind, ExprKind::Subquery(_));
        let mut result = Ok(());
        expr.children_mut(&mut |child| {
            if result.is_ok() {
                result = self.rewrite(child, in_subquery);
            }
        });
        result
    }
}

//! Estimates of the nodes of plans, from those beneath them.

use super::{
    ColumnEstimate, Estimate, Estimator,
    cost::{DESCENT, EVALUATE, HASH_BUILD, HASH_PROBE, PAIR, RESCAN, ROW, hash_cost, sort_cost},
    join::{equal_columns, groups},
    scan::{lookup, table_columns, table_rows},
    selectivity::{bare, list_length, selectivity_of_all},
    whole_rows,
};
use crate::{
    executor::{
        Expr,
        expr::{ExprKind, Subquery},
        plan::{
            Aggregate, Cte, FunctionScan, HashJoin, JoinKind, Limit, NestedLoop, Plan, Project, RowsFrom,
            SetOperation, Sort, TableScan, With,
        },
    },
    types::{ColumnType, Datum, Type},
};

/// The rows of a computed table.
const VIRTUAL_ROWS: f64 = 500.0;
/// The rows of a set-returning function.
const FUNCTION_ROWS: f64 = 1000.0;
/// How many times as many rows as its first part a recursive query has.
const RECURSION: f64 = 10.0;
/// The fraction of rows that LIMIT leaves if its count is not known.
const LIMITED: f64 = 0.1;

/// The conditions that all must hold.
fn conjuncts(condition: Option<&Expr>) -> &[Expr] {
    match condition {
        Some(Expr { kind: ExprKind::And(parts), .. }) => parts,
        Some(other) => std::slice::from_ref(other),
        None => &[],
    }
}

/// The selectivity of a condition on rows with these columns.
fn filtered(condition: Option<&Expr>, columns: &[ColumnEstimate]) -> f64 {
    selectivity_of_all(conjuncts(condition), &|number| columns.get(number))
}

/// A column that an expression computes.
fn computed(expr: &Expr, columns: &[ColumnEstimate], rows: f64) -> ColumnEstimate {
    let passed = bare(expr).as_column().and_then(|number| columns.get(number));
    passed.cloned().unwrap_or_else(|| ColumnEstimate::computed(expr.ty, rows))
}

/// The rows of a join of some kind, from those of the sides and the selectivity over their pairs.
fn joined_rows(kind: JoinKind, left: f64, right: f64, selectivity: f64) -> f64 {
    let pairs = left * right * selectivity;
    match kind {
        JoinKind::Inner => pairs,
        JoinKind::Left => pairs.max(left),
        JoinKind::Right => pairs.max(right),
        JoinKind::Full => pairs.max(left).max(right),
    }
}

impl Estimator {
    pub(super) fn node(&mut self, plan: &Plan) -> Estimate {
        let estimate = match plan {
            Plan::Values(node) => {
                let rows = node.rows.len() as f64;
                let types = node.rows.first().into_iter().flatten();
                let columns = types.map(|expr| ColumnEstimate::computed(expr.ty, rows)).collect();
                Estimate { startup: 0.0, total: rows * ROW, rows, columns }
            }
            Plan::TableScan(node) => table_scan(node),
            Plan::VirtualScan(node) => {
                let types = node.columns.iter().filter_map(|at| node.table.columns().get(*at));
                let columns: Vec<_> =
                    types.map(|column| ColumnEstimate::computed(column.ty, VIRTUAL_ROWS)).collect();
                let rows = whole_rows(VIRTUAL_ROWS * filtered(node.filter.as_ref(), &columns));
                Estimate { startup: 0.0, total: VIRTUAL_ROWS * ROW, rows, columns }
            }
            Plan::FunctionScan(node) => function_scan(node),
            Plan::CteScan(node) => match self.tables.get(&node.table) {
                Some(known) => Estimate { startup: 0.0, total: known.rows * ROW, ..(**known).clone() },
                None => Estimate { rows: FUNCTION_ROWS, total: FUNCTION_ROWS * ROW, ..Estimate::default() },
            },
            Plan::Filter(node) => {
                let input = self.of(&node.input);
                let rows = whole_rows(input.rows * filtered(Some(&node.condition), &input.columns));
                Estimate { rows, ..(*input).clone() }.plus(input.rows * EVALUATE)
            }
            Plan::Project(node) => self.project(node),
            Plan::ProjectSet(node) => {
                let input = self.of(&node.input);
                let rows = input.rows * node.sets.iter().map(function_rows).fold(1.0, f64::max);
                let sets = node.sets.iter().flat_map(|set| function_columns(set, rows));
                let columns = input.columns.iter().cloned().chain(sets).collect();
                Estimate { rows, columns, ..(*input).clone() }.plus(rows * ROW)
            }
            Plan::NestedLoop(node) => self.nested_loop(node),
            Plan::HashJoin(node) => self.hash_join(node),
            Plan::Sort(node) => self.sort(node),
            Plan::Limit(node) => self.limit(node),
            Plan::Aggregate(node) => self.aggregate(node),
            Plan::Window(node) => {
                let input = self.of(&node.input);
                let calls = node.calls.iter().map(|call| ColumnEstimate::computed(call.ty, input.rows));
                let columns = input.columns.iter().cloned().chain(calls).collect();
                let cost = sort_cost(input.rows, input.rows) + input.rows * ROW;
                Estimate { startup: input.total, columns, ..(*input).clone() }.plus(cost)
            }
            Plan::Distinct(node) => {
                let input = self.of(&node.input);
                let keys = node
                    .keys
                    .iter()
                    .map(|key| bare(key).as_column().and_then(|number| input.columns.get(number)));
                let rows = groups(keys, input.rows);
                Estimate { rows, ..(*input).clone() }.plus(input.rows * HASH_BUILD)
            }
            Plan::Append(inputs) => {
                let inputs: Vec<_> = inputs.iter().map(|input| self.of(input)).collect();
                let mut sum = inputs.first().map_or_else(Estimate::default, |first| (**first).clone());
                for input in inputs.iter().skip(1) {
                    sum.rows += input.rows;
                    sum.total += input.total;
                }
                for column in &mut sum.columns {
                    column.base_rows = column.base_rows.max(sum.rows);
                }
                sum
            }
            Plan::SetOperation(node) => self.set_operation(node),
            Plan::LockRows(node) => {
                let input = self.of(&node.input);
                (*input).clone().plus(input.rows * DESCENT)
            }
            Plan::With(node) => self.with(node),
        };
        self.with_subqueries(plan, estimate)
    }

    /// Adds what subqueries in a node's expressions cost.
    fn with_subqueries(&mut self, plan: &Plan, mut estimate: Estimate) -> Estimate {
        let mut subqueries: Vec<&Subquery> = Vec::new();
        plan.exprs(&mut |expr| expr.subqueries(&mut |subquery| subqueries.push(subquery)));
        if subqueries.is_empty() {
            return estimate;
        }
        let inputs = plan.inputs();
        let around = match inputs.first() {
            Some(input) => self.of(input).rows,
            None => estimate.rows,
        };
        for subquery in subqueries {
            let each = self.of(&subquery.plan).total;
            let all = match (&subquery.keyed, subquery.correlated) {
                (_, false) => each,
                (None, true) => around * each,
                // Whichever is better.
                (Some(keyed), true) => (around * each).min(self.of(&keyed.plan).total + around * HASH_PROBE),
            };
            estimate.total += all;
        }
        estimate
    }

    fn project(&mut self, node: &Project) -> Estimate {
        let input = self.of(&node.input);
        let columns = node.columns.iter().map(|expr| computed(expr, &input.columns, input.rows)).collect();
        let made = node.columns.iter().filter(|column| column.as_column().is_none()).count();
        Estimate { columns, ..(*input).clone() }.plus(input.rows * made as f64 * EVALUATE)
    }

    fn nested_loop(&mut self, node: &NestedLoop) -> Estimate {
        let (left, right) = (self.of(&node.left), self.of(&node.right));
        let columns = [&left.columns[..], &right.columns[..]].concat();
        let selectivity = filtered(node.condition.as_ref(), &columns);
        let rows = whole_rows(joined_rows(node.kind, left.rows, right.rows, selectivity));
        let pairs = left.rows * right.rows;
        let inner = match node.params.is_empty() {
            // It is run once and kept.
            true => right.total,
            false => left.rows * (right.total + RESCAN),
        };
        let conditions = conjuncts(node.condition.as_ref()).len() as f64;
        let total = left.total + inner + pairs * (PAIR + conditions * EVALUATE);
        Estimate { startup: left.startup + right.startup, total, rows, columns }
    }

    fn hash_join(&mut self, node: &HashJoin) -> Estimate {
        let (left, right) = (self.of(&node.left), self.of(&node.right));
        let columns = [&left.columns[..], &right.columns[..]].concat();
        let mut selectivity = filtered(node.condition.as_ref(), &columns);
        for (a, b) in &node.keys {
            let (a, b) = (computed(a, &left.columns, left.rows), computed(b, &right.columns, right.rows));
            selectivity *= equal_columns(&a, &b);
        }
        let rows = whole_rows(joined_rows(node.kind, left.rows, right.rows, selectivity));
        let startup = left.startup + right.total + hash_cost(right.rows, right.width());
        let conditions = conjuncts(node.condition.as_ref()).len() as f64;
        let total = startup - left.startup
            + left.total
            + left.rows * HASH_PROBE
            + rows * (PAIR + conditions * EVALUATE);
        Estimate { startup, total, rows, columns }
    }

    fn sort(&mut self, node: &Sort) -> Estimate {
        let input = self.of(&node.input);
        let bound = node.bound.as_ref().and_then(|(limit, offset)| {
            Some(count_of(limit)? + offset.as_ref().map_or(Some(0.0), count_of)?)
        });
        let startup = input.total + sort_cost(input.rows, bound.unwrap_or(input.rows));
        Estimate { startup, total: startup + input.rows * EVALUATE, ..(*input).clone() }
    }

    fn limit(&mut self, node: &Limit) -> Estimate {
        let input = self.of(&node.input);
        let skipped =
            node.offset.as_ref().map_or(0.0, |offset| count_of(offset).unwrap_or(input.rows * LIMITED));
        let skipped = skipped.min(input.rows);
        let left = (input.rows - skipped).max(0.0);
        let rows = match &node.limit {
            None | Some(Expr { kind: ExprKind::Const(Datum::Null), .. }) => left,
            Some(limit) => count_of(limit).unwrap_or(input.rows * LIMITED).min(left),
        };
        let run = input.total - input.startup;
        let cost_after = |rows: f64| input.startup + run * (rows / input.rows.max(1.0)).min(1.0);
        Estimate {
            startup: cost_after(skipped),
            total: cost_after(skipped + rows),
            rows: rows.round().max(1.0),
            columns: input.columns.clone(),
        }
    }

    fn aggregate(&mut self, node: &Aggregate) -> Estimate {
        let input = self.of(&node.input);
        let of = |key: &Expr| bare(key).as_column().and_then(|number| input.columns.get(number));
        let rows = match &node.sets {
            None if node.keys.is_empty() => 1.0,
            None => groups(node.telling(&node.keys).iter().map(of), input.rows),
            Some(sets) => {
                let of_set = |set: &Vec<usize>| match set.is_empty() {
                    true => 1.0,
                    false => groups(set.iter().filter_map(|at| node.keys.get(*at)).map(of), input.rows),
                };
                sets.iter().map(of_set).sum()
            }
        };
        let keys = node.keys.iter().map(|key| computed(key, &input.columns, rows));
        let calls = node.calls.iter().map(|call| ColumnEstimate::computed(call.ty, rows));
        let int = ColumnType { ty: Type::Int4, modifier: -1 };
        let masks = node.masks.iter().map(|_| ColumnEstimate::computed(int, rows));
        let columns: Vec<ColumnEstimate> = match &node.keys[..] {
            // The only key is different in each group.
            [key] if node.sets.is_none() => {
                let key = ColumnEstimate::distinct(key.ty, rows);
                [key].into_iter().chain(calls).chain(masks).collect()
            }
            _ => keys.chain(calls).chain(masks).collect(),
        };
        let each = EVALUATE * node.calls.len() as f64 + if node.keys.is_empty() { 0.0 } else { HASH_PROBE };
        let total = input.total + input.rows * each + rows * ROW;
        Estimate { startup: input.total + input.rows * each, total, rows, columns }
    }

    fn set_operation(&mut self, node: &SetOperation) -> Estimate {
        let (left, right) = (self.of(&node.left), self.of(&node.right));
        let rows = if node.except { left.rows } else { left.rows.min(right.rows) };
        let total = left.total + right.total + (left.rows + right.rows) * HASH_BUILD;
        Estimate { startup: total, total, rows, columns: left.columns.clone() }
    }

    fn with(&mut self, node: &With) -> Estimate {
        self.of_tables(&node.tables);
        let body = self.of(&node.body);
        let tables: f64 = node.tables.iter().flat_map(Cte::plans).map(|plan| self.of(plan).total).sum();
        (*body).clone().plus(tables)
    }

    /// Takes note of common table expressions, for the plans that name them.
    pub fn of_tables(&mut self, tables: &[Cte]) {
        for cte in tables {
            let mut rows = self.of(&cte.plan);
            if let Some((recursive, _)) = &cte.recursive {
                let first = rows.clone();
                self.tables.insert(cte.table, first.clone());
                let round = self.of(recursive);
                let all = first.rows + RECURSION * round.rows;
                rows = std::sync::Arc::new(Estimate { rows: all, ..(*first).clone() });
            }
            self.tables.insert(cte.table, rows);
        }
    }
}

fn table_scan(node: &TableScan) -> Estimate {
    let all = table_rows(&node.table);
    let stored = table_columns(&node.table, all);
    let mut columns: Vec<ColumnEstimate> =
        node.columns.iter().filter_map(|position| stored.get(*position)).cloned().collect();
    if node.with_key {
        let key = ColumnType { ty: Type::Bytea, modifier: -1 };
        columns.push(ColumnEstimate::distinct(key, all));
    }
    let found = lookup(&node.table, all, &node.access, conjuncts(node.filter.as_ref()), &|number| {
        columns.get(number)
    });
    Estimate { startup: 0.0, total: found.cost, rows: found.rows, columns }
}

fn function_scan(node: &FunctionScan) -> Estimate {
    let rows = node.functions.iter().map(function_rows).fold(1.0, f64::max);
    let mut columns: Vec<ColumnEstimate> =
        node.functions.iter().flat_map(|function| function_columns(function, rows)).collect();
    if node.ordinality {
        columns.push(ColumnEstimate::distinct(ColumnType { ty: Type::Int8, modifier: -1 }, rows));
    }
    Estimate { startup: 0.0, total: rows * ROW, rows, columns }
}

fn function_columns(function: &RowsFrom, rows: f64) -> Vec<ColumnEstimate> {
    match function {
        RowsFrom::Set { function, .. } => {
            let types = function.columns().iter().map(|(_, ty)| ColumnType::from(*ty));
            types.map(|ty| ColumnEstimate::computed(ty, rows)).collect()
        }
        RowsFrom::Scalar(expr) => vec![ColumnEstimate::computed(expr.ty, rows)],
    }
}

/// The rows of a function: of a series between constants, their number; of an array, its length.
fn function_rows(function: &RowsFrom) -> f64 {
    let RowsFrom::Set { function, args, .. } = function else { return 1.0 };
    let number = |expr: &Expr| bare(expr).as_const().and_then(Datum::as_f64);
    match (function.name(), &args[..]) {
        ("generate_series", [from, to, step @ ..]) => {
            let step = step.first().map_or(Some(1.0), number);
            match (number(from), number(to), step) {
                (Some(from), Some(to), Some(step)) if step != 0.0 => {
                    (((to - from) / step).floor() + 1.0).max(1.0)
                }
                _ => FUNCTION_ROWS,
            }
        }
        ("unnest", [array]) => list_length(array).max(1.0),
        _ => FUNCTION_ROWS,
    }
}

/// The count of LIMIT or OFFSET, if it is a constant.
fn count_of(expr: &Expr) -> Option<f64> {
    bare(expr).as_const().and_then(Datum::as_f64)
}

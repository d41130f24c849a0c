//! EXPLAIN: the nodes of a plan, in PostgreSQL's manner.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gnomon_engine::Direction;

use super::{
    Access, Cte, FunctionScan, JoinKind, Plan, RowsFrom, SortKey, TableScan,
    shown::{Child, Node, NodeValue},
};
use crate::{
    catalog::model::Table,
    executor::{
        Expr, Measures,
        expr::{DisplayExpr, ExprKind, Subquery, own_name},
    },
    functions::quote_ident,
};

/// The nodes of a plan, with their runs if these were measured.
pub fn explain(plan: &Plan, measures: &Measures) -> Node {
    let mut relations = 0;
    count_relations(plan, &mut relations);
    Builder::new(relations > 1, measures).plan(plan)
}

/// The nodes of common table expressions, beneath a statement that is no plan.
pub fn explain_tables(tables: &[Cte], measures: &Measures) -> Vec<Child> {
    measures.estimate_tables(tables);
    Builder::new(true, measures).tables(tables)
}

fn count_relations(plan: &Plan, count: &mut usize) {
    if matches!(plan, Plan::TableScan(_) | Plan::VirtualScan(_) | Plan::FunctionScan(_) | Plan::CteScan(_)) {
        *count += 1;
    }
    plan.inputs().into_iter().for_each(|input| count_relations(input, count));
}

struct Builder<'a> {
    qualified: bool,
    /// The subqueries that have their nodes, by number.
    seen: BTreeSet<usize>,
    /// The names of values that slots have.
    slots: BTreeMap<usize, Arc<str>>,
    measures: &'a Measures,
}

/// The text of a condition. Operators bring their parentheses.
fn in_parentheses(text: String) -> String {
    if text.starts_with('(') { text } else { format!("({text})") }
}

impl<'a> Builder<'a> {
    fn new(qualified: bool, measures: &'a Measures) -> Builder<'a> {
        Builder { qualified, seen: BTreeSet::new(), slots: BTreeMap::new(), measures }
    }

    fn text(&self, expr: &Expr) -> String {
        in_parentheses(self.bare(expr))
    }

    fn bare(&self, expr: &Expr) -> String {
        self.named_as(expr, self.qualified)
    }

    /// The text of a condition of a scan: of columns, those of the scan go by their own names, as in PostgreSQL.
    fn of_scan(&self, expr: &Expr) -> NodeValue {
        NodeValue::Text(in_parentheses(self.named_as(expr, false)))
    }

    /// The text of the conditions that a key is found by, its columns on the left.
    fn of_key(&self, conditions: &[Expr]) -> NodeValue {
        let mut parts = Vec::new();
        conditions.iter().cloned().for_each(|condition| condition.split_and(&mut parts));
        let texts: Vec<String> = parts.iter().map(|part| self.key_first(part)).collect();
        NodeValue::Text(match &texts[..] {
            [text] => in_parentheses(text.clone()),
            texts => format!("({})", texts.join(" AND ")),
        })
    }

    /// The text of a condition on a key, which stands on the left.
    fn key_first(&self, condition: &Expr) -> String {
        if let ExprKind::Call { function, args } = &condition.kind
            && let [value, key] = &args[..]
            && !value.has_columns()
            && key.has_columns()
            && let Some(operator) = function.operator().and_then(mirrored)
        {
            return format!("({} {operator} {})", self.named_as(key, false), self.named_as(value, false));
        }
        self.named_as(condition, false)
    }

    /// The text of an expression, values from outside of its row named as what they are.
    fn named_as(&self, expr: &Expr, qualified: bool) -> String {
        let is_known = |e: &Expr| matches!(&e.kind, ExprKind::Slot(slot) if self.slots.contains_key(slot));
        if !expr.any(&is_known) {
            return DisplayExpr { expr, qualified }.to_string();
        }
        let mut shown = expr.clone();
        shown.replace(&mut |e| {
            let label = match &e.kind {
                ExprKind::Slot(slot) => self.slots.get(slot)?.clone(),
                ExprKind::Column { label, .. } if !qualified => own_name(label).into(),
                _ => return None,
            };
            Some(Expr::column(0, label, e.ty))
        });
        DisplayExpr { expr: &shown, qualified: true }.to_string()
    }

    /// Notes what slots have, by expressions of the row that sets them.
    fn note_slots<'e>(&mut self, values: impl IntoIterator<Item = &'e (usize, Expr)>) {
        for (slot, value) in values {
            let name = self.named_as(value, true);
            self.slots.insert(*slot, name.into());
        }
    }

    fn list<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> NodeValue {
        NodeValue::List(exprs.into_iter().map(|expr| self.bare(expr)).collect())
    }

    fn keys(&self, keys: &[SortKey]) -> NodeValue {
        let texts = keys.iter().map(|key| {
            let mut text = self.bare(&key.expr);
            if key.descending {
                text.push_str(" DESC");
            }
            if key.nulls_first != key.descending {
                text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
            }
            text
        });
        NodeValue::List(texts.collect())
    }

    /// A plan with all that is beneath it. A node of PostgreSQL's also computes columns, and those that join or group
    /// rows also filter them: where there are plans of their own for that, they are a part of the node beneath.
    fn plan(&mut self, plan: &Plan) -> Node {
        if let Plan::NestedLoop(join) = plan {
            self.note_slots(&join.params);
        }
        // The estimate of a node takes those beneath it along.
        let estimate = self.measures.estimate(plan);
        let mut node = match plan {
            Plan::Project(project) => {
                let output = project.columns.iter().map(|column| self.bare(column)).collect();
                Node { output: Some(output), ..self.plan(&project.input) }
            }
            Plan::Filter(filter) if filters(&filter.input) => {
                let mut node = self.plan(&filter.input);
                node.details.extend(self.filter(Some(&filter.condition)));
                node
            }
            Plan::With(with) => {
                let tables = self.tables(&with.tables);
                let mut node = self.plan(&with.body);
                node.children.splice(0..0, tables);
                node
            }
            plan => {
                let mut node = self.node(plan);
                for (i, input) in plan.inputs().into_iter().enumerate() {
                    let relationship = match plan {
                        Plan::Append(_) | Plan::SetOperation(_) => "Member",
                        _ if i == 0 => "Outer",
                        _ => "Inner",
                    };
                    node.children.push(Child::input(relationship, self.plan(input)));
                }
                node
            }
        };
        // What a node returns counts behind all that it does with its rows.
        node.run = self.measures.of(plan);
        node.estimate = estimate;
        match plan {
            Plan::NestedLoop(_) => node.removed_by("Join Filter", "Rows Removed by Join Filter"),
            Plan::TableScan(_) | Plan::VirtualScan(_) | Plan::Filter(_) => {
                node.removed_by("Filter", "Rows Removed by Filter");
            }
            _ => {}
        }
        let mut subqueries = Vec::new();
        plan.exprs(&mut |expr| expr.subqueries(&mut |subquery| subqueries.push(subquery)));
        for subquery in subqueries {
            if self.seen.insert(subquery.id) {
                self.subquery(subquery, &mut node.children);
            }
        }
        node
    }

    fn subquery(&mut self, subquery: &Subquery, children: &mut Vec<Child>) {
        self.note_slots(&subquery.args);
        let relationship = if subquery.correlated { "SubPlan" } else { "InitPlan" };
        let name = format!("{relationship} {}", subquery.id + 1);
        if let Some(keyed) = &subquery.keyed {
            let hashed = Some(format!("{name} (hashed)"));
            children.push(self.named(relationship, Some(name), &subquery.plan));
            let condition = Some(self.text(&Expr::and(keyed.equalities.clone())));
            children.push(Child { condition, ..self.named(relationship, hashed, &keyed.plan) });
        } else {
            children.push(self.named(relationship, Some(name), &subquery.plan));
        }
    }

    fn tables(&mut self, tables: &[Cte]) -> Vec<Child> {
        let mut children = Vec::new();
        for cte in tables {
            let name = format!("CTE {}", cte.name);
            let recursive = Some(format!("{name} (recursive)"));
            children.push(self.named("InitPlan", Some(name), &cte.plan));
            if let Some((plan, _)) = &cte.recursive {
                children.push(self.named("InitPlan", recursive, plan));
            }
        }
        children
    }

    /// A plan that is no input of the node above it.
    fn named(&mut self, relationship: &'static str, name: Option<String>, plan: &Plan) -> Child {
        Child { name, ..Child::input(relationship, self.plan(plan)) }
    }

    /// A node without those beneath it.
    fn node(&self, plan: &Plan) -> Node {
        match plan {
            Plan::Values(node) if node.rows.len() == 1 => simple("Result"),
            Plan::Values(_) => Node { objects: vec![text("Alias", "*VALUES*")], ..simple("Values Scan") },
            Plan::TableScan(node) => self.table_scan(node),
            Plan::VirtualScan(node) => Node {
                title: on("Seq Scan on", node.table.name(), &node.alias),
                kind: "Seq Scan",
                objects: relation(node.table.name(), &node.alias),
                details: self.filter_of_scan(node.filter.as_ref()),
                ..Node::default()
            },
            Plan::FunctionScan(node) => function_scan(node),
            Plan::CteScan(node) => Node {
                title: format!("CTE Scan on {}", node.name),
                objects: vec![text("CTE Name", &node.name), text("Alias", &node.name)],
                ..simple("CTE Scan")
            },
            Plan::Filter(node) => Node { details: self.filter(Some(&node.condition)), ..simple("Filter") },
            // These are a part of what is beneath them, see `plan`.
            Plan::Project(_) | Plan::With(_) => simple("Result"),
            Plan::ProjectSet(_) => simple("ProjectSet"),
            Plan::NestedLoop(node) => Node {
                title: join_name("Nested Loop", "Nested Loop", node.kind),
                manner: vec![join_type(node.kind)],
                details: self.join_filter(node.condition.as_ref()),
                ..simple("Nested Loop")
            },
            Plan::HashJoin(node) => {
                let equal = node
                    .keys
                    .iter()
                    .map(|(left, right)| format!("({} = {})", self.bare(left), self.bare(right)));
                let equal: Vec<String> = equal.collect();
                let condition = equal.join(" AND ");
                let condition = if equal.len() > 1 { format!("({condition})") } else { condition };
                let mut details = vec![("Hash Cond", NodeValue::Text(condition))];
                details.extend(self.join_filter(node.condition.as_ref()));
                Node {
                    title: join_name("Hash Join", "Hash", node.kind),
                    manner: vec![join_type(node.kind)],
                    details,
                    ..simple("Hash Join")
                }
            }
            Plan::Sort(node) => Node { details: vec![("Sort Key", self.keys(&node.keys))], ..simple("Sort") },
            Plan::Limit(_) => simple("Limit"),
            Plan::Aggregate(node) => {
                let (title, strategy) = match node.keys.is_empty() {
                    true => ("Aggregate", "Plain"),
                    false => ("HashAggregate", "Hashed"),
                };
                let keys = node.telling(&node.keys);
                let keys = (!keys.is_empty()).then(|| ("Group Key", self.list(keys)));
                Node {
                    title: title.to_owned(),
                    manner: vec![text("Strategy", strategy), text("Partial Mode", "Simple")],
                    details: keys.into_iter().collect(),
                    ..simple("Aggregate")
                }
            }
            Plan::Window(_) => simple("WindowAgg"),
            Plan::Distinct(_) => simple("Unique"),
            Plan::Append(_) => simple("Append"),
            Plan::SetOperation(node) => {
                let all = if node.all { " All" } else { "" };
                let command = format!("{}{all}", if node.except { "Except" } else { "Intersect" });
                Node {
                    title: format!("HashSetOp {command}"),
                    manner: vec![text("Strategy", "Hashed")],
                    objects: vec![text("Command", &command)],
                    ..simple("SetOp")
                }
            }
            Plan::LockRows(_) => simple("LockRows"),
        }
    }

    fn filter(&self, condition: Option<&Expr>) -> Vec<(&'static str, NodeValue)> {
        condition.map(|condition| ("Filter", NodeValue::Text(self.text(condition)))).into_iter().collect()
    }

    fn filter_of_scan(&self, condition: Option<&Expr>) -> Vec<(&'static str, NodeValue)> {
        condition.map(|condition| ("Filter", self.of_scan(condition))).into_iter().collect()
    }

    fn join_filter(&self, condition: Option<&Expr>) -> Vec<(&'static str, NodeValue)> {
        condition
            .map(|condition| ("Join Filter", NodeValue::Text(self.text(condition))))
            .into_iter()
            .collect()
    }

    fn table_scan(&self, node: &TableScan) -> Node {
        let table = &node.table;
        let mut details = Vec::new();
        let (kind, title, mut objects) = match &node.access {
            Access::Full(direction) => {
                let what = match direction {
                    Direction::Forward => "Seq Scan on",
                    Direction::Backward => "Seq Scan Backward on",
                };
                ("Seq Scan", on(what, &table.name, &node.alias), vec![])
            }
            Access::Key(access) => {
                let (backward, direction) = match access.direction {
                    Direction::Forward => ("", "Forward"),
                    Direction::Backward => ("Backward ", "Backward"),
                };
                let index = &access.index_of(table).name;
                if !access.conditions.is_empty() {
                    details.push(("Index Cond", self.of_key(&access.conditions)));
                }
                let what = format!("Index Scan {backward}using {index} on");
                let objects = vec![text("Scan Direction", direction), text("Index Name", index)];
                ("Index Scan", on(&what, &table.name, &node.alias), objects)
            }
            Access::Address(access) => {
                details.push(("TID Cond", self.of_scan(&access.condition)));
                ("Tid Scan", on("Tid Scan on", &table.name, &node.alias), vec![])
            }
            Access::Current(cursor) => {
                let condition = format!("CURRENT OF {}", quote_ident(cursor));
                details.push(("TID Cond", NodeValue::Text(condition)));
                ("Tid Scan", on("Tid Scan on", &table.name, &node.alias), vec![])
            }
        };
        details.extend(self.filter_of_scan(node.filter.as_ref()));
        let is_point = matches!(&node.access, Access::Key(access) if access.point);
        let partitions = partitions(table, is_point || node.pruning.is_some());
        details.extend(partitions.map(|partitions| ("Partitions", NodeValue::Text(partitions))));
        objects.extend(relation(&table.name, &node.alias));
        Node { title, kind, objects, details, ..Node::default() }
    }
}

/// The operator that compares the same with its sides exchanged.
fn mirrored(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "=" => "=",
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        _ => return None,
    })
}

/// True if PostgreSQL's node of such a plan can also filter its rows.
fn filters(plan: &Plan) -> bool {
    matches!(
        plan,
        Plan::Aggregate(_)
            | Plan::NestedLoop(_)
            | Plan::HashJoin(_)
            | Plan::FunctionScan(_)
            | Plan::CteScan(_)
            | Plan::Values(_)
    )
}

fn function_scan(node: &FunctionScan) -> Node {
    let names = node.functions.iter().map(|function| match function {
        RowsFrom::Set { function, .. } => function.name(),
        RowsFrom::Scalar(_) => node.alias.as_str(),
    });
    let names = names.collect::<Vec<_>>().join(", ");
    Node {
        title: on("Function Scan on", &names, &node.alias),
        objects: vec![text("Function Name", &names), text("Alias", &node.alias)],
        ..simple("Function Scan")
    }
}

/// A node whose title is its kind.
fn simple(kind: &'static str) -> Node {
    Node { title: kind.to_owned(), kind, ..Node::default() }
}

/// A named text.
pub fn text(name: &'static str, value: &str) -> (&'static str, NodeValue) {
    (name, NodeValue::Text(value.to_owned()))
}

/// The table that a node works on.
pub fn relation(name: &str, alias: &str) -> Vec<(&'static str, NodeValue)> {
    vec![text("Relation Name", name), text("Alias", alias)]
}

fn join_type(kind: JoinKind) -> (&'static str, NodeValue) {
    let kind = match kind {
        JoinKind::Inner => "Inner",
        JoinKind::Left => "Left",
        JoinKind::Right => "Right",
        JoinKind::Full => "Full",
    };
    text("Join Type", kind)
}

/// Returns which partitions of a table are looked at, if it has them: those that their key leads to, or all.
fn partitions(table: &Table, by_key: bool) -> Option<String> {
    let partitioning = table.partitioning.as_ref()?;
    let names: Vec<&str> =
        partitioning.columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
    Some(match by_key {
        true => format!("by {}", names.join(", ")),
        false => format!("all {}", partitioning.partitions.len()),
    })
}

/// The title of a node that works on a table.
pub fn on(what: &str, name: &str, alias: &str) -> String {
    match name == alias {
        true => format!("{what} {name}"),
        false => format!("{what} {name} {alias}"),
    }
}

fn join_name(inner: &str, stem: &str, kind: JoinKind) -> String {
    match kind {
        JoinKind::Inner => inner.to_owned(),
        JoinKind::Left => format!("{stem} Left Join"),
        JoinKind::Right => format!("{stem} Right Join"),
        JoinKind::Full => format!("{stem} Full Join"),
    }
}

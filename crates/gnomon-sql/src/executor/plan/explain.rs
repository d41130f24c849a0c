//! EXPLAIN: a plan as lines of text, in PostgreSQL's manner.

use std::collections::BTreeSet;

use gnomon_engine::Direction;

use super::{Access, Cte, JoinKind, Plan, RowsFrom, SortKey, TableScan};
use crate::{
    catalog::model::Table,
    executor::{
        Expr,
        expr::{DisplayExpr, ExprKind, Subquery},
    },
};

/// The lines of a plan.
pub fn explain(plan: &Plan) -> Vec<String> {
    let mut relations = 0;
    count_relations(plan, &mut relations);
    let mut printer = Printer { lines: Vec::new(), qualified: relations > 1, printed: BTreeSet::new() };
    printer.plan(plan, 0);
    printer.lines
}

/// The lines of common table expressions, beneath a statement that is no plan.
pub fn explain_tables(tables: &[Cte]) -> Vec<String> {
    let mut printer = Printer { lines: Vec::new(), qualified: true, printed: BTreeSet::new() };
    printer.tables(tables, 0);
    printer.lines
}

fn count_relations(plan: &Plan, count: &mut usize) {
    if matches!(plan, Plan::TableScan(_) | Plan::VirtualScan(_) | Plan::FunctionScan(_) | Plan::CteScan(_)) {
        *count += 1;
    }
    plan.inputs().into_iter().for_each(|input| count_relations(input, count));
}

struct Printer {
    lines: Vec<String>,
    qualified: bool,
    /// The subqueries that were printed, by number.
    printed: BTreeSet<usize>,
}

impl Printer {
    fn text(&self, expr: &Expr) -> String {
        let text = DisplayExpr { expr, qualified: self.qualified }.to_string();
        // Operators bring their parentheses.
        if text.starts_with('(') { text } else { format!("({text})") }
    }

    fn list<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> String {
        let texts = exprs.into_iter().map(|expr| DisplayExpr { expr, qualified: self.qualified }.to_string());
        texts.collect::<Vec<_>>().join(", ")
    }

    fn keys(&self, keys: &[SortKey]) -> String {
        let texts = keys.iter().map(|key| {
            let mut text = DisplayExpr { expr: &key.expr, qualified: self.qualified }.to_string();
            if key.descending {
                text.push_str(" DESC");
            }
            if key.nulls_first != key.descending {
                text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
            }
            text
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Prints a plan; the top one at indent 0, those below behind an arrow.
    fn plan(&mut self, plan: &Plan, indent: usize) {
        let (name, details, subplans) = self.node(plan);
        match indent {
            0 => self.lines.push(name),
            _ => self.lines.push(format!("{:1$}->  {name}", "", indent - 4)),
        }
        for (label, value) in details {
            self.lines.push(format!("{:1$}{label}: {value}", "", indent + 2));
        }
        if let Plan::With(node) = plan {
            self.tables(&node.tables, indent);
            self.plan(&node.body, indent + 6);
        } else {
            plan.inputs().into_iter().for_each(|input| self.plan(input, indent + 6));
        }
        for subquery in subplans {
            if self.printed.insert(subquery.id) {
                let name = if subquery.correlated { "SubPlan" } else { "InitPlan" };
                self.role(format!("{name} {}", subquery.id + 1), &subquery.plan, indent);
                if let Some(keyed) = &subquery.keyed {
                    self.lines.push(format!("{:1$}{name} {2} (hashed)", "", indent + 2, subquery.id + 1));
                    let equal = self.text(&Expr::and(keyed.equalities.clone()));
                    self.lines.push(format!("{:1$}Hash Cond: {equal}", "", indent + 4));
                    self.plan(&keyed.plan, indent + 8);
                }
            }
        }
    }

    /// Prints the plans of common table expressions.
    fn tables(&mut self, tables: &[Cte], indent: usize) {
        for cte in tables {
            self.role(format!("CTE {}", cte.name), &cte.plan, indent);
            if let Some((recursive, _)) = &cte.recursive {
                self.role(format!("CTE {} (recursive)", cte.name), recursive, indent);
            }
        }
    }

    /// Prints a plan that is no input of the node above it: what it is for, then itself.
    fn role(&mut self, role: String, plan: &Plan, indent: usize) {
        self.lines.push(format!("{:1$}{role}", "", indent + 2));
        self.plan(plan, indent + 8);
    }

    /// A node's name, what is said of it, and the subqueries in its expressions.
    fn node<'p>(&self, plan: &'p Plan) -> (String, Vec<(&'static str, String)>, Vec<&'p Subquery>) {
        let mut details = Vec::new();
        let mut subqueries = Vec::new();
        plan.exprs(&mut |expr| find_subqueries(expr, &mut subqueries));
        let filter = |details: &mut Vec<_>, condition: Option<&Expr>| {
            if let Some(condition) = condition {
                details.push(("Filter", self.text(condition)));
            }
        };
        let name = match plan {
            Plan::Values(node) => {
                if node.rows.len() == 1 {
                    "Result".to_owned()
                } else {
                    "Values Scan".to_owned()
                }
            }
            Plan::TableScan(node) => {
                filter(&mut details, node.filter.as_ref());
                let (name, condition) = scan_name(node);
                if let Some(condition) = condition {
                    details.insert(0, ("Index Cond", self.text(&condition)));
                }
                let is_point = matches!(&node.access, Access::Key(access) if access.point);
                let partitions = partitions(&node.table, is_point || node.pruning.is_some());
                details.extend(partitions.map(|partitions| ("Partitions", partitions)));
                name
            }
            Plan::VirtualScan(node) => {
                filter(&mut details, node.filter.as_ref());
                on("Seq Scan on", node.table.name(), &node.alias)
            }
            Plan::FunctionScan(node) => {
                let names: Vec<&str> = node
                    .functions
                    .iter()
                    .map(|function| match function {
                        RowsFrom::Set { function, .. } => function.name(),
                        RowsFrom::Scalar(_) => node.alias.as_str(),
                    })
                    .collect();
                on("Function Scan on", &names.join(", "), &node.alias)
            }
            Plan::CteScan(node) => format!("CTE Scan on {}", node.name),
            Plan::Filter(node) => {
                filter(&mut details, Some(&node.condition));
                "Filter".to_owned()
            }
            Plan::Project(node) => {
                details.push(("Output", self.list(&node.columns)));
                "Project".to_owned()
            }
            Plan::ProjectSet(_) => "ProjectSet".to_owned(),
            Plan::NestedLoop(node) => {
                if let Some(condition) = &node.condition {
                    details.push(("Join Filter", self.text(condition)));
                }
                join_name("Nested Loop", "Nested Loop", node.kind)
            }
            Plan::HashJoin(node) => {
                let mut equal = Vec::new();
                for (left, right) in &node.keys {
                    equal.push(format!("({} = {})", self.list([left]), self.list([right])));
                }
                let text = equal.join(" AND ");
                details.push(("Hash Cond", if equal.len() > 1 { format!("({text})") } else { text }));
                if let Some(condition) = &node.condition {
                    details.push(("Join Filter", self.text(condition)));
                }
                join_name("Hash Join", "Hash", node.kind)
            }
            Plan::Sort(node) => {
                details.push(("Sort Key", self.keys(&node.keys)));
                "Sort".to_owned()
            }
            Plan::Limit(_) => "Limit".to_owned(),
            Plan::Aggregate(node) => {
                if !node.keys.is_empty() {
                    details.push(("Group Key", self.list(&node.keys)));
                }
                if node.keys.is_empty() { "Aggregate".to_owned() } else { "HashAggregate".to_owned() }
            }
            Plan::Window(_) => "WindowAgg".to_owned(),
            Plan::Distinct(_) => "Unique".to_owned(),
            Plan::Append(_) => "Append".to_owned(),
            Plan::SetOperation(node) => {
                let all = if node.all { " All" } else { "" };
                format!("HashSetOp {}{all}", if node.except { "Except" } else { "Intersect" })
            }
            Plan::LockRows(_) => "LockRows".to_owned(),
            Plan::With(_) => "With".to_owned(),
        };
        (name, details, subqueries)
    }
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

fn find_subqueries<'e>(expr: &'e Expr, out: &mut Vec<&'e Subquery>) {
    if let ExprKind::Subquery(subquery) = &expr.kind {
        out.push(subquery);
    }
    expr.children(&mut |child| find_subqueries(child, out));
}

fn on(what: &str, name: &str, alias: &str) -> String {
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

/// A scan's name, and the condition that its key stands for.
fn scan_name(node: &TableScan) -> (String, Option<Expr>) {
    let table = &node.table;
    match &node.access {
        Access::Full(Direction::Forward) => (on("Seq Scan on", &table.name, &node.alias), None),
        Access::Full(Direction::Backward) => (on("Seq Scan Backward on", &table.name, &node.alias), None),
        Access::Key(access) => {
            let backward = if access.direction == Direction::Backward { "Backward " } else { "" };
            let what = format!("Index Scan {backward}using {} on", access.index_of(table).name);
            let condition = (!access.conditions.is_empty()).then(|| Expr::and(access.conditions.clone()));
            (on(&what, &table.name, &node.alias), condition)
        }
    }
}

//! The form of a statement: its text in normal form, without what statistics of statements do not tell apart.
//!
//! PostgreSQL numbers statements by their trees after analysis, where a constant is a type, a name is what it refers
//! to, and names of result columns do not occur. Here the tree is that of the grammar, so that fewer statements have
//! the same form: aliases of tables, and the schemas of names, count.

use std::{mem, ops::ControlFlow};

use crate::{
    ast::{
        ColumnReference, Constant, Distinct, Expr, GroupingElement, Ident, Query, QueryBody, Select, SortBy,
        SortDirection, Statement, TableReference, Target, Value,
    },
    visit::VisitorMut,
};

/// Returns the form of a query or a change; none of another statement.
pub(crate) fn form_of(statement: &Statement) -> Option<String> {
    let mut statement = statement.clone();
    if let Statement::Insert(ast) = &mut statement {
        drop_names(&mut ast.returning);
    } else if let Statement::Update(ast) = &mut statement {
        drop_names(&mut ast.returning);
    } else if let Statement::Delete(ast) = &mut statement {
        drop_names(&mut ast.returning);
    }
    let _: ControlFlow<()> = Former::default().walk_statement(&mut statement);
    match &statement {
        Statement::Query(query) => Some(query.to_string()),
        Statement::Insert(insert) => Some(insert.to_string()),
        Statement::Update(update) => Some(update.to_string()),
        Statement::Delete(delete) => Some(delete.to_string()),
        _ => None,
    }
}

/// Brings a tree into the form that is printed.
#[derive(Default)]
struct Former {
    /// True if another part of the statement can refer to the names of a query's columns.
    names_count: bool,
}

impl Former {
    fn with_names(
        &mut self,
        count: bool,
        walk: impl FnOnce(&mut Former) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let before = mem::replace(&mut self.names_count, count);
        let walked = walk(self);
        self.names_count = before;
        walked
    }
}

impl VisitorMut for Former {
    type Break = ();

    fn visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut with = query.with.take();
        if let Some(with) = &mut with {
            self.with_names(true, |former| former.walk_with(with))?;
        }
        let outputs = match &query.body {
            QueryBody::Select(select) if !query.order_by.is_empty() => outputs(&select.targets),
            _ => Vec::new(),
        };
        for item in &mut query.order_by {
            refer(&mut item.value, &outputs, true);
            fill_in(item);
        }
        let is_named = !matches!(query.body, QueryBody::Select(_)) && !query.order_by.is_empty();
        self.with_names(self.names_count || is_named, |former| former.walk_query(query))?;
        query.with = with;
        ControlFlow::Continue(())
    }

    fn visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let outputs = outputs(&select.targets);
        if !self.names_count {
            // GROUP BY prefers the columns of tables to those of the result.
            let groups = select.group_by.iter().filter_map(|element| match element {
                GroupingElement::Expr(expr) => lone_name(expr),
                _ => None,
            });
            let groups: Vec<Box<str>> = groups.map(Box::from).collect();
            let is_group = |alias: &Ident| groups.contains(&alias.name);
            for target in &mut select.targets {
                target.alias.take_if(|alias| !is_group(alias));
            }
        }
        for element in &mut select.group_by {
            if let GroupingElement::Expr(expr) = element {
                refer(expr, &outputs, false);
            }
        }
        if let Distinct::On(exprs) = &mut select.distinct {
            exprs.iter_mut().for_each(|expr| refer(expr, &outputs, true));
        }
        self.walk_select(select)
    }

    fn visit_table(&mut self, table: &mut TableReference) -> ControlFlow<()> {
        self.with_names(true, |former| former.walk_table(table))
    }

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let ty = match expr {
            Expr::Constant(constant) => type_of(&constant.value).to_owned(),
            Expr::Cast(cast)
                if matches!(
                    &cast.operand,
                    Expr::Constant(Constant { value: Value::String(_) | Value::Null, .. })
                ) =>
            {
                cast.ty.to_string()
            }
            _ => return self.with_names(false, |former| former.walk_expr(expr)),
        };
        *expr = mark(&format!("constant {ty}"));
        ControlFlow::Continue(())
    }
}

fn drop_names(targets: &mut [Target]) {
    targets.iter_mut().for_each(|target| target.alias = None);
}

/// The type that a constant has by itself, as its name is printed.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::String(_) => "unknown",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) => "integer",
        Value::Number(number) if number.parse::<i64>().is_ok() => "bigint",
        Value::Number(_) => "numeric",
        Value::Bits(_) | Value::Hex(_) => "bit",
    }
}

/// An expression that stands for something, printed as a name that no statement has.
fn mark(name: &str) -> Expr {
    let position = crate::Position::NONE;
    let field = Ident { name: name.into(), position };
    Expr::Column(ColumnReference { fields: vec![field], has_star: false, position })
}

fn lone_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(ColumnReference { fields, has_star: false, .. }) if fields.len() == 1 => {
            Some(&fields[0].name)
        }
        _ => None,
    }
}

/// A column of the result, as its number or name in another part of the query stands for it.
struct Output {
    alias: Option<Box<str>>,
    /// True if it stands for any number of columns.
    has_star: bool,
    meaning: Expr,
}

/// The columns of a result. One that is more than a name or a constant stays a number: its tree in the place of each
/// number would make a form larger than any limit.
fn outputs(targets: &[Target]) -> Vec<Output> {
    let of = |(before, target): (usize, &Target)| Output {
        alias: target.alias.as_ref().map(|alias| alias.name.clone()),
        has_star: matches!(&target.value, Expr::Column(column) if column.has_star),
        meaning: match &target.value {
            value @ (Expr::Column(ColumnReference { has_star: false, .. }) | Expr::Constant(_)) => {
                value.clone()
            }
            _ => mark(&format!("column {}", before + 1)),
        },
    };
    targets.iter().enumerate().map(of).collect()
}

/// Puts the column of the result in the place of its number or, with `by_name`, its name.
fn refer(expr: &mut Expr, outputs: &[Output], by_name: bool) {
    let meaning = match &*expr {
        Expr::Constant(Constant { value: Value::Integer(number), .. }) => {
            let position = usize::try_from(*number).unwrap_or(0);
            let has_star = outputs.iter().take(position).any(|output| output.has_star);
            match outputs.get(position.wrapping_sub(1)).filter(|_| !has_star) {
                Some(output) => output.meaning.clone(),
                None => mark(&format!("column {number}")),
            }
        }
        named => {
            let Some(name) = lone_name(named).filter(|_| by_name) else { return };
            match outputs.iter().find(|output| output.alias.as_deref() == Some(name)) {
                Some(output) => output.meaning.clone(),
                None => return,
            }
        }
    };
    *expr = meaning;
}

/// Leaves out what a sort has anyway.
fn fill_in(item: &mut SortBy) {
    if item.direction == SortDirection::Ascending {
        item.direction = SortDirection::Default;
    }
    let is_descending = item.direction == SortDirection::Descending;
    item.is_nulls_first.take_if(|is_first| *is_first == is_descending);
}

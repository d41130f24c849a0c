//! Expressions and queries that the catalog keeps as text: DEFAULT, CHECK, views.
//!
//! They are kept as the parser prints their trees; they are read again before, and must give the same tree. What is read
//! here has no places: errors about it would point into the statement at hand.
//!
//! A relation that a string stands for is kept as `'schema.name'::regclass`, whatever the search path is: the text depends
//! on it, and follows its new names.
//!
//! A CHECK keeps columns without the name of the table, whose row alone has it: `name.*`.
//!
//! Databases that are older than the project's parser have texts that another one printed. They are SQL as well, but for
//! two marks that stood for clauses which that parser did not have.

use std::ops::ControlFlow;

use gnomon_parser::{
    Position,
    ast::{
        Cast, ColumnReference, Constant, Expr, FunctionCall, GroupingElement, Ident, LockStrength,
        LockingClause, QualifiedName, Query, Select, TypeName, Value,
    },
    visit::VisitorMut,
};

use crate::{Result, SqlError, SqlState};

/// The first key of GROUP BY DISTINCT in old texts: a call of this function.
const OLD_GROUP_BY_DISTINCT: &str = "group by distinct";
/// The mark before the relations of FOR NO KEY UPDATE and FOR KEY SHARE in old texts, or instead of them, which are
/// else written as the stronger FOR UPDATE and FOR SHARE.
const OLD_WEAKER_ROW_LOCK: &str = "\u{1}key";

/// Returns the text to keep of an expression.
///
/// # Errors
/// 0A000 if it cannot be kept.
pub(crate) fn expression_text(expr: &Expr) -> Result<String> {
    let text = expr.to_string();
    let is_same = parse_expression(&text).is_ok_and(|read| read == *expr);
    confirm("expression", text, is_same)
}

/// Returns the text to keep of a query.
///
/// # Errors
/// As [`expression_text`].
pub(crate) fn query_text(query: &Query) -> Result<String> {
    let text = query.to_string();
    let is_same = parse_query(&text).is_ok_and(|read| read == *query);
    confirm("query", text, is_same)
}

fn confirm(kind: &str, text: String, is_same: bool) -> Result<String> {
    match is_same {
        true => Ok(text),
        false => Err(SqlError::unsupported(format!("storing the {kind} {text}"))),
    }
}

/// Returns the string that stands for a relation, as a value of regclass.
pub(crate) fn relation_literal(string: Constant) -> Expr {
    let position = string.position;
    Expr::Cast(Box::new(Cast { operand: Expr::Constant(string), ty: regclass(), position }))
}

/// True if an expression is a string that stands for a relation.
pub(crate) fn is_relation_literal(expr: &Expr) -> bool {
    relation_string(expr).is_some()
}

/// Returns the text of a string that stands for a relation.
pub(crate) fn relation_string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Cast(cast) if is_regclass(&cast.ty) => match &cast.operand {
            Expr::Constant(Constant { value: Value::String(text), .. }) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Gives a string that stands for a relation another text.
pub(crate) fn set_relation_string(expr: &mut Expr, to: String) {
    if let Expr::Cast(cast) = expr
        && let Expr::Constant(Constant { value: Value::String(text), .. }) = &mut cast.operand
    {
        *text = to.into();
        cast.ty = regclass();
    }
}

/// True if a kept text may have strings that stand for relations.
pub(crate) fn may_name_relations(text: &str) -> bool {
    text.contains("::regclass")
}

/// The type, as it is kept: without its schema.
fn regclass() -> TypeName {
    let name = QualifiedName(vec![Ident::new("regclass")]);
    TypeName { name, ..TypeName::system("regclass", Position::NONE) }
}

fn is_regclass(ty: &TypeName) -> bool {
    ty.bounds.is_empty()
        && match &ty.name.0[..] {
            [name] => *name.name == *"regclass",
            [schema, name] => *schema.name == *"pg_catalog" && *name.name == *"regclass",
            _ => false,
        }
}

/// Returns a kept expression over a table in which the table's row, `name.*`, goes by another name of the table.
///
/// # Errors
/// As [`parse_expression`].
pub(crate) fn with_row_renamed(text: &str, from: &str, to: &str) -> Result<String> {
    struct Rename<'n>(&'n str, &'n str);
    impl VisitorMut for Rename<'_> {
        type Break = ();
        fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Column(ColumnReference { fields, has_star: true, .. }) = expr
                && let [name] = &mut fields[..]
                && *name.name == *self.0
            {
                name.name = self.1.into();
            }
            self.walk_expr(expr)
        }
    }
    if !text.contains(".*") {
        return Ok(text.to_owned());
    }
    let mut expr = parse_expression(text)?;
    let _: ControlFlow<()> = Rename(from, to).visit_expr(&mut expr);
    expression_text(&expr)
}

/// Returns the expression that was kept as this text.
///
/// # Errors
/// 55000 if it cannot be read.
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    let mut expr = gnomon_parser::parse_expression(text).map_err(|error| unreadable(error, text))?;
    if has_old_marks(text) {
        let _: ControlFlow<()> = OldMarks.visit_expr(&mut expr);
    }
    Ok(expr)
}

/// Returns the query of a view that was kept as this text.
///
/// # Errors
/// As [`parse_expression`].
pub(crate) fn parse_query(text: &str) -> Result<Query> {
    let mut query = gnomon_parser::parse_query(text).map_err(|error| unreadable(error, text))?;
    if has_old_marks(text) {
        let _: ControlFlow<()> = OldMarks.visit_query(&mut query);
    }
    Ok(query)
}

fn has_old_marks(text: &str) -> bool {
    text.contains(OLD_GROUP_BY_DISTINCT) || text.contains(OLD_WEAKER_ROW_LOCK)
}

/// Puts the clauses in their place that old texts have as marks.
struct OldMarks;

impl VisitorMut for OldMarks {
    type Break = ();

    fn visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        query.locks.iter_mut().for_each(read_lock);
        self.walk_query(query)
    }

    fn visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.group_by.first().is_some_and(is_distinct) {
            select.group_by.remove(0);
            select.is_group_distinct = true;
        }
        self.walk_select(select)
    }
}

fn is_distinct(key: &GroupingElement) -> bool {
    let GroupingElement::Expr(Expr::Function(call)) = key else { return false };
    let FunctionCall { name, arguments, .. } = &**call;
    arguments.is_empty() && matches!(&name.0[..], [name] if *name.name == *OLD_GROUP_BY_DISTINCT)
}

/// Reads the mark of a weaker lock. A clause names one relation, or none.
fn read_lock(lock: &mut LockingClause) {
    let mut is_weaker = false;
    lock.tables.retain_mut(|table| {
        if table.schema.as_ref().is_some_and(|schema| *schema.name == *OLD_WEAKER_ROW_LOCK) {
            is_weaker = true;
            table.schema = None;
        }
        let is_mark = *table.name.name == *OLD_WEAKER_ROW_LOCK;
        is_weaker |= is_mark;
        !is_mark
    });
    if is_weaker {
        lock.strength = match lock.strength {
            LockStrength::Update | LockStrength::NoKeyUpdate => LockStrength::NoKeyUpdate,
            LockStrength::Share | LockStrength::KeyShare => LockStrength::KeyShare,
        };
    }
}

fn unreadable(error: Box<gnomon_parser::Error>, text: &str) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "a text that the catalog keeps cannot be read")
        .detail(format!("{error}: {text}"))
        .hint("Drop the default, constraint or view that it belongs to, and make it anew.")
}

#[cfg(test)]
mod tests;

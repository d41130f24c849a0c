//! Printing of FROM, and the names of relations in it.

use gnomon_parser::ast::{Alias, FunctionReference, Join, JoinCondition, JoinKind, TableReference};

use super::writer::{DefinitionWriter, LevelName};
use crate::{binder::figure_name, executor::expr::on_deep_stack, functions::quote_ident, types::Type};

/// The indent of a level.
const INDENT: isize = 8;
/// The indents of a join, and of members on lines of their own, from that of FROM.
const ITEM_INDENT: usize = 4;

/// Gives the relations of FROM the names under which the present level prints them.
pub fn name_relations<'q>(w: &mut DefinitionWriter<'_, 'q>, from: &[TableReference]) {
    for reference in from {
        on_deep_stack(|| name_relation(w, reference));
    }
}

fn name_relation<'q>(w: &mut DefinitionWriter<'_, 'q>, reference: &TableReference) {
    let named = |alias: Option<&Alias>, own: String| alias.map_or(own, |alias| alias.name.name.to_string());
    let (schema, name) = match reference {
        TableReference::Relation(relation) => {
            let schema = relation.name.schema.as_ref().filter(|_| relation.alias.is_none());
            let name = named(relation.alias.as_ref(), relation.name.name.name.to_string());
            (schema.map(|schema| schema.name.to_string()), name)
        }
        TableReference::Function(function) => (None, function_name(function)),
        TableReference::Subquery(subquery) => (None, subquery.alias.name.name.to_string()),
        TableReference::Join(join) => {
            name_relations(w, std::slice::from_ref(&join.left));
            name_relations(w, std::slice::from_ref(&join.right));
            let Some(alias) = &join.alias else { return };
            (None, alias.name.name.to_string())
        }
    };
    let is_used = |printed: &str| {
        w.reader.levels.iter().flat_map(|level| &level.relations).any(|known| known.printed == printed)
    };
    let mut printed = name.clone();
    let mut number = 0;
    while is_used(&printed) {
        number += 1;
        printed = format!("{name}_{number}");
    }
    if let Some(level) = w.reader.levels.last_mut() {
        level.relations.push(LevelName { schema, name, printed });
    }
}

/// Prints FROM.
pub fn print_from<'q>(w: &mut DefinitionWriter<'_, 'q>, from: &'q [TableReference]) {
    // Names that several members share are given in the order of the members.
    let mut next = 0;
    for (at, reference) in from.iter().enumerate() {
        if at == 0 {
            w.keyword(" FROM ", -INDENT, INDENT, 2);
            print_reference(w, reference, &mut next);
            continue;
        }
        w.push(", ");
        let text = w.aside(|w| print_reference(w, reference, &mut next));
        if !text.starts_with('\n') && w.overflows(&text) {
            w.keyword("", -INDENT, INDENT, ITEM_INDENT);
        }
        w.push_aside(&text);
    }
}

/// Prints a member of FROM; `next` is the number of its first name in the level.
fn print_reference<'q>(w: &mut DefinitionWriter<'_, 'q>, reference: &'q TableReference, next: &mut usize) {
    on_deep_stack(|| match reference {
        TableReference::Relation(relation) => {
            w.push(if relation.is_only { "ONLY " } else { "" });
            w.relation_name(&relation.name);
            let printed = next_name(w, next);
            let alias = relation.alias.as_ref();
            if alias.is_some() || printed != *relation.name.name.name {
                w.push(&format!(" {}", quote_ident(&printed)));
            }
            alias_columns(w, reference, alias.is_some_and(|alias| !alias.columns.is_empty()));
        }
        TableReference::Function(function) => {
            print_function(w, function);
            let printed = next_name(w, next);
            w.push(&format!(" {}", quote_ident(&printed)));
            alias_columns(w, reference, true);
        }
        TableReference::Subquery(subquery) => {
            w.push(if subquery.is_lateral { "LATERAL (" } else { "(" });
            w.nested_query(&subquery.query, true);
            let printed = next_name(w, next);
            w.push(&format!(") {}", quote_ident(&printed)));
            alias_columns(w, reference, !subquery.alias.columns.is_empty());
        }
        TableReference::Join(join) => print_join(w, reference, join, next),
    });
}

/// The next name that [`name_relations`] has given.
fn next_name<'q>(w: &DefinitionWriter<'_, 'q>, next: &mut usize) -> String {
    let relation = w.reader.levels.last().and_then(|level| level.relations.get(*next));
    *next += 1;
    relation.map_or_else(String::new, |relation| relation.printed.clone())
}

fn alias_columns<'q>(w: &mut DefinitionWriter<'_, 'q>, reference: &TableReference, are_shown: bool) {
    let columns = w.reader.around.analysis.columns_of(reference);
    if are_shown && !columns.is_empty() {
        let quoted: Vec<String> = columns.iter().map(|name| quote_ident(name)).collect();
        w.push(&format!("({})", quoted.join(", ")));
    }
}

fn print_function<'q>(w: &mut DefinitionWriter<'_, 'q>, function: &'q FunctionReference) {
    w.push(if function.is_lateral { "LATERAL " } else { "" });
    w.push(if function.is_rows_from { "ROWS FROM(" } else { "" });
    for (at, (call, _)) in function.functions.iter().enumerate() {
        w.push(if at > 0 { ", " } else { "" });
        let node = w.reader.node(call);
        w.expression(&node, true);
    }
    w.push(if function.is_rows_from { ")" } else { "" });
    w.push(if function.with_ordinality { " WITH ORDINALITY" } else { "" });
}

fn print_join<'q>(
    w: &mut DefinitionWriter<'_, 'q>,
    reference: &'q TableReference,
    join: &'q Join,
    next: &mut usize,
) {
    let is_pretty = w.style.is_pretty;
    let is_enclosed = !is_pretty || join.alias.is_some();
    w.push(if is_enclosed { "(" } else { "" });
    print_reference(w, &join.left, next);
    let is_cross = matches!(join.condition, JoinCondition::None);
    let words = match join.kind {
        JoinKind::Inner if !is_cross => " JOIN ",
        JoinKind::Inner | JoinKind::Cross => " CROSS JOIN ",
        JoinKind::Left => " LEFT JOIN ",
        JoinKind::Right => " RIGHT JOIN ",
        JoinKind::Full => " FULL JOIN ",
    };
    w.keyword(words, -INDENT, INDENT, ITEM_INDENT);
    let is_join = matches!(&join.right, TableReference::Join(right) if right.alias.is_none());
    let is_nested = is_pretty && is_join;
    w.push(if is_nested { "(" } else { "" });
    print_reference(w, &join.right, next);
    w.push(if is_nested { ")" } else { "" });
    match &join.condition {
        JoinCondition::None | JoinCondition::Natural => {}
        JoinCondition::On(condition) => {
            w.push(" ON ");
            w.push(if is_pretty { "" } else { "(" });
            let condition = w.reader.converted(condition, Type::Bool.into());
            w.expression(&condition, false);
            w.push(if is_pretty { "" } else { ")" });
        }
        JoinCondition::Using(columns, alias) => {
            let quoted: Vec<String> = columns.iter().map(|name| quote_ident(&name.name)).collect();
            w.push(&format!(" USING ({})", quoted.join(", ")));
            if let Some(alias) = alias {
                w.push(&format!(" AS {}", quote_ident(&alias.name)));
            }
        }
    }
    w.push(if is_enclosed { ")" } else { "" });
    if let Some(alias) = &join.alias {
        let printed = next_name(w, next);
        w.push(&format!(" {}", quote_ident(&printed)));
        alias_columns(w, reference, !alias.columns.is_empty());
    }
}

/// The name that a function in FROM goes by.
fn function_name(function: &FunctionReference) -> String {
    match &function.alias {
        Some(alias) => alias.name.to_string(),
        None => function.functions.first().map(|(call, _)| figure_name(call)).unwrap_or_default(),
    }
}

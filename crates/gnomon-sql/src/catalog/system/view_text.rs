//! The query of a view as its definition has it: with the names that the view gives to its columns.

use gnomon_parser::ast::{Distinct, Ident, Query, QueryBody, Select};

use super::names::quote;
use crate::{catalog::model::View, query::figure_name, syntax::parse_query};

/// The query of a view, with its semicolon. Names that CREATE VIEW has listed stand in it as those of output columns.
pub(super) fn view_text(view: &View) -> String {
    let text = match parse_query(&view.query) {
        Ok(query) => named(query, view),
        // Shown as it is kept.
        Err(_) => view.query.trim_end_matches(';').to_owned(),
    };
    format!(" {text};")
}

fn named(mut query: Query, view: &View) -> String {
    let names = || view.columns.iter().map(|(name, _)| name.as_str());
    let own = output_names(&query.body, view.columns.len());
    if own.iter().map(String::as_str).eq(names()) {
        return query.to_string();
    }
    // ORDER BY, GROUP BY and DISTINCT ON may mean output columns by the names that these have.
    match leftmost_select(&mut query.body).filter(|_| query.order_by.is_empty()) {
        Some(select) if select.group_by.is_empty() && !matches!(select.distinct, Distinct::On(_)) => {
            for ((target, own), name) in select.targets.iter_mut().zip(&own).zip(names()) {
                if own != name {
                    target.alias = Some(Ident::new(name));
                }
            }
            query.to_string()
        }
        _ => {
            let relation = quote(&view.name);
            let quoted: Vec<String> = names().map(quote).collect();
            let outputs: Vec<String> = quoted.iter().map(|name| format!("{relation}.{name}")).collect();
            format!("SELECT {} FROM ({query}) {relation} ({})", outputs.join(", "), quoted.join(", "))
        }
    }
}

/// The names that the columns of a query have by themselves.
fn output_names(body: &QueryBody, count: usize) -> Vec<String> {
    match body {
        QueryBody::Select(select) => {
            let name = |target: &gnomon_parser::ast::Target| match &target.alias {
                Some(alias) => alias.name.to_string(),
                None => figure_name(&target.value),
            };
            select.targets.iter().map(name).collect()
        }
        QueryBody::Values(_) => (1..=count).map(|number| format!("column{number}")).collect(),
        QueryBody::SetOperations(chain) => output_names(&chain.first, count),
        QueryBody::Query(query) => output_names(&query.body, count),
    }
}

/// The SELECT that a query has its names from, unless it stands in parentheses.
fn leftmost_select(body: &mut QueryBody) -> Option<&mut Select> {
    match body {
        QueryBody::Select(select) => Some(select),
        QueryBody::SetOperations(chain) => leftmost_select(&mut chain.first),
        QueryBody::Values(_) | QueryBody::Query(_) => None,
    }
}

//! Objects as the statements that would make them: pg_get_indexdef and its like.

use gnomon_engine::PageSize;

use super::{
    Object, System,
    names::quote,
    reference::{self, BuiltIn},
};
use crate::{
    catalog::model::{Index, PartitionOf, Procedure, Table},
    types::format_type,
};

/// The columns of an index, with their options where they are not the usual ones.
fn index_columns(table: &Table, index: &Index) -> String {
    let columns: Vec<String> = (0..index.columns.len()).map(|i| index_column(table, index, i)).collect();
    columns.join(", ")
}

fn column_name(table: &Table, position: usize) -> String {
    table.columns.get(position).map_or_else(String::new, |column| quote(&column.name))
}

fn index_column(table: &Table, index: &Index, i: usize) -> String {
    let name = index.columns.get(i).map_or_else(String::new, |position| column_name(table, *position));
    let options = match (index.descending.get(i) == Some(&true), index.nulls_first.get(i) == Some(&true)) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    };
    format!("{name}{options}")
}

/// The parameters of a relation (WITH), each as `name=value`. An index that stands for a constraint is defined without:
/// it has those of its table.
pub(super) fn options(object: &Object<'_>) -> Vec<String> {
    let sized = |size: Option<PageSize>| size.map(|size| format!("page_size={}", size.bytes()));
    match object {
        Object::Table(table) => {
            let replicated = table.is_replicated.then(|| "replicated=true".to_owned());
            sized(table.page_size).into_iter().chain(replicated).collect()
        }
        Object::Index(_, index) if index.constraint => Vec::new(),
        Object::Index(_, index) => sized(index.page_size).into_iter().collect(),
        Object::Sequence(_) => Vec::new(),
        Object::View(view) => view.options.clone(),
    }
}

/// CREATE INDEX, with the table's schema.
pub(super) fn index(table: &Table, one: &Index) -> String {
    index_pretty(table, one, true)
}

/// CREATE INDEX as pg_get_indexdef(oid, 0, pretty) writes it: with the schema only where `qualified` says so.
pub(super) fn index_pretty(table: &Table, one: &Index, qualified: bool) -> String {
    let unique = if one.unique { "UNIQUE " } else { "" };
    // The indexes of partitions have definitions of their own.
    let only = if table.partitioning.is_some() { "ONLY " } else { "" };
    let schema = if qualified { format!("{}.", quote(&table.schema)) } else { String::new() };
    let options = options(&Object::Index(table, one)).into_iter().filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        Some(format!("{name}='{value}'"))
    });
    let options: Vec<String> = options.collect();
    let with = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
    format!(
        "CREATE {unique}INDEX {} ON {only}{schema}{} USING btree ({}){with}",
        quote(&one.name),
        quote(&table.name),
        index_columns(table, one)
    )
}

/// The column with this number, from 1, of an index: its name alone.
pub(super) fn index_part(table: &Table, index: &Index, number: usize) -> Option<String> {
    let position = index.columns.get(number.checked_sub(1)?)?;
    Some(column_name(table, *position))
}

/// PRIMARY KEY or UNIQUE with the columns.
pub(super) fn key(table: &Table, index: &Index, primary: bool) -> String {
    let columns: Vec<String> = index.columns.iter().map(|position| column_name(table, *position)).collect();
    format!("{} ({})", if primary { "PRIMARY KEY" } else { "UNIQUE" }, columns.join(", "))
}

/// The parameters of a procedure, as they stand in its definition.
pub(super) fn parameters(system: System<'_>, procedure: &Procedure, with_defaults: bool) -> String {
    let shown = procedure.parameters.iter().map(|parameter| {
        let mode = match (parameter.is_input, parameter.is_output) {
            (true, true) => "INOUT",
            (_, true) => "OUT",
            _ => "IN",
        };
        let name = parameter.name.as_ref().map_or_else(String::new, |name| format!(" {}", quote(name)));
        let default = match system.parameter_default(parameter) {
            Some(default) if with_defaults => format!(" DEFAULT {default}"),
            _ => String::new(),
        };
        format!("{mode}{name} {}{default}", format_type(parameter.ty.ty, None))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A tag for the quotes around a body that does not end them.
fn body_tag(kind: &str, body: &str) -> String {
    (0..)
        .map(|number| if number == 0 { kind.to_owned() } else { format!("{kind}{number}") })
        // The end of the body and the closing tag together must not form a tag, either.
        .find(|tag| !body.contains(&format!("${tag}")))
        .unwrap_or_default()
}

/// CREATE PROCEDURE.
pub(super) fn procedure(system: System<'_>, procedure: &Procedure) -> String {
    let tag = body_tag("procedure", &procedure.body);
    format!(
        "CREATE OR REPLACE PROCEDURE {}.{}({})\n LANGUAGE sql\nAS ${tag}${}${tag}$\n",
        quote(&procedure.schema),
        quote(&procedure.name),
        parameters(system, procedure, true),
        procedure.body
    )
}

/// CREATE FUNCTION of one that PostgreSQL defines, with its arguments and its result as they are declared.
pub(super) fn function(function: &BuiltIn, arguments: &str, result: &str) -> String {
    let mut out = format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.{}({arguments})\n RETURNS {result}\n LANGUAGE {}\n",
        quote(function.name),
        if function.is_sql { "sql" } else { "internal" }
    );
    let support = reference::function_by_oid(function.support).map(|support| support.name);
    let options = [
        (function.kind == b'w', " WINDOW".to_owned()),
        (function.volatility == b'i', " IMMUTABLE".to_owned()),
        (function.volatility == b's', " STABLE".to_owned()),
        (function.parallel == b's', " PARALLEL SAFE".to_owned()),
        (function.parallel == b'r', " PARALLEL RESTRICTED".to_owned()),
        (function.strict, " STRICT".to_owned()),
        (function.leakproof, " LEAKPROOF".to_owned()),
        // The usual costs of a language, and the usual number of rows, go without saying.
        (function.cost != if function.is_sql { 100.0 } else { 1.0 }, format!(" COST {}", function.cost)),
        (function.rows > 0.0 && function.rows != 1000.0, format!(" ROWS {}", function.rows)),
        (support.is_some(), format!(" SUPPORT {}", support.unwrap_or_default())),
    ];
    let given: String = options.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text).collect();
    if !given.is_empty() {
        out.push_str(&given);
        out.push('\n');
    }
    match function.body {
        Some(body) => out.push_str(&format!("{}\n", body.replace("\\n", "\n"))),
        None => {
            let tag = body_tag("function", function.source);
            out.push_str(&format!("AS ${tag}${}${tag}$\n", function.source));
        }
    }
    out
}

/// A partition key, as PARTITION BY has it.
pub(super) fn partition_key(table: &Table) -> Option<String> {
    Some(format!("HASH ({})", partition_columns(table)?.join(", ")))
}

/// Returns which rows a partition has, as PARTITION OF has it.
pub(super) fn partition_bound(of: &PartitionOf) -> String {
    let modulus = of.table.partitioning.as_ref().map_or(0, |partitioning| partitioning.modulus);
    format!("FOR VALUES WITH (modulus {modulus}, remainder {})", of.number)
}

/// The condition that all rows of a partition meet.
pub(super) fn partition_constraint(of: &PartitionOf) -> Option<String> {
    let columns = partition_columns(&of.table)?.join(", ");
    let (table, modulus) = (of.table.oid, of.table.partitioning.as_ref()?.modulus);
    Some(format!("satisfies_hash_partition('{table}'::oid, {modulus}, {}, {columns})", of.number))
}

fn partition_columns(table: &Table) -> Option<Vec<String>> {
    let columns = &table.partitioning.as_ref()?.columns;
    Some(columns.iter().map(|column| quote(&table.columns[*column].name)).collect())
}

//! The reference data are whole and consistent.

use std::collections::HashSet;

use super::reference::{self, FUNCTIONS, RELATIONS};
use crate::{
    functions::{Arguments, resolve_call},
    types::{Datum, Type},
};

#[test]
fn relations_have_columns_and_identifiers_of_their_own() {
    let mut oids = HashSet::new();
    let mut names = HashSet::new();
    for relation in RELATIONS.iter() {
        assert!(!relation.columns.is_empty(), "{}", relation.name);
        assert!(oids.insert(relation.oid), "{}", relation.name);
        assert!(names.insert((relation.schema, relation.name)), "{}", relation.name);
        assert!(relation.oid < crate::catalog::FIRST_USER_OID);
        let columns: HashSet<&str> = relation.columns.iter().map(|column| column.name).collect();
        assert_eq!(columns.len(), relation.columns.len(), "{}", relation.name);
    }
    assert_eq!(reference::relation("pg_catalog", "pg_class").map(|relation| relation.oid), Some(1259));
}

#[test]
fn every_column_type_is_one_of_ours() {
    for line in include_str!("data/relations.tsv").lines().filter(|line| line.starts_with('\t')) {
        let name = line.split('\t').nth(2).unwrap_or_default();
        assert!(Type::all().any(|ty| ty.info().typname == name), "{line}");
    }
}

#[test]
fn rows_of_files_are_whole() {
    let mut tables = 0;
    for relation in RELATIONS.iter() {
        let Some(rows) = reference::rows(relation) else { continue };
        tables += 1;
        assert!(!rows.is_empty(), "{}", relation.name);
        for row in rows {
            for (i, value) in row.iter().enumerate() {
                let wanted = relation.not_null.get(i) == Some(&true);
                assert!(!wanted || !matches!(value, Datum::Null), "{} {i} {row:?}", relation.name);
            }
        }
    }
    assert_eq!(tables, 20);
}

#[test]
fn every_type_has_its_row() {
    for ty in Type::all() {
        let row = reference::type_by_oid(ty.oid()).map(|row| row.name);
        assert_eq!(row, Some(ty.info().typname));
    }
}

#[test]
fn functions_are_sorted_and_refer_to_types() {
    assert!(FUNCTIONS.is_sorted_by_key(|function| function.oid));
    for function in FUNCTIONS.iter() {
        for ty in function.arguments.iter().chain([&function.result]) {
            assert!(reference::type_by_oid(*ty).is_some(), "{}({ty})", function.name);
        }
    }
    for name in ["now", "lower", "count", "generate_series", "int4in"] {
        assert!(reference::functions_named(name).next().is_some(), "{name}");
    }
}

/// Calls can name all arguments of a function that has names, and returns one value.
#[test]
fn functions_know_the_names_of_their_arguments() {
    let is_one = |name: &str| !crate::functions::is_set_function(name);
    let named = FUNCTIONS.iter().filter(|function| !function.names.is_empty() && is_one(function.name));
    for function in named {
        let types = function.arguments.iter().filter_map(|oid| Type::all().find(|ty| ty.oid() == *oid));
        let types: Vec<Type> = types.collect();
        let names: Vec<String> = function.names.iter().map(|name| (*name).to_owned()).collect();
        let call = Arguments { types: &types, names: &names, is_variadic: false };
        let found = resolve_call(function.name, call);
        assert!(found.is_ok(), "{} {names:?}: {found:?}", function.name);
        let required = names.len() - usize::try_from(function.defaults).expect("a count");
        let call = Arguments { types: &types[..required], names: &names[..required], is_variadic: false };
        let found = resolve_call(function.name, call);
        assert!(found.is_ok(), "{} {:?}: {found:?}", function.name, call.names);
    }
}

#[test]
fn types_that_can_be_keys_have_an_operator_class() {
    for ty in
        [Type::Int4, Type::Varchar, Type::Text, Type::Bpchar, Type::Uuid, Type::Numeric, Type::Timestamptz]
    {
        assert_ne!(reference::operator_class(ty), 0, "{ty:?}");
    }
    assert_eq!(reference::operator_class(Type::Int8), 3124);
}

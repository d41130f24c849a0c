//! All functions, operators, set-returning functions and aggregates, by name.

use std::sync::LazyLock;

#[cfg(test)]
use super::declaration::{Declaration, DeclaredBody, Param};
use super::{
    acl, aggregates, arrays, buckets, comparison, datetime, declaration::Declarations, encoding, environment,
    format, hashing, lexical, lsn, math, normal_form, operator_functions, operators, overlaps, pattern, sets,
    strings, system, template, trigonometry,
};
#[cfg(test)]
use crate::types::Type;

pub(super) static FUNCTIONS: LazyLock<Declarations> = LazyLock::new(|| {
    let mut all = Declarations::default();
    math::declare(&mut all);
    hashing::declare(&mut all);
    trigonometry::declare(&mut all);
    buckets::declare(&mut all);
    strings::declare(&mut all);
    lexical::declare(&mut all);
    acl::declare(&mut all);
    lsn::declare(&mut all);
    normal_form::declare(&mut all);
    encoding::declare(&mut all);
    pattern::declare(&mut all);
    format::declare(&mut all);
    template::declare(&mut all);
    arrays::declare(&mut all);
    datetime::declare(&mut all);
    overlaps::declare(&mut all);
    aggregates::transitions::declare(&mut all);
    environment::declare(&mut all);
    system::declare(&mut all);
    operator_functions::declare(&mut all, &OPERATORS);
    all
});

pub(super) static OPERATORS: LazyLock<Declarations> = LazyLock::new(|| {
    let mut all = Declarations::default();
    comparison::declare(&mut all);
    operators::declare(&mut all);
    acl::declare_operators(&mut all);
    lsn::declare_operators(&mut all);
    pattern::declare_operators(&mut all);
    arrays::declare_operators(&mut all);
    datetime::declare_operators(&mut all);
    all
});

pub(super) static SETS: LazyLock<Declarations> = LazyLock::new(|| {
    let mut all = Declarations::default();
    sets::declare(&mut all);
    system::declare_sets(&mut all);
    all
});

pub(super) static AGGREGATES: LazyLock<Declarations> = LazyLock::new(|| {
    let mut all = Declarations::default();
    aggregates::declare(&mut all);
    all
});

/// True if an aggregate has this name.
pub fn is_aggregate(name: &str) -> bool {
    AGGREGATES.has(name)
}

/// True if a set-returning function has this name.
pub fn is_set_function(name: &str) -> bool {
    SETS.has(name)
}

/// True if a function that returns one value has this name.
pub fn function_exists(name: &str) -> bool {
    FUNCTIONS.has(name)
}

/// The names and parameter types of all functions and operators that run here, and whether they are operators.
#[cfg(test)]
pub(super) fn native_declarations() -> Vec<((&'static str, Vec<Type>), bool)> {
    let types = |declaration: &Declaration| {
        let ty = |param: &Param| match param {
            Param::Is(ty) => *ty,
            Param::AnyArray => Type::Array(crate::types::Scalar::Int4),
            Param::AnyElement | Param::AnyAsText | Param::Any => Type::Int4,
        };
        (declaration.name, declaration.params.iter().map(ty).collect())
    };
    let mut out = Vec::new();
    for (declarations, is_operator) in [(&*FUNCTIONS, false), (&*OPERATORS, true)] {
        for declaration in declarations.iter() {
            if matches!(declaration.body, DeclaredBody::Native(_)) {
                out.push((types(declaration), is_operator));
            }
        }
    }
    out.sort();
    out
}

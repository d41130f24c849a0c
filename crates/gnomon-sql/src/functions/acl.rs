//! Access control lists: their items, made and taken apart.

use super::{
    arguments::{array, text},
    comparison::EQUAL,
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Row, Scalar, Type,
        acl::{AclItem, RIGHTS},
    },
};

const LIST: Type = Type::Array(Scalar::Aclitem);

/// The items of a list.
fn items(cx: &Context, list: &[Datum]) -> Result<Vec<AclItem>> {
    let item = |value: &Datum| match value {
        Datum::Text(text) => AclItem::parse(cx.environment, text),
        _ => {
            let message = "ACL arrays must not contain null values";
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
        }
    };
    list.iter().map(item).collect()
}

/// The rows of `aclexplode`: a row for each right of each item.
pub(super) fn explode(cx: &Context, list: &[Datum]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for item in items(cx, list)? {
        for (place, (_, name)) in RIGHTS.iter().enumerate().filter(|(place, _)| item.rights & 1 << place != 0)
        {
            rows.push(vec![
                Datum::Oid(item.grantor),
                Datum::Oid(item.grantee),
                Datum::text(*name),
                Datum::Bool(item.options & 1 << place != 0),
            ]);
        }
    }
    Ok(rows)
}

fn role(a: &[Datum], position: usize) -> u32 {
    match a.get(position) {
        Some(Datum::Oid(role)) => *role,
        _ => 0,
    }
}

/// The right of a name, as a bit.
fn right(name: &str) -> Result<u16> {
    // The short name is not one that items show.
    let known = if name.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { name };
    match RIGHTS.iter().position(|(_, right)| right.eq_ignore_ascii_case(known)) {
        Some(place) => Ok(1 << place),
        // A privilege that there once was.
        None if name.eq_ignore_ascii_case("RULE") => Ok(0),
        None => {
            let message = format!("unrecognized privilege type: \"{name}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn make_item(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let rights = right(text(a, 2)?)?;
    let is_grantable = matches!(a.get(3), Some(Datum::Bool(true)));
    let options = if is_grantable { rights } else { 0 };
    let item = AclItem { grantee: role(a, 0), grantor: role(a, 1), rights, options };
    Ok(Datum::text(item.shown(cx.environment)))
}

fn contains(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let wanted = AclItem::parse(cx.environment, text(a, 1)?)?;
    Ok(Datum::Bool(items(cx, array(a, 0)?.1)?.iter().any(|item| item.contains(&wanted))))
}

fn no_longer(name: &str) -> Result<Datum> {
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} is no longer supported")))
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("makeaclitem", &[Type::Oid, Type::Oid, Type::Text, Type::Bool], Type::Aclitem, make_item);
}

pub(super) fn declare_operators(all: &mut Declarations) {
    all.add("=", &[Type::Aclitem, Type::Aclitem], Type::Bool, EQUAL).comparison =
        Some(super::Comparison::Equal);
    all.add("@>", &[LIST, Type::Aclitem], Type::Bool, contains);
    all.add("+", &[LIST, Type::Aclitem], LIST, |_, _| no_longer("aclinsert"));
    all.add("-", &[LIST, Type::Aclitem], LIST, |_, _| no_longer("aclremove"));
}

//! Names of objects: the text of regclass, regproc, regprocedure, regtype and regnamespace values, read and written.

use super::{INFORMATION_SCHEMA, SYSTEM_SCHEMA, System, SystemState, reference};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Oid, Procedure},
    functions::quote_ident,
    types::{Type, format_type, parse_type_name},
};

/// A name as SQL text: quoted where it must be.
pub fn quote(name: &str) -> String {
    quote_ident(name)
}

/// The parts of a dotted name, quotes taken off and other letters folded. None if it is no name.
fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find(|c: char| c == '.' || c.is_whitespace()).unwrap_or(rest.len());
                let (part, after) = rest.split_at(end);
                let mut letters = part.chars();
                let first = letters.next()?;
                let begins = first.is_alphabetic() || first == '_' || !first.is_ascii();
                if !begins || part.contains('"') {
                    return None;
                }
                (part.to_lowercase(), after)
            }
        };
        parts.push(part);
        let after = after.trim_start();
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?.trim_start();
    }
}

/// A quoted part whose opening quote is taken off, and what follows it.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        part.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                part.push('"');
                rest = more;
            }
            None => return (!part.is_empty()).then_some((part, after)),
        }
    }
}

impl System<'_> {
    /// Schema, if there is one, and name.
    fn qualified(&self, text: &str) -> Result<(Option<String>, String)> {
        let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
        let mut parts = parts(text).ok_or_else(invalid)?;
        if parts.len() == 3 && parts.first().is_some_and(|database| database == self.state.database()) {
            parts.remove(0);
        }
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(name), None, _) => Ok((None, name)),
            (Some(schema), Some(name), None) => Ok((Some(schema), name)),
            _ => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: \"{text}\""),
            )),
        }
    }

    /// The relation of a name, if there is one.
    pub(super) fn find_relation(&self, schema: Option<&str>, name: &str) -> Option<Oid> {
        match schema {
            Some(schema) => self.relation_in(schema, name),
            None => self.searched().into_iter().find_map(|schema| self.relation_in(schema, name)),
        }
    }

    /// The object of a reg* type by its name.
    pub(super) fn by_name(&self, ty: Type, text: &str) -> Result<Oid> {
        if ty == Type::Regprocedure {
            return self.procedure_by_name(text);
        }
        let (schema, name) = self.qualified(text)?;
        let shown = match &schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.clone(),
        };
        let in_system = schema.as_deref().is_none_or(|schema| schema == SYSTEM_SCHEMA);
        let (state, what, found) = match ty {
            Type::Regclass => {
                (SqlState::UNDEFINED_TABLE, "relation", self.find_relation(schema.as_deref(), &name))
            }
            Type::Regnamespace => (
                SqlState::INVALID_SCHEMA_NAME,
                "schema",
                schema.is_none().then(|| self.schema_oid(&name)).flatten(),
            ),
            Type::Regproc => {
                let mut functions = reference::functions_named(&name).filter(|_| in_system);
                let first = functions.next().map(|function| function.oid);
                if functions.next().is_some() {
                    return Err(SqlError::new(
                        SqlState::AMBIGUOUS_FUNCTION,
                        format!("more than one function named \"{shown}\""),
                    ));
                }
                (SqlState::UNDEFINED_FUNCTION, "function", first)
            }
            _ => {
                let found = reference::type_named(&name).filter(|_| in_system).map(|ty| ty.oid);
                (SqlState::UNDEFINED_OBJECT, "type", found)
            }
        };
        found.ok_or_else(|| SqlError::new(state, format!("{what} \"{shown}\" does not exist")))
    }

    /// Returns the function of a name with the types of its arguments: `lower(text)`.
    fn procedure_by_name(&self, text: &str) -> Result<Oid> {
        let malformed = |expected: &str| {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {expected}"))
        };
        let mut quoted = false;
        let opens = text.find(|c| {
            quoted ^= c == '"';
            c == '(' && !quoted
        });
        let (name, rest) =
            text.split_at_checked(opens.ok_or_else(|| malformed("left parenthesis"))?).unwrap_or((text, ""));
        let within = rest.get(1..).and_then(|rest| rest.trim_end().strip_suffix(')'));
        let within = within.ok_or_else(|| malformed("right parenthesis"))?;
        let mut arguments = Vec::new();
        if !within.trim().is_empty() {
            for name in within.split(',').map(str::trim) {
                if name.is_empty() {
                    return Err(malformed("type name"));
                }
                arguments.push(self.argument_type(name)?);
            }
        }
        let (schema, name) = self.qualified(name)?;
        let is_known = schema.as_deref().is_none_or(|schema| schema == SYSTEM_SCHEMA);
        let mut functions = reference::functions_named(&name).filter(|_| is_known);
        functions.find(|function| function.arguments == arguments).map(|function| function.oid).ok_or_else(
            || SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist")),
        )
    }

    /// Returns the type of an argument, which may be a pseudo-type.
    fn argument_type(&self, name: &str) -> Result<Oid> {
        match parse_type_name(name) {
            Ok(found) => Ok(found.ty.oid()),
            Err(error) if error.state() == SqlState::UNDEFINED_OBJECT => self.by_name(Type::Regtype, name),
            Err(error) => Err(error),
        }
    }

    /// True if the relation is the one that its unqualified name means; none if there is no such relation.
    pub(super) fn is_visible(&self, oid: Oid) -> Option<bool> {
        let (_, name) = self.relation_name(oid)?;
        Some(self.find_relation(None, name) == Some(oid))
    }

    /// The name of a relation, with its schema where it needs one.
    pub(super) fn shown_relation(&self, oid: Oid) -> Option<String> {
        let (schema, name) = self.relation_name(oid)?;
        Some(match self.is_visible(oid)? {
            true => quote(name),
            false => format!("{}.{}", quote(schema), quote(name)),
        })
    }

    /// The name of a procedure, with its schema where it needs one.
    fn shown_procedure(&self, procedure: &Procedure) -> String {
        let meant = |schema: &&str| self.catalog().procedure(schema, &procedure.name).is_some();
        match self.searched().into_iter().find(meant) {
            Some(schema) if schema == procedure.schema => quote(&procedure.name),
            _ => format!("{}.{}", quote(&procedure.schema), quote(&procedure.name)),
        }
    }

    /// The name of a schema.
    pub(super) fn schema_name(&self, oid: Oid) -> Option<String> {
        match oid {
            super::SYSTEM_SCHEMA_OID => Some(SYSTEM_SCHEMA.to_owned()),
            super::INFORMATION_SCHEMA_OID => Some(INFORMATION_SCHEMA.to_owned()),
            oid => {
                self.catalog().schemas().find(|schema| schema.oid == oid).map(|schema| schema.name.clone())
            }
        }
    }
}

/// The object of a reg* type by its name as SQL text has it.
///
/// # Errors
/// 42P01, 3F000, 42883, 42704 if there is none, 42725 if there are several functions, 42602 for what is no name.
pub fn object_by_name(state: &dyn SystemState, ty: Type, text: &str) -> Result<Oid> {
    System { state }.by_name(ty, text)
}

/// The name of an object of a reg* type as SQL text has it; none if there is no such object.
pub fn object_name(state: &dyn SystemState, ty: Type, oid: Oid) -> Option<String> {
    let system = System { state };
    match ty {
        Type::Regclass => system.shown_relation(oid),
        Type::Regnamespace => system.schema_name(oid).map(|name| quote(&name)),
        Type::Regproc if let Some(found) = system.catalog().procedure_by_oid(oid) => {
            Some(system.shown_procedure(found))
        }
        Type::Regprocedure if let Some(found) = system.catalog().procedure_by_oid(oid) => {
            let types = found.inputs().map(|parameter| format_type(parameter.ty.ty, None));
            Some(format!("{}({})", system.shown_procedure(found), types.collect::<Vec<_>>().join(",")))
        }
        Type::Regproc => {
            let function = reference::function_by_oid(oid)?;
            let name = quote(function.name);
            // Of several functions of one name none is meant by it alone.
            let overloaded = reference::functions_named(function.name).nth(1).is_some();
            Some(if overloaded { format!("{SYSTEM_SCHEMA}.{name}") } else { name })
        }
        Type::Regprocedure => {
            let function = reference::function_by_oid(oid)?;
            let arguments: Vec<String> = function.arguments.iter().map(|oid| shown_type(*oid)).collect();
            Some(format!("{}({})", quote(function.name), arguments.join(",")))
        }
        Type::Regtype => reference::type_by_oid(oid).map(|ty| quote(ty.name)),
        _ => None,
    }
}

/// Returns the name of a type, also a pseudo-type, as SQL text has it.
fn shown_type(oid: Oid) -> String {
    let known = Type::from_oid(oid).map(|ty| format_type(ty, None));
    known.or_else(|| reference::type_by_oid(oid).map(|ty| quote(ty.name))).unwrap_or_else(|| oid.to_string())
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn names_are_folded_and_unquoted() {
        let split = |text: &str| parts(text).map(|parts| parts.join("|"));
        assert_eq!(split("Items").as_deref(), Some("items"));
        assert_eq!(split(" public . Items ").as_deref(), Some("public|items"));
        assert_eq!(split("\"Odd \"\"name\".\"x.y\"").as_deref(), Some("Odd \"name|x.y"));
        for wrong in ["", "a.", ".a", "a b", "\"open", "\"\"", "1a", "a\"b\""] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}

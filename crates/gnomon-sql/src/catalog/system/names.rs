//! Names of objects, read: the texts of regclass, regproc and the other reg* values. How they are written: `display`.

use gnomon_parser::ast::TypeName;

use super::{SYSTEM_SCHEMA, System, SystemState, display::catalog_of, reference, row_types};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Oid,
    functions::{is_missing_function, quote_ident},
    types::{Type, known_type, or_unsupported_type, parse_type, text::cut_name},
};

/// A name as SQL text: quoted where it must be.
pub fn quote(name: &str) -> String {
    quote_ident(name)
}

/// The parts of a dotted name, quotes taken off and other letters folded. None if it is no name. A part that is not
/// quoted may have any characters but white space and dots: those of operators.
pub(super) fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find(|c: char| c == '.' || is_space(c)).unwrap_or(rest.len());
                let (part, after) = rest.split_at(end);
                if part.is_empty() {
                    return None;
                }
                (part.to_ascii_lowercase(), after)
            }
        };
        parts.push(cut_name(&part).to_owned());
        let after = after.trim_start_matches(is_space);
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?.trim_start_matches(is_space);
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
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
            None => return Some((part, after)),
        }
    }
}

fn invalid_name() -> SqlError {
    SqlError::new(SqlState::INVALID_NAME, "invalid name syntax")
}

fn malformed(expected: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {expected}"))
}

fn missing_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// A name that may have a schema.
pub(super) struct Qualified {
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

impl Qualified {
    /// Its text in messages.
    fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A function or procedure that a name may mean.
pub(super) struct Candidate {
    pub(super) oid: Oid,
    /// The types of the arguments that a call gives.
    pub(super) arguments: Vec<Oid>,
}

/// An object that is looked for, or the error that there is none of its name.
type LookUp = Result<Oid>;

impl System<'_> {
    /// The relation of a name, if there is one.
    pub(super) fn find_relation(&self, schema: Option<&str>, name: &str) -> Option<Oid> {
        match schema {
            Some(schema) => self.relation_in(schema, name),
            None => self.searched().into_iter().find_map(|schema| self.relation_in(schema, name)),
        }
    }

    /// The object of a reg* type by its name.
    pub(super) fn by_name(&self, ty: Type, text: &str) -> Result<Oid> {
        look_up(*self, ty, text)?
    }

    /// The object of a reg* type by its name, if there is one.
    ///
    /// # Errors
    /// Those of a text that is no name.
    pub(super) fn find(&self, ty: Type, text: &str) -> Result<Option<Oid>> {
        Ok(look_up(*self, ty, text)?.ok())
    }
}

/// Reads a name that may have a schema and, before that, the database.
fn qualified(system: System<'_>, text: &str) -> Result<Qualified> {
    of_parts(system, parts(text).ok_or_else(invalid_name)?, text)
}

fn of_parts(system: System<'_>, mut parts: Vec<String>, text: &str) -> Result<Qualified> {
    if parts.len() == 3 && parts.first().is_some_and(|database| database == system.state.database()) {
        parts.remove(0);
    }
    let count = parts.len();
    let mut parts = parts.into_iter();
    match (count, parts.next(), parts.next()) {
        (1, Some(name), _) => Ok(Qualified { schema: None, name }),
        (2, Some(schema), Some(name)) => Ok(Qualified { schema: Some(schema), name }),
        (3, ..) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cross-database references are not implemented: \"{text}\""),
        )),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("improper relation name (too many dotted names): {text}"),
        )),
    }
}

/// Looks for an object. The outer error is that of a text that is no name.
fn look_up(system: System<'_>, ty: Type, text: &str) -> Result<LookUp> {
    match ty {
        Type::Regtype => return type_by_name(system, text),
        Type::Regprocedure => return function_by_signature(system, text),
        Type::Regoperator => return operator_by_signature(system, text),
        Type::Regrole | Type::Regnamespace => return plain_name(system, ty, text),
        _ => {}
    }
    let name = qualified(system, text)?;
    if let Some(schema) = &name.schema
        && system.schema_oid(schema).is_none()
    {
        return Ok(Err(missing_schema(schema)));
    }
    let of_system = |found: Option<Oid>| found.filter(|_| may_be_of_system(&name));
    let (state, message, found) = match ty {
        Type::Regproc => return Ok(only_function(system, &name, text)),
        Type::Regoper => return Ok(only_operator(&name, text)),
        Type::Regcollation | Type::Regconfig | Type::Regdictionary => (
            SqlState::UNDEFINED_OBJECT,
            match ty {
                Type::Regconfig => format!("text search configuration \"{}\" does not exist", name.shown()),
                Type::Regdictionary => format!("text search dictionary \"{}\" does not exist", name.shown()),
                _ => format!("collation \"{}\" for encoding \"UTF8\" does not exist", name.shown()),
            },
            of_system(reference::object_named(catalog_of(ty), &name.name)),
        ),
        _ => (
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{}\" does not exist", name.shown()),
            system.find_relation(name.schema.as_deref(), &name.name),
        ),
    };
    Ok(found.ok_or_else(|| SqlError::new(state, message)))
}

/// True if a name may mean an object of the system's schema.
fn may_be_of_system(name: &Qualified) -> bool {
    name.schema.as_deref().is_none_or(|schema| schema == SYSTEM_SCHEMA)
}

/// Looks for a role or a schema, whose name has one part.
fn plain_name(system: System<'_>, ty: Type, text: &str) -> Result<LookUp> {
    let parts = parts(text).ok_or_else(invalid_name)?;
    let [name] = &parts[..] else { return Err(invalid_name()) };
    Ok(match ty {
        Type::Regrole => system.role_by_name(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
        }),
        _ => system.schema_oid(name).ok_or_else(|| missing_schema(name)),
    })
}

/// The functions and procedures that a name may mean; of those with the same arguments the first in the search
/// path.
pub(super) fn candidates(system: System<'_>, schema: Option<&str>, name: &str) -> Vec<Candidate> {
    let schemas = match schema {
        Some(schema) => vec![schema],
        None => system.searched(),
    };
    let mut all: Vec<Candidate> = Vec::new();
    for schema in schemas {
        let built_in = (schema == SYSTEM_SCHEMA).then(|| reference::functions_named(name));
        let built_in = built_in
            .into_iter()
            .flatten()
            .map(|function| Candidate { oid: function.oid, arguments: function.arguments.clone() });
        let own = system.catalog().procedure(schema, name).map(|procedure| Candidate {
            oid: procedure.oid,
            arguments: procedure.inputs().map(|parameter| parameter.ty.ty.oid()).collect(),
        });
        for found in built_in.chain(own) {
            if !all.iter().any(|known| known.arguments == found.arguments) {
                all.push(found);
            }
        }
    }
    all
}

/// Looks for the function of a name that only one function has.
fn only_function(system: System<'_>, name: &Qualified, text: &str) -> LookUp {
    match &candidates(system, name.schema.as_deref(), &name.name)[..] {
        [only] => Ok(only.oid),
        [] => Err(no_function_named(name, text)),
        _ => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one function named \"{text}\""),
        )),
    }
}

/// Looks for the operator of a name that only one operator has.
fn only_operator(name: &Qualified, text: &str) -> LookUp {
    let mut found = reference::operators_named(&name.name).filter(|_| may_be_of_system(name));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only.oid),
        (None, _) => Err(no_operator(text)),
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one operator named {text}"))),
    }
}

/// Looks for a function by its name with the types of its arguments: `lower(text)`.
fn function_by_signature(system: System<'_>, text: &str) -> Result<LookUp> {
    let (name, arguments) = split_signature(text)?;
    let mut types = Vec::with_capacity(arguments.len());
    for argument in arguments {
        types.push(type_by_name(system, argument)??);
    }
    let name = qualified(system, name)?;
    if let Some(schema) = &name.schema
        && system.schema_oid(schema).is_none()
    {
        return Ok(Err(missing_schema(schema)));
    }
    let candidates = candidates(system, name.schema.as_deref(), &name.name);
    let found = candidates.iter().find(|candidate| candidate.arguments == types);
    Ok(match found {
        Some(found) => Ok(found.oid),
        None if candidates.is_empty() => Err(no_function_named(&name, text)),
        None => Err(no_function(text)),
    })
}

/// Looks for an operator by its name with the types of its operands: `+(integer,integer)`, `-(NONE,integer)`.
fn operator_by_signature(system: System<'_>, text: &str) -> Result<LookUp> {
    let (name, arguments) = split_signature(text)?;
    let mut types = Vec::with_capacity(arguments.len());
    for argument in arguments {
        types.push(match argument.eq_ignore_ascii_case("none") {
            true => 0,
            false => type_by_name(system, argument)??,
        });
    }
    let [left, right] = types[..] else {
        return Err(match types.len() {
            1 => SqlError::new(SqlState::UNDEFINED_PARAMETER, "missing argument")
                .hint("Use NONE to denote the missing argument of a unary operator."),
            _ => SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments")
                .hint("Provide two argument types for operator."),
        });
    };
    let name = qualified(system, name)?;
    let mut known = reference::operators_named(&name.name).filter(|_| may_be_of_system(&name));
    let found = known.find(|operator| (operator.left, operator.right) == (left, right));
    Ok(found.map(|found| found.oid).ok_or_else(|| no_operator(text)))
}

/// Looks for a type, which may be a pseudo-type or the type of a relation's rows.
fn type_by_name(system: System<'_>, text: &str) -> Result<LookUp> {
    let parsed = parse_type(text)?;
    match known_type(&parsed) {
        Ok(found) => Ok(Ok(found.ty.oid())),
        Err(error) if error.state() == SqlState::UNDEFINED_OBJECT => other_type(system, &parsed, text, error),
        Err(error) => Err(error),
    }
}

/// Looks for a type that columns do not have; `missing` is the error if there is none.
fn other_type(system: System<'_>, parsed: &TypeName, text: &str, missing: SqlError) -> Result<LookUp> {
    let parts = parsed.name.0.iter().map(|part| part.name.to_string()).collect();
    let name = of_parts(system, parts, text)?;
    if let Some(schema) = &name.schema
        && system.schema_oid(schema).is_none()
    {
        return Ok(Err(missing_schema(schema)));
    }
    let is_array = !parsed.bounds.is_empty();
    let pseudo = reference::type_named(&name.name).filter(|_| may_be_of_system(&name) && !is_array);
    let row = || row_types::row_type_named(system, name.schema.as_deref(), &name.name, is_array);
    let missing = || if may_be_of_system(&name) { or_unsupported_type(missing, parsed) } else { missing };
    Ok(pseudo.map(|ty| ty.oid).or_else(row).ok_or_else(missing))
}

/// Splits a name with arguments in parentheses: the name, and the names of their types.
fn split_signature(text: &str) -> Result<(&str, Vec<&str>)> {
    let opens = position_outside_quotes(text, |c| c == '(').ok_or_else(|| malformed("left parenthesis"))?;
    let (name, rest) = text.split_at(opens);
    let within = rest[1..].trim_end_matches(is_space).strip_suffix(')');
    let within = within.ok_or_else(|| malformed("right parenthesis"))?.trim_matches(is_space);
    let mut arguments = Vec::new();
    let mut rest = (!within.is_empty()).then_some(within);
    while let Some(list) = rest {
        let mut depth = 0_i32;
        let comma = position_outside_quotes(list, |c| {
            depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
            c == ',' && depth == 0
        });
        let (argument, after) = match comma {
            Some(comma) => (&list[..comma], Some(&list[comma + 1..])),
            None => (list, None),
        };
        if argument.trim_matches(is_space).is_empty() && after.is_none() {
            return Err(malformed("type name"));
        }
        arguments.push(argument.trim_matches(is_space));
        rest = after;
    }
    Ok((name, arguments))
}

/// The place of the first character of a kind that does not stand within double quotes.
fn position_outside_quotes(text: &str, mut is_wanted: impl FnMut(char) -> bool) -> Option<usize> {
    let mut quoted = false;
    text.find(|c| {
        quoted ^= c == '"';
        !quoted && c != '"' && is_wanted(c)
    })
}

/// Returns the error for a name that no function has; one of PostgreSQL's may have it.
fn no_function_named(name: &Qualified, text: &str) -> SqlError {
    match may_be_of_system(name) && is_missing_function(&name.name) {
        true => SqlError::unsupported(format!("function {text}")),
        false => no_function(text),
    }
}

fn no_function(text: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))
}

fn no_operator(text: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
}

/// The object of a reg* type by its name as SQL text has it.
///
/// # Errors
/// 42P01, 3F000, 42883, 42704 if there is none, 42725 if there are several functions, 42602 for what is no name.
pub fn object_by_name(state: &dyn SystemState, ty: Type, text: &str) -> Result<Oid> {
    System { state }.by_name(ty, text)
}

#[cfg(test)]
mod tests {
    use super::{parts, split_signature};

    #[test]
    fn names_are_folded_and_unquoted() {
        let split = |text: &str| parts(text).map(|parts| parts.join("|"));
        assert_eq!(split("Items").as_deref(), Some("items"));
        assert_eq!(split(" public . Items ").as_deref(), Some("public|items"));
        assert_eq!(split("\"Odd \"\"name\".\"x.y\"").as_deref(), Some("Odd \"name|x.y"));
        assert_eq!(split("pg_catalog.||/").as_deref(), Some("pg_catalog|||/"));
        assert_eq!(split("1a\"b").as_deref(), Some("1a\"b"));
        assert_eq!(split(&"n".repeat(70)), Some("n".repeat(63)));
        for wrong in ["", "a.", ".a", "a b", "\"open"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn signatures_are_split_at_commas_outside_parentheses() {
        let (name, arguments) = split_signature("\"f(\"(numeric(3,1), \"a,b\" ) ").unwrap();
        assert_eq!((name, &arguments[..]), ("\"f(\"", &["numeric(3,1)", "\"a,b\""][..]));
        assert_eq!(split_signature("f( )").unwrap().1, Vec::<&str>::new());
        for wrong in ["f", "f(", "f(int4,)"] {
            assert!(split_signature(wrong).is_err(), "{wrong}");
        }
    }
}

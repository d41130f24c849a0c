//! The functions `has_*_privilege` and `pg_has_role`.
//!
//! The user of the session may do everything. Of other roles there are those that PostgreSQL defines: they have what every
//! role has in a new database, and what PostgreSQL says of them.

use super::{
    DATABASE, INFORMATION_SCHEMA, OWNER, Object, SYSTEM_SCHEMA, System, objects,
    privileges::{PREDEFINED_ROLES, is_member, schema_owner},
    reference,
    relations::Attribute,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Oid,
    types::{Datum, Type},
};

/// The grantee that stands for all roles.
const PUBLIC: Oid = 0;
/// The roles that may read, and those that may write, everything.
const READ_ALL_DATA: Oid = 6181;
const WRITE_ALL_DATA: Oid = 6182;

/// A kind of objects with privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Table,
    AnyColumn,
    Column,
    Sequence,
    Database,
    Function,
    Language,
    Schema,
    Tablespace,
    Type,
    Server,
    Wrapper,
    Parameter,
}

impl Kind {
    fn of(function: &str) -> Option<Kind> {
        Some(match function.strip_prefix("has_")?.strip_suffix("_privilege")? {
            "table" => Kind::Table,
            "any_column" => Kind::AnyColumn,
            "column" => Kind::Column,
            "sequence" => Kind::Sequence,
            "database" => Kind::Database,
            "function" => Kind::Function,
            "language" => Kind::Language,
            "schema" => Kind::Schema,
            "tablespace" => Kind::Tablespace,
            "type" => Kind::Type,
            "server" => Kind::Server,
            "foreign_data_wrapper" => Kind::Wrapper,
            "parameter" => Kind::Parameter,
            _ => return None,
        })
    }

    /// The privileges on such an object.
    fn privileges(self) -> &'static [&'static str] {
        match self {
            Kind::Table => {
                &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"]
            }
            Kind::AnyColumn | Kind::Column => &["SELECT", "INSERT", "UPDATE", "REFERENCES"],
            Kind::Sequence => &["USAGE", "SELECT", "UPDATE"],
            Kind::Database => &["CREATE", "TEMPORARY", "TEMP", "CONNECT"],
            Kind::Function => &["EXECUTE"],
            Kind::Schema => &["CREATE", "USAGE"],
            Kind::Tablespace => &["CREATE"],
            Kind::Language | Kind::Type | Kind::Server | Kind::Wrapper => &["USAGE"],
            Kind::Parameter => &["SET", "ALTER SYSTEM"],
        }
    }
}

/// A privilege that is asked for.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    /// WITH GRANT OPTION.
    to_grant: bool,
}

/// The privileges that a text lists, of which one is enough.
fn asked(text: &str, known: &'static [&'static str], option: &[&str]) -> Result<Vec<Asked>> {
    let one = |part: &str| {
        let upper = part.trim().to_ascii_uppercase();
        let stem = option.iter().find_map(|option| upper.strip_suffix(option));
        let found = known.iter().find(|name| **name == stem.unwrap_or(&upper));
        // RULE is no privilege any more, and has no option.
        found.map(|name| Asked { name, to_grant: stem.is_some() }).ok_or_else(|| {
            let message = format!("unrecognized privilege type: \"{}\"", part.trim());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    };
    text.split(',').map(one).collect()
}

fn undefined(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{what} \"{name}\" does not exist"))
}

/// Runs one of the functions; none if it is not one of them.
pub(super) fn call(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    if function == "pg_has_role" {
        return Some(system.has_role(arguments));
    }
    let kind = Kind::of(function)?;
    Some(system.has_privilege(kind, arguments))
}

impl System<'_> {
    /// The role of an argument. A name must be one; with `or_public`, `public` is one too.
    fn role(&self, role: &Datum, or_public: bool) -> Result<Oid> {
        match role {
            Datum::Oid(role) => Ok(*role),
            Datum::Text(name) if or_public && &**name == "public" => Ok(PUBLIC),
            Datum::Text(name) => self.role_by_name(name).ok_or_else(|| undefined("role", name)),
            _ => Ok(OWNER),
        }
    }

    /// The role of this name.
    pub(super) fn role_by_name(&self, name: &str) -> Option<Oid> {
        if name == self.state.user() {
            return Some(OWNER);
        }
        PREDEFINED_ROLES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    fn has_role(&self, arguments: &[Datum]) -> Result<Datum> {
        let (member, role, privilege) = match arguments {
            [member, role, Datum::Text(privilege)] => (self.role(member, false)?, role, privilege),
            [role, Datum::Text(privilege)] => (OWNER, role, privilege),
            _ => return Ok(Datum::Null),
        };
        let role = self.role(role, false)?;
        let options = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
        let asked = asked(privilege, &["USAGE", "MEMBER"], &options)?;
        let has = |asked: &Asked| member == OWNER || (!asked.to_grant && is_member(member, role));
        Ok(Datum::Bool(asked.iter().any(has)))
    }

    fn has_privilege(&self, kind: Kind, arguments: &[Datum]) -> Result<Datum> {
        let width = if kind == Kind::Column { 3 } else { 2 };
        let (role, rest) = match arguments {
            [role, rest @ ..] if arguments.len() > width => (self.role(role, true)?, rest),
            rest => (OWNER, rest),
        };
        let [object, between @ .., Datum::Text(privileges)] = rest else { return Ok(Datum::Null) };
        let asked = asked(privileges, kind.privileges(), &[" WITH GRANT OPTION"]);
        let object = match self.named_object(kind, object)? {
            Some(object) => object,
            None => {
                asked?;
                return Ok(Datum::Null);
            }
        };
        if let [column] = between
            && !self.has_column(object, column)?
        {
            return Ok(Datum::Null);
        }
        let asked = asked?;
        Ok(Datum::Bool(asked.iter().any(|asked| self.may(role, kind, object, *asked))))
    }

    /// The identifier of an object; none if there is none of this identifier.
    ///
    /// # Errors
    /// Of a name that no object has.
    fn named_object(&self, kind: Kind, object: &Datum) -> Result<Option<Oid>> {
        let name = match object {
            Datum::Oid(oid) => return self.known_object(kind, *oid),
            Datum::Text(name) => &**name,
            _ => return Ok(None),
        };
        Ok(Some(match kind {
            Kind::Table | Kind::AnyColumn | Kind::Column => self.by_name(Type::Regclass, name)?,
            Kind::Sequence => {
                let oid = self.by_name(Type::Regclass, name)?;
                self.known_object(kind, oid)?;
                oid
            }
            Kind::Database if name == self.state.database() => DATABASE,
            Kind::Database => {
                let message = format!("database \"{name}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
            }
            Kind::Function => self.by_name(Type::Regprocedure, name)?,
            Kind::Schema => self.schema_oid(name).ok_or_else(|| {
                let message = format!("schema \"{name}\" does not exist");
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
            })?,
            Kind::Type => self.by_name(Type::Regtype, name)?,
            Kind::Language => {
                let found = reference::object_named("pg_language", name);
                found.ok_or_else(|| undefined("language", name))?
            }
            Kind::Tablespace => objects::tablespace_named(name)?,
            Kind::Server => return Err(undefined("server", name)),
            Kind::Wrapper => return Err(undefined("foreign-data wrapper", name)),
            // Every name may be granted.
            Kind::Parameter => 0,
        }))
    }

    /// The identifier, if there is such an object.
    fn known_object(&self, kind: Kind, oid: Oid) -> Result<Option<Oid>> {
        let exists = match kind {
            Kind::Table | Kind::AnyColumn | Kind::Column => self.relation_name(oid).is_some(),
            Kind::Sequence => match self.object(oid) {
                Some(Object::Sequence(_)) => true,
                _ => match self.relation_name(oid) {
                    None => false,
                    Some((_, name)) => {
                        let message = format!("\"{name}\" is not a sequence");
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                },
            },
            Kind::Database => oid == DATABASE,
            Kind::Function => {
                reference::function_by_oid(oid).is_some() || self.catalog().procedure_by_oid(oid).is_some()
            }
            Kind::Language => reference::has_row("pg_language", oid),
            Kind::Schema => self.schema_name(oid).is_some(),
            Kind::Tablespace => objects::tablespace_name(oid).is_some(),
            Kind::Type => reference::type_by_oid(oid).is_some(),
            Kind::Server | Kind::Wrapper | Kind::Parameter => false,
        };
        Ok(exists.then_some(oid))
    }

    /// True if a relation has a column of a name or number. A number that no column has is no error.
    fn has_column(&self, relation: Oid, column: &Datum) -> Result<bool> {
        let columns: Vec<Option<String>> = match (reference::relation_by_oid(relation), self.object(relation))
        {
            (Some(known), _) => known.columns.iter().map(|column| Some(column.name.to_owned())).collect(),
            (None, Some(object)) => {
                let named = |column: Attribute<'_>| (!column.dropped).then_some(column.name);
                object.attributes().into_iter().map(named).collect()
            }
            (None, None) => Vec::new(),
        };
        match column {
            Datum::Int2(number) => {
                let position = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                Ok(position.and_then(|position| columns.get(position)).is_some_and(Option::is_some))
            }
            Datum::Text(name) if columns.iter().flatten().any(|known| **known == **name) => Ok(true),
            Datum::Text(name) => {
                let relation = self.relation_name(relation).map_or("", |(_, name)| name);
                Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" of relation \"{relation}\" does not exist"),
                ))
            }
            _ => Ok(false),
        }
    }

    /// True if a role has a privilege on an object that exists.
    fn may(&self, role: Oid, kind: Kind, object: Oid, asked: Asked) -> bool {
        if asked.name == "RULE" {
            return false;
        }
        if role == OWNER {
            return true;
        }
        if asked.to_grant {
            return false;
        }
        let schema = || self.relation_name(object).map(|(schema, _)| schema);
        match kind {
            Kind::Table | Kind::AnyColumn | Kind::Column => match asked.name {
                "SELECT"
                    if schema()
                        .is_some_and(|schema| [SYSTEM_SCHEMA, INFORMATION_SCHEMA].contains(&schema)) =>
                {
                    true
                }
                "SELECT" => is_member(role, READ_ALL_DATA),
                "INSERT" | "UPDATE" | "DELETE" => is_member(role, WRITE_ALL_DATA),
                _ => false,
            },
            Kind::Sequence => match asked.name {
                "UPDATE" => is_member(role, WRITE_ALL_DATA),
                "SELECT" => is_member(role, READ_ALL_DATA),
                _ => false,
            },
            Kind::Schema => match asked.name {
                "USAGE" => {
                    self.initial_privileges(object).is_some()
                        || is_member(role, READ_ALL_DATA)
                        || is_member(role, WRITE_ALL_DATA)
                }
                _ => schema_owner(object) == role,
            },
            Kind::Database => asked.name != "CREATE",
            Kind::Function | Kind::Language | Kind::Type => true,
            Kind::Tablespace | Kind::Server | Kind::Wrapper | Kind::Parameter => false,
        }
    }
}

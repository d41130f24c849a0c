//! COMMENT.

use gnomon_parser::ast::{
    Comment, CommentedObject, Ident, NamedKind, ObjectKind, OperatorName, ParameterMode, QualifiedName,
    RoutineKind, RoutineName, TypeName,
};

use super::{Ddl, column_of, kind_name, procedure::find_procedure};
use crate::{
    Result, Severity, SqlError, SqlState,
    catalog::{
        BUILT_IN_COMMENT, CONSTRAINT_COMMENT, CommentKey, Relation,
        model::{Constraint, Oid, Table},
        system::{self, SYSTEM_SCHEMA, SYSTEM_SCHEMAS},
    },
    context::{Name, with_article},
    query::relation_of,
    sink::{Tag, tag},
    types::{Datum, Scalar, Type, column_type, compare, format_type},
};

pub(super) fn comment(ddl: &mut Ddl<'_>, comment: &Comment) -> Result<Tag> {
    ddl.begin("COMMENT")?;
    let key = match &comment.object {
        CommentedObject::Relation { kind, name } => relation_key(ddl, *kind, name)?,
        CommentedObject::Column(name) => column_key(ddl, name)?,
        CommentedObject::Constraint { name, table } => {
            let table = ddl.session.view().table(&ddl.session.name(&relation_of(table)?)?)?;
            constraint_key(&table, &name.name)?
        }
        CommentedObject::Named { kind, name } => match named_key(ddl, *kind, name) {
            // A dump is restored into a database of another name.
            Err(error) if *kind == NamedKind::Database => {
                ddl.notices.push(error.severity(Severity::Warning));
                return tag("COMMENT");
            }
            key => key?,
        },
        CommentedObject::Type(ty) => {
            let found = built_in(ddl, "pg_type", &[("oid", Datum::Oid(type_oid(ty)?))])?;
            first(&found, || SqlError::unsupported("COMMENT ON TYPE of an array or a row"))?
        }
        CommentedObject::Collation(name) => {
            let schema = name.0.split_last().map_or(&[][..], |(_, schema)| schema);
            let found = match is_of_system(schema) {
                true => built_in(ddl, "pg_collation", &[("collname", text(&name.last().name))])?,
                false => Vec::new(),
            };
            let message = format!("collation \"{}\" for encoding \"UTF8\" does not exist", name.last().name);
            first(&found, || SqlError::new(SqlState::UNDEFINED_OBJECT, message))?
        }
        CommentedObject::Routine { kind, routine } => routine_key(ddl, *kind, routine)?,
        CommentedObject::Operator { name, left, right } => operator_key(ddl, name, left.as_ref(), right)?,
        CommentedObject::Cast { from, to } => {
            let types = [type_oid(from)?, type_oid(to)?];
            let [source, target] = types.map(Datum::Oid);
            let found = built_in(ddl, "pg_cast", &[("castsource", source), ("casttarget", target)])?;
            first(&found, || {
                let [from, to] = types.map(shown);
                let message = format!("cast from type {from} to type {to} does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?
        }
    };
    // Without text, the one that PostgreSQL gives the object is gone, too.
    let given = comment.text.as_deref().filter(|text| !text.is_empty());
    let is_built_in = key.1 & BUILT_IN_COMMENT != 0 && key.1 != CONSTRAINT_COMMENT;
    let kept = if is_built_in { given.or(Some("")) } else { given };
    ddl.change(|catalog| catalog.put_comment(key, kept))?;
    tag("COMMENT")
}

/// True if the schema before a name, if there is one, is the system's.
fn is_of_system(schema: &[Ident]) -> bool {
    matches!(schema, []) || matches!(schema, [schema] if *schema.name == *SYSTEM_SCHEMA)
}

fn text(text: &str) -> Datum {
    Datum::Text(text.into())
}

/// Returns the keys of comments on the objects of a system catalog that have these values in columns.
fn built_in(ddl: &mut Ddl<'_>, catalog: &str, values: &[(&str, Datum)]) -> Result<Vec<CommentKey>> {
    let Some(relation) = system::relation(Some(SYSTEM_SCHEMA), catalog) else { return Ok(Vec::new()) };
    let position = |name: &str| relation.columns().iter().position(|column| column.name == name);
    let wanted: Vec<(Option<usize>, &Datum)> =
        values.iter().map(|(name, value)| (position(name), value)).collect();
    let id = position("oid");
    let rows = ddl.session.with_types(|types, _| types.environment.rows(relation.oid()))?;
    let matching = rows.into_iter().filter(|row| {
        wanted
            .iter()
            .all(|(at, value)| at.and_then(|at| row.get(at)).is_some_and(|found| compare::same(found, value)))
    });
    let ids = matching.filter_map(|row| match row.get(id?) {
        Some(Datum::Oid(oid)) => Some((*oid, BUILT_IN_COMMENT | relation.oid())),
        _ => None,
    });
    Ok(ids.collect())
}

fn first(found: &[CommentKey], missing: impl FnOnce() -> SqlError) -> Result<CommentKey> {
    found.first().copied().ok_or_else(missing)
}

fn type_oid(ty: &TypeName) -> Result<Oid> {
    column_type(ty).map(|ty| ty.ty.oid())
}

/// A type in an error.
fn shown(ty: Oid) -> String {
    format_type(Type::from_oid(ty).unwrap_or(Type::Unknown), None)
}

fn relation_key(ddl: &Ddl<'_>, kind: ObjectKind, name: &QualifiedName) -> Result<CommentKey> {
    let name = ddl.session.name(&relation_of(name)?)?;
    match ddl.session.view().find(&name) {
        Some(Relation::Index(table, _)) if table.partition_of.is_some() => {
            Err(SqlError::unsupported("COMMENT ON INDEX of a partition"))
        }
        Some(relation) if relation.kind() == kind_name(kind) => Ok((relation.oid(), 0)),
        None if name.of_system().is_none() => Err(ddl.session.view().missing(&name, "relation")),
        None if let Some(known) = name.of_system().filter(|known| known.kind() == kind_name(kind)) => {
            Ok((known.oid(), 0))
        }
        _ => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not {}", name.name, with_article(kind_name(kind))),
        )),
    }
}

fn named_key(ddl: &mut Ddl<'_>, kind: NamedKind, name: &Ident) -> Result<CommentKey> {
    let (catalog, column, what) = match kind {
        NamedKind::AccessMethod => ("pg_am", "amname", "access method"),
        NamedKind::Database => ("pg_database", "datname", "database"),
        NamedKind::Extension => ("pg_extension", "extname", "extension"),
        NamedKind::Language => ("pg_language", "lanname", "language"),
        NamedKind::Role => ("pg_authid", "rolname", "role"),
        NamedKind::Schema => {
            let name = Name { schema: None, name: name.name.to_string() };
            let known = built_in(ddl, "pg_namespace", &[("nspname", text(&name.name))])?;
            if let (true, [key]) = (SYSTEM_SCHEMAS.contains(&&*name.name), &known[..]) {
                return Ok(*key);
            }
            let oid = ddl.session.view().schema_oid(&name.name);
            return oid.map(|oid| (oid, 0)).ok_or_else(|| name.missing("schema"));
        }
        NamedKind::Tablespace => ("pg_tablespace", "spcname", "tablespace"),
    };
    let found = built_in(ddl, catalog, &[(column, text(&name.name))])?;
    first(&found, || {
        let state = match kind {
            NamedKind::Database => SqlState::INVALID_CATALOG_NAME,
            _ => SqlState::UNDEFINED_OBJECT,
        };
        SqlError::new(state, format!("{what} \"{}\" does not exist", name.name))
    })
}

fn routine_key(ddl: &mut Ddl<'_>, kind: RoutineKind, routine: &RoutineName) -> Result<CommentKey> {
    if kind != RoutineKind::Procedure {
        let found = functions_named(ddl, kind, routine)?;
        match (&found[..], kind) {
            ([key], _) => return Ok(*key),
            ([], RoutineKind::Routine) => {}
            ([], _) => return Err(missing_routine(kind, routine)),
            _ => {
                let message = format!("function name \"{}\" is not unique", routine.name.last().name);
                return Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
                    .hint("Specify the argument list to select the function unambiguously."));
            }
        }
    }
    Ok((find_procedure(ddl, routine)?.oid, 0))
}

/// The system's functions that a name, with types of arguments or without, stands for: aggregates alone, or all.
fn functions_named(ddl: &mut Ddl<'_>, kind: RoutineKind, routine: &RoutineName) -> Result<Vec<CommentKey>> {
    let QualifiedName(parts) = &routine.name;
    let [schema @ .., name] = &parts[..] else { return Ok(Vec::new()) };
    if !is_of_system(schema) {
        return Ok(Vec::new());
    }
    let mut values = vec![("proname", text(&name.name))];
    if let Some(types) = argument_types(routine)? {
        values.push(("proargtypes", Datum::Array(Scalar::Oid, types.into_iter().map(Datum::Oid).collect())));
    }
    if kind == RoutineKind::Aggregate {
        values.push(("prokind", Datum::Char(b'a')));
    }
    built_in(ddl, "pg_proc", &values)
}

/// The types of the input arguments that a routine's name is given with.
fn argument_types(routine: &RoutineName) -> Result<Option<Vec<Oid>>> {
    let Some(parameters) = &routine.parameters else { return Ok(None) };
    let inputs = parameters.iter().filter(|parameter| parameter.mode != ParameterMode::Out);
    inputs.map(|parameter| type_oid(&parameter.ty)).collect::<Result<_>>().map(Some)
}

fn missing_routine(kind: RoutineKind, routine: &RoutineName) -> SqlError {
    let name = &routine.name.last().name;
    let what = if kind == RoutineKind::Aggregate { "aggregate" } else { "function" };
    let message = match argument_types(routine) {
        Ok(Some(types)) if kind == RoutineKind::Aggregate && types.is_empty() => {
            format!("aggregate {name}(*) does not exist")
        }
        Ok(Some(types)) => {
            let types: Vec<String> = types.into_iter().map(shown).collect();
            format!("{what} {name}({}) does not exist", types.join(", "))
        }
        _ => format!("could not find a {what} named \"{name}\""),
    };
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

fn operator_key(
    ddl: &mut Ddl<'_>,
    name: &OperatorName,
    left: Option<&TypeName>,
    right: &TypeName,
) -> Result<CommentKey> {
    let left = left.map(type_oid).transpose()?;
    let right = type_oid(right)?;
    let operands = [("oprleft", Datum::Oid(left.unwrap_or(0))), ("oprright", Datum::Oid(right))];
    let values = [&[("oprname", text(&name.symbol))][..], &operands[..]].concat();
    let found = if is_of_system(&name.schema) { built_in(ddl, "pg_operator", &values)? } else { Vec::new() };
    first(&found, || {
        let operands = match left {
            None => format!("{} {}", name.symbol, shown(right)),
            Some(left) => format!("{} {} {}", shown(left), name.symbol, shown(right)),
        };
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {operands}"))
    })
}

/// The key of a column's comment.
fn column_key(ddl: &Ddl<'_>, name: &QualifiedName) -> Result<CommentKey> {
    let mut table = name.clone();
    let column = match table.0.pop() {
        Some(column) if !table.0.is_empty() => column,
        _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified")),
    };
    let name = ddl.session.name(&relation_of(&table)?)?;
    let view = ddl.session.view();
    let (oid, position) = match view.find(&name) {
        Some(Relation::View(view)) => {
            let position = view.columns.iter().position(|(name, _)| **name == *column.name);
            let missing = || {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", column.name, view.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            };
            (view.oid, position.ok_or_else(missing)?)
        }
        None if let Some(known) = name.of_system() => {
            let position = known.columns().iter().position(|own| *own.name == *column.name);
            let missing = || {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", column.name, name.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            };
            (known.oid(), position.ok_or_else(missing)?)
        }
        _ => {
            let table = view.table(&name)?;
            (table.oid, column_of(&table, &column)?)
        }
    };
    Ok((oid, u32::try_from(position + 1).unwrap_or(u32::MAX)))
}

/// The key of a constraint's comment.
fn constraint_key(table: &Table, constraint: &str) -> Result<CommentKey> {
    match table.constraint(constraint) {
        Some(Constraint::PrimaryKey(index) | Constraint::Unique(index)) => {
            Ok((index.oid, CONSTRAINT_COMMENT))
        }
        Some(Constraint::Check(check)) => Ok((check.oid(table.oid), 0)),
        Some(Constraint::NotNull(_)) | None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name),
        )),
    }
}

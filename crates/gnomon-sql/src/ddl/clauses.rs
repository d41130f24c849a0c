//! Clauses of DDL that are not carried out: those that are harmless to leave out answer with a NOTICE, all others are
//! refused. Constraints that are not carried out are refused in `constraint.rs`, statements in `crate::session` (`dispatch.rs`,
//! with the advice in `advice.rs`).
//!
//! The trees of statements are taken apart here field by field, so that the compiler asks about a clause that is added to
//! them.

use gnomon_parser::ast::{
    ConstraintKind, CreateIndex, CreateSchema, CreateTable, CreateTableAs, CreateView, Ident, IndexElement,
    OnCommit, Persistence, QualifiedName, SequenceOption, SequenceOptionKind, TableElement,
};

use crate::{Notice, Result, SqlError, SqlState, query, types::Type};

/// The only tablespace.
const TABLESPACE: &str = "pg_default";

/// The only table access method.
const TABLE_METHOD: &str = "heap";
/// The only index access method.
const INDEX_METHOD: &str = "btree";
/// PostgreSQL's other index access methods.
const OTHER_INDEX_METHODS: [&str; 5] = ["hash", "gist", "gin", "spgist", "brin"];

fn refuse(present: bool, what: &str) -> Result<()> {
    if present { Err(SqlError::unsupported(what)) } else { Ok(()) }
}

fn undefined(message: String) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

pub(super) fn create_table(create: &CreateTable, notices: &mut Vec<Notice>) -> Result<()> {
    let CreateTable {
        name: _,
        persistence,
        if_not_exists: _,
        elements,
        inherits,
        of_type,
        partition_of: _,
        partition_by: _,
        access_method,
        options: _,
        on_commit,
        tablespace,
    } = create;
    refuse(!inherits.is_empty(), "table inheritance")?;
    refuse(of_type.is_some(), "a typed table")?;
    storage(*persistence, access_method.as_ref(), *on_commit, tablespace.as_ref(), notices)?;
    let columns = elements.iter().filter_map(|element| match element {
        TableElement::Column(column) => Some(column),
        _ => None,
    });
    for constraint in columns.flat_map(|column| &column.constraints) {
        if let ConstraintKind::Identity { options, .. } = &constraint.kind {
            sequence_cache(options, notices);
        }
    }
    Ok(())
}

pub(super) fn create_table_as(create: &CreateTableAs, notices: &mut Vec<Notice>) -> Result<()> {
    let CreateTableAs {
        name: _,
        persistence,
        if_not_exists: _,
        columns: _,
        access_method,
        options: _,
        on_commit,
        tablespace,
        source: _,
        with_data: _,
        is_select_into: _,
    } = create;
    storage(*persistence, access_method.as_ref(), *on_commit, tablespace.as_ref(), notices)
}

/// Checks where a new table is, and how long it lives.
fn storage(
    persistence: Persistence,
    access_method: Option<&Ident>,
    on_commit: Option<OnCommit>,
    tablespace: Option<&Ident>,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    refuse(persistence == Persistence::Temporary, "a temporary table")?;
    if on_commit.is_some() {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    tablespace.map_or(Ok(()), |space| check_tablespace(&space.name))?;
    if let Some(method) = access_method.filter(|method| *method.name != *TABLE_METHOD) {
        return Err(undefined(format!("access method \"{}\" does not exist", method.name)));
    }
    if persistence == Persistence::Unlogged {
        notices.push(Notice::no_effect("UNLOGGED", "every table is durable"));
    }
    Ok(())
}

pub(super) fn check_tablespace(name: &str) -> Result<()> {
    match name == TABLESPACE {
        true => Ok(()),
        false => Err(undefined(format!("tablespace \"{name}\" does not exist"))),
    }
}

/// Checks COLLATE of a column, whose type is given if it is known.
pub(super) fn check_collation(collation: Option<&QualifiedName>, ty: Option<Type>) -> Result<()> {
    let check = |collation: &QualifiedName| query::check_collation(collation, ty, collation.position());
    collation.map_or(Ok(()), |collation| check(collation).map(drop))
}

/// Returns the collation of a column of this type: that of COLLATE, or the type's.
pub(super) fn column_collation(collation: Option<&QualifiedName>, ty: Type) -> Result<u32> {
    match collation {
        Some(collation) => query::check_collation(collation, Some(ty), collation.position()),
        None => Ok(ty.info().collation),
    }
}

/// Tells that CACHE has no effect, if it is among the options of a sequence.
pub(super) fn sequence_cache(options: &[SequenceOption], notices: &mut Vec<Notice>) {
    let caches =
        |option: &SequenceOption| matches!(&option.kind, SequenceOptionKind::Cache(count) if **count != *"1");
    if options.iter().any(caches) {
        notices.push(Notice::no_effect(
            "CACHE",
            "values of a sequence are reserved many at a time for all sessions",
        ));
    }
}

pub(super) fn create_index(create: &CreateIndex, notices: &mut Vec<Notice>) -> Result<()> {
    let CreateIndex {
        is_unique: _,
        is_concurrent,
        if_not_exists: _,
        name: _,
        table: _,
        is_only: _,
        access_method,
        elements: _,
        include,
        is_nulls_not_distinct,
        options: _,
        tablespace,
        filter,
    } = create;
    refuse(filter.is_some(), "a partial index")?;
    refuse(!include.is_empty(), "INCLUDE in an index")?;
    refuse(*is_nulls_not_distinct, "NULLS NOT DISTINCT")?;
    match access_method.as_ref().map(|method| &*method.name) {
        None | Some(INDEX_METHOD) => {}
        Some(other) if OTHER_INDEX_METHODS.contains(&other) => {
            return Err(SqlError::unsupported(format!("the index method {other}")));
        }
        Some(other) => return Err(undefined(format!("access method \"{other}\" does not exist"))),
    }
    tablespace.as_ref().map_or(Ok(()), |space| check_tablespace(&space.name))?;
    if *is_concurrent {
        notices.push(Notice::no_effect("CONCURRENTLY", "writers of the table wait until the index is there"));
    }
    Ok(())
}

/// Checks the clauses of an element of an index. `ty` is the type of its column, if there is one.
pub(super) fn index_element(element: &IndexElement, ty: Option<Type>) -> Result<()> {
    let IndexElement {
        key: _,
        collation,
        operator_class,
        operator_class_options,
        direction: _,
        is_nulls_first: _,
        position,
    } = element;
    check_collation(collation.as_ref(), ty)?;
    if let Some(class) = operator_class {
        query::check_operator_class(class, ty)?;
    }
    match operator_class_options.is_empty() {
        true => Ok(()),
        false => Err(SqlError::unsupported("an option of an operator class").at(*position)),
    }
}

pub(super) fn create_view(create: &CreateView) -> Result<()> {
    let CreateView {
        name: _,
        persistence,
        or_replace: _,
        is_recursive: _,
        columns: _,
        options: _,
        query: _,
        check,
    } = create;
    refuse(*persistence == Persistence::Temporary, "a temporary view")?;
    if *persistence == Persistence::Unlogged {
        let message = "views cannot be unlogged because they do not have storage";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    refuse(check.is_some(), "WITH CHECK OPTION")
}

/// Returns the name of a schema to be created.
pub(super) fn create_schema(create: &CreateSchema, user: &str, notices: &mut Vec<Notice>) -> Result<String> {
    let CreateSchema { name, if_not_exists: _, authorization, elements: _ } = create;
    let owner = authorization.as_ref().map(|owner| role_name(owner, user));
    if owner.is_some_and(|owner| owner != user) {
        notices.push(Notice::no_effect("AUTHORIZATION", "there are no roles"));
    }
    match name.as_ref().map(|name| &*name.name).or(owner) {
        Some(name) => Ok(name.to_owned()),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a schema needs a name")),
    }
}

/// Tells that an owner has no effect, unless it is the user, whose everything is.
pub(super) fn owner(owner: &Ident, user: &str, notices: &mut Vec<Notice>) {
    if role_name(owner, user) != user {
        notices.push(Notice::no_effect("OWNER TO", "there are no roles"));
    }
}

/// Returns the name of a role, which may be one of the words for the session's own.
pub(super) fn role_name<'n>(role: &'n Ident, user: &'n str) -> &'n str {
    match &*role.name {
        "current_role" | "current_user" | "session_user" => user,
        name => name,
    }
}

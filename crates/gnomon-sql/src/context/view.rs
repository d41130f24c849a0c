//! The catalog as a statement sees it: its transaction's version, searched by the session's path.

use std::{cell::RefCell, ops::Range, sync::Arc};

use gnomon_parser::ast::{self, RelationName};

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog, Relation,
        model::{self, Oid, Table},
        system::{self, SYSTEM_SCHEMA, SYSTEM_SCHEMAS},
    },
    query::{self, CatalogView, VirtualTable},
    syntax::parse_query,
};

/// A version of the catalog with a search path. Remembers the tables that were looked up through it, whose trees a
/// statement locks before it uses what it found.
pub(crate) struct View {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) search_path: Arc<[String]>,
    pub(crate) database: Arc<str>,
    tables: RefCell<Vec<Arc<Table>>>,
}

impl View {
    pub(crate) fn new(catalog: Arc<Catalog>, search_path: Arc<[String]>, database: Arc<str>) -> View {
        View { catalog, search_path, database, tables: RefCell::default() }
    }

    /// Returns a view of another version of the catalog, by the same path.
    pub(crate) fn with_catalog(&self, catalog: Arc<Catalog>) -> View {
        View::new(catalog, self.search_path.clone(), self.database.clone())
    }

    /// Returns how many look-ups of tables there were so far.
    pub(crate) fn mark(&self) -> usize {
        self.tables.borrow().len()
    }

    /// True if a table was looked up since a mark was made.
    pub(crate) fn looked_up_since(&self, mark: usize, oid: Oid) -> bool {
        self.tables.borrow().iter().skip(mark).any(|table| table.oid == oid)
    }

    /// True if a table was looked up between two marks.
    pub(crate) fn looked_up_between(&self, marks: Range<usize>, oid: Oid) -> bool {
        self.tables.borrow().get(marks).is_some_and(|tables| tables.iter().any(|table| table.oid == oid))
    }

    /// Returns how often a table was looked up.
    pub(crate) fn look_ups(&self, oid: Oid) -> usize {
        self.tables.borrow().iter().filter(|table| table.oid == oid).count()
    }

    /// The tables that were looked up, each once.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for table in self.tables.borrow().iter() {
            if !tables.iter().any(|known| known.oid == table.oid) {
                tables.push(table.clone());
            }
        }
        tables
    }

    /// The relation of a name that may be qualified, as the statement writes it.
    pub(crate) fn find(&self, name: &Name) -> Option<Relation> {
        match &name.schema {
            Some(schema) => self.catalog.relation(schema, &name.name),
            None => self.search_path.iter().find_map(|schema| self.catalog.relation(schema, &name.name)),
        }
    }

    /// The schema in which a new object of this name is made.
    pub(crate) fn schema_for(&self, name: &Name) -> Result<String> {
        match &name.schema {
            Some(schema) if self.catalog.schema(schema).is_some() => Ok(schema.clone()),
            Some(schema) if schema == SYSTEM_SCHEMA || schema == "information_schema" => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied for schema {schema}"),
            )),
            Some(schema) if schema == "pg_temp" => {
                Err(SqlError::unsupported("the schema pg_temp of temporary tables"))
            }
            Some(schema) => Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            )),
            None => self.current_schema().map(str::to_owned).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
            }),
        }
    }

    /// The first schema of the path that exists: current_schema().
    pub(crate) fn current_schema(&self) -> Option<&str> {
        self.search_path.iter().map(String::as_str).find(|schema| self.catalog.schema(schema).is_some())
    }

    /// The procedure of this name.
    pub(crate) fn procedure(&self, name: &Name) -> Option<Arc<model::Procedure>> {
        let found = match &name.schema {
            Some(schema) => self.catalog.procedure(schema, &name.name),
            None => self.search_path.iter().find_map(|schema| self.catalog.procedure(schema, &name.name)),
        };
        found.cloned()
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &Name) -> Result<Arc<Table>> {
        match self.find(name) {
            Some(Relation::Table(table)) => Ok(table),
            Some(_) => {
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", name.name)))
            }
            None => Err(self.missing(name, "relation")),
        }
    }

    /// The error for a name that stands for nothing, or whose schema is missing.
    pub(crate) fn missing(&self, name: &Name, kind: &str) -> SqlError {
        let is_known =
            |schema: &String| SYSTEM_SCHEMAS.contains(&&**schema) || self.catalog.schema(schema).is_some();
        match name.schema.as_ref().filter(|schema| !is_known(schema)) {
            Some(schema) => Name { schema: None, name: schema.clone() }.missing("schema"),
            None => name.missing(kind),
        }
    }
}

impl CatalogView for View {
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<query::Relation>> {
        // The system's tables are looked for first, unless the path says where.
        let path_names_it = self.search_path.iter().any(|schema| schema == SYSTEM_SCHEMA);
        let wanted = Name { schema: schema.map(str::to_owned), name: name.to_owned() };
        if (schema.is_some() || !path_names_it)
            && let Some(table) = system::relation(schema, name)
        {
            return Ok(Some(query::Relation::Virtual(table)));
        }
        match self.find(&wanted) {
            None if path_names_it && schema.is_none() => {
                Ok(system::relation(None, name).map(query::Relation::Virtual))
            }
            None => Ok(None),
            Some(Relation::Table(table)) => {
                self.tables.borrow_mut().push(table.clone());
                Ok(Some(query::Relation::Table(table)))
            }
            Some(Relation::View(view)) => Ok(Some(query::Relation::View(view))),
            Some(Relation::Sequence(sequence)) => {
                Ok(Some(query::Relation::Virtual(system::sequence(&sequence))))
            }
            Some(Relation::Index(..)) => {
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot open relation \"{name}\""))
                    .detail("This operation is not supported for indexes."))
            }
        }
    }

    fn procedure(&self, schema: Option<&str>, name: &str) -> Option<Arc<model::Procedure>> {
        View::procedure(self, &Name { schema: schema.map(str::to_owned), name: name.to_owned() })
    }

    fn view_query(&self, view: &model::View) -> Result<ast::Query> {
        query_of(view)
    }

    fn database(&self) -> &str {
        &self.database
    }
}

/// The query of a view.
///
/// # Errors
/// 55000 if the text that is kept of it cannot be read.
pub(crate) fn query_of(view: &model::View) -> Result<ast::Query> {
    parse_query(&view.query).map_err(|error| view.damaged(error.to_string()))
}

/// A name of an object, with its schema if that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

impl Name {
    /// A name as a statement has it; `database` may stand before the schema.
    pub(crate) fn of(name: &RelationName, database: &str) -> Result<Name> {
        let (schema, name) = query::relation_name(name, database)?;
        Ok(Name { schema, name })
    }

    /// The error for a name that stands for no object of users. The system's cannot be changed.
    pub(crate) fn missing(&self, kind: &str) -> SqlError {
        let denied = |message| SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
        if kind == "schema" && SYSTEM_SCHEMAS.contains(&&*self.name) {
            return denied(format!("permission denied for schema {}", self.name));
        }
        if kind != "schema" && self.of_system().is_some() {
            return denied(format!("permission denied: \"{}\" is a system catalog", self.name));
        }
        let state = match kind {
            "relation" | "table" | "view" | "sequence" => SqlState::UNDEFINED_TABLE,
            "schema" => SqlState::INVALID_SCHEMA_NAME,
            _ => SqlState::UNDEFINED_OBJECT,
        };
        SqlError::new(state, format!("{kind} \"{self}\" does not exist"))
    }
}

impl Name {
    /// The system's table or view of this name.
    pub(crate) fn of_system(&self) -> Option<Arc<dyn VirtualTable>> {
        system::relation(self.schema.as_deref(), &self.name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A kind of relation with the article that it has in messages.
pub(crate) fn with_article(kind: &str) -> String {
    let article = if kind == "index" { "an" } else { "a" };
    format!("{article} {kind}")
}

impl View {
    /// Schema and name of the relation with this identifier.
    pub(crate) fn relation_name(&self, oid: Oid) -> Option<(String, String)> {
        let catalog = &self.catalog;
        if let Some(table) = catalog.table_by_oid(oid) {
            return Some((table.schema.clone(), table.name.clone()));
        }
        if let Some(sequence) = catalog.sequence_by_oid(oid) {
            return Some((sequence.schema.clone(), sequence.name.clone()));
        }
        if let Some(view) = catalog.view_by_oid(oid) {
            return Some((view.schema.clone(), view.name.clone()));
        }
        let (table, index) = catalog.index_by_oid(oid)?;
        Some((table.schema.clone(), index.name.clone()))
    }

    /// The identifier of a schema.
    pub(crate) fn schema_oid(&self, name: &str) -> Option<Oid> {
        self.catalog.schema(name).map(|schema| schema.oid)
    }
}

//! A database as SQL sees it: the engine, the committed catalog and what else its sessions share.

use std::sync::Arc;

use gnomon::{Database, sync::RwLock};

use super::Session;
use crate::{Result, catalog::Catalog};

/// A database that speaks SQL. Clones are handles of the same one.
#[derive(Clone)]
pub struct SqlDatabase(Arc<Shared>);

/// What the sessions of a database share.
pub(super) struct Shared {
    pub(super) engine: Database,
    /// The committed catalog. Held for writing while a commit that changes it takes place, so that nobody who has
    /// got a lock that such a commit released can still read the catalog of before it.
    pub(super) catalog: RwLock<Arc<Catalog>>,
}

/// Who a session is for.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The user's name.
    pub user: String,
    /// The database's name, as the client asked for it.
    pub database: String,
    /// The session's number: `pg_backend_pid()`.
    pub process_id: i32,
    /// Settings that the client gives when it connects (`application_name`, `TimeZone`, ...): what RESET goes back
    /// to.
    pub settings: Vec<(String, String)>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            user: "gnomon".into(),
            database: "gnomon".into(),
            process_id: 0,
            settings: Vec::new(),
        }
    }
}

impl SqlDatabase {
    /// Reads the catalog of an open database, or makes it if the database is empty.
    pub fn open(engine: Database) -> Result<SqlDatabase> {
        let catalog = RwLock::new(Arc::new(Catalog::default()));
        Ok(SqlDatabase(Arc::new(Shared { engine, catalog })))
    }

    /// Begins a session. Fails if one of the settings does not exist or does not take its value.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        Session::new(self.0.clone(), options)
    }

    /// The engine underneath.
    pub fn engine(&self) -> &Database {
        &self.0.engine
    }

    /// The committed catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
}

impl Shared {
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().clone()
    }
}

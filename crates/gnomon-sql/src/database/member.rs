//! A database that is a member of a cluster: where its marks are, and its catalog as others change it.
//!
//! Promises: the committed catalog in memory is that of the newest commit, of whichever member. A commit that changes
//! the catalog is applied while no session can read it.
//!
//! How: [`SqlDatabase`] is an [`Applier`]. It looks at the trees that a commit changes, and reads the catalog anew if
//! that is one of them. Statements count on the tables that they write to being what they were planned with
//! (`statement::begin`), so a transaction that changes a table conflicts with those that wrote to it as it was.

use gnomon_engine::{Applier, Database, Error, Ticket, TreeId, TxnOptions, replication::Ordered, sync::Arc};

use super::{Shared, SqlDatabase};
use crate::{
    Result, SqlError, SqlState,
    catalog::{CATALOG_TREE, Catalog, store, system::Cluster},
};

/// The tree of marks of a database that SQL may not have used yet.
pub(crate) fn marks(engine: &Database) -> Result<Option<TreeId>> {
    store::marks(&mut engine.begin(TxnOptions::default())?)
}

/// Returns why a member of a cluster is not opened for changes of its own.
pub(crate) fn not_alone() -> SqlError {
    let why = "the database is a member of a cluster, whose members would differ if it were changed alone: serve it with \
               --cluster, or take it out of the cluster for good by gnomon serve DIR --leave-cluster";
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, why)
}

impl SqlDatabase {
    /// The tree in which the database keeps its marks, if it is a member of a cluster.
    ///
    /// # Errors
    /// The engine's.
    pub fn marks(&self) -> Result<Option<TreeId>> {
        marks(&self.0.engine)
    }

    /// Sets the source of the tables of the cluster. It is asked while they are read.
    pub fn show_cluster(&self, cluster: Arc<dyn Cluster>) {
        // There is one cluster.
        let _ = self.0.cluster.set(cluster);
    }

    /// Notes in which tree the database keeps its marks, so that it is a member of a cluster from now on; with none, that
    /// it is not any more.
    ///
    /// # Errors
    /// The engine's.
    pub fn set_marks(&self, marks: Option<TreeId>) -> Result<()> {
        let mut txn = self.0.engine.begin(TxnOptions::default())?;
        store::put_marks(&mut txn, marks)?;
        txn.commit()?;
        Ok(())
    }
}

impl Applier for SqlDatabase {
    fn database(&self) -> &Database {
        &self.0.engine
    }

    fn apply(&self, ordered: &Ordered<'_>) -> gnomon_engine::Result<Option<Ticket>> {
        let shared = &*self.0;
        if !ordered.trees.contains(&CATALOG_TREE) {
            return shared.engine.apply_replicated(ordered);
        }
        let mut published = shared.catalog.write();
        let Some(ticket) = shared.engine.apply_replicated(ordered)? else { return Ok(None) };
        let catalog = shared.catalog_of(&ticket).map_err(|error| match error.engine() {
            Some(error) => error.clone(),
            None => Error::Operation(error.to_string().into()),
        })?;
        *published = catalog.clone();
        shared.forget_others(&catalog);
        Ok(Some(ticket))
    }
}

impl Shared {
    /// The catalog that a commit has left.
    fn catalog_of(&self, ticket: &Ticket) -> Result<Arc<Catalog>> {
        let mut txn = self.engine.begin(TxnOptions { after: ticket.csn(), ..TxnOptions::default() })?;
        let mut catalog = store::load(&mut txn)?;
        self.see_next_oid(store::next_oid(&mut txn)?);
        catalog.version = self.next_version();
        catalog.csn = ticket.csn();
        Ok(Arc::new(catalog))
    }
}

//! Snapshots that transactions have exported (`pg_export_snapshot`), by their names.
//!
//! A guard stands for each: the transaction that exported it keeps the guard, and with it the name ends. A transaction
//! that has begun with the snapshot (SET TRANSACTION SNAPSHOT) keeps that.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gnomon_engine::{SharedSnapshot, sync::Mutex};

/// The most snapshots that a transaction exports.
pub(crate) const EXPORTED_MAX: usize = 1000;

/// The exported snapshots of a database.
#[derive(Default)]
pub(crate) struct ExportedSnapshots {
    held: Mutex<HashMap<Box<str>, SharedSnapshot>>,
    named: AtomicU64,
}

/// A snapshot that is exported until this is dropped.
pub(crate) struct Exported {
    snapshots: Arc<ExportedSnapshots>,
    name: Box<str>,
}

impl ExportedSnapshots {
    /// Returns a name that no other snapshot has, for one of a session.
    pub(crate) fn new_name(&self, process_id: i32) -> Box<str> {
        let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{process_id:08X}-{number:08X}-1").into()
    }

    /// Exports a snapshot by a name.
    pub(crate) fn export(self: &Arc<Self>, name: Box<str>, snapshot: SharedSnapshot) -> Exported {
        self.held.lock().insert(name.clone(), snapshot);
        Exported { snapshots: self.clone(), name }
    }

    /// Returns the snapshot of a name.
    pub(crate) fn find(&self, name: &str) -> Option<SharedSnapshot> {
        self.held.lock().get(name).cloned()
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // Dropped after the lock, as the last handle gives versions back.
        let _snapshot = self.snapshots.held.lock().remove(&self.name);
    }
}

//! Progress of long statements, shown by the relation `gnomon_progress` and to programs that watch a session.

use gnomon_engine::sync::{Arc, Mutex, atomic::Ordering};

use crate::{catalog::model::Table, query::RowsDone};

/// Progress so far of a session's statement that writes rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `COPY FROM`, `INSERT`, `UPDATE`, `DELETE`, `CREATE INDEX`.
    pub command: &'static str,
    /// The identifier of the table whose rows it writes or reads.
    pub table: u32,
    /// Its name.
    pub table_name: String,
    /// Rows that are done.
    pub rows: u64,
    /// When it began, in microseconds since 2000-01-01 00:00 UTC.
    pub started: i64,
}

/// The board that shows the progress of a session, to other threads too. Clones show the same.
#[derive(Clone, Default)]
pub struct ProgressBoard {
    shown: Arc<Mutex<Option<Progress>>>,
    rows: RowsDone,
}

impl ProgressBoard {
    /// Returns the progress of the session's statement, if it is one that writes rows.
    pub fn progress(&self) -> Option<Progress> {
        let shown = self.shown.lock().clone();
        shown.map(|progress| Progress { rows: self.rows.load(Ordering::Relaxed), ..progress })
    }

    /// Shows a statement that begins, until what is returned goes.
    pub(crate) fn show(&self, command: &'static str, table: &Table, started: i64) -> Shown {
        self.rows.store(0, Ordering::Relaxed);
        let table_name = table.name.clone();
        *self.shown.lock() = Some(Progress { command, table: table.oid, table_name, rows: 0, started });
        Shown(self.clone())
    }

    /// Returns the counter of rows.
    pub(crate) fn rows(&self) -> RowsDone {
        self.rows.clone()
    }
}

/// A statement whose progress is shown.
pub(crate) struct Shown(ProgressBoard);

impl Drop for Shown {
    fn drop(&mut self) {
        *self.0.shown.lock() = None;
    }
}

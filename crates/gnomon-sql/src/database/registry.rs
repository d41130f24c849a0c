//! The sessions of a database, as they can be seen and interrupted from others: pg_stat_activity,
//! pg_cancel_backend.

use std::collections::BTreeMap;

use gnomon_engine::{
    Interrupt, InterruptReason, TxnId,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    SessionOptions,
    progress::{Progress, ProgressBoard},
};
use crate::{
    catalog::system::{Activity, ConnectedBy, Encryption},
    types::text::cut_at_character,
};

/// How much of a statement's text is shown, in bytes: PostgreSQL's default of `track_activity_query_size`, whose last
/// byte ends the text.
const QUERY_BYTES_MAX: usize = 1023;

/// The part of a statement's text that is shown.
pub(crate) fn shown_query(text: &str) -> &str {
    cut_at_character(text, QUERY_BYTES_MAX)
}

/// The sessions that are open.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<BTreeMap<u64, Arc<Entry>>>,
    next: AtomicU64,
}

/// A session's entry; dropped, it is taken out.
pub(crate) struct Registered {
    registry: Arc<Registry>,
    number: u64,
    entry: Arc<Entry>,
}

struct Entry {
    process_id: i32,
    user: String,
    connection: Option<ConnectedBy>,
    encryption: Option<Encryption>,
    started: i64,
    interrupt: Arc<Interrupt>,
    present: Mutex<Present>,
    progress: ProgressBoard,
}

/// Present activity of a session. Times are in microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Default)]
pub(crate) struct Present {
    pub(crate) application_name: Arc<str>,
    pub(crate) query: Arc<str>,
    pub(crate) state: &'static str,
    pub(crate) state_changed: i64,
    pub(crate) statement_started: Option<i64>,
    pub(crate) transaction_started: Option<i64>,
    pub(crate) transaction: Option<TxnId>,
}

impl Registry {
    pub(crate) fn register(
        self: &Arc<Self>,
        options: &SessionOptions,
        started: i64,
        interrupt: Arc<Interrupt>,
    ) -> Registered {
        let present = Present { state: "idle", state_changed: started, ..Present::default() };
        let entry = Arc::new(Entry {
            process_id: options.process_id,
            user: options.user.clone(),
            connection: options.connection,
            encryption: options.encryption.clone(),
            started,
            interrupt,
            present: Mutex::new(present),
            progress: ProgressBoard::default(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.sessions.lock().insert(number, entry.clone());
        Registered { registry: self.clone(), number, entry }
    }

    /// All sessions, the oldest first.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        let sessions = self.sessions.lock();
        let activity = |entry: &Arc<Entry>| {
            let present = entry.present.lock().clone();
            Activity {
                process_id: entry.process_id,
                user: entry.user.clone(),
                connection: entry.connection,
                encryption: entry.encryption.clone(),
                application_name: present.application_name.to_string(),
                started: entry.started,
                transaction_started: present.transaction_started,
                statement_started: present.statement_started,
                state_changed: present.state_changed,
                state: present.state,
                query: present.query.to_string(),
                transaction: present.transaction.map(|transaction| transaction.0),
            }
        };
        sessions.values().map(activity).collect()
    }

    /// Returns the engine's transactions, each with the number of its session among all of the registry.
    pub(crate) fn transactions(&self) -> Vec<(u64, TxnId)> {
        let sessions = self.sessions.lock();
        let of = |(number, entry): (&u64, &Arc<Entry>)| Some((*number, entry.present.lock().transaction?));
        sessions.iter().filter_map(of).collect()
    }

    /// Returns how far the statements are that write rows, each with its session's number.
    pub(crate) fn progress(&self) -> Vec<(i32, Progress)> {
        let sessions = self.sessions.lock();
        let shown = |entry: &Arc<Entry>| Some((entry.process_id, entry.progress.progress()?));
        sessions.values().filter_map(shown).collect()
    }

    /// True if there is a session of this number.
    pub(crate) fn has(&self, process_id: i32) -> bool {
        self.sessions.lock().values().any(|entry| entry.process_id == process_id)
    }

    /// Interrupts the session of this number. False if there is none.
    pub(crate) fn interrupt(&self, process_id: i32, reason: InterruptReason) -> bool {
        let sessions = self.sessions.lock();
        let found = sessions.values().find(|entry| entry.process_id == process_id);
        if let Some(entry) = found {
            entry.interrupt.raise(reason);
        }
        found.is_some()
    }
}

impl Registered {
    /// Returns the session's number, which no other session of the database has or had.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the board that shows the session's progress.
    pub(crate) fn progress(&self) -> &ProgressBoard {
        &self.entry.progress
    }

    /// Records what the session does now.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Present)) {
        change(&mut self.entry.present.lock());
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shown_query("SELECT 1"), "SELECT 1");
        assert_eq!(shown_query(""), "");
        assert_eq!(shown_query(&"x".repeat(5000)).len(), 1023);
        assert_eq!(shown_query(&"é".repeat(5000)).len(), 1022);
        assert_eq!(shown_query(&"東".repeat(341)).len(), 1023);
    }
}

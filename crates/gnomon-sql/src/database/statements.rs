//! Statistics of statements by their form: `pg_stat_statements`.
//!
//! All sessions count here what statements they have run, how long these took and how many rows they gave. Statements
//! that differ only in their constants have one entry. There are at most [`ENTRIES_MAX`]: when one more comes, those
//! that were used least give way, as in PostgreSQL. Nothing is stored; the statistics begin when the database is
//! opened.

use std::{collections::HashMap, time::Duration};

use gnomon_engine::sync::{Arc, Mutex, RwLock};
use gnomon_parser::general::GeneralText;

use crate::{catalog::system::StatementStatistics, types::text::cut_at_character};

/// The most forms that are kept: `pg_stat_statements.max`.
pub(crate) const ENTRIES_MAX: usize = 5000;
/// The most bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4096;
/// The percentage of entries that give way at a time.
const EVICTED_PERCENT: usize = 5;
/// The part that is left of the weight of former uses each time that entries give way.
const USAGE_DECAY: f64 = 0.99;

/// The counts of the statements of one form. Times are in milliseconds.
#[derive(Clone, Debug, Default)]
struct StatementCounts {
    calls: u64,
    rows: u64,
    total: f64,
    min: f64,
    max: f64,
    mean: f64,
    /// The sum of the squares of differences from the mean.
    squares: f64,
}

impl StatementCounts {
    /// Counts an execution. Mean and variance go by Welford's method.
    fn add(&mut self, time: Duration, rows: u64) {
        let time = time.as_secs_f64() * 1000.0;
        self.min = if self.calls == 0 { time } else { self.min.min(time) };
        self.max = self.max.max(time);
        self.calls += 1;
        self.rows = self.rows.saturating_add(rows);
        self.total += time;
        let before = self.mean;
        self.mean += (time - before) / self.calls as f64;
        self.squares += (time - before) * (time - self.mean);
    }

    /// Returns the standard deviation of the times.
    fn deviation(&self) -> f64 {
        if self.calls > 1 { (self.squares / self.calls as f64).sqrt() } else { 0.0 }
    }
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    counts: Mutex<(StatementCounts, f64)>,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<i64, Entry>,
    /// How often entries have given way.
    evictions: u64,
    /// When all were reset, in microseconds since 2000-01-01 00:00 UTC.
    reset: Option<i64>,
}

/// The statistics of all sessions' statements.
#[derive(Debug, Default)]
pub(crate) struct AllStatements(RwLock<Entries>);

/// Returns the number that stands for a form: not zero, which stands for none.
fn id_of(form: &GeneralText) -> i64 {
    match form.fingerprint as i64 {
        0 => 1,
        id => id,
    }
}

impl AllStatements {
    /// Counts an execution of a statement.
    pub(crate) fn record(&self, form: &GeneralText, time: Duration, rows: u64) {
        let id = id_of(form);
        if let Some(entry) = self.0.read().by_id.get(&id) {
            return entry.add(time, rows);
        }
        let mut entries = self.0.write();
        if entries.by_id.len() >= ENTRIES_MAX && !entries.by_id.contains_key(&id) {
            entries.evict();
        }
        let new =
            || Entry { text: cut_at_character(&form.text, TEXT_BYTES_MAX).into(), counts: Mutex::default() };
        entries.by_id.entry(id).or_insert_with(new).add(time, rows);
    }

    /// Returns all forms.
    pub(crate) fn list(&self) -> Vec<StatementStatistics> {
        let entries = self.0.read();
        entries.by_id.iter().map(|(id, entry)| entry.shown(*id)).collect()
    }

    /// Returns how often entries have given way, and when all were reset.
    pub(crate) fn info(&self) -> (u64, Option<i64>) {
        let entries = self.0.read();
        (entries.evictions, entries.reset)
    }

    /// Forgets a form, or all of them.
    pub(crate) fn reset(&self, id: Option<i64>, now: i64) {
        let mut entries = self.0.write();
        match id {
            Some(id) => drop(entries.by_id.remove(&id)),
            None => *entries = Entries { reset: Some(now), ..Entries::default() },
        }
    }
}

impl Entry {
    fn shown(&self, id: i64) -> StatementStatistics {
        let counts = self.counts.lock().0.clone();
        StatementStatistics {
            id,
            text: self.text.clone(),
            calls: counts.calls,
            rows: counts.rows,
            total: counts.total,
            min: counts.min,
            max: counts.max,
            mean: counts.mean,
            deviation: counts.deviation(),
        }
    }

    fn add(&self, time: Duration, rows: u64) {
        let mut counts = self.counts.lock();
        counts.0.add(time, rows);
        counts.1 += 1.0;
    }
}

impl Entries {
    /// Takes out the entries that were used least.
    fn evict(&mut self) {
        let mut uses: Vec<(f64, i64)> = Vec::with_capacity(self.by_id.len());
        for (id, entry) in &self.by_id {
            let mut counts = entry.counts.lock();
            counts.1 *= USAGE_DECAY;
            uses.push((counts.1, *id));
        }
        uses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = (uses.len() * EVICTED_PERCENT / 100).max(1);
        for (_, id) in uses.into_iter().take(count) {
            self.by_id.remove(&id);
        }
        self.evictions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fingerprint: u64) -> GeneralText {
        GeneralText { text: format!("SELECT {fingerprint}"), fingerprint }
    }

    #[test]
    fn times_are_summed_up() {
        let all = AllStatements::default();
        for millis in [1, 2, 6] {
            all.record(&form(7), Duration::from_millis(millis), 2);
        }
        let list = all.list();
        let counts = &list[0];
        assert_eq!((list.len(), counts.calls, counts.rows), (1, 3, 6));
        assert_eq!((counts.min, counts.max, counts.total, counts.mean), (1.0, 6.0, 9.0, 3.0));
        assert!((counts.deviation - (14.0_f64 / 3.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn the_least_used_give_way() {
        let all = AllStatements::default();
        let often = form(u64::MAX);
        all.record(&often, Duration::ZERO, 0);
        all.record(&often, Duration::ZERO, 0);
        for number in 1..=ENTRIES_MAX as u64 {
            all.record(&form(number), Duration::ZERO, 0);
        }
        let list = all.list();
        assert!(list.len() <= ENTRIES_MAX);
        assert_eq!(all.info().0, 1);
        assert!(list.iter().any(|one| one.id == id_of(&often)));
        all.reset(Some(id_of(&often)), 1);
        assert_eq!((all.list().len(), all.info().1), (list.len() - 1, None));
        all.reset(None, 5);
        assert_eq!((all.list().len(), all.info()), (0, (0, Some(5))));
    }
}

//! Counts of accesses to relations: scans, rows read and written.
//!
//! A statement counts in its own context and hands its counts to the session's ([`AccessCounts`]) when the context goes:
//! no row takes a lock, and no lock is shared with other sessions.

use std::sync::Arc;

use gnomon_engine::sync::Mutex;

use crate::catalog::{model::Oid, partition::Place};

/// A table or index, or its part in a partition.
pub type Counted = (Oid, Place);

/// Number of accesses to a table or index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Scans that were begun.
    pub scans: u64,
    /// Rows, or entries of an index, that scans returned.
    pub read: u64,
    /// Of an index: rows of the table that its entries led to.
    pub fetched: u64,
    /// Rows inserted, by transactions that were rolled back too, as the next two.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows inserted, updated and deleted by transactions that were committed.
    pub changed: u64,
}

impl Accesses {
    /// Counts a row that a scan found in a tree of whole rows.
    pub fn found(&mut self) {
        self.read += 1;
        self.fetched += 1;
    }

    /// Adds others.
    pub fn add(&mut self, other: &Accesses) {
        self.scans += other.scans;
        self.read += other.read;
        self.fetched += other.fetched;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.changed += other.changed;
    }
}

/// Accesses by relation, in the order of relations: of few relations mostly, and of many in the order of partitions.
#[derive(Clone, Debug, Default)]
pub struct ByRelation(Vec<(Counted, Accesses)>);

impl ByRelation {
    /// The accesses to a relation, if there are any.
    pub fn get(&self, relation: &Counted) -> Option<&Accesses> {
        self.position(relation).ok().map(|at| &self.0[at].1)
    }

    /// The accesses to a table, those to its partitions too.
    pub fn of_table(&self, table: Oid) -> Accesses {
        let mut sum = Accesses::default();
        self.0.iter().filter(|((of, _), _)| *of == table).for_each(|(_, accesses)| sum.add(accesses));
        sum
    }

    /// The accesses to a relation, none so far if it is new.
    fn on(&mut self, relation: Counted) -> &mut Accesses {
        let at = self.position(&relation).unwrap_or_else(|at| {
            self.0.insert(at, (relation, Accesses::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Adds the accesses of others.
    pub fn add(&mut self, others: &ByRelation) {
        others.0.iter().for_each(|(relation, accesses)| self.on(*relation).add(accesses));
    }

    /// Iterates over the relations.
    pub fn iter(&self) -> impl Iterator<Item = (&Counted, &Accesses)> {
        self.0.iter().map(|(relation, accesses)| (relation, accesses))
    }

    fn position(&self, relation: &Counted) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(relation))
    }
}

/// The accesses of a session's statements.
#[derive(Debug, Default)]
pub struct AccessCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Those of the transaction in progress.
    transaction: ByRelation,
    /// Those of transactions that have ended.
    ended: ByRelation,
}

impl AccessCounts {
    /// Returns the accesses of the transactions that have ended.
    pub fn ended(&self) -> ByRelation {
        self.0.lock().ended.clone()
    }

    /// Returns the accesses of the transaction in progress.
    pub fn in_transaction(&self) -> ByRelation {
        self.0.lock().transaction.clone()
    }

    /// Counts those of the transaction in progress as those of one that has ended.
    pub fn end_transaction(&self, committed: bool) {
        let Counts { transaction, ended } = &mut *self.0.lock();
        if committed {
            for (_, sum) in &mut transaction.0 {
                sum.changed = sum.inserted + sum.updated + sum.deleted;
            }
        }
        ended.add(transaction);
        transaction.0.clear();
    }

    /// Returns the accesses of the transactions that have ended, and begins again.
    pub fn take_ended(&self) -> ByRelation {
        std::mem::take(&mut self.0.lock().ended)
    }
}

/// The accesses of one statement.
#[derive(Debug, Default)]
pub struct Tally {
    counts: ByRelation,
    session: Option<Arc<AccessCounts>>,
}

impl Tally {
    /// A tally that goes to a session's counts.
    pub fn of(session: Arc<AccessCounts>) -> Tally {
        Tally { counts: ByRelation::default(), session: Some(session) }
    }

    /// The accesses to a relation.
    pub fn on(&mut self, relation: Counted) -> &mut Accesses {
        self.counts.on(relation)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let (Some(session), false) = (&self.session, self.counts.0.is_empty()) {
            session.0.lock().transaction.add(&self.counts);
        }
    }
}

//! Reads the logs of a store for tests, which compare them with those of the paper.

use std::collections::BTreeMap;

use super::{FILE, record::Record, root::Root};
use crate::{
    TxnId,
    disk::{Disk, SimDisk},
    id::{Lsn, SubtxnId},
    sync::Arc,
    wal::{self, Log, LogOptions},
};

/// A record of the logs, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// A unit of the log of pages.
    Unit {
        /// The numbers of its pages, in order.
        pages: Vec<u64>,
        /// The subtransactions that it is made of.
        subtxns: Vec<SubtxnId>,
        /// The transactions that it commits.
        committed: Vec<TxnId>,
    },
    /// The undo record of a subtransaction.
    Undo(TxnId, SubtxnId, Vec<u8>),
    /// The end of a subtransaction that takes another back, and that one.
    Compensation(SubtxnId, SubtxnId),
    /// The end of a transaction; true if it committed.
    End(TxnId, bool),
    /// Subtransactions whose unit was written.
    Written(Vec<SubtxnId>),
}

/// Returns the entries of the logs on a disk, by file. Nothing may be done with the disk afterwards.
pub fn log_entries(disk: &SimDisk) -> BTreeMap<String, Vec<LogEntry>> {
    let disk: Arc<dyn Disk> = Arc::new(disk.open_exclusive().unwrap());
    let root = Root::read(&*disk.open(FILE, false).unwrap()).unwrap().unwrap();
    let mut found = BTreeMap::new();
    let names = (0..root.logs.redo_files).map(|file| (format!("redo-{file}"), root.tails[file]));
    for (name, tail) in names.chain((!root.logs.shared).then(|| ("ops".to_owned(), root.ops_tail))) {
        let entries: &mut Vec<LogEntry> = found.entry(name.clone()).or_default();
        let how = LogOptions {
            name,
            database: root.database,
            segment_bytes: root.logs.segment_bytes,
            epoch: root.epoch + 1,
            reaches: Lsn(0),
            failpoints: Default::default(),
        };
        let mut visit = |record: wal::Record<'_>| {
            entries.push(match Record::decode(record.payload).unwrap() {
                Record::Unit(part) => LogEntry::Unit {
                    pages: part.pages.iter().map(|image| image.page).collect(),
                    subtxns: part.subtxns.iter().map(|(_, subtxn)| *subtxn).collect(),
                    committed: part.committed.iter().map(|(txn, _)| *txn).collect(),
                },
                Record::Undo { txn, subtxn, undo } => LogEntry::Undo(txn, subtxn, undo.to_vec()),
                Record::Compensation { subtxn, undoes, .. } => LogEntry::Compensation(subtxn, undoes),
                Record::End { txn, committed } => LogEntry::End(txn, committed.is_some()),
                Record::Written { subtxns, .. } => LogEntry::Written(subtxns),
            });
            Ok(())
        };
        Log::open(&disk, how, tail, &mut visit).unwrap();
    }
    found
}

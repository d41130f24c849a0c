//! The page log: what is in the log, what of it is in its place, and what transactions of it are running.
//!
//! Promises: pages of ended subtransactions reach the log in whole units ([`unit`](super::unit)), and their places only
//! after that, so that the beginning of the log can be given up ([`checkpoint`](super::checkpoint)). Running
//! subtransactions are not its matter, but for which pages they have changed.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{
    Limits, LoggedActivity, Loser, Strategy, logs::Logs, places::Places, record, reserve::Reserve,
    root::Root, space::SpaceMap, sphere::Spheres,
};
use crate::{
    Csn, Error, PageId, Result, TxnId,
    failpoint::Failpoints,
    id::{Lsn, SubtxnId},
    page::{
        Page, PageSize,
        pool::{Pin, Pool, PoolKey},
    },
    store::{check_page_size, commits::Commits},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The log of pages, with the places and the memory of what it holds.
pub struct PageLog {
    pub(super) commits: Commits,
    pub(super) places: Places,
    pub(super) logs: Logs,
    pub(super) strategy: Strategy,
    pub(super) pool: Pool,
    pub(super) state: Mutex<State>,
    /// Writing pages to their places; held over I/O.
    pub(super) placing: Mutex<()>,
    /// Growing the file; held over I/O.
    pub(super) growing: Mutex<()>,
    pub(super) root: Mutex<Root>,
    /// The log is not shortened before it is longer than this, in bytes.
    pub(super) shorten_beyond: AtomicU64,
    pub(super) next_id: AtomicU64,
    pub(super) limits: Limits,
    pub(super) counters: Counters,
    pub(super) failpoints: Failpoints,
}

/// Counts of units since the store was opened.
#[derive(Default)]
pub struct Counters {
    pub(super) units: AtomicU64,
    pub(super) unit_pages: AtomicU64,
    pub(super) unit_pages_max: AtomicU64,
    pub(super) changed_bytes: AtomicU64,
}

/// The pages of the log and its places, and the transactions that it must know.
pub struct State {
    pub(super) spheres: Spheres,
    /// Pages that incomplete subtransactions have changed.
    pub(super) active: HashMap<u64, SubtxnId>,
    /// Pages that are in the log and not in their places: the newest unit that has them, and the image.
    pub(super) logged: HashMap<u64, Logged>,
    /// The same by age.
    pub(super) by_age: BTreeSet<(u64, u64)>,
    pub(super) logged_bytes: usize,
    /// Pages whose places are not known to be durable: the unit that has them.
    pub(super) placed: HashMap<u64, u64>,
    /// Units, and the oldest one that is needed in case that they do not become durable: they have a newer image of a
    /// page that it has, too.
    pub(super) superseded: VecDeque<(u64, u64)>,
    /// Where units begin in the files of the log, for those that are needed.
    pub(super) units: VecDeque<UnitStart>,
    pub(super) next_unit: u64,
    /// Every unit before this one is durable.
    pub(super) forced_unit: u64,
    /// The newest commit that is in a log, durable or not.
    pub(super) logged_csn: Csn,
    /// Commits that are in no unit yet, in their order.
    pub(super) committed: Vec<Ordered>,
    pub(super) txns: HashMap<TxnId, TxnState>,
    pub(super) space: SpaceMap,
}

/// A commit, or the CSN of what a transaction has taken back.
#[derive(Clone, Copy)]
pub struct Ordered {
    pub(super) txn: TxnId,
    pub(super) csn: Csn,
    pub(super) commits: bool,
}

impl Ordered {
    /// As the log has it.
    pub fn logged(self) -> (TxnId, Csn) {
        (if self.commits { self.txn } else { NOBODY }, self.csn)
    }
}

/// No transaction has this number.
pub const NOBODY: TxnId = TxnId(0);

pub struct Logged {
    pub(super) unit: u64,
    pub(super) image: Page,
}

#[derive(Clone)]
pub struct UnitStart {
    pub(super) unit: u64,
    pub(super) at: Vec<Lsn>,
    /// The newest commit before it.
    pub(super) csn: Csn,
}

/// The state of a transaction that has ended subtransactions.
#[derive(Default)]
pub struct TxnState {
    /// Its first undo record.
    pub(super) first_undo: Option<Lsn>,
    /// Number of subtransactions that have ended and are in no unit.
    pub(super) unwritten: usize,
    /// Those that are in a unit, with the unit, as long as that is needed.
    pub(super) written: Vec<(u64, SubtxnId)>,
    pub(super) last_unit: u64,
    /// Set when it has ended: its CSN if it committed, none if it was undone.
    pub(super) ended: Option<Option<Csn>>,
    /// Room of the log to take it back.
    pub(super) reserve: Reserve,
}

impl TxnState {
    /// A subtransaction of it has ended; its undo record is there.
    pub fn note_end(&mut self, undo: Option<Lsn>) {
        self.unwritten += 1;
        self.first_undo = self.first_undo.or(undo);
    }
}

impl State {
    /// True if a page is in use.
    pub fn has_page(&self, page: u64) -> bool {
        self.space.is_taken(page) && !self.spheres.has_freed(page)
    }
}

impl PageLog {
    /// Returns the length of the log of pages in bytes, which a crash recovery would read.
    pub fn log_bytes(&self) -> u64 {
        self.logs.live_bytes()
    }

    pub fn writes_at_eos(&self) -> bool {
        self.strategy == Strategy::TwoLevel
    }

    /// A number for a transaction or a subtransaction, that none has had before.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The frame of a page.
    pub fn data(&self, id: PageId) -> Result<Pin> {
        let pin = self.pool.fetch(PoolKey { level: 0, index: id.0 }, || self.read_place(id.0).map(Some))?;
        pin.ok_or_else(|| self.places.corrupt(id.0, "there is no such page"))
    }

    /// Reads a page from its place.
    fn read_place(&self, page: u64) -> Result<Page> {
        if !self.state.lock().has_page(page) {
            return Err(self.places.corrupt(page, "it is in no use"));
        }
        self.places.read(page)
    }

    /// A page number that is in no use. The file grows if it has none.
    pub fn take_page(&self, size: PageSize) -> Result<u64> {
        check_page_size(self.places.unit, size)?;
        loop {
            let end = {
                let mut state = self.state.lock();
                if let Some(page) = state.space.take(size) {
                    return Ok(page);
                }
                state.space.end()
            };
            self.grow(size, end)?;
        }
    }

    /// Grows the file by at least a page of this size, unless it reaches further than `end` by now.
    fn grow(&self, size: PageSize, end: u64) -> Result<()> {
        const STEP_BYTES: u64 = 1 << 20;
        let _one = self.growing.lock();
        if self.state.lock().space.end() > end {
            return Ok(());
        }
        let unit = self.places.unit.bytes() as u64;
        // With room for a map, and for what has to be left out so that the page is where it can be.
        let least = 2 * (size.bytes().max(PageSize::DEFAULT.bytes()) as u64 / unit);
        let step = (end / 8).max(STEP_BYTES / unit).max(least);
        for step in [step, least] {
            match self.places.allocate(end + step) {
                Ok(()) => {
                    self.state.lock().space.grown(end + step);
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
                Err(error) => return Err(self.commits.poison(&error.into())),
            }
        }
        Err(Error::DiskFull)
    }

    pub fn commit_in(&self, state: &mut State, txn: TxnId) -> Csn {
        let csn = self.order_in(state, txn, true);
        if let Some(known) = state.txns.get_mut(&txn) {
            known.ended = Some(Some(csn));
            known.reserve = Reserve::default();
        }
        if self.writes_at_eos() {
            state.txns.remove(&txn);
        }
        csn
    }

    pub fn order_in(&self, state: &mut State, txn: TxnId, commits: bool) -> Csn {
        let csn = self.commits.take_csn();
        let ordered = Ordered { txn, csn, commits };
        if self.writes_at_eos() {
            // All that it did is in the log: this is what commits it.
            let (ops, (txn, csn)) = (self.logs.ops(), ordered.logged());
            record::Record::End { txn, committed: Some(csn) }.encode(|pieces| ops.append(pieces));
            state.logged_csn = csn;
        }
        state.committed.push(ordered);
        csn
    }

    /// True if a sphere has become so large that it should be written ([`PageLog::write_large_spheres`]).
    pub fn has_large_sphere(&self) -> bool {
        self.state.lock().spheres.largest().is_some_and(|(_, pages)| pages > self.limits.sphere_pages_max)
    }

    /// Reads an undo record of a loser.
    ///
    /// # Errors
    /// Of reading the log.
    pub fn undo_record(&self, loser: &Loser, index: usize) -> Result<Vec<u8>> {
        let record = self.logs.ops().read(loser.undo[index].1)?;
        match record::Record::decode(&record) {
            Some(record::Record::Undo { undo, .. }) => Ok(undo.to_vec()),
            _ => Err(Error::Corrupt {
                file: "log".into(),
                page: loser.undo[index].1.0,
                detail: "an undo record is none any more".into(),
            }),
        }
    }

    /// Returns the counts of writes since the store was opened.
    pub fn activity(&self) -> LoggedActivity {
        let (redo, ops) = self.logs.counts();
        LoggedActivity {
            redo_forces: redo.forces,
            redo_bytes: redo.bytes,
            ops_forces: ops.forces,
            ops_bytes: ops.bytes,
            units: self.counters.units.load(Ordering::Relaxed),
            unit_pages: self.counters.unit_pages.load(Ordering::Relaxed),
            unit_pages_max: self.counters.unit_pages_max.load(Ordering::Relaxed),
            placed_pages: self.places.placed_pages.load(Ordering::Relaxed),
            placed_bytes: self.places.placed_bytes.load(Ordering::Relaxed),
            place_syncs: self.places.syncs.load(Ordering::Relaxed),
        }
    }
}

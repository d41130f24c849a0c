//! Units of the log of pages: what is written together, and when.

use std::collections::BTreeSet;

use super::{
    Strategy,
    log::{Logged, Ordered, PageLog, State, UnitStart},
    record::{PageImage, Record, UnitPart},
    sphere::{After, SphereId, Taken},
};
use crate::{
    Csn, Error, Result, TxnId,
    failpoint::Failpoint,
    id::Lsn,
    page::{Page, PageKind},
    sync::atomic::Ordering,
};

impl PageLog {
    /// Makes the commits durable that are not, as one unit. Returns the newest durable one.
    pub fn write_commits(&self) -> Result<Csn> {
        if self.strategy == Strategy::TwoLevel {
            let (csn, end) = {
                let mut state = self.state.lock();
                state.committed.clear();
                (state.logged_csn, self.logs.ops().end())
            };
            self.logs.ops().force(end)?;
            return Ok(csn);
        }
        self.write_unit(|_| BTreeSet::new())
    }

    /// Writes spheres whose transactions are still running, perhaps.
    pub fn write_spheres(&self, spheres: BTreeSet<SphereId>) -> Result<()> {
        // By what they have become, if they were merged meanwhile.
        let pages: Vec<u64> = {
            let state = self.state.lock();
            spheres.iter().filter_map(|sphere| state.spheres.a_page_of(*sphere)).collect()
        };
        let written =
            self.write_unit(|state| pages.iter().filter_map(|page| state.spheres.of_page(*page)).collect());
        written.map(|_| ()).map_err(|error| self.commits.poison(&error))
    }

    /// Writes spheres that have grown large, which would keep a commit waiting.
    pub fn write_large_spheres(&self) -> Result<()> {
        while let Some((sphere, pages)) = { self.state.lock().spheres.largest() }
            && pages > self.limits.sphere_pages_max
        {
            self.write_spheres(BTreeSet::from([sphere]))?;
        }
        Ok(())
    }

    /// Writes a unit and returns when it is durable, with the newest commit that is durable then. `choose` tells
    /// which spheres it is to hold, and may be asked more than once. The unit also commits the transactions that wait
    /// for that: with one level, what it holds could not be undone otherwise.
    fn write_unit(&self, choose: impl Fn(&State) -> BTreeSet<SphereId>) -> Result<Csn> {
        let mut rounds = 0;
        let (unit, ends, csn) = loop {
            let mut state = self.state.lock();
            let mut spheres = choose(&state);
            let committed = if self.writes_at_eos() { Vec::new() } else { state.committed.clone() };
            spheres.extend(committed.iter().flat_map(|ordered| state.spheres.of_txn(ordered.txn)));
            if spheres.is_empty() && committed.is_empty() {
                // Another thread may be writing it at this moment.
                let ends: Vec<Lsn> = self.logs.ends();
                let csn = state.logged_csn;
                drop(state);
                return self.logs.force(&ends).map(|()| csn);
            }
            if let Some(ops) = &self.logs.ops {
                // The undo records of other transactions in it must be durable first. A transaction that commits with
                // it needs none.
                let commits = committed.iter().filter(|ordered| ordered.commits).map(|ordered| ordered.txn);
                let commits = commits.collect();
                let needed = state.spheres.undo_end(&spheres, &commits);
                if ops.forced() < needed && !self.failpoints.is_on(Failpoint::UndoNotForced) {
                    // Others may go on meanwhile and have it need more; not for ever.
                    if rounds < 2 {
                        rounds += 1;
                        drop(state);
                        ops.force(needed)?;
                        continue;
                    }
                    ops.force(needed)?;
                }
            }
            state.committed.drain(..committed.len());
            let committed: Vec<(TxnId, Csn)> = committed.into_iter().map(Ordered::logged).collect();
            let taken = state.spheres.take(&spheres);
            if self.failpoints.is_on(Failpoint::EosEarly) && taken.pages.len() > 1 {
                let half = *taken.pages.keys().nth(taken.pages.len() / 2).expect("it has several");
                let mut first = Taken { pages: taken.pages, subtxns: taken.subtxns };
                let second = Taken { pages: first.pages.split_off(&half), subtxns: Vec::new() };
                let (_, ends) = self.append(&mut state, first, &committed);
                drop(state);
                self.logs.force(&ends)?;
                let mut state = self.state.lock();
                let (unit, ends) = self.append(&mut state, second, &[]);
                break (unit, ends, state.logged_csn);
            }
            let (unit, ends) = self.append(&mut state, taken, &committed);
            break (unit, ends, state.logged_csn);
        };
        self.logs.force(&ends)?;
        let mut state = self.state.lock();
        state.forced_unit = state.forced_unit.max(unit + 1);
        self.forget_ended(&mut state);
        Ok(csn)
    }

    /// Appends a unit to the log. Returns its number, and where the files of the log end then.
    pub fn append(&self, state: &mut State, taken: Taken, committed: &[(TxnId, Csn)]) -> (u64, Vec<Lsn>) {
        let unit = state.next_unit;
        state.next_unit += 1;
        let at: Vec<Lsn> = self.logs.ends();
        state.units.push_back(UnitStart { unit, at, csn: state.logged_csn });
        state.logged_csn = committed.last().map_or(state.logged_csn, |(_, csn)| *csn);
        let mut parts: Vec<Vec<(u64, &Page)>> = vec![Vec::new(); self.logs.redo.len()];
        let mut freed = Vec::new();
        for (page, after) in &taken.pages {
            match after {
                After::Image(image) => parts[self.logs.file_of(*page)].push((*page, image)),
                After::Freed(size) => freed.push((*page, *size)),
            }
        }
        let has_pages = |file: &usize| !parts[*file].is_empty();
        // Where undo records are in the same log, the file that has them is part of each unit: so they are durable if
        // the unit is.
        let shared = self.logs.ops.is_none();
        let first = (0..parts.len()).find(|file| shared || has_pages(file)).unwrap_or(0);
        let files = (0..parts.len()).filter(has_pages).fold(1 << first, |files: u64, file| files | 1 << file);
        for (file, pages) in parts.iter().enumerate().filter(|(file, _)| files & 1 << file != 0) {
            let pages = pages.iter().map(|(page, image)| PageImage {
                page: *page,
                kind: image.kind(),
                size: image.size(),
                body: image.body(),
            });
            let mut part = UnitPart { unit, files, pages: pages.collect(), ..UnitPart::default() };
            if file == first {
                part.subtxns = taken.subtxns.iter().map(|subtxn| (subtxn.txn, subtxn.id)).collect();
                part.committed = committed.to_vec();
                part.freed.clone_from(&freed);
            }
            let log = &self.logs.redo[file];
            Record::Unit(part).encode(|pieces| log.append(pieces));
        }
        let count = taken.pages.len() as u64;
        self.counters.units.fetch_add(1, Ordering::Relaxed);
        self.counters.unit_pages.fetch_add(count, Ordering::Relaxed);
        self.counters.unit_pages_max.fetch_max(count, Ordering::Relaxed);
        for subtxn in &taken.subtxns {
            if let Some(txn) = state.txns.get_mut(&subtxn.txn) {
                txn.unwritten -= 1;
                txn.written.push((unit, subtxn.id));
                txn.last_unit = unit;
            }
        }
        for (txn, _) in committed {
            if let Some(txn) = state.txns.get_mut(txn) {
                txn.last_unit = unit;
            }
        }
        let known = |page: &u64| {
            let logged = state.logged.get(page).map(|logged| logged.unit);
            logged.into_iter().chain(state.placed.get(page).copied())
        };
        if let Some(oldest) = taken.pages.keys().flat_map(known).min() {
            state.superseded.push_back((unit, oldest));
        }
        for (page, after) in taken.pages {
            match after {
                After::Image(image) => {
                    if image.kind() != PageKind::SpaceMap {
                        state.space.log_taken(page, image.size());
                    }
                    state.log_page(page, unit, image);
                }
                After::Freed(size) => {
                    state.space.log_freed(page, size);
                    // What is made of it next is logged after this.
                    state.space.untake(page, size);
                    state.unlog_page(page);
                    state.placed.remove(&page);
                }
            }
        }
        (unit, self.logs.ends())
    }

    /// Notes the ends of transactions of which everything is durable.
    pub fn forget_ended(&self, state: &mut State) {
        let forced = state.forced_unit;
        let ended: Vec<(TxnId, Option<Csn>)> = state
            .txns
            .iter()
            .filter(|(_, txn)| txn.unwritten == 0 && (txn.last_unit < forced || txn.last_unit == 0))
            .filter_map(|(id, txn)| txn.ended.map(|committed| (*id, committed)))
            .filter(|(id, committed)| {
                committed.is_none() || !state.committed.iter().any(|ordered| ordered.txn == *id)
            })
            .collect();
        for (txn, committed) in ended {
            let known = state.txns.remove(&txn);
            // Only undo records make the log need the end: they are not asked for any more.
            if known.is_some_and(|known| known.first_undo.is_some()) {
                let ops = self.logs.ops();
                Record::End { txn, committed }.encode(|pieces| ops.append(pieces));
            }
        }
    }
}

impl State {
    /// Notes that the newest image of a page that is in the log is in this unit.
    pub(super) fn log_page(&mut self, page: u64, unit: u64, image: Page) {
        self.logged_bytes += image.size().bytes();
        self.unlog_page(page);
        self.logged.insert(page, Logged { unit, image });
        self.by_age.insert((unit, page));
    }

    pub(super) fn unlog_page(&mut self, page: u64) {
        if let Some(before) = self.logged.remove(&page) {
            self.by_age.remove(&(before.unit, page));
            self.logged_bytes -= before.image.size().bytes();
        }
    }
}

/// Returns the error for a record that cannot be read in a log.
pub(super) fn malformed(at: Lsn) -> Error {
    Error::Corrupt { file: "log".into(), page: at.0, detail: "a record of the log is malformed".into() }
}

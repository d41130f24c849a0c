//! Checkpoints: writing pages to their places, so that memory and the log can be used again.

use std::collections::BTreeSet;

use super::{
    log::{PageLog, State, UnitStart},
    record::Record,
    reserve::Reserve,
    root::Root,
    space::MAP_SIZE,
    sphere::{After, Taken},
};
use crate::{
    Error, Result,
    failpoint::Failpoint,
    id::Lsn,
    page::{Page, pool::PoolKey},
    sync::atomic::Ordering,
};

/// Bytes of pages that are written to their places at a time, about.
const PLACED_AT_A_TIME_BYTES: usize = 256 << 10;

impl PageLog {
    /// Writes pages to their places, or spheres to the log, until changed pages take no more memory than they may.
    pub fn make_room(&self) -> Result<()> {
        loop {
            let (logged, largest) = {
                let state = self.state.lock();
                if state.logged_bytes + state.spheres.bytes() <= self.limits.dirty_bytes_max {
                    break;
                }
                let forced = state.by_age.first().is_some_and(|(unit, _)| *unit < state.forced_unit);
                (forced, state.spheres.largest())
            };
            match (logged, largest) {
                (true, _) => self.place_oldest(u64::MAX)?,
                // A page that is to go out of memory takes its sphere to the log.
                (false, Some((sphere, _))) => self.write_spheres([sphere].into())?,
                (false, None) => break,
            }
        }
        self.ensure_log(0, 0)
    }

    /// Sees to it that the log has room for what is in memory, to take running transactions back, and for so many
    /// bytes more of pages and of undo records.
    ///
    /// # Errors
    /// [`DiskFull`](crate::Error::DiskFull).
    pub fn ensure_log(&self, more: u64, more_undo: u64) -> Result<()> {
        self.ensure_log_beside(LOG_SPARE_BYTES, more, more_undo)
    }

    /// The same, with so much room beyond it.
    fn ensure_log_beside(&self, spare: u64, more: u64, more_undo: u64) -> Result<()> {
        let (bytes, undo) = {
            let state = self.state.lock();
            let reserves = || state.txns.values().map(|txn| &txn.reserve);
            let reserved: u64 = reserves().map(Reserve::page_bytes).sum();
            let records: u64 = reserves().map(Reserve::record_bytes).sum();
            (state.spheres.bytes() as u64 + reserved + more, more_undo + records)
        };
        self.logs.ensure(bytes, undo, spare)
    }

    /// Writes some pages to their places that are in units before `before`, the oldest first.
    pub fn place_oldest(&self, before: u64) -> Result<()> {
        let _one = self.placing.lock();
        let mut chosen: Vec<(u64, u64, Page)> = {
            let state = self.state.lock();
            let mut bytes = 0;
            let old = state.by_age.iter().take_while(|(unit, _)| *unit < before.min(state.forced_unit));
            let fits = |page: &u64| {
                bytes += state.logged[page].image.size().bytes();
                bytes <= PLACED_AT_A_TIME_BYTES || bytes == state.logged[page].image.size().bytes()
            };
            let pages = old.map(|(_, page)| *page).take_while(fits);
            pages.map(|page| (page, state.logged[&page].unit, state.logged[&page].image.clone())).collect()
        };
        if self.failpoints.is_on(Failpoint::Stolen) {
            let active: Vec<u64> = self.state.lock().active.keys().copied().collect();
            for page in active {
                let pin = self.pool.get(PoolKey { level: 0, index: page });
                if let Some(image) =
                    pin.and_then(|pin| pin.frame().try_read().map(|latch| Page::clone(&latch)))
                {
                    chosen.push((page, 0, image));
                }
            }
        }
        chosen.sort_unstable_by_key(|(page, ..)| *page);
        self.places
            .write(chosen.iter().map(|(page, _, image)| (*page, image)))
            .map_err(|error| self.commits.poison(&error))?;
        let mut state = self.state.lock();
        for (page, unit, _) in chosen {
            // A newer one may have come, which is not there.
            if state.logged.get(&page).is_some_and(|logged| logged.unit == unit) {
                state.unlog_page(page);
                state.placed.insert(page, unit);
                self.settle_frame(&state, page);
            }
        }
        Ok(())
    }

    /// Lets a frame go from the pool if its image is elsewhere.
    pub fn settle_frame(&self, state: &State, page: u64) {
        let needed = state.active.contains_key(&page)
            || state.spheres.contains(page)
            || state.logged.contains_key(&page);
        if !needed && let Some(pin) = self.pool.get(PoolKey { level: 0, index: page }) {
            pin.frame().dirty.store(false, Ordering::Release);
        }
    }

    /// Gives up the beginning of the log if it is too long, half of what it has.
    pub fn shorten_log(&self) -> Result<()> {
        if self.logs.live_bytes()
            <= self.limits.log_bytes_max.max(self.shorten_beyond.load(Ordering::Relaxed))
        {
            return Ok(());
        }
        let before = {
            let state = self.state.lock();
            let first = state.units.front().map_or(state.next_unit, |start| start.unit);
            first + (state.next_unit - first).div_ceil(2)
        };
        self.give_up_log(before)?;
        // What is left may be needed for long, by a transaction that goes on and on.
        let beyond = self.logs.live_bytes() + self.limits.log_bytes_max / 2;
        self.shorten_beyond.store(beyond, Ordering::Relaxed);
        Ok(())
    }

    /// Writes pages to their places until no unit before `before` is needed, and gives up the part of the logs that
    /// is not needed then. A part that is needed longer, such as an undo record of a running transaction, stays.
    pub fn give_up_log(&self, before: u64) -> Result<()> {
        // Undo records of what was undone are needed until that is in the log.
        let undone: BTreeSet<_> = {
            let state = self.state.lock();
            let undone = state.txns.iter().filter(|(_, txn)| txn.ended == Some(None) && txn.unwritten > 0);
            undone.flat_map(|(txn, _)| state.spheres.of_txn(*txn)).collect()
        };
        if !undone.is_empty() {
            self.write_spheres(undone)?;
        }
        let mapped = match self.log_maps() {
            // Nothing was written: the log stays as long as it is.
            Err(Error::DiskFull) => return Err(Error::DiskFull),
            mapped => mapped.map_err(|error| self.commits.poison(&error))?,
        };
        // What is being written stays, and what no map knows of.
        let before = before.min(self.state.lock().forced_unit).min(mapped);
        while self.state.lock().by_age.first().is_some_and(|(unit, _)| *unit < before) {
            self.place_oldest(before)?;
        }
        self.advance(before).map_err(|error| self.commits.poison(&error))
    }

    /// Writes the map of pages in use to the log, which tells of it in pieces otherwise. Returns the first unit that
    /// the map does not know of.
    fn log_maps(&self) -> Result<u64> {
        let bytes = self.state.lock().space.changed_count() as u64 * MAP_SIZE.bytes() as u64;
        // From what is spare, if there is no more room: that is how a full disk gets some back.
        self.ensure_log_beside(LOG_KEPT_FOR_UNDO_BYTES, bytes, 0)?;
        let (unit, ends) = {
            let mut state = self.state.lock();
            let maps = state.space.take_changed();
            if maps.is_empty() {
                return Ok(state.next_unit);
            }
            let pages = maps.into_iter().map(|(page, map)| (page, After::Image(map)));
            let maps = Taken { pages: pages.collect(), subtxns: Vec::new() };
            self.append(&mut state, maps, &[])
        };
        self.logs.force(&ends)?;
        let mut state = self.state.lock();
        state.forced_unit = state.forced_unit.max(unit + 1);
        Ok(unit + 1)
    }

    /// Moves the beginning of the logs as far as nothing before is needed.
    fn advance(&self, before: u64) -> Result<()> {
        // One at a time: roots are written in the order in which they were made.
        let mut root = self.root.lock();
        let synced: Vec<(u64, u64)> =
            self.state.lock().placed.iter().map(|(page, unit)| (*page, *unit)).collect();
        let end = self.places.units()?;
        if !self.failpoints.is_on(Failpoint::PlacesUnsynced) {
            self.places.sync()?;
        }
        let (start, ops_tail, csn) = {
            let mut state = self.state.lock();
            for (page, unit) in synced {
                if state.placed.get(&page) == Some(&unit) {
                    state.placed.remove(&page);
                }
            }
            // Of the transactions that the log would not tell of any more, it is to be known how they ended.
            self.forget_ended(&mut state);
            let first = state.first_needed().unwrap_or(before).min(before).min(state.forced_unit);
            let mut start = state.start_of(first, || self.logs.ends());
            self.note_written(&mut state, start.unit);
            // With two levels and nothing deferred, commits are in the log of operations, which is forced below.
            let csn = if self.writes_at_eos() { state.logged_csn } else { start.csn };
            let oldest_undo = state.txns.values().filter_map(|txn| txn.first_undo).min();
            let ops_tail = oldest_undo.unwrap_or_else(|| self.logs.ops().end());
            if self.logs.ops.is_none() {
                // The log of both levels begins where the first of them does.
                start.at[0] = start.at[0].min(ops_tail);
            }
            (start, ops_tail, csn)
        };
        let ops = self.logs.ops();
        // The ends of transactions whose flags go, and what of the others was written.
        ops.force(ops.end())?;
        let next = Root {
            number: root.number + 1,
            first_unit: start.unit,
            next_id: self.next_id.load(Ordering::Relaxed),
            csn,
            ops_tail,
            tails: start.at.clone(),
            reaches: self.logs.reaches(),
            end,
            ..root.clone()
        };
        next.write(self.places.file())?;
        *root = next;
        self.logs.redo.iter().zip(&start.at).try_for_each(|(log, tail)| log.recycle(*tail))?;
        self.logs.ops.as_ref().map_or(Ok(()), |ops| ops.recycle(ops_tail))
    }

    /// Notes which subtransactions of running transactions are in units before `first`, which the log will not tell
    /// any more.
    fn note_written(&self, state: &mut State, first: u64) {
        let ops = self.logs.ops();
        for (txn, known) in &mut state.txns {
            let mut subtxns: Vec<_> =
                known.written.extract_if(.., |(unit, _)| *unit < first).map(|(_, id)| id).collect();
            if !subtxns.is_empty() && known.first_undo.is_some() {
                subtxns.sort_unstable();
                Record::Written { txn: *txn, subtxns }.encode(|pieces| ops.append(pieces));
            }
        }
    }
}

impl State {
    /// The oldest unit that has the only durable image of a page.
    fn first_needed(&mut self) -> Option<u64> {
        // The newest image of a page may be in a unit that is not durable yet; then the one before counts.
        while self.superseded.front().is_some_and(|(unit, _)| *unit < self.forced_unit) {
            self.superseded.pop_front();
        }
        let logged = self.by_age.first().map(|(unit, _)| *unit);
        let superseded = self.superseded.iter().map(|(_, oldest)| *oldest);
        self.placed.values().copied().chain(logged).chain(superseded).min()
    }

    /// Where the log begins that has this unit and all after it, but for those that were given up, and forgets where
    /// older ones begin. `end` is where the next one would.
    fn start_of(&mut self, unit: u64, end: impl Fn() -> Vec<Lsn>) -> UnitStart {
        if unit >= self.next_unit {
            self.units.clear();
        }
        while self.units.get(1).is_some_and(|start| start.unit <= unit) {
            self.units.pop_front();
        }
        let next = || UnitStart { unit: self.next_unit, at: end(), csn: self.logged_csn };
        self.units.front().map_or_else(next, UnitStart::clone)
    }
}

/// Bytes of room that the logs have beyond what is known to be written to them: for small subtransactions, and for
/// those that compensate others.
pub(super) const LOG_SPARE_BYTES: u64 = 256 << 10;
/// Bytes of it that maps leave to compensations.
const LOG_KEPT_FOR_UNDO_BYTES: u64 = LOG_SPARE_BYTES / 2;

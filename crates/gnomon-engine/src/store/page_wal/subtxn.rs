//! Subtransactions: transactions on pages. A page is locked shared when it is read and exclusively when it is
//! changed; the caller has the locks and decides when they end. A transaction that locks pages sees the changes of a
//! subtransaction only when that has ended. They are taken back if it does not end.
//!
//! The images from before stay in memory until then (no-steal), and what is written meanwhile are images from before.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    LoggedStore, Strategy, Undo,
    checkpoint::LOG_SPARE_BYTES,
    log::State,
    record::Record,
    reserve::compensation_bytes,
    sphere::{After, Ended, SphereId},
    trees::Light,
};
use crate::{
    Csn, Error, PageId, Result, TxnId,
    id::{Lsn, SubtxnId},
    lock::{LockOwner, WaitOptions, key_mode},
    page::{
        Page, PageKind, PageSize,
        pool::{PoolKey, ReadLatch, WriteLatch},
    },
    store::{PageGuard, PageRead, PageWrite},
    sync::atomic::Ordering,
};

/// A subtransaction that has not ended: what it has changed and read. It must come to its end by
/// [`LoggedStore::end`] or [`LoggedStore::abort`].
#[must_use]
pub struct Subtxn {
    pub(super) id: SubtxnId,
    pub(super) txn: TxnId,
    pages: RefCell<Pages>,
}

#[derive(Default)]
struct Pages {
    changed: BTreeMap<u64, Changed>,
    read: BTreeSet<u64>,
}

struct Changed {
    /// Image from before the change; none if this subtransaction made the page.
    before: Option<Page>,
    size: PageSize,
    freed: bool,
}

/// Reads and changes pages for a subtransaction, under locks of an owner.
pub struct PageAccess<'a> {
    store: &'a LoggedStore,
    subtxn: &'a Subtxn,
    owner: RefCell<&'a mut LockOwner>,
    wait: WaitOptions<'a>,
}

impl Subtxn {
    /// Its number.
    pub fn id(&self) -> SubtxnId {
        self.id
    }

    /// True if it has changed a page.
    pub fn has_changed(&self) -> bool {
        !self.pages.borrow().changed.is_empty()
    }

    /// Notes that a page is about to change.
    fn note_change(&self, store: &LoggedStore, latch: &WriteLatch, is_new: bool) {
        let page = latch.frame().key.index;
        let mut pages = self.pages.borrow_mut();
        if pages.changed.contains_key(&page) {
            return;
        }
        let before = (!is_new).then(|| latch.page().clone());
        let size = latch.page().size();
        pages.changed.insert(page, Changed { before, size, freed: false });
        store.log.state.lock().active.insert(page, self.id);
        latch.frame().dirty.store(true, Ordering::Release);
    }
}

impl LoggedStore {
    /// Begins a subtransaction. Writes pages to the log or to their places first if memory is short.
    ///
    /// # Errors
    /// [`DiskFull`](crate::Error::DiskFull) if the log could not take what is in memory.
    pub fn begin_subtxn(&self, txn: TxnId) -> Result<Subtxn> {
        drop(self.stay_open()?);
        match self.log.make_room() {
            Err(Error::DiskFull) => {
                // What is in the log and could be in its place may be all that is in the way.
                self.log.give_up_log(u64::MAX)?;
                self.log.make_room()?;
            }
            made => made?,
        }
        Ok(self.new_subtxn(txn))
    }

    /// Begins a subtransaction that takes another one back, whatever room there is.
    pub fn begin_compensation(&self, txn: TxnId) -> Result<Subtxn> {
        drop(self.stay_open()?);
        match self.log.ensure_log(0, 0).and_then(|()| self.log.make_room()) {
            // What is reserved is for the end: until then the pages stay in memory.
            Err(Error::DiskFull) => {}
            made => made?,
        }
        Ok(self.new_subtxn(txn))
    }

    fn new_subtxn(&self, txn: TxnId) -> Subtxn {
        Subtxn { id: SubtxnId(self.log.new_id()), txn, pages: RefCell::default() }
    }

    /// Sees to it that the log has room for a subtransaction that is larger than what is kept for small ones; takes it
    /// back if there is none.
    fn ensure_for(&self, subtxn: Subtxn, after: &[(u64, After)], undo: Undo<'_>) -> Result<Subtxn> {
        let mut bytes: u64 = after.iter().map(|(_, after)| after.bytes() as u64).sum();
        let undo_bytes = match undo {
            Undo::Operation(undo) => undo.len() as u64,
            Undo::Nothing => 0,
            // Its room is reserved.
            Undo::Compensates(_) => return Ok(subtxn),
        };
        if undo_bytes > 0 {
            bytes += compensation_bytes(after);
        }
        if bytes + undo_bytes <= LOG_SPARE_BYTES / 4 {
            return Ok(subtxn);
        }
        match self.log.ensure_log(bytes, undo_bytes) {
            Ok(()) => Ok(subtxn),
            Err(error) => {
                self.abort(subtxn)?;
                Err(error)
            }
        }
    }

    /// Access to pages for a subtransaction.
    pub fn access<'a>(
        &'a self,
        subtxn: &'a Subtxn,
        owner: &'a mut LockOwner,
        wait: WaitOptions<'a>,
    ) -> PageAccess<'a> {
        PageAccess { store: self, subtxn, owner: RefCell::new(owner), wait }
    }

    /// Ends a subtransaction (EOS): what it has changed stays, and others may build on it. Its page locks may be
    /// released then. With one level it is the transaction, and ends by [`LoggedStore::commit_whole`].
    pub fn end(&self, subtxn: Subtxn, undo: Undo<'_>) -> Result<()> {
        debug_assert!(self.log.strategy != Strategy::SingleLevel);
        if !subtxn.has_changed() {
            return Ok(());
        }
        let after = self.after(&subtxn)?;
        let subtxn = self.ensure_for(subtxn, &after, undo)?;
        let open = self.stay_open()?;
        let mut state = self.log.state.lock();
        let sphere = self.end_in(&mut state, subtxn, after, undo);
        drop(state);
        drop(open);
        if self.log.writes_at_eos() { self.log.write_spheres([sphere].into()) } else { Ok(()) }
    }

    /// Ends the subtransaction that is a whole transaction, and commits that (EOT). With a single level this is one
    /// step: there is no undo record, so its changes could not be undone in between.
    pub fn commit_whole(&self, subtxn: Subtxn) -> Result<Csn> {
        let txn = subtxn.txn;
        if self.log.strategy != Strategy::SingleLevel {
            self.end(subtxn, Undo::Nothing)?;
            return self.commit(txn);
        }
        let after = self.after(&subtxn)?;
        let subtxn = self.ensure_for(subtxn, &after, Undo::Nothing)?;
        let _open = self.stay_open()?;
        let mut state = self.log.state.lock();
        if subtxn.has_changed() {
            self.end_in(&mut state, subtxn, after, Undo::Nothing);
        }
        Ok(self.log.commit_in(&mut state, txn))
    }

    /// Returns the pages that a subtransaction has changed, as they are now, but for those of which nothing is left.
    fn after(&self, subtxn: &Subtxn) -> Result<Vec<(u64, After)>> {
        let mut after = Vec::new();
        for (page, changed) in &subtxn.pages.borrow().changed {
            match (changed.freed, &changed.before) {
                // Made and given back: nothing of it is anywhere.
                (true, None) => {}
                (true, Some(_)) => after.push((*page, After::Freed(changed.size))),
                (false, _) => after.push((*page, After::Image(self.image(*page)?))),
            }
        }
        Ok(after)
    }

    pub(super) fn end_in(
        &self,
        state: &mut State,
        subtxn: Subtxn,
        after: Vec<(u64, After)>,
        undo: Undo<'_>,
    ) -> SphereId {
        let Subtxn { id, txn, pages } = subtxn;
        let Pages { changed, read } = pages.into_inner();
        for (page, changed) in &changed {
            state.active.remove(page);
            if changed.freed {
                if let Some(pin) = self.log.pool.get(PoolKey { level: 0, index: *page }) {
                    pin.frame().dirty.store(false, Ordering::Release);
                    self.log.pool.remove(pin.frame());
                }
                if changed.before.is_none() {
                    state.space.untake(*page, changed.size);
                }
            }
        }
        if after.is_empty() {
            return id;
        }
        let undo_end = self.log_undo(state, txn, id, undo);
        let reserve = &mut state.txns.entry(txn).or_default().reserve;
        match undo {
            Undo::Nothing => {}
            Undo::Operation(_) => reserve.add(self.log.strategy, id, &after),
            Undo::Compensates(all) => reserve.remove(self.log.strategy, all),
        }
        state.spheres.end(Ended { id, txn, undo_end }, after, read)
    }

    /// Writes what takes a subtransaction back to the log of operations, in memory. Returns where it ends there.
    fn log_undo(&self, state: &mut State, txn: TxnId, subtxn: SubtxnId, undo: Undo<'_>) -> Lsn {
        let ops = self.log.logs.ops();
        let append = |record: Record<'_>| record.encode(|pieces| ops.append(pieces));
        let at = match undo {
            Undo::Nothing => None,
            Undo::Operation(undo) => Some(append(Record::Undo { txn, subtxn, undo })),
            Undo::Compensates(all) => {
                all.iter().map(|undoes| append(Record::Compensation { txn, subtxn, undoes: *undoes })).min()
            }
        };
        state.txns.entry(txn).or_default().note_end(at);
        ops.end()
    }

    /// The image of a page that a subtransaction has changed and locked: it is in memory.
    fn image(&self, page: u64) -> Result<Page> {
        loop {
            if let Some(latch) = self.log.data(PageId(page))?.read() {
                return Ok(Page::clone(&latch));
            }
        }
    }

    /// Latches a page exclusively for a subtransaction that has locked it, or is light.
    pub(super) fn latch_for<'a>(&'a self, subtxn: &'a Subtxn, id: PageId) -> Result<ChangedPage<'a>> {
        loop {
            if let Some(latch) = self.log.data(id)?.write() {
                return Ok(ChangedPage { store: self, subtxn, latch: Some(latch), keeper: None });
            }
        }
    }

    /// Makes a page for a subtransaction, which locks it by `lock`.
    pub(super) fn allocate_for<'a>(
        &'a self,
        subtxn: &'a Subtxn,
        kind: PageKind,
        size: PageSize,
        lock: impl FnOnce(PageId) -> Result<()>,
    ) -> Result<ChangedPage<'a>> {
        let page = self.log.take_page(size)?;
        // It is new to other transactions; the one that gave it back may hold the lock for a moment.
        if let Err(error) = lock(PageId(page)) {
            self.log.state.lock().space.untake(page, size);
            return Err(error);
        }
        let pin = self.log.pool.put(PoolKey { level: 0, index: page }, Page::sized(kind, size));
        let latch = pin.write().expect("it has just got an image");
        subtxn.note_change(self, &latch, true);
        Ok(ChangedPage { store: self, subtxn, latch: Some(latch), keeper: None })
    }

    /// Gives back a page that a subtransaction has latched.
    pub(super) fn free_for(&self, subtxn: &Subtxn, guard: ChangedPage<'_>) {
        subtxn.note_change(self, guard.latch(), false);
        let page = guard.id().0;
        if let Some(changed) = subtxn.pages.borrow_mut().changed.get_mut(&page) {
            changed.freed = true;
        }
    }

    /// Takes back the changes of a subtransaction to its only page, which no thread has seen since it is latched.
    pub(super) fn abort_latched(&self, subtxn: Subtxn, latch: &mut WriteLatch) {
        for (page, changed) in subtxn.pages.into_inner().changed {
            if let Some(before) = changed.before {
                latch.restore(before);
            }
            let mut state = self.log.state.lock();
            state.active.remove(&page);
            self.log.settle_frame(&state, page);
        }
    }

    /// Takes back what a subtransaction has changed, which then has never been.
    pub fn abort(&self, subtxn: Subtxn) -> Result<()> {
        let Pages { changed, .. } = subtxn.pages.into_inner();
        self.restore(&changed)?;
        for (page, changed) in changed {
            let mut state = self.log.state.lock();
            state.active.remove(&page);
            if changed.before.is_some() {
                self.log.settle_frame(&state, page);
                continue;
            }
            if let Some(pin) = self.log.pool.get(PoolKey { level: 0, index: page }) {
                pin.frame().dirty.store(false, Ordering::Release);
                self.log.pool.remove(pin.frame());
            }
            state.space.untake(page, changed.size);
        }
        Ok(())
    }

    /// Gives pages the images from before, all at once: a thread that goes from one to another under latches would
    /// otherwise follow a page to one that is no more. Which of them is latched first by others is not known, so none
    /// is waited for while others are held.
    fn restore(&self, changed: &BTreeMap<u64, Changed>) -> Result<()> {
        let before = || changed.iter().filter_map(|(page, changed)| Some((*page, changed.before.as_ref()?)));
        'again: loop {
            let mut latches = Vec::new();
            for (page, before) in before() {
                let Some(pin) = self.log.pool.get(PoolKey { level: 0, index: page }) else {
                    let error = self.log.places.corrupt(page, "an image that had changed is not in memory");
                    return Err(self.log.commits.poison(&error));
                };
                match pin.try_write() {
                    Some(latch) => latches.push((latch, before)),
                    None => {
                        // Until it is free, without any in hand.
                        drop(latches);
                        drop(
                            self.log.pool.get(PoolKey { level: 0, index: page }).and_then(|pin| pin.write()),
                        );
                        continue 'again;
                    }
                }
            }
            latches.iter_mut().for_each(|(latch, before)| latch.restore(Page::clone(before)));
            return Ok(());
        }
    }
}

impl PageAccess<'_> {
    fn lock(&self, page: PageId, mode: crate::lock::Mode) -> Result<()> {
        let mut owner = self.owner.borrow_mut();
        self.store.locks.lock(&mut owner, page, mode, &self.wait)
    }
}

impl PageRead for PageAccess<'_> {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.lock(id, key_mode::S)?;
        self.subtxn.pages.borrow_mut().read.insert(id.0);
        self.store.read(id)
    }
}

impl<'a> PageWrite for PageAccess<'a> {
    type WriteGuard = ChangedPage<'a>;

    fn write(&self, id: PageId) -> Result<ChangedPage<'a>> {
        self.lock(id, key_mode::X)?;
        self.subtxn.pages.borrow_mut().read.insert(id.0);
        self.store.latch_for(self.subtxn, id)
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<ChangedPage<'a>> {
        self.store.allocate_for(self.subtxn, kind, size, |page| self.lock(page, key_mode::X))
    }

    fn free(&self, guard: ChangedPage<'a>) -> Result<()> {
        self.store.free_for(self.subtxn, guard);
        Ok(())
    }
}

/// A page that a subtransaction has latched exclusively, and locked unless it is light (`trees.rs`).
pub struct ChangedPage<'a> {
    store: &'a LoggedStore,
    subtxn: &'a Subtxn,
    /// None when it is dropped.
    latch: Option<WriteLatch>,
    /// Gets the latch then, and the page is not locked.
    pub(super) keeper: Option<&'a RefCell<Light>>,
}

impl ChangedPage<'_> {
    fn latch(&self) -> &WriteLatch {
        self.latch.as_ref().expect("it has one until it is dropped")
    }
}

impl Drop for ChangedPage<'_> {
    fn drop(&mut self) {
        if let (Some(keeper), Some(latch)) = (self.keeper, self.latch.take()) {
            keeper.borrow_mut().keep(latch);
        }
    }
}

impl std::ops::Deref for ChangedPage<'_> {
    type Target = Page;
    fn deref(&self) -> &Page {
        self.latch().page()
    }
}

impl std::ops::DerefMut for ChangedPage<'_> {
    fn deref_mut(&mut self) -> &mut Page {
        self.subtxn.note_change(self.store, self.latch(), false);
        self.latch.as_mut().expect("it has one until it is dropped").page_mut()
    }
}

impl PageGuard for ChangedPage<'_> {
    fn id(&self) -> PageId {
        PageId(self.latch().frame().key.index)
    }
}

//! Private pages: the changes of one transaction on pages that no other transaction changes meanwhile (Shadows,
//! section 4.2: "it is free to use page-level updates for those pages covered by the lock").
//!
//! A transaction that has locked trees as a whole changes copies of their pages. It has a map of its own from logical
//! pages to these, in front of the page table, and a bounded cache; pages that do not fit are written to free space
//! early. No other transaction sees any of it: the page table does not change, a crash forgets them since no superblock
//! reaches them, and dropping [`PrivatePages`] gives their space and their numbers back. When the transaction
//! commits, its map joins the batch that is next ([`PageTxn::publish`]), whole, within one passage through the commit
//! gate.
//!
//! *Layers.* Changes after a savepoint go to a layer of their own, over those below, and can be dropped or
//! merged into one below. A tree's changes come in the order of layers; another tree may be changed in lower ones
//! later.
//!
//! *Memory.* The cache has as many pages as it is given; the map takes about 19 bytes a page where neighbours are
//! changed, and 300 where they are not.
//!
//! *Space* is reserved when pages are written, not before. There is no promise for what will be written later: a full
//! disk is an error of this transaction, which can give everything back.
//!
//! The caller must be alone with the trees whose pages it reads and changes, from the first read until the end. A
//! view is for one thread at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::shadow::{
    ShadowStore,
    allocator::{self, Purpose, space::Life},
    batcher::{PageTxn, When},
    page_table::{
        node::{self, PageEntry},
        place::Place,
    },
    words::Words,
};
use crate::{
    Error, Result,
    page::{PAGE_BYTES, Page, PageCounts, PageId, PageKind, PageSize, pool::PoolKey},
    store::{GroupCommit as _, PageGuard, PageRead, PageWrite, check_page_size},
    sync::{Arc, Mutex, atomic::Ordering},
};

/// The fewest pages that a cache has.
const CACHED_PAGES_MIN: usize = 8;
/// Number of pages that are written by `finish`, or released, at a time.
const SPACE_AT_ONCE: usize = 256;

/// The note of a layer about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// Where it was written; none if it is in the cache only, or freed.
    place: Option<Place>,
    size: PageSize,
    /// The layer took its number from the store.
    is_new: bool,
    is_freed: bool,
}

impl Note {
    const PRESENT: u128 = 1 << Place::WORD_BITS;
    const NEW: u128 = 2 << Place::WORD_BITS;
    const FREED: u128 = 4 << Place::WORD_BITS;
    const SIZE_AT: u32 = Place::WORD_BITS + 3;

    fn word(self) -> u128 {
        self.place.unwrap_or_default().word()
            | Note::PRESENT
            | u128::from(self.size.code()) << Note::SIZE_AT
            | if self.is_new { Note::NEW } else { 0 }
            | if self.is_freed { Note::FREED } else { 0 }
    }

    fn of(word: u128) -> Note {
        Note {
            place: Place::of_word(word).present(),
            size: PageSize::from_code((word >> Note::SIZE_AT) as u8 & 0xf).unwrap_or_default(),
            is_new: word & Note::NEW != 0,
            is_freed: word & Note::FREED != 0,
        }
    }
}

impl Note {
    /// Returns the entry that it will have in the page table when it is published with this batch.
    fn entry(self, batch: u64) -> Option<PageEntry> {
        Some(PageEntry { early: true, ..PageEntry::sized(self.place?, self.size, batch) })
    }
}

/// The changes since a savepoint.
#[derive(Default)]
struct Layer(Words);

impl Layer {
    fn get(&self, logical: u64) -> Option<Note> {
        self.0.get(logical).map(Note::of)
    }

    fn set(&mut self, logical: u64, note: Note) {
        self.0.insert(logical, note.word());
    }

    fn notes(&self) -> impl Iterator<Item = (u64, Note)> {
        self.0.iter().map(|(logical, word)| (logical, Note::of(word)))
    }
}

struct Cached {
    /// None while it is latched exclusively.
    page: Option<Page>,
    size: PageSize,
    /// It is nowhere else.
    dirty: bool,
    recent: bool,
}

/// Pages in memory, by layer and logical number.
#[derive(Default)]
struct Cache {
    pages: BTreeMap<(u64, u64), Cached>,
    /// Number of pages; a large one counts as often as it has the default size.
    count: usize,
}

impl Cache {
    fn weight(size: PageSize) -> usize {
        (size.bytes() / PAGE_BYTES).max(1)
    }

    fn insert(&mut self, key: (u64, u64), cached: Cached) {
        self.remove(key);
        self.count += Cache::weight(cached.size);
        self.pages.insert(key, cached);
    }

    fn remove(&mut self, key: (u64, u64)) -> Option<Cached> {
        let cached = self.pages.remove(&key)?;
        self.count -= Cache::weight(cached.size);
        Some(cached)
    }

    fn get_mut(&mut self, key: (u64, u64)) -> Option<&mut Cached> {
        self.pages.get_mut(&key)
    }
}

struct State {
    /// By their numbers; the lowest is zero. Layers are made when they are written to.
    layers: BTreeMap<u64, Layer>,
    /// The layer that is changed.
    current: u64,
    cached: Cache,
    /// Where looking for pages to evict goes on.
    hand: (u64, u64),
}

impl State {
    fn current(&mut self) -> &mut Layer {
        self.layers.entry(self.current).or_default()
    }

    /// Returns the uppermost layer with a note about a page, and the note.
    fn find(&self, logical: u64) -> Option<(u64, Note)> {
        let layers = self.layers.iter().rev();
        layers.filter_map(|(number, layer)| Some((*number, layer.get(logical)?))).next()
    }
}

/// The pages that a transaction has changed, and a view of the store as they make it.
pub(crate) struct PrivatePages {
    store: Arc<ShadowStore>,
    cached_max: usize,
    state: Mutex<State>,
}

impl PrivatePages {
    /// Returns a view in which nothing is changed yet, with about `cached_max` pages in memory at most.
    pub fn new(store: &Arc<ShadowStore>, cached_max: usize) -> PrivatePages {
        store.snapshots.private_views.fetch_add(1, Ordering::AcqRel);
        PrivatePages {
            store: store.clone(),
            cached_max: cached_max.max(CACHED_PAGES_MIN),
            state: Mutex::new(State {
                layers: BTreeMap::new(),
                current: 0,
                cached: Cache::default(),
                hand: (0, 0),
            }),
        }
    }

    /// Returns the number of pages that it has changed, at most, and of those that it has in memory, of which a large
    /// one counts as often as it has the default size.
    pub fn len(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.layers.values().map(|layer| layer.0.len()).sum(), state.cached.count)
    }

    /// Returns the memory that its map takes, about, in bytes.
    pub fn map_bytes(&self) -> usize {
        self.state.lock().layers.values().map(|layer| layer.0.bytes()).sum()
    }

    /// Returns the number of the uppermost layer that something was changed in; zero for the lowest.
    pub fn uppermost(&self) -> u64 {
        self.state.lock().layers.keys().next_back().copied().unwrap_or_default()
    }

    /// Makes changes go to the layer `number` from now on. No layer above it may have pages of the trees that are
    /// changed.
    pub fn change_in(&self, number: u64) {
        self.state.lock().current = number;
    }

    /// Undoes all changes in layers from `number` on.
    pub fn drop_layers(&self, number: u64) {
        let mut state = self.state.lock();
        let upper: Vec<(u64, u64)> = state.cached.pages.range((number, 0)..).map(|(key, _)| *key).collect();
        upper.into_iter().for_each(|key| _ = state.cached.remove(key));
        for layer in state.layers.split_off(&number).into_values() {
            self.give_back(layer);
        }
    }

    /// Makes the changes in layers from `number` on changes of the layer `into`, which is below.
    pub fn merge_layers(&self, number: u64, into: u64) {
        let mut state = self.state.lock();
        let upper = state.layers.split_off(&number);
        let mut below = state.layers.remove(&into).unwrap_or_default();
        for (number, layer) in upper {
            self.merge(&mut state, &mut below, into, number, layer);
        }
        state.layers.insert(into, below);
    }

    /// Merges layer `number` into the one below it.
    fn merge(&self, state: &mut State, below: &mut Layer, into: u64, number: u64, layer: Layer) {
        let (mut released, mut numbers) = (Vec::new(), Vec::new());
        for (logical, note) in layer.notes() {
            let before = below.get(logical).filter(|before| !before.is_freed);
            if let Some(before) = before {
                released.extend(before.entry(0));
                state.cached.remove((into, logical));
            }
            let is_new = before.map_or(note.is_new, |before| before.is_new);
            if note.is_freed && is_new {
                below.0.remove(logical);
                numbers.push(logical);
            } else {
                below.set(logical, Note { is_new, ..note });
            }
            if let Some(cached) = state.cached.remove((number, logical)) {
                state.cached.insert((into, logical), cached);
            }
        }
        self.release(&released);
        numbers.into_iter().for_each(|number| self.store.table.free_logical(number));
    }

    /// Writes everything that is only in memory, so that it may be published. Makes one layer of all.
    pub fn finish(&self) -> Result<()> {
        self.merge_layers(1, 0);
        let mut state = self.state.lock();
        let dirty = state.cached.pages.iter().filter(|(_, cached)| cached.dirty);
        let dirty: Vec<(u64, u64)> = dirty.map(|(key, _)| *key).collect();
        // As many at a time as fit well into one reservation.
        dirty.chunks(SPACE_AT_ONCE).try_for_each(|some| self.write_out(&mut state, some))
    }

    /// Returns the blocks that are to be reserved for the batch that publishes it: nodes of the page table and
    /// bitmaps, at most. The pages themselves have their places.
    pub(in crate::store::shadow) fn standing(&self) -> u64 {
        let pages = self.len().0 as u64;
        let logical_end = self.store.table.logical_end();
        pages.min(allocator::nodes(logical_end)) + pages / node::FANOUT
    }

    /// Gives back the space and the numbers of a layer that is dropped.
    fn give_back(&self, layer: Layer) {
        let released: Vec<PageEntry> = layer.notes().filter_map(|(_, note)| note.entry(0)).collect();
        self.release(&released);
        layer
            .notes()
            .filter(|(_, note)| note.is_new)
            .for_each(|(logical, _)| self.store.table.free_logical(logical));
    }

    fn release(&self, pages: &[PageEntry]) {
        for some in pages.chunks(SPACE_AT_ONCE) {
            self.store.allocator.release(some.iter().copied());
        }
        if !pages.is_empty() {
            self.store.allocator.note_cleaning();
        }
    }

    /// Evicts pages if there are too many in memory.
    fn make_room(&self, state: &mut State) -> Result<()> {
        self.store.check()?;
        if state.cached.count < self.cached_max {
            return Ok(());
        }
        let wanted = state.cached.count - self.cached_max * 3 / 4;
        let mut chosen = BTreeSet::new();
        let mut count = 0;
        // Twice round at most, with a turn at each end: once to take second chances away.
        for _ in 0..2 * (state.cached.pages.len() + 1) {
            let next = state.cached.pages.range_mut(state.hand..).next();
            let Some((&key, cached)) = next else {
                state.hand = (0, 0);
                continue;
            };
            state.hand = (key.0, key.1 + 1);
            if cached.page.is_none() || std::mem::take(&mut cached.recent) {
                continue;
            }
            if chosen.insert(key) {
                count += Cache::weight(cached.size);
            }
            if count >= wanted {
                break;
            }
        }
        let (dirty, clean): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|key| state.cached.pages[key].dirty);
        for key in clean {
            state.cached.remove(key);
        }
        self.write_out(state, &dirty)?;
        for key in dirty {
            state.cached.remove(key);
        }
        Ok(())
    }

    /// Writes cached pages to free space.
    fn write_out(&self, state: &mut State, keys: &[(u64, u64)]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let store = &self.store;
        let mut keys: Vec<(PageSize, (u64, u64))> =
            keys.iter().map(|key| (state.cached.pages[key].size, *key)).collect();
        // By size, so that each size gets its places together.
        keys.sort_unstable();
        let mut wanted = PageCounts::default();
        keys.iter().for_each(|(size, _)| wanted[*size] += 1);
        store.allocator.reserve_space(Purpose::Use, &wanted)?;
        let mut reserved = wanted;
        let mut places: Vec<PageEntry> = Vec::with_capacity(keys.len());
        let taken = wanted.iter().try_for_each(|(size, count)| {
            let found = store.allocator.take_places(size, count, Life::Long, &mut reserved)?;
            places.extend(found.into_iter().map(|place| PageEntry::sized(place, size, 0)));
            Ok(())
        });
        store.allocator.unreserve(&reserved);
        if let Err(error) = taken {
            store.allocator.release(places);
            return Err(error);
        }
        let batch = store.batcher.next_batch();
        let pages = keys.iter().zip(&places).filter_map(|((_, key), at)| {
            let page = state.cached.pages.get(key)?.page.clone()?;
            Some((at.place, PoolKey { level: 0, index: key.1 }, page))
        });
        let pages: Vec<_> = pages.collect();
        let written = store.batcher.write_pages(batch, When::BeforeBatch, &pages, |_, _| Ok(()));
        written.map_err(|error| store.poison(&error))?;
        for ((size, key), at) in keys.into_iter().zip(places) {
            let layer = state.layers.entry(key.0).or_default();
            let is_new = layer.get(key.1).is_some_and(|note| note.is_new);
            layer.set(key.1, Note { place: Some(at.place), size, is_new, is_freed: false });
            if let Some(cached) = state.cached.get_mut(key) {
                cached.dirty = false;
            }
        }
        Ok(())
    }

    /// Returns the image of a page as this view has it, and true if the layer that is changed has it in memory.
    fn image(&self, state: &mut State, id: PageId) -> Result<(Page, bool)> {
        let Some((layer, note)) = state.find(id.0) else {
            return Ok((Page::clone(&*self.store.read(id)?), false));
        };
        let is_current = layer == state.current;
        if let Some(cached) = state.cached.get_mut((layer, id.0)) {
            cached.recent = true;
            let page = cached.page.clone();
            return Ok((page.ok_or_else(|| self.damaged(id, "is reached twice"))?, is_current));
        }
        let batch = self.store.batcher.next_batch();
        let Some(entry) = note.entry(batch).filter(|_| !note.is_freed) else {
            return Err(self.damaged(id, "is pointed to, but was freed"));
        };
        match self.make_room(state) {
            // To read needs no space.
            Ok(()) | Err(Error::DiskFull) => {}
            Err(error) => return Err(error),
        }
        let page = self.store.mirror.read_page(0, id.0, entry)?;
        let cached = Cached { page: Some(page.clone()), size: page.size(), dirty: false, recent: true };
        state.cached.insert((layer, id.0), cached);
        Ok((page, is_current))
    }

    fn damaged(&self, id: PageId, what: &str) -> Error {
        self.store.mirror.corrupt(0, format!("logical page {id} {what}"))
    }

    /// Takes a page back when its exclusive latch is released.
    fn put_back(&self, id: u64, page: Page, changed: bool) {
        let mut state = self.state.lock();
        let current = state.current;
        if !changed {
            if let Some(cached) = state.cached.get_mut((current, id)) {
                cached.page = Some(page);
            }
            return;
        }
        let before = state.current().get(id);
        self.release(before.and_then(|note| note.entry(0)).as_slice());
        let is_new = before.is_some_and(|note| note.is_new);
        let size = page.size();
        state.current().set(id, Note { place: None, size, is_new, is_freed: false });
        state.cached.insert((current, id), Cached { page: Some(page), size, dirty: true, recent: true });
    }

    fn free_page(&self, id: u64) {
        let mut state = self.state.lock();
        let current = state.current;
        let before = state.current().get(id);
        state.cached.remove((current, id));
        self.release(before.and_then(|note| note.entry(0)).as_slice());
        if before.is_some_and(|note| note.is_new) {
            state.current().0.remove(id);
            self.store.table.free_logical(id);
        } else {
            let size = PageSize::default();
            state.current().set(id, Note { place: None, size, is_new: false, is_freed: true });
        }
    }
}

impl Drop for PrivatePages {
    fn drop(&mut self) {
        let layers = std::mem::take(&mut self.state.lock().layers);
        layers.into_values().for_each(|layer| self.give_back(layer));
        self.store.snapshots.private_views.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An image of a page of a private view.
pub(crate) struct PrivatePage(Page);

impl std::ops::Deref for PrivatePage {
    type Target = Page;
    fn deref(&self) -> &Page {
        &self.0
    }
}

/// A page of a private view, latched exclusively.
pub(crate) struct PrivateMut<'a> {
    pages: &'a PrivatePages,
    id: u64,
    /// None if it was given back.
    page: Option<Page>,
    changed: bool,
}

impl std::ops::Deref for PrivateMut<'_> {
    type Target = Page;
    fn deref(&self) -> &Page {
        self.page.as_ref().expect("it is there until the guard goes")
    }
}

impl std::ops::DerefMut for PrivateMut<'_> {
    fn deref_mut(&mut self) -> &mut Page {
        self.changed = true;
        self.page.as_mut().expect("it is there until the guard goes")
    }
}

impl PageGuard for PrivateMut<'_> {
    fn id(&self) -> PageId {
        PageId(self.id)
    }
}

impl Drop for PrivateMut<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.pages.put_back(self.id, page, self.changed);
        }
    }
}

impl PageRead for PrivatePages {
    type ReadGuard = PrivatePage;

    fn read(&self, id: PageId) -> Result<PrivatePage> {
        Ok(PrivatePage(self.image(&mut self.state.lock(), id)?.0))
    }
}

impl<'a> PageWrite for &'a PrivatePages {
    type WriteGuard = PrivateMut<'a>;

    fn write(&self, id: PageId) -> Result<PrivateMut<'a>> {
        let mut state = self.state.lock();
        self.make_room(&mut state)?;
        let (page, is_current) = self.image(&mut state, id)?;
        if is_current {
            // Taken out, so that it is changed and not a copy of it.
            let current = state.current;
            if let Some(cached) = state.cached.get_mut((current, id.0)) {
                cached.page = None;
            }
        }
        Ok(PrivateMut { pages: self, id: id.0, page: Some(page), changed: false })
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<PrivateMut<'a>> {
        check_page_size(self.store.unit(), size)?;
        let mut state = self.state.lock();
        self.make_room(&mut state)?;
        let id = self.store.table.allocate_logical()?;
        state.current().set(id, Note { place: None, size, is_new: true, is_freed: false });
        Ok(PrivateMut { pages: self, id, page: Some(Page::sized(kind, size)), changed: true })
    }

    fn free(&self, mut guard: PrivateMut<'a>) -> Result<()> {
        guard.page = None;
        self.free_page(guard.id);
        Ok(())
    }
}

impl PageRead for &PrivatePages {
    type ReadGuard = PrivatePage;

    fn read(&self, id: PageId) -> Result<PrivatePage> {
        (*self).read(id)
    }
}

impl PageTxn<'_> {
    /// Makes private pages, which were [finished](PrivatePages::finish), part of this page transaction. They replace
    /// the pages of the same numbers, which no other transaction may change meanwhile.
    ///
    /// A reader of these pages at the same time may find some old ones and some new ones.
    pub fn publish(&self, private: PrivatePages) {
        // And once more at the end: a reader that looks at the count in between has found pages of either kind.
        self.note_restructured();
        let layers = std::mem::take(&mut private.state.lock().layers);
        let notes = || layers.values().flat_map(Layer::notes);
        self.replace_pages(notes().map(|(logical, note)| (logical, note.entry(0))));
        let freed = notes().filter(|(_, note)| note.is_freed);
        freed.for_each(|(logical, _)| private.store.table.free_logical(logical));
        self.note_restructured();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;

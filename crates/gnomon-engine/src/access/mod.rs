//! Access methods: plain algorithms over page transactions. Here, the B+tree.
//!
//! A [`Tree`] is an ordered map from keys to values, in pages of a store. It promises that every call sees and leaves
//! a correct tree, whatever other threads do to it meanwhile, and that damaged pages make errors and nothing worse.
//! It knows nothing of transactions, locks, versions and recovery: the levels above and below decide what a caller
//! may change, which transactions see it when, and whether it survives.
//!
//! Every tree is a B+tree: there is no trait of access methods. Cursors, gap locks and the replay of logs rely on the
//! order of keys. An unordered index of SQL would be a tree whose keys are hashes.
//!
//! # Shape
//!
//! The root's page number never changes: a root that is full moves its contents into a child and grows by a
//! level, a root with one child takes its contents over and shrinks. Inner nodes hold separators, the shortest
//! that tell two leaves apart. Values that do not fit a third of a leaf beside their key are kept in chains of
//! overflow pages, which are as large as fits the value. All nodes of a tree have the size of its root. Leaves do
//! not point to each other: a scan goes from leaf to leaf by fences, the separators to both sides of its path, which
//! it hands to the next [`Tree::leaf`] or [`Tree::leaf_near`]. So a split or merge changes two children and their
//! parent, and nothing else.
//!
//! # Latches
//!
//! Lock coupling after Bayer and Schkolnick (1977). There are three ways down from the root:
//!
//! - A reader latches shared, the child before it releases the parent.
//! - An [`update`](Tree::update) does the same and latches the leaf exclusively, in the hope that no other page
//!   must change. An inner node knows its level, so the parent of a leaf knows that its child is one.
//! - If the leaf turns out too full or too empty, the update goes down once more and latches exclusively from the
//!   root. It splits every node that could not take one more separator, or merges every node that could not lose
//!   one, before it goes below it. Then nothing that happens below reaches above the parent, and so a node is
//!   released as soon as its child is in order. Between the two descents anything may have happened; the second
//!   looks again, and finds the leaf split or filled up by others at worst.
//!
//! Three ways are shorter. A leaf that was found before is latched where it was ([`Place`]), if nothing was split or
//! merged since, for the same key or for one that it covers as well ([`Reach`]); a scan latches the next leaf where an
//! image of the parent has it, on the same condition ([`Tree::leaf_near`]); and a leaf that an update has latched stays
//! so for the next key, if it covers that ([`HeldLeaf`]). It is let go of before any other page is latched.
//!
//! There is no deadlock. Within a tree a thread waits for a latch only while it holds latches above it or, under the
//! same parent, to its left; and that parent it holds exclusively. "Above, and left before right" is a strict order
//! of the pages at any time, and a change of the order (split, merge, growth, shrinking) concerns only pages that are
//! latched exclusively by one thread, or are not reachable by others yet. No other thread waits for a new page.
//! Overflow pages are latched singly, last, and by threads that hold their leaf, or alone own the chain. A closure
//! that is called under a latch must take no other, nor must the holder of a [`LatchedEntry`].
//!
//! A damaged pointer may lead to a page that the thread holds already; every descent checks that. It may also
//! lead into the path of another thread, but levels that do not fit are refused after one step.

mod build;
mod check;
mod directory;
mod extent;
mod key;
mod layout;
mod leaf;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod memory;
mod overflow;
mod range;
mod reclaim;
mod restructure;
#[cfg(test)]
mod tests;

pub(crate) use build::Build;
pub(crate) use directory::{
    Directory, DirectoryEntry, Listed, RESERVED_NUMBERS, StoredProcedure, directory_damage,
};
pub use directory::{Placement, TreeOptions};
pub use extent::Extent;
pub(crate) use key::{Key, KeyBytes};
pub(crate) use layout::EntryPlace;
pub use leaf::{LeafView, Seek, Value};
pub(crate) use range::{Bounds, as_slice, is_above, is_below, is_empty};
pub use range::{Direction, KeyRange};

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::{
    Error, PageId, Result, VALUE_BYTES_MAX,
    page::{Page, PageCounts, PageKind, PageSize},
    store::{PageGuard, PageRead, PageWrite},
};
use layout::{At, Chain, Flaw, Leaf, Node, Shape, Stored};

/// A B+tree: an ordered map from keys (bytes, up to [`Tree::key_bytes_max`]) to values (up to [`VALUE_BYTES_MAX`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    root: PageId,
    size: PageSize,
}

/// A change of an entry ([`Tree::update`], [`LatchedEntry::change`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'v> {
    /// Gives the key this value.
    Put(Cow<'v, [u8]>),
    /// Removes the entry, if there is one.
    Delete,
    /// Leaves the entry as it is, or absent.
    Keep,
}

/// The entry of a key, or the place for one, in its leaf, which is latched exclusively: as long as it is there, its
/// holder must neither wait nor touch pages ([`Tree::entry`]).
pub struct LatchedEntry<'a, P: PageWrite> {
    tree: Tree,
    pages: &'a P,
    key: &'a [u8],
    guard: P::WriteGuard,
    position: Result<usize, usize>,
}

/// A leaf that stays latched exclusively while keys in ascending order are changed ([`Tree::update_next`]).
pub struct HeldLeaf<G> {
    guard: Option<G>,
    upper: Upper,
}

/// The upper bound of a leaf. Only a thread that has the leaf latched changes it: leaves end elsewhere only when they
/// are split or merged.
#[derive(Clone, Debug, Default)]
enum Upper {
    /// Not known: the leaf was found again, without a search.
    #[default]
    Unknown,
    /// The leaf ends before this key; none if it has no bound.
    Known(Option<Fence>),
}

/// A separator that bounds a leaf; mostly short.
type Fence = SmallVec<[u8; 16]>;

impl<G> Default for HeldLeaf<G> {
    fn default() -> Self {
        HeldLeaf { guard: None, upper: Upper::Unknown }
    }
}

impl<G: PageGuard> HeldLeaf<G> {
    /// Lets go of the leaf.
    pub fn release(&mut self) {
        self.guard = None;
    }

    /// The leaf if it covers a key, which is not below those before and was found at `place`, if that is known, in a
    /// store whose count is `restructured` now. It is let go of otherwise.
    fn take(&mut self, key: &[u8], place: Option<Place>, restructured: Option<u64>) -> Option<G> {
        let guard = self.guard.take()?;
        let covers = match &self.upper {
            Upper::Known(upper) => upper.as_deref().is_none_or(|upper| key < upper),
            Upper::Unknown => place
                .is_some_and(|place| place.leaf == guard.id() && restructured == Some(place.restructured)),
        };
        covers.then_some(guard)
    }
}

/// Where a leaf was that covers a key. It is used for that key only; where leaves were split or merged meanwhile, the
/// leaf is looked for again.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    leaf: PageId,
    /// The store's count when the search began. What has changed the leaf's range since then is counted by the time at
    /// which the leaf can be latched again.
    restructured: u64,
}

impl Place {
    /// The leaf.
    pub fn leaf(&self) -> PageId {
        self.leaf
    }
}

/// A search for a key: where it begins, and what it has come to.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Where the key was, or would have been.
    place: Option<Place>,
    upper: Upper,
}

impl Search {
    /// One that looks at a place first, if that is known.
    pub fn at(place: Option<Place>) -> Search {
        Search { place, upper: Upper::Unknown }
    }

    /// Where the key was, or would have been, when it was looked for last.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The leaf that covers `key`, which was looked for, for searches of others; if it is known where the leaf ends.
    pub fn reach(self, key: &[u8]) -> Option<Reach> {
        match self {
            Search { place: Some(place), upper: Upper::Known(before) } => {
                Some(Reach { place, from: SmallVec::from_slice(key), before })
            }
            _ => None,
        }
    }
}

/// A leaf, and what it covers from a key on that was looked for.
#[derive(Clone, Debug)]
pub struct Reach {
    place: Place,
    from: Fence,
    before: Option<Fence>,
}

impl Reach {
    /// Where a key is, or would be, if it is within reach.
    pub fn place(&self, key: &[u8]) -> Option<Place> {
        let reaches = *self.from <= *key && self.before.as_deref().is_none_or(|before| key < before);
        reaches.then_some(self.place)
    }
}

/// The longest key of a tree with nodes of this size, in bytes: a quarter of a node, up to
/// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
pub fn key_bytes_max(size: PageSize) -> usize {
    layout::key_bytes_max(size)
}

/// The longest value that a leaf of a tree with nodes of `size` holds beside a key of that length, in bytes.
pub fn inline_bytes_max(size: PageSize, key_bytes: usize) -> usize {
    Shape::of(size).inline_bytes_max(key_bytes)
}

/// Where an entry with a key and a value of these lengths (bytes) goes in a tree with nodes of `size`: returns the
/// bytes of its leaf, and adds the pages beside it, of which none is larger than `part_max`
/// ([`PageWrite::part_size_max`]).
pub fn room_for(
    size: PageSize,
    part_max: PageSize,
    key_bytes: usize,
    value_bytes: usize,
    beside: &mut PageCounts,
) -> usize {
    let shape = Shape::of(size);
    if !shape.is_inline(key_bytes, value_bytes) {
        layout::parts(value_bytes, size, part_max).for_each(|(size, _)| beside[size] += 1);
    }
    shape.entry_bytes(key_bytes, value_bytes)
}

impl Tree {
    /// Makes an empty tree with nodes of `size`.
    pub fn create<P: PageWrite>(pages: &P, size: PageSize) -> Result<Tree> {
        let mut root = pages.allocate(PageKind::TreeLeaf, size)?;
        layout::init_leaf(&mut root);
        Ok(Tree { root: root.id(), size })
    }

    /// The tree with this root, which has nodes of `size`. Nothing is read yet.
    pub fn open(root: PageId, size: PageSize) -> Tree {
        Tree { root, size }
    }

    /// The root's page, which stays the same as long as the tree exists.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The size of its nodes.
    pub fn size(&self) -> PageSize {
        self.size
    }

    /// The longest key, in bytes.
    pub fn key_bytes_max(&self) -> usize {
        key_bytes_max(self.size)
    }

    /// The value of a key.
    pub fn get<P: PageRead>(&self, pages: &P, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_at(pages, key, &mut Search::default())
    }

    /// The value of a key. Looks where it was found before, and tells where it is now.
    pub fn get_at<P: PageRead>(&self, pages: &P, key: &[u8], search: &mut Search) -> Result<Option<Vec<u8>>> {
        let (guard, leaf_id) = self.leaf_at(pages, key, search)?;
        let leaf = parse_leaf(&guard).at(leaf_id)?;
        let Ok(index) = leaf.search(key).at(leaf_id)? else { return Ok(None) };
        match leaf.entry(index).at(leaf_id)?.1 {
            Stored::Inline(value) => Ok(Some(value.to_vec())),
            // The leaf stays latched: without it the chain could be freed.
            Stored::Large(chain) => overflow::read(pages, leaf_id, chain).map(Some),
        }
    }

    /// Returns true if there is an entry of a key. Notes in `search` where it is, or would be.
    pub fn contains<P: PageRead>(&self, pages: &P, key: &[u8], search: &mut Search) -> Result<bool> {
        let (guard, leaf_id) = self.leaf_at(pages, key, search)?;
        parse_leaf(&guard).and_then(|leaf| leaf.search(key)).at(leaf_id).map(|found| found.is_ok())
    }

    /// Reads the leaf that covers a key and returns its page. Tells where the key is, or would be.
    pub fn locate<P: PageRead>(&self, pages: &P, key: &[u8], search: &mut Search) -> Result<PageId> {
        self.leaf_at(pages, key, search).map(|(_, leaf)| leaf)
    }

    /// The leaf that covers a key, latched shared: where it was before, or by a search, which says where.
    fn leaf_at<P: PageRead>(
        &self,
        pages: &P,
        key: &[u8],
        search: &mut Search,
    ) -> Result<(P::ReadGuard, PageId)> {
        if let Some(Place { leaf, restructured }) = search.place
            && let Some(guard) = pages.read_again(leaf, restructured)
        {
            return Ok((guard, leaf));
        }
        let restructured = pages.restructured();
        let mut upper = None;
        let (guard, leaf) = self.descend(pages, |_, _, inner| {
            let index = inner.covering(key)?;
            if index + 1 < inner.count() {
                set_fence(&mut upper, inner.separator(index + 1)?);
            }
            Ok(index)
        })?;
        search.place = restructured.map(|restructured| Place { leaf, restructured });
        search.upper = Upper::Known(upper);
        Ok((guard, leaf))
    }

    /// Prefetches the nodes that lead to keys, as far as they are in memory, and notes the leaf of each key in
    /// `found`, which has as many elements as there are keys; none where it is not known. A hint: damaged, missing or
    /// meanwhile changed pages are left to the calls that read the keys.
    ///
    /// All searches go down together, a level at a time, so that the nodes for one are fetched while the others go on
    /// (group prefetching; Chen, Ailamaki, Gibbons and Mowry 2004: "Improving Hash Join Performance through
    /// Prefetching"). There is no lock coupling, since a page tells nothing once anything was split or merged; and no
    /// latch is waited for.
    pub fn prefetch<P: PageRead>(&self, pages: &P, keys: &[impl AsRef<[u8]>], found: &mut [Option<Place>]) {
        let Some(restructured) = pages.restructured() else { return };
        let searches = found.iter_mut().zip(keys);
        let mut searches: Vec<_> = searches.map(|(found, key)| (found, key.as_ref(), self.root)).collect();
        let (mut ids, mut guards) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        let mut level = None;
        while !searches.is_empty() {
            ids.clear();
            ids.extend(searches.iter().map(|(.., id)| *id));
            // Neighbours are often on one page.
            ids.dedup();
            pages.try_read_all(&ids, &mut guards);
            // Behind the latches: a thread that changes the range of one of the pages counts that before it releases
            // the latch.
            if pages.restructured() != Some(restructured) {
                return;
            }
            let (mut at, mut child_level) = (0, None);
            searches.retain_mut(|(found, key, id)| {
                at += usize::from(ids[at] != *id);
                let Some(guard) = &guards[at] else { return false };
                match self.parse(guard, level) {
                    Ok(Node::Inner(inner)) => {
                        child_level = Some(inner.child_level());
                        let child = inner.covering(key).and_then(|index| inner.child(index));
                        child.map(|child| *id = child).is_ok()
                    }
                    Ok(Node::Leaf(leaf)) => {
                        leaf.prefetch(key);
                        **found = Some(Place { leaf: *id, restructured });
                        false
                    }
                    Err(_) => false,
                }
            });
            level = child_level;
            guards.clear();
        }
    }

    /// Changes the entry of one key.
    ///
    /// `f` is called exactly once (unless an error comes first), with the present value, under the leaf's exclusive
    /// latch and before any page is changed; it must neither wait nor touch pages. The change that it returns is made
    /// as by [`LatchedEntry::change`].
    ///
    /// Errors: [`Error::KeyTooLong`] before `f`, those of [`LatchedEntry::change`] after it.
    pub fn update<'v, P: PageWrite>(
        &self,
        pages: &P,
        key: &[u8],
        f: &mut dyn FnMut(Option<&[u8]>) -> Change<'v>,
    ) -> Result<()> {
        let entry = self.entry(pages, key, None)?;
        let change = f(entry.value()?.as_deref());
        entry.change(change)
    }

    /// As [`Tree::update`], of keys in ascending order, which may have been found before: their leaf stays latched for
    /// those after them that it covers. Nothing else of the store may be latched before `held` is dropped, and no lock
    /// that others take before a latch.
    pub fn update_next<'v, P: PageWrite>(
        &self,
        pages: &P,
        key: &[u8],
        place: Option<Place>,
        held: &mut HeldLeaf<P::WriteGuard>,
        f: &mut dyn FnMut(Option<&[u8]>) -> Change<'v>,
    ) -> Result<()> {
        let entry = self.latch_entry(pages, key, place, Some(held))?;
        let change = f(entry.value()?.as_deref());
        held.guard = entry.change_held(change)?;
        Ok(())
    }

    /// Latches the entry of a key, whose leaf may have been found before.
    ///
    /// Errors: [`Error::KeyTooLong`].
    pub fn entry<'a, P: PageWrite>(
        &self,
        pages: &'a P,
        key: &'a [u8],
        place: Option<Place>,
    ) -> Result<LatchedEntry<'a, P>> {
        self.latch_entry(pages, key, place, None)
    }

    fn latch_entry<'a, P: PageWrite>(
        &self,
        pages: &'a P,
        key: &'a [u8],
        place: Option<Place>,
        mut held: Option<&mut HeldLeaf<P::WriteGuard>>,
    ) -> Result<LatchedEntry<'a, P>> {
        if key.len() > self.key_bytes_max() {
            return Err(Error::KeyTooLong { bytes: key.len(), max: self.key_bytes_max() });
        }
        let kept = held.as_mut().and_then(|held| held.take(key, place, pages.restructured()));
        let guard = match kept {
            Some(guard) => guard,
            None => {
                let mut upper = Upper::Unknown;
                let found = place.and_then(|place| pages.write_again(place.leaf, place.restructured));
                let guard = match (found, &held) {
                    (Some(guard), _) => guard,
                    (None, None) => self.latch_leaf(pages, key, None)?,
                    (None, Some(_)) => {
                        let mut fence = None;
                        let guard = self.latch_leaf(pages, key, Some(&mut fence))?;
                        upper = Upper::Known(fence);
                        guard
                    }
                };
                if let Some(held) = held {
                    held.upper = upper;
                }
                guard
            }
        };
        let position = parse_leaf(&guard).and_then(|leaf| leaf.search(key)).at(guard.id())?;
        Ok(LatchedEntry { tree: *self, pages, key, guard, position })
    }

    /// Puts an entry into its leaf, which is latched, or by a second descent into what becomes of it. Returns the leaf
    /// if it is as it was otherwise.
    fn put<P: PageWrite>(
        &self,
        pages: &P,
        key: &[u8],
        value: Stored<'_>,
        mut guard: P::WriteGuard,
        position: Result<usize, usize>,
    ) -> Result<Option<P::WriteGuard>> {
        let leaf_id = guard.id();
        let leaf = parse_leaf(&guard).at(leaf_id)?;
        if leaf.has_room(position, key, value).at(leaf_id)? {
            let old = replaced(leaf, position).at(leaf_id)?;
            let used_before = leaf.used();
            layout::put_entry(&mut guard, position, key, value).at(leaf_id)?;
            return self.finish(pages, key, guard, used_before, old);
        }
        drop(guard);
        match restructure::insert(pages, self.root, key, value) {
            Ok(Some(old)) => overflow::free_all(pages, old)?,
            Ok(None) => {}
            Err(error) => {
                overflow::give_back(pages, value.chain());
                return Err(error);
            }
        }
        Ok(None)
    }

    /// Ends the change of a leaf: frees what was its large value, and merges the leaf if it shrank and is now too
    /// empty. A leaf that is small because it has just begun to grow is left alone. If there is nothing to do, the leaf
    /// is returned.
    fn finish<P: PageWrite>(
        &self,
        pages: &P,
        key: &[u8],
        guard: P::WriteGuard,
        used_before: usize,
        old: Option<Chain>,
    ) -> Result<Option<P::WriteGuard>> {
        let leaf_id = guard.id();
        let leaf = parse_leaf(&guard).at(leaf_id)?;
        let merge = leaf_id != self.root && leaf.used() < used_before && leaf.is_underfull();
        if old.is_none() && !merge {
            return Ok(Some(guard));
        }
        drop(guard);
        if let Some(chain) = old {
            overflow::free_all(pages, chain)?;
        }
        if merge {
            restructure::rebalance(pages, self.root, key)?;
        }
        Ok(None)
    }

    /// Reads a page as a node of this tree; `level` is what its parent says of it, and none for the root.
    #[inline]
    fn parse<'p>(&self, page: &'p Page, level: Option<u8>) -> Result<Node<'p>, Flaw> {
        if page.size() == self.size { Node::parse(page, level) } else { Err(Flaw::Size) }
    }

    /// Goes down to a leaf under shared latches; `choose` gives the index of the child to take of a node, which is read
    /// from its page. Returns the leaf, whose kind has been checked.
    #[inline]
    fn descend<P: PageRead>(
        &self,
        pages: &P,
        mut choose: impl FnMut(PageId, &Page, layout::Inner<'_>) -> Result<usize, Flaw>,
    ) -> Result<(P::ReadGuard, PageId)> {
        let mut id = self.root;
        let mut guard = pages.read(id)?;
        let mut level = None;
        loop {
            let child = match self.parse(&guard, level).at(id)? {
                Node::Leaf(_) => return Ok((guard, id)),
                Node::Inner(inner) => {
                    level = Some(inner.child_level());
                    choose(id, &guard, inner).and_then(|index| inner.child(index)).at(id)?
                }
            };
            if child == id {
                return Err(Flaw::Reached.error(id));
            }
            guard = pages.read(child)?;
            id = child;
        }
    }

    /// Goes down to the leaf that covers a key under shared latches and latches it exclusively. `upper` gets the key
    /// that the leaf ends before, if there is one.
    fn latch_leaf<P: PageWrite>(
        &self,
        pages: &P,
        key: &[u8],
        mut upper: Option<&mut Option<Fence>>,
    ) -> Result<P::WriteGuard> {
        loop {
            if let Some(upper) = &mut upper {
                **upper = None;
            }
            let mut id = self.root;
            let mut guard = pages.read(id)?;
            let mut level = None;
            while let Node::Inner(inner) = self.parse(&guard, level).at(id)? {
                let index = inner.covering(key).at(id)?;
                let child = inner.child(index).at(id)?;
                if child == id {
                    return Err(Flaw::Reached.error(id));
                }
                if let Some(upper) = &mut upper
                    && index + 1 < inner.count()
                {
                    set_fence(upper, inner.separator(index + 1).at(id)?);
                }
                level = Some(inner.child_level());
                if level == Some(0) {
                    let leaf = pages.write(child)?;
                    self.parse(&leaf, level).at(child)?;
                    return Ok(leaf);
                }
                guard = pages.read(child)?;
                id = child;
            }
            // The root is a leaf; unless it grows before it is latched exclusively.
            drop(guard);
            let root = pages.write(self.root)?;
            if let Node::Leaf(_) = self.parse(&root, None).at(self.root)? {
                return Ok(root);
            }
        }
    }
}

impl<P: PageWrite> LatchedEntry<'_, P> {
    /// The value, if there is one.
    pub fn value(&self) -> Result<Option<Cow<'_, [u8]>>> {
        let Ok(index) = self.position else { return Ok(None) };
        let leaf_id = self.guard.id();
        match parse_leaf(&self.guard).and_then(|leaf| leaf.entry(index)).at(leaf_id)?.1 {
            Stored::Inline(value) => Ok(Some(Cow::Borrowed(value))),
            Stored::Large(chain) => {
                overflow::read(self.pages, leaf_id, chain).map(|value| Some(value.into()))
            }
        }
    }

    /// Changes the entry, perhaps after the latch was released and taken again: the caller's lock keeps others from
    /// changing the same key, whereas other keys of the leaf are free.
    ///
    /// Errors: [`Error::ValueTooLong`] with nothing changed; [`Error::DiskFull`], if the store has no page left, with
    /// the entry unchanged.
    pub fn change(self, change: Change<'_>) -> Result<()> {
        self.change_held(change).map(drop)
    }

    /// As [`LatchedEntry::change`]; returns the leaf if it is still latched.
    fn change_held(self, change: Change<'_>) -> Result<Option<P::WriteGuard>> {
        let LatchedEntry { tree, pages, key, mut guard, position } = self;
        match (change, position) {
            (Change::Keep, _) | (Change::Delete, Err(_)) => Ok(Some(guard)),
            (Change::Delete, Ok(index)) => {
                let leaf_id = guard.id();
                let leaf = parse_leaf(&guard).at(leaf_id)?;
                let old = leaf.entry(index).at(leaf_id)?.1.chain();
                let used_before = leaf.used();
                layout::remove_entry(&mut guard, index).at(leaf_id)?;
                tree.finish(pages, key, guard, used_before, old)
            }
            (Change::Put(value), _) if value.len() > VALUE_BYTES_MAX => {
                Err(Error::ValueTooLong { bytes: value.len() })
            }
            (Change::Put(value), position) if Shape::of(tree.size).is_inline(key.len(), value.len()) => {
                tree.put(pages, key, Stored::Inline(&value), guard, position)
            }
            (Change::Put(value), _) => {
                // Others may use the leaf while the value is written.
                drop(guard);
                let chain = overflow::write(pages, tree.size, &value)?;
                let guard = tree.latch_leaf(pages, key, None)?;
                let position = parse_leaf(&guard).and_then(|leaf| leaf.search(key)).at(guard.id())?;
                tree.put(pages, key, Stored::Large(chain), guard, position).map(|_| None)
            }
        }
    }
}

/// Reads a page as a leaf.
#[inline]
fn parse_leaf(page: &Page) -> Result<Leaf<'_>, Flaw> {
    match Node::parse(page, Some(0))? {
        Node::Leaf(leaf) => Ok(leaf),
        Node::Inner(_) => Err(Flaw::Kind),
    }
}

/// The overflow pages of the entry at a position.
fn replaced(leaf: Leaf<'_>, position: Result<usize, usize>) -> Result<Option<Chain>, Flaw> {
    match position {
        Ok(index) => Ok(leaf.entry(index)?.1.chain()),
        Err(_) => Ok(None),
    }
}

/// Latches a page exclusively, which must not be one of those that are held.
fn latch<P: PageWrite>(pages: &P, id: PageId, held: &[PageId]) -> Result<P::WriteGuard> {
    if held.contains(&id) { Err(Flaw::Reached.error(id)) } else { pages.write(id) }
}

fn set_fence(fence: &mut Option<Fence>, key: &[u8]) {
    let fence = fence.get_or_insert_default();
    fence.clear();
    fence.extend_from_slice(key);
}

//! Leaves as scans read them: images that stay as they were when they were latched, and the way from one to the next.
//!
//! A view of a leaf also keeps the image of the leaf's parent. While the store counts no split and no merge, the
//! children of that image are where it says, and cover what it says: the leaf beside is latched without a search
//! ([`Tree::leaf_near`]), and a scan descends once for each parent.

use std::ops::Bound;

use super::{
    Fence, Tree,
    layout::{At, EntryPlace, Flaw, Inner, Leaf, LeafHeader, Node, Stored},
    parse_leaf, set_fence,
};
use crate::{PageId, Result, page::Page, store::PageRead};

/// A leaf to be found in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek<'a> {
    /// The leaf of the smallest keys.
    First,
    /// The leaf of the greatest keys.
    Last,
    /// The leaf that covers this key.
    At(&'a [u8]),
    /// The leaf that covers the greatest keys less than this one; the first leaf if the key is empty.
    Before(&'a [u8]),
}

/// A value in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// The value is large and lies elsewhere; [`Tree::get`] fetches it, unless it was changed meanwhile.
    Large {
        /// Its length in bytes.
        bytes: usize,
    },
}

/// A leaf as it was when it was latched. The latch is gone.
#[derive(Clone)]
pub struct LeafView {
    page: Page,
    id: PageId,
    /// The header of the page.
    header: LeafHeader,
    lower: Option<Fence>,
    upper: Option<Fence>,
    /// The store's count before the leaf was looked for.
    restructured: Option<u64>,
    /// None if the leaf is the root, or the store does not count.
    parent: Option<Parent>,
}

/// The parent of a leaf, as it was on the way to the leaf.
#[derive(Clone)]
struct Parent {
    node: Page,
    id: PageId,
    /// The leaf's place among the children.
    index: usize,
    lower: Option<Fence>,
    upper: Option<Fence>,
}

impl Parent {
    fn inner(&self) -> Result<Inner<'_>> {
        match Node::parse(&self.node, None).at(self.id)? {
            Node::Inner(inner) => Ok(inner),
            Node::Leaf(_) => Err(Flaw::Kind.error(self.id)),
        }
    }

    /// Returns the child at an index, and what it covers.
    fn child(&self, index: usize) -> Result<(PageId, Option<Fence>, Option<Fence>)> {
        let inner = self.inner()?;
        let fence = |index| inner.separator(index).at(self.id).map(|key| Some(Fence::from_slice(key)));
        let lower = if index > 0 { fence(index)? } else { self.lower.clone() };
        let upper = if index + 1 < inner.count() { fence(index + 1)? } else { self.upper.clone() };
        // A node may be damaged; a scan must advance even then.
        if let (Some(lower), Some(upper)) = (&lower, &upper)
            && lower >= upper
        {
            return Err(Flaw::Order.error(self.id));
        }
        Ok((inner.child(index).at(self.id)?, lower, upper))
    }
}

impl LeafView {
    /// Number of entries of the leaf.
    pub fn len(&self) -> usize {
        self.header.count()
    }

    #[inline]
    fn leaf(&self) -> Leaf<'_> {
        Leaf::with_header(&self.page, self.header)
    }

    /// The key and the value at an index below [`LeafView::len`], in the order of keys; none beyond.
    #[inline]
    pub fn entry(&self, index: usize) -> Result<Option<(&[u8], Value<'_>)>> {
        if index < self.len() { self.known_entry(index).map(Some) } else { Ok(None) }
    }

    /// As [`LeafView::entry`], at an index that is below [`LeafView::len`].
    #[inline]
    pub fn known_entry(&self, index: usize) -> Result<(&[u8], Value<'_>)> {
        let (key, value) = self.leaf().entry(index).at(self.id)?;
        let value = match value {
            Stored::Inline(value) => Value::Inline(value),
            Stored::Large(chain) => Value::Large { bytes: chain.bytes as usize },
        };
        Ok((key, value))
    }

    /// Returns the place of an entry in this image; none if its value is large.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> Result<Option<EntryPlace>> {
        self.leaf().entry_place(index).at(self.id)
    }

    /// Returns the key and the value at a place that was found in this image.
    #[inline]
    pub(crate) fn at(&self, place: EntryPlace) -> (&[u8], &[u8]) {
        place.of(self.page.body())
    }

    /// The index of a key, or else that of the first greater one (which may be [`LeafView::len`]).
    pub fn search(&self, key: &[u8]) -> Result<Result<usize, usize>> {
        self.leaf().search(key).at(self.id)
    }

    /// The leaf covers keys from this one on; none if it is the first.
    pub fn lower(&self) -> Option<&[u8]> {
        self.lower.as_deref()
    }

    /// The leaf covers keys below this one; none if it is the last.
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Returns the index among the parent's children of the leaf that `seek` asks for, if that is this one or one
    /// beside it. The root, which has no parent, has index zero.
    fn index_of(&self, seek: Seek<'_>) -> Option<usize> {
        let own = self.parent.as_ref().map_or(0, |parent| parent.index);
        let (lower, upper) = (self.lower(), self.upper());
        match seek {
            Seek::First | Seek::Last => None,
            Seek::At(key) if upper == Some(key) => Some(own + 1),
            Seek::At(key) => (lower.is_none_or(|lower| lower <= key)
                && upper.is_none_or(|upper| key < upper))
            .then_some(own),
            Seek::Before(key) if lower == Some(key) => own.checked_sub(1),
            Seek::Before(key) => (lower.is_none_or(|lower| lower < key)
                && upper.is_none_or(|upper| key <= upper))
            .then_some(own),
        }
    }
}

impl Tree {
    /// One leaf, for a scan. After the last entry that it wants, a scan goes on with [`Seek::At`] the
    /// [upper](LeafView::upper) fence, or with [`Seek::Before`] the [lower](LeafView::lower). If others change the
    /// tree meanwhile, that leaf may begin with keys that the scan has seen already.
    pub fn leaf<P: PageRead>(&self, pages: &P, seek: Seek<'_>) -> Result<LeafView> {
        let restructured = pages.restructured();
        let (mut lower, mut upper, mut parent) = (None, None, None);
        let (guard, leaf_id) = self.descend(pages, |id, page, inner| {
            let index = match seek {
                Seek::First => 0,
                Seek::Last => inner.count() - 1,
                Seek::At(key) => inner.covering(key)?,
                Seek::Before(key) => inner.covering_before(key)?,
            };
            let child_lower = if index > 0 { Some(inner.separator(index)?) } else { None };
            let child_upper =
                if index + 1 < inner.count() { Some(inner.separator(index + 1)?) } else { None };
            // A search may be led astray in a damaged page; a scan must advance even then.
            let covers = match seek {
                Seek::First | Seek::Last => true,
                Seek::At(key) => {
                    child_lower.is_none_or(|lower| lower <= key)
                        && child_upper.is_none_or(|upper| key < upper)
                }
                Seek::Before(key) => {
                    child_lower.is_none_or(|lower| lower < key)
                        && child_upper.is_none_or(|upper| key <= upper)
                }
            };
            if !covers {
                return Err(Flaw::Order);
            }
            if inner.child_level() == 0 && restructured.is_some() {
                let (lower, upper) = (lower.clone(), upper.clone());
                parent = Some(Parent { node: page.clone(), id, index, lower, upper });
            }
            child_lower.inspect(|key| set_fence(&mut lower, key));
            child_upper.inspect(|key| set_fence(&mut upper, key));
            Ok(index)
        })?;
        let header = parse_leaf(&guard).at(leaf_id)?.header();
        let page = Page::clone(&guard);
        Ok(LeafView { page, id: leaf_id, header, lower, upper, restructured, parent })
    }

    /// As [`Tree::leaf`], of a leaf that is `near` or beside it, probably: then there is no search for it, unless
    /// anything was split or merged since that one was read, or the leaf is not in memory.
    pub fn leaf_near<P: PageRead>(&self, pages: &P, near: &LeafView, seek: Seek<'_>) -> Result<LeafView> {
        match self.known_leaf(pages, near, seek)? {
            Some(view) => Ok(view),
            None => self.leaf(pages, seek),
        }
    }

    fn known_leaf<P: PageRead>(
        &self,
        pages: &P,
        near: &LeafView,
        seek: Seek<'_>,
    ) -> Result<Option<LeafView>> {
        let (Some(restructured), Some(index)) = (near.restructured, near.index_of(seek)) else {
            return Ok(None);
        };
        let parent = near.parent.as_ref();
        let (id, lower, upper) = match parent {
            Some(parent) if index != parent.index => {
                if index >= parent.inner()?.count() {
                    return Ok(None);
                }
                parent.child(index)?
            }
            _ => (near.id, near.lower.clone(), near.upper.clone()),
        };
        let Some(guard) = pages.read_again(id, restructured) else { return Ok(None) };
        let Node::Leaf(leaf) = self.parse(&guard, Some(0)).at(id)? else { return Err(Flaw::Kind.error(id)) };
        let (page, header) = (Page::clone(&guard), leaf.header());
        let parent = parent.map(|parent| Parent { index, ..parent.clone() });
        Ok(Some(LeafView { page, id, header, lower, upper, restructured: near.restructured, parent }))
    }

    /// Returns the first key in the tree after `bound`.
    pub fn first_key(&self, pages: &impl PageRead, bound: Bound<&[u8]>) -> Result<Option<Box<[u8]>>> {
        let mut view = match bound {
            Bound::Included(key) | Bound::Excluded(key) => self.leaf(pages, Seek::At(key))?,
            Bound::Unbounded => self.leaf(pages, Seek::First)?,
        };
        let mut index = match bound {
            Bound::Included(key) => view.search(key)?.unwrap_or_else(|index| index),
            Bound::Excluded(key) => view.search(key)?.map_or_else(|index| index, |index| index + 1),
            Bound::Unbounded => 0,
        };
        loop {
            if let Some((key, _)) = view.entry(index)? {
                return Ok(Some(key.into()));
            }
            let Some(upper) = view.upper() else { return Ok(None) };
            view = self.leaf_near(pages, &view, Seek::At(upper))?;
            index = 0;
        }
    }
}

//! The size of a tree, from its inner nodes and a few of its leaves.

use super::{
    Tree,
    layout::{At, Flaw, Leaf, Node, parts},
};
use crate::{
    PageId, Result,
    page::{Page, PageSize},
    store::PageRead,
};

/// The most children that are read below one node, shared out among the levels below it.
const SAMPLE_MAX: usize = 64;

/// The extent of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of its pages, those of large values too.
    pub bytes: u64,
}

impl Extent {
    /// Returns this part of a tree as if it were as many times the size as `count` is that of `sample`.
    fn scaled(self, count: usize, sample: usize) -> Extent {
        let scale = |value: u64| {
            let scaled = u128::from(value) * count as u128 / sample.max(1) as u128;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Extent { entries: scale(self.entries), bytes: scale(self.bytes) }
    }

    /// Adds another part of the tree.
    fn add(&mut self, other: Extent) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Tree {
    /// Returns the extent of the tree: exact if it has at most [`SAMPLE_MAX`] leaves. Of a larger one it is an estimate
    /// from about so many nodes of each level, evenly spread. The path to a node stays latched while those below it
    /// are read, so that none is given back meanwhile.
    pub fn extent<P: PageRead>(&self, pages: &P) -> Result<Extent> {
        let root = pages.read(self.root)?;
        self.extent_below(pages, self.root, &root, None, &mut Vec::new(), SAMPLE_MAX)
    }

    /// Returns the extent of a node with all below it. `above` are the nodes that are latched, `sample` the number of
    /// leaves to be read.
    fn extent_below<P: PageRead>(
        &self,
        pages: &P,
        id: PageId,
        page: &Page,
        level: Option<u8>,
        above: &mut Vec<PageId>,
        sample: usize,
    ) -> Result<Extent> {
        let inner = match self.parse(page, level).at(id)? {
            Node::Leaf(leaf) => return leaf_extent(leaf, self.size).at(id),
            Node::Inner(inner) => inner,
        };
        above.push(id);
        let count = inner.count();
        let read = count.min(sample);
        let mut sum = Extent::default();
        for number in 0..read {
            let child = inner.child(number * count / read).at(id)?;
            if above.contains(&child) {
                return Err(Flaw::Reached.error(child));
            }
            let page = pages.read(child)?;
            let level = Some(inner.child_level());
            sum.add(self.extent_below(pages, child, &page, level, above, (sample / read).max(1))?);
        }
        above.pop();
        let mut extent = sum.scaled(count, read);
        extent.bytes = extent.bytes.saturating_add(self.size.bytes() as u64);
        Ok(extent)
    }
}

/// Returns the extent of a leaf with the pages of its large values.
fn leaf_extent(leaf: Leaf<'_>, size: PageSize) -> Result<Extent, Flaw> {
    let mut bytes = size.bytes() as u64;
    for index in 0..leaf.count() {
        if let Some(chain) = leaf.entry(index)?.1.chain() {
            let sizes = parts(chain.bytes as usize, size, PageSize::MAX).map(|(size, _)| size.bytes() as u64);
            bytes = bytes.saturating_add(sizes.sum());
        }
    }
    Ok(Extent { entries: leaf.count() as u64, bytes })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::access::{Change, memory::MemoryPages};

    fn tree_of(pages: &MemoryPages, entries: u32, value_bytes: usize) -> Tree {
        let tree = Tree::create(pages, PageSize::DEFAULT).unwrap();
        let value = vec![7; value_bytes];
        for key in 0..entries {
            tree.update(pages, &key.to_be_bytes(), &mut |_| Change::Put(Cow::Borrowed(&value))).unwrap();
        }
        tree
    }

    #[test]
    fn the_extent_of_a_small_tree_is_exact() {
        for (entries, value_bytes) in [(0, 1), (1, 1), (2000, 20), (30, 20_000)] {
            let pages = MemoryPages::default();
            let tree = tree_of(&pages, entries, value_bytes);
            let mut bytes = 0;
            let report =
                tree.check(&pages, &mut |id| bytes += pages.read(id).unwrap().size().bytes() as u64).unwrap();
            assert!(report.leaf_pages as usize <= SAMPLE_MAX, "{report:?}");
            assert_eq!(tree.extent(&pages).unwrap(), Extent { entries: report.entries, bytes });
        }
    }

    #[test]
    fn the_extent_of_a_large_tree_is_near() {
        let pages = MemoryPages::default();
        let tree = tree_of(&pages, 100_000, 100);
        let report = tree.check(&pages, &mut |_| {}).unwrap();
        assert!(report.height > 2, "{report:?}");
        let nodes = report.leaf_pages + report.inner_pages;
        let extent = tree.extent(&pages).unwrap();
        let is_near = |found: u64, real: u64| found.abs_diff(real) < real / 20;
        assert!(is_near(extent.entries, report.entries), "{extent:?} {report:?}");
        assert!(is_near(extent.bytes, nodes * PageSize::DEFAULT.bytes() as u64), "{extent:?} {report:?}");
    }
}

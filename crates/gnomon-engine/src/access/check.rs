//! A walk through a whole tree that verifies everything a descent takes for granted.

use std::collections::HashMap;

use super::{
    Tree,
    layout::{At, Chain, Flaw, Node, Shape, parse_part},
};
use crate::{
    Error, PageId, Result,
    page::{Page, PageSize},
    store::PageRead,
};

/// The findings of [`Tree::check`].
#[derive(Clone, Debug, Default)]
pub struct TreeReport {
    /// Number of entries.
    pub entries: u64,
    /// Number of leaf pages.
    pub leaf_pages: u64,
    /// Number of inner nodes.
    pub inner_pages: u64,
    /// Number of pages that hold parts of large values.
    pub overflow_pages: u64,
    /// Number of nodes on a path from the root to a leaf, both included.
    pub height: u32,
    /// Average fill of the leaves: 1 is full.
    pub leaf_fill: f64,
    /// The damage found, each an [`Error::Corrupt`] that names the page. Pages below a damaged page are neither
    /// counted nor checked.
    pub damage: Vec<Error>,
}

impl Tree {
    /// Reads the whole tree and verifies it: the pages' kinds, sizes and levels, that cells do not overlap, that keys
    /// ascend and lie between the fences, that large values are complete, and that no page occurs twice. Calls
    /// `visit` for each page of the tree.
    ///
    /// The tree must not be changed meanwhile, or the findings are not those of one state. Damage is reported, not an
    /// error; errors are those of reading. Needs memory of about a byte for four pages that lie together.
    pub fn check<P: PageRead>(&self, pages: &P, visit: &mut dyn FnMut(PageId)) -> Result<TreeReport> {
        let mut walk = Walk {
            pages,
            size: self.size,
            visit,
            visited: PageSet::default(),
            leaf_bytes: 0,
            report: TreeReport::default(),
        };
        walk.node(self.root, None, None, None)?;
        let Walk { leaf_bytes, mut report, .. } = walk;
        if report.leaf_pages > 0 {
            let space_bytes = Shape::of(self.size).space_bytes();
            report.leaf_fill = leaf_bytes as f64 / (report.leaf_pages as f64 * space_bytes as f64);
        }
        Ok(report)
    }
}

struct Walk<'a, P> {
    pages: &'a P,
    size: PageSize,
    visit: &'a mut dyn FnMut(PageId),
    visited: PageSet,
    leaf_bytes: u64,
    report: TreeReport,
}

impl<P: PageRead> Walk<'_, P> {
    /// Reads a page that was not visited yet; none if it was, or is damaged.
    fn page(&mut self, id: PageId) -> Result<Option<Page>> {
        if !self.visited.insert(id) {
            self.report.damage.push(Flaw::Reached.error(id));
            return Ok(None);
        }
        (self.visit)(id);
        match self.pages.read(id) {
            Ok(guard) => Ok(Some(Page::clone(&guard))),
            Err(damage @ Error::Corrupt { .. }) => {
                self.report.damage.push(damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns `found` if it is sound. Otherwise adds the damage to the report and returns none.
    fn sound<T>(&mut self, id: PageId, found: Result<T, Flaw>) -> Option<T> {
        found.at(id).map_err(|damage| self.report.damage.push(damage)).ok()
    }

    /// Walks a node with all below it. The recursion is as deep as the levels that the pages themselves give.
    fn node(
        &mut self,
        id: PageId,
        level: Option<u8>,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Result<()> {
        let Some(page) = self.page(id)? else { return Ok(()) };
        let node = Node::parse(&page, level).and_then(|node| {
            if page.size() != self.size {
                return Err(Flaw::Size);
            }
            match node {
                Node::Leaf(leaf) => leaf.check(lower, upper)?,
                Node::Inner(inner) => inner.check(lower, upper)?,
            }
            Ok(node)
        });
        let Some(node) = self.sound(id, node) else { return Ok(()) };
        let height = match node {
            Node::Leaf(leaf) => {
                self.report.leaf_pages += 1;
                self.report.entries += leaf.count() as u64;
                self.leaf_bytes += leaf.used() as u64;
                for index in 0..leaf.count() {
                    let chain = leaf.entry(index).map(|(_, value)| value.chain());
                    if let Some(Some(chain)) = self.sound(id, chain) {
                        self.chain(chain)?;
                    }
                }
                1
            }
            Node::Inner(inner) => {
                self.report.inner_pages += 1;
                for index in 0..inner.count() {
                    let child = inner.child(index).and_then(|child| {
                        let lower = if index == 0 { lower } else { Some(inner.separator(index)?) };
                        let upper = if index + 1 == inner.count() {
                            upper
                        } else {
                            Some(inner.separator(index + 1)?)
                        };
                        Ok((child, lower, upper))
                    });
                    if let Some((child, lower, upper)) = self.sound(id, child) {
                        self.node(child, Some(inner.child_level()), lower, upper)?;
                    }
                }
                u32::from(inner.level()) + 1
            }
        };
        self.report.height = self.report.height.max(height);
        Ok(())
    }

    /// Walks the overflow pages of a large value.
    fn chain(&mut self, chain: Chain) -> Result<()> {
        let mut rest = Some(chain);
        while let Some(chain) = rest {
            let Some(page) = self.page(chain.first)? else { return Ok(()) };
            let part = parse_part(&page, chain).map(|part| part.rest);
            let Some(after) = self.sound(chain.first, part) else { return Ok(()) };
            self.report.overflow_pages += 1;
            rest = after;
        }
        Ok(())
    }
}

/// A set of page numbers, a bit for each, in words of neighbours.
#[derive(Default)]
struct PageSet(HashMap<u64, u64>);

impl PageSet {
    /// Adds a page; false if it was there.
    fn insert(&mut self, id: PageId) -> bool {
        let word = self.0.entry(id.0 / 64).or_default();
        let bit = 1 << (id.0 % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

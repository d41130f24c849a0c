//! Building a tree from entries in ascending order: no search for any of them, and each page is filled once.
//!
//! The last node of each level is kept latched. An entry goes to the end of the last leaf; when that is as full as it is
//! to be, another leaf becomes the last one, and its separator goes to the end of the node above in the same way. So what
//! is there at any time is a whole tree, whose root is the last node of the uppermost level. The root changes as the tree
//! grows: until the build ends, no other thread may know the tree.

use super::{
    Tree, key_bytes_max,
    layout::{self, At, Flaw, LEVEL_MAX, Node, Shape, Stored, common},
    overflow, parse_leaf,
};
use crate::{
    Error, PageId, Result, VALUE_BYTES_MAX,
    page::{PageKind, PageSize},
    store::{PageGuard, PageWrite},
};

/// The share of a node that is filled, in percent: entries that are put between others later find room, and do not split
/// every leaf.
const FILL_PERCENT: usize = 90;

/// A tree that is being built.
#[derive(Debug)]
pub struct Build {
    size: PageSize,
    /// The last node of each level, beginning with the leaf.
    edge: Vec<PageId>,
}

/// A build whose last nodes are latched.
pub struct Appending<'b, P: PageWrite> {
    pages: &'b P,
    build: &'b mut Build,
    nodes: Vec<P::WriteGuard>,
    fill_bytes: usize,
}

impl Build {
    /// Begins a tree with nodes of `size`, without entries.
    pub fn begin<P: PageWrite>(pages: &P, size: PageSize) -> Result<Build> {
        let root = Tree::create(pages, size)?.root();
        Ok(Build { size, edge: vec![root] })
    }

    /// Returns the tree of the entries so far.
    pub fn tree(&self) -> Tree {
        let root = self.edge.last().expect("there is a leaf");
        Tree::open(*root, self.size)
    }

    /// Latches the nodes that entries are appended to.
    pub fn append<'b, P: PageWrite>(&'b mut self, pages: &'b P) -> Result<Appending<'b, P>> {
        let above_first = self.edge.iter().rev().map(|id| pages.write(*id));
        let mut nodes = above_first.collect::<Result<Vec<_>>>()?;
        nodes.reverse();
        let fill_bytes = Shape::of(self.size).space_bytes() * FILL_PERCENT / 100;
        Ok(Appending { pages, build: self, nodes, fill_bytes })
    }
}

impl<P: PageWrite> Appending<'_, P> {
    /// Appends an entry, whose key must be greater than those before it.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::Corrupt`] if the key is not greater. After any other
    /// error the build cannot go on.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let size = self.build.size;
        let max = key_bytes_max(size);
        if key.len() > max {
            return Err(Error::KeyTooLong { bytes: key.len(), max });
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        let shape = Shape::of(size);
        let leaf_id = self.nodes[0].id();
        let leaf = parse_leaf(&self.nodes[0]).at(leaf_id)?;
        let count = leaf.count();
        let mut separator = None;
        if let Some(last) = count.checked_sub(1) {
            let last = leaf.entry(last).at(leaf_id)?.0;
            if last >= key {
                return Err(Flaw::Order.error(leaf_id));
            }
            if leaf.used() + shape.entry_bytes(key.len(), value.len()) > self.fill_bytes {
                // The shortest that tells the leaves apart.
                separator = key.get(..=common(last, key));
            }
        }
        let stored = match shape.is_inline(key.len(), value.len()) {
            true => Stored::Inline(value),
            false => Stored::Large(overflow::write(self.pages, size, value)?),
        };
        let at = match separator {
            None => count,
            Some(separator) => {
                let mut next = self.pages.allocate(PageKind::TreeLeaf, size)?;
                layout::init_leaf(&mut next);
                self.attach(1, separator, next)?;
                0
            }
        };
        let leaf = &mut self.nodes[0];
        let leaf_id = leaf.id();
        layout::put_entry(leaf, Err(at), key, stored).at(leaf_id)
    }

    /// Makes a new node the last one below `level`, beside the one that was.
    fn attach(&mut self, level: usize, separator: &[u8], child: P::WriteGuard) -> Result<()> {
        if level > usize::from(LEVEL_MAX) {
            return Err(Flaw::Level.error(child.id()));
        }
        if level == self.nodes.len() {
            let mut root = self.pages.allocate(PageKind::TreeInner, self.build.size)?;
            let root_id = root.id();
            layout::init_inner(&mut root, level as u8, self.build.edge[level - 1]).at(root_id)?;
            self.build.edge.push(root_id);
            self.nodes.push(root);
        }
        let parent_id = self.nodes[level].id();
        let Node::Inner(parent) = Node::parse(&self.nodes[level], Some(level as u8)).at(parent_id)? else {
            return Err(Flaw::Kind.error(parent_id));
        };
        // The second child is taken in any case, or the nodes above would have one each.
        if parent.is_safe() && (parent.count() < 2 || parent.used() <= self.fill_bytes) {
            let count = parent.count();
            layout::insert_child(&mut self.nodes[level], count, separator, child.id()).at(parent_id)?;
        } else {
            let mut next = self.pages.allocate(PageKind::TreeInner, self.build.size)?;
            let next_id = next.id();
            layout::init_inner(&mut next, level as u8, child.id()).at(next_id)?;
            self.attach(level + 1, separator, next)?;
        }
        self.build.edge[level - 1] = child.id();
        self.nodes[level - 1] = child;
        Ok(())
    }
}

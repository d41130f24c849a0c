//! Changes of a tree's shape: splits and merges, top-down under exclusive latches.
//!
//! Invariant of both descents: `node` is latched exclusively, nothing above it is needed any more, and it can take
//! what a split ([`insert`]) or a merge ([`rebalance`]) of one of its children does to it. Pages are allocated
//! before anything is changed, so a store without space leaves a correct tree.
//!
//! What is not kept by force: with the longest keys a node has three children at most, so there are nodes that are
//! too full to take a longer separator and too empty to lose one. A merge below such a node may leave it with a single
//! child, and a leaf that is an only child stays when it is empty. Both are legal and go with the next merge
//! beside them.

use super::{
    latch,
    layout::{self, At, Balanced, Chain, Flaw, LEVEL_MAX, Node, Stored},
    replaced,
};
use crate::{
    PageId, Result,
    page::PageKind,
    store::{PageGuard, PageWrite},
};

/// Puts an entry, splitting the nodes on its way that are too full. Returns the overflow pages of the value that it
/// replaces.
pub(super) fn insert<P: PageWrite>(
    pages: &P,
    root: PageId,
    key: &[u8],
    value: Stored<'_>,
) -> Result<Option<Chain>> {
    // Whether what happens to a node's child, or to the leaf itself, stays within it.
    let has_room = |node: Node<'_>| match node {
        Node::Leaf(leaf) => leaf.has_room(leaf.search(key)?, key, value),
        Node::Inner(inner) => Ok(inner.is_safe()),
    };
    let mut node = pages.write(root)?;
    if !Node::parse(&node, None).and_then(has_room).at(root)? {
        grow(pages, &mut node)?;
    }
    let mut level = None;
    loop {
        let node_id = node.id();
        let inner = match Node::parse(&node, level).at(node_id)? {
            Node::Inner(inner) => inner,
            Node::Leaf(leaf) => {
                let position = leaf.search(key).at(node_id)?;
                let old = replaced(leaf, position).at(node_id)?;
                layout::put_entry(&mut node, position, key, value).at(node_id)?;
                return Ok(old);
            }
        };
        let index = inner.covering(key).at(node_id)?;
        let is_last = index + 1 == inner.count();
        level = Some(inner.child_level());
        let mut child = latch(pages, inner.child(index).at(node_id)?, &[node_id])?;
        let child_id = child.id();
        match Node::parse(&child, level).at(child_id)? {
            fits if has_room(fits).at(child_id)? => {}
            Node::Inner(full) => {
                let at_end = is_last && full.covering(key).at(child_id)? + 1 == full.count();
                let mut right = pages.allocate(PageKind::TreeInner, child.size())?;
                // The leaf below may have room by now, and be as it was.
                pages.note_restructured();
                let separator = layout::split_inner(&mut child, &mut right, at_end).at(child_id)?;
                layout::insert_child(&mut node, index + 1, &separator, right.id()).at(node_id)?;
                if key >= separator.as_slice() {
                    child = right;
                }
            }
            Node::Leaf(full) => {
                let position = full.search(key).at(child_id)?;
                let old = replaced(full, position).at(child_id)?;
                let mut right = pages.allocate(PageKind::TreeLeaf, child.size())?;
                pages.note_restructured();
                let separator =
                    layout::split_leaf(&mut child, &mut right, position, key, value).at(child_id)?;
                layout::insert_child(&mut node, index + 1, &separator, right.id()).at(node_id)?;
                return Ok(old);
            }
        }
        node = child;
    }
}

/// Moves the root's contents into a new child, its only one. The descent then splits that as any other.
fn grow<P: PageWrite>(pages: &P, root: &mut P::WriteGuard) -> Result<()> {
    let root_id = root.id();
    let level = match Node::parse(root, None).at(root_id)? {
        Node::Leaf(_) => 0,
        Node::Inner(inner) => inner.level(),
    };
    if level >= LEVEL_MAX {
        return Err(Flaw::Level.error(root_id));
    }
    let mut child = pages.allocate(root.kind(), root.size())?;
    pages.note_restructured();
    layout::copy_node(root, &mut child).at(root_id)?;
    layout::init_inner(root, level + 1, child.id()).at(root_id)
}

/// Merges the nodes on the way to a key that are too empty with a neighbour, or fills them up from it.
pub(super) fn rebalance<P: PageWrite>(pages: &P, root: PageId, key: &[u8]) -> Result<()> {
    let mut node = pages.write(root)?;
    let mut level = None;
    loop {
        let node_id = node.id();
        let Node::Inner(inner) = Node::parse(&node, level).at(node_id)? else { return Ok(()) };
        let index = inner.covering(key).at(node_id)?;
        let (count, child_level) = (inner.count(), Some(inner.child_level()));
        let child_id = inner.child(index).at(node_id)?;
        let child = latch(pages, child_id, &[node_id])?;
        let underfull = Node::parse(&child, child_level).at(child_id)?.is_underfull();
        if count == 1 && node_id == root {
            pages.note_restructured();
            layout::copy_node(&child, &mut node).at(child_id)?;
            pages.free(child)?;
            level = child_level;
            continue;
        }
        if count == 1 || !underfull {
            (node, level) = (child, child_level);
            continue;
        }
        // Left before right: if the neighbour is on the left, the child has to be released. No thread can reach it
        // past its parent, but one that was there already may still change it.
        drop(child);
        let left_index = if index + 1 < count { index } else { index - 1 };
        let (left_id, right_id) =
            (inner.child(left_index).at(node_id)?, inner.child(left_index + 1).at(node_id)?);
        let mut left = latch(pages, left_id, &[node_id])?;
        let mut right = latch(pages, right_id, &[node_id, left_id])?;
        Node::parse(&left, child_level).at(left_id)?;
        Node::parse(&right, child_level).at(right_id)?;
        pages.note_restructured();
        let key_is_right = match layout::balance(&mut node, left_index, &mut left, &mut right).at(left_id)? {
            Balanced::Merged => {
                // Once more with the same node: it may be a root with one child now, and what was merged may
                // still be too empty.
                pages.free(right)?;
                continue;
            }
            Balanced::Shared(separator) => key >= separator.as_slice(),
            Balanced::Unchanged => index > left_index,
        };
        (node, level) = (if key_is_right { right } else { left }, child_level);
    }
}

//! Freeing a tree that was dropped, some pages at a time.
//!
//! What is left between two calls is a correct tree that lacks its greatest keys, so it says itself how far the
//! work has come, after a crash too.

use super::{
    Tree, latch,
    layout::{self, At, Node},
    overflow,
};
use crate::{
    PageId, Result,
    store::{PageGuard, PageWrite},
};

impl Tree {
    /// Frees about `budget_pages` pages of the tree, beginning with the greatest keys; more by at most the tree's
    /// height. Returns true when everything is freed, the root too, and the tree no longer exists. No other thread
    /// may use the tree meanwhile.
    pub fn reclaim<P: PageWrite>(&self, pages: &P, budget_pages: usize) -> Result<bool> {
        let root = pages.write(self.root)?;
        let mut budget = budget_pages;
        free_node(pages, root, None, &mut Vec::new(), &mut budget)
    }
}

/// Frees a node with all below it, from its end; true if the budget was enough. `held` are the nodes above.
fn free_node<P: PageWrite>(
    pages: &P,
    mut node: P::WriteGuard,
    level: Option<u8>,
    held: &mut Vec<PageId>,
    budget: &mut usize,
) -> Result<bool> {
    let id = node.id();
    held.push(id);
    loop {
        if *budget == 0 {
            return Ok(false);
        }
        match Node::parse(&node, level).at(id)? {
            Node::Leaf(leaf) => {
                let Some(last) = leaf.count().checked_sub(1) else { break };
                let (key, value) = leaf.entry(last).at(id)?;
                if let Some(chain) = value.chain()
                    && let Some(left) = overflow::free(pages, held, chain, budget)?
                {
                    let key = key.to_vec();
                    layout::put_entry(&mut node, Ok(last), &key, layout::Stored::Large(left)).at(id)?;
                    return Ok(false);
                }
                layout::remove_entry(&mut node, last).at(id)?;
            }
            Node::Inner(inner) => {
                let (last, child_level) = (inner.count() - 1, inner.child_level());
                let child = latch(pages, inner.child(last).at(id)?, held)?;
                if !free_node(pages, child, Some(child_level), held, budget)? {
                    return Ok(false);
                }
                if last == 0 {
                    break;
                }
                layout::remove_child(&mut node, last).at(id)?;
            }
        }
    }
    held.pop();
    pages.free(node)?;
    *budget = budget.saturating_sub(1);
    Ok(true)
}

//! How the cells of a full node, or of two neighbours, are divided: where to cut, and what then separates the halves.

use std::borrow::Cow;

use super::{
    CHILD_BYTES, Flaw, Node, SLOT_BYTES, Shape, Stored,
    cells::{Cells, common, key_of, write_node},
    insert_child, remove_child, with_entry,
};
use crate::page::Page;

/// Moves the upper half of a full leaf and a new entry into `right`, which is new, and returns the separator.
///
/// An entry that comes last goes to the right alone, and one that comes first stays on the left alone: keys that
/// are inserted in order leave full leaves behind.
pub(in crate::access) fn split_leaf(
    left: &mut Page,
    right: &mut Page,
    position: Result<usize, usize>,
    key: &[u8],
    value: Stored<'_>,
) -> Result<Vec<u8>, Flaw> {
    let (old, shape) = (left.body().to_vec(), Shape::of(left.size()));
    let mut cells = Cells::parse(&old)?.all()?;
    let entry = Cow::Owned(with_entry(key, value, |pieces| pieces.concat()));
    let cut_beside_entry = match position {
        Err(index) if index == cells.len() => Some(index),
        Err(0) => Some(1),
        _ => None,
    };
    match position {
        Ok(index) => *cells.get_mut(index).ok_or(Flaw::Slot)? = entry,
        Err(index) if index <= cells.len() => cells.insert(index, entry),
        Err(_) => return Err(Flaw::Slot),
    }
    let cut = cut_beside_entry.unwrap_or_else(|| middle(shape, &cells, 0));
    cut_in_two(left, right, 0, cells, cut)
}

/// Moves the upper part of an inner node into `right`, which is new, and returns the separator. With `at_end`, the
/// split was caused by a key of the last child, and the left node stays as full as it may.
pub(in crate::access) fn split_inner(
    left: &mut Page,
    right: &mut Page,
    at_end: bool,
) -> Result<Vec<u8>, Flaw> {
    let old = left.body().to_vec();
    let cells = Cells::parse(&old)?;
    let all = cells.all()?;
    let cut = if at_end { all.len().saturating_sub(2) } else { middle(cells.shape, &all, cells.level()) };
    cut_in_two(left, right, cells.level(), all, cut)
}

/// The outcome of balancing two neighbours.
#[derive(Debug)]
pub(in crate::access) enum Balanced {
    /// The left one holds all; the right one has left the parent and is to be freed.
    Merged,
    /// They share their cells evenly, around this separator.
    Shared(Vec<u8>),
    /// They stay as they are: they do not fit one page, and sharing would not help, or would need a separator
    /// that the parent has no room for.
    Unchanged,
}

/// Merges the children `index` and `index + 1` of `parent`, or moves cells from the fuller to the other.
pub(in crate::access) fn balance(
    parent: &mut Page,
    index: usize,
    left: &mut Page,
    right: &mut Page,
) -> Result<Balanced, Flaw> {
    let Node::Inner(inner) = Node::parse(parent, None)? else { return Err(Flaw::Kind) };
    let separator = inner.separator(index + 1)?.to_vec();
    let (right_id, parent_room) = (inner.child(index + 1)?, inner.0.room());
    if left.size() != right.size() {
        return Err(Flaw::Size);
    }
    let (old_left, old_right) = (left.body().to_vec(), right.body().to_vec());
    let (left_cells, right_cells) = (Cells::parse(&old_left)?, Cells::parse(&old_right)?);
    let (level, shape) = (left_cells.level(), left_cells.shape);
    let mut cells = left_cells.all()?;
    let mut upper = right_cells.all()?;
    if let Some(first) = upper.first_mut().filter(|_| level > 0) {
        // What the parent says of the right node's first child goes with that child.
        first.to_mut().extend_from_slice(&separator);
    }
    cells.append(&mut upper);
    if total(shape, &cells) <= shape.space_bytes() {
        write_node(left, level, &cells)?;
        remove_child(parent, index + 1)?;
        return Ok(Balanced::Merged);
    }
    let cut = middle(shape, &cells, level);
    let new = separator_at(&cells, cut, level)?;
    let parent_shape = Shape::of(parent.size());
    let [new_bytes, old_bytes] = [&new, &separator].map(|key| parent_shape.padded(CHILD_BYTES + key.len()));
    if cut == left_cells.count || new_bytes > parent_room + old_bytes {
        return Ok(Balanced::Unchanged);
    }
    cut_in_two(left, right, level, cells, cut)?;
    remove_child(parent, index + 1)?;
    insert_child(parent, index + 1, &new, right_id)?;
    Ok(Balanced::Shared(new))
}

fn total(shape: Shape, cells: &[Cow<'_, [u8]>]) -> usize {
    cells.iter().map(|cell| SLOT_BYTES + shape.padded(cell.len())).sum()
}

/// Where to cut cells so that both sides have about half of the bytes. The cell in the middle goes to the side that
/// has less; in an inner node always to the right, where it leaves its separator to the parent. So neither side of
/// an inner node has more than half, and neither side of leaves more than half and half an entry.
fn middle(shape: Shape, cells: &[Cow<'_, [u8]>], level: u8) -> usize {
    let total = total(shape, cells);
    let mut before = 0;
    for (index, cell) in cells.iter().enumerate() {
        let reached = before + SLOT_BYTES + shape.padded(cell.len());
        if 2 * reached >= total {
            let goes_left = level == 0 && 2 * reached - total < total - 2 * before;
            return index + usize::from(goes_left);
        }
        before = reached;
    }
    cells.len()
}

/// Returns the key that separates the cells before `cut` from the others: in leaves the shortest prefix of the right
/// key that is greater than the left key, in inner nodes the separator of the right child.
fn separator_at(cells: &[Cow<'_, [u8]>], cut: usize, level: u8) -> Result<Vec<u8>, Flaw> {
    let (Some(left), Some(right)) = (cut.checked_sub(1).and_then(|last| cells.get(last)), cells.get(cut))
    else {
        return Err(Flaw::Overfull);
    };
    if level > 0 {
        return Ok(key_of(level, right)?.to_vec());
    }
    let (left, right) = (key_of(level, left)?, key_of(level, right)?);
    if left >= right {
        return Err(Flaw::Order);
    }
    right.get(..=common(left, right)).map(<[u8]>::to_vec).ok_or(Flaw::Order)
}

/// Rewrites two nodes from their cells; changes nothing if they do not fit. Returns the separator.
fn cut_in_two(
    left: &mut Page,
    right: &mut Page,
    level: u8,
    mut cells: Vec<Cow<'_, [u8]>>,
    cut: usize,
) -> Result<Vec<u8>, Flaw> {
    let separator = separator_at(&cells, cut, level)?;
    let (lower, upper) = cells.split_at_mut(cut);
    if let Some(first) = upper.first_mut().filter(|_| level > 0) {
        first.to_mut().truncate(CHILD_BYTES);
    }
    let fits = |page: &Page, cells: &[Cow<'_, [u8]>]| {
        let shape = Shape::of(page.size());
        total(shape, cells) <= shape.space_bytes()
    };
    if !fits(left, lower) || !fits(right, upper) {
        return Err(Flaw::Overfull);
    }
    write_node(right, level, upper)?;
    write_node(left, level, lower)?;
    Ok(separator)
}

//! Sorted entries in several places, read as one sequence.

use std::ops::ControlFlow;

use super::entries::Entries;
use crate::{
    Result,
    access::{LeafView, Seek, Tree, Value},
    store::PrivatePages,
};

/// A sequence of entries in the order of their keys.
#[allow(clippy::large_enum_variant, reason = "all but one are of the larger kind")]
enum Source<'a> {
    /// Those in memory, from an index on.
    Memory(&'a Entries, usize),
    /// Those of a tree, from an index of a leaf on.
    Tree(Tree, LeafView, usize),
}

/// A source that has another entry, with the key of that.
struct Open<'a> {
    source: Source<'a>,
    key: Vec<u8>,
}

impl Open<'_> {
    /// Finds the source's next entry; false at its end.
    fn find(&mut self, pages: &PrivatePages) -> Result<bool> {
        self.key.clear();
        loop {
            match &mut self.source {
                Source::Memory(entries, index) => {
                    let Some((key, _)) = entries.get(*index) else { return Ok(false) };
                    self.key.extend_from_slice(key);
                    return Ok(true);
                }
                Source::Tree(tree, view, index) => {
                    if let Some((key, _)) = view.entry(*index)? {
                        self.key.extend_from_slice(key);
                        return Ok(true);
                    }
                    let Some(upper) = view.upper() else { return Ok(false) };
                    (*view, *index) = (tree.leaf(pages, Seek::At(upper))?, 0);
                }
            }
        }
    }

    /// Gives the value of its entry to `take`, and passes it.
    fn pass<T>(&mut self, pages: &PrivatePages, take: impl FnOnce(&[u8], &[u8]) -> Result<T>) -> Result<T> {
        match &mut self.source {
            Source::Memory(entries, index) => {
                *index += 1;
                take(&self.key, entries.get(*index - 1).map_or(&[], |(_, value)| value))
            }
            Source::Tree(tree, view, index) => {
                *index += 1;
                match view.entry(*index - 1)? {
                    Some((_, Value::Inline(value))) => take(&self.key, value),
                    _ => take(&self.key, &tree.get(pages, &self.key)?.unwrap_or_default()),
                }
            }
        }
    }
}

/// Gives the entries of sorted `entries` and of `runs`, which are trees on `pages`, to `take` in the order of their keys,
/// until it breaks.
pub(super) fn merge<B>(
    pages: &PrivatePages,
    runs: &[Tree],
    entries: &Entries,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<B>>,
) -> Result<ControlFlow<B>> {
    let mut sources = vec![Source::Memory(entries, 0)];
    for run in runs {
        sources.push(Source::Tree(*run, run.leaf(pages, Seek::First)?, 0));
    }
    // The one with the smallest key is the last.
    let mut open: Vec<Open<'_>> = Vec::with_capacity(sources.len());
    for source in sources {
        let mut source = Open { source, key: Vec::new() };
        if source.find(pages)? {
            open.push(source);
        }
    }
    open.sort_by(|a, b| b.key.cmp(&a.key));
    while let Some(mut first) = open.pop() {
        if let ControlFlow::Break(end) = first.pass(pages, &mut take)? {
            return Ok(ControlFlow::Break(end));
        }
        if first.find(pages)? {
            let at = open.partition_point(|other| other.key > first.key);
            open.insert(at, first);
        }
    }
    Ok(ControlFlow::Continue(()))
}

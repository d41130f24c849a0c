//! The buffer: pages that are in memory, of which the one that was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};

/// Pages by number, and when each was used last.
pub struct Buffer {
    frames: usize,
    pages: HashMap<u64, Frame>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

struct Frame {
    used: u64,
    is_changed: bool,
}

/// What using a page takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// A page that has to be written before, since its frame is needed.
    pub write: Option<u64>,
}

impl Buffer {
    /// With so many frames, at least one.
    pub fn new(frames: usize) -> Buffer {
        Buffer { frames: frames.max(1), pages: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Uses a page, and has it there from now on. Returns what that takes, if it was not there.
    pub fn fetch(&mut self, page: u64, changes: bool) -> Option<Miss> {
        self.uses += 1;
        let uses = self.uses;
        if let Some(frame) = self.pages.get_mut(&page) {
            self.by_use.remove(&frame.used);
            (frame.used, frame.is_changed) = (uses, frame.is_changed || changes);
            self.by_use.insert(uses, page);
            return None;
        }
        let mut write = None;
        if self.pages.len() == self.frames
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            write = self.pages.remove(&oldest).filter(|frame| frame.is_changed).map(|_| oldest);
        }
        self.pages.insert(page, Frame { used: uses, is_changed: changes });
        self.by_use.insert(uses, page);
        Some(Miss { write })
    }

    /// The changed pages, which count as written from now on.
    pub fn clean(&mut self) -> Vec<u64> {
        let changed = self.by_use.values().copied().filter(|page| self.pages[page].is_changed).collect();
        self.pages.values_mut().for_each(|frame| frame.is_changed = false);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_used_longest_ago_goes_and_is_written_if_it_was_changed() {
        let mut buffer = Buffer::new(2);
        assert_eq!(buffer.fetch(1, true), Some(Miss { write: None }));
        assert_eq!(buffer.fetch(2, false), Some(Miss { write: None }));
        assert_eq!(buffer.fetch(1, false), None);
        assert_eq!(buffer.fetch(3, false), Some(Miss { write: None }), "2 went");
        assert_eq!(buffer.fetch(2, true), Some(Miss { write: Some(1) }));
        assert_eq!(buffer.fetch(3, true), None);
        assert_eq!(buffer.clean(), [2, 3]);
        assert!(buffer.clean().is_empty());
        assert_eq!(buffer.fetch(4, false), Some(Miss { write: None }));
    }
}

//! Where the keys are that a transaction has said that it will use ([`Transaction::prefetch`]), each until it is used.
//!
//! [`Transaction::prefetch`]: super::Transaction::prefetch

use smallvec::SmallVec;

use crate::{TreeId, access::Place};

/// So many places are kept: a key is looked for among all.
const PLACES_MAX: usize = 32;

/// The places.
#[derive(Default)]
pub(super) struct Ahead(Vec<(TreeId, SmallVec<[u8; 16]>, Place)>);

impl Ahead {
    /// Where a key was, which is not asked again.
    pub fn take(&mut self, tree: TreeId, key: &[u8]) -> Option<Place> {
        // Keys differ in their ends, if at all.
        let end = key.last_chunk::<4>();
        let is_it = |(of, known, _): &(TreeId, SmallVec<[u8; 16]>, Place)| {
            *of == tree && known.last_chunk() == end && known[..] == *key
        };
        let at = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(at).2)
    }

    /// Notes where keys of a tree are. Others that were to be used before and were not are forgotten if these are too
    /// many together.
    pub fn note<'k>(
        &mut self,
        tree: TreeId,
        places: impl ExactSizeIterator<Item = (&'k [u8], Option<Place>)>,
    ) {
        if self.0.len() + places.len() > PLACES_MAX {
            self.0.clear();
        }
        let known = places.filter_map(|(key, place)| Some((tree, SmallVec::from_slice(key), place?)));
        self.0.extend(known.take(PLACES_MAX));
    }
}

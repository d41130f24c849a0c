//! Guesses where the keys are that a transaction uses next, without a search from the root.
//!
//! Two guesses, which the tree checks ([`Place`]): keys that it has said that it will use (`prefetch`) are
//! where they were then; and a key may be on the leaf that was searched last in its tree.

use smallvec::SmallVec;

use crate::{
    TreeId,
    access::{Place, Reach, Search},
};

/// Number of places that are kept: a key is looked for among all.
const PLACES_MAX: usize = 32;
/// Number of trees of which the last leaf is kept.
const REACHES_MAX: usize = 4;

/// The guesses.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Each until its key is used.
    places: Vec<(TreeId, SmallVec<[u8; 16]>, Place)>,
    /// Of each tree one, the newest last.
    reaches: SmallVec<[(TreeId, Reach); REACHES_MAX]>,
}

impl Ahead {
    /// Returns the search for a key, which begins where the key may be.
    pub fn search(&mut self, tree: TreeId, key: &[u8]) -> Search {
        // Keys differ in their ends, if at all.
        let end = key.last_chunk::<4>();
        let is_it = |(of, known, _): &(TreeId, SmallVec<[u8; 16]>, Place)| {
            *of == tree && known.last_chunk() == end && known[..] == *key
        };
        let known = self.places.iter().position(is_it).map(|at| self.places.swap_remove(at).2);
        Search::at(known.or_else(|| {
            let (_, reach) = self.reaches.iter().find(|(of, _)| *of == tree)?;
            reach.place(key)
        }))
    }

    /// Notes the result of a search. Returns where the key is.
    pub fn searched(&mut self, tree: TreeId, key: &[u8], search: Search) -> Option<Place> {
        let place = search.place();
        if let Some(reach) = search.reach(key) {
            match self.reaches.iter().position(|(of, _)| *of == tree) {
                Some(at) => self.reaches[at].1 = reach,
                None => {
                    if self.reaches.len() == REACHES_MAX {
                        self.reaches.remove(0);
                    }
                    self.reaches.push((tree, reach));
                }
            }
        }
        place
    }

    /// Notes where keys of a tree are. Others that were to be used before and were not are forgotten if these are too
    /// many together.
    pub fn note<'k>(
        &mut self,
        tree: TreeId,
        places: impl ExactSizeIterator<Item = (&'k [u8], Option<Place>)>,
    ) {
        if self.places.len() + places.len() > PLACES_MAX {
            self.places.clear();
        }
        let known = places.filter_map(|(key, place)| Some((tree, SmallVec::from_slice(key), place?)));
        self.places.extend(known.take(PLACES_MAX));
    }
}

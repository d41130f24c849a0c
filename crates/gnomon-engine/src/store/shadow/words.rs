//! A map from page numbers to words, made for millions of neighbours: about 19 bytes each, in memory. A large
//! transaction remembers in such a map where its pages are, and a batch where those are that were written before it was
//! closed.

use std::collections::BTreeMap;

/// Number of words that share an allocation.
const GROUP: u64 = 16;

/// A map from numbers to words that are not zero, in the order of numbers.
#[derive(Clone, Default)]
pub(super) struct Words {
    groups: BTreeMap<u64, Box<[u128; GROUP as usize]>>,
    len: usize,
}

fn place(number: u64) -> (u64, usize) {
    (number / GROUP, (number % GROUP) as usize)
}

impl Words {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, number: u64) -> Option<u128> {
        let (group, at) = place(number);
        self.groups.get(&group).map(|words| words[at]).filter(|word| *word != 0)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    /// Sets the word of a number, which is not zero. Returns what it was before.
    pub fn insert(&mut self, number: u64, word: u128) -> Option<u128> {
        debug_assert!(word != 0);
        let (group, at) = place(number);
        let words = self.groups.entry(group).or_default();
        let before = std::mem::replace(&mut words[at], word);
        self.len += usize::from(before == 0);
        (before != 0).then_some(before)
    }

    pub fn remove(&mut self, number: u64) -> Option<u128> {
        let (group, at) = place(number);
        let words = self.groups.get_mut(&group)?;
        let before = std::mem::take(&mut words[at]);
        if words.iter().all(|word| *word == 0) {
            self.groups.remove(&group);
        }
        self.len -= usize::from(before != 0);
        (before != 0).then_some(before)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u128)> {
        self.groups.iter().flat_map(|(group, words)| {
            let numbered = words.iter().enumerate().map(move |(at, word)| (group * GROUP + at as u64, *word));
            numbered.filter(|(_, word)| *word != 0)
        })
    }

    /// Returns the memory that the map takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        // A node of the map is two thirds full on average.
        const GROUP_BYTES: usize = GROUP as usize * 16 + 16 + 24;
        self.groups.len() * GROUP_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Rng;

    #[test]
    fn it_is_a_map() {
        let (mut words, mut model) = (Words::default(), BTreeMap::new());
        let mut rng = Rng::from_seed(3);
        for _ in 0..5000 {
            let number = rng.below(200) * 7 % 300;
            match rng.below(3) {
                0 => assert_eq!(words.remove(number), model.remove(&number)),
                _ => {
                    let word = u128::from(1 + rng.below(100));
                    assert_eq!(words.insert(number, word), model.insert(number, word));
                }
            }
            assert_eq!((words.len(), words.get(number)), (model.len(), model.get(&number).copied()));
        }
        assert!(words.iter().eq(model.iter().map(|(number, word)| (*number, *word))));
        for number in model.keys() {
            words.remove(*number);
        }
        assert!(words.is_empty() && words.bytes() == 0);
    }
}

//! Entries in memory, in any order, to be sorted by their keys.

use crate::access::KeyBytes;

/// Entries, whose bytes lie one after another.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    list: Vec<Entry>,
    /// Number of leading bytes that all keys have in common.
    shared: usize,
    /// True if each key was greater than the one before it.
    is_ascending: Option<bool>,
}

/// The place of an entry, and the bytes that its key is compared by first.
#[derive(Clone, Copy)]
struct Entry {
    head: u64,
    at: u32,
    value_bytes: u32,
    key_bytes: u16,
}

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.list.len() * size_of::<Entry>()
    }

    /// Returns the bytes of memory that they take with another one.
    pub fn bytes_with(&self, key: &[u8], value: &[u8]) -> usize {
        self.bytes() + key.len() + value.len() + size_of::<Entry>()
    }

    /// Adds an entry; all of them must take less than 4 GiB.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        match self.list.last() {
            None => (self.shared, self.is_ascending) = (key.len(), Some(true)),
            Some(last) => {
                let is_greater = self.key(last) < key;
                self.is_ascending = self.is_ascending.map(|so_far| so_far && is_greater);
                let first = self.key(&self.list[0]);
                if first.get(..self.shared) != key.get(..self.shared) {
                    self.shared = first.iter().zip(key).take_while(|(a, b)| a == b).count();
                }
            }
        }
        let (at, value_bytes) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.list.push(Entry { head: 0, at, value_bytes, key_bytes: key.len() as u16 });
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        let at = entry.at as usize;
        &self.bytes[at..at + usize::from(entry.key_bytes)]
    }

    /// Returns the key and the value of an entry.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.list.get(index)?;
        let at = entry.at as usize + usize::from(entry.key_bytes);
        Some((self.key(entry), &self.bytes[at..at + entry.value_bytes as usize]))
    }

    /// Sorts the entries by their keys. Returns the index of the second of two with the same key, if there are such.
    pub fn sort(&mut self) -> Option<usize> {
        if self.is_ascending != Some(false) {
            return None;
        }
        let mut list = std::mem::take(&mut self.list);
        for entry in &mut list {
            entry.head = KeyBytes::of(&self.key(entry)[self.shared..]).head();
        }
        list.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| self.key(a).cmp(self.key(b))));
        self.list = list;
        let mut pairs = self.list.iter().zip(self.list.iter().skip(1));
        let equal = pairs.position(|(a, b)| a.head == b.head && self.key(a) == self.key(b));
        equal.map(|first| first + 1)
    }

    /// Removes all entries; their memory stays for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.is_ascending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::memory::Random;

    #[test]
    fn entries_are_sorted_by_their_keys() {
        let mut random = Random::new(1);
        for (prefix, count) in [(&b""[..], 0), (b"", 1), (b"", 3000), (b"a common beginning ", 3000)] {
            let mut entries = Entries::default();
            let mut expected = Vec::new();
            for number in 0..count {
                let key = [prefix, &random.next_u64().to_be_bytes()[random.below(3)..]].concat();
                entries.push(&key, &[number as u8]);
                expected.push((key, vec![number as u8]));
            }
            expected.sort();
            assert_eq!(entries.sort(), None);
            let sorted = (0..entries.len()).filter_map(|index| entries.get(index));
            assert!(sorted.eq(expected.iter().map(|(key, value)| (&key[..], &value[..]))));
        }
    }

    #[test]
    fn equal_keys_are_told() {
        let mut entries = Entries::default();
        for key in ["b", "a", "c", "a\0", "b"] {
            entries.push(key.as_bytes(), b"");
        }
        assert_eq!(entries.sort(), Some(3));
        entries.clear();
        entries.push(b"a", b"");
        entries.push(b"a", b"");
        assert_eq!(entries.sort(), Some(1));
    }
}

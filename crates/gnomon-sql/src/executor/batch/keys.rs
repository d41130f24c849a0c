//! Keys of rows of a batch, by which they are grouped and joined.

use std::collections::HashMap;

use super::Evaluated;
use crate::executor::HashKey;

/// The key of a row.
pub(in crate::executor) enum Key<'k> {
    /// Of an only value that is an integer, a date, a time or a boolean.
    Integer(i64),
    /// Of any values, as bytes that are equal for equal values.
    Bytes(&'k [u8]),
}

impl<'k> Key<'k> {
    /// Returns the key of a row with these values, in `bytes` if it has to be. NULLs are alike.
    pub(in crate::executor) fn of(values: &[Evaluated<'_>], at: usize, bytes: &'k mut Vec<u8>) -> Key<'k> {
        if let [value] = values
            && let Some(integer) = value.integral(at)
        {
            return Key::Integer(integer);
        }
        bytes.clear();
        values.iter().for_each(|value| value.encode(at, bytes));
        Key::Bytes(bytes)
    }

    /// The memory that it takes in a [`KeyMap`], in bytes.
    pub(in crate::executor) fn bytes(&self) -> usize {
        match self {
            Key::Integer(_) => size_of::<i64>(),
            Key::Bytes(bytes) => bytes.len(),
        }
    }
}

/// What is known of keys. The seed of its hashes is chosen by each process, since keys are data of users.
pub(in crate::executor) struct KeyMap<V> {
    by_integer: HashMap<i64, V, foldhash::fast::RandomState>,
    by_bytes: HashMap<HashKey, V, foldhash::fast::RandomState>,
}

impl<V> Default for KeyMap<V> {
    fn default() -> KeyMap<V> {
        KeyMap { by_integer: HashMap::default(), by_bytes: HashMap::default() }
    }
}

impl<V> KeyMap<V> {
    pub(in crate::executor) fn get(&self, key: &Key<'_>) -> Option<&V> {
        match key {
            Key::Integer(value) => self.by_integer.get(value),
            Key::Bytes(bytes) => self.by_bytes.get(*bytes),
        }
    }

    pub(in crate::executor) fn get_mut(&mut self, key: &Key<'_>) -> Option<&mut V> {
        match key {
            Key::Integer(value) => self.by_integer.get_mut(value),
            Key::Bytes(bytes) => self.by_bytes.get_mut(*bytes),
        }
    }

    pub(in crate::executor) fn insert(&mut self, key: &Key<'_>, value: V) {
        match key {
            Key::Integer(integer) => drop(self.by_integer.insert(*integer, value)),
            Key::Bytes(bytes) => drop(self.by_bytes.insert((*bytes).into(), value)),
        }
    }
}

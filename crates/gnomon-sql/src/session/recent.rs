//! What was used last, by text, within a limit of memory.

use std::{collections::HashMap, sync::Arc};

use crate::memory::{Account, Held};

/// The most memory that all of it may take, in bytes.
const BYTES_MAX: usize = 512 << 10;
/// The most things of one key.
const VARIANTS_MAX: usize = 4;

/// Things that a session has used, by keys. Those of the key that was used least recently are given up first.
pub(super) struct Recent<T> {
    known: HashMap<String, Variants<T>>,
    /// The memory that they take, in bytes.
    bytes: usize,
    /// Number of look-ups.
    look_ups: u64,
}

/// The things of a key.
struct Variants<T> {
    /// The look-up that was for this key last.
    used: u64,
    /// Each with its memory; those used last are at the end.
    variants: Vec<(Arc<T>, Held)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent { known: HashMap::new(), bytes: 0, look_ups: 0 }
    }
}

impl<T> Recent<T> {
    /// Returns the thing of a key that `is_it` is true for.
    pub(super) fn find(&mut self, key: &str, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.look_ups += 1;
        let known = self.known.get_mut(key)?;
        known.used = self.look_ups;
        let found = known.variants.iter().rposition(|(thing, _)| is_it(thing))?;
        known.variants[found..].rotate_left(1);
        known.variants.last().map(|(thing, _)| thing.clone())
    }

    /// True if a key has a thing that `is_it` is true for.
    pub(super) fn has(&self, key: &str, is_it: impl Fn(&T) -> bool) -> bool {
        self.known.get(key).is_some_and(|known| known.variants.iter().any(|(thing, _)| is_it(thing)))
    }

    /// Adds a thing that takes so many bytes, unless the session has no memory for it.
    pub(super) fn add(&mut self, account: &Arc<Account>, key: &str, bytes: usize, thing: Arc<T>) {
        if bytes > BYTES_MAX / 4 {
            return;
        }
        while self.bytes + bytes > BYTES_MAX && !self.known.is_empty() {
            self.forget_oldest();
        }
        let Ok(memory) = account.hold(bytes) else { return };
        let used = self.look_ups;
        let known = self.known.entry(key.to_owned()).or_insert(Variants { used, variants: Vec::new() });
        known.used = used;
        if known.variants.len() == VARIANTS_MAX {
            self.bytes -= known.variants.remove(0).1.bytes();
        }
        self.bytes += bytes;
        known.variants.push((thing, memory));
    }

    fn forget_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
        if let Some(known) = oldest.map(|(key, _)| key.clone()).and_then(|key| self.known.remove(&key)) {
            self.bytes -= known.variants.iter().map(|(_, memory)| memory.bytes()).sum::<usize>();
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.bytes = 0;
    }
}

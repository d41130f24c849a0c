//! Writes of many commits, gathered to be applied together: in the order of trees and keys, each key once.
//!
//! Promises: of what is gathered, each key becomes what the commits have made of it one after another.
//!
//! How: writes are kept as their records have them, and found by entries that are sorted when all are there. Threads
//! share them by ranges of keys: each takes its own out of all entries, and sorts these alone.

use std::{borrow::Cow, cmp::Ordering};

use super::{
    damaged,
    record::{Kind, Next, Stored, StoredCall, Writes},
};
use crate::{
    Result, TreeId,
    access::{Change, KeyBytes},
    op::{Length, Registry, absent},
    recovery::shadow::LeavesChanged,
    sync::{Arc, prefetch},
};

/// Bytes that a write takes in memory at least: an entry, the length of its key, and a kind.
pub(super) const ENTRY_BYTES_MIN: usize = size_of::<Entry>() + 3;
/// Bytes of a key that are in its entry.
const HEAD_BYTES: usize = 8;
/// Number of entries that are looked at for each range of keys, to find ranges that are about as long.
const SAMPLES: usize = 32;

/// Writes of commits, in their order.
#[derive(Default)]
pub(super) struct Gathered {
    /// Keys behind their lengths (two bytes, little-endian), each followed by the kind and the body of its write.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A write, as a number: one of an earlier key is smaller, and of one key, of an earlier commit. Of two long keys that
/// begin alike that is not so.
///
/// From the highest bit: the tree (27 bits), the first bytes of the key with zeros behind them (64), how many bytes
/// it has, or one more than those if it is long (4), where it is, since later writes are further behind (32), and 1
/// if the write is blind: it does not look at what is there (1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    const TREE_MAX: u64 = (1 << 27) - 1;

    /// None of a tree with a number that is too large.
    fn new(tree: TreeId, key: &[u8], at: u32, is_blind: bool) -> Option<Entry> {
        let length = key.len().min(HEAD_BYTES + 1) as u128;
        let place = u128::from(tree.0) << 68 | u128::from(KeyBytes::of(key).head()) << 4 | length;
        let entry = Entry(place << 33 | u128::from(at) << 1 | u128::from(is_blind));
        (tree.0 <= Entry::TREE_MAX).then_some(entry)
    }

    fn tree(self) -> TreeId {
        TreeId((self.place() >> 68) as u64)
    }

    /// The tree and the key, unless that is long.
    fn place(self) -> u128 {
        self.0 >> 33
    }

    fn is_long(self) -> bool {
        self.place() as usize & 0xf > HEAD_BYTES
    }

    fn at(self) -> usize {
        (self.0 >> 1) as u32 as usize
    }

    fn is_blind(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Gathered {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Adds the writes of the next commit, if it neither makes nor drops trees, nor has what entries have no room
    /// for. Returns true if they were added.
    ///
    /// # Errors
    /// A text that says what is wrong with the record.
    pub fn add(&mut self, mut writes: Writes<'_>) -> Result<bool, &'static str> {
        let before = (self.bytes.len(), self.entries.len());
        while let Some(next) = writes.next()? {
            let key = match next {
                Next::Key { tree, key, kind, body } => {
                    let at = u32::try_from(self.bytes.len()).ok();
                    let is_blind = !matches!(kind, Kind::Apply);
                    at.and_then(|at| Some((Entry::new(tree, key, at, is_blind)?, key, kind, body)))
                }
                _ => None,
            };
            let Some((entry, key, kind, body)) = key else {
                self.bytes.truncate(before.0);
                self.entries.truncate(before.1);
                return Ok(false);
            };
            let key_bytes = u16::try_from(key.len()).map_err(|_| "a key is too long")?;
            self.bytes.extend_from_slice(&key_bytes.to_le_bytes());
            self.bytes.extend_from_slice(key);
            self.bytes.push(kind as u8);
            self.bytes.extend_from_slice(body);
            self.entries.push(entry);
        }
        Ok(true)
    }

    /// Forgets all writes, and keeps the memory unless it is more than so many bytes.
    pub fn clear(&mut self, bytes_max: usize) {
        if self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() > bytes_max {
            *self = Gathered::default();
        }
        self.bytes.clear();
        self.entries.clear();
    }

    /// Splits the writes into about so many ranges of keys.
    pub fn parts(self: &Arc<Self>, parts: usize) -> Vec<Part> {
        if self.is_empty() {
            return Vec::new();
        }
        let step = (self.entries.len() / (parts * SAMPLES)).max(1);
        let mut samples: Vec<Entry> = self.entries.iter().step_by(step).copied().collect();
        samples.sort_unstable_by(|a, b| self.compare_keys(*a, *b));
        let mut ends: Vec<Entry> = (1..parts).map(|part| samples[part * samples.len() / parts]).collect();
        ends.dedup_by(|a, b| self.compare_keys(*a, *b).is_eq());
        let froms = std::iter::once(None).chain(ends.iter().copied().map(Some));
        let tos = ends.iter().copied().map(Some).chain([None]);
        froms.zip(tos).map(|(from, to)| Part { all: self.clone(), from, to }).collect()
    }

    /// Returns the key, and the bytes behind it.
    fn parts_of(&self, entry: Entry) -> (&[u8], &[u8]) {
        let (length, behind) = self.bytes[entry.at()..].split_at(2);
        behind.split_at(u16::from_le_bytes([length[0], length[1]]).into())
    }

    /// Prefetches the key and its write, or the beginning of that.
    fn prefetch(&self, entry: Entry) {
        const BYTES: usize = 128;
        let bytes = &self.bytes[entry.at()..];
        prefetch(&bytes[..bytes.len().min(BYTES)]);
    }

    fn key(&self, entry: Entry) -> &[u8] {
        self.parts_of(entry).0
    }

    /// Returns the write of a key. Its bytes were checked when it was added.
    fn write(&self, entry: Entry) -> Stored<'_> {
        let (_, behind) = self.parts_of(entry);
        Kind::of(behind[0]).and_then(|kind| Stored::of(kind, &behind[1..])).expect("it was read when it came")
    }

    fn compare_keys(&self, a: Entry, b: Entry) -> Ordering {
        a.place().cmp(&b.place()).then_with(|| match a.is_long() {
            true => self.key(a).cmp(self.key(b)),
            false => Ordering::Equal,
        })
    }
}

/// The writes of a range of keys.
pub(super) struct Part {
    all: Arc<Gathered>,
    /// The range begins with the key of `from`, and ends before that of `to`.
    from: Option<Entry>,
    to: Option<Entry>,
}

impl Part {
    /// Returns its writes in the order of trees and keys, and those of a key in the order of commits.
    pub fn sorted(&self) -> Sorted<'_> {
        let all = &*self.all;
        let mut entries: Vec<Entry> = match (&self.from, &self.to) {
            (None, None) => all.entries.clone(),
            (from, to) => {
                let is_within = |entry: &&Entry| {
                    from.is_none_or(|from| all.compare_keys(**entry, from).is_ge())
                        && to.is_none_or(|to| all.compare_keys(**entry, to).is_lt())
                };
                all.entries.iter().filter(is_within).copied().collect()
            }
        };
        // As numbers first: that is several times as fast, and most keys are not long.
        entries.sort_unstable();
        for alike in entries.chunk_by_mut(|a, b| a.place() == b.place()).filter(|alike| alike[0].is_long()) {
            alike.sort_unstable_by(|a, b| all.compare_keys(*a, *b).then(a.cmp(b)));
        }
        Sorted { all, entries }
    }
}

/// Writes in the order of trees and keys.
pub(super) struct Sorted<'a> {
    all: &'a Gathered,
    entries: Vec<Entry>,
}

impl<'a> Sorted<'a> {
    /// Returns runs with the writes of so many keys each, the last one of fewer.
    pub fn runs(&self, keys_max: usize) -> impl Iterator<Item = Run<'_>> {
        let mut rest = &self.entries[..];
        std::iter::from_fn(move || {
            let keys = rest.chunk_by(|a, b| self.all.compare_keys(*a, *b).is_eq());
            // Many are on their way from memory at a time here, and one after another where each is read.
            let fetch = |of_key: &[Entry]| {
                self.all.prefetch(of_key[of_key.len() - 1]);
                of_key.len()
            };
            let count = keys.take(keys_max).map(fetch).sum();
            let (entries, others) = rest.split_at(count);
            rest = others;
            (count > 0).then_some(Run { all: self.all, entries })
        })
    }
}

/// Some writes in the order of trees and keys, all of each key.
pub(super) struct Run<'a> {
    all: &'a Gathered,
    entries: &'a [Entry],
}

impl<'a> Run<'a> {
    /// Returns each tree, with the writes of its keys.
    pub fn trees(&self) -> impl Iterator<Item = (TreeId, Run<'a>)> {
        let all = self.all;
        let trees = self.entries.chunk_by(|a, b| a.tree() == b.tree());
        trees.map(move |entries| (entries[0].tree(), Run { all, entries }))
    }

    /// Returns the writes of each key of a tree.
    pub fn keys(&self) -> impl Iterator<Item = OfKey<'a>> {
        let all = self.all;
        let keys = self.entries.chunk_by(move |a, b| all.compare_keys(*a, *b).is_eq());
        keys.map(move |entries| OfKey { all, entries })
    }
}

/// The writes of a key, in the order of commits.
pub(super) struct OfKey<'a> {
    all: &'a Gathered,
    entries: &'a [Entry],
}

impl<'a> OfKey<'a> {
    pub fn key(&self) -> &'a [u8] {
        self.all.key(self.entries[self.entries.len() - 1])
    }

    /// Returns the writes that matter: none before the last blind one.
    fn effective(&self) -> impl Iterator<Item = Stored<'a>> {
        // A hot row has more of them than the processor keeps at hand.
        const AHEAD: usize = 8;
        let (all, entries) = (self.all, self.entries);
        let entries = &entries[entries.iter().rposition(|entry| entry.is_blind()).unwrap_or(0)..];
        (0..entries.len()).map(move |at| {
            if let Some(later) = entries.get(at + AHEAD) {
                all.prefetch(*later);
            }
            all.write(entries[at])
        })
    }

    /// Adds what the writes change to `changed`.
    ///
    /// # Errors
    /// [`NoSuchOperation`](crate::Error::NoSuchOperation).
    pub fn count(&self, operations: &Registry, changed: &mut LeavesChanged) -> Result<()> {
        let (mut value_bytes, mut keeps_length) = (None, true);
        for write in self.effective() {
            match write {
                Stored::Put(value) => (value_bytes, keeps_length) = (Some(value.len()), false),
                Stored::Delete => (value_bytes, keeps_length) = (None, false),
                Stored::Apply { value_bytes_max, mut calls } => {
                    value_bytes = value_bytes.max(Some(value_bytes_max));
                    while let Some(StoredCall { family, name, args }) = calls.next().map_err(damaged)? {
                        let operation = operations.get(family, name)?;
                        keeps_length &= operation.operation.length(args) == Length::Same;
                    }
                }
            }
        }
        changed.add(self.key(), value_bytes, keeps_length);
        Ok(())
    }

    /// Returns the change that the writes make to the value that is there.
    ///
    /// # Errors
    /// Those of operations.
    pub fn change(&self, operations: &Registry, there: Option<&[u8]>) -> Result<Change<'a>> {
        let mut value: Option<Cow<'a, [u8]>> = None;
        // What operations see as long as there is none yet.
        let mut there = there;
        for write in self.effective() {
            match write {
                Stored::Put(put) => value = Some(Cow::Borrowed(put)),
                Stored::Delete => (value, there) = (None, None),
                Stored::Apply { mut calls, .. } => {
                    while let Some(StoredCall { family, name, args }) = calls.next().map_err(damaged)? {
                        let operation = &operations.get(family, name)?.operation;
                        let before = value.as_deref().or(there).ok_or_else(absent)?;
                        value = Some(Cow::Owned(operation.apply(args, before)?));
                    }
                }
            }
        }
        let unchanged = || there.map(|there| Cow::Owned(there.to_vec()));
        Ok(value.or_else(unchanged).map_or(Change::Delete, Change::Put))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        access::TreeOptions,
        bytes::put_varint,
        env::Rng,
        op::{BoundCall, number},
        page::PageSize,
        recovery::logical_wal::record::{self, Logged},
        write_set::WriteSet,
    };

    fn add(operations: &Registry, by: i128) -> BoundCall {
        let call = number::add_within(by, -1_000_000, 1_000_000);
        let operation = operations.get(call.family, call.operation).unwrap().clone();
        BoundCall { operation, args: call.args.into() }
    }

    fn record_of(writes: &WriteSet) -> Vec<u8> {
        let mut record = Vec::new();
        put_varint(&mut record, 1);
        record.extend(record::encode(&Logged::Writes(writes)));
        record
    }

    fn gather(all: &mut Gathered, writes: &WriteSet) -> bool {
        let record = record_of(writes);
        let (_, stored) = record::decode(&record).unwrap();
        all.add(stored).unwrap()
    }

    /// Keys of which some are the beginning of others, with the same first bytes or other ones.
    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let mut key = vec![b'k'; [0, 3, 7, 8, 9, 12][rng.below(6) as usize]];
        key.extend((0..rng.below(3)).map(|_| rng.below(3) as u8));
        key
    }

    #[test]
    fn each_key_becomes_what_the_commits_make_of_it_one_after_another() {
        let operations = Registry::new(&[]).unwrap();
        let seed = 17;
        let mut rng = Rng::from_seed(seed);
        for round in 0..200_i64 {
            let mut there: BTreeMap<(TreeId, Vec<u8>), Vec<u8>> = BTreeMap::new();
            for _ in 0..rng.below(60) {
                there.insert((TreeId(rng.below(3)), random_key(&mut rng)), round.to_le_bytes().to_vec());
            }
            let (before, mut all) = (there.clone(), Gathered::default());
            for _ in 0..rng.below(200) {
                let mut writes = WriteSet::default();
                for _ in 0..1 + rng.below(4) {
                    let (tree, key) = (TreeId(rng.below(3)), random_key(&mut rng));
                    if writes.get(tree, &key).is_some() {
                        continue;
                    }
                    let place = (tree, key.clone());
                    match rng.below(4) {
                        0 => {
                            writes.put(tree, &key, None);
                            there.remove(&place);
                        }
                        1 => {
                            let value = rng.below(1000).to_le_bytes();
                            writes.put(tree, &key, Some(&value));
                            there.insert(place, value.to_vec());
                        }
                        _ => {
                            let Some(value) = there.get_mut(&place) else { continue };
                            let call = add(&operations, rng.below(9).into());
                            *value = call.operation.operation.apply(&call.args, value).unwrap();
                            writes.apply(tree, &key, call, 8, None);
                        }
                    }
                }
                assert!(gather(&mut all, &writes));
            }
            let mut found = before.clone();
            let mut last: Option<(TreeId, Vec<u8>)> = None;
            for part in Arc::new(all).parts(1 + rng.below(6) as usize) {
                for run in part.sorted().runs(1 + rng.below(9) as usize) {
                    for (tree, of_tree) in run.trees() {
                        for of_key in of_tree.keys() {
                            let place = (tree, of_key.key().to_vec());
                            assert!(last.as_ref().is_none_or(|last| *last < place), "seed {seed}: {place:?}");
                            match of_key.change(&operations, found.get(&place).map(Vec::as_slice)).unwrap() {
                                Change::Put(value) => drop(found.insert(place.clone(), value.into_owned())),
                                Change::Delete => drop(found.remove(&place)),
                                Change::Keep => {}
                            }
                            last = Some(place);
                        }
                    }
                }
            }
            assert_eq!(found, there, "seed {seed}, round {round}");
        }
    }

    #[test]
    fn what_entries_have_no_room_for_is_not_gathered() {
        let mut all = Gathered::default();
        let mut writes = WriteSet::default();
        writes.put(TreeId(Entry::TREE_MAX), b"k", Some(b"v"));
        assert!(gather(&mut all, &writes));
        writes.put(TreeId(Entry::TREE_MAX + 1), b"k", Some(b"v"));
        let bytes = all.memory_bytes();
        assert!(!gather(&mut all, &writes));
        assert_eq!((all.len(), all.memory_bytes()), (1, bytes));
        assert!(ENTRY_BYTES_MIN <= bytes);
    }

    #[test]
    fn operations_follow_what_was_put_and_need_something_that_is_there() {
        let operations = Registry::new(&[]).unwrap();
        let mut all = Gathered::default();
        let mut then = |change: &dyn Fn(&mut WriteSet)| {
            let mut writes = WriteSet::default();
            change(&mut writes);
            assert!(gather(&mut all, &writes));
        };
        let tree = TreeId(1);
        then(&|writes| writes.put(tree, b"put", Some(&5_i64.to_le_bytes())));
        then(&|writes| writes.apply(tree, b"put", add(&operations, 3), 8, None));
        then(&|writes| writes.apply(tree, b"there", add(&operations, 4), 8, None));
        then(&|writes| writes.apply(tree, b"there", add(&operations, 5), 8, None));
        then(&|writes| writes.put(tree, b"gone", Some(b"x")));
        then(&|writes| writes.put(tree, b"gone", None));
        then(&|writes| writes.apply(tree, b"gone", add(&operations, 5), 8, None));
        let parts = Arc::new(all).parts(1);
        let sorted = parts[0].sorted();
        let run = sorted.runs(usize::MAX).next().unwrap();
        let (_, of_tree) = run.trees().next().unwrap();
        let ten = 10_i64.to_le_bytes();
        let made: Vec<_> =
            of_tree.keys().map(|key| (key.key(), key.change(&operations, Some(&ten)).ok())).collect();
        let value = |number: i64| Some(Change::Put(number.to_le_bytes().to_vec().into()));
        let expected: [(&[u8], _); 3] = [(b"gone", None), (b"put", value(8)), (b"there", value(19))];
        assert_eq!(made, expected);
    }

    #[test]
    fn what_makes_trees_is_not_gathered() {
        let mut all = Gathered::default();
        let mut writes = WriteSet::default();
        writes.put(TreeId(1), b"a", Some(b"1"));
        assert!(gather(&mut all, &writes));
        let before = (all.len(), all.memory_bytes());
        writes.create_tree(TreeId(2), TreeOptions { page_size: PageSize::MIN, ..TreeOptions::default() });
        assert!(!gather(&mut all, &writes));
        assert_eq!((all.len(), all.memory_bytes()), before);
    }
}

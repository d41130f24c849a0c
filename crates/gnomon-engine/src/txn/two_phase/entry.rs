//! The stored form of a prepared transaction: its write set, and the locks that it holds.
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, now 4; 3 is the same without flag 16 and the modes for it, 2 is that without operations |
//! | 8 | length of the entry, from the version to the checksum |
//! | 12 times 8 | logical pages of each size, from 512 bytes on, that change at most when the transaction ends |
//! | 4, n | note: its length, the bytes that the owner gave |
//! | 4 | trees that are written; for each: |
//! | 8, 8 | its number, how many of its keys are written; for each of these, in their order: |
//! | 1 | flags: 1 a value is put, 2 the key is pending, 4 the key is locked exclusively, 8 operations are applied, 16 the key is locked exclusively but for requests that want it to stay; neither 1 nor 8: the key is deleted |
//! | 2, n | key: length, bytes |
//! | 4, n | value, if one is put: length, bytes |
//! | 4, 4 | if operations are applied: the longest value that they can make, in bytes; how many; for each of these: |
//! | 1, n, 1, n, 4, n | its family and its name, its arguments: lengths and bytes |
//! | 4 | if operations are applied: of how many quantities of the key something is held; for each: |
//! | 4, 5 times 16 | its number; the net of its changes, the least and the greatest that may be left of them, the least and the greatest value without them that others leave |
//! | 8 | further locks; for each: |
//! | 1, 1, 1, 8 | lock table, mode, what is locked (0 the tree, 1 a key, 2 what is after the last key), the tree's number |
//! | 2, n | key, if one is locked: length, bytes |
//! | 4 | crc32c of all bytes before |

use crate::{
    Result, TreeId, TxnId, VALUE_BYTES_MAX,
    bytes::{Bytes, SHORT},
    lock::{GAP_MODES, Hold, KEY_MODES, LockName, LockOwner, Mode, Part, TREE_MODES, TableId, key_mode},
    mvcc::{GAPS, KEYS, NAMES, TREES},
    op::{self, BoundCall, Calls, Registered, Registry},
    page::{PageCounts, SIZES},
    recovery::ENTRY_PART_BYTES,
    sync::Arc,
    write_set::{Write, WriteSet},
};

const VERSION: u8 = 4;
/// The oldest version that is read.
const VERSION_BEFORE: u8 = 2;
/// Where the length stands, and how long the entry is without what it says.
const LENGTH_AT: usize = 1;
const SUM_BYTES: usize = 4;
/// No transaction changes more pages: a damaged entry must not make the file grow without bound.
const PAGES_MAX: u64 = 1 << 40;

const PUT: u8 = 1;
const PENDING: u8 = 2;
const LOCKED: u8 = 4;
const APPLIED: u8 = 8;
const LOCKED_BUT_KEY: u8 = 16;

/// Bytes of a hold beside its quantity's number.
const HOLD_BYTES: usize = 5 * 16;

/// A lock, with a name that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldLock {
    pub table: TableId,
    pub mode: Mode,
    pub tree: TreeId,
    pub part: HeldPart,
}

/// The part of a tree that is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeldPart {
    Whole,
    Key(Box<[u8]>),
    End,
}

impl HeldLock {
    fn new(name: LockName<'_>, mode: Mode) -> HeldLock {
        let part = match name.part {
            Part::Whole => HeldPart::Whole,
            Part::Key(key) => HeldPart::Key(key.into()),
            Part::End => HeldPart::End,
        };
        HeldLock { table: name.table, mode, tree: TreeId(name.space), part }
    }

    pub fn name(&self) -> LockName<'_> {
        match &self.part {
            HeldPart::Whole => LockName::whole(self.table, self.tree.0),
            HeldPart::Key(key) => LockName::key(self.table, self.tree.0, key),
            HeldPart::End => LockName::end(self.table, self.tree.0),
        }
    }
}

/// The parts of a transaction that are stored, by reference.
pub(super) struct Outgoing<'a> {
    /// Pages that change at most when the transaction ends.
    pub pages: PageCounts,
    note: &'a [u8],
    writes: &'a WriteSet,
    held: &'a LockOwner,
    /// The locks that do not follow from the write set.
    locks: Vec<HeldLock>,
    /// True of a key that the transaction has made pending.
    is_pending: &'a dyn Fn(TreeId, &[u8]) -> bool,
}

/// The parts of a transaction that were stored.
#[derive(Default)]
pub(super) struct Entry {
    pub pages: PageCounts,
    pub note: Box<[u8]>,
    pub writes: WriteSet,
    pub pending: Vec<(TreeId, Box<[u8]>)>,
    pub locks: Vec<HeldLock>,
    /// Holds on quantities: the tree, the key, the quantity's number, the hold.
    pub holds: Vec<(TreeId, Box<[u8]>, u32, Hold)>,
}

impl<'a> Outgoing<'a> {
    pub fn new(
        writes: &'a WriteSet,
        held: &'a LockOwner,
        note: &'a [u8],
        is_pending: &'a dyn Fn(TreeId, &[u8]) -> bool,
    ) -> Outgoing<'a> {
        let mut locks = Vec::new();
        held.visit_held(|name, mode| {
            let of_write = match (name.table, name.part) {
                (KEYS, Part::Key(key)) => match writes.get(TreeId(name.space), key) {
                    // Operations leave a shared mode, also if they were replaced behind a lock on the whole tree.
                    Some(_) => key_mode::is_alone(mode) || op::is_shared(mode),
                    None => false,
                },
                _ => false,
            };
            if !of_write && name.table != NAMES {
                locks.push(HeldLock::new(name, mode));
            }
        });
        Outgoing { pages: PageCounts::default(), note, writes, held, locks, is_pending }
    }

    /// Returns the bytes of the entry.
    pub fn length(&self) -> u64 {
        let writes = self.writes.trees().map(|(tree, writes)| {
            let entries = writes.entries().map(|(key, write)| {
                let rest = match write {
                    Write::Put(value) => 4 + value.len(),
                    Write::Delete => 0,
                    Write::Apply(calls) => {
                        let calls = calls.iter().map(|BoundCall { operation, args }| {
                            let names = operation.family.len() + operation.operation.name().len();
                            1 + 1 + names + 4 + args.len()
                        });
                        let holds = self.held.claimed(LockName::key(KEYS, tree.0, key)).len();
                        4 + 4 + calls.sum::<usize>() + 4 + holds * (4 + HOLD_BYTES)
                    }
                };
                1 + 2 + key.len() + rest
            });
            (8 + 8 + entries.sum::<usize>()) as u64
        });
        let locks = self.locks.iter().map(|lock| match &lock.part {
            HeldPart::Key(key) => (3 + 8 + 2 + key.len()) as u64,
            HeldPart::Whole | HeldPart::End => 3 + 8,
        });
        let fixed = 1 + 8 + 8 * SIZES + 4 + self.note.len() + 4 + 8 + SUM_BYTES;
        fixed as u64 + writes.sum::<u64>() + locks.sum::<u64>()
    }

    /// Returns the entry in parts of [`ENTRY_PART_BYTES`], the last one shorter.
    pub fn parts(&self) -> Result<Vec<Vec<u8>>> {
        let mut parts = Vec::new();
        self.encode(ENTRY_PART_BYTES, &mut |part| {
            parts.push(part.to_vec());
            Ok(())
        })?;
        Ok(parts)
    }

    /// Writes the entry in parts of `part_bytes`, the last one shorter.
    fn encode(&self, part_bytes: usize, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut parts = Parts { part_bytes, buffer: Vec::new(), sum: 0, emit };
        self.write(&mut parts)?;
        parts.finish()
    }

    fn write(&self, out: &mut Parts<'_>) -> Result<()> {
        out.put(&[VERSION])?;
        out.put(&self.length().to_le_bytes())?;
        self.pages.to_array().iter().try_for_each(|count| out.put(&count.to_le_bytes()))?;
        out.put_long(self.note)?;
        out.put(&(self.writes.trees().count() as u32).to_le_bytes())?;
        for (tree, writes) in self.writes.trees() {
            out.put(&tree.0.to_le_bytes())?;
            out.put(&(writes.keys.len() as u64).to_le_bytes())?;
            for (key, write) in writes.entries() {
                let mode = self.held.held_mode(LockName::key(KEYS, tree.0, key));
                let flags = [
                    (matches!(write, Write::Put(_)), PUT),
                    ((self.is_pending)(tree, key), PENDING),
                    (matches!(mode, Some(key_mode::X | key_mode::FU)), LOCKED),
                    (mode == Some(key_mode::NKU), LOCKED_BUT_KEY),
                    (matches!(write, Write::Apply(_)), APPLIED),
                ];
                out.put(&[flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum()])?;
                out.put_short(key)?;
                match write {
                    Write::Put(value) => out.put_long(value)?,
                    Write::Delete => {}
                    Write::Apply(calls) => self.write_calls(out, tree, key, calls)?,
                }
            }
        }
        out.put(&(self.locks.len() as u64).to_le_bytes())?;
        for lock in &self.locks {
            let part = match lock.part {
                HeldPart::Whole => 0,
                HeldPart::Key(_) => 1,
                HeldPart::End => 2,
            };
            out.put(&[lock.table.index() as u8, lock.mode.index() as u8, part])?;
            out.put(&lock.tree.0.to_le_bytes())?;
            if let HeldPart::Key(key) = &lock.part {
                out.put_short(key)?;
            }
        }
        Ok(())
    }
}

impl Outgoing<'_> {
    fn write_calls(&self, out: &mut Parts<'_>, tree: TreeId, key: &[u8], calls: &Calls) -> Result<()> {
        out.put(&(calls.value_bytes_max as u32).to_le_bytes())?;
        out.put(&(calls.iter().len() as u32).to_le_bytes())?;
        for BoundCall { operation, args } in calls.iter() {
            for name in [operation.family, operation.operation.name()] {
                out.put(&[name.len() as u8])?;
                out.put(name.as_bytes())?;
            }
            out.put_long(args)?;
        }
        let holds = self.held.claimed(LockName::key(KEYS, tree.0, key));
        out.put(&(holds.len() as u32).to_le_bytes())?;
        for (quantity, Hold { net, low, high, floor, ceiling, .. }) in holds {
            out.put(&quantity.to_le_bytes())?;
            [net, low, high, floor, ceiling].iter().try_for_each(|number| out.put(&number.to_le_bytes()))?;
        }
        Ok(())
    }
}

/// A writer that cuts an entry into parts.
struct Parts<'a> {
    part_bytes: usize,
    buffer: Vec<u8>,
    sum: u32,
    emit: &'a mut dyn FnMut(&[u8]) -> Result<()>,
}

impl Parts<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.cut(bytes)
    }

    fn cut(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.part_bytes - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.part_bytes {
                (self.emit)(&self.buffer)?;
                self.buffer.clear();
            }
        }
        Ok(())
    }

    fn put_short(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(&(bytes.len() as u16).to_le_bytes())?;
        self.put(bytes)
    }

    fn put_long(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(&(bytes.len() as u32).to_le_bytes())?;
        self.put(bytes)
    }

    fn finish(mut self) -> Result<()> {
        self.cut(&self.sum.to_le_bytes())?;
        match self.buffer.is_empty() {
            true => Ok(()),
            false => (self.emit)(&self.buffer),
        }
    }
}

impl Entry {
    /// Reads an entry; `bind` finds operations by their names. The outer error is that of `bind`; the inner one is a
    /// text that says what is wrong with the entry.
    pub fn decode(
        bytes: &[u8],
        bind: &dyn Fn(&str, &str) -> Result<Arc<Registered>>,
    ) -> Result<Result<Entry, &'static str>> {
        let mut unknown = None;
        let entry = Entry::decode_with(bytes, &mut |family, name| {
            bind(family, name).map_err(|error| unknown = Some(error)).ok()
        });
        unknown.map_or(Ok(entry), Err)
    }

    fn decode_with(
        bytes: &[u8],
        bind: &mut dyn FnMut(&str, &str) -> Option<Arc<Registered>>,
    ) -> Result<Entry, &'static str> {
        let mut rest = Bytes::new(bytes);
        if !(VERSION_BEFORE..=VERSION).contains(&rest.byte()?) {
            return Err("its version is not known");
        }
        if rest.u64()? != bytes.len() as u64 {
            return Err("it is not all there");
        }
        let (whole, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or(SHORT)?;
        if crc32c::crc32c(whole) != u32::from_le_bytes(*sum) {
            return Err("its checksum is wrong");
        }
        let mut rest = Bytes::new(whole.get(LENGTH_AT + 8..).ok_or(SHORT)?);
        let mut pages = [0; SIZES];
        for count in &mut pages {
            *count = rest.u64()?;
            if *count > PAGES_MAX {
                return Err("it asks for more pages than there can be");
            }
        }
        let pages = PageCounts::from_array(pages);
        let mut entry = Entry { pages, note: rest.long()?.into(), ..Entry::default() };
        for _ in 0..rest.u32()? {
            let tree = TreeId(rest.u64()?);
            for _ in 0..rest.u64()? {
                let flags = rest.byte()?;
                if flags & !(PUT | PENDING | LOCKED | APPLIED | LOCKED_BUT_KEY) != 0
                    || flags & (PUT | APPLIED) == PUT | APPLIED
                {
                    return Err("a write has flags that are not known");
                }
                let key = rest.key()?;
                let value = if flags & PUT != 0 { Some(rest.long()?) } else { None };
                if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
                    return Err("a value is too long");
                }
                if flags & PENDING != 0 {
                    entry.pending.push((tree, key.into()));
                }
                for (flag, mode) in [(LOCKED, key_mode::X), (LOCKED_BUT_KEY, key_mode::NKU)] {
                    if flags & flag != 0 {
                        entry.locks.push(HeldLock::new(LockName::key(KEYS, tree.0, key), mode));
                    }
                }
                if flags & APPLIED == 0 {
                    entry.writes.put(tree, key, value);
                    continue;
                }
                let value_bytes_max = rest.u32()? as usize;
                if value_bytes_max > VALUE_BYTES_MAX {
                    return Err("a value is too long");
                }
                for _ in 0..rest.u32()? {
                    let (family, name) = (rest.name()?, rest.name()?);
                    let args = rest.long()?.into();
                    let operation = bind(family, name).ok_or("an operation is not known")?;
                    if flags & (LOCKED | LOCKED_BUT_KEY) == 0 {
                        entry.locks.push(HeldLock::new(LockName::key(KEYS, tree.0, key), operation.mode));
                    }
                    entry.writes.apply(tree, key, BoundCall { operation, args }, value_bytes_max, None);
                }
                for _ in 0..rest.u32()? {
                    let quantity = rest.u32()?;
                    let mut numbers = [0; 5];
                    for number in &mut numbers {
                        *number = rest.array().map(i128::from_le_bytes)?;
                    }
                    let [net, low, high, floor, ceiling] = numbers;
                    if low > net || net > high {
                        return Err("a quantity is changed by more than it may be");
                    }
                    let hold = Hold { txn: TxnId(0), net, low, high, floor, ceiling };
                    entry.holds.push((tree, key.into(), quantity, hold));
                }
            }
        }
        for _ in 0..rest.u64()? {
            entry.locks.push(read_lock(&mut rest)?);
        }
        if rest.is_empty() { Ok(entry) } else { Err("there is more in it than it says") }
    }
}

/// Checks an entry, whatever operations there are. The inner error is a text that says what is wrong with it.
pub(crate) fn check_entry(bytes: &[u8]) -> Result<Result<(), &'static str>> {
    let any = Registry::new(&[])?.any().clone();
    Ok(Entry::decode_with(bytes, &mut |_, _| Some(any.clone())).map(|_| ()))
}

fn read_lock(bytes: &mut Bytes<'_>) -> Result<HeldLock, &'static str> {
    let [table, mode, part] = bytes.array()?;
    let (table, modes) = [(TREES, TREE_MODES), (KEYS, KEY_MODES), (GAPS, GAP_MODES)]
        .into_iter()
        .find(|(known, _)| known.index() == usize::from(table))
        .ok_or("a lock is of no table")?;
    if usize::from(mode) >= modes.count() {
        return Err("a lock has no mode");
    }
    let tree = TreeId(bytes.u64()?);
    let part = match part {
        0 => HeldPart::Whole,
        1 => HeldPart::Key(bytes.key()?.into()),
        2 => HeldPart::End,
        _ => return Err("a lock is on nothing that is known"),
    };
    Ok(HeldLock { table, mode: Mode::new(usize::from(mode)), tree, part })
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        TxnId,
        env::{ManualClock, Rng},
        lock::{LockManager, LockTable, WaitOptions, gap_mode, tree_mode},
        sync::Arc,
    };

    fn operations() -> Registry {
        Registry::new(&[]).unwrap()
    }

    fn decode(bytes: &[u8]) -> Result<Entry, &'static str> {
        let operations = operations();
        Entry::decode(bytes, &|family, name| operations.get(family, name).cloned()).expect("they are known")
    }

    fn locks() -> LockOwner {
        let tables = [
            LockTable::new("tree", TREE_MODES).by_thread(),
            LockTable::new("key", operations().key_modes()),
            LockTable::new("gap", GAP_MODES),
        ];
        LockManager::new(tables, Arc::new(ManualClock::default())).owner(TxnId(1))
    }

    /// A random transaction's entry, in parts, and what must come back of it.
    fn random(rng: &mut Rng, part_bytes: usize) -> (Vec<Vec<u8>>, Entry) {
        let mut owner = locks();
        let mut expected = Entry {
            pages: PageCounts::from_array(std::array::from_fn(|_| rng.below(1 << 30))),
            ..Entry::default()
        };
        expected.note = vec![7; rng.below(30) as usize].into();
        let options = WaitOptions::default();
        for _ in 0..rng.below(30) {
            let tree = TreeId(1 + rng.below(3));
            let mut key = vec![b'k'; rng.below(20) as usize];
            key.push(rng.below(9) as u8);
            owner.lock(LockName::whole(TREES, tree.0), tree_mode::IX, &options).unwrap();
            let name = LockName::key(KEYS, tree.0, &key);
            match rng.below(6) {
                5 if owner.held_mode(name).is_none() && expected.writes.get(tree, &key).is_none() => {
                    let call = op::number::add_within(rng.below(9).into(), -5, 100);
                    let operation = operations().get(call.family, call.operation).unwrap().clone();
                    owner.lock(name, operation.mode, &options).unwrap();
                    let claims = operation.operation.claims(&call.args, &[0; 8]).unwrap();
                    assert_eq!(owner.claim(name, &claims, false, &options).unwrap(), None);
                    let holds = owner.claimed(name).into_iter();
                    expected.holds.extend(holds.map(|(quantity, hold)| {
                        (tree, key.clone().into(), quantity, Hold { txn: TxnId(0), ..hold })
                    }));
                    expected.writes.apply(
                        tree,
                        &key,
                        BoundCall { operation, args: call.args.into() },
                        8,
                        None,
                    );
                }
                0 => owner.lock(LockName::end(GAPS, tree.0), gap_mode::SCAN, &options).unwrap(),
                1 => owner.lock(LockName::key(GAPS, tree.0, &key), gap_mode::SCAN, &options).unwrap(),
                2 | 5 => {
                    let mode = if rng.chance(1, 2) { key_mode::S } else { key_mode::KS };
                    owner.lock(LockName::key(KEYS, tree.0, &key), mode, &options).unwrap();
                }
                _ if matches!(expected.writes.get(tree, &key), Some(Write::Apply(_))) => {}
                kind => {
                    if rng.chance(9, 10) {
                        let mode = if rng.chance(1, 2) { key_mode::X } else { key_mode::NKU };
                        owner.lock(LockName::key(KEYS, tree.0, &key), mode, &options).unwrap();
                    }
                    let value = (kind == 3).then(|| vec![rng.below(256) as u8; rng.below(300) as usize]);
                    expected.writes.put(tree, &key, value.as_deref());
                    if rng.chance(1, 2) && !expected.pending.contains(&(tree, key.clone().into())) {
                        expected.pending.push((tree, key.into()));
                    }
                }
            }
        }
        owner.visit_held(|name, mode| expected.locks.push(HeldLock::new(name, mode)));
        let mut parts = Vec::new();
        let is_pending = |tree, key: &[u8]| expected.pending.contains(&(tree, key.into()));
        let mut outgoing = Outgoing::new(&expected.writes, &owner, &expected.note, &is_pending);
        outgoing.pages = expected.pages;
        outgoing
            .encode(part_bytes, &mut |part| {
                parts.push(part.to_vec());
                Ok(())
            })
            .unwrap();
        (parts, expected)
    }

    fn writes(entry: &Entry) -> Vec<(TreeId, Vec<u8>, String)> {
        let trees = entry.writes.trees().flat_map(|(tree, writes)| {
            writes.entries().map(move |(key, write)| (tree, key.to_vec(), format!("{write:?}")))
        });
        trees.collect()
    }

    #[test]
    fn entries_round_trip_in_parts_of_any_length() {
        let mut rng = Rng::from_seed(11);
        for part_bytes in (1..200).chain([4096, 1 << 20]) {
            let (parts, expected) = random(&mut rng, part_bytes);
            assert!(parts.iter().rev().skip(1).all(|part| part.len() == part_bytes));
            let found = decode(&parts.concat()).unwrap();
            check_entry(&parts.concat()).unwrap().unwrap();
            assert_eq!((found.pages, &found.note), (expected.pages, &expected.note));
            assert_eq!(writes(&found), writes(&expected));
            let sorted = |entry: &Entry| {
                let mut pending = entry.pending.clone();
                pending.sort();
                let mut locks: Vec<String> = entry.locks.iter().map(|lock| format!("{lock:?}")).collect();
                locks.sort();
                let mut holds = entry.holds.clone();
                holds.sort_by(|(a, key_a, ..), (b, key_b, ..)| (a, key_a).cmp(&(b, key_b)));
                (pending, locks, holds)
            };
            assert_eq!(sorted(&found), sorted(&expected));
        }
    }

    /// Whatever is damaged is an error, also if the checksum has been made to fit; and never a panic.
    #[test]
    fn damaged_entries_are_refused() {
        let mut rng = Rng::from_seed(12);
        for _ in 0..40 {
            let whole = random(&mut rng, 4096).0.concat();
            for len in 0..whole.len() {
                assert!(decode(&whole[..len]).is_err());
            }
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << rng.below(8);
                assert!(decode(&damaged).is_err(), "byte {at}");
                damaged[at] = rng.below(256) as u8;
                let (bytes, sum) = damaged.split_last_chunk_mut::<SUM_BYTES>().unwrap();
                *sum = crc32c::crc32c(bytes).to_le_bytes();
                let _ = check_entry(&damaged);
            }
        }
    }
}

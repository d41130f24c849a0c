//! The contents of records: the changes of a commit, in a form that takes few bytes.
//!
//! | bytes | what |
//! |---|---|
//! | varint | the CSN |
//! | 1 | what follows: 0 nothing, since a root has it; 1 writes; 2 an entry; 3 the end of an entry, and writes; 4, 5 a call |
//!
//! *Writes*: for each tree until the record ends its number (varint) and flags (1: it is made, 2 it is dropped, 4 keys
//! follow). If it is made, the code of the size of its nodes (1) and that of whose it is (varint). If keys follow, how
//! many (varint); for each, in their order, one number (varint) which is four times the length of the key and 0 if it
//! is deleted, 1 if a value is put, 2 if operations are applied; the key; then the value behind its length (varint), or
//! the longest value that the operations can make (varint), how many there are (varint), and of each its number in
//! [`op::NUMBERED`], from 1 on (1), or 0 and the names of its family and of itself (1 byte for the length, text), then
//! the arguments behind their length (varint).
//!
//! *An entry* of a prepared transaction: its identifier (1 byte for the length, text), then the bytes that
//! `txn::two_phase::entry` describes. *Its end*: its identifier, how many parts it was stored in (varint).
//!
//! *A call* of a procedure: its number (varint), the checksum of what it has written (4 bytes), its parameters. A 5
//! says that it has used nothing but what it declares.
//!
//! The block of the log that a record is in has a checksum.

use crate::{
    Csn, Error, KEY_BYTES_MAX, Result, TreeId, VALUE_BYTES_MAX,
    access::{Placement, TreeOptions},
    bytes::{Bytes, put_counted, put_varint},
    op::{self, BoundCall, Calls, Registry},
    page::PageSize,
    recovery::Command,
    write_set::{Write, WriteSet},
};

const IN_ROOT: u8 = 0;
const WRITES: u8 = 1;
const ENTRY: u8 = 2;
const END: u8 = 3;
const CALL: u8 = 4;
const CALL_WITHIN: u8 = 5;

const CREATED: u8 = 1;
const DROPPED: u8 = 2;
const KEYS: u8 = 4;

/// The changes of a commit, as they are logged.
pub(in crate::recovery) enum Logged<'a> {
    /// More than a record has: the commit is not acknowledged before a root has it.
    InRoot,
    /// Writes.
    Writes(&'a WriteSet),
    /// Stores the entry of a prepared transaction, which consists of these parts.
    Entry { gid: &'a str, parts: &'a [Vec<u8>] },
    /// Removes an entry of so many parts, and writes.
    End { gid: &'a str, parts: u32, writes: &'a WriteSet },
    /// All that a procedure does, as a call of it.
    Call(&'a Command),
}

/// The content of a record beside writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    InRoot,
    Writes,
    Entry { gid: &'a str, entry: &'a [u8] },
    End { gid: &'a str, parts: u32 },
    Call { procedure: u32, digest: u32, is_within: bool, params: &'a [u8] },
}

/// Encodes a record without its CSN.
pub(super) fn encode(change: &Logged<'_>) -> Vec<u8> {
    // Room for short records is made at once: what writes take in memory is more than they take here.
    const BYTES_AT_ONCE_MAX: usize = 64 << 10;
    let bytes = match change {
        Logged::Writes(writes) | Logged::End { writes, .. } => writes.bytes().min(BYTES_AT_ONCE_MAX),
        Logged::Call(command) => command.params.len(),
        Logged::Entry { .. } | Logged::InRoot => 0,
    };
    let mut out = Vec::with_capacity(64 + bytes);
    match change {
        Logged::InRoot => out.push(IN_ROOT),
        Logged::Writes(writes) => {
            out.push(WRITES);
            put_writes(&mut out, writes);
        }
        Logged::Entry { gid, parts } => {
            out.push(ENTRY);
            put_name(&mut out, gid);
            parts.iter().for_each(|part| out.extend_from_slice(part));
        }
        Logged::End { gid, parts, writes } => {
            out.push(END);
            put_name(&mut out, gid);
            put_varint(&mut out, u64::from(*parts));
            put_writes(&mut out, writes);
        }
        Logged::Call(Command { procedure, digest, is_within, params, .. }) => {
            out.push(if *is_within { CALL_WITHIN } else { CALL });
            put_varint(&mut out, u64::from(*procedure));
            out.extend_from_slice(&digest.to_le_bytes());
            out.extend_from_slice(params);
        }
    }
    out
}

/// Encodes writes alone, as they stand in a record.
pub(crate) fn encode_writes(writes: &WriteSet) -> Vec<u8> {
    let mut out = Vec::new();
    put_writes(&mut out, writes);
    out
}

/// Reads what [`encode_writes`] has written.
///
/// # Errors
/// Those of operations, or what `broken` makes of what is wrong.
pub(crate) fn decode_writes(
    bytes: &[u8],
    operations: &Registry,
    broken: impl Fn(&'static str) -> Error,
) -> Result<WriteSet> {
    Writes::of(bytes).write_set(operations, broken)
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.push(u8::try_from(name.len()).expect("names are short"));
    out.extend_from_slice(name.as_bytes());
}

fn put_writes(out: &mut Vec<u8>, writes: &WriteSet) {
    for (tree, writes) in writes.trees() {
        if writes.created && writes.dropped {
            continue;
        }
        put_varint(out, tree.0);
        let has_keys = !writes.keys.is_empty() && !writes.dropped;
        let flags = [(writes.created, CREATED), (writes.dropped, DROPPED), (has_keys, KEYS)];
        out.push(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
        if writes.created {
            out.push(writes.options.page_size.code());
            put_varint(out, u64::from(writes.options.placement.code()));
        }
        if !has_keys {
            continue;
        }
        put_varint(out, writes.keys.len() as u64);
        for (key, write) in writes.entries() {
            let kind = match write {
                Write::Delete => Kind::Delete,
                Write::Put(_) => Kind::Put,
                Write::Apply(_) => Kind::Apply,
            };
            put_varint(out, key.len() as u64 * 4 + kind as u64);
            out.extend_from_slice(key);
            match write {
                Write::Delete => {}
                Write::Put(value) => put_counted(out, value),
                Write::Apply(calls) => put_calls(out, calls),
            }
        }
    }
}

fn put_calls(out: &mut Vec<u8>, calls: &Calls) {
    put_varint(out, calls.value_bytes_max as u64);
    put_varint(out, calls.iter().len() as u64);
    for BoundCall { operation, args } in calls.iter() {
        out.push(operation.number);
        if operation.number == 0 {
            put_name(out, operation.family);
            put_name(out, operation.operation.name());
        }
        put_counted(out, args);
    }
}

/// Reads the CSN of a record.
pub(super) fn csn(record: &[u8]) -> Result<Csn, &'static str> {
    Bytes::new(record).varint().map(Csn)
}

/// Reads a record: what is found in it, and its writes.
///
/// # Errors
/// A text that says what is wrong with it.
pub(super) fn decode(record: &[u8]) -> Result<(Found<'_>, Writes<'_>), &'static str> {
    let mut bytes = Bytes::new(record);
    bytes.varint()?;
    let kind = bytes.byte()?;
    let found = match kind {
        IN_ROOT if !bytes.is_empty() => return Err("there is more in it than it says"),
        IN_ROOT => Found::InRoot,
        WRITES => Found::Writes,
        ENTRY => {
            let gid = bytes.name()?;
            return Ok((Found::Entry { gid, entry: bytes.rest() }, Writes::of(&[])));
        }
        END => {
            let gid = bytes.name()?;
            let parts = bytes.varint()?.try_into().map_err(|_| "an entry has too many parts")?;
            Found::End { gid, parts }
        }
        CALL | CALL_WITHIN => {
            let procedure = bytes.varint()?.try_into().map_err(|_| "a procedure has too large a number")?;
            let digest = u32::from_le_bytes(bytes.array()?);
            let is_within = kind == CALL_WITHIN;
            let call = Found::Call { procedure, digest, is_within, params: bytes.rest() };
            return Ok((call, Writes::of(&[])));
        }
        _ => return Err("what it is is not known"),
    };
    Ok((found, Writes::of(bytes.rest())))
}

/// The writes of a record, as they stand there.
#[derive(Clone)]
pub(super) struct Writes<'a> {
    bytes: Bytes<'a>,
    /// The tree of the next `keys` keys.
    tree: TreeId,
    keys: u64,
}

/// The next item of writes.
pub(super) enum Next<'a> {
    /// A tree is made.
    Created(TreeId, TreeOptions),
    /// A tree is dropped.
    Dropped(TreeId),
    /// A key is changed.
    Key { tree: TreeId, key: &'a [u8], kind: Kind, body: &'a [u8] },
}

/// The kind of a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Delete = 0,
    Put = 1,
    Apply = 2,
}

impl Kind {
    pub fn of(number: u8) -> Result<Kind, &'static str> {
        let kinds = [Kind::Delete, Kind::Put, Kind::Apply];
        kinds.into_iter().find(|kind| *kind as u8 == number).ok_or("what is made of a key is not known")
    }
}

impl<'a> Writes<'a> {
    fn of(bytes: &'a [u8]) -> Writes<'a> {
        Writes { bytes: Bytes::new(bytes), tree: TreeId(0), keys: 0 }
    }

    /// Returns the next of them, in the order in which they were written.
    pub fn next(&mut self) -> Result<Option<Next<'a>>, &'static str> {
        while self.keys == 0 {
            if self.bytes.is_empty() {
                return Ok(None);
            }
            self.tree = TreeId(self.bytes.varint()?);
            let flags = self.bytes.byte()?;
            if flags & !(CREATED | DROPPED | KEYS) != 0 || flags & DROPPED != 0 && flags != DROPPED {
                return Err("a tree has flags that are not known");
            }
            let created = if flags & CREATED != 0 { Some(self.options()?) } else { None };
            self.keys = if flags & KEYS != 0 { self.bytes.varint()? } else { 0 };
            if let Some(options) = created {
                return Ok(Some(Next::Created(self.tree, options)));
            }
            if flags & DROPPED != 0 {
                return Ok(Some(Next::Dropped(self.tree)));
            }
        }
        self.keys -= 1;
        self.key().map(Some)
    }

    fn options(&mut self) -> Result<TreeOptions, &'static str> {
        let page_size = PageSize::from_code(self.bytes.byte()?).ok_or("nodes have no size that is known")?;
        let code = self.bytes.varint()?.try_into().map_err(|_| "a tree is placed nowhere")?;
        Ok(TreeOptions { page_size, placement: Placement::of_code(code) })
    }

    fn key(&mut self) -> Result<Next<'a>, &'static str> {
        let head = self.bytes.varint()?;
        let key_bytes = usize::try_from(head / 4).map_err(|_| "a key is too long")?;
        if key_bytes > KEY_BYTES_MAX {
            return Err("a key is too long");
        }
        let kind = Kind::of((head % 4) as u8)?;
        let key = self.bytes.take(key_bytes)?;
        let (_, rest) = Stored::read(kind, self.bytes.clone())?;
        let bytes = std::mem::replace(&mut self.bytes, rest.clone()).rest();
        let body = &bytes[..bytes.len() - rest.rest().len()];
        Ok(Next::Key { tree: self.tree, key, kind, body })
    }

    /// Returns them as the write set of a transaction.
    ///
    /// # Errors
    /// Those of operations, or what `broken` makes of what is wrong.
    pub fn write_set(
        mut self,
        operations: &Registry,
        broken: impl Fn(&'static str) -> Error,
    ) -> Result<WriteSet> {
        let mut writes = WriteSet::default();
        writes.keep_claims();
        while let Some(next) = self.next().map_err(&broken)? {
            match next {
                Next::Created(tree, options) => writes.create_tree(tree, options),
                Next::Dropped(tree) => writes.drop_tree(tree),
                Next::Key { tree, key, kind, body } => match Stored::of(kind, body).map_err(&broken)? {
                    Stored::Put(value) => writes.put(tree, key, Some(value)),
                    Stored::Delete => writes.put(tree, key, None),
                    Stored::Apply { value_bytes_max, mut calls } => {
                        while let Some(StoredCall { family, name, args }) = calls.next().map_err(&broken)? {
                            let operation = operations.get(family, name)?.clone();
                            let call = BoundCall { operation, args: args.into() };
                            writes.apply(tree, key, call, value_bytes_max, None);
                        }
                    }
                },
            }
        }
        Ok(writes)
    }
}

/// The change of a key, as it stands behind the key.
pub(super) enum Stored<'a> {
    Put(&'a [u8]),
    Delete,
    /// Operations. The value that they make has so many bytes at most, whatever it was.
    Apply {
        value_bytes_max: usize,
        calls: StoredCalls<'a>,
    },
}

impl<'a> Stored<'a> {
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn of(kind: Kind, body: &'a [u8]) -> Result<Stored<'a>, &'static str> {
        Stored::read(kind, Bytes::new(body)).map(|(stored, _)| stored)
    }

    /// Reads a change. Returns what follows, too.
    fn read(kind: Kind, mut bytes: Bytes<'a>) -> Result<(Stored<'a>, Bytes<'a>), &'static str> {
        let stored = match kind {
            Kind::Delete => Stored::Delete,
            Kind::Put => match bytes.counted()? {
                value if value.len() > VALUE_BYTES_MAX => return Err("a value is too long"),
                value => Stored::Put(value),
            },
            Kind::Apply => {
                let value_bytes_max = bytes.varint()?;
                if value_bytes_max > VALUE_BYTES_MAX as u64 {
                    return Err("a value is too long");
                }
                let calls = StoredCalls { left: bytes.varint()?, bytes };
                let mut rest = calls.clone();
                while rest.next()?.is_some() {}
                bytes = rest.bytes;
                Stored::Apply { value_bytes_max: value_bytes_max as usize, calls }
            }
        };
        Ok((stored, bytes))
    }
}

/// An operation, by the names of its family and of itself.
pub(super) struct StoredCall<'a> {
    pub family: &'a str,
    pub name: &'a str,
    pub args: &'a [u8],
}

/// Operations on a key, as they stand in a record.
#[derive(Clone)]
pub(super) struct StoredCalls<'a> {
    bytes: Bytes<'a>,
    left: u64,
}

impl<'a> StoredCalls<'a> {
    pub fn next(&mut self) -> Result<Option<StoredCall<'a>>, &'static str> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (family, name) = match self.bytes.byte()? {
            0 => (self.bytes.name()?, self.bytes.name()?),
            number => *op::NUMBERED.get(usize::from(number) - 1).ok_or("an operation is not known")?,
        };
        Ok(Some(StoredCall { family, name, args: self.bytes.counted()? }))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{env::Rng, recovery::logical_wal::gather::Gathered};

    fn with_csn(csn: u64, change: &Logged<'_>) -> Vec<u8> {
        let mut record = Vec::new();
        put_varint(&mut record, csn);
        record.extend(encode(change));
        record
    }

    fn random_writes(rng: &mut Rng, operations: &Registry) -> WriteSet {
        let mut writes = WriteSet::default();
        for tree in 1..1 + rng.below(4) {
            let tree = TreeId(tree * 100);
            match rng.below(5) {
                0 => writes.drop_tree(tree),
                1 => writes.create_tree(
                    tree,
                    TreeOptions { page_size: PageSize::MIN, placement: Placement::Partition(300) },
                ),
                _ => {}
            }
            if writes.tree(tree).is_some_and(|writes| writes.dropped) {
                continue;
            }
            for _ in 0..rng.below(12) {
                let key = vec![rng.below(200) as u8; rng.below(300) as usize];
                if writes.get(tree, &key).is_some() {
                    continue;
                }
                match rng.below(3) {
                    0 => writes.put(tree, &key, None),
                    1 => writes.put(tree, &key, Some(&vec![1; rng.below(500) as usize])),
                    _ => {
                        let call = op::number::add_within(rng.below(900).into(), -5, 1000);
                        let operation = operations.get(call.family, call.operation).unwrap().clone();
                        writes.apply(tree, &key, BoundCall { operation, args: call.args.into() }, 8, None);
                    }
                }
            }
        }
        writes
    }

    fn text(writes: &WriteSet) -> String {
        let trees =
            writes.trees().filter(|(_, writes)| !writes.keys.is_empty() || writes.created || writes.dropped);
        let trees = trees.map(|(tree, writes)| {
            let entries: Vec<_> = writes.entries().collect();
            format!("{tree} {} {} {:?} {entries:?}", writes.created, writes.dropped, writes.options)
        });
        trees.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn records_round_trip_and_damaged_ones_are_refused_without_a_panic() {
        let operations = Registry::new(&[]).unwrap();
        let broken = |what: &str| Error::Operation(what.into());
        let mut rng = Rng::from_seed(3);
        for csn_of in 0..200 {
            let writes = random_writes(&mut rng, &operations);
            let parts = [vec![1, 2, 3], vec![4]];
            let command = Command {
                counts: Default::default(),
                procedure: 300,
                digest: 0x0102_0304,
                is_within: csn_of % 2 == 0,
                params: [7, 8].into(),
                run_time: Duration::ZERO,
            };
            let (change, expected) = match rng.below(5) {
                0 => (Logged::InRoot, Found::InRoot),
                1 => (
                    Logged::Entry { gid: "g", parts: &parts },
                    Found::Entry { gid: "g", entry: &[1, 2, 3, 4] },
                ),
                2 => (
                    Logged::End { gid: "gid", parts: 300, writes: &writes },
                    Found::End { gid: "gid", parts: 300 },
                ),
                3 => (
                    Logged::Call(&command),
                    Found::Call {
                        procedure: 300,
                        digest: 0x0102_0304,
                        is_within: csn_of % 2 == 0,
                        params: &[7, 8],
                    },
                ),
                _ => (Logged::Writes(&writes), Found::Writes),
            };
            let has_writes = matches!(change, Logged::Writes(_) | Logged::End { .. });
            let record = with_csn(csn_of * 1000, &change);
            assert_eq!(csn(&record), Ok(Csn(csn_of * 1000)));
            let (found, found_writes) = decode(&record).unwrap();
            assert_eq!(found, expected);
            let found_writes = found_writes.write_set(&operations, broken).unwrap();
            assert_eq!(text(&found_writes), if has_writes { text(&writes) } else { String::new() });
            for _ in 0..20 {
                let mut damaged = record.clone();
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] ^= 1 << rng.below(8);
                damaged.truncate(1 + rng.below(damaged.len() as u64) as usize);
                let Ok((_, writes)) = decode(&damaged) else { continue };
                let is_gathered = Gathered::default().add(writes.clone());
                let as_a_set = writes.write_set(&operations, broken);
                assert!(is_gathered.is_ok() || as_a_set.is_err());
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod fuzz;

//! The contents of records: what a commit does, in a form that takes few bytes.
//!
//! | bytes | what |
//! |---|---|
//! | varint | the CSN |
//! | 1 | what follows: 0 nothing, since a root has it; 1 writes; 2 an entry; 3 the end of an entry, and writes; 4, 5 a call |
//!
//! *Writes*: for each tree until the record ends its number (varint) and flags (1: it is made, 2 it is dropped, 4 keys
//! follow). If it is made, the code of the size of its nodes (1) and that of whose it is (varint). If keys follow, how many (varint); for each, in their
//! order, one number (varint) which is four times the length of the key and 0 if it is deleted, 1 if a value is put, 2
//! if operations are applied; the key; then the value behind its length (varint), or the longest value that the
//! operations can make (varint), how many there are (varint), and of each its number in [`NUMBERED`], from 1 on (1), or 0
//! and the names of its family and of itself (1 byte for the length, text), then the arguments behind their length
//! (varint).
//!
//! *An entry* of a prepared transaction: its identifier (1 byte for the length, text), then the bytes that
//! [`entry`](crate::txn::entry) describes. *Its end*: its identifier, how many parts it was stored in (varint).
//!
//! *A call* of a procedure: its number (varint), the checksum of what it has written (4 bytes), its parameters. A 5 says
//! that it has used nothing but what it declares.
//!
//! The block of the log that a record is in has a checksum.

use crate::{
    Csn, Error, KEY_BYTES_MAX, Result, TreeId, VALUE_BYTES_MAX,
    op::Registered,
    page::PageSize,
    sync::Arc,
    txn::{
        bytes::{Bytes, put_counted, put_varint},
        procedure::Command,
        transaction::TreeOptions,
        tree::Placement,
        writes::{BoundCall, Calls, Write, WriteSet},
    },
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

const DELETE: u64 = 0;
const PUT: u64 = 1;
const APPLY: u64 = 2;

/// Operations that are known by a number. It is part of the format: more can follow.
const NUMBERED: [(&str, &str); 7] = [
    ("record", "update"),
    ("number", "add"),
    ("number", "minimum"),
    ("number", "maximum"),
    ("bytes", "append"),
    ("set", "insert"),
    ("set", "remove"),
];

/// What a commit does.
pub(in crate::txn) enum Change<'a> {
    /// More than a record has: nobody is told of it before a root has it.
    InRoot,
    /// Writes.
    Writes(&'a WriteSet),
    /// Stores the entry of a prepared transaction, which consists of these parts.
    Entry { gid: &'a str, parts: &'a [Vec<u8>] },
    /// Removes an entry of so many parts, and writes.
    End { gid: &'a str, parts: u32, writes: &'a WriteSet },
    /// Whatever a procedure does.
    Call(&'a Command),
}

/// What is found in a record beside writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    InRoot,
    Writes,
    Entry { gid: &'a str, entry: &'a [u8] },
    End { gid: &'a str, parts: u32 },
    Call { procedure: u32, digest: u32, is_within: bool, params: &'a [u8] },
}

/// A record but for the CSN.
pub(super) fn encode(change: &Change<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    match change {
        Change::InRoot => out.push(IN_ROOT),
        Change::Writes(writes) => {
            out.push(WRITES);
            put_writes(&mut out, writes);
        }
        Change::Entry { gid, parts } => {
            out.push(ENTRY);
            put_name(&mut out, gid);
            parts.iter().for_each(|part| out.extend_from_slice(part));
        }
        Change::End { gid, parts, writes } => {
            out.push(END);
            put_name(&mut out, gid);
            put_varint(&mut out, u64::from(*parts));
            put_writes(&mut out, writes);
        }
        Change::Call(Command { procedure, digest, is_within, params, .. }) => {
            out.push(if *is_within { CALL_WITHIN } else { CALL });
            put_varint(&mut out, u64::from(*procedure));
            out.extend_from_slice(&digest.to_le_bytes());
            out.extend_from_slice(params);
        }
    }
    out
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
        for (key, write) in &writes.keys {
            let kind = match write {
                Write::Delete => DELETE,
                Write::Put(_) => PUT,
                Write::Apply(_) => APPLY,
            };
            put_varint(out, key.len() as u64 * 4 + kind);
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
        let names = (operation.family, operation.operation.name());
        match NUMBERED.iter().position(|numbered| *numbered == names) {
            Some(at) => out.push(1 + at as u8),
            None => {
                out.push(0);
                put_name(out, names.0);
                put_name(out, names.1);
            }
        }
        put_counted(out, args);
    }
}

/// Reads the CSN of a record.
pub(super) fn csn(record: &[u8]) -> Result<Csn, &'static str> {
    Bytes::new(record).varint().map(Csn)
}

/// Why a record was not read.
enum Unread {
    /// What is wrong with it.
    Malformed(&'static str),
    /// It is as it was written, but for one of its operations.
    Operation(Error),
}

impl From<&'static str> for Unread {
    fn from(what: &'static str) -> Unread {
        Unread::Malformed(what)
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Unread {
        Unread::Operation(error)
    }
}

/// Finds an operation by the names of its family and of itself.
type Bind<'a> = &'a dyn Fn(&str, &str) -> Result<Arc<Registered>>;

/// Reads a record, and adds its writes to what earlier ones have made of `writes`. An error within is of an operation;
/// a text says what is wrong with the record.
pub(super) fn decode<'a>(
    record: &'a [u8],
    bind: Bind<'_>,
    writes: &mut WriteSet,
) -> Result<Result<Found<'a>, &'static str>> {
    match read(record, bind, writes) {
        Ok(found) => Ok(Ok(found)),
        Err(Unread::Malformed(what)) => Ok(Err(what)),
        Err(Unread::Operation(error)) => Err(error),
    }
}

fn read<'a>(record: &'a [u8], bind: Bind<'_>, writes: &mut WriteSet) -> Result<Found<'a>, Unread> {
    let mut bytes = Bytes::new(record);
    bytes.varint()?;
    let kind = bytes.byte()?;
    let found = match kind {
        IN_ROOT if !bytes.is_empty() => return Err("there is more in it than it says".into()),
        IN_ROOT => Found::InRoot,
        WRITES => Found::Writes,
        ENTRY => return Ok(Found::Entry { gid: bytes.name()?, entry: bytes.rest() }),
        END => {
            let gid = bytes.name()?;
            let parts = bytes.varint()?.try_into().map_err(|_| "an entry has too many parts")?;
            Found::End { gid, parts }
        }
        CALL | CALL_WITHIN => {
            let procedure = bytes.varint()?.try_into().map_err(|_| "a procedure has too large a number")?;
            let digest = u32::from_le_bytes(bytes.array()?);
            let is_within = kind == CALL_WITHIN;
            return Ok(Found::Call { procedure, digest, is_within, params: bytes.rest() });
        }
        _ => return Err("what it is is not known".into()),
    };
    while !bytes.is_empty() {
        let (tree, keys) = read_tree(&mut bytes, writes)?;
        for _ in 0..keys {
            let (key, write) = read_write(&mut bytes, bind)?;
            writes.follow(tree, key, write)?;
        }
    }
    Ok(found)
}

/// Reads what becomes of a tree. Returns its number, and how many of its keys follow.
fn read_tree(bytes: &mut Bytes<'_>, writes: &mut WriteSet) -> Result<(TreeId, u64), &'static str> {
    let tree = TreeId(bytes.varint()?);
    let flags = bytes.byte()?;
    if flags & !(CREATED | DROPPED | KEYS) != 0 || flags & DROPPED != 0 && flags != DROPPED {
        return Err("a tree has flags that are not known");
    }
    if flags & CREATED != 0 {
        let page_size = PageSize::from_code(bytes.byte()?).ok_or("nodes have no size that is known")?;
        let code = bytes.varint()?.try_into().map_err(|_| "a tree is placed nowhere")?;
        writes.create_tree(tree, TreeOptions { page_size, placement: Placement::of_code(code) });
    }
    if flags & DROPPED != 0 {
        writes.drop_tree(tree);
    }
    let keys = if flags & KEYS != 0 { bytes.varint()? } else { 0 };
    Ok((tree, keys))
}

fn read_write<'a>(bytes: &mut Bytes<'a>, bind: Bind<'_>) -> Result<(&'a [u8], Write), Unread> {
    let head = bytes.varint()?;
    let key_bytes = usize::try_from(head / 4).map_err(|_| "a key is too long")?;
    if key_bytes > KEY_BYTES_MAX {
        return Err("a key is too long".into());
    }
    let key = bytes.take(key_bytes)?;
    let write = match head % 4 {
        DELETE => Write::Delete,
        PUT => match bytes.counted()? {
            value if value.len() > VALUE_BYTES_MAX => return Err("a value is too long".into()),
            value => Write::Put(value.into()),
        },
        APPLY => {
            let value_bytes_max = bytes.varint()?;
            if value_bytes_max > VALUE_BYTES_MAX as u64 {
                return Err("a value is too long".into());
            }
            let mut calls = Calls::default();
            for _ in 0..bytes.varint()? {
                let (family, name) = match bytes.byte()? {
                    0 => (bytes.name()?, bytes.name()?),
                    number => *NUMBERED.get(usize::from(number) - 1).ok_or("an operation is not known")?,
                };
                let operation = bind(family, name)?;
                calls.add(BoundCall { operation, args: bytes.counted()?.into() }, value_bytes_max as usize);
            }
            Write::Apply(calls)
        }
        _ => return Err("what is made of a key is not known".into()),
    };
    Ok((key, write))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        env::Rng,
        op::{self, Registry},
    };

    fn with_csn(csn: u64, change: &Change<'_>) -> Vec<u8> {
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
                        writes.apply(tree, &key, BoundCall { operation, args: call.args.into() }, 8);
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
            format!("{tree} {} {} {:?} {:?}", writes.created, writes.dropped, writes.options, writes.keys)
        });
        trees.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn records_round_trip_and_damaged_ones_are_refused_without_a_panic() {
        let operations = Registry::new(&[]).unwrap();
        let bind = |family: &str, name: &str| operations.get(family, name).cloned();
        let mut rng = Rng::from_seed(3);
        for csn_of in 0..200 {
            let writes = random_writes(&mut rng, &operations);
            let parts = [vec![1, 2, 3], vec![4]];
            let command = Command {
                procedure: 300,
                digest: 0x0102_0304,
                is_within: csn_of % 2 == 0,
                params: [7, 8].into(),
                run_time: Duration::ZERO,
            };
            let (change, expected) = match rng.below(5) {
                0 => (Change::InRoot, Found::InRoot),
                1 => (
                    Change::Entry { gid: "g", parts: &parts },
                    Found::Entry { gid: "g", entry: &[1, 2, 3, 4] },
                ),
                2 => (
                    Change::End { gid: "gid", parts: 300, writes: &writes },
                    Found::End { gid: "gid", parts: 300 },
                ),
                3 => (
                    Change::Call(&command),
                    Found::Call {
                        procedure: 300,
                        digest: 0x0102_0304,
                        is_within: csn_of % 2 == 0,
                        params: &[7, 8],
                    },
                ),
                _ => (Change::Writes(&writes), Found::Writes),
            };
            let has_writes = matches!(change, Change::Writes(_) | Change::End { .. });
            let record = with_csn(csn_of * 1000, &change);
            assert_eq!(csn(&record), Ok(Csn(csn_of * 1000)));
            let mut found_writes = WriteSet::default();
            let found = decode(&record, &bind, &mut found_writes).unwrap().unwrap();
            assert_eq!(found, expected);
            assert_eq!(text(&found_writes), if has_writes { text(&writes) } else { String::new() });
            for _ in 0..20 {
                let mut damaged = record.clone();
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] ^= 1 << rng.below(8);
                damaged.truncate(1 + rng.below(damaged.len() as u64) as usize);
                let _ = decode(&damaged, &bind, &mut WriteSet::default());
            }
        }
    }

    #[test]
    fn later_writes_follow_earlier_ones() {
        let operations = Registry::new(&[]).unwrap();
        let bind = |family: &str, name: &str| operations.get(family, name).cloned();
        let add = |by: i128| {
            let call = op::number::add_within(by, 0, 1000);
            BoundCall {
                operation: operations.get(call.family, call.operation).unwrap().clone(),
                args: call.args.into(),
            }
        };
        let tree = TreeId(1);
        let mut all = WriteSet::default();
        let mut then = |change: &dyn Fn(&mut WriteSet)| {
            let mut writes = WriteSet::default();
            change(&mut writes);
            decode(&with_csn(1, &Change::Writes(&writes)), &bind, &mut all).unwrap().unwrap();
        };
        then(&|writes| writes.put(tree, b"put", Some(&5_i64.to_le_bytes())));
        then(&|writes| writes.apply(tree, b"put", add(3), 8));
        then(&|writes| writes.apply(tree, b"there", add(4), 8));
        then(&|writes| writes.apply(tree, b"there", add(5), 8));
        then(&|writes| writes.put(tree, b"gone", Some(b"x")));
        then(&|writes| writes.put(tree, b"gone", None));
        then(&|writes| writes.create_tree(TreeId(2), TreeOptions::default()));
        then(&|writes| writes.put(TreeId(2), b"x", Some(b"y")));
        then(&|writes| writes.drop_tree(TreeId(2)));
        let value = |key: &[u8], there: Option<&[u8]>| {
            all.get(tree, key).unwrap().value(there).unwrap().map(|value| value.into_owned())
        };
        assert_eq!(value(b"put", None), Some(8_i64.to_le_bytes().to_vec()));
        assert_eq!(value(b"there", Some(&10_i64.to_le_bytes())), Some(19_i64.to_le_bytes().to_vec()));
        assert_eq!(value(b"gone", None), None);
        let second = all.tree(TreeId(2)).unwrap();
        assert!(second.created && second.dropped);
    }
}

//! Random records: what is no record is refused with a reason, and what is one is written again as the same.

use gnomon_testing::fuzz;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    access::TreeOptions,
    op::{Registry, number},
};

/// A change of a transaction.
#[derive(Clone, Debug)]
enum Change {
    Create(u64),
    Drop(u64),
    Put(u64, Vec<u8>, Vec<u8>),
    Delete(u64, Vec<u8>),
    Add(u64, Vec<u8>, i128),
}

fn change() -> impl Strategy<Value = Change> {
    let tree = || 1..4u64;
    let bytes = || vec(any::<u8>(), 0..12);
    prop_oneof![
        1 => tree().prop_map(Change::Create),
        1 => tree().prop_map(Change::Drop),
        8 => (tree(), bytes(), bytes()).prop_map(|(tree, key, value)| Change::Put(tree, key, value)),
        4 => (tree(), bytes()).prop_map(|(tree, key)| Change::Delete(tree, key)),
        4 => (tree(), bytes(), any::<i128>()).prop_map(|(tree, key, by)| Change::Add(tree, key, by)),
    ]
}

/// An edit of the bytes of a record: the place is a share of its length.
#[derive(Clone, Copy, Debug)]
struct Edit {
    at: u16,
    byte: Option<u8>,
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        let at = (usize::from(edit.at) * bytes.len()) >> 16;
        match edit.byte {
            Some(byte) => bytes[at] = byte,
            None => drop(bytes.remove(at)),
        }
    }
    bytes
}

fn write_set(operations: &Registry, changes: &[Change]) -> WriteSet {
    let mut writes = WriteSet::default();
    for change in changes {
        match change {
            Change::Create(tree) => writes.create_tree(TreeId(*tree), TreeOptions::default()),
            Change::Drop(tree) => writes.drop_tree(TreeId(*tree)),
            Change::Put(tree, key, value) => writes.put(TreeId(*tree), key, Some(value)),
            Change::Delete(tree, key) => writes.put(TreeId(*tree), key, None),
            Change::Add(tree, key, by) if writes.get(TreeId(*tree), key).is_none() => {
                let call = number::add(*by);
                let operation =
                    operations.get(call.family, call.operation).expect("it is registered").clone();
                writes.apply(TreeId(*tree), key, BoundCall { operation, args: call.args.into() }, 64, None);
            }
            Change::Add(..) => {}
        }
    }
    writes
}

fn broken(why: &'static str) -> Error {
    Error::Procedure(why.into())
}

/// Reads bytes as a record, and if they are one, writes it and reads it again.
fn read(operations: &Registry, record: &[u8]) -> bool {
    let Ok((_, found)) = decode(record) else { return false };
    let _ = csn(record);
    let Ok(writes) = found.write_set(operations, broken) else { return false };
    let bytes = encode_writes(&writes);
    let again = decode_writes(&bytes, operations, broken).expect("it was written just now");
    assert_eq!(encode_writes(&again), bytes);
    true
}

#[test]
fn records() {
    let operations = Registry::new(&[]).unwrap();
    let edit =
        (any::<u16>(), proptest::option::weighted(0.8, any::<u8>())).prop_map(|(at, byte)| Edit { at, byte });
    let input = (vec(change(), 0..12), vec(edit, 0..4), vec(any::<u8>(), 0..24));
    fuzz(&input, |(changes, edits, any)| {
        read(&operations, &any);
        let mut record = Vec::new();
        put_varint(&mut record, 7);
        record.extend(encode(&Logged::Writes(&write_set(&operations, &changes))));
        let is_whole = read(&operations, &edited(record.clone(), &edits));
        assert!(is_whole || !edits.is_empty(), "{record:?}");
    });
}

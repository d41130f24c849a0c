//! Undo records of subtransactions on trees: steps that give keys back what they were.
//!
//! They are made of values: a transaction that changes a key has it alone until it has its CSN. So the same step
//! takes back a value that was put and operations that were applied.

use crate::{Error, Result, TreeId, access::Change, mvcc::Keyspace, store::page_wal::TreeAccess};

/// The directory of trees, where a step of an undo record names a tree.
pub(super) const DIRECTORY: TreeId = TreeId(0);

/// A key of a tree is to have this value, or to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub tree: TreeId,
    pub key: Box<[u8]>,
    pub value: Option<Box<[u8]>>,
}

impl Step {
    pub fn new(tree: TreeId, key: &[u8], value: Option<&[u8]>) -> Step {
        Step { tree, key: key.into(), value: value.map(Into::into) }
    }

    /// Returns the bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    /// Gives the key its value, or removes it.
    pub fn apply(&self, keyspace: &Keyspace, pages: &TreeAccess<'_>) -> Result<()> {
        // The tree may have to be looked up.
        pages.lock_first()?;
        let tree = match self.tree {
            DIRECTORY => *keyspace.directory.tree(),
            tree => keyspace.tree(tree)?.tree,
        };
        tree.update(pages, &self.key, &mut |_| change(self.value.as_deref()))
    }
}

/// Returns the change that gives a key this value.
pub(super) fn change(value: Option<&[u8]>) -> Change<'_> {
    value.map_or(Change::Delete, |value| Change::Put(value.into()))
}

/// Encodes what takes a subtransaction back, as it stands in the log: its steps, to be done from the last to the
/// first. Of each the tree (8 bytes), the lengths of the key (4) and of the value and one (4; 0 if the key is to be
/// gone), then both. Numbers are little-endian.
pub(super) fn encode(undo: &[Step]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for step in undo {
        let value_len = step.value.as_ref().map_or(0, |value| value.len() as u32 + 1);
        bytes.extend(step.tree.0.to_le_bytes());
        bytes.extend((step.key.len() as u32).to_le_bytes());
        bytes.extend(value_len.to_le_bytes());
        bytes.extend(&*step.key);
        bytes.extend(step.value.as_deref().unwrap_or_default());
    }
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Step>> {
    fn number<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
        from.split_off(..N)?.try_into().ok()
    }
    fn step(from: &mut &[u8]) -> Option<Step> {
        let tree = TreeId(u64::from_le_bytes(number(from)?));
        let key_len = u32::from_le_bytes(number(from)?) as usize;
        let value_len = u32::from_le_bytes(number(from)?) as usize;
        let key = from.split_off(..key_len)?;
        let value = match value_len {
            0 => None,
            len => Some(from.split_off(..len - 1)?),
        };
        Some(Step::new(tree, key, value))
    }
    let (mut from, mut undo) = (bytes, Vec::new());
    while !from.is_empty() {
        undo.push(step(&mut from).ok_or_else(|| Error::Corrupt {
            file: "log".into(),
            page: 0,
            detail: "an undo record of trees is malformed".into(),
        })?);
    }
    Ok(undo)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn undo_records_round_trip_and_damaged_ones_are_errors() {
        let undo = vec![
            Step::new(TreeId(7), b"key", Some(b"before")),
            Step::new(TreeId(7), b"gone", None),
            Step::new(DIRECTORY, b"", Some(b"")),
        ];
        let bytes = encode(&undo);
        assert_eq!(decode(&bytes).unwrap(), undo);
        let whole: Vec<usize> = (0..=3).map(|count| encode(&undo[..count]).len()).collect();
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]).is_ok(), whole.contains(&len), "cut to {len}");
        }
    }
}

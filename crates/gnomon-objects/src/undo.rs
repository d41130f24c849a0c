//! Undo records: the steps that take an operation on objects back, as they stand in the log.
//!
//! A record is a list of steps, which are undone from the last on. A step begins with its kind (1 byte) and the object
//! (8 bytes); numbers are little-endian.

use gnomon_engine::{
    Error, PageId, Result,
    level0::{PageRead, PageWrite},
};

use super::{ObjectId, Reference, access};

/// An undo step, which takes a step of an operation back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The subobject was this, or not there.
    Set(Reference, Option<Vec<u8>>),
    /// The references were these.
    Foreign(ObjectId, Vec<Reference>),
    /// The object was not there.
    Free(ObjectId),
}

const SET: u8 = 1;
const UNSET: u8 = 2;
const FOREIGN: u8 = 3;
const FREE: u8 = 4;

impl Step {
    /// Applies the step to pages.
    pub fn apply<P: PageRead + PageWrite>(&self, pages: &P) -> Result<()> {
        match self {
            Step::Set(at, value) => access::update(pages, at.object, at.slot, value.as_deref()).map(drop),
            Step::Foreign(object, foreign) => access::set_foreign(pages, *object, foreign).map(drop),
            Step::Free(object) => access::free(pages, *object),
        }
    }
}

pub(super) fn encode(steps: &[Step]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for step in steps {
        let (kind, object) = match step {
            Step::Set(at, Some(_)) => (SET, at.object),
            Step::Set(at, None) => (UNSET, at.object),
            Step::Foreign(object, _) => (FOREIGN, *object),
            Step::Free(object) => (FREE, *object),
        };
        bytes.push(kind);
        bytes.extend(object.0.to_le_bytes());
        match step {
            Step::Set(at, value) => {
                bytes.extend(at.slot.to_le_bytes());
                if let Some(value) = value {
                    bytes.extend((value.len() as u32).to_le_bytes());
                    bytes.extend(value);
                }
            }
            Step::Foreign(_, foreign) => {
                bytes.extend((foreign.len() as u32).to_le_bytes());
                for reference in foreign {
                    bytes.extend(reference.object.0.to_le_bytes());
                    bytes.extend(reference.slot.to_le_bytes());
                }
            }
            Step::Free(_) => {}
        }
    }
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Step>> {
    let mut from = bytes;
    let mut steps = Vec::new();
    while !from.is_empty() {
        let step = step(&mut from).ok_or_else(|| Error::Corrupt {
            file: "log".into(),
            page: 0,
            detail: "an undo record of objects is malformed".into(),
        })?;
        steps.push(step);
    }
    Ok(steps)
}

fn step(from: &mut &[u8]) -> Option<Step> {
    let kind = from.split_off_first()?;
    let object = PageId(u64::from_le_bytes(take(from)?));
    Some(match *kind {
        SET => {
            let at = Reference { object, slot: u32::from_le_bytes(take(from)?) };
            let bytes = u32::from_le_bytes(take(from)?) as usize;
            Step::Set(at, Some(from.split_off(..bytes)?.to_vec()))
        }
        UNSET => Step::Set(Reference { object, slot: u32::from_le_bytes(take(from)?) }, None),
        FOREIGN => {
            let count = u32::from_le_bytes(take(from)?);
            let reference = |_| {
                let object = PageId(u64::from_le_bytes(take(from)?));
                Some(Reference { object, slot: u32::from_le_bytes(take(from)?) })
            };
            Step::Foreign(object, (0..count).map(reference).collect::<Option<_>>()?)
        }
        FREE => Step::Free(object),
        _ => return None,
    })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    from.split_off(..N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_damaged_ones_are_errors() {
        let at = Reference { object: PageId(77), slot: 3 };
        let steps = vec![
            Step::Set(at, Some(b"before".to_vec())),
            Step::Set(at, None),
            Step::Foreign(at.object, vec![at, at]),
            Step::Free(at.object),
        ];
        let bytes = encode(&steps);
        assert_eq!(decode(&bytes).unwrap(), steps);
        let whole: Vec<usize> = (0..=4).map(|count| encode(&steps[..count]).len()).collect();
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]).is_ok(), whole.contains(&len), "cut to {len}");
        }
    }
}

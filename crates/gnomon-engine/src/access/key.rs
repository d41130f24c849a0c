//! Keys as write sets have them: in place while they are short, and compared by their beginnings.

use std::{borrow::Borrow, cmp::Ordering, ops::Deref};

use smallvec::SmallVec;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes of a key that is kept in place: one or two numbers. A longer one is on the heap.
const SHORT_BYTES: usize = 16;

/// A key, in the order of its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(SmallVec<[u8; SHORT_BYTES]>);

/// A key that is looked for.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct KeyBytes([u8]);

impl KeyBytes {
    pub fn of(bytes: &[u8]) -> &KeyBytes {
        KeyBytes::ref_from_bytes(bytes).expect("it has no length and no alignment of its own")
    }

    /// The first eight bytes as a number, with zeros after the key's end.
    #[inline]
    pub fn head(&self) -> u64 {
        let bytes = &self.0;
        if let Some(head) = bytes.first_chunk() {
            return u64::from_be_bytes(*head);
        }
        if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
            // Four to seven bytes: the last four without those of them that are among the first.
            let rest = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - bytes.len()));
            return u64::from(u32::from_be_bytes(*first)) << 32 | rest & u64::from(u32::MAX);
        }
        bytes.iter().zip([56, 48, 40]).fold(0, |head, (byte, shift)| head | u64::from(*byte) << shift)
    }
}

/// As that of bytes. Most keys of a write set differ in their first eight bytes, which one instruction compares.
impl Ord for KeyBytes {
    #[inline]
    fn cmp(&self, other: &KeyBytes) -> Ordering {
        self.head().cmp(&other.head()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for KeyBytes {
    fn partial_cmp(&self, other: &KeyBytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        KeyBytes::of(self).cmp(KeyBytes::of(other))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Borrow<KeyBytes> for Key {
    fn borrow(&self) -> &KeyBytes {
        KeyBytes::of(self)
    }
}

impl Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_bytes() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for length in 1..=18 {
            for last in [0, 1, 127, 128, 255] {
                for fill in [0, 7, 255] {
                    let mut key = vec![fill; length];
                    key[length - 1] = last;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                assert_eq!(KeyBytes::of(a).cmp(KeyBytes::of(b)), a.cmp(b), "{a:?} and {b:?}");
                let (a, b) = (Key::from(&a[..]), Key::from(&b[..]));
                assert_eq!((a.cmp(&b), a == b), (a[..].cmp(&b[..]), a[..] == b[..]));
            }
        }
    }
}

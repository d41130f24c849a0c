//! Reading what may be damaged, field by field; and the numbers of records, which take as few bytes as they need.

use crate::KEY_BYTES_MAX;

pub(crate) const SHORT: &str = "it ends too early";

/// Bytes that were not read yet. Where something is wrong with them, a text says what. Numbers are little-endian.
#[derive(Clone)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8, &'static str> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number in [`put_varint`]'s form.
    pub fn varint(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number is too large")
    }

    /// Bytes behind their length (4 bytes).
    pub fn long(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// Bytes behind their length (a varint).
    pub fn counted(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| SHORT)?)
    }

    /// A name behind its length (1 byte).
    pub fn name(&mut self) -> Result<&'a str, &'static str> {
        let len = usize::from(self.byte()?);
        std::str::from_utf8(self.take(len)?).map_err(|_| "a name is no text")
    }

    /// A key behind its length (2 bytes).
    pub fn key(&mut self) -> Result<&'a [u8], &'static str> {
        let len = usize::from(self.array().map(u16::from_le_bytes)?);
        if len > KEY_BYTES_MAX { Err("a key is too long") } else { self.take(len) }
    }
}

/// Adds a number, seven bits a byte, the lowest first; bit 7 says that another byte follows.
pub(crate) fn put_varint(out: &mut impl Extend<u8>, mut number: u64) {
    while number >= 0x80 {
        out.extend([number as u8 | 0x80]);
        number >>= 7;
    }
    out.extend([number as u8]);
}

/// Adds bytes behind their length.
pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_come_back_and_longer_ones_are_refused() {
        for number in (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut read = Bytes::new(&bytes);
            assert_eq!(read.varint(), Ok(number));
            assert!(read.is_empty());
            for len in 0..bytes.len() {
                assert_eq!(Bytes::new(&bytes[..len]).varint(), Err(SHORT));
            }
        }
        let (mut too_large, mut too_long) = ([0xff; 10], [0x80; 11]);
        (too_large[9], too_long[10]) = (2, 0);
        assert!(Bytes::new(&too_large).varint().is_err());
        assert!(Bytes::new(&too_long).varint().is_err());
    }
}

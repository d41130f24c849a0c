//! The operations that every database knows.

use super::{Call, Commutes, Family, Length, Operation, both_limits, limits_before, unsuited};
use crate::{Result, VALUE_BYTES_MAX, lock::Claim, sync::Arc};

/// Numbers: the value is a signed integer, little-endian, of 8 bytes (an integer) or 16 (an integer, or the digits of a
/// numeric whose scale its owner knows).
pub mod number {
    use super::*;

    const FAMILY: &str = "number";
    const QUANTITY: u32 = 0;

    /// Adds to a number, which must fit its width afterwards.
    pub fn add(delta: i128) -> Call {
        add_within(delta, i128::MIN, i128::MAX)
    }

    /// Adds to a number, if it is within `min..=max` afterwards.
    pub fn add_within(delta: i128, min: i128, max: i128) -> Call {
        Call { family: FAMILY, operation: "add", args: encode(&[delta, min, max]) }
    }

    /// Sets a number to the smaller of itself and this one.
    pub fn minimum(with: i128) -> Call {
        Call { family: FAMILY, operation: "minimum", args: encode(&[with]) }
    }

    /// Sets a number to the greater of itself and this one.
    pub fn maximum(with: i128) -> Call {
        Call { family: FAMILY, operation: "maximum", args: encode(&[with]) }
    }

    /// The family.
    pub(in crate::op) fn family() -> Family {
        use Commutes::{Always, Never};
        let operations: Vec<Arc<dyn Operation>> =
            vec![Arc::new(Add), Arc::new(Extreme::Minimum), Arc::new(Extreme::Maximum)];
        // Additions count on the value, so whatever else changes it waits for them.
        let table: [&[Commutes]; 3] =
            [&[Always, Never, Never], &[Never, Always, Never], &[Never, Never, Always]];
        Family::new(FAMILY, operations, &table).expect("the table is square and symmetric")
    }

    struct Add;

    enum Extreme {
        Minimum,
        Maximum,
    }

    /// In front of a number stands how many bytes it has; in the place of the outermost two, one of these.
    const LEAST: u8 = 17;
    const GREATEST: u8 = 18;

    /// Arguments: they are in memory for each operation, and in logs.
    pub(in crate::op) fn encode(numbers: &[i128]) -> Vec<u8> {
        let mut args = Vec::with_capacity(4 * numbers.len());
        for number in numbers {
            match *number {
                i128::MIN => args.push(LEAST),
                i128::MAX => args.push(GREATEST),
                number => {
                    let magnitude = if number < 0 { !number } else { number };
                    // With the sign; none of zero.
                    let bits = if number == 0 { 0 } else { i128::BITS - magnitude.leading_zeros() + 1 };
                    let bytes = bits.div_ceil(8) as usize;
                    args.push(bytes as u8);
                    args.extend_from_slice(&number.to_le_bytes()[..bytes]);
                }
            }
        }
        args
    }

    fn decode<const N: usize>(args: &[u8]) -> Result<[i128; N]> {
        let mut rest = args;
        let mut numbers = [0; N];
        for number in &mut numbers {
            let Some((&bytes, after)) = rest.split_first() else {
                return Err(unsuited("it takes another number of arguments"));
            };
            (*number, rest) = match bytes {
                LEAST => (i128::MIN, after),
                GREATEST => (i128::MAX, after),
                bytes => {
                    let (bytes, after) = after
                        .split_at_checked(bytes.into())
                        .filter(|(bytes, _)| bytes.len() <= 16)
                        .ok_or_else(|| unsuited("its arguments are cut short"))?;
                    let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
                    let mut whole = [if is_negative { 0xff } else { 0 }; 16];
                    whole[..bytes.len()].copy_from_slice(bytes);
                    (i128::from_le_bytes(whole), after)
                }
            };
        }
        if rest.is_empty() { Ok(numbers) } else { Err(unsuited("it takes another number of arguments")) }
    }

    fn read(value: &[u8]) -> Result<i128> {
        if let Ok(bytes) = value.try_into() {
            return Ok(i64::from_le_bytes(bytes).into());
        }
        let bytes = value.try_into().map_err(|_| unsuited("a number has 8 or 16 bytes"))?;
        Ok(i128::from_le_bytes(bytes))
    }

    /// A number in the width of `like`.
    fn write(number: i128, like: &[u8]) -> Result<Vec<u8>> {
        if like.len() == 16 {
            return Ok(number.to_le_bytes().into());
        }
        let number = i64::try_from(number).map_err(|_| unsuited("the number does not fit 8 bytes"))?;
        Ok(number.to_le_bytes().into())
    }

    impl Operation for Add {
        fn name(&self) -> &'static str {
            "add"
        }

        fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>> {
            let [delta, min, max] = decode(args)?;
            let (least, greatest) = match value.len() {
                8 => (i64::MIN.into(), i64::MAX.into()),
                // The outermost two stand for no bound.
                _ => (i128::MIN + 1, i128::MAX - 1),
            };
            let (min, max) = (min.max(least), max.min(greatest));
            Ok(vec![Claim { quantity: QUANTITY, value: read(value)?, delta, min, max }])
        }

        fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
            let [delta, _, _] = decode(args)?;
            let sum = read(value)?.checked_add(delta);
            write(sum.ok_or_else(|| unsuited("the number does not fit 16 bytes"))?, value)
        }

        fn inverse(&self, args: &[u8], _: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>> {
            let [delta, _, _] = decode(args)?;
            let back = delta.checked_neg().ok_or_else(|| unsuited("nothing takes that back"))?;
            Ok(Some((self.name(), encode(&[back, i128::MIN, i128::MAX]))))
        }

        fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            // The claims of both are granted by now; only the sum is left to be applied.
            let ([first, _, _], [second, _, _]) = (decode(first).ok()?, decode(second).ok()?);
            Some(encode(&[first.checked_add(second)?, i128::MIN, i128::MAX]))
        }

        fn merge_claims(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            let ([first, min, max], [second, other_min, other_max]) =
                (decode(first).ok()?, decode(second).ok()?);
            // The limits of the first are for the sum without the second.
            let limits = limits_before((min, max), second.checked_neg()?)?;
            let (min, max) = both_limits(limits, (other_min, other_max));
            Some(encode(&[first.checked_add(second)?, min, max]))
        }

        fn length(&self, _: &[u8]) -> Length {
            Length::Same
        }
    }

    impl Operation for Extreme {
        fn name(&self) -> &'static str {
            match self {
                Extreme::Minimum => "minimum",
                Extreme::Maximum => "maximum",
            }
        }

        fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>> {
            let [with] = decode(args)?;
            read(value)?;
            write(with, value)?;
            Ok(Vec::new())
        }

        fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
            let ([with], now) = (decode(args)?, read(value)?);
            let of_both = match self {
                Extreme::Minimum => now.min(with),
                Extreme::Maximum => now.max(with),
            };
            write(of_both, value)
        }

        fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            let ([first], [second]) = (decode(first).ok()?, decode(second).ok()?);
            Some(encode(&[match self {
                Extreme::Minimum => first.min(second),
                Extreme::Maximum => first.max(second),
            }]))
        }

        fn merge_claims(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            self.merge(first, second)
        }

        fn length(&self, _: &[u8]) -> Length {
            Length::Same
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn arguments_come_back_in_as_few_bytes_as_they_need() {
            let powers = (0..127).flat_map(|bit| {
                let power = 1_i128 << bit;
                [power - 1, power, power + 1, -power - 1, -power, 1 - power]
            });
            for number in powers.chain([i128::MIN, i128::MIN + 1, i128::MAX - 1, i128::MAX]) {
                let args = encode(&[number, 7, i128::MAX - number.max(0)]);
                assert_eq!(decode(&args).unwrap(), [number, 7, i128::MAX - number.max(0)]);
                assert!(decode::<2>(&args).is_err() && decode::<4>(&args).is_err());
                assert!(decode::<3>(&args[..args.len() - 1]).is_err());
            }
            assert_eq!(encode(&[0, -1, 127, 128, i128::MIN]).len(), 1 + 2 + 2 + 3 + 1);
        }
    }
}

/// Sets of byte strings. The value is its elements in their order, each with its length before it (4 bytes,
/// little-endian).
pub mod set {
    use std::collections::BTreeSet;

    use super::*;

    const FAMILY: &str = "set";
    /// The quantity of claims: the length of the value, in bytes.
    const BYTES: u32 = 0;
    const LENGTH_BYTES: usize = 4;

    /// Adds an element, unless it is there.
    pub fn insert(element: &[u8]) -> Call {
        Call { family: FAMILY, operation: "insert", args: element.into() }
    }

    /// Removes an element, if it is there.
    pub fn remove(element: &[u8]) -> Call {
        Call { family: FAMILY, operation: "remove", args: element.into() }
    }

    /// The elements of a value.
    ///
    /// # Errors
    /// [`Error::Operation`](crate::Error::Operation) if it is no set.
    pub fn elements(value: &[u8]) -> Result<BTreeSet<&[u8]>> {
        let mut elements = BTreeSet::new();
        let mut rest = value;
        while let Some((length, after)) = rest.split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (element, after) = after.split_at_checked(length).ok_or_else(|| unsuited(NO_SET))?;
            elements.insert(element);
            rest = after;
        }
        if rest.is_empty() { Ok(elements) } else { Err(unsuited(NO_SET)) }
    }

    const NO_SET: &str = "the value is no set";

    /// The family.
    pub(in crate::op) fn family() -> Family {
        use Commutes::InCommitOrder;
        // To insert twice is to insert once; but then one of the two cannot be undone beside the other.
        let table: [&[Commutes]; 2] = [&[InCommitOrder, InCommitOrder], &[InCommitOrder, InCommitOrder]];
        let operations: Vec<Arc<dyn Operation>> = vec![Arc::new(Change::Insert), Arc::new(Change::Remove)];
        Family::new(FAMILY, operations, &table).expect("the table is square and symmetric")
    }

    enum Change {
        Insert,
        Remove,
    }

    fn encode(elements: &BTreeSet<&[u8]>) -> Vec<u8> {
        let mut value = Vec::new();
        for element in elements {
            value.extend((element.len() as u32).to_le_bytes());
            value.extend_from_slice(element);
        }
        value
    }

    impl Operation for Change {
        fn name(&self) -> &'static str {
            match self {
                Change::Insert => "insert",
                Change::Remove => "remove",
            }
        }

        fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>> {
            elements(value)?;
            let delta = self.length(args).growth_bytes() as i128;
            // What is removed makes no room before it is gone for certain.
            let (value, max) = (value.len() as i128, VALUE_BYTES_MAX as i128);
            Ok(vec![Claim { quantity: BYTES, value, delta, min: 0, max }])
        }

        fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
            let mut elements = elements(value)?;
            match self {
                Change::Insert => elements.insert(args),
                Change::Remove => elements.remove(args),
            };
            Ok(encode(&elements))
        }

        fn inverse(&self, args: &[u8], value: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>> {
            let is_in = elements(value)?.contains(args);
            Ok(match self {
                Change::Insert if is_in => Some((self.name(), args.into())),
                Change::Insert => Some((Change::Remove.name(), args.into())),
                Change::Remove if is_in => Some((Change::Insert.name(), args.into())),
                Change::Remove => Some((self.name(), args.into())),
            })
        }

        fn length(&self, args: &[u8]) -> Length {
            match self {
                Change::Insert => Length::Grows(LENGTH_BYTES + args.len()),
                Change::Remove => Length::Grows(0),
            }
        }
    }
}

/// Byte strings.
pub mod bytes {
    use super::*;

    const FAMILY: &str = "bytes";
    const LENGTH: u32 = 0;

    /// Appends to the value.
    pub fn append(bytes: &[u8]) -> Call {
        Call { family: FAMILY, operation: "append", args: bytes.into() }
    }

    /// The family.
    pub(in crate::op) fn family() -> Family {
        let table: [&[Commutes]; 1] = [&[Commutes::InCommitOrder]];
        Family::new(FAMILY, vec![Arc::new(Append)], &table).expect("the table is square and symmetric")
    }

    struct Append;

    impl Operation for Append {
        fn name(&self) -> &'static str {
            "append"
        }

        fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>> {
            let (value, delta) = (value.len() as i128, args.len() as i128);
            Ok(vec![Claim { quantity: LENGTH, value, delta, min: 0, max: VALUE_BYTES_MAX as i128 }])
        }

        fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
            Ok([value, args].concat())
        }

        fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            Some([first, second].concat())
        }

        fn merge_claims(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
            self.merge(first, second)
        }

        fn length(&self, args: &[u8]) -> Length {
            Length::Grows(args.len())
        }
    }
}

//! Rows whose first eight bytes are a number (little-endian), and the operation that adds to it: what the workloads'
//! tables hold, as an embedder would register it.

use gnomon_engine::{
    Error,
    lock::Claim,
    op::{Call, Commutes, Family, Length, Operation},
    sync::Arc,
};

const FAMILY: &str = "row";
const NUMBER: u32 = 0;
const NUMBER_BYTES: usize = 8;

/// Adds to a row's number, if it is within `min..=max` afterwards.
pub fn add(delta: i64, min: i64, max: i64) -> Call {
    Call { family: FAMILY, operation: "add", args: encode([delta, min, max]) }
}

/// The operations on rows.
pub fn family() -> Family {
    Family::new(FAMILY, vec![Arc::new(Add)], &[&[Commutes::Always]]).expect("the table is square")
}

/// A row's number.
pub fn number(row: &[u8]) -> Option<i64> {
    row.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
}

struct Add;

fn encode(numbers: [i64; 3]) -> Vec<u8> {
    numbers.map(i64::to_le_bytes).concat()
}

fn decode(args: &[u8]) -> Result<[i64; 3], Error> {
    let (numbers, []) = args.as_chunks::<NUMBER_BYTES>() else { return Err(unsuited("its arguments")) };
    let numbers: &[[u8; NUMBER_BYTES]; 3] = numbers.try_into().map_err(|_| unsuited("its arguments"))?;
    Ok(numbers.map(i64::from_le_bytes))
}

fn unsuited(what: &str) -> Error {
    Error::Operation(format!("{what} are cut short").into())
}

fn read(row: &[u8]) -> Result<i64, Error> {
    number(row).ok_or_else(|| unsuited("the row's bytes"))
}

impl Operation for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn claims(&self, args: &[u8], row: &[u8]) -> Result<Vec<Claim>, Error> {
        let [delta, min, max] = decode(args)?.map(i128::from);
        Ok(vec![Claim { quantity: NUMBER, value: read(row)?.into(), delta, min, max }])
    }

    fn apply(&self, args: &[u8], row: &[u8]) -> Result<Vec<u8>, Error> {
        let [delta, _, _] = decode(args)?;
        let sum =
            read(row)?.checked_add(delta).ok_or_else(|| Error::Operation("the number overflows".into()))?;
        let mut row = row.to_vec();
        row[..NUMBER_BYTES].copy_from_slice(&sum.to_le_bytes());
        Ok(row)
    }

    fn inverse(&self, args: &[u8], _: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>, Error> {
        let [delta, _, _] = decode(args)?;
        Ok(delta.checked_neg().map(|back| (self.name(), encode([back, i64::MIN, i64::MAX]))))
    }

    fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let ([first, _, _], [second, _, _]) = (decode(first).ok()?, decode(second).ok()?);
        Some(encode([first.checked_add(second)?, i64::MIN, i64::MAX]))
    }

    fn length(&self, _: &[u8]) -> Length {
        Length::Same
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::op::{Trial, check_family};

    use super::*;

    #[test]
    fn additions_commute() {
        check_family(&family(), 10_000, 1, |rng| {
            let mut near = || match rng.below(5) {
                0 => i64::MAX - rng.below(3) as i64,
                1 => i64::MIN + rng.below(3) as i64,
                _ => rng.below(9) as i64 - 4,
            };
            let mut call = || (0, encode([near(), near(), near()]));
            let calls = [call(), call()];
            Trial { value: [&near().to_le_bytes()[..], b"rest"].concat(), calls }
        })
        .unwrap();
    }
}

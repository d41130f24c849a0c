//! Amounts of money as columns of type numeric have them: in hundredths here, in decimal digits there.

use std::{error, fmt};

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// An amount in hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Money(pub i64);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let amount = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", amount / 100, amount % 100)
    }
}

/// A numeric's binary form has digits to this base, of which the first has a weight.
const BASE: u64 = 10_000;
/// The code of a minus.
const NEGATIVE: u16 = 0x4000;

impl ToSql for Money {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn error::Error + Sync + Send>> {
        let amount = self.0.unsigned_abs();
        // The last digit is behind the point.
        let mut digits = vec![(amount % 100 * 100) as u16];
        let mut rest = amount / 100;
        while rest > 0 {
            digits.push((rest % BASE) as u16);
            rest /= BASE;
        }
        let sign = if self.0 < 0 { NEGATIVE } else { 0 };
        let head = [digits.len() as u16, (digits.len() as u16).wrapping_sub(2), sign, 2];
        head.into_iter().chain(digits.into_iter().rev()).for_each(|part| out.extend(part.to_be_bytes()));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Money {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Money, Box<dyn error::Error + Sync + Send>> {
        let (parts, _) = raw.as_chunks();
        let mut parts = parts.iter().map(|part| u16::from_be_bytes(*part));
        let head = [(); 4].map(|()| parts.next());
        let [Some(_), Some(weight), Some(sign @ (0 | NEGATIVE)), Some(_)] = head else {
            return Err("a numeric is no number".into());
        };
        let mut amount = 0_i64;
        for (place, digit) in (0..).zip(parts) {
            let digit = i64::from(digit);
            let hundredths = match i32::from(weight as i16) - place {
                whole @ 0..=3 => Some(digit * 100 * (BASE as i64).pow(whole as u32)),
                -1 if digit % 100 == 0 => Some(digit / 100),
                _ if digit == 0 => Some(0),
                _ => None,
            };
            amount = hundredths
                .and_then(|hundredths| amount.checked_add(hundredths))
                .ok_or("a numeric is no amount in hundredths")?;
        }
        Ok(Money(if sign == NEGATIVE { -amount } else { amount }))
    }

    accepts!(NUMERIC);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(amount: i64) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        Money(amount).to_sql(&Type::NUMERIC, &mut bytes).unwrap();
        bytes.to_vec()
    }

    fn parts(parts: &[u16]) -> Vec<u8> {
        parts.iter().flat_map(|part| part.to_be_bytes()).collect()
    }

    fn decoded(from: &[u16]) -> Option<i64> {
        Money::from_sql(&Type::NUMERIC, &parts(from)).ok().map(|money| money.0)
    }

    #[test]
    fn amounts_are_written_as_numerics() {
        assert_eq!(encoded(123_456_789), parts(&[3, 1, 0, 2, 123, 4567, 8900]));
        assert_eq!(encoded(-5), parts(&[1, 0xffff, NEGATIVE, 2, 500]));
        assert_eq!(
            ["0.00", "-0.05", "12.30"],
            [0, -5, 1230].map(|amount| Money(amount).to_string()[..].to_owned())
        );
    }

    #[test]
    fn numerics_are_read_as_amounts() {
        for amount in [0, 1, 99, 100, -100, 999_999, -1_000_000, 123_456_789_012, i64::MAX / 200] {
            assert_eq!(Money::from_sql(&Type::NUMERIC, &encoded(amount)).unwrap(), Money(amount));
        }
        // Without digits behind the point, without any, and with more digits than there are hundredths.
        assert_eq!((decoded(&[1, 1, 0, 0, 2]), decoded(&[0, 0, 0, 2])), (Some(2_000_000), Some(0)));
        assert_eq!((decoded(&[1, 0xffff, 0, 4, 501]), decoded(&[1, 4, 0, 0, 1])), (None, None));
        // NaN, and something cut short.
        assert_eq!((decoded(&[0, 0, 0xc000, 0]), decoded(&[1, 0])), (None, None));
    }
}

//! Records: updates of single fields of a value that has several, none of which sees more of it than its conditions.
//!
//! A record is a count of fields (a varint), a bit for each that is set if it is null (lowest first), and the fields
//! that are not null, one after the other. A field has a width of its own, or has its length (a varint) in front. A
//! varint has seven bits a byte, lowest first, the high bit set in all but the last. Fields behind the last one are
//! null. The widths of fields are not stored with a record: the caller gives them.
//!
//! Numbers are signed integers, little-endian, in fields of 1, 2, 4 or 8 bytes, or decimals in fields of varying
//! length: a byte for the sign (0, or 1 of a negative one), the scale (a varint), and the magnitude, little-endian,
//! without zeros at its end but for the one byte of zero itself.
//!
//! A number that is added to is a quantity: claims keep it within bounds. All updates that add to a field or have a
//! condition on it must name the same number; and none may set such a field, which would change it unclaimed. A null
//! stays null, whatever is added.

use std::collections::BTreeMap;

use super::{Call, Commutes, Family, Length, Operation, both_limits, limits_before, unsuited};
use crate::{Error, Result, lock::Claim, sync::Arc};

const FAMILY: &str = "record";
const UPDATE: &str = "update";

/// Decimals are counted in units of 10^-18 at most, and fit 127 bits.
const SCALE_MAX: u8 = 18;
/// No decimal of 16 bytes takes more: its length, sign, scale and magnitude.
const DECIMAL_BYTES_MAX: usize = 1 + 1 + 1 + 16;
/// The greatest number of units, of any number.
const UNITS_MAX: i128 = 10_i128.pow(38);

/// The format in which a number is stored, and the units in which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer as wide as its field.
    Integer,
    /// A decimal that always has this scale (18 at most) and is counted in units of its last digit.
    Fixed(u8),
    /// A decimal of any scale up to 18, counted in units of 10^-18. The sum of two has the greater of their scales.
    Decimal,
}

/// A condition on a number: that it is within these bounds, in units. It is not met by a null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The field's place in the record, from 0.
    pub field: u16,
    /// The kind of number in the field.
    pub number: Number,
    /// The least that it may be; `i128::MIN` is no bound.
    pub min: i128,
    /// The greatest; `i128::MAX` is no bound.
    pub max: i128,
}

/// A change of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A number is added to.
    Add {
        /// The kind of number in the field.
        number: Number,
        /// Number of units that are added.
        delta: i128,
        /// The scale of what is added; counts for [`Number::Decimal`] only.
        scale: u8,
        /// The least that there may be afterwards, in units.
        min: i128,
        /// The greatest.
        max: i128,
    },
    /// A field that no update adds to is set to these bytes (one of varying length begins with its length), or to null.
    Set(Option<Vec<u8>>),
}

/// An update of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The widths of the fields up to the last one named below, in bytes; 0 for a varying length.
    pub widths: Vec<u8>,
    /// Conditions that the record must meet before the update.
    pub conditions: Vec<Condition>,
    /// The changes, by field.
    pub changes: BTreeMap<u16, Change>,
}

/// An update. Its claims are the conditions, in their order, then the additions in the order of fields.
///
/// # Errors
/// [`Error::Operation`] if its parts do not suit each other.
pub fn update(update: &Update) -> Result<Call> {
    update.check()?;
    Ok(Call { family: FAMILY, operation: UPDATE, args: update.encode() })
}

/// The family.
pub(in crate::op) fn family() -> Family {
    let operations: Vec<Arc<dyn Operation>> = vec![Arc::new(UpdateFields)];
    Family::new(FAMILY, operations, &[&[Commutes::InCommitOrder]]).expect("the table is square and symmetric")
}

struct UpdateFields;

impl Operation for UpdateFields {
    fn name(&self) -> &'static str {
        UPDATE
    }

    fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>> {
        let update = Update::decode(args)?;
        let record = Record::read(value, &update.widths)?;
        let mut claims = Vec::with_capacity(update.conditions.len() + update.changes.len());
        for Condition { field, number, min, max } in &update.conditions {
            let quantity = u32::from(*field);
            claims.push(match record.number(*field, *number)? {
                Some(value) => Claim { quantity, value, delta: 0, min: *min, max: *max },
                None => Claim { quantity, value: 0, delta: 0, min: 1, max: 0 },
            });
        }
        for (field, change) in &update.changes {
            let Change::Add { number, delta, min, max, .. } = change else { continue };
            let Some(value) = record.number(*field, *number)? else { continue };
            let (least, greatest) = number.bounds(update.widths[usize::from(*field)]);
            let (min, max) = ((*min).max(least), (*max).min(greatest));
            claims.push(Claim { quantity: u32::from(*field), value, delta: *delta, min, max });
        }
        Ok(claims)
    }

    fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let update = Update::decode(args)?;
        let mut made: BTreeMap<u16, Option<Vec<u8>>> = BTreeMap::new();
        let mut record = Record::read(value, &update.widths)?;
        for (field, change) in update.changes {
            let bytes = match change {
                Change::Set(bytes) => bytes,
                Change::Add { number, delta, scale, .. } => match record.field(field) {
                    None => continue,
                    Some(bytes) => Some(number.sum(bytes, delta, scale)?),
                },
            };
            made.insert(field, bytes);
        }
        for (field, bytes) in &made {
            record.set(*field, bytes.as_deref());
        }
        Ok(record.write())
    }

    fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let (mut both, second) = (Update::decode(first).ok()?, Update::decode(second).ok()?);
        if second.widths.len() > both.widths.len() {
            both.widths = second.widths;
        }
        // The claims of both are granted by now: only the changes, and the fields of the conditions, are still needed.
        both.conditions.extend(second.conditions);
        both.conditions.sort_by_key(|condition| condition.field);
        both.conditions.dedup_by_key(|condition| condition.field);
        for condition in &mut both.conditions {
            (condition.min, condition.max) = (i128::MIN, i128::MAX);
        }
        for (field, change) in second.changes {
            let change = match (both.changes.remove(&field), change) {
                (None, change) | (Some(Change::Set(_)), change @ Change::Set(_)) => change,
                (
                    Some(Change::Add { number, delta: first, scale, min, max }),
                    Change::Add { number: other, delta, scale: other_scale, .. },
                ) if number == other => {
                    let delta = first.checked_add(delta)?;
                    Change::Add { number, delta, scale: scale.max(other_scale), min, max }
                }
                _ => return None,
            };
            both.changes.insert(field, change);
        }
        for change in both.changes.values_mut() {
            if let Change::Add { min, max, .. } = change {
                (*min, *max) = (i128::MIN, i128::MAX);
            }
        }
        Some(both.encode())
    }

    fn merge_claims(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let (mut both, second) = (Update::decode(first).ok()?, Update::decode(second).ok()?);
        if second.widths.len() > both.widths.len() {
            both.widths = second.widths;
        }
        for Condition { field, number, min, max } in second.conditions {
            // It is one on what the first has made of the field.
            let limits = match both.changes.get(&field) {
                None => (min, max),
                Some(Change::Add { number: added, delta, .. }) if *added == number => {
                    limits_before((min, max), *delta)?
                }
                Some(_) => return None,
            };
            match both.conditions.iter_mut().find(|own| own.field == field) {
                None => {
                    let (min, max) = limits;
                    both.conditions.push(Condition { field, number, min, max });
                }
                Some(own) if own.number == number => {
                    (own.min, own.max) = both_limits((own.min, own.max), limits);
                }
                Some(_) => return None,
            }
        }
        for (field, change) in second.changes {
            let change = match (both.changes.remove(&field), change) {
                (None, change) | (Some(Change::Set(_)), change @ Change::Set(_)) => change,
                (
                    Some(Change::Add { number, delta: first, scale, min, max }),
                    Change::Add { number: added, delta, scale: other_scale, min: other_min, max: other_max },
                ) if number == added => {
                    let limits = limits_before((min, max), delta.checked_neg()?)?;
                    let (min, max) = both_limits(limits, (other_min, other_max));
                    let delta = first.checked_add(delta)?;
                    Change::Add { number, delta, scale: scale.max(other_scale), min, max }
                }
                _ => return None,
            };
            both.changes.insert(field, change);
        }
        Some(both.encode())
    }

    fn length(&self, args: &[u8]) -> Length {
        // What cannot be read is refused by its claims.
        let Ok(update) = Update::decode(args) else { return Length::Same };
        let bytes_of = |(field, change): (&u16, &Change)| match change {
            Change::Add { number: Number::Integer, .. } => 0,
            Change::Add { .. } => DECIMAL_BYTES_MAX,
            // The count of fields, and their bits.
            Change::Set(bytes) => bytes.as_ref().map_or(0, Vec::len) + 2 + usize::from(*field) / 8 + 1,
        };
        let keeps = |change: &Change| matches!(change, Change::Add { number: Number::Integer, .. });
        match update.changes.values().all(keeps) {
            true => Length::Same,
            false => Length::Grows(update.changes.iter().map(bytes_of).sum()),
        }
    }
}

impl Number {
    /// The least and the greatest number of a field, in units.
    fn bounds(self, width: u8) -> (i128, i128) {
        match self {
            Number::Integer => (-1 << (8 * u32::from(width) - 1), (1 << (8 * u32::from(width) - 1)) - 1),
            Number::Fixed(_) | Number::Decimal => (-UNITS_MAX, UNITS_MAX),
        }
    }

    /// The scale of a unit.
    pub fn scale(self) -> u8 {
        match self {
            Number::Integer => 0,
            Number::Fixed(scale) => scale,
            Number::Decimal => SCALE_MAX,
        }
    }

    /// True if a field of this width can hold it.
    fn suits(self, width: u8) -> bool {
        match self {
            Number::Integer => matches!(width, 1 | 2 | 4 | 8),
            Number::Fixed(_) | Number::Decimal => width == 0 && self.scale() <= SCALE_MAX,
        }
    }

    /// True if so many units have no digits behind a scale; always, unless it is a [`Number::Decimal`].
    fn has_scale(self, delta: i128, scale: u8) -> bool {
        self != Number::Decimal || delta % 10_i128.pow(u32::from(SCALE_MAX - scale)) == 0
    }

    /// Returns the number of units that a field's bytes stand for.
    fn units(self, bytes: &[u8]) -> Result<i128> {
        if self == Number::Integer {
            let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
            let mut wide = [if negative { 0xff } else { 0 }; 16];
            wide.get_mut(..bytes.len()).ok_or_else(damaged)?.copy_from_slice(bytes);
            return Ok(i128::from_le_bytes(wide));
        }
        let decimal = Decimal::read(bytes)?;
        let more = u32::from(self.scale()).checked_sub(u32::from(decimal.scale));
        let units = more.and_then(|more| decimal.unscaled.checked_mul(10_i128.checked_pow(more)?));
        units
            .filter(|units| units.abs() <= UNITS_MAX)
            .ok_or_else(|| unsuited("the decimal has too many digits"))
    }

    /// The bytes of a field that had `bytes`, with `delta` units of `scale` added.
    fn sum(self, bytes: &[u8], delta: i128, scale: u8) -> Result<Vec<u8>> {
        let too_great = || unsuited("the sum does not fit its field");
        let units = self.units(bytes)?.checked_add(delta).ok_or_else(too_great)?;
        let (min, max) = match self {
            Number::Integer => self.bounds(bytes.len() as u8),
            Number::Fixed(_) | Number::Decimal => self.bounds(0),
        };
        if !(min..=max).contains(&units) {
            return Err(too_great());
        }
        Ok(match self {
            Number::Integer => units.to_le_bytes()[..bytes.len()].to_vec(),
            Number::Fixed(scale) => Decimal { unscaled: units, scale }.write(),
            Number::Decimal => {
                let shown = scale.max(Decimal::read(bytes)?.scale);
                let less = SCALE_MAX.checked_sub(shown).ok_or_else(too_great)?;
                Decimal { unscaled: units / 10_i128.pow(less.into()), scale: shown }.write()
            }
        })
    }
}

/// A decimal as it is stored.
struct Decimal {
    unscaled: i128,
    scale: u8,
}

impl Decimal {
    /// Reads a field, its length in front.
    fn read(field: &[u8]) -> Result<Decimal> {
        let mut reader = Reader(field);
        let length = reader.varint()?;
        let mut reader = Reader(reader.slice(length)?);
        let [kind] = reader.array()?;
        if kind > 1 {
            return Err(unsuited("it is no number to count with"));
        }
        let scale =
            u8::try_from(reader.varint()?).map_err(|_| unsuited("the decimal has too many digits"))?;
        let mut wide = [0; 16];
        let digits =
            wide.get_mut(..reader.0.len()).ok_or_else(|| unsuited("the decimal has too many digits"))?;
        digits.copy_from_slice(reader.0);
        let magnitude = i128::from_le_bytes(wide);
        if magnitude < 0 {
            return Err(unsuited("the decimal has too many digits"));
        }
        Ok(Decimal { unscaled: if kind == 1 { -magnitude } else { magnitude }, scale })
    }

    fn write(&self) -> Vec<u8> {
        let magnitude = self.unscaled.unsigned_abs().to_le_bytes();
        let len = magnitude.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        // Each of these is less than 128.
        let mut bytes = vec![2 + len as u8, u8::from(self.unscaled < 0), self.scale];
        bytes.extend_from_slice(&magnitude[..len]);
        bytes
    }
}

/// A record, taken apart.
struct Record<'a> {
    /// Of each field of the widths given its bytes, with its length if that varies; none if it is null.
    fields: Vec<Option<&'a [u8]>>,
    /// Number of fields, with those behind the widths given.
    count: usize,
    /// The null bits of all fields.
    nulls: &'a [u8],
    /// The bytes of the fields behind the widths given.
    rest: &'a [u8],
}

impl<'a> Record<'a> {
    fn read(value: &'a [u8], widths: &[u8]) -> Result<Record<'a>> {
        let mut reader = Reader(value);
        let count = reader.varint()?;
        let nulls = reader.slice(count.div_ceil(8))?;
        let mut fields = vec![None; widths.len()];
        for (field, width) in widths.iter().enumerate().take(count) {
            if bit(nulls, field) {
                continue;
            }
            let before = reader.0;
            let length = match width {
                0 => reader.varint()?,
                width => usize::from(*width),
            };
            reader.slice(length)?;
            fields[field] = Some(&before[..before.len() - reader.0.len()]);
        }
        Ok(Record { fields, count, nulls, rest: reader.0 })
    }

    fn field(&self, field: u16) -> Option<&'a [u8]> {
        self.fields.get(usize::from(field)).copied().flatten()
    }

    fn number(&self, field: u16, number: Number) -> Result<Option<i128>> {
        self.field(field).map(|bytes| number.units(bytes)).transpose()
    }

    fn set(&mut self, field: u16, bytes: Option<&'a [u8]>) {
        let field = usize::from(field);
        self.fields[field] = bytes;
        self.count = self.count.max(field + 1);
    }

    fn write(&self) -> Vec<u8> {
        let mut value = Vec::new();
        put_varint(&mut value, self.count);
        let start = value.len();
        value.resize(start + self.count.div_ceil(8), 0);
        for field in 0..self.count {
            let is_null = match self.fields.get(field) {
                Some(bytes) => bytes.is_none(),
                None => bit(self.nulls, field),
            };
            value[start + field / 8] |= u8::from(is_null) << (field % 8);
        }
        self.fields.iter().flatten().for_each(|bytes| value.extend_from_slice(bytes));
        value.extend_from_slice(self.rest);
        value
    }
}

/// True if a field is null: its bit is set, or it has none.
fn bit(nulls: &[u8], field: usize) -> bool {
    nulls.get(field / 8).is_none_or(|byte| byte >> (field % 8) & 1 == 1)
}

fn damaged() -> Error {
    unsuited("it is no record of such fields")
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len).ok_or_else(damaged)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = tail;
        Ok(*head)
    }

    fn varint(&mut self) -> Result<usize> {
        let mut value = 0;
        for shift in (0..56).step_by(7) {
            let [byte] = self.array()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // There is one way only to write a number, so that a record that is written again is as long.
                return if byte == 0 && shift > 0 { Err(damaged()) } else { Ok(value) };
            }
        }
        Err(damaged())
    }

    fn number(&mut self) -> Result<Number> {
        let [kind, scale] = self.array()?;
        match kind {
            0 => Ok(Number::Integer),
            1 => Ok(Number::Fixed(scale)),
            2 => Ok(Number::Decimal),
            _ => Err(damaged()),
        }
    }

    fn units(&mut self) -> Result<i128> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    fn field(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }
}

fn put_number(out: &mut Vec<u8>, number: Number) {
    out.extend(match number {
        Number::Integer => [0, 0],
        Number::Fixed(scale) => [1, scale],
        Number::Decimal => [2, 0],
    });
}

/// Its bytes, integers little-endian: how many widths (2), the widths (1 each); how many conditions (2), of each the
/// field (2), the number (its kind and scale, 1 each), both bounds (16 each); of each change the field (2) and a kind
/// (1): 0 with the number, the delta (16), its scale (1) and both bounds, 1 with the length (4) and the bytes, 2 for
/// null.
impl Update {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((self.widths.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.widths);
        out.extend((self.conditions.len() as u16).to_le_bytes());
        for Condition { field, number, min, max } in &self.conditions {
            out.extend(field.to_le_bytes());
            put_number(&mut out, *number);
            out.extend(min.to_le_bytes());
            out.extend(max.to_le_bytes());
        }
        for (field, change) in &self.changes {
            out.extend(field.to_le_bytes());
            match change {
                Change::Add { number, delta, scale, min, max } => {
                    out.push(0);
                    put_number(&mut out, *number);
                    out.extend(delta.to_le_bytes());
                    out.push(*scale);
                    out.extend(min.to_le_bytes());
                    out.extend(max.to_le_bytes());
                }
                Change::Set(Some(bytes)) => {
                    out.push(1);
                    out.extend((bytes.len() as u32).to_le_bytes());
                    out.extend_from_slice(bytes);
                }
                Change::Set(None) => out.push(2),
            }
        }
        out
    }

    fn decode(args: &[u8]) -> Result<Update> {
        let mut reader = Reader(args);
        let count = reader.field()?.into();
        let widths = reader.slice(count)?.to_vec();
        let mut update = Update { widths, ..Update::default() };
        for _ in 0..reader.field()? {
            let (field, number) = (reader.field()?, reader.number()?);
            update.conditions.push(Condition { field, number, min: reader.units()?, max: reader.units()? });
        }
        while !reader.0.is_empty() {
            let field = reader.field()?;
            let change = match reader.array()? {
                [0] => {
                    let (number, delta, [scale]) = (reader.number()?, reader.units()?, reader.array()?);
                    Change::Add { number, delta, scale, min: reader.units()?, max: reader.units()? }
                }
                [1] => {
                    let length = u32::from_le_bytes(reader.array()?) as usize;
                    Change::Set(Some(reader.slice(length)?.to_vec()))
                }
                [2] => Change::Set(None),
                _ => return Err(damaged()),
            };
            update.changes.insert(field, change);
        }
        update.check()?;
        Ok(update)
    }

    fn check(&self) -> Result<()> {
        let width = |field: &u16| self.widths.get(usize::from(*field)).copied();
        let fits = |(field, change): (&u16, &Change)| match (width(field), change) {
            (Some(width), Change::Add { number, delta, scale, .. }) => {
                number.suits(width) && *scale <= SCALE_MAX && number.has_scale(*delta, *scale)
            }
            (Some(0), Change::Set(Some(bytes))) => {
                let mut reader = Reader(bytes);
                reader.varint().is_ok_and(|length| length == reader.0.len())
            }
            (Some(width), Change::Set(Some(bytes))) => bytes.len() == usize::from(width),
            (Some(_), Change::Set(None)) => true,
            (None, _) => false,
        };
        let suits = |condition: &Condition| {
            width(&condition.field).is_some_and(|width| condition.number.suits(width))
        };
        let counted = self.widths.len().max(self.conditions.len()) <= usize::from(u16::MAX);
        match counted && self.changes.iter().all(fits) && self.conditions.iter().all(suits) {
            true => Ok(()),
            false => Err(unsuited("a field is not what is to become of it")),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        env::Rng,
        op::{Trial, check_family},
    };

    const WIDTHS: [u8; 10] = [4, 0, 0, 0, 8, 2, 1, 4, 4, 4];

    fn decimal(unscaled: i128, scale: u8) -> Change {
        Change::Set(Some(Decimal { unscaled, scale }.write()))
    }

    fn text(text: &str) -> Change {
        Change::Set(Some([&[text.len() as u8], text.as_bytes()].concat()))
    }

    fn add(number: Number, delta: i128, scale: u8) -> Change {
        Change::Add { number, delta, scale, min: i128::MIN, max: i128::MAX }
    }

    fn args(conditions: Vec<Condition>, changes: impl IntoIterator<Item = (u16, Change)>) -> Vec<u8> {
        let changes: BTreeMap<u16, Change> = changes.into_iter().collect();
        update(&Update { widths: WIDTHS.into(), conditions, changes }).unwrap().args
    }

    fn made(record: &[u8], changes: impl IntoIterator<Item = (u16, Change)>) -> Vec<u8> {
        UpdateFields.apply(&args(Vec::new(), changes), record).unwrap()
    }

    #[test]
    fn fields_change_alone() {
        let record = made(&[0], [(0, Change::Set(Some(vec![1, 0, 0, 0]))), (3, text("a"))]);
        assert_eq!(record, [4, 0b0110, 1, 0, 0, 0, 1, b'a']);
        let more =
            made(&record, [(0, add(Number::Integer, -3, 0)), (1, decimal(-150, 2)), (3, Change::Set(None))]);
        assert_eq!(more, [4, 0b1100, 0xfe, 0xff, 0xff, 0xff, 3, 1, 2, 150]);
        let sum = made(&more, [(1, add(Number::Fixed(2), 150, 0)), (2, add(Number::Decimal, 1, 18))]);
        assert_eq!(sum, [4, 0b1100, 0xfe, 0xff, 0xff, 0xff, 3, 0, 2, 0], "zero; a null stays null");
        let wide = made(&sum, [(9, Change::Set(Some(vec![7; 4])))]);
        assert_eq!(wide, [10, 0b1111_1100, 0b01, 0xfe, 0xff, 0xff, 0xff, 3, 0, 2, 0, 7, 7, 7, 7]);
        let behind = made(&wide, [(1, Change::Set(None))]);
        assert_eq!(behind, [10, 0b1111_1110, 0b01, 0xfe, 0xff, 0xff, 0xff, 7, 7, 7, 7]);
    }

    #[test]
    fn decimals_have_the_greater_scale() {
        let record = made(&[0], [(2, decimal(15, 1))]);
        let sum = made(&record, [(2, add(Number::Decimal, 25 * 10_i128.pow(16), 2))]);
        assert_eq!(sum, made(&[0], [(2, decimal(175, 2))]));
        let back = made(&sum, [(2, add(Number::Decimal, -25 * 10_i128.pow(16), 2))]);
        assert_eq!(back, made(&[0], [(2, decimal(150, 2))]));
    }

    #[test]
    fn what_does_not_suit_is_an_error() {
        let condition = |field, number| vec![Condition { field, number, min: 0, max: 0 }];
        for wrong in [
            Update { widths: vec![4], changes: [(1, Change::Set(None))].into(), ..Update::default() },
            Update {
                widths: vec![4],
                changes: [(0, Change::Set(Some(vec![1])))].into(),
                ..Update::default()
            },
            Update {
                widths: vec![0],
                changes: [(0, Change::Set(Some(vec![2, 1])))].into(),
                ..Update::default()
            },
            Update {
                widths: vec![0],
                changes: [(0, add(Number::Integer, 1, 0))].into(),
                ..Update::default()
            },
            Update {
                widths: vec![4],
                changes: [(0, add(Number::Fixed(2), 1, 0))].into(),
                ..Update::default()
            },
            Update {
                widths: vec![0],
                changes: [(0, add(Number::Fixed(19), 1, 0))].into(),
                ..Update::default()
            },
            Update { widths: vec![3], conditions: condition(0, Number::Integer), ..Update::default() },
            Update {
                widths: vec![0],
                changes: [(0, add(Number::Decimal, 1, 17))].into(),
                ..Update::default()
            },
            Update { widths: vec![4; 1 << 16], ..Update::default() },
            Update {
                widths: vec![4],
                conditions: condition(0, Number::Integer).repeat(1 << 16),
                ..Update::default()
            },
        ] {
            assert!(update(&wrong).is_err(), "{wrong:?}");
        }
        let nan = made(&[0], [(1, Change::Set(Some(vec![1, 2])))]);
        let wide = made(&[0], [(1, Change::Set(Some([&[18, 0, 0][..], &[1; 16]].concat())))]);
        let fine = made(&[0], [(1, decimal(1, 19))]);
        let call = args(Vec::new(), [(1, add(Number::Decimal, 1, 18))]);
        for record in
            [&nan, &wide, &fine, &vec![3], &vec![], &vec![0x80; 12], &vec![2, 0, 1], &vec![0x82, 0, 3]]
        {
            assert!(UpdateFields.claims(&call, record).is_err(), "{record:?}");
        }
        for cut in 0..call.len() {
            assert!(Update::decode(&call[..cut]).is_err() || cut == 14, "{cut}");
        }
    }

    #[test]
    fn a_null_meets_no_condition_and_claims_nothing() {
        let conditions = vec![Condition { field: 0, number: Number::Integer, min: i128::MIN, max: 9 }];
        let call = args(conditions, [(0, add(Number::Integer, 1, 0)), (5, add(Number::Integer, 1, 0))]);
        let claims = UpdateFields.claims(&call, &[0]).unwrap();
        assert_eq!(claims, [Claim { quantity: 0, value: 0, delta: 0, min: 1, max: 0 }]);
    }

    /// Records near the bounds of their fields, and updates of them.
    fn trial(rng: &mut Rng) -> Trial {
        const NUMBERS: [(u16, Number); 5] = [
            (0, Number::Integer),
            (1, Number::Fixed(2)),
            (2, Number::Decimal),
            (4, Number::Integer),
            (6, Number::Integer),
        ];
        let near = |rng: &mut Rng, field: u16, number: Number| {
            let (min, max) = number.bounds(WIDTHS[usize::from(field)]);
            let small = i128::from(rng.below(9) as u32) - 4;
            match rng.below(6) {
                0 => max - small.abs(),
                1 => min + small.abs(),
                _ => small,
            }
        };
        let mut changes = Vec::new();
        for (field, number) in NUMBERS {
            let units = near(rng, field, number);
            changes.push((
                field,
                match number {
                    _ if rng.chance(1, 8) => Change::Set(None),
                    Number::Integer => {
                        let width = WIDTHS[usize::from(field)].into();
                        Change::Set(Some(units.to_le_bytes()[..width].to_vec()))
                    }
                    Number::Fixed(scale) => decimal(units, scale),
                    Number::Decimal => decimal(units, SCALE_MAX),
                },
            ));
        }
        let value = made(&[0], changes.into_iter().take(rng.below(6) as usize));
        let mut call = || {
            let mut conditions = Vec::new();
            let mut changes = BTreeMap::new();
            for (field, number) in NUMBERS {
                let (a, b) = (near(rng, field, number), near(rng, field, number));
                if rng.chance(1, 4) {
                    conditions.push(Condition { field, number, min: a.min(b), max: a.max(b) });
                }
                if rng.chance(1, 2) {
                    let scale = rng.below(19) as u8;
                    let coarse = 10_i128.pow(u32::from(SCALE_MAX - scale));
                    let delta = match number {
                        Number::Decimal => near(rng, field, number) / coarse * coarse,
                        _ => near(rng, field, number),
                    };
                    let (min, max) =
                        if rng.chance(1, 2) { (a.min(b), i128::MAX) } else { (i128::MIN, i128::MAX) };
                    changes.insert(field, Change::Add { number, delta, scale, min, max });
                }
            }
            for field in [3, 7, 9] {
                match rng.below(4) {
                    0 => changes.insert(field, Change::Set(None)),
                    1 if field == 3 => changes.insert(field, text(["", "a", "bcd"][rng.below(3) as usize])),
                    1 => changes.insert(field, Change::Set(Some(vec![rng.below(9) as u8; 4]))),
                    _ => None,
                };
            }
            (0, args(conditions, changes))
        };
        Trial { value, calls: [call(), call()] }
    }

    #[test]
    fn updates_commute_as_declared() {
        check_family(&family(), 20_000, 4, trial).unwrap();
    }
}

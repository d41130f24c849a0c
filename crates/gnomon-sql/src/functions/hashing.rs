//! The functions of hash operator classes: `hashint4`, `hashtextextended`. Their values are those of PostgreSQL.

use super::{
    arguments::{any, float, integer},
    declaration::Declarations,
};
use crate::{
    Result,
    types::{Datum, Numeric, Type, compare::trim_blanks, datetime::arithmetic::interval_span, to_base_10000},
};

/// The start of every hash; the length of the value is added.
const BEGIN: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

/// Bob Jenkins' hash of three words at a time, as PostgreSQL computes it.
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    /// Begins the hash of so many bytes, with a seed for hashes of 64 bits.
    fn new(length: usize, seed: u64) -> State {
        let begin = BEGIN.wrapping_add(length as u32);
        let mut state = State { a: begin, b: begin, c: begin };
        if seed != 0 {
            state.add([(seed >> 32) as u32, seed as u32, 0]);
            state.mix();
        }
        state
    }

    fn add(&mut self, [a, b, c]: [u32; 3]) {
        self.a = self.a.wrapping_add(a);
        self.b = self.b.wrapping_add(b);
        self.c = self.c.wrapping_add(c);
    }

    fn mix(&mut self) {
        let State { mut a, mut b, mut c } = *self;
        for turns in [[4, 6, 8], [16, 19, 4]] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turns[0]);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(turns[1]);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(turns[2]);
            b = b.wrapping_add(a);
        }
        *self = State { a, b, c };
    }

    /// Ends the hash: 32 bits of it, or 64.
    fn finish(self, is_long: bool) -> u64 {
        let State { mut a, mut b, mut c } = self;
        let step = |to: &mut u32, from: u32, turn: u32| {
            *to = (*to ^ from).wrapping_sub(from.rotate_left(turn));
        };
        step(&mut c, b, 14);
        step(&mut a, c, 11);
        step(&mut b, a, 25);
        step(&mut c, b, 16);
        step(&mut a, c, 4);
        step(&mut b, a, 14);
        step(&mut c, b, 24);
        match is_long {
            true => u64::from(b) << 32 | u64::from(c),
            false => u64::from(c),
        }
    }
}

/// A hash: of 32 bits, or of 64 with a seed.
#[derive(Clone, Copy)]
struct Hash {
    seed: Option<u64>,
}

impl Hash {
    fn of_bytes(self, bytes: &[u8]) -> u64 {
        let mut state = State::new(bytes.len(), self.seed.unwrap_or(0));
        let words = |piece: &[u8]| {
            let word = |at: usize| {
                let byte = |i: usize| u32::from(piece.get(at + i).copied().unwrap_or(0)) << (8 * i);
                byte(0) | byte(1) | byte(2) | byte(3)
            };
            [word(0), word(4), word(8)]
        };
        let mut pieces = bytes.chunks_exact(12);
        for piece in &mut pieces {
            state.add(words(piece));
            state.mix();
        }
        let [a, b, c] = words(pieces.remainder());
        // The lowest byte of the last word is for the length.
        state.add([a, b, c << 8]);
        state.finish(self.seed.is_some())
    }

    fn of_word(self, word: u32) -> u64 {
        let mut state = State::new(4, self.seed.unwrap_or(0));
        state.add([word, 0, 0]);
        state.finish(self.seed.is_some())
    }

    /// Integers that are equal have equal hashes, whatever their width.
    fn of_integer(self, value: i64) -> u64 {
        let (low, high) = (value as u32, (value >> 32) as u32);
        self.of_word(low ^ if value >= 0 { high } else { !high })
    }

    fn of_float(self, value: f64) -> u64 {
        if value == 0.0 {
            return self.seed.unwrap_or(0);
        }
        let value = if value.is_nan() { f64::NAN } else { value };
        self.of_bytes(&value.to_le_bytes())
    }

    fn of_numeric(self, value: &Numeric) -> u64 {
        let Numeric::Finite(_) = value else { return self.seed.unwrap_or(0) };
        let (weight, digits) = to_base_10000(value);
        if digits.is_empty() {
            return self.seed.map_or(u64::from(u32::MAX), |seed| seed.wrapping_sub(1));
        }
        let bytes: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
        let hash = self.of_bytes(&bytes) ^ weight as u64;
        if self.seed.is_some() { hash } else { hash & u64::from(u32::MAX) }
    }

    fn of(self, a: &[Datum]) -> Result<u64> {
        Ok(match any(a, 0)? {
            Datum::Bool(value) => self.of_word(u32::from(*value)),
            Datum::Char(value) => self.of_word(i32::from(*value as i8) as u32),
            Datum::Int2(value) => self.of_word(i32::from(*value) as u32),
            Datum::Int4(value) | Datum::Date(value) => self.of_word(*value as u32),
            Datum::Oid(value) => self.of_word(*value),
            Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
                self.of_integer(*value)
            }
            Datum::Interval(value) => self.of_integer(interval_span(*value) as i64),
            Datum::Numeric(value) => self.of_numeric(value),
            Datum::Text(value) => self.of_bytes(value.as_bytes()),
            Datum::Bpchar(value) => self.of_bytes(trim_blanks(value).as_bytes()),
            Datum::Uuid(value) => self.of_bytes(value),
            _ => self.of_float(float(a, 0)?),
        })
    }
}

pub(super) fn declare(all: &mut Declarations) {
    let names = [
        ("hashchar", "hashcharextended", Type::Char),
        ("hashint2", "hashint2extended", Type::Int2),
        ("hashint4", "hashint4extended", Type::Int4),
        ("hashint8", "hashint8extended", Type::Int8),
        ("hashoid", "hashoidextended", Type::Oid),
        ("hashfloat4", "hashfloat4extended", Type::Float4),
        ("hashfloat8", "hashfloat8extended", Type::Float8),
        ("hash_numeric", "hash_numeric_extended", Type::Numeric),
        ("hashname", "hashnameextended", Type::Name),
        ("hashtext", "hashtextextended", Type::Text),
        ("hashbpchar", "hashbpcharextended", Type::Bpchar),
        ("time_hash", "time_hash_extended", Type::Time),
        ("timestamp_hash", "timestamp_hash_extended", Type::Timestamp),
        ("interval_hash", "interval_hash_extended", Type::Interval),
        ("uuid_hash", "uuid_hash_extended", Type::Uuid),
    ];
    for (short, long, ty) in names {
        all.add(short, &[ty], Type::Int4, |_, a| {
            let hash = Hash { seed: None };
            Ok(Datum::Int4(hash.of(a)? as u32 as i32))
        });
        all.add(long, &[ty, Type::Int8], Type::Int8, |_, a| {
            let seed = integer(a, 1)? as u64;
            Ok(Datum::Int8(Hash { seed: Some(seed) }.of(a)? as i64))
        });
    }
}

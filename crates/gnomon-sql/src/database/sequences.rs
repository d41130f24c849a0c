//! Where sequences stand: nextval, setval and the values that a session has drawn.
//!
//! Values are drawn outside of transactions: two sessions never wait for each other's commits, and a rollback gives
//! nothing back. Values are reserved [`RESERVED`] at a time by small transactions of their own, so that a crash
//! skips some but never lets one be drawn twice, and members of a cluster draw different ones. What commits a drawn value has a larger CSN than its reservation,
//! so it cannot be durable without it; a statement that writes nothing waits for the reservation itself
//! ([`Drawn::csn`]).
//!
//! Stored in [`SEQUENCE_TREE`]; key: identifier and generation of the sequence (4 bytes each, big-endian); value:
//! version (1 byte, now 1), the last value reserved (8 bytes, little-endian), whether it counts as drawn (1 byte).
//! A sequence that nothing was drawn from has no entry. Entries of sequences that were dropped are removed when the
//! database is next opened, unless it is a member of a cluster: others have them too.

use std::collections::HashMap;

use gnomon_engine::{
    Csn, Database, Direction, Error, KeyRange, RowLock, TxnOptions,
    sync::{Arc, Mutex},
};

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Oid, Sequence},
        store::SEQUENCE_TREE,
    },
};

/// Number of values that are reserved at a time: as in PostgreSQL, one and 32 more.
const RESERVED: i64 = 33;
/// The version of the stored form.
const VERSION: u8 = 1;

/// The position of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// The last value drawn, or the first one to draw.
    last: i64,
    /// True if `last` was drawn.
    drawn: bool,
    /// The last value that a crash does not hand out again, if any were reserved beyond `last`.
    reserved: Option<i64>,
    /// The commit of the reservation.
    csn: Csn,
}

/// The positions of all sequences in use.
#[derive(Default)]
pub(crate) struct Positions(Mutex<HashMap<(Oid, u32), Slot>>);

/// The position of one sequence, once it was read.
type Slot = Arc<Mutex<Option<Position>>>;

/// Values that a session has drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    /// The last value of each sequence: currval.
    values: HashMap<Oid, i64>,
    /// The sequence drawn from last: lastval.
    last: Option<Oid>,
    /// The latest of the reservations that drawn values depend on.
    pub(crate) csn: Csn,
}

fn key(sequence: &Sequence) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&sequence.oid.to_be_bytes());
    key[4..].copy_from_slice(&sequence.generation.to_be_bytes());
    key
}

fn encode(last: i64, drawn: bool) -> [u8; 10] {
    let mut value = [VERSION; 10];
    value[1..9].copy_from_slice(&last.to_le_bytes());
    value[9] = u8::from(drawn);
    value
}

fn decode(value: &[u8]) -> Result<(i64, bool)> {
    match value {
        [VERSION, last @ .., drawn @ (0 | 1)] if last.len() == 8 => {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(last);
            Ok((i64::from_le_bytes(bytes), *drawn == 1))
        }
        _ => Err(SqlError::new(SqlState::DATA_CORRUPTED, "the stored position of a sequence is damaged")),
    }
}

/// Removes the positions of sequences that no longer exist.
pub(crate) fn remove_orphans(engine: &Database, catalog: &Catalog) -> Result<()> {
    let mut txn = engine.begin(TxnOptions::default())?;
    let mut orphans = Vec::new();
    let mut cursor = txn.scan(SEQUENCE_TREE, KeyRange::all(), Direction::Forward)?;
    while let Some((at, _)) = cursor.next(&mut txn)? {
        let known = at.first_chunk::<4>().is_some_and(|oid| {
            catalog
                .sequence_by_oid(u32::from_be_bytes(*oid))
                .is_some_and(|sequence| key(sequence)[..] == at[..])
        });
        if !known {
            orphans.push(at);
        }
    }
    if orphans.is_empty() {
        return Ok(());
    }
    for at in orphans {
        txn.delete(SEQUENCE_TREE, &at)?;
    }
    txn.commit()?;
    Ok(())
}

impl Positions {
    fn at(&self, sequence: &Sequence) -> Slot {
        self.0.lock().entry((sequence.oid, sequence.generation)).or_default().clone()
    }

    /// Draws the next value.
    pub(crate) fn next(&self, engine: &Database, sequence: &Sequence, drawn: &mut Drawn) -> Result<i64> {
        let slot = self.at(sequence);
        let mut slot = slot.lock();
        let mut position = read(engine, sequence, &slot)?;
        let within = match position.reserved.filter(|_| position.drawn) {
            None => None,
            Some(reserved) => {
                let value = following(sequence, position.last, true)?;
                let is_within = match sequence.increment > 0 {
                    true => value <= reserved && value > position.last,
                    false => value >= reserved && value < position.last,
                };
                is_within.then_some(value)
            }
        };
        let value = match within {
            Some(value) => value,
            None => {
                let (value, reserved, csn) = reserve(engine, sequence)?;
                (position.reserved, position.csn) = (Some(reserved), csn);
                value
            }
        };
        position.last = value;
        position.drawn = true;
        *slot = Some(position);
        drawn.values.insert(sequence.oid, value);
        drawn.last = Some(sequence.oid);
        drawn.csn = drawn.csn.max(position.csn);
        Ok(value)
    }

    /// Sets where a sequence stands: the next value drawn is the one after `value`, or `value` itself if it does
    /// not count as drawn.
    pub(crate) fn set(
        &self,
        engine: &Database,
        sequence: &Sequence,
        value: i64,
        is_drawn: bool,
        drawn: &mut Drawn,
    ) -> Result<()> {
        if value < sequence.min || value > sequence.max {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                    sequence.name, sequence.min, sequence.max
                ),
            ));
        }
        let slot = self.at(sequence);
        let mut slot = slot.lock();
        let csn = change(engine, &key(sequence), |_| Ok(encode(value, is_drawn).to_vec()))?;
        *slot = Some(Position { last: value, drawn: is_drawn, reserved: None, csn });
        if is_drawn {
            drawn.values.insert(sequence.oid, value);
        }
        drawn.csn = drawn.csn.max(csn);
        Ok(())
    }

    /// The last value drawn (or the first to draw), and whether it was drawn.
    pub(crate) fn last(&self, engine: &Database, sequence: &Sequence) -> Result<(i64, bool)> {
        let slot = self.at(sequence);
        let position = read(engine, sequence, &slot.lock())?;
        Ok((position.last, position.drawn))
    }

    /// Returns how many values are reserved and not drawn (`log_cnt`).
    pub(crate) fn reserved(&self, sequence: &Sequence) -> i64 {
        let slot = self.at(sequence);
        let slot = slot.lock();
        match *slot {
            Some(Position { last, drawn: true, reserved: Some(reserved), .. }) => {
                let left = i128::from(reserved) - i128::from(last);
                i64::try_from(left / i128::from(sequence.increment)).unwrap_or(0).max(0)
            }
            _ => 0,
        }
    }

    /// Forgets the sequences that are not in the catalog.
    pub(crate) fn retain(&self, catalog: &Catalog) {
        self.0.lock().retain(|(oid, generation), _| {
            catalog.sequence_by_oid(*oid).is_some_and(|sequence| sequence.generation == *generation)
        });
    }

    /// Gives back what is reserved and not drawn, when the database is closed in order. A member of a cluster does not:
    /// others may have reserved what follows.
    pub(crate) fn give_back(&self, engine: &Database) -> Result<()> {
        if engine.is_member() {
            return Ok(());
        }
        let mut txn = engine.begin(TxnOptions::default())?;
        let mut any = false;
        for ((oid, generation), slot) in &*self.0.lock() {
            if let Some(Position { last, drawn, reserved: Some(reserved), .. }) = *slot.lock()
                && reserved != last
            {
                let mut key = oid.to_be_bytes().to_vec();
                key.extend_from_slice(&generation.to_be_bytes());
                txn.put(SEQUENCE_TREE, &key, &encode(last, drawn))?;
                any = true;
            }
        }
        if any {
            txn.commit()?;
        }
        Ok(())
    }
}

impl Drawn {
    /// currval.
    pub(crate) fn current(&self, sequence: &Sequence) -> Result<i64> {
        self.values.get(&sequence.oid).copied().ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name),
            )
        })
    }

    /// lastval, unless the sequence is gone.
    pub(crate) fn last(&self, exists: impl FnOnce(Oid) -> bool) -> Result<i64> {
        let last = self.last.and_then(|oid| Some((oid, *self.values.get(&oid)?)));
        last.filter(|(oid, _)| exists(*oid)).map(|(_, value)| value).ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "lastval is not yet defined in this session",
            )
        })
    }
}

fn read(engine: &Database, sequence: &Sequence, slot: &Option<Position>) -> Result<Position> {
    if let Some(position) = slot {
        return Ok(*position);
    }
    let mut txn = engine.begin(TxnOptions::default())?;
    let (last, drawn) = stored(sequence, txn.get(SEQUENCE_TREE, &key(sequence))?)?;
    Ok(Position { last, drawn, reserved: None, csn: Csn::default() })
}

/// Returns the stored last value, and true if it counts as drawn.
fn stored(sequence: &Sequence, value: Option<Vec<u8>>) -> Result<(i64, bool)> {
    value.map_or(Ok((sequence.first, false)), |value| decode(&value))
}

/// Reserves the values that follow what is stored. Returns the first and the last of them, and the commit.
fn reserve(engine: &Database, sequence: &Sequence) -> Result<(i64, i64, Csn)> {
    let (mut first, mut reserved) = (0, 0);
    let csn = change(engine, &key(sequence), |now| {
        let (last, drawn) = stored(sequence, now)?;
        first = following(sequence, last, drawn)?;
        let ahead = sequence.increment.saturating_mul(RESERVED - 1);
        reserved = first.saturating_add(ahead).clamp(sequence.min, sequence.max);
        Ok(encode(reserved, true).to_vec())
    })?;
    Ok((first, reserved, csn))
}

/// Changes an entry by a transaction of its own, which is run again if others were there before it.
pub(crate) fn change(
    engine: &Database,
    key: &[u8],
    mut change: impl FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
) -> Result<Csn> {
    loop {
        let mut txn = engine.begin(TxnOptions::default())?;
        let now = txn.get_locked(SEQUENCE_TREE, key, RowLock::Update)?;
        txn.put(SEQUENCE_TREE, key, &change(now)?)?;
        match txn.commit_ticket() {
            Ok(ticket) => return Ok(ticket.csn()),
            Err(Error::Serialization(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The value to draw after `last`, which was drawn or is the first one to be.
fn following(sequence: &Sequence, last: i64, drawn: bool) -> Result<i64> {
    if !drawn {
        return Ok(last);
    }
    let up = sequence.increment > 0;
    match last.checked_add(sequence.increment) {
        Some(next) if next >= sequence.min && next <= sequence.max => Ok(next),
        _ if sequence.cycle => Ok(if up { sequence.min } else { sequence.max }),
        _ => {
            let (which, bound) = if up { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
            Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("nextval: reached {which} value of sequence \"{}\" ({bound})", sequence.name),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::Options;

    use super::*;
    use crate::types::{ColumnType, Type};

    fn sequence(increment: i64, min: i64, max: i64, first: i64, cycle: bool) -> Sequence {
        Sequence {
            oid: 1,
            schema: "public".into(),
            name: "s".into(),
            ty: ColumnType { ty: Type::Int8, modifier: -1 },
            increment,
            min,
            max,
            start: first,
            cycle,
            generation: 0,
            first,
            owner: None,
        }
    }

    fn engine() -> Database {
        let engine = Database::in_memory(Options::default()).unwrap();
        crate::catalog::store::open(&engine).unwrap();
        engine
    }

    #[test]
    fn values_follow_and_are_skipped_by_a_crash_but_never_repeated() {
        let (engine, sequence) = (engine(), sequence(3, 1, i64::MAX, 1, false));
        let (positions, mut drawn) = (Positions::default(), Drawn::default());
        assert!(drawn.current(&sequence).is_err() && drawn.last(|_| true).is_err());
        let values: Vec<i64> =
            (0..100).map(|_| positions.next(&engine, &sequence, &mut drawn).unwrap()).collect();
        assert_eq!(values, (0..100).map(|i| 1 + 3 * i).collect::<Vec<_>>());
        assert_eq!((drawn.current(&sequence).unwrap(), drawn.last(|_| true).unwrap()), (298, 298));
        let after_crash = Positions::default().next(&engine, &sequence, &mut drawn).unwrap();
        assert!(after_crash > 298 && after_crash <= 298 + 3 * RESERVED, "{after_crash}");
        positions.set(&engine, &sequence, 10, true, &mut drawn).unwrap();
        positions.next(&engine, &sequence, &mut drawn).unwrap();
        positions.give_back(&engine).unwrap();
        assert_eq!(Positions::default().next(&engine, &sequence, &mut drawn).unwrap(), 16);
    }

    #[test]
    fn bounds_end_or_cycle() {
        let engine = engine();
        for (sequence, expected) in [
            (sequence(2, 1, 5, 3, false), vec![Some(3), Some(5), None, None]),
            (sequence(2, 1, 5, 3, true), vec![Some(3), Some(5), Some(1), Some(3)]),
            (sequence(-1, i64::MIN, i64::MIN + 1, i64::MIN, false), vec![Some(i64::MIN), None]),
            (sequence(i64::MAX, 1, i64::MAX, 5, true), vec![Some(5), Some(1), Some(1)]),
        ] {
            let (positions, mut drawn) = (Positions::default(), Drawn::default());
            positions.set(&engine, &sequence, sequence.first, false, &mut drawn).unwrap();
            for value in expected {
                assert_eq!(positions.next(&engine, &sequence, &mut drawn).ok(), value, "{sequence:?}");
            }
        }
    }

    #[test]
    fn orphans_are_removed() {
        let (engine, sequence) = (engine(), sequence(1, 1, 9, 1, false));
        let mut drawn = Drawn::default();
        Positions::default().next(&engine, &sequence, &mut drawn).unwrap();
        remove_orphans(&engine, &Catalog::default()).unwrap();
        assert_eq!(Positions::default().last(&engine, &sequence).unwrap(), (1, false));
    }
}

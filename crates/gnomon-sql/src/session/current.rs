//! The row that a cursor is on, for WHERE CURRENT OF.
//!
//! It is known by its key, which a cursor's rows have behind their columns (`query::plan::Origins`). If the transaction of
//! the cursor has given a row another key since the cursor began, or has deleted it, the cursor follows: another row that
//! has taken the key is not the cursor's. Of a row that another transaction has deleted and inserted again only the key
//! counts, as it does for row locks. A cursor follows so many rows only; beyond that it refuses to name one.

use std::collections::HashMap;

use super::portal::{Body, Portal};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Oid, Table},
        partition::Place,
    },
    query::plan::Origins,
    types::Datum,
};

/// The memory of a departure, beside its keys, in bytes.
const DEPARTURE_BYTES: usize = 96;
/// The most departures that a cursor follows.
const DEPARTURES_MAX: usize = 1 << 18;

impl Portal {
    /// Returns the located key of the row of a table that it is on; none if its row is of another one of the tables that
    /// it reads, or is no longer there. `name` is its own.
    ///
    /// # Errors
    /// 24000.
    pub(super) fn current_row(&self, name: &str, table: &Table) -> Result<Option<Vec<u8>>> {
        let fail = |what: &str| {
            Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, format!("cursor \"{name}\" {what}")))
        };
        match &self.body {
            Body::Plan { plan, .. } if plan.is_query() => {}
            _ => return fail("is not a SELECT query"),
        }
        if self.is_held() || self.is_failed {
            return fail("is held from a previous transaction");
        }
        let Some(origins) = &self.origins else { return fail("is not positioned on a row") };
        let (position, origin) = match (&origins.of(table)[..], origins.are_locked) {
            ([origin], _) => *origin,
            ([], true) => {
                return fail(&format!(
                    "does not have a FOR UPDATE/SHARE reference to table \"{}\"",
                    table.name
                ));
            }
            (_, true) => {
                return fail(&format!(
                    "has multiple FOR UPDATE/SHARE references to table \"{}\"",
                    table.name
                ));
            }
            (_, false) => {
                return fail(&format!("is not a simply updatable scan of table \"{}\"", table.name));
            }
        };
        if !self.place.is_on_row() {
            return fail("is not positioned on a row");
        }
        let Some(Datum::Bytea(key)) = self.place.keys.get(position) else { return Ok(None) };
        if self.departures.are_lost {
            let message = format!("cursor \"{name}\" has lost track of the rows of table \"{}\"", table.name);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).detail(
                "Its transaction has deleted too many of them, or given them other keys, since it began.",
            ));
        }
        match self.departures.follow(table.numbered().oid, whole_key(origin, key)?) {
            Some(key) => own_key(table, key),
            None => Ok(None),
        }
    }

    /// Notes that a row has left its key in a statement with this number.
    pub(super) fn row_left(
        &mut self,
        statement: u64,
        table: &Table,
        key: &[u8],
        new_key: Option<&[u8]>,
    ) -> Result<()> {
        let reads_table = self.origins.as_ref().is_some_and(|origins| !origins.of(table).is_empty());
        // No other row gets the number of a row that is deleted.
        let comes_back = new_key.is_some() || table.primary_key.is_some();
        if !reads_table || !comes_back || self.is_held() || self.departures.are_lost {
            return Ok(());
        }
        let to = new_key.map(|key| whole_key(table, key)).transpose()?;
        let bytes = DEPARTURE_BYTES + key.len() + to.as_ref().map_or(0, Vec::len);
        if self.departures.count >= DEPARTURES_MAX || self.memory.grow(bytes).is_err() {
            self.departures = Departures { are_lost: true, ..Departures::default() };
            return Ok(());
        }
        let from = (table.numbered().oid, whole_key(table, key)?);
        self.departures.from.entry(from).or_default().push(Departure { statement, to });
        self.departures.count += 1;
        Ok(())
    }
}

/// The rows that have left their keys since a cursor began.
#[derive(Default)]
pub(super) struct Departures {
    /// By table and key.
    from: HashMap<(Oid, Vec<u8>), Vec<Departure>>,
    /// Number of them, with those that were rolled back.
    count: usize,
    /// True if there were too many.
    are_lost: bool,
}

/// A row that has left its key.
struct Departure {
    /// The number of the statement that moved it.
    statement: u64,
    /// The key that it has got, if it has.
    to: Option<Vec<u8>>,
}

impl Departures {
    /// The key that the row which had a key at first has now; none if it was deleted.
    fn follow(&self, table: Oid, key: Vec<u8>) -> Option<Vec<u8>> {
        let (mut from, mut next) = ((table, key), 0);
        while let Some(departure) = self.next(&from, next) {
            next = departure.statement + 1;
            from.1 = departure.to.clone()?;
        }
        Some(from.1)
    }

    /// The first departure from a key in a statement with this number or a later one.
    fn next(&self, from: &(Oid, Vec<u8>), statement: u64) -> Option<&Departure> {
        self.from.get(from)?.iter().find(|departure| departure.statement >= statement)
    }

    /// Forgets those in statements with this number or a later one: they were rolled back.
    pub(super) fn forget_since(&mut self, statement: u64) {
        self.from.retain(|_, departures| {
            departures.retain(|departure| departure.statement < statement);
            !departures.is_empty()
        });
    }
}

impl Origins {
    /// The keys that are of a table, or of one that it is a partition of, or that is a partition of it: their positions
    /// and tables.
    fn of(&self, table: &Table) -> Vec<(usize, &Table)> {
        let tables = self.tables.iter().map(|origin| &**origin).enumerate();
        tables.filter(|(_, origin)| origin.numbered().oid == table.numbered().oid).collect()
    }
}

/// A located key of a table, which may be a partition, as the whole table has it.
fn whole_key(table: &Table, key: &[u8]) -> Result<Vec<u8>> {
    let (place, stored) = table.split(key)?;
    let place = table.partition_of.as_ref().map_or(place, |of| Place::Partition(of.number));
    Ok(place.locate(stored.to_vec()))
}

/// The located key that a row has in a table, which may be a partition; none if it is in another one.
fn own_key(table: &Table, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let Some(of) = &table.partition_of else { return Ok(Some(key)) };
    let (place, stored) = of.table.split(&key)?;
    Ok((place == Place::Partition(of.number)).then(|| stored.to_vec()))
}

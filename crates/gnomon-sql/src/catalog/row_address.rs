//! System columns: what PostgreSQL gives each row beside the columns of its table, as far as rows here have it.
//!
//! `tableoid` is the table's identifier, or that of the row's partition. `ctid` is the row's key in another form, so
//! two rows of a table never have the same, and a row keeps its own as long as it keeps its key:
//!
//! - a row number n, the key where there is no primary key, is the place (n - 1) / 65535 blocks further, at offset
//!   (n - 1) mod 65535 + 1;
//! - a primary key of one integer column likewise; 0 and negative values count from the last place backward;
//! - other keys do not fit into the six bytes of a place: such tables have no `ctid`.
//!
//! There are no `xmin`, `xmax`, `cmin` and `cmax`: the engine forgets which transaction wrote a row as soon as every
//! snapshot sees it.

use super::{
    model::{Oid, Table},
    partition::Place,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Datum, Tid, Type,
        keys::{self, KeyColumn},
    },
};

/// Number of rows in a block.
const OFFSETS: i64 = u16::MAX as i64;
/// Number of places in a table.
const PLACES: i64 = OFFSETS << 32;
/// The address of a row that another transaction has changed since the statement found it. PostgreSQL has a new
/// version of the row then, at an address that no condition of the statement can have named.
const CHANGED: Tid = Tid { block: u32::MAX, offset: 0 };

/// True if PostgreSQL's rows have a system column of this name.
pub fn is_system_column(name: &str) -> bool {
    matches!(name, "tableoid" | "xmin" | "cmin" | "xmax" | "cmax" | "ctid")
}

/// The error for a column of a name that rows have for themselves.
pub fn conflicting_name(name: &str) -> SqlError {
    let message = format!("column name \"{name}\" conflicts with a system column name");
    SqlError::new(SqlState::DUPLICATE_COLUMN, message)
}

/// A system column that rows of stored tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemColumn {
    /// `tableoid`.
    TableOid,
    /// `ctid`.
    Ctid,
}

impl SystemColumn {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SystemColumn::TableOid => "tableoid",
            SystemColumn::Ctid => "ctid",
        }
    }

    /// The type of its values.
    pub fn ty(self) -> Type {
        match self {
            SystemColumn::TableOid => Type::Oid,
            SystemColumn::Ctid => Type::Tid,
        }
    }

    /// Its `pg_attribute.attnum`.
    pub fn attribute(self) -> i16 {
        match self {
            SystemColumn::TableOid => -6,
            SystemColumn::Ctid => -1,
        }
    }
}

/// The keys of a table's rows, as far as they stand for places.
enum Numbered {
    /// Row numbers.
    Rows,
    /// The values of the only column of the primary key.
    Values(KeyColumn),
}

impl Table {
    /// The system columns of its rows.
    pub fn system_columns(&self) -> impl Iterator<Item = SystemColumn> {
        let ctid = self.numbering().map(|_| SystemColumn::Ctid);
        [SystemColumn::TableOid].into_iter().chain(ctid)
    }

    /// The value that a system column has in the row with a located key.
    ///
    /// # Errors
    /// 0A000 if the key is too large a number for a place.
    pub fn system_value(&self, column: SystemColumn, key: &[u8]) -> Result<Datum> {
        let (place, key) = self.split(key)?;
        match column {
            SystemColumn::TableOid => self.oid_at(place).map(Datum::Oid),
            SystemColumn::Ctid => self.address(key).map(Datum::Tid),
        }
    }

    /// The located key, in conditions that are tested again, of a row that another transaction has changed since it was
    /// found: its `ctid` is one that no row had.
    pub fn changed_key(&self, key: &[u8]) -> Result<Datum> {
        let (place, _) = self.split(key)?;
        Ok(Datum::Bytea(place.locate(Vec::new()).into()))
    }

    /// The located keys that the row with a `ctid` may have.
    pub fn keys_at(&self, address: Tid) -> Vec<Vec<u8>> {
        let key = number_at(address).and_then(|number| self.key_of(number));
        let located = |key: Vec<u8>| self.places().into_iter().map(move |place| place.locate(key.clone()));
        key.into_iter().flat_map(located).collect()
    }

    fn oid_at(&self, place: Place) -> Result<Oid> {
        let Place::Partition(number) = place else { return Ok(self.oid) };
        let partition = self.partitioning.as_ref().and_then(|of| of.partitions.get(&number));
        partition.map(|partition| partition.oid).ok_or_else(damaged)
    }

    fn numbering(&self) -> Option<Numbered> {
        let Some(key) = &self.primary_key else { return Some(Numbered::Rows) };
        let ([column], [descending], [nulls_first]) =
            (&key.columns[..], &key.descending[..], &key.nulls_first[..])
        else {
            return None;
        };
        let ty = self.columns.get(*column)?.ty;
        let column = KeyColumn { ty, descending: *descending, nulls_first: *nulls_first };
        matches!(ty.ty, Type::Int2 | Type::Int4 | Type::Int8).then_some(Numbered::Values(column))
    }

    fn address(&self, key: &[u8]) -> Result<Tid> {
        if key.is_empty() {
            return Ok(CHANGED);
        }
        let number = match self.numbering().ok_or_else(damaged)? {
            Numbered::Rows => {
                let number = key.try_into().map(u64::from_be_bytes).map_err(|_| damaged())?;
                i64::try_from(number).unwrap_or(i64::MAX)
            }
            Numbered::Values(column) => {
                let row = keys::decode_row(key, &[column])?;
                row.first().and_then(Datum::as_i64).ok_or_else(damaged)?
            }
        };
        address_of(number).ok_or_else(|| {
            SqlError::unsupported(format!("the system column \"ctid\" of a row whose key is {number}"))
                .hint("Tell rows apart by their primary key.")
        })
    }

    /// The key that stands for a number; none if no row has it.
    fn key_of(&self, number: i64) -> Option<Vec<u8>> {
        match self.numbering()? {
            Numbered::Rows => u64::try_from(number).ok().map(|number| number.to_be_bytes().to_vec()),
            Numbered::Values(column) => {
                let value = match column.ty.ty {
                    Type::Int2 => Datum::Int2(i16::try_from(number).ok()?),
                    Type::Int4 => Datum::Int4(i32::try_from(number).ok()?),
                    _ => Datum::Int8(number),
                };
                let mut key = Vec::new();
                keys::encode(&mut key, &value, column.descending, column.nulls_first);
                Some(key)
            }
        }
    }
}

/// The place of a number: of those from 1 on in the first half of all places, of the others in the second.
fn address_of(number: i64) -> Option<Tid> {
    let place = match number {
        1.. if number <= PLACES / 2 => number - 1,
        ..=0 if number > -(PLACES / 2) => number + PLACES - 1,
        _ => return None,
    };
    Some(Tid {
        block: u32::try_from(place / OFFSETS).ok()?,
        offset: u16::try_from(place % OFFSETS + 1).ok()?,
    })
}

/// The number that [`address_of`] gives a place; none if there is no such place.
fn number_at(Tid { block, offset }: Tid) -> Option<i64> {
    let place = i64::from(block) * OFFSETS + i64::from(offset.checked_sub(1)?);
    Some(if place < PLACES / 2 { place + 1 } else { place - (PLACES - 1) })
}

fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a row has a key that is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let half = PLACES / 2;
        let numbers = [1, 2, 65_535, 65_536, half - 1, half, 0, -1, -65_535, 1 - half];
        let mut places: Vec<Tid> = numbers.into_iter().filter_map(address_of).collect();
        assert_eq!(places.iter().map(|place| number_at(*place)).collect::<Vec<_>>(), numbers.map(Some));
        assert_eq!(places[0], Tid { block: 0, offset: 1 });
        assert_eq!(places[3], Tid { block: 1, offset: 1 });
        assert_eq!(places[6], Tid { block: u32::MAX, offset: u16::MAX });
        places.sort();
        places.dedup();
        assert_eq!(places.len(), numbers.len());
        for number in [half + 1, -half, i64::MAX, i64::MIN] {
            assert_eq!(address_of(number), None);
        }
        assert_eq!(number_at(Tid { block: 0, offset: 0 }), None);
    }
}

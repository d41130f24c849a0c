//! How a table's rows are found: all of them, by a key, or by a cursor.

use gnomon_engine::Direction;

use crate::{
    catalog::model::{Index, Table},
    executor::Expr,
};

/// How a table's rows are found.
#[derive(Clone, Debug)]
pub enum Access {
    /// All of them, by row key.
    Full(Direction),
    /// By a key.
    Key(KeyAccess),
    /// By their addresses (`ctid`).
    Address(AddressAccess),
    /// The row that the cursor of this name is on.
    Current(Box<str>),
}

/// Access by addresses.
#[derive(Clone, Debug)]
pub struct AddressAccess {
    /// The addresses: one, or the elements of an array.
    pub addresses: KeyPart,
    /// The condition that they stand for, for EXPLAIN: in terms of the scan's columns.
    pub condition: Expr,
}

/// Access by a key.
#[derive(Clone, Debug)]
pub struct KeyAccess {
    /// Which of the table's indexes: position in [`Table::indexes`], or none for the primary key.
    pub index: Option<usize>,
    /// The values that its leading columns are equal to, in order.
    pub equal: Vec<KeyPart>,
    /// The range of the column after these.
    pub range: Option<KeyRangePart>,
    /// True if each combination of `equal` is one key, or none.
    pub point: bool,
    /// Which way it is passed.
    pub direction: Direction,
    /// The conditions that it stands for, for EXPLAIN: in terms of the scan's columns.
    pub conditions: Vec<Expr>,
}

/// The values that a column of the key, or several of them, are equal to. The expressions see no row: constants,
/// parameters, slots.
#[derive(Clone, Debug)]
pub enum KeyPart {
    /// One value.
    Equal(Expr),
    /// Any element of an array.
    Any(Expr),
    /// Any of several rows, each of a value for each of so many columns.
    Rows(usize, Vec<Vec<Expr>>),
}

impl KeyPart {
    /// Returns how many columns it is about.
    pub fn width(&self) -> usize {
        match self {
            KeyPart::Equal(_) | KeyPart::Any(_) => 1,
            KeyPart::Rows(width, _) => *width,
        }
    }
}

/// A bound of a range.
pub type KeyBound = Expr;

/// A range of a column; for each bound, whether it belongs to the range.
#[derive(Clone, Debug, Default)]
pub struct KeyRangePart {
    /// The low bound.
    pub low: Option<(KeyBound, bool)>,
    /// The high bound.
    pub high: Option<(KeyBound, bool)>,
}

impl KeyAccess {
    /// The index.
    pub fn index_of<'t>(&self, table: &'t Table) -> &'t Index {
        match self.index {
            Some(position) => &table.indexes[position],
            None => {
                table.primary_key.as_ref().expect("access by primary key is planned on tables that have one")
            }
        }
    }

    /// Returns how many columns are compared by equality.
    pub fn equal_columns(&self) -> usize {
        self.equal.iter().map(KeyPart::width).sum()
    }

    /// True if it is the whole primary key, each column equal to one value.
    pub fn is_whole_key(&self) -> bool {
        self.index.is_none() && self.point && self.equal.iter().all(|part| matches!(part, KeyPart::Equal(_)))
    }

    /// The index, if its entries point to rows rather than being them.
    pub fn secondary<'t>(&self, table: &'t Table) -> Option<&'t Index> {
        self.index.map(|position| &table.indexes[position])
    }
}

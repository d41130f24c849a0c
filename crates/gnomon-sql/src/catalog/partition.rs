//! Tables in partitions by hash: which partition a row belongs to, and where its keys are.
//!
//! Each partition has a tree for its rows and one for its entries of each index, all placed in the engine's partition
//! of the same number ([`gnomon_engine::Placement`]). The table keeps a tree of its own, which is empty: it stands for the
//! table where the table as a whole is locked.
//!
//! The key of a row is *located*: the number of the partition (2 bytes, big-endian) stands before it. In a table
//! without partitions it is the key as stored.
//!
//! A row belongs to partition CRC-32C(k) modulo the table's modulus, where k are the columns of the partition key as
//! an ascending key has them, integers of every width as bigint. This is part of the format.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::{Placement, TreeId};

use super::{
    choose_index_name,
    model::{Index, PartitionOf, Partitioning, Table},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, keys},
};

/// The most partitions that a table has.
pub const PARTITIONS_MAX: u16 = 1024;

/// Where in a table a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a table without partitions.
    Whole,
    /// In a partition.
    Partition(u16),
}

impl Place {
    /// A key, located.
    pub fn locate(self, key: Vec<u8>) -> Vec<u8> {
        match self {
            Place::Whole => key,
            Place::Partition(number) => [&number.to_be_bytes()[..], &key].concat(),
        }
    }
}

impl Partitioning {
    /// The number of the partition that a row with these values of the partition key belongs to.
    ///
    /// # Panics
    /// If there are no partitions.
    pub fn number<'d>(&self, values: impl IntoIterator<Item = &'d Datum>) -> u16 {
        let mut key = Vec::with_capacity(16);
        for value in values {
            let wide = match value {
                Datum::Int2(n) => Datum::Int8(i64::from(*n)),
                Datum::Int4(n) => Datum::Int8(i64::from(*n)),
                other => other.clone(),
            };
            keys::encode(&mut key, &wide, false, false);
        }
        (crc32c::crc32c(&key) % u32::from(self.modulus)) as u16
    }
}

fn at(whole: TreeId, partitions: &BTreeMap<u16, TreeId>, place: Place) -> Result<TreeId> {
    match place {
        Place::Whole => Ok(whole),
        Place::Partition(number) => partitions.get(&number).copied().ok_or_else(|| {
            SqlError::new(
                SqlState::DATA_CORRUPTED,
                format!("a key names partition {number}, which is missing"),
            )
        }),
    }
}

impl Index {
    /// The tree of its entries at a place.
    pub fn tree_at(&self, place: Place) -> Result<TreeId> {
        at(self.tree, &self.partition_trees, place)
    }
}

impl Table {
    /// The tree of its rows at a place.
    pub fn tree_at(&self, place: Place) -> Result<TreeId> {
        at(self.tree, &self.partition_trees, place)
    }

    /// The trees of its rows, after the one that stands for the table.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> {
        [self.tree].into_iter().chain(self.partition_trees.values().copied())
    }

    /// The places that it has, in their order.
    pub fn places(&self) -> Vec<Place> {
        match self.partitioning {
            None => vec![Place::Whole],
            Some(_) => self.partition_trees.keys().map(|number| Place::Partition(*number)).collect(),
        }
    }

    /// Returns the placement of the trees of a place in the engine.
    pub fn placement(&self, place: Place) -> Placement {
        match place {
            Place::Partition(number) => Placement::Partition(u32::from(number)),
            Place::Whole if self.is_replicated => Placement::Replicated,
            Place::Whole => Placement::Anywhere,
        }
    }

    /// A located key: its place, and as it is stored.
    pub fn split<'k>(&self, located: &'k [u8]) -> Result<(Place, &'k [u8])> {
        if self.partitioning.is_none() {
            return Ok((Place::Whole, located));
        }
        match located.split_first_chunk() {
            Some((number, key)) => Ok((Place::Partition(u16::from_be_bytes(*number)), key)),
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a row's key lacks its partition")),
        }
    }

    /// The place of rows with these values of the partition key, if there is one.
    pub fn place_of_values<'d>(&self, values: impl IntoIterator<Item = &'d Datum>) -> Option<Place> {
        match &self.partitioning {
            None => Some(Place::Whole),
            Some(partitioning) if partitioning.partitions.is_empty() => None,
            Some(partitioning) => {
                let number = partitioning.number(values);
                partitioning.partitions.contains_key(&number).then_some(Place::Partition(number))
            }
        }
    }

    /// The place that a row belongs to.
    pub fn place_of(&self, row: &[Datum]) -> Result<Place> {
        if let Some(of) = &self.partition_of {
            return match of.table.place_of(row) {
                Ok(Place::Partition(number)) if number == of.number => Ok(Place::Whole),
                _ => Err(SqlError::new(
                    SqlState::CHECK_VIOLATION,
                    format!("new row for relation \"{}\" violates partition constraint", self.name),
                )
                .table(&self.schema, &self.name)),
            };
        }
        let columns = self.partitioning.iter().flat_map(|partitioning| &partitioning.columns);
        let values = columns.map(|column| row.get(*column).unwrap_or(&Datum::Null));
        self.place_of_values(values).ok_or_else(|| {
            SqlError::new(
                SqlState::CHECK_VIOLATION,
                format!("no partition of relation \"{}\" found for row", self.name),
            )
            .table(&self.schema, &self.name)
            .hint("Create the partition with CREATE TABLE ... PARTITION OF.")
        })
    }

    /// A partition as a table by itself. Its indexes have names and identifiers of their own, which follow from the
    /// partition's and the table's; `taken` tells the names of other relations.
    pub(super) fn partition(self: &Arc<Table>, number: u16, taken: impl Fn(&str) -> bool) -> Option<Table> {
        let partition = self.partitioning.as_ref()?.partitions.get(&number)?;
        let mut names: Vec<String> = Vec::new();
        let mut alone = |index: &Index, is_primary: bool| {
            let tree = *index.partition_trees.get(&number)?;
            let columns = index.columns.iter().filter_map(|column| self.columns.get(*column));
            let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
            let taken = |name: &str| taken(name) || names.iter().any(|known| known == name);
            let name = choose_index_name(&partition.name, &columns, (is_primary, index.constraint), taken);
            names.push(name.clone());
            let oid = index.of_partition(partition.oid);
            Some(Index { oid, name, tree, partition_trees: BTreeMap::new(), ..index.clone() })
        };
        Some(Table {
            oid: partition.oid,
            name: partition.name.clone(),
            tree: *self.partition_trees.get(&number)?,
            partition_trees: BTreeMap::new(),
            partitioning: None,
            partition_of: Some(PartitionOf { table: self.clone(), number }),
            primary_key: self.primary_key.as_ref().and_then(|index| alone(index, true)),
            indexes: self.indexes.iter().filter_map(|index| alone(index, false)).collect(),
            checks: self.checks.iter().map(|check| check.of_table(&self.name, &partition.name)).collect(),
            statistics: self.statistics.as_ref().map(|whole| whole.of_partition(self.partition_trees.len())),
            ..Table::clone(self)
        })
    }

    /// Of an index of a partition, the index of the table that it is a part of.
    pub fn whole_index(&self, index: &Index) -> Option<&Index> {
        let of = self.partition_of.as_ref()?;
        of.table.all_indexes().find(|whole| whole.of_partition(self.oid) == index.oid)
    }

    /// The table whose rows are numbered, if they are: a partition's are numbered with those of its table.
    pub fn numbered(&self) -> &Table {
        self.partition_of.as_ref().map_or(self, |of| &of.table)
    }
}

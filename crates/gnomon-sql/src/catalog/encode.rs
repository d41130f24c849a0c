//! The catalog's entries as bytes.
//!
//! An entry begins with the version of its layout (1 byte, now 6 for all kinds; 2 to 5 are read, too). Numbers follow little-endian, text
//! as its length in bytes (4 bytes) and UTF-8, lists as their length (4 bytes) and elements, optional fields as 0 or
//! as 1 and the field, types as `pg_type.oid` and modifier (4 bytes each). An entry that does not decode exactly is
//! damaged ([`SqlState::DATA_CORRUPTED`]); one of a newer version is refused as such.

use std::collections::BTreeMap;

use gnomon_engine::{PageSize, TreeId};

use super::{
    model::{
        Check, Column, Identity, Index, Parameter, Partition, Partitioning, Procedure, Schema, Sequence,
        Table, View,
    },
    statistics::{ColumnStatistics, TableStatistics},
};
use crate::{
    Result, SqlError, SqlState,
    types::{ColumnType, Datum, Type, rows},
};

/// The version of every layout.
const VERSION: u8 = 6;
/// The first version in which views have options.
const VIEW_OPTIONS: u8 = 4;
/// The first version in which columns have collations: before, those of their types.
const COLLATIONS: u8 = 5;
/// The first version in which indexes are marked for CLUSTER.
const CLUSTERED: u8 = 6;
/// The oldest version that is read: nothing in it is about partitions.
const OLDEST: u8 = 2;
/// The longest list that an entry may hold; more is damage.
const LIST_MAX: usize = 1 << 16;

/// Writes an entry.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        Writer(vec![VERSION])
    }
    fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn len(&mut self, len: usize) {
        // The limits on statements keep every length far below this.
        self.u32(u32::try_from(len).unwrap_or(u32::MAX));
    }
    fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }
    fn text(&mut self, text: &str) {
        self.len(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
    fn ty(&mut self, ty: ColumnType) {
        self.u32(ty.ty.oid());
        self.0.extend_from_slice(&ty.modifier.to_le_bytes());
    }
    fn page_size(&mut self, size: Option<PageSize>) {
        self.option(size.as_ref(), |w, size| w.len(size.bytes()));
    }
    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }
    fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.len(values.len());
        for value in values {
            write(self, value);
        }
    }
}

/// Reads an entry; `what` names it in errors.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
    version: u8,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], what: &'static str) -> Result<Reader<'a>> {
        let mut reader = Reader { bytes, what, version: 0 };
        match reader.u8()? {
            0 => Err(reader.damaged()),
            version @ OLDEST..=VERSION => Ok(Reader { version, ..reader }),
            other => Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the catalog's entry of a {what} has version {other}, this program reads {VERSION}"),
            )
            .hint(if other > VERSION {
                "Use a newer program."
            } else {
                "Load the data into a new database."
            })),
        }
    }
    fn damaged(&self) -> SqlError {
        SqlError::new(SqlState::DATA_CORRUPTED, format!("the catalog's entry of a {} is damaged", self.what))
    }
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.bytes = rest;
                Ok(*chunk)
            }
            None => Err(self.damaged()),
        }
    }
    fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }
    fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }
    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn u16(&mut self) -> Result<u16> {
        let number = self.u32()?;
        u16::try_from(number).map_err(|_| self.damaged())
    }
    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn i64(&mut self) -> Result<i64> {
        self.take().map(i64::from_le_bytes)
    }
    fn f32(&mut self) -> Result<f32> {
        self.u32().map(f32::from_bits)
    }
    fn len(&mut self) -> Result<usize> {
        let len = self.u32()?;
        usize::try_from(len).map_err(|_| self.damaged())
    }
    fn text(&mut self) -> Result<String> {
        let len = self.len()?;
        let Some((text, rest)) = self.bytes.split_at_checked(len) else { return Err(self.damaged()) };
        let text = std::str::from_utf8(text).map_err(|_| self.damaged())?.to_owned();
        self.bytes = rest;
        Ok(text)
    }
    fn ty(&mut self) -> Result<ColumnType> {
        let oid = self.u32()?;
        let modifier = self.take().map(i32::from_le_bytes)?;
        let ty = Type::from_oid(oid).ok_or_else(|| self.damaged())?;
        Ok(ColumnType { ty, modifier })
    }
    fn page_size(&mut self) -> Result<Option<PageSize>> {
        let bytes = self.option(Reader::len)?;
        bytes.map(|bytes| PageSize::from_bytes(bytes).ok_or_else(|| self.damaged())).transpose()
    }
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let len = self.len()?;
        if len > LIST_MAX {
            return Err(self.damaged());
        }
        (0..len).map(|_| read(self)).collect()
    }
    fn end<T>(self, value: T) -> Result<T> {
        if self.bytes.is_empty() { Ok(value) } else { Err(self.damaged()) }
    }
}

/// A kind of object that the catalog keeps.
pub(super) trait Entry: Sized {
    /// As bytes.
    fn encode(&self) -> Vec<u8>;
    /// From bytes.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

/// State of the catalog beside its objects.
pub(super) struct Header {
    /// The next identifier to give out.
    pub next_oid: u32,
}

impl Entry for Header {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.next_oid);
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Header> {
        let mut r = Reader::new(bytes, "catalog")?;
        let next_oid = r.u32()?;
        r.end(Header { next_oid })
    }
}

impl Entry for Schema {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.oid);
        w.text(&self.name);
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Schema> {
        let mut r = Reader::new(bytes, "schema")?;
        let schema = Schema { oid: r.u32()?, name: r.text()? };
        r.end(schema)
    }
}

impl Entry for Table {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.oid);
        w.text(&self.schema);
        w.text(&self.name);
        w.u64(self.tree.0);
        w.list(&self.columns, |w, column| {
            w.text(&column.name);
            w.ty(column.ty);
            w.bool(column.not_null);
            w.option(column.default.as_ref(), |w, default| w.text(default));
            w.option(column.identity.as_ref(), |w, identity| {
                w.bool(identity.always);
                w.u32(identity.sequence);
            });
            w.bool(column.dropped);
            w.u32(column.collation);
        });
        w.option(self.primary_key.as_ref(), write_index);
        w.list(&self.indexes, write_index);
        w.list(&self.checks, |w, check| {
            w.text(&check.name);
            w.text(&check.expression);
        });
        w.page_size(self.page_size);
        w.bool(self.is_replicated);
        write_trees(&mut w, &self.partition_trees);
        w.option(self.partitioning.as_ref(), |w, partitioning| {
            w.list(&partitioning.columns, |w, column| w.len(*column));
            w.u32(u32::from(partitioning.modulus));
            let partitions: Vec<_> = partitioning.partitions.iter().collect();
            w.list(&partitions, |w, (number, partition)| {
                w.u32(u32::from(**number));
                w.u32(partition.oid);
                w.text(&partition.name);
            });
        });
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Table> {
        let mut r = Reader::new(bytes, "table")?;
        let oid = r.u32()?;
        let (schema, name) = (r.text()?, r.text()?);
        let tree = TreeId(r.u64()?);
        let columns = r.list(|r| {
            let (name, ty) = (r.text()?, r.ty()?);
            let mut column = Column {
                name,
                ty,
                collation: ty.ty.info().collation,
                not_null: r.bool()?,
                default: r.option(Reader::text)?,
                identity: r.option(|r| Ok(Identity { always: r.bool()?, sequence: r.u32()? }))?,
                dropped: r.bool()?,
            };
            if r.version >= COLLATIONS {
                column.collation = r.u32()?;
            }
            Ok(column)
        })?;
        let width = columns.len();
        let primary_key = r.option(|r| read_index(r, width))?;
        let indexes = r.list(|r| read_index(r, width))?;
        let checks = r.list(|r| Ok(Check { name: r.text()?, expression: r.text()? }))?;
        let page_size = r.page_size()?;
        let mut table = Table {
            oid,
            schema,
            name,
            columns,
            tree,
            partition_trees: BTreeMap::new(),
            partitioning: None,
            partition_of: None,
            is_replicated: false,
            primary_key,
            indexes,
            checks,
            page_size,
            statistics: None,
        };
        if r.version > OLDEST {
            table.is_replicated = r.bool()?;
            table.partition_trees = read_trees(&mut r)?;
            table.partitioning = r.option(|r| read_partitioning(r, width))?;
        }
        let numbers = table.partitioning.iter().flat_map(|partitioning| partitioning.partitions.keys());
        let trees = |trees: &BTreeMap<u16, TreeId>| numbers.clone().eq(trees.keys());
        let sound =
            trees(&table.partition_trees) && table.all_indexes().all(|index| trees(&index.partition_trees));
        if sound { r.end(table) } else { Err(r.damaged()) }
    }
}

fn write_trees(w: &mut Writer, trees: &BTreeMap<u16, TreeId>) {
    let trees: Vec<_> = trees.iter().collect();
    w.list(&trees, |w, (number, tree)| {
        w.u32(u32::from(**number));
        w.u64(tree.0);
    });
}

fn read_trees(r: &mut Reader<'_>) -> Result<BTreeMap<u16, TreeId>> {
    Ok(r.list(|r| Ok((r.u16()?, TreeId(r.u64()?))))?.into_iter().collect())
}

/// `width` is the number of the table's columns, which bounds the positions.
fn read_partitioning(r: &mut Reader<'_>, width: usize) -> Result<Partitioning> {
    let columns = r.list(Reader::len)?;
    let modulus = r.u16()?;
    let partitions = r.list(|r| Ok((r.u16()?, Partition { oid: r.u32()?, name: r.text()? })))?;
    let sound = !columns.is_empty()
        && columns.iter().all(|column| *column < width)
        && partitions.iter().all(|(number, _)| *number < modulus);
    match sound {
        true => Ok(Partitioning { columns, modulus, partitions: partitions.into_iter().collect() }),
        false => Err(r.damaged()),
    }
}

fn write_index(w: &mut Writer, index: &Index) {
    w.u32(index.oid);
    w.text(&index.name);
    w.u64(index.tree.0);
    w.list(&index.columns, |w, column| w.len(*column));
    w.list(&index.descending, |w, descending| w.bool(*descending));
    w.list(&index.nulls_first, |w, first| w.bool(*first));
    w.bool(index.unique);
    w.bool(index.constraint);
    w.page_size(index.page_size);
    write_trees(w, &index.partition_trees);
    w.bool(index.is_clustered);
}

/// `width` is the number of the table's columns, which bounds the positions.
fn read_index(r: &mut Reader<'_>, width: usize) -> Result<Index> {
    let mut index = Index {
        oid: r.u32()?,
        name: r.text()?,
        tree: TreeId(r.u64()?),
        columns: r.list(Reader::len)?,
        descending: r.list(Reader::bool)?,
        nulls_first: r.list(Reader::bool)?,
        unique: r.bool()?,
        constraint: r.bool()?,
        page_size: r.page_size()?,
        partition_trees: BTreeMap::new(),
        is_clustered: false,
    };
    if r.version > OLDEST {
        index.partition_trees = read_trees(r)?;
    }
    if r.version >= CLUSTERED {
        index.is_clustered = r.bool()?;
    }
    let keys = index.columns.len();
    let sound = keys > 0
        && index.descending.len() == keys
        && index.nulls_first.len() == keys
        && index.columns.iter().all(|column| *column < width);
    if sound { Ok(index) } else { Err(r.damaged()) }
}

impl Entry for Sequence {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.oid);
        w.text(&self.schema);
        w.text(&self.name);
        w.ty(self.ty);
        for number in [self.increment, self.min, self.max, self.start, self.first] {
            w.i64(number);
        }
        w.bool(self.cycle);
        w.u32(self.generation);
        w.option(self.owner.as_ref(), |w, (table, column)| {
            w.u32(*table);
            w.len(*column);
        });
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Sequence> {
        let mut r = Reader::new(bytes, "sequence")?;
        let oid = r.u32()?;
        let (schema, name, ty) = (r.text()?, r.text()?, r.ty()?);
        let [increment, min, max, start, first] = [r.i64()?, r.i64()?, r.i64()?, r.i64()?, r.i64()?];
        let cycle = r.bool()?;
        let generation = r.u32()?;
        let owner = r.option(|r| Ok((r.u32()?, r.len()?)))?;
        let sequence =
            Sequence { oid, schema, name, ty, increment, min, max, start, cycle, generation, first, owner };
        r.end(sequence)
    }
}

impl Entry for View {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.oid);
        w.text(&self.schema);
        w.text(&self.name);
        w.list(&self.columns, |w, (name, ty)| {
            w.text(name);
            w.ty(*ty);
        });
        w.text(&self.query);
        w.list(&self.options, |w, option| w.text(option));
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<View> {
        let mut r = Reader::new(bytes, "view")?;
        let oid = r.u32()?;
        let (schema, name) = (r.text()?, r.text()?);
        let columns = r.list(|r| Ok((r.text()?, r.ty()?)))?;
        let query = r.text()?;
        let options = if r.version >= VIEW_OPTIONS { r.list(|r| r.text())? } else { Vec::new() };
        r.end(View { oid, schema, name, columns, query, options })
    }
}

impl Entry for Procedure {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.oid);
        w.text(&self.schema);
        w.text(&self.name);
        w.list(&self.parameters, |w, parameter| {
            w.option(parameter.name.as_ref(), |w, name| w.text(name));
            w.ty(parameter.ty);
            w.bool(parameter.is_input);
            w.bool(parameter.is_output);
            w.option(parameter.default.as_ref(), |w, default| w.text(default));
        });
        w.text(&self.body);
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Procedure> {
        let mut r = Reader::new(bytes, "procedure")?;
        let oid = r.u32()?;
        let (schema, name) = (r.text()?, r.text()?);
        let parameters = r.list(|r| {
            Ok(Parameter {
                name: r.option(Reader::text)?,
                ty: r.ty()?,
                is_input: r.bool()?,
                is_output: r.bool()?,
                default: r.option(Reader::text)?,
            })
        })?;
        let body = r.text()?;
        r.end(Procedure { oid, schema, name, parameters, body })
    }
}

/// Writes values of one type.
fn write_values(w: &mut Writer, values: &[Datum], ty: ColumnType) {
    let (types, nulls) = (vec![ty; values.len()], vec![Datum::Null; values.len()]);
    // Values that are not of the type, of which there are none, would be NULL.
    let bytes = rows::encode(values, &types).or_else(|_| rows::encode(&nulls, &types)).unwrap_or_default();
    w.len(values.len());
    w.list(&bytes, |w, byte| w.0.push(*byte));
}

fn read_values(r: &mut Reader<'_>, ty: ColumnType) -> Result<Vec<Datum>> {
    let count = r.len()?;
    if count > LIST_MAX {
        return Err(r.damaged());
    }
    let length = r.len()?;
    let Some((bytes, rest)) = r.bytes.split_at_checked(length) else { return Err(r.damaged()) };
    r.bytes = rest;
    rows::decode(bytes, &vec![ty; count]).map_err(|_| r.damaged())
}

/// The statistics of a table, with its identifier.
pub(super) struct Statistics(pub u32, pub TableStatistics);

impl Entry for Statistics {
    fn encode(&self) -> Vec<u8> {
        let Statistics(oid, statistics) = self;
        let mut w = Writer::new();
        w.u32(*oid);
        w.u64(statistics.rows.to_bits());
        w.u32(statistics.pages);
        let columns: Vec<_> = statistics.columns.iter().collect();
        w.list(&columns, |w, (position, column)| {
            w.len(**position);
            w.ty(column.ty);
            w.f32(column.null_fraction);
            w.u32(column.width);
            w.f32(column.distinct);
            let (values, fractions): (Vec<Datum>, Vec<f32>) = column.common.iter().cloned().unzip();
            write_values(w, &values, column.ty);
            w.list(&fractions, |w, fraction| w.f32(*fraction));
            write_values(w, &column.histogram, column.ty);
            w.option(column.correlation.as_ref(), |w, correlation| w.f32(*correlation));
        });
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Statistics> {
        let mut r = Reader::new(bytes, "table's statistics")?;
        let (oid, rows, pages) = (r.u32()?, f64::from_bits(r.u64()?), r.u32()?);
        let columns = r.list(|r| {
            let position = r.len()?;
            let ty = r.ty()?;
            let (null_fraction, width, distinct) = (r.f32()?, r.u32()?, r.f32()?);
            let values = read_values(r, ty)?;
            let fractions = r.list(Reader::f32)?;
            if values.len() != fractions.len() {
                return Err(r.damaged());
            }
            let common = values.into_iter().zip(fractions).collect();
            let histogram = read_values(r, ty)?;
            let correlation = r.option(Reader::f32)?;
            let column =
                ColumnStatistics { ty, null_fraction, width, distinct, common, histogram, correlation };
            Ok((position, column))
        })?;
        r.end(Statistics(oid, TableStatistics { rows, pages, columns: columns.into_iter().collect() }))
    }
}

/// A text: a comment, or what a setting is in new sessions.
pub(super) struct Text(pub String);

impl Entry for Text {
    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.text(&self.0);
        w.0
    }
    fn decode(bytes: &[u8]) -> Result<Text> {
        let mut r = Reader::new(bytes, "text")?;
        let text = r.text()?;
        r.end(Text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name: &str, default: Option<&str>| Column {
            name: name.into(),
            ty: ColumnType { ty: Type::Numeric, modifier: (10 << 16 | 2) + 4 },
            collation: 0,
            not_null: true,
            default: default.map(str::to_owned),
            identity: Some(Identity { always: true, sequence: 7 }),
            dropped: false,
        };
        let index = |name: &str| Index {
            oid: 9,
            name: name.into(),
            columns: vec![1, 0],
            descending: vec![false, true],
            nulls_first: vec![false, true],
            unique: true,
            constraint: true,
            tree: TreeId(12),
            partition_trees: [(1, TreeId(14))].into(),
            page_size: None,
            is_clustered: true,
        };
        Table {
            oid: 16384,
            schema: "public".into(),
            name: "Ärger".into(),
            columns: vec![column("a", None), column("b", Some("1 + 1"))],
            tree: TreeId(11),
            partition_trees: [(1, TreeId(13))].into(),
            partitioning: Some(Partitioning {
                columns: vec![1],
                modulus: 2,
                partitions: [(1, Partition { oid: 16385, name: "Ärger_1".into() })].into(),
            }),
            partition_of: None,
            is_replicated: true,
            primary_key: Some(index("pk")),
            indexes: vec![index("i")],
            checks: vec![Check { name: "c".into(), expression: "a > 0".into() }],
            page_size: Some(PageSize::MAX),
            statistics: None,
        }
    }

    #[test]
    fn entries_survive_the_round_trip() {
        let table = table();
        let decoded = Table::decode(&table.encode()).unwrap();
        assert_eq!(format!("{table:?}"), format!("{decoded:?}"));
        let sequence = Sequence {
            oid: 1,
            schema: "s".into(),
            name: "q".into(),
            ty: ColumnType { ty: Type::Int4, modifier: -1 },
            increment: -2,
            min: i64::MIN,
            max: -1,
            start: -1,
            cycle: true,
            generation: 3,
            first: -5,
            owner: Some((16384, 1)),
        };
        assert_eq!(format!("{sequence:?}"), format!("{:?}", Sequence::decode(&sequence.encode()).unwrap()));
        let view = View {
            oid: 2,
            schema: "s".into(),
            name: "v".into(),
            columns: vec![("x".into(), ColumnType { ty: Type::Text, modifier: -1 })],
            query: "SELECT 1".into(),
            options: vec!["security_barrier=true".into()],
        };
        assert_eq!(format!("{view:?}"), format!("{:?}", View::decode(&view.encode()).unwrap()));
        // As it was before views had options.
        let mut old = View { options: Vec::new(), ..view.clone() }.encode();
        old.truncate(old.len() - 4);
        old[0] = VIEW_OPTIONS - 1;
        assert_eq!(View::decode(&old).unwrap().query, view.query);
    }

    fn statistics() -> Statistics {
        let ty = ColumnType { ty: Type::Text, modifier: -1 };
        let column = ColumnStatistics {
            ty,
            null_fraction: 0.25,
            width: 4,
            distinct: -0.5,
            common: vec![(Datum::text("a"), 0.5)],
            histogram: vec![Datum::text("b"), Datum::text("c")],
            correlation: Some(-1.0),
        };
        Statistics(16384, TableStatistics { rows: 8.0, pages: 1, columns: [(1, column)].into() })
    }

    #[test]
    fn statistics_survive_the_round_trip() {
        let Statistics(oid, kept) = Statistics::decode(&statistics().encode()).unwrap();
        assert_eq!(oid, 16384);
        assert_eq!(format!("{kept:?}"), format!("{:?}", statistics().1));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let bytes = statistics().encode();
        for cut in 0..bytes.len() {
            assert!(Statistics::decode(&bytes[..cut]).is_err());
        }
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0x80;
            let _ = Statistics::decode(&bytes);
        }
        let bytes = table().encode();
        for cut in 0..bytes.len() {
            assert_eq!(Table::decode(&bytes[..cut]).unwrap_err().state(), SqlState::DATA_CORRUPTED);
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Table::decode(&longer).unwrap_err().state(), SqlState::DATA_CORRUPTED);
        for place in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[place] ^= flip;
                let _ = Table::decode(&bytes);
            }
        }
        let mut newer = bytes;
        newer[0] = VERSION + 1;
        assert_eq!(Table::decode(&newer).unwrap_err().state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    }
}

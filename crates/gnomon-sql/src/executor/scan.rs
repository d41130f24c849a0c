//! Sources at the leaves: stored tables by point, ranges or whole; computed tables; functions.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use gnomon_engine::{Cursor, Direction, KeyRange};

use super::{
    Expr, Measures, RowSource,
    context::{ExecContext, row_bytes},
    eval_all,
    join::OptionalCondition,
    plan::{self, Access, AddressAccess, KeyAccess, KeyPart, RowsFrom},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Index, Oid, Table},
        partition::Place,
    },
    functions::Rows,
    types::{ColumnType, Datum, Row, Tid, Type, keys, rows},
};

/// Reads columns of stored rows, with room for a whole row that is used again.
pub struct RowReader {
    buffer: Row,
}

impl RowReader {
    pub fn new(types: &[ColumnType]) -> RowReader {
        RowReader { buffer: vec![Datum::Null; types.len()] }
    }

    /// The columns at the ascending positions `wanted`. Those that the table got after the row was stored are NULL.
    pub fn read(&mut self, types: &[ColumnType], wanted: &[usize], stored: &[u8]) -> Result<Row> {
        rows::decode_columns(stored, types, wanted, &mut self.buffer)?;
        Ok(wanted.iter().map(|column| std::mem::replace(&mut self.buffer[*column], Datum::Null)).collect())
    }
}

/// Returns where the keys that begin with `prefix` end.
fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    keys::prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded)
}

/// A value as a column of the key can hold it.
enum Fit {
    Value(Datum),
    /// Smaller than every value of the column's type.
    Below,
    /// Larger than every one.
    Above,
    /// NULL, to which nothing compares as true.
    Null,
}

/// Integers compare across their types, so a key of one may be looked up by another.
fn fit(value: Datum, ty: Type) -> Fit {
    let wide = match (&value, ty) {
        (Datum::Null, _) => return Fit::Null,
        (Datum::Int2(_), Type::Int2) | (Datum::Int4(_), Type::Int4) | (Datum::Int8(_), Type::Int8) => {
            return Fit::Value(value);
        }
        (Datum::Int2(n), Type::Int4 | Type::Int8) => i64::from(*n),
        (Datum::Int4(n), Type::Int2 | Type::Int8) => i64::from(*n),
        (Datum::Int8(n), Type::Int2 | Type::Int4) => *n,
        _ => return Fit::Value(value),
    };
    let narrowed = match ty {
        Type::Int2 => i16::try_from(wide).map(Datum::Int2),
        Type::Int4 => i32::try_from(wide).map(Datum::Int4),
        _ => return Fit::Value(Datum::Int8(wide)),
    };
    match narrowed {
        Ok(value) => Fit::Value(value),
        Err(_) if wide < 0 => Fit::Below,
        Err(_) => Fit::Above,
    }
}

fn push_key(index: &Index, position: usize, value: &Datum, out: &mut Vec<u8>) {
    keys::encode(out, value, index.descending[position], index.nulls_first[position]);
}

/// Where an access looks: ranges in the order in which a scan of that direction passes them.
pub enum Ranges {
    /// Single keys of a unique index, whole and located.
    Points(Vec<Vec<u8>>),
    /// Ranges, at every place that is looked at.
    Ranges(Vec<KeyRange>),
}

/// Values of the leading columns of a key, as bytes of the key.
#[derive(Clone, Default)]
struct Prefix {
    key: Vec<u8>,
    /// The values themselves, where they decide on the partition.
    values: Vec<Datum>,
}

impl Prefix {
    fn push(&mut self, key: &[u8], values: &[Datum], table: &Table) {
        self.key.extend_from_slice(key);
        if table.partitioning.is_some() {
            self.values.extend_from_slice(values);
        }
    }

    /// A whole key of a unique index, which has all columns of the partition key; none if there is no such partition.
    fn locate(self, table: &Table, index: &Index) -> Option<Vec<u8>> {
        let columns = table.partitioning.iter().flat_map(|partitioning| &partitioning.columns);
        let values = columns.map(|column| {
            let position = index.columns.iter().position(|indexed| indexed == column);
            position.and_then(|position| self.values.get(position)).unwrap_or(&Datum::Null)
        });
        Some(table.place_of_values(values)?.locate(self.key))
    }
}

/// The values that a part of a condition allows a column of this type; none if no value is.
fn allowed(part: &KeyPart, ty: Type, ctx: &mut ExecContext<'_>) -> Result<Vec<Datum>> {
    let given = match part {
        KeyPart::Equal(expr) => vec![expr.eval(&[], ctx)?],
        KeyPart::Any(array) => match array.eval(&[], ctx)? {
            Datum::Array(_, items) => items.into_iter().collect(),
            _ => Vec::new(),
        },
        KeyPart::Rows(..) => Vec::new(),
    };
    Ok(given
        .into_iter()
        .filter_map(|value| match fit(value, ty) {
            Fit::Value(value) => Some(value),
            Fit::Below | Fit::Above | Fit::Null => None,
        })
        .collect())
}

/// The places that a scan looks at: of a table in partitions those that its conditions leave, each column of the
/// partition key equal to what `pruning` has for it.
fn places(table: &Table, pruning: Option<&[KeyPart]>, ctx: &mut ExecContext<'_>) -> Result<Vec<Place>> {
    let (Some(partitioning), Some(pruning)) = (&table.partitioning, pruning) else {
        return Ok(table.places());
    };
    let mut keys: Vec<Row> = vec![Row::new()];
    for (column, part) in partitioning.columns.iter().zip(pruning) {
        let values = allowed(part, table.columns[*column].ty.ty, ctx)?;
        ctx.reserve(keys.len().saturating_mul(values.len()).saturating_mul(48))?;
        keys = keys
            .iter()
            .flat_map(|key| values.iter().map(move |value| [&key[..], std::slice::from_ref(value)].concat()))
            .collect();
    }
    let found: BTreeSet<Place> = keys.iter().filter_map(|key| table.place_of_values(key)).collect();
    Ok(found.into_iter().collect())
}

/// Returns the possible values of the leading columns of a key, in the order of keys; none if a column may have none.
fn prefixes(
    table: &Table,
    index: &Index,
    equal: &[KeyPart],
    ctx: &mut ExecContext<'_>,
) -> Result<Vec<Prefix>> {
    let mut prefixes = vec![Prefix::default()];
    let mut position = 0;
    for part in equal {
        match part {
            KeyPart::Equal(_) | KeyPart::Any(_) => {
                let ty = table.columns[index.columns[position]].ty.ty;
                let encoded = |value: Datum| {
                    let mut key = Vec::new();
                    push_key(index, position, &value, &mut key);
                    (key, [value])
                };
                let choices = allowed(part, ty, ctx)?.into_iter().map(encoded).collect();
                multiply(&mut prefixes, choices, table, ctx)?;
            }
            KeyPart::Rows(_, rows) => {
                let mut choices = Vec::with_capacity(rows.len());
                for row in rows {
                    choices.extend(row_key(table, index, position, row, ctx)?);
                }
                multiply(&mut prefixes, choices, table, ctx)?;
            }
        }
        if prefixes.is_empty() {
            break;
        }
        position += part.width();
    }
    Ok(prefixes)
}

/// The part of a key from a column on that has the values of a row; none if a column cannot have its value.
fn row_key(
    table: &Table,
    index: &Index,
    position: usize,
    row: &[Expr],
    ctx: &mut ExecContext<'_>,
) -> Result<Option<(Vec<u8>, Row)>> {
    let (mut key, mut values) = (Vec::new(), Row::with_capacity(row.len()));
    for (position, expr) in (position..).zip(row) {
        let ty = table.columns[index.columns[position]].ty.ty;
        let Fit::Value(value) = fit(expr.eval(&[], ctx)?, ty) else { return Ok(None) };
        push_key(index, position, &value, &mut key);
        values.push(value);
    }
    Ok(Some((key, values)))
}

/// Continues each prefix by each of several choices, in the order of their bytes.
fn multiply<V: AsRef<[Datum]>>(
    prefixes: &mut Vec<Prefix>,
    mut choices: Vec<(Vec<u8>, V)>,
    table: &Table,
    ctx: &mut ExecContext<'_>,
) -> Result<()> {
    if let [(key, values)] = &choices[..] {
        prefixes.iter_mut().for_each(|prefix| prefix.push(key, values.as_ref(), table));
        return Ok(());
    }
    choices.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    choices.dedup_by(|(left, _), (right, _)| left == right);
    ctx.reserve(prefixes.len().saturating_mul(choices.len()).saturating_mul(48))?;
    *prefixes = prefixes
        .iter()
        .flat_map(|prefix| {
            choices.iter().map(move |(key, values)| {
                let mut longer = prefix.clone();
                longer.push(key, values.as_ref(), table);
                longer
            })
        })
        .collect();
    Ok(())
}

/// The key ranges of an access, its values computed.
pub fn key_ranges(table: &Table, access: &KeyAccess, ctx: &mut ExecContext<'_>) -> Result<Ranges> {
    let index = access.index_of(table);
    let nothing = Ranges::Points(Vec::new());
    let mut prefixes = prefixes(table, index, &access.equal, ctx)?;
    if prefixes.is_empty() {
        return Ok(nothing);
    }
    if access.direction == Direction::Backward {
        prefixes.reverse();
    }
    if access.point {
        let located = prefixes.into_iter().filter_map(|prefix| prefix.locate(table, index));
        return Ok(Ranges::Points(located.collect()));
    }
    let prefixes = prefixes.into_iter().map(|prefix| prefix.key);
    let Some(range) = &access.range else {
        return Ok(Ranges::Ranges(
            prefixes
                .map(|prefix| KeyRange { end: after_prefix(&prefix), start: Bound::Included(prefix) })
                .collect(),
        ));
    };
    let position = access.equal_columns();
    let ty = table.columns[index.columns[position]].ty.ty;
    let low = bound(range.low.as_ref(), ty, true, ctx)?;
    let high = bound(range.high.as_ref(), ty, false, ctx)?;
    let (Limit::At(..) | Limit::Open, Limit::At(..) | Limit::Open) = (&low, &high) else {
        return Ok(nothing);
    };
    // In a descending column the high value comes first.
    let (first, last) = if index.descending[position] { (high, low) } else { (low, high) };
    let encoded = |value: &Datum, prefix: &[u8]| {
        let mut key = prefix.to_vec();
        push_key(index, position, value, &mut key);
        key
    };
    let ranges = prefixes.map(|prefix| {
        let start = match &first {
            Limit::At(value, true) => Bound::Included(encoded(value, &prefix)),
            Limit::At(value, false) => match after_prefix(&encoded(value, &prefix)) {
                Bound::Excluded(key) => Bound::Included(key),
                other => other,
            },
            Limit::Open | Limit::Nothing => Bound::Included(prefix.clone()),
        };
        let end = match &last {
            Limit::At(value, true) => after_prefix(&encoded(value, &prefix)),
            Limit::At(value, false) => Bound::Excluded(encoded(value, &prefix)),
            Limit::Open | Limit::Nothing => after_prefix(&prefix),
        };
        KeyRange { start, end }
    });
    Ok(Ranges::Ranges(ranges.filter(|range| !is_empty(range)).collect()))
}

/// The located keys that rows with these addresses may have, in the order of the addresses.
fn addressed(table: &Table, access: &AddressAccess, ctx: &mut ExecContext<'_>) -> Result<Vec<Vec<u8>>> {
    let mut addresses: Vec<Tid> = allowed(&access.addresses, Type::Tid, ctx)?
        .into_iter()
        .filter_map(|value| if let Datum::Tid(address) = value { Some(address) } else { None })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    ctx.reserve(addresses.len().saturating_mul(table.places().len()).saturating_mul(48))?;
    Ok(addresses.into_iter().flat_map(|address| table.keys_at(address)).collect())
}

/// One side of a range.
enum Limit {
    /// At this value, which belongs to the range or not.
    At(Datum, bool),
    /// Nowhere: every value of the column's type is on the right side of it.
    Open,
    /// No value is on the right side of it.
    Nothing,
}

fn bound(
    part: Option<&(plan::KeyBound, bool)>,
    ty: Type,
    low: bool,
    ctx: &mut ExecContext<'_>,
) -> Result<Limit> {
    let Some((expr, inclusive)) = part else { return Ok(Limit::Open) };
    Ok(match (fit(expr.eval(&[], ctx)?, ty), low) {
        (Fit::Value(value), _) => Limit::At(value, *inclusive),
        (Fit::Below, true) | (Fit::Above, false) => Limit::Open,
        (Fit::Below, false) | (Fit::Above, true) | (Fit::Null, _) => Limit::Nothing,
    })
}

fn is_empty(range: &KeyRange) -> bool {
    match (&range.start, &range.end) {
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

/// Opens a scan of a stored table.
pub(super) fn table(node: &Arc<plan::TableScan>) -> Box<dyn RowSource> {
    Box::new(TableSource { reader: RowReader::new(&node.types), node: node.clone(), state: TableState::New })
}

struct TableSource {
    node: Arc<plan::TableScan>,
    reader: RowReader,
    state: TableState,
}

/// Where a scan of a table stands.
pub(super) enum TableState {
    New,
    Points(std::vec::IntoIter<Vec<u8>>),
    Ranges(Box<RangeScan>),
}

/// Finds where a scan looks.
pub(super) fn start(node: &plan::TableScan, ctx: &mut ExecContext<'_>) -> Result<TableState> {
    let table = &node.table;
    let ranges = match &node.access {
        Access::Full(_) => vec![KeyRange::all()],
        Access::Key(access) => match key_ranges(table, access, ctx)? {
            Ranges::Points(keys) => return Ok(TableState::Points(keys.into_iter())),
            Ranges::Ranges(ranges) => ranges,
        },
        Access::Address(access) => {
            return Ok(TableState::Points(addressed(table, access, ctx)?.into_iter()));
        }
        Access::Current(cursor) => {
            let key = ctx.current_row(cursor, table)?;
            return Ok(TableState::Points(Vec::from_iter(key).into_iter()));
        }
    };
    let places = places(table, node.pruning.as_deref(), ctx)?;
    ctx.reserve(places.len().saturating_sub(1).saturating_mul(ranges.len()).saturating_mul(96))?;
    let placed = match &places[..] {
        [place] => ranges.into_iter().map(|range| (*place, range)).collect(),
        _ => places
            .iter()
            .flat_map(|place| ranges.iter().map(|range| (*place, range.clone())))
            .collect::<Vec<_>>(),
    };
    Ok(TableState::Ranges(Box::new(RangeScan::new(placed))))
}

impl TableSource {
    /// The next row, which was not compared with the filter yet.
    fn candidate(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if matches!(self.state, TableState::New) {
            self.state = start(&self.node, ctx)?;
        }
        let TableSource { node, reader, state } = self;
        let table = &node.table;
        let (index, direction, relation) = match &node.access {
            Access::Full(direction) => (None, *direction, table.oid),
            Access::Key(access) => (access.secondary(table), access.direction, access.index_of(table).oid),
            Access::Address(_) | Access::Current(_) => (None, Direction::Forward, table.oid),
        };
        match state {
            TableState::New => Ok(None),
            TableState::Points(keys) => {
                for key in keys {
                    ctx.tick()?;
                    let (place, stored) = table.split(&key)?;
                    let key = match index {
                        None => Some(stored.to_vec()),
                        Some(index) => ctx.txn.get(index.tree_at(place)?, stored)?,
                    };
                    let row = match &key {
                        Some(key) => ctx.txn.get(table.tree_at(place)?, key)?,
                        None => None,
                    };
                    let accesses = ctx.accesses((relation, place));
                    accesses.scans += u64::from(matches!(node.access, Access::Key(_)));
                    if let (Some(key), Some(row)) = (key, row) {
                        accesses.found();
                        return wanted(reader, node, || place.locate(key), &row).map(Some);
                    }
                }
                Ok(None)
            }
            TableState::Ranges(scan) => {
                let Some(index) = index else {
                    let row = scan.next(table, None, direction, relation, ctx, |place, key, stored| {
                        wanted(reader, node, || place.locate(key.to_vec()), stored)
                    })?;
                    if row.is_some() {
                        ctx.tick()?;
                        ctx.accesses((relation, scan.place)).found();
                    }
                    return Ok(row);
                };
                let row_key = |_, _: &[u8], key: &[u8]| Ok(key.to_vec());
                while let Some(key) = scan.next(table, Some(index), direction, relation, ctx, row_key)? {
                    ctx.tick()?;
                    // A cursor may outlive a deletion by its own transaction; then the entry's row is gone.
                    let row = ctx.txn.get(table.tree_at(scan.place)?, &key)?;
                    let accesses = ctx.accesses((relation, scan.place));
                    accesses.read += 1;
                    if let Some(row) = row {
                        accesses.fetched += 1;
                        return wanted(reader, node, || scan.place.locate(key), &row).map(Some);
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Reads the columns of a row that a scan wants, with the row's located key if it wants that.
fn wanted(
    reader: &mut RowReader,
    node: &plan::TableScan,
    key: impl FnOnce() -> Vec<u8>,
    stored: &[u8],
) -> Result<Row> {
    let mut row = reader.read(&node.types, &node.columns, stored)?;
    if node.with_key {
        row.push(Datum::Bytea(key().into()));
    }
    Ok(row)
}

/// Ranges of a table's rows, or of the entries of an index, one after another.
pub(super) struct RangeScan {
    ranges: std::vec::IntoIter<(Place, KeyRange)>,
    /// The place of the present range.
    pub(super) place: Place,
    cursor: Option<Cursor>,
}

impl RangeScan {
    fn new(ranges: Vec<(Place, KeyRange)>) -> RangeScan {
        RangeScan { ranges: ranges.into_iter(), place: Place::Whole, cursor: None }
    }

    /// Returns the result of `read` on the place, key and value of the next row or entry. Scans are counted as those of
    /// `relation`.
    pub(super) fn next<T>(
        &mut self,
        table: &Table,
        index: Option<&Index>,
        direction: Direction,
        relation: Oid,
        ctx: &mut ExecContext<'_>,
        read: impl FnOnce(Place, &[u8], &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            if let Some(open) = &mut self.cursor {
                if let Some((key, value)) = open.next_ref(ctx.txn)? {
                    return read(self.place, key, value).map(Some);
                }
                self.cursor = None;
            }
            let Some((place, range)) = self.ranges.next() else { return Ok(None) };
            let tree = index.map_or_else(|| table.tree_at(place), |index| index.tree_at(place))?;
            self.place = place;
            ctx.accesses((relation, place)).scans += 1;
            self.cursor = Some(ctx.txn.scan(tree, range, direction)?);
        }
    }
}

impl RowSource for TableSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.node.filter.as_ref().is_some_and(Expr::is_never_true) {
            return Ok(None);
        }
        while let Some(row) = self.candidate(ctx)? {
            if self.node.filter.as_ref().is_none_or_true(&row, ctx)? {
                return Ok(Some(row));
            }
            ctx.measures.note_removed(&self.node);
        }
        Ok(None)
    }
}

/// A computed table.
pub(super) struct VirtualSource {
    node: Arc<plan::VirtualScan>,
    rows: Option<Arc<Vec<Row>>>,
    next: usize,
}

impl VirtualSource {
    pub(super) fn new(node: Arc<plan::VirtualScan>) -> Self {
        VirtualSource { node, rows: None, next: 0 }
    }

    /// The table's rows, computed once for all scans of it in a statement.
    fn rows(&mut self, ctx: &mut ExecContext<'_>) -> Result<Arc<Vec<Row>>> {
        if let Some(rows) = &self.rows {
            return Ok(rows.clone());
        }
        let table = &self.node.table;
        let rows = match ctx.state.virtual_rows.get(&table.oid()) {
            Some(rows) => rows.clone(),
            None => {
                let before = ctx.reserved();
                let rows = Arc::new(table.rows(ctx)?);
                ctx.reserve(rows.iter().map(|row| row_bytes(row)).sum())?;
                ctx.keep_since(before);
                ctx.state.virtual_rows.insert(table.oid(), rows.clone());
                rows
            }
        };
        self.rows = Some(rows.clone());
        Ok(rows)
    }
}

impl RowSource for VirtualSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        if self.node.filter.as_ref().is_some_and(Expr::is_never_true) {
            return Ok(None);
        }
        let rows = self.rows(ctx)?;
        while let Some(row) = rows.get(self.next) {
            self.next += 1;
            ctx.tick()?;
            let table = &self.node.table;
            let picked = self.node.columns.iter().map(|column| match row.get(*column) {
                Some(value) => Ok(value.clone()),
                None if *column == table.columns().len() => Ok(Datum::Oid(table.oid())),
                None => Err(SqlError::new(
                    SqlState::INTERNAL_ERROR,
                    format!("table {} has a row of wrong width", table.name()),
                )),
            });
            let row = picked.collect::<Result<Row>>()?;
            if self.node.filter.as_ref().is_none_or_true(&row, ctx)? {
                return Ok(Some(row));
            }
            ctx.measures.note_removed(&self.node);
        }
        Ok(None)
    }
}

/// Rows of several sets side by side, the shorter ones filled up with NULL.
struct SetRows {
    sets: Vec<Rows>,
}

impl SetRows {
    fn start(functions: &[RowsFrom], row: &[Datum], ctx: &mut ExecContext<'_>) -> Result<SetRows> {
        let mut sets: Vec<Rows> = Vec::with_capacity(functions.len());
        for function in functions {
            sets.push(match function {
                RowsFrom::Scalar(expr) => Box::new(std::iter::once(Ok(vec![expr.eval(row, ctx)?]))),
                RowsFrom::Set { function, args, .. } => {
                    let args = eval_all(args, row, ctx)?;
                    function.iterate(&args, ctx.types)?
                }
            });
        }
        Ok(SetRows { sets })
    }

    fn next(&mut self, functions: &[RowsFrom]) -> Result<Option<Row>> {
        let mut out = Vec::new();
        let mut more = false;
        for (set, function) in self.sets.iter_mut().zip(functions) {
            match set.next() {
                Some(row) => {
                    more = true;
                    out.extend(row?);
                }
                None => {
                    *set = Box::new(std::iter::empty());
                    out.extend(std::iter::repeat_n(Datum::Null, function.width()));
                }
            }
        }
        Ok(more.then_some(out))
    }
}

/// Functions in FROM.
pub(super) struct FunctionSource {
    node: Arc<plan::FunctionScan>,
    rows: Option<SetRows>,
    ordinal: i64,
}

impl FunctionSource {
    pub(super) fn new(node: Arc<plan::FunctionScan>) -> Self {
        FunctionSource { node, rows: None, ordinal: 0 }
    }
}

impl RowSource for FunctionSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        ctx.tick()?;
        let rows = match &mut self.rows {
            Some(rows) => rows,
            none => none.insert(SetRows::start(&self.node.functions, &[], ctx)?),
        };
        let Some(mut row) = rows.next(&self.node.functions)? else { return Ok(None) };
        self.ordinal += 1;
        if self.node.ordinality {
            row.push(Datum::Int8(self.ordinal));
        }
        Ok(Some(row))
    }
}

/// Set-returning functions in a select list: as many rows as the longest set has.
pub(super) struct ProjectSetSource {
    node: Arc<plan::ProjectSet>,
    input: Box<dyn RowSource>,
    sets: Option<(Row, SetRows)>,
}

impl ProjectSetSource {
    pub(super) fn new(node: Arc<plan::ProjectSet>, measures: &Measures) -> Self {
        ProjectSetSource { input: super::open(&node.input, measures), node, sets: None }
    }
}

impl RowSource for ProjectSetSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        loop {
            if let Some((row, sets)) = &mut self.sets {
                ctx.tick()?;
                if let Some(values) = sets.next(&self.node.sets)? {
                    return Ok(Some(row.iter().cloned().chain(values).collect()));
                }
                self.sets = None;
            }
            let Some(row) = self.input.next(ctx)? else { return Ok(None) };
            let sets = SetRows::start(&self.node.sets, &row, ctx)?;
            self.sets = Some((row, sets));
        }
    }
}

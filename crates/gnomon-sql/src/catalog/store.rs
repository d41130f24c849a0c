//! The catalog in the engine's trees: read when a database is opened, written by the transactions that run DDL.
//!
//! A database of SQL keeps its catalog in the first tree that was ever made in it ([`CATALOG_TREE`]; the engine
//! numbers trees from 1) and where its sequences stand in the second ([`SEQUENCE_TREE`]). The catalog has an entry
//! for each object; its key is the kind (1 byte), the identifier and, of comments, the column (4 bytes each,
//! big-endian); of settings in new sessions names follow. DDL works on a copy in memory; the differences are written when
//! the transaction commits.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::{Database, Direction, Error, KeyRange, RowLock, Transaction, TreeId, TxnOptions};

use super::{
    Catalog, FIRST_USER_OID,
    encode::{Entry, Header, Statistics, Text},
    model::{Oid, Procedure, Schema, Sequence, Table, View},
    snapshot::SettingKey,
};
use crate::{Result, SqlError, SqlState};

/// The tree of the catalog.
pub const CATALOG_TREE: TreeId = TreeId(1);
/// The tree of the positions of sequences.
pub const SEQUENCE_TREE: TreeId = TreeId(2);

const HEADER: u8 = 0;
const SCHEMA: u8 = 1;
const TABLE: u8 = 2;
const SEQUENCE: u8 = 3;
const VIEW: u8 = 4;
const COMMENT: u8 = 5;
const PROCEDURE: u8 = 6;
const CLUSTER: u8 = 7;
const SETTING: u8 = 8;
const STATISTICS: u8 = 9;

fn key(kind: u8, oid: Oid, column: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&oid.to_be_bytes());
    if kind == COMMENT {
        key.extend_from_slice(&column.to_be_bytes());
    }
    key
}

/// The key of what a setting is in new sessions: the role's name, a zero, the setting's name.
fn setting_key((role, name): &SettingKey) -> Vec<u8> {
    let mut key = key(SETTING, 0, 0);
    key.extend_from_slice(role.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

fn damaged(detail: &str) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("the catalog is damaged: {detail}"))
}

/// Reads the catalog, or makes it in an empty database. Returns it with the next free identifier.
pub(crate) fn open(engine: &Database) -> Result<(Catalog, Oid)> {
    let mut txn = engine.begin(TxnOptions::default())?;
    if let Some(header) = header(&mut txn)? {
        return Ok((load(&mut txn)?, header.next_oid));
    }
    if (txn.create_tree()?, txn.create_tree()?) != (CATALOG_TREE, SEQUENCE_TREE) {
        return Err(SqlError::new(
            SqlState::INVALID_CATALOG_NAME,
            "the database was not made by SQL: it has trees of another program and no catalog",
        ));
    }
    let catalog = Catalog::default();
    for schema in catalog.schemas() {
        txn.put(CATALOG_TREE, &key(SCHEMA, schema.oid, 0), &schema.encode())?;
    }
    for ((oid, column), comment) in catalog.comments() {
        txn.put(CATALOG_TREE, &key(COMMENT, oid, column), &Text(comment.to_string()).encode())?;
    }
    txn.put(CATALOG_TREE, &key(HEADER, 0, 0), &Header { next_oid: FIRST_USER_OID }.encode())?;
    txn.commit()?;
    Ok((catalog, FIRST_USER_OID))
}

fn header(txn: &mut Transaction) -> Result<Option<Header>> {
    match txn.get(CATALOG_TREE, &key(HEADER, 0, 0)) {
        Ok(header) => header.map(|header| Header::decode(&header)).transpose(),
        Err(Error::NoSuchTree(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Catalog {
    /// Reads the catalog of a database, which may be open for reading only. None if SQL keeps nothing in it.
    ///
    /// # Errors
    /// XX001 if the catalog is damaged, and the engine's.
    pub fn read(engine: &Database) -> Result<Option<Catalog>> {
        let mut txn = engine.begin(TxnOptions { read_only: true, ..TxnOptions::default() })?;
        match header(&mut txn)? {
            Some(_) => load(&mut txn).map(Some),
            None => Ok(None),
        }
    }
}

/// Locks the catalog for a transaction that changes it: there is one at a time.
pub(crate) fn lock(txn: &mut Transaction) -> Result<()> {
    txn.get_locked(CATALOG_TREE, &key(HEADER, 0, 0), RowLock::Exclusive)?;
    Ok(())
}

/// Makes a transaction depend on a table staying what it is in the catalog.
pub(crate) fn rest_on_table(txn: &mut Transaction, table: Oid) -> Result<()> {
    Ok(txn.rest_on(CATALOG_TREE, &key(TABLE, table, 0))?)
}

/// The tree in which a member of a cluster keeps its marks; none if the database is no member.
pub(crate) fn marks(txn: &mut Transaction) -> Result<Option<TreeId>> {
    let value = txn.get(CATALOG_TREE, &key(CLUSTER, 0, 0))?;
    let tree = |value: Vec<u8>| match value.split_first() {
        Some((1, tree)) => tree.try_into().map(|tree| TreeId(u64::from_le_bytes(tree))).ok(),
        _ => None,
    };
    value.map(|value| tree(value).ok_or_else(|| damaged("its entry of the cluster is malformed"))).transpose()
}

/// Notes in which tree a member of a cluster keeps its marks.
pub(crate) fn put_marks(txn: &mut Transaction, marks: Option<TreeId>) -> Result<()> {
    let key = key(CLUSTER, 0, 0);
    match marks {
        Some(marks) => {
            let mut value = vec![1];
            value.extend_from_slice(&marks.0.to_le_bytes());
            txn.put(CATALOG_TREE, &key, &value)?;
        }
        None => drop(txn.delete(CATALOG_TREE, &key)?),
    }
    Ok(())
}

/// The next free identifier, as the transaction finds it. Every change of the catalog has another one.
pub(crate) fn next_oid(txn: &mut Transaction) -> Result<Oid> {
    Ok(header(txn)?.ok_or_else(|| damaged("it has no header"))?.next_oid)
}

/// Reads the catalog as the transaction finds it.
pub(crate) fn load(txn: &mut Transaction) -> Result<Catalog> {
    let mut catalog = Catalog::empty();
    let mut cursor = txn.scan(CATALOG_TREE, KeyRange::all(), Direction::Forward)?;
    while let Some((key, value)) = cursor.next(txn)? {
        let (kind, numbers) = key.split_first().ok_or_else(|| damaged("it has an empty key"))?;
        let (oid, rest) = match numbers.split_first_chunk::<4>() {
            Some((oid, rest)) => (u32::from_be_bytes(*oid), rest),
            None => return Err(damaged("a key is too short")),
        };
        let same = match *kind {
            // It says where the marks of a cluster are, which no statement looks up.
            HEADER | CLUSTER => true,
            SCHEMA => {
                let schema = Schema::decode(&value)?;
                let same = schema.oid == oid;
                catalog.put_schema(schema);
                same
            }
            TABLE => {
                let table = Table::decode(&value)?;
                let same = table.oid == oid;
                catalog.put_table(table);
                same
            }
            SEQUENCE => {
                let sequence = Sequence::decode(&value)?;
                let same = sequence.oid == oid;
                catalog.put_sequence(sequence);
                same
            }
            VIEW => {
                let view = View::decode(&value)?;
                let same = view.oid == oid;
                catalog.put_view(view);
                same
            }
            PROCEDURE => {
                let procedure = Procedure::decode(&value)?;
                let same = procedure.oid == oid;
                catalog.put_procedure(procedure);
                same
            }
            STATISTICS => {
                let Statistics(of, statistics) = Statistics::decode(&value)?;
                catalog.put_statistics(of, statistics);
                of == oid
            }
            COMMENT => {
                let column = rest.try_into().map_err(|_| damaged("a key of a comment is too short"))?;
                let comment = Text::decode(&value)?;
                catalog.put_comment((oid, u32::from_be_bytes(column)), Some(&comment.0));
                true
            }
            SETTING => {
                let words = std::str::from_utf8(rest).ok().and_then(|words| words.split_once('\0'));
                let (role, name) = words.ok_or_else(|| damaged("a key of a setting is malformed"))?;
                let value = Text::decode(&value)?;
                catalog.put_setting(role.to_owned(), name.to_owned(), Some(&value.0));
                true
            }
            kind => return Err(damaged(&format!("it has an entry of the unknown kind {kind}"))),
        };
        if !same {
            return Err(damaged("an entry stands under the key of another"));
        }
    }
    Ok(catalog)
}

/// Writes what differs between two states of the catalog.
pub(crate) fn write_changes(
    txn: &mut Transaction,
    before: &Catalog,
    after: &Catalog,
    next_oid: Oid,
) -> Result<()> {
    changes(txn, SCHEMA, &before.schemas, &after.schemas)?;
    changes(txn, TABLE, &before.tables, &after.tables)?;
    statistics(txn, before, after)?;
    changes(txn, SEQUENCE, &before.sequences, &after.sequences)?;
    changes(txn, VIEW, &before.views, &after.views)?;
    changes(txn, PROCEDURE, &before.procedures, &after.procedures)?;
    for (at, text) in &after.comments {
        if before.comments.get(at) != Some(text) {
            let comment = Text(text.to_string());
            txn.put(CATALOG_TREE, &key(COMMENT, at.0, at.1), &comment.encode())?;
        }
    }
    for at in before.comments.keys().filter(|at| !after.comments.contains_key(at)) {
        txn.delete(CATALOG_TREE, &key(COMMENT, at.0, at.1))?;
    }
    for (of, value) in &after.settings {
        if before.settings.get(of) != Some(value) {
            txn.put(CATALOG_TREE, &setting_key(of), &Text(value.to_string()).encode())?;
        }
    }
    for of in before.settings.keys().filter(|of| !after.settings.contains_key(of)) {
        txn.delete(CATALOG_TREE, &setting_key(of))?;
    }
    txn.put(CATALOG_TREE, &key(HEADER, 0, 0), &Header { next_oid }.encode())?;
    Ok(())
}

/// Writes the statistics of tables that were analyzed, and removes those of tables that are gone.
fn statistics(txn: &mut Transaction, before: &Catalog, after: &Catalog) -> Result<()> {
    for (oid, table) in &after.tables {
        let former = before.tables.get(oid).and_then(|table| table.statistics.as_ref());
        match (&table.statistics, former) {
            (Some(new), Some(old)) if Arc::ptr_eq(new, old) => {}
            (Some(new), _) => {
                let entry = Statistics(*oid, (**new).clone());
                txn.put(CATALOG_TREE, &key(STATISTICS, *oid, 0), &entry.encode())?;
            }
            (None, Some(_)) => drop(txn.delete(CATALOG_TREE, &key(STATISTICS, *oid, 0))?),
            (None, None) => {}
        }
    }
    let gone = before.tables.values().filter(|table| !after.tables.contains_key(&table.oid));
    for table in gone.filter(|table| table.statistics.is_some()) {
        txn.delete(CATALOG_TREE, &key(STATISTICS, table.oid, 0))?;
    }
    Ok(())
}

/// Writes objects that differ, and removes those that are gone. An object that was not changed is shared by both states;
/// of a table that was only analyzed, the entry stays the same, which transactions may depend on.
fn changes<T: Entry>(
    txn: &mut Transaction,
    kind: u8,
    before: &BTreeMap<Oid, Arc<T>>,
    after: &BTreeMap<Oid, Arc<T>>,
) -> Result<()> {
    for (oid, object) in after {
        let former = before.get(oid);
        if former.is_some_and(|old| Arc::ptr_eq(old, object)) {
            continue;
        }
        let entry = object.encode();
        if former.is_none_or(|old| old.encode() != entry) {
            txn.put(CATALOG_TREE, &key(kind, *oid, 0), &entry)?;
        }
    }
    for oid in before.keys().filter(|oid| !after.contains_key(oid)) {
        txn.delete(CATALOG_TREE, &key(kind, *oid, 0))?;
    }
    Ok(())
}

//! A database of a few tables for the tests of queries.

use std::{collections::HashMap, sync::Arc};

use gnomon_engine::{Database, Options, Transaction, TxnOptions};
use gnomon_parser::{Statement, ast};

use super::{Measures, Planned, plan_query};
use crate::{
    Result, SqlError, SqlState,
    binder::{Binder, CatalogView, Change, Relation, Scope},
    catalog::model::{Column, Index, Oid, Procedure, Table, View},
    executor::{ExecContext, TargetScan, VirtualColumn, VirtualTable},
    types::{ColumnType, Context, Datum, FixedEnvironment, Row, Type, keys, parse_type_name, rows, text},
};

/// A database with hand-made tables.
pub(super) struct TestDatabase {
    pub database: Database,
    pub tables: HashMap<String, Arc<Table>>,
    next_oid: Oid,
    next_row: u64,
}

/// A key of a test table: its columns by name, perhaps followed by `desc`.
pub(super) struct TestIndex {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    pub unique: bool,
}

struct Numbers;

impl VirtualTable for Numbers {
    fn kind(&self) -> &'static str {
        "table"
    }
    fn oid(&self) -> Oid {
        1
    }
    fn schema(&self) -> &str {
        "public"
    }
    fn name(&self) -> &str {
        "numbers"
    }
    fn columns(&self) -> &[VirtualColumn] {
        const COLUMNS: [VirtualColumn; 2] = [
            VirtualColumn { name: "n", ty: ColumnType { ty: Type::Int4, modifier: -1 } },
            VirtualColumn { name: "name", ty: ColumnType { ty: Type::Name, modifier: -1 } },
        ];
        &COLUMNS
    }
    fn rows(&self, _: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        Ok(["one", "two", "three"]
            .iter()
            .zip(1..)
            .map(|(name, n)| vec![Datum::Int4(n), Datum::text(*name)])
            .collect())
    }
}

impl CatalogView for TestDatabase {
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Relation>> {
        Ok(match (schema, name) {
            (None | Some("public"), "numbers") => Some(Relation::Virtual(Arc::new(Numbers))),
            (None | Some("public"), name) => self.tables.get(name).cloned().map(Relation::Table),
            _ => None,
        })
    }
    fn procedure(&self, _: Option<&str>, _: &str) -> Option<Arc<Procedure>> {
        None
    }
    fn view_query(&self, view: &View) -> Result<ast::Query> {
        Err(view.damaged("Views are not in these tests."))
    }
    fn database(&self) -> &str {
        "q"
    }
}

impl TestDatabase {
    pub(super) fn new() -> TestDatabase {
        TestDatabase {
            database: Database::in_memory(Options::default()).expect("a database in memory"),
            tables: HashMap::new(),
            next_oid: 16384,
            next_row: 0,
        }
    }

    /// Makes a table; a column is `name type`, with `!` behind it NOT NULL. The first index is the primary key if its
    /// name ends with `_pkey`.
    pub(super) fn create(&mut self, name: &str, columns: &[&str], indexes: &[TestIndex]) {
        let mut txn = self.database.begin(TxnOptions::default()).expect("begin");
        let columns: Vec<Column> = columns
            .iter()
            .map(|column| {
                let (name, ty) = column.split_once(' ').expect("a name and a type");
                let (ty, not_null) = ty.strip_suffix('!').map_or((ty, false), |ty| (ty, true));
                let ty = parse_type_name(ty).expect("a type");
                let collation = ty.ty.info().collation;
                Column {
                    name: name.into(),
                    ty,
                    collation,
                    not_null,
                    default: None,
                    identity: None,
                    dropped: false,
                }
            })
            .collect();
        let tree = txn.create_tree().expect("a tree");
        let mut table = Table {
            oid: self.next_oid,
            schema: "public".into(),
            name: name.into(),
            columns,
            tree,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            partition_trees: Default::default(),
            partitioning: None,
            partition_of: None,
            is_replicated: false,
            page_size: None,
            statistics: None,
        };
        self.next_oid += 1;
        for index in indexes {
            let primary = index.name.ends_with("_pkey");
            let parts: Vec<(usize, bool)> = index
                .columns
                .iter()
                .map(|column| {
                    let (name, descending) =
                        column.strip_suffix(" desc").map_or((*column, false), |name| (name, true));
                    (table.column(name).expect("a column"), descending)
                })
                .collect();
            let made = Index {
                oid: self.next_oid,
                name: index.name.into(),
                columns: parts.iter().map(|part| part.0).collect(),
                descending: parts.iter().map(|part| part.1).collect(),
                nulls_first: parts.iter().map(|part| part.1).collect(),
                unique: index.unique,
                constraint: primary,
                tree: if primary { tree } else { txn.create_tree().expect("a tree") },
                partition_trees: Default::default(),
                page_size: None,
                is_clustered: false,
            };
            self.next_oid += 1;
            if primary { table.primary_key = Some(made) } else { table.indexes.push(made) }
        }
        txn.commit().expect("commit");
        self.tables.insert(name.into(), Arc::new(table));
    }

    /// Inserts rows given as text, `\N` for NULL, cells separated by `|`.
    pub(super) fn insert(&mut self, name: &str, lines: &[&str]) {
        let mut txn = self.database.begin(TxnOptions::default()).expect("begin");
        let table = self.tables[name].clone();
        let types: Vec<ColumnType> = table.columns.iter().map(|column| column.ty).collect();
        for line in lines {
            let environment = FixedEnvironment::at(0);
            let context = Context::new(&environment);
            let row: Row = line
                .split('|')
                .zip(&types)
                .map(|(cell, ty)| match cell {
                    "\\N" => Datum::Null,
                    cell => text::input(&context, cell, *ty).expect("a value"),
                })
                .collect();
            self.next_row += 1;
            let key = match &table.primary_key {
                Some(index) => index_key(index, &row),
                None => self.next_row.to_be_bytes().to_vec(),
            };
            txn.insert(table.tree, &key, &rows::encode(&row, &types).expect("a row")).expect("insert");
            for index in &table.indexes {
                let mut entry = index_key(index, &row);
                if !index.unique || index.columns.iter().any(|column| row[*column].is_null()) {
                    entry.extend_from_slice(&key);
                }
                txn.insert(index.tree, &entry, &key).expect("insert");
            }
        }
        txn.commit().expect("commit");
    }

    pub(super) fn begin(&self) -> Transaction {
        self.database.begin(TxnOptions::default()).expect("begin")
    }

    pub(super) fn plan(&self, sql: &str, params: &[Type]) -> Result<Planned> {
        let query = gnomon_parser::parse_query(sql)?;
        plan_query(&query, self, &Context::new(&FixedEnvironment::at(0)), params)
    }

    /// The rows of a query as text: cells separated by `|`, NULL as nothing.
    pub(super) fn rows_with(&self, sql: &str, params: &[Datum]) -> Result<Vec<String>> {
        let mut txn = self.begin();
        let types: Vec<Type> = params.iter().map(Datum::natural_type).collect();
        let planned = self.plan(sql, &types)?;
        self.run(&planned, params, &mut txn)
    }

    pub(super) fn run(
        &self,
        planned: &Planned,
        params: &[Datum],
        txn: &mut Transaction,
    ) -> Result<Vec<String>> {
        let environment = FixedEnvironment::at(0);
        let context = Context::new(&environment);
        let mut ctx = ExecContext::new(txn, params, &context);
        let mut execution = planned.open();
        let mut out = Vec::new();
        while let Some(row) = execution.next(&mut ctx)? {
            if row.len() != planned.columns.len() {
                return Err(SqlError::new(
                    SqlState::INTERNAL_ERROR,
                    "a row of another width than the result's",
                ));
            }
            let cells: Vec<String> = row
                .iter()
                .zip(planned.columns.iter())
                .map(|(value, column)| match value {
                    Datum::Null => String::new(),
                    value => text::output(&context, value, column.ty.ty).expect("values of tests are short"),
                })
                .collect();
            out.push(cells.join("|"));
        }
        Ok(out)
    }

    /// The rows of a query, or its error as `SQLSTATE: message`.
    pub(super) fn rows(&self, sql: &str) -> Vec<String> {
        match self.rows_with(sql, &[]) {
            Ok(rows) => rows,
            Err(error) => vec![format!("{error:?}")],
        }
    }

    /// The names of a query's columns.
    pub(super) fn names(&self, sql: &str) -> Vec<String> {
        match self.plan(sql, &[]) {
            Ok(planned) => planned.columns.iter().map(|column| column.name.clone()).collect(),
            Err(error) => vec![format!("{error:?}")],
        }
    }

    pub(super) fn explain(&self, sql: &str) -> Vec<String> {
        match self.plan(sql, &[]) {
            Ok(planned) => planned.explain(&Measures::default()).lines(),
            Err(error) => vec![format!("{error:?}")],
        }
    }

    /// The target scan of an UPDATE or DELETE, with its scope.
    pub(super) fn targets(&self, sql: &str) -> Result<(Arc<TargetScan>, Scope<'static>)> {
        let environment = FixedEnvironment::at(0);
        let context = Context::new(&environment);
        let mut statements = gnomon_parser::parse(sql).expect("a statement");
        let Some(Statement::Delete(delete)) = statements.pop().map(|parsed| parsed.statement) else {
            panic!("only DELETE is understood here");
        };
        let mut binder = Binder::new(self, &context, &[]);
        let of = binder.change_target(&delete.table.name, None, Change::Delete)?;
        let lock = gnomon_engine::RowLock::Exclusive;
        let (scan, scope) = binder.targets(&of, &delete.using, delete.filter.as_ref(), lock)?;
        binder.parameters()?;
        Ok((Arc::new(scan), scope))
    }
}

/// The key bytes of a row in an index, without the row key that may follow.
pub(super) fn index_key(index: &Index, row: &[Datum]) -> Vec<u8> {
    let mut key = Vec::new();
    for (position, column) in index.columns.iter().enumerate() {
        keys::encode(&mut key, &row[*column], index.descending[position], index.nulls_first[position]);
    }
    key
}

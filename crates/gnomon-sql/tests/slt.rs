//! Runs the scripts in `tests/slt` over sessions of a database in memory.
//!
//! `connection NAME` in front of a record runs it in another session of the same database. NULL prints as `NULL`, an empty
//! text as `(empty)`. What follows a line `--data` in a statement is the data of its COPY FROM STDIN; COPY TO returns
//! its lines as rows of one column.

use std::fmt;

use gnomon::{Database, Options};
use gnomon_sql::{
    Notice, Result, SqlError,
    session::{CopySource, ResultColumn, Session, SessionOptions, Sink, SqlDatabase},
    types::{Context, Datum, Type, text},
};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

struct Connection(Session);

/// The error type of the runner must be an error of its own.
#[derive(Debug)]
struct Failure(SqlError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0.report();
        write!(f, "{}: {}", report.state.0, report.message)?;
        if let Some(detail) = &report.detail {
            write!(f, " DETAIL: {detail}")?;
        }
        if let Some(context) = &report.context {
            write!(f, " CONTEXT: {context}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Collects what a statement produces.
#[derive(Default)]
struct Collect {
    columns: Option<Vec<ResultColumn>>,
    rows: Vec<Vec<String>>,
    copied: Option<Vec<u8>>,
    data: Vec<u8>,
    affected: u64,
}

struct Data(Option<Vec<u8>>);

impl CopySource for Data {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.take())
    }
}

impl Sink for Collect {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns = Some(columns.to_vec());
        self.rows.clear();
        Ok(())
    }
    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        let columns = self.columns.as_deref().unwrap_or_default();
        assert_eq!(row.len(), columns.len(), "a row is as wide as its columns");
        let show = |(value, column): (&Datum, &ResultColumn)| match value {
            Datum::Null => "NULL".to_owned(),
            value => match text::output(context, value, column.ty.ty) {
                text if text.is_empty() => "(empty)".to_owned(),
                text => text,
            },
        };
        self.rows.push(row.iter().zip(columns).map(show).collect());
        Ok(())
    }
    fn complete(&mut self, tag: &str) -> Result<()> {
        self.affected = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        Ok(())
    }
    fn empty(&mut self) -> Result<()> {
        Ok(())
    }
    fn notice(&mut self, _: Notice) -> Result<()> {
        Ok(())
    }
    fn parameter_status(&mut self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        self.copied = Some(Vec::new());
        Ok(())
    }
    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.copied.get_or_insert_default().extend_from_slice(data);
        Ok(())
    }
    fn copy_done(&mut self) -> Result<()> {
        Ok(())
    }
    fn copy_in(&mut self, _: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        Ok(Box::new(Data(Some(std::mem::take(&mut self.data)))))
    }
}

impl DB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut sink = Collect::default();
        let sql = match sql.split_once("\n--data\n") {
            Some((sql, data)) => {
                sink.data = format!("{data}\n").into_bytes();
                sql
            }
            None => sql,
        };
        self.0.execute(sql, &mut sink).map_err(Failure)?;
        if let Some(copied) = sink.copied {
            let rows = String::from_utf8_lossy(&copied).lines().map(|line| vec![line.to_owned()]).collect();
            return Ok(DBOutput::Rows { types: vec![DefaultColumnType::Text], rows });
        }
        Ok(match sink.columns {
            None => DBOutput::StatementComplete(sink.affected),
            Some(columns) => {
                let types = columns.iter().map(|column| kind(column.ty.ty)).collect();
                DBOutput::Rows { types, rows: sink.rows }
            }
        })
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        Some(error.0.state().0.to_owned())
    }
}

fn kind(ty: Type) -> DefaultColumnType {
    match ty {
        Type::Int2 | Type::Int4 | Type::Int8 => DefaultColumnType::Integer,
        Type::Float4 | Type::Float8 | Type::Numeric => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

fn run(script: &str) {
    let engine = Database::in_memory(Options::default()).expect("a database in memory");
    let db = SqlDatabase::open(engine).expect("an empty catalog");
    let mut runner = Runner::new(|| {
        let session = db.session(SessionOptions::default()).expect("a session");
        async move { Ok(Connection(session)) }
    });
    let path = format!("{}/tests/slt/{script}.slt", env!("CARGO_MANIFEST_DIR"));
    if let Err(error) = runner.run_file(&path) {
        panic!("{}", error.display(false));
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { run(stringify!($name)); })*
        /// Every script in the folder is run.
        #[test]
        fn all_scripts_are_listed() {
            let listed = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt")).expect("the folder") {
                let name = entry.expect("an entry").file_name().into_string().expect("a name");
                let name = name.strip_suffix(".slt").expect("a script");
                assert!(listed.contains(&name), "{name} is not listed");
            }
        }
    };
}

scripts! {
    alter, basics, constraints, copy, dml, errors, prepared, sequences, settings, transactions, views
}

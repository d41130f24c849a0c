//! What tests of sessions share.

use gnomon_engine::{Database, Options, Recovery};
use gnomon_sql::{
    Notice, Result, SqlState,
    session::{CopySource, ResultColumn, Session, Sink, SqlDatabase},
    types::{Context, Datum, text},
};

/// Collects what a statement produces.
#[derive(Default)]
pub struct Collect {
    /// The columns, if it returned rows or was told them before.
    pub columns: Option<Vec<ResultColumn>>,
    /// The rows as text: NULL as `NULL`, an empty text as `(empty)`.
    pub rows: Vec<Vec<String>>,
    /// The output of COPY TO.
    pub copied: Option<Vec<u8>>,
    /// The input of COPY FROM, in pieces.
    pub data: Vec<u8>,
    /// The number at the end of the command tag.
    pub affected: u64,
    /// The command tags.
    pub tags: Vec<String>,
    /// Notices and warnings.
    pub notices: Vec<String>,
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
        if let Some(columns) = &self.columns {
            assert_eq!(row.len(), columns.len(), "a row is as wide as its columns");
        }
        let show = |(i, value): (usize, &Datum)| match value {
            Datum::Null => Ok("NULL".to_owned()),
            value => {
                let column = self.columns.as_ref().map(|columns| columns[i].ty.ty);
                let text = text::output(context, value, column.unwrap_or_else(|| value.natural_type()))?;
                Ok(if text.is_empty() { "(empty)".to_owned() } else { text })
            }
        };
        self.rows.push(row.iter().enumerate().map(show).collect::<Result<_>>()?);
        Ok(())
    }
    fn complete(&mut self, tag: &str) -> Result<()> {
        self.affected = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        self.tags.push(tag.to_owned());
        Ok(())
    }
    fn empty(&mut self) -> Result<()> {
        Ok(())
    }
    fn notice(&mut self, notice: Notice) -> Result<()> {
        self.notices.push(notice.report().message.clone());
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

/// The recovery method that the environment variable `GNOMON_RECOVERY` names, for databases of tests that choose none.
pub fn recovery() -> Option<Recovery> {
    let name = std::env::var("GNOMON_RECOVERY").ok()?;
    Some(Recovery::from_name(&name).expect("the variable names a method"))
}

/// Options of a database with that method.
pub fn options() -> Options {
    Options { recovery: recovery(), ..Options::default() }
}

/// A database in memory.
pub fn database() -> SqlDatabase {
    SqlDatabase::open(Database::in_memory(options()).unwrap()).unwrap()
}

/// Runs a statement.
pub fn run(session: &mut Session, sql: &str) -> Result<Collect> {
    let mut sink = Collect::default();
    session.execute(sql, &mut sink).map(|()| sink)
}

/// Runs a statement that gives no error.
pub fn ok(session: &mut Session, sql: &str) -> Collect {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error:?} {:?}", error.report().detail))
}

/// The first value that a query gives.
pub fn value(session: &mut Session, sql: &str) -> String {
    ok(session, sql).rows[0][0].clone()
}

/// The SQLSTATE of a statement that gives an error.
pub fn state(session: &mut Session, sql: &str) -> SqlState {
    match run(session, sql) {
        Ok(_) => panic!("{sql}: no error"),
        Err(error) => error.state(),
    }
}

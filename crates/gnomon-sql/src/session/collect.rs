//! A sink for embedders: the rows of a result as values.

use super::{CopySource, ResultColumn, Sink};
use crate::{
    Notice, Result, SqlError,
    types::{Context, Datum},
};

/// Collects what a statement produces; of several statements, the rows of the last one that returns any.
///
/// ```
/// use gnomon_sql::{session::{Rows, SessionOptions, SqlDatabase}, types::Datum};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = SqlDatabase::open(gnomon::Database::in_memory(gnomon::Options::default())?)?;
/// let mut session = database.session(SessionOptions::default())?;
/// let mut rows = Rows::default();
/// session.execute("SELECT 6 * 7 AS answer", &mut rows)?;
/// assert_eq!(rows.columns[0].name, "answer");
/// assert!(matches!(rows.rows[0][0], Datum::Int4(42)));
/// assert_eq!(rows.tag, "SELECT 1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Rows {
    /// The columns of the rows.
    pub columns: Vec<ResultColumn>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<Datum>>,
    /// The command tag of the last statement, such as `INSERT 0 3`.
    pub tag: String,
    /// Notices and warnings, in the order in which they came.
    pub notices: Vec<Notice>,
}

impl Sink for Rows {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns = columns.to_vec();
        self.rows.clear();
        Ok(())
    }

    fn row(&mut self, _: &Context<'_>, row: &[Datum]) -> Result<()> {
        self.rows.push(row.to_vec());
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        tag.clone_into(&mut self.tag);
        Ok(())
    }

    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        self.notices.push(notice);
        Ok(())
    }

    fn parameter_status(&mut self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        Err(SqlError::unsupported("COPY TO STDOUT into rows"))
    }

    fn copy_data(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn copy_done(&mut self) -> Result<()> {
        Ok(())
    }

    fn copy_in(&mut self, _: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        Err(SqlError::unsupported("COPY FROM STDIN without data"))
    }
}

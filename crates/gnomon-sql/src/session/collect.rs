//! A sink for embedders: the rows of a result as values.

use crate::{
    Notice, Result, SqlError,
    query::ResultColumn,
    sink::{CopySource, Mark, Sink},
    types::{Context, Datum, text},
};

/// Collects what a statement produces: its rows as values and as texts. Given to several statements, or to a text of
/// several, it holds what the last one of them produced.
///
/// ```
/// use gnomon_sql::{session::{Rows, SessionOptions, SqlDatabase}, types::Datum};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = SqlDatabase::open(gnomon_engine::Database::in_memory(gnomon_engine::Options::default())?)?;
/// let mut session = database.session(SessionOptions::default())?;
/// let mut result = Rows::default();
/// session.execute("SELECT 6 * 7 AS answer, 1.50 AS price, NULL", &mut result)?;
/// assert_eq!(result.columns[0].name, "answer");
/// assert_eq!(result.rows[0][0].as_i64(), Some(42));
/// assert!(matches!(result.rows[0][0], Datum::Int4(42)));
/// assert_eq!(result.texts[0], [Some("42".to_owned()), Some("1.50".to_owned()), None]);
/// assert_eq!(result.tag, "SELECT 1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The columns of the rows.
    pub columns: Vec<ResultColumn>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<Datum>>,
    /// The same rows as texts, as PostgreSQL prints them; none is NULL.
    pub texts: Vec<Vec<Option<String>>>,
    /// The command tag, such as `INSERT 0 3`.
    pub tag: String,
    /// Notices and warnings, in the order in which they came.
    pub notices: Vec<Notice>,
    /// True if all of this is of a statement that is done: the next one's takes its place.
    done: bool,
}

impl Rows {
    /// Makes place for what another statement produces, if the last one is done.
    fn begin(&mut self) {
        if self.done {
            *self = Rows::default();
        }
    }
}

impl Sink for Rows {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.begin();
        self.columns = columns.to_vec();
        self.rows.clear();
        self.texts.clear();
        Ok(())
    }

    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        self.begin();
        let text = |(at, value): (usize, &Datum)| {
            let ty = self.columns.get(at).map_or_else(|| value.natural_type(), |column| column.ty.ty);
            (!value.is_null()).then(|| text::output(context, value, ty)).transpose()
        };
        let texts = row.iter().enumerate().map(text).collect::<Result<_>>()?;
        self.texts.push(texts);
        self.rows.push(row.to_vec());
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.begin();
        tag.clone_into(&mut self.tag);
        self.done = true;
        Ok(())
    }

    fn empty(&mut self) -> Result<()> {
        *self = Rows { done: true, ..Rows::default() };
        Ok(())
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        self.begin();
        self.notices.push(notice);
        Ok(())
    }

    fn mark(&mut self) -> Option<Mark> {
        Some(Mark::default())
    }

    /// Forgets everything.
    fn take_back(&mut self, _: Mark) -> bool {
        *self = Rows::default();
        true
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

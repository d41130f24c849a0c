//! Where the results of statements go.

use crate::{
    Notice, Result,
    query::ResultColumn,
    types::{Context, Datum, encoding::Encoding},
};

/// The command tag that a statement reports when it is done.
pub(crate) type Tag = String;

/// The result of a statement that is done.
pub(crate) fn tag(tag: impl Into<Tag>) -> Result<Tag> {
    Ok(tag.into())
}

/// Receives what a statement produces. An error from a sink (the client is gone) ends the statement.
pub trait Sink {
    /// The rows that follow have these columns. Not called for statements that return no rows.
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()>;
    /// The same for rows of a BINARY cursor, which a simple query gets in binary form.
    fn binary_columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns(columns)
    }
    /// One row. Its values' text depends on the context: the time zone, the names of catalog objects.
    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()>;
    /// The statement is done: its command tag, such as `INSERT 0 3`.
    fn complete(&mut self, tag: &str) -> Result<()>;
    /// A portal has returned as many rows as it was asked for, and may have more: instead of [`Sink::complete`].
    fn suspended(&mut self) -> Result<()> {
        Ok(())
    }
    /// An empty statement.
    fn empty(&mut self) -> Result<()>;
    /// A notice or warning.
    fn notice(&mut self, notice: Notice) -> Result<()>;
    /// The client has another encoding from here on.
    fn encoding(&mut self, _: Encoding) {}
    /// COPY TO STDOUT begins: whether binary, and how many columns; its data follow by [`Sink::copy_data`].
    fn copy_out(&mut self, binary: bool, columns: usize) -> Result<()>;
    /// A piece of COPY TO output: a row, or what comes before the first or after the last one.
    fn copy_data(&mut self, data: &[u8]) -> Result<()>;
    /// COPY TO output is complete ([`Sink::complete`] follows).
    fn copy_done(&mut self) -> Result<()>;
    /// COPY FROM STDIN begins. Returns the source of the data, read until it ends; an error from it (CopyFail)
    /// fails the statement. Called at most once a statement.
    fn copy_in(&mut self, binary: bool, columns: usize) -> Result<Box<dyn CopySource + '_>>;
    /// The place up to which all has come, to go back to; none if nothing can be taken back.
    fn mark(&mut self) -> Option<Mark> {
        None
    }
    /// Forgets all that has come since a mark. False if some of it is with the client.
    fn take_back(&mut self, _: Mark) -> bool {
        false
    }
}

/// A place in what a [`Sink`] has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How often something has left for the client.
    pub sent: u64,
    /// How much has come since, in the sink's own measure.
    pub length: usize,
}

/// The data of a COPY FROM STDIN.
pub trait CopySource {
    /// The next piece (of any length, cut anywhere), or none at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>>;
}

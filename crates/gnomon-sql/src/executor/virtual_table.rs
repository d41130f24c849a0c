//! Tables whose rows are computed when they are scanned.

use super::ExecContext;
use crate::{
    Result, SqlError,
    catalog::model::Oid,
    types::{ColumnType, Row},
};

/// A table whose rows are computed when it is scanned.
pub trait VirtualTable: Send + Sync {
    /// Its identifier (`pg_class.oid`).
    fn oid(&self) -> Oid;
    /// Its schema.
    fn schema(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// `table`, `view` or `sequence`.
    fn kind(&self) -> &'static str;
    /// Its columns.
    fn columns(&self) -> &[VirtualColumn];
    /// Its rows, each as wide as [`VirtualTable::columns`].
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>>;
}

impl dyn VirtualTable {
    /// Returns the error for a change of its rows.
    pub(crate) fn not_changed(&self) -> SqlError {
        SqlError::unsupported(format!("changing the rows of the system {} \"{}\"", self.kind(), self.name()))
    }
}

/// A column of a virtual table.
#[derive(Clone, Debug)]
pub struct VirtualColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: ColumnType,
}

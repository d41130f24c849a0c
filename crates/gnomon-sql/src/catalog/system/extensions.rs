//! The extensions of PostgreSQL's that are always there.

use crate::catalog::model::Oid;

/// An extension of PostgreSQL's whose objects are always there.
pub struct Extension {
    pub(super) oid: Oid,
    /// Its name.
    pub name: &'static str,
    /// The version whose form its objects have.
    pub version: &'static str,
    pub(super) comment: &'static str,
}

/// The extensions that there are.
pub const EXTENSIONS: [Extension; 1] = [Extension {
    oid: 9910,
    name: "pg_stat_statements",
    version: "1.10",
    comment: "track planning and execution statistics of all SQL statements executed",
}];

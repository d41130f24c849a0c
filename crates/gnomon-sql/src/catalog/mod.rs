//! The catalog: what tables, indexes and sequences there are.
//!
//! [`model`] describes the objects, [`statistics`] the rows of tables, [`Catalog`] holds all of them at one moment;
//! `store` keeps them in the engine's trees, each in the form that `encode` lays out. [`partition`] says where the rows of a table in partitions are.

mod encode;
pub mod model;
mod names;
pub mod partition;
pub mod row_address;
mod snapshot;
pub mod statistics;
pub(crate) mod store;
pub mod system;

pub use names::{choose_index_name, choose_name};
pub use snapshot::{
    BUILT_IN_COMMENT, CONSTRAINT_COMMENT, Catalog, CommentKey, FIRST_USER_OID, PUBLIC_SCHEMA,
    PUBLIC_SCHEMA_OID, Relation, SettingKey,
};
pub use store::{CATALOG_TREE, SEQUENCE_TREE};

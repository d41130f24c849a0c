//! The catalog: what tables, indexes and sequences there are.
//!
//! [`model`] describes the objects, [`Catalog`] holds all of them at one moment.

pub mod model;
mod snapshot;

pub use snapshot::{Catalog, CommentKey, FIRST_USER_OID, PUBLIC_SCHEMA, PUBLIC_SCHEMA_OID, Relation};

//! The catalog: what tables, indexes and sequences there are.

pub mod model;

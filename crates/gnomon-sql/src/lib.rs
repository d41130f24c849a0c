//! SQL as PostgreSQL speaks it, over the Gnomon engine.
//!
//! A statement passes through the folders from the bottom of this list to its top:
//!
//! - [`types`]: the values, their text and binary forms, comparison, arithmetic, casts, keys and rows as bytes;
//! - [`functions`]: functions, operators and aggregates by name and argument types;
//! - [`catalog`]: tables, indexes and sequences as stored in the engine; `pg_catalog` as virtual tables;
//! - `executor`: plans and their expressions, rows pulled through them;
//! - `planner`: plans of bound queries: access paths, order of joins;
//! - `binder`: syntax trees to typed expressions and bound queries, by PostgreSQL's rules;
//! - [`query`]: the three behind one door: a query from its syntax tree to its rows;
//! - [`session`]: statements, transactions, prepared statements, portals, COPY: what a connection talks to.
//!
//! Imports run downward: session, query, binder, planner, executor, catalog, functions, types. Beside them, [`memory`]
//! counts what sessions take, and [`split`] cuts scripts into statements.

mod binder;
pub mod catalog;
mod error;
mod executor;
pub mod functions;
pub mod memory;
mod planner;
pub mod query;
pub mod session;
pub mod split;
pub mod types;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The examples of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod project_readme {}

/// The examples of the document on embedding.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod embedding {}

pub use error::{Notice, Result, Severity, SqlError, SqlState};

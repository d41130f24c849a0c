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
//! - `database`: what the sessions of a database share; `settings`: the settings of a session;
//! - `context`: what the statements of a session work with: its transaction, catalog, settings and memory;
//! - `dml`, `procedure`, `copy`, `ddl`: INSERT, UPDATE and DELETE; CALL; COPY; changes of the catalog;
//! - `statement`: queries, DML and CALL, planned and run;
//! - [`session`]: the protocol's side: texts, prepared statements, portals, transactions: what a connection talks to.
//!
//! Imports run downward, from session to types. Beside them, `syntax` makes trees of texts, `sink` takes the results
//! of statements, [`memory`] counts what sessions take, and [`split`] cuts scripts into statements.

mod binder;
pub mod catalog;
mod context;
mod copy;
mod database;
mod ddl;
mod deparse;
mod dml;
mod error;
mod executor;
pub mod functions;
pub mod memory;
mod planner;
mod procedure;
pub mod query;
pub mod session;
mod settings;
mod sink;
pub mod split;
mod statement;
mod syntax;
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
pub use settings::bool_word;

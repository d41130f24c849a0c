//! Advice on what to do instead of statements that are not carried out.

use gnomon_parser::ast::Unsupported;

use crate::SqlError;

/// Advice by the statement's name.
const HINTS: [(&str, &str); 11] = [
    ("REINDEX", "An index is never in need of it; DROP INDEX and CREATE INDEX make one anew."),
    ("CLUSTER", "Rows stand in the order of the primary key."),
    ("LISTEN", "Ask a table for what is new."),
    ("NOTIFY", "Write what is new into a table."),
    ("GRANT", "Who is let in is decided when the server starts, see gnomon serve --help."),
    ("REVOKE", "Who is let in is decided when the server starts, see gnomon serve --help."),
    ("CREATE ROLE", "Who is let in is decided when the server starts, see gnomon serve --help."),
    ("CREATE USER", "Who is let in is decided when the server starts, see gnomon serve --help."),
    ("CREATE DATABASE", "A server has one database; start another server on another directory."),
    ("CREATE MATERIALIZED VIEW", "Use CREATE VIEW, or CREATE TABLE AS."),
    ("MERGE", "Use INSERT ... ON CONFLICT."),
];

/// Returns the error of a statement that is not carried out, with advice.
pub(super) fn unsupported(statement: &Unsupported) -> SqlError {
    let error = SqlError::unsupported(&statement.feature).at(statement.position);
    match HINTS.iter().find(|(name, _)| *name == statement.feature) {
        Some((_, hint)) => error.hint(*hint),
        None => error,
    }
}

//! Advice on what to do instead of statements that are not carried out.

use gnomon_parser::ast::Unsupported;

use crate::SqlError;

/// Advice by the statement's name.
const HINTS: [(&str, &str); 9] = [
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

#[cfg(test)]
mod tests {
    use gnomon_parser::{ast::Statement, parse};

    use super::*;

    #[test]
    fn the_names_of_statements_are_the_parsers() {
        let statements = [
            "LISTEN c",
            "NOTIFY c",
            "GRANT SELECT ON t TO u",
            "REVOKE SELECT ON t FROM u",
            "CREATE ROLE r",
            "CREATE USER u",
            "CREATE DATABASE d",
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DO NOTHING",
        ];
        assert_eq!(statements.len(), HINTS.len());
        for (sql, (_, hint)) in statements.iter().zip(HINTS) {
            let Statement::Unsupported(statement) = &parse(sql).expect(sql)[0].statement else {
                panic!("{sql}")
            };
            assert_eq!(unsupported(statement).report().hint.as_deref(), Some(hint), "{}", statement.feature);
        }
        let other = &parse("CREATE USER MAPPING FOR u SERVER s").expect("a statement")[0].statement;
        assert!(matches!(other, Statement::Unsupported(other) if unsupported(other).report().hint.is_none()));
    }
}

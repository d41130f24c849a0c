//! Statements that PostgreSQL has and this does not: they are told from what is no SQL at all.

/// Number of words of a statement that are looked at.
pub(super) const WORDS_MAX: usize = 64;

/// Statements by their first word.
const VERBS: [&str; 15] = [
    "cluster", "do", "grant", "import", "listen", "load", "merge", "notify", "reassign", "refresh",
    "reindex", "revoke", "security", "unlisten", "release",
];

/// Kinds of objects that CREATE, ALTER and DROP do not know. Some have two words.
const KINDS: [&str; 36] = [
    "access method",
    "aggregate",
    "cast",
    "collation",
    "constraint trigger",
    "conversion",
    "database",
    "default privileges",
    "domain",
    "event trigger",
    "extension",
    "foreign data",
    "foreign table",
    "function",
    "group",
    "language",
    "large object",
    "materialized view",
    "operator",
    "owned",
    "policy",
    "procedure",
    "publication",
    "recursive view",
    "role",
    "routine",
    "rule",
    "server",
    "statistics",
    "subscription",
    "system",
    "tablespace",
    "text search",
    "transform",
    "trigger",
    "type",
];

/// Actions of ALTER TABLE that the parser crate does not know either.
const TABLE_ACTIONS: [&str; 9] = [
    "set schema",
    "cluster on",
    "set without",
    "set statistics",
    "set storage",
    "set compression",
    "set tablespace",
    "set logged",
    "set unlogged",
];

/// Advice on what to do instead, by the beginning of the statement's name.
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

/// The name of the statement that begins with `verb`, if it is one that is not carried out. `words` are its words as
/// far as they are looked at.
pub(super) fn statement(verb: &str, words: impl FnOnce() -> Vec<String>) -> Option<String> {
    if VERBS.contains(&verb) {
        return Some(verb.to_uppercase());
    }
    if !["create", "alter", "drop"].contains(&verb) {
        return None;
    }
    let words = words();
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let rest = match &words[..] {
        ["or", "replace", rest @ ..] => rest,
        rest => rest,
    };
    if let ("alter", ["table", action @ ..]) = (verb, rest) {
        let has = |known: &&str| action.windows(2).any(|two| two.join(" ") == **known);
        return TABLE_ACTIONS
            .iter()
            .find(|known| has(known))
            .map(|known| format!("ALTER TABLE ... {}", known.to_uppercase()));
    }
    if rest.first() == Some(&"user") {
        return Some(format!("{verb} user").to_uppercase());
    }
    let begins = |kind: &&&str| kind.split(' ').zip(rest).all(|(a, b)| a == *b) && !rest.is_empty();
    KINDS.iter().find(begins).map(|kind| format!("{verb} {kind}").to_uppercase())
}

/// Returns advice on what to do instead of a statement that is not carried out.
pub(crate) fn hint(what: &str) -> Option<&'static str> {
    HINTS.iter().find(|(beginning, _)| what.starts_with(beginning)).map(|(_, hint)| *hint)
}

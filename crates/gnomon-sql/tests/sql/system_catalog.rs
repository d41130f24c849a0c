//! The queries that ordinary clients send to the system catalog, with the answers.
//!
//! Each file in `tests/fixtures` holds queries as a client sends them, each ended by `;` and followed by `----` and the
//! rows of its result, fields separated by `|`, NULL as `\N`. `<items>` stands for the identifier of the relation
//! `items`. The rows are those that PostgreSQL 15 returns for the same schema (`schema.sql`); where Gnomon's answer is
//! meant to differ, a comment before the query says why. `GNOMON_BLESS=1` writes what came out.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use gnomon_engine::Database;
use gnomon_sql::{
    Notice, Result,
    session::{CopySource, ResultColumn, Session, SessionOptions, Sink, SqlDatabase},
    types::{Context, Datum, text},
};

/// Collects rows as `psql -A -t` prints them.
#[derive(Default)]
struct Lines {
    columns: Vec<ResultColumn>,
    text: String,
}

impl Sink for Lines {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns = columns.to_vec();
        Ok(())
    }
    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        assert_eq!(row.len(), self.columns.len(), "a row is as wide as its columns");
        for (i, (value, column)) in row.iter().zip(&self.columns).enumerate() {
            if i > 0 {
                self.text.push('|');
            }
            match value {
                Datum::Null => self.text.push_str("\\N"),
                value => text::write(context, value, column.ty.ty, &mut self.text)?,
            }
        }
        self.text.push('\n');
        Ok(())
    }
    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
    fn empty(&mut self) -> Result<()> {
        Ok(())
    }
    fn notice(&mut self, _: Notice) -> Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        unreachable!("no fixture copies")
    }
    fn copy_data(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("no fixture copies")
    }
    fn copy_done(&mut self) -> Result<()> {
        unreachable!("no fixture copies")
    }
    fn copy_in(&mut self, _: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        unreachable!("no fixture copies")
    }
}

/// The rows of a query, or its error.
fn answer(session: &mut Session, sql: &str) -> String {
    let mut lines = Lines::default();
    match session.execute(sql, &mut lines) {
        Ok(()) => lines.text,
        Err(error) => format!("ERROR {}\n", error.report().message),
    }
}

fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))
}

/// A session of a database with the schema of the fixtures, and the identifiers of its relations by name.
fn session() -> (Session, BTreeMap<String, String>) {
    let engine = Database::in_memory(crate::support::options()).expect("a database in memory");
    let db = SqlDatabase::open(engine).expect("an empty catalog");
    let mut session =
        db.session(SessionOptions { process_id: 1, ..SessionOptions::default() }).expect("a session");
    let schema = fs::read_to_string(fixtures().join("schema.sql")).expect("the schema");
    let mut lines = Lines::default();
    session.execute(&schema, &mut lines).expect("the schema is made");
    let known =
        answer(&mut session, "select relname, oid from pg_class where oid >= 16384 and oid < 2147483648");
    let names = known.lines().filter_map(|line| line.split_once('|'));
    let names: BTreeMap<String, String> =
        names.map(|(name, oid)| (name.to_owned(), oid.to_owned())).collect();
    assert!(names.len() > 5, "{known}");
    (session, names)
}

/// Puts names for identifiers: a number is one if nothing that could belong to it stands beside it.
fn mask(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        out.push_str(before);
        match names.iter().find(|(_, oid)| *oid == number) {
            Some((name, _)) => write!(out, "<{name}>").expect("a string takes all"),
            None => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

fn unmask(text: &str, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (name, oid)| text.replace(&format!("<{name}>"), oid))
}

#[expect(clippy::disallowed_methods, reason = "a fixture is not a database's file")]
fn bless(path: &Path, text: &str) {
    fs::write(path, text).expect("the fixture is written");
}

/// Runs a file; what it differs in is shown as the file would have it.
fn run(file: &str) {
    let (mut session, names) = session();
    let path = fixtures().join(file);
    let fixture = fs::read_to_string(&path).expect("the fixture");
    let (mut written, mut failures, mut count) = (String::new(), String::new(), 0);
    for case in fixture.split("\n\n\n").map(|case| case.trim_matches('\n')).filter(|case| !case.is_empty()) {
        let (query, expected) = case.split_once("\n----").expect("a query has an answer");
        let found = answer(&mut session, &unmask(query, &names));
        let found = mask(found.trim_end_matches('\n'), &names);
        let expected = expected.trim_matches('\n');
        count += 1;
        if found != expected {
            write!(failures, "{query}\n---- expected\n{expected}\n---- found\n{found}\n\n")
                .expect("a string takes all");
        }
        let gap = if found.is_empty() { "" } else { "\n" };
        write!(written, "{query}\n----{gap}{found}\n\n\n").expect("a string takes all");
    }
    assert!(count > 0, "{file} is empty");
    if std::env::var_os("GNOMON_BLESS").is_some() {
        bless(&path, &written);
    } else {
        assert!(failures.is_empty(), "{file}:\n{failures}");
    }
}

#[test]
fn psql() {
    run("psql.txt");
}

#[test]
fn drivers() {
    run("drivers.txt");
}

#[test]
fn psql_completion() {
    run("psql_completion.txt");
}

/// A column of a system table: its relation, its name, its type and whether it is NOT NULL.
type ColumnLine<'t> = (&'t str, &'t str, &'t str, &'t str);

fn column_lines(text: &str) -> Vec<ColumnLine<'_>> {
    let line = |line| -> Option<ColumnLine<'_>> {
        let mut fields = str::split(line, '\t');
        let (relation, _kind) = (fields.next()?, fields.next()?);
        Some((relation, fields.next()?, fields.next()?, fields.next().unwrap_or_default()))
    };
    text.lines().filter_map(line).collect()
}

/// The columns of all system tables and their types, against those of PostgreSQL 15, which `postgres_columns.tsv` has
/// from there (domains by their types). The differences stand in `column_differences.txt`.
#[test]
fn columns_differ_from_those_of_postgresql_as_listed() {
    let (mut session, _) = session();
    let columns = "select n.nspname || '.' || c.relname || E'\\t' || c.relkind::text || E'\\t' || a.attname || E'\\t' || \
         format_type(a.atttypid, -1) || E'\\t' || case when a.attnotnull then 'not null' else '' end \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid \
         where n.nspname in ('pg_catalog', 'information_schema') and c.relkind in ('r', 'v') and a.attnum > 0 \
         order by n.nspname, c.relname, a.attnum";
    let found = answer(&mut session, columns);
    let ours = column_lines(&found);
    let theirs_text = fs::read_to_string(fixtures().join("postgres_columns.tsv")).expect("the columns");
    let theirs = column_lines(&theirs_text);
    assert!(ours.len() > 1500 && theirs.len() > 1500, "{} {}", ours.len(), theirs.len());
    let mut differences = String::new();
    let has = |all: &[ColumnLine<'_>], relation: &str| all.iter().any(|(known, ..)| *known == relation);
    let mut missing = "";
    for (relation, column, ty, not_null) in &theirs {
        let same = ours.iter().find(|(known, name, ..)| known == relation && name == column);
        let difference = match same {
            _ if !has(&ours, relation) && missing == *relation => continue,
            _ if !has(&ours, relation) => {
                missing = relation;
                format!("{relation} is missing")
            }
            None => format!("{relation}.{column} is missing"),
            Some((.., our, _)) if our != ty => format!("{relation}.{column} is {our} in place of {ty}"),
            Some((.., our)) if our != not_null => format!("{relation}.{column} differs in NOT NULL"),
            Some(_) => continue,
        };
        writeln!(differences, "{difference}").expect("a string takes all");
    }
    for (relation, column, ..) in &ours {
        let is_own = !theirs.iter().any(|(known, name, ..)| known == relation && name == column);
        if is_own && has(&theirs, relation) {
            writeln!(differences, "{relation}.{column} is of Gnomon alone").expect("a string takes all");
        }
    }
    let path = fixtures().join("column_differences.txt");
    if std::env::var_os("GNOMON_BLESS").is_some() {
        bless(&path, &differences);
    }
    assert_eq!(fs::read_to_string(&path).expect("the differences"), differences);
}

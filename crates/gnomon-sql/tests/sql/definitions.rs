//! The texts of views, checks, defaults and indexes, as `fixtures/definitions.txt` has them from PostgreSQL.
//!
//! A block of the file is a statement and, behind `----`, the texts of the object that it makes. With
//! `GNOMON_DEFINITIONS_RECORD=URL` the texts are recorded anew from that PostgreSQL server, by psql, in a database of
//! their own.

use std::{fmt::Write, process::Command};

use gnomon_sql::session::SessionOptions;

use super::support::{database, ok, run};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/definitions.txt");
const SEPARATOR: &str = "\n----\n";

/// The queries for the texts of the object that a statement makes; none if they are not asked for.
fn questions(statement: &str) -> Vec<String> {
    let statement = statement.replace("RECURSIVE ", "").replace("UNIQUE ", "");
    let words: Vec<&str> = statement.split_whitespace().collect();
    let [_, kind, name, ..] = words[..] else { return Vec::new() };
    let styles = |before: &str, styles: &[&str], after: &str| {
        styles.iter().map(|style| format!("SELECT {before}{style}){after}")).collect::<Vec<String>>()
    };
    match kind {
        "VIEW" => {
            let mut all = styles(&format!("pg_get_viewdef('{name}'::regclass"), &["", ", true", ", 60"], "");
            all.push(format!(
                "SELECT pg_get_ruledef(oid, true) FROM pg_rewrite WHERE ev_class = '{name}'::regclass"
            ));
            all
        }
        "TABLE" => {
            let of = |table: &str, column: &str, order: &str| {
                format!(" FROM {table} WHERE {column} = '{name}'::regclass ORDER BY {order}")
            };
            let checks = of("pg_constraint", "conrelid", "conname");
            let defaults = of("pg_attrdef", "adrelid", "adnum");
            let mut all = styles("conname || ' ' || pg_get_constraintdef(oid", &["", ", true"], &checks);
            all.extend(styles("pg_get_expr(adbin, adrelid", &["", ", true"], &defaults));
            all
        }
        "INDEX" => styles(&format!("pg_get_indexdef('{name}'::regclass"), &["", ", 0, true"], ""),
        _ => Vec::new(),
    }
}

fn blocks(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.split("\n====\n").map(|block| block.split_once(SEPARATOR).unwrap_or((block.trim_end(), "")))
}

/// The texts that psql gets from a server.
fn recorded(url: &str, statement: &str) -> String {
    let mut script = format!("\\c gnomon_definitions\nSET client_min_messages = error;\n{statement};\n");
    for question in questions(statement) {
        writeln!(script, "{question};").expect("a string takes all");
    }
    psql(url, &script)
}

fn psql(url: &str, script: &str) -> String {
    use std::{io::Write, process::Stdio};
    let mut command = Command::new("psql");
    command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("psql is installed");
    child.stdin.take().expect("it is piped").write_all(script.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql ends");
    assert!(output.status.success(), "{script}");
    String::from_utf8(output.stdout).expect("psql writes UTF-8")
}

#[test]
fn definitions_are_postgresqls() {
    let file = std::fs::read_to_string(FILE).expect(FILE);
    if let Ok(url) = std::env::var("GNOMON_DEFINITIONS_RECORD") {
        psql(&url, "DROP DATABASE IF EXISTS gnomon_definitions;\nCREATE DATABASE gnomon_definitions;\n");
        let new: Vec<String> = blocks(&file)
            .map(|(statement, _)| format!("{statement}{SEPARATOR}{}", recorded(&url, statement).trim_end()))
            .collect();
        #[expect(clippy::disallowed_methods, reason = "a fixture is not a database's file")]
        std::fs::write(FILE, new.join("\n====\n") + "\n").expect(FILE);
        return;
    }
    let database = database();
    let mut session = database.session(SessionOptions::default()).unwrap();
    let mut wrong = String::new();
    for (statement, expected) in blocks(&file) {
        ok(&mut session, statement);
        let mut texts = String::new();
        for question in questions(statement) {
            for row in
                run(&mut session, &question).unwrap_or_else(|error| panic!("{question}: {error:?}")).rows
            {
                texts += row[0].as_str();
                texts += "\n";
            }
        }
        if texts.trim_end() != expected.trim_end() {
            writeln!(wrong, "{statement}\nPostgreSQL:\n{expected}\nhere:\n{texts}")
                .expect("a string takes all");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Each shown text makes a view again. Its text may be another one: `ARRAY[...]::text[]` casts elements.
#[test]
fn definitions_make_views() {
    let file = std::fs::read_to_string(FILE).expect(FILE);
    let database = database();
    let mut session = database.session(SessionOptions::default()).unwrap();
    for (statement, _) in blocks(&file) {
        ok(&mut session, statement);
        for question in questions(statement).into_iter().filter(|question| question.contains("viewdef")) {
            let shown = ok(&mut session, &question).rows[0][0].clone();
            ok(&mut session, &format!("CREATE VIEW again AS {shown}"));
            ok(&mut session, "DROP VIEW again");
        }
    }
}

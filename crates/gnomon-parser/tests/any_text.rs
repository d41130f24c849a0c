//! Any text is parsed or refused, and errors are inside of it.

use std::{fs, path::Path};

use gnomon_parser::{Statement, parse, parse_expression, parse_query, parse_type};
use proptest::prelude::*;

/// Parses a text in every way; errors must point into it.
fn check(text: &str) {
    let errors =
        [parse(text).err(), parse_expression(text).err(), parse_query(text).err(), parse_type(text).err()];
    for error in errors.into_iter().flatten() {
        if let Some(byte) = error.position.byte() {
            assert!(byte <= text.len(), "{error} at {byte} of {text:?}");
            assert!(text.is_char_boundary(byte), "{error} at {byte} of {text:?}");
        }
    }
}

/// The statements of the scripts.
fn statements() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut statements = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for block in text.split("\n\n") {
            let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("> ")).collect();
            if !lines.is_empty() {
                statements.push(lines.join("\n"));
            }
        }
    }
    statements
}

#[test]
fn statements_may_end_anywhere() {
    for sql in statements() {
        for (at, _) in sql.char_indices() {
            check(&sql[..at]);
            check(&sql[at..]);
        }
    }
}

/// Words that the grammar decides by.
const WORDS: &[&str] = &[
    "select",
    "from",
    "where",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "*",
    "a",
    "b",
    "1",
    "1.5",
    "'x'",
    "e'\\n'",
    "u&'\\0041'",
    "\"q\"",
    "$1",
    "$$d$$",
    "b'1'",
    "x'f'",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "like",
    "between",
    "similar",
    "to",
    "escape",
    "+",
    "-",
    "=",
    "<",
    "<>",
    "::",
    ":",
    ":=",
    "=>",
    "||",
    "@",
    "operator",
    "cast",
    "as",
    "int",
    "double",
    "precision",
    "interval",
    "day",
    "second",
    "timestamp",
    "with",
    "time",
    "zone",
    "at",
    "case",
    "when",
    "then",
    "else",
    "end",
    "array",
    "row",
    "exists",
    "any",
    "all",
    "distinct",
    "on",
    "group",
    "by",
    "order",
    "limit",
    "offset",
    "fetch",
    "first",
    "rows",
    "only",
    "ties",
    "union",
    "except",
    "intersect",
    "values",
    "table",
    "join",
    "left",
    "natural",
    "using",
    "cross",
    "lateral",
    "over",
    "partition",
    "range",
    "unbounded",
    "preceding",
    "filter",
    "within",
    "window",
    "for",
    "update",
    "insert",
    "into",
    "default",
    "delete",
    "set",
    "returning",
    "conflict",
    "do",
    "create",
    "primary",
    "key",
    "references",
    "check",
    "unique",
    "generated",
    "always",
    "identity",
    "index",
    "view",
    "sequence",
    "procedure",
    "begin",
    "atomic",
    ";",
    "alter",
    "add",
    "column",
    "drop",
    "rename",
    "constraint",
    "type",
    "copy",
    "stdin",
    "format",
    "explain",
    "analyze",
    "declare",
    "cursor",
    "grant",
    "function",
    "xmltable",
    "overlaps",
    "substring",
    "trim",
    "extract",
    "position",
    "collate",
    "current_date",
    "current_schema",
    "variadic",
    "recursive",
    "--",
    "/*",
    "*/",
    "'",
    "\"",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_characters(text in "\\PC{0,60}") {
        check(&text);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words(words in proptest::collection::vec(0..WORDS.len(), 0..30)) {
        let words: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        check(&words.join(" "));
    }

    #[test]
    fn statements_with_a_word_more(which in any::<proptest::sample::Index>(), at in any::<proptest::sample::Index>(),
        word in 0..WORDS.len())
    {
        let statements = statements();
        let sql = which.get(&statements);
        let spaces: Vec<usize> = sql.match_indices(' ').map(|(at, _)| at).collect();
        if !spaces.is_empty() {
            let at = *at.get(&spaces);
            check(&format!("{} {} {}", &sql[..at], WORDS[word], &sql[at..]));
        }
    }
}

/// Deep texts are refused, or parsed and dropped, on the stack of a test.
#[test]
fn depth_is_bounded() {
    let deep = |open: &str, inner: &str, close: &str, times: usize| {
        format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
    };
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("- ", "1", ""),
        ("NOT ", "a", ""),
        ("@ ", "1", ""),
        ("f(", "1", ")"),
        ("CASE WHEN ", "a", " THEN 1 END"),
        ("(SELECT ", "1", ")"),
        ("ARRAY[", "1", "]"),
        ("a[", "1", "]"),
        ("a = NOT ", "a", ""),
        ("ROW(", "1", ")"),
        ("1 IN (", "1", ")"),
        ("EXISTS (SELECT ", "1", ")"),
        ("1 BETWEEN (", "1", ") AND 2"),
        ("sum(1) OVER (ORDER BY ", "1", ")"),
    ] {
        assert!(parse(&deep(open, inner, close, 300)).is_ok(), "{open}");
        let state = parse(&deep(open, inner, close, 100_000)).unwrap_err().kind.sqlstate();
        assert_eq!(state, "54001", "{open}");
    }
    for (first, link) in [
        ("1", " + 1"),
        ("1", "::int"),
        ("1", " IS NULL"),
        ("a", " COLLATE \"C\""),
        ("1", " || 1"),
        // Their trees are lists, but not what is made of them.
        ("1", " INTERSECT SELECT 1"),
        ("1", " EXCEPT SELECT 1"),
    ] {
        assert!(parse(&format!("SELECT {first}{}", link.repeat(4000))).is_ok(), "{link}");
        let state = parse(&format!("SELECT {first}{}", link.repeat(100_000))).unwrap_err().kind.sqlstate();
        assert_eq!(state, "54001", "{link}");
    }
    // What makes a list is not deep.
    for link in [" AND a", " OR a", ", a", " UNION SELECT 1", " UNION SELECT 1 INTERSECT SELECT 1"] {
        let parsed = parse(&format!("SELECT a{}", link.repeat(100_000))).unwrap();
        assert!(parsed[0].nesting < 10, "{link}");
    }
    for from in ["(", "(a JOIN ("] {
        let state = parse(&format!("SELECT 1 FROM {}", from.repeat(100_000))).unwrap_err().kind.sqlstate();
        assert_eq!(state, "54001");
    }
    assert!(parse(&format!("SELECT 1 FROM a{}", " CROSS JOIN b".repeat(4000))).is_ok());
}

#[test]
fn statements_are_cut_at_semicolons() {
    let texts = |sql: &str| -> Vec<String> {
        parse(sql).unwrap().into_iter().map(|parsed| sql[parsed.range].to_owned()).collect()
    };
    assert_eq!(texts(" ; -- nothing\n /* ; */ ;"), [""; 0]);
    assert_eq!(texts("SELECT ';' ; SELECT \"a;b\" FROM t;"), ["SELECT ';'", "SELECT \"a;b\" FROM t"]);
    let procedure = "CREATE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END";
    assert_eq!(texts(&format!("{procedure}; SELECT 3")), [procedure, "SELECT 3"]);
    let function = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END";
    assert_eq!(texts(&format!("{function}; SELECT 3")), [function, "SELECT 3"]);
}

/// Parts of statements that the SQL crate's scripts run and PostgreSQL's grammar refuses: reserved words as names, NOT in a DEFAULT
/// without parentheses, the data of COPY, and strings of another setting of standard_conforming_strings.
const REFUSED: &[&str] = &["--data", "myapp.user", "AS both", "NOT NOT true", r"a\\b\'cd", r"'a\'b'"];

/// Statements that the SQL crate's scripts run are parsed.
#[test]
fn scripts_of_the_sql_crate_are_parsed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gnomon-sql/tests/slt");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for record in text.split("\n\n") {
            let mut lines = record.lines().skip_while(|line| line.starts_with('#'));
            let Some(head) = lines.next() else { continue };
            let runs =
                head.starts_with("statement ok") || head.starts_with("query") && !head.contains("error");
            if !runs {
                continue;
            }
            let sql: Vec<&str> = lines.take_while(|line| !line.starts_with("----")).collect();
            let sql = sql.join("\n");
            if REFUSED.iter().any(|part| sql.contains(part)) {
                continue;
            }
            match parse(&sql) {
                Err(error) => panic!("{}: {error} at {:?} of {sql}", path.display(), error.position),
                Ok(parsed) => {
                    let refused =
                        parsed.iter().find(|one| matches!(one.statement, Statement::Unsupported(_)));
                    assert!(refused.is_none(), "{}: {refused:?} of {sql}", path.display());
                }
            }
            count += 1;
        }
    }
    assert!(count > 1500, "{count}");
}

/// Printing gives a text with the same tree.
#[test]
fn printed_queries_have_the_same_tree() {
    let mut count = 0;
    for sql in statements() {
        let Ok(parsed) = parse(&sql) else { continue };
        for one in &parsed {
            let printed = match &one.statement {
                Statement::Query(query) => query.to_string(),
                Statement::Insert(insert) => insert.to_string(),
                Statement::Update(update) => update.to_string(),
                Statement::Delete(delete) => delete.to_string(),
                _ => continue,
            };
            let again = parse(&printed).unwrap_or_else(|error| panic!("{error} in {printed}"));
            assert_eq!(again[0].statement, one.statement, "{printed}");
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
}

/// Words that may name anything, in places where they begin a clause when they are not in quotes.
#[test]
fn names_that_begin_clauses_are_printed_in_quotes() {
    let words =
        ["partition", "range", "rows", "groups", "recursive", "rollup", "cube", "sets", "search", "cycle"];
    for word in words {
        for sql in [
            format!(
                "SELECT sum(a) OVER (\"{word}\" ORDER BY b) FROM t WINDOW \"{word}\" AS (PARTITION BY c)"
            ),
            format!(
                "SELECT sum(a) OVER \"{word}\" FROM t WINDOW \"{word}\" AS (), x AS (\"{word}\" ROWS 1 PRECEDING)"
            ),
            format!("SELECT 1 FROM t GROUP BY \"{word}\"(a), (\"{word}\"(a, b))"),
            format!("WITH \"{word}\" AS (SELECT 1), \"{word}\" (\"{word}\") AS (SELECT 1) TABLE \"{word}\""),
            format!(
                "WITH RECURSIVE \"{word}\" AS (SELECT 1) SELECT \"{word}\" \"{word}\" FROM \"{word}\" \"{word}\""
            ),
            format!(
                "SELECT \"{word}\".\"{word}\", (\"{word}\").\"{word}\", \"{word}\"[1] FROM \"{word}\"(1) AS \"{word}\" (\"{word}\")"
            ),
        ] {
            let printed = |sql: &str| match &parse(sql).unwrap_or_else(|error| panic!("{error} in {sql}"))[0]
                .statement
            {
                Statement::Query(query) => (query.to_string(), query.clone()),
                other => panic!("{other:?}"),
            };
            let (text, tree) = printed(&sql);
            assert_eq!(printed(&text).1, tree, "{sql} as {text}");
        }
    }
}
